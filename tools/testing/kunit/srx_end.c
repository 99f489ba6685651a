// SPDX-License-Identifier: GPL-2.0
/*
 * Tests CM 6 and 7 and CLOSE 3 of CONTRACT: shared receives when connections,
 * endpoints, the context or the device are closed or removed.
 */

#include <linux/delay.h>

#include "srx.h"

#define LEN SX_LEN
#define SIZE 16

/* The end of a connection flushes no shared receives. */
static void cm_06_shared_receives_outlive_a_connection(struct kunit *test)
{
	static const struct sx_opts opts = { .peers = 2 };
	u8 *buf = tr_buffer(test, 4 * LEN), *sent = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, &opts);

	sx_post(test, world, buf, 4);
	sx_send(test, world, 0, sent, LEN);
	/* The peer closes, then an endpoint shuts down; an earlier completion is still reported. */
	fx_close(test, &world->peer[0]->fid);
	tr_expect_shutdown(test, world->eq, world->ep[0]);
	tr_expect(test, world->cq[0], buf, FI_RECV, LEN);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(world->cq[0], NULL, 0));
	sx_send(test, world, 1, sent, LEN);
	tr_expect(test, world->cq[1], buf + LEN, FI_RECV, LEN);
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(world->ep[1], 0));
	tr_expect_shutdowns(test, world->eq, world->ep[1], world->peer[1]);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(world->cq[1], NULL, 0));
	sx_connect(test, world, 2);
	for (int i = 2; i < 4; i++) {
		sx_send(test, world, 2, sent, LEN);
		tr_expect(test, world->cq[2], buf + i * LEN, FI_RECV, LEN);
	}
}

/*
 * An endpoint whose receives are shut down takes none from its shared context;
 * over a device it takes them until the connection ends.
 */
static void cm_05_shared_receives_outlive_a_read_shutdown(struct kunit *test)
{
	static const struct sx_opts opts = { .peers = 2 };
	u8 *buf = tr_buffer(test, 2 * LEN), *sent = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, &opts);

	/* A message waits for a receive already. */
	if (tr_is_loop(world->info))
		KUNIT_ASSERT_EQ(test, 0, tr_send(world->peer[0], sent, LEN));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(world->ep[0], FI_READ));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(world->ep[0], FI_READ));
	sx_post(test, world, buf, 2);
	if (tr_is_loop(world->info)) {
		KUNIT_ASSERT_EQ(test, 0, tr_send(world->peer[0], sent, LEN));
	} else {
		sx_send(test, world, 0, sent, LEN);
		tr_expect(test, world->cq[0], buf, FI_RECV, LEN);
		sx_post(test, world, buf, 1);
	}
	for (int i = 0; i < 2; i++) {
		struct fi_cq_tagged_entry entry;

		sx_send(test, world, 1, sent, LEN);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->cq[1], &entry, 1));
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(world->cq[0], NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(world->ep[0], FI_WRITE));
	tr_expect_shutdowns(test, world->eq, world->ep[0], world->peer[0]);
	KUNIT_EXPECT_EQ(test, tr_is_loop(world->info) ? 2 : 0,
			tr_read_flushed(test, world->peer_cq[0]));
}

/* An unread completion of a closed endpoint can be read, or its receive is posted again. */
static void cm_07_closing_an_endpoint_leaves_shared_receives_posted(struct kunit *test)
{
	static const struct sx_opts opts = { .size = 4, .peers = 2 };
	u8 *buf = tr_buffer(test, 4 * LEN), *sent = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, &opts);
	void *rest[4];
	u32 seen = 0;
	int left;

	sx_post(test, world, buf, 4);
	for (int i = 0; i < 3; i++)
		sx_send(test, world, 0, sent, LEN);
	/* The first completion has been polled from the device, the others have not. */
	KUNIT_EXPECT_EQ(test, 0, tr_await(world->cq[0]));
	fx_close(test, &world->ep[0]->fid);
	left = sx_read_rest(test, world, 0, rest, 4);
	KUNIT_EXPECT_EQ(test, tr_is_loop(world->info) ? 3 : 0, left);
	for (int i = 0; i < left; i++)
		KUNIT_EXPECT_PTR_EQ(test, (void *)(buf + i * LEN), rest[i]);
	KUNIT_EXPECT_EQ(test, left, fi_rx_size_left(world->srx));
	seen = BIT(left) - 1;
	for (int i = left; i < 4; i++) {
		struct fi_cq_tagged_entry entry;

		tr_fill(sent, LEN, i);
		sx_send(test, world, 1, sent, LEN);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->cq[1],
						      &entry, 1));
		KUNIT_EXPECT_TRUE(test, tr_intact(entry.op_context, LEN, i));
		seen |= BIT(((u8 *)entry.op_context - buf) / LEN);
	}
	KUNIT_EXPECT_EQ(test, BIT(4) - 1, seen);
	KUNIT_EXPECT_EQ(test, 4, fi_rx_size_left(world->srx));
}

