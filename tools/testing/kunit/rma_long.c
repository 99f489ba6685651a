// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RMA 3 of CONTRACT: operations of up to 256 local segments and 16 remote
 * ranges, which devices take as several work requests.
 */

#include <linux/bvec.h>
#include <linux/prandom.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>

#include "rma.h"

#define SEGMENTS	256
#define RANGES		16
#define SIZE		SZ_64K
#define MAX_SEGMENT	200
#define MAX_GAP		7
#define ROUNDS		24

/* An operation; one entry more than is permitted. */
struct long_op {
	struct kvec		iov[SEGMENTS + 1];
	struct bio_vec		bvec[SEGMENTS + 1];
	struct scatterlist	sgl[SEGMENTS + 1];
	void			*desc[SEGMENTS + 1];
	struct fi_rma_iov	remote[RANGES + 1];
	struct fi_msg_rma	msg;
};

struct world {
	struct rma_fx	*fx;
	struct long_op	*op;
	u8		*near, *far, *want;
};

static struct world *open_world(struct kunit *test, const struct fx_pair_opts *opts)
{
	struct world *w = (void *)tr_buffer(test, sizeof(*w));

	w->op = (void *)tr_buffer(test, sizeof(*w->op));
	w->near = tr_buffer(test, SIZE);
	w->far = tr_buffer(test, SIZE);
	w->want = tr_buffer(test, SIZE);
	w->fx = rma_open(test, w->far, SIZE, RMA_BOTH, opts);
	return w;
}

static ssize_t post(const struct world *w, u64 flags, bool is_read)
{
	struct fid_ep *ep = w->fx->pair->ep[0];

	return is_read ? fi_readmsg(ep, &w->op->msg, flags) :
			 fi_writemsg(ep, &w->op->msg, flags);
}

/* Makes an operation of segments and ranges of 1 byte each, the longer side's last one with the rest. */
static void make_small(struct world *w, size_t segments, size_t ranges)
{
	struct long_op *op = w->op;
	size_t total = max(segments, ranges);

	for (size_t i = 0; i < segments; i++)
		op->iov[i] = (struct kvec) { w->near + 3 * i, 1 };
	for (size_t i = 0; i < ranges; i++)
		op->remote[i] = (struct fi_rma_iov) {
			w->fx->addr + 3 * i, 1, w->fx->key,
		};
	op->iov[segments - 1].iov_len += total - segments;
	op->remote[ranges - 1].len += total - ranges;
	op->msg = (struct fi_msg_rma) {
		.msg_iov = op->iov,
		.iov_count = segments,
		.rma_iov = op->remote,
		.rma_iov_count = ranges,
		.context = op,
	};
}

/* Makes an operation with random segments and ranges, some of them empty, and gaps between them. */
static void make_random(struct world *w, struct rnd_state *rnd)
{
	struct long_op *op = w->op;
	size_t segments = 1 + prandom_u32_state(rnd) % SEGMENTS;
	size_t ranges = 1 + prandom_u32_state(rnd) % RANGES;
	size_t at = MAX_GAP, total = 0;

	sg_init_table(op->sgl, segments);
	for (size_t i = 0; i < segments; i++) {
		size_t len = prandom_u32_state(rnd) % (MAX_SEGMENT + 1);

		if (prandom_u32_state(rnd) % 8 == 0)
			len = 0;
		op->iov[i] = (struct kvec) { w->near + at, len };
		bvec_set_virt(&op->bvec[i], w->near + at, len);
		sg_set_buf(&op->sgl[i], w->near + at, len);
		at += len + prandom_u32_state(rnd) % (MAX_GAP + 1);
		total += len;
	}
	/* The first range is the last one in memory. */
	at = SIZE - MAX_GAP;
	for (size_t i = 0; i < ranges; i++) {
		size_t len = prandom_u32_state(rnd) % (2 * total / ranges + 1);

		if (prandom_u32_state(rnd) % 8 == 0)
			len = 0;
		if (len > total || i == ranges - 1)
			len = total;
		at -= len;
		op->remote[i] = (struct fi_rma_iov) {
			w->fx->addr + at, len, w->fx->key,
		};
		at -= prandom_u32_state(rnd) % (MAX_GAP + 1);
		total -= len;
	}
	op->msg = (struct fi_msg_rma) {
		.msg_iov = op->iov,
		.iov_count = segments,
		.rma_iov = op->remote,
		.rma_iov_count = ranges,
		.context = op,
	};
}

