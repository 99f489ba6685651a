/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Tagged messages. See "Transfers" in fi_endpoint.h for context, ownership and
 * errors.
 *
 * A message matches a receive if the tags are equal in every bit that is 0 in the
 * receive's ignore mask. Receives match in the order in which they were posted.
 */

#ifndef FI_TAGGED_H
#define FI_TAGGED_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

/**
 * struct fi_msg_tagged - a tagged message to send or to receive
 * @msg_iov: the buffers; with FI_BVEC or FI_SGL see fi_iov_bvec(), fi_iov_sgl()
 * @desc: a descriptor for each buffer, or %NULL
 * @iov_count: entries in the vector
 * @addr: the peer
 * @tag: the tag
 * @ignore: for a receive, bits of @tag that are not compared
 * @context: context of the operation
 * @data: remote CQ data
 */
struct fi_msg_tagged {
	const struct kvec	*msg_iov;
	void			**desc;
	size_t			iov_count;
	fi_addr_t		addr;
	u64			tag;
	u64			ignore;
	void			*context;
	u64			data;
};

struct fi_ops_tagged {
	size_t	size;
	ssize_t	(*recv)(struct fid_ep *ep, void *buf, size_t len, void *desc,
			fi_addr_t src_addr, u64 tag, u64 ignore,
			void *context);
	ssize_t	(*recvv)(struct fid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, fi_addr_t src_addr,
			 u64 tag, u64 ignore, void *context);
	ssize_t	(*recvmsg)(struct fid_ep *ep, const struct fi_msg_tagged *msg,
			   u64 flags);
	ssize_t	(*send)(struct fid_ep *ep, const void *buf, size_t len,
			void *desc, fi_addr_t dest_addr, u64 tag,
			void *context);
	ssize_t	(*sendv)(struct fid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, fi_addr_t dest_addr,
			 u64 tag, void *context);
	ssize_t	(*sendmsg)(struct fid_ep *ep, const struct fi_msg_tagged *msg,
			   u64 flags);
	ssize_t	(*inject)(struct fid_ep *ep, const void *buf, size_t len,
			  fi_addr_t dest_addr, u64 tag);
	ssize_t	(*senddata)(struct fid_ep *ep, const void *buf, size_t len,
			    void *desc, u64 data, fi_addr_t dest_addr, u64 tag,
			    void *context);
	ssize_t	(*injectdata)(struct fid_ep *ep, const void *buf, size_t len,
			      u64 data, fi_addr_t dest_addr, u64 tag);
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_msg_tagged) == 64);
static_assert(sizeof(struct fi_ops_tagged) == 80);
#endif

/**
 * fi_trecv() - post a buffer for a tagged message
 * @ep: the endpoint
 * @buf: the buffer
 * @len: bytes in @buf
 * @desc: descriptor of @buf, or %NULL
 * @src_addr: with FI_DIRECTED_RECV the peer to receive from, or FI_ADDR_UNSPEC
 * @tag: the tag
 * @ignore: bits of @tag that are not compared
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return:
 * * 0 - posted, or matched at once
 * * -FI_EAGAIN - too many receives are posted, or the completion queue has no space
 * * -FI_EINVAL - @src_addr is not in the address vector; too many parts; memory
 *   that cannot be mapped for a device
 * * -FI_EOPBADSTATE - the endpoint is not enabled
 * * -FI_ENOSYS - a connected endpoint
 */
static inline ssize_t fi_trecv(struct fid_ep *ep, void *buf, size_t len,
			       void *desc, fi_addr_t src_addr, u64 tag,
			       u64 ignore, void *context)
{
	return ep->tagged->recv(ep, buf, len, desc, src_addr, tag, ignore,
				context);
}

/**
 * fi_trecvv() - post several buffers for one tagged message
 * @ep: the endpoint
 * @iov: the buffers
 * @desc: a descriptor for each, or %NULL
 * @count: entries in @iov
 * @src_addr: as for fi_trecv()
 * @tag: the tag
 * @ignore: bits of @tag that are not compared
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_trecv().
 */
static inline ssize_t fi_trecvv(struct fid_ep *ep, const struct kvec *iov,
				void **desc, size_t count, fi_addr_t src_addr,
				u64 tag, u64 ignore, void *context)
{
	return ep->tagged->recvv(ep, iov, desc, count, src_addr, tag, ignore,
				 context);
}

