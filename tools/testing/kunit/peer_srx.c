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
#define MOST	(50 * (int)tr_rounds)

static struct fid_peer_srx *export(struct kunit *test, struct fid_ep *srx)
{
	struct fid *fid = peer_export_fid(test, &srx->fid, FI_CLASS_PEER_SRX);

	return container_of(container_of(fid, struct fid_ep, fid), struct fid_peer_srx, ep_fid);
}

static void peer_03_endpoints_of_two_domains_take_from_one(struct kunit *test)
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
struct guest {
	struct fid_peer_srx	*srx;
	struct fi_ops_srx_peer	ops;
	spinlock_t		lock;
	int			answer;		/* return value of start_msg() and start_tag() */
	bool			frees;		/* each entry that it gets */
	int			started, discarded;
	struct fi_peer_rx_entry	*last;		/* entry that it got */
};

static struct guest *the_guest;

static int given(struct fi_peer_rx_entry *entry, int *count, int answer)
{
	struct guest *guest = the_guest;
	unsigned long irqs;

	spin_lock_irqsave(&guest->lock, irqs);
	guest->last = entry;
	spin_unlock_irqrestore(&guest->lock, irqs);
	if (guest->frees)
		guest->srx->owner_ops->free_entry(entry);
	/* Publishes the entry; pairs with await(). */
	smp_store_release(count, *count + 1);
	return answer;
}

static int guest_start(struct fi_peer_rx_entry *entry)
{
	return given(entry, &the_guest->started, the_guest->answer);
}

static int guest_discard(struct fi_peer_rx_entry *entry)
{
	return given(entry, &the_guest->discarded, 0);
}

static struct guest *a_guest(struct kunit *test, struct fid_ep *srx)
{
	struct guest *guest = kunit_kzalloc(test, sizeof(*guest), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, guest);
	guest->ops = (struct fi_ops_srx_peer){
		.size = sizeof(guest->ops),
		.start_msg = guest_start,
		.start_tag = guest_start,
		.discard_msg = guest_discard,
		.discard_tag = guest_discard,
	};
	spin_lock_init(&guest->lock);
	guest->srx = export(test, srx);
	guest->srx->peer_ops = &guest->ops;
	the_guest = guest;
	return guest;
}

static void await(struct kunit *test, const int *count, int wanted)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	/* Pairs with the release in record_entry(). */
	while (smp_load_acquire(count) < wanted && time_before(jiffies, end))
		usleep_range(100, 500);
	KUNIT_ASSERT_EQ_MSG(test, wanted, *count, "entries that were given to the peer");
}

/* Queues an unexpected entry, with a tag or without one. */
static struct fi_peer_rx_entry *waiting(struct kunit *test, struct guest *guest, bool tagged)
{
	struct fi_ops_srx_owner *ops = guest->srx->owner_ops;
	struct fi_peer_rx_entry *entry = NULL;

	if (tagged) {
		KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_tag(guest->srx, FI_ADDR_NOTAVAIL, 7, &entry));
		KUNIT_ASSERT_EQ(test, 0, ops->queue_tag(entry));
	} else {
		KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_msg(guest->srx, FI_ADDR_NOTAVAIL, 9, &entry));
		KUNIT_ASSERT_EQ(test, 0, ops->queue_msg(entry));
	}
	return entry;
}

