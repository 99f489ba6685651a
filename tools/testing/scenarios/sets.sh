# SPDX-License-Identifier: GPL-2.0
# sets.sh [ROUNDS]: measures address vectors, poll sets and wait sets, without traffic. The baselines are libfabric's
# address vectors, polling of the members one by one, and plain wait queues.
require_modules kofi_sets
device_up rxe || fail "rxe does not come up"
ip link set lo up

measure() { echo "$1" >/sys/kernel/debug/kofi_sets/run || fail "$1"; }

[ "$LANE" = native ] && count=1000000 || count=100000
round=0
while [ $round -lt "${1:-5}" ]; do
	load kofi_sets addr=$ADDRESS || fail "kofi_sets.ko does not load"
	measure "vector $count"
	"$KOFI/bin/fi_vectors" "tcp;ofi_rxm" 127.0.0.1 $count || fail "libfabric's vectors"
	for members in 1 16 256; do
		measure "poll $members"
	done
	measure "wait 20000"
	measure "lookups 1000000"
	unload kofi_sets kofi || fail "the modules do not unload"
	round=$((round + 1))
done
