# SPDX-License-Identifier: GPL-2.0
# Words for scenarios. A scenario ends with 0 when it passed, 77 when it does not apply here; besides,
# each check, ok and not_ok counts as a test of its own. What a scenario prints is KTAP, of which
# init.sh makes one document for the guest: other lines become diagnostic ones.
#
# $LANE is uml, plain, proof or native; $TIMEOUT_FACTOR multiplies time limits: 1 on the plain lane.

# Busybox prefers its own, smaller programs of these names.
ip() { /sbin/ip "$@"; }
tc() { /sbin/tc "$@"; }
rdma() { /usr/bin/rdma "$@"; }

skip() { echo "skip: $*"; exit 77; }
fail() { echo "failed: $*"; exit 1; }

# ok NAME, not_ok NAME REASON: one counted test each.
ok() { result ok "$1"; }
not_ok() {
	_name=$1
	shift
	echo "# $_name: $*"
	result "not ok" "$_name"
}
# result WORD TEST: a result line of KTAP. The number is in a file, for subshells count, too.
result() {
	read -r _number </run/number
	_number=$((_number + 1))
	echo $_number >/run/number
	echo "$1 $_number $2"
}

# check NAME COMMAND...: one counted test, passed when the command succeeds.
check() {
	_name=$1
	shift
	if "$@"; then
		ok "$_name"
	else
		not_ok "$_name" "'$*' answered $?"
	fi
}

# check_program NAME ARGUMENT...: each test that a program of $KOFI/bin reports in KTAP, and the program.
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

# kernel_log: what the kernel said since this scenario began, or since the last from_here.
_from="# Subtest: $SCENARIO"
kernel_log() { dmesg | sed -n "/lab: *$_from\$/,\$p"; }
kernel_said() { kernel_log | grep -v 'lab: ' | grep -q -- "$1"; }
from_here() {
	_from="# from $SCENARIO.$(mktemp -u XXXXXXXX)"
	echo "<6>lab: $_from" >/dev/kmsg
}

# await SECONDS PATTERN: waits until the kernel says so.
await() { eventually "$1" kernel_said "$2"; }

# Modules: load brings in what it depends on first.
has_module() { [ -e "$KOFI/modules/$1.ko" ]; }
loaded() { [ -d "/sys/module/$1" ]; }
need_module() {
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

# number_of ADDRESS: an IPv4 address as the Rust samples take it, whose parameters are integers.
number_of() {
	IFS=. read -r _a _b _c _d <<-END
		$1
	END
	printf '0x%02x%02x%02x%02x' "$_a" "$_b" "$_c" "$_d"
}
address_for() {
	case $1 in
	*_rs) number_of "$2" ;;
	*) echo "$2" ;;
	esac
}

# pairing SERVER CLIENT ADDRESS SIZE COUNT: the client's result line, when both did their work.
pairing() {
	from_here
	load "$1" addr="$(address_for "$1" "$3")" size="$4" || return
	await 10 "$1: ready" || return
	load "$2" addr="$(address_for "$2" "$3")" size="$4" count="$5" || return
	await 60 "$2: done" || return
	unload "$2" "$1" || return
	kernel_log | sed -n "s/.*$2: done //p"
}

