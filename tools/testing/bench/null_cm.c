// SPDX-License-Identifier: GPL-2.0
/* Connections between queue pairs of the device, as iw_cm asks for them. */

#include <linux/slab.h>

#include "null.h"

struct null_listener {
	struct list_head	entry;
	struct iw_cm_id		*id;
};

/* A connection request until its answer */
struct null_call {
	struct iw_cm_id		*id;
	struct null_qp		*qp;
};

static u16 null_port_of(const struct sockaddr_storage *addr)
{
	/* IPv6 has it in the same place. */
	return ((const struct sockaddr_in *)addr)->sin_port;
}

int null_create_listen(struct iw_cm_id *id, int backlog)
{
	struct null_device *device = to(device, id->device);
	struct null_listener *new, *old;
	unsigned long flags;
	int ret = 0;

	new = kzalloc_obj(*new);
	if (!new)
		return -ENOMEM;
	new->id = id;
	spin_lock_irqsave(&device->lock, flags);
	list_for_each_entry(old, &device->listeners, entry) {
		if (null_port_of(&old->id->local_addr) ==
		    null_port_of(&id->local_addr))
			ret = -EADDRINUSE;
	}
	if (!ret) {
		id->add_ref(id);
		id->provider_data = new;
		list_add(&new->entry, &device->listeners);
	}
	spin_unlock_irqrestore(&device->lock, flags);
	if (ret)
		kfree(new);
	return ret;
}

int null_destroy_listen(struct iw_cm_id *id)
{
	struct null_device *device = to(device, id->device);
	struct null_listener *listener = id->provider_data;
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	list_del(&listener->entry);
	spin_unlock_irqrestore(&device->lock, flags);
	kfree(listener);
	id->rem_ref(id);
	return 0;
}

/* The listener at an address, held. */
static struct iw_cm_id *null_find(struct null_device *device,
				  const struct sockaddr_storage *addr)
{
	struct null_listener *listener;
	struct iw_cm_id *found = NULL;
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	list_for_each_entry(listener, &device->listeners, entry) {
		if (null_port_of(&listener->id->local_addr) ==
		    null_port_of(addr))
			found = listener->id;
	}
	if (found)
		found->add_ref(found);
	spin_unlock_irqrestore(&device->lock, flags);
	return found;
}

int null_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct null_device *device = to(device, id->device);
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr = id->remote_addr,
		.remote_addr = id->local_addr,
		.private_data = (void *)param->private_data,
		.private_data_len = param->private_data_len,
		.ird = param->ird,
		.ord = param->ord,
	};
	struct iw_cm_id *listener;
	struct null_call *call;
	int ret;

	call = kzalloc_obj(*call);
	if (!call)
		return -ENOMEM;
	listener = null_find(device, &id->remote_addr);
	if (!listener) {
		kfree(call);
		return -ECONNREFUSED;
	}
	call->id = id;
	call->qp = xa_load(&device->qps, param->qpn);
	event.provider_data = call;
	id->add_ref(id);
	null_add_ref(&call->qp->base);
	ret = listener->event_handler(listener, &event);
	listener->rem_ref(listener);
	if (ret) {
		null_rem_ref(&call->qp->base);
		id->rem_ref(id);
		kfree(call);
	}
	return ret;
}

/* The answer to a request, whose id has been held for it. */
static void null_answer(struct null_call *call, int status,
			const void *data, u8 len,
			const struct iw_cm_conn_param *param)
{
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REPLY,
		.status = status,
		.local_addr = call->id->local_addr,
		.remote_addr = call->id->remote_addr,
		.private_data = (void *)data,
		.private_data_len = len,
		.ird = param ? param->ord : 0,
		.ord = param ? param->ird : 0,
	};

	call->id->event_handler(call->id, &event);
	if (status)
		call->id->rem_ref(call->id);
	null_rem_ref(&call->qp->base);
	kfree(call);
}

int null_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct null_device *device = to(device, id->device);
	struct null_qp *qp = xa_load(&device->qps, param->qpn);
	struct null_call *call = id->provider_data;
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_ESTABLISHED,
		.local_addr = id->local_addr,
		.remote_addr = id->remote_addr,
		.ird = param->ird,
		.ord = param->ord,
	};
	unsigned long flags;

	id->add_ref(id);
	spin_lock_irqsave(&device->lock, flags);
	qp->peer = call->qp;
	qp->id = id;
	call->qp->peer = qp;
	call->qp->id = call->id;
	spin_unlock_irqrestore(&device->lock, flags);
	id->event_handler(id, &event);
	null_answer(call, 0, param->private_data, param->private_data_len,
		    param);
	return 0;
}

int null_reject(struct iw_cm_id *id, const void *data, u8 len)
{
	null_answer(id->provider_data, -ECONNREFUSED, data, len, NULL);
	return 0;
}
