// SPDX-License-Identifier: GPL-2.0
/* Tests FI_TAGGED_RMA: reads and writes of the memory of a peer's tagged receive. */

#include <rdma/fi_rma.h>

#include "rdm.h"
#include "traffic.h"

#define TAG		0x123456789abcdef0
#define LEN		1000
#define LONGEST		SZ_1M
/* More accesses than a connection can have in flight. */
#define MANY		40
#define BOTH_WAYS	(FI_RMA | FI_TAGGED_RMA)
/* Last byte of an address at which no host answers */
#define ABSENT		77

static const size_t lens[] = { 0, 1, LEN, SZ_4K, SZ_16K, SZ_16K + 1, LONGEST };

struct pair {
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b;
	u8		*near, *far;	/* memory of a, and of the receive of b */
};

static struct pair *open_pair(struct kunit *test, u64 caps, u64 peer_caps)
{
	struct pair *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->near = tr_buffer(test, LONGEST);
	p->far = tr_buffer(test, LONGEST);
	p->a = rdm_open(test, &(struct rdm_opts) { .caps = caps });
	p->b = rdm_open(test, &(struct rdm_opts) { .caps = peer_caps });
	p->to_b = rdm_addr(test, p->a, p->b);
	return p;
}

static ssize_t access_iov(struct pair *p, bool is_read, const struct kvec *iov, size_t count,
			  const struct fi_rma_iov *remote, u64 flags)
{
	const struct fi_msg_rma msg = {
		.msg_iov = iov, .iov_count = count, .addr = p->to_b, .rma_iov = remote,
		.rma_iov_count = 1, .context = p->near, .data = 77,
	};

	flags |= FI_TAGGED | FI_COMPLETION;
	return retry_while_eagain(is_read ? fi_readmsg(p->a->ep, &msg, flags) :
				  fi_writemsg(p->a->ep, &msg, flags));
}

static ssize_t access_tag(struct pair *p, bool is_read, size_t len, u64 tag, u64 flags)
{
	const struct kvec iov = { p->near, len };
	const struct fi_rma_iov remote = { .len = len, .key = tag };

	return access_iov(p, is_read, &iov, 1, &remote, flags);
}

static void post_receive(struct kunit *test, struct pair *p, void *buf, size_t len, u64 tag,
			 u64 ignore)
{
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_trecv(p->b->ep, buf, len, NULL,
							     FI_ADDR_UNSPEC, tag, ignore, buf)));
}

static void expect_transfer(struct kunit *test, struct pair *p, bool is_read, size_t len)
{
	struct fi_cq_tagged_entry entry;

	rdm_expect(test, p->a, p->near, &entry);
	KUNIT_EXPECT_EQ(test, FI_TAGGED | FI_SEND | FI_RMA | (is_read ? FI_READ : FI_WRITE),
			entry.flags);
	rdm_expect(test, p->b, p->far, &entry);
	KUNIT_EXPECT_EQ(test, FI_TAGGED | FI_RECV | FI_RMA | (is_read ? FI_READ : FI_WRITE),
			entry.flags);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_EQ(test, TAG, entry.tag);
}

static void tagged_rma_transfers_every_length(struct kunit *test)
{
	struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS);

	for (int i = 0; i < 2 * ARRAY_SIZE(lens); i++) {
		bool is_read = i % 2;
		size_t len = lens[i / 2];
		u8 *from = is_read ? p->far : p->near, *to = is_read ? p->near : p->far;

		tr_fill(from, len, i);
		memset(to, 0, LONGEST);
		post_receive(test, p, p->far, len, TAG, 0);
		KUNIT_ASSERT_EQ(test, 0, access_tag(p, is_read, len, TAG, 0));
		expect_transfer(test, p, is_read, len);
		KUNIT_EXPECT_TRUE_MSG(test, tr_intact(to, len, i), "%zu bytes, read %d", len, is_read);
		KUNIT_EXPECT_NULL(test, memchr_inv(to + len, 0, LONGEST - len));
	}
}

