# SPDX-License-Identifier: GPL-2.0
# datagrams.sh DEVICE ROUNDS [SERVER]: datagram clients in user space, on an unmodified libfabric, use a server
# module.
server=${3:-datagram_server}
CLIENT=$KOFI/bin/fi_datagram
# libfabric's ofi_rxm sizes its completion queue for this many peers; the default, 1024 in libfabric 1.17, exceeds the
# limit of rxe.
export FI_UNIVERSE_SIZE=16

# no_atomics is "-" if the client must not issue atomic operations. libfabric reuses the buffer of a request when the
# response arrives, and mistakes a later completion of the request for one of the next request (a comment in rxm_cq.c:
# "BUG: need to wait for completion"): the program crashes or hangs. With siw and more than one CPU, the completion
# arrives after the response.
no_atomics=
[ "$1" = siw ] && [ "$(nproc)" -gt 1 ] && no_atomics=-
run_client() { "$CLIENT" "$ADDRESS" 7471 "$ADDRESS" "$@" $no_atomics; }

# run_concurrent_clients ROUNDS: runs three clients at the same time.
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

# kill_client: kills a client during its requests, and checks that the server serves another client.
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
# counters_match: checks the counters of the server: each send has completed, none with an error, and each posted
# receive has completed or is still posted.
counters_match() {
	awk '/^ *ep .* enabled / {
		for (at = 1; at <= NF; at++) if (split($at, pair, "=") == 2) has[pair[1]] = pair[2]
		exit !(has["sends"] > 0 && has["tx_done"] >= has["sends"] && has["tx_bytes"] > 0 && !has["tx_errors"] &&
			has["rx_done"] > 0 && has["rx_bytes"] > 0 && has["receives"] == has["rx_done"] + has["rx_depth"])
	}' /sys/kernel/debug/kofi/objects
}
check debugfs_counts_messages eventually 10 counters_match
check rdm_07_concurrent_clients_are_served run_concurrent_clients "$2"
[ -n "$no_atomics" ] || check atom_05_sum_of_all_clients_is_exact run_client 1 $((4 * $2 + 1))
check rdm_07_server_survives_a_killed_client kill_client
# With delivered=Y, replies have FI_DELIVERY_COMPLETE: libfabric reads each reply that has data by rendezvous.
if [ "$server" = datagram_server ]; then
	reset_kernel_log
	unload "$server" || fail "the server does not unload"
	load "$server" addr="$ADDRESS" delivered=Y || fail "the server does not load"
	await 10 "$server: ready" || fail "the server is not ready"
	check rdm_07_libfabric_client_gets_delivered_replies run_client "$2"
fi
unload "$server" kofi || fail "the modules do not unload"
