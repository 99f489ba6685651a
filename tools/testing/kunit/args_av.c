// SPDX-License-Identifier: GPL-2.0
/*
 * Bad arguments to the calls of address vectors and their sets.
 */

#include <linux/in.h>

#include "args.h"

static void args_av_open_and_bind(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_domain *domain = objs->pair->domain;
	struct fid_av *av = objs->av, *other;
	struct fi_av_attr attr = {};

	REFUSE_OPEN(other, fi_av_open(domain, NULL, &other, NULL));
	REFUSE(fi_av_open(domain, &attr, NULL, NULL));
	attr.type = ~0U;
	REFUSE_OPEN(other, fi_av_open(domain, &attr, &other, NULL));
	attr.type = 0;
	attr.flags = ~0ULL;
	ANSWER_OPEN(-FI_EBADFLAGS, other,
		    fi_av_open(domain, &attr, &other, NULL));
	attr.flags = 0;
	attr.rx_ctx_bits = INT_MAX;
	REFUSE_OPEN(other, fi_av_open(domain, &attr, &other, NULL));
	attr.rx_ctx_bits = INT_MIN;
	REFUSE_OPEN(other, fi_av_open(domain, &attr, &other, NULL));

	for (int i = 0; i < ARGS_CLASSES; i++)
		REFUSE(fi_av_bind(av, objs->fid[i], ~0ULL));
	REFUSE(fi_av_bind(av, NULL, 0));
}

static void args_av_sets(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_av *av = objs->av;
	struct fid_av_set *set = objs->set, *other;
	struct fi_av_set_attr attr = { .stride = 1 };
	fi_addr_t addr;

	REFUSE_OPEN(other, fi_av_set(av, NULL, &other, NULL));
	REFUSE(fi_av_set(av, &attr, NULL, NULL));
	attr.flags = ~0ULL;
	ANSWER_OPEN(-FI_EBADFLAGS, other, fi_av_set(av, &attr, &other, NULL));
	attr.flags = 0;
	attr.comm_key_size = SIZE_MAX;
	REFUSE_OPEN(other, fi_av_set(av, &attr, &other, NULL));
	attr.comm_key_size = 0;
	attr.end_addr = FI_ADDR_NOTAVAIL - 1;
	attr.stride = U64_MAX;
	ANSWER_OPEN(0, other, fi_av_set(av, &attr, &other, NULL));

	ANSWER(-FI_EINVAL, fi_av_set_union(set, NULL));
	ANSWER(-FI_EINVAL, fi_av_set_intersect(set, NULL));
	ANSWER(-FI_EINVAL, fi_av_set_diff(set, NULL));
	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fid_av_set *wrong = (void *)objs->fid[i];

		if (wrong == set)
			continue;
		ANSWER(-FI_EINVAL, fi_av_set_union(set, wrong));
		ANSWER(-FI_EINVAL, fi_av_set_intersect(set, wrong));
		ANSWER(-FI_EINVAL, fi_av_set_diff(set, wrong));
	}
	for (int bit = 0; bit < 64; bit++) {
		ANSWER(-FI_EINVAL, fi_av_set_insert(set, 1ULL << bit));
		ANSWER(-FI_EINVAL, fi_av_set_remove(set, 1ULL << bit));
	}
	REFUSE(fi_av_set_addr(set, NULL));
	REFUSE(fi_av_set_addr(set, &addr));
}

