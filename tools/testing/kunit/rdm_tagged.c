// SPDX-License-Identifier: GPL-2.0
/* Tests RDM 5 of CONTRACT: tagged messages between datagram endpoints. */

#include "rdm.h"

#define LEN	200

struct tagged {
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b;
	u64		*out;	/* LEN bytes */
	u64		*in;	/* LEN bytes */
};

static struct tagged *tagged(struct kunit *test, const struct rdm_opts *opts)
{
	struct tagged *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->a = rdm_open(test, opts);
	t->b = rdm_open(test, opts);
	t->to_b = rdm_addr(test, t->a, t->b);
	t->out = kunit_kzalloc(test, LEN, GFP_KERNEL);
	t->in = kunit_kzalloc(test, LEN, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->out);
	KUNIT_ASSERT_NOT_NULL(test, t->in);
	get_random_bytes(t->out, LEN);
	return t;
}

static void expect(struct kunit *test, struct tagged *t, u64 tag, u64 flags,
		   u64 data, size_t len)
{
	struct fi_cq_tagged_entry entry;

	rdm_expect(test, t->b, t->in, &entry);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_TAGGED | flags, entry.flags);
	KUNIT_EXPECT_EQ(test, tag, entry.tag);
	KUNIT_EXPECT_EQ(test, data, entry.data);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_MEMEQ(test, t->out, t->in, len);
	memset(t->in, 0, LEN);
}

enum { SEND, SENDV, SENDMSG, INJECT, SENDDATA, INJECTDATA, SENDS };

/* Sends with each call; receive_as() receives with each call. */
static ssize_t send_as(struct tagged *t, int form, u64 tag, u64 data)
{
	struct kvec iov[] = { { t->out, 100 }, { (u8 *)t->out + 100, LEN - 100 } };
	struct fi_msg_tagged msg = {
		.msg_iov = iov, .iov_count = 2, .addr = t->to_b, .tag = tag,
		.context = t->out, .data = data,
	};

	switch (form) {
	case SEND:
		return fi_tsend(t->a->ep, t->out, LEN, NULL, t->to_b, tag, t->out);
	case SENDV:
		return fi_tsendv(t->a->ep, iov, NULL, 2, t->to_b, tag, t->out);
	case SENDMSG:
		return fi_tsendmsg(t->a->ep, &msg, FI_REMOTE_CQ_DATA | FI_COMPLETION);
	case INJECT:
		return fi_tinject(t->a->ep, t->out, LEN, t->to_b, tag);
	case SENDDATA:
		return fi_tsenddata(t->a->ep, t->out, LEN, NULL, data, t->to_b, tag, t->out);
	default:
		return fi_tinjectdata(t->a->ep, t->out, LEN, data, t->to_b, tag);
	}
}

static ssize_t receive_as(struct tagged *t, int form, u64 tag)
{
	struct kvec iov[] = { { t->in, 64 }, { (u8 *)t->in + 64, LEN - 64 } };
	struct fi_msg_tagged msg = {
		.msg_iov = iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC,
		.tag = tag, .context = t->in,
	};

	switch (form % 3) {
	case 0:
		return fi_trecv(t->b->ep, t->in, LEN, NULL, FI_ADDR_UNSPEC, tag, 0, t->in);
	case 1:
		return fi_trecvv(t->b->ep, iov, NULL, 2, FI_ADDR_UNSPEC, tag, 0, t->in);
	default:
		return fi_trecvmsg(t->b->ep, &msg, 0);
	}
}

static void rdm_05_all_calls_of_tagged_messages(struct kunit *test)
{
	struct tagged *t = tagged(test, &(struct rdm_opts){ .inject_size = LEN });
	u64 data = 0x0123456789abcdef;

	for (int form = 0; form < SENDS; form++)
		for (int other = 0; other < 3; other++) {
			bool has_data = form == SENDMSG || form >= SENDDATA;
			bool has_entry = form != INJECT && form != INJECTDATA;
			struct fi_cq_tagged_entry entry;
			u64 tag = 100 * form + other;

			KUNIT_ASSERT_EQ(test, 0, receive_as(t, other, tag));
			KUNIT_ASSERT_EQ(test, 0, send_as(t, form, tag, data));
			expect(test, t, tag, has_data ? FI_REMOTE_CQ_DATA : 0,
			       has_data ? data : 0, LEN);
			if (!has_entry)
				continue;
			rdm_expect(test, t->a, t->out, &entry);
			KUNIT_EXPECT_EQ(test, FI_SEND | FI_TAGGED, entry.flags);
		}
}

static void rdm_05_the_ignore_mask(struct kunit *test)
{
	struct tagged *t = tagged(test, NULL);
	static const struct { u64 tag, ignore; int takes; } receives[] = {
		{ 0x10, 0x0, 2 },	/* exact match */
		{ 0x20, 0xf, 1 },	/* ignores the last digit */
		{ 0x00, ~0ull, 0 },	/* the remaining message */
	};
	static const u64 tags[] = { 0x77, 0x2a, 0x10 };

	for (int i = 0; i < ARRAY_SIZE(tags); i++) {
		t->out[0] = i;
		KUNIT_ASSERT_EQ(test, 0, fi_tsend(t->a->ep, t->out, 8, NULL, t->to_b, tags[i], t->out));
		rdm_expect(test, t->a, t->out, NULL);
	}
	for (int i = 0; i < ARRAY_SIZE(receives); i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_trecv(t->b->ep, t->in, LEN, NULL, FI_ADDR_UNSPEC,
						  receives[i].tag, receives[i].ignore, t->in));
		t->out[0] = receives[i].takes;
		expect(test, t, tags[receives[i].takes], 0, 0, 8);
	}
}

