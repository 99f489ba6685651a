// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM and EP of CONTRACT for datagram endpoints with a shared receive
 * context: its receives take messages of all its endpoints, and each completes
 * in its own endpoint's queue.
 */

#include <linux/delay.h>
#include <rdma/fi_ext.h>

#include "rdm_srx.h"

#define LEN	100
#define PACKET	16384
#define LONGEST	SZ_256K

/* Lengths of eager, segmented and rendezvous messages. */
static const size_t lens[] = { 0, LEN, PACKET, 50000, 8 * PACKET, LONGEST };

static void info_14_shared_receive_contexts_of_datagrams(struct kunit *test)
{
	static const struct {
		u64	caps;
		size_t	txs;
		int	ret;
		size_t	tx_cnt;
	} cases[] = {
		{ FI_RMA | FI_ATOMIC | FI_SOURCE, 1, 0, 1 },
		{ FI_NAMED_RX_CTX, 0, 0, 1 },
		{ FI_MULTI_RECV, 1, -FI_ENODATA },
		{ FI_DIRECTED_RECV, 1, -FI_ENODATA },
		{ 0, 2, -FI_ENODATA },
		{ 0, FI_SHARED_CONTEXT, 0, FI_SHARED_CONTEXT },
	};

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fi_info *hints = rs_hints(test), *info = NULL;

		hints->caps |= cases[i].caps;
		hints->ep_attr->tx_ctx_cnt = cases[i].txs;
		KUNIT_ASSERT_EQ(test, cases[i].ret,
				fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints,
					   &info));
		if (cases[i].ret)
			continue;
		KUNIT_EXPECT_EQ(test, cases[i].tx_cnt, info->ep_attr->tx_ctx_cnt);
		KUNIT_EXPECT_EQ(test, FI_SHARED_CONTEXT, info->ep_attr->rx_ctx_cnt);
		KUNIT_EXPECT_EQ(test, 1, info->domain_attr->max_ep_srx_ctx);
		KUNIT_EXPECT_EQ(test, 0, info->caps & (FI_MULTI_RECV | FI_DIRECTED_RECV));
		fi_freeinfo(info);
	}
}

static void srx_attributes_beyond_the_limits_of_datagrams(struct kunit *test)
{
	struct rs_world *world = rs_open(test, NULL);
	const struct fi_rx_attr wrong[] = {
		{ .size = 16385 },
		{ .iov_limit = 257 },
		{ .caps = FI_MSG | FI_MULTI_RECV },
		{ .caps = FI_MSG | FI_DIRECTED_RECV },
		{ .op_flags = FI_MULTI_RECV },
		{ .op_flags = FI_PEER },
	};
	struct fi_rx_attr attr = { .caps = FI_MSG | FI_RECV };
	struct fid_ep *srx = NULL;

	for (int i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct fi_rx_attr attr = wrong[i];

		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				fi_srx_context(world->domain, &attr, &srx, NULL));
	}
	KUNIT_EXPECT_NULL(test, srx);
	/* The attributes of the info are accepted; a context has space for that many receives. */
	KUNIT_ASSERT_EQ(test, 0, fi_srx_context(world->domain, world->info->rx_attr, &srx, NULL));
	KUNIT_EXPECT_EQ(test, world->info->rx_attr->size, fi_rx_size_left(srx));
	KUNIT_EXPECT_EQ(test, 0, fi_trecv(srx, NULL, 0, NULL, FI_ADDR_UNSPEC, 0, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&srx->fid));
	/* A context without FI_TAGGED, and with the default size. */
	KUNIT_ASSERT_EQ(test, 0, fi_srx_context(world->domain, &attr, &srx, NULL));
	KUNIT_EXPECT_EQ(test, 256, fi_rx_size_left(srx));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS,
			fi_trecv(srx, NULL, 0, NULL, FI_ADDR_UNSPEC, 0, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&srx->fid));
}

