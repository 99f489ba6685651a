// SPDX-License-Identifier: GPL-2.0
/*
 * Tests EP 11 of CONTRACT: FI_MULTI_RECV buffers of datagram endpoints.
 */

#include <linux/bvec.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/vmalloc.h>

#include "rdm.h"

#define PACKET		16384
#define SEGMENTS	(8 * PACKET)
#define SMALL		64
/* FI_OPT_MIN_MULTI_RECV: a buffer is released once less than this is left. */
#define MIN_LEFT		256
#define BUF_SIZE		(4 * SZ_1M)

struct multi {
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b;
	u8		*out, *in;
	/* Start of the next message in the buffer. */
	u8		*next;
	/* Number of completions that are due in a's queue. */
	int		sent;
};

KUNIT_DEFINE_ACTION_WRAPPER(free_memory, vfree, const void *);

static u8 *memory(struct kunit *test, size_t len)
{
	u8 *buf = vzalloc(len);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_memory, buf));
	return buf;
}

static int set_min_multi_recv(struct kofi_rdm *rdm, size_t least)
{
	return fi_setopt(&rdm->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			 sizeof(least));
}

static struct multi *multi(struct kunit *test, const struct rdm_opts *opts)
{
	struct multi *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->out = memory(test, BUF_SIZE);
	s->in = memory(test, BUF_SIZE);
	s->next = s->in;
	get_random_bytes(s->out, BUF_SIZE);
	s->a = rdm_open(test, NULL);
	s->b = rdm_open(test, opts);
	s->to_b = rdm_addr(test, s->a, s->b);
	KUNIT_ASSERT_EQ(test, 0, set_min_multi_recv(s->b, MIN_LEFT));
	return s;
}

static ssize_t post(struct kofi_rdm *rdm, void *buf, size_t len, u64 flags)
{
	const struct kvec iov = { buf, len };
	const struct fi_msg msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.context = buf,
	};

	return fi_recvmsg(rdm->ep, &msg, flags | FI_MULTI_RECV);
}

static void send(struct kunit *test, struct multi *s, const u8 *from, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, rdm_send(s->a, s->to_b, from, len, NULL));
	s->sent++;
}

/* Reads all send completions. */
static void expect_sent(struct kunit *test, struct multi *s)
{
	for (; s->sent; s->sent--)
		rdm_expect(test, s->a, NULL, NULL);
}

/* Returns where a message of len bytes starts, and advances next past it. */
static u8 *next_start(struct multi *s, size_t len)
{
	u8 *start = s->next;

	s->next = PTR_ALIGN(start + len, dma_get_cache_alignment());
	return start;
}

/* Reads b's next entry, which has to be of this message; last: it releases the buffer. */
static void expect(struct kunit *test, struct multi *s, const u8 *from, size_t len, bool last)
{
	u8 *start = next_start(s, len);
	struct fi_cq_tagged_entry entry;

	rdm_expect(test, s->b, s->in, &entry);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | (last ? FI_MULTI_RECV : 0), entry.flags);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_ASSERT_PTR_EQ(test, (void *)start, entry.buf);
	KUNIT_EXPECT_EQ(test, 0, memcmp(from, start, len));
}

static void expect_nothing(struct kunit *test, struct kofi_rdm *rdm)
{
	struct fi_cq_tagged_entry entry;

	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(rdm->cq, &entry, 1));
}

static void ep_11_min_multi_recv_option_of_datagrams(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	size_t size = 0, len = sizeof(size);

	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, 0, fi_getopt(&rdm->ep->fid, FI_OPT_ENDPOINT,
						   FI_OPT_MIN_MULTI_RECV, &size, &len));
		KUNIT_EXPECT_EQ(test, i ? MIN_LEFT : 4096, size);
		KUNIT_EXPECT_EQ(test, 0, set_min_multi_recv(rdm, MIN_LEFT));
	}
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, set_min_multi_recv(rdm, 0));
}

