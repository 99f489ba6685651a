// SPDX-License-Identifier: GPL-2.0
/* Tests RDM of CONTRACT: messages between datagram endpoints. */

#include "rdm.h"

#define LEN	100
#define MANY	300

static void *bytes(struct kunit *test, size_t len)
{
	void *buf = kunit_kzalloc(test, len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	return buf;
}

static void rdm_01_an_address_vector_is_needed(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_make(test, NULL);

	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(rdm->ep, &rdm->cq->fid,
					    FI_TRANSMIT | FI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_ENOAV, fi_enable(rdm->ep));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_ep_bind(rdm->ep, &rdm->av->fid, FI_SEND));
	KUNIT_EXPECT_EQ(test, 0, fi_ep_bind(rdm->ep, &rdm->av->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_ep_bind(rdm->ep, &rdm->av->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(rdm->ep));
}

static void rdm_01_sends_to_unset_addresses_are_refused(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	u8 *buf = bytes(test, LEN);

	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_send(rdm->ep, buf, LEN, NULL, FI_ADDR_UNSPEC, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_send(rdm->ep, buf, LEN, NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_send(rdm->ep, buf, LEN, NULL, 1ull << 40, NULL));
}

static void av_21_a_bound_vector_is_busy(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);

	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&rdm->av->fid));
	fx_close(test, &rdm->ep->fid);
	fx_close(test, &rdm->av->fid);
}

static void rdm_04_the_first_send_connects(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, NULL), *b = rdm_open(test, NULL);
	fi_addr_t to_b = rdm_addr(test, a, b), to_a = rdm_addr(test, b, a);

	rdm_exchange(test, a, to_b, b);
	/* Messages in both directions use the same connection. */
	for (int i = 0; i < 3; i++) {
		rdm_exchange(test, b, to_a, a);
		rdm_exchange(test, a, to_b, b);
	}
}

static void rdm_04_a_send_to_a_closed_peer_fails(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, NULL), *b = rdm_open(test, NULL);
	fi_addr_t to_b = rdm_addr(test, a, b);
	struct fi_cq_err_entry error;
	u8 *buf = bytes(test, LEN);

	fx_close(test, &b->ep->fid);
	for (int i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_send(a, to_b, buf, LEN, buf));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, a->cq,
							    &error));
		KUNIT_EXPECT_PTR_EQ(test, buf, error.op_context);
		KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
	}
}

/* Unexpected messages are received in sending order, however late. */
static void rdm_03_messages_keep_their_order(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, NULL), *b = rdm_open(test, NULL);
	fi_addr_t to_b = rdm_addr(test, a, b);
	u32 *in = bytes(test, sizeof(*in));
	struct fi_cq_tagged_entry entry;
	int sent = 0;
	u32 out;

	for (int i = 0; i < MANY; i++) {
		while (sent < MANY) {
			out = sent;
			if (fi_inject(a->ep, &out, sizeof(out), to_b))
				break;
			sent++;
		}
		*in = ~0;
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(b, FI_ADDR_UNSPEC, in,
						  sizeof(*in), in));
		rdm_expect(test, b, in, &entry);
		KUNIT_ASSERT_EQ(test, i, *in);
	}
	KUNIT_EXPECT_EQ(test, MANY, sent);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(a->cq, &entry, 1));
}

