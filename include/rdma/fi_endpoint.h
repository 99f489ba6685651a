/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Endpoints and messages.
 */

#ifndef FI_ENDPOINT_H
#define FI_ENDPOINT_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

/**
 * DOC: Transfers
 *
 * Every call that posts a transfer (messages, tagged messages, RMA, atomics) is
 * a data call for any context, and keeps these rules.
 *
 * Buffers are kernel addresses: kmalloc, vmalloc or module memory, not a
 * stack. A buffer belongs to the operation until its completion was read, and
 * from an inject call back to the caller at once. What describes it (vectors,
 * message structs, desc arrays) is the caller's again when the call returns.
 * desc is what fi_mr_desc() gave, or %NULL: the buffer is then mapped for this
 * one operation. A zero-length transfer ignores buf, iov and desc. What is
 * injected may lie on a stack too.
 *
 * The context comes back as op_context of the completion. A connected endpoint
 * ignores the address argument. For a datagram endpoint it is a handle of the
 * address vector, or FI_ADDR_UNSPEC: a send to FI_ADDR_UNSPEC is -FI_EINVAL, and
 * a receive from it matches any peer. %NULL converts to 0, which has no special
 * meaning: it is the first address of an FI_AV_TABLE.
 *
 * What is posted answers 0, else nothing of it has been kept:
 *
 * * -FI_EAGAIN - the endpoint's queue, or the completion queue, has no room:
 *   read completions, then try again. Also FI_FENCE behind an atomic operation
 *   of several steps, and a driver that is out of memory for the moment
 * * -FI_ENOTCONN - a transmit before FI_CONNECTED; anything after the peer left
 * * -FI_EOPBADSTATE - the endpoint is not enabled (fi_enable(), fi_connect() and
 *   fi_accept() enable it), or fi_shutdown() has closed this direction on this
 *   side
 * * -FI_EINVAL - more vector entries, or more pieces of memory, than the
 *   iov_limit; memory that no device may have; a range that is not in the
 *   region of its desc, or a region of another domain; a vector or struct that
 *   is %NULL
 * * -FI_EMSGSIZE - more bytes than max_msg_size
 * * -FI_EBADFLAGS - a flag that the call does not have
 * * -FI_EOPNOTSUPP - a flag for what the endpoint was not offered; FI_MULTI_RECV
 *   of a shared receive context, and FI_PEEK of one of datagrams
 * * -FI_ENOSYS - a receive of an endpoint that shares its receives: post it to
 *   the context; a transfer that a context of a scalable endpoint is not for
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
	FI_OPT_MIN_MULTI_RECV,		/* size_t: room for each message */
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
 * The tables stay as they are while it is open.
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
 * struct fid_pep - a passive endpoint: it listens
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
 * struct fid_stx - a transmit context that endpoints share
 * @fid: common part
 * @ops: options
 */
struct fid_stx {
	struct fid		fid;
	struct fi_ops_ep	*ops;
};

/* fi_getopt(), fi_getname() and others take any of the three by its fid. */
static_assert(offsetof(struct fid_pep, ops) == offsetof(struct fid_ep, ops));
static_assert(offsetof(struct fid_pep, cm) == offsetof(struct fid_ep, cm));
static_assert(offsetof(struct fid_stx, ops) == offsetof(struct fid_ep, ops));

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_msg) == 48);
static_assert(sizeof(struct fid_ep) == 80);
static_assert(sizeof(struct fi_ops_ep) == 64);
static_assert(sizeof(struct fi_ops_msg) == 80);
#endif

