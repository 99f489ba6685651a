// SPDX-License-Identifier: GPL-2.0
/*
 * Races of threads that make progress for one datagram endpoint: one sends and
 * polls the queue of the receiver, the other one posts receives and reads.
 */

#include "race.h"
#include "rdm.h"

/* Messages, and the memory of each: short, eager and segmented ones. */
#define MESSAGES	32
#define SPACE		40960

struct rdm_race {
	struct race	race;
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b;
	u8		*out, *in;
	int		seen[MESSAGES];
	int		cancelled, failed;
};

static struct rdm_race *prepare(struct kunit *test)
{
	const struct rdm_opts opts = { .caps = FI_MULTI_RECV };
	struct rdm_race *race = (void *)tr_buffer(test, sizeof(*race));

	race->out = tr_vbuffer(test, MESSAGES * SPACE);
	race->in = tr_vbuffer(test, MESSAGES * SPACE);
	race->a = rdm_open(test, NULL);
	race->b = rdm_open(test, &opts);
	race->to_b = rdm_addr(test, race->a, race->b);
	return race;
}

static void begin(struct rdm_race *race, unsigned int round)
{
	race->race.over = false;
	race->cancelled = 0;
	race->failed = 0;
	memset(race->seen, 0, sizeof(race->seen));
	memset(race->in, 0, MESSAGES * SPACE);
	for (int i = 0; i < MESSAGES; i++)
		tr_fill(race->out + i * SPACE, SPACE, round * MESSAGES + i);
}

static size_t len_of(int number)
{
	static const size_t lens[] = { 64, 16384, SPACE, 300 };

	return lens[number % ARRAY_SIZE(lens)];
}

/* Polls for both ends; false when the other half has ended, or after a long time. */
static bool go_on(struct rdm_race *race, unsigned long deadline)
{
	race_drain(race->a->cq);
	fi_cq_read(race->b->cq, NULL, 0);
	cond_resched();
	return !READ_ONCE(race->race.over) && !kthread_should_stop() &&
	       time_before(jiffies, deadline);
}

static int send_and_poll(struct race *base, int side)
{
	struct rdm_race *race = container_of(base, struct rdm_race, race);
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	ssize_t ret;

	for (int i = 0; i < MESSAGES;) {
		ret = fi_send(race->a->ep, race->out + i * SPACE, len_of(i), NULL, race->to_b,
			      NULL);
		if (!ret)
			i++;
		else if (ret != -FI_EAGAIN)
			return ret;
		if (!go_on(race, deadline) && i < MESSAGES)
			return -FI_ETIMEDOUT;
	}
	while (go_on(race, deadline))
		;
	return READ_ONCE(race->race.over) ? 0 : -FI_ETIMEDOUT;
}

static ssize_t post(struct rdm_race *race, int number)
{
	return fi_recv(race->b->ep, race->in + number * SPACE, SPACE, NULL, FI_ADDR_UNSPEC,
		       &race->seen[number]);
}

/* Reads an entry of the receiver; returns 1, 0 if there is none, or a negative errno. */
static int read_one(struct rdm_race *race)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;
	ssize_t ret = fi_cq_read(race->b->cq, &entry, 1);
	int *seen = entry.op_context;

	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL) {
		ret = fi_cq_readerr(race->b->cq, &error, 0);
		seen = error.op_context;
		if (ret == 1)
			race->failed++;
		if (ret == 1 && error.err != FI_ECANCELED)
			return -error.err;
	}
	if (ret == 1)
		(*seen)++;
	return ret;
}

/* Posts the receives from number posted on, and reads until all of them are done. */
static int read_all(struct rdm_race *race, int posted, int done, int ret)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (done < MESSAGES && ret >= 0) {
		if (posted < MESSAGES && !post(race, posted))
			posted++;
		ret = read_one(race);
		done += ret > 0;
		cond_resched();
		if (kthread_should_stop() || time_after(jiffies, deadline))
			ret = -FI_ETIMEDOUT;
	}
	WRITE_ONCE(race->race.over, true);
	return min(ret, 0);
}

static int post_and_read(struct race *base, int side)
{
	return read_all(container_of(base, struct rdm_race, race), 0, 0, 0);
}

