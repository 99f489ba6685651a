// SPDX-License-Identifier: GPL-2.0
/*
 * Tests MR of CONTRACT: regions that an endpoint registers (FI_MR_ENDPOINT).
 */

#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/vmalloc.h>

#include "mr_ep.h"

#define LEN	(32 * PAGE_SIZE)

static void mr_02_ep_mode_is_given_on_request_only(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info;
	int with = fx_is_loop() ? ME_MODE & ~FI_MR_ENDPOINT : ME_MODE;

	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_EQ(test, ME_MODE & ~FI_MR_ENDPOINT,
			info->domain_attr->mr_mode);
	hints->domain_attr->mr_mode = ME_MODE | FI_MR_LOCAL;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_EQ(test, with, info->domain_attr->mr_mode);
	hints->ep_attr->type = FI_EP_RDM;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	KUNIT_EXPECT_EQ(test, ME_MODE & ~FI_MR_ENDPOINT,
			info->domain_attr->mr_mode);
}

/* The peer has access from fi_mr_enable() until the region is closed. */
static void mr_04_peer_access_lasts_from_enable_to_close(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair(test, 4, 0);
	u64 addr = (uintptr_t)far, key;
	struct fid_mr *mr;

	mr = me_open(test, pair, far, LEN, RMA_BOTH, FI_COMPLETION, &key);
	key = fi_mr_key(mr);
	KUNIT_EXPECT_EQ(test, 0, key >> 32);
	KUNIT_EXPECT_EQ(test, addr, mr->iova);
	KUNIT_EXPECT_NULL(test, fi_mr_desc(mr));
	me_send(test, pair);
	tr_fill(near, LEN, 1);
	KUNIT_ASSERT_EQ(test, 0, me_access(test, pair, FI_WRITE, near, LEN,
					   addr, key));
	memset(near, 0, LEN);
	KUNIT_ASSERT_EQ(test, 0, me_access(test, pair, FI_READ, near, LEN,
					   addr, key));
	KUNIT_EXPECT_TRUE(test, tr_intact(near, LEN, 1));
	KUNIT_EXPECT_TRUE(test, tr_intact(far, LEN, 1));

	me_close(test, mr);
	me_expect_end(test, pair, &key);
	KUNIT_EXPECT_NE(test, 0, me_access(test, pair, FI_READ, near, 1, addr,
					   key));
}

/* An endpoint that has shut down its transmits is connected: the peer's access has to end there, too. */
static void mr_04_a_half_closed_endpoint_ends_the_access(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair(test, 1, 0);
	struct fid_mr *mr = me_open(test, pair, far, LEN, RMA_BOTH,
				    FI_COMPLETION, far);
	u64 key = fi_mr_key(mr), addr = (uintptr_t)far;

	me_send(test, pair);
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[1], FI_WRITE));
	KUNIT_ASSERT_EQ(test, 0, me_access(test, pair, FI_READ, near, 64, addr,
					   key));
	me_close(test, mr);
	me_expect_end(test, pair, far);
	KUNIT_EXPECT_NE(test, 0, me_access(test, pair, FI_READ, near, 64, addr,
					   key));
}

/* Each registration of a region of the device has another key, and the old one is invalid. */
static void mr_04_old_keys_are_invalid(struct kunit *test)
{
	u8 *far = tr_buffer(test, PAGE_SIZE), *near = tr_buffer(test, 64);
	struct kofi_pair *pair = me_pair(test, 1, 1);
	u64 addr = (uintptr_t)far, old;
	struct fid_mr *mr;

	mr = me_open(test, pair, far, 64, RMA_BOTH, FI_COMPLETION, far);
	old = fi_mr_key(mr);
	me_close(test, mr);
	me_expect_end(test, pair, far);
	mr = me_open(test, pair, far, 64, RMA_BOTH, 0, far);
	KUNIT_EXPECT_NE(test, old, fi_mr_key(mr));
	me_send(test, pair);
	KUNIT_EXPECT_EQ(test, 0, me_access(test, pair, FI_READ, near, 64, addr,
					   fi_mr_key(mr)));
	KUNIT_EXPECT_NE(test, 0, me_access(test, pair, FI_READ, near, 64, addr,
					   old));
	me_close(test, mr);
}

