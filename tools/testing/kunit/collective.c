// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, PEER 4: FI_PEER_TRANSFER, with the offload provider of another
 * module, the sample "collective". See scenarios/collective.sh.
 */

#include <rdma/fi_collective.h>
#include <rdma/fi_tagged.h>

#include "peer.h"

#define MEMBERS	5
#define LARGE	65536

struct group {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct kofi_rdm		*member[MEMBERS];
	fi_addr_t		addr[MEMBERS][MEMBERS];	/* [i][j]: j in the vector of i */
	struct fid_av_set	*set[MEMBERS];
	struct fid_mc		*mc[MEMBERS];
	u8			*buf[MEMBERS], *result[MEMBERS];
};

static struct fid_domain *open_offload_domain(struct kunit *test, struct group *group)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, hints);
	hints->mode = FI_PEER_TRANSFER;
	hints->caps = FI_COLLECTIVE;
	hints->fabric_attr->prov_name = kstrdup("collective", GFP_KERNEL);
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &group->info);
	fi_freeinfo(hints);
	if (ret == -FI_ENODATA)
		kunit_skip(test, "see scenarios/collective.sh");
	KUNIT_ASSERT_EQ(test, 0, ret);
	fx_defer_free(test, group->info);
	group->fabric = fx_fabric(test, group->info);
	return fx_domain(test, group->fabric, group->info);
}

static void join(struct kunit *test, struct group *group, int i)
{
	KUNIT_ASSERT_EQ(test, 0, fi_join_collective(group->member[i]->ep, FI_ADDR_NOTAVAIL,
						    group->set[i], 0, &group->mc[i], test));
	KUNIT_ASSERT_PTR_EQ(test, test, group->mc[i]->fid.context);
	fx_defer_close(test, &group->mc[i]->fid);
}

/* Opens a group whose completion queues have this size; 0 is the default. */
static struct group *open_group_with_cq_size(struct kunit *test, size_t cq_size)
{
	const struct rdm_opts opts = { .caps = FI_COLLECTIVE, .cq_size = cq_size };
	struct group *group = kunit_kzalloc(test, sizeof(*group), GFP_KERNEL);
	struct fi_av_set_attr attr = {
		.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL,
		.flags = FI_BARRIER_SET | FI_BROADCAST_SET | FI_ALLREDUCE_SET,
	};

	KUNIT_ASSERT_NOT_NULL(test, group);
	for (int i = 0; i < MEMBERS; i++) {
		group->buf[i] = tr_buffer(test, LARGE);
		group->result[i] = tr_buffer(test, LARGE);
	}
	group->domain = open_offload_domain(test, group);
	for (int i = 0; i < MEMBERS; i++)
		group->member[i] = rdm_open(test, &opts);
	for (int i = 0; i < MEMBERS; i++) {
		/* A member's address differs from vector to vector. */
		for (int j = 0; j < MEMBERS; j++) {
			int other = (i + j) % MEMBERS;

			group->addr[i][other] = rdm_addr(test, group->member[i], group->member[other]);
		}
		KUNIT_ASSERT_EQ(test, 0, fi_import_fid(&group->member[i]->ep->fid,
						       &group->domain->fid, 0));
		KUNIT_ASSERT_EQ(test, 0, fi_av_set(group->member[i]->av, &attr, &group->set[i], NULL));
		fx_defer_close(test, &group->set[i]->fid);
		for (int j = 0; j < MEMBERS; j++)
			KUNIT_ASSERT_EQ(test, 0, fi_av_set_insert(group->set[i], group->addr[i][j]));
	}
	for (int i = 0; i < MEMBERS; i++)
		join(test, group, i);
	return group;
}

static struct group *open_group(struct kunit *test)
{
	return open_group_with_cq_size(test, 0);
}

static void expect_completion(struct kunit *test, struct group *group, int i, void *context)
{
	struct fi_cq_tagged_entry entry;

	rdm_expect(test, group->member[i], context, &entry);
	KUNIT_EXPECT_EQ(test, FI_COLLECTIVE, entry.flags);
}

static void peer_04_barrier_completes_when_all_members_entered(struct kunit *test)
{
	struct group *group = open_group(test);
	struct fi_cq_tagged_entry entry;

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < MEMBERS; i++) {
			int who = (i + round) % MEMBERS;

			for (int j = 0; j < MEMBERS; j++)
				KUNIT_ASSERT_EQ(test, -FI_EAGAIN,
						fi_cq_read(group->member[j]->cq, &entry, 1));
			KUNIT_ASSERT_EQ(test, 0, fi_barrier(group->member[who]->ep,
							    fi_mc_addr(group->mc[who]), group));
			usleep_range(1000, 2000);
		}
		for (int i = 0; i < MEMBERS; i++)
			expect_completion(test, group, i, group);
	}
}

