// SPDX-License-Identifier: GPL-2.0
/*
 * Tests INFO 7, EP 9 and RMA 3 of CONTRACT for the vectors of datagram endpoints: 4
 * segments by default, up to 256 and as many remote ranges on request.
 */

#include "rdm_iov.h"
#include "rdm_srx.h"

#define RECEIVES	16

static void info_07_datagram_vectors_are_granted_as_asked(struct kunit *test)
{
	static const struct {
		size_t tx, rx, ranges;
		int ret;
	} rows[] = {
		{ 0, 0, 0 }, { 4, 4, 1 }, { 5, 6, 2 }, { MOST, MOST, 16 }, { MOST, 1, MOST },
		{ MOST + 1, 0, 0, -FI_ENODATA }, { 0, MOST + 1, 0, -FI_ENODATA },
		{ 0, 0, MOST + 1, -FI_ENODATA }, { SIZE_MAX, SIZE_MAX, SIZE_MAX, -FI_ENODATA },
	};

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fi_info *hints = rdm_hints(test), *info = NULL;

		hints->tx_attr->iov_limit = rows[i].tx;
		hints->rx_attr->iov_limit = rows[i].rx;
		hints->tx_attr->rma_iov_limit = rows[i].ranges;
		KUNIT_ASSERT_EQ_MSG(test, rows[i].ret,
				    fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints,
					       &info), "row %d", i);
		if (rows[i].ret)
			continue;
		KUNIT_EXPECT_EQ(test, rows[i].tx ?: DEFAULT, info->tx_attr->iov_limit);
		KUNIT_EXPECT_EQ(test, rows[i].rx ?: DEFAULT, info->rx_attr->iov_limit);
		KUNIT_EXPECT_EQ(test, rows[i].ranges ?: 1, info->tx_attr->rma_iov_limit);
		fi_freeinfo(info);
	}
}

static void info_07_datagram_endpoints_have_no_longer_vectors(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_make(test, NULL);
	struct fi_info *info = rdm->info;
	size_t *limits[] = {
		&info->tx_attr->iov_limit, &info->rx_attr->iov_limit,
		&info->tx_attr->rma_iov_limit,
	};
	struct fid_ep *ep = NULL;

	for (int i = 0; i < ARRAY_SIZE(limits); i++) {
		size_t granted = *limits[i];

		*limits[i] = MOST + 1;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_endpoint(rdm->domain, info, &ep, NULL));
		*limits[i] = SIZE_MAX;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_endpoint(rdm->domain, info, &ep, NULL));
		*limits[i] = granted;
	}
	KUNIT_EXPECT_NULL(test, ep);
}

static void expect_refusals(struct kunit *test, struct iov_pair *p, size_t count, size_t ranges,
			    ssize_t ret)
{
	struct fi_rma_iov *remote = (void *)tr_buffer(test, (MOST + 1) * sizeof(*remote));
	const struct kvec *out = iov_form(p->out, 0), *in = iov_form(p->in, 0);
	struct fid_ep *a = p->a->ep, *b = p->b->ep;
	const struct fi_msg_rma rma = {
		.msg_iov = out, .iov_count = count, .addr = p->to_b, .rma_iov = remote,
		.rma_iov_count = ranges,
	};
	struct fi_msg msg = { .msg_iov = out, .iov_count = count, .addr = p->to_b };
	struct fi_msg_tagged tagged = { .msg_iov = out, .iov_count = count, .addr = p->to_b };

	KUNIT_EXPECT_EQ(test, ret, fi_writemsg(a, &rma, 0));
	KUNIT_EXPECT_EQ(test, ret, fi_readmsg(a, &rma, 0));
	if (ranges != 1)
		return;
	KUNIT_EXPECT_EQ(test, ret, fi_sendv(a, out, NULL, count, p->to_b, NULL));
	KUNIT_EXPECT_EQ(test, ret, fi_tsendv(a, out, NULL, count, p->to_b, TAG, NULL));
	KUNIT_EXPECT_EQ(test, ret, fi_sendmsg(a, &msg, 0));
	KUNIT_EXPECT_EQ(test, ret, fi_sendmsg(a, &msg, FI_INJECT));
	KUNIT_EXPECT_EQ(test, ret, fi_tsendmsg(a, &tagged, 0));
	KUNIT_EXPECT_EQ(test, ret, fi_writev(a, out, NULL, count, p->to_b, 0, 0, NULL));
	KUNIT_EXPECT_EQ(test, ret, fi_readv(a, out, NULL, count, p->to_b, 0, 0, NULL));
	msg.msg_iov = in;
	tagged.msg_iov = in;
	KUNIT_EXPECT_EQ(test, ret, fi_recvv(b, in, NULL, count, FI_ADDR_UNSPEC, NULL));
	KUNIT_EXPECT_EQ(test, ret, fi_trecvv(b, in, NULL, count, FI_ADDR_UNSPEC, TAG, 0, NULL));
	KUNIT_EXPECT_EQ(test, ret, fi_recvmsg(b, &msg, 0));
	KUNIT_EXPECT_EQ(test, ret, fi_trecvmsg(b, &tagged, 0));
}

