/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sharing objects between providers, as described in fi_peer(3) of libfabric 1.17.
 *
 * The owner has the object that the application uses. It opens the peer's object
 * with FI_PEER and passes, as the context, a struct of this file that refers to
 * its own object. Every struct begins with its size: the larger struct of a newer
 * owner is accepted, one that is too small is -FI_EINVAL.
 *
 * Unless documented otherwise, callbacks are called in every context in which the
 * corresponding calls of the owner are legal, including hard interrupts.
 */

#ifndef FI_EXT_H
#define FI_EXT_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_prov.h>

/*
 * Provider-specific numbers: the 12-bit code of the provider shifted by 16 bits,
 * negated as the start of an enum.
 */
#define FI_PROV_SPECIFIC_EFA	(0xefa << 16)
#define FI_PROV_SPECIFIC_TCP	(0x7cb << 16)
#define FI_PROV_SPECIFIC_KOFI	(0x0f1 << 16)

/* Options of FI_OPT_ENDPOINT; each is a size_t */
enum {
	/* Datagram endpoints: maximum number of connections, at most 2^31 - 1; 0 (default): no limit */
	FI_OPT_KOFI_CONNECTIONS = -FI_PROV_SPECIFIC_KOFI,
	/* Datagram endpoints: milliseconds before an unused connection is closed; 0: never */
	FI_OPT_KOFI_IDLE_MS,
	/* Datagram endpoints: number of connections, read only */
	FI_OPT_KOFI_CONNECTED,
	/* Connected and passive endpoints: 1 if private data has no length byte */
	FI_OPT_KOFI_CM_DATA_RAW,
	/* Connected endpoints: retransmissions without acknowledgement, 0 to 7 */
	FI_OPT_KOFI_RETRY_COUNT,
	/* Connected endpoints: retries for which the peer has no receive, 7: unlimited */
	FI_OPT_KOFI_RNR_RETRY_COUNT,
	/* Connected endpoints: 0 to 31 for 4.096 * 2^value us, SIZE_MAX: automatic */
	FI_OPT_KOFI_ACK_TIMEOUT,
	/*
	 * Datagram endpoints: memory of the connections with the peers at one IP address, in bytes,
	 * beyond which requests of these peers are refused; 0: no limit. Default: a sixteenth of
	 * the machine's memory, and at least 64 MiB
	 */
	FI_OPT_KOFI_SOURCE_BYTES,
};

/**
 * struct fi_kofi_nic_attr - kOFI's additions to the description of a device
 * @size: size of this struct
 * @numa_node: NUMA node of the device, -1 (NUMA_NO_NODE) if it has none
 * @comp_vectors: number of completion vectors, see &fi_cq_attr.signaling_vector
 *
 * &fid_nic.prov_attr points to it in infos of kOFI's own providers.
 */
struct fi_kofi_nic_attr {
	size_t			size;
	int			numa_node;
	u32			comp_vectors;
};

/* Variables of completion queues for fi_set_val() */
enum {
	/* struct fi_kofi_cq_moderation */
	FI_KOFI_CQ_MODERATION = -FI_PROV_SPECIFIC_KOFI,
	/* size_t: 1 adapts the moderation to the completions that reads find, 0 ends it */
	FI_KOFI_CQ_ADAPTIVE,
};

/**
 * struct fi_kofi_cq_moderation - interrupt moderation of a completion queue
 * @count: number of completions after which the device reports them
 * @period: microseconds after which it reports fewer; 0 for both: at once
 *
 * The value of FI_KOFI_CQ_MODERATION, for fi_set_val(). It delays handlers and
 * blocked readers, not fi_cq_read(). -FI_EOPNOTSUPP for a queue whose device, or
 * provider, has no moderation, such as those of rxe, siw, loop and datagram
 * endpoints; the device's errors. Ends FI_KOFI_CQ_ADAPTIVE. Process context, may
 * sleep.
 */
struct fi_kofi_cq_moderation {
	u16			count;
	u16			period;
};

/* Name of struct fi_kofi_ops_device for fi_open_ops() of a domain */
#define FI_KOFI_DEVICE_OPS	"kofi_device"

struct device;

