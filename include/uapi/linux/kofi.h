/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause */
/*
 * /dev/kofi: what a process can ask of kOFI, the OpenFabrics Interfaces of the
 * kernel.
 *
 * Opening it, for whatever access, takes CAP_NET_ADMIN, and binds the file to
 * the network namespace of the task that opens it.
 *
 * Each request takes a struct that begins with its own size in bytes, and with
 * flags. Structs grow at their end: what the caller does not know counts as 0,
 * and what the kernel does not know has to be 0. Strings end within their
 * array. A request that fails writes nothing to its struct.
 *
 * Any request may fail with
 *
 *	ENOTTY		no such request
 *	EINVAL		a size below that of the first version of the struct, a
 *			string without an end
 *	E2BIG		the struct is larger than the kernel's, and not 0 there
 *	EOPNOTSUPP	an unknown flag, or a reserved field that is not 0
 *	EFAULT		memory that is not the caller's
 *	ENOMEM
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
	KOFI_REQUEST_START,
	KOFI_REQUEST_WATCH,
	KOFI_REQUEST_STOP,
	KOFI_REQUEST_OBJECTS,
	KOFI_REQUEST_ADDRESSES,
};

/**
 * struct kofi_version - KOFI_IOC_VERSION
 * @size: of the struct
 * @flags: 0
 * @abi: out: version of this interface, which counts changes that break it
 * @api: out: version of the fi_* interfaces; the major one in the upper half
 */
struct kofi_version {
	__u32	size;
	__u32	flags;
	__u32	abi;
	__u32	api;
};

#define KOFI_IOC_VERSION	_IO(KOFI_IOC_MAGIC, KOFI_REQUEST_VERSION)
#define KOFI_ABI_VERSION	1

/**
 * enum kofi_text_type - what a number means
 *
 * Of those with flags, each bit has a name of its own: several stand with a
 * comma and a blank between, those without a name together at the end as one
 * hexadecimal number, none as an empty string. Of the others, a number without
 * a name is "unknown (0x...)".
 */
enum kofi_text_type {
	KOFI_TEXT_CAPS,			/* flags */
	KOFI_TEXT_MODE,			/* flags */
	KOFI_TEXT_OP_FLAGS,		/* flags */
	KOFI_TEXT_ORDER,		/* flags: of messages, of completions */
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
	KOFI_TEXT_OBJECT,		/* enum kofi_object_kind, in one word */
	KOFI_TEXT_STATE,		/* enum kofi_object_state, likewise */
	KOFI_TEXT_VALUE,		/* enum kofi_object_value, likewise */
};

/**
 * struct kofi_text - KOFI_IOC_TEXT: a number in words, as fi_tostr() and
 *	fi_strerror() have them
 * @size: of the struct
 * @flags: 0
 * @type: enum kofi_text_type
 * @reserved: 0
 * @value: the number
 * @text: out: the words, cut where they do not fit
 *
 * Errors: EINVAL for a type that there is not; those of every request.
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
 * struct kofi_offer - what can be opened: an info of fi_getinfo(), flat
 *
 * Fields are those of struct fi_info and its attributes, which begin their
 * names. Addresses are text whatever their format is:
 * "fi_sockaddr_in://10.0.0.1:7471", or nothing.
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

/* The node and the service are the local address. */
#define KOFI_INFO_SOURCE	(1U << 0)

/**
 * struct kofi_info - KOFI_IOC_INFO: what fi_getinfo() offers
 * @size: of the struct
 * @flags: KOFI_INFO_SOURCE
 * @caps: what is asked for; 0 for everything that there is
 * @mode: what the asker agrees to: 0 for nothing, all ones for everything
 * @mr_mode: which ways to register memory it accepts; 0 for any
 * @ep_type: type of endpoint; 0 for any
 * @node: a numeric address, "" for none
 * @service: the number of a port, "" for none
 * @prov_name: a provider, "" for any
 * @fabric_name: a fabric, "" for any
 * @domain_name: a device, "" for any
 * @offers: array of struct kofi_offer; may be NULL with no room
 * @offer_size: bytes of each, as many as the first version has or more: what
 *	the caller does not know is left out, what the kernel does not know is 0
 * @count: in: for how many there is room; out: how many there are, of which as
 *	many as fit were written
 *
 * Errors: ENODATA where nothing fits; EINVAL, also for capabilities that there
 * are not; those of every request. May sleep for some seconds where a peer is
 * asked for.
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
 * A file can run one test, in a thread of the kernel's: between kernels, no data
 * is copied to or from user space. It ends when its work is done, when it is
 * stopped, and when the file is closed for the last time.
 */

