# SPDX-License-Identifier: GPL-2.0
# many.sh DEVICE PEERS: PEERS endpoints send their first message to one endpoint at the same time, which connects all.
require_modules kofi_kunit
require_suites kofi_rdm_many
device_up "$1" || fail "$1 does not come up"
local=none
[ "$1" = loop ] && local=all
load kofi_kunit addr="$ADDRESS" local=$local many_peers="$2" || fail "kofi_kunit.ko does not load"
run_suites kofi_rdm_many
unload kofi_kunit kofi || fail "the modules do not unload"
require_no_rdma_objects
