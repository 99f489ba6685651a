# SPDX-License-Identifier: GPL-2.0
# KUnit suites: "crate" runs those of kofi.ko and kofi_perf.ko, which need no device, "rxe" and "siw" run those that
# drive the C API on that device; "rxe serial" without locks where a test needs none, and "rxe serial msg" those of
# connections alone. "rxe local" runs those of datagrams between endpoints that reach each other without the device,
# "rxe mixed" has some of them do, "rxe races" those whose threads meet: calls against calls, handlers and the end of
# what they work on, and "rxe ends" those of how datagram endpoints end.
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
enable_fault_injection || fail "no knobs"
load kofi || fail "kofi.ko does not load"
before=$(suites)
# What may go wrong one time in many is repeated less often where everything is slow.
rounds=20
[ "$TIMEOUT_FACTOR" -gt 1 ] && rounds=4
serial=N local=none only=. without='^$'
case $2 in
serial) serial=Y && [ "$3" = msg ] && only='^kofi_([^r]|r[^d])' without='_fault' ;;
# A raw peer is never local, and every allocation of both ways has failed in the runs over rxe and loop.
local) local=all only=rdm without='strange|fault' ;;
mixed) local=some only=rdm without='strange|fault' ;;
races) only='race|busy|handler|waiters|trywait|kofi_close|kofi_(cm|srx)_end$|peer_srx$|peer_cq$|stress' ;;
ends) only='^kofi_rdm.*_end$' ;;
esac
# There is no device.
[ "$1" = loop ] && local=all
load kofi_kunit addr="$ADDRESS" addr6="$ADDRESS6" rounds=$rounds serial=$serial local=$local || fail "kofi_kunit.ko does not load"
# shellcheck disable=SC2046 # a word for each suite that came with the module
run_suites $(suites | grep -vxF "$before" | grep -E "$only" | grep -vE "$without")
kernel_logged "ignore-gfp-wait is not N" && fail "allocations do not fail"
unload kofi_kunit kofi || fail "the modules do not unload"
rdma resource show | grep kofi && fail "something is left"
true
