// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CQ 3: several entries in one read, from several hardware queues.
 */

#include <linux/delay.h>

#include "traffic.h"

#define LEN	64
#define MANY	8
#define BATCH	16

/* Hardware queues that complete in the one completion queue. */
enum { SEND_0, RECV_0, SEND_1, RECV_1, QUEUES };

/* An operation; its address is its context. */
struct op {
	int	queue;
	size_t	len;		/* of its message */
	u8	buf[LEN];
};

static const enum fi_cq_format formats[] = {
	FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA,
	FI_CQ_FORMAT_TAGGED,
};

static void name_format(const enum fi_cq_format *format, char *name)
{
	strscpy(name, fi_tostr(format, FI_TYPE_CQ_FORMAT),
		KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(formats, formats, name_format);

/* Returns entry i of an array of this format; a field that the format lacks is 0. */
static struct fi_cq_msg_entry entry_at(const void *entries,
				       enum fi_cq_format format, int i)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};
	struct fi_cq_msg_entry entry = {};

	/* Each format begins with the fields of the smaller ones. */
	memcpy(&entry, entries + i * sizes[format],
	       min(sizes[format], sizeof(entry)));
	return entry;
}

static struct op *post_all(struct kunit *test, struct kofi_pair *pair)
{
	struct op *ops = (void *)tr_buffer(test, QUEUES * MANY * sizeof(*ops));

	/* Receives are posted first; each message has another length. */
	for (int kind = 1; kind >= 0; kind--) {
		for (int i = 0; i < 2 * MANY; i++) {
			int side = i % 2, queue = side ? SEND_1 : SEND_0;
			struct op *op = ops + (queue + kind) * MANY + i / 2;

			op->queue = queue + kind;
			op->len = kind ? LEN : i / 2 + 1;
			KUNIT_ASSERT_EQ(test, 0, kind ?
				fi_recv(pair->ep[side], op->buf, op->len, NULL,
					FI_ADDR_UNSPEC, op) :
				fi_send(pair->ep[side], op->buf, op->len, NULL,
					FI_ADDR_UNSPEC, op));
		}
	}
	return ops;
}

/* Entries of each hardware queue come in order and once, with the context of their operation. */
static void cq_03_one_read_takes_entries_of_several_queues(struct kunit *test)
{
	const enum fi_cq_format *format = test->param_value;
	const struct fx_pair_opts opts = { .format = *format, .one_cq = true };
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fi_cq_tagged_entry entries[BATCH];
	struct op *ops = post_all(test, pair);
	int next[QUEUES] = {}, total = 0;

	while (total < QUEUES * MANY && time_before(jiffies, deadline)) {
		ssize_t found = fi_cq_read(pair->cq[0], entries, BATCH);

		/* Lets several entries accumulate. */
		if (found == -FI_EAGAIN) {
			msleep(20);
			continue;
		}
		KUNIT_ASSERT_GT(test, found, 0);
		total += found;
		for (int i = 0; i < found; i++) {
			struct fi_cq_msg_entry entry =
				entry_at(entries, *format, i);
			struct op *op = entry.op_context;
			int queue = op->queue, at = next[queue]++;
			bool recv = queue == RECV_0 || queue == RECV_1;

			KUNIT_ASSERT_PTR_EQ(test, ops + queue * MANY + at, op);
			if (*format == FI_CQ_FORMAT_CONTEXT)
				continue;
			KUNIT_EXPECT_EQ(test, FI_MSG | (recv ? FI_RECV : FI_SEND),
					entry.flags);
			KUNIT_EXPECT_EQ(test, recv ? at + 1 : 0, entry.len);
		}
	}
	KUNIT_EXPECT_EQ(test, QUEUES * MANY, total);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_read(pair->cq[0], entries, BATCH));
}

/* Completions without an entry take no slot of a read, and do not delay entries behind them. */
static void cq_03_entry_behind_completions_without_entry(struct kunit *test)
{
	const struct fx_pair_opts opts = { .rx_flags = FI_SELECTIVE_COMPLETION };
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fi_cq_tagged_entry entries[2 * BATCH + 1];
	u8 *buf = tr_buffer(test, LEN);
	struct fi_msg msg = { .context = buf };

	/* On iWARP a completed send does not mean that the receive completed. */
	if (tr_is_iwarp(pair->info))
		kunit_skip(test, "a completed send need not have arrived");
	for (int silent = 1; silent < ARRAY_SIZE(entries); silent++) {
		for (int i = 0; i < silent; i++)
			KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(pair->ep[1], &msg, 0));
		KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(pair->ep[1], &msg,
						    FI_COMPLETION));
		for (int i = 0; i <= silent; i++)
			KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], buf, 0));
		KUNIT_ASSERT_EQ(test, silent + 1,
				fx_wait_comp(test, pair->cq[0], entries,
					     silent + 1));
		KUNIT_EXPECT_EQ_MSG(test, 1,
				    fi_cq_read(pair->cq[1], entries, 1),
				    "behind %d", silent);
		KUNIT_EXPECT_PTR_EQ(test, buf, entries[0].op_context);
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
				fi_cq_read(pair->cq[1], entries, 1));
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cq_03_entry_behind_completions_without_entry),
	KUNIT_CASE_PARAM(cq_03_one_read_takes_entries_of_several_queues,
			 formats_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cq_batch",
	.test_cases = cases,
};

kunit_test_suite(suite);
