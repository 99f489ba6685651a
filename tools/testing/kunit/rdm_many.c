// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM 11 of CONTRACT with many peers, whose first messages meet at one endpoint. See
 * scenarios/many.sh.
 */

#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/moduleparam.h>
#include <rdma/fi_ext.h>

#include "rdm.h"
#include "traffic.h"

static unsigned int many_peers = 24;
module_param(many_peers, uint, 0644);
MODULE_PARM_DESC(many_peers, "endpoints that send a first message to one endpoint at once");

/* Endpoints that share a transmit context: each has one operation in progress. */
#define SHARERS	64
#define RX_SIZE	2

/* A message names its peer. */
struct message {
	u32	peer;
};

struct many_attr {
	u32	count;
	u32	sharers;	/* peers that share a transmit context */
	u32	cq_size;	/* of the peers' queue */
	bool	has_receives;	/* for a first message of each peer and its answer */
};

struct many {
	u32			count;
	struct kofi_rdm		*hub;
	/* Peers in one domain, with one queue and one address vector. */
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_cq		*cq;
	struct fid_av		*av;
	struct fid_stx		*stx;
	fi_addr_t		to_hub;
	struct fid_ep		**peer;
	fi_addr_t		*to;
	/* Messages: first ones and answers, at both ends. */
	struct message		*first, *got, *answer, *answered;
	/* Peers to answer, and what both ends have yet to report. */
	unsigned long		*to_answer;
	u32			sends, receives, answers_left, answers_sent;
};

static void *array_of(struct kunit *test, u32 count, size_t size)
{
	return tr_vbuffer(test, count * size);
}

static void set_option(struct kunit *test, struct fid_ep *ep, int name, size_t value)
{
	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&ep->fid, FI_OPT_ENDPOINT, name, &value, sizeof(value)));
}

static void open_peer(struct kunit *test, struct many *m, u32 i, const struct many_attr *many_attr)
{
	struct fi_tx_attr attr = {};
	struct kofi_rdm names = *m->hub;

	if (i % many_attr->sharers == 0) {
		KUNIT_ASSERT_EQ(test, 0, fi_stx_context(m->domain, &attr, &m->stx, NULL));
		fx_defer_close(test, &m->stx->fid);
	}
	m->peer[i] = fx_ep(test, m->domain, m->info);
	/* Connections stay, however long all of them take to be opened. */
	set_option(test, m->peer[i], FI_OPT_KOFI_IDLE_MS, 0);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(m->peer[i], &m->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(m->peer[i], &m->cq->fid, FI_TRANSMIT | FI_RECV));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(m->peer[i], &m->stx->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(m->peer[i]));
	names.name_len = sizeof(names.name);
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&m->peer[i]->fid, &names.name, &names.name_len));
	m->to[i] = rdm_addr(test, m->hub, &names);
	if (!many_attr->has_receives)
		return;
	KUNIT_ASSERT_EQ(test, 0, fi_recv(m->peer[i], &m->answered[i], sizeof(*m->answered), NULL,
					 FI_ADDR_UNSPEC, &m->answered[i]));
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(m->hub, FI_ADDR_UNSPEC, &m->got[i], sizeof(*m->got),
					  &m->got[i]));
}

static struct many *open_many(struct kunit *test, const struct many_attr *many_attr)
{
	u32 count = many_attr->count;
	struct many *m = (void *)tr_buffer(test, sizeof(*m));
	struct rdm_opts opts = { .cq_size = 4 * count, .rx_size = count };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
		.size = many_attr->cq_size,
	};
	struct fi_info *hints = rdm_hints(test);

	m->count = count;
	m->hub = rdm_open(test, &opts);
	set_option(test, m->hub->ep, FI_OPT_KOFI_IDLE_MS, 0);
	set_option(test, m->hub->ep, FI_OPT_KOFI_CONNECTIONS, 0);
	set_option(test, m->hub->ep, FI_OPT_KOFI_SOURCE_BYTES, 0);
	hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	hints->rx_attr->size = RX_SIZE;
	m->info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	m->fabric = fx_fabric(test, m->info);
	m->domain = fx_domain(test, m->fabric, m->info);
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(m->domain, &av_attr, &m->av, NULL));
	fx_defer_close(test, &m->av->fid);
	m->cq = fx_cq(test, m->domain, &cq_attr);
	KUNIT_ASSERT_EQ(test, 1, fi_av_insert(m->av, &m->hub->name, 1, &m->to_hub, 0, NULL));
	m->peer = array_of(test, count, sizeof(*m->peer));
	m->to = array_of(test, count, sizeof(*m->to));
	m->first = array_of(test, count, sizeof(*m->first));
	m->got = array_of(test, count, sizeof(*m->got));
	m->answer = array_of(test, count, sizeof(*m->answer));
	m->answered = array_of(test, count, sizeof(*m->answered));
	m->to_answer = array_of(test, BITS_TO_LONGS(count), sizeof(long));
	for (u32 i = 0; i < count; i++)
		open_peer(test, m, i, many_attr);
	return m;
}

