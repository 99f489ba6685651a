// SPDX-License-Identifier: GPL-2.0
/*
 * Tests CM 9 of CONTRACT: network namespaces other than the initial one.
 * scenarios/netns.sh creates the namespaces and their devices, and names each
 * namespace by a process in it; without the scenario the suite is skipped.
 */

#include <linux/inet.h>
#include <linux/moduleparam.h>
#include <net/net_namespace.h>

#include "netns.h"

#define LEN 1000

static int net_server;
module_param(net_server, int, 0444);
MODULE_PARM_DESC(net_server, "a process in the network namespace to listen in");

static int net_client;
module_param(net_client, int, 0444);
MODULE_PARM_DESC(net_client, "a process in the network namespace to connect from");

char *net_addr = "";
module_param(net_addr, charp, 0444);
MODULE_PARM_DESC(net_addr, "address of a device in the listening namespace");

static char *net_addr6 = "";
module_param(net_addr6, charp, 0444);
MODULE_PARM_DESC(net_addr6, "IPv6 address of the same device");

bool ns_given(void)
{
	return net_server && net_client;
}

struct net *ns_get(struct kunit *test, int side)
{
	struct net *net = get_net_ns_by_pid(side ? net_server : net_client);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, net);
	return net;
}

/*
 * Returns true if the scenario's devices are siw's, which connect in the
 * initial namespace only: siw opens its sockets in the namespace of the calling
 * task.
 */
static bool devices_are_siw(struct kunit *test, struct fi_info **devices)
{
	KUNIT_ASSERT_EQ(test, 0, fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0,
					    fx_hints(test), devices));
	fx_defer_free(test, *devices);
	return tr_is_iwarp(*devices);
}

static struct fi_info *info_in(struct kunit *test, struct net *net,
			       const char *node, u64 flags)
{
	struct fi_info *hints = fx_hints(test), *info = NULL;
	int ret;

	hints->fabric_attr->net = net;
	hints->caps |= FI_RMA;
	ret = fi_getinfo(FI_VERSION(1, 17), node, "7490", flags, hints, &info);
	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_getinfo: %s", fi_strerror(ret));
	fx_defer_free(test, info);
	return info;
}

static void open_side(struct kunit *test, struct ns_side *side, int pid,
		      const char *node, u64 flags)
{
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct net *net = get_net_ns_by_pid(pid);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, net);
	side->info = info_in(test, net, node, flags);
	KUNIT_EXPECT_PTR_EQ(test, net, side->info->fabric_attr->net);
	side->fabric = fx_fabric(test, side->info);
	/* The fabric holds its own reference from here on. */
	put_net(net);
	side->domain = fx_domain(test, side->fabric, side->info);
	side->eq = fx_eq(test, side->fabric);
	side->cq = fx_cq(test, side->domain, &attr);
}

static struct fid_ep *open_ep(struct kunit *test, struct ns_side *side,
			      struct fi_info *info)
{
	struct fid_ep *ep = fx_ep(test, side->domain, info);

	fx_bind(test, ep, side->eq, side->cq, FI_TRANSMIT | FI_RECV);
	return ep;
}

static void expect_connected(struct kunit *test, struct ns_side *side,
			     struct fid_ep *ep)
{
	struct fx_cm_event event;

	KUNIT_ASSERT_GT(test, fx_wait_event(test, side->eq, FI_CONNECTED,
					    &event, sizeof(event)), 0);
	KUNIT_EXPECT_PTR_EQ(test, &ep->fid, event.entry.fid);
}

struct kofi_pair *ns_pair(struct kunit *test, const char *node,
			  struct ns_side sides[2])
{
	struct kofi_pair *pair = (void *)tr_buffer(test, sizeof(*pair));
	struct fi_info *devices;

	if (!ns_given() || !*node)
		kunit_skip(test, "no namespaces: see scenarios/netns.sh");
	if (devices_are_siw(test, &devices))
		kunit_skip(test, "siw connects in the first namespace alone");
	open_side(test, &sides[1], net_server, node, FI_SOURCE);
	open_side(test, &sides[0], net_client, node, 0);
	KUNIT_EXPECT_STRNEQ(test, sides[1].info->domain_attr->name,
			    sides[0].info->domain_attr->name);

