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

static void open_peer(struct kunit *test, struct many *m, u32 i)
{
	struct fi_tx_attr attr = {};
	struct kofi_rdm names = *m->hub;

	if (i % SHARERS == 0) {
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
	KUNIT_ASSERT_EQ(test, 0, fi_recv(m->peer[i], &m->answered[i], sizeof(*m->answered), NULL,
					 FI_ADDR_UNSPEC, &m->answered[i]));
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(m->hub, FI_ADDR_UNSPEC, &m->got[i], sizeof(*m->got),
					  &m->got[i]));
}

static struct many *open_many(struct kunit *test, u32 count)
{
	struct many *m = (void *)tr_buffer(test, sizeof(*m));
	struct rdm_opts opts = { .cq_size = 4 * count, .rx_size = count };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
		.size = 4 * count,
	};
	struct fi_info *hints = rdm_hints(test);

	m->count = count;
	m->hub = rdm_open(test, &opts);
	set_option(test, m->hub->ep, FI_OPT_KOFI_IDLE_MS, 0);
	set_option(test, m->hub->ep, FI_OPT_KOFI_CONNECTIONS, 0);
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
		open_peer(test, m, i);
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
	struct many *m = open_many(test, many_peers);
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

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(rdm_11_many_first_messages_arrive_at_once),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_many",
	.test_cases = cases,
};

kunit_test_suite(suite);