/**
 * fi_trecvmsg() - post or probe a tagged receive, with flags
 * @ep: the endpoint
 * @msg: the receive
 * @flags: replace the default flags: FI_COMPLETION, FI_MORE; FI_PEEK to search
 *	for a message without receiving it, FI_CLAIM to reserve the message for
 *	this context, FI_DISCARD to drop it; FI_BVEC, FI_SGL
 *
 * A peek that finds nothing completes with an FI_ENOMSG entry.
 *
 * Context: Any context. Data call.
 * Return: As for fi_trecv(); -FI_EBADFLAGS for another flag, or FI_DISCARD with
 * neither or both of the others; -FI_EINVAL for FI_CLAIM without FI_PEEK if the
 * context has claimed no message.
 */
static inline ssize_t fi_trecvmsg(struct fid_ep *ep,
				  const struct fi_msg_tagged *msg, u64 flags)
{
	return ep->tagged->recvmsg(ep, msg, flags);
}

/**
 * fi_tsend() - send a tagged message
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf
 * @desc: descriptor of @buf, or %NULL
 * @dest_addr: the peer
 * @tag: the tag
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return:
 * * 0 - the operation is in progress, or waits for a connection
 * * -FI_EAGAIN - too many operations are in progress, with that peer or in all, or
 *   the completion queue has no space
 * * -FI_EINVAL - @dest_addr is not in the address vector; too many parts; memory
 *   that cannot be mapped for a device
 * * -FI_EMSGSIZE - more bytes than max_msg_size
 * * -FI_EOPBADSTATE - the endpoint is not enabled
 * * -FI_ENOSYS - a connected endpoint
 */
static inline ssize_t fi_tsend(struct fid_ep *ep, const void *buf, size_t len,
			       void *desc, fi_addr_t dest_addr, u64 tag,
			       void *context)
{
	return ep->tagged->send(ep, buf, len, desc, dest_addr, tag, context);
}

/**
 * fi_tsendv() - send a tagged message from several buffers
 * @ep: the endpoint
 * @iov: the buffers
 * @desc: a descriptor for each, or %NULL
 * @count: entries in @iov
 * @dest_addr: the peer
 * @tag: the tag
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_tsend().
 */
static inline ssize_t fi_tsendv(struct fid_ep *ep, const struct kvec *iov,
				void **desc, size_t count, fi_addr_t dest_addr,
				u64 tag, void *context)
{
	return ep->tagged->sendv(ep, iov, desc, count, dest_addr, tag,
				 context);
}

/**
 * fi_tsendmsg() - send a tagged message with flags
 * @ep: the endpoint
 * @msg: the message
 * @flags: as for fi_sendmsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_tsend(); -FI_EBADFLAGS for another flag.
 */
static inline ssize_t fi_tsendmsg(struct fid_ep *ep,
				  const struct fi_msg_tagged *msg, u64 flags)
{
	return ep->tagged->sendmsg(ep, msg, flags);
}

/**
 * fi_tinject() - send a short tagged message; the buffer can be reused at once
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf, up to &fi_tx_attr.inject_size
 * @dest_addr: the peer
 * @tag: the tag
 *
 * Context: Any context. Data call.
 * Return: As for fi_tsend(); -FI_EMSGSIZE for more than inject_size.
 */
static inline ssize_t fi_tinject(struct fid_ep *ep, const void *buf,
				 size_t len, fi_addr_t dest_addr, u64 tag)
{
	return ep->tagged->inject(ep, buf, len, dest_addr, tag);
}

/**
 * fi_tsenddata() - send a tagged message with remote CQ data
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf
 * @desc: descriptor of @buf, or %NULL
 * @data: remote CQ data
 * @dest_addr: the peer
 * @tag: the tag
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_tsend().
 */
static inline ssize_t fi_tsenddata(struct fid_ep *ep, const void *buf,
				   size_t len, void *desc, u64 data,
				   fi_addr_t dest_addr, u64 tag, void *context)
{
	return ep->tagged->senddata(ep, buf, len, desc, data, dest_addr, tag,
				    context);
}

/**
 * fi_tinjectdata() - inject a short tagged message with remote CQ data
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf, up to &fi_tx_attr.inject_size
 * @data: remote CQ data
 * @dest_addr: the peer
 * @tag: the tag
 *
 * Context: Any context. Data call.
 * Return: As for fi_tsend(); -FI_EMSGSIZE for more than inject_size.
 */
static inline ssize_t fi_tinjectdata(struct fid_ep *ep, const void *buf,
				     size_t len, u64 data, fi_addr_t dest_addr,
				     u64 tag)
{
	return ep->tagged->injectdata(ep, buf, len, data, dest_addr, tag);
}

#endif /* FI_TAGGED_H */
