// SPDX-License-Identifier: GPL-2.0
/*
 * Tests EP and CLOSE of CONTRACT for datagram endpoints with a shared transmit
 * context: all its endpoints share a number of pending operations, and an
 * operation's slot is free again when it completes or its endpoint closes.
 */

#include <linux/delay.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>

#include "handler.h"
#include "rdm.h"
#include "rdm_raw.h"
#include "rma.h"
#include "traffic.h"

#define LEN	100
#define PACKET	16384
#define LONGEST	SZ_256K
#define DEFAULT_TX	128
#define MAX_TX	2048
#define MEMBERS	3

/* Endpoints with one transmit context, in one domain; each has the others' addresses. */
struct world {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_stx		*stx;
	size_t			left;	/* what every peer can take of free slots: half */
	struct kofi_rdm		member[MEMBERS];
	fi_addr_t		to[MEMBERS][MEMBERS];	/* from, to */
};

static struct fi_info *hints(struct kunit *test)
{
	struct fi_info *hints = rdm_hints(test);

	hints->caps |= FI_RMA | FI_ATOMIC;
	hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	return hints;
}

static struct world *open_without_members(struct kunit *test, size_t size)
{
	struct fi_tx_attr attr = { .size = size };
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->info = fx_info_for(test, hints(test), fx_addr, NULL, FI_SOURCE);
	w->fabric = fx_fabric(test, w->info);
	w->domain = fx_domain(test, w->fabric, w->info);
	KUNIT_ASSERT_EQ(test, 0, fi_stx_context(w->domain, &attr, &w->stx, w));
	fx_defer_close(test, &w->stx->fid);
	w->left = DIV_ROUND_UP(size ?: DEFAULT_TX, 2);
	return w;
}

/* Opens a member without a transmit context; keeps its queue if there is one. */
static void make_member(struct kunit *test, struct world *w, int i)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct kofi_rdm *member = &w->member[i];

	*member = (struct kofi_rdm){
		.info = w->info, .fabric = w->fabric, .domain = w->domain,
		.cq = member->cq, .name_len = sizeof(member->name),
	};
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(w->domain, &av_attr, &member->av, NULL));
	fx_defer_close(test, &member->av->fid);
	member->cq = member->cq ?: fx_cq(test, w->domain, &cq_attr);
	member->ep = fx_ep(test, w->domain, w->info);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(member->ep, &member->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(member->ep, &member->cq->fid, FI_TRANSMIT | FI_RECV));
}

static void open_members(struct kunit *test, struct world *w)
{
	for (int i = 0; i < MEMBERS; i++) {
		struct kofi_rdm *member = &w->member[i];

		make_member(test, w, i);
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(member->ep, &w->stx->fid, 0));
		KUNIT_ASSERT_EQ(test, 0, fi_enable(member->ep));
		KUNIT_ASSERT_EQ(test, 0, fi_getname(&member->ep->fid, &member->name,
						    &member->name_len));
	}
	for (int i = 0; i < MEMBERS; i++)
		for (int j = 0; j < MEMBERS; j++)
			w->to[i][j] = rdm_addr(test, &w->member[i], &w->member[j]);
}

static struct world *open_world(struct kunit *test, size_t size)
{
	struct world *w = open_without_members(test, size);

	open_members(test, w);
	return w;
}

/* Waits until all slots are free: a slot is freed after its completion is written. */
static void await_free(struct kunit *test, struct world *w, int m)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (fi_tx_size_left(w->member[m].ep) != w->left && time_before(jiffies, end))
		usleep_range(100, 200);
	KUNIT_ASSERT_EQ(test, w->left, fi_tx_size_left(w->member[m].ep));
}