static void peer_03_what_has_been_posted_is_got(struct kunit *test)
{
	u8 *in = tr_buffer(test, 4 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct guest *guest = a_guest(test, world->srx);
	struct fi_ops_srx_owner *ops = guest->srx->owner_ops;
	struct kvec iov[] = { { in, 10 }, { in + LEN, 20 } };
	struct fi_msg_tagged msg = {
		.msg_iov = iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC, .tag = 7, .context = &msg,
	};
	struct fi_peer_rx_entry *entry = NULL, *tagged = NULL;

	KUNIT_EXPECT_GE(test, ops->size, sizeof(*ops));
	rs_post(test, world, in + 2 * LEN, LEN, 1);
	KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(world->srx, &msg, FI_COMPLETION));
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(guest->srx, 77, 9, &entry));
	KUNIT_EXPECT_PTR_EQ(test, guest->srx, entry->srx);
	KUNIT_EXPECT_EQ(test, 77, entry->addr);
	KUNIT_EXPECT_PTR_EQ(test, in + 2 * LEN, entry->context);
	KUNIT_EXPECT_EQ(test, LEN, entry->size);
	KUNIT_ASSERT_EQ(test, 1, entry->count);
	KUNIT_EXPECT_PTR_EQ(test, in + 2 * LEN, entry->iov[0].iov_base);
	KUNIT_EXPECT_EQ(test, LEN, entry->iov[0].iov_len);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry->flags & (FI_RECV | FI_MSG | FI_TAGGED));
	KUNIT_ASSERT_EQ(test, 0, ops->get_tag(guest->srx, FI_ADDR_NOTAVAIL, 7, &tagged));
	KUNIT_EXPECT_PTR_EQ(test, &msg, tagged->context);
	KUNIT_EXPECT_EQ(test, 7, tagged->tag);
	KUNIT_EXPECT_EQ(test, 30, tagged->size);
	KUNIT_ASSERT_EQ(test, 2, tagged->count);
	KUNIT_EXPECT_PTR_EQ(test, in + LEN, tagged->iov[1].iov_base);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_TAGGED | FI_COMPLETION, tagged->flags);
	/* A receive counts as posted until its entry is freed. */
	KUNIT_EXPECT_EQ(test, 2, rs_depth(world));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(entry));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&guest->srx->ep_fid.fid));
	ops->free_entry(tagged);
	KUNIT_EXPECT_EQ(test, 1, rs_depth(world));
	ops->free_entry(entry);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	ops->free_entry(NULL);
	/* An entry without a receive can be freed. */
	KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_msg(guest->srx, FI_ADDR_NOTAVAIL, 9, &entry));
	KUNIT_EXPECT_EQ(test, 9, entry->size);
	KUNIT_EXPECT_EQ(test, 0, entry->count);
	ops->free_entry(entry);
	KUNIT_EXPECT_EQ(test, 0, guest->started + guest->discarded);
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
	struct guest *guest = a_guest(test, world->srx);
	struct fi_ops_srx_owner *ops = guest->srx->owner_ops;
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
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(guest->srx, 0, 9, &entry));
	KUNIT_ASSERT_NOT_NULL(test, entry->desc);
	KUNIT_EXPECT_PTR_EQ(test, first, entry->desc[0]);
	ops->free_entry(entry);
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(guest->srx, 0, 9, &entry));
	KUNIT_ASSERT_EQ(test, 2, entry->count);
	KUNIT_ASSERT_NOT_NULL(test, entry->desc);
	KUNIT_EXPECT_PTR_EQ(test, first, entry->desc[0]);
	KUNIT_EXPECT_PTR_EQ(test, second, entry->desc[1]);
	ops->free_entry(entry);
	/* A receive without descriptors. */
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(guest->srx, 0, 9, &entry));
	KUNIT_EXPECT_NULL(test, entry->desc);
	ops->free_entry(entry);
	/* If the message came first, its entry is freed; the next message gets the receive. */
	late = waiting(test, guest, false);
	guest->answer = -FI_ENOENT;
	KUNIT_ASSERT_EQ(test, 0, fi_recv(world->srx, in, LEN, second, FI_ADDR_UNSPEC, in));
	KUNIT_ASSERT_EQ(test, 1, guest->started);
	KUNIT_ASSERT_NOT_NULL(test, late->desc);
	KUNIT_EXPECT_PTR_EQ(test, second, late->desc[0]);
	ops->free_entry(late);
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(guest->srx, 0, 9, &entry));
	KUNIT_ASSERT_NOT_NULL(test, entry->desc);
	KUNIT_EXPECT_PTR_EQ(test, second, entry->desc[0]);
	ops->free_entry(entry);
}

