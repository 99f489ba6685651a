// SPDX-License-Identifier: GPL-2.0
/*
 * Tests MR of CONTRACT: remote regions, as the owner of the region sees them.
 */

#include <linux/mm.h>
#include <linux/vmalloc.h>
#include <rdma/restrack.h>

#include "attack.h"

#define REMOTE	(FI_REMOTE_READ | FI_REMOTE_WRITE)

static struct fid_mr *regv(struct kunit *test, struct fid_domain *domain,
			   const struct kvec *iov, size_t count, u64 access)
{
	struct fid_mr *mr;
	int ret;

	ret = fi_mr_regv(domain, iov, count, access, 0, 0, 0, &mr, NULL);
	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_mr_regv: %s", fi_strerror(ret));
	fx_defer_close(test, &mr->fid);
	return mr;
}

static struct fid_mr *reg(struct kunit *test, struct fid_domain *domain,
			  void *buf, size_t len, u64 access)
{
	const struct kvec iov = { buf, len };

	return regv(test, domain, &iov, 1, access);
}

/* Remote keys exist before there is an endpoint, a queue or a connection. */
static void mr_01_keys_exist_without_a_connection(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * PAGE_SIZE);
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct fid_fabric *fabric = fx_fabric(test, info);
	struct fid_domain *domain = fx_domain(test, fabric, info);
	struct fi_mr_attr attr = {
		.mr_iov = &(struct kvec){ buf, 100 },
		.iov_count = 1,
		.access = FI_REMOTE_READ,
	};
	struct fid_mr *mr[3];

	mr[0] = reg(test, domain, buf, PAGE_SIZE, FI_REMOTE_READ);
	mr[1] = reg(test, domain, buf, PAGE_SIZE, REMOTE | FI_SEND | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_regattr(domain, &attr, 0, &mr[2]));
	fx_defer_close(test, &mr[2]->fid);
	for (int i = 0; i < ARRAY_SIZE(mr); i++) {
		KUNIT_EXPECT_NE(test, FI_KEY_NOTAVAIL, fi_mr_key(mr[i]));
		KUNIT_EXPECT_EQ_MSG(test, 0, fi_mr_key(mr[i]) >> 32,
				    "mr_key_size is 4");
		KUNIT_EXPECT_NOT_NULL(test, fi_mr_desc(mr[i]));
		for (int j = 0; j < i; j++)
			KUNIT_EXPECT_NE(test, fi_mr_key(mr[i]),
					fi_mr_key(mr[j]));
	}
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&domain->fid));
}

/* Several threads register in one domain that has no fast-registration queue pair yet. */
#define THREADS	4
#define EACH	16

struct registrations {
	struct fid_domain	*domain;
	u8			*buf;
	struct completion	go;
	atomic_t		next;
	u64			keys[THREADS][EACH];
};

static int register_each(struct tr_thread *thread)
{
	struct registrations *registrations = thread->arg;
	u64 *keys = registrations->keys[atomic_fetch_inc(&registrations->next)];
	struct fid_mr *mr[EACH];
	int i, ret = 0;

	wait_for_completion(&registrations->go);
	for (i = 0; i < EACH && !ret; i++) {
		ret = fi_mr_reg(registrations->domain, registrations->buf + i, PAGE_SIZE,
				REMOTE, 0, 0, 0, &mr[i], NULL);
		if (!ret)
			keys[i] = fi_mr_key(mr[i]);
	}
	i -= !!ret;
	while (i--)
		ret = fi_close(&mr[i]->fid) ?: ret;
	thread->result = ret;
	return 0;
}

static void mr_01_concurrent_first_registrations(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * PAGE_SIZE);
	struct registrations *registrations = (void *)tr_buffer(test, sizeof(*registrations));
	struct kofi_fabric_fx *fx = fx_open(test);
	struct tr_thread *thread[THREADS];

	registrations->domain = fx->domain;
	registrations->buf = buf;
	init_completion(&registrations->go);
	for (int i = 0; i < THREADS; i++)
		thread[i] = tr_start(test, -1, register_each, registrations);
	complete_all(&registrations->go);
	for (int i = 0; i < THREADS; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join(test, thread[i]));
		KUNIT_EXPECT_EQ(test, 0, (int)thread[i]->result);
	}
	/* The regions of a thread are open at the same time, so their keys differ. */
	for (int i = 0; i < THREADS; i++)
		for (int k = 1; k < EACH; k++)
			for (int j = 0; j < k; j++)
				KUNIT_EXPECT_NE(test, registrations->keys[i][k],
						registrations->keys[i][j]);
}

static void mr_02_a_requested_key_is_ignored(struct kunit *test)
{
	u8 *buf = tr_buffer(test, PAGE_SIZE);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_mr *mr[2];

	KUNIT_EXPECT_NE(test, 0, fx->info->domain_attr->mr_mode &
				 FI_MR_PROV_KEY);
	for (int i = 0; i < ARRAY_SIZE(mr); i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->domain, buf, PAGE_SIZE,
						   REMOTE, 0, 0xc0f1, 0, &mr[i],
						   NULL));
		fx_defer_close(test, &mr[i]->fid);
	}
	KUNIT_EXPECT_NE(test, fi_mr_key(mr[0]), fi_mr_key(mr[1]));
}

