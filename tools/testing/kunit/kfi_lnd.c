// SPDX-License-Identifier: GPL-2.0
/*
 * The sequence of Lustre's kfilnd, by a driver that does as it: getinfo with its hints,
 * immediate messages, bulk transfers by tags, cancels. See Documentation/kfabric.rst.
 */

#include <linux/bvec.h>

#include "kfi_lnd.h"

/* Waits for a transaction; returns its status. */
static int wait_for(struct transaction *tn)
{
	if (!wait_for_completion_timeout(&tn->done, msecs_to_jiffies(FX_WAIT_MS)))
		return -ETIMEDOUT;
	return tn->status;
}

static struct transaction *new_tn(struct kunit *test)
{
	struct transaction *tn = kunit_kzalloc(test, sizeof(*tn), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, tn);
	init_completion(&tn->done);
	return tn;
}

static void kfi_lnd_hints_find_a_scalable_endpoint(struct kunit *test)
{
	struct kfi_info *hints = lnd_hints(), *info;

	KUNIT_ASSERT_NOT_NULL(test, hints);
	fx_defer_free(test, hints);
	if (fx_is_loop())
		kunit_skip(test, "the driver reaches other hosts");
	KUNIT_ASSERT_EQ(test, 0, lnd_getinfo(hints, "17531", &info));
	KUNIT_EXPECT_EQ(test, KFI_EP_RDM, info->ep_attr->type);
	KUNIT_EXPECT_LE(test, CONTEXTS, info->ep_attr->tx_ctx_cnt);
	KUNIT_EXPECT_LE(test, CONTEXTS, info->ep_attr->rx_ctx_cnt);
	KUNIT_EXPECT_LE(test, SZ_1M, info->ep_attr->max_msg_size);
	KUNIT_EXPECT_LE(test, PAGES, info->domain_attr->mr_iov_limit);
	KUNIT_EXPECT_EQ(test, PAGES, info->tx_attr->iov_limit);
	KUNIT_EXPECT_EQ(test, PAGES, info->tx_attr->rma_iov_limit);
	KUNIT_EXPECT_EQ(test, PAGES, info->rx_attr->iov_limit);
	kfi_freeinfo(info);
}

#define MESSAGES	1300

/* More messages than a context's buffers hold, so that each buffer is posted again. */
static void kfi_lnd_immediate_messages_fill_buffers_again(struct kunit *test)
{
	struct immediate *out = (void *)tr_buffer(test, sizeof(*out));
	struct transaction *tn = new_tn(test);
	struct lnds *lnds = lnd_open(test);
	struct context *to = &lnds->server.contexts[1];
	kfi_addr_t addr = kfi_rx_addr(lnds->to_server, 1, RX_BITS);

	for (u64 number = 0; number < MESSAGES; number++) {
		out->number = number;
		out->copy = ~number;
		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
			kfi_send(lnds->client.contexts[number % CONTEXTS].tx, out, sizeof(*out),
				 NULL, addr, tn)));
		KUNIT_ASSERT_EQ(test, 0, wait_for(tn));
	}
	KUNIT_EXPECT_NE(test, 0, wait_event_timeout(lnds->server.changed,
						    atomic_read(&to->received) == MESSAGES,
						    msecs_to_jiffies(FX_WAIT_MS)));
	KUNIT_EXPECT_EQ(test, MESSAGES, atomic_read(&to->received));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&to->wrong));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&lnds->server.contexts[0].received));
}

struct bulk {
	struct page	*pages[PAGES];
	struct bio_vec	vector[PAGES];
};

static void free_bulk(void *data)
{
	struct bulk *bulk = data;

	for (int i = 0; i < PAGES && bulk->pages[i]; i++)
		__free_page(bulk->pages[i]);
}

/* Allocates before lnd_open(): memory of operations is freed after the endpoints are closed. */
static struct bulk *new_bulk(struct kunit *test)
{
	struct bulk *bulk = kunit_kzalloc(test, sizeof(*bulk), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bulk);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_bulk, bulk));
	for (int i = 0; i < PAGES; i++) {
		bulk->pages[i] = alloc_page(GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, bulk->pages[i]);
		bvec_set_page(&bulk->vector[i], bulk->pages[i], PAGE_SIZE, 0);
		memset(page_address(bulk->pages[i]), 0, PAGE_SIZE);
	}
	return bulk;
}

