// SPDX-License-Identifier: GPL-2.0
/*
 * Two CPUs at the same objects at once, as far as the API allows it: nobody
 * uses what he has closed himself, but everything else goes on around him.
 */

#include <linux/delay.h>
#include <linux/random.h>

#include "traffic.h"

#define LEN 64
#define POSTED 8
/* Messages of each of two posters. */
#define EACH 256

/* Two threads, what they share, and the two halves of the race between them. */
struct race {
	struct kofi_fabric_fx	*fx;
	struct fid_pep		*pep;
	struct fid_ep		*ep[2];
	u8			*buf;
	int			(*half[2])(struct race *race, int side);
	atomic_t		here;
	atomic_t		posted;
	atomic_t		done;
	atomic_t		seen[2 * EACH];
	int			ret[2];
	bool			over;
};

static struct race *prepare(struct kunit *test)
{
	struct race *race = (void *)tr_buffer(test, sizeof(*race));

	race->buf = tr_buffer(test, LEN);
	race->fx = fx_open(test);
	race->pep = fx_listen(test, race->fx->fabric, race->fx->info,
			      race->fx->eq);
	return race;
}

static void connect_ends(struct kunit *test, struct race *race)
{
	race->ep[0] = fx_bound_ep(test, race->fx);
	race->ep[1] = fx_connect(test, race->fx->domain, race->ep[0], race->pep,
				 race->fx->eq, race->fx->cq);
}

static void post_both_ways(struct kunit *test, struct race *race)
{
	for (int i = 0; i < 2 * POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(race->ep[i & 1], race->buf,
						 LEN, NULL, 0, NULL));
	for (int i = 0; i < POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_send(race->ep[i & 1], race->buf,
						 LEN, NULL, 0, NULL));
}

/* Neither half starts before the other; then some microseconds of luck. */
static void meet(struct race *race)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	atomic_inc(&race->here);
	while (atomic_read(&race->here) < 2 && time_before(jiffies, deadline))
		cond_resched();
	udelay(get_random_u32_below(100));
}

static int run_half(struct tr_thread *thread, int side)
{
	struct race *race = thread->arg;

	meet(race);
	race->ret[side] = race->half[side](race, side);
	return 0;
}

static int run_one(struct tr_thread *thread)
{
	return run_half(thread, 0);
}

static int run_other(struct tr_thread *thread)
{
	return run_half(thread, 1);
}

static void run(struct kunit *test, struct race *race,
		int (*one)(struct race *race, int side),
		int (*other)(struct race *race, int side))
{
	struct tr_thread *threads[2];

	race->half[0] = one;
	race->half[1] = other;
	atomic_set(&race->here, 0);
	threads[0] = tr_start(test, 0, run_one, race);
	threads[1] = tr_start(test, num_online_cpus() - 1, run_other, race);
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_TRUE_MSG(test, tr_join(test, threads[i]),
				      "half %d hangs", i);
	for (int i = 0; i < 2; i++)
		tr_stop(test, threads[i]);
}

/* Takes everything that there is, good or bad; how much it was. */
static int drain(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entries[4];
	struct fi_cq_err_entry error = {};
	int count = 0;
	ssize_t ret;

	for (;;) {
		ret = fi_cq_read(cq, entries, ARRAY_SIZE(entries));
		if (ret == -FI_EAVAIL) {
			error.err_data_size = 0;
			ret = fi_cq_readerr(cq, &error, 0);
		}
		if (ret <= 0)
			return count;
		count += ret;
	}
}

static void drain_events(struct kunit *test, struct fid_eq *eq)
{
	struct fi_eq_err_entry error = {};
	struct fx_cm_event event;
	ssize_t ret;
	u32 what;

	do {
		ret = fi_eq_read(eq, &what, &event, sizeof(event), 0);
		if (ret == -FI_EAVAIL)
			ret = fi_eq_readerr(eq, &error, 0);
		else if (ret > 0 && what == FI_CONNREQ)
			fi_freeinfo(event.entry.info);
	} while (ret > 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, ret);
}

static int close_one(struct race *race, int side)
{
	return fi_close(&race->ep[side]->fid);
}

static int shut_one(struct race *race, int side)
{
	return fi_shutdown(race->ep[side], 0);
}

static void forget(struct kunit *test, struct race *race)
{
	for (int side = 0; side < 2; side++)
		fx_forget(test, &race->ep[side]->fid);
}

static void race_both_ends_close(struct kunit *test)
{
	struct race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		connect_ends(test, race);
		post_both_ways(test, race);
		forget(test, race);
		run(test, race, close_one, close_one);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		KUNIT_EXPECT_EQ_MSG(test, 0, drain(race->fx->cq),
				    "entries of closed endpoints");
		tr_expect_silence(test, race->fx->eq);
	}
}

