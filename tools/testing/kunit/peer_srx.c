// SPDX-License-Identifier: GPL-2.0
/*
 * Tests PEER 3 of CONTRACT: receive contexts of kOFI as owners, whose receives
 * are taken by messages of peers: of kOFI's and of another provider's.
 * peer_srx_others.c tests them as peers.
 */

#include "peer.h"
#include "rdm_srx.h"

#define LEN	64
#define MANY	16
/* Number of receives in the race of two threads. */
#define RACED	(50 * (int)tr_rounds)

static struct fid_peer_srx *export(struct kunit *test, struct fid_ep *srx)
{
	struct fid *fid = peer_export_fid(test, &srx->fid, FI_CLASS_PEER_SRX);

	return container_of(container_of(fid, struct fid_ep, fid), struct fid_peer_srx, ep_fid);
}

static void peer_03_endpoints_of_two_domains_share_receives(struct kunit *test)
{
	u8 *out = tr_buffer(test, MANY * LEN), *in = tr_buffer(test, MANY * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct rs_opts opts = { .members = 1, .owner = export(test, world->srx) };
	struct rs_world *peer = rs_open(test, &opts);
	struct rs_world *worlds[] = { world, peer };
	struct fi_cq_tagged_entry entry;

	/* Receives posted before and after the message arrives. */
	for (int late = 0; late < 2; late++) {
		if (!late)
			rs_post(test, world, in, LEN, MANY);
		for (int i = 0; i < MANY; i++) {
			struct rs_world *to = worlds[i % 2];
			struct kofi_rdm *member = &to->member[0];

			memset(out + i * LEN, i + 1 + late, LEN);
			rs_send(test, to, 0, 0, out + i * LEN, LEN);
			if (late) {
				rdm_expect(test, to->sender[0], out + i * LEN, NULL);
				rs_post(test, world, in + i * LEN, LEN, 1);
			}
			rdm_expect(test, member, in + i * LEN, &entry);
			KUNIT_EXPECT_EQ(test, LEN, entry.len);
			KUNIT_EXPECT_MEMEQ(test, out + i * LEN, in + i * LEN, LEN);
			if (!late)
				rdm_expect(test, to->sender[0], out + i * LEN, NULL);
		}
		KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	}
	/* Receives cannot be posted to the peer's context. */
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_recv(peer->srx, in, LEN, NULL, FI_ADDR_UNSPEC, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_trecv(peer->srx, in, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_rx_size_left(peer->srx));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cancel(&peer->srx->fid, in));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&world->srx->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&peer->srx->fid));
}

/* A peer of another provider, which handles entries only. */
struct peer {
	struct fid_peer_srx	*srx;
	struct fi_ops_srx_peer	ops;
	spinlock_t		lock;
	int			answer;		/* return value of start_msg() and start_tag() */
	bool			frees;		/* each entry that it gets */
	int			started, discarded;
	struct fi_peer_rx_entry	*last;		/* entry that it got */
};

static struct peer *the_peer;

static int record_entry(struct fi_peer_rx_entry *entry, int *count, int answer)
{
	struct peer *peer = the_peer;
	unsigned long irqs;

	spin_lock_irqsave(&peer->lock, irqs);
	peer->last = entry;
	spin_unlock_irqrestore(&peer->lock, irqs);
	if (peer->frees)
		peer->srx->owner_ops->free_entry(entry);
	/* Publishes the entry; pairs with await(). */
	smp_store_release(count, *count + 1);
	return answer;
}

static int peer_start(struct fi_peer_rx_entry *entry)
{
	return record_entry(entry, &the_peer->started, the_peer->answer);
}

static int peer_discard(struct fi_peer_rx_entry *entry)
{
	return record_entry(entry, &the_peer->discarded, 0);
}