/**
 * fi_passive_ep() - open a passive endpoint
 * @fabric: its parent
 * @info: an info whose src_addr is where to listen
 * @pep: the open endpoint
 * @context: stored in the fid
 *
 * The info is read while the call runs.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the endpoint is open, and bound to the address if there is one
 * * -FI_EINVAL - a src_addr that is no address of IP; @info or @pep is %NULL
 * * -FI_EADDRINUSE - the port is taken
 * * -FI_EADDRNOTAVAIL - no device of the fabric's namespace has the address
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
 * @info: one of the infos that fi_getinfo() or FI_CONNREQ gave
 * @ep: the open endpoint
 * @context: stored in the fid
 *
 * The info is read while the call runs. A connection request that it names is
 * the endpoint's from then on.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the endpoint is open
 * * -FI_EINVAL - neither FI_EP_MSG nor FI_EP_RDM, or several contexts, which
 *   fi_scalable_ep() is for; capabilities, sizes or completion levels beyond
 *   what was offered; another device than the domain's; the handle of no
 *   unanswered request; @info or @ep is %NULL
 * * -FI_EDOMAIN - a request that came in on another device: it is refused
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
 * @info: one of the infos that fi_getinfo() or FI_CONNREQ gave
 * @ep: the open endpoint
 * @flags: 0; of providers that take it FI_PEER_TRANSFER: @context is a struct
 *	fi_peer_transfer_context
 * @context: stored in the fid
 *
 * Context: Process context, may sleep.
 * Return: As fi_endpoint(); -FI_EINVAL for any flag: no provider takes
 * FI_PEER_TRANSFER: they are no offloads, but see fi_import_fid().
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
 * fi_scalable_ep() - open an endpoint of many contexts
 * @domain: its parent
 * @info: one of the infos that fi_getinfo() gave for FI_EP_RDM; how many contexts
 *	there are is in &fi_ep_attr.tx_ctx_cnt and &fi_ep_attr.rx_ctx_cnt, where 0
 *	is 1, and which may be changed
 * @sep: the open endpoint
 * @context: stored in the fid
 *
 * The info is read while the call runs. The endpoint is closed after all of its
 * contexts: -FI_EBUSY before. Transfers on itself are -FI_ENOSYS; fi_enable(),
 * fi_setname(), fi_getname() and options are as of other datagram endpoints.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the endpoint is open
 * * -FI_EINVAL - more contexts than max_ep_tx_ctx or max_ep_rx_ctx, as with
 *   FI_SHARED_CONTEXT; capabilities or sizes beyond what was offered; another
 *   device than the domain's; @info or @sep is %NULL
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
 * fi_ep_bind() - bind a queue, counter, vector or shared context
 * @ep: the endpoint, not enabled yet
 * @bfid: what to bind
 * @flags: for a completion queue FI_TRANSMIT, FI_RECV and
 *	FI_SELECTIVE_COMPLETION; for a counter the operations that it counts:
 *	FI_SEND, FI_RECV, FI_READ, FI_WRITE
 *
 * A counter is bound besides the completion queues, never in their place.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - it is bound, and busy until the endpoint is closed
 * * -FI_EBADFLAGS - a completion queue without FI_TRANSMIT and FI_RECV, or with
 *   the one that a context has not; a counter without a kind of operation, flags of an event queue, an address
 *   vector or a shared context, and bits that mean nothing
 * * -FI_EINVAL - what cannot be bound, as an address vector to a connected
 *   endpoint, or a shared context to one whose info does not say
 *   FI_SHARED_CONTEXT; an event queue of another fabric; and a place that is
 *   taken
 * * -FI_EOPNOTSUPP - a counter of what the device does not tell:
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
 * * 0 - it is bound, and busy until the endpoint is closed
 * * -FI_EINVAL - @bfid is no event queue, or a queue of another fabric; a queue
 *   is bound already
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
 * The contexts have it too: it is not bound to them.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - it is bound, and busy until the endpoint is closed
 * * -FI_EINVAL - it is no address vector, or one is bound
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
 * @ep: the endpoint, with all that it needs bound
 *
 * fi_connect() and fi_accept() enable an endpoint that is not enabled. To post
 * receives earlier, call this function first: on an endpoint that is not
 * enabled, fi_recv() returns -FI_EOPBADSTATE.
 *
 * Once it is enabled this does nothing.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - receives can be posted
 * * -FI_ENOEQ - no event queue is bound to a connected endpoint, and none to its
 *   domain
 * * -FI_ENOAV - no address vector is bound to a datagram endpoint, or to the
 *   scalable endpoint of a context
 * * -FI_ENORX - no receive context is bound to an endpoint that is to share one
 * * -FI_ENOCQ - no completion queue for transmits, or none for receives
 * * -FI_EADDRINUSE - another listens where a datagram endpoint is to
 * * -FI_ENOSPC - a completion queue has no room for one more endpoint, or for all
 *   receives of a context
 * * -FI_EOPBADSTATE - in atomic context; no transmit context is bound to an
 *   endpoint that is to share one
 * * -FI_ENOMEM - no memory, or the device has no more queue pairs
 */
