// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of HPE's kfabric whose arguments mean something else than libfabric's:
 * scatterlists, bindings, keys and registrations. See Documentation/kfabric.rst.
 */

#include <linux/device.h>
#include <rdma/kfi/kfi_cxi_ext.h>
#include <rdma/kfi/kfi_log.h>
#include <rdma/kfi/kfi_tagged.h>

#include "kfi_map.h"
#include "sep.h"
#include "traffic.h"

#define ENTRIES	4
#define PART	64
#define SIZE	(ENTRIES * PART)

static struct scatterlist *list_of(struct kunit *test, u8 *buf)
{
	struct scatterlist *sgl = (void *)tr_buffer(test, ENTRIES * sizeof(*sgl));

	sg_init_table(sgl, ENTRIES);
	for (int i = 0; i < ENTRIES; i++)
		sg_set_buf(&sgl[i], buf + i * PART, PART);
	return sgl;
}

/* Maps the list as an IOMMU does that merges its entries to one segment or two. */
static size_t merge(struct kunit *test, struct scatterlist *sgl, size_t segments)
{
#ifdef CONFIG_NEED_SG_DMA_LENGTH
	for (size_t i = 0; i < segments; i++) {
		sg_dma_address(&sgl[i]) = SZ_1M + i * SZ_4K;
		sg_dma_len(&sgl[i]) = SIZE / segments;
	}
#else
	kunit_skip(test, "the mappings of this architecture are not merged");
#endif
	return segments;
}

static void kfi_a_merged_list_is_transferred_whole(struct kunit *test)
{
	u8 *out = tr_buffer(test, SIZE), *in = tr_buffer(test, SIZE);
	struct scatterlist *sgl[2] = { list_of(test, out), list_of(test, in) };
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (size_t segments = 1; segments <= 2; segments++) {
		merge(test, sgl[0], segments);
		merge(test, sgl[1], segments);
		tr_fill(out, SIZE, segments);
		KUNIT_ASSERT_EQ(test, 0, kfi_recvsgl(pair->ep[1], sgl[1], NULL, segments, 0, in));
		KUNIT_ASSERT_EQ(test, 0, kfi_sendsgl(pair->ep[0], sgl[0], NULL, segments, 0, out));
		tr_expect(test, pair->cq[1], in, KFI_RECV, SIZE);
		tr_expect(test, pair->cq[0], out, KFI_SEND, 0);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, SIZE, segments));
	}
}

static void kfi_a_merged_list_is_written_and_registered_whole(struct kunit *test)
{
	const struct fx_pair_opts opts = { .caps = KFI_RMA };
	u8 *out = tr_buffer(test, SIZE);
	u8 *far = (u8 *)(tr_buffer(test, 2 * PAGE_SIZE));
	struct scatterlist *sgl = list_of(test, out), *pages = list_of(test, far);
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fi_cq_tagged_entry entry;
	struct kfid_mr *mr;

	merge(test, sgl, 1);
	merge(test, pages, 1);
	KUNIT_ASSERT_EQ(test, 0, kfi_mr_regsgl(pair->domain, pages, 1, KFI_REMOTE_WRITE, 0, 0, 0,
					       &mr, NULL));
	fx_defer_close(test, &mr->fid);
	tr_fill(out, SIZE, 1);
	KUNIT_ASSERT_EQ(test, 0, kfi_writesgl(pair->ep[0], sgl, NULL, 1, 0, mr->iova,
					      kfi_mr_key(mr), out));
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[0], &entry, 1));
	/* The write has arrived when a later message has. */
	tr_exchange(test, pair, 0, out, far + PAGE_SIZE, PART);
	KUNIT_EXPECT_TRUE(test, tr_intact(far, SIZE, 1));
}

