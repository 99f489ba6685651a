# SPDX-License-Identifier: GPL-2.0
# hostile.sh DEVICE RUNS PACKETS: a peer sends random and invalid packets to a datagram endpoint, PACKETS in each of
# RUNS runs with different seeds.
require_modules kofi_kunit
require_suites kofi_rdm_hostile
device_up "$1" || fail "$1 does not come up"
local=none
[ "$1" = loop ] && local=all
load kofi_kunit addr="$ADDRESS" local=$local hostile_packets="$3" || fail "kofi_kunit.ko does not load"
for run in $(seq "$2"); do
	echo "$((run + 1))" >/sys/module/kofi_kunit/parameters/hostile_seed
	run_suites kofi_rdm_hostile
done
unload kofi_kunit kofi || fail "the modules do not unload"
require_no_rdma_objects