/* Two endpoints connect to each other at the same time. */
static void rdm_04_simultaneous_connect(struct kunit *test)
{
	u8 *out = bytes(test, LEN), *in[2] = { bytes(test, LEN), bytes(test, LEN) };

	for (int i = 0; i < 10; i++) {
		struct kofi_rdm *rdm[2] = { rdm_open(test, NULL), rdm_open(test, NULL) };
		fi_addr_t to[2] = { rdm_addr(test, rdm[0], rdm[1]), rdm_addr(test, rdm[1], rdm[0]) };
		struct fi_cq_tagged_entry entries[2];

		get_random_bytes(out, LEN);
		for (int n = 0; n < 2; n++)
			KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm[n], FI_ADDR_UNSPEC, in[n], LEN, NULL));
		for (int n = 0; n < 2; n++)
			KUNIT_ASSERT_EQ(test, 0, rdm_send(rdm[n], to[n], out, LEN, NULL));
		for (int n = 0; n < 2; n++) {
			KUNIT_ASSERT_EQ(test, 2, fx_wait_comp(test, rdm[n]->cq, entries, 2));
			KUNIT_EXPECT_MEMEQ(test, out, in[n], LEN);
			memset(in[n], 0, LEN);
		}
		for (int n = 0; n < 2; n++)
			fx_close(test, &rdm[n]->ep->fid);
	}
}

static void rdm_04_messages_to_itself(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	fi_addr_t self = rdm_addr(test, rdm, rdm);
	u8 *out = bytes(test, LEN), *in = bytes(test, LEN);
	struct fi_cq_tagged_entry entries[2];

	for (int i = 0; i < 3; i++) {
		get_random_bytes(out, LEN);
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, in, LEN, in));
		KUNIT_ASSERT_EQ(test, 0, rdm_send(rdm, self, out, LEN, out));
		KUNIT_ASSERT_EQ(test, 2, fx_wait_comp(test, rdm->cq, entries, 2));
		KUNIT_EXPECT_MEMEQ(test, out, in, LEN);
	}
}

static void rdm_02_directed_receives_take_from_one(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_DIRECTED_RECV | FI_SOURCE };
	struct kofi_rdm *to = rdm_open(test, &opts);
	struct kofi_rdm *from[2] = { rdm_open(test, NULL), rdm_open(test, NULL) };
	fi_addr_t known[2] = { rdm_addr(test, to, from[0]), rdm_addr(test, to, from[1]) };
	u32 *in = bytes(test, 3 * sizeof(*in));
	struct fi_cq_tagged_entry entry;
	fi_addr_t source;

	/* The receives below take the messages in the opposite order. */
	for (u32 n = 0; n < 2; n++) {
		fi_addr_t addr = rdm_addr(test, from[n], to);

		KUNIT_ASSERT_EQ(test, 0, fi_inject(from[n]->ep, &n, sizeof(n), addr));
	}
	for (int n = 1; n >= 0; n--) {
		ssize_t ret;

		in[n] = ~0;
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(to, known[n], &in[n], sizeof(*in), &in[n]));
		ret = fi_cq_sreadfrom(to->cq, &entry, 1, &source, NULL, FX_WAIT_MS);
		KUNIT_ASSERT_EQ(test, 1, ret);
		KUNIT_EXPECT_PTR_EQ(test, &in[n], entry.op_context);
		KUNIT_EXPECT_EQ(test, n, in[n]);
		KUNIT_EXPECT_EQ(test, known[n], source);
	}
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_recv(to->ep, in, sizeof(*in), NULL, 77, NULL));
}

static void rdm_05_a_cancelled_receive_fails(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	struct fi_cq_err_entry error;
	u8 *in = bytes(test, LEN);

	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&rdm->ep->fid, in));
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, in, LEN, in));
	KUNIT_EXPECT_EQ(test, 0, fi_cancel(&rdm->ep->fid, in));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, rdm->cq, &error));
	KUNIT_EXPECT_PTR_EQ(test, in, error.op_context);
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&rdm->ep->fid, in));
}

/* A new endpoint at a closed one's address gets a connection, even if the close was not noticed. */
static void rdm_04_a_reopened_peer_gets_a_new_connection(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, NULL), *b = rdm_open(test, NULL);
	fi_addr_t to_b = rdm_addr(test, a, b);

	for (int i = 0; i < 3; i++) {
		fi_addr_t to_a = rdm_addr(test, b, a);
		struct kofi_rdm *next;

		rdm_exchange(test, b, to_a, a);
		rdm_exchange(test, a, to_b, b);
		fx_close(test, &b->ep->fid);

		next = rdm_make(test, NULL);
		KUNIT_ASSERT_EQ(test, 0, fi_setname(&next->ep->fid, &b->name, b->name_len));
		rdm_start(test, next, 0);
		KUNIT_EXPECT_MEMEQ(test, &b->name, &next->name, b->name_len);
		b = next;
	}
}

