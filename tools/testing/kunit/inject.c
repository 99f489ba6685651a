// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, EP 12: injected messages, whose buffer may be reused when the call
 * returns.
 *
 * rxe takes them inline, siw sends them from a copy.
 */

#include <linux/preempt.h>

#include "traffic.h"

#define DEPTH	8
#define BUF_SIZE	256	/* over inject_size */

static ssize_t by_inject(struct fid_ep *ep, void *buf, size_t len)
{
	return fi_inject(ep, buf, len, FI_ADDR_UNSPEC);
}

static ssize_t by_sendmsg(struct fid_ep *ep, void *buf, size_t len)
{
	const struct kvec iov = { buf, len };
	const struct fi_msg msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.context = buf,
	};

	return fi_sendmsg(ep, &msg, FI_INJECT);
}

static ssize_t by_three_pieces(struct fid_ep *ep, void *buf, size_t len)
{
	const struct kvec iov[] = {
		{ buf, len / 3 },
		{ buf + len / 3, 0 },
		{ buf + len / 3, len - len / 3 },
	};
	const struct fi_msg msg = {
		.msg_iov = iov,
		.iov_count = ARRAY_SIZE(iov),
		.context = buf,
	};

	return fi_sendmsg(ep, &msg, FI_INJECT | FI_INJECT_COMPLETE);
}

static const struct way {
	const char *name;
	ssize_t (*post)(struct fid_ep *ep, void *buf, size_t len);
	bool has_entry;		/* a success writes an entry */
} ways[] = {
	{ "fi_inject", by_inject },
	{ "fi_sendmsg", by_sendmsg, true },
	{ "fi_sendmsg of three pieces", by_three_pieces, true },
};

KUNIT_ARRAY_PARAM_DESC(ways, ways, name);

static ssize_t recv(struct fid_ep *ep, void *buf, size_t len)
{
	return fi_recv(ep, buf, len, NULL, FI_ADDR_UNSPEC, buf);
}

/* Injects from a buffer, and overwrites it as soon as the call returned. */
static ssize_t inject_and_overwrite(const struct way *way, struct fid_ep *ep,
				    u8 *buf, size_t len, u32 seed)
{
	ssize_t ret;

	tr_fill(buf, len, seed);
	ret = way->post(ep, buf, len);
	memset(buf, 0xee, len);
	return ret;
}

static void ep_12_the_buffer_may_be_reused_at_once(struct kunit *test)
{
	const struct way *way = test->param_value;
	u8 *out = tr_buffer(test, BUF_SIZE), *in = tr_buffer(test, BUF_SIZE);
	struct kofi_pair *pair = fx_pair(test, NULL);
	size_t most = pair->info->tx_attr->inject_size;
	const size_t lens[] = { 0, 1, 16, 79, 80, 81, most - 1, most };

	KUNIT_ASSERT_LT(test, most, BUF_SIZE);
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		memset(in, 0, BUF_SIZE);
		KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1], in, BUF_SIZE));
		KUNIT_ASSERT_EQ(test, 0, inject_and_overwrite(way, pair->ep[0], out,
							      lens[i], i));
		tr_expect(test, pair->cq[1], in, FI_RECV, lens[i]);
		KUNIT_EXPECT_TRUE_MSG(test, tr_intact(in, lens[i], i),
				      "%zu bytes", lens[i]);
		KUNIT_EXPECT_NULL(test, memchr_inv(in + lens[i], 0,
						   BUF_SIZE - lens[i]));
		if (way->has_entry)
			tr_expect(test, pair->cq[0], out, FI_SEND, 0);
		KUNIT_EXPECT_EQ_MSG(test, -FI_EAGAIN,
				    fi_cq_read(pair->cq[0], NULL, 0),
				    "a second entry of one success");
	}
}