static inline int fi_enable(struct fid_ep *ep)
{
	return ep->fid.ops->control(&ep->fid, FI_ENABLE, NULL);
}

/**
 * fi_cancel() - give up an operation
 * @fid: the endpoint, or a shared receive context
 * @context: context that the operation was posted with
 *
 * Where it succeeds an FI_ECANCELED entry follows.
 *
 * Context: Any context.
 * Return: 0 for a receive of a datagram endpoint that nothing has come for, or:
 *
 * * -FI_ENOENT - there is none with that context
 * * -FI_EAGAIN - it takes several messages, and the completion queue has no room
 * * -FI_EOPBADSTATE - the endpoint is not enabled
 * * -FI_EOPNOTSUPP - of receives that are shared; of a connected endpoint: what is
 *   posted belongs to the device. Close the endpoint, or end the connection with
 *   fi_shutdown(), to get it back.
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
 * @optname: which option
 * @optval: its value
 * @optlen: bytes in @optval
 *
 * Context: Any context.
 * Return:
 * * 0 - set, for what is done from now on
 * * -FI_ENOPROTOOPT - another option than FI_OPT_MIN_MULTI_RECV of an active
 *   endpoint, or FI_OPT_KOFI_CONNECTIONS or FI_OPT_KOFI_IDLE_MS of one for
 *   datagrams
 * * -FI_EINVAL - 0 bytes for a message, no connections or more than there can
 *   be, more than INT_MAX milliseconds; @optval is %NULL, or no size_t
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
 * @optname: which option
 * @optval: where its value goes
 * @optlen: room in @optval, then the bytes needed
 *
 * Context: Any context.
 * Return:
 * * 0 - the value has been written
 * * -FI_ENOPROTOOPT - another option than FI_OPT_CM_DATA_SIZE, or
 *   FI_OPT_MIN_MULTI_RECV of an active endpoint, or FI_OPT_KOFI_* of one for
 *   datagrams
 * * -FI_ETOOSMALL - no room for a size_t, whose size is in @optlen
 * * -FI_EINVAL - @optlen is %NULL
 */
static inline int fi_getopt(fid_t fid, int level, int optname, void *optval,
			    size_t *optlen)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->ops->getopt(fid, level, optname, optval, optlen);
}

