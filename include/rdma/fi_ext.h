/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * For providers: sharing objects with a peer provider, as fi_peer(3) of
 * libfabric 1.17 describes it.
 *
 * The owner has the object that the application sees. It opens the peer's
 * object with FI_PEER and passes, as the context, a struct of this file that
 * leads to its own. Every struct begins with its size: the larger struct of a
 * newer owner is taken, one that is too small is refused with -FI_EINVAL.
 *
 * Callbacks may come from any context that the owner's own calls are legal in,
 * hard interrupts included, unless they say otherwise.
 */

#ifndef FI_EXT_H
#define FI_EXT_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_prov.h>

/*
 * Numbers of a provider's own: its 12-bit code shifted by 16 bits, negated
 * where an enum starts from it.
 */
#define FI_PROV_SPECIFIC_EFA	(0xefa << 16)
#define FI_PROV_SPECIFIC_TCP	(0x7cb << 16)
#define FI_PROV_SPECIFIC_KOFI	(0x0f1 << 16)

/* Options of FI_OPT_ENDPOINT, of datagram endpoints; each is a size_t */
enum {
	/* how many connections it has at once, at most */
	FI_OPT_KOFI_CONNECTIONS = -FI_PROV_SPECIFIC_KOFI,
	/* milliseconds that one may be unused before it is closed; 0: for ever */
	FI_OPT_KOFI_IDLE_MS,
	/* how many there are, to be read */
	FI_OPT_KOFI_CONNECTED,
};

/**
 * struct fi_fid_export - argument of FI_EXPORT_FID
 * @fid: where the exported fid is returned
 * @flags: reserved, 0
 * @context: the caller's
 */
struct fi_fid_export {
	struct fid		**fid;
	u64			flags;
	void			*context;
};

/**
 * fi_export_fid() - get a form of an object that another provider can import
 * @fid: the object: a completion queue, an address vector, a set of addresses,
 *	a shared receive context of datagrams
 * @flags: reserved, 0
 * @expfid: the exported form: the fid of a struct fid_peer_cq, fid_peer_av,
 *	fid_peer_av_set or fid_peer_srx. It is closed with fi_close(), and before
 *	the object.
 * @context: the caller's
 *
 * Whatever is put into an exported queue its consumer reads as if the queue's
 * own endpoints had completed it; reads that were under way at the export do
 * not see that. As many forms as one likes can be exported of one object. A form
 * may be closed when objects of kOFI's have been opened with it; the object that
 * it is of is busy as long as these are open.
 *
 * Event queues and domains are given to a peer as they are.
 *
 * Context: Process context, may sleep.
 * Return: 0; -FI_ENOSYS of other objects; -FI_EBADFLAGS; -FI_EINVAL for NULL,
 * of a queue that was opened with FI_PEER, and of receives of another make;
 * -FI_ENOMEM; -FI_EOPBADSTATE in atomic context.
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
 * fi_import_fid() - let an object use one that somebody else owns
 * @fid: the object: a datagram endpoint that was opened for FI_COLLECTIVE and has
 *	been enabled
 * @expfid: the other's: a domain of an offload provider, which stays open until
 *	the endpoint has been closed
 * @flags: reserved, 0
 *
 * The offload does the endpoint's collectives from then on. kOFI opens with it,
 * in that domain and with FI_PEER, what it needs of the endpoint's: an address
 * vector and a completion queue; and with FI_PEER_TRANSFER an endpoint (struct
 * fi_peer_transfer_context), which is bound to both and enabled. fi_join() of the
 * endpoint opens a set with FI_PEER_AV and joins it there. All of that is closed
 * with the endpoint, which is -FI_EBUSY as long as it is in a group.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - they are paired
 * * -FI_ENOSYS - an endpoint that was not opened for FI_COLLECTIVE; a domain that
 *   lacks one of the calls; another object, as -FI_EINVAL says of those that
 *   something else can be bound to
 * * -FI_EOPBADSTATE - the endpoint has not been enabled; in atomic context
 * * -FI_EALREADY - it is paired
 * * -FI_EBADFLAGS - @flags is not 0
 * * -FI_EINVAL - what the offload gave has no calls, or a size that is too small;
 *   an alias of the endpoint
 * * -FI_ENOMEM - no memory
 * * what the offload says
 */
static inline int fi_import_fid(struct fid *fid, struct fid *expfid, u64 flags)
{
	return fid->ops->bind(fid, expfid, flags);
}

struct fid_peer_av;

/**
 * struct fi_ops_av_owner - what a peer asks of the owner of an address vector
 * @size: size of this struct
 * @query: write the vector's attributes as they are now
 * @ep_addr: address of one of the owner's endpoints, FI_ADDR_NOTAVAIL where it
 *	is not in the vector
 *
 * Of a vector of kOFI's that has been exported: @query is legal in any context,
 * and tells type, rx_ctx_bits and how many addresses there are; -FI_EINVAL for
 * %NULL. @ep_addr is legal where fi_getname() of that endpoint is, which may be
 * one of another provider.
 */
