// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, INFO: opening objects with the infos of fi_getinfo(), parents and
 * children, open objects in hints, and the layouts that consumers compile
 * against.
 */

#include "rdm.h"
#include "traffic.h"

/*
 * Opens and closes an object of each class with the info; returns 0 or the
 * errno of the first failure.
 */
static int open_all(struct fi_info *info)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG };
	struct fi_eq_attr eq_attr = {};
	struct fi_av_attr av_attr = {};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_eq *eq;
	struct fid_ep *ep;
	int ret;

	ret = fi_fabric(info->fabric_attr, &fabric, NULL);
	if (ret)
		return ret;
	ret = fi_domain(fabric, info, &domain, NULL);
	if (ret)
		goto close_fabric;
	ret = fi_eq_open(fabric, &eq_attr, &eq, NULL);
	if (ret)
		goto close_domain;
	ret = fi_cq_open(domain, &cq_attr, &cq, NULL);
	if (ret)
		goto close_eq;
	ret = fi_av_open(domain, &av_attr, &av, NULL);
	if (ret)
		goto close_cq;
	ret = fi_endpoint(domain, info, &ep, NULL);
	if (ret)
		goto close_av;
	ret = fi_ep_bind(ep, &eq->fid, 0) ?:
	      fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret && info->ep_attr->type == FI_EP_RDM)
		ret = fi_ep_bind(ep, &av->fid, 0);
	ret = ret ?: fi_enable(ep);
	fi_close(&ep->fid);
close_av:
	fi_close(&av->fid);
close_cq:
	fi_close(&cq->fid);
close_eq:
	fi_close(&eq->fid);
close_domain:
	fi_close(&domain->fid);
close_fabric:
	fi_close(&fabric->fid);
	return ret;
}

static void info_05_everything_listed_can_be_opened(struct kunit *test)
{
	const char *ours = fx_info(test, fx_addr, NULL, FI_SOURCE)->domain_attr->name;
	struct fi_info *list, *info, *other;
	bool found = false;
	int ret;

	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &list);
	KUNIT_ASSERT_EQ(test, ret, 0);
	fx_defer_free(test, list);
	for (info = list; info; info = info->next) {
		found |= !strcmp(info->domain_attr->name, ours);
		ret = open_all(info);
		KUNIT_EXPECT_EQ_MSG(test, ret, 0, "opening %s: %s",
				    info->domain_attr->name, fi_strerror(ret));
		for (other = info->next; other; other = other->next)
			KUNIT_EXPECT_FALSE_MSG(test,
				info->ep_attr->type == other->ep_attr->type &&
				!strcmp(info->domain_attr->name,
					other->domain_attr->name),
				"%s is listed twice", info->domain_attr->name);
	}
	KUNIT_EXPECT_TRUE_MSG(test, found, "%s is not listed", ours);
}

static void info_10_a_fabric_with_children_is_busy(struct kunit *test)
{
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct fid_fabric *fabric = fx_fabric(test, info);
	struct fid_domain *domain;
	struct fid_pep *pep;
	struct fid_eq *eq;

	domain = fx_domain(test, fabric, info);
	KUNIT_EXPECT_EQ(test, fi_close(&fabric->fid), -FI_EBUSY);
	fx_close(test, &domain->fid);

	eq = fx_eq(test, fabric);
	KUNIT_EXPECT_EQ(test, fi_close(&fabric->fid), -FI_EBUSY);
	fx_close(test, &eq->fid);

	pep = fx_pep(test, fabric, info);
	KUNIT_EXPECT_EQ(test, fi_close(&fabric->fid), -FI_EBUSY);
	fx_close(test, &pep->fid);

	fx_close(test, &fabric->fid);
}

