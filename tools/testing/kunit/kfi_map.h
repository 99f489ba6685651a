/* SPDX-License-Identifier: GPL-2.0 */
/* Maps scatterlists as dma_map_sg() does for devices without an IOMMU. */

#ifndef KOFI_KUNIT_KFI_MAP_H
#define KOFI_KUNIT_KFI_MAP_H

#include <linux/scatterlist.h>

/* Maps each entry as a segment of its own, as ib_dma_map_sg() does for software devices. */
static inline void kfi_map(struct scatterlist *sgl, int count)
{
	struct scatterlist *sg;
	int i;

	for_each_sg(sgl, sg, count, i) {
		sg_dma_address(sg) = (uintptr_t)sg_virt(sg);
		sg_dma_len(sg) = sg->length;
	}
}

#endif /* KOFI_KUNIT_KFI_MAP_H */
