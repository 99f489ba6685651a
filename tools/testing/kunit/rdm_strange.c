// SPDX-License-Identifier: GPL-2.0
/* Tests datagram endpoints with peers that send unusual connection requests and packets. */

#include <linux/delay.h>
#include <linux/in.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include <rdma/fi_rma.h>

#include "rdm.h"
#include "rdm_raw.h"

/* Port of the raw peer, at which no endpoint listens. */
#define PORT		1
#define LEN		100
#define LONG		(2 * RAW_EAGER)
/* Time to wait for something that may not happen. */
#define MOMENT_MS	300

static u8 *await_packet(struct kunit *test, struct raw *raw, unsigned int ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms);
	u8 *packet;

	while (!(packet = raw_get_packet(raw)) && !raw->is_closed && time_before(jiffies, end))
		usleep_range(50, 100);
	return packet;
}

static void say(struct kunit *test, struct raw *raw, u8 *packet, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, len));
}

/* Waits until all packets that were sent are complete. */
static void be_heard(struct kunit *test, struct raw *raw)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	for (raw_progress(raw); raw->busy; raw_progress(raw)) {
		KUNIT_ASSERT_TRUE(test, time_before(jiffies, end));
		KUNIT_ASSERT_FALSE_MSG(test, raw->is_closed, "the connection has ended");
		usleep_range(50, 100);
	}
}

static void meet(struct kunit *test, struct raw *raw, struct kofi_rdm *rdm, u16 port, u32 instance)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct raw_connect_data data = raw_connect_data(raw, port, instance);

	/* The endpoint may still have the previous connection. */
	while (raw_connect(test, raw, &rdm->name, &data, sizeof(data))) {
		KUNIT_ASSERT_TRUE(test, time_before(jiffies, end));
		usleep_range(1000, 2000);
	}
}

/* Sends one of the two segments of a message. */
static void say_segment(struct kunit *test, struct raw *raw, u64 id, size_t len, u32 nth, u32 seed)
{
	u8 *packet = await_packet(test, raw, FX_WAIT_MS);
	size_t part = nth ? len - RAW_EAGER : RAW_EAGER;
	struct raw_header *header;

	KUNIT_ASSERT_NOT_NULL(test, packet);
	header = raw_init_packet(raw, packet, RAW_PKT_SEG);
	header->len = len;
	header->id = id;
	header->segment = nth;
	header->segment_len = part;
	header->extra = nth ? RAW_SEG_LAST : RAW_SEG_FIRST;
	tr_fill(packet + RAW_HEADER, part, seed + nth);
	say(test, raw, packet, RAW_HEADER + part);
}

static void say_long(struct kunit *test, struct raw *raw, u64 id, u32 seed)
{
	say_segment(test, raw, id, LONG, 0, seed);
	say_segment(test, raw, id, LONG, 1, seed);
	be_heard(test, raw);
}

/* Other implementations reuse a message id once the last packet is sent. */
static void rdm_07_a_name_is_free_when_its_message_is_whole(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	u8 *in = tr_vbuffer(test, LONG);
	struct kofi_rdm *rdm = rdm_open(test, NULL);

	meet(test, raw, rdm, PORT, 1);
	for (u32 nth = 0; nth < 6; nth++) {
		if (nth == 3) {
			raw_disconnect(test, raw);
			meet(test, raw, rdm, PORT, 2);
		}
		say_long(test, raw, 5, 10 * nth);
	}
	for (u32 nth = 0; nth < 6; nth++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, in, LONG, in));
		rdm_expect(test, rdm, in, NULL);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, RAW_EAGER, 10 * nth));
		KUNIT_EXPECT_TRUE(test, tr_intact(in + RAW_EAGER, RAW_EAGER, 10 * nth + 1));
	}
}

/* More eager messages than fit into the limit of a peer, and fewer than its receive packets. */
#define TOO_MANY	(SZ_4M / RAW_EAGER)

