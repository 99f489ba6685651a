/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a memory server and its clients agree on.
 *
 * The grant goes with the accept. Whatever then arrives at the server, a
 * message of a word or the data of a write, asks for the CRC-32 of the region,
 * which comes as a message of four bytes, most significant first.
 */

#ifndef KOFI_SAMPLE_GRANT_H
#define KOFI_SAMPLE_GRANT_H

#include <linux/types.h>

/* Bytes of a question. */
#define WORD	8

/* What a client needs to reach the region. */
struct grant {
	__be64 addr;
	__be64 key;
	__be64 len;
	/* Whether the device adds and swaps for it: FI_ATOMIC, or 0. */
	__be64 caps;
};

/* What each client finds in it. */
static inline u8 first_byte(size_t at)
{
	return at * 7 + 3;
}

#endif /* KOFI_SAMPLE_GRANT_H */
