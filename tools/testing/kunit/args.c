// SPDX-License-Identifier: GPL-2.0
/*
 * Bad arguments to the exported functions, to calls that open objects, and to
 * calls that take a fid of any class. Calls of open objects are in
 * args_calls.c, args_av.c and args_cm.c, transfers in args_transfer.c.
 * selftest/test_args.py checks that no call is left out.
 */

#include "args.h"

#define BUF_SIZE	4096

struct args_objects *args_objects(struct kunit *test)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_av_attr av_attr = {};
	struct fi_av_set_attr set_attr = { .flags = FI_UNIVERSE,
		.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL,
	};
	struct args_objects *objs;

	objs = kunit_kzalloc(test, sizeof(*objs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, objs);
	objs->buf = kunit_kzalloc(test, BUF_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, objs->buf);
	objs->pair = fx_pair(test, NULL);
	KUNIT_ASSERT_EQ(test, fi_mr_reg(objs->pair->domain, objs->buf,
					BUF_SIZE, FI_SEND | FI_RECV, 0, 0, 0,
					&objs->mr, NULL), 0);
	fx_defer_close(test, &objs->mr->fid);
	KUNIT_ASSERT_EQ(test, fi_cntr_open(objs->pair->domain, &attr,
					   &objs->cntr, NULL), 0);
	fx_defer_close(test, &objs->cntr->fid);
	KUNIT_ASSERT_EQ(test, fi_av_open(objs->pair->domain, &av_attr,
					 &objs->av, NULL), 0);
	fx_defer_close(test, &objs->av->fid);
	KUNIT_ASSERT_EQ(test, fi_av_set(objs->av, &set_attr, &objs->set,
					NULL), 0);
	fx_defer_close(test, &objs->set->fid);

	objs->fid[0] = &objs->pair->fabric->fid;
	objs->fid[1] = &objs->pair->domain->fid;
	objs->fid[2] = &objs->pair->eq->fid;
	objs->fid[3] = &objs->pair->cq[0]->fid;
	objs->fid[4] = &objs->pair->ep[0]->fid;
	objs->fid[5] = &objs->pair->pep->fid;
	objs->fid[6] = &objs->mr->fid;
	objs->fid[7] = &objs->cntr->fid;
	objs->fid[8] = &objs->av->fid;
	objs->fid[9] = &objs->set->fid;
	objs->fid[10] = &objs->unknown;
	return objs;
}

static void args_getinfo(struct kunit *test)
{
	static const char *const texts[] = {
		"", "not.numeric", "256.0.0.1", "10.1.0", "1:2", "::g", "-1",
		"65536", "99999999999999999999", "10.1.0.1%", "fe80::1%nodev",
	};
	struct fi_info *hints = fx_hints(test);
	struct fi_info *info;

	REFUSE(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, NULL));
	REFUSE(fi_getinfo_by(FI_VERSION(1, 17), NULL, NULL, 0, NULL, NULL, NULL));
	REFUSE(fi_getinfo(U32_MAX, NULL, NULL, 0, hints, &info));
	REFUSE(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, ~0ULL, hints, &info));
	for (int i = 0; i < ARRAY_SIZE(texts); i++) {
		REFUSE(fi_getinfo(FI_VERSION(1, 17), texts[i], NULL, 0, hints,
				  &info));
		REFUSE(fi_getinfo(FI_VERSION(1, 17), texts[i], NULL, FI_SOURCE,
				  hints, &info));
	}
	/* "10.1.0.1%" and the like are not port numbers, and neither are -1 and 65536. */
	for (int i = 0; i < ARRAY_SIZE(texts); i++)
		REFUSE(fi_getinfo(FI_VERSION(1, 17), NULL, texts[i], FI_SOURCE,
				  hints, &info));

	hints->caps = ~0ULL;
	REFUSE(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	hints->caps = 0;
	hints->addr_format = ~0U;
	REFUSE(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	hints->addr_format = 0;
	hints->ep_attr->type = 99;
	REFUSE(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	hints->ep_attr->type = 0;
	hints->ep_attr->auth_key_size = SIZE_MAX;
	REFUSE(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	hints->ep_attr->auth_key_size = 0;
}

/* Addresses in hints with bad lengths and pointers. */
static void args_getinfo_addresses(struct kunit *test)
{
	struct fi_info *ours = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct fi_info hints = { .caps = FI_MSG, .addr_format = FI_SOCKADDR };
	struct fi_info *info;
	u16 family = 0x7777;

	for (size_t len = 0; len < 4; len++) {
		hints.src_addr = ours->src_addr;
		hints.src_addrlen = len;
		info = NULL;
		if (!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, &hints,
				&info))
			fi_freeinfo(info);
		swap(hints.src_addr, hints.dest_addr);
		swap(hints.src_addrlen, hints.dest_addrlen);
		if (!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, &hints,
				&info))
			fi_freeinfo(info);
		swap(hints.src_addr, hints.dest_addr);
		swap(hints.src_addrlen, hints.dest_addrlen);
	}
	hints.src_addr = NULL;
	hints.src_addrlen = 16;
	if (!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, &hints, &info))
		fi_freeinfo(info);
	hints.src_addr = &family;
	hints.src_addrlen = sizeof(family);
	REFUSE(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, &hints, &info));
}