static void info_10_a_domain_with_children_is_busy(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	void *buf = kunit_kzalloc(test, 64, GFP_KERNEL);
	struct fid_mr *mr;
	struct fid_ep *ep;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_EXPECT_EQ(test, fi_close(&fx->domain->fid), -FI_EBUSY);
	fx_close(test, &fx->cq->fid);

	ep = fx_ep(test, fx->domain, fx->info);
	KUNIT_EXPECT_EQ(test, fi_close(&fx->domain->fid), -FI_EBUSY);
	fx_close(test, &ep->fid);

	KUNIT_ASSERT_EQ(test, fi_mr_reg(fx->domain, buf, 64, FI_SEND | FI_RECV,
					0, 0, 0, &mr, NULL), 0);
	fx_defer_close(test, &mr->fid);
	KUNIT_EXPECT_EQ(test, fi_close(&fx->domain->fid), -FI_EBUSY);
	fx_close(test, &mr->fid);

	fx_close(test, &fx->domain->fid);
}

static void info_12_a_fid_of_the_wrong_class_is_not_bound(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_pep(test, fx->fabric, fx->info);
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);
	struct fid_ep *other = fx_ep(test, fx->domain, fx->info);
	struct fid *const not_for_ep[] = {
		&fx->fabric->fid, &pep->fid, &other->fid, &ep->fid,
	};
	struct fid *const not_for_pep[] = {
		&fx->fabric->fid, &fx->domain->fid, &pep->fid, &ep->fid,
		&fx->cq->fid,
	};

	for (int i = 0; i < ARRAY_SIZE(not_for_ep); i++)
		KUNIT_EXPECT_EQ_MSG(test,
			fi_ep_bind(ep, not_for_ep[i], FI_TRANSMIT), -FI_EINVAL,
			"class %zu", not_for_ep[i]->fclass);
	for (int i = 0; i < ARRAY_SIZE(not_for_pep); i++)
		KUNIT_EXPECT_EQ_MSG(test,
			fi_pep_bind(pep, not_for_pep[i], 0), -FI_EINVAL,
			"class %zu", not_for_pep[i]->fclass);
	KUNIT_EXPECT_EQ(test, fi_domain_bind(fx->domain, &fx->cq->fid, 0),
			-FI_EINVAL);
}

static void info_13_layouts_are_those_of_libfabric(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_64BIT))
		kunit_skip(test, "the numbers are those of LP64");

	KUNIT_EXPECT_EQ(test, sizeof(struct fi_av_attr), 48);
	KUNIT_EXPECT_EQ(test, sizeof(struct fi_cq_err_entry), 88);
	KUNIT_EXPECT_EQ(test, offsetof(struct fi_cq_err_entry, err), 56);
	KUNIT_EXPECT_EQ(test, offsetof(struct fi_cq_err_entry, src_addr), 80);
	KUNIT_EXPECT_EQ(test, sizeof(struct fi_eq_err_entry), 48);
	/* The handler is kOFI's own member, after those of libfabric. */
	KUNIT_EXPECT_EQ(test, offsetof(struct fi_cq_attr, cq_event_handler),
			40);
	KUNIT_EXPECT_EQ(test, sizeof(struct fi_cq_attr), 48);
	KUNIT_EXPECT_EQ(test, offsetof(struct fi_eq_attr, eq_event_handler),
			32);
	KUNIT_EXPECT_EQ(test, sizeof(struct fid), 24);
	KUNIT_EXPECT_EQ(test, sizeof(struct fi_info), 120);
}

/* Returns the info with the largest queue sizes, up to most, that fi_getinfo() accepts. */
static struct fi_info *info_with_largest_queues(struct kunit *test, size_t most)
{
	struct fi_info *hints = fx_hints(test);
	struct fi_info *info;

	for (size_t size = most; size; size /= 2) {
		hints->tx_attr->size = size;
		hints->rx_attr->size = size;
		if (!fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
				hints, &info)) {
			fx_defer_free(test, info);
			return info;
		}
	}
	return NULL;
}

