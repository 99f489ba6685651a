// SPDX-License-Identifier: GPL-2.0
/*
 * A client of mem_server: writes all of the region that it is lent, reads it
 * back, changes words of it atomically where the device can, and asks for the
 * server's sum, which has to be its own.
 *
 *	insmod mem_client.ko addr=10.0.0.1 port=7471 count=10
 *
 * Its thread ends with a line of results; the module can be unloaded at any
 * time, before that too.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/crc32.h>
#include <linux/module.h>
#include <linux/unaligned.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include "connection.h"
#include "grant.h"

/* What goes beside a write, and asks for the sum. */
#define QUESTION	1
/* Elements that are changed by one operation. */
#define FEW		3

static char *addr;
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of the server, IPv4 or IPv6");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port of the server");

static uint count = 10;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "rounds");

static struct task_struct *thread;

/* The region of the server's, and two of ours: what it has, and what is read. */
struct memory {
	u64 addr;
	u64 key;
	u64 caps;
	size_t len;
	u8 *mine;
	u8 *back;
	struct fid_mr *mr;
	void *desc;
};

struct result {
	uint rounds;
	uint errors;
};

static int open_memory(struct connection *conn, struct memory *memory,
		       const struct grant *grant)
{
	int ret;

	memory->addr = be64_to_cpu(grant->addr);
	memory->key = be64_to_cpu(grant->key);
	memory->caps = be64_to_cpu(grant->caps);
	memory->len = be64_to_cpu(grant->len);
	if (memory->len < 64 || memory->len > SZ_16M)
		return -FI_EMSGSIZE;
	memory->mine = kvzalloc(2 * memory->len, GFP_KERNEL);
	if (!memory->mine)
		return -FI_ENOMEM;
	memory->back = memory->mine + memory->len;
	/* Registered once, it need not be mapped for each transfer. */
	ret = fi_mr_reg(conn->domain, memory->mine, 2 * memory->len,
			FI_READ | FI_WRITE, 0, 0, 0, &memory->mr, NULL);
	if (!ret)
		memory->desc = fi_mr_desc(memory->mr);
	return ret;
}

static void close_memory(struct memory *memory)
{
	if (memory->mr)
		close_fid(&memory->mr->fid);
	kvfree(memory->mine);
}

/* One transfer at a time: its completion is the next. */
static int finish(struct connection *conn, int posted)
{
	struct fi_cq_msg_entry done;

	return posted ?: wait_completion_of(conn->tx_cq, &done);
}

static int read_back(struct connection *conn, struct memory *memory)
{
	memset(memory->back, 0, memory->len);
	return finish(conn, fi_read(conn->ep, memory->back, memory->len,
				    memory->desc, FI_ADDR_UNSPEC, memory->addr,
				    memory->key, NULL));
}

static int fetch(struct connection *conn, struct memory *memory,
		 const void *operands, size_t elements,
		 enum fi_datatype datatype, enum fi_op op)
{
	return finish(conn, fi_fetch_atomic(conn->ep, operands, elements, NULL,
					    memory->back, memory->desc,
					    FI_ADDR_UNSPEC, memory->addr,
					    memory->key, datatype, op, NULL));
}

/* Changes the first bytes there, and here as they should be there then. */
static int change(struct connection *conn, struct memory *memory, uint *errors)
{
	u64 *old = (u64 *)memory->back, *mine = (u64 *)memory->mine;
	const u64 before = *mine, one = 1, after = before + 1;
	const u16 bits[FEW] = { 0x1234, 0x5678, 0x9abc };
	int ret;

	/* These are the device's own, ... */
	ret = fetch(conn, memory, &one, 1, FI_UINT64, FI_SUM);
	if (ret)
		return ret;
	*errors += *old != before;
	ret = finish(conn, fi_compare_atomic(conn->ep, &before, 1, NULL,
					     &after, NULL, old, memory->desc,
					     FI_ADDR_UNSPEC, memory->addr,
					     memory->key, FI_UINT64, FI_CSWAP,
					     NULL));
	if (ret)
		return ret;
	*errors += *old != after;
	/* ... and this one takes several requests, which nobody sees. */
	ret = fetch(conn, memory, bits, FEW, FI_UINT16, FI_BXOR);
	if (ret)
		return ret;
	*errors += memcmp(old, mine, sizeof(bits)) != 0;
	for (int i = 0; i < FEW; i++)
		((u16 *)mine)[i] ^= bits[i];
	return 0;
}

