// SPDX-License-Identifier: GPL-2.0
/* Tests datagram endpoints with raw peers, which send unusual connection requests and packets. */

#include <linux/delay.h>
#include <linux/in.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>

#include "rdm.h"
#include "rdm_raw.h"

#define LEN		100
#define LONG		(2 * RAW_EAGER)
/* Time to wait for something that may not happen. */
#define QUIET_MS	300

static void send_raw(struct kunit *test, struct raw *raw, u8 *packet, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, len));
}

/* Sends one of the two segments of a message. */
static void send_segment(struct kunit *test, struct raw *raw, u64 id, size_t len, u32 nth, u32 seed)
{
	u8 *packet = raw_await_free(test, raw);
	size_t part = nth ? len - RAW_EAGER : RAW_EAGER;
	struct raw_header *header = raw_init_packet(raw, packet, RAW_PKT_SEG);

	header->len = len;
	header->id = id;
	header->segment = nth;
	header->segment_len = part;
	header->extra = nth ? RAW_SEG_LAST : RAW_SEG_FIRST;
	tr_fill(packet + RAW_HEADER, part, seed + nth);
	send_raw(test, raw, packet, RAW_HEADER + part);
}

static void send_message(struct kunit *test, struct raw *raw, u64 id, u32 seed)
{
	send_segment(test, raw, id, LONG, 0, seed);
	send_segment(test, raw, id, LONG, 1, seed);
	raw_await_sent(test, raw);
}

/* libfabric reuses the id of a segmented message once it has sent the last segment. */
static void rdm_07_a_message_id_is_reused_after_the_last_segment(struct kunit *test)
{
	u8 *in = tr_vbuffer(test, LONG);
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	struct raw *raw = raw_open_connected(test, &rdm->name, 0);

	for (u32 nth = 0; nth < 6; nth++) {
		if (nth == 3)
			raw_reconnect_as(test, raw, &rdm->name, RAW_PORT, 0);
		send_message(test, raw, 5, 10 * nth);
	}
	for (u32 nth = 0; nth < 6; nth++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, in, LONG, in));
		rdm_expect(test, rdm, in, NULL);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, RAW_EAGER, 10 * nth));
		KUNIT_EXPECT_TRUE(test, tr_intact(in + RAW_EAGER, RAW_EAGER, 10 * nth + 1));
	}
}

/* Eager messages that exceed the limit of a peer's unexpected bytes. */
#define TOO_MANY	(SZ_4M / RAW_EAGER)

/* Two segmented messages have the same id, and the second segments wait for memory. */
static void rdm_07_messages_with_equal_ids_are_not_mixed_up(struct kunit *test)
{
	static const size_t lens[] = { LONG, RAW_EAGER + LEN };
	u8 *in = tr_vbuffer(test, LONG), *packet;
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	struct raw *raw = raw_open_connected(test, &rdm->name, 0);
	struct fi_cq_tagged_entry entry;

	send_segment(test, raw, 5, lens[0], 0, 10);
	for (int i = 0; i < TOO_MANY; i++) {
		packet = raw_await_free(test, raw);
		raw_init_packet(raw, packet, RAW_PKT_EAGER)->len = RAW_EAGER;
		send_raw(test, raw, packet, RAW_PKT_MAX);
	}
	send_segment(test, raw, 5, lens[0], 1, 10);
	send_segment(test, raw, 5, lens[1], 0, 20);
	send_segment(test, raw, 5, lens[1], 1, 20);
	raw_await_sent(test, raw);
	for (int nth = 0; nth < ARRAY_SIZE(lens); nth++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, in, LONG, in));
		rdm_expect(test, rdm, in, &entry);
		KUNIT_EXPECT_EQ(test, lens[nth], entry.len);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, RAW_EAGER, 10 + 10 * nth));
		KUNIT_EXPECT_TRUE(test, tr_intact(in + RAW_EAGER, lens[nth] - RAW_EAGER, 11 + 10 * nth));
		for (int i = 0; !nth && i < TOO_MANY; i++) {
			KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, in, LONG, in));
			rdm_expect(test, rdm, in, NULL);
		}
	}
	raw_progress(raw);
	KUNIT_EXPECT_FALSE_MSG(test, raw->is_closed, "the connection has ended");
}

