# SPDX-License-Identifier: GPL-2.0
# scaling.sh [ROUNDS]: measures the time of a registration by one thread, and by four at the same time on endpoints of one
# domain, over kOFI and over raw verbs.
require_modules kofi_bench kofi_raw
device_up rxe || fail "rxe does not come up"

round=0
while [ $round -lt "${1:-5}" ]; do
	for module in kofi_bench kofi_raw; do
		load $module addr=$ADDRESS || fail "$module.ko does not load"
	done
	for threads in 1 4; do
		for implementation in bench raw raw bench raw bench bench raw; do
			echo "regs $threads 5120" >"/sys/kernel/debug/kofi_$implementation/run" ||
				fail "$implementation: $threads threads"
		done
	done
	unload kofi_bench kofi_raw kofi || fail "the modules do not unload"
	round=$((round + 1))
done