/**
 * fi_ep_alias() - a second handle of an endpoint, with flags of its own
 * @ep: the endpoint
 * @alias_ep: the alias, closed on its own and before the endpoint
 * @flags: operation flags of the alias, with FI_TRANSMIT or FI_RECV
 *
 * Context: Process context, may sleep.
 * Return: As fi_alias().
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
 * @idx: which context, from 0 on
 * @attr: what it is less than the endpoint, 0 for as much; then what it has. Or
 *	%NULL
 * @tx_ep: the open context
 * @context: stored in the fid
 *
 * It sends, and accesses memory of peers: the calls of receives are -FI_ENOSYS.
 * fi_ep_bind() binds a completion queue with FI_TRANSMIT, and counters;
 * fi_enable() enables the endpoint with it. fi_close() is possible whatever is
 * under way, takes a quarter of a second at most where peers do not answer, and
 * is silent: the buffers are free when it returns, and the index can be opened
 * again.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the context is open
 * * -FI_EINVAL - there is no such index; attributes beyond those of the endpoint;
 *   @tx_ep is %NULL
 * * -FI_EBUSY - the context of that index is open
 * * -FI_EBADFLAGS - op_flags that there are not
 * * -FI_ENOSYS - @ep is no scalable endpoint
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
 * @idx: which context, from 0 on, as peers name it with fi_rx_addr()
 * @attr: as of fi_tx_context()
 * @rx_ep: the open context
 * @context: stored in the fid
 *
 * It receives: all other transfers are -FI_ENOSYS. fi_ep_bind() binds a
 * completion queue with FI_RECV, and a counter of FI_RECV; fi_enable() enables
 * the endpoint with it. Messages that came before wait for it, and what nobody
 * has received when it is closed waits for who opens the index again. fi_close()
 * is as of fi_tx_context().
 *
 * Context: Process context, may sleep.
 * Return: As fi_tx_context().
 */
static inline int fi_rx_context(struct fid_ep *ep, int idx,
				struct fi_rx_attr *attr, struct fid_ep **rx_ep,
				void *context)
{
	return ep->ops->rx_ctx(ep, idx, attr, rx_ep, context);
}

/**
 * fi_rx_size_left() - receives that can be posted now
 * @ep: the endpoint, or a shared receive context
 *
 * Context: Any context. Data call.
 * Return: The number; -FI_EOPBADSTATE where the endpoint is not enabled;
 * -FI_ENOSYS where it shares its receives.
 */
static inline ssize_t fi_rx_size_left(struct fid_ep *ep)
{
	return ep->ops->rx_size_left(ep);
}

/**
 * fi_tx_size_left() - transmits that can be posted now
 * @ep: the endpoint
 *
 * Context: Any context. Data call.
 * Return: The number; -FI_EOPBADSTATE where the endpoint is not enabled.
 */
static inline ssize_t fi_tx_size_left(struct fid_ep *ep)
{
	return ep->ops->tx_size_left(ep);
}

/**
 * fi_stx_context() - open a transmit context for endpoints to share
 * @domain: its parent
 * @attr: how many operations all of them can have under way at once, and what
 *	those have to be capable of: 0 for all that there is; or %NULL
 * @stx: the open context
 * @context: stored in the fid
 *
 * Of datagram endpoints, whose info says FI_SHARED_CONTEXT for what they send
 * with. fi_ep_bind() binds it, without flags.
 *
 * Context: Process context, may sleep.
 * Return: 0, or
 *
 * * -FI_EINVAL - %NULL; more than an endpoint has of its own, or what it cannot do
 * * -FI_ENOSYS - of connected endpoints: a device has no send queues to share
 * * -FI_ENODEV, -FI_ENOMEM, -FI_EOPBADSTATE in atomic context
 */
static inline int fi_stx_context(struct fid_domain *domain,
				 struct fi_tx_attr *attr, struct fid_stx **stx,
				 void *context)
{
	return domain->ops->stx_ctx(domain, attr, stx, context);
}

