# SPDX-License-Identifier: GPL-2.0
# objects.sh DEVICE: checks the list of open objects in `kofi ls` and in debugfs, which have to be the same.
require_modules kofi_perf msg_server av_ranks
CLIENT=$KOFI/bin/kofi
TREE=/sys/kernel/debug/kofi/objects

device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
listed() { "$CLIENT" ls "$@" >/run/listed && cat /run/listed; }
check ls_without_consumers_is_empty eval '[ "$(listed)" = "nothing is open" ]'
check debugfs_without_consumers_is_empty [ ! -s "$TREE" ]

# A server, and a client that runs until it is killed.
load msg_server addr="$ADDRESS" || fail "msg_server.ko does not load"
await 30 "msg_server: ready" || fail "msg_server does not start"
check ls_shows_the_server eval 'listed | grep -q "^fabric .* of msg_server$"'
check ls_shows_the_listening_pep eval 'listed -k pep | grep -q "pep .* listening .*:7471"'
rm -f /run/serving
"$CLIENT" server "$ADDRESS" -p 7493 >/run/serving &
server=$!
eventually 30 grep -qs serving /run/serving || fail "the server of the client does not start"
"$CLIENT" pingpong "$ADDRESS" -p 7493 -t 60 >/dev/null &
client=$!
connected() { [ "$(listed -o kofi -k ep | grep -c "ep .* connected")" = 2 ]; }
check both_ends_are_connected eventually 30 connected
check ls_names_the_owner_process eval 'listed | grep -q "^fabric .* of kofi $client$"'
check ls_selects_by_domain_and_owner eval '[ "$(listed -d "$DEVICE" -o kofi | grep -c "domain .* $DEVICE")" = 2 ]'
check endpoints_name_each_other_as_peers eval \
	'listed -o kofi -k ep | sed -n "s/.* connected  \([^ ]*\) - \([^ ]*\) .*/\1 \2\n\2 \1/p" | sort | uniq -d | wc -l | grep -qx 2'
check ls_json_has_the_state eval 'listed --json | grep -q "\"state\": \"connected\""'
# debugfs has the same objects in the same order.
of_client() { listed | sed "s/[│├└─]//g" | awk '{ print $1, $2 }'; }
of_debugfs() { awk '{ print $1, $2 }' "$TREE"; }
trees_match() { [ -n "$(of_client)" ] && [ "$(of_client)" = "$(of_debugfs)" ]; }
check debugfs_matches_ls trees_match
# Operation counters: each end has sent and received the same number of messages.
counts() { awk '/^ *ep / { for (at = 1; at <= NF; at++) if ($at ~ "^" what "=") { sub(".*=", "", $at); print $at } }' what="$1" "$TREE"; }
sends_advance() { [ "$(counts sends | sort -n | tail -n 1)" -gt 100 ]; }
check sends_are_counted eventually 30 sends_advance
# counts_match: compares the counters with a tolerance of 64, as the traffic continues and receives are posted before
# their messages arrive.
counts_match() {
	awk 'function far(a, b) { return a - b > 64 || b - a > 64 }
		/^ *ep .* connected / {
			for (at = 1; at <= NF; at++) if (split($at, pair, "=") == 2) has[NR, pair[1]] = pair[2]
			wrong += far(has[NR, "receives"], has[NR, "sends"]) || far(has[NR, "rx_done"], has[NR, "tx_done"])
			wrong += far(has[NR, "tx_bytes"] / 64, has[NR, "sends"]) || far(has[NR, "rx_bytes"] / 64, has[NR, "rx_done"])
			ends++
		}
		END { exit ends != 2 || wrong }' "$TREE"
}
check sends_and_receives_are_counted_alike counts_match
# No completion queue lost an entry.
check completion_queues_have_no_overruns eval '[ "$(grep -c "^ *cq .* overruns=0\( \|$\)" "$TREE")" = "$(grep -c "^ *cq " "$TREE")" ]'
check stat_once_lists_the_endpoint eval '"$CLIENT" stat --once | tee /run/stat | grep -q "^ *[0-9]* *kofi $client .* connected .*:7493 "'
check stat_once_lists_the_queues grep -q "^ *[0-9]* *kofi $client  *$DEVICE  *[0-9]*  *[0-9.k]*  *0  *0  *0$" /run/stat
check stat_prints_each_update eval '"$CLIENT" stat -n 2 -i 0.2 | tee /run/stat | grep -c "sends/s" | grep -qx 2'
check stat_shows_rates eval 'awk "/connected/ { print \$9 }" /run/stat | grep -q "[1-9]"'
check stat_json_has_rates eval '"$CLIENT" stat -n 1 -i 0.2 --json | grep -q "\"rates\":{.*\"sends\":[1-9]"'
check unknown_owner_has_no_objects eval '[ "$(listed -o nobody_at_all)" = "nothing is open" ]'
check unknown_kind_lists_the_known_ones eval '! "$CLIENT" ls -k banana 2>/run/refusal && grep -q "there are: fabric" /run/refusal'
# Another namespace has none of the objects.
ip netns add other || fail "the namespace cannot be created"
check ls_in_another_namespace_is_empty eval '[ "$(ip netns exec other "$CLIENT" ls)" = "nothing is open" ]'
ip netns del other

