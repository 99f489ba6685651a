// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the server of `kofi server` with clients that send invalid connect data,
 * invalid messages or nothing. The scenario client.sh runs the server.
 */

#include <linux/in.h>
#include <linux/inet.h>
#include <linux/moduleparam.h>

#include "traffic.h"

static unsigned short test_server;
module_param(test_server, ushort, 0444);
MODULE_PARM_DESC(test_server, "port of the `kofi server` on this machine; 0 skips the tests");

#define WINDOW	4
#define LEN	100

/* Connect data of a client, in the format of rust/perf/protocol.rs. */
struct connect_data {
	u8	magic[4];
	u8	version, kind, flags, zero;
	__be32	window, length;
};

enum { PINGPONG, STREAM };

/* Reject data of the server for invalid connect data. */
static const u8 reject_data[] = { 'k', 'O', 'F', 'I', 1, 2, 0, 0 };

static struct connect_data connect_data_of(u8 kind)
{
	return (struct connect_data){
		.magic = "kOFI", .version = 1, .kind = kind, .flags = 1,
		.window = cpu_to_be32(WINDOW), .length = cpu_to_be32(LEN),
	};
}

/*
 * Posts receives for the replies, and connects with len bytes of data. Sets errnum
 * to 0, or to the fabric errno of the failure. If the server rejects, checks the
 * reject data, which siw may lose.
 */
static struct fid_ep *connect_client(struct kunit *test, struct kofi_fabric_fx *fx,
				     const void *data, size_t len, u8 *reply,
				     int *errnum)
{
	struct fi_eq_err_entry error = {};
	struct fx_cm_event event;
	struct sockaddr_in to;
	struct fid_ep *ep;
	u32 what;

	ep = fx_bound_ep(test, fx);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
	to = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(test_server),
		.sin_addr.s_addr = in_aton(fx_addr),
	};
	for (int i = 0; i < WINDOW; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(ep, reply, LEN, NULL, 0,
						 NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_connect(ep, &to, data, len));
	if (fi_eq_sread(fx->eq, &what, &event, sizeof(event), FX_WAIT_MS, 0) > 0)
		KUNIT_EXPECT_EQ(test, FI_CONNECTED, what);
	else if (fi_eq_readerr(fx->eq, &error, 0) <= 0)
		error.err = FI_ETIMEDOUT;
	*errnum = error.err;
	if (error.err == FI_ECONNREFUSED &&
	    (error.err_data_size || !tr_is_iwarp(fx->info))) {
		KUNIT_ASSERT_GE(test, error.err_data_size, sizeof(reject_data));
		KUNIT_EXPECT_MEMEQ(test, reject_data, error.err_data,
				   sizeof(reject_data));
	}
	return ep;
}

static struct kofi_fabric_fx *open_fx(struct kunit *test)
{
	if (!test_server)
		kunit_skip(test, "no server: scenarios/client.sh sets test_server=");
	return fx_open(test);
}

static void perf_server_rejects_invalid_connect_data(struct kunit *test)
{
	struct connect_data valid = connect_data_of(STREAM), invalid[] = {
		valid, valid, valid, valid, valid, valid,
	};
	struct kofi_fabric_fx *fx = open_fx(test);
	u8 *reply = tr_buffer(test, LEN);
	int errnum;

	invalid[0].magic[0] = 'K';
	invalid[1].version = 2;
	invalid[2].kind = 3;
	invalid[3].window = 0;
	invalid[4].length = cpu_to_be32(1 << 30);
	invalid[5].zero = 1;
	for (int i = 0; i < ARRAY_SIZE(invalid); i++) {
		connect_client(test, fx, &invalid[i], sizeof(invalid[i]), reply,
			       &errnum);
		KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, errnum);
	}
	connect_client(test, fx, &valid, sizeof(valid) - 1, reply, &errnum);
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, errnum);
	connect_client(test, fx, NULL, 0, reply, &errnum);
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, errnum);
}

/* Reads completions until one has flag. Returns its length. */
static size_t wait_completion(struct kunit *test, struct kofi_fabric_fx *fx, u64 flag)
{
	struct fi_cq_tagged_entry done;

	do {
		KUNIT_ASSERT_EQ(test, 1, fi_cq_sread(fx->cq, &done, 1, NULL, FX_WAIT_MS));
	} while (!(done.flags & flag));
	return done.len;
}

