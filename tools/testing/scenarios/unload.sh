# SPDX-License-Identifier: GPL-2.0
# unload.sh DEVICE: modules that are unloaded with callbacks running or objects open. Their code does not run
# afterwards; the log names objects left open, and owners that delay the removal of a device.

# ready MODULE PORT PARAMETERS...: loads a consumer, and waits until it listens.
ready() {
	_consumer=$1
	_port=$2
	shift 2
	from_here
	load "$_consumer" addr="$(address_for "$_consumer" "$ADDRESS")" port="$_port" "$@" &&
		await 10 "$_consumer: ready"
}
# told COUNT PATTERN: checks that the log of kOFI matches PATTERN COUNT times.
told() { [ "$(kernel_log | grep -v 'lab: ' | grep -c "kofi: $2")" = "$1" ]; }
# call PORT: sends a connection request, which the listener left open still reports.
call() { load msg_client addr="$ADDRESS" port="$1" count=1 && sleep 1 && unload msg_client; }

# removal: the removal of the device ends as soon as the consumer, which ignores the event, is unloaded.
removal() {
	ready leave_open 7473 leave=0 || return
	timeout -s KILL $((120 * PATIENCE)) /usr/bin/rdma link del "$DEVICE" &
	_removal=$!
	await 60 "kofi: $DEVICE: ep [0-9]*: 4 objects of module leave_open still open; unload it to finish removing the device" ||
		return
	unload leave_open && wait $_removal
}

need_module leave_open leave_peer leave_keep forget_rs msg_client
device_up "$1" || fail "$1 does not come up"
interface=$(/usr/bin/rdma link show "$DEVICE/1" 2>/dev/null | sed 's/.*netdev \([^ ]*\).*/\1/')
load kofi || fail "kofi.ko does not load"
if [ "$1" != loop ]; then
	check removal_names_the_owner removal
	rdma link add "$DEVICE" type "$1" netdev "$interface" && link_active "$DEVICE" || fail "$DEVICE does not come back"
fi

# An open file of debugfs keeps the module loaded, and is read until it is closed.
open_file_keeps_it() {
	exec 3</sys/kernel/debug/kofi/objects
	! unload kofi && loaded kofi && cat <&3
	_read=$?
	exec 3<&-
	unload kofi && load kofi && return $_read
}
check an_open_file_of_debugfs_keeps_it open_file_keeps_it

# A consumer in C that closes nothing.
ready leave_open 7471 leave=1 || fail "leave_open.ko does not load"
check unloads unload leave_open
check names_its_event_queue told 1 "eq [0-9]*: left open by module leave_open"
check names_its_completion_queues told 2 "cq [0-9]*: left open by module leave_open"
check names_its_provider told 1 "provider leave_open: left open by module leave_open"
check counts_its_objects told 1 "ep [0-9]*: 7 objects of module leave_open left open"
# The event of the request calls no handler, and the provider is not asked.
check calls_nobody call 7471

# The modules that close the objects hold no reference on kOFI: the open fabric holds it.
check kofi_stays eval '! unload kofi && loaded kofi'
check closes_late unload leave_keep

# An owner of a queue, receives and a set that peers use, and a peer of receives. It closes nothing.
from_here
load leave_peer addr="$(address_for leave_peer "$ADDRESS")" && await 10 "leave_peer: ready" ||
	fail "leave_peer.ko does not load"
check owner_unloads unload leave_peer
check names_the_owner_of_a_queue told 1 "peer cq [0-9]*: left open by module leave_peer"
check names_the_owner_of_receives told 1 "peer srx: left open by module leave_peer"
check names_the_owner_of_a_set told 1 "peer av_set: left open by module leave_peer"
check names_the_peer_of_receives told 1 "peer of srx [0-9]*: left open by module leave_peer"
# A message arrives, a send completes, a set is read, and all objects are closed: no owner is called.
check uses_and_closes_late unload leave_keep
check used await 1 "leave_keep: used"
check uses_as_expected eval '! kernel_log | grep -q "leave_keep: fi_"'

# A consumer in safe Rust that drops none of its handles.
ready forget_rs 7472 || fail "forget_rs.ko does not load"
check forgets unload forget_rs
check names_its_forgotten_thread told 1 "thread forgotten: left open by module forget_rs"
check names_its_cyclic_thread told 1 "thread cyclic: left open by module forget_rs"
check names_its_handler_of_events told 1 "eq [0-9]*: left open by module forget_rs"
check names_its_handlers_of_completions told 2 "cq [0-9]*: left open by module forget_rs"
check closes_its_objects told 0 ".* objects* of module forget_rs left open"
unload kofi || fail "kofi.ko does not unload"
