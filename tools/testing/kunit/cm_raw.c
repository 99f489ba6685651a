// SPDX-License-Identifier: GPL-2.0
/*
 * FI_OPT_KOFI_CM_DATA_RAW: private data without a length byte, up to the size that
 * the connection manager has, as existing protocols define it.
 */

#include <rdma/fi_ext.h>

#include "traffic.h"

/* Sizes of InfiniBand's connection manager, without rdma_cm's own header, and of MPA on siw. */
#define IB_CONNECT	56
#define IB_ACCEPT	196
#define IB_REJECT	148
#define MPA_DATA	251

#define DATA_LEN	256

/* A listener, an endpoint that will connect to it, data to send, and the limits on the device. */
struct raw {
	struct kofi_fabric_fx	*fx;
	struct fid_pep		*pep;
	struct fid_ep		*ep;
	u8			*data;
	size_t			connect, accept, reject;	/* limits of the calls */
	bool			pads;	/* the device pads data to the limit */
};

static size_t option_of(struct kunit *test, struct fid *fid, int option)
{
	size_t value = 0, len = sizeof(value);

	KUNIT_EXPECT_EQ(test, 0, fi_getopt(fid, FI_OPT_ENDPOINT, option, &value, &len));
	KUNIT_EXPECT_EQ(test, sizeof(value), len);
	return value;
}

static int set_raw(struct fid *fid, size_t value)
{
	return fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_KOFI_CM_DATA_RAW, &value, sizeof(value));
}

/* Opens a listener and an endpoint. Those that are raw have private data without a length byte. */
static struct raw *open_raw(struct kunit *test, bool raw_listener, bool raw_ep)
{
	struct raw *raw = (void *)tr_buffer(test, sizeof(*raw));
	bool mpa;

	raw->data = tr_buffer(test, DATA_LEN);
	tr_fill(raw->data, DATA_LEN, 3);
	raw->fx = fx_open(test);
	mpa = tr_is_iwarp(raw->fx->info);
	raw->connect = mpa ? MPA_DATA : IB_CONNECT;
	raw->accept = mpa ? MPA_DATA : IB_ACCEPT;
	raw->reject = mpa ? MPA_DATA : IB_REJECT;
	raw->pads = !mpa && !tr_is_loop(raw->fx->info);
	raw->pep = fx_listen(test, raw->fx->fabric, raw->fx->info, raw->fx->eq);
	raw->ep = fx_bound_ep(test, raw->fx);
	if (raw_listener)
		KUNIT_ASSERT_EQ(test, 0, set_raw(&raw->pep->fid, 1));
	if (raw_ep)
		KUNIT_ASSERT_EQ(test, 0, set_raw(&raw->ep->fid, 1));
	return raw;
}

/*
 * Connects with len bytes of data, and reads the event of the request, whose info is freed with the
 * test. Returns the length of the private data in the event.
 */
static int connect_with(struct kunit *test, struct raw *raw, const u8 *data, size_t len,
			struct fx_cm_event *event)
{
	struct sockaddr_in6 to;
	size_t to_len = sizeof(to);
	int ret;

	KUNIT_ASSERT_EQ(test, 0, fi_getname(&raw->pep->fid, &to, &to_len));
	KUNIT_ASSERT_EQ(test, 0, fi_connect(raw->ep, &to, data, len));
	ret = fx_wait_event(test, raw->fx->eq, FI_CONNREQ, event, sizeof(*event));
	KUNIT_ASSERT_GE(test, ret, (int)sizeof(event->entry));
	KUNIT_ASSERT_NOT_NULL(test, event->entry.info);
	fx_defer_free(test, event->entry.info);
	return ret - (int)sizeof(event->entry);
}

/*
 * Expects size bytes in got: the len bytes that were sent and, if the device pads, zeroes up to
 * the length padded.
 */
static void expect_data(struct kunit *test, struct raw *raw, const u8 *got, size_t size,
			size_t len, size_t padded)
{
	KUNIT_ASSERT_EQ(test, raw->pads ? padded : len, size);
	if (!size)
		return;
	KUNIT_EXPECT_MEMEQ(test, got, raw->data, len);
	KUNIT_EXPECT_NULL(test, memchr_inv(got + len, 0, size - len));
}

