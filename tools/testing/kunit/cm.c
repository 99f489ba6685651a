// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the lines of CM in CONTRACT about connection setup and its failures.
 * cm_end.c tests disconnecting and closing.
 */

#include <linux/inet.h>

#include "traffic.h"

/* A listener and an endpoint on one fabric, for a connection between them. */
struct conn {
	struct kofi_fabric_fx	*fx;
	struct fid_pep		*pep;
	struct fid_ep		*ep;
	struct sockaddr_in6	to;
	size_t			to_len;
	u8			*data;
};

#define DATA 64

static struct conn *open_listener_and_ep(struct kunit *test)
{
	struct conn *conn = (void *)tr_buffer(test, sizeof(*conn));

	conn->data = tr_buffer(test, DATA);
	tr_fill(conn->data, DATA, 7);
	conn->fx = fx_open(test);
	conn->pep = fx_listen(test, conn->fx->fabric, conn->fx->info,
			      conn->fx->eq);
	conn->to_len = sizeof(conn->to);
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&conn->pep->fid, &conn->to,
					    &conn->to_len));
	conn->ep = fx_bound_ep(test, conn->fx);
	return conn;
}

static size_t data_limit(struct kunit *test, struct fid *fid)
{
	size_t limit = 0, len = sizeof(limit);

	KUNIT_ASSERT_EQ(test, 0, fi_getopt(fid, FI_OPT_ENDPOINT,
					   FI_OPT_CM_DATA_SIZE, &limit, &len));
	KUNIT_EXPECT_EQ(test, sizeof(limit), len);
	return limit;
}

/* Connects with len bytes of private data; returns the info of the request, freed with the test. */
static struct fi_info *send_request(struct kunit *test, struct conn *conn, size_t len)
{
	struct fx_cm_event event = {};

	KUNIT_ASSERT_EQ(test, 0, fi_connect(conn->ep, &conn->to, conn->data,
					    len));
	KUNIT_ASSERT_EQ(test, (int)(sizeof(event.entry) + len),
			fx_wait_event(test, conn->fx->eq, FI_CONNREQ, &event,
				      sizeof(event)));
	KUNIT_EXPECT_PTR_EQ(test, &conn->pep->fid, event.entry.fid);
	KUNIT_ASSERT_NOT_NULL(test, event.entry.info);
	fx_defer_free(test, event.entry.info);
	KUNIT_EXPECT_EQ(test, 0, memcmp(event.data, conn->data, len));
	return event.entry.info;
}

static struct fid_ep *accept_request(struct kunit *test, struct conn *conn,
				     struct fi_info *info, size_t len)
{
	struct fid_ep *peer = fx_ep(test, conn->fx->domain, info);
	unsigned int seen = 0;

	fx_bind(test, peer, conn->fx->eq, conn->fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_accept(peer, conn->data, len));
	for (int i = 0; i < 2; i++) {
		struct fx_cm_event event = {};
		int ret = fx_wait_event(test, conn->fx->eq, FI_CONNECTED,
					&event, sizeof(event));

		KUNIT_ASSERT_GT(test, ret, 0);
		if (event.entry.fid == &peer->fid) {
			seen |= 1;
			continue;
		}
		KUNIT_EXPECT_PTR_EQ(test, &conn->ep->fid, event.entry.fid);
		KUNIT_EXPECT_EQ(test, (int)(sizeof(event.entry) + len), ret);
		KUNIT_EXPECT_EQ(test, 0, memcmp(event.data, conn->data, len));
		seen |= 2;
	}
	KUNIT_EXPECT_EQ_MSG(test, 3, seen, "each side has one FI_CONNECTED");
	return peer;
}

static void cm_01_private_data_goes_both_ways(struct kunit *test)
{
	static const size_t sizes[] = { 0, 1, 54, 55 };

	for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct conn *conn = open_listener_and_ep(test);
		struct fi_info *info = send_request(test, conn, sizes[i]);
		struct fid_ep *peer = accept_request(test, conn, info, sizes[i]);

		tr_expect_silence(test, conn->fx->eq);
		fx_close(test, &peer->fid);
		tr_expect_shutdown(test, conn->fx->eq, conn->ep);
	}
}

