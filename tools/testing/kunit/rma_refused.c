// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RMA 2 of CONTRACT: invalid remote access fails, and ends the
 * connection. rxe reports the refusal in the operation's error entry. siw
 * completes a write with success once it is sent, and then ends the connection.
 */

#include <linux/sizes.h>

#include "rma.h"

#define LEN 4096
#define OFF 1024	/* offset of the region in the buffer */
#define REGION 2048

/* An access, relative to the region. */
struct attempt {
	const char	*name;
	u64		access;
	s64		at;
	size_t		len;
	u64		key_xor;
	bool		closed;
	bool		is_read;
	bool		siw_permits;	/* siw permits it: a defect of the driver */
};

static const struct attempt attempts[] = {
	{ "write one byte behind", RMA_BOTH, 1, REGION },
	{ "write one byte before", RMA_BOTH, -1, 8 },
	{ "write far away", RMA_BOTH, SZ_1G, 8 },
	{ "write with another key", RMA_BOTH, 0, 8, 0x100 },
	{ "write without the right", FI_REMOTE_READ, 0, 8 },
	{ "write to a closed region", RMA_BOTH, 0, 8, .closed = true },
	{ "read one byte behind", RMA_BOTH, 1, REGION, .is_read = true },
	{ "read one byte before", RMA_BOTH, -1, 8, .is_read = true },
	{ "read with another key", RMA_BOTH, 0, 8, 0x100, .is_read = true },
	{ "read without the right", FI_REMOTE_WRITE, 0, 8, .is_read = true,
	  .siw_permits = true },
	{ "read of a closed region", RMA_BOTH, 0, 8, .closed = true,
	  .is_read = true },
};

KUNIT_ARRAY_PARAM_DESC(attempts, attempts, name);

/* Reads the only entry of the operation; returns its errno, or 0 for a success. */
static int read_completion(struct kunit *test, struct rma_fx *fx, void *context,
			   u64 flag)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry = {};
	struct fid_cq *cq = fx->pair->cq[0];
	ssize_t ret;

	ret = fi_cq_sread(cq, &entry, 1, NULL, FX_WAIT_MS);
	if (ret == 1) {
		KUNIT_EXPECT_PTR_EQ(test, context, entry.op_context);
		return 0;
	}
	KUNIT_ASSERT_EQ(test, -FI_EAVAIL, ret);
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(cq, &error, 0));
	KUNIT_EXPECT_PTR_EQ(test, context, error.op_context);
	KUNIT_EXPECT_EQ(test, flag | FI_RMA, error.flags);
	return error.err;
}

/* Reads FI_SHUTDOWN of both endpoints, in any order. */
static void expect_shutdowns(struct kunit *test, struct rma_fx *fx)
{
	struct kofi_pair *pair = fx->pair;
	struct fid *seen[2] = {};

	for (int i = 0; i < 2; i++) {
		struct fx_cm_event event = {};

		KUNIT_ASSERT_GT(test, fx_wait_event(test, pair->eq, FI_SHUTDOWN,
						    &event, sizeof(event)), 0);
		seen[event.entry.fid == &pair->ep[1]->fid] = event.entry.fid;
	}
	for (int i = 0; i < 2; i++)
		KUNIT_EXPECT_PTR_EQ(test, &pair->ep[i]->fid, seen[i]);
}

static void rma_02_invalid_access_is_refused(struct kunit *test)
{
	const struct attempt *attempt = test->param_value;
	u8 *memory = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, memory + OFF, REGION,
				     attempt->access, NULL);
	u64 flag = attempt->is_read ? FI_READ : FI_WRITE;
	bool siw = tr_is_iwarp(fx->pair->info);
	struct rma_op op = {
		.near = near,
		.len = attempt->len,
		.at = attempt->at,
		.context = near,
	};
	int err;

	memset(memory, 0x5a, LEN);
	memset(near, 0xa5, LEN);
	fx->key ^= attempt->key_xor;
	if (attempt->closed)
		fx_close(test, &fx->mr->fid);
	KUNIT_ASSERT_EQ(test, 0, rma_calls[attempt->is_read ? 0 : 3].post(fx,
									  &op));
	err = read_completion(test, fx, near, flag);
	if (siw && attempt->siw_permits) {
		KUNIT_EXPECT_EQ_MSG(test, 0, err,
				    "siw now refuses this access: update security.rst");
		return;
	}
	if (siw)
		expect_shutdowns(test, fx);
	else
		KUNIT_EXPECT_EQ_MSG(test, FI_EACCES, err, "%s",
				    fi_strerror(err));
	if (attempt->is_read) {
		KUNIT_EXPECT_NE(test, 0, err);
		KUNIT_EXPECT_NULL(test, memchr_inv(near, 0xa5, LEN));
	}
	KUNIT_EXPECT_NULL_MSG(test, memchr_inv(memory, 0x5a, LEN),
			      "the peer's memory has changed");
}

