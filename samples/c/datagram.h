/* SPDX-License-Identifier: GPL-2.0 */
/* What a datagram server and its clients, in the kernel or not, tell each other. */

#ifndef KOFI_SAMPLE_DATAGRAM_H
#define KOFI_SAMPLE_DATAGRAM_H

#include <linux/in.h>
#include <linux/types.h>

/* A tag is the client's number, and what is to be done. */
#define DATAGRAM_TAGS	256
#define DATAGRAM_ECHO	1
#define DATAGRAM_FLIP	2
#define DATAGRAM_COUNT	3

/* How often the server counts when it is asked to. */
#define DATAGRAM_COUNTS	8

/* From the client: where it receives, and memory that it lends. */
struct datagram_hello {
	struct sockaddr_in	name;
	__be64			base, key, len;
};

/* To the client: its number, and memory that the server lends. */
struct datagram_welcome {
	__be64			number, base, key, len;
};

#endif /* KOFI_SAMPLE_DATAGRAM_H */