static void info_14_offered_queue_sizes_can_be_opened(struct kunit *test)
{
	struct fi_info *info;
	int ret;

	fx_info(test, fx_addr, NULL, FI_SOURCE);
	/* Memory is no capability: deeper queues may fail for lack of memory. */
	info = info_with_largest_queues(test, 4096);
	KUNIT_ASSERT_NOT_NULL(test, info);
	ret = open_all(info);
	KUNIT_EXPECT_EQ_MSG(test, ret, 0, "%zu and %zu deep: %s",
			    info->tx_attr->size, info->rx_attr->size,
			    fi_strerror(ret));
}

static void info_14_capabilities_not_offered_are_refused(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fi_info *hints = fx_hints(test);
	struct fi_info *info;
	struct fid_ep *ep;
	u64 offered;
	int ret;

	/* Without capabilities in the hints, the info has all those offered. */
	hints->caps = 0;
	ret = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints,
			 &info);
	KUNIT_ASSERT_EQ(test, ret, 0);
	offered = info->caps;
	fi_freeinfo(info);

	for (int bit = 0; bit < 64; bit++) {
		u64 cap = BIT_ULL(bit);

		/* FI_REMOTE_SIGNAL is offered only to hints that ask for it. */
		if (offered & cap || cap == FI_REMOTE_SIGNAL)
			continue;
		hints->caps = cap;
		ret = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
				 hints, &info);
		KUNIT_EXPECT_TRUE_MSG(test, ret == -FI_ENODATA ||
				      ret == -FI_EBADFLAGS, "bit %d: %d", bit,
				      ret);
		if (!ret)
			fi_freeinfo(info);
	}

	/* An info that was changed to an endpoint type not offered is refused too. */
	info = fi_dupinfo(pair->info);
	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	info->ep_attr->type = FI_EP_RDM;
	ret = fi_endpoint(pair->domain, info, &ep, NULL);
	KUNIT_EXPECT_LT(test, ret, 0);
	if (!ret)
		fi_close(&ep->fid);
}

/* On iWARP a send completes when TCP has the data, which says nothing about the peer. */
static void info_14_completion_levels_not_offered_are_refused(struct kunit *test)
{
	static const u64 levels[] = {
		FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
	};
	struct kofi_pair *pair = fx_pair(test, NULL);
	bool iwarp = pair->info->ep_attr->protocol == FI_PROTO_IWARP;
	struct fi_info *hints = fx_hints(test), *info = NULL;
	struct fi_msg msg = {};
	struct fid_ep *ep;

	for (int i = 0; i < ARRAY_SIZE(levels); i++) {
		bool offered = !iwarp || levels[i] == FI_INJECT_COMPLETE;

		hints->tx_attr->op_flags = levels[i];
		KUNIT_EXPECT_EQ(test, offered ? 0 : -FI_ENODATA,
				fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL,
					   FI_SOURCE, hints, &info));
		fi_freeinfo(info);

		info = fi_dupinfo(pair->info);
		KUNIT_ASSERT_NOT_NULL(test, info);
		info->tx_attr->op_flags = levels[i];
		ep = NULL;
		KUNIT_EXPECT_EQ(test, offered ? 0 : -FI_EINVAL,
				fi_endpoint(pair->domain, info, &ep, NULL));
		if (ep)
			fi_close(&ep->fid);
		fi_freeinfo(info);

		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], NULL, 0, NULL, 0,
						 NULL));
		KUNIT_EXPECT_EQ(test, offered ? 0 : -FI_EOPNOTSUPP,
				fi_sendmsg(pair->ep[0], &msg, levels[i]));
	}
}

/*
 * Atomics of several requests are overtaken by later operations, so an info has
 * either strict completion order or atomics.
 */
