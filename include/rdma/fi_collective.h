/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Address sets, and collective operations over their members. See "Transfers" in
 * fi_endpoint.h for context, ownership and errors of the operations.
 */

#ifndef FI_COLLECTIVE_H
#define FI_COLLECTIVE_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

struct fi_ops_av_set {
	size_t	size;
	int	(*set_union)(struct fid_av_set *dst,
			     const struct fid_av_set *src);
	int	(*intersect)(struct fid_av_set *dst,
			     const struct fid_av_set *src);
	int	(*diff)(struct fid_av_set *dst, const struct fid_av_set *src);
	int	(*insert)(struct fid_av_set *set, fi_addr_t addr);
	int	(*remove)(struct fid_av_set *set, fi_addr_t addr);
	int	(*addr)(struct fid_av_set *set, fi_addr_t *coll_addr);
};

/**
 * struct fid_av_set - an ordered set of addresses of one address vector
 * @fid: common part
 * @ops: operations of the provider
 */
struct fid_av_set {
	struct fid		fid;
	struct fi_ops_av_set	*ops;
};

/**
 * struct fi_collective_attr - limits of a collective operation
 * @op: operation of a reduction
 * @datatype: type of an element
 * @datatype_attr: returned limits for that type
 * @max_members: returned limit on members
 * @mode: returned mode bits
 */
struct fi_collective_attr {
	enum fi_op		op;
	enum fi_datatype	datatype;
	struct fi_atomic_attr	datatype_attr;
	size_t			max_members;
	u64			mode;
};

/**
 * struct fi_collective_addr - group that fi_join() joins with FI_COLLECTIVE
 * @set: its members
 * @coll_addr: an existing group of all members, or FI_ADDR_NOTAVAIL
 */
struct fi_collective_addr {
	const struct fid_av_set	*set;
	fi_addr_t		coll_addr;
};

/**
 * struct fi_msg_collective - a collective operation
 * @msg_iov: the operands
 * @desc: a descriptor for each entry, or %NULL
 * @iov_count: entries in @msg_iov
 * @coll_addr: the group
 * @root_addr: the root, if the collective has one
 * @coll: the collective
 * @datatype: type of an element
 * @op: operation of a reduction
 * @context: context of the operation
 */
struct fi_msg_collective {
	const struct fi_ioc	*msg_iov;
	void			**desc;
	size_t			iov_count;
	fi_addr_t		coll_addr;
	fi_addr_t		root_addr;
	enum fi_collective_op	coll;
	enum fi_datatype	datatype;
	enum fi_op		op;
	void			*context;
};

struct fi_ops_collective {
	size_t	size;
	ssize_t	(*barrier)(struct fid_ep *ep, fi_addr_t coll_addr,
			   void *context);
	ssize_t	(*broadcast)(struct fid_ep *ep, void *buf, size_t count,
			     void *desc, fi_addr_t coll_addr,
			     fi_addr_t root_addr, enum fi_datatype datatype,
			     u64 flags, void *context);
	ssize_t	(*alltoall)(struct fid_ep *ep, const void *buf, size_t count,
			    void *desc, void *result, void *result_desc,
			    fi_addr_t coll_addr, enum fi_datatype datatype,
			    u64 flags, void *context);
	ssize_t	(*allreduce)(struct fid_ep *ep, const void *buf, size_t count,
			     void *desc, void *result, void *result_desc,
			     fi_addr_t coll_addr, enum fi_datatype datatype,
			     enum fi_op op, u64 flags, void *context);
	ssize_t	(*allgather)(struct fid_ep *ep, const void *buf, size_t count,
			     void *desc, void *result, void *result_desc,
			     fi_addr_t coll_addr, enum fi_datatype datatype,
			     u64 flags, void *context);
	ssize_t	(*reduce_scatter)(struct fid_ep *ep, const void *buf,
				  size_t count, void *desc, void *result,
				  void *result_desc, fi_addr_t coll_addr,
				  enum fi_datatype datatype, enum fi_op op,
				  u64 flags, void *context);
	ssize_t	(*reduce)(struct fid_ep *ep, const void *buf, size_t count,
			  void *desc, void *result, void *result_desc,
			  fi_addr_t coll_addr, fi_addr_t root_addr,
			  enum fi_datatype datatype, enum fi_op op, u64 flags,
			  void *context);
	ssize_t	(*scatter)(struct fid_ep *ep, const void *buf, size_t count,
			   void *desc, void *result, void *result_desc,
			   fi_addr_t coll_addr, fi_addr_t root_addr,
			   enum fi_datatype datatype, u64 flags,
			   void *context);
	ssize_t	(*gather)(struct fid_ep *ep, const void *buf, size_t count,
			  void *desc, void *result, void *result_desc,
			  fi_addr_t coll_addr, fi_addr_t root_addr,
			  enum fi_datatype datatype, u64 flags, void *context);
	ssize_t	(*msg)(struct fid_ep *ep, const struct fi_msg_collective *msg,
		       struct fi_ioc *resultv, void **result_desc,
		       size_t result_count, u64 flags);
	ssize_t	(*barrier2)(struct fid_ep *ep, fi_addr_t coll_addr, u64 flags,
			    void *context);
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_collective_attr) == 40);
static_assert(sizeof(struct fi_msg_collective) == 64);
static_assert(sizeof(struct fi_ops_av_set) == 56);
static_assert(sizeof(struct fi_ops_collective) == 96);
#endif

