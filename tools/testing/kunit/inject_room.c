// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, EP 4, EP 7 and EP 12: operations that write no entry give their room
 * back behind entries that nobody has read.
 */

#include "traffic.h"

#define DEPTH	8
#define MANY	(8 * DEPTH)

static ssize_t inject(struct fid_ep *ep)
{
	return fi_inject(ep, NULL, 0, 0);
}

static ssize_t send_silently(struct fid_ep *ep)
{
	const struct fi_msg msg = {};

	return fi_sendmsg(ep, &msg, 0);
}

static const struct way {
	const char	*name;
	ssize_t		(*post)(struct fid_ep *ep);
	u64		flags;		/* of the binding */
} ways[] = {
	{ "fi_inject", inject, 0 },
	{ "FI_SELECTIVE_COMPLETION", send_silently, FI_SELECTIVE_COMPLETION },
};

KUNIT_ARRAY_PARAM_DESC(ways, ways, name);

/* Has what has completed retired, and reads nothing. */
#define with_progress(pair, call) ({					\
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);	\
	ssize_t ret;							\
									\
	while ((ret = (call)) == -FI_EAGAIN && time_before(jiffies, end)) { \
		fi_cq_read((pair)->cq[0], NULL, 0);			\
		cond_resched();						\
	}								\
	(int)ret;							\
})

static int post_with_progress(struct kofi_pair *pair, ssize_t (*post)(struct fid_ep *ep))
{
	return with_progress(pair, post(pair->ep[0]));
}

/* Sends with an entry, whose context is a number. */
static int send_reported(struct kofi_pair *pair, unsigned long number)
{
	const struct fi_msg msg = { .context = (void *)number };

	return with_progress(pair, fi_sendmsg(pair->ep[0], &msg, FI_COMPLETION));
}

/* Enough receives that nothing waits for the peer. */
static void take_what_comes(struct kunit *test, struct kofi_pair *pair)
{
	struct fi_cq_tagged_entry entry;

	while (fi_cq_read(pair->cq[1], &entry, 1) == 1)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
}

static void ep_07_silent_sends_go_on_behind_unread_entries(struct kunit *test)
{
	const struct way *way = test->param_value;
	const struct fx_pair_opts opts = { .tx_size = DEPTH, .tx_flags = way->flags };
	struct kofi_pair *pair = fx_pair(test, &opts);
	unsigned long unread = 0;

	for (int i = 0; i < 2 * DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
	for (int i = 0; i < MANY; i++) {
		/* Half of the queue is left to the silent ones. */
		if (i % (MANY / (DEPTH / 2)) == 0)
			KUNIT_ASSERT_EQ(test, 0, send_reported(pair, ++unread));
		KUNIT_ASSERT_EQ_MSG(test, 0, post_with_progress(pair, way->post), "send %d", i);
		take_what_comes(test, pair);
	}
	/* The entries are all there, in order. */
	for (unsigned long i = 1; i <= unread; i++)
		tr_expect(test, pair->cq[0], (void *)i, FI_SEND, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
}

static void ep_04_unread_entries_fill_the_queue(struct kunit *test)
{
	const struct way *way = test->param_value;
	const struct fx_pair_opts opts = { .tx_size = DEPTH, .tx_flags = way->flags };
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fi_cq_tagged_entry entry;

	tr_needs_device(test, pair->info);
	for (int i = 0; i < 2 * DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
	for (unsigned long i = 0; i < DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, send_reported(pair, i));
	for (int i = 0; i < DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[1], &entry, 1));
	/* Looking at them changes nothing. */
	for (int i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, way->post(pair->ep[0]));
		KUNIT_EXPECT_EQ(test, 0, tr_await(pair->cq[0]));
	}
	KUNIT_EXPECT_EQ(test, 0, fi_tx_size_left(pair->ep[0]));
	for (unsigned long i = 0; i < DEPTH; i++) {
		tr_expect(test, pair->cq[0], (void *)i, FI_SEND, 0);
		KUNIT_EXPECT_EQ(test, 0, way->post(pair->ep[0]));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[1], &entry, 1));
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
}

/* Receives go on, too: one of them has an entry, which nobody reads. */
static void ep_07_silent_receives_go_on_behind_an_unread_entry(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.rx_size = DEPTH, .rx_flags = FI_SELECTIVE_COMPLETION,
	};
	const struct fi_msg silent = {}, reported = { .context = test };
	struct kofi_pair *pair = fx_pair(test, &opts);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(pair->ep[1], &reported, FI_COMPLETION));
	for (int i = 0; i < MANY; i++) {
		ssize_t ret;

		if (i) {
			while ((ret = fi_recvmsg(pair->ep[1], &silent, 0)) == -FI_EAGAIN &&
			       time_before(jiffies, end)) {
				fi_cq_read(pair->cq[1], NULL, 0);
				cond_resched();
			}
			KUNIT_ASSERT_EQ_MSG(test, 0, ret, "receive %d", i);
		}
		KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], NULL, 0));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[0], &entry, 1));
		end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	}
	tr_expect(test, pair->cq[1], test, FI_RECV, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[1], NULL, 0));
}

/* An unread entry is reported when the connection ends, and goes with its endpoint. */
static void cm_05_unread_entries_outlive_silent_sends_behind_them(struct kunit *test)
{
	const struct way *way = test->param_value;
	const struct fx_pair_opts opts = { .tx_size = DEPTH, .tx_flags = way->flags };
	struct kofi_pair *pair = fx_pair(test, &opts);

	for (int i = 0; i < 2 * DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, send_reported(pair, 1));
	for (int i = 0; i < DEPTH; i++) {
		KUNIT_ASSERT_EQ(test, 0, post_with_progress(pair, way->post));
		take_what_comes(test, pair);
	}
	KUNIT_ASSERT_EQ(test, 0, send_reported(pair, 2));
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	tr_expect(test, pair->cq[0], (void *)1, FI_SEND, 0);
	KUNIT_EXPECT_NE(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
	fx_close(test, &pair->ep[0]->fid);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(ep_07_silent_sends_go_on_behind_unread_entries, ways_gen_params),
	KUNIT_CASE_PARAM(ep_04_unread_entries_fill_the_queue, ways_gen_params),
	KUNIT_CASE(ep_07_silent_receives_go_on_behind_an_unread_entry),
	KUNIT_CASE_PARAM(cm_05_unread_entries_outlive_silent_sends_behind_them, ways_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_inject_room",
	.test_cases = cases,
};

kunit_test_suite(suite);
