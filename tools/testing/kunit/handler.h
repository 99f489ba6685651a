/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Completion queues with a handler that checks each of its calls: the context
 * that it runs in, that no other call of it runs, and that the queue is still
 * open.
 */

#ifndef KOFI_KUNIT_HANDLER_H
#define KOFI_KUNIT_HANDLER_H

#include "traffic.h"

/* A queue, its handler, and the violations that the handler saw. */
struct hd_queue {
	struct fid_cq	*cq;
	bool		hard;		/* FI_CB_CTX_INTR */
	/* Called by the handler after its checks. */
	void		(*body)(struct hd_queue *queue);
	void		*data;
	struct fid_ep	*ep;		/* bound to cq, or NULL */
	atomic_t	calls;
	atomic_t	inside;
	bool		wrong_queue, wrong_context, concurrent, closed, late;
};

/* Contexts of a handler, hardirq and process; a test with this parameter runs once for each. */
extern const bool hd_hard[2];
void hd_name_context(const bool *hard, char *name);

/* Opens a queue with a handler; closed with the test. The caller runs hd_check() before. */
struct hd_queue *hd_open(struct kunit *test, struct kofi_fabric_fx *fx,
			 bool hard, void (*body)(struct hd_queue *queue),
			 void *data);
/* Connects two endpoints, one bound to each queue; NULL stands for fx->cq. */
void hd_connect(struct kunit *test, struct kofi_fabric_fx *fx,
		struct hd_queue *one, struct hd_queue *other,
		struct fid_ep *ep[2]);
/* Closes the queue; a later call of the handler is recorded as late. */
void hd_close(struct kunit *test, struct hd_queue *queue);
/* Expects that the handler saw no violation. */
void hd_check(struct kunit *test, struct hd_queue *queue);

/* Waits until the handler was called that often; false on a timeout. */
bool hd_wait_calls(struct kunit *test, struct hd_queue *queue, int calls);
/* Waits until the handler does not run; false on a timeout. */
bool hd_wait_idle(struct kunit *test, struct hd_queue *queue);

/*
 * Allocates a completion for a handler's data, which outlives the queue even if
 * an assertion ends the test.
 */
struct completion *hd_completion(struct kunit *test);
/* Handler body: reads all entries and errors, and completes data, a struct completion. */
void hd_read_and_complete(struct hd_queue *queue);
/*
 * Injects a byte after the next call of hd_read_and_complete(), and after each
 * further call while it returns -FI_EAGAIN.
 */
void hd_inject_when_called(struct kunit *test, struct hd_queue *queue, struct fid_ep *ep,
			   fi_addr_t to);

/* Post empty receives or sends. */
void hd_post_receives(struct kunit *test, struct fid_ep *ep, int count);
void hd_post_sends(struct kunit *test, struct fid_ep *ep, int count);

#endif /* KOFI_KUNIT_HANDLER_H */
