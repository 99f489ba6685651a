/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Domains and what they own: address vectors, memory regions, and the calls
 * that open queues, counters and sets.
 */

#ifndef FI_DOMAIN_H
#define FI_DOMAIN_H

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

struct bio_vec;
struct scatterlist;

/* Address vectors and insertions into them */
#define FI_SYMMETRIC		(1ULL << 59)
#define FI_SYNC_ERR		(1ULL << 58)

/* Address sets: initial members, and the collectives that a set is for */
#define FI_UNIVERSE		(1ULL << 57)
#define FI_BARRIER_SET		(1ULL << 40)
#define FI_BROADCAST_SET	(1ULL << 41)
#define FI_ALLTOALL_SET		(1ULL << 42)
#define FI_ALLREDUCE_SET	(1ULL << 43)
#define FI_ALLGATHER_SET	(1ULL << 44)
#define FI_REDUCE_SCATTER_SET	(1ULL << 45)
#define FI_REDUCE_SET		(1ULL << 46)
#define FI_SCATTER_SET		(1ULL << 47)
#define FI_GATHER_SET		(1ULL << 48)
/* Opens a set with the members of another; FI_PEER has the value of FI_ALLREDUCE_SET. */
#define FI_PEER_AV		(1ULL << 56)

/**
 * struct fi_av_attr - address vector attributes
 * @type: map or table; FI_AV_UNSPEC is replaced by the chosen type
 * @rx_ctx_bits: high bits of a fi_addr_t that select a receive context, at most
 *	as many as &fi_domain_attr.max_ep_rx_ctx contexts need; with FI_PEER a 0
 *	is replaced by the owner's value
 * @count: expected number of addresses, a hint, up to 33554432
 * @ep_per_node: expected endpoints on one node, a hint, up to 65535
 * @name: name to share the vector under, or %NULL
 * @map_addr: no effect; set by the call if it is %NULL and the vector has a name
 * @flags: FI_EVENT, FI_READ, FI_SYMMETRIC; FI_PEER, alone or with
 *	FI_SYMMETRIC: the context is a struct fi_peer_av_context, which has the
 *	vector whose addresses this one uses
 */
struct fi_av_attr {
	enum fi_av_type		type;
	int			rx_ctx_bits;
	size_t			count;
	size_t			ep_per_node;
	const char		*name;
	void			*map_addr;
	u64			flags;
};

/**
 * struct fi_av_set_attr - address set attributes
 * @count: maximum number of members, 0 for no limit
 * @start_addr: first member, or FI_ADDR_NOTAVAIL for an empty set
 * @end_addr: last member, or FI_ADDR_NOTAVAIL for an empty set
 * @stride: distance between members
 * @comm_key_size: bytes in @comm_key
 * @comm_key: communication key of an offload
 * @flags: FI_UNIVERSE, FI_*_SET; FI_PEER_AV: the context is a struct
 *	fi_peer_av_set_context, which has the set whose members this one has
 */
struct fi_av_set_attr {
	size_t			count;
	fi_addr_t		start_addr;
	fi_addr_t		end_addr;
	u64			stride;
	size_t			comm_key_size;
	u8			*comm_key;
	u64			flags;
};

struct fid_av_set;

struct fi_ops_av {
	size_t	size;
	int	(*insert)(struct fid_av *av, const void *addr, size_t count,
			  fi_addr_t *fi_addr, u64 flags, void *context);
	int	(*insertsvc)(struct fid_av *av, const char *node,
			     const char *service, fi_addr_t *fi_addr,
			     u64 flags, void *context);
	int	(*insertsym)(struct fid_av *av, const char *node,
			     size_t nodecnt, const char *service,
			     size_t svccnt, fi_addr_t *fi_addr, u64 flags,
			     void *context);
	int	(*remove)(struct fid_av *av, fi_addr_t *fi_addr, size_t count,
			  u64 flags);
	int	(*lookup)(struct fid_av *av, fi_addr_t fi_addr, void *addr,
			  size_t *addrlen);
	const char *(*straddr)(struct fid_av *av, const void *addr, char *buf,
			       size_t *len);
	int	(*av_set)(struct fid_av *av, struct fi_av_set_attr *attr,
			  struct fid_av_set **av_set, void *context);
};

/**
 * struct fid_av - an address vector
 * @fid: common part
 * @ops: operations of the provider
 */
struct fid_av {
	struct fid		fid;
	struct fi_ops_av	*ops;
};

