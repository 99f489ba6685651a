// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CM: FI_CONNECTED means that the connection is complete. Once it was
 * read, both endpoints may send at once, and no message is lost.
 */

#include "cntr.h"

#include <linux/delay.h>
#include <rdma/rdma_cm.h>

#define LEN 64
#define PAIRS 4
#define DEPTH 4

struct conn;

struct end {
	struct conn	*conn;
	struct fid_eq	*eq;
	struct fid_cq	*cq;
	struct fid_ep	*ep;
	u8		*in, *out;
	u32		seed;
};

/* A listener and both endpoints of a connection to it; end[0] connects. */
struct conn {
	struct kunit		*test;
	struct kofi_fabric_fx	*fx;
	struct fid_pep		*pep;
	struct end		end[2];
	bool			refused;
};

static void close_open_ends(void *arg)
{
	struct conn *conn = arg;

	for (int side = 0; side < 2; side++)
		if (conn->end[side].ep)
			fi_close(&conn->end[side].ep->fid);
}

static struct conn *open_conn(struct kunit *test, struct kofi_fabric_fx *fx,
			      u32 seed)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED,
				   .wait_obj = FI_WAIT_UNSPEC };
	struct conn *conn = (void *)tr_buffer(test, sizeof(*conn));
	u8 *buf = tr_buffer(test, 4 * LEN);

	conn->test = test;
	conn->fx = fx;
	for (int side = 0; side < 2; side++) {
		conn->end[side] = (struct end) {
			.conn = conn,
			.eq = fx_eq(test, fx->fabric),
			.cq = fx_cq(test, fx->domain, &attr),
			.in = buf + 2 * side * LEN,
			.out = buf + (2 * side + 1) * LEN,
			.seed = 2 * seed + side,
		};
	}
	conn->pep = fx_listen(test, fx->fabric, fx->info, conn->end[1].eq);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, close_open_ends,
							   conn));
	return conn;
}

static int bind(struct end *end)
{
	return fi_ep_bind(end->ep, &end->eq->fid, 0) ?:
	       fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV) ?:
	       fi_enable(end->ep) ?: (int)tr_recv(end->ep, end->in, LEN);
}

/* Opens the connecting endpoint and posts its receive. */
static int open_active(struct end *end)
{
	struct conn *conn = end->conn;

	return fi_endpoint(conn->fx->domain, conn->fx->info, &end->ep, NULL) ?:
	       bind(end);
}

/* Waits for the request, opens the accepting endpoint and posts its receive. */
static int open_passive(struct end *end)
{
	struct conn *conn = end->conn;
	struct fx_cm_event event = {};
	int ret;

	ret = fx_wait_event(conn->test, end->eq, FI_CONNREQ, &event,
			    sizeof(event));
	if (ret < 0)
		return ret;
	ret = fi_endpoint(conn->fx->domain, event.entry.info, &end->ep, NULL);
	fi_freeinfo(event.entry.info);
	return ret ?: bind(end);
}

static int start_connect(struct end *end)
{
	struct sockaddr_in6 to;
	size_t len = sizeof(to);

	return open_active(end) ?:
	       fi_getname(&end->conn->pep->fid, &to, &len) ?:
	       fi_connect(end->ep, &to, NULL, 0);
}

static int accept_request(struct end *end)
{
	return open_passive(end) ?: fi_accept(end->ep, NULL, 0);
}

static int wait_connected(struct end *end)
{
	struct conn *conn = end->conn;
	struct fx_cm_event event;
	int ret = fx_wait_event(conn->test, end->eq, FI_CONNECTED, &event,
				sizeof(event));

	/*
	 * siw aborts a connection whose active side is very slow to read the
	 * reply, and reports that: neither side waits for a message then.
	 */
	if (ret == -FI_ECONNABORTED && tr_is_iwarp(conn->fx->info))
		WRITE_ONCE(conn->refused, true);
	return ret < 0 ? ret : 0;
}

