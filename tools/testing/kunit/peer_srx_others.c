// SPDX-License-Identifier: GPL-2.0
/*
 * Tests PEER 3 of CONTRACT: receive contexts of kOFI as peers of another
 * provider's context, whose receives are taken by messages of kOFI's endpoints.
 * peer_srx.c tests them as owners.
 */

#include "peer.h"
#include "rdm_srx.h"

#define LEN	64
#define MANY	8
#define PARTS	8

/* A receive posted to the owner, or an unexpected message that is queued there. */
struct item {
	struct list_head	list;
	struct fi_peer_rx_entry	entry;
	struct kvec		iov[PARTS];
	bool			tagged, queued;
	bool			has_receive;
	bool			starting, freed;	/* while starting, start() frees it */
};

/* An owner of another provider. */
struct owner {
	struct fid_peer_srx	srx;
	struct fi_ops_srx_owner	ops;
	spinlock_t		lock;
	struct list_head	receives, messages;
	int			entries;	/* held by the peer, or queued */
	int			waiting;
	int			refusals;	/* number of calls that still get -FI_ENOMEM */
	fi_addr_t		from;		/* of the last message */
	size_t			size;
	/* The queue that the consumer reads, if the endpoint's queue is a peer of another one. */
	struct fid_peer_cq	cq;
	struct fi_ops_cq_owner	cq_ops;
	int			reported;		/* number of completions reported */
	int			freed;		/* number of entries freed that had a receive */
	int			early;		/* of these, freed before their completion */
	bool			is_full;	/* the queue has no space */
};

static struct item *make_item(bool tagged)
{
	struct item *item = kzalloc_obj(*item, GFP_ATOMIC);

	if (item) {
		item->tagged = tagged;
		item->entry.flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG);
	}
	return item;
}

static bool matches(const struct item *receive, const struct item *message)
{
	return receive->tagged == message->tagged && receive->entry.tag == message->entry.tag;
}

static struct item *find(struct list_head *list, const struct item *other)
{
	struct item *item;

	list_for_each_entry(item, list, list)
		if (matches(item, other))
			return item;
	return NULL;
}

/* Copies the receive to the message's entry, and frees it. */
static void fill(struct fi_peer_rx_entry *entry, struct item *receive)
{
	struct item *item = container_of(entry, struct item, entry);

	memcpy(item->iov, receive->iov, sizeof(item->iov));
	entry->iov = item->iov;
	entry->count = receive->entry.count;
	entry->context = receive->entry.context;
	entry->flags = receive->entry.flags;
	item->has_receive = true;
	kfree(receive);
}

static int get(struct fid_peer_srx *srx, fi_addr_t addr, size_t size, bool tagged, u64 tag,
	       struct fi_peer_rx_entry **entry)
{
	struct owner *owner = container_of(srx, struct owner, srx);
	struct item *message = make_item(tagged), *receive;
	unsigned long irqs;

	if (!message)
		return -FI_ENOMEM;
	message->entry.srx = srx;
	message->entry.tag = tag;
	spin_lock_irqsave(&owner->lock, irqs);
	if (owner->refusals) {
		owner->refusals--;
		spin_unlock_irqrestore(&owner->lock, irqs);
		kfree(message);
		return -FI_ENOMEM;
	}
	owner->from = addr;
	owner->size = size;
	owner->entries++;
	receive = find(&owner->receives, message);
	if (receive)
		list_del(&receive->list);
	spin_unlock_irqrestore(&owner->lock, irqs);
	*entry = &message->entry;
	if (!receive)
		return -FI_ENOENT;
	fill(*entry, receive);
	return 0;
}

static int get_msg(struct fid_peer_srx *srx, fi_addr_t addr, size_t size,
		   struct fi_peer_rx_entry **entry)
{
	return get(srx, addr, size, false, 0, entry);
}

static int get_tag(struct fid_peer_srx *srx, fi_addr_t addr, u64 tag,
		   struct fi_peer_rx_entry **entry)
{
	return get(srx, addr, 0, true, tag, entry);
}

