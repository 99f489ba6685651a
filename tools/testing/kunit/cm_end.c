// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CM 5 to 9: connection teardown, and the addresses of both
 * endpoints.
 */

#include <linux/delay.h>
#include <linux/inet.h>

#include "traffic.h"

#define LEN 64
#define POSTED 4

static void post_receives(struct kunit *test, struct fid_ep *ep, u8 *buf)
{
	for (int i = 0; i < POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(ep, buf, LEN));
}

static void cm_05_shutdown_flushes_before_it_returns(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	post_receives(test, pair->ep[0], buf);
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	KUNIT_EXPECT_EQ(test, POSTED, tr_read_flushed(test, pair->cq[0]));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, tr_send(pair->ep[0], buf, LEN));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, tr_recv(pair->ep[0], buf, LEN));
	tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, tr_send(pair->ep[1], buf, LEN));
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, tr_recv(pair->ep[1], buf, LEN));
	KUNIT_EXPECT_EQ_MSG(test, 0, fi_shutdown(pair->ep[0], 0), "again");
	tr_expect_silence(test, pair->eq);
}

static void cm_05_completed_entries_stay_readable(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf, LEN));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], buf + LEN, LEN));
	tr_expect(test, pair->cq[1], buf, FI_RECV, LEN);
	/* The receive completed, but the sender's device may not have the acknowledgement yet. */
	KUNIT_ASSERT_EQ(test, 0, tr_await(pair->cq[0]));
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	tr_expect(test, pair->cq[0], buf + LEN, FI_SEND, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
}

static void cm_05_shutdown_of_transmits_keeps_receives(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], FI_WRITE));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, tr_send(pair->ep[0], buf, LEN));
	tr_exchange(test, pair, 1, buf, buf + LEN, LEN);
	tr_expect_silence(test, pair->eq);
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], FI_READ));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, tr_recv(pair->ep[0], buf, LEN));
	tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
}

static void cm_05_shutdown_of_receives_keeps_transmits(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], FI_READ));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, tr_recv(pair->ep[0], buf, LEN));
	tr_exchange(test, pair, 0, buf, buf + LEN, LEN);
	tr_expect_silence(test, pair->eq);
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], FI_READ | FI_WRITE));
	tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
}

/* Closing one direction, once or repeatedly, does not affect the other one. */
static void cm_05_repeated_half_shutdown_returns_at_once(struct kunit *test)
{
	static const u64 halves[] = { FI_WRITE, FI_READ };
	u8 *buf = tr_buffer(test, 2 * LEN);

	for (int i = 0; i < 2; i++) {
		struct kofi_pair *pair = fx_pair(test, NULL);
		int from = halves[i] == FI_WRITE;

		for (int times = 0; times < 3; times++) {
			unsigned long start = jiffies;

			KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], halves[i]));
			/* The repeated call does not wait; a wait would take up to ten seconds. */
			KUNIT_EXPECT_LT(test, jiffies - start, msecs_to_jiffies(9000));
			KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE,
					from ? tr_send(pair->ep[0], buf, LEN) :
					       tr_recv(pair->ep[0], buf, LEN));
			tr_exchange(test, pair, from, buf, buf + LEN, LEN);
		}
		tr_expect_silence(test, pair->eq);
		KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], halves[!i]));
		tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
		KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], halves[i]));
		tr_expect_silence(test, pair->eq);
	}
}

static int shut_transmits(struct tr_thread *thread)
{
	thread->result = fi_shutdown(thread->arg, FI_WRITE);
	return 0;
}

static int shut_receives(struct tr_thread *thread)
{
	thread->result = fi_shutdown(thread->arg, FI_READ);
	return 0;
}

