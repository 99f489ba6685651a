# SPDX-License-Identifier: GPL-2.0
# vectors.sh SECONDS: two CPUs at one address vector, for so long.
need_module kofi_kunit
device_up rxe || fail "rxe does not come up"
load kofi_kunit addr="$ADDRESS" av_seconds="$1" || fail "kofi_kunit.ko does not load"
run_suites kofi_race_av
unload kofi_kunit kofi || fail "the modules do not unload"
