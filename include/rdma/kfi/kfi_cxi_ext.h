/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Extensions of HPE's cxi provider, declared so that code which uses them where
 * they exist compiles. kOFI has no such provider: kfi_open_ops() of
 * KFI_CXI_FAB_OPS_1 is -FI_ENOSYS, and no address is a struct kcxi_addr.
 */

#ifndef KFI_CXI_EXT_H
#define KFI_CXI_EXT_H

#include <rdma/kfi.h>

/* Operations of a fabric, for kfi_open_ops() */
#define KFI_CXI_FAB_OPS_1	"cxi_fab_ops_v1"

/**
 * struct kfi_cxi_fabric_ops - operations of KFI_CXI_FAB_OPS_1
 * @enable_dynamic_rsrc_alloc: selects the limits of resources: those of the domain's
 *	attributes, or those of the provider's parameters
 */
struct kfi_cxi_fabric_ops {
	int (*enable_dynamic_rsrc_alloc)(struct fid *fid, bool enable);
};

/**
 * struct kcxi_addr - an address of format KFI_ADDR_CXI
 * @pid: endpoint of the adapter
 * @nic: the adapter
 * @flags: of the provider
 * @qw: the whole address
 */
struct kcxi_addr {
	union {
		struct {
			u64	pid:12;
			u64	nic:20;
			u64	flags:10;
		};
		u64		qw;
	};
};

#endif /* KFI_CXI_EXT_H */
