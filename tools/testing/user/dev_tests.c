// SPDX-License-Identifier: GPL-2.0
/*
 * Tests that processes have the kernel run, through /dev/kofi: a server, and
 * clients of it, in files of one process. Each test here is a line of its own.
 *
 *	dev_tests ADDRESS
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/kofi.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define DEVICE		"/dev/kofi"
#define PORT		"7480"
#define PATIENCE_MSEC	60000

static const char *address;

static int open_device(void)
{
	int file = open(DEVICE, O_RDWR);

	if (file < 0) {
		perror(DEVICE);
		exit(1);
	}
	return file;
}

/* What a request answers: 0 or an errno. */
static int ask(int file, unsigned long request, void *argument)
{
	return ioctl(file, request, argument) ? errno : 0;
}

static struct kofi_test a_test(__u32 kind)
{
	struct kofi_test test = { .size = sizeof(test), .kind = kind };

	strcpy(test.node, address);
	strcpy(test.service, PORT);
	if (kind == KOFI_TEST_SERVER)
		return test;
	test.length = 64;
	test.count = 10;
	test.window = kind == KOFI_TEST_STREAM || kind == KOFI_TEST_WRITE ||
		      kind == KOFI_TEST_READ ? 4 : 0;
	return test;
}

static struct kofi_watch watch(int file, __u32 msec)
{
	struct kofi_watch watch = { .size = sizeof(watch), .msec = msec };

	EXPECT_ANSWER(0, ask(file, KOFI_IOC_WATCH, &watch));
	return watch;
}

static struct kofi_watch run(int file, struct kofi_test test)
{
	EXPECT_ANSWER(0, ask(file, KOFI_IOC_START, &test));
	return watch(file, PATIENCE_MSEC);
}

static int stop(int file)
{
	struct kofi_stop stop = { .size = sizeof(stop) };

	return ask(file, KOFI_IOC_STOP, &stop);
}

/* A server that clients can connect to: those over verbs, or the others. */
static int serve_with(__u32 flags)
{
	struct kofi_test test = a_test(KOFI_TEST_SERVER);
	int file = open_device(), tries = PATIENCE_MSEC / 10;

	test.flags = flags;
	EXPECT_ANSWER(0, ask(file, KOFI_IOC_START, &test));
	while (watch(file, 10).state == KOFI_TEST_STARTING && tries--)
		;
	EXPECT(watch(file, 0).state == KOFI_TEST_RUNNING);
	return file;
}

static int serve(void)
{
	return serve_with(0);
}

static void messages_come_back(void)
{
	static const __u64 lengths[] = { 1, 64, 4096, 65536 };
	__u64 buckets[KOFI_TEST_BUCKETS], trips;
	int server = serve(), client = open_device();
	struct kofi_watch seen = {};

	for (unsigned int i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct kofi_test test = a_test(KOFI_TEST_PINGPONG);

		test.flags = KOFI_TEST_VERIFY;
		test.length = lengths[i];
		seen = run(client, test);
		EXPECT(seen.state == KOFI_TEST_OVER);
		EXPECT_ANSWER(0, seen.error);
		EXPECT(seen.messages == 10 && !seen.damaged);
		EXPECT(seen.bytes == 10 * lengths[i]);
		EXPECT(seen.min > 0 && seen.min <= seen.max);
		EXPECT(seen.max <= seen.nsec);
	}
	memset(buckets, 0xff, sizeof(buckets));
	seen.buckets = (unsigned long)buckets;
	seen.bucket_count = KOFI_TEST_BUCKETS;
	EXPECT_ANSWER(0, ask(client, KOFI_IOC_WATCH, &seen));
	trips = 0;
	for (int i = 0; i < KOFI_TEST_BUCKETS; i++)
		trips += buckets[i];
	EXPECT(trips == 10);

	EXPECT_ANSWER(0, stop(server));
	seen = watch(server, 0);
	EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
	EXPECT(seen.clients == ARRAY_SIZE(lengths));
	EXPECT(seen.messages == 10 * ARRAY_SIZE(lengths) && !seen.damaged);
	close(client);
	close(server);
}

