// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM 6 of CONTRACT: many peers send messages that are not received.
 * Those peers are slowed, others are not; when the messages are received later,
 * none is missing. See scenarios/flood.sh.
 */

#include <linux/delay.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "rdm.h"
#include "traffic.h"

static unsigned int flood_peers = 8;
module_param(flood_peers, uint, 0644);
MODULE_PARM_DESC(flood_peers, "peers that send messages which are not received");

static unsigned int flood_seconds;
module_param(flood_seconds, uint, 0644);
MODULE_PARM_DESC(flood_seconds, "for how long, again and again");

#define MOST_PEERS	64
#define LEN		4000
/* Upper bound of the memory that an unexpected message takes beside its data. */
#define OVERHEAD	512
/* Bounds of unexpected messages in bytes: of one peer, and of all peers at one address. */
#define PEER_BOUND	SZ_1M
#define BOUND		SZ_16M
/* Messages of a peer in receive packets, in transmit packets, and in the one of its connection. */
#define IN_PACKETS	(64 + 64 + 1)
#define HONEST_ROUNDS	9

static const size_t lens[] = { 100, 40000, 200000 };
#define LONGEST		200000

struct message {
	u32	peer, number;
};

struct flood {
	struct kofi_rdm	*to, *honest;
	fi_addr_t	from_honest, from_to;
	struct kofi_rdm	*peers[MOST_PEERS];
	fi_addr_t	addr[MOST_PEERS];
	u32		sent[MOST_PEERS], got[MOST_PEERS];
	int		count;
	u8		*out, *in;
};

/*
 * KASAN keeps freed memory, and frees it for good only in allocations that may sleep.
 * The flood makes no others: without these the guest runs out of memory.
 */
static void empty_quarantine(void)
{
	if (IS_ENABLED(CONFIG_KASAN))
		kfree(kmalloc(1, GFP_KERNEL));
}

/* Sends from all peers until none has been able to for 300 ms; returns the number of messages. */
static int send_until_slowed(struct kunit *test, struct flood *f)
{
	unsigned long quiet = jiffies, end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	int all = 0;

	while (time_before(jiffies, quiet + msecs_to_jiffies(300))) {
		for (int i = 0; i < f->count; i++) {
			struct message *message = (void *)f->out;
			int ret;

			*message = (struct message){ .peer = i, .number = f->sent[i] };
			ret = fi_inject(f->peers[i]->ep, message, LEN, f->addr[i]);
			if (ret) {
				KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
				continue;
			}
			f->sent[i]++;
			all++;
			quiet = jiffies;
			empty_quarantine();
		}
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for the senders to be slowed");
		usleep_range(50, 100);
	}
	return all;
}

/* Exchanges messages that are received at once. */
static void exchange_with_receiver(struct kunit *test, struct flood *f)
{
	for (int i = 0; i < HONEST_ROUNDS; i++) {
		size_t len = lens[i % ARRAY_SIZE(lens)];
		struct fi_cq_tagged_entry entry;

		memset(f->in, 0, len);
		KUNIT_ASSERT_EQ(test, 0, fi_trecv(f->to->ep, f->in, len, NULL, f->from_honest, i, 0,
						  f->in));
		KUNIT_ASSERT_EQ(test, 0, fi_tsend(f->honest->ep, f->out, len, NULL, f->from_to, i,
						  f->out));
		rdm_expect(test, f->to, f->in, &entry);
		KUNIT_ASSERT_EQ(test, len, entry.len);
		KUNIT_ASSERT_EQ(test, 0, memcmp(f->in, f->out, len));
		rdm_expect(test, f->honest, f->out, NULL);
	}
}

/* Fails the test if a send of a peer has failed: its message is missing. */
static void expect_no_failure(struct kunit *test, struct kofi_rdm *peer)
{
	struct fi_cq_err_entry error = {};

	if (fi_cq_readerr(peer->cq, &error, 0) == 1)
		KUNIT_FAIL(test, "a send failed: %s, %s", fi_strerror(error.err),
			   fi_cq_strerror(peer->cq, error.prov_errno, error.err_data, NULL, 0));
}

/* Receives all messages: each once, and those of each peer in order. */
static void receive_all(struct kunit *test, struct flood *f, int all)
{
	struct message *message = (void *)f->in;

	while (all--) {
		*message = (struct message){ .peer = ~0, .number = ~0 };
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(f->to, FI_ADDR_UNSPEC, message, LEN, message));
		rdm_expect(test, f->to, message, NULL);
		empty_quarantine();
		KUNIT_ASSERT_LT(test, message->peer, f->count);
		if (message->number != f->got[message->peer])
			expect_no_failure(test, f->peers[message->peer]);
		KUNIT_ASSERT_EQ_MSG(test, f->got[message->peer]++, message->number,
				    "of peer %u, which has sent %u", message->peer,
				    f->sent[message->peer]);
	}
}

static void rdm_06_unexpected_messages_are_bounded_per_peer_and_in_all(struct kunit *test)
{
	static const struct rdm_opts opts = {
		.caps = FI_DIRECTED_RECV, .rx_size = 16, .inject_size = LEN,
	};
	struct flood *f = (void *)tr_buffer(test, sizeof(*f));
	const int weight = LEN + OVERHEAD;
	unsigned long end = jiffies + msecs_to_jiffies(1000 * flood_seconds);
	int rounds = 0, most = 0;

	f->count = clamp_t(int, flood_peers, 1, MOST_PEERS);
	f->out = tr_vbuffer(test, LONGEST);
	f->in = tr_vbuffer(test, LONGEST);
	tr_fill(f->out, LONGEST, 1);
	f->to = rdm_open(test, &opts);
	f->honest = rdm_open(test, &opts);
	f->from_honest = rdm_addr(test, f->to, f->honest);
	f->from_to = rdm_addr(test, f->honest, f->to);
	for (int i = 0; i < f->count; i++) {
		f->peers[i] = rdm_open(test, &opts);
		f->addr[i] = rdm_addr(test, f->peers[i], f->to);
	}
	do {
		int all = send_until_slowed(test, f);

		for (int i = 0; i < f->count; i++) {
			u32 unexpected = f->sent[i] - f->got[i];

			KUNIT_EXPECT_LE(test, unexpected, PEER_BOUND / weight + IN_PACKETS);
			KUNIT_EXPECT_GT(test, unexpected, 0);
		}
		exchange_with_receiver(test, f);
		/* Peers that connected late fill the limits too; after that they are reached. */
		all += send_until_slowed(test, f);
		KUNIT_EXPECT_LE(test, all, BOUND / weight + f->count * IN_PACKETS);
		most = max(most, all);
		receive_all(test, f, all);
		rounds++;
	} while (time_before(jiffies, end));
	for (int i = 0; i < f->count; i++)
		KUNIT_EXPECT_EQ(test, f->sent[i], f->got[i]);
	exchange_with_receiver(test, f);
	kunit_info(test, "%d peers, %d rounds, up to %d messages at a time\n", f->count, rounds, most);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(rdm_06_unexpected_messages_are_bounded_per_peer_and_in_all),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_flood",
	.test_cases = cases,
};

kunit_test_suite(suite);