	pair->pep = fx_listen(test, sides[1].fabric, sides[1].info, sides[1].eq);
	pair->ep[0] = open_ep(test, &sides[0], sides[0].info);
	KUNIT_ASSERT_EQ(test, 0, fi_connect(pair->ep[0], NULL, NULL, 0));
	pair->ep[1] = open_ep(test, &sides[1],
			      fx_wait_request(test, sides[1].eq));
	KUNIT_ASSERT_EQ(test, 0, fi_accept(pair->ep[1], NULL, 0));
	for (int side = 0; side < 2; side++) {
		expect_connected(test, &sides[side], pair->ep[side]);
		pair->cq[side] = sides[side].cq;
	}
	return pair;
}

/* The first lookup needs the neighbour's hardware address, which is not cached yet. */
static void cm_09_address_resolution_takes_less_than_its_timeout(struct kunit *test)
{
	struct fi_info *devices, *info;
	struct net *net;
	ktime_t start;

	if (!ns_given())
		kunit_skip(test, "no namespaces: see scenarios/netns.sh");
	if (devices_are_siw(test, &devices))
		kunit_skip(test, "siw connects in the first namespace alone");
	net = get_net_ns_by_pid(net_client);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, net);
	start = ktime_get();
	info = info_in(test, net, net_addr, 0);
	put_net(net);
	/* A lookup that misses the neighbour's answer times out after two seconds. */
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), 1500);
	KUNIT_EXPECT_NOT_NULL(test, info->src_addr);
}

/* siw is not offered in other namespaces; opening a domain or listening there fails. */
static void cm_09_siw_works_in_the_initial_namespace_only(struct kunit *test)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct fi_info *hints = fx_hints(test), *info, *found;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_pep *pep;
	struct fid_eq *eq;
	struct net *net;

	if (!ns_given())
		kunit_skip(test, "no namespaces: see scenarios/netns.sh");
	if (!devices_are_siw(test, &info))
		kunit_skip(test, "other drivers go by rdma_cm's namespace");
	KUNIT_ASSERT_EQ(test, 1, in4_pton(net_addr, -1, (u8 *)&addr.sin_addr,
					  -1, NULL));
	net = get_net_ns_by_pid(net_server);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, net);
	hints->fabric_attr->net = net;
	KUNIT_EXPECT_EQ(test, -FI_ENODATA,
			fi_getinfo(FI_VERSION(1, 17), net_addr, NULL, FI_SOURCE,
				   hints, &found));
	/* Only the loop provider is offered. */
	KUNIT_ASSERT_EQ(test, 0, fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0,
					    hints, &found));
	KUNIT_EXPECT_TRUE(test, tr_is_loop(found));
	KUNIT_EXPECT_NULL(test, found->next);
	fi_freeinfo(found);

	info->fabric_attr->net = net;
	fabric = fx_fabric(test, info);
	put_net(net);
	KUNIT_EXPECT_EQ(test, -FI_ENODEV, fi_domain(fabric, info, &domain, NULL));
	eq = fx_eq(test, fabric);
	pep = fx_pep(test, fabric, info);
	KUNIT_ASSERT_EQ(test, 0, fi_pep_bind(pep, &eq->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_setname(&pep->fid, &addr, sizeof(addr)));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, fi_listen(pep));
}

static void exchange_across(struct kunit *test, const char *node)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct ns_side sides[2] = {};
	struct kofi_pair *pair = ns_pair(test, node, sides);
	struct sockaddr_in6 from = {};
	size_t len = sizeof(from);

	for (int side = 0; side < 2; side++)
		tr_exchange(test, pair, side, buf, buf + LEN, LEN);
	KUNIT_EXPECT_EQ(test, 0, fi_getpeer(pair->ep[1], &from, &len));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	tr_expect_shutdown(test, sides[1].eq, pair->ep[1]);
}

