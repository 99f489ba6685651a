// SPDX-License-Identifier: GPL-2.0
/*
 * Tests EP 8 and RMA 3 of CONTRACT: FI_BVEC and FI_SGL, that is, bio_vecs and
 * scatterlists in the *msg calls.
 */

#include <linux/bvec.h>
#include <linux/highmem.h>
#include <linux/scatterlist.h>

#include "rma.h"

#define PAGES	3
#define ALL	(PAGES * PAGE_SIZE)

/* Ranges of a buffer; none starts where the one before it ends. */
static const struct span {
	unsigned int at, len;
} ranges[] = {
	{ 2 * PAGE_SIZE + 100, 50 },
	{ 7, 0 },
	{ 0, PAGE_SIZE },
	{ PAGE_SIZE + 8, PAGE_SIZE },	/* crosses a page boundary */
	{ PAGE_SIZE - 1, 1 },
};

#define RANGES ARRAY_SIZE(ranges)
#define TOTAL (2 * PAGE_SIZE + 51)

struct vector {
	struct bio_vec		bvec[RANGES];
	struct scatterlist	sgl[RANGES];
	struct scatterlist	head[3], tail[RANGES - 1];
	struct kvec		iov[RANGES];
};

static const struct kvec *make_kvec(struct vector *vector, u8 *buf)
{
	for (int i = 0; i < RANGES; i++)
		vector->iov[i] = (struct kvec) { buf + ranges[i].at,
						 ranges[i].len };
	return vector->iov;
}

static const struct kvec *make_bvec(struct vector *vector, u8 *buf)
{
	for (int i = 0; i < RANGES; i++)
		bvec_set_virt(&vector->bvec[i], buf + ranges[i].at,
			      ranges[i].len);
	return fi_iov_bvec(vector->bvec);
}

static const struct kvec *make_sgl(struct vector *vector, u8 *buf)
{
	sg_init_table(vector->sgl, RANGES);
	for (int i = 0; i < RANGES; i++)
		sg_set_buf(&vector->sgl[i], buf + ranges[i].at, ranges[i].len);
	return fi_iov_sgl(vector->sgl);
}

/* Makes a scatterlist of one entry that is chained to the others. */
static const struct kvec *make_chain(struct vector *vector, u8 *buf)
{
	sg_init_table(vector->head, 2);
	sg_init_table(vector->tail, RANGES - 1);
	sg_chain(vector->head, 2, vector->tail);
	sg_set_buf(&vector->head[0], buf + ranges[0].at, ranges[0].len);
	for (int i = 1; i < RANGES; i++)
		sg_set_buf(&vector->tail[i - 1], buf + ranges[i].at,
			   ranges[i].len);
	return fi_iov_sgl(vector->head);
}

static const struct form {
	const char *name;
	u64 flag;
	const struct kvec *(*make)(struct vector *vector, u8 *buf);
} forms[] = {
	{ "kvec", 0, make_kvec },
	{ "bio_vec", FI_BVEC, make_bvec },
	{ "scatterlist", FI_SGL, make_sgl },
	{ "chained scatterlist", FI_SGL, make_chain },
};

KUNIT_ARRAY_PARAM_DESC(forms, forms, name);

/* Copies the ranges of a buffer to contiguous memory. */
static void flatten(u8 *to, const u8 *buf)
{
	for (int i = 0; i < RANGES; i++) {
		memcpy(to, buf + ranges[i].at, ranges[i].len);
		to += ranges[i].len;
	}
}

static struct vector *vector_of(struct kunit *test, const struct form *form,
				u8 *buf, struct fi_msg *msg)
{
	struct vector *vector = (void *)tr_buffer(test, sizeof(*vector));

	*msg = (struct fi_msg) {
		.msg_iov = form->make(vector, buf),
		.iov_count = RANGES,
		.context = buf,
	};
	return vector;
}

/* Skips the test of messages where they have fewer segments. */
static void need_ranges(struct kunit *test)
{
	if (fx_info(test, fx_addr, NULL, FI_SOURCE)->tx_attr->iov_limit < RANGES)
		kunit_skip(test, "fewer pieces than that");
}

static void ep_08_messages_of_any_vector(struct kunit *test)
{
	const struct form *form = test->param_value;
	u8 *out = tr_buffer(test, ALL), *in = tr_buffer(test, ALL);
	u8 *want = tr_buffer(test, ALL), *got = tr_buffer(test, ALL);
	struct fi_msg send, recv;
	struct kofi_pair *pair;
	struct fid_mr *mr;
	void *desc[RANGES];

	need_ranges(test);
	vector_of(test, form, out, &send);
	vector_of(test, form, in, &recv);
	pair = fx_pair(test, NULL);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(pair->domain, out, ALL, FI_SEND, 0,
					   0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	for (int i = 0; i < RANGES; i++)
		desc[i] = fi_mr_desc(mr);
	for (int registered = 0; registered < 2; registered++) {
		tr_fill(out, ALL, registered);
		send.desc = registered ? desc : NULL;
		KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(pair->ep[1], &recv,
						    form->flag));
		KUNIT_ASSERT_EQ(test, 0, fi_sendmsg(pair->ep[0], &send,
						    form->flag));
		tr_expect(test, pair->cq[1], in, FI_RECV, TOTAL);
		tr_expect(test, pair->cq[0], out, FI_SEND, 0);
		flatten(want, out);
		flatten(got, in);
		KUNIT_EXPECT_MEMEQ(test, want, got, TOTAL);
	}
}

