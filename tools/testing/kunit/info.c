// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, INFO: fi_getinfo() and the infos that it returns. Opening objects
 * with them, and the layouts, are in info_open.c.
 */

#include <linux/completion.h>
#include <linux/kthread.h>

#include "fixture.h"

#define VERSION		FI_VERSION(1, 17)
#define POISON		((struct fi_info *)0x6b6b)

/* Returns the result of fi_getinfo() and frees the infos; sets *list if there were any. */
static int getinfo(u32 version, const char *node, const char *service, u64 flags,
		   const struct fi_info *hints, bool *list)
{
	struct fi_info *info = POISON;
	int ret = fi_getinfo(version, node, service, flags, hints, &info);

	*list = info;
	if (!ret)
		fi_freeinfo(info);
	return ret;
}

#define EXPECT_REFUSED(test, want, ...) do {				\
	bool _list = true;						\
	int _ret = getinfo(__VA_ARGS__, &_list);				\
									\
	KUNIT_EXPECT_EQ_MSG(test, _ret, want, "fi_getinfo(%s)",		\
			    #__VA_ARGS__);				\
	KUNIT_EXPECT_FALSE_MSG(test, _list, "*info of fi_getinfo(%s)",	\
			       #__VA_ARGS__);				\
} while (0)

/* Returns the infos for these hints, at least one; freed with the test. */
static struct fi_info *get_infos(struct kunit *test, const struct fi_info *hints)
{
	struct fi_info *info = NULL;
	int ret = fi_getinfo(VERSION, NULL, NULL, 0, hints, &info);

	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_getinfo: %s", fi_strerror(ret));
	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	return info;
}

static void info_01_no_match_is_enodata(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);

	hints->ep_attr->type = FI_EP_DGRAM;
	EXPECT_REFUSED(test, -FI_ENODATA, VERSION, NULL, NULL, 0, hints);
	hints->ep_attr->type = FI_EP_MSG;

	hints->fabric_attr->name = kstrdup("no such fabric", GFP_KERNEL);
	EXPECT_REFUSED(test, -FI_ENODATA, VERSION, NULL, NULL, 0, hints);
	kfree(hints->fabric_attr->name);
	hints->fabric_attr->name = NULL;

	hints->domain_attr->name = kstrdup("no such device", GFP_KERNEL);
	EXPECT_REFUSED(test, -FI_ENODATA, VERSION, NULL, NULL, 0, hints);

	/* Addresses reserved for documentation: no device has one. */
	EXPECT_REFUSED(test, -FI_ENODATA, VERSION, "192.0.2.1", NULL, FI_SOURCE,
		       NULL);
	EXPECT_REFUSED(test, -FI_ENODATA, VERSION, "2001:db8::1", NULL,
		       FI_SOURCE, NULL);
}

static void info_02_newer_version_is_enosys(struct kunit *test)
{
	EXPECT_REFUSED(test, -FI_ENOSYS, FI_VERSION(1, 18), NULL, NULL, 0,
		       NULL);
	EXPECT_REFUSED(test, -FI_ENOSYS, FI_VERSION(2, 0), NULL, NULL, 0, NULL);
	EXPECT_REFUSED(test, -FI_ENOSYS, U32_MAX, NULL, NULL, 0, NULL);
	KUNIT_EXPECT_EQ(test, fi_version(), VERSION);
}

