// SPDX-License-Identifier: GPL-2.0
/*
 * Cost of address vectors, poll sets and wait sets. A test runs when its name is
 * written to the debugfs file, and logs its results. user/fi_vectors.c measures
 * libfabric with the same addresses.
 *
 *	echo vector 1000000 >/sys/kernel/debug/kofi_sets/run
 */

#define pr_fmt(fmt) "bench: " fmt

#include <linux/completion.h>
#include <linux/in.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "table.h"

#define MAX_PEERS	4000000
#define MAX_MEMBERS	4096
#define BATCH		64
#define THREADS		4
#define BASE		0x0a000000	/* 10.0.0.0 */

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;

/* Logs the average time of @count operations since @start. */
static void print_average(const char *impl, const char *name, u32 size, u64 start,
			  u64 count)
{
	print_result(impl, name, size, div64_u64(ktime_get_ns() - start, count), "ns");
}

static void fill(struct sockaddr_in *peers, u32 from, u32 count)
{
	for (u32 i = 0; i < count; i++)
		peers[i] = (struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_port = htons(7471),
			.sin_addr.s_addr = htonl(BASE + from + i),
		};
}

static int open_av(struct fid_av **av)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };

	return fi_av_open(domain, &attr, av, NULL);
}

/* Returns an index in an order other than that of insertion, so that caches have less effect. */
static u32 permute(u32 i, u32 count)
{
	return (u64)i * 7919 % count;
}

/* Measures the insertion of all addresses, their memory, lookups, and inserting duplicates. */
static int bench_at_once(struct sockaddr_in *peers, u32 count)
{
	struct sockaddr_in found;
	size_t len = sizeof(found);
	u64 start, before;
	struct fid_av *av;
	int ret;

	ret = open_av(&av);
	if (ret)
		return ret;
	before = free_bytes();
	start = ktime_get_ns();
	ret = fi_av_insert(av, peers, count, NULL, 0, NULL);
	print_average("kofi", "insert", count, start, count);
	print_result("kofi", "bytes", count, div_u64(before - free_bytes(), count), "B");
	if (ret != count)
		goto close;

	start = ktime_get_ns();
	for (u32 i = 0; i < count; i++)
		if (fi_av_lookup(av, permute(i, count), &found, &len)) {
			ret = -EIO;
			goto close;
		}
	print_average("kofi", "lookup", count, start, count);
	/* Duplicates are found by their addresses. */
	start = ktime_get_ns();
	ret = fi_av_insert(av, peers, count, NULL, 0, NULL);
	print_average("kofi", "again", count, start, count);
close:
	return fi_close(&av->fid) ?: ret == count ? 0 : -EIO;
}

/* Measures insertions of BATCH addresses, and the removal of single addresses. */
static int bench_in_batches(struct sockaddr_in *peers, u32 count)
{
	struct fid_av *av;
	int ret = 0;
	u64 start;

	ret = open_av(&av);
	if (ret)
		return ret;
	start = ktime_get_ns();
	for (u32 i = 0; i + BATCH <= count; i += BATCH)
		if (fi_av_insert(av, peers + i, BATCH, NULL, 0, NULL) != BATCH)
			ret = -EIO;
	print_average("kofi", "batch", BATCH, start, count);
	start = ktime_get_ns();
	for (u32 i = 0; i + BATCH <= count; i++) {
		fi_addr_t handle = i;

		ret = ret ?: fi_av_remove(av, &handle, 1, 0);
	}
	print_average("kofi", "remove", count, start, count);
	return fi_close(&av->fid) ?: ret;
}

struct worker {
	struct fid_av		*av;
	struct sockaddr_in	*peers;
	u32			count;
	int			ret;
	struct completion	done;
};

static int insert_and_look_up(void *data)
{
	struct worker *worker = data;
	struct sockaddr_in found;
	size_t len = sizeof(found);
	fi_addr_t handle;

	for (u32 i = 0; i < worker->count && !worker->ret; i++) {
		if (fi_av_insert(worker->av, worker->peers + i, 1, &handle, 0,
				 NULL) != 1)
			worker->ret = -EIO;
		else
			worker->ret = fi_av_lookup(worker->av, handle, &found,
						   &len);
		if (!(i % 1024))
			cond_resched();
	}
	complete(&worker->done);
	return 0;
}

static int bench_threads(struct sockaddr_in *peers, u32 count)
{
	struct worker worker[THREADS] = {};
	u64 start = ktime_get_ns();
	struct fid_av *av;
	int ret;

	ret = open_av(&av);
	if (ret)
		return ret;
	for (int i = 0; i < THREADS; i++) {
		struct task_struct *task;

		worker[i].av = av;
		worker[i].count = count / THREADS;
		worker[i].peers = peers + i * worker[i].count;
		init_completion(&worker[i].done);
		task = kthread_run(insert_and_look_up, &worker[i], "bench/%d", i);
		if (IS_ERR(task)) {
			worker[i].ret = PTR_ERR(task);
			complete(&worker[i].done);
		}
	}
	for (int i = 0; i < THREADS; i++) {
		wait_for_completion(&worker[i].done);
		ret = ret ?: worker[i].ret;
	}
	print_average("kofi", "threads", THREADS, start, count);
	return fi_close(&av->fid) ?: ret;
}

