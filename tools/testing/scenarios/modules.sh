# SPDX-License-Identifier: GPL-2.0
# Loads and unloads kofi.ko several times.
require_modules kofi
for round in 1 2 3; do
	load kofi || fail "kofi.ko does not load in round $round"
	loaded kofi || fail "kofi.ko is not loaded in round $round"
	unload kofi || fail "kofi.ko does not unload in round $round"
done
