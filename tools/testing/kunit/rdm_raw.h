/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A peer of datagram endpoints that is none: a connected endpoint that says
 * what it likes. What it should say is in rust/prov/rdm/wire.rs.
 */

#ifndef KOFI_KUNIT_RDM_RAW_H
#define KOFI_KUNIT_RDM_RAW_H

#include "traffic.h"

#define RAW_HEADER	64
#define RAW_EAGER	16384
#define RAW_MOST	(RAW_HEADER + RAW_EAGER)

/* Packets that it may have under way, and receives that it has posted. */
#define RAW_SLOTS	16
#define RAW_RECEIVES	32
/* Packets that keep the other end informed of those, where the device does not. */
#define RAW_WORDS	4

enum raw_kind {
	RAW_WHOLE, RAW_SEGMENT, RAW_OFFER, RAW_TAKEN, RAW_ATOMIC, RAW_ANSWER, RAW_CREDIT, RAW_ROOM,
	RAW_WRITTEN, RAW_KINDS,
	RAW_FAREWELL = 128,
};

/* What a farewell says. */
enum raw_farewell { RAW_ASK = 1, RAW_AGREE, RAW_STAY };

/* Who understands that says so with the number of its receives. */
#define RAW_POLITE	0x6b6f0100

enum raw_op { RAW_MSG, RAW_TAGGED, RAW_BASE = 6, RAW_FETCH, RAW_COMPARE };

enum raw_place { RAW_FIRST = 1, RAW_MIDDLE, RAW_LAST };

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

/* What comes with a request to connect. */
struct raw_hello {
	u8	version, endianness, ctrl_version, op_version;
	u16	port;
	u8	flow, index;
	u32	eager;
	u32	receives;
	u32	name, instance;
};
static_assert(sizeof(struct raw_hello) == 24);

/* And with the answer. */
struct raw_welcome {
	u32	name, instance;
	u32	receives;
	u8	flow, zero[3];
};
static_assert(sizeof(struct raw_welcome) == 16);

struct raw {
	struct kofi_fabric_fx	*fx;
	struct fid_ep		*ep;	/* if there is a connection, or to be one */
	bool			is_gone;	/* the other end has ended it */
	bool			is_merciless;	/* a packet without a receive ends the connection */
	bool			counts;	/* so both ends count them */
	u32			to;	/* what the other end calls the connection */
	u64			credits;
	int			untold;
	u8			*out, *in, *words;
	u32			busy;	/* which of out are under way */
	u32			speaking;	/* of words */
	u32			done;	/* packets that have arrived */
	u32			probes;	/* credit packets without credits */
	u8			said[64];	/* with the answer, or the refusal */
	size_t			said_len;
	/* Of whatever arrives; may be NULL. */
	void			(*heard)(struct raw *raw, const struct raw_header *header);
	void			*context;
	/* What others may read and write. */
	u8			*memory;
	size_t			memory_len;
	u64			key;
};

/* One that has no connection, and lends so much memory. */
struct raw *raw_open(struct kunit *test, size_t memory_len);
/* What it should say as it connects. */
struct raw_hello raw_hello(struct raw *raw, u16 port, u32 instance);
/* Connects: 0, or why it could not, as a positive fabric errno. */
int raw_connect(struct kunit *test, struct raw *raw, const void *to, const void *hello, size_t len);
/* Ends the connection, if there is one. */
void raw_leave(struct kunit *test, struct raw *raw);
/* Sees to what has come, and what has gone. */
void raw_look(struct raw *raw);
/* A packet that is free; NULL if there is none now, or no room for it at the other end. */
u8 *raw_packet(struct raw *raw);
/* The beginning of a packet of some kind. */
struct raw_header *raw_begin(struct raw *raw, u8 *packet, enum raw_kind kind);
/* Sends the packet; what fi_send() says. */
int raw_send(struct raw *raw, u8 *packet, size_t len);

#endif /* KOFI_KUNIT_RDM_RAW_H */
