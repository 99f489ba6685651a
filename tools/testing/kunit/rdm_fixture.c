// SPDX-License-Identifier: GPL-2.0
/* Fixture of the datagram suites: see rdm.h. */

#include <linux/delay.h>
#include <linux/moduleparam.h>
#include <rdma/fi_ext.h>

#include "rdm.h"

static char *local = "none";
module_param(local, charp, 0444);
MODULE_PARM_DESC(local, "which datagram endpoints reach those of this host without the device: none, all, some");

bool rdm_all_local(void)
{
	return !strcmp(local, "all");
}

/* With "some", every second endpoint uses local delivery. */
static bool is_local(void)
{
	static atomic_t count;

	if (!strcmp(local, "some"))
		return atomic_inc_return(&count) % 2;
	return rdm_all_local();
}

struct fi_info *rdm_hints(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED;
	if (!is_local())
		hints->caps |= FI_REMOTE_COMM;
	return hints;
}

struct kofi_rdm *rdm_make(struct kunit *test, const struct rdm_opts *opts)
{
	static const struct rdm_opts defaults;
	struct kofi_rdm *rdm = kunit_kzalloc(test, sizeof(*rdm), GFP_KERNEL);
	struct fi_info *hints = rdm_hints(test);
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	char port[8];

	KUNIT_ASSERT_NOT_NULL(test, rdm);
	opts = opts ?: &defaults;
	if (opts->av_type)
		av_attr.type = opts->av_type;
	hints->addr_format = opts->addr_format;
	hints->caps |= opts->caps;
	hints->tx_attr->size = opts->tx_size;
	hints->rx_attr->size = opts->rx_size;
	hints->rx_attr->iov_limit = opts->iov_limit;
	hints->tx_attr->iov_limit = opts->iov_limit;
	hints->tx_attr->rma_iov_limit = opts->rma_iov_limit;
	hints->tx_attr->inject_size = opts->inject_size ?: 256;
	if (opts->port)
		snprintf(port, sizeof(port), "%u", opts->port);
	hints->fabric_attr->net = opts->net;
	rdm->info = fx_info_for(test, hints, opts->node ?: fx_addr, opts->port ? port : NULL,
				opts->is_far ? 0 : FI_SOURCE);
	rdm->fabric = fx_fabric(test, rdm->info);
	rdm->domain = fx_domain(test, rdm->fabric, rdm->info);
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(rdm->domain, &av_attr, &rdm->av,
					    NULL));
	fx_defer_close(test, &rdm->av->fid);
	cq_attr.size = opts->cq_size;
	rdm->cq = fx_cq(test, rdm->domain, &cq_attr);
	rdm->ep = fx_ep(test, rdm->domain, rdm->info);
	rdm->name_len = sizeof(rdm->name);
	return rdm;
}

void rdm_start(struct kunit *test, struct kofi_rdm *rdm, u64 cq_flags)
{
	cq_flags |= FI_TRANSMIT | FI_RECV;
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(rdm->ep, &rdm->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(rdm->ep, &rdm->cq->fid, cq_flags));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(rdm->ep));
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&rdm->ep->fid, &rdm->name,
					    &rdm->name_len));
}

struct kofi_rdm *rdm_open(struct kunit *test, const struct rdm_opts *opts)
{
	struct kofi_rdm *rdm = rdm_make(test, opts);

	rdm_start(test, rdm, opts ? opts->cq_flags : 0);
	return rdm;
}

int rdm_insert(struct kofi_rdm *rdm, const void *name, fi_addr_t *addr, u64 flags)
{
	/* FI_ADDR_STR addresses are passed as an array of pointers. */
	const void *names = rdm->info->addr_format == FI_ADDR_STR ? &name : name;

	return fi_av_insert(rdm->av, names, 1, addr, flags, NULL);
}

fi_addr_t rdm_addr(struct kunit *test, struct kofi_rdm *rdm,
		   struct kofi_rdm *other)
{
	fi_addr_t addr = FI_ADDR_NOTAVAIL;

	KUNIT_ASSERT_EQ(test, 1, rdm_insert(rdm, &other->name, &addr, 0));
	return addr;
}

int rdm_send(struct kofi_rdm *rdm, fi_addr_t to, const void *buf, size_t len,
	     void *context)
{
	return retry_while_eagain(fi_send(rdm->ep, buf, len, NULL, to,
					  context));
}

int rdm_recv(struct kofi_rdm *rdm, fi_addr_t from, void *buf, size_t len,
	     void *context)
{
	return retry_while_eagain(fi_recv(rdm->ep, buf, len, NULL, from,
					  context));
}

void rdm_expect(struct kunit *test, struct kofi_rdm *rdm, void *context,
		struct fi_cq_tagged_entry *entry)
{
	struct fi_cq_tagged_entry unused;

	entry = entry ?: &unused;
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, rdm->cq, entry, 1));
	KUNIT_ASSERT_PTR_EQ(test, context, entry->op_context);
}

void rdm_await_unexpected(struct kunit *test, struct kofi_rdm *rdm, u64 tag)
{
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = tag, .context = &msg };
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;

	for (;;) {
		KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(rdm->ep, &msg, FI_PEEK));
		if (fi_cq_sread(rdm->cq, &entry, 1, NULL, FX_WAIT_MS) == 1)
			break;
		error = (struct fi_cq_err_entry){};
		KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(rdm->cq, &error, 0));
		KUNIT_ASSERT_EQ(test, FI_ENOMSG, error.err);
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for an unexpected message");
		usleep_range(1000, 2000);
	}
	KUNIT_ASSERT_PTR_EQ(test, &msg, entry.op_context);
}

size_t rdm_connected(struct kofi_rdm *rdm)
{
	size_t count, len = sizeof(count);

	return fi_getopt(&rdm->ep->fid, FI_OPT_ENDPOINT, FI_OPT_KOFI_CONNECTED, &count, &len) ?
		       SIZE_MAX : count;
}

void rdm_await_connected(struct kunit *test, struct kofi_rdm *rdm, size_t count)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (rdm_connected(rdm) != count) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "%zu connections, not %zu",
				      rdm_connected(rdm), count);
		msleep(20);
	}
}

#define LEN	100

void rdm_exchange(struct kunit *test, struct kofi_rdm *from, fi_addr_t addr,
		  struct kofi_rdm *to)
{
	u8 *out = kunit_kzalloc(test, 2 * LEN, GFP_KERNEL), *in = out + LEN;
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_NOT_NULL(test, out);
	get_random_bytes(out, LEN);
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(to, FI_ADDR_UNSPEC, in, LEN, in));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(from, addr, out, LEN, out));
	/* If both are the same endpoint, the completions may be in any order. */
	for (int left = 2; left--;) {
		struct kofi_rdm *rdm = left ? to : from;

		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, rdm->cq, &entry, 1));
		if (entry.op_context == out) {
			KUNIT_EXPECT_EQ(test, FI_SEND | FI_MSG, entry.flags);
			continue;
		}
		KUNIT_ASSERT_PTR_EQ(test, in, entry.op_context);
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry.flags);
		KUNIT_EXPECT_EQ(test, LEN, entry.len);
		KUNIT_EXPECT_MEMEQ(test, out, in, LEN);
	}
}