/* The owner's struct is allocated; the peer writes its calls into it, or sets its own struct. */
static void peer_06_an_exported_form_has_a_struct_for_the_peers_calls(struct kunit *test)
{
	u8 *in = tr_buffer(test, LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct guest *guest = a_guest(test, world->srx);
	struct fid_peer_srx *other = export(test, world->srx);
	struct fi_ops_srx_peer *ops;

	fx_close(test, &guest->srx->ep_fid.fid);
	guest->srx = export(test, world->srx);
	ops = guest->srx->peer_ops;
	KUNIT_ASSERT_NOT_NULL(test, ops);
	KUNIT_ASSERT_GE(test, ops->size, sizeof(*ops));
	KUNIT_EXPECT_NULL(test, ops->start_msg);
	KUNIT_EXPECT_NULL(test, ops->start_tag);
	KUNIT_EXPECT_NULL(test, ops->discard_msg);
	KUNIT_EXPECT_NULL(test, ops->discard_tag);
	/* Each exported object has its own struct. */
	KUNIT_EXPECT_PTR_NE(test, ops, other->peer_ops);
	ops->start_msg = guest_start;
	ops->start_tag = guest_start;
	ops->discard_msg = guest_discard;
	ops->discard_tag = guest_discard;
	guest->frees = true;
	waiting(test, guest, false);
	rs_post(test, world, in, LEN, 1);
	KUNIT_EXPECT_EQ(test, 1, guest->started);
	waiting(test, guest, true);
	fx_close(test, &guest->srx->ep_fid.fid);
	KUNIT_EXPECT_EQ(test, 1, guest->discarded);
}

static void peer_03_those_of_all_wait_together(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, 3 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct guest *guest = a_guest(test, world->srx);
	struct fi_peer_rx_entry *first = waiting(test, guest, false), *second;
	struct fi_cq_tagged_entry entry;

	rs_send(test, world, 0, 0, out, LEN);
	rdm_expect(test, world->sender[0], out, NULL);
	second = waiting(test, guest, false);
	waiting(test, guest, true);
	/* The oldest unexpected message takes the receive. */
	rs_post(test, world, in, LEN, 1);
	KUNIT_EXPECT_EQ(test, 1, guest->started);
	KUNIT_EXPECT_PTR_EQ(test, first, guest->last);
	KUNIT_EXPECT_PTR_EQ(test, in, first->context);
	KUNIT_EXPECT_PTR_EQ(test, in, first->iov[0].iov_base);
	rs_post(test, world, in + LEN, LEN, 2);
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, world->member[0].cq, &entry, 1));
	await(test, &guest->started, 2);
	KUNIT_EXPECT_PTR_EQ(test, second, guest->last);
	KUNIT_EXPECT_PTR_NE(test, entry.op_context, second->context);
	guest->srx->owner_ops->free_entry(first);
	guest->srx->owner_ops->free_entry(second);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	/* Closing the exported object discards its queued entries. */
	guest->frees = true;
	fx_close(test, &guest->srx->ep_fid.fid);
	KUNIT_EXPECT_EQ(test, 1, guest->discarded);
	KUNIT_EXPECT_EQ(test, 2, guest->started);
}

