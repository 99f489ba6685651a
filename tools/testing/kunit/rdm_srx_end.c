// SPDX-License-Identifier: GPL-2.0
/*
 * Tests CLOSE of CONTRACT for datagram endpoints with a shared receive context:
 * its receives when endpoints, senders and the context close.
 */

#include <linux/delay.h>
#include <rdma/fi_ext.h>

#include "rdm_raw.h"
#include "rdm_srx.h"

#define LONGEST	SZ_256K
#define PATTERN	0xa5

static const size_t lens[] = { 0, 100, 16384, 50000, LONGEST };

struct ends {
	struct rs_world	*world;
	u8		*out, *in;
};

static struct ends *ends(struct kunit *test, const struct rs_opts *opts)
{
	struct ends *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, e);
	e->out = tr_buffer(test, LONGEST);
	e->in = tr_vbuffer(test, opts->size * LONGEST);
	tr_fill(e->out, LONGEST, 5);
	e->world = rs_open(test, opts);
	return e;
}

/* Reads the completions of a member; returns their number. */
static int read_all(struct kunit *test, struct rs_world *world, int i)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;
	int count = 0;

	while (fi_cq_read(world->member[i].cq, &entry, 1) == 1) {
		KUNIT_EXPECT_TRUE(test, tr_intact(entry.op_context, entry.len, 5));
		count++;
	}
	/* The close adds no entries. */
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_readerr(world->member[i].cq, &error, 0));
	return count;
}

/* Reads all entries of a queue; returns their number, and adds errors to failed if given. */
static int read_cq(struct fid_cq *cq, int *failed)
{
	struct fi_cq_tagged_entry entry;
	int count = 0, errors = 0, ret;

	while ((ret = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN) {
		struct fi_cq_err_entry error = {};

		if (ret == 1)
			count++;
		else
			errors += fi_cq_readerr(cq, &error, 0) == 1;
	}
	if (failed)
		*failed += errors;
	return count + errors;
}

/* Sends a message to that member, and waits until it has been received. */
static void expect_message(struct kunit *test, struct ends *e, int to, size_t len)
{
	struct rs_world *world = e->world;
	struct fi_cq_tagged_entry entry;

	rs_send(test, world, 0, to, e->out, len);
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->member[to].cq, &entry, 1));
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_TRUE(test, tr_intact(entry.op_context, len, 5));
	rdm_expect(test, world->sender[0], e->out, NULL);
}

static void close_01_a_closed_context_releases_its_receives(struct kunit *test)
{
	static const struct rs_opts opts = { .size = 2 };
	struct ends *e = ends(test, &opts);
	struct rs_world *world = e->world;
	struct fid_ep *bound = rs_ep(test, world, 0);

	rs_post(test, world, e->in, LONGEST, 2);
	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&world->srx->fid));
		fx_close(test, &world->member[i].ep->fid);
	}
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(bound, &world->srx->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&world->srx->fid));
	fx_close(test, &bound->fid);
	KUNIT_EXPECT_EQ(test, 0, fi_rx_size_left(world->srx));
	fx_close(test, &world->srx->fid);
}

/* The receives stay available to the other members, whichever one closes during a transfer. */
static void close_03_members_close_in_any_order(struct kunit *test)
{
	static const int orders[][3] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
	};
	static const struct rs_opts opts = { .members = 3, .size = 16 };

	for (int i = 0; i < ARRAY_SIZE(orders); i++) {
		struct ends *e = ends(test, &opts);
		struct rs_world *world = e->world;
		int received = 0;

		rs_post(test, world, e->in, LONGEST, 10);
		for (int to = 0; to < 3; to++)
			expect_message(test, e, to, 100);
		for (int k = 0; k < 3; k++) {
			int which = orders[i][k];

			/* Messages of different lengths take different ways. */
			for (int n = 0; n < 2; n++)
				rs_send(test, world, 0, which, e->out, lens[(i + k + n) % 5]);
			if (i & 1)
				usleep_range(100, 2000);
			fx_close(test, &world->member[which].ep->fid);
			received += read_all(test, world, which);
			/* A receive without a completion is posted again. */
			KUNIT_EXPECT_EQ(test, 7, received + rs_depth(world));
			if (k < 2) {
				struct fi_cq_tagged_entry entry;
				int next = orders[i][k + 1];

				rs_send(test, world, 0, next, e->out, 100);
				KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test,
								      world->member[next].cq,
								      &entry, 1));
				received++;
			}
		}
		fx_close(test, &world->srx->fid);
	}
}

