// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, EQ 8: the handler of an event queue is called where it may sleep,
 * for every event, one call at a time, and not after the close.
 */

#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>

#include "traffic.h"

#define MANY 200
#define SHORT_MS 100

/* A queue, its handler, and the violations that the handler saw. */
struct handled {
	struct fid_eq	*eq;
	/* Called by the handler after its checks. */
	void		(*body)(struct handled *handled);
	void		*data;
	atomic_t	calls, inside, events;
	bool		wrong_queue, may_not_sleep, concurrent, closed, late;
};

static void check_call(struct fid_eq *eq, void *context)
{
	struct handled *handled = context;

	if (atomic_inc_return(&handled->inside) > 1)
		handled->concurrent = true;
	if (READ_ONCE(handled->closed))
		handled->late = true;
	if (eq != handled->eq)
		handled->wrong_queue = true;
	if (!in_task() || in_atomic() || irqs_disabled())
		handled->may_not_sleep = true;
	might_sleep();
	handled->body(handled);
	atomic_inc(&handled->calls);
	atomic_dec(&handled->inside);
}

static struct handled *open_handled(struct kunit *test,
				    struct fid_fabric *fabric,
				    void (*body)(struct handled *handled),
				    void *data)
{
	struct handled *handled = (void *)tr_buffer(test, sizeof(*handled));
	struct fi_eq_attr attr = {
		.size = MANY,
		.flags = FI_WRITE,
		.wait_obj = FI_WAIT_UNSPEC,
		.eq_event_handler = check_call,
	};

	handled->body = body;
	handled->data = data;
	KUNIT_ASSERT_EQ(test, 0,
			fi_eq_open(fabric, &attr, &handled->eq, handled));
	fx_defer_close(test, &handled->eq->fid);
	KUNIT_EXPECT_EQ_MSG(test, 0, atomic_read(&handled->calls),
			    "nothing is there yet");
	return handled;
}

static struct handled *open_with_fabric(struct kunit *test,
					void (*body)(struct handled *handled),
					void *data)
{
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);

	return open_handled(test, fx_fabric(test, info), body, data);
}

static void check(struct kunit *test, struct handled *handled)
{
	KUNIT_EXPECT_FALSE(test, handled->wrong_queue);
	KUNIT_EXPECT_FALSE(test, handled->may_not_sleep);
	KUNIT_EXPECT_FALSE(test, handled->concurrent);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(handled->late));
}

static bool wait_for_count(struct kunit *test, atomic_t *count, int wanted)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (atomic_read(count) < wanted) {
		if (time_after(jiffies, deadline)) {
			kunit_err(test, "%d, not %d, after %d ms",
				  atomic_read(count), wanted, FX_WAIT_MS);
			return false;
		}
		usleep_range(100, 200);
	}
	return true;
}

/* Thread that writes MANY events. */
static int write_many(struct tr_thread *thread)
{
	struct handled *handled = thread->arg;
	int written = 0;

	while (!kthread_should_stop() && written < MANY) {
		u64 data = written;

		if (fi_eq_write(handled->eq, 7, &data, 8, 0) == 8)
			written++;
		else
			usleep_range(50, 100);
	}
	return 0;
}

static void read_all(struct handled *handled)
{
	u32 number;
	u64 data;

	while (fi_eq_read(handled->eq, &number, &data, sizeof(data), 0) == 8)
		atomic_inc(&handled->events);
}

static void eq_08_called_for_every_event(struct kunit *test)
{
	struct handled *handled = open_with_fabric(test, read_all, NULL);

	for (int i = 1; i <= MANY; i++) {
		u64 data = i;

		KUNIT_ASSERT_EQ(test, 8, fi_eq_write(handled->eq, 7, &data, 8, 0));
		KUNIT_ASSERT_TRUE(test, wait_for_count(test, &handled->events, i));
	}
	check(test, handled);
}

/* Handler that reads nothing: each event is still followed by the start of a call. */
static void read_nothing(struct handled *handled)
{
}

static void eq_08_called_while_events_are_unread(struct kunit *test)
{
	struct handled *handled = open_with_fabric(test, read_nothing, NULL);

	for (int i = 1; i <= 3; i++) {
		KUNIT_ASSERT_EQ(test, 1, fi_eq_write(handled->eq, 7, "", 1, 0));
		KUNIT_ASSERT_TRUE(test, wait_for_count(test, &handled->calls, i));
	}
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&handled->calls));
	check(test, handled);
}

static void eq_08_one_call_at_a_time(struct kunit *test)
{
	struct handled *handled = open_with_fabric(test, read_all, NULL);
	struct tr_thread *writers[2];

	for (int i = 0; i < 2; i++)
		writers[i] = tr_start(test, i ? num_online_cpus() - 1 : 0,
				      write_many, handled);
	KUNIT_EXPECT_TRUE(test, wait_for_count(test, &handled->events, 2 * MANY));
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join(test, writers[i]));
		tr_stop(test, writers[i]);
	}
	KUNIT_EXPECT_EQ(test, 2 * MANY, atomic_read(&handled->events));
	check(test, handled);
}

static void delay_handler(struct handled *handled)
{
	atomic_inc(&handled->events);
	msleep(SHORT_MS);
}

