// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM 8 of CONTRACT: RMA and atomics of contexts of scalable endpoints,
 * and contexts that are used by CQ handlers or by one thread each.
 */

#include <linux/delay.h>
#include <linux/irq_work.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "handler.h"
#include "sep.h"
#include "traffic.h"

#define LEN	SZ_64K
/* Length of a rendezvous message. */
#define RNDV_LEN	SZ_256K

struct memory {
	struct sep	*a, *b;
	fi_addr_t	to_b;
	u8		*local, *remote;
	u64		addr, key;
};

static struct memory *memory(struct kunit *test)
{
	static const struct sep_opts opts = { .txs = 4, .rxs = 2, .caps = FI_RMA | FI_ATOMIC };
	struct memory *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	struct fid_mr *mr;

	KUNIT_ASSERT_NOT_NULL(test, m);
	m->local = tr_buffer(test, LEN);
	m->remote = tr_buffer(test, LEN);
	m->a = sep_open(test, &opts);
	m->b = sep_open(test, &opts);
	m->to_b = sep_addr(test, m->a, &m->b->name);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(m->b->domain, m->remote, LEN,
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	m->addr = (uintptr_t)m->remote;
	m->key = fi_mr_key(mr);
	return m;
}

/* RMA accesses the peer's memory, whichever receive context the address names. */
static void rma_03_each_context_accesses_memory(struct kunit *test)
{
	struct memory *m = memory(test);
	struct fi_cq_tagged_entry entry;

	for (int tx = 0; tx < 4; tx++) {
		fi_addr_t to = fi_rx_addr(m->to_b, tx, SEP_BITS);

		get_random_bytes(m->local, LEN);
		KUNIT_ASSERT_EQ(test, 0, fi_write(m->a->tx[tx], m->local, LEN, NULL, to, m->addr,
						  m->key, &m->a->tx[tx]));
		sep_expect(test, m->a->tx_cq[tx], &m->a->tx[tx], &entry);
		KUNIT_EXPECT_EQ(test, FI_RMA | FI_WRITE, entry.flags);
		/* On iWARP a write is placed once a read behind it has completed. */
		KUNIT_ASSERT_EQ(test, 0, fi_read(m->a->tx[tx], m->local, 8, NULL, to, m->addr,
						 m->key, m->local));
		sep_expect(test, m->a->tx_cq[tx], m->local, &entry);
		KUNIT_EXPECT_EQ(test, FI_RMA | FI_READ, entry.flags);
		KUNIT_EXPECT_MEMEQ(test, m->local, m->remote, LEN);
	}
}

static void rma_01_remote_cq_data_is_reported_by_context_0(struct kunit *test)
{
	struct memory *m = memory(test);
	struct fi_cq_tagged_entry entry;

	int ret = fi_writedata(m->a->tx[3], m->local, 8, NULL, 77,
			       fi_rx_addr(m->to_b, 1, SEP_BITS), m->addr, m->key, m->local);

	if (ret == -FI_EOPNOTSUPP)
		kunit_skip(test, "iWARP has no data with a write");
	KUNIT_ASSERT_EQ(test, 0, ret);
	sep_expect(test, m->b->rx_cq[0], NULL, &entry);
	KUNIT_EXPECT_EQ(test, 77, entry.data);
	KUNIT_EXPECT_EQ(test, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, entry.flags);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(m->b->rx_cq[1], &entry, 1));
	sep_expect(test, m->a->tx_cq[3], m->local, NULL);
}

static void atom_05_contexts_add_to_one_word(struct kunit *test)
{
	struct memory *m = memory(test);
	u64 *word = (u64 *)m->remote, *one = (u64 *)m->local, *old = one + 1;

	*one = 1;
	for (int i = 0; i < 40; i++) {
		int tx = i % 4;

		KUNIT_ASSERT_EQ(test, 0, fi_fetch_atomic(m->a->tx[tx], one, 1, NULL, old, NULL,
							 m->to_b, m->addr, m->key, FI_UINT64,
							 FI_SUM, old));
		sep_expect(test, m->a->tx_cq[tx], old, NULL);
		KUNIT_EXPECT_EQ(test, i, *old);
	}
	KUNIT_EXPECT_EQ(test, 40, *word);
}

/* A message that CQ handlers alone pass between contexts of two endpoints, goal times. */
struct relay {
	struct sep		*side[2];
	fi_addr_t		to[2];
	struct fid_cq		*cq[2];
	u64			*in, *out;
	int			goal, error;
	atomic_t		count;
	bool			hard, wrong_context;
	struct completion	done;
};

static void finish(struct relay *relay, int error)
{
	if (error)
		WRITE_ONCE(relay->error, error);
	complete_all(&relay->done);
}

static int pass_on(struct relay *relay, int from, u64 number)
{
	int tx = number % SEP_DEFAULT, rx = number * 7 % SEP_DEFAULT;

	relay->out[from] = number;
	return fi_inject(relay->side[from]->tx[tx], &relay->out[from], 8,
			 fi_rx_addr(relay->to[from], rx, SEP_BITS));
}