static void args_infos_and_strings(struct kunit *test)
{
	struct fi_info *copy = fi_dupinfo(NULL);
	struct fi_info empty = {};
	u64 value = ~0ULL;
	char buf[8];

	KUNIT_EXPECT_NOT_NULL(test, copy);
	fi_freeinfo(copy);
	fi_freeinfo(NULL);
	copy = fi_dupinfo(&empty);
	KUNIT_EXPECT_NOT_NULL(test, copy);
	fi_freeinfo(copy);

	KUNIT_EXPECT_NOT_NULL(test, fi_strerror(0));
	KUNIT_EXPECT_NOT_NULL(test, fi_strerror(INT_MIN));
	KUNIT_EXPECT_NOT_NULL(test, fi_strerror(INT_MAX));

	KUNIT_EXPECT_NULL(test, fi_tostr(NULL, FI_TYPE_CAPS));
	KUNIT_EXPECT_NULL(test, fi_tostr(&value, 9999));
	KUNIT_EXPECT_NULL(test, fi_tostr(&value, -1));
	KUNIT_EXPECT_NULL(test, fi_tostr_r(NULL, 8, &value, FI_TYPE_CAPS));
	KUNIT_EXPECT_NULL(test, fi_tostr_r(buf, 0, &value, FI_TYPE_CAPS));
	KUNIT_EXPECT_NULL(test, fi_tostr_r(buf, 8, NULL, FI_TYPE_CAPS));
	KUNIT_EXPECT_NULL(test, fi_tostr_r(buf, 8, &value, 9999));
	KUNIT_EXPECT_NOT_NULL(test, fi_tostr_r(buf, 1, &value, FI_TYPE_CAPS));
	KUNIT_EXPECT_EQ(test, buf[0], 0);
	KUNIT_EXPECT_NOT_NULL(test, fi_tostr_r(buf, 8, &value, FI_TYPE_CAPS));
	KUNIT_EXPECT_EQ(test, buf[7], 0);
	/*
	 * fi_tostr() reads 8 bytes at most whatever the type, and nothing
	 * behind a NULL attribute.
	 */
	for (int type = FI_TYPE_INFO; type <= FI_TYPE_LOG_SUBSYS; type++)
		SURVIVE(fi_tostr(&empty, type));
}

