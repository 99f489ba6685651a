// SPDX-License-Identifier: GPL-2.0
/*
 * Queues of the controller: each is one connected endpoint with its completion queue. The queues
 * share a domain, which represents the device, and an event queue for their connections.
 */

#include <linux/slab.h>
#include "nvme_kofi.h"

/* Maximum number of 4 KiB pages of a request; the device may permit fewer */
#define MAX_PAGES	256
/*
 * Work requests of a request: registration, message, invalidation, and the invalidation of the
 * previous request with its tag. On siw a key that the target has invalidated is invalidated again,
 * without a completion entry, so this work request may outlast its request.
 */
#define SENDS		4
#define CONNECT_TIMEOUT	10000	/* milliseconds */

/* Closes the kOFI object that *@where points to, if any, and sets *@where to NULL. */
static void close_object(void *where)
{
	struct fid **fid = where;

	if (*fid)
		WARN_ON_ONCE(fi_close(*fid));
	*fid = NULL;
}

/*
 * Opens the device by which the target is reached. The caller closes the device also after an
 * error. Process context.
 */
int nvme_kofi_open_device(struct nvme_kofi_ctrl *host)
{
	struct nvmf_ctrl_options *opts = host->ctrl.opts;
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *hints = fi_allocinfo();
	const struct fi_kofi_nic_attr *nic;
	int ret = -ENOMEM;

	if (!hints)
		return ret;
	hints->caps = FI_MSG | FI_RMA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	hints->fabric_attr->prov_name = kstrdup("verbs", GFP_KERNEL);
	if (hints->fabric_attr->prov_name)
		ret = fi_getinfo(FI_VERSION(1, 17), opts->traddr, opts->trsvcid, 0, hints,
				 &host->info);
	fi_freeinfo(hints);
	if (ret)
		return ret;
	nic = host->info->nic->prov_attr;
	host->ctrl.numa_node = nic->numa_node;
	host->vectors = nic->comp_vectors;
	host->max_pages = min(MAX_PAGES, host->info->domain_attr->mr_iov_limit);
	return fi_fabric(host->info->fabric_attr, &host->fabric, NULL) ?:
	       fi_eq_open(host->fabric, &attr, &host->eq, host) ?:
	       fi_domain(host->fabric, host->info, &host->domain, NULL);
}

void nvme_kofi_close_device(struct nvme_kofi_ctrl *host)
{
	close_object(&host->domain);
	close_object(&host->eq);
	close_object(&host->fabric);
	fi_freeinfo(host->info);
	host->info = NULL;
}

static int post_response(struct nvme_kofi_queue *queue, struct nvme_kofi_response *response)
{
	return fi_recv(queue->ep, response, sizeof(response->cqe), fi_mr_desc(queue->mr), 0,
		       response);
}

/* Handles a response: the request ends, unless other completion entries of it are missing. */
static void receive(struct nvme_kofi_queue *queue, const struct fi_cq_data_entry *entry)
{
	struct nvme_kofi_ctrl *host = queue->host;
	struct nvme_kofi_response *response = entry->op_context;
	struct nvme_completion cqe = response->cqe;
	bool is_event = nvme_is_aen_req(queue->qid, cqe.command_id);
	bool invalidated = entry->flags & FI_REMOTE_INVALIDATE;
	struct nvme_kofi_request *req;
	struct request *rq;

	if (entry->len < sizeof(cqe) || (is_event && invalidated))
		goto invalid;
	if (post_response(queue, response))
		nvme_kofi_recover(host);
	if (is_event) {
		nvme_complete_async_event(&host->ctrl, cqe.status, &cqe.result);
		return;
	}
	rq = nvme_find_rq(queue->qid ? host->tag_set.tags[queue->qid - 1] :
				       host->admin_tag_set.tags[0], cqe.command_id);
	req = rq ? blk_mq_rq_to_pdu(rq) : NULL;
	/*
	 * A target must answer a request once, and may invalidate only the key of this request.
	 * Pairs with post(): the region of a request that has begun is visible.
	 */
	if (!req || atomic_read_acquire(&req->done) & REQ_ANSWERED ||
	    (invalidated && (!req->mr || entry->data != fi_mr_key(req->mr))) ||
	    (req->mr && fi_close(&req->mr->fid)))
		goto invalid;
	WRITE_ONCE(req->mr, NULL);
	req->status = cqe.status;
	req->result = cqe.result;
	/* Without remote invalidation, the entry of fi_close() reports the end of the access. */
	nvme_kofi_finish(req, REQ_ANSWERED | (invalidated ? REQ_RELEASED : 0));
	return;

invalid:
	dev_err_ratelimited(host->ctrl.device, "queue %u: invalid response\n", queue->qid);
	nvme_kofi_recover(host);
}