static void cm_05_two_threads_shut_one_half(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 4 * LEN);

	for (int from = 0; from < 2; from++) {
		struct kofi_pair *pair = fx_pair(test, NULL);
		struct tr_thread *thread[2];
		/* iWARP ends a connection when a message finds no receive. */
		bool waits = from && !tr_is_iwarp(pair->info);

		if (waits)
			KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], buf, LEN));
		for (int i = 0; i < 2; i++)
			thread[i] = tr_start(test, i % num_online_cpus(),
					     from ? shut_transmits : shut_receives,
					     pair->ep[0]);
		if (waits) {
			/* The threads are usually in the call by now. */
			fsleep(20000);
			KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf + LEN, LEN));
			tr_expect(test, pair->cq[1], buf + LEN, FI_RECV, LEN);
		}
		for (int i = 0; i < 2; i++) {
			KUNIT_ASSERT_TRUE(test, tr_join(test, thread[i]));
			KUNIT_EXPECT_EQ(test, 0, thread[i]->result);
		}
		if (waits)
			tr_expect(test, pair->cq[0], buf, FI_SEND, LEN);
		tr_exchange(test, pair, from, buf, buf + 2 * LEN, LEN);
		tr_expect_silence(test, pair->eq);
	}
}

/*
 * Arguments of two threads that shut one half at once and post to it as soon as
 * fi_shutdown() returns.
 */
struct closers {
	struct fid_ep	*ep;
	u64		half;
	u8		*buf;		/* registered: mapping takes another path */
	void		*desc;
	atomic_t	ready;
};

static int close_and_post(struct tr_thread *thread)
{
	struct closers *closers = thread->arg;

	atomic_inc(&closers->ready);
	while (atomic_read(&closers->ready) < 2 && !kthread_should_stop())
		cond_resched();
	thread->result = fi_shutdown(closers->ep, closers->half);
	if (!thread->result)
		thread->result = closers->half == FI_WRITE ?
			fi_send(closers->ep, closers->buf, LEN, closers->desc, 0, NULL) :
			fi_recv(closers->ep, closers->buf, LEN, closers->desc, 0, NULL);
	return 0;
}

static void cm_05_a_half_is_closed_when_any_shutdown_returns(struct kunit *test)
{
	struct closers *closers = (void *)tr_buffer(test, sizeof(*closers));

	closers->buf = tr_buffer(test, LEN);
	for (int round = 0; round < 2 * tr_rounds; round++) {
		struct kofi_pair *pair = fx_pair(test, NULL);
		struct tr_thread *thread[2];
		struct fid_mr *mr;

		KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(pair->domain, closers->buf, LEN,
						   FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL));
		fx_defer_close(test, &mr->fid);
		closers->desc = fi_mr_desc(mr);
		/* Receive for a send that should have been refused. */
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], closers->buf, LEN));
		closers->ep = pair->ep[0];
		closers->half = round % 2 ? FI_WRITE : FI_READ;
		atomic_set(&closers->ready, 0);
		for (int i = 0; i < 2; i++)
			thread[i] = tr_start(test, i % num_online_cpus(), close_and_post, closers);
		for (int i = 0; i < 2; i++) {
			KUNIT_ASSERT_TRUE(test, tr_join(test, thread[i]));
			KUNIT_EXPECT_EQ_MSG(test, -FI_EOPBADSTATE, thread[i]->result, "round %d",
					    round);
		}
		for (int i = 0; i < 2; i++)
			fx_close(test, &pair->ep[i]->fid);
	}
}

/* A thread shuts transmits and waits for them, another shuts receives: one FI_SHUTDOWN. */
static void cm_05_two_threads_shut_both_halves(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);
	bool waits = !tr_is_iwarp(pair->info);
	struct tr_thread *thread;

	post_receives(test, pair->ep[0], buf);
	if (waits)
		KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], buf + LEN, LEN));
	thread = tr_start(test, num_online_cpus() - 1, shut_transmits, pair->ep[0]);
	/* The other thread is usually in the call by now. */
	fsleep(20000);
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], FI_READ));
	KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	KUNIT_EXPECT_EQ(test, 0, thread->result);
	tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
	KUNIT_EXPECT_EQ(test, POSTED + waits, tr_read_flushed(test, pair->cq[0]));
	tr_expect_silence(test, pair->eq);
}

/*
 * Posted receives complete as cancelled before the call returns. A device cannot
 * flush one queue of a queue pair: there they stay posted until the next message
 * or the end of the connection.
 */
