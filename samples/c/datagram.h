/* SPDX-License-Identifier: GPL-2.0 */
/* Protocol of a datagram server and its clients, in the kernel and in user space */

#ifndef KOFI_SAMPLE_DATAGRAM_H
#define KOFI_SAMPLE_DATAGRAM_H

#include <linux/in.h>
#include <linux/types.h>

/* A tag is the client's number times DATAGRAM_TAGS, plus one of these requests. */
#define DATAGRAM_TAGS	256
#define DATAGRAM_ECHO	1
#define DATAGRAM_FLIP	2
#define DATAGRAM_COUNT	3

/*
 * Number of times that a DATAGRAM_COUNT request increments the first word of the
 * client's region, and that of the server's
 */
#define DATAGRAM_COUNTS	8

/* First message of a client: its address, and the memory region that it exposes */
struct datagram_hello {
	struct sockaddr_in	name;
	__be64			base, key, len;
};

/* Reply to it: the client's number, and the memory region that the server exposes */
struct datagram_welcome {
	__be64			number, base, key, len;
};

#endif /* KOFI_SAMPLE_DATAGRAM_H */