/* Fills the source with a pattern, and makes the expected content of the target. */
static void expect_copy(struct world *w, bool is_read, u32 seed)
{
	const struct fi_rma_iov *range = w->op->remote;
	size_t done = 0;

	tr_fill(is_read ? w->far : w->near, SIZE, seed);
	memset(is_read ? w->near : w->far, 0x5a, SIZE);
	memset(w->want, 0x5a, SIZE);
	for (size_t i = 0; i < w->op->msg.iov_count; i++) {
		u8 *local = w->op->iov[i].iov_base;

		for (size_t k = 0; k < w->op->iov[i].iov_len; k++, done++) {
			size_t at;

			for (; done == range->len; done = 0)
				range++;
			at = range->addr - w->fx->addr + done;
			if (is_read)
				w->want[local - w->near + k] = w->far[at];
			else
				w->want[at] = local[k];
		}
	}
}

static void check_copy(struct kunit *test, struct world *w, bool is_read, const char *what)
{
	rma_settle(test, w->fx);
	KUNIT_EXPECT_EQ_MSG(test, 0, memcmp(w->want, is_read ? w->near : w->far, SIZE),
			    "%s: %zu segments, %zu ranges", what, w->op->msg.iov_count,
			    w->op->msg.rma_iov_count);
}

/* Posts the operation, and expects one entry and the data. */
static void transfer(struct kunit *test, struct world *w, u64 flags, bool is_read)
{
	static u32 seed;

	expect_copy(w, is_read, ++seed);
	KUNIT_ASSERT_EQ_MSG(test, 0, post(w, flags, is_read), "%zu segments, %zu ranges",
			    w->op->msg.iov_count, w->op->msg.rma_iov_count);
	rma_expect(test, w->fx, w->op, is_read ? FI_READ : FI_WRITE);
	check_copy(test, w, is_read, "transfer");
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(w->fx->pair->cq[0], NULL, 0));
}

static const struct kind {
	const char *name;
	u64 form;
	bool is_read, has_desc;
} kinds[] = {
	{ "write", 0, false, false },
	{ "write, registered", 0, false, true },
	{ "write of bio_vecs", FI_BVEC, false, false },
	{ "write of a scatterlist", FI_SGL, false, true },
	{ "read", 0, true, false },
	{ "read, registered", 0, true, true },
	{ "read to bio_vecs", FI_BVEC, true, true },
	{ "read to a scatterlist", FI_SGL, true, false },
};

KUNIT_ARRAY_PARAM_DESC(kinds, kinds, name);

static void rma_03_random_segments_and_ranges(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 512 };
	const struct kind *kind = test->param_value;
	struct world *w = open_world(test, &opts);
	struct rnd_state rnd;
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(w->fx->pair->domain, w->near, SIZE,
					   FI_READ | FI_WRITE, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	for (int i = 0; i < SEGMENTS; i++)
		w->op->desc[i] = fi_mr_desc(mr);
	prandom_seed_state(&rnd, kind - kinds);
	for (int round = 0; round < ROUNDS; round++) {
		u64 flags = kind->form | (round % 3 ? 0 : FI_FENCE);

		make_random(w, &rnd);
		if (kind->form == FI_BVEC)
			w->op->msg.msg_iov = fi_iov_bvec(w->op->bvec);
		if (kind->form == FI_SGL)
			w->op->msg.msg_iov = fi_iov_sgl(w->op->sgl);
		if (kind->has_desc)
			w->op->msg.desc = w->op->desc;
		transfer(test, w, flags, kind->is_read);
	}
}

