/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Registrations of kfabric: of pages and scatterlists, as in HPE's, and with ten
 * arguments, as in 2016. Included by kfi.h.
 */

#ifndef KFI_MR_H
#define KFI_MR_H

#include <linux/args.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <rdma/fi_domain.h>
#include <rdma/kfi_msg.h>

/* Nine arguments, as in HPE's, or ten, as in 2016 */
#define kfi_mr_reg(...) \
	CONCATENATE(kfi_mr_reg_, COUNT_ARGS(__VA_ARGS__))(__VA_ARGS__)
#define kfi_mr_reg_9	fi_mr_reg

/**
 * kfi_mr_reg_10() - kfi_mr_reg() of 2016, which returns an address
 * @domain: the domain
 * @buf: the memory
 * @len: its length
 * @access: rights, as for fi_mr_reg()
 * @offset: reserved, 0
 * @requested_key: ignored
 * @flags: reserved, 0
 * @mr: the region
 * @context: stored in the fid
 * @addr: the address of @buf for peers, or %NULL
 *
 * Context: Process context, may sleep.
 * Return: As for fi_mr_reg().
 */
static inline int kfi_mr_reg_10(struct fid_domain *domain, const void *buf,
				size_t len, u64 access, u64 offset,
				u64 requested_key, u64 flags,
				struct fid_mr **mr, void *context, u64 *addr)
{
	int ret = fi_mr_reg(domain, buf, len, access, offset, requested_key,
			    flags, mr, context);

	if (!ret && addr)
		*addr = (*mr)->iova;
	return ret;
}

/**
 * struct kfi_mr_attr - memory to register, and its access rights
 * @type: type of the vector
 * @mr_iov: the ranges, with KFI_KVEC
 * @mr_biov: the ranges, with KFI_BVEC
 * @mr_sgl: the ranges, with KFI_SGL
 * @iov_count: entries in the vector
 * @access: rights, as in &struct fi_mr_attr
 * @offset: reserved, 0
 * @requested_key: ignored
 * @context: stored in the fid
 * @auth_key_size: ignored
 * @auth_key: ignored
 */
struct kfi_mr_attr {
	enum kfi_iov_type		type;
	union {
		const struct kvec	*mr_iov;
		const struct bio_vec	*mr_biov;
		const struct scatterlist *mr_sgl;
	};
	size_t				iov_count;
	u64				access;
	u64				offset;
	u64				requested_key;
	void				*context;
	size_t				auth_key_size;
	u8				*auth_key;
};

/* Largest number of ranges, above the limit of every device */
#define KFI_MR_RANGES	1024

/* Writes the kernel addresses of @count pages' ranges; false if there is a page missing. */
static inline bool kfi_bvec_kvec(const struct bio_vec *biov, size_t count,
				 struct kvec *iov)
{
	for (; count; count--, biov++, iov++) {
		if (!biov->bv_page)
			return false;
		iov->iov_base = page_address(biov->bv_page) + biov->bv_offset;
		iov->iov_len = biov->bv_len;
	}
	return true;
}

/* Does the same as kfi_bvec_kvec() for a scatterlist. */
static inline bool kfi_sgl_kvec(const struct scatterlist *sgl, size_t count,
				struct kvec *iov)
{
	struct scatterlist *sg = (struct scatterlist *)sgl;

	for (; count; count--, sg = sg_next(sg), iov++) {
		if (!sg_page(sg))
			return false;
		iov->iov_base = sg_virt(sg);
		iov->iov_len = sg->length;
	}
	return true;
}

/**
 * kfi_mr_regattr() - register memory of a vector of any type
 * @domain: the domain
 * @attr: the memory and its rights
 * @flags: reserved, 0
 * @mr: the region
 *
 * Pages are registered by their kernel addresses.
 *
 * Context: Process context, may sleep.
 * Return: As for fi_mr_regattr(); -FI_EINVAL for an unknown &kfi_mr_attr.type, a
 *	scatterlist that is not mapped, and pages that do not exist.
 */
static inline int kfi_mr_regattr(struct fid_domain *domain,
				 const struct kfi_mr_attr *attr, u64 flags,
				 struct fid_mr **mr)
{
	size_t count = attr->iov_count;
	struct kvec *iov;
	bool is_made;
	int ret;

	if (!attr->type || attr->type == KFI_KVEC)
		return fi_mr_regv(domain, attr->mr_iov, count, attr->access,
				  attr->offset, attr->requested_key, flags, mr,
				  attr->context);
	if (attr->type != KFI_BVEC && attr->type != KFI_SGL)
		return -FI_EINVAL;
	if (attr->type == KFI_SGL)
		count = kfi_sgl_entries(attr->mr_sgl, count);
	if (!attr->mr_biov || !count || count > KFI_MR_RANGES)
		return -FI_EINVAL;
	iov = kvmalloc_array(count, sizeof(*iov), GFP_KERNEL);
	if (!iov)
		return -FI_ENOMEM;
	is_made = attr->type == KFI_SGL ? kfi_sgl_kvec(attr->mr_sgl, count, iov) :
					  kfi_bvec_kvec(attr->mr_biov, count, iov);
	ret = is_made ? fi_mr_regv(domain, iov, count, attr->access,
				   attr->offset, attr->requested_key, flags, mr,
				   attr->context) : -FI_EINVAL;
	kvfree(iov);
	return ret;
}

/**
 * kfi_mr_regbv() - register pages
 * @domain: the domain
 * @biov: the pages
 * @count: entries in @biov
 * @access: rights, as for fi_mr_reg()
 * @offset: reserved, 0
 * @requested_key: ignored
 * @flags: reserved, 0
 * @mr: the region
 * @context: stored in the fid
 *
 * Context: Process context, may sleep.
 * Return: As for kfi_mr_regattr().
 */
static inline int kfi_mr_regbv(struct fid_domain *domain,
			       const struct bio_vec *biov, size_t count,
			       u64 access, u64 offset, u64 requested_key,
			       u64 flags, struct fid_mr **mr, void *context)
{
	const struct kfi_mr_attr attr = {
		.type = KFI_BVEC,
		.mr_biov = biov,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context,
	};

	return kfi_mr_regattr(domain, &attr, flags, mr);
}

/**
 * kfi_mr_regsgl() - register the pages of a scatterlist
 * @domain: the domain
 * @sgl: the list, which is mapped for DMA
 * @count: mapped segments of @sgl
 * @access: rights, as for fi_mr_reg()
 * @offset: reserved, 0
 * @requested_key: ignored
 * @flags: reserved, 0
 * @mr: the region
 * @context: stored in the fid
 *
 * Context: Process context, may sleep.
 * Return: As for kfi_mr_regattr().
 */
static inline int kfi_mr_regsgl(struct fid_domain *domain,
				const struct scatterlist *sgl, size_t count,
				u64 access, u64 offset, u64 requested_key,
				u64 flags, struct fid_mr **mr, void *context)
{
	const struct kfi_mr_attr attr = {
		.type = KFI_SGL,
		.mr_sgl = sgl,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context,
	};

	return kfi_mr_regattr(domain, &attr, flags, mr);
}

#endif /* KFI_MR_H */
