/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What reports and what waits: wait sets, poll sets, event queues, completion
 * queues, counters.
 *
 * Timeouts are in milliseconds; a negative one waits for ever. Blocking calls
 * are for process context: elsewhere they answer -FI_EOPBADSTATE.
 */

#ifndef FI_EQ_H
#define FI_EQ_H

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

/*
 * How a reader of a queue, counter or set can block. The comment names what
 * the arg of FI_GETWAIT points at. An open with FI_WAIT_FD, FI_WAIT_MUTEX_COND
 * or FI_WAIT_POLLFD answers -FI_ENOSYS: they need what only processes have.
 *
 * Whoever sleeps on the wait queue of FI_WAIT_QUEUE by the kernel's own means
 * is woken when there may be something to read that was not there when a read
 * found nothing, or when fi_trywait() answered 0:
 *
 *	wait_queue_head_t *queue;
 *
 *	fi_control(&cq->fid, FI_GETWAIT, &queue);
 *	wait_event(*queue, (ret = fi_cq_read(cq, entry, 1)) != -FI_EAGAIN);
 *
 * Each wake-up has to look again. The calls that block work on such objects,
 * and on those with FI_WAIT_SET, too.
 */
enum fi_wait_obj {
	FI_WAIT_NONE,		/* it cannot */
	FI_WAIT_UNSPEC,		/* only in calls of this API */
	FI_WAIT_SET,		/* with the wait set in wait_set */
	FI_WAIT_FD,
	FI_WAIT_MUTEX_COND,
	FI_WAIT_YIELD,		/* by yielding the CPU until something is there */
	FI_WAIT_POLLFD,
	FI_WAIT_QUEUE,		/* wait_queue_head_t **; the kernel's addition */
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
 * @size: events that fi_eq_write() may queue, 0 for a default
 * @flags: FI_WRITE to allow fi_eq_write(), FI_AFFINITY where
 *	@signaling_vector is meant, FI_PEER: another queue of kOFI's is read in
 *	place of this one, which the context leads to (struct
 *	fi_peer_eq_context)
 * @wait_obj: how fi_eq_sread() blocks
 * @signaling_vector: CPU that reports events
 * @wait_set: with FI_WAIT_SET, the set to wake
 * @eq_event_handler: called where it may sleep when events have arrived, not
 *	twice at a time; @context is that of the queue. It does not run once
 *	fi_close() of the queue has returned, nor once its module has been
 *	unloaded. The kernel's addition, or %NULL.
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

/* Events; the comment names the entry that fi_eq_read() returns. */
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
 * struct fi_eq_entry - the end of an asynchronous operation
 * @fid: object that it was for
 * @context: context of the operation
 * @data: as the event says; for FI_AV_COMPLETE how many were inserted
 */
struct fi_eq_entry {
	fid_t			fid;
	void			*context;
	u64			data;
};

/**
 * struct fi_eq_err_entry - an operation that failed
 * @fid: object that it was for
 * @context: context of the operation
 * @data: as the event says; for an insertion the index of the address
 * @err: fabric errno, positive
 * @prov_errno: the provider's own number, for fi_eq_strerror()
 * @err_data: more about it: the caller's buffer of @err_data_size bytes, or
 *	with a size of 0 the provider's, valid until the next read, or %NULL
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
 * struct fi_eq_cm_entry - a connection event
 * @fid: the endpoint, or for FI_CONNREQ the passive endpoint
 * @info: for FI_CONNREQ what to open an endpoint with, or to reject; the
 *	reader's, to be freed with fi_freeinfo()
 * @data: the peer's connection data, as much as the read had room for
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

/* Entry formats of a completion queue; each begins with the one before it. */
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
 * @flags: what it was: FI_SEND | FI_MSG, ...
 * @len: bytes received
 */
struct fi_cq_msg_entry {
	void			*op_context;
	u64			flags;
	size_t			len;
};

/**
 * struct fi_cq_data_entry - a completed operation, FI_CQ_FORMAT_DATA
 * @op_context: context of the operation
 * @flags: what it was
 * @len: bytes received
 * @buf: with FI_MULTI_RECV where the message starts
 * @data: with FI_REMOTE_CQ_DATA the peer's data, in host byte order
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
 * @flags: what it was
 * @len: bytes received
 * @buf: with FI_MULTI_RECV where the message starts
 * @data: with FI_REMOTE_CQ_DATA the peer's data, in host byte order
 * @tag: tag that the message was sent with
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
 * struct fi_cq_err_entry - an operation that failed
 * @op_context: context of the operation
 * @flags: what it was
 * @len: bytes received
 * @buf: with FI_MULTI_RECV where the message starts
 * @data: with FI_REMOTE_CQ_DATA the peer's data
 * @tag: tag that the message was sent with
 * @olen: bytes that did not fit, with FI_ETRUNC
 * @err: fabric errno, positive
 * @prov_errno: the provider's own number, for fi_cq_strerror()
 * @err_data: more about it: the caller's buffer of @err_data_size bytes, or
 *	with a size of 0 the provider's, valid until the next read, or %NULL
 *	if there is no error data
 * @err_data_size: bytes in @err_data; set to the size of the error data, 0 if
 *	@err_data is %NULL
 * @src_addr: with FI_SOURCE who sent it, else FI_ADDR_NOTAVAIL. From a later
 *	libfabric (1.20), where it stands in the same place.
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
 * @size: entries that it can hold, 0 for a default
 * @flags: FI_AFFINITY where @signaling_vector is meant, FI_CB_CTX_INTR,
 *	FI_PEER: another provider's queue is read in place of this one, which the
 *	context leads to (struct fi_peer_cq_context)
 * @format: format of its entries
 * @wait_obj: how fi_cq_sread() blocks
 * @signaling_vector: completion vector of the device
 * @wait_cond: what cond means in fi_cq_sread()
 * @wait_set: with FI_WAIT_SET, the set to wake
 * @cq_event_handler: called when the queue has something to read, once until
 *	a read has found it empty, and not twice at a time; @context is that of
 *	the queue. With FI_CB_CTX_INTR it runs in hard interrupt context, else
 *	where it may sleep; it may read the queue and post in both. It does not
 *	run once fi_close() of the queue has returned, nor once its module has
 *	been unloaded. The kernel's addition, or %NULL.
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
 * @events: what it counts
 * @wait_obj: how fi_cntr_wait() blocks
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
static_assert(sizeof(struct fi_eq_entry) == 24);
static_assert(sizeof(struct fi_eq_err_entry) == 48);
static_assert(offsetof(struct fi_eq_cm_entry, data) == 16);
static_assert(sizeof(struct fi_cq_entry) == 8);
static_assert(sizeof(struct fi_cq_msg_entry) == 24);
static_assert(sizeof(struct fi_cq_data_entry) == 40);
static_assert(sizeof(struct fi_cq_tagged_entry) == 48);
static_assert(offsetof(struct fi_cq_err_entry, err) == 56);
static_assert(offsetof(struct fi_cq_err_entry, src_addr) == 80);
static_assert(sizeof(struct fi_cq_err_entry) == 88);
static_assert(offsetof(struct fi_cq_attr, cq_event_handler) == 40);
static_assert(sizeof(struct fi_cq_attr) == 48);
static_assert(sizeof(struct fi_cntr_attr) == 24);
static_assert(sizeof(struct fi_ops_eq) == 48);
static_assert(sizeof(struct fi_ops_cq) == 64);
static_assert(sizeof(struct fi_ops_cntr) == 64);
#endif

/**
 * fi_trywait() - tell whether it is safe to block on native wait objects
 * @fabric: fabric of the objects
 * @fids: queues, counters or wait sets, all of one kind of wait object
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
 * * 0 - there is nothing, and what comes wakes the wait queue
 * * -FI_EAGAIN - a queue may have entries, or a counter has changed
 * * -FI_EINVAL - an object that cannot be waited for, or of another wait object
 *   than the first; a negative @count; @fids is %NULL
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
 * It returns at once as long as a queue is not read that has something, and
 * once for each time that a counter has changed meanwhile, or fi_cq_signal()
 * was called.
 *
 * Context: Process context, may sleep. A data call of each completion queue in
 * the set.
 * Return:
 * * 0 - a member has something
 * * -FI_ETIMEDOUT - none had in time
 * * -FI_EINTR - a signal is pending, or the kthread should stop
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_wait(struct fid_wait *waitset, int timeout)
{
	return waitset->ops->wait(waitset, timeout);
}

/**
 * fi_waitfrom() - fi_wait() that says which members there are
 * @waitset: the wait set
 * @fids: where the members go that may have something to read
 * @count: room in @fids
 * @timeout: milliseconds
 *
 * What it costs depends on how many members have something, not on how many
 * there are. Members that there is no room for are told by the next call. The
 * kernel's addition.
 *
 * Context: Process context, may sleep. A data call of each completion queue in
 * the set.
 * Return:
 * * a count - how many were written, at least 1
 * * -FI_EINVAL - no room: @count is not positive, or @fids is %NULL
 * * -FI_ETIMEDOUT - nothing came in time
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
 * @context: where the contexts of those members go
 * @count: room in @context
 *
 * A queue is listed as long as it is not empty, a counter once after it or its
 * errors have changed. A queue may be listed that turns out to be empty.
 * Members that there is no room for are listed by the next call.
 *
 * Context: Any context in which the members may be read. A data call of each
 * completion queue in the set.
 * Return:
 * * a count - how many contexts were written; 0 where there is nothing new, or
 *   no room
 * * -FI_EINVAL - a negative @count; @context is %NULL with room in it
 */
static inline int fi_poll(struct fid_poll *pollset, void **context, int count)
{
	return pollset->ops->poll(pollset, context, count);
}

/**
 * fi_poll_add() - put a completion queue or counter into a poll set
 * @pollset: the poll set
 * @event_fid: the queue or counter
 * @flags: reserved, 0
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - it is a member, and was perhaps before
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
 * fi_poll_del() - take a completion queue or counter out of a poll set
 * @pollset: the poll set
 * @event_fid: the queue or counter
 * @flags: reserved, 0
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - it is no member, and was perhaps none before
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
 * Nothing of @attr is kept.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the queue is open
 * * -FI_EINVAL - other flags than FI_WRITE and FI_AFFINITY; a wait object that
 *   there is not; FI_WAIT_SET without a set; @attr or @eq is %NULL
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
 * fi_eq_read() - take one event, without blocking
 * @eq: the queue
 * @event: which event
 * @buf: where its entry goes
 * @len: bytes in @buf
 * @flags: 0, or FI_PEEK to leave the event in the queue
 *
 * The info of an FI_CONNREQ is the reader's, and freed with fi_freeinfo(); with
 * FI_PEEK it stays the queue's.
 *
 * Context: Process context; does not wait.
 * Return:
 * * a count - the bytes written
 * * -FI_EAGAIN - the queue is empty
 * * -FI_EAVAIL - an error is next: see fi_eq_readerr()
 * * -FI_ETOOSMALL - the entry does not fit, and the event stays
 * * -FI_EINVAL - @event is %NULL, or @buf with room in it
 * * -FI_EBADFLAGS - another flag than FI_PEEK
 */
static inline ssize_t fi_eq_read(struct fid_eq *eq, u32 *event, void *buf,
				 size_t len, u64 flags)
{
	return eq->ops->read(eq, event, buf, len, flags);
}

/**
 * fi_eq_readerr() - take one error entry
 * @eq: the queue
 * @buf: where it goes; err_data and err_data_size are input too
 * @flags: 0, or FI_PEEK
 *
 * Context: Process context; does not wait.
 * Return:
 * * a count - the bytes written: a &struct fi_eq_err_entry
 * * -FI_EAGAIN - no error is next
 * * -FI_EINVAL - @buf is %NULL
 * * -FI_EBADFLAGS - another flag than FI_PEEK
 */
static inline ssize_t fi_eq_readerr(struct fid_eq *eq,
				    struct fi_eq_err_entry *buf, u64 flags)
{
	return eq->ops->readerr(eq, buf, flags);
}

/**
 * fi_eq_write() - put an event of one's own into the queue
 * @eq: the queue, opened with FI_WRITE
 * @event: which event
 * @buf: its entry, copied
 * @len: bytes in @buf
 * @flags: reserved, 0
 *
 * Context: Process context, may sleep.
 * Return:
 * * @len - the event is in the queue
 * * -FI_EINVAL - the queue was opened without FI_WRITE; more than 64 KiB; @buf
 *   is %NULL with bytes in it
 * * -FI_EBADFLAGS - any flag
 * * -FI_EOVERRUN - as many as the queue's size are unread
 * * -FI_ENOMEM - no memory
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline ssize_t fi_eq_write(struct fid_eq *eq, u32 event,
				  const void *buf, size_t len, u64 flags)
{
	return eq->ops->write(eq, event, buf, len, flags);
}

/**
 * fi_eq_sread() - take one event, waiting for it
 * @eq: the queue
 * @event: which event
 * @buf: where its entry goes
 * @len: bytes in @buf
 * @timeout: milliseconds
 * @flags: 0, or FI_PEEK
 *
 * Context: Process context, may sleep.
 * Return:
 * * a count - the bytes written
 * * -FI_EAGAIN - the time is over, a signal is pending, or the kthread was told
 *   to stop
 * * -FI_ENOSYS - the queue was opened with FI_WAIT_NONE
 * * -FI_EOPBADSTATE - in atomic context
 * * another - as fi_eq_read()
 */
static inline ssize_t fi_eq_sread(struct fid_eq *eq, u32 *event, void *buf,
				  size_t len, int timeout, u64 flags)
{
	return eq->ops->sread(eq, event, buf, len, timeout, flags);
}

/**
 * fi_eq_strerror() - describe a provider's errno
 * @eq: the queue that reported it
 * @prov_errno: the number
 * @err_data: the data that came with it
 * @buf: where the text is copied to as well, or %NULL
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
 * fi_cq_read() - take completions, without blocking
 * @cq: the queue
 * @buf: array of @count entries in the format of the queue, or %NULL with a
 *	@count of 0 to make progress only
 * @count: most entries to take
 *
 * With no room it takes what the device has into the queue, and answers what a
 * read would find: -FI_EAGAIN, -FI_EAVAIL or 0.
 *
 * Context: Any context, the handler's included. Data call.
 * Return:
 * * a count - how many were taken
 * * -FI_EAGAIN - the queue is empty
 * * -FI_EAVAIL - an error is next: see fi_cq_readerr()
 * * -FI_EINVAL - @buf is %NULL with room in it
 */
static inline ssize_t fi_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	return cq->ops->read(cq, buf, count);
}

