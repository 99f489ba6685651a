// SPDX-License-Identifier: GPL-2.0
/*
 * Tests PEER 4 and 5 of CONTRACT: collective offload providers with incomplete
 * or failing calls, and FI_PEER_TRANSFER operations. collective.c tests a
 * working offload.
 */

#include <rdma/fi_collective.h>
#include <rdma/fi_tagged.h>

#include "peer.h"

#define LEN	64

static struct {
	int				opens;		/* number of open objects */
	int				bind, control;	/* return values of these calls */
	bool				no_object;	/* fi_cq_open() gives no object */
	struct fi_ops			fid_ops;
	struct fid_domain		domain;
	struct fi_ops_domain		ops;
	struct fid_cq			cq;
	struct fid_av			av;
	struct fid_ep			ep;
	struct fi_ops_av		av_ops;
	struct fid_av_set		set;
	u64				set_flags;	/* of the last set that was opened */
	struct fi_ops_cm		cm;
	struct fid_mc			mc;
	struct fi_ops_collective	collective;
	struct fi_ops_transfer_peer	peer, *peer_ops;
	atomic_t			done, failed;
	struct fi_cq_tagged_entry	last;
	struct fi_cq_err_entry		error;
} fake;

static int fake_close(struct fid *fid)
{
	fake.opens--;
	return 0;
}

static int fake_bind(struct fid *fid, struct fid *bfid, u64 flags)
{
	return fake.bind;
}

static int fake_control(struct fid *fid, int command, void *arg)
{
	return fake.control;
}

static int fake_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		   void *context)
{
	struct fi_peer_cq_context *peer = context;

	if (attr->flags != FI_PEER || peer->size < sizeof(*peer) || !peer->cq)
		return -FI_EINVAL;
	if (fake.no_object)
		return 0;
	fake.opens++;
	*cq = &fake.cq;
	return 0;
}

static int fake_av(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
		   void *context)
{
	struct fi_peer_av_context *peer = context;

	if (attr->flags != FI_PEER || peer->size < sizeof(*peer) || !peer->av)
		return -FI_EINVAL;
	fake.opens++;
	*av = &fake.av;
	return 0;
}

static int fake_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set,
		    void *context)
{
	fake.set_flags = attr->flags;
	fake.opens++;
	*set = &fake.set;
	return 0;
}

static int fake_join(struct fid_ep *ep, const void *addr, u64 flags, struct fid_mc **mc,
		     void *context)
{
	fake.opens++;
	*mc = &fake.mc;
	return 0;
}

static ssize_t fake_barrier(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
	return 0;
}

static int fake_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, u64 flags,
		   void *context)
{
	struct fi_peer_transfer_context *peer = context;

	if (flags != FI_PEER_TRANSFER || peer->size < sizeof(*peer) || !peer->ep)
		return -FI_EINVAL;
	peer->peer_ops = fake.peer_ops;
	fake.opens++;
	*ep = &fake.ep;
	return 0;
}

static ssize_t fake_complete(struct fid_ep *ep, struct fi_cq_tagged_entry *buf, fi_addr_t *src_addr)
{
	fake.last = *buf;
	atomic_inc(&fake.done);
	return 0;
}

static ssize_t fake_comperr(struct fid_ep *ep, struct fi_cq_err_entry *buf)
{
	fake.error = *buf;
	atomic_inc(&fake.failed);
	return 0;
}

static void reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.fid_ops = (struct fi_ops){
		.size = sizeof(fake.fid_ops),
		.close = fake_close,
		.bind = fake_bind,
		.control = fake_control,
	};
	fake.ops = (struct fi_ops_domain){
		.size = sizeof(fake.ops),
		.av_open = fake_av,
		.cq_open = fake_cq,
		.endpoint2 = fake_ep,
	};
	fake.domain.fid.fclass = FI_CLASS_DOMAIN;
	fake.domain.ops = &fake.ops;
	fake.cq.fid.ops = &fake.fid_ops;
	fake.av.fid.ops = &fake.fid_ops;
	fake.ep.fid.ops = &fake.fid_ops;
	fake.av_ops = (struct fi_ops_av){ .size = sizeof(fake.av_ops), .av_set = fake_set };
	fake.av.ops = &fake.av_ops;
	fake.set.fid.ops = &fake.fid_ops;
	fake.cm = (struct fi_ops_cm){ .size = sizeof(fake.cm), .join = fake_join };
	fake.ep.cm = &fake.cm;
	fake.mc.fid.ops = &fake.fid_ops;
	fake.collective = (struct fi_ops_collective){
		.size = sizeof(fake.collective),
		.barrier = fake_barrier,
	};
	fake.ep.collective = &fake.collective;
	fake.peer = (struct fi_ops_transfer_peer){
		.size = sizeof(fake.peer),
		.complete = fake_complete,
		.comperr = fake_comperr,
	};
	fake.peer_ops = &fake.peer;
}

