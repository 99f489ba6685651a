// SPDX-License-Identifier: GPL-2.0
/*
 * Tests datagram endpoints whose network drops all packets, and works again
 * later: see scenarios/linkdown.sh.
 */

#include <net/net_namespace.h>

#include "netns.h"
#include "rdm.h"

#define LEN	1000
/* On iWARP a message whose send completed may be lost: it counts as lost after this time. */
#define LOST	(-1)
#define LOST_MS	1000
/* Time until the device gives up a connection, or rdma_cm a connection request. */
#define LIMIT_MS	(20 * FX_WAIT_MS)

struct ends {
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b;
	u8		*out, *in;
	bool		is_posted;	/* in */
	u32		seed, failures;
};

static void post(struct kunit *test, struct ends *ends)
{
	if (!ends->is_posted)
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(ends->b, FI_ADDR_UNSPEC, ends->in, LEN, ends->in));
	ends->is_posted = true;
}

/* Sends one message from a to b; returns 0, LOST, or a positive fabric errno. */
static int one_message(struct kunit *test, struct ends *ends)
{
	unsigned long end = jiffies + msecs_to_jiffies(LIMIT_MS), lost = end;
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;
	bool is_sent = false;
	ssize_t ret;

	tr_fill(ends->out, LEN, ++ends->seed);
	post(test, ends);
	KUNIT_ASSERT_EQ(test, 0, rdm_send(ends->a, ends->to_b, ends->out, LEN, ends->out));
	for (;;) {
		ret = fi_cq_sread(ends->a->cq, &entry, 1, NULL, is_sent ? 0 : 10);
		if (ret == -FI_EAVAIL) {
			KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(ends->a->cq, &error, 0));
			ends->failures++;
			return error.err;
		}
		if (ret == 1) {
			is_sent = true;
			lost = jiffies + msecs_to_jiffies(LOST_MS);
		}
		if (is_sent && fi_cq_sread(ends->b->cq, &entry, 1, NULL, 10) == 1) {
			KUNIT_ASSERT_PTR_EQ(test, ends->in, entry.op_context);
			ends->is_posted = false;
			if (tr_intact(ends->in, LEN, ends->seed))
				break;
			/* A message whose send failed may still have arrived. */
			KUNIT_ASSERT_GT(test, ends->failures--, 0);
			post(test, ends);
		}
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for the completion of a message");
		if (time_after(jiffies, lost)) {
			ends->failures++;
			return LOST;
		}
	}
	return 0;
}

static struct kofi_rdm *open_side(struct kunit *test, int side)
{
	struct rdm_opts opts = {};
	struct kofi_rdm *rdm;

	if (!ns_given())
		return rdm_open(test, NULL);
	opts.net = ns_get(test, side);
	opts.node = net_addr;
	opts.is_far = !side;
	rdm = rdm_open(test, &opts);
	put_net(opts.net);
	return rdm;
}

/* Opens both ends, and sends from a to b until a connection fails; returns its errno. */
static int send_until_failure(struct kunit *test, struct ends **out)
{
	struct ends *ends = *out = (void *)tr_buffer(test, sizeof(*ends));
	unsigned long end = jiffies + msecs_to_jiffies(LIMIT_MS);
	int err;

	ends->a = open_side(test, 0);
	ends->b = open_side(test, 1);
	ends->to_b = rdm_addr(test, ends->a, ends->b);
	ends->out = tr_buffer(test, LEN);
	ends->in = tr_buffer(test, LEN);
	pr_info("kofi_kunit: traffic flows\n");
	do {
		err = one_message(test, ends);
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for the link to fail");
		usleep_range(100, 1000);
	} while (err <= 0);
	kunit_info(test, "the connection fails with: %s\n", fi_strerror(err));
	pr_info("kofi_kunit: a connection ended\n");
	return err;
}

static void send_until_success(struct kunit *test, struct ends *ends)
{
	unsigned long end = jiffies + msecs_to_jiffies(LIMIT_MS);
	int err;

	while ((err = one_message(test, ends))) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "the last send: %s",
				      err == LOST ? "lost" : fi_strerror(err));
		msleep(100);
	}
}

static void rdm_04_sends_fail_during_an_outage_and_work_after_it(struct kunit *test)
{
	struct ends *ends;
	ktime_t start;
	int err;

	if (!tr_outage)
		kunit_skip(test, "see scenarios/linkdown.sh");
	send_until_failure(test, &ends);
	/* The next send needs a new connection, which fails; messages to itself still work. */
	start = ktime_get();
	if (ns_given())
		rdm_exchange(test, ends->a, rdm_addr(test, ends->a, ends->a), ends->a);
	err = one_message(test, ends);
	KUNIT_EXPECT_GT(test, err, 0);
	KUNIT_EXPECT_NE(test, FI_EIO, err);
	kunit_info(test, "a new connection fails after %lld ms: %s\n",
		   ktime_ms_delta(ktime_get(), start), fi_strerror(err));
	pr_info("kofi_kunit: a second connection failed\n");
	send_until_success(test, ends);
}

/*
 * The sender's connection has failed and the receiver, which sends nothing, does not know: a request
 * to connect makes it find out.
 */
static void rdm_04_an_idle_peer_notices_a_failed_connection(struct kunit *test)
{
	struct ends *ends;

	if (!tr_outage)
		kunit_skip(test, "see scenarios/linkdown.sh");
	send_until_failure(test, &ends);
	send_until_success(test, ends);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(rdm_04_sends_fail_during_an_outage_and_work_after_it),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_outage_rdm",
	.test_cases = cases,
};

static struct kunit_case brief_cases[] = {
	KUNIT_CASE_SLOW(rdm_04_an_idle_peer_notices_a_failed_connection),
	{}
};

static struct kunit_suite brief_suite = {
	.name = "kofi_outage_rdm_brief",
	.test_cases = brief_cases,
};

kunit_test_suites(&suite, &brief_suite);
