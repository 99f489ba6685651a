// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, AVSET: address vector sets. The tests find the members by inserting
 * or removing them; the order of members is tested by the suite kofi_fi_av_set.
 */

#include <rdma/fi_collective.h>

#include "traffic.h"

#define PEERS	20

static struct fid_av *av_of_peers(struct kunit *test, struct fid_domain *domain,
				  enum fi_av_type type, fi_addr_t *out)
{
	struct fi_av_attr attr = { .type = type };
	struct fid_av *av;

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(domain, &attr, &av, NULL));
	fx_defer_close(test, &av->fid);
	KUNIT_ASSERT_EQ(test, PEERS,
			fi_av_insertsym(av, "10.0.0.1", PEERS, "1", 1, out, 0,
					NULL));
	return av;
}

static int try_open(struct fid_av *av, struct fi_av_set_attr attr)
{
	struct fid_av_set *set;
	int ret = fi_av_set(av, &attr, &set, NULL);

	return ret ?: fi_close(&set->fid);
}

static struct fid_av_set *open_set(struct kunit *test, struct fid_av *av,
				   struct fi_av_set_attr attr)
{
	struct fid_av_set *set;
	int ret = fi_av_set(av, &attr, &set, NULL);

	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_av_set: %s", fi_strerror(ret));
	fx_defer_close(test, &set->fid);
	return set;
}

#define EMPTY	.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL

static struct fid_av_set *set_of(struct kunit *test, struct fid_av *av,
				 u32 members)
{
	struct fid_av_set *set = open_set(test, av, (struct fi_av_set_attr){
		EMPTY,
	});

	for (int i = 0; i < PEERS; i++)
		if (members & BIT(i))
			KUNIT_ASSERT_EQ(test, 0, fi_av_set_insert(set, i));
	return set;
}

/* Returns the members among the first addresses of the table, and removes them. */
static u32 members_of(struct kunit *test, struct fid_av_set *set)
{
	u32 members = 0;

	for (int i = 0; i < PEERS; i++) {
		int ret = fi_av_set_remove(set, i);

		if (!ret)
			members |= BIT(i);
		else
			KUNIT_EXPECT_EQ(test, -FI_EINVAL, ret);
	}
	return members;
}

static void avset_01_range_with_stride(struct kunit *test)
{
	struct {
		fi_addr_t start, end;
		u64 stride;
		size_t count;
		int ret;
		u32 members;
	} rows[] = {
		{ FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 0, 0, 0, 0 },
		{ FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 1, 5, 0, 0 },
		{ 0, PEERS - 1, 1, 0, 0, BIT(PEERS) - 1 },
		{ 3, 3, 1, 1, 0, BIT(3) },
		{ 2, 11, 3, 0, 0, BIT(2) | BIT(5) | BIT(8) | BIT(11) },
		{ 2, 10, 3, 3, 0, BIT(2) | BIT(5) | BIT(8) },
		{ 4, 9, U64_MAX, 0, 0, BIT(4) },
		/* Indices that are not in the vector are no members. */
		{ 18, 1000, 1, 0, 0, BIT(18) | BIT(19) },
		{ 500, U64_MAX - 1, 1, 0, 0, 0 },
		{ 0, FI_ADDR_NOTAVAIL, 1, 0, -FI_EINVAL },
		{ FI_ADDR_NOTAVAIL, 3, 1, 0, -FI_EINVAL },
		{ 0, 3, 0, 0, -FI_EINVAL },
		{ 3, 2, 1, 0, -FI_EINVAL },
		{ 0, 3, 1, 3, -FI_EINVAL },
	};
	struct fid_domain *domain = fx_open(test)->domain;
	fi_addr_t addrs[PEERS];
	struct fid_av *av = av_of_peers(test, domain, FI_AV_TABLE, addrs);

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fi_av_set_attr attr = {
			.start_addr = rows[i].start,
			.end_addr = rows[i].end,
			.stride = rows[i].stride,
			.count = rows[i].count,
		};

		if (rows[i].ret) {
			KUNIT_EXPECT_EQ_MSG(test, rows[i].ret,
					    try_open(av, attr), "row %d", i);
			continue;
		}
		KUNIT_EXPECT_EQ_MSG(test, rows[i].members,
				    members_of(test, open_set(test, av, attr)),
				    "row %d", i);
	}
	KUNIT_EXPECT_EQ(test, 0, fi_av_remove(av, addrs + 5, 1, 0));
	KUNIT_EXPECT_EQ(test, BIT(4) | BIT(6),
			members_of(test, open_set(test, av,
						  (struct fi_av_set_attr){
				.start_addr = 4, .end_addr = 6, .stride = 1,
			})));
}

