// SPDX-License-Identifier: GPL-2.0
/* Tests the flags, descriptors and source addresses of transfers of datagram endpoints. */

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "rdm_srx.h"

#define LEN	100

/* Completion levels of transmits. */
#define LEVELS	(FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
/* Flags that each transmit of a datagram endpoint takes. */
#define TAKEN	(FI_COMPLETION | FI_MORE | FI_INJECT | LEVELS)
/* Flags that are defined for transmits, but not offered. */
#define REFUSED	(FI_FENCE | FI_REMOTE_SIGNAL)
/* Types of vectors. */
#define FORMS	(FI_BVEC | FI_SGL)

static void *bytes(struct kunit *test, size_t len)
{
	void *buf = kunit_kzalloc(test, len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	return buf;
}

static struct fid_mr *region(struct kunit *test, struct fid_domain *domain, void *buf, size_t len,
			     u64 access)
{
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(domain, buf, len, access, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	return mr;
}

/* The protocol of the info is that of datagrams. */
static bool is_iwarp(const struct fi_info *info)
{
	return !strcmp(info->fabric_attr->name, "iWARP");
}

static int expected(u64 flag, u64 taken, u64 refused)
{
	if (flag & taken)
		return 0;
	return flag & refused ? -FI_EOPNOTSUPP : -FI_EBADFLAGS;
}

/* Posts a message as fi_sendmsg() or fi_tsendmsg() does. */
static ssize_t send(struct kofi_rdm *rdm, fi_addr_t to, bool tagged, void *buf, u64 flags)
{
	const struct kvec iov = { buf, LEN };
	const struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = to, .context = buf };
	const struct fi_msg_tagged tagged_msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = to, .context = buf,
	};

	return tagged ? fi_tsendmsg(rdm->ep, &tagged_msg, flags) : fi_sendmsg(rdm->ep, &msg, flags);
}

static ssize_t receive(struct kofi_rdm *rdm, fi_addr_t from, bool tagged, void *buf)
{
	return tagged ? fi_trecv(rdm->ep, buf, LEN, NULL, from, 0, 0, buf) :
			fi_recv(rdm->ep, buf, LEN, NULL, from, buf);
}

static void ep_08_each_flag_of_a_datagram_works_or_is_refused(struct kunit *test)
{
	u8 *out = bytes(test, LEN), *in = bytes(test, LEN);
	struct kofi_rdm *a = rdm_open(test, NULL), *b = rdm_open(test, NULL);
	fi_addr_t to_b = rdm_addr(test, a, b);

	for (int bit = 0; bit < 128; bit++) {
		u64 flag = BIT_ULL(bit / 2);
		bool tagged = bit % 2;
		int want = expected(flag, TAKEN | FI_REMOTE_CQ_DATA, REFUSED);

		if (flag & FORMS)
			continue;
		KUNIT_EXPECT_EQ_MSG(test, want, send(a, to_b, tagged, out, flag),
				    "flag %llx, tagged %d", flag, tagged);
		if (want)
			continue;
		KUNIT_ASSERT_EQ(test, 0, receive(b, FI_ADDR_UNSPEC, tagged, in));
		rdm_expect(test, b, in, NULL);
		rdm_expect(test, a, out, NULL);
	}
	/* A refused flag beside an unknown one. */
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, send(a, to_b, false, out, FI_FENCE | FI_MULTICAST));
}

static void ep_08_each_flag_of_a_datagram_receive_works_or_is_refused(struct kunit *test)
{
	const u64 peek = FI_PEEK | FI_CLAIM | FI_DISCARD;
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	struct fi_msg msg = { .addr = FI_ADDR_UNSPEC };
	struct fi_msg_tagged tagged = { .addr = FI_ADDR_UNSPEC };
	const u64 taken = FI_COMPLETION | FI_MORE;

	for (int bit = 0; bit < 64; bit++) {
		u64 flag = BIT_ULL(bit);

		if (!(flag & (FORMS | FI_MULTI_RECV)))
			KUNIT_EXPECT_EQ_MSG(test, expected(flag, taken, FI_DIRECTED_RECV),
					    fi_recvmsg(rdm->ep, &msg, flag), "bit %d", bit);
		if (!(flag & (FORMS | peek)))
			KUNIT_EXPECT_EQ_MSG(test, expected(flag, taken, 0),
					    fi_trecvmsg(rdm->ep, &tagged, flag),
					    "bit %d, tagged", bit);
	}
}