/* A receive may be longer than the access, and data travel with a write. */
static void tagged_rma_uses_the_beginning_of_a_receive(struct kunit *test)
{
	struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS);
	struct fi_cq_tagged_entry entry;

	for (int is_read = 0; is_read < 2; is_read++) {
		post_receive(test, p, p->far, LONGEST, TAG, 0);
		KUNIT_ASSERT_EQ(test, 0, access_tag(p, is_read, LEN, TAG,
						    is_read ? 0 : FI_REMOTE_CQ_DATA));
		rdm_expect(test, p->a, p->near, &entry);
		rdm_expect(test, p->b, p->far, &entry);
		KUNIT_EXPECT_EQ(test, LEN, entry.len);
		KUNIT_EXPECT_EQ(test, is_read ? 0 : FI_REMOTE_CQ_DATA,
				entry.flags & FI_REMOTE_CQ_DATA);
		if (!is_read)
			KUNIT_EXPECT_EQ(test, 77, entry.data);
	}
}

/* The initiator's memory may consist of segments that meet at page boundaries; a device registers no others. */
static void tagged_rma_of_several_segments(struct kunit *test)
{
	static const struct { size_t at[2], len[2]; bool meet; } segments[] = {
		{ { 0, 3 * PAGE_SIZE }, { PAGE_SIZE, PAGE_SIZE }, true },
		{ { 100, 3 * PAGE_SIZE }, { PAGE_SIZE - 100, 50 }, true },
		{ { 0, 100 }, { 100, 100 }, true },
		{ { 0, 3 * PAGE_SIZE }, { 100, 100 } },
		{ { 0, 3 * PAGE_SIZE + 1 }, { PAGE_SIZE, PAGE_SIZE } },
	};
	struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 2 * ARRAY_SIZE(segments); i++) {
		const size_t *at = segments[i / 2].at, *len = segments[i / 2].len;
		const struct kvec iov[2] = { { p->near + at[0], len[0] }, { p->near + at[1], len[1] } };
		const struct fi_rma_iov remote = { .len = len[0] + len[1], .key = TAG };
		bool is_read = i % 2;

		tr_fill(p->near, LONGEST, 3);
		tr_fill(p->far, remote.len, 4);
		post_receive(test, p, p->far, LONGEST, TAG, 0);
		KUNIT_ASSERT_EQ(test, 0, access_iov(p, is_read, iov, 2, &remote, 0));
		if (!segments[i / 2].meet && !rdm_all_local()) {
			tr_expect_error(test, p->a->cq, p->near, FI_EINVAL);
			KUNIT_EXPECT_EQ(test, 0, fi_cancel(&p->b->ep->fid, p->far));
			tr_expect_error(test, p->b->cq, p->far, FI_ECANCELED);
			continue;
		}
		rdm_expect(test, p->a, p->near, &entry);
		rdm_expect(test, p->b, p->far, &entry);
		KUNIT_EXPECT_EQ(test, remote.len, entry.len);
		for (int k = 0; k < 2; k++)
			KUNIT_EXPECT_EQ_MSG(test, 0,
					    memcmp(p->far + k * len[0], iov[k].iov_base, len[k]),
					    "row %d, segment %d", i, k);
	}
}

/* After an access whose memory cannot be registered, its context names no later operation. */
static void tagged_rma_that_fails_is_not_cancelled_later(struct kunit *test)
{
	struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS);
	const struct kvec iov[2] = { { p->near, LEN }, { p->near + 3 * LEN, LEN } };
	const struct fi_rma_iov remote = { .len = 2 * LEN, .key = TAG };
	struct kofi_rdm absent = *p->b;
	fi_addr_t to_absent;

	if (rdm_all_local())
		kunit_skip(test, "all memory can be registered");
	((u8 *)&((struct sockaddr_in *)&absent.name)->sin_addr)[3] = ABSENT;
	to_absent = rdm_addr(test, p->a, &absent);
	KUNIT_ASSERT_EQ(test, 0, access_iov(p, true, iov, 2, &remote, 0));
	tr_expect_error(test, p->a->cq, p->near, FI_EINVAL);
	KUNIT_ASSERT_EQ(test, 0, rdm_send(p->a, to_absent, p->far, LEN, p->far));
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&p->a->ep->fid, p->near));
	KUNIT_EXPECT_EQ(test, 0, fi_cancel(&p->a->ep->fid, p->far));
	tr_expect_error(test, p->a->cq, p->far, FI_ECANCELED);
}