/* A list that is not mapped has no segments; one with other lengths is another's mapping. */
static void kfi_unmapped_lists_are_einval(struct kunit *test)
{
	u8 *buf = tr_buffer(test, SIZE);
	struct scatterlist *sgl = list_of(test, buf);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct kfid_ep *ep = pair->ep[0];
	struct kfid_mr *mr;

	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_sendsgl(ep, sgl, NULL, ENTRIES, 0, buf));
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_recvsgl(ep, sgl, NULL, ENTRIES, 0, buf));
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_sendsgl(ep, NULL, NULL, 1, 0, buf));
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_mr_regsgl(pair->domain, sgl, ENTRIES, 0, 0, 0, 0,
							 &mr, NULL));
	kfi_map(sgl, ENTRIES);
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_mr_regsgl(pair->domain, sgl, 0, 0, 0, 0, 0, &mr,
							 NULL));
#ifdef CONFIG_NEED_SG_DMA_LENGTH
	sg_dma_len(&sgl[0]) = PART / 2;
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_sendsgl(ep, sgl, NULL, 1, 0, buf));
	sg_dma_len(&sgl[0]) = SIZE + 1;
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_sendsgl(ep, sgl, NULL, 1, 0, buf));
#endif
}

static void kfi_registrations_of_pages(struct kunit *test)
{
	u8 *buf = tr_buffer(test, SIZE), *out = tr_buffer(test, SIZE);
	const struct fx_pair_opts opts = { .caps = KFI_RMA };
	struct scatterlist *sgl = list_of(test, buf);
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct bio_vec bvec[ENTRIES], none = { .bv_len = PART };
	struct kfi_mr_attr attr = {
		.type = KFI_BVEC,
		.mr_biov = bvec,
		.iov_count = ENTRIES,
		.access = KFI_REMOTE_WRITE,
		.context = buf,
	};
	struct kfid_mr *mr[4];
	u64 addr = 0;

	kfi_map(sgl, ENTRIES);
	for (int i = 0; i < ENTRIES; i++)
		bvec_set_virt(&bvec[i], buf + i * PART, PART);
	KUNIT_ASSERT_EQ(test, 0, kfi_mr_regbv(pair->domain, bvec, ENTRIES, KFI_REMOTE_WRITE, 0, 0,
					      0, &mr[0], buf));
	fx_defer_close(test, &mr[0]->fid);
	KUNIT_ASSERT_EQ(test, 0, kfi_mr_regsgl(pair->domain, sgl, ENTRIES, KFI_REMOTE_WRITE, 0, 0,
					       0, &mr[1], buf));
	fx_defer_close(test, &mr[1]->fid);
	KUNIT_ASSERT_EQ(test, 0, kfi_mr_regattr(pair->domain, &attr, 0, &mr[2]));
	fx_defer_close(test, &mr[2]->fid);
	/* As in 2016, with an address for peers. */
	KUNIT_ASSERT_EQ(test, 0, kfi_mr_reg(pair->domain, buf, SIZE, KFI_REMOTE_WRITE, 0, 0, 0,
					    &mr[3], buf, &addr));
	fx_defer_close(test, &mr[3]->fid);
	KUNIT_EXPECT_EQ(test, (uintptr_t)buf, addr);

	for (int i = 0; i < ARRAY_SIZE(mr); i++) {
		struct fi_cq_tagged_entry entry;

		KUNIT_EXPECT_PTR_EQ(test, buf, (u8 *)mr[i]->fid.context);
		KUNIT_EXPECT_EQ(test, (uintptr_t)buf, mr[i]->iova);
		tr_fill(out, SIZE, i);
		KUNIT_ASSERT_EQ(test, 0, kfi_write(pair->ep[0], out, SIZE, NULL, 0, mr[i]->iova,
						   kfi_mr_key(mr[i]), out));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[0], &entry, 1));
		tr_exchange(test, pair, 0, out, out + SIZE / 2, PART);
		tr_fill(out, SIZE, i);
		KUNIT_EXPECT_TRUE(test, tr_intact(buf, SIZE, i));
	}

	attr.type = 7;
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_mr_regattr(pair->domain, &attr, 0, &mr[0]));
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_mr_regbv(pair->domain, &none, 1, 0, 0, 0, 0, &mr[0],
							NULL));
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_mr_regbv(pair->domain, NULL, 1, 0, 0, 0, 0, &mr[0],
							NULL));
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_mr_regbv(pair->domain, bvec, SIZE_MAX, 0, 0, 0, 0,
							&mr[0], NULL));
}