/* With equal ids, segments that wait for memory are not mixed up between messages. */
static void rdm_07_messages_of_one_name_wait_in_turn(struct kunit *test)
{
	static const size_t lens[] = { LONG, RAW_EAGER + LEN };
	struct raw *raw = raw_open(test, SZ_4K);
	u8 *in = tr_vbuffer(test, LONG), *packet;
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	struct fi_cq_tagged_entry entry;

	meet(test, raw, rdm, PORT, 1);
	say_segment(test, raw, 5, lens[0], 0, 10);
	for (int i = 0; i < TOO_MANY; i++) {
		packet = await_packet(test, raw, FX_WAIT_MS);
		KUNIT_ASSERT_NOT_NULL(test, packet);
		raw_init_packet(raw, packet, RAW_PKT_EAGER)->len = RAW_EAGER;
		say(test, raw, packet, RAW_PKT_MAX);
	}
	say_segment(test, raw, 5, lens[0], 1, 10);
	say_segment(test, raw, 5, lens[1], 0, 20);
	say_segment(test, raw, 5, lens[1], 1, 20);
	be_heard(test, raw);
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
		if (fi_cq_sread(rdm->cq, &entry, 1, NULL, MOMENT_MS) != 1)
			break;
	}
	KUNIT_ASSERT_EQ(test, 0, fi_cancel(&rdm->ep->fid, in));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, rdm->cq, &(struct fi_cq_err_entry){}));
	return count;
}

#define VISITS	8

/* Unexpected messages of a closed connection count toward the limit of their peer. */
static void rdm_06_who_comes_again_does_not_leave_more(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	u8 *in = tr_vbuffer(test, RAW_EAGER), *packet;
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	int sent = 0, there;

	for (u32 visit = 1; visit <= VISITS; visit++) {
		meet(test, raw, rdm, PORT, visit);
		while ((packet = await_packet(test, raw, MOMENT_MS))) {
			raw_init_packet(raw, packet, RAW_PKT_EAGER)->len = RAW_EAGER;
			say(test, raw, packet, RAW_PKT_MAX);
			sent++;
		}
		raw_disconnect(test, raw);
	}
	there = receive_all(test, rdm, in);
	kunit_info(test, "%d sent, %d there\n", sent, there);
	KUNIT_EXPECT_GE(test, there, SZ_1M / (RAW_EAGER + SZ_1K));
	KUNIT_EXPECT_LE(test, there, 3 * SZ_1M / RAW_EAGER);
	rdm_exchange(test, rdm, rdm_know(test, rdm, rdm), rdm);
}

#define GREEDY		48
#define BURST		64

/*
 * Connections share receive packets: a peer that exceeds its credits uses those
 * of others. Its connection is closed, and the others' messages still arrive.
 */
static void rdm_06_who_sends_more_than_it_was_asked_for_is_cut_off(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	u8 *in = tr_vbuffer(test, RAW_EAGER), *packet;
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	fi_addr_t to = rdm_know(test, other, rdm);

	if (raw->needs_recv)
		kunit_skip(test, "what is too much ends the connection by itself");
	rdm_exchange(test, other, to, rdm);
	for (u32 visit = 1; visit <= GREEDY; visit++) {
		struct raw_connect_data data = raw_connect_data(raw, PORT, visit);
		unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

		data.flow = 1;
		while (raw_connect(test, raw, &rdm->name, &data, sizeof(data))) {
			KUNIT_ASSERT_TRUE(test, time_before(jiffies, end));
			usleep_range(1000, 2000);
		}
		/* The raw peer announces no receives of its own either. */
		while ((packet = await_packet(test, raw, FX_WAIT_MS))) {
			raw_init_packet(raw, packet, RAW_PKT_EAGER)->len = 1;
			if (raw_send(raw, packet, RAW_HEADER + 1))
				break;
		}
		for (raw_progress(raw); !raw->is_closed; raw_progress(raw)) {
			KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "it may send whatever it likes");
			usleep_range(50, 100);
		}
		raw_disconnect(test, raw);
	}
	kunit_info(test, "%d of its messages there\n", receive_all(test, rdm, in));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < BURST; i++)
			KUNIT_ASSERT_EQ(test, 0, rdm_send(other, to, in, 1, in));
		for (int i = 0; i < BURST; i++)
			rdm_expect(test, other, in, NULL);
		KUNIT_EXPECT_EQ(test, BURST, receive_all(test, rdm, in));
	}
}

