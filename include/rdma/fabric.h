/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fabric interfaces of the kernel: flags, attributes, discovery, fids.
 *
 * Names, values and layouts are those of libfabric 1.17, except that vectors
 * are struct kvec. What the kernel adds stands at the end of its struct or
 * uses a flag bit that libfabric leaves free, and says so.
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
 * Each call says in which contexts it is legal. Those that open, bind, connect,
 * wait or close are for process context and may sleep; in atomic context most
 * of them answer -FI_EOPBADSTATE, and warn once in the log. "Any context" is
 * hard interrupts too, with or without spinlocks held, but not NMI: such calls
 * sleep nowhere, take no mutex and allocate nothing.
 *
 * Any number of threads may call at once, on the same object too. But nobody
 * may use an object while, or after, fi_close() succeeds on it; and a consumer
 * that opens a domain with FI_THREAD_COMPLETION or FI_THREAD_DOMAIN keeps what
 * is a "data call" from overlapping others: see &enum fi_threading.
 *
 * A call that a provider does not have answers -FI_ENOSYS. The object that a
 * call is made on is valid and open. What is passed besides, and not said to
 * be kept, is the caller's again when the call returns. A call that opens
 * something writes its out-pointer when it succeeds, and at no other time.
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
 * fi_version() - version of the API that the module implements
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

/* Set in 32-bit values (protocols, option names) that a provider defines. */
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

/* When an operation is reported, and when its buffer is the caller's again */
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

/* Tagged and buffered receives: what to do with the message that was peeked */
#define FI_CLAIM		(1ULL << 59)
#define FI_DISCARD		(1ULL << 58)

/*
 * The kernel's own flags, on bits that no libfabric release gives a meaning.
 *
 * FI_CB_CTX_INTR	fi_cq_attr.flags: call cq_event_handler in hard interrupt
 *			context rather than where it may sleep
 * FI_REMOTE_SIGNAL	of an operation: wakes the target's reader. As a capability:
 *			only such operations and failures wake the readers of
 *			the endpoint's receives
 * FI_BVEC		fi_sendmsg(), fi_recvmsg(), fi_writemsg(), fi_readmsg():
 *			the vector is an array of struct bio_vec
 * FI_SGL		same calls: the vector is a struct scatterlist
 */
#define FI_CB_CTX_INTR		(1ULL << 7)
#define FI_REMOTE_SIGNAL	(1ULL << 14)
#define FI_BVEC			(1ULL << 15)
#define FI_SGL			(1ULL << 23)

/* Older name of the same promise: complete when the peer has the data. */
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