/* Opens an endpoint for a request, and binds it. */
static struct fid_ep *open_for_request(struct kunit *test, struct raw *raw, struct fi_info *info)
{
	struct fid_ep *ep = fx_ep(test, raw->fx->domain, info);

	fx_bind(test, ep, raw->fx->eq, raw->fx->cq, FI_TRANSMIT | FI_RECV);
	return ep;
}

/*
 * Accepts the request with len bytes of data, and reads FI_CONNECTED of both sides. Returns the
 * length of the private data in event, that of the connecting side.
 */
static int accept_with(struct kunit *test, struct raw *raw, struct fid_ep *peer, size_t len,
		       struct fx_cm_event *event)
{
	int seen = 0, got = -FI_EAGAIN;

	KUNIT_ASSERT_EQ(test, 0, fi_accept(peer, raw->data, len));
	for (int i = 0; i < 2; i++) {
		struct fx_cm_event *found = (void *)tr_buffer(test, sizeof(*found));
		int ret = fx_wait_event(test, raw->fx->eq, FI_CONNECTED, found, sizeof(*found));

		KUNIT_ASSERT_GE(test, ret, (int)sizeof(found->entry));
		seen |= found->entry.fid == &peer->fid ? 1 : 2;
		if (found->entry.fid == &raw->ep->fid) {
			got = ret - (int)sizeof(found->entry);
			*event = *found;
		}
	}
	KUNIT_ASSERT_EQ(test, 3, seen);
	return got;
}

static void raw_data_has_the_limits_of_the_connection_manager(struct kunit *test)
{
	struct raw *raw = open_raw(test, false, false);
	struct fid *fids[] = { &raw->ep->fid, &raw->pep->fid };

	for (int i = 0; i < ARRAY_SIZE(fids); i++) {
		KUNIT_EXPECT_EQ(test, 0, option_of(test, fids[i], FI_OPT_KOFI_CM_DATA_RAW));
		KUNIT_EXPECT_EQ(test, 55, option_of(test, fids[i], FI_OPT_CM_DATA_SIZE));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, set_raw(fids[i], 2));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, set_raw(fids[i], SIZE_MAX));
		KUNIT_EXPECT_EQ(test, 0, set_raw(fids[i], 1));
		KUNIT_EXPECT_EQ(test, 1, option_of(test, fids[i], FI_OPT_KOFI_CM_DATA_RAW));
	}
	KUNIT_EXPECT_EQ(test, raw->connect, option_of(test, &raw->ep->fid, FI_OPT_CM_DATA_SIZE));
	KUNIT_EXPECT_EQ(test, raw->reject, option_of(test, &raw->pep->fid, FI_OPT_CM_DATA_SIZE));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_connect(raw->ep, NULL, raw->data, raw->connect + 1));
	KUNIT_EXPECT_EQ(test, 0, set_raw(&raw->ep->fid, 0));
	KUNIT_EXPECT_EQ(test, 55, option_of(test, &raw->ep->fid, FI_OPT_CM_DATA_SIZE));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT,
			fi_setopt(&raw->pep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
				  &(size_t){ 1 }, sizeof(size_t)));
}

static void raw_data_of_every_size_goes_both_ways(struct kunit *test)
{
	for (int i = 0; i < 5; i++) {
		struct raw *raw = open_raw(test, true, true);
		size_t out[] = { 0, 1, 32, raw->connect - 1, raw->connect };
		size_t back[] = { 0, 1, 52, raw->accept - 1, raw->accept };
		struct fx_cm_event *event = (void *)tr_buffer(test, sizeof(*event));
		struct fid_ep *peer;
		int got;

		got = connect_with(test, raw, raw->data, out[i], event);
		expect_data(test, raw, event->data, got, out[i], IB_CONNECT);
		peer = open_for_request(test, raw, event->entry.info);
		KUNIT_EXPECT_EQ(test, 1, option_of(test, &peer->fid, FI_OPT_KOFI_CM_DATA_RAW));
		KUNIT_EXPECT_EQ(test, raw->accept, option_of(test, &peer->fid, FI_OPT_CM_DATA_SIZE));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_accept(peer, raw->data, raw->accept + 1));
		KUNIT_EXPECT_EQ_MSG(test, -FI_EOPBADSTATE, set_raw(&raw->ep->fid, 0),
				    "while connecting");
		got = accept_with(test, raw, peer, back[i], event);
		expect_data(test, raw, event->data, got, back[i], IB_ACCEPT);
		KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, set_raw(&peer->fid, 0));
		fx_close(test, &peer->fid);
		tr_expect_shutdown(test, raw->fx->eq, raw->ep);
	}
}

