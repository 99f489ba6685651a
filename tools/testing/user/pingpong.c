// SPDX-License-Identifier: GPL-2.0
/*
 * TCP side channel of libfabric's fi_pingpong, for an end in the kernel
 * (bench/kofi_pingpong.c):
 *
 *	pingpong server ADDRESS PORT msg|tagged COUNT [SIZE]...
 *	pingpong client ADDRESS PORT msg|tagged COUNT [SIZE]...
 *
 * The server waits at the address for a fi_pingpong client; the client connects
 * to a fi_pingpong server and starts. The count, the sizes and the kind of
 * messages must match those of the other end, which does not send them. The
 * default sizes are those of fi_pingpong.
 *
 * Over TCP the server and then the client sends the name of its endpoint: the
 * length as four bytes in network order, the address format as it is in memory,
 * and the address. Before the messages of each size the client asks whether the
 * server is ready; afterwards it sends the number of messages that it has
 * received.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"

#define END	"/sys/kernel/debug/kofi_pingpong/end"

/* Longest wait for a TCP message in seconds: libfabric registers much memory when it connects. */
#define LONGEST	30

static const char question[] = "q", answer[] = "a", agreed[] = "cnt ok";
/* Decimal number, padded with zero bytes. */
#define DIGITS	10

static const size_t usual[] = { 64, 256, 1024, 4096, 65536, 1048576 };

struct end {
	int file;		/* control file in debugfs */
	int channel;
	bool is_server;
	const char *kind;
	unsigned long count;
};

/* Checks the result of a system call. */
static ssize_t must(ssize_t answer, const char *what)
{
	check(answer < 0 ? -errno : 0, what);
	return answer;
}

static void tell(struct end *end, const void *what, size_t len, const char *name)
{
	if (must(send(end->channel, what, len, MSG_NOSIGNAL), name) != (ssize_t)len)
		check(-FI_EMSGSIZE, name);
}

static void hear(struct end *end, void *what, size_t len, const char *name)
{
	ssize_t got = must(recv(end->channel, what, len, MSG_WAITALL), name);

	check(got == (ssize_t)len ? 0 : -FI_ECONNABORTED, name);
}

static void hear_word(struct end *end, const char *word, size_t len)
{
	char heard[DIGITS];

	hear(end, heard, len, word);
	check(memcmp(heard, word, len) ? -FI_EIO : 0, word);
}

/* Writes a command to the kernel's control file. */
static void order(struct end *end, const char *line)
{
	must(write(end->file, line, strlen(line)), line);
}

static void limit(int sock)
{
	struct timeval most = { .tv_sec = LONGEST };

	must(setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)), "SO_RCVTIMEO");
}

static int await_client(const struct addrinfo *at)
{
	int listener = must(socket(at->ai_family, SOCK_STREAM, 0), "socket");
	int sock, one = 1;

	must(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), "SO_REUSEADDR");
	must(bind(listener, at->ai_addr, at->ai_addrlen), "bind");
	must(listen(listener, 1), "listen");
	printf("pingpong: ready\n");
	fflush(stdout);
	limit(listener);
	sock = must(accept(listener, NULL, NULL), "a client");
	close(listener);
	return sock;
}

/* Connects to the server, which may not listen yet. */
static int find_server(const struct addrinfo *at)
{
	for (int left = PATIENCE; ; left -= TICK) {
		int sock = must(socket(at->ai_family, SOCK_STREAM, 0), "socket");

		if (!connect(sock, at->ai_addr, at->ai_addrlen))
			return sock;
		if (errno != ECONNREFUSED || left <= 0)
			must(-1, "the server");
		close(sock);
		usleep(TICK * 1000);
	}
}

static void open_channel(struct end *end, const char *node, const char *service)
{
	struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *at;

	check(getaddrinfo(node, service, &hints, &at) ? -FI_EINVAL : 0, "address");
	end->channel = end->is_server ? await_client(at) : find_server(at);
	limit(end->channel);
	freeaddrinfo(at);
}

static void tell_name(struct end *end)
{
	struct sockaddr_storage name;
	ssize_t len = must(read(end->file, &name, sizeof(name)), END);
	uint32_t format = name.ss_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
	uint32_t be_len = htonl(len);

	tell(end, &be_len, sizeof(be_len), "length of a name");
	tell(end, &format, sizeof(format), "format of a name");
	tell(end, &name, len, "name");
}

static void hear_name(struct end *end)
{
	char line[128], node[NI_MAXHOST], service[NI_MAXSERV];
	struct sockaddr_storage name;
	uint32_t len, format;

	hear(end, &len, sizeof(len), "length of a name");
	len = ntohl(len);
	check(len > sizeof(name) ? -FI_ETOOSMALL : 0, "length of a name");
	hear(end, &format, sizeof(format), "format of a name");
	hear(end, &name, len, "name");
	check(getnameinfo((struct sockaddr *)&name, len, node, sizeof(node), service,
			  sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) ? -FI_EINVAL : 0,
	      "name");
	snprintf(line, sizeof(line), "peer %.64s %.8s %.8s", node, service, end->kind);
	order(end, line);
}

static void meet(struct end *end)
{
	if (end->is_server) {
		tell_name(end);
		hear_name(end);
	} else {
		hear_name(end);
		tell_name(end);
	}
}

static void begin(struct end *end)
{
	if (end->is_server) {
		hear_word(end, question, sizeof(question));
		tell(end, answer, sizeof(answer), "answer");
	} else {
		tell(end, question, sizeof(question), "question");
		hear_word(end, answer, sizeof(answer));
	}
}

static void compare_counts(struct end *end)
{
	char digits[DIGITS + 1] = "";

	if (end->is_server) {
		hear(end, digits, DIGITS, "count");
		check(strtoul(digits, NULL, 10) == end->count ? 0 : -FI_EIO, "count");
		tell(end, agreed, sizeof(agreed), "count");
	} else {
		snprintf(digits, sizeof(digits), "%lu", end->count);
		tell(end, digits, DIGITS, "count");
		hear_word(end, agreed, sizeof(agreed));
	}
}

static void play(struct end *end, size_t size)
{
	char line[64];

	begin(end);
	snprintf(line, sizeof(line), "%s %zu %lu", end->is_server ? "pong" : "ping", size,
		 end->count);
	order(end, line);
	compare_counts(end);
}

/*
 * Waits until the other end closes the channel first: libfabric fails if its
 * peer is gone before it has read the last message (user/rdm.h).
 */
static void await_leave(struct end *end)
{
	char nothing;

	check(must(recv(end->channel, &nothing, 1, 0), "leave") ? -FI_EIO : 0, "leave");
}

int main(int argc, char **argv)
{
	struct end end = { 0 };

	if (argc < 6) {
		fprintf(stderr, "pingpong server|client ADDRESS PORT msg|tagged COUNT [SIZE]...\n");
		return 2;
	}
	end.is_server = !strcmp(argv[1], "server");
	end.kind = argv[4];
	end.count = strtoul(argv[5], NULL, 10);
	end.file = must(open(END, O_RDWR), END);
	open_channel(&end, argv[2], argv[3]);
	meet(&end);
	for (int i = 6; i < argc; i++)
		play(&end, strtoul(argv[i], NULL, 10));
	for (size_t i = 0; argc == 6 && i < sizeof(usual) / sizeof(*usual); i++)
		play(&end, usual[i]);
	order(&end, "end");
	await_leave(&end);
	close(end.channel);
	must(close(end.file), END);
	printf("pingpong: done\n");
	return 0;
}