/**
 * enum kofi_test_kind - what a test does
 * @KOFI_TEST_SERVER: serves the clients below, several at once, and whatever
 *	they ask for, until it is stopped
 * @KOFI_TEST_PINGPONG: sends a message, waits for it to come back, and so on
 * @KOFI_TEST_STREAM: sends messages, a window of them at a time
 * @KOFI_TEST_WRITE: writes to the server's memory, a window at a time
 * @KOFI_TEST_READ: reads from there, a window at a time
 * @KOFI_TEST_ATOMIC: changes the server's memory atomically, and waits for what
 *	was there before, and so on
 */
enum kofi_test_kind {
	KOFI_TEST_SERVER,
	KOFI_TEST_PINGPONG,
	KOFI_TEST_STREAM,
	KOFI_TEST_WRITE,
	KOFI_TEST_READ,
	KOFI_TEST_ATOMIC,
};

/* The content of each message is checked where it arrives. */
#define KOFI_TEST_VERIFY	(1U << 0)
/*
 * The work is done over verbs, by hand: what the fabric interfaces are compared
 * with. Of such a client the server has to be such a one. KOFI_TEST_ATOMIC is
 * FI_SUM or FI_CSWAP of a single element of 8 bytes then.
 */
#define KOFI_TEST_VERBS		(1U << 1)

#define KOFI_TEST_MAX_LENGTH	(1U << 20)
#define KOFI_TEST_MAX_WINDOW	1024
/* Of the length times the window. */
#define KOFI_TEST_MAX_BYTES	(1U << 26)
/*
 * How many clients a server has at once, and how many bytes it posts or lends
 * for them together. More are refused: see enum kofi_test_refusal.
 */
#define KOFI_TEST_MAX_CLIENTS	16
#define KOFI_TEST_MAX_SERVED	(1U << 29)

/**
 * struct kofi_test - KOFI_IOC_START: begins a test
 * @size: of the struct
 * @flags: KOFI_TEST_VERIFY, KOFI_TEST_VERBS
 * @kind: enum kofi_test_kind
 * @window: KOFI_TEST_STREAM, KOFI_TEST_WRITE, KOFI_TEST_READ: how many messages
 *	or accesses may be under way, at least 1; else 0
 * @length: bytes of each, at least 1; of a server 0; of KOFI_TEST_ATOMIC those
 *	of a whole number of elements
 * @count: how many messages or accesses, 0 for no bound; of a server 0
 * @msec: how long that goes on, 0 for no bound; of a server 0
 * @reserved: 0
 * @node: numeric address of the server; of a server its own, "" for any
 * @service: number of its port
 * @domain_name: the device, "" for any
 * @op: KOFI_TEST_ATOMIC: enum fi_op, which one; else 0
 * @datatype: KOFI_TEST_ATOMIC: enum fi_datatype of the elements; else 0
 *
 * Errors: EBUSY while a test runs; EINVAL for other values than these, and for
 * more than the bounds above; those of every request. What goes wrong from then
 * on is told by KOFI_IOC_WATCH.
 */
struct kofi_test {
	__u32		size;
	__u32		flags;
	__u32		kind;
	__u32		window;
	__aligned_u64	length;
	__aligned_u64	count;
	__u32		msec;
	__u32		reserved;
	char		node[96];
	char		service[16];
	char		domain_name[64];
	__u32		op;
	__u32		datatype;
};

#define KOFI_IOC_START		_IO(KOFI_IOC_MAGIC, KOFI_REQUEST_START)

/**
 * enum kofi_test_state - how far a test has come
 * @KOFI_TEST_STARTING: it looks for a device, and connects
 * @KOFI_TEST_RUNNING: messages go; a server waits for clients, or serves them
 * @KOFI_TEST_OVER: nothing changes any more
 */
enum kofi_test_state {
	KOFI_TEST_STARTING,
	KOFI_TEST_RUNNING,
	KOFI_TEST_OVER,
};

/**
 * enum kofi_test_refusal - why a server does not serve a client
 * @KOFI_TEST_REFUSAL_NONE: it does, or has not said; or nobody listens
 * @KOFI_TEST_REFUSAL_FULL: it has as many clients as it serves at once, or as
 *	large ones: when one of them has left, there is room
 * @KOFI_TEST_REFUSAL_UNKNOWN: it does not know what it is asked for, as it is of
 *	another version
 */
enum kofi_test_refusal {
	KOFI_TEST_REFUSAL_NONE,
	KOFI_TEST_REFUSAL_FULL,
	KOFI_TEST_REFUSAL_UNKNOWN,
};

/*
 * Buckets of a histogram, 16 for each power of two. Of bucket n the smallest
 * value is n if that is below 32, else (16 + n % 16) << (n / 16 - 1).
 */
#define KOFI_TEST_BUCKETS	976

