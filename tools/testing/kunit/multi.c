// SPDX-License-Identifier: GPL-2.0
/*
 * Tests EP 11 of CONTRACT: endpoint options, and FI_MULTI_RECV buffers.
 */

#include <linux/bvec.h>

#include "traffic.h"

#define PIECE	256
#define PIECES	4
/* The last piece is longer than the others by REST bytes. */
#define REST	100
#define LEN	(PIECES * PIECE + REST)

static size_t get_min_multi_recv(struct kunit *test, struct fid_ep *ep)
{
	size_t size = 0, len = sizeof(size);

	KUNIT_EXPECT_EQ(test, 0,
			fi_getopt(&ep->fid, FI_OPT_ENDPOINT,
				  FI_OPT_MIN_MULTI_RECV, &size, &len));
	KUNIT_EXPECT_EQ(test, sizeof(size), len);
	return size;
}

static int set_min_multi_recv(struct fid_ep *ep, size_t size)
{
	return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size,
			 sizeof(size));
}

static ssize_t recv_many(struct fid_ep *ep, void *buf, size_t len, void *desc,
			 u64 flags)
{
	const struct kvec iov = { buf, len };
	const struct fi_msg msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.context = buf,
	};

	return fi_recvmsg(ep, &msg, flags | FI_MULTI_RECV);
}

/* Opens a pair whose second endpoint has a FI_OPT_MIN_MULTI_RECV of PIECE bytes. */
static struct kofi_pair *prepare(struct kunit *test,
				 const struct fx_pair_opts *opts)
{
	struct kofi_pair *pair = fx_pair(test, opts);

	KUNIT_ASSERT_EQ(test, 0, set_min_multi_recv(pair->ep[1], PIECE));
	return pair;
}

static void ep_11_min_multi_recv_option(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid *fid = &pair->ep[1]->fid;
	size_t size = 64;

	KUNIT_EXPECT_GT(test, get_min_multi_recv(test, pair->ep[1]), 0);
	KUNIT_EXPECT_EQ(test, 0, set_min_multi_recv(pair->ep[1], PIECE));
	KUNIT_EXPECT_EQ(test, PIECE, get_min_multi_recv(test, pair->ep[1]));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, set_min_multi_recv(pair->ep[1], 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
				  NULL, sizeof(size)));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
				  &size, sizeof(size) - 1));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT,
			fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE,
				  &size, sizeof(size)));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT,
			fi_setopt(fid, FI_OPT_ENDPOINT, 1000, &size,
				  sizeof(size)));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT,
			fi_setopt(fid, 1000, FI_OPT_MIN_MULTI_RECV, &size,
				  sizeof(size)));
	KUNIT_EXPECT_EQ(test, PIECE, get_min_multi_recv(test, pair->ep[1]));
}

/* Reads the entry of piece number; the last one has FI_MULTI_RECV, which releases the buffer. */
static void expect_piece(struct kunit *test, struct fid_cq *cq, u8 *buf,
			 unsigned int number, bool last, size_t len)
{
	struct fi_cq_tagged_entry entry = {};
	u64 flags = FI_RECV | FI_MSG | (last ? FI_MULTI_RECV : 0);

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, cq, &entry, 1));
	KUNIT_EXPECT_PTR_EQ(test, (void *)buf, entry.op_context);
	KUNIT_EXPECT_EQ(test, flags, entry.flags);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_PTR_EQ(test, (void *)(buf + number * PIECE), entry.buf);
}

/* Sends one message for each piece; the first and the last fill theirs. */
static void fill_pieces(struct kunit *test, struct kofi_pair *pair, u8 *out)
{
	for (int i = 0; i < PIECES; i++) {
		size_t len = i < PIECES - 1 ? PIECE - i : PIECE + REST;

		tr_fill(out, len, i);
		KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], out, len));
		tr_expect(test, pair->cq[0], out, FI_SEND, 0);
	}
}

