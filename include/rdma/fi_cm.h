/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Connection management, and the addresses of endpoints.
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
 * fi_setname() - set the local address
 * @fid: an endpoint that is not enabled, or a passive one that does not listen
 * @addr: the address, copied
 * @addrlen: bytes in @addr
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the address is set
 * * -FI_EINVAL - the address is not an IP address
 * * -FI_EOPBADSTATE - the endpoint is enabled, or listens; in atomic context
 * * -FI_EADDRINUSE, -FI_EADDRNOTAVAIL, -FI_ENODEV, -FI_EACCES - passive: as for
 *   fi_passive_ep()
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
 * @addr: buffer for the address
 * @addrlen: size of @addr, then the needed size
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the address has been written
 * * -FI_ETOOSMALL - the address has been truncated; a string is terminated
 * * -FI_EADDRNOTAVAIL - the endpoint has no address yet
 * * -FI_EINVAL - @addrlen is %NULL, or @addr is %NULL and its size not 0
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
 * @addr: buffer for the address
 * @addrlen: size of @addr, then the needed size
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the address has been written
 * * -FI_ETOOSMALL - the address has been truncated; a string is terminated
 * * -FI_ENOTCONN - the endpoint is not connected yet
 * * -FI_EINVAL - @addrlen is %NULL, or @addr is %NULL and its size not 0
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return ep->cm->getpeer(ep, addr, addrlen);
}

/**
 * fi_listen() - start to report connection requests
 * @pep: the passive endpoint, with an event queue bound
 *
 * Each request is an FI_CONNREQ event. Requests that no endpoint has taken are
 * rejected when the passive endpoint is closed.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - requests are reported
 * * -FI_ENOEQ - no event queue is bound
 * * -FI_EADDRNOTAVAIL - no address is bound
 * * -FI_EADDRINUSE - siw: a TCP socket uses the port
 * * -FI_EOPNOTSUPP - the device cannot listen in the fabric's network namespace
 * * -FI_EOPBADSTATE - the endpoint already listens; in atomic context
 * * another errno - of rdma_cm
 */
static inline int fi_listen(struct fid_pep *pep)
{
	return pep->cm->listen(pep);
}

/**
 * fi_connect() - enable an endpoint if necessary, and start to connect it
 * @ep: the endpoint; call fi_enable() first to post receives before this call
 * @addr: the peer's address, or %NULL for the dest_addr of its info
 * @param: private data for the peer, or %NULL; copied
 * @paramlen: bytes in @param, up to FI_OPT_CM_DATA_SIZE
 *
 * The outcome is an event: FI_CONNECTED, or an error entry with
 * FI_ECONNREFUSED (and the private data of a rejection), FI_EHOSTUNREACH or
 * FI_ETIMEDOUT.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the attempt has started; an event reports the outcome
 * * -FI_EISCONN - the endpoint is connecting, or connected
 * * -FI_EINVAL - no peer address, or one that is not an IP address; too much
 *   private data
 * * -FI_EOPBADSTATE - the endpoint was opened for a request, or its connection
 *   has ended; in atomic context
 * * -FI_ENOSYS - a datagram endpoint
 * * another errno - as for fi_enable(), or of rdma_cm: the endpoint can still be
 *   connected
 */
static inline int fi_connect(struct fid_ep *ep, const void *addr,
			     const void *param, size_t paramlen)
{
	return ep->cm->connect(ep, addr, param, paramlen);
}

/**
 * fi_accept() - enable an endpoint if necessary, and accept its connection request
 * @ep: an endpoint opened with the info of FI_CONNREQ; call fi_enable() first
 *	to post receives before this call: the peer may send at once
 * @param: private data for the peer, or %NULL; copied
 * @paramlen: bytes in @param, up to FI_OPT_CM_DATA_SIZE
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - FI_CONNECTED follows, or an error event
 * * -FI_EINVAL - the endpoint was not opened for a request; too much private data
 * * -FI_EISCONN - the request has been answered
 * * -FI_ECONNABORTED - the peer has given up
 * * -FI_EOPBADSTATE - the device has been removed; in atomic context
 * * another errno - as for fi_enable(), or of rdma_cm: the attempt has failed
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
 * @param: private data for the peer, or %NULL; copied
 * @paramlen: bytes in @param, up to FI_OPT_CM_DATA_SIZE
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the rejection has been sent
 * * -FI_EINVAL - no unanswered request of this fabric has that handle; too much
 *   private data
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_reject(struct fid_pep *pep, fid_t handle,
			    const void *param, size_t paramlen)
{
	return pep->cm->reject(pep, handle, param, paramlen);
}

/**
 * fi_shutdown() - disconnect, or close one direction
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
 * Context: Process context, may sleep; ten seconds at most if a device does not
 * complete operations.
 * Return:
 * * 0 - the direction is closed
 * * -FI_ENOTCONN - the endpoint was never connected
 * * -FI_EBADFLAGS - flags other than FI_READ and FI_WRITE
 * * -FI_ETIMEDOUT - not all transmits have completed in ten seconds: with FI_WRITE
 *   they go on, else regions of the endpoint stay valid until it is closed
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_shutdown(struct fid_ep *ep, u64 flags)
{
	return ep->cm->shutdown(ep, flags);
}

/**
 * fi_join() - join a multicast or collective group
 * @ep: the endpoint
 * @addr: with FI_COLLECTIVE a struct fi_collective_addr
 * @flags: FI_COLLECTIVE, FI_SEND, FI_RECV
 * @mc: the membership
 * @context: stored in the fid
 *
 * Context: Process context, may sleep.
 * Return: With FI_COLLECTIVE as for fi_join_collective(); -FI_ENOSYS otherwise: no
 * provider has multicast.
 */
static inline int fi_join(struct fid_ep *ep, const void *addr, u64 flags,
			  struct fid_mc **mc, void *context)
{
	return FI_CHECK_OP(ep->cm, struct fi_ops_cm, join) ?
		ep->cm->join(ep, addr, flags, mc, context) : -FI_ENOSYS;
}

/**
 * fi_mc_addr() - return the address of a group, for operations on it
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
