/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fabric interfaces of the kernel: flags, attributes, discovery, fids.
 *
 * Names, values and layouts are those of libfabric 1.17, except that vectors
 * are struct kvec. Kernel additions are at the end of their struct, or use a
 * flag bit that libfabric leaves free, and are marked as such.
 *
 * struct fid is also a name of <linux/exportfs.h>: the two headers cannot be
 * included in one C file.
 */

#ifndef FABRIC_H
#define FABRIC_H

#include <linux/build_bug.h>
#include <linux/container_of.h>
#include <linux/limits.h>
#include <linux/stddef.h>
#include <linux/types.h>
#include <linux/uio.h>
#include <rdma/fi_errno.h>

/**
 * DOC: Contexts and threads
 *
 * The documentation of each call states its context. Calls that open, bind,
 * connect, wait or close need process context and may sleep; in atomic context
 * most of them return -FI_EOPBADSTATE, and warn once in the log. "Any context"
 * includes hard interrupts, with or without spinlocks held, but not NMI: such
 * calls do not sleep, take no mutex and allocate no memory.
 *
 * Any number of threads may make calls at the same time, also on the same
 * object. Two restrictions apply: no thread may use an object during or after
 * an fi_close() of it that succeeds; and a consumer that opens a domain with
 * FI_THREAD_COMPLETION or FI_THREAD_DOMAIN must serialize its "data calls": see
 * &enum fi_threading.
 *
 * A call that a provider does not implement returns -FI_ENOSYS. The object that
 * a call is made on must be valid and open. Arguments that the documentation
 * does not describe as kept belong to the caller again when the call returns. A
 * call that opens an object writes its out-pointer only if it succeeds.
 */

#define FI_MAJOR_VERSION	1
#define FI_MINOR_VERSION	17
#define FI_REVISION_VERSION	0

enum {
	FI_PATH_MAX		= 256,
	FI_NAME_MAX		= 64,
	FI_VERSION_MAX		= 64
};

#define FI_VERSION(major, minor)	(((major) << 16) | (minor))
#define FI_MAJOR(version)		((version) >> 16)
#define FI_MINOR(version)		((version) & 0xFFFF)
#define FI_VERSION_GE(v1, v2)		((v1) >= (v2))
#define FI_VERSION_LT(v1, v2)		((v1) < (v2))

/**
 * fi_version() - return the version of the API that the module implements
 *
 * Context: Any context.
 * Return: The version as FI_VERSION() forms it.
 */
u32 fi_version(void);

struct fid;
struct fid_fabric;
struct fid_domain;
struct fid_av;
struct fid_wait;
struct fid_poll;
struct fid_eq;
struct fid_cq;
struct fid_cntr;
struct fid_ep;
struct fid_pep;
struct fid_stx;
struct fid_mr;
struct fid_nic;
struct net;

typedef struct fid *fid_t;

/* Marks 32-bit values (protocols, option names) that a provider defines. */
#define FI_PROV_SPECIFIC	(1U << 31)

/*
 * Capability and operation flags share one space of 64 bits. Bits from 59
 * downwards are reused from call to call; 60 to 63 are a provider's own.
 */

/* Kinds of transfer */
#define FI_MSG			(1ULL << 1)
#define FI_RMA			(1ULL << 2)
#define FI_TAGGED		(1ULL << 3)
#define FI_ATOMIC		(1ULL << 4)
#define FI_ATOMICS		FI_ATOMIC
#define FI_MULTICAST		(1ULL << 5)
#define FI_COLLECTIVE		(1ULL << 6)

/* Directions: capabilities, bindings, access rights, completion flags */
#define FI_READ			(1ULL << 8)
#define FI_WRITE		(1ULL << 9)
#define FI_RECV			(1ULL << 10)
#define FI_SEND			(1ULL << 11)
#define FI_TRANSMIT		FI_SEND
#define FI_REMOTE_READ		(1ULL << 12)
#define FI_REMOTE_WRITE		(1ULL << 13)

/* Modifiers of one operation */
#define FI_MULTI_RECV		(1ULL << 16)
#define FI_REMOTE_CQ_DATA	(1ULL << 17)
#define FI_MORE			(1ULL << 18)
#define FI_PEEK			(1ULL << 19)
#define FI_TRIGGER		(1ULL << 20)
#define FI_FENCE		(1ULL << 21)
#define FI_PRIORITY		(1ULL << 22)

/* Completion of an operation: reporting, level, and ownership of the buffer */
#define FI_COMPLETION		(1ULL << 24)
#define FI_EVENT		FI_COMPLETION
#define FI_INJECT		(1ULL << 25)
#define FI_INJECT_COMPLETE	(1ULL << 26)
#define FI_TRANSMIT_COMPLETE	(1ULL << 27)
#define FI_DELIVERY_COMPLETE	(1ULL << 28)
#define FI_AFFINITY		(1ULL << 29)
#define FI_COMMIT_COMPLETE	(1ULL << 30)
#define FI_MATCH_COMPLETE	(1ULL << 31)

/* Secondary capabilities and flags of setup calls */
#define FI_PEER_TRANSFER	(1ULL << 36)
#define FI_AV_USER_ID		(1ULL << 41)
#define FI_PEER			(1ULL << 43)
#define FI_XPU_TRIGGER		(1ULL << 44)
#define FI_HMEM_HOST_ALLOC	(1ULL << 45)
#define FI_HMEM_DEVICE_ONLY	(1ULL << 46)
#define FI_TAGGED_MULTI_RECV	(1ULL << 46)	/* capability; of libfabric 2 */
#define FI_HMEM			(1ULL << 47)
#define FI_VARIABLE_MSG		(1ULL << 48)
#define FI_RMA_PMEM		(1ULL << 49)
#define FI_SOURCE_ERR		(1ULL << 50)
#define FI_LOCAL_COMM		(1ULL << 51)
#define FI_REMOTE_COMM		(1ULL << 52)
#define FI_SHARED_AV		(1ULL << 53)
#define FI_PROV_ATTR_ONLY	(1ULL << 54)
#define FI_NUMERICHOST		(1ULL << 55)
#define FI_RMA_EVENT		(1ULL << 56)
#define FI_SOURCE		(1ULL << 57)
#define FI_NAMED_RX_CTX		(1ULL << 58)
#define FI_DIRECTED_RECV	(1ULL << 59)