static void srx_wrong_bindings_of_datagrams(struct kunit *test)
{
	struct rs_world *world = rs_open(test, NULL), *other;
	struct fid_ep *ep = rs_ep(test, world, 0), *plain, *sep = NULL;
	struct fid *srx = &world->srx->fid;
	struct fi_info *info = fi_dupinfo(world->info);

	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_scalable_ep(world->domain, info, &sep, NULL));
	info->caps |= FI_MULTI_RECV;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_endpoint(world->domain, info, &plain, NULL));
	info->ep_attr->rx_ctx_cnt = 1;
	plain = fx_ep(test, world->domain, info);
	KUNIT_EXPECT_EQ(test, -FI_ENORX, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(plain, srx, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_ep_bind(ep, srx, FI_RECV));
	other = rs_open(test, NULL);
	KUNIT_EXPECT_EQ(test, -FI_EDOMAIN, fi_ep_bind(ep, &other->srx->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, srx, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(ep, srx, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_ep_bind(ep, srx, 0));
}

/* A shared receive context only receives; its endpoints have no receives of their own. */
static void srx_other_calls_of_datagrams_are_refused(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct fid_ep *srx = world->srx, *ep = world->member[0].ep;
	struct fi_msg msg = { .addr = FI_ADDR_UNSPEC };

	KUNIT_EXPECT_EQ(test, FI_CLASS_SRX_CTX, srx->fid.fclass);
	KUNIT_EXPECT_PTR_EQ(test, (void *)world, srx->fid.context);
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_send(srx, buf, LEN, NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_tsend(srx, buf, LEN, NULL, 0, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_tinject(srx, buf, LEN, 0, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_enable(srx));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_tx_size_left(srx));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_ep_bind(srx, &world->member[0].cq->fid, FI_RECV));

	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, tr_recv(ep, buf, LEN));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_recvmsg(ep, &msg, FI_MULTI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS,
			fi_trecv(ep, buf, LEN, NULL, FI_ADDR_UNSPEC, 0, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_rx_size_left(ep));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_cancel(&ep->fid, buf));
}

static void ep_08_flags_of_shared_datagrams(struct kunit *test)
{
	static const struct {
		u64	flags;
		int	plain, tagged;
	} cases[] = {
		{ FI_COMPLETION | FI_MORE, 0, 0 },
		{ FI_MULTI_RECV, -FI_EOPNOTSUPP, -FI_EBADFLAGS },
		{ FI_PEEK, -FI_EBADFLAGS, -FI_EOPNOTSUPP },
		{ FI_PEEK | FI_CLAIM, -FI_EBADFLAGS, -FI_EOPNOTSUPP },
		{ FI_CLAIM | FI_DISCARD, -FI_EBADFLAGS, -FI_EOPNOTSUPP },
		{ FI_INJECT, -FI_EBADFLAGS, -FI_EBADFLAGS },
		{ FI_PEEK | FI_INJECT, -FI_EBADFLAGS, -FI_EBADFLAGS },
	};
	struct rs_world *world = rs_open(test, NULL);
	struct fi_msg msg = { .addr = FI_ADDR_UNSPEC };
	struct fi_msg_tagged tagged = { .addr = FI_ADDR_UNSPEC };

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		KUNIT_EXPECT_EQ(test, cases[i].plain, fi_recvmsg(world->srx, &msg, cases[i].flags));
		KUNIT_EXPECT_EQ(test, cases[i].tagged,
				fi_trecvmsg(world->srx, &tagged, cases[i].flags));
	}
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recvmsg(world->srx, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_trecvmsg(world->srx, NULL, 0));
	KUNIT_EXPECT_EQ(test, 2, rs_depth(world));
}

static void ep_10_shared_datagrams_cannot_be_cancelled(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct rs_world *world = rs_open(test, NULL);

	rs_post(test, world, buf, LEN, 1);
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_cancel(&world->srx->fid, buf));
	KUNIT_EXPECT_EQ(test, 1, rs_depth(world));
}

