// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CM: connection setup and its failures. Teardown is in cm_end.c.
 */

#include <linux/inet.h>

#include "traffic.h"

/* A listener, and an endpoint that will connect to it. */
struct call {
	struct kofi_fabric_fx	*fx;
	struct fid_pep		*pep;
	struct fid_ep		*ep;
	struct sockaddr_in6	to;
	size_t			to_len;
	u8			*data;
};

#define DATA 64

static struct call *prepare(struct kunit *test)
{
	struct call *call = (void *)tr_buffer(test, sizeof(*call));

	call->data = tr_buffer(test, DATA);
	tr_fill(call->data, DATA, 7);
	call->fx = fx_open(test);
	call->pep = fx_listen(test, call->fx->fabric, call->fx->info,
			      call->fx->eq);
	call->to_len = sizeof(call->to);
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&call->pep->fid, &call->to,
					    &call->to_len));
	call->ep = fx_bound_ep(test, call->fx);
	return call;
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
static struct fi_info *request(struct kunit *test, struct call *call, size_t len)
{
	struct fx_cm_event event = {};

	KUNIT_ASSERT_EQ(test, 0, fi_connect(call->ep, &call->to, call->data,
					    len));
	KUNIT_ASSERT_EQ(test, (int)(sizeof(event.entry) + len),
			fx_wait_event(test, call->fx->eq, FI_CONNREQ, &event,
				      sizeof(event)));
	KUNIT_EXPECT_PTR_EQ(test, &call->pep->fid, event.entry.fid);
	KUNIT_ASSERT_NOT_NULL(test, event.entry.info);
	fx_defer_free(test, event.entry.info);
	KUNIT_EXPECT_EQ(test, 0, memcmp(event.data, call->data, len));
	return event.entry.info;
}

static struct fid_ep *answer(struct kunit *test, struct call *call,
			     struct fi_info *info, size_t len)
{
	struct fid_ep *peer = fx_ep(test, call->fx->domain, info);
	unsigned int seen = 0;

	fx_bind(test, peer, call->fx->eq, call->fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_accept(peer, call->data, len));
	for (int i = 0; i < 2; i++) {
		struct fx_cm_event event = {};
		int ret = fx_wait_event(test, call->fx->eq, FI_CONNECTED,
					&event, sizeof(event));

		KUNIT_ASSERT_GT(test, ret, 0);
		if (event.entry.fid == &peer->fid) {
			seen |= 1;
			continue;
		}
		KUNIT_EXPECT_PTR_EQ(test, &call->ep->fid, event.entry.fid);
		KUNIT_EXPECT_EQ(test, (int)(sizeof(event.entry) + len), ret);
		KUNIT_EXPECT_EQ(test, 0, memcmp(event.data, call->data, len));
		seen |= 2;
	}
	KUNIT_EXPECT_EQ_MSG(test, 3, seen, "each side is told once");
	return peer;
}

static void cm_01_private_data_goes_both_ways(struct kunit *test)
{
	static const size_t sizes[] = { 0, 1, 54, 55 };

	for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct call *call = prepare(test);
		struct fi_info *info = request(test, call, sizes[i]);
		struct fid_ep *peer = answer(test, call, info, sizes[i]);

		tr_expect_silence(test, call->fx->eq);
		fx_close(test, &peer->fid);
		tr_expect_shutdown(test, call->fx->eq, call->ep);
	}
}

static void cm_01_the_requests_info(struct kunit *test)
{
	struct call *call = prepare(test);
	struct fi_info *info = request(test, call, 0);

	KUNIT_EXPECT_NOT_NULL(test, info->handle);
	KUNIT_EXPECT_NULL(test, info->next);
	KUNIT_EXPECT_EQ(test, FI_EP_MSG, info->ep_attr->type);
	KUNIT_EXPECT_STREQ(test, call->fx->info->domain_attr->name,
			   info->domain_attr->name);
	KUNIT_EXPECT_STREQ(test, call->fx->info->fabric_attr->name,
			   info->fabric_attr->name);
	KUNIT_ASSERT_NOT_NULL(test, info->dest_addr);
	KUNIT_EXPECT_EQ_MSG(test, call->to_len, info->dest_addrlen,
			    "the caller's address");
	/* The info belongs to the reader: a copy of it opens the endpoint too. */
	info = fi_dupinfo(info);
	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	answer(test, call, info, 0);
}

