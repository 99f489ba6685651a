// SPDX-License-Identifier: GPL-2.0
/*
 * Tests MR 4 of CONTRACT: peers reach exactly the registered bytes with exactly
 * the given rights. The peer is a raw ib_verbs queue pair, which bypasses
 * kOFI's own checks.
 */

#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "attack.h"

#define REMOTE	(FI_REMOTE_READ | FI_REMOTE_WRITE)

/* Fill patterns of the memory around a region, and of the attacker's buffer. */
#define AROUND	0xa5
#define OWN	0x5a

static struct fid_mr *reg(struct kunit *test, struct fid_domain *domain,
			  void *buf, size_t len, u64 access)
{
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(domain, buf, len, access, 0, 0, 0,
					   &mr, NULL));
	fx_defer_close(test, &mr->fid);
	return mr;
}

/* Writes, and then reads one byte, which completes after the write is placed. */
static void write_arrives(struct kunit *test, struct attacker *at, u64 addr,
			  u32 key, u32 len)
{
	KUNIT_EXPECT_EQ(test, IB_WC_SUCCESS, at_write(at, addr, key, len));
	KUNIT_EXPECT_EQ(test, IB_WC_SUCCESS, at_read(at, addr, key, 1));
}

static const struct kind {
	const char *name;
	u8 *(*alloc)(struct kunit *test, size_t len);
	size_t len;
} kinds[] = {
	{ "linear", tr_buffer, 4 * PAGE_SIZE },
	{ "vmalloc", tr_vbuffer, 4 * PAGE_SIZE },
	/* Has more 4 KiB pages than fit into a page list of a soft device. */
	{ "large", tr_buffer, 1024 * PAGE_SIZE },
};

KUNIT_ARRAY_PARAM_DESC(kinds, kinds, name);

/* Accesses of up to AT_MAX bytes, at both ends of a region and in the middle. */
static void mr_04_every_registered_byte_is_reached(struct kunit *test)
{
	const struct kind *kind = test->param_value;
	static const size_t starts[] = { 0, 1, PAGE_SIZE - 3 };
	u8 *buf = kind->alloc(test, kind->len);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct attacker *at = at_connect(test, fx, pep);

	for (int i = 0; i < ARRAY_SIZE(starts); i++) {
		u8 *from = buf + starts[i];
		size_t len = kind->len - starts[i] - 1;
		const size_t at_len[][2] = {
			{ 0, AT_MAX }, { 1, 1 }, { len - AT_MAX, AT_MAX },
			{ len - 1, 1 }, { len / 2 - 7, PAGE_SIZE + 9 },
		};
		struct fid_mr *mr;
		u32 key;

		if (len < AT_MAX)
			len = round_down(len, PAGE_SIZE);
		mr = reg(test, fx->domain, from, len, REMOTE);
		key = fi_mr_key(mr);
		for (int j = 0; j < ARRAY_SIZE(at_len); j++) {
			size_t count = min(at_len[j][1], len);
			size_t skip = min(at_len[j][0], len - count);
			u64 addr = (uintptr_t)from + skip;
			u32 seed = 10 * i + j;

			tr_fill(at->buf, count, seed);
			write_arrives(test, at, addr, key, count);
			KUNIT_EXPECT_TRUE_MSG(test, tr_intact(from + skip, count,
							      seed),
					      "%zu bytes written at %zu", count,
					      skip);
			tr_fill(from + skip, count, seed + 5);
			KUNIT_EXPECT_EQ(test, IB_WC_SUCCESS,
					at_read(at, addr, key, count));
			KUNIT_EXPECT_TRUE_MSG(test, tr_intact(at->buf, count,
							      seed + 5),
					      "%zu bytes read at %zu", count,
					      skip);
		}
		fx_close(test, &mr->fid);
	}
	at_close(test, at);
}