/* The oldest receive takes the message, whichever endpoints send and receive it. */
static void srx_datagrams_take_the_oldest_receive(struct kunit *test)
{
	static const struct rs_opts opts = { .members = 3, .senders = 3 };
	u8 *out = tr_buffer(test, LONGEST), *in = tr_buffer(test, 4 * LONGEST);
	struct rs_world *world = rs_open(test, &opts);

	for (int i = 0; i < 4 * ARRAY_SIZE(lens); i++) {
		int from = i % 3, to = (i * 5 + i / 3) % 3;
		u8 *buf = in + i % 4 * LONGEST;
		struct fi_cq_tagged_entry entry;
		size_t len = lens[i / 4];

		if (i % 4 == 0)
			rs_post(test, world, in, LONGEST, 4);
		tr_fill(out, len, i);
		rs_send(test, world, from, to, out, len);
		rdm_expect(test, &world->member[to], buf, &entry);
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry.flags);
		KUNIT_EXPECT_EQ(test, len, entry.len);
		KUNIT_EXPECT_TRUE(test, tr_intact(buf, len, i));
		rdm_expect(test, world->sender[from], out, NULL);
	}
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	for (int i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(world->member[i].cq, NULL, 0));
}

/* Reads the next completion of either member; returns which one, or a negative errno. */
static int next_of_two(struct rs_world *world, struct fi_cq_tagged_entry *entry)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (time_before(jiffies, end)) {
		for (int to = 0; to < 2; to++)
			if (fi_cq_read(world->member[to].cq, entry, 1) == 1)
				return to;
		cond_resched();
	}
	return -FI_ETIMEDOUT;
}

/* The oldest unexpected message takes the receive, of whichever member it is. */
static void rdm_03_unexpected_messages_take_shared_receives_in_order(struct kunit *test)
{
	static const struct rs_opts opts = { .members = 2 };
	const int count = 2 * ARRAY_SIZE(lens);
	u8 *out = tr_buffer(test, LONGEST), *in = tr_buffer(test, LONGEST);
	struct rs_world *world = rs_open(test, &opts);
	struct fi_cq_tagged_entry entry;
	int received[2] = {};

	/* With established connections the messages arrive in sending order. */
	for (int to = 0; to < 2; to++) {
		rs_post(test, world, in, LEN, 1);
		rs_send(test, world, 0, to, out, LEN);
		rdm_expect(test, &world->member[to], in, NULL);
		rdm_expect(test, world->sender[0], out, NULL);
	}
	tr_fill(out, LONGEST, 7);
	for (int i = 0; i < count; i++) {
		rs_send(test, world, 0, i % 2, out, lens[i / 2]);
		usleep_range(2000, 3000);
		for (int to = 0; to < 2; to++)
			KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
					fi_cq_read(world->member[to].cq, &entry, 1));
	}
	for (int i = 0; i < count; i++) {
		int to;

		memset(in, 0, LONGEST);
		rs_post(test, world, in, LONGEST, 1);
		to = next_of_two(world, &entry);
		KUNIT_ASSERT_GE(test, to, 0);
		KUNIT_EXPECT_PTR_EQ(test, (void *)in, entry.op_context);
		KUNIT_EXPECT_EQ(test, lens[received[to]], entry.len);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, lens[received[to]], 7));
		received[to]++;
	}
	for (int i = 0; i < count; i++)
		rdm_expect(test, world->sender[0], out, NULL);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
}