/* Reads what has arrived at the hub; returns whether there was something. */
static bool read_hub(struct kunit *test, struct many *m)
{
	struct fi_cq_tagged_entry entry;
	struct message *message;
	ssize_t ret = fi_cq_read(m->hub->cq, &entry, 1);

	if (ret == -FI_EAGAIN)
		return false;
	KUNIT_ASSERT_EQ(test, 1, ret);
	if (!(entry.flags & FI_RECV)) {
		m->answers_sent--;
		return true;
	}
	message = entry.op_context;
	KUNIT_ASSERT_EQ(test, sizeof(*message), entry.len);
	KUNIT_ASSERT_LT(test, message->peer, m->count);
	KUNIT_ASSERT_FALSE(test, test_and_set_bit(message->peer, m->to_answer));
	m->receives--;
	return true;
}

/* Answers as many peers as the hub takes operations; returns whether it took one. */
static bool answer_peers(struct kunit *test, struct many *m)
{
	bool is_answered = false;
	u32 i;

	for_each_set_bit(i, m->to_answer, m->count) {
		int ret;

		m->answer[i].peer = i;
		ret = fi_send(m->hub->ep, &m->answer[i], sizeof(*m->answer), NULL, m->to[i],
			      &m->answer[i]);
		if (ret == -FI_EAGAIN)
			continue;
		KUNIT_ASSERT_EQ(test, 0, ret);
		clear_bit(i, m->to_answer);
		m->answers_left--;
		is_answered = true;
	}
	return is_answered;
}

/* Reads the completions of the peers; returns whether there was one. */
static bool read_peers(struct kunit *test, struct many *m)
{
	struct fi_cq_tagged_entry entry;
	struct message *message;
	ssize_t ret = fi_cq_read(m->cq, &entry, 1);

	if (ret == -FI_EAGAIN)
		return false;
	KUNIT_ASSERT_EQ(test, 1, ret);
	message = entry.op_context;
	if (entry.flags & FI_RECV)
		KUNIT_ASSERT_EQ(test, message - m->answered, message->peer);
	m->sends--;
	return true;
}

static void rdm_11_many_first_messages_arrive_at_once(struct kunit *test)
{
	const struct many_attr attr = {
		.count = many_peers,
		.sharers = SHARERS,
		.cq_size = 4 * many_peers,
		.has_receives = true,
	};
	struct many *m = open_many(test, &attr);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	size_t connected = 0;

	m->receives = m->count;
	m->answers_left = m->count;
	m->answers_sent = m->count;
	/* Each peer reports a message and an answer. */
	m->sends = 2 * m->count;
	for (u32 i = 0; i < m->count; i++) {
		m->first[i].peer = i;
		KUNIT_ASSERT_EQ(test, 0, fi_send(m->peer[i], &m->first[i], sizeof(*m->first), NULL,
						 m->to_hub, &m->first[i]));
	}
	while (m->receives || m->answers_left || m->answers_sent || m->sends) {
		bool is_busy = read_hub(test, m);

		is_busy |= answer_peers(test, m);
		is_busy |= read_peers(test, m);
		/* On a slow machine, all connections are made before the first message arrives. */
		if (rdm_connected(m->hub) != connected) {
			connected = rdm_connected(m->hub);
			is_busy = true;
		}
		if (is_busy)
			end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
		else
			usleep_range(500, 1000);
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "%u messages, %u answers and %u completions are missing",
				      m->receives, m->answers_left, m->answers_sent + m->sends);
	}
	/* No connection was closed for another one. */
	KUNIT_EXPECT_EQ(test, m->count, rdm_connected(m->hub));
	for (u32 i = 0; i < m->count; i++)
		fx_close(test, &m->peer[i]->fid);
	rdm_await_connected(test, m->hub, 0);
	/* The places of the connections are used again. */
	rdm_exchange(test, m->hub, rdm_addr(test, m->hub, m->hub), m->hub);
}

