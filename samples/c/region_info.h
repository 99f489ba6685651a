/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Protocol of the servers that expose memory, and of their clients.
 *
 * A server passes a struct region_info to the client as the private data of
 * fi_accept(). Each message to a memory server, and each write with remote CQ data,
 * requests the CRC-32 of the region. The reply is a message of four bytes,
 * big-endian.
 */

#ifndef KOFI_SAMPLE_REGION_INFO_H
#define KOFI_SAMPLE_REGION_INFO_H

#include <linux/types.h>

/* Maximum length of a CRC request, and length of a counter or a task's result */
#define WORD	8

/* Memory region that the server exposes for remote access */
struct region_info {
	__be64 addr;
	__be64 key;
	__be64 len;
	/* FI_ATOMIC if the device has atomic operations, or 0 */
	__be64 caps;
};

/* Initial value of the byte at @offset of a memory server's region */
static inline u8 initial_byte(size_t offset)
{
	return offset * 7 + 3;
}

#endif /* KOFI_SAMPLE_REGION_INFO_H */
