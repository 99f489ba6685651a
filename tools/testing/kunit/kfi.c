// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that use kfabric's names, and the adaptations for them. See
 * Documentation/kfabric.rst.
 */

/* Included as such code does, with an -I of rdma/kfi. */
#include <rdma/kfi/kfabric.h>
#include <rdma/kfi/kfi_cm.h>
#include <rdma/kfi/kfi_domain.h>
#include <rdma/kfi/kfi_endpoint.h>
#include <rdma/kfi/kfi_eq.h>
#include <rdma/kfi/kfi_rma.h>

#include "kfi_map.h"
#include "traffic.h"

#define SIZE	64

/* An endpoint, as a program of 2016 opens it. */
struct end {
	struct kfid_cq *cq;
	struct kfid_ep *ep;
	char *buf;
};

struct echo {
	struct kfi_info *info;
	struct kfid_fabric *fabric;
	struct kfid_domain *domain;
	struct kfid_eq *eq;
	struct kfid_pep *pep;
	struct end client, server;
};

static int open_end(struct kunit *test, struct echo *echo,
		    struct kfi_info *info, struct end *end)
{
	struct kfi_cq_attr attr = {
		.size = 8,
		.format = KFI_CQ_FORMAT_MSG,
		.wait_obj = KFI_WAIT_UNSPEC,
	};
	int ret;

	ret = kfi_cq_open(echo->domain, &attr, &end->cq, NULL);
	if (ret)
		return ret;
	fx_defer_close(test, &end->cq->fid);
	ret = kfi_endpoint(echo->domain, info, &end->ep, NULL);
	if (ret)
		return ret;
	fx_defer_close(test, &end->ep->fid);
	ret = kfi_ep_bind(end->ep, &echo->eq->fid, 0) ?:
	      kfi_ep_bind(end->ep, &end->cq->fid, KFI_TRANSMIT | KFI_RECV) ?:
	      kfi_enable(end->ep);
	if (ret)
		return ret;
	return kfi_recv(end->ep, end->buf, SIZE, NULL, KFI_ADDR_UNSPEC,
			end->buf);
}

static int next_event(struct echo *echo, struct kfi_eq_cm_entry *entry)
{
	uint32_t event;
	ssize_t n;

	n = kfi_eq_sread(echo->eq, &event, entry, sizeof(*entry), FX_WAIT_MS, 0);
	return n < 0 ? n : event;
}

/* Reads two completions, of a send and a receive; returns the bytes received. */
static ssize_t read_both(struct end *end)
{
	struct kfi_cq_msg_entry entry;
	ssize_t bytes = 0;

	for (int left = 2; left; left--) {
		ssize_t n = kfi_cq_sread(end->cq, &entry, 1, NULL, FX_WAIT_MS);

		if (n != 1)
			return n < 0 ? n : -KFI_EIO;
		if (entry.flags & KFI_RECV)
			bytes = entry.len;
	}
	return bytes;
}

/* Opens a fabric, a domain, and a listener on the address of the device under test. */
static int open_echo(struct kunit *test, struct echo *echo,
		     const struct kfi_info *here)
{
	struct kfi_eq_attr attr = { .wait_obj = KFI_WAIT_UNSPEC };
	struct kfi_info *hints = kfi_allocinfo();
	int ret;

	if (!hints)
		return -KFI_ENOMEM;
	hints->caps = KFI_MSG;
	hints->ep_attr->type = KFI_EP_MSG;
	hints->addr_format = here->addr_format;
	hints->src_addrlen = here->src_addrlen;
	hints->src_addr = kmemdup(here->src_addr, here->src_addrlen, GFP_KERNEL);
	ret = kfi_getinfo(KFI_VERSION(1, 1), hints, &echo->info);
	kfi_freeinfo(hints);
	if (ret)
		return ret;
	fx_defer_free(test, echo->info);
	ret = kfi_fabric(echo->info->fabric_attr, &echo->fabric, NULL);
	if (ret)
		return ret;
	fx_defer_close(test, &echo->fabric->fid);
	ret = kfi_domain(echo->fabric, echo->info, &echo->domain, NULL);
	if (ret)
		return ret;
	fx_defer_close(test, &echo->domain->fid);
	ret = kfi_eq_open(echo->fabric, &attr, &echo->eq, NULL);
	if (ret)
		return ret;
	fx_defer_close(test, &echo->eq->fid);
	ret = kfi_passive_ep(echo->fabric, echo->info, &echo->pep, NULL);
	if (ret)
		return ret;
	fx_defer_close(test, &echo->pep->fid);
	return kfi_pep_bind(echo->pep, &echo->eq->fid, 0) ?:
	       kfi_listen(echo->pep);
}

