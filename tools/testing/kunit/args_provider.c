// SPDX-License-Identifier: GPL-2.0
/* Bad arguments to the registration of providers: see args.h. Other refusals are in provider.c. */

#include <linux/module.h>
#include <rdma/providers/fi_prov.h>

#include "args.h"

static void args_providers(struct kunit *test)
{
	struct fi_provider provider = {};
	struct fid_mc mc = { .fi_addr = 7 };

	ANSWER(-FI_EINVAL, fi_register_provider_by(NULL, THIS_MODULE));
	ANSWER(-FI_EINVAL, fi_register_provider_by(&provider, THIS_MODULE));
	ANSWER(-FI_EINVAL, fi_register_provider_by(&provider, NULL));
	ANSWER(-FI_EINVAL, fi_unregister_provider(NULL));
	ANSWER(-FI_EINVAL, fi_unregister_provider(&provider));
	/* fi_mc_addr() cannot fail. */
	ANSWER(7, fi_mc_addr(&mc));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(args_providers),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_args_provider",
	.test_cases = cases,
};

kunit_test_suite(suite);
