# SPDX-License-Identifier: GPL-2.0
# violations.sh DEVICE: connections that are closed because of a violation by the peer are counted, and the log names
# the peer.
require_modules kofi_kunit
require_suites kofi_rdm_rights kofi_rdm_raw_acks
device_up "$1" || fail "$1 does not come up"
local=none
[ "$1" = loop ] && local=all
load kofi_kunit addr="$ADDRESS" local=$local rights_hold=Y || fail "kofi_kunit.ko does not load"

# counted COUNT: checks that an object has counted COUNT violations.
counted() { grep -q "violations=$1\>" /sys/kernel/debug/kofi/objects; }

# With rights_hold=Y, the suite keeps an endpoint open whose peer has used a wrong key on three connections. kOFI logs
# at most ten lines about one address in five seconds.
run_suites kofi_rdm_rights &
suites=$!
check rdm_10_violations_are_counted eventually 60 counted 3
check rdm_10_violations_are_logged_with_the_peer \
	kernel_logged "peer $ADDRESS:[0-9]*: a connection is closed: atomic operation without the right or a valid key"
echo N >/sys/module/kofi_kunit/parameters/rights_hold
wait $suites
# Loading the module again resets the limit of lines.
unload kofi_kunit kofi || fail "the modules do not unload"
load kofi_kunit addr="$ADDRESS" local=$local || fail "kofi_kunit.ko does not load again"
run_suites kofi_rdm_raw_acks
check rdm_10_acknowledgements_out_of_turn_are_logged_with_the_peer \
	kernel_logged "peer $ADDRESS:[0-9]*: a connection is closed: acknowledgement of a message that does not await one"
unload kofi_kunit kofi || fail "the modules do not unload"
require_no_rdma_objects