/**
 * struct kofi_watch - KOFI_IOC_WATCH: how a test is getting on
 * @size: of the struct
 * @flags: 0
 * @msec: how long to wait for its end, 0 for not at all
 * @state: out: enum kofi_test_state
 * @error: out: why it is over, as a positive fabric errno (KOFI_TEXT_ERROR has
 *	words for it); 0 where its work is done or it was stopped
 * @clients: out: how many a server has begun to serve; what follows is of all of
 *	them
 * @messages: out: how many went there, and for KOFI_TEST_PINGPONG back, or how
 *	many accesses are over; of a server how many messages it has received
 * @bytes: out: in those
 * @damaged: out: how many were not what they should have been; of
 *	KOFI_TEST_STREAM not before its end, when the server tells; of
 *	KOFI_TEST_WRITE how many of those that are read back, a window at a time
 * @nsec: out: time that messages have been under way; of a server those of the
 *	client that has come last
 * @min: out: shortest round trip of KOFI_TEST_PINGPONG, or time that an
 *	operation of KOFI_TEST_ATOMIC took, in ns; 0 before there is one
 * @max: out: longest one
 * @buckets: array of __u64, round trips in ns by their length; may be NULL with
 *	no room
 * @bucket_count: for how many there is room, up to KOFI_TEST_BUCKETS of which
 *	are written
 * @reserved: 0
 * @refusal: out: enum kofi_test_refusal: where the error of a client is
 *	FI_ECONNREFUSED, what the server has said with that
 * @turned_away: out: how many clients a server has refused with
 *	KOFI_TEST_REFUSAL_FULL
 *
 * Errors: ENOENT where no test has been started; EINTR where a signal came
 * first; those of every request.
 */
struct kofi_watch {
	__u32		size;
	__u32		flags;
	__u32		msec;
	__u32		state;
	__s32		error;
	__u32		clients;
	__aligned_u64	messages;
	__aligned_u64	bytes;
	__aligned_u64	damaged;
	__aligned_u64	nsec;
	__aligned_u64	min;
	__aligned_u64	max;
	__aligned_u64	buckets;
	__u32		bucket_count;
	__u32		reserved;
	__u32		refusal;
	__u32		turned_away;
};

#define KOFI_IOC_WATCH		_IO(KOFI_IOC_MAGIC, KOFI_REQUEST_WATCH)

/**
 * struct kofi_stop - KOFI_IOC_STOP: ends a test, and returns when it is over
 * @size: of the struct
 * @flags: 0
 *
 * Errors: ENOENT where no test has been started; those of every request.
 */
struct kofi_stop {
	__u32	size;
	__u32	flags;
};

#define KOFI_IOC_STOP		_IO(KOFI_IOC_MAGIC, KOFI_REQUEST_STOP)

/*
 * What is open: objects of the fabric interfaces, whoever has opened them.
 */

