# SPDX-License-Identifier: GPL-2.0
# drop.sh DEVICE ROUNDS: the last handles of all that a connection has are dropped in interrupts, at both
# ends at once. Directly after that the module goes, or the device does; nothing is left.
TREE=/sys/kernel/debug/kofi/objects

drops() { load drop_rs addr="$(number_of "$ADDRESS")" rounds="$1"; }
nothing_left() { [ ! -s "$TREE" ] && ! /usr/bin/rdma resource show | grep -q kofi; }
unloads() { drops "$1" && unload drop_rs && nothing_left; }
# kOFI follows at once, too.
all_unload() { drops "$1" && unload drop_rs kofi && load kofi; }
removes() {
	drops 1 || return
	timeout -s KILL $((60 * PATIENCE)) /usr/bin/rdma link del "$DEVICE" || return
	! /usr/bin/rdma link show | grep -q "$DEVICE" && nothing_left
}

need_module drop_rs
device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
check once unloads 1
check often unloads "$2"
check all_go all_unload 1
check device_goes removes
unload drop_rs kofi || fail "the modules do not unload"
