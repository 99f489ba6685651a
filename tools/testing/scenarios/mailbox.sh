# SPDX-License-Identifier: GPL-2.0
# mailbox.sh DEVICE: runs the suite of a provider in another module, which cannot be unloaded during its use.
require_modules kofi_kunit mailbox
device_up "$1" || fail "$1 does not come up"
load kofi || fail "kofi.ko does not load"
load mailbox || fail "mailbox.ko does not load"
rounds=20
[ "$TIMEOUT_FACTOR" -gt 1 ] && rounds=4
load kofi_kunit addr="$ADDRESS" addr6="$ADDRESS6" rounds=$rounds || fail "kofi_kunit.ko does not load"
run_suites kofi_mailbox
unload kofi_kunit mailbox kofi || fail "the modules do not unload"
