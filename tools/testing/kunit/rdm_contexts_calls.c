// SPDX-License-Identifier: GPL-2.0
/* Tests RDM 8 of CONTRACT: what the calls of scalable endpoints and their contexts return. */

#include <rdma/fi_atomic.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>

#include "sep.h"

/* Largest tx_attr->size, and one that is larger than the default. */
#define MAX_TX	1024
#define MORE_TX	300

static void info_07_requested_context_counts(struct kunit *test)
{
	static const struct {
		size_t	txs, rxs;
		int	ret;
		size_t	tx_cnt, rx_cnt;
	} cases[] = {
		{ 0, 0, 0, 1, 1 },
		{ 1, 64, 0, 1, 64 },
		{ 17, 33, 0, 17, 33 },
		{ 5, 0, 0, 5, 1 },
		{ 65, 1, -FI_ENODATA },
		{ 1, 65, -FI_ENODATA },
		{ FI_SHARED_CONTEXT, 2, -FI_ENODATA },
		{ 2, FI_SHARED_CONTEXT, -FI_ENODATA },
	};

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fi_info *hints = rdm_hints(test), *info = NULL;
		int ret;

		hints->caps |= FI_NAMED_RX_CTX;
		hints->ep_attr->tx_ctx_cnt = cases[i].txs;
		hints->ep_attr->rx_ctx_cnt = cases[i].rxs;
		ret = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints, &info);
		KUNIT_ASSERT_EQ(test, cases[i].ret, ret);
		if (ret)
			continue;
		KUNIT_EXPECT_EQ(test, cases[i].tx_cnt, info->ep_attr->tx_ctx_cnt);
		KUNIT_EXPECT_EQ(test, cases[i].rx_cnt, info->ep_attr->rx_ctx_cnt);
		KUNIT_EXPECT_EQ(test, SEP_MAX, info->domain_attr->max_ep_tx_ctx);
		KUNIT_EXPECT_EQ(test, SEP_MAX, info->domain_attr->max_ep_rx_ctx);
		KUNIT_EXPECT_EQ(test, FI_NAMED_RX_CTX, info->caps & FI_NAMED_RX_CTX);
		fi_freeinfo(info);
	}
}

