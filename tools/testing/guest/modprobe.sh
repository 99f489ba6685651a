#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# The guest's modprobe, which /proc/sys/kernel/modprobe names: loads the module that the last argument
# names from the payload's folder, for the client or for the kernel.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
KOFI=${0%/guest/*}
. "$KOFI/guest/lib.sh"
for module; do :; done
loaded "$module" && exit
has_module "$module" || { echo "there is no module $module" >&2 && exit 1; }
load "$module"
