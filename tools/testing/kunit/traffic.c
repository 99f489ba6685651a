// SPDX-License-Identifier: GPL-2.0
/*
 * Fixture of the suites that transfer data: buffers, messages, threads. See
 * traffic.h.
 */

#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/inetdevice.h>
#include <linux/sched/task.h>
#include <linux/vmalloc.h>
#include <net/addrconf.h>
#include <net/if_inet6.h>

#include "traffic.h"

/* Time to wait for an event that must not arrive. */
#define SILENCE_MS 100

KUNIT_DEFINE_ACTION_WRAPPER(free_vbuffer, vfree, const void *);

u8 *tr_buffer(struct kunit *test, size_t len)
{
	u8 *buf = kunit_kzalloc(test, len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL_MSG(test, buf, "no memory for a buffer");
	return buf;
}

u8 *tr_vbuffer(struct kunit *test, size_t len)
{
	u8 *buf = vzalloc(len);

	KUNIT_ASSERT_NOT_NULL_MSG(test, buf, "no memory for a buffer");
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, free_vbuffer, buf));
	return buf;
}

void tr_fill(u8 *buf, size_t len, u32 seed)
{
	while (len--) {
		seed = seed * 1664525 + 1013904223;
		*buf++ = seed >> 24;
	}
}

bool tr_intact(const u8 *buf, size_t len, u32 seed)
{
	while (len--) {
		seed = seed * 1664525 + 1013904223;
		if (*buf++ != (u8)(seed >> 24))
			return false;
	}
	return true;
}

ssize_t tr_send(struct fid_ep *ep, void *buf, size_t len)
{
	return fi_send(ep, buf, len, NULL, FI_ADDR_UNSPEC, buf);
}

ssize_t tr_recv(struct fid_ep *ep, void *buf, size_t len)
{
	return fi_recv(ep, buf, len, NULL, FI_ADDR_UNSPEC, buf);
}

void tr_exchange(struct kunit *test, struct kofi_pair *pair, int from,
		 u8 *source, u8 *target, size_t len)
{
	static u32 seed;
	u32 this = ++seed;

	tr_fill(source, len, this);
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[!from], target, len));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[from], source, len));
	tr_expect(test, pair->cq[from], source, FI_SEND, 0);
	tr_expect(test, pair->cq[!from], target, FI_RECV, len);
	KUNIT_EXPECT_TRUE_MSG(test, tr_intact(target, len, this),
			      "%zu bytes arrived damaged", len);
}

void tr_expect(struct kunit *test, struct fid_cq *cq, void *context, u64 flag,
	       size_t len)
{
	struct fi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, cq, &entry, 1));
	KUNIT_EXPECT_PTR_EQ(test, context, entry.op_context);
	KUNIT_EXPECT_EQ(test, flag | FI_MSG, entry.flags);
	if (flag == FI_RECV)
		KUNIT_EXPECT_EQ(test, len, entry.len);
}

int tr_read_error(struct kunit *test, struct fid_cq *cq, void *context)
{
	struct fi_cq_err_entry entry = {};

	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, cq, &entry));
	KUNIT_EXPECT_PTR_EQ(test, context, entry.op_context);
	return entry.err;
}

void tr_expect_error(struct kunit *test, struct fid_cq *cq, void *context,
		     int err)
{
	int got = tr_read_error(test, cq, context);

	KUNIT_EXPECT_EQ_MSG(test, err, got, "%s, want %s", fi_strerror(got), fi_strerror(err));
}

ssize_t tr_await(struct fid_cq *cq)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	ssize_t ret;

	do {
		ret = fi_cq_read(cq, NULL, 0);
		if (ret == -FI_EAGAIN)
			fsleep(1000);
	} while (ret == -FI_EAGAIN && time_before(jiffies, deadline));
	return ret;
}

unsigned int tr_read_flushed(struct kunit *test, struct fid_cq *cq)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;
	unsigned int count = 0;

	for (;;) {
		error.err_data_size = 0;
		if (fi_cq_readerr(cq, &error, 0) != 1) {
			/* The other queue of the pair may complete an operation during the flush. */
			if (fi_cq_read(cq, &entry, 1) != 1)
				return count;
		} else if (error.err == FI_ECANCELED) {
			count++;
		} else {
			kunit_info(test, "%s among the flushed", fi_strerror(error.err));
		}
	}
}

void tr_expect_shutdown(struct kunit *test, struct fid_eq *eq,
			struct fid_ep *ep)
{
	struct fx_cm_event event = {};

	KUNIT_ASSERT_LE(test, (int)sizeof(event.entry),
			fx_wait_event(test, eq, FI_SHUTDOWN, &event,
				      sizeof(event)));
	KUNIT_EXPECT_PTR_EQ(test, &ep->fid, event.entry.fid);
}

