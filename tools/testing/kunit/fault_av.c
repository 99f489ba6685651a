// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CLOSE 2, AV 10, AVSET 3: address vectors whose allocations fail;
 * see fault.c.
 */

#include <kunit/test-bug.h>

#include <rdma/fi_collective.h>

#include "fault.h"

/* More addresses than the entries that are allocated at a time. */
#define PEERS	300

static int call_av_open(struct fault *fault)
{
	struct fi_av_attr attr = { .count = 1000 };
	struct fid_av *av;

	return FAULT_MADE(fault, fi_av_open(fault->fx->domain, &attr, &av,
					    NULL), av);
}

static int call_av_open_named(struct fault *fault)
{
	struct fi_av_attr attr = { .name = "faults", .type = FI_AV_MAP };
	struct fid_av *av;

	return FAULT_MADE(fault, fi_av_open(fault->fx->domain, &attr, &av,
					    NULL), av);
}

static void close_02_address_vectors(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_av_open()", NULL, call_av_open },
		{ "fi_av_open(name)", NULL, call_av_open_named },
	};
	struct fault *fault = fault_new(test);

	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
}

static int insert_peers(struct fid_av *av, fi_addr_t *out, u64 flags)
{
	return fi_av_insertsym(av, "10.0.0.1", PEERS, "7471", 1, out, flags,
			       NULL);
}

/* Returns true if the vector has exactly the addresses that out reports, count in all. */
static bool matches(struct fid_av *av, const fi_addr_t *out, int count)
{
	int found = 0;

	for (int i = 0; i < PEERS; i++) {
		size_t len = 0;
		int ret = fi_av_lookup(av, i, NULL, &len);

		if (out[i] == FI_ADDR_NOTAVAIL) {
			if (ret != -FI_EINVAL)
				return false;
			continue;
		}
		if (ret || out[i] != i)
			return false;
		found++;
	}
	return found == count;
}

static void prepare_av(struct kunit *test, struct fault *fault)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	fi_addr_t *ids = fault->buf;

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(fault->fx->domain, &attr,
					    &fault->av, NULL));
	for (int i = 0; i < PEERS; i++)
		ids[i] = i;
}

static int call_av_insert(struct fault *fault)
{
	int ret = insert_peers(fault->av, fault->buf, FI_AV_USER_ID);

	if (!matches(fault->av, fault->buf, ret))
		return 1;
	return ret == PEERS ? 0 : -FI_ENOMEM;
}

/* Inserts again: an address that failed gets the index that it would have had. */
static void close_av(struct fault *fault)
{
	struct kunit *test = kunit_get_current_test();

	KUNIT_EXPECT_EQ(test, PEERS, insert_peers(fault->av, fault->buf, 0));
	KUNIT_EXPECT_TRUE(test, matches(fault->av, fault->buf, PEERS));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&fault->av->fid));
}

static void av_10_insert_without_memory_fails_the_rest(struct kunit *test)
{
	static const struct step step = {
		"fi_av_insertsym()", prepare_av, call_av_insert,
		close_av,
	};

	fault_fail_each(test, fault_new(test), &step);
}

static void prepare_events(struct kunit *test, struct fault *fault)
{
	struct fi_av_attr attr = { .flags = FI_EVENT };

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(fault->fx->domain, &attr,
					    &fault->av, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_av_bind(fault->av, &fault->fx->eq->fid, 0));
}

/* Starts an insertion. */
static int call_av_insert_event(struct fault *fault)
{
	return insert_peers(fault->av, fault->buf, 0);
}

/*
 * Closes the vector, which ends the insertion: its events account for each
 * address, or there are none.
 */
static void close_events(struct fault *fault)
{
	struct kunit *test = kunit_get_current_test();
	struct fi_eq_err_entry error = {};
	struct fi_eq_entry entry;
	int failed = 0;
	u32 event;

	KUNIT_EXPECT_EQ(test, 0, fi_close(&fault->av->fid));
	while (fi_eq_readerr(fault->fx->eq, &error, 0) > 0)
		failed++;
	if (fi_eq_read(fault->fx->eq, &event, &entry, sizeof(entry), 0) > 0)
		KUNIT_EXPECT_EQ(test, PEERS, failed + entry.data);
	else
		KUNIT_EXPECT_EQ(test, 0, failed);
}

static void av_10_event_insert_without_memory_starts_or_fails(struct kunit *test)
{
	static const struct step step = {
		"fi_av_insertsym(FI_EVENT)", prepare_events,
		call_av_insert_event, close_events,
	};

	fault_fail_each(test, fault_new(test), &step);
}

static void prepare_set(struct kunit *test, struct fault *fault)
{
	prepare_av(test, fault);
	KUNIT_ASSERT_EQ(test, PEERS, insert_peers(fault->av, fault->buf, 0));
}

static int call_av_set(struct fault *fault)
{
	struct fi_av_set_attr attr = {
		.start_addr = FI_ADDR_NOTAVAIL,
		.end_addr = FI_ADDR_NOTAVAIL,
		.flags = FI_UNIVERSE,
	};
	struct fid_av_set *set, *other;
	int ret = fi_av_set(fault->av, &attr, &set, NULL);

	if (ret)
		return ret;
	attr.flags = 0;
	ret = fi_av_set(fault->av, &attr, &other, NULL);
	if (!ret) {
		ret = fi_av_set_union(other, set);
		/* The union adds all members or none. */
		if (!ret)
			ret = fi_av_set_remove(other, PEERS - 1);
		else if (!fi_av_set_remove(other, 0))
			ret = 1;
		fi_close(&other->fid);
	}
	fi_close(&set->fid);
	return ret;
}

static void close_only(struct fault *fault)
{
	KUNIT_EXPECT_EQ(kunit_get_current_test(), 0, fi_close(&fault->av->fid));
}

static void avset_03_union_without_memory_changes_nothing(struct kunit *test)
{
	static const struct step step = {
		"fi_av_set_union()", prepare_set, call_av_set, close_only,
	};

	fault_fail_each(test, fault_new(test), &step);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(close_02_address_vectors),
	KUNIT_CASE_SLOW(av_10_insert_without_memory_fails_the_rest),
	KUNIT_CASE_SLOW(av_10_event_insert_without_memory_starts_or_fails),
	KUNIT_CASE_SLOW(avset_03_union_without_memory_changes_nothing),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_fault_av",
	.init = fault_init,
	.test_cases = cases,
};

kunit_test_suite(suite);
