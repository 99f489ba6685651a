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
echo "$KOFI/guest/modprobe.sh" >/proc/sys/kernel/modprobe
exec 9>/dev/kmsg
. "$KOFI/env"
. "$KOFI/guest/lib.sh"
ip link set lo up
dmesg -n 8

mark() { echo "<6>lab: $*" >&9; }

# A scenario's words, as a subtest of the guest's KTAP: what is no KTAP becomes a diagnostic line. The
# last one is kept. The kernel takes lines of less than 1,024 bytes.
tell() {
	_last=
	while IFS= read -r line; do
		case ${line#"${line%%[! ]*}"} in
		"KTAP version "* | 1..[0-9]* | "ok "[0-9]* | "not ok "[0-9]* | "#"*) ;;
		*)
			_last=${line:0:800}
			line="# $line"
			;;
		esac
		mark "  ${line:0:800}"
	done
	echo "$_last" >/run/last
}

# What a scenario left behind goes, newest first, and what does not go is its failure.
tidy() {
	for module in $(sed 's/ .*//' /proc/modules); do
		timeout -s KILL 60 rmmod "$module" || not_ok unload "$module stays"
	done
	rdma resource show qp | grep -q kofi && not_ok resources "$(rdma resource show qp | grep kofi)"
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
drop_device() { rdma link del "$1" || echo "$1 is gone already"; }

scenarios=0
begin() {
	mark "  KTAP version 1"
	mark "  # Subtest: $1"
	echo 0 >/run/number
}
# end NAME STATUS WORDS: the result of a scenario, by how its script ended and what it said at last.
end() {
	scenarios=$((scenarios + 1))
	case $2 in
	0) ;;
	77)
		mark "ok $scenarios $1 # SKIP ${3#skip: }"
		return
		;;
	137 | 143) mark "# $1: ran out of time; last words: $3" ;;
	*) mark "# $1: ended with $2: $3" ;;
	esac
	[ "$2" = 0 ] && mark "ok $scenarios $1" || mark "not ok $scenarios $1"
}

run_one() {
	begin "$1"
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
	words=$(cat /run/last)
	tidy 2>&1 | tell
	end "$1" $status "$words"
}

# Twice: an object counts as leaked once a scan has missed it and it is some seconds old.
look_for_leaks() {
	begin kmemleak
	sleep 6
	echo scan >$leaks
	echo scan >$leaks
	tell <$leaks
	end kmemleak 0
}

echo 0 >/run/number
if [ "$MODE" = shell ]; then
	. "$KOFI/guest/shell.sh"
else
	mark "KTAP version 1"
	leaks=/sys/kernel/debug/kmemleak
	total=$(grep -c . "$KOFI/list")
	[ -e $leaks ] && total=$((total + 1))
	mark "1..$total"
	while IFS='|' read -r name limit script arguments; do
		run_one "$name" "$limit" "$script" "$arguments" </dev/null
	done <"$KOFI/list"
	[ -e $leaks ] && look_for_leaks
fi
mark "# over"
poweroff -f