/* Several kvecs form one region, whose addresses start at the first kvec's. */
static void mr_04_several_kvecs_are_one_range(struct kunit *test)
{
	u8 *linear = tr_buffer(test, 2 * PAGE_SIZE);
	u8 *paged = tr_vbuffer(test, 2 * PAGE_SIZE);
	const struct kvec iov[] = {
		{ linear + PAGE_SIZE - 10, 10 },
		{ paged, 2 * PAGE_SIZE },
		{ linear, 33 },
	};
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct attacker *at = at_connect(test, fx, pep);
	u64 addr = (uintptr_t)iov[0].iov_base;
	u32 len = 10 + 2 * PAGE_SIZE + 33;
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_regv(fx->domain, iov, 3, REMOTE, 0, 0, 0,
					    &mr, NULL));
	fx_defer_close(test, &mr->fid);
	tr_fill(at->buf, len, 8);
	write_arrives(test, at, addr, fi_mr_key(mr), len);
	tr_fill(at->buf, len, 8);
	KUNIT_EXPECT_MEMEQ(test, at->buf, iov[0].iov_base, 10);
	KUNIT_EXPECT_MEMEQ(test, at->buf + 10, paged, 2 * PAGE_SIZE);
	KUNIT_EXPECT_MEMEQ(test, at->buf + 10 + 2 * PAGE_SIZE, linear, 33);
	KUNIT_EXPECT_NULL(test, memchr_inv(linear + 33, 0, PAGE_SIZE - 10 - 33));
	KUNIT_EXPECT_NULL(test, memchr_inv(linear + PAGE_SIZE, 0, PAGE_SIZE));
	/* The descriptor covers each kvec at its own address. */
	KUNIT_EXPECT_EQ(test, 0, fi_recv(at->victim, linear, 33, fi_mr_desc(mr),
					 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recv(at->victim, linear + 33, 1,
						  fi_mr_desc(mr), 0, NULL));
	at_close(test, at);
	tr_read_flushed(test, fx->cq);
}

/* A buffer of three pages, of which LEN bytes from FIRST on are registered. */
#define BYTES	(3 * PAGE_SIZE)
#define FIRST	(PAGE_SIZE / 2 + 3)
#define LEN	(PAGE_SIZE + 100)

static const struct attack {
	const char	*name;
	u64		access;
	ssize_t		at;		/* relative to the first registered byte */
	u32		len;
	bool		write;
	u32		key_mask;		/* XORed into the key */
	bool		closed;
	bool		foreign;		/* uses the key of another domain's region */
} attacks[] = {
	{ "write one byte before", REMOTE, -1, 1, true },
	{ "write one byte after", REMOTE, LEN, 1, true },
	{ "write across the start", REMOTE, -8, 16, true },
	{ "write across the end", REMOTE, LEN - 8, 16, true },
	{ "write more than all", REMOTE, 0, LEN + 1, true },
	{ "write to the page before", REMOTE, -(ssize_t)PAGE_SIZE, 8, true },
	{ "write to the page after", REMOTE, LEN + PAGE_SIZE / 4, 8, true },
	{ "write to the top", REMOTE, SSIZE_MAX, 32, true },
	{ "read one byte before", REMOTE, -1, 1 },
	{ "read one byte after", REMOTE, LEN, 1 },
	{ "read across the start", REMOTE, -8, 16 },
	{ "read across the end", REMOTE, LEN - 8, 16 },
	{ "read more than all", REMOTE, 0, LEN + 1 },
	{ "read from the top", REMOTE, SSIZE_MAX, 32 },
	{ "write without the right", FI_REMOTE_READ, 0, 8, true },
	{ "read without the right", FI_REMOTE_WRITE, 0, 8 },
	{ "write by the next tag", REMOTE, 0, 8, true, 1 },
	{ "read by the next tag", REMOTE, 0, 8, false, 1 },
	{ "write by another index", REMOTE, 0, 8, true, 0x100 },
	{ "read by another index", REMOTE, 0, 8, false, 0x100 },
	{ "write by the highest index", REMOTE, 0, 8, true, 0x80000000 },
	{ "read by no key", REMOTE, 0, 8, false, ~0 },
	{ "write after the close", REMOTE, 0, 8, true, .closed = true },
	{ "read after the close", REMOTE, 0, 8, false, .closed = true },
	{ "write by another domain's key", REMOTE, 0, 8, true, .foreign = true },
	{ "read by another domain's key", REMOTE, 0, 8, .foreign = true },
};

KUNIT_ARRAY_PARAM_DESC(attacks, attacks, name);

/* siw does not check the remote read right: see Documentation/security.rst. */
static bool driver_is_known_to_permit(const struct attack *attack,
				      const struct fi_info *info)
{
	return tr_is_iwarp(info) && !attack->write &&
	       !(attack->access & FI_REMOTE_READ);
}

