// SPDX-License-Identifier: GPL-2.0
/*
 * Races of transfers from two CPUs, also to an endpoint that is shut down. A
 * case in which one CPU transfers alone also runs with FI_THREAD_COMPLETION and
 * FI_THREAD_DOMAIN.
 */

#include <linux/delay.h>

#include "race.h"

static const enum fi_threading threadings[] = {
	FI_THREAD_SAFE, FI_THREAD_COMPLETION, FI_THREAD_DOMAIN,
};

static void name_threading(const enum fi_threading *threading, char *name)
{
	strscpy(name, fi_tostr(threading, FI_TYPE_THREADING),
		KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(threadings, threadings, name_threading);

static struct race *prepare(struct kunit *test)
{
	const enum fi_threading *threading = test->param_value;

	return race_prepare_for(test, *threading);
}

/*
 * Sends until a post is refused. A receive is posted for each message: iWARP
 * ends a connection when a message has none.
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
			atomic_add(race_drain(race->fx->cq), &race->done);
		cond_resched();
	} while (!ret || ret == -FI_EAGAIN);
	return ret;
}

static int shutdown_sender(struct race *race, int side)
{
	usleep_range(50, 500);
	return fi_shutdown(race->ep[0], 0);
}

static void expect_all_done(struct kunit *test, struct race *race)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (atomic_read(&race->done) < atomic_read(&race->posted) &&
	       time_before(jiffies, deadline)) {
		atomic_add(race_drain(race->fx->cq), &race->done);
		usleep_range(100, 1000);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&race->posted),
			atomic_read(&race->done));
}

static void race_sending_while_the_sender_shuts_down(struct kunit *test)
{
	struct race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		race_connect(test, race);
		atomic_set(&race->done, 0);
		atomic_set(&race->posted, 0);
		race_run(test, race, send_until_refused, shutdown_sender);
		KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		tr_expect_shutdowns(test, race->fx->eq, race->ep[0],
				    race->ep[1]);
		expect_all_done(test, race);
		for (int side = 0; side < 2; side++)
			fx_close(test, &race->ep[side]->fid);
	}
}

static int shutdown_receiver(struct race *race, int side)
{
	usleep_range(50, 500);
	return fi_shutdown(race->ep[1], 0);
}

static void race_sending_while_the_peer_shuts_down(struct kunit *test)
{
	struct race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		race_connect(test, race);
		atomic_set(&race->done, 0);
		atomic_set(&race->posted, 0);
		race_run(test, race, send_until_refused, shutdown_receiver);
		KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		tr_expect_shutdowns(test, race->fx->eq, race->ep[0],
				    race->ep[1]);
		expect_all_done(test, race);
		for (int side = 0; side < 2; side++)
			fx_close(test, &race->ep[side]->fid);
	}
}

/* Transfers messages until the other thread has set over. */
static int transfer_until_over(struct race *race, int side)
{
	int ret = 0;

	while (!ret && !READ_ONCE(race->over)) {
		ret = fi_recv(race->ep[1], NULL, 0, NULL, 0, NULL);
		if (!ret)
			ret = fi_send(race->ep[0], NULL, 0, NULL, 0, NULL);
		if (!ret)
			atomic_add(2, &race->posted);
		while (!ret && atomic_read(&race->done) < atomic_read(&race->posted)) {
			struct fi_cq_tagged_entry entries[4];
			ssize_t found = fi_cq_read(race->fx->cq, entries,
						   ARRAY_SIZE(entries));

			if (found > 0)
				atomic_add(found, &race->done);
			else if (found != -FI_EAGAIN)
				ret = found;
			if (kthread_should_stop())
				ret = -FI_EINTR;
			cond_resched();
		}
	}
	return ret;
}

/* Once there is traffic, opens and closes endpoints that share the queue. */
static int open_and_close(struct race *race, int side)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fid_ep *ep;
	int ret = 0;

	while (!atomic_read(&race->done) && time_before(jiffies, deadline))
		usleep_range(100, 1000);
	for (unsigned int i = 0; !ret && i < tr_rounds; i++) {
		ret = fi_endpoint(race->fx->domain, race->fx->info, &ep, NULL);
		if (ret)
			break;
		ret = fi_ep_bind(ep, &race->fx->eq->fid, 0) ?:
		      fi_ep_bind(ep, &race->fx->cq->fid,
				 FI_TRANSMIT | FI_RECV) ?:
		      fi_enable(ep);
		ret = fi_close(&ep->fid) ?: ret;
	}
	WRITE_ONCE(race->over, true);
	return ret;
}

static void race_transfers_while_endpoints_open_and_close(struct kunit *test)
{
	struct race *race = prepare(test);

	race_connect(test, race);
	race_run(test, race, transfer_until_over, open_and_close);
	KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
	KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
	KUNIT_EXPECT_GT(test, atomic_read(&race->done), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race->posted),
			atomic_read(&race->done));
}