struct fi_ops_av_owner {
	size_t	size;
	int	(*query)(struct fid_peer_av *av, struct fi_av_attr *attr);
	fi_addr_t (*ep_addr)(struct fid_peer_av *av, struct fid_ep *ep);
};

/**
 * struct fid_peer_av - an address vector as its owner shows it to a peer
 * @fid: common part, FI_CLASS_PEER_AV
 * @owner_ops: the owner's
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
 * an endpoint could not send to it. Endpoints bound to the peer's vector send to
 * the owner's addresses; fi_av_insert() and fi_av_remove() of the peer's are
 * -FI_EACCES.
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
 * struct fi_ops_av_set_owner - what a peer asks of the owner of a set
 * @size: size of this struct
 * @members: write the members; @count is the room, then how many there are;
 *	-FI_ETOOSMALL where they do not fit
 *
 * Of a set of kOFI's that has been exported: legal in process context, and may
 * sleep; -FI_EINVAL for %NULL, -FI_EOPBADSTATE in atomic context, -FI_ENOMEM.
 */
struct fi_ops_av_set_owner {
	size_t	size;
	int	(*members)(struct fid_peer_av_set *av, fi_addr_t *addr,
			   size_t *count);
};

/**
 * struct fid_peer_av_set - a set of addresses as its owner shows it to a peer
 * @fid: common part, FI_CLASS_PEER_AV_SET
 * @owner_ops: the owner's
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
 * kOFI asks the owner each time that the members of the peer's set are needed,
 * with no lock held. What would change the peer's set is -FI_EACCES.
 */
struct fi_peer_av_set_context {
	size_t			size;
	struct fid_peer_av_set	*av_set;
};

struct fid_peer_cq;

/**
 * struct fi_ops_cq_owner - how a peer reports completions
 * @size: size of this struct
 * @write: put an entry into the owner's queue; the arguments that its format
 *	does not have are ignored, @src is relative to the peer's vector
 * @writeerr: put an error entry into it
 *
 * The owner locks, wakes readers, translates @src and deals with a full queue.
 *
 * Of a queue of kOFI's that has been exported: both are legal in any context,
 * and put what they are given beside what its own endpoints complete, as many
 * entries as the queue was opened for. -FI_EAGAIN says that there is no room
 * before the queue is read, or no memory, and nothing has been put: call again
 * later. @src is reported unchanged. @writeerr copies the err_data_size bytes at
 * err_data before it returns, and fi_cq_readerr() returns all of them. -FI_EINVAL
 * for NULL, and for an error entry without an errno.
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
 * struct fid_peer_cq - a completion queue as its owner shows it to a peer
 * @fid: common part, FI_CLASS_PEER_CQ
 * @owner_ops: the owner's
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
 * The owner makes the peer progress with fi_cq_read(cq, NULL, 0); the peer's
 * queue answers -FI_ENOSYS to every other read.
 *
 * kOFI's providers need no such call: a work item passes on what completes,
 * one after the other, and tries again every millisecond where the owner says
 * -FI_EAGAIN. They call the owner with a spinlock held; it does not call the
 * peer's queue from there. The err_data of an error entry, such as the source
 * address of FI_SOURCE_ERR, is valid during the call, and is in the address
 * format of the peer's domain.
 *
 * The peer's queue may be opened with the attributes of the owner's, with FI_PEER
 * added to the flags: wait_obj, wait_set and cq_event_handler apply to the
 * owner's queue, and are ignored. The peer's domain has to be safe for any
 * thread: -FI_EINVAL for FI_THREAD_DOMAIN and FI_THREAD_COMPLETION.
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
 * kOFI's providers ask nothing of it: they register memory themselves. One of
 * kOFI's is busy until the peer's is closed.
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
 * struct fi_peer_rx_entry - a receive that owner and peer hand to each other
 * @next: whoever holds the entry may queue it with these
 * @prev: likewise
 * @srx: shared receive context that it belongs to
 * @addr: sender
 * @size: bytes of the message, or of the buffers
 * @tag: tag of the message
 * @flags: flags of the receive
 * @context: context of the receive
 * @count: entries in @iov
 * @desc: a descriptor for each entry, or %NULL
 * @peer_context: the peer's
 * @owner_context: the owner's
 * @user_context: another name of @owner_context, which fi_peer(3) uses
 * @iov: buffers of the receive
 *
 * Allocated by the owner in get_msg() or get_tag(), and given back to it with
 * free_entry().
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
 * struct fi_ops_srx_owner - what a peer asks of the owner of a receive context
 * @size: size of this struct
 * @get_msg: find the receive for a message; 0 with an entry to receive into,
 *	or -FI_ENOENT with one to queue
 * @get_tag: the same for a tagged message
 * @queue_msg: keep an entry that matched nothing until a receive is posted
 * @queue_tag: the same for a tagged message
 * @free_entry: give an entry back
 *
 * The peer calls get and queue of one message without another of its calls in
 * between. An entry that waits is taken back with @free_entry: it is not started
 * then, or what start answers is an error.
 *
 * Of a context of kOFI's that has been exported: all are legal in any context.
 * The entry's iov, desc, count, context and size are those of the receive, and
 * its flags FI_RECV with FI_MSG or FI_TAGGED, plus FI_COMPLETION if a success is
 * to be reported on a queue bound with FI_SELECTIVE_COMPLETION. Pieces without
 * bytes are left out; desc is %NULL if the receive was posted without descriptors.
 * The peer that completes the message writes the completion to its own queue,
 * which is a peer of the owner's, and then frees the entry, which makes room for
 * another receive. A receive that was posted between get and
 * queue is started from a hard interrupt, so that a lock may be held across both.
 * Get answers -FI_ENOMEM, and -FI_EINVAL for %NULL; queue -FI_EINVAL for an entry
 * that has a receive, was got by the other call, or whose peer has not both
 * calls of its kind, and -FI_ENOMEM. The form is -FI_EBUSY while the peer has
 * entries; those that wait are discarded when it is closed.
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
 * struct fi_ops_srx_peer - what the owner tells a peer of a queued entry
 * @size: size of this struct
 * @start_msg: a receive was posted: take the message
 * @start_tag: the same for a tagged message
 * @discard_msg: drop the message and report no completion
 * @discard_tag: the same for a tagged message
 *
 * The entry is the peer's again. They may come in any context in which a receive
 * can be posted; kOFI calls them with no lock held, and its own calls want the
 * same: they do not come from within get or queue, or with a lock that these
 * take. An error of start says that the message does not come any more: kOFI
 * posts the receive again, and the entry is still the peer's to free. A peer may
 * free it at any time, as when its endpoint closes: an owner that has taken an
 * entry for start keeps its memory until that returns.
 */
