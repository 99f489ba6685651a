/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The debugfs file that runs a test, the threads of the two sides, and the line
 * that logs the result. Included once by each module, after loops.h and calls.h.
 */

#ifndef KOFI_BENCH_CONTROL_H
#define KOFI_BENCH_CONTROL_H

#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/kthread.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/uaccess.h>

static char *addr = "";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "numeric address of a device of this machine");

static ushort port = BENCH_PORT;
module_param(port, ushort, 0444);
MODULE_PARM_DESC(port, "port that the server listens on while a test runs");

static char *series = "";
module_param(series, charp, 0444);
MODULE_PARM_DESC(series, "prefix of the names of results");

/*
 * Opens and connects both ends, and posts their receives. Defined by the module.
 * The caller calls pair_close() after an error, too.
 */
static int pair_open(struct bench_pair *pair, struct bench_test *test);
static void pair_close(struct bench_pair *pair);

static struct dentry *bench_dir;
static DEFINE_MUTEX(bench_mutex);

struct bench_thread {
	struct bench_end	*end;
	bool			client;
	int			ret;
	struct completion	exited;
};

static int bench_thread(void *data)
{
	struct bench_thread *thread = data;
	struct bench_test *test = thread->end->side.test;

	/*
	 * Run the soft devices' workers first, in every round. Among threads
	 * of the same priority the order differs from connection to connection,
	 * which changes the result by more than what is measured.
	 */
	set_user_nice(current, MAX_NICE);
	thread->ret = bench_passes(thread->end, thread->client);
	if (thread->ret)
		WRITE_ONCE(test->failed, true);
	kthread_complete_and_exit(&thread->exited, 0);
}

static int bench_start(struct bench_thread *thread, struct bench_end *end,
		       bool client)
{
	struct task_struct *task;

	thread->end = end;
	thread->client = client;
	init_completion(&thread->exited);
	task = kthread_run(bench_thread, thread, KBUILD_MODNAME "/%s",
			   client ? "client" : "server");
	return PTR_ERR_OR_ZERO(task);
}

static int bench_threads(struct bench_pair *pair, struct bench_test *test)
{
	struct bench_thread client, server;
	int ret;

	test->deadline = jiffies + BENCH_TIMEOUT;
	ret = bench_start(&server, &pair->end[BENCH_SERVER], false);
	if (ret)
		return ret;
	ret = bench_start(&client, &pair->end[BENCH_CLIENT], true);
	if (ret) {
		WRITE_ONCE(test->failed, true);
	} else {
		wait_for_completion(&client.exited);
		ret = client.ret;
	}
	/* An idle side checks the deadline, so that both threads end. */
	wait_for_completion(&server.exited);
	/* A side that was cancelled reports the error of the other side. */
	if (!ret || ret == -ECANCELED)
		ret = server.ret ?: ret;
	return ret;
}

/* Returns the shortest duration, which no other thread interrupted, and at least 1. */
static u64 bench_fastest(const u64 *ns, unsigned int laps)
{
	u64 least = U64_MAX;

	for (unsigned int lap = 0; lap < laps; lap++)
		least = min(least, ns[lap]);
	return max(least, 1ULL);
}

static int bench_compare(const void *one, const void *other)
{
	u64 a = *(const u64 *)one, b = *(const u64 *)other;

	return a < b ? -1 : a > b;
}

/* Returns the median, which outliers in either direction do not change. */
static u64 bench_median(u64 *ns, unsigned int laps)
{
	sort(ns, laps, sizeof(*ns), bench_compare, NULL);
	return ns[laps / 2];
}

/* Name, unit and parameters of each kind of test */
static const struct bench_spec {
	const char	*name;
	const char	*unit;
	unsigned int	window;
	unsigned int	slots;
	unsigned int	lap;
} bench_specs[] = {
	[BENCH_LATENCY] = { "lat", "ns", 16, 16, 32 },
	[BENCH_PEERS] = { "peers", "ns", 16, 16, 32 },
	[BENCH_INJECT_LATENCY] = { "inject", "ns", 16, 16, 32 },
	[BENCH_SLEEP_LATENCY] = { "sread", "ns", 16, 16, 32 },
	[BENCH_TASK_LATENCY] = { "task", "ns", 1, 16, 32 },
	[BENCH_CALL_LATENCY] = { "call", "ns", 1, 16, 32 },
	[BENCH_WRITE_LATENCY] = { "write", "ns", 1, 1, 32 },
	[BENCH_READ_LATENCY] = { "read", "ns", 1, 1, 32 },
	[BENCH_FETCH_LATENCY] = { "fetch", "ns", 1, 1, 32 },
	[BENCH_RATE] = { "rate", "msg/s", 64, BENCH_RECV_DEPTH,
			 2 * BENCH_RECV_DEPTH },
	[BENCH_SELECTIVE] = { "select", "msg/s", 64, BENCH_RECV_DEPTH,
			      2 * BENCH_RECV_DEPTH },
	[BENCH_BANDWIDTH] = { "bw", "B/s", 16, 32, 64 },
	[BENCH_LINKS] = { "links", "ns", BENCH_LINKS_WINDOW, 1, 512 },
	[BENCH_REGISTER] = { "reg", "ns", BENCH_REGIONS, 1, 4 * BENCH_REGIONS },
	[BENCH_COST] = { "cost", "ns", BENCH_BURST, BENCH_BURST, BENCH_BURST },
};

/* Returns the parameter that distinguishes a test from others of its kind. */
static unsigned int bench_printed_size(const struct bench_test *test)
{
	switch (test->kind) {
	case BENCH_LINKS:
		return test->links;
	case BENCH_PEERS:
		return test->peers;
	default:
		return test->size;
	}
}

