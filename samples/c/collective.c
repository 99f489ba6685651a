// SPDX-License-Identifier: GPL-2.0
/*
 * An offload provider of another module, "collective": it does barriers, broadcasts
 * and reductions for the datagram endpoints of another provider, with messages that
 * these carry for it (FI_PEER_TRANSFER). It has no addresses, queues or transport of
 * its own:
 *
 *	fi_import_fid(&ep->fid, &domain->fid, 0);
 *
 * pairs an endpoint, opened for FI_COLLECTIVE, with a domain of this provider. From
 * then on fi_join_collective(), fi_barrier(), fi_broadcast() and fi_allreduce() of
 * that endpoint work. The members of a group have joined their groups in the same
 * order, and call its collectives in the same order.
 *
 * A collective is a list of steps, which each member goes through by itself: it
 * posts what it will receive, sends, waits for both, and reduces what has come.
 */

#include <linux/bitops.h>
#include <linux/log2.h>
#include <linux/module.h>
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

#define MOST_MEMBERS	4096U
#define MOST_BYTES	65536U
/* Two rounds over all members, and each step of them three. */
#define MOST_STEPS	(6 * 13 + 2)

/* How long somebody without room is left alone. */
#define PACE_MS		1

/* Where collectives go on. */
static struct workqueue_struct *works;

/* Addresses, members and queues are the owner's. */
struct vector {
	struct fid_av		fid;
	struct fid_peer_av	*owner;
	struct domain		*domain;
	atomic_t		users;
};

struct set {
	struct fid_av_set	fid;
	struct fid_peer_av_set	*owner;
	struct vector		*vector;
};

struct queue {
	struct fid_cq		fid;
	struct fid_peer_cq	*owner;
	struct domain		*domain;
	atomic_t		users;
};

struct endpoint {
	struct fid_ep		fid;
	struct fid_ep		*carrier;	/* of the owner's, which sends and receives */
	struct domain		*domain;
	struct vector		*vector;
	struct queue		*queue;
	u32			joined;		/* groups, ever */
	struct list_head	groups;
	spinlock_t		lock;		/* of the list */
	atomic_t		users;
};

struct group {
	struct fid_mc		fid;
	struct list_head	list;
	struct endpoint		*ep;
	struct list_head	operations;
	spinlock_t		lock;
	wait_queue_head_t	idle;
	bool			closing;
	u32			number, rank;
	u32			count;		/* of members */
	u32			begun;		/* collectives */
	fi_addr_t		members[];
};

enum kind { STEP_RECV, STEP_SEND, STEP_WAIT, STEP_REDUCE, STEP_RESULT };

struct step {
	enum kind	kind;
	u32		peer;			/* its rank */
	u32		round;
};

/* A collective that is under way. */
struct operation {
	struct list_head	list;
	struct delayed_work	work;
	struct group		*group;
	void			*context;
	u64			flags;
	int			err;
	u32			number;
	int			at, count;	/* of steps */
	int			pending;	/* transfers; the group's lock guards it */
	bool			running, cancelled;
	size_t			elements, bytes;
	enum fi_datatype	datatype;
	enum fi_op		op;
	void			*data;		/* what is sent, and where it is received or reduced */
	void			*room;		/* for what is reduced with that */
	struct step		steps[MOST_STEPS];
};

/* Steps */

static void add(struct operation *operation, enum kind kind, u32 peer, u32 round)
{
	operation->steps[operation->count++] = (struct step){ kind, peer, round };
}

/* After the kth round everybody has heard of 2^k others; nobody waits for more than it needs. */
static void plan_barrier(struct operation *operation)
{
	struct group *group = operation->group;

	for (u32 round = 0; BIT(round) < group->count; round++) {
		u32 far = BIT(round);

		add(operation, STEP_RECV, (group->rank + group->count - far) % group->count, round);
		add(operation, STEP_SEND, (group->rank + far) % group->count, round);
		add(operation, STEP_WAIT, 0, 0);
	}
}

/* A binomial tree: who has the data passes them on to those that are half as far away, and so on. */
static void plan_broadcast(struct operation *operation, u32 root, u32 round)
{
	struct group *group = operation->group;
	u32 count = group->count, me = (group->rank + count - root) % count;
	u32 mask = 1;

	while (mask < count && !(me & mask))
		mask <<= 1;
	if (mask < count) {
		add(operation, STEP_RECV, (me - mask + root) % count, round);
		add(operation, STEP_WAIT, 0, 0);
	}
	for (mask >>= 1; mask; mask >>= 1)
		if (me + mask < count)
			add(operation, STEP_SEND, (me + mask + root) % count, round);
	add(operation, STEP_WAIT, 0, 0);
}

