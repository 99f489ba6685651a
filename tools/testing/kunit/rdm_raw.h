/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A raw peer of datagram endpoints: a connected endpoint that sends arbitrary
 * packets. rust/prov/rxm/wire.rs describes valid ones.
 */

#ifndef KOFI_KUNIT_RDM_RAW_H
#define KOFI_KUNIT_RDM_RAW_H

#include "rdm.h"
#include "traffic.h"

#define RAW_HEADER	64
#define RAW_EAGER	16384
#define RAW_PKT_MAX	(RAW_HEADER + RAW_EAGER)

/* Port of raw peers that need no certain one; no endpoint listens there. */
#define RAW_PORT	1

/* Packets that may be pending, and receives that are posted. */
#define RAW_SLOTS	16
#define RAW_RECEIVES	32
/* Credit packets, which announce reposted receives where the device has no flow control. */
#define RAW_CREDIT_PKTS	4

enum raw_kind {
	RAW_PKT_EAGER, RAW_PKT_SEG, RAW_PKT_RNDV_REQ, RAW_PKT_RNDV_READ_DONE,
	RAW_PKT_ATOMIC_REQ, RAW_PKT_ATOMIC_RESP, RAW_PKT_CREDIT, RAW_PKT_RNDV_WR_DATA,
	RAW_PKT_RNDV_WRITE_DONE, RAW_PKT_KINDS,
	RAW_PKT_DISCONNECT = 128, RAW_PKT_ACK, RAW_PKT_TAGGED_ACCESS, RAW_PKT_ACCESS_REFUSED,
};

/* Messages of the disconnect handshake. */
enum raw_disconnect_msg { RAW_DISC_REQUEST = 1, RAW_DISC_ACCEPT, RAW_DISC_REFUSE };

/* Replaces the receive count of the connect data: announces support of the disconnect handshake. */
#define RAW_SUPPORTS_DISC	(0x6b6f0100 | RAW_RECEIVES)
/* Announces support of acknowledgements of delivered messages. */
#define RAW_SUPPORTS_ACKS	0x6b6f0404
/* Announces support of accesses to tagged receives. */
#define RAW_SUPPORTS_TAGGED_RMA	0x6b6f0408
/* Announces a number of receive contexts, 16 at most. */
#define RAW_CONTEXTS(count)	(0x6b6f0200 | ((count) - 1) << 12 | RAW_RECEIVES)
/* Flag of a message that asks for RAW_PKT_ACK, which has the bit of its slot (op_data) in extra. */
#define RAW_WANTS_ACK		0x10000000

enum raw_op { RAW_MSG, RAW_TAGGED, RAW_BASE = 6, RAW_FETCH, RAW_COMPARE };

enum raw_seg_pos { RAW_SEG_FIRST = 1, RAW_SEG_MIDDLE, RAW_SEG_LAST };

struct raw_header {
	u8	version, kind;
	u16	segment_len;
	u32	segment;
	u64	to;
	u64	id;
	u64	extra;
	u8	op_version, index, op, op_data;
	u32	flags;
	u64	len;
	u64	data;
	union {
		u64	tag;
		struct {
			u8	datatype, atomic_op, targets;
		};
	};
};
static_assert(sizeof(struct raw_header) == RAW_HEADER);

struct raw_ranges {
	struct {
		u64	addr, len, key;
	}	range[4];
	u64	count;
};
static_assert(sizeof(struct raw_ranges) == 104);

/* Private data of a connection request. */
struct raw_connect_data {
	u8	version, endianness, ctrl_version, op_version;
	u16	port;
	u8	flow, index;
	u32	eager;
	u32	receives;
	u32	name, instance;
};
static_assert(sizeof(struct raw_connect_data) == 24);

/* Private data of an accepted request. */
struct raw_accept_data {
	u32	name, instance;
	u32	receives;
	u8	flow, zero[3];
};
static_assert(sizeof(struct raw_accept_data) == 16);

struct raw {
	struct kofi_fabric_fx	*fx;
	struct fid_ep		*ep;	/* NULL without a connection */
	bool			is_closed;	/* the other end has closed the connection */
	bool			needs_recv;	/* iWARP: each packet needs a posted receive */
	bool			uses_credits;	/* both ends do */
	u32			to;	/* the other end's id of the connection */
	u64			credits;
	int			unannounced;	/* receives */
	u8			*out, *in, *credit_pkts;
	u32			busy;	/* bits of the packets of out that are pending */
	u32			credit_busy;	/* bits of the credit packets that are pending */
	u32			sent;	/* packets whose send has completed */
	u32			probes;	/* credit packets without credits */
	/* Packets received on this connection but credits; the last one, and the last ranges. */
	u32			packets;
	struct raw_header	got;
	struct raw_ranges	ranges;
	u8			cm_data[64];	/* private data of the accept or reject */
	size_t			cm_data_len;
	/* Called for each packet but credits; may be NULL. */
	void			(*on_packet)(struct raw *raw, const struct raw_header *header);
	void			*context;
	/* Memory that others may read and write. */
	u8			*memory;
	size_t			memory_len;
	u64			key;
};

