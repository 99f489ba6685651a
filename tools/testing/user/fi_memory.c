// SPDX-License-Identifier: GPL-2.0
/*
 * Client of the kernel's memory server, on the distribution's libfabric: reads
 * what the kernel has written, reads back what it has written itself, and
 * compares the kernel's checksum. If the device has atomics, it adds to a word
 * and swaps it. As a server, it gives a client in the kernel remote access to
 * its memory, and answers with checksums, which the client compares.
 *
 *	fi_memory client ADDRESS PORT COUNT
 *	fi_memory server ADDRESS PORT LENGTH
 */

#include <endian.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "peer.h"

#define WORD	8

struct grant {
	uint64_t addr;
	uint64_t key;
	uint64_t len;
	uint64_t caps;
};

/* Memory of the client: mine is written to the server, back is read from it. */
struct memory {
	struct grant lent;
	struct fid_mr *mr;
	unsigned char *mine;
	unsigned char *back;
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

	memory->lent.addr = be64toh(memory->lent.addr);
	memory->lent.key = be64toh(memory->lent.key);
	memory->lent.len = len = be64toh(memory->lent.len);
	memory->lent.caps = be64toh(memory->lent.caps);
	memory->mine = calloc(2, len);
	if (!memory->mine)
		check(-FI_ENOMEM, "calloc");
	memory->back = memory->mine + len;
	check(fi_mr_reg(peer->domain, memory->mine, 2 * len,
			FI_READ | FI_WRITE, 0, 0, 0, &memory->mr, NULL),
	      "fi_mr_reg");
}

/* Waits for the completion of an operation, which must be the next entry. */
static void await_op(struct peer *peer, uint64_t flag)
{
	struct fi_cq_msg_entry done;

	if (!await_completion(peer, &done))
		check(-FI_ENOTCONN, "the server has left");
	check(done.flags & flag ? 0 : -FI_EOTHER, "another completion");
}

static void read_back(struct peer *peer, struct memory *memory)
{
	memset(memory->back, 0, memory->lent.len);
	check(fi_read(peer->ep, memory->back, memory->lent.len,
		      fi_mr_desc(memory->mr), 0, memory->lent.addr,
		      memory->lent.key, NULL), "fi_read");
	await_op(peer, FI_READ);
}

