// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM 3, RDM 11, EP 9 and RMA 3 of CONTRACT for datagram vectors that are
 * refused, queued, injected or in many pieces, and for those of contexts.
 */

#include <linux/mm.h>

#include "rdm_iov.h"
#include "rdm_raw.h"
#include "sep.h"

#define QUEUED		12
#define READS		32
#define READ_LEN	50021
#define REGION		SZ_1M
#define PEERS		14
/* Pieces of a read that a device with one scatter/gather element for each read refuses. */
#define PAGES_EACH	5

/* Opens a pair whose vectors are in vmalloc memory, where each page is a piece. */
static struct iov_pair *open_paged(struct kunit *test)
{
	u8 *out = tr_vbuffer(test, SIZE), *in = tr_vbuffer(test, SIZE);
	struct iov_pair *p = iov_open(test, &iov_long_opts);

	p->out->memory = out;
	p->in->memory = in;
	return p;
}

/* Registers memory of the peer for reads and writes; closed with the test. */
static struct fid_mr *reg(struct kunit *test, struct iov_pair *p, u8 *memory, size_t len)
{
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(p->b->domain, memory, len,
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	return mr;
}

/* An invalid address among 256 segments is refused, wherever it is. */
static void ep_09_an_invalid_segment_among_many(struct kunit *test)
{
	static const size_t places[] = { 0, 3, 4, 200, MOST - 1 };
	struct iov_pair *p = iov_open(test, &iov_long_opts);
	struct fi_rma_iov remote = { .len = LONGEST };
	u8 stack[8];
	/* A user's address, a stack, and a range that wraps. */
	const struct kvec bad[] = {
		{ (void *)0x10000, 8 }, { stack, sizeof(stack) },
		{ (void *)-PAGE_SIZE, 2 * PAGE_SIZE },
	};

	for (int i = 0; i < ARRAY_SIZE(places) * ARRAY_SIZE(bad); i++) {
		struct kvec *place = &p->out->iov[places[i / ARRAY_SIZE(bad)]];

		iov_cut(p->out, MOST, LONGEST);
		remote.len = LONGEST - place->iov_len + bad[i % ARRAY_SIZE(bad)].iov_len;
		*place = bad[i % ARRAY_SIZE(bad)];
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, iov_send(p, 0, false));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, iov_send(p, 0, true));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, iov_recv(p->a->ep, p->out, 0, false));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, iov_recv(p->a->ep, p->out, 0, true));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, iov_access(p, p->out, true, &remote, 1, NULL, 0));
	}
	iov_exchange(test, p);
}

/* The memory of an injected operation belongs to the caller when the call returns. */
static void rdm_03_injected_vectors_of_256_segments(struct kunit *test)
{
	static const size_t lens[] = { 0, 1, MOST - 1, MOST };
	struct fi_rma_iov *remote = (void *)tr_buffer(test, MOST * sizeof(*remote));
	u8 *far = tr_buffer(test, MOST);
	struct iov_pair *p = iov_open(test, &iov_long_opts);
	struct fid_mr *mr = reg(test, p, far, MOST);

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		iov_cut(p->out, MOST, lens[i]);
		iov_cut(p->in, MOST, lens[i]);
		iov_fill(p, p->out, lens[i], i);
		KUNIT_ASSERT_EQ(test, 0, iov_send(p, FI_INJECT, i % 2));
		memset(p->out->memory, UNUSED, SIZE);
		KUNIT_ASSERT_EQ(test, 0, iov_recv(p->b->ep, p->in, 0, i % 2));
		iov_expect(test, p, lens[i], i);

		iov_fill(p, p->out, lens[i], i);
		for (size_t k = 0; k < MOST; k++)
			remote[k] = (struct fi_rma_iov) {
				(uintptr_t)far + k, k < lens[i], fi_mr_key(mr),
			};
		KUNIT_ASSERT_EQ(test, 0, iov_access(p, p->out, false, remote, MOST, NULL,
						    FI_INJECT));
		memset(p->out->memory, UNUSED, SIZE);
		rdm_expect(test, p->a, p->out, NULL);
		/* A read finds what was written before. */
		iov_cut(p->in, MOST, lens[i]);
		remote[0] = (struct fi_rma_iov) { (uintptr_t)far, lens[i], fi_mr_key(mr) };
		KUNIT_ASSERT_EQ(test, 0, iov_access(p, p->in, true, remote, 1, NULL, 0));
		rdm_expect(test, p->a, p->in, NULL);
		KUNIT_EXPECT_TRUE(test, iov_received(p, p->in, lens[i], i));
	}
	iov_cut(p->out, MOST, MOST + 1);
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, iov_send(p, FI_INJECT, false));
}

