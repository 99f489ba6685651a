/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Input of bindgen: the headers of the C API. Types of the kernel's own headers
 * come from the `kernel` crate's bindings, so both crates have the same types.
 */

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_trigger.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>
#include <uapi/linux/kofi.h>

/* bindgen cannot evaluate these constants, which rust/abi.rs defines itself. */
static_assert(FI_ADDR_UNSPEC == U64_MAX);
static_assert(FI_ADDR_NOTAVAIL == U64_MAX);
static_assert(FI_KEY_NOTAVAIL == U64_MAX);
static_assert(FI_SHARED_CONTEXT == SIZE_MAX);