static void rdm_05_tags_of_shared_receives(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, 4 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct kofi_rdm *sender = world->sender[0];
	struct kvec iov = { in + 3 * LEN, LEN };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 0x70,
		.ignore = 0xf, .context = in + 3 * LEN,
	};
	struct fi_cq_tagged_entry entry;

	for (int comes_first = 0; comes_first < 2; comes_first++) {
		for (int round = 0; round < 2; round++) {
			if (round == comes_first) {
				/* Tagged and untagged receives match separately. */
				rs_post(test, world, in, LEN, 1);
				KUNIT_ASSERT_EQ(test, 0,
						fi_trecv(world->srx, in + LEN, LEN, NULL,
							 FI_ADDR_UNSPEC, 5, 0, in + LEN));
				iov.iov_base = in + 2 * LEN;
				KUNIT_ASSERT_EQ(test, 0,
						fi_trecvv(world->srx, &iov, NULL, 1,
							  FI_ADDR_UNSPEC, 6, 0, in + 2 * LEN));
				iov.iov_base = in + 3 * LEN;
				KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(world->srx, &msg, 0));
				continue;
			}
			KUNIT_ASSERT_EQ(test, 0, fi_tsend(sender->ep, out, LEN, NULL,
							  world->to[0][0], 0x7c, out));
			KUNIT_ASSERT_EQ(test, 0, fi_tsend(sender->ep, out, LEN, NULL,
							  world->to[0][1], 6, out));
			rs_send(test, world, 0, 1, out, LEN);
			KUNIT_ASSERT_EQ(test, 0, fi_tsend(sender->ep, out, LEN, NULL,
							  world->to[0][0], 5, out));
			for (int i = 0; i < 4; i++)
				rdm_expect(test, sender, out, NULL);
			msleep(20);
		}
		/* Completions of one member may be in another order than its messages. */
		for (int i = 0; i < 4; i++) {
			KUNIT_ASSERT_EQ(test, 1,
					fx_wait_comp(test, world->member[i / 2].cq, &entry, 1));
			switch (((u8 *)entry.op_context - in) / LEN) {
			case 0:
				KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry.flags);
				KUNIT_EXPECT_EQ(test, 1, i / 2);
				break;
			case 1:
				KUNIT_EXPECT_EQ(test, 5, entry.tag);
				KUNIT_EXPECT_EQ(test, 0, i / 2);
				break;
			case 2:
				KUNIT_EXPECT_EQ(test, 6, entry.tag);
				KUNIT_EXPECT_EQ(test, 1, i / 2);
				break;
			case 3:
				KUNIT_EXPECT_EQ(test, 0x7c, entry.tag);
				KUNIT_EXPECT_EQ(test, FI_RECV | FI_TAGGED, entry.flags);
				KUNIT_EXPECT_EQ(test, 0, i / 2);
				break;
			default:
				KUNIT_FAIL(test, "a context that was not posted");
			}
		}
		KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	}
}

/* The context has no AV: the address is ignored. */
static void rdm_02_shared_receives_take_from_all(struct kunit *test)
{
	static const struct rs_opts opts = { .senders = 2 };
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct rs_world *world = rs_open(test, &opts);

	for (int from = 0; from < 2; from++) {
		KUNIT_ASSERT_EQ(test, 0, fi_recv(world->srx, in, LEN, NULL, 77, in));
		rs_send(test, world, from, 0, out, LEN);
		rdm_expect(test, &world->member[0], in, NULL);
	}
}

static void ep_04_a_full_shared_receive_context_of_datagrams(struct kunit *test)
{
	static const struct rs_opts opts = { .size = 3 };
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, 3 * LEN);
	struct rs_world *world = rs_open(test, &opts);

	rs_post(test, world, in, LEN, 3);
	for (int round = 0; round < 10; round++) {
		u8 *buf = in + round % 3 * LEN;

		KUNIT_EXPECT_EQ(test, 0, fi_rx_size_left(world->srx));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, tr_recv(world->srx, buf, LEN));
		rs_send(test, world, 0, round % 2, out, LEN);
		rdm_expect(test, &world->member[round % 2], buf, NULL);
		KUNIT_EXPECT_EQ(test, 1, fi_rx_size_left(world->srx));
		rs_post(test, world, buf, LEN, 1);
	}
}

