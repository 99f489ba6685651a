# SPDX-License-Identifier: GPL-2.0
# consumer.sh DEVICE MODULE: a Rust consumer that does what it does when it is loaded, and what is left of it.
TREE=/sys/kernel/debug/kofi/objects

does() { load "$1" addr="$(number_of "$ADDRESS")" && unload "$1"; }
nothing_left() { [ ! -s "$TREE" ] && ! /usr/bin/rdma resource show | grep -q kofi; }

need_module "$2"
device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
check "$2" does "$2"
check nothing_left nothing_left
unload kofi || fail "kofi.ko does not unload"
