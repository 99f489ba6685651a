/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Event queues, completion queues, counters, wait sets and poll sets.
 *
 * Timeouts are in milliseconds; a negative one never expires. Blocking calls
 * need process context: in atomic context they return -FI_EOPBADSTATE.
 */

#ifndef FI_EQ_H
#define FI_EQ_H

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

/*
 * Wait objects, with which a reader of a queue, counter or set can block. An
 * open with FI_WAIT_FD, FI_WAIT_MUTEX_COND or FI_WAIT_POLLFD is -FI_ENOSYS: only
 * processes have these objects.
 *
 * A thread that sleeps on the wait queue of FI_WAIT_QUEUE is woken when the
 * object may have something to read that it did not have when a read found
 * nothing, or when fi_trywait() returned 0:
 *
 *	wait_queue_head_t *queue;
 *
 *	fi_control(&cq->fid, FI_GETWAIT, &queue);
 *	wait_event(*queue, (ret = fi_cq_read(cq, entry, 1)) != -FI_EAGAIN);
 *
 * Each wakeup must read again. The blocking calls also work on such objects, and
 * on those with FI_WAIT_SET.
 */
enum fi_wait_obj {
	FI_WAIT_NONE,		/* blocking calls are -FI_ENOSYS */
	FI_WAIT_UNSPEC,		/* blocking calls sleep */
	FI_WAIT_SET,		/* as UNSPEC, and wakes the set in wait_set */
	FI_WAIT_FD,
	FI_WAIT_MUTEX_COND,
	FI_WAIT_YIELD,		/* as UNSPEC */
	FI_WAIT_POLLFD,
	FI_WAIT_QUEUE,		/* FI_GETWAIT: wait_queue_head_t **; kernel addition */
};

/**
 * struct fi_wait_attr - wait set attributes
 * @wait_obj: FI_WAIT_UNSPEC, FI_WAIT_YIELD or FI_WAIT_QUEUE
 * @flags: reserved, 0
 */
struct fi_wait_attr {
	enum fi_wait_obj	wait_obj;
	u64			flags;
};

struct fi_ops_wait {
	size_t	size;
	int	(*wait)(struct fid_wait *waitset, int timeout);
	int	(*waitfrom)(struct fid_wait *waitset, struct fid **fids,
			    int count, int timeout);
};

/**
 * struct fid_wait - a wait set
 * @fid: common part
 * @ops: operations of the provider
 */
struct fid_wait {
	struct fid		fid;
	struct fi_ops_wait	*ops;
};

/**
 * struct fi_poll_attr - poll set attributes
 * @flags: reserved, 0
 */
struct fi_poll_attr {
	u64			flags;
};

struct fi_ops_poll {
	size_t	size;
	int	(*poll)(struct fid_poll *pollset, void **context, int count);
	int	(*poll_add)(struct fid_poll *pollset, struct fid *event_fid,
			    u64 flags);
	int	(*poll_del)(struct fid_poll *pollset, struct fid *event_fid,
			    u64 flags);
};

/**
 * struct fid_poll - a poll set
 * @fid: common part
 * @ops: operations of the provider
 */
struct fid_poll {
	struct fid		fid;
	struct fi_ops_poll	*ops;
};

/**
 * struct fi_eq_attr - event queue attributes
 * @size: maximum number of unread events of fi_eq_write(), 0 for 64
 * @flags: FI_WRITE to permit fi_eq_write(), FI_AFFINITY (no effect), FI_PEER:
 *	the context is a struct fi_peer_eq_context, which has the queue of kOFI
 *	that is read in place of this one
 * @wait_obj: wait object of fi_eq_sread()
 * @signaling_vector: no effect
 * @wait_set: with FI_WAIT_SET, the set to wake
 * @eq_event_handler: called in process context when events have arrived, or
 *	%NULL; calls do not overlap; @context is that of the queue. It does not
 *	run after fi_close() of the queue has returned, or after its module has
 *	been unloaded. Kernel addition.
 */
struct fi_eq_attr {
	size_t			size;
	u64			flags;
	enum fi_wait_obj	wait_obj;
	int			signaling_vector;
	struct fid_wait		*wait_set;
	void			(*eq_event_handler)(struct fid_eq *eq,
						    void *context);
};

