// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, AV 18: address vectors shared by name.
 */

#include "rdm.h"
#include "traffic.h"

/* Opens a vector; closed with the test. */
static struct fid_av *open_shared(struct kunit *test, struct fid_domain *domain,
				  struct fi_av_attr attr)
{
	struct fid_av *av;

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(domain, &attr, &av, NULL));
	fx_defer_close(test, &av->fid);
	return av;
}

static int try_open(struct fid_domain *domain, struct fi_av_attr attr)
{
	struct fid_av *av;
	int ret = fi_av_open(domain, &attr, &av, NULL);

	return ret ?: fi_close(&av->fid);
}

static int insert(struct fid_av *av, const char *node, fi_addr_t *out)
{
	return fi_av_insertsvc(av, node, "7471", out, 0, NULL);
}

static bool is_there(struct fid_av *av, fi_addr_t addr)
{
	size_t len = 0;

	return !fi_av_lookup(av, addr, NULL, &len);
}

static void av_18_one_name_gives_one_fi_addr_per_peer(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_domain *domain = fx_domain(test, fx->fabric, fx->info);

	for (int type = FI_AV_MAP; type <= FI_AV_TABLE; type++) {
		struct fi_av_attr attr = { .type = type, .name = "peers" };
		struct fid_av *av[2] = {
			open_shared(test, fx->domain, attr),
			open_shared(test, domain, attr),
		};
		fi_addr_t out[2], other;

		KUNIT_EXPECT_EQ(test, 1, insert(av[0], "10.0.0.1", &out[0]));
		KUNIT_EXPECT_TRUE(test, is_there(av[1], out[0]));
		KUNIT_EXPECT_EQ(test, 1, insert(av[1], "10.0.0.2", &other));
		KUNIT_EXPECT_EQ(test, 1, insert(av[1], "10.0.0.1", &out[1]));
		KUNIT_EXPECT_EQ(test, out[0], out[1]);
		KUNIT_EXPECT_NE(test, out[0], other);
		/* The address was inserted twice, once through each vector. */
		KUNIT_EXPECT_EQ(test, 0, fi_av_remove(av[0], out, 1, 0));
		KUNIT_EXPECT_TRUE(test, is_there(av[1], out[0]));
		KUNIT_EXPECT_EQ(test, 0, fi_av_remove(av[0], out, 1, 0));
		KUNIT_EXPECT_FALSE(test, is_there(av[1], out[0]));
		fx_close(test, &av[0]->fid);
		fx_close(test, &av[1]->fid);
	}
}

static void av_18_other_names_and_formats_are_not_shared(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_av *av[] = {
		open_shared(test, fx->domain, (struct fi_av_attr){ .name = "one" }),
		open_shared(test, fx->domain, (struct fi_av_attr){ .name = "oneself" }),
		open_shared(test, fx->domain, (struct fi_av_attr){}),
		NULL,
	};
	fi_addr_t out;

	/* A name is shared only among vectors of one address format. */
	fx->info->addr_format = FI_ADDR_STR;
	av[3] = open_shared(test, fx_domain(test, fx->fabric, fx->info),
			    (struct fi_av_attr){ .name = "one" });
	KUNIT_EXPECT_EQ(test, 1, insert(av[0], "10.0.0.1", &out));
	for (int i = 1; i < ARRAY_SIZE(av); i++)
		KUNIT_EXPECT_FALSE(test, is_there(av[i], out));
}

static void av_18_fi_read_needs_the_name_and_refuses_changes(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	struct fi_av_attr attr = { .name = "peers", .flags = FI_READ };
	struct fid_av *av, *reader;
	fi_addr_t out, none = 77;
	int err = 77;

	KUNIT_EXPECT_EQ(test, -FI_ENOENT, try_open(domain, attr));
	av = open_shared(test, domain, (struct fi_av_attr){ .name = "peers" });
	reader = open_shared(test, domain, attr);
	KUNIT_EXPECT_EQ(test, 1, insert(av, "10.0.0.1", &out));
	KUNIT_EXPECT_TRUE(test, is_there(reader, out));
	KUNIT_EXPECT_EQ(test, -FI_EACCES, insert(reader, "10.0.0.2", &none));
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, none);
	none = 77;
	KUNIT_EXPECT_EQ(test, -FI_EACCES, fi_av_insertsvc(reader, "10.0.0.2", "1", &none,
							  FI_SYNC_ERR, &err));
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, none);
	KUNIT_EXPECT_EQ(test, FI_EACCES, err);
	KUNIT_EXPECT_EQ(test, -FI_EACCES, fi_av_remove(reader, &out, 1, 0));
	KUNIT_EXPECT_TRUE(test, is_there(av, out));
}