static void rdm_04_the_endpoint_listens_at_the_port_of_the_info(struct kunit *test)
{
	struct kofi_rdm *before = rdm_open(test, NULL), *rdm, *other = rdm_open(test, NULL);
	u16 port = be16_to_cpu(((struct sockaddr_in *)&before->name)->sin_port);

	fx_close(test, &before->ep->fid);
	rdm = rdm_open(test, &(struct rdm_opts){ .port = port });
	KUNIT_EXPECT_MEMEQ(test, &before->name, &rdm->name, before->name_len);
	rdm_exchange(test, other, rdm_addr(test, other, rdm), rdm);
}

static void rdm_04_an_address_in_use_is_refused(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, NULL), *b = rdm_make(test, NULL);

	KUNIT_ASSERT_EQ(test, 0, fi_setname(&b->ep->fid, &a->name, a->name_len));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(b->ep, &b->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(b->ep, &b->cq->fid, FI_TRANSMIT | FI_RECV));
	KUNIT_EXPECT_EQ(test, -FI_EADDRINUSE, fi_enable(b->ep));
	/* Enabling can be tried again. */
	fx_close(test, &a->ep->fid);
	KUNIT_EXPECT_EQ(test, 0, fi_enable(b->ep));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_setname(&b->ep->fid, &a->name, a->name_len));
}

/* Sends until a post is refused; returns the number of messages sent. */
static u32 send_all(struct kunit *test, struct kofi_rdm *from, fi_addr_t addr)
{
	u32 count = 0;

	while (!fi_inject(from->ep, &count, sizeof(count), addr))
		count++;
	KUNIT_EXPECT_GT(test, count, 0);
	return count;
}

static void rdm_06_a_peer_that_does_not_receive_slows_no_other(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, NULL);
	struct kofi_rdm *idle = rdm_open(test, NULL), *busy = rdm_open(test, NULL);
	fi_addr_t to_idle = rdm_addr(test, a, idle), to_busy = rdm_addr(test, a, busy);
	u32 *in = bytes(test, sizeof(*in)), count;

	rdm_exchange(test, a, to_idle, idle);
	rdm_exchange(test, a, to_busy, busy);
	count = send_all(test, a, to_idle);
	for (int i = 0; i < 20; i++)
		rdm_exchange(test, a, to_busy, busy);
	for (u32 i = 0; i < count; i++) {
		*in = ~0;
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(idle, FI_ADDR_UNSPEC, in, sizeof(*in), in));
		rdm_expect(test, idle, in, NULL);
		KUNIT_ASSERT_EQ(test, i, *in);
	}
}

/* After a reader that polled the queue has stopped, kOFI makes progress itself. */
static void progress_continues_when_the_reader_stops_polling(struct kunit *test)
{
	static const struct rdm_opts opts = { .rx_size = MANY };
	struct kofi_rdm *a = rdm_open(test, NULL), *b = rdm_make(test, &opts);
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	unsigned long until = jiffies + msecs_to_jiffies(50);
	struct fi_cq_tagged_entry entry;
	struct fid_cntr *received;
	u8 *in = bytes(test, 1);
	fi_addr_t to_b;

	KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(b->domain, &attr, &received, NULL));
	fx_defer_close(test, &received->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(b->ep, &received->fid, FI_RECV));
	rdm_start(test, b, 0);
	to_b = rdm_addr(test, a, b);
	/* There are more messages than receive packets. */
	for (int i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(b, FI_ADDR_UNSPEC, in, 1, in));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(a, to_b, "", 1, NULL));
	rdm_expect(test, a, NULL, NULL);
	rdm_expect(test, b, in, NULL);
	while (time_before(jiffies, until)) {
		KUNIT_ASSERT_EQ(test, -FI_EAGAIN, fi_cq_read(b->cq, &entry, 1));
		cond_resched();
	}
	for (int i = 1; i < MANY; i++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_send(a, to_b, "", 1, NULL));
		rdm_expect(test, a, NULL, NULL);
	}
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(received, MANY, FX_WAIT_MS));
	for (int i = 1; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 1, fi_cq_read(b->cq, &entry, 1));
	/* The endpoint is closed before the counter that is bound to it. */
	fx_close(test, &b->ep->fid);
}