/* A message arrives while its member closes, for any length. */
static void close_01_a_member_closes_while_a_message_arrives(struct kunit *test)
{
	static const struct rs_opts opts = { .size = 1 };
	struct ends *e = ends(test, &opts);
	struct rs_world *world = e->world;

	for (int i = 0; i < 4 * ARRAY_SIZE(lens); i++) {
		size_t len = lens[i / 4];
		int received;

		memset(e->in, 0, LONGEST);
		rs_post(test, world, e->in, LONGEST, 1);
		rs_send(test, world, 0, 0, e->out, len);
		if (i & 1)
			usleep_range(100, 500 * (i % 4));
		fx_close(test, &world->member[0].ep->fid);
		received = read_all(test, world, 0);
		KUNIT_EXPECT_EQ(test, 1, received + rs_depth(world));
		if (!received) {
			/* The buffer is not written until another member's message takes it. */
			memset(e->in, PATTERN, LONGEST);
			usleep_range(1000, 2000);
			KUNIT_EXPECT_PTR_EQ(test, NULL, memchr_inv(e->in, PATTERN, LONGEST));
			rs_send(test, world, 0, 1, e->out, len);
			rdm_expect(test, &world->member[1], e->in, NULL);
			KUNIT_EXPECT_TRUE(test, tr_intact(e->in, len, 5));
		}
		rs_open_ep(test, world, 0);
		/* Each round uses a new sender: failed sends are not read. */
		fx_close(test, &world->sender[0]->ep->fid);
		world->sender[0] = rdm_open(test, NULL);
		for (int to = 0; to < 2; to++)
			world->to[0][to] = rdm_addr(test, world->sender[0], &world->member[to]);
	}
}

/* Sends the first half of a message to a member, and waits until it was received. */
static struct raw *send_first_half(struct kunit *test, struct ends *e, struct kofi_rdm *member)
{
	struct raw *raw = raw_open_connected(test, &member->name, 0);
	u8 *packet = raw_await_free(test, raw);
	struct raw_header *header = raw_init_packet(raw, packet, RAW_PKT_SEG);

	header->op = RAW_MSG;
	header->len = 2 * RAW_EAGER;
	header->id = 7;
	header->extra = RAW_SEG_FIRST;
	header->segment_len = RAW_EAGER;
	memcpy(packet + RAW_HEADER, e->out, RAW_EAGER);
	memset(e->in, 0, LONGEST);
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, RAW_PKT_MAX));
	raw_await(test, raw, !memcmp(e->in, e->out, RAW_EAGER), "the first half of a message");
	return raw;
}

static void close_01_the_receive_of_a_partial_message_is_posted_again(struct kunit *test)
{
	static const struct rs_opts opts = { .size = 1 };
	struct ends *e = ends(test, &opts);
	struct rs_world *world = e->world;
	struct raw *raw;

	rs_post(test, world, e->in, LONGEST, 1);
	raw = send_first_half(test, e, &world->member[0]);
	fx_close(test, &world->member[0].ep->fid);
	KUNIT_EXPECT_EQ(test, 0, read_all(test, world, 0));
	KUNIT_EXPECT_EQ(test, 1, rs_depth(world));
	expect_message(test, e, 1, 50000);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	raw_disconnect(test, raw);
}