/**
 * struct fi_kofi_ops_device - the device of a domain, for placement
 * @size: size of this struct
 * @device: return the RDMA device's struct device; its parent is the adapter, if
 *	the driver has set one
 * @dma_device: return the device that accesses memory; %NULL for a driver that
 *	uses kernel addresses, such as rxe and siw
 * @comp_vectors: return the number of completion vectors: &fi_cq_attr.signaling_vector
 *	of a queue of the domain with FI_AFFINITY is less
 *
 * The table is valid always, and the devices as long as the domain is open. The
 * calls are legal in any context. A device that is being removed remains valid
 * until the domain has been closed.
 */
struct fi_kofi_ops_device {
	size_t		size;
	struct device	*(*device)(struct fid_domain *domain);
	struct device	*(*dma_device)(struct fid_domain *domain);
	u32		(*comp_vectors)(struct fid_domain *domain);
};

/**
 * struct fi_fid_export - argument of FI_EXPORT_FID
 * @fid: buffer for the exported fid
 * @flags: reserved, 0
 * @context: stored in the exported fid
 */
struct fi_fid_export {
	struct fid		**fid;
	u64			flags;
	void			*context;
};

/**
 * fi_export_fid() - export an object for another provider
 * @fid: the object: a completion queue, an address vector, an address set, or a
 *	shared receive context of datagram endpoints
 * @flags: reserved, 0
 * @expfid: the exported form: the fid of a struct fid_peer_cq, fid_peer_av,
 *	fid_peer_av_set or fid_peer_srx. It is closed with fi_close(), before
 *	the object.
 * @context: stored in the exported fid
 *
 * The consumer reads entries that a peer writes to an exported queue like those of
 * the queue's own endpoints; reads that run during the export do not see them. Any
 * number of forms can be exported of one object. A form may be closed when objects
 * of kOFI have been opened with it; the exported object is busy while these are
 * open.
 *
 * Event queues and domains are passed to a peer without an export.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the object has been exported
 * * -FI_ENOSYS - the object cannot be exported
 * * -FI_EBADFLAGS - any flag
 * * -FI_EINVAL - NULL; a queue that was opened with FI_PEER; receives of another
 *   provider
 * * -FI_ENOMEM - no memory
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_export_fid(struct fid *fid, u64 flags,
				struct fid **expfid, void *context)
{
	struct fi_fid_export exp = {
		.fid = expfid,
		.flags = flags,
		.context = context,
	};

	return fi_control(fid, FI_EXPORT_FID, &exp);
}

/**
 * fi_import_fid() - pair an endpoint with an offload provider
 * @fid: a datagram endpoint that was opened for FI_COLLECTIVE and is enabled
 * @expfid: a domain of the offload provider, which must stay open until the
 *	endpoint has been closed
 * @flags: reserved, 0
 *
 * The offload implements the endpoint's collectives from then on. kOFI opens in
 * the offload's domain: with FI_PEER an address vector and a completion queue that
 * refer to those of the endpoint, and with FI_PEER_TRANSFER an endpoint (struct
 * fi_peer_transfer_context), which is bound to both and enabled. fi_join() of the
 * endpoint opens a set with FI_PEER_AV and joins it there. These objects are closed
 * with the endpoint, which is -FI_EBUSY while it is a member of a group.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - they are paired
 * * -FI_ENOSYS - an endpoint that was not opened for FI_COLLECTIVE; a domain that
 *   lacks one of the calls; an @fid that has no binding
 * * -FI_EOPBADSTATE - the endpoint is not enabled; in atomic context
 * * -FI_EALREADY - the endpoint is paired already
 * * -FI_EBADFLAGS - @flags is not 0
 * * -FI_EINVAL - an object of the offload has no calls, or a size that is too small;
 *   an alias of the endpoint; another @fid, or another @expfid
 * * -FI_ENOMEM - no memory
 * * another errno - of the offload
 */
static inline int fi_import_fid(struct fid *fid, struct fid *expfid, u64 flags)
{
	return fid->ops->bind(fid, expfid, flags);
}

struct fid_peer_av;

/**
 * struct fi_ops_av_owner - calls of the owner of an address vector
 * @size: size of this struct
 * @query: write the current attributes of the vector
 * @ep_addr: return the address of an endpoint of the owner, FI_ADDR_NOTAVAIL if it
 *	is not in the vector
 *
 * For an exported vector of kOFI: @query is legal in any context, and writes type,
 * rx_ctx_bits and the number of addresses; -FI_EINVAL for %NULL. @ep_addr is legal
 * in the contexts of fi_getname() of that endpoint, which may be one of another
 * provider.
 */
