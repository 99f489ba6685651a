// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, EP 4, EP 7, EP 12 and CQ 16: operations without an entry release
 * their space behind unread entries, and a handler is called when there is space
 * again.
 */

#include <linux/completion.h>

#include "handler.h"
#include "rdm.h"

#define DEPTH	8
#define MANY	(8 * DEPTH)
/* At this depth several operations in a row without entries are unsignalled at the device. */
#define DEEP	16

static ssize_t inject(struct fid_ep *ep)
{
	return fi_inject(ep, NULL, 0, 0);
}

static ssize_t send_without_entry(struct fid_ep *ep)
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
	{ "FI_SELECTIVE_COMPLETION", send_without_entry, FI_SELECTIVE_COMPLETION },
};

KUNIT_ARRAY_PARAM_DESC(ways, ways, name);

/* Makes the provider retire completed operations; reads no entry. */
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

/* Sends with an entry; the context is a number. */
static int send_reported(struct kofi_pair *pair, unsigned long number)
{
	const struct fi_msg msg = { .context = (void *)number };

	return with_progress(pair, fi_sendmsg(pair->ep[0], &msg, FI_COMPLETION));
}

/* Posts a receive for each that completed, so that no send waits for the peer. */
static void repost_receives(struct kunit *test, struct kofi_pair *pair)
{
	struct fi_cq_tagged_entry entry;

	while (fi_cq_read(pair->cq[1], &entry, 1) == 1)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
}

