/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Transfers of HPE's kfabric whose structs name the type of their vector. Included
 * by kfi.h.
 */

#ifndef KFI_MSG_H
#define KFI_MSG_H

#include <linux/bvec.h>
#include <linux/scatterlist.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/**
 * enum kfi_iov_type - type of a vector; 0, as in 2016, means KFI_KVEC
 * @KFI_KVEC: kernel addresses
 * @KFI_BVEC: pages
 * @KFI_SGL: segments of a scatterlist that dma_map_sg() has mapped, which may be
 *	fewer than the entries of the list
 */
enum kfi_iov_type {
	KFI_KVEC = 1,
	KFI_BVEC,
	KFI_SGL,
};

/**
 * struct kfi_msg - a message to send or to receive
 * @type: type of the vector
 * @msg_iov: the buffers, with KFI_KVEC
 * @msg_biov: the buffers, with KFI_BVEC
 * @msg_sgl: the buffers, with KFI_SGL
 * @desc: a descriptor for each buffer, or %NULL
 * @iov_count: entries in the vector
 * @addr: the peer
 * @context: context of the operation
 * @data: remote CQ data
 */
struct kfi_msg {
	enum kfi_iov_type		type;
	union {
		const struct kvec	*msg_iov;
		const struct bio_vec	*msg_biov;
		const struct scatterlist *msg_sgl;
	};
	void				**desc;
	size_t				iov_count;
	fi_addr_t			addr;
	void				*context;
	u64				data;
};

/**
 * struct kfi_msg_tagged - a tagged message to send or to receive
 * @type: type of the vector
 * @msg_iov: the buffers, with KFI_KVEC
 * @msg_biov: the buffers, with KFI_BVEC
 * @msg_sgl: the buffers, with KFI_SGL
 * @desc: a descriptor for each buffer, or %NULL
 * @iov_count: entries in the vector
 * @addr: the peer
 * @tag: the tag
 * @ignore: tag bits that a receive ignores
 * @context: context of the operation
 * @data: remote CQ data
 */
struct kfi_msg_tagged {
	enum kfi_iov_type		type;
	union {
		const struct kvec	*msg_iov;
		const struct bio_vec	*msg_biov;
		const struct scatterlist *msg_sgl;
	};
	void				**desc;
	size_t				iov_count;
	fi_addr_t			addr;
	u64				tag;
	u64				ignore;
	void				*context;
	u64				data;
};

/**
 * struct kfi_msg_rma - an RMA operation
 * @type: type of the vector
 * @msg_iov: the local buffers, with KFI_KVEC
 * @msg_biov: the local buffers, with KFI_BVEC
 * @msg_sgl: the local buffers, with KFI_SGL
 * @desc: a descriptor for each buffer, or %NULL
 * @iov_count: entries in the vector
 * @addr: the peer
 * @rma_iov: the remote ranges
 * @rma_iov_count: entries in @rma_iov
 * @context: context of the operation
 * @data: remote CQ data
 */
struct kfi_msg_rma {
	enum kfi_iov_type		type;
	union {
		const struct kvec	*msg_iov;
		const struct bio_vec	*msg_biov;
		const struct scatterlist *msg_sgl;
	};
	void				**desc;
	size_t				iov_count;
	fi_addr_t			addr;
	const struct fi_rma_iov		*rma_iov;
	size_t				rma_iov_count;
	void				*context;
	u64				data;
};

static inline size_t kfi_sgl_bytes(const struct scatterlist *sgl, size_t count)
{
	struct scatterlist *sg = (struct scatterlist *)sgl;
	size_t bytes = 0;

	for (; sg && count; count--, sg = sg_next(sg))
		bytes += sg_dma_len(sg);
	return bytes;
}

/*
 * Returns the number of entries whose pages are the @count mapped segments of @sgl:
 * dma_map_sg() may merge entries, and leaves the lengths of their pages unchanged.
 * SIZE_MAX, which no call accepts, if the list is not mapped, or if its pages have
 * other lengths than the mapping.
 */
static inline size_t kfi_sgl_entries(const struct scatterlist *sgl, size_t count)
{
	struct scatterlist *sg = (struct scatterlist *)sgl;
	size_t left, entries = 0;

	if (!sg || !count)
		return count;
	if (!sg_dma_address(sg))
		return SIZE_MAX;
	for (left = kfi_sgl_bytes(sgl, count); sg && left; sg = sg_next(sg)) {
		if (sg->length > left)
			return SIZE_MAX;
		left -= sg->length;
		entries++;
	}
	return left ? SIZE_MAX : entries;
}