/* Handles the completions of a queue. Softirq context; calls do not overlap. */
static void completions(struct fid_cq *cq, void *context)
{
	struct nvme_kofi_queue *queue = context;
	struct fi_cq_data_entry entries[8], *entry;
	ssize_t n;

	do {
		struct fi_cq_err_entry error = {};

		n = fi_cq_read(cq, entries, ARRAY_SIZE(entries));
		/* The recovery ends the request of a failed operation. */
		if (n == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1)
			nvme_kofi_recover(queue->host);
		rcu_read_lock();
		for (entry = entries; entry < entries + n && !READ_ONCE(queue->stopped); entry++)
			if (entry->flags & FI_RECV)
				receive(queue, entry);
			else if (entry->flags & FI_REGION)
				nvme_kofi_finish(entry->op_context, REQ_RELEASED);
			else if (!(entry->flags & FI_SEND))
				/* A write with immediate data took the receive of a response. */
				nvme_kofi_recover(queue->host);
			else if (entry->op_context)
				nvme_kofi_finish(entry->op_context, REQ_SENT);
		rcu_read_unlock();
	} while (n > 0 || n == -FI_EAVAIL);
}

static int set_option(struct nvme_kofi_queue *queue, int name, size_t value)
{
	return fi_setopt(&queue->ep->fid, FI_OPT_ENDPOINT, name, &value, sizeof(value));
}

/* Opens an endpoint that can register the data of @depth requests, and its completion queue. */
static int open_ep(struct nvme_kofi_queue *queue, u16 depth)
{
	struct nvme_kofi_ctrl *host = queue->host;
	struct fi_cq_attr attr = {
		.size = (SENDS + 1) * depth,
		.flags = FI_CB_CTX_SOFTIRQ | FI_AFFINITY,
		.format = FI_CQ_FORMAT_DATA,
		.signaling_vector = (max(queue->qid, 1) - 1) % host->vectors,
		.cq_event_handler = completions,
	};

	host->info->tx_attr->size = SENDS * depth;
	host->info->rx_attr->size = depth;
	return fi_cq_open(host->domain, &attr, &queue->cq, queue) ?:
	       fi_endpoint(host->domain, host->info, &queue->ep, queue) ?:
	       fi_ep_bind(queue->ep, &host->eq->fid, 0) ?:
	       fi_ep_bind(queue->ep, &queue->cq->fid, FI_TRANSMIT | FI_RECV) ?:
	       set_option(queue, FI_OPT_KOFI_CM_DATA_RAW, 1) ?:
	       set_option(queue, FI_OPT_KOFI_MR_POOL, depth) ?:
	       set_option(queue, FI_OPT_KOFI_MR_PAGES, host->max_pages) ?:
	       fi_enable(queue->ep);
}

/* Registers and posts the receive buffers: one for each command that can be outstanding. */
static int post_responses(struct nvme_kofi_queue *queue, u16 depth)
{
	int ret;

	queue->responses = kzalloc_objs(*queue->responses, depth);
	if (!queue->responses)
		return -ENOMEM;
	ret = fi_mr_reg(queue->host->domain, queue->responses, depth * sizeof(*queue->responses),
			FI_RECV, 0, 0, 0, &queue->mr, NULL);
	for (u16 i = 0; i < depth && !ret; i++)
		ret = post_response(queue, &queue->responses[i]);
	return ret;
}

