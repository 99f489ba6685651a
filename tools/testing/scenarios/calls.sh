# SPDX-License-Identifier: GPL-2.0
# calls.sh [ROUNDS]: counts the instructions of single calls of kOFI and of raw verbs, alternately in one boot, and of
# datagram endpoints. The device kofi_null does nearly nothing, so that it costs both the same. The names with safe_ are
# those of calls that take locks (FI_THREAD_SAFE).
require_modules kofi_bench kofi_raw kofi_rdm kofi_sets kofi_null
veth_up n0 10.4.0 fd00:4 && load kofi_null netdev=n0 && link_active null0 || fail "no device"
load kofi_rdm addr=10.4.0.1 series=rdm_ &&
	load kofi_sets addr=10.4.0.1 || fail "the modules do not load"

# count_calls PARAMETERS-OF-KOFI_BENCH PARAMETERS-OF-BOTH
count_calls() {
	load kofi_bench addr=10.4.0.1 $1 $2 && load kofi_raw addr=10.4.0.1 $2 || fail "the modules do not load"
	for implementation in bench raw; do
		echo "cost 512 1280" >/sys/kernel/debug/kofi_$implementation/run ||
			fail "$implementation"
	done
	unload kofi_bench kofi_raw || fail "the modules do not unload"
}

round=0
while [ $round -lt "${1:-3}" ]; do
	count_calls "" ""
	count_calls safe=1 series=safe_
	echo "cost 64 1280" >/sys/kernel/debug/kofi_rdm/run || fail "rdm"
	for test in "lookups 1280" "poll 16" "wait 1280"; do
		echo "$test" >/sys/kernel/debug/kofi_sets/run || fail "$test"
	done
	round=$((round + 1))
done
unload kofi_rdm kofi_sets kofi kofi_null || fail "the modules do not unload"