/**
 * fi_cq_readfrom() - take completions and learn who sent the messages
 * @cq: the queue
 * @buf: as in fi_cq_read()
 * @count: most entries to take
 * @src_addr: array of @count addresses, FI_ADDR_NOTAVAIL where unknown
 *
 * Context: Any context, the handler's included. Data call.
 * Return: As fi_cq_read().
 */
static inline ssize_t fi_cq_readfrom(struct fid_cq *cq, void *buf,
				     size_t count, fi_addr_t *src_addr)
{
	return cq->ops->readfrom(cq, buf, count, src_addr);
}

/**
 * fi_cq_readerr() - take one error entry
 * @cq: the queue
 * @buf: where it goes; err_data and err_data_size are input too
 * @flags: reserved, 0
 *
 * Context: Any context, the handler's included. Data call.
 * Return:
 * * 1 - the entry has been written
 * * -FI_EAGAIN - no error is next
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
 * @count: most entries to take
 * @src: as @src_addr of fi_cq_readfrom()
 *
 * The kernel's addition.
 *
 * Context: Any context, the handler's included. Data call.
 * Return: As fi_cq_readfrom().
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
 * The kernel's addition.
 *
 * Context: Any context, the handler's included. Data call.
 * Return: As fi_cq_readerr().
 */