/**
 * enum kofi_object_kind - what is open
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
 * enum kofi_object_state - how far an endpoint has come, or a listener
 * @KOFI_STATE_OPEN: opened; all that there is to say of other objects
 * @KOFI_STATE_ENABLED: receives can be posted
 * @KOFI_STATE_LISTENING: peers can connect
 * @KOFI_STATE_CONNECTING: it is not known yet what comes of it
 * @KOFI_STATE_CONNECTED: messages flow
 * @KOFI_STATE_NO_TRANSMIT: only from the peer
 * @KOFI_STATE_NO_RECEIVE: only to the peer
 * @KOFI_STATE_LOST: the peer has left, or could not be reached
 * @KOFI_STATE_SHUT: the connection has been ended here
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
 * enum kofi_object_value - what a number says of an object
 * @KOFI_VALUE_TX_CQ: id of the completion queue for transmits
 * @KOFI_VALUE_RX_CQ: id of that for receives
 * @KOFI_VALUE_EQ: id of the event queue
 * @KOFI_VALUE_TX_SIZE: how many transmits can be under way
 * @KOFI_VALUE_RX_SIZE: how many receives can be posted
 * @KOFI_VALUE_SIZE: how many entries a queue holds
 * @KOFI_VALUE_DEPTH: how many of those are waiting to be read
 * @KOFI_VALUE_COUNT: what a counter says
 * @KOFI_VALUE_ERRORS: how many of its operations have failed; of a queue, how
 *	many failures have been read
 * @KOFI_VALUE_ADDRESSES: how many an address vector has
 * @KOFI_VALUE_MEMBERS: how many a set has
 * @KOFI_VALUE_LENGTH: bytes of a region
 * @KOFI_VALUE_TX_DEPTH: how many transmits are not known to be over
 * @KOFI_VALUE_RX_DEPTH: how many receives are waiting for a message
 * @KOFI_VALUE_SENDS: how many sends have been posted
 * @KOFI_VALUE_RECEIVES: how many receives have, each piece of a buffer that takes
 *	several messages for itself
 * @KOFI_VALUE_WRITES: how many writes
 * @KOFI_VALUE_READS: how many reads
 * @KOFI_VALUE_ATOMICS: how many atomic operations
 * @KOFI_VALUE_TX_DONE: how many transmits are over
 * @KOFI_VALUE_RX_DONE: how many receives are
 * @KOFI_VALUE_TX_BYTES: bytes of the transmits that have been posted, of whatever kind
 * @KOFI_VALUE_RX_BYTES: bytes that receives have taken
 * @KOFI_VALUE_TX_ERRORS: how many transmits have failed
 * @KOFI_VALUE_RX_ERRORS: how many receives
 * @KOFI_VALUE_TX_AGAIN: how often a transmit found no room, and was refused with
 *	-FI_EAGAIN
 * @KOFI_VALUE_RX_AGAIN: how often a receive did
 * @KOFI_VALUE_ENTRIES: how many completions have been read from a queue
 * @KOFI_VALUE_CALLBACKS: how often the handler of a queue was asked to come
 * @KOFI_VALUE_OVERRUNS: how often something found no room in a queue: of an event
 *	queue, events that a consumer wrote, and was refused; of a completion queue,
 *	completions that were lost, which its room excludes
 * @KOFI_VALUE_SRX: id of the receive context that an endpoint shares with others
 * @KOFI_VALUE_TX_CTXS: how many transmit contexts a scalable endpoint has, open or not
 * @KOFI_VALUE_RX_CTXS: how many receive contexts
 * @KOFI_VALUE_INDEX: the index of a context
 * @KOFI_VALUE_CONNECTIONS: how many connections an endpoint of datagrams has
 * @KOFI_VALUE_STX: id of the transmit context that an endpoint shares with others
 * @KOFI_VALUE_VIOLATIONS: number of connections of an endpoint that were closed because
 *	the peer violated its access rights; counted over the object's lifetime
 *
 * Numbers of what has been done, from KOFI_VALUE_SENDS to KOFI_VALUE_OVERRUNS, begin
 * with the object, and never get smaller.
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
 * struct kofi_object - what is open
 * @id: its number, which nothing else had or will have while the module is
 *	loaded; what is opened later has a greater one
 * @parent: the number of what it was opened from; 0 of a fabric
 * @kind: enum kofi_object_kind
 * @state: enum kofi_object_state
 * @pid: the process that has opened the fabric it belongs to by asking for a
 *	test; 0 where a module of the kernel has
 * @value_count: how many of the values below there are
 * @owner: the name of that process or module
 * @name: of a fabric, of the device of a domain, of a shared address vector; ""
 *	for none
 * @local_addr: of an endpoint, as text: "fi_sockaddr_in://10.0.0.1:7471"; ""
 *	where it is not known
 * @peer_addr: of its peer, or of the one that it connects to
 * @what: enum kofi_object_value, what each value says
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
 * struct kofi_objects - KOFI_IOC_OBJECTS: what is open in the network namespace
 *	of the file
 * @size: of the struct
 * @flags: 0
 * @after: only what has a greater id than this; 0 for everything
 * @objects: array of struct kofi_object; may be NULL with no room
 * @object_size: bytes of each, as many as the first version has or more: what
 *	the caller does not know is left out, what the kernel does not know is 0
 * @count: in: for how many there is room; out: how many there are, of which as
 *	many as fit were written, by growing id
 *
 * Objects come and go meanwhile. What stays is told of, behind what it was
 * opened from.
 *
 * Errors: EINVAL for a size that no object has; those of every request.
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

/* There is an identifier of the consumer's own. */
#define KOFI_ADDRESS_USER_ID	(1U << 0)

/**
 * struct kofi_address - one address of an address vector
 * @fi_addr: the number that stands for it
 * @user_id: the consumer's identifier, with KOFI_ADDRESS_USER_ID
 * @flags: KOFI_ADDRESS_USER_ID
 * @uses: how often it has been inserted and not removed
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
 * struct kofi_addresses - KOFI_IOC_ADDRESSES: what is in an address vector of
 *	the network namespace of the file
 * @size: of the struct
 * @flags: 0
 * @id: the number of the vector, which KOFI_IOC_OBJECTS tells
 * @at: in: where to begin, 0 at first; out: where to go on
 * @addresses: array of struct kofi_address; may be NULL with no room
 * @address_size: bytes of each, as many as the first version has or more: what
 *	the caller does not know is left out, what the kernel does not know is 0
 * @count: in: for how many there is room; out: how many were written: where
 *	they are fewer than that, there are no more
 *
 * Addresses come and go meanwhile. What stays is told of.
 *
 * Errors: ENOENT where there is no such object; EINVAL for another kind of
 * object, and for a size that no address has; those of every request.
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
