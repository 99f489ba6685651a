# SPDX-License-Identifier: GPL-2.0
# reload.sh DEVICE ROUNDS: loads, uses and unloads all modules ROUNDS times; no RDMA object remains.

# present_modules: prints those modules that are in the payload.
present_modules() {
	for module in kofi_kunit kofi_bench kofi_raw msg_server msg_server_rs msg_client msg_client_rs \
		slides_client mem_server; do
		has_module $module && echo $module
	done
}
counts() { rdma resource show "$1" | wc -l; }

# load_module MODULE: loads a module; each server has another port.
load_module() {
	case $1 in
	msg_server) load msg_server addr="$ADDRESS" && await 10 "msg_server: ready" ;;
	msg_server_rs)
		load msg_server_rs addr="$(ipv4_number "$ADDRESS")" port=7472 &&
			await 10 "msg_server_rs: ready"
		;;
	mem_server) load mem_server addr="$ADDRESS" port=7473 && await 10 "mem_server: ready" ;;
	msg_client_rs) load msg_client_rs addr="$(ipv4_number "$ADDRESS")" port=7472 count=10 ;;
	*_client) load "$1" addr="$ADDRESS" count=10 ;;
	*) load "$1" addr="$ADDRESS" ;;
	esac
}

# all_done: checks that all clients have finished without errors.
all_done() { [ "$(kernel_log | grep -c "_client.*: done count=10 .*errors=0")" -eq "$clients" ]; }

round() {
	reset_kernel_log
	for module in $modules; do
		load_module "$module" || return
	done
	eventually 30 all_done || return
	# shellcheck disable=SC2086 # one argument for each module
	unload $modules kofi
}

require_modules kofi
modules=$(present_modules)
clients=$(echo "$modules" | grep -c _client)
device_up "$1" || fail "$1 does not come up"
before=$(for kind in qp cq pd mr cm_id; do counts $kind; done)
number=0
while [ $number -lt "$2" ]; do
	round || fail "round $number fails"
	number=$((number + 1))
done
after=$(for kind in qp cq pd mr cm_id; do counts $kind; done)
[ "$before" = "$after" ] || fail "qp cq pd mr cm_id: before" $before "after" $after
require_no_rdma_objects
