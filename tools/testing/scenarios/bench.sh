# SPDX-License-Identifier: GPL-2.0
# The same ping-pong and stream over kOFI and over raw verbs, in turns in one boot: bench.sh [ROUNDS].
# The modules say the results; `lab.py bench` reads them from the console.
require_modules kofi_bench kofi_raw
device_up rxe || fail "no device"

measure() { echo "$2" >"/sys/kernel/debug/kofi_$1/run" || fail "$1: $2"; }

# Where the kernel puts a module makes as much of a difference as what is measured: each round asks anew.
bring() {
	if [ $((round % 2)) = 0 ]; then
		load kofi_bench addr=$ADDRESS && load kofi_raw addr=$ADDRESS
	else
		load kofi_raw addr=$ADDRESS && load kofi_bench addr=$ADDRESS
	fi || fail "the modules do not load"
}

# An emulated CPU is a tenth as fast. What takes little time is repeated until the CPU has settled:
# the first thousands are slower, the more so the more code there is.
[ "$LANE" = native ] && scale=8 || scale=1
[ "$LANE" = native ] && often=160 || often=1

# UML has no interrupt for the purpose: its timer's tick would be measured.
tests() {
	while read -r test; do
		case $LANE.$test in
		native.call*) continue ;;
		esac
		for implementation in $TURNS; do
			measure $implementation "$test"
		done
	done
}

# Each is a connection of its own, which keeps the schedule that it began with, and no two are alike:
# of many both find the best one. What drifts meets both alike.
TURNS="bench raw raw bench raw bench bench raw"
# What an emulator says of time is worth less.
[ "$LANE" = native ] && TURNS="$TURNS $TURNS $TURNS"
round=0
while [ $round -lt "${1:-9}" ]; do
	bring
	tests <<-END
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
	END
	# Many connections take long to make.
	for links in 1 8 64 512; do
		for implementation in bench raw raw bench; do
			measure $implementation "links $links $((scale * 8192))"
		done
	done
	unload kofi_bench kofi_raw kofi || fail "the modules do not unload"
	round=$((round + 1))
done
