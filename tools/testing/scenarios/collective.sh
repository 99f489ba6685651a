# SPDX-License-Identifier: GPL-2.0
# collective.sh DEVICE: collective operations of datagram endpoints by an offload provider in another module.
require_modules kofi_kunit collective
device_up "$1" || fail "$1 does not come up"
enable_fault_injection || fail "fault injection cannot be enabled"
load kofi || fail "kofi.ko does not load"
load collective || fail "collective.ko does not load"
load kofi_kunit addr="$ADDRESS" addr6="$ADDRESS6" rounds=4 || fail "kofi_kunit.ko does not load"
run_suites kofi_collective kofi_fault_collective
unload kofi_kunit collective kofi || fail "the modules do not unload"