/**
 * fi_av_set() - open an address set
 * @av: address vector of the members
 * @attr: its attributes
 * @set: the open set
 * @context: stored in the fid
 *
 * The call copies only the flags in @attr that name collectives (FI_BARRIER_SET
 * and the others). These need an endpoint bound to @av that has been paired with
 * an offload provider (fi_import_fid()); fi_join_collective() passes them to the
 * endpoint's offload.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the set is open
 * * -FI_EINVAL - a range in a map; a range with only one end, with an end before
 *   its start, without a stride, or with FI_UNIVERSE; more members than @attr
 *   allows; with FI_PEER_AV also FI_UNIVERSE, a context that is %NULL or too
 *   small, an owner without calls, or a set of kOFI whose addresses @av does not
 *   share; @attr or @set is %NULL
 * * -FI_EBADFLAGS - unknown flags
 * * -FI_EOPNOTSUPP - flags that name collectives, and no endpoint of @av has an
 *   offload provider; a communication key
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 */
static inline int fi_av_set(struct fid_av *av, struct fi_av_set_attr *attr,
			    struct fid_av_set **set, void *context)
{
	return FI_CHECK_OP(av->ops, struct fi_ops_av, av_set) ?
		av->ops->av_set(av, attr, set, context) : -FI_ENOSYS;
}

/**
 * fi_av_set_union() - append the members of another set
 * @dst: the set to change
 * @src: the other set
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - @dst has the members of both sets
 * * -FI_EINVAL - @src is %NULL, or a set whose addresses @dst does not share
 * * -FI_ENOMEM - too many members, or no memory; @dst does not change
 * * -FI_EACCES - @dst was opened with FI_PEER_AV
 * * another errno - of the owner of @src, if @src was opened with FI_PEER_AV
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_av_set_union(struct fid_av_set *dst,
				  const struct fid_av_set *src)
{
	return dst->ops->set_union(dst, src);
}

/**
 * fi_av_set_intersect() - keep the members that another set also has
 * @dst: the set to change
 * @src: the other set
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - @dst has been changed
 * * -FI_EINVAL - @src is %NULL, or a set whose addresses @dst does not share
 * * -FI_ENOMEM - no memory; @dst does not change
 * * -FI_EACCES - @dst was opened with FI_PEER_AV
 * * another errno - of the owner of @src, if @src was opened with FI_PEER_AV
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_av_set_intersect(struct fid_av_set *dst,
				      const struct fid_av_set *src)
{
	return dst->ops->intersect(dst, src);
}

/**
 * fi_av_set_diff() - remove the members that another set also has
 * @dst: the set to change
 * @src: the other set
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - @dst has been changed
 * * -FI_EINVAL - @src is %NULL, or a set whose addresses @dst does not share
 * * -FI_ENOMEM - no memory; @dst does not change
 * * -FI_EACCES - @dst was opened with FI_PEER_AV
 * * another errno - of the owner of @src, if @src was opened with FI_PEER_AV
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_av_set_diff(struct fid_av_set *dst,
				 const struct fid_av_set *src)
{
	return dst->ops->diff(dst, src);
}

/**
 * fi_av_set_insert() - append a member
 * @set: the set
 * @addr: its address
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - @addr is the last member
 * * -FI_EINVAL - @addr is a member already, or not in the vector
 * * -FI_ENOMEM - the set is full, or there is no memory
 * * -FI_EACCES - the set was opened with FI_PEER_AV
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_av_set_insert(struct fid_av_set *set, fi_addr_t addr)
{
	return set->ops->insert(set, addr);
}

/**
 * fi_av_set_remove() - remove a member
 * @set: the set
 * @addr: its address
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - @addr has been removed
 * * -FI_EINVAL - @addr is not a member
 * * -FI_EACCES - the set was opened with FI_PEER_AV
 * * -FI_EOPBADSTATE - in atomic context
 */
