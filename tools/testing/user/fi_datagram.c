// SPDX-License-Identifier: GPL-2.0
/*
 * Client of the kernel's datagram server, on the distribution's libfabric. The
 * server echoes messages of all lengths, and each side accesses the other's memory
 * with RMA and atomics.
 *
 *	fi_datagram ADDRESS PORT OWN_ADDRESS ROUNDS [BEFORE|-]
 *
 * BEFORE is the number of rounds of all previous clients. With it the client
 * checks the value of the word that all clients and the server increment. With -
 * the client posts no atomic operations.
 */

#include <arpa/inet.h>
#include <endian.h>
#include <stdbool.h>
#include <unistd.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "../../../samples/c/datagram.h"
#include "../kunit/atomic_model.h"
#include "rdm.h"

#define LONGEST	(1 << 20)
/* The server's region has at least PARTS parts of PART bytes. */
#define PARTS	4
#define PART	(512 << 10)
/* Messages in flight. */
#define IN_FLIGHT	4
/*
 * Bytes at the beginning of each part that are for atomic operations. All clients
 * increment the first word of the first part.
 */
#define WORDS	64
/* Increments of the shared word in each round. */
#define COUNTS	16

/* Lengths of eager, segmented and rendezvous messages. */
static const size_t lens[] = {
	0, 1, 100, 4096, 16384, 16385, 65536, 131072, 131073, 300000, LONGEST,
};

struct client {
	struct peer peer;
	struct fid_av *av;
	char *in, *out;
	fi_addr_t server;
	uint64_t number, base, key;
};

static void open_client(struct client *client, const char *own)
{
	struct peer *peer = &client->peer;

	open_rdm(peer, &client->av, own, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC,
		 FI_CQ_FORMAT_TAGGED, 2 * IN_FLIGHT * LONGEST);
	client->out = peer->buf;
	client->in = peer->buf + IN_FLIGHT * LONGEST;
}

/* Waits for count completions; one that failed ends the program. */
static void await(struct client *client, int count)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_tagged_entry done;
	uint64_t left = TIMEOUT_MS * 20ull;
	ssize_t ret;

	while (count) {
		ret = fi_cq_read(client->peer.cq, &done, 1);
		if (ret == 1) {
			count--;
			continue;
		}
		if (ret == -FI_EAVAIL) {
			fi_cq_readerr(client->peer.cq, &error, 0);
			check(-error.err, "completion");
		}
		check(ret == -FI_EAGAIN ? 0 : ret, "fi_cq_read");
		/* libfabric makes progress in polls. */
		usleep(50);
		if (!left--)
			check(-FI_ETIMEDOUT, "completion");
	}
}

/* Repeats a call while it returns -FI_EAGAIN: no connection, or no free resources. */
#define retry(client, call, what) do {					\
	ssize_t ret;							\
	uint64_t left = TIMEOUT_MS * 20ull;				\
									\
	while ((ret = (call)) == -FI_EAGAIN && left--) {		\
		fi_cq_read((client)->peer.cq, NULL, 0);			\
		usleep(50);						\
	}								\
	check(ret, what);						\
} while (0)

static void introduce(struct client *client, const char *addr, const char *port)
{
	struct sockaddr_in server = {
		.sin_family = AF_INET,
		.sin_port = htons(atoi(port)),
	};
	struct datagram_welcome *welcome = (void *)client->in;
	struct datagram_hello *hello = (void *)client->out;
	size_t len = sizeof(hello->name);
	struct peer *peer = &client->peer;
	void *desc = fi_mr_desc(peer->mr);

	check(inet_pton(AF_INET, addr, &server.sin_addr) - 1, "address");
	check(fi_av_insert(client->av, &server, 1, &client->server, 0, NULL) - 1,
	      "fi_av_insert");
	check(fi_getname(&peer->ep->fid, &hello->name, &len), "fi_getname");
	hello->base = htobe64((uintptr_t)peer->buf);
	hello->key = htobe64(fi_mr_key(peer->mr));
	hello->len = htobe64(LONGEST);
	retry(client, fi_recv(peer->ep, welcome, sizeof(*welcome), desc, client->server, NULL),
	      "fi_recv");
	retry(client, fi_send(peer->ep, hello, sizeof(*hello), desc, client->server, NULL),
	      "fi_send");
	await(client, 2);
	client->number = be64toh(welcome->number);
	client->base = be64toh(welcome->base);
	client->key = be64toh(welcome->key);
	check(be64toh(welcome->len) < (uint64_t)PARTS * PART ? -FI_ETOOSMALL : 0, "region");
}

