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
#include <linux/bvec.h>
#include <linux/scatterlist.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <rdma/kfi_names.h>

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
#define kfi_getinfo_6	fi_getinfo
#define kfi_cq_open_4	fi_cq_open
#define kfi_eq_open_4	fi_eq_open

/**
 * kfi_getinfo_3() - kfi_getinfo() of 2016, which takes all addresses in hints
 * @version: API version that the caller was written for
 * @hints: requirements, or %NULL
 * @info: the list
 *
 * Context: Process context, may sleep.
 * Return: As for fi_getinfo().
 */
static inline int kfi_getinfo_3(u32 version, const struct fi_info *hints,
				struct fi_info **info)
{
	return fi_getinfo(version, NULL, NULL, 0, hints, info);
}

/**
 * kfi_cq_open_5() - kfi_cq_open() of HPE, with a handler
 * @domain: its parent
 * @attr: its attributes, or %NULL for the defaults
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

	if (attr)
		own = *attr;
	own.cq_event_handler = handler;
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

/* Type of the vector of a struct, of HPE; 0, as in 2016, means KFI_KVEC */
enum kfi_iov_type {
	KFI_KVEC = 1,
	KFI_BVEC,
	KFI_SGL,
};

/**
 * struct kfi_msg - a message to send or to receive
 * @type: type of the vector
 * @msg_iov: the buffers, with KFI_KVEC
 * @msg_biov: the buffers, with KFI_BVEC
 * @msg_sgl: the buffers, with KFI_SGL
 * @desc: a descriptor for each buffer, or %NULL
 * @iov_count: entries in the vector
 * @addr: the peer
 * @context: context of the operation
 * @data: remote CQ data
 */
struct kfi_msg {
	enum kfi_iov_type		type;
	union {
		const struct kvec	*msg_iov;
		const struct bio_vec	*msg_biov;
		const struct scatterlist *msg_sgl;
	};
	void				**desc;
	size_t				iov_count;
	fi_addr_t			addr;
	void				*context;
	u64				data;
};

/**
 * struct kfi_msg_rma - an RMA operation
 * @type: type of the vector
 * @msg_iov: the local buffers, with KFI_KVEC
 * @msg_biov: the local buffers, with KFI_BVEC
 * @msg_sgl: the local buffers, with KFI_SGL
 * @desc: a descriptor for each buffer, or %NULL
 * @iov_count: entries in the vector
 * @addr: the peer
 * @rma_iov: the remote ranges
 * @rma_iov_count: entries in @rma_iov
 * @context: context of the operation
 * @data: remote CQ data
 */
struct kfi_msg_rma {
	enum kfi_iov_type		type;
	union {
		const struct kvec	*msg_iov;
		const struct bio_vec	*msg_biov;
		const struct scatterlist *msg_sgl;
	};
	void				**desc;
	size_t				iov_count;
	fi_addr_t			addr;
	const struct fi_rma_iov		*rma_iov;
	size_t				rma_iov_count;
	void				*context;
	u64				data;
};

/* Returns the flag of a vector type; for an unknown type flags that no call accepts. */
static inline u64 kfi_form(enum kfi_iov_type type)
{
	if (type == KFI_BVEC)
		return FI_BVEC;
	if (type == KFI_SGL)
		return FI_SGL;
	return !type || type == KFI_KVEC ? 0 : FI_BVEC | FI_SGL;
}

static inline struct fi_msg kfi_plain_msg(const struct kfi_msg *msg)
{
	return (struct fi_msg){
		.msg_iov = msg->msg_iov,
		.desc = msg->desc,
		.iov_count = msg->iov_count,
		.addr = msg->addr,
		.context = msg->context,
		.data = msg->data,
	};
}

static inline struct fi_msg_rma kfi_plain_rma(const struct kfi_msg_rma *msg)
{
	return (struct fi_msg_rma){
		.msg_iov = msg->msg_iov,
		.desc = msg->desc,
		.iov_count = msg->iov_count,
		.addr = msg->addr,
		.rma_iov = msg->rma_iov,
		.rma_iov_count = msg->rma_iov_count,
		.context = msg->context,
		.data = msg->data,
	};
}

/**
 * kfi_sendmsg() - fi_sendmsg() with HPE's struct
 * @ep: the endpoint
 * @msg: the message
 * @flags: as for fi_sendmsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_sendmsg(); -FI_EBADFLAGS for an unknown &kfi_msg.type.
 */
