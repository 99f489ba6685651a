/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Endpoints, passive endpoints, shared contexts and messages.
 */

#ifndef FI_ENDPOINT_H
#define FI_ENDPOINT_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

/**
 * DOC: Transfers
 *
 * The following rules apply to every call that posts a transfer (messages,
 * tagged messages, RMA, atomics). Each is a data call, and legal in any context.
 *
 * Buffers are kernel addresses: kmalloc, vmalloc or module memory, not a stack.
 * A buffer belongs to the operation until its completion has been read; after
 * an inject call it belongs to the caller again at once, and may be on a stack.
 * Vectors, message structs and desc arrays belong to the caller again when the
 * call returns. desc is the result of fi_mr_desc() for a region that stays open
 * until the operation has completed, or %NULL: the buffer is then mapped for this
 * operation. A zero-length transfer ignores buf, iov and desc, an inject desc.
 *
 * The context is returned as op_context of the completion. A connected endpoint
 * ignores the address argument. For a datagram endpoint it is a handle of the
 * address vector, or FI_ADDR_UNSPEC: a send to FI_ADDR_UNSPEC is -FI_EINVAL, and
 * a receive from it matches any peer. %NULL converts to 0, which has no special
 * meaning: it is the first address of an FI_AV_TABLE.
 *
 * The calls return 0 if the operation has been posted. Otherwise they keep
 * nothing of it and return:
 *
 * * -FI_EAGAIN - the endpoint's queue, or the completion queue, has no space:
 *   read completions, then try again. Also FI_FENCE after an atomic operation
 *   of several steps, and a driver that is temporarily out of memory
 * * -FI_ENOTCONN - a transmit before FI_CONNECTED; any transfer after the peer
 *   has disconnected
 * * -FI_EOPBADSTATE - the endpoint is not enabled (fi_enable(), fi_connect() and
 *   fi_accept() enable it), or fi_shutdown() has closed this direction on this
 *   side
 * * -FI_EINVAL - more vector entries, or more pieces of memory, than the
 *   iov_limit, which does not limit RMA of connected endpoints; memory that
 *   cannot be mapped for a device; a range outside of the region of its desc, or
 *   a region of another domain; a vector or struct that is %NULL
 * * -FI_EMSGSIZE - more bytes than max_msg_size, or for inject than inject_size
 * * -FI_EBADFLAGS - a flag that the call does not take
 * * -FI_EOPNOTSUPP - a flag for a capability that the endpoint was not offered,
 *   on datagram endpoints FI_FENCE and FI_REMOTE_SIGNAL; FI_DIRECTED_RECV of an
 *   endpoint without that capability, and of a shared receive context;
 *   FI_MULTI_RECV of a shared receive context; FI_PEEK of a shared receive
 *   context of datagram endpoints
 * * -FI_ENOSYS - a receive of an endpoint that shares its receives: post it to
 *   the context; a transfer of the other direction on a context of a scalable
 *   endpoint
 * * -FI_ENOMEM - without desc: the buffer cannot be mapped
 */

/**
 * struct fi_msg - a message to send or to receive
 * @msg_iov: the buffers; with FI_BVEC or FI_SGL see fi_iov_bvec(), fi_iov_sgl()
 * @desc: a descriptor for each buffer, or %NULL
 * @iov_count: entries in the vector
 * @addr: the peer
 * @context: context of the operation
 * @data: remote CQ data
 */
struct fi_msg {
	const struct kvec	*msg_iov;
	void			**desc;
	size_t			iov_count;
	fi_addr_t		addr;
	void			*context;
	u64			data;
};

/* Levels of options */
enum {
	FI_OPT_ENDPOINT
};

/* Options of FI_OPT_ENDPOINT */
enum {
	FI_OPT_MIN_MULTI_RECV,		/* size_t: bytes for each message */
	FI_OPT_CM_DATA_SIZE,		/* size_t */
	FI_OPT_BUFFERED_MIN,		/* size_t */
	FI_OPT_BUFFERED_LIMIT,		/* size_t */
	FI_OPT_SEND_BUF_SIZE,
	FI_OPT_RECV_BUF_SIZE,
	FI_OPT_TX_SIZE,
	FI_OPT_RX_SIZE,
	FI_OPT_FI_HMEM_P2P,		/* int */
	FI_OPT_XPU_TRIGGER,		/* struct fi_trigger_xpu */
};