static struct kofi_rdm *open_endpoint(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_COLLECTIVE };

	reset();
	return rdm_open(test, &opts);
}

static int import(struct kofi_rdm *rdm)
{
	return fi_import_fid(&rdm->ep->fid, &fake.domain.fid, 0);
}

static void peer_05_incomplete_offloads_are_refused(struct kunit *test)
{
	struct kofi_rdm *rdm = open_endpoint(test);

	/* Each case breaks one call; reset() repairs it, and no object stays open. */
#define REFUSED(ret, wrong) do {					\
	wrong;								\
	KUNIT_EXPECT_EQ_MSG(test, ret, import(rdm), "%s", #wrong);	\
	KUNIT_EXPECT_EQ_MSG(test, 0, fake.opens, "%s", #wrong);		\
	reset();							\
} while (0)

	REFUSED(-FI_ENOSYS, fake.domain.ops = NULL);
	REFUSED(-FI_ENOSYS, fake.ops.size = 0);
	REFUSED(-FI_ENOSYS, fake.ops.size--);
	REFUSED(-FI_ENOSYS, fake.ops.cq_open = NULL);
	REFUSED(-FI_ENOSYS, fake.ops.av_open = NULL);
	REFUSED(-FI_ENOSYS, fake.ops.endpoint2 = NULL);
	REFUSED(-FI_EINVAL, fake.no_object = true);
	REFUSED(-FI_EINVAL, fake.peer_ops = NULL);
	REFUSED(-FI_EINVAL, fake.peer.size--);
	REFUSED(-FI_EINVAL, fake.peer.complete = NULL);
	REFUSED(-FI_EINVAL, fake.peer.comperr = NULL);
	REFUSED(-FI_ENOSYS, fake.fid_ops.bind = NULL);
	REFUSED(-FI_ENOSYS, fake.fid_ops.control = NULL);
	REFUSED(-FI_EIO, fake.bind = -FI_EIO);
	REFUSED(-FI_EIO, fake.control = -FI_EIO);
#undef REFUSED
	KUNIT_EXPECT_EQ(test, 0, import(rdm));
	KUNIT_EXPECT_EQ(test, 3, fake.opens);
	/* The offload implements no collectives. */
	fake.ep.collective = NULL;
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_barrier(rdm->ep, 0, NULL));
	fx_close(test, &rdm->ep->fid);
	KUNIT_EXPECT_EQ(test, 0, fake.opens);
}

static void await(struct kunit *test, atomic_t *count, int wanted)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (atomic_read_acquire(count) < wanted && time_before(jiffies, end))
		usleep_range(100, 500);
	KUNIT_ASSERT_EQ_MSG(test, wanted, atomic_read(count), "transfers reported to the offload");
}

