// SPDX-License-Identifier: GPL-2.0
/*
 * Tests MR of CONTRACT: regions that a handler registers and closes in a hard
 * interrupt, and in all threads at once, and calls that allocate nothing.
 */

#include "fault.h"
#include "handler.h"
#include "mr_ep.h"

#define PARALLEL	8
#define CYCLES		2000
#define LEN		(4 * PAGE_SIZE)

/* A region that is opened and closed again and again. */
struct cycle {
	struct cycles	*all;
	u8		*buf;
};

struct cycles {
	struct fid_domain	*domain;
	struct completion	done;
	int			started, ended;
	int			err;
	struct cycle		cycle[PARALLEL];
};

/* Registers memory, and ends the registration; the entry about its end starts the next cycle. */
static int start_cycle(struct fid_ep *ep, struct cycle *cycle)
{
	struct fid_mr *mr;
	int ret;

	ret = me_map(cycle->all->domain, cycle->buf, LEN, RMA_BOTH, &mr, cycle);
	if (ret)
		return ret;
	ret = fi_mr_bind(mr, &ep->fid, FI_COMPLETION) ?: fi_mr_enable(mr);
	return fi_close(&mr->fid) ?: ret;
}

static void go_on(struct hd_queue *queue)
{
	struct cycles *all = queue->data;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;

	while (fi_cq_read(queue->cq, &entry, 1) == 1) {
		if (entry.flags != FI_REGION)
			all->err = -FI_EOTHER;
		all->ended++;
		if (all->started < CYCLES) {
			int ret = start_cycle(queue->ep, entry.op_context);

			all->err = all->err ?: ret;
			all->started++;
		}
	}
	error = (struct fi_cq_err_entry){};
	if (fi_cq_readerr(queue->cq, &error, 0) == 1)
		all->err = all->err ?: -error.err;
	if (all->ended == CYCLES || all->err)
		complete(&all->done);
}

KUNIT_ARRAY_PARAM(contexts, hd_hard, hd_name_context);

static void mr_01_handlers_register_and_close_regions(struct kunit *test)
{
	u8 *buf = tr_buffer(test, PARALLEL * LEN);
	struct cycles *all = (void *)tr_buffer(test, sizeof(*all));
	struct kofi_pair *pair = me_pair_with(test, (struct fx_pair_opts){
		.mr_pool = 1, .threading = FI_THREAD_SAFE });
	struct kofi_fabric_fx fx = {
		.info = pair->info, .fabric = pair->fabric,
		.domain = pair->domain, .eq = pair->eq, .cq = pair->cq[0],
	};
	const bool *hard = test->param_value;
	const size_t count = PARALLEL;
	struct hd_queue *queue;
	unsigned long left;

	init_completion(&all->done);
	all->domain = pair->domain;
	all->started = PARALLEL;
	queue = hd_open(test, &fx, *hard, go_on, all);
	queue->ep = fx_ep(test, pair->domain, pair->info);
	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&queue->ep->fid, FI_OPT_ENDPOINT,
					   FI_OPT_KOFI_MR_POOL, &count,
					   sizeof(count)));
	fx_bind(test, queue->ep, pair->eq, queue->cq, FI_TRANSMIT | FI_RECV);
	fx_connect(test, pair->domain, queue->ep, pair->pep, pair->eq,
		   pair->cq[0]);
	for (int i = 0; i < PARALLEL; i++) {
		all->cycle[i] = (struct cycle){ all, buf + i * LEN };
		KUNIT_ASSERT_EQ(test, 0, start_cycle(queue->ep,
						     &all->cycle[i]));
	}
	left = wait_for_completion_timeout(&all->done,
					   msecs_to_jiffies(FX_WAIT_MS));
	KUNIT_EXPECT_NE_MSG(test, 0, left, "%d regions have ended", all->ended);
	KUNIT_EXPECT_EQ(test, 0, all->err);
	KUNIT_EXPECT_EQ(test, CYCLES, all->ended);
	fx_close(test, &queue->ep->fid);
	hd_check(test, queue);
}

#define THREADS	4
#define EACH	500