/* Values of FI_OPT_FI_HMEM_P2P */
enum {
	FI_HMEM_P2P_ENABLED,
	FI_HMEM_P2P_REQUIRED,
	FI_HMEM_P2P_PREFERRED,
	FI_HMEM_P2P_DISABLED
};

struct fi_ops_ep {
	size_t	size;
	ssize_t	(*cancel)(fid_t fid, void *context);
	int	(*getopt)(fid_t fid, int level, int optname, void *optval,
			  size_t *optlen);
	int	(*setopt)(fid_t fid, int level, int optname,
			  const void *optval, size_t optlen);
	int	(*tx_ctx)(struct fid_ep *sep, int index,
			  struct fi_tx_attr *attr, struct fid_ep **tx_ep,
			  void *context);
	int	(*rx_ctx)(struct fid_ep *sep, int index,
			  struct fi_rx_attr *attr, struct fid_ep **rx_ep,
			  void *context);
	ssize_t	(*rx_size_left)(struct fid_ep *ep);
	ssize_t	(*tx_size_left)(struct fid_ep *ep);
};

struct fi_ops_msg {
	size_t	size;
	ssize_t	(*recv)(struct fid_ep *ep, void *buf, size_t len, void *desc,
			fi_addr_t src_addr, void *context);
	ssize_t	(*recvv)(struct fid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, fi_addr_t src_addr,
			 void *context);
	ssize_t	(*recvmsg)(struct fid_ep *ep, const struct fi_msg *msg,
			   u64 flags);
	ssize_t	(*send)(struct fid_ep *ep, const void *buf, size_t len,
			void *desc, fi_addr_t dest_addr, void *context);
	ssize_t	(*sendv)(struct fid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, fi_addr_t dest_addr,
			 void *context);
	ssize_t	(*sendmsg)(struct fid_ep *ep, const struct fi_msg *msg,
			   u64 flags);
	ssize_t	(*inject)(struct fid_ep *ep, const void *buf, size_t len,
			  fi_addr_t dest_addr);
	ssize_t	(*senddata)(struct fid_ep *ep, const void *buf, size_t len,
			    void *desc, u64 data, fi_addr_t dest_addr,
			    void *context);
	ssize_t	(*injectdata)(struct fid_ep *ep, const void *buf, size_t len,
			      u64 data, fi_addr_t dest_addr);
};

struct fi_ops_cm;
struct fi_ops_rma;
struct fi_ops_tagged;
struct fi_ops_atomic;
struct fi_ops_collective;

/**
 * struct fid_ep - an endpoint, or a transmit or receive context
 * @fid: common part
 * @ops: options and contexts
 * @cm: connections
 * @msg: messages
 * @rma: remote memory
 * @tagged: tagged messages
 * @atomic: atomics
 * @collective: collectives
 *
 * The tables do not change while the endpoint is open.
 */
struct fid_ep {
	struct fid		fid;
	struct fi_ops_ep	*ops;
	struct fi_ops_cm	*cm;
	struct fi_ops_msg	*msg;
	struct fi_ops_rma	*rma;
	struct fi_ops_tagged	*tagged;
	struct fi_ops_atomic	*atomic;
	struct fi_ops_collective *collective;
};

/**
 * struct fid_pep - a passive endpoint, which listens for connection requests
 * @fid: common part
 * @ops: options
 * @cm: connections
 */
struct fid_pep {
	struct fid		fid;
	struct fi_ops_ep	*ops;
	struct fi_ops_cm	*cm;
};

/**
 * struct fid_stx - a shared transmit context
 * @fid: common part
 * @ops: options
 */
struct fid_stx {
	struct fid		fid;
	struct fi_ops_ep	*ops;
};

/* fi_getopt(), fi_getname() and others take each of the three by its fid. */
static_assert(offsetof(struct fid_pep, ops) == offsetof(struct fid_ep, ops));
static_assert(offsetof(struct fid_pep, cm) == offsetof(struct fid_ep, cm));
static_assert(offsetof(struct fid_stx, ops) == offsetof(struct fid_ep, ops));

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_msg) == 48);
static_assert(offsetof(struct fi_msg, desc) == 8);
static_assert(offsetof(struct fi_msg, addr) == 24);
static_assert(sizeof(struct fid_ep) == 80);
static_assert(offsetof(struct fid_ep, ops) == 24);
static_assert(offsetof(struct fid_ep, cm) == 32);
static_assert(offsetof(struct fid_ep, msg) == 40);
static_assert(offsetof(struct fid_ep, rma) == 48);
static_assert(offsetof(struct fid_ep, tagged) == 56);
static_assert(offsetof(struct fid_ep, atomic) == 64);
static_assert(sizeof(struct fid_pep) == 40);
static_assert(sizeof(struct fi_ops_ep) == 64);
static_assert(sizeof(struct fi_ops_msg) == 80);
#endif

