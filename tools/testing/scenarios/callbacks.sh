# SPDX-License-Identifier: GPL-2.0
# callbacks.sh DEVICE ROUNDS: exchanges messages only in completion handlers, with 100 * ROUNDS calls of each kind of
# handler (5 * ROUNDS on UML, where irq_work waits for the timer tick).
require_modules kofi_kunit
device_up "$1" || fail "$1 does not come up"
load kofi_kunit addr="$ADDRESS" addr6="$ADDRESS6" rounds="$2" || fail "kofi_kunit.ko does not load"
run_suites kofi_cq_handler_run
unload kofi_kunit kofi || fail "the modules do not unload"
require_no_rdma_objects
