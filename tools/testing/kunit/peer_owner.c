// SPDX-License-Identifier: GPL-2.0
/*
 * Tests PEER of CONTRACT: completion queues of kOFI as owners, which peers
 * write completions to. peer_cq.c tests them as peers.
 */

#include <linux/kthread.h>

#include "peer.h"

#define LEN	PEER_LEN
#define MANY	PEER_MANY

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

static void peer_02_entries_of_peers_are_read_in_order(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_peer_cq *peer = peer_export(test, fx->cq);
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
	/* Entries without an error, and NULL arguments, are refused. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, put_error(peer, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, put_error(peer, NULL, -FI_EINVAL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, peer->owner_ops->writeerr(peer, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, peer->owner_ops->write(NULL, NULL, 0, 0, NULL, 0, 0, 0));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->cq, entries, 4));
}

/* Writes an error whose err_data is invalid after writeerr() has returned. */
static void put_data(struct kunit *test, struct fid_peer_cq *cq, const u8 *data, size_t size)
{
	struct fi_cq_err_entry entry = {
		.op_context = test, .err = FI_EADDRNOTAVAIL, .err_data_size = size,
	};

	entry.err_data = kmemdup(data, size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, entry.err_data);
	KUNIT_EXPECT_EQ(test, 0, cq->owner_ops->writeerr(cq, &entry));
	memset(entry.err_data, 0xee, size);
	kfree(entry.err_data);
}

static void peer_06_error_data_of_a_peer_are_read_whole(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_peer_cq *peer = peer_export(test, fx->cq);
	struct fi_cq_err_entry error = {}, none = { .err = FI_EIO, .err_data_size = 8 };
	u8 *data = tr_buffer(test, 1000), *space = tr_buffer(test, 1100);
	const size_t sizes[] = { 1100, 10 };

	tr_fill(data, 1000, 1);
	/* The error data is memory of the queue, valid until the next error is read. */
	put_data(test, peer, data, 1000);
	put_data(test, peer, data, 3);
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(fx->cq, &error, 0));
	KUNIT_ASSERT_EQ(test, 1000, error.err_data_size);
	KUNIT_EXPECT_MEMEQ(test, data, error.err_data, 1000);
	error.err_data_size = 0;
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(fx->cq, &error, 0));
	KUNIT_ASSERT_EQ(test, 3, error.err_data_size);
	KUNIT_EXPECT_MEMEQ(test, data, error.err_data, 3);
	/* The reader's own buffer, larger and smaller than needed. */
	put_data(test, peer, data, 1000);
	put_data(test, peer, data, 1000);
	for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t wanted = min(sizes[i], 1000UL);

		memset(space, 0xdd, 1100);
		error.err_data = space;
		error.err_data_size = sizes[i];
		KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(fx->cq, &error, 0));
		KUNIT_EXPECT_PTR_EQ(test, (void *)space, error.err_data);
		KUNIT_ASSERT_EQ(test, wanted, error.err_data_size);
		KUNIT_EXPECT_MEMEQ(test, data, space, wanted);
		KUNIT_EXPECT_NULL(test, memchr_inv(space + wanted, 0xdd, 1100 - wanted));
	}
	/* NULL is no error data. */
	KUNIT_EXPECT_EQ(test, 0, peer->owner_ops->writeerr(peer, &none));
	error.err_data_size = 0;
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(fx->cq, &error, 0));
	KUNIT_EXPECT_EQ(test, 0, error.err_data_size);
	/* Unread error data is freed with the queue. */
	put_data(test, peer, data, 1000);
}