/* The same tree the other way round, to the first member, which broadcasts the result. */
static void plan_allreduce(struct operation *operation)
{
	struct group *group = operation->group;
	u32 count = group->count, me = group->rank;

	for (u32 mask = 1; mask < count; mask <<= 1) {
		if (me & mask) {
			add(operation, STEP_SEND, me - mask, 0);
			add(operation, STEP_WAIT, 0, 0);
			break;
		}
		if (me + mask < count) {
			add(operation, STEP_RECV, me + mask, 0);
			add(operation, STEP_WAIT, 0, 0);
			add(operation, STEP_REDUCE, 0, 0);
		}
	}
	add(operation, STEP_RESULT, 0, 0);
	plan_broadcast(operation, 0, 1);
}

/* Who sends what: the group, the collective in it, its round and the sender. */
static u64 tag_of(struct operation *operation, u32 sender, u32 round)
{
	return (u64)(operation->group->number & 0xffff) << 48 |
	       (u64)(operation->number & 0xffff) << 32 | (u64)round << 16 | sender;
}

static int transfer(struct operation *operation, const struct step *step)
{
	struct group *group = operation->group;
	bool is_send = step->kind == STEP_SEND;
	/* What is reduced comes to a place of its own. */
	void *data = !is_send && operation->room ? operation->room : operation->data;
	struct kvec iov = { .iov_base = data, .iov_len = operation->bytes };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov,
		.iov_count = operation->bytes ? 1 : 0,
		.addr = group->members[step->peer],
		.tag = tag_of(operation, is_send ? group->rank : step->peer, step->round),
		.context = operation,
	};

	return is_send ? fi_tsendmsg(group->ep->carrier, &msg, FI_PEER_TRANSFER) :
			 fi_trecvmsg(group->ep->carrier, &msg, FI_PEER_TRANSFER);
}