/* A datagram endpoint cannot fence: messages before the access may not have been answered. */
static void ep_08_each_flag_of_a_datagram_access_works_or_is_refused(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_RMA };
	u8 *near = bytes(test, LEN), *far = bytes(test, LEN);
	struct kofi_rdm *a = rdm_open(test, &opts), *b = rdm_open(test, &opts);
	struct fid_mr *mr = region(test, b->domain, far, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE);
	const struct kvec iov = { near, LEN };
	const struct fi_rma_iov remote = { (uintptr_t)far, LEN, fi_mr_key(mr) };
	const struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = rdm_addr(test, a, b),
		.rma_iov = &remote, .rma_iov_count = 1, .context = near,
	};
	/* An iWARP device reports neither. */
	u64 levels = FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
	u64 taken = (TAKEN & ~levels) | (is_iwarp(a->info) ? 0 : levels);
	u64 data = a->info->domain_attr->cq_data_size ? FI_REMOTE_CQ_DATA : 0;

	for (int bit = 0; bit < 128; bit++) {
		u64 flag = BIT_ULL(bit / 2);
		bool reads = bit % 2;
		int want;

		if (flag & FORMS)
			continue;
		want = reads ? expected(flag, taken & ~FI_INJECT, REFUSED | levels | FI_TAGGED) :
			       expected(flag, taken | data,
					REFUSED | levels | FI_REMOTE_CQ_DATA | FI_TAGGED);
		KUNIT_EXPECT_EQ_MSG(test, want, reads ? fi_readmsg(a->ep, &msg, flag) :
							fi_writemsg(a->ep, &msg, flag),
				    "flag %llx, read %d", flag, reads);
		if (!want)
			rdm_expect(test, a, near, NULL);
	}
}

/* A region of LEN bytes in the middle of a buffer, and one at the same place of another domain. */
struct descs {
	u8	*buf, *at;
	void	*own, *foreign;
};

static struct descs descs(struct kunit *test, struct fid_domain *own, struct fid_domain *foreign)
{
	u8 *buf = bytes(test, 3 * LEN);

	return (struct descs){
		.buf = buf, .at = buf + LEN,
		.own = fi_mr_desc(region(test, own, buf + LEN, LEN, FI_RECV)),
		.foreign = fi_mr_desc(region(test, foreign, buf + LEN, LEN, FI_RECV)),
	};
}

enum {
	SEND, SENDV, SENDDATA, TSEND, TSENDV, RECV, RECVV, RECVMSG, MULTI_RECV, TRECV, TRECVMSG,
	PUT, GET, FETCH, CALLS,
};

/* Posts len bytes from buf on, with the descriptor, to or from a peer. */
static ssize_t post(int call, struct fid_ep *ep, fi_addr_t peer, void *buf, size_t len, void *desc)
{
	const struct kvec iov[2] = { { NULL, 0 }, { buf, len } };
	void *all[2] = { NULL, desc };
	const struct fi_msg msg = { .msg_iov = iov, .desc = all, .iov_count = 2, .addr = peer };
	const struct fi_msg multi = {
		.msg_iov = iov + 1, .desc = &desc, .iov_count = 1, .addr = peer,
	};
	const struct fi_msg_tagged tagged = {
		.msg_iov = iov, .desc = all, .iov_count = 2, .addr = peer,
	};
	u64 operand = 0;

	switch (call) {
	case SEND:
		return fi_send(ep, buf, len, desc, peer, NULL);
	case SENDV:
		return fi_sendv(ep, iov, all, 2, peer, NULL);
	case SENDDATA:
		return fi_senddata(ep, buf, len, desc, 1, peer, NULL);
	case TSEND:
		return fi_tsend(ep, buf, len, desc, peer, 1, NULL);
	case TSENDV:
		return fi_tsendv(ep, iov, all, 2, peer, 1, NULL);
	case RECV:
		return fi_recv(ep, buf, len, desc, FI_ADDR_UNSPEC, NULL);
	case RECVV:
		return fi_recvv(ep, iov, all, 2, FI_ADDR_UNSPEC, NULL);
	case RECVMSG:
		return fi_recvmsg(ep, &msg, 0);
	case MULTI_RECV:
		return fi_recvmsg(ep, &multi, FI_MULTI_RECV);
	case TRECV:
		return fi_trecv(ep, buf, len, desc, FI_ADDR_UNSPEC, 1, 0, NULL);
	case TRECVMSG:
		return fi_trecvmsg(ep, &tagged, 0);
	case PUT:
		return fi_write(ep, buf, len, desc, peer, 0, 0, NULL);
	case GET:
		return fi_read(ep, buf, len, desc, peer, 0, 0, NULL);
	default:
		return fi_fetch_atomic(ep, &operand, 1, NULL, buf, desc, peer, 0, 0, FI_UINT64,
				       FI_SUM, NULL);
	}
}

static void expect_refused(struct kunit *test, int call, struct fid_ep *ep, fi_addr_t peer,
			   const struct descs *d)
{
	size_t len = call == FETCH ? 8 : LEN;
	u8 *last = d->at + LEN - len;

	KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL, post(call, ep, peer, d->at - 1, len, d->own),
			    "call %d before the region", call);
	KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL, post(call, ep, peer, last + 1, len, d->own),
			    "call %d behind the region", call);
	KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL, post(call, ep, peer, d->at, len, d->foreign),
			    "call %d in a region of another domain", call);
}