/**
 * struct fid_mr - a memory region
 * @fid: common part
 * @mem_desc: descriptor for local use, see fi_mr_desc()
 * @key: key for peers, see fi_mr_key()
 * @iova: address of the first byte for peers; kernel addition
 */
struct fid_mr {
	struct fid		fid;
	void			*mem_desc;
	u64			key;
	u64			iova;
};

/**
 * fi_iov_bvec() - convert an array of bio vectors for msg_iov
 * @bvec: array of bio vectors; the call needs the flag FI_BVEC
 *
 * Kernel addition, like FI_BVEC.
 *
 * Context: Any context.
 * Return: The value for msg_iov; iov_count is the number of entries of @bvec.
 */
static inline const struct kvec *fi_iov_bvec(const struct bio_vec *bvec)
{
	return (const void *)bvec;
}

/**
 * fi_iov_sgl() - convert a scatterlist for msg_iov
 * @sgl: first entry of the list; the call needs the flag FI_SGL
 *
 * Kernel addition, like FI_SGL.
 *
 * Context: Any context.
 * Return: The value for msg_iov; iov_count is the number of entries of @sgl.
 */
static inline const struct kvec *fi_iov_sgl(const struct scatterlist *sgl)
{
	return (const void *)sgl;
}

/* Kind of memory of a buffer; kernel addresses are FI_HMEM_SYSTEM. */
enum fi_hmem_iface {
	FI_HMEM_SYSTEM	= 0,
	FI_HMEM_CUDA,
	FI_HMEM_ROCR,
	FI_HMEM_ZE,
	FI_HMEM_NEURON,
	FI_HMEM_SYNAPSEAI,
};

/**
 * struct fi_mr_attr - memory to register, and its access rights
 * @mr_iov: the ranges
 * @iov_count: entries in the vector
 * @access: rights: FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ,
 *	FI_REMOTE_WRITE; 0 is local use only
 * @offset: reserved, 0
 * @requested_key: ignored: the device chooses the key
 * @context: stored in the fid
 * @auth_key_size: bytes in @auth_key
 * @auth_key: authorization key
 * @iface: kind of memory
 * @device: device of kind @iface that has the memory
 */
struct fi_mr_attr {
	const struct kvec	*mr_iov;
	size_t			iov_count;
	u64			access;
	u64			offset;
	u64			requested_key;
	void			*context;
	size_t			auth_key_size;
	u8			*auth_key;
	enum fi_hmem_iface	iface;
	union {
		u64		reserved;
		int		cuda;
		int		ze;
		int		neuron;
		int		synapseai;
	} device;
};

/**
 * struct fi_mr_modify - argument of FI_REFRESH
 * @flags: reserved, 0
 * @attr: ranges to map again
 */
struct fi_mr_modify {
	u64			flags;
	struct fi_mr_attr	attr;
};

/* First value of datatypes and operations for collectives only */
#define FI_COLLECTIVE_OFFSET	256

enum fi_datatype {
	FI_INT8,
	FI_UINT8,
	FI_INT16,
	FI_UINT16,
	FI_INT32,
	FI_UINT32,
	FI_INT64,
	FI_UINT64,
	FI_FLOAT,
	FI_DOUBLE,
	FI_FLOAT_COMPLEX,
	FI_DOUBLE_COMPLEX,
	FI_LONG_DOUBLE,
	FI_LONG_DOUBLE_COMPLEX,
	FI_DATATYPE_LAST,
	/* Newer than FI_DATATYPE_LAST, which keeps its value */
	FI_INT128 = FI_DATATYPE_LAST,
	FI_UINT128,

	FI_VOID = FI_COLLECTIVE_OFFSET,
};

enum fi_op {
	FI_MIN,
	FI_MAX,
	FI_SUM,
	FI_PROD,
	FI_LOR,
	FI_LAND,
	FI_BOR,
	FI_BAND,
	FI_LXOR,
	FI_BXOR,
	FI_ATOMIC_READ,
	FI_ATOMIC_WRITE,
	FI_CSWAP,
	FI_CSWAP_NE,
	FI_CSWAP_LE,
	FI_CSWAP_LT,
	FI_CSWAP_GE,
	FI_CSWAP_GT,
	FI_MSWAP,
	FI_ATOMIC_OP_LAST,

	FI_NOOP = FI_COLLECTIVE_OFFSET,
};

enum fi_collective_op {
	FI_BARRIER,
	FI_BROADCAST,
	FI_ALLTOALL,
	FI_ALLREDUCE,
	FI_ALLGATHER,
	FI_REDUCE_SCATTER,
	FI_REDUCE,
	FI_SCATTER,
	FI_GATHER,
};