static void expect_filled(struct kunit *test, const u8 *in)
{
	for (int i = 0; i < PIECES; i++) {
		size_t len = i < PIECES - 1 ? PIECE - i : PIECE + REST;

		KUNIT_EXPECT_TRUE(test, tr_intact(in + i * PIECE, len, i));
		if (i < PIECES - 1)
			KUNIT_EXPECT_NULL(test, memchr_inv(in + i * PIECE + len,
							   0, PIECE - len));
	}
}

static const bool registered[] = { false, true };

static void name_registered(const bool *is, char *name)
{
	strscpy(name, *is ? "registered" : "mapped", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(registered, registered, name_registered);

static void ep_11_multi_recv_takes_several_messages(struct kunit *test)
{
	const bool *is_registered = test->param_value;
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN + 1);
	struct kofi_pair *pair = prepare(test, NULL);
	struct fid_mr *mr = NULL;
	ssize_t space;

	if (*is_registered) {
		KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(pair->domain, in, LEN,
						   FI_RECV, 0, 0, 0, &mr, NULL));
		fx_defer_close(test, &mr->fid);
	}
	space = fi_rx_size_left(pair->ep[1]);
	KUNIT_ASSERT_EQ(test, 0, recv_many(pair->ep[1], in, LEN,
					   mr ? fi_mr_desc(mr) : NULL, 0));
	KUNIT_EXPECT_EQ(test, space - PIECES, fi_rx_size_left(pair->ep[1]));
	fill_pieces(test, pair, out);
	for (int i = 0; i < PIECES; i++)
		expect_piece(test, pair->cq[1], in, i, i == PIECES - 1,
			     i < PIECES - 1 ? PIECE - i : PIECE + REST);
	expect_filled(test, in);
	KUNIT_EXPECT_EQ(test, 0, in[LEN]);
	KUNIT_EXPECT_EQ(test, space, fi_rx_size_left(pair->ep[1]));
}

static void ep_11_a_multi_recv_buffer_for_one_message(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = prepare(test, NULL);

	/* A short buffer, an empty one, and an ordinary receive take one message each. */
	KUNIT_ASSERT_EQ(test, 0, recv_many(pair->ep[1], in, PIECE - 1, NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, recv_many(pair->ep[1], in, 0, NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], out, PIECE - 1));
	expect_piece(test, pair->cq[1], in, 0, true, PIECE - 1);
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], out, 0));
	expect_piece(test, pair->cq[1], in, 0, true, 0);
	for (int i = 0; i < 2; i++)
		tr_expect(test, pair->cq[0], out, FI_SEND, 0);
	tr_exchange(test, pair, 0, out, in, LEN);
}

static void ep_11_the_last_entry_is_always_written(struct kunit *test)
{
	const struct fx_pair_opts opts = { .rx_flags = FI_SELECTIVE_COMPLETION };
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = prepare(test, &opts);

	KUNIT_ASSERT_EQ(test, 0, recv_many(pair->ep[1], in, LEN, NULL, 0));
	fill_pieces(test, pair, out);
	expect_piece(test, pair->cq[1], in, PIECES - 1, true, PIECE + REST);
	expect_filled(test, in);
	KUNIT_ASSERT_EQ(test, 0, recv_many(pair->ep[1], in, LEN, NULL,
					   FI_COMPLETION));
	fill_pieces(test, pair, out);
	for (int i = 0; i < PIECES; i++)
		expect_piece(test, pair->cq[1], in, i, i == PIECES - 1,
			     i < PIECES - 1 ? PIECE - i : PIECE + REST);
}

/* fi_recv() on an endpoint with FI_MULTI_RECV as a default posts a multi-receive buffer. */
static void ep_11_multi_recv_as_an_endpoint_default(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = prepare(test, NULL);
	u64 flags = FI_RECV | FI_MULTI_RECV;

	KUNIT_ASSERT_EQ(test, 0, fi_control(&pair->ep[1]->fid, FI_SETOPSFLAG,
					    &flags));
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], in, LEN));
	fill_pieces(test, pair, out);
	for (int i = 0; i < PIECES; i++)
		expect_piece(test, pair->cq[1], in, i, i == PIECES - 1,
			     i < PIECES - 1 ? PIECE - i : PIECE + REST);
	flags = FI_TRANSMIT | FI_MULTI_RECV;
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_control(&pair->ep[1]->fid, FI_SETOPSFLAG, &flags));
}