static void peer_03_what_does_not_come_any_more(struct kunit *test)
{
	u8 *in = tr_buffer(test, 4 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct guest *guest = a_guest(test, world->srx);
	struct fi_ops_srx_owner *ops = guest->srx->owner_ops;
	struct fi_peer_rx_entry *entry = waiting(test, guest, false), *next = NULL;

	/* A freed entry takes no receive: the next message gets it. */
	ops->free_entry(entry);
	rs_post(test, world, in, LEN, 1);
	KUNIT_EXPECT_EQ(test, 0, guest->started);
	KUNIT_ASSERT_EQ(test, 0, ops->get_msg(guest->srx, FI_ADDR_NOTAVAIL, 9, &next));
	ops->free_entry(next);
	/* If start_tag() fails, the receive is kept for the next message. */
	guest->answer = -FI_ENOENT;
	entry = waiting(test, guest, true);
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(world->srx, in, LEN, NULL, FI_ADDR_UNSPEC, 7, 0, in));
	KUNIT_EXPECT_EQ(test, 1, guest->started);
	ops->free_entry(entry);
	KUNIT_EXPECT_EQ(test, 1, rs_depth(world));
	KUNIT_ASSERT_EQ(test, 0, ops->get_tag(guest->srx, FI_ADDR_NOTAVAIL, 7, &next));
	KUNIT_EXPECT_PTR_EQ(test, in, next->context);
	ops->free_entry(next);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
	/* start_tag() may free the entry itself. */
	guest->frees = true;
	waiting(test, guest, true);
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(world->srx, in, LEN, NULL, FI_ADDR_UNSPEC, 7, 0, in));
	KUNIT_EXPECT_EQ(test, 2, guest->started);
	KUNIT_EXPECT_EQ(test, 1, rs_depth(world));
	guest->answer = 0;
	KUNIT_ASSERT_EQ(test, 0, ops->get_tag(guest->srx, FI_ADDR_NOTAVAIL, 7, &next));
	ops->free_entry(next);
	waiting(test, guest, true);
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(world->srx, in, LEN, NULL, FI_ADDR_UNSPEC, 7, 0, in));
	KUNIT_EXPECT_EQ(test, 3, guest->started);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
}

/*
 * Entries of receives posted between get_msg() and queue_msg() start from an
 * interrupt: the peer may hold a lock in queue_msg() that its start_msg()
 * takes.
 */
static void peer_03_what_comes_between_get_and_queue(struct kunit *test)
{
	u8 *in = tr_buffer(test, 2 * LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct guest *guest = a_guest(test, world->srx);
	struct fi_ops_srx_owner *ops = guest->srx->owner_ops;
	struct fi_peer_rx_entry *entry = NULL;
	unsigned long irqs;

	KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_msg(guest->srx, FI_ADDR_NOTAVAIL, 9, &entry));
	rs_post(test, world, in, LEN, 1);
	spin_lock_irqsave(&guest->lock, irqs);
	KUNIT_EXPECT_EQ(test, 0, ops->queue_msg(entry));
	KUNIT_EXPECT_EQ(test, 0, guest->started);
	spin_unlock_irqrestore(&guest->lock, irqs);
	await(test, &guest->started, 1);
	KUNIT_EXPECT_PTR_EQ(test, entry, guest->last);
	KUNIT_EXPECT_PTR_EQ(test, in, entry->context);
	ops->free_entry(entry);
	KUNIT_EXPECT_EQ(test, 0, rs_depth(world));
}

static void peer_05_entries_and_calls_that_are_wrong(struct kunit *test)
{
	struct rs_world *world = rs_open(test, NULL);
	struct guest *guest = a_guest(test, world->srx);
	struct fi_ops_srx_owner *ops = guest->srx->owner_ops;
	const struct fi_ops_srx_peer good = guest->ops;
	struct fi_peer_rx_entry *entry = NULL, *tagged = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->get_msg(NULL, 0, 1, &entry));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->get_msg(guest->srx, 0, 1, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->get_tag(guest->srx, 0, 1, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(NULL));
	KUNIT_EXPECT_NULL(test, entry);
	KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_msg(guest->srx, 0, 1, &entry));
	KUNIT_ASSERT_EQ(test, -FI_ENOENT, ops->get_tag(guest->srx, 0, 1, &tagged));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_tag(entry));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(tagged));
	/* A peer with missing calls cannot queue entries. */
	for (size_t size = 0; size < sizeof(guest->ops); size++) {
		guest->ops.size = size;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(entry));
	}
	guest->ops = good;
	guest->ops.start_msg = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(entry));
	guest->ops = good;
	guest->ops.discard_tag = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_tag(tagged));
	guest->srx->peer_ops = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, ops->queue_msg(entry));
	guest->srx->peer_ops = &guest->ops;
	guest->ops = good;
	guest->ops.size += 64;
	KUNIT_EXPECT_EQ(test, 0, ops->queue_msg(entry));
	KUNIT_EXPECT_EQ(test, 0, ops->queue_tag(tagged));
	ops->free_entry(entry);
	ops->free_entry(tagged);
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_recv(&guest->srx->ep_fid, NULL, 0, NULL, 0, NULL));
}