static void peer_02_writes_to_a_full_queue_get_eagain(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_cq_attr attr = { .size = 8, .format = FI_CQ_FORMAT_CONTEXT };
	struct fid_cq *cq = fx_cq(test, fx->domain, &attr);
	struct fid_peer_cq *peer = peer_export(test, cq);
	unsigned long next = 1, read = 1;
	struct fi_cq_entry entry[3];

	for (int round = 0; round < 20; round++) {
		ssize_t found;

		while (next - read <= 8 && !put(peer, (void *)next))
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

struct sleeper {
	struct fid_peer_cq	*peer;
	struct fid_cq		*cq;
};

static int sleep_on(struct tr_thread *thread)
{
	struct sleeper *sleeper = thread->arg;
	struct fi_cq_tagged_entry entry = {};

	thread->result = fi_cq_sread(sleeper->cq, &entry, 1, NULL, FX_WAIT_MS);
	if (thread->result == 1 && entry.op_context != sleeper)
		thread->result = -FI_EIO;
	return 0;
}

static void peer_02_a_write_wakes_a_blocked_reader(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct sleeper sleeper = { .peer = peer_export(test, fx->cq), .cq = fx->cq };
	struct tr_thread *thread;

	for (int round = 0; round < 3; round++) {
		thread = tr_start(test, -1, sleep_on, &sleeper);
		tr_until_asleep(test, thread);
		KUNIT_EXPECT_EQ(test, 0, put(sleeper.peer, &sleeper));
		KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
		KUNIT_EXPECT_EQ(test, 1, thread->result);
	}
}

struct handler_state {
	struct completion	called;
};

static void cq_handler(struct fid_cq *cq, void *context)
{
	struct handler_state *handler_state = context;
	struct fi_cq_entry entry;

	while (fi_cq_read(cq, &entry, 1) == 1)
		;
	complete(&handler_state->called);
}

static void peer_02_a_write_calls_the_handler(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct handler_state *handler_state = kunit_kzalloc(test, sizeof(*handler_state), GFP_KERNEL);
	struct fi_cq_attr attr = { .cq_event_handler = cq_handler };
	struct fid_peer_cq *peer;
	struct fid_cq *cq;

	KUNIT_ASSERT_NOT_NULL(test, handler_state);
	init_completion(&handler_state->called);
	KUNIT_ASSERT_EQ(test, 0, fi_cq_open(fx->domain, &attr, &cq, handler_state));
	fx_defer_close(test, &cq->fid);
	peer = peer_export(test, cq);
	for (int round = 0; round < 3; round++) {
		KUNIT_EXPECT_EQ(test, 0, put(peer, NULL));
		KUNIT_ASSERT_GT_MSG(test,
				    wait_for_completion_timeout(&handler_state->called,
								msecs_to_jiffies(FX_WAIT_MS)),
				    0, "the handler of round %d", round);
	}
}

static void close_01_an_exported_queue_is_busy(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_peer_cq *one = peer_export(test, fx->cq), *other = peer_export(test, fx->cq);
	struct fi_cq_tagged_entry entries[2];

	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->cq->fid));
	KUNIT_EXPECT_EQ(test, 0, put(one, one));
	KUNIT_EXPECT_EQ(test, 0, put(other, other));
	fx_close(test, &one->fid);
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->cq->fid));
	fx_close(test, &other->fid);
	/* Written entries stay readable after the exported object is closed. */
	KUNIT_ASSERT_EQ(test, 2, fi_cq_read(fx->cq, entries, 2));
	KUNIT_EXPECT_PTR_EQ(test, (void *)one, entries[0].op_context);
	KUNIT_EXPECT_PTR_EQ(test, (void *)other, entries[1].op_context);
	fx_close(test, &fx->cq->fid);
}

/* Reads exactly count entries; returns how many of them are receives. */
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

/* Connected and datagram endpoints of several domains complete into one queue. */
static void peer_02_endpoints_of_several_domains_share_a_queue(struct kunit *test)
{
	struct kofi_fabric_fx *own = peer_fabric(test), *fx = peer_fabric(test);
	struct fid_peer_cq *peer = peer_export(test, own->cq);
	struct peer_ends *first = peer_connect(test, own, own->cq);
	struct peer_ends *second = peer_connect(test, fx, peer_of(test, fx->domain, peer));
	struct kofi_rdm *a = rdm_make(test, NULL), *b = rdm_open(test, NULL);
	u8 *buf = tr_buffer(test, 2 * LEN);
	fi_addr_t to_a;

	a->cq = peer_of(test, a->domain, peer);
	rdm_start(test, a, 0);
	to_a = rdm_addr(test, b, a);
	for (int i = 0; i < MANY / 4; i++) {
		peer_receive(test, first, i);
		peer_receive(test, second, i);
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(a, FI_ADDR_UNSPEC, buf, LEN, buf));
		peer_send(test, first, i);
		peer_send(test, second, i);
		KUNIT_ASSERT_EQ(test, 0, rdm_send(b, to_a, buf + LEN, LEN, buf));
		rdm_expect(test, b, buf, NULL);
	}
	KUNIT_EXPECT_EQ(test, 3 * MANY / 4, read_all(test, own->cq, 5 * MANY / 4));
	for (int i = 0; i < MANY / 4; i++) {
		KUNIT_EXPECT_MEMEQ(test, first->out + i * LEN, first->in + i * LEN, i + 1);
		KUNIT_EXPECT_MEMEQ(test, second->out + i * LEN, second->in + i * LEN, i + 1);
	}
	/* The endpoint was opened before its queue, and has to be closed first. */
	fx_close(test, &a->ep->fid);
}

/* There are more completions than the owner's queue holds: the others wait. */
static void peer_02_a_small_queue_slows_its_peers(struct kunit *test)
{
	struct kofi_fabric_fx *fx = peer_fabric(test);
	struct fi_cq_attr attr = { .size = 4, .format = FI_CQ_FORMAT_TAGGED };
	struct fid_cq *cq = fx_cq(test, fx->domain, &attr);
	struct fid_cq *peers = peer_of(test, fx->domain, peer_export(test, cq));
	struct peer_ends *ends = peer_connect(test, fx, peers);
	int left = 2 * MANY, next = 0;

	for (int i = 0; i < MANY; i++)
		peer_receive(test, ends, i);
	for (int i = 0; i < MANY; i++)
		peer_send(test, ends, i);
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

/* Reads one entry, and writes it again if it is the peer's, so that there are always some. */
static ssize_t read_one(struct kunit *test, struct fid_cq *cq, struct fid_peer_cq *peer)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret = fi_cq_read(cq, &entry, 1);

	cond_resched();
	if (ret != 1 || entry.op_context != peer)
		return ret;
	KUNIT_ASSERT_EQ(test, 0, put(peer, peer));
	return 0;
}