/* Returns a buffer with the first message that a client sends. */
static u8 *first_message(struct kunit *test)
{
	u8 *message = tr_buffer(test, LEN);

	for (int at = 0; at < LEN; at++)
		message[at] = at;
	return message;
}

/* Sends a message, and waits for its completion. Skips completions of receives. */
static void send_and_wait(struct kunit *test, struct kofi_fabric_fx *fx,
			  struct fid_ep *ep, u8 *message, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, fi_send(ep, message, len, NULL, 0, NULL));
	wait_completion(test, fx, FI_SEND);
}

/* The server counts invalid messages, and returns the count. */
static void perf_server_counts_invalid_messages(struct kunit *test)
{
	struct kofi_fabric_fx *fx = open_fx(test);
	struct connect_data connect_data = connect_data_of(STREAM);
	u8 *message = first_message(test), *reply = tr_buffer(test, LEN);
	struct fid_ep *ep;
	int errnum;

	ep = connect_client(test, fx, &connect_data, sizeof(connect_data), reply, &errnum);
	KUNIT_ASSERT_EQ(test, 0, errnum);
	/* The first message is valid. The second repeats it, and the third is too short. */
	send_and_wait(test, fx, ep, message, LEN);
	send_and_wait(test, fx, ep, message, LEN);
	send_and_wait(test, fx, ep, message, LEN - 1);
	KUNIT_ASSERT_EQ(test, 0, fi_send(ep, NULL, 0, NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, sizeof(__be64), wait_completion(test, fx, FI_RECV));
	KUNIT_EXPECT_EQ(test, 2, be64_to_cpup((__be64 *)reply));
}

/* Clients that connect and send nothing do not delay other clients. */
static void perf_server_is_not_delayed_by_silent_clients(struct kunit *test)
{
	u8 *message = first_message(test), *reply = tr_buffer(test, LEN);
	struct kofi_fabric_fx *fx = open_fx(test);
	struct connect_data connect_data;
	struct fid_ep *ep;
	int errnum;

	for (u8 kind = PINGPONG; kind <= STREAM; kind++) {
		connect_data = connect_data_of(kind);
		connect_client(test, fx, &connect_data, sizeof(connect_data), reply, &errnum);
		KUNIT_ASSERT_EQ(test, 0, errnum);
	}
	connect_data = connect_data_of(PINGPONG);
	ep = connect_client(test, fx, &connect_data, sizeof(connect_data), reply, &errnum);
	KUNIT_ASSERT_EQ(test, 0, errnum);
	KUNIT_ASSERT_EQ(test, 0, fi_send(ep, message, LEN, NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, LEN, wait_completion(test, fx, FI_RECV));
	KUNIT_EXPECT_MEMEQ(test, message, reply, LEN);
}

/* A message that is too long ends its connection; other clients can still connect. */
static void perf_server_survives_a_message_that_is_too_long(struct kunit *test)
{
	struct kofi_fabric_fx *fx = open_fx(test);
	u8 *reply = tr_buffer(test, LEN);
	struct fx_cm_event event;
	struct fid_ep *ep;
	int errnum;

	for (u8 kind = PINGPONG; kind <= STREAM; kind++) {
		struct connect_data connect_data = connect_data_of(kind);

		ep = connect_client(test, fx, &connect_data, sizeof(connect_data), reply, &errnum);
		KUNIT_ASSERT_EQ(test, 0, errnum);
		KUNIT_ASSERT_EQ(test, 0, fi_send(ep, tr_buffer(test, 2 * LEN),
						 2 * LEN, NULL, 0, NULL));
		KUNIT_EXPECT_GT(test, fx_wait_event(test, fx->eq, FI_SHUTDOWN,
						    &event, sizeof(event)), 0);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(perf_server_rejects_invalid_connect_data),
	KUNIT_CASE_SLOW(perf_server_counts_invalid_messages),
	KUNIT_CASE_SLOW(perf_server_is_not_delayed_by_silent_clients),
	KUNIT_CASE_SLOW(perf_server_survives_a_message_that_is_too_long),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_perf_server",
	.test_cases = cases,
};

kunit_test_suite(suite);
