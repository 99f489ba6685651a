// SPDX-License-Identifier: GPL-2.0
/*
 * An offload provider in a module of its own, "collective": barriers, broadcasts
 * and reductions for the datagram endpoints of an owner provider, which transfer its
 * messages (FI_PEER_TRANSFER). It has no addresses, completion queues or transport
 * of its own:
 *
 *	fi_import_fid(&ep->fid, &domain->fid, 0);
 *
 * attaches a domain of this provider to an owner's endpoint that was opened with
 * FI_COLLECTIVE. After that, fi_join_collective(), fi_barrier(), fi_broadcast() and
 * fi_allreduce() work on the endpoint. All members have to join groups in the same
 * order, and to call the collectives of a group in the same order.
 *
 * Each member executes a collective as a list of steps: it posts receives and sends,
 * waits for them, and reduces the received data.
 */

#include <linux/bitops.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "provider.h"
#include "reduction.h"

#define MAX_MEMBERS	4096U
#define MAX_BYTES	65536U
/* An allreduce passes the levels of the tree twice, with up to three steps for each level. */
#define MAX_STEPS	(6 * 13 + 2)

/* Delay before the next attempt to use a queue that was full */
#define RETRY_MS	1

/* Runs the steps of all operations. */
static struct workqueue_struct *coll_wq;

/*
 * Peers of an owner's objects. The owner's address vector stores the addresses, its
 * set the members, and its completion queue the entries.
 */
struct coll_av {
	struct fid_av		fid;
	struct fid_peer_av	*owner;
	struct domain		*domain;
	atomic_t		users;
};

struct coll_av_set {
	struct fid_av_set	fid;
	struct fid_peer_av_set	*owner;
	struct coll_av		*av;
};

struct coll_cq {
	struct fid_cq		fid;
	struct fid_peer_cq	*owner;
	struct domain		*domain;
	atomic_t		users;
};

struct coll_ep {
	struct fid_ep		fid;
	struct fid_ep		*owner_ep;	/* transfers the messages */
	struct domain		*domain;
	struct coll_av		*av;
	struct coll_cq		*cq;
	u32			next_group;	/* number of the group that is joined next */
	struct list_head	groups;
	spinlock_t		lock;		/* protects groups and next_group */
	atomic_t		users;
};

struct group {
	struct fid_mc		fid;
	struct list_head	list;
	struct coll_ep		*ep;
	struct list_head	operations;
	spinlock_t		lock;		/* protects operations and pending counts */
	wait_queue_head_t	idle;
	bool			closing;
	u32			number, rank;
	u32			count;		/* number of members */
	u32			next_operation;	/* number of the next operation */
	fi_addr_t		members[];
};

enum step_kind { STEP_RECV, STEP_SEND, STEP_WAIT, STEP_REDUCE, STEP_RESULT };

struct step {
	enum step_kind	kind;
	u32		peer;			/* rank */
	u32		round;
};

/* An outstanding collective */
struct operation {
	struct list_head	list;
	refcount_t		users;		/* the list, and a thread that cancels it */
	struct delayed_work	work;
	struct group		*group;
	void			*context;
	u64			flags;
	int			err;
	u32			number;
	int			next, count;	/* next step, and number of steps */
	int			pending;	/* outstanding transfers */
	bool			running, cancelled;
	size_t			elements, bytes;
	enum fi_datatype	datatype;
	enum fi_op		op;
	void			*data;		/* send buffer, and destination of the result */
	void			*operand;	/* receive buffer until the reduction is complete */
	struct step		steps[MAX_STEPS];
};

/* Steps */

static void add_step(struct operation *operation, enum step_kind kind, u32 peer, u32 round)
{
	operation->steps[operation->count++] = (struct step){ kind, peer, round };
}

/*
 * Dissemination algorithm: in round k, each member sends to the member 2^k ranks
 * after it, and waits for the member 2^k ranks before it.
 */
