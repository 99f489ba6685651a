/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Transfers of HPE's kfabric that take pages or scatterlists, with the default
 * flags of the endpoint. Included by kfi.h.
 */

#ifndef KFI_VECTOR_H
#define KFI_VECTOR_H

#include <rdma/kfi_msg.h>

/* Returns the default flags of an endpoint in one direction. */
static inline u64 kfi_op_flags(struct fid_ep *ep, u64 direction)
{
	u64 flags = direction;

	return fi_control(&ep->fid, FI_GETOPSFLAG, &flags) ? 0 : flags;
}

/* Returns the default flags of tagged receives, which take one message each. */
static inline u64 kfi_trecv_flags(struct fid_ep *ep)
{
	return kfi_op_flags(ep, FI_RECV) & ~FI_MULTI_RECV;
}

/* Returns the default flags of reads: those of transmits that concern no outbound data. */
static inline u64 kfi_read_flags(struct fid_ep *ep)
{
	return kfi_op_flags(ep, FI_TRANSMIT) &
	       ~(FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
		 FI_DELIVERY_COMPLETE);
}

static inline size_t kfi_bvec_bytes(const struct bio_vec *vec, size_t count)
{
	size_t bytes = 0;

	for (; vec && count; count--, vec++)
		bytes += vec->bv_len;
	return bytes;
}

/**
 * kfi_sendbv() - send a message from pages
 * @ep: the endpoint
 * @biov: the pages
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @biov
 * @dest_addr: the peer
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_sendv().
 */
static inline ssize_t kfi_sendbv(struct fid_ep *ep, const struct bio_vec *biov,
				 void **desc, size_t count, fi_addr_t dest_addr,
				 void *context)
{
	const struct kfi_msg msg = {
		.type = KFI_BVEC,
		.msg_biov = biov,
		.desc = desc,
		.iov_count = count,
		.addr = dest_addr,
		.context = context,
	};

	return kfi_sendmsg(ep, &msg, kfi_op_flags(ep, FI_TRANSMIT));
}

/**
 * kfi_sendsgl() - send a message from a scatterlist
 * @ep: the endpoint
 * @sgl: the list, which is mapped for DMA
 * @desc: a descriptor for each entry, or %NULL
 * @count: mapped segments of @sgl
 * @dest_addr: the peer
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_sendv(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_sendsgl(struct fid_ep *ep,
				  const struct scatterlist *sgl, void **desc,
				  size_t count, fi_addr_t dest_addr,
				  void *context)
{
	const struct kfi_msg msg = {
		.type = KFI_SGL,
		.msg_sgl = sgl,
		.desc = desc,
		.iov_count = count,
		.addr = dest_addr,
		.context = context,
	};

	return kfi_sendmsg(ep, &msg, kfi_op_flags(ep, FI_TRANSMIT));
}

/**
 * kfi_recvbv() - post pages for a message
 * @ep: the endpoint
 * @biov: the pages
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @biov
 * @src_addr: the peer to receive from
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_recvv().
 */
static inline ssize_t kfi_recvbv(struct fid_ep *ep, const struct bio_vec *biov,
				 void **desc, size_t count, fi_addr_t src_addr,
				 void *context)
{
	const struct kfi_msg msg = {
		.type = KFI_BVEC,
		.msg_biov = biov,
		.desc = desc,
		.iov_count = count,
		.addr = src_addr,
		.context = context,
	};

	return kfi_recvmsg(ep, &msg, kfi_op_flags(ep, FI_RECV));
}

/**
 * kfi_recvsgl() - post a scatterlist for a message
 * @ep: the endpoint
 * @sgl: the list, which is mapped for DMA
 * @desc: a descriptor for each entry, or %NULL
 * @count: mapped segments of @sgl
 * @src_addr: the peer to receive from
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_recvv(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_recvsgl(struct fid_ep *ep,
				  const struct scatterlist *sgl, void **desc,
				  size_t count, fi_addr_t src_addr,
				  void *context)
{
	const struct kfi_msg msg = {
		.type = KFI_SGL,
		.msg_sgl = sgl,
		.desc = desc,
		.iov_count = count,
		.addr = src_addr,
		.context = context,
	};

	return kfi_recvmsg(ep, &msg, kfi_op_flags(ep, FI_RECV));
}

/**
 * kfi_tsendbv() - send a tagged message from pages
 * @ep: the endpoint
 * @biov: the pages
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @biov
 * @dest_addr: the peer
 * @tag: the tag
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_tsendv().
 */
static inline ssize_t kfi_tsendbv(struct fid_ep *ep, const struct bio_vec *biov,
				  void **desc, size_t count,
				  fi_addr_t dest_addr, u64 tag, void *context)
{
	const struct kfi_msg_tagged msg = {
		.type = KFI_BVEC,
		.msg_biov = biov,
		.desc = desc,
		.iov_count = count,
		.addr = dest_addr,
		.tag = tag,
		.context = context,
	};

	return kfi_tsendmsg(ep, &msg, kfi_op_flags(ep, FI_TRANSMIT));
}

/**
 * kfi_tsendsgl() - send a tagged message from a scatterlist
 * @ep: the endpoint
 * @sgl: the list, which is mapped for DMA
 * @desc: a descriptor for each entry, or %NULL
 * @count: mapped segments of @sgl
 * @dest_addr: the peer
 * @tag: the tag
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_tsendv(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_tsendsgl(struct fid_ep *ep,
				   const struct scatterlist *sgl, void **desc,
				   size_t count, fi_addr_t dest_addr, u64 tag,
				   void *context)
{
	const struct kfi_msg_tagged msg = {
		.type = KFI_SGL,
		.msg_sgl = sgl,
		.desc = desc,
		.iov_count = count,
		.addr = dest_addr,
		.tag = tag,
		.context = context,
	};

	return kfi_tsendmsg(ep, &msg, kfi_op_flags(ep, FI_TRANSMIT));
}

/**
 * kfi_trecvbv() - post pages for a tagged message
 * @ep: the endpoint
 * @biov: the pages
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @biov
 * @src_addr: the peer to receive from
 * @tag: the tag
 * @ignore: tag bits to ignore
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_trecvv().
 */
