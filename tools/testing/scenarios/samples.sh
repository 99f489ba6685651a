# SPDX-License-Identifier: GPL-2.0
# samples.sh DEVICE: runs the samples, in all pairs of C and Rust, over IPv6, and unloads them during traffic.

# start MODULE PATTERN PARAMETERS...: loads a sample, and waits until it logs a line that matches the pattern.
start() {
	reset_kernel_log
	_line="$1: $2"
	_sample=$1
	shift 2
	load "$_sample" "$@" && await 30 "$_line"
}
serve() { start "$1" ready addr="$(sample_address "$1" "${2:-$ADDRESS}")"; }
stop() { unload "$@" || fail "$* does not unload"; }

# finished CLIENT PATTERN: waits for the last line of a client, and checks that it matches the pattern.
finished() { await 30 "$1: done" && kernel_log | grep "$1: done .*$2"; }

# exchange CLIENT [ADDRESS]: runs a client, and checks that each message comes back intact.
exchange() {
	start "$1" done addr="$(sample_address "$1" "${2:-$ADDRESS}")" count=100 size=1000
	finished "$1" "count=100 size=1000 .*errors=0\$" && stop "$1"
}

# access_memory CLIENT: runs a client that writes, reads and changes the memory of the server.
access_memory() {
	start "$1" done addr="$(sample_address "$1" "$ADDRESS")" count=5
	finished "$1" "count=5 errors=0\$" && stop "$1"
}

# share_work TASKS: clients in C and in Rust execute the tasks of one queue, each task exactly once.
share_work() {
	start queue_server_rs ready addr="$(ipv4_number "$ADDRESS")" tasks="$1" || return
	reset_kernel_log
	load queue_client addr="$ADDRESS" && load queue_client_rs addr="$(ipv4_number "$ADDRESS")" || return
	await 60 "queue_server_rs: done" && kernel_log | grep "queue_server_rs: done tasks=$1 .*errors=0\$" || return
	finished queue_client "errors=0\$" && finished queue_client_rs "errors=0\$" || return
	_tasks=$(kernel_log | grep -v 'lab: ' | sed -n 's/.*queue_client.*: done tasks=\([0-9]*\) .*/\1 +/p')
	[ $(($_tasks 0)) = "$1" ] && stop queue_client queue_client_rs queue_server_rs
}

# report_error MODULE PATTERN: loads a sample that cannot work on the device, and checks that it logs the reason.
report_error() {
	start "$1" "$2" addr="$(sample_address "$1" "$ADDRESS")" && stop "$1"
}

# run_init MODULE [ADDRESS]: loads a sample that does all of its work in the module's init function.
run_init() { load "$1" addr="${2:-$ADDRESS}" && stop "$1"; }

# run_ranks ADDRESS: runs the four phases of av_ranks, in which the ranks answer the numbers that the master sends.
run_ranks() {
	start av_ranks done addr="$(sample_address av_ranks "$1")" ranks=3 &&
		finished av_ranks "ranks=3 errors=0\$" &&
		kernel_logged "av_ranks: phase 4: rank 3 has answered 94b0b9b6fffffffc\$" && stop av_ranks
}

# start_endless CLIENT: starts a client that runs until it is unloaded.
start_endless() { load "$1" addr="$(sample_address "$1" "$ADDRESS")" count=1000000000 && sleep 1; }

# unload_server SERVER CLIENT: unloads the server during traffic; the client reports an error.
unload_server() {
	serve "$1" && start_endless "$2" || return
	stop "$1"
	finished "$2" "count=[1-9].* errors=1\$" && stop "$2"
}

# unload_client SERVER CLIENT: unloads the client during traffic; the server serves the next client.
unload_client() {
	serve "$1" && start_endless "$2" || return
	stop "$2"
	exchange "$2" && stop "$1"
}

# serve_in_turn SERVER: checks that the server serves a second client after the first one.
serve_in_turn() {
	serve "$1" && start_endless msg_client || return
	load msg_client_rs addr="$(ipv4_number "$ADDRESS")" count=100 && sleep 1 || return
	stop msg_client
	finished msg_client_rs "count=100 .*errors=0\$" && stop msg_client_rs "$1"
}

require_modules hello_fabric hello_verbs msg_server msg_client slides_client msg_server_rs msg_client_rs \
	mem_server mem_client mem_server_rs mem_client_rs queue_server_rs queue_client queue_client_rs av_ranks
device_up "$1" || fail "$1 does not come up"

# clients_of SERVER: prints the clients to run with a server. On the slow lane, each module runs once.
clients_of() {
	case $LANE.$1 in
	proof.msg_server) echo msg_client_rs ;;
	proof.msg_server_rs) echo msg_client ;;
	*) echo msg_client msg_client_rs slides_client ;;
	esac
}
for server in msg_server msg_server_rs; do
	serve $server || fail "$server does not listen"
	for client in $(clients_of $server); do
		check $server.$client exchange $client
	done
	stop $server
done

serve msg_server || fail "msg_server does not listen"
check msg_server.hello_fabric run_init hello_fabric
check msg_server.hello_verbs run_init hello_verbs
stop msg_server

serve msg_server "$ADDRESS6" || fail "msg_server does not listen on IPv6"
check ipv6.msg_client exchange msg_client "$ADDRESS6"
check ipv6.slides_client exchange slides_client "$ADDRESS6"
stop msg_server

for server in mem_server mem_server_rs; do
	serve $server || fail "$server does not listen"
	check $server.mem_client access_memory mem_client
	check $server.mem_client_rs access_memory mem_client_rs
	stop $server
done

case $1 in
siw)
	check queue_server_rs.reports_missing_atomics report_error queue_server_rs "Nothing matches"
	check queue_client.reports_missing_atomics report_error queue_client ".*Nothing matches"
	;;
*) check queue_server_rs share_work $((20000 / TIMEOUT_FACTOR)) ;;
esac

check av_ranks run_ranks "$ADDRESS"
check ipv6.av_ranks run_ranks "$ADDRESS6"

for kind in "" _rs; do
	check msg_server$kind.unloads_during_traffic unload_server msg_server$kind msg_client
	check msg_client$kind.unloads_during_traffic unload_client msg_server msg_client$kind
	check msg_server$kind.serves_clients_in_turn serve_in_turn msg_server$kind
done
stop kofi
