// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CNTR 3: binding counters, and counters shared by several endpoints,
 * CPUs and readers.
 */

#include "cntr.h"
#include "handler.h"

#define LEN	64

static void cntr_03_binding_flags_are_checked(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_cntr *cntr = cn_open(test, fx->domain);
	struct fid_cntr *other = cn_open(test, fx->domain);
	struct fid_cntr *foreign = cn_open(test, fx_domain(test, fx->fabric,
							   fx->info));
	struct fid_ep *ep = fx_bound_ep(test, fx);
	struct fid *fid = &cntr->fid;

	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_ep_bind(ep, fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_ep_bind(ep, fid, ~0ULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_ep_bind(ep, fid, FI_SEND | FI_SELECTIVE_COMPLETION));
	/* A verbs target gets no completion for its peer's RMA. */
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
			fi_ep_bind(ep, fid, FI_REMOTE_READ));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
			fi_ep_bind(ep, fid, FI_SEND | FI_REMOTE_WRITE));
	KUNIT_EXPECT_EQ(test, -FI_EDOMAIN,
			fi_ep_bind(ep, &foreign->fid, FI_SEND));
	/* The refused calls bound nothing. */
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, fid, FI_TRANSMIT | FI_READ));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(ep, fid, FI_READ));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_ep_bind(ep, &other->fid, FI_SEND | FI_WRITE));
	KUNIT_EXPECT_EQ(test, 0,
			fi_ep_bind(ep, &other->fid, FI_RECV | FI_WRITE));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE,
			fi_ep_bind(ep, &other->fid, FI_RECV));
}

static void cntr_03_a_counter_does_not_replace_a_cq(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_cntr *cntr = cn_open(test, fx->domain);
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);

	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, &fx->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, &cntr->fid, FI_SEND | FI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_ENOCQ, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, &fx->cq->fid,
					    FI_TRANSMIT | FI_RECV));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
}

static void cntr_03_cntr_cnt_is_at_least_the_hint(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info;

	hints->domain_attr->cntr_cnt = 4;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_GE(test, info->domain_attr->cntr_cnt, 4);
}

/* Two connected endpoints with one completion queue and one counter. */
struct shared {
	struct kofi_fabric_fx	*fx;
	struct fid_cntr		*cntr;
	struct fid_ep		*ep[2];
	u8			*buf;
	bool			over;
};

static struct shared *open_shared(struct kunit *test)
{
	struct shared *shared = (void *)tr_buffer(test, sizeof(*shared));

	shared->buf = tr_buffer(test, LEN);
	shared->fx = fx_open(test);
	shared->cntr = cn_open(test, shared->fx->domain);
	return shared;
}

static void connect_shared(struct kunit *test, struct shared *shared, u64 flags)
{
	struct kofi_fabric_fx *fx = shared->fx;
	struct fi_info *info = fx->info;
	struct fid_pep *pep;

	pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	for (int side = 0; side < 2; side++) {
		struct fid_ep *ep;

		if (side) {
			fx_start_connect(test, shared->ep[0], pep);
			info = fx_wait_request(test, fx->eq);
		}
		ep = fx_ep(test, fx->domain, info);
		fx_bind(test, ep, fx->eq, fx->cq,
			FI_TRANSMIT | FI_RECV | flags);
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &shared->cntr->fid,
						    FI_SEND | FI_RECV));
		shared->ep[side] = ep;
	}
	fx_finish_accept(test, shared->ep[1], fx->eq);
}

static struct shared *open_connected(struct kunit *test, u64 flags)
{
	struct shared *shared = open_shared(test);

	connect_shared(test, shared, flags);
	return shared;
}

static void cntr_03_endpoints_share_a_counter(struct kunit *test)
{
	struct shared *shared = open_connected(test, FI_SELECTIVE_COMPLETION);

	for (int i = 1; i <= 5; i++) {
		int to = i & 1;

		KUNIT_ASSERT_EQ(test, 0, tr_recv(shared->ep[to], shared->buf,
						 LEN));
		KUNIT_ASSERT_EQ(test, 0, tr_send(shared->ep[!to], shared->buf,
						 LEN));
		CN_ASSERT_REACHED(test, shared->cntr, 2 * i);
	}
	CN_EXPECT(test, shared->cntr, 10, 0);
	/* ep[1] still makes the counter poll the queue. */
	fx_close(test, &shared->ep[0]->fid);
	fi_shutdown(shared->ep[1], 0);
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&shared->cntr->fid));
	CN_EXPECT(test, shared->cntr, 10, 0);
	fx_close(test, &shared->ep[1]->fid);
	fx_close(test, &shared->cntr->fid);
}

/* The wait began before an endpoint was bound to the counter. */
static void cntr_03_endpoints_bound_later_wake_the_waiter(struct kunit *test)
{
	struct shared *shared = open_shared(test);
	struct cn_waiter *waiter = cn_start_waiter(test, shared->cntr, 2);

	connect_shared(test, shared, FI_SELECTIVE_COMPLETION);
	KUNIT_ASSERT_EQ(test, 0, tr_recv(shared->ep[1], shared->buf, LEN));
	KUNIT_ASSERT_EQ(test, 0, tr_send(shared->ep[0], shared->buf, LEN));
	KUNIT_ASSERT_TRUE(test, tr_join(test, waiter->thread));
	KUNIT_EXPECT_EQ(test, 0, waiter->thread->result);
}

