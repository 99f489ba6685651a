// SPDX-License-Identifier: GPL-2.0
/* Tests RMA of CONTRACT on datagram endpoints. */

#include <rdma/fi_rma.h>

#include "rdm.h"
#include "traffic.h"

#define LEN	SZ_64K
#define ROUNDS	200
#define CQ_SIZE	32

struct rma {
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b;
	u8		*local, *remote;
	struct fid_mr	*mr;
	u64		addr, key;
};

static struct rma *rma_with(struct kunit *test, const struct rdm_opts *opts)
{
	struct rma *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, r);
	r->local = kunit_kzalloc(test, LEN, GFP_KERNEL);
	r->remote = kunit_kzalloc(test, LEN, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, r->local);
	KUNIT_ASSERT_NOT_NULL(test, r->remote);
	get_random_bytes(r->local, LEN);
	r->a = rdm_open(test, opts);
	r->b = rdm_open(test, opts);
	r->to_b = rdm_addr(test, r->a, r->b);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(r->b->domain, r->remote, LEN,
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &r->mr,
					   NULL));
	fx_defer_close(test, &r->mr->fid);
	r->addr = (uintptr_t)r->remote;
	r->key = fi_mr_key(r->mr);
	return r;
}

static struct rma *rma(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_RMA };

	return rma_with(test, &opts);
}

/* Registers the local memory; returns its descriptor. */
static void *register_local(struct kunit *test, struct rma *r)
{
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(r->a->domain, r->local, LEN, FI_READ | FI_WRITE, 0, 0, 0,
					   &mr, NULL));
	fx_defer_close(test, &mr->fid);
	return fi_mr_desc(mr);
}

static void expect(struct kunit *test, struct rma *r, u64 flags)
{
	struct fi_cq_tagged_entry entry;

	rdm_expect(test, r->a, r->local, &entry);
	KUNIT_EXPECT_EQ(test, FI_RMA | flags, entry.flags);
}

/* Reads the write's completion. On iWARP a write is placed once a read behind it has completed. */
static void expect_written(struct kunit *test, struct rma *r)
{
	u8 *after = kunit_kzalloc(test, 8, GFP_KERNEL);

	expect(test, r, FI_WRITE);
	KUNIT_ASSERT_NOT_NULL(test, after);
	KUNIT_ASSERT_EQ(test, 0, fi_read(r->a->ep, after, 8, NULL, r->to_b, r->addr, r->key,
					 r->local));
	expect(test, r, FI_READ);
}

static void rdm_04_the_first_access_connects(struct kunit *test)
{
	struct rma *r = rma(test);

	KUNIT_ASSERT_EQ(test, 0, fi_write(r->a->ep, r->local, LEN, NULL, r->to_b, r->addr, r->key,
					  r->local));
	expect_written(test, r);
	KUNIT_EXPECT_MEMEQ(test, r->local, r->remote, LEN);
	get_random_bytes(r->remote, LEN);
	KUNIT_ASSERT_EQ(test, 0, fi_read(r->a->ep, r->local, LEN, NULL, r->to_b, r->addr, r->key,
					 r->local));
	expect(test, r, FI_READ);
	KUNIT_EXPECT_MEMEQ(test, r->remote, r->local, LEN);
}