/* Returns false if the connection has already ended: the loop provider ends it at once. */
static bool post_behind(struct kunit *test, struct rma_fx *fx,
			const struct rma_call *call, const struct rma_op *op)
{
	int ret = call->post(fx, op);

	if (ret == -FI_ENOTCONN && tr_is_loop(fx->pair->info))
		return false;
	KUNIT_ASSERT_EQ(test, 0, ret);
	return true;
}

/* Operations behind a refused one are not executed. */
static void rma_02_operations_behind_a_refused_one_fail(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, far, LEN, FI_REMOTE_READ, NULL);
	struct rma_op op = { .near = near, .len = 8, .context = near };
	bool writes, reads;
	int err;

	memset(near, 0xa5, LEN);
	KUNIT_ASSERT_EQ(test, 0, rma_calls[3].post(fx, &op));
	writes = post_behind(test, fx, &rma_calls[3], &op);
	/* A read behind a refused write always fails, also on siw. */
	op.context = far;
	reads = post_behind(test, fx, &rma_calls[0], &op);
	for (int i = 0; i < 1 + writes; i++) {
		err = read_completion(test, fx, near, FI_WRITE);
		if (!tr_is_iwarp(fx->pair->info))
			KUNIT_EXPECT_EQ(test, i ? FI_ECANCELED : FI_EACCES,
					err);
	}
	if (reads) {
		err = read_completion(test, fx, far, FI_READ);
		/* siw may find the end of the connection while it sends the read. */
		KUNIT_EXPECT_NE(test, 0, err);
		if (!tr_is_iwarp(fx->pair->info))
			KUNIT_EXPECT_EQ(test, FI_ECANCELED, err);
	}
	KUNIT_EXPECT_NULL(test, memchr_inv(near, 0xa5, LEN));
	KUNIT_EXPECT_NULL(test, memchr_inv(far, 0, LEN));
}

/* A refused inject is reported by an error entry, or by the end of the connection. */
static void rma_02_a_refused_inject(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, far, LEN, FI_REMOTE_READ, NULL);
	const struct rma_op op = { .near = near, .len = 8 };

	memset(near, 0xa5, LEN);
	KUNIT_ASSERT_EQ(test, 0, rma_calls[7].post(fx, &op));
	if (tr_is_iwarp(fx->pair->info))
		expect_shutdowns(test, fx);
	else
		KUNIT_EXPECT_EQ(test, FI_EACCES, read_completion(test, fx, NULL,
								 FI_WRITE));
	KUNIT_EXPECT_NULL(test, memchr_inv(far, 0, LEN));
}

/* The endpoint's access rights are checked before any key. */
static void rma_02_a_peer_without_remote_access(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.caps = FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE,
	};
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, far, LEN, RMA_BOTH, &opts);
	struct rma_op op = { .near = near, .len = 8, .context = near };
	int err;

	if (tr_is_iwarp(fx->pair->info))
		kunit_skip(test, "siw asks the region only");
	memset(near, 0xa5, LEN);
	KUNIT_ASSERT_EQ(test, 0, rma_calls[3].post(fx, &op));
	err = read_completion(test, fx, near, FI_WRITE);
	KUNIT_EXPECT_NE(test, 0, err);
	KUNIT_EXPECT_NULL(test, memchr_inv(far, 0, LEN));
}