static void kfi_echo_program_of_2016(struct kunit *test)
{
	struct kfi_info *here = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct echo echo = {
		.client.buf = tr_buffer(test, SIZE),
		.server.buf = tr_buffer(test, SIZE),
	};
	char *out = tr_buffer(test, SIZE);
	struct kfi_eq_cm_entry entry;
	struct sockaddr_storage to;
	size_t len = sizeof(to);

	strscpy(out, "echo", SIZE);
	KUNIT_ASSERT_EQ(test, 0, open_echo(test, &echo, here));
	KUNIT_ASSERT_EQ(test, 0, kfi_getname(&echo.pep->fid, &to, &len));
	KUNIT_ASSERT_EQ(test, 0, open_end(test, &echo, echo.info, &echo.client));
	KUNIT_ASSERT_EQ(test, 0, kfi_connect(echo.client.ep, &to, NULL, 0));
	KUNIT_ASSERT_EQ(test, (int)KFI_CONNREQ, next_event(&echo, &entry));
	fx_defer_free(test, entry.info);
	KUNIT_ASSERT_EQ(test, 0,
			open_end(test, &echo, entry.info, &echo.server));
	KUNIT_ASSERT_EQ(test, 0, kfi_accept(echo.server.ep, NULL, 0));
	KUNIT_ASSERT_EQ(test, (int)KFI_CONNECTED, next_event(&echo, &entry));
	KUNIT_ASSERT_EQ(test, (int)KFI_CONNECTED, next_event(&echo, &entry));

	KUNIT_ASSERT_EQ(test, 0, kfi_send(echo.client.ep, out, SIZE, NULL,
					  KFI_ADDR_UNSPEC, out));
	/* The server sends the message back from its receive buffer. */
	KUNIT_ASSERT_EQ(test, 0, tr_await(echo.server.cq));
	KUNIT_ASSERT_EQ(test, 0, kfi_send(echo.server.ep, echo.server.buf, SIZE,
					  NULL, KFI_ADDR_UNSPEC, NULL));
	KUNIT_EXPECT_EQ(test, SIZE, read_both(&echo.client));
	KUNIT_EXPECT_EQ(test, SIZE, read_both(&echo.server));
	KUNIT_EXPECT_MEMEQ(test, echo.client.buf, out, SIZE);
	KUNIT_EXPECT_EQ(test, 0, kfi_shutdown(echo.client.ep, 0));
}

/* kfabric's users pass an uninitialised entry. */
static void kfi_error_entries_need_no_initialisation(struct kunit *test)
{
	struct kfi_info *here = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct echo echo = {
		.client.buf = tr_buffer(test, SIZE),
		.server.buf = tr_buffer(test, SIZE),
	};
	u8 *elsewhere = tr_buffer(test, SIZE);
	struct kfi_eq_err_entry refusal;
	struct kfi_cq_err_entry failure;
	struct kfi_eq_cm_entry entry;
	struct sockaddr_storage to;
	size_t len = sizeof(to);

	memset(&refusal, 0x5a, sizeof(refusal));
	refusal.err_data = elsewhere;
	memset(&failure, 0x5a, sizeof(failure));
	failure.err_data = elsewhere;
	KUNIT_ASSERT_EQ(test, 0, open_echo(test, &echo, here));
	KUNIT_ASSERT_EQ(test, 0, kfi_getname(&echo.pep->fid, &to, &len));
	KUNIT_ASSERT_EQ(test, 0, open_end(test, &echo, echo.info, &echo.client));
	KUNIT_ASSERT_EQ(test, 0, kfi_connect(echo.client.ep, &to, NULL, 0));
	KUNIT_ASSERT_EQ(test, (int)KFI_CONNREQ, next_event(&echo, &entry));
	fx_defer_free(test, entry.info);
	KUNIT_ASSERT_EQ(test, 0, kfi_reject(echo.pep, entry.info->handle,
					    "sixteen bytes no", 16));
	KUNIT_ASSERT_EQ(test, -KFI_EAVAIL, next_event(&echo, &entry));
	KUNIT_EXPECT_EQ(test, sizeof(refusal),
			kfi_eq_readerr(echo.eq, &refusal, 0));
	KUNIT_EXPECT_EQ(test, KFI_ECONNREFUSED, refusal.err);
	/* siw may drop the private data of a rejection. */
	if (refusal.err_data_size || !tr_is_iwarp(here)) {
		KUNIT_ASSERT_EQ(test, 16, refusal.err_data_size);
		KUNIT_EXPECT_MEMEQ(test, "sixteen bytes no", refusal.err_data, 16);
	}
	/* The receive that open_end() posted was flushed. */
	KUNIT_ASSERT_EQ(test, -KFI_EAVAIL, tr_await(echo.client.cq));
	KUNIT_EXPECT_EQ(test, 1, kfi_cq_readerr(echo.client.cq, &failure, 0));
	KUNIT_EXPECT_EQ(test, KFI_ECANCELED, failure.err);
	KUNIT_EXPECT_EQ(test, 0, failure.err_data_size);
	KUNIT_EXPECT_NULL(test, failure.err_data);
	KUNIT_EXPECT_NULL(test, memchr_inv(elsewhere, 0, SIZE));
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_eq_readerr(echo.eq, NULL, 0));
	KUNIT_EXPECT_EQ(test, -KFI_EINVAL, kfi_cq_readerr(echo.client.cq, NULL, 0));
}