static int queue(struct fi_peer_rx_entry *entry)
{
	struct owner *owner = container_of(entry->srx, struct owner, srx);
	struct item *message = container_of(entry, struct item, entry);
	unsigned long irqs;

	spin_lock_irqsave(&owner->lock, irqs);
	list_add_tail(&message->list, &owner->messages);
	message->queued = true;
	/* Pairs with await_waiting(). */
	smp_store_release(&owner->waiting, owner->waiting + 1);
	spin_unlock_irqrestore(&owner->lock, irqs);
	return 0;
}

static void free_entry(struct fi_peer_rx_entry *entry)
{
	struct owner *owner = container_of(entry->srx, struct owner, srx);
	struct item *message = container_of(entry, struct item, entry);
	unsigned long irqs;
	bool is_last;

	spin_lock_irqsave(&owner->lock, irqs);
	owner->entries--;
	if (message->queued) {
		list_del(&message->list);
		owner->waiting--;
	}
	message->freed = true;
	is_last = !message->starting;
	if (message->has_receive) {
		owner->freed++;
		owner->early += owner->freed > owner->reported;
	}
	spin_unlock_irqrestore(&owner->lock, irqs);
	if (is_last)
		kfree(message);
}

static ssize_t report(struct owner *owner)
{
	ssize_t ret = -FI_EAGAIN;
	unsigned long irqs;

	spin_lock_irqsave(&owner->lock, irqs);
	if (!owner->is_full) {
		owner->reported++;
		ret = 0;
	}
	spin_unlock_irqrestore(&owner->lock, irqs);
	return ret;
}

static ssize_t write(struct fid_peer_cq *cq, void *context, u64 flags, size_t len, void *buf,
		     u64 data, u64 tag, fi_addr_t src)
{
	return report(container_of(cq, struct owner, cq));
}

static ssize_t writeerr(struct fid_peer_cq *cq, const struct fi_cq_err_entry *entry)
{
	return report(container_of(cq, struct owner, cq));
}

static void free_receives(void *arg)
{
	struct owner *owner = arg;
	struct item *item, *next;

	list_for_each_entry_safe(item, next, &owner->receives, list)
		kfree(item);
}

static struct owner *make_owner(struct kunit *test)
{
	struct owner *owner = kunit_kzalloc(test, sizeof(*owner), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, owner);
	owner->srx.ep_fid.fid.fclass = FI_CLASS_PEER_SRX;
	owner->srx.owner_ops = &owner->ops;
	owner->ops = (struct fi_ops_srx_owner){
		.size = sizeof(owner->ops),
		.get_msg = get_msg,
		.get_tag = get_tag,
		.queue_msg = queue,
		.queue_tag = queue,
		.free_entry = free_entry,
	};
	owner->cq.fid.fclass = FI_CLASS_PEER_CQ;
	owner->cq.owner_ops = &owner->cq_ops;
	owner->cq_ops = (struct fi_ops_cq_owner){
		.size = sizeof(owner->cq_ops),
		.write = write,
		.writeerr = writeerr,
	};
	spin_lock_init(&owner->lock);
	INIT_LIST_HEAD(&owner->receives);
	INIT_LIST_HEAD(&owner->messages);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_receives, owner));
	return owner;
}

/* Starts an entry; the peer's endpoint may be closed meanwhile, which frees it. */
static int start(struct owner *owner, struct item *message)
{
	struct fi_ops_srx_peer *ops = owner->srx.peer_ops;
	unsigned long irqs;
	bool is_last;
	int ret;

	ret = message->tagged ? ops->start_tag(&message->entry) : ops->start_msg(&message->entry);
	spin_lock_irqsave(&owner->lock, irqs);
	message->starting = false;
	is_last = message->freed;
	spin_unlock_irqrestore(&owner->lock, irqs);
	if (is_last)
		kfree(message);
	return ret;
}