/**
 * fi_passive_ep() - open a passive endpoint
 * @fabric: its parent
 * @info: an info whose src_addr is the address to listen at
 * @pep: the open endpoint
 * @context: stored in the fid
 *
 * The call keeps nothing of @info.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the endpoint is open, and bound to the address if there is one
 * * -FI_EINVAL - a src_addr that is not an IP address; @info or @pep is %NULL
 * * -FI_EADDRINUSE - the port is in use at this address
 * * -FI_EADDRNOTAVAIL - no interface of the fabric's namespace has the address;
 *   on devices also a port that is in use, if one of the two addresses is
 *   unspecified
 * * -FI_ENODEV - the interface with the address has no RDMA device
 * * -FI_EACCES - on devices a port below 1024, without CAP_NET_BIND_SERVICE
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_passive_ep(struct fid_fabric *fabric,
				struct fi_info *info, struct fid_pep **pep,
				void *context)
{
	return fabric->ops->passive_ep(fabric, info, pep, context);
}

/**
 * fi_endpoint() - open an endpoint
 * @domain: its parent
 * @info: an info that fi_getinfo() or FI_CONNREQ returned
 * @ep: the open endpoint
 * @context: stored in the fid
 *
 * The call keeps nothing of @info. A connection request that it names belongs to
 * the endpoint from then on.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the endpoint is open
 * * -FI_EINVAL - an endpoint type that the domain's provider does not have;
 *   several contexts (use fi_scalable_ep()); capabilities, sizes or completion
 *   levels beyond the offer; another device than the domain's; the handle of no
 *   unanswered request; @info or @ep is %NULL
 * * -FI_EDOMAIN - a request that arrived on another device: it is rejected
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_endpoint(struct fid_domain *domain, struct fi_info *info,
			      struct fid_ep **ep, void *context)
{
	return domain->ops->endpoint(domain, info, ep, context);
}

/**
 * fi_endpoint2() - open an endpoint, with flags
 * @domain: its parent
 * @info: an info that fi_getinfo() or FI_CONNREQ returned
 * @ep: the open endpoint
 * @flags: 0, or for providers that accept it FI_PEER_TRANSFER: @context is a
 *	struct fi_peer_transfer_context
 * @context: stored in the fid
 *
 * Context: Process context, may sleep.
 * Return: As for fi_endpoint(); -FI_EINVAL for any flag: kOFI's providers are not
 * offloads and do not accept FI_PEER_TRANSFER. See fi_import_fid().
 */
static inline int fi_endpoint2(struct fid_domain *domain, struct fi_info *info,
			       struct fid_ep **ep, u64 flags, void *context)
{
	if (!flags)
		return fi_endpoint(domain, info, ep, context);

	return FI_CHECK_OP(domain->ops, struct fi_ops_domain, endpoint2) ?
		domain->ops->endpoint2(domain, info, ep, flags, context) :
		-FI_ENOSYS;
}