static void ep_09_more_datagram_segments_than_granted(struct kunit *test)
{
	static const struct rdm_opts short_opts = { .caps = FI_RMA };
	struct iov_pair *p = iov_open(test, &short_opts), *q = iov_open(test, &iov_long_opts);

	iov_cut(p->out, DEFAULT + 1, 0);
	iov_cut(p->in, DEFAULT + 1, 0);
	expect_refusals(test, p, DEFAULT + 1, 1, -FI_EINVAL);
	expect_refusals(test, p, 1, 2, -FI_EINVAL);
	iov_cut(q->out, MOST + 1, 0);
	iov_cut(q->in, MOST + 1, 0);
	expect_refusals(test, q, MOST + 1, 1, -FI_EINVAL);
	expect_refusals(test, q, MOST, MOST + 1, -FI_EINVAL);
	expect_refusals(test, q, MOST, 0, -FI_EINVAL);
}

/* The sum of the lengths does not wrap, and no address is used. */
static void ep_09_lengths_of_datagram_segments_that_overflow(struct kunit *test)
{
	struct iov_pair *p = iov_open(test, &iov_long_opts);
	struct fi_rma_iov *remote = (void *)tr_buffer(test, MOST * sizeof(*remote));
	struct fi_msg_rma rma = {
		.msg_iov = p->out->iov, .iov_count = 2, .addr = p->to_b, .rma_iov = remote,
		.rma_iov_count = MOST,
	};
	u8 stack[8];

	for (int i = 0; i < MOST; i++) {
		p->out->iov[i] = (struct kvec) { p->out->memory, SIZE_MAX / 128 };
		remote[i] = (struct fi_rma_iov) { .len = SIZE_MAX / 128 };
	}
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE,
			fi_sendv(p->a->ep, p->out->iov, NULL, MOST, p->to_b, NULL));
	KUNIT_EXPECT_GT(test, 0, fi_recvv(p->a->ep, p->out->iov, NULL, MOST, FI_ADDR_UNSPEC, NULL));
	iov_cut(p->out, 2, 256);
	/* 256 bytes, if the sum wraps. */
	remote[0].len += 512;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_writemsg(p->a->ep, &rma, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_readmsg(p->a->ep, &rma, 0));
	/* An invalid address among many. */
	iov_cut(p->out, MOST, 50000);
	p->out->iov[MOST - 1] = (struct kvec) { stack, sizeof(stack) };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_sendv(p->a->ep, p->out->iov, NULL, MOST, p->to_b, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_recvv(p->a->ep, p->out->iov, NULL, MOST, FI_ADDR_UNSPEC, NULL));
	p->out->iov[MOST - 1].iov_base = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_sendv(p->a->ep, p->out->iov, NULL, MOST, p->to_b, NULL));
}

/* Writes a vector to ranges of the peer's memory, and reads them into another vector. */
static void rma_03_datagram_accesses_of_256_segments_and_ranges(struct kunit *test)
{
	static const size_t ranges[] = { 1, 2, 16, MOST };
	static const u64 forms[] = { 0, FI_BVEC, FI_SGL };
	struct fi_rma_iov *remote = (void *)tr_buffer(test, (MOST + 1) * sizeof(*remote));
	void **descs = (void *)tr_buffer(test, MOST * sizeof(*descs));
	u8 *far = tr_buffer(test, SIZE);
	struct iov_pair *p = iov_open(test, &iov_long_opts);
	struct fid_mr *mr, *near[2];

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(p->b->domain, far, SIZE,
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(p->a->domain, (i ? p->in : p->out)->memory,
						   SIZE, FI_READ | FI_WRITE, 0, 0, 0, &near[i],
						   NULL));
		fx_defer_close(test, &near[i]->fid);
	}
	for (int i = 0; i < IOV_COUNTS * ARRAY_SIZE(ranges) * ARRAY_SIZE(forms); i++) {
		size_t count = iov_counts[i % IOV_COUNTS];
		size_t parts = ranges[i / IOV_COUNTS % ARRAY_SIZE(ranges)];
		u64 flags = forms[i % ARRAY_SIZE(forms)];
		size_t len = 50003 + i;

		memset(far, UNUSED, SIZE);
		iov_cut(p->out, count, len);
		iov_cut(p->in, iov_counts[(i + 1) % IOV_COUNTS], len);
		iov_fill(p, p->out, len, i);
		for (int is_read = 0; is_read < 2; is_read++) {
			struct iov_vector *vector = is_read ? p->in : p->out;
			size_t at = 0;

			for (size_t k = 0; k < parts; k++) {
				size_t end = len * (k + 1) / parts;

				remote[k] = (struct fi_rma_iov) {
					(uintptr_t)far + at + GAP * k, end - at, fi_mr_key(mr),
				};
				at = end;
			}
			for (int k = 0; k < MOST; k++)
				descs[k] = fi_mr_desc(near[is_read]);
			KUNIT_ASSERT_EQ(test, 0, iov_access(p, vector, is_read, remote, parts,
							       i % 2 ? descs : NULL, flags));
			rdm_expect(test, p->a, vector, NULL);
		}
		KUNIT_EXPECT_TRUE_MSG(test, iov_received(p, p->in, len, i),
				      "%zu segments, %zu ranges", count, parts);
	}
}