static void plan_barrier(struct operation *operation)
{
	struct group *group = operation->group;

	for (u32 round = 0; BIT(round) < group->count; round++) {
		u32 distance = BIT(round);

		add_step(operation, STEP_RECV,
			 (group->rank + group->count - distance) % group->count, round);
		add_step(operation, STEP_SEND, (group->rank + distance) % group->count, round);
		add_step(operation, STEP_WAIT, 0, 0);
	}
}

/*
 * Binomial tree: a member receives the data from its parent, and sends it to its
 * children, the most distant one first.
 */
static void plan_broadcast(struct operation *operation, u32 root, u32 round)
{
	struct group *group = operation->group;
	u32 count = group->count, me = (group->rank + count - root) % count;
	u32 mask = 1;

	while (mask < count && !(me & mask))
		mask <<= 1;
	if (mask < count) {
		add_step(operation, STEP_RECV, (me - mask + root) % count, round);
		add_step(operation, STEP_WAIT, 0, 0);
	}
	for (mask >>= 1; mask; mask >>= 1)
		if (me + mask < count)
			add_step(operation, STEP_SEND, (me + mask + root) % count, round);
	add_step(operation, STEP_WAIT, 0, 0);
}

/* Reduces along a binomial tree to rank 0, which broadcasts the result. */
static void plan_allreduce(struct operation *operation)
{
	struct group *group = operation->group;
	u32 count = group->count, me = group->rank;

	for (u32 mask = 1; mask < count; mask <<= 1) {
		if (me & mask) {
			add_step(operation, STEP_SEND, me - mask, 0);
			add_step(operation, STEP_WAIT, 0, 0);
			break;
		}
		if (me + mask < count) {
			add_step(operation, STEP_RECV, me + mask, 0);
			add_step(operation, STEP_WAIT, 0, 0);
			add_step(operation, STEP_REDUCE, 0, 0);
		}
	}
	add_step(operation, STEP_RESULT, 0, 0);
	plan_broadcast(operation, 0, 1);
}

/* Returns the tag of a message: the group, the operation, its round and the sender's rank. */
static u64 tag_of(struct operation *operation, u32 sender, u32 round)
{
	return (u64)(operation->group->number & 0xffff) << 48 |
	       (u64)(operation->number & 0xffff) << 32 | (u64)round << 16 | sender;
}

static int post_transfer(struct operation *operation, const struct step *step)
{
	struct group *group = operation->group;
	bool is_send = step->kind == STEP_SEND;
	/* Operands are received in a separate buffer. */
	void *data = !is_send && operation->operand ? operation->operand : operation->data;
	struct kvec iov = { .iov_base = data, .iov_len = operation->bytes };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov,
		.iov_count = operation->bytes ? 1 : 0,
		.addr = group->members[step->peer],
		.tag = tag_of(operation, is_send ? group->rank : step->peer, step->round),
		.context = operation,
	};

	return is_send ? fi_tsendmsg(group->ep->owner_ep, &msg, FI_PEER_TRANSFER) :
			 fi_trecvmsg(group->ep->owner_ep, &msg, FI_PEER_TRANSFER);
}

