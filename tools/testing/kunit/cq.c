// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CQ: reading entries and errors, and that none is lost. Blocking
 * reads are in cq_wait.c.
 */

#include <linux/delay.h>

#include "traffic.h"

#define LEN 64

static void cq_01_size_zero_is_a_default(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	tr_exchange(test, pair, 0, buf, buf + LEN, LEN);
}

static void cq_01_bad_formats_and_flags_are_refused(struct kunit *test)
{
	static const struct fi_cq_attr bad[] = {
		{ .format = FI_CQ_FORMAT_TAGGED + 1 },
		{ .format = -1 },
		{ .flags = FI_WRITE },
		{ .flags = FI_PEER },
		{ .flags = 1ULL << 63 },
		{ .wait_obj = FI_WAIT_QUEUE + 1 },
		{ .wait_cond = FI_CQ_COND_THRESHOLD + 1 },
	};
	struct kofi_fabric_fx *fx = fx_open(test);

	for (int i = 0; i < ARRAY_SIZE(bad); i++) {
		struct fi_cq_attr attr = bad[i];
		struct fid_cq *cq = NULL;

		KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
				    fi_cq_open(fx->domain, &attr, &cq, NULL),
				    "row %d", i);
		KUNIT_EXPECT_NULL(test, cq);
	}
}

struct format_size {
	enum fi_cq_format format;
	size_t size;
};

static const struct format_size format_sizes[] = {
	{ FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry) },
	{ FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry) },
	{ FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry) },
	{ FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry) },
};

static void name_format(const struct format_size *format_size, char *name)
{
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "%s",
		 fi_tostr(&format_size->format, FI_TYPE_CQ_FORMAT));
}

KUNIT_ARRAY_PARAM(format_sizes, format_sizes, name_format);

/* Entries of each format have the fields of the smaller formats at the same offsets. */
static void cq_02_formats_nest(struct kunit *test)
{
	const struct format_size *format_size = test->param_value;
	const struct fx_pair_opts opts = { .format = format_size->format };
	u8 *raw = tr_buffer(test, 4 * sizeof(struct fi_cq_tagged_entry));
	u8 *buf = tr_buffer(test, 3 * LEN);
	struct kofi_pair *pair = fx_pair(test, &opts);

	memset(raw, 0xa5, 4 * sizeof(struct fi_cq_tagged_entry));
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0,
				fi_recv(pair->ep[1], buf + i * LEN, LEN, NULL,
					FI_ADDR_UNSPEC, buf + i * LEN));
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], buf + 2 * LEN,
						 LEN - i, NULL, FI_ADDR_UNSPEC,
						 NULL));
	KUNIT_ASSERT_EQ(test, 2, fx_wait_entries(test, pair->cq[1], raw,
						 format_size->size, 2));
	for (int i = 0; i < 2; i++) {
		struct fi_cq_tagged_entry *entry = (void *)(raw + i * format_size->size);

		KUNIT_EXPECT_PTR_EQ(test, (void *)(buf + i * LEN),
				    entry->op_context);
		if (format_size->format < FI_CQ_FORMAT_MSG)
			continue;
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry->flags);
		KUNIT_EXPECT_EQ(test, LEN - i, entry->len);
	}
	KUNIT_EXPECT_EQ_MSG(test, 0xa5, raw[2 * format_size->size],
			    "written past the entries");
}

/*
 * Opens a pair with one completed receive on ep[1], and a second one that was
 * flushed by the peer's shutdown.
 */
static struct kofi_pair *pair_with_success_and_flush(struct kunit *test, u8 *buf)
{
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0,
				fi_recv(pair->ep[1], buf + i * LEN, LEN, NULL,
					FI_ADDR_UNSPEC, buf + i * LEN));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], buf + 2 * LEN, LEN, NULL,
					 FI_ADDR_UNSPEC, NULL));
	tr_expect(test, pair->cq[0], NULL, FI_SEND, 0);
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
	return pair;
}

static void cq_03_successes_come_before_an_error(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 3 * LEN);
	struct fid_cq *cq = pair_with_success_and_flush(test, buf)->cq[1];
	struct fi_cq_tagged_entry entries[4] = {};

	KUNIT_EXPECT_EQ(test, 1, fi_cq_read(cq, entries, 4));
	KUNIT_EXPECT_PTR_EQ(test, (void *)buf, entries[0].op_context);
	for (int again = 0; again < 2; again++)
		KUNIT_EXPECT_EQ(test, -FI_EAVAIL, fi_cq_read(cq, entries, 4));
	tr_expect_error(test, cq, buf + LEN, FI_ECANCELED);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(cq, entries, 4));
}