/**
 * fi_scalable_ep() - open a datagram endpoint with several contexts
 * @domain: its parent
 * @info: an info that fi_getinfo() returned for FI_EP_RDM; the numbers of
 *	contexts are in &fi_ep_attr.tx_ctx_cnt and &fi_ep_attr.rx_ctx_cnt, where
 *	0 means 1, and may be changed
 * @sep: the open endpoint
 * @context: stored in the fid
 *
 * The call keeps nothing of @info. The endpoint is closed after all of its
 * contexts, -FI_EBUSY before. Transfers on it are -FI_ENOSYS; fi_enable(),
 * fi_setname(), fi_getname() and options work as for other datagram endpoints.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the endpoint is open
 * * -FI_EINVAL - more contexts than max_ep_tx_ctx or max_ep_rx_ctx, or
 *   FI_SHARED_CONTEXT; capabilities or sizes beyond the offer; another device
 *   than the domain's; @info or @sep is %NULL
 * * -FI_ENOSYS - a domain of connected endpoints
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_scalable_ep(struct fid_domain *domain,
				 struct fi_info *info, struct fid_ep **sep,
				 void *context)
{
	return domain->ops->scalable_ep(domain, info, sep, context);
}

/**
 * fi_ep_bind() - bind a queue, counter, address vector or shared context
 * @ep: the endpoint, not enabled yet
 * @bfid: the object to bind
 * @flags: for a completion queue FI_TRANSMIT, FI_RECV and
 *	FI_SELECTIVE_COMPLETION; for a counter the operations that it counts:
 *	FI_SEND, FI_RECV, FI_READ, FI_WRITE
 *
 * A counter does not replace a completion queue.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the object is bound, and busy until the endpoint is closed
 * * -FI_EBADFLAGS - a completion queue without FI_TRANSMIT and FI_RECV, or with a
 *   direction that a context does not have; a counter without a kind of
 *   operation; any flag for an event queue, an address vector or a shared
 *   context; unknown bits
 * * -FI_EINVAL - an object that cannot be bound, such as an address vector to a
 *   connected endpoint, or a shared context to an endpoint whose info does not
 *   have FI_SHARED_CONTEXT; an event queue of another fabric; an object of this
 *   kind is bound already
 * * -FI_EOPNOTSUPP - a counter of operations that the device does not report:
 *   FI_REMOTE_READ, FI_REMOTE_WRITE
 * * -FI_EDOMAIN - a completion queue, counter, address vector or shared context
 *   of another domain
 * * -FI_EOPBADSTATE - the endpoint is enabled; in atomic context
 */
static inline int fi_ep_bind(struct fid_ep *ep, struct fid *bfid, u64 flags)
{
	return ep->fid.ops->bind(&ep->fid, bfid, flags);
}

/**
 * fi_pep_bind() - bind an event queue to a passive endpoint
 * @pep: the passive endpoint
 * @bfid: the event queue
 * @flags: reserved, 0
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the queue is bound, and busy until the endpoint is closed
 * * -FI_EINVAL - @bfid is not an event queue, or a queue of another fabric; a
 *   queue is bound already
 * * -FI_EBADFLAGS - any flag
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_pep_bind(struct fid_pep *pep, struct fid *bfid, u64 flags)
{
	return pep->fid.ops->bind(&pep->fid, bfid, flags);
}

/**
 * fi_scalable_ep_bind() - bind an address vector to a scalable endpoint
 * @sep: the scalable endpoint
 * @bfid: the address vector
 * @flags: reserved, 0
 *
 * The contexts use this vector, which is not bound to them.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the vector is bound, and busy until the endpoint is closed
 * * -FI_EINVAL - @bfid is not an address vector, or one is bound already
 * * -FI_EBADFLAGS - any flag
 * * -FI_EDOMAIN - an address vector of another domain
 * * -FI_EOPBADSTATE - the endpoint is enabled; in atomic context
 */
static inline int fi_scalable_ep_bind(struct fid_ep *sep, struct fid *bfid,
				      u64 flags)
{
	return sep->fid.ops->bind(&sep->fid, bfid, flags);
}

/**
 * fi_enable() - make an endpoint ready for transfers
 * @ep: the endpoint, with all required objects bound
 *
 * fi_connect() and fi_accept() enable an endpoint that is not enabled. To post
 * receives earlier, call this function first: on an endpoint that is not
 * enabled, fi_recv() returns -FI_EOPBADSTATE.
 *
 * The call has no effect on an endpoint that is enabled.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - receives can be posted
 * * -FI_ENOEQ - no event queue is bound to a connected endpoint, and none to its
 *   domain
 * * -FI_ENOAV - no address vector is bound to a datagram endpoint, or to the
 *   scalable endpoint of a context
 * * -FI_ENORX - no shared receive context is bound to an endpoint that needs one
 * * -FI_ENOCQ - no completion queue for transmits, or none for receives
 * * -FI_EADDRINUSE - another endpoint listens at the address of a datagram
 *   endpoint
 * * -FI_ENOSPC - a completion queue has no space for one more endpoint, or for all
 *   receives of a context
 * * -FI_EINVAL - the shared transmit context has a smaller iov_limit or
 *   rma_iov_limit than the endpoint
 * * -FI_EOPBADSTATE - in atomic context; no shared transmit context is bound to
 *   an endpoint that needs one
 * * -FI_ENOMEM - no memory, or no more queue pairs in the device
 */