/* Returns the number of pages that the driver's vectors have. */
static size_t vector_of(struct lnd *lnd)
{
	size_t limit = min(lnd->info->rx_attr->iov_limit, lnd->info->tx_attr->iov_limit);

	return min_t(size_t, PAGES, limit);
}

/* Returns the tag of a transaction: a session's key and a region's. */
static u64 tag_of(u64 session, u64 key)
{
	return session << KEY_BITS | key;
}

/* Posts the pages of a bulk transfer under a tag. */
static int post_sink(struct context *context, struct bulk *bulk, kfi_addr_t from, u64 tag,
		     struct transaction *tn)
{
	const struct kfi_msg_tagged msg = {
		.type = KFI_BVEC,
		.msg_biov = bulk->vector,
		.iov_count = vector_of(context->lnd),
		.addr = from,
		.tag = tag,
		.context = tn,
	};

	return kfi_trecvmsg(context->rx, &msg, KFI_COMPLETION);
}

static void kfi_lnd_pages_are_received_by_tag(struct kunit *test)
{
	struct transaction *sent = new_tn(test), *got = new_tn(test);
	struct bulk *in = new_bulk(test), *out = new_bulk(test);
	struct lnds *lnds = lnd_open(test);
	struct context *sink = &lnds->client.contexts[0], *source = &lnds->server.contexts[0];
	size_t count = vector_of(&lnds->server);

	for (int i = 0; i < PAGES; i++)
		tr_fill(page_address(out->pages[i]), PAGE_SIZE, i);
	KUNIT_ASSERT_EQ(test, 0, post_sink(sink, in, lnds->to_server, tag_of(7, 1), got));
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
		kfi_tsendbv(source->tx, out->vector, NULL, count,
			    kfi_rx_addr(lnds->to_client, 0, RX_BITS), tag_of(7, 1), sent)));
	KUNIT_EXPECT_EQ(test, 0, wait_for(sent));
	KUNIT_ASSERT_EQ(test, 0, wait_for(got));
	KUNIT_EXPECT_EQ(test, KFI_TAGGED | KFI_SEND, sent->flags);
	KUNIT_EXPECT_EQ(test, KFI_TAGGED | KFI_RECV, got->flags);
	KUNIT_EXPECT_EQ(test, count * PAGE_SIZE, got->len);
	for (int i = 0; i < count; i++)
		KUNIT_EXPECT_TRUE(test, tr_intact(page_address(in->pages[i]), PAGE_SIZE, i));
	if (count < PAGES)
		kunit_info(test, "vectors of %zu pages, not of %d", count, PAGES);
}

/* A target that fails tells so in the data of an empty message. */
static void kfi_lnd_a_status_ends_a_tagged_receive(struct kunit *test)
{
	struct transaction *sent = new_tn(test), *got = new_tn(test);
	struct bulk *in = new_bulk(test);
	struct lnds *lnds = lnd_open(test);
	struct context *sink = &lnds->client.contexts[1], *source = &lnds->server.contexts[1];

	KUNIT_ASSERT_EQ(test, 0, post_sink(sink, in, lnds->to_server, tag_of(7, 2), got));
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(
		kfi_tsenddata(source->tx, NULL, 0, NULL, EIO,
			      kfi_rx_addr(lnds->to_client, 1, RX_BITS), tag_of(7, 2), sent)));
	KUNIT_EXPECT_EQ(test, 0, wait_for(sent));
	KUNIT_ASSERT_EQ(test, 0, wait_for(got));
	KUNIT_EXPECT_EQ(test, KFI_TAGGED | KFI_RECV | KFI_REMOTE_CQ_DATA, got->flags);
	KUNIT_EXPECT_EQ(test, EIO, got->data);
	KUNIT_EXPECT_EQ(test, 0, got->len);
}

