// SPDX-License-Identifier: GPL-2.0
/*
 * Controllers of the transport "kofi": their setup, error recovery, reset and removal.
 *
 *	echo transport=kofi,traddr=10.0.0.1,trsvcid=4420,nqn=NAME >/dev/nvme-fabrics
 *
 * The controller states of nvme-core admit a single setup or teardown of a controller at a time.
 */

#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include "nvme_kofi.h"

/* Guards the list of controllers. */
static DEFINE_MUTEX(ctrls_lock);
static LIST_HEAD(ctrls);

/*
 * Closes all connections and cancels the requests that were in progress. Later requests are
 * refused, as no queue is live. @disable: disables the controller before the admin queue closes.
 * @remove: shuts the controller down instead of disabling it, and frees the tag sets. Allocations
 * do not wait for I/O (NOIO), as it may be I/O of this controller.
 */
static void tear_down(struct nvme_kofi_ctrl *host, bool remove, bool disable)
{
	unsigned int noio = memalloc_noio_save();
	struct nvme_ctrl *ctrl = &host->ctrl;

	nvme_stop_keep_alive(ctrl);
	if (ctrl->tagset) {
		nvme_quiesce_io_queues(ctrl);
		nvme_sync_io_queues(ctrl);
		for (u32 i = 1; i <= ctrl->opts->nr_io_queues; i++)
			nvme_kofi_close_queue(&host->queues[i]);
		nvme_cancel_tagset(ctrl);
		nvme_unquiesce_io_queues(ctrl);
		if (remove)
			nvme_remove_io_tag_set(ctrl);
	}
	nvme_quiesce_admin_queue(ctrl);
	if (disable)
		nvme_disable_ctrl(ctrl, remove);
	blk_sync_queue(ctrl->admin_q);
	nvme_kofi_close_queue(&host->queues[0]);
	nvme_cancel_admin_tagset(ctrl);
	nvme_unquiesce_admin_queue(ctrl);
	if (remove)
		nvme_remove_admin_tag_set(ctrl);
	nvme_kofi_close_device(host);
	memalloc_noio_restore(noio);
}

/* Sends nvme-core's connect command on a connected queue, and makes the queue live. */
static int start_queue(struct nvme_kofi_queue *queue)
{
	struct nvme_ctrl *ctrl = &queue->host->ctrl;
	int ret;

	ret = queue->qid ? nvmf_connect_io_queue(ctrl, queue->qid) : nvmf_connect_admin_queue(ctrl);
	if (!ret)
		WRITE_ONCE(queue->live, true);
	return ret;
}

static int open_io_queues(struct nvme_kofi_ctrl *host, u32 first, u32 last)
{
	int ret = 0;

	for (u32 i = first; i <= last && !ret; i++)
		ret = nvme_kofi_open_queue(&host->queues[i], host->ctrl.sqsize + 1) ?:
		      start_queue(&host->queues[i]);
	return ret;
}

/* Sets the number of the block layer's hardware queues, while no request is in progress. */
static int resize_tag_set(struct nvme_kofi_ctrl *host, u32 count)
{
	struct nvme_ctrl *ctrl = &host->ctrl;
	bool frozen;

	nvme_start_freeze(ctrl);
	frozen = nvme_wait_freeze_timeout(ctrl);
	if (frozen)
		blk_mq_update_nr_hw_queues(&host->tag_set, count);
	nvme_unfreeze(ctrl);
	return frozen && host->tag_set.nr_hw_queues <= count ? 0 : -ENODEV;
}

static int setup_io_queues(struct nvme_kofi_ctrl *host)
{
	struct nvme_ctrl *ctrl = &host->ctrl;
	u32 count = nvmf_nr_io_queues(ctrl->opts), old;
	int ret = nvme_set_queue_count(ctrl, &count);

	if (ret || !count)
		return ret ?: -ENODEV;
	ctrl->queue_count = count + 1;
	if (!ctrl->tagset)
		ret = nvme_alloc_io_tag_set(ctrl, &host->tag_set, &nvme_kofi_mq_ops, 1,
					    sizeof(struct nvme_kofi_request));
	/* Requests need a live queue to end, and must end before the number of queues changes. */
	old = host->tag_set.nr_hw_queues;
	ret = ret ?: open_io_queues(host, 1, min(old, count));
	if (!ret && count != old)
		ret = resize_tag_set(host, count);
	/* The block layer keeps the old number if it gets no memory. */
	return ret ?: open_io_queues(host, old + 1, host->tag_set.nr_hw_queues);
}

/* Checks the features of the controller, and bounds the depth of the I/O queues. */
static int check_features(struct nvme_kofi_ctrl *host)
{
	struct nvme_ctrl *ctrl = &host->ctrl;

	if (ctrl->icdoff || !(ctrl->sgls & NVME_CTRL_SGLS_KSDBDS)) {
		dev_err(ctrl->device, "the controller has no keyed SGLs, or an in-capsule offset\n");
		return -EOPNOTSUPP;
	}
	ctrl->sqsize = min3(ctrl->sqsize, NVME_RDMA_MAX_QUEUE_SIZE - 1, ctrl->maxcmd - 1);
	host->in_capsule = ctrl->sgls & NVME_CTRL_SGLS_SAOS;
	return 0;
}