/* Posts a receive of count pieces of len bytes from buf on; buf is the context. */
static int post_to_owner(struct owner *owner, bool tagged, u64 tag, u8 *buf, size_t len, int count)
{
	struct item *receive = make_item(tagged), *message;
	unsigned long irqs;

	if (!receive)
		return -FI_ENOMEM;
	receive->entry.tag = tag;
	receive->entry.context = buf;
	receive->entry.count = count;
	for (int i = 0; i < count; i++)
		receive->iov[i] = (struct kvec){ buf + i * len, len };
	spin_lock_irqsave(&owner->lock, irqs);
	message = find(&owner->messages, receive);
	if (message) {
		list_del(&message->list);
		message->queued = false;
		message->starting = true;
		owner->waiting--;
	} else {
		list_add_tail(&receive->list, &owner->receives);
	}
	spin_unlock_irqrestore(&owner->lock, irqs);
	if (!message)
		return 0;
	fill(&message->entry, receive);
	return start(owner, message);
}

static void post(struct kunit *test, struct owner *owner, bool tagged, u64 tag, u8 *buf, size_t len,
		 int count)
{
	KUNIT_ASSERT_EQ(test, 0, post_to_owner(owner, tagged, tag, buf, len, count));
}

static void await_waiting(struct kunit *test, struct owner *owner, int wanted)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	/* Pairs with the release of queue(). */
	while (smp_load_acquire(&owner->waiting) != wanted && time_before(jiffies, end))
		usleep_range(100, 500);
	KUNIT_ASSERT_EQ_MSG(test, wanted, owner->waiting,
			    "unexpected messages queued at the owner");
}

static void await_entries(struct kunit *test, struct owner *owner, int wanted)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (READ_ONCE(owner->entries) != wanted && time_before(jiffies, end))
		usleep_range(100, 500);
	KUNIT_ASSERT_EQ_MSG(test, wanted, owner->entries, "entries that are not freed");
}

static struct rs_world *world_of(struct kunit *test, struct owner *owner, u64 caps)
{
	struct rs_opts opts = { .owner = &owner->srx, .caps = caps };

	return rs_open(test, &opts);
}

static void peer_03_receives_of_another_provider_are_taken(struct kunit *test)
{
	u8 *out = tr_buffer(test, MANY * LEN), *in = tr_buffer(test, MANY * LEN);
	struct owner *owner = make_owner(test);
	struct rs_world *world = world_of(test, owner, FI_SOURCE);
	fi_addr_t from = rdm_addr(test, &world->member[1], world->sender[0]);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < MANY; i++)
		post(test, owner, i % 2, i % 2 ? i : 0, in + i * LEN, LEN / 2, 2);
	for (int i = 0; i < MANY; i++) {
		memset(out + i * LEN, i + 1, LEN);
		if (i % 2) {
			KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
				fi_tsend(world->sender[0]->ep, out + i * LEN, LEN, NULL,
					 world->to[0][1], i, out + i * LEN)));
		} else {
			rs_send(test, world, 0, 1, out + i * LEN, LEN);
		}
		rdm_expect(test, &world->member[1], in + i * LEN, &entry);
		KUNIT_EXPECT_EQ(test, FI_RECV | (i % 2 ? FI_TAGGED : FI_MSG), entry.flags);
		KUNIT_EXPECT_EQ(test, i % 2 ? i : 0, entry.tag);
		KUNIT_EXPECT_EQ(test, LEN, entry.len);
		KUNIT_EXPECT_MEMEQ(test, out + i * LEN, in + i * LEN, LEN);
		rdm_expect(test, world->sender[0], out + i * LEN, NULL);
		KUNIT_EXPECT_EQ(test, from, owner->from);
		KUNIT_EXPECT_EQ(test, i % 2 ? 0 : LEN, owner->size);
	}
	await_entries(test, owner, 0);
}

