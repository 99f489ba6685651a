# SPDX-License-Identifier: GPL-2.0
# nvme.sh DEVICE: the NVMe host of samples/nvme uses a RAM disk of the kernel's own target. It makes, fills and checks a
# file system, survives resets and outages of the controller, the target, the link and the device under I/O, and is a
# swap device when memory is short.

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

# Loads run until $stop exists, and add a line to $rounds after each round.
stop=/run/stop
rounds=/run/rounds

# write_files: the load that writes copies of a file to the disk, and checks each.
write_files() {
	while [ ! -e $stop ]; do
		dd if=/run/pattern of=$MOUNT/copy bs=256k conv=fsync 2>/run/dd || { cat /run/dd && return 1; }
		echo 3 >/proc/sys/vm/drop_caches
		cmp /run/pattern $MOUNT/copy || return
		echo >>$rounds
	done
}

# await_rounds COUNT: waits for COUNT more rounds of the load. Fails when it does not transfer a megabyte in a minute.
await_rounds() {
	_last=$(($(count_rounds) + $1))
	until [ "$(count_rounds)" -ge $_last ]; do
		eventually 60 has_transferred $(($(sectors) + 2048)) && continue
		echo "no I/O before the end of round $_last"
		return 1
	done
}
count_rounds() { wc -l <$rounds; }
# sectors: prints how many sectors of the disk were read and written.
STATISTICS=/sys/block/nvme0n1/stat
sectors() { awk '{ print $3 + $7 }' $STATISTICS; }
has_transferred() { [ "$(sectors)" -ge "$1" ]; }

# under_load LOAD COMMAND...: runs a command while a load runs, which continues afterwards without an error.
under_load() {
	rm -f $stop && : >$rounds
	"$1" &
	load=$!
	shift
	await_rounds 2 && "$@"
	outage=$?
	eventually 60 is_live && await_rounds 2
	live=$?
	touch $stop
	wait $load && return $((outage + live))
}
survive() { under_load write_files "$@"; }
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
	tc qdisc add dev "$interface" root netem loss 1% && await_rounds 3
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

# start_swapping: makes the disk a swap device, and leaves 24 MiB of memory: a file that is never swapped out uses the
# rest. The target is in the same kernel, and allocates memory for the data of each request; if it had to swap for
# that, it would wait for itself. Therefore the RAM disk has all of its pages before, and the requests in progress are
# few and small. kswapd begins when less than 21 MiB are free, and ends when 37 MiB are free. The load waits while less
# than 14 MiB are free, and below 6 MiB the target would swap.
start_swapping() {
	dd if=/dev/zero of=$DISK bs=1M count=64 conv=fsync 2>/dev/null && mkswap $DISK && swapon $DISK || return
	put $QUEUE/nr_requests 16 && put $QUEUE/max_sectors_kb 64 && put $VM/watermark_scale_factor 80 &&
		put $VM/watermark_boost_factor 0 && drop_caches && mkdir $FILLED && mount -t ramfs ramfs $FILLED || return
	while [ "$(available_mib)" -gt 24 ]; do
		dd if=/dev/zero bs=1M count=4 >>$FILLED/zeros 2>/dev/null || return
	done
}
stop_swapping() {
	umount $FILLED && rmdir $FILLED && swapoff $DISK && put $VM/watermark_scale_factor 10 &&
		put $VM/watermark_boost_factor 15000
}
FILLED=/run/filled
QUEUE=/sys/block/nvme0n1/queue
VM=/proc/sys/vm
LEAST_FREE=$((14 << 20))
available_mib() { awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo; }

# use_memory: the load that needs more memory than is left, and checks it.
use_memory() {
	"$KOFI/bin/memory_load" $stop $LEAST_FREE >>$rounds
	_status=$?
	tail -n 1 $rounds
	return $_status
}
# swap_pages: the load has 24 MiB in swap space at first. 16 MiB of them fit into memory before kswapd begins, so that
# 2,048 pages or more are swapped in and out in each round. The disk has no file system now, and no other I/O.
swap_pages() {
	_in=$(pages_in) _out=$(pages_out)
	await_rounds 3 || return
	_in=$(($(pages_in) - _in)) _out=$(($(pages_out) - _out))
	echo "pages swapped in three rounds: $_in in, $_out out"
	[ $_in -ge 6144 ] && [ $_out -ge 6144 ]
}
pages_in() { awk '{ print int($3 / 8) }' $STATISTICS; }
pages_out() { awk '{ print int($7 / 8) }' $STATISTICS; }
reset_repeatedly() {
	for _i in 1 2 3; do
		reset_controller && eventually 60 is_live && await_rounds 1 || return
	done
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
# On the plain lane, kswapd sleeps while less than 14 MiB are free, and the target has to swap.
if [ "$LANE" != plain ]; then
	check becomes_a_swap_device start_swapping
	check swaps_under_memory_pressure under_load use_memory swap_pages
	check survives_resets_while_it_swaps under_load use_memory reset_repeatedly
	check returns_all_swapped_pages stop_swapping
fi
unload nvme_kofi kofi || fail "the modules do not unload"
require_no_rdma_objects
stop_target || fail "the target does not stop"