static void ep_12_injects_of_any_vector(struct kunit *test)
{
	const struct form *form = test->param_value;
	u8 *out = tr_buffer(test, ALL), *in = tr_buffer(test, ALL);
	struct fi_msg send;
	struct kofi_pair *pair;

	need_ranges(test);
	vector_of(test, form, out, &send);
	pair = fx_pair(test, NULL);
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, fi_sendmsg(pair->ep[0], &send,
						       form->flag | FI_INJECT));
	send.iov_count = 2;
	tr_fill(out + ranges[0].at, 50, 1);
	KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], in, ALL, NULL, 0, in));
	KUNIT_ASSERT_EQ(test, 0, fi_sendmsg(pair->ep[0], &send,
					    form->flag | FI_INJECT));
	memset(out, 0, ALL);
	tr_expect(test, pair->cq[1], in, FI_RECV, 50);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, 50, 1));
}

static void rma_03_rma_of_any_vector(struct kunit *test)
{
	const struct form *form = test->param_value;
	u8 *out = tr_buffer(test, ALL), *far = tr_buffer(test, ALL);
	u8 *want = tr_buffer(test, ALL);
	struct fi_rma_iov remote = { .len = TOTAL };
	struct fi_msg_rma msg;
	struct fi_msg send;
	struct rma_fx *fx;

	vector_of(test, form, out, &send);
	fx = rma_open(test, far, ALL, RMA_BOTH, NULL);
	remote.addr = fx->addr;
	remote.key = fx->key;
	msg = (struct fi_msg_rma) {
		.msg_iov = send.msg_iov,
		.iov_count = RANGES,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = out,
	};
	tr_fill(out, ALL, 3);
	flatten(want, out);
	KUNIT_ASSERT_EQ(test, 0, fi_writemsg(fx->pair->ep[0], &msg, form->flag));
	rma_expect(test, fx, out, FI_WRITE);
	rma_settle(test, fx);
	KUNIT_EXPECT_MEMEQ(test, want, far, TOTAL);

	memset(out, 0, ALL);
	tr_fill(far, TOTAL, 4);
	/* The last range is the last byte of the third one, too. */
	far[50 + PAGE_SIZE - 1] = far[TOTAL - 1];
	KUNIT_ASSERT_EQ(test, 0, fi_readmsg(fx->pair->ep[0], &msg, form->flag));
	rma_expect(test, fx, out, FI_READ);
	flatten(want, out);
	KUNIT_EXPECT_MEMEQ(test, far, want, TOTAL);
}

static void ep_08_invalid_vectors_are_refused(struct kunit *test)
{
	static const u64 flags[] = { FI_BVEC, FI_SGL };
	struct bio_vec no_page = { .bv_len = 8 };
	struct scatterlist without_page;
	u8 *buf = tr_buffer(test, 64);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fi_msg msg = { .msg_iov = fi_iov_bvec(&no_page), .iov_count = 1 };

	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_sendmsg(pair->ep[0], &msg,
							FI_BVEC | FI_SGL));
	KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
			    fi_sendmsg(pair->ep[0], &msg, FI_BVEC), "no page");
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_sendmsg(pair->ep[0], &msg, FI_BVEC | FI_INJECT));
	sg_init_table(&without_page, 1);
	without_page.length = 8;
	msg.msg_iov = fi_iov_sgl(&without_page);
	KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
			    fi_sendmsg(pair->ep[0], &msg, FI_SGL), "no page");
	msg.msg_iov = NULL;
	for (int i = 0; i < 2; i++) {
		msg.iov_count = 1;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				fi_sendmsg(pair->ep[0], &msg, flags[i]));
		msg.iov_count = SIZE_MAX;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				fi_recvmsg(pair->ep[0], &msg, flags[i]));
		msg.iov_count = 0;
		KUNIT_EXPECT_EQ(test, 0, fi_recvmsg(pair->ep[1], &msg,
						    flags[i]));
		KUNIT_EXPECT_EQ(test, 0, fi_sendmsg(pair->ep[0], &msg,
						    flags[i]));
		tr_expect(test, pair->cq[0], NULL, FI_SEND, 0);
		tr_expect(test, pair->cq[1], NULL, FI_RECV, 0);
	}
	tr_exchange(test, pair, 0, buf, buf + 32, 32);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(ep_08_messages_of_any_vector, forms_gen_params),
	KUNIT_CASE_PARAM(ep_12_injects_of_any_vector, forms_gen_params),
	KUNIT_CASE_PARAM(rma_03_rma_of_any_vector, forms_gen_params),
	KUNIT_CASE(ep_08_invalid_vectors_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_vectors",
	.test_cases = cases,
};

kunit_test_suite(suite);
