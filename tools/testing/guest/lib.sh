# SPDX-License-Identifier: GPL-2.0
# Functions for scenarios. A scenario exits with 0 if it passed, and with 77 if it is skipped. Each check, ok and
# not_ok is a test in addition. A scenario prints KTAP, which init.sh combines to one document for the guest; other
# lines become diagnostic lines.
#
# $LANE is uml, smp, plain, proof, native or traced; $TIMEOUT_FACTOR multiplies time limits: 1 on the plain lane.

# Busybox would run its own applets with these names, which have fewer functions.
ip() { /sbin/ip "$@"; }
tc() { /sbin/tc "$@"; }
rdma() { /usr/bin/rdma "$@"; }

skip() { echo "skip: $*"; exit 77; }
fail() { echo "failed: $*"; exit 1; }

# put FILE TEXT: writes a line to a file.
put() { echo "$2" >"$1"; }

# ok NAME, not_ok NAME REASON: prints the result of a test.
ok() { result ok "$1"; }
not_ok() {
	_name=$1
	shift
	echo "# $_name: $*"
	result "not ok" "$_name"
}
# result OUTCOME NAME: prints a result line of KTAP. The test number is in a file, as subshells increment it, too.
result() {
	read -r _number </run/number
	_number=$((_number + 1))
	echo $_number >/run/number
	echo "$1 $_number $2"
}

# check NAME COMMAND...: runs a test, which passes if the command succeeds.
check() {
	_name=$1
	shift
	if "$@"; then
		ok "$_name"
	else
		not_ok "$_name" "'$*' exited with $?"
	fi
}

# check_program NAME ARGUMENT...: runs a program of $KOFI/bin. Each test that it reports in KTAP, and its exit status,
# is a test.
check_program() { check "$1" run_program "$@"; }
run_program() (
	program=$KOFI/bin/$1
	shift
	set -o pipefail
	"$program" "$@" 2>&1 | indent
)
indent() {
	while IFS= read -r line; do
		echo "  $line"
	done
}

# eventually SECONDS COMMAND...: repeats the command until it succeeds, at most SECONDS * $TIMEOUT_FACTOR.
eventually() {
	_left=$(($1 * TIMEOUT_FACTOR * 10))
	shift
	until "$@"; do
		_left=$((_left - 1))
		[ $_left -gt 0 ] || return 1
		usleep 100000
	done
}

# kernel_log: prints the kernel log since the start of the scenario or the last reset_kernel_log.
# kernel_logged PATTERN: checks that a line of it matches the pattern.
_from="# Subtest: $SCENARIO"
kernel_log() { dmesg | sed -n "/lab: *$_from\$/,\$p"; }
kernel_logged() { kernel_log | grep -v 'lab: ' | grep -q -- "$1"; }
reset_kernel_log() {
	_from="# from $SCENARIO.$(mktemp -u XXXXXXXX)"
	echo "<6>lab: $_from" >/dev/kmsg
}

# await SECONDS PATTERN: waits until a line of kernel_log matches the pattern.
await() { eventually "$1" kernel_logged "$2"; }

# has_module NAME, loaded NAME: check that a module is in the payload, or is loaded.
# require_modules NAME...: skips the scenario if a module is not in the payload.
# load NAME [PARAMETER]...: loads the modules that a module depends on, and then the module.
has_module() { [ -e "$KOFI/modules/$1.ko" ]; }
loaded() { [ -d "/sys/module/$1" ]; }
require_modules() {
	for _module; do
		has_module "$_module" || skip "no $_module.ko"
	done
}
load() {
	_needs=$(sed -n "s/^$1://p" "$KOFI/depends")
	for _need in $_needs; do
		loaded "$_need" || load_file "$_need" || return
	done
	load_file "$@"
}
load_file() {
	_file=$KOFI/modules/$1.ko
	shift
	insmod "$_file" "$@"
}
unload() { rmmod "$@"; }

# ipv4_number ADDRESS: prints an IPv4 address as an integer, as parameters of Rust modules need it.
# sample_address MODULE ADDRESS: prints an address as the module's parameter addr needs it.
ipv4_number() {
	IFS=. read -r _a _b _c _d <<-END
		$1
	END
	printf '0x%02x%02x%02x%02x' "$_a" "$_b" "$_c" "$_d"
}
sample_address() {
	case $1 in
	*_rs) ipv4_number "$2" ;;
	*) echo "$2" ;;
	esac
}

# pairing SERVER CLIENT ADDRESS SIZE COUNT: runs two samples, and prints the result of the client.
pairing() {
	reset_kernel_log
	load "$1" addr="$(sample_address "$1" "$3")" size="$4" || return
	await 10 "$1: ready" || return
	load "$2" addr="$(sample_address "$2" "$3")" size="$4" count="$5" || return
	await 60 "$2: done" || return
	unload "$2" "$1" || return
	kernel_log | sed -n "s/.*$2: done //p"
}

# is_selected SUITE: checks that a suite matches SUITES, the patterns of `make test T=...`, or that SUITES is empty.
is_selected() {
	[ -n "$SUITES" ] || return 0
	set -f
	for _wanted in $SUITES; do
		# shellcheck disable=SC2254 # a pattern
		case $1 in
		$_wanted) set +f && return 0 ;;
		esac
	done
	set +f
	return 1
}