/* siw would answer such a read with wrong bytes. */
static void rma_03_short_reads_cross_pages(struct kunit *test)
{
	struct world *w = open_world(test, NULL);
	struct rma_op op = { .near = w->near, .context = w->near };

	tr_fill(w->far, SIZE, 1);
	for (op.len = 2; op.len <= 40; op.len++) {
		for (size_t behind = 1; behind < op.len; behind += 5) {
			op.at = PAGE_SIZE - behind;
			memset(w->near, 0, SIZE);
			KUNIT_ASSERT_EQ(test, 0, rma_calls[0].post(w->fx, &op));
			rma_expect(test, w->fx, w->near, FI_READ);
			KUNIT_EXPECT_EQ_MSG(test, 0, memcmp(w->near, w->far + op.at, op.len),
					    "%zu bytes, %zu in the first page", op.len, behind);
			KUNIT_EXPECT_EQ(test, 0, w->near[op.len]);
		}
	}
}

static void rma_03_most_segments_and_ranges(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 512 };
	struct world *w = open_world(test, &opts);

	KUNIT_EXPECT_EQ(test, RANGES, w->fx->pair->info->tx_attr->rma_iov_limit);
	for (int is_read = 0; is_read < 2; is_read++) {
		make_small(w, SEGMENTS, RANGES);
		transfer(test, w, 0, is_read);
		make_small(w, 1, RANGES);
		transfer(test, w, 0, is_read);
		make_small(w, SEGMENTS, 1);
		transfer(test, w, 0, is_read);
		/* siw may answer a read of no bytes with old data. */
		if (is_read && tr_is_iwarp(w->fx->pair->info))
			break;
		make_small(w, 1, 1);
		w->op->iov[0].iov_len = 0;
		w->op->remote[0].len = 0;
		w->op->remote[1] = w->op->remote[0];
		w->op->msg.rma_iov_count = 2;
		transfer(test, w, 0, is_read);
	}
}

static void rma_03_too_many_segments_or_ranges_are_refused(struct kunit *test)
{
	struct world *w = open_world(test, NULL);

	for (int is_read = 0; is_read < 2; is_read++) {
		make_small(w, SEGMENTS + 1, 1);
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, post(w, 0, is_read));
		make_small(w, 1, RANGES + 1);
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, post(w, 0, is_read));
		make_small(w, 1, RANGES);
		w->op->remote[RANGES - 1].len++;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, post(w, 0, is_read));
		w->op->remote[RANGES - 1].len = SIZE_MAX;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, post(w, 0, is_read));
		make_small(w, SEGMENTS, RANGES);
		w->op->remote[5].key = U64_MAX;
		KUNIT_EXPECT_EQ(test, -FI_ENOKEY, post(w, 0, is_read));
		make_small(w, SEGMENTS, RANGES);
		w->op->iov[200].iov_base = NULL;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, post(w, 0, is_read));
	}
	rma_settle(test, w->fx);
	KUNIT_EXPECT_NULL(test, memchr_inv(w->far, 0, SIZE));
}

static void rma_03_more_work_requests_than_the_queue_has_are_refused(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 8 };
	struct world *w = open_world(test, &opts);

	make_small(w, 1, RANGES);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, post(w, 0, false));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, post(w, 0, true));
	make_small(w, 1, 8);
	transfer(test, w, 0, false);
	transfer(test, w, 0, true);
}

