# SPDX-License-Identifier: GPL-2.0
# loop_bench.sh [ROUNDS]: measures connected endpoints within a host, a ring that only copies, connected endpoints
# over rxe, libfabric's shm in user space, and datagram endpoints within a host, alternately in one boot. bench.sh
# explains the order of the turns.
require_modules kofi_bench kofi_loop kofi_ring kofi_rdm
device_up rxe || fail "rxe does not come up"
LOOPBACK=127.0.0.1
ip link set lo up

measure() {
	case $1 in
	user) "$KOFI/bin/fi_bench" shm $2 || fail "libfabric: $2" ;;
	*) echo "$2" >"/sys/kernel/debug/kofi_$1/run" || fail "$1: $2" ;;
	esac
}

[ "$LANE" = native ] && scale=8 || scale=1
[ "$LANE" = native ] && often=160 || often=1
round=0
while [ $round -lt "${1:-5}" ]; do
	if [ $((round % 2)) = 0 ]; then
		order="kofi_bench kofi_loop kofi_ring"
	else
		order="kofi_ring kofi_loop kofi_bench"
	fi
	for module in $order; do
		[ $module = kofi_bench ] && addr=$ADDRESS || addr=$LOOPBACK
		load $module addr=$addr series=loop_ || fail "$module does not load"
	done
	load kofi_rdm addr=$LOOPBACK series=loop_rdm_ || fail "kofi_rdm does not load"
	while read -r test; do
		case $test in
		# The ring's write and read take one or two nanoseconds: they are no baseline.
		write* | read*) turns="loop bench user loop rdm bench loop rdm" ;;
		fetch*) turns="loop bench loop bench" ;;
		*) turns="loop ring bench user ring loop loop bench ring rdm ring loop rdm" ;;
		esac
		for implementation in $turns; do
			measure $implementation "$test"
		done
	done <<-END
		lat 8 $((often * 80))
		lat 64 $((often * 80))
		lat 4096 $((often * 40))
		lat 65536 $((scale * 40))
		lat 1048576 $((scale * 8))
		write 8 $((often * 80))
		read 8 $((often * 80))
		fetch 8 $((often * 80))
		rate 64 $((scale * 1280))
		bw 65536 $((scale * 32))
		bw 1048576 $((scale * 16))
	END
	unload kofi_bench kofi_loop kofi_ring kofi_rdm kofi || fail "the modules do not unload"
	round=$((round + 1))
done
