# SPDX-License-Identifier: GPL-2.0
# client.sh DEVICE [REQUESTS]: tests the client, /dev/kofi and /dev/kofi_perf, with REQUESTS malformed ioctls.
requests=${2:-2000}

device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
require_modules kofi_perf
CLIENT=$KOFI/bin/kofi
# refused PATTERN ARGUMENT...: checks that the client fails with an error that matches the pattern.
refused() {
	pattern=$1
	shift
	! "$CLIENT" "$@" 2>/run/refusal && grep -q "$pattern" /run/refusal
}
# The client loads kofi_perf.ko at its first test. If modprobe fails, it prints the command.
modprobe=$(cat /proc/sys/kernel/modprobe)
echo /bin/false >/proc/sys/kernel/modprobe
check missing_perf_module_is_reported refused "modprobe kofi_perf" pingpong "$ADDRESS" -p 7490
echo "$modprobe" >/proc/sys/kernel/modprobe
check perf_is_not_loaded_yet [ ! -e /dev/kofi_perf ]
check perf_is_loaded_on_demand eval 'refused "Connection refused" pingpong "$ADDRESS" -p 7490 && loaded kofi_perf'
check_program dev_calls "$ADDRESS"
for program in dev_tests dev_clients dev_raw_verbs; do
	check_program $program "$ADDRESS" "$1"
done
# kofi info prints the attributes of the device.
lists() { "$CLIENT" info "$@" >/run/offers && cat /run/offers; }
check info_lists_the_device eval 'lists | grep -q "^verbs .* $DEVICE .*\(rdma_cm_ib_rc\|iwarp\)"'
check info_source_shows_the_address eval 'lists --source $ADDRESS 7471 | grep -q " $ADDRESS:7471 "'
check info_verbose_shows_the_domain_name eval 'lists -v -d $DEVICE | grep -q "^        name: $DEVICE\$"'
check info_json_has_the_domain_name eval 'lists --json -c msg,rma | grep -q "\"name\": \"$DEVICE\""'
ip netns add other || fail "the namespace cannot be created"
in_other_namespace() { ip netns exec other "$@"; }
finds_nothing() { ! in_other_namespace "$CLIENT" info "$@" 2>/run/refusal && grep -q "no device offers this" /run/refusal; }
check info_finds_no_device_in_another_namespace finds_nothing --source "$ADDRESS" 7471
ip netns del other
check info_without_a_match_is_an_error refused "no device offers" info -c multicast
check info_unknown_capability_lists_the_known_ones refused "there are: .*FI_MSG\|there are: .*msg" info -c banana
# printed ARGUMENT...: runs the program and prints its output, which the log shows if the program fails.
printed() {
	"$CLIENT" "$@" >/run/printed || { cat /run/printed >&2 && return 1; }
	cat /run/printed
}
check selftest_passes eval 'printed selftest -p 7488 -d $DEVICE | grep -q "^kOFI works here"'
check selftest_of_an_unknown_device_is_an_error refused "no device offers this" selftest -d nothing0
check version_shows_the_abi eval '"$CLIENT" version | grep -q "^abi: 2"'