/* A receive without an entry is complete when its message is there, also if the endpoint closes. */
static void cm_07_unsignalled_shared_receives_complete_before_a_close(struct kunit *test)
{
	static const struct sx_opts opts = {
		.rx_flags = FI_SELECTIVE_COMPLETION,
		.size = 4,
		.peers = 2,
		.count = true,
	};
	struct sx_world *world = sx_open(test, &opts);
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	char mark[4];
	void *rest;
	int left;

	/* The first receive has an entry, and the others complete behind it. */
	for (int i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, sx_recvmsg(world->srx,
						    i ? 0 : FI_COMPLETION,
						    mark + i));
	for (int i = 0; i < 3; i++)
		sx_send(test, world, 0, NULL, 0);
	while (fi_cntr_read(world->cntr) < 3 && time_before(jiffies, deadline))
		fsleep(1000);
	KUNIT_EXPECT_EQ(test, 3, fi_cntr_read(world->cntr));
	fx_close(test, &world->ep[0]->fid);
	left = sx_read_rest(test, world, 0, &rest, 1);
	KUNIT_EXPECT_EQ(test, 2 + left, fi_rx_size_left(world->srx));
	/* The last receive, and the first one if it is posted again. */
	for (int i = left; i < 2; i++)
		sx_send(test, world, 1, NULL, 0);
	if (left)
		KUNIT_EXPECT_PTR_EQ(test, (void *)mark, rest);
	else
		tr_expect(test, world->cq[1], mark, FI_RECV, 0);
	KUNIT_EXPECT_EQ(test, 4, fi_rx_size_left(world->srx));
	KUNIT_EXPECT_EQ(test, 5 - left, fi_cntr_read(world->cntr));
}

/*
 * A peer closes in the middle of a message: no receive is lost, including the
 * one that the queue pair has taken.
 */
static void srx_a_peer_closes_during_a_message(struct kunit *test)
{
	enum { LONG = SZ_1M, MANY = 4 };
	static const struct sx_opts opts = { .size = MANY, .peers = 1 };
	u8 *buf = tr_vbuffer(test, MANY * LONG), *sent = tr_vbuffer(test, LONG);
	struct sx_world *world = sx_open(test, &opts);

	for (int round = 0; round < tr_rounds; round++) {
		void *rest[MANY];
		u32 seen = 0;
		int left;

		for (int i = 0; i < MANY; i++)
			KUNIT_ASSERT_EQ(test, 0, tr_recv(world->srx,
							 buf + i * LONG, LONG));
		sx_connect(test, world, 1);
		KUNIT_ASSERT_EQ(test, 0, tr_send(world->peer[1], sent, LONG));
		fsleep(round * 150);
		fx_close(test, &world->peer[1]->fid);
		fx_close(test, &world->ep[1]->fid);
		left = sx_read_rest(test, world, 1, rest, MANY);
		for (int i = 0; i < left; i++)
			seen |= BIT(((u8 *)rest[i] - buf) / LONG);
		for (int i = left; i < MANY; i++) {
			struct fi_cq_tagged_entry entry;

			KUNIT_ASSERT_EQ(test, 0,
					tr_send(world->peer[0], sent, LEN));
			KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->cq[0],
							      &entry, 1));
			KUNIT_EXPECT_EQ(test, LEN, entry.len);
			tr_expect(test, world->peer_cq[0], sent, FI_SEND, 0);
			seen |= BIT(((u8 *)entry.op_context - buf) / LONG);
		}
		KUNIT_EXPECT_EQ(test, BIT(MANY) - 1, seen);
	}
}