static void info_14_strict_order_excludes_atomics(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info;
	bool has_atomics;
	int ret;

	hints->caps = 0;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	if (fx_is_loop())
		kunit_skip(test, "it has both");
	has_atomics = info->caps & FI_ATOMIC;
	KUNIT_EXPECT_EQ(test, !tr_is_iwarp(info), has_atomics);
	KUNIT_EXPECT_EQ(test, has_atomics ? FI_ORDER_NONE : FI_ORDER_STRICT,
			info->tx_attr->comp_order);
	hints->tx_attr->comp_order = FI_ORDER_STRICT;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_FALSE(test, info->caps & FI_ATOMIC);
	KUNIT_EXPECT_EQ(test, FI_ORDER_STRICT, info->tx_attr->comp_order);
	hints->caps = FI_MSG | FI_RMA;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_EQ(test, FI_ORDER_STRICT, info->tx_attr->comp_order);
	hints->caps |= FI_ATOMIC;
	ret = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints,
			 &info);
	KUNIT_EXPECT_EQ(test, -FI_ENODATA, ret);
	if (!ret)
		fi_freeinfo(info);
}

/* An event queue of another fabric would misread prov_errno, and is closed with its own fabric. */
static void info_12_an_event_queue_of_another_fabric_is_not_bound(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_eq *other = fx_eq(test, fx_fabric(test, fx->info));
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);
	struct fid_pep *pep = fx_pep(test, fx->fabric, fx->info);

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_domain_bind(fx->domain, &other->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(ep, &other->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, &fx->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_pep_bind(pep, &other->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_pep_bind(pep, &fx->eq->fid, 0));
	fx_close(test, &pep->fid);
	fx_close(test, &ep->fid);
}

/* Returns the number of infos for the hints; each has to name these objects. */
static int expect_infos(struct kunit *test, struct fi_info *hints, struct fid_fabric *fabric,
			struct fid_domain *domain, const struct fi_info *like)
{
	struct fi_info *info = NULL;
	int count = 0, ret;

	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	KUNIT_EXPECT_EQ(test, ret ? -FI_ENODATA : 0, ret);
	for (struct fi_info *it = info; it; it = it->next) {
		KUNIT_EXPECT_PTR_EQ(test, fabric, it->fabric_attr->fabric);
		if (domain)
			KUNIT_EXPECT_PTR_EQ(test, domain, it->domain_attr->domain);
		KUNIT_EXPECT_STREQ(test, like->fabric_attr->prov_name, it->fabric_attr->prov_name);
		KUNIT_EXPECT_STREQ(test, like->fabric_attr->name, it->fabric_attr->name);
		if (domain)
			KUNIT_EXPECT_STREQ(test, like->domain_attr->name, it->domain_attr->name);
		count++;
	}
	fi_freeinfo(info);
	return count;
}

/* Allocates hints without restrictions. */
static struct fi_info *any_hints(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);

	hints->caps = 0;
	hints->ep_attr->type = FI_EP_UNSPEC;
	return hints;
}

/* Opens a fabric and a domain of the loop provider, which is offered only by name. */
static struct fid_domain *open_loop(struct kunit *test, struct fi_info **info,
				    struct fid_fabric **fabric)
{
	struct fi_info *hints = fx_hints(test);

	hints->fabric_attr->prov_name = kstrdup("loop", GFP_KERNEL);
	*info = fx_info_for(test, hints, NULL, NULL, 0);
	*fabric = fx_fabric(test, *info);
	return fx_domain(test, *fabric, *info);
}

static void info_16_an_open_fabric_restricts_the_offer(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_info *hints = any_hints(test), *loop_info;
	struct kofi_rdm *rdm = rdm_make(test, NULL);
	struct fid_fabric *loop;

	open_loop(test, &loop_info, &loop);
	hints->fabric_attr->fabric = fx->fabric;
	KUNIT_EXPECT_GT(test, expect_infos(test, hints, fx->fabric, NULL, fx->info), 0);
	hints->fabric_attr->fabric = rdm->fabric;
	KUNIT_EXPECT_GT(test, expect_infos(test, hints, rdm->fabric, NULL, rdm->info), 0);
	hints->fabric_attr->fabric = loop;
	KUNIT_EXPECT_EQ(test, 1, expect_infos(test, hints, loop, NULL, loop_info));
	/* The other hints still apply. */
	hints->ep_attr->type = FI_EP_RDM;
	KUNIT_EXPECT_EQ(test, 0, expect_infos(test, hints, loop, NULL, loop_info));
	hints->ep_attr->type = FI_EP_UNSPEC;
	hints->fabric_attr->prov_name = kstrdup("no such provider", GFP_KERNEL);
	KUNIT_EXPECT_EQ(test, 0, expect_infos(test, hints, loop, NULL, loop_info));
}

