# SPDX-License-Identifier: GPL-2.0
# /dev/kofi as processes find it: client.sh DEVICE [REQUESTS], of the latter those that nobody would make.
requests=${2:-2000}

device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
"$KOFI/bin/dev_calls" "$ADDRESS" || fail "no answers"
check fuzz "$KOFI/bin/dev_fuzz" "$requests" 1

# The module stays as long as somebody has it open.
exec 3<>/dev/kofi || fail "/dev/kofi does not open"
check busy_while_open eval '! rmmod kofi 2>/run/said_of_rmmod && grep -qi "in use\|unavailable" /run/said_of_rmmod'
exec 3>&-
unload kofi || fail "kofi.ko does not unload"
check gone_with_the_module [ ! -e /dev/kofi ]