static inline int fi_enable(struct fid_ep *ep)
{
	return ep->fid.ops->control(&ep->fid, FI_ENABLE, NULL);
}

/**
 * fi_cancel() - cancel a receive or a queued transmit
 * @fid: the endpoint, a context of a scalable endpoint, or a shared receive context
 * @context: context that the operation was posted with; NULL names no transmit
 *
 * If the call succeeds, an FI_ECANCELED entry follows. Of several operations with one
 * context, a receive is cancelled before a transmit, and the latest transmit before others.
 *
 * Context: Any context.
 * Return: 0 for a receive of a datagram endpoint that no message has matched, or for a
 * transmit of one of which nothing has been posted to the device, or:
 *
 * * -FI_ENOENT - no operation with that context waits
 * * -FI_EAGAIN - the receive takes several messages, and the completion queue has
 *   no space; or the memory of the transmit is being registered: try again
 * * -FI_EOPBADSTATE - the endpoint is not enabled
 * * -FI_EOPNOTSUPP - no transmit waits, and receives are shared; a connected endpoint: posted
 *   operations belong to the device. Close the endpoint, or end the connection
 *   with fi_shutdown(), to get them back.
 */
static inline ssize_t fi_cancel(fid_t fid, void *context)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->ops->cancel(fid, context);
}

/**
 * fi_setopt() - set an option
 * @fid: the endpoint, active or passive
 * @level: FI_OPT_ENDPOINT
 * @optname: the option
 * @optval: its value
 * @optlen: bytes in @optval
 *
 * Context: Any context.
 * Return:
 * * 0 - the option is set, for later operations
 * * -FI_ENOPROTOOPT - an option other than FI_OPT_MIN_MULTI_RECV of an active
 *   endpoint, those of connections and sources of a datagram endpoint,
 *   FI_OPT_KOFI_CM_DATA_RAW of a connected or passive one, or the pool of
 *   regions, retries and timeouts of a connected one whose device has them
 * * -FI_EINVAL - 0 bytes for a message, more than INT_MAX connections or
 *   milliseconds, a switch that is neither 0 nor 1, more than 7 retries or
 *   a timeout over 31; @optval is %NULL, or not a size_t
 * * -FI_EOPBADSTATE - an option of the connection after fi_connect() or
 *   fi_accept()
 */
static inline int fi_setopt(fid_t fid, int level, int optname,
			    const void *optval, size_t optlen)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->ops->setopt(fid, level, optname, optval, optlen);
}

/**
 * fi_getopt() - read an option
 * @fid: the endpoint, active or passive
 * @level: FI_OPT_ENDPOINT
 * @optname: the option
 * @optval: buffer for its value
 * @optlen: size of @optval, then the needed size
 *
 * Context: Any context.
 * Return:
 * * 0 - the value has been written
 * * -FI_ENOPROTOOPT - an option other than FI_OPT_CM_DATA_SIZE,
 *   FI_OPT_MIN_MULTI_RECV of an active endpoint, or FI_OPT_KOFI_* of the kind of
 *   endpoint that has it
 * * -FI_ETOOSMALL - @optval has no space for a size_t
 * * -FI_EINVAL - @optlen is %NULL
 */
static inline int fi_getopt(fid_t fid, int level, int optname, void *optval,
			    size_t *optlen)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->ops->getopt(fid, level, optname, optval, optlen);
}

/**
 * fi_ep_alias() - open a second handle of an endpoint, with its own default flags
 * @ep: the endpoint
 * @alias_ep: the alias, which is closed separately and before the endpoint
 * @flags: operation flags of the alias, with FI_TRANSMIT or FI_RECV
 *
 * Context: Process context, may sleep.
 * Return: As for fi_alias().
 */
static inline int fi_ep_alias(struct fid_ep *ep, struct fid_ep **alias_ep,
			      u64 flags)
{
	struct fid *fid;
	int ret;

	ret = fi_alias(&ep->fid, &fid, flags);
	if (!ret)
		*alias_ep = container_of(fid, struct fid_ep, fid);
	return ret;
}