static void complete_on_cq_call(struct kfid_cq *cq, void *context)
{
	complete(context);
}

static void complete_on_eq_call(struct kfid_eq *eq, void *context)
{
	complete(context);
}

/* The calls of HPE that open queues take the handler as an argument. */
static void kfi_queue_opens_take_a_handler(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct kfi_eq_attr attr = { .flags = KFI_WRITE };
	struct completion *called[2];
	struct kfid_cq *cq;
	struct kfid_eq *eq;

	for (int i = 0; i < 2; i++) {
		called[i] = (void *)tr_buffer(test, sizeof(*called[i]));
		init_completion(called[i]);
	}
	KUNIT_ASSERT_EQ(test, 0, kfi_eq_open(fx->fabric, &attr, &eq, complete_on_eq_call,
					     called[1]));
	fx_defer_close(test, &eq->fid);
	KUNIT_EXPECT_PTR_EQ(test, eq->fid.context, (void *)called[1]);
	KUNIT_EXPECT_EQ(test, 1, kfi_eq_write(eq, 99, "", 1, 0));
	KUNIT_EXPECT_NE(test, 0, wait_for_completion_timeout(called[1],
					msecs_to_jiffies(FX_WAIT_MS)));
	/* The caller's attributes stay as they were. */
	KUNIT_EXPECT_NULL(test, attr.eq_event_handler);

	KUNIT_ASSERT_EQ(test, 0, kfi_cq_open(fx->domain, NULL, &cq, complete_on_cq_call,
					     called[0]));
	fx_defer_close(test, &cq->fid);
	KUNIT_EXPECT_PTR_EQ(test, cq->fid.context, (void *)called[0]);
}

/* A completion calls the handler; another call needs a read that found the queue empty. */
static void kfi_a_completion_calls_the_handler(struct kunit *test)
{
	u8 *out = tr_buffer(test, SIZE), *in = tr_buffer(test, SIZE);
	struct completion *called = (void *)tr_buffer(test, sizeof(*called));
	struct kofi_fabric_fx *fx = fx_open(test);
	struct kfid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_ep *ep[2];
	struct kfid_cq *cq;

	init_completion(called);
	KUNIT_ASSERT_EQ(test, 0, kfi_cq_open(fx->domain, NULL, &cq, complete_on_cq_call,
					     called));
	fx_defer_close(test, &cq->fid);
	ep[0] = fx_ep(test, fx->domain, fx->info);
	fx_bind(test, ep[0], fx->eq, cq, KFI_TRANSMIT | KFI_RECV);
	ep[1] = fx_connect(test, fx->domain, ep[0], pep, fx->eq, fx->cq);
	KUNIT_ASSERT_EQ(test, 0, tr_recv(ep[1], in, SIZE));
	KUNIT_ASSERT_EQ(test, 0, kfi_send(ep[0], out, SIZE, NULL,
					  KFI_ADDR_UNSPEC, out));
	KUNIT_EXPECT_NE(test, 0, wait_for_completion_timeout(called,
					msecs_to_jiffies(FX_WAIT_MS)));
}

static struct bio_vec *pages_of(struct kunit *test, u8 *buf)
{
	struct bio_vec *bvec = (void *)tr_buffer(test, 2 * sizeof(*bvec));

