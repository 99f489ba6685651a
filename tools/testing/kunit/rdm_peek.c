// SPDX-License-Identifier: GPL-2.0
/* Tests RDM 5 of CONTRACT: FI_PEEK, FI_CLAIM and FI_DISCARD. */

#include <linux/delay.h>

#include "rdm.h"

#define LONGEST	SZ_256K

/* Lengths of eager, segmented and rendezvous messages. */
static const size_t lens[] = { 0, 100, 16384, 50000, LONGEST };

struct peek {
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b;
	u8		*out, *in;
};

static struct peek *peek(struct kunit *test)
{
	struct peek *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->out = kunit_kzalloc(test, LONGEST, GFP_KERNEL);
	p->in = kunit_kzalloc(test, LONGEST, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p->out);
	KUNIT_ASSERT_NOT_NULL(test, p->in);
	get_random_bytes(p->out, LONGEST);
	p->a = rdm_open(test, NULL);
	p->b = rdm_open(test, NULL);
	p->to_b = rdm_addr(test, p->a, p->b);
	return p;
}

static void send(struct kunit *test, struct peek *p, size_t len, u64 tag)
{
	KUNIT_ASSERT_EQ(test, 0, fi_tsend(p->a->ep, p->out, len, NULL, p->to_b, tag, p->out));
}

/* Calls fi_trecvmsg() without a buffer; returns 0 or the negative errno of its error entry. */
static int peek_msg(struct kunit *test, struct peek *p, u64 tag, u64 flags, void *context,
		    struct fi_cq_tagged_entry *entry)
{
	struct fi_msg_tagged msg = {
		.addr = FI_ADDR_UNSPEC, .tag = tag, .context = context,
	};
	struct fi_cq_err_entry error = {};
	int ret;

	KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(p->b->ep, &msg, flags));
	ret = fi_cq_sread(p->b->cq, entry, 1, NULL, FX_WAIT_MS);
	if (ret == 1) {
		KUNIT_EXPECT_PTR_EQ(test, context, entry->op_context);
		return 0;
	}
	KUNIT_ASSERT_EQ(test, -FI_EAVAIL, ret);
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(p->b->cq, &error, 0));
	KUNIT_EXPECT_PTR_EQ(test, context, error.op_context);
	return -error.err;
}

/* Peeks until the message is there. */
static void await_msg(struct kunit *test, struct peek *p, u64 tag, u64 flags, void *context,
		      size_t len)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;
	int ret;

	while ((ret = peek_msg(test, p, tag, FI_PEEK | flags, context, &entry)) == -FI_ENOMSG &&
	       time_before(jiffies, end))
		usleep_range(50, 100);
	KUNIT_ASSERT_EQ(test, 0, ret);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_TAGGED, entry.flags);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_EQ(test, tag, entry.tag);
}

static void receive(struct kunit *test, struct peek *p, size_t len, u64 tag, u64 flags)
{
	struct kvec iov = { p->in, len };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = tag, .context = p,
	};
	struct fi_cq_tagged_entry entry;

	memset(p->in, 0, LONGEST);
	KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(p->b->ep, &msg, flags));
	rdm_expect(test, p->b, p, &entry);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_EQ(test, 0, memcmp(p->out, p->in, len));
}

static void rdm_05_a_peek_leaves_the_message(struct kunit *test)
{
	struct peek *p = peek(test);
	struct fi_cq_tagged_entry entry;

	KUNIT_EXPECT_EQ(test, -FI_ENOMSG, peek_msg(test, p, 5, FI_PEEK, p, &entry));
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		send(test, p, lens[i], 5);
		for (int n = 0; n < 2; n++)
			await_msg(test, p, 5, 0, p, lens[i]);
		KUNIT_EXPECT_EQ(test, -FI_ENOMSG, peek_msg(test, p, 6, FI_PEEK, p, &entry));
		receive(test, p, lens[i], 5, 0);
		KUNIT_EXPECT_EQ(test, -FI_ENOMSG, peek_msg(test, p, 5, FI_PEEK, p, &entry));
		rdm_expect(test, p->a, p->out, NULL);
	}
}

