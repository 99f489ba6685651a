// SPDX-License-Identifier: GPL-2.0
/* Tests PEER 4 of CONTRACT: peer AV sets. */

#include <rdma/fi_collective.h>

#include "peer.h"

#define PEERS	100

#define EMPTY	.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL

struct world {
	struct kofi_fabric_fx	*fx;
	struct fid_av		*av, *peer_av;
	struct fid_av_set	*set;
};

static struct fid_av *open_av(struct kunit *test, struct world *world, u64 flags, void *context)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = flags };
	struct fid_av *av;

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(world->fx->domain, &attr, &av, context));
	fx_defer_close(test, &av->fid);
	return av;
}

static struct fid_av_set *open_set(struct kunit *test, struct fid_av *av, u64 flags, void *context)
{
	struct fi_av_set_attr attr = { EMPTY, .flags = flags };
	struct fid_av_set *set;

	KUNIT_ASSERT_EQ(test, 0, fi_av_set(av, &attr, &set, context));
	fx_defer_close(test, &set->fid);
	return set;
}

/* Opens a vector, a peer AV of it, and a set of the vector with every third address. */
static struct world *world_of(struct kunit *test)
{
	struct world *world = kunit_kzalloc(test, sizeof(*world), GFP_KERNEL);
	struct fi_peer_av_context context = { .size = sizeof(context) };
	struct fid *exported;

	KUNIT_ASSERT_NOT_NULL(test, world);
	world->fx = fx_open(test);
	world->av = open_av(test, world, 0, NULL);
	KUNIT_ASSERT_EQ(test, PEERS, fi_av_insertsym(world->av, "10.0.0.1", PEERS, "1", 1, NULL, 0,
						     NULL));
	exported = peer_export_fid(test, &world->av->fid, FI_CLASS_PEER_AV);
	context.av = container_of(exported, struct fid_peer_av, fid);
	world->peer_av = open_av(test, world, FI_PEER, &context);
	world->set = open_set(test, world->av, 0, NULL);
	for (fi_addr_t addr = 0; addr < PEERS; addr += 3)
		KUNIT_ASSERT_EQ(test, 0, fi_av_set_insert(world->set, addr));
	return world;
}

static struct fid_peer_av_set *export(struct kunit *test, struct fid_av_set *set)
{
	return container_of(peer_export_fid(test, &set->fid, FI_CLASS_PEER_AV_SET),
			    struct fid_peer_av_set, fid);
}

static void peer_04_members_of_an_owner_set(struct kunit *test)
{
	struct world *world = world_of(test);
	struct fid_peer_av_set *exported = export(test, world->set);
	struct fi_ops_av_set_owner *ops = exported->owner_ops;
	fi_addr_t addr[PEERS];
	size_t count = 0;

	KUNIT_EXPECT_GE(test, ops->size, sizeof(*ops));
	for (size_t space = 0; space < 34; space++) {
		count = space;
		addr[0] = 77;
		KUNIT_EXPECT_EQ(test, -FI_ETOOSMALL, ops->members(exported, addr, &count));
		KUNIT_EXPECT_EQ(test, 34, count);
		KUNIT_EXPECT_EQ(test, 77, addr[0]);
	}
	KUNIT_EXPECT_EQ(test, 0, ops->members(exported, addr, &count));
	count = PEERS;
	KUNIT_EXPECT_EQ(test, 0, ops->members(exported, addr, &count));
	KUNIT_ASSERT_EQ(test, 34, count);
	for (int i = 0; i < 34; i++)
		KUNIT_EXPECT_EQ(test, 3 * i, addr[i]);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->members(exported, addr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->members(exported, NULL, &count));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->members(NULL, addr, &count));
	/* The members are those at the time of the call. */
	for (int i = 0; i < 34; i++)
		KUNIT_EXPECT_EQ(test, 0, fi_av_set_remove(world->set, addr[i]));
	count = 0;
	KUNIT_EXPECT_EQ(test, 0, ops->members(exported, NULL, &count));
	KUNIT_EXPECT_EQ(test, 0, count);
}

/* An AV set of another provider, whose members() call can be made to fail. */
struct owner {
	struct fid_peer_av_set		set;
	struct fi_ops_av_set_owner	ops;
	size_t				count;
	size_t				grows;	/* added to count if the call has no space */
	int				ret;
	size_t				reported;	/* reported instead of count, if set */
};

static int owner_members(struct fid_peer_av_set *set, fi_addr_t *addr, size_t *count)
{
	struct owner *owner = container_of(set, struct owner, set);
	size_t space = *count;

	if (owner->ret)
		return owner->ret;
	*count = owner->reported ?: owner->count;
	if (space < owner->count) {
		owner->count += owner->grows;
		return -FI_ETOOSMALL;
	}
	for (size_t i = 0; i < owner->count; i++)
		addr[i] = 2 * i;
	return 0;
}

static struct owner *make_owner(struct kunit *test)
{
	struct owner *owner = kunit_kzalloc(test, sizeof(*owner), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, owner);
	owner->set.fid.fclass = FI_CLASS_PEER_AV_SET;
	owner->set.owner_ops = &owner->ops;
	owner->ops = (struct fi_ops_av_set_owner){
		.size = sizeof(owner->ops),
		.members = owner_members,
	};
	return owner;
}

/* Expects that the members of the set are the addresses for which wants() is true. */
static void expect(struct kunit *test, struct world *world, struct fid_av_set *set,
		   bool (*wants)(fi_addr_t addr))
{
	struct fid_av_set *copy = open_set(test, world->peer_av, 0, NULL);

	KUNIT_ASSERT_EQ(test, 0, fi_av_set_union(copy, set));
	for (fi_addr_t addr = 0; addr < PEERS; addr++)
		KUNIT_EXPECT_EQ_MSG(test, wants(addr) ? 0 : -FI_EINVAL,
				    fi_av_set_remove(copy, addr), "%llu", addr);
	fx_close(test, &copy->fid);
}