static struct peer *make_peer(struct kunit *test, struct fid_ep *srx)
{
	struct peer *peer = kunit_kzalloc(test, sizeof(*peer), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, peer);
	peer->ops = (struct fi_ops_srx_peer){
		.size = sizeof(peer->ops),
		.start_msg = peer_start,
		.start_tag = peer_start,
		.discard_msg = peer_discard,
		.discard_tag = peer_discard,
	};
	spin_lock_init(&peer->lock);
	peer->srx = export(test, srx);
	peer->srx->peer_ops = &peer->ops;
	the_peer = peer;
	return peer;
}

static void await(struct kunit *test, const int *count, int wanted)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	/* Pairs with the release in record_entry(). */
	while (smp_load_acquire(count) < wanted && time_before(jiffies, end))
		usleep_range(100, 500);
	KUNIT_ASSERT_EQ_MSG(test, wanted, *count, "entries that the peer has received");
}

/* Queues an unexpected entry, with a tag or without one. */
static struct fi_peer_rx_entry *queue_unexpected(struct kunit *test, struct peer *peer, bool tagged)
{
	struct fi_ops_srx_owner *ops = peer->srx->owner_ops;
	struct fi_peer_rx_entry *entry = NULL;

	if (tagged) {
		KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_tag(peer->srx, FI_ADDR_NOTAVAIL, 7, &entry));
		KUNIT_ASSERT_EQ(test, 0, ops->queue_tag(entry));
	} else {
		KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_msg(peer->srx, FI_ADDR_NOTAVAIL, 9, &entry));
		KUNIT_ASSERT_EQ(test, 0, ops->queue_msg(entry));
	}
	return entry;
}

static void peer_03_get_returns_a_posted_receive(struct kunit *test)
{
	u8 *in = tr_buffer(test, 4 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct peer *peer = make_peer(test, world->srx);
	struct fi_ops_srx_owner *ops = peer->srx->owner_ops;
	struct kvec iov[] = { { in, 10 }, { in + LEN, 20 } };
	struct fi_msg_tagged msg = {
		.msg_iov = iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC, .tag = 7, .context = &msg,
	};
	struct fi_peer_rx_entry *entry = NULL, *tagged = NULL;

	KUNIT_EXPECT_GE(test, ops->size, sizeof(*ops));
	rs_post(test, world, in + 2 * LEN, LEN, 1);
	KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(world->srx, &msg, FI_COMPLETION));
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(peer->srx, 77, 9, &entry));
	KUNIT_EXPECT_PTR_EQ(test, peer->srx, entry->srx);
	KUNIT_EXPECT_EQ(test, 77, entry->addr);
	KUNIT_EXPECT_PTR_EQ(test, in + 2 * LEN, entry->context);
	KUNIT_EXPECT_EQ(test, LEN, entry->size);
	KUNIT_ASSERT_EQ(test, 1, entry->count);
	KUNIT_EXPECT_PTR_EQ(test, in + 2 * LEN, entry->iov[0].iov_base);
	KUNIT_EXPECT_EQ(test, LEN, entry->iov[0].iov_len);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry->flags & (FI_RECV | FI_MSG | FI_TAGGED));
	KUNIT_ASSERT_EQ(test, 0, ops->get_tag(peer->srx, FI_ADDR_NOTAVAIL, 7, &tagged));
	KUNIT_EXPECT_PTR_EQ(test, &msg, tagged->context);
	KUNIT_EXPECT_EQ(test, 7, tagged->tag);
	KUNIT_EXPECT_EQ(test, 30, tagged->size);
	KUNIT_ASSERT_EQ(test, 2, tagged->count);
	KUNIT_EXPECT_PTR_EQ(test, in + LEN, tagged->iov[1].iov_base);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_TAGGED | FI_COMPLETION, tagged->flags);
	/* A receive counts as posted until its entry is freed. */
	KUNIT_EXPECT_EQ(test, 2, rs_depth(world));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(entry));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&peer->srx->ep_fid.fid));
	ops->free_entry(tagged);
	KUNIT_EXPECT_EQ(test, 1, rs_depth(world));
	ops->free_entry(entry);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	ops->free_entry(NULL);
	/* An entry without a receive can be freed. */
	KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_msg(peer->srx, FI_ADDR_NOTAVAIL, 9, &entry));
	KUNIT_EXPECT_EQ(test, 9, entry->size);
	KUNIT_EXPECT_EQ(test, 0, entry->count);
	ops->free_entry(entry);
	KUNIT_EXPECT_EQ(test, 0, peer->started + peer->discarded);
}

