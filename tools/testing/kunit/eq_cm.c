// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, EQ: events, errors and requests of connections.
 */

#include <linux/completion.h>
#include <linux/in.h>
#include <linux/in6.h>

#include "fixture.h"

/*
 * A port without a listener. It is no ephemeral port, so that no connecting
 * endpoint gets it as its own and connects to itself.
 */
#define UNUSED_PORT 9

/* The port has the same offset in both address families. */
static_assert(offsetof(struct sockaddr_in6, sin6_port) ==
	      offsetof(struct sockaddr_in, sin_port));

/* Returns an address of this device without a listener. */
static void unused_address(struct kunit *test, struct kofi_fabric_fx *fx,
			   struct sockaddr_in6 *addr)
{
	struct fid_pep *pep = fx_pep(test, fx->fabric, fx->info);
	size_t len = sizeof(*addr);

	KUNIT_ASSERT_EQ(test, fi_getname(&pep->fid, addr, &len), 0);
	fx_close(test, &pep->fid);
	addr->sin6_port = htons(UNUSED_PORT);
}

/* Connects an endpoint to the address without a listener; the error follows on fx->eq. */
static struct fid_ep *refused_ep(struct kunit *test, struct kofi_fabric_fx *fx,
				 struct sockaddr_in6 *unused)
{
	struct fid_ep *ep = fx_bound_ep(test, fx);

	KUNIT_ASSERT_EQ(test, fi_connect(ep, unused, NULL, 0), 0);
	return ep;
}

/* Waits for an event or an error without consuming it. */
static ssize_t wait_for_head(struct fid_eq *eq)
{
	struct fx_cm_event event;
	u32 number;

	return fi_eq_sread(eq, &number, &event, sizeof(event), FX_WAIT_MS,
			   FI_PEEK);
}

static void eq_01_an_error_is_eavail_until_read(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_eq_err_entry error = {};
	struct sockaddr_in6 unused;
	struct fid_ep *ep;
	char buf[512];
	u32 event;

	unused_address(test, fx, &unused);
	ep = refused_ep(test, fx, &unused);
	KUNIT_ASSERT_EQ(test, wait_for_head(fx->eq), -FI_EAVAIL);
	KUNIT_EXPECT_EQ(test, fi_eq_read(fx->eq, &event, buf, sizeof(buf), 0),
			-FI_EAVAIL);

	KUNIT_EXPECT_EQ(test, fi_eq_readerr(fx->eq, &error, FI_PEEK),
			sizeof(error));
	KUNIT_EXPECT_EQ(test, error.err, FI_ECONNREFUSED);
	memset(&error, 0, sizeof(error));
	KUNIT_EXPECT_EQ(test, fi_eq_readerr(fx->eq, &error, 0), sizeof(error));
	KUNIT_EXPECT_EQ(test, error.err, FI_ECONNREFUSED);
	KUNIT_EXPECT_PTR_EQ(test, error.fid, &ep->fid);
	KUNIT_EXPECT_NOT_NULL(test, fi_eq_strerror(fx->eq, error.prov_errno,
						   NULL, NULL, 0));

	KUNIT_EXPECT_EQ(test, fi_eq_readerr(fx->eq, &error, 0), -FI_EAGAIN);
	KUNIT_EXPECT_EQ(test, fi_eq_read(fx->eq, &event, buf, sizeof(buf), 0),
			-FI_EAGAIN);
}

static void eq_05_close_while_bound_is_busy(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_ep *ep = fx_bound_ep(test, fx);
	struct fid_pep *pep;

	KUNIT_EXPECT_EQ(test, fi_close(&fx->eq->fid), -FI_EBUSY);
	fx_close(test, &ep->fid);

	pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	KUNIT_EXPECT_EQ(test, fi_close(&fx->eq->fid), -FI_EBUSY);
	fx_close(test, &pep->fid);
	fx_close(test, &fx->eq->fid);
}