static void args_fabric(struct kunit *test)
{
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct fi_fabric_attr attr = *info->fabric_attr;
	struct fid_fabric *fabric;

	ANSWER_OPEN(-FI_EINVAL, fabric, fi_fabric(NULL, &fabric, NULL));
	ANSWER(-FI_EINVAL, fi_fabric(&attr, NULL, NULL));
	ANSWER(-FI_EINVAL, fi_fabric(NULL, NULL, NULL));
	attr.prov_name = "no such provider";
	ANSWER_OPEN(-FI_ENODATA, fabric, fi_fabric(&attr, &fabric, NULL));
	attr = *info->fabric_attr;
	attr.name = "no such fabric";
	REFUSE_OPEN(fabric, fi_fabric(&attr, &fabric, NULL));
	ANSWER_OPEN(-FI_EINVAL, fabric,
		    fi_fabric_by(NULL, &fabric, NULL, KBUILD_MODNAME));
	ANSWER(-FI_EINVAL, fi_fabric_by(info->fabric_attr, NULL, NULL, NULL));
}

static void args_children_of_a_fabric(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_fabric *fabric = objs->pair->fabric;
	struct fi_info *info = objs->pair->info;
	struct fi_info empty = {};
	struct fid_domain *domain;
	struct fid_pep *pep;

	ANSWER_OPEN(-FI_EINVAL, domain, fi_domain(fabric, NULL, &domain, NULL));
	ANSWER(-FI_EINVAL, fi_domain(fabric, info, NULL, NULL));
	REFUSE_OPEN(domain, fi_domain(fabric, &empty, &domain, NULL));
	REFUSE_OPEN(domain, fi_domain2(fabric, info, &domain, ~0ULL, NULL));
	REFUSE(fi_domain2(fabric, NULL, NULL, 0, NULL));
	ANSWER_OPEN(-FI_EINVAL, pep, fi_passive_ep(fabric, NULL, &pep, NULL));
	ANSWER(-FI_EINVAL, fi_passive_ep(fabric, info, NULL, NULL));
	/* Calls of a fabric on objects of other classes. */
	for (int i = 1; i < ARGS_CLASSES; i++) {
		struct fid_fabric *wrong = (void *)objs->fid[i];

		ANSWER_OPEN(-FI_EINVAL, domain, fabric->ops->domain(wrong, info,
								    &domain,
								    NULL));
		REFUSE_OPEN(domain, fabric->ops->domain2(wrong, info, &domain,
							 0, NULL));
		ANSWER_OPEN(-FI_EINVAL, pep, fabric->ops->passive_ep(wrong,
								     info, &pep,
								     NULL));
	}
}

static void args_source_of_a_passive_endpoint(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_fabric *fabric = objs->pair->fabric;
	struct fi_info *info = fi_dupinfo(objs->pair->info);
	struct fid_pep *pep;
	u16 *family;

	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	family = info->src_addr;
	*family = 0x7777;
	REFUSE_OPEN(pep, fi_passive_ep(fabric, info, &pep, NULL));
	memcpy(info->src_addr, objs->pair->info->src_addr, info->src_addrlen);
	for (info->src_addrlen = 1; info->src_addrlen < 8; info->src_addrlen++)
		REFUSE_OPEN(pep, fi_passive_ep(fabric, info, &pep, NULL));
}

static void args_eq_open(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_fabric *fabric = objs->pair->fabric;
	struct fi_eq_attr good = {}, attr;
	struct fid_eq *eq;

	ANSWER_OPEN(-FI_EINVAL, eq, fi_eq_open(fabric, NULL, &eq, NULL));
	ANSWER(-FI_EINVAL, fi_eq_open(fabric, &good, NULL, NULL));
	for (int i = 1; i < ARGS_CLASSES; i++)
		ANSWER_OPEN(-FI_EINVAL, eq,
			    fabric->ops->eq_open((void *)objs->fid[i], &good,
						 &eq, NULL));
	attr = good;
	attr.flags = ~0ULL;
	ANSWER_OPEN(-FI_EINVAL, eq, fi_eq_open(fabric, &attr, &eq, NULL));
	attr = good;
	attr.wait_obj = 99;
	ANSWER_OPEN(-FI_EINVAL, eq, fi_eq_open(fabric, &attr, &eq, NULL));
	attr.wait_obj = FI_WAIT_FD;
	ANSWER_OPEN(-FI_ENOSYS, eq, fi_eq_open(fabric, &attr, &eq, NULL));
	attr.wait_obj = FI_WAIT_POLLFD;
	ANSWER_OPEN(-FI_ENOSYS, eq, fi_eq_open(fabric, &attr, &eq, NULL));
	attr.wait_obj = FI_WAIT_MUTEX_COND;
	ANSWER_OPEN(-FI_ENOSYS, eq, fi_eq_open(fabric, &attr, &eq, NULL));
	attr.wait_obj = FI_WAIT_SET;
	attr.wait_set = NULL;
	REFUSE_OPEN(eq, fi_eq_open(fabric, &attr, &eq, NULL));
}