/* Peer callback of the race: race_messages() may free the entry meanwhile. */
static int race_start(struct fi_peer_rx_entry *entry)
{
	struct guest *guest = the_guest;
	unsigned long irqs;
	bool is_mine;

	spin_lock_irqsave(&guest->lock, irqs);
	is_mine = guest->last == entry;
	if (is_mine) {
		guest->last = NULL;
		guest->started++;
	}
	spin_unlock_irqrestore(&guest->lock, irqs);
	/* The thread that removed the entry from guest->last frees it. */
	if (!is_mine)
		return -FI_ENOENT;
	guest->srx->owner_ops->free_entry(entry);
	return 0;
}

static struct fi_peer_rx_entry *swap_last(struct guest *guest, struct fi_peer_rx_entry *entry)
{
	struct fi_peer_rx_entry *last;
	unsigned long irqs;

	spin_lock_irqsave(&guest->lock, irqs);
	last = guest->last;
	guest->last = entry;
	spin_unlock_irqrestore(&guest->lock, irqs);
	return last;
}

static int race_messages(struct tr_thread *thread)
{
	struct guest *guest = thread->arg;
	struct fi_ops_srx_owner *ops = guest->srx->owner_ops;

	for (int i = 0; !kthread_should_stop(); i++) {
		struct fi_peer_rx_entry *entry;

		cond_resched();
		if (!ops->get_msg(guest->srx, FI_ADDR_NOTAVAIL, 1, &entry)) {
			ops->free_entry(entry);
			thread->result++;
			continue;
		}
		swap_last(guest, entry);
		if (!ops->queue_msg(entry))
			for (int spins = i % 64; spins--;)
				cpu_relax();
		entry = swap_last(guest, NULL);
		if (entry)
			ops->free_entry(entry);
	}
	return 0;
}

static void race_posted_and_got_on_two_cpus(struct kunit *test)
{
	u8 *in = tr_buffer(test, LEN);
	struct rs_world *world = rs_open(test, NULL);
	struct guest *guest = a_guest(test, world->srx);
	struct tr_thread *thread;
	int posted = 0;
	unsigned long end;

	guest->ops.start_msg = race_start;
	thread = tr_start(test, 1, race_messages, guest);
	end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	while (posted < MOST && time_before(jiffies, end)) {
		int ret = fi_recv(world->srx, in, LEN, NULL, FI_ADDR_UNSPEC, NULL);

		if (ret)
			KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
		else
			posted++;
		cond_resched();
	}
	KUNIT_EXPECT_EQ_MSG(test, MOST, posted, "receives that were posted in time");
	tr_stop(test, thread);
	/* Each receive has been taken once, or is still posted. */
	KUNIT_EXPECT_EQ(test, posted, thread->result + guest->started + rs_depth(world));
	fx_close(test, &guest->srx->ep_fid.fid);
	KUNIT_EXPECT_EQ(test, posted, thread->result + guest->started + rs_depth(world));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(peer_03_endpoints_of_two_domains_take_from_one),
	KUNIT_CASE(peer_03_what_has_been_posted_is_got),
	KUNIT_CASE(peer_06_an_entry_has_the_descriptors_of_its_receive),
	KUNIT_CASE(peer_06_an_exported_form_has_a_struct_for_the_peers_calls),
	KUNIT_CASE(peer_03_those_of_all_wait_together),
	KUNIT_CASE(peer_03_what_does_not_come_any_more),
	KUNIT_CASE(peer_03_what_comes_between_get_and_queue),
	KUNIT_CASE(peer_05_entries_and_calls_that_are_wrong),
	KUNIT_CASE(race_posted_and_got_on_two_cpus),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_peer_srx",
	.test_cases = cases,
};

kunit_test_suite(suite);