static void info_02_older_versions_are_accepted(struct kunit *test)
{
	bool list;

	fx_info(test, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_EQ(test, getinfo(FI_VERSION(1, 0), NULL, NULL, 0, NULL, &list),
			0);
	KUNIT_EXPECT_TRUE(test, list);
}

enum offer { NO, YES, DEVICE };

/*
 * Every capability of libfabric 1.17: which of connected and RDM endpoints have
 * it (DEVICE: depends on the device), and the reason if not.
 */
static const struct {
	u64		cap;
	enum offer	msg, rdm;
	bool		of_domain;
	const char	*reason;
} capabilities[] = {
	{ FI_MSG, YES, YES },
	{ FI_RMA, YES, YES },
	{ FI_TAGGED, NO, YES, .reason = "RC queue pairs match no tags" },
	{ FI_ATOMIC, DEVICE, YES },
	{ FI_MULTICAST, NO, NO, .reason = "RC queue pairs have one peer each" },
	{ FI_COLLECTIVE, NO, YES, .reason = "a connection has one peer" },
	{ FI_XPU_TRIGGER, NO, NO, .reason = "the kernel drives no other processor's queues" },
	{ FI_HMEM, NO, NO, .reason = "buffers are the kernel's own memory" },
	{ FI_VARIABLE_MSG, NO, NO, .reason = "no provider's receives are without buffers" },
	{ FI_NAMED_RX_CTX, NO, YES, .reason = "a connection leads to one receive context" },
	{ FI_DIRECTED_RECV, NO, YES, .reason = "a connection has one source" },
	{ FI_READ, YES, YES },
	{ FI_WRITE, YES, YES },
	{ FI_RECV, YES, YES },
	{ FI_SEND, YES, YES },
	{ FI_REMOTE_READ, YES, YES },
	{ FI_REMOTE_WRITE, YES, YES },
	{ FI_MULTI_RECV, YES, YES },
	{ FI_TRIGGER, NO, NO, .reason = "no deferred work" },
	{ FI_FENCE, YES, NO, .reason = "ofi_rxm's protocol has none" },
	{ FI_AV_USER_ID, YES, YES, true },
	{ FI_PEER, YES, YES, true },
	{ FI_RMA_PMEM, NO, NO, .reason = "kernel posts cannot flush to persistence" },
	{ FI_SOURCE_ERR, NO, YES, .reason = "a connection has one source" },
	{ FI_LOCAL_COMM, YES, YES, true },
	{ FI_REMOTE_COMM, DEVICE, DEVICE, true, "loop is of this machine" },
	{ FI_SHARED_AV, YES, YES, true },
	{ FI_RMA_EVENT, NO, NO, .reason = "no region counts what peers do" },
	{ FI_SOURCE, NO, YES, .reason = "a connection has one source" },
	{ FI_REMOTE_SIGNAL, DEVICE, NO, .reason = "ofi_rxm's protocol does not carry the flag" },
	/* Names of kfabric. */
	{ FI_TAGGED_RMA, NO, YES, .reason = "RC queue pairs match no tags" },
	{ FI_TAGGED_MULTI_RECV, NO, NO, .reason = "a tagged receive takes one message" },
};

/* Checks fi_getinfo() with this capability in the hints: each info must have it. */
static void expect_capability(struct kunit *test, enum fi_ep_type type, enum offer offer, u64 cap,
			      bool of_domain)
{
	struct fi_info *hints = fx_hints(test), *info = NULL;
	int ret;

	hints->ep_attr->type = type;
	if (of_domain)
		hints->domain_attr->caps = cap;
	else
		hints->caps = cap;
	ret = fi_getinfo(VERSION, fx_addr, NULL, FI_SOURCE, hints, &info);
	if (ret)
		KUNIT_EXPECT_TRUE_MSG(test, ret == -FI_ENODATA && offer != YES,
				      "type %d, capability %llx: %d", type, cap, ret);
	else
		KUNIT_EXPECT_NE_MSG(test, offer, NO, "type %d, capability %llx", type, cap);
	for (struct fi_info *it = info; it; it = it->next) {
		KUNIT_EXPECT_TRUE_MSG(test, (of_domain ? it->domain_attr->caps : it->caps) & cap,
				      "type %d, capability %llx: %llx of %llx", type, cap,
				      it->caps, it->domain_attr->caps);
		/* Writes with data consume receives: not offered without FI_RX_CQ_DATA. */
		if (type == FI_EP_MSG && it->caps & FI_RMA)
			KUNIT_EXPECT_EQ_MSG(test, 0, it->domain_attr->cq_data_size,
					    "capability %llx", cap);
	}
	fi_freeinfo(info);
}

static void info_15_every_capability_is_offered_or_refused(struct kunit *test)
{
	fx_info(test, fx_addr, NULL, FI_SOURCE);
	for (int i = 0; i < ARRAY_SIZE(capabilities); i++) {
		u64 cap = capabilities[i].cap;
		bool refused = capabilities[i].msg == NO || capabilities[i].rdm == NO;

		KUNIT_EXPECT_FALSE_MSG(test, refused && !capabilities[i].reason, "row %d", i);
		expect_capability(test, FI_EP_MSG, capabilities[i].msg, cap, false);
		expect_capability(test, FI_EP_RDM, capabilities[i].rdm, cap, false);
		if (capabilities[i].of_domain) {
			expect_capability(test, FI_EP_MSG, capabilities[i].msg, cap, true);
			expect_capability(test, FI_EP_RDM, capabilities[i].rdm, cap, true);
		}
	}
}

static bool is_capability(u64 bit)
{
	for (int i = 0; i < ARRAY_SIZE(capabilities); i++)
		if (capabilities[i].cap == bit)
			return true;
	return false;
}

static void info_03_unknown_caps_are_ebadflags(struct kunit *test)
{
	for (int bit = 0; bit < 64; bit++) {
		u64 cap = BIT_ULL(bit);
		struct fi_info *hints = fx_hints(test);
		u64 *const caps[] = {
			&hints->caps, &hints->domain_attr->caps, &hints->tx_attr->caps,
			&hints->rx_attr->caps,
		};

		for (int i = 0; i < ARRAY_SIZE(caps); i++) {
			u64 before = *caps[i];
			bool list;
			int ret;

			*caps[i] = cap;
			ret = getinfo(VERSION, NULL, NULL, 0, hints, &list);
			*caps[i] = before;
			KUNIT_EXPECT_EQ_MSG(test, !ret, list, "bit %d of %d: %d", bit, i, ret);
			if (is_capability(cap))
				KUNIT_EXPECT_TRUE_MSG(test, !ret || ret == -FI_ENODATA,
						      "bit %d of %d: %d", bit, i, ret);
			else
				KUNIT_EXPECT_EQ_MSG(test, ret, -FI_EBADFLAGS, "bit %d of %d", bit,
						    i);
		}
	}
}

/* Every mode bit of libfabric 1.17: its requirement, and why kOFI never needs it. */
static const struct {
	u64		mode;
	bool		of_receives;	/* needed for remote CQ data with FI_RMA */
	const char	*reason;
} modes[] = {
	{ FI_CONTEXT, .reason = "the state of an operation is the endpoint's" },
	{ FI_CONTEXT2, .reason = "the same" },
	{ FI_MSG_PREFIX, .reason = "headers are the endpoint's" },
	{ FI_ASYNC_IOV, .reason = "vectors are copied while the call runs" },
	{ FI_RX_CQ_DATA, .of_receives = true, .reason = "immediate data takes a receive" },
	{ FI_LOCAL_MR, .reason = "local buffers need no registration" },
	{ FI_NOTIFY_FLAGS_ONLY, .reason = "entries have all their fields" },
	{ FI_RESTRICTED_COMP, .reason = "any endpoints can share a queue" },
	{ FI_BUFFERED_RECV, .reason = "receives have buffers" },
	{ FI_PEER_TRANSFER, .reason = "no provider of kOFI's is an offload" },
};

static void info_15_every_mode_is_accepted_and_none_required(struct kunit *test)
{
	u64 all = 0;

	for (int i = 0; i < ARRAY_SIZE(modes); i++) {
		struct fi_info *hints = fx_hints(test), *info;

		KUNIT_EXPECT_NOT_NULL(test, modes[i].reason);
		all |= modes[i].mode;
		hints->caps = FI_MSG | FI_RMA;
		hints->ep_attr->type = FI_EP_UNSPEC;
		hints->mode = modes[i].mode;
		for (info = get_infos(test, hints); info; info = info->next) {
			u64 of_receives = modes[i].of_receives ? modes[i].mode : 0;

			KUNIT_EXPECT_EQ_MSG(test, 0, info->mode, "row %d", i);
			KUNIT_EXPECT_EQ_MSG(test, 0, info->tx_attr->mode, "row %d", i);
			KUNIT_EXPECT_EQ_MSG(test, 0, info->rx_attr->mode & ~of_receives, "row %d",
					    i);
			KUNIT_EXPECT_EQ_MSG(test, 0, info->domain_attr->mode, "row %d", i);
		}
	}
	/* A consumer may also set bits of newer versions. */
	for (int bit = 0; bit < 64; bit++) {
		struct fi_info *hints = fx_hints(test);

		hints->mode = BIT_ULL(bit);
		KUNIT_EXPECT_EQ_MSG(test, 0, get_infos(test, hints)->mode, "bit %d of %llx", bit,
				    all);
	}
}

static void info_05_without_hints_no_op_flags_are_set(struct kunit *test)
{
	for (struct fi_info *info = get_infos(test, NULL); info; info = info->next) {
		KUNIT_EXPECT_EQ_MSG(test, 0, info->tx_attr->op_flags, "%s",
				    info->fabric_attr->prov_name);
		KUNIT_EXPECT_EQ_MSG(test, 0, info->rx_attr->op_flags, "%s",
				    info->fabric_attr->prov_name);
	}
}

static void info_14_remote_comm_needs_a_device(struct kunit *test)
{
	static const enum fi_ep_type types[] = { FI_EP_MSG, FI_EP_RDM };

	fx_info(test, fx_addr, NULL, FI_SOURCE);
	for (int i = 0; i < ARRAY_SIZE(types); i++) {
		struct fi_info *hints = fx_hints(test);
		bool list;

		hints->ep_attr->type = types[i];
		hints->caps = FI_MSG | FI_LOCAL_COMM;
		KUNIT_EXPECT_EQ(test, 0, getinfo(VERSION, fx_addr, NULL, FI_SOURCE, hints, &list));
		hints->caps = FI_MSG | FI_REMOTE_COMM;
		KUNIT_EXPECT_EQ(test, fx_is_loop() ? -FI_ENODATA : 0,
				getinfo(VERSION, fx_addr, NULL, FI_SOURCE, hints, &list));
	}
}

static void info_03_unknown_flags_are_ebadflags(struct kunit *test)
{
	const u64 known = FI_SOURCE | FI_NUMERICHOST | FI_PROV_ATTR_ONLY;

	for (int bit = 0; bit < 64; bit++)
		if (!(known & BIT_ULL(bit)))
			EXPECT_REFUSED(test, -FI_EBADFLAGS, VERSION, NULL, NULL,
				       BIT_ULL(bit), NULL);
	EXPECT_REFUSED(test, -FI_EBADFLAGS, VERSION, NULL, NULL, ~0ULL, NULL);
}

static void info_04_source_needs_node_or_service(struct kunit *test)
{
	struct fi_info *info;

	EXPECT_REFUSED(test, -FI_EINVAL, VERSION, NULL, NULL, FI_SOURCE, NULL);
	EXPECT_REFUSED(test, -FI_EINVAL, VERSION, NULL, NULL, FI_SOURCE,
		       fx_hints(test));

	/* A node or a service alone will do. */
	info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_NOT_NULL(test, info->src_addr);
	info = fx_info(test, NULL, "7471", FI_SOURCE);
	KUNIT_EXPECT_NOT_NULL(test, info);
}

static void info_06_zero_hint_is_a_wildcard(struct kunit *test)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_info *any, *zero;

	KUNIT_ASSERT_NOT_NULL(test, hints);
	fx_defer_free(test, hints);
	any = get_infos(test, NULL);
	zero = get_infos(test, hints);
	for (; any && zero; any = any->next, zero = zero->next) {
		KUNIT_EXPECT_STREQ(test, any->domain_attr->name,
				   zero->domain_attr->name);
		KUNIT_EXPECT_EQ(test, any->caps, zero->caps);
		KUNIT_EXPECT_EQ(test, any->ep_attr->type, zero->ep_attr->type);
		KUNIT_EXPECT_EQ_MSG(test, zero->mode, 0, "a mode bit that the hints do not accept");
	}
	KUNIT_EXPECT_PTR_EQ(test, any, zero);
}

