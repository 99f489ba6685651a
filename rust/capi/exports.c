// SPDX-License-Identifier: GPL-2.0
/*
 * Exports the functions that C modules link against. The list is the ABI.
 */
#include <linux/export.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

EXPORT_SYMBOL_GPL(fi_dupinfo);
EXPORT_SYMBOL_GPL(fi_fabric_by);
EXPORT_SYMBOL_GPL(fi_freeinfo);
EXPORT_SYMBOL_GPL(fi_getinfo_by);
EXPORT_SYMBOL_GPL(fi_register_provider_by);
EXPORT_SYMBOL_GPL(fi_strerror);
EXPORT_SYMBOL_GPL(fi_tostr);
EXPORT_SYMBOL_GPL(fi_tostr_r);
EXPORT_SYMBOL_GPL(fi_unregister_provider);
EXPORT_SYMBOL_GPL(fi_version);