static struct fid_mr *region(struct kunit *test, struct fid_domain *domain, void *buf, size_t len)
{
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(domain, buf, len, FI_RECV, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	return mr;
}

static void peer_06_an_entry_has_the_descriptors_of_its_receive(struct kunit *test)
{
	u8 *in = tr_buffer(test, 4 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	void *first = fi_mr_desc(region(test, world->domain, in, LEN));
	void *second = fi_mr_desc(region(test, world->domain, in + LEN, LEN));
	struct peer *peer = make_peer(test, world->srx);
	struct fi_ops_srx_owner *ops = peer->srx->owner_ops;
	/* A piece of 0 bytes is left out. */
	struct kvec iov[] = { { in, 10 }, { NULL, 0 }, { in + LEN, 20 } };
	void *desc[] = { first, NULL, second };
	struct fi_msg msg = { .msg_iov = iov, .desc = desc, .iov_count = 3, .context = &msg };
	struct fi_peer_rx_entry *entry, *late;

	KUNIT_ASSERT_NOT_NULL(test, first);
	KUNIT_ASSERT_PTR_NE(test, first, second);
	KUNIT_ASSERT_EQ(test, 0, fi_recv(world->srx, in, LEN, first, FI_ADDR_UNSPEC, in));
	KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(world->srx, &msg, 0));
	rs_post(test, world, in, LEN, 1);
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(peer->srx, 0, 9, &entry));
	KUNIT_ASSERT_NOT_NULL(test, entry->desc);
	KUNIT_EXPECT_PTR_EQ(test, first, entry->desc[0]);
	ops->free_entry(entry);
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(peer->srx, 0, 9, &entry));
	KUNIT_ASSERT_EQ(test, 2, entry->count);
	KUNIT_ASSERT_NOT_NULL(test, entry->desc);
	KUNIT_EXPECT_PTR_EQ(test, first, entry->desc[0]);
	KUNIT_EXPECT_PTR_EQ(test, second, entry->desc[1]);
	ops->free_entry(entry);
	/* A receive without descriptors. */
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(peer->srx, 0, 9, &entry));
	KUNIT_EXPECT_NULL(test, entry->desc);
	ops->free_entry(entry);
	/* If the message came first, its entry is freed; the next message gets the receive. */
	late = queue_unexpected(test, peer, false);
	peer->answer = -FI_ENOENT;
	KUNIT_ASSERT_EQ(test, 0,
			fi_recv(world->srx, in + LEN, LEN, second, FI_ADDR_UNSPEC, in));
	KUNIT_ASSERT_EQ(test, 1, peer->started);
	KUNIT_ASSERT_NOT_NULL(test, late->desc);
	KUNIT_EXPECT_PTR_EQ(test, second, late->desc[0]);
	ops->free_entry(late);
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(peer->srx, 0, 9, &entry));
	KUNIT_ASSERT_NOT_NULL(test, entry->desc);
	KUNIT_EXPECT_PTR_EQ(test, second, entry->desc[0]);
	ops->free_entry(entry);
}

