/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Completion queues with a handler that looks around each time it is called:
 * where it is, whether it is there alone, whether the queue is still open.
 */

#ifndef KOFI_KUNIT_HANDLER_H
#define KOFI_KUNIT_HANDLER_H

#include "traffic.h"

/* A queue, its handler and what that saw. */
struct hd_queue {
	struct fid_cq	*cq;
	bool		hard;		/* FI_CB_CTX_INTR */
	/* What the handler does besides, and what for. */
	void		(*body)(struct hd_queue *queue);
	void		*data;
	struct fid_ep	*ep;		/* bound to it, or NULL */
	atomic_t	calls;
	atomic_t	inside;
	bool		wrong_queue, wrong_place, twice, closed, late;
};

/* Where handlers are called: cases run once for each. */
extern const bool hd_hard[2];
void hd_name_place(const bool *hard, char *name);

/* Opens a queue with a handler; closed with the test, and checked by then. */
struct hd_queue *hd_open(struct kunit *test, struct kofi_fabric_fx *fx,
			 bool hard, void (*body)(struct hd_queue *queue),
			 void *data);
/* Connects an endpoint of each queue with each other; NULL stands for fx->cq. */
void hd_connect(struct kunit *test, struct kofi_fabric_fx *fx,
		struct hd_queue *one, struct hd_queue *other,
		struct fid_ep *ep[2]);
/* Closes it now; from then on a call is late. */
void hd_close(struct kunit *test, struct hd_queue *queue);
/* Nothing that the handler saw was wrong. */
void hd_check(struct kunit *test, struct hd_queue *queue);

/* Waits until the handler has been called this often; false where it is not. */
bool hd_called(struct kunit *test, struct hd_queue *queue, int calls);
/* Waits until nobody is in the handler. */
bool hd_quiet(struct kunit *test, struct hd_queue *queue);

/* A completion for a handler's data: it outlives the queue, also where an assertion ends the test. */
struct completion *hd_completion(struct kunit *test);
/* A body: reads all entries and failures, and completes data, a struct completion. */
void hd_read_and_complete(struct hd_queue *queue);
/* Injects a byte after a call of such a handler; after the next one where it is refused. */
void hd_inject_when_called(struct kunit *test, struct hd_queue *queue, struct fid_ep *ep,
			   fi_addr_t to);

/* Posts empty receives or sends, one after another. */
void hd_receives(struct kunit *test, struct fid_ep *ep, int count);
void hd_sends(struct kunit *test, struct fid_ep *ep, int count);

#endif /* KOFI_KUNIT_HANDLER_H */