/* CQ data of a write is reported by endpoints with remote memory access only. */
static void rdm_nobody_is_told_of_writes_that_nobody_expects(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	struct fi_cq_tagged_entry entry;

	if (raw->needs_recv)
		kunit_skip(test, "iWARP has no data with a write");
	meet(test, raw, rdm, PORT, 1);
	KUNIT_ASSERT_EQ(test, 0, fi_writedata(raw->ep, raw->memory, 0, NULL, 77, 0, 0, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_sread(rdm->cq, &entry, 1, NULL, MOMENT_MS));
	rdm_exchange(test, other, rdm_know(test, other, rdm), rdm);
}

/* Invalid connect data, and unusual but valid data. */
static void rdm_strange_words_are_refused(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	struct raw_connect_data good = raw_connect_data(raw, PORT, 1);
	struct {
		size_t	at;
		u8	byte;
	} wrong[] = {
		{ 0, 0 }, { 0, 2 }, { 1, 0 }, { 1, 1 }, { 1, 3 }, { 2, 3 }, { 2, 5 }, { 3, 2 }, { 3, 4 },
		{ 4, 0 }, { 6, 3 }, { 6, 255 }, { 7, 1 }, { 7, 255 }, { 8, 1 }, { 9, 0 }, { 10, 1 }, { 11, 128 },
	};
	static const u8 refused[] = { 1, 1 };
	fi_addr_t addr = rdm_know(test, other, rdm);
	u8 words[55] = {};

	for (int i = 0; i < ARRAY_SIZE(wrong); i++) {
		memcpy(words, &good, sizeof(good));
		words[wrong[i].at] = wrong[i].byte;
		KUNIT_EXPECT_EQ_MSG(test, FI_ECONNREFUSED,
				    raw_connect(test, raw, &rdm->name, words, sizeof(good)),
				    "byte %zu is %u", wrong[i].at, wrong[i].byte);
		/* siw may lose the reject data. */
		if (raw->cm_data_len)
			KUNIT_EXPECT_MEMEQ(test, refused, raw->cm_data, sizeof(refused));
	}
	rdm_exchange(test, other, addr, rdm);
	for (size_t len = 0; len < sizeof(good); len++)
		KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, raw_connect(test, raw, &rdm->name, &good, len));
	/* Data behind the known fields may belong to a later version. */
	memcpy(words, &good, sizeof(good));
	for (size_t len = sizeof(good); len <= sizeof(words); len += 31) {
		((struct raw_connect_data *)words)->instance++;
		memset(words + sizeof(good), 0xff, sizeof(words) - sizeof(good));
		meet(test, raw, rdm, PORT, 100 + len);
		raw_disconnect(test, raw);
	}
	rdm_exchange(test, other, addr, rdm);
}

#define CROWD	140

/* Peers that cancel a request, or connect and send nothing, use connections until they close. */
static void rdm_many_that_say_nothing(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	struct kofi_rdm *late = rdm_open(test, NULL);
	fi_addr_t addr = rdm_know(test, other, rdm);
	struct fi_eq_err_entry error;
	struct fx_cm_event event;
	struct fid_ep **eps = (void *)tr_buffer(test, CROWD * sizeof(*eps));
	int in = 0, out = 0, crowd = 0;
	u32 what;

	rdm_exchange(test, other, addr, rdm);
	for (int round = 0; round < 2; round++) {
		for (crowd = 0; crowd < CROWD; crowd++) {
			struct raw_connect_data data = raw_connect_data(raw, 10 + crowd, 1 + round);

			eps[crowd] = fx_bound_ep(test, raw->fx);
			/* The device may have no more queue pairs. */
			if (fi_connect(eps[crowd], &rdm->name, &data, sizeof(data))) {
				fx_close(test, &eps[crowd]->fid);
				break;
			}
		}
		rdm_exchange(test, other, addr, rdm);
		for (int left = crowd; round && left--;) {
			error = (struct fi_eq_err_entry){};
			if (fi_eq_sread(raw->fx->eq, &what, &event, sizeof(event), FX_WAIT_MS, 0) > 0)
				in++;
			else if (fi_eq_readerr(raw->fx->eq, &error, 0) > 0)
				out++;
			rdm_exchange(test, other, addr, rdm);
		}
		for (int i = 0; i < crowd; i++)
			fx_close(test, &eps[i]->fid);
		rdm_exchange(test, other, addr, rdm);
	}
	kunit_info(test, "%d were let in, %d were not\n", in, out);
	KUNIT_EXPECT_EQ(test, crowd, in + out);
	/* The connections are free once their close is noticed. */
	addr = rdm_know(test, late, rdm);
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

/* A connected endpoint's listener at the address that a message is sent to. */
struct host {
	struct kofi_fabric_fx	*fx;
	struct fid_pep		*pep;
	struct kofi_rdm		*rdm;
	fi_addr_t		addr;
	u8			*out;
};

static struct host *open_host(struct kunit *test)
{
	struct host *host = kunit_kzalloc(test, sizeof(*host), GFP_KERNEL);
	struct kofi_rdm other = { .name_len = sizeof(other.name) };

	KUNIT_ASSERT_NOT_NULL(test, host);
	host->out = tr_buffer(test, LEN);
	host->fx = fx_open(test);
	host->pep = fx_listen(test, host->fx->fabric, host->fx->info, host->fx->eq);
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&host->pep->fid, &other.name, &other.name_len));
	host->rdm = rdm_open(test, NULL);
	host->addr = rdm_know(test, host->rdm, &other);
	return host;
}

