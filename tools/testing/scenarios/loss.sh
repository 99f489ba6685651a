# SPDX-License-Identifier: GPL-2.0
# Packets are lost, doubled and overtaken; messages and memory accesses come through whole all the
# same: loss.sh rxe|siw MIB MIB. There are eight tests of connected endpoints, each of which moves so much,
# or an eighth of it where most of the time is spent waiting for what was lost, and four of datagrams, of
# which the same holds and the other number says how much.

# between_hosts: two devices and a cable.
between_hosts() {
	namespace=right interface=r0
	pair_up rxe || fail "no pair of devices"
	tenants || fail "no process in the namespaces"
	load kofi_kunit addr="$LEFT_IP" net_server=$LEFT net_client=$RIGHT net_addr="$LEFT_IP" ||
		fail "kofi_kunit.ko does not load"
}

# through_loopback: siw knows no other namespace than the first.
through_loopback() {
	namespace="" interface=lo
	device_up siw || fail "siw does not come up"
	load kofi_kunit addr="$ADDRESS" || fail "kofi_kunit.ko does not load"
}

# badly MIB LENGTH WORD...: runs the suite with so much in messages of that length, over an interface
# that does that to packets.
badly() {
	echo "packets: $*"
	echo "$1" >/sys/module/kofi_kunit/parameters/loss_mib
	echo "$2" >/sys/module/kofi_kunit/parameters/loss_chunk
	shift 2
	# shellcheck disable=SC2086 # a word each
	tc ${namespace:+-n $namespace} qdisc change dev "$interface" root netem "$@" || fail "no netem"
	run_suites kofi_loss
}

# datagrams MIB LENGTH: the same with datagrams up to that length: long ones do not bear as much.
datagrams() {
	echo "$1" >/sys/module/kofi_kunit/parameters/rdm_loss_mib
	echo "$2" >/sys/module/kofi_kunit/parameters/rdm_loss_longest
	run_suites kofi_loss_rdm
}

need_module kofi_kunit
needs_suites kofi_loss kofi_loss_rdm
case $1 in
rxe) between_hosts ;;
siw) through_loopback ;;
esac
# For a quiet interface: a packet that meets this is refused, and rxe then ends the connection.
tc ${namespace:+-n $namespace} qdisc add dev "$interface" root netem || fail "no netem on $interface"
badly "$2" 4096 loss 1%
datagrams "$3" 262144
badly $((($2 + 7) / 8)) 1000 loss 5%
datagrams $((($3 + 7) / 8)) 1000
badly "$2" 4096 delay 1ms reorder 99%
datagrams "$3" 262144
badly "$2" 4096 duplicate 5%
datagrams "$3" 262144
tc ${namespace:+-n $namespace} qdisc del dev "$interface" root
[ -z "$namespace" ] || kill $LEFT $RIGHT
unload kofi_kunit kofi || fail "the modules do not unload"
rdma resource show | grep "kofi" && fail "something is left"
true
