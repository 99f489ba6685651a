# SPDX-License-Identifier: GPL-2.0
# The same ping-pong and stream over kOFI and over raw verbs, in turns in one boot: bench.sh [ROUNDS].
# The modules say the results; `lab.py bench` reads them from the console.
need_module kofi_bench kofi_raw
device_up rxe || fail "no device"
load kofi_bench addr=$ADDRESS && load kofi_raw addr=$ADDRESS || fail "the modules do not load"

measure() { echo "$2" >"/sys/kernel/debug/kofi_$1/run" || fail "$1: $2"; }

TURNS="bench raw raw bench raw bench bench raw"
round=0
while [ $round -lt "${1:-9}" ]; do
	for test in "lat 8 1600" "lat 64 1600" "lat 4096 640" "rate 64 20480" "bw 65536 160"; do
		# Each is a connection of its own, and no two are alike; what drifts meets both alike.
		for implementation in $TURNS $TURNS; do
			measure $implementation "$test"
		done
	done
	round=$((round + 1))
done