#define ROUNDS (100 * (int)tr_rounds)

static int read_entries(struct tr_thread *thread)
{
	struct shared *shared = thread->arg;
	struct fi_cq_tagged_entry entries[8];
	int found = 0;

	while (!READ_ONCE(shared->over) && !kthread_should_stop()) {
		ssize_t ret = fi_cq_read(shared->fx->cq, entries,
					 ARRAY_SIZE(entries));

		if (ret > 0)
			found += ret;
		else
			cond_resched();
	}
	WRITE_ONCE(thread->result, found);
	return 0;
}

/* Posts a receive and a send; retries on -FI_EAGAIN until the reader made space. */
static ssize_t post_both(struct shared *shared)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	ssize_t received = -FI_EAGAIN, sent = -FI_EAGAIN;

	do {
		if (received == -FI_EAGAIN)
			received = tr_recv(shared->ep[1], shared->buf, LEN);
		if (!received)
			sent = tr_send(shared->ep[0], shared->buf, LEN);
		if (received || sent)
			schedule_timeout_uninterruptible(1);
	} while ((received == -FI_EAGAIN || (!received && sent == -FI_EAGAIN)) &&
		 time_before(jiffies, deadline));
	return received ?: sent;
}

/* A thread reads entries while another waits: each operation is counted once. */
static void cntr_03_counts_once_beside_a_cq_reader(struct kunit *test)
{
	struct shared *shared = open_connected(test, 0);
	struct tr_thread *reader = tr_start(test, num_online_cpus() - 1,
					    read_entries, shared);
	struct fi_cq_tagged_entry entry;
	ssize_t found = 0, ret = 0;

	for (int i = 1; i <= ROUNDS && !ret; i++) {
		ret = post_both(shared) ?:
		      fi_cntr_wait(shared->cntr, 2 * i, FX_WAIT_MS);
		KUNIT_EXPECT_EQ_MSG(test, 0, ret, "in round %d", i);
	}
	WRITE_ONCE(shared->over, true);
	KUNIT_ASSERT_TRUE(test, tr_join(test, reader));
	while (fi_cq_read(shared->fx->cq, &entry, 1) == 1)
		found++;
	KUNIT_EXPECT_EQ(test, 2 * ROUNDS, READ_ONCE(reader->result) + found);
	CN_EXPECT(test, shared->cntr, 2 * ROUNDS, 0);
}

static void read_all(struct hd_queue *queue)
{
	struct fi_cq_tagged_entry entry;

	while (fi_cq_read(queue->cq, &entry, 1) == 1)
		atomic_inc(queue->data);
}

static bool all_read(atomic_t *seen, int want)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (atomic_read(seen) < want && time_before(jiffies, deadline))
		schedule_timeout_uninterruptible(1);
	return atomic_read(seen) == want;
}

/* A counter that polls a queue suppresses no call of the queue's handler. */
static void cntr_03_counting_keeps_the_cq_handler_called(struct kunit *test)
{
	const bool *hard = test->param_value;
	atomic_t *seen = (void *)tr_buffer(test, sizeof(*seen));
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_cntr *cntr = cn_open(test, fx->domain);
	struct hd_queue *queue = hd_open(test, fx, *hard, read_all, seen);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info), *peer;

	fx_bind(test, ep, fx->eq, queue->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &cntr->fid, FI_RECV));
	peer = fx_connect(test, fx->domain, ep, pep, fx->eq, fx->cq);
	for (int i = 1; i <= ROUNDS / 50; i++) {
		hd_post_receives(test, ep, 1);
		hd_post_sends(test, peer, 1);
		CN_ASSERT_REACHED(test, cntr, i);
		KUNIT_ASSERT_TRUE_MSG(test, all_read(seen, i),
				      "%d entries of %d", atomic_read(seen), i);
		tr_expect(test, fx->cq, NULL, FI_SEND, 0);
	}
	CN_EXPECT(test, cntr, ROUNDS / 50, 0);
}

KUNIT_ARRAY_PARAM(hard, hd_hard, hd_name_context);

static struct kunit_case cases[] = {
	KUNIT_CASE(cntr_03_binding_flags_are_checked),
	KUNIT_CASE(cntr_03_a_counter_does_not_replace_a_cq),
	KUNIT_CASE(cntr_03_cntr_cnt_is_at_least_the_hint),
	KUNIT_CASE(cntr_03_endpoints_share_a_counter),
	KUNIT_CASE(cntr_03_endpoints_bound_later_wake_the_waiter),
	KUNIT_CASE(cntr_03_counts_once_beside_a_cq_reader),
	KUNIT_CASE_PARAM(cntr_03_counting_keeps_the_cq_handler_called, hard_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cntr_bind",
	.test_cases = cases,
};

kunit_test_suite(suite);
