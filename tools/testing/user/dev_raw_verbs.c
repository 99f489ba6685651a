// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the raw-verbs transport of /dev/kofi_perf. The results are printed as
 * KTAP.
 *
 *	dev_raw_verbs ADDRESS DEVICE
 */

#include <rdma/fi_errno.h>

#include "dev_test.h"

static void verbs_tests_transfer_intact_data(void)
{
	static const struct {
		__u32 kind;
		__u64 length, count;
	} cases[] = {
		{ KOFI_TEST_PINGPONG, 1, 33 },
		{ KOFI_TEST_PINGPONG, KOFI_TEST_MAX_LENGTH, 2 },
		{ KOFI_TEST_STREAM, 5000, 33 },
		{ KOFI_TEST_WRITE, 5000, 33 },
		{ KOFI_TEST_WRITE, KOFI_TEST_MAX_LENGTH, 2 },
		{ KOFI_TEST_READ, 5000, 33 },
		{ KOFI_TEST_READ, 1, 33 },
	};
	int server = start_server_with(KOFI_TEST_VERBS), client = open_perf();
	struct kofi_watch seen;

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kofi_test test = default_test(cases[i].kind);

		test.flags = KOFI_TEST_VERIFY | KOFI_TEST_VERBS;
		test.length = cases[i].length;
		test.count = cases[i].count;
		seen = run_test(client, test);
		EXPECT(seen.state == KOFI_TEST_OVER);
		EXPECT_RESULT(0, seen.error);
		EXPECT(seen.messages == test.count && !seen.damaged);
		EXPECT(seen.bytes == test.count * test.length);
	}
	EXPECT_RESULT(0, stop(server));
	seen = watch(server, 0);
	EXPECT(seen.clients == ARRAY_SIZE(cases) && !seen.error);
	close(client);
	close(server);
}

/* A server rejects clients of the other transport: the private data of their requests differs. */
static void clients_of_the_other_transport_are_refused(void)
{
	int server = start_server(), client = open_perf();
	struct kofi_test test = default_test(KOFI_TEST_PINGPONG);

	test.flags = KOFI_TEST_VERBS;
	EXPECT_RESULT(FI_ECONNREFUSED, run_test(client, test).error);
	test.flags = 0;
	EXPECT_RESULT(0, run_test(client, test).error);
	close(server);

	server = start_server_with(KOFI_TEST_VERBS);
	EXPECT_RESULT(FI_ECONNREFUSED, run_test(client, test).error);
	test.flags = KOFI_TEST_VERBS;
	EXPECT_RESULT(0, run_test(client, test).error);
	close(client);
	close(server);
}

/*
 * Either side can end during a test. A server whose client was stopped serves the
 * next client, and a client whose server was closed gets an error.
 */
static void verbs_tests_end_on_either_side(void)
{
	int server = start_server_with(KOFI_TEST_VERBS), client = open_perf();
	static const __u32 kinds[] = {
		KOFI_TEST_PINGPONG, KOFI_TEST_STREAM, KOFI_TEST_WRITE,
	};
	struct kofi_test test;

	for (unsigned int i = 0; i < ARRAY_SIZE(kinds); i++) {
		int tries = TIMEOUT_MSEC / 10;

		test = default_test(kinds[i]);
		test.flags = KOFI_TEST_VERBS;
		test.count = 0;
		EXPECT_RESULT(0, request(client, KOFI_PERF_IOC_START, &test));
		while (watch(client, 10).messages < 10 && tries--)
			;
		EXPECT_RESULT(0, stop(client));
		EXPECT_RESULT(0, watch(client, 0).error);
	}
	EXPECT_RESULT(0, request(client, KOFI_PERF_IOC_START, &test));
	for (int tries = TIMEOUT_MSEC / 10; tries; tries--) {
		if (watch(client, 10).messages >= 10)
			break;
	}
	close(server);
	EXPECT(watch(client, TIMEOUT_MSEC).state == KOFI_TEST_OVER);
	EXPECT(watch(client, 0).error);
	/* The server is closed, and nothing listens on the port. */
	EXPECT_RESULT(FI_ECONNREFUSED, run_test(client, test).error);
	close(client);
}

static void unsupported_verbs_atomics_are_rejected(void)
{
	static const struct {
		__u32 op, datatype;
		__u64 length;
	} invalid[] = {
		{ 0, UINT64, 8 },
		{ SUM, UINT64, 16 },
		{ SUM, UINT64 - 2, 8 },
		{ SUM, UINT64 - 2, 4 },
	};
	int file = open_perf();

	for (unsigned int i = 0; i < ARRAY_SIZE(invalid); i++) {
		struct kofi_test test = default_test(KOFI_TEST_ATOMIC);

		test.flags = KOFI_TEST_VERBS;
		test.op = invalid[i].op;
		test.datatype = invalid[i].datatype;
		test.length = invalid[i].length;
		EXPECT_RESULT(EINVAL, request(file, KOFI_PERF_IOC_START, &test));
	}
	close(file);
}

static const struct test tests[] = {
	TEST(verbs_tests_transfer_intact_data),
	TEST(clients_of_the_other_transport_are_refused),
	TEST(verbs_tests_end_on_either_side),
	TEST(unsupported_verbs_atomics_are_rejected),
};

int main(int argc, char **argv)
{
	return run_device_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