/* Address formats; the comment names what an address points at. */
enum {
	FI_FORMAT_UNSPEC,
	FI_SOCKADDR,		/* struct sockaddr: its family says which */
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

/* Values up to FI_MR_SCALABLE are names of API 1.4; the bits came after. */
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
 * enum fi_threading - who sees to it that data calls do not meet
 * @FI_THREAD_UNSPEC: as FI_THREAD_SAFE
 * @FI_THREAD_SAFE: the provider: any thread calls at any time
 * @FI_THREAD_FID: served as FI_THREAD_SAFE
 * @FI_THREAD_DOMAIN: the user: no two data calls overlap within the domain
 * @FI_THREAD_COMPLETION: the user: no two data calls overlap that concern the
 *	same endpoint or completion queue, or endpoints with the same queue
 * @FI_THREAD_ENDPOINT: served as FI_THREAD_SAFE
 *
 * Data calls are those that post, read completions, ask for room, or ask
 * fi_trywait() or a set whether a completion queue has something. One that
 * interrupts another overlaps it. Where the user sees to it, they take no locks.
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

/* Order bits: "RAW" reads "a Read After a Write stays after it". S is a send. */
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

/* Completion order only: data is written in order too */
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
 * fi_tc_dscp_set() - traffic class of a DSCP value
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
 * fi_tc_dscp_get() - DSCP value of a traffic class
 * @tclass: value of a tclass attribute
 *
 * Context: Any context.
 * Return: The code point, or 0 where @tclass is a label.
 */
static inline u8 fi_tc_dscp_get(u32 tclass)
{
	return tclass & FI_TC_DSCP ? (u8)tclass : 0;
}

/* Mode bits: what a provider requires of its user. FI_PEER_TRANSFER is one. */
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
 * @op_flags: flags that apply to every transmit that passes none of its own.
 *	FI_INJECT: the caller may reuse the buffer of a send or write of at most
 *	inject_size bytes when the call returns; completion entries do not
 *	change, and reads ignore the flag
 * @msg_order: FI_ORDER_* bits that hold between messages
 * @comp_order: FI_ORDER_* bits that hold between completions
 * @inject_size: most bytes of fi_inject(), and of an operation with FI_INJECT
 * @size: operations that can be posted at once
 * @iov_limit: most vector entries of an operation
 * @rma_iov_limit: most remote ranges of an RMA operation
 * @tclass: traffic class
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
 * @op_flags: flags that apply to every receive that passes none of its own
 * @msg_order: FI_ORDER_* bits that hold between messages
 * @comp_order: FI_ORDER_* bits that hold between completions
 * @total_buffered_recv: bytes of unexpected messages held; obsolete
 * @size: receives that can be posted at once
 * @iov_limit: most vector entries of a receive
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
 * @max_msg_size: longest message, in bytes
 * @msg_prefix_size: bytes that FI_MSG_PREFIX reserves before a message
 * @max_order_raw_size: longest transfer for which read-after-write holds
 * @max_order_war_size: longest transfer for which write-after-read holds
 * @max_order_waw_size: longest transfer for which write-after-write holds
 * @mem_tag_format: which tag bits belong together
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
 * @threading: which calls the user serializes; see enum fi_threading
 * @control_progress: who drives connections and events
 * @data_progress: who drives transfers
 * @resource_mgmt: whether queues are guarded against overrun
 * @av_type: address vectors that the domain offers
 * @mr_mode: FI_MR_* bits that registrations obey
 * @mr_key_size: bytes of a memory key
 * @cq_data_size: bytes of remote CQ data, 0 where there is none
 * @cq_cnt: completion queues that can be open
 * @ep_cnt: endpoints that can be open
 * @tx_ctx_cnt: transmit contexts in all
 * @rx_ctx_cnt: receive contexts in all
 * @max_ep_tx_ctx: transmit contexts of one endpoint
 * @max_ep_rx_ctx: receive contexts of one endpoint
 * @max_ep_stx_ctx: transmit contexts that one endpoint can share with others
 * @max_ep_srx_ctx: receive contexts that it can, 1 or 0
 * @cntr_cnt: counters that can be open
 * @mr_iov_limit: most vector entries of a registration
 * @caps: capabilities of the domain
 * @mode: mode bits of the domain
 * @auth_key: authorization key
 * @auth_key_size: bytes in @auth_key
 * @max_err_data: most bytes of err_data that an error entry carries
 * @mr_cnt: registrations that can be open
 * @tclass: traffic class
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
 * @api_version: version that the user asked for
 * @net: network namespace whose devices, addresses and ports are meant, or
 *	%NULL for init_net; infos name init_net by %NULL too. The kernel's
 *	addition: user space has that of the process. Borrowed: whoever fills it
 *	in keeps the namespace alive until fi_fabric() has returned; the fabric
 *	holds a reference of its own.
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
 * struct fi_info - one way to communicate, as a hint or as an offer
 * @next: next offer in the list, best first
 * @caps: capabilities
 * @mode: mode bits; in hints, those that the user can live with
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
 * @nic: the device behind it, or %NULL
 *
 * An info owns everything it points at except the fids and
 * &fi_fabric_attr.net. In hints, a zero field or a %NULL attribute accepts
 * anything, save @mode.
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
static_assert(sizeof(struct fi_domain_attr) == 192);
static_assert(sizeof(struct fi_fabric_attr) == 40);
static_assert(offsetof(struct fi_fabric_attr, net) == 32);
static_assert(sizeof(struct fi_info) == 120);
#endif

/**
 * struct fi_device_attr - what a NIC is
 * @name: device name
 * @device_id: device identifier
 * @device_version: revision
 * @vendor_id: vendor identifier
 * @driver: driver name
 * @firmware: firmware version
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
 * struct fi_pci_attr - where a NIC sits on the PCI bus
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
 * struct fi_bus_attr - where a NIC sits
 * @bus_type: which member of @attr is valid
 * @attr: the place
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
 * @address: link address in text
 * @mtu: maximum transmission unit, in bytes
 * @speed: bits per second
 * @state: up or down
 * @network_type: "Ethernet", "InfiniBand", ...
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

/* Binding of a completion queue: report only what carries FI_COMPLETION */
#define FI_SELECTIVE_COMPLETION	(1ULL << 59)

/*
 * Operations tables: a provider fills them, the inlines call through them,
 * and their arguments mean what they mean there. size is the size of the
 * table that the provider was built with, so that a newer header can tell
 * which entries an older provider has.
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

/* True where the table is new enough to have the entry, and it is filled in */
#define FI_CHECK_OP(ops, opstype, op) \
	((ops) && ((ops)->size > offsetof(opstype, op)) && (ops)->op)

/**
 * struct fid - what every fabric object begins with
 * @fclass: class of the object, FI_CLASS_*
 * @context: what the user passed to the call that opened it
 * @ops: operations common to all classes
 */
struct fid {
	size_t			fclass;
	void			*context;
	struct fi_ops		*ops;
};

/**
 * fi_getinfo_by() - list what a named module can open
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
 * fi_getinfo() - list what can be opened
 * @version: API version that the caller was written for, as FI_VERSION()
 * @node: numeric network address, or one in the form of FI_ADDR_STR, or %NULL
 * @service: numeric port, or %NULL
 * @flags: FI_SOURCE where @node and @service are local, FI_NUMERICHOST,
 *	FI_PROV_ATTR_ONLY
 * @hints: what is asked for, or %NULL for everything; the caller's
 * @info: the list; free it with fi_freeinfo()
 *
 * The network namespace searched is that of @hints->fabric_attr->net.
 *
 * An open fabric or domain in the hints restricts the list to infos that can be
 * opened from it: those of its provider, its fabric or device, and its network
 * namespace, and for a domain also of its address format, address vector type
 * and mr_mode. Each info names both objects. Without such hints, an info names
 * the first fabric of the calling module that it can be opened from, and the
 * first such domain of that fabric, or %NULL. The caller owns these objects: an
 * info holds no reference on them.
 *
 * Of what is passed nothing is kept. With every error @info is set to %NULL,
 * unless that is what it is.
 *
 * Context: Process context, may sleep; two seconds where a peer is looked for
 * that does not answer.
 * Return:
 * * 0 - the list has at least one entry
 * * -FI_ENODATA - nothing fits, there is no way to the peer, or @node or
 *   @service is no number; the fabric or domain in the hints is not open, or
 *   they are not open together
 * * -FI_ENOSYS - @version is newer than the module
 * * -FI_EBADFLAGS - a bit in @flags, or in capabilities of the hints, that
 *   means nothing
 * * -FI_EINVAL - FI_SOURCE without @node and @service; an address in the hints
 *   that is not of IP; @info is %NULL
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
 * fi_freeinfo() - free a list of infos with all that it owns
 * @info: head of the list, or %NULL
 *
 * Context: Process context.
 */
void fi_freeinfo(struct fi_info *info);

/**
 * fi_dupinfo() - copy one info with all that it owns
 * @info: the original, whose @next is not followed; %NULL gives a zeroed info
 *	with zeroed attributes
 *
 * Context: Process context, may sleep.
 * Return: The copy, which is the caller's and freed with fi_freeinfo(); %NULL
 * without memory.
 */
struct fi_info *fi_dupinfo(const struct fi_info *info);

/**
 * fi_allocinfo() - make an empty info to be filled in as hints
 *
 * Context: Process context, may sleep.
 * Return: As fi_dupinfo().
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
 * @api_version: version that the user asked for
 */
struct fid_fabric {
	struct fid		fid;
	struct fi_ops_fabric	*ops;
	u32			api_version;
};

/**
 * fi_fabric_by() - what fi_fabric() calls
 * @attr: attributes that fi_getinfo() gave; @attr->net chooses the namespace
 * @fabric: the open fabric
 * @context: the caller's, kept in its fid
 * @owner: the name of the module that opens it
 *
 * Context: Process context, may sleep.
 * Return: See fi_fabric(); of a provider of another module what that says.
 */
int fi_fabric_by(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
		 void *context, const char *owner);

/**
 * fi_fabric() - open a fabric
 * @attr: attributes that fi_getinfo() gave; @attr->net chooses the namespace
 * @fabric: the open fabric
 * @context: the caller's, kept in its fid
 *
 * The fabric holds a reference of its own to the namespace; nothing else of
 * @attr is kept. The calling module is the owner of what is opened from it, for
 * those who look at what is open.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the fabric is open
 * * -FI_ENODATA - no provider has that prov_name, or none of its fabrics that
 *   name
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
 * struct fid_nic - description of the device behind an info
 * @fid: common part
 * @device_attr: what it is
 * @bus_attr: where it sits
 * @link_attr: state of its link
 * @prov_attr: a provider's own additions
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
static_assert(sizeof(struct fid_fabric) == 40);
static_assert(sizeof(struct fid_nic) == 56);
static_assert(sizeof(struct fi_ops) == 56);
static_assert(sizeof(struct fi_ops_fabric) == 56);
#endif

/**
 * fi_close() - close any fabric object
 * @fid: the object
 *
 * When it returns 0 the object is gone: none of its callbacks runs or will
 * run, and no buffer posted to it is touched any more.
 *
 * Nobody may use the object while this runs, nor after it has returned 0. With
 * an error the object is as it was.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the object is gone
 * * -FI_EBUSY - other objects use it, a call waits in it, or this is its own
 *   handler
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_close(struct fid *fid)
{
	return fid->ops->close(fid);
}

/* Argument of FI_ALIAS. To Sphinx it has the name of the call below. */
struct fi_alias {
	struct fid		**fid;	/* where the alias is returned */
	u64			flags;	/* operation flags of the alias */
};

/**
 * struct fi_fid_var - argument of FI_GET_VAL and FI_SET_VAL
 * @name: which variable; a provider's own have FI_PROV_SPECIFIC set
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
 * @key_size: room in @raw_key, then the bytes needed
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

/* Commands of fi_control(); the comment names what arg points at. */
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
	FI_DUP,			/* struct fid * */
	FI_GETWAITOBJ,		/* enum fi_wait_obj */
	FI_GET_VAL,		/* struct fi_fid_var */
	FI_SET_VAL,		/* struct fi_fid_var */
	FI_EXPORT_FID,		/* struct fi_fid_export */
};