/* Lengths of eager, segmented, rendezvous and empty messages. */
static const size_t lens[] = {
	SMALL, 3 * PACKET, 0, SEGMENTS + 1, 1, PACKET, SZ_512K + 7, SMALL + 1, PACKET + 1,
	SEGMENTS, 2,
};

enum when { BEFORE, BETWEEN, AFTER };

static const enum when whens[] = { BEFORE, BETWEEN, AFTER };

static void name_when(const enum when *when, char *name)
{
	static const char *const names[] = { "before", "between", "behind" };

	strscpy(name, names[*when], KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(when, whens, name_when);

static size_t total_message_size(struct multi *s)
{
	size_t len;

	for (int i = 0; i < ARRAY_SIZE(lens); i++)
		next_start(s, lens[i]);
	len = s->next - s->in;
	s->next = s->in;
	return len;
}

/* The buffer is posted before the messages, between them, or after they may have arrived. */
static void ep_11_messages_are_placed_in_order(struct kunit *test)
{
	const enum when *when = test->param_value;
	struct multi *s = multi(test, NULL);
	size_t buf_len = total_message_size(s) + MIN_LEFT - 1;
	u8 *starts[ARRAY_SIZE(lens)];
	const u8 *from = s->out;
	u32 seen = 0;

	if (*when == BEFORE)
		KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, buf_len, 0));
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		if (*when == BETWEEN && i == 4)
			KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, buf_len, 0));
		starts[i] = next_start(s, lens[i]);
		send(test, s, from, lens[i]);
		from += lens[i];
	}
	if (*when == AFTER) {
		usleep_range(1000, 2000);
		KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, buf_len, 0));
	}
	for (int left = ARRAY_SIZE(lens); left--;) {
		struct fi_cq_tagged_entry entry;
		u64 last = left ? 0 : FI_MULTI_RECV;
		int at;

		rdm_expect(test, s->b, s->in, &entry);
		/* Entries may be in any order; the last one has FI_MULTI_RECV. */
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | last, entry.flags);
		for (at = 0; at < ARRAY_SIZE(lens); at++)
			if (entry.buf == starts[at] && entry.len == lens[at])
				break;
		KUNIT_ASSERT_LT(test, at, ARRAY_SIZE(lens));
		KUNIT_EXPECT_FALSE(test, seen & BIT(at));
		seen |= BIT(at);
	}
	from = s->out;
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		KUNIT_EXPECT_EQ(test, 0, memcmp(from, starts[i], lens[i]));
		from += lens[i];
	}
	KUNIT_EXPECT_NULL(test, memchr_inv(s->next, 0, s->in + BUF_SIZE - s->next));
	expect_nothing(test, s->b);
}

static void ep_11_a_multi_recv_for_one_datagram(struct kunit *test)
{
	struct multi *s = multi(test, NULL);

	for (int i = 0; i < 2; i++) {
		size_t len = i ? 0 : MIN_LEFT - 1;

		s->next = s->in;
		KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, len, 0));
		send(test, s, s->out, len);
		expect(test, s, s->out, len, true);
	}
	expect_sent(test, s);
	rdm_exchange(test, s->a, s->to_b, s->b);
}

static void ep_11_each_datagram_of_a_multi_recv_completes(struct kunit *test)
{
	static const struct rdm_opts opts = { .cq_flags = FI_SELECTIVE_COMPLETION };
	struct multi *s = multi(test, &opts);

	KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, MIN_LEFT + SMALL, 0));
	for (int i = 0; i < 2; i++)
		send(test, s, s->out, SMALL);
	for (int i = 0; i < 2; i++)
		expect(test, s, s->out, SMALL, i);
}

