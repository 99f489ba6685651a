// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, PEER: completion queues that providers share, each of ours as the
 * owner and as the peer.
 */

#include <linux/delay.h>
#include <linux/kthread.h>
#include <rdma/fi_ext.h>

#include "rdm.h"
#include "traffic.h"

#define LEN	64
#define MANY	40

/* An owner of another make, which keeps what it is told. */
struct owner {
	struct fid_peer_cq	cq;
	struct fi_ops_cq_owner	ops;
	spinlock_t		lock;
	int			refusals;	/* how often it has no room yet */
	int			refused;
	int			count, errors;
	struct fi_cq_tagged_entry told[MANY];
	struct fi_cq_err_entry	failed[MANY];
};

static bool has_room(struct owner *owner)
{
	if (!owner->refusals)
		return true;
	owner->refusals--;
	owner->refused++;
	return false;
}

static ssize_t owner_write(struct fid_peer_cq *cq, void *context, u64 flags, size_t len,
			   void *buf, u64 data, u64 tag, fi_addr_t src)
{
	struct owner *owner = container_of(cq, struct owner, cq);
	ssize_t ret = -FI_EAGAIN;
	unsigned long irqs;

	spin_lock_irqsave(&owner->lock, irqs);
	if (has_room(owner)) {
		if (owner->count < MANY)
			owner->told[owner->count] = (struct fi_cq_tagged_entry){
				.op_context = context,
				.flags = flags,
				.len = len,
				.buf = buf,
				.data = data,
				.tag = tag,
			};
		/* With what it has been told. */
		smp_store_release(&owner->count, owner->count + 1);
		ret = 0;
	}
	spin_unlock_irqrestore(&owner->lock, irqs);
	return ret;
}

static ssize_t owner_writeerr(struct fid_peer_cq *cq, const struct fi_cq_err_entry *entry)
{
	struct owner *owner = container_of(cq, struct owner, cq);
	ssize_t ret = -FI_EAGAIN;
	unsigned long irqs;

	spin_lock_irqsave(&owner->lock, irqs);
	if (has_room(owner)) {
		if (owner->errors < MANY)
			owner->failed[owner->errors] = *entry;
		/* The same. */
		smp_store_release(&owner->errors, owner->errors + 1);
		ret = 0;
	}
	spin_unlock_irqrestore(&owner->lock, irqs);
	return ret;
}

static struct owner *an_owner(struct kunit *test)
{
	struct owner *owner = kunit_kzalloc(test, sizeof(*owner), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, owner);
	owner->cq.fid.fclass = FI_CLASS_PEER_CQ;
	owner->cq.owner_ops = &owner->ops;
	owner->ops = (struct fi_ops_cq_owner){
		.size = sizeof(owner->ops),
		.write = owner_write,
		.writeerr = owner_writeerr,
	};
	spin_lock_init(&owner->lock);
	return owner;
}

/* Returns when it has been told of so many, or says that it was not. */
static void await_told(struct kunit *test, const int *count, int wanted)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	/* Pairs with the release of whoever tells it. */
	while (smp_load_acquire(count) < wanted && time_before(jiffies, end))
		usleep_range(100, 500);
	KUNIT_ASSERT_EQ_MSG(test, wanted, *count, "what the owner has been told of");
}

static int open_peer(struct fid_domain *domain, struct fid_peer_cq *owner, struct fid_cq **cq)
{
	struct fi_peer_cq_context context = { .size = sizeof(context), .cq = owner };
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .flags = FI_PEER };

	return fi_cq_open(domain, &attr, cq, &context);
}

static struct fid_cq *peer_of(struct kunit *test, struct fid_domain *domain,
			      struct fid_peer_cq *owner)
{
	struct fid_cq *cq;

	KUNIT_ASSERT_EQ(test, 0, open_peer(domain, owner, &cq));
	fx_defer_close(test, &cq->fid);
	return cq;
}

static struct fid_peer_cq *export_of(struct kunit *test, struct fid_cq *cq)
{
	struct fid *exported = NULL;