/**
 * fi_control() - read or change a property of an object
 * @fid: the object
 * @command: which property
 * @arg: as the command says
 *
 * Context: Any context for FI_GETOPSFLAG, FI_SETOPSFLAG, FI_GETWAIT and
 * FI_GETWAITOBJ, else process context, may sleep.
 * Return:
 * * 0 - done
 * * -FI_ENOSYS - the object does not have this command
 * * -FI_EINVAL - @arg is %NULL, or nothing that the command takes
 * * -FI_EOPBADSTATE - in atomic context, where it may sleep
 * * another - what the command answers; the page of the object says more
 */
static inline int fi_control(struct fid *fid, int command, void *arg)
{
	return fid->ops->control(fid, command, arg);
}

/**
 * fi_alias() - a second fid for the same object, with flags of its own
 * @fid: the object
 * @alias_fid: the alias, closed on its own and before the object
 * @flags: operation flags of the alias, with FI_TRANSMIT or FI_RECV
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the alias is open
 * * -FI_EINVAL - neither or both of FI_TRANSMIT and FI_RECV; @alias_fid is
 *   %NULL
 * * -FI_EBADFLAGS - other flags than fi_control() sets with FI_SETOPSFLAG
 * * -FI_ENOSYS - it is no endpoint
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
 * @name: which variable
 * @val: where its value goes
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: no object has variables today.
 */
