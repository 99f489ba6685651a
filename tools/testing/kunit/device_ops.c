// SPDX-License-Identifier: GPL-2.0
/*
 * Placement: the device of a domain, and its completion vectors.
 */

#include <linux/device.h>
#include <rdma/fi_ext.h>
#include <rdma/ib_verbs.h>

#include "traffic.h"

static const enum fi_ep_type types[] = { FI_EP_MSG, FI_EP_RDM };

/* Opens a domain for endpoints of this type. */
static struct fid_domain *open_domain(struct kunit *test, enum fi_ep_type type,
				      struct fi_info **info)
{
	struct fi_info *hints = fx_hints(test);

	hints->ep_attr->type = type;
	*info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	return fx_domain(test, fx_fabric(test, *info), *info);
}

/* Returns the operations of a domain that has a device; NULL on loop. */
static struct fi_kofi_ops_device *device_ops(struct kunit *test, struct fid_domain *domain)
{
	void *ops = NULL;
	int ret = fi_open_ops(&domain->fid, FI_KOFI_DEVICE_OPS, 0, &ops, NULL);

	KUNIT_EXPECT_EQ(test, fx_is_loop() ? -FI_ENOSYS : 0, ret);
	KUNIT_EXPECT_EQ(test, fx_is_loop(), !ops);
	return ops;
}

static void domain_has_its_device(struct kunit *test)
{
	for (int i = 0; i < ARRAY_SIZE(types); i++) {
		struct fi_kofi_ops_device *ops;
		const struct fi_kofi_nic_attr *nic;
		struct fid_domain *domain;
		struct fi_info *info;
		struct device *device;

		domain = open_domain(test, types[i], &info);
		ops = device_ops(test, domain);
		if (!ops)
			continue;
		KUNIT_EXPECT_EQ(test, sizeof(*ops), ops->size);
		device = ops->device(domain);
		KUNIT_ASSERT_NOT_NULL(test, device);
		KUNIT_EXPECT_STREQ(test, info->domain_attr->name, dev_name(device));
		nic = info->nic->prov_attr;
		KUNIT_EXPECT_EQ(test, nic->comp_vectors, ops->comp_vectors(domain));
		KUNIT_EXPECT_EQ(test, nic->numa_node,
				device->parent ? dev_to_node(device->parent) : NUMA_NO_NODE);
		/* A driver that uses kernel addresses has none. */
		if (!strcmp(info->nic->device_attr->driver, "rdma_rxe") ||
		    !strcmp(info->nic->device_attr->driver, "siw"))
			KUNIT_EXPECT_NULL(test, ops->dma_device(domain));
	}
}

static void domain_has_no_other_operations(struct kunit *test)
{
	struct fi_info *info;
	struct fid_domain *domain = open_domain(test, FI_EP_MSG, &info);
	struct fid *fid = &domain->fid;
	void *ops = NULL;

	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_open_ops(fid, "kofi_devic", 0, &ops, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_open_ops(fid, "kofi_devices", 0, &ops, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_open_ops(fid, "", 0, &ops, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_open_ops(fid, FI_KOFI_DEVICE_OPS, 1, &ops, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_open_ops(fid, FI_KOFI_DEVICE_OPS, 0, NULL, NULL));
	KUNIT_EXPECT_NULL(test, ops);
}

static int open_cq(struct fid_domain *domain, u64 flags, int vector)
{
	struct fi_cq_attr attr = { .flags = flags, .signaling_vector = vector };
	struct fid_cq *cq = NULL;
	int ret = fi_cq_open(domain, &attr, &cq, NULL);

	return ret ?: fi_close(&cq->fid);
}

static void signaling_vector_beyond_the_device_is_refused(struct kunit *test)
{
	for (int i = 0; i < ARRAY_SIZE(types); i++) {
		struct fi_kofi_ops_device *ops;
		struct fid_domain *domain;
		struct fi_info *info;
		int count;

		domain = open_domain(test, types[i], &info);
		ops = device_ops(test, domain);
		if (!ops)
			kunit_skip(test, "loop has no vectors");
		count = ops->comp_vectors(domain);
		for (int vector = 0; vector < count; vector++)
			KUNIT_EXPECT_EQ(test, 0, open_cq(domain, FI_AFFINITY, vector));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, open_cq(domain, FI_AFFINITY, count));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, open_cq(domain, FI_AFFINITY, INT_MAX));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, open_cq(domain, FI_AFFINITY, -1));
		KUNIT_EXPECT_EQ_MSG(test, 0, open_cq(domain, 0, count), "not requested");
	}
}