static void cq_04_read_of_zero_entries(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 3 * LEN);
	struct fid_cq *empty = fx_open(test)->cq;
	struct fid_cq *cq = pair_with_success_and_flush(test, buf)->cq[1];

	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(empty, NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_cq_read(cq, NULL, 0));
	tr_expect(test, cq, buf, FI_RECV, LEN);
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL, fi_cq_read(cq, NULL, 0));
	tr_expect_error(test, cq, buf + LEN, FI_ECANCELED);
}

/* Only this read polls the device. */
static void cq_04_read_of_zero_entries_polls_the_device(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN, NULL,
					 FI_ADDR_UNSPEC, buf));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], buf + LEN, LEN, NULL,
					 FI_ADDR_UNSPEC, NULL));
	KUNIT_EXPECT_EQ(test, 0, tr_await(pair->cq[1]));
	KUNIT_EXPECT_EQ_MSG(test, 0, fi_cq_read(pair->cq[1], NULL, 0),
			    "a read of 0 entries takes none");
	tr_expect(test, pair->cq[1], buf, FI_RECV, LEN);
}

/* Operations that completed without an entry free their space. */
static void cq_04_read_of_zero_entries_makes_progress(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.tx_size = 4,
		.tx_flags = FI_SELECTIVE_COMPLETION,
	};
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct kofi_pair *pair = fx_pair(test, &opts);
	const struct fi_msg msg = {};
	ssize_t left;

	tr_needs_device(test, pair->info);
	for (int i = 0; i < opts.tx_size; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], NULL, 0, NULL,
						 FI_ADDR_UNSPEC, NULL));
	for (int i = 0; i < opts.tx_size; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_sendmsg(pair->ep[0], &msg, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_tx_size_left(pair->ep[0]));
	do {
		fsleep(1000);
		KUNIT_ASSERT_EQ(test, -FI_EAGAIN,
				fi_cq_read(pair->cq[0], NULL, 0));
		left = fi_tx_size_left(pair->ep[0]);
	} while (left < opts.tx_size && time_before(jiffies, deadline));
	KUNIT_EXPECT_EQ(test, opts.tx_size, left);
}

static void cq_05_readerr(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 3 * LEN);
	struct fid_cq *cq = pair_with_success_and_flush(test, buf)->cq[1];
	struct fi_cq_err_entry error = {};
	const char *text;
	char copy[8];

	KUNIT_EXPECT_EQ_MSG(test, -FI_EAGAIN, fi_cq_readerr(cq, &error, 0),
			    "a success is at the head");
	tr_expect(test, cq, buf, FI_RECV, LEN);
	KUNIT_EXPECT_EQ(test, 1, fi_cq_readerr(cq, &error, 0));
	KUNIT_EXPECT_PTR_EQ(test, (void *)(buf + LEN), error.op_context);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, error.flags);
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
	KUNIT_EXPECT_EQ(test, 0, error.olen);

	memset(copy, '#', sizeof(copy));
	text = fi_cq_strerror(cq, error.prov_errno, error.err_data, copy,
			      sizeof(copy));
	KUNIT_ASSERT_NOT_NULL(test, text);
	KUNIT_EXPECT_GT(test, strlen(text), 0);
	KUNIT_EXPECT_EQ(test, 0, copy[sizeof(copy) - 1]);
	KUNIT_EXPECT_EQ(test, 0, strncmp(text, copy, strlen(copy)));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_readerr(cq, &error, 0));
}

static void cq_06_err_data_is_limited_to_the_callers_size(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 3 * LEN);
	struct fid_cq *cq = pair_with_success_and_flush(test, buf)->cq[1];
	struct fi_cq_err_entry error = {};
	u8 space[16];

	tr_expect(test, cq, buf, FI_RECV, LEN);
	memset(space, 0xa5, sizeof(space));
	error.err_data = space;
	error.err_data_size = sizeof(space) / 2;
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(cq, &error, 0));
	KUNIT_EXPECT_PTR_EQ(test, (void *)space, error.err_data);
	KUNIT_EXPECT_LE(test, error.err_data_size, sizeof(space) / 2);
	for (size_t i = error.err_data_size; i < sizeof(space); i++)
		KUNIT_EXPECT_EQ(test, 0xa5, space[i]);
}