static void cm_05_shutdown_of_receives_flushes_them(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 3 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);
	bool flushes = tr_is_loop(pair->info);
	struct fi_cq_err_entry error = {};

	post_receives(test, pair->ep[0], buf);
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], FI_READ));
	KUNIT_EXPECT_EQ(test, flushes ? POSTED : 0, tr_read_flushed(test, pair->cq[0]));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, tr_recv(pair->ep[0], buf, LEN));
	tr_fill(buf + LEN, LEN, 7);
	memset(buf, 0xa5, LEN);
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[1], buf + LEN, LEN));
	if (!flushes) {
		tr_expect(test, pair->cq[0], buf, FI_RECV, LEN);
		tr_expect(test, pair->cq[1], buf + LEN, FI_SEND, LEN);
	}
	/* The other direction is still open. */
	tr_exchange(test, pair, 0, buf + 2 * LEN, buf + 2 * LEN, 0);
	KUNIT_EXPECT_EQ(test, !flushes, tr_intact(buf, LEN, 7));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_readerr(pair->cq[0], &error, 0));
	tr_expect_silence(test, pair->eq);
	/* A message that finds no receive waits, and is flushed with the connection. */
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
	KUNIT_EXPECT_EQ(test, flushes ? 0 : POSTED - 1,
			tr_read_flushed(test, pair->cq[0]));
	KUNIT_EXPECT_EQ(test, flushes, tr_read_flushed(test, pair->cq[1]));
}

/* Arguments of a thread that sends POSTED messages. */
struct flood {
	struct fid_ep	*ep;
	u8		*buf;
	size_t		len;
	int		posted;
};

static int send_some(struct tr_thread *thread)
{
	struct flood *flood = thread->arg;

	while (!kthread_should_stop() && flood->posted < POSTED)
		if (tr_send(flood->ep, flood->buf, flood->len) == 0)
			flood->posted++;
	return 0;
}

/*
 * Receives are shut while messages arrive: each receive is used or cancelled, and not written to
 * afterwards.
 */
static void cm_05_no_message_arrives_after_receives_are_shut(struct kunit *test)
{
	enum { LONG = SZ_1M, MANY = 2 * POSTED };
	u8 *in = tr_vbuffer(test, MANY * LONG), *out = tr_vbuffer(test, LONG);
	struct fx_pair_opts opts = { .threading = FI_THREAD_SAFE };
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct flood *flood = (void *)tr_buffer(test, sizeof(*flood));
	struct fi_cq_tagged_entry entry;
	struct tr_thread *thread;
	int done = 0;

	if (!tr_is_loop(pair->info))
		kunit_skip(test, "a device does not flush receives alone");
	*flood = (struct flood){ pair->ep[1], out, LONG };
	for (int i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], in + i * LONG, LONG));
	/* The peer sends fewer messages than there are receives, so some are always cancelled. */
	thread = tr_start(test, num_online_cpus() - 1, send_some, flood);
	KUNIT_ASSERT_EQ(test, 0, tr_await(pair->cq[0]));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], FI_READ));
	while (fi_cq_read(pair->cq[0], &entry, 1) == 1)
		done++;
	KUNIT_EXPECT_EQ(test, MANY, done + tr_read_flushed(test, pair->cq[0]));
	memset(in, 0xa5, MANY * LONG);
	KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	KUNIT_EXPECT_EQ(test, 0, tr_send(pair->ep[1], out, LONG));
	KUNIT_EXPECT_NULL(test, memchr_inv(in, 0xa5, MANY * LONG));
	tr_expect_silence(test, pair->eq);
}

static void cm_05_shutdown_needs_a_connection_and_known_flags(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid_ep *ep = fx_bound_ep(test, fx_open(test));

	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, fi_shutdown(ep, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, fi_shutdown(ep, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_shutdown(pair->ep[0], FI_SEND));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_shutdown(pair->ep[0], FI_READ | 1ULL << 63));
	tr_expect_silence(test, pair->eq);
}

static void end_by_shutdown(struct kunit *test, struct fid_ep *ep)
{
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(ep, 0));
}

static void end_by_close(struct kunit *test, struct fid_ep *ep)
{
	fx_close(test, &ep->fid);
}