static void info_06_null_attributes_are_wildcards(struct kunit *test)
{
	struct fi_info hints = {};

	get_infos(test, &hints);
	hints.caps = FI_MSG;
	get_infos(test, &hints);
}

static void info_07_attributes_are_at_least_the_hints(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);
	struct fi_info *info;

	hints->tx_attr->size = 300;
	hints->tx_attr->iov_limit = 2;
	hints->rx_attr->size = 301;
	hints->rx_attr->iov_limit = 1;
	hints->ep_attr->max_msg_size = 4096;
	hints->domain_attr->cq_cnt = 2;
	hints->domain_attr->mr_iov_limit = 1;
	for (info = get_infos(test, hints); info; info = info->next) {
		KUNIT_EXPECT_GE(test, info->tx_attr->size, 300);
		KUNIT_EXPECT_GE(test, info->tx_attr->iov_limit, 2);
		KUNIT_EXPECT_GE(test, info->rx_attr->size, 301);
		KUNIT_EXPECT_GE(test, info->rx_attr->iov_limit, 1);
		KUNIT_EXPECT_GE(test, info->ep_attr->max_msg_size, 4096);
		KUNIT_EXPECT_GE(test, info->domain_attr->cq_cnt, 2);
		KUNIT_EXPECT_GE(test, info->domain_attr->mr_iov_limit, 1);
	}
}

