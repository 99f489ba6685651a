// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CQ 13: remote CQ data of messages. Data of RMA writes is in
 * rma_data.c.
 */

#include "traffic.h"

#define LEN 64

static ssize_t by_senddata(struct fid_ep *ep, void *buf, size_t len, u64 data)
{
	return fi_senddata(ep, buf, len, NULL, data, FI_ADDR_UNSPEC, buf);
}

static ssize_t by_injectdata(struct fid_ep *ep, void *buf, size_t len, u64 data)
{
	return fi_injectdata(ep, buf, len, data, FI_ADDR_UNSPEC);
}

static ssize_t sendmsg(struct fid_ep *ep, void *buf, size_t len, u64 data,
		       u64 flags)
{
	const struct kvec iov = { buf, len };
	const struct fi_msg msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.context = buf,
		.data = data,
	};

	return fi_sendmsg(ep, &msg, flags);
}

static ssize_t by_sendmsg(struct fid_ep *ep, void *buf, size_t len, u64 data)
{
	return sendmsg(ep, buf, len, data, FI_REMOTE_CQ_DATA | FI_COMPLETION);
}

static ssize_t by_sendmsg_inject(struct fid_ep *ep, void *buf, size_t len,
				 u64 data)
{
	return sendmsg(ep, buf, len, data, FI_REMOTE_CQ_DATA | FI_INJECT);
}

static const struct way {
	const char *name;
	ssize_t (*post)(struct fid_ep *ep, void *buf, size_t len, u64 data);
	bool is_silent;
} ways[] = {
	{ "fi_senddata", by_senddata, false },
	{ "fi_injectdata", by_injectdata, true },
	{ "fi_sendmsg", by_sendmsg, false },
	{ "fi_sendmsg with FI_INJECT", by_sendmsg_inject, false },
};

KUNIT_ARRAY_PARAM_DESC(ways, ways, name);

static bool has_data(const struct fi_info *info)
{
	return info->domain_attr->cq_data_size > 0;
}

static void expect_data(struct kunit *test, struct fid_cq *cq, void *context,
			size_t len, u64 data)
{
	struct fi_cq_data_entry entry = {};

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, cq, &entry, 1));
	KUNIT_EXPECT_PTR_EQ(test, context, entry.op_context);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA, entry.flags);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_EQ(test, data, entry.data);
}

static const struct fx_pair_opts data_format = { .format = FI_CQ_FORMAT_DATA };

static void cq_13_message_data_arrives_in_host_byte_order(struct kunit *test)
{
	static const u32 data[] = { 0, 1, 0x01020304, 0x80000000, 0xffffffff };
	const struct way *way = test->param_value;
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &data_format);
	struct fi_cq_data_entry entry = {};

	if (!has_data(pair->info)) {
		KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
				way->post(pair->ep[0], out, LEN, 1));
		KUNIT_EXPECT_TRUE(test, tr_is_iwarp(pair->info));
		return;
	}
	for (int i = 0; i < ARRAY_SIZE(data); i++) {
		size_t len = i % 2 ? 0 : LEN;

		tr_fill(out, LEN, i);
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], in, LEN, NULL, 0,
						 in));
		KUNIT_ASSERT_EQ(test, 0, way->post(pair->ep[0], out, len,
						   data[i]));
		expect_data(test, pair->cq[1], in, len, data[i]);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, len, i));
		if (way->is_silent)
			continue;
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[0],
						      &entry, 1));
		KUNIT_EXPECT_PTR_EQ(test, (void *)out, entry.op_context);
		KUNIT_EXPECT_EQ_MSG(test, FI_SEND | FI_MSG, entry.flags,
				    "the sender's entry has no data");
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], &entry, 1));
}

