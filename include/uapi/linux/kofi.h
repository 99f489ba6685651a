/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * /dev/kofi: interface of processes to kOFI, the OpenFabrics Interfaces of the
 * kernel.
 *
 * Opening the device, even only for reading, requires CAP_NET_ADMIN. It binds the
 * file to the network namespace of the task that opens it.
 *
 * Each request takes a struct that begins with its size in bytes and with flags.
 * Structs grow at their end: fields that the caller does not know are 0, and fields
 * that the kernel does not know must be 0. Strings are terminated within their
 * array. A request that fails does not write to its struct.
 *
 * Every request may fail with
 *
 *	ENOTTY		unknown request
 *	EINVAL		a size below that of the first version of the struct, or an
 *			unterminated string
 *	E2BIG		the struct is larger than the kernel's, and a byte beyond the
 *			kernel's size is not 0
 *	EOPNOTSUPP	an unknown flag, or a reserved field that is not 0
 *	EFAULT		invalid address
 *	ENOMEM		no memory
 */

#ifndef _UAPI_LINUX_KOFI_H
#define _UAPI_LINUX_KOFI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define KOFI_IOC_MAGIC		0xF1

enum kofi_request {
	KOFI_REQUEST_VERSION,
	KOFI_REQUEST_TEXT,
	KOFI_REQUEST_INFO,
	/* 3 to 5 are requests of <linux/kofi_perf.h>. */
	KOFI_REQUEST_OBJECTS = 6,
	KOFI_REQUEST_ADDRESSES,
};

/**
 * struct kofi_version - KOFI_IOC_VERSION: versions of the interfaces
 * @size: of the struct
 * @flags: 0
 * @abi: out: version of this interface, incremented by incompatible changes
 * @api: out: version of the fi_* interfaces; the major version in the upper half
 */
struct kofi_version {
	__u32	size;
	__u32	flags;
	__u32	abi;
	__u32	api;
};

#define KOFI_IOC_VERSION	_IO(KOFI_IOC_MAGIC, KOFI_REQUEST_VERSION)
#define KOFI_ABI_VERSION	2

/**
 * enum kofi_text_type - meaning of a number
 *
 * For flags, the text has the name of each bit, separated by a comma and a blank,
 * and at the end the unknown bits as one hexadecimal number; 0 is an empty string.
 * For other types, an unknown number is "unknown (0x...)".
 */
enum kofi_text_type {
	KOFI_TEXT_CAPS,			/* flags */
	KOFI_TEXT_MODE,			/* flags */
	KOFI_TEXT_OP_FLAGS,		/* flags */
	KOFI_TEXT_ORDER,		/* flags: order of messages or completions */
	KOFI_TEXT_MR_MODE,		/* flags */
	KOFI_TEXT_EP_TYPE,
	KOFI_TEXT_PROTOCOL,
	KOFI_TEXT_ADDR_FORMAT,
	KOFI_TEXT_THREADING,
	KOFI_TEXT_PROGRESS,
	KOFI_TEXT_AV_TYPE,
	KOFI_TEXT_RESOURCE_MGMT,
	KOFI_TEXT_ERROR,		/* a positive number */
	KOFI_TEXT_ATOMIC_OP,
	KOFI_TEXT_DATATYPE,
	KOFI_TEXT_OBJECT,		/* enum kofi_object_kind, one word */
	KOFI_TEXT_STATE,		/* enum kofi_object_state, one word */
	KOFI_TEXT_VALUE,		/* enum kofi_object_value, one word */
};

/**
 * struct kofi_text - KOFI_IOC_TEXT: a number as text, as returned by fi_tostr() and
 *	fi_strerror()
 * @size: of the struct
 * @flags: 0
 * @type: enum kofi_text_type
 * @reserved: 0
 * @value: the number
 * @text: out: the text, truncated if it does not fit
 *
 * Errors: EINVAL for an unknown type; those of every request.
 */
struct kofi_text {
	__u32		size;
	__u32		flags;
	__u32		type;
	__u32		reserved;
	__aligned_u64	value;
	char		text[1024];
};