static void close_03_a_shared_receive_context_is_busy(struct kunit *test)
{
	static const struct sx_opts opts = { .peers = 1 };
	u8 *buf = tr_buffer(test, SIZE * LEN);
	struct fi_cq_attr cq_attr = {};
	struct sx_world *world = sx_open(test, &opts);
	struct fid_cq *cq = fx_cq(test, world->domain, &cq_attr);
	struct fid_ep *ep = sx_ep(test, world, world->info, cq);
	struct fid *srx = &world->srx->fid;

	sx_post(test, world, buf, SIZE);
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(srx));
	fx_close(test, &world->ep[0]->fid);
	/* A bound endpoint that is not enabled keeps the context busy as well. */
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, srx, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(srx));
	fx_close(test, &ep->fid);
	/* The domain is busy while the context is open. */
	fx_cancel_close(test, srx);
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&world->domain->fid));
	/* Posted receives are dropped without an entry. */
	KUNIT_EXPECT_EQ(test, 0, fi_close(srx));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(world->cq[0], NULL, 0));
}

/* A peer's messages and the thread that receives and reposts, on any CPU. */
struct share_thread {
	struct sx_world	*world;
	unsigned int	peer;
	int		count;
	atomic_t	received;	/* and posted again */
};

static int receive_and_post(struct tr_thread *thread)
{
	struct share_thread *share = thread->arg;
	struct sx_world *world = share->world;
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (atomic_read(&share->received) < share->count &&
	       time_before(jiffies, deadline)) {
		struct fi_cq_tagged_entry entries[4];
		ssize_t got = fi_cq_read(world->cq[share->peer], entries, 4);

		if (got < 0 && got != -FI_EAGAIN)
			return got;
		for (ssize_t i = 0; i < got; i++) {
			int ret = tr_recv(world->srx, entries[i].op_context,
					  LEN);

			if (ret)
				return ret;
			atomic_inc(&share->received);
		}
		if (got < 0)
			usleep_range(20, 50);
	}
	return atomic_read(&share->received) == share->count ? 0 : -FI_ETIMEDOUT;
}

static int send_all(struct tr_thread *thread)
{
	struct share_thread *share = thread->arg;
	struct sx_world *world = share->world;
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	int posted = 0, done = 0;

	/* No more messages than the peer's share of receives are sent: iWARP requires it. */
	while (done < share->count && time_before(jiffies, deadline)) {
		int pending = posted - atomic_read(&share->received);
		struct fi_cq_tagged_entry entry;

		if (posted < share->count && pending < SIZE / 4 &&
		    !fi_send(world->peer[share->peer], NULL, 0, NULL, 0, NULL))
			posted++;
		if (fi_cq_read(world->peer_cq[share->peer], &entry, 1) == 1)
			done++;
		else
			usleep_range(20, 50);
	}
	return done < share->count ? -FI_ETIMEDOUT : 0;
}

/* Starts a sender and a receiver for each peer; join_all() waits for them. */
static void start_all(struct kunit *test, struct sx_world *world, int count,
		      struct tr_thread **threads)
{
	const unsigned int peers = world->opts.peers;
	struct share_thread *share = kunit_kcalloc(test, peers, sizeof(*share),
						   GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, share);
	for (int i = 0; i < peers; i++) {
		share[i] = (struct share_thread) {
			.world = world,
			.peer = i,
			.count = count,
		};
		threads[2 * i] = tr_start(test, -1, receive_and_post, share + i);
		threads[2 * i + 1] = tr_start(test, -1, send_all, share + i);
	}
}

static void join_all(struct kunit *test, struct sx_world *world,
		     struct tr_thread **threads)
{
	for (int i = 0; i < 2 * world->opts.peers; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join(test, threads[i]));
		KUNIT_EXPECT_EQ(test, 0, threads[i]->result);
	}
}

static void srx_posted_and_read_by_several_threads(struct kunit *test)
{
	static const struct sx_opts opts = { .size = SIZE, .peers = SX_PEERS };
	struct tr_thread *threads[2 * SX_PEERS];
	u8 *buf = tr_buffer(test, SIZE * LEN);
	struct sx_world *world = sx_open(test, &opts);

	sx_post(test, world, buf, SIZE);
	start_all(test, world, min(20 * tr_rounds, 80U), threads);
	join_all(test, world, threads);
	KUNIT_EXPECT_EQ(test, 0, fi_rx_size_left(world->srx));
}

