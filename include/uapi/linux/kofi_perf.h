/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * /dev/kofi_perf: interface of processes to the traffic generator, kofi_perf.ko.
 *
 * Opening the device, even only for reading, requires CAP_NET_ADMIN. It binds the
 * file to the network namespace of the task that opens it. Requests follow the rules
 * of <linux/kofi.h>, which also lists the errors of every request.
 *
 * A file can run one test, in a kernel thread: the data is exchanged between
 * kernels, and not copied to or from user space. The test ends when it is complete,
 * when it is stopped, and when the file is closed for the last time.
 */

#ifndef _UAPI_LINUX_KOFI_PERF_H
#define _UAPI_LINUX_KOFI_PERF_H

#include <linux/ioctl.h>
#include <linux/kofi.h>
#include <linux/types.h>

/* The requests share KOFI_IOC_MAGIC with /dev/kofi, but no request number. */
enum kofi_perf_request {
	KOFI_PERF_REQUEST_START = 3,
	KOFI_PERF_REQUEST_WATCH,
	KOFI_PERF_REQUEST_STOP,
};

/**
 * enum kofi_test_kind - kind of a test
 * @KOFI_TEST_SERVER: serve clients of the other kinds, several at once, until it is
 *	stopped
 * @KOFI_TEST_PINGPONG: send a message and wait for its echo, repeatedly
 * @KOFI_TEST_STREAM: send messages, a window of them at a time
 * @KOFI_TEST_WRITE: write to the server's memory, a window at a time
 * @KOFI_TEST_READ: read the server's memory, a window at a time
 * @KOFI_TEST_ATOMIC: change the server's memory atomically and wait for the old
 *	value, repeatedly
 */
enum kofi_test_kind {
	KOFI_TEST_SERVER,
	KOFI_TEST_PINGPONG,
	KOFI_TEST_STREAM,
	KOFI_TEST_WRITE,
	KOFI_TEST_READ,
	KOFI_TEST_ATOMIC,
};

/* The receiver checks the contents of each message. */
#define KOFI_TEST_VERIFY	(1U << 0)
/*
 * The test uses verbs directly, for comparison with the fabric interfaces. Client
 * and server must both have this flag. KOFI_TEST_ATOMIC is FI_SUM or FI_CSWAP of a
 * single element of 8 bytes then.
 */
#define KOFI_TEST_VERBS		(1U << 1)

#define KOFI_TEST_MAX_LENGTH	(1U << 20)
#define KOFI_TEST_MAX_WINDOW	1024
/* Maximum of the length times the window */
#define KOFI_TEST_MAX_BYTES	(1U << 26)
/*
 * Maximum number of clients that a server has at once, and maximum bytes of buffers
 * and regions for all of them. More clients are refused: see enum kofi_test_refusal.
 */
#define KOFI_TEST_MAX_CLIENTS	16
#define KOFI_TEST_MAX_SERVED	(1U << 29)

/**
 * struct kofi_test - KOFI_PERF_IOC_START: start a test
 * @size: of the struct
 * @flags: KOFI_TEST_VERIFY, KOFI_TEST_VERBS
 * @kind: enum kofi_test_kind
 * @window: KOFI_TEST_STREAM, KOFI_TEST_WRITE, KOFI_TEST_READ: maximum number of
 *	messages or accesses in progress, at least 1; else 0
 * @length: bytes of each, at least 1; for a server 0; for KOFI_TEST_ATOMIC a
 *	multiple of the element size
 * @count: number of messages or accesses, 0 for no limit; for a server 0
 * @msec: duration in milliseconds, 0 for no limit; for a server 0
 * @reserved: 0
 * @node: numeric address of the server; for a server its own, "" for any
 * @service: port number of the server
 * @domain_name: the device, "" for any
 * @op: KOFI_TEST_ATOMIC: enum fi_op; else 0
 * @datatype: KOFI_TEST_ATOMIC: enum fi_datatype of the elements; else 0
 *
 * Errors: EBUSY while a test runs; EINVAL for other values, and beyond the limits
 * above; those of every request. KOFI_PERF_IOC_WATCH reports later errors.
 */
struct kofi_test {
	__u32		size;
	__u32		flags;
	__u32		kind;
	__u32		window;
	__aligned_u64	length;
	__aligned_u64	count;
	__u32		msec;
	__u32		reserved;
	char		node[96];
	char		service[16];
	char		domain_name[64];
	__u32		op;
	__u32		datatype;
};

