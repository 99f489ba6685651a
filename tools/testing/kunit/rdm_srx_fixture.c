// SPDX-License-Identifier: GPL-2.0
/* Fixture of the suites of shared datagram receives: see rdm_srx.h. */

#include "rdm_srx.h"

struct fi_info *rs_hints(struct kunit *test)
{
	struct fi_info *hints = rdm_hints(test);

	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	return hints;
}

struct fid_ep *rs_srx(struct kunit *test, struct rs_world *world)
{
	struct fi_peer_srx_context context = { .size = sizeof(context), .srx = world->opts.owner };
	struct fi_rx_attr attr = {
		.size = world->opts.size, .iov_limit = world->opts.iov_limit,
	};
	struct fid_ep *srx;

	if (context.srx)
		attr.op_flags = FI_PEER;
	KUNIT_ASSERT_EQ(test, 0, fi_srx_context(world->domain, &attr, &srx,
						context.srx ? (void *)&context : world));
	fx_defer_close(test, &srx->fid);
	return srx;
}

struct fid_ep *rs_ep(struct kunit *test, struct rs_world *world, int i)
{
	struct fid_ep *ep = fx_ep(test, world->domain, world->info);
	struct kofi_rdm *member = &world->member[i];

	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &member->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &world->tx_cq[i]->fid, FI_TRANSMIT));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &member->cq->fid,
					    FI_RECV | world->opts.rx_flags));
	if (world->cntr[i])
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &world->cntr[i]->fid, FI_RECV));
	return ep;
}

void rs_open_ep(struct kunit *test, struct rs_world *world, int i)
{
	struct kofi_rdm *member = &world->member[i];

	member->ep = rs_ep(test, world, i);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(member->ep, &world->srx->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(member->ep));
	member->name_len = sizeof(member->name);
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&member->ep->fid, &member->name,
					    &member->name_len));
	for (int s = 0; s < world->opts.senders; s++)
		world->to[s][i] = rdm_addr(test, world->sender[s], member);
}

static void open_member(struct kunit *test, struct rs_world *world, int i)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct fi_cntr_attr cntr_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct kofi_rdm *member = &world->member[i];

	member->info = world->info;
	member->fabric = world->fabric;
	member->domain = world->domain;
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(world->domain, &av_attr, &member->av, NULL));
	fx_defer_close(test, &member->av->fid);
	world->tx_cq[i] = fx_cq(test, world->domain, &cq_attr);
	cq_attr.size = world->opts.cq_size;
	member->cq = fx_cq(test, world->domain, &cq_attr);
	if (!world->opts.count)
		return;
	KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(world->domain, &cntr_attr, &world->cntr[i], NULL));
	fx_defer_close(test, &world->cntr[i]->fid);
}

struct rs_world *rs_open(struct kunit *test, const struct rs_opts *opts)
{
	static const struct rs_opts defaults;
	struct rs_world *world = kunit_kzalloc(test, sizeof(*world), GFP_KERNEL);
	struct fi_info *hints = rs_hints(test);

	KUNIT_ASSERT_NOT_NULL(test, world);
	world->opts = *(opts ?: &defaults);
	world->opts.members = world->opts.members ?: 2;
	world->opts.senders = world->opts.senders ?: 1;
	world->opts.size = world->opts.size ?: 16;
	hints->caps |= world->opts.caps;
	world->info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	world->fabric = fx_fabric(test, world->info);
	world->domain = fx_domain(test, world->fabric, world->info);
	world->srx = rs_srx(test, world);
	for (int s = 0; s < world->opts.senders; s++)
		world->sender[s] = rdm_open(test, NULL);
	for (int i = 0; i < world->opts.members; i++) {
		open_member(test, world, i);
		rs_open_ep(test, world, i);
	}
	return world;
}

void rs_post(struct kunit *test, struct rs_world *world, u8 *buf, size_t len, int count)
{
	for (int i = 0; i < count; i++, buf += len)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(world->srx, buf, len, NULL, FI_ADDR_UNSPEC,
						 buf));
}

void rs_send(struct kunit *test, struct rs_world *world, int from, int to, const void *buf,
	     size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, rdm_send(world->sender[from], world->to[from][to], buf, len,
					  (void *)buf));
}

size_t rs_depth(struct rs_world *world)
{
	return world->opts.size - fi_rx_size_left(world->srx);
}
