# SPDX-License-Identifier: GPL-2.0
# drop.sh DEVICE ROUNDS: a consumer drops the last handles of all objects of a connection in interrupts, at both ends
# at the same time. Then it is unloaded, or the device is deleted, immediately; no object remains.
TREE=/sys/kernel/debug/kofi/objects

drop_handles() { load drop_rs addr="$(ipv4_number "$ADDRESS")" rounds="$1"; }
nothing_left() { [ ! -s "$TREE" ] && ! rdma_objects; }
unload_consumer() { drop_handles "$1" && unload drop_rs && nothing_left; }
# unload_all ROUNDS: unloads kOFI immediately, too.
unload_all() { drop_handles "$1" && unload drop_rs kofi && load kofi; }
remove_device() {
	drop_handles 1 || return
	timeout -s KILL $((60 * TIMEOUT_FACTOR)) /usr/bin/rdma link del "$DEVICE" || return
	! /usr/bin/rdma link show | grep -q "$DEVICE" && nothing_left
}

require_modules drop_rs
device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
check consumer_unloads_after_interrupt_drops unload_consumer 1
check consumer_unloads_after_repeated_interrupt_drops unload_consumer "$2"
check kofi_unloads_after_interrupt_drops unload_all 1
check device_is_removed_after_interrupt_drops remove_device
unload drop_rs kofi || fail "the modules do not unload"
