# SPDX-License-Identifier: GPL-2.0
# What address vectors, poll sets and wait sets cost, beside libfabric's vectors, the members asked one by
# one, and bare wait queues: sets.sh [ROUNDS]. Nothing is sent.
require_modules kofi_sets
device_up rxe || fail "no device"
ip link set lo up

measure() { echo "$1" >/sys/kernel/debug/kofi_sets/run || fail "$1"; }

[ "$LANE" = native ] && count=1000000 || count=100000
round=0
while [ $round -lt "${1:-5}" ]; do
	load kofi_sets addr=$ADDRESS || fail "the module does not load"
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