/**
 * fi_tx_context() - open a transmit context of a scalable endpoint
 * @ep: the scalable endpoint
 * @idx: index of the context, from 0
 * @attr: restrictions of the context, 0 for none; only the size may exceed that of
 *	the endpoint. On return its attributes. Or %NULL
 * @tx_ep: the open context
 * @context: stored in the fid
 *
 * The context sends and accesses memory of peers: receives are -FI_ENOSYS.
 * fi_ep_bind() binds a completion queue with FI_TRANSMIT, and counters.
 * fi_enable() also enables the endpoint. fi_close() is possible while operations
 * are in progress, takes a quarter of a second at most if peers do not answer,
 * and is silent: when it returns the buffers belong to the caller, and the index
 * can be opened again.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the context is open
 * * -FI_EINVAL - an index that does not exist; attributes beyond those of the
 *   endpoint, or a size above 1024 for a transmit context; @tx_ep is %NULL
 * * -FI_EBUSY - the context of that index is open
 * * -FI_EBADFLAGS - unknown op_flags
 * * -FI_ENOSYS - @ep is not a scalable endpoint
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_tx_context(struct fid_ep *ep, int idx,
				struct fi_tx_attr *attr, struct fid_ep **tx_ep,
				void *context)
{
	return ep->ops->tx_ctx(ep, idx, attr, tx_ep, context);
}

/**
 * fi_rx_context() - open a receive context of a scalable endpoint
 * @ep: the scalable endpoint
 * @idx: index of the context, from 0, as peers name it with fi_rx_addr()
 * @attr: as for fi_tx_context()
 * @rx_ep: the open context
 * @context: stored in the fid
 *
 * The context receives: all other transfers are -FI_ENOSYS. fi_ep_bind() binds a
 * completion queue with FI_RECV, and a counter of FI_RECV. fi_enable() also
 * enables the endpoint. Messages that arrived earlier wait for the context. When
 * it is closed, messages without a receive wait until the index is opened again.
 * fi_close() works as for fi_tx_context().
 *
 * Context: Process context, may sleep.
 * Return: As for fi_tx_context().
 */
static inline int fi_rx_context(struct fid_ep *ep, int idx,
				struct fi_rx_attr *attr, struct fid_ep **rx_ep,
				void *context)
{
	return ep->ops->rx_ctx(ep, idx, attr, rx_ep, context);
}

/**
 * fi_rx_size_left() - return the number of receives that can be posted
 * @ep: the endpoint, or a shared receive context
 *
 * Context: Any context. Data call.
 * Return: The number; -FI_EOPBADSTATE if the endpoint is not enabled; -FI_ENOSYS
 * if it shares its receives.
 */
static inline ssize_t fi_rx_size_left(struct fid_ep *ep)
{
	return ep->ops->rx_size_left(ep);
}

/**
 * fi_tx_size_left() - return the number of transmits that can be posted
 * @ep: the endpoint
 *
 * It is a lower bound: every peer of a datagram endpoint takes that many, and some take more.
 *
 * Context: Any context. Data call.
 * Return: The number; -FI_EOPBADSTATE if the endpoint is not enabled.
 */
static inline ssize_t fi_tx_size_left(struct fid_ep *ep)
{
	return ep->ops->tx_size_left(ep);
}

/**
 * fi_stx_context() - open a shared transmit context
 * @domain: its parent
 * @attr: size: number of operations in progress of all endpoints, up to 2048, 0
 *	for 128; iov_limit and rma_iov_limit: the largest of its endpoints, 0 for
 *	4 and 1; required capabilities; or %NULL
 * @stx: the open context
 * @context: stored in the fid
 *
 * Datagram endpoints whose info has FI_SHARED_CONTEXT in tx_ctx_cnt share the
 * context. fi_ep_bind() binds it, without flags.
 *
 * Context: Process context, may sleep.
 * Return: 0, or
 *
 * * -FI_EINVAL - @stx is %NULL; attributes beyond these limits
 * * -FI_ENOSYS - a domain of connected endpoints: devices have no shared send
 *   queues
 * * -FI_ENODEV - the device is being removed
 * * -FI_ENOMEM - no memory
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_stx_context(struct fid_domain *domain,
				 struct fi_tx_attr *attr, struct fid_stx **stx,
				 void *context)
{
	return domain->ops->stx_ctx(domain, attr, stx, context);
}

/**
 * fi_srx_context() - open a shared receive context
 * @domain: its parent
 * @attr: size and iov_limit, 0 for defaults; FI_COMPLETION in op_flags; caps of
 *	the receives. FI_PEER in op_flags, alone or with FI_COMPLETION: @context
 *	is a struct fi_peer_srx_context, which has the context whose receives
 *	are used, and the other attributes are ignored
 * @rx_ep: the open context, to be bound to endpoints with fi_ep_bind()
 * @context: stored in the fid
 *
 * Receives are posted to the context with fi_recv(), fi_recvv() and fi_recvmsg(),
 * and in a domain of datagram endpoints with fi_trecv(), fi_trecvv() and
 * fi_trecvmsg(). Each receive takes a message of any of the endpoints, and
 * completes in the completion queue of that endpoint. fi_rx_size_left() returns
 * the number that can be posted. fi_close() is -FI_EBUSY while an endpoint is
 * bound. The context has no other calls.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the context is open
 * * -FI_EINVAL - attributes beyond those of the device; other flags or
 *   capabilities, such as FI_MULTI_RECV; FI_PEER in a domain of connected
 *   endpoints, with a flag other than FI_COMPLETION, or with a context that is
 *   %NULL, too small, or lacks calls; @attr or @rx_ep is %NULL
 * * -FI_ENOSYS - the device has no shared receive queues
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory, or no more shared receive queues in the device
 */
