// SPDX-License-Identifier: GPL-2.0
/* Tests datagram operations whose peer closes, does not answer, or is removed from the AV. */

#include <linux/delay.h>
#include <linux/mm.h>

#include <rdma/fi_rma.h>

#include "rdm.h"
#include "traffic.h"

#define DEPTH	8
#define LONGEST	SZ_1M
/* Length of an RMA operation: a device can map DEPTH of them at once. */
#define ACCESSED	SZ_128K
/* Fill pattern of buffers that must not be written any more. */
#define PATTERN	0x5a
#define LEN	100
/* Last byte of an address in the device's network that no host has. */
#define ABSENT	77

enum kind { EAGER, SEGMENTS, RNDV, WRITES, READS, KINDS };

static const size_t lens[KINDS] = { 1000, 100000, LONGEST, ACCESSED, ACCESSED };

struct ends {
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b;
	u8		*out, *in;	/* DEPTH messages each */
	struct fid_mr	*mr;		/* covers the begin of in, for RMA to b */
};

/* Reads count completions; returns the number of errors. */
static int read_completions(struct kunit *test, struct kofi_rdm *rdm, int count)
{
	unsigned long end = jiffies + msecs_to_jiffies(2 * FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;
	int errors = 0;

	while (count) {
		struct fi_cq_err_entry error = {};
		ssize_t ret = fi_cq_sread(rdm->cq, &entry, 1, NULL, 10);

		if (ret == 1) {
			count--;
		} else if (ret == -FI_EAVAIL && fi_cq_readerr(rdm->cq, &error, 0) == 1) {
			KUNIT_EXPECT_GT(test, error.err, 0);
			errors++;
			count--;
		}
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for %d more completions", count);
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(rdm->cq, &entry, 1));
	return errors;
}

static void open_ends(struct kunit *test, struct ends *ends)
{
	static const struct rdm_opts opts = { .caps = FI_RMA, .rx_size = 2 * DEPTH };

	ends->a = rdm_open(test, &opts);
	ends->b = rdm_open(test, &opts);
	ends->to_b = rdm_addr(test, ends->a, ends->b);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(ends->b->domain, ends->in, DEPTH * ACCESSED,
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &ends->mr,
					   NULL));
	fx_defer_close(test, &ends->mr->fid);
	rdm_exchange(test, ends->a, ends->to_b, ends->b);
}

/* Starts DEPTH operations of that kind, from a to b. */
static void start(struct kunit *test, struct ends *ends, enum kind kind)
{
	size_t len = lens[kind];

	for (int i = 0; i < DEPTH; i++) {
		u8 *out = ends->out + i * LONGEST, *in = ends->in + i * LONGEST;
		u64 addr = (uintptr_t)ends->in + i * ACCESSED, key = fi_mr_key(ends->mr);
		struct fid_ep *ep = ends->a->ep;
		int ret;

		if (kind == WRITES) {
			ret = fi_write(ep, out, len, NULL, ends->to_b, addr, key, out);
		} else if (kind == READS) {
			ret = fi_read(ep, out, len, NULL, ends->to_b, addr, key, out);
		} else {
			KUNIT_ASSERT_EQ(test, 0, rdm_recv(ends->b, FI_ADDR_UNSPEC, in, len, in));
			ret = rdm_send(ends->a, ends->to_b, out, len, out);
		}
		KUNIT_ASSERT_EQ(test, 0, ret);
	}
}

/* Opens an endpoint at the address of a closed one. */
static struct kofi_rdm *reopen(struct kunit *test, struct kofi_rdm *before)
{
	struct kofi_rdm *rdm = rdm_make(test, NULL);

	KUNIT_ASSERT_EQ(test, 0, fi_setname(&rdm->ep->fid, &before->name, before->name_len));
	rdm_start(test, rdm, 0);
	return rdm;
}

/* Sends until a message arrives; the first ones may fail. */
static void expect_through(struct kunit *test, struct kofi_rdm *from, fi_addr_t addr,
			   struct kofi_rdm *to)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	int tries = 0;

	KUNIT_ASSERT_EQ(test, 0, rdm_recv(to, FI_ADDR_UNSPEC, buf + LEN, LEN, buf));
	for (tr_fill(buf, LEN, 1); tries < 100; tries++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_send(from, addr, buf, LEN, buf));
		if (!read_completions(test, from, 1))
			break;
		msleep(20);
	}
	rdm_expect(test, to, buf, NULL);
	KUNIT_EXPECT_TRUE(test, tr_intact(buf + LEN, LEN, 1));
}