static void ep_05_shared_datagram_receives_of_zero_bytes(struct kunit *test)
{
	struct rs_world *world = rs_open(test, NULL);
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_EQ(test, 0, fi_recvv(world->srx, NULL, NULL, 0, FI_ADDR_UNSPEC, world));
	rs_send(test, world, 0, 1, NULL, 0);
	rdm_expect(test, &world->member[1], world, &entry);
	KUNIT_EXPECT_EQ(test, 0, entry.len);
}

/* The receiving endpoint's CQ binding decides whether there is an entry. */
static void ep_07_selective_completion_of_shared_datagrams(struct kunit *test)
{
	static const struct rs_opts opts = {
		.size = 4, .rx_flags = FI_SELECTIVE_COMPLETION, .cq_size = 2, .count = true,
	};
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, 4 * LEN);
	struct rs_world *world = rs_open(test, &opts);
	struct kvec iov = { .iov_len = LEN };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC };

	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < 4; i++) {
			iov.iov_base = in + i * LEN;
			msg.context = iov.iov_base;
			KUNIT_ASSERT_EQ(test, 0,
					fi_recvmsg(world->srx, &msg, i == 3 ? FI_COMPLETION : 0));
		}
		for (int i = 0; i < 4; i++)
			rs_send(test, world, 0, 0, out, LEN);
		rdm_expect(test, &world->member[0], in + 3 * LEN, NULL);
		KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
		KUNIT_EXPECT_EQ(test, 4 * round, fi_cntr_read(world->cntr[0]));
		KUNIT_EXPECT_EQ(test, 0, fi_cntr_read(world->cntr[1]));
	}
}

static void ep_09_shared_datagram_receives_with_several_kvecs(struct kunit *test)
{
	u8 *out = tr_buffer(test, LONGEST), *in = tr_buffer(test, LONGEST);
	struct rs_world *world = rs_open(test, NULL);
	struct kvec iov[5] = {
		{ in, 10 }, { in + 10, 60000 }, { in + 60010, 90 },
		{ in + 60100, LONGEST - 60100 }, { in, 1 },
	};
	struct fi_rx_attr attr = { .iov_limit = 2 };
	struct fi_cq_tagged_entry entry;
	struct fid_ep *srx;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_recvv(world->srx, iov, NULL, 5, FI_ADDR_UNSPEC, in));
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		memset(in, 0, LONGEST);
		tr_fill(out, lens[i], i);
		KUNIT_ASSERT_EQ(test, 0,
				fi_recvv(world->srx, iov, NULL, 4, FI_ADDR_UNSPEC, in));
		rs_send(test, world, 0, i % 2, out, lens[i]);
		rdm_expect(test, &world->member[i % 2], in, &entry);
		KUNIT_EXPECT_EQ(test, lens[i], entry.len);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, lens[i], i));
		rdm_expect(test, world->sender[0], out, NULL);
	}
	KUNIT_ASSERT_EQ(test, 0, fi_srx_context(world->domain, &attr, &srx, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recvv(srx, iov, NULL, 3, FI_ADDR_UNSPEC, in));
	KUNIT_EXPECT_EQ(test, 0, fi_recvv(srx, iov, NULL, 2, FI_ADDR_UNSPEC, in));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&srx->fid));
}

/* The truncated message is reported at its endpoint, and affects no other message. */
static void cq_08_truncated_datagrams_of_a_shared_receive(struct kunit *test)
{
	u8 *out = tr_buffer(test, LONGEST), *in = tr_buffer(test, 2 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct fi_cq_err_entry error = {};

	for (int i = 3; i < ARRAY_SIZE(lens); i++) {
		rs_post(test, world, in, LEN, 2);
		rs_send(test, world, 0, 0, out, lens[i]);
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, world->member[0].cq, &error));
		KUNIT_EXPECT_EQ(test, FI_ETRUNC, error.err);
		KUNIT_EXPECT_EQ(test, lens[i] - LEN, error.olen);
		KUNIT_EXPECT_PTR_EQ(test, (void *)in, error.op_context);
		rs_send(test, world, 0, 1, out, LEN);
		rdm_expect(test, &world->member[1], in + LEN, NULL);
		for (int k = 0; k < 2; k++)
			rdm_expect(test, world->sender[0], out, NULL);
	}
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
}

