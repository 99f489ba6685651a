# SPDX-License-Identifier: GPL-2.0
# The samples and a peer in user space, on an unmodified libfabric: user.sh DEVICE
PEER=$KOFI/bin/fi_peer MEMORY=$KOFI/bin/fi_memory
COUNT=100 SIZE=1000

# asking COMMAND...: runs a client in user space. siw may lose the first message of a connection, and a peer in user
# space has no workaround for that (rust/prov/verbs/ep/siw_quirk.rs) and waits for ever.
asking() {
	case $DEVICE in
	siw*) "$@" || "$@" || "$@" ;;
	*) "$@" ;;
	esac
}

# serving SERVER COMMAND...: runs the command while the server module is loaded.
serving() {
	reset_kernel_log
	server=$1
	shift
	load "$server" addr="$(sample_address "$server" "$ADDRESS")" && await 10 "$server: ready" || return
	"$@"
	served=$?
	unload "$server" && return $served
}

# ask SERVER: user space sends, and the kernel sends back.
ask() { serving "$1" asking "$PEER" client "$ADDRESS" 7471 $COUNT $SIZE; }

# facing CLIENT PATTERN COMMAND...: runs the client module against a server in user space, and checks that both
# succeed. PARAMETERS are those of the client.
facing() {
	reset_kernel_log
	client=$1 pattern=$2
	shift 2
	rm -f /run/peer
	"$@" >/run/peer &
	peer=$!
	has_succeeded && unload "$client" && return
	kill $peer
	unload "$client"
	return 1
}
has_succeeded() {
	eventually 10 grep -qs ready /run/peer &&
		load "$client" addr="$(sample_address "$client" "$ADDRESS")" $PARAMETERS &&
		await 30 "$client: done $pattern errors=0\$" && wait $peer && grep "errors=0\$" /run/peer
}

# answer CLIENT: the kernel sends, and user space sends back.
answer() {
	PARAMETERS="size=$SIZE count=$COUNT"
	facing "$1" "count=$COUNT size=$SIZE.*" "$PEER" server "$ADDRESS" 7471 $COUNT $SIZE
}

# lend SERVER: two clients in user space read and write the memory of the server, one after the other.
lend() { serving "$1" borrow_twice; }
borrow_twice() { asking borrow && asking borrow; }
borrow() { "$MEMORY" client "$ADDRESS" 7471 20; }

# use CLIENT: the kernel reads and writes user space's memory.
use() {
	PARAMETERS="count=20"
	facing "$1" "count=20" "$MEMORY" server "$ADDRESS" 7471 65536
}

require_modules msg_server msg_client msg_server_rs msg_client_rs mem_server mem_client mem_client_rs
device_up "$1" || fail "$1 does not come up"
for kind in "" _rs; do
	check msg_server$kind ask msg_server$kind
	check msg_client$kind answer msg_client$kind
done
check mem_server lend mem_server
check mem_client use mem_client
check mem_client_rs use mem_client_rs
unload kofi || fail "kofi does not unload"
