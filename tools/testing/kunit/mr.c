// SPDX-License-Identifier: GPL-2.0
/*
 * Tests MR of CONTRACT: registrations for local access, and ranges that cannot
 * be registered.
 */

#include <linux/mm.h>

#include "traffic.h"

#define LEN 256

static struct fid_mr *reg(struct kunit *test, struct fid_domain *domain,
			  const void *buf, size_t len)
{
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(domain, buf, len, FI_SEND | FI_RECV,
					   0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	return mr;
}

static void mr_01_reg_regv_regattr(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct kvec iov[2] = { { buf, 10 }, { buf + LEN, LEN } };
	struct fi_mr_attr attr = {
		.mr_iov = iov,
		.iov_count = 2,
		.access = FI_SEND,
		.context = buf,
	};
	struct fid_mr *mr[3] = {};

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->domain, buf, LEN, 0, 0, 0, 0,
					   &mr[0], buf));
	fx_defer_close(test, &mr[0]->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_regv(fx->domain, iov, 2, FI_RECV, 0, 0,
					    0, &mr[1], buf));
	fx_defer_close(test, &mr[1]->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_regattr(fx->domain, &attr, 0, &mr[2]));
	fx_defer_close(test, &mr[2]->fid);
	for (int i = 0; i < ARRAY_SIZE(mr); i++) {
		KUNIT_EXPECT_EQ(test, FI_CLASS_MR, mr[i]->fid.fclass);
		KUNIT_EXPECT_PTR_EQ(test, (void *)buf, mr[i]->fid.context);
		KUNIT_EXPECT_NOT_NULL(test, fi_mr_desc(mr[i]));
		KUNIT_EXPECT_EQ_MSG(test, FI_KEY_NOTAVAIL, fi_mr_key(mr[i]),
				    "a key for what no peer may reach");
	}
}

static void mr_01_zero_length_and_offset_are_refused(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct kvec iov[2] = { { buf, LEN }, { buf, 0 } };
	struct fi_mr_attr attr = { .mr_iov = iov, .iov_count = 1, .offset = 1 };
	struct fid_mr *mr = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_mr_reg(fx->domain, buf, 0, 0, 0, 0,
						    0, &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_mr_reg(fx->domain, buf, LEN, 0, 1,
						    0, 0, &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_mr_regv(fx->domain, iov, 0, 0, 0,
						     0, 0, &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_mr_regv(fx->domain, iov, 2, 0, 0,
						     0, 0, &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_mr_regv(fx->domain, NULL, 1, 0, 0,
						     0, 0, &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_mr_regattr(fx->domain, &attr, 0, &mr));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_mr_reg(fx->domain, buf, LEN, 0, 0, 0, 1ULL << 63,
				  &mr, NULL));
	KUNIT_EXPECT_NULL(test, mr);
}

static void mr_01_unknown_access_flags_are_refused(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_mr *mr = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_mr_reg(fx->domain, buf, LEN, 1ULL << 63, 0, 0, 0,
				  &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_mr_reg(fx->domain, buf, LEN, FI_REMOTE_READ | FI_MSG,
				  0, 0, 0, &mr, NULL));
	KUNIT_EXPECT_NULL(test, mr);
}

static const struct kind {
	const char *name;
	u8 *(*alloc)(struct kunit *test, size_t len);
} kinds[] = {
	{ "linear", tr_buffer },
	{ "vmalloc", tr_vbuffer },
};

KUNIT_ARRAY_PARAM_DESC(kinds, kinds, name);

/* Sends and receives parts of a region, also across page boundaries. */
static void mr_01_transfers_by_descriptor(struct kunit *test)
{
	static const size_t spans[][2] = {
		{ 0, 1 }, { 0, 3 * PAGE_SIZE }, { 1, 3 * PAGE_SIZE - 1 },
		{ PAGE_SIZE - 1, 2 }, { PAGE_SIZE, PAGE_SIZE },
		{ 3 * PAGE_SIZE - 1, 1 }, { 77, 2 * PAGE_SIZE },
	};
	const struct kind *kind = test->param_value;
	u8 *out = kind->alloc(test, 3 * PAGE_SIZE);
	u8 *in = kind->alloc(test, 3 * PAGE_SIZE);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid_mr *from = reg(test, pair->domain, out, 3 * PAGE_SIZE);
	struct fid_mr *to = reg(test, pair->domain, in, 3 * PAGE_SIZE);

	for (int i = 0; i < ARRAY_SIZE(spans); i++) {
		size_t at = spans[i][0], len = spans[i][1];

		memset(in, 0, 3 * PAGE_SIZE);
		tr_fill(out + at, len, i);
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], in + at, len,
						 fi_mr_desc(to), 0, in));
		KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], out + at, len,
						 fi_mr_desc(from), 0, out));
		tr_expect(test, pair->cq[0], out, FI_SEND, 0);
		tr_expect(test, pair->cq[1], in, FI_RECV, len);
		KUNIT_EXPECT_TRUE_MSG(test, tr_intact(in + at, len, i),
				      "%zu bytes at %zu", len, at);
		KUNIT_EXPECT_NULL(test, memchr_inv(in, 0, at));
		KUNIT_EXPECT_NULL(test, memchr_inv(in + at + len, 0,
						   3 * PAGE_SIZE - at - len));
	}
}