struct fi_atomic_attr;
struct fi_cq_attr;
struct fi_cntr_attr;
struct fi_collective_attr;

struct fi_ops_domain {
	size_t	size;
	int	(*av_open)(struct fid_domain *domain, struct fi_av_attr *attr,
			   struct fid_av **av, void *context);
	int	(*cq_open)(struct fid_domain *domain, struct fi_cq_attr *attr,
			   struct fid_cq **cq, void *context);
	int	(*endpoint)(struct fid_domain *domain, struct fi_info *info,
			    struct fid_ep **ep, void *context);
	int	(*scalable_ep)(struct fid_domain *domain, struct fi_info *info,
			       struct fid_ep **sep, void *context);
	int	(*cntr_open)(struct fid_domain *domain,
			     struct fi_cntr_attr *attr, struct fid_cntr **cntr,
			     void *context);
	int	(*poll_open)(struct fid_domain *domain,
			     struct fi_poll_attr *attr,
			     struct fid_poll **pollset);
	int	(*stx_ctx)(struct fid_domain *domain, struct fi_tx_attr *attr,
			   struct fid_stx **stx, void *context);
	int	(*srx_ctx)(struct fid_domain *domain, struct fi_rx_attr *attr,
			   struct fid_ep **rx_ep, void *context);
	int	(*query_atomic)(struct fid_domain *domain,
				enum fi_datatype datatype, enum fi_op op,
				struct fi_atomic_attr *attr, u64 flags);
	int	(*query_collective)(struct fid_domain *domain,
				    enum fi_collective_op coll,
				    struct fi_collective_attr *attr,
				    u64 flags);
	int	(*endpoint2)(struct fid_domain *domain, struct fi_info *info,
			     struct fid_ep **ep, u64 flags, void *context);
};

struct fi_ops_mr {
	size_t	size;
	int	(*reg)(struct fid *fid, const void *buf, size_t len, u64 access,
		       u64 offset, u64 requested_key, u64 flags,
		       struct fid_mr **mr, void *context);
	int	(*regv)(struct fid *fid, const struct kvec *iov, size_t count,
			u64 access, u64 offset, u64 requested_key, u64 flags,
			struct fid_mr **mr, void *context);
	int	(*regattr)(struct fid *fid, const struct fi_mr_attr *attr,
			   u64 flags, struct fid_mr **mr);
};

/* Binding of an event queue to a domain: reports registrations */
#define FI_REG_MR		(1ULL << 59)

/**
 * struct fid_domain - an open domain: parent of endpoints, queues and regions
 * @fid: common part
 * @ops: operations of the provider
 * @mr: registrations
 */
struct fid_domain {
	struct fid		fid;
	struct fi_ops_domain	*ops;
	struct fi_ops_mr	*mr;
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_av_attr) == 48);
static_assert(sizeof(struct fi_av_set_attr) == 56);
static_assert(sizeof(struct fid_mr) == 48);
static_assert(offsetof(struct fid_mr, mem_desc) == 24);
static_assert(offsetof(struct fid_mr, key) == 32);
static_assert(sizeof(struct fi_mr_attr) == 80);
static_assert(sizeof(struct fi_mr_modify) == 88);
static_assert(sizeof(struct fi_ops_av) == 64);
static_assert(sizeof(struct fi_ops_domain) == 96);
static_assert(sizeof(struct fi_ops_mr) == 32);
static_assert(sizeof(struct fid_domain) == 40);
static_assert(offsetof(struct fid_domain, ops) == 24);
static_assert(offsetof(struct fid_domain, mr) == 32);
#endif

/**
 * fi_domain() - open a domain
 * @fabric: its parent
 * @info: an info that fi_getinfo() returned
 * @domain: the open domain
 * @context: stored in the fid
 *
 * The call keeps nothing of @info. A threading model of @info commits the caller
 * to serialize its data calls: see &enum fi_threading.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the domain is open
 * * -FI_ENODEV - there is no device of that name, it is being removed, or it
 *   cannot connect in the fabric's namespace
 * * -FI_ENODATA - datagram providers: the provider below has no such device
 * * -FI_EINVAL - the info names no device, or one of another kind than the
 *   fabric's; an unknown threading or av_type; @info or @domain is %NULL
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_domain(struct fid_fabric *fabric, struct fi_info *info,
			    struct fid_domain **domain, void *context)
{
	return fabric->ops->domain(fabric, info, domain, context);
}

/**
 * fi_domain2() - open a domain, with flags
 * @fabric: its parent
 * @info: an info that fi_getinfo() returned
 * @domain: the open domain
 * @flags: 0, or FI_PEER: @context is a struct fi_peer_domain_context
 * @context: stored in the fid
 *
 * Context: Process context, may sleep.
 * Return: As for fi_domain(); -FI_EINVAL for other flags, and with FI_PEER for a
 * context that is %NULL, too small, or has no domain.
 */
