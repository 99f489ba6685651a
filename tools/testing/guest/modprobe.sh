#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# The program of /proc/sys/kernel/modprobe in the guest: loads the module that its last argument names from
# $KOFI/modules. The client and the kernel call it.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
KOFI=${0%/guest/*}
. "$KOFI/guest/lib.sh"
for module; do :; done
loaded "$module" && exit
has_module "$module" || { echo "modprobe: the payload has no module $module" >&2 && exit 1; }
load "$module"