static int bench_vector(u32 count)
{
	struct sockaddr_in *peers;
	int ret;

	if (count < BATCH || count > MAX_PEERS)
		return -EINVAL;
	peers = vmalloc_array(count, sizeof(*peers));
	if (!peers)
		return -ENOMEM;
	fill(peers, 1, count);
	ret = bench_at_once(peers, count) ?: bench_in_batches(peers, count) ?:
	      bench_threads(peers, count);
	vfree(peers);
	return ret;
}

/* Baseline of a lookup: a copy out of an array. */
static noinline int array_lookup(struct sockaddr_in *array, u32 count, u64 index,
				 void *to, size_t *len)
{
	if (index >= count)
		return -EINVAL;
	memcpy(to, array + index, sizeof(*array));
	*len = sizeof(*array);
	return 0;
}

/* Called through a pointer, as fi_av_lookup() is, so that the compiler does not inline it. */
static int (*array_ops)(struct sockaddr_in *array, u32 count, u64 index,
			void *to, size_t *len) = array_lookup;

static int bench_lookups(u32 laps)
{
	struct sockaddr_in peers[BATCH], found;
	size_t len = sizeof(found);
	struct fid_av *av;
	u64 start;
	int ret;

	if (laps < BATCH)
		return -EINVAL;
	fill(peers, 1, BATCH);
	ret = open_av(&av);
	if (ret)
		return ret;
	if (fi_av_insert(av, peers, BATCH, NULL, 0, NULL) != BATCH)
		ret = -EIO;
	start = ktime_get_ns();
	for (u32 i = 0; i < laps; i++)
		ret |= fi_av_lookup(av, i % BATCH, &found, &len);
	print_average("kofi", "handle", BATCH, start, laps);
	start = ktime_get_ns();
	for (u32 i = 0; i < laps; i++)
		ret |= READ_ONCE(array_ops)(peers, BATCH, i % BATCH,
					    &found, &len);
	print_average("raw", "handle", BATCH, start, laps);
	return fi_close(&av->fid) ?: ret;
}

/* Changes one of many counters, and finds it with a poll set, or by reading all counters. */
static int poll_members(struct fid_poll *set, struct fid_cntr **cntr,
			u32 members, u32 laps)
{
	u64 *seen = kvcalloc(members, sizeof(*seen), GFP_KERNEL), start;
	void *found;
	int ret = 0;

	if (!seen)
		return -ENOMEM;
	start = ktime_get_ns();
	for (u32 i = 0; i < laps; i++) {
		fi_cntr_add(cntr[i % members], 1);
		if (fi_poll(set, &found, 1) != 1)
			ret = -EIO;
	}
	print_average("kofi", "poll", members, start, laps);
	for (u32 at = 0; at < members; at++)
		seen[at] = fi_cntr_read(cntr[at]);
	start = ktime_get_ns();
	for (u32 i = 0; i < laps; i++) {
		u32 changed = 0;

		fi_cntr_add(cntr[i % members], 1);
		for (u32 at = 0; at < members; at++) {
			u64 now = fi_cntr_read(cntr[at]);

			changed += now != seen[at];
			seen[at] = now;
		}
		if (changed != 1)
			ret = -EIO;
	}
	print_average("raw", "poll", members, start, laps);
	kvfree(seen);
	return ret;
}

static int bench_poll(u32 members)
{
	struct fi_cntr_attr cntr_attr = { .wait_obj = FI_WAIT_NONE };
	struct fi_poll_attr attr = {};
	struct fid_cntr **cntr;
	struct fid_poll *set;
	u32 opened = 0;
	void *found;
	int ret;

	if (!members || members > MAX_MEMBERS)
		return -EINVAL;
	cntr = kvcalloc(members, sizeof(*cntr), GFP_KERNEL);
	if (!cntr)
		return -ENOMEM;
	ret = fi_poll_open(domain, &attr, &set);
	if (ret)
		goto free;
	while (!ret && opened < members) {
		ret = fi_cntr_open(domain, &cntr_attr, cntr + opened, NULL);
		if (!ret)
			ret = fi_poll_add(set, &cntr[opened++]->fid, 0);
	}
	/* The first poll reads all counters. */
	if (!ret && fi_poll(set, &found, 1))
		ret = -EIO;
	ret = ret ?: poll_members(set, cntr, members, 20000);
	while (opened--) {
		fi_poll_del(set, &cntr[opened]->fid, 0);
		fi_close(&cntr[opened]->fid);
	}
	ret = fi_close(&set->fid) ?: ret;
free:
	kvfree(cntr);
	return ret;
}