static void args_av_insertions(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_av *av = objs->av;
	struct sockaddr_in addr = { .sin_family = AF_INET };
	fi_addr_t out;

	ANSWER(-FI_EINVAL, fi_av_insert(av, NULL, 1, &out, 0, NULL));
	ANSWER(-FI_EBADFLAGS, fi_av_insert(av, &addr, 1, &out, ~0ULL, NULL));
	ANSWER(-FI_EINVAL, fi_av_insert(av, &addr, 1, &out, FI_SYNC_ERR, NULL));
	/* Counts that a return value of type int cannot hold. */
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++)
		ANSWER(-FI_EINVAL, fi_av_insert(av, &addr, args_lengths[i],
						&out, 0, NULL));
	ANSWER(0, fi_av_insert(av, &addr, 1, &out, 0, NULL));
	addr.sin_family = 0x7777;
	ANSWER(0, fi_av_insert(av, &addr, 1, &out, 0, NULL));

	ANSWER(-FI_EINVAL, fi_av_insertsvc(av, NULL, NULL, &out, 0, NULL));
	ANSWER(-FI_EINVAL, fi_av_insertsvc(av, "", "", &out, 0, NULL));
	ANSWER(-FI_EINVAL, fi_av_insertsvc(av, "\xff", "1", &out, 0, NULL));
	ANSWER(-FI_EBADFLAGS, fi_av_insertsvc(av, "10.0.0.1", "1", &out, ~0ULL,
					      NULL));
	ANSWER(-FI_EINVAL, fi_av_insertsym(av, NULL, 1, NULL, 1, &out, 0,
					   NULL));
	ANSWER(-FI_EBADFLAGS, fi_av_insertsym(av, "10.0.0.1", 1, "1", 1, &out,
					      ~0ULL, NULL));
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++) {
		ANSWER(-FI_EINVAL, fi_av_insertsym(av, "10.0.0.1",
						   args_lengths[i], "1", 3,
						   NULL, 0, NULL));
		ANSWER(-FI_EINVAL, fi_av_insertsym(av, "10.0.0.1", 3, "1",
						   args_lengths[i], NULL, 0,
						   NULL));
	}
}

/* INT_MAX addresses, the most that a return value can hold, are more than memory holds. */
static void args_av_asynchronous_insertions(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_av_attr attr = { .flags = FI_EVENT };
	struct fid_av *av;

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(fx->domain, &attr, &av, NULL));
	fx_defer_close(test, &av->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_av_bind(av, &fx->eq->fid, 0));
	ANSWER(-FI_ENOMEM, fi_av_insertsym(av, "10.0.0.1", INT_MAX, "1", 1,
					   NULL, 0, NULL));
	ANSWER(-FI_EINVAL, fi_av_insert(av, NULL, 1, NULL, 0, NULL));
	ANSWER(-FI_EBADFLAGS, fi_av_insert(av, NULL, 0, NULL, ~0ULL, NULL));
}

static void args_av_lookups(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_av *av = objs->av;
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(1),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	fi_addr_t out = 5;
	size_t len = 0;
	char buf[8];

	ANSWER(1, fi_av_insert(av, &addr, 1, &out, 0, NULL));
	ANSWER(-FI_EINVAL, fi_av_remove(av, NULL, 1, 0));
	ANSWER(-FI_EBADFLAGS, fi_av_remove(av, &out, 1, ~0ULL));
	ANSWER(-FI_EINVAL, fi_av_lookup(av, out, &addr, NULL));
	len = 4;
	ANSWER(-FI_EINVAL, fi_av_lookup(av, out, NULL, &len));
	for (int bit = 0; bit < 64; bit++)
		ANSWER(-FI_EINVAL, fi_av_lookup(av, out ^ 1ULL << bit, &addr,
						&len));
	len = SIZE_MAX;
	ANSWER(0, fi_av_lookup(av, out, &addr, &len));
	KUNIT_EXPECT_EQ(test, sizeof(addr), len);

	KUNIT_EXPECT_NULL(test, fi_av_straddr(av, &addr, buf, NULL));
	KUNIT_EXPECT_NULL(test, fi_av_straddr(av, &addr, NULL, &len));
	KUNIT_EXPECT_NULL(test, fi_av_straddr(av, NULL, buf, &len));
	KUNIT_EXPECT_EQ(test, 3, fi_rx_addr(3, INT_MAX, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(args_av_open_and_bind),
	KUNIT_CASE(args_av_sets),
	KUNIT_CASE(args_av_insertions),
	KUNIT_CASE(args_av_asynchronous_insertions),
	KUNIT_CASE(args_av_lookups),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_args_av",
	.test_cases = cases,
};

kunit_test_suite(suite);
