// SPDX-License-Identifier: GPL-2.0
/*
 * Tests EP 8, INFO 14 and CQ 9 of CONTRACT: FI_REMOTE_SIGNAL. A target opened
 * with it sleeps until a message with the flag arrives, or an operation fails.
 */

#include "handler.h"

#define LEN	16
#define COUNT	3

static struct fi_info *hints_for(struct kunit *test, enum fi_ep_type type)
{
	struct fi_info *hints = fx_hints(test);

	hints->ep_attr->type = type;
	hints->caps = FI_MSG | FI_REMOTE_SIGNAL;
	return hints;
}

static void info_14_remote_signal_is_offered_where_it_works(struct kunit *test)
{
	struct fi_info *ordinary = fx_info(test, fx_addr, NULL, FI_SOURCE), *info = NULL;
	int want = tr_is_iwarp(ordinary) ? -FI_ENODATA : 0;

	KUNIT_ASSERT_EQ(test, want, fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
					       hints_for(test, FI_EP_MSG), &info));
	if (info) {
		KUNIT_EXPECT_EQ(test, FI_REMOTE_SIGNAL, info->caps & FI_REMOTE_SIGNAL);
		KUNIT_EXPECT_EQ(test, FI_REMOTE_SIGNAL, info->rx_attr->caps & FI_REMOTE_SIGNAL);
		fi_freeinfo(info);
	}
	KUNIT_EXPECT_EQ(test, -FI_ENODATA, fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
						      hints_for(test, FI_EP_RDM), &info));
	/* The capability is offered only on request. */
	for (; ordinary; ordinary = ordinary->next)
		KUNIT_EXPECT_EQ(test, 0, ordinary->caps & FI_REMOTE_SIGNAL);
	KUNIT_ASSERT_EQ(test, 0, fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, NULL,
					    &info));
	for (struct fi_info *next = info; next; next = next->next)
		KUNIT_EXPECT_EQ(test, 0, next->caps & FI_REMOTE_SIGNAL);
	fi_freeinfo(info);
}

/* A target, whose receives complete in a separate queue, and its sender. */
struct world {
	struct kofi_fabric_fx	*fx;
	struct fid_ep		*ep, *target;
	struct fid_cq		*cq;
	struct hd_queue		*handled;
	u8			*buf;
};

static struct world *connect(struct kunit *test, struct fid_cq *cq, struct world *world)
{
	struct kofi_fabric_fx *fx = world->fx;
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fi_info *request;

	world->cq = cq;
	world->ep = fx_ep(test, fx->domain, fx->info);
	fx_bind(test, world->ep, fx->eq, fx->cq, FI_TRANSMIT | FI_RECV);
	fx_start_connect(test, world->ep, pep);
	request = fx_wait_request(test, fx->eq);
	KUNIT_EXPECT_EQ(test, FI_REMOTE_SIGNAL, request->caps & FI_REMOTE_SIGNAL);
	world->target = fx_ep(test, fx->domain, request);
	fx_bind(test, world->target, fx->eq, fx->cq, FI_TRANSMIT);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(world->target, &cq->fid, FI_RECV));
	fx_finish_accept(test, world->target, fx->eq);
	for (int i = 0; i < COUNT + 1; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(world->target, world->buf, LEN));
	return world;
}

static struct world *open(struct kunit *test)
{
	struct world *world = (void *)tr_buffer(test, sizeof(*world));
	struct fi_info *ordinary = fx_info(test, fx_addr, NULL, FI_SOURCE);

	if (tr_is_iwarp(ordinary))
		kunit_skip(test, "siw notifies of no message as solicited");
	world->buf = tr_buffer(test, LEN);
	world->fx = fx_open_for(test, FI_THREAD_SAFE);
	world->fx->info = fx_info_for(test, hints_for(test, FI_EP_MSG), fx_addr, NULL, FI_SOURCE);
	return world;
}

/* Sends a message, and returns when it has been received. */
static void send(struct kunit *test, struct world *world, u64 flags)
{
	struct kvec iov = { world->buf, LEN };
	const struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .context = world };

	KUNIT_ASSERT_EQ(test, 0, fi_sendmsg(world->ep, &msg, flags | FI_COMPLETION));
	tr_expect(test, world->fx->cq, world, FI_SEND, 0);
}

static int read_some(struct tr_thread *thread)
{
	struct fi_cq_tagged_entry entries[COUNT + 1];
	struct world *world = thread->arg;

	thread->result = fi_cq_sread(world->cq, entries, COUNT + 1, NULL, FX_WAIT_MS);
	return 0;
}

/* A reader woken by the first message would return with one entry. */
static void cq_09_only_a_signalled_message_wakes_the_target(struct kunit *test)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC };
	struct world *world = open(test);
	struct tr_thread *thread;

	connect(test, fx_cq(test, world->fx->domain, &attr), world);
	thread = tr_start(test, -1, read_some, world);
	tr_until_asleep(test, thread);
	for (int i = 1; i < COUNT; i++)
		send(test, world, 0);
	send(test, world, FI_REMOTE_SIGNAL);
	KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	KUNIT_EXPECT_EQ(test, COUNT, thread->result);
}

