// SPDX-License-Identifier: GPL-2.0
/* Fixture of the suites of scalable endpoints; sep.h describes its functions. */

#include "sep.h"

struct fi_info *sep_info(struct kunit *test, const struct sep_opts *opts)
{
	struct fi_info *hints = rdm_hints(test);

	hints->caps |= FI_NAMED_RX_CTX | opts->caps;
	hints->ep_attr->tx_ctx_cnt = opts->txs ?: SEP_DEFAULT;
	hints->ep_attr->rx_ctx_cnt = opts->rxs ?: SEP_DEFAULT;
	hints->rx_attr->size = opts->rx_size ?: 64;
	hints->rx_attr->iov_limit = opts->iov_limit;
	hints->tx_attr->iov_limit = opts->iov_limit;
	hints->tx_attr->inject_size = 256;
	return fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
}

struct sep *sep_open_unbound(struct kunit *test, const struct sep_opts *opts)
{
	static const struct sep_opts defaults;
	struct sep *sep = kunit_kzalloc(test, sizeof(*sep), GFP_KERNEL);
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .rx_ctx_bits = SEP_BITS };

	KUNIT_ASSERT_NOT_NULL(test, sep);
	sep->info = sep_info(test, opts ?: &defaults);
	sep->txs = sep->info->ep_attr->tx_ctx_cnt;
	sep->rxs = sep->info->ep_attr->rx_ctx_cnt;
	sep->fabric = fx_fabric(test, sep->info);
	sep->domain = fx_domain(test, sep->fabric, sep->info);
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(sep->domain, &attr, &sep->av, NULL));
	fx_defer_close(test, &sep->av->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep(sep->domain, sep->info, &sep->ep, sep));
	fx_defer_close(test, &sep->ep->fid);
	sep->name_len = sizeof(sep->name);
	return sep;
}

static struct fid_cq *open_cq(struct kunit *test, struct sep *sep, size_t size)
{
	struct fi_cq_attr attr = {
		.size = size, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC,
	};

	return fx_cq(test, sep->domain, &attr);
}

void sep_open_tx(struct kunit *test, struct sep *sep, int index, u64 cq_flags)
{
	struct fid_cq **cq = &sep->tx_cq[index];

	*cq = *cq ?: open_cq(test, sep, 0);
	KUNIT_ASSERT_EQ(test, 0, fi_tx_context(sep->ep, index, NULL, &sep->tx[index], sep));
	fx_defer_close(test, &sep->tx[index]->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(sep->tx[index], &(*cq)->fid, FI_TRANSMIT | cq_flags));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(sep->tx[index]));
}

static void open_rx(struct kunit *test, struct sep *sep, int index, u64 cq_flags,
		    struct fi_rx_attr *attr)
{
	struct fid_cq **cq = &sep->rx_cq[index];

	*cq = *cq ?: open_cq(test, sep, 0);
	KUNIT_ASSERT_EQ(test, 0, fi_rx_context(sep->ep, index, attr, &sep->rx[index], sep));
	fx_defer_close(test, &sep->rx[index]->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(sep->rx[index], &(*cq)->fid, FI_RECV | cq_flags));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(sep->rx[index]));
}

void sep_open_rx(struct kunit *test, struct sep *sep, int index, u64 cq_flags)
{
	open_rx(test, sep, index, cq_flags, NULL);
}

void sep_reopen_rx(struct kunit *test, struct sep *sep, int index, u64 missing_caps)
{
	struct fi_rx_attr attr = { .caps = sep->info->rx_attr->caps & ~missing_caps };

	fx_close(test, &sep->rx[index]->fid);
	open_rx(test, sep, index, 0, &attr);
}

struct sep *sep_open(struct kunit *test, const struct sep_opts *opts)
{
	struct sep *sep = sep_open_unbound(test, opts);
	u64 cq_flags = opts ? opts->cq_flags : 0;

	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep_bind(sep->ep, &sep->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(sep->ep));
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&sep->ep->fid, &sep->name, &sep->name_len));
	if (opts && opts->one_cq) {
		sep->tx_cq[0] = open_cq(test, sep, opts->cq_size);
		for (int i = 0; i < SEP_MAX; i++) {
			sep->tx_cq[i] = sep->tx_cq[0];
			sep->rx_cq[i] = sep->tx_cq[0];
		}
	}
	for (int i = 0; i < sep->txs; i++)
		sep_open_tx(test, sep, i, cq_flags);
	for (int i = 0; i < sep->rxs; i++)
		sep_open_rx(test, sep, i, cq_flags);
	return sep;
}

fi_addr_t sep_addr(struct kunit *test, struct sep *sep, const void *name)
{
	fi_addr_t addr = FI_ADDR_NOTAVAIL;

	KUNIT_ASSERT_EQ(test, 1, fi_av_insert(sep->av, name, 1, &addr, 0, NULL));
	return addr;
}

void sep_expect(struct kunit *test, struct fid_cq *cq, void *context,
		struct fi_cq_tagged_entry *entry)
{
	struct fi_cq_tagged_entry unused;

	entry = entry ?: &unused;
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, cq, entry, 1));
	KUNIT_ASSERT_PTR_EQ(test, context, entry->op_context);
}

#define LEN	100

void sep_exchange(struct kunit *test, struct sep *from, int tx, fi_addr_t addr, struct sep *to,
		  int rx)
{
	u8 *out = kunit_kzalloc(test, 2 * LEN, GFP_KERNEL), *in = out + LEN;
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_NOT_NULL(test, out);
	get_random_bytes(out, LEN);
	KUNIT_ASSERT_EQ(test, 0, fi_recv(to->rx[rx], in, LEN, NULL, FI_ADDR_UNSPEC, in));
	addr = fi_rx_addr(addr, rx, SEP_BITS);
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_send(from->tx[tx], out, LEN, NULL, addr,
							    out)));
	sep_expect(test, from->tx_cq[tx], out, &entry);
	KUNIT_EXPECT_EQ(test, FI_SEND | FI_MSG, entry.flags);
	sep_expect(test, to->rx_cq[rx], in, &entry);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry.flags);
	KUNIT_EXPECT_EQ(test, LEN, entry.len);
	KUNIT_EXPECT_MEMEQ(test, out, in, LEN);
	kunit_kfree(test, out);
}