static void info_16_an_open_domain_restricts_the_offer(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_info *hints = any_hints(test), *loop_info, *info;
	struct kofi_rdm *rdm = rdm_make(test, NULL);
	struct fid_fabric *loop;
	struct fid_domain *loop_domain = open_loop(test, &loop_info, &loop);
	struct {
		struct fid_fabric *fabric;
		struct fid_domain *domain;
		struct fi_info *info;
	} rows[] = {
		{ fx->fabric, fx->domain, fx->info },
		{ rdm->fabric, rdm->domain, rdm->info },
		{ loop, loop_domain, loop_info },
	};

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		hints->domain_attr->domain = rows[i].domain;
		hints->fabric_attr->fabric = NULL;
		KUNIT_EXPECT_EQ(test, 1, expect_infos(test, hints, rows[i].fabric, rows[i].domain,
						      rows[i].info));
		for (int n = 0; n < ARRAY_SIZE(rows); n++) {
			hints->fabric_attr->fabric = rows[n].fabric;
			KUNIT_EXPECT_EQ(test, n == i,
					expect_infos(test, hints, rows[i].fabric, rows[i].domain,
						     rows[i].info));
		}
		/* The info is for endpoints of that domain. */
		hints->fabric_attr->fabric = NULL;
		info = fx_info_for(test, hints, NULL, NULL, 0);
		fx_close(test, &fx_ep(test, rows[i].domain, info)->fid);
		/* A copy names the domain too, and works as hints. */
		info = fi_dupinfo(info);
		KUNIT_ASSERT_NOT_NULL(test, info);
		fx_defer_free(test, info);
		KUNIT_EXPECT_PTR_EQ(test, rows[i].domain, info->domain_attr->domain);
		KUNIT_EXPECT_EQ(test, 1, expect_infos(test, info, rows[i].fabric, rows[i].domain,
						      rows[i].info));
	}
}

/* The domain's attributes are fixed: hints that ask for others get no info. */
static void info_16_attributes_are_those_of_the_open_domain(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info;
	struct fid_domain *domain;

	hints->caps |= FI_RMA;
	hints->addr_format = FI_ADDR_STR;
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
	hints->domain_attr->av_type = FI_AV_MAP;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	info->domain_attr->av_type = FI_AV_MAP;
	domain = fx_domain(test, fx_fabric(test, info), info);

	hints = fx_hints(test);
	hints->caps |= FI_RMA;
	hints->domain_attr->domain = domain;
	info = fx_info_for(test, hints, NULL, NULL, 0);
	KUNIT_EXPECT_EQ(test, FI_ADDR_STR, info->addr_format);
	KUNIT_EXPECT_EQ(test, FI_MR_PROV_KEY, info->domain_attr->mr_mode);
	KUNIT_EXPECT_EQ(test, FI_AV_MAP, info->domain_attr->av_type);
	KUNIT_EXPECT_EQ(test, FI_THREAD_DOMAIN, info->domain_attr->threading);

	hints->addr_format = FI_SOCKADDR_IN;
	KUNIT_EXPECT_EQ(test, 0, expect_infos(test, hints, NULL, domain, info));
	hints->addr_format = 0;
	hints->domain_attr->av_type = FI_AV_TABLE;
	KUNIT_EXPECT_EQ(test, 0, expect_infos(test, hints, NULL, domain, info));
}

