// SPDX-License-Identifier: GPL-2.0
/*
 * A provider of another module, "mailbox": endpoints of this kernel that copy
 * messages to each other. It has neither a completion queue nor receives of its
 * own, but uses those of whoever opens it, by the peer interface of rdma/fi_ext.h:
 *
 *	fi_cq_open() with FI_PEER	where its endpoints' operations complete
 *	fi_srx_context() with FI_PEER	whose receives their messages take
 *
 * Both are exported by an owner, such as kOFI's datagrams (fi_export_fid()), whose
 * consumer then receives from mailboxes and from the network alike. An address is
 * the number of a mailbox, which fi_getname() tells.
 */

#include <linux/list.h>
#include <linux/module.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "provider.h"

/* Longer messages are no matter of a copy that another one waits for. */
#define MOST_BYTES	65536U

/* How long a queue without room is left alone. */
#define PACE_MS		1

/* Mailboxes, and their letters. */
static DEFINE_SPINLOCK(lock);
static LIST_HEAD(boxes);
static u32 numbers;

/* What has come of an operation, and waits until the owner's queue has room. */
struct outcome {
	struct list_head	list;
	void			*context;
	u64			flags;
	size_t			len;
	int			err;
};

struct queue {
	struct fid_cq		fid;
	struct fid_peer_cq	*owner;
	struct domain		*domain;
	atomic_t		users;
	spinlock_t		lock;
	struct list_head	outcomes;
	struct delayed_work	again;
};

struct receives {
	struct fid_ep		fid;
	struct fid_peer_srx	*owner;
	struct domain		*domain;
	atomic_t		users;
};

struct mailbox {
	struct fid_ep		fid;
	struct list_head	list;
	struct list_head	letters;
	u32			number;
	bool			open;
	struct domain		*domain;
	struct queue		*queue;
	struct receives		*receives;
	refcount_t		refs;		/* its own, and those who deliver */
	struct completion	gone;
};

/* A message that waits for a receive. */
struct letter {
	struct list_head	list;
	struct mailbox		*to;
	struct fi_peer_rx_entry	*entry;
	struct outcome		*outcome;	/* room to tell of it */
	size_t			len;
	u8			bytes[];
};

/* Completions */

static ssize_t tell(struct queue *queue, const struct outcome *outcome)
{
	struct fi_ops_cq_owner *ops = queue->owner->owner_ops;
	struct fi_cq_err_entry error = {
		.op_context = outcome->context,
		.flags = outcome->flags,
		.len = outcome->len,
		.err = outcome->err,
		.prov_errno = outcome->err,
		.src_addr = FI_ADDR_NOTAVAIL,
	};

	if (outcome->err)
		return ops->writeerr(queue->owner, &error);
	return ops->write(queue->owner, outcome->context, outcome->flags, outcome->len, NULL, 0, 0,
			  FI_ADDR_NOTAVAIL);
}

/* Tells what waits, in order. Whoever is here has the queue's lock. */
static void tell_all(struct queue *queue)
{
	struct outcome *outcome, *next;

	list_for_each_entry_safe(outcome, next, &queue->outcomes, list) {
		if (tell(queue, outcome) == -FI_EAGAIN) {
			schedule_delayed_work(&queue->again, msecs_to_jiffies(PACE_MS));
			break;
		}
		list_del(&outcome->list);
		kfree(outcome);
	}
}

static void tell_again(struct work_struct *work)
{
	struct queue *queue = container_of(to_delayed_work(work), struct queue, again);
	unsigned long irqs;

	spin_lock_irqsave(&queue->lock, irqs);
	tell_all(queue);
	spin_unlock_irqrestore(&queue->lock, irqs);
}

static void complete_op(struct queue *queue, struct outcome *outcome)
{
	unsigned long irqs;

	spin_lock_irqsave(&queue->lock, irqs);
	list_add_tail(&outcome->list, &queue->outcomes);
	tell_all(queue);
	spin_unlock_irqrestore(&queue->lock, irqs);
}

/* Letters */

static void put_mailbox(struct mailbox *box)
{
	if (refcount_dec_and_test(&box->refs))
		complete(&box->gone);
}