/* Tagged and buffered receives: handling of a peeked message */
#define FI_CLAIM		(1ULL << 59)
#define FI_DISCARD		(1ULL << 58)

/*
 * Flags of the kernel, on bits that no libfabric release uses.
 *
 * FI_CB_CTX_INTR	fi_cq_attr.flags: call cq_event_handler in hard interrupt
 *			context rather than in process context
 * FI_CB_CTX_SOFTIRQ	likewise, in soft interrupt context
 * FI_REMOTE_SIGNAL	of a transmit: wakes a reader of the target, which waits or
 *			has a handler. As a capability of the target: no other
 *			completions than those of such transmits and failures wake
 *			the readers of the endpoint's receives
 * FI_BVEC		fi_sendmsg(), fi_recvmsg(), fi_writemsg(), fi_readmsg():
 *			the vector is an array of struct bio_vec
 * FI_SGL		same calls: the vector is a struct scatterlist
 * FI_TAGGED_RMA	capability of datagram endpoints, granted on request: with
 *			FI_TAGGED, fi_writemsg() and fi_readmsg() access the memory of
 *			the peer's tagged receive whose tag is the key
 */
#define FI_CB_CTX_INTR		(1ULL << 7)
#define FI_REMOTE_SIGNAL	(1ULL << 14)
#define FI_BVEC			(1ULL << 15)
#define FI_SGL			(1ULL << 23)
#define FI_TAGGED_RMA		(1ULL << 33)
#define FI_CB_CTX_SOFTIRQ	(1ULL << 60)

/* Older name: an operation completes when the peer has the data. */
#define FI_REMOTE_COMPLETE	FI_DELIVERY_COMPLETE

/**
 * struct fi_ioc - local operands of an atomic operation
 * @addr: first operand
 * @count: how many operands, in elements of the datatype
 */
struct fi_ioc {
	void			*addr;
	size_t			count;
};

/* Address formats; the comment names the type of an address. */
enum {
	FI_FORMAT_UNSPEC,
	FI_SOCKADDR,		/* struct sockaddr of either family */
	FI_SOCKADDR_IN,		/* struct sockaddr_in */
	FI_SOCKADDR_IN6,	/* struct sockaddr_in6 */
	FI_SOCKADDR_IB,		/* struct sockaddr_ib */
	FI_ADDR_PSMX,
	FI_ADDR_GNI,
	FI_ADDR_BGQ,
	FI_ADDR_MLX,
	FI_ADDR_STR,		/* char: "fi_sockaddr_in://10.0.0.1:7500" */
	FI_ADDR_PSMX2,
	FI_ADDR_IB_UD,
	FI_ADDR_EFA,
	FI_ADDR_PSMX3,
	FI_ADDR_OPX,
	FI_ADDR_CXI,
};

#define FI_ADDR_UNSPEC		((u64)-1)
#define FI_ADDR_NOTAVAIL	((u64)-1)
#define FI_KEY_NOTAVAIL		((u64)-1)
#define FI_SHARED_CONTEXT	SIZE_MAX
typedef u64			fi_addr_t;

enum fi_av_type {
	FI_AV_UNSPEC,
	FI_AV_MAP,
	FI_AV_TABLE
};

/* Values up to FI_MR_SCALABLE are names of API 1.4; the bits are newer. */
enum fi_mr_mode {
	FI_MR_UNSPEC,
	FI_MR_BASIC,		/* (1 << 0) */
	FI_MR_SCALABLE,		/* (1 << 1) */
};

#define FI_MR_LOCAL		(1 << 2)
#define FI_MR_RAW		(1 << 3)
#define FI_MR_VIRT_ADDR		(1 << 4)
#define FI_MR_ALLOCATED		(1 << 5)
#define FI_MR_PROV_KEY		(1 << 6)
#define FI_MR_MMU_NOTIFY	(1 << 7)
#define FI_MR_RMA_EVENT		(1 << 8)
#define FI_MR_ENDPOINT		(1 << 9)
#define FI_MR_HMEM		(1 << 10)
#define FI_MR_COLLECTIVE	(1 << 11)

enum fi_progress {
	FI_PROGRESS_UNSPEC,
	FI_PROGRESS_AUTO,
	FI_PROGRESS_MANUAL
};

/**
 * enum fi_threading - serialization of data calls
 * @FI_THREAD_UNSPEC: as FI_THREAD_SAFE
 * @FI_THREAD_SAFE: the provider locks: any thread may call at any time
 * @FI_THREAD_FID: treated as FI_THREAD_SAFE
 * @FI_THREAD_DOMAIN: the consumer serializes all data calls of the domain
 * @FI_THREAD_COMPLETION: the consumer serializes data calls that concern the
 *	same endpoint or completion queue, or endpoints with the same queue
 * @FI_THREAD_ENDPOINT: treated as FI_THREAD_SAFE
 *
 * Data calls post operations, read completions, return the number of free
 * slots, or check completion queues: fi_trywait(), fi_poll(), fi_wait(),
 * fi_waitfrom(). A data call that interrupts another overlaps it. Data calls
 * that the consumer serializes take no locks.
 */
enum fi_threading {
	FI_THREAD_UNSPEC,
	FI_THREAD_SAFE,
	FI_THREAD_FID,
	FI_THREAD_DOMAIN,
	FI_THREAD_COMPLETION,
	FI_THREAD_ENDPOINT,
};

enum fi_resource_mgmt {
	FI_RM_UNSPEC,
	FI_RM_DISABLED,
	FI_RM_ENABLED
};

/* Order bits: RAW means that a read after a write takes effect after it. S is a send. */
#define FI_ORDER_NONE		0ULL
#define FI_ORDER_RAR		(1ULL << 0)
#define FI_ORDER_RAW		(1ULL << 1)
#define FI_ORDER_RAS		(1ULL << 2)
#define FI_ORDER_WAR		(1ULL << 3)
#define FI_ORDER_WAW		(1ULL << 4)
#define FI_ORDER_WAS		(1ULL << 5)
#define FI_ORDER_SAR		(1ULL << 6)
#define FI_ORDER_SAW		(1ULL << 7)
#define FI_ORDER_SAS		(1ULL << 8)
#define FI_ORDER_STRICT		0x1FF

