/* SPDX-License-Identifier: GPL-2.0 */
/* Names that the examples for user space use. */

#ifndef KOFI_EXAMPLES_GIVEN_USER_H
#define KOFI_EXAMPLES_GIVEN_USER_H

#include <poll.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

extern struct fi_info *hints, *info;
extern struct fid_fabric *fabric;
extern struct fid_domain *domain;
extern struct fid_cq *cq;
extern struct fid_mr *mr;
extern struct fid_ep *ep;
extern struct fid *fid;
extern struct header {
	char text[8];
} *head;
extern void *body, *desc[2], *context;
extern size_t len;
extern int fd;

#endif
