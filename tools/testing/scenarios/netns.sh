# SPDX-License-Identifier: GPL-2.0
# A listener in one network namespace, its peer in another, and neither in the first.
need_module kofi_kunit
pair_up "$1" || fail "no pair of $1 devices"
/sbin/ip netns exec left /bin/sleep 1000 &
left=$!
/sbin/ip netns exec right /bin/sleep 1000 &
right=$!
# Once it is in there, the process stands for its namespace.
inside() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
eventually 5 inside $left && eventually 5 inside $right || fail "no process in the namespaces"

load kofi_kunit addr="$LEFT_IP" net_server=$left net_client=$right net_addr="$LEFT_IP" \
	net_addr6=fd00:3::1 || fail "kofi_kunit.ko does not load"
run_suites kofi_netns
kill $left $right
unload kofi_kunit kofi || fail "the modules do not unload"