#define FI_ORDER_RMA_RAR	(1ULL << 32)
#define FI_ORDER_RMA_RAW	(1ULL << 33)
#define FI_ORDER_RMA_WAR	(1ULL << 34)
#define FI_ORDER_RMA_WAW	(1ULL << 35)
#define FI_ORDER_ATOMIC_RAR	(1ULL << 36)
#define FI_ORDER_ATOMIC_RAW	(1ULL << 37)
#define FI_ORDER_ATOMIC_WAR	(1ULL << 38)
#define FI_ORDER_ATOMIC_WAW	(1ULL << 39)

/* Completion order only: data is also written in order */
#define FI_ORDER_DATA		(1ULL << 16)

enum fi_ep_type {
	FI_EP_UNSPEC,
	FI_EP_MSG,
	FI_EP_DGRAM,
	FI_EP_RDM,
	FI_EP_SOCK_STREAM,
	FI_EP_SOCK_DGRAM,
};

/* Wire protocols: endpoints of the same protocol and version interoperate. */
enum {
	FI_PROTO_UNSPEC,
	FI_PROTO_RDMA_CM_IB_RC,
	FI_PROTO_IWARP,
	FI_PROTO_IB_UD,
	FI_PROTO_PSMX,
	FI_PROTO_UDP,
	FI_PROTO_SOCK_TCP,
	FI_PROTO_MXM,
	FI_PROTO_IWARP_RDM,
	FI_PROTO_IB_RDM,
	FI_PROTO_GNI,
	FI_PROTO_RXM,
	FI_PROTO_RXD,
	FI_PROTO_MLX,
	FI_PROTO_NETWORKDIRECT,
	FI_PROTO_PSMX2,
	FI_PROTO_SHM,
	FI_PROTO_MRAIL,
	FI_PROTO_RSTREAM,
	FI_PROTO_RDMA_CM_IB_XRC,
	FI_PROTO_EFA,
	FI_PROTO_PSMX3,
	FI_PROTO_RXM_TCP,
	FI_PROTO_OPX,
	FI_PROTO_CXI,
	FI_PROTO_XNET,
};

/* Traffic classes: a DSCP value, or a label that the provider translates */
enum {
	FI_TC_UNSPEC		= 0,
	FI_TC_DSCP		= 0x100,
	FI_TC_LABEL		= 0x200,
	FI_TC_BEST_EFFORT	= FI_TC_LABEL,
	FI_TC_LOW_LATENCY,
	FI_TC_DEDICATED_ACCESS,
	FI_TC_BULK_DATA,
	FI_TC_SCAVENGER,
	FI_TC_NETWORK_CTRL,
};

/**
 * fi_tc_dscp_set() - return the traffic class of a DSCP value
 * @dscp: differentiated services code point
 *
 * Context: Any context.
 * Return: The value for a tclass attribute.
 */
static inline u32 fi_tc_dscp_set(u8 dscp)
{
	return (u32)dscp | FI_TC_DSCP;
}

/**
 * fi_tc_dscp_get() - return the DSCP value of a traffic class
 * @tclass: value of a tclass attribute
 *
 * Context: Any context.
 * Return: The code point, or 0 if @tclass is a label.
 */
static inline u8 fi_tc_dscp_get(u32 tclass)
{
	return tclass & FI_TC_DSCP ? (u8)tclass : 0;
}

/* Mode bits: requirements of a provider. FI_PEER_TRANSFER is a mode bit, too. */
#define FI_CONTEXT		(1ULL << 59)
#define FI_MSG_PREFIX		(1ULL << 58)
#define FI_ASYNC_IOV		(1ULL << 57)
#define FI_RX_CQ_DATA		(1ULL << 56)
#define FI_LOCAL_MR		(1ULL << 55)
#define FI_NOTIFY_FLAGS_ONLY	(1ULL << 54)
#define FI_RESTRICTED_COMP	(1ULL << 53)
#define FI_CONTEXT2		(1ULL << 52)
#define FI_BUFFERED_RECV	(1ULL << 51)

/**
 * struct fi_tx_attr - transmit side of an endpoint
 * @caps: capabilities
 * @mode: mode bits
 * @op_flags: default flags of transmits whose call has no flags argument.
 *	FI_INJECT: the caller may reuse the buffer of a send or write of at most
 *	inject_size bytes when the call returns; completion entries do not
 *	change, and reads ignore the flag
 * @msg_order: FI_ORDER_* bits that hold between messages
 * @comp_order: FI_ORDER_* bits that hold between completions
 * @inject_size: maximum bytes of fi_inject(), and of an operation with FI_INJECT
 * @size: maximum number of posted operations; a datagram endpoint has 64 to one
 *	peer, and up to 1024 if the hints ask for them
 * @iov_limit: maximum vector entries of an operation; an RMA operation of a
 *	connected endpoint has up to 256, whatever the value is. A datagram endpoint
 *	has 4, and up to 256 if the hints ask for them
 * @rma_iov_limit: maximum remote ranges of an RMA operation; a datagram endpoint
 *	has 1, and up to 256 if the hints ask for them
 * @tclass: traffic class of the packets, see fi_tc_dscp_set() and FI_TC_LABEL; 0
 *	for that of the domain
 */
struct fi_tx_attr {
	u64			caps;
	u64			mode;
	u64			op_flags;
	u64			msg_order;
	u64			comp_order;
	size_t			inject_size;
	size_t			size;
	size_t			iov_limit;
	size_t			rma_iov_limit;
	u32			tclass;
};

/**
 * struct fi_rx_attr - receive side of an endpoint
 * @caps: capabilities
 * @mode: mode bits
 * @op_flags: default flags of receives whose call has no flags argument
 * @msg_order: FI_ORDER_* bits that hold between messages
 * @comp_order: FI_ORDER_* bits that hold between completions
 * @total_buffered_recv: bytes of unexpected messages held; obsolete
 * @size: maximum number of posted receives
 * @iov_limit: maximum vector entries of a receive; a datagram endpoint has 4, and
 *	up to 256 if the hints ask for them. A multi-receive buffer has one
 */
