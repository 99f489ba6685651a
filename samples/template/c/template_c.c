// SPDX-License-Identifier: GPL-2.0
/*
 * A template for modules that use kOFI: lists the devices that an endpoint can
 * be opened on. The next steps are in samples/c.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

static int __init template_init(void)
{
	struct fi_info *hints, *info, *list = NULL;
	int count = 0, ret;

	hints = fi_allocinfo();
	if (!hints)
		return -ENOMEM;
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_MSG;
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &list);
	fi_freeinfo(hints);
	/* Load without a device, too: one may be added later. */
	if (ret && ret != -FI_ENODATA) {
		pr_err("fi_getinfo: %s\n", fi_strerror(ret));
		return -EIO;
	}
	for (info = list; info; info = info->next) {
		pr_info("%s on %s\n", info->fabric_attr->prov_name,
			info->domain_attr->name);
		count++;
	}
	fi_freeinfo(list);
	pr_info("ready count=%d\n", count);
	return 0;
}

static void __exit template_exit(void)
{
}

module_init(template_init);
module_exit(template_exit);
MODULE_AUTHOR("You");
MODULE_DESCRIPTION("A module that uses kOFI");
MODULE_LICENSE("GPL");