/* Requests the kernel's checksum, with a write with data or with a message. */
static uint32_t ask(struct peer *peer, struct memory *memory)
{
	struct fi_cq_msg_entry done;
	void *answer = NULL;
	uint32_t sum;

	if (peer->info->domain_attr->cq_data_size) {
		check(fi_writedata(peer->ep, memory->mine, WORD,
				   fi_mr_desc(memory->mr), 1, 0,
				   memory->lent.addr, memory->lent.key, NULL),
		      "fi_writedata");
	} else {
		check(fi_send(peer->ep, slot(peer, WINDOW), WORD,
			      fi_mr_desc(peer->mr), 0, NULL), "fi_send");
	}
	/* The response may arrive before the completion of the request. */
	for (int i = 0; i < 2; i++) {
		if (!await_completion(peer, &done))
			check(-FI_ENOTCONN, "the server has left");
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
 * libfabric's verbs provider takes the value of the pointer buf as the operand,
 * not the memory that it points to.
 */
static void *operand(uint64_t value)
{
	return (void *)(uintptr_t)value;
}

/* Adds to the first word and swaps it back. Returns the number of wrong values. */
static unsigned long change_word(struct peer *peer, struct memory *memory)
{
	uint64_t *old = (uint64_t *)memory->back;
	void *desc = fi_mr_desc(memory->mr);
	unsigned long errors;
	uint64_t before;

	memcpy(&before, memory->mine, sizeof(before));
	check(fi_fetch_atomic(peer->ep, operand(1000), 1, desc, old, desc, 0,
			      memory->lent.addr, memory->lent.key, FI_UINT64,
			      FI_SUM, NULL), "fi_fetch_atomic");
	await_op(peer, FI_ATOMIC);
	errors = *old != before;
	check(fi_compare_atomic(peer->ep, operand(before), 1, desc,
				operand(before + 1000), desc, old, desc, 0,
				memory->lent.addr, memory->lent.key, FI_UINT64,
				FI_CSWAP, NULL), "fi_compare_atomic");
	await_op(peer, FI_ATOMIC);
	errors += *old != before + 1000;
	read_back(peer, memory);
	return errors + (*old != before);
}

static unsigned long go_round(struct peer *peer, struct memory *memory,
			      unsigned long n)
{
	size_t len = memory->lent.len;
	unsigned long errors;

	fill((char *)memory->mine, len, n);
	check(fi_write(peer->ep, memory->mine, len, fi_mr_desc(memory->mr), 0,
		       memory->lent.addr, memory->lent.key, NULL), "fi_write");
	await_op(peer, FI_WRITE);
	read_back(peer, memory);
	errors = memcmp(memory->mine, memory->back, len) != 0;
	if (memory->lent.caps & FI_ATOMIC)
		errors += change_word(peer, memory);
	return errors + (ask(peer, memory) != crc32(memory->mine, len));
}

static unsigned long be_client(struct peer *peer, unsigned long count)
{
	struct memory memory;
	unsigned long errors = 0;

	connect_to(peer, &memory.lent, sizeof(memory.lent));
	open_memory(peer, &memory);
	read_back(peer, &memory);
	for (size_t i = 0; i < memory.lent.len; i++)
		errors += memory.back[i] != (unsigned char)(i * 7 + 3);
	for (unsigned long n = 0; n < count; n++)
		errors += go_round(peer, &memory, n);
	check(fi_shutdown(peer->ep, 0), "fi_shutdown");
	close_fid(&memory.mr->fid, "region");
	free(memory.mine);
	return errors;
}

/* Answers requests with the checksum until the client disconnects. Returns their number. */
static unsigned long answer(struct peer *peer, const unsigned char *mine,
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
		sum = htobe32(crc32(mine, len));
		memcpy(at, &sum, sizeof(sum));
		check(fi_send(peer->ep, at, sizeof(sum), fi_mr_desc(peer->mr),
			      0, at), "fi_send");
	}
	return count;
}

/* Serves one client. A client without any request is an error. */
static unsigned long be_server(struct peer *peer, size_t len)
{
	struct fi_info *request = await_request(peer);
	unsigned char *mine = malloc(len);
	struct grant grant;
	unsigned long count;
	struct fid_mr *mr;

	if (!mine)
		check(-FI_ENOMEM, "malloc");
	for (size_t i = 0; i < len; i++)
		mine[i] = i * 7 + 3;
	open_endpoint(peer, request);
	check(fi_mr_reg(peer->domain, mine, len,
			FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL),
	      "fi_mr_reg");
	grant.addr = htobe64((uintptr_t)mine);
	grant.key = htobe64(fi_mr_key(mr));
	grant.len = htobe64(len);
	grant.caps = htobe64(request->caps & FI_ATOMIC);
	check(fi_accept(peer->ep, &grant, sizeof(grant)), "fi_accept");
	fi_freeinfo(request);
	await_event(peer, FI_CONNECTED, NULL, 0);
	count = answer(peer, mine, len);
	close_fid(&mr->fid, "region");
	free(mine);
	return count ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct peer peer = { .size = WORD };
	unsigned long number, errors;
	int serves;

	if (argc != 5) {
		fprintf(stderr, "usage: fi_memory client|server ADDRESS PORT COUNT|LENGTH\n");
		return 2;
	}
	serves = !strcmp(argv[1], "server");
	number = strtoul(argv[4], NULL, 10);
	find(&peer, argv[2], argv[3], serves ? FI_SOURCE : 0,
	     FI_MSG | FI_RMA | FI_ATOMIC);
	errors = serves ? be_server(&peer, number) : be_client(&peer, number);
	printf("fi_memory: done count=%lu atomics=%s errors=%lu\n", number,
	       peer.info->caps & FI_ATOMIC ? "yes" : "no", errors);
	close_peer(&peer);
	return errors ? 1 : 0;
}
