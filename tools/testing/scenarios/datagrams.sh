# SPDX-License-Identifier: GPL-2.0
# The datagram server and clients in user space, on an unmodified libfabric: datagrams.sh DEVICE ROUNDS
CLIENT=$KOFI/bin/fi_datagram
# libfabric makes its queue for so many peers at once: rxe has none for 256, the default.
export FI_UNIVERSE_SIZE=16

ask() { "$CLIENT" "$ADDRESS" 7471 "$ADDRESS" "$@"; }

# Several at once, and none minds the others.
crowd() {
	clients=
	for _n in 1 2 3; do
		ask "$1" &
		clients="$clients $!"
	done
	content=0
	for client in $clients; do
		wait "$client" || content=1
	done
	return $content
}

# Killed in the midst of it: the server goes on.
leave() {
	"$CLIENT" "$ADDRESS" 7471 "$ADDRESS" 1000 &
	client=$!
	eventually 10 connected || return
	kill -9 $client
	wait $client
	ask 1
}
connected() { rdma resource show qp | grep -q fi_datagram; }

device_up "$1" || fail "$1 does not come up"
from_here
load datagram_server addr="$ADDRESS" || fail "the server does not load"
await 10 "datagram_server: ready" || fail "the server is not ready"
check rdm_07_one ask "$2"
check rdm_07_again ask 1
check rdm_07_crowd crowd "$2"
check atom_05_exact ask 1 $((4 * $2 + 1))
check rdm_07_leaving leave
unload datagram_server kofi || fail "the modules do not unload"
