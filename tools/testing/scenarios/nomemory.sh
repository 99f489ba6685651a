# SPDX-License-Identifier: GPL-2.0
# nomemory.sh DEVICE: allocations of kofi.ko fail in rdma_cm's workers and, one in twenty, in the threads that send
# and receive datagrams. require-start restricts failures to call stacks with an address of a module; rxe is built in.

# fail_allocations: makes allocations fail during traffic until twenty have failed.
fail_allocations() {
	run_suites kofi_nomemory_rdm &
	suite=$!
	eventually 30 kernel_logged "datagrams flow" || return
	echo 5 >$knobs/probability && echo 1000000 >$knobs/times || return
	eventually 60 enough_have_failed
	_failed=$?
	echo N >/sys/module/kofi_kunit/parameters/fail_traffic
	eventually 30 kernel_logged "datagrams have flowed"
	_flowed=$?
	echo 0 >$knobs/probability
	wait $suite
	echo "allocations failed: $((1000000 - $(cat $knobs/times)))"
	[ $_failed = 0 ] && return $_flowed
}
enough_have_failed() { [ "$(cat $knobs/times)" -le 999980 ]; }

require_modules kofi_kunit
knobs=/sys/kernel/debug/failslab
[ -e $knobs/require-start ] || skip "the kernel has no CONFIG_FAULT_INJECTION_STACKTRACE_FILTER"
device_up "$1" || fail "$1 does not come up"
echo N >$knobs/ignore-gfp-wait && echo 0 >$knobs/verbose || fail "fault injection cannot be enabled"
load kofi_kunit addr="$ADDRESS" fail_workers=1 fail_traffic=1 || fail "kofi_kunit.ko does not load"
# Modules are above the kernel's own code.
awk '{ print $6 }' /proc/modules | sort | head -n 1 >$knobs/require-start ||
	fail "the failures cannot be restricted to modules"
run_suites kofi_nomemory
kernel_logged "ignore-gfp-wait is not N" && fail "allocations do not fail"
if is_selected kofi_nomemory_rdm; then
	check allocation_failures_under_rdm_traffic fail_allocations
fi
unload kofi_kunit kofi || fail "the modules do not unload"
require_no_rdma_objects
