# SPDX-License-Identifier: GPL-2.0
# The samples: all pairings of C and Rust, IPv6, and modules that are unloaded during traffic.

# start MODULE WORD PARAMETERS...: loads a sample, and waits until it logs WORD.
start() {
	reset_kernel_log
	_said="$1: $2"
	_sample=$1
	shift 2
	load "$_sample" "$@" && await 30 "$_said"
}
serve() { start "$1" ready addr="$(sample_address "$1" "${2:-$ADDRESS}")"; }
stop() { unload "$@" || fail "$* does not unload"; }

# said CLIENT PATTERN: waits for the last line of the client, and checks that it matches.
said() { await 30 "$1: done" && kernel_log | grep "$1: done .*$2"; }

# talk CLIENT [ADDRESS]: checks that every message is echoed intact.
talk() {
	start "$1" done addr="$(sample_address "$1" "${2:-$ADDRESS}")" count=100 size=1000
	said "$1" "count=100 size=1000 .*errors=0\$" && stop "$1"
}

# borrow CLIENT: checks writes, reads and atomics in the memory of the server.
borrow() {
	start "$1" done addr="$(sample_address "$1" "$ADDRESS")" count=5
	said "$1" "count=5 errors=0\$" && stop "$1"
}

# share_work TASKS: clients in C and in Rust take the tasks of one queue, each of which is done once.
share_work() {
	start queue_server_rs ready addr="$(ipv4_number "$ADDRESS")" tasks="$1" || return
	reset_kernel_log
	load queue_client addr="$ADDRESS" && load queue_client_rs addr="$(ipv4_number "$ADDRESS")" || return
	await 60 "queue_server_rs: done" && kernel_log | grep "queue_server_rs: done tasks=$1 .*errors=0\$" || return
	said queue_client "errors=0\$" && said queue_client_rs "errors=0\$" || return
	_tasks=$(kernel_log | grep -v 'lab: ' | sed -n 's/.*queue_client.*: done tasks=\([0-9]*\) .*/\1 +/p')
	[ $(($_tasks 0)) = "$1" ] && stop queue_client queue_client_rs queue_server_rs
}

# refuse MODULE WORD: checks that the module logs the reason.
refuse() {
	start "$1" "$2" addr="$(sample_address "$1" "$ADDRESS")" && stop "$1"
}

# hello MODULE [ADDRESS]: loads a sample that does all its work in the module's init function.
hello() { load "$1" addr="${2:-$ADDRESS}" && stop "$1"; }

# rank ADDRESS: the four phases of an address vector; the ranks answer the numbers that the master sends.
rank() {
	start av_ranks done addr="$(sample_address av_ranks "$1")" ranks=3 &&
		said av_ranks "ranks=3 errors=0\$" &&
		kernel_logged "av_ranks: phase 4: rank 3 has answered 94b0b9b6fffffffc\$" && stop av_ranks
}

# endless CLIENT: starts a client without an end.
endless() { load "$1" addr="$(sample_address "$1" "$ADDRESS")" count=1000000000 && sleep 1; }

# lose_server SERVER CLIENT: unloads the server during the transfer; the client reports an error.
lose_server() {
	serve "$1" && endless "$2" || return
	stop "$1"
	said "$2" "count=[1-9].* errors=1\$" && stop "$2"
}

# lose_client SERVER CLIENT: unloads the client during the transfer; the server serves the next client.
lose_client() {
	serve "$1" && endless "$2" || return
	stop "$2"
	talk "$2" && stop "$1"
}

# take_turns SERVER: a client that connects while another is served is served after it.
take_turns() {
	serve "$1" && endless msg_client || return
	load msg_client_rs addr="$(ipv4_number "$ADDRESS")" count=100 && sleep 1 || return
	stop msg_client
	said msg_client_rs "count=100 .*errors=0\$" && stop msg_client_rs "$1"
}

require_modules hello_fabric hello_verbs msg_server msg_client slides_client msg_server_rs msg_client_rs \
	mem_server mem_client mem_server_rs mem_client_rs queue_server_rs queue_client queue_client_rs av_ranks
device_up "$1" || fail "$1 does not come up"

# On a slow machine each module runs once; the checks below pair them as well.
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
		check $server.$client talk $client
	done
	stop $server
done

serve msg_server || fail "msg_server does not listen"
check msg_server.hello_fabric hello hello_fabric
check msg_server.hello_verbs hello hello_verbs
stop msg_server

serve msg_server "$ADDRESS6" || fail "msg_server does not listen on IPv6"
check ipv6.msg_client talk msg_client "$ADDRESS6"
check ipv6.slides_client talk slides_client "$ADDRESS6"
stop msg_server

for server in mem_server mem_server_rs; do
	serve $server || fail "$server does not listen"
	check $server.mem_client borrow mem_client
	check $server.mem_client_rs borrow mem_client_rs
	stop $server
done

case $1 in
siw)
	check queue_server_rs.reports_missing_atomics refuse queue_server_rs "Nothing matches"
	check queue_client.reports_missing_atomics refuse queue_client ".*Nothing matches"
	;;
*) check queue_server_rs share_work $((20000 / TIMEOUT_FACTOR)) ;;
esac

check av_ranks rank "$ADDRESS"
check ipv6.av_ranks rank "$ADDRESS6"

for kind in "" _rs; do
	check msg_server$kind.unloads_during_traffic lose_server msg_server$kind msg_client
	check msg_client$kind.unloads_during_traffic lose_client msg_server msg_client$kind
	check msg_server$kind.serves_clients_in_turn take_turns msg_server$kind
done
stop kofi
