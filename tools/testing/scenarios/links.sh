# SPDX-License-Identifier: GPL-2.0
# links.sh DEVICE|both: checks the soft devices without kOFI. Each comes up, and user space exchanges messages over
# it.
bring_up() {
	device_up "$1" || fail "$1 does not come up"
	rdma link show | grep -q "link $DEVICE/1 state ACTIVE" || fail "$DEVICE is not active"
	ibv_devinfo -d "$DEVICE" | grep -q PORT_ACTIVE || fail "ibv_devinfo does not show $DEVICE as active"
}
if [ "$1" = both ]; then
	bring_up rxe
	bring_up siw
	exit
fi
bring_up "$1"

# run_rping SECONDS: exchanges messages between two processes, with a time limit.
run_rping() {
	timeout -s KILL "$1" rping -s -a "$ADDRESS" -C 3 &
	server=$!
	sleep 1
	timeout -s KILL "$1" rping -c -a "$ADDRESS" -C 3 -v
	client=$?
	wait $server && [ $client = 0 ]
}
# siw sometimes loses the first message of a connection (rust/prov/verbs/ep/siw_quirk.rs), and rping then waits until
# its time limit.
case $1 in
siw) run_rping 10 || run_rping 10 || run_rping 10 ;;
*) run_rping 15 ;;
esac || fail "rping's client exited with $client"
