# SPDX-License-Identifier: GPL-2.0
# netns.sh DEVICE: a listener and its peer are in two network namespaces other than the initial one.
require_modules kofi_kunit
pair_up "$1" || fail "the pair of $1 devices does not come up"
hold_namespaces || fail "no process runs in the namespaces"
load kofi_kunit addr="$LEFT_IP" net_server=$LEFT net_client=$RIGHT net_addr="$LEFT_IP" \
	net_addr6=fd00:3::1 || fail "kofi_kunit.ko does not load"
run_suites kofi_netns
kill $LEFT $RIGHT
unload kofi_kunit kofi || fail "the modules do not unload"