/* Events; the comment names the type of the entry of fi_eq_read(). */
enum {
	FI_NOTIFY,		/* struct fi_eq_entry */
	FI_CONNREQ,		/* struct fi_eq_cm_entry */
	FI_CONNECTED,		/* struct fi_eq_cm_entry */
	FI_SHUTDOWN,		/* struct fi_eq_cm_entry */
	FI_MR_COMPLETE,		/* struct fi_eq_entry */
	FI_AV_COMPLETE,		/* struct fi_eq_entry */
	FI_JOIN_COMPLETE,	/* struct fi_eq_entry */
};

/**
 * struct fi_eq_entry - completion of an asynchronous operation
 * @fid: object of the operation
 * @context: context of the operation
 * @data: depends on the event; FI_AV_COMPLETE: number of inserted addresses
 */
struct fi_eq_entry {
	fid_t			fid;
	void			*context;
	u64			data;
};

/**
 * struct fi_eq_err_entry - failed operation
 * @fid: object of the operation
 * @context: context of the operation
 * @data: depends on the operation; for an insertion the index of the address
 * @err: fabric errno, positive
 * @prov_errno: error number of the provider, for fi_eq_strerror()
 * @err_data: error data: the caller's buffer of @err_data_size bytes, or with a
 *	size of 0 a buffer of the provider, valid until the next read, or %NULL
 *	if there is no error data
 * @err_data_size: bytes in @err_data; set to the size of the error data, 0 if
 *	@err_data is %NULL
 */
struct fi_eq_err_entry {
	fid_t			fid;
	void			*context;
	u64			data;
	int			err;
	int			prov_errno;
	void			*err_data;
	size_t			err_data_size;
};

/**
 * struct fi_eq_cm_entry - connection event
 * @fid: the endpoint, or for FI_CONNREQ the passive endpoint
 * @info: for FI_CONNREQ the info to open an endpoint with, or to reject; the
 *	reader frees it with fi_freeinfo()
 * @data: private data of the peer
 */
struct fi_eq_cm_entry {
	fid_t			fid;
	struct fi_info		*info;
	u8			data[];
};

struct fi_ops_eq {
	size_t	size;
	ssize_t	(*read)(struct fid_eq *eq, u32 *event, void *buf, size_t len,
			u64 flags);
	ssize_t	(*readerr)(struct fid_eq *eq, struct fi_eq_err_entry *buf,
			   u64 flags);
	ssize_t	(*write)(struct fid_eq *eq, u32 event, const void *buf,
			 size_t len, u64 flags);
	ssize_t	(*sread)(struct fid_eq *eq, u32 *event, void *buf, size_t len,
			 int timeout, u64 flags);
	const char *(*strerror)(struct fid_eq *eq, int prov_errno,
				const void *err_data, char *buf, size_t len);
};

/**
 * struct fid_eq - an event queue
 * @fid: common part
 * @ops: operations of the provider
 */
struct fid_eq {
	struct fid		fid;
	struct fi_ops_eq	*ops;
};

/* Entry formats of a completion queue; each begins with the fields of the one before. */
enum fi_cq_format {
	FI_CQ_FORMAT_UNSPEC,
	FI_CQ_FORMAT_CONTEXT,	/* struct fi_cq_entry */
	FI_CQ_FORMAT_MSG,	/* struct fi_cq_msg_entry */
	FI_CQ_FORMAT_DATA,	/* struct fi_cq_data_entry */
	FI_CQ_FORMAT_TAGGED,	/* struct fi_cq_tagged_entry */
};

/**
 * struct fi_cq_entry - a completed operation, FI_CQ_FORMAT_CONTEXT
 * @op_context: context of the operation
 */
struct fi_cq_entry {
	void			*op_context;
};

/**
 * struct fi_cq_msg_entry - a completed operation, FI_CQ_FORMAT_MSG
 * @op_context: context of the operation
 * @flags: kind of operation: FI_SEND | FI_MSG, ...
 * @len: bytes received, or written by a peer with remote CQ data
 */
struct fi_cq_msg_entry {
	void			*op_context;
	u64			flags;
	size_t			len;
};

/**
 * struct fi_cq_data_entry - a completed operation, FI_CQ_FORMAT_DATA
 * @op_context: context of the operation
 * @flags: kind of operation
 * @len: bytes received, or written by a peer with remote CQ data
 * @buf: start of the message in a buffer for several messages, else %NULL
 * @data: with FI_REMOTE_CQ_DATA the remote CQ data, in host byte order
 */
