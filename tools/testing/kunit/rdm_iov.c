// SPDX-License-Identifier: GPL-2.0
/* Tests RDM 3, CQ 8, EP 10 and EP 11 of CONTRACT for datagrams of up to 256 segments. */

#include "rdm_iov.h"

static const struct kind {
	const char *name;
	u64 flags;
	bool is_tagged, is_unexpected;
} kinds[] = {
	{ "kvecs", 0, false, false },
	{ "tagged kvecs", 0, true, false },
	{ "bio_vecs", FI_BVEC, false, false },
	{ "tagged scatterlists", FI_SGL, true, false },
	{ "unexpected kvecs", 0, false, true },
	{ "delivered bio_vecs", FI_BVEC | FI_DELIVERY_COMPLETE, true, false },
};

KUNIT_ARRAY_PARAM_DESC(kinds, kinds, name);

static void rdm_03_messages_of_up_to_256_segments(struct kunit *test)
{
	const struct kind *kind = test->param_value;
	u64 form = kind->flags & (FI_BVEC | FI_SGL);
	struct iov_pair *p = iov_open(test, &iov_long_opts);
	u32 seed = 0;

	for (int i = 0; i < IOV_LENS * IOV_COUNTS * IOV_COUNTS; i++) {
		size_t len = iov_lens[i % IOV_LENS];

		iov_cut(p->out, iov_counts[i / IOV_LENS % IOV_COUNTS], len);
		iov_cut(p->in, iov_counts[i / IOV_LENS / IOV_COUNTS], len);
		iov_fill(p, p->out, len, ++seed);
		if (!kind->is_unexpected)
			KUNIT_ASSERT_EQ(test, 0, iov_recv(p->b->ep, p->in, form, kind->is_tagged));
		KUNIT_ASSERT_EQ(test, 0, iov_send(p, kind->flags, kind->is_tagged));
		if (kind->is_unexpected)
			KUNIT_ASSERT_EQ(test, 0, iov_recv(p->b->ep, p->in, form, kind->is_tagged));
		iov_expect(test, p, len, seed);
	}
}

static void cq_08_messages_longer_than_256_segments(struct kunit *test)
{
	struct iov_pair *p = iov_open(test, &iov_long_opts);
	struct fi_cq_err_entry error;

	for (int i = 2; i < IOV_LENS; i++) {
		iov_cut(p->out, MOST, iov_lens[i]);
		iov_cut(p->in, MOST, iov_lens[i] - 100);
		iov_fill(p, p->out, iov_lens[i], i);
		KUNIT_ASSERT_EQ(test, 0, iov_recv(p->b->ep, p->in, 0, false));
		KUNIT_ASSERT_EQ(test, 0, iov_send(p, 0, false));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->b->cq, &error));
		KUNIT_EXPECT_EQ(test, FI_ETRUNC, error.err);
		KUNIT_EXPECT_EQ(test, 100, error.olen);
		rdm_expect(test, p->a, p->out, NULL);
		KUNIT_EXPECT_TRUE(test, iov_received(p, p->in, iov_lens[i] - 100, i));
	}
}

/* Entries have their slots again after each way in which an operation ends. */
static void ep_10_cancelled_vectors_make_space(struct kunit *test)
{
	struct iov_pair *p = iov_open(test, &iov_long_opts);

	for (int i = 0; i < 3 * 256; i++) {
		iov_cut(p->in, MOST, MOST);
		KUNIT_ASSERT_EQ(test, 0, iov_recv(p->b->ep, p->in, 0, i % 2));
		KUNIT_ASSERT_EQ(test, 0, fi_cancel(&p->b->ep->fid, p->in));
		tr_expect_error(test, p->b->cq, p->in, FI_ECANCELED);
	}
	iov_cut(p->out, MOST, LONGEST);
	iov_cut(p->in, MOST, LONGEST);
	iov_fill(p, p->out, LONGEST, 1);
	KUNIT_ASSERT_EQ(test, 0, iov_recv(p->b->ep, p->in, 0, false));
	KUNIT_ASSERT_EQ(test, 0, iov_send(p, 0, false));
	iov_expect(test, p, LONGEST, 1);
}

/* A completion names the place of a message by one address. */
static void ep_11_multi_recv_buffers_have_one_segment(struct kunit *test)
{
	struct iov_pair *p = iov_open(test, &iov_long_opts);
	struct fi_cq_tagged_entry entry;

	iov_cut(p->in, 2, 2 * PACKET);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, iov_recv(p->b->ep, p->in, FI_MULTI_RECV, false));
	iov_cut(p->in, 1, PACKET);
	KUNIT_ASSERT_EQ(test, 0, iov_recv(p->b->ep, p->in, FI_MULTI_RECV, false));
	iov_cut(p->out, MOST, 1001);
	iov_fill(p, p->out, 1001, 1);
	KUNIT_ASSERT_EQ(test, 0, iov_send(p, 0, false));
	rdm_expect(test, p->b, p->in, &entry);
	KUNIT_EXPECT_PTR_EQ(test, (void *)p->in->memory, entry.buf);
	KUNIT_EXPECT_TRUE(test, tr_intact(entry.buf, 1001, 1));
	rdm_expect(test, p->a, p->out, NULL);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(rdm_03_messages_of_up_to_256_segments, kinds_gen_params),
	KUNIT_CASE(cq_08_messages_longer_than_256_segments),
	KUNIT_CASE(ep_10_cancelled_vectors_make_space),
	KUNIT_CASE(ep_11_multi_recv_buffers_have_one_segment),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_iov",
	.test_cases = cases,
};

kunit_test_suite(suite);
