// SPDX-License-Identifier: GPL-2.0
/*
 * Tests PEER of CONTRACT with another module's provider: the endpoints of the
 * sample "mailbox" complete into a completion queue of kOFI and take receives
 * of its SRX. See scenarios/mailbox.sh.
 */

#include "peer.h"
#include "rdm_srx.h"

#define LEN	64
#define MANY	16

struct mailboxes {
	struct rs_world		*world;		/* kOFI's owner CQ and SRX */
	struct fid_cq		*cq;		/* of the only member */
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_cq		*peer_cq;
	struct fid_ep		*peer_srx;
	struct fid_ep		*box[2];
	fi_addr_t		addr[2];
};

static struct fid_ep *open_box(struct kunit *test, struct mailboxes *boxes, fi_addr_t *addr)
{
	size_t len = sizeof(u32);
	struct fid_ep *box;
	u32 name;

	KUNIT_ASSERT_EQ(test, 0, fi_endpoint(boxes->domain, boxes->info, &box, NULL));
	fx_defer_close(test, &box->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(box, &boxes->peer_cq->fid, FI_TRANSMIT | FI_RECV));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(box, &boxes->peer_srx->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(box));
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&box->fid, &name, &len));
	*addr = name;
	return box;
}

static struct mailboxes *mailboxes(struct kunit *test, size_t cq_size)
{
	struct mailboxes *boxes = kunit_kzalloc(test, sizeof(*boxes), GFP_KERNEL);
	struct fi_peer_cq_context cq_context = { .size = sizeof(cq_context) };
	struct fi_peer_srx_context srx_context = { .size = sizeof(srx_context) };
	struct rs_opts opts = { .members = 1, .cq_size = cq_size };
	struct fi_cq_attr cq_attr = { .flags = FI_PEER };
	struct fi_rx_attr rx_attr = { .op_flags = FI_PEER };
	struct fi_info *hints = fi_allocinfo();
	struct fid *exported;
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, boxes);
	KUNIT_ASSERT_NOT_NULL(test, hints);
	hints->fabric_attr->prov_name = kstrdup("mailbox", GFP_KERNEL);
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &boxes->info);
	fi_freeinfo(hints);
	if (ret == -FI_ENODATA)
		kunit_skip(test, "see scenarios/mailbox.sh");
	KUNIT_ASSERT_EQ(test, 0, ret);
	fx_defer_free(test, boxes->info);
	boxes->world = rs_open(test, &opts);
	boxes->cq = boxes->world->member[0].cq;
	cq_context.cq = peer_export(test, boxes->cq);
	exported = peer_export_fid(test, &boxes->world->srx->fid, FI_CLASS_PEER_SRX);
	srx_context.srx = container_of(container_of(exported, struct fid_ep, fid), struct fid_peer_srx,
				       ep_fid);
	boxes->fabric = fx_fabric(test, boxes->info);
	boxes->domain = fx_domain(test, boxes->fabric, boxes->info);
	KUNIT_ASSERT_EQ(test, 0, fi_cq_open(boxes->domain, &cq_attr, &boxes->peer_cq, &cq_context));
	fx_defer_close(test, &boxes->peer_cq->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_srx_context(boxes->domain, &rx_attr, &boxes->peer_srx,
						&srx_context));
	fx_defer_close(test, &boxes->peer_srx->fid);
	for (int i = 0; i < 2; i++)
		boxes->box[i] = open_box(test, boxes, &boxes->addr[i]);
	return boxes;
}

static void peer_03_mailbox_and_rdm_messages_take_the_same_receives(struct kunit *test)
{
	u8 *out = tr_buffer(test, MANY * LEN), *in = tr_buffer(test, MANY * LEN);
	struct mailboxes *boxes = mailboxes(test, 0);
	struct fi_cq_tagged_entry entry;

	rs_post(test, boxes->world, in, LEN, MANY);
	for (int i = 0; i < MANY; i++) {
		bool to_mailbox = i % 2;

		memset(out + i * LEN, i + 1, LEN);
		if (to_mailbox)
			KUNIT_ASSERT_EQ(test, 0, fi_send(boxes->box[0], out + i * LEN, LEN, NULL,
							 boxes->addr[1], out + i * LEN));
		else
			rs_send(test, boxes->world, 0, 0, out + i * LEN, LEN);
		/* A send to a mailbox delivers synchronously: both completions are there. */
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, boxes->cq, &entry, 1));
		KUNIT_EXPECT_PTR_EQ(test, in + i * LEN, entry.op_context);
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry.flags);
		KUNIT_EXPECT_EQ(test, LEN, entry.len);
		KUNIT_EXPECT_MEMEQ(test, out + i * LEN, in + i * LEN, LEN);
		if (to_mailbox) {
			KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, boxes->cq, &entry, 1));
			KUNIT_EXPECT_EQ(test, FI_SEND | FI_MSG, entry.flags);
			KUNIT_EXPECT_PTR_EQ(test, out + i * LEN, entry.op_context);
		} else {
			rdm_expect(test, boxes->world->sender[0], out + i * LEN, NULL);
		}
	}
	KUNIT_EXPECT_EQ(test, 0, rs_depth(boxes->world));
}