struct fi_cq_data_entry {
	void			*op_context;
	u64			flags;
	size_t			len;
	void			*buf;
	u64			data;
};

/**
 * struct fi_cq_tagged_entry - a completed operation, FI_CQ_FORMAT_TAGGED
 * @op_context: context of the operation
 * @flags: kind of operation
 * @len: bytes received, or written by a peer with remote CQ data
 * @buf: start of the message in a buffer for several messages, else %NULL
 * @data: with FI_REMOTE_CQ_DATA the remote CQ data, in host byte order
 * @tag: tag of the message
 */
struct fi_cq_tagged_entry {
	void			*op_context;
	u64			flags;
	size_t			len;
	void			*buf;
	u64			data;
	u64			tag;
};

/**
 * struct fi_cq_err_entry - failed operation
 * @op_context: context of the operation
 * @flags: kind of operation
 * @len: bytes received, or written by a peer with remote CQ data
 * @buf: start of the message in a buffer for several messages, else %NULL
 * @data: with FI_REMOTE_CQ_DATA the remote CQ data, in host byte order
 * @tag: tag of the message
 * @olen: bytes that were truncated, with FI_ETRUNC
 * @err: fabric errno, positive
 * @prov_errno: error number of the provider, for fi_cq_strerror()
 * @err_data: error data: the caller's buffer of @err_data_size bytes, or with a
 *	size of 0 a buffer of the provider, valid until the next read, or %NULL
 *	if there is no error data
 * @err_data_size: bytes in @err_data; set to the size of the error data, 0 if
 *	@err_data is %NULL
 * @src_addr: with FI_SOURCE the sender, else FI_ADDR_NOTAVAIL. From libfabric
 *	1.20, which has it in the same place.
 */
struct fi_cq_err_entry {
	void			*op_context;
	u64			flags;
	size_t			len;
	void			*buf;
	u64			data;
	u64			tag;
	size_t			olen;
	int			err;
	int			prov_errno;
	void			*err_data;
	size_t			err_data_size;
	fi_addr_t		src_addr;
};

enum fi_cq_wait_cond {
	FI_CQ_COND_NONE,
	FI_CQ_COND_THRESHOLD	/* cond is a count, as a size_t */
};

/**
 * struct fi_cq_attr - completion queue attributes
 * @size: number of entries that it holds, 0 for 1024 or the device's limit
 * @flags: FI_AFFINITY to use @signaling_vector, FI_CB_CTX_INTR or
 *	FI_CB_CTX_SOFTIRQ, FI_PEER: the context is a struct fi_peer_cq_context,
 *	which has the queue of another provider that is read in place of this one
 * @format: format of its entries
 * @wait_obj: wait object of fi_cq_sread()
 * @signaling_vector: completion vector of the device, which selects the interrupt
 *	and with that the CPU; less than the device's number of vectors
 * @wait_cond: FI_CQ_COND_NONE
 * @wait_set: with FI_WAIT_SET, the set to wake
 * @cq_event_handler: called when the queue has something to read, or %NULL: once
 *	until a read has found the queue empty, and when a refused post can be
 *	repeated; calls do not overlap; @context is that of the queue. With FI_CB_CTX_INTR it runs in hard interrupt
 *	context, with FI_CB_CTX_SOFTIRQ in soft interrupt context, else in process
 *	context; in all it may read the queue and post. It does not run after
 *	fi_close() of the queue has returned, or after its module has been
 *	unloaded. Kernel addition.
 */
struct fi_cq_attr {
	size_t			size;
	u64			flags;
	enum fi_cq_format	format;
	enum fi_wait_obj	wait_obj;
	int			signaling_vector;
	enum fi_cq_wait_cond	wait_cond;
	struct fid_wait		*wait_set;
	void			(*cq_event_handler)(struct fid_cq *cq,
						    void *context);
};

struct fi_ops_cq {
	size_t	size;
	ssize_t	(*read)(struct fid_cq *cq, void *buf, size_t count);
	ssize_t	(*readfrom)(struct fid_cq *cq, void *buf, size_t count,
			    fi_addr_t *src_addr);
	ssize_t	(*readerr)(struct fid_cq *cq, struct fi_cq_err_entry *buf,
			   u64 flags);
	ssize_t	(*sread)(struct fid_cq *cq, void *buf, size_t count,
			 const void *cond, int timeout);
	ssize_t	(*sreadfrom)(struct fid_cq *cq, void *buf, size_t count,
			     fi_addr_t *src_addr, const void *cond,
			     int timeout);
	int	(*signal)(struct fid_cq *cq);
	const char *(*strerror)(struct fid_cq *cq, int prov_errno,
				const void *err_data, char *buf, size_t len);
};

