# SPDX-License-Identifier: GPL-2.0
# mailbox.sh DEVICE: the suite of a provider of another module, which is not unloaded while it is used.
require_modules kofi_kunit
require_modules mailbox
device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
load mailbox || fail "mailbox.ko does not load"
rounds=20
[ "$TIMEOUT_FACTOR" -gt 1 ] && rounds=4
load kofi_kunit addr="$ADDRESS" addr6="$ADDRESS6" rounds=$rounds || fail "kofi_kunit.ko does not load"
run_suites kofi_mailbox
unload kofi_kunit mailbox kofi || fail "the modules do not unload"
