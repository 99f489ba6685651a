# SPDX-License-Identifier: GPL-2.0
# nvme.sh DEVICE: the NVMe host of samples/nvme uses a RAM disk of the kernel's own target. It makes, fills and checks a
# file system, and survives resets and outages of the controller, the target, the link and the device under I/O.

. "$KOFI/guest/nvme.sh"

MOUNT=/run/disk

# Attempts to reconnect follow each other by one second.
attach() { connect_disk kofi keep_alive_tmo=5,reconnect_delay=1,ctrl_loss_tmo=120; }

is_live() { [ "$(cat $CONTROLLER/state)" = live ]; }
drop_caches() { sync && echo 3 >/proc/sys/vm/drop_caches; }

make_file_system() { mkfs.ext4 -q -F $DISK && mkdir -p $MOUNT && mount -t ext4 $DISK $MOUNT; }
check_file_system() { umount $MOUNT && fsck.ext4 -f -n $DISK && cmp $DISK /dev/ram0; }

# copy_files: writes large and small files, and reads them back from the disk.
copy_files() {
	dd if=/dev/urandom of=/run/pattern bs=64k count=128 2>/dev/null || return
	cp /run/pattern $MOUNT/large || return
	for _i in $(seq 50); do
		dd if=/run/pattern of=$MOUNT/small.$_i bs=$_i count=97 2>/dev/null || return
	done
	drop_caches && cmp /run/pattern $MOUNT/large || return
	for _i in $(seq 50); do
		head -c $((_i * 97)) /run/pattern | cmp - $MOUNT/small.$_i || return
	done
}

# write_files: writes copies of a file to the disk until $stop exists, and checks each.
stop=/run/stop
write_files() {
	while [ ! -e $stop ]; do
		dd if=/run/pattern of=$MOUNT/copy bs=256k conv=fsync 2>/run/dd || return
		echo 3 >/proc/sys/vm/drop_caches
		cmp /run/pattern $MOUNT/copy || return
		echo >>/run/rounds
	done
}
rounds() { wc -l </run/rounds; }
more_rounds() { [ "$(rounds)" -gt "$1" ]; }

# survive COMMAND...: runs a command under I/O, which continues afterwards without an error.
survive() {
	rm -f $stop && : >/run/rounds
	write_files &
	writer=$!
	eventually 30 more_rounds 1 || return
	"$@"
	outage=$?
	eventually 60 is_live && eventually 60 more_rounds $(($(rounds) + 1))
	live=$?
	touch $stop
	wait $writer || { cat /run/dd && return 1; }
	return $((outage + live))
}
reset_controller() { put $CONTROLLER/reset_controller 1; }
restart_target() { withdraw_disk && sleep 3 && offer_disk; }
# replace_device: deletes the device and adds it again. The target does not listen on the new device by itself.
replace_device() {
	timeout -s KILL 60 /usr/bin/rdma link del "$DEVICE" && sleep 3 &&
		rdma link add "$DEVICE" type "$type" netdev "$interface" && link_active "$DEVICE" &&
		withdraw_disk && offer_disk
}
# set_link_down: sets the interface down and up again. After a send fails on an interface that is down, the queue pair
# of rxe for connection requests is in the error state until the device is added anew.
set_link_down() {
	ip link set "$interface" down && sleep 30 && ip link set "$interface" up || return
	[ "$type" = siw ] || replace_device
}

# lose_packets: loses one packet in a hundred while files are written. Packets of rxe to its own address do not pass the
# interface.
lose_packets() {
	tc qdisc add dev "$interface" root netem loss 1% && eventually 60 more_rounds $(($(rounds) + 3))
	lossy=$?
	tc qdisc del dev "$interface" root && return $lossy
}

# verify_with_fio: writes random blocks, with several requests at once, and checks each.
verify_with_fio() {
	fio --name=verify --filename=$MOUNT/verify --size=16M --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite \
		--bsrange=512-64k --verify=crc32c --verify_fatal=1 --verify_state_save=0 --thread \
		--output=/run/fio ||
		{ cat /run/fio && return 1; }
}

has_queues() { is_live && [ "$(cat $CONTROLLER/queue_count)" = "$1" ]; }

# lose_target: removes the target for good; the controller is removed when its time is over.
lose_target() {
	connect_disk kofi reconnect_delay=1,ctrl_loss_tmo=2 && withdraw_disk && eventually 30 [ ! -e $CONTROLLER ]
}
refuse_second_connection() { ! attach 2>/dev/null; }
refuse_unknown_disk() {
	! put /dev/nvme-fabrics "transport=kofi,traddr=$ADDRESS,trsvcid=4420,nqn=nqn.2026-01.kofi:none" 2>/dev/null
}

require_modules nvme_kofi
type=$1
device_up "$type" || fail "$type does not come up"
interface=$(netdev_of "$DEVICE")
start_target || fail "the target does not start"
load nvme_kofi || fail "nvme_kofi.ko does not load"

check connects attach
check has_a_queue_per_cpu has_queues $(($(nproc) + 1))
check refuses_a_second_connection refuse_second_connection
check makes_a_file_system make_file_system
check reads_what_it_wrote copy_files
if command -v fio >/dev/null; then
	check verifies_random_blocks verify_with_fio
fi
check survives_a_reset survive reset_controller
check survives_a_restart_of_the_target survive restart_target
check survives_a_replaced_device survive replace_device
check survives_a_link_that_is_down survive set_link_down
if [ "$type" = siw ]; then
	check survives_lost_packets survive lose_packets
fi
check leaves_an_intact_file_system check_file_system
check disconnects disconnect_disk
check refuses_an_unknown_disk refuse_unknown_disk
check gives_up_a_lost_target lose_target
offer_disk
check connects_again attach
unload nvme_kofi kofi || fail "the modules do not unload"
require_no_rdma_objects
stop_target || fail "the target does not stop"
