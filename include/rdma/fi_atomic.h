/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Atomic operations on a peer's memory. See "Transfers" in fi_endpoint.h, and
 * "Atomics" below, for context, ownership and errors.
 */

#ifndef FI_ATOMIC_H
#define FI_ATOMIC_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

/**
 * DOC: Atomics
 *
 * Counts are elements of the datatype. Each element is changed atomically with
 * respect to all other atomic operations on the same region through the same
 * device or CPU; several elements of one operation are not changed together. The
 * call copies the operands. The result buffer belongs to the operation until it
 * completes; the results have been written before that. In addition to the errnos
 * of "Transfers":
 *
 * * -FI_EOPNOTSUPP - the call does not support the operation, or not on that type;
 *   the device has no atomic operations; FI_REMOTE_CQ_DATA
 * * -FI_ENOSYS - the endpoint was opened without FI_ATOMIC
 * * -FI_EINVAL - no remote range, several, or one of no elements; a target that
 *   is not aligned to the size of its elements; operands, comparands or results
 *   of another length than the target
 * * -FI_EMSGSIZE - more elements than fi_atomicvalid() returns
 * * -FI_ENOKEY - a key of more than 32 bits, which no device has
 * * -FI_EAGAIN - also: the endpoint has the maximum number of operations of several
 *   steps in progress
 */

/* Forms of an operation, for fi_query_atomic() */
#define FI_FETCH_ATOMIC		(1ULL << 58)
#define FI_COMPARE_ATOMIC	(1ULL << 59)

/**
 * struct fi_atomic_attr - limits of atomic operations on a datatype
 * @count: maximum number of elements of one operation
 * @size: bytes of an element
 */
struct fi_atomic_attr {
	size_t			count;
	size_t			size;
};

/**
 * struct fi_msg_atomic - an atomic operation
 * @msg_iov: the operands
 * @desc: a descriptor for each entry, or %NULL
 * @iov_count: entries in @msg_iov
 * @addr: the peer
 * @rma_iov: the remote target
 * @rma_iov_count: entries in @rma_iov
 * @datatype: type of an element
 * @op: the operation
 * @context: context of the operation
 * @data: not supported
 */
struct fi_msg_atomic {
	const struct fi_ioc	*msg_iov;
	void			**desc;
	size_t			iov_count;
	fi_addr_t		addr;
	const struct fi_rma_ioc	*rma_iov;
	size_t			rma_iov_count;
	enum fi_datatype	datatype;
	enum fi_op		op;
	void			*context;
	u64			data;
};

/**
 * struct fi_msg_fetch - buffers for the old values of a deferred operation
 * @msg_iov: the buffers
 * @desc: a descriptor for each, or %NULL
 * @iov_count: entries in @msg_iov
 */
struct fi_msg_fetch {
	struct fi_ioc		*msg_iov;
	void			**desc;
	size_t			iov_count;
};

/**
 * struct fi_msg_compare - comparands of a deferred operation
 * @msg_iov: the comparands
 * @desc: a descriptor for each, or %NULL
 * @iov_count: entries in @msg_iov
 */
struct fi_msg_compare {
	const struct fi_ioc	*msg_iov;
	void			**desc;
	size_t			iov_count;
};

struct fi_ops_atomic {
	size_t	size;
	ssize_t	(*write)(struct fid_ep *ep, const void *buf, size_t count,
			 void *desc, fi_addr_t dest_addr, u64 addr, u64 key,
			 enum fi_datatype datatype, enum fi_op op,
			 void *context);
	ssize_t	(*writev)(struct fid_ep *ep, const struct fi_ioc *iov,
			  void **desc, size_t count, fi_addr_t dest_addr,
			  u64 addr, u64 key, enum fi_datatype datatype,
			  enum fi_op op, void *context);
	ssize_t	(*writemsg)(struct fid_ep *ep, const struct fi_msg_atomic *msg,
			    u64 flags);
	ssize_t	(*inject)(struct fid_ep *ep, const void *buf, size_t count,
			  fi_addr_t dest_addr, u64 addr, u64 key,
			  enum fi_datatype datatype, enum fi_op op);