	for (int i = 0; i < 2; i++)
		bvec_set_page(&bvec[i], virt_to_page(buf), SIZE / 2,
			      offset_in_page(buf) + i * SIZE / 2);
	return bvec;
}

static struct scatterlist *list_of(struct kunit *test, u8 *buf)
{
	struct scatterlist *sgl = (void *)tr_buffer(test, 2 * sizeof(*sgl));

	sg_init_table(sgl, 2);
	sg_set_buf(&sgl[0], buf, SIZE / 4);
	sg_set_buf(&sgl[1], buf + SIZE / 4, SIZE - SIZE / 4);
	kfi_map(sgl, 2);
	return sgl;
}

static void kfi_messages_from_bio_vecs_and_scatterlists(struct kunit *test)
{
	u8 *out = tr_buffer(test, SIZE), *in = tr_buffer(test, SIZE);
	struct bio_vec *bvec[2] = { pages_of(test, out), pages_of(test, in) };
	struct scatterlist *sgl[2] = { list_of(test, out), list_of(test, in) };
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct kfid_ep *ep[2] = { pair->ep[0], pair->ep[1] };
	struct kfi_msg send = {
		.type = KFI_BVEC,
		.msg_biov = bvec[0],
		.iov_count = 2,
		.context = out,
	};
	struct kfi_msg recv = {
		.type = KFI_SGL,
		.msg_sgl = sgl[1],
		.iov_count = 2,
		.context = in,
	};

	for (int round = 0; round < 3; round++) {
		tr_fill(out, SIZE, round);
		switch (round) {
		case 0:
			KUNIT_ASSERT_EQ(test, 0, kfi_recvsgl(ep[1], sgl[1],
							     NULL, 2, 0, in));
			KUNIT_ASSERT_EQ(test, 0, kfi_sendbv(ep[0], bvec[0],
							    NULL, 2, 0, out));
			break;
		case 1:
			KUNIT_ASSERT_EQ(test, 0, kfi_recvbv(ep[1], bvec[1],
							    NULL, 2, 0, in));
			KUNIT_ASSERT_EQ(test, 0, kfi_sendsgl(ep[0], sgl[0],
							     NULL, 2, 0, out));
			break;
		default:
			KUNIT_ASSERT_EQ(test, 0, kfi_recvmsg(ep[1], &recv, 0));
			KUNIT_ASSERT_EQ(test, 0, kfi_sendmsg(ep[0], &send, 0));
		}
		tr_expect(test, pair->cq[1], in, KFI_RECV, SIZE);
		tr_expect(test, pair->cq[0], out, KFI_SEND, 0);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, SIZE, round));
	}
	send.type = 7;
	KUNIT_EXPECT_EQ(test, -KFI_EBADFLAGS, kfi_sendmsg(ep[0], &send, 0));
	recv.type = 7;
	KUNIT_EXPECT_EQ(test, -KFI_EBADFLAGS, kfi_recvmsg(ep[1], &recv, 0));
}

/* Calls without flags use the endpoint's operation flags. */
static void kfi_sendbv_uses_the_endpoints_op_flags(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.tx_flags = FI_SELECTIVE_COMPLETION,
	};
	u8 *out = tr_buffer(test, SIZE), *in = tr_buffer(test, SIZE);
	struct bio_vec *bvec = pages_of(test, out);
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fi_cq_tagged_entry entry;
	u64 flags = KFI_TRANSMIT | KFI_COMPLETION;

	for (int called = 0; called < 2; called++) {
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], in, SIZE));
		KUNIT_ASSERT_EQ(test, 0, kfi_sendbv(pair->ep[0], bvec, NULL, 2,
						    0, out));
		tr_expect(test, pair->cq[1], in, KFI_RECV, SIZE);
		if (called)
			tr_expect(test, pair->cq[0], out, KFI_SEND, 0);
		else
			KUNIT_EXPECT_EQ(test, -KFI_EAGAIN,
					kfi_cq_read(pair->cq[0], &entry, 1));
		KUNIT_ASSERT_EQ(test, 0, kfi_control(&pair->ep[0]->fid,
						     KFI_SETOPSFLAG, &flags));
	}
}

static void expect_rma_completion(struct kunit *test, struct kfid_cq *cq, void *context,
				  u64 way)
{
	struct kfi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, cq, &entry, 1));
	KUNIT_EXPECT_PTR_EQ(test, context, entry.op_context);
	KUNIT_EXPECT_EQ(test, way | KFI_RMA, entry.flags);
}

