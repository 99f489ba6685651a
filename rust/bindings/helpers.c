// SPDX-License-Identifier: GPL-2.0
/*
 * Static inlines and macros of the RDMA headers as functions that Rust can
 * call. Posting and polling are not here: they go through the device's
 * operations from Rust, without a C call between.
 */

#include <linux/dim.h>
#include <linux/dma-mapping.h>
#include <linux/inetdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/sched/task_stack.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <net/route.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

bool rust_helper_rdma_protocol_ib(const struct ib_device *device, u32 port)
{
	return rdma_protocol_ib(device, port);
}

bool rust_helper_rdma_protocol_roce(const struct ib_device *device, u32 port)
{
	return rdma_protocol_roce(device, port);
}

bool rust_helper_rdma_protocol_iwarp(const struct ib_device *device, u32 port)
{
	return rdma_protocol_iwarp(device, port);
}

bool rust_helper_rdma_cap_ib_cm(const struct ib_device *device, u32 port)
{
	return rdma_cap_ib_cm(device, port);
}

u32 rust_helper_rdma_start_port(const struct ib_device *device)
{
	return rdma_start_port(device);
}

u32 rust_helper_rdma_end_port(const struct ib_device *device)
{
	return rdma_end_port(device);
}

bool rust_helper_ib_uses_virt_dma(struct ib_device *device)
{
	return ib_uses_virt_dma(device);
}

int rust_helper_ib_dma_mapping_error(struct ib_device *device, u64 addr)
{
	return ib_dma_mapping_error(device, addr);
}

u64 rust_helper_ib_dma_map_page(struct ib_device *device, struct page *page,
				unsigned long offset, size_t size,
				enum dma_data_direction direction)
{
	return ib_dma_map_page(device, page, offset, size, direction);
}

void rust_helper_ib_dma_unmap_page(struct ib_device *device, u64 addr, size_t size,
				   enum dma_data_direction direction)
{
	ib_dma_unmap_page(device, addr, size, direction);
}

void rust_helper_ib_dma_sync_single_for_cpu(struct ib_device *device, u64 addr, size_t size,
					    enum dma_data_direction direction)
{
	ib_dma_sync_single_for_cpu(device, addr, size, direction);
}

void rust_helper_ib_dma_sync_single_for_device(struct ib_device *device, u64 addr, size_t size,
					       enum dma_data_direction direction)
{
	ib_dma_sync_single_for_device(device, addr, size, direction);
}

/* Whether the device and the CPU see the memory apart: caches, a bounce buffer. */
bool rust_helper_kofi_dma_need_sync(struct ib_device *device, u64 addr)
{
	return !ib_uses_virt_dma(device) && dma_need_sync(device->dma_device, addr);
}

/* How far apart what the CPU writes and what a device writes have to be. */
unsigned int rust_helper_kofi_dma_alignment(void)
{
	return dma_get_cache_alignment();
}

void rust_helper_kofi_sg_set_dma(struct scatterlist *sg, dma_addr_t addr, unsigned int len)
{
	sg->length = len;
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = len;
}

void rust_helper_sg_mark_end(struct scatterlist *sg)
{
	sg_mark_end(sg);
}

static unsigned int kofi_kind_of(const void *addr)
{
	if (object_is_on_stack(addr))
		return 0;
	/* On some architectures virt_addr_valid() counts only on others. */
	if (is_vmalloc_or_module_addr(addr))
		return 2;
	return virt_addr_valid(addr) ? 1 : 0;
}

/*
 * What there is at both addresses: 1 for the linear map, 2 for vmalloc's or the
 * modules' space; 0 for what differs, the stack of the calling task, and all else.
 */
unsigned int rust_helper_kofi_memory_kind(const void *first, const void *last)
{
	unsigned int kind = kofi_kind_of(first);

	if (PAGE_ALIGN_DOWN((unsigned long)first) ==
	    PAGE_ALIGN_DOWN((unsigned long)last))
		return kind;
	return kofi_kind_of(last) == kind ? kind : 0;
}