# run_suites PATTERN...: runs the loaded KUnit suites that match a pattern and SUITES, one after another. Suites do
# not run at insmod.
run_suites() {
	_ran=0
	for _pattern; do
		for _suite in /sys/kernel/debug/kunit/$_pattern; do
			is_selected "${_suite##*/}" || continue
			[ -e "$_suite/run" ] || continue
			echo 1 >"$_suite/run"
			_ran=$((_ran + 1))
		done
	done
	[ -n "$SUITES" ] || [ $_ran -gt 0 ] || fail "no KUnit suite is called $*"
}

# enable_fault_injection: lets allocations fail in tasks that set make-it-fail, also those that may sleep. Does
# nothing if the kernel has no fault injection.
enable_fault_injection() {
	for kind in failslab fail_page_alloc; do
		knobs=/sys/kernel/debug/$kind
		[ -d $knobs ] || continue
		echo N >$knobs/ignore-gfp-wait && echo 0 >$knobs/verbose || return
		[ -e $knobs/min-order ] || continue
		echo N >$knobs/ignore-gfp-highmem && echo 0 >$knobs/min-order || return
	done
}

# require_suites SUITE...: skips the scenario if SUITES selects none of these suites, or else selects all of them.
require_suites() {
	for _suite; do
		if is_selected "$_suite"; then
			SUITES=
			return
		fi
	done
	skip "T= selects none of $*"
}

# veth_up NAME PREFIX4 PREFIX6: creates a veth pair, NAME with the addresses PREFIX4.1 and PREFIX6::1, and NAMEp with
# PREFIX4.2 and PREFIX6::2.
veth_up() {
	ip link add "$1" type veth peer name "$1p" &&
		ip addr add "$2.1/24" dev "$1" && ip -6 addr add "$3::1/64" dev "$1" nodad &&
		ip addr add "$2.2/24" dev "$1p" && ip -6 addr add "$3::2/64" dev "$1p" nodad &&
		ip link set "$1" up && ip link set "$1p" up
}

# rxe_up, siw_up, loop_up: bring up one device. Both ends of a connection can use its address.
RXE_IP=10.1.0.1
RXE_IP6=fd00:1::1
SIW_IP=10.2.0.1
SIW_IP6=fd00:2::1
rxe_up() { veth_up v0 10.1.0 fd00:1 && rdma link add rxe0 type rxe netdev v0 && link_active rxe0; }
siw_up() { veth_up w0 10.2.0 fd00:2 && rdma link add siw0 type siw netdev w0 && link_active siw0; }
link_active() { eventually 5 link_state "$1" ACTIVE; }
link_state() { rdma link show "$1/1" | grep -q "state $2"; }

# The loop provider needs only the addresses of the interface lo.
loop_up() { ip link set lo up; }

# rdma_objects: prints the RDMA objects of kofi. Fails if there are none.
# require_no_rdma_objects: fails the scenario if there are any.
rdma_objects() { for _kind in qp cq pd mr cm_id; do rdma resource show $_kind; done | grep kofi; }
require_no_rdma_objects() { ! rdma_objects || fail "kofi has RDMA objects that should be gone"; }

# netdev_of DEVICE: prints the network interface of a device.
netdev_of() { /usr/bin/rdma link show "$1/1" 2>/dev/null | sed 's/.*netdev \([^ ]*\).*/\1/'; }

# device_up rxe|siw|loop: brings up a device and sets DEVICE, ADDRESS and ADDRESS6.
device_up() {
	case $1 in
	rxe) DEVICE=rxe0 ADDRESS=$RXE_IP ADDRESS6=$RXE_IP6 ;;
	siw) DEVICE=siw0 ADDRESS=$SIW_IP ADDRESS6=$SIW_IP6 ;;
	loop) DEVICE=loop ADDRESS=127.0.0.1 ADDRESS6=::1 ;;
	*) fail "device_up: unknown device $1" ;;
	esac
	"$1_up"
}

# pair_up rxe|siw: creates the network namespaces left (10.3.0.1) and right (10.3.0.2), connected by a veth pair, with
# a device in each.
LEFT_IP=10.3.0.1
RIGHT_IP=10.3.0.2
pair_up() {
	ip netns add left && ip netns add right &&
		ip link add l0 netns left type veth peer name r0 netns right &&
		link_end_up left l0 "$LEFT_IP" fd00:3::1 "$1" && link_end_up right r0 "$RIGHT_IP" fd00:3::2 "$1" &&
		eventually 10 addresses_are_ready left && eventually 10 addresses_are_ready right
}
# Neighbour discovery uses link-local addresses, which are tentative at first.
addresses_are_ready() {
	ip -n "$1" -6 addr show scope link | grep -q inet6 &&
		! ip -n "$1" -6 addr show tentative | grep -q inet6
}
link_end_up() {
	ip -n "$1" link set lo up && ip -n "$1" addr add "$3/24" dev "$2" &&
		ip -n "$1" -6 addr add "$4/64" dev "$2" nodad && ip -n "$1" link set "$2" up &&
		ip netns exec "$1" /usr/bin/rdma link add "$5_$2" type "$5" netdev "$2"
}
# hold_namespaces: starts a process in each namespace of pair_up, and sets LEFT and RIGHT to their process ids.
hold_namespaces() {
	/sbin/ip netns exec left /bin/sleep 10000 &
	LEFT=$!
	/sbin/ip netns exec right /bin/sleep 10000 &
	RIGHT=$!
	eventually 5 is_in_other_netns $LEFT && eventually 5 is_in_other_netns $RIGHT
}
is_in_other_netns() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