struct fi_ops_av_owner {
	size_t	size;
	int	(*query)(struct fid_peer_av *av, struct fi_av_attr *attr);
	fi_addr_t (*ep_addr)(struct fid_peer_av *av, struct fid_ep *ep);
};

/**
 * struct fid_peer_av - exported form of an address vector
 * @fid: common part, FI_CLASS_PEER_AV
 * @owner_ops: calls of the owner
 */
struct fid_peer_av {
	struct fid		fid;
	struct fi_ops_av_owner	*owner_ops;
};

/**
 * struct fi_peer_av_context - context of fi_av_open() with FI_PEER
 * @size: size of this struct
 * @av: the owner's vector, valid until the peer's is closed
 *
 * kOFI's providers accept only a vector of kOFI. struct fi_ops_av_owner has no
 * call that translates a fi_addr_t of another provider to a network address, so
 * an endpoint could not send to it. Endpoints that are bound to the peer's vector
 * send to the owner's addresses; fi_av_insert() and fi_av_remove() of the peer's
 * vector are -FI_EACCES.
 *
 * The peer's vector may be opened with the attributes of the owner's, with
 * FI_PEER added to the flags, and with FI_SYMMETRIC. A type or rx_ctx_bits other
 * than the owner's is -FI_EINVAL; FI_AV_UNSPEC and 0 select the owner's.
 */
struct fi_peer_av_context {
	size_t			size;
	struct fid_peer_av	*av;
};

struct fid_peer_av_set;

/**
 * struct fi_ops_av_set_owner - calls of the owner of an address set
 * @size: size of this struct
 * @members: write the members; @count is the size of the array, then the number
 *	of members; -FI_ETOOSMALL if they do not fit
 *
 * For an exported set of kOFI: legal in process context, and may sleep; -FI_EINVAL
 * for %NULL, -FI_EOPBADSTATE in atomic context, -FI_ENOMEM.
 */
struct fi_ops_av_set_owner {
	size_t	size;
	int	(*members)(struct fid_peer_av_set *av, fi_addr_t *addr,
			   size_t *count);
};

/**
 * struct fid_peer_av_set - exported form of an address set
 * @fid: common part, FI_CLASS_PEER_AV_SET
 * @owner_ops: calls of the owner
 */
struct fid_peer_av_set {
	struct fid			fid;
	struct fi_ops_av_set_owner	*owner_ops;
};

/**
 * struct fi_peer_av_set_context - context of fi_av_set() with FI_PEER_AV
 * @size: size of this struct
 * @av_set: the owner's set, valid until the peer's is closed
 *
 * kOFI calls the owner whenever the members of the peer's set are needed, with no
 * lock held. Calls that would change the peer's set are -FI_EACCES.
 */
struct fi_peer_av_set_context {
	size_t			size;
	struct fid_peer_av_set	*av_set;
};

struct fid_peer_cq;

/**
 * struct fi_ops_cq_owner - calls of the owner of a completion queue
 * @size: size of this struct
 * @write: write an entry to the owner's queue; arguments that its format does not
 *	have are ignored, @src is relative to the peer's vector
 * @writeerr: write an error entry to the owner's queue
 *
 * The owner locks, wakes readers, translates @src and handles a full queue.
 *
 * For an exported queue of kOFI: both are legal in any context. The queue has space
 * for as many entries of peers as it was opened for, beside those of its own
 * endpoints. -FI_EAGAIN means that there is no space until the queue is read, or no
 * memory, and that nothing has been written: call again later. @src is reported
 * unchanged. @writeerr copies the err_data_size bytes at err_data before it
 * returns, and fi_cq_readerr() returns all of them. -FI_EINVAL for NULL, and for an
 * error entry without an errno.
 */
struct fi_ops_cq_owner {
	size_t	size;
	ssize_t	(*write)(struct fid_peer_cq *cq, void *context, u64 flags,
			 size_t len, void *buf, u64 data, u64 tag,
			 fi_addr_t src);
	ssize_t	(*writeerr)(struct fid_peer_cq *cq,
			    const struct fi_cq_err_entry *err_entry);
};

/**
 * struct fid_peer_cq - exported form of a completion queue
 * @fid: common part, FI_CLASS_PEER_CQ
 * @owner_ops: calls of the owner
 */
struct fid_peer_cq {
	struct fid		fid;
	struct fi_ops_cq_owner	*owner_ops;
};

