#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# The init of a virtual machine, whose root is nothing but an initramfs.
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /usr/bin
exec /bin/busybox sh /kofi/guest/init.sh