static inline int fi_domain2(struct fid_fabric *fabric, struct fi_info *info,
			     struct fid_domain **domain, u64 flags,
			     void *context)
{
	if (!flags)
		return fi_domain(fabric, info, domain, context);

	return FI_CHECK_OP(fabric->ops, struct fi_ops_fabric, domain2) ?
		fabric->ops->domain2(fabric, info, domain, flags, context) :
		-FI_ENOSYS;
}

/**
 * fi_domain_bind() - bind an event queue to a domain
 * @domain: the domain
 * @fid: the event queue
 * @flags: 0, or FI_REG_MR for an FI_MR_COMPLETE of each registration
 *
 * The queue receives the events of endpoints that have no event queue of their
 * own, and an error event when the device is removed.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the queue is bound, and busy until the domain is closed
 * * -FI_EINVAL - @fid is not an event queue, or a queue of another fabric; a
 *   queue is bound already
 * * -FI_EBADFLAGS - a flag other than FI_REG_MR
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_domain_bind(struct fid_domain *domain, struct fid *fid,
				 u64 flags)
{
	return domain->fid.ops->bind(&domain->fid, fid, flags);
}

/**
 * fi_cq_open() - open a completion queue
 * @domain: its parent
 * @attr: its attributes
 * @cq: the open queue
 * @context: stored in the fid, and passed to the handler
 *
 * The call replaces FI_CQ_FORMAT_UNSPEC in @attr by FI_CQ_FORMAT_CONTEXT, and
 * keeps nothing of @attr. With FI_PEER, @context is a struct fi_peer_cq_context.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the queue is open
 * * -FI_EINVAL - an unknown format, condition or wait object; FI_WAIT_SET
 *   without a set; flags other than FI_AFFINITY, FI_PEER and the context of a
 *   handler; FI_CB_CTX_INTR or FI_CB_CTX_SOFTIRQ without a handler, or both; more
 *   entries than the device supports; a negative vector, or one that the device
 *   does not have; with FI_PEER a domain with FI_THREAD_DOMAIN or
 *   FI_THREAD_COMPLETION, or a context that is %NULL, too small, or has no
 *   queue with calls; @attr or @cq is %NULL
 * * -FI_ENOSYS - a wait object that only processes have, or
 *   FI_CQ_COND_THRESHOLD
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory, or no more queues in the device
 */
static inline int fi_cq_open(struct fid_domain *domain,
			     struct fi_cq_attr *attr, struct fid_cq **cq,
			     void *context)
{
	return domain->ops->cq_open(domain, attr, cq, context);
}

