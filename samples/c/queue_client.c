// SPDX-License-Identifier: GPL-2.0
/*
 * A client of queue_server_rs: takes one task after another, and brings the
 * results, until there are no more. Several may do so at the same time, from
 * anywhere.
 *
 *	insmod queue_client.ko addr=10.0.0.1 port=7471
 *
 * Its thread ends with a line of results; the module can be unloaded at any
 * time, before that too.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include "connection.h"
#include "grant.h"

#define CAPS	(FI_MSG | FI_RMA | FI_ATOMIC)

/* The region begins with how many tasks have been taken, and are done. */
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

/* The work: mixes the number of a task. */
static u64 result_of(u64 task)
{
	u64 mixed = task + 0x9e3779b97f4a7c15;

	mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
	mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
	return mixed ^ (mixed >> 31);
}

/* One operation at a time: its completion is the next. */
static int finish(struct connection *conn, ssize_t posted)
{
	struct fi_cq_msg_entry done;

	return posted ?: wait_completion_of(conn->tx_cq, &done);
}

/* Adds one to a counter there: what it was before is in the buffer then. */
static int add_one(struct queue *queue, u64 at)
{
	struct connection *conn = queue->conn;
	const u64 one = 1;

	return finish(conn, fi_fetch_atomic(conn->ep, &one, 1, NULL, conn->buf,
					    fi_mr_desc(conn->mr),
					    FI_ADDR_UNSPEC, queue->addr + at,
					    queue->key, FI_UINT64, FI_SUM,
					    NULL));
}

/* Takes a task, if there is one left, and brings its result. */
static int work(struct queue *queue, bool *is_over)
{
	struct connection *conn = queue->conn;
	u64 *word = (u64 *)conn->buf;
	u64 at;
	int ret;

	ret = add_one(queue, TAKEN);
	if (ret)
		return ret;
	*is_over = *word >= (queue->len - RESULTS) / WORD;
	if (*is_over)
		return 0;
	at = RESULTS + *word * WORD;
	*word = result_of(*word);
	ret = finish(conn, fi_write(conn->ep, word, WORD, fi_mr_desc(conn->mr),
				    FI_ADDR_UNSPEC, queue->addr + at,
				    queue->key, NULL));
	/* Behind the result: who sees this one sees that, too. */
	return ret ?: add_one(queue, DONE);
}

static int use(struct connection *conn, uint *tasks)
{
	struct queue queue = { .conn = conn };
	struct grant grant;
	bool is_over = false;
	int ret;

	ret = fi_connect(conn->ep, NULL, NULL, 0);
	if (!ret)
		ret = wait_connected(conn->eq, &grant, sizeof(grant));
	if (ret)
		return ret;
	queue.addr = be64_to_cpu(grant.addr);
	queue.key = be64_to_cpu(grant.key);
	queue.len = be64_to_cpu(grant.len);
	if (queue.len < RESULTS)
		return -FI_EMSGSIZE;
	while (!ret && !is_over) {
		ret = work(&queue, &is_over);
		*tasks += !ret && !is_over;
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
		ret = use(&conn, tasks);
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
MODULE_DESCRIPTION("kOFI sample: client of a queue of work");
MODULE_LICENSE("GPL");
