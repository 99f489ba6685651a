// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CLOSE 2: calls of connections whose allocations fail in turn.
 */

#include <kunit/test-bug.h>

#include "fault.h"
#include "traffic.h"

static void open_ep(struct kunit *test, struct fault *fault)
{
	struct kofi_fabric_fx *fx = fault->fx;

	KUNIT_ASSERT_EQ(test, fi_endpoint(fx->domain, fault->request ?: fx->info,
					  &fault->ep, NULL), 0);
	KUNIT_EXPECT_EQ(test, fi_ep_bind(fault->ep, &fx->eq->fid, 0), 0);
	KUNIT_EXPECT_EQ(test, fi_ep_bind(fault->ep, &fx->cq->fid,
					 FI_TRANSMIT | FI_RECV), 0);
	KUNIT_EXPECT_EQ(test, fi_ep_bind(fault->ep, &fault->cntr->fid,
					 FI_SEND | FI_RECV), 0);
}

static void close_ep(struct fault *fault)
{
	fi_close(&fault->ep->fid);
	fault->ep = NULL;
}

static void close_if_open(struct fault *fault)
{
	if (fault->ep)
		close_ep(fault);
}

static int call_enable(struct fault *fault)
{
	return fi_enable(fault->ep);
}

/*
 * Connects to an address without a listener, which is refused at once. With a
 * listener, iwcm would delay the close until an answer arrives, up to ten
 * seconds.
 */
static int call_connect(struct fault *fault)
{
	return fi_connect(fault->ep, &fault->no_listener, "hello", 5);
}

static int call_bind(struct fault *fault)
{
	struct kofi_fabric_fx *fx = fault->fx;
	struct fid_ep *ep;
	int ret;

	/* The endpoint is opened here, since a bound one cannot be bound again. */
	ret = FAULT_MADE(fault, fi_endpoint(fx->domain, fx->info, &ep, NULL),
			 ep);
	if (ret)
		return ret;
	ret = fi_ep_bind(ep, &fx->eq->fid, 0) ?:
	      fi_ep_bind(ep, &fx->cq->fid, FI_TRANSMIT | FI_RECV);
	if (ret)
		fi_close(&ep->fid);
	return ret;
}

static void close_02_before_a_connection(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_ep_bind()", NULL, call_bind },
		{ "fi_enable()", open_ep, call_enable, close_ep },
		{ "fi_connect()", open_ep, call_connect, close_ep },
	};
	struct fault *fault = fault_new(test);
	size_t len = sizeof(fault->no_listener);
	struct fid_pep *pep;

	pep = fx_pep(test, fault->fx->fabric, fault->fx->info);
	KUNIT_ASSERT_EQ(test, fi_getname(&pep->fid, &fault->no_listener, &len), 0);
	fx_close(test, &pep->fid);
	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
}

static int call_listen(struct fault *fault)
{
	struct kofi_fabric_fx *fx = fault->fx;
	struct fid_pep *pep;
	int ret;

	ret = FAULT_MADE(fault, fi_passive_ep(fx->fabric, fx->info, &pep, NULL),
			 pep);
	if (ret)
		return ret;
	ret = fi_pep_bind(pep, &fault->server->fid, 0) ?: fi_listen(pep);
	if (ret)
		fi_close(&pep->fid);
	return ret;
}

static int call_pep_setname(struct fault *fault)
{
	return fi_setname(&fault->idle->fid, fault->fx->info->src_addr,
			  fault->fx->info->src_addrlen);
}

static void open_idle(struct kunit *test, struct fault *fault)
{
	fault->idle = fx_pep(test, fault->fx->fabric, fault->fx->info);
	KUNIT_ASSERT_EQ(test, 0, fi_pep_bind(fault->idle, &fault->server->fid, 0));
}

static int call_listen_idle(struct fault *fault)
{
	return fi_listen(fault->idle);
}

/* A listener keeps its address if fi_listen() fails, and can listen later. */
static void listen_and_close(struct fault *fault)
{
	struct kunit *test = kunit_get_current_test();
	int ret = fi_listen(fault->idle);

	KUNIT_EXPECT_TRUE_MSG(test, ret == 0 || ret == -FI_EOPBADSTATE, "fi_listen: %s",
			      fi_strerror(ret));
	fx_close(test, &fault->idle->fid);
}

static void close_02_listeners(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_listen()", NULL, call_listen },
		{ "fi_setname(passive)", NULL, call_pep_setname },
		{ "fi_listen(idle)", open_idle, call_listen_idle, listen_and_close },
	};
	struct fault *fault = fault_new(test);

	fault->idle = fx_pep(test, fault->fx->fabric, fault->fx->info);
	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
}

