// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CLOSE 2: poll sets and wait sets whose allocations fail; see
 * fault.c.
 */

#include "fault.h"
#include "sets.h"

static int call_poll_open(struct fault *fault)
{
	struct fi_poll_attr attr = {};
	struct fid_poll *set;

	return FAULT_MADE(fault, fi_poll_open(fault->fx->domain, &attr, &set),
			  set);
}

/* Adds a member, which poll_del() removes again. */
static int call_poll_add(struct fault *fault)
{
	return fi_poll_add(fault->poll, &fault->fx->cq->fid, 0);
}

static void poll_del(struct fault *fault)
{
	fi_poll_del(fault->poll, &fault->fx->cq->fid, 0);
}

static int call_wait_open(struct fault *fault)
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_QUEUE };
	struct fid_wait *set;

	return FAULT_MADE(fault, fi_wait_open(fault->fx->fabric, &attr, &set),
			  set);
}

static int call_cq_open_in_set(struct fault *fault)
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_SET,
				   .wait_set = fault->set };
	struct fid_cq *cq;

	return FAULT_MADE(fault, fi_cq_open(fault->fx->domain, &attr, &cq, NULL),
			  cq);
}

static int call_eq_open_in_set(struct fault *fault)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_SET,
				   .wait_set = fault->set };
	struct fid_eq *eq;

	return FAULT_MADE(fault, fi_eq_open(fault->fx->fabric, &attr, &eq, NULL),
			  eq);
}

static int call_cntr_open_in_set(struct fault *fault)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_SET,
				     .wait_set = fault->set };
	struct fid_cntr *cntr;

	return FAULT_MADE(fault, fi_cntr_open(fault->fx->domain, &attr, &cntr,
					      NULL), cntr);
}

static void close_02_poll_and_wait_sets(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_poll_open()", NULL, call_poll_open },
		{ "fi_poll_add()", NULL, call_poll_add, poll_del },
		{ "fi_wait_open()", NULL, call_wait_open },
		{ "fi_cq_open(FI_WAIT_SET)", NULL, call_cq_open_in_set },
		{ "fi_eq_open(FI_WAIT_SET)", NULL, call_eq_open_in_set },
		{ "fi_cntr_open(FI_WAIT_SET)", NULL, call_cntr_open_in_set },
	};
	struct fault *fault = fault_new(test);

	fault->poll = st_poll_open(test, fault->fx->domain);
	fault->set = st_wait_open(test, fault->fx->fabric, FI_WAIT_UNSPEC);
	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
	/* No member is left in the wait set. */
	KUNIT_EXPECT_EQ(test, -FI_ETIMEDOUT, fi_wait(fault->set, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(close_02_poll_and_wait_sets),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_fault_sets",
	.init = fault_init,
	.test_cases = cases,
};

kunit_test_suite(suite);
