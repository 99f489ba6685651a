# SPDX-License-Identifier: GPL-2.0
# limit.sh rxe|siw MINUTES: keeps a completion queue at its limit, in runs of ten minutes: KUnit ends a test after
# fifteen.
require_modules kofi_kunit
require_suites kofi_limit
device_up "$1" || fail "$1 does not come up"
load kofi_kunit addr="$ADDRESS" limit_seconds=600 || fail "kofi_kunit.ko does not load"
minutes=0
while [ $minutes -lt "$2" ]; do
	run_suites kofi_limit
	minutes=$((minutes + 10))
done
unload kofi_kunit kofi || fail "the modules do not unload"
