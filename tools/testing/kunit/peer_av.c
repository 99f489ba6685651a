// SPDX-License-Identifier: GPL-2.0
/*
 * Tests PEER 4 of CONTRACT: peer address vectors. peer_av_set.c tests peer AV
 * sets.
 */

#include "peer.h"

static int open_peer(struct fid_domain *domain, struct fid_peer_av *owner, enum fi_av_type type,
		     struct fid_av **av)
{
	struct fi_peer_av_context context = { .size = sizeof(context), .av = owner };
	struct fi_av_attr attr = { .type = type, .flags = FI_PEER };

	return fi_av_open(domain, &attr, av, &context);
}

static struct fid_peer_av *export(struct kunit *test, struct fid_av *av)
{
	return container_of(peer_export_fid(test, &av->fid, FI_CLASS_PEER_AV), struct fid_peer_av,
			    fid);
}

/* Opens an endpoint in a domain of its own, with a peer AV of the owner's vector. */
static struct kofi_rdm *peer_of_rdm(struct kunit *test, struct kofi_rdm *owner,
				    const struct rdm_opts *opts)
{
	struct fid_peer_av *exported = export(test, owner->av);
	struct kofi_rdm *peer = rdm_make(test, opts);

	fx_close(test, &peer->ep->fid);
	fx_close(test, &peer->av->fid);
	KUNIT_ASSERT_EQ(test, 0, open_peer(peer->domain, exported, FI_AV_UNSPEC, &peer->av));
	fx_defer_close(test, &peer->av->fid);
	peer->ep = fx_ep(test, peer->domain, peer->info);
	rdm_start(test, peer, 0);
	return peer;
}

static void peer_04_a_peer_av_has_the_owners_addresses(struct kunit *test)
{
	static const struct rdm_opts opts[] = { { .av_type = FI_AV_TABLE }, { .av_type = FI_AV_MAP } };

	for (int i = 0; i < ARRAY_SIZE(opts); i++) {
		struct kofi_rdm *owner = rdm_open(test, &opts[i]);
		struct kofi_rdm *peer = peer_of_rdm(test, owner, NULL);
		fi_addr_t to_owner = rdm_addr(test, owner, owner);
		fi_addr_t to_peer = rdm_addr(test, owner, peer);
		struct sockaddr_storage name;
		size_t len = sizeof(name);

		rdm_exchange(test, peer, to_owner, owner);
		rdm_exchange(test, owner, to_peer, peer);
		KUNIT_EXPECT_EQ(test, 0, fi_av_lookup(peer->av, to_owner, &name, &len));
		KUNIT_EXPECT_EQ(test, owner->name_len, len);
		KUNIT_EXPECT_MEMEQ(test, &owner->name, &name, len);
		/* Only the owner inserts and removes. */
		KUNIT_EXPECT_EQ(test, -FI_EACCES, rdm_insert(peer, &peer->name, &to_peer, 0));
		KUNIT_EXPECT_EQ(test, -FI_EACCES, fi_av_remove(peer->av, &to_owner, 1, 0));
		KUNIT_EXPECT_EQ(test, 0, fi_av_remove(owner->av, &to_owner, 1, 0));
		len = sizeof(name);
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_lookup(peer->av, to_owner, &name, &len));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, rdm_send(peer, to_owner, &len, 1, NULL));
	}
}

static void peer_04_query_and_ep_addr_of_the_owner(struct kunit *test)
{
	static const struct rdm_opts map = { .av_type = FI_AV_MAP };
	struct kofi_rdm *owner = rdm_open(test, &map);
	struct kofi_rdm *other = rdm_open(test, NULL);
	struct fid_peer_av *exported = export(test, owner->av);
	struct fi_ops_av_owner *ops = exported->owner_ops;
	struct fi_av_attr attr = { .count = 77, .flags = 77 };
	fi_addr_t addr;

	KUNIT_EXPECT_GE(test, ops->size, sizeof(*ops));
	KUNIT_EXPECT_EQ(test, 0, ops->query(exported, &attr));
	KUNIT_EXPECT_EQ(test, FI_AV_MAP, attr.type);
	KUNIT_EXPECT_EQ(test, 0, attr.count);
	KUNIT_EXPECT_EQ(test, 0, attr.flags);
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, ops->ep_addr(exported, owner->ep));
	addr = rdm_addr(test, owner, owner);
	KUNIT_EXPECT_EQ(test, addr, ops->ep_addr(exported, owner->ep));
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, ops->ep_addr(exported, other->ep));
	addr = rdm_addr(test, owner, other);
	KUNIT_EXPECT_EQ(test, addr, ops->ep_addr(exported, other->ep));
	KUNIT_EXPECT_EQ(test, 0, ops->query(exported, &attr));
	KUNIT_EXPECT_EQ(test, 2, attr.count);
	/* NULL arguments are refused. */
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, ops->ep_addr(exported, NULL));
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, ops->ep_addr(NULL, owner->ep));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->query(exported, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->query(NULL, &attr));
}