static void streams_arrive(void)
{
	static const __u32 windows[] = { 1, 2, 16, 100 };
	int server = serve(), client = open_device();
	struct kofi_watch seen;

	for (unsigned int i = 0; i < ARRAY_SIZE(windows); i++) {
		struct kofi_test test = a_test(KOFI_TEST_STREAM);

		test.flags = KOFI_TEST_VERIFY;
		test.window = windows[i];
		test.length = 5000;
		test.count = 333;
		seen = run(client, test);
		EXPECT(seen.state == KOFI_TEST_OVER);
		EXPECT_ANSWER(0, seen.error);
		EXPECT(seen.messages == 333 && !seen.damaged);
		EXPECT(seen.bytes == 333 * 5000);
		EXPECT(seen.nsec > 0);
	}
	EXPECT_ANSWER(0, stop(server));
	seen = watch(server, 0);
	EXPECT(seen.clients == ARRAY_SIZE(windows));
	EXPECT(seen.messages == 333 * ARRAY_SIZE(windows) && !seen.damaged);
	close(client);
	close(server);
}

static void a_test_ends_in_time(void)
{
	int server = serve(), client = open_device();
	struct kofi_test test = a_test(KOFI_TEST_PINGPONG);
	struct kofi_watch seen;

	test.count = 0;
	test.msec = 200;
	seen = run(client, test);
	EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
	EXPECT(seen.messages > 0 && seen.nsec >= 200 * 1000000ULL);
	test = a_test(KOFI_TEST_STREAM);
	test.count = 0;
	test.msec = 200;
	seen = run(client, test);
	EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
	EXPECT(seen.messages > 0);
	/* Getting ready takes longer, and is not what is measured. */
	for (__u32 kind = KOFI_TEST_PINGPONG; kind <= KOFI_TEST_READ; kind++) {
		test = a_test(kind);
		test.length = KOFI_TEST_MAX_LENGTH;
		test.window = kind == KOFI_TEST_PINGPONG ? 0 : 16;
		test.count = 0;
		test.msec = 1;
		seen = run(client, test);
		EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
		EXPECT(seen.messages > 0 && seen.nsec);
	}
	close(client);
	close(server);
}

/* Without a bound it goes on until somebody says so, or has closed the file. */
static void a_test_can_be_stopped(void)
{
	int server = serve(), client = open_device();
	struct kofi_test test = a_test(KOFI_TEST_STREAM);
	struct kofi_watch seen;

	test.count = 0;
	seen.state = KOFI_TEST_STARTING;
	EXPECT_ANSWER(0, ask(client, KOFI_IOC_START, &test));
	for (int tries = PATIENCE_MSEC / 10; tries; tries--) {
		seen = watch(client, 10);
		if (seen.messages > 100)
			break;
	}
	EXPECT(seen.state == KOFI_TEST_RUNNING && seen.messages > 100);
	EXPECT_ANSWER(EBUSY, ask(client, KOFI_IOC_START, &test));
	EXPECT_ANSWER(0, stop(client));
	EXPECT_ANSWER(0, stop(client));
	seen = watch(client, PATIENCE_MSEC);
	EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
	/* The file is good for another one, which the close ends. */
	EXPECT_ANSWER(0, ask(client, KOFI_IOC_START, &test));
	close(client);
	close(server);
}