static void av_18_type_and_context_bits_must_match(struct kunit *test)
{
	struct fid_domain *domain = rdm_make(test, NULL)->domain;
	struct fi_av_attr attr = { .name = "peers" };
	void *base;

	open_shared(test, domain, (struct fi_av_attr){
		.type = FI_AV_MAP, .name = "peers", .rx_ctx_bits = 2,
	});
	attr.type = FI_AV_TABLE;
	attr.rx_ctx_bits = 2;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, try_open(domain, attr));
	attr.type = FI_AV_MAP;
	attr.rx_ctx_bits = 3;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, try_open(domain, attr));
	/* FI_AV_UNSPEC selects the existing vector's type, which is returned in attr. */
	attr.rx_ctx_bits = 2;
	attr.type = FI_AV_UNSPEC;
	for (int i = 0; i < 2; i++) {
		struct fid_av *av;

		KUNIT_ASSERT_EQ(test, 0, fi_av_open(domain, &attr, &av, NULL));
		KUNIT_EXPECT_EQ(test, 0, fi_close(&av->fid));
		KUNIT_EXPECT_EQ(test, FI_AV_MAP, attr.type);
		KUNIT_EXPECT_NOT_NULL(test, attr.map_addr);
		if (i)
			KUNIT_EXPECT_PTR_EQ(test, base, attr.map_addr);
		base = attr.map_addr;
		attr.map_addr = NULL;
	}
}

static void av_18_the_shared_av_outlives_its_creator(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_domain *other = fx_domain(test, fx->fabric, fx->info);
	struct fi_av_attr attr = { .name = "peers" };
	struct fid_av *first = open_shared(test, fx->domain, attr);
	struct fid_av *second = open_shared(test, other, attr);
	fi_addr_t out, again;

	KUNIT_EXPECT_EQ(test, 1, insert(first, "10.0.0.1", &out));
	fx_close(test, &first->fid);
	fx_close(test, &fx->cq->fid);
	fx_close(test, &fx->domain->fid);
	KUNIT_EXPECT_TRUE(test, is_there(second, out));
	KUNIT_EXPECT_EQ(test, 1, insert(second, "10.0.0.2", &again));
	/* Closing the last vector destroys the shared one. */
	fx_close(test, &second->fid);
	attr.flags = FI_READ;
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, try_open(other, attr));
	attr.flags = 0;
	first = open_shared(test, other, attr);
	KUNIT_EXPECT_FALSE(test, is_there(first, out));
}

#define LONGEST	255

static void av_18_name_lengths_are_limited(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	char *name = (void *)tr_buffer(test, 5000);
	struct fid_av **av = (void *)tr_buffer(test, LONGEST * sizeof(*av));

	for (int len = 0; len < 300; len++) {
		struct fi_av_attr attr = { .name = name };

		memset(name, 'n', len);
		name[len] = 0;
		if (len == 0 || len > LONGEST) {
			KUNIT_EXPECT_EQ(test, -FI_EINVAL, try_open(domain,
								   attr));
			continue;
		}
		av[len - 1] = open_shared(test, domain, attr);
		KUNIT_EXPECT_EQ(test, 1, insert(av[len - 1], "10.0.0.1", NULL));
	}
	memset(name, 'n', 4999);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			try_open(domain, (struct fi_av_attr){ .name = name }));
	/* Each vector has only the address inserted under its own name. */
	for (int len = 1; len <= LONGEST; len++) {
		KUNIT_EXPECT_FALSE(test, is_there(av[len - 1], 1));
		fx_close(test, &av[len - 1]->fid);
	}
}

static void av_18_user_ids_are_refused(struct kunit *test)
{
	struct fid_av *av = open_shared(test, fx_open(test)->domain,
					(struct fi_av_attr){ .name = "peers" });
	fi_addr_t out = 5;

	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_av_insertsvc(av, "10.0.0.1", "1", &out,
					FI_AV_USER_ID, NULL));
	KUNIT_EXPECT_EQ(test, 5, out);
}

#define OPENINGS	500

static int open_and_close(struct tr_thread *thread)
{
	struct fid_domain *domain = thread->arg;

	for (int i = 0; i < OPENINGS && !thread->result; i++)
		thread->result = try_open(domain, (struct fi_av_attr){
			.name = i % 3 ? "peers" : "others",
			.type = FI_AV_MAP,
		});
	return 0;
}

static void av_18_concurrent_open_and_close(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct tr_thread *thread[2];

	for (int i = 0; i < 2; i++)
		thread[i] = tr_start(test, i % num_online_cpus(),
				     open_and_close, fx->domain);
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join(test, thread[i]));
		KUNIT_EXPECT_EQ(test, 0, thread[i]->result);
	}
	KUNIT_EXPECT_EQ(test, -FI_ENOENT,
			try_open(fx->domain, (struct fi_av_attr){
				.name = "peers", .flags = FI_READ,
			}));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(av_18_one_name_gives_one_fi_addr_per_peer),
	KUNIT_CASE(av_18_other_names_and_formats_are_not_shared),
	KUNIT_CASE(av_18_fi_read_needs_the_name_and_refuses_changes),
	KUNIT_CASE(av_18_type_and_context_bits_must_match),
	KUNIT_CASE(av_18_the_shared_av_outlives_its_creator),
	KUNIT_CASE(av_18_name_lengths_are_limited),
	KUNIT_CASE(av_18_user_ids_are_refused),
	KUNIT_CASE(av_18_concurrent_open_and_close),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_av_share",
	.test_cases = cases,
};

kunit_test_suite(suite);