static void cq_06_err_data_size_zero_gives_provider_data(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 3 * LEN);
	struct fid_cq *cq = pair_with_success_and_flush(test, buf)->cq[1];
	struct fi_cq_err_entry error = { .err_data = buf };

	tr_expect(test, cq, buf, FI_RECV, LEN);
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(cq, &error, 0));
	KUNIT_EXPECT_PTR_NE(test, (void *)buf, error.err_data);
	KUNIT_EXPECT_TRUE(test, error.err_data || !error.err_data_size);
}

/*
 * Operations that are outstanding at this side's shutdown fail with an entry,
 * whether or not a success would have had one.
 */
static void cq_07_unsignalled_failures_are_reported(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.tx_flags = FI_SELECTIVE_COMPLETION,
		.rx_flags = FI_SELECTIVE_COMPLETION,
	};
	u8 *buf = tr_buffer(test, LEN);
	struct fi_msg msg = { .context = buf };
	struct kvec iov = { buf, LEN };
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fi_cq_err_entry error = {};
	int receives = 0, sends = 0;

	msg.msg_iov = &iov;
	msg.iov_count = 1;
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(pair->ep[0], &msg, 0));
	/* The peer has no receive for these. */
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_sendmsg(pair->ep[0], &msg, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));

	while (fi_cq_readerr(pair->cq[0], &error, 0) == 1) {
		KUNIT_EXPECT_PTR_EQ(test, (void *)buf, error.op_context);
		KUNIT_EXPECT_GT(test, error.err, 0);
		receives += error.flags == (FI_RECV | FI_MSG);
		sends += error.flags == (FI_SEND | FI_MSG);
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
	KUNIT_EXPECT_EQ(test, 3, receives);
	/* On iWARP a send is complete once it was sent, delivered or not. */
	if (!tr_is_iwarp(pair->info))
		KUNIT_EXPECT_EQ(test, 3, sends);
}

static void cq_12_readfrom_without_fi_source_is_notavail(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 3 * LEN);
	struct fid_cq *cq = pair_with_success_and_flush(test, buf)->cq[1];
	struct fi_cq_err_entry error = { .src_addr = 5 };
	struct fi_cq_tagged_entry entries[2] = {};
	fi_addr_t from[2] = { 5, 5 };

	KUNIT_EXPECT_EQ(test, 1, fi_cq_readfrom(cq, entries, 2, from));
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, from[0]);
	KUNIT_EXPECT_EQ_MSG(test, 5, from[1], "written past the entries");
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL, fi_cq_readfrom(cq, entries, 2, from));
	KUNIT_EXPECT_EQ(test, 1, fi_cq_readerr(cq, &error, 0));
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, error.src_addr);
}

/* fi_readfrom() and fi_cq_error() behave as fi_cq_readfrom() and fi_cq_readerr(). */
static void cq_12_fi_readfrom_and_fi_cq_error_of_the_slides(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 3 * LEN);
	struct fid_cq *cq = pair_with_success_and_flush(test, buf)->cq[1];
	struct fi_cq_err_entry error = { .src_addr = 5 };
	struct fi_cq_tagged_entry entries[2] = {};
	fi_addr_t from[2] = { 5, 5 };

	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_error(cq, &error, 0));
	KUNIT_EXPECT_EQ(test, 1, fi_readfrom(cq, entries, 2, from));
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, from[0]);
	KUNIT_EXPECT_EQ(test, 5, from[1]);
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL, fi_readfrom(cq, entries, 2, from));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_cq_error(cq, &error, 1));
	KUNIT_EXPECT_EQ(test, 1, fi_cq_error(cq, &error, 0));
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, error.src_addr);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_readfrom(cq, entries, 2, from));
}

static void cq_12_sreadfrom_without_fi_source_is_notavail(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fi_cq_tagged_entry entries[2];
	fi_addr_t from[2] = { 5, 5 };

	KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], NULL, 0, NULL,
					 FI_ADDR_UNSPEC, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], NULL, 0, NULL,
					 FI_ADDR_UNSPEC, NULL));
	KUNIT_EXPECT_EQ(test, 1, fi_cq_sreadfrom(pair->cq[1], entries, 2, from,
						 NULL, FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, from[0]);
	KUNIT_EXPECT_EQ(test, 5, from[1]);
}