static int register_each(struct tr_thread *thread)
{
	struct kofi_pair *pair = thread->arg;
	u8 *buf = (u8 *)(pair + 1);
	int ret = 0;

	for (int i = 0; i < EACH && !ret; i++) {
		struct fid_mr *mr;

		ret = retry_while_eagain(me_map(pair->domain, buf, LEN,
						RMA_BOTH, &mr, NULL));
		if (ret)
			break;
		ret = retry_while_eagain(fi_mr_bind(mr, &pair->ep[i & 1]->fid,
						    0)) ?:
		      retry_while_eagain(fi_mr_enable(mr));
		ret = retry_while_eagain(fi_close(&mr->fid)) ?: ret;
	}
	thread->result = ret;
	return 0;
}

/* Threads share the pools, which have fewer regions than there are threads. */
static void mr_01_threads_share_pools(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN + sizeof(struct kofi_pair));
	struct kofi_pair *pair = me_pair_with(test, (struct fx_pair_opts){
		.mr_pool = THREADS / 2, .threading = FI_THREAD_SAFE });
	struct tr_thread *thread[THREADS];

	*(struct kofi_pair *)buf = *pair;
	for (int i = 0; i < THREADS; i++)
		thread[i] = tr_start(test, -1, register_each, buf);
	for (int i = 0; i < THREADS; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join(test, thread[i]));
		KUNIT_EXPECT_EQ(test, 0, (int)thread[i]->result);
	}
}

static struct kofi_pair *fault_pair;

static int call_cycle(struct fault *fault)
{
	struct fid_mr *mr;
	int ret;

	ret = me_map(fault_pair->domain, fault->buf, PAGE_SIZE, RMA_BOTH, &mr,
		     NULL);
	if (ret)
		return ret;
	ret = fi_mr_bind(mr, &fault_pair->ep[1]->fid, 0) ?: fi_mr_enable(mr);
	return fi_close(&mr->fid) ?: ret;
}

static void close_02_regions_of_endpoints_allocate_nothing(struct kunit *test)
{
	static const struct step cycle = {
		"fi_mr_enable", NULL, call_cycle, NULL, true
	};
	struct fault *fault = fault_new(test);

	fault_pair = me_pair(test, 4, 1);
	fault_fail_each(test, fault, &cycle);
}

static void open_ep(struct kunit *test, struct fault *fault)
{
	const size_t count = 3;

	KUNIT_ASSERT_EQ(test, 0, fi_endpoint(fault->fx->domain, fault->fx->info,
					     &fault->ep, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(fault->ep, &fault->fx->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(fault->ep, &fault->fx->cq->fid,
					    FI_TRANSMIT | FI_RECV));
	KUNIT_EXPECT_EQ(test, 0, fi_setopt(&fault->ep->fid, FI_OPT_ENDPOINT,
					   FI_OPT_KOFI_MR_POOL, &count,
					   sizeof(count)));
}

static int call_enable(struct fault *fault)
{
	return fi_enable(fault->ep);
}

static void close_ep(struct fault *fault)
{
	fi_close(&fault->ep->fid);
}

static void close_02_failed_allocations_of_region_pools(struct kunit *test)
{
	static const struct step enable = {
		"fi_enable(regions)", open_ep, call_enable, close_ep
	};
	struct fault *fault = fault_new(test);

	tr_needs_device(test, fault->fx->info);
	if (tr_is_iwarp(fault->fx->info))
		kunit_skip(test, "siw leaks what it has no memory for");
	fault_fail_each(test, fault, &enable);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(mr_01_handlers_register_and_close_regions,
			 contexts_gen_params),
	KUNIT_CASE(mr_01_threads_share_pools),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_mr_ep_run",
	.test_cases = cases,
};

static struct kunit_case fault_cases[] = {
	KUNIT_CASE_SLOW(close_02_regions_of_endpoints_allocate_nothing),
	KUNIT_CASE_SLOW(close_02_failed_allocations_of_region_pools),
	{}
};

static struct kunit_suite fault_suite = {
	.name = "kofi_mr_ep_fault",
	.init = fault_init,
	.test_cases = fault_cases,
};

kunit_test_suites(&suite, &fault_suite);
