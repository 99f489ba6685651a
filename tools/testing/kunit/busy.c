// SPDX-License-Identifier: GPL-2.0
/*
 * Endpoints under full load: see busy.h.
 */

#include <linux/delay.h>

#include "busy.h"

#define LEN	512
/*
 * Slots of an endpoint's memory: source of sends and writes, target of its
 * reads, target of the peer's writes, target of the peer's atomics.
 */
enum { SOURCE, READ_TARGET, WRITE_TARGET, ATOMIC_TARGET, SLOTS };

static bool is_disconnected(ssize_t ret)
{
	return ret == -FI_ENOTCONN || ret == -FI_EOPBADSTATE;
}

/* Takes a free context for the next operation. */
static struct busy_op *next_op(struct busy *busy)
{
	struct busy_op *op = busy->ops;

	while (READ_ONCE(op->posted) && op < &busy->ops[BUSY_OPS - 1])
		op++;
	op->busy = busy;
	WRITE_ONCE(op->posted, true);
	return op;
}

/*
 * Counts the operation if ret is 0, and returns true then; notes that the
 * endpoint is disconnected.
 */
static bool count_post(struct busy *busy, struct busy_op *op, ssize_t ret)
{
	if (is_disconnected(ret))
		busy->disconnected = true;
	if (!ret)
		busy->posted++;
	else
		WRITE_ONCE(op->posted, false);
	return !ret;
}

/* Counts the completion of op, or a stray one if op was not posted. */
static void count_completion(struct busy_op *op)
{
	struct busy *busy = op->busy;

	if (!xchg(&op->posted, false))
		busy->strays++;
	WRITE_ONCE(busy->completed, busy->completed + 1);
}

/* Posts one operation of each kind, as far as there is space. */
static void post(struct busy_group *group, struct busy *busy)
{
	u64 there = busy->far + WRITE_TARGET * LEN, word = busy->far + ATOMIC_TARGET * LEN;
	u8 *mine = busy->near, *back = busy->near + READ_TARGET * LEN;
	struct fid_ep *ep = busy->ep;
	struct busy_op *op;
	u64 one = 1;

	/* Keeps a free context for each operation of a round. */
	if (busy->posted - READ_ONCE(busy->completed) > BUSY_OPS - BUSY_DEPTH)
		return;
	op = next_op(busy);
	if (count_post(busy, op, fi_recv(ep, mine, LEN, NULL, 0, op)))
		atomic_inc(&busy->receives);
	/* Sends only what has a posted receive: iWARP breaks the connection otherwise. */
	if (atomic_dec_if_positive(&busy->peer->receives) >= 0) {
		op = next_op(busy);
		if (!count_post(busy, op, fi_send(ep, mine, LEN, NULL, 0, op)))
			atomic_inc(&busy->peer->receives);
	}
	op = next_op(busy);
	count_post(busy, op, fi_write(ep, mine, LEN, NULL, 0, there, group->key,
				      op));
	op = next_op(busy);
	count_post(busy, op, fi_read(ep, back, LEN, NULL, 0, there, group->key, op));
	if (!group->has_atomics)
		return;
	op = next_op(busy);
	count_post(busy, op, fi_fetch_atomic(ep, &one, 1, NULL, back, NULL, 0, word,
					     group->key, FI_UINT64, FI_SUM, op));
	op = next_op(busy);
	count_post(busy, op, fi_fetch_atomic(ep, &one, 1, NULL, back, NULL, 0, word,
					     group->key, FI_UINT64, FI_BXOR, op));
}

/* Reads all completions, successes and errors. Returns 0 or a negative errno. */
static int read_all(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entries[BUSY_DEPTH];
	struct fi_cq_err_entry error = {};
	ssize_t ret;

	do {
		ret = fi_cq_read(cq, entries, BUSY_DEPTH);
		for (int i = 0; i < ret; i++)
			count_completion(entries[i].op_context);
		if (ret == -FI_EAVAIL) {
			ret = fi_cq_readerr(cq, &error, 0);
			if (ret == 1)
				count_completion(error.op_context);
		}
	} while (ret > 0);
	return ret == -FI_EAGAIN ? 0 : ret;
}

static void read_in_handler(struct hd_queue *queue)
{
	read_all(queue->cq);
}

int busy_post_and_read(struct tr_thread *thread)
{
	unsigned long end = jiffies + msecs_to_jiffies(BUSY_WAIT_MS);
	struct busy_group *group = thread->arg;
	int left;

	do {
		bool over = READ_ONCE(group->over);

		left = 0;
		for (int i = 0; i < group->links; i++) {
			struct busy *busy = &group->all[i];

			if (!busy->disconnected && !over)
				post(group, busy);
			left += (!busy->disconnected && !over) ||
				READ_ONCE(busy->completed) < busy->posted;
		}
		/* Receives may be outstanding that no message will complete. */
		if (over)
			break;
		if (!group->is_read)
			thread->result = read_all(group->cq);
		if (group->pause_us)
			usleep_range(group->pause_us, 2 * group->pause_us);
		cond_resched();
	} while (left && !thread->result && time_before(jiffies, end));
	if (left && !group->over && !thread->result)
		thread->result = -FI_ETIMEDOUT;
	return 0;
}