static void rdm_04_a_partial_message_fails_its_shared_receive(struct kunit *test)
{
	static const struct rs_opts opts = { .size = 1 };
	struct ends *e = ends(test, &opts);
	struct rs_world *world = e->world;
	struct raw *raw;

	rs_post(test, world, e->in, LONGEST, 1);
	raw = send_first_half(test, e, &world->member[0]);
	raw_disconnect(test, raw);
	tr_expect_error(test, world->member[0].cq, e->in, FI_ECONNABORTED);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	rs_post(test, world, e->in, LONGEST, 1);
	expect_message(test, e, 1, 100);
}

/* Closing an endpoint drops its unexpected messages, and those without a CQ slot. */
static void close_01_waiting_messages_are_dropped_with_their_member(struct kunit *test)
{
	static const struct rs_opts opts = { .size = 12, .cq_size = 4 };
	struct ends *e = ends(test, &opts);
	struct rs_world *world = e->world;
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	rs_post(test, world, e->in, LONGEST, 12);
	for (int i = 0; i < 10; i++)
		rs_send(test, world, 0, 0, e->out, lens[i % 4]);
	while (rs_depth(world) > 8 && time_before(jiffies, end))
		usleep_range(1000, 2000);
	KUNIT_EXPECT_EQ(test, 8, rs_depth(world));
	for (int i = 0; i < 10; i++)
		rdm_expect(test, world->sender[0], e->out, NULL);
	/* Six of the eight belong to messages that have no CQ slot, until the close. */
	fx_close(test, &world->member[0].ep->fid);
	KUNIT_EXPECT_EQ(test, 8, rs_depth(world));
	for (int i = 0; i < 8; i++)
		expect_message(test, e, 1, lens[i % 5]);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	KUNIT_EXPECT_EQ(test, 4, read_all(test, world, 0));

	/* Unexpected messages are dropped as well. */
	rs_open_ep(test, world, 0);
	for (int i = 0; i < 4; i++)
		rs_send(test, world, 0, 0, e->out, lens[i]);
	for (int i = 0; i < 4; i++)
		rdm_expect(test, world->sender[0], e->out, NULL);
	msleep(20);
	fx_close(test, &world->member[0].ep->fid);
	rs_post(test, world, e->in, LONGEST, 1);
	KUNIT_EXPECT_EQ(test, 1, rs_depth(world));
	expect_message(test, e, 1, 100);
}

/* Messages of a closed sender are received, as far as they had arrived. */
static void rdm_04_messages_of_a_closed_sender_are_received(struct kunit *test)
{
	static const struct rs_opts opts = { .size = 8, .senders = 2 };
	struct ends *e = ends(test, &opts);
	struct rs_world *world = e->world;
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;
	size_t connected;

	/* The connection is established before the other messages are sent. */
	rs_post(test, world, e->in, LONGEST, 1);
	rs_send(test, world, 1, 0, e->out, 100);
	rdm_expect(test, &world->member[0], e->in, NULL);
	rs_send(test, world, 1, 0, e->out, 100);
	rs_send(test, world, 1, 0, e->out, 50000);
	for (int i = 0; i < 3; i++)
		rdm_expect(test, world->sender[1], e->out, NULL);
	rs_send(test, world, 1, 0, e->out, LONGEST);
	msleep(50);
	fx_close(test, &world->sender[1]->ep->fid);
	do {
		size_t len = sizeof(connected);

		usleep_range(1000, 2000);
		KUNIT_ASSERT_EQ(test, 0, fi_getopt(&world->member[0].ep->fid, FI_OPT_ENDPOINT,
						   FI_OPT_KOFI_CONNECTED, &connected, &len));
	} while (connected && time_before(jiffies, end));
	KUNIT_EXPECT_EQ(test, 0, connected);
	rs_post(test, world, e->in, LONGEST, 3);
	for (int i = 0; i < 2; i++) {
		rdm_expect(test, &world->member[0], e->in + i * LONGEST, &entry);
		KUNIT_EXPECT_EQ(test, i ? 50000 : 100, entry.len);
		KUNIT_EXPECT_TRUE(test, tr_intact(e->in + i * LONGEST, entry.len, 5));
	}
	/* The rendezvous message was dropped, and another message takes the receive. */
	rs_send(test, world, 0, 1, e->out, 100);
	rdm_expect(test, &world->member[1], e->in + 2 * LONGEST, NULL);
}