static void info_07_hints_over_the_limits_are_no_match(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);
	size_t *const asked[] = {
		&hints->tx_attr->size,
		&hints->tx_attr->iov_limit,
		&hints->tx_attr->inject_size,
		&hints->rx_attr->size,
		&hints->rx_attr->iov_limit,
		&hints->ep_attr->max_msg_size,
		&hints->domain_attr->cq_cnt,
		&hints->domain_attr->ep_cnt,
		&hints->domain_attr->mr_key_size,
		&hints->domain_attr->cq_data_size,
	};

	for (int i = 0; i < ARRAY_SIZE(asked); i++) {
		*asked[i] = SIZE_MAX;
		EXPECT_REFUSED(test, -FI_ENODATA, VERSION, NULL, NULL, 0,
			       hints);
		*asked[i] = 0;
	}
}

static void info_07_unneeded_modes_are_cleared(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);
	struct fi_info *info;

	hints->mode = ~0ULL;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY |
				      FI_MR_MMU_NOTIFY | FI_MR_ENDPOINT;
	for (info = get_infos(test, hints); info; info = info->next) {
		KUNIT_EXPECT_EQ(test, info->mode, 0);
		KUNIT_EXPECT_EQ(test, info->domain_attr->mr_mode &
				~hints->domain_attr->mr_mode, 0);
		KUNIT_EXPECT_EQ_MSG(test, info->domain_attr->mr_mode &
				    FI_MR_LOCAL, 0, "FI_MR_LOCAL is set");
	}
}