static void kfi_lnd_a_tagged_receive_is_cancelled(struct kunit *test)
{
	struct transaction *got = new_tn(test);
	struct bulk *in = new_bulk(test);
	struct lnds *lnds = lnd_open(test);
	struct context *sink = &lnds->client.contexts[0];

	/* The context's default flags are those of multi-receive buffers. */
	KUNIT_ASSERT_EQ(test, 0, kfi_trecvbv(sink->rx, in->vector, NULL, vector_of(&lnds->client),
					     lnds->to_server, tag_of(7, 3), 0, got));
	KUNIT_ASSERT_EQ(test, 0, kfi_cancel(&sink->rx->fid, got));
	KUNIT_EXPECT_EQ(test, -ECANCELED, wait_for(got));
	KUNIT_EXPECT_EQ(test, KFI_TAGGED | KFI_RECV, got->flags);
	KUNIT_EXPECT_EQ(test, -KFI_ENOENT, kfi_cancel(&sink->rx->fid, got));
}

/* Reads and writes name the peer's pages by the tag of its receive. */
static void kfi_lnd_tagged_rma_moves_pages(struct kunit *test)
{
	struct transaction *moved = new_tn(test), *got = new_tn(test), *lent = new_tn(test);
	struct bulk *in = new_bulk(test), *out = new_bulk(test);
	struct lnds *lnds = lnd_open(test);
	struct context *sink = &lnds->client.contexts[0], *source = &lnds->server.contexts[0];
	size_t count = vector_of(&lnds->server);
	struct kfi_rma_iov remote = { .len = count * PAGE_SIZE, .key = tag_of(7, 4) };
	const struct kfi_msg_rma msg = {
		.type = KFI_BVEC,
		.msg_biov = out->vector,
		.iov_count = count,
		.addr = kfi_rx_addr(lnds->to_client, 0, RX_BITS),
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = moved,
	};

	for (int i = 0; i < PAGES; i++)
		tr_fill(page_address(out->pages[i]), PAGE_SIZE, i);
	KUNIT_ASSERT_EQ(test, 0, post_sink(sink, in, lnds->to_server, tag_of(7, 4), got));
	KUNIT_ASSERT_EQ(test, 0, kfi_writemsg(source->tx, &msg, KFI_TAGGED | KFI_COMPLETION));
	KUNIT_EXPECT_EQ(test, 0, wait_for(moved));
	KUNIT_EXPECT_EQ(test, 0, wait_for(got));
	for (int i = 0; i < count; i++) {
		KUNIT_EXPECT_TRUE(test, tr_intact(page_address(in->pages[i]), PAGE_SIZE, i));
		memset(page_address(out->pages[i]), 0, PAGE_SIZE);
	}

	moved = new_tn(test);
	remote.key = tag_of(7, 5);
	KUNIT_ASSERT_EQ(test, 0, post_sink(sink, in, lnds->to_server, tag_of(7, 5), lent));
	KUNIT_ASSERT_EQ(test, 0, kfi_readmsg(source->tx, &(struct kfi_msg_rma) {
		.type = KFI_BVEC, .msg_biov = out->vector, .iov_count = count, .addr = msg.addr,
		.rma_iov = &remote, .rma_iov_count = 1, .context = moved,
	}, KFI_TAGGED | KFI_COMPLETION));
	KUNIT_EXPECT_EQ(test, 0, wait_for(moved));
	KUNIT_EXPECT_EQ(test, 0, wait_for(lent));
	for (int i = 0; i < count; i++)
		KUNIT_EXPECT_TRUE(test, tr_intact(page_address(out->pages[i]), PAGE_SIZE, i));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(kfi_lnd_hints_find_a_scalable_endpoint),
	KUNIT_CASE(kfi_lnd_immediate_messages_fill_buffers_again),
	KUNIT_CASE(kfi_lnd_pages_are_received_by_tag),
	KUNIT_CASE(kfi_lnd_a_status_ends_a_tagged_receive),
	KUNIT_CASE(kfi_lnd_a_tagged_receive_is_cancelled),
	KUNIT_CASE(kfi_lnd_tagged_rma_moves_pages),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_kfi_lnd",
	.test_cases = cases,
};

kunit_test_suite(suite);