/* Copies a message to its receive, and tells of that. */
static void deliver(struct mailbox *to, struct fi_peer_rx_entry *entry, const void *bytes,
		    size_t len, struct outcome *outcome)
{
	size_t done = 0;

	for (size_t i = 0; i < entry->count && done < len; i++) {
		size_t here = min(entry->iov[i].iov_len, len - done);

		memcpy(entry->iov[i].iov_base, bytes + done, here);
		done += here;
	}
	outcome->context = entry->context;
	outcome->flags = FI_RECV | FI_MSG;
	outcome->len = done;
	outcome->err = done < len ? FI_ETRUNC : 0;
	complete_op(to->queue, outcome);
	to->receives->owner->owner_ops->free_entry(entry);
}

/* Has a letter leave its mailbox, if it is there. */
static bool take(struct letter *letter, struct fi_peer_rx_entry *entry)
{
	struct mailbox *box;
	struct letter *it;
	bool found = false;
	unsigned long irqs;

	spin_lock_irqsave(&lock, irqs);
	list_for_each_entry(box, &boxes, list) {
		list_for_each_entry(it, &box->letters, list)
			if (it == letter && it->entry == entry) {
				list_del(&it->list);
				refcount_inc(&box->refs);
				found = true;
				break;
			}
		if (found)
			break;
	}
	spin_unlock_irqrestore(&lock, irqs);
	return found;
}

static int start_msg(struct fi_peer_rx_entry *entry)
{
	struct letter *letter = entry->peer_context;
	struct mailbox *to;

	/* Whoever has closed the mailbox frees the entry. */
	if (!take(letter, entry))
		return -FI_ENOENT;
	to = letter->to;
	deliver(to, entry, letter->bytes, letter->len, letter->outcome);
	kfree(letter);
	put_mailbox(to);
	return 0;
}

static int discard_msg(struct fi_peer_rx_entry *entry)
{
	struct letter *letter = entry->peer_context;
	struct mailbox *to;

	if (!take(letter, entry))
		return -FI_ENOENT;
	to = letter->to;
	to->receives->owner->owner_ops->free_entry(entry);
	kfree(letter->outcome);
	kfree(letter);
	put_mailbox(to);
	return 0;
}

/* There are no tags. */
static int absent_tag(struct fi_peer_rx_entry *entry)
{
	return -FI_ENOSYS;
}

/* A letter that waits with the owner of the receives. */
static ssize_t post_letter(struct mailbox *to, struct fi_peer_rx_entry *entry, const void *buf,
			   size_t len, struct outcome *outcome)
{
	struct letter *letter = kmalloc(struct_size(letter, bytes, len), GFP_ATOMIC);
	unsigned long irqs;
	int ret;

	if (!letter)
		return -FI_EAGAIN;
	letter->to = to;
	letter->entry = entry;
	letter->outcome = outcome;
	letter->len = len;
	memcpy(letter->bytes, buf, len);
	entry->peer_context = letter;
	spin_lock_irqsave(&lock, irqs);
	list_add_tail(&letter->list, &to->letters);
	spin_unlock_irqrestore(&lock, irqs);
	ret = to->receives->owner->owner_ops->queue_msg(entry);
	if (!ret)
		return 0;
	spin_lock_irqsave(&lock, irqs);
	list_del(&letter->list);
	spin_unlock_irqrestore(&lock, irqs);
	kfree(letter);
	return -FI_EAGAIN;
}

static struct mailbox *find(fi_addr_t number)
{
	struct mailbox *box, *found = NULL;
	unsigned long irqs;

	spin_lock_irqsave(&lock, irqs);
	list_for_each_entry(box, &boxes, list)
		if (box->number == number) {
			refcount_inc(&box->refs);
			found = box;
			break;
		}
	spin_unlock_irqrestore(&lock, irqs);
	return found;
}

