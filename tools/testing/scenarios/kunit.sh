# SPDX-License-Identifier: GPL-2.0
# KUnit suites: "crate" runs those of kofi.ko, which need no device, "rxe" and "siw" run those that
# drive the C API on that device.
suites() { ls /sys/kernel/debug/kunit; }

need_module kofi
if [ "$1" = crate ]; then
	load kofi || fail "kofi.ko does not load"
	run_suites 'kofi_*'
	exit
fi
need_module kofi_kunit
device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
before=$(suites)
load kofi_kunit addr="$ADDRESS" addr6="$ADDRESS6" || fail "kofi_kunit.ko does not load"
# shellcheck disable=SC2046 # a word for each suite that came with the module
run_suites $(suites | grep -vxF "$before")
