// SPDX-License-Identifier: GPL-2.0
/*
 * A device that goes away while 64 endpoints are busy with everything that it
 * can do. See outage.c and scenarios/devdel.sh.
 */

#include <linux/atomic.h>

#include "atomic.h"

#define LINKS	32
#define SIDES	2
#define DEPTH	16
#define LEN	512
#define SLOTS	4	/* of each endpoint */

/* An endpoint, what is under way there, and what its peer may send to it. */
struct busy {
	struct fid_ep	*ep;
	u8		*near;
	u64		far;		/* of its peer */
	int		posted;
	int		told;
	atomic_t	receives;
	struct busy	*peer;
	bool		gone;
};

/* All the endpoints of one side, which have one queue. */
struct crowd {
	struct busy	all[LINKS];
	struct fid_cq	*cq;
	u64		key;
	bool		has_atomics;
};

static bool is_gone(ssize_t ret)
{
	return ret == -FI_ENOTCONN || ret == -FI_EOPBADSTATE;
}

/* Whether it was posted; whether the endpoint has gone is noted. */
static bool counts(struct busy *busy, ssize_t ret)
{
	if (is_gone(ret))
		busy->gone = true;
	if (!ret)
		busy->posted++;
	return !ret;
}

/* One of each kind, as far as there is room. */
static void post(struct crowd *crowd, struct busy *busy)
{
	struct fid_ep *ep = busy->ep;
	u64 one = 1;

	if (counts(busy, fi_recv(ep, busy->near, LEN, NULL, 0, busy)))
		atomic_inc(&busy->receives);
	if (atomic_dec_if_positive(&busy->peer->receives) >= 0)
		counts(busy, fi_send(ep, busy->near, LEN, NULL, 0, busy));
	counts(busy, fi_write(ep, busy->near + LEN, LEN, NULL, 0,
			      busy->far + 2 * LEN, crowd->key, busy));
	counts(busy, fi_read(ep, busy->near + LEN, LEN, NULL, 0,
			     busy->far + 2 * LEN, crowd->key, busy));
	if (!crowd->has_atomics)
		return;
	counts(busy, fi_fetch_atomic(ep, &one, 1, NULL, busy->near + LEN, NULL,
				     0, busy->far + 3 * LEN, crowd->key,
				     FI_UINT64, FI_SUM, busy));
	counts(busy, fi_fetch_atomic(ep, &one, 1, NULL, busy->near + LEN, NULL,
				     0, busy->far + 3 * LEN, crowd->key,
				     FI_UINT64, FI_PROD, busy));
}

/* Reads what there is, successes and failures alike. */
static int read_all(struct crowd *crowd)
{
	struct fi_cq_tagged_entry entries[DEPTH];
	struct fi_cq_err_entry error = {};
	ssize_t ret;

	do {
		struct busy *busy;

		ret = fi_cq_read(crowd->cq, entries, DEPTH);
		for (int i = 0; i < ret; i++) {
			busy = entries[i].op_context;
			busy->told++;
		}
		if (ret == -FI_EAVAIL) {
			ret = fi_cq_readerr(crowd->cq, &error, 0);
			busy = error.op_context;
			if (ret == 1)
				busy->told++;
		}
	} while (ret > 0);
	return ret == -FI_EAGAIN ? 0 : ret;
}

/* Until each has gone, and each operation has been told of. */
static int keep_busy(struct tr_thread *thread)
{
	unsigned long end = jiffies + 4 * msecs_to_jiffies(FX_WAIT_MS);
	struct crowd *crowd = thread->arg;
	int left;

	do {
		left = 0;
		for (int i = 0; i < LINKS; i++) {
			struct busy *busy = &crowd->all[i];

			if (!busy->gone)
				post(crowd, busy);
			left += !busy->gone || busy->told < busy->posted;
		}
		thread->result = read_all(crowd);
		cond_resched();
	} while (left && !thread->result && time_before(jiffies, end));
	if (left && !thread->result)
		thread->result = -FI_ETIMEDOUT;
	return 0;
}

/* One more connection of the pair's domain and queues. */
static void connect_one(struct kunit *test, struct kofi_pair *pair,
			struct fid_ep *ep[SIDES])
{
	struct fi_info *info;