/* Accesses match as messages do: by tag and ignored bits, in posting order. */
static void tagged_rma_matches_receives_in_posting_order(struct kunit *test)
{
	struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS);
	struct fi_cq_tagged_entry entry;

	post_receive(test, p, p->far, LEN, 1, 0);
	post_receive(test, p, p->far + LEN, LEN, 2, 0);
	post_receive(test, p, p->far + 2 * LEN, LEN, 0, ~0ULL);
	post_receive(test, p, p->far + 3 * LEN, LEN, 2, 0);
	for (int i = 0; i < 3; i++) {
		static const int expected[] = { 1, 2, 3 };

		tr_fill(p->near, LEN, i);
		KUNIT_ASSERT_EQ(test, 0, access_tag(p, false, LEN, 2, 0));
		rdm_expect(test, p->a, p->near, &entry);
		rdm_expect(test, p->b, p->far + expected[i] * LEN, &entry);
		KUNIT_EXPECT_EQ(test, 2, entry.tag);
		KUNIT_EXPECT_TRUE(test, tr_intact(p->far + expected[i] * LEN, LEN, i));
	}
	KUNIT_EXPECT_EQ(test, 0, fi_cancel(&p->b->ep->fid, p->far));
	tr_expect_error(test, p->b->cq, p->far, FI_ECANCELED);
}

/* An access without a receive fails, and a later receive does not see it. */
static void tagged_rma_without_a_receive_fails(struct kunit *test)
{
	struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS);
	struct fi_cq_tagged_entry entry;

	/* An untagged receive does not match. */
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(p->b, FI_ADDR_UNSPEC, p->far + LEN, LEN, p->far + LEN));
	for (int i = 0; i < 6; i++) {
		size_t len = i < 2 ? 0 : LEN;

		KUNIT_ASSERT_EQ(test, 0, access_tag(p, i % 2, len, TAG, 0));
		tr_expect_error(test, p->a->cq, p->near, FI_ENOMSG);
		post_receive(test, p, p->far, LEN, TAG, 0);
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(p->b->cq, &entry, 1));
		KUNIT_ASSERT_EQ(test, 0, fi_cancel(&p->b->ep->fid, p->far));
		tr_expect_error(test, p->b->cq, p->far, FI_ECANCELED);
	}
	/* The connection serves on. */
	tr_fill(p->near, LEN, 1);
	post_receive(test, p, p->far, LEN, TAG, 0);
	KUNIT_ASSERT_EQ(test, 0, access_tag(p, false, LEN, TAG, 0));
	expect_transfer(test, p, false, LEN);
	KUNIT_EXPECT_TRUE(test, tr_intact(p->far, LEN, 1));
}

static void tagged_rma_beyond_a_receive_fails_at_both_ends(struct kunit *test)
{
	struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS);

	for (int is_read = 0; is_read < 2; is_read++) {
		memset(p->near, 1, LONGEST);
		memset(p->far, 2, LONGEST);
		post_receive(test, p, p->far, LEN - 1, TAG, 0);
		KUNIT_ASSERT_EQ(test, 0, access_tag(p, is_read, LEN, TAG, 0));
		tr_expect_error(test, p->a->cq, p->near, FI_ETRUNC);
		tr_expect_error(test, p->b->cq, p->far, FI_ETRUNC);
		KUNIT_EXPECT_NULL(test, memchr_inv(p->near, 1, LONGEST));
		KUNIT_EXPECT_NULL(test, memchr_inv(p->far, 2, LONGEST));
	}
}