struct page *rust_helper_kofi_virt_to_page(const void *addr)
{
	return virt_to_page(addr);
}

void *rust_helper_kofi_page_address(const struct page *page)
{
	return page_address(page);
}

unsigned long rust_helper_kofi_page_to_pfn(const struct page *page)
{
	return page_to_pfn(page);
}

struct net *rust_helper_get_net(struct net *net)
{
	return get_net(net);
}

void rust_helper_put_net(struct net *net)
{
	put_net(net);
}

bool rust_helper_kofi_is_tasks_net(const struct net *net)
{
	return current->nsproxy && current->nsproxy->net_ns == net;
}

/* Whether it is one of the addresses that interfaces of the namespace have. */
bool rust_helper_kofi_has_address(struct net *net, const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return inet_addr_type(net, ((struct sockaddr_in *)addr)->sin_addr.s_addr) == RTN_LOCAL;
#if IS_ENABLED(CONFIG_IPV6)
	if (addr->sa_family == AF_INET6)
		return ipv6_chk_addr(net, &((struct sockaddr_in6 *)addr)->sin6_addr, NULL, 0);
#endif
	return false;
}

/* The first IPv4 address of the interface that belongs to the port; 0 when there is none. */
__be32 rust_helper_kofi_port_ipv4(struct ib_device *device, u32 port)
{
	struct net_device *netdev = ib_device_get_netdev(device, port);
	__be32 addr = 0;

	if (netdev) {
		addr = inet_select_addr(netdev, 0, RT_SCOPE_LINK);
		dev_put(netdev);
	}
	return addr;
}

/* Whether an iWARP driver speaks through the kernel's own TCP. */
bool rust_helper_kofi_uses_kernel_tcp(const struct ib_device *device)
{
	return device->iw_driver_flags & IW_F_NO_PORT_MAP;
}

/* The way from a port of InfiniBand or RoCE back to itself, by the first GID that it has. */
int rust_helper_kofi_way_to_self(struct ib_device *device, u32 port, struct rdma_ah_attr *way)
{
	const struct ib_gid_attr *gid = ERR_PTR(-ENODATA);
	int size = device->port_data[port].immutable.gid_tbl_len;
	struct ib_port_attr attr;
	union ib_gid own;
	int at, ret;

	for (at = 0; at < size && IS_ERR(gid); at++)
		gid = rdma_get_gid_attr(device, port, at);
	if (IS_ERR(gid))
		return PTR_ERR(gid);

	way->type = rdma_ah_find_type(device, port);
	own = gid->gid;
	rdma_ah_set_port_num(way, port);
	rdma_ah_set_grh(way, &own, 0, gid->index, 1, 0);
	if (way->type == RDMA_AH_ATTR_TYPE_ROCE) {
		ret = rdma_read_gid_l2_fields(gid, NULL, way->roce.dmac);
	} else {
		ret = ib_query_port(device, port, &attr);
		if (!ret)
			rdma_ah_set_dlid(way, attr.lid);
	}
	rdma_put_gid_attr(gid);
	return ret;
}

const char *rust_helper_kofi_driver_name(const struct ib_device *device)
{
	return module_name(device->ops.owner);
}

int rust_helper_ibdev_to_node(struct ib_device *device)
{
	return ibdev_to_node(device);
}

/*
 * PCI address of the adapter that the device is on, directly or through a bus like
 * virtio's: the domain in the upper half, then bus, device and function as the
 * kernel numbers them. -1 for none, and for a domain beyond 16 bits.
 */
s64 rust_helper_kofi_pci_address(const struct ib_device *device)
{
	for (struct device *at = device->dev.parent; at; at = at->parent) {
		if (dev_is_pci(at)) {
			u32 domain = pci_domain_nr(to_pci_dev(at)->bus);

			if (domain > U16_MAX)
				return -1;
			return (s64)domain << 16 | pci_dev_id(to_pci_dev(at));
		}
	}
	return -1;
}

