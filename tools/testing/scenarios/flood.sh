# SPDX-License-Identifier: GPL-2.0
# flood.sh DEVICE PEERS RUNS SECONDS: PEERS peers send unexpected messages to a datagram endpoint until they are
# slowed, and the endpoint receives the messages after that, again and again in RUNS runs of SECONDS seconds each.
require_modules kofi_kunit
require_suites kofi_rdm_flood
device_up "$1" || fail "$1 does not come up"
load kofi_kunit addr="$ADDRESS" flood_peers="$2" flood_seconds="$4" || fail "kofi_kunit.ko does not load"
for run in $(seq "$3"); do
	echo "run $run"
	run_suites kofi_rdm_flood
done
unload kofi_kunit kofi || fail "the modules do not unload"
require_no_rdma_objects
