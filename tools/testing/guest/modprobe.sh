#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# The guest's modprobe, to which /proc/sys/kernel/modprobe points: loads the module that the last argument names from
# the payload. The client and the kernel call it.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
KOFI=${0%/guest/*}
. "$KOFI/guest/lib.sh"
for module; do :; done
loaded "$module" && exit
has_module "$module" || { echo "modprobe: the payload has no module $module" >&2 && exit 1; }
load "$module"
