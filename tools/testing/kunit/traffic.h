/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What suites that move data share: buffers, messages, threads.
 *
 * KUnit undoes what a test made in reverse order: a test makes its buffers
 * before its endpoints, so that these are closed when those are freed.
 */

#ifndef KOFI_KUNIT_TRAFFIC_H
#define KOFI_KUNIT_TRAFFIC_H

#include "fixture.h"

#include <linux/completion.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>

/* Module parameter: how often what can be repeated is. */
extern unsigned int tr_rounds;
/* And whether a scenario breaks what the test uses. */
extern bool tr_outage;

/* Zeroed memory of the linear map, of vmalloc's space, freed with the test. */
u8 *tr_buffer(struct kunit *test, size_t len);
u8 *tr_vbuffer(struct kunit *test, size_t len);

/* Bytes that differ from one seed to another, and whether they came through. */
void tr_fill(u8 *buf, size_t len, u32 seed);
bool tr_intact(const u8 *buf, size_t len, u32 seed);

/* Without a descriptor; the context is the buffer. */
ssize_t tr_send(struct fid_ep *ep, void *buf, size_t len);
ssize_t tr_recv(struct fid_ep *ep, void *buf, size_t len);

/* One message from ep[from] to the other, both completions read and checked. */
void tr_exchange(struct kunit *test, struct kofi_pair *pair, int from,
		 u8 *source, u8 *target, size_t len);

/* Reads and checks one completion: the context, FI_SEND or FI_RECV, the length. */
void tr_expect(struct kunit *test, struct fid_cq *cq, void *context, u64 flag,
	       size_t len);
/* Reads one error: the context and the errno. */
void tr_expect_error(struct kunit *test, struct fid_cq *cq, void *context,
		     int err);
/* Reads nothing until there is something to read: 0, or what it answers at last. */
ssize_t tr_await(struct fid_cq *cq);
/* Reads errors until there are none; how many were FI_ECANCELED. */
unsigned int tr_read_flushed(struct kunit *test, struct fid_cq *cq);

/* The next event is FI_SHUTDOWN, of this endpoint. */
void tr_expect_shutdown(struct kunit *test, struct fid_eq *eq,
			struct fid_ep *ep);
/* Expects FI_SHUTDOWN of both endpoints as the next two events, in any order. */
void tr_expect_shutdowns(struct kunit *test, struct fid_eq *eq,
			 const struct fid_ep *one, const struct fid_ep *other);
/* Nothing comes for a while: neither event nor error. */
void tr_expect_silence(struct kunit *test, struct fid_eq *eq);

/* How the device differs where its transport does. */
bool tr_is_iwarp(const struct fi_info *info);
/* Whether it is none: what is posted is done at once. */
bool tr_is_loop(const struct fi_info *info);
/* Ends a test that needs one. */
void tr_needs_device(struct kunit *test, const struct fi_info *info);

/* Room for the text of an IPv6 address with its scope. */
#define TR_NODE_LEN	64
/* Writes the interface's link-local address with scope as a node; false if there is none. */
bool tr_link_local(char node[TR_NODE_LEN]);

/* A thread that runs fn once; stopped and joined with the test at the latest. */
struct tr_thread {
	int			(*fn)(struct tr_thread *thread);
	void			*arg;
	ssize_t			result;
	struct task_struct	*task;
	struct completion	done;
};

/* cpu: which to run on, or -1 for any. */
struct tr_thread *tr_start(struct kunit *test, int cpu,
			   int (*fn)(struct tr_thread *thread), void *arg);
/* Tells it to stop, and waits until it has. */
void tr_stop(struct kunit *test, struct tr_thread *thread);
/* Returns when it has been seen to sleep, or has ended. */
void tr_until_asleep(struct kunit *test, struct tr_thread *thread);
/* Waits for its end, the longer the more rounds it may have to go; false where that does not come. */
bool tr_join(struct kunit *test, struct tr_thread *thread);
bool tr_join_within(struct kunit *test, struct tr_thread *thread,
		    unsigned int ms);

#endif /* KOFI_KUNIT_TRAFFIC_H */