/* Ways to end a connection. */
static const struct way {
	const char *name;
	void (*end)(struct kunit *test, struct fid_ep *ep);
	int side;		/* index of the endpoint that ends it */
	bool both;		/* both endpoints report FI_SHUTDOWN */
} ways[] = {
	{ "the connecting endpoint shuts down", end_by_shutdown, 0, true },
	{ "the accepting endpoint shuts down", end_by_shutdown, 1, true },
	{ "the connecting endpoint closes", end_by_close, 0, false },
	{ "the accepting endpoint closes", end_by_close, 1, false },
};

KUNIT_ARRAY_PARAM_DESC(ways, ways, name);

static void cm_06_the_peer_sees_one_shutdown_after_its_flushes(struct kunit *test)
{
	const struct way *way = test->param_value;
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid_ep *other_ep = pair->ep[!way->side];
	struct fid_cq *cq = pair->cq[!way->side];

	post_receives(test, other_ep, buf);
	way->end(test, pair->ep[way->side]);
	if (way->both)
		tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
	else
		tr_expect_shutdown(test, pair->eq, other_ep);
	/* The flushed entries precede the event, so they are there without a wait. */
	KUNIT_EXPECT_EQ(test, POSTED, tr_read_flushed(test, cq));
	tr_expect_silence(test, pair->eq);
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(other_ep, 0));
	tr_expect_silence(test, pair->eq);
}

static void cm_06_one_shutdown_event_if_both_sides_shut_down(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);

	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	/* Each side gets the event once, whichever thread ended the connection. */
	tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
	tr_expect_silence(test, pair->eq);
}

/* The accepting endpoint may be closed before the peer's acknowledgement of the reply arrived. */
static void cm_06_close_right_after_accept_is_reported(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_eq *eq = fx_eq(test, fx->fabric);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, eq);
	struct fx_cm_event event;

	for (int i = 0; i < 10; i++) {
		struct fi_eq_err_entry error = {};
		struct fid_ep *ep = fx_bound_ep(test, fx), *accepted;
		u32 what;

		fx_start_connect(test, ep, pep);
		accepted = fx_ep(test, fx->domain, fx_wait_request(test, eq));
		fx_bind(test, accepted, eq, fx->cq, FI_TRANSMIT | FI_RECV);
		KUNIT_ASSERT_EQ(test, 0, fi_accept(accepted, NULL, 0));
		if (i % 2)
			usleep_range(50 * i, 50 * i + 10);
		fx_close(test, &accepted->fid);
		/* The peer sees FI_CONNECTED and FI_SHUTDOWN, or an error. */
		if (fi_eq_sread(fx->eq, &what, &event, sizeof(event), FX_WAIT_MS, 0) > 0) {
			KUNIT_ASSERT_EQ(test, FI_CONNECTED, what);
			tr_expect_shutdown(test, fx->eq, ep);
		} else {
			KUNIT_ASSERT_EQ(test, 1, fi_eq_readerr(fx->eq, &error, 0) > 0);
		}
		fx_close(test, &ep->fid);
	}
}

static void cm_07_close_reports_no_entry_and_no_event(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	post_receives(test, pair->ep[0], buf);
	fx_close(test, &pair->ep[0]->fid);
	KUNIT_EXPECT_EQ_MSG(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0),
			    "entries of a closed endpoint");
	tr_expect_shutdown(test, pair->eq, pair->ep[1]);
	tr_expect_silence(test, pair->eq);
}

/* A queued event of a closed endpoint would have a dangling fid. */
static void cm_07_close_discards_an_unread_shutdown(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fx_cm_event event = {};
	u32 what = ~0;

	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	fx_close(test, &pair->ep[0]->fid);
	KUNIT_ASSERT_GT(test, fi_eq_sread(pair->eq, &what, &event, sizeof(event),
					  FX_WAIT_MS, FI_PEEK), 0);
	KUNIT_ASSERT_EQ(test, FI_SHUTDOWN, what);
	KUNIT_EXPECT_PTR_EQ(test, &pair->ep[1]->fid, event.entry.fid);
	fx_close(test, &pair->ep[1]->fid);
	tr_expect_silence(test, pair->eq);
}