/* Reads both completions of an exchange, in either order. */
static int wait_exchange(struct end *end)
{
	struct fi_cq_tagged_entry entry[2] = {};
	ssize_t ret = fx_wait_comp(end->conn->test, end->cq, entry, 2);
	void *seen[2] = { entry[0].op_context, entry[1].op_context };

	if (ret != 2)
		return ret < 0 ? ret : -FI_EIO;
	if (!(seen[0] == end->in && seen[1] == end->out) &&
	    !(seen[1] == end->in && seen[0] == end->out))
		return -FI_EINVAL;
	return tr_intact(end->in, LEN, end->seed ^ 1) ? 0 : -FI_EIO;
}

/* Thread of one endpoint: connects or accepts, and sends as soon as it reads FI_CONNECTED. */
static int exchange_messages(struct tr_thread *thread)
{
	struct end *end = thread->arg;
	int ret;

	tr_fill(end->out, LEN, end->seed);
	ret = end == &end->conn->end[0] ? start_connect(end) : accept_request(end);
	ret = ret ?: wait_connected(end);
	ret = ret ?: (int)tr_send(end->ep, end->out, LEN);
	thread->result = ret ?: wait_exchange(end);
	return 0;
}

/* Keeps a CPU busy, so that other threads on it are delayed. */
static int keep_cpu_busy(struct tr_thread *thread)
{
	while (!kthread_should_stop())
		cond_resched();
	return 0;
}

static void close_ends(struct kunit *test, struct conn *conn, int first)
{
	for (int i = 0; i < 2; i++) {
		struct end *end = &conn->end[i ^ first];

		if (end->ep)
			KUNIT_EXPECT_EQ(test, 0, fi_close(&end->ep->fid));
		end->ep = NULL;
	}
	for (int side = 0; side < 2; side++) {
		struct fi_eq_err_entry error = {};
		struct fx_cm_event event;
		u32 what;

		/* The peer's FI_SHUTDOWN may be queued or not. */
		while (fi_eq_read(conn->end[side].eq, &what, &event,
				  sizeof(event), 0) > 0 ||
		       fi_eq_readerr(conn->end[side].eq, &error, 0) > 0)
			;
	}
}

static void exchange_on_all(struct kunit *test, struct conn **conns, int count)
{
	struct tr_thread *threads[PAIRS][2];

	for (int i = 0; i < count; i++)
		conns[i]->refused = false;
	for (int i = 0; i < 2 * count; i++)
		threads[i / 2][i % 2] = tr_start(test, -1, exchange_messages,
						 &conns[i / 2]->end[i % 2]);
	for (int i = 0; i < 2 * count; i++) {
		struct tr_thread *thread = threads[i / 2][i % 2];

		KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	}
	for (int i = 0; i < 2 * count; i++) {
		ssize_t ret = threads[i / 2][i % 2]->result;

		if (ret && conns[i / 2]->refused)
			kunit_info(test, "refused");
		else
			KUNIT_EXPECT_EQ_MSG(test, 0, ret, "%s: %s",
					    i % 2 ? "accepting" : "connecting",
					    fi_strerror(-(int)ret));
	}
}

static void first_messages(struct kunit *test, bool busy)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct conn *conns[PAIRS];
	int cpu;

	for (int i = 0; i < PAIRS; i++)
		conns[i] = open_conn(test, fx, i);
	if (busy)
		for_each_online_cpu(cpu)
			tr_start(test, cpu, keep_cpu_busy, NULL);
	for (unsigned int round = 0; round < tr_rounds; round++) {
		exchange_on_all(test, conns, PAIRS);
		for (int i = 0; i < PAIRS; i++)
			close_ends(test, conns[i], (round + i) & 1);
		if (test->status == KUNIT_FAILURE) {
			kunit_err(test, "in round %u", round);
			return;
		}
	}
}

static void cm_01_sends_right_after_connected_arrive(struct kunit *test)
{
	first_messages(test, false);
}

static void cm_01_sends_right_after_connected_arrive_on_busy_cpus(struct kunit *test)
{
	first_messages(test, true);
}