static void cq_09_a_failure_wakes_the_target_too(struct kunit *test)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC };
	struct world *world = open(test);
	struct tr_thread *thread;

	connect(test, fx_cq(test, world->fx->domain, &attr), world);
	thread = tr_start(test, -1, read_some, world);
	tr_until_asleep(test, thread);
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(world->target, 0));
	KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL, thread->result);
}

/* Without the capability, every message wakes the reader. */
static void cq_09_an_ordinary_queue_is_woken_by_each_message(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct world *world = (void *)tr_buffer(test, sizeof(*world));
	struct tr_thread *thread;

	world->cq = pair->cq[1];
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
	thread = tr_start(test, -1, read_some, world);
	tr_until_asleep(test, thread);
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], NULL, 0));
	KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	KUNIT_EXPECT_EQ(test, 1, thread->result);
}

/* A queue that other endpoints use too wakes its reader for every completion. */
static void cq_09_a_shared_queue_is_woken_by_each_message(struct kunit *test)
{
	struct world *world = open(test);
	struct tr_thread *thread;
	struct fi_cq_tagged_entry entry;

	if (tr_is_loop(world->fx->info))
		kunit_skip(test, "there each entry wakes or does not");
	connect(test, world->fx->cq, world);
	thread = tr_start(test, -1, read_some, world);
	tr_until_asleep(test, thread);
	KUNIT_ASSERT_EQ(test, 0, fi_inject(world->ep, world->buf, LEN, 0));
	KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	KUNIT_EXPECT_EQ(test, 1, thread->result);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(world->cq, &entry, 1));
}

static void read_all(struct hd_queue *queue)
{
	struct fi_cq_tagged_entry entry;

	while (fi_cq_read(queue->cq, &entry, 1) == 1)
		atomic_inc((atomic_t *)queue->data);
}

KUNIT_ARRAY_PARAM(places, hd_hard, hd_name_context);

static void cq_16_only_a_signalled_message_calls_the_handler(struct kunit *test)
{
	struct world *world = open(test);
	atomic_t *count = (void *)tr_buffer(test, sizeof(*count));
	struct fi_cq_tagged_entry entry;
	struct hd_queue *queue;
	int calls;

	queue = hd_open(test, world->fx, *(const bool *)test->param_value, read_all, count);
	connect(test, queue->cq, world);
	/* The first arming may be for any completion; from now on only for solicited ones. */
	send(test, world, FI_REMOTE_SIGNAL);
	KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, queue, 1));
	KUNIT_ASSERT_TRUE(test, hd_wait_idle(test, queue));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(queue->cq, &entry, 1));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(count));
	calls = atomic_read(&queue->calls);
	for (int i = 1; i < COUNT; i++)
		send(test, world, 0);
	KUNIT_EXPECT_EQ(test, calls, atomic_read(&queue->calls));
	send(test, world, FI_REMOTE_SIGNAL);
	KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, queue, calls + 1));
	KUNIT_ASSERT_TRUE(test, hd_wait_idle(test, queue));
	KUNIT_EXPECT_EQ(test, COUNT + 1, atomic_read(count));
	fx_close(test, &world->target->fid);
	hd_close(test, queue);
	hd_check(test, queue);
}

/* The receive queue is full; a message without the flag makes space. */
static void cq_16_the_handler_is_called_after_a_refused_receive(struct kunit *test)
{
	struct world *world = open(test);
	struct completion *called;
	struct hd_queue *queue;
	unsigned long left;
	ssize_t ret;

	called = hd_completion(test);
	queue = hd_open(test, world->fx, *(const bool *)test->param_value, hd_read_and_complete,
			called);
	connect(test, queue->cq, world);
	/* From now on the queue is armed for solicited completions. */
	send(test, world, FI_REMOTE_SIGNAL);
	KUNIT_ASSERT_NE(test, 0, wait_for_completion_timeout(called, msecs_to_jiffies(FX_WAIT_MS)));
	KUNIT_ASSERT_TRUE(test, hd_wait_idle(test, queue));
	for (int round = 0; round < COUNT; round++) {
		do {
			ret = tr_recv(world->target, world->buf, LEN);
		} while (!ret);
		KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
		send(test, world, 0);
		left = msecs_to_jiffies(FX_WAIT_MS);
		do {
			left = wait_for_completion_timeout(called, left);
			KUNIT_ASSERT_NE_MSG(test, 0, left, "round %d: no call", round);
			ret = tr_recv(world->target, world->buf, LEN);
		} while (ret == -FI_EAGAIN);
		KUNIT_ASSERT_EQ(test, 0, ret);
	}
	fx_close(test, &world->target->fid);
	hd_close(test, queue);
	hd_check(test, queue);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(info_14_remote_signal_is_offered_where_it_works),
	KUNIT_CASE(cq_09_only_a_signalled_message_wakes_the_target),
	KUNIT_CASE(cq_09_a_failure_wakes_the_target_too),
	KUNIT_CASE(cq_09_an_ordinary_queue_is_woken_by_each_message),
	KUNIT_CASE(cq_09_a_shared_queue_is_woken_by_each_message),
	KUNIT_CASE_PARAM(cq_16_only_a_signalled_message_calls_the_handler, places_gen_params),
	KUNIT_CASE_PARAM(cq_16_the_handler_is_called_after_a_refused_receive, places_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_remote_signal",
	.test_cases = cases,
};

kunit_test_suite(suite);