/* Shared receives have their slots again when they complete, whatever the order. */
static void rdm_03_shared_receives_of_256_segments(struct kunit *test)
{
	const struct rs_opts opts = { .size = RECEIVES, .iov_limit = MOST };
	struct iov_pair p = { .flat = tr_buffer(test, LONGEST) };
	struct iov_vector *in[2] = { iov_new(test), iov_new(test) };
	u8 *out = tr_buffer(test, LONGEST);
	struct rs_world *world = rs_open(test, &opts);
	struct fi_cq_tagged_entry entry;

	iov_cut(in[0], MOST + 1, 0);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, iov_recv(world->srx, in[0], 0, false));
	for (int i = 0; i < 3 * RECEIVES; i++) {
		size_t len = iov_lens[i % IOV_LENS];

		tr_fill(out, len, i);
		for (int k = 0; k < 2; k++) {
			iov_cut(in[k], iov_counts[(i + 4 * k) % IOV_COUNTS], len);
			KUNIT_ASSERT_EQ(test, 0, iov_recv(world->srx, in[k], 0, false));
		}
		for (int k = 0; k < 2; k++) {
			rs_send(test, world, 0, (i + k) % 2, out, len);
			rdm_expect(test, world->sender[0], out, NULL);
			rdm_expect(test, &world->member[(i + k) % 2], in[k], &entry);
			KUNIT_EXPECT_EQ(test, len, entry.len);
			KUNIT_EXPECT_TRUE(test, iov_received(&p, in[k], len, i));
		}
	}
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	KUNIT_EXPECT_EQ(test, RECEIVES, fi_rx_size_left(world->srx));
}

/* A shared transmit context stores the vectors of its endpoints, and says how long they may be. */
static void ep_09_shared_transmits_of_256_segments(struct kunit *test)
{
	struct iov_pair *p = iov_open(test, &iov_long_opts);
	struct kofi_rdm *rdm = rdm_make(test, &iov_long_opts);
	struct fi_tx_attr attr = {};

	rdm->info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	for (int i = 0; i < 2; i++) {
		struct fid_stx *stx;

		KUNIT_ASSERT_EQ(test, 0, fi_stx_context(rdm->domain, &attr, &stx, NULL));
		fx_defer_close(test, &stx->fid);
		rdm->ep = fx_ep(test, rdm->domain, rdm->info);
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(rdm->ep, &rdm->av->fid, 0));
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(rdm->ep, &rdm->cq->fid,
						    FI_TRANSMIT | FI_RECV));
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(rdm->ep, &stx->fid, 0));
		KUNIT_ASSERT_EQ(test, i ? 0 : -FI_EINVAL, fi_enable(rdm->ep));
		attr.iov_limit = MOST;
		attr.rma_iov_limit = MOST;
	}
	p->a = rdm;
	p->to_b = rdm_addr(test, rdm, p->b);
	iov_exchange(test, p);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(info_07_datagram_vectors_are_granted_as_asked),
	KUNIT_CASE(info_07_datagram_endpoints_have_no_longer_vectors),
	KUNIT_CASE(ep_09_more_datagram_segments_than_granted),
	KUNIT_CASE(ep_09_lengths_of_datagram_segments_that_overflow),
	KUNIT_CASE(rma_03_datagram_accesses_of_256_segments_and_ranges),
	KUNIT_CASE(rdm_03_shared_receives_of_256_segments),
	KUNIT_CASE(ep_09_shared_transmits_of_256_segments),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_iov_calls",
	.test_cases = cases,
};

kunit_test_suite(suite);