static void race_both_ends_shut_down(struct kunit *test)
{
	struct race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		int count = 0;

		connect_ends(test, race);
		post_both_ways(test, race);
		run(test, race, shut_one, shut_one);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		for (int i = 0; i < 1000 && count < 3 * POSTED; i++) {
			count += drain(race->fx->cq);
			usleep_range(100, 1000);
		}
		KUNIT_EXPECT_EQ_MSG(test, 3 * POSTED, count,
				    "of what was posted");
		for (int side = 0; side < 2; side++)
			fx_close(test, &race->ep[side]->fid);
		drain_events(test, race->fx->eq);
	}
}

static void race_one_shuts_down_the_other_closes(struct kunit *test)
{
	struct race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		connect_ends(test, race);
		post_both_ways(test, race);
		fx_forget(test, &race->ep[1]->fid);
		run(test, race, shut_one, close_one);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		fx_close(test, &race->ep[0]->fid);
		drain_events(test, race->fx->eq);
		KUNIT_EXPECT_EQ(test, 0, drain(race->fx->cq));
	}
}

static int read_until_over(struct race *race, int side)
{
	while (!READ_ONCE(race->over)) {
		atomic_add(drain(race->fx->cq), &race->done);
		cond_resched();
	}
	return 0;
}

static int close_then_over(struct race *race, int side)
{
	int ret = fi_close(&race->ep[side]->fid);

	WRITE_ONCE(race->over, true);
	return ret;
}

static void race_polling_while_an_endpoint_closes(struct kunit *test)
{
	struct race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		WRITE_ONCE(race->over, false);
		connect_ends(test, race);
		post_both_ways(test, race);
		fx_forget(test, &race->ep[1]->fid);
		run(test, race, read_until_over, close_then_over);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		fx_close(test, &race->ep[0]->fid);
		drain_events(test, race->fx->eq);
		KUNIT_EXPECT_EQ(test, 0, drain(race->fx->cq));
	}
}

/*
 * Sends until it is told that there is no way any more. Each message has its
 * receive: iWARP ends a connection over one that has not.
 */
static int send_until_refused(struct race *race, int side)
{
	ssize_t ret;

	do {
		ret = fi_recv(race->ep[1], NULL, 0, NULL, 0, NULL);
		if (!ret)
			atomic_inc(&race->posted);
		if (ret != -FI_EAGAIN)
			ret = fi_send(race->ep[0], NULL, 0, NULL, 0, NULL);
		if (!ret)
			atomic_inc(&race->posted);
		else
			atomic_add(drain(race->fx->cq), &race->done);
		cond_resched();
	} while (!ret || ret == -FI_EAGAIN);
	return ret;
}

static int shut_the_sender_down(struct race *race, int side)
{
	usleep_range(50, 500);
	return fi_shutdown(race->ep[0], 0);
}

static void expect_all_done(struct kunit *test, struct race *race)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (atomic_read(&race->done) < atomic_read(&race->posted) &&
	       time_before(jiffies, deadline)) {
		atomic_add(drain(race->fx->cq), &race->done);
		usleep_range(100, 1000);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&race->posted),
			atomic_read(&race->done));
}

static void race_sending_while_it_is_shut_down(struct kunit *test)
{
	struct race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		connect_ends(test, race);
		atomic_set(&race->done, 0);
		atomic_set(&race->posted, 0);
		run(test, race, send_until_refused, shut_the_sender_down);
		KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		tr_expect_shutdown(test, race->fx->eq, race->ep[1]);
		expect_all_done(test, race);
		for (int side = 0; side < 2; side++)
			fx_close(test, &race->ep[side]->fid);
	}
}

static int shut_the_receiver_down(struct race *race, int side)
{
	usleep_range(50, 500);
	return fi_shutdown(race->ep[1], 0);
}

static void race_sending_while_the_peer_leaves(struct kunit *test)
{
	struct race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		connect_ends(test, race);
		atomic_set(&race->done, 0);
		atomic_set(&race->posted, 0);
		run(test, race, send_until_refused, shut_the_receiver_down);
		KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		tr_expect_shutdown(test, race->fx->eq, race->ep[0]);
		expect_all_done(test, race);
		for (int side = 0; side < 2; side++)
			fx_close(test, &race->ep[side]->fid);
	}
}

static int wait_for_events(struct race *race, int side)
{
	struct fx_cm_event event;
	ssize_t ret = 0;
	u32 what;

	while (!READ_ONCE(race->over)) {
		ret = fi_eq_sread(race->fx->eq, &what, &event, sizeof(event), 10,
				  0);
		/* ep[1] stays open: its FI_SHUTDOWN is all that may come. */
		if (ret > 0 && (what != FI_SHUTDOWN ||
				event.entry.fid != &race->ep[1]->fid))
			return -FI_EOTHER;
	}
	return ret > 0 || ret == -FI_EAGAIN ? 0 : ret;
}

static int close_the_caller(struct race *race, int side)
{
	int ret = fi_close(&race->ep[0]->fid);

	msleep(20);
	WRITE_ONCE(race->over, true);
	return ret;
}

