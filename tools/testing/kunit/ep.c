// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, EP 1 to 6 and 10: binding, enabling, and the results of posts.
 */

#include "traffic.h"

#define LEN 64
#define BOTH (FI_TRANSMIT | FI_RECV)

/* A pointer that a zero-length transfer must not use. */
#define BOGUS ((void *)8)

static void ep_01_bad_binding_flags(struct kunit *test)
{
	static const u64 bad[] = {
		0, FI_SELECTIVE_COMPLETION, FI_READ, FI_TRANSMIT | FI_WRITE,
		FI_RECV | FI_REMOTE_READ, BOTH | 1ULL << 63,
	};
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);

	for (int i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test, -FI_EBADFLAGS,
				    fi_ep_bind(ep, &fx->cq->fid, bad[i]),
				    "flags %llx", bad[i]);
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, &fx->cq->fid, BOTH));
}

static void ep_01_binding_twice(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_cq_attr attr = {};
	struct fid_cq *other = fx_cq(test, fx->domain, &attr);
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);

	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, &fx->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(ep, &fx->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, &fx->cq->fid, FI_TRANSMIT));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_ep_bind(ep, &other->fid, FI_TRANSMIT));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_bind(ep, &other->fid, BOTH));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(ep, &other->fid, FI_RECV));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
	KUNIT_EXPECT_EQ_MSG(test, -FI_EOPBADSTATE,
			    fi_ep_bind(ep, &fx->cq->fid, FI_RECV),
			    "binding when enabled");
}

static void ep_01_a_cq_of_another_domain_is_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test), *other = fx_open(test);
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);

	KUNIT_EXPECT_EQ(test, -FI_EDOMAIN,
			fi_ep_bind(ep, &other->cq->fid, BOTH));
}

static void ep_02_enable_needs_an_eq_and_cqs(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);

	KUNIT_EXPECT_EQ(test, -FI_ENOEQ, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_ENOEQ, fi_connect(ep, NULL, NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &fx->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOCQ, fi_enable(ep));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &fx->cq->fid, FI_TRANSMIT));
	KUNIT_EXPECT_EQ_MSG(test, -FI_ENOCQ, fi_enable(ep), "no receive queue");
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &fx->cq->fid, FI_RECV));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
}

/* fx_pair() does not call fi_enable(), so fi_connect() and fi_accept() did. */
static void ep_02_connect_and_accept_enable(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (int side = 0; side < 2; side++)
		tr_exchange(test, pair, side, buf, buf + LEN, LEN);
}

static void ep_03_posts_before_enable_are_refused(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_ep *ep = fx_bound_ep(test, fx), *peer;

	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, tr_send(ep, buf, LEN));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, tr_recv(ep, buf, LEN));
	/* fi_connect() and fi_accept() enable the endpoint. */
	fx_start_connect(test, ep, pep);
	KUNIT_EXPECT_EQ(test, 0, tr_recv(ep, buf, LEN));
	peer = fx_ep(test, fx->domain, fx_wait_request(test, fx->eq));
	fx_bind(test, peer, fx->eq, fx->cq, BOTH);
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, tr_recv(peer, buf, LEN));
	KUNIT_EXPECT_EQ(test, 0, fi_accept(peer, NULL, 0));
	KUNIT_EXPECT_EQ(test, 0, tr_recv(peer, buf, LEN));
}

static void ep_03_receives_before_the_connection(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 3 * LEN);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct fid_cq *cq = fx_cq(test, fx->domain, &attr);
	struct fid_ep *ep = fx_bound_ep(test, fx), *peer;

	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, tr_send(ep, buf, LEN));
	KUNIT_ASSERT_EQ(test, 0, tr_recv(ep, buf, LEN));
	fx_start_connect(test, ep, pep);
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, tr_send(ep, buf, LEN));

	peer = fx_ep(test, fx->domain, fx_wait_request(test, fx->eq));
	fx_bind(test, peer, fx->eq, cq, BOTH);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(peer));
	KUNIT_ASSERT_EQ(test, 0, tr_recv(peer, buf + LEN, LEN));
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, tr_send(peer, buf, LEN));
	fx_finish_accept(test, peer, fx->eq);

	tr_fill(buf + 2 * LEN, LEN, 3);
	KUNIT_ASSERT_EQ(test, 0, tr_send(ep, buf + 2 * LEN, LEN));
	tr_expect(test, cq, buf + LEN, FI_RECV, LEN);
	KUNIT_EXPECT_TRUE(test, tr_intact(buf + LEN, LEN, 3));
	tr_expect(test, fx->cq, buf + 2 * LEN, FI_SEND, 0);
	KUNIT_ASSERT_EQ(test, 0, tr_send(peer, buf + 2 * LEN, LEN));
	tr_expect(test, fx->cq, buf, FI_RECV, LEN);
	KUNIT_EXPECT_TRUE(test, tr_intact(buf, LEN, 3));
}

#define DEPTH 8

static void ep_04_a_full_transmit_queue(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = DEPTH };
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &opts);
	unsigned int posted = 0;

	tr_needs_device(test, pair->info);
	for (int i = 0; i < 2 * DEPTH; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
	/* The sends complete, but their entries stay unread: the queue stays full. */
	while (posted < 2 * DEPTH && !tr_send(pair->ep[0], buf, 0))
		posted++;
	KUNIT_EXPECT_EQ(test, DEPTH, posted);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, tr_send(pair->ep[0], buf, 0));
	tr_expect(test, pair->cq[0], buf, FI_SEND, 0);
	KUNIT_EXPECT_EQ(test, 0, tr_send(pair->ep[0], buf, 0));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, tr_send(pair->ep[0], buf, 0));
}