static void rdm_08_context_counts_and_indices(struct kunit *test)
{
	struct sep *sep = sep_open_unbound(test, NULL);
	struct fi_info *info = sep->info;
	struct fid_ep *ep;

	/* fi_endpoint() refuses an info with more than one context of a kind. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_endpoint(sep->domain, info, &ep, NULL));
	info->ep_attr->tx_ctx_cnt = SEP_MAX + 1;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep(sep->domain, info, &ep, NULL));
	info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep(sep->domain, info, &ep, NULL));
	info->ep_attr->tx_ctx_cnt = 2;
	info->ep_attr->rx_ctx_cnt = 0;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep(sep->domain, NULL, &ep, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep(sep->domain, info, NULL, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep(sep->domain, info, &ep, sep));
	fx_defer_close(test, &ep->fid);
	KUNIT_EXPECT_EQ(test, FI_CLASS_SEP, ep->fid.fclass);
	KUNIT_EXPECT_PTR_EQ(test, sep, ep->fid.context);
	for (int i = -1; i <= 3; i++) {
		struct fid_ep *tx, *rx;

		KUNIT_ASSERT_EQ(test, i == 0 || i == 1 ? 0 : -FI_EINVAL,
				fi_tx_context(ep, i, NULL, &tx, &tx));
		if (i == 0 || i == 1) {
			KUNIT_EXPECT_EQ(test, FI_CLASS_TX_CTX, tx->fid.fclass);
			KUNIT_EXPECT_PTR_EQ(test, &tx, tx->fid.context);
			KUNIT_EXPECT_EQ(test, 0, fi_close(&tx->fid));
		}
		KUNIT_ASSERT_EQ(test, i == 0 ? 0 : -FI_EINVAL, fi_rx_context(ep, i, NULL, &rx, &rx));
		if (i == 0) {
			KUNIT_EXPECT_EQ(test, FI_CLASS_RX_CTX, rx->fid.fclass);
			KUNIT_EXPECT_PTR_EQ(test, &rx, rx->fid.context);
			KUNIT_EXPECT_EQ(test, 0, fi_close(&rx->fid));
		}
	}
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_tx_context(ep, INT_MIN, NULL, &ep, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_rx_context(ep, INT_MAX, NULL, &ep, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_tx_context(ep, 0, NULL, NULL, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_rx_context(ep, 0, NULL, NULL, NULL));
}

static void rdm_08_an_index_is_open_once(struct kunit *test)
{
	struct sep *sep = sep_open_unbound(test, NULL);
	struct fid_ep *tx, *rx, *again;

	for (int i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_tx_context(sep->ep, 7, NULL, &tx, NULL));
		KUNIT_ASSERT_EQ(test, 0, fi_rx_context(sep->ep, 7, NULL, &rx, NULL));
		KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_tx_context(sep->ep, 7, NULL, &again, NULL));
		KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_rx_context(sep->ep, 7, NULL, &again, NULL));
		KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&sep->ep->fid));
		KUNIT_EXPECT_EQ(test, 0, fi_close(&tx->fid));
		KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&sep->ep->fid));
		KUNIT_EXPECT_EQ(test, 0, fi_close(&rx->fid));
	}
	fx_close(test, &sep->ep->fid);
}

static void rdm_08_context_attributes_within_those_of_the_endpoint(struct kunit *test)
{
	struct sep_opts opts = { .caps = FI_RMA };
	struct sep *sep = sep_open_unbound(test, &opts);
	struct fi_tx_attr tx = {}, defaults = *sep->info->tx_attr;
	struct fi_rx_attr rx = {};
	struct fid_ep *ep;

	KUNIT_ASSERT_EQ(test, 0, fi_tx_context(sep->ep, 0, &tx, &ep, NULL));
	KUNIT_EXPECT_EQ(test, defaults.caps, tx.caps);
	KUNIT_EXPECT_EQ(test, defaults.inject_size, tx.inject_size);
	KUNIT_EXPECT_EQ(test, defaults.size, tx.size);
	KUNIT_EXPECT_EQ(test, defaults.iov_limit, tx.iov_limit);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&ep->fid));
	tx = (struct fi_tx_attr) { .caps = FI_MSG | FI_SEND, .inject_size = 8 };
	KUNIT_ASSERT_EQ(test, 0, fi_tx_context(sep->ep, 0, &tx, &ep, NULL));
	KUNIT_EXPECT_EQ(test, FI_MSG | FI_SEND, tx.caps);
	KUNIT_EXPECT_EQ(test, 8, tx.inject_size);
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_write(ep, NULL, 0, NULL, 0, 0, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&ep->fid));
	tx = (struct fi_tx_attr) { .inject_size = defaults.inject_size + 1 };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_tx_context(sep->ep, 0, &tx, &ep, NULL));
	tx = (struct fi_tx_attr) { .size = MAX_TX + 1 };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_tx_context(sep->ep, 0, &tx, &ep, NULL));
	tx = (struct fi_tx_attr) { .iov_limit = defaults.iov_limit + 1 };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_tx_context(sep->ep, 0, &tx, &ep, NULL));
	tx = (struct fi_tx_attr) { .caps = FI_ATOMIC };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_tx_context(sep->ep, 0, &tx, &ep, NULL));
	tx = (struct fi_tx_attr) { .msg_order = ~0ULL };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_tx_context(sep->ep, 0, &tx, &ep, NULL));
	tx = (struct fi_tx_attr) { .op_flags = FI_MULTI_RECV };
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_tx_context(sep->ep, 0, &tx, &ep, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_rx_context(sep->ep, 0, &rx, &ep, NULL));
	KUNIT_EXPECT_EQ(test, 64, rx.size);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&ep->fid));
	rx = (struct fi_rx_attr) { .size = 65 };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_rx_context(sep->ep, 0, &rx, &ep, NULL));
	rx = (struct fi_rx_attr) { .caps = FI_ATOMIC };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_rx_context(sep->ep, 0, &rx, &ep, NULL));
	rx = (struct fi_rx_attr) { .total_buffered_recv = 1 };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_rx_context(sep->ep, 0, &rx, &ep, NULL));
	rx = (struct fi_rx_attr) { .op_flags = FI_INJECT };
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_rx_context(sep->ep, 0, &rx, &ep, NULL));
}

/* A context may ask for more operations than the info of its endpoint; the contexts share them. */
static void ep_13_a_context_asks_for_more_transmits(struct kunit *test)
{
	struct sep_opts opts = { .txs = 2, .rxs = 1, .cq_size = 1024, .one_cq = true };
	struct sep *sep = sep_open(test, &opts);
	fi_addr_t self = sep_addr(test, sep, &sep->name);
	u32 *out = kunit_kcalloc(test, MORE_TX + 1, sizeof(*out), GFP_KERNEL), *in = out + MORE_TX;
	struct fi_tx_attr attr = { .size = MORE_TX };

	KUNIT_ASSERT_NOT_NULL(test, out);
	KUNIT_EXPECT_EQ(test, sep->info->tx_attr->size, fi_tx_size_left(sep->tx[0]));
	fx_close(test, &sep->tx[1]->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_tx_context(sep->ep, 1, &attr, &sep->tx[1], sep));
	fx_defer_close(test, &sep->tx[1]->fid);
	KUNIT_EXPECT_EQ(test, MORE_TX, attr.size);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(sep->tx[1], &sep->tx_cq[1]->fid, FI_TRANSMIT));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(sep->tx[1]));
	for (int i = 0; i < 2; i++)
		KUNIT_EXPECT_EQ(test, MORE_TX, fi_tx_size_left(sep->tx[i]));
	for (int i = 0; i < MORE_TX; i++) {
		out[i] = i;
		KUNIT_ASSERT_EQ_MSG(test, 0, fi_send(sep->tx[i % 2], &out[i], sizeof(*out), NULL,
						     self, &out[i]), "send %d", i);
	}
	for (int i = 0; i < MORE_TX; i++) {
		struct fi_cq_tagged_entry entry;

		KUNIT_ASSERT_EQ(test, 0, fi_recv(sep->rx[0], in, sizeof(*in), NULL, FI_ADDR_UNSPEC,
						 NULL));
		do {
			KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, sep->rx_cq[0], &entry, 1));
		} while (!(entry.flags & FI_RECV));
		KUNIT_ASSERT_EQ(test, i, *in);
	}
}

