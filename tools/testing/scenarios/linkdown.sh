# SPDX-License-Identifier: GPL-2.0
# linkdown.sh rxe|siw [rdm]: the link between two ends fails during a transfer. A short outage delays messages. A long
# one causes error completions, and all objects can be closed. Datagram endpoints connect again after the outage. With
# "rdm", the connection requests of datagram endpoints are lost, too, until the outage ends.

# start_traffic SUITE: runs a suite in the background, and waits until it transfers data.
start_traffic() {
	before=$(kernel_log | grep -c "traffic flows")
	run_suites "$1" &
	suite=$!
	eventually 30 traffic_started || fail "no traffic for $1"
}
traffic_started() { [ "$(kernel_log | grep -c "traffic flows")" -gt "$before" ]; }

# loss add|change|del [PERCENT]: adds, changes or deletes the packet loss of the interface. Add and delete need an
# idle interface: the kernel drops packets meanwhile with an error, and rxe then ends the connection.
loss() {
	_command=$1
	shift
	tc ${namespace:+-n $namespace} qdisc "$_command" dev "$interface" root netem loss "${1:-0}%"
}

# lose_messages: outages for connected endpoints, and a brief one for datagram endpoints.
lose_messages() {
	loss add 0 || fail "netem cannot be added to $interface"
	start_traffic kofi_outage_delay
	loss change 100
	sleep 1
	loss change 0
	wait $suite

	start_traffic kofi_outage_end
	loss change 100
	wait $suite

	loss change 0
	start_traffic kofi_outage_rdm_brief
	loss change 100
	eventually 60 kernel_logged "a connection ended" || fail "the connection does not end"
	loss change 0
	wait $suite
	loss del
}

# lose_datagrams: a long outage for datagram endpoints.
lose_datagrams() {
	loss add 0 || fail "netem cannot be added to $interface"
	start_traffic kofi_outage_rdm
	loss change 100
	eventually 200 kernel_logged "a second connection failed" || fail "the second connection did not fail"
	loss change 0
	wait $suite
	loss del
}

# run_over_veth: two devices in two namespaces, connected by a veth pair.
run_over_veth() {
	namespace=right interface=r0
	pair_up rxe || fail "the pair of devices does not come up"
	hold_namespaces || fail "no process runs in the namespaces"
	load kofi_kunit addr="$LEFT_IP" net_server=$LEFT net_client=$RIGHT net_addr="$LEFT_IP" outage=1 ||
		fail "kofi_kunit.ko does not load"
	$lose
	[ $lose = lose_datagrams ] || set_link_down
	kill $LEFT $RIGHT
}

# set_link_down: sets the interface down during a transfer.
set_link_down() {
	start_traffic kofi_outage_end
	ip -n left link set l0 down
	wait $suite
}

# tcp_retries DATA SYN: sets the retry limits of TCP.
tcp_retries() {
	echo "$1" >/proc/sys/net/ipv4/tcp_retries2
	echo "$2" >/proc/sys/net/ipv4/tcp_syn_retries
}

# run_over_loopback: siw works in the initial namespace only. TCP ends a connection at its retry limit, which is
# lowered from fifteen minutes to some seconds.
run_over_loopback() {
	namespace="" interface=lo
	device_up siw || fail "siw does not come up"
	tcp_retries 3 2
	trap 'tcp_retries 15 6; loss del 2>/dev/null' EXIT
	load kofi_kunit addr="$ADDRESS" outage=1 || fail "kofi_kunit.ko does not load"
	$lose
}

require_modules kofi_kunit
lose=lose_messages
[ "$2" = rdm ] && lose=lose_datagrams
case $lose in
lose_messages) require_suites kofi_outage_delay kofi_outage_end kofi_outage_rdm_brief ;;
lose_datagrams) require_suites kofi_outage_rdm ;;
esac
case $1 in
rxe) run_over_veth ;;
siw) run_over_loopback ;;
esac
unload kofi_kunit kofi || fail "the modules do not unload"
require_no_rdma_objects
