// SPDX-License-Identifier: GPL-2.0
/*
 * A provider in a module of its own, "mailbox": its endpoints (mailboxes) copy
 * messages to each other within this kernel. The provider has no completion queue
 * and no posted receives of its own. It imports those of an owner through the peer
 * interface of rdma/fi_ext.h:
 *
 *	fi_cq_open() with FI_PEER	the owner's queue for completions
 *	fi_srx_context() with FI_PEER	the owner's shared receive context
 *
 * The owner, such as kOFI's datagram provider, exports both by fi_export_fid(). Its
 * consumer then receives messages from mailboxes and from the network through the
 * same objects. The address of a mailbox is its number, which fi_getname() returns.
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

/* Maximum length of a message, because fi_send() copies it */
#define MAX_MSG_SIZE	65536U

/* Delay before the next attempt to write to a full queue */
#define RETRY_MS	1

/* Protects mailboxes, last_number, and the unexp_msgs of each mailbox. */
static DEFINE_SPINLOCK(lock);
static LIST_HEAD(mailboxes);
static u32 last_number;

/* A completion that is written to the owner's queue, again if the queue is full */
struct mailbox_comp {
	struct list_head	list;
	void			*context;
	u64			flags;
	size_t			len;
	int			err;
};

struct mailbox_cq {
	struct fid_cq		fid;
	struct fid_peer_cq	*owner;
	struct domain		*domain;
	atomic_t		users;
	spinlock_t		lock;		/* protects comps */
	struct list_head	comps;		/* not written yet, oldest first */
	struct delayed_work	retry;
};

struct mailbox_srx {
	struct fid_ep		fid;
	struct fid_peer_srx	*owner;
	struct domain		*domain;
	atomic_t		users;
};

struct mailbox {
	struct fid_ep		fid;
	struct list_head	list;
	struct list_head	unexp_msgs;
	u32			number;
	bool			enabled;
	struct domain		*domain;
	struct mailbox_cq	*cq;
	struct mailbox_srx	*srx;
	refcount_t		refs;		/* one for the fid, one for each transfer to it */
	struct completion	released;
};

/* An unexpected message: it arrived before a matching receive was posted. */
struct unexp_msg {
	struct list_head	list;
	struct mailbox		*dest;
	struct fi_peer_rx_entry	*entry;
	struct mailbox_comp	*comp;		/* completion of the receive, allocated in advance */
	size_t			len;
	u8			bytes[];
};

/* Completions */

static ssize_t write_comp(struct mailbox_cq *cq, const struct mailbox_comp *comp)
{
	struct fi_ops_cq_owner *ops = cq->owner->owner_ops;
	struct fi_cq_err_entry error = {
		.op_context = comp->context,
		.flags = comp->flags,
		.len = comp->len,
		.err = comp->err,
		.prov_errno = comp->err,
		.src_addr = FI_ADDR_NOTAVAIL,
	};

	if (comp->err)
		return ops->writeerr(cq->owner, &error);
	return ops->write(cq->owner, comp->context, comp->flags, comp->len, NULL, 0, 0,
			  FI_ADDR_NOTAVAIL);
}

/* Writes pending completions in order, until the owner's queue is full. Locking: cq->lock held. */
static void write_comps(struct mailbox_cq *cq)
{
	struct mailbox_comp *comp, *next;

	list_for_each_entry_safe(comp, next, &cq->comps, list) {
		if (write_comp(cq, comp) == -FI_EAGAIN) {
			schedule_delayed_work(&cq->retry, msecs_to_jiffies(RETRY_MS));
			break;
		}
		list_del(&comp->list);
		kfree(comp);
	}
}

static void retry_comps(struct work_struct *work)
{
	struct mailbox_cq *cq = container_of(to_delayed_work(work), struct mailbox_cq, retry);
	unsigned long irqs;

	spin_lock_irqsave(&cq->lock, irqs);
	write_comps(cq);
	spin_unlock_irqrestore(&cq->lock, irqs);
}