static void rdm_08_bindings_of_endpoints_and_contexts(struct kunit *test)
{
	struct sep_opts opts = { .txs = 2, .rxs = 2 };
	struct sep *sep = sep_open_unbound(test, &opts), *other = sep_open_unbound(test, &opts);
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_cntr_attr cntr_attr = {};
	struct fid_cq *cq = fx_cq(test, sep->domain, &cq_attr);
	struct fid_cq *far_cq = fx_cq(test, other->domain, &cq_attr);
	struct fid_eq *eq = fx_eq(test, sep->fabric);
	struct fid_ep *tx, *rx;
	struct fid_cntr *cntr;

	KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(sep->domain, &cntr_attr, &cntr, NULL));
	fx_defer_close(test, &cntr->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_tx_context(sep->ep, 0, NULL, &tx, NULL));
	fx_defer_close(test, &tx->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_rx_context(sep->ep, 0, NULL, &rx, NULL));
	fx_defer_close(test, &rx->fid);

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep_bind(sep->ep, &cq->fid, FI_TRANSMIT));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep_bind(sep->ep, &eq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep_bind(sep->ep, &tx->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep_bind(sep->ep, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_scalable_ep_bind(sep->ep, &sep->av->fid, 1));
	KUNIT_EXPECT_EQ(test, -FI_EDOMAIN, fi_scalable_ep_bind(sep->ep, &other->av->fid, 0));

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(tx, &sep->av->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(rx, &eq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_ep_bind(tx, &cq->fid, FI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_ep_bind(tx, &cq->fid, FI_TRANSMIT | FI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_ep_bind(rx, &cq->fid, FI_TRANSMIT));
	KUNIT_EXPECT_EQ(test, -FI_EDOMAIN, fi_ep_bind(rx, &far_cq->fid, FI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_ep_bind(tx, &cntr->fid, FI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_ep_bind(rx, &cntr->fid, FI_SEND));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(rx, &sep->ep->fid, 0));

	/* Enabling fails until everything needed is bound. */
	KUNIT_EXPECT_EQ(test, -FI_ENOAV, fi_enable(sep->ep));
	KUNIT_EXPECT_EQ(test, -FI_ENOCQ, fi_enable(tx));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(tx, &cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(tx, &cq->fid, FI_TRANSMIT));
	KUNIT_EXPECT_EQ(test, -FI_ENOAV, fi_enable(tx));
	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep_bind(sep->ep, &sep->av->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep_bind(sep->ep, &sep->av->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&sep->av->fid));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(tx));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(tx));
	/* Enabling the first context has enabled the endpoint, which binds no more. */
	KUNIT_EXPECT_EQ(test, 0, fi_enable(sep->ep));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_scalable_ep_bind(sep->ep, &sep->av->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_ep_bind(tx, &cntr->fid, FI_SEND));
	KUNIT_EXPECT_EQ(test, -FI_ENOCQ, fi_enable(rx));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_recv(rx, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL));
}

static void rdm_08_calls_of_the_wrong_direction_are_refused(struct kunit *test)
{
	struct sep_opts opts = { .txs = 1, .rxs = 1, .caps = FI_RMA | FI_ATOMIC | FI_MULTI_RECV };
	struct sep *sep = sep_open(test, &opts);
	fi_addr_t self = sep_addr(test, sep, &sep->name);
	struct fid_ep *tx = sep->tx[0], *rx = sep->rx[0];
	u8 *buf = kunit_kzalloc(test, 64, GFP_KERNEL);
	u64 flags = FI_RECV | FI_COMPLETION;
	size_t size = 1, len = sizeof(size);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_recv(tx, buf, 8, NULL, FI_ADDR_UNSPEC, buf));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_trecv(tx, buf, 8, NULL, FI_ADDR_UNSPEC, 1, 0, buf));
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&tx->fid, buf));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_rx_size_left(tx));
	KUNIT_EXPECT_EQ(test, sep->info->tx_attr->size, fi_tx_size_left(tx));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT,
			fi_setopt(&tx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size, len));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT,
			fi_getopt(&tx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size, &len));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_control(&tx->fid, FI_SETOPSFLAG, &flags));
	KUNIT_EXPECT_EQ(test, 0, fi_control(&rx->fid, FI_SETOPSFLAG, &flags));

	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_send(rx, buf, 8, NULL, self, buf));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_tsend(rx, buf, 8, NULL, self, 1, buf));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_inject(rx, buf, 8, self));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_write(rx, buf, 8, NULL, self, 0, 1, buf));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_read(rx, buf, 8, NULL, self, 0, 1, buf));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS,
			fi_atomic(rx, buf, 1, NULL, self, 0, 1, FI_UINT64, FI_SUM, buf));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_tx_size_left(rx));
	KUNIT_EXPECT_EQ(test, 64, fi_rx_size_left(rx));
	KUNIT_EXPECT_EQ(test, 0,
			fi_setopt(&rx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size, len));
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&rx->fid, buf));
	flags = FI_TRANSMIT | FI_COMPLETION;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_control(&rx->fid, FI_SETOPSFLAG, &flags));
	KUNIT_EXPECT_EQ(test, 0, fi_control(&tx->fid, FI_SETOPSFLAG, &flags));

	/* A scalable endpoint does not transfer; a context has neither contexts nor an address. */
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_send(sep->ep, buf, 8, NULL, self, buf));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_recv(sep->ep, buf, 8, NULL, FI_ADDR_UNSPEC, buf));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_tx_size_left(sep->ep));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_tx_context(tx, 0, NULL, &rx, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_getname(&tx->fid, buf, &len));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_control(&sep->ep->fid, FI_SETOPSFLAG, &flags));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE,
			fi_setname(&sep->ep->fid, &sep->name, sep->name_len));
}