static ssize_t send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
		    fi_addr_t dest_addr, void *context)
{
	struct mailbox *from = container_of(ep, struct mailbox, fid), *to;
	struct outcome *sent, *received;
	struct fi_peer_rx_entry *entry;
	struct fid_peer_srx *srx;
	ssize_t ret;

	if (!from->open)
		return -FI_EOPBADSTATE;
	if (len > MOST_BYTES)
		return -FI_EMSGSIZE;
	to = find(dest_addr);
	if (!to)
		return -FI_EINVAL;
	srx = to->receives->owner;
	sent = kmalloc_obj(*sent, GFP_ATOMIC);
	received = kmalloc_obj(*received, GFP_ATOMIC);
	if (!sent || !received) {
		ret = -FI_EAGAIN;
		goto out;
	}
	*sent = (struct outcome){ .context = context, .flags = FI_SEND | FI_MSG };
	ret = srx->owner_ops->get_msg(srx, FI_ADDR_NOTAVAIL, len, &entry);
	if (!ret) {
		deliver(to, entry, buf, len, received);
		received = NULL;
	} else if (ret == -FI_ENOENT) {
		ret = post_letter(to, entry, buf, len, received);
		if (ret)
			srx->owner_ops->free_entry(entry);
		else
			received = NULL;
	} else {
		ret = -FI_EAGAIN;
	}
	if (!ret) {
		complete_op(from->queue, sent);
		sent = NULL;
	}
out:
	kfree(sent);
	kfree(received);
	put_mailbox(to);
	return ret;
}

static ssize_t recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
		    void *context)
{
	/* Receives are posted with their owner. */
	return -FI_ENOSYS;
}

static struct fi_ops_msg msg_ops = {
	.size = sizeof(msg_ops),
	.recv = recv,
	.send = send,
};

/* Queues and receives */

static int close_queue(struct fid *fid)
{
	struct queue *queue = container_of(fid, struct queue, fid.fid);
	struct outcome *outcome, *next;

	if (atomic_read(&queue->users))
		return -FI_EBUSY;
	cancel_delayed_work_sync(&queue->again);
	/* The endpoints that these are of have been closed. */
	list_for_each_entry_safe(outcome, next, &queue->outcomes, list)
		kfree(outcome);
	atomic_dec(&queue->domain->users);
	kfree(queue);
	return 0;
}

FID_OPS(queue_fid_ops, close_queue);

/* The owner makes it progress by reading nothing; there is nothing else to read. */
static ssize_t read_queue(struct fid_cq *cq, void *buf, size_t count)
{
	struct queue *queue = container_of(cq, struct queue, fid);
	unsigned long irqs;

	if (buf || count)
		return -FI_ENOSYS;
	spin_lock_irqsave(&queue->lock, irqs);
	tell_all(queue);
	spin_unlock_irqrestore(&queue->lock, irqs);
	return 0;
}

static ssize_t readfrom_queue(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
	return -FI_ENOSYS;
}

static ssize_t readerr_queue(struct fid_cq *cq, struct fi_cq_err_entry *buf, u64 flags)
{
	return -FI_ENOSYS;
}

static ssize_t sread_queue(struct fid_cq *cq, void *buf, size_t count, const void *cond,
			   int timeout)
{
	return -FI_ENOSYS;
}

static ssize_t sreadfrom_queue(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
			       const void *cond, int timeout)
{
	return -FI_ENOSYS;
}

static int signal_queue(struct fid_cq *cq)
{
	return -FI_ENOSYS;
}

static const char *describe(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf,
			    size_t len)
{
	return fi_strerror(prov_errno);
}

static struct fi_ops_cq queue_ops = {
	.size = sizeof(queue_ops),
	.read = read_queue,
	.readfrom = readfrom_queue,
	.readerr = readerr_queue,
	.sread = sread_queue,
	.sreadfrom = sreadfrom_queue,
	.signal = signal_queue,
	.strerror = describe,
};

static int open_queue(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq,
		      void *context)
{
	struct domain *domain = container_of(fid, struct domain, fid);
	struct fi_peer_cq_context *peer = context;
	struct queue *queue;

	if (!attr || !cq || !(attr->flags & FI_PEER) || !peer || peer->size < sizeof(*peer) ||
	    !peer->cq || peer->cq->owner_ops->size < sizeof(*peer->cq->owner_ops))
		return -FI_EINVAL;
	queue = kzalloc_obj(*queue);
	if (!queue)
		return -FI_ENOMEM;
	queue->fid.fid.fclass = FI_CLASS_CQ;
	queue->fid.fid.context = context;
	queue->fid.fid.ops = &queue_fid_ops;
	queue->fid.ops = &queue_ops;
	queue->owner = peer->cq;
	queue->domain = domain;
	spin_lock_init(&queue->lock);
	INIT_LIST_HEAD(&queue->outcomes);
	INIT_DELAYED_WORK(&queue->again, tell_again);
	atomic_inc(&domain->users);
	*cq = &queue->fid;
	return 0;
}