#define KOFI_IOC_TEXT		_IO(KOFI_IOC_MAGIC, KOFI_REQUEST_TEXT)

/**
 * struct kofi_offer - an info of fi_getinfo(), in one struct
 *
 * The fields are those of struct fi_info and its attributes, with the attribute as
 * a prefix of the name. Addresses are text in every format:
 * "fi_sockaddr_in://10.0.0.1:7471", or empty.
 */
struct kofi_offer {
	__aligned_u64	caps;
	__aligned_u64	mode;
	__aligned_u64	tx_caps;
	__aligned_u64	tx_mode;
	__aligned_u64	tx_op_flags;
	__aligned_u64	tx_msg_order;
	__aligned_u64	tx_comp_order;
	__aligned_u64	tx_inject_size;
	__aligned_u64	tx_size;
	__aligned_u64	tx_iov_limit;
	__aligned_u64	tx_rma_iov_limit;
	__aligned_u64	rx_caps;
	__aligned_u64	rx_mode;
	__aligned_u64	rx_op_flags;
	__aligned_u64	rx_msg_order;
	__aligned_u64	rx_comp_order;
	__aligned_u64	rx_total_buffered_recv;
	__aligned_u64	rx_size;
	__aligned_u64	rx_iov_limit;
	__aligned_u64	ep_max_msg_size;
	__aligned_u64	ep_msg_prefix_size;
	__aligned_u64	ep_max_order_raw_size;
	__aligned_u64	ep_max_order_war_size;
	__aligned_u64	ep_max_order_waw_size;
	__aligned_u64	ep_mem_tag_format;
	__aligned_u64	ep_tx_ctx_cnt;
	__aligned_u64	ep_rx_ctx_cnt;
	__aligned_u64	domain_caps;
	__aligned_u64	domain_mode;
	__aligned_u64	domain_mr_key_size;
	__aligned_u64	domain_cq_data_size;
	__aligned_u64	domain_cq_cnt;
	__aligned_u64	domain_ep_cnt;
	__aligned_u64	domain_tx_ctx_cnt;
	__aligned_u64	domain_rx_ctx_cnt;
	__aligned_u64	domain_max_ep_tx_ctx;
	__aligned_u64	domain_max_ep_rx_ctx;
	__aligned_u64	domain_max_ep_stx_ctx;
	__aligned_u64	domain_max_ep_srx_ctx;
	__aligned_u64	domain_cntr_cnt;
	__aligned_u64	domain_mr_iov_limit;
	__aligned_u64	domain_max_err_data;
	__aligned_u64	domain_mr_cnt;
	__u32		addr_format;
	__u32		ep_type;
	__u32		ep_protocol;
	__u32		ep_protocol_version;
	__u32		domain_threading;
	__u32		domain_control_progress;
	__u32		domain_data_progress;
	__u32		domain_resource_mgmt;
	__u32		domain_av_type;
	__u32		domain_mr_mode;
	__u32		fabric_prov_version;
	__u32		fabric_api_version;
	char		src_addr[96];
	char		dest_addr[96];
	char		domain_name[64];
	char		fabric_name[64];
	char		prov_name[32];
};

/* The node and the service name the local address. */
#define KOFI_INFO_SOURCE	(1U << 0)

/**
 * struct kofi_info - KOFI_IOC_INFO: the offers of fi_getinfo()
 * @size: of the struct
 * @flags: KOFI_INFO_SOURCE
 * @caps: requested capabilities; 0 for all
 * @mode: accepted modes: 0 for none, all ones for all
 * @mr_mode: accepted registration modes; 0 for any
 * @ep_type: endpoint type; 0 for any
 * @node: a numeric address, "" for none
 * @service: a port number, "" for none
 * @prov_name: a provider, "" for any
 * @fabric_name: a fabric, "" for any
 * @domain_name: a device, "" for any
 * @offers: array of struct kofi_offer; may be NULL if @count is 0
 * @offer_size: size of an element, at least that of the first version: fields that
 *	the caller does not know are omitted, fields that the kernel does not
 *	know are 0
 * @count: in: elements of the array; out: number of offers, of which as many as fit
 *	were written
 *
 * Errors: ENODATA if nothing matches; EINVAL, also for unknown capabilities; those
 * of every request. The request may sleep for some seconds if it names a peer.
 */
