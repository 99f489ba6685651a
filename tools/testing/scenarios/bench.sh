# SPDX-License-Identifier: GPL-2.0
# The same ping-pong and stream over kOFI and over raw verbs, in turns in one boot: bench.sh [ROUNDS].
# The modules say the results; `lab.py bench` reads them from the console.
need_module kofi_bench kofi_raw
device_up rxe || fail "no device"
load kofi_bench addr=$ADDRESS && load kofi_raw addr=$ADDRESS || fail "the modules do not load"

measure() { echo "$2" >"/sys/kernel/debug/kofi_$1/run" || fail "$1: $2"; }

# An emulated CPU is a tenth as fast.
[ "$LANE" = uml ] && scale=8 || scale=1

TURNS="bench raw raw bench raw bench bench raw"
round=0
while [ $round -lt "${1:-9}" ]; do
	for test in "lat 8 $((scale * 200))" "lat 64 $((scale * 200))" "lat 4096 $((scale * 80))" \
		"rate 64 $((scale * 2560))" "bw 65536 $((scale * 20))"; do
		# Each is a connection of its own, and no two are alike; what drifts meets both alike.
		for implementation in $TURNS $TURNS; do
			measure $implementation "$test"
		done
	done
	round=$((round + 1))
done