/* Tagged and untagged messages match separately. */
static void rdm_05_tagged_and_untagged_match_separately(struct kunit *test)
{
	struct tagged *t = tagged(test, NULL);
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_EQ(test, 0, fi_trecv(t->b->ep, t->in, LEN, NULL, FI_ADDR_UNSPEC, 0, ~0ull, t->in));
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(t->b, FI_ADDR_UNSPEC, &t->in[1], 8, &t->in[1]));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(t->a, t->to_b, t->out, 8, t->out));
	rdm_expect(test, t->b, &t->in[1], &entry);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry.flags);
	KUNIT_ASSERT_EQ(test, 0, fi_tsend(t->a->ep, t->out, LEN, NULL, t->to_b, 5, t->out));
	expect(test, t, 5, 0, 0, LEN);
}

static void rdm_05_a_cancelled_tagged_receive_fails(struct kunit *test)
{
	struct tagged *t = tagged(test, NULL);
	struct fi_cq_err_entry error;

	KUNIT_ASSERT_EQ(test, 0, fi_trecv(t->b->ep, t->in, LEN, NULL, FI_ADDR_UNSPEC, 5, 0, &t->in[1]));
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(t->b->ep, t->in, LEN, NULL, FI_ADDR_UNSPEC, 5, 0, t->in));
	KUNIT_EXPECT_EQ(test, 0, fi_cancel(&t->b->ep->fid, &t->in[1]));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, t->b->cq, &error));
	KUNIT_EXPECT_PTR_EQ(test, (void *)&t->in[1], error.op_context);
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_TAGGED, error.flags);
	KUNIT_ASSERT_EQ(test, 0, fi_tsend(t->a->ep, t->out, LEN, NULL, t->to_b, 5, t->out));
	expect(test, t, 5, 0, 0, LEN);
}

static void cq_08_a_truncated_tagged_message(struct kunit *test)
{
	struct tagged *t = tagged(test, NULL);
	struct fi_cq_err_entry error;

	KUNIT_ASSERT_EQ(test, 0, fi_trecv(t->b->ep, t->in, 24, NULL, FI_ADDR_UNSPEC, 5, 0, t->in));
	KUNIT_ASSERT_EQ(test, 0, fi_tsend(t->a->ep, t->out, LEN, NULL, t->to_b, 5, t->out));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, t->b->cq, &error));
	KUNIT_EXPECT_EQ(test, FI_ETRUNC, error.err);
	KUNIT_EXPECT_EQ(test, LEN - 24, error.olen);
	KUNIT_EXPECT_EQ(test, 24, error.len);
	KUNIT_EXPECT_EQ(test, 5, error.tag);
	KUNIT_EXPECT_MEMEQ(test, t->out, t->in, 24);
	KUNIT_EXPECT_EQ(test, 0, t->in[3]);
}

static void ep_09_invalid_tagged_calls_are_refused(struct kunit *test)
{
	struct tagged *t = tagged(test, NULL);
	size_t max_size = t->a->info->ep_attr->max_msg_size;
	struct kvec iov[5] = {};
	struct fi_msg_tagged msg = { .msg_iov = iov, .iov_count = 1, .addr = t->to_b };
	u8 *buf = kunit_kzalloc(test, SZ_4K, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE,
			fi_tsend(t->a->ep, buf, max_size + 1, NULL, t->to_b, 5, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE,
			fi_tinject(t->a->ep, buf, t->a->info->tx_attr->inject_size + 1, t->to_b, 5));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_tsendv(t->a->ep, iov, NULL, 5, t->to_b, 5, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_tsendmsg(t->a->ep, &msg, FI_MULTI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_trecvmsg(t->a->ep, &msg, FI_INJECT));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_tsendmsg(t->a->ep, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_trecvmsg(t->a->ep, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_tsend(t->a->ep, buf, LEN, NULL, FI_ADDR_UNSPEC, 5, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_tsend(t->a->ep, NULL, 0, NULL, t->to_b, 5, t->out));
	rdm_expect(test, t->a, t->out, NULL);
}

static struct kunit_case rdm_tagged_cases[] = {
	KUNIT_CASE(rdm_05_all_calls_of_tagged_messages),
	KUNIT_CASE(rdm_05_the_ignore_mask),
	KUNIT_CASE(rdm_05_tagged_and_untagged_match_separately),
	KUNIT_CASE(rdm_05_a_cancelled_tagged_receive_fails),
	KUNIT_CASE(cq_08_a_truncated_tagged_message),
	KUNIT_CASE(ep_09_invalid_tagged_calls_are_refused),
	{}
};

static struct kunit_suite rdm_tagged_suite = {
	.name = "kofi_rdm_tagged",
	.test_cases = rdm_tagged_cases,
};

kunit_test_suite(rdm_tagged_suite);