struct fi_rx_attr {
	u64			caps;
	u64			mode;
	u64			op_flags;
	u64			msg_order;
	u64			comp_order;
	size_t			total_buffered_recv;
	size_t			size;
	size_t			iov_limit;
};

/**
 * struct fi_ep_attr - endpoint attributes
 * @type: connected, datagram or reliable datagram
 * @protocol: wire protocol, FI_PROTO_*
 * @protocol_version: its version
 * @max_msg_size: maximum length of a message, in bytes
 * @msg_prefix_size: bytes that FI_MSG_PREFIX reserves before a message
 * @max_order_raw_size: maximum transfer for which read-after-write order holds
 * @max_order_war_size: maximum transfer for which write-after-read order holds
 * @max_order_waw_size: maximum transfer for which write-after-write order holds
 * @mem_tag_format: grouping of the tag bits
 * @tx_ctx_cnt: transmit contexts, or FI_SHARED_CONTEXT
 * @rx_ctx_cnt: receive contexts, or FI_SHARED_CONTEXT
 * @auth_key_size: bytes in @auth_key
 * @auth_key: authorization key
 */
struct fi_ep_attr {
	enum fi_ep_type		type;
	u32			protocol;
	u32			protocol_version;
	size_t			max_msg_size;
	size_t			msg_prefix_size;
	size_t			max_order_raw_size;
	size_t			max_order_war_size;
	size_t			max_order_waw_size;
	u64			mem_tag_format;
	size_t			tx_ctx_cnt;
	size_t			rx_ctx_cnt;
	size_t			auth_key_size;
	u8			*auth_key;
};

/**
 * struct fi_domain_attr - domain attributes
 * @domain: in hints, an open domain to restrict the list to, or %NULL; in an
 *	info, an open domain for its endpoints, see fi_getinfo()
 * @name: name of the device
 * @threading: data calls that the consumer serializes; see enum fi_threading
 * @control_progress: progress model of connections and events
 * @data_progress: progress model of transfers
 * @resource_mgmt: FI_RM_ENABLED if queues cannot overrun
 * @av_type: type of the domain's address vectors
 * @mr_mode: FI_MR_* bits that registrations obey
 * @mr_key_size: bytes of a memory key
 * @cq_data_size: bytes of remote CQ data, 0 if there is none
 * @cq_cnt: completion queues that can be open
 * @ep_cnt: endpoints that can be open
 * @tx_ctx_cnt: maximum number of transmit contexts
 * @rx_ctx_cnt: maximum number of receive contexts
 * @max_ep_tx_ctx: transmit contexts of one endpoint
 * @max_ep_rx_ctx: receive contexts of one endpoint
 * @max_ep_stx_ctx: shared transmit contexts of one endpoint, 1 or 0
 * @max_ep_srx_ctx: shared receive contexts of one endpoint, 1 or 0
 * @cntr_cnt: counters that can be open
 * @mr_iov_limit: maximum vector entries of a registration
 * @caps: capabilities of the domain
 * @mode: mode bits of the domain
 * @auth_key: authorization key
 * @auth_key_size: bytes in @auth_key
 * @max_err_data: maximum bytes of err_data of an error entry
 * @mr_cnt: registrations that can be open
 * @tclass: traffic class of endpoints that have none of their own
 */
struct fi_domain_attr {
	struct fid_domain	*domain;
	char			*name;
	enum fi_threading	threading;
	enum fi_progress	control_progress;
	enum fi_progress	data_progress;
	enum fi_resource_mgmt	resource_mgmt;
	enum fi_av_type		av_type;
	int			mr_mode;
	size_t			mr_key_size;
	size_t			cq_data_size;
	size_t			cq_cnt;
	size_t			ep_cnt;
	size_t			tx_ctx_cnt;
	size_t			rx_ctx_cnt;
	size_t			max_ep_tx_ctx;
	size_t			max_ep_rx_ctx;
	size_t			max_ep_stx_ctx;
	size_t			max_ep_srx_ctx;
	size_t			cntr_cnt;
	size_t			mr_iov_limit;
	u64			caps;
	u64			mode;
	u8			*auth_key;
	size_t			auth_key_size;
	size_t			max_err_data;
	size_t			mr_cnt;
	u32			tclass;
};

/**
 * struct fi_fabric_attr - fabric attributes
 * @fabric: in hints, an open fabric to restrict the list to, or %NULL; in an
 *	info, an open fabric for its domain, see fi_getinfo()
 * @name: name of the fabric
 * @prov_name: name of the provider
 * @prov_version: its version
 * @api_version: API version that the consumer requested
 * @net: network namespace of devices, addresses and ports, or %NULL for
 *	init_net; infos name init_net by %NULL too. Kernel addition: in user
 *	space it is that of the process. Borrowed: the caller keeps the
 *	namespace alive until fi_fabric() has returned; the fabric holds its
 *	own reference.
 */
struct fi_fabric_attr {
	struct fid_fabric	*fabric;
	char			*name;
	char			*prov_name;
	u32			prov_version;
	u32			api_version;
	struct net		*net;
};

/**
 * struct fi_info - provider, device and endpoint type, as hints or as an offer
 * @next: next offer in the list, best first
 * @caps: capabilities
 * @mode: mode bits; in hints, those that the consumer accepts
 * @addr_format: format of @src_addr and @dest_addr
 * @src_addrlen: bytes in @src_addr
 * @dest_addrlen: bytes in @dest_addr
 * @src_addr: local address, or %NULL
 * @dest_addr: peer's address, or %NULL
 * @handle: connection request that this info stands for, or %NULL
 * @tx_attr: transmit attributes
 * @rx_attr: receive attributes
 * @ep_attr: endpoint attributes
 * @domain_attr: domain attributes
 * @fabric_attr: fabric attributes
 * @nic: description of the device, or %NULL; ignored in hints
 *
 * An info owns everything that it points to except the fids and
 * &fi_fabric_attr.net. In hints, a zero field or a %NULL attribute accepts
 * any value; exception: a @mode of 0 accepts no mode.
 */
