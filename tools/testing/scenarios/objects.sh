# SPDX-License-Identifier: GPL-2.0
# What is open, as those see it who look: objects.sh DEVICE. The program, the device and debugfs agree.
need_module kofi_perf msg_server av_ranks
CLIENT=$KOFI/bin/kofi
TREE=/sys/kernel/debug/kofi/objects

device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
listed() { "$CLIENT" ls "$@" >/run/listed && cat /run/listed; }
check nothing_is_open eval '[ "$(listed)" = "nothing is open" ]'
check nothing_in_debugfs [ ! -s "$TREE" ]

# A server and a client that stays, in one kernel.
load msg_server addr="$ADDRESS" || fail "msg_server.ko does not load"
await 30 "msg_server: ready" || fail "no server"
check server eval 'listed | grep -q "^fabric .* of msg_server$"'
check server_listens eval 'listed -k pep | grep -q "pep .* listening .*:7471"'
rm -f /run/serving
"$CLIENT" server "$ADDRESS" -p 7493 >/run/serving &
server=$!
eventually 30 grep -qs serving /run/serving || fail "no second server"
"$CLIENT" pingpong "$ADDRESS" -p 7493 -t 60 >/dev/null &
client=$!
connected() { [ "$(listed -o kofi -k ep | grep -c "ep .* connected")" = 2 ]; }
check both_ends_are_connected eventually 30 connected
check their_owner_is_a_process eval 'listed | grep -q "^fabric .* of kofi $client$"'
check one_domain_each eval '[ "$(listed -d "$DEVICE" -o kofi | grep -c "domain .* $DEVICE")" = 2 ]'
check peers_are_each_others eval \
	'listed -o kofi -k ep | sed -n "s/.* connected  \([^ ]*\) - \([^ ]*\) .*/\1 \2\n\2 \1/p" | sort | uniq -d | wc -l | grep -qx 2'
check json eval 'listed --json | grep -q "\"state\": \"connected\""'
# The same objects in the same order, whoever is asked.
of_client() { listed | sed "s/[│├└─]//g" | awk '{ print $1, $2 }'; }
of_debugfs() { awk '{ print $1, $2 }' "$TREE"; }
same() { [ -n "$(of_client)" ] && [ "$(of_client)" = "$(of_debugfs)" ]; }
check debugfs_has_the_same_tree same
# What has been done: of the messages that a client has exchanged, each end has sent and received as many.
counts() { awk '/^ *ep / { for (at = 1; at <= NF; at++) if ($at ~ "^" what "=") { sub(".*=", "", $at); print $at } }' what="$1" "$TREE"; }
more() { [ "$(counts sends | sort -n | tail -n 1)" -gt 100 ]; }
check sends_are_counted eventually 30 more
# They go on meanwhile, and some receives are posted beforehand.
as_many() {
	awk 'function far(a, b) { return a - b > 64 || b - a > 64 }
		/^ *ep .* connected / {
			for (at = 1; at <= NF; at++) if (split($at, pair, "=") == 2) has[NR, pair[1]] = pair[2]
			wrong += far(has[NR, "receives"], has[NR, "sends"]) || far(has[NR, "rx_done"], has[NR, "tx_done"])
			wrong += far(has[NR, "tx_bytes"] / 64, has[NR, "sends"]) || far(has[NR, "rx_bytes"] / 64, has[NR, "rx_done"])
			ends++
		}
		END { exit ends != 2 || wrong }' "$TREE"
}
check both_ways_are_counted as_many
# Nothing is lost on the way to the readers.
check no_overruns eval '[ "$(grep -c "^ *cq .* overruns=0\( \|$\)" "$TREE")" = "$(grep -c "^ *cq " "$TREE")" ]'
check stat_once eval '"$CLIENT" stat --once | tee /run/stat | grep -q "^ *[0-9]* *kofi $client .* connected .*:7493 "'
check stat_has_queues grep -q "^ *[0-9]* *kofi $client  *$DEVICE  *[0-9]*  *[0-9.k]*  *0  *0  *0$" /run/stat
check stat_twice eval '"$CLIENT" stat -n 2 -i 0.2 | tee /run/stat | grep -c "sends/s" | grep -qx 2'
check stat_rates eval 'awk "/connected/ { print \$9 }" /run/stat | grep -q "[1-9]"'
check stat_json eval '"$CLIENT" stat -n 1 -i 0.2 --json | grep -q "\"rates\":{.*\"sends\":[1-9]"'
check no_other_owner eval '[ -z "$(listed -o nobody_at_all | grep fabric)" ]'
check unknown_kind eval '! "$CLIENT" ls -k banana 2>/run/refusal && grep -q "there are: fabric" /run/refusal'
# In another namespace there is nothing of it.
ip netns add elsewhere || fail "no namespace"
check elsewhere eval '[ "$(ip netns exec elsewhere "$CLIENT" ls)" = "nothing is open" ]'
ip netns del elsewhere

kill -INT $client
wait $client
# The server's own end goes when it has seen that; its listener stays.
alone() { [ -z "$(listed -o kofi -k ep | grep "ep ")" ]; }
check ends_go_with_the_connection eventually 30 alone
# What a client writes, and changes, has as many bytes as that takes.
"$CLIENT" bw "$ADDRESS" -p 7493 -o write -s 1K -t 60 >/dev/null &
client=$!
written() { [ "$(counts writes | sort -n | tail -n 1)" -gt 1000 ]; }
check writes_are_counted eventually 30 written
whole() {
	"$CLIENT" stat --once --json | tr , "\n" | sed -n "s/.*\"writes\":\([1-9][0-9]*\).*/writes \1/p; s/.*\"tx_bytes\":\([0-9]*\).*/bytes \1/p" |
		awk '$1 == "writes" { writes = $2 } $1 == "bytes" && writes { off = $2 / 1024 - writes; exit off > 64 || off < -64 }'
}
check writes_have_their_bytes whole
kill -INT $client
wait $client
kill -INT $server
check server_ends wait $server
check nothing_of_a_process_is_left eval '[ "$(listed -o kofi)" = "nothing is open" ]'
# The addresses of a vector that the ranks and their master share.
vector() { listed -o av_ranks -k av | sed -n "s/.*av \([0-9]*\) .*addresses 101\$/\1/p" | head -n 1; }
in_vector() { id=$(vector) && [ -n "$id" ] && "$CLIENT" av "$id" >/run/addresses && [ "$(wc -l </run/addresses)" = 103 ]; }
load av_ranks addr="$ADDRESS" ranks=100 || fail "av_ranks.ko does not load"
await 60 "av_ranks: .*ranks=100 errors=0" || fail "the ranks do not answer"
check addresses_of_a_vector in_vector
check addresses_have_numbers grep -q "^ *0x63  *$ADDRESS:[0-9]*  *1  *-\$" /run/addresses
unload av_ranks || fail "av_ranks.ko does not unload"
check vector_goes eval '! "$CLIENT" av "$id" 2>/run/refusal && grep -q "no object $id" /run/refusal'
unload msg_server || fail "msg_server.ko does not unload"
check nothing_is_left eval '[ "$(listed)" = "nothing is open" ] && [ ! -s "$TREE" ]'
unload kofi_perf kofi || fail "the modules do not unload"
check debugfs_goes_too [ ! -e "$TREE" ]