/* A peer that always rejects with "simultaneous connect" but never connects is given up. */
static void rdm_04_who_always_asks_itself_is_given_up(struct kunit *test)
{
	static const u8 already[] = { 1, 2 };
	struct host *host = open_host(test);
	unsigned long end = jiffies + msecs_to_jiffies(2 * FX_WAIT_MS);
	struct fi_cq_err_entry error = {};
	struct fx_cm_event event;
	int asked = 0;
	u32 what;

	KUNIT_ASSERT_EQ(test, 0, rdm_send(host->rdm, host->addr, host->out, LEN, host->out));
	while (fi_cq_readerr(host->rdm->cq, &error, 0) != 1 && time_before(jiffies, end)) {
		if (fi_eq_sread(host->fx->eq, &what, &event, sizeof(event), 10, 0) <= 0)
			continue;
		KUNIT_ASSERT_EQ(test, FI_CONNREQ, what);
		KUNIT_EXPECT_EQ(test, 0, fi_reject(host->pep, event.entry.info->handle, already,
						   sizeof(already)));
		fi_freeinfo(event.entry.info);
		asked++;
	}
	kunit_info(test, "asked %d times\n", asked);
	KUNIT_EXPECT_PTR_EQ(test, (void *)host->out, error.op_context);
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
}

static void rdm_strange_answers_end_a_connection(struct kunit *test)
{
	struct host *host = open_host(test);
	struct raw_accept_data good = { .name = 3, .instance = 4, .receives = 5, .flow = 2 };
	static const size_t lens[] = { 0, 1, 12, 15, 16, 16 };

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		struct fi_cq_err_entry error = {};
		struct fi_info *request;
		struct fid_ep *ep;

		good.flow = 3 + 200 * (i & 1);
		KUNIT_ASSERT_EQ(test, 0, rdm_send(host->rdm, host->addr, host->out, LEN, host->out));
		request = fx_wait_request(test, host->fx->eq);
		ep = fx_ep(test, host->fx->domain, request);
		fx_bind(test, ep, host->fx->eq, host->fx->cq, FI_TRANSMIT | FI_RECV);
		KUNIT_ASSERT_EQ(test, 0, fi_accept(ep, &good, lens[i]));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, host->rdm->cq, &error));
		KUNIT_EXPECT_PTR_EQ(test, (void *)host->out, error.op_context);
		KUNIT_EXPECT_EQ(test, FI_ECONNABORTED, error.err);
		fx_close(test, &ep->fid);
	}
}

/* A TCP listener without RDMA; closed with the test. */
struct door {
	struct socket		*socket;
	struct sockaddr_in	name;
};

KUNIT_DEFINE_ACTION_WRAPPER(release_socket, sock_release, struct socket *);