static void rma_03_all_calls_on_datagram_endpoints(struct kunit *test)
{
	struct rma *r = rma(test);
	struct kvec iov[] = { { r->local, 1000 }, { r->local + 1000, 0 }, { r->local + 1000, 24 } };
	struct fi_rma_iov to = { .addr = r->addr + 4096, .len = 1024, .key = r->key };
	struct fi_msg_rma msg = {
		.msg_iov = iov, .iov_count = 3, .addr = r->to_b, .rma_iov = &to, .rma_iov_count = 1,
		.context = r->local,
	};
	void *desc;

	KUNIT_ASSERT_EQ(test, 0, fi_writev(r->a->ep, iov, NULL, 3, r->to_b, r->addr, r->key,
					   r->local));
	expect_written(test, r);
	KUNIT_EXPECT_MEMEQ(test, r->local, r->remote, 1024);
	KUNIT_ASSERT_EQ(test, 0, fi_writemsg(r->a->ep, &msg, FI_COMPLETION));
	expect_written(test, r);
	KUNIT_EXPECT_MEMEQ(test, r->local, r->remote + 4096, 1024);
	/* The buffer of an injected write may be reused at once. */
	get_random_bytes(r->local, 200);
	memcpy(r->local + 200, r->local, 200);
	KUNIT_ASSERT_EQ(test, 0, fi_inject_write(r->a->ep, r->local, 200, r->to_b, r->addr, r->key));
	memset(r->local, 0, 200);
	/* The read follows the write, into registered memory. */
	desc = register_local(test, r);
	KUNIT_ASSERT_EQ(test, 0, fi_read(r->a->ep, r->local, 200, desc, r->to_b, r->addr, r->key,
					 r->local));
	expect(test, r, FI_READ);
	KUNIT_EXPECT_MEMEQ(test, r->local + 200, r->local, 200);
	KUNIT_EXPECT_MEMEQ(test, r->local, r->remote, 200);
	/* A write of zero bytes. */
	KUNIT_ASSERT_EQ(test, 0, fi_write(r->a->ep, NULL, 0, NULL, r->to_b, r->addr, r->key,
					  r->local));
	expect(test, r, FI_WRITE);
}

/* Accesses of registered memory are posted at once. Each read returns what the write before it wrote. */
static void rdm_03_registered_accesses_keep_their_order(struct kunit *test)
{
	struct rma *r = rma(test);
	u64 *out = (u64 *)r->local, *in = out + ROUNDS, *message = in + ROUNDS;
	void *desc = register_local(test, r);
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_EQ(test, 0, rdm_recv(r->b, FI_ADDR_UNSPEC, message, 8, message));
	for (int i = 0; i < ROUNDS; i++) {
		out[i] = i;
		KUNIT_ASSERT_EQ(test, 0, fi_write(r->a->ep, &out[i], 8, desc, r->to_b, r->addr,
						  r->key, &out[i]));
		KUNIT_ASSERT_EQ(test, 0, fi_inject(r->a->ep, &out[i], 8, r->to_b));
		KUNIT_ASSERT_EQ(test, 0, fi_read(r->a->ep, &in[i], 8, desc, r->to_b, r->addr,
						 r->key, &in[i]));
		rdm_expect(test, r->a, &out[i], &entry);
		KUNIT_EXPECT_EQ(test, FI_RMA | FI_WRITE, entry.flags);
		rdm_expect(test, r->a, &in[i], &entry);
		KUNIT_EXPECT_EQ(test, FI_RMA | FI_READ, entry.flags);
		KUNIT_EXPECT_EQ(test, i, in[i]);
		rdm_expect(test, r->b, message, NULL);
		KUNIT_EXPECT_EQ(test, i, *message);
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(r->b, FI_ADDR_UNSPEC, message, 8, message));
	}
}

/* Writes beyond the completion queue are refused, and go on when it has been read. */
static void cq_14_registered_writes_fill_the_completion_queue(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_RMA, .cq_size = CQ_SIZE };
	struct rma *r = rma_with(test, &opts);
	void *desc = register_local(test, r);

	KUNIT_ASSERT_EQ(test, 0, fi_write(r->a->ep, r->local, 8, desc, r->to_b, r->addr, r->key,
					  r->local));
	expect_written(test, r);
	for (int round = 0; round < 10; round++) {
		int posted = 0, ret;

		do {
			int at = (round * CQ_SIZE + posted) * 8;

			ret = fi_write(r->a->ep, r->local + at, 8, desc, r->to_b, r->addr + at,
				       r->key, r->local);
			posted += !ret;
		} while (!ret);
		KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
		KUNIT_ASSERT_EQ(test, CQ_SIZE, posted);
		while (posted--)
			expect(test, r, FI_WRITE);
	}
	KUNIT_ASSERT_EQ(test, 0, fi_write(r->a->ep, r->local, 8, desc, r->to_b, r->addr, r->key,
					  r->local));
	expect_written(test, r);
	KUNIT_EXPECT_MEMEQ(test, r->local, r->remote, 10 * CQ_SIZE * 8);
}

