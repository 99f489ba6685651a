// SPDX-License-Identifier: GPL-2.0
/*
 * The client of the slides "Kernel OpenFabrics Interface: Data Transfer"
 * (2015), from "Infiniband Client context example" on, as a module that
 * connects to msg_server. The client polls where msg_client waits.
 *
 *	insmod slides_client.ko addr=10.0.0.1 port=7471 size=64 count=100
 *
 * The code keeps the names of the slides. The slides send before they receive;
 * here the receive is posted first, because the echo may arrive before fi_send()
 * returns, and has its own half of the buffer. Corrections of the slides:
 *
 *	fi_send()		destination address and context
 *	completion queues	the slides read scq for both directions, which is
 *				no member of the context
 *	fi_cq_read()		-FI_EAVAIL means that there is an error entry
 *	fi_cq_readerr()		returns the number of entries, or an error
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include "connection.h"

#define EAGAIN_TRIES	1000

#define print_err	pr_err
#define print_msg	pr_debug

typedef struct {
	struct fi_context    context;
	struct fi_info       *prov;
	struct fid_fabric    *fabric;
	struct fid_domain    *domain;
	struct fid_ep        *ep;
	struct fid_eq        *eq;
	struct fid_cq        *send_cq;
	struct fid_cq        *recv_cq;
	struct fid_mr        *mr;
	char                 *buf;
} application_context_t;

static application_context_t ctx;

static char *addr;
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of the server, IPv4 or IPv6");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port of the server");

static uint size = 64;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "length of a message in bytes");

static uint count = 100;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "messages to send");

static struct task_struct *thread;

/* Reaps one completion. The slides repeat this code for Tx and for Rx. */
static int reap(struct fid_cq *cq, const char *what)
{
	struct fi_cq_msg_entry comp;
	int eagain_cnt = EAGAIN_TRIES;
	ssize_t ret;

	do {
		ret = fi_cq_read(cq, &comp, 1);
		if (ret == -FI_EAGAIN) {
			if (--eagain_cnt <= 0) {
				eagain_cnt = EAGAIN_TRIES;
				schedule();
			}
		}
		if (kthread_should_stop())
			return -FI_EINTR;
	} while (ret == -FI_EAGAIN);

	/* Handle any CQ error: -FI_EAVAIL means that an error entry can be read. */
	if (ret < 0) {
		struct fi_cq_err_entry cqe = {};
		char buf[64];

		if (ret != -FI_EAVAIL || fi_cq_readerr(cq, &cqe, 0) != 1)
			return ret;
		print_err("fi_cq_readerr() %s err '%s'(%d)\n", what,
			  fi_strerror(cqe.err), cqe.err);
		print_err("fi_cq_readerr() provider_err '%s'(%d)\n",
			  fi_cq_strerror(cq, cqe.prov_errno, cqe.err_data, buf,
					 sizeof(buf)),
			  cqe.prov_errno);
		return -cqe.err;
	}
	/* op_context is the context argument of fi_send() or fi_recv(). */
	print_msg("%s '%s'\n", what, (char *)comp.op_context);
	return 0;
}

/* Opens all objects and connects. The slides begin with a connected endpoint. */
static int setup(void)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG };
	int ret;

	ret = find_info(addr, port, 0, FI_MSG, &ctx.prov);
	if (ret)
		return ret;
	ret = fi_fabric(ctx.prov->fabric_attr, &ctx.fabric, &ctx.context);
	if (ret)
		return ret;
	ret = fi_domain(ctx.fabric, ctx.prov, &ctx.domain, &ctx.context);
	if (ret)
		return ret;
	ret = open_eq(ctx.fabric, &ctx.eq);
	if (ret)
		return ret;
	ret = fi_cq_open(ctx.domain, &cq_attr, &ctx.send_cq, &ctx.context);
	if (ret)
		return ret;
	ret = fi_cq_open(ctx.domain, &cq_attr, &ctx.recv_cq, &ctx.context);
	if (ret)
		return ret;
	ret = fi_endpoint(ctx.domain, ctx.prov, &ctx.ep, &ctx.context);
	if (ret)
		return ret;
	ret = fi_ep_bind(ctx.ep, &ctx.eq->fid, 0);
	if (ret)
		return ret;
	ret = fi_ep_bind(ctx.ep, &ctx.send_cq->fid, FI_TRANSMIT);
	if (ret)
		return ret;
	ret = fi_ep_bind(ctx.ep, &ctx.recv_cq->fid, FI_RECV);
	if (ret)
		return ret;

	/* Allocate plus IB register a Tx buffer, followed by an Rx buffer */
	ctx.buf = kcalloc(2, size, GFP_KERNEL);
	if (!ctx.buf)
		return -ENOMEM;
	ret = fi_mr_reg(ctx.domain, ctx.buf, 2 * size, 0, 0, 0, 0, &ctx.mr,
			NULL);
	if (ret)
		return ret;

	ret = fi_connect(ctx.ep, NULL, NULL, 0);
	if (ret)
		return ret;
	return wait_event_of(ctx.eq, FI_CONNECTED, NULL);
}

static int exchange(uint seq)
{
	char *rx = ctx.buf + size;
	int ret;

	snprintf(ctx.buf, size, "message %u", seq);

	/* Post a receive */
	ret = fi_recv(ctx.ep, rx, size, fi_mr_desc(ctx.mr), FI_ADDR_UNSPEC, rx);
	if (ret < 0) {
		print_err("ERR: fi_recv() '%s'\n", fi_strerror(ret));
		return ret;
	}
	ret = fi_send(ctx.ep, ctx.buf, size, fi_mr_desc(ctx.mr),
		      FI_ADDR_UNSPEC, ctx.buf);
	if (ret < 0) {
		print_err("ERR: fi_send() '%s'\n", fi_strerror(ret));
		return ret;
	}
	ret = reap(ctx.send_cq, "Tx");
	if (ret)
		return ret;
	ret = reap(ctx.recv_cq, "Rx");
	if (ret)
		return ret;
	return memcmp(ctx.buf, rx, size) ? -FI_EIO : 0;
}

static void cleanup(void)
{
	if (ctx.ep)
		close_fid(&ctx.ep->fid);
	if (ctx.mr)
		close_fid(&ctx.mr->fid);
	kfree(ctx.buf);
	if (ctx.recv_cq)
		close_fid(&ctx.recv_cq->fid);
	if (ctx.send_cq)
		close_fid(&ctx.send_cq->fid);
	if (ctx.eq)
		close_fid(&ctx.eq->fid);
	if (ctx.domain)
		close_fid(&ctx.domain->fid);
	if (ctx.fabric)
		close_fid(&ctx.fabric->fid);
	fi_freeinfo(ctx.prov);
}

static int slides_client(void *unused)
{
	uint seq = 0;
	int ret;

	ret = setup();
	while (!ret && seq < count) {
		ret = exchange(seq);
		if (!ret)
			seq++;
	}
	if (!ret)
		ret = fi_shutdown(ctx.ep, 0);
	if (ret)
		print_err("%s: %s\n", addr, fi_strerror(ret));
	cleanup();
	pr_info("done count=%u size=%u errors=%d\n", seq, size, !!ret);
	return ret;
}

static int __init slides_client_init(void)
{
	if (!addr || !size)
		return -EINVAL;

	thread = run_thread(slides_client);
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit slides_client_exit(void)
{
	kthread_stop_put(thread);
}

module_init(slides_client_init);
module_exit(slides_client_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: client of the kfabric data transfer slides");
MODULE_LICENSE("GPL");