static void rdm_03_segments_of_vmalloc_memory(struct kunit *test)
{
	struct fi_rma_iov remote;
	u8 *far = tr_buffer(test, LONGEST);
	struct iov_pair *p = open_paged(test);
	struct fid_mr *mr = reg(test, p, far, LONGEST);

	iov_exchange(test, p);
	for (int is_read = 0; is_read < 2; is_read++) {
		struct iov_vector *vector = is_read ? p->in : p->out;

		iov_cut(vector, MOST, LONGEST);
		if (!is_read)
			iov_fill(p, vector, LONGEST, 1);
		remote = (struct fi_rma_iov) { (uintptr_t)far, LONGEST, fi_mr_key(mr) };
		KUNIT_ASSERT_EQ(test, 0, iov_access(p, vector, is_read, &remote, 1, NULL, 0));
		rdm_expect(test, p->a, vector, NULL);
	}
	KUNIT_EXPECT_TRUE(test, iov_received(p, p->in, LONGEST, 1));
}

/* Reads that do not fit into the send queue at once wait, and each has its own vector. */
static void rma_03_many_reads_of_256_segments_at_once(struct kunit *test)
{
	struct iov_vector *vectors[READS];
	u8 *far = tr_buffer(test, READS * READ_LEN);
	struct iov_pair *p;
	struct fid_mr *mr;

	for (int i = 0; i < READS; i++)
		vectors[i] = iov_new(test);
	p = iov_open(test, &iov_long_opts);
	mr = reg(test, p, far, READS * READ_LEN);
	for (int i = 0; i < READS; i++)
		tr_fill(far + i * READ_LEN, READ_LEN, i);
	for (int i = 0; i < READS; i++) {
		struct fi_rma_iov remote = {
			(uintptr_t)far + i * READ_LEN, READ_LEN, fi_mr_key(mr),
		};

		iov_cut(vectors[i], MOST, READ_LEN);
		KUNIT_ASSERT_EQ(test, 0, iov_access(p, vectors[i], true, &remote, 1, NULL, 0));
	}
	for (int i = 0; i < READS; i++)
		rdm_expect(test, p->a, vectors[i], NULL);
	for (int i = 0; i < READS; i++)
		KUNIT_EXPECT_TRUE(test, iov_received(p, vectors[i], READ_LEN, i));
}

/* Writes of 256 ranges to many peers take more work requests than short operations would. */
static void rma_03_writes_of_256_ranges_to_many_peers(struct kunit *test)
{
	struct fi_rma_iov *remote = (void *)tr_buffer(test, MOST * sizeof(*remote));
	u8 *near = tr_buffer(test, MOST), *far = tr_buffer(test, PEERS * MOST);
	struct kofi_rdm *rdm = rdm_open(test, &iov_long_opts);
	struct kvec iov = { near, MOST };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = remote, .rma_iov_count = MOST,
	};
	fi_addr_t to[PEERS];
	u64 keys[PEERS];

	tr_fill(near, MOST, 1);
	for (int i = 0; i < PEERS; i++) {
		struct kofi_rdm *peer = rdm_open(test, &iov_long_opts);
		struct fid_mr *mr;

		KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(peer->domain, far + i * MOST, MOST,
						   FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
		fx_defer_close(test, &mr->fid);
		keys[i] = fi_mr_key(mr);
		to[i] = rdm_addr(test, rdm, peer);
		rdm_exchange(test, rdm, to[i], peer);
	}
	for (int i = 0; i < PEERS; i++) {
		for (int k = 0; k < MOST; k++)
			remote[k] = (struct fi_rma_iov) {
				(uintptr_t)far + i * MOST + k, 1, keys[i],
			};
		msg.addr = to[i];
		msg.context = &to[i];
		KUNIT_ASSERT_EQ(test, 0, fi_writemsg(rdm->ep, &msg, 0));
	}
	for (int i = 0; i < PEERS; i++) {
		struct fi_cq_tagged_entry entry;

		KUNIT_ASSERT_EQ_MSG(test, 1, fx_wait_comp(test, rdm->cq, &entry, 1), "write %d", i);
	}
	for (int i = 0; i < PEERS; i++)
		KUNIT_EXPECT_EQ(test, 0, memcmp(near, far + i * MOST, MOST));
}

/* A read of more pieces than the send queue has work requests fails alone, and is not posted in part. */
static void ep_09_reads_in_more_pieces_than_the_queue_takes(struct kunit *test)
{
	const size_t len = PAGES_EACH * PAGE_SIZE, total = MOST * len;
	struct fi_rma_iov remote[DIV_ROUND_UP(MOST * PAGES_EACH * PAGE_SIZE, REGION)];
	u8 *near = tr_vbuffer(test, total), *far = tr_buffer(test, REGION);
	struct iov_pair *p = iov_open(test, &iov_long_opts);
	struct fid_mr *mr = reg(test, p, far, REGION);
	const struct fid_nic *nic = p->a->info->nic;
	struct fi_cq_err_entry error;

	tr_fill(far, REGION, 1);
	p->out->count = MOST;
	for (size_t i = 0; i < MOST; i++)
		p->out->iov[i] = (struct kvec) { near + i * len, len };
	for (size_t i = 0; i < ARRAY_SIZE(remote); i++)
		remote[i] = (struct fi_rma_iov) {
			(uintptr_t)far, min_t(size_t, REGION, total - i * REGION), fi_mr_key(mr),
		};
	KUNIT_ASSERT_EQ(test, 0, iov_access(p, p->out, true, remote, ARRAY_SIZE(remote), NULL, 0));
	if (nic && !strcmp(nic->device_attr->driver, "siw") && !rdm_all_local()) {
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->a->cq, &error));
		KUNIT_EXPECT_EQ(test, FI_EINVAL, error.err);
		KUNIT_EXPECT_PTR_EQ(test, (void *)p->out, error.op_context);
		KUNIT_EXPECT_NULL(test, memchr_inv(near, 0, total));
	} else {
		rdm_expect(test, p->a, p->out, NULL);
		for (size_t i = 0; i < ARRAY_SIZE(remote); i++)
			KUNIT_EXPECT_TRUE(test, tr_intact(near + i * REGION,
							  min_t(size_t, REGION, total - i * REGION),
							  1));
	}
	iov_exchange(test, p);
}