/* The queue of the last vector completes operations as any other. */
static void operations_complete_on_the_last_vector(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_kofi_ops_device *ops = device_ops(test, fx->domain);
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC, .flags = FI_AFFINITY,
		.signaling_vector = ops ? ops->comp_vectors(fx->domain) - 1 : 0,
	};
	u8 *data = tr_buffer(test, 64), *got = tr_buffer(test, 64);
	struct fi_cq_tagged_entry entries[2];
	struct fid_ep *ep, *peer;
	struct fid_pep *pep;
	struct fid_cq *cq;

	cq = fx_cq(test, fx->domain, &attr);
	ep = fx_ep(test, fx->domain, fx->info);
	fx_bind(test, ep, fx->eq, cq, FI_TRANSMIT | FI_RECV);
	pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
	KUNIT_ASSERT_EQ(test, 0, tr_recv(ep, got, 64));
	peer = fx_connect(test, fx->domain, ep, pep, fx->eq, cq);
	KUNIT_ASSERT_EQ(test, 0, tr_send(peer, data, 64));
	KUNIT_EXPECT_EQ(test, 2, (int)fx_wait_comp(test, cq, entries, 2));
}

static void moderation_is_refused_without_the_device(struct kunit *test)
{
	struct fi_kofi_cq_moderation moderation = { .count = 16, .period = 8 };
	struct kofi_fabric_fx *fx = fx_open(test);
	int ret = fi_set_val(&fx->cq->fid, FI_KOFI_CQ_MODERATION, &moderation);
	const char *driver = fx->info->nic ? fx->info->nic->device_attr->driver : "";

	/* Adapters have it; the soft devices and loop have not. */
	if (fx_is_loop() || !strcmp(driver, "rdma_rxe") || !strcmp(driver, "siw"))
		KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, ret);
	else
		KUNIT_EXPECT_TRUE(test, !ret || ret == -FI_EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_set_val(&fx->cq->fid, FI_KOFI_CQ_MODERATION, NULL));
	KUNIT_EXPECT_EQ(test, ret, fi_set_val(&fx->cq->fid, FI_KOFI_CQ_ADAPTIVE, &(size_t){ 1 }));
	KUNIT_EXPECT_EQ(test, ret, fi_set_val(&fx->cq->fid, FI_KOFI_CQ_ADAPTIVE, &(size_t){ 0 }));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_set_val(&fx->cq->fid, FI_KOFI_CQ_ADAPTIVE, &(size_t){ 2 }));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS,
			fi_set_val(&fx->cq->fid, FI_KOFI_CQ_ADAPTIVE + 1, &moderation));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS,
			fi_get_val(&fx->cq->fid, FI_KOFI_CQ_MODERATION, &moderation));
}

/* Requests to modify_cq of a device with moderation, which the test pretends. */
static atomic_t changes;
static u16 last_count, last_period;

static int note_moderation(struct ib_cq *cq, u16 count, u16 period)
{
	WRITE_ONCE(last_count, count);
	WRITE_ONCE(last_period, period);
	atomic_inc(&changes);
	return 0;
}

static void remove_moderation(void *of)
{
	struct ib_device *device = of;

	device->ops.modify_cq = NULL;
}