/**
 * fi_cntr_open() - open a counter
 * @domain: its parent
 * @attr: its attributes
 * @cntr: the open counter
 * @context: stored in the fid
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the counter is open, and its values are 0
 * * -FI_EINVAL - events other than FI_CNTR_EVENTS_COMP; flags; an unknown wait
 *   object; FI_WAIT_SET without a set; @attr or @cntr is %NULL
 * * -FI_ENOSYS - a wait object that only processes have
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_cntr_open(struct fid_domain *domain,
			       struct fi_cntr_attr *attr,
			       struct fid_cntr **cntr, void *context)
{
	return domain->ops->cntr_open(domain, attr, cntr, context);
}

/**
 * fi_wait_open() - open a wait set
 * @fabric: its parent
 * @attr: its attributes
 * @waitset: the open set
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the set is open, and has no members
 * * -FI_EINVAL - flags; FI_WAIT_NONE, FI_WAIT_SET, or an unknown wait object;
 *   @attr or @waitset is %NULL
 * * -FI_ENOSYS - a wait object that only processes have
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_wait_open(struct fid_fabric *fabric,
			       struct fi_wait_attr *attr,
			       struct fid_wait **waitset)
{
	return fabric->ops->wait_open(fabric, attr, waitset);
}

/**
 * fi_poll_open() - open a poll set
 * @domain: its parent
 * @attr: its attributes
 * @pollset: the open set
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the set is open, and has no members
 * * -FI_EINVAL - flags; @attr or @pollset is %NULL
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_poll_open(struct fid_domain *domain,
			       struct fi_poll_attr *attr,
			       struct fid_poll **pollset)
{
	return domain->ops->poll_open(domain, attr, pollset);
}

/**
 * fi_mr_reg() - register one range of memory
 * @domain: its parent
 * @buf: kernel address: kmalloc, vmalloc or module memory, not a stack
 * @len: bytes, not 0
 * @acs: access rights, as in &fi_mr_attr.access
 * @offset: reserved, 0
 * @requested_key: ignored: the device chooses the key
 * @flags: reserved, 0
 * @mr: the region
 * @context: stored in the fid
 *
 * The memory must exist until the region is closed. Peers can access exactly
 * these bytes with exactly these rights, and nothing after fi_close() returns.
 *
 * In a domain with FI_MR_ENDPOINT a call with remote access only maps the memory:
 * fi_mr_bind() and fi_mr_enable() follow, and the memory must exist until the
 * invalidation that fi_close() posts has completed. These calls and the close are
 * legal in any context, and must not overlap for one region.
 *
 * Context: Process context, may sleep; with remote access until the device has
 * answered, ten seconds at most. See above for FI_MR_ENDPOINT.
 * Return:
 * * 0 - the region is open
 * * -FI_EINVAL - no bytes, a range that wraps, the caller's stack or no memory,
 *   an @offset that is not 0; with remote access also more ranges or pages than
 *   the device lists, or ranges that meet within a page; @mr is %NULL
 * * -FI_EBADFLAGS - unknown rights, or any flag
 * * -FI_EOPNOTSUPP - remote access where DMA must be synchronised
 * * -FI_EIO - the device refused to register the memory
 * * -FI_ETIMEDOUT - the device did not answer
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_EAGAIN - FI_MR_ENDPOINT: all regions of the domain's endpoints are in use
 * * -FI_ENOMEM - no memory, no space in the IOMMU, or no more regions in the
 *   device
 * * another errno - the registration queue pair of an iWARP device could not be connected
 */
static inline int fi_mr_reg(struct fid_domain *domain, const void *buf,
			    size_t len, u64 acs, u64 offset, u64 requested_key,
			    u64 flags, struct fid_mr **mr, void *context)
{
	return domain->mr->reg(&domain->fid, buf, len, acs, offset,
			       requested_key, flags, mr, context);
}

/**
 * fi_mr_regv() - register several ranges as one region
 * @domain: its parent
 * @iov: the ranges
 * @count: entries in @iov, up to &fi_domain_attr.mr_iov_limit
 * @acs: access rights
 * @offset: reserved, 0
 * @requested_key: ignored: the device chooses the key
 * @flags: reserved, 0
 * @mr: the region
 * @context: stored in the fid
 *
 * The call keeps nothing of @iov; the memory of the ranges must exist until the
 * region is closed.
 *
 * Context: Process context, may sleep.
 * Return: As for fi_mr_reg(); also -FI_EINVAL for no ranges, or more than 1024.
 */
static inline int fi_mr_regv(struct fid_domain *domain, const struct kvec *iov,
			     size_t count, u64 acs, u64 offset,
			     u64 requested_key, u64 flags, struct fid_mr **mr,
			     void *context)
{
	return domain->mr->regv(&domain->fid, iov, count, acs, offset,
				requested_key, flags, mr, context);
}

/**
 * fi_mr_regattr() - register the ranges of a struct fi_mr_attr
 * @domain: its parent
 * @attr: ranges and rights
 * @flags: 0, FI_BVEC or FI_SGL: see fi_iov_bvec(), fi_iov_sgl(). With
 *	FI_MR_ENDPOINT and remote access also FI_SGL with FI_SGL_DMA, for a list that
 *	remains mapped
 * @mr: the region
 *
 * The call keeps nothing of @attr; the memory of the ranges must exist until the
 * region is closed.
 *
 * Context: As for fi_mr_reg().
 * Return: As for fi_mr_regv(); -FI_EOPNOTSUPP for FI_SGL_DMA without FI_MR_ENDPOINT
 * and remote access; -FI_ENOSYS for memory of an accelerator, an
 * &fi_mr_attr.iface other than FI_HMEM_SYSTEM; -FI_EINVAL if @attr is %NULL.
 */
static inline int fi_mr_regattr(struct fid_domain *domain,
				const struct fi_mr_attr *attr, u64 flags,
				struct fid_mr **mr)
{
	return domain->mr->regattr(&domain->fid, attr, flags, mr);
}