static void avset_01_ranges_need_a_table(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	fi_addr_t out[PEERS];
	struct fid_av *av = av_of_peers(test, domain, FI_AV_MAP, out);
	struct fid_av_set *set;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, try_open(av, (struct fi_av_set_attr){
		.start_addr = out[0], .end_addr = out[3], .stride = 1,
	}));
	set = open_set(test, av, (struct fi_av_set_attr){ EMPTY });
	KUNIT_EXPECT_EQ(test, 0, fi_av_set_insert(set, out[7]));
	/* The address that takes the removed one's index later is not a member. */
	KUNIT_EXPECT_EQ(test, 0, fi_av_remove(av, &out[7], 1, 0));
	KUNIT_EXPECT_EQ(test, 1, fi_av_insertsvc(av, "10.9.9.9", "1", &out[8],
						 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_remove(set, out[8]));
	KUNIT_EXPECT_EQ(test, 0, fi_av_set_insert(set, out[8]));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_insert(set, out[7]));
	KUNIT_EXPECT_EQ(test, 0, fi_av_set_remove(set, out[7]));
}

static void avset_02_union_intersect_and_diff(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	fi_addr_t out[PEERS];
	struct fid_av *av = av_of_peers(test, domain, FI_AV_TABLE, out);
	static const u32 cases[] = { 0, 1, 0xf0f0f, 0x0ff0f, 0xaaaaa, 0xfffff };

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		for (int j = 0; j < ARRAY_SIZE(cases); j++) {
			u32 a = cases[i], b = cases[j];
			struct fid_av_set *other = set_of(test, av, b);
			struct fid_av_set *set;

			set = set_of(test, av, a);
			KUNIT_EXPECT_EQ(test, 0, fi_av_set_union(set, other));
			KUNIT_EXPECT_EQ(test, a | b, members_of(test, set));
			set = set_of(test, av, a);
			KUNIT_EXPECT_EQ(test, 0, fi_av_set_intersect(set,
								     other));
			KUNIT_EXPECT_EQ(test, a & b, members_of(test, set));
			set = set_of(test, av, a);
			KUNIT_EXPECT_EQ(test, 0, fi_av_set_diff(set, other));
			KUNIT_EXPECT_EQ(test, a & ~b, members_of(test, set));
			KUNIT_EXPECT_EQ(test, b, members_of(test, other));
		}
	}
}

static void avset_02_with_itself(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	fi_addr_t out[PEERS];
	struct fid_av *av = av_of_peers(test, domain, FI_AV_TABLE, out);
	struct fid_av_set *set = set_of(test, av, 0xf0);

	KUNIT_EXPECT_EQ(test, 0, fi_av_set_union(set, set));
	KUNIT_EXPECT_EQ(test, 0, fi_av_set_intersect(set, set));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_insert(set, 4));
	KUNIT_EXPECT_EQ(test, 0, fi_av_set_diff(set, set));
	KUNIT_EXPECT_EQ(test, 0, members_of(test, set));
}

static void avset_02_sets_of_other_avs_are_refused(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	fi_addr_t out[PEERS];
	struct fid_av *av = av_of_peers(test, domain, FI_AV_TABLE, out);
	struct fid_av *other = av_of_peers(test, domain, FI_AV_TABLE, out);
	struct fid_av_set *set = set_of(test, av, 3);
	struct fid_av_set *foreign = set_of(test, other, 6);

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_union(set, foreign));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_intersect(set, foreign));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_diff(set, foreign));
	KUNIT_EXPECT_EQ(test, 3, members_of(test, set));
}