static void ep_11_a_datagram_longer_than_the_rest_is_truncated(struct kunit *test)
{
	static const size_t longer[] = { SMALL + MIN_LEFT + 1, 2 * PACKET, SEGMENTS + 1 };
	struct multi *s = multi(test, NULL);

	for (int i = 0; i < ARRAY_SIZE(longer); i++) {
		struct fi_cq_err_entry error;
		u8 *start;

		s->next = s->in;
		memset(s->in, 0, 2 * SMALL + MIN_LEFT);
		KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, 2 * SMALL + MIN_LEFT, 0));
		send(test, s, s->out, SMALL);
		expect(test, s, s->out, SMALL, false);
		send(test, s, s->out, longer[i]);
		start = s->next;
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, s->b->cq, &error));
		KUNIT_EXPECT_EQ(test, FI_ETRUNC, error.err);
		KUNIT_EXPECT_PTR_EQ(test, (void *)s->in, error.op_context);
		KUNIT_EXPECT_PTR_EQ(test, (void *)start, error.buf);
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | FI_MULTI_RECV, error.flags);
		KUNIT_EXPECT_EQ(test, s->in + 2 * SMALL + MIN_LEFT - start, error.len);
		KUNIT_EXPECT_EQ(test, longer[i], error.len + error.olen);
		KUNIT_EXPECT_EQ(test, 0, memcmp(s->out, start, error.len));
		KUNIT_EXPECT_EQ(test, 0, start[error.len]);
	}
	expect_sent(test, s);
	rdm_exchange(test, s->a, s->to_b, s->b);
}

/* A receive that was posted after the buffer is used once the buffer is released. */
static void ep_11_a_multi_recv_keeps_its_position_in_the_queue(struct kunit *test)
{
	struct multi *s = multi(test, NULL);
	u8 *other = memory(test, SMALL);

	for (int is_late = 0; is_late < 2; is_late++) {
		s->next = s->in;
		memset(other, 0, SMALL);
		if (is_late)
			for (int i = 0; i < 3; i++)
				send(test, s, s->out + i, SMALL);
		KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, MIN_LEFT + SMALL, 0));
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(s->b, FI_ADDR_UNSPEC, other, SMALL, other));
		if (!is_late)
			for (int i = 0; i < 3; i++)
				send(test, s, s->out + i, SMALL);
		for (int i = 0; i < 2; i++)
			expect(test, s, s->out + i, SMALL, i);
		rdm_expect(test, s->b, other, NULL);
		KUNIT_EXPECT_MEMEQ(test, s->out + 2, other, SMALL);
	}
}

/* There are two CQ slots and one receive: the other messages wait, in order. */
static void ep_11_datagrams_wait_for_cq_slots(struct kunit *test)
{
	static const struct rdm_opts opts = { .cq_size = 2, .rx_size = 1 };
	struct multi *s = multi(test, &opts);
	const int count = 20;
	size_t buf_len = count * ALIGN(SMALL, dma_get_cache_alignment()) + MIN_LEFT - SMALL;

	for (int is_late = 0; is_late < 2; is_late++) {
		s->next = s->in;
		memset(s->in, 0, buf_len);
		if (!is_late)
			KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, buf_len, 0));
		for (int i = 0; i < count; i++)
			send(test, s, s->out + i, SMALL);
		if (is_late) {
			usleep_range(1000, 2000);
			KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, buf_len, 0));
		}
		for (int i = 0; i < count; i++)
			expect(test, s, s->out + i, SMALL, i == count - 1);
		expect_nothing(test, s->b);
	}
}

/* The cancelled buffer has no pending messages. */
static void ep_11_a_multi_recv_is_cancelled(struct kunit *test)
{
	struct multi *s = multi(test, NULL);
	struct fi_cq_err_entry error;

	for (int i = 0; i < 3; i++) {
		s->next = s->in;
		KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, BUF_SIZE, 0));
		for (int n = 0; n < i; n++) {
			send(test, s, s->out, SMALL);
			expect(test, s, s->out, SMALL, false);
		}
		KUNIT_EXPECT_EQ(test, 0, fi_cancel(&s->b->ep->fid, s->in));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, s->b->cq, &error));
		KUNIT_EXPECT_PTR_EQ(test, (void *)s->in, error.op_context);
		KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | FI_MULTI_RECV, error.flags);
		KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&s->b->ep->fid, s->in));
		expect_nothing(test, s->b);
	}
	expect_sent(test, s);
	rdm_exchange(test, s->a, s->to_b, s->b);
}