static inline ssize_t kfi_sendmsg(struct fid_ep *ep, const struct kfi_msg *msg,
				  u64 flags)
{
	struct fi_msg plain = kfi_plain_msg(msg);

	return fi_sendmsg(ep, &plain, flags | kfi_form(msg->type));
}

/**
 * kfi_recvmsg() - fi_recvmsg() with HPE's struct
 * @ep: the endpoint
 * @msg: the receive
 * @flags: as for fi_recvmsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_recvmsg(); -FI_EBADFLAGS for an unknown &kfi_msg.type.
 */
static inline ssize_t kfi_recvmsg(struct fid_ep *ep, const struct kfi_msg *msg,
				  u64 flags)
{
	struct fi_msg plain = kfi_plain_msg(msg);

	return fi_recvmsg(ep, &plain, flags | kfi_form(msg->type));
}

/**
 * kfi_readmsg() - fi_readmsg() with HPE's struct
 * @ep: the endpoint
 * @msg: the operation
 * @flags: as for fi_readmsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_readmsg(); -FI_EBADFLAGS for an unknown &kfi_msg_rma.type.
 */
static inline ssize_t kfi_readmsg(struct fid_ep *ep,
				  const struct kfi_msg_rma *msg, u64 flags)
{
	struct fi_msg_rma plain = kfi_plain_rma(msg);

	return fi_readmsg(ep, &plain, flags | kfi_form(msg->type));
}

/**
 * kfi_writemsg() - fi_writemsg() with HPE's struct
 * @ep: the endpoint
 * @msg: the operation
 * @flags: as for fi_writemsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_writemsg(); -FI_EBADFLAGS for an unknown &kfi_msg_rma.type.
 */
static inline ssize_t kfi_writemsg(struct fid_ep *ep,
				   const struct kfi_msg_rma *msg, u64 flags)
{
	struct fi_msg_rma plain = kfi_plain_rma(msg);

	return fi_writemsg(ep, &plain, flags | kfi_form(msg->type));
}

/* Returns the default flags of an endpoint in one direction. */
static inline u64 kfi_op_flags(struct fid_ep *ep, u64 direction)
{
	u64 flags = direction;

	return fi_control(&ep->fid, FI_GETOPSFLAG, &flags) ? 0 : flags;
}

static inline size_t kfi_bytes_of_bvec(const struct bio_vec *vec, size_t count)
{
	size_t bytes = 0;

	while (count--)
		bytes += vec++->bv_len;
	return bytes;
}

static inline size_t kfi_bytes_of_sgl(const struct scatterlist *sgl,
				      size_t count)
{
	size_t bytes = 0;

	for (; count; count--) {
		bytes += sgl->length;
		/* The list may end after the last entry. */
		if (count > 1)
			sgl = sg_next((struct scatterlist *)sgl);
	}
	return bytes;
}

/* Posts a message with a vector of type @form, and the default flags of @direction. */
static inline ssize_t kfi_move(struct fid_ep *ep, u64 direction, u64 form,
			       const struct kvec *vector, void **desc,
			       size_t count, fi_addr_t peer, void *context)
{
	u64 flags = kfi_op_flags(ep, direction) | form;
	struct fi_msg msg = {
		.msg_iov = vector,
		.desc = desc,
		.iov_count = count,
		.addr = peer,
		.context = context,
	};

	return direction == FI_RECV ? fi_recvmsg(ep, &msg, flags) :
				      fi_sendmsg(ep, &msg, flags);
}

/* Posts an RMA operation with a vector of type @form; @way is FI_READ or FI_WRITE. */
static inline ssize_t kfi_reach(struct fid_ep *ep, u64 way, u64 form,
				const struct kvec *vector, void **desc,
				size_t count, fi_addr_t peer,
				const struct fi_rma_iov *remote, void *context)
{
	u64 flags = kfi_op_flags(ep, FI_TRANSMIT) | form;
	struct fi_msg_rma msg = {
		.msg_iov = vector,
		.desc = desc,
		.iov_count = count,
		.addr = peer,
		.rma_iov = remote,
		.rma_iov_count = 1,
		.context = context,
	};

	return way == FI_READ ? fi_readmsg(ep, &msg, flags) :
				fi_writemsg(ep, &msg, flags);
}

/**
 * kfi_sendbv() - send a message from pages
 * @ep: the endpoint
 * @biov: the pages
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @biov
 * @dest_addr: the peer
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_sendv().
 */
static inline ssize_t kfi_sendbv(struct fid_ep *ep, const struct bio_vec *biov,
				 void **desc, size_t count, fi_addr_t dest_addr,
				 void *context)
{
	return kfi_move(ep, FI_TRANSMIT, FI_BVEC, fi_iov_bvec(biov), desc,
			count, dest_addr, context);
}

