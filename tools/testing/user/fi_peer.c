// SPDX-License-Identifier: GPL-2.0
/*
 * Peer of the kernel's message samples, on the distribution's libfabric. A client
 * sends messages to a server in the kernel and checks the echoes. A server echoes
 * the messages of a client in the kernel.
 *
 *	fi_peer client ADDRESS PORT COUNT SIZE
 *	fi_peer server ADDRESS PORT COUNT SIZE
 */

#include "peer.h"

/* Sends count messages one at a time, and returns the number of wrong echoes. */
static unsigned long exchange_messages(struct peer *peer, unsigned long count)
{
	char *out = slot(peer, WINDOW), *expected = malloc(peer->size);
	struct fi_cq_msg_entry done;
	unsigned long errors = 0;

	if (!expected)
		check(-FI_ENOMEM, "malloc");
	for (unsigned long n = 0; n < count; n++) {
		int sent = 0, received = 0;

		fill(out, peer->size, n);
		memcpy(expected, out, peer->size);
		check(fi_send(peer->ep, out, peer->size, fi_mr_desc(peer->mr),
			      0, NULL), "fi_send");
		while (!sent || !received) {
			if (!await_completion(peer, &done))
				check(-FI_ENOTCONN, "the server has disconnected");
			if (done.flags & FI_SEND) {
				sent = 1;
				continue;
			}
			received = 1;
			errors += done.len != peer->size ||
				  memcmp(done.op_context, expected, peer->size);
			check(fi_recv(peer->ep, done.op_context, peer->size,
				      fi_mr_desc(peer->mr), 0,
				      done.op_context), "fi_recv");
		}
	}
	free(expected);
	return errors;
}

/* Echoes messages until the client disconnects. Returns their number. */
static unsigned long echo_messages(struct peer *peer)
{
	struct fi_cq_msg_entry done;
	unsigned long count = 0;

	while (await_completion(peer, &done)) {
		void *at = done.op_context;

		/* The buffer of a completed echo is posted as a receive again. */
		if (done.flags & FI_SEND) {
			check(fi_recv(peer->ep, at, peer->size,
				      fi_mr_desc(peer->mr), 0, at), "fi_recv");
			continue;
		}
		count++;
		check(fi_send(peer->ep, at, done.len, fi_mr_desc(peer->mr), 0,
			      at), "fi_send");
	}
	return count;
}

static unsigned long run_client(struct peer *peer, const char *addr,
				const char *port, unsigned long count)
{
	unsigned long errors;

	find(peer, addr, port, 0, FI_MSG);
	connect_to(peer, NULL, 0);
	errors = exchange_messages(peer, count);
	check(fi_shutdown(peer->ep, 0), "fi_shutdown");
	return errors;
}

static unsigned long run_server(struct peer *peer, const char *addr,
				const char *port, unsigned long count)
{
	struct fi_info *request;

	find(peer, addr, port, FI_SOURCE, FI_MSG);
	request = await_request(peer);
	open_endpoint(peer, request);
	check(fi_accept(peer->ep, NULL, 0), "fi_accept");
	fi_freeinfo(request);
	await_event(peer, FI_CONNECTED, NULL, 0);
	return echo_messages(peer) == count ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct peer peer = { 0 };
	unsigned long count, errors;

	if (argc != 6) {
		fprintf(stderr, "usage: fi_peer client|server ADDRESS PORT COUNT SIZE\n");
		return 2;
	}
	count = strtoul(argv[4], NULL, 10);
	peer.size = strtoul(argv[5], NULL, 10);
	if (strcmp(argv[1], "server"))
		errors = run_client(&peer, argv[2], argv[3], count);
	else
		errors = run_server(&peer, argv[2], argv[3], count);
	close_peer(&peer);
	printf("fi_peer: done count=%lu size=%zu errors=%lu\n", count,
	       peer.size, errors);
	return errors ? 1 : 0;
}
