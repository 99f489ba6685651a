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

struct crowd {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct kofi_rdm		*member[MEMBERS];
	fi_addr_t		addr[MEMBERS][MEMBERS];	/* [i][j]: j in the vector of i */
	struct fid_av_set	*set[MEMBERS];
	struct fid_mc		*mc[MEMBERS];
	u8			*buf[MEMBERS], *result[MEMBERS];
};

static struct fid_domain *offload(struct kunit *test, struct crowd *crowd)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, hints);
	hints->mode = FI_PEER_TRANSFER;
	hints->caps = FI_COLLECTIVE;
	hints->fabric_attr->prov_name = kstrdup("collective", GFP_KERNEL);
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &crowd->info);
	fi_freeinfo(hints);
	if (ret == -FI_ENODATA)
		kunit_skip(test, "see scenarios/collective.sh");
	KUNIT_ASSERT_EQ(test, 0, ret);
	fx_defer_free(test, crowd->info);
	crowd->fabric = fx_fabric(test, crowd->info);
	return fx_domain(test, crowd->fabric, crowd->info);
}

static void join(struct kunit *test, struct crowd *crowd, int i)
{
	KUNIT_ASSERT_EQ(test, 0, fi_join_collective(crowd->member[i]->ep, FI_ADDR_NOTAVAIL,
						    crowd->set[i], 0, &crowd->mc[i], test));
	KUNIT_ASSERT_PTR_EQ(test, test, crowd->mc[i]->fid.context);
	fx_defer_close(test, &crowd->mc[i]->fid);
}

/* Opens a group whose completion queues have this size; 0 is the default. */
static struct crowd *crowd_with(struct kunit *test, size_t cq_size)
{
	const struct rdm_opts opts = { .caps = FI_COLLECTIVE, .cq_size = cq_size };
	struct crowd *crowd = kunit_kzalloc(test, sizeof(*crowd), GFP_KERNEL);
	struct fi_av_set_attr attr = {
		.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL,
		.flags = FI_BARRIER_SET | FI_BROADCAST_SET | FI_ALLREDUCE_SET,
	};

	KUNIT_ASSERT_NOT_NULL(test, crowd);
	for (int i = 0; i < MEMBERS; i++) {
		crowd->buf[i] = tr_buffer(test, LARGE);
		crowd->result[i] = tr_buffer(test, LARGE);
	}
	crowd->domain = offload(test, crowd);
	for (int i = 0; i < MEMBERS; i++)
		crowd->member[i] = rdm_open(test, &opts);
	for (int i = 0; i < MEMBERS; i++) {
		/* A member's address differs from vector to vector. */
		for (int j = 0; j < MEMBERS; j++) {
			int other = (i + j) % MEMBERS;

			crowd->addr[i][other] = rdm_know(test, crowd->member[i], crowd->member[other]);
		}
		KUNIT_ASSERT_EQ(test, 0, fi_import_fid(&crowd->member[i]->ep->fid,
						       &crowd->domain->fid, 0));
		KUNIT_ASSERT_EQ(test, 0, fi_av_set(crowd->member[i]->av, &attr, &crowd->set[i], NULL));
		fx_defer_close(test, &crowd->set[i]->fid);
		for (int j = 0; j < MEMBERS; j++)
			KUNIT_ASSERT_EQ(test, 0, fi_av_set_insert(crowd->set[i], crowd->addr[i][j]));
	}
	for (int i = 0; i < MEMBERS; i++)
		join(test, crowd, i);
	return crowd;
}

static struct crowd *crowd_of(struct kunit *test)
{
	return crowd_with(test, 0);
}

static void done(struct kunit *test, struct crowd *crowd, int i, void *context)
{
	struct fi_cq_tagged_entry entry;

	rdm_expect(test, crowd->member[i], context, &entry);
	KUNIT_EXPECT_EQ(test, FI_COLLECTIVE, entry.flags);
}

static void peer_04_nobody_leaves_a_barrier_before_all_have_come(struct kunit *test)
{
	struct crowd *crowd = crowd_of(test);
	struct fi_cq_tagged_entry entry;

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < MEMBERS; i++) {
			int who = (i + round) % MEMBERS;

			for (int j = 0; j < MEMBERS; j++)
				KUNIT_ASSERT_EQ(test, -FI_EAGAIN,
						fi_cq_read(crowd->member[j]->cq, &entry, 1));
			KUNIT_ASSERT_EQ(test, 0, fi_barrier(crowd->member[who]->ep,
							    fi_mc_addr(crowd->mc[who]), crowd));
			usleep_range(1000, 2000);
		}
		for (int i = 0; i < MEMBERS; i++)
			done(test, crowd, i, crowd);
	}
}