/* A thread that wakes the other and waits for it, by a wait queue or by a wait set */
struct side {
	struct side		*other;
	wait_queue_head_t	queue;
	atomic_t		count;
	struct fid_wait		*set;
	struct fid_cntr		*cntr;
	u32			laps;
	bool			first;
	int			ret;
	struct completion	done;
};

static void wake_other(struct side *side)
{
	atomic_inc(&side->other->count);
	wake_up(&side->other->queue);
}

static int wait_queue_thread(void *data)
{
	struct side *side = data;

	if (side->first)
		wake_other(side);
	for (u32 i = 1; i <= side->laps; i++) {
		if (!wait_event_interruptible_timeout(side->queue,
						      atomic_read(&side->count) >= i,
						      10 * HZ)) {
			side->ret = -ETIMEDOUT;
			break;
		}
		if (!side->first || i < side->laps)
			wake_other(side);
	}
	complete(&side->done);
	return 0;
}

static int wait_set_thread(void *data)
{
	struct side *side = data;
	struct fid *from;

	if (side->first)
		fi_cntr_add(side->other->cntr, 1);
	for (u32 i = 1; i <= side->laps; i++) {
		if (fi_waitfrom(side->set, &from, 1, 10000) != 1) {
			side->ret = -ETIMEDOUT;
			break;
		}
		if (!side->first || i < side->laps)
			fi_cntr_add(side->other->cntr, 1);
	}
	complete(&side->done);
	return 0;
}

static int run_threads(const char *impl, int (*fn)(void *data), struct side *side,
		       u32 laps)
{
	struct task_struct *task[2];
	u64 start;
	int cpu = 0;

	for (int i = 0; i < 2; i++) {
		side[i].other = &side[!i];
		side[i].laps = laps;
		side[i].first = i == 1;
		side[i].ret = 0;
		atomic_set(&side[i].count, 0);
		init_waitqueue_head(&side[i].queue);
		init_completion(&side[i].done);
		task[i] = kthread_create(fn, &side[i], "bench/%d", i);
		if (IS_ERR(task[i])) {
			if (i)
				kthread_stop(task[0]);
			return PTR_ERR(task[i]);
		}
		cpu = cpumask_next_wrap(cpu, cpu_online_mask);
		kthread_bind(task[i], cpu);
	}
	start = ktime_get_ns();
	for (int i = 0; i < 2; i++)
		wake_up_process(task[i]);
	for (int i = 0; i < 2; i++)
		wait_for_completion(&side[i].done);
	/* Each lap is a round trip. */
	print_average(impl, "wait", 1, start, 2 * laps);
	return side[0].ret ?: side[1].ret;
}

static int bench_wait(u32 laps)
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct side *side = kcalloc(2, sizeof(*side), GFP_KERNEL);
	int ret = 0, opened = 0;

	if (!side)
		return -ENOMEM;
	if (!laps)
		ret = -EINVAL;
	while (!ret && opened < 2) {
		struct fi_cntr_attr cntr_attr = { .wait_obj = FI_WAIT_SET };
		struct side *one = &side[opened];

		ret = fi_wait_open(fabric, &attr, &one->set);
		if (ret)
			break;
		cntr_attr.wait_set = one->set;
		ret = fi_cntr_open(domain, &cntr_attr, &one->cntr, NULL);
		if (ret)
			fi_close(&one->set->fid);
		else
			opened++;
	}
	ret = ret ?: run_threads("raw", wait_queue_thread, side, laps);
	ret = ret ?: run_threads("kofi", wait_set_thread, side, laps);
	while (opened--) {
		fi_close(&side[opened].cntr->fid);
		fi_close(&side[opened].set->fid);
	}
	kfree(side);
	return ret;
}

static const struct bench benches[] = {
	{ "vector", bench_vector },	/* number of addresses */
	{ "lookups", bench_lookups },	/* number of lookups */
	{ "poll", bench_poll },		/* number of members */
	{ "wait", bench_wait },		/* number of round trips */
	{}
};

static int __init sets_init(void)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -ENOMEM;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = ~0;
	hints->mode = ~0ULL;
	ret = fi_getinfo(FI_VERSION(1, 17), addr, NULL, FI_SOURCE, hints, &info);
	fi_freeinfo(hints);
	if (ret)
		return -ENODEV;
	ret = fi_fabric(info->fabric_attr, &fabric, NULL);
	if (ret)
		goto free;
	ret = fi_domain(fabric, info, &domain, NULL);
	if (ret)
		goto close;
	bench_add_file(benches);
	return 0;
close:
	fi_close(&fabric->fid);
free:
	fi_freeinfo(info);
	return -ENODEV;
}
module_init(sets_init);

static void __exit sets_exit(void)
{
	bench_remove_file();
	fi_close(&domain->fid);
	fi_close(&fabric->fid);
	fi_freeinfo(info);
}
module_exit(sets_exit);

MODULE_DESCRIPTION("Cost of kOFI's address vectors, poll sets and wait sets");
MODULE_LICENSE("GPL");