static inline int fi_av_set_remove(struct fid_av_set *set, fi_addr_t addr)
{
	return set->ops->remove(set, addr);
}

/**
 * fi_av_set_addr() - return a group address for all members of a set
 * @set: the set
 * @coll_addr: buffer for the address
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: a set of kOFI has no group address. fi_join_collective()
 * makes a group of its members, with an offload provider.
 */
static inline int fi_av_set_addr(struct fid_av_set *set, fi_addr_t *coll_addr)
{
	return set->ops->addr(set, coll_addr);
}

/**
 * fi_join_collective() - make a group of the members of a set
 * @ep: an endpoint that has been paired with an offload, see fi_import_fid()
 * @coll_addr: an existing group of all members, or FI_ADDR_NOTAVAIL
 * @set: the members, of the address vector that the endpoint is bound to
 * @flags: reserved, 0
 * @mc: the membership, which is closed before the endpoint and the set
 * @context: stored in the fid
 *
 * The group exists when the call returns. An event queue that is bound to the
 * domain reports FI_JOIN_COMPLETE with the fid of the membership.
 *
 * Context: Process context, may sleep.
 * Return:
 * * 0 - the group exists
 * * -FI_ENOSYS - the endpoint has no offload
 * * -FI_EOPNOTSUPP - @set was opened for a collective that the endpoint's
 *   offload does not implement
 * * -FI_EINVAL - @set or @mc is %NULL; @set is not a set of kOFI, or belongs to
 *   another address vector
 * * -FI_EOPBADSTATE - in atomic context
 * * -FI_ENOMEM - no memory
 * * another errno - of the offload, for example if the endpoint is not a member
 */
static inline int fi_join_collective(struct fid_ep *ep, fi_addr_t coll_addr,
				     const struct fid_av_set *set, u64 flags,
				     struct fid_mc **mc, void *context)
{
	struct fi_collective_addr addr = {
		.set = set,
		.coll_addr = coll_addr,
	};

	return fi_join(ep, &addr, flags | FI_COLLECTIVE, mc, context);
}

/**
 * fi_barrier() - complete when every member has called it
 * @ep: the endpoint
 * @coll_addr: the group
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: The return value of the endpoint's offload, see fi_import_fid();
 * -FI_ENOSYS without an offload, or if it does not implement the collective.
 */
static inline ssize_t fi_barrier(struct fid_ep *ep, fi_addr_t coll_addr,
				 void *context)
{
	/* In parentheses, or the kernel's barrier() macro would take it. */
	return (ep->collective->barrier)(ep, coll_addr, context);
}

/**
 * fi_barrier2() - fi_barrier() with flags
 * @ep: the endpoint
 * @coll_addr: the group
 * @flags: operation flags
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: The return value of the endpoint's offload, see fi_import_fid();
 * -FI_ENOSYS without an offload, or if it does not implement the collective.
 */
static inline ssize_t fi_barrier2(struct fid_ep *ep, fi_addr_t coll_addr,
				  u64 flags, void *context)
{
	if (!flags)
		return fi_barrier(ep, coll_addr, context);

	return FI_CHECK_OP(ep->collective, struct fi_ops_collective,
			   barrier2) ?
		ep->collective->barrier2(ep, coll_addr, flags, context) :
		-FI_ENOSYS;
}