static bool every_third(fi_addr_t addr)
{
	return !(addr % 3);
}

static bool every_third_but_the_first(fi_addr_t addr)
{
	return addr && every_third(addr);
}

static bool every_second(fi_addr_t addr)
{
	return !(addr % 2);
}

static void peer_04_a_peer_set_has_the_owners_members(struct kunit *test)
{
	struct world *world = world_of(test);
	struct fi_peer_av_set_context context = {
		.size = sizeof(context),
		.av_set = export(test, world->set),
	};
	struct fid_av_set *set = open_set(test, world->peer_av, FI_PEER_AV, &context);
	struct fid_av_set *other = open_set(test, world->peer_av, 0, NULL);

	expect(test, world, set, every_third);
	KUNIT_EXPECT_EQ(test, 0, fi_av_set_remove(world->set, 0));
	expect(test, world, set, every_third_but_the_first);
	/* Only the owner changes the set. */
	KUNIT_EXPECT_EQ(test, -FI_EACCES, fi_av_set_insert(set, 1));
	KUNIT_EXPECT_EQ(test, -FI_EACCES, fi_av_set_remove(set, 3));
	KUNIT_EXPECT_EQ(test, -FI_EACCES, fi_av_set_union(set, other));
	KUNIT_EXPECT_EQ(test, -FI_EACCES, fi_av_set_diff(set, other));
	KUNIT_EXPECT_EQ(test, -FI_EACCES, fi_av_set_intersect(set, other));
	expect(test, world, set, every_third_but_the_first);
}

static void peer_04_members_of_another_providers_set(struct kunit *test)
{
	struct world *world = world_of(test);
	struct owner *owner = make_owner(test);
	struct fi_peer_av_set_context context = { .size = sizeof(context), .av_set = &owner->set };
	struct fid_av_set *set, *other = open_set(test, world->peer_av, 0, NULL);

	owner->count = PEERS / 2;
	set = open_set(test, world->peer_av, FI_PEER_AV, &context);
	expect(test, world, set, every_second);
	/* The owner has more members than the first call has space for, and more at each call. */
	owner->count = 1000;
	owner->grows = 1000;
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_av_set_union(other, set));
	owner->count = 1000;
	owner->grows = 0;
	KUNIT_EXPECT_EQ(test, 0, fi_av_set_union(other, set));
	KUNIT_EXPECT_EQ(test, 0, fi_av_set_remove(other, 1998));
	/* Member counts and errors that contradict the call. */
	owner->reported = SIZE_MAX;
	KUNIT_EXPECT_EQ(test, -FI_ENOMEM, fi_av_set_union(other, set));
	owner->reported = 1;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_union(other, set));
	owner->count = 1;
	owner->reported = 1000;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_union(other, set));
	owner->ret = -FI_EIO;
	KUNIT_EXPECT_EQ(test, -FI_EIO, fi_av_set_union(other, set));
	owner->ret = -FI_ETOOSMALL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set_union(other, set));
	owner->ret = INT_MIN;
	KUNIT_EXPECT_EQ(test, -FI_EOTHER, fi_av_set_intersect(other, set));
}

static void peer_05_set_contexts_without_an_owner_are_refused(struct kunit *test)
{
	struct world *world = world_of(test), *elsewhere = world_of(test);
	struct owner *owner = make_owner(test);
	const struct fi_peer_av_set_context good = { .size = sizeof(good), .av_set = &owner->set };
	struct fi_peer_av_set_context context;
	struct fi_av_set_attr attr = { EMPTY, .flags = FI_PEER_AV };
	struct fid_av_set *set = NULL;

#define REFUSED() do {									\
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set(world->peer_av, &attr, &set, &context)); \
	KUNIT_EXPECT_NULL(test, set);							\
} while (0)

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_set(world->peer_av, &attr, &set, NULL));
	for (size_t size = 0; size < sizeof(context); size++) {
		context = good;
		context.size = size;
		REFUSED();
	}
	context = good;
	context.av_set = NULL;
	REFUSED();
	context = good;
	for (size_t size = 0; size < sizeof(owner->ops); size++) {
		owner->ops.size = size;
		REFUSED();
	}
	owner->ops.size = sizeof(owner->ops);
	owner->ops.members = NULL;
	REFUSED();
	owner->ops.members = owner_members;
	owner->set.owner_ops = NULL;
	REFUSED();
	owner->set.owner_ops = &owner->ops;
	owner->set.fid.fclass = FI_CLASS_AV_SET;
	REFUSED();
	owner->set.fid.fclass = FI_CLASS_PEER_AV_SET;
	attr.flags |= FI_UNIVERSE;
	REFUSED();
	attr.flags &= ~FI_UNIVERSE;
	/* A set of another vector is refused. */
	context.av_set = export(test, elsewhere->set);
	REFUSED();
	context.av_set = export(test, world->set);
	context.size += 64;
	KUNIT_ASSERT_EQ(test, 0, fi_av_set(world->peer_av, &attr, &set, &context));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&set->fid));
#undef REFUSED
}

static struct kunit_case cases[] = {
	KUNIT_CASE(peer_04_members_of_an_owner_set),
	KUNIT_CASE(peer_04_a_peer_set_has_the_owners_members),
	KUNIT_CASE(peer_04_members_of_another_providers_set),
	KUNIT_CASE(peer_05_set_contexts_without_an_owner_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_peer_av_set",
	.test_cases = cases,
};

kunit_test_suite(suite);
