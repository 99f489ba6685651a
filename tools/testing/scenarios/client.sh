# SPDX-License-Identifier: GPL-2.0
# /dev/kofi and /dev/kofi_perf for processes: client.sh DEVICE [REQUESTS], the number of malformed requests.
requests=${2:-2000}

device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
need_module kofi_perf
CLIENT=$KOFI/bin/kofi
refused() {
	words=$1
	shift
	! "$CLIENT" "$@" 2>/run/refusal && grep -q "$words" /run/refusal
}
# The first test loads kofi_perf.ko, or the client says what to do.
modprobe=$(cat /proc/sys/kernel/modprobe)
echo /bin/false >/proc/sys/kernel/modprobe
check perf_cannot_be_loaded refused "modprobe kofi_perf" pingpong "$ADDRESS" -p 7490
echo "$modprobe" >/proc/sys/kernel/modprobe
check perf_is_not_loaded_yet [ ! -e /dev/kofi_perf ]
check perf_is_loaded_on_demand eval 'refused "Connection refused" pingpong "$ADDRESS" -p 7490 && loaded kofi_perf'
check_program dev_calls "$ADDRESS"
for program in dev_tests dev_clients dev_by_hand; do
	check_program $program "$ADDRESS" "$1"
done
# What is printed is what the device is.
lists() { "$CLIENT" info "$@" >/run/offers && cat /run/offers; }
check info eval 'lists | grep -q "^verbs .* $DEVICE .*\(rdma_cm_ib_rc\|iwarp\)"'
check info_with_an_address eval 'lists --source $ADDRESS 7471 | grep -q " $ADDRESS:7471 "'
check info_verbose eval 'lists -v -d $DEVICE | grep -q "^        name: $DEVICE\$"'
check info_json eval 'lists --json -c msg,rma | grep -q "\"name\": \"$DEVICE\""'
ip netns add elsewhere || fail "no namespace"
elsewhere() { ip netns exec elsewhere "$@"; }
check info_elsewhere eval '! elsewhere "$CLIENT" info --source $ADDRESS 7471'
ip netns del elsewhere
check info_of_nothing refused "no device offers" info -c multicast
check info_of_a_name_that_is_none refused "there are: .*FI_MSG\|there are: .*msg" info -c banana
# What it prints, which is to be seen where it is not what is looked for.
printed() {
	"$CLIENT" "$@" >/run/printed || { cat /run/printed >&2 && return 1; }
	cat /run/printed
}
check selftest eval 'printed selftest -p 7488 -d $DEVICE | grep -q "^kOFI works here"'
check selftest_of_none refused "no device offers this" selftest -d nothing0
check versions eval '"$CLIENT" version | grep -q "^abi: 2"'

# Tests between kernels, here one with itself.
serve() {
	# What the last one said is not to be taken for this one's.
	rm -f /run/serving
	"$CLIENT" server "$ADDRESS" -p "$1" >/run/serving &
	server=$!
	eventually 30 grep -qs serving /run/serving || fail "no server"
}
serve 7490
check pingpong eval 'printed pingpong $ADDRESS -p 7490 -s 64,4K -n 20 --verify | grep -q "^ *4K  *20 "'
check histogram eval 'printed pingpong $ADDRESS -p 7490 -n 20 --histogram --svg /run/svg | grep -q "█"'
check svg grep -q "</svg>" /run/svg
check bw eval 'printed bw $ADDRESS -p 7490 -s 1K -n 100 --verify --json | grep -q "\"messages\": 100"'
check bw_write eval 'printed bw $ADDRESS -p 7490 -o write -s 1,1K,64K -n 100 --verify | grep -q "^ *64K  *16  *100 "'
# More than any server lends, which both know.
check bw_large eval 'printed bw $ADDRESS -p 7490 -o write -s 1M -w 64 -n 4 --verify | grep -q "^ *1M  *64  *4 "'
check bw_read eval 'printed bw $ADDRESS -p 7490 -o read -s 1,1K,64K -n 100 --verify | grep -q "^ *64K  *16  *100 "'
# Each operation has its model here; on the device, what it has itself, and what takes several requests.
change() { printed atomic "$ADDRESS" -p 7490 -n 20 --verify "$@"; }
case $1 in
siw) check atomic refused "Nothing matches" atomic "$ADDRESS" -p 7490 ;;
*)
	others=min,max,prod,lor,land,bor,band,lxor,bxor,atomic_read,atomic_write
	compares=cswap,cswap_ne,cswap_le,cswap_lt,cswap_ge,cswap_gt,mswap
	check atomic eval '[ "$(change -o sum,$others,$compares | grep -c "  20  ")" = 19 ]'
	types=int8,uint8,int16,uint16,int32,uint32,int64,uint64
	check atomic_types eval '[ "$(change -o min,cswap_lt --type $types -e 3 | grep -c "  20  ")" = 16 ]'
	check atomic_of_none refused "there are: .*cswap" atomic "$ADDRESS" -o divide
	check atomic_of_floats refused "not every type has operations" atomic "$ADDRESS" --type float
	;;