static void cm_01_a_request_has_an_info(struct kunit *test)
{
	struct conn *conn = open_listener_and_ep(test);
	struct fi_info *info = send_request(test, conn, 0);

	KUNIT_EXPECT_NOT_NULL(test, info->handle);
	KUNIT_EXPECT_NULL(test, info->next);
	KUNIT_EXPECT_EQ(test, FI_EP_MSG, info->ep_attr->type);
	KUNIT_EXPECT_STREQ(test, conn->fx->info->domain_attr->name,
			   info->domain_attr->name);
	KUNIT_EXPECT_STREQ(test, conn->fx->info->fabric_attr->name,
			   info->fabric_attr->name);
	KUNIT_ASSERT_NOT_NULL(test, info->dest_addr);
	KUNIT_EXPECT_EQ_MSG(test, conn->to_len, info->dest_addrlen,
			    "the caller's address");
	/* An endpoint for the request can also be opened with a copy of the info. */
	info = fi_dupinfo(info);
	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	accept_request(test, conn, info, 0);
}

static void cm_01_a_request_is_accepted_or_rejected_once(struct kunit *test)
{
	struct conn *conn = open_listener_and_ep(test);
	struct fi_info *info = send_request(test, conn, 0);
	struct fid_ep *again = NULL;

	accept_request(test, conn, info, 0);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_endpoint(conn->fx->domain, info, &again, NULL));
	KUNIT_EXPECT_NULL(test, again);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_reject(conn->pep, info->handle, NULL, 0));
}

static void cm_02_reject_is_econnrefused_with_data(struct kunit *test)
{
	struct conn *conn = open_listener_and_ep(test);
	struct fi_info *info = send_request(test, conn, 3);
	struct fi_eq_err_entry error = {};

	KUNIT_ASSERT_EQ(test, 0, fi_reject(conn->pep, info->handle, conn->data,
					   DATA / 2));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, conn->fx->eq, &error));
	KUNIT_EXPECT_PTR_EQ(test, &conn->ep->fid, error.fid);
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
	/* prov_errno is a reject reason of the IB CM, or an errno on iWARP and loop. */
	KUNIT_EXPECT_STREQ(test, tr_is_iwarp(info) || tr_is_loop(info) ?
			   fi_strerror(error.prov_errno) : "consumer defined",
			   fi_eq_strerror(conn->fx->eq, error.prov_errno,
					  error.err_data, NULL, 0));
	/* siw may drop the private data of a rejection. */
	if (!tr_is_iwarp(info)) {
		KUNIT_ASSERT_EQ(test, DATA / 2, error.err_data_size);
		KUNIT_EXPECT_EQ(test, 0, memcmp(error.err_data, conn->data,
						DATA / 2));
	}
	tr_expect_silence(test, conn->fx->eq);
}

/* Reads one error with FI_PEEK again and again, with buffers of all sizes for its data. */
static void eq_01_err_data_is_truncated_to_the_buffer(struct kunit *test)
{
	struct conn *conn = open_listener_and_ep(test);
	struct fi_info *info = send_request(test, conn, 3);
	struct fi_eq_err_entry error = {};
	struct fid_eq *eq = conn->fx->eq;
	u8 data[DATA];
	size_t data_len;

	KUNIT_ASSERT_EQ(test, 0, fi_reject(conn->pep, info->handle, conn->data,
					   DATA / 2));
	KUNIT_ASSERT_EQ(test, -FI_EAVAIL,
			fi_eq_sread(eq, &(u32){}, data, sizeof(data), FX_WAIT_MS,
				    FI_PEEK));
	KUNIT_ASSERT_GT(test, fi_eq_readerr(eq, &error, FI_PEEK), 0);
	data_len = error.err_data_size;
	/* siw may drop the private data of a rejection. */
	if (data_len || !tr_is_iwarp(info))
		KUNIT_EXPECT_EQ(test, DATA / 2, data_len);
	KUNIT_EXPECT_EQ(test, !data_len, !error.err_data);

	error.err_data = NULL;
	error.err_data_size = 99;
	KUNIT_ASSERT_GT(test, fi_eq_readerr(eq, &error, FI_PEEK), 0);
	KUNIT_EXPECT_NULL(test, error.err_data);
	KUNIT_EXPECT_EQ(test, 0, error.err_data_size);

	for (size_t size = 1; size <= sizeof(data); size++) {
		memset(data, 0xa5, sizeof(data));
		error.err_data = data;
		error.err_data_size = size;
		KUNIT_ASSERT_GT(test, fi_eq_readerr(eq, &error, FI_PEEK), 0);
		KUNIT_EXPECT_PTR_EQ(test, (void *)data, error.err_data);
		KUNIT_ASSERT_EQ(test, min(size, data_len), error.err_data_size);
		KUNIT_EXPECT_MEMEQ(test, data, conn->data, error.err_data_size);
		KUNIT_EXPECT_NULL(test, memchr_inv(data + error.err_data_size, 0xa5,
						   sizeof(data) - error.err_data_size));
	}
	KUNIT_EXPECT_GT(test, fi_eq_readerr(eq, &error, 0), 0);
	tr_expect_silence(test, eq);
}