/* The peer has the rights of the registration only, to exactly its bytes. */
static void mr_04_bytes_behind_a_region_are_out_of_reach(struct kunit *test)
{
	u8 *far = tr_buffer(test, 2 * PAGE_SIZE), *near = tr_buffer(test, 128);
	struct kofi_pair *pair = me_pair(test, 1, 1);
	struct fid_mr *mr = me_open(test, pair, far + 64, 64, FI_REMOTE_READ, 0,
				    NULL);
	u64 addr = (uintptr_t)far + 64;

	me_send(test, pair);
	KUNIT_EXPECT_EQ(test, 0, me_access(test, pair, FI_READ, near, 64, addr,
					   fi_mr_key(mr)));
	KUNIT_EXPECT_NE(test, 0, me_access(test, pair, FI_READ, near, 65, addr,
					   fi_mr_key(mr)));
	me_close(test, mr);
}

/* More registrations than slots, while no entry is read. */
static void mr_01_silent_regions_need_no_reader(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair_with(test, (struct fx_pair_opts){
		.mr_pool = 8, .tx_size = 16, .cq_size = 16 });
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 500; i++)
		me_close(test, me_open(test, pair, far, LEN, RMA_BOTH, 0,
				       NULL));
	me_send(test, pair);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[1], &entry, 1));
}

static void mr_01_empty_pools_are_eagain(struct kunit *test)
{
	u8 *far = tr_buffer(test, PAGE_SIZE);
	struct kofi_pair *pair = me_pair(test, 2, 1);
	struct fid_mr *mr[8], *more;

	/* Two for each region that one of the endpoints can have bound. */
	for (int i = 0; i < ARRAY_SIZE(mr); i++)
		KUNIT_ASSERT_EQ(test, 0, me_map(pair->domain, far, 64, RMA_BOTH,
						&mr[i], NULL));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, me_map(pair->domain, far, 64,
						 RMA_BOTH, &more, NULL));
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_mr_bind(mr[i], &pair->ep[1]->fid,
						    0));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_mr_bind(mr[2], &pair->ep[1]->fid,
						     0));
	/* A region that was not enabled returns at once. */
	KUNIT_EXPECT_EQ(test, 0, fi_close(&mr[0]->fid));
	KUNIT_EXPECT_EQ(test, 0, fi_mr_bind(mr[2], &pair->ep[1]->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, me_map(pair->domain, far, 64, RMA_BOTH,
					&mr[0], NULL));
	for (int i = 0; i < ARRAY_SIZE(mr); i++)
		KUNIT_EXPECT_EQ(test, 0, fi_close(&mr[i]->fid));
}

static void mr_01_a_full_queue_is_eagain(struct kunit *test)
{
	u8 *far = tr_buffer(test, PAGE_SIZE);
	struct kofi_pair *pair = me_pair_with(test, (struct fx_pair_opts){
		.mr_pool = 64, .tx_size = 8 });
	struct fid *ep = &pair->ep[1]->fid;
	int ret = 0, closed = 0;
	bool enabled = false;
	struct fid_mr *mr;

	/* Unread entries keep their slots. */
	while (!ret && closed < 32) {
		KUNIT_ASSERT_EQ(test, 0, me_map(pair->domain, far, 64, RMA_BOTH,
						&mr, NULL));
		KUNIT_ASSERT_EQ(test, 0, fi_mr_bind(mr, ep, FI_COMPLETION));
		ret = fi_mr_enable(mr);
		enabled = !ret;
		ret = ret ?: fi_close(&mr->fid);
		closed += !ret;
	}
	KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
	KUNIT_EXPECT_GE(test, 8, closed);
	while (closed--)
		me_expect_end(test, pair, NULL);
	/* The refused call can be repeated. */
	if (!enabled)
		KUNIT_EXPECT_EQ(test, 0, retry_while_eagain(fi_mr_enable(mr)));
	me_close(test, mr);
	me_expect_end(test, pair, NULL);
}