struct kofi_info {
	__u32		size;
	__u32		flags;
	__aligned_u64	caps;
	__aligned_u64	mode;
	__u32		mr_mode;
	__u32		ep_type;
	char		node[96];
	char		service[16];
	char		prov_name[32];
	char		fabric_name[64];
	char		domain_name[64];
	__aligned_u64	offers;
	__u32		offer_size;
	__u32		count;
};

#define KOFI_IOC_INFO		_IO(KOFI_IOC_MAGIC, KOFI_REQUEST_INFO)

/*
 * Registry of open objects of the fabric interfaces, of all modules and processes.
 */

/**
 * enum kofi_object_kind - kind of an object
 */
enum kofi_object_kind {
	KOFI_OBJECT_FABRIC,
	KOFI_OBJECT_DOMAIN,
	KOFI_OBJECT_EP,
	KOFI_OBJECT_PASSIVE_EP,
	KOFI_OBJECT_CQ,
	KOFI_OBJECT_EQ,
	KOFI_OBJECT_CNTR,
	KOFI_OBJECT_AV,
	KOFI_OBJECT_AV_SET,
	KOFI_OBJECT_MR,
	KOFI_OBJECT_POLL_SET,
	KOFI_OBJECT_WAIT_SET,
	KOFI_OBJECT_SRX,
	KOFI_OBJECT_SEP,
	KOFI_OBJECT_TX_CTX,
	KOFI_OBJECT_RX_CTX,
	KOFI_OBJECT_STX,
};

/**
 * enum kofi_object_state - state of an endpoint or passive endpoint
 * @KOFI_STATE_OPEN: open; the only state of other objects
 * @KOFI_STATE_ENABLED: enabled: receives can be posted
 * @KOFI_STATE_LISTENING: peers can connect
 * @KOFI_STATE_CONNECTING: a connection attempt is in progress
 * @KOFI_STATE_CONNECTED: connected
 * @KOFI_STATE_NO_TRANSMIT: connected, transmits are closed
 * @KOFI_STATE_NO_RECEIVE: connected, receives are closed
 * @KOFI_STATE_LOST: the peer has disconnected, or could not be reached
 * @KOFI_STATE_SHUT: the connection was ended on this side
 */
enum kofi_object_state {
	KOFI_STATE_OPEN,
	KOFI_STATE_ENABLED,
	KOFI_STATE_LISTENING,
	KOFI_STATE_CONNECTING,
	KOFI_STATE_CONNECTED,
	KOFI_STATE_NO_TRANSMIT,
	KOFI_STATE_NO_RECEIVE,
	KOFI_STATE_LOST,
	KOFI_STATE_SHUT,
};