/**
 * fi_mr_desc() - return the descriptor of a region, for local transfers
 * @mr: the region
 *
 * Context: Any context.
 * Return: The descriptor; %NULL if each transfer must map its own memory.
 */
static inline void *fi_mr_desc(struct fid_mr *mr)
{
	return mr->mem_desc;
}

/**
 * fi_mr_key() - return the key of a region, for peers
 * @mr: the region
 *
 * Context: Any context.
 * Return: The key; FI_KEY_NOTAVAIL for a region without remote access.
 */
static inline u64 fi_mr_key(struct fid_mr *mr)
{
	return mr->key;
}

/**
 * fi_mr_raw_attr() - return a key of a region that exceeds 64 bits
 * @mr: the region
 * @base_addr: returned base address
 * @raw_key: returned key
 * @key_size: space in @raw_key, then the bytes needed
 * @flags: reserved, 0
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: no key exceeds 64 bits.
 */
static inline int fi_mr_raw_attr(struct fid_mr *mr, u64 *base_addr,
				 u8 *raw_key, size_t *key_size, u64 flags)
{
	struct fi_mr_raw_attr attr = {
		.flags = flags,
		.base_addr = base_addr,
		.raw_key = raw_key,
		.key_size = key_size,
	};

	return mr->fid.ops->control(&mr->fid, FI_GET_RAW_MR, &attr);
}

/**
 * fi_mr_map_raw() - map a raw key of a peer to a key for transfers
 * @domain: the domain
 * @base_addr: the peer's base address
 * @raw_key: the peer's raw key
 * @key_size: bytes in @raw_key
 * @key: returned key
 * @flags: reserved, 0
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: no key exceeds 64 bits.
 */
static inline int fi_mr_map_raw(struct fid_domain *domain, u64 base_addr,
				u8 *raw_key, size_t key_size, u64 *key,
				u64 flags)
{
	struct fi_mr_map_raw map = {
		.flags = flags,
		.base_addr = base_addr,
		.raw_key = raw_key,
		.key_size = key_size,
		.key = key,
	};

	return domain->fid.ops->control(&domain->fid, FI_MAP_RAW_MR, &map);
}

/**
 * fi_mr_unmap_key() - release a key of fi_mr_map_raw()
 * @domain: the domain
 * @key: the key
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: no key exceeds 64 bits.
 */
static inline int fi_mr_unmap_key(struct fid_domain *domain, u64 key)
{
	return domain->fid.ops->control(&domain->fid, FI_UNMAP_KEY, &key);
}

/**
 * fi_mr_bind() - bind a region to the endpoint that registers it
 * @mr: a region for peers, of a domain with FI_MR_ENDPOINT
 * @bfid: an enabled endpoint of the domain
 * @flags: 0, or FI_COMPLETION for a completion entry, with FI_REGION and the
 *	context of the region, when the peer's access has ended after fi_close()
 *
 * The region has its key when this returns. The endpoint cannot be closed before
 * the region.
 *
 * Context: Any context.
 * Return:
 * * 0 - the region is bound
 * * -FI_EAGAIN - all regions of the endpoint (FI_OPT_KOFI_MR_POOL) are in use
 * * -FI_EINVAL - the region is bound already, or has more pages than
 *   FI_OPT_KOFI_MR_PAGES of the endpoint; another object than an endpoint
 * * -FI_EDOMAIN - an endpoint of another domain
 * * -FI_EOPBADSTATE - an endpoint that is not enabled, or has no regions
 * * -FI_EBADFLAGS - other flags
 * * -FI_ENOSYS - any other region: it belongs to its domain, and accesses of peers
 *   are not counted
 */
static inline int fi_mr_bind(struct fid_mr *mr, struct fid *bfid, u64 flags)
{
	return mr->fid.ops->bind(&mr->fid, bfid, flags);
}

/**
 * fi_mr_refresh() - map ranges of a region again after their pages moved
 * @mr: the region
 * @iov: the ranges
 * @count: entries in @iov
 * @flags: reserved, 0
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: registration enables a region and maps it permanently.
 */
static inline int fi_mr_refresh(struct fid_mr *mr, const struct kvec *iov,
				size_t count, u64 flags)
{
	struct fi_mr_modify modify = {
		.flags = flags,
		.attr = { .mr_iov = iov, .iov_count = count },
	};

	return mr->fid.ops->control(&mr->fid, FI_REFRESH, &modify);
}