static void queue_comp(struct mailbox_cq *cq, struct mailbox_comp *comp)
{
	unsigned long irqs;

	spin_lock_irqsave(&cq->lock, irqs);
	list_add_tail(&comp->list, &cq->comps);
	write_comps(cq);
	spin_unlock_irqrestore(&cq->lock, irqs);
}

/* Messages */

static void put_mailbox(struct mailbox *mbox)
{
	if (refcount_dec_and_test(&mbox->refs))
		complete(&mbox->released);
}

/* Copies a message to the buffer of its receive, and completes the receive. */
static void complete_recv(struct mailbox *dest, struct fi_peer_rx_entry *entry, const void *bytes,
			  size_t len, struct mailbox_comp *comp)
{
	size_t done = 0;

	for (size_t i = 0; i < entry->count && done < len; i++) {
		size_t here = min(entry->iov[i].iov_len, len - done);

		memcpy(entry->iov[i].iov_base, bytes + done, here);
		done += here;
	}
	comp->context = entry->context;
	comp->flags = FI_RECV | FI_MSG;
	comp->len = done;
	comp->err = done < len ? FI_ETRUNC : 0;
	queue_comp(dest->cq, comp);
	dest->srx->owner->owner_ops->free_entry(entry);
}

/*
 * Takes an unexpected message off its mailbox's list, and a reference on the
 * mailbox. Returns false if close_mailbox() has taken the message off the list.
 */