static void cq_12_the_source_of_a_shared_receive(struct kunit *test)
{
	static const struct rs_opts opts = { .senders = 2, .caps = FI_SOURCE, .count = true };
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct rs_world *world = rs_open(test, &opts);

	for (int i = 0; i < 4; i++) {
		int from = i % 2, to = i / 2;
		struct kofi_rdm *member = &world->member[to];
		struct fi_cq_tagged_entry entry;
		fi_addr_t expected, received = 77;

		expected = rdm_addr(test, member, world->sender[from]);
		rs_post(test, world, in, LEN, 1);
		KUNIT_ASSERT_EQ(test, 0, fi_senddata(world->sender[from]->ep, out, LEN, NULL,
						     0x0102030405060708, world->to[from][to],
						     out));
		KUNIT_ASSERT_EQ(test, 0, fi_cntr_wait(world->cntr[to], from + 1, FX_WAIT_MS));
		KUNIT_ASSERT_EQ(test, 1, fi_cq_readfrom(member->cq, &entry, 1, &received));
		KUNIT_EXPECT_EQ(test, expected, received);
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA, entry.flags);
		KUNIT_EXPECT_EQ(test, 0x0102030405060708, entry.data);
		KUNIT_EXPECT_PTR_EQ(test, (void *)in, entry.op_context);
	}
}

static void cntr_03_shared_datagrams_count_for_their_endpoint(struct kunit *test)
{
	static const struct rs_opts opts = { .count = true };
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, 3 * LEN);
	struct rs_world *world = rs_open(test, &opts);

	rs_post(test, world, in, LEN, 2);
	rs_post(test, world, in + 2 * LEN, 10, 1);
	rs_send(test, world, 0, 0, out, LEN);
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(world->cntr[0], 1, FX_WAIT_MS));
	for (int i = 0; i < 2; i++)
		rs_send(test, world, 0, 1, out, LEN);
	rdm_expect(test, &world->member[0], in, NULL);
	rdm_expect(test, &world->member[1], in + LEN, NULL);
	tr_expect_error(test, world->member[1].cq, in + 2 * LEN, FI_ETRUNC);
	KUNIT_EXPECT_EQ(test, 1, fi_cntr_read(world->cntr[1]));
	KUNIT_EXPECT_EQ(test, 1, fi_cntr_readerr(world->cntr[1]));
	KUNIT_EXPECT_EQ(test, 1, fi_cntr_read(world->cntr[0]));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_readerr(world->cntr[0]));
}

/* Messages without a CQ slot keep their receives; other endpoints go on. */
static void cq_14_shared_datagrams_wait_for_cq_slots(struct kunit *test)
{
	static const struct rs_opts opts = { .cq_size = 4, .size = 16 };
	u8 *out = tr_buffer(test, LONGEST), *in = tr_vbuffer(test, 14 * LONGEST);
	struct rs_world *world = rs_open(test, &opts);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	int of_len[ARRAY_SIZE(lens)] = {};
	struct fi_cq_tagged_entry entry;

	rs_post(test, world, in, LONGEST, 14);
	tr_fill(out, LONGEST, 3);
	for (int i = 0; i < 12; i++)
		rs_send(test, world, 0, 0, out, lens[i % ARRAY_SIZE(lens)]);
	/* Four have completed; two receives are left for the other endpoint. */
	while (rs_depth(world) > 10 && time_before(jiffies, end))
		usleep_range(1000, 2000);
	for (int i = 0; i < 2; i++) {
		rs_send(test, world, 0, 1, out, LEN);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->member[1].cq, &entry, 1));
		KUNIT_EXPECT_TRUE(test, tr_intact(entry.op_context, LEN, 3));
	}
	KUNIT_EXPECT_EQ(test, 8, rs_depth(world));
	for (int i = 0; i < 12; i++) {
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->member[0].cq, &entry, 1));
		KUNIT_EXPECT_TRUE(test, tr_intact(entry.op_context, entry.len, 3));
		for (int k = 0; k < ARRAY_SIZE(lens); k++)
			of_len[k] += lens[k] == entry.len;
	}
	for (int k = 0; k < ARRAY_SIZE(lens); k++)
		KUNIT_EXPECT_EQ(test, 2, of_len[k]);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	for (int i = 0; i < 14; i++)
		rdm_expect(test, world->sender[0], out, NULL);
}