/* A context has one direction, which its binding to a queue need not name. */
static void kfi_ep_bind_takes_the_direction_from_the_class(struct kunit *test)
{
	struct sep_opts opts = { .txs = 1, .rxs = 1 };
	struct sep *sep = sep_open_unbound(test, &opts);
	struct kfid_cq *cq[3];
	struct kfid_ep *ep;

	for (int i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, 0, kfi_cq_open(sep->domain, NULL, &cq[i], NULL, NULL));
		fx_defer_close(test, &cq[i]->fid);
	}
	KUNIT_ASSERT_EQ(test, 0, kfi_scalable_ep_bind(sep->ep, &sep->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, kfi_enable(sep->ep));
	KUNIT_ASSERT_EQ(test, 0, kfi_tx_context(sep->ep, 0, NULL, &sep->tx[0], NULL));
	fx_defer_close(test, &sep->tx[0]->fid);
	KUNIT_ASSERT_EQ(test, 0, kfi_rx_context(sep->ep, 0, NULL, &sep->rx[0], NULL));
	fx_defer_close(test, &sep->rx[0]->fid);
	KUNIT_EXPECT_EQ(test, 0, kfi_ep_bind(sep->tx[0], &cq[0]->fid, KFI_SELECTIVE_COMPLETION));
	KUNIT_EXPECT_EQ(test, 0, kfi_ep_bind(sep->rx[0], &cq[1]->fid, 0));
	/* Each has a queue now. */
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_ep_bind(sep->tx[0], &cq[2]->fid, 0));
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_ep_bind(sep->rx[0], &cq[2]->fid, 0));
	KUNIT_EXPECT_EQ(test, -KFI_EBADFLAGS, kfi_ep_bind(sep->tx[0], &cq[2]->fid, KFI_RECV));
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_ep_bind(sep->tx[0], NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, kfi_enable(sep->tx[0]));
	KUNIT_EXPECT_EQ(test, 0, kfi_enable(sep->rx[0]));

	/* An endpoint has both directions. */
	KUNIT_ASSERT_EQ(test, 0, kfi_endpoint(sep->domain, sep->info, &ep, NULL));
	fx_defer_close(test, &ep->fid);
	KUNIT_EXPECT_EQ(test, -KFI_EBADFLAGS, kfi_ep_bind(ep, &cq[2]->fid, 0));
}

static void kfi_default_keys_are_no_keys(struct kunit *test)
{
	struct kfi_info *hints = fx_hints(test), *info;
	static const u32 keys[] = { 255, 0, 7 };

	for (int i = 0; i < ARRAY_SIZE(keys); i++) {
		u8 *const key = kmemdup(&keys[i], sizeof(keys[i]), GFP_KERNEL);
		int want = keys[i] == 7 ? -KFI_ENODATA : 0;

		KUNIT_ASSERT_NOT_NULL(test, key);
		hints->ep_attr->auth_key = key;
		hints->ep_attr->auth_key_size = sizeof(keys[i]);
		for (int of_domain = 0; of_domain < 2; of_domain++) {
			KUNIT_EXPECT_EQ(test, want, kfi_getinfo(0, fx_addr, NULL, KFI_SOURCE,
								hints, &info));
			if (!want) {
				KUNIT_EXPECT_EQ(test, 0, info->ep_attr->auth_key_size);
				kfi_freeinfo(info);
			}
			/* The hints stay the caller's. */
			if (!of_domain)
				KUNIT_EXPECT_PTR_EQ(test, key, hints->ep_attr->auth_key);
			hints->ep_attr->auth_key = NULL;
			hints->ep_attr->auth_key_size = 0;
			hints->domain_attr->auth_key = key;
			hints->domain_attr->auth_key_size = sizeof(keys[i]);
		}
		hints->domain_attr->auth_key = NULL;
		hints->domain_attr->auth_key_size = 0;
		kfree(key);
	}
}