	ssize_t	(*readwrite)(struct fid_ep *ep, const void *buf, size_t count,
			     void *desc, void *result, void *result_desc,
			     fi_addr_t dest_addr, u64 addr, u64 key,
			     enum fi_datatype datatype, enum fi_op op,
			     void *context);
	ssize_t	(*readwritev)(struct fid_ep *ep, const struct fi_ioc *iov,
			      void **desc, size_t count,
			      struct fi_ioc *resultv, void **result_desc,
			      size_t result_count, fi_addr_t dest_addr,
			      u64 addr, u64 key, enum fi_datatype datatype,
			      enum fi_op op, void *context);
	ssize_t	(*readwritemsg)(struct fid_ep *ep,
				const struct fi_msg_atomic *msg,
				struct fi_ioc *resultv, void **result_desc,
				size_t result_count, u64 flags);

	ssize_t	(*compwrite)(struct fid_ep *ep, const void *buf, size_t count,
			     void *desc, const void *compare,
			     void *compare_desc, void *result,
			     void *result_desc, fi_addr_t dest_addr, u64 addr,
			     u64 key, enum fi_datatype datatype, enum fi_op op,
			     void *context);
	ssize_t	(*compwritev)(struct fid_ep *ep, const struct fi_ioc *iov,
			      void **desc, size_t count,
			      const struct fi_ioc *comparev,
			      void **compare_desc, size_t compare_count,
			      struct fi_ioc *resultv, void **result_desc,
			      size_t result_count, fi_addr_t dest_addr,
			      u64 addr, u64 key, enum fi_datatype datatype,
			      enum fi_op op, void *context);
	ssize_t	(*compwritemsg)(struct fid_ep *ep,
				const struct fi_msg_atomic *msg,
				const struct fi_ioc *comparev,
				void **compare_desc, size_t compare_count,
				struct fi_ioc *resultv, void **result_desc,
				size_t result_count, u64 flags);

	int	(*writevalid)(struct fid_ep *ep, enum fi_datatype datatype,
			      enum fi_op op, size_t *count);
	int	(*readwritevalid)(struct fid_ep *ep, enum fi_datatype datatype,
				  enum fi_op op, size_t *count);
	int	(*compwritevalid)(struct fid_ep *ep, enum fi_datatype datatype,
				  enum fi_op op, size_t *count);
};

#ifdef CONFIG_64BIT
static_assert(sizeof(struct fi_atomic_attr) == 16);
static_assert(sizeof(struct fi_msg_atomic) == 72);
static_assert(sizeof(struct fi_ops_atomic) == 112);
#endif

/**
 * fi_atomic() - change a peer's memory
 * @ep: the endpoint
 * @buf: the operands
 * @count: elements
 * @desc: descriptor of @buf, or %NULL
 * @dest_addr: the peer
 * @addr: remote address of the target
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: FI_MIN to FI_BXOR, or FI_ATOMIC_WRITE
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Atomics".
 */
static inline ssize_t fi_atomic(struct fid_ep *ep, const void *buf,
				size_t count, void *desc, fi_addr_t dest_addr,
				u64 addr, u64 key, enum fi_datatype datatype,
				enum fi_op op, void *context)
{
	return ep->atomic->write(ep, buf, count, desc, dest_addr, addr, key,
				 datatype, op, context);
}

/**
 * fi_atomicv() - change a peer's memory, operands from several buffers
 * @ep: the endpoint
 * @iov: the operands
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @iov
 * @dest_addr: the peer
 * @addr: remote address of the target
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: as for fi_atomic()
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Atomics".
 */
static inline ssize_t fi_atomicv(struct fid_ep *ep, const struct fi_ioc *iov,
				 void **desc, size_t count,
				 fi_addr_t dest_addr, u64 addr, u64 key,
				 enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	return ep->atomic->writev(ep, iov, desc, count, dest_addr, addr, key,
				  datatype, op, context);
}

/**
 * fi_atomicmsg() - change a peer's memory, with flags
 * @ep: the endpoint
 * @msg: the operation
 * @flags: replace the default flags
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Atomics".
 */
static inline ssize_t fi_atomicmsg(struct fid_ep *ep,
				   const struct fi_msg_atomic *msg, u64 flags)
{
	return ep->atomic->writemsg(ep, msg, flags);
}

