// SPDX-License-Identifier: GPL-2.0
/*
 * Tests EP of CONTRACT for connected endpoints with a shared receive context. A
 * receive takes a message of any endpoint that is bound to the context, and
 * completes in the CQ of the endpoint at which the message arrived.
 */

#include <linux/delay.h>

#include "handler.h"
#include "srx.h"

#define LEN SX_LEN
#define SIZE 16

static void info_14_shared_receive_contexts_are_offered(struct kunit *test)
{
	struct fi_info *ordinary = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct fi_info *info = sx_info(test, NULL), *found = NULL;
	struct fi_info *hints = fx_hints(test);

	KUNIT_EXPECT_EQ(test, 1, ordinary->ep_attr->rx_ctx_cnt);
	KUNIT_EXPECT_EQ(test, 1, ordinary->domain_attr->max_ep_srx_ctx);
	KUNIT_EXPECT_EQ(test, 0, ordinary->domain_attr->max_ep_stx_ctx);
	KUNIT_EXPECT_EQ(test, FI_SHARED_CONTEXT, info->ep_attr->rx_ctx_cnt);
	KUNIT_EXPECT_EQ(test, 0, info->caps & FI_MULTI_RECV);

	/* FI_MULTI_RECV is not offered with FI_SHARED_CONTEXT; shared transmit contexts never are. */
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	hints->caps |= FI_MULTI_RECV;
	KUNIT_EXPECT_EQ(test, -FI_ENODATA,
			fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
				   hints, &found));
	hints->ep_attr->rx_ctx_cnt = 0;
	hints->caps = FI_MSG;
	hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	KUNIT_EXPECT_EQ(test, -FI_ENODATA,
			fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
				   hints, &found));
	KUNIT_EXPECT_NULL(test, found);
}

/* A message of any peer takes the oldest receive, which completes in the CQ of its endpoint. */
static void srx_messages_of_several_peers_in_posting_order(struct kunit *test)
{
	static const struct sx_opts opts = { .peers = SX_PEERS };
	u8 *buf = tr_buffer(test, SIZE * LEN), *sent = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, &opts);

	for (int round = 0; round < 5; round++) {
		sx_post(test, world, buf, SIZE);
		for (int i = 0; i < SIZE; i++) {
			unsigned int peer = (i * 7 + round) % SX_PEERS;

			tr_fill(sent, LEN, i + 100 * round);
			sx_send(test, world, peer, sent, LEN);
			tr_expect(test, world->cq[peer], buf + i * LEN, FI_RECV,
				  LEN);
			KUNIT_EXPECT_TRUE(test, tr_intact(buf + i * LEN, LEN,
							  i + 100 * round));
		}
	}
	for (int i = 0; i < SX_PEERS; i++)
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
				fi_cq_read(world->cq[i], NULL, 0));
}

/* Each CQ has the entries of its endpoint in order and once, whichever CQ is read first. */
static void srx_completions_are_read_in_any_order(struct kunit *test)
{
	static const struct sx_opts opts = { .peers = SX_PEERS };
	u8 *buf = tr_buffer(test, SIZE * LEN), *sent = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, &opts);
	u32 seen = 0;

	sx_post(test, world, buf, SIZE);
	for (int i = 0; i < SIZE - 1; i++)
		sx_send(test, world, i % SX_PEERS, sent, i + 1);
	for (int peer = SX_PEERS - 1; peer >= 0; peer--) {
		struct fi_cq_tagged_entry entries[SIZE / SX_PEERS] = {};

		KUNIT_ASSERT_EQ(test, ARRAY_SIZE(entries),
				fx_wait_comp(test, world->cq[peer], entries,
					     ARRAY_SIZE(entries)));
		for (int i = 0; i < ARRAY_SIZE(entries); i++) {
			long index = ((u8 *)entries[i].op_context - buf) / LEN;

			KUNIT_EXPECT_EQ(test, i * SX_PEERS + peer, index);
			KUNIT_EXPECT_EQ(test, index + 1, entries[i].len);
			seen |= BIT(index);
		}
	}
	KUNIT_EXPECT_EQ(test, BIT(SIZE - 1) - 1, seen);
	/* The receive that no message has taken is still posted. */
	sx_send(test, world, 1, sent, LEN);
	tr_expect(test, world->cq[1], buf + (SIZE - 1) * LEN, FI_RECV, LEN);
}

