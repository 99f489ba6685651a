// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of the block layer: each is one message to the controller, and its data are part of
 * the message, or a memory region that the target reads or writes.
 */

#include <linux/unaligned.h>
#include "nvme_kofi.h"

/* Sets the SGL of a command without data. */
void nvme_kofi_set_null_sgl(struct nvme_command *cmd)
{
	struct nvme_keyed_sgl_desc *sgl = &cmd->common.dptr.ksgl;

	cmd->common.flags |= NVME_CMD_SGL_METABUF;
	memset(sgl, 0, sizeof(*sgl));
	sgl->type = NVME_KEY_SGL_FMT_DATA_DESC << 4;
}

/* Returns whether the data of a request, in @count segments, are sent in the command capsule. */
static bool is_in_capsule(struct nvme_kofi_queue *queue, struct request *rq, int count)
{
	struct nvme_kofi_ctrl *host = queue->host;
	size_t space = host->ctrl.ioccsz * 16;

	return queue->qid && host->in_capsule && rq_data_dir(rq) == WRITE &&
	       count < host->info->tx_attr->iov_limit &&
	       sizeof(struct nvme_command) + blk_rq_payload_bytes(rq) <= space;
}

/*
 * Registers the data as a memory region with only the remote right that the command needs, and
 * describes the region in the command.
 */
static int map_region(struct nvme_kofi_queue *queue, struct request *rq, int count,
		      struct fid_mr **mr)
{
	struct nvme_kofi_request *req = blk_mq_rq_to_pdu(rq);
	struct nvme_keyed_sgl_desc *sgl = &req->cmd.common.dptr.ksgl;
	const struct fi_mr_attr attr = {
		.mr_iov = fi_iov_sgl(req->table.sgl),
		.iov_count = count,
		.access = rq_data_dir(rq) == WRITE ? FI_REMOTE_READ : FI_REMOTE_WRITE,
		.context = req,
	};
	int ret;

	ret = fi_mr_regattr(queue->host->domain, &attr, FI_SGL, mr) ?:
	      fi_mr_bind(*mr, &queue->ep->fid, FI_COMPLETION);
	if (ret)
		return ret;
	sgl->addr = cpu_to_le64((*mr)->iova);
	put_unaligned_le24(blk_rq_payload_bytes(rq), sgl->length);
	put_unaligned_le32(fi_mr_key(*mr), sgl->key);
	/* The target may invalidate the key with its response. */
	sgl->type = NVME_KEY_SGL_FMT_DATA_DESC << 4 | NVME_SGL_FMT_INVALIDATE;
	return 0;
}

/*
 * Describes the data in the command. @mr returns the region that has to be enabled before the
 * command is sent, if any. Returns the number of segments that are sent in the message, or an
 * errno; after an error, @mr has to be closed if it is not NULL.
 */
static int map_data(struct nvme_kofi_queue *queue, struct request *rq, struct fid_mr **mr)
{
	struct nvme_kofi_request *req = blk_mq_rq_to_pdu(rq);
	struct nvme_sgl_desc *sgl = &req->cmd.common.dptr.sgl;
	int count;

	nvme_kofi_set_null_sgl(&req->cmd);
	if (!blk_rq_nr_phys_segments(rq))
		return 0;
	req->table.sgl = req->first;
	if (sg_alloc_table_chained(&req->table, blk_rq_nr_phys_segments(rq), req->first,
				   NVME_INLINE_SG_CNT))
		return -ENOMEM;
	count = blk_rq_map_sg(rq, req->table.sgl);
	if (!is_in_capsule(queue, rq, count))
		return map_region(queue, rq, count, mr);
	sgl->length = cpu_to_le32(blk_rq_payload_bytes(rq));
	sgl->type = NVME_SGL_FMT_DATA_DESC << 4 | NVME_SGL_FMT_OFFSET;
	sg_init_table(req->head, 2);
	sg_set_buf(&req->head[0], &req->cmd, sizeof(req->cmd));
	sg_chain(req->head, 2, req->table.sgl);
	return count;
}

static void unmap_data(struct nvme_kofi_request *req)
{
	atomic_set(&req->done, REQ_DONE);
	if (req->table.nents)
		sg_free_table_chained(&req->table, NVME_INLINE_SG_CNT);
	req->table.nents = 0;
}

static int send_command(struct nvme_kofi_queue *queue, struct nvme_kofi_request *req, int count)
{
	const struct fi_msg msg = {
		.msg_iov = fi_iov_sgl(req->head),
		.iov_count = count + 1,
		.context = req,
	};

	if (count)
		return fi_sendmsg(queue->ep, &msg, FI_SGL | FI_COMPLETION);
	return fi_send(queue->ep, &req->cmd, sizeof(req->cmd), NULL, 0, req);
}

/*
 * Returns the status of a request that could not be posted, for the block layer. Starts the
 * recovery if the connection has ended.
 */