struct posting {
	struct ends	*e;
	atomic_t	posted;
};

/* Posts whenever there is space, until the thread is stopped. */
static int keep_posting(struct tr_thread *thread)
{
	struct posting *posting = thread->arg;
	struct rs_world *world = posting->e->world;
	int ret = 0;

	while (!kthread_should_stop()) {
		ret = fi_recv(world->srx, posting->e->in, LONGEST, NULL, FI_ADDR_UNSPEC,
			      posting->e->in);
		if (!ret)
			atomic_inc(&posting->posted);
		else if (ret != -FI_EAGAIN)
			break;
		cond_resched();
	}
	thread->result = ret == -FI_EAGAIN ? 0 : ret;
	return 0;
}

/* Members close and open while two threads post: each receive completes once or stays posted. */
static void close_01_members_close_and_open_while_two_threads_post(struct kunit *test)
{
	static const struct rs_opts opts = { .members = 3, .senders = 2, .size = 4 };
	struct posting *posting = kunit_kzalloc(test, sizeof(*posting), GFP_KERNEL);
	struct tr_thread *threads[2];
	struct rs_world *world;
	int received = 0;

	KUNIT_ASSERT_NOT_NULL(test, posting);
	posting->e = ends(test, &opts);
	world = posting->e->world;
	for (int i = 0; i < 2; i++)
		threads[i] = tr_start(test, num_online_cpus() > 1 ? i : -1, keep_posting,
				      posting);
	for (int round = 0; round < tr_rounds; round++) {
		unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
		int which = round % 2, before = received;

		/* Continues until a message has been received in this round. */
		for (int n = 0; n < 8 || (received == before && time_before(jiffies, end)); n++) {
			for (int to = 0; to < 3; to++)
				if (fi_send(world->sender[n % 2]->ep, posting->e->out,
					    lens[(n + round) % 5], NULL, world->to[n % 2][to],
					    NULL))
					break;
			for (int i = 0; i < 3; i++)
				received += read_cq(world->member[i].cq, NULL);
			usleep_range(100, 200);
		}
		fx_close(test, &world->member[which].ep->fid);
		rs_open_ep(test, world, which);
		for (int s = 0; s < 2; s++)
			read_cq(world->sender[s]->cq, NULL);
	}
	for (int i = 0; i < 2; i++) {
		tr_stop(test, threads[i]);
		KUNIT_EXPECT_EQ(test, 0, threads[i]->result);
	}
	for (int i = 0; i < 3; i++)
		fx_close(test, &world->member[i].ep->fid);
	for (int i = 0; i < 3; i++)
		received += read_cq(world->member[i].cq, NULL);
	KUNIT_EXPECT_GE(test, received, tr_rounds);
	KUNIT_EXPECT_EQ(test, atomic_read(&posting->posted), received + rs_depth(world));
}

#define SENDERS	8

