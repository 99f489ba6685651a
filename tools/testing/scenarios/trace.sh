# SPDX-License-Identifier: GPL-2.0
# trace.sh DEVICE: tracepoints report the post and the completion of each operation and the states of each connection,
# and nothing while they are disabled.
T=/sys/kernel/tracing

# set_second_cpu 0|1: sets CPU 1 offline or online. With two emulated CPUs, one sometimes executes the breakpoint of
# the kernel's code patching after its removal ("Oops: int3"), also without kOFI, within a minute of enabling and
# disabling the events kmem, net, skb, sock and tcp.
set_second_cpu() { [ ! -e /sys/devices/system/cpu/cpu1/online ] || echo "$1" >/sys/devices/system/cpu/cpu1/online; }
set_second_cpu 0 || fail "CPU 1 cannot be set offline"
trap 'set_second_cpu 1' EXIT

[ -d $T/events ] || mount -t tracefs tracefs $T || skip "the kernel has no tracefs"
require_modules msg_server msg_client
device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
check tracefs_has_all_events eval '[ "$(ls $T/events/kofi | grep -c "^kofi_")" = 5 ]'

# count_events EVENT PATTERN: prints the number of matching lines of the trace.
count_events() { grep -c " $1: device=$DEVICE .*$2" $T/trace; }
# exchange COUNT: runs a client that exchanges COUNT messages with the server.
exchange() {
	reset_kernel_log
	load msg_client addr="$ADDRESS" count="$1" size=1000 && await 30 "msg_client: done count=$1 .*errors=0\$" &&
		unload msg_client
}
trace_on() { echo >$T/trace && echo 1 >$T/events/kofi/enable; }
trace_off() { echo 0 >$T/events/kofi/enable; }
# connections_are_shut COUNT: checks that COUNT endpoints have reported the end of their connection.
connections_are_shut() { [ "$(count_events kofi_connection ' -> shut ')" = "$1" ]; }

load msg_server addr="$ADDRESS" && await 30 "msg_server: ready" || fail "msg_server does not start"
echo 65536 >$T/buffer_size_kb
trace_on
exchange 20 || fail "the messages are not exchanged"
eventually 10 connections_are_shut 2 || fail "the connection does not end"
trace_off
head -n 30 $T/trace

# 20 requests and 20 echoes: each is a posted send and a completed receive.
check post_events_match_the_sends eval '[ "$(count_events kofi_post "op=send len=1000 ")" = 40 ]'
check complete_events_match_the_receives eval '[ "$(count_events kofi_complete "op=recv len=1000 ")" = 40 ]'
# Each signaled work request has a completion or an error.
signaled=$(count_events kofi_post "signaled=1")
completed=$(($(count_events kofi_complete) + $(count_events kofi_error)))
check signaled_posts_complete_or_fail [ "$signaled" = "$completed" ]
check flushed_receives_are_traced eval '[ "$(count_events kofi_error "op=recv .* status=WR_FLUSH_ERR .* error=FI_ECANCELED")" -ge 8 ]'
# siw reports an error of the queue pair if TCP refuses its data because the peer has disconnected
# (siw_qp_sq_process).
broken=$(count_events kofi_error "op=send .* status=LOC_QP_OP_ERR .* error=FI_EIO")
[ "$1" = siw ] || check sends_do_not_fail_with_qp_errors [ "$broken" = 0 ]
check no_other_errors_are_traced eval '[ "$(count_events kofi_error)" = $((broken + $(count_events kofi_error "status=WR_FLUSH_ERR"))) ]'
check connection_request_is_traced eval '[ "$(count_events kofi_request "local=$ADDRESS:7471 peer=$ADDRESS:.* error=0")" = 1 ]'
check both_ends_trace_the_connection eval '[ "$(count_events kofi_connection "connecting -> connected error=0")" = 2 ]'
# Each event of a queue pair has its number.
numbers() { sed -n "s/.* $1: .* qp=\([0-9]*\) .*/\1/p" $T/trace | sort -u | grep -v "^0\$"; }
check posts_and_connections_have_the_same_qp_numbers eval '[ "$(numbers kofi_post)" = "$(numbers kofi_connection)" ]'
check each_end_has_its_own_qp_number eval '[ "$(numbers kofi_post | wc -l)" = 2 ]'

echo >$T/trace
exchange 20 || fail "the messages are not exchanged"
check disabled_events_are_not_traced eval '! grep -q " kofi_" $T/trace'

# The events are enabled and disabled during traffic, between a post and its completion.
load msg_client addr="$ADDRESS" count=1000000000 size=64 || fail "msg_client.ko does not load"
for _ in 1 2 3 4 5 6 7 8; do
	trace_on
	usleep 20000
	trace_off
	usleep 20000
done
check events_are_enabled_during_traffic eval '[ "$(count_events kofi_post)" -gt 0 ]'
unload msg_client
# The suite checks that the fast paths are used again, which enabled events disable.
run_suites kofi_trace
exchange 20 || fail "the messages are not exchanged after the suite"

# A connection to a closed port.
unload msg_server
reset_kernel_log
trace_on
load msg_client addr="$ADDRESS" count=1 && await 30 "msg_client: done" && unload msg_client
trace_off
cat $T/trace
check refused_connection_is_traced eval '[ "$(count_events kofi_connection "connecting -> lost error=FI_ECONNREFUSED")" = 1 ]'
check refused_connection_posts_nothing eval '[ "$(count_events kofi_post)" = 0 ]'
# A refused connection is no device error: kOFI logs nothing.
_from="# Subtest: $SCENARIO"
check refused_connection_logs_nothing eval '! kernel_logged " kofi: $DEVICE"'
unload kofi || fail "kofi.ko does not unload"
check events_are_removed_with_the_module [ ! -e $T/events/kofi ]
