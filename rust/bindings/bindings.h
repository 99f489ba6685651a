/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Input of bindgen: the kernel's RDMA headers. Types of other headers come from
 * the bindings of the `kernel` crate, so that both crates have the same types.
 */

#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/rdma_cm.h>
#include <rdma/restrack.h>
