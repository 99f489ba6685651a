# SPDX-License-Identifier: GPL-2.0
# Datagrams on the same host go by the device if their endpoints say so, and otherwise do not: local.sh DEVICE
need_module kofi_kunit
needs_suites kofi_rdm_long kofi_rdm_rma
device_up "$1" || fail "$1 does not come up"
packets() { cat "/sys/class/infiniband/$DEVICE/ports/1/hw_counters/sent_pkts"; }

# went HOW LEAST MOST: what that takes of the device's packets.
went() {
	load kofi_kunit addr="$ADDRESS" local="$1" || return
	before=$(packets)
	run_suites kofi_rdm_long kofi_rdm_rma
	sent=$(($(packets) - before))
	echo "local=$1: $sent packets"
	unload kofi_kunit && [ $sent -ge "$2" ] && [ $sent -le "$3" ]
}
check by_the_device went none 10000 1000000000
# The connection manager still sends a few packets for the connections that have just ended.
check without_it went all 0 1000
unload kofi || fail "kofi.ko does not unload"
