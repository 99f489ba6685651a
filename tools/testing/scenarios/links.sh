# SPDX-License-Identifier: GPL-2.0
# The soft devices without kOFI: each comes up with its GIDs, and carries traffic of user space.
bring_up() {
	device_up "$1" || fail "$1 does not come up"
	rdma link show | grep -q "link $DEVICE/1 state ACTIVE" || fail "$DEVICE is not active"
	ibv_devinfo -d "$DEVICE" | grep -q PORT_ACTIVE || fail "no user-space driver for $DEVICE"
}
if [ "$1" = both ]; then
	bring_up rxe
	bring_up siw
	exit
fi
bring_up "$1"

# both_ways SECONDS: from user space to user space and back.
both_ways() {
	timeout -s KILL "$1" rping -s -a "$ADDRESS" -C 3 &
	server=$!
	sleep 1
	timeout -s KILL "$1" rping -c -a "$ADDRESS" -C 3 -v
	client=$?
	wait $server && [ $client = 0 ]
}
# siw may overlook what comes in the first moments of a connection (rust/prov/verbs/ep/siw_quirk.rs), and
# rping then waits for ever.
case $1 in
siw) both_ways 10 || both_ways 10 || both_ways 10 ;;
*) both_ways 15 ;;
esac || fail "rping's client answered $client"