/* Has a process begin something, which is killed then. */
static void in_a_process_that_is_killed(void (*begin)(void))
{
	int status, ready[2];
	char byte;
	pid_t child;

	EXPECT(!pipe(ready));
	child = fork();
	if (!child) {
		begin();
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	EXPECT(child > 0 && read(ready[0], &byte, 1) == 1);
	EXPECT(!kill(child, SIGKILL));
	EXPECT(waitpid(child, &status, 0) == child);
	close(ready[0]);
	close(ready[1]);
}

static void begin_to_serve(void)
{
	serve();
}

/* A process that is killed takes its server with it: the port is free. */
static void what_a_process_began_ends_with_it(void)
{
	for (int i = 0; i < 3; i++)
		in_a_process_that_is_killed(begin_to_serve);
}

static void what_goes_wrong_is_told(void)
{
	struct kofi_watch seen, empty = { .size = sizeof(empty) };
	struct kofi_test test = a_test(KOFI_TEST_PINGPONG);
	int client = open_device();

	EXPECT_ANSWER(ENOENT, ask(client, KOFI_IOC_WATCH, &empty));
	EXPECT_ANSWER(ENOENT, stop(client));
	/* Nobody listens; there is no such device, no such address. */
	seen = run(client, test);
	EXPECT(seen.state == KOFI_TEST_OVER);
	EXPECT_ANSWER(FI_ECONNREFUSED, seen.error);
	strcpy(test.domain_name, "nothing0");
	EXPECT_ANSWER(FI_ENODATA, run(client, test).error);
	*test.domain_name = 0;
	strcpy(test.node, "nobody");
	EXPECT_ANSWER(FI_ENODATA, run(client, test).error);
	close(client);
}

/* Two of one port: the second one says so. */
static void a_port_has_one_server(void)
{
	int server = serve(), second = open_device();

	EXPECT_ANSWER(FI_EADDRINUSE,
		      run(second, a_test(KOFI_TEST_SERVER)).error);
	close(second);
	close(server);
}

static void what_there_is_not_is_refused(void)
{
	const struct {
		__u32 kind, window;
		__u64 length, count;
		__u32 msec;
	} wrong[] = {
		{ KOFI_TEST_SERVER, 1, 0, 0, 0 },
		{ KOFI_TEST_SERVER, 0, 1, 0, 0 },
		{ KOFI_TEST_SERVER, 0, 0, 1, 0 },
		{ KOFI_TEST_SERVER, 0, 0, 0, 1 },
		{ KOFI_TEST_PINGPONG, 1, 64, 1, 0 },
		{ KOFI_TEST_PINGPONG, 0, 0, 1, 0 },
		{ KOFI_TEST_PINGPONG, 0, KOFI_TEST_MAX_LENGTH + 1, 1, 0 },
		{ KOFI_TEST_PINGPONG, 0, ~0ULL, 1, 0 },
		{ KOFI_TEST_STREAM, 0, 64, 1, 0 },
		{ KOFI_TEST_STREAM, KOFI_TEST_MAX_WINDOW + 1, 64, 1, 0 },
		{ KOFI_TEST_STREAM, 65, KOFI_TEST_MAX_LENGTH, 1, 0 },
		{ KOFI_TEST_WRITE, 0, 64, 1, 0 },
		{ KOFI_TEST_READ, KOFI_TEST_MAX_WINDOW + 1, 64, 1, 0 },
		{ KOFI_TEST_ATOMIC, 1, 64, 1, 0 },
		{ KOFI_TEST_ATOMIC, 0, KOFI_TEST_MAX_LENGTH + 1, 1, 0 },
		{ KOFI_TEST_ATOMIC + 1, 1, 64, 1, 0 },
	};
	struct kofi_test test = a_test(KOFI_TEST_PINGPONG);
	int file = open_device();

	test.reserved = 1;
	EXPECT_ANSWER(EOPNOTSUPP, ask(file, KOFI_IOC_START, &test));
	test.reserved = 0;
	memset(test.service, '1', sizeof(test.service));
	EXPECT_ANSWER(EINVAL, ask(file, KOFI_IOC_START, &test));
	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++) {
		test = a_test(wrong[i].kind);
		test.window = wrong[i].window;
		test.length = wrong[i].length;
		test.count = wrong[i].count;
		test.msec = wrong[i].msec;
		EXPECT_ANSWER(EINVAL, ask(file, KOFI_IOC_START, &test));
	}
	close(file);
}

/* What an operation is done to is told as in <rdma/fabric.h>. */
#define SUM	2
#define UINT64	7

static void atomics_are_whole_and_known(void)
{
	static const struct {
		__u32 kind, op, datatype;
		__u64 length;
	} wrong[] = {
		{ KOFI_TEST_SERVER, SUM, 0, 0 },
		{ KOFI_TEST_SERVER, 0, UINT64, 0 },
		{ KOFI_TEST_PINGPONG, SUM, 0, 64 },
		{ KOFI_TEST_WRITE, 0, UINT64, 64 },
		{ KOFI_TEST_ATOMIC, SUM, UINT64, 63 },
		{ KOFI_TEST_ATOMIC, SUM, 8, 64 },
		{ KOFI_TEST_ATOMIC, SUM, ~0U, 64 },
		{ KOFI_TEST_ATOMIC, 19, UINT64, 64 },
		{ KOFI_TEST_ATOMIC, ~0U, UINT64, 64 },
	};
	int file = open_device();

	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct kofi_test test = a_test(wrong[i].kind);

		test.op = wrong[i].op;
		test.datatype = wrong[i].datatype;
		test.length = wrong[i].length;
		EXPECT_ANSWER(EINVAL, ask(file, KOFI_IOC_START, &test));
	}
	close(file);
}

