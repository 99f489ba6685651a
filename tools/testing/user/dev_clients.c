// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of several clients of one server at a time. Each test reports one line.
 *
 *	dev_clients ADDRESS DEVICE
 */

#include <rdma/fi_errno.h>

#include "dev_test.h"

/* Flags of the transports: fabric interfaces and raw verbs. */
static const __u32 transports[] = { 0, KOFI_TEST_VERBS };

/*
 * Each of several clients makes progress while the others run. Writes and reads
 * complete without the server's thread.
 */
static void clients_are_served_concurrently(void)
{
	static const __u32 kinds[] = {
		KOFI_TEST_READ, KOFI_TEST_WRITE, KOFI_TEST_PINGPONG,
		KOFI_TEST_STREAM,
	};
	int clients[ARRAY_SIZE(kinds)], another = open_perf();

	for (unsigned int i = 0; i < ARRAY_SIZE(transports); i++) {
		struct kofi_test test = default_test(KOFI_TEST_PINGPONG);
		int server = start_server_with(transports[i]);
		__u64 messages[ARRAY_SIZE(kinds)];

		for (unsigned int k = 0; k < ARRAY_SIZE(kinds); k++) {
			clients[k] = start_client(kinds[k],
						  transports[i] | KOFI_TEST_VERIFY);
			messages[k] = wait_for_progress(clients[k], 0).messages;
		}
		test.flags = transports[i] | KOFI_TEST_VERIFY;
		EXPECT_RESULT(0, run_test(another, test).error);
		for (unsigned int k = 0; k < ARRAY_SIZE(kinds); k++)
			wait_for_progress(clients[k], messages[k]);
		for (unsigned int k = 0; k < ARRAY_SIZE(kinds); k++) {
			EXPECT_RESULT(0, stop(clients[k]));
			EXPECT(!watch(clients[k], 0).damaged);
			close(clients[k]);
		}
		EXPECT_RESULT(0, stop(server));
		EXPECT(watch(server, 0).clients == ARRAY_SIZE(kinds) + 1);
		EXPECT(!watch(server, 0).damaged);
		close(server);
	}
	close(another);
}

static void server_totals_count_all_clients(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(transports); i++) {
		int server = start_server_with(transports[i]), clients[3];
		struct kofi_watch seen;

		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++) {
			struct kofi_test test = default_test(KOFI_TEST_STREAM);

			clients[k] = open_perf();
			test.flags = transports[i];
			test.length = 100 + k;
			EXPECT_RESULT(0, request(clients[k], KOFI_PERF_IOC_START, &test));
		}
		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++) {
			seen = watch(clients[k], TIMEOUT_MSEC);
			EXPECT(seen.state == KOFI_TEST_OVER && !seen.error);
			close(clients[k]);
		}
		EXPECT_RESULT(0, stop(server));
		seen = watch(server, 0);
		EXPECT(seen.clients == 3 && seen.messages == 30);
		EXPECT(seen.bytes == 10 * (100 + 101 + 102));
		EXPECT(!seen.damaged && !seen.turned_away);
		close(server);
	}
}

/*
 * A client beyond the limit is refused with a reason, and is served when
 * another client has ended.
 */
static void client_over_the_limit_is_refused_with_a_reason(void)
{
	int clients[KOFI_TEST_MAX_CLIENTS], another = open_perf();

	for (unsigned int i = 0; i < ARRAY_SIZE(transports); i++) {
		struct kofi_test test = default_test(KOFI_TEST_PINGPONG);
		int server = start_server_with(transports[i]);
		int tries = TIMEOUT_MSEC / 10;
		struct kofi_watch seen;

		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++)
			clients[k] = start_client(KOFI_TEST_PINGPONG, transports[i]);
		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++)
			wait_for_progress(clients[k], 0);
		test.flags = transports[i];
		seen = run_test(another, test);
		EXPECT_RESULT(FI_ECONNREFUSED, seen.error);
		EXPECT(seen.refusal == KOFI_TEST_REFUSAL_FULL ||
		       (loses_reject_data && seen.refusal == KOFI_TEST_REFUSAL_NONE));
		EXPECT(watch(server, 0).turned_away == 1);
		EXPECT(watch(server, 0).clients == KOFI_TEST_MAX_CLIENTS);

		EXPECT_RESULT(0, stop(clients[0]));
		/* The server may not have seen the disconnect yet. */
		do
			seen = run_test(another, test);
		while (seen.error == FI_ECONNREFUSED && tries--);
		EXPECT_RESULT(0, seen.error);
		EXPECT(seen.refusal == KOFI_TEST_REFUSAL_NONE);

		/* Closing the server ends all clients. */
		close(server);
		for (unsigned int k = 1; k < ARRAY_SIZE(clients); k++) {
			seen = watch(clients[k], TIMEOUT_MSEC);
			EXPECT(seen.state == KOFI_TEST_OVER && seen.error);
		}
		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++)
			close(clients[k]);
		seen = run_test(another, test);
		EXPECT_RESULT(FI_ECONNREFUSED, seen.error);
		EXPECT(seen.refusal == KOFI_TEST_REFUSAL_NONE);
	}
	close(another);
}

/* The clients of two rounds together exceed the limit. */
enum { EACH = KOFI_TEST_MAX_CLIENTS / 2 + 1, ROUNDS = 2 };

static void start_clients(void)
{
	int files[EACH];

	for (int k = 0; k < EACH; k++)
		files[k] = start_client(KOFI_TEST_PINGPONG, 0);
	for (int k = 0; k < EACH; k++)
		wait_for_progress(files[k], 0);
}

static void killed_clients_free_their_slots(void)
{
	struct kofi_test test = default_test(KOFI_TEST_PINGPONG);
	int server = start_server(), client = open_perf();

	for (int round = 0; round < ROUNDS; round++) {
		int tries = TIMEOUT_MSEC / 10;

		run_in_killed_process(start_clients);
		while (run_test(client, test).error && tries--)
			;
		EXPECT(watch(client, 0).messages == test.count);
	}
	EXPECT_RESULT(0, stop(server));
	EXPECT(watch(server, 0).clients == ROUNDS * (EACH + 1));
	close(client);
	close(server);
}

static const struct test tests[] = {
	TEST(clients_are_served_concurrently),
	TEST(server_totals_count_all_clients),
	TEST(client_over_the_limit_is_refused_with_a_reason),
	TEST(killed_clients_free_their_slots),
};

int main(int argc, char **argv)
{
	return run_device_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