static void peer_03_unexpected_messages_are_queued_at_the_owner(struct kunit *test)
{
	u8 *out = tr_buffer(test, MANY * LEN), *in = tr_buffer(test, MANY * LEN);
	struct owner *owner = make_owner(test);
	struct rs_world *world = world_of(test, owner, 0);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < MANY; i++) {
		memset(out + i * LEN, i + 1, LEN);
		rs_send(test, world, 0, i % 2, out + i * LEN, LEN);
		rdm_expect(test, world->sender[0], out + i * LEN, NULL);
		await_waiting(test, owner, i + 1);
	}
	for (int i = 0; i < MANY; i++) {
		post(test, owner, false, 0, in + i * LEN, LEN, 1);
		rdm_expect(test, &world->member[i % 2], in + i * LEN, &entry);
		KUNIT_EXPECT_EQ(test, LEN, entry.len);
		KUNIT_EXPECT_MEMEQ(test, out + i * LEN, in + i * LEN, LEN);
	}
	await_entries(test, owner, 0);
}

#define LARGE	(1 << 20)

static void peer_03_long_and_truncated_messages(struct kunit *test)
{
	u8 *out = tr_buffer(test, LARGE), *in = tr_buffer(test, LARGE);
	struct owner *owner = make_owner(test);
	struct rs_world *world = world_of(test, owner, 0);
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;

	for (int late = 0; late < 2; late++) {
		tr_fill(out, LARGE, late);
		if (!late)
			post(test, owner, false, 0, in, LARGE, 1);
		rs_send(test, world, 0, 0, out, LARGE);
		if (late) {
			await_waiting(test, owner, 1);
			post(test, owner, false, 0, in, LARGE, 1);
		}
		rdm_expect(test, &world->member[0], in, &entry);
		KUNIT_EXPECT_EQ(test, LARGE, entry.len);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, LARGE, late));
		rdm_expect(test, world->sender[0], out, NULL);
	}
	/* The receive is too short; a receive of too many pieces has no space at all. */
	post(test, owner, false, 0, in, LEN / 2, 1);
	post(test, owner, false, 0, in, LEN / 4, 5);
	for (int i = 0; i < 2; i++) {
		rs_send(test, world, 0, 0, out, LEN);
		rdm_expect(test, world->sender[0], out, NULL);
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, world->member[0].cq, &error));
		KUNIT_EXPECT_EQ(test, FI_ETRUNC, error.err);
		KUNIT_EXPECT_PTR_EQ(test, in, error.op_context);
		KUNIT_EXPECT_EQ(test, i ? LEN : LEN / 2, error.olen);
	}
	await_entries(test, owner, 0);
}

static void peer_03_get_is_retried_after_enomem(struct kunit *test)
{
	u8 *out = tr_buffer(test, MANY * LEN), *in = tr_buffer(test, MANY * LEN);
	struct owner *owner = make_owner(test);
	struct rs_world *world = world_of(test, owner, 0);
	struct fi_cq_tagged_entry entry;

	owner->refusals = 10;
	for (int i = 0; i < MANY; i++) {
		memset(out + i * LEN, i + 1, LEN);
		rs_send(test, world, 0, 0, out + i * LEN, LEN);
		rdm_expect(test, world->sender[0], out + i * LEN, NULL);
	}
	await_waiting(test, owner, MANY);
	KUNIT_EXPECT_EQ(test, 0, owner->refusals);
	for (int i = 0; i < MANY; i++) {
		post(test, owner, false, 0, in + i * LEN, LEN, 1);
		rdm_expect(test, &world->member[0], in + i * LEN, &entry);
		KUNIT_EXPECT_MEMEQ(test, out + i * LEN, in + i * LEN, LEN);
	}
	/* An owner without memory delays messages for posted receives too. */
	owner->refusals = 10;
	post(test, owner, false, 0, in, LEN, 1);
	rs_send(test, world, 0, 0, out, LEN);
	rdm_expect(test, &world->member[0], in, &entry);
	rdm_expect(test, world->sender[0], out, NULL);
	await_entries(test, owner, 0);
}

