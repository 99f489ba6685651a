// SPDX-License-Identifier: GPL-2.0
/*
 * Tests PEER of CONTRACT: completion queues of kOFI as peers of another
 * provider's queue. peer_owner.c tests them as owners.
 */

#include <linux/delay.h>

#include "peer.h"

#define LEN	PEER_LEN
#define MANY	PEER_MANY

/* An owner of another provider, which records the entries that it gets. */
struct owner {
	struct fid_peer_cq	cq;
	struct fi_ops_cq_owner	ops;
	spinlock_t		lock;
	int			refusals;	/* number of calls that still get -FI_EAGAIN */
	int			refused;
	int			count, errors;
	struct fi_cq_tagged_entry reported[MANY];
	struct fi_cq_err_entry	failed[MANY];
	u8			data[MANY][64];		/* err_data of these */
};

static bool accepts_entry(struct owner *owner)
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
	if (accepts_entry(owner)) {
		if (owner->count < MANY)
			owner->reported[owner->count] = (struct fi_cq_tagged_entry){
				.op_context = context,
				.flags = flags,
				.len = len,
				.buf = buf,
				.data = data,
				.tag = tag,
			};
		/* Publishes the entry; pairs with await_reported(). */
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
	if (accepts_entry(owner)) {
		if (owner->errors < MANY) {
			owner->failed[owner->errors] = *entry;
			memcpy(owner->data[owner->errors], entry->err_data,
			       min(entry->err_data_size, sizeof(owner->data[0])));
		}
		/* Publishes the entry; pairs with await_reported(). */
		smp_store_release(&owner->errors, owner->errors + 1);
		ret = 0;
	}
	spin_unlock_irqrestore(&owner->lock, irqs);
	return ret;
}

static struct owner *make_owner(struct kunit *test)
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

/* Waits until the owner has got that many entries; fails the test otherwise. */
static void await_reported(struct kunit *test, const int *count, int wanted)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	/* Pairs with the release in owner_write() and owner_writeerr(). */
	while (smp_load_acquire(count) < wanted && time_before(jiffies, end))
		usleep_range(100, 500);
	KUNIT_ASSERT_EQ_MSG(test, wanted, *count, "entries written to the owner");
}

static void peer_01_cq_contexts_without_an_owner_are_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = peer_fabric(test);
	struct owner *owner = make_owner(test);
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
	/* Structs that are too small. */
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
	/* Missing calls. */
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
	/* Larger structs of a newer version are accepted. */
	context.size = sizeof(context) + 64;
	owner->ops.size = sizeof(owner->ops) + 64;
	KUNIT_ASSERT_EQ(test, 0, fi_cq_open(fx->domain, &attr, &cq, &context));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&cq->fid));
#undef REFUSED
}

static void peer_01_thread_domain_is_refused(struct kunit *test)
{
	struct kofi_fabric_fx *serialized = fx_open_for(test, FI_THREAD_DOMAIN);
	struct owner *owner = make_owner(test);
	struct fid_cq *cq = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, peer_open(serialized->domain, &owner->cq, &cq));
	KUNIT_EXPECT_NULL(test, cq);
}

static void never_called(struct fid_cq *cq, void *context)
{
	pr_err("kofi: the handler of a peer queue was called\n");
}

/* Opened as in fi_peer(3): with the attributes of the owner's queue and FI_PEER. */
static void peer_02_attributes_of_the_owners_queue_are_taken(struct kunit *test)
{
	struct kofi_fabric_fx *fx = peer_fabric(test);
	struct owner *owner = make_owner(test);
	struct fi_peer_cq_context context = { .size = sizeof(context), .cq = &owner->cq };
	static const struct fi_cq_attr attrs[] = {
		{ .wait_obj = FI_WAIT_QUEUE },
		{ .wait_obj = FI_WAIT_UNSPEC },
		{ .wait_obj = FI_WAIT_SET },
		{ .cq_event_handler = never_called },
		{ .cq_event_handler = never_called, .flags = FI_CB_CTX_INTR | FI_AFFINITY },
	};

	for (int i = 0; i < ARRAY_SIZE(attrs); i++) {
		struct fi_cq_attr attr = attrs[i];
		struct fi_wait_attr wait_attr = { .wait_obj = FI_WAIT_QUEUE };
		wait_queue_head_t *head = NULL;
		struct fi_cq_tagged_entry entry;
		struct peer_ends *ends;
		struct fid_cq *cq;

		if (attr.wait_obj == FI_WAIT_SET) {
			KUNIT_ASSERT_EQ(test, 0, fi_wait_open(fx->fabric, &wait_attr, &attr.wait_set));
			fx_defer_close(test, &attr.wait_set->fid);
		}
		attr.format = FI_CQ_FORMAT_TAGGED;
		attr.flags |= FI_PEER;
		KUNIT_ASSERT_EQ_MSG(test, 0, fi_cq_open(fx->domain, &attr, &cq, &context), "%d", i);
		fx_defer_close(test, &cq->fid);
		/* These attributes apply to the owner's queue. */
		KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cq_sread(cq, &entry, 1, NULL, 0));
		KUNIT_EXPECT_NE(test, 0, fi_control(&cq->fid, FI_GETWAIT, &head));
		ends = peer_connect(test, fx, cq);
		peer_receive(test, ends, 0);
		peer_send(test, ends, 0);
		await_reported(test, &owner->count, 2 * (i + 1));
	}
}