static inline ssize_t fi_cq_error(struct fid_cq *cq,
				  struct fi_cq_err_entry *buf, u64 flags)
{
	return fi_cq_readerr(cq, buf, flags);
}

/**
 * fi_cq_sread() - take completions, waiting for the first
 * @cq: the queue
 * @buf: array of @count entries in the format of the queue
 * @count: most entries to take
 * @cond: as the queue's wait_cond says, or %NULL
 * @timeout: milliseconds
 *
 * Context: Process context, may sleep. Data call.
 * Return:
 * * a count - how many were taken
 * * -FI_EAGAIN - the time is over, fi_cq_signal() was called, a signal is
 *   pending, or the kthread should stop
 * * -FI_EAVAIL - an error is next: see fi_cq_readerr()
 * * -FI_EINVAL - @buf is %NULL with room in it
 * * -FI_ENOSYS - the queue was opened with FI_WAIT_NONE
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline ssize_t fi_cq_sread(struct fid_cq *cq, void *buf, size_t count,
				  const void *cond, int timeout)
{
	return cq->ops->sread(cq, buf, count, cond, timeout);
}

/**
 * fi_cq_sreadfrom() - take completions and their senders, waiting
 * @cq: the queue
 * @buf: array of @count entries in the format of the queue
 * @count: most entries to take
 * @src_addr: as in fi_cq_readfrom()
 * @cond: as the queue's wait_cond says, or %NULL
 * @timeout: milliseconds
 *
 * Context: Process context, may sleep. Data call.
 * Return: As fi_cq_sread().
 */
