# SPDX-License-Identifier: GPL-2.0
# The cable is pulled in mid-transfer: for a moment, which is a delay, and for good, which is an error.

# flows SUITE: runs it in the background, and waits until it moves data.
flows() {
	before=$(kernel_log | grep -c "traffic flows")
	run_suites "$1" &
	suite=$!
	eventually 30 more_flows
}
more_flows() { [ "$(kernel_log | grep -c "traffic flows")" -gt "$before" ]; }
cable() { ip -n left link set l0 "$1"; }
inside() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }

need_module kofi_kunit
pair_up "$1" || fail "no pair of $1 devices"
/sbin/ip netns exec left /bin/sleep 1000 &
left=$!
/sbin/ip netns exec right /bin/sleep 1000 &
right=$!
eventually 5 inside $left && eventually 5 inside $right || fail "no process in the namespaces"
# What ends a connection of siw is TCP's limit: some seconds instead of fifteen minutes.
for namespace in left right; do
	ip netns exec $namespace sh -c 'echo 3 >/proc/sys/net/ipv4/tcp_retries2'
done
load kofi_kunit addr="$LEFT_IP" net_server=$left net_client=$right net_addr="$LEFT_IP" outage=1 ||
	fail "kofi_kunit.ko does not load"

flows kofi_outage_delay || fail "no traffic"
cable down
sleep 1
cable up
wait $suite

flows kofi_outage_end || fail "no traffic"
cable down
wait $suite
cable up

kill $left $right
unload kofi_kunit kofi || fail "the modules do not unload"
rdma resource show | grep "kofi" && fail "something is left"
true