struct fi_info {
	struct fi_info		*next;
	u64			caps;
	u64			mode;
	u32			addr_format;
	size_t			src_addrlen;
	size_t			dest_addrlen;
	void			*src_addr;
	void			*dest_addr;
	fid_t			handle;
	struct fi_tx_attr	*tx_attr;
	struct fi_rx_attr	*rx_attr;
	struct fi_ep_attr	*ep_attr;
	struct fi_domain_attr	*domain_attr;
	struct fi_fabric_attr	*fabric_attr;
	struct fid_nic		*nic;
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_tx_attr) == 80);
static_assert(sizeof(struct fi_rx_attr) == 64);
static_assert(sizeof(struct fi_ep_attr) == 96);
static_assert(offsetof(struct fi_ep_attr, auth_key) == 88);
static_assert(sizeof(struct fi_domain_attr) == 192);
static_assert(offsetof(struct fi_domain_attr, mr_mode) == 36);
static_assert(offsetof(struct fi_domain_attr, tclass) == 184);
static_assert(sizeof(struct fi_fabric_attr) == 40);
static_assert(offsetof(struct fi_fabric_attr, api_version) == 28);
static_assert(offsetof(struct fi_fabric_attr, net) == 32);
static_assert(sizeof(struct fi_info) == 120);
static_assert(offsetof(struct fi_info, src_addr) == 48);
static_assert(offsetof(struct fi_info, handle) == 64);
static_assert(offsetof(struct fi_info, tx_attr) == 72);
static_assert(offsetof(struct fi_info, fabric_attr) == 104);
#endif

/**
 * struct fi_device_attr - identification of a NIC
 * @name: name of the RDMA device
 * @device_id: part number that the vendor gave it, such as "0x1017"
 * @device_version: hardware revision
 * @vendor_id: vendor's number, such as "0x02c9"
 * @driver: name of the driver's module
 * @firmware: firmware version, empty if the device has none
 */
struct fi_device_attr {
	char			*name;
	char			*device_id;
	char			*device_version;
	char			*vendor_id;
	char			*driver;
	char			*firmware;
};

enum fi_bus_type {
	FI_BUS_UNSPEC,
	FI_BUS_UNKNOWN = FI_BUS_UNSPEC,
	FI_BUS_PCI,
};

/**
 * struct fi_pci_attr - PCI address of a NIC
 * @domain_id: domain
 * @bus_id: bus
 * @device_id: device
 * @function_id: function
 */
struct fi_pci_attr {
	u16			domain_id;
	u8			bus_id;
	u8			device_id;
	u8			function_id;
};

/**
 * struct fi_bus_attr - bus address of a NIC
 * @bus_type: valid member of @attr
 * @attr: the address
 */
struct fi_bus_attr {
	enum fi_bus_type	bus_type;
	union {
		struct fi_pci_attr	pci;
	} attr;
};

enum fi_link_state {
	FI_LINK_UNKNOWN,
	FI_LINK_DOWN,
	FI_LINK_UP,
};

/**
 * struct fi_link_attr - state of a NIC's link
 * @address: hardware address of the port's network interface, or the first GID of
 *	an InfiniBand port, in text
 * @mtu: maximum transmission unit of the RDMA packets, in bytes
 * @speed: bits per second
 * @state: up or down, when the info was made
 * @network_type: "Ethernet", "InfiniBand" or "Unspecified"
 */
struct fi_link_attr {
	char			*address;
	size_t			mtu;
	size_t			speed;
	enum fi_link_state	state;
	char			*network_type;
};

/* Values of &fid.fclass */
enum {
	FI_CLASS_UNSPEC,
	FI_CLASS_FABRIC,
	FI_CLASS_DOMAIN,
	FI_CLASS_EP,
	FI_CLASS_SEP,
	FI_CLASS_RX_CTX,
	FI_CLASS_SRX_CTX,
	FI_CLASS_TX_CTX,
	FI_CLASS_STX_CTX,
	FI_CLASS_PEP,
	FI_CLASS_INTERFACE,
	FI_CLASS_AV,
	FI_CLASS_MR,
	FI_CLASS_EQ,
	FI_CLASS_CQ,
	FI_CLASS_CNTR,
	FI_CLASS_WAIT,
	FI_CLASS_POLL,
	FI_CLASS_CONNREQ,
	FI_CLASS_MC,
	FI_CLASS_NIC,
	FI_CLASS_AV_SET,
	FI_CLASS_MR_CACHE,
	FI_CLASS_MEM_MONITOR,
	FI_CLASS_PEER_CQ,
	FI_CLASS_PEER_SRX,
	FI_CLASS_LOG,
	FI_CLASS_PEER_AV,
	FI_CLASS_PEER_AV_SET,
};

struct fi_eq_attr;
struct fi_wait_attr;

/* Binding of a completion queue: a success needs FI_COMPLETION to write an entry */
#define FI_SELECTIVE_COMPLETION	(1ULL << 59)

/*
 * Operations tables: a provider fills them in, and the inline functions call
 * them with the same arguments. size is the size of the table that the provider
 * was built with, so that a newer header can tell which entries an older
 * provider has.
 */
struct fi_ops {
	size_t	size;
	int	(*close)(struct fid *fid);
	int	(*bind)(struct fid *fid, struct fid *bfid, u64 flags);
	int	(*control)(struct fid *fid, int command, void *arg);
	int	(*ops_open)(struct fid *fid, const char *name, u64 flags,
			    void **ops, void *context);
	int	(*tostr)(const struct fid *fid, char *buf, size_t len);
	int	(*ops_set)(struct fid *fid, const char *name, u64 flags,
			   void *ops, void *context);
};

/* True if the table is new enough to have the entry, and the entry is set */
#define FI_CHECK_OP(ops, opstype, op) \
	((ops) && ((ops)->size > offsetof(opstype, op)) && (ops)->op)

/**
 * struct fid - common part at the start of every fabric object
 * @fclass: class of the object, FI_CLASS_*
 * @context: context that the consumer passed to the call that opened the object
 * @ops: operations common to all classes
 */
struct fid {
	size_t			fclass;
	void			*context;
	struct fi_ops		*ops;
};

/**
 * fi_getinfo_by() - fi_getinfo() for a named module
 * @version: as fi_getinfo()
 * @node: as fi_getinfo()
 * @service: as fi_getinfo()
 * @flags: as fi_getinfo()
 * @hints: as fi_getinfo()
 * @info: as fi_getinfo()
 * @owner: name of the calling module; infos name the objects it has open
 *
 * Context: Process context, may sleep.
 * Return: See fi_getinfo().
 */