/* Writes the link address of the port: that of its network interface, or the first GID. */
void rust_helper_kofi_link_address(struct ib_device *device, u32 port, char *text, size_t size)
{
	struct net_device *netdev = NULL;
	union ib_gid gid;

	if (rdma_port_get_link_layer(device, port) == IB_LINK_LAYER_ETHERNET)
		netdev = ib_device_get_netdev(device, port);
	if (netdev) {
		scnprintf(text, size, "%*phC", netdev->addr_len, netdev->dev_addr);
		dev_put(netdev);
	} else if (!rdma_query_gid(device, port, 0, &gid)) {
		scnprintf(text, size, "%pI6c", gid.raw);
	} else {
		text[0] = 0;
	}
}

/*
 * Moderation that each profile of DIM stands for, from none to the one for the most
 * completions at a time.
 */
static const struct {
	u16 count, period;
} kofi_dim_profiles[RDMA_DIM_PARAMS_NUM_PROFILES] = {
	{ 0, 0 }, { 2, 2 }, { 4, 4 }, { 8, 8 }, { 16, 8 }, { 32, 16 }, { 64, 16 }, { 64, 32 },
	{ 128, 64 },
};

struct kofi_dim {
	struct dim dim;		/* changed by the one that counts, and by the work item */
	struct ib_cq *cq;
	bool is_on;
};

static void kofi_dim_apply(struct work_struct *work)
{
	struct kofi_dim *dim = container_of(work, struct kofi_dim, dim.work);
	unsigned int at = min_t(unsigned int, dim->dim.profile_ix,
				RDMA_DIM_PARAMS_NUM_PROFILES - 1);

	if (READ_ONCE(dim->is_on))
		rdma_set_cq_moderation(dim->cq, kofi_dim_profiles[at].count,
				       kofi_dim_profiles[at].period);
	dim->dim.state = DIM_START_MEASURE;
}

/* Returns the state of adaptive moderation of a queue, which is off; NULL without memory. */
void *rust_helper_kofi_dim_new(struct ib_cq *cq)
{
	struct kofi_dim *dim = kzalloc(sizeof(*dim), GFP_KERNEL);

	if (dim) {
		dim->dim.state = DIM_START_MEASURE;
		dim->dim.tune_state = DIM_GOING_RIGHT;
		dim->dim.profile_ix = RDMA_DIM_START_PROFILE;
		dim->cq = cq;
		INIT_WORK(&dim->dim.work, kofi_dim_apply);
	}
	return dim;
}

/* Counts completions that one read has found; at most one thread at a time. */
void rust_helper_kofi_dim_sample(void *dim, u64 completions)
{
	rdma_dim(&((struct kofi_dim *)dim)->dim, completions);
}

/*
 * Turns adaptive moderation on, and applies the present profile, or off: a
 * change of the moderation that has begun ends before this returns, and none
 * begins afterwards. Returns 0, or the error of a device that refuses.
 */
int rust_helper_kofi_dim_set(void *of, bool is_on)
{
	struct kofi_dim *dim = of;
	unsigned int at;
	int ret = 0;

	WRITE_ONCE(dim->is_on, is_on);
	/* Not cancelled: the work item lets measuring go on. */
	flush_work(&dim->dim.work);
	if (is_on) {
		at = min_t(unsigned int, dim->dim.profile_ix, RDMA_DIM_PARAMS_NUM_PROFILES - 1);
		ret = rdma_set_cq_moderation(dim->cq, kofi_dim_profiles[at].count,
					     kofi_dim_profiles[at].period);
		if (ret)
			WRITE_ONCE(dim->is_on, false);
	}
	return ret;
}

void rust_helper_kofi_dim_free(void *of)
{
	struct kofi_dim *dim = of;

	cancel_work_sync(&dim->dim.work);
	kfree(dim);
}