# Tests between two hosts, with both ends on this one. serve PORT: starts a server.
serve() {
	# The output of the previous server must not match.
	rm -f /run/serving
	"$CLIENT" server "$ADDRESS" -p "$1" >/run/serving &
	server=$!
	eventually 30 grep -qs serving /run/serving || fail "the server does not start"
}
serve 7490
check pingpong_verifies_each_size eval 'printed pingpong $ADDRESS -p 7490 -s 64,4K -n 20 --verify | grep -q "^ *4K  *20 "'
check pingpong_prints_a_histogram eval 'printed pingpong $ADDRESS -p 7490 -n 20 --histogram --svg /run/svg | grep -q "█"'
check pingpong_writes_an_svg_file grep -q "</svg>" /run/svg
check bw_sends_and_verifies eval 'printed bw $ADDRESS -p 7490 -s 1K -n 100 --verify --json | grep -q "\"messages\": 100"'
check bw_writes_and_verifies eval 'printed bw $ADDRESS -p 7490 -o write -s 1,1K,64K -n 100 --verify | grep -q "^ *64K  *16  *100 "'
# A window that is larger than a server's memory: both ends reduce it.
check bw_writes_a_large_window eval 'printed bw $ADDRESS -p 7490 -o write -s 1M -w 64 -n 4 --verify | grep -q "^ *1M  *64  *4 "'
check bw_reads_and_verifies eval 'printed bw $ADDRESS -p 7490 -o read -s 1,1K,64K -n 100 --verify | grep -q "^ *64K  *16  *100 "'
# Atomic operations, natively or by a compare-and-swap loop. The client verifies each result.
atomic() { printed atomic "$ADDRESS" -p 7490 -n 20 --verify "$@"; }
case $1 in
siw) check atomic_is_refused_without_support refused "Nothing matches" atomic "$ADDRESS" -p 7490 ;;
*)
	others=min,max,prod,lor,land,bor,band,lxor,bxor,atomic_read,atomic_write
	compares=cswap,cswap_ne,cswap_le,cswap_lt,cswap_ge,cswap_gt,mswap
	check atomic_runs_every_operation eval '[ "$(atomic -o sum,$others,$compares | grep -c "  20  ")" = 19 ]'
	types=int8,uint8,int16,uint16,int32,uint32,int64,uint64
	check atomic_runs_on_every_datatype eval '[ "$(atomic -o min,cswap_lt --type $types -e 3 | grep -c "  20  ")" = 16 ]'
	check atomic_unknown_operation_lists_the_known_ones refused "there are: .*cswap" atomic "$ADDRESS" -o divide
	check atomic_unsupported_datatype_is_refused refused "not every type has operations" atomic "$ADDRESS" --type float
	;;
esac
# Comparisons with raw verbs: every operation that both have, in two rounds.
compared() { printed compare "$ADDRESS" -p 7490 -s 64,4K -r 2 -t 0.05 "$@"; }
[ "$1" = siw ] && rows=8 || rows=9
check compare_has_every_row eval '[ "$(compared | grep -c " to ")" = $rows ]'
check compare_json_has_the_rounds eval 'compared -o read --json | grep -c "\"rounds\": 2" | grep -qx 2'
verbs="-p 7490 --verbs --verify"
check verbs_pingpong_sends_each_size eval 'printed pingpong $ADDRESS $verbs -s 1,64K -n 5 | grep -q "^ *64K  *5 "'
for operation in send write read; do
	check verbs_bw_$operation eval 'printed bw $ADDRESS $verbs -o $operation -s 1,64K -n 20 | grep -q "^ *64K  *16  *20 "'
done
if [ "$1" != siw ]; then
	check verbs_atomic_runs_sum_and_cswap eval '[ "$(atomic --verbs -o sum,cswap | grep -c "  20  ")" = 2 ]'
	check verbs_atomic_refuses_other_operations refused "verbs have few of them" atomic "$ADDRESS" $verbs -o min
fi
check verbs_pingpong_without_a_server_is_refused refused "Connection refused" pingpong "$ADDRESS" -p 7491 --verbs
kill -INT $server
check server_stops_on_ctrl_c wait $server
check server_prints_totals grep -q "clients, [0-9]* messages, .* 0 damaged" /run/serving

# Invalid data of a client is counted, refused, or ends the connection of this client only.
if has_module kofi_kunit; then
	serve 7491
	load kofi_kunit addr="$ADDRESS" test_server=7491 || fail "kofi_kunit.ko does not load"
	run_suites kofi_perf_server
	unload kofi_kunit
	check server_works_after_invalid_clients eval 'printed pingpong $ADDRESS -p 7491 -n 20 --verify | grep -q "^ *64  *20 "'
	kill -INT $server
	wait $server
	check server_counts_damaged_messages grep -q "^7 clients, 24 messages, .* 2 damaged" /run/serving