/* Writes the completion to the owner's queue. Returns -FI_EAGAIN if the queue is full. */
static ssize_t write_completion(struct operation *operation)
{
	struct fid_peer_cq *owner = operation->group->ep->cq->owner;
	struct fi_cq_err_entry error = {
		.op_context = operation->context,
		.flags = operation->flags,
		.err = operation->err,
		.prov_errno = operation->err,
		.src_addr = FI_ADDR_NOTAVAIL,
	};

	if (operation->err)
		return owner->owner_ops->writeerr(owner, &error);
	return owner->owner_ops->write(owner, operation->context, operation->flags,
				       operation->bytes, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

static void put_operation(struct operation *operation)
{
	if (!refcount_dec_and_test(&operation->users))
		return;
	kfree(operation->operand);
	kfree(operation);
}

/*
 * Runs steps until one has to wait. Returns true if the operation is complete.
 *
 * Context: the operation's work item. operation->running is true while it is queued
 * or runs, so that a completed transfer does not queue it a second time.
 */
static bool run_steps(struct operation *operation)
{
	struct group *group = operation->group;

	while (operation->next < operation->count && !READ_ONCE(operation->err)) {
		const struct step *step = &operation->steps[operation->next];
		int ret = 0;

		switch (step->kind) {
		case STEP_RECV:
		case STEP_SEND:
			spin_lock_irq(&group->lock);
			operation->pending++;
			spin_unlock_irq(&group->lock);
			ret = post_transfer(operation, step);
			if (!ret)
				break;
			spin_lock_irq(&group->lock);
			operation->pending--;
			spin_unlock_irq(&group->lock);
			if (ret == -FI_EAGAIN) {
				queue_delayed_work(coll_wq, &operation->work,
						   msecs_to_jiffies(RETRY_MS));
				return false;
			}
			WRITE_ONCE(operation->err, -ret);
			continue;
		case STEP_WAIT:
			spin_lock_irq(&group->lock);
			ret = operation->pending;
			if (ret)
				operation->running = false;
			spin_unlock_irq(&group->lock);
			/* The completion of the last transfer queues the work again. */
			if (ret)
				return false;
			break;
		case STEP_REDUCE:
			reduce(operation->datatype, operation->op, operation->data,
			       operation->operand, operation->elements);
			break;
		case STEP_RESULT:
			/* The next message received is the result. */
			kfree(operation->operand);
			operation->operand = NULL;
			break;
		}
		operation->next++;
	}
	/* After an error, do not wait for messages that may never be sent. */
	if (READ_ONCE(operation->err))
		fi_cancel(&group->ep->owner_ep->fid, operation);
	spin_lock_irq(&group->lock);
	if (operation->pending) {
		operation->running = false;
		spin_unlock_irq(&group->lock);
		return false;
	}
	spin_unlock_irq(&group->lock);
	/* While the group is being closed, do not retry: the consumer may have stopped reading. */
	if (write_completion(operation) == -FI_EAGAIN && !READ_ONCE(operation->cancelled)) {
		queue_delayed_work(coll_wq, &operation->work, msecs_to_jiffies(RETRY_MS));
		return false;
	}
	return true;
}

static void operation_work(struct work_struct *work)
{
	struct operation *operation = container_of(to_delayed_work(work), struct operation, work);
	struct group *group = operation->group;

	if (!run_steps(operation))
		return;
	spin_lock_irq(&group->lock);
	list_del(&operation->list);
	if (list_empty(&group->operations))
		wake_up(&group->idle);
	spin_unlock_irq(&group->lock);
	put_operation(operation);
}

/* Accounts for a completed transfer. The last one that the operation waits for queues its work. */
static void transfer_done(struct operation *operation, int err)
{
	struct group *group = operation->group;
	unsigned long irqs;
	bool is_last;

	spin_lock_irqsave(&group->lock, irqs);
	if (err && !operation->err)
		WRITE_ONCE(operation->err, err);
	is_last = !--operation->pending && !operation->running;
	if (is_last)
		operation->running = true;
	spin_unlock_irqrestore(&group->lock, irqs);
	if (is_last)
		queue_delayed_work(coll_wq, &operation->work, 0);
}

static ssize_t complete_transfer(struct fid_ep *ep, struct fi_cq_tagged_entry *buf,
				 fi_addr_t *src_addr)
{
	transfer_done(buf->op_context, 0);
	return 0;
}

static ssize_t fail_transfer(struct fid_ep *ep, struct fi_cq_err_entry *buf)
{
	transfer_done(buf->op_context, buf->err);
	return 0;
}

static struct fi_ops_transfer_peer transfer_ops = {
	.size = sizeof(transfer_ops),
	.complete = complete_transfer,
	.comperr = fail_transfer,
};

/* Collectives */

static struct group *find_group(struct fid_ep *ep, fi_addr_t addr)
{
	struct coll_ep *self = container_of(ep, struct coll_ep, fid);
	struct group *group, *found = NULL;
	unsigned long irqs;

	spin_lock_irqsave(&self->lock, irqs);
	list_for_each_entry(group, &self->groups, list)
		if (group->number == addr)
			found = group;
	spin_unlock_irqrestore(&self->lock, irqs);
	return found;
}

static struct operation *alloc_operation(struct group *group, void *data, size_t count,
					 enum fi_datatype datatype, void *context)
{
	struct operation *operation = kzalloc_obj(*operation, GFP_ATOMIC);

	if (!operation)
		return NULL;
	refcount_set(&operation->users, 1);
	operation->group = group;
	operation->context = context;
	operation->flags = FI_COLLECTIVE;
	operation->running = true;
	operation->data = data;
	operation->elements = count;
	operation->bytes = count * datatype_size(datatype);
	operation->datatype = datatype;
	INIT_DELAYED_WORK(&operation->work, operation_work);
	return operation;
}

/* Gives the operation a number, which is the same at all members, and queues its work. */
static ssize_t start_operation(struct operation *operation)
{
	struct group *group = operation->group;
	unsigned long irqs;
	bool closing;

	spin_lock_irqsave(&group->lock, irqs);
	closing = group->closing;
	if (!closing) {
		operation->number = group->next_operation++;
		list_add_tail(&operation->list, &group->operations);
	}
	spin_unlock_irqrestore(&group->lock, irqs);
	if (closing) {
		put_operation(operation);
		return -FI_EOPBADSTATE;
	}
	queue_delayed_work(coll_wq, &operation->work, 0);
	return 0;
}

static ssize_t coll_barrier(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
	struct group *group = find_group(ep, coll_addr);
	struct operation *operation;

	if (!group)
		return -FI_EINVAL;
	operation = alloc_operation(group, NULL, 0, FI_UINT8, context);
	if (!operation)
		return -FI_EAGAIN;
	plan_barrier(operation);
	return start_operation(operation);
}

static ssize_t coll_barrier2(struct fid_ep *ep, fi_addr_t coll_addr, u64 flags, void *context)
{
	return flags & ~FI_COMPLETION ? -FI_EBADFLAGS : coll_barrier(ep, coll_addr, context);
}

static ssize_t check_args(enum fi_datatype datatype, size_t count, u64 flags)
{
	if (flags & ~FI_COMPLETION)
		return -FI_EBADFLAGS;
	if (!datatype_size(datatype))
		return -FI_EOPNOTSUPP;
	return count > MAX_BYTES / datatype_size(datatype) ? -FI_EMSGSIZE : 0;
}

static ssize_t coll_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
			      fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
			      u64 flags, void *context)
{
	struct group *group = find_group(ep, coll_addr);
	struct operation *operation;
	ssize_t ret = check_args(datatype, count, flags);
	u32 root;

	if (ret)
		return ret;
	if (!group || (!buf && count))
		return -FI_EINVAL;
	for (root = 0; root < group->count && group->members[root] != root_addr; root++)
		;
	if (root == group->count)
		return -FI_EINVAL;
	operation = alloc_operation(group, buf, count, datatype, context);
	if (!operation)
		return -FI_EAGAIN;
	plan_broadcast(operation, root, 0);
	return start_operation(operation);
}

static ssize_t coll_allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			      void *result, void *result_desc, fi_addr_t coll_addr,
			      enum fi_datatype datatype, enum fi_op op, u64 flags, void *context)
{
	struct group *group = find_group(ep, coll_addr);
	struct operation *operation;
	ssize_t ret = check_args(datatype, count, flags);

