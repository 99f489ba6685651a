# SPDX-License-Identifier: GPL-2.0
# rdm_bench.sh [ROUNDS]: measures datagram endpoints, connected endpoints, packets over raw verbs and libfabric's
# datagram endpoints in user space, alternately in one boot, and the cost of peers and of queued entries. bench.sh explains
# the order of the turns.
require_modules kofi_bench kofi_rdm kofi_hand kofi_peers kofi_active kofi_entries
device_up rxe || fail "rxe does not come up"
# libfabric registers much memory, and its default queue size exceeds the limit of rxe.
ulimit -l unlimited
export FI_UNIVERSE_SIZE=16

measure() {
	case $1 in
	user) "$KOFI/bin/fi_bench" "$ADDRESS" $2 || fail "libfabric: $2" ;;
	*) echo "$2" >"/sys/kernel/debug/kofi_$1/run" || fail "$1: $2" ;;
	esac
}

[ "$LANE" = native ] && scale=8 || scale=1
[ "$LANE" = native ] && often=80 || often=1
[ "$LANE" = native ] && known=100000 || known=10000
[ "$LANE" = native ] && connections=128 || connections=32
round=0
while [ $round -lt "${1:-5}" ]; do
	if [ $((round % 2)) = 0 ]; then
		order="kofi_bench kofi_rdm kofi_hand"
	else
		order="kofi_hand kofi_rdm kofi_bench"
	fi
	for module in $order; do
		load $module addr=$ADDRESS series=rdm_ || fail "$module does not load"
	done
	for module in kofi_peers kofi_active kofi_entries; do
		load $module addr=$ADDRESS || fail "$module.ko does not load"
	done
	while read -r test; do
		case $test in
		"lat 64 "* | "lat 128 "* | rate*) turns="rdm bench user hand bench rdm hand rdm bench hand bench rdm" ;;
		*) turns="rdm bench user bench rdm rdm bench bench rdm" ;;
		esac
		for implementation in $turns; do
			measure $implementation "$test"
		done
	done <<-END
		lat 8 $((often * 80))
		lat 64 $((often * 80))
		lat 128 $((often * 80))
		lat 4096 $((scale * 40))
		lat 65536 $((scale * 8))
		lat 1048576 $((scale * 8))
		write 64 $((often * 80))
		read 64 $((often * 80))
		fetch 8 $((often * 80))
		rate 64 $((scale * 1280))
		rate 128 $((scale * 1280))
		bw 65536 $((scale * 32))
		bw 1048576 $((scale * 16))
	END
	for peers in 1 64 4096 1 64 4096; do
		measure rdm "peers $peers $((often * 80))"
	done
	measure peers "known $known"
	measure peers "connections $connections"
	for spokes in 0 512 0 512; do
		measure active "hostile $spokes"
	done
	# UML has no interrupt for irq_work: connections of all rings but the first would wait for the next tick.
	if [ "$LANE" != native ]; then
		for spokes in 1 64 512 1 64 512; do
			measure active "active $spokes"
		done
	fi
	for entries in 1 1000 16000 1 1000 16000; do
		measure entries "posted $entries"
	done
	for entries in 1 1000 50000 1 1000 50000; do
		measure entries "unexpected $entries"
	done
	unload kofi_bench kofi_rdm kofi_hand kofi_peers kofi_active kofi_entries kofi || fail "the modules do not unload"
	round=$((round + 1))
done