/**
 * fi_mr_enable() - register a region that is bound to an endpoint
 * @mr: the region
 *
 * Posts a work request to the endpoint's queue. Operations that are posted after
 * it find the region registered. A failure ends the connection, and is reported by
 * an error entry with FI_REGION and the context of the region.
 *
 * Context: Any context.
 * Return:
 * * 0 - the registration has been posted
 * * -FI_EAGAIN - the queue is full
 * * -FI_ENOTCONN - the endpoint is not connected
 * * -FI_EOPBADSTATE - the region is not bound, or is enabled already; the endpoint
 *   has been shut down
 * * -FI_ENOSYS - any other region: registration enables it and maps it permanently
 */
static inline int fi_mr_enable(struct fid_mr *mr)
{
	return mr->fid.ops->control(&mr->fid, FI_ENABLE, NULL);
}

/**
 * fi_av_open() - open an address vector
 * @domain: its parent
 * @attr: its attributes; the call writes the chosen type, and for a named
 *	vector the map_addr
 * @av: the open vector
 * @context: stored in the fid
 *
 * The call copies the name.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the vector is open
 * * -FI_EINVAL - an unknown type, or another than the domain's; rx_ctx_bits,
 *   count or ep_per_node beyond its limit; FI_READ without a name; a name that
 *   is empty, longer than 255 bytes, or in use with another type or
 *   rx_ctx_bits; with FI_PEER a name, a flag other than FI_SYMMETRIC, another
 *   type or rx_ctx_bits than the owner's, or a context that is %NULL, too
 *   small, or has no vector of kOFI; @attr or @av is %NULL
 * * -FI_ENOENT - FI_READ, and no vector has the name
 * * -FI_EBADFLAGS - a flag other than FI_EVENT, FI_READ, FI_SYMMETRIC, FI_PEER
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_av_open(struct fid_domain *domain,
			     struct fi_av_attr *attr, struct fid_av **av,
			     void *context)
{
	return domain->ops->av_open(domain, attr, av, context);
}

/**
 * fi_av_bind() - bind an event queue to an address vector
 * @av: the vector, opened with FI_EVENT
 * @fid: the event queue
 * @flags: reserved, 0
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the queue is bound, and busy until the vector is closed
 * * -FI_EINVAL - @fid is not an event queue, or a queue of another fabric; the
 *   vector already has a queue, or was opened without FI_EVENT
 * * -FI_EBADFLAGS - any flag
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_av_bind(struct fid_av *av, struct fid *fid, u64 flags)
{
	return av->fid.ops->bind(&av->fid, fid, flags);
}

/**
 * fi_av_insert() - insert addresses
 * @av: the vector
 * @addr: @count addresses in the address format of the domain
 * @count: number of addresses
 * @fi_addr: buffer for the handles, FI_ADDR_NOTAVAIL for an address that failed;
 *	with FI_AV_USER_ID it has the identifiers on input; may be %NULL for a
 *	table, and for no address. It must stay valid until an asynchronous
 *	insertion has completed.
 * @flags: FI_MORE, FI_SYNC_ERR, FI_AV_USER_ID
 * @context: context of an asynchronous insertion; with FI_SYNC_ERR an array of
 *	@count ints for errnos
 *
 * The call copies the addresses. If it fails, each
 * entry of @fi_addr is set to FI_ADDR_NOTAVAIL, and with FI_SYNC_ERR each int to
 * the errno, unless @count exceeds INT_MAX. With FI_AV_USER_ID a call that fails
 * leaves @fi_addr as it is. A @count of 0 needs no arrays.
 *
 * Context: Process context, may sleep.
 * Return:
 * * a count - number of inserted addresses; 0 if an asynchronous insertion has
 *   started
 * * -FI_ENOEQ - the vector was opened with FI_EVENT, and no queue is bound;
 *   checked before all other errors
 * * -FI_EBADFLAGS - unknown flags; FI_AV_USER_ID in a vector with a name
 * * -FI_EINVAL - @addr is %NULL; @fi_addr is, for a map or with FI_AV_USER_ID;
 *   FI_SYNC_ERR without a @context, or in a vector with FI_EVENT; more
 *   addresses than an int counts
 * * -FI_EACCES - the vector was opened with FI_READ
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - an asynchronous insertion cannot start, or has more addresses
 *   than a vector holds; a synchronous one returns the number of addresses that
 *   there was memory for
 */