static struct fi_ops_srx_peer peer_ops = {
	.size = sizeof(peer_ops),
	.start_msg = start_msg,
	.start_tag = absent_tag,
	.discard_msg = discard_msg,
	.discard_tag = absent_tag,
};

static const struct fi_ops_srx_peer no_peer_ops;

/* Writes the calls into the owner's struct, or points the owner to our own struct. */
static void set_peer_ops(struct fid_peer_srx *owner, bool are_there)
{
	const struct fi_ops_srx_peer *ops = are_there ? &peer_ops : &no_peer_ops;

	if (!owner->peer_ops || owner->peer_ops == &peer_ops) {
		owner->peer_ops = are_there ? &peer_ops : NULL;
		return;
	}
	owner->peer_ops->start_msg = ops->start_msg;
	owner->peer_ops->start_tag = ops->start_tag;
	owner->peer_ops->discard_msg = ops->discard_msg;
	owner->peer_ops->discard_tag = ops->discard_tag;
}

static int close_receives(struct fid *fid)
{
	struct receives *receives = container_of(fid, struct receives, fid.fid);

	if (atomic_read(&receives->users))
		return -FI_EBUSY;
	set_peer_ops(receives->owner, false);
	atomic_dec(&receives->domain->users);
	kfree(receives);
	return 0;
}

FID_OPS(receives_fid_ops, close_receives);

static int open_receives(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
			 void *context)
{
	struct domain *domain = container_of(fid, struct domain, fid);
	struct fi_peer_srx_context *peer = context;
	struct receives *receives;

	if (!attr || !srx || !(attr->op_flags & FI_PEER) || !peer || peer->size < sizeof(*peer) ||
	    !peer->srx || peer->srx->owner_ops->size < sizeof(*peer->srx->owner_ops) ||
	    (peer->srx->peer_ops && peer->srx->peer_ops->size < sizeof(*peer->srx->peer_ops)))
		return -FI_EINVAL;
	receives = kzalloc_obj(*receives);
	if (!receives)
		return -FI_ENOMEM;
	receives->fid.fid.fclass = FI_CLASS_SRX_CTX;
	receives->fid.fid.context = context;
	receives->fid.fid.ops = &receives_fid_ops;
	receives->owner = peer->srx;
	set_peer_ops(receives->owner, true);
	receives->domain = domain;
	atomic_inc(&domain->users);
	*srx = &receives->fid;
	return 0;
}

/* Mailboxes */

static int close_mailbox(struct fid *fid)
{
	struct mailbox *box = container_of(fid, struct mailbox, fid.fid);
	struct letter *letter, *next;
	LIST_HEAD(left);
	unsigned long irqs;

	spin_lock_irqsave(&lock, irqs);
	if (box->open)
		list_del(&box->list);
	list_splice_init(&box->letters, &left);
	spin_unlock_irqrestore(&lock, irqs);
	put_mailbox(box);
	wait_for_completion(&box->gone);
	/* Who had found it may have brought one more. */
	list_splice_init(&box->letters, &left);
	list_for_each_entry_safe(letter, next, &left, list) {
		box->receives->owner->owner_ops->free_entry(letter->entry);
		kfree(letter->outcome);
		kfree(letter);
	}
	if (box->queue)
		atomic_dec(&box->queue->users);
	if (box->receives)
		atomic_dec(&box->receives->users);
	atomic_dec(&box->domain->users);
	kfree(box);
	return 0;
}

static int bind_mailbox(struct fid *fid, struct fid *bfid, u64 flags)
{
	struct mailbox *box = container_of(fid, struct mailbox, fid.fid);

	if (box->open)
		return -FI_EOPBADSTATE;
	if (bfid->ops == &queue_fid_ops && !box->queue) {
		box->queue = container_of(bfid, struct queue, fid.fid);
		atomic_inc(&box->queue->users);
		return 0;
	}
	if (bfid->ops == &receives_fid_ops && !box->receives) {
		box->receives = container_of(bfid, struct receives, fid.fid);
		atomic_inc(&box->receives->users);
		return 0;
	}
	return -FI_EINVAL;
}