static void info_14_shared_transmit_contexts_of_datagrams(struct kunit *test)
{
	static const struct {
		u64	caps;
		size_t	rxs;
		int	ret;
		size_t	rx_cnt;
	} cases[] = {
		{ 0, 0, 0, 1 },
		{ FI_MULTI_RECV | FI_DIRECTED_RECV, 1, 0, 1 },
		{ 0, FI_SHARED_CONTEXT, 0, FI_SHARED_CONTEXT },
		{ 0, 2, -FI_ENODATA },
		{ FI_COLLECTIVE, 1, -FI_ENODATA },
	};

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fi_info *wanted = hints(test), *info = NULL;

		wanted->caps |= cases[i].caps;
		wanted->ep_attr->rx_ctx_cnt = cases[i].rxs;
		KUNIT_ASSERT_EQ(test, cases[i].ret,
				fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, wanted,
					   &info));
		if (cases[i].ret)
			continue;
		KUNIT_EXPECT_EQ(test, FI_SHARED_CONTEXT, info->ep_attr->tx_ctx_cnt);
		KUNIT_EXPECT_EQ(test, cases[i].rx_cnt, info->ep_attr->rx_ctx_cnt);
		KUNIT_EXPECT_EQ(test, 1, info->domain_attr->max_ep_stx_ctx);
		KUNIT_EXPECT_EQ(test, 0, info->caps & FI_COLLECTIVE);
		fi_freeinfo(info);
	}
}

static void stx_attributes_beyond_the_limits(struct kunit *test)
{
	struct world *w = open_without_members(test, 0);
	const struct fi_tx_attr wrong[] = {
		{ .size = MAX_TX + 1 },
		{ .size = SIZE_MAX },
		{ .iov_limit = 257 },
		{ .rma_iov_limit = 257 },
		{ .inject_size = PACKET + 1 },
		{ .caps = FI_MSG | FI_RECV },
		{ .op_flags = FI_MULTI_RECV },
		{ .msg_order = FI_ORDER_RAW },
		{ .comp_order = FI_ORDER_STRICT },
	};
	struct fid_stx *stx = NULL;

	for (int i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct fi_tx_attr attr = wrong[i];

		KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL, fi_stx_context(w->domain, &attr, &stx, NULL),
				    "attributes %d", i);
	}
	KUNIT_EXPECT_NULL(test, stx);
	/* NULL attributes, and those of the info, are accepted. */
	KUNIT_ASSERT_EQ(test, 0, fi_stx_context(w->domain, NULL, &stx, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&stx->fid));
	KUNIT_ASSERT_EQ(test, 0, fi_stx_context(w->domain, w->info->tx_attr, &stx, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&stx->fid));
}

static void stx_wrong_bindings(struct kunit *test)
{
	struct world *w = open_without_members(test, 1), *other = open_without_members(test, 1);
	struct fi_info *info = fi_dupinfo(w->info);
	struct fid *stx = &w->stx->fid;
	struct fid_ep *ordinary, *ep, *sep = NULL;

	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep(w->domain, info, &sep, NULL));
	info->caps |= FI_COLLECTIVE;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_endpoint(w->domain, info, &ordinary, NULL));
	info->ep_attr->tx_ctx_cnt = 1;
	ordinary = fx_ep(test, w->domain, info);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(ordinary, stx, 0));
	make_member(test, w, 0);
	ep = w->member[0].ep;
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_ep_bind(ep, stx, FI_TRANSMIT));
	KUNIT_EXPECT_EQ(test, -FI_EDOMAIN, fi_ep_bind(ep, &other->stx->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, stx, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(ep, stx, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(stx));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_ep_bind(ep, stx, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(stx));
}

/* A shared transmit context can only be closed. */
static void stx_other_calls_are_refused(struct kunit *test)
{
	struct world *w = open_without_members(test, 1);
	struct fid_ep *ep = (struct fid_ep *)w->stx;
	size_t len = sizeof(len);

	KUNIT_EXPECT_EQ(test, FI_CLASS_STX_CTX, w->stx->fid.fclass);
	KUNIT_EXPECT_PTR_EQ(test, (void *)w, w->stx->fid.context);
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cancel(&w->stx->fid, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_getopt(&w->stx->fid, FI_OPT_ENDPOINT,
						    FI_OPT_MIN_MULTI_RECV, &len, &len));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_control(&w->stx->fid, FI_ENABLE, NULL));
}