/* Thread that connects, sends one message and closes as soon as the send completes. */
static int send_and_close(struct tr_thread *thread)
{
	struct end *end = thread->arg;
	struct fi_cq_tagged_entry entry;
	int ret;

	tr_fill(end->out, LEN, end->seed);
	ret = start_connect(end) ?: wait_connected(end) ?:
	      (int)tr_send(end->ep, end->out, LEN);
	if (!ret && fx_wait_comp(end->conn->test, end->cq, &entry, 1) != 1)
		ret = -FI_EIO;
	thread->result = ret ?: fi_close(&end->ep->fid);
	end->ep = NULL;
	return 0;
}

/* On iWARP a completed send does not mean that the peer received it. */
static void expect_message(struct kunit *test, struct end *end)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {};
	ssize_t ret = fi_cq_read(end->cq, &entry, 1);

	if (ret == -FI_EAVAIL && tr_is_iwarp(end->conn->fx->info)) {
		KUNIT_EXPECT_EQ(test, 1, fi_cq_readerr(end->cq, &error, 0));
		KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
		return;
	}
	KUNIT_ASSERT_EQ(test, 1, ret);
	KUNIT_EXPECT_PTR_EQ(test, end->in, entry.op_context);
	KUNIT_EXPECT_TRUE(test, tr_intact(end->in, LEN, end->seed ^ 1));
}

static void short_connections(struct kunit *test, struct conn *conn)
{
	struct end *end = &conn->end[1];

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct tr_thread *thread = tr_start(test, -1, send_and_close,
						    &conn->end[0]);

		KUNIT_ASSERT_EQ(test, 0, accept_request(end));
		KUNIT_ASSERT_EQ(test, 0, wait_connected(end));
		tr_expect_shutdown(test, end->eq, end->ep);
		KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
		expect_message(test, end);
		KUNIT_ASSERT_EQ(test, 0, thread->result);
		close_ends(test, conn, 1);
	}
}

static void cm_06_short_connections_deliver_message_and_shutdown(struct kunit *test)
{
	short_connections(test, open_conn(test, fx_open(test), 0));
}

#define DELAY_MS	30

/* Delays ib_cm's work on this CPU, as the handler of any module may. */
static int delay_ib_cm(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	msleep(DELAY_MS);
	return event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? -ECONNREFUSED : 0;
}

static void stop_listening(void *id)
{
	rdma_destroy_id(id);
}

/* Opens another module's listener, on another port of the same address. */
static struct rdma_cm_id *listen_slowly(struct kunit *test,
					const struct fi_info *info)
{
	struct sockaddr_storage addr = {};
	struct rdma_cm_id *id;

	id = rdma_create_id(&init_net, delay_ib_cm, NULL, RDMA_PS_TCP, IB_QPT_RC);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, id);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, stop_listening,
							   id));
	memcpy(&addr, info->src_addr, info->src_addrlen);
	KUNIT_ASSERT_EQ(test, 0, rdma_bind_addr(id, (struct sockaddr *)&addr));
	KUNIT_ASSERT_EQ(test, 0, rdma_listen(id, 1));
	return id;
}

struct reconnect {
	struct end		*end;
	struct rdma_cm_id	*listener;
	bool			stop;
};

/* Thread that connects to the slow listener again and again, and is rejected. */
static int reconnect(struct tr_thread *thread)
{
	struct reconnect *repeat = thread->arg;
	struct end *end = repeat->end;
	struct fi_eq_err_entry error = {};
	int ret = 0;

	while (!ret && !READ_ONCE(repeat->stop)) {
		ret = open_active(end) ?:
		      fi_connect(end->ep, &repeat->listener->route.addr.src_addr,
				 NULL, 0) ?:
		      fx_wait_error(end->conn->test, end->eq, &error);
		if (!ret && error.err != FI_ECONNREFUSED)
			ret = -error.err;
		ret = ret ?: fi_close(&end->ep->fid);
		if (!ret)
			end->ep = NULL;
	}
	thread->result = ret;
	return 0;
}

