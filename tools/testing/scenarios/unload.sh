# SPDX-License-Identifier: GPL-2.0
# unload.sh DEVICE: consumers are unloaded with running callbacks or open objects. None of their code runs afterwards;
# the log names the open objects, and the owners that delay the removal of a device.

# load_consumer MODULE PORT PARAMETERS...: loads a consumer, and waits until it listens.
load_consumer() {
	_consumer=$1
	_port=$2
	shift 2
	reset_kernel_log
	load "$_consumer" addr="$(sample_address "$_consumer" "$ADDRESS")" port="$_port" "$@" &&
		await 10 "$_consumer: ready"
}
# log_has COUNT PATTERN: checks that COUNT lines of kOFI's log match the pattern.
log_has() { [ "$(kernel_log | grep -v 'lab: ' | grep -c "kofi: $2")" = "$1" ]; }
# send_request PORT: sends a connection request, which the open passive endpoint writes to its event queue.
send_request() { load msg_client addr="$ADDRESS" port="$1" count=1 && eventually 10 request_waits && unload msg_client; }
request_waits() {
	awk '/^fabric/ { left = / of leave_open/ } left && /^ *eq .* depth=[1-9]/ { waits = 1 } END { exit !waits }' \
		/sys/kernel/debug/kofi/objects
}

# remove_device: deletes the device of a consumer that ignores the event; the deletion ends when it is unloaded.
remove_device() {
	load_consumer leave_open 7473 leave=0 || return
	timeout -s KILL $((120 * TIMEOUT_FACTOR)) /usr/bin/rdma link del "$DEVICE" &
	_removal=$!
	await 60 "kofi: $DEVICE: ep [0-9]*: 4 objects of module leave_open still open; unload it to finish removing the device" ||
		return
	unload leave_open && wait $_removal
}

require_modules leave_open leave_peer leave_keep forget_rs msg_client
device_up "$1" || fail "$1 does not come up"
interface=$(netdev_of "$DEVICE")
load kofi || fail "kofi.ko does not load"
if [ "$1" != loop ]; then
	check log_names_the_owner_that_delays_a_removal remove_device
	rdma link add "$DEVICE" type "$1" netdev "$interface" && link_active "$DEVICE" || fail "$DEVICE does not come back"
fi

# keep_debugfs_open: an open file of debugfs keeps the module loaded, and can be read.
keep_debugfs_open() {
	exec 3</sys/kernel/debug/kofi/objects
	! unload kofi && loaded kofi && cat <&3
	_read=$?
	exec 3<&-
	unload kofi && load kofi && return $_read
}
check open_debugfs_file_keeps_kofi_loaded keep_debugfs_open

# A consumer in C that closes no object.
load_consumer leave_open 7471 leave=1 || fail "leave_open.ko does not load"
check consumer_unloads_with_open_objects unload leave_open
check log_names_the_open_eq log_has 1 "eq [0-9]*: left open by module leave_open"
check log_names_the_open_cqs log_has 2 "cq [0-9]*: left open by module leave_open"
check log_names_the_registered_provider log_has 1 "provider leave_open: left open by module leave_open"
check log_counts_the_open_objects log_has 1 "ep [0-9]*: 7 objects of module leave_open left open"
# The event of the request calls no handler, and no function of the provider.
check request_after_unload_calls_no_handler send_request 7471

# leave_keep, which closes the objects, holds no reference on kOFI; the open fabric does.
check open_objects_keep_kofi_loaded eval '! unload kofi && loaded kofi'
check objects_close_after_their_consumer_unloaded unload leave_keep

# A consumer that owns a peer CQ, a peer SRX and a peer AV set, and is a peer of an SRX. It closes no object.
reset_kernel_log
load leave_peer addr="$(sample_address leave_peer "$ADDRESS")" && await 10 "leave_peer: ready" ||
	fail "leave_peer.ko does not load"
check peer_owner_unloads_with_open_objects unload leave_peer
check log_names_the_owner_of_the_peer_cq log_has 1 "peer cq [0-9]*: left open by module leave_peer"
check log_names_the_owner_of_the_peer_srx log_has 1 "peer srx: left open by module leave_peer"
check log_names_the_owner_of_the_peer_av_set log_has 1 "peer av_set: left open by module leave_peer"
check log_names_the_peer_of_the_srx log_has 1 "peer of srx [0-9]*: left open by module leave_peer"
# leave_keep receives a message, completes a send, reads the set and closes all objects: no function of the owner
# runs.
check peers_close_after_their_owner_unloaded unload leave_keep
check peers_are_used_after_their_owner_unloaded await 1 "leave_keep: used"
check calls_on_peers_return_as_expected eval '! kernel_log | grep -q "leave_keep: fi_"'

# A consumer in safe Rust that forgets all of its handles.
load_consumer forget_rs 7472 || fail "forget_rs.ko does not load"
check rust_consumer_unloads_with_forgotten_handles unload forget_rs
check log_names_the_forgotten_thread log_has 1 "thread forgotten: left open by module forget_rs"
check log_names_the_cyclic_thread log_has 1 "thread cyclic: left open by module forget_rs"
check log_names_the_eq_of_the_forgotten_handler log_has 1 "eq [0-9]*: left open by module forget_rs"
check log_names_the_cqs_of_the_forgotten_handlers log_has 2 "cq [0-9]*: left open by module forget_rs"
check log_names_no_other_open_object log_has 0 ".* objects* of module forget_rs left open"
unload kofi || fail "kofi.ko does not unload"
