# SPDX-License-Identifier: GPL-2.0
# irqsoff.sh [ROUNDS]: measures the longest time for which interrupts are disabled while datagram endpoints have many
# posted receives or unexpected messages, and while they are closed, by the kernel's irqsoff tracer. The guest counts
# instructions. Longer sections than those of kOFI would hide them: nothing else runs meanwhile.
require_modules kofi_entries kofi_null
TRACING=/sys/kernel/tracing
veth_up n0 10.4.0 fd00:4 && load kofi_null netdev=n0 && link_active null0 || fail "no device"
load kofi_entries addr=10.4.0.1 || fail "kofi_entries.ko does not load"
[ -e $TRACING/current_tracer ] || mount -t tracefs tracefs $TRACING || fail "no tracefs"
put $TRACING/tracing_on 0 && put $TRACING/current_tracer irqsoff || fail "no irqsoff tracer"
CONSOLE=/proc/sys/kernel/printk
level=$(cut -f 1 $CONSOLE)

# measure NAME SIZE TEST: runs a test of kofi_entries, and prints the longest time and where it began and ended.
measure() {
	put $TRACING/tracing_max_latency 0
	# Earlier lines reach the console through a pipe.
	sleep 1
	# The console is written with interrupts disabled.
	put $CONSOLE 1
	put $TRACING/tracing_on 1
	echo "$3" >/sys/kernel/debug/kofi_entries/run
	_status=$?
	put $TRACING/tracing_on 0
	put $CONSOLE $level
	[ $_status = 0 ] || fail "$3"
	grep -E "latency:|started at|ended at" $TRACING/trace
	echo "bench: impl=rdm name=$1 size=$2 value=$(cat $TRACING/tracing_max_latency) unit=us iters=1"
}

round=0
while [ $round -lt "${1:-3}" ]; do
	for entries in 1 16000; do
		measure rdm_posted $entries "posted $entries"
	done
	for entries in 1 50000; do
		measure rdm_unexp $entries "unexpected $entries"
	done
	round=$((round + 1))
done
put $TRACING/current_tracer nop
unload kofi_entries kofi kofi_null || fail "the modules do not unload"