/**
 * fi_broadcast() - copy the root's data to every member
 * @ep: the endpoint
 * @buf: the data at the root, the destination elsewhere
 * @count: elements
 * @desc: descriptor of @buf, or %NULL
 * @coll_addr: the group
 * @root_addr: the root
 * @datatype: type of an element
 * @flags: operation flags
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: The return value of the endpoint's offload, see fi_import_fid();
 * -FI_ENOSYS without an offload, or if it does not implement the collective.
 */
static inline ssize_t fi_broadcast(struct fid_ep *ep, void *buf, size_t count,
				   void *desc, fi_addr_t coll_addr,
				   fi_addr_t root_addr,
				   enum fi_datatype datatype, u64 flags,
				   void *context)
{
	return ep->collective->broadcast(ep, buf, count, desc, coll_addr,
					 root_addr, datatype, flags, context);
}

/**
 * fi_alltoall() - send a different piece of data to every member
 * @ep: the endpoint
 * @buf: a piece for each member
 * @count: elements in one piece
 * @desc: descriptor of @buf, or %NULL
 * @result: a piece from each member
 * @result_desc: descriptor of @result, or %NULL
 * @coll_addr: the group
 * @datatype: type of an element
 * @flags: operation flags
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: The return value of the endpoint's offload, see fi_import_fid();
 * -FI_ENOSYS without an offload, or if it does not implement the collective.
 */
static inline ssize_t fi_alltoall(struct fid_ep *ep, const void *buf,
				  size_t count, void *desc, void *result,
				  void *result_desc, fi_addr_t coll_addr,
				  enum fi_datatype datatype, u64 flags,
				  void *context)
{
	return ep->collective->alltoall(ep, buf, count, desc, result,
					result_desc, coll_addr, datatype,
					flags, context);
}

/**
 * fi_allreduce() - reduce the data of all members, with the result at all of them
 * @ep: the endpoint
 * @buf: the operands
 * @count: elements
 * @desc: descriptor of @buf, or %NULL
 * @result: buffer for the result
 * @result_desc: descriptor of @result, or %NULL
 * @coll_addr: the group
 * @datatype: type of an element
 * @op: the reduction
 * @flags: operation flags
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: The return value of the endpoint's offload, see fi_import_fid();
 * -FI_ENOSYS without an offload, or if it does not implement the collective.
 */
static inline ssize_t fi_allreduce(struct fid_ep *ep, const void *buf,
				   size_t count, void *desc, void *result,
				   void *result_desc, fi_addr_t coll_addr,
				   enum fi_datatype datatype, enum fi_op op,
				   u64 flags, void *context)
{
	return ep->collective->allreduce(ep, buf, count, desc, result,
					 result_desc, coll_addr, datatype, op,
					 flags, context);
}

/**
 * fi_allgather() - collect the data of all members at every member
 * @ep: the endpoint
 * @buf: the data
 * @count: elements in @buf
 * @desc: descriptor of @buf, or %NULL
 * @result: buffer for the data of all members
 * @result_desc: descriptor of @result, or %NULL
 * @coll_addr: the group
 * @datatype: type of an element
 * @flags: operation flags
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: The return value of the endpoint's offload, see fi_import_fid();
 * -FI_ENOSYS without an offload, or if it does not implement the collective.
 */
static inline ssize_t fi_allgather(struct fid_ep *ep, const void *buf,
				   size_t count, void *desc, void *result,
				   void *result_desc, fi_addr_t coll_addr,
				   enum fi_datatype datatype, u64 flags,
				   void *context)
{
	return ep->collective->allgather(ep, buf, count, desc, result,
					 result_desc, coll_addr, datatype,
					 flags, context);
}

/**
 * fi_reduce_scatter() - reduce the data of all members, a piece for each member
 * @ep: the endpoint
 * @buf: the operands
 * @count: elements in @buf
 * @desc: descriptor of @buf, or %NULL
 * @result: buffer for this member's piece
 * @result_desc: descriptor of @result, or %NULL
 * @coll_addr: the group
 * @datatype: type of an element
 * @op: the reduction
 * @flags: operation flags
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: The return value of the endpoint's offload, see fi_import_fid();
 * -FI_ENOSYS without an offload, or if it does not implement the collective.
 */