/* Opens a raw peer without a connection, and registers memory_len bytes for remote access. */
struct raw *raw_open(struct kunit *test, size_t memory_len);
/* Returns valid connect data of a new instance at that port. */
struct raw_connect_data raw_connect_data(struct raw *raw, u16 port);
/* Connects; returns 0, or a positive fabric errno. */
int raw_connect(struct kunit *test, struct raw *raw, const void *to, const void *data, size_t len);
/*
 * Closes the connection, if there is one, and connects: requests are repeated, because the
 * endpoint rejects them while it has the previous connection.
 */
void raw_reconnect(struct kunit *test, struct raw *raw, const void *to, const void *data,
		   size_t len);
/* Reconnects as a peer at that port that announces these extensions, or 0. */
void raw_reconnect_as(struct kunit *test, struct raw *raw, const void *to, u16 port,
		      u32 extensions);
/* Opens a raw peer with 4 KiB of memory, and connects it as a peer at RAW_PORT. */
struct raw *raw_open_connected(struct kunit *test, const void *to, u32 extensions);
/*
 * Opens a raw peer and connects it to an endpoint at address to, as a peer at that port. It grants
 * no credit until raw_grant(), so the endpoint cannot post anything to it.
 */
struct raw *raw_open_silent(struct kunit *test, const void *to, u16 port);
/* Returns the address of a raw peer at that port of an endpoint's host. */
struct sockaddr_storage raw_name(const struct sockaddr_storage *endpoint, u16 port);
/* Inserts the address of a raw peer at that port of the endpoint's host; returns its fi_addr_t. */
fi_addr_t raw_addr(struct kunit *test, struct kofi_rdm *rdm, u16 port);
/* Grants the receives of a silent peer, which is not silent from now on. */
void raw_grant(struct kunit *test, struct raw *raw);
/* Closes the connection, if there is one. */
void raw_disconnect(struct kunit *test, struct raw *raw);
/* Processes all completions and events. */
void raw_progress(struct raw *raw);
/*
 * Processes completions and events until the condition is true. Ends the test if it is false for
 * FX_WAIT_MS; the format and its arguments say what the test has waited for.
 */
#define raw_await(test, raw, condition, fmt, ...) do {				\
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);		\
										\
	for (raw_progress(raw); !(condition); raw_progress(raw)) {		\
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),		\
				      "waited for " fmt, ##__VA_ARGS__);	\
		usleep_range(50, 100);						\
	}									\
} while (0)
/* Waits until that many packets but credits have been received on this connection. */
void raw_await_received(struct kunit *test, struct raw *raw, u32 count);
/* Waits until all packets that were sent have completed. */
void raw_await_sent(struct kunit *test, struct raw *raw);
/* Waits for the end of the connection, which has the cause why. */
void raw_await_closed(struct kunit *test, struct raw *raw, const char *why);
/* Returns a free packet, or NULL if there is none or no credit for it. */
u8 *raw_get_packet(struct raw *raw);
/* Waits for a free packet; returns NULL after that time, or if the connection has ended. */
u8 *raw_get_packet_within(struct raw *raw, unsigned int ms);
/* Waits for a free packet, and ends the test without one. */
u8 *raw_await_free(struct kunit *test, struct raw *raw);
/* Writes the header of a packet of that kind. */
struct raw_header *raw_init_packet(struct raw *raw, u8 *packet, enum raw_kind kind);
/* Writes a request that adds 1 to the word at addr; returns the length of the packet. */
size_t raw_init_atomic(struct raw *raw, u8 *packet, u64 addr, u64 key, u64 id);
/* Sends the packet; returns what fi_send() does. */
int raw_send(struct raw *raw, u8 *packet, size_t len);
/* Sends a header with these fields, once there is a free packet. */
void raw_send_ctrl(struct kunit *test, struct raw *raw, enum raw_kind kind, u64 id, u64 extra);

#endif /* KOFI_KUNIT_RDM_RAW_H */