/**
 * fi_inject_atomic() - change a peer's memory; a success writes no entry
 * @ep: the endpoint
 * @buf: the operands
 * @count: elements, up to &fi_tx_attr.inject_size bytes
 * @dest_addr: the peer
 * @addr: remote address of the target
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: as for fi_atomic()
 *
 * Context: Any context. Data call.
 * Return: As for fi_atomic(); -FI_EMSGSIZE for more than inject_size.
 */
static inline ssize_t fi_inject_atomic(struct fid_ep *ep, const void *buf,
				       size_t count, fi_addr_t dest_addr,
				       u64 addr, u64 key,
				       enum fi_datatype datatype,
				       enum fi_op op)
{
	return ep->atomic->inject(ep, buf, count, dest_addr, addr, key,
				  datatype, op);
}

/**
 * fi_fetch_atomic() - change a peer's memory and return the old values
 * @ep: the endpoint
 * @buf: the operands, ignored by FI_ATOMIC_READ
 * @count: elements
 * @desc: descriptor of @buf, or %NULL
 * @result: buffer for the old values, written before the operation completes
 * @result_desc: descriptor of @result, or %NULL
 * @dest_addr: the peer
 * @addr: remote address of the target
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: FI_MIN to FI_ATOMIC_WRITE
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Atomics".
 */
static inline ssize_t fi_fetch_atomic(struct fid_ep *ep, const void *buf,
				      size_t count, void *desc, void *result,
				      void *result_desc, fi_addr_t dest_addr,
				      u64 addr, u64 key,
				      enum fi_datatype datatype, enum fi_op op,
				      void *context)
{
	return ep->atomic->readwrite(ep, buf, count, desc, result, result_desc,
				     dest_addr, addr, key, datatype, op,
				     context);
}

/**
 * fi_fetch_atomicv() - fi_fetch_atomic() with several buffers
 * @ep: the endpoint
 * @iov: the operands
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @iov
 * @resultv: buffers for the old values
 * @result_desc: a descriptor for each entry, or %NULL
 * @result_count: entries in @resultv
 * @dest_addr: the peer
 * @addr: remote address of the target
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: as for fi_fetch_atomic()
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Atomics".
 */
static inline ssize_t fi_fetch_atomicv(struct fid_ep *ep,
				       const struct fi_ioc *iov, void **desc,
				       size_t count, struct fi_ioc *resultv,
				       void **result_desc, size_t result_count,
				       fi_addr_t dest_addr, u64 addr, u64 key,
				       enum fi_datatype datatype,
				       enum fi_op op, void *context)
{
	return ep->atomic->readwritev(ep, iov, desc, count, resultv,
				      result_desc, result_count, dest_addr,
				      addr, key, datatype, op, context);
}

/**
 * fi_fetch_atomicmsg() - fi_fetch_atomic() with flags
 * @ep: the endpoint
 * @msg: the operation
 * @resultv: buffers for the old values
 * @result_desc: a descriptor for each entry, or %NULL
 * @result_count: entries in @resultv
 * @flags: replace the default flags
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Atomics".
 */
static inline ssize_t fi_fetch_atomicmsg(struct fid_ep *ep,
					 const struct fi_msg_atomic *msg,
					 struct fi_ioc *resultv,
					 void **result_desc,
					 size_t result_count, u64 flags)
{
	return ep->atomic->readwritemsg(ep, msg, resultv, result_desc,
					result_count, flags);
}

/**
 * fi_compare_atomic() - compare a peer's memory and swap
 * @ep: the endpoint
 * @buf: values to store if the comparison holds
 * @count: elements
 * @desc: descriptor of @buf, or %NULL
 * @compare: comparands; for FI_MSWAP the mask
 * @compare_desc: descriptor of @compare, or %NULL
 * @result: buffer for the old values, written before the operation completes
 * @result_desc: descriptor of @result, or %NULL
 * @dest_addr: the peer
 * @addr: remote address of the target
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: FI_CSWAP to FI_MSWAP
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Atomics".
 */
static inline ssize_t fi_compare_atomic(struct fid_ep *ep, const void *buf,
					size_t count, void *desc,
					const void *compare,
					void *compare_desc, void *result,
					void *result_desc, fi_addr_t dest_addr,
					u64 addr, u64 key,
					enum fi_datatype datatype,
					enum fi_op op, void *context)
{
	return ep->atomic->compwrite(ep, buf, count, desc, compare,
				     compare_desc, result, result_desc,
				     dest_addr, addr, key, datatype, op,
				     context);
}