static void ep_03_shared_receives_before_the_connection(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN), *sent = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, NULL);

	sx_post(test, world, buf, 2);
	for (int i = 0; i < 2; i++) {
		sx_connect(test, world, i);
		sx_send(test, world, i, sent, LEN);
		tr_expect(test, world->cq[i], buf + i * LEN, FI_RECV, LEN);
	}
}

static void ep_04_a_full_shared_queue(struct kunit *test)
{
	static const struct sx_opts opts = { .size = 3, .peers = 2 };
	u8 *buf = tr_buffer(test, 4 * LEN), *sent = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, &opts);
	/* A receive keeps its slot until its entry is read; on loop, until it completes. */
	const bool is_kept = !tr_is_loop(world->info);

	KUNIT_EXPECT_EQ(test, 3, fi_rx_size_left(world->srx));
	sx_post(test, world, buf, 3);
	KUNIT_EXPECT_EQ(test, 0, fi_rx_size_left(world->srx));
	for (int round = 0; round < 10; round++) {
		int next = (round + 3) % 4;

		KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
				tr_recv(world->srx, buf + next * LEN, LEN));
		sx_send(test, world, round % 2, sent, LEN);
		/* The receive has completed, and its entry has not been read. */
		KUNIT_EXPECT_EQ(test, 0, tr_await(world->cq[round % 2]));
		KUNIT_EXPECT_EQ(test, is_kept ? 0 : 1,
				fi_rx_size_left(world->srx));
		if (is_kept)
			KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
					tr_recv(world->srx, buf + next * LEN,
						LEN));
		tr_expect(test, world->cq[round % 2], buf + round % 4 * LEN,
			  FI_RECV, LEN);
		KUNIT_EXPECT_EQ(test, 1, fi_rx_size_left(world->srx));
		sx_post(test, world, buf + next * LEN, 1);
	}
}

static void ep_05_shared_receives_of_zero_bytes(struct kunit *test)
{
	static const struct sx_opts opts = { .peers = 1 };
	struct sx_world *world = sx_open(test, &opts);
	char mark[2];

	KUNIT_ASSERT_EQ(test, 0, sx_recvmsg(world->srx, 0, mark));
	KUNIT_ASSERT_EQ(test, 0, fi_recvv(world->srx, NULL, NULL, 0,
					  FI_ADDR_UNSPEC, mark + 1));
	for (int i = 0; i < 2; i++) {
		sx_send(test, world, 0, NULL, 0);
		tr_expect(test, world->cq[0], mark + i, FI_RECV, 0);
	}
}

/* FI_SELECTIVE_COMPLETION of the CQ binding of the receiving endpoint decides about an entry. */
static void ep_07_selective_completion_of_shared_receives(struct kunit *test)
{
	static const struct sx_opts opts = {
		.rx_flags = FI_SELECTIVE_COMPLETION,
		.size = 4,
		.peers = 1,
	};
	struct sx_world *world = sx_open(test, &opts);
	char mark[4];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			KUNIT_ASSERT_EQ(test, 0,
					sx_recvmsg(world->srx,
						i == 3 ? FI_COMPLETION : 0,
						mark + i));
		for (int i = 0; i < 4; i++)
			sx_send(test, world, 0, NULL, 0);
		tr_expect(test, world->cq[0], mark + 3, FI_RECV, 0);
		KUNIT_EXPECT_EQ(test, 4, fi_rx_size_left(world->srx));
	}
}