static void cm_09_connection_between_two_namespaces(struct kunit *test)
{
	exchange_across(test, net_addr);
}

static void cm_09_connection_between_two_namespaces_over_ipv6(struct kunit *test)
{
	exchange_across(test, net_addr6);
}

static void cm_09_an_address_is_valid_in_its_namespace_only(struct kunit *test)
{
	struct fi_info *hints, *info = NULL;

	if (!net_server || !*net_addr)
		kunit_skip(test, "no namespaces: see scenarios/netns.sh");
	hints = fx_hints(test);
	KUNIT_EXPECT_EQ_MSG(test, -FI_ENODATA,
			    fi_getinfo(FI_VERSION(1, 17), net_addr, NULL,
				       FI_SOURCE, hints, &info),
			    "the address is not in the initial namespace");
	fi_freeinfo(info);
}

/* A fabric in the hints determines the namespace; another namespace in the hints finds no match. */
static void info_16_a_fabric_in_hints_sets_the_namespace(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info;
	struct net *net[2];

	if (!ns_given())
		kunit_skip(test, "no namespaces: see scenarios/netns.sh");
	for (int side = 0; side < 2; side++)
		net[side] = ns_get(test, side);
	hints->fabric_attr->net = net[0];
	hints->fabric_attr->prov_name = kstrdup("loop", GFP_KERNEL);
	hints->fabric_attr->fabric = fx_fabric(test, fx_info_for(test, hints, NULL, NULL, 0));
	hints->fabric_attr->net = NULL;
	info = fx_info_for(test, hints, NULL, NULL, 0);
	KUNIT_EXPECT_PTR_EQ(test, net[0], info->fabric_attr->net);
	KUNIT_EXPECT_PTR_EQ(test, hints->fabric_attr->fabric, info->fabric_attr->fabric);
	hints->fabric_attr->net = net[1];
	KUNIT_EXPECT_EQ(test, -FI_ENODATA, fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints,
						      &info));
	for (int side = 0; side < 2; side++)
		put_net(net[side]);
}

/* Opens a named AV in the loop domain of a namespace; the domain's name is the same in all. */
static struct fid_av *open_named(struct kunit *test, struct net *net)
{
	struct fi_info *hints = fx_hints(test), *info;
	struct fi_av_attr attr = { .name = "peers" };
	struct fid_av *av;

	hints->fabric_attr->net = net;
	hints->fabric_attr->prov_name = kstrdup("loop", GFP_KERNEL);
	info = fx_info_for(test, hints, NULL, NULL, 0);
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(fx_domain(test, fx_fabric(test, info), info), &attr,
					    &av, NULL));
	fx_defer_close(test, &av->fid);
	return av;
}

static void av_18_named_vectors_are_per_namespace(struct kunit *test)
{
	struct fid_av *av[3];
	fi_addr_t out;
	size_t len = 0;

	if (!ns_given())
		kunit_skip(test, "no namespaces: see scenarios/netns.sh");
	for (int side = 0; side < 2; side++) {
		struct net *net = ns_get(test, side);

		av[side] = open_named(test, net);
		if (!side)
			av[2] = open_named(test, net);
		put_net(net);
	}
	KUNIT_ASSERT_EQ(test, 1, fi_av_insertsvc(av[0], "10.0.0.1", "7471", &out, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_av_lookup(av[2], out, NULL, &len));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_lookup(av[1], out, NULL, &len));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cm_09_address_resolution_takes_less_than_its_timeout),
	KUNIT_CASE(cm_09_siw_works_in_the_initial_namespace_only),
	KUNIT_CASE(cm_09_connection_between_two_namespaces),
	KUNIT_CASE(cm_09_connection_between_two_namespaces_over_ipv6),
	KUNIT_CASE(cm_09_an_address_is_valid_in_its_namespace_only),
	KUNIT_CASE(info_16_a_fabric_in_hints_sets_the_namespace),
	KUNIT_CASE(av_18_named_vectors_are_per_namespace),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_netns",
	.test_cases = cases,
};

kunit_test_suite(suite);