static void race_messages_match_in_order(struct kunit *test)
{
	struct rdm_race *race = prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		begin(race, round);
		race_run(test, &race->race, send_and_poll, post_and_read);
		KUNIT_ASSERT_EQ(test, 0, race->race.ret[0]);
		KUNIT_ASSERT_EQ(test, 0, race->race.ret[1]);
		for (int i = 0; i < MESSAGES; i++) {
			KUNIT_EXPECT_EQ_MSG(test, 1, race->seen[i], "receive %d", i);
			KUNIT_EXPECT_TRUE_MSG(test, tr_intact(race->in + i * SPACE, len_of(i),
							      round * MESSAGES + i),
					      "message %d", i);
		}
	}
}

/* Posts all receives, and cancels those that have no message yet. */
static int cancel_and_read(struct race *base, int side)
{
	struct rdm_race *race = container_of(base, struct rdm_race, race);
	int done = 0, ret = 0;

	for (int i = 0; i < MESSAGES && !ret; i++)
		ret = post(race, i);
	for (int i = MESSAGES - 1; i >= 0 && ret >= 0; i--) {
		ret = fi_cancel(&race->b->ep->fid, &race->seen[i]);
		race->cancelled += !ret;
		if (!ret || ret == -FI_ENOENT)
			ret = read_one(race);
		done += ret > 0;
		cond_resched();
	}
	return read_all(race, MESSAGES, done, ret);
}

static void race_cancelled_receives_complete_once(struct kunit *test)
{
	for (unsigned int round = 0; round < tr_rounds; round++) {
		/* Messages without a receive stay until the endpoints are closed. */
		struct rdm_race *race = prepare(test);

		begin(race, round);
		race_run(test, &race->race, send_and_poll, cancel_and_read);
		KUNIT_ASSERT_EQ(test, 0, race->race.ret[1]);
		KUNIT_EXPECT_EQ(test, race->cancelled, race->failed);
		for (int i = 0; i < MESSAGES; i++)
			KUNIT_EXPECT_EQ_MSG(test, 1, race->seen[i], "receive %d", i);
		fx_close(test, &race->b->ep->fid);
		fx_close(test, &race->a->ep->fid);
	}
}

/* Reads the messages of one buffer, which lie and complete in order. */
static int read_multi(struct race *base, int side)
{
	struct rdm_race *race = container_of(base, struct rdm_race, race);
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	const struct kvec iov = { race->in, MESSAGES * SPACE };
	const struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC };
	struct fi_cq_tagged_entry entry;
	u8 *next = race->in;
	ssize_t ret = fi_recvmsg(race->b->ep, &msg, FI_MULTI_RECV);

	for (int i = 0; i < MESSAGES && !ret;) {
		ret = fi_cq_read(race->b->cq, &entry, 1);
		if (ret == 1) {
			bool is_next = (u8 *)entry.buf >= next && entry.len == len_of(i);

			if (is_next && !memcmp(entry.buf, race->out + i * SPACE, entry.len))
				race->seen[i]++;
			next = (u8 *)entry.buf + entry.len;
			i++;
			ret = 0;
		} else if (ret == -FI_EAGAIN) {
			ret = 0;
		}
		cond_resched();
		if (kthread_should_stop() || time_after(jiffies, deadline))
			ret = -FI_ETIMEDOUT;
	}
	WRITE_ONCE(base->over, true);
	return ret;
}

static void race_messages_of_a_buffer_complete_in_order(struct kunit *test)
{
	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct rdm_race *race = prepare(test);

		begin(race, round);
		race_run(test, &race->race, send_and_poll, read_multi);
		KUNIT_ASSERT_EQ(test, 0, race->race.ret[0]);
		KUNIT_ASSERT_EQ(test, 0, race->race.ret[1]);
		for (int i = 0; i < MESSAGES; i++)
			KUNIT_EXPECT_EQ_MSG(test, 1, race->seen[i], "message %d", i);
		fx_close(test, &race->b->ep->fid);
		fx_close(test, &race->a->ep->fid);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(race_messages_match_in_order),
	KUNIT_CASE_SLOW(race_cancelled_receives_complete_once),
	KUNIT_CASE_SLOW(race_messages_of_a_buffer_complete_in_order),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_race",
	.test_cases = cases,
};

kunit_test_suite(suite);