static void rdm_08_an_alias_of_a_context_has_flags_of_its_own(struct kunit *test)
{
	struct sep_opts opts = { .txs = 1, .rxs = 1, .cq_flags = FI_SELECTIVE_COMPLETION };
	struct sep *sep = sep_open(test, &opts);
	fi_addr_t self = sep_addr(test, sep, &sep->name);
	u8 *buf = kunit_kzalloc(test, 64, GFP_KERNEL);
	struct fid_ep *alias;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_alias(sep->tx[0], &alias, FI_TRANSMIT | FI_COMPLETION));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&sep->tx[0]->fid));
	KUNIT_ASSERT_EQ(test, 0, fi_send(sep->tx[0], buf, 8, NULL, self, buf));
	KUNIT_ASSERT_EQ(test, 0, fi_send(alias, buf, 8, NULL, self, buf + 1));
	sep_expect(test, sep->tx_cq[0], buf + 1, NULL);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&alias->fid));
	fx_close(test, &sep->tx[0]->fid);
}

static void rdm_08_connected_endpoints_have_no_contexts(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid_ep *ep;

	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_scalable_ep(pair->domain, pair->info, &ep, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_tx_context(pair->ep[0], 0, NULL, &ep, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_rx_context(pair->ep[0], 0, NULL, &ep, NULL));
}

static void rdm_08_options_of_endpoints_and_receive_contexts(struct kunit *test)
{
	struct sep_opts opts = { .txs = 1, .rxs = 1 };
	struct sep *sep = sep_open(test, &opts);
	size_t value = 5, len = sizeof(value);

	KUNIT_EXPECT_EQ(test, 0, fi_setopt(&sep->ep->fid, FI_OPT_ENDPOINT, FI_OPT_KOFI_CONNECTIONS,
					   &value, len));
	value = 0;
	KUNIT_EXPECT_EQ(test, 0, fi_getopt(&sep->ep->fid, FI_OPT_ENDPOINT, FI_OPT_KOFI_CONNECTIONS,
					   &value, &len));
	KUNIT_EXPECT_EQ(test, 5, value);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_setopt(&sep->ep->fid, FI_OPT_ENDPOINT,
						    FI_OPT_KOFI_CONNECTIONS, NULL, len));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT, fi_setopt(&sep->ep->fid, FI_OPT_ENDPOINT,
							 FI_OPT_MIN_MULTI_RECV, &value, len));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT, fi_setopt(&sep->rx[0]->fid, FI_OPT_ENDPOINT,
							 FI_OPT_KOFI_CONNECTIONS, &value, len));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT, fi_getopt(&sep->tx[0]->fid, FI_OPT_ENDPOINT,
							 FI_OPT_KOFI_CONNECTED, &value, &len));
}

static struct kunit_case rdm_contexts_calls_cases[] = {
	KUNIT_CASE(info_07_requested_context_counts),
	KUNIT_CASE(rdm_08_context_counts_and_indices),
	KUNIT_CASE(rdm_08_an_index_is_open_once),
	KUNIT_CASE(rdm_08_context_attributes_within_those_of_the_endpoint),
	KUNIT_CASE(ep_13_a_context_asks_for_more_transmits),
	KUNIT_CASE(rdm_08_bindings_of_endpoints_and_contexts),
	KUNIT_CASE(rdm_08_calls_of_the_wrong_direction_are_refused),
	KUNIT_CASE(rdm_08_connected_endpoints_have_no_contexts),
	KUNIT_CASE(rdm_08_options_of_endpoints_and_receive_contexts),
	KUNIT_CASE(rdm_08_an_alias_of_a_context_has_flags_of_its_own),
	{}
};

static struct kunit_suite rdm_contexts_calls_suite = {
	.name = "kofi_rdm_contexts_calls",
	.test_cases = rdm_contexts_calls_cases,
};

kunit_test_suite(rdm_contexts_calls_suite);