/* A message with data, and two without after it. */
static void cq_13_messages_without_data_have_no_flag(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fi_cq_tagged_entry entry[3] = {};

	if (!has_data(pair->info))
		kunit_skip(test, "the device has no data");
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN, NULL, 0,
						 NULL));
	KUNIT_ASSERT_EQ(test, 0, by_senddata(pair->ep[0], buf, 1, 77));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], buf, 2, NULL, 0, NULL));
	/* Without FI_REMOTE_CQ_DATA, msg.data is ignored. */
	KUNIT_ASSERT_EQ(test, 0, sendmsg(pair->ep[0], buf, 3, 88, 0));
	KUNIT_ASSERT_EQ(test, 3, fx_wait_comp(test, pair->cq[1], entry, 3));
	for (int i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, i ? 0 : 77, entry[i].data);
		KUNIT_EXPECT_EQ(test, i ? 0 : FI_REMOTE_CQ_DATA,
				entry[i].flags & FI_REMOTE_CQ_DATA);
		KUNIT_EXPECT_EQ(test, i + 1, entry[i].len);
	}
}

/* FI_CQ_FORMAT_MSG has the flag but no data, FI_CQ_FORMAT_CONTEXT has neither. */
static void cq_13_data_in_every_cq_format(struct kunit *test)
{
	static const enum fi_cq_format formats[] = {
		FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA,
		FI_CQ_FORMAT_TAGGED,
	};
	static const size_t sizes[] = {
		sizeof(struct fi_cq_entry), sizeof(struct fi_cq_msg_entry),
		sizeof(struct fi_cq_data_entry),
		sizeof(struct fi_cq_tagged_entry),
	};
	u8 *buf = tr_buffer(test, LEN);

	for (int i = 0; i < ARRAY_SIZE(formats); i++) {
		const struct fx_pair_opts opts = { .format = formats[i] };
		struct kofi_pair *pair = fx_pair(test, &opts);
		struct fi_cq_tagged_entry entry = {};

		if (!has_data(pair->info))
			kunit_skip(test, "the device has no data");
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN, NULL, 0,
						 buf));
		KUNIT_ASSERT_EQ(test, 0, by_injectdata(pair->ep[0], buf, LEN,
						       0xc0f1));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_entries(test, pair->cq[1],
							 &entry, sizes[i], 1));
		KUNIT_EXPECT_PTR_EQ(test, (void *)buf, entry.op_context);
		if (formats[i] >= FI_CQ_FORMAT_MSG)
			KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG |
					FI_REMOTE_CQ_DATA, entry.flags);
		if (formats[i] >= FI_CQ_FORMAT_DATA)
			KUNIT_EXPECT_EQ(test, 0xc0f1, entry.data);
	}
}

static void cq_13_data_over_cq_data_size_is_refused(struct kunit *test)
{
	static const u64 data[] = { 1ULL << 32, ~0ULL, 1ULL << 63 };
	const struct way *way = test->param_value;
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &data_format);
	bool has = has_data(pair->info);

	for (int i = 0; i < ARRAY_SIZE(data); i++)
		KUNIT_EXPECT_EQ(test, has ? -FI_EINVAL : -FI_EOPNOTSUPP,
				way->post(pair->ep[0], out, LEN, data[i]));
	if (!has)
		return;
	/* The next message is the first that was not refused. */
	KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], in, LEN, NULL, 0, in));
	KUNIT_ASSERT_EQ(test, 0, way->post(pair->ep[0], out, 8, 9));
	expect_data(test, pair->cq[1], in, 8, 9);
}

/* An error entry has no data. */
static void cq_13_a_flushed_receive_has_no_data(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &data_format);
	struct fi_cq_err_entry entry = {};

	KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN, NULL, 0, buf));
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, pair->cq[1], &entry));
	KUNIT_EXPECT_PTR_EQ(test, (void *)buf, entry.op_context);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry.flags);
	KUNIT_EXPECT_EQ(test, 0, entry.data);
}

struct offer {
	const char *name;
	u64 caps;
	u64 mode;
	u64 rx_mode;
	size_t size;		/* cq_data_size of the hints */
	bool offered;		/* data is offered, if the device has any */
	u64 rx_mode_offered;	/* rx_attr->mode offered with the data */
};

/*
 * Data of RMA writes consumes receives, so it is offered only to a consumer
 * that accepts FI_RX_CQ_DATA.
 */