/* More accesses than fit into a connection, of both directions, between messages. */
static void tagged_rma_of_many_accesses_and_messages(struct kunit *test)
{
	struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS);
	int accesses = 0, messages = 0, received = 0;
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < MANY; i++) {
		post_receive(test, p, p->far + i * LEN, LEN, i, 0);
		post_receive(test, p, p->far + (MANY + i) * LEN, LEN, MANY + i, 0);
	}
	tr_fill(p->near, LEN, 5);
	for (int i = 0; i < MANY; i++) {
		const struct kvec iov = { p->near + (i % 2 ? (1 + i) * LEN : 0), LEN };
		const struct fi_rma_iov remote = { .len = LEN, .key = i };

		KUNIT_ASSERT_EQ(test, 0, access_iov(p, i % 2, &iov, 1, &remote, 0));
		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_tsend(p->a->ep, p->near, LEN, NULL,
								     p->to_b, MANY + i, NULL)));
	}
	while (accesses + messages < 2 * MANY) {
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, p->a->cq, &entry, 1));
		accesses += !!(entry.flags & FI_RMA);
		messages += !(entry.flags & FI_RMA);
	}
	KUNIT_EXPECT_EQ(test, MANY, accesses);
	for (; received < 2 * MANY; received++)
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, p->b->cq, &entry, 1));
	for (int i = 0; i < MANY; i++) {
		if (i % 2 == 0)
			KUNIT_EXPECT_TRUE(test, tr_intact(p->far + i * LEN, LEN, 5));
		KUNIT_EXPECT_TRUE(test, tr_intact(p->far + (MANY + i) * LEN, LEN, 5));
	}
}

static void tagged_rma_arguments_are_checked(struct kunit *test)
{
	static const u64 refused[] = { FI_INJECT, FI_FENCE, FI_REMOTE_SIGNAL };
	struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS);
	const struct kvec iov = { p->near, LEN };
	struct fi_rma_iov remote[2] = { { .len = LEN, .key = TAG }, { .len = LEN } };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = p->to_b, .rma_iov = remote,
		.rma_iov_count = 2,
	};

	for (int i = 0; i < ARRAY_SIZE(refused); i++)
		KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, access_tag(p, false, LEN, TAG, refused[i]));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, access_tag(p, true, LEN, TAG, FI_REMOTE_CQ_DATA));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, access_tag(p, false, LEN, TAG, FI_PEEK));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_writemsg(p->a->ep, &msg, FI_TAGGED));
	remote[0].addr = 1;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, access_iov(p, false, &iov, 1, remote, 0));
	remote[0].addr = 0;
	remote[0].len = LEN + 1;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, access_iov(p, false, &iov, 1, remote, 0));
	msg.addr = 1000;
	msg.rma_iov_count = 1;
	remote[0].len = LEN;
	KUNIT_EXPECT_GT(test, 0, fi_writemsg(p->a->ep, &msg, FI_TAGGED));
}

/* An end without the capability takes no part. */
static void tagged_rma_needs_the_capability_of_both_ends(struct kunit *test)
{
	struct pair *p = open_pair(test, BOTH_WAYS, FI_RMA);
	struct pair *q = open_pair(test, FI_RMA, BOTH_WAYS);

	post_receive(test, p, p->far, LEN, TAG, 0);
	for (int is_read = 0; is_read < 2; is_read++) {
		KUNIT_ASSERT_EQ(test, 0, access_tag(p, is_read, LEN, TAG, 0));
		tr_expect_error(test, p->a->cq, p->near, FI_EOPNOTSUPP);
		KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, access_tag(q, is_read, LEN, TAG, 0));
	}
	KUNIT_ASSERT_EQ(test, 0, fi_cancel(&p->b->ep->fid, p->far));
	tr_expect_error(test, p->b->cq, p->far, FI_ECANCELED);
}

/* The target's FI_REMOTE_READ and FI_REMOTE_WRITE decide; what it does not permit ends the connection. */
static void tagged_rma_follows_the_targets_capabilities(struct kunit *test)
{
	for (int is_read = 0; is_read < 2; is_read++) {
		u64 sides = FI_SEND | FI_RECV | (is_read ? FI_REMOTE_WRITE : FI_REMOTE_READ);
		struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS | sides);

		memset(p->near, 1, LONGEST);
		memset(p->far, 2, LONGEST);
		post_receive(test, p, p->far, LEN, TAG, 0);
		KUNIT_ASSERT_EQ(test, 0, access_tag(p, is_read, LEN, TAG, 0));
		KUNIT_EXPECT_NE(test, 0, tr_read_error(test, p->a->cq, p->near));
		KUNIT_EXPECT_NULL(test, memchr_inv(p->near, 1, LONGEST));
		KUNIT_EXPECT_NULL(test, memchr_inv(p->far, 2, LONGEST));
		/* The receive stays posted. */
		KUNIT_ASSERT_EQ(test, 0, access_tag(p, !is_read, LEN, TAG, 0));
		expect_transfer(test, p, !is_read, LEN);
	}
}

