# SPDX-License-Identifier: GPL-2.0
# The first process of a guest: mounts file systems, runs the scenarios of $KOFI/list, and powers off.
# It prints through the kernel log, so that the console has whole lines in one order.
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

log() { echo "<6>lab: $*" >&9; }

# log_ktap: logs its input as a subtest of the guest's KTAP, with other lines as diagnostic lines, and saves the last
# one of these. Lines are cut: the kernel log takes less than 1,024 bytes.
log_ktap() {
	_last=
	while IFS= read -r line; do
		case ${line#"${line%%[! ]*}"} in
		"KTAP version "* | 1..[0-9]* | "ok "[0-9]* | "not ok "[0-9]* | "#"*) ;;
		*)
			_last=${line:0:800}
			line="# $line"
			;;
		esac
		log "  ${line:0:800}"
	done
	echo "$_last" >/run/last
}

# clean_up: unloads the modules of a scenario, newest first, and deletes its devices, namespaces and interfaces. A
# module that cannot be unloaded and a queue pair of kofi that remains are failed tests.
clean_up() {
	for module in $(sed 's/ .*//' /proc/modules); do
		timeout -s KILL 60 rmmod "$module" || not_ok unload "$module cannot be unloaded"
	done
	rdma resource show qp | grep -q kofi && not_ok resources "$(rdma resource show qp | grep kofi)"
	for namespace in $(ip netns list | sed 's/ .*//'); do
		for device in $(ip netns exec "$namespace" /bin/ls /sys/class/infiniband); do
			delete_device "$device"
		done
		ip netns del "$namespace"
	done
	for device in $(ls /sys/class/infiniband); do
		delete_device "$device"
	done
	for interface in v0 w0; do
		[ -e /sys/class/net/$interface ] && ip link del $interface
	done
}
delete_device() { rdma link del "$1" || echo "$1 is already deleted"; }

scenarios=0
# begin_subtest NAME: starts the KTAP of a scenario.
begin_subtest() {
	log "  KTAP version 1"
	log "  # Subtest: $1"
	echo 0 >/run/number
}
# end_subtest NAME STATUS LINE: logs the result of a scenario by the exit status of its script. LINE is its last line.
end_subtest() {
	scenarios=$((scenarios + 1))
	case $2 in
	0) ;;
	77)
		log "ok $scenarios $1 # SKIP ${3#skip: }"
		return
		;;
	137 | 143) log "# $1: killed, as the kernel log had no new line for its time limit; last line: $3" ;;
	*) log "# $1: exited with $2; last line: $3" ;;
	esac
	[ "$2" = 0 ] && log "ok $scenarios $1" || log "not ok $scenarios $1"
}

# end_without_progress SESSION SECONDS: kills a session when the kernel log has no new line for SECONDS, or for up to
# twice as long. The results of tests are in the log, so that a scenario on a busy machine has the time that it needs.
end_without_progress() {
	last=
	while [ "$(dmesg | tail -n 1)" != "$last" ]; do
		last=$(dmesg | tail -n 1)
		waited=0
		while [ $waited -lt "$2" ]; do
			sleep 5
			waited=$((waited + 5))
		done
	done
	kill -KILL -"$1"
}

# run_scenario NAME SECONDS SCRIPT ARGUMENTS: runs a scenario with a limit of time without progress, and cleans up after
# it.
run_scenario() {
	begin_subtest "$1"
	rm -f /run/output
	mkfifo /run/output
	log_ktap </run/output &
	logger=$!
	setsid sh "$KOFI/guest/scenario.sh" "$1" "$KOFI/scenarios/$3" $4 </dev/null >/run/output 2>&1 &
	session=$!
	end_without_progress $session "$2" &
	watcher=$!
	wait $session
	status=$?
	kill $watcher
	kill -KILL -$session 2>/dev/null
	wait $logger
	last=$(cat /run/last)
	clean_up 2>&1 | log_ktap
	end_subtest "$1" $status "$last"
}

# scan_for_leaks: logs kmemleak's reports. It scans twice: kmemleak reports an object if it is some seconds old and
# its checksum did not change since the scan before.
scan_for_leaks() {
	begin_subtest kmemleak
	sleep 6
	echo scan >$leaks
	echo scan >$leaks
	log_ktap <$leaks
	end_subtest kmemleak 0
}

echo 0 >/run/number
if [ "$MODE" = shell ]; then
	. "$KOFI/guest/shell.sh"
else
	log "KTAP version 1"
	leaks=/sys/kernel/debug/kmemleak
	total=$(grep -c . "$KOFI/list")
	[ -e $leaks ] && total=$((total + 1))
	log "1..$total"
	while IFS='|' read -r name limit script arguments; do
		run_scenario "$name" "$limit" "$script" "$arguments" </dev/null
	done <"$KOFI/list"
	[ -e $leaks ] && scan_for_leaks
fi
log "# over"
poweroff -f
