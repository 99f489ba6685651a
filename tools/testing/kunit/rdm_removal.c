// SPDX-License-Identifier: GPL-2.0
/*
 * Tests datagram endpoints whose device is removed, see scenarios/devdel.sh, or
 * whose allocations fail, see scenarios/nomemory.sh.
 */

#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>

#include "rdm.h"
#include "traffic.h"

static bool fail_traffic;
module_param(fail_traffic, bool, 0644);
MODULE_PARM_DESC(fail_traffic, "allocations fail in kofi_nomemory_rdm, whose traffic ends when this is cleared");

/* Time until all operations have to be complete. */
#define WAIT_MS		(4 * FX_WAIT_MS)

#define SIDES	2
#define DEPTH	6
#define LONGEST	200000

static const size_t lens[] = { 100, 16384, 40000, 131072, LONGEST, LONGEST };

/* An operation, which completes exactly once. */
struct op {
	bool	pending;
	bool	is_send;
	u8	*buf;
	size_t	len;
};

struct side {
	struct kofi_rdm	*rdm;
	fi_addr_t	other;
	struct op	ops[2 * DEPTH];
	int		done, failed;
};

/* Reads the completions of a side. */
static void read_cq(struct kunit *test, struct side *side)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	do {
		struct fi_cq_err_entry error = {};
		struct op *op = NULL;

		ret = fi_cq_read(side->rdm->cq, &entry, 1);
		if (ret == 1) {
			op = entry.op_context;
			side->done++;
		} else if (ret == -FI_EAVAIL) {
			KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(side->rdm->cq, &error, 0));
			op = error.op_context;
			side->failed++;
		} else {
			KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
			return;
		}
		KUNIT_ASSERT_NOT_NULL(test, op);
		KUNIT_ASSERT_TRUE(test, op->pending);
		op->pending = false;
	} while (true);
}

/* Posts the operations that are not pending; receives only if asked for. A post may fail. */
static void post_ops(struct side *side, bool receives)
{
	for (int i = 0; i < 2 * DEPTH; i++) {
		struct op *op = &side->ops[i];
		struct fid_ep *ep = side->rdm->ep;

		if (op->pending || !(op->is_send || receives))
			continue;
		op->pending = true;
		if (op->is_send ? fi_send(ep, op->buf, op->len, NULL, side->other, op) :
				  fi_recv(ep, op->buf, op->len, NULL, FI_ADDR_UNSPEC, op))
			op->pending = false;
	}
}

static bool has_pending_sends(struct side *side)
{
	for (int i = 0; i < 2 * DEPTH; i++) {
		if (side->ops[i].pending && side->ops[i].is_send)
			return true;
	}
	return false;
}

static struct side *open_sides(struct kunit *test)
{
	struct side *sides = (void *)tr_buffer(test, SIDES * sizeof(*sides));

	for (int s = 0; s < SIDES; s++) {
		for (int i = 0; i < 2 * DEPTH; i++) {
			struct op *op = &sides[s].ops[i];

			op->is_send = i & 1;
			op->len = op->is_send ? lens[i / 2] : LONGEST;
			op->buf = tr_vbuffer(test, op->len);
		}
	}
	for (int s = 0; s < SIDES; s++)
		sides[s].rdm = rdm_open(test, NULL);
	for (int s = 0; s < SIDES; s++)
		sides[s].other = rdm_addr(test, sides[s].rdm, sides[!s].rdm);
	return sides;
}

/* Reads the completions of both sides until no send is pending. */
static void await_sends(struct kunit *test, struct side *sides)
{
	unsigned long end = jiffies + msecs_to_jiffies(WAIT_MS);

	for (int s = 0; s < SIDES; s++) {
		while (has_pending_sends(&sides[s])) {
			for (int i = 0; i < SIDES; i++)
				read_cq(test, &sides[i]);
			KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
					      "waited for the completion of a send");
			usleep_range(100, 200);
		}
	}
}

/* Cancels the receives that matched no message. */
static void cancel(struct kunit *test, struct side *sides)
{
	unsigned long end = jiffies + msecs_to_jiffies(WAIT_MS);

	for (int s = 0; s < SIDES; s++) {
		for (int i = 0; i < 2 * DEPTH; i++) {
			while (sides[s].ops[i].pending) {
				fi_cancel(&sides[s].rdm->ep->fid, &sides[s].ops[i]);
				read_cq(test, &sides[s]);
				KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
						      "waited for the completion of a receive");
				usleep_range(100, 200);
			}
		}
	}
}