/* Unexpected messages beyond the limit of a peer slow it; they are received in order. */
static void rdm_06_unexpected_messages_for_shared_receives_are_bounded(struct kunit *test)
{
	enum { MANY = 300 };
	static const struct rs_opts opts = { .senders = 2 };
	u8 *out = tr_buffer(test, PACKET), *in = tr_buffer(test, PACKET);
	struct rs_world *world = rs_open(test, &opts);
	int sent[2] = {}, received[2] = {};
	struct fi_cq_tagged_entry entry;

	for (int round = 0; round < 2 * MANY; round++) {
		int to;

		/* At first, sends until no more is accepted for a while. */
		for (int idle = 0; idle < (round ? 1 : 20); idle++) {
			for (int from = 0; from < 2; from++) {
				struct fid_ep *ep = world->sender[from]->ep;

				*(int *)out = sent[from];
				/* The message is copied before the call returns. */
				while (sent[from] < MANY &&
				       !fi_send(ep, out, PACKET, NULL, world->to[from][from],
						NULL)) {
					*(int *)out = ++sent[from];
					idle = 0;
				}
				while (fi_cq_read(world->sender[from]->cq, &entry, 1) == 1)
					;
			}
			if (!round)
				usleep_range(500, 1000);
		}
		rs_post(test, world, in, PACKET, 1);
		to = next_of_two(world, &entry);
		KUNIT_ASSERT_GE(test, to, 0);
		KUNIT_ASSERT_EQ(test, received[to], *(int *)in);
		KUNIT_ASSERT_EQ(test, PACKET, entry.len);
		received[to]++;
		if (!round)
			KUNIT_EXPECT_LT(test, sent[0], MANY);
	}
	KUNIT_EXPECT_EQ(test, MANY, received[0]);
	KUNIT_EXPECT_EQ(test, MANY, received[1]);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
}

struct poster {
	struct rs_world	*world;
	u8		*buf;
	int		posted;
};

/* Posts whenever there is space, until all its receives are posted. */
static int post_many(struct tr_thread *thread)
{
	struct poster *poster = thread->arg;
	int ret = 0;

	while (poster->posted && !kthread_should_stop()) {
		ret = fi_recv(poster->world->srx, poster->buf, LONGEST, NULL, FI_ADDR_UNSPEC,
			      poster->buf);
		if (!ret) {
			poster->buf += LONGEST;
			poster->posted--;
		} else if (ret != -FI_EAGAIN) {
			break;
		}
		cond_resched();
	}
	thread->result = poster->posted ? ret ?: -FI_EIO : 0;
	return 0;
}