static void peer_03_unexpected_mailbox_messages(struct kunit *test)
{
	u8 *out = tr_buffer(test, MANY * LEN), *in = tr_buffer(test, MANY * LEN);
	struct mailboxes *boxes = mailboxes(test, 0);
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < MANY; i++) {
		memset(out + i * LEN, i + 1, LEN);
		KUNIT_ASSERT_EQ(test, 0, fi_send(boxes->box[i % 2], out + i * LEN, LEN, NULL,
						 boxes->addr[!(i % 2)], out + i * LEN));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, boxes->cq, &entry, 1));
		KUNIT_EXPECT_EQ(test, FI_SEND | FI_MSG, entry.flags);
		memset(out + i * LEN, 0, LEN);
	}
	for (int i = 0; i < MANY - 3; i++) {
		rs_post(test, boxes->world, in + i * LEN, LEN, 1);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, boxes->cq, &entry, 1));
		KUNIT_EXPECT_PTR_EQ(test, in + i * LEN, entry.op_context);
		KUNIT_EXPECT_EQ(test, i + 1, in[i * LEN + LEN - 1]);
	}
	/* A message that is longer than the receive is truncated. */
	rs_post(test, boxes->world, in, LEN / 2, 1);
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, boxes->cq, &error));
	KUNIT_EXPECT_EQ(test, FI_ETRUNC, error.err);
	KUNIT_EXPECT_PTR_EQ(test, in, error.op_context);
	/* Closing the mailboxes drops their queued messages; a later receive stays posted. */
	fx_close(test, &boxes->box[0]->fid);
	fx_close(test, &boxes->box[1]->fid);
	rs_post(test, boxes->world, in, LEN, 1);
	KUNIT_EXPECT_EQ(test, 1, rs_depth(boxes->world));
	rs_send(test, boxes->world, 0, 0, out, LEN);
	rdm_expect(test, &boxes->world->member[0], in, NULL);
}

static void peer_02_a_full_owner_cq_loses_no_completion(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN);
	struct mailboxes *boxes = mailboxes(test, 4);
	struct fi_cq_tagged_entry entry;

	for (long i = 0; i < 10 * MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_send(boxes->box[0], out, LEN, NULL, boxes->addr[1],
						 (void *)(i + 1)));
	for (long i = 0; i < 10 * MANY; i++) {
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, boxes->cq, &entry, 1));
		KUNIT_EXPECT_PTR_EQ(test, (void *)(i + 1), entry.op_context);
	}
}

static void peer_05_wrong_calls_of_the_mailbox_provider_are_refused(struct kunit *test)
{
	struct mailboxes *boxes = mailboxes(test, 0);
	struct fi_cq_attr attr = {};
	struct fi_rx_attr rx_attr = {};
	struct fid_cq *cq = NULL;
	struct fid_ep *srx = NULL;
	u8 byte;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_cq_open(boxes->domain, &attr, &cq, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_srx_context(boxes->domain, &rx_attr, &srx, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(boxes->box[0], &byte, 1, NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, fi_send(boxes->box[0], &byte, 1 << 20, NULL,
						    boxes->addr[1], NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_recv(boxes->box[0], &byte, 1, NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&boxes->peer_cq->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&boxes->peer_srx->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&boxes->domain->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&boxes->fabric->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&boxes->world->srx->fid));
}

static int send_messages(struct tr_thread *thread)
{
	struct mailboxes *boxes = thread->arg;
	static u8 out[LEN];

	while (!kthread_should_stop()) {
		if (!fi_send(boxes->box[0], out, LEN, NULL, boxes->addr[1], NULL))
			thread->result++;
		cond_resched();
		/* After the first messages the sender slows down, so that the receiver keeps up. */
		if (thread->result > 50 * (ssize_t)tr_rounds)
			usleep_range(1000, 2000);
	}
	return 0;
}

static void race_mailbox_sends_and_receives_on_two_cpus(struct kunit *test)
{
	u8 *in = tr_buffer(test, LEN);
	struct mailboxes *boxes = mailboxes(test, 0);
	struct tr_thread *thread = tr_start(test, 1, send_messages, boxes);
	int wanted = 50 * tr_rounds, sent = 0, received = 0, posted = 0;
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while ((received < wanted || sent < wanted) && time_before(jiffies, end)) {
		struct fi_cq_tagged_entry entry;

		if (posted < wanted && !fi_recv(boxes->world->srx, in, LEN, NULL, FI_ADDR_UNSPEC, in))
			posted++;
		while (fi_cq_read(boxes->cq, &entry, 1) == 1) {
			if (entry.flags & FI_RECV)
				received++;
			else
				sent++;
		}
		cond_resched();
	}
	tr_stop(test, thread);
	KUNIT_EXPECT_EQ_MSG(test, wanted, received, "messages received before the timeout");
	KUNIT_EXPECT_GE_MSG(test, sent, wanted, "messages sent before the timeout");
}

static struct kunit_case cases[] = {
	KUNIT_CASE(peer_03_mailbox_and_rdm_messages_take_the_same_receives),
	KUNIT_CASE(peer_03_unexpected_mailbox_messages),
	KUNIT_CASE(peer_02_a_full_owner_cq_loses_no_completion),
	KUNIT_CASE(peer_05_wrong_calls_of_the_mailbox_provider_are_refused),
	KUNIT_CASE(race_mailbox_sends_and_receives_on_two_cpus),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_mailbox",
	.test_cases = cases,
};

kunit_test_suite(suite);