static void ep_08_flags_of_shared_receives(struct kunit *test)
{
	struct sx_world *world = sx_open(test, NULL);

	KUNIT_EXPECT_EQ(test, 0, sx_recvmsg(world->srx, FI_MORE, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
			sx_recvmsg(world->srx, FI_MULTI_RECV, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			sx_recvmsg(world->srx, FI_INJECT, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			sx_recvmsg(world->srx, FI_MULTI_RECV | FI_PEEK, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recvmsg(world->srx, NULL, 0));
	KUNIT_EXPECT_EQ(test, SIZE - 1, fi_rx_size_left(world->srx));
}

/* Receives of several segments, with and without descriptors, in linear and vmalloc memory. */
static void ep_09_shared_receives_with_several_kvecs(struct kunit *test)
{
	static const struct sx_opts opts = { .segments = 3, .peers = 1 };
	u8 *buf = tr_buffer(test, 4 * LEN), *pages = tr_vbuffer(test, 4 * LEN);
	u8 *sent = tr_buffer(test, 3 * LEN), *got = tr_buffer(test, 3 * LEN);
	struct sx_world *world = sx_open(test, &opts);
	struct kvec iov[4] = {
		{ buf, LEN }, { pages, LEN }, { buf + LEN, LEN }, { pages, 1 },
	};
	void *desc[3] = {};
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(world->domain, buf, 2 * LEN, FI_RECV,
					   0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recvv(world->srx, iov, NULL, 4,
						   FI_ADDR_UNSPEC, NULL));
	/* The second segment is outside of the region whose descriptor it has. */
	desc[1] = fi_mr_desc(mr);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recvv(world->srx, iov, desc, 3,
						   FI_ADDR_UNSPEC, NULL));
	desc[1] = NULL;
	desc[0] = fi_mr_desc(mr);
	desc[2] = desc[0];
	KUNIT_EXPECT_EQ(test, SIZE, fi_rx_size_left(world->srx));

	for (int round = 0; round < 2; round++) {
		KUNIT_ASSERT_EQ(test, 0, fi_recvv(world->srx, iov,
						  round ? desc : NULL, 3,
						  FI_ADDR_UNSPEC, iov));
		tr_fill(sent, 3 * LEN, round);
		sx_send(test, world, 0, sent, 3 * LEN);
		tr_expect(test, world->cq[0], iov, FI_RECV, 3 * LEN);
		memcpy(got, buf, LEN);
		memcpy(got + LEN, pages, LEN);
		memcpy(got + 2 * LEN, buf + LEN, LEN);
		KUNIT_EXPECT_TRUE(test, tr_intact(got, 3 * LEN, round));
	}
	/* The fast path: one segment in a region. */
	KUNIT_ASSERT_EQ(test, 0, fi_recv(world->srx, buf + 1, LEN, desc[0],
					 FI_ADDR_UNSPEC, buf));
	sx_send(test, world, 0, sent, LEN);
	tr_expect(test, world->cq[0], buf, FI_RECV, LEN);
	KUNIT_EXPECT_EQ(test, 0, memcmp(buf + 1, sent, LEN));
}

static void ep_09_a_shared_receive_that_is_too_long(struct kunit *test)
{
	struct sx_world *world = sx_open(test, NULL);
	size_t len = world->info->ep_attr->max_msg_size + 1;

	if (!len)
		kunit_skip(test, "messages of any length");
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE,
			tr_recv(world->srx, world, len));
}

static void ep_10_shared_receives_cannot_be_cancelled(struct kunit *test)
{
	struct sx_world *world = sx_open(test, NULL);

	KUNIT_ASSERT_EQ(test, 0, sx_recvmsg(world->srx, 0, world));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
			fi_cancel(&world->srx->fid, world));
}

/* A shared receive context refuses all calls but receives, and its endpoints refuse receives. */
static void srx_other_calls_are_refused(struct kunit *test)
{
	static const struct sx_opts opts = { .peers = 1 };
	u8 *buf = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, &opts);
	struct fid_ep *srx = world->srx;
	struct fid_stx *stx = NULL;
	struct fi_tx_attr attr = {};
	size_t len = 0;

	KUNIT_EXPECT_EQ(test, FI_CLASS_SRX_CTX, srx->fid.fclass);
	KUNIT_EXPECT_PTR_EQ(test, (void *)world, srx->fid.context);
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, tr_send(srx, buf, LEN));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_inject(srx, buf, LEN, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_enable(srx));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_ep_bind(srx, &world->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_getname(&srx->fid, buf, &len));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_accept(srx, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_tx_size_left(srx));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS,
			fi_getopt(&srx->fid, FI_OPT_ENDPOINT,
				  FI_OPT_MIN_MULTI_RECV, &len, &len));

	/* Receives cannot be posted to an endpoint that is bound to a context. */
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, tr_recv(world->ep[0], buf, LEN));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, sx_recvmsg(world->ep[0], 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS,
			sx_recvmsg(world->ep[0], FI_MULTI_RECV, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_rx_size_left(world->ep[0]));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_stx_context(world->domain, &attr,
							 &stx, NULL));
	KUNIT_EXPECT_NULL(test, stx);
}