/* Rendezvous messages without a receive keep their slots. */
static void ep_04_a_full_shared_transmit_context(struct kunit *test)
{
	u8 *out = tr_vbuffer(test, LONGEST), *in = tr_vbuffer(test, 5 * LONGEST);
	struct world *w = open_world(test, 4);
	struct kofi_rdm *a = &w->member[0], *b = &w->member[1], *c = &w->member[2];
	struct fi_cq_tagged_entry entry;

	tr_fill(out, LONGEST, 1);
	KUNIT_EXPECT_EQ(test, 2, fi_tx_size_left(a->ep));
	/* A peer gets half of the slots at most, and all to which nothing completes three quarters. */
	for (int n = 0; n < 3; n++)
		KUNIT_ASSERT_EQ(test, n < 2 ? 0 : -FI_EAGAIN,
				fi_send(a->ep, out, LONGEST, NULL, w->to[0][2], out));
	for (int n = 0; n < 2; n++)
		KUNIT_ASSERT_EQ(test, n < 1 ? 0 : -FI_EAGAIN,
				fi_send(b->ep, out, LONGEST, NULL, w->to[1][2], out));
	for (int i = 0; i < MEMBERS; i++)
		KUNIT_EXPECT_EQ(test, 0, fi_tx_size_left(w->member[i].ep));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_write(b->ep, out, LEN, NULL, w->to[1][0], 0, 0, out));
	/* Each connection has a slot of its own. */
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
			fi_send(w->member[i].ep, out, LONGEST, NULL, w->to[i][2], out)));
	for (int n = 0; n < 5; n++) {
		u8 *to = in + n * LONGEST;

		KUNIT_ASSERT_EQ(test, 0, rdm_recv(c, FI_ADDR_UNSPEC, to, LONGEST, to));
	}
	for (int n = 0; n < 5; n++)
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, c->cq, &entry, 1));
	for (int n = 0; n < 5; n++) {
		rdm_expect(test, n < 3 ? a : b, out, NULL);
		KUNIT_EXPECT_TRUE(test, tr_intact(in + n * LONGEST, LONGEST, 1));
	}
	for (int i = 0; i < MEMBERS; i++)
		await_free(test, w, i);
}

KUNIT_ARRAY_PARAM(places, hd_hard, hd_name_context);

/* A member uses all slots. The other one's first post is refused, and only its handler reads. */
static void cq_16_the_handler_is_called_when_another_member_returns_its_packets(struct kunit *test)
{
	u8 *out = tr_vbuffer(test, LONGEST), *in = tr_vbuffer(test, LONGEST);
	struct world *w = open_without_members(test, 4);
	struct kofi_fabric_fx fx = { .domain = w->domain };
	struct kofi_rdm *user = &w->member[0], *refused = &w->member[1], *peer = &w->member[2];
	struct fi_cq_tagged_entry entry;
	struct completion *called;
	struct hd_queue *queue;
	char byte = 0;

	called = hd_completion(test);
	queue = hd_open(test, &fx, *(const bool *)test->param_value, hd_read_and_complete, called);
	refused->cq = queue->cq;
	open_members(test, w);
	for (int n = 0; n < 4; n++)
		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
			fi_send(user->ep, out, LONGEST, NULL, w->to[0][n < 2 ? 2 : 0], out)));
	KUNIT_ASSERT_EQ(test, -FI_EAGAIN, fi_inject(refused->ep, &byte, 1, w->to[1][2]));
	for (int n = 0; n < 4; n++) {
		struct kofi_rdm *to = n < 2 ? peer : user;

		KUNIT_ASSERT_EQ(test, 0, rdm_recv(to, FI_ADDR_UNSPEC, in, LONGEST, in));
	}
	hd_inject_when_called(test, queue, refused->ep, w->to[1][2]);
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(peer, FI_ADDR_UNSPEC, in, LONGEST, in));
	for (int n = 0; n < 3; n++)
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, peer->cq, &entry, 1));
	for (int n = 0; n < 6; n++)
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, user->cq, &entry, 1));
	await_free(test, w, 0);
	fx_close(test, &refused->ep->fid);
	hd_close(test, queue);
	hd_check(test, queue);
}

static void close_01_a_closed_member_frees_its_slots(struct kunit *test)
{
	u8 *out = tr_vbuffer(test, LONGEST);
	struct world *w = open_world(test, 4);
	struct kofi_rdm *closed = rdm_open(test, NULL);
	fi_addr_t to_closed = rdm_addr(test, &w->member[0], closed);

	/* Messages to a peer without receives, and to a closed peer. */
	for (int n = 0; n < 2; n++)
		KUNIT_ASSERT_EQ(test, 0, fi_send(w->member[0].ep, out, LONGEST, NULL, w->to[0][1], out));
	rdm_await_connected(test, &w->member[1], 1);
	fx_close(test, &closed->ep->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_send(w->member[0].ep, out, LEN, NULL, to_closed, out));
	fx_close(test, &w->member[0].ep->fid);
	KUNIT_EXPECT_EQ(test, w->left, fi_tx_size_left(w->member[1].ep));
	rdm_exchange(test, &w->member[1], w->to[1][2], &w->member[2]);
}

