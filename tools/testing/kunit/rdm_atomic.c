// SPDX-License-Identifier: GPL-2.0
/*
 * Tests atomic operations of datagram endpoints: the maximum count, operations
 * from both sides at once, concurrent CPU atomics, and peers that close. The
 * suites of connected endpoints test what each operation does.
 */

#include <linux/delay.h>

#include "atomic.h"
#include "rdm.h"

#define LEN	SZ_32K
#define PENDING	40	/* more than one peer processes at a time */

static const struct rdm_opts atomics = { .caps = FI_RMA | FI_ATOMIC };

struct target {
	u64		*words;
	struct fid_mr	*mr;
	u64		addr, key;
};

static void open_target(struct kunit *test, struct kofi_rdm *rdm, struct target *target)
{
	target->words = (u64 *)tr_buffer(test, LEN);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(rdm->domain, target->words, LEN, RMA_BOTH, 0, 0, 0,
					   &target->mr, NULL));
	fx_defer_close(test, &target->mr->fid);
	target->addr = (uintptr_t)target->words;
	target->key = fi_mr_key(target->mr);
}

static int add(struct kofi_rdm *rdm, fi_addr_t to, const struct target *target, u64 *one, u64 *old,
	       u64 word, void *context)
{
	return retry_while_eagain(fi_fetch_atomic(rdm->ep, one, 1, NULL, old, NULL, to,
						  target->addr + 8 * word, target->key, FI_UINT64,
						  FI_SUM, context));
}

static const struct at_op forms[] = {
	{ .form = ATOM_BASE, .op = FI_SUM },
	{ .form = ATOM_FETCH, .op = FI_SUM },
	{ .form = ATOM_FETCH, .op = FI_ATOMIC_READ },
	{ .form = ATOM_COMPARE, .op = FI_CSWAP },
};

/* The largest requests and responses, for each width of the datatype. */
static void atom_03_the_maximum_count(struct kunit *test)
{
	u8 *target = tr_buffer(test, LEN), *near = tr_buffer(test, 3 * LEN);
	struct rma_fx *fx = at_open(test, target, LEN, RMA_BOTH, NULL);

	for (int i = 0; i < ARRAY_SIZE(forms) * (FI_UINT64 + 1); i++) {
		struct at_op op = forms[i % ARRAY_SIZE(forms)];
		size_t size, len;

		op.type = i / ARRAY_SIZE(forms);
		op.buf = near;
		op.compare = near + LEN;
		op.result = near + 2 * LEN;
		op.context = near;
		size = at_size(op.type);
		KUNIT_ASSERT_EQ(test, 0, at_valid(fx->pair->ep[0], &op, &op.count));
		len = op.count * size;
		KUNIT_EXPECT_GE(test, len, op.form == ATOM_COMPARE ? SZ_4K : SZ_8K);
		KUNIT_ASSERT_LT(test, len + 8, LEN);
		memset(target, 0x5a, LEN);
		tr_fill(target, len, i);
		tr_fill(near, len, i + 1);
		memcpy(op.compare, target, len);
		memset(op.result, 0xa5, LEN);
		KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
		at_expect(test, fx, &op);
		/* compare holds the old values; every third element is checked. */
		for (size_t at = 0; at < len; at += 3 * size) {
			u64 old = 0, operand = 0, new = 0;

			memcpy(&old, op.compare + at, size);
			memcpy(&operand, op.buf + at, size);
			memcpy(&new, target + at, size);
			KUNIT_ASSERT_EQ(test, at_result(op.op, op.type, old, operand, old), new);
		}
		if (op.form != ATOM_BASE)
			KUNIT_EXPECT_MEMEQ(test, (u8 *)op.compare, (u8 *)op.result, len);
		else
			len = 0;
		KUNIT_EXPECT_NULL(test, memchr_inv(op.result + len, 0xa5, LEN - len));
		len = op.count * size;
		KUNIT_EXPECT_NULL(test, memchr_inv(target + len, 0x5a, LEN - len));
		op.count++;
		KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, at_post(fx, &op));
	}
}

