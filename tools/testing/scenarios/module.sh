# SPDX-License-Identifier: GPL-2.0
# Loads the named modules one after another beside both soft devices, and unloads them in reverse order.
device_up siw || fail "siw does not come up"
device_up rxe || fail "rxe does not come up"
load kofi || fail "kofi.ko does not load"
loaded=
for module; do
	check load."$module" load "$module"
	loaded="$module $loaded"
done
for module in $loaded; do
	check unload."$module" unload "$module"
done