/* Other peers receive and repost meanwhile. At the end each receive is posted exactly once. */
static void srx_endpoints_open_and_close_while_others_receive(struct kunit *test)
{
	static const struct sx_opts opts = { .size = SIZE, .peers = 2 };
	u8 *buf = tr_buffer(test, SIZE * LEN), *sent = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, &opts);
	const int rounds = min(tr_rounds, 20U);
	struct tr_thread *threads[4];
	u32 seen = 0;

	sx_post(test, world, buf, SIZE);
	start_all(test, world, 20 * rounds, threads);
	for (int round = 0; round < rounds; round++) {
		void *rest[3];
		int left;

		sx_connect(test, world, 2);
		for (int i = 0; i < 3; i++)
			KUNIT_ASSERT_EQ(test, 0,
					tr_send(world->peer[2], sent, LEN));
		fsleep(round * 50);
		fx_close(test, round & 1 ? &world->ep[2]->fid :
					  &world->peer[2]->fid);
		fx_close(test, round & 1 ? &world->peer[2]->fid :
					  &world->ep[2]->fid);
		left = sx_read_rest(test, world, 2, rest, 3);
		for (int i = 0; i < left; i++)
			KUNIT_ASSERT_EQ(test, 0, tr_recv(world->srx, rest[i],
							 LEN));
	}
	join_all(test, world, threads);
	KUNIT_EXPECT_EQ(test, 0, fi_rx_size_left(world->srx));

	for (int i = 0; i < SIZE; i++) {
		struct fi_cq_tagged_entry entry;

		sx_send(test, world, i & 1, sent, LEN);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->cq[i & 1],
						      &entry, 1));
		seen |= BIT(((u8 *)entry.op_context - buf) / LEN);
	}
	KUNIT_EXPECT_EQ(test, BIT(SIZE) - 1, seen);
}

/* After the removal all objects can be closed, the context included. */
static void removal_of_the_device_under_shared_receives(struct kunit *test)
{
	static const struct sx_opts opts = { .size = 4, .peers = 1 };
	struct fi_cq_tagged_entry entry;
	struct fi_eq_err_entry error = {};
	struct fx_cm_event event = {};
	unsigned long deadline;
	struct sx_world *world;
	int pending = 0;
	ssize_t ret;

	if (!tr_outage)
		kunit_skip(test, "see scenarios/devdel.sh");
	world = sx_open(test, &opts);
	for (int i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, sx_recvmsg(world->srx, 0, world));
	pr_info("kofi_kunit: traffic flows\n");
	deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	do {
		if (fi_cq_read(world->cq[0], &entry, 1) == 1) {
			KUNIT_ASSERT_EQ(test, 0,
					sx_recvmsg(world->srx, 0, world));
			pending--;
		}
		ret = fi_cq_read(world->peer_cq[0], &entry, 1);
		if (ret == -FI_EAVAIL)
			break;
		ret = pending < 4 ? fi_send(world->peer[0], NULL, 0, NULL, 0,
					    NULL) : -FI_EAGAIN;
		pending += !ret;
		usleep_range(100, 1000);
	} while ((!ret || ret == -FI_EAGAIN) && time_before(jiffies, deadline));
	KUNIT_EXPECT_TRUE_MSG(test, ret == -FI_EAVAIL || ret == -FI_ENOTCONN,
			      "%zd", ret);
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_GT(test, fx_wait_event(test, world->eq, FI_SHUTDOWN,
						    &event, sizeof(event)), 0);
	fx_close(test, &world->ep[0]->fid);
	fx_close(test, &world->peer[0]->fid);
	fx_close(test, &world->srx->fid);
	fx_close(test, &world->cq[0]->fid);
	fx_close(test, &world->peer_cq[0]->fid);
	fx_close(test, &world->domain->fid);
	/* The listener belongs to the fabric, and reports FI_ENODEV after the domain is closed. */
	KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, world->eq, &error));
	KUNIT_EXPECT_PTR_EQ(test, &world->pep->fid, error.fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cm_06_shared_receives_outlive_a_connection),
	KUNIT_CASE(cm_05_shared_receives_outlive_a_read_shutdown),
	KUNIT_CASE(cm_07_closing_an_endpoint_leaves_shared_receives_posted),
	KUNIT_CASE(cm_07_unsignalled_shared_receives_complete_before_a_close),
	KUNIT_CASE(srx_a_peer_closes_during_a_message),
	KUNIT_CASE(srx_posted_and_read_by_several_threads),
	KUNIT_CASE(srx_endpoints_open_and_close_while_others_receive),
	KUNIT_CASE(close_03_a_shared_receive_context_is_busy),
	{}
};

static struct kunit_case removal_cases[] = {
	KUNIT_CASE_SLOW(removal_of_the_device_under_shared_receives),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_srx_end",
	.test_cases = cases,
};

/* A suite of its own, since the scenario removes the device. */
static struct kunit_suite removal_suite = {
	.name = "kofi_removal_srx",
	.test_cases = removal_cases,
};

kunit_test_suites(&suite, &removal_suite);