# is_wanted SUITE: whether `make test T=...` means it too. SUITES are patterns, none for all.
is_wanted() {
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

# run_suites PATTERN...: runs the loaded KUnit suites whose names match, one after another. Suites
# do not run at insmod. SUITES narrows them down for `make test T=...`.
run_suites() {
	_ran=0
	for _pattern; do
		for _suite in /sys/kernel/debug/kunit/$_pattern; do
			is_wanted "${_suite##*/}" || continue
			[ -e "$_suite/run" ] || continue
			echo 1 >"$_suite/run"
			_ran=$((_ran + 1))
		done
	done
	[ -n "$SUITES" ] || [ $_ran -gt 0 ] || fail "no KUnit suite is called $*"
}

# let_allocations_fail: where the kernel can, also those that may wait; it does so to tasks that ask.
let_allocations_fail() {
	for kind in failslab fail_page_alloc; do
		knobs=/sys/kernel/debug/$kind
		[ -d $knobs ] || continue
		echo N >$knobs/ignore-gfp-wait && echo 0 >$knobs/verbose || return
		[ -e $knobs/min-order ] || continue
		echo N >$knobs/ignore-gfp-highmem && echo 0 >$knobs/min-order || return
	done
}

# needs_suites SUITE...: for a scenario that cannot do without all of these. It is left out where
# `make test T=...` means none of them.
needs_suites() {
	for _suite; do
		if is_wanted "$_suite"; then
			SUITES=
			return
		fi
	done
	skip "nobody asks for $*"
}

# veth_up NAME PREFIX4 PREFIX6: interface NAME with the addresses PREFIX4.1 and PREFIX6::1,
# its other end NAMEp with .2 and ::2.
veth_up() {
	ip link add "$1" type veth peer name "$1p" &&
		ip addr add "$2.1/24" dev "$1" && ip -6 addr add "$3::1/64" dev "$1" nodad &&
		ip addr add "$2.2/24" dev "$1p" && ip -6 addr add "$3::2/64" dev "$1p" nodad &&
		ip link set "$1" up && ip link set "$1p" up
}

# A soft device each: both peers of a scenario can use the one address.
RXE_IP=10.1.0.1
RXE_IP6=fd00:1::1
SIW_IP=10.2.0.1
SIW_IP6=fd00:2::1
rxe_up() { veth_up v0 10.1.0 fd00:1 && rdma link add rxe0 type rxe netdev v0 && link_active rxe0; }
siw_up() { veth_up w0 10.2.0 fd00:2 && rdma link add siw0 type siw netdev w0 && link_active siw0; }
link_active() { eventually 5 link_state "$1" ACTIVE; }
link_state() { rdma link show "$1/1" | grep -q "state $2"; }

# The provider of this machine alone needs nothing but its addresses.
loop_up() { ip link set lo up; }

# device_up rxe|siw|loop: brings it up and sets DEVICE, ADDRESS and ADDRESS6.
device_up() {
	case $1 in
	rxe) DEVICE=rxe0 ADDRESS=$RXE_IP ADDRESS6=$RXE_IP6 ;;
	siw) DEVICE=siw0 ADDRESS=$SIW_IP ADDRESS6=$SIW_IP6 ;;
	loop) DEVICE=loop ADDRESS=127.0.0.1 ADDRESS6=::1 ;;
	*) fail "no device $1" ;;
	esac
	"$1_up"
}

# pair_up rxe|siw: namespaces left (10.3.0.1) and right (10.3.0.2), joined by a cable, a device in each.
LEFT_IP=10.3.0.1
RIGHT_IP=10.3.0.2
pair_up() {
	ip netns add left && ip netns add right &&
		ip link add l0 netns left type veth peer name r0 netns right &&
		side_up left l0 "$LEFT_IP" fd00:3::1 "$1" && side_up right r0 "$RIGHT_IP" fd00:3::2 "$1" &&
		eventually 10 settled left && eventually 10 settled right
}
# Neighbours ask each other from their link-local addresses, which are on probation at first.
settled() {
	ip -n "$1" -6 addr show scope link | grep -q inet6 &&
		! ip -n "$1" -6 addr show tentative | grep -q inet6
}
side_up() {
	ip -n "$1" link set lo up && ip -n "$1" addr add "$3/24" dev "$2" &&
		ip -n "$1" -6 addr add "$4/64" dev "$2" nodad && ip -n "$1" link set "$2" up &&
		ip netns exec "$1" /usr/bin/rdma link add "$5_$2" type "$5" netdev "$2"
}
# tenants: a process in each of pair_up's namespaces, which stands for it: their numbers in LEFT, RIGHT.
tenants() {
	/sbin/ip netns exec left /bin/sleep 10000 &
	LEFT=$!
	/sbin/ip netns exec right /bin/sleep 10000 &
	RIGHT=$!
	eventually 5 elsewhere $LEFT && eventually 5 elsewhere $RIGHT
}
elsewhere() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