/**
 * fi_compare_atomicv() - fi_compare_atomic() with several buffers
 * @ep: the endpoint
 * @iov: values to store
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @iov
 * @comparev: comparands
 * @compare_desc: a descriptor for each entry, or %NULL
 * @compare_count: entries in @comparev
 * @resultv: buffers for the old values
 * @result_desc: a descriptor for each entry, or %NULL
 * @result_count: entries in @resultv
 * @dest_addr: the peer
 * @addr: remote address of the target
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: as for fi_compare_atomic()
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Atomics".
 */
static inline ssize_t
fi_compare_atomicv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
		   size_t count, const struct fi_ioc *comparev,
		   void **compare_desc, size_t compare_count,
		   struct fi_ioc *resultv, void **result_desc,
		   size_t result_count, fi_addr_t dest_addr, u64 addr, u64 key,
		   enum fi_datatype datatype, enum fi_op op, void *context)
{
	return ep->atomic->compwritev(ep, iov, desc, count, comparev,
				      compare_desc, compare_count, resultv,
				      result_desc, result_count, dest_addr,
				      addr, key, datatype, op, context);
}

/**
 * fi_compare_atomicmsg() - fi_compare_atomic() with flags
 * @ep: the endpoint
 * @msg: the operation
 * @comparev: comparands
 * @compare_desc: a descriptor for each entry, or %NULL
 * @compare_count: entries in @comparev
 * @resultv: buffers for the old values
 * @result_desc: a descriptor for each entry, or %NULL
 * @result_count: entries in @resultv
 * @flags: replace the default flags
 *
 * Context: Any context. Data call.
 * Return: 0, or an errno of "Transfers" or "Atomics".
 */
static inline ssize_t
fi_compare_atomicmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
		     const struct fi_ioc *comparev, void **compare_desc,
		     size_t compare_count, struct fi_ioc *resultv,
		     void **result_desc, size_t result_count, u64 flags)
{
	return ep->atomic->compwritemsg(ep, msg, comparev, compare_desc,
					compare_count, resultv, result_desc,
					result_count, flags);
}

/**
 * fi_atomicvalid() - check that fi_atomic() supports an operation
 * @ep: the endpoint
 * @datatype: type of an element
 * @op: the operation
 * @count: buffer for the maximum number of elements of one operation
 *
 * Context: Any context.
 * Return:
 * * 0 - the operation is supported, on as many elements as @count returns
 * * -FI_EOPNOTSUPP - the call does not support the operation, or not on that type;
 *   the device has no atomic operations
 * * -FI_ENOSYS - the endpoint was opened without FI_ATOMIC
 * * -FI_EINVAL - @count is %NULL
 */
static inline int fi_atomicvalid(struct fid_ep *ep, enum fi_datatype datatype,
				 enum fi_op op, size_t *count)
{
	return ep->atomic->writevalid(ep, datatype, op, count);
}

/**
 * fi_fetch_atomicvalid() - check that fi_fetch_atomic() supports an operation
 * @ep: the endpoint
 * @datatype: type of an element
 * @op: the operation
 * @count: buffer for the maximum number of elements of one operation
 *
 * Context: Any context.
 * Return:
 * * 0 - the operation is supported, on as many elements as @count returns
 * * -FI_EOPNOTSUPP - the call does not support the operation, or not on that type;
 *   the device has no atomic operations
 * * -FI_ENOSYS - the endpoint was opened without FI_ATOMIC
 * * -FI_EINVAL - @count is %NULL
 */
static inline int fi_fetch_atomicvalid(struct fid_ep *ep,
				       enum fi_datatype datatype,
				       enum fi_op op, size_t *count)
{
	return ep->atomic->readwritevalid(ep, datatype, op, count);
}

/**
 * fi_compare_atomicvalid() - check that fi_compare_atomic() supports an operation
 * @ep: the endpoint
 * @datatype: type of an element
 * @op: the operation
 * @count: buffer for the maximum number of elements of one operation
 *
 * Context: Any context.
 * Return:
 * * 0 - the operation is supported, on as many elements as @count returns
 * * -FI_EOPNOTSUPP - the call does not support the operation, or not on that type;
 *   the device has no atomic operations
 * * -FI_ENOSYS - the endpoint was opened without FI_ATOMIC
 * * -FI_EINVAL - @count is %NULL
 */