/**
 * fi_srx_context() - open a receive context for endpoints to share
 * @domain: its parent
 * @attr: size and iov_limit, 0 for defaults; FI_COMPLETION in op_flags; caps of
 *	those receives. FI_PEER in op_flags, alone or with FI_COMPLETION: the
 *	receives are those of the context in @context (struct
 *	fi_peer_srx_context), and the other attributes are ignored
 * @rx_ep: the open context, to be bound to endpoints with fi_ep_bind()
 * @context: stored in the fid
 *
 * Receives are posted to it with fi_recv(), fi_recvv() and fi_recvmsg(), and on a
 * domain of datagrams with fi_trecv() and its like. Each takes the message of any
 * of the endpoints, and completes where that one says. fi_rx_size_left() tells how
 * many can be posted. There are no other calls of it but fi_close(), which is
 * refused while an endpoint is bound.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the context is open
 * * -FI_EINVAL - more than the device has; other flags or capabilities, as
 *   FI_MULTI_RECV; FI_PEER if receives are posted to the device, with another
 *   flag than FI_COMPLETION, or with a context that is %NULL, too small, or lacks
 *   calls; @attr or @rx_ep is %NULL
 * * -FI_ENOSYS - the device has none
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory, or the device has no more of them
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
 * @src_addr: as fi_recv()
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
 * @flags: in place of the endpoint's: FI_COMPLETION, FI_MORE, FI_MULTI_RECV,
 *	FI_BVEC, FI_SGL
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
 * @flags: in place of the endpoint's: FI_COMPLETION, FI_MORE, FI_INJECT,
 *	FI_REMOTE_CQ_DATA, FI_FENCE, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
 *	FI_DELIVERY_COMPLETE, FI_REMOTE_SIGNAL, FI_BVEC, FI_SGL
 *
 * With FI_INJECT the caller may reuse the buffer when the call returns. The flag
 * does not suppress the completion entry of a success; only the inject calls do.
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
 * fi_inject() - send a short message whose buffer is free again at once
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf, up to &fi_tx_attr.inject_size
 * @dest_addr: the peer
 *
 * A success never writes a completion entry, regardless of the endpoint's flags
 * and its binding. A failure writes an error entry.
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers"; -FI_EMSGSIZE for more than
 * inject_size.
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
 * @data: data for the peer's completion entry
 * @dest_addr: the peer
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers"; -FI_EOPNOTSUPP where the endpoint has
 * no such data, -FI_EINVAL for more than 32 bits of it.
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
 * @data: data for the peer's completion entry
 * @dest_addr: the peer
 *
 * Context: Any context. Data call.
 * Return: As fi_senddata(); -FI_EMSGSIZE for more than inject_size.
 */
static inline ssize_t fi_injectdata(struct fid_ep *ep, const void *buf,
				    size_t len, u64 data, fi_addr_t dest_addr)
{
	return ep->msg->injectdata(ep, buf, len, data, dest_addr);
}

/**
 * fi_sendto() - fi_send() that insists on an address
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes in @buf
 * @desc: descriptor of @buf, or %NULL
 * @dest_addr: the peer
 * @context: context of the operation
 *
 * The kernel's addition.
 *
 * Context: Any context. Data call.
 * Return: As fi_send(); -FI_EINVAL for FI_ADDR_UNSPEC.
 */
static inline ssize_t fi_sendto(struct fid_ep *ep, const void *buf, size_t len,
				void *desc, fi_addr_t dest_addr, void *context)
{
	if (dest_addr == FI_ADDR_UNSPEC)
		return -FI_EINVAL;

	return fi_send(ep, buf, len, desc, dest_addr, context);
}

/**
 * fi_recvfrom() - fi_recv() that insists on an address
 * @ep: the endpoint, with FI_DIRECTED_RECV
 * @buf: the buffer
 * @len: bytes in @buf
 * @desc: descriptor of @buf, or %NULL
 * @src_addr: the peer to receive from
 * @context: context of the operation
 *
 * The kernel's addition.
 *
 * Context: Any context. Data call.
 * Return: As fi_recv(); -FI_EINVAL for FI_ADDR_UNSPEC.
 */
static inline ssize_t fi_recvfrom(struct fid_ep *ep, void *buf, size_t len,
				  void *desc, fi_addr_t src_addr,
				  void *context)
{
	if (src_addr == FI_ADDR_UNSPEC)
		return -FI_EINVAL;

	return fi_recv(ep, buf, len, desc, src_addr, context);
}

#endif /* FI_ENDPOINT_H */
