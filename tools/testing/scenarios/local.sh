# SPDX-License-Identifier: GPL-2.0
# Datagrams on the same host go by the device if their endpoints say so, and otherwise do not: local.sh DEVICE
require_modules kofi_kunit
require_suites kofi_rdm_long kofi_rdm_rma
device_up "$1" || fail "$1 does not come up"
PORT=/sys/class/infiniband/$DEVICE/ports/1
# packets: packets that the device has sent, less the messages of the connection manager. Suites close endpoints,
# and a peer that is not found on this host any more is asked for over the device.
packets() {
	_managed=$(cat "$PORT"/cm_tx_msgs/* "$PORT"/cm_tx_retries/* | awk '{ n += $1 } END { print n }')
	echo $(($(cat "$PORT/hw_counters/sent_pkts") - _managed))
}
# within LEAST MOST: checks the packets since $before. The connection manager counts a message after it is sent.
within() {
	sent=$(($(packets) - before))
	[ $sent -ge "$1" ] && [ $sent -le "$2" ]
}

# run_local LOCAL LEAST MOST: runs the suites with local=LOCAL, and checks the number of packets that the device sends.
run_local() {
	load kofi_kunit addr="$ADDRESS" local="$1" || return
	before=$(packets)
	run_suites kofi_rdm_long kofi_rdm_rma
	eventually 10 within "$2" "$3"
	_status=$?
	echo "local=$1: $sent packets"
	unload kofi_kunit && return $_status
}
check datagrams_use_the_device_with_local_none run_local none 10000 1000000000
check datagrams_bypass_the_device_with_local_all run_local all 0 0
unload kofi || fail "kofi.ko does not unload"