/* Datagrams do not need descriptors, but check them as connected endpoints do. */
static void mr_01_datagrams_outside_of_the_region_are_refused(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_RMA | FI_ATOMIC | FI_MULTI_RECV };
	struct kofi_rdm *a = rdm_open(test, &opts), *b = rdm_open(test, &opts);
	struct descs d = descs(test, a->domain, b->domain);
	fi_addr_t to_b = rdm_addr(test, a, b), to_a = rdm_addr(test, b, a);
	struct fi_cq_tagged_entry entry;
	u8 *other = bytes(test, LEN);

	for (int call = 0; call < CALLS; call++)
		expect_refused(test, call, a->ep, to_b, &d);
	/* The calls posted nothing. Inject and messages of no bytes ignore the descriptor. */
	KUNIT_ASSERT_EQ(test, 0, send(a, to_b, false, d.buf, FI_INJECT));
	KUNIT_ASSERT_EQ(test, 0, post(SEND, a->ep, to_b, d.buf, 0, d.foreign));
	KUNIT_ASSERT_EQ(test, 0, post(SEND, a->ep, to_b, d.at, LEN, d.own));
	for (int i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(b, FI_ADDR_UNSPEC, other, LEN, other));
		rdm_expect(test, b, other, NULL);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, a->cq, &entry, 1));
	}
	KUNIT_ASSERT_EQ(test, 0, post(RECV, a->ep, to_b, d.at, LEN, d.own));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(b, to_a, other, LEN, other));
	rdm_expect(test, a, NULL, NULL);
	rdm_expect(test, b, other, NULL);
}

static void mr_01_shared_receives_outside_of_the_region_are_refused(struct kunit *test)
{
	struct rs_world *world = rs_open(test, NULL);
	struct descs d = descs(test, world->domain, world->sender[0]->domain);

	for (int call = RECV; call <= TRECVMSG; call++)
		if (call != MULTI_RECV)
			expect_refused(test, call, world->srx, FI_ADDR_UNSPEC, &d);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	KUNIT_ASSERT_EQ(test, 0, post(RECV, world->srx, FI_ADDR_UNSPEC, d.at, LEN, d.own));
	KUNIT_EXPECT_EQ(test, 1, rs_depth(world));
}

/* Without it fi_recv() ignores the source, as in libfabric. */
static void rdm_09_recvfrom_needs_directed_receives(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, NULL), *b = rdm_open(test, NULL);
	fi_addr_t to_b = rdm_addr(test, a, b), from_a = rdm_addr(test, b, a);
	struct rs_world *world = rs_open(test, NULL);
	struct kofi_pair *pair = fx_pair(test, NULL);
	u8 *out = bytes(test, LEN), *in = bytes(test, LEN);

	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_recvfrom(b->ep, in, LEN, NULL, from_a, in));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_recvfrom(world->srx, in, LEN, NULL, 0, in));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_recvfrom(pair->ep[0], in, LEN, NULL, 0, in));
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, 0, receive(b, from_a + 1, i, in));
		KUNIT_ASSERT_EQ(test, 0, send(a, to_b, i, out, 0));
		rdm_expect(test, b, in, NULL);
		rdm_expect(test, a, out, NULL);
	}
}

/* fi_recvfrom() has the endpoint's default flags, as fi_recv() has. */
static void rdm_09_recvfrom_applies_the_default_flags(struct kunit *test)
{
	static const struct rdm_opts opts = {
		.caps = FI_DIRECTED_RECV, .cq_flags = FI_SELECTIVE_COMPLETION,
	};
	struct kofi_rdm *a = rdm_open(test, &opts), *b = rdm_open(test, &opts);
	fi_addr_t to_b = rdm_addr(test, a, b), from_a = rdm_addr(test, b, a);
	u64 flags = FI_RECV | FI_COMPLETION;
	u8 *out = bytes(test, LEN), *in = bytes(test, 2 * LEN);

	KUNIT_ASSERT_EQ(test, 0, fi_recvfrom(b->ep, in, LEN, NULL, from_a, in));
	KUNIT_ASSERT_EQ(test, 0, fi_control(&b->ep->fid, FI_SETOPSFLAG, &flags));
	KUNIT_ASSERT_EQ(test, 0, fi_recvfrom(b->ep, in + LEN, LEN, NULL, from_a, in + LEN));
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, send(a, to_b, false, out, 0));
	/* The first receive writes no entry. */
	rdm_expect(test, b, in + LEN, NULL);
}

static struct kunit_case rdm_flags_cases[] = {
	KUNIT_CASE(ep_08_each_flag_of_a_datagram_works_or_is_refused),
	KUNIT_CASE(ep_08_each_flag_of_a_datagram_receive_works_or_is_refused),
	KUNIT_CASE(ep_08_each_flag_of_a_datagram_access_works_or_is_refused),
	KUNIT_CASE(mr_01_datagrams_outside_of_the_region_are_refused),
	KUNIT_CASE(mr_01_shared_receives_outside_of_the_region_are_refused),
	KUNIT_CASE(rdm_09_recvfrom_needs_directed_receives),
	KUNIT_CASE(rdm_09_recvfrom_applies_the_default_flags),
	{}
};

static struct kunit_suite rdm_flags_suite = {
	.name = "kofi_rdm_flags",
	.test_cases = rdm_flags_cases,
};

kunit_test_suite(rdm_flags_suite);