static blk_status_t refusal_status(struct nvme_kofi_queue *queue, struct request *rq, int err)
{
	/* -FI_EAGAIN and -FI_ENOMEM are temporary; with -FI_EINVAL the data cannot be mapped. */
	if (err != -FI_EAGAIN && err != -FI_ENOMEM && err != -FI_EINVAL) {
		/* The connection has ended. Passthrough commands fail, others are queued again. */
		nvme_kofi_recover(queue->host);
		if (blk_rq_is_passthrough(rq))
			return nvme_host_path_error(rq);
	}
	nvme_cleanup_cmd(rq);
	return err == -FI_EINVAL ? BLK_STS_IOERR : BLK_STS_RESOURCE;
}

/*
 * Posts the registration of the data, if any, and the command. Returns an errno only if nothing has
 * been posted, so that the block layer can have the request back.
 */
static int post(struct nvme_kofi_queue *queue, struct nvme_kofi_request *req, int count,
		struct fid_mr *mr)
{
	int ret = mr ? fi_mr_enable(mr) : 0;

	if (ret)
		return ret;
	WRITE_ONCE(req->mr, mr);
	/* Pairs with receive(): a target may guess the command, and answer it before it is sent. */
	atomic_set_release(&req->done, mr ? 0 : REQ_RELEASED);
	ret = send_command(queue, req, count);
	if (!ret || (!mr && atomic_cmpxchg(&req->done, REQ_RELEASED, REQ_DONE) == REQ_RELEASED))
		return ret;
	/* A region is enabled, or a guess answered: the request ends with the connection. */
	nvme_kofi_recover(queue->host);
	return 0;
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct nvme_kofi_queue *queue = hctx->driver_data;
	struct nvme_ctrl *ctrl = &queue->host->ctrl;
	struct request *rq = bd->rq;
	struct fid_mr *mr = NULL;
	blk_status_t status;
	int ret;

	if (!nvme_check_ready(ctrl, rq, READ_ONCE(queue->live)))
		return nvme_fail_nonready_command(ctrl, rq);
	status = nvme_setup_cmd(hctx->queue->queuedata, rq);
	if (status)
		return status;
	nvme_start_request(rq);
	ret = map_data(queue, rq, &mr);
	if (ret >= 0)
		ret = post(queue, blk_mq_rq_to_pdu(rq), ret, mr);
	if (!ret)
		return BLK_STS_OK;
	if (mr)
		fi_close(&mr->fid);
	unmap_data(blk_mq_rq_to_pdu(rq));
	return refusal_status(queue, rq, ret);
}

static void complete_rq(struct request *rq)
{
	unmap_data(blk_mq_rq_to_pdu(rq));
	nvme_complete_rq(rq);
}

/* Records events of a request, and completes the request after the last one. Softirq. */
void nvme_kofi_finish(struct nvme_kofi_request *req, u32 events)
{
	struct request *rq = blk_mq_rq_from_pdu(req);
	u32 done = atomic_fetch_or(events, &req->done);

	if (done != REQ_DONE && (done | events) == REQ_DONE &&
	    !nvme_try_complete_req(rq, req->status, req->result))
		complete_rq(rq);
}

/*
 * Closes the region of a request of a queue whose connection has ended. Called for each request of
 * a tag set; returns true to continue with the next one.
 */
bool nvme_kofi_release(struct request *rq, void *queue)
{
	struct nvme_kofi_request *req = blk_mq_rq_to_pdu(rq);
	bool is_of_queue = rq->mq_hctx->driver_data == queue;
	struct fid_mr *mr = is_of_queue ? xchg(&req->mr, NULL) : NULL;

	if (mr)
		WARN_ON_ONCE(fi_close(&mr->fid));
	return true;
}

static enum blk_eh_timer_return timed_out(struct request *rq)
{
	struct nvme_kofi_queue *queue = rq->mq_hctx->driver_data;
	struct nvme_ctrl *ctrl = &queue->host->ctrl;

	dev_warn(ctrl->device, "queue %u: command %#x with opcode %#x timed out\n", queue->qid,
		 nvme_cid(rq), nvme_req(rq)->cmd->common.opcode);
	if (nvme_ctrl_state(ctrl) == NVME_CTRL_LIVE) {
		nvme_kofi_recover(queue->host);
	} else if (!nvme_kofi_stop_queue(queue)) {
		/* The target cannot access the data, and setup or removal wait for the request. */
		nvmf_complete_timed_out_request(rq);
		return BLK_EH_DONE;
	}
	return BLK_EH_RESET_TIMER;
}

static int init_request(struct blk_mq_tag_set *set, struct request *rq, unsigned int index,
			int numa_node)
{
	struct nvme_kofi_request *req = blk_mq_rq_to_pdu(rq);

	atomic_set(&req->done, REQ_DONE);
	req->req.ctrl = set->driver_data;
	req->req.cmd = &req->cmd;
	return 0;
}

static int init_hctx(struct blk_mq_hw_ctx *hctx, void *data, unsigned int index)
{
	struct nvme_kofi_ctrl *host = to_host(data);
	bool admin = hctx->tags == host->admin_tag_set.tags[0];

	hctx->driver_data = &host->queues[admin ? 0 : index + 1];
	return 0;
}

const struct blk_mq_ops nvme_kofi_mq_ops = {
	.queue_rq = queue_rq,
	.complete = complete_rq,
	.init_request = init_request,
	.init_hctx = init_hctx,
	.timeout = timed_out,
};
