// SPDX-License-Identifier: GPL-2.0
/*
 * Rare behaviour of drivers. post_send, poll_cq and req_notify_cq of the device
 * are replaced by functions that, when a test asks for it, refuse work requests,
 * report failed completions twice, or shut an endpoint down while a queue is armed.
 */

#include <linux/delay.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "atomic.h"

#define LEN	64
/* More rounds than a queue has slots. */
#define REFUSED_ROUNDS	300

static struct {
	struct rdma_cm_id	*id;	/* keeps the device */
	int			(*post)(struct ib_qp *qp,
					const struct ib_send_wr *wr,
					const struct ib_send_wr **bad);
	int			(*arm)(struct ib_cq *cq,
				       enum ib_cq_notify_flags flags);
	int			(*poll)(struct ib_cq *cq, int count,
					struct ib_wc *wc);
	/*
	 * Work requests with this opcode: the number that is passed to the driver,
	 * the number that is then refused, the errno of these, and that of the last
	 * one.
	 */
	enum ib_wr_opcode	opcode;
	atomic_t		passes;
	atomic_t		refusals;
	int			err;
	int			last_err;
	/* Endpoint to shut down while a queue is armed. */
	struct fid_ep		*shutdown_ep;
	/* Reports each failed completion twice, as siw does with some reads. */
	bool			duplicates;
} driver;

static int driver_post(struct ib_qp *qp, const struct ib_send_wr *wr,
		       const struct ib_send_wr **bad)
{
	int left = -1;

	if (wr->opcode == driver.opcode &&
	    atomic_dec_if_positive(&driver.passes) < 0)
		left = atomic_dec_if_positive(&driver.refusals);
	if (left < 0)
		return driver.post(qp, wr, bad);
	*bad = wr;
	return left ? driver.err : driver.last_err;
}

static int driver_arm(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	struct fid_ep *ep = xchg(&driver.shutdown_ep, NULL);

	if (ep)
		fi_shutdown(ep, 0);
	return driver.arm(cq, flags);
}

static int driver_poll(struct ib_cq *cq, int count, struct ib_wc *wc)
{
	int found, failed = 0;

	if (!READ_ONCE(driver.duplicates))
		return driver.poll(cq, count, wc);
	/* Leaves space for the duplicates. */
	found = driver.poll(cq, max(count / 2, 1), wc);
	if (found < 0 || 2 * found > count)
		return found;
	for (int i = 0; i < found; i++)
		if (wc[i].status != IB_WC_SUCCESS)
			wc[found + failed++] = wc[i];
	return found + failed;
}

static int driver_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	return 0;
}

static void driver_end(void *unused)
{
	driver.id->device->ops.post_send = driver.post;
	driver.id->device->ops.req_notify_cq = driver.arm;
	driver.id->device->ops.poll_cq = driver.poll;
	rdma_destroy_id(driver.id);
}

/* Refuses @refusals work requests with @err, after @passes have been passed to the driver. */
static void driver_fail_posts(int passes, int refusals, int err)
{
	atomic_set(&driver.refusals, 0);
	driver.err = err;
	driver.last_err = err;
	atomic_set(&driver.passes, passes);
	atomic_set(&driver.refusals, refusals);
}

/* Installs the replacements on the device under test, until the test ends. */
static void driver_begin(struct kunit *test)
{
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);

	tr_needs_device(test, info);
	driver.id = rdma_create_id(&init_net, driver_event, NULL, RDMA_PS_TCP,
				   IB_QPT_RC);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, driver.id);
	KUNIT_ASSERT_EQ(test, 0, rdma_bind_addr(driver.id, info->src_addr));
	driver.opcode = IB_WR_ATOMIC_CMP_AND_SWP;
	driver_fail_posts(0, 0, 0);
	driver.duplicates = false;
	driver.poll = driver.id->device->ops.poll_cq;
	driver.id->device->ops.poll_cq = driver_poll;
	driver.post = driver.id->device->ops.post_send;
	driver.id->device->ops.post_send = driver_post;
	driver.arm = driver.id->device->ops.req_notify_cq;
	driver.id->device->ops.req_notify_cq = driver_arm;
	/* Runs last, when all queue pairs of the test are gone. */
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, driver_end,
							   NULL));
}

static struct rma_fx *driver_open(struct kunit *test, u8 *far,
				  const struct fx_pair_opts *opts)
{
	driver_begin(test);
	return at_open(test, far, LEN, RMA_BOTH, opts);
}

/* Opens a pair whose RMA writes are the requests that fail. */
static struct rma_fx *driver_rma(struct kunit *test, u8 *far)
{
	driver_begin(test);
	driver.opcode = IB_WR_RDMA_WRITE;
	return rma_open(test, far, LEN, RMA_BOTH, NULL);
}

/* Prepares an operation that no device has, which takes two requests. */
static struct at_op driver_op(struct kunit *test, u8 *far)
{
	struct at_op op = {
		.form = ATOM_FETCH, .op = FI_MAX, .type = FI_UINT64, .count = 1,
		.buf = tr_buffer(test, 16),
	};

