// SPDX-License-Identifier: GPL-2.0
/* Tests FI_TAGGED_RMA towards the receive contexts of a scalable endpoint. */

#include <rdma/fi_rma.h>

#include "sep.h"
#include "traffic.h"

#define TAG		7
#define LEN		1000
#define LONGEST		SZ_1M
/* Receive context that is accessed. */
#define RX		1

/* Two endpoints: a transmit context of one accesses a receive context of the other. */
struct ends {
	struct sep	*from, *to;
	struct fid_cq	*tx_cq, *rx_cq;
	fi_addr_t	addr;		/* of the receive context */
	u8		*near, *far;	/* memory of the access, and of the receive */
};

static struct ends *open_ends(struct kunit *test)
{
	static const struct sep_opts opts = { .txs = 1, .rxs = 2, .caps = FI_RMA | FI_TAGGED_RMA };
	struct ends *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, e);
	e->near = tr_buffer(test, LONGEST);
	e->far = tr_buffer(test, LONGEST);
	e->from = sep_open(test, &opts);
	e->to = sep_open(test, &opts);
	e->addr = fi_rx_addr(sep_addr(test, e->from, &e->to->name), RX, SEP_BITS);
	e->tx_cq = e->from->tx_cq[0];
	e->rx_cq = e->to->rx_cq[RX];
	return e;
}

static void post_receive(struct kunit *test, struct ends *e, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(e->to->rx[RX], e->far, len, NULL, FI_ADDR_UNSPEC, TAG, 0,
					  e->far));
}

static void post_access(struct kunit *test, struct ends *e, bool is_read, size_t len)
{
	const struct kvec iov = { e->near, len };
	const struct fi_rma_iov remote = { .len = len, .key = TAG };
	const struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = e->addr, .rma_iov = &remote,
		.rma_iov_count = 1, .context = e->near,
	};
	struct fid_ep *ep = e->from->tx[0];

	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(is_read ? fi_readmsg(ep, &msg, FI_TAGGED) :
						    fi_writemsg(ep, &msg, FI_TAGGED)));
}

/* Accesses a receive, and checks both completions and the data. */
static void expect_transfer(struct kunit *test, struct ends *e, bool is_read)
{
	tr_fill(is_read ? e->far : e->near, LEN, 5);
	post_receive(test, e, LEN);
	post_access(test, e, is_read, LEN);
	sep_expect(test, e->tx_cq, e->near, NULL);
	sep_expect(test, e->rx_cq, e->far, NULL);
	KUNIT_EXPECT_TRUE(test, tr_intact(is_read ? e->near : e->far, LEN, 5));
}

/* Accesses for which there is no right are refused, and the receive stays posted. */
static void expect_refusal(struct kunit *test, struct ends *e, bool is_read)
{
	memset(e->near, 1, LEN);
	memset(e->far, 2, LEN);
	post_receive(test, e, LEN);
	post_access(test, e, is_read, LEN);
	tr_expect_error(test, e->tx_cq, e->near, FI_EACCES);
	KUNIT_EXPECT_NULL(test, memchr_inv(e->near, 1, LEN));
	KUNIT_EXPECT_NULL(test, memchr_inv(e->far, 2, LEN));
	KUNIT_EXPECT_EQ(test, 0, fi_cancel(&e->to->rx[RX]->fid, e->far));
	tr_expect_error(test, e->rx_cq, e->far, FI_ECANCELED);
}

/* The rights are those that the context was opened with last. */
static void tagged_rma_follows_the_capabilities_of_a_context(struct kunit *test)
{
	static const u64 missing[] = {
		0, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_REMOTE_READ | FI_REMOTE_WRITE, FI_TAGGED_RMA,
	};
	struct ends *e = open_ends(test);

	for (int i = 0; i < 2 * ARRAY_SIZE(missing); i++) {
		u64 caps = missing[i % ARRAY_SIZE(missing)];

		sep_reopen_rx(test, e->to, RX, caps);
		for (int is_read = 0; is_read < 2; is_read++) {
			u64 needed = FI_TAGGED_RMA | (is_read ? FI_REMOTE_READ : FI_REMOTE_WRITE);

			if (caps & needed)
				expect_refusal(test, e, is_read);
			else
				expect_transfer(test, e, is_read);
		}
	}
}

/* The receives of a context go with it, the one that is being accessed too. */
static void tagged_rma_of_a_closed_context_fails(struct kunit *test)
{
	struct ends *e = open_ends(test);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 4 * tr_rounds; i++) {
		bool is_read = i % 2;
		ssize_t ret;

		post_receive(test, e, LONGEST);
		post_access(test, e, is_read, LONGEST);
		usleep_range(50 * i, 50 * i + 50);
		fx_close(test, &e->to->rx[RX]->fid);
		memset(e->far, 3, LONGEST);
		ret = fi_cq_sread(e->tx_cq, &entry, 1, NULL, FX_WAIT_MS);
		if (ret == -FI_EAVAIL)
			KUNIT_EXPECT_NE(test, 0, tr_read_error(test, e->tx_cq, e->near));
		else
			KUNIT_ASSERT_EQ_MSG(test, 1, ret, "waited for access %d", i);
		KUNIT_EXPECT_NULL(test, memchr_inv(e->far, 3, LONGEST));
		/* The receive may have completed before the close. */
		tr_read_flushed(test, e->rx_cq);
		post_access(test, e, is_read, LEN);
		tr_expect_error(test, e->tx_cq, e->near, FI_ENOMSG);
		sep_open_rx(test, e->to, RX, 0);
		expect_transfer(test, e, is_read);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(tagged_rma_follows_the_capabilities_of_a_context),
	KUNIT_CASE(tagged_rma_of_a_closed_context_fails),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_tagged_rma_contexts",
	.test_cases = cases,
};

kunit_test_suite(suite);