static void info_07_threading_is_as_hinted(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);
	enum fi_threading *threading = &hints->domain_attr->threading;

	KUNIT_EXPECT_EQ(test, FI_THREAD_SAFE,
			get_infos(test, hints)->domain_attr->threading);
	for (*threading = FI_THREAD_SAFE; *threading <= FI_THREAD_ENDPOINT;
	     ++*threading)
		KUNIT_EXPECT_EQ(test, *threading,
				get_infos(test, hints)->domain_attr->threading);
	EXPECT_REFUSED(test, -FI_ENODATA, VERSION, NULL, NULL, 0, hints);
}

/* The consumer chooses the type of its vectors, as in fi_av_open(). */
static void info_07_the_av_type_is_as_hinted(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);
	enum fi_av_type *type = &hints->domain_attr->av_type;

	hints->ep_attr->type = FI_EP_UNSPEC;
	for (*type = FI_AV_UNSPEC; *type <= FI_AV_TABLE; ++*type)
		for (struct fi_info *info = get_infos(test, hints); info; info = info->next)
			KUNIT_EXPECT_EQ(test, *type, info->domain_attr->av_type);
	EXPECT_REFUSED(test, -FI_ENODATA, VERSION, NULL, NULL, 0, hints);
}

static void info_08_primary_caps_only_when_hinted(struct kunit *test)
{
	const u64 primary = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC |
			    FI_MULTICAST | FI_NAMED_RX_CTX | FI_DIRECTED_RECV |
			    FI_HMEM | FI_VARIABLE_MSG | FI_COLLECTIVE;
	struct fi_info *info = get_infos(test, fx_hints(test));

	for (; info; info = info->next) {
		KUNIT_EXPECT_EQ(test, info->caps & primary, FI_MSG);
		KUNIT_EXPECT_EQ(test, info->tx_attr->caps & ~info->caps, 0);
		KUNIT_EXPECT_EQ(test, info->rx_attr->caps & ~info->caps, 0);
	}
}

