// SPDX-License-Identifier: GPL-2.0
/*
 * Peer of the kernel's memory samples, on the distribution's libfabric. A client
 * reads the region of a server in the kernel, writes it and reads it back, and
 * compares the server's CRC with its own. If the device has atomics, it adds to a
 * word and swaps it. A server gives a client in the kernel remote access to a
 * region, and sends the CRC of the region when the client asks for it.
 *
 *	fi_memory client ADDRESS PORT COUNT
 *	fi_memory server ADDRESS PORT LENGTH
 */

#include <endian.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "peer.h"

#define WORD	8

struct region_info {
	uint64_t addr;
	uint64_t key;
	uint64_t len;
	uint64_t caps;
};

/* The server's region, and two local buffers: out is written to it, readback is read from it. */
struct memory {
	struct region_info remote;
	struct fid_mr *mr;
	unsigned char *out;
	unsigned char *readback;
};

static uint32_t crc32(const unsigned char *at, size_t len)
{
	uint32_t crc = ~0u;

	while (len--) {
		crc ^= *at++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

static void open_memory(struct peer *peer, struct memory *memory)
{
	size_t len;

	memory->remote.addr = be64toh(memory->remote.addr);
	memory->remote.key = be64toh(memory->remote.key);
	memory->remote.len = len = be64toh(memory->remote.len);
	memory->remote.caps = be64toh(memory->remote.caps);
	memory->out = calloc(2, len);
	if (!memory->out)
		check(-FI_ENOMEM, "calloc");
	memory->readback = memory->out + len;
	check(fi_mr_reg(peer->domain, memory->out, 2 * len,
			FI_READ | FI_WRITE, 0, 0, 0, &memory->mr, NULL),
	      "fi_mr_reg");
}

/* Waits for the completion of an operation, which must be the next entry. */
static void await_op(struct peer *peer, uint64_t flag)
{
	struct fi_cq_msg_entry done;

	if (!await_completion(peer, &done))
		check(-FI_ENOTCONN, "the server has disconnected");
	check(done.flags & flag ? 0 : -FI_EOTHER, "another completion");
}

static void read_back(struct peer *peer, struct memory *memory)
{
	memset(memory->readback, 0, memory->remote.len);
	check(fi_read(peer->ep, memory->readback, memory->remote.len,
		      fi_mr_desc(memory->mr), 0, memory->remote.addr,
		      memory->remote.key, NULL), "fi_read");
	await_op(peer, FI_READ);
}

/* Requests the kernel's CRC, with a write with remote CQ data or with a message. */
static uint32_t request_crc(struct peer *peer, struct memory *memory)
{
	struct fi_cq_msg_entry done;
	void *answer = NULL;
	uint32_t sum;

	if (peer->info->domain_attr->cq_data_size) {
		check(fi_writedata(peer->ep, memory->out, WORD,
				   fi_mr_desc(memory->mr), 1, 0,
				   memory->remote.addr, memory->remote.key, NULL),
		      "fi_writedata");
	} else {
		check(fi_send(peer->ep, slot(peer, WINDOW), WORD,
			      fi_mr_desc(peer->mr), 0, NULL), "fi_send");
	}
	/* The response may arrive before the completion of the request. */
	for (int i = 0; i < 2; i++) {
		if (!await_completion(peer, &done))
			check(-FI_ENOTCONN, "the server has disconnected");
		if (done.flags & FI_RECV)
			answer = done.op_context;
	}
	check(answer ? 0 : -FI_EOTHER, "no answer");
	memcpy(&sum, answer, sizeof(sum));
	check(fi_recv(peer->ep, answer, peer->size, fi_mr_desc(peer->mr), 0,
		      answer), "fi_recv");
	return be32toh(sum);
}

/*
 * Returns an operand as libfabric's verbs provider takes it: as the value of the
 * pointer, not as the memory that it points to.
 */
static void *operand(uint64_t value)
{
	return (void *)(uintptr_t)value;
}

/* Adds to the first word and swaps it back. Returns the number of wrong values. */
static unsigned long test_atomics(struct peer *peer, struct memory *memory)
{
	uint64_t *old = (uint64_t *)memory->readback;
	void *desc = fi_mr_desc(memory->mr);
	unsigned long errors;
	uint64_t before;

	memcpy(&before, memory->out, sizeof(before));
	check(fi_fetch_atomic(peer->ep, operand(1000), 1, desc, old, desc, 0,
			      memory->remote.addr, memory->remote.key, FI_UINT64,
			      FI_SUM, NULL), "fi_fetch_atomic");
	await_op(peer, FI_ATOMIC);
	errors = *old != before;
	check(fi_compare_atomic(peer->ep, operand(before), 1, desc,
				operand(before + 1000), desc, old, desc, 0,
				memory->remote.addr, memory->remote.key, FI_UINT64,
				FI_CSWAP, NULL), "fi_compare_atomic");
	await_op(peer, FI_ATOMIC);
	errors += *old != before + 1000;
	read_back(peer, memory);
	return errors + (*old != before);
}

static unsigned long run_round(struct peer *peer, struct memory *memory,
			       unsigned long n)
{
	size_t len = memory->remote.len;
	unsigned long errors;

	fill((char *)memory->out, len, n);
	check(fi_write(peer->ep, memory->out, len, fi_mr_desc(memory->mr), 0,
		       memory->remote.addr, memory->remote.key, NULL), "fi_write");
	await_op(peer, FI_WRITE);
	read_back(peer, memory);
	errors = memcmp(memory->out, memory->readback, len) != 0;
	if (memory->remote.caps & FI_ATOMIC)
		errors += test_atomics(peer, memory);
	return errors + (request_crc(peer, memory) != crc32(memory->out, len));
}

static unsigned long run_client(struct peer *peer, unsigned long count)
{
	struct memory memory;
	unsigned long errors = 0;

	connect_to(peer, &memory.remote, sizeof(memory.remote));
	open_memory(peer, &memory);
	read_back(peer, &memory);
	for (size_t i = 0; i < memory.remote.len; i++)
		errors += memory.readback[i] != (unsigned char)(i * 7 + 3);
	for (unsigned long n = 0; n < count; n++)
		errors += run_round(peer, &memory, n);
	check(fi_shutdown(peer->ep, 0), "fi_shutdown");
	close_fid(&memory.mr->fid, "region");
	free(memory.out);
	return errors;
}

/* Replies to requests with the CRC until the client disconnects. Returns their number. */
static unsigned long serve_requests(struct peer *peer, const unsigned char *out,
				    size_t len)
{
	struct fi_cq_msg_entry done;
	unsigned long count = 0;

	while (await_completion(peer, &done)) {
		void *at = done.op_context;
		uint32_t sum;

		/* The buffer of a completed response is posted as a receive again. */
		if (done.flags & FI_SEND) {
			check(fi_recv(peer->ep, at, peer->size,
				      fi_mr_desc(peer->mr), 0, at), "fi_recv");
			continue;
		}
		count++;
		sum = htobe32(crc32(out, len));
		memcpy(at, &sum, sizeof(sum));
		check(fi_send(peer->ep, at, sizeof(sum), fi_mr_desc(peer->mr),
			      0, at), "fi_send");
	}
	return count;
}

/* Serves one client. A client without any request is an error. */
static unsigned long run_server(struct peer *peer, size_t len)
{
	struct fi_info *request = await_request(peer);
	unsigned char *out = malloc(len);
	struct region_info region;
	unsigned long count;
	struct fid_mr *mr;

	if (!out)
		check(-FI_ENOMEM, "malloc");
	for (size_t i = 0; i < len; i++)
		out[i] = i * 7 + 3;
	open_endpoint(peer, request);
	check(fi_mr_reg(peer->domain, out, len,
			FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL),
	      "fi_mr_reg");
	region.addr = htobe64((uintptr_t)out);
	region.key = htobe64(fi_mr_key(mr));
	region.len = htobe64(len);
	region.caps = htobe64(request->caps & FI_ATOMIC);
	check(fi_accept(peer->ep, &region, sizeof(region)), "fi_accept");
	fi_freeinfo(request);
	await_event(peer, FI_CONNECTED, NULL, 0);
	count = serve_requests(peer, out, len);
	close_fid(&mr->fid, "region");
	free(out);
	return count ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct peer peer = { .size = WORD };
	unsigned long number, errors;
	int is_server;

	if (argc != 5) {
		fprintf(stderr, "usage: fi_memory client|server ADDRESS PORT COUNT|LENGTH\n");
		return 2;
	}
	is_server = !strcmp(argv[1], "server");
	number = strtoul(argv[4], NULL, 10);
	find(&peer, argv[2], argv[3], is_server ? FI_SOURCE : 0,
	     FI_MSG | FI_RMA | FI_ATOMIC);
	errors = is_server ? run_server(&peer, number) : run_client(&peer, number);
	printf("fi_memory: done count=%lu atomics=%s errors=%lu\n", number,
	       peer.info->caps & FI_ATOMIC ? "yes" : "no", errors);
	close_peer(&peer);
	return errors ? 1 : 0;
}