/* Receives all unexpected messages; returns their number. */
static int receive_all(struct kunit *test, struct kofi_rdm *rdm, u8 *in)
{
	struct fi_cq_tagged_entry entry;
	int count = 0;

	for (;; count++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, in, RAW_EAGER, in));
		if (fi_cq_sread(rdm->cq, &entry, 1, NULL, QUIET_MS) != 1)
			break;
	}
	KUNIT_ASSERT_EQ(test, 0, fi_cancel(&rdm->ep->fid, in));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, rdm->cq, &(struct fi_cq_err_entry){}));
	return count;
}

#define CONNECTIONS	8

/* Unexpected messages of a closed connection count toward the limit of their peer. */
static void rdm_06_the_unexpected_limit_outlives_a_connection(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	u8 *in = tr_vbuffer(test, RAW_EAGER), *packet;
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	int sent = 0, unexpected;

	for (u32 connection = 1; connection <= CONNECTIONS; connection++) {
		raw_reconnect_as(test, raw, &rdm->name, RAW_PORT, 0);
		while ((packet = raw_get_packet_within(raw, QUIET_MS))) {
			raw_init_packet(raw, packet, RAW_PKT_EAGER)->len = RAW_EAGER;
			send_raw(test, raw, packet, RAW_PKT_MAX);
			sent++;
		}
		raw_disconnect(test, raw);
	}
	unexpected = receive_all(test, rdm, in);
	kunit_info(test, "%d sent, %d received\n", sent, unexpected);
	KUNIT_EXPECT_GE(test, unexpected, SZ_1M / (RAW_EAGER + SZ_1K));
	KUNIT_EXPECT_LE(test, unexpected, 3 * SZ_1M / RAW_EAGER);
	rdm_exchange(test, rdm, rdm_addr(test, rdm, rdm), rdm);
}

#define OVERRUN_CONNECTIONS		48
#define BURST		64

/*
 * Connections share receive packets: a peer that exceeds its credits uses receives
 * of other peers. Its connection is closed, and messages of the others still arrive.
 */
static void rdm_06_exceeding_the_credits_ends_the_connection(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	u8 *in = tr_vbuffer(test, RAW_EAGER), *packet;
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	fi_addr_t to = rdm_addr(test, other, rdm);

	if (raw->needs_recv)
		kunit_skip(test, "on iWARP a message without a receive ends the connection");
	rdm_exchange(test, other, to, rdm);
	for (u32 connection = 1; connection <= OVERRUN_CONNECTIONS; connection++) {
		struct raw_connect_data data = raw_connect_data(raw, RAW_PORT);

		data.flow = 1;
		raw_reconnect(test, raw, &rdm->name, &data, sizeof(data));
		/* The raw peer announces no receives of its own either. */
		while ((packet = raw_get_packet_within(raw, FX_WAIT_MS))) {
			raw_init_packet(raw, packet, RAW_PKT_EAGER)->len = 1;
			if (raw_send(raw, packet, RAW_HEADER + 1))
				break;
		}
		raw_await_closed(test, raw, "credits are exceeded");
		raw_disconnect(test, raw);
	}
	kunit_info(test, "%d of its messages received\n", receive_all(test, rdm, in));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < BURST; i++)
			KUNIT_ASSERT_EQ(test, 0, rdm_send(other, to, in, 1, in));
		for (int i = 0; i < BURST; i++)
			rdm_expect(test, other, in, NULL);
		KUNIT_EXPECT_EQ(test, BURST, receive_all(test, rdm, in));
	}
}

