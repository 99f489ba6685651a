// SPDX-License-Identifier: GPL-2.0
/*
 * A consumer that opens a server of each kind with handlers, and reacts to no
 * event.
 *
 *	insmod leave_open.ko addr=10.0.0.1 port=7471 leave=1
 *
 * With leave=1 its exit function closes nothing: all objects, handlers and a
 * provider stay behind, and leave_keep.ko closes the objects when it is unloaded
 * later. With leave=0 the exit function closes all of them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_prov.h>
#include "leave_keep.h"

static char *addr = "0.0.0.0";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "local address");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port to listen on");

static bool leave;
module_param(leave, bool, 0444);
MODULE_PARM_DESC(leave, "close nothing in the exit function");

static struct fid_fabric *fabric;
static struct fid_eq *eq;
static struct fid_pep *pep;
static struct fid_domain *domain;
static struct fid_cq *cqs[2];
static struct fid_ep *ep;
static atomic_t calls;

static void on_event(struct fid_eq *queue, void *context)
{
	atomic_inc(&calls);
}

static void on_completion(struct fid_cq *queue, void *context)
{
	atomic_inc(&calls);
}

static int nothing_offered(u32 version, const char *node, const char *service, u64 flags,
			   const struct fi_info *hints, struct fi_info **info)
{
	return -FI_ENODATA;
}

static int no_fabric(struct fi_fabric_attr *attr, struct fid_fabric **opened, void *context)
{
	return -FI_ENODATA;
}

static struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	.fi_version = FI_VERSION(1, 17),
	.name = "leave_open",
	.getinfo = nothing_offered,
	.fabric = no_fabric,
};

static void close_object(struct fid *fid)
{
	int ret = fid ? fi_close(fid) : 0;

	if (ret)
		pr_err("fi_close: %s\n", fi_strerror(ret));
}

static void close_all(void)
{
	fi_unregister_provider(&provider);
	close_object(ep ? &ep->fid : NULL);
	for (int i = 0; i < ARRAY_SIZE(cqs); i++)
		close_object(cqs[i] ? &cqs[i]->fid : NULL);
	close_object(domain ? &domain->fid : NULL);
	close_object(pep ? &pep->fid : NULL);
	close_object(eq ? &eq->fid : NULL);
	close_object(fabric ? &fabric->fid : NULL);
}

static int open_endpoint(struct fi_info *info)
{
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_CONTEXT,
		.cq_event_handler = on_completion,
	};
	int ret;

	ret = fi_domain(fabric, info, &domain, NULL);
	for (int i = 0; !ret && i < ARRAY_SIZE(cqs); i++) {
		cq_attr.flags = i ? FI_CB_CTX_INTR : 0;
		ret = fi_cq_open(domain, &cq_attr, &cqs[i], NULL);
	}
	ret = ret ?: fi_endpoint(domain, info, &ep, NULL);
	ret = ret ?: fi_ep_bind(ep, &eq->fid, 0);
	ret = ret ?: fi_ep_bind(ep, &cqs[0]->fid, FI_TRANSMIT);
	ret = ret ?: fi_ep_bind(ep, &cqs[1]->fid, FI_RECV);
	return ret ?: fi_enable(ep);
}

static int open_all(struct fi_info *info)
{
	struct fi_eq_attr eq_attr = { .eq_event_handler = on_event };
	int ret;

	ret = fi_register_provider(&provider);
	ret = ret ?: fi_fabric(info->fabric_attr, &fabric, NULL);
	ret = ret ?: fi_eq_open(fabric, &eq_attr, &eq, NULL);
	ret = ret ?: fi_passive_ep(fabric, info, &pep, NULL);
	ret = ret ?: fi_pep_bind(pep, &eq->fid, 0);
	ret = ret ?: fi_listen(pep);
	return ret ?: open_endpoint(info);
}

static int __init leave_open_init(void)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int ret = -FI_ENOMEM;

	if (!hints)
		return -ENOMEM;
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_MSG;
	ret = fi_getinfo(FI_VERSION(1, 17), addr, port, FI_SOURCE, hints, &info);
	ret = ret ?: open_all(info);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	if (ret) {
		pr_err("%s: %s\n", addr, fi_strerror(ret));
		close_all();
		return -EIO;
	}
	pr_info("ready port=%s\n", port);
	return 0;
}

/* Registers all objects in the order in which they were opened. */
static void keep_all(void)
{
	leave_keep(&fabric->fid);
	leave_keep(&eq->fid);
	leave_keep(&pep->fid);
	leave_keep(&domain->fid);
	for (int i = 0; i < ARRAY_SIZE(cqs); i++)
		leave_keep(&cqs[i]->fid);
	leave_keep(&ep->fid);
}

static void __exit leave_open_exit(void)
{
	if (leave)
		keep_all();
	else
		close_all();
}

module_init(leave_open_init);
module_exit(leave_open_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI test: a consumer that leaves everything open");
MODULE_LICENSE("GPL");