static void mr_04_nothing_else_is_reached(struct kunit *test)
{
	const struct attack *attack = test->param_value;
	u8 *buf = tr_buffer(test, BYTES);
	u8 *copy = tr_buffer(test, BYTES);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct kofi_fabric_fx *other = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_mr *foreign = reg(test, other->domain, buf + FIRST, LEN,
				     attack->access);
	struct fid_mr *mr = reg(test, fx->domain, buf + FIRST, LEN,
				attack->access);
	struct attacker *at = at_connect(test, fx, pep);
	u64 addr = (uintptr_t)(buf + FIRST) + attack->at;
	u32 key = fi_mr_key(attack->foreign ? foreign : mr) ^ attack->key_mask;
	int status;

	/* An access that ends beyond the highest address. */
	if (attack->at == SSIZE_MAX)
		addr = -16ULL;
	memset(buf, AROUND, BYTES);
	tr_fill(buf + FIRST, LEN, 4);
	memcpy(copy, buf, BYTES);
	memset(at->buf, OWN, AT_MAX);
	if (attack->closed)
		fx_close(test, &mr->fid);

	status = attack->write ? at_write(at, addr, key, attack->len) :
				 at_read(at, addr, key, attack->len);
	if (driver_is_known_to_permit(attack, fx->info)) {
		KUNIT_EXPECT_EQ_MSG(test, IB_WC_SUCCESS, status,
				    "siw now refuses this access: update security.rst");
	} else if (attack->write && status == IB_WC_SUCCESS) {
		/* The write was sent; the target ends the connection. */
		KUNIT_EXPECT_TRUE_MSG(test, at_wait_disconnected(at),
				      "waited for the disconnect after a refused write");
	} else {
		KUNIT_EXPECT_NE(test, IB_WC_SUCCESS, status);
		KUNIT_EXPECT_NULL_MSG(test, memchr_inv(at->buf, OWN, AT_MAX),
				      "bytes leaked");
	}
	KUNIT_EXPECT_NULL_MSG(test, memchr_inv(buf, AROUND, FIRST),
			      "bytes before the region changed");
	KUNIT_EXPECT_NULL_MSG(test, memchr_inv(buf + FIRST + LEN, AROUND,
					       BYTES - FIRST - LEN),
			      "bytes after the region changed");
	/* A longer request has several packets: those before the refused one may be written. */
	if (attack->len < 1024)
		KUNIT_EXPECT_MEMEQ(test, copy + FIRST, buf + FIRST, LEN);
	at_close(test, at);
}

struct writes {
	struct attacker	*at;
	u64		addr;
	u32		key;
};

static int write_until_refused(struct tr_thread *thread)
{
	struct writes *writes = thread->arg;

	while (at_write(writes->at, writes->addr, writes->key, AT_MAX) ==
	       IB_WC_SUCCESS)
		cond_resched();
	return 0;
}

static bool wait_for_first_write(const u8 *buf)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (!READ_ONCE(*buf) && time_before(jiffies, end))
		usleep_range(50, 100);
	return READ_ONCE(*buf);
}

/* A closed region is not written, also while packets of a write are in flight. */
static void mr_04_nothing_is_written_after_the_close(struct kunit *test)
{
	u8 *buf = tr_buffer(test, AT_MAX);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct writes writes = { .addr = (uintptr_t)buf };

	if (tr_is_iwarp(fx->info))
		kunit_skip(test, "siw does not wait for what it is writing");
	for (int round = 0; round < 20; round++) {
		struct fid_mr *mr = reg(test, fx->domain, buf, AT_MAX,
					FI_REMOTE_WRITE);
		struct tr_thread *thread;

		memset(buf, 0, AT_MAX);
		writes.key = fi_mr_key(mr);
		writes.at = at_connect(test, fx, pep);
		memset(writes.at->buf, OWN, AT_MAX);
		thread = tr_start(test, -1, write_until_refused, &writes);
		KUNIT_EXPECT_TRUE(test, wait_for_first_write(buf));
		fx_close(test, &mr->fid);
		memset(buf, AROUND, AT_MAX);
		KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
		KUNIT_EXPECT_NULL(test, memchr_inv(buf, AROUND, AT_MAX));
		tr_stop(test, thread);
		at_close(test, writes.at);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(mr_04_every_registered_byte_is_reached,
			 kinds_gen_params),
	KUNIT_CASE(mr_04_several_kvecs_are_one_range),
	KUNIT_CASE_PARAM(mr_04_nothing_else_is_reached, attacks_gen_params),
	KUNIT_CASE(mr_04_nothing_is_written_after_the_close),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_mr_attack",
	.test_cases = cases,
};

kunit_test_suite(suite);