/**
 * struct fid_cq - a completion queue
 * @fid: common part
 * @ops: operations of the provider
 */
struct fid_cq {
	struct fid		fid;
	struct fi_ops_cq	*ops;
};

enum fi_cntr_events {
	FI_CNTR_EVENTS_COMP
};

/**
 * struct fi_cntr_attr - counter attributes
 * @events: FI_CNTR_EVENTS_COMP
 * @wait_obj: wait object of fi_cntr_wait()
 * @wait_set: with FI_WAIT_SET, the set to wake
 * @flags: reserved, 0
 */
struct fi_cntr_attr {
	enum fi_cntr_events	events;
	enum fi_wait_obj	wait_obj;
	struct fid_wait		*wait_set;
	u64			flags;
};

struct fi_ops_cntr {
	size_t	size;
	u64	(*read)(struct fid_cntr *cntr);
	u64	(*readerr)(struct fid_cntr *cntr);
	int	(*add)(struct fid_cntr *cntr, u64 value);
	int	(*set)(struct fid_cntr *cntr, u64 value);
	int	(*wait)(struct fid_cntr *cntr, u64 threshold, int timeout);
	int	(*adderr)(struct fid_cntr *cntr, u64 value);
	int	(*seterr)(struct fid_cntr *cntr, u64 value);
};

/**
 * struct fid_cntr - a counter
 * @fid: common part
 * @ops: operations of the provider
 */
struct fid_cntr {
	struct fid		fid;
	struct fi_ops_cntr	*ops;
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_wait_attr) == 16);
static_assert(sizeof(struct fi_ops_wait) == 24);
static_assert(offsetof(struct fi_eq_attr, eq_event_handler) == 32);
static_assert(sizeof(struct fi_eq_attr) == 40);
static_assert(offsetof(struct fi_eq_attr, wait_set) == 24);
static_assert(sizeof(struct fi_eq_entry) == 24);
static_assert(sizeof(struct fi_eq_err_entry) == 48);
static_assert(offsetof(struct fi_eq_err_entry, err) == 24);
static_assert(offsetof(struct fi_eq_err_entry, err_data) == 32);
static_assert(offsetof(struct fi_eq_cm_entry, data) == 16);
static_assert(sizeof(struct fi_eq_cm_entry) == 16);
static_assert(sizeof(struct fi_cq_entry) == 8);
static_assert(sizeof(struct fi_cq_msg_entry) == 24);
static_assert(sizeof(struct fi_cq_data_entry) == 40);
static_assert(sizeof(struct fi_cq_tagged_entry) == 48);
static_assert(offsetof(struct fi_cq_err_entry, err) == 56);
static_assert(offsetof(struct fi_cq_err_entry, err_data) == 64);
static_assert(offsetof(struct fi_cq_err_entry, src_addr) == 80);
static_assert(sizeof(struct fi_cq_err_entry) == 88);
static_assert(offsetof(struct fi_cq_attr, cq_event_handler) == 40);
static_assert(offsetof(struct fi_cq_attr, wait_set) == 32);
static_assert(sizeof(struct fi_cq_attr) == 48);
static_assert(sizeof(struct fi_cntr_attr) == 24);
static_assert(sizeof(struct fi_ops_eq) == 48);
static_assert(sizeof(struct fi_ops_cq) == 64);
static_assert(sizeof(struct fi_ops_cntr) == 64);
#endif

/**
 * fi_trywait() - check whether objects are ready before a thread sleeps on them
 * @fabric: fabric of the objects
 * @fids: queues, counters or wait sets, all with the same kind of wait object
 * @count: entries in @fids
 *
 * A queue is ready while it is not empty. A counter is ready once for each change
 * of its values, no matter what changed them; the call that reports the change
 * clears it. If several threads wait for one counter, their conditions should
 * read its value instead.
 *
 * Context: Any context in which the objects may be read. A data call of each
 * completion queue.
 * Return:
 * * 0 - no object is ready, and the next event wakes the wait queue
 * * -FI_EAGAIN - a queue may have entries, or a counter has changed
 * * -FI_EINVAL - an object without a wait object, or with another kind than the
 *   first; a negative @count; @fids is %NULL
 */