static void all_of_it_is_done_by_hand_too(void)
{
	static const struct {
		__u32 kind;
		__u64 length, count;
	} works[] = {
		{ KOFI_TEST_PINGPONG, 1, 33 },
		{ KOFI_TEST_PINGPONG, KOFI_TEST_MAX_LENGTH, 2 },
		{ KOFI_TEST_STREAM, 5000, 33 },
		{ KOFI_TEST_WRITE, 5000, 33 },
		{ KOFI_TEST_WRITE, KOFI_TEST_MAX_LENGTH, 2 },
		{ KOFI_TEST_READ, 5000, 33 },
		{ KOFI_TEST_READ, 1, 33 },
	};
	int server = serve_with(KOFI_TEST_VERBS), client = open_device();
	struct kofi_watch seen;

	for (unsigned int i = 0; i < ARRAY_SIZE(works); i++) {
		struct kofi_test test = a_test(works[i].kind);

		test.flags = KOFI_TEST_VERIFY | KOFI_TEST_VERBS;
		test.length = works[i].length;
		test.count = works[i].count;
		seen = run(client, test);
		EXPECT(seen.state == KOFI_TEST_OVER);
		EXPECT_ANSWER(0, seen.error);
		EXPECT(seen.messages == test.count && !seen.damaged);
		EXPECT(seen.bytes == test.count * test.length);
	}
	EXPECT_ANSWER(0, stop(server));
	seen = watch(server, 0);
	EXPECT(seen.clients == ARRAY_SIZE(works) && !seen.error);
	close(client);
	close(server);
}

/* What the two sides take for a connection is not the same. */
static void by_hand_is_for_those_by_hand(void)
{
	int server = serve(), client = open_device();
	struct kofi_test test = a_test(KOFI_TEST_PINGPONG);

	test.flags = KOFI_TEST_VERBS;
	EXPECT_ANSWER(FI_ECONNREFUSED, run(client, test).error);
	test.flags = 0;
	EXPECT_ANSWER(0, run(client, test).error);
	close(server);

	server = serve_with(KOFI_TEST_VERBS);
	EXPECT_ANSWER(FI_ECONNREFUSED, run(client, test).error);
	test.flags = KOFI_TEST_VERBS;
	EXPECT_ANSWER(0, run(client, test).error);
	close(client);
	close(server);
}

/* Either side ends under way: the other one is told, or serves the next. */
static void by_hand_either_side_may_end_first(void)
{
	int server = serve_with(KOFI_TEST_VERBS), client = open_device();
	static const __u32 kinds[] = {
		KOFI_TEST_PINGPONG, KOFI_TEST_STREAM, KOFI_TEST_WRITE,
	};
	struct kofi_test test;

	for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++) {
		int tries = PATIENCE_MSEC / 10;

		test = a_test(kinds[i]);
		test.flags = KOFI_TEST_VERBS;
		test.count = 0;
		EXPECT_ANSWER(0, ask(client, KOFI_IOC_START, &test));
		while (watch(client, 10).messages < 10 && tries--)
			;
		EXPECT_ANSWER(0, stop(client));
		EXPECT_ANSWER(0, watch(client, 0).error);
	}
	EXPECT_ANSWER(0, ask(client, KOFI_IOC_START, &test));
	for (int tries = PATIENCE_MSEC / 10; tries; tries--) {
		if (watch(client, 10).messages >= 10)
			break;
	}
	close(server);
	EXPECT(watch(client, PATIENCE_MSEC).state == KOFI_TEST_OVER);
	EXPECT(watch(client, 0).error);
	/* The port is free, and nobody is there. */
	EXPECT_ANSWER(FI_ECONNREFUSED, run(client, test).error);
	close(client);
}

