# SPDX-License-Identifier: GPL-2.0
# The datagram server and clients in user space, on an unmodified libfabric: datagrams.sh DEVICE ROUNDS [SERVER]
server=${3:-datagram_server}
CLIENT=$KOFI/bin/fi_datagram
# libfabric sizes its queue for this many peers; the default of 256 exceeds the limit of rxe.
export FI_UNIVERSE_SIZE=16

# libfabric gives a request's buffer to the next one when its answer has come, and takes the completion of
# the first, if that comes later, for the other's ("BUG: need to wait for completion", says its rxm_cq.c):
# programs end in faults, or wait for ever. On siw it comes later as soon as there are two CPUs.
# Set to "-" when the client must not issue atomic operations.
no_atomics=
[ "$1" = siw ] && [ "$(nproc)" -gt 1 ] && no_atomics=-
run_client() { "$CLIENT" "$ADDRESS" 7471 "$ADDRESS" "$@" $no_atomics; }

# run_concurrent_clients ROUNDS: runs three clients at once.
run_concurrent_clients() {
	clients=
	for _n in 1 2 3; do
		run_client "$1" &
		clients="$clients $!"
	done
	status=0
	for client in $clients; do
		wait "$client" || status=1
	done
	return $status
}

# Kills a client during its requests; the server answers the next one.
kill_client() {
	"$CLIENT" "$ADDRESS" 7471 "$ADDRESS" 1000 $no_atomics &
	client=$!
	eventually 10 connected || return
	kill -9 $client
	wait $client
	run_client 1
}
connected() { rdma resource show qp | grep -q fi_datagram; }

device_up "$1" || fail "$1 does not come up"
reset_kernel_log
load "$server" addr="$(sample_address "$server" "$ADDRESS")" || fail "the server does not load"
await 10 "$server: ready" || fail "the server is not ready"
check rdm_07_libfabric_client_is_served run_client "$2"
check rdm_07_second_client_is_served run_client 1
# The counters of the server add up: every send has completed, and every message has consumed a receive.
counted() {
	awk '/^ *ep .* enabled / {
		for (at = 1; at <= NF; at++) if (split($at, pair, "=") == 2) has[pair[1]] = pair[2]
		exit !(has["sends"] > 0 && has["tx_done"] >= has["sends"] && has["tx_bytes"] > 0 && !has["tx_errors"] &&
			has["rx_done"] > 0 && has["rx_bytes"] > 0 && has["receives"] == has["rx_done"] + has["rx_depth"])
	}' /sys/kernel/debug/kofi/objects
}
check debugfs_counts_messages eventually 10 counted
check rdm_07_concurrent_clients_are_served run_concurrent_clients "$2"
[ -n "$no_atomics" ] || check atom_05_sum_of_all_clients_is_exact run_client 1 $((4 * $2 + 1))
check rdm_07_server_survives_a_killed_client kill_client
# The replies complete when the client has them: libfabric reads each one by rendezvous.
if [ "$server" = datagram_server ]; then
	reset_kernel_log
	unload "$server" || fail "the server does not unload"
	load "$server" addr="$ADDRESS" delivered=Y || fail "the server does not load"
	await 10 "$server: ready" || fail "the server is not ready"
	check rdm_07_libfabric_client_gets_delivered_replies run_client "$2"
fi
unload "$server" kofi || fail "the modules do not unload"