static void ep_07_sends_without_entries_pass_unread_entries(struct kunit *test)
{
	const struct way *way = test->param_value;
	const struct fx_pair_opts opts = { .tx_size = DEPTH, .tx_flags = way->flags };
	struct kofi_pair *pair = fx_pair(test, &opts);
	unsigned long unread = 0;

	for (int i = 0; i < 2 * DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
	for (int i = 0; i < MANY; i++) {
		/* Half of the queue is left for operations without entries. */
		if (i % (MANY / (DEPTH / 2)) == 0)
			KUNIT_ASSERT_EQ(test, 0, send_reported(pair, ++unread));
		KUNIT_ASSERT_EQ_MSG(test, 0, post_with_progress(pair, way->post), "send %d", i);
		repost_receives(test, pair);
	}
	/* The entries are in the queue, in order. */
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
	/* fi_cq_read(NULL, 0) frees no space of unread entries. */
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

/* Posts until there is space; reads no entry. */
static int post_until_accepted(struct kofi_pair *pair, ssize_t (*post)(struct fid_ep *ep))
{
	return retry_while_eagain(post(pair->ep[0]));
}

static void ep_07_sends_without_entries_need_one_free_slot(struct kunit *test)
{
	const struct way *way = test->param_value;
	const struct fx_pair_opts opts = { .tx_size = DEEP, .tx_flags = way->flags };
	struct kofi_pair *pair = fx_pair(test, &opts);
	unsigned long unread = 0;

	for (int i = 0; i < 2 * DEEP; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
	for (int left = DEEP / 2; left; left--) {
		while (unread < DEEP - left) {
			KUNIT_ASSERT_EQ(test, 0, send_reported(pair, ++unread));
			repost_receives(test, pair);
		}
		for (int i = 0; i < 3 * DEEP; i++) {
			KUNIT_ASSERT_EQ_MSG(test, 0, post_until_accepted(pair, way->post),
					    "%lu entries unread, send %d", unread, i);
			repost_receives(test, pair);
		}
	}
	for (unsigned long i = 1; i <= unread; i++)
		tr_expect(test, pair->cq[0], (void *)i, FI_SEND, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
}

/* Posts an empty receive, and reads the entries of those before it. */
static void post_receive(struct kunit *test, struct fid_ep *ep, struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(({
		while (fi_cq_read(cq, &entry, 1) == 1)
			;
		tr_recv(ep, NULL, 0);
	})));
}

/* More than a small completion queue has space for. */
#define PLENTY	1000

static void cq_14_sends_without_entries_release_their_cq_slots(struct kunit *test)
{
	const struct fx_pair_opts opts = { .cq_size = 8, .tx_size = PLENTY };
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fi_cq_tagged_entry entry;
	struct fid_ep *ep, *peer;
	int space = 0, count = 0;
	ssize_t ret;

	ep = fx_ep(test, pair->domain, pair->info);
	fx_bind(test, ep, pair->eq, pair->cq[0], FI_TRANSMIT | FI_RECV);
	peer = fx_connect(test, pair->domain, ep, pair->pep, pair->eq, pair->cq[1]);
	/* Writes as many entries as the completion queue has space for. */
	do {
		post_receive(test, peer, pair->cq[1]);
		ret = tr_send(ep, NULL, 0);
		space += !ret;
	} while (!ret);
	KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
	KUNIT_ASSERT_LT_MSG(test, space, PLENTY, "the send queue was the limit");
	for (int i = 0; i < space; i++)
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[0], &entry, 1));
	/* Repeat this behind injects of the other endpoint. */
	for (int i = 0; i < DEPTH - 1; i++) {
		post_receive(test, pair->ep[1], pair->cq[1]);
		KUNIT_ASSERT_EQ(test, 0, inject(pair->ep[0]));
	}
	for (; count < space; count++) {
		post_receive(test, peer, pair->cq[1]);
		KUNIT_ASSERT_EQ_MSG(test, 0, retry_while_eagain(tr_send(ep, NULL, 0)),
				    "send %d of %d", count, space);
	}
}

/* Receives without entries continue behind one unread entry. */
static void ep_07_receives_without_entries_pass_an_unread_entry(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.rx_size = DEPTH, .rx_flags = FI_SELECTIVE_COMPLETION,
	};
	const struct fi_msg unreported = {}, reported = { .context = test };
	struct kofi_pair *pair = fx_pair(test, &opts);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(pair->ep[1], &reported, FI_COMPLETION));
	for (int i = 0; i < MANY; i++) {
		ssize_t ret;

		if (i) {
			while ((ret = fi_recvmsg(pair->ep[1], &unreported, 0)) == -FI_EAGAIN &&
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

/* An unread entry is reported when the connection ends, and is dropped with its endpoint. */
static void cm_05_unread_entries_survive_later_sends(struct kunit *test)
{
	const struct way *way = test->param_value;
	const struct fx_pair_opts opts = { .tx_size = DEPTH, .tx_flags = way->flags };
	struct kofi_pair *pair = fx_pair(test, &opts);

	for (int i = 0; i < 2 * DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, send_reported(pair, 1));
	for (int i = 0; i < DEPTH; i++) {
		KUNIT_ASSERT_EQ(test, 0, post_with_progress(pair, way->post));
		repost_receives(test, pair);
	}
	KUNIT_ASSERT_EQ(test, 0, send_reported(pair, 2));
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	tr_expect(test, pair->cq[0], (void *)1, FI_SEND, 0);
	KUNIT_EXPECT_NE(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
	fx_close(test, &pair->ep[0]->fid);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
}

#define ROUNDS	4

/* Counters of an injector and its peer. */
struct progress {
	int			sent, received;
	struct kofi_rdm		*to;		/* RDM peer */
};

/* Injects until there is no space, and again after a call of the handler, which finds no entry. */
static void inject_by_calls(struct kunit *test, struct hd_queue *queue, struct fid_ep *ep,
			    fi_addr_t to, void (*receive)(struct kunit *, void *), void *arg,
			    int *sent)
{
	char byte = 0;

	for (int round = 0; round < ROUNDS; round++) {
		ssize_t ret;

		while (!(ret = fi_inject(ep, &byte, 1, to)))
			++*sent;
		KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
		receive(test, arg);
		hd_inject_when_called(test, queue, ep, to);
		++*sent;
	}
}

KUNIT_ARRAY_PARAM(contexts, hd_hard, hd_name_context);

struct peer {
	struct fid_ep	*ep;
	struct fid_cq	*cq;
	u8		*byte;
};

/* More receives than fit at once, each posted when there is space. */
static void receive_all(struct kunit *test, void *arg)
{
	struct peer *peer = arg;

	for (int i = 0; i < 2 * DEPTH; i++) {
		struct fi_cq_tagged_entry entry;

		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(({
			while (fi_cq_read(peer->cq, &entry, 1) == 1)
				;
			tr_recv(peer->ep, peer->byte, 1);
		})));
	}
}

static void cq_16_handler_is_called_when_injects_can_be_posted(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct completion *called;
	struct fid_ep *ep[2];
	struct hd_queue *queue;
	struct peer peer;
	int sent = 0;

	if (tr_is_iwarp(fx->info))
		kunit_skip(test, "a message without a receive ends the connection");
	called = hd_completion(test);
	peer.byte = tr_buffer(test, 1);
	fx->info->tx_attr->size = DEPTH;
	queue = hd_open(test, fx, *(const bool *)test->param_value, hd_read_and_complete, called);
	hd_connect(test, fx, queue, NULL, ep);
	peer.ep = ep[1];
	peer.cq = fx->cq;
	inject_by_calls(test, queue, ep[0], FI_ADDR_UNSPEC, receive_all, &peer, &sent);
	fx_close(test, &ep[0]->fid);
	hd_close(test, queue);
	hd_check(test, queue);
}

/* closed[0] takes all the space of the queue that ep[0] shares. */
static void cq_16_handler_is_called_when_a_close_releases_cq_slots(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct fid_ep *closed[2], *ep[2];
	struct completion *called;
	struct hd_queue *queue;
	char byte = 0;
	ssize_t ret;

	if (tr_is_iwarp(fx->info))
		kunit_skip(test, "a message without a receive ends the connection");
	called = hd_completion(test);
	fx->info->tx_attr->size = 2 * PLENTY;
	queue = hd_open(test, fx, *(const bool *)test->param_value, hd_read_and_complete, called);
	hd_connect(test, fx, queue, NULL, closed);
	hd_connect(test, fx, queue, NULL, ep);
	do {
		ret = tr_send(closed[0], NULL, 0);
	} while (!ret);
	KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
	KUNIT_ASSERT_GT_MSG(test, fi_tx_size_left(closed[0]), 0, "the send queue was the limit");
	KUNIT_ASSERT_EQ(test, -FI_EAGAIN, fi_inject(ep[0], &byte, 1, 0));
	fx_close(test, &closed[0]->fid);
	hd_inject_when_called(test, queue, ep[0], FI_ADDR_UNSPEC);
	fx_close(test, &ep[0]->fid);
	hd_close(test, queue);
	hd_check(test, queue);
}

/* A handler whose first call is refused a post before it reads. */
struct refused {
	struct fid_ep		*ep;
	struct completion	is_refused, may_read;
	ssize_t			ret;		/* of the first post */
};

static void post_and_read(struct hd_queue *queue)
{
	struct refused *refused = queue->data;
	struct fi_cq_tagged_entry entry;
	char byte = 0;

	if (refused->ep) {
		refused->ret = fi_inject(refused->ep, &byte, 1, FI_ADDR_UNSPEC);
		refused->ep = NULL;
		complete(&refused->is_refused);
		wait_for_completion_timeout(&refused->may_read, msecs_to_jiffies(FX_WAIT_MS));
	}
	while (fi_cq_read(queue->cq, &entry, 1) == 1)
		;
}

/*
 * The handler is not armed while it runs. If a post of its own is refused, and there is
 * space before it reads, it has to be called once more.
 */
static void cq_16_handler_that_was_refused_before_it_read_is_called_again(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct refused *refused = (void *)tr_buffer(test, sizeof(*refused));
	struct fid_ep *closed[2], *ep[2];
	struct hd_queue *queue;
	ssize_t ret;

	if (tr_is_iwarp(fx->info))
		kunit_skip(test, "a message without a receive ends the connection");
	init_completion(&refused->is_refused);
	init_completion(&refused->may_read);
	fx->info->tx_attr->size = 2 * PLENTY;
	queue = hd_open(test, fx, false, post_and_read, refused);
	hd_connect(test, fx, queue, NULL, closed);
	hd_connect(test, fx, queue, NULL, ep);
	refused->ep = ep[0];
	hd_post_receives(test, ep[0], 1);
	do {
		ret = tr_send(closed[0], NULL, 0);
	} while (!ret);
	KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
	hd_post_sends(test, ep[1], 1);
	KUNIT_ASSERT_NE_MSG(test, 0, wait_for_completion_timeout(&refused->is_refused,
								 msecs_to_jiffies(FX_WAIT_MS)),
			    "waited for the handler's first call");
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, refused->ret);
	fx_close(test, &closed[0]->fid);
	complete(&refused->may_read);
	KUNIT_EXPECT_TRUE(test, hd_wait_calls(test, queue, 2));
	fx_close(test, &ep[0]->fid);
	hd_close(test, queue);
	hd_check(test, queue);
}

static void receive_rdm(struct kunit *test, void *arg)
{
	struct progress *progress = arg;
	struct fi_cq_tagged_entry entry;
	static char byte;

	for (; progress->received < progress->sent; progress->received++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(progress->to, FI_ADDR_UNSPEC, &byte, 1, NULL));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, progress->to->cq, &entry, 1));
	}
}