static void srx_attributes_beyond_the_limits(struct kunit *test)
{
	struct sx_world *world = sx_open(test, NULL);
	const struct fi_rx_attr good = *world->info->rx_attr;
	struct fi_rx_attr attr;
	struct fid_ep *srx = NULL;

	attr = (struct fi_rx_attr) { .size = SIZE_MAX };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_srx_context(world->domain, &attr, &srx, NULL));
	attr = (struct fi_rx_attr) { .iov_limit = 1000 };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_srx_context(world->domain, &attr, &srx, NULL));
	attr = (struct fi_rx_attr) { .caps = FI_MULTI_RECV };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_srx_context(world->domain, &attr, &srx, NULL));
	attr = (struct fi_rx_attr) { .op_flags = FI_PEER };
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_srx_context(world->domain, &attr, &srx, NULL));
	KUNIT_EXPECT_NULL(test, srx);

	/* Attributes of zeroes, and those of the info, are accepted. */
	attr = (struct fi_rx_attr) {};
	KUNIT_ASSERT_EQ(test, 0,
			fi_srx_context(world->domain, &attr, &srx, NULL));
	KUNIT_EXPECT_GT(test, fi_rx_size_left(srx), 0);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&srx->fid));
	attr = good;
	KUNIT_ASSERT_EQ(test, 0,
			fi_srx_context(world->domain, &attr, &srx, NULL));
	KUNIT_EXPECT_EQ(test, good.size, fi_rx_size_left(srx));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&srx->fid));
}

static void srx_wrong_bindings(struct kunit *test)
{
	struct fi_cq_attr cq_attr = {};
	struct sx_world *world = sx_open(test, NULL), *other;
	struct fid_cq *cq = fx_cq(test, world->domain, &cq_attr);
	struct fid_ep *ep = sx_ep(test, world, world->info, cq);
	struct fid_ep *ordinary = sx_ep(test, world, world->plain, cq);
	struct fid *srx = &world->srx->fid;

	KUNIT_EXPECT_EQ_MSG(test, -FI_ENORX, fi_enable(ep), "no shared receive context is bound");
	KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL, fi_ep_bind(ordinary, srx, 0),
			    "an endpoint without FI_SHARED_CONTEXT");
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_ep_bind(ep, srx, FI_RECV));
	other = sx_open(test, NULL);
	KUNIT_EXPECT_EQ(test, -FI_EDOMAIN, fi_ep_bind(ep, &other->srx->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, srx, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(ep, srx, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_ep_bind(ep, srx, 0));
	/* An endpoint binds no endpoint, and a passive endpoint no receive context. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(ordinary, &ordinary->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_pep_bind(world->pep, srx, 0));
}

/* A CQ reserves slots for all receives of a context once: when the first endpoint is enabled. */
static void cq_14_slots_for_shared_receives(struct kunit *test)
{
	struct sx_world *world = sx_open(test, &(struct sx_opts) {
		.size = 600,
		.cq_size = 700,
		.peers = 2,
	});
	struct fid_ep *ep, *srx = sx_srx(test, world);
	struct fid_cq *cq = world->cq[0];

	tr_needs_device(test, world->info);
	/* An endpoint of another context does not fit. */
	ep = sx_ep(test, world, world->info, cq);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &srx->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSPC, fi_enable(ep));
	/* An endpoint of the same context needs no more slots. */
	fx_close(test, &ep->fid);
	ep = sx_ep(test, world, world->info, cq);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &world->srx->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
	fx_close(test, &ep->fid);
	/* Closing the context's last endpoint releases the slots. */
	fx_close(test, &world->ep[0]->fid);
	ep = sx_ep(test, world, world->info, cq);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &srx->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
}

/* Receives that an ordinary endpoint has posted keep their slots when the CQ starts accounting. */
static void cq_14_slots_of_other_endpoints_are_not_for_shared_receives(struct kunit *test)
{
	enum { MANY = 1000 };
	struct fi_cq_attr attr = { .size = MANY };
	struct sx_world *world = sx_open(test, &(struct sx_opts) {
		.size = MANY,
	});
	struct fid_cq *cq = fx_cq(test, world->domain, &attr);
	struct fid_ep *ep, *ordinary;

	tr_needs_device(test, world->info);
	world->info->tx_attr->size = 8;
	world->plain->tx_attr->size = 8;
	world->plain->rx_attr->size = MANY;
	ordinary = sx_ep(test, world, world->plain, cq);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ordinary));
	for (int i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, sx_recvmsg(ordinary, 0, world));
	ep = sx_ep(test, world, world->info, cq);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &world->srx->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSPC, fi_enable(ep));
	fx_close(test, &ordinary->fid);
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
}

