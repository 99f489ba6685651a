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

/* No client waits for another. Writes and reads complete without the server's thread. */
static void clients_are_served_concurrently(void)
{
	static const __u32 kinds[] = {
		KOFI_TEST_READ, KOFI_TEST_WRITE, KOFI_TEST_PINGPONG,
		KOFI_TEST_STREAM,
	};
	int clients[ARRAY_SIZE(kinds)], another = open_perf();

	for (unsigned int i = 0; i < ARRAY_SIZE(transports); i++) {
		struct kofi_test test = a_test(KOFI_TEST_PINGPONG);
		int server = serve_with(transports[i]);
		__u64 messages[ARRAY_SIZE(kinds)];

		for (unsigned int k = 0; k < ARRAY_SIZE(kinds); k++) {
			clients[k] = begin(kinds[k],
					   transports[i] | KOFI_TEST_VERIFY);
			messages[k] = await_more(clients[k], 0).messages;
		}
		test.flags = transports[i] | KOFI_TEST_VERIFY;
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

static void server_totals_count_all_clients(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(transports); i++) {
		int server = serve_with(transports[i]), clients[3];
		struct kofi_watch seen;

		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++) {
			struct kofi_test test = a_test(KOFI_TEST_STREAM);

			clients[k] = open_perf();
			test.flags = transports[i];
			test.length = 100 + k;
			EXPECT_ANSWER(0, ask(clients[k], KOFI_PERF_IOC_START, &test));
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

/*
 * A client beyond the limit is refused with a reason, and is served when
 * another client has ended.
 */
static void client_over_the_limit_is_refused_with_a_reason(void)
{
	int clients[KOFI_TEST_MAX_CLIENTS], another = open_perf();

	for (unsigned int i = 0; i < ARRAY_SIZE(transports); i++) {
		struct kofi_test test = a_test(KOFI_TEST_PINGPONG);
		int server = serve_with(transports[i]);
		int tries = PATIENCE_MSEC / 10;
		struct kofi_watch seen;

		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++)
			clients[k] = begin(KOFI_TEST_PINGPONG, transports[i]);
		for (unsigned int k = 0; k < ARRAY_SIZE(clients); k++)
			await_more(clients[k], 0);
		test.flags = transports[i];
		seen = run(another, test);
		EXPECT_ANSWER(FI_ECONNREFUSED, seen.error);
		EXPECT(seen.refusal == KOFI_TEST_REFUSAL_FULL || (loses_words &&
		       seen.refusal == KOFI_TEST_REFUSAL_NONE));
		EXPECT(watch(server, 0).turned_away == 1);
		EXPECT(watch(server, 0).clients == KOFI_TEST_MAX_CLIENTS);

		EXPECT_ANSWER(0, stop(clients[0]));
		/* The server may not have seen the disconnect yet. */
		do
			seen = run(another, test);
		while (seen.error == FI_ECONNREFUSED && tries--);
		EXPECT_ANSWER(0, seen.error);
		EXPECT(seen.refusal == KOFI_TEST_REFUSAL_NONE);

		/* Closing the server ends all clients. */
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

/* The clients of two rounds together exceed the limit. */
enum { EACH = KOFI_TEST_MAX_CLIENTS / 2 + 1, ROUNDS = 2 };

static void start_clients(void)
{
	int files[EACH];

	for (int k = 0; k < EACH; k++)
		files[k] = begin(KOFI_TEST_PINGPONG, 0);
	for (int k = 0; k < EACH; k++)
		await_more(files[k], 0);
}

static void killed_clients_free_their_slots(void)
{
	struct kofi_test test = a_test(KOFI_TEST_PINGPONG);
	int server = serve(), client = open_perf();

	for (int round = 0; round < ROUNDS; round++) {
		int tries = PATIENCE_MSEC / 10;

		run_in_killed_process(start_clients);
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
	TEST(clients_are_served_concurrently),
	TEST(server_totals_count_all_clients),
	TEST(client_over_the_limit_is_refused_with_a_reason),
	TEST(killed_clients_free_their_slots),
};

int main(int argc, char **argv)
{
	return run_at(argc, argv, tests, ARRAY_SIZE(tests));
}