/* The caller owns the buffer again: later sends of the peer must not reach it. */
static void cm_07_buffers_are_free_after_close(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (int i = 0; i < POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], buf, LEN));
	memset(buf + LEN, 0x5a, LEN);
	for (int i = 0; i < POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[1], buf + LEN, LEN));
	fx_close(test, &pair->ep[0]->fid);
	memset(buf, 0xa5, LEN);
	for (int i = 0; i < POSTED; i++)
		tr_send(pair->ep[1], buf + LEN, LEN);
	tr_expect_shutdown(test, pair->eq, pair->ep[1]);
	fsleep(50000);
	KUNIT_EXPECT_NULL(test, memchr_inv(buf, 0xa5, LEN));
}

static void cm_07_close_while_connecting_reports_nothing(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_ep *ep = fx_bound_ep(test, fx);

	fx_start_connect(test, ep, pep);
	fx_wait_request(test, fx->eq);
	fx_close(test, &ep->fid);
	tr_expect_silence(test, fx->eq);
}

static size_t addr_len(const void *addr)
{
	return ((const struct sockaddr *)addr)->sa_family == AF_INET ?
		       sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void cm_08_getname_and_getpeer_agree(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct sockaddr_in6 name[2] = {}, peer[2] = {};
	char text[INET6_ADDRSTRLEN];
	size_t len;

	for (int side = 0; side < 2; side++) {
		len = sizeof(name[side]);
		KUNIT_ASSERT_EQ(test, 0, fi_getname(&pair->ep[side]->fid,
						    &name[side], &len));
		KUNIT_EXPECT_EQ(test, addr_len(&name[side]), len);
		len = sizeof(peer[side]);
		KUNIT_ASSERT_EQ(test, 0, fi_getpeer(pair->ep[side], &peer[side],
						    &len));
		KUNIT_EXPECT_EQ(test, addr_len(&peer[side]), len);
	}
	for (int side = 0; side < 2; side++)
		KUNIT_EXPECT_EQ_MSG(test, 0, memcmp(&name[side], &peer[!side],
						    addr_len(&name[side])),
				    "side %d", side);
	snprintf(text, sizeof(text), "%pISc", &name[1]);
	KUNIT_EXPECT_STREQ(test, fx_addr, text);
}

static void cm_08_short_buffers_are_etoosmall(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct sockaddr_in6 name = {}, cut = {};
	size_t whole = sizeof(name), len;

	KUNIT_ASSERT_EQ(test, 0, fi_getname(&pair->ep[1]->fid, &name, &whole));
	for (size_t space = 0; space < whole; space += 3) {
		memset(&cut, 0xa5, sizeof(cut));
		len = space;
		KUNIT_EXPECT_EQ(test, -FI_ETOOSMALL,
				fi_getname(&pair->ep[1]->fid, &cut, &len));
		KUNIT_EXPECT_EQ(test, whole, len);
		KUNIT_EXPECT_EQ(test, 0, memcmp(&cut, &name, space));
		KUNIT_EXPECT_EQ(test, 0xa5, ((u8 *)&cut)[space]);
		len = space;
		KUNIT_EXPECT_EQ(test, -FI_ETOOSMALL,
				fi_getpeer(pair->ep[1], &cut, &len));
		KUNIT_EXPECT_EQ(test, whole, len);
		len = space;
		KUNIT_EXPECT_EQ(test, -FI_ETOOSMALL,
				fi_getname(&pair->pep->fid, &cut, &len));
		KUNIT_EXPECT_EQ(test, whole, len);
	}
}

static void cm_08_setname_works_until_enable(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_ep *ep = fx_bound_ep(test, fx), *peer;
	struct sockaddr_in6 name = {}, is = {};
	size_t len = sizeof(name);

	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, fi_getpeer(ep, &is, &len));
	len = sizeof(name);
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&pep->fid, &name, &len));
	/* The listener's address with another port. */
	name.sin6_port = htons(ntohs(name.sin6_port) ^ 1);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_setname(&ep->fid, &name, 3));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_setname(&ep->fid, NULL, len));
	KUNIT_ASSERT_EQ(test, 0, fi_setname(&ep->fid, &name, len));
	peer = fx_connect(test, fx->domain, ep, pep, fx->eq, fx->cq);
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_setname(&ep->fid, &name, len));
	KUNIT_ASSERT_EQ(test, 0, fi_getpeer(peer, &is, &len));
	KUNIT_EXPECT_EQ(test, 0, memcmp(&is, &name, addr_len(&name)));
}