/* Peers that send more than an endpoint keeps of each one; all of them together stay below its limit. */
#define SENDERS		14
#define BODY		(16 * SZ_1K - 64)
/* Messages of each peer. The hub keeps a mebibyte of each, so KEPT are kept, and not all of UNRECEIVED. */
#define MESSAGES	80
#define KEPT		60
#define UNRECEIVED	66

struct numbered {
	u32	peer;
	u32	seq;
};

/* Reads the completion of a send, whose context is its message. */
static bool read_sent(struct kunit *test, struct many *m, u32 *done)
{
	struct fi_cq_tagged_entry entry;
	struct numbered *message;
	ssize_t ret = fi_cq_read(m->cq, &entry, 1);

	if (ret == -FI_EAGAIN)
		return false;
	KUNIT_ASSERT_EQ(test, 1, ret);
	message = entry.op_context;
	done[message->peer]++;
	return true;
}

/* Sends as many messages of each peer as it takes. */
static bool send_numbered(struct kunit *test, struct many *m, struct numbered *messages, u8 *body,
			  u32 *sent)
{
	bool has_sent = false;

	for (u32 i = 0; i < m->count; i++) {
		while (sent[i] < MESSAGES) {
			struct numbered *message = &messages[i * MESSAGES + sent[i]];
			struct kvec iov[] = { { message, sizeof(*message) }, { body, BODY } };
			int ret;

			*message = (struct numbered){ i, sent[i] };
			ret = fi_sendv(m->peer[i], iov, NULL, 2, m->to_hub, message);
			if (ret == -FI_EAGAIN)
				break;
			KUNIT_ASSERT_EQ(test, 0, ret);
			sent[i]++;
			has_sent = true;
		}
	}
	return has_sent;
}

/* Messages that exceed what the hub keeps wait in their packets, and arrive in order as receives are posted. */
static void rdm_06_deferred_packets_of_many_peers_arrive(struct kunit *test)
{
	const struct many_attr attr = {
		.count = SENDERS,
		.sharers = 1,
		.cq_size = SENDERS * MESSAGES,
	};
	struct numbered *messages = array_of(test, SENDERS * MESSAGES, sizeof(*messages));
	u32 *sent = array_of(test, SENDERS, sizeof(*sent));
	u32 *done = array_of(test, SENDERS, sizeof(*done));
	u32 *got = array_of(test, SENDERS, sizeof(*got));
	u8 *body = tr_vbuffer(test, BODY), *in = tr_vbuffer(test, BODY + sizeof(*messages));
	/* Opened last, and so closed before the buffers are freed if the test fails. */
	struct many *m = open_many(test, &attr);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct numbered *message = (void *)in;
	u32 fewest_sent = 0, fewest_done = 0, received = 0;
	bool is_posted = false;

	while (received < SENDERS * MESSAGES) {
		struct fi_cq_tagged_entry entry;
		bool is_busy = send_numbered(test, m, messages, body, sent);
		ssize_t ret;

		is_busy |= read_sent(test, m, done);
		fewest_sent = U32_MAX;
		fewest_done = U32_MAX;
		for (u32 i = 0; i < SENDERS; i++) {
			fewest_sent = min(fewest_sent, sent[i]);
			fewest_done = min(fewest_done, done[i]);
		}
		/* A local message that the hub does not keep is not done. */
		if (!is_posted && fewest_sent >= UNRECEIVED && fewest_done >= KEPT) {
			ret = rdm_recv(m->hub, FI_ADDR_UNSPEC, in, BODY + sizeof(*message), in);
			KUNIT_ASSERT_EQ(test, 0, ret);
			is_posted = true;
		}
		ret = fi_cq_read(m->hub->cq, &entry, 1);
		if (ret == 1) {
			KUNIT_ASSERT_EQ(test, BODY + sizeof(*message), entry.len);
			KUNIT_ASSERT_LT(test, message->peer, SENDERS);
			KUNIT_ASSERT_EQ(test, got[message->peer]++, message->seq);
			received++;
			is_posted = false;
			is_busy = true;
		} else {
			KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
		}
		if (is_busy)
			end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
		else
			usleep_range(500, 1000);
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "%u of %u messages received, %u sent by each peer, %u done",
				      received, SENDERS * MESSAGES, fewest_sent, fewest_done);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(rdm_06_deferred_packets_of_many_peers_arrive),
	KUNIT_CASE_SLOW(rdm_11_many_first_messages_arrive_at_once),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_many",
	.test_cases = cases,
};

kunit_test_suite(suite);
