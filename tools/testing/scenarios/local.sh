# SPDX-License-Identifier: GPL-2.0
# local.sh DEVICE: datagrams to an endpoint of the same host use the device, or bypass it if both endpoints allow
# that.
require_modules kofi_kunit
require_suites kofi_rdm_long kofi_rdm_rma
device_up "$1" || fail "$1 does not come up"
PORT=/sys/class/infiniband/$DEVICE/ports/1
# packets: prints the number of packets that the device has sent, without those of the connection manager: an endpoint
# connects over the device to a local peer that has been closed.
packets() {
	_cm_packets=$(cat "$PORT"/cm_tx_msgs/* "$PORT"/cm_tx_retries/* | awk '{ n += $1 } END { print n }')
	echo $(($(cat "$PORT/hw_counters/sent_pkts") - _cm_packets))
}
# packets_are_between MIN MAX: checks the number of packets since $before. The connection manager counts a message
# after it is sent.
packets_are_between() {
	sent=$(($(packets) - before))
	[ $sent -ge "$1" ] && [ $sent -le "$2" ]
}

# run_local LOCAL MIN MAX: runs the suites with local=LOCAL, and checks the number of packets that the device sends.
run_local() {
	load kofi_kunit addr="$ADDRESS" local="$1" || return
	before=$(packets)
	run_suites kofi_rdm_long kofi_rdm_rma
	eventually 10 packets_are_between "$2" "$3"
	_status=$?
	echo "local=$1: $sent packets"
	unload kofi_kunit && return $_status
}
check datagrams_use_the_device_with_local_none run_local none 10000 1000000000
check datagrams_bypass_the_device_with_local_all run_local all 0 0
unload kofi || fail "kofi.ko does not unload"