kill -INT $client
wait $client
# The server closes its endpoint on the shutdown event; its passive endpoint stays.
endpoints_are_closed() { [ -z "$(listed -o kofi -k ep | grep "ep ")" ]; }
check endpoints_close_with_the_connection eventually 30 endpoints_are_closed
# The byte counter matches the number of writes.
"$CLIENT" bw "$ADDRESS" -p 7493 -o write -s 1K -t 60 >/dev/null &
client=$!
written() { [ "$(counts writes | sort -n | tail -n 1)" -gt 1000 ]; }
check writes_are_counted eventually 30 written
bytes_match() {
	"$CLIENT" stat --once --json | tr , "\n" | sed -n "s/.*\"writes\":\([1-9][0-9]*\).*/writes \1/p; s/.*\"tx_bytes\":\([0-9]*\).*/bytes \1/p" |
		awk '$1 == "writes" { writes = $2 } $1 == "bytes" && writes { off = $2 / 1024 - writes; exit off > 64 || off < -64 }'
}
check bytes_match_the_writes bytes_match
kill -INT $client
wait $client
kill -INT $server
check server_stops_on_ctrl_c wait $server
check process_leaves_no_objects eval '[ "$(listed -o kofi)" = "nothing is open" ]'
# The ranks and their master share an address vector.
vector() { listed -o av_ranks -k av | sed -n "s/.*av \([0-9]*\) .*addresses 101\$/\1/p" | head -n 1; }
list_vector() { id=$(vector) && [ -n "$id" ] && "$CLIENT" av "$id" >/run/addresses && [ "$(wc -l </run/addresses)" = 103 ]; }
load av_ranks addr="$ADDRESS" ranks=100 || fail "av_ranks.ko does not load"
await 60 "av_ranks: .*ranks=100 errors=0" || fail "av_ranks does not finish without errors"
check av_lists_all_addresses list_vector
check av_lists_the_fi_addr_of_an_address grep -q "^ *0x63  *$ADDRESS:[0-9]*  *1  *-\$" /run/addresses
unload av_ranks || fail "av_ranks.ko does not unload"
check av_of_a_closed_vector_is_an_error eval '! "$CLIENT" av "$id" 2>/run/refusal && grep -q "no object $id" /run/refusal'
unload msg_server || fail "msg_server.ko does not unload"
check consumers_leave_no_objects eval '[ "$(listed)" = "nothing is open" ] && [ ! -s "$TREE" ]'
unload kofi_perf kofi || fail "the modules do not unload"
check debugfs_is_removed_with_the_module [ ! -e "$TREE" ]