/* Queued sends are cancelled by their own endpoint, and free their slots for the others. */
static void rdm_11_queued_sends_of_a_shared_context_are_cancelled(struct kunit *test)
{
	struct world *w = open_world(test, 4);
	struct kofi_rdm *a = &w->member[0];
	struct fi_cq_err_entry error;
	u8 *out = tr_buffer(test, LEN);
	fi_addr_t to;

	raw_open_silent(test, &a->name, 1);
	to = raw_addr(test, a, 1);
	/* Half of the slots, and the connection's own. */
	for (int n = 0; n < 3; n++)
		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
			fi_send(a->ep, out, LEN, NULL, to, out + n)));
	KUNIT_ASSERT_EQ(test, -FI_EAGAIN, fi_send(a->ep, out, LEN, NULL, to, out + 3));
	KUNIT_EXPECT_EQ(test, 0, fi_tx_size_left(w->member[1].ep));
	for (int n = 0; n < 3; n++) {
		KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&w->member[1].ep->fid, out + n));
		KUNIT_ASSERT_EQ(test, 0, fi_cancel(&a->ep->fid, out + n));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, a->cq, &error));
		KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
		KUNIT_EXPECT_PTR_EQ(test, (void *)(out + n), error.op_context);
	}
	KUNIT_EXPECT_EQ(test, w->left, fi_tx_size_left(w->member[1].ep));
}

/* A failed send frees its slot. */
static void ep_04_failed_sends_free_their_slots(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN);
	struct world *w = open_world(test, 2);
	struct kofi_rdm *closed = rdm_open(test, NULL);
	fi_addr_t to_closed = rdm_addr(test, &w->member[0], closed);

	fx_close(test, &closed->ep->fid);
	for (int n = 0; n < 5; n++) {
		struct fi_cq_err_entry error = {};

		KUNIT_ASSERT_EQ(test, 0, rdm_send(&w->member[0], to_closed, out, LEN, out));
		KUNIT_ASSERT_EQ(test, -FI_EAVAIL, tr_await(w->member[0].cq));
		KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(w->member[0].cq, &error, 0));
		KUNIT_EXPECT_PTR_EQ(test, (void *)out, error.op_context);
		await_free(test, w, 1);
	}
}

/* A side of two members that send to each other, on one CPU each. */
struct side {
	struct world	*w;
	int		n;
	int		rounds;
	u8		*out, *in;	/* LONGEST each */
	u64		*word, one, old, key;
	struct side	*other;
};

static const size_t lens[] = { 0, LEN, PACKET, PACKET + 1, 50000, 8 * PACKET, LONGEST };

/* Sends, receives and increments the other side's word; no operation waits for another. */
static int send_and_receive(struct tr_thread *thread)
{
	struct side *side = thread->arg, *other = side->other;
	struct kofi_rdm *rdm = &side->w->member[side->n];
	fi_addr_t to = side->w->to[side->n][other->n];
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < side->rounds && !kthread_should_stop(); i++) {
		size_t len = lens[i % ARRAY_SIZE(lens)];
		int ret;

		tr_fill(side->out, len, i);
		ret = rdm_recv(rdm, FI_ADDR_UNSPEC, side->in, LONGEST, NULL) ?:
		      rdm_send(rdm, to, side->out, len, NULL) ?:
		      retry_while_eagain(fi_fetch_atomic(rdm->ep, &side->one, 1, NULL, &side->old,
							 NULL, to, (uintptr_t)other->word,
							 other->key, FI_UINT64, FI_SUM, NULL));
		if (ret)
			return thread->result = ret;
		for (int left = 3; left--;)
			if (fi_cq_sread(rdm->cq, &entry, 1, NULL, FX_WAIT_MS) != 1)
				return thread->result = -FI_ETIMEDOUT;
		if (!tr_intact(side->in, len, i))
			return thread->result = -FI_EIO;
		if (side->old != i)
			return thread->result = -FI_EOTHER;
	}
	return 0;
}

