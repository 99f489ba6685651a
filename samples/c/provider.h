/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fabric and domain objects for the provider samples. Each counts its open
 * children; closing it before them is -FI_EBUSY.
 *
 * A provider defines domain_ops, the calls that open children of a domain, and
 * has open_fabric() as the fabric call of its struct fi_provider.
 */

#ifndef SAMPLES_PROVIDER_H
#define SAMPLES_PROVIDER_H

#include <linux/atomic.h>
#include <linux/slab.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_ext.h>

struct fabric {
	struct fid_fabric	fid;
	atomic_t		users;
};

struct domain {
	struct fid_domain	fid;
	struct fabric		*fabric;
	atomic_t		users;
};

/* Calls that open children of a domain, defined by the provider */
static struct fi_ops_domain domain_ops;

static int no_bind(struct fid *fid, struct fid *bfid, u64 flags)
{
	return -FI_ENOSYS;
}

static int no_control(struct fid *fid, int command, void *arg)
{
	return -FI_ENOSYS;
}

static int no_ops_open(struct fid *fid, const char *name, u64 flags, void **ops, void *context)
{
	return -FI_ENOSYS;
}

/* Defines the fid operations of an object that has only a close call. */
#define FID_OPS(name, close_call) \
static struct fi_ops name = { .size = sizeof(name), .close = close_call, .bind = no_bind, \
			      .control = no_control, .ops_open = no_ops_open }

static int close_domain(struct fid *fid)
{
	struct domain *domain = container_of(fid, struct domain, fid.fid);

	if (atomic_read(&domain->users))
		return -FI_EBUSY;
	atomic_dec(&domain->fabric->users);
	kfree(domain);
	return 0;
}

FID_OPS(domain_fid_ops, close_domain);

static int open_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out,
		       void *context)
{
	struct fabric *fabric = container_of(fid, struct fabric, fid);
	struct domain *domain;

	if (!info || !out)
		return -FI_EINVAL;
	domain = kzalloc_obj(*domain);
	if (!domain)
		return -FI_ENOMEM;
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &domain_fid_ops;
	domain->fid.ops = &domain_ops;
	domain->fabric = fabric;
	atomic_inc(&fabric->users);
	*out = &domain->fid;
	return 0;
}

/* Opens a peer domain. The owner's domain is not used: these providers register no memory. */
static int open_domain2(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out,
			u64 flags, void *context)
{
	struct fi_peer_domain_context *peer = context;

	if (flags != FI_PEER || !peer || peer->size < sizeof(*peer) || !peer->domain)
		return -FI_EINVAL;
	return open_domain(fid, info, out, context);
}

static int close_fabric(struct fid *fid)
{
	struct fabric *fabric = container_of(fid, struct fabric, fid.fid);

	if (atomic_read(&fabric->users))
		return -FI_EBUSY;
	kfree(fabric);
	return 0;
}

FID_OPS(fabric_fid_ops, close_fabric);

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(fabric_ops),
	.domain = open_domain,
	.domain2 = open_domain2,
};

static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	struct fabric *fabric = kzalloc_obj(*fabric);

	if (!fabric)
		return -FI_ENOMEM;
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &fabric_fid_ops;
	fabric->fid.ops = &fabric_ops;
	*out = &fabric->fid;
	return 0;
}

#endif /* SAMPLES_PROVIDER_H */
