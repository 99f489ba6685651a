# SPDX-License-Identifier: GPL-2.0
# share.sh DEVICE: a Rust consumer whose connections share their receives, and what is left of it.
TREE=/sys/kernel/debug/kofi/objects

shares() { load share_rs addr="$(number_of "$ADDRESS")" && unload share_rs; }
nothing_left() { [ ! -s "$TREE" ] && ! /usr/bin/rdma resource show | grep -q kofi; }

need_module share_rs
device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
check messages shares
check nothing_left nothing_left
unload kofi || fail "kofi.ko does not unload"