	ep[0] = fx_ep(test, pair->domain, pair->info);
	fx_bind(test, ep[0], pair->eq, pair->cq[0], FI_TRANSMIT | FI_RECV);
	fx_start_connect(test, ep[0], pair->pep);
	info = fx_wait_request(test, pair->eq);
	info->tx_attr->size = DEPTH;
	info->rx_attr->size = DEPTH;
	ep[1] = fx_ep(test, pair->domain, info);
	fx_bind(test, ep[1], pair->eq, pair->cq[1], FI_TRANSMIT | FI_RECV);
	fx_finish_accept(test, ep[1], pair->eq);
}

static struct busy *busy_of(struct crowd *crowds, struct fid *fid)
{
	for (int i = 0; i < SIDES * LINKS; i++) {
		struct busy *busy = &crowds[i % SIDES].all[i / SIDES];

		if (&busy->ep->fid == fid)
			return busy;
	}
	return NULL;
}

static void removal_of_the_device_of_many(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.tx_size = DEPTH, .rx_size = DEPTH, .threading = FI_THREAD_SAFE,
		.caps = FI_RMA | (at_offered(test) ? FI_ATOMIC : 0),
	};
	struct crowd *crowds = (void *)tr_vbuffer(test, SIDES * sizeof(*crowds));
	u8 *memory = tr_vbuffer(test, SIDES * LINKS * SLOTS * LEN);
	struct tr_thread *threads[SIDES];
	struct kofi_pair *pair;
	struct rma_fx *fx;

	if (!tr_outage)
		kunit_skip(test, "see scenarios/devdel.sh");
	fx = rma_open(test, memory, SIDES * LINKS * SLOTS * LEN, RMA_BOTH,
		      &opts);
	pair = fx->pair;
	for (int i = 0; i < LINKS; i++) {
		struct fid_ep *ep[SIDES] = { pair->ep[0], pair->ep[1] };

		if (i)
			connect_one(test, pair, ep);
		for (int side = 0; side < SIDES; side++) {
			struct busy *busy = &crowds[side].all[i];

			busy->ep = ep[side];
			busy->peer = &crowds[!side].all[i];
			busy->near = memory + (i * SIDES + side) * SLOTS * LEN;
			busy->far = (uintptr_t)memory +
				    (i * SIDES + !side) * SLOTS * LEN;
		}
	}
	for (int side = 0; side < SIDES; side++) {
		crowds[side].cq = pair->cq[side];
		crowds[side].key = fx->key;
		crowds[side].has_atomics = opts.caps & FI_ATOMIC;
		threads[side] = tr_start(test, -1, keep_busy, &crowds[side]);
	}
	pr_info("kofi_kunit: traffic flows\n");
	for (int side = 0; side < SIDES; side++) {
		KUNIT_EXPECT_TRUE(test, tr_join(test, threads[side]));
		KUNIT_EXPECT_EQ(test, 0, threads[side]->result);
	}
	/* Each is told once that its peer has gone, and of each operation. */
	for (int i = 0; i < SIDES * LINKS; i++) {
		struct fx_cm_event event = {};
		struct busy *busy;

		KUNIT_ASSERT_GT(test, fx_wait_event(test, pair->eq, FI_SHUTDOWN,
						    &event, sizeof(event)), 0);
		busy = busy_of(crowds, event.entry.fid);
		KUNIT_ASSERT_NOT_NULL(test, busy);
		KUNIT_EXPECT_TRUE(test, busy->gone);
		KUNIT_EXPECT_GT(test, busy->posted, 0);
		KUNIT_EXPECT_EQ(test, busy->posted, busy->told);
		busy->gone = false;
	}
	fx_close(test, &fx->mr->fid);
	for (int i = 0; i < SIDES * LINKS; i++)
		fx_close(test, &crowds[i % SIDES].all[i / SIDES].ep->fid);
	for (int side = 0; side < SIDES; side++)
		fx_close(test, &pair->cq[side]->fid);
	/* With it the device may go. */
	fx_close(test, &pair->domain->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(removal_of_the_device_of_many),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_removal_many",
	.test_cases = cases,
};

kunit_test_suite(suite);
