# SPDX-License-Identifier: GPL-2.0
# user.sh DEVICE: the samples exchange messages and access memory with programs of user space on an unmodified
# libfabric.
PEER=$KOFI/bin/fi_peer MEMORY=$KOFI/bin/fi_memory
COUNT=100 SIZE=1000

# run_client COMMAND...: runs a client in user space, with siw up to three times. siw sometimes loses the first
# message of a connection; user space has no workaround (rust/prov/verbs/ep/siw_quirk.rs), and the client then times
# out.
run_client() {
	case $DEVICE in
	siw*) "$@" || "$@" || "$@" ;;
	*) "$@" ;;
	esac
}

# with_server SERVER COMMAND...: runs the command while the server module is loaded.
with_server() {
	reset_kernel_log
	server=$1
	shift
	load "$server" addr="$(sample_address "$server" "$ADDRESS")" && await 10 "$server: ready" || return
	"$@"
	status=$?
	unload "$server" && return $status
}

# exchange_with_server SERVER: a client in user space exchanges messages with the server module.
exchange_with_server() { with_server "$1" run_client "$PEER" client "$ADDRESS" 7471 $COUNT $SIZE; }

# with_user_server CLIENT PATTERN COMMAND...: runs a server in user space and the client module with PARAMETERS, and
# checks that both succeed.
with_user_server() {
	reset_kernel_log
	client=$1 pattern=$2
	shift 2
	rm -f /run/peer
	"$@" >/run/peer &
	peer=$!
	both_succeed && unload "$client" && return
	kill $peer
	unload "$client"
	return 1
}
both_succeed() {
	eventually 10 grep -qs ready /run/peer &&
		load "$client" addr="$(sample_address "$client" "$ADDRESS")" $PARAMETERS &&
		await 30 "$client: done $pattern errors=0\$" && wait $peer && grep "errors=0\$" /run/peer
}

# exchange_with_client CLIENT: the client module exchanges messages with a server in user space.
exchange_with_client() {
	PARAMETERS="size=$SIZE count=$COUNT"
	with_user_server "$1" "count=$COUNT size=$SIZE.*" "$PEER" server "$ADDRESS" 7471 $COUNT $SIZE
}

# access_memory_of_server SERVER: two clients in user space access the memory of the server module, one after the
# other.
access_memory_of_server() { with_server "$1" access_memory_twice; }
access_memory_twice() { run_client access_memory && run_client access_memory; }
access_memory() { "$MEMORY" client "$ADDRESS" 7471 20; }

# access_memory_of_user CLIENT: the client module accesses the memory of a server in user space.
access_memory_of_user() {
	PARAMETERS="count=20"
	with_user_server "$1" "count=20" "$MEMORY" server "$ADDRESS" 7471 65536
}

require_modules msg_server msg_client msg_server_rs msg_client_rs mem_server mem_client mem_client_rs
device_up "$1" || fail "$1 does not come up"
for kind in "" _rs; do
	check msg_server$kind exchange_with_server msg_server$kind
	check msg_client$kind exchange_with_client msg_client$kind
done
check mem_server access_memory_of_server mem_server
check mem_client access_memory_of_user mem_client
check mem_client_rs access_memory_of_user mem_client_rs
unload kofi || fail "kofi.ko does not unload"
