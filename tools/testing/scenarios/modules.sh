# SPDX-License-Identifier: GPL-2.0
# kofi.ko can be unloaded and loaded again.
require_modules kofi
for round in 1 2 3; do
	load kofi || fail "insmod, round $round"
	loaded kofi || fail "not loaded, round $round"
	unload kofi || fail "rmmod, round $round"
done