int fi_getinfo_by(u32 version, const char *node, const char *service,
		  u64 flags, const struct fi_info *hints,
		  struct fi_info **info, const char *owner);

/**
 * fi_getinfo() - list providers, devices and endpoint types that can be opened
 * @version: API version that the caller was written for, as FI_VERSION()
 * @node: numeric network address, or one in the form of FI_ADDR_STR, or %NULL
 * @service: numeric port, or %NULL
 * @flags: FI_SOURCE if @node and @service are local, FI_NUMERICHOST,
 *	FI_PROV_ATTR_ONLY
 * @hints: requirements, or %NULL for none; they belong to the caller
 * @info: the list; free it with fi_freeinfo()
 *
 * The call searches the network namespace @hints->fabric_attr->net.
 *
 * An open fabric or domain in the hints restricts the list to infos that can be
 * opened from it: those of its provider, its fabric or device, and its network
 * namespace, and for a domain also of its address format, address vector type
 * and mr_mode. Each info names both objects. Without such hints, an info names
 * the first fabric of the calling module that it can be opened from, and the
 * first such domain of that fabric, or %NULL. The caller owns these objects: an
 * info holds no reference on them.
 *
 * The call keeps none of its arguments. It sets *@info to %NULL if it fails,
 * unless @info itself is %NULL.
 *
 * Context: Process context, may sleep; up to two seconds if a peer does not
 * answer.
 * Return:
 * * 0 - the list has at least one entry
 * * -FI_ENODATA - nothing matches, there is no route to the peer, or @node or
 *   @service is not numeric; the fabric or domain in the hints is not open, or
 *   the domain belongs to another fabric
 * * -FI_ENOSYS - @version is newer than the module
 * * -FI_EBADFLAGS - an unknown bit in @flags, or in capabilities of the hints
 * * -FI_EINVAL - FI_SOURCE without @node and @service; an address in the hints
 *   that is not an IP address; @info is %NULL
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_getinfo(u32 version, const char *node, const char *service,
			     u64 flags, const struct fi_info *hints,
			     struct fi_info **info)
{
	return fi_getinfo_by(version, node, service, flags, hints, info,
			     KBUILD_MODNAME);
}

/**
 * fi_freeinfo() - free a list of infos and everything that it owns
 * @info: head of the list, or %NULL
 *
 * Context: Process context.
 */
void fi_freeinfo(struct fi_info *info);

/**
 * fi_dupinfo() - copy one info and everything that it owns
 * @info: the original, without those after it in the list; %NULL returns a
 *	zeroed info with zeroed attributes
 *
 * Context: Process context, may sleep.
 * Return: The copy, which the caller frees with fi_freeinfo(); %NULL without
 * memory.
 */
struct fi_info *fi_dupinfo(const struct fi_info *info);

/**
 * fi_allocinfo() - allocate an empty info, to be filled in as hints
 *
 * Context: Process context, may sleep.
 * Return: As for fi_dupinfo().
 */
static inline struct fi_info *fi_allocinfo(void)
{
	return fi_dupinfo(NULL);
}

struct fi_ops_fabric {
	size_t	size;
	int	(*domain)(struct fid_fabric *fabric, struct fi_info *info,
			  struct fid_domain **dom, void *context);
	int	(*passive_ep)(struct fid_fabric *fabric, struct fi_info *info,
			      struct fid_pep **pep, void *context);
	int	(*eq_open)(struct fid_fabric *fabric, struct fi_eq_attr *attr,
			   struct fid_eq **eq, void *context);
	int	(*wait_open)(struct fid_fabric *fabric,
			     struct fi_wait_attr *attr,
			     struct fid_wait **waitset);
	int	(*trywait)(struct fid_fabric *fabric, struct fid **fids,
			   int count);
	int	(*domain2)(struct fid_fabric *fabric, struct fi_info *info,
			   struct fid_domain **dom, u64 flags, void *context);
};

/**
 * struct fid_fabric - an open fabric: parent of domains and event queues
 * @fid: common part
 * @ops: operations of the provider
 * @api_version: API version that the consumer requested
 */
struct fid_fabric {
	struct fid		fid;
	struct fi_ops_fabric	*ops;
	u32			api_version;
};

/**
 * fi_fabric_by() - fi_fabric() for a named module
 * @attr: attributes that fi_getinfo() returned; @attr->net is the namespace
 * @fabric: the open fabric
 * @context: stored in the fid
 * @owner: name of the module that opens the fabric
 *
 * Context: Process context, may sleep.
 * Return: See fi_fabric(); for a provider of another module its return value.
 */
int fi_fabric_by(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
		 void *context, const char *owner);

/**
 * fi_fabric() - open a fabric
 * @attr: attributes that fi_getinfo() returned; @attr->net is the namespace
 * @fabric: the open fabric
 * @context: stored in the fid
 *
 * The fabric holds its own reference on the namespace; the call keeps nothing
 * else of @attr. The registry of open objects shows the calling module as the
 * owner of the fabric and of all objects that are opened from it.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the fabric is open
 * * -FI_ENODATA - no provider has that prov_name, or no fabric of the provider
 *   has that name
 * * -FI_EINVAL - @attr or @fabric is %NULL
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_fabric(struct fi_fabric_attr *attr,
			    struct fid_fabric **fabric, void *context)
{
	return fi_fabric_by(attr, fabric, context, KBUILD_MODNAME);
}

/**
 * struct fid_nic - description of the device of an info
 * @fid: common part
 * @device_attr: identification
 * @bus_attr: bus address
 * @link_attr: state of the link
 * @prov_attr: additions of the provider, for kOFI's own &struct fi_kofi_nic_attr
 *
 * Read only, with all that it points to. It belongs to the info: fi_freeinfo()
 * closes it, and fi_dupinfo() copies it with FI_DUP, whose argument is the address
 * of a struct fid_nic pointer. Another module's provider has to implement both
 * calls; its infos are freed before the module is unloaded.
 */
