# SPDX-License-Identifier: GPL-2.0
# bench.sh [ROUNDS]: measures operations over kOFI and over raw verbs, alternately in one boot. The modules log the
# results, which `lab.py bench` reads from the console.
require_modules kofi_bench kofi_raw
device_up rxe || fail "no device"

measure() { echo "$2" >"/sys/kernel/debug/kofi_$1/run" || fail "$1: $2"; }

# The addresses of the modules change the results as much as the implementations do: each round loads them again, in
# another order. load_modules [PARAMETERS-OF-KOFI_BENCH PARAMETERS-OF-BOTH]
load_modules() {
	if [ $((round % 2)) = 0 ]; then
		load kofi_bench addr=$ADDRESS $1 $2 && load kofi_raw addr=$ADDRESS $2
	else
		load kofi_raw addr=$ADDRESS $2 && load kofi_bench addr=$ADDRESS $1 $2
	fi || fail "the modules do not load"
}

# An emulated CPU is ten times slower. Short operations are repeated more often: the first thousands are slower, the
# more code they execute.
[ "$LANE" = native ] && scale=8 || scale=1
[ "$LANE" = native ] && often=160 || often=1

# UML has no interrupt for irq_work: a completion handler waits for its timer tick.
run_tests() {
	while read -r test; do
		case $LANE.$test in
		native.call*) continue ;;
		esac
		for implementation in $TURNS; do
			measure $implementation "$test"
		done
	done
}

# Each turn is a new connection, whose threads keep the schedule that they have at first: the best of many turns
# counts. The order balances a drift of the machine's speed.
TURNS="bench raw raw bench raw bench bench raw"
# Times of an emulated CPU are less exact, so that more turns do not help.
[ "$LANE" = native ] && TURNS="$TURNS $TURNS $TURNS"
round=0
while [ $round -lt "${1:-9}" ]; do
	load_modules
	run_tests <<-END
		lat 8 $((often * 80))
		lat 64 $((often * 80))
		lat 4096 $((scale * 40))
		sread 8 $((often * 80))
		task 8 $((often * 80))
		call 8 $((often * 80))
		inject 8 $((often * 80))
		write 8 $((often * 80))
		write 4096 $((scale * 40))
		write 65536 $((scale * 10))
		write 1048576 $((scale * 4))
		read 8 $((often * 80))
		read 4096 $((scale * 40))
		read 65536 $((scale * 10))
		read 1048576 $((scale * 4))
		fetch 8 $((often * 80))
		rate 64 $((scale * 1280))
		select 64 $((scale * 1280))
		bw 65536 $((scale * 32))
		reg 131072 $((scale * 1280))
	END
	# Creating many connections takes long: these have fewer turns.
	for links in 1 8 64 512; do
		for implementation in bench raw raw bench; do
			measure $implementation "links $links $((scale * 8192))"
		done
	done
	unload kofi_bench kofi_raw || fail "the modules do not unload"
	# Calls that take locks, beside the same baseline
	load_modules safe=1 series=safe_
	run_tests <<-END
		lat 64 $((often * 80))
		rate 64 $((scale * 1280))
	END
	unload kofi_bench kofi_raw kofi || fail "the modules do not unload"
	round=$((round + 1))
done