/* Injects more messages from one buffer than the queue holds. */
static void ep_12_one_buffer_serves_many_injects(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = DEPTH };
	const struct way *way = test->param_value;
	const size_t len = 100;
	u8 *out = tr_buffer(test, len), *in = tr_buffer(test, 3 * DEPTH * len);
	struct kofi_pair *pair = fx_pair(test, &opts);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	for (int i = 0; i < 3 * DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1], in + i * len, len));
	for (int i = 0; i < 3 * DEPTH; i++) {
		ssize_t ret;

		do {
			struct fi_cq_tagged_entry entry;

			ret = inject_and_overwrite(way, pair->ep[0], out, len, i);
			/* An unread entry keeps its space in the queue. */
			if (way->has_entry)
				fi_cq_read(pair->cq[0], &entry, 1);
			cond_resched();
		} while (ret == -FI_EAGAIN && time_before(jiffies, end));
		KUNIT_ASSERT_EQ(test, 0, ret);
	}
	for (int i = 0; i < 3 * DEPTH; i++) {
		tr_expect(test, pair->cq[1], in + i * len, FI_RECV, len);
		KUNIT_EXPECT_TRUE_MSG(test, tr_intact(in + i * len, len, i),
				      "message %d", i);
	}
}

static void ep_12_memory_of_any_kind(struct kunit *test)
{
	static const char constant[] = "a string of the module";
	const struct way *way = test->param_value;
	u8 *in = tr_buffer(test, BUF_SIZE), *paged = tr_vbuffer(test, 2 * PAGE_SIZE);
	struct kofi_pair *pair = fx_pair(test, NULL);
	u8 *crossing = paged + PAGE_SIZE - 32;
	u8 stack[64];

	tr_fill(stack, sizeof(stack), 1);
	KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1], in, BUF_SIZE));
	KUNIT_ASSERT_EQ(test, 0, way->post(pair->ep[0], stack, sizeof(stack)));
	memset(stack, 0, sizeof(stack));
	tr_expect(test, pair->cq[1], in, FI_RECV, sizeof(stack));
	KUNIT_EXPECT_TRUE(test, tr_intact(in, sizeof(stack), 1));

	KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1], in, BUF_SIZE));
	KUNIT_ASSERT_EQ(test, 0, inject_and_overwrite(way, pair->ep[0], crossing,
						      64, 2));
	tr_expect(test, pair->cq[1], in, FI_RECV, 64);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, 64, 2));

	KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1], in, BUF_SIZE));
	KUNIT_ASSERT_EQ(test, 0, way->post(pair->ep[0], (void *)constant,
					   sizeof(constant)));
	tr_expect(test, pair->cq[1], in, FI_RECV, sizeof(constant));
	KUNIT_EXPECT_STREQ(test, (char *)in, constant);
}

static void ep_12_invalid_buffers_are_einval(struct kunit *test)
{
	const struct way *way = test->param_value;
	u8 *buf = tr_buffer(test, 2 * BUF_SIZE);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid_ep *ep = pair->ep[0];

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, way->post(ep, NULL, 8));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, way->post(ep, (void *)8, 8));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, way->post(ep, ERR_PTR(-ENOMEM), 8));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, way->post(ep, (void *)-64L, 128));
	tr_exchange(test, pair, 0, buf, buf + BUF_SIZE, BUF_SIZE);
}

static void ep_12_over_inject_size_is_emsgsize(struct kunit *test)
{
	const struct way *way = test->param_value;
	u8 *out = tr_buffer(test, BUF_SIZE), *in = tr_buffer(test, BUF_SIZE);
	struct kofi_pair *pair = fx_pair(test, NULL);
	size_t most = pair->info->tx_attr->inject_size;

	KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1], in, BUF_SIZE));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, way->post(pair->ep[0], out,
						      most + 1));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, way->post(pair->ep[0], out,
						      SIZE_MAX));
	/* The refused messages do not arrive: the next one does. */
	KUNIT_ASSERT_EQ(test, 0, inject_and_overwrite(way, pair->ep[0], out, most,
						      7));
	tr_expect(test, pair->cq[1], in, FI_RECV, most);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, most, 7));
}

static void ep_12_a_success_has_an_entry_on_request(struct kunit *test)
{
	const struct fx_pair_opts selective = {
		.tx_flags = FI_SELECTIVE_COMPLETION,
	};
	const struct fi_msg msg = { .context = test };
	struct kofi_pair *pair = fx_pair(test, &selective);

	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1], NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_inject(pair->ep[0], NULL, 0, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_sendmsg(pair->ep[0], &msg, FI_INJECT));
	KUNIT_ASSERT_EQ(test, 0, fi_sendmsg(pair->ep[0], &msg,
					    FI_INJECT | FI_COMPLETION));
	tr_expect(test, pair->cq[0], test, FI_SEND, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
}