/**
 * enum kofi_object_value - meaning of a value of an object
 * @KOFI_VALUE_TX_CQ: id of the completion queue for transmits
 * @KOFI_VALUE_RX_CQ: id of the completion queue for receives
 * @KOFI_VALUE_EQ: id of the event queue
 * @KOFI_VALUE_TX_SIZE: maximum number of transmits in progress
 * @KOFI_VALUE_RX_SIZE: maximum number of posted receives
 * @KOFI_VALUE_SIZE: number of entries that a queue holds
 * @KOFI_VALUE_DEPTH: number of unread entries
 * @KOFI_VALUE_COUNT: value of a counter
 * @KOFI_VALUE_ERRORS: error value of a counter; for a queue the number of failures
 *	that were read
 * @KOFI_VALUE_ADDRESSES: number of addresses of an address vector
 * @KOFI_VALUE_MEMBERS: number of members of a set
 * @KOFI_VALUE_LENGTH: bytes of a region
 * @KOFI_VALUE_TX_DEPTH: transmits that are not known to have completed
 * @KOFI_VALUE_RX_DEPTH: receives that wait for a message
 * @KOFI_VALUE_SENDS: sends posted
 * @KOFI_VALUE_RECEIVES: receives posted; each piece of a buffer for several messages
 *	counts
 * @KOFI_VALUE_WRITES: writes posted
 * @KOFI_VALUE_READS: reads posted
 * @KOFI_VALUE_ATOMICS: atomic operations posted
 * @KOFI_VALUE_TX_DONE: transmits completed
 * @KOFI_VALUE_RX_DONE: receives completed
 * @KOFI_VALUE_TX_BYTES: bytes of all posted transmits
 * @KOFI_VALUE_RX_BYTES: bytes received
 * @KOFI_VALUE_TX_ERRORS: transmits failed
 * @KOFI_VALUE_RX_ERRORS: receives failed
 * @KOFI_VALUE_TX_AGAIN: transmits refused with -FI_EAGAIN, for lack of space
 * @KOFI_VALUE_RX_AGAIN: receives refused with -FI_EAGAIN, for lack of space
 * @KOFI_VALUE_ENTRIES: completions read from a queue
 * @KOFI_VALUE_CALLBACKS: number of times that the handler of a queue was scheduled
 * @KOFI_VALUE_OVERRUNS: for an event queue, calls of fi_eq_write() that were refused
 *	because it was full; for a completion queue, completions that were lost because
 *	it was full. The latter is 0 unless a driver is broken: posts are refused before
 *	the queue can overrun
 * @KOFI_VALUE_SRX: id of the shared receive context of an endpoint
 * @KOFI_VALUE_TX_CTXS: number of transmit contexts of a scalable endpoint, open or not
 * @KOFI_VALUE_RX_CTXS: number of receive contexts of a scalable endpoint, open or not
 * @KOFI_VALUE_INDEX: index of a context
 * @KOFI_VALUE_CONNECTIONS: number of connections of a datagram endpoint
 * @KOFI_VALUE_STX: id of the shared transmit context of an endpoint
 * @KOFI_VALUE_VIOLATIONS: connections of an endpoint that were closed because the
 *	peer violated its access rights; counted over the object's lifetime
 *
 * The statistics from KOFI_VALUE_SENDS to KOFI_VALUE_OVERRUNS start at 0 when the
 * object is opened, and never decrease.
 */
enum kofi_object_value {
	KOFI_VALUE_TX_CQ,
	KOFI_VALUE_RX_CQ,
	KOFI_VALUE_EQ,
	KOFI_VALUE_TX_SIZE,
	KOFI_VALUE_RX_SIZE,
	KOFI_VALUE_SIZE,
	KOFI_VALUE_DEPTH,
	KOFI_VALUE_COUNT,
	KOFI_VALUE_ERRORS,
	KOFI_VALUE_ADDRESSES,
	KOFI_VALUE_MEMBERS,
	KOFI_VALUE_LENGTH,
	KOFI_VALUE_TX_DEPTH,
	KOFI_VALUE_RX_DEPTH,
	KOFI_VALUE_SENDS,
	KOFI_VALUE_RECEIVES,
	KOFI_VALUE_WRITES,
	KOFI_VALUE_READS,
	KOFI_VALUE_ATOMICS,
	KOFI_VALUE_TX_DONE,
	KOFI_VALUE_RX_DONE,
	KOFI_VALUE_TX_BYTES,
	KOFI_VALUE_RX_BYTES,
	KOFI_VALUE_TX_ERRORS,
	KOFI_VALUE_RX_ERRORS,
	KOFI_VALUE_TX_AGAIN,
	KOFI_VALUE_RX_AGAIN,
	KOFI_VALUE_ENTRIES,
	KOFI_VALUE_CALLBACKS,
	KOFI_VALUE_OVERRUNS,
	KOFI_VALUE_SRX,
	KOFI_VALUE_TX_CTXS,
	KOFI_VALUE_RX_CTXS,
	KOFI_VALUE_INDEX,
	KOFI_VALUE_CONNECTIONS,
	KOFI_VALUE_STX,
	KOFI_VALUE_VIOLATIONS,
};

#define KOFI_OBJECT_VALUES	32