static inline ssize_t fi_reduce_scatter(struct fid_ep *ep, const void *buf,
					size_t count, void *desc, void *result,
					void *result_desc, fi_addr_t coll_addr,
					enum fi_datatype datatype,
					enum fi_op op, u64 flags,
					void *context)
{
	return ep->collective->reduce_scatter(ep, buf, count, desc, result,
					      result_desc, coll_addr, datatype,
					      op, flags, context);
}

/**
 * fi_reduce() - reduce the data of all members, with the result at the root
 * @ep: the endpoint
 * @buf: the operands
 * @count: elements
 * @desc: descriptor of @buf, or %NULL
 * @result: buffer for the result, at the root
 * @result_desc: descriptor of @result, or %NULL
 * @coll_addr: the group
 * @root_addr: the root
 * @datatype: type of an element
 * @op: the reduction
 * @flags: operation flags
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: The return value of the endpoint's offload, see fi_import_fid();
 * -FI_ENOSYS without an offload, or if it does not implement the collective.
 */
static inline ssize_t fi_reduce(struct fid_ep *ep, const void *buf,
				size_t count, void *desc, void *result,
				void *result_desc, fi_addr_t coll_addr,
				fi_addr_t root_addr, enum fi_datatype datatype,
				enum fi_op op, u64 flags, void *context)
{
	return ep->collective->reduce(ep, buf, count, desc, result,
				      result_desc, coll_addr, root_addr,
				      datatype, op, flags, context);
}

/**
 * fi_scatter() - send a piece of the root's data to every member
 * @ep: the endpoint
 * @buf: a piece for each member, at the root
 * @count: elements in one piece
 * @desc: descriptor of @buf, or %NULL
 * @result: buffer for this member's piece
 * @result_desc: descriptor of @result, or %NULL
 * @coll_addr: the group
 * @root_addr: the root
 * @datatype: type of an element
 * @flags: operation flags
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: The return value of the endpoint's offload, see fi_import_fid();
 * -FI_ENOSYS without an offload, or if it does not implement the collective.
 */
static inline ssize_t fi_scatter(struct fid_ep *ep, const void *buf,
				 size_t count, void *desc, void *result,
				 void *result_desc, fi_addr_t coll_addr,
				 fi_addr_t root_addr,
				 enum fi_datatype datatype, u64 flags,
				 void *context)
{
	return ep->collective->scatter(ep, buf, count, desc, result,
				       result_desc, coll_addr, root_addr,
				       datatype, flags, context);
}

/**
 * fi_gather() - collect the data of all members at the root
 * @ep: the endpoint
 * @buf: the data
 * @count: elements in @buf
 * @desc: descriptor of @buf, or %NULL
 * @result: buffer for the data of all members, at the root
 * @result_desc: descriptor of @result, or %NULL
 * @coll_addr: the group
 * @root_addr: the root
 * @datatype: type of an element
 * @flags: operation flags
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: The return value of the endpoint's offload, see fi_import_fid();
 * -FI_ENOSYS without an offload, or if it does not implement the collective.
 */
static inline ssize_t fi_gather(struct fid_ep *ep, const void *buf,
				size_t count, void *desc, void *result,
				void *result_desc, fi_addr_t coll_addr,
				fi_addr_t root_addr, enum fi_datatype datatype,
				u64 flags, void *context)
{
	return ep->collective->gather(ep, buf, count, desc, result,
				      result_desc, coll_addr, root_addr,
				      datatype, flags, context);
}

/**
 * fi_query_collective() - query the limits of a collective operation
 * @domain: the domain
 * @coll: the collective
 * @attr: operation and datatype on input, limits on output
 * @flags: reserved, 0
 *
 * Context: Any context.
 * Return: -FI_ENOSYS: kOFI's providers implement no collectives. An endpoint gets
 * them from an offload provider, see fi_import_fid(); query the offload's domain.
 */
static inline int fi_query_collective(struct fid_domain *domain,
				      enum fi_collective_op coll,
				      struct fi_collective_attr *attr,
				      u64 flags)
{
	return FI_CHECK_OP(domain->ops, struct fi_ops_domain,
			   query_collective) ?
		domain->ops->query_collective(domain, coll, attr, flags) :
		-FI_ENOSYS;
}

#endif /* FI_COLLECTIVE_H */