/* As in kfabric, whichever version the caller was written for. */
static void kfi_getinfo_reports_the_version_of_the_library(struct kunit *test)
{
	const u32 current_version = KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION);
	const u32 versions[] = { 0, KFI_VERSION(1, 0), current_version };
	struct kfid_fabric *fabric;
	struct kfi_info *info;

	for (int i = 0; i < ARRAY_SIZE(versions); i++) {
		KUNIT_ASSERT_EQ(test, 0, kfi_getinfo(versions[i], fx_addr, NULL, KFI_SOURCE, NULL,
						     &info));
		KUNIT_EXPECT_EQ(test, current_version, info->fabric_attr->api_version);
		KUNIT_ASSERT_EQ(test, 0, kfi_fabric(info->fabric_attr, &fabric, NULL));
		KUNIT_EXPECT_EQ(test, current_version, fabric->api_version);
		KUNIT_EXPECT_EQ(test, 0, kfi_close(&fabric->fid));
		kfi_freeinfo(info);
	}
	KUNIT_EXPECT_EQ(test, -KFI_ENOSYS, kfi_getinfo(current_version + 1, fx_addr, NULL,
						       KFI_SOURCE, NULL, &info));
}

static void kfi_keys_without_a_size_are_einval(struct kunit *test)
{
	struct kfi_info *hints = fx_hints(test), *info;
	u8 *key = tr_buffer(test, sizeof(u32));

	for (int has_key = 0; has_key < 2; has_key++)
		for (int of_domain = 0; of_domain < 2; of_domain++) {
			u8 **its_key = of_domain ? &hints->domain_attr->auth_key :
						   &hints->ep_attr->auth_key;
			size_t *its_size = of_domain ? &hints->domain_attr->auth_key_size :
						       &hints->ep_attr->auth_key_size;

			*its_key = has_key ? key : NULL;
			*its_size = has_key ? 0 : sizeof(u32);
			KUNIT_EXPECT_EQ(test, -KFI_EINVAL,
					kfi_getinfo(0, fx_addr, NULL, KFI_SOURCE, hints, &info));
			*its_key = NULL;
			*its_size = 0;
		}
}

static void kfi_capabilities_of_kfabric_have_names(struct kunit *test)
{
	struct kfi_info *hints = fx_hints(test), *info;

	hints->caps |= KFI_CANCEL;
	KUNIT_EXPECT_EQ(test, 0, kfi_getinfo(KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION),
					     fx_addr, NULL, KFI_SOURCE, hints, &info));
	kfi_freeinfo(info);
	hints->ep_attr->type = KFI_EP_RDM;
	hints->caps |= KFI_TAGGED | KFI_RMA | KFI_TAGGED_RMA;
	KUNIT_EXPECT_EQ(test, 0, kfi_getinfo(0, fx_addr, NULL, KFI_SOURCE, hints, &info));
	kfi_freeinfo(info);
	hints->caps = KFI_MSG | KFI_TAGGED_MULTI_RECV;
	KUNIT_EXPECT_EQ(test, -KFI_ENODATA, kfi_getinfo(0, fx_addr, NULL, KFI_SOURCE, hints,
							&info));
}