	KUNIT_ASSERT_EQ(test, 0, fi_export_fid(&cq->fid, 0, &exported, test));
	KUNIT_ASSERT_EQ(test, FI_CLASS_PEER_CQ, exported->fclass);
	KUNIT_ASSERT_PTR_EQ(test, test, exported->context);
	fx_defer_close(test, exported);
	return container_of(exported, struct fid_peer_cq, fid);
}

/* Two connected endpoints, of which the first sends, whose operations complete there. */
struct ends {
	struct kofi_fabric_fx	*fx;
	struct fid_ep		*ep[2];
	u8			*out, *in;
};

static struct ends *connect_ends(struct kunit *test, struct kofi_fabric_fx *fx, struct fid_cq *cq)
{
	struct ends *ends = kunit_kzalloc(test, sizeof(*ends), GFP_KERNEL);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);

	KUNIT_ASSERT_NOT_NULL(test, ends);
	ends->fx = fx;
	ends->out = tr_buffer(test, MANY * LEN);
	ends->in = tr_buffer(test, MANY * LEN);
	ends->ep[0] = fx_ep(test, fx->domain, fx->info);
	fx_bind(test, ends->ep[0], fx->eq, cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ends->ep[0]));
	ends->ep[1] = fx_connect(test, fx->domain, ends->ep[0], pep, fx->eq, cq);
	return ends;
}

static struct kofi_fabric_fx *a_fabric(struct kunit *test)
{
	return fx_open_for(test, FI_THREAD_SAFE);
}

static void receive(struct kunit *test, struct ends *ends, int nth)
{
	KUNIT_ASSERT_EQ(test, 0, when_there_is_room(fi_recv(ends->ep[1], ends->in + nth * LEN, LEN,
							    NULL, FI_ADDR_UNSPEC,
							    ends->in + nth * LEN)));
}

static void send(struct kunit *test, struct ends *ends, int nth)
{
	memset(ends->out + nth * LEN, nth + 1, LEN);
	KUNIT_ASSERT_EQ(test, 0, when_there_is_room(fi_send(ends->ep[0], ends->out + nth * LEN,
							    nth + 1, NULL, FI_ADDR_UNSPEC,
							    ends->out + nth * LEN)));
}

static void peer_01_who_has_no_owner(struct kunit *test)
{
	struct kofi_fabric_fx *fx = a_fabric(test);
	struct owner *owner = an_owner(test);
	struct fi_peer_cq_context good = { .size = sizeof(good), .cq = &owner->cq };
	struct fi_peer_cq_context context;
	struct fi_cq_attr attr = { .flags = FI_PEER };
	struct fid_cq *cq = NULL;

#define REFUSED() do {								\
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,					\
			fi_cq_open(fx->domain, &attr, &cq, &context));		\
	KUNIT_EXPECT_NULL(test, cq);						\
} while (0)

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_cq_open(fx->domain, &attr, &cq, NULL));
	/* Smaller structs than there are. */
	for (size_t size = 0; size < sizeof(context); size++) {
		context = good;
		context.size = size;
		REFUSED();
	}
	context = good;
	context.cq = NULL;
	REFUSED();
	context = good;
	for (size_t size = 0; size < sizeof(owner->ops); size++) {
		owner->ops.size = size;
		REFUSED();
	}
	owner->ops.size = sizeof(owner->ops);
	/* Calls that are not there. */
	owner->ops.write = NULL;
	REFUSED();
	owner->ops.write = owner_write;
	owner->ops.writeerr = NULL;
	REFUSED();
	owner->ops.writeerr = owner_writeerr;
	owner->cq.owner_ops = NULL;
	REFUSED();
	owner->cq.owner_ops = &owner->ops;
	owner->cq.fid.fclass = FI_CLASS_CQ;
	REFUSED();
	owner->cq.fid.fclass = FI_CLASS_PEER_CQ;
	/* Nobody waits for it. */
	attr.wait_obj = FI_WAIT_QUEUE;
	REFUSED();
	attr.wait_obj = FI_WAIT_NONE;
	/* What is newer is larger. */
	context.size = sizeof(context) + 64;
	owner->ops.size = sizeof(owner->ops) + 64;
	KUNIT_ASSERT_EQ(test, 0, fi_cq_open(fx->domain, &attr, &cq, &context));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&cq->fid));
