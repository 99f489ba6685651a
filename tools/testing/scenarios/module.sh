# SPDX-License-Identifier: GPL-2.0
# module.sh MODULE...: brings up both soft devices, loads the modules in this order, and unloads them in reverse.
device_up siw || fail "siw does not come up"
device_up rxe || fail "rxe does not come up"
load kofi || fail "kofi.ko does not load"
modules=
for module; do
	check load."$module" load "$module"
	modules="$module $modules"
done
for module in $modules; do
	check unload."$module" unload "$module"
done