static bool dequeue_unexp(struct unexp_msg *unexp, struct fi_peer_rx_entry *entry)
{
	struct mailbox *mbox;
	struct unexp_msg *pos;
	bool found = false;
	unsigned long irqs;

	spin_lock_irqsave(&lock, irqs);
	list_for_each_entry(mbox, &mailboxes, list) {
		list_for_each_entry(pos, &mbox->unexp_msgs, list)
			if (pos == unexp && pos->entry == entry) {
				list_del(&pos->list);
				refcount_inc(&mbox->refs);
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
	struct unexp_msg *unexp = entry->peer_context;
	struct mailbox *dest;

	/* close_mailbox() frees the entry. */
	if (!dequeue_unexp(unexp, entry))
		return -FI_ENOENT;
	dest = unexp->dest;
	complete_recv(dest, entry, unexp->bytes, unexp->len, unexp->comp);
	kfree(unexp);
	put_mailbox(dest);
	return 0;
}

static int discard_msg(struct fi_peer_rx_entry *entry)
{
	struct unexp_msg *unexp = entry->peer_context;
	struct mailbox *dest;

	if (!dequeue_unexp(unexp, entry))
		return -FI_ENOENT;
	dest = unexp->dest;
	dest->srx->owner->owner_ops->free_entry(entry);
	kfree(unexp->comp);
	kfree(unexp);
	put_mailbox(dest);
	return 0;
}

/* Refuses to start or discard a tagged message: mailboxes have none. */
static int no_tagged(struct fi_peer_rx_entry *entry)
{
	return -FI_ENOSYS;
}

/* Copies an unexpected message, and queues its entry with the owner of the receives. */
static ssize_t queue_unexp(struct mailbox *dest, struct fi_peer_rx_entry *entry, const void *buf,
			   size_t len, struct mailbox_comp *comp)
{
	struct unexp_msg *unexp = kmalloc(struct_size(unexp, bytes, len), GFP_ATOMIC);
	unsigned long irqs;
	int ret;

	if (!unexp)
		return -FI_EAGAIN;
	unexp->dest = dest;
	unexp->entry = entry;
	unexp->comp = comp;
	unexp->len = len;
	memcpy(unexp->bytes, buf, len);
	entry->peer_context = unexp;
	spin_lock_irqsave(&lock, irqs);
	list_add_tail(&unexp->list, &dest->unexp_msgs);
	spin_unlock_irqrestore(&lock, irqs);
	ret = dest->srx->owner->owner_ops->queue_msg(entry);
	if (!ret)
		return 0;
	spin_lock_irqsave(&lock, irqs);
	list_del(&unexp->list);
	spin_unlock_irqrestore(&lock, irqs);
	kfree(unexp);
	return -FI_EAGAIN;
}

static struct mailbox *get_mailbox(fi_addr_t number)
{
	struct mailbox *mbox, *found = NULL;
	unsigned long irqs;

	spin_lock_irqsave(&lock, irqs);
	list_for_each_entry(mbox, &mailboxes, list)
		if (mbox->number == number) {
			refcount_inc(&mbox->refs);
			found = mbox;
			break;
		}
	spin_unlock_irqrestore(&lock, irqs);
	return found;
}

static ssize_t send_msg(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			fi_addr_t dest_addr, void *context)
{
	struct mailbox *src = container_of(ep, struct mailbox, fid), *dest;
	struct mailbox_comp *sent, *received;
	struct fi_peer_rx_entry *entry;
	struct fid_peer_srx *srx;
	ssize_t ret;

	if (!src->enabled)
		return -FI_EOPBADSTATE;
	if (len > MAX_MSG_SIZE)
		return -FI_EMSGSIZE;
	dest = get_mailbox(dest_addr);
	if (!dest)
		return -FI_EINVAL;
	srx = dest->srx->owner;
	sent = kmalloc_obj(*sent, GFP_ATOMIC);
	received = kmalloc_obj(*received, GFP_ATOMIC);
	if (!sent || !received) {
		ret = -FI_EAGAIN;
		goto out;
	}
	*sent = (struct mailbox_comp){ .context = context, .flags = FI_SEND | FI_MSG };
	ret = srx->owner_ops->get_msg(srx, FI_ADDR_NOTAVAIL, len, &entry);
	if (!ret) {
		complete_recv(dest, entry, buf, len, received);
		received = NULL;
	} else if (ret == -FI_ENOENT) {
		ret = queue_unexp(dest, entry, buf, len, received);
		if (ret)
			srx->owner_ops->free_entry(entry);
		else
			received = NULL;
	} else {
		ret = -FI_EAGAIN;
	}
	if (!ret) {
		queue_comp(src->cq, sent);
		sent = NULL;
	}
out:
	kfree(sent);
	kfree(received);
	put_mailbox(dest);
	return ret;
}

static ssize_t recv_msg(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			void *context)
{
	/* Receives are posted to the owner's shared receive context. */
	return -FI_ENOSYS;
}

static struct fi_ops_msg msg_ops = {
	.size = sizeof(msg_ops),
	.recv = recv_msg,
	.send = send_msg,
};

/* Completion queues and shared receive contexts */

static int close_cq(struct fid *fid)
{
	struct mailbox_cq *cq = container_of(fid, struct mailbox_cq, fid.fid);
	struct mailbox_comp *comp, *next;

	if (atomic_read(&cq->users))
		return -FI_EBUSY;
	cancel_delayed_work_sync(&cq->retry);
	/* These completions are of closed endpoints: an open one counts in users. */
	list_for_each_entry_safe(comp, next, &cq->comps, list)
		kfree(comp);
	atomic_dec(&cq->domain->users);
	kfree(cq);
	return 0;
}

FID_OPS(cq_fid_ops, close_cq);

/*
 * Makes progress. The owner's read calls this without a buffer; entries are read only
 * from the owner's queue.
 */
static ssize_t read_cq(struct fid_cq *fid, void *buf, size_t count)
{
	struct mailbox_cq *cq = container_of(fid, struct mailbox_cq, fid);
	unsigned long irqs;

	if (buf || count)
		return -FI_ENOSYS;
	spin_lock_irqsave(&cq->lock, irqs);
	write_comps(cq);
	spin_unlock_irqrestore(&cq->lock, irqs);
	return 0;
}

static ssize_t readfrom_cq(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
	return -FI_ENOSYS;
}

static ssize_t readerr_cq(struct fid_cq *cq, struct fi_cq_err_entry *buf, u64 flags)
{
	return -FI_ENOSYS;
}

static ssize_t sread_cq(struct fid_cq *cq, void *buf, size_t count, const void *cond,
			int timeout)
{
	return -FI_ENOSYS;
}

static ssize_t sreadfrom_cq(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
			    const void *cond, int timeout)
{
	return -FI_ENOSYS;
}

static int signal_cq(struct fid_cq *cq)
{
	return -FI_ENOSYS;
}

static const char *strerror_cq(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	return fi_strerror(prov_errno);
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(cq_ops),
	.read = read_cq,
	.readfrom = readfrom_cq,
	.readerr = readerr_cq,
	.sread = sread_cq,
	.sreadfrom = sreadfrom_cq,
	.signal = signal_cq,
	.strerror = strerror_cq,
};

static int open_cq(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out,
		   void *context)
{
	struct domain *domain = container_of(fid, struct domain, fid);
	struct fi_peer_cq_context *peer = context;
	struct mailbox_cq *cq;

	if (!attr || !out || !(attr->flags & FI_PEER) || !peer || peer->size < sizeof(*peer) ||
	    !peer->cq || peer->cq->owner_ops->size < sizeof(*peer->cq->owner_ops))
		return -FI_EINVAL;
	cq = kzalloc_obj(*cq);
	if (!cq)
		return -FI_ENOMEM;
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fid_ops;
	cq->fid.ops = &cq_ops;
	cq->owner = peer->cq;
	cq->domain = domain;
	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->comps);
	INIT_DELAYED_WORK(&cq->retry, retry_comps);
	atomic_inc(&domain->users);
	*out = &cq->fid;
	return 0;
}

static struct fi_ops_srx_peer peer_ops = {
	.size = sizeof(peer_ops),
	.start_msg = start_msg,
	.start_tag = no_tagged,
	.discard_msg = discard_msg,
	.discard_tag = no_tagged,
};

static const struct fi_ops_srx_peer no_peer_ops;

/*
 * Sets or clears the peer operations of an owner's shared receive context. They are
 * copied to the struct that the owner allocated; without one, the owner gets a pointer
 * to peer_ops.
 */
static void set_peer_ops(struct fid_peer_srx *owner, bool is_set)
{
	const struct fi_ops_srx_peer *ops = is_set ? &peer_ops : &no_peer_ops;

	if (!owner->peer_ops || owner->peer_ops == &peer_ops) {
		owner->peer_ops = is_set ? &peer_ops : NULL;
		return;
	}
	owner->peer_ops->start_msg = ops->start_msg;
	owner->peer_ops->start_tag = ops->start_tag;
	owner->peer_ops->discard_msg = ops->discard_msg;
	owner->peer_ops->discard_tag = ops->discard_tag;
}

static int close_srx(struct fid *fid)
{
	struct mailbox_srx *srx = container_of(fid, struct mailbox_srx, fid.fid);

	if (atomic_read(&srx->users))
		return -FI_EBUSY;
	set_peer_ops(srx->owner, false);
	atomic_dec(&srx->domain->users);
	kfree(srx);
	return 0;
}

FID_OPS(srx_fid_ops, close_srx);

static int open_srx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **out,
		    void *context)
{
	struct domain *domain = container_of(fid, struct domain, fid);
	struct fi_peer_srx_context *peer = context;
	struct mailbox_srx *srx;

	if (!attr || !out || !(attr->op_flags & FI_PEER) || !peer || peer->size < sizeof(*peer) ||
	    !peer->srx || peer->srx->owner_ops->size < sizeof(*peer->srx->owner_ops) ||
	    (peer->srx->peer_ops && peer->srx->peer_ops->size < sizeof(*peer->srx->peer_ops)))
		return -FI_EINVAL;
	srx = kzalloc_obj(*srx);
	if (!srx)
		return -FI_ENOMEM;
	srx->fid.fid.fclass = FI_CLASS_SRX_CTX;
	srx->fid.fid.context = context;
	srx->fid.fid.ops = &srx_fid_ops;
	srx->owner = peer->srx;
	set_peer_ops(srx->owner, true);
	srx->domain = domain;
	atomic_inc(&domain->users);
	*out = &srx->fid;
	return 0;
}