/* Two endpoints send each other atomic requests and messages: all complete. */
static void atom_05_requests_from_both_sides_at_once(struct kunit *test)
{
	struct kofi_rdm *side[2] = { rdm_open(test, &atomics), rdm_open(test, &atomics) };
	u64 *old = (u64 *)tr_buffer(test, 2 * PENDING * sizeof(u64));
	u8 *buf = tr_buffer(test, 64);
	struct target target[2];
	fi_addr_t to[2];
	u64 one = 1;

	for (int i = 0; i < 2; i++) {
		open_target(test, side[i], &target[i]);
		to[i] = rdm_addr(test, side[i], side[!i]);
	}
	for (unsigned int round = 0; round < tr_rounds; round++) {
		int left[2] = { 3 * PENDING, 3 * PENDING };

		for (int n = 0; n < PENDING; n++) {
			for (int i = 0; i < 2; i++) {
				KUNIT_ASSERT_EQ(test, 0, rdm_recv(side[i], FI_ADDR_UNSPEC, buf, 8,
								  buf));
				KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
					add(side[i], to[i], &target[!i], &one,
					    &old[i * PENDING + n], 0, &old[i])));
				KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
					rdm_send(side[i], to[i], buf, 8, buf)));
			}
		}
		while (left[0] || left[1])
			for (int i = 0; i < 2; i++)
				if (left[i]) {
					struct fi_cq_tagged_entry entry;

					KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, side[i]->cq,
									      &entry, 1));
					left[i]--;
				}
		/* Each side's requests are executed in posting order. */
		for (int i = 0; i < 2 * PENDING; i++)
			KUNIT_EXPECT_EQ(test, round * PENDING + i % PENDING, old[i]);
	}
	for (int i = 0; i < 2; i++)
		KUNIT_EXPECT_EQ(test, tr_rounds * PENDING, target[i].words[0]);
}

static int count_up(struct tr_thread *thread)
{
	atomic64_t *word = thread->arg;

	for (unsigned int i = 0; i < 100 * tr_rounds; i++) {
		atomic64_inc(word);
		if (!(i % 16))
			usleep_range(20, 40);
	}
	return 0;
}

/* The CPU increments the same word. */
static void atom_05_concurrent_cpu_atomics(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, &atomics), *b = rdm_open(test, &atomics);
	fi_addr_t to_b = rdm_addr(test, a, b);
	u64 one = 1, *old = (u64 *)tr_buffer(test, sizeof(*old)), last = 0;
	struct tr_thread *thread;
	struct target target;

	open_target(test, b, &target);
	thread = tr_start(test, -1, count_up, target.words);
	for (unsigned int i = 0; i < 10 * tr_rounds; i++) {
		KUNIT_ASSERT_EQ(test, 0, add(a, to_b, &target, &one, old, 0, old));
		rdm_expect(test, a, old, NULL);
		KUNIT_EXPECT_GE(test, *old, last);
		last = *old + 1;
	}
	KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	KUNIT_EXPECT_EQ(test, 110 * tr_rounds, target.words[0]);
}

static void atom_05_atomics_to_itself(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, &atomics);
	fi_addr_t to_a = rdm_addr(test, a, a);
	u64 one = 1, *old = (u64 *)tr_buffer(test, sizeof(*old));
	struct target target;

	open_target(test, a, &target);
	for (u64 i = 0; i < 20; i++) {
		KUNIT_ASSERT_EQ(test, 0, add(a, to_a, &target, &one, old, 1, old));
		rdm_expect(test, a, old, NULL);
		KUNIT_EXPECT_EQ(test, i, *old);
	}
	KUNIT_EXPECT_EQ(test, 20, target.words[1]);
}

/* Each operation completes, with success or an error; successful ones were executed. */
static void rdm_04_the_target_of_atomics_closes(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, &atomics), *b = rdm_open(test, &atomics);
	fi_addr_t to_b = rdm_addr(test, a, b);
	u64 one = 1, *old = (u64 *)tr_buffer(test, PENDING * sizeof(*old));
	unsigned int done = 0, failed = 0;
	struct target target;

	open_target(test, b, &target);
	KUNIT_ASSERT_EQ(test, 0, add(a, to_b, &target, &one, old, 0, old));
	rdm_expect(test, a, old, NULL);
	for (int i = 0; i < PENDING; i++)
		KUNIT_ASSERT_EQ(test, 0, add(a, to_b, &target, &one, &old[i], 0, &old[i]));
	fx_close(test, &b->ep->fid);
	while (done + failed < PENDING) {
		struct fi_cq_err_entry error = {};
		struct fi_cq_tagged_entry entry;
		ssize_t ret = fi_cq_sread(a->cq, &entry, 1, NULL, FX_WAIT_MS);

		if (ret == -FI_EAVAIL) {
			KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(a->cq, &error, 0));
			KUNIT_EXPECT_EQ(test, FI_ATOMIC | FI_READ, error.flags);
			failed++;
			continue;
		}
		KUNIT_ASSERT_EQ(test, 1, ret);
		KUNIT_EXPECT_EQ(test, FI_ATOMIC | FI_READ, entry.flags);
		done++;
	}
	KUNIT_EXPECT_GE(test, target.words[0], done + 1);
	KUNIT_EXPECT_LE(test, target.words[0], PENDING + 1);
}

