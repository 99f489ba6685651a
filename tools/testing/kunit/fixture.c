// SPDX-License-Identifier: GPL-2.0
/*
 * Opened objects, connected endpoints and bounded waits for the suites.
 */

#include <kunit/test-bug.h>
#include <linux/in6.h>
#include <linux/socket.h>

#include <rdma/fi_ext.h>

#include "fixture.h"

static void close_action(void *ctx)
{
	struct kunit *test = kunit_get_current_test();
	struct fid *fid = ctx;
	size_t class = fid->fclass;
	int ret = fi_close(fid);

	KUNIT_EXPECT_EQ_MSG(test, ret, 0, "closing a fid of class %zu: %s",
			    class, fi_strerror(ret));
}

void fx_defer_close(struct kunit *test, struct fid *fid)
{
	int ret = kunit_add_action_or_reset(test, close_action, fid);

	KUNIT_ASSERT_EQ(test, ret, 0);
}

void fx_close(struct kunit *test, struct fid *fid)
{
	kunit_release_action(test, close_action, fid);
}

void fx_cancel_close(struct kunit *test, struct fid *fid)
{
	kunit_remove_action(test, close_action, fid);
}

KUNIT_DEFINE_ACTION_WRAPPER(free_action, fi_freeinfo, struct fi_info *);

void fx_defer_free(struct kunit *test, struct fi_info *info)
{
	int ret = kunit_add_action_or_reset(test, free_action, info);

	KUNIT_ASSERT_EQ(test, ret, 0);
}

struct fi_info *fx_hints(struct kunit *test)
{
	struct fi_info *hints = fi_allocinfo();

	KUNIT_ASSERT_NOT_NULL(test, hints);
	fx_defer_free(test, hints);
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_MSG;
	return hints;
}

struct fi_info *fx_info(struct kunit *test, const char *node,
			const char *service, u64 flags)
{
	return fx_info_for(test, fx_hints(test), node, service, flags);
}

bool fx_is_loop(void)
{
	return !strcmp(fx_addr, "127.0.0.1");
}

/*
 * Returns true for hints that ask connected endpoints for a shared receive
 * context, which the loop provider has not.
 */
static bool is_for_devices(const struct fi_info *hints)
{
	return hints->ep_attr->type != FI_EP_RDM &&
	       hints->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
}

struct fi_info *fx_info_for(struct kunit *test, const struct fi_info *hints,
			    const char *node, const char *service, u64 flags)
{
	struct fi_info *info = NULL;
	int ret;

	if (!*fx_addr)
		kunit_skip(test, "no device: give the module addr=");

	ret = fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints, &info);
	if (ret == -FI_ENODATA && fx_is_loop() && is_for_devices(hints))
		kunit_skip(test, "not without a device");
	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_getinfo(%s, %s): %s", node ?: "-",
			    service ?: "-", fi_strerror(ret));
	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	return info;
}

struct fid_fabric *fx_fabric(struct kunit *test, struct fi_info *info)
{
	struct fid_fabric *fabric;
	int ret = fi_fabric(info->fabric_attr, &fabric, NULL);

	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_fabric: %s", fi_strerror(ret));
	fx_defer_close(test, &fabric->fid);
	return fabric;
}

struct fid_domain *fx_domain(struct kunit *test, struct fid_fabric *fabric,
			     struct fi_info *info)
{
	struct fid_domain *domain;
	int ret = fi_domain(fabric, info, &domain, NULL);

	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_domain: %s", fi_strerror(ret));
	fx_defer_close(test, &domain->fid);
	return domain;
}

struct fid_eq *fx_eq(struct kunit *test, struct fid_fabric *fabric)
{
	struct fi_eq_attr attr = {
		.flags = FI_WRITE,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct fid_eq *eq;
	int ret = fi_eq_open(fabric, &attr, &eq, NULL);

	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_eq_open: %s", fi_strerror(ret));
	fx_defer_close(test, &eq->fid);
	return eq;
}

struct fid_cq *fx_cq(struct kunit *test, struct fid_domain *domain,
		     struct fi_cq_attr *attr)
{
	struct fid_cq *cq;
	int ret = fi_cq_open(domain, attr, &cq, NULL);

	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_cq_open: %s", fi_strerror(ret));
	fx_defer_close(test, &cq->fid);
	return cq;
}

struct fid_ep *fx_ep(struct kunit *test, struct fid_domain *domain,
		     struct fi_info *info)
{
	struct fid_ep *ep;
	int ret = fi_endpoint(domain, info, &ep, NULL);

	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_endpoint: %s", fi_strerror(ret));
	fx_defer_close(test, &ep->fid);
	return ep;
}

struct fid_pep *fx_pep(struct kunit *test, struct fid_fabric *fabric,
		       struct fi_info *info)
{
	struct fid_pep *pep;
	int ret = fi_passive_ep(fabric, info, &pep, NULL);

	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_passive_ep: %s",
			    fi_strerror(ret));
	fx_defer_close(test, &pep->fid);
	return pep;
}