static inline int fi_trywait(struct fid_fabric *fabric, struct fid **fids,
			     int count)
{
	return fabric->ops->trywait(fabric, fids, count);
}

/**
 * fi_wait() - block until a member of a wait set has something to read
 * @waitset: the wait set
 * @timeout: milliseconds
 *
 * The call returns at once while a queue is not empty, and once for each change
 * of a counter and for each fi_cq_signal() since the last call.
 *
 * Context: Process context, may sleep. A data call of each completion queue in
 * the set.
 * Return:
 * * 0 - a member is ready
 * * -FI_ETIMEDOUT - no member was ready in time
 * * -FI_EINTR - a signal is pending, or the kthread should stop
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_wait(struct fid_wait *waitset, int timeout)
{
	return waitset->ops->wait(waitset, timeout);
}

/**
 * fi_waitfrom() - fi_wait() that returns the ready members
 * @waitset: the wait set
 * @fids: array for the members that may have something to read
 * @count: entries in @fids
 * @timeout: milliseconds
 *
 * The cost depends on the number of ready members, not on the number of members.
 * Members that do not fit are returned by the next call. Kernel addition.
 *
 * Context: Process context, may sleep. A data call of each completion queue in
 * the set.
 * Return:
 * * a count - number of members written, at least 1
 * * -FI_EINVAL - @count is not positive, or @fids is %NULL
 * * -FI_ETIMEDOUT - no member was ready in time
 * * -FI_EINTR - a signal is pending, or the kthread should stop
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_waitfrom(struct fid_wait *waitset, struct fid **fids,
			      int count, int timeout)
{
	return waitset->ops->waitfrom(waitset, fids, count, timeout);
}

/**
 * fi_poll() - list the members of a poll set that may have something to read
 * @pollset: the poll set
 * @context: array for the contexts of these members
 * @count: entries in @context
 *
 * A queue is listed while it is not empty, a counter once after its value or its
 * error value has changed. A listed queue may turn out to be empty. Members that
 * do not fit are listed by the next call.
 *
 * Context: Any context in which the members may be read. A data call of each
 * completion queue in the set.
 * Return:
 * * a count - number of contexts written; 0 if no member is ready, or @count is 0
 * * -FI_EINVAL - a negative @count; @context is %NULL and @count not 0
 */
static inline int fi_poll(struct fid_poll *pollset, void **context, int count)
{
	return pollset->ops->poll(pollset, context, count);
}

/**
 * fi_poll_add() - add a completion queue or counter to a poll set
 * @pollset: the poll set
 * @event_fid: the queue or counter
 * @flags: reserved, 0
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the object is a member, possibly already before the call
 * * -FI_EINVAL - flags, or neither a completion queue nor a counter
 * * -FI_ENOMEM - no memory
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_poll_add(struct fid_poll *pollset, struct fid *event_fid,
			      u64 flags)
{
	return pollset->ops->poll_add(pollset, event_fid, flags);
}

/**
 * fi_poll_del() - remove a completion queue or counter from a poll set
 * @pollset: the poll set
 * @event_fid: the queue or counter
 * @flags: reserved, 0
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the object is not a member, possibly already before the call
 * * -FI_EINVAL - flags, or neither a completion queue nor a counter
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_poll_del(struct fid_poll *pollset, struct fid *event_fid,
			      u64 flags)
{
	return pollset->ops->poll_del(pollset, event_fid, flags);
}

/**
 * fi_eq_open() - open an event queue
 * @fabric: its parent
 * @attr: its attributes
 * @eq: the open queue
 * @context: stored in the fid, and passed to the handler
 *
 * The call keeps nothing of @attr. With FI_PEER, @context is a struct
 * fi_peer_eq_context.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the queue is open
 * * -FI_EINVAL - flags other than FI_WRITE, FI_AFFINITY and FI_PEER; an unknown
 *   wait object; FI_WAIT_SET without a set; with FI_PEER a context that is
 *   %NULL, too small, or has no queue of kOFI; @attr or @eq is %NULL
 * * -FI_ENOSYS - a wait object that only processes have
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_eq_open(struct fid_fabric *fabric,
			     struct fi_eq_attr *attr, struct fid_eq **eq,
			     void *context)
{
	return fabric->ops->eq_open(fabric, attr, eq, context);
}

/**
 * fi_eq_read() - read one event, without blocking
 * @eq: the queue
 * @event: buffer for the event number
 * @buf: buffer for the entry
 * @len: bytes in @buf
 * @flags: 0, or FI_PEEK to leave the event in the queue
 *
 * The reader frees the info of an FI_CONNREQ with fi_freeinfo(); with FI_PEEK it
 * belongs to the queue.
 *
 * Context: Process context; does not wait.
 * Return:
 * * a count - number of bytes written
 * * -FI_EAGAIN - the queue is empty
 * * -FI_EAVAIL - an error is next: see fi_eq_readerr()
 * * -FI_ETOOSMALL - the entry does not fit, and the event stays in the queue
 * * -FI_EINVAL - @event is %NULL, or @buf is %NULL and @len not 0
 * * -FI_EBADFLAGS - a flag other than FI_PEEK
 */
