// SPDX-License-Identifier: GPL-2.0
/*
 * Implements the RMA calls and fixture: see rma.h.
 */

#include "rma.h"

struct rma_fx *rma_open(struct kunit *test, u8 *far, size_t len, u64 access,
			const struct fx_pair_opts *opts)
{
	struct fx_pair_opts all = opts ? *opts : (struct fx_pair_opts){};
	struct rma_fx *fx;
	int ret;

	all.caps |= FI_RMA;
	all.mode |= FI_RX_CQ_DATA;
	fx = kunit_kzalloc(test, sizeof(*fx), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, fx);
	fx->pair = fx_pair(test, &all);
	fx->far = far;
	fx->len = len;
	ret = fi_mr_reg(fx->pair->domain, far, len, access, 0, 0, 0, &fx->mr,
			NULL);
	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_mr_reg: %s", fi_strerror(ret));
	fx_defer_close(test, &fx->mr->fid);
	fx->key = fi_mr_key(fx->mr);
	fx->addr = (uintptr_t)far;
	return fx;
}

static ssize_t read(struct rma_fx *fx, const struct rma_op *op)
{
	return fi_read(fx->pair->ep[0], op->near, op->len, op->desc,
		       0, fx->addr + op->at, fx->key, op->context);
}

static ssize_t write(struct rma_fx *fx, const struct rma_op *op)
{
	return fi_write(fx->pair->ep[0], op->near, op->len, op->desc,
			FI_ADDR_UNSPEC, fx->addr + op->at, fx->key,
			op->context);
}

static ssize_t writedata(struct rma_fx *fx, const struct rma_op *op)
{
	return fi_writedata(fx->pair->ep[0], op->near, op->len, op->desc,
			    RMA_DATA, FI_ADDR_UNSPEC, fx->addr + op->at,
			    fx->key, op->context);
}

static ssize_t inject_write(struct rma_fx *fx, const struct rma_op *op)
{
	return fi_inject_write(fx->pair->ep[0], op->near, op->len,
			       FI_ADDR_UNSPEC, fx->addr + op->at, fx->key);
}

static ssize_t inject_writedata(struct rma_fx *fx, const struct rma_op *op)
{
	return fi_inject_writedata(fx->pair->ep[0], op->near, op->len, RMA_DATA,
				   FI_ADDR_UNSPEC, fx->addr + op->at, fx->key);
}

/* The two halves of a local buffer, as one vector. */
struct halves {
	struct kvec	iov[2];
	void		*desc[2];
	size_t		count;
};

static struct halves halves(const struct rma_op *op)
{
	size_t half = op->len / 2;

	return (struct halves) {
		.iov = {
			{ op->near, half },
			{ op->near + half, op->len - half },
		},
		.desc = { op->desc, op->desc },
		.count = 2,
	};
}

static ssize_t readv(struct rma_fx *fx, const struct rma_op *op)
{
	struct halves local = halves(op);

	return fi_readv(fx->pair->ep[0], local.iov, local.desc, local.count,
			FI_ADDR_UNSPEC, fx->addr + op->at, fx->key,
			op->context);
}

static ssize_t writev(struct rma_fx *fx, const struct rma_op *op)
{
	struct halves local = halves(op);

	return fi_writev(fx->pair->ep[0], local.iov, local.desc, local.count,
			 FI_ADDR_UNSPEC, fx->addr + op->at, fx->key,
			 op->context);
}

static ssize_t by_message(struct rma_fx *fx, const struct rma_op *op, u64 flags,
			  bool is_read)
{
	const struct fi_rma_iov remote = { fx->addr + op->at, op->len,
					   fx->key };
	struct halves local = halves(op);
	const struct fi_msg_rma msg = {
		.msg_iov = local.iov,
		.desc = local.desc,
		.iov_count = local.count,
		.addr = FI_ADDR_UNSPEC,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = op->context,
		.data = RMA_DATA,
	};

	return is_read ? fi_readmsg(fx->pair->ep[0], &msg, flags) :
			 fi_writemsg(fx->pair->ep[0], &msg, flags);
}

static ssize_t readmsg(struct rma_fx *fx, const struct rma_op *op)
{
	return by_message(fx, op, FI_COMPLETION, true);
}

static ssize_t writemsg(struct rma_fx *fx, const struct rma_op *op)
{
	return by_message(fx, op, FI_COMPLETION | FI_INJECT_COMPLETE, false);
}

static ssize_t writemsg_inject(struct rma_fx *fx, const struct rma_op *op)
{
	return by_message(fx, op, FI_INJECT, false);
}

static ssize_t writemsg_data(struct rma_fx *fx, const struct rma_op *op)
{
	return by_message(fx, op, FI_COMPLETION | FI_REMOTE_CQ_DATA, false);
}

static ssize_t writemsg_all(struct rma_fx *fx, const struct rma_op *op)
{
	return by_message(fx, op, FI_INJECT | FI_REMOTE_CQ_DATA | FI_MORE,
			  false);
}

const struct rma_call rma_calls[RMA_CALLS] = {
	{ "fi_read", read, FI_READ },
	{ "fi_readv", readv, FI_READ },
	{ "fi_readmsg", readmsg, FI_READ },
	{ "fi_write", write, FI_WRITE },
	{ "fi_writev", writev, FI_WRITE },
	{ "fi_writemsg", writemsg, FI_WRITE },
	{ "fi_writemsg with FI_INJECT", writemsg_inject, FI_WRITE, true },
	{ "fi_inject_write", inject_write, FI_WRITE, true, true },
	{ "fi_writedata", writedata, FI_WRITE, .brings_data = true },
	{ "fi_writemsg with data", writemsg_data, FI_WRITE, .brings_data = true },
	{ "fi_inject_writedata", inject_writedata, FI_WRITE, true, true, true },
	{ "fi_writemsg, injecting data", writemsg_all, FI_WRITE, true, false, true },
};

static void name_call(const struct rma_call *call, char *name)
{
	strscpy(name, call->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(all_calls, rma_calls, name_call);

const void *rma_calls_gen_params(struct kunit *test, const void *prev,
				 char *desc)
{
	return all_calls_gen_params(test, prev, desc);
}

bool rma_has(const struct rma_fx *fx, const struct rma_call *call)
{
	return !call->brings_data || fx->pair->info->domain_attr->cq_data_size;
}

void rma_expect(struct kunit *test, struct rma_fx *fx, void *context, u64 flag)
{
	struct fi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[0], &entry,
					      1));
	KUNIT_EXPECT_PTR_EQ(test, context, entry.op_context);
	KUNIT_EXPECT_EQ(test, flag | FI_RMA, entry.flags);
	KUNIT_EXPECT_EQ(test, 0, entry.data);
}

void rma_settle(struct kunit *test, struct rma_fx *fx)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	u8 *byte = tr_buffer(test, 1);
	const struct rma_op op = { .near = byte, .len = 1, .context = byte };
	ssize_t ret;

	/* The queue may still be full of earlier posts. */
	while ((ret = read(fx, &op)) == -FI_EAGAIN && time_before(jiffies, end))
		cond_resched();
	KUNIT_ASSERT_EQ(test, 0, ret);
	rma_expect(test, fx, byte, FI_READ);
}