struct fid_nic {
	struct fid		fid;
	struct fi_device_attr	*device_attr;
	struct fi_bus_attr	*bus_attr;
	struct fi_link_attr	*link_attr;
	void			*prov_attr;
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fid) == 24);
static_assert(offsetof(struct fid, context) == 8);
static_assert(offsetof(struct fid, ops) == 16);
static_assert(sizeof(struct fid_fabric) == 40);
static_assert(offsetof(struct fid_fabric, ops) == 24);
static_assert(sizeof(struct fid_nic) == 56);
static_assert(sizeof(struct fi_ops) == 56);
static_assert(sizeof(struct fi_ops_fabric) == 56);
#endif

/**
 * fi_close() - close any fabric object
 * @fid: the object
 *
 * When the call returns 0 the object no longer exists: none of its callbacks
 * runs or will run, and no buffer that was posted to it is accessed any more.
 *
 * No thread may use the object during the call, or after it has returned 0. If
 * the call fails the object does not change.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the object no longer exists
 * * -FI_EBUSY - other objects use it, a thread waits in it, or the caller is
 *   its own handler
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_close(struct fid *fid)
{
	return fid->ops->close(fid);
}

/* Argument of FI_ALIAS. No kernel-doc: Sphinx would confuse it with the call below. */
struct fi_alias {
	struct fid		**fid;	/* where the alias is returned */
	u64			flags;	/* operation flags of the alias */
};

/**
 * struct fi_fid_var - argument of FI_GET_VAL and FI_SET_VAL
 * @name: the variable; those of a provider have FI_PROV_SPECIFIC set
 * @val: its value
 */
struct fi_fid_var {
	int			name;
	void			*val;
};

/**
 * struct fi_mr_raw_attr - argument of FI_GET_RAW_MR
 * @flags: reserved, 0
 * @base_addr: returned base address
 * @raw_key: returned key
 * @key_size: space in @raw_key, then the bytes needed
 */
struct fi_mr_raw_attr {
	u64			flags;
	u64			*base_addr;
	u8			*raw_key;
	size_t			*key_size;
};

/**
 * struct fi_mr_map_raw - argument of FI_MAP_RAW_MR
 * @flags: reserved, 0
 * @base_addr: the peer's base address
 * @raw_key: the peer's raw key
 * @key_size: bytes in @raw_key
 * @key: returned key for use in transfers
 */
struct fi_mr_map_raw {
	u64			flags;
	u64			base_addr;
	u8			*raw_key;
	size_t			key_size;
	u64			*key;
};

/* Commands of fi_control(); the comment names the type that arg points to. */
enum {
	FI_GETFIDFLAG,		/* u64 */
	FI_SETFIDFLAG,		/* u64 */
	FI_GETOPSFLAG,		/* u64: FI_TRANSMIT or FI_RECV in, flags out */
	FI_SETOPSFLAG,		/* u64: flags with FI_TRANSMIT or FI_RECV */
	FI_ALIAS,		/* struct fi_alias */
	FI_GETWAIT,		/* the wait object: see enum fi_wait_obj */
	FI_ENABLE,		/* NULL */
	FI_BACKLOG,		/* int: connection requests that may queue */
	FI_GET_RAW_MR,		/* struct fi_mr_raw_attr */
	FI_MAP_RAW_MR,		/* struct fi_mr_map_raw */
	FI_UNMAP_KEY,		/* u64 */
	FI_QUEUE_WORK,		/* struct fi_deferred_work */
	FI_CANCEL_WORK,		/* struct fi_deferred_work */
	FI_FLUSH_WORK,		/* NULL */
	FI_REFRESH,		/* struct fi_mr_modify */
	FI_DUP,			/* of a fid_nic: where the copy is returned, struct fid_nic ** */
	FI_GETWAITOBJ,		/* enum fi_wait_obj */
	FI_GET_VAL,		/* struct fi_fid_var */
	FI_SET_VAL,		/* struct fi_fid_var */
	FI_EXPORT_FID,		/* struct fi_fid_export */
};

/**
 * fi_control() - read or change a property of an object
 * @fid: the object
 * @command: the property
 * @arg: argument of the command
 *
 * Context: Any context for FI_GETOPSFLAG, FI_SETOPSFLAG, FI_GETWAIT and
 * FI_GETWAITOBJ, else process context, may sleep.
 * Return:
 * * 0 - done
 * * -FI_ENOSYS - the object does not have this command
 * * -FI_EINVAL - @arg is %NULL, or invalid for the command
 * * -FI_EOPBADSTATE - in atomic context, if the command may sleep
 * * another errno - see the page of the object
 */
static inline int fi_control(struct fid *fid, int command, void *arg)
{
	return fid->ops->control(fid, command, arg);
}

/**
 * fi_alias() - open a second fid of an endpoint, with its own default flags
 * @fid: the endpoint
 * @alias_fid: the alias, which is closed separately and before the endpoint
 * @flags: operation flags of the alias, with FI_TRANSMIT or FI_RECV
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the alias is open
 * * -FI_EINVAL - neither or both of FI_TRANSMIT and FI_RECV; @alias_fid is
 *   %NULL
 * * -FI_EBADFLAGS - flags other than those that FI_SETOPSFLAG accepts
 * * -FI_ENOSYS - @fid is not an endpoint
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_alias(struct fid *fid, struct fid **alias_fid, u64 flags)
{
	struct fi_alias alias = { .fid = alias_fid, .flags = flags };

	return fi_control(fid, FI_ALIAS, &alias);
}

/**
 * fi_get_val() - read a variable of an object
 * @fid: the object
 * @name: the variable
 * @val: buffer for its value
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: no object has a variable that can be read.
 */
static inline int fi_get_val(struct fid *fid, int name, void *val)
{
	struct fi_fid_var var = { .name = name, .val = val };

	return fi_control(fid, FI_GET_VAL, &var);
}

/**
 * fi_set_val() - change a variable of an object
 * @fid: the object
 * @name: the variable
 * @val: its new value
 *
 * Completion queues have FI_KOFI_CQ_MODERATION and FI_KOFI_CQ_ADAPTIVE, see
 * &struct fi_kofi_cq_moderation. No other object has variables.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the variable has its new value
 * * -FI_ENOSYS - the object has no variable of that name
 * * -FI_EINVAL - @val is %NULL, or the value is invalid
 * * -FI_EOPNOTSUPP - the device or the provider has no moderation
 * * -FI_ENOMEM - no memory
 * * -FI_EOPBADSTATE - in atomic context
 * * another errno - the device's error
 */
