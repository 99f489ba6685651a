# SPDX-License-Identifier: GPL-2.0
# A completion queue at its limit for so long: limit.sh rxe|siw SECONDS
need_module kofi_kunit
needs_suites kofi_limit
device_up "$1" || fail "$1 does not come up"
load kofi_kunit addr="$ADDRESS" limit_seconds="$2" || fail "kofi_kunit.ko does not load"
run_suites kofi_limit
unload kofi_kunit kofi || fail "the modules do not unload"