static void cm_09_endpoints_connect_over_ipv6(struct kunit *test)
{
	const struct fx_pair_opts opts = { .node = fx_addr6 };
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct sockaddr_in6 name = {};
	size_t len = sizeof(name);
	struct kofi_pair *pair;

	if (!*fx_addr6)
		kunit_skip(test, "no IPv6 address: give the module addr6=");
	pair = fx_pair(test, &opts);
	for (int side = 0; side < 2; side++)
		tr_exchange(test, pair, side, buf, buf + LEN, LEN);
	KUNIT_ASSERT_EQ(test, 0, fi_getpeer(pair->ep[0], &name, &len));
	KUNIT_EXPECT_EQ(test, AF_INET6, name.sin6_family);
}

/* A link-local address carries its interface as scope, on both sides. */
static void cm_09_link_local_addresses_have_their_scope(struct kunit *test)
{
	struct fx_pair_opts opts = {};
	struct sockaddr_in6 name, peer;
	struct kofi_pair *pair;
	char node[TR_NODE_LEN];

	if (!tr_link_local(node))
		kunit_skip(test, "the interface has no link-local address");
	opts.node = node;
	pair = fx_pair(test, &opts);
	for (int side = 0; side < 2; side++) {
		size_t len = sizeof(name);

		memset(&name, 0, sizeof(name));
		memset(&peer, 0, sizeof(peer));
		KUNIT_ASSERT_EQ(test, 0, fi_getname(&pair->ep[!side]->fid, &name, &len));
		KUNIT_ASSERT_EQ(test, 0, fi_getpeer(pair->ep[side], &peer, &len));
		KUNIT_EXPECT_EQ(test, AF_INET6, peer.sin6_family);
		KUNIT_EXPECT_NE(test, 0, peer.sin6_scope_id);
		KUNIT_EXPECT_EQ(test, name.sin6_scope_id, peer.sin6_scope_id);
		KUNIT_EXPECT_MEMEQ(test, &name.sin6_addr, &peer.sin6_addr, sizeof(name.sin6_addr));
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cm_05_shutdown_flushes_before_it_returns),
	KUNIT_CASE(cm_05_completed_entries_stay_readable),
	KUNIT_CASE(cm_05_shutdown_of_transmits_keeps_receives),
	KUNIT_CASE(cm_05_shutdown_of_receives_keeps_transmits),
	KUNIT_CASE(cm_05_repeated_half_shutdown_returns_at_once),
	KUNIT_CASE(cm_05_two_threads_shut_one_half),
	KUNIT_CASE(cm_05_a_half_is_closed_when_any_shutdown_returns),
	KUNIT_CASE(cm_05_two_threads_shut_both_halves),
	KUNIT_CASE(cm_05_shutdown_of_receives_flushes_them),
	KUNIT_CASE(cm_05_no_message_arrives_after_receives_are_shut),
	KUNIT_CASE(cm_05_shutdown_needs_a_connection_and_known_flags),
	KUNIT_CASE_PARAM(cm_06_the_peer_sees_one_shutdown_after_its_flushes,
			 ways_gen_params),
	KUNIT_CASE(cm_06_one_shutdown_event_if_both_sides_shut_down),
	KUNIT_CASE(cm_06_close_right_after_accept_is_reported),
	KUNIT_CASE(cm_07_close_reports_no_entry_and_no_event),
	KUNIT_CASE(cm_07_close_discards_an_unread_shutdown),
	KUNIT_CASE(cm_07_buffers_are_free_after_close),
	KUNIT_CASE(cm_07_close_while_connecting_reports_nothing),
	KUNIT_CASE(cm_08_getname_and_getpeer_agree),
	KUNIT_CASE(cm_08_short_buffers_are_etoosmall),
	KUNIT_CASE(cm_08_setname_works_until_enable),
	KUNIT_CASE(cm_09_endpoints_connect_over_ipv6),
	KUNIT_CASE(cm_09_link_local_addresses_have_their_scope),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cm_end",
	.test_cases = cases,
};

kunit_test_suite(suite);