esac
# The same beside verbs: every operation that both have, both rounds.
compared() { printed compare "$ADDRESS" -p 7490 -s 64,4K -r 2 -t 0.05 "$@"; }
[ "$1" = siw ] && rows=8 || rows=9
check compare eval '[ "$(compared | grep -c " to ")" = $rows ]'
check compare_json eval 'compared -o read --json | grep -c "\"rounds\": 2" | grep -qx 2'
by_hand="-p 7490 --verbs --verify"
check by_hand eval 'printed pingpong $ADDRESS $by_hand -s 1,64K -n 5 | grep -q "^ *64K  *5 "'
for operation in send write read; do
	check by_hand_$operation eval 'printed bw $ADDRESS $by_hand -o $operation -s 1,64K -n 20 | grep -q "^ *64K  *16  *20 "'
done
if [ "$1" != siw ]; then
	check by_hand_atomic eval '[ "$(change --verbs -o sum,cswap | grep -c "  20  ")" = 2 ]'
	check by_hand_not_all refused "verbs have few of them" atomic "$ADDRESS" $by_hand -o min
fi
check no_server_by_hand refused "Connection refused" pingpong "$ADDRESS" -p 7491 --verbs
kill -INT $server
check server wait $server
check server_tells grep -q "clients, [0-9]* messages, .* 0 damaged" /run/serving

# What others say to it is counted, refused, or the end of their connection alone.
if has_module kofi_kunit; then
	serve 7491
	load kofi_kunit addr="$ADDRESS" test_server=7491 || fail "kofi_kunit.ko does not load"
	run_suites kofi_stranger
	unload kofi_kunit
	check after_strangers eval 'printed pingpong $ADDRESS -p 7491 -n 20 --verify | grep -q "^ *64  *20 "'
	kill -INT $server
	wait $server
	check damage_is_told grep -q "^7 clients, 24 messages, .* 2 damaged" /run/serving
fi
check no_server refused "Connection refused" pingpong "$ADDRESS" -p 7490

# Several at once, and one more than there is room for: proof would take minutes for that, and has had as
# many in dev_clients.
[ "$PATIENCE" -gt 1 ] && most=4 || most=16
serve 7490
crowd=
for client in $(seq $most); do
	"$CLIENT" pingpong "$ADDRESS" -p 7490 -s 1 --time 300 >/run/crowd.$client 2>&1 &
	crowd="$crowd $!"
done
are_there() { [ "$("$CLIENT" ls -o kofi -k ep | grep -c "ep .* connected")" = "$1" ]; }
check several_at_once eval 'eventually 60 are_there $((2 * most)) || { tail -n 1 /run/crowd.*; false; }'
# siw does not always read why.
[ "$1" = siw ] && why=refused || why="refused: the server has as many"
[ $most = 4 ] || check one_too_many refused "$why" pingpong "$ADDRESS" -p 7490
check beside_them eval 'printed pingpong $ADDRESS -p 7490 --verbs -n 5 | grep -q "^ *64  *5 "'
kill -INT $server
check server_of_many wait $server
lost=0
for client in $crowd; do
	wait $client || lost=$((lost + 1))
done
check all_of_them_are_told [ $lost = $most ]
[ $most = 4 ] && turned_away= || turned_away=", 1 turned away"
check server_tells_of_all grep -q "^$((most + 1)) clients, .* 0 damaged$turned_away$" /run/serving

# A device that goes takes its tests along, and waits for no more than that.
serve 7490
"$CLIENT" pingpong "$ADDRESS" -p 7490 --time 300 >/run/over_fabric 2>&1 &
over_fabric=$!
"$CLIENT" bw "$ADDRESS" -p 7490 --time 300 >/run/beside 2>&1 &
beside=$!
"$CLIENT" pingpong "$ADDRESS" -p 7490 --time 300 --verbs >/run/by_hand 2>&1 &
by_hand=$!
interface=$(/usr/bin/rdma link show "$DEVICE/1" | sed 's/.*netdev \([^ ]*\).*/\1/')
sleep 1
check removal timeout -s KILL $((60 * PATIENCE)) /usr/bin/rdma link del "$DEVICE"
check removal_over_fabric eval '! wait $over_fabric && grep -q pingpong /run/over_fabric'
check removal_beside_it eval '! wait $beside && grep -q "bw with" /run/beside'
check removal_by_hand eval '! wait $by_hand && grep -q pingpong /run/by_hand'
kill -INT $server 2>/dev/null
wait $server
rdma link add "$DEVICE" type "$1" netdev "$interface" && link_active "$DEVICE" || fail "$DEVICE does not come back"

check fuzz "$KOFI/bin/dev_fuzz" "$requests" 1

# An open file keeps its module loaded.
exec 3<>/dev/kofi_perf || fail "/dev/kofi_perf does not open"
check perf_busy_while_open eval '! rmmod kofi_perf 2>/run/said_of_rmmod && grep -qi "in use\|unavailable" /run/said_of_rmmod'
exec 3>&-
unload kofi_perf || fail "kofi_perf.ko does not unload"
check perf_gone_with_its_module [ ! -e /dev/kofi_perf ]
exec 3<>/dev/kofi || fail "/dev/kofi does not open"
check busy_while_open eval '! rmmod kofi 2>/run/said_of_rmmod && grep -qi "in use\|unavailable" /run/said_of_rmmod'
exec 3>&-
unload kofi || fail "kofi.ko does not unload"
check gone_with_the_module [ ! -e /dev/kofi ]
check client_without_a_module refused "modprobe kofi" info
