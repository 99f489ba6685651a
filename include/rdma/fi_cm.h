/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Connections, and the addresses of endpoints.
 */

#ifndef FI_CM_H
#define FI_CM_H

#include <rdma/fi_endpoint.h>

/**
 * struct fid_mc - membership of a multicast or collective group
 * @fid: common part
 * @fi_addr: address of the group
 */
struct fid_mc {
	struct fid		fid;
	fi_addr_t		fi_addr;
};

struct fi_ops_cm {
	size_t	size;
	int	(*setname)(fid_t fid, void *addr, size_t addrlen);
	int	(*getname)(fid_t fid, void *addr, size_t *addrlen);
	int	(*getpeer)(struct fid_ep *ep, void *addr, size_t *addrlen);
	int	(*connect)(struct fid_ep *ep, const void *addr,
			   const void *param, size_t paramlen);
	int	(*listen)(struct fid_pep *pep);
	int	(*accept)(struct fid_ep *ep, const void *param,
			  size_t paramlen);
	int	(*reject)(struct fid_pep *pep, fid_t handle,
			  const void *param, size_t paramlen);
	int	(*shutdown)(struct fid_ep *ep, u64 flags);
	int	(*join)(struct fid_ep *ep, const void *addr, u64 flags,
			struct fid_mc **mc, void *context);
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fid_mc) == 32);
static_assert(sizeof(struct fi_ops_cm) == 80);
#endif

/**
 * fi_setname() - choose the local address
 * @fid: an endpoint that is not enabled, or a passive one that does not listen
 * @addr: the address, copied
 * @addrlen: bytes in @addr
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - that is the local address
 * * -FI_EINVAL - no address of IP
 * * -FI_EOPBADSTATE - the endpoint is enabled, or listens; in atomic context
 * * -FI_EADDRINUSE - passive: the port is taken
 * * -FI_EADDRNOTAVAIL - passive: no device of the fabric's namespace has the
 *   address
 * * -FI_ENOMEM - no memory
 */
static inline int fi_setname(fid_t fid, void *addr, size_t addrlen)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->cm->setname(fid, addr, addrlen);
}

/**
 * fi_getname() - read the local address
 * @fid: the endpoint, active or passive
 * @addr: where it goes
 * @addrlen: room in @addr, then the bytes needed
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the address has been written
 * * -FI_ETOOSMALL - the address has been truncated; a string is terminated
 * * -FI_EADDRNOTAVAIL - there is none yet
 * * -FI_EINVAL - @addrlen is %NULL, or @addr with room in it
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->cm->getname(fid, addr, addrlen);
}

/**
 * fi_getpeer() - read the peer's address
 * @ep: a connected endpoint
 * @addr: where it goes
 * @addrlen: room in @addr, then the bytes needed
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the address has been written
 * * -FI_ETOOSMALL - as much as fits has been written
 * * -FI_ENOTCONN - it is not connected yet
 * * -FI_EINVAL - @addrlen is %NULL, or @addr with room in it
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return ep->cm->getpeer(ep, addr, addrlen);
}

/**
 * fi_listen() - begin to report connection requests
 * @pep: the passive endpoint, with an event queue bound
 *
 * Each request is an FI_CONNREQ event. One that nobody took is rejected when
 * the endpoint or its queue is closed.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - requests are reported
 * * -FI_ENOEQ - no event queue is bound
 * * -FI_EADDRNOTAVAIL - it has no address, or no device of the namespace has
 *   that
 * * -FI_EADDRINUSE - the port is taken
 * * -FI_EOPNOTSUPP - the device cannot listen in the fabric's network namespace
 * * -FI_EOPBADSTATE - it listens already; in atomic context
 * * another - what rdma_cm answers
 */
static inline int fi_listen(struct fid_pep *pep)
{
	return pep->cm->listen(pep);
}

/**
 * fi_connect() - begin to connect, enabling the endpoint
 * @ep: the endpoint; call fi_enable() first to post receives before this call
 * @addr: the peer's address, or %NULL for the dest_addr of its info
 * @param: data for the peer, or %NULL; copied
 * @paramlen: bytes in @param, up to FI_OPT_CM_DATA_SIZE
 *
 * The outcome is an event: FI_CONNECTED, or an error entry with
 * FI_ECONNREFUSED (and the rejecter's data), FI_EHOSTUNREACH or FI_ETIMEDOUT.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - it has begun; an event tells what came of it
 * * -FI_EISCONN - it is connecting, or connected
 * * -FI_EINVAL - no address is known, or it is not of IP; too much data
 * * -FI_EOPBADSTATE - the endpoint was made for a request, or its connection is
 *   over; in atomic context
 * * another - as fi_enable(), or what rdma_cm answers: the endpoint can be
 *   connected still
 */