static void args_cq_open(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_domain *domain = objs->pair->domain;
	struct fi_cq_attr good = {}, attr;
	struct fid_cq *cq;

	ANSWER_OPEN(-FI_EINVAL, cq, fi_cq_open(domain, NULL, &cq, NULL));
	ANSWER(-FI_EINVAL, fi_cq_open(domain, &good, NULL, NULL));
	for (int i = 0; i < ARGS_CLASSES; i++)
		if (objs->fid[i] != &domain->fid)
			ANSWER_OPEN(-FI_EINVAL, cq,
				    domain->ops->cq_open((void *)objs->fid[i],
							 &good, &cq, NULL));
	attr = good;
	attr.format = 99;
	ANSWER_OPEN(-FI_EINVAL, cq, fi_cq_open(domain, &attr, &cq, NULL));
	attr.format = -1;
	ANSWER_OPEN(-FI_EINVAL, cq, fi_cq_open(domain, &attr, &cq, NULL));
	attr = good;
	attr.flags = ~0ULL;
	ANSWER_OPEN(-FI_EINVAL, cq, fi_cq_open(domain, &attr, &cq, NULL));
	attr = good;
	attr.wait_obj = 99;
	ANSWER_OPEN(-FI_EINVAL, cq, fi_cq_open(domain, &attr, &cq, NULL));
	attr = good;
	attr.wait_cond = 99;
	ANSWER_OPEN(-FI_EINVAL, cq, fi_cq_open(domain, &attr, &cq, NULL));
	attr = good;
	attr.flags = FI_AFFINITY;
	attr.signaling_vector = -1;
	REFUSE_OPEN(cq, fi_cq_open(domain, &attr, &cq, NULL));
	attr.signaling_vector = INT_MAX;
	cq = NULL;
	if (!fi_cq_open(domain, &attr, &cq, NULL))
		fi_close(&cq->fid);
	attr = good;
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++) {
		attr.size = args_lengths[i];
		REFUSE_OPEN(cq, fi_cq_open(domain, &attr, &cq, NULL));
	}
}

static void args_cntr_open(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_domain *domain = objs->pair->domain;
	struct fi_cntr_attr good = {}, attr;
	struct fid_cntr *cntr;

	ANSWER_OPEN(-FI_EINVAL, cntr, fi_cntr_open(domain, NULL, &cntr, NULL));
	ANSWER(-FI_EINVAL, fi_cntr_open(domain, &good, NULL, NULL));
	ANSWER(-FI_EINVAL, fi_cntr_open(domain, NULL, NULL, NULL));
	for (int i = 0; i < ARGS_CLASSES; i++)
		if (objs->fid[i] != &domain->fid)
			ANSWER_OPEN(-FI_EINVAL, cntr,
				    domain->ops->cntr_open((void *)
							   objs->fid[i], &good,
							   &cntr, NULL));
	attr = good;
	attr.events = 99;
	ANSWER_OPEN(-FI_EINVAL, cntr, fi_cntr_open(domain, &attr, &cntr, NULL));
	attr = good;
	attr.flags = 1;
	ANSWER_OPEN(-FI_EINVAL, cntr, fi_cntr_open(domain, &attr, &cntr, NULL));
	attr.flags = ~0ULL;
	ANSWER_OPEN(-FI_EINVAL, cntr, fi_cntr_open(domain, &attr, &cntr, NULL));
	attr = good;
	attr.wait_obj = 99;
	ANSWER_OPEN(-FI_EINVAL, cntr, fi_cntr_open(domain, &attr, &cntr, NULL));
	attr.wait_obj = FI_WAIT_FD;
	ANSWER_OPEN(-FI_ENOSYS, cntr, fi_cntr_open(domain, &attr, &cntr, NULL));
	attr.wait_obj = FI_WAIT_MUTEX_COND;
	ANSWER_OPEN(-FI_ENOSYS, cntr, fi_cntr_open(domain, &attr, &cntr, NULL));
	attr.wait_obj = FI_WAIT_SET;
	attr.wait_set = NULL;
	REFUSE_OPEN(cntr, fi_cntr_open(domain, &attr, &cntr, NULL));
}