/**
 * struct fi_peer_cq_context - context of fi_cq_open() with FI_PEER
 * @size: size of this struct
 * @cq: the owner's queue, valid until the peer's is closed
 *
 * The owner drives progress of the peer with fi_cq_read(cq, NULL, 0); every other
 * read of the peer's queue is -FI_ENOSYS.
 *
 * kOFI's providers need no such call: a work item forwards completions in order,
 * and tries again every millisecond if the owner returns -FI_EAGAIN. They call the
 * owner with a spinlock held; the owner must not call the peer's queue from there.
 * The err_data of an error entry, such as the source address of FI_SOURCE_ERR, is
 * valid during the call, and is in the address format of the peer's domain.
 *
 * The peer's queue may be opened with the attributes of the owner's, with FI_PEER
 * added to the flags: wait_obj, wait_set and cq_event_handler apply to the
 * owner's queue, and are ignored. A peer's domain with FI_THREAD_DOMAIN or
 * FI_THREAD_COMPLETION is -FI_EINVAL, because the work item reads the queue.
 */
struct fi_peer_cq_context {
	size_t			size;
	struct fid_peer_cq	*cq;
};

/**
 * struct fi_peer_domain_context - context of fi_domain2() with FI_PEER
 * @size: size of this struct
 * @domain: the owner's domain, valid until the peer's is closed
 *
 * kOFI's providers do not call the owner's domain: they register memory
 * themselves. A domain of kOFI is busy until the peer's is closed.
 */
struct fi_peer_domain_context {
	size_t			size;
	struct fid_domain	*domain;
};

/**
 * struct fi_peer_eq_context - context of fi_eq_open() with FI_PEER
 * @size: size of this struct
 * @eq: the owner's queue, valid until the peer's is closed
 *
 * kOFI's providers accept only a queue of kOFI. fi_eq_write() is the only call
 * that puts an event into another provider's queue, and it cannot pass a struct
 * fi_eq_err_entry, so a connection, insertion or registration that fails could
 * not be reported. All events of kOFI's providers, and of fi_eq_write() on the
 * peer's queue, are read from the owner's queue, which has the error strings of
 * its own provider; the peer's queue returns -FI_ENOSYS for every read.
 *
 * The peer's queue may be opened with the attributes of the owner's, with FI_PEER
 * added to the flags: wait_obj, wait_set and eq_event_handler apply to the
 * owner's queue, and are ignored.
 */
struct fi_peer_eq_context {
	size_t			size;
	struct fid_eq		*eq;
};

struct fid_peer_srx;

/**
 * struct fi_peer_rx_entry - a receive or a message, passed between owner and peer
 * @next: list link for the present holder of the entry
 * @prev: list link for the present holder of the entry
 * @srx: shared receive context of the entry
 * @addr: sender
 * @size: bytes of the message, or of the buffers
 * @tag: tag of the message
 * @flags: flags of the receive
 * @context: context of the receive
 * @count: entries in @iov
 * @desc: a descriptor for each entry, or %NULL
 * @peer_context: belongs to the peer
 * @owner_context: belongs to the owner
 * @user_context: name of @owner_context in fi_peer(3)
 * @iov: buffers of the receive
 *
 * The owner allocates the entry in get_msg() or get_tag(), and the peer releases
 * it with free_entry().
 */
struct fi_peer_rx_entry {
	struct fi_peer_rx_entry	*next;
	struct fi_peer_rx_entry	*prev;
	struct fid_peer_srx	*srx;
	fi_addr_t		addr;
	size_t			size;
	u64			tag;
	u64			flags;
	void			*context;
	size_t			count;
	void			**desc;
	void			*peer_context;
	union {
		void		*owner_context;
		void		*user_context;
	};
	struct kvec		*iov;
};