static void mr_01_calls_in_the_wrong_order_are_refused(struct kunit *test)
{
	u8 *far = tr_buffer(test, PAGE_SIZE);
	struct kofi_pair *other = me_pair(test, 2, 1);
	struct kofi_pair *pair = me_pair(test, 2, 1);
	struct fid_ep *idle, *none;
	struct fid_mr *mr;
	size_t count = 1;

	KUNIT_ASSERT_EQ(test, 0, me_map(pair->domain, far, 64, RMA_BOTH, &mr,
					NULL));
	KUNIT_EXPECT_EQ(test, FI_KEY_NOTAVAIL, fi_mr_key(mr));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&pair->domain->fid));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_mr_enable(mr));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_mr_bind(mr, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_mr_bind(mr, &pair->cq[1]->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_mr_bind(mr, &pair->ep[1]->fid,
							FI_REMOTE_WRITE));
	KUNIT_EXPECT_EQ(test, -FI_EDOMAIN, fi_mr_bind(mr, &other->ep[1]->fid,
						      0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_mr_refresh(mr, NULL, 0, 0));

	/* An endpoint without a pool, and one that is not enabled. */
	none = fx_ep(test, pair->domain, pair->info);
	fx_bind(test, none, pair->eq, pair->cq[0], FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(none));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_mr_bind(mr, &none->fid, 0));
	idle = fx_ep(test, pair->domain, pair->info);
	fx_bind(test, idle, pair->eq, pair->cq[0], FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&idle->fid, FI_OPT_ENDPOINT,
					   FI_OPT_KOFI_MR_POOL, &count,
					   sizeof(count)));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_mr_bind(mr, &idle->fid, 0));

	/* Enabled, but not connected. */
	KUNIT_ASSERT_EQ(test, 0, fi_enable(idle));
	KUNIT_ASSERT_EQ(test, 0, fi_mr_bind(mr, &idle->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_mr_bind(mr, &pair->ep[1]->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, fi_mr_enable(mr));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&idle->fid));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&mr->fid));

	mr = me_open(test, pair, far, 64, RMA_BOTH, 0, NULL);
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_mr_enable(mr));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&pair->ep[1]->fid));
	me_close(test, mr);
}

static int set(struct fid_ep *ep, int name, size_t value)
{
	return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, name, &value,
			 sizeof(value));
}

static void ep_11_pool_options_are_fixed_by_enabling(struct kunit *test)
{
	struct kofi_pair *pair = me_pair(test, 3, 7);
	size_t value = 0, size = sizeof(value);
	struct fid_ep *ep = fx_ep(test, pair->domain, pair->info);

	KUNIT_EXPECT_EQ(test, 0, fi_getopt(&pair->ep[1]->fid, FI_OPT_ENDPOINT,
					   FI_OPT_KOFI_MR_POOL, &value, &size));
	KUNIT_EXPECT_EQ(test, 3, value);
	KUNIT_EXPECT_EQ(test, 0, fi_getopt(&ep->fid, FI_OPT_ENDPOINT,
					   FI_OPT_KOFI_MR_PAGES, &value,
					   &size));
	KUNIT_EXPECT_EQ(test, 32, value);
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE,
			set(pair->ep[1], FI_OPT_KOFI_MR_POOL, 4));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, set(ep, FI_OPT_KOFI_MR_PAGES, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, set(ep, FI_OPT_KOFI_MR_PAGES,
					      pair->info->domain_attr
					      ->mr_iov_limit + 1));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, set(ep, FI_OPT_KOFI_MR_POOL,
					      SIZE_MAX));
}

