# SPDX-License-Identifier: GPL-2.0
# echo_handler.sh DEVICE COUNT: servers echo COUNT messages in a completion handler, and clients verify them. Each end
# is also unloaded during traffic. COUNT is small on UML, where irq_work waits for the timer tick.

# echo_messages SERVER CLIENT COUNT: exchanges messages.
echo_messages() { pairing "$1" "$2" "$ADDRESS" 1000 "$3" | grep "count=$3 .*errors=0\$"; }

# echo_in_process COUNT: exchanges messages with a handler in process context.
echo_in_process() {
	load echo_handler addr="$ADDRESS" interrupt=0 && await 10 "echo_handler: ready" &&
		load msg_client addr="$ADDRESS" count="$1" && await 60 "msg_client: done" || return
	kernel_log | grep "msg_client: done count=$1 .*errors=0\$"
	status=$?
	unload msg_client echo_handler && return $status
}

# unload_during_traffic SERVER FIRST: unloads the module FIRST, server or client, during traffic, and then the other.
unload_during_traffic() {
	reset_kernel_log
	load "$1" addr="$(sample_address "$1" "$ADDRESS")" && await 10 "$1: ready" &&
		load msg_client addr="$ADDRESS" count=1000000000 && sleep 1 || return
	unload "$2" || return
	case $2 in
	msg_client) unload "$1" ;;
	*) await 30 "msg_client: done count=[0-9].* errors=1\$" && unload msg_client ;;
	esac
}

require_modules echo_handler echo_handler_rs msg_client msg_client_rs
device_up "$1" || fail "$1 does not come up"
for server in echo_handler echo_handler_rs; do
	for client in msg_client msg_client_rs; do
		check $server.$client echo_messages $server $client "$2"
	done
	check $server.unloads_during_traffic unload_during_traffic $server $server
	check $server.closes_when_the_client_unloads unload_during_traffic $server msg_client
done
reset_kernel_log
check echo_handler.echoes_in_process_context echo_in_process 100
unload kofi
require_no_rdma_objects