/**
 * struct fi_ops_srx_owner - calls of the owner of a shared receive context
 * @size: size of this struct
 * @get_msg: find the receive for an untagged message; 0 with an entry to receive
 *	into, or -FI_ENOENT with an entry to queue
 * @get_tag: find the receive for a tagged message, as @get_msg
 * @queue_msg: keep the entry of an unmatched untagged message until a receive is
 *	posted
 * @queue_tag: keep the entry of an unmatched tagged message, as @queue_msg
 * @free_entry: release an entry
 *
 * The peer calls get and queue for one message without another of its calls in
 * between. @free_entry of a waiting entry takes it back: it is not started
 * afterwards, or start returns an error.
 *
 * For an exported context of kOFI: the calls are legal in any context. The entry's
 * iov, desc, count, context and size are those of the receive, and its flags
 * FI_RECV with FI_MSG or FI_TAGGED, plus FI_COMPLETION if a success must write an
 * entry to a queue bound with FI_SELECTIVE_COMPLETION. Pieces without bytes are
 * omitted; desc is %NULL if the receive was posted without descriptors. The peer
 * that completes the message writes the completion to its own queue, which is a
 * peer of the owner's queue, and then frees the entry, which makes space for another
 * receive. A receive that is posted between get and queue is started from a hard
 * interrupt, so the peer may hold a lock across both. Get returns -FI_ENOMEM, and
 * -FI_EINVAL for %NULL. Queue returns -FI_ENOMEM, and -FI_EINVAL for an entry that
 * has a receive, was returned by the other get call, or whose peer lacks one of the
 * calls of its kind. The form is -FI_EBUSY while the peer has entries; waiting ones
 * are discarded when it is closed.
 */
struct fi_ops_srx_owner {
	size_t	size;
	int	(*get_msg)(struct fid_peer_srx *srx, fi_addr_t addr,
			   size_t size, struct fi_peer_rx_entry **entry);
	int	(*get_tag)(struct fid_peer_srx *srx, fi_addr_t addr, u64 tag,
			   struct fi_peer_rx_entry **entry);
	int	(*queue_msg)(struct fi_peer_rx_entry *entry);
	int	(*queue_tag)(struct fi_peer_rx_entry *entry);
	void	(*free_entry)(struct fi_peer_rx_entry *entry);
};

/**
 * struct fi_ops_srx_peer - calls of a peer for a queued entry
 * @size: size of this struct
 * @start_msg: a receive was posted: receive the untagged message
 * @start_tag: a receive was posted: receive the tagged message
 * @discard_msg: drop the untagged message without a completion
 * @discard_tag: drop the tagged message without a completion
 *
 * The entry belongs to the peer again. The calls are made in every context in which
 * a receive can be posted. kOFI makes them with no lock held, and expects the same
 * of other owners: they must not be made from within get or queue, or with a lock
 * that these take. An error of start means that the message will not arrive: kOFI
 * posts the receive again, and the peer still frees the entry. A peer may free it at
 * any time, for example when its endpoint is closed: an owner that has taken an
 * entry for start keeps its memory until start returns.
 */
struct fi_ops_srx_peer {
	size_t	size;
	int	(*start_msg)(struct fi_peer_rx_entry *entry);
	int	(*start_tag)(struct fi_peer_rx_entry *entry);
	int	(*discard_msg)(struct fi_peer_rx_entry *entry);
	int	(*discard_tag)(struct fi_peer_rx_entry *entry);
};

/**
 * struct fid_peer_srx - exported form of a shared receive context
 * @ep_fid: common part, FI_CLASS_PEER_SRX
 * @owner_ops: calls of the owner
 * @peer_ops: calls of the peer, set before its fi_srx_context() returns
 *
 * An exported form has a struct for the peer's calls, with its size set and its
 * calls %NULL. The peer either writes its calls into this struct, or points
 * @peer_ops to a struct of its own. As a peer, kOFI writes its calls into the
 * owner's struct, or if @peer_ops is %NULL points it to a struct of its own; it
 * undoes this when the peer's context is closed.
 */
struct fid_peer_srx {
	struct fid_ep		ep_fid;
	struct fi_ops_srx_owner	*owner_ops;
	struct fi_ops_srx_peer	*peer_ops;
};

/**
 * struct fi_peer_srx_context - context of fi_srx_context() with FI_PEER
 * @size: size of this struct
 * @srx: the owner's context, valid until the peer's is closed
 *
 * kOFI's datagram endpoints take receives of any owner; in a domain of connected
 * endpoints FI_PEER is -FI_EINVAL. Posting to the peer's context is -FI_ENOSYS. The
 * attributes of the owner's context can be passed with FI_PEER added to op_flags:
 * they have no effect, and the owner sets FI_COMPLETION in each entry. For an owner
 * of another provider:
 *
 * - an entry is freed after its completion has been added to the endpoint's
 *   queue or, if that queue is a peer's, after its owner has taken the completion.
 *   An endpoint that closes frees the entries whose completions still wait;
 * - the descriptors of an entry are not used;
 * - the source of a message is passed with FI_SOURCE only;
 * - after -FI_ENOMEM the owner is called again every 10 ms, and later messages wait;
 * - an entry with more than four pieces of memory is treated as one without
 *   memory: the message completes with FI_ETRUNC;
 * - waiting messages of an endpoint that is closed are taken back with
 *   free_entry(); a receive that one of them has already taken is lost, and the
 *   log reports it.
 */