/* The owner's struct is allocated; the peer writes its calls into it, or sets its own struct. */
static void peer_06_an_exported_srx_has_peer_ops(struct kunit *test)
{
	u8 *in = tr_buffer(test, LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct peer *peer = make_peer(test, world->srx);
	struct fid_peer_srx *other = export(test, world->srx);
	struct fi_ops_srx_peer *ops;

	fx_close(test, &peer->srx->ep_fid.fid);
	peer->srx = export(test, world->srx);
	ops = peer->srx->peer_ops;
	KUNIT_ASSERT_NOT_NULL(test, ops);
	KUNIT_ASSERT_GE(test, ops->size, sizeof(*ops));
	KUNIT_EXPECT_NULL(test, ops->start_msg);
	KUNIT_EXPECT_NULL(test, ops->start_tag);
	KUNIT_EXPECT_NULL(test, ops->discard_msg);
	KUNIT_EXPECT_NULL(test, ops->discard_tag);
	/* Each exported object has its own struct. */
	KUNIT_EXPECT_PTR_NE(test, ops, other->peer_ops);
	ops->start_msg = peer_start;
	ops->start_tag = peer_start;
	ops->discard_msg = peer_discard;
	ops->discard_tag = peer_discard;
	peer->frees = true;
	queue_unexpected(test, peer, false);
	rs_post(test, world, in, LEN, 1);
	KUNIT_EXPECT_EQ(test, 1, peer->started);
	queue_unexpected(test, peer, true);
	fx_close(test, &peer->srx->ep_fid.fid);
	KUNIT_EXPECT_EQ(test, 1, peer->discarded);
}

static void peer_03_unexpected_messages_of_all_keep_their_order(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, 3 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct peer *peer = make_peer(test, world->srx);
	struct fi_peer_rx_entry *first = queue_unexpected(test, peer, false), *second;
	struct fi_cq_tagged_entry entry;

	rs_send(test, world, 0, 0, out, LEN);
	rdm_expect(test, world->sender[0], out, NULL);
	second = queue_unexpected(test, peer, false);
	queue_unexpected(test, peer, true);
	/* The oldest unexpected message takes the receive. */
	rs_post(test, world, in, LEN, 1);
	KUNIT_EXPECT_EQ(test, 1, peer->started);
	KUNIT_EXPECT_PTR_EQ(test, first, peer->last);
	KUNIT_EXPECT_PTR_EQ(test, in, first->context);
	KUNIT_EXPECT_PTR_EQ(test, in, first->iov[0].iov_base);
	rs_post(test, world, in + LEN, LEN, 2);
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->member[0].cq, &entry, 1));
	await(test, &peer->started, 2);
	KUNIT_EXPECT_PTR_EQ(test, second, peer->last);
	KUNIT_EXPECT_PTR_NE(test, entry.op_context, second->context);
	peer->srx->owner_ops->free_entry(first);
	peer->srx->owner_ops->free_entry(second);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	/* Closing the exported object discards its queued entries. */
	peer->frees = true;
	fx_close(test, &peer->srx->ep_fid.fid);
	KUNIT_EXPECT_EQ(test, 1, peer->discarded);
	KUNIT_EXPECT_EQ(test, 2, peer->started);
}