static void bench_print(const struct bench_test *test, const char *name,
			u64 value, const char *unit)
{
	pr_info("impl=%s name=%s%s size=%u value=%llu unit=%s iters=%u\n",
		BENCH_NAME, series, name, bench_printed_size(test), value, unit,
		test->lap * test->laps);
}

static void bench_report_calls(const struct bench_test *test)
{
	static const char * const names[BENCH_CALLS] = {
		[BENCH_SEND] = "send",
		[BENCH_RECV] = "recv",
		[BENCH_INJECT] = "inject",
		[BENCH_WRITE] = "write",
		[BENCH_READ] = "read",
		[BENCH_DONE] = "done",
		[BENCH_EMPTY] = "empty",
	};

	for (int call = 0; call < BENCH_CALLS; call++) {
		u64 ns = bench_median(test->ns + call * test->laps,
				      test->laps);

		bench_print(test, names[call], div_u64(ns, BENCH_BURST), "ns");
	}
}

static void bench_report(const struct bench_test *test)
{
	const struct bench_spec *spec = &bench_specs[test->kind];
	u64 count = test->lap;
	u64 value, ns;

	if (test->kind == BENCH_COST) {
		bench_report_calls(test);
		return;
	}
	ns = bench_fastest(test->ns, test->laps);
	if (test->kind == BENCH_BANDWIDTH)
		count *= test->size;
	/* The latency of a message is half of a round trip. */
	if (test->kind <= BENCH_CALL_LATENCY)
		count *= 2;
	if (!strcmp(spec->unit, "ns"))
		value = div64_u64(ns, count);
	else
		value = mul_u64_u64_div_u64(count, NSEC_PER_SEC, ns);
	bench_print(test, spec->name, value, spec->unit);
}

static int bench_run(struct bench_test *test)
{
	struct bench_pair *pair;
	int ret = -ENOMEM;

	pair = kzalloc_obj(*pair);
	test->ns = kvmalloc_array(test->laps, BENCH_CALLS * sizeof(*test->ns),
				  GFP_KERNEL);
	if (!pair || !test->ns)
		goto out;
	ret = pair_open(pair, test);
	if (!ret && test->kind == BENCH_COST)
		ret = bench_calls(pair, test);
	else if (!ret)
		ret = bench_threads(pair, test);
	pair_close(pair);
	if (ret)
		pr_err("impl=%s size=%u failed: %d\n", BENCH_NAME, test->size,
		       ret);
	else
		bench_report(test);
out:
	kvfree(test->ns);
	kfree(pair);
	return ret;
}

/* Limits the buffer of each side, which is registered as one region. */
static void bench_limit_memory(struct bench_test *test)
{
	while (bench_rx_bytes(test) > BENCH_MAX_BYTES)
		test->slots /= 2;
	while (bench_tx_bytes(test) > BENCH_MAX_BYTES)
		test->window /= 2;
}

static int bench_parse(struct bench_test *test, const char *name,
		       unsigned int iters)
{
	const struct bench_spec *spec = bench_specs;

	while (strcmp(spec->name, name)) {
		if (++spec == bench_specs + ARRAY_SIZE(bench_specs))
			return -EINVAL;
	}
	test->kind = spec - bench_specs;
	test->window = spec->window;
	test->slots = spec->slots;
	test->lap = spec->lap;
	test->links = 1;
	test->peers = 1;
	if (test->kind == BENCH_PEERS) {
		/* The size argument is the number of peers. */
		if (!test->size || test->size > BENCH_MAX_PEERS)
			return -EINVAL;
		test->peers = test->size;
		test->size = BENCH_LINKS_SIZE;
	}
	if (test->kind == BENCH_LINKS) {
		/* The size argument is the number of connections. */
		if (!is_power_of_2(test->size) || test->size > BENCH_MAX_LINKS)
			return -EINVAL;
		test->links = test->size;
		test->size = BENCH_LINKS_SIZE;
	}
	if (test->size < BENCH_MIN_SIZE || test->size > BENCH_MAX_SIZE)
		return -EINVAL;
	if (test->kind == BENCH_REGISTER &&
	    (!IS_ALIGNED(test->size, PAGE_SIZE) ||
	     test->size > BENCH_REGION_PAGES * PAGE_SIZE))
		return -EINVAL;
	test->laps = DIV_ROUND_UP(iters, test->lap);
	if (!test->laps || test->laps > BENCH_MAX_LAPS)
		return -EINVAL;
	bench_limit_memory(test);
	return 0;
}

/* Runs a test, for example "lat 64 20000": kind, size, iterations. Returns when it is complete. */
static ssize_t bench_write(struct file *file, const char __user *from,
			   size_t count, loff_t *pos)
{
	struct bench_test test = {};
	char line[64], name[8];
	unsigned int iters;
	int ret;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;
	line[count] = '\0';
	if (sscanf(line, "%7s %u %u", name, &test.size, &iters) != 3)
		return -EINVAL;
	ret = bench_parse(&test, name, iters);
	if (ret)
		return ret;
	ret = mutex_lock_interruptible(&bench_mutex);
	if (ret)
		return ret;
	ret = bench_run(&test);
	mutex_unlock(&bench_mutex);
	return ret ?: count;
}

static const struct file_operations bench_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = bench_write,
};

static int __init bench_init(void)
{
	bench_dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("run", 0200, bench_dir, NULL, &bench_fops);
	return 0;
}
module_init(bench_init);

static void __exit bench_exit(void)
{
	debugfs_remove(bench_dir);
}
module_exit(bench_exit);

MODULE_LICENSE("GPL");

#endif /* KOFI_BENCH_CONTROL_H */