static void raw_data_of_a_rejection_is_err_data(struct kunit *test)
{
	for (int i = 0; i < 3; i++) {
		struct raw *raw = open_raw(test, true, true);
		size_t len = i * raw->reject / 2;
		struct fx_cm_event *event = (void *)tr_buffer(test, sizeof(*event));
		struct fi_eq_err_entry error = {};
		struct fi_info *info;

		connect_with(test, raw, NULL, 0, event);
		info = event->entry.info;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				fi_reject(raw->pep, info->handle, raw->data, raw->reject + 1));
		/* The format is that of the request. */
		KUNIT_EXPECT_EQ(test, 0, set_raw(&raw->pep->fid, 0));
		KUNIT_ASSERT_EQ(test, 0, fi_reject(raw->pep, info->handle, raw->data, len));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, raw->fx->eq, &error));
		KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
		/* siw may lose the private data of a rejection. */
		if (error.err_data_size || !tr_is_iwarp(info))
			expect_data(test, raw, error.err_data, error.err_data_size, len,
				    IB_REJECT);
	}
}

/* The length byte of a peer is limited by the number of bytes that have arrived. */
static void framed_listener_clamps_the_length_of_raw_data(struct kunit *test)
{
	static const u8 lengths[] = { 0, 1, 55, 56, 255 };

	for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct raw *raw = open_raw(test, false, true);
		struct fx_cm_event *event = (void *)tr_buffer(test, sizeof(*event));
		int got;

		tr_needs_device(test, raw->fx->info);
		raw->data[0] = lengths[i];
		got = connect_with(test, raw, raw->data, raw->connect, event);
		KUNIT_ASSERT_EQ(test, min_t(int, lengths[i], raw->connect - 1), got);
		KUNIT_EXPECT_MEMEQ(test, event->data, raw->data + 1, got);
		fx_refuse(test, raw->pep);
	}
}

static void raw_listener_sees_the_frame(struct kunit *test)
{
	struct raw *raw = open_raw(test, true, false);
	struct fx_cm_event *event = (void *)tr_buffer(test, sizeof(*event));
	int got;

	tr_needs_device(test, raw->fx->info);
	got = connect_with(test, raw, raw->data, 7, event);
	KUNIT_ASSERT_EQ(test, raw->pads ? IB_CONNECT : 8, got);
	KUNIT_EXPECT_EQ(test, 7, event->data[0]);
	KUNIT_EXPECT_MEMEQ(test, event->data + 1, raw->data, 7);
	fx_refuse(test, raw->pep);
}

/* Reject codes of the connection manager are the provider's errno, and have a text. */
static void reject_code_is_the_provider_errno(struct kunit *test)
{
	struct raw *raw = open_raw(test, true, true);
	struct fi_eq_err_entry error = {};
	struct sockaddr_in6 to;
	size_t to_len = sizeof(to);

	KUNIT_ASSERT_EQ(test, 0, fi_getname(&raw->pep->fid, &to, &to_len));
	fx_close(test, &raw->pep->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_connect(raw->ep, &to, NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, raw->fx->eq, &error));
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
	KUNIT_EXPECT_NE(test, 0, error.prov_errno);
	/* IB_CM_REJ_INVALID_SERVICE_ID; iWARP and loop have an errno. */
	if (raw->pads) {
		KUNIT_EXPECT_EQ(test, 8, error.prov_errno);
		KUNIT_EXPECT_STREQ(test, "invalid service ID",
				   fi_eq_strerror(raw->fx->eq, error.prov_errno, NULL, NULL, 0));
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(raw_data_has_the_limits_of_the_connection_manager),
	KUNIT_CASE(raw_data_of_every_size_goes_both_ways),
	KUNIT_CASE(raw_data_of_a_rejection_is_err_data),
	KUNIT_CASE(framed_listener_clamps_the_length_of_raw_data),
	KUNIT_CASE(raw_listener_sees_the_frame),
	KUNIT_CASE(reject_code_is_the_provider_errno),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cm_raw",
	.test_cases = cases,
};

kunit_test_suite(suite);