#undef REFUSED
}

static void handle(struct fid_cq *cq, void *context)
{
}

static void peer_01_a_consumer_who_locks_or_has_a_handler(struct kunit *test)
{
	struct kofi_fabric_fx *safe = a_fabric(test);
	struct kofi_fabric_fx *alone = fx_open_for(test, FI_THREAD_DOMAIN);
	struct owner *owner = an_owner(test);
	struct fi_peer_cq_context context = { .size = sizeof(context), .cq = &owner->cq };
	struct fi_cq_attr attr = { .flags = FI_PEER, .cq_event_handler = handle };
	struct fid_cq *cq = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_cq_open(safe->domain, &attr, &cq, &context));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, open_peer(alone->domain, &owner->cq, &cq));
	KUNIT_EXPECT_NULL(test, cq);
}

static void peer_02_what_completes_goes_to_the_owner(struct kunit *test)
{
	struct kofi_fabric_fx *fx = a_fabric(test);
	struct owner *owner = an_owner(test);
	struct fid_cq *cq = peer_of(test, fx->domain, &owner->cq);
	struct ends *ends = connect_ends(test, fx, cq);
	int sends = 0, receives = 0;

	for (int i = 0; i < MANY / 2; i++)
		receive(test, ends, i);
	for (int i = 0; i < MANY / 2; i++)
		send(test, ends, i);
	await_told(test, &owner->count, MANY);
	for (int i = 0; i < MANY; i++) {
		struct fi_cq_tagged_entry *told = &owner->told[i];

		/* Each side's in its order. */
		if (told->flags & FI_RECV) {
			KUNIT_EXPECT_PTR_EQ(test, ends->in + receives * LEN, told->op_context);
			receives++;
			KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, told->flags);
			KUNIT_EXPECT_EQ(test, receives, told->len);
		} else {
			KUNIT_EXPECT_PTR_EQ(test, ends->out + sends * LEN, told->op_context);
			sends++;
			KUNIT_EXPECT_EQ(test, FI_SEND | FI_MSG, told->flags);
		}
	}
	KUNIT_EXPECT_EQ(test, MANY / 2, sends);
	KUNIT_EXPECT_EQ(test, MANY / 2, receives);
	KUNIT_EXPECT_EQ(test, 0, owner->errors);
	for (int i = 0; i < MANY / 2; i++)
		KUNIT_EXPECT_MEMEQ(test, ends->out + i * LEN, ends->in + i * LEN, i + 1);
}