static void ep_04_a_full_receive_queue(struct kunit *test)
{
	const struct fx_pair_opts opts = { .rx_size = DEPTH };
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &opts);
	unsigned int posted = 0;

	while (posted < 2 * DEPTH && !tr_recv(pair->ep[1], buf, LEN))
		posted++;
	KUNIT_EXPECT_EQ(test, DEPTH, posted);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, tr_recv(pair->ep[1], buf, LEN));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], NULL, 0));
	tr_expect(test, pair->cq[1], buf, FI_RECV, 0);
	KUNIT_EXPECT_EQ(test, 0, tr_recv(pair->ep[1], buf, LEN));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, tr_recv(pair->ep[1], buf, LEN));
}

static ssize_t send_nothing(struct fid_ep *ep, int form)
{
	struct kvec iov = { BOGUS, 0 };
	void *desc = BOGUS;
	struct fi_msg msg = { .msg_iov = &iov, .desc = &desc, .iov_count = 1 };

	switch (form) {
	case 0:
		return fi_send(ep, BOGUS, 0, BOGUS, 0, NULL);
	case 1:
		return fi_send(ep, NULL, 0, NULL, 0, NULL);
	case 2:
		return fi_sendv(ep, &iov, &desc, 1, 0, NULL);
	case 3:
		return fi_sendv(ep, NULL, NULL, 0, 0, NULL);
	case 4:
		return fi_sendmsg(ep, &msg, FI_COMPLETION);
	default:
		memset(&msg, 0, sizeof(msg));
		return fi_sendmsg(ep, &msg, FI_COMPLETION);
	}
}

static ssize_t receive_nothing(struct fid_ep *ep, int form)
{
	struct kvec iov = { BOGUS, 0 };
	void *desc = BOGUS;
	struct fi_msg msg = { .msg_iov = &iov, .desc = &desc, .iov_count = 1 };

	switch (form) {
	case 0:
		return fi_recv(ep, BOGUS, 0, BOGUS, 0, NULL);
	case 1:
		return fi_recv(ep, NULL, 0, NULL, 0, NULL);
	case 2:
		return fi_recvv(ep, &iov, &desc, 1, 0, NULL);
	case 3:
		return fi_recvv(ep, NULL, NULL, 0, 0, NULL);
	case 4:
		return fi_recvmsg(ep, &msg, FI_COMPLETION);
	default:
		memset(&msg, 0, sizeof(msg));
		return fi_recvmsg(ep, &msg, FI_COMPLETION);
	}
}

static void ep_05_zero_bytes(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (int form = 0; form < 6; form++) {
		KUNIT_EXPECT_EQ_MSG(test, 0, receive_nothing(pair->ep[1], form),
				    "form %d", form);
		KUNIT_EXPECT_EQ_MSG(test, 0, send_nothing(pair->ep[0], form),
				    "form %d", form);
		tr_expect(test, pair->cq[0], NULL, FI_SEND, 0);
		tr_expect(test, pair->cq[1], NULL, FI_RECV, 0);
	}
}

static void ep_06_the_address_is_ignored(struct kunit *test)
{
	static const fi_addr_t any[] = { 0, 1, 12345, FI_ADDR_UNSPEC };
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct kvec in = { buf, LEN }, out = { buf + LEN, LEN };

	for (int i = 0; i < ARRAY_SIZE(any); i++) {
		struct fi_msg msg = {
			.msg_iov = &out,
			.iov_count = 1,
			.addr = any[i],
		};

		KUNIT_EXPECT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN, NULL,
						 any[i], NULL));
		KUNIT_EXPECT_EQ(test, 0, fi_recvv(pair->ep[1], &in, NULL, 1,
						  any[i], NULL));
		KUNIT_EXPECT_EQ(test, 0,
				fi_sendmsg(pair->ep[0], &msg, FI_COMPLETION));
		KUNIT_EXPECT_EQ(test, 0, fi_sendv(pair->ep[0], &out, NULL, 1,
						  any[i], NULL));
		for (int n = 0; n < 2; n++) {
			tr_expect(test, pair->cq[0], NULL, FI_SEND, 0);
			tr_expect(test, pair->cq[1], NULL, FI_RECV, LEN);
		}
	}
}

/* A receive posted to the device cannot be cancelled, and stays in use. */
static void ep_10_a_receive_at_the_device_is_not_cancelled(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
			fi_cancel(&pair->ep[1]->fid, buf + LEN));
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf + LEN, LEN));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
			fi_cancel(&pair->ep[1]->fid, buf + LEN));
	tr_fill(buf, LEN, 10);
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], buf, LEN));
	tr_expect(test, pair->cq[1], buf + LEN, FI_RECV, LEN);
	KUNIT_EXPECT_TRUE(test, tr_intact(buf + LEN, LEN, 10));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
			fi_cancel(&pair->ep[1]->fid, buf + LEN));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_01_bad_binding_flags),
	KUNIT_CASE(ep_01_binding_twice),
	KUNIT_CASE(ep_01_a_cq_of_another_domain_is_refused),
	KUNIT_CASE(ep_02_enable_needs_an_eq_and_cqs),
	KUNIT_CASE(ep_02_connect_and_accept_enable),
	KUNIT_CASE(ep_03_posts_before_enable_are_refused),
	KUNIT_CASE(ep_03_receives_before_the_connection),
	KUNIT_CASE(ep_04_a_full_transmit_queue),
	KUNIT_CASE(ep_04_a_full_receive_queue),
	KUNIT_CASE(ep_05_zero_bytes),
	KUNIT_CASE(ep_06_the_address_is_ignored),
	KUNIT_CASE(ep_10_a_receive_at_the_device_is_not_cancelled),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_ep",
	.test_cases = cases,
};

kunit_test_suite(suite);