static void atomic_flags_of_datagram_endpoints(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, &atomics), *b = rdm_open(test, &atomics);
	struct kofi_rdm *without_atomics = rdm_open(test, NULL);
	fi_addr_t to_b = rdm_addr(test, a, b), unknown = to_b + 1;
	u64 *near = (u64 *)tr_buffer(test, 64);
	struct fi_ioc iov = { near, 1 }, result = { near + 1, 1 };
	struct fi_cq_tagged_entry entry;
	struct target target;
	size_t count;

	open_target(test, b, &target);
	struct fi_rma_ioc remote[] = {
		{ target.addr, 1, target.key }, { target.addr, 1, target.key },
	};
	struct fi_msg_atomic msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = remote, .rma_iov_count = 1,
		.addr = to_b, .datatype = FI_UINT64, .op = FI_SUM, .context = near,
	};

	*near = 1;
	for (int bit = 0; bit < 64; bit++) {
		const u64 known = FI_COMPLETION | FI_INJECT | FI_MORE | FI_INJECT_COMPLETE |
				  FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
		ssize_t ret = fi_atomicmsg(a->ep, &msg, BIT_ULL(bit));

		if (BIT_ULL(bit) & known) {
			KUNIT_ASSERT_EQ(test, 0, ret);
			rdm_expect(test, a, near, &entry);
			KUNIT_EXPECT_EQ(test, FI_ATOMIC | FI_WRITE, entry.flags);
		} else {
			bool unsupported = BIT_ULL(bit) & (FI_FENCE | FI_REMOTE_CQ_DATA | FI_REMOTE_SIGNAL);

			KUNIT_EXPECT_EQ(test, unsupported ? -FI_EOPNOTSUPP : -FI_EBADFLAGS, ret);
		}
	}
	msg.rma_iov_count = 2;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_atomicmsg(a->ep, &msg, 0));
	msg.rma_iov_count = 1;
	msg.addr = unknown;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_atomicmsg(a->ep, &msg, 0));
	msg.addr = FI_ADDR_UNSPEC;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_atomicmsg(a->ep, &msg, 0));
	/* An endpoint without FI_ATOMIC. */
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_atomicmsg(without_atomics->ep, &msg, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS,
			fi_atomicvalid(without_atomics->ep, FI_UINT64, FI_SUM, &count));
	/* Each accepted operation was executed once. */
	msg.addr = to_b;
	KUNIT_ASSERT_EQ(test, 0, fi_fetch_atomicmsg(a->ep, &msg, &result, NULL, 1, FI_COMPLETION));
	rdm_expect(test, a, near, NULL);
	KUNIT_EXPECT_EQ(test, 6, near[1]);
}

static void cntr_03_atomics_are_counted(struct kunit *test)
{
	struct kofi_rdm *a = rdm_make(test, &atomics), *b = rdm_open(test, &atomics);
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *reads, *writes;
	u64 one = 1, *old = (u64 *)tr_buffer(test, sizeof(*old));
	struct target target;
	fi_addr_t to_b;

	KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(a->domain, &attr, &reads, NULL));
	fx_defer_close(test, &reads->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(a->domain, &attr, &writes, NULL));
	fx_defer_close(test, &writes->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(a->ep, &reads->fid, FI_READ));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(a->ep, &writes->fid, FI_WRITE));
	rdm_start(test, a, 0);
	to_b = rdm_addr(test, a, b);
	open_target(test, b, &target);
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, add(a, to_b, &target, &one, old, 0, old));
	for (int i = 0; i < 5; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_inject_atomic(a->ep, &one, 1, to_b, target.addr,
							  target.key, FI_UINT64, FI_SUM));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(reads, 3, FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(writes, 5, FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, 8, target.words[0]);
	for (int i = 0; i < 3; i++)
		rdm_expect(test, a, old, NULL);
	/* The endpoint is closed before the counters that are bound to it. */
	fx_close(test, &a->ep->fid);
}

static struct kunit_case rdm_atomic_cases[] = {
	KUNIT_CASE(atom_03_the_maximum_count),
	KUNIT_CASE(atom_05_requests_from_both_sides_at_once),
	KUNIT_CASE(atom_05_concurrent_cpu_atomics),
	KUNIT_CASE(atom_05_atomics_to_itself),
	KUNIT_CASE(rdm_04_the_target_of_atomics_closes),
	KUNIT_CASE(atomic_flags_of_datagram_endpoints),
	KUNIT_CASE(cntr_03_atomics_are_counted),
	{}
};

static struct kunit_suite rdm_atomic_suite = {
	.name = "kofi_rdm_atomic_own",
	.init = at_init_rdm,
	.test_cases = rdm_atomic_cases,
};

kunit_test_suite(rdm_atomic_suite);
