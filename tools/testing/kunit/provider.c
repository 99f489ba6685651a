// SPDX-License-Identifier: GPL-2.0
/* Tests registration of other modules' providers with a fake one. mailbox.c tests a working one. */

#include <kunit/test-bug.h>
#include <linux/module.h>
#include <rdma/providers/fi_prov.h>

#include "fixture.h"

static struct {
	int			opens, cleanups, asked;
	int			answer;		/* of getinfo, fabric, and close of a fabric */
	bool			no_fabric;
	struct fi_ops		ops;
	struct fid_fabric	fabric;
	/* The open objects that the second info names. */
	struct fid_fabric	*named;
	struct fid_domain	*domain;
} fake;

static int fake_close(struct fid *fid)
{
	if (fake.answer)
		return fake.answer;
	KUNIT_EXPECT_PTR_EQ(kunit_get_current_test(), &fake.ops, fid->ops);
	fake.opens--;
	return 0;
}

static int fake_getinfo(u32 version, const char *node, const char *service, u64 flags,
			const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *last;

	fake.asked++;
	if (fake.answer)
		return fake.answer;
	/* Returns two infos, of which the second one names the provider. */
	*info = fi_allocinfo();
	if (!*info)
		return -FI_ENOMEM;
	last = fi_dupinfo(*info);
	if (last) {
		last->fabric_attr->prov_name = kstrdup("fake", GFP_KERNEL);
		last->fabric_attr->fabric = fake.named;
		last->domain_attr->domain = fake.domain;
	}
	(*info)->next = last;
	return 0;
}

static int fake_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	if (fake.answer)
		return fake.answer;
	if (fake.no_fabric)
		return 0;
	fake.opens++;
	fake.fabric.fid = (struct fid){
		.fclass = FI_CLASS_FABRIC,
		.context = context,
		.ops = &fake.ops,
	};
	*fabric = &fake.fabric;
	return 0;
}

static void fake_cleanup(void)
{
	fake.cleanups++;
}

static const struct fi_provider good = {
	.version = FI_VERSION(3, 4),
	.fi_version = FI_VERSION(1, 17),
	.name = "fake",
	.getinfo = fake_getinfo,
	.fabric = fake_fabric,
	.cleanup = fake_cleanup,
};

static void unregister_action(void *provider)
{
	fi_unregister_provider(provider);
}

static struct fi_provider *registered(struct kunit *test)
{
	struct fi_provider *provider = kunit_kzalloc(test, sizeof(*provider), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, provider);
	memset(&fake, 0, sizeof(fake));
	fake.ops = (struct fi_ops){ .size = sizeof(fake.ops), .close = fake_close };
	*provider = good;
	KUNIT_ASSERT_EQ(test, 0, fi_register_provider(provider));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, unregister_action, provider));
	return provider;
}

/* Returns the number of infos of that provider, or of all if name is NULL, or a negative errno. */
static int count_infos(struct kunit *test, const char *name)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL, *it;
	int count = 0, ret;

	KUNIT_ASSERT_NOT_NULL(test, hints);
	if (name)
		hints->fabric_attr->prov_name = kstrdup(name, GFP_KERNEL);
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (ret)
		return ret;
	for (it = info; it; it = it->next) {
		if (name)
			KUNIT_EXPECT_STREQ(test, name, it->fabric_attr->prov_name);
		if (!strcmp(it->fabric_attr->prov_name, "fake"))
			KUNIT_EXPECT_EQ(test, FI_VERSION(3, 4), it->fabric_attr->prov_version);
		count++;
	}
	fi_freeinfo(info);
	return count;
}

static void provider_infos_follow_those_of_kofi(struct kunit *test)
{
	int before = count_infos(test, NULL);
	struct fi_provider *provider;

	KUNIT_ASSERT_GT(test, before, 0);
	KUNIT_EXPECT_EQ(test, -FI_ENODATA, count_infos(test, "fake"));
	provider = registered(test);
	KUNIT_EXPECT_EQ(test, 2, count_infos(test, "fake"));
	KUNIT_EXPECT_EQ(test, before + 2, count_infos(test, NULL));
	/* A provider without infos, or that fails, does not affect the others' infos. */
	fake.answer = -FI_ENOMEM;
	KUNIT_EXPECT_EQ(test, -FI_ENODATA, count_infos(test, "fake"));
	KUNIT_EXPECT_EQ(test, before, count_infos(test, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_unregister_provider(provider));
	KUNIT_EXPECT_EQ(test, 1, fake.cleanups);
	KUNIT_EXPECT_EQ(test, -FI_ENODATA, count_infos(test, "fake"));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_unregister_provider(provider));
	KUNIT_EXPECT_EQ(test, 1, fake.cleanups);
}