/* The fabric has no extension of the cxi provider; the macros of kfi_log.h print. */
static void kfi_extensions_of_cxi_are_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct kfi_cxi_fabric_ops *fabric_ops;
	struct kfi_cxi_domain_ops *domain_ops;

	KUNIT_EXPECT_EQ(test, -KFI_ENOSYS, kfi_open_ops(&fx->fabric->fid, KFI_CXI_FAB_OPS_1, 0,
							(void **)&fabric_ops, NULL));
	KUNIT_EXPECT_EQ(test, -KFI_ENOSYS, kfi_open_ops(&fx->fabric->fid, KFI_CXI_DOM_OPS_1, 0,
							(void **)&domain_ops, NULL));
	/* The software devices have no device that accesses memory. */
	KUNIT_EXPECT_EQ(test, -KFI_ENOSYS, kfi_open_ops(&fx->domain->fid, KFI_CXI_DOM_OPS_1, 0,
							(void **)&domain_ops, NULL));
	KUNIT_EXPECT_EQ(test, sizeof(u64), sizeof(struct kcxi_addr));
	LOG_INFO("%d extensions", 2);
	LOG_DEBUG("no arguments");
}

/* A domain whose device accesses memory by DMA; the software devices have none. */
struct dma_domain {
	struct fid_domain domain;
	struct device *dma_device;
};

static struct device *dma_device_of(struct fid_domain *domain)
{
	return container_of(domain, struct dma_domain, domain)->dma_device;
}

static int open_device_ops(struct fid *fid, const char *name, u64 flags, void **ops, void *context)
{
	static struct fi_kofi_ops_device device_ops = {
		.size = sizeof(device_ops),
		.dma_device = dma_device_of,
	};

	if (strcmp(name, FI_KOFI_DEVICE_OPS))
		return -FI_ENOSYS;
	*ops = &device_ops;
	return 0;
}

static void kfi_get_device_returns_the_dma_device(struct kunit *test)
{
	struct fi_ops ops = { .size = sizeof(ops), .ops_open = open_device_ops };
	struct dma_domain fake = {
		.domain.fid = { .fclass = KFI_CLASS_DOMAIN, .ops = &ops },
		.dma_device = (void *)tr_buffer(test, sizeof(struct device)),
	};
	struct kfi_cxi_domain_ops *domain_ops = NULL;
	struct fid *fid = &fake.domain.fid;
	struct device *device = NULL;
	void **table = (void **)&domain_ops;

	KUNIT_EXPECT_EQ(test, -KFI_ENOSYS, kfi_open_ops(fid, "cxi_dom_ops_v2", 0, table, NULL));
	KUNIT_ASSERT_EQ(test, 0, kfi_open_ops(fid, KFI_CXI_DOM_OPS_1, 0, table, NULL));
	KUNIT_EXPECT_EQ(test, 0, domain_ops->get_device(fid, &device));
	KUNIT_EXPECT_PTR_EQ(test, fake.dma_device, device);
	/* A device that is gone, or uses kernel addresses */
	fake.dma_device = NULL;
	KUNIT_EXPECT_EQ(test, -KFI_ENODEV, domain_ops->get_device(fid, &device));
	KUNIT_EXPECT_NULL(test, device);
	KUNIT_EXPECT_EQ(test, -KFI_ENOSYS, kfi_open_ops(fid, KFI_CXI_DOM_OPS_1, 0, table, NULL));
}

static struct bio_vec *pages_of(struct kunit *test, u8 *buf)
{
	struct bio_vec *bvec = (void *)tr_buffer(test, ENTRIES * sizeof(*bvec));

	for (int i = 0; i < ENTRIES; i++)
		bvec_set_virt(&bvec[i], buf + i * PART, PART);
	return bvec;
}