struct fid_pep *fx_listen(struct kunit *test, struct fid_fabric *fabric,
			  struct fi_info *info, struct fid_eq *eq)
{
	struct fid_pep *pep = fx_pep(test, fabric, info);

	KUNIT_ASSERT_EQ(test, fi_pep_bind(pep, &eq->fid, 0), 0);
	KUNIT_ASSERT_EQ(test, fi_listen(pep), 0);
	return pep;
}

static const struct fi_cq_attr default_cq = {
	.format = FI_CQ_FORMAT_TAGGED,
	.wait_obj = FI_WAIT_UNSPEC,
};

void fx_set_threading(struct fi_info *hints, enum fi_threading threading)
{
	if (threading == FI_THREAD_UNSPEC && fx_serial)
		threading = FI_THREAD_COMPLETION;
	hints->domain_attr->threading = threading;
}

struct kofi_fabric_fx *fx_open(struct kunit *test)
{
	return fx_open_for(test, FI_THREAD_UNSPEC);
}

struct kofi_fabric_fx *fx_open_for(struct kunit *test,
				   enum fi_threading threading)
{
	struct fi_info *hints = fx_hints(test);
	struct fi_cq_attr attr = default_cq;
	struct kofi_fabric_fx *fx;

	fx = kunit_kzalloc(test, sizeof(*fx), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, fx);
	fx_set_threading(hints, threading);
	fx->info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	fx->fabric = fx_fabric(test, fx->info);
	fx->domain = fx_domain(test, fx->fabric, fx->info);
	fx->eq = fx_eq(test, fx->fabric);
	fx->cq = fx_cq(test, fx->domain, &attr);
	return fx;
}

void fx_bind(struct kunit *test, struct fid_ep *ep, struct fid_eq *eq,
	     struct fid_cq *cq, u64 cq_flags)
{
	KUNIT_ASSERT_EQ(test, fi_ep_bind(ep, &eq->fid, 0), 0);
	KUNIT_ASSERT_EQ(test, fi_ep_bind(ep, &cq->fid, cq_flags), 0);
}

struct fid_ep *fx_bound_ep(struct kunit *test, struct kofi_fabric_fx *fx)
{
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);

	fx_bind(test, ep, fx->eq, fx->cq, FI_TRANSMIT | FI_RECV);
	return ep;
}

void fx_start_connect(struct kunit *test, struct fid_ep *ep,
		      struct fid_pep *pep)
{
	struct sockaddr_storage to;	/* or FI_ADDR_STR */
	size_t len = sizeof(to);
	int ret;

	ret = fi_getname(&pep->fid, &to, &len);
	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_getname: %s", fi_strerror(ret));
	ret = fi_connect(ep, &to, NULL, 0);
	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_connect: %s", fi_strerror(ret));
}

struct fi_info *fx_wait_request(struct kunit *test, struct fid_eq *eq)
{
	struct fx_cm_event event;
	int ret = fx_wait_event(test, eq, FI_CONNREQ, &event, sizeof(event));

	KUNIT_ASSERT_GT(test, ret, 0);
	KUNIT_ASSERT_NOT_NULL(test, event.entry.info);
	fx_defer_free(test, event.entry.info);
	return event.entry.info;
}

static bool try_accept(struct kunit *test, struct fid_ep *ep,
		       struct fid_eq *eq)
{
	struct fx_cm_event event;
	int ret;

	ret = fi_accept(ep, NULL, 0);
	KUNIT_ASSERT_EQ_MSG(test, ret, 0, "fi_accept: %s", fi_strerror(ret));
	for (int side = 0; side < 2; side++) {
		ret = fx_wait_event(test, eq, FI_CONNECTED, &event,
				    sizeof(event));
		if (ret < 0)
			return false;
	}
	return true;
}

void fx_finish_accept(struct kunit *test, struct fid_ep *ep,
		      struct fid_eq *eq)
{
	KUNIT_ASSERT_TRUE(test, try_accept(test, ep, eq));
}

struct fid_ep *fx_connect(struct kunit *test, struct fid_domain *domain,
			  struct fid_ep *ep, struct fid_pep *pep,
			  struct fid_eq *eq, struct fid_cq *cq)
{
	struct fid_ep *accepted;

	fx_start_connect(test, ep, pep);
	accepted = fx_ep(test, domain, fx_wait_request(test, eq));
	fx_bind(test, accepted, eq, cq, FI_TRANSMIT | FI_RECV);
	fx_finish_accept(test, accepted, eq);
	return accepted;
}

bool fx_try_connect(struct kunit *test, struct kofi_fabric_fx *fx, struct fid_pep *pep,
		    struct fid_ep *ep[2])
{
	ep[0] = fx_bound_ep(test, fx);
	fx_start_connect(test, ep[0], pep);
	ep[1] = fx_ep(test, fx->domain, fx_wait_request(test, fx->eq));
	fx_bind(test, ep[1], fx->eq, fx->cq, FI_TRANSMIT | FI_RECV);
	return try_accept(test, ep[1], fx->eq);
}