static void peer_02_nothing_is_read_there(struct kunit *test)
{
	struct kofi_fabric_fx *fx = a_fabric(test);
	struct owner *owner = an_owner(test);
	struct fid_cq *cq = peer_of(test, fx->domain, &owner->cq);
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;
	struct fid *exported = NULL;
	fi_addr_t from;

	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cq_read(cq, &entry, 1));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cq_readfrom(cq, &entry, 1, &from));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cq_readerr(cq, &error, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cq_sread(cq, &entry, 1, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cq_sreadfrom(cq, &entry, 1, &from, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cq_signal(cq));
	KUNIT_EXPECT_NOT_NULL(test, fi_cq_strerror(cq, 1, NULL, NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_cq_read(cq, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_export_fid(&cq->fid, 0, &exported, NULL));
	KUNIT_EXPECT_NULL(test, exported);
	KUNIT_EXPECT_EQ(test, 0, owner->count + owner->errors);
}

static void peer_02_an_owner_without_room_loses_nothing(struct kunit *test)
{
	struct kofi_fabric_fx *fx = a_fabric(test);
	struct owner *owner = an_owner(test);
	struct fid_cq *cq = peer_of(test, fx->domain, &owner->cq);
	struct ends *ends = connect_ends(test, fx, cq);
	int receives = 0;

	owner->refusals = INT_MAX;
	for (int i = 0; i < MANY / 2; i++)
		receive(test, ends, i);
	for (int i = 0; i < MANY / 2; i++)
		send(test, ends, i);
	msleep(20);
	KUNIT_EXPECT_EQ(test, 0, READ_ONCE(owner->count));
	KUNIT_EXPECT_GT(test, READ_ONCE(owner->refused), 0);
	/* Neither does who makes it progress. */
	KUNIT_EXPECT_EQ(test, 0, fi_cq_read(cq, NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, READ_ONCE(owner->count));
	WRITE_ONCE(owner->refusals, 3);
	await_told(test, &owner->count, MANY);
	for (int i = 0; i < MANY; i++)
		if (owner->told[i].flags & FI_RECV)
			KUNIT_EXPECT_PTR_EQ(test, ends->in + receives++ * LEN,
					    owner->told[i].op_context);
	KUNIT_EXPECT_EQ(test, MANY / 2, receives);
}

static void peer_02_failures_go_there_too(struct kunit *test)
{
	struct kofi_fabric_fx *fx = a_fabric(test);
	struct owner *owner = an_owner(test);
	struct fid_cq *cq = peer_of(test, fx->domain, &owner->cq);
	struct ends *ends = connect_ends(test, fx, cq);

	owner->refusals = 2;
	for (int i = 0; i < 4; i++)
		receive(test, ends, i);
	fx_close(test, &ends->ep[0]->fid);
	await_told(test, &owner->errors, 4);
	for (int i = 0; i < 4; i++) {
		KUNIT_EXPECT_PTR_EQ(test, ends->in + i * LEN, owner->failed[i].op_context);
		KUNIT_EXPECT_EQ(test, FI_ECANCELED, owner->failed[i].err);
	}
	KUNIT_EXPECT_EQ(test, 0, owner->count);
}

static ssize_t put(struct fid_peer_cq *cq, void *context)
{
	return cq->owner_ops->write(cq, context, FI_RECV | FI_TAGGED, 5, NULL, 6, 7, 8);
}

static ssize_t put_error(struct fid_peer_cq *cq, void *context, int err)
{
	struct fi_cq_err_entry entry = {
		.op_context = context,
		.flags = FI_SEND,
		.olen = 3,
		.err = err,
		.prov_errno = err,
		.src_addr = FI_ADDR_NOTAVAIL,
	};

	return cq->owner_ops->writeerr(cq, &entry);
}

static void peer_05_wrong_exports_are_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid *exported = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_export_fid(&fx->cq->fid, 0, NULL, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_export_fid(&fx->cq->fid, 1, &exported, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_control(&fx->cq->fid, FI_EXPORT_FID, NULL));
	KUNIT_EXPECT_NULL(test, exported);
}

static void peer_02_what_others_put_is_read_like_its_own(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_peer_cq *peer = export_of(test, fx->cq);
	struct fi_cq_tagged_entry entries[4];
	struct fi_cq_err_entry error = {};
	fi_addr_t from[4];
	u8 what[4];

	KUNIT_EXPECT_GE(test, peer->owner_ops->size, sizeof(struct fi_ops_cq_owner));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->cq, entries, 4));
	KUNIT_EXPECT_EQ(test, 0, put(peer, &what[0]));
	KUNIT_EXPECT_EQ(test, 0, fi_cq_read(fx->cq, NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, put(peer, &what[1]));
	KUNIT_EXPECT_EQ(test, 0, put_error(peer, &what[2], FI_ECANCELED));
	KUNIT_EXPECT_EQ(test, 0, put(peer, &what[3]));
	KUNIT_ASSERT_EQ(test, 2, fi_cq_readfrom(fx->cq, entries, 4, from));
	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_PTR_EQ(test, &what[i], entries[i].op_context);
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_TAGGED, entries[i].flags);
		KUNIT_EXPECT_EQ(test, 5, entries[i].len);
		KUNIT_EXPECT_EQ(test, 6, entries[i].data);
		KUNIT_EXPECT_EQ(test, 7, entries[i].tag);
		KUNIT_EXPECT_EQ(test, 8, from[i]);
	}
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL, fi_cq_read(fx->cq, entries, 4));
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL, fi_cq_read(fx->cq, NULL, 0));
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(fx->cq, &error, 0));
	KUNIT_EXPECT_PTR_EQ(test, &what[2], error.op_context);
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
	KUNIT_EXPECT_EQ(test, 3, error.olen);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_readerr(fx->cq, &error, 0));
	KUNIT_ASSERT_EQ(test, 1, fi_cq_read(fx->cq, entries, 4));
	KUNIT_EXPECT_PTR_EQ(test, &what[3], entries[0].op_context);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->cq, entries, 4));
	/* What is none. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, put_error(peer, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, put_error(peer, NULL, -FI_EINVAL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, peer->owner_ops->writeerr(peer, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, peer->owner_ops->write(NULL, NULL, 0, 0, NULL, 0, 0, 0));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->cq, entries, 4));
}

static void peer_02_a_full_queue_refuses_and_loses_nothing(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_cq_attr attr = { .size = 8, .format = FI_CQ_FORMAT_CONTEXT };
	struct fid_cq *cq = fx_cq(test, fx->domain, &attr);
	struct fid_peer_cq *peer = export_of(test, cq);
	unsigned long next = 1, read = 1;
	struct fi_cq_entry entry[3];

	for (int round = 0; round < 20; round++) {
		ssize_t found;

		while (!put(peer, (void *)next))
			next++;
		KUNIT_EXPECT_EQ(test, 8, next - read);
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, put(peer, (void *)next));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, put_error(peer, NULL, FI_EIO));
		found = fi_cq_read(cq, entry, 1 + round % 3);
		KUNIT_ASSERT_EQ(test, 1 + round % 3, found);
		for (int i = 0; i < found; i++)
			KUNIT_EXPECT_PTR_EQ(test, (void *)read++, entry[i].op_context);
	}
}

struct late {
	struct fid_peer_cq	*peer;
	struct fid_cq		*cq;
};

static int sleep_on(struct tr_thread *thread)
{
	struct late *late = thread->arg;
	struct fi_cq_tagged_entry entry = {};

	thread->result = fi_cq_sread(late->cq, &entry, 1, NULL, FX_WAIT_MS);
	if (thread->result == 1 && entry.op_context != late)
		thread->result = -FI_EIO;
	return 0;
}

static void peer_02_who_sleeps_is_woken(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct late late = { .peer = export_of(test, fx->cq), .cq = fx->cq };
	struct tr_thread *thread;

	for (int round = 0; round < 3; round++) {
		thread = tr_start(test, -1, sleep_on, &late);
		tr_until_asleep(test, thread);
		KUNIT_EXPECT_EQ(test, 0, put(late.peer, &late));
		KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
		KUNIT_EXPECT_EQ(test, 1, thread->result);
	}
}

struct handled {
	struct completion	called;
};

static void handled_call(struct fid_cq *cq, void *context)
{
	struct handled *handled = context;
	struct fi_cq_entry entry;

	while (fi_cq_read(cq, &entry, 1) == 1)
		;
	complete(&handled->called);
}

static void peer_02_a_handler_is_called(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct handled *handled = kunit_kzalloc(test, sizeof(*handled), GFP_KERNEL);
	struct fi_cq_attr attr = { .cq_event_handler = handled_call };
	struct fid_peer_cq *peer;
	struct fid_cq *cq;

	KUNIT_ASSERT_NOT_NULL(test, handled);
	init_completion(&handled->called);
	KUNIT_ASSERT_EQ(test, 0, fi_cq_open(fx->domain, &attr, &cq, handled));
	fx_defer_close(test, &cq->fid);
	peer = export_of(test, cq);
	for (int round = 0; round < 3; round++) {
		KUNIT_EXPECT_EQ(test, 0, put(peer, NULL));
		KUNIT_ASSERT_GT_MSG(test,
				    wait_for_completion_timeout(&handled->called,
								msecs_to_jiffies(FX_WAIT_MS)),
				    0, "the handler of round %d", round);
	}
}

static void close_01_an_exported_queue_is_busy(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_peer_cq *one = export_of(test, fx->cq), *other = export_of(test, fx->cq);
	struct fi_cq_tagged_entry entries[2];

	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->cq->fid));
	KUNIT_EXPECT_EQ(test, 0, put(one, one));
	KUNIT_EXPECT_EQ(test, 0, put(other, other));
	fx_close(test, &one->fid);
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->cq->fid));
	fx_close(test, &other->fid);
	/* What has been put is there all the same. */
	KUNIT_ASSERT_EQ(test, 2, fi_cq_read(fx->cq, entries, 2));
	KUNIT_EXPECT_PTR_EQ(test, (void *)one, entries[0].op_context);
	KUNIT_EXPECT_PTR_EQ(test, (void *)other, entries[1].op_context);
	fx_close(test, &fx->cq->fid);
}

