# SPDX-License-Identifier: GPL-2.0
# vectors.sh SECONDS: two CPUs at one address vector, and then at the same poll and wait sets, for so long
# each. Who runs a suite sleeps for as long as that takes: in parts, so that nobody takes it for hung.
PART=60
need_module kofi_kunit
device_up rxe || fail "rxe does not come up"
load kofi_kunit addr="$ADDRESS" av_seconds=$PART sets_seconds=$PART || fail "kofi_kunit.ko does not load"
for suite in kofi_race_av kofi_race_sets; do
	left=$1
	while [ "$left" -gt 0 ]; do
		run_suites $suite
		left=$((left - PART))
	done
done
unload kofi_kunit kofi || fail "the modules do not unload"