static void peer_03_messages_are_discarded(struct kunit *test)
{
	u8 *out = tr_buffer(test, LARGE), *in = tr_buffer(test, LEN);
	struct owner *owner = make_owner(test);
	struct rs_world *world = world_of(test, owner, 0);
	struct fi_peer_rx_entry *entry;
	const size_t lens[] = { LEN, LARGE };
	struct item *message;

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		rs_send(test, world, 0, 0, out, lens[i]);
		await_waiting(test, owner, 1);
		message = list_first_entry(&owner->messages, struct item, list);
		list_del(&message->list);
		message->queued = false;
		owner->waiting = 0;
		entry = &message->entry;
		KUNIT_EXPECT_EQ(test, 0, owner->srx.peer_ops->discard_msg(entry));
		/* A discarded message still completes at its sender. */
		rdm_expect(test, world->sender[0], out, NULL);
		await_entries(test, owner, 0);
	}
	/* The next message is received. */
	post(test, owner, false, 0, in, LEN, 1);
	rs_send(test, world, 0, 0, out, LEN);
	rdm_expect(test, &world->member[0], in, NULL);
	rdm_expect(test, world->sender[0], out, NULL);
}

static void close_03_endpoints_with_messages_queued_at_the_owner(struct kunit *test)
{
	u8 *out = tr_buffer(test, LARGE), *in = tr_buffer(test, LEN);
	struct owner *owner = make_owner(test);
	struct rs_world *world = world_of(test, owner, 0);
	struct fi_peer_rx_entry foreign = {};

	rs_send(test, world, 0, 0, out, LEN);
	rs_send(test, world, 0, 1, out + LEN, LEN);
	await_waiting(test, owner, 2);
	/* Closing an endpoint frees its own entries; those of other endpoints stay. */
	fx_close(test, &world->member[0].ep->fid);
	KUNIT_EXPECT_EQ(test, 1, owner->waiting);
	KUNIT_EXPECT_EQ(test, 1, owner->entries);
	post(test, owner, false, 0, in, LEN, 1);
	rdm_expect(test, &world->member[1], in, NULL);
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&world->srx->fid));
	fx_close(test, &world->member[1].ep->fid);
	await_entries(test, owner, 0);
	/* Entries that the peer did not queue are refused. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, owner->srx.peer_ops->start_msg(&foreign));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, owner->srx.peer_ops->discard_tag(NULL));
	fx_close(test, &world->srx->fid);
	KUNIT_EXPECT_NULL(test, owner->srx.peer_ops);
}

/* An endpoint whose completions and receives belong to the owner. */
static struct rs_world *world_of_both(struct kunit *test, struct owner *owner)
{
	struct rs_opts opts = { .owner = &owner->srx, .members = 1 };
	struct rs_world *world = rs_open(test, &opts);
	struct kofi_rdm *member = &world->member[0];

	/* The queue has to be closed after the endpoint. */
	fx_close(test, &member->ep->fid);
	member->cq = peer_of(test, world->domain, &owner->cq);
	rs_open_ep(test, world, 0);
	return world;
}

static void await_reported(struct kunit *test, struct owner *owner, int wanted)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (READ_ONCE(owner->reported) < wanted && time_before(jiffies, end))
		usleep_range(100, 500);
	KUNIT_ASSERT_EQ_MSG(test, wanted, owner->reported,
			    "completions reported to the owner");
}