static inline int fi_connect(struct fid_ep *ep, const void *addr,
			     const void *param, size_t paramlen)
{
	return ep->cm->connect(ep, addr, param, paramlen);
}

/**
 * fi_accept() - accept a connection request, enabling the endpoint
 * @ep: an endpoint opened with the info of FI_CONNREQ; call fi_enable() first
 *	to post receives before this call: the peer may send at once
 * @param: data for the peer, or %NULL; copied
 * @paramlen: bytes in @param, up to FI_OPT_CM_DATA_SIZE
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - FI_CONNECTED follows, or an error event
 * * -FI_EINVAL - the endpoint was not made for a request; too much data
 * * -FI_EISCONN - the request has been answered
 * * -FI_ECONNABORTED - the peer has given up
 * * -FI_EOPBADSTATE - the device has gone away; in atomic context
 * * another - as fi_enable(), or what rdma_cm answers: there will be no
 *   connection
 */
static inline int fi_accept(struct fid_ep *ep, const void *param,
			    size_t paramlen)
{
	return ep->cm->accept(ep, param, paramlen);
}

/**
 * fi_reject() - reject a connection request
 * @pep: the passive endpoint that reported it
 * @handle: handle of the info of FI_CONNREQ
 * @param: data for the peer, or %NULL; copied
 * @paramlen: bytes in @param, up to FI_OPT_CM_DATA_SIZE
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the peer is told
 * * -FI_EINVAL - no unanswered request of this fabric has that handle; too much
 *   data
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_reject(struct fid_pep *pep, fid_t handle,
			    const void *param, size_t paramlen)
{
	return pep->cm->reject(pep, handle, param, paramlen);
}

/**
 * fi_shutdown() - disconnect
 * @ep: a connected endpoint
 * @flags: 0 or FI_READ | FI_WRITE to disconnect; FI_WRITE or FI_READ alone to
 *	close transmits or receives on this side only
 *
 * When the call returns, operations posted in a closed direction have completed
 * or have been flushed with FI_ECANCELED. Exception: with FI_READ, the receives
 * of an endpoint on a device stay posted. They complete with later messages, or
 * are flushed when the connection ends: no device can flush the receives of an
 * open connection.
 *
 * When both directions are closed, each side reports FI_SHUTDOWN once, after its
 * flushed entries; the calling side reports it before the call returns.
 *
 * Closing a closed direction again succeeds, and does not affect the other one.
 *
 * Context: Process context, may sleep; ten seconds at most where a device does
 * not give operations back.
 * Return:
 * * 0 - the direction is closed
 * * -FI_ENOTCONN - it was never connected
 * * -FI_EBADFLAGS - other flags than FI_READ and FI_WRITE
 * * -FI_ETIMEDOUT - FI_WRITE: not all transmits have completed in ten seconds
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_shutdown(struct fid_ep *ep, u64 flags)
{
	return ep->cm->shutdown(ep, flags);
}

/**
 * fi_join() - join a multicast or collective group
 * @ep: the endpoint
 * @addr: address of the group; with FI_COLLECTIVE a struct fi_collective_addr
 * @flags: FI_COLLECTIVE, FI_SEND, FI_RECV
 * @mc: the membership
 * @context: stored in the fid
 *
 * Context: Process context, may sleep.
 * Return: With FI_COLLECTIVE as fi_join_collective(); -FI_ENOSYS otherwise: no
 * provider has multicast.
 */
static inline int fi_join(struct fid_ep *ep, const void *addr, u64 flags,
			  struct fid_mc **mc, void *context)
{
	return FI_CHECK_OP(ep->cm, struct fi_ops_cm, join) ?
		ep->cm->join(ep, addr, flags, mc, context) : -FI_ENOSYS;
}

/**
 * fi_mc_addr() - address of a group, for transfers to it
 * @mc: the membership
 *
 * Context: Any context.
 * Return: The address.
 */
static inline fi_addr_t fi_mc_addr(struct fid_mc *mc)
{
	return mc->fi_addr;
}

#endif /* FI_CM_H */
