/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * For providers: how one describes itself, and becomes known.
 */

#ifndef FI_PROV_H
#define FI_PROV_H

#include <linux/module.h>
#include <rdma/fabric.h>

/**
 * struct fi_provider - a provider
 * @version: its own version
 * @fi_version: version of the API that it was written for
 * @context: the core's
 * @name: its name
 * @getinfo: fi_getinfo() for what it offers
 * @fabric: fi_fabric() for its fabrics
 * @cleanup: called last, when no object of its is open, or %NULL
 *
 * @getinfo makes its infos with fi_dupinfo(), in a list; what it answers other
 * than 0 means that there are none. prov_name is filled in where it is not. An
 * open fabric or domain in the hints is never one of kOFI's own, and may have been
 * closed: compare its address, and do not dereference it. Infos that do not name
 * the same object are dropped.
 * @fabric gives a fabric whose fid.ops has all calls, and a size that says so;
 * kOFI puts a copy in their place, and the original back before its close is
 * called.
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

/**
 * fi_register_provider_by() - what fi_register_provider() calls
 * @provider: the provider
 * @module: the module whose code that is
 *
 * Context: Process context, may sleep.
 * Return: See fi_register_provider().
 */
int fi_register_provider_by(struct fi_provider *provider,
			    struct module *module);

/**
 * fi_register_provider() - make a provider known to fi_getinfo() and fi_fabric()
 * @provider: the provider, valid until fi_unregister_provider()
 *
 * C callers find it, by its prov_name or behind kOFI's own providers; Rust
 * callers and /dev/kofi do not. The module stays loaded while a call is under way
 * or one of its fabrics is open, which kOFI sees to.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - it is known
 * * -FI_EINVAL - no name, or one of more than 64 bytes; no getinfo, no fabric;
 *   @provider is %NULL
 * * -FI_ENOSYS - it was written for a newer interface
 * * -FI_EALREADY - there is one of that name, or it is there
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_register_provider(struct fi_provider *provider)
{
	return fi_register_provider_by(provider, THIS_MODULE);
}

/**
 * fi_unregister_provider() - take a provider back
 * @provider: the provider
 *
 * In a module's exit function it does not fail: the module would still be loaded.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - nobody finds it any more, nothing of it runs, and cleanup has been called
 * * -FI_EBUSY - one of its fabrics is open, or a call under way
 * * -FI_EINVAL - it is not registered
 * * -FI_EOPBADSTATE - in atomic context
 */
int fi_unregister_provider(struct fi_provider *provider);

#endif /* FI_PROV_H */