static void eq_05_errors_are_in_order_with_events(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_eq_err_entry error;
	struct sockaddr_in6 unused;
	u32 event;
	char buf;

	unused_address(test, fx, &unused);
	KUNIT_EXPECT_EQ(test, fi_eq_write(fx->eq, 1, "", 1, 0), 1);
	refused_ep(test, fx, &unused);
	KUNIT_EXPECT_EQ(test, fi_eq_read(fx->eq, &event, &buf, 1, 0), 1);
	KUNIT_EXPECT_EQ(test, event, 1);

	KUNIT_ASSERT_EQ(test, wait_for_head(fx->eq), -FI_EAVAIL);
	KUNIT_EXPECT_EQ(test, fi_eq_write(fx->eq, 2, "", 1, 0), 1);
	KUNIT_EXPECT_EQ(test, fi_eq_read(fx->eq, &event, &buf, 1, 0),
			-FI_EAVAIL);
	KUNIT_EXPECT_EQ(test, fx_wait_error(test, fx->eq, &error), 0);
	KUNIT_EXPECT_EQ(test, error.err, FI_ECONNREFUSED);
	KUNIT_EXPECT_EQ(test, fi_eq_read(fx->eq, &event, &buf, 1, 0), 1);
	KUNIT_EXPECT_EQ(test, event, 2);
}

#define REFUSED	48

static void eq_05_no_error_is_lost(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_eq_attr attr = { .size = 1, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_ep *ep[REFUSED];
	struct sockaddr_in6 unused;

	/* The size bounds fi_eq_write(), not the events that kOFI reports. */
	fx_close(test, &fx->eq->fid);
	KUNIT_ASSERT_EQ(test, fi_eq_open(fx->fabric, &attr, &fx->eq, NULL), 0);
	fx_defer_close(test, &fx->eq->fid);
	unused_address(test, fx, &unused);
	for (int i = 0; i < REFUSED; i++)
		ep[i] = refused_ep(test, fx, &unused);

	for (int i = 0; i < REFUSED; i++) {
		struct fi_eq_err_entry error;
		int nth;

		KUNIT_ASSERT_EQ(test, fx_wait_error(test, fx->eq, &error), 0);
		for (nth = 0; nth < REFUSED; nth++)
			if (ep[nth] && error.fid == &ep[nth]->fid)
				break;
		KUNIT_ASSERT_LT_MSG(test, nth, REFUSED, "of an unknown endpoint, or reported twice");
		KUNIT_EXPECT_EQ(test, error.err, FI_ECONNREFUSED);
		ep[nth] = NULL;
	}
}

#define PEERS	6

static void eq_06_one_eq_serves_many_endpoints(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep[2];
	struct fid_ep *ep[PEERS], *accepted;
	struct fx_cm_event event;

	for (int i = 0; i < 2; i++)
		pep[i] = fx_listen(test, fx->fabric, fx->info, fx->eq);

	for (int i = 0; i < PEERS; i++) {
		struct fid *seen[2];

		ep[i] = fx_bound_ep(test, fx);
		fx_start_connect(test, ep[i], pep[i % 2]);
		KUNIT_ASSERT_GT(test, fx_wait_event(test, fx->eq, FI_CONNREQ,
				&event, sizeof(event)), 0);
		fx_defer_free(test, event.entry.info);
		KUNIT_EXPECT_PTR_EQ(test, event.entry.fid, &pep[i % 2]->fid);

		accepted = fx_ep(test, fx->domain, event.entry.info);
		fx_bind(test, accepted, fx->eq, fx->cq, FI_TRANSMIT | FI_RECV);
		KUNIT_ASSERT_EQ(test, fi_accept(accepted, NULL, 0), 0);
		for (int side = 0; side < 2; side++) {
			KUNIT_ASSERT_GT(test, fx_wait_event(test, fx->eq,
					FI_CONNECTED, &event, sizeof(event)), 0);
			seen[side] = event.entry.fid;
		}
		KUNIT_EXPECT_TRUE(test, seen[0] == &ep[i]->fid ||
				  seen[1] == &ep[i]->fid);
		KUNIT_EXPECT_TRUE(test, seen[0] == &accepted->fid ||
				  seen[1] == &accepted->fid);
	}
}

/* Closes the listener, with or without its queue, while a request is unread. */
static void close_with_unread_request(struct kunit *test, bool close_queue)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_eq *server = fx_eq(test, fx->fabric);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, server);
	struct fid_ep *ep = fx_bound_ep(test, fx);
	struct fi_eq_err_entry error;

	fx_start_connect(test, ep, pep);
	KUNIT_ASSERT_GT(test, wait_for_head(server), 0);
	KUNIT_EXPECT_EQ(test, fi_close(&server->fid), -FI_EBUSY);
	fx_close(test, &pep->fid);
	if (close_queue)
		fx_close(test, &server->fid);

	KUNIT_ASSERT_EQ(test, fx_wait_error(test, fx->eq, &error), 0);
	KUNIT_EXPECT_PTR_EQ(test, error.fid, &ep->fid);
	KUNIT_EXPECT_EQ(test, error.err, FI_ECONNREFUSED);
}

