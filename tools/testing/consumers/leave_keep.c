// SPDX-License-Identifier: GPL-2.0
/*
 * Closes, when it is unloaded, the objects that leave_open.ko has left open. It
 * calls no function of kofi.ko by name, and so holds no reference on it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <rdma/fabric.h>
#include "leave_keep.h"

#define ROOM	16

static struct fid *kept[ROOM];
static int count;

void leave_keep(struct fid *fid)
{
	if (!WARN_ON(count == ROOM))
		kept[count++] = fid;
}
EXPORT_SYMBOL_GPL(leave_keep);

static int __init leave_keep_init(void)
{
	return 0;
}

static void __exit leave_keep_exit(void)
{
	while (count) {
		int ret = fi_close(kept[--count]);

		if (ret)
			pr_err("fi_close: %d\n", ret);
	}
}

module_init(leave_keep_init);
module_exit(leave_keep_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI test: closes what another consumer has left open");
MODULE_LICENSE("GPL");
