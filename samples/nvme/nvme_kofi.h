/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An NVMe over Fabrics host on connected endpoints of kOFI: the structs that its files share.
 *
 * ctrl.c has the controller: its setup, error recovery and removal. queue.c has the connections
 * and their completions, request.c the requests of the block layer.
 */

#ifndef NVME_KOFI_H
#define NVME_KOFI_H

#include <linux/blk-mq.h>
#include <linux/nvme-rdma.h>
#include <linux/scatterlist.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_ext.h>

/* Headers of nvme-core, in drivers/nvme/host of the kernel's source tree */
#include "nvme.h"
#include "fabrics.h"

struct nvme_kofi_ctrl;

/* A response of the controller. Each has its own cache lines, as the device writes it. */
struct nvme_kofi_response {
	struct nvme_completion	cqe;
} ____cacheline_aligned;

/* A queue pair of the controller: one connection. Queue 0 is the admin queue. */
struct nvme_kofi_queue {
	struct nvme_kofi_ctrl	*host;
	u16			qid;
	/* Accepts requests: nvme-core's connect command has succeeded. */
	bool			live;
	/* The completion handler no longer uses the endpoint and requests. */
	bool			stopped;
	struct fid_ep		*ep;
	struct fid_cq		*cq;
	/* Receive buffers, registered for local use */
	struct nvme_kofi_response *responses;
	struct fid_mr		*mr;
	/* Serializes stopping and closing, as requests that time out stop their queue. */
	struct mutex		lock;
};

struct nvme_kofi_ctrl {
	struct nvme_ctrl	ctrl;
	struct blk_mq_tag_set	admin_tag_set;
	struct blk_mq_tag_set	tag_set;
	/* The device by which the target is reached; open from the setup to the teardown */
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_eq		*eq;
	struct fid_domain	*domain;
	/* Completion vectors of the device, and pages of 4 KiB of the largest request */
	u32			vectors;
	size_t			max_pages;
	/* The controller takes data within command capsules. */
	bool			in_capsule;
	struct nvme_command	async_event;
	struct work_struct	recovery_work;
	struct delayed_work	reconnect_work;
	/* Entry in the list of controllers; empty until it has been created */
	struct list_head	entry;
	/* The admin queue, and as many I/O queues as the options ask for */
	struct nvme_kofi_queue	queues[];
};

/*
 * Events after which a request ends. The completion queue of the connection reports all of them,
 * and its handler runs on one CPU at a time.
 */
enum {
	REQ_SENT	= BIT(0),	/* the command has been sent */
	REQ_ANSWERED	= BIT(1),	/* the response has arrived */
	REQ_RELEASED	= BIT(2),	/* the target no longer has access to the data */
	REQ_DONE	= REQ_SENT | REQ_ANSWERED | REQ_RELEASED,
};

struct nvme_kofi_request {
	struct nvme_request	req;
	struct nvme_command	cmd;
	/* The data that the target accesses, from posting to the end of the access */
	struct fid_mr		*mr;
	atomic_t		done;
	__le16			status;
	union nvme_result	result;
	struct sg_table		table;
	/* The command, and a link to the data */
	struct scatterlist	head[2];
	/* The first entries of the table */
	struct scatterlist	first[NVME_INLINE_SG_CNT];
};

static inline struct nvme_kofi_ctrl *to_host(struct nvme_ctrl *ctrl)
{
	return container_of(ctrl, struct nvme_kofi_ctrl, ctrl);
}

/* ctrl.c */
void nvme_kofi_recover(struct nvme_kofi_ctrl *host);

/* queue.c */
int nvme_kofi_open_device(struct nvme_kofi_ctrl *host);
void nvme_kofi_close_device(struct nvme_kofi_ctrl *host);
int nvme_kofi_open_queue(struct nvme_kofi_queue *queue, u16 depth);
int nvme_kofi_stop_queue(struct nvme_kofi_queue *queue);
void nvme_kofi_close_queue(struct nvme_kofi_queue *queue);

/* request.c */
extern const struct blk_mq_ops nvme_kofi_mq_ops;
void nvme_kofi_set_null_sgl(struct nvme_command *cmd);
void nvme_kofi_finish(struct nvme_kofi_request *req, u32 events);
bool nvme_kofi_release(struct request *rq, void *queue);

#endif /* NVME_KOFI_H */