static inline ssize_t fi_cq_sreadfrom(struct fid_cq *cq, void *buf,
				      size_t count, fi_addr_t *src_addr,
				      const void *cond, int timeout)
{
	return cq->ops->sreadfrom(cq, buf, count, src_addr, cond, timeout);
}

/**
 * fi_cq_signal() - wake a reader that waits, or the next one that would
 * @cq: the queue
 *
 * Context: Any context.
 * Return:
 * * 0 - one reader wakes, or the next one does not sleep
 * * -FI_ENOSYS - the queue was opened with FI_WAIT_NONE
 */
static inline int fi_cq_signal(struct fid_cq *cq)
{
	return cq->ops->signal(cq);
}

/**
 * fi_cq_strerror() - describe a provider's errno
 * @cq: the queue that reported it
 * @prov_errno: the number
 * @err_data: the data that came with it
 * @buf: where the text is copied to as well, or %NULL
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
 * fi_cntr_read() - operations that succeeded
 * @cntr: the counter
 *
 * What has completed by now is counted first, whether or not anybody reads the
 * completion queue.
 *
 * Context: Any context.
 * Return: Its value.
 */
static inline u64 fi_cntr_read(struct fid_cntr *cntr)
{
	return cntr->ops->read(cntr);
}

/**
 * fi_cntr_readerr() - operations that failed
 * @cntr: the counter
 *
 * As fi_cntr_read(). Each of them has an error entry in its completion queue.
 *
 * Context: Any context.
 * Return: Its error value.
 */
static inline u64 fi_cntr_readerr(struct fid_cntr *cntr)
{
	return cntr->ops->readerr(cntr);
}

/**
 * fi_cntr_add() - add to a counter's value
 * @cntr: the counter
 * @value: what to add
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
 * @value: what to add
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
 * fi_cntr_wait() - block until a counter has reached a value
 * @cntr: the counter
 * @threshold: the value
 * @timeout: milliseconds for the whole call; for ever if negative
 *
 * Nobody else has to look at the completion queues. fi_close() of the counter
 * is -FI_EBUSY meanwhile.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the value is at or past @threshold
 * * -FI_EAVAIL - the error value has changed since the call began
 * * -FI_ETIMEDOUT - the time is over
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