/* Entries of the queue's own endpoints are read although the peer always has some. */
static void peer_02_entries_of_peers_do_not_starve_others(struct kunit *test)
{
	struct kofi_fabric_fx *fx = peer_fabric(test);
	struct fid_peer_cq *peer = peer_export(test, fx->cq);
	struct peer_ends *ends = peer_connect(test, fx, fx->cq);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_err_entry error = {};
	int own = 0;

	for (int i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, put(peer, peer));
	for (int i = 0; i < 4; i++)
		peer_receive(test, ends, i);
	for (int i = 0; i < 2; i++)
		peer_send(test, ends, i);
	while (own < 4) {
		own += read_one(test, fx->cq, peer);
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "read %d of 4 completions of the queue's own endpoints",
				      own);
	}
	/* Errors are read as well. */
	fx_close(test, &ends->ep[0]->fid);
	for (int i = 2; i < 4; i++) {
		while (read_one(test, fx->cq, peer) != -FI_EAVAIL)
			KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
					      "waited for the error entry");
		KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(fx->cq, &error, 0));
		KUNIT_EXPECT_PTR_EQ(test, (void *)(ends->in + i * LEN), error.op_context);
	}
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

/* Entries of two writers and of the queue's own endpoints are all read, and none is lost. */
static void peer_02_several_writers_and_own_endpoints(struct kunit *test)
{
	struct kofi_fabric_fx *fx = peer_fabric(test);
	struct writer writers[2] = {};
	struct tr_thread *threads[2];
	struct fid_peer_cq *peer = peer_export(test, fx->cq);
	struct peer_ends *ends = peer_connect(test, fx, fx->cq);
	struct fi_cq_tagged_entry entries[5];
	struct fi_cq_err_entry error = {};
	unsigned long theirs = 0, end;
	int own = 0;
	ssize_t found;

	for (int i = 0; i < 2; i++) {
		writers[i].peer = peer;
		threads[i] = tr_start(test, i, keep_writing, &writers[i]);
	}
	for (int round = 0; round < 5; round++) {
		end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
		peer_receive(test, ends, round);
		peer_send(test, ends, round);
		while (own < 2 * (round + 1)) {
			KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
					      "waited for the completions of the queue's own endpoints");
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
	/* An error is read as well. */
	peer_receive(test, ends, 0);
	fx_close(test, &ends->ep[0]->fid);
	end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	while ((found = fi_cq_read(fx->cq, entries, 5)) != -FI_EAVAIL) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for the error entry of the queue's own endpoint");
		if (found > 0)
			theirs += found;
		cond_resched();
	}
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(fx->cq, &error, 0));
	KUNIT_EXPECT_PTR_EQ(test, (void *)ends->in, error.op_context);
	for (int i = 0; i < 2; i++) {
		tr_stop(test, threads[i]);
		KUNIT_EXPECT_EQ(test, 0, threads[i]->result);
	}
	while ((found = fi_cq_read(fx->cq, entries, 5)) > 0)
		theirs += found;
	KUNIT_EXPECT_EQ(test, writers[0].count + writers[1].count, theirs);
	KUNIT_EXPECT_GT(test, theirs, 0);
}

static struct kunit_case peer_owner_cases[] = {
	KUNIT_CASE(peer_05_wrong_exports_are_refused),
	KUNIT_CASE(peer_02_entries_of_peers_are_read_in_order),
	KUNIT_CASE(peer_06_error_data_of_a_peer_are_read_whole),
	KUNIT_CASE(peer_02_writes_to_a_full_queue_get_eagain),
	KUNIT_CASE(peer_02_a_write_wakes_a_blocked_reader),
	KUNIT_CASE(peer_02_a_write_calls_the_handler),
	KUNIT_CASE(close_01_an_exported_queue_is_busy),
	KUNIT_CASE(peer_02_endpoints_of_several_domains_share_a_queue),
	KUNIT_CASE(peer_02_a_small_queue_slows_its_peers),
	KUNIT_CASE(peer_02_entries_of_peers_do_not_starve_others),
	KUNIT_CASE_SLOW(peer_02_several_writers_and_own_endpoints),
	{}
};

static struct kunit_suite peer_owner_suite = {
	.name = "kofi_peer_owner",
	.test_cases = peer_owner_cases,
};

kunit_test_suite(peer_owner_suite);