/* Reads and logs the error event of a connection attempt. Returns its errno. */
static int connection_error(struct nvme_kofi_queue *queue)
{
	struct fi_eq_err_entry error = {};
	const struct nvme_rdma_cm_rej *reason;
	bool given;

	if (fi_eq_readerr(queue->host->eq, &error, 0) < 0)
		return -ECONNABORTED;
	reason = error.err_data;
	given = error.err_data_size >= sizeof(*reason) && reason->sts;
	dev_err(queue->host->ctrl.device, "queue %u: connection failed: %s (%s)\n", queue->qid,
		fi_strerror(error.err),
		given ? nvme_rdma_cm_msg(le16_to_cpu(reason->sts)) : "no reason");
	return -error.err;
}

/*
 * Waits for the outcome of a connection attempt. No other code reads the event queue, because
 * error entries of the completion queue report the end of a connection as well. If the connection
 * of another queue has ended, its event makes this attempt fail with -ECONNRESET.
 */
static int await_connection(struct nvme_kofi_queue *queue)
{
	DEFINE_RAW_FLEX(struct fi_eq_cm_entry, entry, data, U8_MAX);
	ssize_t n;
	u32 event;

	n = fi_eq_sread(queue->host->eq, &event, entry, __struct_size(entry), CONNECT_TIMEOUT, 0);
	if (n == -FI_EAVAIL)
		return connection_error(queue);
	if (n < 0)
		return n == -FI_EAGAIN ? -ETIMEDOUT : n;
	return event == FI_CONNECTED ? 0 : -ECONNRESET;
}

static int connect_queue(struct nvme_kofi_queue *queue, u16 depth)
{
	struct nvme_rdma_cm_req data = {
		.recfmt = cpu_to_le16(NVME_RDMA_CM_FMT_1_0),
		.qid = cpu_to_le16(queue->qid),
		.hrqsize = cpu_to_le16(depth),
		.hsqsize = cpu_to_le16(depth - 1),
		.cntlid = cpu_to_le16(queue->qid ? queue->host->ctrl.cntlid : 0),
	};

	return fi_connect(queue->ep, NULL, &data, sizeof(data)) ?: await_connection(queue);
}

/*
 * Connects a queue for @depth commands. Then nvme-core's connect command can be sent on it. The
 * caller closes the queue also after an error. Process context.
 */
int nvme_kofi_open_queue(struct nvme_kofi_queue *queue, u16 depth)
{
	queue->stopped = false;
	return open_ep(queue, depth) ?: post_responses(queue, depth) ?: connect_queue(queue, depth);
}

/*
 * Disconnects a queue. When the call returns, the completion handler does not use the endpoint or
 * a request, and the target has no access to the data of the queue's requests, unless an
 * errno is returned. Process context.
 */
int nvme_kofi_stop_queue(struct nvme_kofi_queue *queue)
{
	struct nvme_ctrl *ctrl = &queue->host->ctrl;
	struct blk_mq_tag_set *set = queue->qid ? ctrl->tagset : ctrl->admin_tagset;

	guard(mutex)(&queue->lock);
	WRITE_ONCE(queue->live, false);
	if (!queue->ep)
		return 0;
	fi_shutdown(queue->ep, 0);
	WRITE_ONCE(queue->stopped, true);
	synchronize_rcu();
	if (set)
		blk_mq_tagset_busy_iter(set, nvme_kofi_release, queue);
	/* Regions that were closed after the shutdown could be accessed by other connections. */
	return fi_shutdown(queue->ep, 0);
}

/* Disconnects and closes a queue, to which nothing submits requests now. Process context. */
void nvme_kofi_close_queue(struct nvme_kofi_queue *queue)
{
	nvme_kofi_stop_queue(queue);
	guard(mutex)(&queue->lock);
	close_object(&queue->ep);
	close_object(&queue->cq);
	close_object(&queue->mr);
	kfree(queue->responses);
	queue->responses = NULL;
}