	*(u64 *)far = 5;
	*(u64 *)op.buf = 7;
	op.result = op.buf + 8;
	op.context = op.buf;
	return op;
}

static void driver_refuses_the_first_request(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct rma_fx *fx = driver_open(test, far, NULL);
	struct at_op op = driver_op(test, far);

	driver_fail_posts(0, INT_MAX, -EINVAL);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, at_post(fx, &op));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, at_post(fx, &op));
	driver_fail_posts(0, INT_MAX, -ENOMEM);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, at_post(fx, &op));
	KUNIT_EXPECT_EQ(test, 5, *(u64 *)far);
	driver_fail_posts(0, 0, 0);
	KUNIT_EXPECT_EQ(test, 0, at_post(fx, &op));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, 7, *(u64 *)far);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->pair->cq[0], NULL, 0));
}

/*
 * The second request fails: the target is unchanged, the operation has an error
 * entry, and the next operation succeeds.
 */
static void driver_refuses_the_next_request(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct rma_fx *fx = driver_open(test, far, NULL);
	struct at_op op = driver_op(test, far);

	for (int i = 0; i < 20; i++) {
		driver_fail_posts(1, 1, -EINVAL);
		KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
		KUNIT_EXPECT_EQ(test, FI_EIO, at_expect_error(test, fx, &op));
		KUNIT_EXPECT_EQ(test, 5, *(u64 *)far);
	}
	KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, 7, *(u64 *)far);
}

/* An injected operation that fails has an error entry. */
static void driver_refuses_an_injected_operation(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct rma_fx *fx = driver_open(test, far, NULL);
	struct at_op op = driver_op(test, far);

	driver_fail_posts(1, 1, -EINVAL);
	KUNIT_ASSERT_EQ(test, 0,
			fi_inject_atomic(fx->pair->ep[0], op.buf, 1, 0,
					 fx->addr, fx->key, FI_UINT64, FI_MAX));
	op.form = ATOM_BASE;
	op.context = NULL;
	KUNIT_EXPECT_EQ(test, FI_EIO, at_expect_error(test, fx, &op));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(fx->pair->ep[0], FI_WRITE));
	KUNIT_EXPECT_EQ(test, 5, *(u64 *)far);
}

/* A shutdown does not wait for a request that cannot be posted. */
static void driver_refuses_during_a_shutdown(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct rma_fx *fx = driver_open(test, far, NULL);
	struct at_op op = driver_op(test, far);

	driver_fail_posts(1, INT_MAX, -EINVAL);
	KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(fx->pair->ep[0], FI_WRITE));
	/* The entry can be read once fi_shutdown() returned. */
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL,
			fi_cq_read(fx->pair->cq[0], NULL, 0));
	KUNIT_EXPECT_EQ(test, FI_EIO, at_expect_error(test, fx, &op));
	KUNIT_EXPECT_EQ(test, 5, *(u64 *)far);
}

static void driver_refuses_a_counted_operation(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.count = true, .tx_flags = FI_SELECTIVE_COMPLETION,
	};
	u8 *far = tr_buffer(test, LEN);
	struct rma_fx *fx = driver_open(test, far, &opts);
	struct fid_cntr *reads = fx->pair->cntr[0][FX_READS];
	struct at_op op = driver_op(test, far);
	int ret;

	driver_fail_posts(1, 1, -EINVAL);
	KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
	/* An error that is counted before the wait begins does not end it. */
	ret = fi_cntr_wait(reads, 1, 1000);
	KUNIT_EXPECT_TRUE_MSG(test, ret == -FI_EAVAIL || ret == -FI_ETIMEDOUT,
			      "%d", ret);
	for (int ms = 0; ms < FX_WAIT_MS && !fi_cntr_readerr(reads); ms++)
		usleep_range(1000, 2000);
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_read(reads));
	KUNIT_EXPECT_EQ(test, 1, fi_cntr_readerr(reads));
	KUNIT_EXPECT_EQ(test, FI_EIO, at_expect_error(test, fx, &op));
}

/* A request that fails with -ENOMEM is posted again, with and without a reader. */
static void driver_enomem_is_retried(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct rma_fx *fx = driver_open(test, far, NULL);
	struct at_op op = driver_op(test, far);

	driver_fail_posts(1, 10, -ENOMEM);
	KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, 7, *(u64 *)far);
	KUNIT_EXPECT_EQ(test, 5, *(u64 *)op.result);
	/* fi_shutdown() waits until the request was posted, without a reader. */
	*(u64 *)op.buf = 8;
	driver_fail_posts(1, 10, -ENOMEM);
	KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(fx->pair->ep[0], FI_WRITE));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, 8, *(u64 *)far);
}