/* Mailboxes */

static int close_mailbox(struct fid *fid)
{
	struct mailbox *mbox = container_of(fid, struct mailbox, fid.fid);
	struct unexp_msg *unexp, *next;
	LIST_HEAD(left);
	unsigned long irqs;

	spin_lock_irqsave(&lock, irqs);
	if (mbox->enabled)
		list_del(&mbox->list);
	list_splice_init(&mbox->unexp_msgs, &left);
	spin_unlock_irqrestore(&lock, irqs);
	put_mailbox(mbox);
	wait_for_completion(&mbox->released);
	/* A sender that held a reference may have queued one more message. */
	list_splice_init(&mbox->unexp_msgs, &left);
	list_for_each_entry_safe(unexp, next, &left, list) {
		mbox->srx->owner->owner_ops->free_entry(unexp->entry);
		kfree(unexp->comp);
		kfree(unexp);
	}
	if (mbox->cq)
		atomic_dec(&mbox->cq->users);
	if (mbox->srx)
		atomic_dec(&mbox->srx->users);
	atomic_dec(&mbox->domain->users);
	kfree(mbox);
	return 0;
}

static int bind_mailbox(struct fid *fid, struct fid *bfid, u64 flags)
{
	struct mailbox *mbox = container_of(fid, struct mailbox, fid.fid);

	if (mbox->enabled)
		return -FI_EOPBADSTATE;
	if (bfid->ops == &cq_fid_ops && !mbox->cq) {
		mbox->cq = container_of(bfid, struct mailbox_cq, fid.fid);
		atomic_inc(&mbox->cq->users);
		return 0;
	}
	if (bfid->ops == &srx_fid_ops && !mbox->srx) {
		mbox->srx = container_of(bfid, struct mailbox_srx, fid.fid);
		atomic_inc(&mbox->srx->users);
		return 0;
	}
	return -FI_EINVAL;
}