/* Two threads post while messages of all lengths arrive: each is received once. */
static void rdm_03_two_cpus_post_shared_receives(struct kunit *test)
{
	enum { EACH = 24 };
	static const struct rs_opts opts = { .members = 2, .senders = 2, .size = 4 };
	u8 *in = tr_vbuffer(test, 2 * EACH * LONGEST), *out = tr_buffer(test, LONGEST);
	struct rs_world *world = rs_open(test, &opts);
	struct poster *posters = kunit_kcalloc(test, 2, sizeof(*posters), GFP_KERNEL);
	struct tr_thread *threads[2];
	int sent = 0, received = 0, of_len[ARRAY_SIZE(lens)] = {};
	unsigned long end = jiffies + 4 * msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_NOT_NULL(test, posters);
	tr_fill(out, LONGEST, 9);
	for (int i = 0; i < 2; i++) {
		posters[i] = (struct poster) { world, in + i * EACH * LONGEST, EACH };
		threads[i] = tr_start(test, num_online_cpus() > 1 ? i : -1, post_many,
				      &posters[i]);
	}
	while (received < 2 * EACH && time_before(jiffies, end)) {
		int from = sent % 2;

		if (sent < 2 * EACH &&
		    !fi_send(world->sender[from]->ep, out, lens[sent % ARRAY_SIZE(lens)], NULL,
			     world->to[from][sent / 2 % 2], NULL))
			sent++;
		for (int s = 0; s < 2; s++)
			while (fi_cq_read(world->sender[s]->cq, &entry, 1) == 1)
				;
		for (int to = 0; to < 2; to++)
			while (fi_cq_read(world->member[to].cq, &entry, 1) == 1) {
				u8 *buf = entry.op_context;

				KUNIT_EXPECT_TRUE(test, tr_intact(buf, entry.len, 9));
				for (int i = 0; i < ARRAY_SIZE(lens); i++)
					of_len[i] += lens[i] == entry.len;
				received++;
			}
		cond_resched();
	}
	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_TRUE(test, tr_join(test, threads[i]));
		KUNIT_EXPECT_EQ(test, 0, threads[i]->result);
	}
	for (int i = 0; i < ARRAY_SIZE(lens); i++)
		KUNIT_EXPECT_EQ(test, 2 * EACH / ARRAY_SIZE(lens), of_len[i]);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
}

static struct kunit_case rdm_srx_cases[] = {
	KUNIT_CASE(info_14_shared_receive_contexts_of_datagrams),
	KUNIT_CASE(srx_attributes_beyond_the_limits_of_datagrams),
	KUNIT_CASE(srx_wrong_bindings_of_datagrams),
	KUNIT_CASE(srx_other_calls_of_datagrams_are_refused),
	KUNIT_CASE(ep_08_flags_of_shared_datagrams),
	KUNIT_CASE(ep_10_shared_datagrams_cannot_be_cancelled),
	KUNIT_CASE(srx_datagrams_take_the_oldest_receive),
	KUNIT_CASE(rdm_03_unexpected_messages_take_shared_receives_in_order),
	KUNIT_CASE(rdm_05_tags_of_shared_receives),
	KUNIT_CASE(rdm_02_shared_receives_take_from_all),
	KUNIT_CASE(ep_04_a_full_shared_receive_context_of_datagrams),
	KUNIT_CASE(ep_05_shared_datagram_receives_of_zero_bytes),
	KUNIT_CASE(ep_07_selective_completion_of_shared_datagrams),
	KUNIT_CASE(ep_09_shared_datagram_receives_with_several_kvecs),
	KUNIT_CASE(cq_08_truncated_datagrams_of_a_shared_receive),
	KUNIT_CASE(cq_12_the_source_of_a_shared_receive),
	KUNIT_CASE(cntr_03_shared_datagrams_count_for_their_endpoint),
	KUNIT_CASE(cq_14_shared_datagrams_wait_for_cq_slots),
	KUNIT_CASE_SLOW(rdm_06_unexpected_messages_for_shared_receives_are_bounded),
	KUNIT_CASE_SLOW(rdm_03_two_cpus_post_shared_receives),
	{}
};

static struct kunit_suite rdm_srx_suite = {
	.name = "kofi_rdm_srx",
	.test_cases = rdm_srx_cases,
};

kunit_test_suite(rdm_srx_suite);
