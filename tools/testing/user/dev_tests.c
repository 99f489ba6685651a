// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of /dev/kofi_perf with one server and one client at a time. Each test
 * reports one line.
 *
 *	dev_tests ADDRESS DEVICE
 */

#include <rdma/fi_errno.h>
#include <stddef.h>

#include "dev_test.h"

static void pingpong_messages_are_echoed_intact(void)
{
	static const __u64 lengths[] = { 1, 64, 4096, 65536 };
	__u64 buckets[KOFI_TEST_BUCKETS], trips;
	int server = start_server(), client = open_perf();
	struct kofi_watch seen = {};

	for (unsigned int i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct kofi_test test = default_test(KOFI_TEST_PINGPONG);

		test.flags = KOFI_TEST_VERIFY;
		test.length = lengths[i];
		seen = run_test(client, test);
		EXPECT(seen.state == KOFI_TEST_OVER);
		EXPECT_RESULT(0, seen.error);
		EXPECT(seen.messages == 10 && !seen.damaged);
		EXPECT(seen.bytes == 10 * lengths[i]);
		EXPECT(seen.min > 0 && seen.min <= seen.max);
		EXPECT(seen.max <= seen.nsec);
	}
	memset(buckets, 0xff, sizeof(buckets));
	seen.buckets = (unsigned long)buckets;
	seen.bucket_count = KOFI_TEST_BUCKETS;
	EXPECT_RESULT(0, request(client, KOFI_PERF_IOC_WATCH, &seen));
	trips = 0;
	for (int i = 0; i < KOFI_TEST_BUCKETS; i++)
		trips += buckets[i];
	EXPECT(trips == 10);

	EXPECT_RESULT(0, stop(server));
	seen = watch(server, 0);
	EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
	EXPECT(seen.clients == ARRAY_SIZE(lengths));
	EXPECT(seen.messages == 10 * ARRAY_SIZE(lengths) && !seen.damaged);
	close(client);
	close(server);
}

static void stream_messages_arrive_intact(void)
{
	static const __u32 windows[] = { 1, 2, 16, 100 };
	int server = start_server(), client = open_perf();
	struct kofi_watch seen;

	for (unsigned int i = 0; i < ARRAY_SIZE(windows); i++) {
		struct kofi_test test = default_test(KOFI_TEST_STREAM);

		test.flags = KOFI_TEST_VERIFY;
		test.window = windows[i];
		test.length = 5000;
		test.count = 333;
		seen = run_test(client, test);
		EXPECT(seen.state == KOFI_TEST_OVER);
		EXPECT_RESULT(0, seen.error);
		EXPECT(seen.messages == 333 && !seen.damaged);
		EXPECT(seen.bytes == 333 * 5000);
		EXPECT(seen.nsec > 0);
	}
	EXPECT_RESULT(0, stop(server));
	seen = watch(server, 0);
	EXPECT(seen.clients == ARRAY_SIZE(windows));
	EXPECT(seen.messages == 333 * ARRAY_SIZE(windows) && !seen.damaged);
	close(client);
	close(server);
}

static void a_test_ends_in_time(void)
{
	int server = start_server(), client = open_perf();
	struct kofi_test test = default_test(KOFI_TEST_PINGPONG);
	struct kofi_watch seen;

	test.count = 0;
	test.msec = 200;
	seen = run_test(client, test);
	EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
	EXPECT(seen.messages > 0 && seen.nsec >= 200 * 1000000ULL);
	test = default_test(KOFI_TEST_STREAM);
	test.count = 0;
	test.msec = 200;
	seen = run_test(client, test);
	EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
	EXPECT(seen.messages > 0);
	/* Setup takes longer than the test, and is not included in its time. */
	for (__u32 kind = KOFI_TEST_PINGPONG; kind <= KOFI_TEST_READ; kind++) {
		test = default_test(kind);
		test.length = KOFI_TEST_MAX_LENGTH;
		test.window = kind == KOFI_TEST_PINGPONG ? 0 : 16;
		test.count = 0;
		test.msec = 1;
		seen = run_test(client, test);
		EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
		EXPECT(seen.messages > 0 && seen.nsec);
	}
	close(client);
	close(server);
}

/* A test without a limit runs until it is stopped or its file is closed. */
static void a_test_can_be_stopped(void)
{
	int server = start_server(), client = open_perf();
	struct kofi_test test = default_test(KOFI_TEST_STREAM);
	struct kofi_watch seen;

	test.count = 0;
	seen.state = KOFI_TEST_STARTING;
	EXPECT_RESULT(0, request(client, KOFI_PERF_IOC_START, &test));
	for (int tries = TIMEOUT_MSEC / 10; tries; tries--) {
		seen = watch(client, 10);
		if (seen.messages > 100)
			break;
	}
	EXPECT(seen.state == KOFI_TEST_RUNNING && seen.messages > 100);
	EXPECT_RESULT(EBUSY, request(client, KOFI_PERF_IOC_START, &test));
	EXPECT_RESULT(0, stop(client));
	EXPECT_RESULT(0, stop(client));
	seen = watch(client, TIMEOUT_MSEC);
	EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
	/* The file can start another test, which its close ends. */
	EXPECT_RESULT(0, request(client, KOFI_PERF_IOC_START, &test));
	close(client);
	close(server);
}

