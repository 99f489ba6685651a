// SPDX-License-Identifier: GPL-2.0
/* Tests RDM 5 of CONTRACT: the order among many receives and many unexpected messages. */

#include "rdm.h"

#define POSTED		2000
#define UNEXPECTED	600
#define DEEPEST		16384
#define TAGS		16

/* A receive, or an unexpected message. */
struct entry {
	u64		tag, ignore;
	fi_addr_t	from;
	bool		is_over;
	u64		in;
};

struct order {
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b, from_a, from_other;
	u64		out;
	struct entry	*entries;
};

static struct order *order(struct kunit *test, size_t rx_size)
{
	struct rdm_opts opts = {
		.caps = FI_DIRECTED_RECV, .rx_size = rx_size, .cq_size = rx_size + 8,
	};
	struct order *o = kunit_kzalloc(test, sizeof(*o), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, o);
	o->entries = kunit_kcalloc(test, rx_size + 2, sizeof(*o->entries), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, o->entries);
	o->a = rdm_open(test, NULL);
	o->b = rdm_open(test, &opts);
	o->to_b = rdm_addr(test, o->a, o->b);
	o->from_a = rdm_addr(test, o->b, o->a);
	o->from_other = rdm_addr(test, o->b, rdm_open(test, NULL));
	return o;
}

/* Sends a message whose bytes are its number. */
static void send(struct kunit *test, struct order *o, u64 tag, u64 number)
{
	o->out = number;
	KUNIT_ASSERT_EQ(test, 0, fi_tsend(o->a->ep, &o->out, 8, NULL, o->to_b, tag, &o->out));
	rdm_expect(test, o->a, &o->out, NULL);
}

static void post(struct kunit *test, struct order *o, struct entry *receive)
{
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(o->b->ep, &receive->in, 8, NULL, receive->from,
					  receive->tag, receive->ignore, receive));
}

static void expect(struct kunit *test, struct order *o, struct entry *receive, u64 tag, u64 number)
{
	struct fi_cq_tagged_entry entry;

	rdm_expect(test, o->b, receive, &entry);
	KUNIT_ASSERT_EQ(test, tag, entry.tag);
	KUNIT_ASSERT_EQ(test, number, receive->in);
	receive->is_over = true;
}

static bool matches(struct order *o, const struct entry *receive, u64 tag)
{
	return !((receive->tag ^ tag) & ~receive->ignore) && receive->from != o->from_other;
}

/* Returns the first receive for a message of a. */
static struct entry *receive_for(struct order *o, u64 tag)
{
	for (struct entry *entry = o->entries; entry < o->entries + POSTED; entry++)
		if (!entry->is_over && matches(o, entry, tag))
			return entry;
	return NULL;
}

static void rdm_05_many_posted_receives_keep_their_order(struct kunit *test)
{
	struct order *o = order(test, POSTED);
	const struct { u64 ignore; fi_addr_t from; } kinds[] = {
		{ 0, FI_ADDR_UNSPEC }, { 3, FI_ADDR_UNSPEC }, { 0, o->from_a },
		{ 0xf, o->from_a }, { 0, o->from_other },
	};
	int over = 0;

	for (int i = 0; i < POSTED; i++) {
		struct entry *receive = &o->entries[i];

		receive->tag = i / ARRAY_SIZE(kinds) % TAGS;
		receive->ignore = kinds[i % ARRAY_SIZE(kinds)].ignore;
		receive->from = kinds[i % ARRAY_SIZE(kinds)].from;
		post(test, o, receive);
	}
	for (int i = 0; i < POSTED; i++) {
		u64 tag = i * 7 % TAGS;
		struct entry *receive = receive_for(o, tag);

		if (!receive)
			continue;
		send(test, o, tag, i);
		expect(test, o, receive, tag, i);
		over++;
	}
	KUNIT_EXPECT_GE(test, over, POSTED / 2);
	KUNIT_EXPECT_EQ(test, over, fi_rx_size_left(o->b->ep));
}