static void peer_06_an_entry_is_freed_after_its_completion(struct kunit *test)
{
	u8 *out = tr_buffer(test, LARGE), *in = tr_buffer(test, LARGE);
	struct owner *owner = make_owner(test);
	struct rs_world *world = world_of_both(test, owner);
	const size_t lens[] = { LEN, LARGE, 2 * LEN };
	int count = 0;

	/* Receives posted before and after the message arrives; the last message is too long. */
	for (int late = 0; late < 2; late++) {
		for (int i = 0; i < ARRAY_SIZE(lens); i++) {
			size_t space = i == 2 ? LEN : lens[i];

			if (!late)
				post(test, owner, false, 0, in, space, 1);
			rs_send(test, world, 0, 0, out, lens[i]);
			if (late) {
				await_waiting(test, owner, 1);
				post(test, owner, false, 0, in, space, 1);
			}
			rdm_expect(test, world->sender[0], out, NULL);
			await_reported(test, owner, ++count);
			await_entries(test, owner, 0);
		}
	}
	/* If the owner's queue has no space, the entry waits with its completion. */
	owner->is_full = true;
	post(test, owner, false, 0, in, LEN, 2);
	post(test, owner, false, 0, in, LEN, 1);
	for (int i = 0; i < 2; i++) {
		rs_send(test, world, 0, 0, out, LEN);
		rdm_expect(test, world->sender[0], out, NULL);
	}
	await_entries(test, owner, 2);
	msleep(20);
	KUNIT_EXPECT_EQ(test, 2, READ_ONCE(owner->entries));
	WRITE_ONCE(owner->is_full, false);
	await_reported(test, owner, count + 2);
	await_entries(test, owner, 0);
	KUNIT_EXPECT_EQ(test, 0, owner->early);
	/* Closing the endpoint drops completions that wait, and frees their entries. */
	owner->is_full = true;
	post(test, owner, false, 0, in, LEN, 1);
	rs_send(test, world, 0, 0, out, LEN);
	rdm_expect(test, world->sender[0], out, NULL);
	await_entries(test, owner, 1);
	fx_close(test, &world->member[0].ep->fid);
	KUNIT_EXPECT_EQ(test, 0, owner->entries);
	fx_close(test, &world->srx->fid);
	fx_close(test, &world->member[0].cq->fid);
	KUNIT_EXPECT_EQ(test, count + 2, owner->reported);
}

/* The peer fills the owner's struct for its calls; without one it sets its own struct. */
static void peer_06_calls_are_written_into_the_owners_struct(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct owner *owner = make_owner(test);
	struct fi_ops_srx_peer ops = { .size = sizeof(ops) + 8 };
	struct rs_world *world;

	owner->srx.peer_ops = &ops;
	world = world_of(test, owner, 0);
	KUNIT_ASSERT_PTR_EQ(test, &ops, owner->srx.peer_ops);
	KUNIT_EXPECT_EQ(test, sizeof(ops) + 8, ops.size);
	KUNIT_EXPECT_TRUE(test, ops.start_msg && ops.start_tag && ops.discard_msg && ops.discard_tag);
	rs_send(test, world, 0, 0, out, LEN);
	rdm_expect(test, world->sender[0], out, NULL);
	await_waiting(test, owner, 1);
	post(test, owner, false, 0, in, LEN, 1);
	rdm_expect(test, &world->member[0], in, NULL);
	await_entries(test, owner, 0);
	for (int i = 0; i < 2; i++)
		fx_close(test, &world->member[i].ep->fid);
	fx_close(test, &world->srx->fid);
	KUNIT_EXPECT_PTR_EQ(test, &ops, owner->srx.peer_ops);
	KUNIT_EXPECT_FALSE(test, ops.start_msg || ops.start_tag || ops.discard_msg || ops.discard_tag);
	/* The test owns the struct. */
	owner->srx.peer_ops = NULL;
}

#define RACED	((int)tr_rounds * 10)

/* Messages, which carry a number each, and the receive buffers. */
struct race {
	struct owner	*owner;
	struct rs_world	*world;
	u8		*out, *in;	/* RACED times LEN each */
};

static int post_all(struct tr_thread *thread)
{
	struct race *race = thread->arg;
	unsigned long irqs;

	for (int i = 0; i < RACED && !thread->result && !kthread_should_stop(); i++) {
		if (i % 16 == 0) {
			/* The owner has no memory for one message in 16 posts. */
			spin_lock_irqsave(&race->owner->lock, irqs);
			race->owner->refusals++;
			spin_unlock_irqrestore(&race->owner->lock, irqs);
		}
		thread->result = post_to_owner(race->owner, false, 0, race->in + i * LEN, LEN / 2,
					       2);
		/* The message's endpoint is closed: the test drops the receive. */
		if (thread->result == -FI_ENOENT)
			thread->result = 0;
		cond_resched();
	}
	return 0;
}

