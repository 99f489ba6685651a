// SPDX-License-Identifier: GPL-2.0
/*
 * The description of the device in an info: what it says, who owns it, and how it
 * is printed.
 */

#include <linux/numa.h>
#include <linux/slab.h>
#include <rdma/fi_ext.h>

#include "fixture.h"

/* Returns an info that has a description; skips the test on loop, which has no device. */
static struct fi_info *get_info(struct kunit *test, enum fi_ep_type type)
{
	struct fi_info *hints = fx_hints(test);

	if (fx_is_loop())
		kunit_skip(test, "loop has no device");
	hints->ep_attr->type = type;
	return fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
}

/* Expects every part of a description to say something about this device. */
static void expect_described(struct kunit *test, const struct fi_info *info)
{
	const struct fid_nic *nic = info->nic;
	const struct fi_kofi_nic_attr *attr;
	unsigned int value;

	KUNIT_ASSERT_NOT_NULL(test, nic);
	KUNIT_EXPECT_EQ(test, FI_CLASS_NIC, nic->fid.fclass);
	KUNIT_ASSERT_NOT_NULL(test, nic->device_attr);
	KUNIT_EXPECT_STREQ(test, info->domain_attr->name, nic->device_attr->name);
	KUNIT_EXPECT_GT(test, strlen(nic->device_attr->driver), 0);
	KUNIT_EXPECT_EQ(test, 0, kstrtouint(nic->device_attr->vendor_id, 0, &value));
	KUNIT_EXPECT_EQ(test, 0, kstrtouint(nic->device_attr->device_id, 0, &value));
	KUNIT_EXPECT_EQ(test, 0, kstrtouint(nic->device_attr->device_version, 10, &value));
	KUNIT_EXPECT_NOT_NULL(test, nic->device_attr->firmware);

	KUNIT_ASSERT_NOT_NULL(test, nic->bus_attr);
	if (nic->bus_attr->bus_type == FI_BUS_PCI)
		KUNIT_EXPECT_LT(test, nic->bus_attr->attr.pci.function_id, 8);
	else
		KUNIT_EXPECT_EQ(test, FI_BUS_UNSPEC, nic->bus_attr->bus_type);

	KUNIT_ASSERT_NOT_NULL(test, nic->link_attr);
	KUNIT_EXPECT_NOT_NULL(test, strchr(nic->link_attr->address, ':'));
	KUNIT_EXPECT_GE(test, nic->link_attr->mtu, 256);
	KUNIT_EXPECT_TRUE(test, is_power_of_2(nic->link_attr->mtu));
	KUNIT_EXPECT_GT(test, nic->link_attr->speed, 1000000000ULL);
	KUNIT_EXPECT_EQ(test, FI_LINK_UP, nic->link_attr->state);
	KUNIT_EXPECT_STREQ(test, "Ethernet", nic->link_attr->network_type);

	attr = nic->prov_attr;
	KUNIT_ASSERT_NOT_NULL(test, attr);
	KUNIT_EXPECT_EQ(test, sizeof(*attr), attr->size);
	KUNIT_EXPECT_GE(test, attr->numa_node, NUMA_NO_NODE);
	KUNIT_EXPECT_GE(test, attr->comp_vectors, 1);
}

static void nic_describes_the_device(struct kunit *test)
{
	static const enum fi_ep_type types[] = { FI_EP_MSG, FI_EP_RDM };

	for (int i = 0; i < ARRAY_SIZE(types); i++) {
		struct fi_info *info = get_info(test, types[i]);

		for (; info; info = info->next)
			if (strncmp(info->fabric_attr->prov_name, "loop", 4))
				expect_described(test, info);
	}
}

static void loop_has_no_nic(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info;

	hints->fabric_attr->prov_name = kstrdup("loop", GFP_KERNEL);
	for (info = fx_info_for(test, hints, NULL, NULL, 0); info; info = info->next)
		KUNIT_EXPECT_NULL(test, info->nic);
}