/* Reads exactly so many from it, and says how many of them were receives. */
static int read_all(struct kunit *test, struct fid_cq *cq, int count)
{
	struct fi_cq_tagged_entry entry;
	int receives = 0;

	for (int i = 0; i < count; i++) {
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, cq, &entry, 1));
		receives += !!(entry.flags & FI_RECV);
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(cq, &entry, 1));
	return receives;
}

/* Connected endpoints and datagrams, of different domains, and the queue's own endpoints. */
static void peer_02_one_queue_for_all(struct kunit *test)
{
	struct kofi_fabric_fx *own = a_fabric(test), *fx = a_fabric(test);
	struct fid_peer_cq *peer = export_of(test, own->cq);
	struct ends *first = connect_ends(test, own, own->cq);
	struct ends *second = connect_ends(test, fx, peer_of(test, fx->domain, peer));
	struct kofi_rdm *a = rdm_make(test, NULL), *b = rdm_open(test, NULL);
	u8 *buf = tr_buffer(test, 2 * LEN);
	fi_addr_t to_a;

	a->cq = peer_of(test, a->domain, peer);
	rdm_start(test, a, 0);
	to_a = rdm_know(test, b, a);
	for (int i = 0; i < MANY / 4; i++) {
		receive(test, first, i);
		receive(test, second, i);
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(a, FI_ADDR_UNSPEC, buf, LEN, buf));
		send(test, first, i);
		send(test, second, i);
		KUNIT_ASSERT_EQ(test, 0, rdm_send(b, to_a, buf + LEN, LEN, buf));
		rdm_expect(test, b, buf, NULL);
	}
	KUNIT_EXPECT_EQ(test, 3 * MANY / 4, read_all(test, own->cq, 5 * MANY / 4));
	for (int i = 0; i < MANY / 4; i++) {
		KUNIT_EXPECT_MEMEQ(test, first->out + i * LEN, first->in + i * LEN, i + 1);
		KUNIT_EXPECT_MEMEQ(test, second->out + i * LEN, second->in + i * LEN, i + 1);
	}
	/* It was opened before its queue. */
	fx_close(test, &a->ep->fid);
}

