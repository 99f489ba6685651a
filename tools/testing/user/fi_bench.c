// SPDX-License-Identifier: GPL-2.0
/*
 * Measures datagrams between two processes on the distribution's libfabric:
 * ping-pong, stream, RMA and atomics. The loops are those of the kernel's benchmark
 * (bench/loops.h): a process yields the CPU when a poll finds nothing.
 *
 *	fi_bench ADDRESS|shm lat|rate|bw|write|read|fetch SIZE ITERATIONS
 */

#include <sched.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "rdm.h"

#define BATCH		16
/* Maximum bytes of all outstanding sends, or of all posted receives. */
#define MAX_BYTES	(4 << 20)

enum kind {
	PINGS,
	STREAMS,
	/* Accesses to the peer's memory, which takes no part but makes progress */
	WRITES,
	READS,
	FETCHES,
};

struct test {
	const char *name;
	const char *unit;
	unsigned int window;	/* outstanding sends */
	unsigned int slots;	/* posted receives */
	unsigned int lap;	/* messages that are timed together */
	enum kind kind;
};

static struct test tests[] = {
	{ "lat", "ns", 16, 16, 32, PINGS },
	{ "rate", "msg/s", 64, 64, 512, STREAMS },
	{ "bw", "B/s", 16, 32, 64, STREAMS },
	{ "write", "ns", 1, 1, 32, WRITES },
	{ "read", "ns", 1, 1, 32, READS },
	{ "fetch", "ns", 1, 1, 32, FETCHES },
};

struct side {
	struct peer peer;
	struct fid_av *av;
	fi_addr_t peer_addr;
	uint64_t base, key;	/* of the other process */
	struct test *test;
	unsigned long received;
	unsigned int sending;
	bool within_host;
};

static char *rx_slot(struct side *side, unsigned long n)
{
	return side->peer.buf + n % side->test->slots * side->peer.size;
}

static char *tx_slot(struct side *side, unsigned long n)
{
	return side->peer.buf + (side->test->slots + n % side->test->window) * side->peer.size;
}

static void receive(struct side *side, void *buf)
{
	struct peer *peer = &side->peer;

	check(fi_recv(peer->ep, buf, peer->size, fi_mr_desc(peer->mr), FI_ADDR_UNSPEC, buf),
	      "fi_recv");
}

static void open_side(struct side *side, const char *own)
{
	size_t len = (side->test->slots + side->test->window) * side->peer.size;
	uint64_t caps = FI_MSG;

	if (side->test->kind >= WRITES)
		caps |= FI_RMA;
	if (side->test->kind == FETCHES)
		caps |= FI_ATOMIC;
	open_rdm(&side->peer, &side->av, own, caps, FI_CQ_FORMAT_MSG, len);
	for (unsigned int i = 0; i < side->test->slots; i++)
		receive(side, rx_slot(side, i));
}

/* Exchanges endpoint names and memory keys with the other process. */
static void exchange_names(struct side *side, int channel)
{
	struct {
		/* A socket address or a string */
		char name[128];
		uint64_t base, key;
	} addr = {
		.base = (uintptr_t)side->peer.buf,
		.key = fi_mr_key(side->peer.mr),
	};
	size_t len = sizeof(addr.name);

	check(fi_getname(&side->peer.ep->fid, &addr.name, &len), "fi_getname");
	len = sizeof(addr);
	if (write(channel, &addr, len) != (ssize_t)len ||
	    read(channel, &addr, len) != (ssize_t)len)
		check(-FI_EIO, "the other process");
	check(fi_av_insert(side->av, &addr.name, 1, &side->peer_addr, 0, NULL) - 1, "fi_av_insert");
	side->base = addr.base;
	side->key = addr.key;
}

