/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Remote memory access. See "Transfers" in fi_endpoint.h, and "Remote memory"
 * below, for context, ownership and errors.
 */

#ifndef FI_RMA_H
#define FI_RMA_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

/**
 * DOC: Remote memory
 *
 * The target is not notified of an access, except by remote CQ data of a write.
 * If the device of the peer refuses an access, the completion reports it, and the
 * connection ends; on iWARP a refused write may complete as a success before the
 * connection ends. In addition to the errnos of "Transfers":
 *
 * * -FI_ENOSYS - the endpoint was opened without FI_RMA
 * * -FI_EINVAL - no remote range, or more than the rma_iov_limit; remote ranges
 *   whose total length is not that of the local memory; more than 256 local
 *   segments, or more than the iov_limit on datagram endpoints; more work
 *   requests than the transmit queue of a connected endpoint has slots; a
 *   datagram endpoint reports the latter in a completion
 * * -FI_EAGAIN - fewer free slots than the operation takes work requests
 * * -FI_ENOKEY - a key of more than 32 bits, which no device uses
 * * -FI_EBADFLAGS - FI_INJECT or FI_REMOTE_CQ_DATA of a read;
 *   FI_REMOTE_INVALIDATE
 */

/**
 * struct fi_rma_iov - a range of a peer's memory
 * @addr: address, or offset into the region, according to the domain's mr_mode
 * @len: bytes
 * @key: key of the region
 */
struct fi_rma_iov {
	u64			addr;
	size_t			len;
	u64			key;
};

/**
 * struct fi_rma_ioc - operands in a peer's memory
 * @addr: address, or offset into the region, according to the domain's mr_mode
 * @count: number of elements of the datatype
 * @key: key of the region
 */
struct fi_rma_ioc {
	u64			addr;
	size_t			count;
	u64			key;
};

/**
 * struct fi_msg_rma - an RMA operation
 * @msg_iov: the local buffers; with FI_BVEC or FI_SGL see fi_iov_bvec(), fi_iov_sgl()
 * @desc: a descriptor for each buffer, or %NULL
 * @iov_count: entries in the vector
 * @addr: the peer
 * @rma_iov: the remote ranges
 * @rma_iov_count: entries in @rma_iov
 * @context: context of the operation
 * @data: remote CQ data
 */
struct fi_msg_rma {
	const struct kvec	*msg_iov;
	void			**desc;
	size_t			iov_count;
	fi_addr_t		addr;
	const struct fi_rma_iov	*rma_iov;
	size_t			rma_iov_count;
	void			*context;
	u64			data;
};

struct fi_ops_rma {
	size_t	size;
	ssize_t	(*read)(struct fid_ep *ep, void *buf, size_t len, void *desc,
			fi_addr_t src_addr, u64 addr, u64 key, void *context);
	ssize_t	(*readv)(struct fid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, fi_addr_t src_addr,
			 u64 addr, u64 key, void *context);
	ssize_t	(*readmsg)(struct fid_ep *ep, const struct fi_msg_rma *msg,
			   u64 flags);
	ssize_t	(*write)(struct fid_ep *ep, const void *buf, size_t len,
			 void *desc, fi_addr_t dest_addr, u64 addr, u64 key,
			 void *context);
	ssize_t	(*writev)(struct fid_ep *ep, const struct kvec *iov,
			  void **desc, size_t count, fi_addr_t dest_addr,
			  u64 addr, u64 key, void *context);
	ssize_t	(*writemsg)(struct fid_ep *ep, const struct fi_msg_rma *msg,
			    u64 flags);
	ssize_t	(*inject)(struct fid_ep *ep, const void *buf, size_t len,
			  fi_addr_t dest_addr, u64 addr, u64 key);
	ssize_t	(*writedata)(struct fid_ep *ep, const void *buf, size_t len,
			     void *desc, u64 data, fi_addr_t dest_addr,
			     u64 addr, u64 key, void *context);
	ssize_t	(*injectdata)(struct fid_ep *ep, const void *buf, size_t len,
			      u64 data, fi_addr_t dest_addr, u64 addr,
			      u64 key);
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_rma_iov) == 24);
static_assert(sizeof(struct fi_rma_ioc) == 24);
static_assert(sizeof(struct fi_msg_rma) == 64);
static_assert(sizeof(struct fi_ops_rma) == 80);
#endif

/**
 * fi_read() - read a peer's memory
 * @ep: the endpoint
 * @buf: buffer for the data
 * @len: bytes
 * @desc: descriptor of @buf, or %NULL
 * @src_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Remote memory".
 */
static inline ssize_t fi_read(struct fid_ep *ep, void *buf, size_t len,
			      void *desc, fi_addr_t src_addr, u64 addr,
			      u64 key, void *context)
{
	return ep->rma->read(ep, buf, len, desc, src_addr, addr, key, context);
}