struct fi_ops_srx_peer {
	size_t	size;
	int	(*start_msg)(struct fi_peer_rx_entry *entry);
	int	(*start_tag)(struct fi_peer_rx_entry *entry);
	int	(*discard_msg)(struct fi_peer_rx_entry *entry);
	int	(*discard_tag)(struct fi_peer_rx_entry *entry);
};

/**
 * struct fid_peer_srx - a receive context as its owner shows it to a peer
 * @ep_fid: common part, FI_CLASS_PEER_SRX
 * @owner_ops: the owner's
 * @peer_ops: the peer's calls, set before its fi_srx_context() returns
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
 * kOFI's datagram endpoints take receives of any owner; where receives are the
 * device's it is -FI_EINVAL. Nothing is posted with the peer's context:
 * -FI_ENOSYS. The attributes of the owner's context can be passed with FI_PEER
 * added to op_flags: they have no effect, and FI_COMPLETION is the owner's to
 * set in each entry. Of an owner of another make:
 *
 * - an entry is freed after its completion has been added to the endpoint's
 *   queue or, if that queue is a peer's, after its owner has taken the completion.
 *   An endpoint that closes frees the entries whose completions still wait;
 * - the descriptors of an entry are not used;
 * - the source of a message is told with FI_SOURCE alone;
 * - where it says -FI_ENOMEM it is asked again every 10 ms, and what comes
 *   meanwhile waits behind;
 * - more than four pieces of memory are taken for none: the message ends as
 *   -FI_ETRUNC, as if there was no room;
 * - messages of an endpoint that is closed are taken back with free_entry(), and
 *   a receive that one of them had already is lost, with a word in the log.
 */
struct fi_peer_srx_context {
	size_t			size;
	struct fid_peer_srx	*srx;
};

struct fi_peer_transfer_context;

/**
 * struct fi_ops_transfer_peer - how the owner reports transfers that it made
 *	for a peer
 * @size: size of this struct
 * @complete: a transfer is done; it may start others
 * @comperr: a transfer failed
 *
 * kOFI calls them in process context, where they may sleep, one at a time for an
 * endpoint, with the fid_ep that the offload has made; FI_PEER_TRANSFER is among
 * the flags.
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
 * @peer_ops: the peer's, set before its fi_endpoint2() returns
 *
 * Of an endpoint of kOFI's: fi_sendmsg(), fi_tsendmsg(), fi_recvmsg() and
 * fi_trecvmsg() with FI_PEER_TRANSFER are the peer's. They are among themselves:
 * receives of the consumer's take none of them, whatever their tags are. Each is
 * told, successes too; fi_cancel() takes receives back. @info is %NULL, and that
 * which fi_endpoint2() is given says FI_EP_RDM alone.
 */
struct fi_peer_transfer_context {
	size_t				size;
	struct fi_info			*info;
	struct fid_ep			*ep;
	struct fi_ops_transfer_peer	*peer_ops;
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_ops_av_owner) == 24);
static_assert(sizeof(struct fi_ops_av_set_owner) == 16);
static_assert(sizeof(struct fi_ops_cq_owner) == 24);
static_assert(sizeof(struct fi_peer_rx_entry) == 104);
static_assert(sizeof(struct fi_ops_srx_owner) == 48);
static_assert(sizeof(struct fi_ops_srx_peer) == 40);
static_assert(sizeof(struct fid_peer_srx) == 96);
static_assert(sizeof(struct fi_ops_transfer_peer) == 24);
static_assert(sizeof(struct fi_peer_transfer_context) == 32);
#endif

#endif /* FI_EXT_H */