static void rdm_05_a_claimed_message_is_received_by_its_context(struct kunit *test)
{
	struct peek *p = peek(test);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		send(test, p, lens[i], 5);
		await_msg(test, p, 5, FI_CLAIM, p, lens[i]);
		/* A claimed message is not visible: other receives match the next one. */
		KUNIT_EXPECT_EQ(test, -FI_ENOMSG, peek_msg(test, p, 5, FI_PEEK, p, &entry));
		send(test, p, 1, 5);
		receive(test, p, 1, 5, 0);
		receive(test, p, lens[i], 0, FI_CLAIM);
		for (int n = 0; n < 2; n++)
			rdm_expect(test, p->a, p->out, NULL);
	}
}

static void rdm_05_a_discarded_message_is_dropped(struct kunit *test)
{
	struct peek *p = peek(test);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		for (int claim = 0; claim < 2; claim++) {
			send(test, p, lens[i], 5);
			if (claim) {
				await_msg(test, p, 5, FI_CLAIM, p, lens[i]);
				KUNIT_EXPECT_EQ(test, 0, peek_msg(test, p, 0, FI_CLAIM | FI_DISCARD, p,
								  &entry));
			} else {
				await_msg(test, p, 5, FI_DISCARD, p, lens[i]);
			}
			/* A discarded message still completes at its sender. */
			rdm_expect(test, p->a, p->out, NULL);
			KUNIT_EXPECT_EQ(test, -FI_ENOMSG, peek_msg(test, p, 5, FI_PEEK, p, &entry));
		}
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(p->b->cq, &entry, 1));
}

static void rdm_05_invalid_peek_flags_are_refused(struct kunit *test)
{
	struct peek *p = peek(test);
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .context = p };
	struct fi_msg untagged = { .addr = FI_ADDR_UNSPEC, .context = p };

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_trecvmsg(p->b->ep, &msg, FI_CLAIM));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_trecvmsg(p->b->ep, &msg, FI_CLAIM | FI_DISCARD));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_trecvmsg(p->b->ep, &msg, FI_DISCARD));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_trecvmsg(p->b->ep, &msg, FI_PEEK | FI_CLAIM | FI_DISCARD));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_recvmsg(p->b->ep, &untagged, FI_PEEK));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_recvmsg(p->b->ep, &untagged, FI_CLAIM | FI_DISCARD));
	/* FI_CLAIM has the bit of FI_DIRECTED_RECV, which the endpoint lacks. */
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_recvmsg(p->b->ep, &untagged, FI_CLAIM));
}

/* Closes with a claimed message, and a discarded one that is still arriving. */
static void close_01_close_with_claimed_and_discarded_messages(struct kunit *test)
{
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		struct peek *p = peek(test);

		for (u64 tag = 0; tag < 3; tag++)
			send(test, p, lens[i], tag);
		await_msg(test, p, 1, FI_CLAIM, p, lens[i]);
		await_msg(test, p, 2, FI_DISCARD, p, lens[i]);
		fx_close(test, &(i % 2 ? p->a : p->b)->ep->fid);
		fx_close(test, &(i % 2 ? p->b : p->a)->ep->fid);
		fx_close(test, &p->b->cq->fid);
	}
}

static struct kunit_case rdm_peek_cases[] = {
	KUNIT_CASE(rdm_05_a_peek_leaves_the_message),
	KUNIT_CASE(rdm_05_a_claimed_message_is_received_by_its_context),
	KUNIT_CASE(rdm_05_a_discarded_message_is_dropped),
	KUNIT_CASE(rdm_05_invalid_peek_flags_are_refused),
	KUNIT_CASE(close_01_close_with_claimed_and_discarded_messages),
	{}
};

static struct kunit_suite rdm_peek_suite = {
	.name = "kofi_rdm_peek",
	.test_cases = rdm_peek_cases,
};

kunit_test_suite(rdm_peek_suite);