static void provider_with_an_open_fabric_is_busy(struct kunit *test)
{
	char name[] = "fake";
	struct fi_provider *provider = registered(test);
	struct fi_fabric_attr attr = { .prov_name = name };
	struct fid_fabric *fabric = NULL;
	int refs = module_refcount(THIS_MODULE);

	fake.answer = -FI_EIO;
	KUNIT_EXPECT_EQ(test, -FI_EIO, fi_fabric(&attr, &fabric, test));
	fake.answer = 0;
	/* A fabric call that returns no fabric, or one without a close call. */
	fake.no_fabric = true;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_fabric(&attr, &fabric, test));
	fake.no_fabric = false;
	fake.ops.size--;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_fabric(&attr, &fabric, test));
	fake.ops.size++;
	fake.ops.close = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_fabric(&attr, &fabric, test));
	fake.ops.close = fake_close;
	fake.opens = 0;
	KUNIT_EXPECT_NULL(test, fabric);
	KUNIT_EXPECT_EQ(test, refs, module_refcount(THIS_MODULE));
	KUNIT_ASSERT_EQ(test, 0, fi_fabric(&attr, &fabric, test));
	KUNIT_EXPECT_PTR_EQ(test, &fake.fabric, fabric);
	KUNIT_EXPECT_PTR_EQ(test, test, fabric->fid.context);
	KUNIT_EXPECT_EQ(test, refs + 1, module_refcount(THIS_MODULE));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_unregister_provider(provider));
	/* The provider refuses the close. */
	fake.answer = -FI_EBUSY;
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fabric->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_unregister_provider(provider));
	fake.answer = 0;
	KUNIT_EXPECT_EQ(test, 0, fi_close(&fabric->fid));
	KUNIT_EXPECT_EQ(test, 0, fake.opens);
	KUNIT_EXPECT_EQ(test, refs, module_refcount(THIS_MODULE));
	KUNIT_EXPECT_EQ(test, 0, fi_unregister_provider(provider));
	KUNIT_EXPECT_EQ(test, -FI_ENODATA, fi_fabric(&attr, &fabric, test));
}

/* Returns the number of infos of the provider within these objects. */
static int count_within(struct kunit *test, struct fid_fabric *fabric, struct fid_domain *domain)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int count = 0, ret;

	KUNIT_ASSERT_NOT_NULL(test, hints);
	hints->fabric_attr->fabric = fabric;
	hints->domain_attr->domain = domain;
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	KUNIT_EXPECT_EQ(test, info ? 0 : -FI_ENODATA, ret);
	for (struct fi_info *it = info; it; it = it->next) {
		if (strcmp(it->fabric_attr->prov_name, "fake"))
			continue;
		if (fabric)
			KUNIT_EXPECT_PTR_EQ(test, fabric, it->fabric_attr->fabric);
		if (domain)
			KUNIT_EXPECT_PTR_EQ(test, domain, it->domain_attr->domain);
		count++;
	}
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return count;
}

/* An open object in the hints belongs to one provider: other providers are not asked. */
static void info_16_objects_of_other_providers_restrict_the_infos(struct kunit *test)
{
	struct fid_domain domain = { .fid.fclass = FI_CLASS_DOMAIN };
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_fabric *fabric;
	char name[] = "fake";
	struct fi_fabric_attr attr = { .prov_name = name };

	registered(test);
	KUNIT_ASSERT_EQ(test, 0, fi_fabric(&attr, &fabric, test));
	fx_defer_close(test, &fabric->fid);
	KUNIT_EXPECT_EQ(test, 0, count_within(test, fx->fabric, NULL));
	KUNIT_EXPECT_EQ(test, 0, count_within(test, NULL, fx->domain));
	KUNIT_EXPECT_EQ_MSG(test, 0, fake.asked, "the hints name another provider's object");
	/* An info that does not name the object is dropped. */
	KUNIT_EXPECT_EQ(test, 0, count_within(test, fabric, NULL));
	KUNIT_EXPECT_EQ(test, 0, count_within(test, NULL, &domain));
	KUNIT_EXPECT_EQ(test, 2, fake.asked);
	fake.named = fabric;
	KUNIT_EXPECT_EQ(test, 1, count_within(test, fabric, NULL));
	KUNIT_EXPECT_EQ(test, 0, count_within(test, NULL, &domain));
	KUNIT_EXPECT_EQ(test, 0, count_within(test, fabric, &domain));
	fake.domain = &domain;
	KUNIT_EXPECT_EQ(test, 1, count_within(test, NULL, &domain));
	KUNIT_EXPECT_EQ(test, 1, count_within(test, fabric, &domain));
}

static void provider_invalid_registrations_are_refused(struct kunit *test)
{
	char name[66];
	struct fi_provider *there = registered(test);
	struct fi_provider provider = good;

#define REFUSED(ret) KUNIT_EXPECT_EQ(test, ret, fi_register_provider(&provider))

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_register_provider(NULL));
	KUNIT_EXPECT_EQ(test, -FI_EALREADY, fi_register_provider(there));
	REFUSED(-FI_EALREADY);
	provider.name = "verbs";
	REFUSED(-FI_EALREADY);
	provider.name = NULL;
	REFUSED(-FI_EINVAL);
	provider.name = "";
	REFUSED(-FI_EINVAL);
	memset(name, 'x', sizeof(name) - 1);
	name[65] = 0;
	provider.name = name;
	REFUSED(-FI_EINVAL);
	provider.name = "another";
	provider.getinfo = NULL;
	REFUSED(-FI_EINVAL);
	provider.getinfo = fake_getinfo;
	provider.fabric = NULL;
	REFUSED(-FI_EINVAL);
	provider.fabric = fake_fabric;
	provider.fi_version = FI_VERSION(2, 0);
	REFUSED(-FI_ENOSYS);
	provider.fi_version = FI_VERSION(1, 0);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_unregister_provider(&provider));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_unregister_provider(NULL));
	/* A name of the maximum length, and no cleanup call, are accepted. */
	name[64] = 0;
	provider.name = name;
	provider.cleanup = NULL;
	REFUSED(0);
	KUNIT_EXPECT_EQ(test, 0, fi_unregister_provider(&provider));
	KUNIT_EXPECT_EQ(test, 0, fake.cleanups);
#undef REFUSED
}

static struct kunit_case cases[] = {
	KUNIT_CASE(provider_infos_follow_those_of_kofi),
	KUNIT_CASE(provider_with_an_open_fabric_is_busy),
	KUNIT_CASE(info_16_objects_of_other_providers_restrict_the_infos),
	KUNIT_CASE(provider_invalid_registrations_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_provider",
	.test_cases = cases,
};

kunit_test_suite(suite);