static void peer_03_entries_that_are_freed_or_fail_to_start(struct kunit *test)
{
	u8 *in = tr_buffer(test, 4 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct peer *peer = make_peer(test, world->srx);
	struct fi_ops_srx_owner *ops = peer->srx->owner_ops;
	struct fi_peer_rx_entry *entry = queue_unexpected(test, peer, false), *next = NULL;

	/* A freed entry takes no receive: the next message gets it. */
	ops->free_entry(entry);
	rs_post(test, world, in, LEN, 1);
	KUNIT_EXPECT_EQ(test, 0, peer->started);
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(peer->srx, FI_ADDR_NOTAVAIL, 9, &next));
	ops->free_entry(next);
	/* If start_tag() fails, the receive is kept for the next message. */
	peer->answer = -FI_ENOENT;
	entry = queue_unexpected(test, peer, true);
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(world->srx, in, LEN, NULL, FI_ADDR_UNSPEC, 7, 0, in));
	KUNIT_EXPECT_EQ(test, 1, peer->started);
	ops->free_entry(entry);
	KUNIT_EXPECT_EQ(test, 1, rs_depth(world));
	KUNIT_ASSERT_EQ(test, 0, ops->get_tag(peer->srx, FI_ADDR_NOTAVAIL, 7, &next));
	KUNIT_EXPECT_PTR_EQ(test, in, next->context);
	ops->free_entry(next);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	/* start_tag() may free the entry itself. */
	peer->frees = true;
	queue_unexpected(test, peer, true);
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(world->srx, in, LEN, NULL, FI_ADDR_UNSPEC, 7, 0, in));
	KUNIT_EXPECT_EQ(test, 2, peer->started);
	KUNIT_EXPECT_EQ(test, 1, rs_depth(world));
	peer->answer = 0;
	KUNIT_ASSERT_EQ(test, 0, ops->get_tag(peer->srx, FI_ADDR_NOTAVAIL, 7, &next));
	ops->free_entry(next);
	queue_unexpected(test, peer, true);
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(world->srx, in, LEN, NULL, FI_ADDR_UNSPEC, 7, 0, in));
	KUNIT_EXPECT_EQ(test, 3, peer->started);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
}

/*
 * Entries of receives posted between get_msg() and queue_msg() start from an
 * interrupt: the peer may hold a lock in queue_msg() that its start_msg()
 * takes.
 */
static void peer_03_a_receive_posted_between_get_and_queue(struct kunit *test)
{
	u8 *in = tr_buffer(test, 2 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct peer *peer = make_peer(test, world->srx);
	struct fi_ops_srx_owner *ops = peer->srx->owner_ops;
	struct fi_peer_rx_entry *entry = NULL;
	unsigned long irqs;

	KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_msg(peer->srx, FI_ADDR_NOTAVAIL, 9, &entry));
	rs_post(test, world, in, LEN, 1);
	spin_lock_irqsave(&peer->lock, irqs);
	KUNIT_EXPECT_EQ(test, 0, ops->queue_msg(entry));
	KUNIT_EXPECT_EQ(test, 0, peer->started);
	spin_unlock_irqrestore(&peer->lock, irqs);
	await(test, &peer->started, 1);
	KUNIT_EXPECT_PTR_EQ(test, entry, peer->last);
	KUNIT_EXPECT_PTR_EQ(test, in, entry->context);
	ops->free_entry(entry);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
}

static void peer_05_invalid_entries_and_peer_ops_are_refused(struct kunit *test)
{
	struct rs_world *world = rs_open(test, NULL);
	struct peer *peer = make_peer(test, world->srx);
	struct fi_ops_srx_owner *ops = peer->srx->owner_ops;
	const struct fi_ops_srx_peer good = peer->ops;
	struct fi_peer_rx_entry *entry = NULL, *tagged = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->get_msg(NULL, 0, 1, &entry));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->get_msg(peer->srx, 0, 1, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->get_tag(peer->srx, 0, 1, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(NULL));
	KUNIT_EXPECT_NULL(test, entry);
	KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_msg(peer->srx, 0, 1, &entry));
	KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_tag(peer->srx, 0, 1, &tagged));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_tag(entry));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(tagged));
	/* A peer with missing calls cannot queue entries. */
	for (size_t size = 0; size < sizeof(peer->ops); size++) {
		peer->ops.size = size;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(entry));
	}
	peer->ops = good;
	peer->ops.start_msg = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(entry));
	peer->ops = good;
	peer->ops.discard_tag = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_tag(tagged));
	peer->srx->peer_ops = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(entry));
	peer->srx->peer_ops = &peer->ops;
	peer->ops = good;
	peer->ops.size += 64;
	KUNIT_EXPECT_EQ(test, 0, ops->queue_msg(entry));
	KUNIT_EXPECT_EQ(test, 0, ops->queue_tag(tagged));
	ops->free_entry(entry);
	ops->free_entry(tagged);
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_recv(&peer->srx->ep_fid, NULL, 0, NULL, 0, NULL));
}