static int control_mailbox(struct fid *fid, int command, void *arg)
{
	struct mailbox *box = container_of(fid, struct mailbox, fid.fid);
	unsigned long irqs;

	if (command != FI_ENABLE)
		return -FI_ENOSYS;
	if (!box->queue)
		return -FI_ENOCQ;
	if (!box->receives || box->open)
		return -FI_EOPBADSTATE;
	spin_lock_irqsave(&lock, irqs);
	box->number = ++numbers;
	box->open = true;
	list_add_tail(&box->list, &boxes);
	spin_unlock_irqrestore(&lock, irqs);
	return 0;
}

static struct fi_ops mailbox_fid_ops = {
	.size = sizeof(mailbox_fid_ops),
	.close = close_mailbox,
	.bind = bind_mailbox,
	.control = control_mailbox,
	.ops_open = no_ops_open,
};

static int name_mailbox(fid_t fid, void *addr, size_t *addrlen)
{
	struct mailbox *box = container_of(fid, struct mailbox, fid.fid);
	size_t room = *addrlen;

	*addrlen = sizeof(box->number);
	if (room < sizeof(box->number))
		return -FI_ETOOSMALL;
	memcpy(addr, &box->number, sizeof(box->number));
	return 0;
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof(cm_ops),
	.getname = name_mailbox,
};

static ssize_t cancel_mailbox(fid_t fid, void *context)
{
	return -FI_ENOSYS;
}

static struct fi_ops_ep ep_ops = {
	.size = sizeof(ep_ops),
	.cancel = cancel_mailbox,
};

static int open_mailbox(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep,
			void *context)
{
	struct domain *domain = container_of(fid, struct domain, fid);
	struct mailbox *box;

	if (!info || !ep)
		return -FI_EINVAL;
	box = kzalloc_obj(*box);
	if (!box)
		return -FI_ENOMEM;
	box->fid.fid.fclass = FI_CLASS_EP;
	box->fid.fid.context = context;
	box->fid.fid.ops = &mailbox_fid_ops;
	box->fid.ops = &ep_ops;
	box->fid.cm = &cm_ops;
	box->fid.msg = &msg_ops;
	box->domain = domain;
	INIT_LIST_HEAD(&box->letters);
	refcount_set(&box->refs, 1);
	init_completion(&box->gone);
	atomic_inc(&domain->users);
	*ep = &box->fid;
	return 0;
}

/* What it is found by, and opens */

static struct fi_ops_domain domain_ops = {
	.size = sizeof(domain_ops),
	.cq_open = open_queue,
	.endpoint = open_mailbox,
	.srx_ctx = open_receives,
};

static int getinfo(u32 version, const char *node, const char *service, u64 flags,
		   const struct fi_info *hints, struct fi_info **info)
{
	const u64 caps = FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_PEER;
	struct fi_info *found;

	if (hints && (hints->caps & ~caps ||
		      (hints->ep_attr && hints->ep_attr->type != FI_EP_RDM &&
		       hints->ep_attr->type != FI_EP_UNSPEC)))
		return -FI_ENODATA;
	found = fi_allocinfo();
	if (!found)
		return -FI_ENOMEM;
	found->caps = caps;
	found->ep_attr->type = FI_EP_RDM;
	found->ep_attr->max_msg_size = MOST_BYTES;
	found->domain_attr->threading = FI_THREAD_SAFE;
	*info = found;
	return 0;
}

static struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	.fi_version = FI_VERSION(1, 17),
	.name = "mailbox",
	.getinfo = getinfo,
	.fabric = open_fabric,
};

static int __init mailbox_init(void)
{
	return fi_register_provider(&provider);
}

static void __exit mailbox_exit(void)
{
	/* The module is not unloaded while a fabric is open. */
	fi_unregister_provider(&provider);
}

module_init(mailbox_init);
module_exit(mailbox_exit);
MODULE_DESCRIPTION("A provider of another module, which uses its peer's queue and receives");
MODULE_LICENSE("GPL");