/* Memory that a region cannot have. */
static void mr_05_unsuitable_memory_is_refused(struct kunit *test)
{
	u8 *far = tr_buffer(test, 4 * PAGE_SIZE);
	const struct kvec gap[] = { { far, 8 }, { far + 16, 8 } };
	struct kofi_pair *pair = me_pair(test, 1, 2);
	struct fid_domain *domain = pair->domain;
	struct fid_mr *mr = NULL;
	u8 stack[8];

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, me_map(domain, stack, 8, RMA_BOTH,
						 &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, me_map(domain, NULL, 8, RMA_BOTH,
						 &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, me_map(domain, far, 0, RMA_BOTH, &mr,
						 NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, me_map(domain, far, SIZE_MAX,
						 RMA_BOTH, &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, me_map(domain, far + 1,
						 2 * PAGE_SIZE, RMA_BOTH, &mr,
						 NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_mr_regv(domain, gap, 2, RMA_BOTH, 0, 0, 0, &mr,
				   NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_mr_reg(domain, far, 8, RMA_BOTH,
						    1, 0, 0, &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_mr_reg(domain, far, 8, RMA_BOTH,
						       0, 0, 1, &mr, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, me_map(domain, far, 8,
						    RMA_BOTH | FI_TAGGED, &mr,
						    NULL));
	KUNIT_EXPECT_NULL(test, mr);
	/* Local use needs no endpoint. */
	KUNIT_ASSERT_EQ(test, 0, me_map(domain, far, 8, 0, &mr, NULL));
	KUNIT_EXPECT_NOT_NULL(test, fi_mr_desc(mr));
	KUNIT_EXPECT_EQ(test, 0, fi_mr_bind(mr, &pair->ep[1]->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_mr_enable(mr));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&mr->fid));
}

/* Regions of a lost connection end with the endpoint; the domain warns of mappings that are left. */
static void mr_06_lost_connections_end_regions(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair(test, 16, 0);
	struct fi_cq_err_entry error = {};
	struct fid_mr *mr[64];

	for (int i = 0; i < 16; i++)
		mr[i] = me_open(test, pair, far, LEN, RMA_BOTH,
				i & 1 ? FI_COMPLETION : 0, far);
	for (int i = 0; i < 8; i++)
		KUNIT_EXPECT_EQ(test, 0, fi_close(&mr[i]->fid));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	for (int i = 8; i < 12; i++)
		KUNIT_EXPECT_EQ(test, 0, fi_close(&mr[i]->fid));
	/* The entries are of invalidations that were posted before. */
	for (int i = 0; i < 4; i++) {
		struct fi_cq_tagged_entry entry = {};

		if (tr_await(pair->cq[1]) == -FI_EAVAIL) {
			KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(pair->cq[1],
							       &error, 0));
			KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
			KUNIT_EXPECT_EQ(test, FI_REGION, error.flags);
			KUNIT_EXPECT_PTR_EQ(test, (void *)far,
					    error.op_context);
			continue;
		}
		KUNIT_ASSERT_EQ(test, 1, fi_cq_read(pair->cq[1], &entry, 1));
		KUNIT_EXPECT_PTR_EQ(test, (void *)far, entry.op_context);
	}
	for (int i = 12; i < 16; i++)
		KUNIT_EXPECT_EQ(test, 0, fi_close(&mr[i]->fid));
	fx_close(test, &pair->ep[1]->fid);
	/* The domain has all its regions back. */
	for (int i = 0; i < 64; i++)
		KUNIT_ASSERT_EQ(test, 0, me_map(pair->domain, far, LEN,
						RMA_BOTH, &mr[i], NULL));
	for (int i = 0; i < 64; i++)
		KUNIT_EXPECT_EQ(test, 0, fi_close(&mr[i]->fid));
}

/* Each form of memory, of two pages that are not adjacent. */
static int map_form(struct fid_domain *domain, int form, u8 *pages[2],
		    struct fid_mr **mr)
{
	struct kvec iov[2];
	struct bio_vec bvec[2];
	struct scatterlist sgl[2];
	struct fi_mr_attr attr = { .iov_count = 2, .access = RMA_BOTH };

	sg_init_table(sgl, 2);
	for (int i = 0; i < 2; i++) {
		iov[i] = (struct kvec){ pages[i], PAGE_SIZE };
		bvec_set_page(&bvec[i], virt_to_page(pages[i]), PAGE_SIZE, 0);
		sg_set_page(&sgl[i], virt_to_page(pages[i]), PAGE_SIZE, 0);
		/* Devices under test take kernel addresses as DMA addresses. */
		sg_dma_address(&sgl[i]) = (uintptr_t)pages[i];
		sg_dma_len(&sgl[i]) = PAGE_SIZE;
	}
	switch (form) {
	case 0:
		attr.mr_iov = iov;
		return fi_mr_regattr(domain, &attr, 0, mr);
	case 1:
		attr.mr_iov = fi_iov_bvec(bvec);
		return fi_mr_regattr(domain, &attr, FI_BVEC, mr);
	case 2:
		attr.mr_iov = fi_iov_sgl(sgl);
		return fi_mr_regattr(domain, &attr, FI_SGL, mr);
	case 3:
		attr.mr_iov = fi_iov_sgl(sgl);
		return fi_mr_regattr(domain, &attr, FI_SGL | FI_SGL_DMA, mr);
	default:
		attr.mr_iov = iov;
		return fi_mr_regattr(domain, &attr, FI_BVEC | FI_SGL, mr);
	}
}

static void mr_01_memory_is_given_in_every_form(struct kunit *test)
{
	u8 *far = tr_buffer(test, 3 * PAGE_SIZE);
	u8 *near = tr_buffer(test, 2 * PAGE_SIZE);
	u8 *pages[2] = { far + 2 * PAGE_SIZE, far };
	struct kofi_pair *pair = me_pair(test, 1, 2);
	struct fid_mr *mr;

	KUNIT_ASSERT_TRUE(test, PAGE_ALIGNED(far));
	for (int form = 0; form < 4; form++) {
		KUNIT_ASSERT_EQ(test, 0, map_form(pair->domain, form, pages,
						  &mr));
		KUNIT_ASSERT_EQ(test, 0, fi_mr_bind(mr, &pair->ep[1]->fid,
						    FI_COMPLETION));
		KUNIT_ASSERT_EQ(test, 0, fi_mr_enable(mr));
		me_send(test, pair);
		tr_fill(near, 2 * PAGE_SIZE, form);
		KUNIT_ASSERT_EQ(test, 0, me_access(test, pair, FI_WRITE, near,
						   2 * PAGE_SIZE, mr->iova,
						   fi_mr_key(mr)));
		/* The answer to a read shows that the write has been placed. */
		KUNIT_ASSERT_EQ(test, 0, me_access(test, pair, FI_READ, near,
						   2 * PAGE_SIZE, mr->iova,
						   fi_mr_key(mr)));
		me_close(test, mr);
		me_expect_end(test, pair, NULL);
		for (int i = 0; i < 2; i++)
			KUNIT_EXPECT_MEMEQ_MSG(test, pages[i],
					       near + i * PAGE_SIZE, PAGE_SIZE,
					       "form %d", form);
	}
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, map_form(pair->domain, 4, pages,
						      &mr));
}

/* Regions of a domain take pages, too, and have their kernel addresses. */
static void mr_01_domains_register_pages(struct kunit *test)
{
	u8 *far = tr_buffer(test, 3 * PAGE_SIZE);
	u8 *near = tr_buffer(test, 2 * PAGE_SIZE);
	u8 *pages[2] = { far + 2 * PAGE_SIZE, far };
	const struct fx_pair_opts opts = { .caps = FI_RMA };
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fid_mr *mr;

	for (int form = 0; form < 3; form++) {
		KUNIT_ASSERT_EQ(test, 0, map_form(pair->domain, form, pages,
						  &mr));
		KUNIT_EXPECT_EQ(test, (uintptr_t)pages[0], mr->iova);
		tr_fill(pages[0], PAGE_SIZE, form);
		tr_fill(pages[1], PAGE_SIZE, form + 3);
		KUNIT_ASSERT_EQ(test, 0, me_access(test, pair, FI_READ, near,
						   2 * PAGE_SIZE, mr->iova,
						   fi_mr_key(mr)));
		KUNIT_EXPECT_TRUE(test, tr_intact(near, PAGE_SIZE, form));
		KUNIT_EXPECT_TRUE(test, tr_intact(near + PAGE_SIZE, PAGE_SIZE,
						  form + 3));
		/* The descriptor serves transfers of either page. */
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], near, PAGE_SIZE));
		KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[1], pages[1],
						 PAGE_SIZE, fi_mr_desc(mr),
						 FI_ADDR_UNSPEC, NULL));
		tr_expect(test, pair->cq[0], near, FI_RECV, PAGE_SIZE);
		tr_expect(test, pair->cq[1], NULL, FI_SEND, 0);
		KUNIT_EXPECT_TRUE(test, tr_intact(near, PAGE_SIZE, form + 3));
		KUNIT_EXPECT_EQ(test, 0, fi_close(&mr->fid));
	}
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, map_form(pair->domain, 3, pages,
						       &mr));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(mr_02_ep_mode_is_given_on_request_only),
	KUNIT_CASE(mr_04_peer_access_lasts_from_enable_to_close),
	KUNIT_CASE(mr_04_a_half_closed_endpoint_ends_the_access),
	KUNIT_CASE(mr_04_old_keys_are_invalid),
	KUNIT_CASE(mr_04_bytes_behind_a_region_are_out_of_reach),
	KUNIT_CASE(mr_01_silent_regions_need_no_reader),
	KUNIT_CASE(mr_01_empty_pools_are_eagain),
	KUNIT_CASE(mr_01_a_full_queue_is_eagain),
	KUNIT_CASE(mr_01_calls_in_the_wrong_order_are_refused),
	KUNIT_CASE(ep_11_pool_options_are_fixed_by_enabling),
	KUNIT_CASE(mr_05_unsuitable_memory_is_refused),
	KUNIT_CASE(mr_06_lost_connections_end_regions),
	KUNIT_CASE(mr_01_memory_is_given_in_every_form),
	KUNIT_CASE(mr_01_domains_register_pages),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_mr_ep",
	.test_cases = cases,
};

kunit_test_suite(suite);