static int setup_admin_queue(struct nvme_kofi_ctrl *host)
{
	struct nvme_ctrl *ctrl = &host->ctrl;
	int ret;

	ret = nvme_kofi_open_device(host) ?: nvme_kofi_open_queue(&host->queues[0], NVME_AQ_DEPTH);
	/* A request that does not start at a page boundary touches one page more. */
	ctrl->max_segments = host->max_pages - 1;
	ctrl->max_hw_sectors = ctrl->max_segments * (SZ_4K / SECTOR_SIZE);
	return ret ?: start_queue(&host->queues[0]) ?: nvme_enable_ctrl(ctrl) ?:
	       nvme_init_ctrl_finish(ctrl, false) ?: check_features(host);
}

/*
 * Connects to the controller and makes it live; after an error all connections are closed.
 * Allocations do not wait for I/O (NOIO), as the controller's requests wait for the setup.
 */
static int setup(struct nvme_kofi_ctrl *host)
{
	unsigned int noio = memalloc_noio_save();
	struct nvme_ctrl *ctrl = &host->ctrl;
	int ret = setup_admin_queue(host);

	if (!ret && ctrl->opts->nr_io_queues)
		ret = setup_io_queues(host);
	if (!ret && !nvme_change_ctrl_state(ctrl, NVME_CTRL_LIVE))
		ret = -ENODEV;	/* The controller is being removed. */
	if (ret)
		tear_down(host, false, false);
	else
		nvme_start_ctrl(ctrl);
	memalloc_noio_restore(noio);
	return ret;
}

/* Schedules another connection attempt, or removes the controller, as its options require. */
static void reconnect_later(struct nvme_kofi_ctrl *host, int status)
{
	struct nvme_ctrl *ctrl = &host->ctrl;

	if (nvme_ctrl_state(ctrl) != NVME_CTRL_CONNECTING)
		return;
	if (nvmf_should_reconnect(ctrl, status))
		queue_delayed_work(nvme_wq, &host->reconnect_work,
				   ctrl->opts->reconnect_delay * HZ);
	else
		nvme_delete_ctrl(ctrl);
}

static void reconnect(struct nvme_kofi_ctrl *host)
{
	struct nvme_ctrl *ctrl = &host->ctrl;
	int ret;

	ctrl->nr_reconnects++;
	ret = setup(host);
	dev_info(ctrl->device, "connection attempt %d: %d\n", ctrl->nr_reconnects, ret);
	if (ret) {
		reconnect_later(host, ret);
		return;
	}
	atomic_long_add(ctrl->nr_reconnects, &ctrl->acc_reconnects);
	ctrl->nr_reconnects = 0;
}

static void reconnect_work(struct work_struct *work)
{
	reconnect(container_of(to_delayed_work(work), struct nvme_kofi_ctrl, reconnect_work));
}

static void recovery_work(struct work_struct *work)
{
	struct nvme_kofi_ctrl *host = container_of(work, struct nvme_kofi_ctrl, recovery_work);
	struct nvme_ctrl *ctrl = &host->ctrl;

	flush_work(&ctrl->async_event_work);
	tear_down(host, false, false);
	nvme_auth_stop(ctrl);
	if (nvme_change_ctrl_state(ctrl, NVME_CTRL_CONNECTING))
		reconnect_later(host, 0);
}

/* Starts the recovery of a live controller whose connection failed. Any context. */
void nvme_kofi_recover(struct nvme_kofi_ctrl *host)
{
	if (!nvme_change_ctrl_state(&host->ctrl, NVME_CTRL_RESETTING))
		return;
	dev_warn(host->ctrl.device, "connection lost, starting error recovery\n");
	queue_work(nvme_reset_wq, &host->recovery_work);
}

static void reset_work(struct work_struct *work)
{
	struct nvme_ctrl *ctrl = container_of(work, struct nvme_ctrl, reset_work);

	nvme_stop_ctrl(ctrl);
	tear_down(to_host(ctrl), false, true);
	if (nvme_change_ctrl_state(ctrl, NVME_CTRL_CONNECTING))
		reconnect(to_host(ctrl));
}

static void submit_async_event(struct nvme_ctrl *ctrl)
{
	struct nvme_kofi_ctrl *host = to_host(ctrl);
	struct nvme_command *cmd = &host->async_event;

	memset(cmd, 0, sizeof(*cmd));
	cmd->common.opcode = nvme_admin_async_event;
	cmd->common.command_id = NVME_AQ_BLK_MQ_DEPTH;
	nvme_kofi_set_null_sgl(cmd);
	if (fi_send(host->queues[0].ep, cmd, sizeof(*cmd), NULL, 0, NULL))
		nvme_kofi_recover(host);
}

static void stop_ctrl(struct nvme_ctrl *ctrl)
{
	struct nvme_kofi_ctrl *host = to_host(ctrl);

	flush_work(&host->recovery_work);
	cancel_delayed_work_sync(&host->reconnect_work);
}