/* A CQ holds the entries of all receives of a context, even if it is not read meanwhile. */
static void cq_14_shared_receives_overrun_no_queue(struct kunit *test)
{
	enum { MANY = 200 };
	struct sx_world *world = sx_open(test, &(struct sx_opts) {
		.size = MANY,
		.cq_size = MANY,
		.peers = 1,
	});
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, sx_recvmsg(world->srx, 0, world + i));
	for (int i = 0; i < MANY; i++)
		sx_send(test, world, 0, NULL, 0);
	for (int i = 0; i < MANY; i++) {
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->cq[0],
						      &entry, 1));
		KUNIT_EXPECT_PTR_EQ(test, (void *)(world + i), entry.op_context);
	}
}

static void cntr_03_shared_receives_count_for_their_endpoint(struct kunit *test)
{
	static const struct sx_opts opts = { .peers = 2, .count = true };
	u8 *buf = tr_buffer(test, 2 * LEN), *sent = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, &opts);
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	sx_post(test, world, buf, 2);
	tr_fill(sent, LEN, 5);
	sx_send(test, world, 0, sent, LEN);
	sx_send(test, world, 1, sent, LEN);
	while (fi_cntr_read(world->cntr) < 2 && time_before(jiffies, deadline))
		fsleep(1000);
	KUNIT_EXPECT_EQ(test, 2, fi_cntr_read(world->cntr));
	KUNIT_EXPECT_TRUE(test, tr_intact(buf, LEN, 5));
	for (int i = 0; i < 2; i++)
		tr_expect(test, world->cq[i], buf + i * LEN, FI_RECV, LEN);
	KUNIT_EXPECT_EQ(test, 2, fi_cntr_read(world->cntr));
}

static void cq_13_remote_data_beside_shared_receives(struct kunit *test)
{
	static const struct sx_opts opts = { .peers = 2 };
	u8 *buf = tr_buffer(test, 2 * LEN), *sent = tr_buffer(test, LEN);
	struct sx_world *world = sx_open(test, &opts);
	struct fi_cq_tagged_entry entry;

	if (!world->info->domain_attr->cq_data_size)
		kunit_skip(test, "the device has no remote CQ data");
	sx_post(test, world, buf, 2);
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_senddata(world->peer[i], sent, LEN,
						     NULL, 0x01020304 + i, 0,
						     NULL));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->cq[i],
						      &entry, 1));
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA,
				entry.flags);
		KUNIT_EXPECT_EQ(test, 0x01020304 + i, entry.data);
		KUNIT_EXPECT_PTR_EQ(test, (void *)(buf + i * LEN),
				    entry.op_context);
	}
}

/* A truncated message uses one receive and ends its connection; other endpoints continue. */
static void cq_08_a_truncated_message_ends_only_its_connection(struct kunit *test)
{
	static const struct sx_opts opts = { .peers = 2 };
	u8 *buf = tr_buffer(test, 3 * LEN), *sent = tr_buffer(test, 2 * LEN);
	struct sx_world *world = sx_open(test, &opts);
	struct fi_cq_err_entry error = {};

	sx_post(test, world, buf, 3);
	KUNIT_ASSERT_EQ(test, 0, tr_send(world->peer[0], sent, 2 * LEN));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, world->cq[0], &error));
	KUNIT_EXPECT_PTR_EQ(test, (void *)buf, error.op_context);
	KUNIT_EXPECT_GT(test, error.err, 0);
	sx_send(test, world, 1, sent, LEN);
	tr_expect(test, world->cq[1], buf + LEN, FI_RECV, LEN);
	sx_send(test, world, 1, sent, LEN);
	tr_expect(test, world->cq[1], buf + 2 * LEN, FI_RECV, LEN);
}