static void kfi_tagged_messages_from_bio_vecs_and_scatterlists(struct kunit *test)
{
	u8 *out = tr_buffer(test, SIZE), *in = tr_buffer(test, SIZE);
	struct bio_vec *bvec[2] = { pages_of(test, out), pages_of(test, in) };
	struct scatterlist *sgl[2] = { list_of(test, out), list_of(test, in) };
	struct kofi_rdm *a = rdm_open(test, NULL), *b = rdm_open(test, NULL);
	fi_addr_t to = rdm_addr(test, a, b);
	struct kfi_msg_tagged send = {
		.type = KFI_SGL,
		.msg_sgl = sgl[0],
		.iov_count = ENTRIES,
		.addr = to,
		.tag = 0x17,
		.context = out,
	};
	struct kfi_msg_tagged recv = {
		.type = KFI_BVEC,
		.msg_biov = bvec[1],
		.iov_count = ENTRIES,
		.addr = KFI_ADDR_UNSPEC,
		.tag = 0x10,
		.ignore = 0xf,
		.context = in,
	};

	kfi_map(sgl[0], ENTRIES);
	kfi_map(sgl[1], ENTRIES);
	for (int round = 0; round < 4; round++) {
		struct fi_cq_tagged_entry entry;

		tr_fill(out, SIZE, round);
		recv.type = round & 1 ? KFI_SGL : KFI_BVEC;
		recv.msg_sgl = round & 1 ? sgl[1] : (void *)bvec[1];
		send.type = round & 1 ? KFI_BVEC : KFI_SGL;
		send.msg_sgl = round & 1 ? (void *)bvec[0] : sgl[0];
		if (round < 2) {
			KUNIT_ASSERT_EQ(test, 0, kfi_trecvmsg(b->ep, &recv, KFI_COMPLETION));
			KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(kfi_tsendmsg(a->ep, &send,
										 KFI_COMPLETION)));
		} else if (round == 2) {
			KUNIT_ASSERT_EQ(test, 0, kfi_trecvbv(b->ep, bvec[1], NULL, ENTRIES,
							     KFI_ADDR_UNSPEC, 0x10, 0xf, in));
			KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
				kfi_tsendsgl(a->ep, sgl[0], NULL, ENTRIES, to, 0x17, out)));
		} else {
			KUNIT_ASSERT_EQ(test, 0, kfi_trecvsgl(b->ep, sgl[1], NULL, ENTRIES,
							      KFI_ADDR_UNSPEC, 0x10, 0xf, in));
			KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
				kfi_tsendbv(a->ep, bvec[0], NULL, ENTRIES, to, 0x17, out)));
		}
		rdm_expect(test, b, in, &entry);
		KUNIT_EXPECT_EQ(test, KFI_RECV | KFI_TAGGED, entry.flags);
		KUNIT_EXPECT_EQ(test, SIZE, entry.len);
		KUNIT_EXPECT_EQ(test, 0x17, entry.tag);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, SIZE, round));
		rdm_expect(test, a, out, NULL);
	}
	recv.type = 7;
	KUNIT_EXPECT_EQ(test, -KFI_EBADFLAGS, kfi_trecvmsg(b->ep, &recv, 0));
	send.type = 7;
	KUNIT_EXPECT_EQ(test, -KFI_EBADFLAGS, kfi_tsendmsg(a->ep, &send, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(kfi_a_merged_list_is_transferred_whole),
	KUNIT_CASE(kfi_a_merged_list_is_written_and_registered_whole),
	KUNIT_CASE(kfi_unmapped_lists_are_einval),
	KUNIT_CASE(kfi_registrations_of_pages),
	KUNIT_CASE(kfi_ep_bind_takes_the_direction_from_the_class),
	KUNIT_CASE(kfi_default_keys_are_no_keys),
	KUNIT_CASE(kfi_getinfo_reports_the_version_of_the_library),
	KUNIT_CASE(kfi_keys_without_a_size_are_einval),
	KUNIT_CASE(kfi_capabilities_of_kfabric_have_names),
	KUNIT_CASE(kfi_extensions_of_cxi_are_refused),
	KUNIT_CASE(kfi_get_device_returns_the_dma_device),
	KUNIT_CASE(kfi_tagged_messages_from_bio_vecs_and_scatterlists),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_kfi_calls",
	.test_cases = cases,
};

kunit_test_suite(suite);
