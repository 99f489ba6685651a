// SPDX-License-Identifier: GPL-2.0
/*
 * Latency of a tagged message between datagram endpoints of this machine beside many
 * posted receives, or many unexpected messages, that have other tags. A test runs when
 * its name is written to the debugfs file, and logs its result.
 *
 *	echo posted 16000 >/sys/kernel/debug/kofi_entries/run
 */

#define pr_fmt(fmt) "bench: " fmt

#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>

#include <rdma/fi_tagged.h>

#include "table.h"
#include "node.h"

#define CAPS		(FI_TAGGED | FI_LOCAL_COMM)
/* Limits of entries. A context has 16,384 receives, some of which are for the measured messages */
#define MAX_POSTED	16000
#define MAX_UNEXPECTED	50000
/* Unexpected messages of a sender; those of a peer may take 1 MiB, and all together 32 MiB */
#define PER_SENDER	1500
#define LAPS		20
#define LAP		1000
/* Tag of the measured messages; the others have higher ones */
#define MEASURED	7
#define OTHERS		(1ull << 32)
#define TIMEOUT		(30 * HZ)

/* Waits for a completion. */
static int wait_done(struct node *node)
{
	unsigned long deadline = jiffies + TIMEOUT;
	struct fi_cq_msg_entry done;
	ssize_t ret;

	while ((ret = fi_cq_read(node->cq, &done, 1)) == -FI_EAGAIN) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		cond_resched();
	}
	return ret == 1 ? 0 : -EIO;
}

/* Sends a tagged message, and waits for its completion. */
static int send_tagged(struct node *node, u64 tag)
{
	unsigned long deadline = jiffies + TIMEOUT;
	ssize_t ret;

	while ((ret = fi_tsend(node->ep, node->buf, LEN, NULL, node->hub, tag, NULL)) == -FI_EAGAIN) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		/* Drives progress, without a completion to read. */
		fi_cq_read(node->cq, NULL, 0);
		cond_resched();
	}
	return ret ?: wait_done(node);
}

static int receive_tagged(struct node *node, u64 tag)
{
	return fi_trecv(node->ep, node->buf, LEN, NULL, FI_ADDR_UNSPEC, tag, 0, NULL);
}

/* Measures messages from @from to @to, which expects them. Prints the fastest lap. */
static int measure(struct node *from, struct node *to, const char *name, u32 entries)
{
	u64 best = U64_MAX;
	int ret = 0;

	for (int lap = 0; !ret && lap < LAPS; lap++) {
		u64 start = ktime_get_ns();

		for (int i = 0; !ret && i < LAP; i++)
			ret = receive_tagged(to, MEASURED) ?: send_tagged(from, MEASURED) ?:
			      wait_done(to);
		best = min(best, div_u64(ktime_get_ns() - start, LAP));
	}
	if (!ret)
		print_result("rdm", name, entries, best, "ns");
	return ret;
}

/* Opens a hub that can post @receives receives, and senders that have its address. */
static int open_nodes(struct node *nodes, u32 senders, size_t receives)
{
	int ret = 0;

	for (u32 i = 0; !ret && i <= senders; i++) {
		ret = open_objects(&nodes[i], NULL, CAPS, i ? 0 : receives) ?:
		      open_endpoint(&nodes[i]);
	}
	return ret ?: insert_hub(nodes, nodes + 1, senders);
}

static int post_others(struct node *hub, u32 count)
{
	int ret = 0;

	for (u32 i = 0; !ret && i < count; i++)
		ret = receive_tagged(hub, OTHERS + i);
	return ret;
}

static int send_others(struct node *senders, u32 count)
{
	int ret = 0;

	for (u32 i = 0; !ret && i < count; i++)
		ret = send_tagged(&senders[i / PER_SENDER], OTHERS + i);
	return ret;
}

/* Receives the unexpected messages, so that no endpoint is closed with many of them. */
static int receive_others(struct node *hub, u32 count)
{
	int ret = 0;

	for (u32 i = 0; !ret && i < count; i++)
		ret = receive_tagged(hub, OTHERS + i) ?: wait_done(hub);
	return ret;
}

static int run_with_nodes(u32 senders, size_t receives, u32 count,
			  int (*run)(struct node *nodes, u32 count))
{
	struct node *nodes = kvcalloc(1 + senders, sizeof(*nodes), GFP_KERNEL);
	int ret;

	if (!nodes)
		return -ENOMEM;
	ret = open_nodes(nodes, senders, receives) ?: run(nodes, count);
	for (u32 i = 0; i <= senders; i++)
		close_node(&nodes[i]);
	kvfree(nodes);
	return ret;
}

static int run_posted(struct node *nodes, u32 count)
{
	return post_others(&nodes[0], count) ?:
	       measure(&nodes[1], &nodes[0], "rdm_posted", count);
}

static int bench_posted(u32 count)
{
	if (!count || count > MAX_POSTED)
		return -EINVAL;
	return run_with_nodes(1, count + 8, count, run_posted);
}

static int run_unexpected(struct node *nodes, u32 count)
{
	return send_others(nodes + 1, count) ?:
	       measure(&nodes[1], &nodes[0], "rdm_unexp", count) ?:
	       receive_others(&nodes[0], count);
}

static int bench_unexpected(u32 count)
{
	if (!count || count > MAX_UNEXPECTED)
		return -EINVAL;
	return run_with_nodes(DIV_ROUND_UP(count, PER_SENDER), 0, count, run_unexpected);
}

static const struct bench benches[] = {
	{ "posted", bench_posted },		/* number of posted receives */
	{ "unexpected", bench_unexpected },	/* number of unexpected messages */
	{}
};

static int __init entries_init(void)
{
	bench_add_file(benches);
	return 0;
}
module_init(entries_init);

static void __exit entries_exit(void)
{
	bench_remove_file();
}
module_exit(entries_exit);

MODULE_DESCRIPTION("Cost of posted receives and unexpected messages of kOFI's datagram endpoints");
MODULE_LICENSE("GPL");