static void peer_04_peer_transfers_complete_at_the_offload(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kvec iov = { in, LEN };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .tag = 5, .context = in };
	struct kofi_rdm *rdm = open_endpoint(test);
	struct fi_cq_tagged_entry entry;

	msg.addr = rdm_addr(test, rdm, rdm);
	KUNIT_ASSERT_EQ(test, 0, import(rdm));
	memset(out, 7, LEN);
	KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(rdm->ep, &msg, FI_PEER_TRANSFER));
	/* A message without FI_PEER_TRANSFER does not match the offload's receive. */
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_tsend(rdm->ep, out, LEN, NULL, msg.addr, 5, out)));
	rdm_expect(test, rdm, out, NULL);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&fake.done));
	iov.iov_base = out;
	msg.context = out;
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_tsendmsg(rdm->ep, &msg, FI_PEER_TRANSFER)));
	await(test, &fake.done, 2);
	KUNIT_EXPECT_MEMEQ(test, out, in, LEN);
	KUNIT_EXPECT_TRUE(test, fake.last.flags & FI_PEER_TRANSFER);
	/* The consumer's queue has no entry of the transfer; its own message is still queued. */
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(rdm->cq, &entry, 1));
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(rdm->ep, in, LEN, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, in));
	rdm_expect(test, rdm, in, NULL);
	/* The offload gets the error completion of a cancelled receive. */
	KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(rdm->ep, &msg, FI_PEER_TRANSFER));
	KUNIT_ASSERT_EQ(test, 0, fi_cancel(&rdm->ep->fid, out));
	await(test, &fake.failed, 1);
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, fake.error.err);
	KUNIT_EXPECT_PTR_EQ(test, out, fake.error.op_context);
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&rdm->ep->fid, out));
	/* Closing the endpoint drops posted transfers without a completion. */
	KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(rdm->ep, &msg, FI_PEER_TRANSFER));
	fx_close(test, &rdm->ep->fid);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&fake.failed));
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&fake.done));
	KUNIT_EXPECT_EQ(test, 0, fake.opens);
}

static int open_set(struct fid_av *av, u64 flags, struct fid_av_set **set)
{
	struct fi_av_set_attr attr = {
		.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL, .flags = flags,
	};

	return fi_av_set(av, &attr, set, NULL);
}

/* A set may name collectives only if the AV has an offload, which implements them for a join. */
static void peer_04_a_set_names_the_collectives_of_the_offload(struct kunit *test)
{
	static const u64 flags[] = {
		FI_BARRIER_SET, FI_BROADCAST_SET, FI_ALLTOALL_SET, FI_ALLREDUCE_SET, FI_ALLGATHER_SET,
		FI_REDUCE_SCATTER_SET, FI_REDUCE_SET, FI_SCATTER_SET, FI_GATHER_SET,
		FI_BARRIER_SET | FI_GATHER_SET,
	};
	struct kofi_rdm *rdm = open_endpoint(test);
	fi_addr_t self = rdm_addr(test, rdm, rdm);
	struct fid_av_set *set = NULL;
	struct fid_mc *mc = NULL;

	for (int i = 0; i < ARRAY_SIZE(flags); i++)
		KUNIT_EXPECT_EQ_MSG(test, -FI_EOPNOTSUPP, open_set(rdm->av, flags[i], &set), "%d", i);
	KUNIT_EXPECT_NULL(test, set);
	KUNIT_ASSERT_EQ(test, 0, import(rdm));
	for (int i = 0; i < ARRAY_SIZE(flags); i++) {
		bool has_it = flags[i] == FI_BARRIER_SET;

		KUNIT_ASSERT_EQ_MSG(test, 0, open_set(rdm->av, flags[i], &set), "%d", i);
		fx_defer_close(test, &set->fid);
		KUNIT_ASSERT_EQ(test, 0, fi_av_set_insert(set, self));
		KUNIT_ASSERT_EQ_MSG(test, has_it ? 0 : -FI_EOPNOTSUPP,
				    fi_join_collective(rdm->ep, FI_ADDR_NOTAVAIL, set, 0, &mc, NULL),
				    "%d", i);
		if (has_it) {
			/* The offload gets the flags of the set. */
			KUNIT_EXPECT_EQ(test, FI_PEER_AV | FI_BARRIER_SET, fake.set_flags);
			KUNIT_EXPECT_EQ(test, 0, fi_close(&mc->fid));
			mc = NULL;
		}
		KUNIT_EXPECT_NULL(test, mc);
		KUNIT_EXPECT_EQ(test, 3, fake.opens);
		fx_close(test, &set->fid);
	}
	/* After the offload is removed, the flags are refused again. */
	fx_close(test, &rdm->ep->fid);
	set = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, open_set(rdm->av, FI_BARRIER_SET, &set));
	KUNIT_EXPECT_NULL(test, set);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(peer_05_incomplete_offloads_are_refused),
	KUNIT_CASE(peer_04_peer_transfers_complete_at_the_offload),
	KUNIT_CASE(peer_04_a_set_names_the_collectives_of_the_offload),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_offload",
	.test_cases = cases,
};

kunit_test_suite(suite);
