# SPDX-License-Identifier: GPL-2.0
# The guest's first process: mounts, then the scenarios of $KOFI/list one after another, then off.
# All it says goes through the kernel's log, so that the console shows one sequence of whole lines.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run KOFI=${KOFI:-/kofi}

mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t debugfs debugfs /sys/kernel/debug
mount -t tmpfs tmpfs /run
mkdir -p /dev/pts /dev/shm /run/netns
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
ulimit -l unlimited
exec 9>/dev/kmsg
. "$KOFI/env"
. "$KOFI/guest/lib.sh"
ip link set lo up
dmesg -n 8

mark() { echo "<6>lab: $*" >&9; }

# A scenario's words: results as they are, everything else marked as mere text.
tell() {
	while IFS= read -r line; do
		case $line in
		"ok "* | "not ok "*) mark "$line" ;;
		*) mark "| ${line:0:800}" ;;
		esac
	done
}

# What a scenario left behind goes, newest first, and what does not go is its failure.
tidy() {
	for module in $(sed 's/ .*//' /proc/modules); do
		timeout -s KILL 60 rmmod "$module" || mark "not ok $1.unload $module stays"
	done
	rdma resource show qp | grep -q kofi && mark "not ok $1.resources $(rdma resource show qp | grep kofi)"
	for namespace in $(ip netns list | sed 's/ .*//'); do
		for device in $(ip netns exec "$namespace" /bin/ls /sys/class/infiniband); do
			drop_device "$device"
		done
		ip netns del "$namespace"
	done
	for device in $(ls /sys/class/infiniband); do
		drop_device "$device"
	done
	for interface in v0 w0; do
		[ -e /sys/class/net/$interface ] && ip link del $interface
	done
}
drop_device() { rdma link del "$1" || mark "| $1 is gone already"; }

run_one() {
	mark "begin $1"
	rm -f /run/said
	mkfifo /run/said
	tell </run/said &
	teller=$!
	setsid timeout -s KILL "$2" sh "$KOFI/guest/scenario.sh" "$1" "$KOFI/scenarios/$3" $4 \
		</dev/null >/run/said 2>&1 &
	session=$!
	wait $session
	status=$?
	kill -KILL -$session 2>/dev/null
	wait $teller
	tidy "$1" 2>&1 | tell
	mark "end $1 $status"
}

# Twice: an object counts as leaked once a scan has missed it and it is some seconds old.
look_for_leaks() {
	[ -e /sys/kernel/debug/kmemleak ] || return
	mark "begin kmemleak"
	sleep 6
	echo scan >/sys/kernel/debug/kmemleak
	echo scan >/sys/kernel/debug/kmemleak
	tell </sys/kernel/debug/kmemleak
	mark "end kmemleak 0"
}

mark "boot"
if [ "$MODE" = shell ]; then
	. "$KOFI/guest/shell.sh"
else
	while IFS='|' read -r name limit script arguments; do
		run_one "$name" "$limit" "$script" "$arguments" </dev/null
	done <"$KOFI/list"
	look_for_leaks
fi
mark "over"
poweroff -f