/**
 * kfi_sendsgl() - send a message from a scatterlist
 * @ep: the endpoint
 * @sgl: the list
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @sgl
 * @dest_addr: the peer
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_sendv().
 */
static inline ssize_t kfi_sendsgl(struct fid_ep *ep,
				  const struct scatterlist *sgl, void **desc,
				  size_t count, fi_addr_t dest_addr,
				  void *context)
{
	return kfi_move(ep, FI_TRANSMIT, FI_SGL, fi_iov_sgl(sgl), desc, count,
			dest_addr, context);
}

/**
 * kfi_recvbv() - post pages for a message
 * @ep: the endpoint
 * @biov: the pages
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @biov
 * @src_addr: the peer to receive from
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_recvv().
 */
static inline ssize_t kfi_recvbv(struct fid_ep *ep, const struct bio_vec *biov,
				 void **desc, size_t count, fi_addr_t src_addr,
				 void *context)
{
	return kfi_move(ep, FI_RECV, FI_BVEC, fi_iov_bvec(biov), desc, count,
			src_addr, context);
}

/**
 * kfi_recvsgl() - post a scatterlist for a message
 * @ep: the endpoint
 * @sgl: the list
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @sgl
 * @src_addr: the peer to receive from
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_recvv().
 */
static inline ssize_t kfi_recvsgl(struct fid_ep *ep,
				  const struct scatterlist *sgl, void **desc,
				  size_t count, fi_addr_t src_addr,
				  void *context)
{
	return kfi_move(ep, FI_RECV, FI_SGL, fi_iov_sgl(sgl), desc, count,
			src_addr, context);
}

/**
 * kfi_readbv() - read a peer's memory into pages
 * @ep: the endpoint
 * @biov: the pages
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @biov
 * @src_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_readv().
 */
static inline ssize_t kfi_readbv(struct fid_ep *ep, const struct bio_vec *biov,
				 void **desc, size_t count, fi_addr_t src_addr,
				 u64 addr, u64 key, void *context)
{
	struct fi_rma_iov remote = {
		.addr = addr,
		.len = kfi_bytes_of_bvec(biov, count),
		.key = key,
	};

	return kfi_reach(ep, FI_READ, FI_BVEC, fi_iov_bvec(biov), desc, count,
			 src_addr, &remote, context);
}

/**
 * kfi_readsgl() - read a peer's memory into a scatterlist
 * @ep: the endpoint
 * @sgl: the list
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @sgl
 * @src_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_readv().
 */
static inline ssize_t kfi_readsgl(struct fid_ep *ep,
				  const struct scatterlist *sgl, void **desc,
				  size_t count, fi_addr_t src_addr, u64 addr,
				  u64 key, void *context)
{
	struct fi_rma_iov remote = {
		.addr = addr,
		.len = kfi_bytes_of_sgl(sgl, count),
		.key = key,
	};

	return kfi_reach(ep, FI_READ, FI_SGL, fi_iov_sgl(sgl), desc, count,
			 src_addr, &remote, context);
}

/**
 * kfi_writebv() - write pages to a peer's memory
 * @ep: the endpoint
 * @biov: the pages
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @biov
 * @dest_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_writev().
 */
static inline ssize_t kfi_writebv(struct fid_ep *ep, const struct bio_vec *biov,
				  void **desc, size_t count,
				  fi_addr_t dest_addr, u64 addr, u64 key,
				  void *context)
{
	struct fi_rma_iov remote = {
		.addr = addr,
		.len = kfi_bytes_of_bvec(biov, count),
		.key = key,
	};

	return kfi_reach(ep, FI_WRITE, FI_BVEC, fi_iov_bvec(biov), desc, count,
			 dest_addr, &remote, context);
}

/**
 * kfi_writesgl() - write a scatterlist to a peer's memory
 * @ep: the endpoint
 * @sgl: the list
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @sgl
 * @dest_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_writev().
 */
static inline ssize_t kfi_writesgl(struct fid_ep *ep,
				   const struct scatterlist *sgl, void **desc,
				   size_t count, fi_addr_t dest_addr, u64 addr,
				   u64 key, void *context)
{
	struct fi_rma_iov remote = {
		.addr = addr,
		.len = kfi_bytes_of_sgl(sgl, count),
		.key = key,
	};

	return kfi_reach(ep, FI_WRITE, FI_SGL, fi_iov_sgl(sgl), desc, count,
			 dest_addr, &remote, context);
}

#endif /* KFI_H */