static void ep_04_full_queue_takes_no_part(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 48 };
	struct world *w = open_world(test, &opts);
	struct fid_ep **ep = w->fx->pair->ep;
	struct fi_cq_tagged_entry entry;
	bool loop = tr_is_loop(w->fx->pair->info);
	int posted = 0;

	/* Operations behind a message without a receive are queued. */
	if (loop) {
		KUNIT_ASSERT_EQ(test, 0, tr_send(ep[0], w->near, 1));
		posted++;
	}
	for (; fi_tx_size_left(ep[0]) > RANGES - 1; posted++)
		KUNIT_ASSERT_EQ(test, 0, fi_write(ep[0], w->near, 1, NULL, 0, w->fx->addr + SIZE - 1,
						  w->fx->key, w->op));
	memset(w->near, 0x77, SIZE);
	make_small(w, 1, RANGES);
	for (int is_read = 0; is_read < 2; is_read++)
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, post(w, 0, is_read));
	KUNIT_EXPECT_EQ(test, RANGES - 1, fi_tx_size_left(ep[0]));
	make_small(w, 1, RANGES - 1);
	KUNIT_ASSERT_EQ(test, 0, post(w, 0, true));
	KUNIT_EXPECT_EQ(test, 0, fi_tx_size_left(ep[0]));
	if (loop)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(ep[1], w->want, 1));
	for (posted++; posted; posted--)
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, w->fx->pair->cq[0], &entry, 1));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(w->fx->pair->cq[0], NULL, 0));
	KUNIT_EXPECT_NULL(test, memchr_inv(w->far, 0, SIZE - 1));
	make_small(w, 1, RANGES);
	transfer(test, w, 0, false);
}

static void ep_07_silent_long_operations_never_stall(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 48, .tx_flags = FI_SELECTIVE_COMPLETION };
	struct world *w = open_world(test, &opts);

	make_small(w, SEGMENTS / 8, RANGES);
	expect_copy(w, false, 1);
	for (int i = 0; i < 100; i++)
		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(post(w, 0, false)));
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(post(w, FI_COMPLETION, false)));
	rma_expect(test, w->fx, w->op, FI_WRITE);
	/* The read shows that the writes are placed. */
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(post(w, FI_COMPLETION, true)));
	rma_expect(test, w->fx, w->op, FI_READ);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(w->fx->pair->cq[0], NULL, 0));
	KUNIT_EXPECT_MEMEQ(test, w->want, w->far, 3 * RANGES);
}

static void cq_14_parts_reserve_completion_entries(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 128, .cq_size = 64 };
	struct world *w = open_world(test, &opts);
	int posted = 0;

	for (int round = 0; round < 20; round++) {
		make_small(w, 1, RANGES);
		while (post(w, 0, round % 2) == 0)
			posted++;
		KUNIT_ASSERT_GT(test, posted, 0);
		for (; posted; posted--)
			rma_expect(test, w->fx, w->op, round % 2 ? FI_READ : FI_WRITE);
	}
	transfer(test, w, 0, false);
}

static void cntr_03_long_operation_counts_once(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 512, .count = true };
	struct world *w = open_world(test, &opts);
	struct fid_cntr **cntr = w->fx->pair->cntr[0];

	make_small(w, SEGMENTS, RANGES);
	for (int i = 1; i <= 3; i++) {
		transfer(test, w, 0, false);
		KUNIT_EXPECT_EQ(test, i, fi_cntr_read(cntr[FX_WRITES]));
	}
	KUNIT_ASSERT_EQ(test, 0, post(w, 0, true));
	rma_expect(test, w->fx, w->op, FI_READ);
	/* Each rma_settle() has read once. */
	KUNIT_EXPECT_EQ(test, 4, fi_cntr_read(cntr[FX_READS]));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_readerr(cntr[FX_WRITES]));
}