/* Tells the owner's queue; -FI_EAGAIN where that has no room. */
static ssize_t tell(struct operation *operation)
{
	struct fid_peer_cq *owner = operation->group->ep->queue->owner;
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

static void free_operation(struct operation *operation)
{
	kfree(operation->room);
	kfree(operation);
}

/* Does the next steps that can be done: true if it is over. Nobody else is at it. */
static bool go_on(struct operation *operation)
{
	struct group *group = operation->group;

	while (operation->at < operation->count && !READ_ONCE(operation->err)) {
		const struct step *step = &operation->steps[operation->at];
		int ret = 0;

		switch (step->kind) {
		case STEP_RECV:
		case STEP_SEND:
			spin_lock_irq(&group->lock);
			operation->pending++;
			spin_unlock_irq(&group->lock);
			ret = transfer(operation, step);
			if (!ret)
				break;
			spin_lock_irq(&group->lock);
			operation->pending--;
			spin_unlock_irq(&group->lock);
			if (ret == -FI_EAGAIN) {
				queue_delayed_work(works, &operation->work,
						   msecs_to_jiffies(PACE_MS));
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
			/* Whoever completes the last one goes on. */
			if (ret)
				return false;
			break;
		case STEP_REDUCE:
			reduce(operation->datatype, operation->op, operation->data,
			       operation->room, operation->elements);
			break;
		case STEP_RESULT:
			/* From here on what comes is the result. */
			kfree(operation->room);
			operation->room = NULL;
			break;
		}
		operation->at++;
	}
	/* What others do not send any more is not waited for. */
	if (READ_ONCE(operation->err))
		fi_cancel(&group->ep->carrier->fid, operation);
	spin_lock_irq(&group->lock);
	if (operation->pending) {
		operation->running = false;
		spin_unlock_irq(&group->lock);
		return false;
	}
	spin_unlock_irq(&group->lock);
	/* Who closes the group may not read any more. */
	if (tell(operation) == -FI_EAGAIN && !READ_ONCE(operation->cancelled)) {
		queue_delayed_work(works, &operation->work, msecs_to_jiffies(PACE_MS));
		return false;
	}
	return true;
}

static void run(struct work_struct *work)
{
	struct operation *operation = container_of(to_delayed_work(work), struct operation, work);
	struct group *group = operation->group;

	if (!go_on(operation))
		return;
	spin_lock_irq(&group->lock);
	list_del(&operation->list);
	if (list_empty(&group->operations))
		wake_up(&group->idle);
	spin_unlock_irq(&group->lock);
	free_operation(operation);
}

/* A transfer is over: the last one that a step waits for has the operation go on. */
static void over(struct operation *operation, int err)
{
	struct group *group = operation->group;
	unsigned long irqs;
	bool goes_on;

	spin_lock_irqsave(&group->lock, irqs);
	if (err && !operation->err)
		WRITE_ONCE(operation->err, err);
	goes_on = !--operation->pending && !operation->running;
	if (goes_on)
		operation->running = true;
	spin_unlock_irqrestore(&group->lock, irqs);
	if (goes_on)
		queue_delayed_work(works, &operation->work, 0);
}

static ssize_t complete_transfer(struct fid_ep *ep, struct fi_cq_tagged_entry *buf,
				 fi_addr_t *src_addr)
{
	over(buf->op_context, 0);
	return 0;
}

static ssize_t fail_transfer(struct fid_ep *ep, struct fi_cq_err_entry *buf)
{
	over(buf->op_context, buf->err);
	return 0;
}

static struct fi_ops_transfer_peer transfer_ops = {
	.size = sizeof(transfer_ops),
	.complete = complete_transfer,
	.comperr = fail_transfer,
};

/* Collectives */

static struct group *group_of(struct fid_ep *ep, fi_addr_t addr)
{
	struct endpoint *self = container_of(ep, struct endpoint, fid);
	struct group *group, *found = NULL;
	unsigned long irqs;

	spin_lock_irqsave(&self->lock, irqs);
	list_for_each_entry(group, &self->groups, list)
		if (group->number == addr)
			found = group;
	spin_unlock_irqrestore(&self->lock, irqs);
	return found;
}

static struct operation *begin(struct group *group, void *data, size_t count,
			       enum fi_datatype datatype, void *context)
{
	struct operation *operation = kzalloc_obj(*operation, GFP_ATOMIC);

	if (!operation)
		return NULL;
	operation->group = group;
	operation->context = context;
	operation->flags = FI_COLLECTIVE;
	operation->running = true;
	operation->data = data;
	operation->elements = count;
	operation->bytes = count * width(datatype);
	operation->datatype = datatype;
	INIT_DELAYED_WORK(&operation->work, run);
	return operation;
}

/* It gets its number, which is the same for all members. */
static ssize_t start(struct operation *operation)
{
	struct group *group = operation->group;
	unsigned long irqs;
	bool closing;

	spin_lock_irqsave(&group->lock, irqs);
	closing = group->closing;
	if (!closing) {
		operation->number = group->begun++;
		list_add_tail(&operation->list, &group->operations);
	}
	spin_unlock_irqrestore(&group->lock, irqs);
	if (closing) {
		free_operation(operation);
		return -FI_EOPBADSTATE;
	}
	queue_delayed_work(works, &operation->work, 0);
	return 0;
}

static ssize_t barrier_all(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
	struct group *group = group_of(ep, coll_addr);
	struct operation *operation;

	if (!group)
		return -FI_EINVAL;
	operation = begin(group, NULL, 0, FI_UINT8, context);
	if (!operation)
		return -FI_EAGAIN;
	plan_barrier(operation);
	return start(operation);
}

static ssize_t barrier2(struct fid_ep *ep, fi_addr_t coll_addr, u64 flags, void *context)
{
	return flags & ~FI_COMPLETION ? -FI_EBADFLAGS : barrier_all(ep, coll_addr, context);
}

static ssize_t check(enum fi_datatype datatype, size_t count, u64 flags)
{
	if (flags & ~FI_COMPLETION)
		return -FI_EBADFLAGS;
	if (!width(datatype))
		return -FI_EOPNOTSUPP;
	return count > MOST_BYTES / width(datatype) ? -FI_EMSGSIZE : 0;
}

static ssize_t broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
			 fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
			 u64 flags, void *context)
{
	struct group *group = group_of(ep, coll_addr);
	struct operation *operation;
	ssize_t ret = check(datatype, count, flags);
	u32 root;

	if (ret)
		return ret;
	if (!group || (!buf && count))
		return -FI_EINVAL;
	for (root = 0; root < group->count && group->members[root] != root_addr; root++)
		;
	if (root == group->count)
		return -FI_EINVAL;
	operation = begin(group, buf, count, datatype, context);
	if (!operation)
		return -FI_EAGAIN;
	plan_broadcast(operation, root, 0);
	return start(operation);
}

static ssize_t allreduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			 void *result, void *result_desc, fi_addr_t coll_addr,
			 enum fi_datatype datatype, enum fi_op op, u64 flags, void *context)
{
	struct group *group = group_of(ep, coll_addr);
	struct operation *operation;
	ssize_t ret = check(datatype, count, flags);