/* With ib_cm's work on one CPU delayed, the peer's last message may be handled before its first. */
static void cm_06_short_connections_with_ib_cm_delayed(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct tr_thread *thread;
	struct reconnect *repeat;
	struct conn *conn;

	if (tr_is_iwarp(fx->info))
		kunit_skip(test, "iw_cm takes all in order");
	conn = open_conn(test, fx, 0);
	repeat = (void *)tr_buffer(test, sizeof(*repeat));
	repeat->end = &open_conn(test, fx, 1)->end[0];
	repeat->listener = listen_slowly(test, fx->info);
	thread = tr_start(test, -1, reconnect, repeat);
	short_connections(test, conn);
	WRITE_ONCE(repeat->stop, true);
	KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	KUNIT_EXPECT_EQ(test, 0, thread->result);
}

/*
 * A new connection has empty queues of full size, whatever work requests kOFI
 * posted to set it up.
 */
static void cm_01_a_new_connection_has_empty_queues_and_counters(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.tx_size = DEPTH, .rx_size = DEPTH, .cq_size = 2 * DEPTH,
		.count = true,
	};
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &opts);

	for (int side = 0; side < 2; side++) {
		KUNIT_EXPECT_EQ(test, DEPTH, fi_tx_size_left(pair->ep[side]));
		KUNIT_EXPECT_EQ(test, DEPTH, fi_rx_size_left(pair->ep[side]));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
				fi_cq_read(pair->cq[side], NULL, 0));
		for (int i = 0; i < FX_COUNTERS; i++) {
			KUNIT_EXPECT_EQ(test, 0,
					fi_cntr_read(pair->cntr[side][i]));
			KUNIT_EXPECT_EQ(test, 0,
					fi_cntr_readerr(pair->cntr[side][i]));
		}
	}
	for (int i = 0; i < DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf, LEN));
	for (int i = 0; i < DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], buf, LEN));
	/* The loop provider completes a send at once, and the queue has space again. */
	if (!tr_is_loop(pair->info))
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, tr_send(pair->ep[0], buf, LEN));
	for (int i = 0; i < DEPTH; i++) {
		tr_expect(test, pair->cq[0], buf, FI_SEND, 0);
		tr_expect(test, pair->cq[1], buf, FI_RECV, LEN);
	}
	for (int side = 0; side < 2; side++)
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
				fi_cq_read(pair->cq[side], NULL, 0));
}

/* The queue has no reader during connection setup, and may be full. */
static void cm_01_a_full_cq_does_not_prevent_a_connection(struct kunit *test)
{
	struct fi_cq_attr attr = { .size = 1, .format = FI_CQ_FORMAT_TAGGED };
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_cq *cq = fx_cq(test, fx->domain, &attr);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	u8 *buf = tr_buffer(test, LEN);
	unsigned int posted = 0;
	struct fid_ep *ep;
	ssize_t ret;

	/* More receives than the queue has space for, even with kOFI's own reserve. */
	fx->info->rx_attr->size = 1024;
	ep = fx_ep(test, fx->domain, fx->info);
	fx_bind(test, ep, fx->eq, cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
	while (!(ret = tr_recv(ep, buf, LEN)))
		posted++;
	KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
	KUNIT_ASSERT_GT_MSG(test, fi_rx_size_left(ep), 0, "after %u: not full",
			    posted);
	fx_connect(test, fx->domain, ep, pep, fx->eq, fx->cq);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, tr_recv(ep, buf, LEN));
	fx_close(test, &ep->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cm_01_a_new_connection_has_empty_queues_and_counters),
	KUNIT_CASE(cm_01_a_full_cq_does_not_prevent_a_connection),
	KUNIT_CASE_SLOW(cm_01_sends_right_after_connected_arrive),
	KUNIT_CASE_SLOW(cm_01_sends_right_after_connected_arrive_on_busy_cpus),
	KUNIT_CASE_SLOW(cm_06_short_connections_deliver_message_and_shutdown),
	KUNIT_CASE_SLOW(cm_06_short_connections_with_ib_cm_delayed),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cm_first",
	.test_cases = cases,
};

kunit_test_suite(suite);