static inline int fi_srx_context(struct fid_domain *domain,
				 struct fi_rx_attr *attr,
				 struct fid_ep **rx_ep, void *context)
{
	return domain->ops->srx_ctx(domain, attr, rx_ep, context);
}

/**
 * fi_recv() - post a buffer for a message
 * @ep: the endpoint
 * @buf: the buffer
 * @len: bytes in @buf
 * @desc: descriptor of @buf, or %NULL
 * @src_addr: with FI_DIRECTED_RECV the peer to receive from, or FI_ADDR_UNSPEC
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers".
 */
static inline ssize_t fi_recv(struct fid_ep *ep, void *buf, size_t len,
			      void *desc, fi_addr_t src_addr, void *context)
{
	return ep->msg->recv(ep, buf, len, desc, src_addr, context);
}

/**
 * fi_recvv() - post several buffers for one message
 * @ep: the endpoint
 * @iov: the buffers
 * @desc: a descriptor for each, or %NULL
 * @count: entries in @iov
 * @src_addr: as for fi_recv()
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers".
 */
static inline ssize_t fi_recvv(struct fid_ep *ep, const struct kvec *iov,
			       void **desc, size_t count, fi_addr_t src_addr,
			       void *context)
{
	return ep->msg->recvv(ep, iov, desc, count, src_addr, context);
}

/**
 * fi_recvmsg() - post a receive with flags
 * @ep: the endpoint
 * @msg: the receive
 * @flags: replace the default flags: FI_COMPLETION, FI_MORE, FI_MULTI_RECV,
 *	FI_BVEC, FI_SGL; FI_DIRECTED_RECV as for fi_recvfrom()
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers".
 */
static inline ssize_t fi_recvmsg(struct fid_ep *ep, const struct fi_msg *msg,
				 u64 flags)
{
	return ep->msg->recvmsg(ep, msg, flags);
}

/**
 * fi_send() - send a message
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf
 * @desc: descriptor of @buf, or %NULL
 * @dest_addr: the peer
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers".
 */
static inline ssize_t fi_send(struct fid_ep *ep, const void *buf, size_t len,
			      void *desc, fi_addr_t dest_addr, void *context)
{
	return ep->msg->send(ep, buf, len, desc, dest_addr, context);
}

/**
 * fi_sendv() - send a message from several buffers
 * @ep: the endpoint
 * @iov: the buffers
 * @desc: a descriptor for each, or %NULL
 * @count: entries in @iov
 * @dest_addr: the peer
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers".
 */
static inline ssize_t fi_sendv(struct fid_ep *ep, const struct kvec *iov,
			       void **desc, size_t count, fi_addr_t dest_addr,
			       void *context)
{
	return ep->msg->sendv(ep, iov, desc, count, dest_addr, context);
}

