# SPDX-License-Identifier: GPL-2.0
# The way between two ends fails in mid-transfer: for a moment, which is a delay, and for good, which
# is an error completion, after which everything closes; datagrams connect again when the way is back.
# linkdown.sh rxe|siw rdm: datagrams whose next connection is not heard of either, until the way is there again.

# flows SUITE: runs it in the background, and waits until it moves data.
flows() {
	before=$(kernel_log | grep -c "traffic flows")
	run_suites "$1" &
	suite=$!
	eventually 30 more_flows || fail "no traffic for $1"
}
more_flows() { [ "$(kernel_log | grep -c "traffic flows")" -gt "$before" ]; }

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
	flows kofi_outage_delay
	loss change 100
	sleep 1
	loss change 0
	wait $suite

	flows kofi_outage_end
	loss change 100
	wait $suite

	loss change 0
	flows kofi_outage_rdm_brief
	loss change 100
	eventually 60 kernel_said "a connection ended" || fail "the connection stays"
	loss change 0
	wait $suite
	loss del
}

lose_datagrams() {
	loss add 0 || fail "no netem on $interface"
	flows kofi_outage_rdm
	loss change 100
	eventually 200 kernel_said "nobody is heard" || fail "somebody is heard, or waited for"
	loss change 0
	wait $suite
	loss del
}

# Two devices and a cable between two namespaces.
across_a_cable() {
	namespace=right interface=r0
	pair_up rxe || fail "no pair of devices"
	tenants || fail "no process in the namespaces"
	load kofi_kunit addr="$LEFT_IP" net_server=$LEFT net_client=$RIGHT net_addr="$LEFT_IP" outage=1 ||
		fail "kofi_kunit.ko does not load"
	$lose
	[ $lose = lose_datagrams ] || unplug
	kill $LEFT $RIGHT
}

unplug() {
	flows kofi_outage_end
	ip -n left link set l0 down
	wait $suite
}

tcp_retries() {
	echo "$1" >/proc/sys/net/ipv4/tcp_retries2
	echo "$2" >/proc/sys/net/ipv4/tcp_syn_retries
}

# siw knows no other namespace than the first, where TCP's limit ends a connection: after some
# seconds instead of a quarter of an hour.
across_loopback() {
	namespace="" interface=lo
	device_up siw || fail "siw does not come up"
	tcp_retries 3 2
	trap 'tcp_retries 15 6; loss del 2>/dev/null' EXIT
	load kofi_kunit addr="$ADDRESS" outage=1 || fail "kofi_kunit.ko does not load"
	$lose
}

need_module kofi_kunit
lose=lose_messages
[ "$2" = rdm ] && lose=lose_datagrams
case $lose in
lose_messages) needs_suites kofi_outage_delay kofi_outage_end kofi_outage_rdm_brief ;;
lose_datagrams) needs_suites kofi_outage_rdm ;;
esac
case $1 in
rxe) across_a_cable ;;
siw) across_loopback ;;
esac
unload kofi_kunit kofi || fail "the modules do not unload"
rdma resource show | grep "kofi" && fail "something is left"
true