static int send_all(struct tr_thread *thread)
{
	struct race *race = thread->arg;
	struct kofi_rdm *sender = race->world->sender[0];
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	ssize_t ret;

	for (int i = 0; i < RACED && !kthread_should_stop(); i++) {
		u8 *from = race->out + i * LEN;

		thread->result = rdm_send(sender, race->world->to[0][i % 2], from, LEN, from);
		if (thread->result)
			return 0;
		/* Sends to closed endpoints fail. */
		do {
			ret = fi_cq_read(sender->cq, &entry, 1);
			error = (struct fi_cq_err_entry){};
			if (ret == -FI_EAVAIL)
				ret = fi_cq_readerr(sender->cq, &error, 0);
		} while (ret == 1);
		cond_resched();
	}
	return 0;
}

static u32 *number(u8 *message)
{
	return (u32 *)message;
}

/*
 * Each message is received once, by the endpoint that it was sent to; the
 * messages of an endpoint take receives in sending order. Their completions may
 * be in another order.
 */
static void race_receives_of_another_provider_on_two_cpus(struct kunit *test)
{
	struct race *race = (void *)tr_buffer(test, sizeof(*race));
	unsigned long end = jiffies + msecs_to_jiffies(4 * FX_WAIT_MS);
	struct tr_thread *threads[2];
	int next[2] = { 0, 1 };

	BUILD_BUG_ON(LEN % sizeof(u32));
	race->out = tr_vbuffer(test, RACED * LEN);
	race->in = tr_vbuffer(test, RACED * LEN);
	for (int i = 0; i < RACED; i++) {
		tr_fill(race->out + i * LEN, LEN, i);
		*number(race->out + i * LEN) = i;
	}
	race->owner = make_owner(test);
	race->world = world_of(test, race->owner, 0);
	threads[0] = tr_start(test, 0, post_all, race);
	threads[1] = tr_start(test, 1 % num_online_cpus(), send_all, race);
	for (int received = 0; received < RACED;) {
		struct fi_cq_tagged_entry entry;

		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "%d of %d have come", received,
				      RACED);
		for (int m = 0; m < 2; m++) {
			while (fi_cq_read(race->world->member[m].cq, &entry, 1) == 1) {
				KUNIT_ASSERT_EQ(test, LEN, entry.len);
				KUNIT_ASSERT_EQ(test, m, *number(entry.op_context) % 2);
				received++;
			}
		}
		usleep_range(20, 100);
	}
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join(test, threads[i]));
		KUNIT_EXPECT_EQ(test, 0, threads[i]->result);
	}
	await_entries(test, race->owner, 0);
	for (int i = 0; i < RACED; i++) {
		u8 *message = race->in + i * LEN;
		int m = *number(message) % 2;

		KUNIT_ASSERT_EQ(test, next[m], *number(message));
		KUNIT_ASSERT_MEMEQ(test, race->out + next[m] * LEN, message, LEN);
		next[m] += 2;
	}
}

/* Closing an endpoint may lose posted receives; its entries are not used afterwards. */
static void race_an_endpoint_closes_while_the_owner_posts(struct kunit *test)
{
	struct race *race = (void *)tr_buffer(test, sizeof(*race));
	struct tr_thread *threads[2];
	struct rs_world *world;

	race->out = tr_vbuffer(test, RACED * LEN);
	race->in = tr_vbuffer(test, RACED * LEN);
	race->owner = make_owner(test);
	race->world = world = world_of(test, race->owner, 0);
	threads[0] = tr_start(test, 0, post_all, race);
	threads[1] = tr_start(test, 1 % num_online_cpus(), send_all, race);
	for (int m = 0; m < 2; m++) {
		struct fi_cq_tagged_entry entry;

		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->member[m].cq, &entry, 1));
		fx_close(test, &world->member[m].ep->fid);
	}
	/* Sends to the closed endpoints fail, or get -FI_EAGAIN. */
	tr_stop(test, threads[1]);
	KUNIT_ASSERT_TRUE(test, tr_join(test, threads[0]));
	KUNIT_EXPECT_EQ(test, 0, threads[0]->result);
	await_entries(test, race->owner, 0);
	fx_close(test, &world->srx->fid);
}