/* A message that follows a write arrives after the data is placed. */
static void rdm_03_a_message_follows_the_writes_before_it(struct kunit *test)
{
	struct rma *r = rma(test);
	u8 *byte = kunit_kzalloc(test, 1, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, byte);
	for (int i = 0; i < 20; i++) {
		memset(r->local, i + 1, LEN);
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(r->b, FI_ADDR_UNSPEC, byte, 1, byte));
		KUNIT_ASSERT_EQ(test, 0, fi_write(r->a->ep, r->local, LEN, NULL, r->to_b, r->addr,
						  r->key, r->local));
		KUNIT_ASSERT_EQ(test, 0, fi_inject(r->a->ep, byte, 1, r->to_b));
		rdm_expect(test, r->b, byte, NULL);
		KUNIT_EXPECT_EQ(test, i + 1, r->remote[0]);
		KUNIT_EXPECT_EQ(test, i + 1, r->remote[LEN - 1]);
		expect(test, r, FI_WRITE);
	}
}

static void rma_01_remote_cq_data_on_datagram_endpoints(struct kunit *test)
{
	struct rma *r = rma(test);
	struct fi_cq_tagged_entry entry;
	int ret;

	ret = fi_writedata(r->a->ep, r->local, 100, NULL, 0x12345678, r->to_b, r->addr, r->key,
			   r->local);
	if (tr_is_iwarp(fx_info(test, fx_addr, NULL, FI_SOURCE))) {
		KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, ret);
		return;
	}
	KUNIT_ASSERT_EQ(test, 0, ret);
	expect(test, r, FI_WRITE);
	rdm_expect(test, r->b, NULL, &entry);
	KUNIT_EXPECT_EQ(test, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, entry.flags);
	KUNIT_EXPECT_EQ(test, 0x12345678, entry.data);
	KUNIT_EXPECT_EQ(test, 100, entry.len);
	KUNIT_EXPECT_MEMEQ(test, r->local, r->remote, 100);
	/* CQ data of a write has 32 bits. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_writedata(r->a->ep, r->local, 100, NULL, 1ull << 32, r->to_b, r->addr,
				     r->key, r->local));
	/* There are more CQ data writes than receives; the target does not read meanwhile. */
	for (u32 i = 0; i < 60; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_inject_writedata(r->a->ep, r->local, 8, i, r->to_b,
							     r->addr, r->key));
	for (u32 i = 0; i < 60; i++) {
		rdm_expect(test, r->b, NULL, &entry);
		KUNIT_EXPECT_EQ(test, i, entry.data);
		KUNIT_EXPECT_EQ(test, 8, entry.len);
	}
}

static void rma_02_a_wrong_key_is_an_error(struct kunit *test)
{
	struct rma *r = rma(test);
	struct fi_cq_err_entry error;

	for (int i = 0; i < 3; i++) {
		/* A read: on iWARP a write completes before the peer refuses it. */
		KUNIT_ASSERT_EQ(test, 0, fi_read(r->a->ep, r->local, LEN, NULL, r->to_b, r->addr,
						 r->key + 0x100, r->local));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, r->a->cq, &error));
		KUNIT_EXPECT_PTR_EQ(test, (void *)r->local, error.op_context);
		KUNIT_EXPECT_NE(test, 0, error.err);
		KUNIT_EXPECT_EQ(test, FI_RMA | FI_READ, error.flags);
		/* The next operation uses a new connection. */
		KUNIT_ASSERT_EQ(test, 0, fi_write(r->a->ep, r->local, LEN, NULL, r->to_b, r->addr,
						  r->key, r->local));
		expect_written(test, r);
		KUNIT_EXPECT_MEMEQ(test, r->local, r->remote, LEN);
	}
}