static void eq_08_close_waits_for_the_handler(struct kunit *test)
{
	struct handled *handled = open_with_fabric(test, delay_handler, NULL);
	int calls;

	KUNIT_ASSERT_EQ(test, 1, fi_eq_write(handled->eq, 7, "", 1, 0));
	KUNIT_ASSERT_TRUE(test, wait_for_count(test, &handled->events, 1));
	/* Would cause a second call, which must not come. */
	KUNIT_ASSERT_EQ(test, 1, fi_eq_write(handled->eq, 7, "", 1, 0));
	fx_close(test, &handled->eq->fid);
	WRITE_ONCE(handled->closed, true);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&handled->inside));
	calls = atomic_read(&handled->calls);
	msleep(2 * SHORT_MS);
	KUNIT_EXPECT_EQ(test, calls, atomic_read(&handled->calls));
	check(test, handled);
}

static void close_own_queue(struct handled *handled)
{
	WRITE_ONCE(*(int *)handled->data, fi_close(&handled->eq->fid));
}

static void eq_08_a_handler_cannot_close_its_queue(struct kunit *test)
{
	int *ret = (void *)tr_buffer(test, sizeof(*ret));
	struct handled *handled = open_with_fabric(test, close_own_queue, ret);

	KUNIT_ASSERT_EQ(test, 1, fi_eq_write(handled->eq, 7, "", 1, 0));
	KUNIT_ASSERT_TRUE(test, wait_for_count(test, &handled->calls, 1));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, READ_ONCE(*ret));
	check(test, handled);
}

/* A server that runs in its handler and accepts every request. */
struct server {
	struct kofi_fabric_fx	*fx;
	struct fid_ep		*ep;
	int			error;
	atomic_t		connected, ended;
};

static int accept(struct handled *handled, struct fi_info *info)
{
	struct server *server = handled->data;
	struct kofi_fabric_fx *fx = server->fx;
	int ret;

	ret = fi_endpoint(fx->domain, info, &server->ep, NULL);
	if (ret)
		return ret;
	ret = fi_ep_bind(server->ep, &handled->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(server->ep, &fx->cq->fid,
				 FI_TRANSMIT | FI_RECV);
	return ret ?: fi_accept(server->ep, NULL, 0);
}

static void handle_cm_events(struct handled *handled)
{
	struct server *server = handled->data;
	struct fx_cm_event event;
	u32 number;

	while (fi_eq_read(handled->eq, &number, &event, sizeof(event), 0) > 0) {
		switch (number) {
		case FI_CONNREQ:
			server->error = accept(handled, event.entry.info);
			fi_freeinfo(event.entry.info);
			break;
		case FI_CONNECTED:
			atomic_inc(&server->connected);
			break;
		case FI_SHUTDOWN:
			server->error = fi_close(&server->ep->fid);
			server->ep = NULL;
			atomic_inc(&server->ended);
			break;
		}
	}
}

static void eq_08_connections_are_served_in_the_handler(struct kunit *test)
{
	struct server *server = (void *)tr_buffer(test, sizeof(*server));
	struct kofi_fabric_fx *fx = fx_open(test);
	struct handled *handled;
	struct fx_cm_event event;
	struct fid_pep *pep;
	struct fid_ep *ep;

	server->fx = fx;
	handled = open_handled(test, fx->fabric, handle_cm_events, server);
	pep = fx_listen(test, fx->fabric, fx->info, handled->eq);
	for (int round = 1; round <= 3; round++) {
		ep = fx_bound_ep(test, fx);
		fx_start_connect(test, ep, pep);
		KUNIT_ASSERT_GT(test, fx_wait_event(test, fx->eq, FI_CONNECTED,
						    &event, sizeof(event)), 0);
		KUNIT_ASSERT_TRUE(test, wait_for_count(test, &server->connected,
						       round));
		fx_close(test, &ep->fid);
		KUNIT_ASSERT_TRUE(test, wait_for_count(test, &server->ended, round));
		KUNIT_EXPECT_EQ(test, 0, server->error);
	}
	check(test, handled);
}

static void read_errors(struct handled *handled)
{
	struct fi_eq_err_entry error = {};

	while (fi_eq_readerr(handled->eq, &error, 0) > 0)
		if (error.err == FI_ECONNREFUSED)
			atomic_inc(&handled->events);
}

static void eq_08_called_for_errors(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct handled *handled = open_handled(test, fx->fabric, read_errors,
					       NULL);
	struct fid_pep *pep = fx_pep(test, fx->fabric, fx->info);
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);
	struct sockaddr_in6 unused;
	size_t len = sizeof(unused);

	KUNIT_ASSERT_EQ(test, 0, fi_getname(&pep->fid, &unused, &len));
	fx_close(test, &pep->fid);
	fx_bind(test, ep, handled->eq, fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_connect(ep, &unused, NULL, 0));
	KUNIT_EXPECT_TRUE(test, wait_for_count(test, &handled->events, 1));
	check(test, handled);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(eq_08_called_for_every_event),
	KUNIT_CASE(eq_08_called_while_events_are_unread),
	KUNIT_CASE(eq_08_one_call_at_a_time),
	KUNIT_CASE(eq_08_close_waits_for_the_handler),
	KUNIT_CASE(eq_08_a_handler_cannot_close_its_queue),
	KUNIT_CASE(eq_08_connections_are_served_in_the_handler),
	KUNIT_CASE(eq_08_called_for_errors),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_eq_handler",
	.test_cases = cases,
};

kunit_test_suite(suite);