static void info_08_context_caps_are_those_of_the_hints(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);
	struct fi_info *info;

	hints->caps = FI_MSG | FI_RMA;
	hints->tx_attr->caps = FI_MSG | FI_SEND;
	hints->rx_attr->caps = FI_RMA | FI_REMOTE_WRITE;
	info = get_infos(test, hints);
	KUNIT_ASSERT_NOT_NULL(test, info);
	for (; info; info = info->next) {
		KUNIT_EXPECT_EQ(test, info->caps & hints->caps, hints->caps);
		KUNIT_EXPECT_TRUE(test, info->caps & FI_WRITE);
		KUNIT_EXPECT_EQ(test, info->tx_attr->caps & (FI_MSG | FI_RMA | FI_SEND | FI_WRITE),
				FI_MSG | FI_SEND);
		KUNIT_EXPECT_EQ(test, info->rx_attr->caps & (FI_MSG | FI_RMA | FI_REMOTE_WRITE),
				FI_RMA | FI_REMOTE_WRITE);
		KUNIT_EXPECT_FALSE(test, info->rx_attr->caps & (FI_RECV | FI_REMOTE_READ));
	}
}

static void info_08_absent_modifiers_mean_all(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);
	struct fi_info *info;

	for (info = get_infos(test, hints); info; info = info->next)
		KUNIT_EXPECT_EQ(test, info->caps & (FI_SEND | FI_RECV),
				FI_SEND | FI_RECV);

	hints->caps = FI_MSG | FI_SEND;
	for (info = get_infos(test, hints); info; info = info->next)
		KUNIT_EXPECT_EQ(test, info->caps & (FI_SEND | FI_RECV),
				FI_SEND);
}

static void info_09_allocinfo_is_zeroed(struct kunit *test)
{
	struct fi_info *info = fi_allocinfo();

	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	KUNIT_EXPECT_NULL(test, info->next);
	KUNIT_EXPECT_EQ(test, info->caps | info->mode, 0);
	KUNIT_EXPECT_NULL(test, info->src_addr);
	KUNIT_EXPECT_NULL(test, info->handle);
	KUNIT_ASSERT_NOT_NULL(test, info->tx_attr);
	KUNIT_ASSERT_NOT_NULL(test, info->rx_attr);
	KUNIT_ASSERT_NOT_NULL(test, info->ep_attr);
	KUNIT_ASSERT_NOT_NULL(test, info->domain_attr);
	KUNIT_ASSERT_NOT_NULL(test, info->fabric_attr);
	KUNIT_EXPECT_NULL(test, memchr_inv(info->tx_attr, 0,
					   sizeof(*info->tx_attr)));
	KUNIT_EXPECT_NULL(test, memchr_inv(info->rx_attr, 0,
					   sizeof(*info->rx_attr)));
	KUNIT_EXPECT_NULL(test, memchr_inv(info->ep_attr, 0,
					   sizeof(*info->ep_attr)));
	KUNIT_EXPECT_NULL(test, memchr_inv(info->domain_attr, 0,
					   sizeof(*info->domain_attr)));
	KUNIT_EXPECT_NULL(test, memchr_inv(info->fabric_attr, 0,
					   sizeof(*info->fabric_attr)));
}

static void info_09_dupinfo_copies_one_node(struct kunit *test)
{
	struct fi_info *info = fx_info(test, fx_addr, "7471", FI_SOURCE);
	struct fi_info *rest = info->next, *copy;

	/* A second node, which must not be followed. */
	info->next = info;
	copy = fi_dupinfo(info);
	info->next = rest;
	KUNIT_ASSERT_NOT_NULL(test, copy);
	fx_defer_free(test, copy);

	KUNIT_EXPECT_NULL(test, copy->next);
	KUNIT_EXPECT_EQ(test, copy->caps, info->caps);
	KUNIT_EXPECT_EQ(test, copy->addr_format, info->addr_format);
	KUNIT_ASSERT_EQ(test, copy->src_addrlen, info->src_addrlen);
	KUNIT_EXPECT_PTR_NE(test, copy->src_addr, info->src_addr);
	KUNIT_EXPECT_MEMEQ(test, copy->src_addr, info->src_addr,
			   info->src_addrlen);
	KUNIT_EXPECT_MEMEQ(test, copy->tx_attr, info->tx_attr,
			   sizeof(*copy->tx_attr));
	KUNIT_EXPECT_MEMEQ(test, copy->rx_attr, info->rx_attr,
			   sizeof(*copy->rx_attr));
	KUNIT_EXPECT_PTR_NE(test, copy->tx_attr, info->tx_attr);
	KUNIT_EXPECT_PTR_NE(test, copy->domain_attr->name,
			    info->domain_attr->name);
	KUNIT_EXPECT_STREQ(test, copy->domain_attr->name,
			   info->domain_attr->name);
	KUNIT_EXPECT_STREQ(test, copy->fabric_attr->name,
			   info->fabric_attr->name);
	KUNIT_EXPECT_STREQ(test, copy->fabric_attr->prov_name,
			   info->fabric_attr->prov_name);
}