	if (ret)
		return ret;
	if (!has_op(op))
		return -FI_EOPNOTSUPP;
	if (!group || ((!buf || !result) && count))
		return -FI_EINVAL;
	operation = begin(group, result, count, datatype, context);
	if (!operation)
		return -FI_EAGAIN;
	operation->op = op;
	operation->room = kmalloc(max(operation->bytes, 1UL), GFP_ATOMIC);
	if (!operation->room) {
		kfree(operation);
		return -FI_EAGAIN;
	}
	memmove(result, buf, operation->bytes);
	plan_allreduce(operation);
	return start(operation);
}

static struct fi_ops_collective collective_ops = {
	.size = sizeof(collective_ops),
	.barrier = barrier_all,
	.broadcast = broadcast,
	.allreduce = allreduce,
	.barrier2 = barrier2,
};

/* Groups */

/* One that is under way and has not been told to end, which it is now. */
static struct operation *cancel_next(struct group *group)
{
	struct operation *operation, *found = NULL;

	spin_lock_irq(&group->lock);
	group->closing = true;
	list_for_each_entry(operation, &group->operations, list)
		if (!operation->cancelled) {
			WRITE_ONCE(operation->cancelled, true);
			if (!operation->err)
				WRITE_ONCE(operation->err, FI_ECANCELED);
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

/* What is under way ends as FI_ECANCELED, if there is room to tell that; what has been sent is waited for. */
static int close_group(struct fid *fid)
{
	struct group *group = container_of(fid, struct group, fid.fid);
	struct endpoint *ep = group->ep;
	struct operation *operation;

	/* It may be over by now: then nothing has that context. */
	while ((operation = cancel_next(group)))
		fi_cancel(&ep->carrier->fid, operation);
	wait_event(group->idle, is_idle(group));
	spin_lock_irq(&ep->lock);
	list_del(&group->list);
	spin_unlock_irq(&ep->lock);
	atomic_dec(&ep->users);
	kfree(group);
	return 0;
}

FID_OPS(group_fid_ops, close_group);

/* Nobody is asked: who is in it, and in which order, all members know. */
static int join(struct fid_ep *fid, const void *addr, u64 flags, struct fid_mc **mc, void *context)
{
	struct endpoint *ep = container_of(fid, struct endpoint, fid);
	const struct fi_collective_addr *coll = addr;
	struct set *set;
	struct group *group;
	fi_addr_t self;
	size_t count = 0;
	int ret;

	if (!(flags & FI_COLLECTIVE) || !coll || !coll->set || !mc || !ep->vector)
		return -FI_EINVAL;
	set = container_of(coll->set, struct set, fid);
	ret = set->owner->owner_ops->members(set->owner, NULL, &count);
	if (ret && ret != -FI_ETOOSMALL)
		return ret;
	if (!count || count > MOST_MEMBERS)
		return -FI_EINVAL;
	group = kzalloc(struct_size(group, members, count), GFP_KERNEL);
	if (!group)
		return -FI_ENOMEM;
	group->count = count;
	ret = set->owner->owner_ops->members(set->owner, group->members, &count);
	if (ret || count != group->count) {
		kfree(group);
		return ret ?: -FI_EAGAIN;
	}
	self = ep->vector->owner->owner_ops->ep_addr(ep->vector->owner, ep->carrier);
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
	group->number = ep->joined++;
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
	.join = join,
};

/* Vectors, sets and queues */

static int close_set(struct fid *fid)
{
	struct set *set = container_of(fid, struct set, fid.fid);

	atomic_dec(&set->vector->users);
	kfree(set);
	return 0;
}

FID_OPS(set_fid_ops, close_set);

static int open_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **out,
		    void *context)
{
	struct fi_peer_av_set_context *peer = context;
	struct set *set;

	if (!attr || !out || !(attr->flags & FI_PEER_AV) || !peer || peer->size < sizeof(*peer) ||
	    !peer->av_set)
		return -FI_EINVAL;
	set = kzalloc_obj(*set);
	if (!set)
		return -FI_ENOMEM;
	set->fid.fid.fclass = FI_CLASS_AV_SET;
	set->fid.fid.context = context;
	set->fid.fid.ops = &set_fid_ops;
	set->owner = peer->av_set;
	set->vector = container_of(fid, struct vector, fid);
	atomic_inc(&set->vector->users);
	*out = &set->fid;
	return 0;
}

static int close_vector(struct fid *fid)
{
	struct vector *vector = container_of(fid, struct vector, fid.fid);

	if (atomic_read(&vector->users))
		return -FI_EBUSY;
	atomic_dec(&vector->domain->users);
	kfree(vector);
	return 0;
}

FID_OPS(vector_fid_ops, close_vector);

static struct fi_ops_av av_ops = {
	.size = sizeof(av_ops),
	.av_set = open_set,
};

static int open_vector(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out,
		       void *context)
{
	struct fi_peer_av_context *peer = context;
	struct vector *vector;

	if (!attr || !out || !(attr->flags & FI_PEER) || !peer || peer->size < sizeof(*peer) ||
	    !peer->av)
		return -FI_EINVAL;
	vector = kzalloc_obj(*vector);
	if (!vector)
		return -FI_ENOMEM;
	vector->fid.fid.fclass = FI_CLASS_AV;
	vector->fid.fid.context = context;
	vector->fid.fid.ops = &vector_fid_ops;
	vector->fid.ops = &av_ops;
	vector->owner = peer->av;
	vector->domain = container_of(fid, struct domain, fid);
	atomic_inc(&vector->domain->users);
	*out = &vector->fid;
	return 0;
}

static int close_queue(struct fid *fid)
{
	struct queue *queue = container_of(fid, struct queue, fid.fid);

	if (atomic_read(&queue->users))
		return -FI_EBUSY;
	atomic_dec(&queue->domain->users);
	kfree(queue);
	return 0;
}

FID_OPS(queue_fid_ops, close_queue);

static int open_queue(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out,
		      void *context)
{
	struct fi_peer_cq_context *peer = context;
	struct queue *queue;

	if (!attr || !out || !(attr->flags & FI_PEER) || !peer || peer->size < sizeof(*peer) ||
	    !peer->cq)
		return -FI_EINVAL;
	queue = kzalloc_obj(*queue);
	if (!queue)
		return -FI_ENOMEM;
	queue->fid.fid.fclass = FI_CLASS_CQ;
	queue->fid.fid.context = context;
	queue->fid.fid.ops = &queue_fid_ops;
	queue->owner = peer->cq;
	queue->domain = container_of(fid, struct domain, fid);
	atomic_inc(&queue->domain->users);
	*out = &queue->fid;
	return 0;
}

/* Endpoints */

static int close_endpoint(struct fid *fid)
{
	struct endpoint *ep = container_of(fid, struct endpoint, fid.fid);

	if (atomic_read(&ep->users))
		return -FI_EBUSY;
	if (ep->queue)
		atomic_dec(&ep->queue->users);
	if (ep->vector)
		atomic_dec(&ep->vector->users);
	atomic_dec(&ep->domain->users);
	kfree(ep);
	return 0;
}

static int bind_endpoint(struct fid *fid, struct fid *bfid, u64 flags)
{
	struct endpoint *ep = container_of(fid, struct endpoint, fid.fid);

	if (bfid->ops == &queue_fid_ops && !ep->queue) {
		ep->queue = container_of(bfid, struct queue, fid.fid);
		atomic_inc(&ep->queue->users);
		return 0;
	}
	if (bfid->ops == &vector_fid_ops && !ep->vector) {
		ep->vector = container_of(bfid, struct vector, fid.fid);
		atomic_inc(&ep->vector->users);
		return 0;
	}
	return -FI_EINVAL;
}

static int control_endpoint(struct fid *fid, int command, void *arg)
{
	struct endpoint *ep = container_of(fid, struct endpoint, fid.fid);

	if (command != FI_ENABLE)
		return -FI_ENOSYS;
	return ep->queue && ep->vector ? 0 : -FI_EOPBADSTATE;
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
	struct endpoint *ep;

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
	ep->carrier = peer->ep;
	INIT_LIST_HEAD(&ep->groups);
	spin_lock_init(&ep->lock);
	ep->domain = container_of(fid, struct domain, fid);
	peer->peer_ops = &transfer_ops;
	atomic_inc(&ep->domain->users);
	*out = &ep->fid;
	return 0;
}

/* What it is found by, and opens */

static struct fi_ops_domain domain_ops = {
	.size = sizeof(domain_ops),
	.av_open = open_vector,
	.cq_open = open_queue,
	.endpoint2 = open_endpoint,
};

/* It is of use to who looks for it: it needs somebody to carry its transfers. */
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
	found->ep_attr->max_msg_size = MOST_BYTES;
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

	works = alloc_workqueue("collective", WQ_UNBOUND, 0);
	if (!works)
		return -ENOMEM;
	ret = fi_register_provider(&provider);
	if (ret)
		destroy_workqueue(works);
	return ret;
}

static void __exit collective_exit(void)
{
	/* The module is not unloaded while a fabric is open. */
	fi_unregister_provider(&provider);
	destroy_workqueue(works);
}

module_init(collective_init);
module_exit(collective_exit);
MODULE_DESCRIPTION("Collectives for the endpoints of another provider");
MODULE_LICENSE("GPL");