static void eq_07_an_unread_request_is_rejected_at_close(struct kunit *test)
{
	close_with_unread_request(test, false);
	close_with_unread_request(test, true);
}

static void eq_07_close_discards_the_endpoints_events(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct sockaddr_in6 unused;
	struct fx_cm_event event;
	struct fid_ep *ep;
	u32 number;

	unused_address(test, fx, &unused);
	ep = refused_ep(test, fx, &unused);
	KUNIT_ASSERT_EQ(test, wait_for_head(fx->eq), -FI_EAVAIL);
	fx_close(test, &ep->fid);
	/* A queued error of a closed endpoint would have a dangling fid. */
	KUNIT_EXPECT_EQ(test, fi_eq_read(fx->eq, &number, &event, sizeof(event),
					 0), -FI_EAGAIN);
}

struct server {
	struct fid_domain	*domain;
	struct fid_eq		*eq;
	struct fid_cq		*cq;
	struct fid_ep		*ep;
	struct completion	connected;
	int			ret;
};

/* Handler of a server: it may sleep, so it may accept. */
static void accept_in_handler(struct fid_eq *eq, void *context)
{
	struct server *server = context;
	struct fx_cm_event event;
	u32 number;

	while (fi_eq_read(eq, &number, &event, sizeof(event), 0) > 0) {
		if (number == FI_CONNECTED)
			complete(&server->connected);
		if (number != FI_CONNREQ)
			continue;
		server->ret = fi_endpoint(server->domain, event.entry.info,
					  &server->ep, NULL);
		fi_freeinfo(event.entry.info);
		if (server->ret)
			continue;
		server->ret = fi_ep_bind(server->ep, &eq->fid, 0) ?:
			       fi_ep_bind(server->ep, &server->cq->fid,
					  FI_TRANSMIT | FI_RECV) ?:
			       fi_accept(server->ep, NULL, 0);
	}
}

static void eq_08_handler_may_accept(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_eq_attr attr = {
		.eq_event_handler = accept_in_handler,
	};
	struct fx_cm_event event;
	struct server *server;
	struct fid_ep *ep;

	/* Not on the stack, since the handler runs until the queue is closed. */
	server = kunit_kzalloc(test, sizeof(*server), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, server);
	server->domain = fx->domain;
	server->cq = fx->cq;
	init_completion(&server->connected);
	KUNIT_ASSERT_EQ(test, fi_eq_open(fx->fabric, &attr, &server->eq,
					 server), 0);
	fx_defer_close(test, &server->eq->fid);
	ep = fx_bound_ep(test, fx);
	fx_start_connect(test, ep, fx_listen(test, fx->fabric, fx->info,
					     server->eq));
	KUNIT_EXPECT_GT(test, fx_wait_event(test, fx->eq, FI_CONNECTED, &event,
					    sizeof(event)), 0);
	KUNIT_EXPECT_NE_MSG(test,
		wait_for_completion_timeout(&server->connected,
					    msecs_to_jiffies(FX_WAIT_MS)), 0,
		"waited for FI_CONNECTED in the handler");
	KUNIT_EXPECT_EQ(test, server->ret, 0);
	if (server->ep)
		fx_defer_close(test, &server->ep->fid);
}

static struct kunit_case eq_cm_cases[] = {
	KUNIT_CASE(eq_01_an_error_is_eavail_until_read),
	KUNIT_CASE(eq_05_close_while_bound_is_busy),
	KUNIT_CASE(eq_05_errors_are_in_order_with_events),
	KUNIT_CASE(eq_05_no_error_is_lost),
	KUNIT_CASE(eq_06_one_eq_serves_many_endpoints),
	KUNIT_CASE(eq_07_an_unread_request_is_rejected_at_close),
	KUNIT_CASE(eq_07_close_discards_the_endpoints_events),
	KUNIT_CASE(eq_08_handler_may_accept),
	{}
};

static struct kunit_suite eq_cm_suite = {
	.name = "kofi_eq_cm",
	.test_cases = eq_cm_cases,
};

kunit_test_suite(eq_cm_suite);