/* Messages received before the cancel complete first, then the buffer is cancelled. */
static void ep_11_cancelling_a_multi_recv_loses_no_message(struct kunit *test)
{
	static const struct rdm_opts opts = { .cq_size = 2 };
	struct multi *s = multi(test, &opts);
	struct fi_cq_err_entry error;
	int read = 0, ret;

	KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, BUF_SIZE, 0));
	for (int i = 0; i < 3; i++)
		send(test, s, s->out + i, SMALL);
	expect_sent(test, s);
	usleep_range(1000, 2000);
	while ((ret = fi_cancel(&s->b->ep->fid, s->in)) == -FI_EAGAIN && read < 3) {
		expect(test, s, s->out + read, SMALL, false);
		read++;
	}
	KUNIT_ASSERT_EQ(test, 0, ret);
	while (read < 3) {
		struct fi_cq_tagged_entry entry;
		u8 *start = s->next;

		ret = fi_cq_sread(s->b->cq, &entry, 1, NULL, FX_WAIT_MS);
		/* A message that arrived after the cancel is for the next receive. */
		if (ret == -FI_EAVAIL)
			break;
		KUNIT_ASSERT_EQ(test, 1, ret);
		KUNIT_EXPECT_PTR_EQ(test, (void *)start, entry.buf);
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry.flags);
		KUNIT_EXPECT_EQ(test, 0, memcmp(s->out + read, next_start(s, SMALL), SMALL));
		read++;
	}
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, s->b->cq, &error));
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | FI_MULTI_RECV, error.flags);
	for (; read < 3; read++) {
		s->next = s->in;
		KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, MIN_LEFT, 0));
		expect(test, s, s->out + read, SMALL, true);
	}
	expect_sent(test, s);
	rdm_exchange(test, s->a, s->to_b, s->b);
}

/* The sender closes before the receiver has read the rendezvous message. */
static void ep_11_a_rendezvous_into_a_multi_recv_fails(struct kunit *test)
{
	static const struct rdm_opts opts = { .cq_size = 1 };
	struct multi *s = multi(test, &opts);
	u8 *other = memory(test, SMALL);
	struct fi_cq_err_entry error;

	KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, SMALL + SZ_1M, 0));
	send(test, s, s->out, SMALL);
	expect(test, s, s->out, SMALL, false);
	/* The receive takes the only CQ slot. */
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(s->b->ep, other, SMALL, NULL, FI_ADDR_UNSPEC, 7, 0,
					  other));
	send(test, s, s->out, SZ_1M);
	usleep_range(2000, 4000);
	fx_close(test, &s->a->ep->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_cancel(&s->b->ep->fid, other));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, s->b->cq, &error));
	KUNIT_EXPECT_PTR_EQ(test, (void *)other, error.op_context);
	/* If the rendezvous request did not arrive, the buffer is unchanged. */
	usleep_range(2000, 4000);
	fi_cancel(&s->b->ep->fid, s->in);
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, s->b->cq, &error));
	KUNIT_EXPECT_PTR_EQ(test, (void *)s->in, error.op_context);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | FI_MULTI_RECV, error.flags);
	if (error.err != FI_ECANCELED)
		KUNIT_EXPECT_PTR_EQ(test, (void *)s->next, error.buf);
}

