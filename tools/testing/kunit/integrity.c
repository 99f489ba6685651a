// SPDX-License-Identifier: GPL-2.0
/*
 * Tests that messages arrive intact, whatever their length, alignment, number of
 * segments and kind of memory (kmalloc, vmalloc, module).
 */

#include <linux/sizes.h>

#include "traffic.h"

#define MAX_LEN (3 * SZ_1M)
#define MAX_VECS 32
/* Number of bytes before and after a receive buffer that must not be written. */
#define GUARD 64

static const size_t sizes[] = {
	0, 1, 2, 3, 7, 8, 63, 64, 65, 255, 511, 512, 513, 1023, 1024, 1025,
	2047, 2048, 2049, 4095, 4096, 4097, 8191, 12289, SZ_64K - 1, SZ_64K,
	SZ_64K + 1, SZ_1M, SZ_1M + 13, MAX_LEN,
};

/* Splits len bytes into count segments. If len is small, some are empty. */
static void split(struct kvec *iov, size_t count, u8 *buf, size_t len)
{
	size_t step = len / count + 1;

	for (size_t i = 0; i < count; i++) {
		size_t this = i + 1 < count ? min(step + (i & 3), len) : len;

		iov[i] = (struct kvec){ buf, this };
		buf += this;
		len -= this;
	}
}

static void send_vectors(struct kunit *test, struct kofi_pair *pair, u8 *out,
			 size_t out_vecs, u8 *in, size_t in_vecs, size_t len)
{
	struct kvec from[MAX_VECS], to[MAX_VECS];
	u32 seed = len * 31 + out_vecs * 7 + in_vecs;

	split(from, out_vecs, out, len);
	split(to, in_vecs, in, len);
	tr_fill(out, len, seed);
	memset(in - GUARD, 0xa5, GUARD);
	memset(in, 0, len);
	memset(in + len, 0xa5, GUARD);
	KUNIT_ASSERT_EQ_MSG(test, 0,
			    fi_recvv(pair->ep[1], to, NULL, in_vecs, 0, in),
			    "%zu bytes in %zu pieces", len, in_vecs);
	KUNIT_ASSERT_EQ_MSG(test, 0,
			    fi_sendv(pair->ep[0], from, NULL, out_vecs, 0, out),
			    "%zu bytes in %zu pieces", len, out_vecs);
	tr_expect(test, pair->cq[0], out, FI_SEND, 0);
	tr_expect(test, pair->cq[1], in, FI_RECV, len);
	KUNIT_EXPECT_TRUE_MSG(test, tr_intact(in, len, seed),
			      "%zu bytes, %zu to %zu segments: data damaged", len,
			      out_vecs, in_vecs);
	KUNIT_EXPECT_NULL_MSG(test, memchr_inv(in - GUARD, 0xa5, GUARD),
			      "%zu bytes: memory before the receive was written", len);
	KUNIT_EXPECT_NULL_MSG(test, memchr_inv(in + len, 0xa5, GUARD),
			      "%zu bytes: memory after the receive was written", len);
}

static void data_of_every_size(struct kunit *test)
{
	u8 *out = tr_buffer(test, MAX_LEN);
	u8 *in = tr_buffer(test, GUARD + MAX_LEN + GUARD);
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (int i = 0; i < ARRAY_SIZE(sizes); i++)
		send_vectors(test, pair, out, 1, in + GUARD, 1, sizes[i]);
}

static void data_at_every_alignment(struct kunit *test)
{
	u8 *out = tr_buffer(test, 3 * PAGE_SIZE);
	u8 *in = tr_buffer(test, GUARD + 3 * PAGE_SIZE + GUARD);
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (int i = 0; i < 16; i++)
		send_vectors(test, pair, out + i, 1, in + GUARD + (i * 7) % 16, 1,
			     2 * PAGE_SIZE + i);
}

static void data_in_every_number_of_pieces(struct kunit *test)
{
	static const size_t lengths[] = { 5, 1000, 10000 };
	u8 *out = tr_buffer(test, SZ_64K);
	u8 *in = tr_buffer(test, SZ_64K);
	struct kofi_pair *pair = fx_pair(test, NULL);
	size_t tx = min(pair->info->tx_attr->iov_limit, MAX_VECS);
	size_t rx = min(pair->info->rx_attr->iov_limit, MAX_VECS);

	for (size_t n = 1; n <= max(tx, rx); n++)
		for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
			send_vectors(test, pair, out + 1, min(n, tx), in + GUARD + 3, 1,
				     lengths[i]);
			send_vectors(test, pair, out, 1, in + GUARD, min(n, rx),
				     lengths[i]);
			send_vectors(test, pair, out, min(n, tx), in + GUARD + 1,
				     min(rx + 1 - min(n, rx), rx), lengths[i]);
		}
}