/* Only an endpoint with FI_RMA and FI_REMOTE_WRITE reports the CQ data of a write. */
static void rdm_cq_data_without_remote_write_is_dropped(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	struct raw *raw = raw_open_connected(test, &rdm->name, 0);
	struct fi_cq_tagged_entry entry;

	if (raw->needs_recv)
		kunit_skip(test, "iWARP has no writes with immediate data");
	KUNIT_ASSERT_EQ(test, 0, fi_writedata(raw->ep, raw->memory, 0, NULL, 77, 0, 0, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_sread(rdm->cq, &entry, 1, NULL, QUIET_MS));
	rdm_exchange(test, other, rdm_addr(test, other, rdm), rdm);
}

/* Connect data that is too short or has an invalid byte is rejected; longer data is accepted. */
static void rdm_invalid_connect_data_is_rejected(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	struct raw_connect_data good = raw_connect_data(raw, RAW_PORT);
	struct {
		size_t	at;
		u8	byte;
	} invalid[] = {
		{ 0, 0 }, { 0, 2 }, { 1, 0 }, { 1, 1 }, { 1, 3 }, { 2, 3 }, { 2, 5 }, { 3, 2 }, { 3, 4 },
		{ 4, 0 }, { 6, 3 }, { 6, 255 }, { 7, 1 }, { 7, 255 }, { 8, 1 }, { 9, 0 }, { 10, 1 }, { 11, 128 },
	};
	static const u8 reject_data[] = { 1, 1 };
	fi_addr_t addr = rdm_addr(test, other, rdm);
	u8 data[55] = {};

	for (int i = 0; i < ARRAY_SIZE(invalid); i++) {
		memcpy(data, &good, sizeof(good));
		data[invalid[i].at] = invalid[i].byte;
		KUNIT_EXPECT_EQ_MSG(test, FI_ECONNREFUSED,
				    raw_connect(test, raw, &rdm->name, data, sizeof(good)),
				    "byte %zu is %u", invalid[i].at, invalid[i].byte);
		/* siw may lose the reject data. */
		if (raw->cm_data_len)
			KUNIT_EXPECT_MEMEQ(test, reject_data, raw->cm_data, sizeof(reject_data));
	}
	rdm_exchange(test, other, addr, rdm);
	for (size_t len = 0; len < sizeof(good); len++)
		KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, raw_connect(test, raw, &rdm->name, &good, len));
	/* Data behind the known fields may belong to a later version. */
	memcpy(data, &good, sizeof(good));
	for (size_t len = sizeof(good); len <= sizeof(data); len += 31) {
		((struct raw_connect_data *)data)->instance++;
		memset(data + sizeof(good), 0xff, sizeof(data) - sizeof(good));
		raw_reconnect(test, raw, &rdm->name, data, len);
		raw_disconnect(test, raw);
	}
	rdm_exchange(test, other, addr, rdm);
}

#define PEERS	140

/* Connections of peers that cancel the request, or send nothing, are free once the peers close. */
static void rdm_silent_peers_do_not_keep_connections(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	struct kofi_rdm *late = rdm_open(test, NULL);
	fi_addr_t addr = rdm_addr(test, other, rdm);
	struct fi_eq_err_entry error;
	struct fx_cm_event event;
	struct fid_ep **eps = (void *)tr_buffer(test, PEERS * sizeof(*eps));
	int in = 0, out = 0, peers = 0;
	const size_t unlimited = 0;
	u32 what;

	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&rdm->ep->fid, FI_OPT_ENDPOINT, FI_OPT_KOFI_SOURCE_BYTES,
					   &unlimited, sizeof(unlimited)));
	rdm_exchange(test, other, addr, rdm);
	for (int round = 0; round < 2; round++) {
		for (peers = 0; peers < PEERS; peers++) {
			struct raw_connect_data data = raw_connect_data(raw, 10 + peers);

			eps[peers] = fx_bound_ep(test, raw->fx);
			/* The device may have no more queue pairs. */
			if (fi_connect(eps[peers], &rdm->name, &data, sizeof(data))) {
				fx_close(test, &eps[peers]->fid);
				break;
			}
		}
		rdm_exchange(test, other, addr, rdm);
		for (int left = peers; round && left--;) {
			error = (struct fi_eq_err_entry){};
			if (fi_eq_sread(raw->fx->eq, &what, &event, sizeof(event), FX_WAIT_MS, 0) > 0)
				in++;
			else if (fi_eq_readerr(raw->fx->eq, &error, 0) > 0)
				out++;
			rdm_exchange(test, other, addr, rdm);
		}
		for (int i = 0; i < peers; i++)
			fx_close(test, &eps[i]->fid);
		rdm_exchange(test, other, addr, rdm);
	}
	kunit_info(test, "%d connected, %d failed\n", in, out);
	KUNIT_EXPECT_EQ(test, peers, in + out);
	/* The endpoint frees a connection when it gets the event of the peer's close. */
	addr = rdm_addr(test, late, rdm);
	for (int tries = 0; tries < 100; tries++) {
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry failed = {};

		KUNIT_ASSERT_EQ(test, 0, rdm_send(late, addr, eps, 0, eps));
		if (fi_cq_sread(late->cq, &entry, 1, NULL, FX_WAIT_MS) == 1)
			break;
		KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(late->cq, &failed, 0));
		msleep(100);
	}
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, eps, 0, eps));
	rdm_expect(test, rdm, eps, NULL);
	rdm_exchange(test, late, addr, rdm);
}

