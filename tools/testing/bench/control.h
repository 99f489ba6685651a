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
MODULE_PARM_DESC(port, "port that the first server listens on while a test runs");

static char *series = "";
module_param(series, charp, 0444);
MODULE_PARM_DESC(series, "prefix of the names of results");

/*
 * Opens and connects both ends, and posts their receives. Defined by the module.
 * The caller has set pair->first to the first pair, which is open if it is another
 * one, and calls pair_close() after an error, too, for the first pair last.
 */
static int pair_open(struct bench_pair *pair, struct bench_test *test);
static void pair_close(struct bench_pair *pair);

/* Returns the port of a pair's server. */
static inline unsigned int bench_port(const struct bench_pair *pair)
{
	return port + (pair - pair->first);
}

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

/* Runs the threads of all pairs. Returns the first error of a side. */
static int bench_threads(struct bench_pair *pairs, struct bench_test *test)
{
	unsigned int count = 2 * test->pairs, started = 0, i;
	struct bench_thread *threads;
	int ret = 0;

	threads = kzalloc_objs(*threads, count);
	if (!threads)
		return -ENOMEM;
	test->deadline = jiffies + BENCH_TIMEOUT;
	/* The server of each pair starts before its client. */
	while (!ret && started < count) {
		bool client = started % 2;
		int which = client ? BENCH_CLIENT : BENCH_SERVER;

		ret = bench_start(&threads[started],
				  &pairs[started / 2].end[which], client);
		if (!ret)
			started++;
	}
	if (ret)
		WRITE_ONCE(test->failed, true);
	/* An idle side checks the deadline, so that all threads end. */
	for (i = 0; i < started; i++)
		wait_for_completion(&threads[i].exited);
	/* A side that was cancelled reports the error of another side. */
	for (i = 0; i < started; i++) {
		if (!ret || (ret == -ECANCELED && threads[i].ret))
			ret = threads[i].ret;
	}
	kfree(threads);
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
	[BENCH_REGISTER_PAIRS] = { "regs", "ns", BENCH_REGIONS, 1,
				   4 * BENCH_REGIONS },
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
	case BENCH_REGISTER_PAIRS:
		return test->pairs;
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

/* Returns the time from the first client's start to the last one's end. */
static u64 bench_duration(const struct bench_pair *pairs, unsigned int count)
{
	u64 start = U64_MAX, end = 0;

	for (unsigned int i = 0; i < count; i++) {
		const struct bench_end *client = &pairs[i].end[BENCH_CLIENT];

		start = min(start, client->side.start);
		end = max(end, client->side.end);
	}
	return end - start;
}

/* Logs the time of a registration, while all pairs register. */
static void bench_report_pairs(const struct bench_pair *pairs,
			       const struct bench_test *test)
{
	const struct bench_spec *spec = &bench_specs[test->kind];
	u64 ns = bench_duration(pairs, test->pairs);
	u64 count = (u64)test->pairs * test->lap * test->laps;

	bench_print(test, spec->name, div64_u64(ns, count), spec->unit);
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

/* Opens pairs in their order. The caller closes as many as *@opened. */
static int bench_open(struct bench_pair *pairs, struct bench_test *test,
		      unsigned int *opened)
{
	int ret = 0;

	for (*opened = 0; !ret && *opened < test->pairs; ++*opened) {
		pairs[*opened].first = pairs;
		ret = pair_open(&pairs[*opened], test);
	}
	return ret;
}

/* Runs a test on open pairs, and logs the result. */
static int bench_measure(struct bench_pair *pairs, struct bench_test *test)
{
	int ret;

	if (test->kind == BENCH_COST)
		ret = bench_calls(pairs, test);
	else
		ret = bench_threads(pairs, test);
	if (ret)
		return ret;
	if (test->kind == BENCH_REGISTER_PAIRS)
		bench_report_pairs(pairs, test);
	else
		bench_report(test);
	return 0;
}

static int bench_run(struct bench_test *test)
{
	struct bench_pair *pairs;
	unsigned int opened = 0;
	int ret = -ENOMEM;

	pairs = kvzalloc_objs(*pairs, test->pairs);
	test->ns = kvmalloc_array(test->laps, BENCH_CALLS * sizeof(*test->ns),
				  GFP_KERNEL);
	if (!pairs || !test->ns)
		goto out;
	ret = bench_open(pairs, test, &opened);
	if (!ret)
		ret = bench_measure(pairs, test);
	while (opened)
		pair_close(&pairs[--opened]);
	if (ret)
		pr_err("impl=%s size=%u failed: %d\n", BENCH_NAME,
		       bench_printed_size(test), ret);
out:
	kvfree(test->ns);
	kvfree(pairs);
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
	test->pairs = 1;
	if (test->kind == BENCH_REGISTER_PAIRS) {
		/* The size argument is the number of pairs. */
		if (!test->size || test->size > BENCH_MAX_PAIRS)
			return -EINVAL;
		test->pairs = test->size;
		test->size = BENCH_REGION_PAGES * PAGE_SIZE;
	}
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
	if (bench_registers(test) &&
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
