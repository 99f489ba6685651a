/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of connections and operations, for perf, bpftrace and trace-cmd. See
 * Documentation/debugging.rst.
 */

#undef TRACE_SYSTEM
#define TRACE_SYSTEM kofi

#if !defined(_TRACE_KOFI_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KOFI_H

#include <linux/in6.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <trace/misc/rdma.h>

/* Completion flags that identify the kind of an operation */
#define KOFI_OPERATION		(FI_MSG | FI_RMA | FI_ATOMIC | FI_SEND | FI_RECV | \
				 FI_READ | FI_WRITE | FI_REMOTE_WRITE)

#define kofi_show_operation(x)						\
	__print_symbolic(x,						\
		{ FI_MSG | FI_SEND,		"send" },		\
		{ FI_MSG | FI_RECV,		"recv" },		\
		{ FI_RMA | FI_WRITE,		"write" },		\
		{ FI_RMA | FI_READ,		"read" },		\
		{ FI_RMA | FI_REMOTE_WRITE,	"remote_write" },	\
		{ FI_ATOMIC | FI_WRITE,		"atomic" },		\
		{ FI_ATOMIC | FI_READ,		"fetch_atomic" })

/* Errnos of completions and connections */
#define kofi_show_errno(x)						\
	__print_symbolic(x,						\
		{ 0,			"0" },				\
		{ FI_EIO,		"FI_EIO" },			\
		{ FI_EAGAIN,		"FI_EAGAIN" },			\
		{ FI_ENOMEM,		"FI_ENOMEM" },			\
		{ FI_EACCES,		"FI_EACCES" },			\
		{ FI_EBUSY,		"FI_EBUSY" },			\
		{ FI_ENODEV,		"FI_ENODEV" },			\
		{ FI_EINVAL,		"FI_EINVAL" },			\
		{ FI_ENOSPC,		"FI_ENOSPC" },			\
		{ FI_EMSGSIZE,		"FI_EMSGSIZE" },		\
		{ FI_EADDRNOTAVAIL,	"FI_EADDRNOTAVAIL" },		\
		{ FI_ENETDOWN,		"FI_ENETDOWN" },		\
		{ FI_ENETUNREACH,	"FI_ENETUNREACH" },		\
		{ FI_ECONNABORTED,	"FI_ECONNABORTED" },		\
		{ FI_ECONNRESET,	"FI_ECONNRESET" },		\
		{ FI_ETIMEDOUT,		"FI_ETIMEDOUT" },		\
		{ FI_ECONNREFUSED,	"FI_ECONNREFUSED" },		\
		{ FI_EHOSTUNREACH,	"FI_EHOSTUNREACH" },		\
		{ FI_ECANCELED,		"FI_ECANCELED" },		\
		{ FI_EOPBADSTATE,	"FI_EOPBADSTATE" },		\
		{ FI_ENOEQ,		"FI_ENOEQ" },			\
		{ FI_ETRUNC,		"FI_ETRUNC" },			\
		{ FI_EOVERRUN,		"FI_EOVERRUN" },		\
		{ FI_ENORX,		"FI_ENORX" })

/* An operation was posted to the device. */
TRACE_EVENT(kofi_post,
	TP_PROTO(const char *device, u32 qp, u64 flags, u64 len, void *context,
		 bool signaled),

	TP_ARGS(device, qp, flags, len, context, signaled),

	TP_STRUCT__entry(
		__string(device, device)
		__field(u32, qp)
		__field(u64, operation)
		__field(u64, len)
		__field(void *, context)
		__field(bool, signaled)
	),

	TP_fast_assign(
		__assign_str(device);
		__entry->qp = qp;
		__entry->operation = flags & KOFI_OPERATION;
		__entry->len = len;
		__entry->context = context;
		__entry->signaled = signaled;
	),

	TP_printk("device=%s qp=%u op=%s len=%llu context=%p signaled=%d",
		  __get_str(device), __entry->qp,
		  kofi_show_operation(__entry->operation), __entry->len,
		  __entry->context, __entry->signaled)
);