/* Sends and receives a message, and reads both completions. */
static void exchange(struct kunit *test, struct fid_cq *cq, struct fid_ep *ep[2], u8 *data)
{
	struct fi_cq_tagged_entry entries[2];

	KUNIT_ASSERT_EQ(test, 0, (int)tr_recv(ep[0], data, 8));
	KUNIT_ASSERT_EQ(test, 0, (int)tr_send(ep[1], data + 8, 8));
	KUNIT_ASSERT_EQ(test, 2, (int)fx_wait_comp(test, cq, entries, 2));
}

static void moderation_reaches_the_device(struct kunit *test)
{
	struct fi_kofi_cq_moderation moderation = { .count = 16, .period = 8 };
	struct kofi_fabric_fx *fx = fx_open(test);
	u8 *data = tr_buffer(test, 64);
	struct fi_kofi_ops_device *ops;
	struct fid *cq = &fx->cq->fid;
	struct ib_device *device;
	struct fid_pep *pep;
	struct fid_ep *ep[2];
	int seen;

	ops = device_ops(test, fx->domain);
	if (!ops)
		kunit_skip(test, "loop has no device");
	device = container_of(ops->device(fx->domain), struct ib_device, dev);
	if (device->ops.modify_cq)
		kunit_skip(test, "the device has moderation");
	pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	ep[0] = fx_bound_ep(test, fx);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep[0]));
	KUNIT_ASSERT_EQ(test, 0, (int)tr_recv(ep[0], data, 8));
	ep[1] = fx_connect(test, fx->domain, ep[0], pep, fx->eq, fx->cq);

	atomic_set(&changes, 0);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action(test, remove_moderation, device));
	device->ops.modify_cq = note_moderation;
	KUNIT_EXPECT_EQ(test, 0, fi_set_val(cq, FI_KOFI_CQ_MODERATION, &moderation));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&changes));
	KUNIT_EXPECT_EQ(test, 16, last_count);
	KUNIT_EXPECT_EQ(test, 8, last_period);

	KUNIT_EXPECT_EQ(test, 0, fi_set_val(cq, FI_KOFI_CQ_ADAPTIVE, &(size_t){ 1 }));
	/* The library decides after each 64 reads, by how their rate has changed. */
	for (int i = 0; i < 200 * 64 && atomic_read(&changes) == 1; i++) {
		exchange(test, fx->cq, ep, data);
		if (i / 128 % 2)
			usleep_range(50, 100);
	}
	KUNIT_EXPECT_GT(test, atomic_read(&changes), 1);

	KUNIT_EXPECT_EQ(test, 0, fi_set_val(cq, FI_KOFI_CQ_MODERATION, &moderation));
	seen = atomic_read(&changes);
	for (int i = 0; i < 4 * 64; i++)
		exchange(test, fx->cq, ep, data);
	KUNIT_EXPECT_EQ_MSG(test, seen, atomic_read(&changes), "adapts after it has ended");
	KUNIT_EXPECT_EQ(test, 16, last_count);
	KUNIT_EXPECT_EQ(test, 0, fi_set_val(cq, FI_KOFI_CQ_ADAPTIVE, &(size_t){ 1 }));
	KUNIT_EXPECT_EQ(test, 0, fi_set_val(cq, FI_KOFI_CQ_ADAPTIVE, &(size_t){ 0 }));
	KUNIT_EXPECT_EQ(test, 0, last_count);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(domain_has_its_device),
	KUNIT_CASE(domain_has_no_other_operations),
	KUNIT_CASE(signaling_vector_beyond_the_device_is_refused),
	KUNIT_CASE(operations_complete_on_the_last_vector),
	KUNIT_CASE(moderation_is_refused_without_the_device),
	KUNIT_CASE(moderation_reaches_the_device),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_device_ops",
	.test_cases = cases,
};

kunit_test_suite(suite);