#define CALLERS	8

struct caller {
	struct completion	*start;
	struct completion	done;
	int			failed;
};

static int getinfo_often(void *data)
{
	struct caller *caller = data;
	bool list;

	wait_for_completion(caller->start);
	for (int round = 0; round < 25; round++) {
		if (getinfo(VERSION, fx_addr, NULL, FI_SOURCE, NULL, &list))
			caller->failed++;
		if (getinfo(VERSION, NULL, NULL, 0, NULL, &list))
			caller->failed++;
	}
	complete(&caller->done);
	return 0;
}

static void info_11_concurrent_getinfo_needs_no_lock(struct kunit *test)
{
	DECLARE_COMPLETION_ONSTACK(start);
	struct caller *callers;

	fx_info(test, fx_addr, NULL, FI_SOURCE);
	callers = kunit_kcalloc(test, CALLERS, sizeof(*callers), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, callers);
	for (int i = 0; i < CALLERS; i++) {
		struct task_struct *task;

		init_completion(&callers[i].done);
		callers[i].start = &start;
		task = kthread_run(getinfo_often, &callers[i], "kofi_asker/%d", i);
		if (IS_ERR(task)) {
			KUNIT_FAIL(test, "no thread %d", i);
			complete(&callers[i].done);
		}
	}
	complete_all(&start);
	/* Not bounded, since the threads use this stack; fi_getinfo() is bounded. */
	for (int i = 0; i < CALLERS; i++) {
		wait_for_completion(&callers[i].done);
		KUNIT_EXPECT_EQ(test, callers[i].failed, 0);
	}
}

static struct kunit_case info_cases[] = {
	KUNIT_CASE(info_01_no_match_is_enodata),
	KUNIT_CASE(info_02_newer_version_is_enosys),
	KUNIT_CASE(info_02_older_versions_are_accepted),
	KUNIT_CASE(info_03_unknown_caps_are_ebadflags),
	KUNIT_CASE(info_03_unknown_flags_are_ebadflags),
	KUNIT_CASE(info_04_source_needs_node_or_service),
	KUNIT_CASE(info_06_zero_hint_is_a_wildcard),
	KUNIT_CASE(info_06_null_attributes_are_wildcards),
	KUNIT_CASE(info_07_attributes_are_at_least_the_hints),
	KUNIT_CASE(info_07_hints_over_the_limits_are_no_match),
	KUNIT_CASE(info_07_unneeded_modes_are_cleared),
	KUNIT_CASE(info_07_threading_is_as_hinted),
	KUNIT_CASE(info_07_the_av_type_is_as_hinted),
	KUNIT_CASE(info_08_primary_caps_only_when_hinted),
	KUNIT_CASE(info_08_context_caps_are_those_of_the_hints),
	KUNIT_CASE(info_08_absent_modifiers_mean_all),
	KUNIT_CASE(info_09_allocinfo_is_zeroed),
	KUNIT_CASE(info_09_dupinfo_copies_one_node),
	KUNIT_CASE(info_11_concurrent_getinfo_needs_no_lock),
	KUNIT_CASE(info_05_without_hints_no_op_flags_are_set),
	KUNIT_CASE(info_14_remote_comm_needs_a_device),
	KUNIT_CASE(info_15_every_capability_is_offered_or_refused),
	KUNIT_CASE(info_15_every_mode_is_accepted_and_none_required),
	{}
};

static struct kunit_suite info_suite = {
	.name = "kofi_info",
	.test_cases = info_cases,
};

kunit_test_suite(info_suite);
