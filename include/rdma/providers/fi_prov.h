/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * For providers: how one describes itself.
 */

#ifndef FI_PROV_H
#define FI_PROV_H

#include <rdma/fabric.h>

/**
 * struct fi_provider - a provider
 * @version: its own version
 * @fi_version: version of the API that it was written for
 * @context: the core's
 * @name: its name
 * @getinfo: fi_getinfo() for what it offers
 * @fabric: fi_fabric() for its fabrics
 * @cleanup: called last, when no object of its is open
 *
 * Context: All are called in process context and may sleep.
 */
struct fi_provider {
	u32			version;
	u32			fi_version;
	struct fi_context	context;
	const char		*name;
	int	(*getinfo)(u32 version, const char *node, const char *service,
			   u64 flags, const struct fi_info *hints,
			   struct fi_info **info);
	int	(*fabric)(struct fi_fabric_attr *attr,
			  struct fid_fabric **fabric, void *context);
	void	(*cleanup)(void);
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_provider) == 72);
#endif

#endif /* FI_PROV_H */