static struct fi_info *info_of_mode(struct kunit *test, int mr_mode)
{
	struct fi_info *hints = fx_hints(test), *info = NULL;

	hints->domain_attr->mr_mode = mr_mode;
	KUNIT_ASSERT_EQ(test, 0, fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL,
					    FI_SOURCE, hints, &info));
	fx_defer_free(test, info);
	return info;
}

static void mr_02_requested_mr_modes(struct kunit *test)
{
	static const int both = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
	static const struct {
		int asked, given;
	} modes[] = {
		{ FI_MR_UNSPEC, both },
		{ both, both },
		{ both | FI_MR_LOCAL | FI_MR_ALLOCATED, both },
		{ FI_MR_PROV_KEY, FI_MR_PROV_KEY },
		{ FI_MR_BASIC, FI_MR_BASIC },
	};

	for (int i = 0; i < ARRAY_SIZE(modes); i++)
		KUNIT_EXPECT_EQ(test, modes[i].given,
				info_of_mode(test, modes[i].asked)
				->domain_attr->mr_mode);
}

/* Without FI_MR_VIRT_ADDR a region is addressed by offsets, and has to start at a page boundary. */
static void mr_02_regions_are_addressed_by_offset(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * PAGE_SIZE);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_info *info = info_of_mode(test, FI_MR_PROV_KEY);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct attacker *at;
	struct fid_mr *mr;
	u32 key;

	tr_needs_device(test, fx->info);
	fx->domain = fx_domain(test, fx->fabric, info);
	fx->cq = fx_cq(test, fx->domain, &(struct fi_cq_attr){
		.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC });
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_mr_reg(fx->domain, buf + 1, PAGE_SIZE, REMOTE, 0, 0,
				  0, &mr, NULL));
	mr = reg(test, fx->domain, buf, PAGE_SIZE + 1, REMOTE);
	key = fi_mr_key(mr);
	tr_fill(buf, PAGE_SIZE + 1, 1);
	at = at_connect(test, fx, pep);
	KUNIT_EXPECT_EQ(test, IB_WC_SUCCESS, at_read(at, 0, key,
						     PAGE_SIZE + 1));
	KUNIT_EXPECT_TRUE(test, tr_intact(at->buf, PAGE_SIZE + 1, 1));
	KUNIT_EXPECT_EQ(test, IB_WC_SUCCESS, at_read(at, PAGE_SIZE, key,
						     1));
	KUNIT_EXPECT_EQ(test, buf[PAGE_SIZE], at->buf[0]);
	KUNIT_EXPECT_NE(test, IB_WC_SUCCESS, at_read(at, (uintptr_t)buf,
						     key, 1));
	at_close(test, at);
}

/* Returns count pages of which no two are adjacent. */
static struct kvec *nonadjacent_pages(struct kunit *test, size_t count)
{
	struct kvec *iov = kunit_kcalloc(test, count, sizeof(*iov), GFP_KERNEL);
	u8 *buf = tr_vbuffer(test, 2 * count * PAGE_SIZE);

	KUNIT_ASSERT_NOT_NULL(test, iov);
	for (size_t i = 0; i < count; i++) {
		iov[i].iov_base = buf + 2 * i * PAGE_SIZE;
		iov[i].iov_len = PAGE_SIZE;
	}
	return iov;
}

static void mr_03_up_to_mr_iov_limit_kvecs(struct kunit *test)
{
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	size_t limit = info->domain_attr->mr_iov_limit;
	struct kvec *iov = nonadjacent_pages(test, limit + 1);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_mr *mr = NULL;

	KUNIT_EXPECT_GE(test, limit, 1);
	reg(test, fx->domain, iov[0].iov_base, 1, REMOTE);
	regv(test, fx->domain, iov, limit, REMOTE);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_mr_regv(fx->domain, iov, limit + 1, REMOTE, 0, 0, 0,
				   &mr, NULL));
	KUNIT_EXPECT_NULL(test, mr);
	/* The refused call leaves the domain usable; local registrations have no such limit. */
	regv(test, fx->domain, iov, limit, REMOTE);
	regv(test, fx->domain, iov, limit + 1, FI_SEND);
}

/* A gap within a page between two kvecs would expose unregistered bytes. */
static void mr_03_kvecs_with_a_gap_are_refused(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 4 * PAGE_SIZE);
	const struct kvec iovs[][2] = {
		{ { buf, PAGE_SIZE - 1 }, { buf + 2 * PAGE_SIZE, 8 } },
		{ { buf, PAGE_SIZE }, { buf + 2 * PAGE_SIZE + 1, 8 } },
		{ { buf, 8 }, { buf + 16, 8 } },
		{ { buf + 8, 8 }, { buf, 8 } },
	};
	const struct kvec one[2] = { { buf + 1, 8 }, { buf + 9, 5000 } };
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_mr *mr = NULL;

	tr_needs_device(test, fx->info);
	for (int i = 0; i < ARRAY_SIZE(iovs); i++)
		KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
				    fi_mr_regv(fx->domain, iovs[i], 2, REMOTE,
					       0, 0, 0, &mr, NULL),
				    "pair %d", i);
	KUNIT_EXPECT_NULL(test, mr);
	/* Adjacent kvecs without a gap are accepted. */
	regv(test, fx->domain, one, 2, REMOTE);
}