static void cm_01_a_request_is_answered_once(struct kunit *test)
{
	struct call *call = prepare(test);
	struct fi_info *info = request(test, call, 0);
	struct fid_ep *again = NULL;

	answer(test, call, info, 0);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_endpoint(call->fx->domain, info, &again, NULL));
	KUNIT_EXPECT_NULL(test, again);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_reject(call->pep, info->handle, NULL, 0));
}

static void cm_02_reject(struct kunit *test)
{
	struct call *call = prepare(test);
	struct fi_info *info = request(test, call, 3);
	struct fi_eq_err_entry error = {};

	KUNIT_ASSERT_EQ(test, 0, fi_reject(call->pep, info->handle, call->data,
					   DATA / 2));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, call->fx->eq, &error));
	KUNIT_EXPECT_PTR_EQ(test, &call->ep->fid, error.fid);
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
	/* InfiniBand has reject reasons of its own, iWARP an errno. */
	KUNIT_EXPECT_STREQ(test, tr_is_iwarp(info) || tr_is_loop(info) ?
			   fi_strerror(error.prov_errno) : "consumer defined",
			   fi_eq_strerror(call->fx->eq, error.prov_errno,
					  error.err_data, NULL, 0));
	/* siw drops the private data of a rejection. */
	if (!tr_is_iwarp(info)) {
		KUNIT_ASSERT_EQ(test, DATA / 2, error.err_data_size);
		KUNIT_EXPECT_EQ(test, 0, memcmp(error.err_data, call->data,
						DATA / 2));
	}
	tr_expect_silence(test, call->fx->eq);
}

/* FI_PEEK reads the same error with error data buffers of several sizes. */
static void eq_01_room_for_the_data_of_an_error(struct kunit *test)
{
	struct call *call = prepare(test);
	struct fi_info *info = request(test, call, 3);
	struct fi_eq_err_entry error = {};
	struct fid_eq *eq = call->fx->eq;
	u8 room[DATA];
	size_t has;

	KUNIT_ASSERT_EQ(test, 0, fi_reject(call->pep, info->handle, call->data,
					   DATA / 2));
	KUNIT_ASSERT_EQ(test, -FI_EAVAIL,
			fi_eq_sread(eq, &(u32){}, room, sizeof(room), FX_WAIT_MS,
				    FI_PEEK));
	KUNIT_ASSERT_GT(test, fi_eq_readerr(eq, &error, FI_PEEK), 0);
	has = error.err_data_size;
	/* siw may drop the private data of a rejection. */
	if (has || !tr_is_iwarp(info))
		KUNIT_EXPECT_EQ(test, DATA / 2, has);
	KUNIT_EXPECT_EQ(test, !has, !error.err_data);

	error.err_data = NULL;
	error.err_data_size = 99;
	KUNIT_ASSERT_GT(test, fi_eq_readerr(eq, &error, FI_PEEK), 0);
	KUNIT_EXPECT_NULL(test, error.err_data);
	KUNIT_EXPECT_EQ(test, 0, error.err_data_size);

	for (size_t size = 1; size <= sizeof(room); size++) {
		memset(room, 0xa5, sizeof(room));
		error.err_data = room;
		error.err_data_size = size;
		KUNIT_ASSERT_GT(test, fi_eq_readerr(eq, &error, FI_PEEK), 0);
		KUNIT_EXPECT_PTR_EQ(test, (void *)room, error.err_data);
		KUNIT_ASSERT_EQ(test, min(size, has), error.err_data_size);
		KUNIT_EXPECT_MEMEQ(test, room, call->data, error.err_data_size);
		KUNIT_EXPECT_NULL(test, memchr_inv(room + error.err_data_size, 0xa5,
						   sizeof(room) - error.err_data_size));
	}
	KUNIT_EXPECT_GT(test, fi_eq_readerr(eq, &error, 0), 0);
	tr_expect_silence(test, eq);
}

static void cm_02_an_unread_request_is_rejected_at_close(struct kunit *test)
{
	struct call *call = prepare(test);
	struct fi_eq_err_entry error = {};
	struct fid_eq *eq = fx_eq(test, call->fx->fabric);
	struct fid_ep *ep = fx_ep(test, call->fx->domain, call->fx->info);
	u32 event;
	u8 none;

	fx_bind(test, ep, eq, call->fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_connect(ep, &call->to, NULL, 0));
	KUNIT_ASSERT_EQ(test, -FI_ETOOSMALL,
			fi_eq_sread(call->fx->eq, &event, &none, 0, FX_WAIT_MS,
				    0));
	fx_close(test, &call->pep->fid);
	KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, eq, &error));
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
	tr_expect_silence(test, call->fx->eq);
}

