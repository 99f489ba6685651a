# SPDX-License-Identifier: GPL-2.0
# consumer.sh DEVICE MODULE: loads a Rust consumer, which runs its test in its init function and leaves no object.
TREE=/sys/kernel/debug/kofi/objects

run_consumer() { load "$1" addr="$(ipv4_number "$ADDRESS")" && unload "$1"; }
nothing_left() { [ ! -s "$TREE" ] && ! rdma_objects; }

require_modules "$2"
device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
check "$2" run_consumer "$2"
check consumer_leaves_no_objects nothing_left
unload kofi || fail "kofi.ko does not unload"
