// SPDX-License-Identifier: GPL-2.0
/*
 * Fixture of the suites of shared receives: see srx.h.
 */

#include "srx.h"

static const struct sx_opts defaults;

static struct fi_info *info_for(struct kunit *test, const struct sx_opts *opts,
				size_t rx_ctx_cnt)
{
	struct fi_info *hints = fx_hints(test);

	opts = opts ?: &defaults;
	hints->caps |= opts->caps;
	hints->mode = opts->mode;
	fx_set_threading(hints, opts->threading);
	hints->ep_attr->rx_ctx_cnt = rx_ctx_cnt;
	return fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
}

struct fi_info *sx_info(struct kunit *test, const struct sx_opts *opts)
{
	return info_for(test, opts, FI_SHARED_CONTEXT);
}

struct fid_ep *sx_srx(struct kunit *test, struct sx_world *world)
{
	struct fi_rx_attr attr = {
		.size = world->opts.size ?: 16,
		.iov_limit = world->opts.segments ?: 1,
	};
	struct fid_ep *srx;

	KUNIT_ASSERT_EQ(test, 0,
			fi_srx_context(world->domain, &attr, &srx, world));
	fx_defer_close(test, &srx->fid);
	return srx;
}

struct sx_world *sx_open(struct kunit *test, const struct sx_opts *opts)
{
	struct sx_world *world = kunit_kzalloc(test, sizeof(*world), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, world);
	world->opts = *(opts ?: &defaults);
	world->info = sx_info(test, opts);
	world->plain = info_for(test, opts, 0);
	world->fabric = fx_fabric(test, world->info);
	world->domain = fx_domain(test, world->fabric, world->info);
	world->eq = fx_eq(test, world->fabric);
	if (world->opts.count) {
		struct fi_cntr_attr attr = {};

		KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(world->domain, &attr,
						      &world->cntr, NULL));
		fx_defer_close(test, &world->cntr->fid);
	}
	world->srx = sx_srx(test, world);
	world->pep = fx_listen(test, world->fabric, world->info, world->eq);
	for (unsigned int i = 0; i < world->opts.peers; i++)
		sx_connect(test, world, i);
	return world;
}

struct fid_ep *sx_ep(struct kunit *test, struct sx_world *world,
		     struct fi_info *info, struct fid_cq *cq)
{
	struct fid_ep *ep = fx_ep(test, world->domain, info);

	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &world->eq->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &cq->fid, FI_TRANSMIT));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &cq->fid,
					    FI_RECV | world->opts.rx_flags));
	return ep;
}

void sx_connect(struct kunit *test, struct sx_world *world, unsigned int i)
{
	struct fi_cq_attr attr = {
		.size = world->opts.cq_size,
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct fi_info *request;

	if (!world->cq[i]) {
		world->cq[i] = fx_cq(test, world->domain, &attr);
		attr.size = 0;
		world->peer_cq[i] = fx_cq(test, world->domain, &attr);
	}
	world->peer[i] = sx_ep(test, world, world->plain, world->peer_cq[i]);
	fx_start_connect(test, world->peer[i], world->pep);
	request = fx_wait_request(test, world->eq);
	KUNIT_ASSERT_EQ(test, FI_SHARED_CONTEXT, request->ep_attr->rx_ctx_cnt);
	world->ep[i] = sx_ep(test, world, request, world->cq[i]);
	KUNIT_ASSERT_EQ(test, 0,
			fi_ep_bind(world->ep[i], &world->srx->fid, 0));
	if (world->cntr)
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(world->ep[i],
						    &world->cntr->fid, FI_RECV));
	fx_finish_accept(test, world->ep[i], world->eq);
}

void sx_post(struct kunit *test, struct sx_world *world, u8 *buf, int count)
{
	for (int i = 0; i < count; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(world->srx, buf + i * SX_LEN,
						 SX_LEN));
}

ssize_t sx_recvmsg(struct fid_ep *srx, u64 flags, void *context)
{
	const struct fi_msg msg = { .context = context };

	return fi_recvmsg(srx, &msg, flags);
}

int sx_read_rest(struct kunit *test, struct sx_world *world, unsigned int i,
		 void **contexts, int space)
{
	struct fi_cq_tagged_entry entry;
	int count = 0;

	while (count < space && fi_cq_read(world->cq[i], &entry, 1) == 1) {
		KUNIT_EXPECT_TRUE(test, entry.flags & FI_RECV);
		contexts[count++] = entry.op_context;
	}
	/* A device's unread completions are dropped with their endpoint. */
	if (!tr_is_loop(world->info))
		KUNIT_EXPECT_EQ(test, 0, count);
	return count;
}

void sx_send(struct kunit *test, struct sx_world *world, unsigned int i,
	     void *buf, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, tr_send(world->peer[i], buf, len));
	tr_expect(test, world->peer_cq[i], buf, FI_SEND, 0);
}