static void race_waiting_for_events_while_an_endpoint_closes(struct kunit *test)
{
	struct race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		WRITE_ONCE(race->over, false);
		connect_ends(test, race);
		fx_forget(test, &race->ep[0]->fid);
		run(test, race, wait_for_events, close_the_caller);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		fx_close(test, &race->ep[1]->fid);
		drain_events(test, race->fx->eq);
	}
}

/* Two posters at one endpoint: each context comes back exactly once. */
static int post_each(struct race *race, int side)
{
	int ret;

	for (int i = side * EACH; i < (side + 1) * EACH;) {
		ret = fi_send(race->ep[1], NULL, 0, NULL, 0, &race->seen[i]);
		if (!ret)
			i++;
		else if (ret != -FI_EAGAIN)
			return ret;
		cond_resched();
		if (kthread_should_stop())
			return -FI_EINTR;
	}
	return 0;
}

/* Reads both ends' entries until all are there. */
static int read_each(struct tr_thread *thread)
{
	struct race *race = thread->arg;
	struct fi_cq_tagged_entry entry;
	int left = 2 * 2 * EACH;
	ssize_t ret;

	while (left && !kthread_should_stop()) {
		ret = fi_cq_read(race->fx->cq, &entry, 1);
		if (ret == 1) {
			left--;
			atomic_inc((atomic_t *)entry.op_context);
		} else if (ret != -FI_EAGAIN) {
			thread->result = ret;
			break;
		}
		cond_resched();
	}
	return 0;
}

static void race_two_posters_and_a_reader(struct kunit *test)
{
	struct race *race = prepare(test);
	struct tr_thread *reader;

	race->fx->info->rx_attr->size = 2 * EACH;
	connect_ends(test, race);
	for (int i = 0; i < 2 * EACH; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(race->ep[0], NULL, 0, NULL, 0,
						 &race->done));
	reader = tr_start(test, -1, read_each, race);
	run(test, race, post_each, post_each);
	KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
	KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
	KUNIT_ASSERT_TRUE(test, tr_join(test, reader));
	KUNIT_EXPECT_EQ(test, 0, reader->result);
	KUNIT_EXPECT_EQ(test, 2 * EACH, atomic_read(&race->done));
	for (int i = 0; i < 2 * EACH; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, atomic_read(&race->seen[i]),
				    "completion %d", i);
}

static int count_entries(struct race *race, int side)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;

	while (atomic_read(&race->done) < 2 * POSTED) {
		if (fi_cq_sread(race->fx->cq, &entry, 1, NULL, 10) == 1)
			atomic_inc(&race->done);
		if (time_after(jiffies, deadline))
			return -FI_ETIMEDOUT;
	}
	return 0;
}

static void race_two_readers_share_the_entries(struct kunit *test)
{
	struct race *race = prepare(test);

	connect_ends(test, race);
	for (unsigned int round = 0; round < tr_rounds; round++) {
		atomic_set(&race->done, 0);
		for (int i = 0; i < POSTED; i++) {
			KUNIT_ASSERT_EQ(test, 0, fi_recv(race->ep[1], NULL, 0,
							 NULL, 0, NULL));
			KUNIT_ASSERT_EQ(test, 0, fi_send(race->ep[0], NULL, 0,
							 NULL, 0, NULL));
		}
		run(test, race, count_entries, count_entries);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		KUNIT_EXPECT_EQ(test, 2 * POSTED, atomic_read(&race->done));
	}
}

static int close_the_listener(struct race *race, int side)
{
	usleep_range(50, 2000);
	return fi_close(&race->pep->fid);
}

static void race_connecting_while_both_ends_close(struct kunit *test)
{
	struct race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct fid_pep *pep = fx_listen(test, race->fx->fabric,
						race->fx->info, race->fx->eq);

		race->pep = pep;
		race->ep[0] = fx_bound_ep(test, race->fx);
		fx_start_connect(test, race->ep[0], pep);
		fx_forget(test, &pep->fid);
		fx_forget(test, &race->ep[0]->fid);
		run(test, race, close_one, close_the_listener);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		tr_expect_silence(test, race->fx->eq);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(race_both_ends_close),
	KUNIT_CASE_SLOW(race_both_ends_shut_down),
	KUNIT_CASE_SLOW(race_one_shuts_down_the_other_closes),
	KUNIT_CASE_SLOW(race_polling_while_an_endpoint_closes),
	KUNIT_CASE_SLOW(race_sending_while_it_is_shut_down),
	KUNIT_CASE_SLOW(race_sending_while_the_peer_leaves),
	KUNIT_CASE_SLOW(race_waiting_for_events_while_an_endpoint_closes),
	KUNIT_CASE_SLOW(race_two_posters_and_a_reader),
	KUNIT_CASE_SLOW(race_two_readers_share_the_entries),
	KUNIT_CASE_SLOW(race_connecting_while_both_ends_close),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_race",
	.test_cases = cases,
};

kunit_test_suite(suite);