static void ep_11_a_multi_recv_is_posted_whole_or_refused(struct kunit *test)
{
	const struct fx_pair_opts opts = { .rx_size = PIECES + 1 };
	u8 *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = prepare(test, &opts);
	const struct kvec iov[2] = { { in, PIECE }, { in + PIECE, PIECE } };
	const struct fi_msg two = { .msg_iov = iov, .iov_count = 2 };
	const struct bio_vec bvec = {};
	const struct fi_msg pages = {
		.msg_iov = (void *)&bvec, .iov_count = 1,
	};
	struct fid_ep *ep = pair->ep[1];

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recvmsg(ep, &two, FI_MULTI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_recvmsg(ep, &pages, FI_MULTI_RECV | FI_BVEC));
	KUNIT_ASSERT_EQ(test, 0, tr_recv(ep, in, PIECE));
	KUNIT_ASSERT_EQ(test, 0, tr_recv(ep, in, PIECE));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, recv_many(ep, in, LEN, NULL, 0));
	KUNIT_EXPECT_EQ(test, PIECES - 1, fi_rx_size_left(ep));
	KUNIT_EXPECT_EQ(test, 0, recv_many(ep, in, LEN - PIECE, NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_rx_size_left(ep));
}

/* If a region ends within the third piece, no piece is posted. */
static void ep_11_a_multi_recv_beyond_its_region_is_refused(struct kunit *test)
{
	u8 *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = prepare(test, NULL);
	ssize_t space = fi_rx_size_left(pair->ep[1]);
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(pair->domain, in, 3 * PIECE - 1,
					   FI_RECV, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, recv_many(pair->ep[1], in, LEN,
						    fi_mr_desc(mr), 0));
	KUNIT_EXPECT_EQ(test, space, fi_rx_size_left(pair->ep[1]));
}

/* At a disconnect each unused piece is flushed, and the last flushed entry releases the buffer. */
static void ep_11_multi_recv_pieces_are_flushed(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = prepare(test, NULL);

	KUNIT_ASSERT_EQ(test, 0, recv_many(pair->ep[1], in, LEN, NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], out, PIECE));
	tr_expect(test, pair->cq[0], out, FI_SEND, 0);
	expect_piece(test, pair->cq[1], in, 0, false, PIECE);
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	tr_expect_shutdowns(test, pair->eq, pair->ep[0], pair->ep[1]);
	for (int i = 1; i < PIECES; i++) {
		struct fi_cq_err_entry error = {};
		bool last = i == PIECES - 1;

		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, pair->cq[1],
							    &error));
		KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
		KUNIT_EXPECT_PTR_EQ(test, (void *)in, error.op_context);
		KUNIT_EXPECT_PTR_EQ(test, (void *)(in + i * PIECE), error.buf);
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG |
				(last ? FI_MULTI_RECV : 0), error.flags);
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[1], NULL, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_11_min_multi_recv_option),
	KUNIT_CASE_PARAM(ep_11_multi_recv_takes_several_messages,
			 registered_gen_params),
	KUNIT_CASE(ep_11_a_multi_recv_buffer_for_one_message),
	KUNIT_CASE(ep_11_the_last_entry_is_always_written),
	KUNIT_CASE(ep_11_multi_recv_as_an_endpoint_default),
	KUNIT_CASE(ep_11_a_multi_recv_is_posted_whole_or_refused),
	KUNIT_CASE(ep_11_a_multi_recv_beyond_its_region_is_refused),
	KUNIT_CASE(ep_11_multi_recv_pieces_are_flushed),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_multi_recv",
	.test_cases = cases,
};

kunit_test_suite(suite);
