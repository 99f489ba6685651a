# SPDX-License-Identifier: GPL-2.0
# echo_handler.sh DEVICE COUNT: servers that echo in a callback, for clients that check each message;
# and that go while they do. COUNT is small where an interrupt of ours waits for the timer.

# echoes SERVER CLIENT COUNT
echoes() { pairing "$1" "$2" "$ADDRESS" 1000 "$3" | grep "count=$3 .*errors=0\$"; }

# sleepy COUNT: the callback that may sleep.
sleepy() {
	load echo_handler addr="$ADDRESS" interrupt=0 && await 10 "echo_handler: ready" &&
		load msg_client addr="$ADDRESS" count="$1" && await 60 "msg_client: done" || return
	kernel_log | grep "msg_client: done count=$1 .*errors=0\$"
	told=$?
	unload msg_client echo_handler && return $told
}

# goes SERVER WHO: one of the two is unloaded in mid-transfer, and then the other.
goes() {
	from_here
	load "$1" addr="$(address_for "$1" "$ADDRESS")" && await 10 "$1: ready" &&
		load msg_client addr="$ADDRESS" count=1000000000 && sleep 1 || return
	unload "$2" || return
	case $2 in
	msg_client) unload "$1" ;;
	*) await 30 "msg_client: done count=[0-9].* errors=1\$" && unload msg_client ;;
	esac
}

need_module echo_handler echo_handler_rs msg_client msg_client_rs
device_up "$1" || fail "$1 does not come up"
for server in echo_handler echo_handler_rs; do
	for client in msg_client msg_client_rs; do
		check $server.$client echoes $server $client "$2"
	done
	check $server.goes goes $server $server
	check $server.loses goes $server msg_client
done
from_here
check echo_handler.sleepy sleepy 100
unload kofi
rdma resource show | grep "kofi" && fail "something is left"
true