static void args_endpoint(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_domain *domain = objs->pair->domain;
	struct fi_info *info = fi_dupinfo(objs->pair->info);
	struct fid_ep *ep;

	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	ANSWER_OPEN(-FI_EINVAL, ep, fi_endpoint(domain, NULL, &ep, NULL));
	ANSWER(-FI_EINVAL, fi_endpoint(domain, info, NULL, NULL));
	REFUSE_OPEN(ep, fi_endpoint2(domain, info, &ep, ~0ULL, NULL));
	REFUSE(fi_endpoint2(domain, NULL, NULL, 0, NULL));
	for (int i = 0; i < ARGS_CLASSES; i++)
		if (objs->fid[i] != &domain->fid)
			ANSWER_OPEN(-FI_EINVAL, ep,
				    domain->ops->endpoint((void *)objs->fid[i],
							  info, &ep, NULL));

	info->handle = (void *)0x1234;
	REFUSE_OPEN(ep, fi_endpoint(domain, info, &ep, NULL));
	info->handle = &domain->fid;
	REFUSE_OPEN(ep, fi_endpoint(domain, info, &ep, NULL));
	info->handle = NULL;
	*(u16 *)info->src_addr = 0x7777;
	REFUSE_OPEN(ep, fi_endpoint(domain, info, &ep, NULL));
}

/* Queue depths that no device has are refused, at the latest by fi_enable(). */
static void args_endpoint_depths(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_info *info = fi_dupinfo(fx->info);
	struct {
		size_t *field, old;
	} fields[] = {
		{ &info->tx_attr->size }, { &info->rx_attr->size },
		{ &info->tx_attr->iov_limit }, { &info->rx_attr->iov_limit },
	};
	struct fid_ep *ep;

	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	for (int i = 0; i < ARRAY_SIZE(fields); i++) {
		fields[i].old = *fields[i].field;
		for (int n = 2; n < ARRAY_SIZE(args_lengths); n++) {
			int ret;

			*fields[i].field = args_lengths[n];
			ret = fi_endpoint(fx->domain, info, &ep, NULL);
			if (!ret) {
				ret = fi_ep_bind(ep, &fx->eq->fid, 0) ?:
				      fi_ep_bind(ep, &fx->cq->fid,
						 FI_TRANSMIT | FI_RECV) ?:
				      fi_enable(ep);
				fi_close(&ep->fid);
			}
			KUNIT_EXPECT_TRUE_MSG(test, args_is_errno(ret),
					      "field %d of %zu: %d", i,
					      args_lengths[n], ret);
		}
		*fields[i].field = fields[i].old;
	}
}