/* An initiator whose peers may access other memory of its domain needs the right for the transfer. */
static void tagged_rma_needs_the_initiators_rights(struct kunit *test)
{
	u64 sides = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
	struct pair *p = open_pair(test, BOTH_WAYS | sides | FI_REMOTE_READ, BOTH_WAYS);
	struct pair *q = open_pair(test, BOTH_WAYS | sides, BOTH_WAYS);

	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, access_tag(p, true, LEN, TAG, 0));
	post_receive(test, p, p->far, LEN, TAG, 0);
	KUNIT_ASSERT_EQ(test, 0, access_tag(p, false, LEN, TAG, 0));
	expect_transfer(test, p, false, LEN);
	/* Without memory of its own that peers may access, both directions work. */
	for (int is_read = 0; is_read < 2; is_read++) {
		post_receive(test, q, q->far, LEN, TAG, 0);
		KUNIT_ASSERT_EQ(test, 0, access_tag(q, is_read, LEN, TAG, 0));
		expect_transfer(test, q, is_read, LEN);
	}
}

static void tagged_rma_is_offered_on_request(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info;

	hints->ep_attr->type = FI_EP_RDM;
	for (int i = 0; i < 3; i++) {
		hints->caps = i == 0 ? 0 : i == 1 ? FI_SEND | FI_RECV : FI_MSG | FI_TAGGED | FI_RMA;
		info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
		KUNIT_EXPECT_EQ_MSG(test, 0, info->caps & FI_TAGGED_RMA, "hints %d", i);
	}
	hints->caps |= FI_TAGGED_RMA;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_NE(test, 0, info->caps & FI_TAGGED_RMA);
	/* The members of a shared receive context could have different rights. */
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	KUNIT_EXPECT_EQ(test, -FI_ENODATA, fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
						      hints, &info));
}

/* The initiator closes while its accesses are under way: the receives complete or fail. */
static void tagged_rma_of_a_closing_initiator(struct kunit *test)
{
	for (int round = 0; round < 4 * tr_rounds; round++) {
		struct pair *p = open_pair(test, BOTH_WAYS, BOTH_WAYS);
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry error = {};
		ssize_t ret;

		post_receive(test, p, p->far, LONGEST, TAG, 0);
		KUNIT_ASSERT_EQ(test, 0, access_tag(p, round & 1, LONGEST, TAG, 0));
		usleep_range(100 * round, 100 * round + 100);
		fx_close(test, &p->a->ep->fid);
		ret = fi_cq_sread(p->b->cq, &entry, 1, NULL, 100);
		if (ret == -FI_EAVAIL)
			KUNIT_EXPECT_EQ(test, 1, fi_cq_readerr(p->b->cq, &error, 0));
		else if (ret == -FI_EAGAIN)
			KUNIT_EXPECT_EQ(test, 0, fi_cancel(&p->b->ep->fid, p->far));
		else
			KUNIT_EXPECT_EQ(test, 1, ret);
		fx_close(test, &p->b->ep->fid);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(tagged_rma_is_offered_on_request),
	KUNIT_CASE(tagged_rma_transfers_every_length),
	KUNIT_CASE(tagged_rma_uses_the_beginning_of_a_receive),
	KUNIT_CASE(tagged_rma_of_several_segments),
	KUNIT_CASE(tagged_rma_that_fails_is_not_cancelled_later),
	KUNIT_CASE(tagged_rma_matches_receives_in_posting_order),
	KUNIT_CASE(tagged_rma_without_a_receive_fails),
	KUNIT_CASE(tagged_rma_beyond_a_receive_fails_at_both_ends),
	KUNIT_CASE(tagged_rma_of_many_accesses_and_messages),
	KUNIT_CASE(tagged_rma_arguments_are_checked),
	KUNIT_CASE(tagged_rma_needs_the_capability_of_both_ends),
	KUNIT_CASE(tagged_rma_follows_the_targets_capabilities),
	KUNIT_CASE(tagged_rma_needs_the_initiators_rights),
	KUNIT_CASE(tagged_rma_of_a_closing_initiator),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_tagged_rma",
	.test_cases = cases,
};

kunit_test_suite(suite);