	if (ret)
		return ret;
	if (!has_op(op))
		return -FI_EOPNOTSUPP;
	if (!group || ((!buf || !result) && count))
		return -FI_EINVAL;
	operation = alloc_operation(group, result, count, datatype, context);
	if (!operation)
		return -FI_EAGAIN;
	operation->op = op;
	operation->operand = kmalloc(max(operation->bytes, 1UL), GFP_ATOMIC);
	if (!operation->operand) {
		put_operation(operation);
		return -FI_EAGAIN;
	}
	memmove(result, buf, operation->bytes);
	plan_allreduce(operation);
	return start_operation(operation);
}

static struct fi_ops_collective collective_ops = {
	.size = sizeof(collective_ops),
	.barrier = coll_barrier,
	.broadcast = coll_broadcast,
	.allreduce = coll_allreduce,
	.barrier2 = coll_barrier2,
};

/* Groups */

/*
 * Blocks new operations, marks one operation as cancelled, and returns it, or NULL if
 * all are. The caller calls put_operation().
 */
static struct operation *cancel_next_operation(struct group *group)
{
	struct operation *operation, *found = NULL;

	spin_lock_irq(&group->lock);
	group->closing = true;
	list_for_each_entry(operation, &group->operations, list)
		if (!operation->cancelled) {
			WRITE_ONCE(operation->cancelled, true);
			if (!operation->err)
				WRITE_ONCE(operation->err, FI_ECANCELED);
			refcount_inc(&operation->users);
			found = operation;
			break;
		}
	spin_unlock_irq(&group->lock);
	return found;
}

