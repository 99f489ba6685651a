# SPDX-License-Identifier: GPL-2.0
# kunit.sh crate|DEVICE [MODE [msg]]: runs KUnit suites. "crate" runs the suites of kofi.ko and kofi_perf.ko, which
# need no device. A device runs the suites of the C API on it, or a part of them by MODE:
#   serial      all suites with FI_THREAD_COMPLETION; "serial msg": only those of connected endpoints
#   local       suites of datagrams, between endpoints that do not use the device
#   mixed       suites of datagrams, where some of the endpoints do not use the device
#   races       suites with concurrent calls, handlers and closes
#   ends        suites of closing datagram endpoints
suites() { ls /sys/kernel/debug/kunit; }

require_modules kofi kofi_perf
if [ "$1" = crate ]; then
	load kofi || fail "kofi.ko does not load"
	load kofi_perf || fail "kofi_perf.ko does not load"
	run_suites 'kofi_*'
	exit
fi
require_modules kofi_kunit
device_up "$1" || fail "$1 does not come up"
enable_fault_injection || fail "fault injection cannot be enabled"
load kofi || fail "kofi.ko does not load"
before=$(suites)
# Tests of rare races are repeated less often on slow lanes.
rounds=20
[ "$TIMEOUT_FACTOR" -gt 1 ] && rounds=4
serial=N local=none only=. without='^$'
case $2 in
serial) serial=Y && [ "$3" = msg ] && only='^kofi_([^r]|r[^d])' without='_fault' ;;
# A raw peer is never local. The runs over rxe and loop already fail every allocation of both paths.
local) local=all only=rdm without='rdm_raw|fault' ;;
mixed) local=some only=rdm without='rdm_raw|fault' ;;
races) only='race|busy|handler|waiters|trywait|kofi_close|kofi_(cm|srx)_end$|peer_srx$|peer_cq$|stress' ;;
ends) only='^kofi_rdm.*_end$' ;;
esac
# loop has no device, so that all endpoints are local.
[ "$1" = loop ] && local=all
load kofi_kunit addr="$ADDRESS" addr6="$ADDRESS6" rounds=$rounds serial=$serial local=$local || fail "kofi_kunit.ko does not load"
# shellcheck disable=SC2046 # one argument for each suite of the module
run_suites $(suites | grep -vxF "$before" | grep -E "$only" | grep -vE "$without")
kernel_logged "ignore-gfp-wait is not N" && fail "allocations do not fail"
unload kofi_kunit kofi || fail "the modules do not unload"
require_no_rdma_objects