static void relay_handler(struct fid_cq *cq, void *context)
{
	struct relay *relay = context;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	if (!!in_hardirq() != relay->hard)
		relay->wrong_context = true;
	while ((ret = fi_cq_read(cq, &entry, 1)) == 1) {
		u64 *in = entry.op_context, number = *in;
		int me = (in - relay->in) / SEP_DEFAULT, rx = (in - relay->in) % SEP_DEFAULT;

		if (rx != number * 7 % SEP_DEFAULT) {
			finish(relay, -FI_EOTHER);
			return;
		}
		ret = fi_recv(relay->side[me]->rx[rx], in, 8, NULL, FI_ADDR_UNSPEC, in);
		if (atomic_inc_return(&relay->count) >= relay->goal) {
			finish(relay, ret);
			return;
		}
		ret = ret ?: pass_on(relay, me, number + 1);
		if (ret)
			finish(relay, ret);
	}
	if (ret != -FI_EAGAIN)
		finish(relay, ret);
}

static const bool contexts[] = { false, true };

static void name_context(const bool *hard, char *name)
{
	strscpy(name, *hard ? "interrupt" : "task", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(contexts, contexts, name_context);

static void cq_17_handlers_of_contexts_receive_and_send(struct kunit *test)
{
	struct relay *relay = (void *)tr_buffer(test, sizeof(*relay));
	bool hard = *(const bool *)test->param_value;

	init_completion(&relay->done);
	relay->hard = hard;
	relay->goal = 5 * SEP_DEFAULT;
	relay->in = (u64 *)tr_buffer(test, 2 * SEP_DEFAULT * 8);
	relay->out = (u64 *)tr_buffer(test, 2 * 8);
	for (int i = 0; i < 2; i++) {
		struct fi_cq_attr attr = {
			.format = FI_CQ_FORMAT_TAGGED, .flags = hard ? FI_CB_CTX_INTR : 0,
			.cq_event_handler = relay_handler,
		};
		struct sep *sep = sep_open_unbound(test, NULL);
		struct fid_cq *sent = fx_cq(test, sep->domain, &(struct fi_cq_attr) {
			.format = FI_CQ_FORMAT_TAGGED,
		});

		relay->side[i] = sep;
		KUNIT_ASSERT_EQ(test, 0, fi_cq_open(sep->domain, &attr, &relay->cq[i], relay));
		fx_defer_close(test, &relay->cq[i]->fid);
		KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep_bind(sep->ep, &sep->av->fid, 0));
		for (int k = 0; k < SEP_DEFAULT; k++) {
			sep->tx_cq[k] = sent;
			sep->rx_cq[k] = relay->cq[i];
			sep_open_tx(test, sep, k, 0);
			sep_open_rx(test, sep, k, 0);
		}
		KUNIT_ASSERT_EQ(test, 0, fi_getname(&sep->ep->fid, &sep->name, &sep->name_len));
	}
	for (int i = 0; i < 2; i++) {
		relay->to[i] = sep_addr(test, relay->side[i], &relay->side[!i]->name);
		for (int k = 0; k < SEP_DEFAULT; k++) {
			u64 *in = &relay->in[i * SEP_DEFAULT + k];

			KUNIT_ASSERT_EQ(test, 0, fi_recv(relay->side[i]->rx[k], in, 8, NULL,
							 FI_ADDR_UNSPEC, in));
		}
	}
	KUNIT_ASSERT_EQ(test, 0, pass_on(relay, 0, 0));
	KUNIT_EXPECT_NE(test, 0, wait_for_completion_timeout(&relay->done,
							     msecs_to_jiffies(FX_WAIT_MS)));
	KUNIT_EXPECT_EQ(test, 0, relay->error);
	KUNIT_EXPECT_FALSE(test, relay->wrong_context);
	/* With a receive context of each side closed, the message is not passed on any more. */
	for (int i = 0; i < 2; i++)
		fx_close(test, &relay->side[i]->rx[0]->fid);
}

#define THREADS	4
#define ROUNDS	300

struct worker {
	struct memory	*m;
	int		index;
	u8		*buf;
};

/* Each thread uses one transmit and one receive context, independently of the others. */
static int send_and_receive(struct tr_thread *thread)
{
	struct worker *worker = thread->arg;
	struct sep *a = worker->m->a, *b = worker->m->b;
	fi_addr_t to = fi_rx_addr(worker->m->to_b, worker->index, SEP_BITS);
	u8 *out = worker->buf, *in = out + SZ_32K;
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < ROUNDS && !kthread_should_stop(); i++) {
		size_t len = i % 8 ? 100 + i : SZ_32K;
		int ret;

		tr_fill(out, len, i * THREADS + worker->index);
		ret = fi_recv(b->rx[worker->index], in, len, NULL, FI_ADDR_UNSPEC, in) ?:
		      retry_while_eagain(fi_send(a->tx[worker->index], out, len, NULL, to, out));
		if (ret)
			return thread->result = ret;
		for (int k = 0; k < 2; k++)
			if (fi_cq_sread(k ? a->tx_cq[worker->index] : b->rx_cq[worker->index], &entry,
					1, NULL, FX_WAIT_MS) != 1)
				return thread->result = -FI_ETIMEDOUT;
		if (!tr_intact(in, len, i * THREADS + worker->index))
			return thread->result = -FI_EIO;
	}
	return 0;
}