/* A successful completion was polled from the device. */
TRACE_EVENT(kofi_complete,
	TP_PROTO(const char *device, u32 qp, u64 flags, u64 len, void *context),

	TP_ARGS(device, qp, flags, len, context),

	TP_STRUCT__entry(
		__string(device, device)
		__field(u32, qp)
		__field(u64, operation)
		__field(u64, len)
		__field(void *, context)
	),

	TP_fast_assign(
		__assign_str(device);
		__entry->qp = qp;
		__entry->operation = flags & KOFI_OPERATION;
		__entry->len = len;
		__entry->context = context;
	),

	TP_printk("device=%s qp=%u op=%s len=%llu context=%p",
		  __get_str(device), __entry->qp,
		  kofi_show_operation(__entry->operation), __entry->len,
		  __entry->context)
);

/* A failed completion was polled: status of the device, and errno for the reader. */
TRACE_EVENT(kofi_error,
	TP_PROTO(const char *device, u32 qp, u64 flags, void *context,
		 u32 status, u32 vendor, int error),

	TP_ARGS(device, qp, flags, context, status, vendor, error),

	TP_STRUCT__entry(
		__string(device, device)
		__field(u32, qp)
		__field(u64, operation)
		__field(void *, context)
		__field(u32, status)
		__field(u32, vendor)
		__field(int, error)
	),

	TP_fast_assign(
		__assign_str(device);
		__entry->qp = qp;
		__entry->operation = flags & KOFI_OPERATION;
		__entry->context = context;
		__entry->status = status;
		__entry->vendor = vendor;
		__entry->error = error;
	),

	TP_printk("device=%s qp=%u op=%s context=%p status=%s vendor=0x%x error=%s",
		  __get_str(device), __entry->qp,
		  kofi_show_operation(__entry->operation), __entry->context,
		  rdma_show_wc_status(__entry->status), __entry->vendor,
		  kofi_show_errno(__entry->error))
);

/* The state of an endpoint has changed; error is the errno of its error event. */
TRACE_EVENT(kofi_connection,
	TP_PROTO(const char *device, u32 qp, const char *from, const char *to,
		 int error, int provider),

	TP_ARGS(device, qp, from, to, error, provider),

	TP_STRUCT__entry(
		__string(device, device)
		__field(u32, qp)
		__string(from, from)
		__string(to, to)
		__field(int, error)
		__field(int, provider)
	),

	TP_fast_assign(
		__assign_str(device);
		__entry->qp = qp;
		__assign_str(from);
		__assign_str(to);
		__entry->error = error;
		__entry->provider = provider;
	),

	TP_printk("device=%s qp=%u %s -> %s error=%s provider=%d",
		  __get_str(device), __entry->qp, __get_str(from),
		  __get_str(to), kofi_show_errno(__entry->error),
		  __entry->provider)
);

/* A connection request has arrived: reported, or rejected with an error. */
TRACE_EVENT(kofi_request,
	TP_PROTO(const char *device, const void *local, const void *peer,
		 int error),

	TP_ARGS(device, local, peer, error),

	TP_STRUCT__entry(
		__string(device, device)
		__array(unsigned char, local, sizeof(struct sockaddr_in6))
		__array(unsigned char, peer, sizeof(struct sockaddr_in6))
		__field(int, error)
	),

	TP_fast_assign(
		__assign_str(device);
		memcpy(__entry->local, local, sizeof(struct sockaddr_in6));
		memcpy(__entry->peer, peer, sizeof(struct sockaddr_in6));
		__entry->error = error;
	),

	TP_printk("device=%s local=%pISpc peer=%pISpc error=%s",
		  __get_str(device), __entry->local, __entry->peer,
		  kofi_show_errno(__entry->error))
);

#endif /* _TRACE_KOFI_H */

/* The path <trace/events/kofi.h> is valid in the kernel's tree and outside of it. */
#include <trace/define_trace.h>