static const struct offer offers[] = {
	{ "messages", FI_MSG, 0, 0, 0, true, 0 },
	{ "messages that bring data", FI_MSG, 0, 0, 4, true, 0 },
	{ "messages, with the mode", FI_MSG, FI_RX_CQ_DATA, 0, 4, true, 0 },
	{ "writes", FI_MSG | FI_RMA, 0, 0, 0, false, 0 },
	{ "writes, with the mode", FI_MSG | FI_RMA, FI_RX_CQ_DATA, 0, 4, true,
	  FI_RX_CQ_DATA },
	{ "writes, with the receives' mode", FI_RMA, 0, FI_RX_CQ_DATA, 1, true,
	  FI_RX_CQ_DATA },
	{ "anything", 0, 0, 0, 0, false, 0 },
};

KUNIT_ARRAY_PARAM_DESC(offers, offers, name);

static void info_14_cq_data_size_depends_on_rx_cq_data(struct kunit *test)
{
	const struct offer *offer = test->param_value;
	struct fi_info *plain = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct fi_info *hints = fx_hints(test), *info = NULL;
	bool has = !tr_is_iwarp(plain);
	int ret;

	hints->caps = offer->caps;
	hints->mode = offer->mode;
	hints->rx_attr->mode = offer->rx_mode;
	hints->domain_attr->cq_data_size = offer->size;
	ret = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints,
			 &info);
	if (offer->size && !(has && offer->offered)) {
		KUNIT_EXPECT_EQ(test, -FI_ENODATA, ret);
		KUNIT_EXPECT_NULL(test, info);
		return;
	}
	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "%s", fi_strerror(ret));
	fx_defer_free(test, info);
	for (; info; info = info->next) {
		has = !tr_is_iwarp(info) && offer->offered;
		KUNIT_EXPECT_EQ(test, has ? 4 : 0,
				info->domain_attr->cq_data_size);
		KUNIT_EXPECT_EQ(test, has ? offer->rx_mode_offered : 0,
				info->rx_attr->mode);
	}
}

static void info_14_too_large_cq_data_size_is_no_match(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info = NULL;

	hints->mode = FI_RX_CQ_DATA;
	hints->domain_attr->cq_data_size = 5;
	KUNIT_EXPECT_EQ(test, -FI_ENODATA,
			fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
				   hints, &info));
	hints->caps |= FI_RMA;
	hints->mode = 0;
	hints->domain_attr->cq_data_size = 4;
	KUNIT_EXPECT_EQ_MSG(test, -FI_ENODATA,
			    fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL,
				       FI_SOURCE, hints, &info),
			    "cq_data_size in hints without FI_RX_CQ_DATA");
}

/* Data that was not offered is refused, even if the device supports it. */
static void info_14_cq_data_not_offered_is_refused(struct kunit *test)
{
	const struct fx_pair_opts opts = { .caps = FI_RMA };
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &opts);

	KUNIT_ASSERT_EQ(test, 0, pair->info->domain_attr->cq_data_size);
	for (int i = 0; i < ARRAY_SIZE(ways); i++)
		for (int side = 0; side < 2; side++)
			KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
					ways[i].post(pair->ep[side], buf, LEN,
						     1));
	tr_exchange(test, pair, 0, buf, buf + LEN / 2, LEN / 2);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(cq_13_message_data_arrives_in_host_byte_order, ways_gen_params),
	KUNIT_CASE(cq_13_messages_without_data_have_no_flag),
	KUNIT_CASE(cq_13_data_in_every_cq_format),
	KUNIT_CASE_PARAM(cq_13_data_over_cq_data_size_is_refused, ways_gen_params),
	KUNIT_CASE(cq_13_a_flushed_receive_has_no_data),
	KUNIT_CASE_PARAM(info_14_cq_data_size_depends_on_rx_cq_data, offers_gen_params),
	KUNIT_CASE(info_14_too_large_cq_data_size_is_no_match),
	KUNIT_CASE(info_14_cq_data_not_offered_is_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_data",
	.test_cases = cases,
};

kunit_test_suite(suite);
