# SPDX-License-Identifier: GPL-2.0
# stress.sh DEVICE ROUNDS RACES: connects and disconnects ROUNDS times, and runs suites with concurrent calls on two
# CPUs and with closes in any order, RACES times each.
require_modules kofi_kunit
device_up "$1" || fail "$1 does not come up"
load kofi_kunit addr="$ADDRESS" addr6="$ADDRESS6" rounds="$2" || fail "kofi_kunit.ko does not load"
run_suites kofi_stress
echo "$3" >/sys/module/kofi_kunit/parameters/rounds
run_suites "kofi_race*" kofi_close kofi_cntr_bind kofi_atomic_many kofi_atomic_steps kofi_busy
unload kofi_kunit kofi || fail "the modules do not unload"
require_no_rdma_objects