fi
check pingpong_without_a_server_is_refused refused "Connection refused" pingpong "$ADDRESS" -p 7490

# Concurrent clients up to the limit, and one more. On slow lanes this takes minutes; dev_clients tests the limit
# there.
[ "$TIMEOUT_FACTOR" -gt 1 ] && most=4 || most=16
serve 7490
clients=
for client in $(seq $most); do
	"$CLIENT" pingpong "$ADDRESS" -p 7490 -s 1 --time 300 >/run/clients.$client 2>&1 &
	clients="$clients $!"
done
endpoints_are_connected() { [ "$("$CLIENT" ls -o kofi -k ep | grep -c "ep .* connected")" = "$1" ]; }
check server_runs_clients_concurrently eval 'eventually 60 endpoints_are_connected $((2 * most)) || { tail -n 1 /run/clients.*; false; }'
# siw does not always deliver the reason.
[ "$1" = siw ] && why=refused || why="refused: the server has as many"
[ $most = 4 ] || check server_refuses_clients_over_the_limit refused "$why" pingpong "$ADDRESS" -p 7490
check verbs_client_runs_beside_fabric_clients eval 'printed pingpong $ADDRESS -p 7490 --verbs -n 5 | grep -q "^ *64  *5 "'
kill -INT $server
check server_stops_with_connected_clients wait $server
lost=0
for client in $clients; do
	wait $client || lost=$((lost + 1))
done
check clients_fail_when_the_server_stops [ $lost = $most ]
[ $most = 4 ] && turned_away= || turned_away=", 1 turned away"
check server_totals_count_all_clients grep -q "^$((most + 1)) clients, .* 0 damaged$turned_away$" /run/serving

# The removal of a device stops the tests that use it.
serve 7490
"$CLIENT" pingpong "$ADDRESS" -p 7490 --time 300 >/run/over_fabric 2>&1 &
over_fabric=$!
"$CLIENT" bw "$ADDRESS" -p 7490 --time 300 >/run/beside 2>&1 &
beside=$!
"$CLIENT" pingpong "$ADDRESS" -p 7490 --time 300 --verbs >/run/over_verbs 2>&1 &
over_verbs=$!
interface=$(netdev_of "$DEVICE")
sleep 1
check device_is_removed_during_tests timeout -s KILL $((60 * TIMEOUT_FACTOR)) /usr/bin/rdma link del "$DEVICE"
check device_removal_stops_pingpong eval '! wait $over_fabric && grep -q pingpong /run/over_fabric'
check device_removal_stops_bw eval '! wait $beside && grep -q "bw with" /run/beside'
check device_removal_stops_verbs_pingpong eval '! wait $over_verbs && grep -q pingpong /run/over_verbs'
kill -INT $server 2>/dev/null
wait $server
rdma link add "$DEVICE" type "$1" netdev "$interface" && link_active "$DEVICE" || fail "$DEVICE does not come back"

check fuzzed_ioctls_are_survived "$KOFI/bin/dev_fuzz" "$requests" 1

# An open file keeps its module loaded.
exec 3<>/dev/kofi_perf || fail "/dev/kofi_perf does not open"
check open_file_keeps_perf_loaded eval '! rmmod kofi_perf 2>/run/rmmod && grep -qi "in use\|unavailable" /run/rmmod'
exec 3>&-
unload kofi_perf || fail "kofi_perf.ko does not unload"
check perf_device_is_removed_with_its_module [ ! -e /dev/kofi_perf ]
exec 3<>/dev/kofi || fail "/dev/kofi does not open"
check open_file_keeps_kofi_loaded eval '! rmmod kofi 2>/run/rmmod && grep -qi "in use\|unavailable" /run/rmmod'
exec 3>&-
unload kofi || fail "kofi.ko does not unload"
check kofi_device_is_removed_with_its_module [ ! -e /dev/kofi ]
check client_reports_a_missing_module refused "modprobe kofi" info
