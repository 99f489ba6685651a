// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queue handler that checks its calls: see handler.h.
 */

#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>

#include "handler.h"

const bool hd_hard[2] = { true, false };

void hd_name_context(const bool *hard, char *name)
{
	strscpy(name, *hard ? "interrupt" : "task", KUNIT_PARAM_DESC_SIZE);
}

static bool is_in_context(bool hard)
{
	if (hard)
		return in_hardirq();
	might_sleep();
	return in_task() && !in_atomic() && !irqs_disabled();
}

static void check_call(struct fid_cq *cq, void *context)
{
	struct hd_queue *queue = context;

	if (atomic_inc_return(&queue->inside) > 1)
		queue->concurrent = true;
	if (READ_ONCE(queue->closed))
		queue->late = true;
	if (cq != queue->cq)
		queue->wrong_queue = true;
	if (!is_in_context(queue->hard))
		queue->wrong_context = true;
	atomic_inc(&queue->calls);
	if (queue->body)
		queue->body(queue);
	atomic_dec(&queue->inside);
}

struct hd_queue *hd_open(struct kunit *test, struct kofi_fabric_fx *fx,
			 bool hard, void (*body)(struct hd_queue *queue),
			 void *data)
{
	struct hd_queue *queue = (void *)tr_buffer(test, sizeof(*queue));
	struct fi_cq_attr attr = {
		.flags = hard ? FI_CB_CTX_INTR : 0,
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
		.cq_event_handler = check_call,
	};

	queue->hard = hard;
	queue->body = body;
	queue->data = data;
	KUNIT_ASSERT_EQ(test, 0,
			fi_cq_open(fx->domain, &attr, &queue->cq, queue));
	fx_defer_close(test, &queue->cq->fid);
	return queue;
}

void hd_connect(struct kunit *test, struct kofi_fabric_fx *fx,
		struct hd_queue *one, struct hd_queue *other,
		struct fid_ep *ep[2])
{
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);

	ep[0] = fx_ep(test, fx->domain, fx->info);
	fx_bind(test, ep[0], fx->eq, one ? one->cq : fx->cq,
		FI_TRANSMIT | FI_RECV);
	ep[1] = fx_connect(test, fx->domain, ep[0], pep, fx->eq,
			   other ? other->cq : fx->cq);
	if (one)
		one->ep = ep[0];
	if (other)
		other->ep = ep[1];
}

void hd_close(struct kunit *test, struct hd_queue *queue)
{
	fx_close(test, &queue->cq->fid);
	WRITE_ONCE(queue->closed, true);
	KUNIT_EXPECT_EQ_MSG(test, 0, atomic_read(&queue->inside),
			    "the handler runs after the close");
}

void hd_check(struct kunit *test, struct hd_queue *queue)
{
	const char *context = queue->hard ? "interrupt" : "task";

	KUNIT_EXPECT_FALSE_MSG(test, queue->wrong_queue, "%s", context);
	KUNIT_EXPECT_FALSE_MSG(test, queue->wrong_context, "%s", context);
	KUNIT_EXPECT_FALSE_MSG(test, queue->concurrent, "%s", context);
	KUNIT_EXPECT_FALSE_MSG(test, READ_ONCE(queue->late), "%s", context);
}

bool hd_wait_calls(struct kunit *test, struct hd_queue *queue, int calls)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (atomic_read(&queue->calls) < calls) {
		if (time_after(jiffies, deadline)) {
			kunit_err(test, "%d calls, not %d, after %d ms",
				  atomic_read(&queue->calls), calls, FX_WAIT_MS);
			return false;
		}
		usleep_range(100, 200);
	}
	return true;
}

bool hd_wait_idle(struct kunit *test, struct hd_queue *queue)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (atomic_read(&queue->inside)) {
		if (time_after(jiffies, deadline)) {
			kunit_err(test, "a handler has not ended");
			return false;
		}
		usleep_range(100, 200);
	}
	return true;
}

struct completion *hd_completion(struct kunit *test)
{
	struct completion *completion = kunit_kzalloc(test, sizeof(*completion), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, completion);
	init_completion(completion);
	return completion;
}

void hd_read_and_complete(struct hd_queue *queue)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;

	do {
		error = (struct fi_cq_err_entry){};
	} while (fi_cq_read(queue->cq, &entry, 1) == 1 ||
		 fi_cq_readerr(queue->cq, &error, 0) == 1);
	complete(queue->data);
}

void hd_inject_when_called(struct kunit *test, struct hd_queue *queue, struct fid_ep *ep,
			   fi_addr_t to)
{
	const unsigned long bound = msecs_to_jiffies(FX_WAIT_MS);
	char byte = 0;
	int calls = 0;
	ssize_t ret;

	do {
		KUNIT_ASSERT_LT_MSG(test, calls++, 10000, "calls of the handler without space");
		KUNIT_ASSERT_NE_MSG(test, 0, wait_for_completion_timeout(queue->data, bound),
				    "waited for a call of the handler, with %zd free slots",
				    fi_tx_size_left(ep));
		ret = fi_inject(ep, &byte, 1, to);
	} while (ret == -FI_EAGAIN);
	KUNIT_ASSERT_EQ(test, 0, ret);
}

void hd_post_receives(struct kunit *test, struct fid_ep *ep, int count)
{
	while (count--)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(ep, NULL, 0, NULL,
						 FI_ADDR_UNSPEC, NULL));
}

void hd_post_sends(struct kunit *test, struct fid_ep *ep, int count)
{
	while (count--)
		KUNIT_ASSERT_EQ(test, 0, fi_send(ep, NULL, 0, NULL,
						 FI_ADDR_UNSPEC, NULL));
}