static void avset_03_insert_and_remove_errors(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	fi_addr_t out[PEERS];
	struct fid_av *av = av_of_peers(test, domain, FI_AV_TABLE, out);
	struct fid_av_set *set, *more = set_of(test, av, 0xf00);

	set = open_set(test, av, (struct fi_av_set_attr){ EMPTY, .count = 3 });
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_remove(set, 1));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_insert(set, PEERS));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_insert(set,
							   FI_ADDR_NOTAVAIL));
	for (int i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, 0, fi_av_set_insert(set, i));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_insert(set, i));
	}
	KUNIT_EXPECT_EQ(test, -FI_ENOMEM, fi_av_set_insert(set, 3));
	KUNIT_EXPECT_EQ(test, 0, fi_av_set_remove(set, 1));
	KUNIT_EXPECT_EQ(test, -FI_ENOMEM, fi_av_set_union(set, more));
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(2), members_of(test, set));
}

static void avset_03_universe_takes_the_whole_av(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	struct fi_av_set_attr attr = { EMPTY, .flags = FI_UNIVERSE };
	fi_addr_t out[PEERS];
	struct fid_av *av = av_of_peers(test, domain, FI_AV_TABLE, out);
	struct fid_av *map = av_of_peers(test, domain, FI_AV_MAP, out);
	struct fid_av_set *set;

	KUNIT_EXPECT_EQ(test, 0, fi_av_remove(av, (fi_addr_t[]){ 3 }, 1, 0));
	KUNIT_EXPECT_EQ(test, (BIT(PEERS) - 1) & ~BIT(3),
			members_of(test, open_set(test, av, attr)));
	set = open_set(test, map, attr);
	for (int i = 0; i < PEERS; i++)
		KUNIT_EXPECT_EQ(test, 0, fi_av_set_remove(set, out[i]));
	attr.count = PEERS - 2;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, try_open(av, attr));
	attr.count = PEERS - 1;
	KUNIT_EXPECT_EQ(test, 0, try_open(av, attr));
	attr.start_addr = 0;
	attr.end_addr = 3;
	attr.stride = 1;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, try_open(av, attr));
}

static void avset_03_unsupported_attributes_are_refused(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	fi_addr_t out[PEERS];
	struct fid_av *av = av_of_peers(test, domain, FI_AV_TABLE, out);
	struct fi_av_set_attr attr = { EMPTY };
	struct fid_av_set *set;
	fi_addr_t addr;

	attr.flags = FI_READ;
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, try_open(av, attr));
	attr.flags = FI_PEER_AV;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, try_open(av, attr));
	/* Collectives are not supported yet. */
	attr.flags = FI_BARRIER_SET;
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, try_open(av, attr));
	attr.flags = 0;
	attr.comm_key_size = 8;
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, try_open(av, attr));
	attr.comm_key_size = 0;
	set = open_set(test, av, attr);
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_av_set_addr(set, &addr));
}

static void av_21_busy_while_a_set_is_open(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	fi_addr_t out[PEERS];
	struct fid_av *av = av_of_peers(test, domain, FI_AV_TABLE, out);
	struct fid_av_set *set = set_of(test, av, 1);
	size_t len = 0;

	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&av->fid));
	KUNIT_EXPECT_EQ(test, 0, fi_av_lookup(av, 0, NULL, &len));
	fx_close(test, &set->fid);
	fx_close(test, &av->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(avset_01_range_with_stride),
	KUNIT_CASE(avset_01_ranges_need_a_table),
	KUNIT_CASE(avset_02_union_intersect_and_diff),
	KUNIT_CASE(avset_02_with_itself),
	KUNIT_CASE(avset_02_sets_of_other_avs_are_refused),
	KUNIT_CASE(avset_03_insert_and_remove_errors),
	KUNIT_CASE(avset_03_universe_takes_the_whole_av),
	KUNIT_CASE(avset_03_unsupported_attributes_are_refused),
	KUNIT_CASE(av_21_busy_while_a_set_is_open),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_av_set",
	.test_cases = cases,
};

kunit_test_suite(suite);