static void peer_02_completions_are_written_to_the_owner(struct kunit *test)
{
	struct kofi_fabric_fx *fx = peer_fabric(test);
	struct owner *owner = make_owner(test);
	struct fid_cq *cq = peer_of(test, fx->domain, &owner->cq);
	struct peer_ends *ends = peer_connect(test, fx, cq);
	int sends = 0, receives = 0;

	for (int i = 0; i < MANY / 2; i++)
		peer_receive(test, ends, i);
	for (int i = 0; i < MANY / 2; i++)
		peer_send(test, ends, i);
	await_reported(test, &owner->count, MANY);
	for (int i = 0; i < MANY; i++) {
		struct fi_cq_tagged_entry *reported = &owner->reported[i];

		/* The entries of each side arrive in posting order. */
		if (reported->flags & FI_RECV) {
			KUNIT_EXPECT_PTR_EQ(test, ends->in + receives * LEN, reported->op_context);
			receives++;
			KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, reported->flags);
			KUNIT_EXPECT_EQ(test, receives, reported->len);
		} else {
			KUNIT_EXPECT_PTR_EQ(test, ends->out + sends * LEN, reported->op_context);
			sends++;
			KUNIT_EXPECT_EQ(test, FI_SEND | FI_MSG, reported->flags);
		}
	}
	KUNIT_EXPECT_EQ(test, MANY / 2, sends);
	KUNIT_EXPECT_EQ(test, MANY / 2, receives);
	KUNIT_EXPECT_EQ(test, 0, owner->errors);
	for (int i = 0; i < MANY / 2; i++)
		KUNIT_EXPECT_MEMEQ(test, ends->out + i * LEN, ends->in + i * LEN, i + 1);
}

static void peer_02_reading_the_peer_cq_is_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = peer_fabric(test);
	struct owner *owner = make_owner(test);
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