static void peer_04_broadcast_delivers_the_roots_data(struct kunit *test)
{
	static const size_t lens[] = { 0, 1, 1000, LARGE };
	struct group *group = open_group(test);

	for (int root = 0; root < MEMBERS; root++)
		for (int l = 0; l < ARRAY_SIZE(lens); l++) {
			for (int i = 0; i < MEMBERS; i++)
				tr_fill(group->buf[i], lens[l], i == root ? root + l : 77);
			for (int i = 0; i < MEMBERS; i++)
				KUNIT_ASSERT_EQ(test, 0, fi_broadcast(
					group->member[i]->ep, group->buf[i], lens[l], NULL,
					fi_mc_addr(group->mc[i]), group->addr[i][root], FI_UINT8, 0,
					group->buf[i]));
			for (int i = 0; i < MEMBERS; i++) {
				expect_completion(test, group, i, group->buf[i]);
				KUNIT_EXPECT_TRUE_MSG(test, tr_intact(group->buf[i], lens[l], root + l),
						      "of %d at %d", root, i);
			}
		}
}

/*
 * Expects that fi_allreduce() computes FI_SUM, FI_MIN and FI_BXOR of random
 * values of this width and sign.
 */
#define EXPECT_REDUCED(test, group, type, datatype, count) do {				\
	for (int op = 0; op < 3; op++) {						\
		static const enum fi_op ops[] = { FI_SUM, FI_MIN, FI_BXOR };		\
		type *first = (type *)(group)->buf[0];					\
											\
		for (int i = 0; i < MEMBERS; i++)					\
			get_random_bytes((group)->buf[i], (count) * sizeof(type));	\
		for (int i = 0; i < MEMBERS; i++)					\
			KUNIT_ASSERT_EQ(test, 0, fi_allreduce(				\
				(group)->member[i]->ep, (group)->buf[i], count, NULL,	\
				(group)->result[i], NULL, fi_mc_addr((group)->mc[i]),	\
				datatype, ops[op], 0, (group)->result[i]));		\
		for (int i = 0; i < MEMBERS; i++)					\
			expect_completion(test, group, i, (group)->result[i]);			\
		for (int at = 0; at < (count); at++) {					\
			type wanted = first[at];					\
											\
			for (int i = 1; i < MEMBERS; i++) {				\
				type next = ((type *)(group)->buf[i])[at];		\
											\
				wanted = ops[op] == FI_SUM ? (type)((u64)wanted + (u64)next) :	\
					 ops[op] == FI_MIN ? min(wanted, next) :	\
							     (type)(wanted ^ next);	\
			}								\
			for (int i = 0; i < MEMBERS; i++)				\
				KUNIT_ASSERT_EQ(test, wanted,				\
						((type *)(group)->result[i])[at]);	\
		}									\
	}										\
} while (0)

static void peer_04_allreduce_delivers_the_reduction(struct kunit *test)
{
	struct group *group = open_group(test);

	EXPECT_REDUCED(test, group, s8, FI_INT8, 3);
	EXPECT_REDUCED(test, group, u8, FI_UINT8, 100);
	EXPECT_REDUCED(test, group, s16, FI_INT16, 100);
	EXPECT_REDUCED(test, group, u16, FI_UINT16, 1);
	EXPECT_REDUCED(test, group, s32, FI_INT32, 2);
	EXPECT_REDUCED(test, group, u32, FI_UINT32, 100);
	EXPECT_REDUCED(test, group, s64, FI_INT64, 1);
	EXPECT_REDUCED(test, group, u64, FI_UINT64, LARGE / 8);
}

static void peer_04_peer_transfers_match_no_consumer_receive(struct kunit *test)
{
	struct group *group = open_group(test);
	struct kofi_rdm *to = group->member[1];

	/* This receive matches every tagged message. */
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(to->ep, group->result[1], 64, NULL, FI_ADDR_UNSPEC, 0, ~0ULL,
					  group->result[1]));
	for (int i = 0; i < MEMBERS; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_barrier(group->member[i]->ep, fi_mc_addr(group->mc[i]), group));
	for (int i = 0; i < MEMBERS; i++)
		expect_completion(test, group, i, group);
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_tsend(group->member[0]->ep, group->buf[0], 8, NULL,
							     group->addr[0][1], 5, group->buf[0])));
	rdm_expect(test, to, group->result[1], NULL);
	rdm_expect(test, group->member[0], group->buf[0], NULL);
}

static void close_03_closing_a_group_cancels_its_barrier(struct kunit *test)
{
	struct group *group = open_group(test);
	struct fi_cq_err_entry error = {};

	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&group->member[0]->ep->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&group->set[0]->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&group->domain->fid));
	/* The other members do not enter the barrier. */
	KUNIT_ASSERT_EQ(test, 0, fi_barrier(group->member[0]->ep, fi_mc_addr(group->mc[0]), group));
	fx_close(test, &group->mc[0]->fid);
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, group->member[0]->cq, &error));
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
	KUNIT_EXPECT_PTR_EQ(test, group, error.op_context);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_barrier(group->member[0]->ep, 0, group));
	fx_close(test, &group->member[0]->ep->fid);
}