static int enable_mailbox(struct fid *fid, int command, void *arg)
{
	struct mailbox *mbox = container_of(fid, struct mailbox, fid.fid);
	unsigned long irqs;

	if (command != FI_ENABLE)
		return -FI_ENOSYS;
	if (!mbox->cq)
		return -FI_ENOCQ;
	if (!mbox->srx || mbox->enabled)
		return -FI_EOPBADSTATE;
	spin_lock_irqsave(&lock, irqs);
	mbox->number = ++last_number;
	mbox->enabled = true;
	list_add_tail(&mbox->list, &mailboxes);
	spin_unlock_irqrestore(&lock, irqs);
	return 0;
}

static struct fi_ops mailbox_fid_ops = {
	.size = sizeof(mailbox_fid_ops),
	.close = close_mailbox,
	.bind = bind_mailbox,
	.control = enable_mailbox,
	.ops_open = no_ops_open,
};

static int getname_mailbox(fid_t fid, void *addr, size_t *addrlen)
{
	struct mailbox *mbox = container_of(fid, struct mailbox, fid.fid);
	size_t size = *addrlen;

	*addrlen = sizeof(mbox->number);
	if (size < sizeof(mbox->number))
		return -FI_ETOOSMALL;
	memcpy(addr, &mbox->number, sizeof(mbox->number));
	return 0;
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof(cm_ops),
	.getname = getname_mailbox,
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
	struct mailbox *mbox;

	if (!info || !ep)
		return -FI_EINVAL;
	mbox = kzalloc_obj(*mbox);
	if (!mbox)
		return -FI_ENOMEM;
	mbox->fid.fid.fclass = FI_CLASS_EP;
	mbox->fid.fid.context = context;
	mbox->fid.fid.ops = &mailbox_fid_ops;
	mbox->fid.ops = &ep_ops;
	mbox->fid.cm = &cm_ops;
	mbox->fid.msg = &msg_ops;
	mbox->domain = domain;
	INIT_LIST_HEAD(&mbox->unexp_msgs);
	refcount_set(&mbox->refs, 1);
	init_completion(&mbox->released);
	atomic_inc(&domain->users);
	*ep = &mbox->fid;
	return 0;
}

/* Domain operations and registration */

static struct fi_ops_domain domain_ops = {
	.size = sizeof(domain_ops),
	.cq_open = open_cq,
	.endpoint = open_mailbox,
	.srx_ctx = open_srx,
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
	found->ep_attr->max_msg_size = MAX_MSG_SIZE;
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
MODULE_DESCRIPTION("kOFI sample: provider that uses an owner's completion queue and receives");
MODULE_LICENSE("GPL");