/* A request that waits to be posted again is flushed before fi_shutdown() returns. */
static void driver_enomem_during_a_shutdown_is_flushed(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct rma_fx *fx = driver_open(test, far, NULL);
	struct at_op op = driver_op(test, far);

	driver_fail_posts(1, 10, -ENOMEM);
	KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(fx->pair->ep[0], 0));
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL,
			fi_cq_read(fx->pair->cq[0], NULL, 0));
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, at_expect_error(test, fx, &op));
	KUNIT_EXPECT_EQ(test, 5, *(u64 *)far);
}

/* A work item posts again while the reader sleeps, and the final error wakes the reader. */
static void driver_refusal_wakes_the_sleeping_reader(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct rma_fx *fx = driver_open(test, far, NULL);
	struct at_op op = driver_op(test, far);
	struct fi_cq_tagged_entry entry;

	driver_fail_posts(1, 5, -ENOMEM);
	driver.last_err = -EINVAL;
	KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL,
			fi_cq_sread(fx->pair->cq[0], &entry, 1, NULL,
				    FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, FI_EIO, at_expect_error(test, fx, &op));
}

/*
 * A refused post leaves no state behind, neither on the fast path that
 * registered memory takes nor on the path that maps memory.
 */
static void driver_refused_posts_leave_no_state(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	u64 *target = (u64 *)far, *source = (u64 *)near;
	struct rma_fx *fx = driver_rma(test, far);
	struct fid_ep *ep = fx->pair->ep[0];
	int depth = fi_tx_size_left(ep);
	struct fid_mr *mr;

	KUNIT_ASSERT_GT(test, depth, 0);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->pair->domain, near, LEN,
					   FI_WRITE, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	for (u64 i = 0; i < REFUSED_ROUNDS; i++) {
		void *desc = i & 1 ? fi_mr_desc(mr) : NULL, *context = near + i % 8;
		/*
		 * The first two rounds refuse more posts than the queue holds,
		 * which stays empty.
		 */
		int refusals = i < 2 ? depth + 1 : i % 3;

		*source = i;
		driver_fail_posts(0, refusals, -ENOMEM);
		while (refusals--)
			KUNIT_ASSERT_EQ(test, -FI_EAGAIN,
					fi_write(ep, near, LEN, desc, 0,
						 fx->addr, fx->key, context));
		KUNIT_ASSERT_EQ(test, 0, fi_write(ep, near, LEN, desc, 0,
						  fx->addr, fx->key, context));
		rma_expect(test, fx, context, FI_WRITE);
		rma_settle(test, fx);
		KUNIT_ASSERT_EQ(test, i, *target);
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->pair->cq[0], NULL, 0));
}

/*
 * The completion is polled from the device after the reader has found the queue
 * empty and before the device arms it: here by fi_shutdown() within req_notify_cq,
 * otherwise by another thread. It raises no interrupt, and yet the reader must wake.
 */
static void cq_16_completion_polled_while_the_queue_is_armed(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct fi_cq_tagged_entry entry;
	struct kofi_pair *pair;

	driver_begin(test);
	pair = fx_pair(test, NULL);
	KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN, NULL, 0, buf));
	WRITE_ONCE(driver.shutdown_ep, pair->ep[1]);
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL,
			fi_cq_sread(pair->cq[1], &entry, 1, NULL, FX_WAIT_MS));
	KUNIT_EXPECT_NULL(test, READ_ONCE(driver.shutdown_ep));
}

/* A failure that the device reports twice has one entry, whichever thread polls it. */
static void cq_07_duplicate_failures_are_reported_once(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	struct kofi_pair *pair;

	driver_begin(test);
	pair = fx_pair(test, NULL);
	for (int i = 0; i < 8; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, 8, NULL, 0,
						 buf + i));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], buf, 8, NULL, 0, buf));
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[1], &entry, 1));
	WRITE_ONCE(driver.duplicates, true);
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	for (int i = 1; i < 8; i++) {
		KUNIT_EXPECT_EQ(test, -FI_EAVAIL,
				fi_cq_read(pair->cq[1], &entry, 1));
		KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(pair->cq[1], &error, 0));
		KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
		KUNIT_EXPECT_PTR_EQ(test, (void *)buf + i, error.op_context);
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[1], &entry, 1));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_readerr(pair->cq[1], &error, 0));
	WRITE_ONCE(driver.duplicates, false);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(driver_refuses_the_first_request),
	KUNIT_CASE(driver_refuses_the_next_request),
	KUNIT_CASE(driver_refuses_an_injected_operation),
	KUNIT_CASE(driver_refuses_during_a_shutdown),
	KUNIT_CASE(driver_refuses_a_counted_operation),
	KUNIT_CASE(driver_enomem_is_retried),
	KUNIT_CASE(driver_enomem_during_a_shutdown_is_flushed),
	KUNIT_CASE(driver_refusal_wakes_the_sleeping_reader),
	KUNIT_CASE(driver_refused_posts_leave_no_state),
	KUNIT_CASE(cq_16_completion_polled_while_the_queue_is_armed),
	KUNIT_CASE(cq_07_duplicate_failures_are_reported_once),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_driver",
	.test_cases = cases,
};

kunit_test_suite(suite);