static void rdm_09_sendto_and_recvfrom_require_an_address(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_DIRECTED_RECV };
	struct kofi_rdm *a = rdm_open(test, &opts), *b = rdm_open(test, &opts);
	fi_addr_t to_b = rdm_addr(test, a, b), from_a = rdm_addr(test, b, a);
	u8 *out = bytes(test, LEN), *in = bytes(test, LEN);

	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_sendto(a->ep, out, LEN, NULL, FI_ADDR_UNSPEC, out));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_recvfrom(b->ep, in, LEN, NULL, FI_ADDR_UNSPEC, in));
	get_random_bytes(out, LEN);
	KUNIT_ASSERT_EQ(test, 0, fi_recvfrom(b->ep, in, LEN, NULL, from_a, in));
	KUNIT_ASSERT_EQ(test, 0, fi_sendto(a->ep, out, LEN, NULL, to_b, out));
	rdm_expect(test, b, in, NULL);
	rdm_expect(test, a, out, NULL);
	KUNIT_EXPECT_MEMEQ(test, out, in, LEN);
}

static void info_08_datagram_infos_name_the_rxm_provider(struct kunit *test)
{
	static const struct {
		u32	type;
		u64	caps;
		bool	is_msg, is_rdm;
	} cases[] = {
		{ FI_EP_UNSPEC, 0, true, true },
		{ FI_EP_MSG, FI_MSG, true, false },
		{ FI_EP_RDM, FI_MSG, false, true },
		{ FI_EP_UNSPEC, FI_TAGGED, false, true },
		{ FI_EP_UNSPEC, FI_RMA, true, true },
		{ FI_EP_RDM, FI_RMA, false, true },
		{ FI_EP_RDM, FI_MULTI_RECV, false, true },
		{ FI_EP_RDM, FI_NAMED_RX_CTX, false, true },
		{ FI_EP_RDM, FI_MULTICAST, false, false },
	};

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fi_info *hints = fx_hints(test), *list = NULL;
		bool is_msg = false, is_rdm = false;
		int ret, want = -FI_ENODATA;

		if (cases[i].is_msg || cases[i].is_rdm)
			want = 0;
		hints->ep_attr->type = cases[i].type;
		hints->caps = cases[i].caps;
		ret = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints, &list);
		KUNIT_EXPECT_EQ(test, ret, want);
		for (struct fi_info *info = list; info; info = info->next) {
			const char *name = fx_is_loop() ? "loop" : "verbs";

			if (info->ep_attr->type == FI_EP_RDM)
				name = fx_is_loop() ? "loop;ofi_rxm" : "verbs;ofi_rxm";
			is_rdm |= info->ep_attr->type == FI_EP_RDM;
			is_msg |= info->ep_attr->type == FI_EP_MSG;
			KUNIT_EXPECT_STREQ(test, name, info->fabric_attr->prov_name);
		}
		KUNIT_EXPECT_EQ(test, is_msg, cases[i].is_msg);
		KUNIT_EXPECT_EQ(test, is_rdm, cases[i].is_rdm);
		fi_freeinfo(list);
	}
}

