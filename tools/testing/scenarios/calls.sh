# SPDX-License-Identifier: GPL-2.0
# What single calls cost over kOFI and over raw verbs, in turns in one boot: calls.sh [ROUNDS]. The
# messages are longer than what goes inline, so that the device does the same for both.
need_module kofi_bench kofi_raw
device_up rxe || fail "no device"
load kofi_bench addr=$ADDRESS && load kofi_raw addr=$ADDRESS || fail "the modules do not load"
round=0
while [ $round -lt "${1:-3}" ]; do
	for implementation in bench raw; do
		echo "cost 512 1280" >/sys/kernel/debug/kofi_$implementation/run ||
			fail "$implementation"
	done
	round=$((round + 1))
done