static void kfi_rma_from_bio_vecs_and_scatterlists(struct kunit *test)
{
	const struct fx_pair_opts opts = { .caps = KFI_RMA };
	u8 *far = tr_buffer(test, SIZE), *buf = tr_buffer(test, SIZE);
	struct bio_vec *bvec = pages_of(test, buf);
	struct scatterlist *sgl = list_of(test, buf);
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct kfid_ep *ep = pair->ep[0];
	struct kfi_rma_iov remote = { .addr = (uintptr_t)far, .len = SIZE };
	struct kfi_msg_rma msg = {
		.type = KFI_SGL,
		.msg_sgl = sgl,
		.iov_count = 2,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = buf,
	};
	/* A read has one local buffer on iWARP. */
	bool reads = !tr_is_iwarp(pair->info);
	struct kfid_mr *mr;
	u64 key;

	KUNIT_ASSERT_EQ(test, 0,
			kfi_mr_reg(pair->domain, far, SIZE,
				   KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0, 0, 0,
				   &mr, NULL));
	fx_defer_close(test, &mr->fid);
	key = kfi_mr_key(mr);
	remote.key = key;

	for (int round = 0; round < 3; round++) {
		tr_fill(buf, SIZE, round);
		KUNIT_ASSERT_EQ(test, 0,
				round == 0 ? kfi_writebv(ep, bvec, NULL, 2, 0,
							 remote.addr, key, buf) :
				round == 1 ? kfi_writesgl(ep, sgl, NULL, 2, 0,
							  remote.addr, key, buf) :
					     kfi_writemsg(ep, &msg, 0));
		expect_rma_completion(test, pair->cq[0], buf, KFI_WRITE);
		if (!reads)
			continue;
		memset(buf, 0, SIZE);
		KUNIT_ASSERT_EQ(test, 0,
				round == 0 ? kfi_readsgl(ep, sgl, NULL, 2, 0,
							 remote.addr, key, buf) :
				round == 1 ? kfi_readbv(ep, bvec, NULL, 2, 0,
							remote.addr, key, buf) :
					     kfi_readmsg(ep, &msg, 0));
		expect_rma_completion(test, pair->cq[0], buf, KFI_READ);
		KUNIT_EXPECT_TRUE(test, tr_intact(buf, SIZE, round));
	}
	msg.type = 7;
	KUNIT_EXPECT_EQ(test, -KFI_EBADFLAGS, kfi_writemsg(ep, &msg, 0));
	KUNIT_EXPECT_EQ(test, -KFI_EBADFLAGS, kfi_readmsg(ep, &msg, 0));
}

/* Tries both forms of kfi_getinfo(), with a domain and with a fabric in the hints. */
static void info_16_an_open_domain_restricts_kfi_getinfo(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct kfi_info *hints = kfi_allocinfo(), *info;

	KUNIT_ASSERT_NOT_NULL(test, hints);
	fx_defer_free(test, hints);
	hints->domain_attr->domain = fx->domain;
	for (int round = 0; round < 2; round++) {
		KUNIT_ASSERT_EQ(test, 0, round ? kfi_getinfo(FI_VERSION(1, 17), hints, &info) :
				kfi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
		fx_defer_free(test, info);
		KUNIT_EXPECT_PTR_EQ(test, fx->domain, info->domain_attr->domain);
		KUNIT_EXPECT_PTR_EQ(test, fx->fabric, info->fabric_attr->fabric);
		KUNIT_EXPECT_STREQ(test, fx->info->domain_attr->name, info->domain_attr->name);
		hints->domain_attr->domain = NULL;
		hints->fabric_attr->fabric = fx->fabric;
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(kfi_echo_program_of_2016),
	KUNIT_CASE(kfi_error_entries_need_no_initialisation),
	KUNIT_CASE(kfi_queue_opens_take_a_handler),
	KUNIT_CASE(kfi_a_completion_calls_the_handler),
	KUNIT_CASE(kfi_messages_from_bio_vecs_and_scatterlists),
	KUNIT_CASE(kfi_sendbv_uses_the_endpoints_op_flags),
	KUNIT_CASE(kfi_rma_from_bio_vecs_and_scatterlists),
	KUNIT_CASE(info_16_an_open_domain_restricts_kfi_getinfo),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_kfi",
	.test_cases = cases,
};

kunit_test_suite(suite);