static void cm_02_an_unread_request_is_rejected_at_close(struct kunit *test)
{
	struct conn *conn = open_listener_and_ep(test);
	struct fi_eq_err_entry error = {};
	struct fid_eq *eq = fx_eq(test, conn->fx->fabric);
	struct fid_ep *ep = fx_ep(test, conn->fx->domain, conn->fx->info);
	u32 event;
	u8 none;

	fx_bind(test, ep, eq, conn->fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_connect(ep, &conn->to, NULL, 0));
	KUNIT_ASSERT_EQ(test, -FI_ETOOSMALL,
			fi_eq_sread(conn->fx->eq, &event, &none, 0, FX_WAIT_MS,
				    0));
	fx_close(test, &conn->pep->fid);
	KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, eq, &error));
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
	tr_expect_silence(test, conn->fx->eq);
}

/* Connects another endpoint, whose events go to eq. */
static struct fid_ep *start_another(struct kunit *test, struct kofi_fabric_fx *fx,
				    struct fid_pep *pep, struct fid_eq *eq)
{
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);

	fx_bind(test, ep, eq, fx->cq, FI_TRANSMIT | FI_RECV);
	fx_start_connect(test, ep, pep);
	return ep;
}

static void expect_refusal(struct kunit *test, struct fid_eq *eq, struct fid_ep *ep)
{
	struct fi_eq_err_entry error = {};

	KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, eq, &error));
	KUNIT_EXPECT_PTR_EQ(test, &ep->fid, error.fid);
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
}

static void cm_02_requests_beyond_the_backlog_are_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_pep(test, fx->fabric, fx->info);
	struct fid_eq *eq = fx_eq(test, fx->fabric);
	struct fi_info *first;
	struct fid_ep *ep;
	int backlog = 2;

	KUNIT_ASSERT_EQ(test, 0, fi_pep_bind(pep, &fx->eq->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_control(&pep->fid, FI_BACKLOG, &backlog));
	KUNIT_ASSERT_EQ(test, 0, fi_listen(pep));
	ep = start_another(test, fx, pep, eq);
	first = fx_wait_request(test, fx->eq);
	start_another(test, fx, pep, eq);
	fx_wait_request(test, fx->eq);
	expect_refusal(test, eq, start_another(test, fx, pep, eq));
	tr_expect_silence(test, fx->eq);
	/* A rejected request does not count toward the backlog any more. */
	KUNIT_ASSERT_EQ(test, 0, fi_reject(pep, first->handle, NULL, 0));
	expect_refusal(test, eq, ep);
	start_another(test, fx, pep, eq);
	fx_wait_request(test, fx->eq);
	expect_refusal(test, eq, start_another(test, fx, pep, eq));
}

static void cm_03_private_data_over_the_limit_is_einval(struct kunit *test)
{
	struct conn *conn = open_listener_and_ep(test);
	size_t limit = data_limit(test, &conn->ep->fid);
	struct fid_ep *peer;
	struct fi_info *info;

	KUNIT_EXPECT_EQ(test, limit, data_limit(test, &conn->pep->fid));
	KUNIT_ASSERT_GT(test, limit, 0);
	KUNIT_ASSERT_LT(test, limit, DATA);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_connect(conn->ep, &conn->to, conn->data, limit + 1));
	info = send_request(test, conn, limit);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_reject(conn->pep, info->handle,
						    conn->data, limit + 1));
	peer = fx_ep(test, conn->fx->domain, info);
	fx_bind(test, peer, conn->fx->eq, conn->fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_accept(peer, conn->data, limit + 1));
	fx_finish_accept(test, peer, conn->fx->eq);
}

