# SPDX-License-Identifier: GPL-2.0
# reload.sh DEVICE ROUNDS: every module comes, works and goes, again and again, and nothing is left.
wanted() { for module in kofi_kunit msg_server msg_client slides_client; do has_module $module && echo $module; done; }
counts() { rdma resource show "$1" | wc -l; }

# The clients' threads end when they have done their work.
all_done() { [ "$(kernel_log | grep -c "_client: done count=10 .*errors=0")" -ge $expected ]; }

round() {
	expected=$(($(kernel_log | grep -c "_client: done count=10 .*errors=0") + clients))
	for module in $modules; do
		case $module in
		kofi_kunit) load kofi_kunit addr="$ADDRESS" addr6="$ADDRESS6" || return ;;
		msg_server) load msg_server addr="$ADDRESS" || return ;;
		*) load "$module" addr="$ADDRESS" count=10 || return ;;
		esac
	done
	eventually 30 all_done || return
	# shellcheck disable=SC2086 # a word for each
	unload $modules kofi
}

need_module kofi
modules=$(wanted)
clients=$(echo "$modules" | grep -c _client)
device_up "$1" || fail "$1 does not come up"
before=$(for kind in qp cq pd mr cm_id; do counts $kind; done)
number=0
while [ $number -lt "$2" ]; do
	round || fail "round $number"
	number=$((number + 1))
done
after=$(for kind in qp cq pd mr cm_id; do counts $kind; done)
[ "$before" = "$after" ] || fail "qp cq pd mr cm_id: before" $before "after" $after
for kind in qp cq pd mr cm_id; do
	rdma resource show $kind | grep "kofi" && fail "something is left"
done
true