static void rdm_05_receives_are_cancelled_among_many(struct kunit *test)
{
	struct order *o = order(test, POSTED);
	struct fi_cq_err_entry error;

	for (int i = 0; i < POSTED; i++) {
		o->entries[i].from = FI_ADDR_UNSPEC;
		post(test, o, &o->entries[i]);
	}
	/* Every receive but each tenth, from the middle to both ends. */
	for (int i = 0; i < POSTED; i++) {
		int at = i % 2 ? (POSTED + i - 1) / 2 : (POSTED - i) / 2 - 1;
		struct entry *receive = &o->entries[at];

		if (at % 10 == 0)
			continue;
		error = (struct fi_cq_err_entry){};
		KUNIT_ASSERT_EQ(test, 0, fi_cancel(&o->b->ep->fid, receive));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, o->b->cq, &error));
		KUNIT_ASSERT_PTR_EQ(test, (void *)receive, error.op_context);
		KUNIT_ASSERT_EQ(test, FI_ECANCELED, error.err);
		KUNIT_ASSERT_EQ(test, -FI_ENOENT, fi_cancel(&o->b->ep->fid, receive));
	}
	for (int i = 0; i < POSTED; i += 10) {
		send(test, o, 0, i);
		expect(test, o, &o->entries[i], 0, i);
	}
	KUNIT_EXPECT_EQ(test, POSTED, fi_rx_size_left(o->b->ep));
}

/* The largest context: all receives have tags of their own. */
static void rdm_05_the_deepest_context_keeps_its_order(struct kunit *test)
{
	struct order *o = order(test, DEEPEST);
	struct entry *last = &o->entries[DEEPEST];

	for (int i = 0; i < DEEPEST; i++) {
		o->entries[i].tag = i / 2;
		o->entries[i].from = FI_ADDR_UNSPEC;
		post(test, o, &o->entries[i]);
	}
	KUNIT_EXPECT_EQ(test, 0, fi_rx_size_left(o->b->ep));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_trecv(o->b->ep, &last->in, 8, NULL, FI_ADDR_UNSPEC,
						   0, 0, last));
	for (int i = DEEPEST / 2 - 1; i >= 0; i -= 31) {
		for (int each = 0; each < 2; each++) {
			send(test, o, i, each);
			expect(test, o, &o->entries[2 * i + each], i, each);
		}
	}
}

static void info_07_more_than_the_deepest_context_is_no_match(struct kunit *test)
{
	struct fi_info *hints = rdm_hints(test);
	struct fi_info *info = NULL;

	hints->rx_attr->size = DEEPEST + 1;
	KUNIT_EXPECT_EQ(test, -FI_ENODATA, fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
						      hints, &info));
	KUNIT_EXPECT_NULL(test, info);
}

static u64 tag_of(int message)
{
	return (u64)message << 8 | message % 7;
}

static void rdm_05_searching_receives_keep_their_order(struct kunit *test)
{
	struct order *o = order(test, UNEXPECTED);
	static const u64 masks[] = { 0xff, ~0xffull, 0, 0xf00, 0x3ff, ~0ull };
	struct entry *receive = o->entries + UNEXPECTED, *next = receive + 1;
	int over = 0;

	for (int i = 0; i < UNEXPECTED; i++)
		send(test, o, tag_of(i), i);
	rdm_await_unexpected(test, o->b, tag_of(UNEXPECTED - 1));
	for (int i = 0; i < UNEXPECTED; i++) {
		int first;

		receive->tag = tag_of(i * 389 % UNEXPECTED);
		receive->ignore = masks[i % ARRAY_SIZE(masks)];
		receive->from = i & 8 ? o->from_a : FI_ADDR_UNSPEC;
		for (first = 0; first < UNEXPECTED; first++)
			if (!o->entries[first].is_over && matches(o, receive, tag_of(first)))
				break;
		if (first == UNEXPECTED)
			continue;
		post(test, o, receive);
		expect(test, o, receive, tag_of(first), first);
		o->entries[first].is_over = true;
		over++;
	}
	KUNIT_EXPECT_GE(test, over, UNEXPECTED / 2);
	/* A receive that searched without success matches before later receives. */
	*receive = (struct entry){ .tag = 1ull << 40, .ignore = 0xff, .from = FI_ADDR_UNSPEC };
	*next = (struct entry){ .tag = 1ull << 40 | 1, .from = FI_ADDR_UNSPEC };
	post(test, o, receive);
	post(test, o, next);
	send(test, o, next->tag, 1);
	expect(test, o, receive, next->tag, 1);
	send(test, o, next->tag, 2);
	expect(test, o, next, next->tag, 2);
}

static struct kunit_case rdm_order_cases[] = {
	KUNIT_CASE(rdm_05_many_posted_receives_keep_their_order),
	KUNIT_CASE(rdm_05_receives_are_cancelled_among_many),
	KUNIT_CASE(rdm_05_searching_receives_keep_their_order),
	KUNIT_CASE(rdm_05_the_deepest_context_keeps_its_order),
	KUNIT_CASE(info_07_more_than_the_deepest_context_is_no_match),
	{}
};

static struct kunit_suite rdm_order_suite = {
	.name = "kofi_rdm_order",
	.test_cases = rdm_order_cases,
};

kunit_test_suite(rdm_order_suite);