struct fi_peer_srx_context {
	size_t			size;
	struct fid_peer_srx	*srx;
};

struct fi_peer_transfer_context;

/**
 * struct fi_ops_transfer_peer - calls of a peer for transfers that the owner made
 *	for it
 * @size: size of this struct
 * @complete: a transfer has completed; the call may start others
 * @comperr: a transfer has failed
 *
 * kOFI makes these calls in process context, where they may sleep, one at a time
 * for an endpoint, with the fid_ep that the offload opened. The flags contain
 * FI_PEER_TRANSFER.
 */
struct fi_ops_transfer_peer {
	size_t	size;
	ssize_t	(*complete)(struct fid_ep *ep, struct fi_cq_tagged_entry *buf,
			    fi_addr_t *src_addr);
	ssize_t	(*comperr)(struct fid_ep *ep, struct fi_cq_err_entry *buf);
};

/**
 * struct fi_peer_transfer_context - context of fi_endpoint2() with
 *	FI_PEER_TRANSFER
 * @size: size of this struct
 * @info: attributes of the owner's objects, or %NULL
 * @ep: the owner's endpoint, which carries the peer's transfers
 * @peer_ops: calls of the peer, set before its fi_endpoint2() returns
 *
 * For an endpoint of kOFI: fi_sendmsg(), fi_tsendmsg(), fi_recvmsg() and
 * fi_trecvmsg() with FI_PEER_TRANSFER are transfers of the peer. They match each
 * other only: receives of the consumer take none of their messages, whatever the
 * tags are. Each transfer is reported, also a success; fi_cancel() cancels receives.
 * @info is %NULL, and the info argument of fi_endpoint2() has FI_EP_RDM only.
 */
struct fi_peer_transfer_context {
	size_t				size;
	struct fi_info			*info;
	struct fid_ep			*ep;
	struct fi_ops_transfer_peer	*peer_ops;
};

/*
 * Options of FI_OPT_ENDPOINT for connected endpoints of a domain with
 * FI_MR_ENDPOINT, set before the endpoint is enabled; each is a size_t
 */
enum {
	/* Number of regions that the endpoint can have bound at a time; default 0 */
	FI_OPT_KOFI_MR_POOL = -FI_PROV_SPECIFIC_KOFI + 64,
	/* Pages of 4 KiB of each of these regions; default 32 */
	FI_OPT_KOFI_MR_PAGES,
};

/*
 * FI_SGL_DMA	with FI_SGL: the list has DMA addresses, which ib_dma_map_sg() or a
 *		dma-buf attachment has made for the domain's device, and remains mapped
 * FI_REGION	completion entry about the region whose context is op_context
 */
#define FI_SGL_DMA	(1ULL << 34)
/*
 * FI_REMOTE_INVALIDATE	flag of fi_sendmsg() on connected endpoints of a device: when
 *			the message arrives, the peer's key in @data of the message is invalid.
 *			In a completion entry of a receive: the message has invalidated
 *			the key in @data of the entry
 */
#define FI_REMOTE_INVALIDATE	(1ULL << 35)
#define FI_REGION	(1ULL << 37)

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_ops_av_owner) == 24);
static_assert(sizeof(struct fi_ops_av_set_owner) == 16);
static_assert(sizeof(struct fi_ops_cq_owner) == 24);
static_assert(sizeof(struct fi_peer_rx_entry) == 104);
static_assert(offsetof(struct fi_peer_rx_entry, iov) == 96);
static_assert(sizeof(struct fi_ops_srx_owner) == 48);
static_assert(sizeof(struct fi_ops_srx_peer) == 40);
static_assert(sizeof(struct fid_peer_srx) == 96);
static_assert(sizeof(struct fi_ops_transfer_peer) == 24);
static_assert(sizeof(struct fi_peer_transfer_context) == 32);
#endif

#endif /* FI_EXT_H */