static inline int fi_get_val(struct fid *fid, int name, void *val)
{
	struct fi_fid_var var = { .name = name, .val = val };

	return fi_control(fid, FI_GET_VAL, &var);
}

/**
 * fi_set_val() - change a variable of an object
 * @fid: the object
 * @name: which variable
 * @val: its new value
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: no object has variables today.
 */
static inline int fi_set_val(struct fid *fid, int name, void *val)
{
	struct fi_fid_var var = { .name = name, .val = val };

	return fi_control(fid, FI_SET_VAL, &var);
}

/**
 * fi_open_ops() - get a provider's own operations for an object
 * @fid: the object
 * @name: which operations
 * @flags: reserved, 0
 * @ops: the table, valid as long as the object
 * @context: the caller's
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: no provider has operations of its own today.
 */
static inline int fi_open_ops(struct fid *fid, const char *name, u64 flags,
			      void **ops, void *context)
{
	return fid->ops->ops_open(fid, name, flags, ops, context);
}

/**
 * fi_set_ops() - replace operations of an object
 * @fid: the object
 * @name: which operations
 * @flags: reserved, 0
 * @ops: the new table, the caller's as long as the object is open
 * @context: the caller's
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: no provider lets its operations be replaced today.
 */
static inline int fi_set_ops(struct fid *fid, const char *name, u64 flags,
			     void *ops, void *context)
{
	return FI_CHECK_OP(fid->ops, struct fi_ops, ops_set) ?
		fid->ops->ops_set(fid, name, flags, ops, context) : -FI_ENOSYS;
}