/* fi_recv() on an endpoint with FI_MULTI_RECV as a default; tagged receives ignore the default. */
static void ep_11_multi_recv_as_a_datagram_endpoint_default(struct kunit *test)
{
	struct multi *s = multi(test, NULL);
	u64 flags = FI_RECV | FI_MULTI_RECV;
	u8 *other = memory(test, SMALL);
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_EQ(test, 0, fi_control(&s->b->ep->fid, FI_SETOPSFLAG, &flags));
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(s->b, FI_ADDR_UNSPEC, s->in, MIN_LEFT + SMALL, s->in));
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(s->b->ep, other, SMALL, NULL, FI_ADDR_UNSPEC, 7, 0,
					  other));
	KUNIT_ASSERT_EQ(test, 0, fi_tsend(s->a->ep, s->out, SMALL, NULL, s->to_b, 7, NULL));
	rdm_expect(test, s->b, other, &entry);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_TAGGED, entry.flags);
	for (int i = 0; i < 2; i++) {
		send(test, s, s->out + i, SMALL);
		expect(test, s, s->out + i, SMALL, i);
	}
}

static void ep_11_a_multi_recv_of_datagrams_is_one_range(struct kunit *test)
{
	struct multi *s = multi(test, NULL);
	const struct kvec iov[2] = { { s->in, SMALL }, { s->in + SMALL, SMALL } };
	const struct fi_msg two = { .msg_iov = iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC };
	const struct bio_vec bvec = {};
	const struct fi_msg pages = {
		.msg_iov = (void *)&bvec, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
	};
	const struct fi_msg_tagged tagged = {
		.msg_iov = iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
	};
	ssize_t slots_left = fi_rx_size_left(s->b->ep);

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recvmsg(s->b->ep, &two, FI_MULTI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recvmsg(s->b->ep, &pages, FI_MULTI_RECV | FI_BVEC));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_trecvmsg(s->b->ep, &tagged, FI_MULTI_RECV));
	KUNIT_EXPECT_EQ(test, slots_left, fi_rx_size_left(s->b->ep));
	KUNIT_EXPECT_EQ(test, 0, post(s->b, s->in, BUF_SIZE, 0));
	KUNIT_EXPECT_EQ(test, slots_left - 1, fi_rx_size_left(s->b->ep));
}

static void ep_11_multi_recv_without_the_capability_is_refused(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_make(test, NULL);
	u8 *buf = memory(test, MIN_LEFT);

	fx_close(test, &rdm->ep->fid);
	KUNIT_EXPECT_TRUE(test, rdm->info->caps & FI_MULTI_RECV);
	KUNIT_EXPECT_TRUE(test, rdm->info->rx_attr->caps & FI_MULTI_RECV);
	KUNIT_EXPECT_FALSE(test, rdm->info->tx_attr->caps & FI_MULTI_RECV);
	rdm->info->caps &= ~FI_MULTI_RECV;
	rdm->ep = fx_ep(test, rdm->domain, rdm->info);
	rdm_start(test, rdm, 0);
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, post(rdm, buf, MIN_LEFT, 0));
}

#define PEERS		3
#define ROUNDS		400
#define BUFFERS		3
#define SIZE		1000

struct message {
	u32	peer, number, len;
	u8	bytes[];
};

