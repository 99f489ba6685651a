// SPDX-License-Identifier: GPL-2.0
/*
 * CLOSE 2: completion queues that providers share, whose allocations fail; see
 * fault.c.
 */

#include <kunit/test-bug.h>
#include <rdma/fi_ext.h>

#include "fault.h"

static int open_queue(struct fault *fault)
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	return fi_cq_open(fault->fx->domain, &attr, &fault->cq, NULL);
}

static void reopen_queue(struct kunit *test, struct fault *fault)
{
	KUNIT_ASSERT_EQ(test, 0, open_queue(fault));
}

static void close_queue(struct fault *fault)
{
	fi_close(&fault->cq->fid);
}

static int call_export(struct fault *fault)
{
	struct fid *exported;
	int ret = fi_export_fid(&fault->cq->fid, 0, &exported, NULL);

	if (!ret)
		fault->made = exported;
	return ret;
}

static int call_open_peer(struct fault *fault)
{
	struct fi_peer_cq_context context = {
		.size = sizeof(context),
		.cq = container_of(fault->exported, struct fid_peer_cq, fid),
	};
	struct fi_cq_attr attr = { .flags = FI_PEER };
	struct fid_cq *cq;

	return FAULT_MADE(fault, fi_cq_open(fault->fx->domain, &attr, &cq, &context), cq);
}

static void close_02_queues_of_peers(struct kunit *test)
{
	static const struct step exporting = {
		"fi_export_fid(cq)", reopen_queue, call_export, close_queue
	};
	static const struct step opening = { "fi_cq_open(FI_PEER)", NULL, call_open_peer };
	struct fault *fault = fault_new(test);

	fault_walk(test, fault, &exporting);
	if (fx_serial)
		return;
	reopen_queue(test, fault);
	KUNIT_ASSERT_EQ(test, 0, fi_export_fid(&fault->cq->fid, 0, &fault->exported, NULL));
	fault_walk(test, fault, &opening);
	KUNIT_EXPECT_EQ(test, 0, fi_close(fault->exported));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&fault->cq->fid));
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(close_02_queues_of_peers),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_fault_peer",
	.init = fault_init,
	.test_cases = cases,
};

kunit_test_suite(suite);