static inline int fi_set_val(struct fid *fid, int name, void *val)
{
	struct fi_fid_var var = { .name = name, .val = val };

	return fi_control(fid, FI_SET_VAL, &var);
}

/**
 * fi_open_ops() - get provider-specific operations of an object
 * @fid: the object
 * @name: name of the operations
 * @flags: reserved, 0
 * @ops: the table, valid as long as the object is open
 * @context: context of the caller, ignored
 *
 * Domains of a device have FI_KOFI_DEVICE_OPS, see &struct fi_kofi_ops_device.
 *
 * Context: Any context.
 * Return:
 * * 0 - the table has been returned
 * * -FI_ENOSYS - the object has no operations of that name
 * * -FI_EBADFLAGS - any flag
 * * -FI_EINVAL - @name or @ops is %NULL
 */
static inline int fi_open_ops(struct fid *fid, const char *name, u64 flags,
			      void **ops, void *context)
{
	return fid->ops->ops_open(fid, name, flags, ops, context);
}

/**
 * fi_set_ops() - replace operations of an object
 * @fid: the object
 * @name: name of the operations
 * @flags: reserved, 0
 * @ops: the new table, which must stay valid as long as the object is open
 * @context: context of the caller
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: no provider has operations that can be replaced.
 */
static inline int fi_set_ops(struct fid *fid, const char *name, u64 flags,
			     void *ops, void *context)
{
	return FI_CHECK_OP(fid->ops, struct fi_ops, ops_set) ?
		fid->ops->ops_set(fid, name, flags, ops, context) : -FI_ENOSYS;
}

/*
 * Types of the data of fi_tostr(). Types from FI_TYPE_CQ_ERR_ENTRY on are kernel
 * additions.
 */
enum fi_type {
	FI_TYPE_INFO,		/* struct fi_info */
	FI_TYPE_EP_TYPE,	/* enum fi_ep_type */
	FI_TYPE_CAPS,		/* u64 */
	FI_TYPE_OP_FLAGS,	/* u64 */
	FI_TYPE_ADDR_FORMAT,	/* u32 */
	FI_TYPE_TX_ATTR,	/* struct fi_tx_attr */
	FI_TYPE_RX_ATTR,	/* struct fi_rx_attr */
	FI_TYPE_EP_ATTR,	/* struct fi_ep_attr */
	FI_TYPE_DOMAIN_ATTR,	/* struct fi_domain_attr */
	FI_TYPE_FABRIC_ATTR,	/* struct fi_fabric_attr */
	FI_TYPE_THREADING,	/* enum fi_threading */
	FI_TYPE_PROGRESS,	/* enum fi_progress */
	FI_TYPE_PROTOCOL,	/* u32 */
	FI_TYPE_MSG_ORDER,	/* u64 */
	FI_TYPE_MODE,		/* u64 */
	FI_TYPE_AV_TYPE,	/* enum fi_av_type */
	FI_TYPE_ATOMIC_TYPE,	/* enum fi_datatype */
	FI_TYPE_ATOMIC_OP,	/* enum fi_op */
	FI_TYPE_VERSION,	/* unused: the module's version */
	FI_TYPE_EQ_EVENT,	/* u32 */
	FI_TYPE_CQ_EVENT_FLAGS,	/* u64 */
	FI_TYPE_MR_MODE,	/* int */
	FI_TYPE_OP_TYPE,	/* enum fi_op_type */
	FI_TYPE_FID,		/* struct fid */
	FI_TYPE_COLLECTIVE_OP,	/* enum fi_collective_op */
	FI_TYPE_HMEM_IFACE,	/* enum fi_hmem_iface */
	FI_TYPE_CQ_FORMAT,	/* enum fi_cq_format */
	FI_TYPE_LOG_LEVEL,	/* enum fi_log_level */
	FI_TYPE_LOG_SUBSYS,	/* enum fi_log_subsys */

	FI_TYPE_CQ_ERR_ENTRY = 0x10000,	/* struct fi_cq_err_entry */
	FI_TYPE_EQ_ERR_ENTRY,	/* struct fi_eq_err_entry */
	FI_TYPE_CQ_ATTR,	/* struct fi_cq_attr */
	FI_TYPE_EQ_ATTR,	/* struct fi_eq_attr */
	FI_TYPE_CNTR_ATTR,	/* struct fi_cntr_attr */
	FI_TYPE_AV_ATTR,	/* struct fi_av_attr */
};

/**
 * fi_tostr() - format a value as text
 * @data: the value
 * @datatype: type of the value
 *
 * The text is in one of a few static buffers that are used in turn: copy it
 * before other threads have formatted as many values, or use fi_tostr_r().
 *
 * Context: Any context.
 * Return: The text, or %NULL if @data is %NULL, @datatype is unknown, or all
 * buffers are being written at this moment.
 */
char *fi_tostr(const void *data, enum fi_type datatype);

/**
 * fi_tostr_r() - format a value as text in the caller's buffer
 * @buf: buffer for the text, which is truncated if it does not fit, and always
 *	terminated
 * @len: bytes in @buf
 * @data: the value
 * @datatype: type of the value
 *
 * Context: Any context.
 * Return: @buf, or %NULL if @buf or @data is %NULL, @len is 0, or @datatype is
 * unknown.
 */
char *fi_tostr_r(char *buf, size_t len, const void *data,
		 enum fi_type datatype);

/**
 * struct fi_context - memory for the provider in the context of an operation
 * @internal: belongs to the provider from the post to the completion
 *
 * In FI_CONTEXT mode the context of every operation points to such a struct.
 */
struct fi_context {
	void			*internal[4];
};

/**
 * struct fi_context2 - larger form of struct fi_context, in FI_CONTEXT2 mode
 * @internal: belongs to the provider from the post to the completion
 */
struct fi_context2 {
	void			*internal[8];
};

/**
 * struct fi_recv_context - context of a receive on a shared receive context
 * @ep: endpoint at which the message arrived
 * @context: context of the operation
 */
struct fi_recv_context {
	struct fid_ep		*ep;
	void			*context;
};

#endif /* FABRIC_H */