/* Polls once, and counts the completions. */
static void progress(struct side *side)
{
	struct fi_cq_msg_entry done[BATCH];
	ssize_t found = fi_cq_read(side->peer.cq, done, BATCH);

	if (found == -FI_EAGAIN) {
		sched_yield();
		return;
	}
	check(found, "fi_cq_read");
	for (ssize_t i = 0; i < found; i++) {
		if (done[i].flags & FI_RECV) {
			side->received++;
			receive(side, done[i].op_context);
		} else {
			side->sending--;
		}
	}
}

static void send_one(struct side *side, unsigned long nth, size_t len)
{
	struct peer *peer = &side->peer;
	char *buf = tx_slot(side, nth);
	ssize_t ret;

	while (side->sending >= side->test->window)
		progress(side);
	while ((ret = fi_send(peer->ep, buf, len, fi_mr_desc(peer->mr), side->peer_addr, buf)) ==
	       -FI_EAGAIN)
		progress(side);
	check(ret, "fi_send");
	side->sending++;
}

static void await_received(struct side *side, unsigned long count)
{
	while (side->received < count)
		progress(side);
}

/* Returns the shortest time of a lap in ns, for the process that sends first. */
static uint64_t ping(struct side *side, unsigned long count)
{
	uint64_t fastest = UINT64_MAX, begun = now();

	for (unsigned long i = 0; i < count; i++) {
		send_one(side, i, side->peer.size);
		await_received(side, i + 1);
		if (!((i + 1) % side->test->lap)) {
			uint64_t at = now();

			if (at - begun < fastest)
				fastest = at - begun;
			begun = at;
		}
	}
	return fastest;
}

static void pong(struct side *side, unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		await_received(side, i + 1);
		send_one(side, i, side->peer.size);
	}
}

/* Returns the number of messages that one credit message grants. */
static unsigned long credit(const struct side *side)
{
	return side->test->slots / 4;
}

/* Sends a stream, and returns the shortest time in ns in which the receiver takes a whole lap. */
static uint64_t send_stream(struct side *side, unsigned long count)
{
	uint64_t fastest = UINT64_MAX, begun = now();

	for (unsigned long i = 0; i < count; i++) {
		while (i >= side->test->slots + side->received * credit(side))
			progress(side);
		send_one(side, i, side->peer.size);
		if (!((i + 1) % side->test->lap)) {
			uint64_t at;

			await_received(side, (i + 1) / credit(side));
			at = now();
			/* The first lap includes the connection setup. */
			if (i >= side->test->lap && at - begun < fastest)
				fastest = at - begun;
			begun = at;
		}
	}
	return fastest;
}

static void receive_stream(struct side *side, unsigned long count)
{
	for (unsigned long i = 0; i < count / credit(side); i++) {
		await_received(side, (i + 1) * credit(side));
		send_one(side, i, 8);
	}
}

static ssize_t access_once(struct side *side)
{
	static uint64_t one = 1;
	struct peer *peer = &side->peer;
	void *desc = fi_mr_desc(peer->mr);
	char *buf = tx_slot(side, 0);

	switch (side->test->kind) {
	case WRITES:
		return fi_write(peer->ep, buf, peer->size, desc, side->peer_addr, side->base,
				side->key, buf);
	case READS:
		return fi_read(peer->ep, buf, peer->size, desc, side->peer_addr, side->base,
			       side->key, buf);
	default:
		return fi_fetch_atomic(peer->ep, &one, 1, NULL, buf, desc, side->peer_addr,
				       side->base, side->key, FI_UINT64, FI_SUM, buf);
	}
}

/* Accesses the peer's memory, one operation at a time. Returns the shortest time of a lap in ns. */
static uint64_t run_one_sided(struct side *side, unsigned long count)
{
	uint64_t fastest = UINT64_MAX, begun = now();

	for (unsigned long i = 0; i < count; i++) {
		ssize_t ret;

		while ((ret = access_once(side)) == -FI_EAGAIN)
			progress(side);
		check(ret, "access");
		side->sending++;
		while (side->sending)
			progress(side);
		if (!((i + 1) % side->test->lap)) {
			uint64_t at = now();

			if (at - begun < fastest)
				fastest = at - begun;
			begun = at;
		}
	}
	return fastest;
}