static void cm_03_private_data_over_the_limit(struct kunit *test)
{
	struct call *call = prepare(test);
	size_t limit = data_limit(test, &call->ep->fid);
	struct fid_ep *peer;
	struct fi_info *info;

	KUNIT_EXPECT_EQ(test, limit, data_limit(test, &call->pep->fid));
	KUNIT_ASSERT_GT(test, limit, 0);
	KUNIT_ASSERT_LT(test, limit, DATA);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_connect(call->ep, &call->to, call->data, limit + 1));
	info = request(test, call, limit);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_reject(call->pep, info->handle,
						    call->data, limit + 1));
	peer = fx_ep(test, call->fx->domain, info);
	fx_bind(test, peer, call->fx->eq, call->fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_accept(peer, call->data, limit + 1));
	fx_finish_accept(test, peer, call->fx->eq);
}

static void cm_03_the_limit_needs_room(struct kunit *test)
{
	struct call *call = prepare(test);
	struct fid *fid = &call->ep->fid;
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

static void cm_04_connecting_twice(struct kunit *test)
{
	struct call *call = prepare(test);
	struct fid_ep *peer;
	struct fi_info *info;

	info = request(test, call, 0);
	KUNIT_EXPECT_EQ_MSG(test, -FI_EISCONN,
			    fi_connect(call->ep, &call->to, NULL, 0),
			    "on its way");
	peer = answer(test, call, info, 0);
	KUNIT_EXPECT_EQ(test, -FI_EISCONN,
			fi_connect(call->ep, &call->to, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EISCONN, fi_accept(peer, NULL, 0));
}

/* Connects to an address and returns the errno of the event queue's error. */
static int outcome(struct kunit *test, struct call *call, const void *to)
{
	struct fi_eq_err_entry error = {};

	KUNIT_ASSERT_EQ(test, 0, fi_connect(call->ep, to, NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, call->fx->eq, &error));
	KUNIT_EXPECT_PTR_EQ(test, &call->ep->fid, error.fid);
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN,
			fi_send(call->ep, NULL, 0, NULL, 0, NULL));
	tr_expect_silence(test, call->fx->eq);
	return error.err;
}

static void cm_04_nobody_listening(struct kunit *test)
{
	struct call *call = prepare(test);

	fx_close(test, &call->pep->fid);
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, outcome(test, call, &call->to));
}

static void expect_unreachable(struct kunit *test, const char *text)
{
	struct call *call = prepare(test);
	struct sockaddr_in to = { .sin_family = AF_INET };
	int err;

	KUNIT_ASSERT_EQ(test, 1, in4_pton(text, -1, (u8 *)&to.sin_addr, -1,
					  NULL));
	to.sin_port = htons(7471);
	err = outcome(test, call, &to);
	KUNIT_EXPECT_TRUE_MSG(test,
			      err == FI_EHOSTUNREACH || err == FI_ETIMEDOUT,
			      "%s: %s", text, fi_strerror(err));
}

static void cm_04_no_route(struct kunit *test)
{
	expect_unreachable(test, "192.0.2.1");
}

static void cm_04_nobody_has_the_address(struct kunit *test)
{
	const char *dot = strrchr(fx_addr, '.');
	char neighbour[INET_ADDRSTRLEN];

	if (!dot)
		kunit_skip(test, "not an IPv4 address: '%s'", fx_addr);
	if (!strncmp(fx_addr, "127.", 4))
		kunit_skip(test, "this machine has them all");
	snprintf(neighbour, sizeof(neighbour), "%.*s.77", (int)(dot - fx_addr),
		 fx_addr);
	expect_unreachable(test, neighbour);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cm_01_private_data_goes_both_ways),
	KUNIT_CASE(cm_01_the_requests_info),
	KUNIT_CASE(cm_01_a_request_is_answered_once),
	KUNIT_CASE(cm_02_reject),
	KUNIT_CASE(eq_01_room_for_the_data_of_an_error),
	KUNIT_CASE(cm_02_an_unread_request_is_rejected_at_close),
	KUNIT_CASE(cm_03_private_data_over_the_limit),
	KUNIT_CASE(cm_03_the_limit_needs_room),
	KUNIT_CASE(cm_04_connecting_twice),
	KUNIT_CASE(cm_04_nobody_listening),
	KUNIT_CASE(cm_04_no_route),
	KUNIT_CASE(cm_04_nobody_has_the_address),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cm",
	.test_cases = cases,
};

kunit_test_suite(suite);