static void close_01_close_with_queued_sends_and_receives(struct kunit *test)
{
	struct kofi_rdm *a = rdm_open(test, NULL), *b = rdm_open(test, NULL);
	fi_addr_t to_b = rdm_addr(test, a, b);
	u8 *out = bytes(test, LEN), *in = bytes(test, LEN);

	while (!fi_send(a->ep, out, LEN, NULL, to_b, out))
		;
	for (int i = 0; i < 50; i++)
		KUNIT_EXPECT_EQ(test, 0, fi_recv(a->ep, in, LEN, NULL, FI_ADDR_UNSPEC, in));
	fx_close(test, &a->ep->fid);
	fx_close(test, &a->cq->fid);
	fx_close(test, &a->av->fid);
	fx_close(test, &a->domain->fid);
	fx_close(test, &a->fabric->fid);
}

/* A NULL address is 0, which means neither an invalid address nor any peer. */
static void rdm_01_address_0_is_the_first_of_a_table(struct kunit *test)
{
	const struct rdm_opts opts = { .caps = FI_DIRECTED_RECV };
	struct kofi_rdm *a = rdm_open(test, &opts), *b = rdm_open(test, &opts);
	struct kofi_rdm *c = rdm_open(test, &opts);
	u8 *out = bytes(test, LEN), *first = bytes(test, LEN), *any = bytes(test, LEN);
	fi_addr_t null = (uintptr_t)NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(b->ep, out, LEN, NULL, null, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_recv(b->ep, first, LEN, NULL, null, NULL));
	KUNIT_ASSERT_EQ(test, null, rdm_addr(test, b, a));
	KUNIT_ASSERT_EQ(test, null + 1, rdm_addr(test, b, c));
	rdm_exchange(test, b, null, a);
	/* A message of the other peer does not match a receive directed at the first. */
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(b, null, first, LEN, first));
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(b, FI_ADDR_UNSPEC, any, LEN, any));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(c, rdm_addr(test, c, b), out, LEN, out));
	rdm_expect(test, b, any, NULL);
	KUNIT_ASSERT_EQ(test, 0, rdm_send(a, rdm_addr(test, a, b), out, LEN, out));
	rdm_expect(test, b, first, NULL);
	/* Each endpoint has its own entries. */
	rdm_expect(test, c, out, NULL);
	rdm_expect(test, a, out, NULL);
}

static struct kunit_case rdm_cases[] = {
	KUNIT_CASE(rdm_01_an_address_vector_is_needed),
	KUNIT_CASE(rdm_01_sends_to_unset_addresses_are_refused),
	KUNIT_CASE(rdm_01_address_0_is_the_first_of_a_table),
	KUNIT_CASE(av_21_a_bound_vector_is_busy),
	KUNIT_CASE(rdm_04_the_first_send_connects),
	KUNIT_CASE(rdm_04_a_send_to_a_closed_peer_fails),
	KUNIT_CASE(rdm_03_messages_keep_their_order),
	KUNIT_CASE(rdm_04_simultaneous_connect),
	KUNIT_CASE(rdm_04_messages_to_itself),
	KUNIT_CASE(rdm_02_directed_receives_take_from_one),
	KUNIT_CASE(rdm_05_a_cancelled_receive_fails),
	KUNIT_CASE(rdm_04_a_reopened_peer_gets_a_new_connection),
	KUNIT_CASE(rdm_04_the_endpoint_listens_at_the_port_of_the_info),
	KUNIT_CASE(rdm_04_an_address_in_use_is_refused),
	KUNIT_CASE(rdm_06_a_peer_that_does_not_receive_slows_no_other),
	KUNIT_CASE_SLOW(progress_continues_when_the_reader_stops_polling),
	KUNIT_CASE(rdm_09_sendto_and_recvfrom_require_an_address),
	KUNIT_CASE(info_08_datagram_infos_name_the_rxm_provider),
	KUNIT_CASE(close_01_close_with_queued_sends_and_receives),
	{}
};

static struct kunit_suite rdm_suite = {
	.name = "kofi_rdm",
	.test_cases = rdm_cases,
};

kunit_test_suite(rdm_suite);