/* Sends several messages and checks their echoes. */
static unsigned long echo(struct client *client, size_t len, unsigned long seed)
{
	uint64_t tag = client->number * DATAGRAM_TAGS + DATAGRAM_ECHO;
	struct peer *peer = &client->peer;
	void *desc = fi_mr_desc(peer->mr);
	unsigned long errors = 0;

	for (int i = 0; i < IN_FLIGHT; i++) {
		fill(client->out + i * LONGEST, len, seed + i);
		memset(client->in + i * LONGEST, 0, len);
		retry(client, fi_trecv(peer->ep, client->in + i * LONGEST, len, desc,
				       client->server, tag, 0, NULL), "fi_trecv");
	}
	for (int i = 0; i < IN_FLIGHT; i++)
		retry(client, fi_tsend(peer->ep, client->out + i * LONGEST, len, desc,
				       client->server, tag, NULL), "fi_tsend");
	await(client, 2 * IN_FLIGHT);
	for (int i = 0; i < IN_FLIGHT; i++)
		errors += !!memcmp(client->out + i * LONGEST, client->in + i * LONGEST, len);
	return errors;
}

/* Writes to this client's part of the server's region, and reads it back. */
static unsigned long write_and_read_back(struct client *client, size_t len, unsigned long seed)
{
	uint64_t at = client->base + client->number % PARTS * PART + WORDS + 7;
	struct peer *peer = &client->peer;
	void *desc = fi_mr_desc(peer->mr);

	if (len > PART - WORDS - 7)
		len = PART - WORDS - 7;
	fill(client->out, len, seed);
	memset(client->in, 0, len);
	retry(client, fi_write(peer->ep, client->out, len, desc, client->server,
			       at, client->key, NULL), "fi_write");
	await(client, 1);
	/* siw requests, for a read of 0 bytes, the length of an earlier read in its slot. */
	if (!len)
		return 0;
	retry(client, fi_read(peer->ep, client->in, len, desc, client->server,
			      at, client->key, NULL), "fi_read");
	await(client, 1);
	return !!memcmp(client->out, client->in, len);
}

/* Asks the server to invert this client's region by RMA, and checks the result. */
static unsigned long request_inversion(struct client *client, unsigned long seed)
{
	uint64_t tag = client->number * DATAGRAM_TAGS + DATAGRAM_FLIP;
	struct peer *peer = &client->peer;
	void *desc = fi_mr_desc(peer->mr);

	fill(client->out, LONGEST, seed);
	memcpy(client->in, client->out, LONGEST);
	retry(client, fi_trecv(peer->ep, NULL, 0, desc, client->server, tag, 0, NULL),
	      "fi_trecv");
	retry(client, fi_tsend(peer->ep, NULL, 0, desc, client->server, tag, NULL),
	      "fi_tsend");
	await(client, 2);
	for (size_t i = 0; i < LONGEST; i++)
		if ((char)~client->out[i] != client->in[i])
			return 1;
	return 0;
}

/*
 * Posts one atomic operation on a word of the server, and waits for it. The
 * operands are the first words of out; the result is the first word of in.
 */
static void post_atomic(struct client *client, uint64_t at, enum at_form form, enum fi_op op,
			enum fi_datatype type)
{
	struct peer *peer = &client->peer;
	void *desc = fi_mr_desc(peer->mr);
	uint64_t *out = (void *)client->out;

	switch (form) {
	case ATOM_BASE:
		retry(client, fi_atomic(peer->ep, out, 1, desc, client->server, at, client->key, type,
					op, NULL), "fi_atomic");
		break;
	case ATOM_FETCH:
		retry(client, fi_fetch_atomic(peer->ep, out, 1, desc, client->in, desc,
					      client->server, at, client->key, type, op, NULL),
		      "fi_fetch_atomic");
		break;
	default:
		retry(client, fi_compare_atomic(peer->ep, out, 1, desc, out + 1, desc, client->in,
						desc, client->server, at, client->key, type, op,
						NULL), "fi_compare_atomic");
	}
	await(client, 1);
}