static void mr_01_a_range_outside_of_the_region_is_refused(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * PAGE_SIZE);
	u8 *in = buf + PAGE_SIZE / 2;
	struct kofi_pair *pair = fx_pair(test, NULL);
	void *desc = fi_mr_desc(reg(test, pair->domain, in, PAGE_SIZE));
	struct kofi_fabric_fx *other = fx_open(test);
	void *foreign = fi_mr_desc(reg(test, other->domain, in, PAGE_SIZE));

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(pair->ep[0], in - 1, 8, desc,
						  0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(pair->ep[0], in, PAGE_SIZE + 1,
						  desc, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(pair->ep[0], in + PAGE_SIZE,
						  1, desc, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recv(pair->ep[0], buf, 8, desc, 0,
						  NULL));
	KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
			    fi_send(pair->ep[0], in, 8, foreign, 0, NULL),
			    "another domain's region");
}

struct mem_range {
	const char *name;
	void *base;
	size_t len;
};

/* The test fills in the addresses of the entries that have a NULL base. */
static const struct mem_range ranges[] = {
	{ "NULL", NULL, 8 },
	{ "a user's address", (void *)PAGE_SIZE, 8 },
	{ "the last byte and more", (void *)-1UL, 2 },
	{ "wraps to zero", (void *)-8UL, 8 },
	{ "wraps", (void *)-PAGE_SIZE, 2 * PAGE_SIZE },
	{ "the stack", NULL, 8 },
	{ "half of the linear map", NULL, SIZE_MAX / 2 },
	{ "all from here on", NULL, SIZE_MAX },
	{ "past vmalloc's area", NULL, 2 * PAGE_SIZE },
};

KUNIT_ARRAY_PARAM_DESC(ranges, ranges, name);

static void mr_05_unmappable_ranges_are_refused(struct kunit *test)
{
	struct mem_range range = *(const struct mem_range *)test->param_value;
	u8 *linear = tr_buffer(test, LEN), *paged = tr_vbuffer(test, PAGE_SIZE);
	struct kofi_pair *pair = fx_pair(test, NULL);
	size_t max = pair->info->ep_attr->max_msg_size;
	struct fid_mr *mr = NULL;
	u8 stack[8];

	if (!strcmp(range.name, "the stack"))
		range.base = stack;
	else if (!range.base && range.len > PAGE_SIZE)
		range.base = linear;
	if (!strcmp(range.name, "past vmalloc's area"))
		range.base = paged;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_mr_reg(pair->domain, range.base, range.len, 0, 0, 0,
				  0, &mr, NULL));
	KUNIT_EXPECT_NULL(test, mr);
	/* A post checks the range too, unless the length alone exceeds max_msg_size. */
	KUNIT_EXPECT_EQ(test, range.len > max ? -FI_EMSGSIZE : -FI_EINVAL,
			fi_send(pair->ep[0], range.base, range.len, NULL, 0,
				NULL));
	KUNIT_EXPECT_EQ(test, range.len > max ? -FI_EMSGSIZE : -FI_EINVAL,
			fi_recv(pair->ep[0], range.base, range.len, NULL, 0,
				NULL));
	/* The refused calls leave the endpoint usable. */
	tr_exchange(test, pair, 0, linear, linear + LEN / 2, LEN / 2);
}

/* A domain counts its DMA mappings, and warns at close if some are left. */
static void mr_06_maps_and_unmaps_balance(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 4, .rx_size = 4 };
	u8 *buf = tr_vbuffer(test, 4 * PAGE_SIZE);
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fid_mr *mr = reg(test, pair->domain, buf, 4 * PAGE_SIZE);
	const struct kvec iov[2] = { { buf, LEN }, { NULL, LEN } };

	tr_exchange(test, pair, 0, buf, buf + 2 * PAGE_SIZE, 2 * PAGE_SIZE);
	/* Posts that fail after one kvec was mapped, are one too many, are flushed, or unread. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_sendv(pair->ep[0], iov, NULL, 2, 0, NULL));
	for (int i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, PAGE_SIZE,
						 NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_recv(pair->ep[1], buf, PAGE_SIZE,
						  NULL, 0, NULL));
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], buf, LEN, NULL, 0,
						 NULL));
	tr_expect(test, pair->cq[0], NULL, FI_SEND, 0);
	fx_close(test, &pair->ep[1]->fid);
	fx_close(test, &pair->ep[0]->fid);
	fx_close(test, &mr->fid);
	for (int side = 0; side < 2; side++)
		fx_close(test, &pair->cq[side]->fid);
	kunit_warning_suppress(test) {
		fx_close(test, &pair->domain->fid);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 0);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(mr_01_reg_regv_regattr),
	KUNIT_CASE(mr_01_zero_length_and_offset_are_refused),
	KUNIT_CASE(mr_01_unknown_access_flags_are_refused),
	KUNIT_CASE_PARAM(mr_01_transfers_by_descriptor, kinds_gen_params),
	KUNIT_CASE(mr_01_a_range_outside_of_the_region_is_refused),
	KUNIT_CASE_PARAM(mr_05_unmappable_ranges_are_refused, ranges_gen_params),
	KUNIT_CASE(mr_06_maps_and_unmaps_balance),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_mr",
	.test_cases = cases,
};

kunit_test_suite(suite);