/**
 * fi_sendmsg() - send a message with flags
 * @ep: the endpoint
 * @msg: the message
 * @flags: replace the default flags: FI_COMPLETION, FI_MORE, FI_INJECT,
 *	FI_REMOTE_CQ_DATA, FI_FENCE, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
 *	FI_DELIVERY_COMPLETE, FI_REMOTE_SIGNAL, FI_BVEC, FI_SGL; on connected
 *	endpoints of devices FI_REMOTE_INVALIDATE of rdma/fi_ext.h, without FI_INJECT
 *	and FI_REMOTE_CQ_DATA: the data of the message is the key
 *
 * With FI_INJECT the caller may reuse the buffer when the call returns. The flag
 * does not suppress the completion entry of a success; only the inject calls do.
 * With FI_DELIVERY_COMPLETE the message completes when it is in a receive of the
 * peer, and the buffer belongs to the operation until then.
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers".
 */
static inline ssize_t fi_sendmsg(struct fid_ep *ep, const struct fi_msg *msg,
				 u64 flags)
{
	return ep->msg->sendmsg(ep, msg, flags);
}

/**
 * fi_inject() - send a short message; the buffer can be reused at once
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf, up to &fi_tx_attr.inject_size
 * @dest_addr: the peer
 *
 * A success never writes a completion entry, regardless of the endpoint's flags
 * and its binding. A failure writes an error entry.
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers"; -FI_EMSGSIZE for more than inject_size.
 */
static inline ssize_t fi_inject(struct fid_ep *ep, const void *buf, size_t len,
				fi_addr_t dest_addr)
{
	return ep->msg->inject(ep, buf, len, dest_addr);
}

/**
 * fi_senddata() - send a message with remote CQ data
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf
 * @desc: descriptor of @buf, or %NULL
 * @data: remote CQ data
 * @dest_addr: the peer
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers"; -FI_EOPNOTSUPP if the endpoint has no
 * remote CQ data. On a connected endpoint -FI_EINVAL for more than 32 bits.
 */
static inline ssize_t fi_senddata(struct fid_ep *ep, const void *buf,
				  size_t len, void *desc, u64 data,
				  fi_addr_t dest_addr, void *context)
{
	return ep->msg->senddata(ep, buf, len, desc, data, dest_addr, context);
}

/**
 * fi_injectdata() - inject a short message with remote CQ data
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf, up to &fi_tx_attr.inject_size
 * @data: remote CQ data
 * @dest_addr: the peer
 *
 * Context: Any context. Data call.
 * Return: As for fi_senddata(); -FI_EMSGSIZE for more than inject_size.
 */
static inline ssize_t fi_injectdata(struct fid_ep *ep, const void *buf,
				    size_t len, u64 data, fi_addr_t dest_addr)
{
	return ep->msg->injectdata(ep, buf, len, data, dest_addr);
}

/**
 * fi_sendto() - fi_send() that requires an address
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf
 * @desc: descriptor of @buf, or %NULL
 * @dest_addr: the peer
 * @context: context of the operation
 *
 * Kernel addition.
 *
 * Context: Any context. Data call.
 * Return: As for fi_send(); -FI_EINVAL for FI_ADDR_UNSPEC.
 */
static inline ssize_t fi_sendto(struct fid_ep *ep, const void *buf, size_t len,
				void *desc, fi_addr_t dest_addr, void *context)
{
	if (dest_addr == FI_ADDR_UNSPEC)
		return -FI_EINVAL;

	return fi_send(ep, buf, len, desc, dest_addr, context);
}

/**
 * fi_recvfrom() - fi_recv() that requires an address
 * @ep: the endpoint, with FI_DIRECTED_RECV
 * @buf: the buffer
 * @len: bytes in @buf
 * @desc: descriptor of @buf, or %NULL
 * @src_addr: the peer to receive from
 * @context: context of the operation
 *
 * Kernel addition: fi_recvmsg() with FI_DIRECTED_RECV, which also applies the
 * endpoint's default flags.
 *
 * Context: Any context. Data call.
 * Return: As for fi_recv(); -FI_EINVAL for FI_ADDR_UNSPEC, -FI_EOPNOTSUPP for an
 *   endpoint without FI_DIRECTED_RECV, which would take messages of any peer.
 */
static inline ssize_t fi_recvfrom(struct fid_ep *ep, void *buf, size_t len,
				  void *desc, fi_addr_t src_addr,
				  void *context)
{
	const struct kvec iov = { .iov_base = buf, .iov_len = len };
	const struct fi_msg msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1,
		.addr = src_addr, .context = context,
	};

	if (src_addr == FI_ADDR_UNSPEC)
		return -FI_EINVAL;

	return fi_recvmsg(ep, &msg, FI_DIRECTED_RECV);
}

#endif /* FI_ENDPOINT_H */