static void rma_02_bad_key_of_one_range_fails_the_operation_once(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 512, .count = true };
	const struct kind *kind = test->param_value;
	struct world *w = open_world(test, &opts);
	struct kofi_pair *pair = w->fx->pair;
	struct fi_cq_err_entry error = {};
	bool is_read = kind->is_read;

	/* The completion of a write on iWARP says nothing about the target. */
	if (!is_read && tr_is_iwarp(pair->info))
		kunit_skip(test, "writes are not acknowledged");
	make_small(w, SEGMENTS, RANGES);
	w->op->remote[2].key ^= 0x100;
	memset(w->near, 0x11, SIZE);
	memset(w->far, is_read ? 0x11 : 0x5a, SIZE);
	KUNIT_ASSERT_EQ(test, 0, post(w, 0, is_read));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, pair->cq[0], &error));
	KUNIT_EXPECT_PTR_EQ(test, (void *)w->op, error.op_context);
	KUNIT_EXPECT_EQ(test, FI_RMA | (is_read ? FI_READ : FI_WRITE), error.flags);
	if (!tr_is_iwarp(pair->info))
		KUNIT_EXPECT_EQ(test, FI_EACCES, error.err);
	/* Everything that is posted has completed when it returns. */
	fi_shutdown(pair->ep[0], 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_read(pair->cntr[0][is_read ? FX_READS : FX_WRITES]));
	KUNIT_EXPECT_EQ(test, 1, fi_cntr_readerr(pair->cntr[0][is_read ? FX_READS : FX_WRITES]));
	if (!is_read)
		KUNIT_EXPECT_NULL(test, memchr_inv(w->far + 6, 0x5a, SIZE - 6));
}

static const struct kind *const no_more_kinds = kinds + ARRAY_SIZE(kinds);

static const void *plain_gen_params(struct kunit *test, const void *prev, char *desc)
{
	const struct kind *next = prev ? (const struct kind *)prev + 4 : kinds;

	if (next >= no_more_kinds)
		return NULL;
	strscpy(desc, next->name, KUNIT_PARAM_DESC_SIZE);
	return next;
}

static void ep_12_long_injects(struct kunit *test)
{
	struct world *w = open_world(test, NULL);
	size_t limit = w->fx->pair->info->tx_attr->inject_size;
	size_t segments = min(limit, 20);

	KUNIT_ASSERT_GT(test, segments, 3);
	make_small(w, segments, 3);
	expect_copy(w, false, 1);
	KUNIT_ASSERT_EQ(test, 0, post(w, FI_INJECT, false));
	memset(w->near, 0, SIZE);
	rma_expect(test, w->fx, w->op, FI_WRITE);
	check_copy(test, w, false, "inject");
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, post(w, FI_INJECT, true));
	w->op->iov[0].iov_len += limit + 1 - segments;
	w->op->remote[0].len += limit + 1 - segments;
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, post(w, FI_INJECT, false));
}

static void rma_01_long_write_brings_data_once(struct kunit *test)
{
	struct world *w = open_world(test, NULL);
	struct kofi_pair *pair = w->fx->pair;
	struct fi_cq_tagged_entry entry = {};

	if (!pair->info->domain_attr->cq_data_size)
		kunit_skip(test, "no remote CQ data");
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], NULL, 0, NULL, 0, w));
	make_small(w, SEGMENTS / 4, RANGES);
	w->op->msg.data = RMA_DATA;
	transfer(test, w, FI_REMOTE_CQ_DATA, false);
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[1], &entry, 1));
	KUNIT_EXPECT_EQ(test, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, entry.flags);
	KUNIT_EXPECT_EQ(test, RMA_DATA, entry.data);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[1], NULL, 0));
	w->op->msg.data = 1ULL << 32;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, post(w, FI_REMOTE_CQ_DATA, false));
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(rma_03_random_segments_and_ranges, kinds_gen_params),
	KUNIT_CASE(rma_03_short_reads_cross_pages),
	KUNIT_CASE(rma_03_most_segments_and_ranges),
	KUNIT_CASE(rma_03_too_many_segments_or_ranges_are_refused),
	KUNIT_CASE(rma_03_more_work_requests_than_the_queue_has_are_refused),
	KUNIT_CASE(ep_04_full_queue_takes_no_part),
	KUNIT_CASE(ep_07_silent_long_operations_never_stall),
	KUNIT_CASE(cq_14_parts_reserve_completion_entries),
	KUNIT_CASE(cntr_03_long_operation_counts_once),
	KUNIT_CASE_PARAM(rma_02_bad_key_of_one_range_fails_the_operation_once, plain_gen_params),
	KUNIT_CASE(ep_12_long_injects),
	KUNIT_CASE(rma_01_long_write_brings_data_once),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rma_long",
	.test_cases = cases,
};

kunit_test_suite(suite);
