/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Compatibility with code for kfabric, of 2016 or of HPE. Names that differ by a
 * letter are mapped in kfi_names.h; calls with other arguments are adapted below.
 * Names that have another meaning, or no counterpart, are not defined, so that
 * code which uses them does not compile: see Documentation/kfabric.rst.
 *
 * Such code includes kfabric.h, kfi_domain.h and the like. rdma/kfi/ has headers
 * of these names, for an -I of that folder.
 */

#ifndef KFI_H
#define KFI_H

#include <linux/args.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <rdma/kfi_names.h>
#include <rdma/kfi_msg.h>
#include <rdma/kfi_vector.h>
#include <rdma/kfi_mr.h>

/*
 * Capability of 2016: receives can be cancelled. Each datagram endpoint has it, and
 * kfi_cancel() of a connected one is -FI_EOPNOTSUPP.
 */
#define KFI_CANCEL	0ULL

/* Contexts in each direction that a scalable endpoint has if its hints name no number */
#define KFI_CONTEXTS	16

/* Handlers of queues, of HPE. They may sleep. */
typedef void (*kfi_comp_handler)(struct fid_cq *cq, void *context);
typedef void (*kfi_event_handler)(struct fid_eq *eq, void *context);

/* Calls that take a different number of arguments in 2016's and HPE's kfabric */
#define kfi_getinfo(...) \
	CONCATENATE(kfi_getinfo_, COUNT_ARGS(__VA_ARGS__))(__VA_ARGS__)
#define kfi_cq_open(...) \
	CONCATENATE(kfi_cq_open_, COUNT_ARGS(__VA_ARGS__))(__VA_ARGS__)
#define kfi_eq_open(...) \
	CONCATENATE(kfi_eq_open_, COUNT_ARGS(__VA_ARGS__))(__VA_ARGS__)
#define kfi_cq_open_4	fi_cq_open
#define kfi_eq_open_4	fi_eq_open

/*
 * Removes a key that kfabric's providers have by default: 255, or zeros. Returns
 * -FI_EINVAL for a key without a size, and a size without a key.
 */
static inline int kfi_remove_default_key(u8 **key, size_t *size)
{
	if (!*key != !*size)
		return -FI_EINVAL;
	if ((*size == sizeof(u32) && get_unaligned((const u32 *)*key) == 255) ||
	    !memchr_inv(*key, 0, *size)) {
		*key = NULL;
		*size = 0;
	}
	return 0;
}

/**
 * kfi_getinfo_6() - kfi_getinfo() of HPE, whose hints have a default key
 * @version: API version that the caller was written for, or 0; the infos have
 *	kOFI's version
 * @node: numeric address, or %NULL
 * @service: numeric port, or %NULL
 * @flags: as for fi_getinfo()
 * @hints: requirements, or %NULL; an auth_key of kfabric's default is no key, and
 *	with KFI_NAMED_RX_CTX no number of contexts is KFI_CONTEXTS
 * @info: the list
 *
 * Context: Process context, may sleep.
 * Return: As for fi_getinfo(); -FI_ENODATA for another key, -FI_EINVAL for a key
 *	without a size, and a size without a key.
 */
static inline int kfi_getinfo_6(u32 version, const char *node,
				const char *service, u64 flags,
				const struct fi_info *hints,
				struct fi_info **info)
{
	struct fi_domain_attr domain;
	struct fi_ep_attr ep;
	struct fi_info own;
	int ret;

	version = max(version, FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));
	if (!hints)
		return fi_getinfo(version, node, service, flags, NULL, info);
	own = *hints;
	if (own.ep_attr) {
		ep = *own.ep_attr;
		own.ep_attr = &ep;
		ret = kfi_remove_default_key(&ep.auth_key, &ep.auth_key_size);
		if (ret)
			return ret;
		if (own.caps & FI_NAMED_RX_CTX) {
			ep.tx_ctx_cnt = ep.tx_ctx_cnt ?: KFI_CONTEXTS;
			ep.rx_ctx_cnt = ep.rx_ctx_cnt ?: KFI_CONTEXTS;
		}
	}
	if (own.domain_attr) {
		domain = *own.domain_attr;
		own.domain_attr = &domain;
		ret = kfi_remove_default_key(&domain.auth_key,
					     &domain.auth_key_size);
		if (ret)
			return ret;
	}
	return fi_getinfo(version, node, service, flags, &own, info);
}

/**
 * kfi_getinfo_3() - kfi_getinfo() of 2016, which takes all addresses in hints
 * @version: API version that the caller was written for
 * @hints: requirements, or %NULL
 * @info: the list
 *
 * Context: Process context, may sleep.
 * Return: As for kfi_getinfo_6().
 */
static inline int kfi_getinfo_3(u32 version, const struct fi_info *hints,
				struct fi_info **info)
{
	return kfi_getinfo_6(version, NULL, NULL, 0, hints, info);
}

/**
 * kfi_cq_open_5() - kfi_cq_open() of HPE, with a handler
 * @domain: its parent
 * @attr: its attributes, or %NULL for the defaults; with KFI_AFFINITY,
 *	signaling_vector is a CPU, for which the device's completion vector of
 *	that number is used, or any vector if there is none
 * @cq: the open queue
 * @handler: handler, called in process context, or %NULL
 * @context: stored in the fid, and passed to the handler
 *
 * Context: Process context, may sleep.
 * Return: As for fi_cq_open().
 */