static void get_buffers(struct kunit *test, struct ends *ends)
{
	ends->out = tr_vbuffer(test, DEPTH * LONGEST);
	ends->in = tr_vbuffer(test, DEPTH * LONGEST);
	tr_fill(ends->out, DEPTH * LONGEST, 1);
}

static void rdm_04_the_receiver_is_reopened(struct kunit *test)
{
	struct ends *ends = (void *)tr_buffer(test, sizeof(*ends));
	struct kofi_rdm *next;

	get_buffers(test, ends);
	for (enum kind kind = EAGER; kind < KINDS; kind++) {
		int errors;

		open_ends(test, ends);
		start(test, ends, kind);
		udelay(kind * 70);
		fx_close(test, &ends->b->ep->fid);
		/* Only the buffers of a's reads are in use until the reads complete. */
		memset(ends->in, PATTERN, DEPTH * LONGEST);
		errors = read_completions(test, ends->a, DEPTH);
		kunit_info(test, "kind %d: %d errors\n", kind, errors);
		next = reopen(test, ends->b);
		expect_through(test, ends->a, ends->to_b, next);
		KUNIT_EXPECT_NULL(test, memchr_inv(ends->in, PATTERN, DEPTH * LONGEST));
		fx_close(test, &ends->a->ep->fid);
		fx_close(test, &next->ep->fid);
		fx_close(test, &ends->mr->fid);
	}
}

static void rdm_04_the_sender_is_reopened(struct kunit *test)
{
	struct ends *ends = (void *)tr_buffer(test, sizeof(*ends));

	get_buffers(test, ends);
	for (enum kind kind = EAGER; kind < KINDS; kind++) {
		struct kofi_rdm *next;
		int errors = 0;

		open_ends(test, ends);
		start(test, ends, kind);
		udelay(kind * 70);
		fx_close(test, &ends->a->ep->fid);
		/* The buffers of reads may be reused once the endpoint is closed. */
		if (kind == READS)
			memset(ends->out, PATTERN, DEPTH * LONGEST);
		next = reopen(test, ends->a);
		/* The pending receives end before the next message, which would match them. */
		rdm_await_connected(test, ends->b, 0);
		for (int i = 0; kind <= RNDV && i < DEPTH; i++)
			errors += fi_cancel(&ends->b->ep->fid, ends->in + i * LONGEST) == 0;
		if (kind <= RNDV)
			errors = read_completions(test, ends->b, DEPTH);
		kunit_info(test, "kind %d: %d errors\n", kind, errors);
		expect_through(test, next, rdm_addr(test, next, ends->b), ends->b);
		if (kind == READS)
			KUNIT_EXPECT_NULL(test, memchr_inv(ends->out, PATTERN, DEPTH * LONGEST));
		fx_close(test, &next->ep->fid);
		fx_close(test, &ends->b->ep->fid);
		fx_close(test, &ends->mr->fid);
	}
}

/* Operations of the closed endpoints do not affect the new ones at their addresses. */
static void rdm_04_both_ends_are_reopened(struct kunit *test)
{
	struct ends *ends = (void *)tr_buffer(test, sizeof(*ends));

	get_buffers(test, ends);
	for (enum kind kind = EAGER; kind < KINDS; kind++) {
		struct kofi_rdm *a, *b;

		open_ends(test, ends);
		start(test, ends, kind);
		udelay(kind * 70);
		fx_close(test, &(kind % 2 ? ends->a : ends->b)->ep->fid);
		fx_close(test, &(kind % 2 ? ends->b : ends->a)->ep->fid);
		memset(ends->in, PATTERN, DEPTH * LONGEST);
		memset(ends->out, PATTERN, DEPTH * LONGEST);
		a = reopen(test, ends->a);
		b = reopen(test, ends->b);
		expect_through(test, a, rdm_addr(test, a, b), b);
		expect_through(test, b, rdm_addr(test, b, a), a);
		KUNIT_EXPECT_NULL(test, memchr_inv(ends->in, PATTERN, DEPTH * LONGEST));
		KUNIT_EXPECT_NULL(test, memchr_inv(ends->out, PATTERN, DEPTH * LONGEST));
		fx_close(test, &a->ep->fid);
		fx_close(test, &b->ep->fid);
		fx_close(test, &ends->mr->fid);
	}
}