static inline ssize_t fi_eq_read(struct fid_eq *eq, u32 *event, void *buf,
				 size_t len, u64 flags)
{
	return eq->ops->read(eq, event, buf, len, flags);
}

/**
 * fi_eq_readerr() - read one error entry
 * @eq: the queue
 * @buf: buffer for the entry; err_data and err_data_size are also input
 * @flags: 0, or FI_PEEK
 *
 * Context: Process context; does not wait.
 * Return:
 * * a count - number of bytes written: sizeof(struct fi_eq_err_entry)
 * * -FI_EAGAIN - the queue is empty, or the next event is not an error
 * * -FI_EINVAL - @buf is %NULL
 * * -FI_EBADFLAGS - a flag other than FI_PEEK
 */
static inline ssize_t fi_eq_readerr(struct fid_eq *eq,
				    struct fi_eq_err_entry *buf, u64 flags)
{
	return eq->ops->readerr(eq, buf, flags);
}

/**
 * fi_eq_write() - write a consumer event to the queue
 * @eq: the queue, opened with FI_WRITE
 * @event: the event number
 * @buf: the bytes of the event, copied
 * @len: bytes in @buf
 * @flags: reserved, 0
 *
 * Context: Process context, may sleep.
 * Return:
 * * @len - the event is in the queue
 * * -FI_EINVAL - the queue was opened without FI_WRITE; more than 64 KiB; @buf
 *   is %NULL and @len not 0
 * * -FI_EBADFLAGS - any flag
 * * -FI_EOVERRUN - as many written events as the queue's size are unread
 * * -FI_ENOMEM - no memory
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline ssize_t fi_eq_write(struct fid_eq *eq, u32 event,
				  const void *buf, size_t len, u64 flags)
{
	return eq->ops->write(eq, event, buf, len, flags);
}

/**
 * fi_eq_sread() - wait for one event and read it
 * @eq: the queue
 * @event: buffer for the event number
 * @buf: buffer for the entry
 * @len: bytes in @buf
 * @timeout: milliseconds
 * @flags: 0, or FI_PEEK
 *
 * Context: Process context, may sleep.
 * Return:
 * * a count - number of bytes written
 * * -FI_EAGAIN - the timeout has expired, a signal is pending, or the kthread
 *   should stop
 * * -FI_ENOSYS - the queue was opened with FI_WAIT_NONE
 * * -FI_EOPBADSTATE - in atomic context
 * * another errno - as for fi_eq_read()
 */
static inline ssize_t fi_eq_sread(struct fid_eq *eq, u32 *event, void *buf,
				  size_t len, int timeout, u64 flags)
{
	return eq->ops->sread(eq, event, buf, len, timeout, flags);
}

/**
 * fi_eq_strerror() - describe an error number of a provider
 * @eq: the queue that reported the error
 * @prov_errno: prov_errno of the error entry
 * @err_data: err_data of the error entry
 * @buf: buffer to which the text is also copied, or %NULL
 * @len: bytes in @buf
 *
 * Context: Any context.
 * Return: The text, never %NULL.
 */
static inline const char *fi_eq_strerror(struct fid_eq *eq, int prov_errno,
					 const void *err_data, char *buf,
					 size_t len)
{
	return eq->ops->strerror(eq, prov_errno, err_data, buf, len);
}

