// SPDX-License-Identifier: GPL-2.0
/* The device, its port and its memory regions. */

#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>

#include "null.h"

#define NULL_PORT	1
#define NULL_SGES	6
#define NULL_PAGES	256	/* in a region */
#define NULL_READS	16	/* outstanding */
#define NULL_MANY	4096	/* of each kind of object */

static char *netdev = "";
module_param(netdev, charp, 0444);
MODULE_PARM_DESC(netdev, "network interface whose addresses the device has");

struct null_pd {
	struct ib_pd		base;
};

static struct ib_mr *null_get_mr(struct ib_pd *pd, u32 key)
{
	struct ib_mr *mr;

	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->lkey = key;
	mr->rkey = key;
	return mr;
}

static struct ib_mr *null_get_dma_mr(struct ib_pd *pd, int access)
{
	return null_get_mr(pd, 0);
}

static struct ib_mr *null_alloc_mr(struct ib_pd *pd, enum ib_mr_type type,
				   u32 pages)
{
	struct null_device *device = to(device, pd->device);

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	/* The consumer sets the lowest byte of the key. */
	return null_get_mr(pd, atomic_inc_return(&device->last_key) << 8);
}

static struct ib_mr *null_reg_user_mr(struct ib_pd *pd, u64 start, u64 len,
				      u64 addr, int access,
				      struct ib_dmah *dmah,
				      struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int null_set_page(struct ib_mr *mr, u64 addr)
{
	return 0;
}

static int null_map_mr_sg(struct ib_mr *mr, struct scatterlist *list,
			  int count, unsigned int *offset)
{
	return ib_sg_to_pages(mr, list, count, offset, null_set_page);
}

static int null_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	kfree(mr);
	return 0;
}

static int null_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int null_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int null_query_device(struct ib_device *base,
			     struct ib_device_attr *attr,
			     struct ib_udata *udata)
{
	*attr = (struct ib_device_attr){
		.device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS,
		.max_mr_size = U64_MAX,
		.page_size_cap = PAGE_SIZE,
		.max_qp = NULL_MANY,
		.max_qp_wr = NULL_DEPTH,
		.max_send_sge = NULL_SGES,
		.max_recv_sge = NULL_SGES,
		.max_sge_rd = 1,
		.max_cq = NULL_MANY,
		.max_cqe = NULL_ENTRIES,
		.max_mr = NULL_MANY,
		.max_pd = NULL_MANY,
		.max_qp_rd_atom = NULL_READS,
		.max_qp_init_rd_atom = NULL_READS,
		.max_res_rd_atom = NULL_MANY,
		.max_fast_reg_page_list_len = NULL_PAGES,
	};
	return 0;
}

static int null_query_port(struct ib_device *base, u32 port,
			   struct ib_port_attr *attr)
{
	*attr = (struct ib_port_attr){
		.state = IB_PORT_ACTIVE,
		.phys_state = IB_PORT_PHYS_STATE_LINK_UP,
		.max_mtu = IB_MTU_4096,
		.active_mtu = IB_MTU_4096,
		.gid_tbl_len = 1,
		.max_msg_sz = U32_MAX,
		.active_width = IB_WIDTH_1X,
		.active_speed = IB_SPEED_SDR,
		.port_cap_flags = IB_PORT_CM_SUP,
	};
	return 0;
}

static int null_get_port_immutable(struct ib_device *base, u32 port,
				   struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	return 0;
}

static int null_query_gid(struct ib_device *base, u32 port, int index,
			  union ib_gid *gid)
{
	struct net_device *ndev = ib_device_get_netdev(base, NULL_PORT);

	memset(gid, 0, sizeof(*gid));
	if (!ndev)
		return -ENODEV;
	/* rdma_cm finds the device of an address by this GID. */
	memcpy(gid->raw, ndev->dev_addr, ETH_ALEN);
	dev_put(ndev);
	return 0;
}

static const struct ib_device_ops null_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.alloc_mr = null_alloc_mr,
	.alloc_pd = null_alloc_pd,
	.create_cq = null_create_cq,
	.create_qp = null_create_qp,
	.dealloc_pd = null_dealloc_pd,
	.dereg_mr = null_dereg_mr,
	.destroy_cq = null_destroy_cq,
	.destroy_qp = null_destroy_qp,
	.get_dma_mr = null_get_dma_mr,
	.get_port_immutable = null_get_port_immutable,
	.iw_accept = null_accept,
	.iw_add_ref = null_add_ref,
	.iw_connect = null_connect,
	.iw_create_listen = null_create_listen,
	.iw_destroy_listen = null_destroy_listen,
	.iw_get_qp = null_get_qp,
	.iw_reject = null_reject,
	.iw_rem_ref = null_rem_ref,
	.map_mr_sg = null_map_mr_sg,
	.modify_qp = null_modify_qp,
	.poll_cq = null_poll_cq,
	.post_recv = null_post_recv,
	.post_send = null_post_send,
	.query_device = null_query_device,
	.query_gid = null_query_gid,
	.query_port = null_query_port,
	.reg_user_mr = null_reg_user_mr,
	.req_notify_cq = null_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, null_cq, base),
	INIT_RDMA_OBJ_SIZE(ib_pd, null_pd, base),
	INIT_RDMA_OBJ_SIZE(ib_qp, null_qp, base),
};

static struct null_device *null_device;

static int null_register(struct null_device *device, struct net_device *ndev)
{
	struct ib_device *base = &device->base;
	int ret;

	spin_lock_init(&device->lock);
	INIT_LIST_HEAD(&device->listeners);
	xa_init_flags(&device->qps, XA_FLAGS_ALLOC1);
	addrconf_addr_eui48((u8 *)&base->node_guid, ndev->dev_addr);
	base->node_type = RDMA_NODE_RNIC;
	base->phys_port_cnt = 1;
	base->num_comp_vectors = 1;
	strscpy(base->iw_ifname, ndev->name, sizeof(base->iw_ifname));
	base->iw_driver_flags = IW_F_NO_PORT_MAP;
	ib_set_device_ops(base, &null_ops);
	ret = ib_device_set_netdev(base, ndev, NULL_PORT);
	return ret ?: ib_register_device(base, "null%d", NULL);
}

static int __init null_init(void)
{
	struct net_device *ndev;
	int ret = -ENOMEM;

	ndev = dev_get_by_name(&init_net, netdev);
	if (!ndev)
		return -ENODEV;
	null_device = ib_alloc_device(null_device, base);
	if (null_device)
		ret = null_register(null_device, ndev);
	dev_put(ndev);
	if (ret && null_device)
		ib_dealloc_device(&null_device->base);
	return ret;
}
module_init(null_init);

static void __exit null_exit(void)
{
	ib_unregister_device(&null_device->base);
	xa_destroy(&null_device->qps);
	ib_dealloc_device(&null_device->base);
}
module_exit(null_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A device whose posts and polls do nothing, to count what calls cost beyond it");