static void mr_05_unmappable_ranges_get_no_key(struct kunit *test)
{
	u8 *linear = tr_buffer(test, 64), *paged = tr_vbuffer(test, PAGE_SIZE);
	u8 stack[8];
	const struct kvec places[] = {
		{ NULL, 8 }, { (void *)PAGE_SIZE, 8 }, { linear, 0 },
		{ (void *)-1UL, 2 }, { (void *)-8UL, 8 }, { stack, 8 },
		{ linear, SIZE_MAX / 2 }, { linear, SIZE_MAX },
		{ paged, 2 * PAGE_SIZE },
	};
	struct kofi_fabric_fx *fx = fx_open(test);

	for (int i = 0; i < ARRAY_SIZE(places); i++) {
		const struct kvec two[2] = { { linear, 8 }, places[i] };
		struct fid_mr *mr = NULL;

		KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
				    fi_mr_regv(fx->domain, &places[i], 1,
					       REMOTE, 0, 0, 0, &mr, NULL),
				    "place %d", i);
		KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
				    fi_mr_regv(fx->domain, two, 2, REMOTE, 0, 0,
					       0, &mr, NULL), "place %d", i);
		KUNIT_EXPECT_NULL(test, mr);
	}
}

/* The domain warns at close if a mapping is left. */
static void mr_06_regions_close_in_any_order(struct kunit *test)
{
	u8 *paged = tr_vbuffer(test, 8 * PAGE_SIZE);
	u8 *linear = tr_buffer(test, 8 * PAGE_SIZE);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_mr *mr[8];

	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < 8; i++)
			mr[i] = reg(test, fx->domain,
				    (i % 2 ? linear : paged) + i * PAGE_SIZE / 3,
				    i * PAGE_SIZE / 2 + 1, REMOTE);
		for (int i = 0; i < 8; i++)
			fx_close(test, &mr[(i * 5 + round) % 8]->fid);
	}
}

/* Moves kOFI's queue pairs to the error state, as a driver error would. */
static int break_queue_pairs(struct ib_device *device)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct rdma_restrack_entry *res;
	int broken = 0;

	for (u32 number = 0; number < 4096; number++) {
		res = rdma_restrack_get_byid(device, RDMA_RESTRACK_QP, number);
		if (IS_ERR(res))
			continue;
		if (res->kern_name && !strcmp(res->kern_name, "kofi"))
			broken += !ib_modify_qp(container_of(res, struct ib_qp,
							     res),
						&attr, IB_QP_STATE);
		rdma_restrack_put(res);
	}
	return broken;
}

static void mr_06_a_failed_registration_queue_pair_is_replaced(struct kunit *test)
{
	u8 *buf = tr_buffer(test, PAGE_SIZE);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_mr *old = reg(test, fx->domain, buf, PAGE_SIZE, REMOTE);
	struct fid_mr *mr;
	struct attacker *at = at_connect(test, fx, pep);
	struct ib_device *device = at->id->device;
	u32 key = fi_mr_key(old);

	at_close(test, at);
	KUNIT_ASSERT_GE(test, break_queue_pairs(device), 1);
	mr = reg(test, fx->domain, buf, PAGE_SIZE, FI_REMOTE_READ);
	at = at_connect(test, fx, pep);
	tr_fill(buf, PAGE_SIZE, 3);
	KUNIT_EXPECT_EQ(test, IB_WC_SUCCESS,
			at_read(at, (uintptr_t)buf, fi_mr_key(mr), 64));
	KUNIT_EXPECT_TRUE(test, tr_intact(at->buf, 64, 3));
	at_close(test, at);

	/* Closing a region on a failed queue pair still ends remote access. */
	KUNIT_ASSERT_GE(test, break_queue_pairs(device), 1);
	fx_close(test, &old->fid);
	at = at_connect(test, fx, pep);
	KUNIT_EXPECT_NE(test, IB_WC_SUCCESS, at_read(at, (uintptr_t)buf,
						     key, 1));
	at_close(test, at);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(mr_01_keys_exist_without_a_connection),
	KUNIT_CASE(mr_01_concurrent_first_registrations),
	KUNIT_CASE(mr_02_a_requested_key_is_ignored),
	KUNIT_CASE(mr_02_requested_mr_modes),
	KUNIT_CASE(mr_02_regions_are_addressed_by_offset),
	KUNIT_CASE(mr_03_up_to_mr_iov_limit_kvecs),
	KUNIT_CASE(mr_03_kvecs_with_a_gap_are_refused),
	KUNIT_CASE(mr_05_unmappable_ranges_get_no_key),
	KUNIT_CASE(mr_06_regions_close_in_any_order),
	KUNIT_CASE(mr_06_a_failed_registration_queue_pair_is_replaced),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_mr_remote",
	.test_cases = cases,
};

kunit_test_suite(suite);