static inline int kfi_cq_open_5(struct fid_domain *domain,
				const struct fi_cq_attr *attr,
				struct fid_cq **cq, kfi_comp_handler handler,
				void *context)
{
	struct fi_cq_attr own = {};
	int ret;

	if (attr)
		own = *attr;
	own.cq_event_handler = handler;
	ret = fi_cq_open(domain, &own, cq, context);
	if (ret != -FI_EINVAL || !(own.flags & FI_AFFINITY) ||
	    own.signaling_vector < 0)
		return ret;
	own.flags &= ~FI_AFFINITY;
	return fi_cq_open(domain, &own, cq, context);
}

/**
 * kfi_eq_open_5() - kfi_eq_open() of HPE, with a handler
 * @fabric: its parent
 * @attr: its attributes, or %NULL for the defaults
 * @eq: the open queue
 * @handler: handler, called in process context, or %NULL
 * @context: stored in the fid, and passed to the handler
 *
 * Context: Process context, may sleep.
 * Return: As for fi_eq_open().
 */
static inline int kfi_eq_open_5(struct fid_fabric *fabric,
				const struct fi_eq_attr *attr,
				struct fid_eq **eq, kfi_event_handler handler,
				void *context)
{
	struct fi_eq_attr own = {};

	if (attr)
		own = *attr;
	own.eq_event_handler = handler;
	return fi_eq_open(fabric, &own, eq, context);
}

/**
 * kfi_eq_readerr() - read an error entry into an uninitialised struct
 * @eq: the queue
 * @buf: buffer for the entry; no field is input, and err_data is set to memory
 *	of the queue, valid until the next read
 * @flags: 0, or FI_PEEK
 *
 * Context: Process context; does not wait.
 * Return: As for fi_eq_readerr().
 */
static inline ssize_t kfi_eq_readerr(struct fid_eq *eq,
				     struct fi_eq_err_entry *buf, u64 flags)
{
	if (buf)
		buf->err_data_size = 0;
	return fi_eq_readerr(eq, buf, flags);
}

/**
 * kfi_cq_readerr() - read an error entry into an uninitialised struct
 * @cq: the queue
 * @buf: buffer for the entry; no field is input, and err_data is set to memory
 *	of the queue, valid until the next read
 * @flags: reserved, 0
 *
 * Context: Any context, the handler's included. Data call.
 * Return: As for fi_cq_readerr().
 */
static inline ssize_t kfi_cq_readerr(struct fid_cq *cq,
				     struct fi_cq_err_entry *buf, u64 flags)
{
	if (buf)
		buf->err_data_size = 0;
	return fi_cq_readerr(cq, buf, flags);
}

/**
 * kfi_ep_bind() - bind an object to an endpoint
 * @ep: the endpoint, or a context of a scalable endpoint
 * @bfid: the object
 * @flags: as for fi_ep_bind(); a context's direction may be left out of the flags
 *	of a completion queue
 *
 * Context: Process context, may sleep.
 * Return: As for fi_ep_bind().
 */
static inline int kfi_ep_bind(struct fid_ep *ep, struct fid *bfid, u64 flags)
{
	if (bfid && bfid->fclass == FI_CLASS_CQ &&
	    !(flags & (FI_TRANSMIT | FI_RECV))) {
		if (ep->fid.fclass == FI_CLASS_TX_CTX)
			flags |= FI_TRANSMIT;
		else if (ep->fid.fclass == FI_CLASS_RX_CTX)
			flags |= FI_RECV;
	}
	return fi_ep_bind(ep, bfid, flags);
}

/* Operations of a domain, of HPE's cxi provider, for kfi_open_ops() */
#define KFI_CXI_DOM_OPS_1	"cxi_dom_ops_v1"

/**
 * struct kfi_cxi_domain_ops - operations of KFI_CXI_DOM_OPS_1
 * @get_device: returns the device that memory is mapped for
 */
struct kfi_cxi_domain_ops {
	int (*get_device)(struct fid *fid, struct device **device);
};

/* Returns the device that accesses memory for a domain; NULL if there is none. */
static inline struct device *kfi_dma_device(struct fid *fid)
{
	struct fi_kofi_ops_device *ops;

	if (fid->fclass != FI_CLASS_DOMAIN ||
	    fi_open_ops(fid, FI_KOFI_DEVICE_OPS, 0, (void **)&ops, NULL))
		return NULL;
	return ops->dma_device(container_of(fid, struct fid_domain, fid));
}

static inline int kfi_get_device(struct fid *fid, struct device **device)
{
	*device = kfi_dma_device(fid);
	return *device ? 0 : -FI_ENODEV;
}

/**
 * kfi_open_ops() - get provider-specific operations of an object
 * @fid: the object
 * @name: name of the operations; domains whose device accesses memory by DMA have
 *	KFI_CXI_DOM_OPS_1
 * @flags: reserved, 0
 * @ops: the table, valid as long as the object is open
 * @context: context of the caller, ignored
 *
 * Context: Any context.
 * Return: As for fi_open_ops().
 */
static inline int kfi_open_ops(struct fid *fid, const char *name, u64 flags,
			       void **ops, void *context)
{
	static struct kfi_cxi_domain_ops domain_ops = {
		.get_device = kfi_get_device,
	};

	if (!name || !ops || flags || strcmp(name, KFI_CXI_DOM_OPS_1) ||
	    !kfi_dma_device(fid))
		return fi_open_ops(fid, name, flags, ops, context);
	*ops = &domain_ops;
	return 0;
}

#endif /* KFI_H */