/*
 * Converts the vector of a struct of kfabric for a call of kOFI; adds the flag of
 * the vector's type to @flags: for an unknown type, flags that no call accepts.
 */
#define kfi_convert(plain, from, flags) do {				\
	size_t _count = (from)->iov_count;				\
									\
	switch ((int)(from)->type) {					\
	case 0:								\
	case KFI_KVEC:							\
		break;							\
	case KFI_BVEC:							\
		(flags) |= FI_BVEC;					\
		break;							\
	case KFI_SGL:							\
		(flags) |= FI_SGL;					\
		_count = kfi_sgl_entries((from)->msg_sgl, _count);	\
		break;							\
	default:							\
		(flags) |= FI_BVEC | FI_SGL;				\
	}								\
	(plain)->msg_iov = (from)->msg_iov;				\
	(plain)->iov_count = _count;					\
	/* Descriptors of segments that are several entries have no use. */ \
	(plain)->desc = _count == (from)->iov_count ? (from)->desc : NULL; \
	(plain)->addr = (from)->addr;					\
	(plain)->context = (from)->context;				\
	(plain)->data = (from)->data;					\
} while (0)

/**
 * kfi_sendmsg() - fi_sendmsg() with HPE's struct
 * @ep: the endpoint
 * @msg: the message
 * @flags: as for fi_sendmsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_sendmsg(); -FI_EBADFLAGS for an unknown &kfi_msg.type,
 *	-FI_EINVAL for a scatterlist that is not mapped.
 */
static inline ssize_t kfi_sendmsg(struct fid_ep *ep, const struct kfi_msg *msg,
				  u64 flags)
{
	struct fi_msg plain;

	kfi_convert(&plain, msg, flags);
	return fi_sendmsg(ep, &plain, flags);
}

/**
 * kfi_recvmsg() - fi_recvmsg() with HPE's struct
 * @ep: the endpoint
 * @msg: the receive
 * @flags: as for fi_recvmsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_recvmsg(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_recvmsg(struct fid_ep *ep, const struct kfi_msg *msg,
				  u64 flags)
{
	struct fi_msg plain;

	kfi_convert(&plain, msg, flags);
	return fi_recvmsg(ep, &plain, flags);
}

/**
 * kfi_tsendmsg() - fi_tsendmsg() with HPE's struct
 * @ep: the endpoint
 * @msg: the message
 * @flags: as for fi_tsendmsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_tsendmsg(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_tsendmsg(struct fid_ep *ep,
				   const struct kfi_msg_tagged *msg, u64 flags)
{
	struct fi_msg_tagged plain = { .tag = msg->tag, .ignore = msg->ignore };

	kfi_convert(&plain, msg, flags);
	return fi_tsendmsg(ep, &plain, flags);
}

/**
 * kfi_trecvmsg() - fi_trecvmsg() with HPE's struct
 * @ep: the endpoint
 * @msg: the receive
 * @flags: as for fi_trecvmsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_trecvmsg(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_trecvmsg(struct fid_ep *ep,
				   const struct kfi_msg_tagged *msg, u64 flags)
{
	struct fi_msg_tagged plain = { .tag = msg->tag, .ignore = msg->ignore };

	kfi_convert(&plain, msg, flags);
	return fi_trecvmsg(ep, &plain, flags);
}

/**
 * kfi_readmsg() - fi_readmsg() with HPE's struct
 * @ep: the endpoint
 * @msg: the operation
 * @flags: as for fi_readmsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_readmsg(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_readmsg(struct fid_ep *ep,
				  const struct kfi_msg_rma *msg, u64 flags)
{
	struct fi_msg_rma plain = {
		.rma_iov = msg->rma_iov,
		.rma_iov_count = msg->rma_iov_count,
	};

	kfi_convert(&plain, msg, flags);
	return fi_readmsg(ep, &plain, flags);
}

/**
 * kfi_writemsg() - fi_writemsg() with HPE's struct
 * @ep: the endpoint
 * @msg: the operation
 * @flags: as for fi_writemsg()
 *
 * Context: Any context. Data call.
 * Return: As for fi_writemsg(), and the errors of kfi_sendmsg().
 */
static inline ssize_t kfi_writemsg(struct fid_ep *ep,
				   const struct kfi_msg_rma *msg, u64 flags)
{
	struct fi_msg_rma plain = {
		.rma_iov = msg->rma_iov,
		.rma_iov_count = msg->rma_iov_count,
	};

	kfi_convert(&plain, msg, flags);
	return fi_writemsg(ep, &plain, flags);
}

#endif /* KFI_MSG_H */
