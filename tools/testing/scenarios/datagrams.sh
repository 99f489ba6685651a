# SPDX-License-Identifier: GPL-2.0
# The datagram server and clients in user space, on an unmodified libfabric: datagrams.sh DEVICE ROUNDS [SERVER]
server=${3:-datagram_server}
CLIENT=$KOFI/bin/fi_datagram
# libfabric makes its queue for so many peers at once: rxe has none for 256, the default.
export FI_UNIVERSE_SIZE=16

# libfabric gives a request's buffer to the next one when its answer has come, and takes the completion of
# the first, if that comes later, for the other's ("BUG: need to wait for completion", says its rxm_cq.c):
# programs end in faults, or wait for ever. On siw it comes later as soon as there are two CPUs.
asks=
[ "$1" = siw ] && [ "$(nproc)" -gt 1 ] && asks=-
ask() { "$CLIENT" "$ADDRESS" 7471 "$ADDRESS" "$@" $asks; }

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
	"$CLIENT" "$ADDRESS" 7471 "$ADDRESS" 1000 $asks &
	client=$!
	eventually 10 connected || return
	kill -9 $client
	wait $client
	ask 1
}
connected() { rdma resource show qp | grep -q fi_datagram; }

device_up "$1" || fail "$1 does not come up"
from_here
load "$server" addr="$(address_for "$server" "$ADDRESS")" || fail "the server does not load"
await 10 "$server: ready" || fail "the server is not ready"
check rdm_07_one ask "$2"
check rdm_07_again ask 1
# Of what the server has done something is told: all that was sent is over, and all came in receives.
counted() {
	awk '/^ *ep .* enabled / {
		for (at = 1; at <= NF; at++) if (split($at, pair, "=") == 2) has[pair[1]] = pair[2]
		exit !(has["sends"] > 0 && has["tx_done"] >= has["sends"] && has["tx_bytes"] > 0 && !has["tx_errors"] &&
			has["rx_done"] > 0 && has["rx_bytes"] > 0 && has["receives"] == has["rx_done"] + has["rx_depth"])
	}' /sys/kernel/debug/kofi/objects
}
check messages_are_counted eventually 10 counted
check rdm_07_crowd crowd "$2"
[ -n "$asks" ] || check atom_05_exact ask 1 $((4 * $2 + 1))
check rdm_07_leaving leave
unload "$server" kofi || fail "the modules do not unload"