static void rma_03_keys_beyond_32_bits_are_refused(struct kunit *test)
{
	static const u64 keys[] = { 1ULL << 32, FI_KEY_NOTAVAIL };
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 8);
	struct rma_fx *fx = rma_open(test, far, LEN, RMA_BOTH, NULL);
	const struct rma_op op = { .near = near, .len = 8, .context = near };
	u64 key = fx->key;

	for (int i = 0; i < ARRAY_SIZE(keys); i++) {
		fx->key = keys[i];
		for (int k = 0; k < RMA_CALLS; k++)
			if (rma_has(fx, &rma_calls[k]))
				KUNIT_EXPECT_EQ_MSG(test, -FI_ENOKEY,
						    rma_calls[k].post(fx, &op),
						    "%s", rma_calls[k].name);
	}
	fx->key = key;
	rma_settle(test, fx);
}

static void rma_03_unmappable_buffers_are_refused(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, far, LEN, RMA_BOTH, NULL);
	u8 stack[8];
	u8 *const nears[] = { NULL, (u8 *)8, (u8 *)-8L, stack };

	for (int i = 0; i < ARRAY_SIZE(nears); i++) {
		const struct rma_op op = { .near = nears[i], .len = 8 };

		for (int k = 0; k < RMA_CALLS; k++) {
			bool copies = rma_calls[k].injects;

			if (!rma_has(fx, &rma_calls[k]) ||
			    (copies && nears[i] == stack))
				continue;
			KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
					    rma_calls[k].post(fx, &op),
					    "%s of %p", rma_calls[k].name,
					    nears[i]);
		}
	}
	rma_settle(test, fx);
}

static void rma_03_calls_without_a_connection_are_refused(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 8);
	struct rma_fx *fx = rma_open(test, far, LEN, RMA_BOTH, NULL);
	const struct rma_op op = { .near = near, .len = 8 };
	struct fid_ep *ep = fx->pair->ep[0], *idle;

	idle = fx_ep(test, fx->pair->domain, fx->pair->info);
	fx_bind(test, idle, fx->pair->eq, fx->pair->cq[0],
		FI_TRANSMIT | FI_RECV);
	for (int enabled = 0; enabled < 2; enabled++) {
		fx->pair->ep[0] = idle;
		for (int k = 0; k < RMA_CALLS; k++)
			if (rma_has(fx, &rma_calls[k]))
				KUNIT_EXPECT_EQ(test, enabled ? -FI_ENOTCONN :
						-FI_EOPBADSTATE,
						rma_calls[k].post(fx, &op));
		KUNIT_ASSERT_EQ(test, 0, fi_enable(idle));
	}
	fx->pair->ep[0] = ep;
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(ep, 0));
	for (int k = 0; k < RMA_CALLS; k++)
		if (rma_has(fx, &rma_calls[k]))
			KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE,
					rma_calls[k].post(fx, &op));
}

/* Endpoints without FI_RMA refuse the calls. */
static void rma_03_calls_without_the_capability_are_refused(struct kunit *test)
{
	u8 *near = tr_buffer(test, 8);
	struct rma_fx fx = { .pair = fx_pair(test, NULL) };
	const struct rma_op op = { .near = near, .len = 8 };

	for (int k = 0; k < RMA_CALLS; k++)
		KUNIT_EXPECT_EQ_MSG(test, -FI_ENOSYS,
				    rma_calls[k].post(&fx, &op), "%s",
				    rma_calls[k].name);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(rma_02_invalid_access_is_refused, attempts_gen_params),
	KUNIT_CASE(rma_02_operations_behind_a_refused_one_fail),
	KUNIT_CASE(rma_02_a_refused_inject),
	KUNIT_CASE(rma_02_a_peer_without_remote_access),
	KUNIT_CASE(rma_03_keys_beyond_32_bits_are_refused),
	KUNIT_CASE(rma_03_unmappable_buffers_are_refused),
	KUNIT_CASE(rma_03_calls_without_a_connection_are_refused),
	KUNIT_CASE(rma_03_calls_without_the_capability_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rma_refused",
	.test_cases = cases,
};

kunit_test_suite(suite);