static void leave_server_running(void)
{
	start_server();
}

/* Killing a process ends its server, and frees the port. */
static void killed_process_ends_its_server(void)
{
	for (int i = 0; i < 3; i++)
		run_in_killed_process(leave_server_running);
}

static void connection_errors_are_reported(void)
{
	struct kofi_watch seen, empty = { .size = sizeof(empty) };
	struct kofi_test test = default_test(KOFI_TEST_PINGPONG);
	int client = open_perf();

	EXPECT_RESULT(ENOENT, request(client, KOFI_PERF_IOC_WATCH, &empty));
	EXPECT_RESULT(ENOENT, stop(client));
	/* No server listens; the device does not exist; the address is invalid. */
	seen = run_test(client, test);
	EXPECT(seen.state == KOFI_TEST_OVER);
	EXPECT_RESULT(FI_ECONNREFUSED, seen.error);
	strcpy(test.domain_name, "nothing0");
	EXPECT_RESULT(FI_ENODATA, run_test(client, test).error);
	*test.domain_name = 0;
	strcpy(test.node, "nobody");
	EXPECT_RESULT(FI_ENODATA, run_test(client, test).error);
	close(client);
}

/* A second server on a port fails with FI_EADDRINUSE. */
static void a_port_has_one_server(void)
{
	int server = start_server(), second = open_perf();

	EXPECT_RESULT(FI_EADDRINUSE,
		      run_test(second, default_test(KOFI_TEST_SERVER)).error);
	close(second);
	close(server);
}

static void invalid_test_parameters_are_rejected(void)
{
	const struct {
		__u32 kind, window;
		__u64 length, count;
		__u32 msec;
	} invalid[] = {
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
	struct kofi_test test = default_test(KOFI_TEST_PINGPONG);
	int file = open_perf();

	test.reserved = 1;
	EXPECT_RESULT(EOPNOTSUPP, request(file, KOFI_PERF_IOC_START, &test));
	test.reserved = 0;
	memset(test.service, '1', sizeof(test.service));
	EXPECT_RESULT(EINVAL, request(file, KOFI_PERF_IOC_START, &test));
	for (unsigned int i = 0; i < ARRAY_SIZE(invalid); i++) {
		test = default_test(invalid[i].kind);
		test.window = invalid[i].window;
		test.length = invalid[i].length;
		test.count = invalid[i].count;
		test.msec = invalid[i].msec;
		EXPECT_RESULT(EINVAL, request(file, KOFI_PERF_IOC_START, &test));
	}
	close(file);
}

static void invalid_atomic_parameters_are_rejected(void)
{
	static const struct {
		__u32 kind, op, datatype;
		__u64 length;
	} invalid[] = {
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
	int file = open_perf();

	for (unsigned int i = 0; i < ARRAY_SIZE(invalid); i++) {
		struct kofi_test test = default_test(invalid[i].kind);

		test.op = invalid[i].op;
		test.datatype = invalid[i].datatype;
		test.length = invalid[i].length;
		EXPECT_RESULT(EINVAL, request(file, KOFI_PERF_IOC_START, &test));
	}
	close(file);
}

/* The first version of the struct ended before the member op. */
static void structs_of_the_first_version_are_accepted(void)
{
	int server = start_server(), client = open_perf();
	struct kofi_test test = default_test(KOFI_TEST_PINGPONG);
	struct kofi_watch seen = {};

	test.size = offsetof(struct kofi_test, op);
	test.op = ~0U;
	EXPECT_RESULT(0, run_test(client, test).error);
	/* The first version of struct kofi_watch ended before the member refusal. */
	seen.size = offsetof(struct kofi_watch, refusal);
	seen.refusal = ~0U;
	EXPECT_RESULT(0, request(client, KOFI_PERF_IOC_WATCH, &seen));
	EXPECT(seen.messages == test.count && seen.refusal == ~0U);
	close(client);
	close(server);
}

static const struct test tests[] = {
	TEST(pingpong_messages_are_echoed_intact),
	TEST(stream_messages_arrive_intact),
	TEST(a_test_ends_in_time),
	TEST(a_test_can_be_stopped),
	TEST(killed_process_ends_its_server),
	TEST(connection_errors_are_reported),
	TEST(a_port_has_one_server),
	TEST(invalid_test_parameters_are_rejected),
	TEST(invalid_atomic_parameters_are_rejected),
	TEST(structs_of_the_first_version_are_accepted),
};

int main(int argc, char **argv)
{
	return run_device_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