static bool is_idle(struct group *group)
{
	bool idle;

	spin_lock_irq(&group->lock);
	idle = list_empty(&group->operations);
	spin_unlock_irq(&group->lock);
	return idle;
}

/*
 * Cancels outstanding operations, and waits for sends that cannot be cancelled. An
 * operation completes with FI_ECANCELED, or not at all if the owner's queue is full.
 */
static int close_group(struct fid *fid)
{
	struct group *group = container_of(fid, struct group, fid.fid);
	struct coll_ep *ep = group->ep;
	struct operation *operation;

	/* An operation that has completed meanwhile has no transfer to cancel. */
	while ((operation = cancel_next_operation(group))) {
		fi_cancel(&ep->owner_ep->fid, operation);
		put_operation(operation);
	}
	wait_event(group->idle, is_idle(group));
	spin_lock_irq(&ep->lock);
	list_del(&group->list);
	spin_unlock_irq(&ep->lock);
	atomic_dec(&ep->users);
	kfree(group);
	return 0;
}

FID_OPS(group_fid_ops, close_group);

/* Joins without messages: all members have the same address vector set, in the same order. */
static int join_group(struct fid_ep *fid, const void *addr, u64 flags, struct fid_mc **mc,
		      void *context)
{
	struct coll_ep *ep = container_of(fid, struct coll_ep, fid);
	const struct fi_collective_addr *coll = addr;
	struct coll_av_set *av_set;
	struct group *group;
	fi_addr_t self;
	size_t count = 0;
	int ret;

	if (!(flags & FI_COLLECTIVE) || !coll || !coll->set || !mc || !ep->av)
		return -FI_EINVAL;
	av_set = container_of(coll->set, struct coll_av_set, fid);
	ret = av_set->owner->owner_ops->members(av_set->owner, NULL, &count);
	if (ret && ret != -FI_ETOOSMALL)
		return ret;
	if (!count || count > MAX_MEMBERS)
		return -FI_EINVAL;
	group = kzalloc(struct_size(group, members, count), GFP_KERNEL);
	if (!group)
		return -FI_ENOMEM;
	group->count = count;
	ret = av_set->owner->owner_ops->members(av_set->owner, group->members, &count);
	if (ret || count != group->count) {
		kfree(group);
		return ret ?: -FI_EAGAIN;
	}
	self = ep->av->owner->owner_ops->ep_addr(ep->av->owner, ep->owner_ep);
	while (group->rank < count && group->members[group->rank] != self)
		group->rank++;
	if (group->rank == count) {
		kfree(group);
		return -FI_EINVAL;
	}
	group->ep = ep;
	spin_lock_init(&group->lock);
	init_waitqueue_head(&group->idle);
	INIT_LIST_HEAD(&group->operations);
	spin_lock_irq(&ep->lock);
	group->number = ep->next_group++;
	list_add_tail(&group->list, &ep->groups);
	spin_unlock_irq(&ep->lock);
	group->fid.fid.fclass = FI_CLASS_MC;
	group->fid.fid.context = context;
	group->fid.fid.ops = &group_fid_ops;
	group->fid.fi_addr = group->number;
	atomic_inc(&ep->users);
	*mc = &group->fid;
	return 0;
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof(cm_ops),
	.join = join_group,
};

