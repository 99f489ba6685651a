/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of the suites that transfer data: buffers, messages, threads.
 *
 * KUnit cleans up in reverse order: a test allocates its buffers before its
 * endpoints, so that the endpoints are closed before the buffers are freed.
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

/* Module parameter: number of rounds of repeated tests. */
extern unsigned int tr_rounds;
/* Module parameter: a scenario breaks the link or the device during the test. */
extern bool tr_outage;

/* Allocate zeroed memory of the linear map, or of vmalloc; freed with the test. */
u8 *tr_buffer(struct kunit *test, size_t len);
u8 *tr_vbuffer(struct kunit *test, size_t len);

/* Fills a buffer with a pattern of the seed; checks for the pattern. */
void tr_fill(u8 *buf, size_t len, u32 seed);
bool tr_intact(const u8 *buf, size_t len, u32 seed);

/* Post without a descriptor; the context is the buffer. */
ssize_t tr_send(struct fid_ep *ep, void *buf, size_t len);
ssize_t tr_recv(struct fid_ep *ep, void *buf, size_t len);

/* Sends one message from ep[from] to the other, and reads and checks both completions. */
void tr_exchange(struct kunit *test, struct kofi_pair *pair, int from,
		 u8 *source, u8 *target, size_t len);

/* Reads and checks one completion: the context, FI_SEND or FI_RECV, the length. */
void tr_expect(struct kunit *test, struct fid_cq *cq, void *context, u64 flag,
	       size_t len);
/* Reads one error, which has to be of the context; returns its errno. */
int tr_read_error(struct kunit *test, struct fid_cq *cq, void *context);
/* Reads one error: the context and the errno. */
void tr_expect_error(struct kunit *test, struct fid_cq *cq, void *context,
		     int err);
/* Waits until there is an entry, without reading it; returns what fi_cq_read() returned last. */
ssize_t tr_await(struct fid_cq *cq);
/* Reads all entries, successes too; returns the number of FI_ECANCELED errors. */
unsigned int tr_read_flushed(struct kunit *test, struct fid_cq *cq);

/* Expects FI_SHUTDOWN of this endpoint as the next event. */
void tr_expect_shutdown(struct kunit *test, struct fid_eq *eq,
			struct fid_ep *ep);
/* Expects FI_SHUTDOWN of both endpoints as the next two events, in any order. */
void tr_expect_shutdowns(struct kunit *test, struct fid_eq *eq,
			 const struct fid_ep *one, const struct fid_ep *other);
/* Expects no event and no error for a while. */
void tr_expect_silence(struct kunit *test, struct fid_eq *eq);

/* Returns true if the transport is iWARP. */
bool tr_is_iwarp(const struct fi_info *info);
/* Returns true for the loop provider, which completes an operation in the post if it can. */
bool tr_is_loop(const struct fi_info *info);
/* Skips the test with the loop provider. */
void tr_needs_device(struct kunit *test, const struct fi_info *info);

/* Fits the text of an IPv6 address with its scope. */
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

/* cpu: the CPU to run on, or -1 for any. */
struct tr_thread *tr_start(struct kunit *test, int cpu,
			   int (*fn)(struct tr_thread *thread), void *arg);
/* Stops the thread, and waits until it has ended. */
void tr_stop(struct kunit *test, struct tr_thread *thread);
/* Waits until the thread sleeps or has ended. */
void tr_until_asleep(struct kunit *test, struct tr_thread *thread);
/* Waits for the thread's end, the longer the more tr_rounds; returns false on a timeout. */
bool tr_join(struct kunit *test, struct tr_thread *thread);
bool tr_join_within(struct kunit *test, struct tr_thread *thread,
		    unsigned int ms);

#endif /* KOFI_KUNIT_TRAFFIC_H */