static void duplicate_owns_its_nic(struct kunit *test)
{
	struct fi_info *info = get_info(test, FI_EP_MSG), *first, *copy;

	first = fi_dupinfo(info);
	KUNIT_ASSERT_NOT_NULL(test, first);
	KUNIT_EXPECT_PTR_NE(test, info->nic, first->nic);
	copy = fi_dupinfo(first);
	fi_freeinfo(first);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	fx_defer_free(test, copy);
	expect_described(test, copy);
	KUNIT_EXPECT_STREQ(test, info->nic->link_attr->address, copy->nic->link_attr->address);
	KUNIT_EXPECT_EQ(test, info->nic->link_attr->speed, copy->nic->link_attr->speed);
}

/* A consumer may take the description out of the info and close it itself. */
static void nic_is_an_object_of_its_own(struct kunit *test)
{
	struct fi_info *info = fi_dupinfo(get_info(test, FI_EP_MSG));
	struct fid_nic *nic;
	char text[1024];
	void *ops;

	KUNIT_ASSERT_NOT_NULL(test, info);
	nic = info->nic;
	info->nic = NULL;
	fi_freeinfo(info);
	KUNIT_ASSERT_NOT_NULL(test, nic);
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_control(&nic->fid, FI_ENABLE, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_control(&nic->fid, FI_DUP, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, nic->fid.ops->bind(&nic->fid, &nic->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_open_ops(&nic->fid, "none", 0, &ops, NULL));
	KUNIT_EXPECT_EQ(test, 0, nic->fid.ops->tostr(&nic->fid, text, sizeof(text)));
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, nic->device_attr->name), "%s", text);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&nic->fid));
}

static void tostr_prints_the_nic(struct kunit *test)
{
	static const char *const parts[] = {
		"nic:\n", "fi_device_attr:\n", "fi_bus_attr:\n", "fi_link_attr:\n",
		"network_type: Ethernet\n", "state: FI_LINK_UP\n", "fi_kofi_nic_attr:\n",
		"numa_node: ",
	};
	struct fi_info *info = get_info(test, FI_EP_MSG);
	char *text = kunit_kzalloc(test, 8192, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, text);
	KUNIT_ASSERT_PTR_EQ(test, text, fi_tostr_r(text, 8192, info, FI_TYPE_INFO));
	for (int i = 0; i < ARRAY_SIZE(parts); i++)
		KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, parts[i]), "%s", parts[i]);
	KUNIT_EXPECT_NOT_NULL(test, strstr(text, info->nic->link_attr->address));
}

static void nic_in_hints_is_ignored(struct kunit *test)
{
	struct fi_info *hints = fi_dupinfo(get_info(test, FI_EP_MSG)), *info = NULL;
	struct fid_fabric *fabric = fx_fabric(test, hints);
	int ret;

	/* With an open fabric the hints are copied. */
	hints->fabric_attr->fabric = fabric;
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	KUNIT_EXPECT_EQ(test, 0, ret);
	fi_freeinfo(hints);
	if (!ret)
		expect_described(test, info);
	fi_freeinfo(info);
}

static void request_describes_the_device(struct kunit *test)
{
	struct kofi_fabric_fx *fx;
	struct fid_pep *pep;
	struct fid_ep *ep;

	get_info(test, FI_EP_MSG);
	fx = fx_open(test);
	pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	ep = fx_bound_ep(test, fx);
	fx_start_connect(test, ep, pep);
	expect_described(test, fx_wait_request(test, fx->eq));
	fx_refuse(test, pep);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(nic_describes_the_device),
	KUNIT_CASE(loop_has_no_nic),
	KUNIT_CASE(duplicate_owns_its_nic),
	KUNIT_CASE(nic_is_an_object_of_its_own),
	KUNIT_CASE(tostr_prints_the_nic),
	KUNIT_CASE(nic_in_hints_is_ignored),
	KUNIT_CASE(request_describes_the_device),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_info_nic",
	.test_cases = cases,
};

kunit_test_suite(suite);