/* Address vectors, sets and completion queues */

static int close_av_set(struct fid *fid)
{
	struct coll_av_set *av_set = container_of(fid, struct coll_av_set, fid.fid);

	atomic_dec(&av_set->av->users);
	kfree(av_set);
	return 0;
}

FID_OPS(av_set_fid_ops, close_av_set);

static int open_av_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **out,
		       void *context)
{
	struct fi_peer_av_set_context *peer = context;
	struct coll_av_set *av_set;

	if (!attr || !out || !(attr->flags & FI_PEER_AV) || !peer || peer->size < sizeof(*peer) ||
	    !peer->av_set)
		return -FI_EINVAL;
	av_set = kzalloc_obj(*av_set);
	if (!av_set)
		return -FI_ENOMEM;
	av_set->fid.fid.fclass = FI_CLASS_AV_SET;
	av_set->fid.fid.context = context;
	av_set->fid.fid.ops = &av_set_fid_ops;
	av_set->owner = peer->av_set;
	av_set->av = container_of(fid, struct coll_av, fid);
	atomic_inc(&av_set->av->users);
	*out = &av_set->fid;
	return 0;
}

static int close_av(struct fid *fid)
{
	struct coll_av *av = container_of(fid, struct coll_av, fid.fid);

	if (atomic_read(&av->users))
		return -FI_EBUSY;
	atomic_dec(&av->domain->users);
	kfree(av);
	return 0;
}

FID_OPS(av_fid_ops, close_av);

static struct fi_ops_av av_ops = {
	.size = sizeof(av_ops),
	.av_set = open_av_set,
};

static int open_av(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out,
		   void *context)
{
	struct fi_peer_av_context *peer = context;
	struct coll_av *av;

	if (!attr || !out || !(attr->flags & FI_PEER) || !peer || peer->size < sizeof(*peer) ||
	    !peer->av)
		return -FI_EINVAL;
	av = kzalloc_obj(*av);
	if (!av)
		return -FI_ENOMEM;
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = &av_fid_ops;
	av->fid.ops = &av_ops;
	av->owner = peer->av;
	av->domain = container_of(fid, struct domain, fid);
	atomic_inc(&av->domain->users);
	*out = &av->fid;
	return 0;
}

static int close_cq(struct fid *fid)
{
	struct coll_cq *cq = container_of(fid, struct coll_cq, fid.fid);

	if (atomic_read(&cq->users))
		return -FI_EBUSY;
	atomic_dec(&cq->domain->users);
	kfree(cq);
	return 0;
}

FID_OPS(cq_fid_ops, close_cq);

static int open_cq(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out,
		   void *context)
{
	struct fi_peer_cq_context *peer = context;
	struct coll_cq *cq;

	if (!attr || !out || !(attr->flags & FI_PEER) || !peer || peer->size < sizeof(*peer) ||
	    !peer->cq)
		return -FI_EINVAL;
	cq = kzalloc_obj(*cq);
	if (!cq)
		return -FI_ENOMEM;
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fid_ops;
	cq->owner = peer->cq;
	cq->domain = container_of(fid, struct domain, fid);
	atomic_inc(&cq->domain->users);
	*out = &cq->fid;
	return 0;
}

/* Endpoints */

static int close_endpoint(struct fid *fid)
{
	struct coll_ep *ep = container_of(fid, struct coll_ep, fid.fid);

	if (atomic_read(&ep->users))
		return -FI_EBUSY;
	if (ep->cq)
		atomic_dec(&ep->cq->users);
	if (ep->av)
		atomic_dec(&ep->av->users);
	atomic_dec(&ep->domain->users);
	kfree(ep);
	return 0;
}