static struct door *open_door(struct kunit *test, const struct kofi_rdm *rdm)
{
	struct door *door = kunit_kzalloc(test, sizeof(*door), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, door);
	memcpy(&door->name, &rdm->name, sizeof(door->name));
	KUNIT_ASSERT_EQ(test, AF_INET, door->name.sin_family);
	door->name.sin_port = 0;
	KUNIT_ASSERT_EQ(test, 0, sock_create_kern(&init_net, PF_INET, SOCK_STREAM, IPPROTO_TCP,
						  &door->socket));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, release_socket, door->socket));
	door->socket->sk->sk_rcvtimeo = msecs_to_jiffies(FX_WAIT_MS);
	KUNIT_ASSERT_EQ(test, 0, kernel_bind(door->socket, (void *)&door->name, sizeof(door->name)));
	KUNIT_ASSERT_EQ(test, 0, kernel_listen(door->socket, 1));
	KUNIT_ASSERT_GT(test, kernel_getsockname(door->socket, (void *)&door->name), 0);
	return door;
}

/* Accepts a connection and sends an MPA reply without private data, with bytes behind it. */
static int answer_wrongly(struct door *door)
{
	char heard[64], said[20 + 4] = {};
	struct kvec in = { .iov_base = heard, .iov_len = sizeof(heard) };
	struct kvec out = { .iov_base = said, .iov_len = sizeof(said) };
	struct msghdr msg = { .msg_flags = MSG_NOSIGNAL };
	struct socket *asker;
	int ret;

	ret = kernel_accept(door->socket, &asker, 0);
	if (ret)
		return ret;
	asker->sk->sk_rcvtimeo = msecs_to_jiffies(FX_WAIT_MS);
	/* The request has to arrive first. */
	ret = kernel_recvmsg(asker, &msg, &in, 1, sizeof(heard), 0);
	if (ret > 0)
		ret = kernel_sendmsg(asker, &msg, &out, 1, sizeof(said));
	/* Waits for the end of the connection. */
	while (ret > 0)
		ret = kernel_recvmsg(asker, &msg, &in, 1, sizeof(heard), 0);
	sock_release(asker);
	return ret;
}

#define ASKS	6

/* siw may misread an early reply, so an invalid MPA reply is retried as if there were none. */
static void rdm_04_an_answer_that_cannot_be_read_is_asked_for_again(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct kofi_rdm *rdm = rdm_open(test, NULL), *other;
	u8 *out = tr_buffer(test, LEN);
	struct fi_cq_err_entry error;
	struct door *door;
	fi_addr_t addr;

	if (!tr_is_iwarp(fx->info))
		kunit_skip(test, "answers do not come over TCP");
	door = open_door(test, rdm);
	KUNIT_ASSERT_EQ(test, 1, rdm_insert(rdm, &door->name, &addr, 0));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(rdm, addr, out, LEN, out));
	for (int i = 0; i < ASKS; i++) {
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_readerr(rdm->cq, &error, 0));
		KUNIT_ASSERT_EQ_MSG(test, 0, answer_wrongly(door), "asked %d times", i);
	}
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, rdm->cq, &error));
	KUNIT_EXPECT_PTR_EQ(test, (void *)out, error.op_context);
	KUNIT_EXPECT_EQ(test, FI_ECONNABORTED, error.err);
	/* A later endpoint at that address is reachable. */
	kunit_release_action(test, release_socket, door->socket);
	other = rdm_open(test, &(struct rdm_opts){ .port = ntohs(door->name.sin_port) });
	rdm_exchange(test, rdm, addr, other);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(rdm_07_a_name_is_free_when_its_message_is_whole),
	KUNIT_CASE_SLOW(rdm_07_messages_of_one_name_wait_in_turn),
	KUNIT_CASE_SLOW(rdm_06_who_comes_again_does_not_leave_more),
	KUNIT_CASE_SLOW(rdm_06_who_sends_more_than_it_was_asked_for_is_cut_off),
	KUNIT_CASE(rdm_nobody_is_told_of_writes_that_nobody_expects),
	KUNIT_CASE(rdm_strange_words_are_refused),
	KUNIT_CASE_SLOW(rdm_many_that_say_nothing),
	KUNIT_CASE_SLOW(rdm_04_who_always_asks_itself_is_given_up),
	KUNIT_CASE(rdm_strange_answers_end_a_connection),
	KUNIT_CASE(rdm_04_an_answer_that_cannot_be_read_is_asked_for_again),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_strange",
	.test_cases = cases,
};

kunit_test_suite(suite);