static void peer_04_other_receive_context_bits_are_refused(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .rx_ctx_bits = 4 };
	struct fi_peer_av_context context = { .size = sizeof(context) };
	struct fid_av *owner, *av = NULL;

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(rdm->domain, &attr, &owner, NULL));
	fx_defer_close(test, &owner->fid);
	context.av = export(test, owner);
	attr.flags = FI_PEER;
	for (int bits = -1; bits <= 17; bits++) {
		bool is_right = bits == 0 || bits == 4;

		attr.rx_ctx_bits = bits;
		KUNIT_EXPECT_EQ_MSG(test, is_right ? 0 : -FI_EINVAL,
				    fi_av_open(rdm->domain, &attr, &av, &context), "%d", bits);
		if (!is_right) {
			KUNIT_EXPECT_NULL(test, av);
			continue;
		}
		/* An rx_ctx_bits of 0 becomes the owner's. */
		KUNIT_EXPECT_EQ(test, 4, attr.rx_ctx_bits);
		KUNIT_EXPECT_EQ(test, 0, fi_close(&av->fid));
		av = NULL;
	}
	/* The owner has no rx_ctx_bits. */
	context.av = export(test, rdm->av);
	attr.rx_ctx_bits = 4;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_open(rdm->domain, &attr, &av, &context));
}

/* Opened as in fi_peer(3): with the attributes of the owner's vector and FI_PEER. */
static void peer_04_attributes_of_the_owners_vector_are_taken(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	struct fi_peer_av_context context = { .size = sizeof(context), .av = export(test, rdm->av) };
	struct fi_av_attr attr = {
		.type = FI_AV_TABLE, .count = 100, .ep_per_node = 4, .flags = FI_SYMMETRIC | FI_PEER,
	};
	struct fid_av *av;

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(rdm->domain, &attr, &av, &context));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&av->fid));
}

static void peer_05_contexts_without_a_kofi_owner_are_refused(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	struct fid_peer_av *exported = export(test, rdm->av);
	struct fid_peer_av another = { .fid.fclass = FI_CLASS_PEER_AV, .owner_ops = exported->owner_ops };
	const struct fi_peer_av_context good = { .size = sizeof(good), .av = exported };
	struct fi_peer_av_context context;
	struct fi_av_attr attr = { .flags = FI_PEER };
	struct fid_av *av = NULL;

#define REFUSED() do {									\
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_open(rdm->domain, &attr, &av, &context)); \
	KUNIT_EXPECT_NULL(test, av);							\
} while (0)

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_open(rdm->domain, &attr, &av, NULL));
	for (size_t size = 0; size < sizeof(context); size++) {
		context = good;
		context.size = size;
		REFUSED();
	}
	context = good;
	context.av = NULL;
	REFUSED();
	/* A vector that kOFI did not export cannot be looked up. */
	context.av = &another;
	REFUSED();
	context.av = container_of(&rdm->av->fid, struct fid_peer_av, fid);
	REFUSED();
	context = good;
	attr.type = FI_AV_MAP;
	REFUSED();
	attr.type = FI_AV_TABLE;
	attr.name = "a name";
	REFUSED();
	attr.name = NULL;
	attr.flags = FI_PEER | FI_EVENT;
	REFUSED();
	attr.flags = FI_PEER | FI_READ;
	REFUSED();
	attr.flags = FI_PEER;
	context.size = sizeof(context) + 64;
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(rdm->domain, &attr, &av, &context));
	KUNIT_EXPECT_EQ(test, FI_AV_TABLE, attr.type);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&av->fid));
#undef REFUSED
}

static struct kunit_case cases[] = {
	KUNIT_CASE(peer_04_a_peer_av_has_the_owners_addresses),
	KUNIT_CASE(peer_04_query_and_ep_addr_of_the_owner),
	KUNIT_CASE(peer_04_other_receive_context_bits_are_refused),
	KUNIT_CASE(peer_04_attributes_of_the_owners_vector_are_taken),
	KUNIT_CASE(peer_05_contexts_without_a_kofi_owner_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_peer_av",
	.test_cases = cases,
};

kunit_test_suite(suite);
