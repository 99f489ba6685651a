# SPDX-License-Identifier: GPL-2.0
# The samples and a peer in user space, on an unmodified libfabric: user.sh DEVICE
PEER=$KOFI/bin/fi_peer
COUNT=100 SIZE=1000
DONE="done count=$COUNT size=$SIZE.* errors=0\$"

# asking COMMAND...: a client of the kernel's. siw may overlook what comes at first, and a peer in user
# space, which does not nudge it (rust/prov/verbs/ep/settle.rs), then waits in vain.
asking() {
	case $DEVICE in
	siw*) "$@" || "$@" || "$@" ;;
	*) "$@" ;;
	esac
}

# serving SERVER COMMAND...: the command while the server is there.
serving() {
	from_here
	server=$1
	shift
	load "$server" addr="$(address_for "$server" "$ADDRESS")" && await 10 "$server: ready" || return
	"$@"
	served=$?
	unload "$server" && return $served
}

# ask SERVER: user space sends, and the kernel sends back.
ask() { serving "$1" asking "$PEER" client "$ADDRESS" 7471 $COUNT $SIZE; }

# answer CLIENT: the kernel sends, and user space sends back.
answer() {
	from_here
	rm -f /run/peer
	"$PEER" server "$ADDRESS" 7471 $COUNT $SIZE >/run/peer &
	peer=$!
	answered "$1" && unload "$1" && return
	kill $peer
	unload "$1"
	return 1
}
answered() {
	eventually 10 grep -qs ready /run/peer &&
		load "$1" addr="$(address_for "$1" "$ADDRESS")" size=$SIZE count=$COUNT &&
		await 30 "$1: $DONE" && wait $peer && grep "$DONE" /run/peer
}

# lend SERVER: user space reads and writes the kernel's memory; the second client is one more.
lend() { serving "$1" borrow_twice; }
borrow_twice() { asking borrow && asking borrow; }
borrow() { "$KOFI/bin/fi_memory" "$ADDRESS" 7471 20; }

need_module msg_server msg_client msg_server_rs msg_client_rs mem_server
device_up "$1" || fail "$1 does not come up"
for kind in "" _rs; do
	check msg_server$kind ask msg_server$kind
	check msg_client$kind answer msg_client$kind
done
check mem_server lend mem_server
unload kofi || fail "kofi does not unload"