static void delete_ctrl(struct nvme_ctrl *ctrl)
{
	tear_down(to_host(ctrl), true, true);
}

static void free_ctrl(struct nvme_ctrl *ctrl)
{
	struct nvme_kofi_ctrl *host = to_host(ctrl);

	/* Until the controller is in the list, create_ctrl()'s caller owns the options. */
	if (!list_empty(&host->entry)) {
		scoped_guard(mutex, &ctrls_lock)
			list_del(&host->entry);
		nvmf_free_options(ctrl->opts);
	}
	kfree(host);
}

static const struct nvme_ctrl_ops ctrl_ops = {
	.name = "kofi",
	.module = THIS_MODULE,
	.flags = NVME_F_FABRICS,
	.reg_read32 = nvmf_reg_read32,
	.reg_read64 = nvmf_reg_read64,
	.reg_write32 = nvmf_reg_write32,
	.subsystem_reset = nvmf_subsystem_reset,
	.free_ctrl = free_ctrl,
	.submit_async_event = submit_async_event,
	.delete_ctrl = delete_ctrl,
	.get_address = nvmf_get_address,
	.stop_ctrl = stop_ctrl,
	.get_virt_boundary = nvme_get_virt_boundary,
};

static bool is_connected(struct nvmf_ctrl_options *opts)
{
	struct nvme_kofi_ctrl *host;

	guard(mutex)(&ctrls_lock);
	list_for_each_entry(host, &ctrls, entry)
		if (nvmf_ip_options_match(&host->ctrl, opts))
			return true;
	return false;
}

static void init_host(struct nvme_kofi_ctrl *host, struct nvmf_ctrl_options *opts)
{
	for (u32 i = 0; i <= opts->nr_io_queues; i++) {
		host->queues[i].host = host;
		host->queues[i].qid = i;
		mutex_init(&host->queues[i].lock);
	}
	INIT_LIST_HEAD(&host->entry);
	INIT_WORK(&host->recovery_work, recovery_work);
	INIT_DELAYED_WORK(&host->reconnect_work, reconnect_work);
	INIT_WORK(&host->ctrl.reset_work, reset_work);
	host->ctrl.opts = opts;
	host->ctrl.queue_count = opts->nr_io_queues + 1;
	host->ctrl.sqsize = opts->queue_size - 1;
	host->ctrl.kato = opts->kato;
}

static struct nvme_ctrl *create_ctrl(struct device *dev, struct nvmf_ctrl_options *opts)
{
	struct nvme_kofi_ctrl *host;
	int ret;

	if (!opts->duplicate_connect && is_connected(opts))
		return ERR_PTR(-EALREADY);
	host = kzalloc_flex(*host, queues, opts->nr_io_queues + 1);
	if (!host)
		return ERR_PTR(-ENOMEM);
	init_host(host, opts);
	ret = nvme_init_ctrl(&host->ctrl, dev, &ctrl_ops, 0);
	if (ret) {
		kfree(host);
		return ERR_PTR(ret);
	}
	ret = nvme_add_ctrl(&host->ctrl);
	if (ret)
		goto put_ctrl;
	ret = nvme_alloc_admin_tag_set(&host->ctrl, &host->admin_tag_set, &nvme_kofi_mq_ops,
				       sizeof(struct nvme_kofi_request));
	if (ret)
		goto uninit_ctrl;
	nvme_change_ctrl_state(&host->ctrl, NVME_CTRL_CONNECTING);
	ret = setup(host);
	if (ret)
		goto remove_tag_sets;
	dev_info(host->ctrl.device, "connected to %s at %s:%s\n",
		 nvmf_ctrl_subsysnqn(&host->ctrl), opts->traddr, opts->trsvcid);
	scoped_guard(mutex, &ctrls_lock)
		list_add_tail(&host->entry, &ctrls);
	return &host->ctrl;

remove_tag_sets:
	tear_down(host, true, false);
uninit_ctrl:
	nvme_uninit_ctrl(&host->ctrl);
put_ctrl:
	nvme_put_ctrl(&host->ctrl);
	return ERR_PTR(ret > 0 ? -EIO : ret);
}

static struct nvmf_transport_ops transport = {
	.name = "kofi",
	.module = THIS_MODULE,
	.required_opts = NVMF_OPT_TRADDR | NVMF_OPT_TRSVCID,
	.allowed_opts = NVMF_OPT_RECONNECT_DELAY | NVMF_OPT_CTRL_LOSS_TMO,
	.create_ctrl = create_ctrl,
};

static int __init nvme_kofi_init(void)
{
	return nvmf_register_transport(&transport);
}

static void __exit nvme_kofi_exit(void)
{
	struct nvme_kofi_ctrl *host;

	nvmf_unregister_transport(&transport);
	scoped_guard(mutex, &ctrls_lock)
		list_for_each_entry(host, &ctrls, entry)
			nvme_delete_ctrl(&host->ctrl);
	flush_workqueue(nvme_delete_wq);
}

module_init(nvme_kofi_init);
module_exit(nvme_kofi_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: NVMe over Fabrics host");
MODULE_LICENSE("GPL");