/*
 * What the data of fi_tostr() points at. Those from FI_TYPE_CQ_ERR_ENTRY on are
 * the kernel's own.
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
 * fi_tostr() - describe a value in text
 * @data: the value, of the type that @datatype names
 * @datatype: what @data points at
 *
 * The text stands in one of a few static buffers that are used in turn: copy
 * it before other threads have described as many values, or use fi_tostr_r().
 *
 * Context: Any context.
 * Return: The text, or %NULL where @data is %NULL, @datatype is unknown, or all
 * of the buffers are being written at this moment.
 */
char *fi_tostr(const void *data, enum fi_type datatype);

/**
 * fi_tostr_r() - describe a value in text, in the caller's buffer
 * @buf: where the text goes, cut off where it does not fit and always ended
 *	by a NUL
 * @len: bytes in @buf
 * @data: the value, of the type that @datatype names
 * @datatype: what @data points at
 *
 * Context: Any context.
 * Return: @buf, or %NULL where @buf or @data is %NULL, @len is 0, or
 * @datatype is unknown.
 */
char *fi_tostr_r(char *buf, size_t len, const void *data,
		 enum fi_type datatype);

/**
 * struct fi_context - room for a provider in the context of an operation
 * @internal: the provider's, from the post to the completion
 *
 * In FI_CONTEXT mode every operation's context points at one of its own.
 */
struct fi_context {
	void			*internal[4];
};

/**
 * struct fi_context2 - the larger form, in FI_CONTEXT2 mode
 * @internal: the provider's, from the post to the completion
 */
struct fi_context2 {
	void			*internal[8];
};

/**
 * struct fi_recv_context - context of a receive on a shared receive context
 * @ep: endpoint that the message came in on
 * @context: the user's
 */
struct fi_recv_context {
	struct fid_ep		*ep;
	void			*context;
};

#endif /* FABRIC_H */