/* More than there is room for in the owner's: who posts to the peer's has to wait. */
static void peer_02_a_small_queue_slows_its_peers(struct kunit *test)
{
	struct kofi_fabric_fx *fx = a_fabric(test);
	struct fi_cq_attr attr = { .size = 4, .format = FI_CQ_FORMAT_TAGGED };
	struct fid_cq *cq = fx_cq(test, fx->domain, &attr);
	struct fid_cq *peers = peer_of(test, fx->domain, export_of(test, cq));
	struct ends *ends = connect_ends(test, fx, peers);
	int left = 2 * MANY, next = 0;

	for (int i = 0; i < MANY; i++)
		receive(test, ends, i);
	for (int i = 0; i < MANY; i++)
		send(test, ends, i);
	while (left) {
		struct fi_cq_tagged_entry entries[3];
		ssize_t found = fx_wait_comp(test, cq, entries, 1);

		KUNIT_ASSERT_EQ(test, 1, found);
		if (entries[0].flags & FI_RECV)
			KUNIT_EXPECT_PTR_EQ(test, ends->in + next++ * LEN, entries[0].op_context);
		left--;
	}
	KUNIT_EXPECT_EQ(test, MANY, next);
}

struct writer {
	struct fid_peer_cq	*peer;
	unsigned long		count;
};

