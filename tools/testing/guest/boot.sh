#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# The init program of a virtual machine, whose root is the initramfs.
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /usr/bin
exec /bin/busybox sh /kofi/guest/init.sh
