// SPDX-License-Identifier: GPL-2.0
/* Connections between queue pairs of the device: the iw_cm operations */

#include <linux/slab.h>

#include "null.h"

struct null_listener {
	struct list_head	entry;
	struct iw_cm_id		*id;
};

/* A connection request that is not accepted or rejected yet */
struct null_request {
	struct iw_cm_id		*id;
	struct null_qp		*qp;
};

static u16 null_port_of(const struct sockaddr_storage *addr)
{
	/* sin6_port is at the same offset. */
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

/* Returns the listener at an address with a reference, or NULL. */
static struct iw_cm_id *null_get_listener(struct null_device *device,
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
	struct null_request *request;
	int ret;

	request = kzalloc_obj(*request);
	if (!request)
		return -ENOMEM;
	listener = null_get_listener(device, &id->remote_addr);
	if (!listener) {
		kfree(request);
		return -ECONNREFUSED;
	}
	request->id = id;
	request->qp = xa_load(&device->qps, param->qpn);
	event.provider_data = request;
	id->add_ref(id);
	null_add_ref(&request->qp->base);
	ret = listener->event_handler(listener, &event);
	listener->rem_ref(listener);
	if (ret) {
		null_rem_ref(&request->qp->base);
		id->rem_ref(id);
		kfree(request);
	}
	return ret;
}

/*
 * Reports the reply to a request, and drops its reference on the queue pair. An
 * accepted connection keeps the request's reference on the id.
 */
static void null_reply(struct null_request *request, int status,
		       const void *data, u8 len,
		       const struct iw_cm_conn_param *param)
{
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REPLY,
		.status = status,
		.local_addr = request->id->local_addr,
		.remote_addr = request->id->remote_addr,
		.private_data = (void *)data,
		.private_data_len = len,
		.ird = param ? param->ord : 0,
		.ord = param ? param->ird : 0,
	};

	request->id->event_handler(request->id, &event);
	if (status)
		request->id->rem_ref(request->id);
	null_rem_ref(&request->qp->base);
	kfree(request);
}

int null_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct null_device *device = to(device, id->device);
	struct null_qp *qp = xa_load(&device->qps, param->qpn);
	struct null_request *request = id->provider_data;
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
	qp->peer = request->qp;
	qp->id = id;
	request->qp->peer = qp;
	request->qp->id = request->id;
	spin_unlock_irqrestore(&device->lock, flags);
	id->event_handler(id, &event);
	null_reply(request, 0, param->private_data, param->private_data_len,
		   param);
	return 0;
}

int null_reject(struct iw_cm_id *id, const void *data, u8 len)
{
	null_reply(id->provider_data, -ECONNREFUSED, data, len, NULL);
	return 0;
}