static void peer_02_completions_wait_for_a_full_owner(struct kunit *test)
{
	struct kofi_fabric_fx *fx = peer_fabric(test);
	struct owner *owner = make_owner(test);
	struct fid_cq *cq = peer_of(test, fx->domain, &owner->cq);
	struct peer_ends *ends = peer_connect(test, fx, cq);
	int receives = 0;

	owner->refusals = INT_MAX;
	for (int i = 0; i < MANY / 2; i++)
		peer_receive(test, ends, i);
	for (int i = 0; i < MANY / 2; i++)
		peer_send(test, ends, i);
	for (int ms = 0; !READ_ONCE(owner->refused) && ms < FX_WAIT_MS; ms += 20)
		msleep(20);
	KUNIT_EXPECT_EQ(test, 0, READ_ONCE(owner->count));
	KUNIT_EXPECT_GT(test, READ_ONCE(owner->refused), 0);
	/* A read for progress does not deliver entries either. */
	KUNIT_EXPECT_EQ(test, 0, fi_cq_read(cq, NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, READ_ONCE(owner->count));
	WRITE_ONCE(owner->refusals, 3);
	await_reported(test, &owner->count, MANY);
	for (int i = 0; i < MANY; i++)
		if (owner->reported[i].flags & FI_RECV)
			KUNIT_EXPECT_PTR_EQ(test, ends->in + receives++ * LEN,
					    owner->reported[i].op_context);
	KUNIT_EXPECT_EQ(test, MANY / 2, receives);
}

static void peer_02_errors_are_written_to_the_owner(struct kunit *test)
{
	struct kofi_fabric_fx *fx = peer_fabric(test);
	struct owner *owner = make_owner(test);
	struct fid_cq *cq = peer_of(test, fx->domain, &owner->cq);
	struct peer_ends *ends = peer_connect(test, fx, cq);

	owner->refusals = 2;
	for (int i = 0; i < 4; i++)
		peer_receive(test, ends, i);
	fx_close(test, &ends->ep[0]->fid);
	await_reported(test, &owner->errors, 4);
	for (int i = 0; i < 4; i++) {
		KUNIT_EXPECT_PTR_EQ(test, ends->in + i * LEN, owner->failed[i].op_context);
		KUNIT_EXPECT_EQ(test, FI_ECANCELED, owner->failed[i].err);
	}
	KUNIT_EXPECT_EQ(test, 0, owner->count);
}

/* Sends a message from an unknown source to an endpoint with a peer queue; returns the source. */
static struct kofi_rdm *send_unknown(struct kunit *test, struct fid_peer_cq *owner, u32 format)
{
	const struct rdm_opts opts = { .caps = FI_SOURCE_ERR, .addr_format = format };
	const struct rdm_opts sender_opts = { .addr_format = format };
	struct kofi_rdm *to = rdm_make(test, &opts), *from = rdm_open(test, &sender_opts);
	u8 *buf = tr_buffer(test, 2 * LEN);

	/* The queue has to be closed after the endpoint. */
	fx_close(test, &to->ep->fid);
	to->cq = peer_of(test, to->domain, owner);
	to->ep = fx_ep(test, to->domain, to->info);
	rdm_start(test, to, 0);
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(to, FI_ADDR_UNSPEC, buf, LEN, buf));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(from, rdm_addr(test, from, to), buf + LEN, LEN, from));
	rdm_expect(test, from, from, NULL);
	return from;
}

static const u32 formats[] = { FI_FORMAT_UNSPEC, FI_ADDR_STR };

static void peer_06_error_data_reach_the_owner(struct kunit *test)
{
	for (int i = 0; i < ARRAY_SIZE(formats); i++) {
		struct owner *owner = make_owner(test);
		struct kofi_rdm *from = send_unknown(test, &owner->cq, formats[i]);
		struct fi_cq_err_entry *reported = &owner->failed[0];

		await_reported(test, &owner->errors, 1);
		KUNIT_EXPECT_EQ(test, FI_EADDRNOTAVAIL, reported->err);
		KUNIT_EXPECT_EQ(test, LEN, reported->len);
		KUNIT_ASSERT_EQ(test, from->name_len, reported->err_data_size);
		KUNIT_ASSERT_LE(test, from->name_len, sizeof(owner->data[0]));
		KUNIT_EXPECT_MEMEQ(test, &from->name, owner->data[0], from->name_len);
	}
}

static void peer_06_error_data_reach_a_kofi_owner(struct kunit *test)
{
	for (int i = 0; i < ARRAY_SIZE(formats); i++) {
		const struct rdm_opts opts = { .addr_format = formats[i] };
		struct kofi_rdm *owner = rdm_open(test, &opts);
		struct kofi_rdm *from = send_unknown(test, peer_export(test, owner->cq),
						     formats[i]);
		struct fi_cq_err_entry error = {};

		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, owner->cq, &error));
		KUNIT_EXPECT_EQ(test, FI_EADDRNOTAVAIL, error.err);
		KUNIT_ASSERT_EQ(test, from->name_len, error.err_data_size);
		KUNIT_EXPECT_MEMEQ(test, &from->name, error.err_data, from->name_len);
	}
}

static struct kunit_case peer_cq_cases[] = {
	KUNIT_CASE(peer_01_cq_contexts_without_an_owner_are_refused),
	KUNIT_CASE(peer_01_thread_domain_is_refused),
	KUNIT_CASE(peer_02_attributes_of_the_owners_queue_are_taken),
	KUNIT_CASE(peer_02_completions_are_written_to_the_owner),
	KUNIT_CASE(peer_02_reading_the_peer_cq_is_refused),
	KUNIT_CASE(peer_02_completions_wait_for_a_full_owner),
	KUNIT_CASE(peer_02_errors_are_written_to_the_owner),
	KUNIT_CASE(peer_06_error_data_reach_the_owner),
	KUNIT_CASE(peer_06_error_data_reach_a_kofi_owner),
	{}
};

static struct kunit_suite peer_cq_suite = {
	.name = "kofi_peer_cq",
	.test_cases = peer_cq_cases,
};

kunit_test_suite(peer_cq_suite);