/* Polls until the other process is done, because libfabric makes progress in polls only. */
static void progress_until_done(struct side *side, int channel)
{
	char done;

	while (recv(channel, &done, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
		progress(side);
}

/* Runs the side that starts, and returns the shortest time of a lap. */
static uint64_t run_initiator(struct side *side, unsigned long count)
{
	switch (side->test->kind) {
	case PINGS:
		return ping(side, count);
	case STREAMS:
		return send_stream(side, count);
	default:
		return run_one_sided(side, count);
	}
}

static void run_target(struct side *side, unsigned long count, int channel)
{
	switch (side->test->kind) {
	case PINGS:
		pong(side, count);
		break;
	case STREAMS:
		receive_stream(side, count);
		break;
	default:
		progress_until_done(side, channel);
	}
}

static void report(const struct side *side, uint64_t ns)
{
	const struct test *test = side->test;
	double value = (double)ns / test->lap;

	if (test->kind == PINGS)
		value /= 2;
	if (test->kind == STREAMS)
		value = 1e9 / value;
	if (!strcmp(test->unit, "B/s"))
		value *= side->peer.size;
	printf("bench: impl=user name=%s_%s size=%zu value=%.0f unit=%s\n",
	       side->within_host ? "loop" : "rdm", test->name, side->peer.size, value, test->unit);
	fflush(stdout);
}

/* Runs one of the two processes. */
static void run_process(struct side *side, const char *own, unsigned long count, int channel,
			bool first)
{
	uint64_t ns = 0;
	char done = 0;

	open_side(side, own);
	exchange_names(side, channel);
	if (first)
		ns = run_initiator(side, count);
	else
		run_target(side, count, channel);
	while (side->sending)
		progress(side);
	/* Wait until the other process is done, too. */
	if (write(channel, &done, 1) != 1 || read(channel, &done, 1) != 1)
		check(-FI_EIO, "the other process");
	close_rdm(&side->peer, side->av);
	if (first)
		report(side, ns);
}

int main(int argc, char **argv)
{
	struct side side = { 0 };
	unsigned long count;
	int channel[2], status;
	pid_t child;

	for (size_t i = 0; argc == 5 && i < sizeof(tests) / sizeof(*tests); i++)
		if (!strcmp(argv[2], tests[i].name))
			side.test = &tests[i];
	if (!side.test) {
		fprintf(stderr, "fi_bench ADDRESS|shm lat|rate|bw|write|read|fetch SIZE ITERATIONS\n");
		return 2;
	}
	side.within_host = !strcmp(argv[1], WITHIN_HOST);
	side.peer.size = strtoul(argv[3], NULL, 0);
	count = strtoul(argv[4], NULL, 0);
	/* Round down to whole laps, of which there must be two. */
	count = count / side.test->lap * side.test->lap;
	if (side.peer.size < 8 || side.peer.size > MAX_BYTES / 4 || count < 2 * side.test->lap) {
		fprintf(stderr, "fi_bench: 8 bytes to 1 MiB, and two laps at least\n");
		return 2;
	}
	while (side.test->slots * side.peer.size > MAX_BYTES)
		side.test->slots /= 2;
	while (side.test->window * side.peer.size > MAX_BYTES)
		side.test->window /= 2;
	check(socketpair(AF_UNIX, SOCK_STREAM, 0, channel) ? -FI_EIO : 0, "socketpair");
	child = fork();
	check(child < 0 ? -FI_EIO : 0, "fork");
	run_process(&side, argv[1], count, channel[!child], child);
	if (!child)
		return 0;
	waitpid(child, &status, 0);
	return !WIFEXITED(status) || WEXITSTATUS(status);
}