static void rdm_08_threads_with_a_context_each(struct kunit *test)
{
	static const struct sep_opts opts = { .txs = THREADS, .rxs = THREADS };
	struct worker *workers = (void *)tr_buffer(test, THREADS * sizeof(*workers));
	struct memory *m = (void *)tr_buffer(test, sizeof(*m));
	struct tr_thread *threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		workers[i] = (struct worker){ m, i, tr_buffer(test, SZ_64K) };
	m->a = sep_open(test, &opts);
	m->b = sep_open(test, &opts);
	m->to_b = sep_addr(test, m->a, &m->b->name);
	for (int i = 0; i < THREADS; i++)
		threads[i] = tr_start(test, -1, send_and_receive, &workers[i]);
	for (int i = 0; i < THREADS; i++) {
		KUNIT_EXPECT_TRUE(test, tr_join_within(test, threads[i], 4 * FX_WAIT_MS));
		KUNIT_EXPECT_EQ(test, 0, threads[i]->result);
	}
}

/* Sends rendezvous messages to two peers until both refuse one; count: how many to each. */
static void exhaust_packets(struct kunit *test, struct sep *from, const fi_addr_t to[2], u8 *out,
			    int count[2])
{
	for (int i = 0; i < 2; i++) {
		ssize_t ret;

		count[i] = 0;
		while (!(ret = fi_send(from->tx[0], out, RNDV_LEN, NULL, to[i], out)))
			count[i]++;
		KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
	}
}

/* The first context uses all packets. The other one is refused, and only its handler reads. */
static void cq_16_the_handler_is_called_when_another_context_returns_its_packets(struct kunit *test)
{
	static const struct sep_opts opts = { .txs = 2, .rxs = 1, .rx_size = 256 };
	u8 *out = tr_vbuffer(test, RNDV_LEN), *in = tr_vbuffer(test, RNDV_LEN);
	struct sep *from = sep_open_unbound(test, &opts), *peer[2];
	struct kofi_fabric_fx fx = { .domain = from->domain };
	struct fi_cq_tagged_entry entry;
	struct completion *called;
	struct hd_queue *queue;
	fi_addr_t to[2];
	int count[2];
	char byte = 0;

	called = hd_completion(test);
	queue = hd_open(test, &fx, *(const bool *)test->param_value, hd_read_and_complete, called);
	from->tx_cq[1] = queue->cq;
	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep_bind(from->ep, &from->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(from->ep));
	for (int tx = 0; tx < 2; tx++)
		sep_open_tx(test, from, tx, 0);
	for (int i = 0; i < 2; i++) {
		peer[i] = sep_open(test, &opts);
		to[i] = sep_addr(test, from, &peer[i]->name);
		sep_exchange(test, from, 0, to[i], peer[i], 0);
	}
	exhaust_packets(test, from, to, out, count);
	KUNIT_ASSERT_EQ(test, -FI_EAGAIN, fi_inject(from->tx[1], &byte, 1, to[0]));
	for (int i = 0; i < 2; i++)
		for (int n = 0; n < count[i]; n++)
			KUNIT_ASSERT_EQ(test, 0, fi_recv(peer[i]->rx[0], in, RNDV_LEN, NULL,
							 FI_ADDR_UNSPEC, in));
	hd_inject_when_called(test, queue, from->tx[1], to[0]);
	for (int i = 0; i < 2; i++) {
		for (int n = 0; n < count[i]; n++) {
			sep_expect(test, peer[i]->rx_cq[0], in, &entry);
			sep_expect(test, from->tx_cq[0], out, &entry);
		}
	}
	fx_close(test, &from->tx[1]->fid);
	hd_close(test, queue);
	hd_check(test, queue);
}

static struct kunit_case rdm_contexts_run_cases[] = {
	KUNIT_CASE(rma_03_each_context_accesses_memory),
	KUNIT_CASE(rma_01_remote_cq_data_is_reported_by_context_0),
	KUNIT_CASE(atom_05_contexts_add_to_one_word),
	KUNIT_CASE_PARAM(cq_17_handlers_of_contexts_receive_and_send, contexts_gen_params),
	KUNIT_CASE_PARAM(cq_16_the_handler_is_called_when_another_context_returns_its_packets,
			 contexts_gen_params),
	KUNIT_CASE_SLOW(rdm_08_threads_with_a_context_each),
	{}
};

static struct kunit_suite rdm_contexts_run_suite = {
	.name = "kofi_rdm_contexts_run",
	.test_cases = rdm_contexts_run_cases,
};

kunit_test_suite(rdm_contexts_run_suite);