/**
 * fi_readv() - read a peer's memory into several buffers
 * @ep: the endpoint
 * @iov: the buffers
 * @desc: a descriptor for each, or %NULL
 * @count: entries in @iov
 * @src_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Remote memory".
 */
static inline ssize_t fi_readv(struct fid_ep *ep, const struct kvec *iov,
			       void **desc, size_t count, fi_addr_t src_addr,
			       u64 addr, u64 key, void *context)
{
	return ep->rma->readv(ep, iov, desc, count, src_addr, addr, key,
			      context);
}

/**
 * fi_readmsg() - read a peer's memory, with flags
 * @ep: the endpoint
 * @msg: the operation
 * @flags: replace the default flags: FI_COMPLETION, FI_MORE, FI_FENCE, FI_BVEC,
 *	FI_SGL, and on datagram endpoints FI_TAGGED
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Remote memory".
 */
static inline ssize_t fi_readmsg(struct fid_ep *ep,
				 const struct fi_msg_rma *msg, u64 flags)
{
	return ep->rma->readmsg(ep, msg, flags);
}

/**
 * fi_write() - write to a peer's memory
 * @ep: the endpoint
 * @buf: the data
 * @len: bytes
 * @desc: descriptor of @buf, or %NULL
 * @dest_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Remote memory".
 */
static inline ssize_t fi_write(struct fid_ep *ep, const void *buf, size_t len,
			       void *desc, fi_addr_t dest_addr, u64 addr,
			       u64 key, void *context)
{
	return ep->rma->write(ep, buf, len, desc, dest_addr, addr, key,
			      context);
}

/**
 * fi_writev() - write several buffers to a peer's memory
 * @ep: the endpoint
 * @iov: the buffers
 * @desc: a descriptor for each, or %NULL
 * @count: entries in @iov
 * @dest_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Remote memory".
 */
static inline ssize_t fi_writev(struct fid_ep *ep, const struct kvec *iov,
				void **desc, size_t count, fi_addr_t dest_addr,
				u64 addr, u64 key, void *context)
{
	return ep->rma->writev(ep, iov, desc, count, dest_addr, addr, key,
			       context);
}

/**
 * fi_writemsg() - write to a peer's memory, with flags
 * @ep: the endpoint
 * @msg: the operation
 * @flags: as for fi_sendmsg(), except FI_REMOTE_INVALIDATE, and on datagram
 *	endpoints FI_TAGGED
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Remote memory".
 */
static inline ssize_t fi_writemsg(struct fid_ep *ep,
				  const struct fi_msg_rma *msg, u64 flags)
{
	return ep->rma->writemsg(ep, msg, flags);
}

/**
 * fi_inject_write() - write a short buffer, which can be reused at once
 * @ep: the endpoint
 * @buf: the data
 * @len: bytes, up to &fi_tx_attr.inject_size
 * @dest_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 *
 * Context: Any context. Data call.
 * Return: As for fi_write(); -FI_EMSGSIZE for more than inject_size.
 */
static inline ssize_t fi_inject_write(struct fid_ep *ep, const void *buf,
				      size_t len, fi_addr_t dest_addr,
				      u64 addr, u64 key)
{
	return ep->rma->inject(ep, buf, len, dest_addr, addr, key);
}

/**
 * fi_writedata() - write to a peer's memory, with remote CQ data
 * @ep: the endpoint
 * @buf: the data
 * @len: bytes
 * @desc: descriptor of @buf, or %NULL
 * @data: remote CQ data
 * @dest_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_write(); -FI_EOPNOTSUPP if the endpoint has no remote CQ data,
 * -FI_EINVAL for more than 32 bits.
 */
static inline ssize_t fi_writedata(struct fid_ep *ep, const void *buf,
				   size_t len, void *desc, u64 data,
				   fi_addr_t dest_addr, u64 addr, u64 key,
				   void *context)
{
	return ep->rma->writedata(ep, buf, len, desc, data, dest_addr, addr,
				  key, context);
}

/**
 * fi_inject_writedata() - write a short buffer, with remote CQ data
 * @ep: the endpoint
 * @buf: the data
 * @len: bytes, up to &fi_tx_attr.inject_size
 * @data: remote CQ data
 * @dest_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 *
 * Context: Any context. Data call.
 * Return: As for fi_writedata(); -FI_EMSGSIZE for more than inject_size.
 */
static inline ssize_t fi_inject_writedata(struct fid_ep *ep, const void *buf,
					  size_t len, u64 data,
					  fi_addr_t dest_addr, u64 addr,
					  u64 key)
{
	return ep->rma->injectdata(ep, buf, len, data, dest_addr, addr, key);
}

#endif /* FI_RMA_H */