static inline ssize_t kfi_trecvbv(struct fid_ep *ep, const struct bio_vec *biov,
				  void **desc, size_t count, fi_addr_t src_addr,
				  u64 tag, u64 ignore, void *context)
{
	const struct kfi_msg_tagged msg = {
		.type = KFI_BVEC,
		.msg_biov = biov,
		.desc = desc,
		.iov_count = count,
		.addr = src_addr,
		.tag = tag,
		.ignore = ignore,
		.context = context,
	};

	return kfi_trecvmsg(ep, &msg, kfi_trecv_flags(ep));
}

/**
 * kfi_trecvsgl() - post a scatterlist for a tagged message
 * @ep: the endpoint
 * @sgl: the list, which is mapped for DMA
 * @desc: a descriptor for each entry, or %NULL
 * @count: mapped segments of @sgl
 * @src_addr: the peer to receive from
 * @tag: the tag
 * @ignore: tag bits to ignore
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_trecvv(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_trecvsgl(struct fid_ep *ep,
				   const struct scatterlist *sgl, void **desc,
				   size_t count, fi_addr_t src_addr, u64 tag,
				   u64 ignore, void *context)
{
	const struct kfi_msg_tagged msg = {
		.type = KFI_SGL,
		.msg_sgl = sgl,
		.desc = desc,
		.iov_count = count,
		.addr = src_addr,
		.tag = tag,
		.ignore = ignore,
		.context = context,
	};

	return kfi_trecvmsg(ep, &msg, kfi_trecv_flags(ep));
}

/**
 * kfi_readbv() - read a peer's memory into pages
 * @ep: the endpoint
 * @biov: the pages
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @biov
 * @src_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_readv().
 */
static inline ssize_t kfi_readbv(struct fid_ep *ep, const struct bio_vec *biov,
				 void **desc, size_t count, fi_addr_t src_addr,
				 u64 addr, u64 key, void *context)
{
	const struct fi_rma_iov remote = {
		.addr = addr,
		.len = kfi_bvec_bytes(biov, count),
		.key = key,
	};
	const struct kfi_msg_rma msg = {
		.type = KFI_BVEC,
		.msg_biov = biov,
		.desc = desc,
		.iov_count = count,
		.addr = src_addr,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = context,
	};

	return kfi_readmsg(ep, &msg, kfi_read_flags(ep));
}

/**
 * kfi_readsgl() - read a peer's memory into a scatterlist
 * @ep: the endpoint
 * @sgl: the list, which is mapped for DMA
 * @desc: a descriptor for each entry, or %NULL
 * @count: mapped segments of @sgl
 * @src_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_readv(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_readsgl(struct fid_ep *ep,
				  const struct scatterlist *sgl, void **desc,
				  size_t count, fi_addr_t src_addr, u64 addr,
				  u64 key, void *context)
{
	const struct fi_rma_iov remote = {
		.addr = addr,
		.len = kfi_sgl_bytes(sgl, count),
		.key = key,
	};
	const struct kfi_msg_rma msg = {
		.type = KFI_SGL,
		.msg_sgl = sgl,
		.desc = desc,
		.iov_count = count,
		.addr = src_addr,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = context,
	};

	return kfi_readmsg(ep, &msg, kfi_read_flags(ep));
}

/**
 * kfi_writebv() - write pages to a peer's memory
 * @ep: the endpoint
 * @biov: the pages
 * @desc: a descriptor for each entry, or %NULL
 * @count: entries in @biov
 * @dest_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_writev().
 */
static inline ssize_t kfi_writebv(struct fid_ep *ep, const struct bio_vec *biov,
				  void **desc, size_t count,
				  fi_addr_t dest_addr, u64 addr, u64 key,
				  void *context)
{
	const struct fi_rma_iov remote = {
		.addr = addr,
		.len = kfi_bvec_bytes(biov, count),
		.key = key,
	};
	const struct kfi_msg_rma msg = {
		.type = KFI_BVEC,
		.msg_biov = biov,
		.desc = desc,
		.iov_count = count,
		.addr = dest_addr,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = context,
	};

	return kfi_writemsg(ep, &msg, kfi_op_flags(ep, FI_TRANSMIT));
}

/**
 * kfi_writesgl() - write a scatterlist to a peer's memory
 * @ep: the endpoint
 * @sgl: the list, which is mapped for DMA
 * @desc: a descriptor for each entry, or %NULL
 * @count: mapped segments of @sgl
 * @dest_addr: the peer
 * @addr: remote address
 * @key: key of the remote region
 * @context: context of the operation
 *
 * Context: Any context. Data call.
 * Return: As for fi_writev(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_writesgl(struct fid_ep *ep,
				   const struct scatterlist *sgl, void **desc,
				   size_t count, fi_addr_t dest_addr, u64 addr,
				   u64 key, void *context)
{
	const struct fi_rma_iov remote = {
		.addr = addr,
		.len = kfi_sgl_bytes(sgl, count),
		.key = key,
	};
	const struct kfi_msg_rma msg = {
		.type = KFI_SGL,
		.msg_sgl = sgl,
		.desc = desc,
		.iov_count = count,
		.addr = dest_addr,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = context,
	};

	return kfi_writemsg(ep, &msg, kfi_op_flags(ep, FI_TRANSMIT));
}

#endif /* KFI_VECTOR_H */