static inline int fi_compare_atomicvalid(struct fid_ep *ep,
					 enum fi_datatype datatype,
					 enum fi_op op, size_t *count)
{
	return ep->atomic->compwritevalid(ep, datatype, op, count);
}

/**
 * fi_atomic_valid() - check that fi_atomic() supports a number of elements
 * @ep: the endpoint
 * @datatype: type of an element
 * @op: the operation
 * @count: number of elements; 0 checks the operation only
 *
 * Named as in the kfabric slides. Kernel addition.
 *
 * Context: Any context.
 * Return:
 * * 0 - the operation is supported for @count elements
 * * -FI_EMSGSIZE - the operation is supported for fewer elements only
 * * -FI_EOPNOTSUPP, -FI_ENOSYS - as for fi_atomicvalid()
 */
static inline int fi_atomic_valid(struct fid_ep *ep,
				  enum fi_datatype datatype,
				  enum fi_op op, size_t count)
{
	size_t most;
	int ret = fi_atomicvalid(ep, datatype, op, &most);

	if (!ret && count > most)
		return -FI_EMSGSIZE;
	return ret;
}

/**
 * fi_fetch_atomic_valid() - check that fi_fetch_atomic() supports a number of elements
 * @ep: the endpoint
 * @datatype: type of an element
 * @op: the operation
 * @count: number of elements; 0 checks the operation only
 *
 * Named as in the kfabric slides. Kernel addition.
 *
 * Context: Any context.
 * Return:
 * * 0 - the operation is supported for @count elements
 * * -FI_EMSGSIZE - the operation is supported for fewer elements only
 * * -FI_EOPNOTSUPP, -FI_ENOSYS - as for fi_fetch_atomicvalid()
 */
static inline int fi_fetch_atomic_valid(struct fid_ep *ep,
					enum fi_datatype datatype,
					enum fi_op op, size_t count)
{
	size_t most;
	int ret = fi_fetch_atomicvalid(ep, datatype, op, &most);

	if (!ret && count > most)
		return -FI_EMSGSIZE;
	return ret;
}

/**
 * fi_compare_atomic_valid() - check that fi_compare_atomic() supports a number of elements
 * @ep: the endpoint
 * @datatype: type of an element
 * @op: the operation
 * @count: number of elements; 0 checks the operation only
 *
 * Named as in the kfabric slides. Kernel addition.
 *
 * Context: Any context.
 * Return:
 * * 0 - the operation is supported for @count elements
 * * -FI_EMSGSIZE - the operation is supported for fewer elements only
 * * -FI_EOPNOTSUPP, -FI_ENOSYS - as for fi_compare_atomicvalid()
 */
static inline int fi_compare_atomic_valid(struct fid_ep *ep,
					  enum fi_datatype datatype,
					  enum fi_op op, size_t count)
{
	size_t most;
	int ret = fi_compare_atomicvalid(ep, datatype, op, &most);

	if (!ret && count > most)
		return -FI_EMSGSIZE;
	return ret;
}

/**
 * fi_query_atomic() - check that endpoints of a domain support an operation
 * @domain: the domain
 * @datatype: type of an element
 * @op: the operation
 * @attr: buffer for the limits
 * @flags: FI_FETCH_ATOMIC or FI_COMPARE_ATOMIC for those forms, FI_TAGGED
 *
 * Context: Any context.
 * Return:
 * * 0 - endpoints of the domain with FI_ATOMIC support the operation
 * * -FI_EOPNOTSUPP - the call does not support the operation, or not on that type;
 *   the device has no atomic operations; FI_TAGGED
 * * -FI_EBADFLAGS - both forms at once, or another flag
 * * -FI_EINVAL - @attr is %NULL
 */
static inline int fi_query_atomic(struct fid_domain *domain,
				  enum fi_datatype datatype, enum fi_op op,
				  struct fi_atomic_attr *attr, u64 flags)
{
	return FI_CHECK_OP(domain->ops, struct fi_ops_domain, query_atomic) ?
		domain->ops->query_atomic(domain, datatype, op, attr, flags) :
		-FI_ENOSYS;
}

#endif /* FI_ATOMIC_H */