static void peer_04_what_the_root_has_all_get(struct kunit *test)
{
	static const size_t lens[] = { 0, 1, 1000, LARGE };
	struct crowd *crowd = crowd_of(test);

	for (int root = 0; root < MEMBERS; root++)
		for (int l = 0; l < ARRAY_SIZE(lens); l++) {
			for (int i = 0; i < MEMBERS; i++)
				tr_fill(crowd->buf[i], lens[l], i == root ? root + l : 77);
			for (int i = 0; i < MEMBERS; i++)
				KUNIT_ASSERT_EQ(test, 0, fi_broadcast(
					crowd->member[i]->ep, crowd->buf[i], lens[l], NULL,
					fi_mc_addr(crowd->mc[i]), crowd->addr[i][root], FI_UINT8, 0,
					crowd->buf[i]));
			for (int i = 0; i < MEMBERS; i++) {
				done(test, crowd, i, crowd->buf[i]);
				KUNIT_EXPECT_TRUE_MSG(test, tr_intact(crowd->buf[i], lens[l], root + l),
						      "of %d at %d", root, i);
			}
		}
}

/*
 * Expects that fi_allreduce() computes FI_SUM, FI_MIN and FI_BXOR of random
 * values of this width and sign.
 */
#define EXPECT_REDUCED(test, crowd, type, datatype, count) do {				\
	for (int op = 0; op < 3; op++) {						\
		static const enum fi_op ops[] = { FI_SUM, FI_MIN, FI_BXOR };		\
		type *first = (type *)(crowd)->buf[0];					\
											\
		for (int i = 0; i < MEMBERS; i++)					\
			get_random_bytes((crowd)->buf[i], (count) * sizeof(type));	\
		for (int i = 0; i < MEMBERS; i++)					\
			KUNIT_ASSERT_EQ(test, 0, fi_allreduce(				\
				(crowd)->member[i]->ep, (crowd)->buf[i], count, NULL,	\
				(crowd)->result[i], NULL, fi_mc_addr((crowd)->mc[i]),	\
				datatype, ops[op], 0, (crowd)->result[i]));		\
		for (int i = 0; i < MEMBERS; i++)					\
			done(test, crowd, i, (crowd)->result[i]);			\
		for (int at = 0; at < (count); at++) {					\
			type wanted = first[at];					\
											\
			for (int i = 1; i < MEMBERS; i++) {				\
				type next = ((type *)(crowd)->buf[i])[at];		\
											\
				wanted = ops[op] == FI_SUM ? (type)((u64)wanted + (u64)next) :	\
					 ops[op] == FI_MIN ? min(wanted, next) :	\
							     (type)(wanted ^ next);	\
			}								\
			for (int i = 0; i < MEMBERS; i++)				\
				KUNIT_ASSERT_EQ(test, wanted,				\
						((type *)(crowd)->result[i])[at]);	\
		}									\
	}										\
} while (0)

static void peer_04_all_get_what_all_have_together(struct kunit *test)
{
	struct crowd *crowd = crowd_of(test);

	EXPECT_REDUCED(test, crowd, s8, FI_INT8, 3);
	EXPECT_REDUCED(test, crowd, u8, FI_UINT8, 100);
	EXPECT_REDUCED(test, crowd, s16, FI_INT16, 100);
	EXPECT_REDUCED(test, crowd, u16, FI_UINT16, 1);
	EXPECT_REDUCED(test, crowd, s32, FI_INT32, 2);
	EXPECT_REDUCED(test, crowd, u32, FI_UINT32, 100);
	EXPECT_REDUCED(test, crowd, s64, FI_INT64, 1);
	EXPECT_REDUCED(test, crowd, u64, FI_UINT64, LARGE / 8);
}

static void peer_04_transfers_are_not_the_consumers(struct kunit *test)
{
	struct crowd *crowd = crowd_of(test);
	struct kofi_rdm *to = crowd->member[1];

	/* This receive matches every tagged message. */
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(to->ep, crowd->result[1], 64, NULL, FI_ADDR_UNSPEC, 0, ~0ULL,
					  crowd->result[1]));
	for (int i = 0; i < MEMBERS; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_barrier(crowd->member[i]->ep, fi_mc_addr(crowd->mc[i]), crowd));
	for (int i = 0; i < MEMBERS; i++)
		done(test, crowd, i, crowd);
	KUNIT_ASSERT_EQ(test, 0, when_there_is_room(fi_tsend(crowd->member[0]->ep, crowd->buf[0], 8, NULL,
							     crowd->addr[0][1], 5, crowd->buf[0])));
	rdm_expect(test, to, crowd->result[1], NULL);
	rdm_expect(test, crowd->member[0], crowd->buf[0], NULL);
}

