# SPDX-License-Identifier: GPL-2.0
# What tracepoints tell: of each operation its post and its end, of each connection its way; and
# nothing while they are off. trace.sh DEVICE
T=/sys/kernel/tracing

# Patching code takes one CPU under QEMU: with two, one of them runs into the breakpoint that the
# kernel patches with when it is there no more, in the kernel's own functions as in ours ("Oops: int3"
# within a minute of turning kmem, net, skb, sock and tcp on and off).
second() { [ ! -e /sys/devices/system/cpu/cpu1/online ] || echo "$1" >/sys/devices/system/cpu/cpu1/online; }
second 0 || fail "the second CPU stays"
trap 'second 1' EXIT

[ -d $T/events ] || mount -t tracefs tracefs $T || skip "no tracefs"
need_module msg_server msg_client
device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
check events eval '[ "$(ls $T/events/kofi | grep -c "^kofi_")" = 5 ]'

# told EVENT PATTERN: how many such lines there are.
told() { grep -c " $1: device=$DEVICE .*$2" $T/trace; }
# talk COUNT: a client of its own for so many messages, and the server's end of that connection.
talk() {
	from_here
	load msg_client addr="$ADDRESS" count="$1" size=1000 && await 30 "msg_client: done count=$1 .*errors=0\$" &&
		unload msg_client
}
trace_on() { echo >$T/trace && echo 1 >$T/events/kofi/enable; }
trace_off() { echo 0 >$T/events/kofi/enable; }
# Both ends of each connection say that it is over.
settled() { [ "$(told kofi_connection ' -> shut ')" = "$1" ]; }

load msg_server addr="$ADDRESS" && await 30 "msg_server: ready" || fail "no server"
echo 65536 >$T/buffer_size_kb
trace_on
talk 20 || fail "no echo"
eventually 10 settled 2 || fail "the connection does not end"
trace_off
head -n 30 $T/trace

# Twenty there, twenty back: each of them a send and a receive that is posted, and done.
check posts eval '[ "$(told kofi_post "op=send len=1000 ")" = 40 ]'
check completions eval '[ "$(told kofi_complete "op=recv len=1000 ")" = 40 ]'
# What is signaled comes back, well or not, but for what was never read of.
signaled=$(told kofi_post "signaled=1")
over=$(($(told kofi_complete) + $(told kofi_error)))
check each_is_over [ "$signaled" = "$over" ]
check flushed eval '[ "$(told kofi_error "op=recv .* status=WR_FLUSH_ERR .* error=FI_ECANCELED")" -ge 8 ]'
# siw calls it an error of the queue pair when TCP refuses what it is sending as the peer leaves
# (siw_qp_sq_process).
broken=$(told kofi_error "op=send .* status=LOC_QP_OP_ERR .* error=FI_EIO")
[ "$1" = siw ] || check sends_are_flushed [ "$broken" = 0 ]
check nothing_else_failed eval '[ "$(told kofi_error)" = $((broken + $(told kofi_error "status=WR_FLUSH_ERR"))) ]'
check request eval '[ "$(told kofi_request "local=$ADDRESS:7471 peer=$ADDRESS:.* error=0")" = 1 ]'
check both_ends eval '[ "$(told kofi_connection "connecting -> connected error=0")" = 2 ]'
# A queue pair's number is on everything that is told of it.
numbers() { sed -n "s/.* $1: .* qp=\([0-9]*\) .*/\1/p" $T/trace | sort -u | grep -v "^0\$"; }
check one_number_for_all eval '[ "$(numbers kofi_post)" = "$(numbers kofi_connection)" ]'
check two_numbers eval '[ "$(numbers kofi_post | wc -l)" = 2 ]'

echo >$T/trace
talk 20 || fail "no echo"
check silent_while_off eval '! grep -q " kofi_" $T/trace'

# Turned on and off under way: who posts and who reads find out in the middle.
load msg_client addr="$ADDRESS" count=1000000000 size=64 || fail "no client"
for _ in 1 2 3 4 5 6 7 8; do
	trace_on
	usleep 20000
	trace_off
	usleep 20000
done
check on_the_fly eval '[ "$(told kofi_post)" -gt 0 ]'
unload msg_client
# What stayed on would tell nothing, but keep the short ways shut.
run_suites kofi_trace
talk 20 || fail "no echo afterwards"

# Nobody listens there any more.
unload msg_server
from_here
trace_on
load msg_client addr="$ADDRESS" count=1 && await 30 "msg_client: done" && unload msg_client
trace_off
cat $T/trace
check refused eval '[ "$(told kofi_connection "connecting -> lost error=FI_ECONNREFUSED")" = 1 ]'
check no_operation eval '[ "$(told kofi_post)" = 0 ]'
# Nothing was wrong: the log has what the samples say, and no more.
_from="# Subtest: $SCENARIO"
check no_message eval '! kernel_said " kofi: $DEVICE"'
unload kofi || fail "kofi.ko does not unload"
check gone_with_the_module [ ! -e $T/events/kofi ]