/* Asks for the sum of the region, beside a write of its first word if it can. */
static int ask(struct connection *conn, struct memory *memory, bool has_data,
	       u32 *sum)
{
	struct fi_cq_msg_entry answer;
	char *in = conn->buf, *out = conn->buf + WORD;
	void *desc = fi_mr_desc(conn->mr);
	int ret;

	ret = fi_recv(conn->ep, in, WORD, desc, FI_ADDR_UNSPEC, NULL);
	if (ret)
		return ret;
	if (has_data)
		ret = fi_writedata(conn->ep, memory->mine, WORD, memory->desc,
				   QUESTION, FI_ADDR_UNSPEC, memory->addr,
				   memory->key, NULL);
	else
		ret = fi_send(conn->ep, out, WORD, desc, FI_ADDR_UNSPEC, NULL);
	ret = finish(conn, ret) ?: wait_completion_of(conn->rx_cq, &answer);
	*sum = get_unaligned_be32(in);
	return ret;
}

static int go_round(struct connection *conn, struct memory *memory,
		    bool has_data, struct result *result)
{
	u32 sum;
	int ret;

	for (size_t i = 0; i < memory->len; i++)
		memory->mine[i] = result->rounds * 31 + i;
	ret = finish(conn, fi_write(conn->ep, memory->mine, memory->len,
				    memory->desc, FI_ADDR_UNSPEC, memory->addr,
				    memory->key, NULL));
	if (!ret)
		ret = read_back(conn, memory);
	if (ret)
		return ret;
	result->errors += memcmp(memory->mine, memory->back, memory->len) != 0;
	if (memory->caps & FI_ATOMIC)
		ret = change(conn, memory, &result->errors);
	if (!ret)
		ret = ask(conn, memory, has_data, &sum);
	if (ret)
		return ret;
	result->errors += sum != ~crc32_le(~0, memory->mine, memory->len);
	result->rounds++;
	return 0;
}

static int use(struct connection *conn, struct memory *memory,
	       const struct fi_info *info, struct result *result)
{
	const bool has_data = info->domain_attr->cq_data_size;
	struct grant grant;
	int ret;

	ret = fi_connect(conn->ep, NULL, NULL, 0);
	if (!ret)
		ret = wait_connected(conn->eq, &grant, sizeof(grant));
	if (!ret)
		ret = open_memory(conn, memory, &grant);
	/* What both ends have. */
	memory->caps &= info->caps;
	if (!ret)
		ret = read_back(conn, memory);
	if (ret)
		return ret;
	for (size_t i = 0; i < memory->len; i++)
		result->errors += memory->back[i] != first_byte(i);
	while (!ret && result->rounds < count)
		ret = go_round(conn, memory, has_data, result);
	return ret ?: fi_shutdown(conn->ep, 0);
}

static int run(struct result *result)
{
	struct memory memory = {};
	struct fid_fabric *fabric;
	struct connection conn;
	struct fi_info *info;
	int ret;

	ret = find_info(addr, port, 0, FI_MSG | FI_RMA | FI_ATOMIC, &info);
	/* Not every device has atomics. */
	if (ret == -FI_ENODATA)
		ret = find_info(addr, port, 0, FI_MSG | FI_RMA, &info);
	if (ret)
		return ret;
	ret = fi_fabric(info->fabric_attr, &fabric, NULL);
	if (ret)
		goto free_info;
	ret = open_connection(&conn, fabric, info, 2, WORD);
	if (!ret)
		ret = use(&conn, &memory, info, result);
	/* When the endpoint is closed nothing touches the memory any more. */
	if (conn.ep)
		close_fid(&conn.ep->fid);
	conn.ep = NULL;
	close_memory(&memory);
	close_connection(&conn);
	close_fid(&fabric->fid);
free_info:
	fi_freeinfo(info);
	return ret;
}

static int mem_client(void *unused)
{
	struct result result = {};
	int ret;

	ret = run(&result);
	if (ret) {
		pr_err("%s: %s\n", addr, fi_strerror(ret));
		result.errors++;
	}
	pr_info("done count=%u errors=%u\n", result.rounds, result.errors);
	return ret;
}

static int __init mem_client_init(void)
{
	if (!addr)
		return -EINVAL;

	thread = run_thread(mem_client);
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit mem_client_exit(void)
{
	kthread_stop_put(thread);
}

module_init(mem_client_init);
module_exit(mem_client_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: client of a memory server");
MODULE_LICENSE("GPL");
