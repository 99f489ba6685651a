/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for programs that start, watch and stop tests of /dev/kofi_perf. The
 * server and each client are an open file of the program.
 */

#ifndef KOFI_TESTING_DEV_TEST_H
#define KOFI_TESTING_DEV_TEST_H

#include <linux/kofi_perf.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dev.h"
#include "expect.h"

#define PORT		"7480"
#define TIMEOUT_MSEC	60000

/* Operation and datatype of atomic tests, as in <rdma/fabric.h>. */
#define SUM		2
#define UINT64		7

/* Address of the server. */
static const char *address;

/* Set if the device may lose the private data of a reject, as siw does. */
static bool loses_reject_data;

static inline struct kofi_test default_test(__u32 kind)
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

static inline struct kofi_watch watch(int file, __u32 msec)
{
	struct kofi_watch watch = { .size = sizeof(watch), .msec = msec };

	EXPECT_RESULT(0, request(file, KOFI_PERF_IOC_WATCH, &watch));
	return watch;
}

static inline struct kofi_watch run_test(int file, struct kofi_test test)
{
	EXPECT_RESULT(0, request(file, KOFI_PERF_IOC_START, &test));
	return watch(file, TIMEOUT_MSEC);
}

static inline int stop(int file)
{
	struct kofi_stop stop = { .size = sizeof(stop) };

	return request(file, KOFI_PERF_IOC_STOP, &stop);
}

/* Starts a server for the clients of one transport, and waits until it runs. */
static inline int start_server_with(__u32 flags)
{
	struct kofi_test test = default_test(KOFI_TEST_SERVER);
	int file = open_perf(), tries = TIMEOUT_MSEC / 10;

	test.flags = flags;
	EXPECT_RESULT(0, request(file, KOFI_PERF_IOC_START, &test));
	while (watch(file, 10).state == KOFI_TEST_STARTING && tries--)
		;
	EXPECT(watch(file, 0).state == KOFI_TEST_RUNNING);
	return file;
}

static inline int start_server(void)
{
	return start_server_with(0);
}

/* Starts a client that runs until it is stopped. */
static inline int start_client(__u32 kind, __u32 flags)
{
	struct kofi_test test = default_test(kind);
	int file = open_perf();

	test.flags = flags;
	test.count = 0;
	EXPECT_RESULT(0, request(file, KOFI_PERF_IOC_START, &test));
	return file;
}

/* Waits until the client has completed more messages, or has ended. */
static inline struct kofi_watch wait_for_progress(int file, __u64 messages)
{
	int tries = TIMEOUT_MSEC / 10;
	struct kofi_watch seen;

	do
		seen = watch(file, 10);
	while (seen.messages <= messages && seen.state != KOFI_TEST_OVER &&
	       tries--);
	EXPECT(seen.state == KOFI_TEST_RUNNING && seen.messages > messages);
	return seen;
}

/* Calls work() in a child process, and kills the process. */
static inline void run_in_killed_process(void (*work)(void))
{
	int status, ready[2];
	char byte;
	pid_t child;

	EXPECT(!pipe(ready));
	child = fork();
	if (!child) {
		work();
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

/* Runs the tests of a program whose arguments are the address and the type of the device. */
static inline int run_device_tests(int argc, char **argv, const struct test *tests,
				   int count)
{
	if (argc != 3)
		return 2;
	address = argv[1];
	loses_reject_data = !strcmp(argv[2], "siw");
	run_tests(tests, count);
	return 0;
}

#endif /* KOFI_TESTING_DEV_TEST_H */