/**
 * struct kofi_object - an open object
 * @id: id, which no other object has or will have while the module is loaded;
 *	objects that are opened later have greater ids
 * @parent: id of the parent; 0 for a fabric
 * @kind: enum kofi_object_kind
 * @state: enum kofi_object_state
 * @pid: process whose test opened the fabric of the object; 0 if a kernel module
 *	opened it
 * @value_count: number of the values below
 * @owner: name of that process or module
 * @name: name of a fabric, of the device of a domain, or of a shared address
 *	vector; "" for none
 * @local_addr: local address of an endpoint, as text:
 *	"fi_sockaddr_in://10.0.0.1:7471"; "" if it is not known
 * @peer_addr: address of its peer, or of the peer that it connects to
 * @what: meaning of each value, enum kofi_object_value
 * @values: the values
 */
struct kofi_object {
	__aligned_u64	id;
	__aligned_u64	parent;
	__u32		kind;
	__u32		state;
	__u32		pid;
	__u32		value_count;
	char		owner[64];
	char		name[64];
	char		local_addr[96];
	char		peer_addr[96];
	__u32		what[KOFI_OBJECT_VALUES];
	__aligned_u64	values[KOFI_OBJECT_VALUES];
};

/**
 * struct kofi_objects - KOFI_IOC_OBJECTS: open objects of the file's network
 *	namespace
 * @size: of the struct
 * @flags: 0
 * @after: list only objects with a greater id; 0 for all
 * @objects: array of struct kofi_object; may be NULL if @count is 0
 * @object_size: size of an element, at least that of the first version: fields that
 *	the caller does not know are omitted, fields that the kernel does not
 *	know are 0
 * @count: in: elements of the array; out: number of objects, of which as many as
 *	fit were written, by ascending id
 *
 * Objects may be opened and closed during the request. Objects that stay open are
 * listed, after their parents.
 *
 * Errors: EINVAL for an invalid @object_size; those of every request.
 */
struct kofi_objects {
	__u32		size;
	__u32		flags;
	__aligned_u64	after;
	__aligned_u64	objects;
	__u32		object_size;
	__u32		count;
};

#define KOFI_IOC_OBJECTS	_IO(KOFI_IOC_MAGIC, KOFI_REQUEST_OBJECTS)

/* The address was inserted with an identifier. */
#define KOFI_ADDRESS_USER_ID	(1U << 0)

/**
 * struct kofi_address - one address of an address vector
 * @fi_addr: handle of the address
 * @user_id: identifier of the consumer, with KOFI_ADDRESS_USER_ID
 * @flags: KOFI_ADDRESS_USER_ID
 * @uses: insertions less removals
 * @addr: the address, as text: "fi_sockaddr_in://10.0.0.1:7471"
 */
struct kofi_address {
	__aligned_u64	fi_addr;
	__aligned_u64	user_id;
	__u32		flags;
	__u32		uses;
	char		addr[96];
};

/**
 * struct kofi_addresses - KOFI_IOC_ADDRESSES: addresses of an address vector of the
 *	file's network namespace
 * @size: of the struct
 * @flags: 0
 * @id: id of the vector, from KOFI_IOC_OBJECTS
 * @at: in: position to start at, 0 at first; out: position to continue at
 * @addresses: array of struct kofi_address; may be NULL if @count is 0
 * @address_size: size of an element, at least that of the first version: fields that
 *	the caller does not know are omitted, fields that the kernel does not
 *	know are 0
 * @count: in: elements of the array; out: number of written addresses: if they are
 *	fewer than the elements, there are no more
 *
 * Addresses may be inserted and removed during the request. Addresses that stay are
 * listed.
 *
 * Errors: ENOENT if there is no such object; EINVAL for another kind of object, and
 * for an invalid @address_size; those of every request.
 */
struct kofi_addresses {
	__u32		size;
	__u32		flags;
	__aligned_u64	id;
	__aligned_u64	at;
	__aligned_u64	addresses;
	__u32		address_size;
	__u32		count;
};

#define KOFI_IOC_ADDRESSES	_IO(KOFI_IOC_MAGIC, KOFI_REQUEST_ADDRESSES)

#endif /* _UAPI_LINUX_KOFI_H */
