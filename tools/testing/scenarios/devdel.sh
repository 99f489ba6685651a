# SPDX-License-Identifier: GPL-2.0
# devdel.sh DEVICE [traffic]: deletes the device under traffic. All endpoints report an error, the consumers close
# them, and the deletion ends when the last object is closed. "traffic" omits the servers without clients.

# remove_under SUITE: runs a suite, and deletes the device during its traffic.
remove_under() {
	before=$(kernel_log | grep -c "traffic flows")
	run_suites "$1" &
	suite=$!
	eventually 30 traffic_started || return
	timeout -s KILL $((60 * TIMEOUT_FACTOR)) /usr/bin/rdma link del "$DEVICE" || return
	wait $suite
	! /usr/bin/rdma link show | grep -q "$DEVICE"
}
traffic_started() { [ "$(kernel_log | grep -c "traffic flows")" -gt "$before" ]; }
add_device() { rdma link add "$DEVICE" type "$1" netdev "$2" && link_active "$DEVICE"; }

require_modules kofi_kunit
require_suites kofi_removal kofi_removal_many kofi_removal_rdm kofi_removal_idle kofi_removal_srx \
	kofi_removal_rdm_srx kofi_data
device_up "$1" || fail "$1 does not come up"
interface=$(netdev_of "$DEVICE")
# 32 connections, or 4 on slow lanes.
links=32
[ "$TIMEOUT_FACTOR" -gt 1 ] && links=4
load kofi_kunit addr="$ADDRESS" addr6="$ADDRESS6" outage=1 removal_links=$links || fail "kofi_kunit.ko does not load"

check removal_under_traffic remove_under kofi_removal
add_device "$1" "$interface" || fail "$DEVICE does not come back"
check removal_under_traffic_of_many_endpoints remove_under kofi_removal_many
add_device "$1" "$interface" || fail "$DEVICE does not come back"
check removal_under_rdm_traffic remove_under kofi_removal_rdm
add_device "$1" "$interface" || fail "$DEVICE does not come back"
check removal_with_idle_objects remove_under kofi_removal_idle
add_device "$1" "$interface" || fail "$DEVICE does not come back"
check removal_with_shared_receive_contexts remove_under kofi_removal_srx
add_device "$1" "$interface" || fail "$DEVICE does not come back"
check removal_with_rdm_shared_receive_contexts remove_under kofi_removal_rdm_srx
# Connections work on a device that was deleted and added with the same name.
add_device "$1" "$interface" || fail "$DEVICE does not come back"
run_suites kofi_data
unload kofi_kunit

# Endpoints whose traffic bypasses the device report its removal as well.
load kofi_kunit addr="$ADDRESS" outage=1 local=all || fail "kofi_kunit.ko does not load"
check removal_under_local_rdm_traffic remove_under kofi_removal_rdm
add_device "$1" "$interface" || fail "$DEVICE does not come back"
unload kofi_kunit

if has_module msg_server && has_module msg_client; then
	load msg_server addr="$ADDRESS" && await 30 "msg_server: ready" || fail "msg_server does not start"
	load msg_client addr="$ADDRESS" count=1000000000 && sleep 1
	check removal_under_sample_traffic timeout -s KILL $((60 * TIMEOUT_FACTOR)) /usr/bin/rdma link del "$DEVICE"
	check removal_fails_the_client await 30 "msg_client: done count=[1-9].* errors=1"
	unload msg_client msg_server || fail "the samples do not unload"
	add_device "$1" "$interface" || fail "$DEVICE does not come back"
fi

# remove_with_idle_server SERVER: deletes the device of a server without clients, which closes at the event.
remove_with_idle_server() {
	reset_kernel_log
	load "$1" addr="$(sample_address "$1" "$ADDRESS")" && await 30 "$1: ready" || return
	timeout -s KILL $((60 * TIMEOUT_FACTOR)) /usr/bin/rdma link del "$DEVICE" || return
	unload "$1" && add_device "$type" "$interface"
}
type=$1 part=$2
servers="datagram_server datagram_server_rs mem_server mem_server_rs echo_handler echo_handler_rs"
# queue_server_rs needs atomic operations of the device.
[ "$type" = siw ] || servers="$servers queue_server_rs"
[ "$part" = traffic ] && servers=
for server in $servers; do
	has_module $server || continue
	check removal_with_idle_server.$server remove_with_idle_server $server
done
unload kofi || fail "kofi.ko does not unload"