/**
 * fi_cq_read() - read completions, without blocking
 * @cq: the queue
 * @buf: array of @count entries in the format of the queue, or %NULL with a
 *	@count of 0 to make progress only
 * @count: maximum number of entries
 *
 * With a @count of 0 the call moves completions from the device to the queue, and
 * returns the result of a read: -FI_EAGAIN, -FI_EAVAIL or 0.
 *
 * Context: Any context, the handler's included. Data call.
 * Return:
 * * a count - number of entries read
 * * -FI_EAGAIN - the queue is empty
 * * -FI_EAVAIL - an error is next: see fi_cq_readerr()
 * * -FI_EINVAL - @buf is %NULL and @count not 0
 */
static inline ssize_t fi_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	return cq->ops->read(cq, buf, count);
}

/**
 * fi_cq_readfrom() - read completions and the senders of messages
 * @cq: the queue
 * @buf: as in fi_cq_read()
 * @count: maximum number of entries
 * @src_addr: array of @count addresses, FI_ADDR_NOTAVAIL if unknown
 *
 * Context: Any context, the handler's included. Data call.
 * Return: As for fi_cq_read().
 */
static inline ssize_t fi_cq_readfrom(struct fid_cq *cq, void *buf,
				     size_t count, fi_addr_t *src_addr)
{
	return cq->ops->readfrom(cq, buf, count, src_addr);
}

/**
 * fi_cq_readerr() - read one error entry
 * @cq: the queue
 * @buf: buffer for the entry; err_data and err_data_size are also input
 * @flags: reserved, 0
 *
 * Context: Any context, the handler's included. Data call.
 * Return:
 * * 1 - the entry has been written
 * * -FI_EAGAIN - the next entry is not an error entry
 * * -FI_EINVAL - @buf is %NULL
 * * -FI_EBADFLAGS - any flag
 */
static inline ssize_t fi_cq_readerr(struct fid_cq *cq,
				    struct fi_cq_err_entry *buf, u64 flags)
{
	return cq->ops->readerr(cq, buf, flags);
}

/**
 * fi_readfrom() - fi_cq_readfrom() under its name in the kfabric slides
 * @cq: the queue
 * @buf: as in fi_cq_read()
 * @count: maximum number of entries
 * @src: as @src_addr of fi_cq_readfrom()
 *
 * Kernel addition.
 *
 * Context: Any context, the handler's included. Data call.
 * Return: As for fi_cq_readfrom().
 */
static inline ssize_t fi_readfrom(struct fid_cq *cq, void *buf, size_t count,
				  fi_addr_t *src)
{
	return fi_cq_readfrom(cq, buf, count, src);
}

/**
 * fi_cq_error() - fi_cq_readerr() under its name in the kfabric slides
 * @cq: the queue
 * @buf: as in fi_cq_readerr()
 * @flags: reserved, 0
 *
 * Kernel addition.
 *
 * Context: Any context, the handler's included. Data call.
 * Return: As for fi_cq_readerr().
 */
static inline ssize_t fi_cq_error(struct fid_cq *cq,
				  struct fi_cq_err_entry *buf, u64 flags)
{
	return fi_cq_readerr(cq, buf, flags);
}

/**
 * fi_cq_sread() - wait for completions and read them
 * @cq: the queue
 * @buf: array of @count entries in the format of the queue
 * @count: maximum number of entries
 * @cond: ignored
 * @timeout: milliseconds
 *
 * Context: Process context, may sleep. Data call.
 * Return:
 * * a count - number of entries read
 * * -FI_EAGAIN - the timeout has expired, fi_cq_signal() was called, a signal is
 *   pending, or the kthread should stop
 * * -FI_EAVAIL - an error is next: see fi_cq_readerr()
 * * -FI_EINVAL - @buf is %NULL and @count not 0
 * * -FI_ENOSYS - the queue was opened with FI_WAIT_NONE
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline ssize_t fi_cq_sread(struct fid_cq *cq, void *buf, size_t count,
				  const void *cond, int timeout)
{
	return cq->ops->sread(cq, buf, count, cond, timeout);
}

/**
 * fi_cq_sreadfrom() - wait for completions, and read them and their senders
 * @cq: the queue
 * @buf: array of @count entries in the format of the queue
 * @count: maximum number of entries
 * @src_addr: as in fi_cq_readfrom()
 * @cond: ignored
 * @timeout: milliseconds
 *
 * Context: Process context, may sleep. Data call.
 * Return: As for fi_cq_sread().
 */