/* A listener for connected endpoints, at an address to which the datagram endpoint sends. */
struct fake {
	struct kofi_fabric_fx	*fx;
	struct fid_pep		*pep;
	struct kofi_rdm		*rdm;
	fi_addr_t		addr;
	u8			*out;
};

static struct fake *open_fake(struct kunit *test)
{
	struct fake *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);
	struct kofi_rdm other = { .name_len = sizeof(other.name) };

	KUNIT_ASSERT_NOT_NULL(test, fake);
	fake->out = tr_buffer(test, LEN);
	fake->fx = fx_open(test);
	fake->pep = fx_listen(test, fake->fx->fabric, fake->fx->info, fake->fx->eq);
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&fake->pep->fid, &other.name, &other.name_len));
	fake->rdm = rdm_open(test, NULL);
	fake->addr = rdm_addr(test, fake->rdm, &other);
	return fake;
}

/* A peer that always rejects with "simultaneous connect" but never connects is given up. */
static void rdm_04_endless_simultaneous_connect_rejects_fail(struct kunit *test)
{
	static const u8 simultaneous[] = { 1, 2 };
	struct fake *fake = open_fake(test);
	unsigned long end = jiffies + msecs_to_jiffies(2 * FX_WAIT_MS);
	struct fi_cq_err_entry error = {};
	struct fx_cm_event event;
	int asked = 0;
	u32 what;

	KUNIT_ASSERT_EQ(test, 0, rdm_send(fake->rdm, fake->addr, fake->out, LEN, fake->out));
	while (fi_cq_readerr(fake->rdm->cq, &error, 0) != 1 && time_before(jiffies, end)) {
		if (fi_eq_sread(fake->fx->eq, &what, &event, sizeof(event), 10, 0) <= 0)
			continue;
		KUNIT_ASSERT_EQ(test, FI_CONNREQ, what);
		KUNIT_EXPECT_EQ(test, 0, fi_reject(fake->pep, event.entry.info->handle, simultaneous,
						   sizeof(simultaneous)));
		fi_freeinfo(event.entry.info);
		asked++;
	}
	kunit_info(test, "%d requests\n", asked);
	KUNIT_EXPECT_PTR_EQ(test, (void *)fake->out, error.op_context);
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
}

static void rdm_invalid_accept_data_ends_the_connection(struct kunit *test)
{
	struct fake *fake = open_fake(test);
	struct raw_accept_data good = { .name = 3, .instance = 4, .receives = 5, .flow = 2 };
	static const size_t lens[] = { 0, 1, 12, 15, 16, 16 };

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		struct fi_cq_err_entry error = {};
		struct fi_info *request;
		struct fid_ep *ep;

		good.flow = 3 + 200 * (i & 1);
		KUNIT_ASSERT_EQ(test, 0, rdm_send(fake->rdm, fake->addr, fake->out, LEN, fake->out));
		request = fx_wait_request(test, fake->fx->eq);
		ep = fx_ep(test, fake->fx->domain, request);
		fx_bind(test, ep, fake->fx->eq, fake->fx->cq, FI_TRANSMIT | FI_RECV);
		KUNIT_ASSERT_EQ(test, 0, fi_accept(ep, &good, lens[i]));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, fake->rdm->cq, &error));
		KUNIT_EXPECT_PTR_EQ(test, (void *)fake->out, error.op_context);
		KUNIT_EXPECT_EQ(test, FI_ECONNABORTED, error.err);
		fx_close(test, &ep->fid);
	}
}

/* A TCP listener without RDMA; closed with the test. */
struct tcp {
	struct socket		*socket;
	struct sockaddr_in	name;
};

KUNIT_DEFINE_ACTION_WRAPPER(release_socket, sock_release, struct socket *);