/* An unanswered connection request to one member is not rejected when another one closes. */
static void close_01_connection_requests_of_other_members_are_kept(struct kunit *test)
{
	static const struct rs_opts opts = { .size = SENDERS };
	struct ends *e = ends(test, &opts);
	struct rs_world *world = e->world;
	struct kofi_rdm *senders[SENDERS];

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct fi_cq_tagged_entry entry;
		fi_addr_t to[SENDERS];

		rs_post(test, world, e->in, LONGEST, SENDERS);
		for (int i = 0; i < SENDERS; i++) {
			senders[i] = rdm_open(test, NULL);
			to[i] = rdm_addr(test, senders[i], &world->member[1]);
		}
		for (int i = 0; i < SENDERS; i++)
			KUNIT_ASSERT_EQ(test, 0,
					rdm_send(senders[i], to[i], e->out, 100, e->out));
		/* Some connections are established by then, others are not. */
		usleep_range(100 * round, 100 * round + 50);
		fx_close(test, &world->member[0].ep->fid);
		for (int i = 0; i < SENDERS; i++) {
			KUNIT_ASSERT_EQ(test, 1,
					fx_wait_comp(test, world->member[1].cq, &entry, 1));
			rdm_expect(test, senders[i], e->out, NULL);
		}
		for (int i = 0; i < SENDERS; i++)
			fx_close(test, &senders[i]->ep->fid);
		rs_open_ep(test, world, 0);
	}
}

/* Removing the device drops messages, but not the posted receives. */
static void removal_of_the_device_under_shared_datagram_receives(struct kunit *test)
{
	static const struct rs_opts opts = { .size = 8 };
	unsigned long end = jiffies + msecs_to_jiffies(4 * FX_WAIT_MS);
	int posted = 0, received = 0, failed = 0;
	bool is_gone = false, is_announced = false;
	struct rs_world *world;
	struct ends *e;

	if (!tr_outage)
		kunit_skip(test, "see scenarios/devdel.sh");
	e = ends(test, &opts);
	world = e->world;
	for (int i = 0; !is_gone || !failed; i++) {
		struct fi_info *info = NULL;

		is_gone = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, NULL, &info);
		fi_freeinfo(info);
		for (; fi_rx_size_left(world->srx); posted++)
			rs_post(test, world, e->in, LONGEST, 1);
		/* The send may fail. */
		fi_send(world->sender[0]->ep, e->out, lens[i % 5], NULL, world->to[0][i % 2], NULL);
		read_cq(world->sender[0]->cq, &failed);
		for (int to = 0; to < 2; to++)
			received += read_cq(world->member[to].cq, NULL);
		if (!is_announced && received > 10) {
			pr_info("kofi_kunit: traffic flows\n");
			is_announced = true;
		}
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for the device to be removed");
		usleep_range(100, 1000);
	}
	for (int to = 0; to < 2; to++) {
		fx_close(test, &world->member[to].ep->fid);
		received += read_cq(world->member[to].cq, NULL);
	}
	KUNIT_EXPECT_EQ(test, posted, received + rs_depth(world));
}

static struct kunit_case rdm_srx_end_cases[] = {
	KUNIT_CASE(close_01_a_closed_context_releases_its_receives),
	KUNIT_CASE_SLOW(close_03_members_close_in_any_order),
	KUNIT_CASE_SLOW(close_01_a_member_closes_while_a_message_arrives),
	KUNIT_CASE(close_01_the_receive_of_a_partial_message_is_posted_again),
	KUNIT_CASE(rdm_04_a_partial_message_fails_its_shared_receive),
	KUNIT_CASE(close_01_waiting_messages_are_dropped_with_their_member),
	KUNIT_CASE(rdm_04_messages_of_a_closed_sender_are_received),
	KUNIT_CASE_SLOW(close_01_members_close_and_open_while_two_threads_post),
	KUNIT_CASE_SLOW(close_01_connection_requests_of_other_members_are_kept),
	{}
};

static struct kunit_suite rdm_srx_end_suite = {
	.name = "kofi_rdm_srx_end",
	.test_cases = rdm_srx_end_cases,
};

static struct kunit_case rdm_srx_removal_cases[] = {
	KUNIT_CASE_SLOW(removal_of_the_device_under_shared_datagram_receives),
	{}
};

static struct kunit_suite rdm_srx_removal_suite = {
	.name = "kofi_removal_rdm_srx",
	.test_cases = rdm_srx_removal_cases,
};

kunit_test_suites(&rdm_srx_end_suite, &rdm_srx_removal_suite);
