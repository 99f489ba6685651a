// SPDX-License-Identifier: GPL-2.0
/*
 * Reclaim safety of connected endpoints: what the calls that connect, register and
 * post allocate, they allocate without starting I/O.
 */

#include <linux/sched/mm.h>
#include <trace/events/kmem.h>

#include "traffic.h"

/* Allocations of one task between start_watch() and stop_watch(). */
static struct {
	struct task_struct	*task;
	atomic_t		all, with_io;
	unsigned long		first;		/* who made the first that may start I/O */
} watch;

static void count(unsigned long call_site, gfp_t flags)
{
	if (READ_ONCE(watch.task) != current || !in_task())
		return;
	atomic_inc(&watch.all);
	if ((current_gfp_context(flags) & __GFP_IO) && atomic_inc_return(&watch.with_io) == 1)
		watch.first = call_site;
}

static void on_kmalloc(void *data, unsigned long call_site, const void *ptr, size_t asked,
		       size_t given, gfp_t flags, int node)
{
	count(call_site, flags);
}

static void on_cache_alloc(void *data, unsigned long call_site, const void *ptr,
			   struct kmem_cache *s, gfp_t flags, int node)
{
	count(call_site, flags);
}

static int noio_init(struct kunit *test)
{
	int ret = register_trace_kmalloc(on_kmalloc, NULL);

	if (ret)
		return ret;
	ret = register_trace_kmem_cache_alloc(on_cache_alloc, NULL);
	if (ret)
		unregister_trace_kmalloc(on_kmalloc, NULL);
	return ret;
}

static void noio_exit(struct kunit *test)
{
	unregister_trace_kmem_cache_alloc(on_cache_alloc, NULL);
	unregister_trace_kmalloc(on_kmalloc, NULL);
	tracepoint_synchronize_unregister();
}

static void start_watch(void)
{
	atomic_set(&watch.all, 0);
	atomic_set(&watch.with_io, 0);
	WRITE_ONCE(watch.task, current);
}

static void stop_watch(struct kunit *test, const char *call)
{
	WRITE_ONCE(watch.task, NULL);
	KUNIT_EXPECT_EQ_MSG(test, 0, atomic_read(&watch.with_io), "%s: the first by %pS", call,
			    (void *)watch.first);
}

/* Makes a call that has to return 0, and expects it to allocate without I/O. */
#define WATCH(test, call) do {					\
	int _ret;						\
								\
	start_watch();						\
	_ret = (call);						\
	stop_watch(test, #call);				\
	KUNIT_ASSERT_EQ_MSG(test, 0, _ret, "%s", #call);	\
} while (0)

static void allocations_are_seen(struct kunit *test)
{
	unsigned int flags;

	start_watch();
	kfree(kmalloc(64, GFP_KERNEL));
	WRITE_ONCE(watch.task, NULL);
	/* Debugging options allocate, too. */
	KUNIT_EXPECT_LE(test, 1, atomic_read(&watch.with_io));
	flags = memalloc_noio_save();
	start_watch();
	kfree(kmalloc(64, GFP_KERNEL));
	stop_watch(test, "kmalloc()");
	memalloc_noio_restore(flags);
	KUNIT_EXPECT_LE(test, 1, atomic_read(&watch.all));
}

/* A consumer's calls from its reconnection until it has moved data. */
static void reconnect_allocates_without_io(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	u8 *data = tr_buffer(test, PAGE_SIZE), *got = tr_buffer(test, 64);
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_tagged_entry entries[2];
	struct fx_cm_event event = {};
	struct fid_ep *ep, *peer;
	struct sockaddr_in6 to;
	size_t to_len = sizeof(to);
	struct fi_info *info;
	struct fid_pep *pep;
	struct fid_cq *cq;
	struct fid_mr *mr;
	struct kvec parts[] = {
		{ .iov_base = data, .iov_len = 1024 },
		{ .iov_base = data + 2048, .iov_len = 1024 },
	};

	pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&pep->fid, &to, &to_len));

	WATCH(test, fi_cq_open(fx->domain, &attr, &cq, NULL));
	KUNIT_EXPECT_GT(test, atomic_read(&watch.all), 0);
	fx_defer_close(test, &cq->fid);
	WATCH(test, fi_endpoint(fx->domain, fx->info, &ep, NULL));
	KUNIT_EXPECT_GT(test, atomic_read(&watch.all), 0);
	fx_defer_close(test, &ep->fid);
	WATCH(test, fi_ep_bind(ep, &fx->eq->fid, 0));
	WATCH(test, fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	WATCH(test, fi_enable(ep));
	WATCH(test, (int)tr_recv(ep, got, 64));
	WATCH(test, fi_connect(ep, &to, NULL, 0));

	info = fx_wait_request(test, fx->eq);
	WATCH(test, fi_endpoint(fx->domain, info, &peer, NULL));
	fx_defer_close(test, &peer->fid);
	WATCH(test, fi_ep_bind(peer, &fx->eq->fid, 0));
	WATCH(test, fi_ep_bind(peer, &cq->fid, FI_TRANSMIT | FI_RECV));
	WATCH(test, fi_accept(peer, NULL, 0));
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_GE(test, fx_wait_event(test, fx->eq, FI_CONNECTED, &event,
						    sizeof(event)), 0);

	WATCH(test, (int)tr_send(peer, data, 64));
	KUNIT_ASSERT_EQ(test, 2, (int)fx_wait_comp(test, cq, entries, 2));
	WATCH(test, fi_mr_reg(fx->domain, data, PAGE_SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0,
			      0, &mr, NULL));
	KUNIT_EXPECT_GT(test, atomic_read(&watch.all), 0);
	WATCH(test, fi_close(&mr->fid));
	WATCH(test, fi_mr_regv(fx->domain, parts, 2, FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL));
	WATCH(test, fi_close(&mr->fid));
	WATCH(test, fi_shutdown(peer, 0));
	fx_cancel_close(test, &peer->fid);
	WATCH(test, fi_close(&peer->fid));
	fx_cancel_close(test, &ep->fid);
	WATCH(test, fi_close(&ep->fid));
	fx_cancel_close(test, &cq->fid);
	WATCH(test, fi_close(&cq->fid));
}

/* The scope ends with the call. */
static void call_leaves_the_task_as_it_was(struct kunit *test)
{
	unsigned int before = current->flags & PF_MEMALLOC_NOIO;
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_cq_attr attr = { .format = 99 };
	struct fid_ep *ep = fx_bound_ep(test, fx);
	struct fid_cq *cq = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_cq_open(fx->domain, &attr, &cq, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
	fx_close(test, &ep->fid);
	KUNIT_EXPECT_EQ(test, before, current->flags & PF_MEMALLOC_NOIO);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(allocations_are_seen),
	KUNIT_CASE(reconnect_allocates_without_io),
	KUNIT_CASE(call_leaves_the_task_as_it_was),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_noio",
	.init = noio_init,
	.exit = noio_exit,
	.test_cases = cases,
};

kunit_test_suite(suite);
