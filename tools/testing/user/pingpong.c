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
 * length as four bytes in network byte order, the address format as it is in memory,
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

/*
 * Longest wait for a TCP message, in seconds. It is long because libfabric
 * registers much memory when it connects.
 */
#define TCP_TIMEOUT_S	30

static const char ready_query[] = "q", ready_reply[] = "a", count_reply[] = "cnt ok";
/* Length of a message count: a decimal number, padded with zero bytes. */
#define DIGITS	10

static const size_t default_sizes[] = { 64, 256, 1024, 4096, 65536, 1048576 };

struct end {
	int file;		/* control file in debugfs */
	int sock;
	bool is_server;
	const char *kind;
	unsigned long count;
};

/* Ends the program if a system call has failed; otherwise returns its result. */
static ssize_t check_errno(ssize_t result, const char *what)
{
	check(result < 0 ? -errno : 0, what);
	return result;
}

static void send_all(struct end *end, const void *what, size_t len, const char *name)
{
	if (check_errno(send(end->sock, what, len, MSG_NOSIGNAL), name) != (ssize_t)len)
		check(-FI_EMSGSIZE, name);
}

static void recv_all(struct end *end, void *what, size_t len, const char *name)
{
	ssize_t got = check_errno(recv(end->sock, what, len, MSG_WAITALL), name);

	check(got == (ssize_t)len ? 0 : -FI_ECONNABORTED, name);
}

/* Receives len bytes, which must be those of expected. */
static void recv_expected(struct end *end, const char *expected, size_t len)
{
	char received[DIGITS];

	recv_all(end, received, len, expected);
	check(memcmp(received, expected, len) ? -FI_EIO : 0, expected);
}

/* Writes a command to the kernel's control file. */
static void write_command(struct end *end, const char *line)
{
	check_errno(write(end->file, line, strlen(line)), line);
}

static void set_recv_timeout(int sock)
{
	struct timeval timeout = { .tv_sec = TCP_TIMEOUT_S };

	check_errno(setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)),
		    "SO_RCVTIMEO");
}

static int accept_client(const struct addrinfo *at)
{
	int listener = check_errno(socket(at->ai_family, SOCK_STREAM, 0), "socket");
	int sock, one = 1;

	check_errno(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), "SO_REUSEADDR");
	check_errno(bind(listener, at->ai_addr, at->ai_addrlen), "bind");
	check_errno(listen(listener, 1), "listen");
	printf("pingpong: ready\n");
	fflush(stdout);
	set_recv_timeout(listener);
	sock = check_errno(accept(listener, NULL, NULL), "a client");
	close(listener);
	return sock;
}

/* Connects to the server, which may not listen yet. */
static int connect_to_server(const struct addrinfo *at)
{
	for (int left = TIMEOUT_MS; ; left -= POLL_MS) {
		int sock = check_errno(socket(at->ai_family, SOCK_STREAM, 0), "socket");

		if (!connect(sock, at->ai_addr, at->ai_addrlen))
			return sock;
		if (errno != ECONNREFUSED || left <= 0)
			check_errno(-1, "the server");
		close(sock);
		usleep(POLL_MS * 1000);
	}
}

static void open_socket(struct end *end, const char *node, const char *service)
{
	struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *at;

	check(getaddrinfo(node, service, &hints, &at) ? -FI_EINVAL : 0, "address");
	end->sock = end->is_server ? accept_client(at) : connect_to_server(at);
	set_recv_timeout(end->sock);
	freeaddrinfo(at);
}

static void send_name(struct end *end)
{
	struct sockaddr_storage name;
	ssize_t len = check_errno(read(end->file, &name, sizeof(name)), END);
	uint32_t format = name.ss_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
	uint32_t be_len = htonl(len);

	send_all(end, &be_len, sizeof(be_len), "length of a name");
	send_all(end, &format, sizeof(format), "format of a name");
	send_all(end, &name, len, "name");
}

static void recv_name(struct end *end)
{
	char line[128], node[NI_MAXHOST], service[NI_MAXSERV];
	struct sockaddr_storage name;
	uint32_t len, format;

	recv_all(end, &len, sizeof(len), "length of a name");
	len = ntohl(len);
	check(len > sizeof(name) ? -FI_ETOOSMALL : 0, "length of a name");
	recv_all(end, &format, sizeof(format), "format of a name");
	recv_all(end, &name, len, "name");
	check(getnameinfo((struct sockaddr *)&name, len, node, sizeof(node), service,
			  sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) ? -FI_EINVAL : 0,
	      "name");
	snprintf(line, sizeof(line), "peer %.64s %.8s %.8s", node, service, end->kind);
	write_command(end, line);
}

static void exchange_names(struct end *end)
{
	if (end->is_server) {
		send_name(end);
		recv_name(end);
	} else {
		recv_name(end);
		send_name(end);
	}
}

/* The client asks whether the server is ready, and waits for the reply. */
static void synchronize(struct end *end)
{
	if (end->is_server) {
		recv_expected(end, ready_query, sizeof(ready_query));
		send_all(end, ready_reply, sizeof(ready_reply), "reply");
	} else {
		send_all(end, ready_query, sizeof(ready_query), "query");
		recv_expected(end, ready_reply, sizeof(ready_reply));
	}
}

static void compare_counts(struct end *end)
{
	char digits[DIGITS + 1] = "";

	if (end->is_server) {
		recv_all(end, digits, DIGITS, "count");
		check(strtoul(digits, NULL, 10) == end->count ? 0 : -FI_EIO, "count");
		send_all(end, count_reply, sizeof(count_reply), "count");
	} else {
		snprintf(digits, sizeof(digits), "%lu", end->count);
		send_all(end, digits, DIGITS, "count");
		recv_expected(end, count_reply, sizeof(count_reply));
	}
}

static void run_size(struct end *end, size_t size)
{
	char line[64];

	synchronize(end);
	snprintf(line, sizeof(line), "%s %zu %lu", end->is_server ? "pong" : "ping", size,
		 end->count);
	write_command(end, line);
	compare_counts(end);
}

/*
 * Waits until the other end closes the TCP connection. This end stays open for
 * as long, because libfabric fails if its peer closes before it has read the last
 * message (user/rdm.h).
 */
static void wait_for_close(struct end *end)
{
	char byte;

	check(check_errno(recv(end->sock, &byte, 1, 0), "close") ? -FI_EIO : 0, "close");
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
	end.file = check_errno(open(END, O_RDWR), END);
	open_socket(&end, argv[2], argv[3]);
	exchange_names(&end);
	for (int i = 6; i < argc; i++)
		run_size(&end, strtoul(argv[i], NULL, 10));
	for (size_t i = 0; argc == 6 && i < sizeof(default_sizes) / sizeof(*default_sizes); i++)
		run_size(&end, default_sizes[i]);
	write_command(&end, "end");
	wait_for_close(&end);
	close(end.sock);
	check_errno(close(end.file), END);
	printf("pingpong: done\n");
	return 0;
}