/* fi_getinfo() refuses FI_SOURCE, so that a consumer knows in advance. */
static void cq_12_fi_source_is_not_offered(struct kunit *test)
{
	static const u64 asked[] = {
		FI_SOURCE, FI_SOURCE_ERR, FI_SOURCE | FI_SOURCE_ERR,
	};
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct fi_info *hints = fx_hints(test);

	KUNIT_EXPECT_EQ(test, 0, info->caps & (FI_SOURCE | FI_SOURCE_ERR));
	for (int i = 0; i < ARRAY_SIZE(asked); i++) {
		hints->caps = FI_MSG | asked[i];
		KUNIT_EXPECT_EQ(test, -FI_ENODATA,
				fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL,
					   FI_SOURCE, hints, &info));
	}
}

#define MANY 512

static void cq_14_posts_reserve_cq_slots(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.cq_size = 16,
		.tx_size = 8,
		.rx_size = MANY,
	};
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &opts);
	unsigned int posted = 0;
	ssize_t ret = 0;

	while (posted < MANY && !ret) {
		ret = fi_recv(pair->ep[1], buf, LEN, NULL, FI_ADDR_UNSPEC, buf);
		posted += !ret;
	}
	KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
	KUNIT_EXPECT_GE(test, posted, 16);
	KUNIT_EXPECT_LT_MSG(test, posted, MANY, "the receive queue was the limit");

	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], buf, LEN, NULL,
					 FI_ADDR_UNSPEC, NULL));
	tr_expect(test, pair->cq[1], buf, FI_RECV, LEN);
	KUNIT_EXPECT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN, NULL,
					 FI_ADDR_UNSPEC, buf));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_recv(pair->ep[1], buf, LEN, NULL,
						  FI_ADDR_UNSPEC, buf));

	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	KUNIT_EXPECT_EQ(test, posted, tr_read_flushed(test, pair->cq[1]));
}

static void cq_15_close_with_a_bound_endpoint_is_busy(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_ep *ep = fx_bound_ep(test, fx);

	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->cq->fid));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->cq->fid));
	fx_close(test, &ep->fid);
	fx_close(test, &fx->cq->fid);
}

/* A message longer than its receive buffer is an error on both sides. */
static void cq_20_truncation_and_flush_differ(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct fi_cq_err_entry error = {};
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN / 2, NULL,
						 FI_ADDR_UNSPEC, buf + i));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], buf + LEN, LEN, NULL,
					 FI_ADDR_UNSPEC, NULL));
	KUNIT_ASSERT_EQ(test, 0,
			fx_wait_comp_error(test, pair->cq[1], &error));
	KUNIT_EXPECT_PTR_EQ(test, (void *)buf, error.op_context);
	/* Soft-RoCE reports a broken queue without the reason. */
	if (error.err != FI_EIO || tr_is_iwarp(pair->info))
		KUNIT_EXPECT_EQ(test, FI_ETRUNC, error.err);
	/* InfiniBand and RoCE report the error to the connected sender as well. */
	if (!tr_is_iwarp(pair->info))
		tr_expect_error(test, pair->cq[0], NULL, FI_ECONNRESET);
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	tr_expect_error(test, pair->cq[1], buf + 1, FI_ECANCELED);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cq_01_size_zero_is_a_default),
	KUNIT_CASE(cq_01_bad_formats_and_flags_are_refused),
	KUNIT_CASE_PARAM(cq_02_formats_nest, format_sizes_gen_params),
	KUNIT_CASE(cq_03_successes_come_before_an_error),
	KUNIT_CASE(cq_04_read_of_zero_entries),
	KUNIT_CASE(cq_04_read_of_zero_entries_polls_the_device),
	KUNIT_CASE(cq_04_read_of_zero_entries_makes_progress),
	KUNIT_CASE(cq_05_readerr),
	KUNIT_CASE(cq_06_err_data_is_limited_to_the_callers_size),
	KUNIT_CASE(cq_06_err_data_size_zero_gives_provider_data),
	KUNIT_CASE(cq_07_unsignalled_failures_are_reported),
	KUNIT_CASE(cq_12_readfrom_without_fi_source_is_notavail),
	KUNIT_CASE(cq_12_fi_readfrom_and_fi_cq_error_of_the_slides),
	KUNIT_CASE(cq_12_sreadfrom_without_fi_source_is_notavail),
	KUNIT_CASE(cq_12_fi_source_is_not_offered),
	KUNIT_CASE(cq_14_posts_reserve_cq_slots),
	KUNIT_CASE(cq_15_close_with_a_bound_endpoint_is_busy),
	KUNIT_CASE(cq_20_truncation_and_flush_differ),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cq",
	.test_cases = cases,
};

kunit_test_suite(suite);