/* Operations that are pending at the removal complete; new ones are refused. */
static void rdm_01_pending_sends_complete_after_av_remove(struct kunit *test)
{
	struct ends *ends = (void *)tr_buffer(test, sizeof(*ends));
	struct fi_cq_tagged_entry entry;

	get_buffers(test, ends);
	open_ends(test, ends);
	for (int i = 0; i < DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, rdm_send(ends->a, ends->to_b, ends->out + i * LONGEST,
						  lens[i % (RNDV + 1)], NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_av_remove(ends->a->av, &ends->to_b, 1, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(ends->a->ep, ends->out, LEN, NULL, ends->to_b, NULL));
	/* Messages keep their order; their send completions need not. */
	for (int i = 0; i < DEPTH; i++) {
		u8 *in = ends->in + i * LONGEST;

		KUNIT_ASSERT_EQ(test, 0, rdm_recv(ends->b, FI_ADDR_UNSPEC, in, LONGEST, in));
		rdm_expect(test, ends->b, in, &entry);
		KUNIT_EXPECT_EQ(test, lens[i % (RNDV + 1)], entry.len);
		KUNIT_EXPECT_EQ(test, 0, memcmp(in, ends->out + i * LONGEST, entry.len));
	}
	KUNIT_EXPECT_EQ(test, 0, read_completions(test, ends->a, DEPTH));
	rdm_exchange(test, ends->a, rdm_addr(test, ends->a, ends->b), ends->b);
}

/* Inserts an address at which no host answers. */
static fi_addr_t absent_addr(struct kunit *test, struct kofi_rdm *rdm, u8 host)
{
	struct kofi_rdm other = *rdm;
	struct sockaddr_in *name = (void *)&other.name;

	/* Each address of the loopback network belongs to this host. */
	if (fx_is_loop())
		name->sin_addr.s_addr = htonl(0xc0000200);
	((u8 *)&name->sin_addr)[3] = host;
	return rdm_addr(test, rdm, &other);
}

/* Sends until a post is refused; returns the number of messages. */
static int send_until_full(struct kofi_rdm *rdm, fi_addr_t to, u8 *out, size_t len)
{
	int count = 0;

	while (!fi_send(rdm->ep, out, len, NULL, to, NULL))
		count++;
	return count;
}

/* Messages to an unreachable address fail in the end, and do not delay others. */
static void rdm_04_an_unreachable_peer_delays_no_other(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	fi_addr_t to_absent = absent_addr(test, rdm, ABSENT), to_other = rdm_addr(test, rdm, other);
	struct fi_cq_err_entry error;
	int count;

	for (int round = 0; round < 2; round++) {
		count = send_until_full(rdm, to_absent, out, LEN);
		KUNIT_EXPECT_GT(test, count, 0);
		for (int i = 0; i < 20; i++) {
			KUNIT_ASSERT_EQ(test, 0, rdm_recv(other, FI_ADDR_UNSPEC, in, LEN, in));
			/* The send is accepted at once. */
			KUNIT_ASSERT_EQ(test, 0, fi_inject(rdm->ep, out, LEN, to_other));
			rdm_expect(test, other, in, NULL);
		}
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, rdm->cq, &error));
		KUNIT_EXPECT_TRUE_MSG(test, error.err == FI_EHOSTUNREACH || error.err == FI_ETIMEDOUT,
				      "%s", fi_strerror(error.err));
		KUNIT_EXPECT_EQ(test, count - 1, read_completions(test, rdm, count - 1));
	}
	rdm_exchange(test, rdm, to_other, other);
}