static inline ssize_t fi_cq_sreadfrom(struct fid_cq *cq, void *buf,
				      size_t count, fi_addr_t *src_addr,
				      const void *cond, int timeout)
{
	return cq->ops->sreadfrom(cq, buf, count, src_addr, cond, timeout);
}

/**
 * fi_cq_signal() - wake a sleeping reader, or the next one that would sleep
 * @cq: the queue
 *
 * Context: Any context.
 * Return:
 * * 0 - one reader is woken, or the next one does not sleep
 * * -FI_ENOSYS - the queue was opened with FI_WAIT_NONE
 */
static inline int fi_cq_signal(struct fid_cq *cq)
{
	return cq->ops->signal(cq);
}

/**
 * fi_cq_strerror() - describe an error number of a provider
 * @cq: the queue that reported the error
 * @prov_errno: prov_errno of the error entry
 * @err_data: err_data of the error entry
 * @buf: buffer to which the text is also copied, or %NULL
 * @len: bytes in @buf
 *
 * Context: Any context.
 * Return: The text, never %NULL.
 */
static inline const char *fi_cq_strerror(struct fid_cq *cq, int prov_errno,
					 const void *err_data, char *buf,
					 size_t len)
{
	return cq->ops->strerror(cq, prov_errno, err_data, buf, len);
}

/**
 * fi_cntr_read() - return the number of operations that succeeded
 * @cntr: the counter
 *
 * The call polls the completion queues and counts completed operations first.
 *
 * Context: Any context.
 * Return: The value.
 */
static inline u64 fi_cntr_read(struct fid_cntr *cntr)
{
	return cntr->ops->read(cntr);
}

/**
 * fi_cntr_readerr() - return the number of operations that failed
 * @cntr: the counter
 *
 * The call polls the completion queues like fi_cntr_read(). Each failed operation
 * also has an error entry in its completion queue.
 *
 * Context: Any context.
 * Return: The error value.
 */
static inline u64 fi_cntr_readerr(struct fid_cntr *cntr)
{
	return cntr->ops->readerr(cntr);
}

/**
 * fi_cntr_add() - add to a counter's value
 * @cntr: the counter
 * @value: the addend
 *
 * Context: Any context.
 * Return: 0.
 */
static inline int fi_cntr_add(struct fid_cntr *cntr, u64 value)
{
	return cntr->ops->add(cntr, value);
}

/**
 * fi_cntr_adderr() - add to a counter's error value
 * @cntr: the counter
 * @value: the addend
 *
 * Context: Any context.
 * Return: 0.
 */
static inline int fi_cntr_adderr(struct fid_cntr *cntr, u64 value)
{
	return FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, adderr) ?
		cntr->ops->adderr(cntr, value) : -FI_ENOSYS;
}

/**
 * fi_cntr_set() - set a counter's value
 * @cntr: the counter
 * @value: the new value
 *
 * Context: Any context.
 * Return: 0.
 */
static inline int fi_cntr_set(struct fid_cntr *cntr, u64 value)
{
	return cntr->ops->set(cntr, value);
}

/**
 * fi_cntr_seterr() - set a counter's error value
 * @cntr: the counter
 * @value: the new value
 *
 * Context: Any context.
 * Return: 0.
 */
static inline int fi_cntr_seterr(struct fid_cntr *cntr, u64 value)
{
	return FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, seterr) ?
		cntr->ops->seterr(cntr, value) : -FI_ENOSYS;
}

/**
 * fi_cntr_wait() - wait until a counter has reached a value
 * @cntr: the counter
 * @threshold: the value
 * @timeout: milliseconds for the whole call; never expires if negative
 *
 * The call polls the completion queues itself. fi_close() of the counter is
 * -FI_EBUSY meanwhile.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the value is at or above @threshold
 * * -FI_EAVAIL - the error value has changed since the call began
 * * -FI_ETIMEDOUT - the timeout has expired
 * * -FI_EINTR - a signal is pending, or the kthread should stop
 * * -FI_ENOSYS - the counter was opened with FI_WAIT_NONE
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_cntr_wait(struct fid_cntr *cntr, u64 threshold,
			       int timeout)
{
	return cntr->ops->wait(cntr, threshold, timeout);
}

#endif /* FI_EQ_H */