static void removal_of_the_device_under_datagram_traffic(struct kunit *test)
{
	unsigned long end_of_all = jiffies + msecs_to_jiffies(WAIT_MS);
	struct side *sides;
	bool is_gone = false, is_announced = false;

	if (!tr_outage)
		kunit_skip(test, "see scenarios/devdel.sh");
	sides = open_sides(test);
	/* Repeats until the device is removed and both sides have had a failed operation. */
	while (!is_gone || !sides[0].failed || !sides[1].failed) {
		struct fi_info *info = NULL;

		is_gone = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, NULL, &info);
		fi_freeinfo(info);
		for (int s = 0; s < SIDES; s++) {
			post_ops(&sides[s], true);
			read_cq(test, &sides[s]);
		}
		if (!is_announced && sides[0].done && sides[1].done) {
			pr_info("kofi_kunit: traffic flows\n");
			is_announced = true;
		}
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end_of_all),
				      "waited for the device to be removed");
		usleep_range(100, 1000);
	}
	for (int s = 0; s < SIDES; s++)
		post_ops(&sides[s], true);
	await_sends(test, sides);
	cancel(test, sides);
	for (int s = 0; s < SIDES; s++) {
		fx_close(test, &sides[s].rdm->ep->fid);
		fx_close(test, &sides[s].rdm->cq->fid);
		fx_close(test, &sides[s].rdm->av->fid);
		fx_close(test, &sides[s].rdm->domain->fid);
		fx_close(test, &sides[s].rdm->fabric->fid);
	}
}

/* Connections may end and sends may fail; afterwards messages work again. */
static void rdm_messages_with_failing_allocations(struct kunit *test)
{
	unsigned long end_of_all;
	struct side *sides;
	int tries = 0, pass = 0;

	if (!fail_traffic)
		kunit_skip(test, "see scenarios/nomemory.sh");
	sides = open_sides(test);
	rdm_exchange(test, sides[0].rdm, sides[0].other, sides[1].rdm);
	pr_info("kofi_kunit: datagrams flow\n");
	end_of_all = jiffies + msecs_to_jiffies(WAIT_MS);
	while (READ_ONCE(fail_traffic)) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end_of_all),
				      "fail_traffic stays set");
		for (int s = 0; s < SIDES; s++) {
			post_ops(&sides[s], pass % 3 == 0);
			read_cq(test, &sides[s]);
		}
		pass++;
		usleep_range(100, 1000);
	}
	pr_info("kofi_kunit: datagrams have flowed\n");
	/* The sides post receives for the sends that are pending. */
	end_of_all = jiffies + msecs_to_jiffies(WAIT_MS);
	while (has_pending_sends(&sides[0]) || has_pending_sends(&sides[1])) {
		for (int s = 0; s < SIDES; s++) {
			read_cq(test, &sides[s]);
			for (int i = 0; i < 2 * DEPTH; i += 2) {
				struct op *op = &sides[s].ops[i];

				if (!op->pending)
					op->pending = !fi_recv(sides[s].rdm->ep, op->buf, op->len, NULL,
							       FI_ADDR_UNSPEC, op);
			}
		}
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end_of_all),
				      "waited for the completion of a send");
		usleep_range(100, 200);
	}
	kunit_info(test, "%d done, %d failed\n", sides[0].done + sides[1].done,
		   sides[0].failed + sides[1].failed);
	KUNIT_EXPECT_GT(test, sides[0].done, 0);
	/* Once allocations work again, a send succeeds after some tries at most. */
	for (;; tries++) {
		struct op *op = &sides[0].ops[1];
		int failed = sides[0].failed;

		KUNIT_ASSERT_LT(test, tries, 50);
		op->pending = true;
		KUNIT_ASSERT_EQ(test, 0, fi_send(sides[0].rdm->ep, op->buf, op->len, NULL, sides[0].other,
						 op));
		await_sends(test, sides);
		if (failed == sides[0].failed)
			break;
		msleep(20);
	}
	cancel(test, sides);
}

static struct kunit_case removal_cases[] = {
	KUNIT_CASE_SLOW(removal_of_the_device_under_datagram_traffic),
	{}
};

static struct kunit_case memory_cases[] = {
	KUNIT_CASE_SLOW(rdm_messages_with_failing_allocations),
	{}
};

static struct kunit_suite removal_suite = {
	.name = "kofi_removal_rdm",
	.test_cases = removal_cases,
};

static struct kunit_suite memory_suite = {
	.name = "kofi_nomemory_rdm",
	.test_cases = memory_cases,
};

kunit_test_suites(&removal_suite, &memory_suite);