static void args_mr_reg(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_domain *domain = objs->pair->domain;
	struct kvec iov = { .iov_base = objs->buf, .iov_len = 64 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1 };
	u8 *buf = objs->buf;
	struct fid_mr *mr;

	ANSWER(-FI_EINVAL, fi_mr_reg(domain, buf, 64, 0, 0, 0, 0, NULL, NULL));
	ANSWER_OPEN(-FI_EINVAL, mr, fi_mr_reg(domain, NULL, 64, 0, 0, 0, 0, &mr,
					      NULL));
	ANSWER_OPEN(-FI_EINVAL, mr, fi_mr_reg(domain, buf, 0, 0, 0, 0, 0, &mr,
					      NULL));
	ANSWER_OPEN(-FI_EINVAL, mr, fi_mr_reg(domain, buf, 64, 0, 1, 0, 0, &mr,
					      NULL));
	REFUSE_OPEN(mr, fi_mr_reg(domain, buf, 64, ~0ULL, 0, 0, 0, &mr, NULL));
	REFUSE_OPEN(mr, fi_mr_reg(domain, buf, 64, 0, 0, 0, ~0ULL, &mr, NULL));
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++)
		REFUSE_OPEN(mr, fi_mr_reg(domain, buf, args_lengths[i], 0, 0, 0,
					  0, &mr, NULL));
	for (int i = 0; i < ARGS_CLASSES; i++)
		if (objs->fid[i] != &domain->fid)
			ANSWER_OPEN(-FI_EINVAL, mr,
				    domain->mr->reg(objs->fid[i], buf, 64, 0,
						    0, 0, 0, &mr, NULL));
	ANSWER_OPEN(-FI_EINVAL, mr, domain->mr->reg(NULL, buf, 64, 0, 0, 0, 0,
						    &mr, NULL));

	ANSWER_OPEN(-FI_EINVAL, mr, fi_mr_regv(domain, NULL, 1, 0, 0, 0, 0, &mr,
					       NULL));
	ANSWER_OPEN(-FI_EINVAL, mr, fi_mr_regv(domain, &iov, 0, 0, 0, 0, 0, &mr,
					       NULL));
	ANSWER(-FI_EINVAL, fi_mr_regv(domain, &iov, 1, 0, 0, 0, 0, NULL, NULL));
	REFUSE_OPEN(mr, fi_mr_regv(domain, &iov, (size_t)SSIZE_MAX + 1, 0, 0, 0,
				   0, &mr, NULL));
	REFUSE_OPEN(mr, fi_mr_regv(domain, &iov, SIZE_MAX, 0, 0, 0, 0, &mr,
				   NULL));
	iov.iov_base = NULL;
	REFUSE_OPEN(mr, fi_mr_regv(domain, &iov, 1, 0, 0, 0, 0, &mr, NULL));
	iov.iov_base = buf;
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++) {
		iov.iov_len = args_lengths[i];
		REFUSE_OPEN(mr, fi_mr_regv(domain, &iov, 1, 0, 0, 0, 0, &mr,
					   NULL));
	}
	iov.iov_len = 64;

	ANSWER_OPEN(-FI_EINVAL, mr, fi_mr_regattr(domain, NULL, 0, &mr));
	ANSWER(-FI_EINVAL, fi_mr_regattr(domain, &attr, 0, NULL));
	REFUSE_OPEN(mr, fi_mr_regattr(domain, &attr, ~0ULL, &mr));
	attr.iface = FI_HMEM_CUDA;
	REFUSE_OPEN(mr, fi_mr_regattr(domain, &attr, 0, &mr));
	attr.iface = 0;
	attr.mr_iov = NULL;
	REFUSE_OPEN(mr, fi_mr_regattr(domain, &attr, 0, &mr));
	attr.iov_count = 0;
	REFUSE_OPEN(mr, fi_mr_regattr(domain, &attr, 0, &mr));
}

static struct kunit_case args_cases[] = {
	KUNIT_CASE(args_getinfo),
	KUNIT_CASE(args_getinfo_addresses),
	KUNIT_CASE(args_infos_and_strings),
	KUNIT_CASE(args_fabric),
	KUNIT_CASE(args_children_of_a_fabric),
	KUNIT_CASE(args_source_of_a_passive_endpoint),
	KUNIT_CASE(args_eq_open),
	KUNIT_CASE(args_cq_open),
	KUNIT_CASE(args_cntr_open),
	KUNIT_CASE(args_endpoint),
	KUNIT_CASE(args_endpoint_depths),
	KUNIT_CASE(args_mr_reg),
	{}
};

static struct kunit_suite args_suite = {
	.name = "kofi_args",
	.test_cases = args_cases,
};

kunit_test_suite(args_suite);
