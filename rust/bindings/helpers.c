// SPDX-License-Identifier: GPL-2.0
/*
 * Functions for Rust around static inlines and macros of the kernel's headers, and
 * adaptive moderation of completion queues by DIM (<linux/dim.h>). ib_post_send(),
 * ib_post_recv() and ib_poll_cq() are not here: Rust calls the device's operations
 * directly, which saves a call.
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
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/rdma_cm.h>

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

/*
 * Returns whether the path of a connection request leads to the IP address that the peer has
 * written into the request. rdma_cm does not compare them.
 */
bool rust_helper_kofi_peer_addr_matches_path(struct rdma_cm_id *id)
{
	union ib_gid gid;

	if (!rdma_protocol_roce(id->device, id->port_num))
		return true;
	return id->route.path_rec &&
	       !rdma_ip2gid((struct sockaddr *)&id->route.addr.dst_addr, &gid) &&
	       !memcmp(&gid, &id->route.path_rec->dgid, sizeof(gid));
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

int rust_helper_ib_dma_map_sg(struct ib_device *device, struct scatterlist *sg, int nents,
			      enum dma_data_direction direction)
{
	return ib_dma_map_sg(device, sg, nents, direction);
}

void rust_helper_ib_dma_unmap_sg(struct ib_device *device, struct scatterlist *sg, int nents,
				 enum dma_data_direction direction)
{
	ib_dma_unmap_sg(device, sg, nents, direction);
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

/*
 * Returns whether the mapping has to be synchronised between the CPU and the device,
 * because caches are not coherent or there is a bounce buffer.
 */
bool rust_helper_kofi_dma_need_sync(struct ib_device *device, u64 addr)
{
	return !ib_uses_virt_dma(device) && dma_need_sync(device->dma_device, addr);
}

/* Returns the alignment that keeps memory which a device writes in cache lines of its own. */
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

static unsigned int kofi_address_kind(const void *addr)
{
	if (object_is_on_stack(addr))
		return 0;
	/* On some architectures virt_addr_valid() is true for addresses of vmalloc. */
	if (is_vmalloc_or_module_addr(addr))
		return 2;
	return virt_addr_valid(addr) ? 1 : 0;
}

/*
 * Returns the kind of the memory at both addresses: 1 for the linear map, 2 for
 * vmalloc or module space. Returns 0 if the kinds differ, and for the stack of
 * the calling task and invalid addresses.
 */
unsigned int rust_helper_kofi_memory_kind(const void *first, const void *last)
{
	unsigned int kind = kofi_address_kind(first);

	if (PAGE_ALIGN_DOWN((unsigned long)first) ==
	    PAGE_ALIGN_DOWN((unsigned long)last))
		return kind;
	return kofi_address_kind(last) == kind ? kind : 0;
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

bool rust_helper_kofi_is_current_net(const struct net *net)
{
	return current->nsproxy && current->nsproxy->net_ns == net;
}

/* Returns whether an interface of the namespace has the address. */
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

/* Returns the first primary IPv4 address of the port's interface that others can reach, or 0. */
__be32 rust_helper_kofi_port_ipv4(struct ib_device *device, u32 port)
{
	struct net_device *netdev = ib_device_get_netdev(device, port);
	const struct in_ifaddr *ifa;
	struct in_device *in_dev;
	__be32 addr = 0;

	if (!netdev)
		return 0;
	/* inet_select_addr() could return the address of another interface. */
	rcu_read_lock();
	in_dev = __in_dev_get_rcu(netdev);
	if (in_dev) {
		in_dev_for_each_ifa_rcu(ifa, in_dev) {
			if (!(ifa->ifa_flags & IFA_F_SECONDARY) &&
			    ifa->ifa_scope <= RT_SCOPE_LINK) {
				addr = ifa->ifa_local;
				break;
			}
		}
	}
	rcu_read_unlock();
	dev_put(netdev);
	return addr;
}

/*
 * Returns whether an iWARP device uses the kernel's own TCP: its driver needs no port
 * mapper. In the kernel, siw is the only such driver.
 */
bool rust_helper_kofi_uses_kernel_tcp(const struct ib_device *device)
{
	return device->iw_driver_flags & IW_F_NO_PORT_MAP;
}

/* Writes the address vector from an InfiniBand or RoCE port to itself, by its first valid GID. */
int rust_helper_kofi_loopback_ah(struct ib_device *device, u32 port, struct rdma_ah_attr *ah_attr)
{
	const struct ib_gid_attr *gid = ERR_PTR(-ENODATA);
	int len = device->port_data[port].immutable.gid_tbl_len;
	struct ib_port_attr attr;
	union ib_gid dgid;
	int ret;

	for (int i = 0; i < len && IS_ERR(gid); i++)
		gid = rdma_get_gid_attr(device, port, i);
	if (IS_ERR(gid))
		return PTR_ERR(gid);

	ah_attr->type = rdma_ah_find_type(device, port);
	dgid = gid->gid;
	rdma_ah_set_port_num(ah_attr, port);
	rdma_ah_set_grh(ah_attr, &dgid, 0, gid->index, 1, 0);
	if (ah_attr->type == RDMA_AH_ATTR_TYPE_ROCE) {
		ret = rdma_read_gid_l2_fields(gid, NULL, ah_attr->roce.dmac);
	} else {
		ret = ib_query_port(device, port, &attr);
		if (!ret)
			rdma_ah_set_dlid(ah_attr, attr.lid);
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
 * Returns the PCI address of the device's adapter, also if a bus such as virtio is
 * between: the domain in the upper 16 bits, then the result of pci_dev_id(). Returns
 * -1 without a PCI device, and for a domain beyond 16 bits.
 */
s64 rust_helper_kofi_pci_address(const struct ib_device *device)
{
	for (struct device *parent = device->dev.parent; parent; parent = parent->parent) {
		if (dev_is_pci(parent)) {
			u32 domain = pci_domain_nr(to_pci_dev(parent)->bus);

			if (domain > U16_MAX)
				return -1;
			return (s64)domain << 16 | pci_dev_id(to_pci_dev(parent));
		}
	}
	return -1;
}

/*
 * Writes the link address of the port as text: that of its network interface, or the
 * first GID. Writes an empty text if the port has neither.
 */
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
 * Moderation of each profile of DIM (completions, microseconds), from none to that
 * for the highest rate of completions.
 */
static const struct {
	u16 count, period;
} kofi_dim_profiles[RDMA_DIM_PARAMS_NUM_PROFILES] = {
	{ 0, 0 }, { 2, 2 }, { 4, 4 }, { 8, 8 }, { 16, 8 }, { 32, 16 }, { 64, 16 }, { 64, 32 },
	{ 128, 64 },
};

struct kofi_dim {
	struct dim dim;		/* changed by kofi_dim_sample() and the work item */
	struct ib_cq *cq;
	bool is_on;
};

static int kofi_dim_set_moderation(struct kofi_dim *dim)
{
	unsigned int profile = min_t(unsigned int, dim->dim.profile_ix,
				     RDMA_DIM_PARAMS_NUM_PROFILES - 1);

	return rdma_set_cq_moderation(dim->cq, kofi_dim_profiles[profile].count,
				      kofi_dim_profiles[profile].period);
}

static void kofi_dim_apply(struct work_struct *work)
{
	struct kofi_dim *dim = container_of(work, struct kofi_dim, dim.work);

	if (READ_ONCE(dim->is_on))
		kofi_dim_set_moderation(dim);
	dim->dim.state = DIM_START_MEASURE;
}

/* Allocates a queue's state of adaptive moderation, which is off. Returns NULL without memory. */
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

/* Adds the number of completions that a read has found. Called by one thread at a time. */
void rust_helper_kofi_dim_sample(void *dim, u64 completions)
{
	rdma_dim(&((struct kofi_dim *)dim)->dim, completions);
}

/*
 * Turns adaptive moderation on and applies the current profile, or turns it off. Once
 * it is off, the work item does not change the moderation. May sleep. Returns 0, or
 * the error of a device that refuses the profile; moderation is then off.
 */
int rust_helper_kofi_dim_set(void *of, bool is_on)
{
	struct kofi_dim *dim = of;
	int ret = 0;

	WRITE_ONCE(dim->is_on, is_on);
	/* Not cancelled: only the work item sets the state in which DIM measures again. */
	flush_work(&dim->dim.work);
	if (is_on) {
		ret = kofi_dim_set_moderation(dim);
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