static void set_depths(struct fi_info *info, const struct fx_pair_opts *opts)
{
	info->tx_attr->size = opts->tx_size ?: info->tx_attr->size;
	info->rx_attr->size = opts->rx_size ?: info->rx_attr->size;
}

static void open_counters(struct kunit *test, struct kofi_pair *pair)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	for (int i = 0; i < 2 * FX_COUNTERS; i++) {
		struct fid_cntr **cntr = &pair->cntr[i & 1][i / 2];

		KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(pair->domain, &attr, cntr,
						      NULL));
		fx_defer_close(test, &(*cntr)->fid);
	}
}

static const u64 counted[FX_COUNTERS] = {
	[FX_SENDS] = FI_SEND,
	[FX_RECVS] = FI_RECV,
	[FX_WRITES] = FI_WRITE,
	[FX_READS] = FI_READ,
};

/* Sets the number of regions that the endpoint can register, and the pages of each. */
static void set_region_limits(struct kunit *test, struct fid_ep *ep,
			      const struct fx_pair_opts *opts)
{
	const size_t size = sizeof(size_t);

	if (opts->mr_pool)
		KUNIT_ASSERT_EQ(test, 0, fi_setopt(&ep->fid, FI_OPT_ENDPOINT,
						   FI_OPT_KOFI_MR_POOL,
						   &opts->mr_pool, size));
	if (opts->mr_pages)
		KUNIT_ASSERT_EQ(test, 0, fi_setopt(&ep->fid, FI_OPT_ENDPOINT,
						   FI_OPT_KOFI_MR_PAGES,
						   &opts->mr_pages, size));
}

static void bind_side(struct kunit *test, struct kofi_pair *pair, int side,
		      const struct fx_pair_opts *opts)
{
	struct fid_ep *ep = pair->ep[side];
	struct fid *cq = &pair->cq[side]->fid;
	u64 tx = FI_TRANSMIT | opts->tx_flags;
	u64 rx = FI_RECV | opts->rx_flags;

	set_region_limits(test, ep, opts);
	KUNIT_ASSERT_EQ(test, fi_ep_bind(ep, &pair->eq->fid, 0), 0);
	KUNIT_ASSERT_EQ(test, fi_ep_bind(ep, cq, tx), 0);
	KUNIT_ASSERT_EQ(test, fi_ep_bind(ep, cq, rx), 0);
	for (int i = 0; opts->count && i < FX_COUNTERS; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep,
						    &pair->cntr[side][i]->fid,
						    counted[i]));
}

static bool try_connect(struct kunit *test, struct kofi_pair *pair,
			const struct fx_pair_opts *opts)
{
	struct fi_info *request;

	pair->ep[0] = fx_ep(test, pair->domain, pair->info);
	bind_side(test, pair, 0, opts);
	fx_start_connect(test, pair->ep[0], pair->pep);

	request = fx_wait_request(test, pair->eq);
	set_depths(request, opts);
	pair->ep[1] = fx_ep(test, pair->domain, request);
	bind_side(test, pair, 1, opts);
	return try_accept(test, pair->ep[1], pair->eq);
}

struct kofi_pair *fx_pair(struct kunit *test, const struct fx_pair_opts *opts)
{
	static const struct fx_pair_opts defaults;
	struct fi_cq_attr attr = default_cq;
	struct fi_info *hints;
	struct kofi_pair *pair;

	opts = opts ?: &defaults;
	attr.size = opts->cq_size;
	attr.format = opts->format ?: attr.format;
	if (opts->no_wait)
		attr.wait_obj = FI_WAIT_NONE;

	pair = kunit_kzalloc(test, sizeof(*pair), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pair);
	hints = fx_hints(test);
	hints->caps |= opts->caps;
	hints->mode = opts->mode;
	hints->domain_attr->mr_mode = opts->mr_mode;
	fx_set_threading(hints, opts->threading);
	/* Exceeds the inline size of siw, so that the copy for injects is tested. */
	hints->tx_attr->inject_size = 128;
	pair->info = fx_info_for(test, hints, opts->node ?: fx_addr, NULL,
				 FI_SOURCE);
	set_depths(pair->info, opts);
	pair->fabric = fx_fabric(test, pair->info);
	pair->domain = fx_domain(test, pair->fabric, pair->info);
	pair->eq = fx_eq(test, pair->fabric);
	pair->cq[0] = fx_cq(test, pair->domain, &attr);
	pair->cq[1] = opts->one_cq ? pair->cq[0] :
				     fx_cq(test, pair->domain, &attr);
	if (opts->count)
		open_counters(test, pair);
	pair->pep = fx_listen(test, pair->fabric, pair->info, pair->eq);

	for (unsigned int n = 1; !try_connect(test, pair, opts); n++) {
		KUNIT_ASSERT_LT_MSG(test, n, max(opts->tries, 1U),
				    "the connection was not established");
		/* Closing the endpoints discards their unread events. */
		fx_close(test, &pair->ep[1]->fid);
		fx_close(test, &pair->ep[0]->fid);
	}
	return pair;
}