static int keep_writing(struct tr_thread *thread)
{
	struct writer *writer = thread->arg;

	while (!kthread_should_stop()) {
		ssize_t ret = put(writer->peer, writer);

		if (ret && ret != -FI_EAGAIN) {
			thread->result = ret;
			break;
		}
		if (!ret)
			writer->count++;
		cond_resched();
	}
	return 0;
}

/* While others put, the queue's own endpoints have their turn, and nothing is lost of either. */
static void peer_02_many_writers_and_its_own_endpoints(struct kunit *test)
{
	struct kofi_fabric_fx *fx = a_fabric(test);
	struct writer writers[2] = {};
	struct tr_thread *threads[2];
	struct fid_peer_cq *peer = export_of(test, fx->cq);
	struct ends *ends = connect_ends(test, fx, fx->cq);
	struct fi_cq_tagged_entry entries[5];
	unsigned long theirs = 0, end;
	int own = 0;
	ssize_t found;

	for (int i = 0; i < 2; i++) {
		writers[i].peer = peer;
		threads[i] = tr_start(test, i, keep_writing, &writers[i]);
	}
	for (int round = 0; round < 5; round++) {
		end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
		receive(test, ends, round);
		send(test, ends, round);
		while (own < 2 * (round + 1)) {
			KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
					      "its own completions have not come");
			found = fi_cq_read(fx->cq, entries, 1 + theirs % 5);
			for (ssize_t i = 0; i < found; i++) {
				bool is_theirs = entries[i].op_context == &writers[0] ||
						 entries[i].op_context == &writers[1];

				theirs += is_theirs;
				own += !is_theirs;
			}
			cond_resched();
		}
	}
	for (int i = 0; i < 2; i++) {
		tr_stop(test, threads[i]);
		KUNIT_EXPECT_EQ(test, 0, threads[i]->result);
	}
	while ((found = fi_cq_read(fx->cq, entries, 5)) > 0)
		theirs += found;
	KUNIT_EXPECT_EQ(test, writers[0].count + writers[1].count, theirs);
	KUNIT_EXPECT_GT(test, theirs, 0);
}

static struct kunit_case peer_cq_cases[] = {
	KUNIT_CASE(peer_01_who_has_no_owner),
	KUNIT_CASE(peer_01_a_consumer_who_locks_or_has_a_handler),
	KUNIT_CASE(peer_02_what_completes_goes_to_the_owner),
	KUNIT_CASE(peer_02_nothing_is_read_there),
	KUNIT_CASE(peer_02_an_owner_without_room_loses_nothing),
	KUNIT_CASE(peer_02_failures_go_there_too),
	KUNIT_CASE(peer_05_wrong_exports_are_refused),
	KUNIT_CASE(peer_02_what_others_put_is_read_like_its_own),
	KUNIT_CASE(peer_02_a_full_queue_refuses_and_loses_nothing),
	KUNIT_CASE(peer_02_who_sleeps_is_woken),
	KUNIT_CASE(peer_02_a_handler_is_called),
	KUNIT_CASE(close_01_an_exported_queue_is_busy),
	KUNIT_CASE(peer_02_one_queue_for_all),
	KUNIT_CASE(peer_02_a_small_queue_slows_its_peers),
	KUNIT_CASE_SLOW(peer_02_many_writers_and_its_own_endpoints),
	{}
};

static struct kunit_suite peer_cq_suite = {
	.name = "kofi_peer_cq",
	.test_cases = peer_cq_cases,
};

kunit_test_suite(peer_cq_suite);
