/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names that the examples of the documentation use. Each example is compiled as
 * a function of its own, and never linked.
 */

#ifndef KOFI_EXAMPLES_GIVEN_H
#define KOFI_EXAMPLES_GIVEN_H

#include <linux/in.h>
#include <linux/module.h>
#include <linux/wait.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>

#include "connection.h"
#include "listener.h"

/* Objects */
extern struct fi_info *hints, *info;
extern struct fid_fabric *fabric;
extern struct fid_domain *domain, *domain_b, *offload_domain;
extern struct fid_eq *eq;
extern struct fid_cq *cq, *cq_a, *cq_b;
extern struct fid_ep *srx_a, *srx_b;
extern struct fid_cntr *cntr;
extern struct fid_av *av;
extern struct fid_av_set *set;
extern struct fid_mr *mr;
extern struct fid_ep *ep;
extern struct fid_pep *pep;
extern struct fid *fid;
extern struct fi_cq_attr cq_attr;
extern struct fi_eq_attr eq_attr;

/* Memory, and its remote address and key */
extern void *buf, *in, *out, *data, *desc, *context;
extern size_t len, size, space, slots, window;
extern struct bio_vec *bvec;
extern u64 one, *ticket;
extern struct offer {
	u64 addr;
	u64 key;
} offer;

/* Addresses, results and completion entries */
extern const char *addr, *port;
extern fi_addr_t peer;
extern u64 flags;
extern int ret, i, count, timeout;
extern ssize_t n;
extern u32 event;
extern struct fi_eq_cm_entry *entry;
extern struct fi_cq_msg_entry entries[16], *comp, received, sent;

/* Data of the consumer */
extern wait_queue_head_t *queue;
extern struct connection *conn;
extern struct listener *listener;
void serve(void *context);

#endif /* KOFI_EXAMPLES_GIVEN_H */