/* fi_inject() writes no entry, even if the endpoint's flags have FI_COMPLETION. */
static void ep_12_fi_inject_ignores_fi_completion_in_op_flags(struct kunit *test)
{
	u64 flags = FI_TRANSMIT | FI_COMPLETION | FI_INJECT_COMPLETE;
	struct kofi_pair *pair = fx_pair(test, NULL);

	KUNIT_ASSERT_EQ(test, 0, fi_control(&pair->ep[0]->fid, FI_SETOPSFLAG,
					    &flags));
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1], NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_inject(pair->ep[0], NULL, 0, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], NULL, 0, NULL, 0, test));
	tr_expect(test, pair->cq[0], test, FI_SEND, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
}

#define LARGE	(1024 * 1024)
#define STALL	32

/* Reads all entries; returns the number of errors of injects, which must have no success. */
static int count_failed_injects(struct kunit *test, struct fid_cq *cq, void *large,
				void *context)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	int injects = 0;
	ssize_t ret;

	while ((ret = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN) {
		if (ret == 1) {
			KUNIT_EXPECT_PTR_EQ(test, large, entry.op_context);
			continue;
		}
		memset(&error, 0, sizeof(error));
		KUNIT_ASSERT_EQ(test, -FI_EAVAIL, ret);
		KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(cq, &error, 0));
		if (error.op_context == large)
			continue;
		KUNIT_EXPECT_PTR_EQ(test, context, error.op_context);
		KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
		KUNIT_EXPECT_EQ(test, FI_SEND | FI_MSG, error.flags);
		injects++;
	}
	return injects;
}

/*
 * Injects behind messages for which the peer has no receive: rxe retries the
 * first one, siw fills a socket and ends the connection.
 */
static void ep_12_a_failure_has_an_error_entry(struct kunit *test)
{
	const struct way *way = test->param_value;
	u8 *out = tr_buffer(test, LARGE), small[32] = {};
	struct kofi_pair *pair = fx_pair(test, NULL);
	void *context = way->post == by_inject ? NULL : small;

	preempt_disable();
	for (int i = 0; i < STALL; i++)
		KUNIT_EXPECT_EQ(test, 0, fi_send(pair->ep[0], out, LARGE, NULL,
						 0, out));
	for (int i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, 0, way->post(pair->ep[0], small,
						   sizeof(small)));
	preempt_enable();
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	KUNIT_EXPECT_EQ(test, 3, count_failed_injects(test, pair->cq[0], out,
						      context));
	KUNIT_EXPECT_NE(test, 0, way->post(pair->ep[0], small, sizeof(small)));
}

static void ep_12_inject_needs_a_connection(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 8);
	struct fid_ep *ep = fx_bound_ep(test, fx_open(test));
	struct kofi_pair *pair = fx_pair(test, NULL);

	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, by_inject(ep, buf, 8));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, by_inject(ep, buf, 8));

	fx_close(test, &pair->ep[1]->fid);
	tr_expect_shutdown(test, pair->eq, pair->ep[0]);
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, by_inject(pair->ep[0], buf, 8));
}

/* The caller owns the buffer again while the message waits for a receive. */
static void ep_12_inject_waits_for_a_later_receive(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 16), *in = tr_buffer(test, 16);
	struct kofi_pair *pair = fx_pair(test, NULL);

	if (tr_is_iwarp(pair->info))
		kunit_skip(test, "a message without a receive ends the connection");
	tr_fill(buf, 16, 1);
	KUNIT_ASSERT_EQ(test, 0, by_inject(pair->ep[0], buf, 16));
	memset(buf, 0, 16);
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], in, 16));
	tr_expect(test, pair->cq[1], in, FI_RECV, 16);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, 16, 1));
}

struct depths {
	size_t tx;
	size_t cq;
};

/* The smallest queues, and one that exceeds its completion queue. */
static const struct depths depths[] = {
	{ 1, 0 }, { 2, 0 }, { 5, 0 }, { 64, 0 }, { 0, 0 }, { 2000, 1 },
};