/* Messages to a new peer are accepted while another new peer holds all that one may hold. */
static void rdm_11_new_peers_share_no_budget(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_rdm *other = rdm_open(test, NULL);

	for (int host = ABSENT; host < ABSENT + 16; host++) {
		struct kofi_rdm *rdm = rdm_open(test, NULL);
		fi_addr_t to_absent = absent_addr(test, rdm, host), to_other = rdm_addr(test, rdm, other);

		KUNIT_EXPECT_GT(test, send_until_full(rdm, to_absent, out, LEN), 0);
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(other, FI_ADDR_UNSPEC, in, LEN, in));
		KUNIT_ASSERT_EQ(test, 0, fi_inject(rdm->ep, out, LEN, to_other));
		rdm_expect(test, other, in, NULL);
		fx_close(test, &rdm->ep->fid);
	}
}

/* Closes an endpoint with as many pending operations as possible. */
static void close_01_close_with_the_most_pending_operations(struct kunit *test)
{
	static const struct rdm_opts opts = { .cq_size = 8192, .rx_size = 4096 };
	u8 *out = tr_vbuffer(test, LONGEST), *in = tr_buffer(test, LEN);
	struct kofi_rdm *last;

	for (int round = 0; round < 6; round++) {
		struct kofi_rdm *rdm = rdm_open(test, &opts);
		size_t len = lens[round % (RNDV + 1)];
		int sends = 0, receives = 0;
		unsigned long begin;

		if (round % 2) {
			struct kofi_rdm *silent = rdm_open(test, NULL);
			fi_addr_t to_silent = rdm_addr(test, rdm, silent);

			rdm_exchange(test, rdm, to_silent, silent);
			sends += send_until_full(rdm, to_silent, out, len);
		} else {
			sends += send_until_full(rdm, absent_addr(test, rdm, ABSENT), out, len);
		}
		for (int i = 1; i < 9; i++)
			sends += send_until_full(rdm, absent_addr(test, rdm, ABSENT + i), out, len);
		while (!fi_recv(rdm->ep, in, LEN, NULL, FI_ADDR_UNSPEC, NULL))
			receives++;
		KUNIT_EXPECT_GE(test, sends, 64);
		KUNIT_EXPECT_GE(test, receives, 4096);
		msleep(round * 20);
		begin = jiffies;
		fx_close(test, &rdm->ep->fid);
		KUNIT_EXPECT_LT(test, jiffies - begin, msecs_to_jiffies(FX_WAIT_MS / 2));
		memset(out, round, LONGEST);
		fx_close(test, &rdm->cq->fid);
		fx_close(test, &rdm->av->fid);
		fx_close(test, &rdm->domain->fid);
		fx_close(test, &rdm->fabric->fid);
	}
	last = rdm_open(test, NULL);
	rdm_exchange(test, last, rdm_addr(test, last, last), last);
}

/* Operations that the device refuses fail when they are posted to it, all at once. */
static void rdm_operations_that_the_device_refuses_fail(struct kunit *test)
{
	u8 *local = tr_buffer(test, LEN);
	struct kofi_rdm *a = rdm_open(test, &(struct rdm_opts){ .caps = FI_RMA });
	struct kofi_rdm *b = rdm_open(test, NULL);
	fi_addr_t to_b = rdm_addr(test, a, b);
	int count = 0;

	/* A remote key is shorter than 64 bits. */
	while (!fi_read(a->ep, local, LEN, NULL, to_b, 0, ~0ull, local))
		count++;
	KUNIT_EXPECT_GT(test, count, 10);
	KUNIT_EXPECT_EQ(test, count, read_completions(test, a, count));
	expect_through(test, a, to_b, b);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(rdm_04_the_receiver_is_reopened),
	KUNIT_CASE(rdm_04_the_sender_is_reopened),
	KUNIT_CASE(rdm_04_both_ends_are_reopened),
	KUNIT_CASE(rdm_01_pending_sends_complete_after_av_remove),
	KUNIT_CASE_SLOW(rdm_04_an_unreachable_peer_delays_no_other),
	KUNIT_CASE(rdm_11_new_peers_share_no_budget),
	KUNIT_CASE_SLOW(close_01_close_with_the_most_pending_operations),
	KUNIT_CASE(rdm_operations_that_the_device_refuses_fail),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_end",
	.test_cases = cases,
};

kunit_test_suite(suite);