/* Posts sends of all protocols to a peer that takes none. */
static void queue_sends(struct kunit *test, struct iov_pair *p, struct iov_vector **vectors,
			fi_addr_t to)
{
	struct iov_vector *out = p->out;
	fi_addr_t to_b = p->to_b;

	p->to_b = to;
	for (int i = 0; i < QUEUED; i++) {
		p->out = vectors[i];
		iov_cut(p->out, MOST, iov_lens[i % IOV_LENS]);
		KUNIT_ASSERT_EQ(test, 0, iov_send(p, 0, i % 2));
	}
	p->out = out;
	p->to_b = to_b;
}

static void rdm_11_queued_vectors_are_cancelled(struct kunit *test)
{
	struct iov_vector *vectors[QUEUED];
	struct iov_pair *p;

	for (int i = 0; i < QUEUED; i++)
		vectors[i] = iov_new(test);
	p = iov_open(test, &iov_long_opts);
	raw_open_silent(test, &p->a->name, 1);
	queue_sends(test, p, vectors, raw_addr(test, p->a, 1));
	/* A message whose memory is being registered is busy. */
	for (int i = 0; i < QUEUED; i++) {
		struct iov_vector *vector = vectors[(i * 5 + 7) % QUEUED];
		struct fid *ep = &p->a->ep->fid;

		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_cancel(ep, vector)));
		tr_expect_error(test, p->a->cq, vector, FI_ECANCELED);
		KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(ep, vector));
		iov_cut(vector, 1, 0);
	}
	iov_exchange(test, p);
}

static void rdm_11_queued_vectors_fail_after_av_remove(struct kunit *test)
{
	struct iov_vector *vectors[QUEUED];
	struct fi_cq_err_entry error;
	struct iov_pair *p;
	fi_addr_t to;

	for (int i = 0; i < QUEUED; i++)
		vectors[i] = iov_new(test);
	p = iov_open(test, &iov_long_opts);
	raw_open_silent(test, &p->a->name, 1);
	to = raw_addr(test, p->a, 1);
	queue_sends(test, p, vectors, to);
	KUNIT_ASSERT_EQ(test, 0, fi_av_remove(p->a->av, &to, 1, 0));
	for (int i = 0; i < QUEUED; i++) {
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->a->cq, &error));
		KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
		iov_cut(error.op_context, 1, 0);
	}
	iov_exchange(test, p);
}

/* The contexts of a scalable endpoint have vectors and slots of their own. */
static void rdm_03_vectors_of_contexts(struct kunit *test)
{
	const struct sep_opts opts = { .txs = 3, .rxs = 3, .iov_limit = MOST };
	struct iov_pair p = {
		.flat = tr_buffer(test, LONGEST), .out = iov_new(test), .in = iov_new(test),
	};
	struct sep *from = sep_open(test, &opts), *to = sep_open(test, &opts);
	fi_addr_t addr = sep_addr(test, from, &to->name);

	for (int i = 0; i < 9; i++) {
		struct kofi_rdm a = { .ep = from->tx[i % 3], .cq = from->tx_cq[i % 3] };
		struct kofi_rdm b = { .ep = to->rx[i / 3], .cq = to->rx_cq[i / 3] };

		p.a = &a;
		p.b = &b;
		p.to_b = fi_rx_addr(addr, i / 3, SEP_BITS);
		iov_exchange(test, &p);
		iov_cut(p.out, MOST + 1, 0);
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, iov_send(&p, 0, false));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, iov_recv(b.ep, p.out, 0, false));
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_09_an_invalid_segment_among_many),
	KUNIT_CASE(rdm_03_injected_vectors_of_256_segments),
	KUNIT_CASE(rdm_03_segments_of_vmalloc_memory),
	KUNIT_CASE(rma_03_many_reads_of_256_segments_at_once),
	KUNIT_CASE(rma_03_writes_of_256_ranges_to_many_peers),
	KUNIT_CASE(ep_09_reads_in_more_pieces_than_the_queue_takes),
	KUNIT_CASE(rdm_11_queued_vectors_are_cancelled),
	KUNIT_CASE_SLOW(rdm_11_queued_vectors_fail_after_av_remove),
	KUNIT_CASE(rdm_03_vectors_of_contexts),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_iov_end",
	.test_cases = cases,
};

kunit_test_suite(suite);
