// SPDX-License-Identifier: GPL-2.0
/*
 * Tests accepting endpoints with a peer that uses rdma_cm without kOFI.
 *
 * CONTRACT, CM 6: if the accepting endpoint is closed before the peer has acknowledged the reply
 * (RTU), the peer gets the disconnect after it has sent the RTU. The test chooses when to send it.
 *
 * CONTRACT, CM 1: a request has the address of the host that sent it.
 */

#include <rdma/rdma_cm.h>

#include "traffic.h"

/* Limit of closed endpoints that wait for the RTU; beyond it, the oldest connection is rejected. */
#define MOST	64
#define BEYOND	2

/* First queue pair number of the requests; no queue pair and no earlier requester has it. */
#define FIRST_QPN	0x800000

struct client {
	struct kunit			*test;
	struct rdma_cm_id		*id;
	struct completion		event;
	enum rdma_cm_event_type		what;
};

static int on_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct client *client = id->context;

	client->what = event->event;
	complete(&client->event);
	return 0;
}

static void expect_event(struct client *client, enum rdma_cm_event_type what)
{
	struct kunit *test = client->test;

	KUNIT_ASSERT_GT_MSG(test, wait_for_completion_timeout(&client->event,
							      msecs_to_jiffies(FX_WAIT_MS)),
			    0, "waited for %s", rdma_event_msg(what));
	KUNIT_ASSERT_EQ_MSG(test, what, client->what, "%s", rdma_event_msg(client->what));
}

static void destroy(void *id)
{
	rdma_destroy_id(id);
}

/* Resolves the route to a listener. */
static struct client *resolve(struct kunit *test, struct fid_pep *pep)
{
	struct client *client = (void *)tr_buffer(test, sizeof(*client));
	struct sockaddr_in6 to;
	size_t len = sizeof(to);

	client->test = test;
	init_completion(&client->event);
	client->id = rdma_create_id(&init_net, on_event, client, RDMA_PS_TCP, IB_QPT_RC);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, client->id);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, destroy, client->id));
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&pep->fid, &to, &len));
	KUNIT_ASSERT_EQ(test, 0, rdma_resolve_addr(client->id, NULL, (struct sockaddr *)&to, 2000));
	expect_event(client, RDMA_CM_EVENT_ADDR_RESOLVED);
	KUNIT_ASSERT_EQ(test, 0, rdma_resolve_route(client->id, 2000));
	expect_event(client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return client;
}

static void request_connection(struct client *client)
{
	static u32 qpn = FIRST_QPN;
	struct rdma_conn_param param = { .qp_num = qpn++, .retry_count = 6 };

	KUNIT_ASSERT_EQ(client->test, 0, rdma_connect(client->id, &param));
}

/* Sends a request, has an endpoint accept it, waits for the reply, and closes the endpoint. */
static struct client *connect(struct kunit *test, struct kofi_fabric_fx *fx, struct fid_pep *pep)
{
	struct client *client = resolve(test, pep);
	struct fid_ep *ep;

	request_connection(client);
	ep = fx_ep(test, fx->domain, fx_wait_request(test, fx->eq));
	fx_bind(test, ep, fx->eq, fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_accept(ep, NULL, 0));
	expect_event(client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	fx_close(test, &ep->fid);
	return client;
}

/* Sends the RTU, and expects the disconnect. */
static void send_rtu_expect_disconnect(struct client *client)
{
	int ret;

	rdma_lock_handler(client->id);
	ret = rdma_accept(client->id, NULL);
	rdma_unlock_handler(client->id);
	KUNIT_ASSERT_EQ(client->test, 0, ret);
	expect_event(client, RDMA_CM_EVENT_DISCONNECTED);
}

static struct kofi_fabric_fx *open_fx(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);

	tr_needs_device(test, fx->info);
	if (tr_is_iwarp(fx->info))
		kunit_skip(test, "iWARP has no RTU, and the addresses of TCP");
	return fx;
}

static void cm_06_a_late_rtu_is_followed_by_a_disconnect(struct kunit *test)
{
	struct kofi_fabric_fx *fx = open_fx(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);

	for (int i = 0; i < 3; i++)
		send_rtu_expect_disconnect(connect(test, fx, pep));
}

static void cm_06_the_oldest_pending_acceptors_are_rejected(struct kunit *test)
{
	struct kofi_fabric_fx *fx = open_fx(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct client **clients = (void *)tr_buffer(test, (MOST + BEYOND) * sizeof(*clients));

	for (int i = 0; i < MOST + BEYOND; i++)
		clients[i] = connect(test, fx, pep);
	for (int i = 0; i < BEYOND; i++)
		expect_event(clients[i], RDMA_CM_EVENT_REJECTED);
	for (int i = BEYOND; i < MOST + BEYOND; i++)
		send_rtu_expect_disconnect(clients[i]);
}

/* Changes the source address that rdma_cm writes into a request, but not that of its path. */
static void change_source(struct client *client)
{
	struct sockaddr_storage *source = &client->id->route.addr.src_addr;

	if (source->ss_family == AF_INET)
		((struct sockaddr_in *)source)->sin_addr.s_addr ^= htonl(1);
	else
		((struct sockaddr_in6 *)source)->sin6_addr.s6_addr[15] ^= 1;
}

static void cm_01_a_request_with_the_address_of_another_host_is_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = open_fx(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct client *client = resolve(test, pep);
	struct fx_cm_event event;
	u32 what;

	change_source(client);
	request_connection(client);
	expect_event(client, RDMA_CM_EVENT_REJECTED);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_eq_read(fx->eq, &what, &event, sizeof(event), 0));
	/* The listener still accepts other requests. */
	send_rtu_expect_disconnect(connect(test, fx, pep));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cm_01_a_request_with_the_address_of_another_host_is_refused),
	KUNIT_CASE(cm_06_a_late_rtu_is_followed_by_a_disconnect),
	KUNIT_CASE_SLOW(cm_06_the_oldest_pending_acceptors_are_rejected),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cm_late",
	.test_cases = cases,
};

kunit_test_suite(suite);