static void cq_16_handler_is_called_when_rdm_injects_can_be_posted(struct kunit *test)
{
	struct kofi_rdm *from = rdm_make(test, NULL), *to = rdm_open(test, NULL);
	struct kofi_fabric_fx fx = { .domain = from->domain };
	struct progress progress = { .to = to };
	struct completion *called;
	struct hd_queue *queue;
	fi_addr_t addr;

	called = hd_completion(test);
	queue = hd_open(test, &fx, *(const bool *)test->param_value, hd_read_and_complete, called);
	/* The endpoint is closed before its queue. */
	fx_close(test, &from->ep->fid);
	from->ep = fx_ep(test, from->domain, from->info);
	from->cq = queue->cq;
	rdm_start(test, from, 0);
	addr = rdm_addr(test, from, to);
	inject_by_calls(test, queue, from->ep, addr, receive_rdm, &progress, &progress.sent);
	fx_close(test, &from->ep->fid);
	hd_close(test, queue);
	hd_check(test, queue);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(ep_07_sends_without_entries_pass_unread_entries, ways_gen_params),
	KUNIT_CASE_PARAM(ep_07_sends_without_entries_need_one_free_slot, ways_gen_params),
	KUNIT_CASE_PARAM(ep_04_unread_entries_fill_the_queue, ways_gen_params),
	KUNIT_CASE(cq_14_sends_without_entries_release_their_cq_slots),
	KUNIT_CASE(ep_07_receives_without_entries_pass_an_unread_entry),
	KUNIT_CASE_PARAM(cm_05_unread_entries_survive_later_sends, ways_gen_params),
	KUNIT_CASE_PARAM(cq_16_handler_is_called_when_injects_can_be_posted,
			 contexts_gen_params),
	KUNIT_CASE_PARAM(cq_16_handler_is_called_when_a_close_releases_cq_slots,
			 contexts_gen_params),
	KUNIT_CASE(cq_16_handler_that_was_refused_before_it_read_is_called_again),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_inject_space",
	.test_cases = cases,
};

static struct kunit_case datagram_cases[] = {
	KUNIT_CASE_PARAM(cq_16_handler_is_called_when_rdm_injects_can_be_posted,
			 contexts_gen_params),
	{}
};

static struct kunit_suite datagram_suite = {
	.name = "kofi_rdm_inject_space",
	.test_cases = datagram_cases,
};

kunit_test_suites(&suite, &datagram_suite);
