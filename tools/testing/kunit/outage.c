// SPDX-License-Identifier: GPL-2.0
/*
 * Tests links that go down and devices that are removed during transfers. The
 * scenarios linkdown.sh and devdel.sh wait for traffic, break the link or the
 * device, and wait for the result; without them the suites are skipped.
 */

#include <linux/delay.h>
#include <linux/moduleparam.h>

#include "netns.h"

#define LEN 1000
#define POSTED 4
/* GAP_MS: minimum duration of an outage. LIMIT_MS: time until the retry limit is reached. */
#define GAP_MS 300
#define TICK_MS 20
#define LIMIT_MS (4 * FX_WAIT_MS)

bool tr_outage;
module_param_named(outage, tr_outage, bool, 0444);
MODULE_PARM_DESC(outage, "a scenario breaks what the outage suites use");

/* Sends one message from 0 to 1. Returns its duration in ms, or the first error of either side. */
static s64 one_message(struct kunit *test, struct kofi_pair *pair, u8 *buf)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(LIMIT_MS);
	struct fi_cq_tagged_entry entry;
	ktime_t start = ktime_get();
	bool done[2] = {};
	static u32 seed;
	ssize_t ret;

	tr_fill(buf, LEN, ++seed);
	ret = fi_recv(pair->ep[1], buf + LEN, LEN, NULL, 0, NULL);
	if (ret)
		return ret;
	ret = fi_send(pair->ep[0], buf, LEN, NULL, 0, NULL);
	if (ret)
		return ret;
	for (int side = 0; !done[0] || !done[1]; side = !side) {
		ret = fi_cq_sread(pair->cq[side], &entry, 1, NULL,
				  done[side] ? 0 : TICK_MS);
		if (ret == 1)
			done[side] = true;
		else if (ret != -FI_EAGAIN)
			return ret;
		if (time_after(jiffies, deadline))
			return -FI_ETIMEDOUT;
	}
	if (!tr_intact(buf + LEN, LEN, seed)) {
		KUNIT_FAIL(test, "a message came damaged");
		return -FI_EIO;
	}
	return ktime_ms_delta(ktime_get(), start);
}

/* Sends messages until one_message() fails or exceeds gap_ms; returns its last result. */
static s64 until_it_breaks(struct kunit *test, struct kofi_pair *pair, u8 *buf, s64 gap_ms)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	s64 ret;

	pr_info("kofi_kunit: traffic flows\n");
	do {
		ret = one_message(test, pair, buf);
		if (ret < 0 || ret > gap_ms)
			return ret;
		usleep_range(100, 1000);
	} while (time_before(jiffies, deadline));
	KUNIT_FAIL_AND_ABORT(test, "waited for the link or device to fail");
	return 0;
}

static void need_scenario(struct kunit *test)
{
	if (!tr_outage)
		kunit_skip(test, "see scenarios/devdel.sh");
}

/* Opens a pair between the network namespaces if there are any, else on the own device. */
static struct kofi_pair *any_pair(struct kunit *test)
{
	struct ns_side sides[2] = {};

	if (!tr_outage)
		kunit_skip(test, "see scenarios/linkdown.sh");
	return ns_given() ? ns_pair(test, net_addr, sides) : fx_pair(test, NULL);
}

static void outage_shorter_than_the_retry_limit_delays_messages(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = any_pair(test);

	KUNIT_ASSERT_GT(test, until_it_breaks(test, pair, buf, GAP_MS), 0);
	for (int i = 0; i < 100; i++)
		KUNIT_ASSERT_GE(test, one_message(test, pair, buf), 0);
}

/* The sender reads an error; the receiver may not notice the outage. */
static void outage_beyond_the_retry_limit_fails_the_connection(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct fi_cq_err_entry error = {};
	struct kofi_pair *pair = any_pair(test);
	unsigned int flushed;

	for (int i = 0; i < POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[0], buf, LEN, NULL, 0,
						 buf));
	KUNIT_ASSERT_EQ(test, -FI_EAVAIL, until_it_breaks(test, pair, buf, S64_MAX));
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(pair->cq[0], &error, 0));
	kunit_info(test, "the sender's error: %s", fi_strerror(error.err));
	KUNIT_EXPECT_NE(test, FI_EIO, error.err);
	/* The endpoints can be shut down, and all receives of the sender are flushed. */
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	flushed = tr_read_flushed(test, pair->cq[0]);
	KUNIT_EXPECT_GE(test, flushed + !!(error.flags & FI_RECV), POSTED);
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	KUNIT_EXPECT_LE(test, tr_read_flushed(test, pair->cq[1]), 1);
}

/* Reads an FI_ENODEV error of this object. */
static void expect_no_device(struct kunit *test, struct fid_eq *eq,
			     struct fid *fid)
{
	struct fi_eq_err_entry error = {};

	KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, eq, &error));
	KUNIT_EXPECT_PTR_EQ(test, fid, error.fid);
	KUNIT_EXPECT_EQ(test, FI_ENODEV, error.err);
}

static void removal_of_the_device_under_traffic(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct fi_info *info = NULL;
	struct kofi_pair *pair;
	s64 ret;

	need_scenario(test);
	pair = fx_pair(test, NULL);
	for (int i = 0; i < POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[0], buf, LEN, NULL, 0,
						 buf));
	/* A slow message does not end the loop: only the removal makes one fail. */
	ret = until_it_breaks(test, pair, buf, S64_MAX);
	KUNIT_EXPECT_TRUE_MSG(test, ret == -FI_EAVAIL || ret == -FI_ENOTCONN,
			      "%lld", ret);
	tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
	KUNIT_EXPECT_GE(test, tr_read_flushed(test, pair->cq[0]), POSTED);
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, fi_send(pair->ep[0], NULL, 0, NULL,
						    0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENODATA,
			fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
				   NULL, &info));
	fi_freeinfo(info);

	for (int side = 0; side < 2; side++)
		fx_close(test, &pair->ep[side]->fid);
	for (int side = 0; side < 2; side++)
		fx_close(test, &pair->cq[side]->fid);
	fx_close(test, &pair->domain->fid);
	/* The listener, an object of the fabric, reports FI_ENODEV after the domains are closed. */
	expect_no_device(test, pair->eq, &pair->pep->fid);
	tr_expect_silence(test, pair->eq);
}

static void removal_of_the_device_under_idle_objects(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct fid_domain *unbound;	/* not bound to an event queue */
	struct kofi_fabric_fx *fx;
	struct fid_pep *pep;
	struct fid_mr *mr, *remote;
	struct fid_ep *ep;

	need_scenario(test);
	fx = fx_open(test);
	unbound = fx_domain(test, fx->fabric, fx->info);
	KUNIT_ASSERT_EQ(test, 0, fi_domain_bind(fx->domain, &fx->eq->fid, 0));
	pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	ep = fx_bound_ep(test, fx);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
	KUNIT_ASSERT_EQ(test, 0, fi_recv(ep, buf, LEN, NULL, 0, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->domain, buf, LEN, 0, 0, 0, 0,
					   &mr, NULL));
	fx_defer_close(test, &mr->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->domain, buf, LEN,
					   FI_REMOTE_READ, 0, 0, 0, &remote,
					   NULL));
	fx_defer_close(test, &remote->fid);
	pr_info("kofi_kunit: traffic flows\n");
	expect_no_device(test, fx->eq, &ep->fid);
	expect_no_device(test, fx->eq, &fx->domain->fid);
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN,
			fi_recv(ep, buf, LEN, NULL, 0, NULL));
	tr_expect_silence(test, fx->eq);
	fx_close(test, &mr->fid);
	fx_close(test, &remote->fid);
	fx_close(test, &ep->fid);
	fx_close(test, &fx->cq->fid);
	/* A domain that is bound to an event queue after the removal reports it at once. */
	KUNIT_EXPECT_EQ(test, 0, fi_domain_bind(unbound, &fx->eq->fid, 0));
	expect_no_device(test, fx->eq, &unbound->fid);
	fx_close(test, &unbound->fid);
	fx_close(test, &fx->domain->fid);
	expect_no_device(test, fx->eq, &pep->fid);
}

static struct kunit_case delay_cases[] = {
	KUNIT_CASE_SLOW(outage_shorter_than_the_retry_limit_delays_messages),
	{}
};

static struct kunit_case end_cases[] = {
	KUNIT_CASE_SLOW(outage_beyond_the_retry_limit_fails_the_connection),
	{}
};

static struct kunit_case removal_cases[] = {
	KUNIT_CASE_SLOW(removal_of_the_device_under_traffic),
	{}
};

static struct kunit_case idle_removal_cases[] = {
	KUNIT_CASE_SLOW(removal_of_the_device_under_idle_objects),
	{}
};

/* Each case has a suite of its own: a scenario breaks one thing per run. */
static struct kunit_suite delay_suite = {
	.name = "kofi_outage_delay",
	.test_cases = delay_cases,
};

static struct kunit_suite end_suite = {
	.name = "kofi_outage_end",
	.test_cases = end_cases,
};

static struct kunit_suite removal_suite = {
	.name = "kofi_removal",
	.test_cases = removal_cases,
};

static struct kunit_suite idle_removal_suite = {
	.name = "kofi_removal_idle",
	.test_cases = idle_removal_cases,
};

kunit_test_suites(&delay_suite, &end_suite, &removal_suite,
		  &idle_removal_suite);
