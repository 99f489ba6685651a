# SPDX-License-Identifier: GPL-2.0
# vectors.sh SECONDS: two CPUs use one address vector, and then the same poll and wait sets, for SECONDS each. A run
# of a suite has PART seconds: its thread sleeps meanwhile, which must be shorter than the limit of the hung task
# detector.
PART=60
require_modules kofi_kunit
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