/* State of a handler that reposts each receive that it reads. */
struct repost {
	struct sx_world	*world;
	atomic_t	received;
	int		wrong;
};

static void repost_handler(struct hd_queue *queue)
{
	struct repost *repost = queue->data;
	struct fi_cq_tagged_entry entry;

	while (fi_cq_read(queue->cq, &entry, 1) == 1) {
		if (entry.flags != (FI_RECV | FI_MSG) || entry.len != LEN)
			continue;
		if (tr_recv(repost->world->srx, entry.op_context, LEN))
			repost->wrong++;
		atomic_inc(&repost->received);
	}
}

KUNIT_ARRAY_PARAM(places, hd_hard, hd_name_context);

static void cq_17_a_handler_posts_shared_receives(struct kunit *test)
{
	const bool hard = *(const bool *)test->param_value;
	struct sx_world *world = sx_open(test, &(struct sx_opts) {
		.size = 4,
		.threading = FI_THREAD_SAFE,
	});
	struct repost *repost = (void *)tr_buffer(test, sizeof(*repost));
	u8 *buf = tr_buffer(test, 4 * LEN), *sent = tr_buffer(test, LEN);
	struct kofi_fabric_fx fx = { .domain = world->domain };
	unsigned long deadline;
	int sends = 0;

	repost->world = world;
	for (int i = 0; i < 2; i++) {
		struct fi_cq_attr attr = {
			.format = FI_CQ_FORMAT_TAGGED,
			.wait_obj = FI_WAIT_UNSPEC,
		};

		world->cq[i] = hd_open(test, &fx, hard, repost_handler, repost)->cq;
		world->peer_cq[i] = fx_cq(test, world->domain, &attr);
	}
	sx_post(test, world, buf, 4);
	for (int i = 0; i < 2; i++)
		sx_connect(test, world, i);
	deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	while (sends < 100 && time_before(jiffies, deadline)) {
		/* Sends no more than there are receives: on iWARP one more ends the connection. */
		if (sends - atomic_read(&repost->received) < 4) {
			sx_send(test, world, sends & 1, sent, LEN);
			sends++;
		} else {
			usleep_range(50, 100);
		}
	}
	KUNIT_EXPECT_EQ(test, 100, sends);
	while (atomic_read(&repost->received) < sends &&
	       time_before(jiffies, deadline))
		usleep_range(50, 100);
	KUNIT_EXPECT_EQ(test, sends, atomic_read(&repost->received));
	KUNIT_EXPECT_EQ(test, 0, repost->wrong);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(info_14_shared_receive_contexts_are_offered),
	KUNIT_CASE(srx_messages_of_several_peers_in_posting_order),
	KUNIT_CASE(srx_completions_are_read_in_any_order),
	KUNIT_CASE(ep_03_shared_receives_before_the_connection),
	KUNIT_CASE(ep_04_a_full_shared_queue),
	KUNIT_CASE(ep_05_shared_receives_of_zero_bytes),
	KUNIT_CASE(ep_07_selective_completion_of_shared_receives),
	KUNIT_CASE(ep_08_flags_of_shared_receives),
	KUNIT_CASE(ep_09_shared_receives_with_several_kvecs),
	KUNIT_CASE(ep_09_a_shared_receive_that_is_too_long),
	KUNIT_CASE(ep_10_shared_receives_cannot_be_cancelled),
	KUNIT_CASE(srx_other_calls_are_refused),
	KUNIT_CASE(srx_attributes_beyond_the_limits),
	KUNIT_CASE(srx_wrong_bindings),
	KUNIT_CASE(cq_08_a_truncated_message_ends_only_its_connection),
	KUNIT_CASE(cq_13_remote_data_beside_shared_receives),
	KUNIT_CASE(cq_14_slots_for_shared_receives),
	KUNIT_CASE(cq_14_slots_of_other_endpoints_are_not_for_shared_receives),
	KUNIT_CASE(cq_14_shared_receives_overrun_no_queue),
	KUNIT_CASE_PARAM(cq_17_a_handler_posts_shared_receives,
			 places_gen_params),
	KUNIT_CASE(cntr_03_shared_receives_count_for_their_endpoint),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_srx",
	.test_cases = cases,
};

kunit_test_suite(suite);