static inline int fi_av_insert(struct fid_av *av, const void *addr,
			       size_t count, fi_addr_t *fi_addr, u64 flags,
			       void *context)
{
	return av->ops->insert(av, addr, count, fi_addr, flags, context);
}

/**
 * fi_av_insertsvc() - insert one address given in text
 * @av: the vector
 * @node: numeric network address
 * @service: numeric port
 * @fi_addr: as for fi_av_insert()
 * @flags: as for fi_av_insert()
 * @context: as for fi_av_insert()
 *
 * Context: Process context, may sleep.
 * Return: As for fi_av_insert(); -FI_ENOSYS for the name of a host or a service;
 * -FI_EINVAL for an address that does not have the vector's format.
 */
static inline int fi_av_insertsvc(struct fid_av *av, const char *node,
				  const char *service, fi_addr_t *fi_addr,
				  u64 flags, void *context)
{
	return av->ops->insertsvc(av, node, service, fi_addr, flags, context);
}

/**
 * fi_av_insertsym() - insert a range of nodes and services
 * @av: the vector
 * @node: first network address
 * @nodecnt: number of nodes, in sequence; if 0, @node and @service may be
 *	%NULL
 * @service: first port
 * @svccnt: ports of each node, in sequence
 * @fi_addr: as for fi_av_insert(), @nodecnt times @svccnt entries, all services
 *	of a node before the next node
 * @flags: as for fi_av_insert()
 * @context: as for fi_av_insert()
 *
 * Context: Process context, may sleep.
 * Return: As for fi_av_insertsvc(). An address past the last address or port
 * fails, and the others are inserted.
 */
static inline int fi_av_insertsym(struct fid_av *av, const char *node,
				  size_t nodecnt, const char *service,
				  size_t svccnt, fi_addr_t *fi_addr, u64 flags,
				  void *context)
{
	return av->ops->insertsym(av, node, nodecnt, service, svccnt, fi_addr,
				  flags, context);
}

/**
 * fi_av_remove() - remove addresses
 * @av: the vector
 * @fi_addr: their handles
 * @count: number of handles
 * @flags: reserved, 0
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the use count of each address has been decremented
 * * -FI_EINVAL - an address was not in the vector, the others have been removed;
 *   @fi_addr is %NULL
 * * -FI_EBADFLAGS - any flag
 * * -FI_EACCES - the vector was opened with FI_READ
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_av_remove(struct fid_av *av, fi_addr_t *fi_addr,
			       size_t count, u64 flags)
{
	return av->ops->remove(av, fi_addr, count, flags);
}

/**
 * fi_av_lookup() - copy an address of the vector
 * @av: the vector
 * @fi_addr: its handle
 * @addr: buffer for the address, truncated if it does not fit; a truncated
 *	string is terminated
 * @addrlen: size of @addr, then the needed size
 *
 * Context: Any context.
 * Return:
 * * 0 - @addr has as much as fits, and @addrlen the whole length
 * * -FI_EINVAL - the vector has no such address; @addrlen is %NULL, or @addr is
 *   %NULL and its size not 0
 */
static inline int fi_av_lookup(struct fid_av *av, fi_addr_t fi_addr,
			       void *addr, size_t *addrlen)
{
	return av->ops->lookup(av, fi_addr, addr, addrlen);
}

/**
 * fi_av_straddr() - format an address as text
 * @av: a vector of the address's format
 * @addr: the address, which need not be in the vector
 * @buf: buffer for the text, which is truncated if it does not fit
 * @len: size of @buf, then the needed size
 *
 * Context: Any context.
 * Return: @buf; %NULL for an address that does not have the format, if @len is
 * %NULL, or if @buf is %NULL and its size not 0.
 */
static inline const char *fi_av_straddr(struct fid_av *av, const void *addr,
					char *buf, size_t *len)
{
	return av->ops->straddr(av, addr, buf, len);
}

/**
 * fi_rx_addr() - return the address of a receive context of a peer
 * @fi_addr: the peer's address
 * @rx_index: index of the receive context
 * @rx_ctx_bits: as in the address vector's attributes; 0 returns @fi_addr
 *
 * Context: Any context.
 * Return: The address, with the index in its high bits.
 */
static inline fi_addr_t fi_rx_addr(fi_addr_t fi_addr, int rx_index,
				   int rx_ctx_bits)
{
	/* A shift by all 64 bits is undefined. */
	if (!rx_ctx_bits)
		return fi_addr;

	return ((u64)rx_index << (64 - rx_ctx_bits)) | fi_addr;
}

#endif /* FI_DOMAIN_H */