static void cm_03_getopt_checks_the_size(struct kunit *test)
{
	struct conn *conn = open_listener_and_ep(test);
	struct fid *fid = &conn->ep->fid;
	size_t limit = 1, len = sizeof(limit) - 1;

	KUNIT_EXPECT_EQ(test, -FI_ETOOSMALL,
			fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE,
				  &limit, &len));
	KUNIT_EXPECT_EQ(test, sizeof(limit), len);
	KUNIT_EXPECT_EQ(test, 1, limit);
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT,
			fi_getopt(fid, FI_OPT_ENDPOINT, 1000, &limit, &len));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT,
			fi_getopt(fid, 1000, FI_OPT_CM_DATA_SIZE, &limit, &len));
}

static void cm_04_connect_twice_is_eisconn(struct kunit *test)
{
	struct conn *conn = open_listener_and_ep(test);
	struct fid_ep *peer;
	struct fi_info *info;

	info = send_request(test, conn, 0);
	KUNIT_EXPECT_EQ_MSG(test, -FI_EISCONN,
			    fi_connect(conn->ep, &conn->to, NULL, 0),
			    "fi_connect() while connecting");
	peer = accept_request(test, conn, info, 0);
	KUNIT_EXPECT_EQ(test, -FI_EISCONN,
			fi_connect(conn->ep, &conn->to, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EISCONN, fi_accept(peer, NULL, 0));
}

/* Connects to an address and returns the errno of the event queue's error. */
static int connect_error(struct kunit *test, struct conn *conn, const void *to)
{
	struct fi_eq_err_entry error = {};

	KUNIT_ASSERT_EQ(test, 0, fi_connect(conn->ep, to, NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, conn->fx->eq, &error));
	KUNIT_EXPECT_PTR_EQ(test, &conn->ep->fid, error.fid);
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN,
			fi_send(conn->ep, NULL, 0, NULL, 0, NULL));
	tr_expect_silence(test, conn->fx->eq);
	return error.err;
}

static void cm_04_no_listener_is_econnrefused(struct kunit *test)
{
	struct conn *conn = open_listener_and_ep(test);

	fx_close(test, &conn->pep->fid);
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, connect_error(test, conn, &conn->to));
}

static void expect_unreachable(struct kunit *test, const char *text)
{
	struct conn *conn = open_listener_and_ep(test);
	struct sockaddr_in to = { .sin_family = AF_INET };
	int err;

	KUNIT_ASSERT_EQ(test, 1, in4_pton(text, -1, (u8 *)&to.sin_addr, -1,
					  NULL));
	to.sin_port = htons(7471);
	err = connect_error(test, conn, &to);
	KUNIT_EXPECT_TRUE_MSG(test,
			      err == FI_EHOSTUNREACH || err == FI_ETIMEDOUT,
			      "%s: %s", text, fi_strerror(err));
}

static void cm_04_no_route_is_ehostunreach_or_etimedout(struct kunit *test)
{
	expect_unreachable(test, "192.0.2.1");
}

static void cm_04_absent_host_is_ehostunreach_or_etimedout(struct kunit *test)
{
	const char *dot = strrchr(fx_addr, '.');
	char neighbour[INET_ADDRSTRLEN];

	if (!dot)
		kunit_skip(test, "not an IPv4 address: '%s'", fx_addr);
	if (!strncmp(fx_addr, "127.", 4))
		kunit_skip(test, "all addresses of 127.0.0.0/8 are local");
	snprintf(neighbour, sizeof(neighbour), "%.*s.77", (int)(dot - fx_addr),
		 fx_addr);
	expect_unreachable(test, neighbour);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cm_01_private_data_goes_both_ways),
	KUNIT_CASE(cm_01_a_request_has_an_info),
	KUNIT_CASE(cm_01_a_request_is_accepted_or_rejected_once),
	KUNIT_CASE(cm_02_reject_is_econnrefused_with_data),
	KUNIT_CASE(eq_01_err_data_is_truncated_to_the_buffer),
	KUNIT_CASE(cm_02_an_unread_request_is_rejected_at_close),
	KUNIT_CASE(cm_02_requests_beyond_the_backlog_are_refused),
	KUNIT_CASE(cm_03_private_data_over_the_limit_is_einval),
	KUNIT_CASE(cm_03_getopt_checks_the_size),
	KUNIT_CASE(cm_04_connect_twice_is_eisconn),
	KUNIT_CASE(cm_04_no_listener_is_econnrefused),
	KUNIT_CASE(cm_04_no_route_is_ehostunreach_or_etimedout),
	KUNIT_CASE(cm_04_absent_host_is_ehostunreach_or_etimedout),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cm",
	.test_cases = cases,
};

kunit_test_suite(suite);