static int call_eq_write(struct fault *fault)
{
	u32 event;
	char buf;
	int ret = fi_eq_write(fault->fx->eq, 1, "", 1, 0);

	if (ret == 1)
		fi_eq_read(fault->fx->eq, &event, &buf, 1, 0);
	return ret < 0 ? ret : 0;
}

static void close_02_eq_write(struct kunit *test)
{
	static const struct step write = {
		"fi_eq_write()", NULL, call_eq_write
	};

	fault_fail_each(test, fault_new(test), &write);
}

/* Connects an endpoint and reads its request at the listener. */
static void open_request(struct kunit *test, struct fault *fault)
{
	struct fx_cm_event event;

	fault->connecting = fx_bound_ep(test, fault->fx);
	KUNIT_ASSERT_EQ(test, fi_connect(fault->connecting, &fault->name, NULL, 0),
			0);
	KUNIT_ASSERT_GT(test, fx_wait_event(test, fault->server, FI_CONNREQ,
					    &event, sizeof(event)), 0);
	fault->request = event.entry.info;
}

static void request_and_open(struct kunit *test, struct fault *fault)
{
	open_request(test, fault);
	open_ep(test, fault);
}

static void close_request(struct fault *fault)
{
	/* Has no effect if an endpoint was opened from the request. */
	fi_reject(fault->pep, fault->request->handle, NULL, 0);
	fi_freeinfo(fault->request);
	fault->request = NULL;
	fx_close(kunit_get_current_test(), &fault->connecting->fid);
}

static void close_ep_and_request(struct fault *fault)
{
	close_ep(fault);
	close_request(fault);
}

static int call_endpoint_of_request(struct fault *fault)
{
	struct fid_ep *ep;

	return FAULT_MADE(fault, fi_endpoint(fault->fx->domain, fault->request,
					     &ep, NULL), ep);
}

static int call_accept(struct fault *fault)
{
	return fi_accept(fault->ep, "hello", 5);
}

static void close_02_requests(struct kunit *test)
{
	static const struct step endpoint = {
		"fi_endpoint(request)", open_request, call_endpoint_of_request,
		close_request
	};

	fault_fail_each(test, fault_new(test), &endpoint);
}

static void close_02_accept(struct kunit *test)
{
	static const struct step accept = {
		"fi_accept()", request_and_open, call_accept,
		close_ep_and_request
	};
	struct fault *fault = fault_new(test);

	/* siw_qp_readq_init() frees the first of its two queues twice when memory is short. */
	if (tr_is_iwarp(fault->fx->info))
		kunit_skip(test, "siw frees memory twice when it lacks some");
	fault_fail_each(test, fault, &accept);
}

/* Connects two endpoints; ep is the accepted one. */
static void connect_both(struct kunit *test, struct fault *fault)
{
	struct fx_cm_event event;

	request_and_open(test, fault);
	KUNIT_ASSERT_EQ(test, fi_accept(fault->ep, NULL, 0), 0);
	for (int side = 0; side < 2; side++)
		KUNIT_ASSERT_GT(test, fx_wait_event(test, fault->fx->eq,
				FI_CONNECTED, &event, sizeof(event)), 0);
	for (int i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, fi_recv(fault->ep, fault->buf, 64, NULL,
					      0, NULL), 0);
}

static int call_close(struct fault *fault)
{
	int ret = fi_close(&fault->ep->fid);

	if (!ret)
		fault->ep = NULL;
	return ret;
}

/* Closes both endpoints and drains the completion queue. */
static void close_connection(struct fault *fault)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {};

	close_if_open(fault);
	close_request(fault);
	while (fi_cq_read(fault->fx->cq, &entry, 1) != -FI_EAGAIN)
		fi_cq_readerr(fault->fx->cq, &error, 0);
}

static int call_reject(struct fault *fault)
{
	return fi_reject(fault->pep, fault->request->handle, "no", 2);
}

static void close_02_close_and_reject(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_close(endpoint)", open_ep, call_close, close_if_open,
		  true },
		{ "fi_close(request)", request_and_open, call_close,
		  close_connection, true },
		{ "fi_close(connected)", connect_both, call_close,
		  close_connection, true },
		{ "fi_reject()", open_request, call_reject, close_request, true },
	};
	struct fault *fault = fault_new(test);

	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
}

static struct kunit_case fault_cm_cases[] = {
	KUNIT_CASE_SLOW(close_02_before_a_connection),
	KUNIT_CASE_SLOW(close_02_listeners),
	KUNIT_CASE_SLOW(close_02_eq_write),
	KUNIT_CASE_SLOW(close_02_requests),
	KUNIT_CASE_SLOW(close_02_accept),
	KUNIT_CASE_SLOW(close_02_close_and_reject),
	{}
};

static struct kunit_suite fault_cm_suite = {
	.name = "kofi_fault_cm",
	.init = fault_init,
	.test_cases = fault_cm_cases,
};

kunit_test_suite(fault_cm_suite);
