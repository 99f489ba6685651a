/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads: the kernel's RDMA headers. Types of other headers come
 * from the `kernel` crate's own bindings, so that they are the same types
 * there and here.
 */

#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/rdma_cm.h>
#include <rdma/restrack.h>
