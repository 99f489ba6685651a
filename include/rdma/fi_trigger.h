/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Triggered operations and deferred work. No provider of kOFI implements them.
 */

#ifndef FI_TRIGGER_H
#define FI_TRIGGER_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum fi_trigger_event {
	FI_TRIGGER_THRESHOLD,
	FI_TRIGGER_XPU,
};

enum fi_op_type {
	FI_OP_RECV,
	FI_OP_SEND,
	FI_OP_TRECV,
	FI_OP_TSEND,
	FI_OP_READ,
	FI_OP_WRITE,
	FI_OP_ATOMIC,
	FI_OP_FETCH_ATOMIC,
	FI_OP_COMPARE_ATOMIC,
	FI_OP_CNTR_SET,
	FI_OP_CNTR_ADD
};

/**
 * struct fi_trigger_threshold - condition: a counter has reached a value
 * @cntr: the counter
 * @threshold: the value
 */
struct fi_trigger_threshold {
	struct fid_cntr		*cntr;
	size_t			threshold;
};

/**
 * struct fi_trigger_var - variable that a device writes to start an operation
 * @datatype: type of an element
 * @count: number of elements
 * @addr: address of the variable
 * @value: value to write; if @count is not 1, @data points to the values
 */
struct fi_trigger_var {
	enum fi_datatype	datatype;
	int			count;
	void			*addr;
	union {
		u8		val8;
		u16		val16;
		u32		val32;
		u64		val64;
		u8		*data;
	} value;
};

/**
 * struct fi_trigger_xpu - condition: a device has written variables
 * @count: entries in @var
 * @iface: kind of the device
 * @device: device of kind @iface
 * @var: the variables
 */
struct fi_trigger_xpu {
	int			count;
	enum fi_hmem_iface	iface;
	union {
		u64		reserved;
		int		cuda;
		int		ze;
	} device;
	struct fi_trigger_var	*var;
};

/* Arguments of an operation that a struct fi_deferred_work starts */
struct fi_op_msg {
	struct fid_ep		*ep;
	struct fi_msg		msg;
	u64			flags;
};

struct fi_op_tagged {
	struct fid_ep		*ep;
	struct fi_msg_tagged	msg;
	u64			flags;
};

struct fi_op_rma {
	struct fid_ep		*ep;
	struct fi_msg_rma	msg;
	u64			flags;
};

struct fi_op_atomic {
	struct fid_ep		*ep;
	struct fi_msg_atomic	msg;
	u64			flags;
};

struct fi_op_fetch_atomic {
	struct fid_ep		*ep;
	struct fi_msg_atomic	msg;
	struct fi_msg_fetch	fetch;
	u64			flags;
};

struct fi_op_compare_atomic {
	struct fid_ep		*ep;
	struct fi_msg_atomic	msg;
	struct fi_msg_fetch	fetch;
	struct fi_msg_compare	compare;
	u64			flags;
};

struct fi_op_cntr {
	struct fid_cntr		*cntr;
	u64			value;
};

/**
 * struct fi_triggered_context - context of an operation posted with FI_TRIGGER
 * @event_type: kind of condition
 * @trigger: the condition
 *
 * The size is that of a struct fi_context.
 */
struct fi_triggered_context {
	enum fi_trigger_event			event_type;
	union {
		struct fi_trigger_threshold	threshold;
		struct fi_trigger_xpu		xpu;
		void				*internal[3];
	} trigger;
};

/**
 * struct fi_triggered_context2 - fi_triggered_context for FI_CONTEXT2 mode
 * @event_type: kind of condition
 * @trigger: the condition
 *
 * The size is that of a struct fi_context2.
 */
struct fi_triggered_context2 {
	enum fi_trigger_event			event_type;
	union {
		struct fi_trigger_threshold	threshold;
		struct fi_trigger_xpu		xpu;
		void				*internal[7];
	} trigger;
};

/**
 * struct fi_deferred_work - argument of FI_QUEUE_WORK and FI_CANCEL_WORK
 * @context: belongs to the provider while the work is queued
 * @threshold: value that starts the operation
 * @triggering_cntr: counter that must reach @threshold
 * @completion_cntr: counter that is incremented when the operation completes
 * @op_type: kind of the operation, which selects the valid member of @op
 * @op: the operation
 */
struct fi_deferred_work {
	struct fi_context2			context;
	u64					threshold;
	struct fid_cntr				*triggering_cntr;
	struct fid_cntr				*completion_cntr;
	enum fi_op_type				op_type;
	union {
		struct fi_op_msg		*msg;
		struct fi_op_tagged		*tagged;
		struct fi_op_rma		*rma;
		struct fi_op_atomic		*atomic;
		struct fi_op_fetch_atomic	*fetch_atomic;
		struct fi_op_compare_atomic	*compare_atomic;
		struct fi_op_cntr		*cntr;
	} op;
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_triggered_context) ==
	      sizeof(struct fi_context));
static_assert(sizeof(struct fi_triggered_context2) ==
	      sizeof(struct fi_context2));
static_assert(sizeof(struct fi_deferred_work) == 104);
#endif

#endif /* FI_TRIGGER_H */