static void rma_02_a_wrong_key_of_a_registered_access_is_an_error(struct kunit *test)
{
	struct rma *r = rma(test);
	void *desc = register_local(test, r);
	struct fi_cq_err_entry error;

	for (int i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_write(r->a->ep, r->local, LEN, desc, r->to_b, r->addr,
						  r->key, r->local));
		expect_written(test, r);
		/* A read: on iWARP a write completes before the peer refuses it. */
		KUNIT_ASSERT_EQ(test, 0, fi_read(r->a->ep, r->local, LEN, desc, r->to_b, r->addr,
						 r->key + 0x100, r->local));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, r->a->cq, &error));
		KUNIT_EXPECT_PTR_EQ(test, (void *)r->local, error.op_context);
		KUNIT_EXPECT_NE(test, 0, error.err);
		KUNIT_EXPECT_EQ(test, FI_RMA | FI_READ, error.flags);
	}
	/* The region ends before the segment, and is one of another domain. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_write(r->a->ep, r->local + LEN - 4, 8, desc, r->to_b,
						   r->addr, r->key, r->local));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_write(r->a->ep, r->local, 8, fi_mr_desc(r->mr),
						   r->to_b, r->addr, r->key, r->local));
}

static void rma_03_invalid_calls_on_datagram_endpoints(struct kunit *test)
{
	struct rma *r = rma(test);
	struct kofi_rdm *without_rma = rdm_open(test, NULL);
	struct kvec iov = { r->local, 100 };
	struct fi_rma_iov to[2] = { { r->addr, 50, r->key }, { r->addr, 50, r->key } };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = r->to_b, .rma_iov = to, .rma_iov_count = 2,
	};
	size_t max_size = r->a->info->ep_attr->max_msg_size;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_writemsg(r->a->ep, &msg, 0));
	msg.rma_iov_count = 1;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_writemsg(r->a->ep, &msg, 0));
	to[0].len = 100;
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_readmsg(r->a->ep, &msg, FI_INJECT));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_writemsg(r->a->ep, &msg, FI_MULTI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_write(r->a->ep, r->local, 1, NULL, FI_ADDR_UNSPEC,
						   r->addr, r->key, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, fi_write(r->a->ep, r->local, max_size + 1, NULL, r->to_b,
						     r->addr, r->key, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, fi_inject_write(r->a->ep, r->local, LEN, r->to_b,
							    r->addr, r->key));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_write(without_rma->ep, r->local, 1, NULL, 0, r->addr,
						       r->key, NULL));
}

static struct kunit_case rdm_rma_cases[] = {
	KUNIT_CASE(rdm_04_the_first_access_connects),
	KUNIT_CASE(rma_03_all_calls_on_datagram_endpoints),
	KUNIT_CASE(rdm_03_registered_accesses_keep_their_order),
	KUNIT_CASE(cq_14_registered_writes_fill_the_completion_queue),
	KUNIT_CASE(rdm_03_a_message_follows_the_writes_before_it),
	KUNIT_CASE(rma_01_remote_cq_data_on_datagram_endpoints),
	KUNIT_CASE(rma_02_a_wrong_key_is_an_error),
	KUNIT_CASE(rma_02_a_wrong_key_of_a_registered_access_is_an_error),
	KUNIT_CASE(rma_03_invalid_calls_on_datagram_endpoints),
	{}
};

static struct kunit_suite rdm_rma_suite = {
	.name = "kofi_rdm_rma",
	.test_cases = rdm_rma_cases,
};

kunit_test_suite(rdm_rma_suite);