void tr_expect_shutdowns(struct kunit *test, struct fid_eq *eq,
			 const struct fid_ep *one, const struct fid_ep *other)
{
	unsigned int seen = 0;

	for (int i = 0; i < 2; i++) {
		struct fx_cm_event event = {};

		KUNIT_ASSERT_LE(test, (int)sizeof(event.entry),
				fx_wait_event(test, eq, FI_SHUTDOWN, &event,
					      sizeof(event)));
		seen |= event.entry.fid == &one->fid ? 1 : 0;
		seen |= event.entry.fid == &other->fid ? 2 : 0;
	}
	KUNIT_EXPECT_EQ_MSG(test, 3, seen, "each endpoint has one FI_SHUTDOWN");
}

void tr_expect_silence(struct kunit *test, struct fid_eq *eq)
{
	struct fx_cm_event event = {};
	u32 what = ~0;
	ssize_t ret;

	ret = fi_eq_sread(eq, &what, &event, sizeof(event), SILENCE_MS, 0);
	KUNIT_EXPECT_EQ_MSG(test, -FI_EAGAIN, ret, "event %d came", (int)what);
}

bool tr_is_iwarp(const struct fi_info *info)
{
	return info->ep_attr->protocol == FI_PROTO_IWARP;
}

bool tr_is_loop(const struct fi_info *info)
{
	return info->ep_attr->protocol == FI_PROTO_SHM;
}

void tr_needs_device(struct kunit *test, const struct fi_info *info)
{
	if (tr_is_loop(info))
		kunit_skip(test, "there is no device");
}

static int thread_fn(void *arg)
{
	struct tr_thread *thread = arg;
	int ret = thread->fn(thread);

	complete(&thread->done);
	return ret;
}

static void stop_thread(void *arg)
{
	struct tr_thread *thread = arg;

	kthread_stop_put(thread->task);
}

struct tr_thread *tr_start(struct kunit *test, int cpu,
			   int (*fn)(struct tr_thread *thread), void *arg)
{
	struct tr_thread *thread = (void *)tr_buffer(test, sizeof(*thread));

	thread->fn = fn;
	thread->arg = arg;
	init_completion(&thread->done);
	thread->task = kthread_create(thread_fn, thread, "kofi_kunit");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, thread->task);
	get_task_struct(thread->task);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, stop_thread,
							   thread));
	if (cpu >= 0)
		kthread_bind(thread->task, cpu);
	wake_up_process(thread->task);
	return thread;
}

void tr_stop(struct kunit *test, struct tr_thread *thread)
{
	kunit_release_action(test, stop_thread, thread);
}

void tr_until_asleep(struct kunit *test, struct tr_thread *thread)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (!(READ_ONCE(thread->task->__state) & TASK_INTERRUPTIBLE)) {
		if (completion_done(&thread->done))
			return;
		if (time_after(jiffies, deadline)) {
			kunit_err(test, "waited for a thread to sleep");
			return;
		}
		fsleep(1000);
	}
}

bool tr_join_within(struct kunit *test, struct tr_thread *thread,
		    unsigned int ms)
{
	if (wait_for_completion_timeout(&thread->done, msecs_to_jiffies(ms)))
		return true;
	kunit_err(test, "a thread has not ended after %u ms", ms);
	return false;
}

bool tr_join(struct kunit *test, struct tr_thread *thread)
{
	return tr_join_within(test, thread, FX_WAIT_MS + 1000 * tr_rounds);
}

/* Writes a usable link-local address, if there is one. */
static bool find_link_local(struct net_device *dev, char node[TR_NODE_LEN])
{
	struct inet6_dev *idev = in6_dev_get(dev);
	struct inet6_ifaddr *ifa;
	bool found = false;

	if (!idev)
		return false;
	read_lock_bh(&idev->lock);
	list_for_each_entry(ifa, &idev->addr_list, if_list) {
		if (ifa->scope != IFA_LINK || ifa->flags & IFA_F_TENTATIVE)
			continue;
		snprintf(node, TR_NODE_LEN, "%pI6c%%%d", &ifa->addr, dev->ifindex);
		found = true;
		break;
	}
	read_unlock_bh(&idev->lock);
	in6_dev_put(idev);
	return found;
}

bool tr_link_local(char node[TR_NODE_LEN])
{
	/* Waits while duplicate address detection is running. */
	unsigned long end = jiffies + msecs_to_jiffies(5000);
	struct net_device *dev = ip_dev_find(&init_net, in_aton(fx_addr));
	bool found = false;

	if (!dev)
		return false;
	while (!(dev->flags & IFF_LOOPBACK) && !(found = find_link_local(dev, node)) &&
	       time_before(jiffies, end))
		msleep(20);
	dev_put(dev);
	return found;
}