static void info_16_a_closed_object_is_no_match(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_info *hints = any_hints(test);

	fx_close(test, &fx->cq->fid);
	fx_close(test, &fx->eq->fid);
	hints->domain_attr->domain = fx->domain;
	fx_close(test, &fx->domain->fid);
	KUNIT_EXPECT_EQ(test, 0, expect_infos(test, hints, NULL, NULL, fx->info));
	hints->domain_attr->domain = NULL;
	hints->fabric_attr->fabric = fx->fabric;
	fx_close(test, &fx->fabric->fid);
	KUNIT_EXPECT_EQ(test, 0, expect_infos(test, hints, NULL, NULL, fx->info));
}

/*
 * Without a fabric or domain in the hints, an info names the first matching
 * object of its caller.
 */
static void info_16_infos_name_open_objects(struct kunit *test)
{
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct fid_fabric *fabric[2];
	struct fid_domain *domain[2];

	KUNIT_EXPECT_NULL(test, info->fabric_attr->fabric);
	KUNIT_EXPECT_NULL(test, info->domain_attr->domain);
	for (int i = 0; i < 2; i++) {
		fabric[i] = fx_fabric(test, info);
		domain[i] = fx_domain(test, fabric[i], info);
	}
	info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_PTR_EQ(test, fabric[0], info->fabric_attr->fabric);
	KUNIT_EXPECT_PTR_EQ(test, domain[0], info->domain_attr->domain);
	fx_close(test, &domain[0]->fid);
	info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_PTR_EQ(test, fabric[0], info->fabric_attr->fabric);
	KUNIT_EXPECT_NULL(test, info->domain_attr->domain);
	fx_close(test, &fabric[0]->fid);
	info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_PTR_EQ(test, fabric[1], info->fabric_attr->fabric);
	KUNIT_EXPECT_PTR_EQ(test, domain[1], info->domain_attr->domain);
}

/* A domain with FI_THREAD_COMPLETION refuses infos with FI_THREAD_SAFE, so these do not name it. */
static void info_16_infos_name_no_domain_that_refuses_them(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info;
	struct fid_fabric *fabric;

	hints->domain_attr->threading = FI_THREAD_COMPLETION;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	fabric = fx_fabric(test, info);
	fx_domain(test, fabric, info);

	info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_EQ(test, FI_THREAD_SAFE, info->domain_attr->threading);
	KUNIT_EXPECT_PTR_EQ(test, fabric, info->fabric_attr->fabric);
	KUNIT_EXPECT_NULL(test, info->domain_attr->domain);
	fx_info_for(test, info, fx_addr, NULL, FI_SOURCE);
}

static struct kunit_case info_open_cases[] = {
	KUNIT_CASE(info_05_everything_listed_can_be_opened),
	KUNIT_CASE(info_10_a_fabric_with_children_is_busy),
	KUNIT_CASE(info_10_a_domain_with_children_is_busy),
	KUNIT_CASE(info_12_a_fid_of_the_wrong_class_is_not_bound),
	KUNIT_CASE(info_12_an_event_queue_of_another_fabric_is_not_bound),
	KUNIT_CASE(info_13_layouts_are_those_of_libfabric),
	KUNIT_CASE(info_14_offered_queue_sizes_can_be_opened),
	KUNIT_CASE(info_14_capabilities_not_offered_are_refused),
	KUNIT_CASE(info_14_completion_levels_not_offered_are_refused),
	KUNIT_CASE(info_14_strict_order_excludes_atomics),
	KUNIT_CASE(info_16_an_open_fabric_restricts_the_offer),
	KUNIT_CASE(info_16_an_open_domain_restricts_the_offer),
	KUNIT_CASE(info_16_attributes_are_those_of_the_open_domain),
	KUNIT_CASE(info_16_a_closed_object_is_no_match),
	KUNIT_CASE(info_16_infos_name_open_objects),
	KUNIT_CASE(info_16_infos_name_no_domain_that_refuses_them),
	{}
};

static struct kunit_suite info_open_suite = {
	.name = "kofi_info_open",
	.test_cases = info_open_cases,
};

kunit_test_suite(info_open_suite);