static int bind_endpoint(struct fid *fid, struct fid *bfid, u64 flags)
{
	struct coll_ep *ep = container_of(fid, struct coll_ep, fid.fid);

	if (bfid->ops == &cq_fid_ops && !ep->cq) {
		ep->cq = container_of(bfid, struct coll_cq, fid.fid);
		atomic_inc(&ep->cq->users);
		return 0;
	}
	if (bfid->ops == &av_fid_ops && !ep->av) {
		ep->av = container_of(bfid, struct coll_av, fid.fid);
		atomic_inc(&ep->av->users);
		return 0;
	}
	return -FI_EINVAL;
}

static int control_endpoint(struct fid *fid, int command, void *arg)
{
	struct coll_ep *ep = container_of(fid, struct coll_ep, fid.fid);

	if (command != FI_ENABLE)
		return -FI_ENOSYS;
	return ep->cq && ep->av ? 0 : -FI_EOPBADSTATE;
}

static struct fi_ops endpoint_fid_ops = {
	.size = sizeof(endpoint_fid_ops),
	.close = close_endpoint,
	.bind = bind_endpoint,
	.control = control_endpoint,
	.ops_open = no_ops_open,
};

static int open_endpoint(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out,
			 u64 flags, void *context)
{
	struct fi_peer_transfer_context *peer = context;
	struct coll_ep *ep;

	if (flags != FI_PEER_TRANSFER || !out || !peer || peer->size < sizeof(*peer) || !peer->ep)
		return -FI_EINVAL;
	ep = kzalloc_obj(*ep);
	if (!ep)
		return -FI_ENOMEM;
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &endpoint_fid_ops;
	ep->fid.cm = &cm_ops;
	ep->fid.collective = &collective_ops;
	ep->owner_ep = peer->ep;
	INIT_LIST_HEAD(&ep->groups);
	spin_lock_init(&ep->lock);
	ep->domain = container_of(fid, struct domain, fid);
	peer->peer_ops = &transfer_ops;
	atomic_inc(&ep->domain->users);
	*out = &ep->fid;
	return 0;
}

/* Domain operations and registration */

static struct fi_ops_domain domain_ops = {
	.size = sizeof(domain_ops),
	.av_open = open_av,
	.cq_open = open_cq,
	.endpoint2 = open_endpoint,
};

/* Requires the mode FI_PEER_TRANSFER: an owner has to transfer the messages. */
static int getinfo(u32 version, const char *node, const char *service, u64 flags,
		   const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *found;

	if (!hints || !(hints->mode & FI_PEER_TRANSFER) || hints->caps & ~FI_COLLECTIVE)
		return -FI_ENODATA;
	found = fi_allocinfo();
	if (!found)
		return -FI_ENOMEM;
	found->caps = FI_COLLECTIVE;
	found->mode = FI_PEER_TRANSFER;
	found->ep_attr->type = FI_EP_RDM;
	found->ep_attr->max_msg_size = MAX_BYTES;
	found->domain_attr->threading = FI_THREAD_SAFE;
	*info = found;
	return 0;
}

static struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	.fi_version = FI_VERSION(1, 17),
	.name = "collective",
	.getinfo = getinfo,
	.fabric = open_fabric,
};

static int __init collective_init(void)
{
	int ret;

	coll_wq = alloc_workqueue("collective", WQ_UNBOUND, 0);
	if (!coll_wq)
		return -ENOMEM;
	ret = fi_register_provider(&provider);
	if (ret)
		destroy_workqueue(coll_wq);
	return ret;
}

static void __exit collective_exit(void)
{
	/* The module is not unloaded while a fabric is open. */
	fi_unregister_provider(&provider);
	destroy_workqueue(coll_wq);
}

module_init(collective_init);
module_exit(collective_exit);
MODULE_DESCRIPTION("kOFI sample: collectives for the endpoints of an owner provider");
MODULE_LICENSE("GPL");