/* Peer callback of the race: race_messages() may free the entry meanwhile. */
static int race_start(struct fi_peer_rx_entry *entry)
{
	struct peer *peer = the_peer;
	unsigned long irqs;
	bool is_mine;

	spin_lock_irqsave(&peer->lock, irqs);
	is_mine = peer->last == entry;
	if (is_mine) {
		peer->last = NULL;
		peer->started++;
	}
	spin_unlock_irqrestore(&peer->lock, irqs);
	/* The thread that removed the entry from guest->last frees it. */
	if (!is_mine)
		return -FI_ENOENT;
	peer->srx->owner_ops->free_entry(entry);
	return 0;
}

static struct fi_peer_rx_entry *swap_last(struct peer *peer, struct fi_peer_rx_entry *entry)
{
	struct fi_peer_rx_entry *last;
	unsigned long irqs;

	spin_lock_irqsave(&peer->lock, irqs);
	last = peer->last;
	peer->last = entry;
	spin_unlock_irqrestore(&peer->lock, irqs);
	return last;
}

static int race_messages(struct tr_thread *thread)
{
	struct peer *peer = thread->arg;
	struct fi_ops_srx_owner *ops = peer->srx->owner_ops;

	for (int i = 0; !kthread_should_stop(); i++) {
		struct fi_peer_rx_entry *entry;

		cond_resched();
		if (!ops->get_msg(peer->srx, FI_ADDR_NOTAVAIL, 1, &entry)) {
			ops->free_entry(entry);
			thread->result++;
			continue;
		}
		swap_last(peer, entry);
		if (!ops->queue_msg(entry))
			for (int spins = i % 64; spins--;)
				cpu_relax();
		entry = swap_last(peer, NULL);
		if (entry)
			ops->free_entry(entry);
	}
	return 0;
}

static void race_receives_and_get_msg_on_two_cpus(struct kunit *test)
{
	u8 *in = tr_buffer(test, LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct peer *peer = make_peer(test, world->srx);
	struct tr_thread *thread;
	int posted = 0;
	unsigned long end;

	peer->ops.start_msg = race_start;
	thread = tr_start(test, 1, race_messages, peer);
	end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	while (posted < RACED && time_before(jiffies, end)) {
		int ret = fi_recv(world->srx, in, LEN, NULL, FI_ADDR_UNSPEC, NULL);

		if (ret)
			KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
		else
			posted++;
		cond_resched();
	}
	KUNIT_EXPECT_EQ_MSG(test, RACED, posted, "receives posted before the timeout");
	tr_stop(test, thread);
	/* Each receive has been taken once, or is still posted. */
	KUNIT_EXPECT_EQ(test, posted, thread->result + peer->started + rs_depth(world));
	fx_close(test, &peer->srx->ep_fid.fid);
	KUNIT_EXPECT_EQ(test, posted, thread->result + peer->started + rs_depth(world));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(peer_03_endpoints_of_two_domains_share_receives),
	KUNIT_CASE(peer_03_get_returns_a_posted_receive),
	KUNIT_CASE(peer_06_an_entry_has_the_descriptors_of_its_receive),
	KUNIT_CASE(peer_06_an_exported_srx_has_peer_ops),
	KUNIT_CASE(peer_03_unexpected_messages_of_all_keep_their_order),
	KUNIT_CASE(peer_03_entries_that_are_freed_or_fail_to_start),
	KUNIT_CASE(peer_03_a_receive_posted_between_get_and_queue),
	KUNIT_CASE(peer_05_invalid_entries_and_peer_ops_are_refused),
	KUNIT_CASE(race_receives_and_get_msg_on_two_cpus),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_peer_srx",
	.test_cases = cases,
};

kunit_test_suite(suite);
