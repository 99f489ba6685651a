// SPDX-License-Identifier: GPL-2.0
/*
 * Closes, when it is unloaded, the objects that leave_open.ko and leave_peer.ko
 * have left open. It calls no function of kofi.ko by name, and so holds no
 * reference on it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>
#include <rdma/fabric.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include "leave_keep.h"

#define MAX_KEPT	24

static struct fid *kept[MAX_KEPT];
static int count;

void leave_keep(struct fid *fid)
{
	if (!WARN_ON(count == MAX_KEPT))
		kept[count++] = fid;
}
EXPORT_SYMBOL_GPL(leave_keep);

static struct leave_use used;
static u8 message[8];

void leave_keep_use(const struct leave_use *use)
{
	used = *use;
}
EXPORT_SYMBOL_GPL(leave_keep_use);

static void use_all(void)
{
	int ret = fi_send(used.ep, message, sizeof(message), NULL, used.to, message);

	if (ret)
		pr_err("fi_send: %d\n", ret);
	/* Each read forwards the completions that have arrived by then. */
	for (int i = 0; i < 50; i++) {
		for (int end = 0; end < ARRAY_SIZE(used.cq); end++) {
			ret = fi_cq_read(used.cq[end], NULL, 0);
			if (ret && ret != -FI_EAGAIN)
				pr_err("fi_cq_read: %d\n", ret);
		}
		msleep(20);
	}
	ret = fi_av_set_union(used.set, used.peer_set);
	if (ret != -FI_EOPBADSTATE)
		pr_err("fi_av_set_union: %d\n", ret);
	pr_info("used\n");
}

static int __init leave_keep_init(void)
{
	return 0;
}

static void __exit leave_keep_exit(void)
{
	if (used.ep)
		use_all();
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