static void close_03_groups_that_somebody_waits_in(struct kunit *test)
{
	struct crowd *crowd = crowd_of(test);
	struct fi_cq_err_entry error = {};

	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&crowd->member[0]->ep->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&crowd->set[0]->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&crowd->domain->fid));
	/* The other members do not enter the barrier. */
	KUNIT_ASSERT_EQ(test, 0, fi_barrier(crowd->member[0]->ep, fi_mc_addr(crowd->mc[0]), crowd));
	fx_close(test, &crowd->mc[0]->fid);
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, crowd->member[0]->cq, &error));
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
	KUNIT_EXPECT_PTR_EQ(test, crowd, error.op_context);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_barrier(crowd->member[0]->ep, 0, crowd));
	fx_close(test, &crowd->member[0]->ep->fid);
}

/* More completions than the queue holds, and no reader. */
static void close_03_groups_whose_queue_is_full(struct kunit *test)
{
	struct crowd *crowd = crowd_with(test, 4);

	for (int i = 0; i < 100; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_barrier(crowd->member[0]->ep, fi_mc_addr(crowd->mc[0]), crowd));
	fx_close(test, &crowd->mc[0]->fid);
	fx_close(test, &crowd->member[0]->ep->fid);
}

static void peer_05_pairings_that_are_refused(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_COLLECTIVE };
	struct crowd *crowd = crowd_of(test);
	struct kofi_rdm *plain = rdm_open(test, NULL), *early = rdm_make(test, &opts);
	struct kofi_rdm *single = rdm_open(test, &opts);
	struct fi_msg_tagged msg = { .addr = rdm_know(test, plain, plain) };
	struct fi_av_set_attr attr = {
		.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL,
	};
	struct fid_ep *ep = crowd->member[0]->ep, *alias;
	struct fid_av_set *set;
	fi_addr_t group = fi_mc_addr(crowd->mc[0]);
	struct fid_mc *mc = NULL;
	u8 byte;

#define IMPORT(ep, other, flags) fi_import_fid(&(ep)->fid, other, flags)

	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, IMPORT(plain->ep, &crowd->domain->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, IMPORT(early->ep, &crowd->domain->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EALREADY, IMPORT(ep, &crowd->domain->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, IMPORT(single->ep, &crowd->domain->fid, 1));
	/* An alias is closed before its endpoint, so it cannot import. */
	KUNIT_ASSERT_EQ(test, 0, fi_ep_alias(single->ep, &alias, FI_TRANSMIT));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, IMPORT(alias, &crowd->domain->fid, 0));
	/* kOFI's own domain is no offload provider. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, IMPORT(single->ep, &plain->domain->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_barrier(single->ep, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0, IMPORT(single->ep, &crowd->domain->fid, 0));
	/* A group that was joined through an alias outlives the alias. */
	KUNIT_ASSERT_EQ(test, 0, fi_av_set(single->av, &attr, &set, NULL));
	fx_defer_close(test, &set->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_av_set_insert(set, rdm_know(test, single, single)));
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
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_join_collective(ep, FI_ADDR_NOTAVAIL, crowd->set[0], 0, NULL,
							     NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_join(ep, &byte, 0, &mc, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_join_collective(single->ep, FI_ADDR_NOTAVAIL, crowd->set[0],
							     0, &mc, NULL));
	KUNIT_EXPECT_NULL(test, mc);
	/* Invalid collectives. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_barrier(ep, group + 1, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_barrier2(ep, group, FI_INJECT, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_broadcast(ep, &byte, 1, NULL, group, 99, FI_UINT8, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, fi_broadcast(ep, &byte, LARGE + 1, NULL, group,
							 crowd->addr[0][0], FI_UINT8, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_broadcast(ep, &byte, 1, NULL, group, crowd->addr[0][0],
							   FI_DOUBLE, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_allreduce(ep, &byte, 1, NULL, &byte, NULL, group,
							   FI_UINT8, FI_CSWAP, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_allgather(ep, &byte, 1, NULL, &byte, NULL, group, FI_UINT8,
						       0, NULL));
#undef IMPORT
}

static struct kunit_case cases[] = {
	KUNIT_CASE(peer_04_nobody_leaves_a_barrier_before_all_have_come),
	KUNIT_CASE(peer_04_what_the_root_has_all_get),
	KUNIT_CASE(peer_04_all_get_what_all_have_together),
	KUNIT_CASE(peer_04_transfers_are_not_the_consumers),
	KUNIT_CASE(close_03_groups_that_somebody_waits_in),
	KUNIT_CASE(close_03_groups_whose_queue_is_full),
	KUNIT_CASE(peer_05_pairings_that_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_collective",
	.test_cases = cases,
};

kunit_test_suite(suite);