static void by_hand_there_is_less(void)
{
	static const struct {
		__u32 op, datatype;
		__u64 length;
	} wrong[] = {
		{ 0, UINT64, 8 },
		{ SUM, UINT64, 16 },
		{ SUM, UINT64 - 2, 8 },
		{ SUM, UINT64 - 2, 4 },
	};
	int file = open_device();

	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct kofi_test test = a_test(KOFI_TEST_ATOMIC);

		test.flags = KOFI_TEST_VERBS;
		test.op = wrong[i].op;
		test.datatype = wrong[i].datatype;
		test.length = wrong[i].length;
		EXPECT_ANSWER(EINVAL, ask(file, KOFI_IOC_START, &test));
	}
	close(file);
}

/* The struct ended with the name of the device once. */
static void an_older_caller_is_understood(void)
{
	int server = serve(), client = open_device();
	struct kofi_test test = a_test(KOFI_TEST_PINGPONG);
	struct kofi_watch seen = {};

	test.size = offsetof(struct kofi_test, op);
	test.op = ~0U;
	EXPECT_ANSWER(0, run(client, test).error);
	/* That of what is told ended before the reason of a refusal. */
	seen.size = offsetof(struct kofi_watch, refusal);
	seen.refusal = ~0U;
	EXPECT_ANSWER(0, ask(client, KOFI_IOC_WATCH, &seen));
	EXPECT(seen.messages == test.count && seen.refusal == ~0U);
	close(client);
	close(server);
}

/* The same over the fabric interfaces, and over verbs. */
static const __u32 sorts[] = { 0, KOFI_TEST_VERBS };

/* A client that goes on until it is stopped. */
static int begin(__u32 kind, __u32 flags)
{
	struct kofi_test test = a_test(kind);
	int file = open_device();

	test.flags = flags;
	test.count = 0;
	EXPECT_ANSWER(0, ask(file, KOFI_IOC_START, &test));
	return file;
}

/* Waits until it has done more than that, or has ended. */
static struct kofi_watch await_more(int file, __u64 messages)
{
	int tries = PATIENCE_MSEC / 10;
	struct kofi_watch seen;

	do
		seen = watch(file, 10);
	while (seen.messages <= messages && seen.state != KOFI_TEST_OVER &&
	       tries--);
	EXPECT(seen.state == KOFI_TEST_RUNNING && seen.messages > messages);
	return seen;
}

/* None waits for another; of those that write and read, the server hears nothing. */
static void clients_are_served_at_once(void)
{
	static const __u32 kinds[] = {
		KOFI_TEST_READ, KOFI_TEST_WRITE, KOFI_TEST_PINGPONG,
		KOFI_TEST_STREAM,
	};
	int clients[ARRAY_SIZE(kinds)], another = open_device();

	for (unsigned int i = 0; i < ARRAY_SIZE(sorts); i++) {
		struct kofi_test test = a_test(KOFI_TEST_PINGPONG);
		int server = serve_with(sorts[i]);
		__u64 messages[ARRAY_SIZE(kinds)];

		for (unsigned int k = 0; k < ARRAY_SIZE(kinds); k++) {
			clients[k] = begin(kinds[k],
					   sorts[i] | KOFI_TEST_VERIFY);
			messages[k] = await_more(clients[k], 0).messages;
		}
		test.flags = sorts[i] | KOFI_TEST_VERIFY;
		EXPECT_ANSWER(0, run(another, test).error);
		for (unsigned int k = 0; k < ARRAY_SIZE(kinds); k++)
			await_more(clients[k], messages[k]);
		for (unsigned int k = 0; k < ARRAY_SIZE(kinds); k++) {
			EXPECT_ANSWER(0, stop(clients[k]));
			EXPECT(!watch(clients[k], 0).damaged);
			close(clients[k]);
		}
		EXPECT_ANSWER(0, stop(server));
		EXPECT(watch(server, 0).clients == ARRAY_SIZE(kinds) + 1);
		EXPECT(!watch(server, 0).damaged);
		close(server);
	}
	close(another);
}

static void what_is_told_is_of_all_clients(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(sorts); i++) {
		int server = serve_with(sorts[i]), clients[3];
		struct kofi_watch seen;

		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++) {
			struct kofi_test test = a_test(KOFI_TEST_STREAM);

			clients[k] = open_device();
			test.flags = sorts[i];
			test.length = 100 + k;
			EXPECT_ANSWER(0, ask(clients[k], KOFI_IOC_START, &test));
		}
		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++) {
			seen = watch(clients[k], PATIENCE_MSEC);
			EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
			close(clients[k]);
		}
		EXPECT_ANSWER(0, stop(server));
		seen = watch(server, 0);
		EXPECT(seen.clients == 3 && seen.messages == 30);
		EXPECT(seen.bytes == 10 * (100 + 101 + 102));
		EXPECT(!seen.damaged && !seen.turned_away);
		close(server);
	}
}

