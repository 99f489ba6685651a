# SPDX-License-Identifier: GPL-2.0
# Allocations fail where rdma_cm's workers call kofi.ko, and nowhere else in them: only what has a
# module on its stack fails. Modules of x86-64 lie between these addresses, and rxe is none. So do those
# of whoever sends and receives datagrams, one in twenty, while there is traffic.

# fail_allocations: makes allocations fail between messages until some have failed.
fail_allocations() {
	run_suites kofi_nomemory_rdm &
	suite=$!
	eventually 30 kernel_logged "datagrams flow" || return
	echo 5 >$knobs/probability && echo 1000000 >$knobs/times || return
	eventually 60 some_have_failed
	_failed=$?
	echo N >/sys/module/kofi_kunit/parameters/fail_traffic
	eventually 30 kernel_logged "datagrams have flowed"
	_flowed=$?
	echo 0 >$knobs/probability
	wait $suite
	echo "allocations failed: $((1000000 - $(cat $knobs/times)))"
	[ $_failed = 0 ] && return $_flowed
}
some_have_failed() { [ "$(cat $knobs/times)" -le 999980 ]; }

require_modules kofi_kunit
knobs=/sys/kernel/debug/failslab
[ -e $knobs/require-start ] || skip "a kernel without CONFIG_FAULT_INJECTION_STACKTRACE_FILTER"
device_up "$1" || fail "$1 does not come up"
echo N >$knobs/ignore-gfp-wait && echo 0 >$knobs/verbose &&
	echo 0xffffffffa0000000 >$knobs/require-start &&
	echo 0xffffffffff000000 >$knobs/require-end || fail "no knobs"
load kofi_kunit addr="$ADDRESS" fail_workers=1 fail_traffic=1 || fail "kofi_kunit.ko does not load"
run_suites kofi_nomemory
if is_selected kofi_nomemory_rdm; then
	check allocation_failures_under_rdm_traffic fail_allocations
fi
unload kofi_kunit kofi || fail "the modules do not unload"
rdma resource show | grep kofi && fail "something is left"
true