static void peer_05_srx_contexts_without_an_owner_are_refused(struct kunit *test)
{
	struct owner *owner = make_owner(test);
	struct rs_world *world = rs_open(test, NULL);
	struct kofi_fabric_fx *fx = fx_open(test);
	const struct fi_peer_srx_context good = { .size = sizeof(good), .srx = &owner->srx };
	const struct fi_ops_srx_owner ops = owner->ops;
	struct fi_ops_srx_peer peer_ops = {};
	struct fi_peer_srx_context context;
	struct fi_rx_attr attr = { .op_flags = FI_PEER };
	struct fid_ep *srx = NULL;
	struct fid *exported = NULL;

#define REFUSED() do {									\
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,						\
			fi_srx_context(world->domain, &attr, &srx, &context));		\
	KUNIT_EXPECT_NULL(test, srx);							\
} while (0)

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_srx_context(world->domain, &attr, &srx, NULL));
	for (size_t size = 0; size < sizeof(context); size++) {
		context = good;
		context.size = size;
		REFUSED();
	}
	context = good;
	context.srx = NULL;
	REFUSED();
	context = good;
	for (size_t size = 0; size < sizeof(owner->ops); size++) {
		owner->ops.size = size;
		REFUSED();
	}
	owner->ops = ops;
	owner->ops.get_tag = NULL;
	REFUSED();
	owner->ops = ops;
	owner->ops.queue_msg = NULL;
	REFUSED();
	owner->ops = ops;
	owner->ops.free_entry = NULL;
	REFUSED();
	owner->ops = ops;
	owner->srx.owner_ops = NULL;
	REFUSED();
	owner->srx.owner_ops = &owner->ops;
	owner->srx.ep_fid.fid.fclass = FI_CLASS_SRX_CTX;
	REFUSED();
	owner->srx.ep_fid.fid.fclass = FI_CLASS_PEER_SRX;
	attr.op_flags = FI_PEER | FI_MULTI_RECV;
	REFUSED();
	attr.op_flags = FI_PEER;
	for (peer_ops.size = 0; peer_ops.size < sizeof(peer_ops); peer_ops.size++) {
		owner->srx.peer_ops = &peer_ops;
		REFUSED();
	}
	owner->srx.peer_ops = NULL;
	/* A device's shared receives have no peer. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_srx_context(fx->domain, &attr, &srx, &context));
	KUNIT_EXPECT_NULL(test, owner->srx.peer_ops);
	context.size += 64;
	owner->ops.size += 64;
	/* Opened as in fi_peer(3): with the attributes of the owner's context. */
	attr.op_flags = FI_PEER | FI_COMPLETION;
	attr.size = 64;
	attr.caps = FI_MSG | FI_TAGGED | FI_RECV;
	KUNIT_ASSERT_EQ(test, 0, fi_srx_context(world->domain, &attr, &srx, &context));
	KUNIT_EXPECT_NOT_NULL(test, owner->srx.peer_ops);
	/* A peer context cannot be exported. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_export_fid(&srx->fid, 0, &exported, NULL));
	KUNIT_EXPECT_NULL(test, exported);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&srx->fid));
#undef REFUSED
}

static struct kunit_case cases[] = {
	KUNIT_CASE(peer_03_receives_of_another_provider_are_taken),
	KUNIT_CASE(peer_03_unexpected_messages_are_queued_at_the_owner),
	KUNIT_CASE(peer_03_long_and_truncated_messages),
	KUNIT_CASE(peer_03_get_is_retried_after_enomem),
	KUNIT_CASE(peer_03_messages_are_discarded),
	KUNIT_CASE(peer_06_an_entry_is_freed_after_its_completion),
	KUNIT_CASE(peer_06_calls_are_written_into_the_owners_struct),
	KUNIT_CASE(close_03_endpoints_with_messages_queued_at_the_owner),
	KUNIT_CASE_SLOW(race_receives_of_another_provider_on_two_cpus),
	KUNIT_CASE_SLOW(race_an_endpoint_closes_while_the_owner_posts),
	KUNIT_CASE(peer_05_srx_contexts_without_an_owner_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_peer_srx_others",
	.test_cases = cases,
};

kunit_test_suite(suite);