/* Who comes too late is told so, and may come again when another has left. */
static void one_too_many_is_told_why(void)
{
	int clients[KOFI_TEST_MAX_CLIENTS], another = open_device();

	for (unsigned int i = 0; i < ARRAY_SIZE(sorts); i++) {
		struct kofi_test test = a_test(KOFI_TEST_PINGPONG);
		int server = serve_with(sorts[i]);
		int tries = PATIENCE_MSEC / 10;
		struct kofi_watch seen;

		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++)
			clients[k] = begin(KOFI_TEST_PINGPONG, sorts[i]);
		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++)
			await_more(clients[k], 0);
		test.flags = sorts[i];
		seen = run(another, test);
		EXPECT_ANSWER(FI_ECONNREFUSED, seen.error);
		EXPECT(seen.refusal == KOFI_TEST_REFUSAL_FULL);
		EXPECT(watch(server, 0).turned_away == 1);
		EXPECT(watch(server, 0).clients == KOFI_TEST_MAX_CLIENTS);

		EXPECT_ANSWER(0, stop(clients[0]));
		/* The server has yet to hear of that. */
		do
			seen = run(another, test);
		while (seen.refusal == KOFI_TEST_REFUSAL_FULL && tries--);
		EXPECT_ANSWER(0, seen.error);
		EXPECT(seen.refusal == KOFI_TEST_REFUSAL_NONE);

		/* The server ends, and with it all the others. */
		close(server);
		for (unsigned int k = 1; k < ARRAY_SIZE(clients); k++) {
			seen = watch(clients[k], PATIENCE_MSEC);
			EXPECT(seen.state == KOFI_TEST_OVER && seen.error);
		}
		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++)
			close(clients[k]);
		seen = run(another, test);
		EXPECT_ANSWER(FI_ECONNREFUSED, seen.error);
		EXPECT(seen.refusal == KOFI_TEST_REFUSAL_NONE);
	}
	close(another);
}

/* In two rounds more than there is room for at once. */
enum { EACH = KOFI_TEST_MAX_CLIENTS / 2 + 1, ROUNDS = 2 };

static void begin_some_clients(void)
{
	int files[EACH];

	for (int k = 0; k < EACH; k++)
		files[k] = begin(KOFI_TEST_PINGPONG, 0);
	for (int k = 0; k < EACH; k++)
		await_more(files[k], 0);
}

static void clients_that_are_killed_leave_room(void)
{
	struct kofi_test test = a_test(KOFI_TEST_PINGPONG);
	int server = serve(), client = open_device();

	for (int round = 0; round < ROUNDS; round++) {
		int tries = PATIENCE_MSEC / 10;

		in_a_process_that_is_killed(begin_some_clients);
		while (run(client, test).error && tries--)
			;
		EXPECT(watch(client, 0).messages == test.count);
	}
	EXPECT_ANSWER(0, stop(server));
	EXPECT(watch(server, 0).clients == ROUNDS * (EACH + 1));
	close(client);
	close(server);
}

static const struct test tests[] = {
	TEST(messages_come_back),
	TEST(streams_arrive),
	TEST(a_test_ends_in_time),
	TEST(a_test_can_be_stopped),
	TEST(what_a_process_began_ends_with_it),
	TEST(what_goes_wrong_is_told),
	TEST(a_port_has_one_server),
	TEST(what_there_is_not_is_refused),
	TEST(atomics_are_whole_and_known),
	TEST(all_of_it_is_done_by_hand_too),
	TEST(by_hand_is_for_those_by_hand),
	TEST(by_hand_either_side_may_end_first),
	TEST(by_hand_there_is_less),
	TEST(an_older_caller_is_understood),
	TEST(clients_are_served_at_once),
	TEST(what_is_told_is_of_all_clients),
	TEST(one_too_many_is_told_why),
	TEST(clients_that_are_killed_leave_room),
};

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	address = argv[1];
	run_tests(tests, ARRAY_SIZE(tests));
	return 0;
}
