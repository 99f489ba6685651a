# SPDX-License-Identifier: GPL-2.0
# loss.sh rxe|siw MIB MIB_DATAGRAMS: messages and RMA are intact although packets are lost, duplicated and reordered.
# Eight tests of connected endpoints transfer MIB MiB each, or an eighth of that with a high loss, where most of the
# time is retransmission timeouts; four tests of datagrams transfer MIB_DATAGRAMS in the same way.

# load_over_veth: two devices in two namespaces, connected by a veth pair.
load_over_veth() {
	namespace=right interface=r0
	pair_up rxe || fail "the pair of devices does not come up"
	hold_namespaces || fail "no process runs in the namespaces"
	load kofi_kunit addr="$LEFT_IP" net_server=$LEFT net_client=$RIGHT net_addr="$LEFT_IP" ||
		fail "kofi_kunit.ko does not load"
}

# load_over_loopback: siw works in the initial namespace only.
load_over_loopback() {
	namespace="" interface=lo
	device_up siw || fail "siw does not come up"
	load kofi_kunit addr="$ADDRESS" || fail "kofi_kunit.ko does not load"
}

# run_impaired MIB LENGTH NETEM...: runs the suite with MIB MiB in messages of LENGTH bytes, over an interface with
# these netem options.
run_impaired() {
	echo "packets: $*"
	echo "$1" >/sys/module/kofi_kunit/parameters/loss_mib
	echo "$2" >/sys/module/kofi_kunit/parameters/loss_chunk
	shift 2
	# shellcheck disable=SC2086 # several arguments
	tc ${namespace:+-n $namespace} qdisc change dev "$interface" root netem "$@" || fail "netem $* is refused"
	run_suites kofi_loss
}

# run_datagrams MIB LENGTH: runs the suite of datagrams of up to LENGTH bytes over the same interface. Long datagrams
# would be retried until their limit with a high loss.
run_datagrams() {
	echo "$1" >/sys/module/kofi_kunit/parameters/rdm_loss_mib
	echo "$2" >/sys/module/kofi_kunit/parameters/rdm_loss_longest
	run_suites kofi_loss_rdm
}

require_modules kofi_kunit
require_suites kofi_loss kofi_loss_rdm
case $1 in
rxe) load_over_veth ;;
siw) load_over_loopback ;;
esac
# The interface has to be idle: the kernel drops packets meanwhile with an error, and rxe then ends the connection.
tc ${namespace:+-n $namespace} qdisc add dev "$interface" root netem || fail "netem cannot be added to $interface"
run_impaired "$2" 4096 loss 1%
run_datagrams "$3" 262144
run_impaired $((($2 + 7) / 8)) 1000 loss 5%
run_datagrams $((($3 + 7) / 8)) 1000
run_impaired "$2" 4096 delay 1ms reorder 99%
run_datagrams "$3" 262144
run_impaired "$2" 4096 duplicate 5%
run_datagrams "$3" 262144
tc ${namespace:+-n $namespace} qdisc del dev "$interface" root
[ -z "$namespace" ] || kill $LEFT $RIGHT
unload kofi_kunit kofi || fail "the modules do not unload"
require_no_rdma_objects