static struct fi_info *info_of(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info;

	hints->caps |= FI_RMA;
	if (at_offered(test))
		hints->caps |= FI_ATOMIC;
	hints->mode |= FI_RX_CQ_DATA;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	info->tx_attr->size = BUSY_DEPTH;
	info->rx_attr->size = BUSY_DEPTH;
	return info;
}

struct busy_fx *busy_open(struct kunit *test, int links,
			  enum busy_readers readers)
{
	size_t len = BUSY_SIDES * links * SLOTS * LEN;
	struct busy_fx *fx = (void *)tr_buffer(test, sizeof(*fx));
	u8 *memory = tr_vbuffer(test, len);

	for (int side = 0; side < BUSY_SIDES; side++) {
		struct busy_group *group = &fx->side[side];

		group->all = (void *)tr_vbuffer(test, links *
						sizeof(*group->all));
		group->links = links;
	}
	fx->fx = fx_open_for(test, FI_THREAD_SAFE);
	fx->fx->info = info_of(test);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->fx->domain, memory, len,
					   RMA_BOTH, 0, 0, 0, &fx->mr, NULL));
	fx_defer_close(test, &fx->mr->fid);
	for (int side = 0; side < BUSY_SIDES; side++) {
		struct busy_group *group = &fx->side[side];

		group->key = fi_mr_key(fx->mr);
		group->has_atomics = fx->fx->info->caps & FI_ATOMIC;
		group->is_read = readers != BUSY_THREADS;
		if (group->is_read) {
			fx->queue[side] = hd_open(test, fx->fx,
						  readers == BUSY_INTERRUPTS,
						  read_in_handler, NULL);
			group->cq = fx->queue[side]->cq;
		} else {
			struct fi_cq_attr attr = {
				.format = FI_CQ_FORMAT_TAGGED,
				.wait_obj = FI_WAIT_NONE,
			};

			group->cq = fx_cq(test, fx->fx->domain, &attr);
		}
		for (int i = 0; i < links; i++) {
			u8 *near = memory + (i * BUSY_SIDES + side) * SLOTS * LEN;

			group->all[i].near = near;
			group->all[i].peer = &fx->side[!side].all[i];
			fx->side[!side].all[i].far = (uintptr_t)near;
		}
	}
	fx->pep = fx_listen(test, fx->fx->fabric, fx->fx->info, fx->fx->eq);
	return fx;
}

static void connect_one(struct kunit *test, struct busy_fx *fx, int link)
{
	struct busy *busy[BUSY_SIDES];
	struct fi_info *info;

	for (int side = 0; side < BUSY_SIDES; side++) {
		busy[side] = &fx->side[side].all[link];
		busy[side]->posted = 0;
		busy[side]->completed = 0;
		busy[side]->strays = 0;
		memset(busy[side]->ops, 0, sizeof(busy[side]->ops));
		atomic_set(&busy[side]->receives, 0);
		busy[side]->disconnected = false;
	}
	busy[0]->ep = fx_ep(test, fx->fx->domain, fx->fx->info);
	fx_bind(test, busy[0]->ep, fx->fx->eq, fx->side[0].cq,
		FI_TRANSMIT | FI_RECV);
	fx_start_connect(test, busy[0]->ep, fx->pep);
	info = fx_wait_request(test, fx->fx->eq);
	info->tx_attr->size = BUSY_DEPTH;
	info->rx_attr->size = BUSY_DEPTH;
	busy[1]->ep = fx_ep(test, fx->fx->domain, info);
	fx_bind(test, busy[1]->ep, fx->fx->eq, fx->side[1].cq,
		FI_TRANSMIT | FI_RECV);
	fx_finish_accept(test, busy[1]->ep, fx->fx->eq);
}

void busy_connect(struct kunit *test, struct busy_fx *fx)
{
	for (int side = 0; side < BUSY_SIDES; side++) {
		fx->side[side].over = false;
		/* The first read arms the handler. */
		if (fx->side[side].is_read)
			read_all(fx->side[side].cq);
	}
	for (int link = 0; link < fx->side[0].links; link++)
		connect_one(test, fx, link);
}

struct busy *busy_find(struct busy_fx *fx, struct fid *fid)
{
	for (int side = 0; side < BUSY_SIDES; side++)
		for (int link = 0; link < fx->side[side].links; link++)
			if (&fx->side[side].all[link].ep->fid == fid)
				return &fx->side[side].all[link];
	return NULL;
}
