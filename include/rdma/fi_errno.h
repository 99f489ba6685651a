/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fabric error numbers.
 *
 * Calls return them negated (-FI_EAGAIN). The err fields of completion and event
 * error entries have them positive.
 */

#ifndef FI_ERRNO_H
#define FI_ERRNO_H

#include <linux/errno.h>

#define FI_SUCCESS		0

/* Values below 256 are Linux errnos, under the names of libfabric. */
#define FI_EPERM		EPERM
#define FI_ENOENT		ENOENT
#define FI_EINTR		EINTR
#define FI_EIO			EIO
#define FI_E2BIG		E2BIG
#define FI_EBADF		EBADF
#define FI_EAGAIN		EAGAIN
#define FI_ENOMEM		ENOMEM
#define FI_EACCES		EACCES
#define FI_EFAULT		EFAULT
#define FI_EBUSY		EBUSY
#define FI_ENODEV		ENODEV
#define FI_EINVAL		EINVAL
#define FI_EMFILE		EMFILE
#define FI_ENOSPC		ENOSPC
#define FI_ENOSYS		ENOSYS
#define FI_EWOULDBLOCK		EWOULDBLOCK
#define FI_ENOMSG		ENOMSG
#define FI_ENODATA		ENODATA
#define FI_EOVERFLOW		EOVERFLOW
#define FI_EMSGSIZE		EMSGSIZE
#define FI_ENOPROTOOPT		ENOPROTOOPT
#define FI_EOPNOTSUPP		EOPNOTSUPP
#define FI_EADDRINUSE		EADDRINUSE
#define FI_EADDRNOTAVAIL	EADDRNOTAVAIL
#define FI_ENETDOWN		ENETDOWN
#define FI_ENETUNREACH		ENETUNREACH
#define FI_ECONNABORTED		ECONNABORTED
#define FI_ECONNRESET		ECONNRESET
#define FI_ENOBUFS		ENOBUFS
#define FI_EISCONN		EISCONN
#define FI_ENOTCONN		ENOTCONN
#define FI_ESHUTDOWN		ESHUTDOWN
#define FI_ETIMEDOUT		ETIMEDOUT
#define FI_ECONNREFUSED		ECONNREFUSED
#define FI_EHOSTDOWN		EHOSTDOWN
#define FI_EHOSTUNREACH		EHOSTUNREACH
#define FI_EALREADY		EALREADY
#define FI_EINPROGRESS		EINPROGRESS
#define FI_EREMOTEIO		EREMOTEIO
#define FI_ECANCELED		ECANCELED
#define FI_EKEYREJECTED		EKEYREJECTED

/*
 * Values from 256 on are used by fabric calls only. They are below the kernel's
 * private errnos (ERESTARTSYS and up) and above those of user space.
 */
#define FI_ERRNO_OFFSET		256

enum {
	FI_EOTHER	= FI_ERRNO_OFFSET,	/* unspecified error */
	FI_ETOOSMALL	= 257,	/* the caller's buffer is too small */
	FI_EOPBADSTATE	= 258,	/* not permitted in this state or context */
	FI_EAVAIL	= 259,	/* an error entry must be read first */
	FI_EBADFLAGS	= 260,	/* a flag is unknown or not allowed here */
	FI_ENOEQ	= 261,	/* no event queue is bound */
	FI_EDOMAIN	= 262,	/* the object belongs to another domain */
	FI_ENOCQ	= 263,	/* no completion queue is bound */
	FI_ECRC		= 264,	/* checksum error in received data */
	FI_ETRUNC	= 265,	/* the message was longer than the receive */
	FI_ENOKEY	= 266,	/* the key is in use, or invalid */
	FI_ENOAV	= 267,	/* no address vector is bound */
	FI_EOVERRUN	= 268,	/* the queue has no space */
	FI_ENORX	= 269,	/* no receive: none posted by the peer, or no context bound */
	FI_ERRNO_MAX
};

/**
 * fi_strerror() - describe a fabric errno
 * @errnum: the errno, of either sign
 *
 * Context: Any context.
 * Return: A static string, never %NULL.
 */
const char *fi_strerror(int errnum);

#endif /* FI_ERRNO_H */