/* There are fewer slots than operations; each side always makes progress. */
static void ep_04_two_members_with_three_slots(struct kunit *test)
{
	struct side *sides = (void *)tr_buffer(test, 2 * sizeof(*sides));
	struct tr_thread *threads[2];
	struct world *w;
	u8 *bufs[4];

	for (int i = 0; i < ARRAY_SIZE(bufs); i++)
		bufs[i] = tr_vbuffer(test, LONGEST);
	w = open_world(test, 3);
	for (int n = 0; n < 2; n++) {
		struct fid_mr *mr;

		sides[n] = (struct side){
			.w = w, .n = n, .rounds = tr_rounds, .one = 1,
			.out = bufs[2 * n], .in = bufs[2 * n + 1],
			.word = (u64 *)tr_buffer(test, sizeof(u64)), .other = &sides[!n],
		};
		KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(w->domain, sides[n].word, sizeof(u64), RMA_BOTH,
						   0, 0, 0, &mr, NULL));
		fx_defer_close(test, &mr->fid);
		sides[n].key = fi_mr_key(mr);
	}
	for (int n = 0; n < 2; n++)
		threads[n] = tr_start(test, n % num_online_cpus(), send_and_receive, &sides[n]);
	for (int n = 0; n < 2; n++) {
		KUNIT_ASSERT_TRUE_MSG(test, tr_join(test, threads[n]),
				      "waited for the thread of side %d", n);
		KUNIT_EXPECT_EQ(test, 0, threads[n]->result);
	}
	for (int n = 0; n < 2; n++)
		KUNIT_EXPECT_EQ(test, sides[n].rounds, *sides[n].word);
	await_free(test, w, 2);
}

static int close_fid(struct tr_thread *thread)
{
	return thread->result = fi_close(thread->arg);
}

/* The context is closed as soon as no endpoint is bound. */
static void close_03_two_members_close_at_once(struct kunit *test)
{
	u8 *out = tr_vbuffer(test, LONGEST);

	for (int round = 0; round < 8; round++) {
		struct world *w = open_world(test, 16);
		struct tr_thread *threads[2];

		for (int n = 0; n < 2; n++) {
			struct kofi_rdm *member = &w->member[n];

			for (int i = 0; i < 1 + round % 3; i++)
				KUNIT_ASSERT_EQ(test, 0, fi_send(member->ep, out, LONGEST, NULL,
								 w->to[n][round % 2 ? !n : 2], out));
			if (round & 4)
				rdm_await_connected(test, member, 1);
			fx_cancel_close(test, &member->ep->fid);
		}
		for (int n = 0; n < 2; n++)
			threads[n] = tr_start(test, n % num_online_cpus(), close_fid,
					      &w->member[n].ep->fid);
		for (int n = 0; n < 2; n++) {
			KUNIT_ASSERT_TRUE(test, tr_join(test, threads[n]));
			KUNIT_EXPECT_EQ(test, 0, threads[n]->result);
		}
		KUNIT_EXPECT_EQ(test, w->left, fi_tx_size_left(w->member[2].ep));
		KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&w->stx->fid));
		fx_close(test, &w->member[2].ep->fid);
		fx_close(test, &w->stx->fid);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(info_14_shared_transmit_contexts_of_datagrams),
	KUNIT_CASE(stx_attributes_beyond_the_limits),
	KUNIT_CASE(stx_wrong_bindings),
	KUNIT_CASE(stx_other_calls_are_refused),
	KUNIT_CASE(ep_04_a_full_shared_transmit_context),
	KUNIT_CASE_PARAM(cq_16_the_handler_is_called_when_another_member_returns_its_packets,
			 places_gen_params),
	KUNIT_CASE(close_01_a_closed_member_frees_its_slots),
	KUNIT_CASE(rdm_11_queued_sends_of_a_shared_context_are_cancelled),
	KUNIT_CASE(ep_04_failed_sends_free_their_slots),
	KUNIT_CASE_SLOW(ep_04_two_members_with_three_slots),
	KUNIT_CASE_SLOW(close_03_two_members_close_at_once),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_stx",
	.test_cases = cases,
};

kunit_test_suite(suite);