/* Executes every integer operation on a word of this client's part. */
static unsigned long test_atomics(struct client *client, unsigned long seed)
{
	uint64_t at = client->base + client->number % PARTS * PART + 8;
	uint64_t *out = (void *)client->out, *in = (void *)client->in;
	unsigned long errors = 0;

	for (int i = 0; i < ATOM_FORMS * FI_ATOMIC_OP_LAST * (FI_UINT64 + 1); i++) {
		enum fi_datatype type = i % (FI_UINT64 + 1);
		enum fi_op op = i / (FI_UINT64 + 1) % FI_ATOMIC_OP_LAST;
		enum at_form form = i / (FI_UINT64 + 1) / FI_ATOMIC_OP_LAST;
		uint64_t mask = at_mask(type), old, operand, compare, new;

		if (!at_exists(form, op, type))
			continue;
		fill((char *)out, 3 * sizeof(*out), seed * 1000 + i);
		old = out[2];
		operand = out[0];
		/* Half of the comparisons are with an equal value. */
		compare = i & 1 ? old : out[1];
		new = at_result(op, type, old & mask, operand & mask, compare & mask);
		out[0] = old;
		post_atomic(client, at, ATOM_FETCH, FI_ATOMIC_WRITE, FI_UINT64);
		out[0] = operand;
		out[1] = compare;
		*in = 0;
		post_atomic(client, at, form, op, type);
		if (form != ATOM_BASE)
			errors += (*in & mask) != (old & mask);
		post_atomic(client, at, ATOM_FETCH, FI_ATOMIC_READ, FI_UINT64);
		errors += *in != ((old & ~mask) | new);
	}
	return errors;
}

/* Increments the word that all clients share, and checks that it grows. */
static unsigned long increment_shared_word(struct client *client)
{
	uint64_t *out = (void *)client->out, *in = (void *)client->in, next = 0;
	unsigned long errors = 0;

	for (int i = 0; i < COUNTS; i++) {
		*out = 1;
		post_atomic(client, client->base, ATOM_FETCH, FI_SUM, FI_UINT64);
		errors += *in < next;
		next = *in + 1;
	}
	return errors;
}

/* Asks the server to increment this client's first word, which is checked, and the shared word. */
static unsigned long request_increments(struct client *client)
{
	uint64_t tag = client->number * DATAGRAM_TAGS + DATAGRAM_COUNT;
	uint64_t *word = (void *)client->peer.buf;
	struct peer *peer = &client->peer;
	void *desc = fi_mr_desc(peer->mr);
	const uint64_t first = *word;

	retry(client, fi_trecv(peer->ep, NULL, 0, desc, client->server, tag, 0, NULL),
	      "fi_trecv");
	retry(client, fi_tsend(peer->ep, NULL, 0, desc, client->server, tag, NULL),
	      "fi_tsend");
	await(client, 2);
	return *word != first + DATAGRAM_COUNTS;
}

/* Returns the value of the shared word. */
static uint64_t read_shared_word(struct client *client)
{
	post_atomic(client, client->base, ATOM_FETCH, FI_ATOMIC_READ, FI_UINT64);
	return *(uint64_t *)client->in;
}

int main(int argc, char **argv)
{
	struct client client = { 0 };
	unsigned long errors = 0, count;
	bool has_atomics;

	if (argc != 5 && argc != 6) {
		fprintf(stderr, "fi_datagram ADDRESS PORT OWN_ADDRESS ROUNDS [BEFORE|-]\n");
		return 2;
	}
	count = strtoul(argv[4], NULL, 0);
	has_atomics = argc == 5 || strcmp(argv[5], "-");
	open_client(&client, argv[3]);
	introduce(&client, argv[1], argv[2]);
	for (unsigned long n = 0; n < count; n++) {
		for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
			errors += echo(&client, lens[i], n);
			errors += write_and_read_back(&client, lens[i], n);
		}
		errors += request_inversion(&client, n);
		if (has_atomics) {
			errors += test_atomics(&client, n);
			errors += increment_shared_word(&client);
		}
		errors += request_increments(&client);
	}
	if (argc == 6 && has_atomics)
		errors += read_shared_word(&client) != (count + strtoul(argv[5], NULL, 0)) *
					      (COUNTS + DATAGRAM_COUNTS);
	close_rdm(&client.peer, client.av);
	printf("fi_datagram: %lu rounds errors=%lu\n", count, errors);
	return errors != 0;
}