static void name_depths(const struct depths *depths, char *name)
{
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "tx %zu cq %zu", depths->tx,
		 depths->cq);
}

KUNIT_ARRAY_PARAM(depths, depths, name_depths);

#define THOUSANDS (100 * (int)tr_rounds)
#define AHEAD 32

static void ep_12_many_injects_need_no_reader(struct kunit *test)
{
	const struct depths *depths = test->param_value;
	const struct fx_pair_opts opts = {
		.tx_size = depths->tx,
		.cq_size = depths->cq,
	};
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	u8 *out = tr_buffer(test, 8), *in = tr_buffer(test, 8 * AHEAD);
	struct kofi_pair *pair = fx_pair(test, &opts);
	int sent = 0, received = 0;

	for (int i = 0; i < AHEAD; i++)
		KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1], in + 8 * i, 8));
	while (received < THOUSANDS && time_before(jiffies, end)) {
		struct fi_cq_tagged_entry entry;
		ssize_t ret;

		if (sent < THOUSANDS && sent < received + AHEAD) {
			*(int *)out = sent;
			ret = by_inject(pair->ep[0], out, 8);
			sent += !ret;
			if (ret && ret != -FI_EAGAIN)
				KUNIT_FAIL_AND_ABORT(test, "inject %d: %zd",
						     sent, ret);
		}
		ret = fi_cq_read(pair->cq[1], &entry, 1);
		if (ret == 1) {
			KUNIT_ASSERT_EQ(test, received,
					*(int *)entry.op_context);
			received++;
			end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
			KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1],
						      entry.op_context, 8));
		}
		cond_resched();
	}
	KUNIT_EXPECT_EQ(test, THOUSANDS, sent);
	KUNIT_EXPECT_EQ(test, THOUSANDS, received);
}

/* The endpoints complete in one queue, where injects pass unread entries. */
static void ep_12_injects_pass_unread_entries(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = DEPTH, .one_cq = true };
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	u8 *out = tr_buffer(test, 8), *in = tr_buffer(test, 8 * 64);
	struct kofi_pair *pair = fx_pair(test, &opts);

	for (int i = 0; i < 64; i++)
		KUNIT_ASSERT_EQ(test, 0, recv(pair->ep[1], in + 8 * i, 8));
	for (int i = 0; i < 64; i++) {
		ssize_t ret;

		*(int *)out = i;
		do {
			ret = by_inject(pair->ep[0], out, 8);
			cond_resched();
		} while (ret == -FI_EAGAIN && time_before(jiffies, end));
		KUNIT_ASSERT_EQ_MSG(test, 0, ret, "inject %d", i);
	}
	for (int i = 0; i < 64; i++) {
		tr_expect(test, pair->cq[0], in + 8 * i, FI_RECV, 8);
		KUNIT_EXPECT_EQ(test, i, *(int *)(in + 8 * i));
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(ep_12_the_buffer_may_be_reused_at_once, ways_gen_params),
	KUNIT_CASE_PARAM(ep_12_one_buffer_serves_many_injects, ways_gen_params),
	KUNIT_CASE_PARAM(ep_12_memory_of_any_kind, ways_gen_params),
	KUNIT_CASE_PARAM(ep_12_invalid_buffers_are_einval, ways_gen_params),
	KUNIT_CASE_PARAM(ep_12_over_inject_size_is_emsgsize, ways_gen_params),
	KUNIT_CASE(ep_12_a_success_has_an_entry_on_request),
	KUNIT_CASE(ep_12_fi_inject_ignores_fi_completion_in_op_flags),
	KUNIT_CASE_PARAM(ep_12_a_failure_has_an_error_entry, ways_gen_params),
	KUNIT_CASE(ep_12_inject_needs_a_connection),
	KUNIT_CASE(ep_12_inject_waits_for_a_later_receive),
	KUNIT_CASE_PARAM(ep_12_many_injects_need_no_reader, depths_gen_params),
	KUNIT_CASE(ep_12_injects_pass_unread_entries),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_inject",
	.test_cases = cases,
};

kunit_test_suite(suite);
