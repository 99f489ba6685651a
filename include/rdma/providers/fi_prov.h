/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Registration of providers.
 */

#ifndef FI_PROV_H
#define FI_PROV_H

#include <linux/module.h>
#include <rdma/fabric.h>

/**
 * struct fi_provider - description of a provider
 * @version: version of the provider
 * @fi_version: version of the API that it was written for
 * @context: belongs to kOFI
 * @name: name of the provider
 * @getinfo: fi_getinfo() for its offers
 * @fabric: fi_fabric() for its fabrics
 * @cleanup: called last, when no object of the provider is open, or %NULL
 *
 * @getinfo allocates its infos with fi_dupinfo(), in a list; a return value other
 * than 0 means that there are none. kOFI sets a prov_name that is missing. An
 * open fabric or domain in the hints is never one of kOFI's own, and may have been
 * closed: compare its address, and do not dereference it. Infos that do not name
 * the same object are dropped.
 * @fabric returns a fabric whose fid.ops has all calls and the matching size.
 * kOFI replaces fid.ops by a copy, and restores the original before it calls the
 * original's close.
 *
 * Context: The callbacks are called in process context and may sleep.
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

/**
 * fi_register_provider_by() - fi_register_provider() for a module
 * @provider: the provider
 * @module: the module that has the provider's code
 *
 * Context: Process context, may sleep.
 * Return: See fi_register_provider().
 */
int fi_register_provider_by(struct fi_provider *provider,
			    struct module *module);

/**
 * fi_register_provider() - register a provider with fi_getinfo() and fi_fabric()
 * @provider: the provider, valid until fi_unregister_provider()
 *
 * C callers find the provider by its prov_name, or after kOFI's own providers.
 * Rust callers and /dev/kofi do not find it. kOFI holds a reference on the module
 * while a call is running or one of its fabrics is open.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the provider is registered
 * * -FI_EINVAL - no name, or one of more than 64 bytes; no getinfo, no fabric;
 *   @provider is %NULL
 * * -FI_ENOSYS - the provider was written for a newer API
 * * -FI_EALREADY - the name is in use, or the provider is registered already
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_register_provider(struct fi_provider *provider)
{
	return fi_register_provider_by(provider, THIS_MODULE);
}

/**
 * fi_unregister_provider() - unregister a provider
 * @provider: the provider
 *
 * The call does not fail in a module's exit function: a reference on the module
 * would have prevented the unload.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the provider is unregistered, none of its calls runs, and cleanup has been
 *   called
 * * -FI_EBUSY - one of its fabrics is open, or a call is running
 * * -FI_EINVAL - the provider is not registered
 * * -FI_EOPBADSTATE - in atomic context
 */
int fi_unregister_provider(struct fi_provider *provider);

#endif /* FI_PROV_H */