/* Several peers fill several buffers, each of which is posted again after its release. */
static void ep_11_multi_recv_buffers_are_reused(struct kunit *test)
{
	static const struct rdm_opts opts = { .cq_size = 8, .rx_size = BUFFERS };
	struct kofi_rdm *to = rdm_open(test, &opts), *from[PEERS];
	u8 *in = memory(test, BUFFERS * SIZE), *out = memory(test, PEERS * SIZE);
	u32 sent[PEERS] = {}, seen[PEERS] = {}, count = 0;
	fi_addr_t addr[PEERS];

	KUNIT_ASSERT_EQ(test, 0, set_min_multi_recv(to, MIN_LEFT));
	for (int i = 0; i < PEERS; i++) {
		from[i] = rdm_open(test, NULL);
		addr[i] = rdm_addr(test, from[i], to);
	}
	for (int i = 0; i < BUFFERS; i++)
		KUNIT_ASSERT_EQ(test, 0, post(to, in + i * SIZE, SIZE, 0));
	while (count < PEERS * ROUNDS) {
		struct fi_cq_tagged_entry entry;

		for (int i = 0; i < PEERS; i++) {
			struct message *message = (void *)(out + i * SIZE);

			while (sent[i] < ROUNDS) {
				message->peer = i;
				message->number = sent[i];
				message->len = (sent[i] * 7 + i) % (MIN_LEFT - sizeof(*message));
				memset(message->bytes, sent[i], message->len);
				if (fi_inject(from[i]->ep, message, sizeof(*message) + message->len,
					      addr[i]))
					break;
				sent[i]++;
			}
		}
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, to->cq, &entry, 1));
		for (struct message message, *in_buf = entry.buf; in_buf; in_buf = NULL) {
			memcpy(&message, in_buf, sizeof(message));
			KUNIT_ASSERT_LT(test, message.peer, PEERS);
			KUNIT_ASSERT_EQ(test, seen[message.peer], message.number);
			KUNIT_ASSERT_EQ(test, sizeof(message) + message.len, entry.len);
			KUNIT_ASSERT_NULL(test, memchr_inv(in_buf->bytes, message.number & 0xff,
							   message.len));
			seen[message.peer]++;
		}
		count++;
		if (entry.flags & FI_MULTI_RECV)
			KUNIT_ASSERT_EQ(test, 0, post(to, entry.op_context, SIZE, 0));
	}
}

/* The buffer has messages without a completion, which the close drops. */
static void close_01_close_with_partly_used_multi_recv_buffers(struct kunit *test)
{
	static const struct rdm_opts opts = { .cq_size = 2 };
	struct multi *s = multi(test, &opts);

	KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in, 2 * SMALL + MIN_LEFT, 0));
	KUNIT_ASSERT_EQ(test, 0, post(s->b, s->in + PACKET, BUF_SIZE - PACKET, 0));
	for (int i = 0; i < 8; i++)
		send(test, s, s->out, i % 2 ? SMALL : SEGMENTS + i);
	usleep_range(1000, 2000);
	fx_close(test, &s->b->ep->fid);
	fx_close(test, &s->b->cq->fid);
	fx_close(test, &s->b->av->fid);
	fx_close(test, &s->b->domain->fid);
	fx_close(test, &s->b->fabric->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_11_min_multi_recv_option_of_datagrams),
	KUNIT_CASE_PARAM(ep_11_messages_are_placed_in_order, when_gen_params),
	KUNIT_CASE(ep_11_a_multi_recv_for_one_datagram),
	KUNIT_CASE(ep_11_each_datagram_of_a_multi_recv_completes),
	KUNIT_CASE(ep_11_a_datagram_longer_than_the_rest_is_truncated),
	KUNIT_CASE(ep_11_a_multi_recv_keeps_its_position_in_the_queue),
	KUNIT_CASE(ep_11_datagrams_wait_for_cq_slots),
	KUNIT_CASE(ep_11_a_multi_recv_is_cancelled),
	KUNIT_CASE(ep_11_cancelling_a_multi_recv_loses_no_message),
	KUNIT_CASE(ep_11_a_rendezvous_into_a_multi_recv_fails),
	KUNIT_CASE(ep_11_multi_recv_as_a_datagram_endpoint_default),
	KUNIT_CASE(ep_11_a_multi_recv_of_datagrams_is_one_range),
	KUNIT_CASE(ep_11_multi_recv_without_the_capability_is_refused),
	KUNIT_CASE(ep_11_multi_recv_buffers_are_reused),
	KUNIT_CASE(close_01_close_with_partly_used_multi_recv_buffers),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_multi",
	.test_cases = cases,
};

kunit_test_suite(suite);
