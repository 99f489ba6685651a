# SPDX-License-Identifier: GPL-2.0
# Functions for scenarios that use an NVMe over Fabrics target of the kernel.

TARGET=/sys/kernel/config/nvmet
NQN=nqn.2026-01.kofi:disk
DISK=/dev/nvme0n1
CONTROLLER=/sys/class/nvme/nvme0

# offer_disk, withdraw_disk: make the disk available at the port of the target, or end all of its connections.
offer_disk() { ln -s $TARGET/subsystems/$NQN $TARGET/ports/1/subsystems/$NQN; }
withdraw_disk() { rm $TARGET/ports/1/subsystems/$NQN; }

# start_target, stop_target: export /dev/ram0 at the device's address, or end that.
start_target() {
	mount -t configfs configfs /sys/kernel/config && mkdir $TARGET/subsystems/$NQN $TARGET/ports/1 &&
		mkdir $TARGET/subsystems/$NQN/namespaces/1 || return
	put $TARGET/subsystems/$NQN/attr_allow_any_host 1 &&
		put $TARGET/subsystems/$NQN/namespaces/1/device_path /dev/ram0 &&
		put $TARGET/subsystems/$NQN/namespaces/1/enable 1 || return
	put $TARGET/ports/1/addr_trtype rdma && put $TARGET/ports/1/addr_adrfam ipv4 &&
		put $TARGET/ports/1/addr_traddr "$ADDRESS" && put $TARGET/ports/1/addr_trsvcid 4420 || return
	offer_disk
}
stop_target() {
	[ -L $TARGET/ports/1/subsystems/$NQN ] && withdraw_disk
	rmdir $TARGET/ports/1 $TARGET/subsystems/$NQN/namespaces/1 $TARGET/subsystems/$NQN &&
		umount /sys/kernel/config
}

# connect_disk TRANSPORT [OPTIONS], disconnect_disk: connect a host to the target and wait for the disk, or disconnect.
connect_disk() {
	put /dev/nvme-fabrics "transport=$1,traddr=$ADDRESS,trsvcid=4420,nqn=$NQN,$2" && eventually 10 [ -b $DISK ]
}
disconnect_disk() {
	put $CONTROLLER/delete_controller 1 && eventually 10 [ ! -e $DISK ]
}