static struct tcp *open_tcp(struct kunit *test, const struct kofi_rdm *rdm)
{
	struct tcp *tcp = kunit_kzalloc(test, sizeof(*tcp), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, tcp);
	memcpy(&tcp->name, &rdm->name, sizeof(tcp->name));
	KUNIT_ASSERT_EQ(test, AF_INET, tcp->name.sin_family);
	tcp->name.sin_port = 0;
	KUNIT_ASSERT_EQ(test, 0, sock_create_kern(&init_net, PF_INET, SOCK_STREAM, IPPROTO_TCP,
						  &tcp->socket));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, release_socket, tcp->socket));
	tcp->socket->sk->sk_rcvtimeo = msecs_to_jiffies(FX_WAIT_MS);
	KUNIT_ASSERT_EQ(test, 0, kernel_bind(tcp->socket, (void *)&tcp->name, sizeof(tcp->name)));
	KUNIT_ASSERT_EQ(test, 0, kernel_listen(tcp->socket, 1));
	KUNIT_ASSERT_GT(test, kernel_getsockname(tcp->socket, (void *)&tcp->name), 0);
	return tcp;
}

/* Accepts a TCP connection; replies with a zeroed MPA header and 4 bytes that are not announced. */
static int reply_invalid(struct tcp *tcp)
{
	char received[64], reply[20 + 4] = {};
	struct kvec in = { .iov_base = received, .iov_len = sizeof(received) };
	struct kvec out = { .iov_base = reply, .iov_len = sizeof(reply) };
	struct msghdr msg = { .msg_flags = MSG_NOSIGNAL };
	struct socket *client;
	int ret;

	ret = kernel_accept(tcp->socket, &client, 0);
	if (ret)
		return ret;
	client->sk->sk_rcvtimeo = msecs_to_jiffies(FX_WAIT_MS);
	/* Waits for the MPA request. */
	ret = kernel_recvmsg(client, &msg, &in, 1, sizeof(received), 0);
	if (ret > 0)
		ret = kernel_sendmsg(client, &msg, &out, 1, sizeof(reply));
	/* Waits for the end of the connection. */
	while (ret > 0)
		ret = kernel_recvmsg(client, &msg, &in, 1, sizeof(received), 0);
	sock_release(client);
	return ret;
}

#define RETRIES	6

/* siw can misread a valid MPA reply that arrives early, so an invalid reply is retried. */
static void rdm_04_an_invalid_mpa_reply_is_retried(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other;
	u8 *out = tr_buffer(test, LEN);
	struct fi_cq_err_entry error;
	struct tcp *tcp;
	fi_addr_t addr;

	if (!tr_is_iwarp(fx->info))
		kunit_skip(test, "only iWARP has MPA replies");
	tcp = open_tcp(test, rdm);
	KUNIT_ASSERT_EQ(test, 1, rdm_insert(rdm, &tcp->name, &addr, 0));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(rdm, addr, out, LEN, out));
	for (int i = 0; i < RETRIES; i++) {
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_readerr(rdm->cq, &error, 0));
		KUNIT_ASSERT_EQ_MSG(test, 0, reply_invalid(tcp), "connection request %d", i);
	}
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, rdm->cq, &error));
	KUNIT_EXPECT_PTR_EQ(test, (void *)out, error.op_context);
	KUNIT_EXPECT_EQ(test, FI_ECONNABORTED, error.err);
	/* A later endpoint at that address is reachable. */
	kunit_release_action(test, release_socket, tcp->socket);
	other = rdm_open(test, &(struct rdm_opts){ .port = ntohs(tcp->name.sin_port) });
	rdm_exchange(test, rdm, addr, other);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(rdm_07_a_message_id_is_reused_after_the_last_segment),
	KUNIT_CASE_SLOW(rdm_07_messages_with_equal_ids_are_not_mixed_up),
	KUNIT_CASE_SLOW(rdm_06_the_unexpected_limit_outlives_a_connection),
	KUNIT_CASE_SLOW(rdm_06_exceeding_the_credits_ends_the_connection),
	KUNIT_CASE(rdm_cq_data_without_remote_write_is_dropped),
	KUNIT_CASE(rdm_invalid_connect_data_is_rejected),
	KUNIT_CASE_SLOW(rdm_silent_peers_do_not_keep_connections),
	KUNIT_CASE_SLOW(rdm_04_endless_simultaneous_connect_rejects_fail),
	KUNIT_CASE(rdm_invalid_accept_data_ends_the_connection),
	KUNIT_CASE(rdm_04_an_invalid_mpa_reply_is_retried),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_raw_peers",
	.test_cases = cases,
};

kunit_test_suite(suite);
