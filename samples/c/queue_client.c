// SPDX-License-Identifier: GPL-2.0
/*
 * A client of queue_server_rs: takes tasks from the server's queue and writes
 * their results, until the queue is empty. Several clients, on any machine, can
 * use one queue at the same time.
 *
 *	insmod queue_client.ko addr=10.0.0.1 port=7471
 *
 * The client's thread logs the results when it ends. The module can be unloaded
 * at any time.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include "connection.h"
#include "region_info.h"

#define CAPS	(FI_MSG | FI_RMA | FI_ATOMIC)

/* Offsets in the region: the number of tasks taken, the number of tasks done, the results */
#define TAKEN	0
#define DONE	WORD
#define RESULTS	(2 * WORD)

static char *addr;
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of the server, IPv4 or IPv6");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port of the server");

static struct task_struct *thread;

struct queue {
	struct connection *conn;
	u64 addr;
	u64 key;
	u64 len;
};

/* Computes the result of a task: a hash of its number. */
static u64 result_of(u64 task)
{
	u64 mixed = task + 0x9e3779b97f4a7c15;

	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
	return mixed ^ (mixed >> 31);
}

/* Waits for the operation that was just posted; one is outstanding at a time. */
static int wait_transfer(struct connection *conn, ssize_t posted)
{
	struct fi_cq_msg_entry done;

	return posted ?: wait_completion_of(conn->tx_cq, &done);
}

/* Increments the counter at @offset, and fetches its previous value into the buffer. */
static int add_one(struct queue *queue, u64 offset)
{
	struct connection *conn = queue->conn;
	const u64 one = 1;

	return wait_transfer(conn, fi_fetch_atomic(conn->ep, &one, 1, NULL, conn->buf,
						   fi_mr_desc(conn->mr),
						   FI_ADDR_UNSPEC, queue->addr + offset,
						   queue->key, FI_UINT64, FI_SUM,
						   NULL));
}

/* Takes a task and writes its result, or sets @is_empty if no task is left. */
static int run_task(struct queue *queue, bool *is_empty)
{
	struct connection *conn = queue->conn;
	u64 *word = (u64 *)conn->buf;
	u64 offset;
	int ret;

	ret = add_one(queue, TAKEN);
	if (ret)
		return ret;
	*is_empty = *word >= (queue->len - RESULTS) / WORD;
	if (*is_empty)
		return 0;
	offset = RESULTS + *word * WORD;
	*word = result_of(*word);
	ret = wait_transfer(conn, fi_write(conn->ep, word, WORD, fi_mr_desc(conn->mr),
					   FI_ADDR_UNSPEC, queue->addr + offset,
					   queue->key, NULL));
	/* Count the task after its result: a reader of this counter then finds the result. */
	return ret ?: add_one(queue, DONE);
}

static int run_tasks(struct connection *conn, uint *tasks)
{
	struct queue queue = { .conn = conn };
	struct region_info region;
	bool is_empty = false;
	int ret;

	ret = fi_connect(conn->ep, NULL, NULL, 0);
	if (!ret)
		ret = wait_connected(conn->eq, &region, sizeof(region));
	if (ret)
		return ret;
	queue.addr = be64_to_cpu(region.addr);
	queue.key = be64_to_cpu(region.key);
	queue.len = be64_to_cpu(region.len);
	if (queue.len < RESULTS)
		return -FI_EMSGSIZE;
	while (!ret && !is_empty) {
		ret = run_task(&queue, &is_empty);
		*tasks += !ret && !is_empty;
	}
	return ret ?: fi_shutdown(conn->ep, 0);
}

static int run(uint *tasks)
{
	struct fid_fabric *fabric;
	struct connection conn;
	struct fi_info *info;
	int ret;

	ret = find_info(addr, port, 0, CAPS, &info);
	if (ret)
		return ret;
	ret = fi_fabric(info->fabric_attr, &fabric, NULL);
	if (ret)
		goto free_info;
	ret = open_connection(&conn, fabric, info, 1, WORD);
	if (!ret)
		ret = run_tasks(&conn, tasks);
	close_connection(&conn);
	close_fid(&fabric->fid);
free_info:
	fi_freeinfo(info);
	return ret;
}

static int queue_client(void *unused)
{
	uint tasks = 0;
	int ret = run(&tasks);

	if (ret)
		pr_err("%s: %s\n", addr, fi_strerror(ret));
	pr_info("done tasks=%u errors=%d\n", tasks, !!ret);
	return ret;
}

static int __init queue_client_init(void)
{
	if (!addr)
		return -EINVAL;

	thread = run_thread(queue_client);
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit queue_client_exit(void)
{
	kthread_stop_put(thread);
}

module_init(queue_client_init);
module_exit(queue_client_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: client of a task queue");
MODULE_LICENSE("GPL");
