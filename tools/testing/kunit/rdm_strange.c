// SPDX-License-Identifier: GPL-2.0
/* What a datagram endpoint makes of peers that connect strangely, or say strange things. */

#include <linux/delay.h>
#include <linux/mm.h>

#include <rdma/fi_rma.h>

#include "rdm.h"
#include "rdm_raw.h"

/* Nobody listens there. */
#define PORT		1
#define LONG		(2 * RAW_EAGER)
/* How long something is waited for that may not come. */
#define MOMENT_MS	300

static u8 *await_packet(struct kunit *test, struct raw *raw, unsigned int ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms);
	u8 *packet;

	while (!(packet = raw_packet(raw)) && !raw->is_gone && time_before(jiffies, end))
		usleep_range(50, 100);
	return packet;
}

static void say(struct kunit *test, struct raw *raw, u8 *packet, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, len));
}

/* Until all that was said has arrived. */
static void be_heard(struct kunit *test, struct raw *raw)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	for (raw_look(raw); raw->busy; raw_look(raw)) {
		KUNIT_ASSERT_TRUE(test, time_before(jiffies, end));
		KUNIT_ASSERT_FALSE_MSG(test, raw->is_gone, "the connection has ended");
		usleep_range(50, 100);
	}
}

static void meet(struct kunit *test, struct raw *raw, struct kofi_rdm *rdm, u16 port, u32 instance)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct raw_hello hello = raw_hello(raw, port, instance);

	/* It may not have noticed yet that the last one has ended. */
	while (raw_connect(test, raw, &rdm->name, &hello, sizeof(hello))) {
		KUNIT_ASSERT_TRUE(test, time_before(jiffies, end));
		usleep_range(1000, 2000);
	}
}

/* A message in two segments. */
static void say_long(struct kunit *test, struct raw *raw, u64 id, u32 seed)
{
	for (u32 nth = 0; nth < LONG / RAW_EAGER; nth++) {
		u8 *packet = await_packet(test, raw, FX_WAIT_MS);
		struct raw_header *header;

		KUNIT_ASSERT_NOT_NULL(test, packet);
		header = raw_begin(raw, packet, RAW_SEGMENT);
		header->len = LONG;
		header->id = id;
		header->segment = nth;
		header->segment_len = RAW_EAGER;
		header->extra = nth ? RAW_LAST : RAW_FIRST;
		tr_fill(packet + RAW_HEADER, RAW_EAGER, seed + nth);
		say(test, raw, packet, RAW_MOST);
	}
	be_heard(test, raw);
}

/* Other implementations use a name again as soon as their last packet has gone. */
static void rdm_07_a_name_is_free_when_its_message_is_whole(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	u8 *in = tr_vbuffer(test, LONG);
	struct kofi_rdm *rdm = rdm_open(test, NULL);

	meet(test, raw, rdm, PORT, 1);
	for (u32 nth = 0; nth < 6; nth++) {
		if (nth == 3) {
			raw_leave(test, raw);
			meet(test, raw, rdm, PORT, 2);
		}
		say_long(test, raw, 5, 10 * nth);
	}
	for (u32 nth = 0; nth < 6; nth++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, in, LONG, in));
		rdm_expect(test, rdm, in, NULL);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, RAW_EAGER, 10 * nth));
		KUNIT_EXPECT_TRUE(test, tr_intact(in + RAW_EAGER, RAW_EAGER, 10 * nth + 1));
	}
}

/* How many messages are there that nobody has received. */
static int receive_all(struct kunit *test, struct kofi_rdm *rdm, u8 *in)
{
	struct fi_cq_tagged_entry entry;
	int count = 0;

	for (;; count++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, in, RAW_EAGER, in));
		if (fi_cq_sread(rdm->cq, &entry, 1, NULL, MOMENT_MS) != 1)
			break;
	}
	KUNIT_ASSERT_EQ(test, 0, fi_cancel(&rdm->ep->fid, in));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, rdm->cq, &(struct fi_cq_err_entry){}));
	return count;
}

#define VISITS	8

/* What a peer leaves when it goes stays, but it cannot come again and again to leave more. */
static void rdm_06_who_comes_again_does_not_leave_more(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	u8 *in = tr_vbuffer(test, RAW_EAGER), *packet;
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	int sent = 0, there;

	for (u32 visit = 1; visit <= VISITS; visit++) {
		meet(test, raw, rdm, PORT, visit);
		while ((packet = await_packet(test, raw, MOMENT_MS))) {
			raw_begin(raw, packet, RAW_WHOLE)->len = RAW_EAGER;
			say(test, raw, packet, RAW_MOST);
			sent++;
		}
		raw_leave(test, raw);
	}
	there = receive_all(test, rdm, in);
	kunit_info(test, "%d sent, %d there\n", sent, there);
	KUNIT_EXPECT_GE(test, there, SZ_1M / (RAW_EAGER + SZ_1K));
	KUNIT_EXPECT_LE(test, there, 3 * SZ_1M / RAW_EAGER);
	rdm_exchange(test, rdm, rdm_know(test, rdm, rdm), rdm);
}

/* Data of a write are for endpoints that lend memory. */
static void rdm_nobody_is_told_of_writes_that_nobody_expects(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	struct fi_cq_tagged_entry entry;

	if (raw->is_merciless)
		kunit_skip(test, "iWARP has no data with a write");
	meet(test, raw, rdm, PORT, 1);
	KUNIT_ASSERT_EQ(test, 0, fi_writedata(raw->ep, raw->memory, 0, NULL, 77, 0, 0, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_sread(rdm->cq, &entry, 1, NULL, MOMENT_MS));
	rdm_exchange(test, other, rdm_know(test, other, rdm), rdm);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(rdm_07_a_name_is_free_when_its_message_is_whole),
	KUNIT_CASE_SLOW(rdm_06_who_comes_again_does_not_leave_more),
	KUNIT_CASE(rdm_nobody_is_told_of_writes_that_nobody_expects),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_strange",
	.test_cases = cases,
};

kunit_test_suite(suite);
