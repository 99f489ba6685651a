# SPDX-License-Identifier: GPL-2.0
# The link between two ends fails during a transfer. A short outage delays messages; a long one ends in error
# completions, after which everything closes. Datagram endpoints connect again when the link is back.
# linkdown.sh rxe|siw rdm: datagrams whose next connection request is lost, too, until the link is back.

# start_traffic SUITE: runs SUITE in the background, and waits until it moves data.
start_traffic() {
	before=$(kernel_log | grep -c "traffic flows")
	run_suites "$1" &
	suite=$!
	eventually 30 traffic_started || fail "no traffic for $1"
}
traffic_started() { [ "$(kernel_log | grep -c "traffic flows")" -gt "$before" ]; }

# loss add|change|del [PERCENT]: on the way of the messages, wherever that is. Adding and removing
# is for a quiet interface: a packet that meets the switch is refused, and rxe then ends the
# connection.
loss() {
	_verb=$1
	shift
	tc ${namespace:+-n $namespace} qdisc "$_verb" dev "$interface" root netem loss "${1:-0}%"
}

lose_messages() {
	loss add 0 || fail "no netem on $interface"
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
	eventually 60 kernel_logged "a connection ended" || fail "the connection stays"
	loss change 0
	wait $suite
	loss del
}

lose_datagrams() {
	loss add 0 || fail "no netem on $interface"
	start_traffic kofi_outage_rdm
	loss change 100
	eventually 200 kernel_logged "nobody is heard" || fail "somebody is heard, or waited for"
	loss change 0
	wait $suite
	loss del
}

# Two devices in two namespaces, connected by a veth pair.
across_a_cable() {
	namespace=right interface=r0
	pair_up rxe || fail "no pair of devices"
	hold_namespaces || fail "no process in the namespaces"
	load kofi_kunit addr="$LEFT_IP" net_server=$LEFT net_client=$RIGHT net_addr="$LEFT_IP" outage=1 ||
		fail "kofi_kunit.ko does not load"
	$lose
	[ $lose = lose_datagrams ] || unplug
	kill $LEFT $RIGHT
}

unplug() {
	start_traffic kofi_outage_end
	ip -n left link set l0 down
	wait $suite
}

tcp_retries() {
	echo "$1" >/proc/sys/net/ipv4/tcp_retries2
	echo "$2" >/proc/sys/net/ipv4/tcp_syn_retries
}

# siw works in the initial namespace only. The retry limit of TCP, which ends a connection there, is lowered from a
# quarter of an hour to some seconds.
across_loopback() {
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
rxe) across_a_cable ;;
siw) across_loopback ;;
esac
unload kofi_kunit kofi || fail "the modules do not unload"
rdma resource show | grep "kofi" && fail "something is left"
true
