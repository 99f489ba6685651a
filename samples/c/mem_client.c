// SPDX-License-Identifier: GPL-2.0
/*
 * A client of mem_server: writes the server's region, reads it back, applies
 * atomic operations to it if the device has them, and compares the server's CRC
 * of the region with its own.
 *
 *	insmod mem_client.ko addr=10.0.0.1 port=7471 count=10
 *
 * The client's thread logs the results when it ends. The module can be unloaded
 * at any time.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/crc32.h>
#include <linux/module.h>
#include <linux/unaligned.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include "connection.h"
#include "region_info.h"

/* Remote CQ data of a write that requests the CRC */
#define CRC_REQUEST	1
/* Elements of the FI_BXOR operation */
#define ELEMENTS	3

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

/* The server's region, and two local buffers: its expected contents, and the last read */
struct memory {
	u64 addr;
	u64 key;
	u64 caps;
	size_t len;
	u8 *expected;
	u8 *readback;
	struct fid_mr *mr;
	void *desc;
};

struct result {
	uint rounds;
	uint errors;
};

static int open_memory(struct connection *conn, struct memory *memory,
		       const struct region_info *region)
{
	int ret;

	memory->addr = be64_to_cpu(region->addr);
	memory->key = be64_to_cpu(region->key);
	memory->caps = be64_to_cpu(region->caps);
	memory->len = be64_to_cpu(region->len);
	if (memory->len < 64 || memory->len > SZ_16M)
		return -FI_EMSGSIZE;
	memory->expected = kvzalloc(2 * memory->len, GFP_KERNEL);
	if (!memory->expected)
		return -FI_ENOMEM;
	memory->readback = memory->expected + memory->len;
	/* Registered memory is not mapped for each transfer. */
	ret = fi_mr_reg(conn->domain, memory->expected, 2 * memory->len,
			FI_READ | FI_WRITE, 0, 0, 0, &memory->mr, NULL);
	if (!ret)
		memory->desc = fi_mr_desc(memory->mr);
	return ret;
}

static void close_memory(struct memory *memory)
{
	if (memory->mr)
		close_fid(&memory->mr->fid);
	kvfree(memory->expected);
}

/* Waits for the transfer that was just posted; one is outstanding at a time. */
static int wait_transfer(struct connection *conn, int posted)
{
	struct fi_cq_msg_entry done;

	return posted ?: wait_completion_of(conn->tx_cq, &done);
}

static int read_back(struct connection *conn, struct memory *memory)
{
	memset(memory->readback, 0, memory->len);
	return wait_transfer(conn, fi_read(conn->ep, memory->readback, memory->len,
					   memory->desc, FI_ADDR_UNSPEC, memory->addr,
					   memory->key, NULL));
}

static int fetch_atomic(struct connection *conn, struct memory *memory,
			const void *operands, size_t elements,
			enum fi_datatype datatype, enum fi_op op)
{
	return wait_transfer(conn, fi_fetch_atomic(conn->ep, operands, elements, NULL,
						   memory->readback, memory->desc,
						   FI_ADDR_UNSPEC, memory->addr,
						   memory->key, datatype, op, NULL));
}

/* Applies atomic operations to the first bytes of the region, and to the expected contents. */
static int test_atomics(struct connection *conn, struct memory *memory, uint *errors)
{
	u64 *old = (u64 *)memory->readback, *expected = (u64 *)memory->expected;
	const u64 before = *expected, one = 1, after = before + 1;
	const u16 bits[ELEMENTS] = { 0x1234, 0x5678, 0x9abc };
	int ret;

	/* The device executes these two operations. */
	ret = fetch_atomic(conn, memory, &one, 1, FI_UINT64, FI_SUM);
	if (ret)
		return ret;
	*errors += *old != before;
	ret = wait_transfer(conn, fi_compare_atomic(conn->ep, &before, 1, NULL,
						    &after, NULL, old, memory->desc,
						    FI_ADDR_UNSPEC, memory->addr,
						    memory->key, FI_UINT64, FI_CSWAP,
						    NULL));
	if (ret)
		return ret;
	*errors += *old != after;
	/* kOFI executes this one with several work requests. */
	ret = fetch_atomic(conn, memory, bits, ELEMENTS, FI_UINT16, FI_BXOR);
	if (ret)
		return ret;
	*errors += memcmp(old, expected, sizeof(bits)) != 0;
	for (int i = 0; i < ELEMENTS; i++)
		((u16 *)expected)[i] ^= bits[i];
	return 0;
}

/*
 * Requests the CRC of the region: by a write of its first word if the device
 * has remote CQ data, otherwise by a message.
 */
static int request_crc(struct connection *conn, struct memory *memory, bool has_data,
		       u32 *crc)
{
	struct fi_cq_msg_entry reply;
	char *in = conn->buf, *out = conn->buf + WORD;
	void *desc = fi_mr_desc(conn->mr);
	int ret;

	ret = fi_recv(conn->ep, in, WORD, desc, FI_ADDR_UNSPEC, NULL);
	if (ret)
		return ret;
	if (has_data)
		ret = fi_writedata(conn->ep, memory->expected, WORD, memory->desc,
				   CRC_REQUEST, FI_ADDR_UNSPEC, memory->addr,
				   memory->key, NULL);
	else
		ret = fi_send(conn->ep, out, WORD, desc, FI_ADDR_UNSPEC, NULL);
	ret = wait_transfer(conn, ret) ?: wait_completion_of(conn->rx_cq, &reply);
	*crc = get_unaligned_be32(in);
	return ret;
}

static int run_round(struct connection *conn, struct memory *memory,
		     bool has_data, struct result *result)
{
	u32 crc;
	int ret;

	for (size_t i = 0; i < memory->len; i++)
		memory->expected[i] = result->rounds * 31 + i;
	ret = wait_transfer(conn, fi_write(conn->ep, memory->expected, memory->len,
					   memory->desc, FI_ADDR_UNSPEC, memory->addr,
					   memory->key, NULL));
	if (!ret)
		ret = read_back(conn, memory);
	if (ret)
		return ret;
	result->errors += memcmp(memory->expected, memory->readback, memory->len) != 0;
	if (memory->caps & FI_ATOMIC)
		ret = test_atomics(conn, memory, &result->errors);
	if (!ret)
		ret = request_crc(conn, memory, has_data, &crc);
	if (ret)
		return ret;
	result->errors += crc != ~crc32_le(~0, memory->expected, memory->len);
	result->rounds++;
	return 0;
}

static int run_rounds(struct connection *conn, struct memory *memory,
		      const struct fi_info *info, struct result *result)
{
	const bool has_data = info->domain_attr->cq_data_size;
	struct region_info region;
	int ret;

	ret = fi_connect(conn->ep, NULL, NULL, 0);
	if (!ret)
		ret = wait_connected(conn->eq, &region, sizeof(region));
	if (!ret)
		ret = open_memory(conn, memory, &region);
	/* Atomic operations need the capability at both ends. */
	memory->caps &= info->caps;
	if (!ret)
		ret = read_back(conn, memory);
	if (ret)
		return ret;
	for (size_t i = 0; i < memory->len; i++)
		result->errors += memory->readback[i] != initial_byte(i);
	while (!ret && result->rounds < count)
		ret = run_round(conn, memory, has_data, result);
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
		ret = run_rounds(&conn, &memory, info, result);
	/* After the endpoint is closed, the device does not access the memory. */
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