#define KOFI_PERF_IOC_START	_IO(KOFI_IOC_MAGIC, KOFI_PERF_REQUEST_START)

/**
 * enum kofi_test_state - state of a test
 * @KOFI_TEST_STARTING: the test searches for a device, and connects
 * @KOFI_TEST_RUNNING: messages are exchanged; a server waits for clients, or serves
 *	them
 * @KOFI_TEST_OVER: the test has ended
 */
enum kofi_test_state {
	KOFI_TEST_STARTING,
	KOFI_TEST_RUNNING,
	KOFI_TEST_OVER,
};

/**
 * enum kofi_test_refusal - reason why a server does not serve a client
 * @KOFI_TEST_REFUSAL_NONE: the server serves the client, or gave no reason, or does
 *	not exist
 * @KOFI_TEST_REFUSAL_FULL: the server has the maximum number of clients, or of bytes
 *	for them; there is space after a client has disconnected
 * @KOFI_TEST_REFUSAL_UNKNOWN: the server has another version and does not know the
 *	request
 */
enum kofi_test_refusal {
	KOFI_TEST_REFUSAL_NONE,
	KOFI_TEST_REFUSAL_FULL,
	KOFI_TEST_REFUSAL_UNKNOWN,
};

/*
 * Buckets of a histogram, 16 for each power of two. The smallest value of bucket n
 * is n if n is below 32, else (16 + n % 16) << (n / 16 - 1).
 */
#define KOFI_TEST_BUCKETS	976

/**
 * struct kofi_watch - KOFI_PERF_IOC_WATCH: progress and result of a test
 * @size: of the struct
 * @flags: 0
 * @msec: milliseconds to wait for the end of the test, 0 to return at once
 * @state: out: enum kofi_test_state
 * @error: out: positive fabric errno with which the test ended (KOFI_TEXT_ERROR
 *	describes it); 0 if it is complete or was stopped
 * @clients: out: for a server, the number of clients that it has served; @messages,
 *	@bytes and @damaged are then sums over all of them
 * @messages: out: messages sent, for KOFI_TEST_PINGPONG echoed, or completed
 *	accesses; for a server the messages received
 * @bytes: out: bytes of these
 * @damaged: out: number of messages or accesses with wrong contents; for
 *	KOFI_TEST_STREAM set at the end, when the server reports it; for
 *	KOFI_TEST_WRITE of those that are read back, a window at a time
 * @nsec: out: duration of the message exchange in ns; for a server that of the
 *	latest client
 * @min: out: shortest round trip of KOFI_TEST_PINGPONG, or shortest operation of
 *	KOFI_TEST_ATOMIC, in ns; 0 before the first one
 * @max: out: longest one
 * @buckets: array of __u64, histogram of the round trips or operations in ns; may be
 *	NULL if @bucket_count is 0
 * @bucket_count: elements of the array, of which up to KOFI_TEST_BUCKETS are written
 * @reserved: 0
 * @refusal: out: enum kofi_test_refusal: reason of the server if the error of a
 *	client is FI_ECONNREFUSED
 * @turned_away: out: number of clients that a server has refused with
 *	KOFI_TEST_REFUSAL_FULL
 *
 * Errors: ENOENT if no test has been started; EINTR for a signal; those of every
 * request.
 */
struct kofi_watch {
	__u32		size;
	__u32		flags;
	__u32		msec;
	__u32		state;
	__s32		error;
	__u32		clients;
	__aligned_u64	messages;
	__aligned_u64	bytes;
	__aligned_u64	damaged;
	__aligned_u64	nsec;
	__aligned_u64	min;
	__aligned_u64	max;
	__aligned_u64	buckets;
	__u32		bucket_count;
	__u32		reserved;
	__u32		refusal;
	__u32		turned_away;
};

#define KOFI_PERF_IOC_WATCH	_IO(KOFI_IOC_MAGIC, KOFI_PERF_REQUEST_WATCH)

/**
 * struct kofi_stop - KOFI_PERF_IOC_STOP: stop a test, and return when it has ended
 * @size: of the struct
 * @flags: 0
 *
 * Errors: ENOENT if no test has been started; those of every request.
 */
struct kofi_stop {
	__u32	size;
	__u32	flags;
};

#define KOFI_PERF_IOC_STOP	_IO(KOFI_IOC_MAGIC, KOFI_PERF_REQUEST_STOP)

#endif /* _UAPI_LINUX_KOFI_PERF_H */