/* More completions than the queue holds, and no reader. */
static void close_03_a_group_with_a_full_cq_closes(struct kunit *test)
{
	struct group *group = open_group_with_cq_size(test, 4);

	for (int i = 0; i < 100; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_barrier(group->member[0]->ep, fi_mc_addr(group->mc[0]), group));
	fx_close(test, &group->mc[0]->fid);
	fx_close(test, &group->member[0]->ep->fid);
}

static void peer_05_bad_imports_and_collectives_are_refused(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_COLLECTIVE };
	struct group *group = open_group(test);
	struct kofi_rdm *plain = rdm_open(test, NULL), *early = rdm_make(test, &opts);
	struct kofi_rdm *single = rdm_open(test, &opts);
	struct fi_msg_tagged msg = { .addr = rdm_addr(test, plain, plain) };
	struct fi_av_set_attr attr = {
		.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL,
	};
	struct fid_ep *ep = group->member[0]->ep, *alias;
	struct fid_av_set *set;
	fi_addr_t mcast = fi_mc_addr(group->mc[0]);
	struct fid_mc *mc = NULL;
	u8 byte;

#define IMPORT(ep, other, flags) fi_import_fid(&(ep)->fid, other, flags)

	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, IMPORT(plain->ep, &group->domain->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, IMPORT(early->ep, &group->domain->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EALREADY, IMPORT(ep, &group->domain->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, IMPORT(single->ep, &group->domain->fid, 1));
	/* An alias is closed before its endpoint, so it cannot import. */
	KUNIT_ASSERT_EQ(test, 0, fi_ep_alias(single->ep, &alias, FI_TRANSMIT));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, IMPORT(alias, &group->domain->fid, 0));
	/* kOFI's own domain is no offload provider. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, IMPORT(single->ep, &plain->domain->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_barrier(single->ep, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0, IMPORT(single->ep, &group->domain->fid, 0));
	/* A group that was joined through an alias outlives the alias. */
	KUNIT_ASSERT_EQ(test, 0, fi_av_set(single->av, &attr, &set, NULL));
	fx_defer_close(test, &set->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_av_set_insert(set, rdm_addr(test, single, single)));
	KUNIT_ASSERT_EQ(test, 0, fi_join_collective(alias, FI_ADDR_NOTAVAIL, set, 0, &mc, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&alias->fid));
	KUNIT_EXPECT_EQ(test, 0, fi_barrier(single->ep, fi_mc_addr(mc), mc));
	rdm_expect(test, single, mc, NULL);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&mc->fid));
	mc = NULL;
	/* FI_PEER_TRANSFER without an imported domain, and with FI_PEEK. */
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_tsendmsg(plain->ep, &msg, FI_PEER_TRANSFER));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_trecvmsg(plain->ep, &msg, FI_PEER_TRANSFER));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_trecvmsg(ep, &msg, FI_PEER_TRANSFER | FI_PEEK));
	/* Invalid groups. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_join_collective(ep, FI_ADDR_NOTAVAIL, NULL, 0, &mc, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_join_collective(ep, FI_ADDR_NOTAVAIL, group->set[0], 0, NULL,
							     NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_join(ep, &byte, 0, &mc, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_join_collective(single->ep, FI_ADDR_NOTAVAIL, group->set[0],
							     0, &mc, NULL));
	KUNIT_EXPECT_NULL(test, mc);
	/* Invalid collectives. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_barrier(ep, mcast + 1, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_barrier2(ep, mcast, FI_INJECT, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_broadcast(ep, &byte, 1, NULL, mcast, 99, FI_UINT8, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, fi_broadcast(ep, &byte, LARGE + 1, NULL, mcast,
							 group->addr[0][0], FI_UINT8, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_broadcast(ep, &byte, 1, NULL, mcast, group->addr[0][0],
							   FI_DOUBLE, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_allreduce(ep, &byte, 1, NULL, &byte, NULL, mcast,
							   FI_UINT8, FI_CSWAP, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_allgather(ep, &byte, 1, NULL, &byte, NULL, mcast, FI_UINT8,
						       0, NULL));
#undef IMPORT
}

static struct kunit_case cases[] = {
	KUNIT_CASE(peer_04_barrier_completes_when_all_members_entered),
	KUNIT_CASE(peer_04_broadcast_delivers_the_roots_data),
	KUNIT_CASE(peer_04_allreduce_delivers_the_reduction),
	KUNIT_CASE(peer_04_peer_transfers_match_no_consumer_receive),
	KUNIT_CASE(close_03_closing_a_group_cancels_its_barrier),
	KUNIT_CASE(close_03_a_group_with_a_full_cq_closes),
	KUNIT_CASE(peer_05_bad_imports_and_collectives_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_collective",
	.test_cases = cases,
};

kunit_test_suite(suite);