/* Two posters use one endpoint: each context is returned exactly once. */
static int post_each(struct race *race, int side)
{
	int ret;

	for (int i = side * RACE_EACH; i < (side + 1) * RACE_EACH;) {
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

/* Reads the entries of both ends until all have been seen. */
static int read_each(struct tr_thread *thread)
{
	struct race *race = thread->arg;
	struct fi_cq_tagged_entry entry;
	int left = 2 * 2 * RACE_EACH;
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
	struct race *race = race_prepare(test);
	struct tr_thread *reader;

	race->fx->info->rx_attr->size = 2 * RACE_EACH;
	race_connect(test, race);
	for (int i = 0; i < 2 * RACE_EACH; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(race->ep[0], NULL, 0, NULL, 0,
						 &race->done));
	reader = tr_start(test, -1, read_each, race);
	race_run(test, race, post_each, post_each);
	KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
	KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
	KUNIT_ASSERT_TRUE(test, tr_join(test, reader));
	KUNIT_EXPECT_EQ(test, 0, reader->result);
	KUNIT_EXPECT_EQ(test, 2 * RACE_EACH, atomic_read(&race->done));
	for (int i = 0; i < 2 * RACE_EACH; i++)
		KUNIT_EXPECT_EQ_MSG(test, 1, atomic_read(&race->seen[i]),
				    "completion %d", i);
}

static int count_entries(struct race *race, int side)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;

	while (atomic_read(&race->done) < 2 * RACE_POSTED) {
		if (fi_cq_sread(race->fx->cq, &entry, 1, NULL, 10) == 1)
			atomic_inc(&race->done);
		if (time_after(jiffies, deadline))
			return -FI_ETIMEDOUT;
	}
	return 0;
}

static void race_two_readers_share_the_entries(struct kunit *test)
{
	struct race *race = race_prepare(test);

	race_connect(test, race);
	for (unsigned int round = 0; round < tr_rounds; round++) {
		atomic_set(&race->done, 0);
		for (int i = 0; i < RACE_POSTED; i++) {
			KUNIT_ASSERT_EQ(test, 0, fi_recv(race->ep[1], NULL, 0,
							 NULL, 0, NULL));
			KUNIT_ASSERT_EQ(test, 0, fi_send(race->ep[0], NULL, 0,
							 NULL, 0, NULL));
		}
		race_run(test, race, count_entries, count_entries);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		KUNIT_EXPECT_EQ(test, 2 * RACE_POSTED, atomic_read(&race->done));
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(race_sending_while_the_sender_shuts_down,
			 threadings_gen_params),
	KUNIT_CASE_PARAM(race_sending_while_the_peer_shuts_down,
			 threadings_gen_params),
	KUNIT_CASE_PARAM(race_transfers_while_endpoints_open_and_close,
			 threadings_gen_params),
	KUNIT_CASE_SLOW(race_two_posters_and_a_reader),
	KUNIT_CASE_SLOW(race_two_readers_share_the_entries),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_race_transfer",
	.test_cases = cases,
};

kunit_test_suite(suite);
