/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The raw-verbs transport of kofi_perf, for its Rust code; see raw_verbs.c.
 *
 * All functions may sleep and run in a kthread. They fail with -EINTR if
 * kthread_should_stop(). One thread at a time uses a connection.
 */

#ifndef KOFI_PERF_RAW_VERBS_H
#define KOFI_PERF_RAW_VERBS_H

#include <linux/list.h>
#include <linux/types.h>

struct net;
struct raw_conn;
struct raw_listener;

/* Bytes of the peer's private data that are kept. */
#define RAW_PRIVATE_DATA	56

/**
 * struct raw_buf - a buffer of a connection, mapped for its device
 * @data: the memory
 * @len: bytes of the memory
 * @entry: entry in the list of posted buffers
 * @dma: DMA address of the memory
 * @conn: the connection, on which the buffer holds a reference
 *
 * Allocated with kmalloc(). raw_buf_release() frees what the struct refers to.
 */
struct raw_buf {
	void			*data;
	u32			len;
	struct list_head	entry;
	u64			dma;
	struct raw_conn		*conn;
};

/* Operations of raw_post(). */
enum raw_op {
	RAW_SEND,
	RAW_WRITE,
	RAW_READ,
	RAW_FETCH_ADD,
	RAW_CMP_SWAP,
};

/**
 * struct raw_remote - remote memory and operands of an operation
 * @addr: address of the peer's memory
 * @rkey: key of the peer's memory
 * @compare_add: the summand of RAW_FETCH_ADD, the expected value of RAW_CMP_SWAP
 * @swap: the new value of RAW_CMP_SWAP
 */
struct raw_remote {
	u64	addr;
	u32	rkey;
	u64	compare_add;
	u64	swap;
};

struct raw_conn *raw_resolve(struct net *net, bool iwarp,
			     const void *src, size_t src_len,
			     const void *dst, size_t dst_len, u32 depth);
int raw_connect(struct raw_conn *conn, const void *data, u8 len);
int raw_accept(struct raw_conn *conn);
const u8 *raw_private_data(const struct raw_conn *conn);
int raw_expose(struct raw_conn *conn, size_t len, struct raw_remote *remote);
int raw_wait_closed(struct raw_conn *conn);
void raw_close(struct raw_conn *conn);

struct raw_buf *raw_buf_alloc(struct raw_conn *conn, u32 len);
void raw_buf_release(struct raw_buf *buf);
int raw_post_recv(struct raw_conn *conn, struct raw_buf *buf);
int raw_post(struct raw_conn *conn, struct raw_buf *buf, u32 len,
	     enum raw_op op, const struct raw_remote *remote);
struct raw_buf *raw_wait_tx(struct raw_conn *conn);
struct raw_buf *raw_wait_rx(struct raw_conn *conn, u32 *len);

struct raw_listener *raw_listen(struct net *net, const void *addr, size_t len);
struct raw_conn *raw_next_request(struct raw_listener *listener);
int raw_open(struct raw_conn *conn, u32 depth);
void raw_reject(struct raw_conn *conn, const void *data, u8 len);
void raw_listener_close(struct raw_listener *listener);

#endif /* KOFI_PERF_RAW_VERBS_H */