/* Pages of vmalloc() are not contiguous: each may need a segment of its own. */
static void data_in_vmalloc_memory(struct kunit *test)
{
	u8 *out = tr_vbuffer(test, SZ_64K);
	u8 *in = tr_vbuffer(test, SZ_64K);
	struct kofi_pair *pair = fx_pair(test, NULL);
	size_t pages = min(pair->info->tx_attr->iov_limit,
			   pair->info->rx_attr->iov_limit);
	size_t most = min((pages - 1) * PAGE_SIZE, SZ_64K - 2 * PAGE_SIZE);

	for (int i = 0; i < ARRAY_SIZE(sizes) && sizes[i] <= most; i++) {
		send_vectors(test, pair, out + i, 1, in + GUARD + i, 1, sizes[i]);
		send_vectors(test, pair, out, 1, in + PAGE_SIZE, 1, sizes[i]);
	}
	send_vectors(test, pair, out + 9, 1, in + PAGE_SIZE, 1, most);
}

static void data_in_vmalloc_memory_of_megabytes(struct kunit *test)
{
	u8 *out = tr_vbuffer(test, SZ_2M);
	u8 *in = tr_vbuffer(test, SZ_2M);
	struct kofi_pair *pair = fx_pair(test, NULL);
	ssize_t ret;

	tr_fill(out, SZ_2M, 1);
	ret = fi_recv(pair->ep[1], in, SZ_2M, NULL, 0, in);
	if (!ret) {
		KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], out, SZ_2M, NULL,
						 0, out));
		tr_expect(test, pair->cq[1], in, FI_RECV, SZ_2M);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, SZ_2M, 1));
		return;
	}
	/* A message of more pages than the device has segments fails; it is not cut. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ret);
	tr_exchange(test, pair, 0, out, in, PAGE_SIZE);
}

/* On some architectures module memory is in neither the linear map nor vmalloc space. */
static u8 module_memory[2 * SZ_4K];

static void data_in_module_memory(struct kunit *test)
{
	u8 *in = tr_buffer(test, GUARD + SZ_4K + GUARD);
	struct kofi_pair *pair = fx_pair(test, NULL);

	send_vectors(test, pair, module_memory + 5, 1, in + GUARD, 1, SZ_4K);
}

/* With messages in flight in both directions, each fills the next posted receive. */
#define WINDOW 32
#define ROUNDS 20

static void data_of_many_messages_is_in_order(struct kunit *test)
{
	u8 *out = tr_buffer(test, 2 * WINDOW * GUARD);
	u8 *in = tr_buffer(test, 2 * WINDOW * GUARD);
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (u32 round = 0; round < ROUNDS; round++) {
		for (u32 i = 0; i < 2 * WINDOW; i++) {
			memset(in + i * GUARD, 0, GUARD);
			KUNIT_ASSERT_EQ(test, 0,
					fi_recv(pair->ep[i & 1], in + i * GUARD,
						GUARD, NULL, 0, in + i * GUARD));
		}
		for (u32 i = 0; i < 2 * WINDOW; i++) {
			tr_fill(out + i * GUARD, i, round + i);
			KUNIT_ASSERT_EQ(test, 0,
					fi_send(pair->ep[!(i & 1)],
						out + i * GUARD, min(i, GUARD),
						NULL, 0, out + i * GUARD));
		}
		for (int side = 0; side < 2; side++)
			for (u32 sent = !side, got = side, n = 0;
			     n < 2 * WINDOW; n++) {
				struct fi_cq_tagged_entry entry;
				u32 *next;

				KUNIT_ASSERT_EQ(test, 1,
						fx_wait_comp(test, pair->cq[side],
							     &entry, 1));
				next = entry.flags & FI_RECV ? &got : &sent;
				KUNIT_ASSERT_PTR_EQ(test, entry.op_context,
						    (void *)((next == &got ? in : out) +
							     *next * GUARD));
				*next += 2;
			}
		for (u32 i = 0; i < 2 * WINDOW; i++)
			KUNIT_EXPECT_TRUE(test, tr_intact(in + i * GUARD,
							  min(i, GUARD),
							  round + i));
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(data_of_every_size),
	KUNIT_CASE(data_at_every_alignment),
	KUNIT_CASE_SLOW(data_in_every_number_of_pieces),
	KUNIT_CASE(data_in_vmalloc_memory),
	KUNIT_CASE(data_in_vmalloc_memory_of_megabytes),
	KUNIT_CASE(data_in_module_memory),
	KUNIT_CASE_SLOW(data_of_many_messages_is_in_order),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_integrity",
	.test_cases = cases,
};

kunit_test_suite(suite);
