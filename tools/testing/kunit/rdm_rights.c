// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM 10 and MR 4 of CONTRACT: a peer's access to an endpoint is limited
 * to what the endpoint's capabilities and a registration permit.
 */

#include <linux/delay.h>
#include <linux/moduleparam.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "rdm.h"
#include "rdm_raw.h"
#include "rma.h"

static bool rights_hold;
module_param(rights_hold, bool, 0644);
MODULE_PARM_DESC(rights_hold, "an endpoint whose peer has tried wrong keys stays until this is N");

#define REGION		4096
#define REGION_FILL		0x5a
#define LOCAL_FILL		0xa5
#define LONG		SZ_256K
#define SIDES		(FI_SEND | FI_RECV)

/* Accesses that a peer tries, in this order: iWARP need not report a refused write. */
enum what { FETCH_READ, FETCH_ADD, PUT_ATOMIC, GET, PUT, WHATS };

static const char *const whats[] = { "atomic read", "fetch and add", "atomic write", "read", "write" };
static_assert(ARRAY_SIZE(whats) == WHATS);

/* Configuration of the target. */
enum target_type { ORDINARY, SCALABLE, SHARED_RX, SHARED_TX };

static const struct target_opts {
	const char	*name;
	u64		caps;
	u32		allowed;	/* bits of enum what */
	enum target_type	target_type;
} targets[] = {
	{ "messages in both directions", SIDES },
	{ "messages", 0 },
	{ "messages, scalable", SIDES, .target_type = SCALABLE },
	{ "messages, shared receives", SIDES, .target_type = SHARED_RX },
	{ "messages, shared transmits", SIDES, .target_type = SHARED_TX },
	{ "messages, initiator of all", SIDES | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE },
	{ "reads", SIDES | FI_RMA | FI_REMOTE_READ, BIT(GET) },
	{ "writes", SIDES | FI_RMA | FI_REMOTE_WRITE, BIT(PUT) },
	{ "writes, shared transmits", SIDES | FI_RMA | FI_REMOTE_WRITE, BIT(PUT), SHARED_TX },
	{ "atomic operations", SIDES | FI_ATOMIC | RMA_BOTH,
	  BIT(FETCH_READ) | BIT(FETCH_ADD) | BIT(PUT_ATOMIC) },
	{ "atomic reads", SIDES | FI_ATOMIC | FI_REMOTE_READ, BIT(FETCH_READ) },
	{ "atomic writes", SIDES | FI_ATOMIC | FI_REMOTE_WRITE, BIT(PUT_ATOMIC) },
	{ "everything", FI_RMA | FI_ATOMIC, BIT(WHATS) - 1 },
	{ "everything, scalable", FI_RMA | FI_ATOMIC, BIT(WHATS) - 1, SCALABLE },
	{ "everything, shared transmits", FI_RMA | FI_ATOMIC, BIT(WHATS) - 1, SHARED_TX },
};

KUNIT_ARRAY_PARAM_DESC(targets, targets, name);

struct region {
	u8		*memory;
	struct fid_mr	*mr;
	u64		addr, key;
};

static void register_region(struct kunit *test, struct fid_domain *domain, struct region *region)
{
	region->memory = tr_buffer(test, REGION);
	memset(region->memory, REGION_FILL, REGION);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(domain, region->memory, REGION, RMA_BOTH, 0, 0, 0,
					   &region->mr, NULL));
	fx_defer_close(test, &region->mr->fid);
	region->addr = (uintptr_t)region->memory;
	region->key = fi_mr_key(region->mr);
}

static void open_scalable(struct kunit *test, struct kofi_rdm *rdm)
{
	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep(rdm->domain, rdm->info, &rdm->ep, NULL));
	fx_defer_close(test, &rdm->ep->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep_bind(rdm->ep, &rdm->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(rdm->ep));
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&rdm->ep->fid, &rdm->name, &rdm->name_len));
}

/* Opens an endpoint with these capabilities. */
static struct kofi_rdm *open_target(struct kunit *test, const struct target_opts *target_opts)
{
	struct kofi_rdm *rdm = kunit_kzalloc(test, sizeof(*rdm), GFP_KERNEL);
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC,
	};
	struct fi_info *hints = rdm_hints(test);
	struct fi_rx_attr rx_attr = { .size = 64 };
	struct fi_tx_attr tx_attr = {};
	struct fid_stx *stx;
	struct fid_ep *srx;

	KUNIT_ASSERT_NOT_NULL(test, rdm);
	hints->caps |= target_opts->caps;
	if (target_opts->target_type == SHARED_TX)
		hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	if (target_opts->target_type == SHARED_RX)
		hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	rdm->info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	rdm->fabric = fx_fabric(test, rdm->info);
	rdm->domain = fx_domain(test, rdm->fabric, rdm->info);
	rdm->name_len = sizeof(rdm->name);
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(rdm->domain, &av_attr, &rdm->av, NULL));
	fx_defer_close(test, &rdm->av->fid);
	if (target_opts->target_type == SCALABLE) {
		open_scalable(test, rdm);
		return rdm;
	}
	rdm->cq = fx_cq(test, rdm->domain, &cq_attr);
	if (target_opts->target_type == SHARED_TX) {
		KUNIT_ASSERT_EQ(test, 0, fi_stx_context(rdm->domain, &tx_attr, &stx, NULL));
		fx_defer_close(test, &stx->fid);
	}
	if (target_opts->target_type == SHARED_RX) {
		KUNIT_ASSERT_EQ(test, 0, fi_srx_context(rdm->domain, &rx_attr, &srx, NULL));
		fx_defer_close(test, &srx->fid);
	}
	rdm->ep = fx_ep(test, rdm->domain, rdm->info);
	if (target_opts->target_type == SHARED_TX)
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(rdm->ep, &stx->fid, 0));
	if (target_opts->target_type == SHARED_RX)
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(rdm->ep, &srx->fid, 0));
	rdm_start(test, rdm, 0);
	return rdm;
}

static int post(struct kofi_rdm *rdm, fi_addr_t to, const struct region *region, enum what what,
		u64 *near)
{
	u64 addr = region->addr + 64;

	switch (what) {
	case FETCH_READ:
		return fi_fetch_atomic(rdm->ep, near + 8, 1, NULL, near, NULL, to, addr, region->key,
				       FI_UINT64, FI_ATOMIC_READ, near);
	case FETCH_ADD:
		return fi_fetch_atomic(rdm->ep, near + 8, 1, NULL, near, NULL, to, addr, region->key,
				       FI_UINT64, FI_SUM, near);
	case PUT_ATOMIC:
		return fi_atomic(rdm->ep, near + 8, 1, NULL, to, addr, region->key, FI_UINT64,
				 FI_ATOMIC_WRITE, near);
	case GET:
		return fi_read(rdm->ep, near, 8, NULL, to, addr, region->key, near);
	default:
		return fi_write(rdm->ep, near + 8, 8, NULL, to, addr, region->key, near);
	}
}

/* Returns 0, or the errno that the operation completed with. */
static int read_completion(struct kunit *test, struct fid_cq *cq, void *context)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;
	ssize_t ret = fi_cq_sread(cq, &entry, 1, NULL, FX_WAIT_MS);

	if (ret == 1) {
		KUNIT_ASSERT_PTR_EQ(test, context, entry.op_context);
		return 0;
	}
	KUNIT_ASSERT_EQ(test, -FI_EAVAIL, ret);
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(cq, &error, 0));
	KUNIT_ASSERT_PTR_EQ(test, context, error.op_context);
	KUNIT_ASSERT_NE(test, 0, error.err);
	return error.err;
}

/* Returns whether the device under test completes a write once TCP has accepted it. */
static bool is_iwarp(struct kunit *test)
{
	return tr_is_iwarp(fx_info(test, fx_addr, NULL, FI_SOURCE));
}

static bool is_untouched(const void *memory, u8 byte, size_t len)
{
	return !memchr_inv(memory, byte, len);
}

/* Waits until a write has changed the memory: on iWARP it completes earlier. */
static void await_write(struct kunit *test, const struct region *region)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (is_untouched(region->memory, REGION_FILL, REGION) && time_before(jiffies, end))
		usleep_range(50, 100);
	KUNIT_EXPECT_FALSE(test, is_untouched(region->memory, REGION_FILL, REGION));
	memset(region->memory, REGION_FILL, REGION);
}

static void try_one(struct kunit *test, struct kofi_rdm *rdm, fi_addr_t to, struct region *region,
		    enum what what, bool is_allowed)
{
	u64 *near = (u64 *)tr_buffer(test, 128);
	int err;

	memset(near, LOCAL_FILL, 64);
	near[8] = 1;
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(post(rdm, to, region, what, near)));
	err = read_completion(test, rdm->cq, near);
	if (!is_allowed) {
		if (what != PUT || !is_iwarp(test))
			KUNIT_EXPECT_NE_MSG(test, 0, err, "%s", whats[what]);
		if (what < GET)
			KUNIT_EXPECT_EQ_MSG(test, FI_EACCES, err, "%s", whats[what]);
		KUNIT_EXPECT_TRUE_MSG(test, is_untouched(near, LOCAL_FILL, 64), "%s", whats[what]);
		KUNIT_EXPECT_TRUE_MSG(test, is_untouched(region->memory, REGION_FILL, REGION), "%s",
				      whats[what]);
		return;
	}
	KUNIT_ASSERT_EQ_MSG(test, 0, err, "%s", whats[what]);
	if (what == FETCH_READ || what == FETCH_ADD || what == GET)
		KUNIT_EXPECT_TRUE_MSG(test, is_untouched(near, REGION_FILL, 8), "%s", whats[what]);
	if (what == FETCH_ADD || what == PUT_ATOMIC || what == PUT)
		await_write(test, region);
}

/* Sends a message that the receiver reads from the sender's memory. */
static void exchange_long(struct kunit *test, struct kofi_rdm *from, struct kofi_rdm *to)
{
	u8 *out = tr_vbuffer(test, LONG), *in = tr_vbuffer(test, LONG);
	fi_addr_t addr = rdm_addr(test, from, to);

	tr_fill(out, LONG, 3);
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(to, FI_ADDR_UNSPEC, in, LONG, in));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(from, addr, out, LONG, out));
	rdm_expect(test, to, in, NULL);
	rdm_expect(test, from, out, NULL);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, LONG, 3));
}

static void rdm_10_access_follows_the_capabilities(struct kunit *test)
{
	const struct target_opts *target_opts = test->param_value;
	struct rdm_opts opts = { .caps = FI_RMA | FI_ATOMIC };
	struct kofi_rdm *a = rdm_open(test, &opts), *b = open_target(test, target_opts);
	fi_addr_t to_b = rdm_addr(test, a, b);
	struct region region;

	register_region(test, b->domain, &region);
	/* According to its source, siw does not check the access flags of a queue pair. */
	bool is_unchecked = is_iwarp(test) && target_opts->caps & FI_RMA &&
		      (!(target_opts->caps & SIDES) || target_opts->caps & RMA_BOTH);
	bool has_ended = false;

	for (enum what what = 0; what < WHATS; what++) {
		bool is_allowed = target_opts->allowed & BIT(what);

		if (is_allowed || what < GET || !is_unchecked) {
			try_one(test, a, to_b, &region, what, is_allowed);
			has_ended = !is_allowed;
		}
	}
	/* A message sent over a connection that ends may be lost. */
	if (has_ended) {
		rdm_await_connected(test, a, 0);
		rdm_await_connected(test, b, 0);
	}
	if (target_opts->target_type == ORDINARY || target_opts->target_type == SHARED_TX) {
		exchange_long(test, b, a);
		exchange_long(test, a, b);
	}
	fx_close(test, &b->ep->fid);
	KUNIT_EXPECT_TRUE(test, is_untouched(region.memory, REGION_FILL, REGION));
}

/* While a rendezvous message is pending, the peer can read that message only. */
static void rdm_10_a_rendezvous_gives_no_access_to_other_memory(struct kunit *test)
{
	static const struct target_opts target_opts = { .caps = SIDES };
	struct rdm_opts opts = { .caps = FI_RMA | FI_ATOMIC };
	struct kofi_rdm *a = rdm_open(test, &opts), *b = open_target(test, &target_opts);
	fi_addr_t to_a = rdm_addr(test, b, a), to_b = rdm_addr(test, a, b);
	u8 *out = tr_vbuffer(test, LONG);
	struct region region;

	register_region(test, b->domain, &region);
	KUNIT_ASSERT_EQ(test, 0, fi_tsend(b->ep, out, LONG, NULL, to_a, 7, out));
	rdm_await_unexpected(test, a, 7);
	try_one(test, a, to_b, &region, GET, false);
	KUNIT_EXPECT_NE(test, 0, read_completion(test, b->cq, out));
}

/* A connection permits one wrong key: later requests on it are dropped. */
static void rdm_10_a_wrong_key_of_an_atomic_ends_the_connection(struct kunit *test)
{
	struct raw *raw = raw_open(test, SZ_4K);
	struct kofi_rdm *rdm = rdm_open(test, &(struct rdm_opts){ .caps = FI_RMA | FI_ATOMIC });
	struct region region;

	register_region(test, rdm->domain, &region);
	for (int round = 0; round < 3; round++) {
		const u64 keys[] = { region.key ^ 0x100, region.key, region.key };

		raw_reconnect_as(test, raw, &rdm->name, RAW_PORT, 0);
		for (int i = 0; i < ARRAY_SIZE(keys); i++) {
			u8 *packet = raw_get_packet_within(raw, FX_WAIT_MS);

			if (!packet)
				break;
			if (raw_send(raw, packet,
				     raw_init_atomic(raw, packet, region.addr, keys[i], i)))
				break;
		}
		raw_await_closed(test, raw, "a wrong key");
		raw_disconnect(test, raw);
		rdm_await_connected(test, rdm, 0);
		KUNIT_EXPECT_TRUE(test, is_untouched(region.memory, REGION_FILL, REGION));
	}
	for (unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	     READ_ONCE(rights_hold) && time_before(jiffies, end);)
		msleep(20);
}

/* The requester gets the errno, and a new connection for its next operation. */
static void rdm_10_a_refused_atomic_completes_with_an_error(struct kunit *test)
{
	struct rdm_opts opts = { .caps = FI_RMA | FI_ATOMIC };
	struct kofi_rdm *a = rdm_open(test, &opts), *b = rdm_open(test, &opts);
	fi_addr_t to_b = rdm_addr(test, a, b);
	struct region region;

	register_region(test, b->domain, &region);
	for (int round = 0; round < 3; round++) {
		struct region wrong = region;

		if (round)
			wrong.addr += REGION;
		else
			wrong.key ^= 0x100;
		try_one(test, a, to_b, &wrong, FETCH_ADD, false);
		try_one(test, a, to_b, &region, FETCH_ADD, true);
	}
}

/* Returns the port that an endpoint listens on. */
static u16 port_of(const struct kofi_rdm *rdm)
{
	return ntohs(((const struct sockaddr_in *)&rdm->name)->sin_port);
}

/* Sends a request that claims the address of another endpoint, which is connected. */
static void claim(struct kunit *test, struct raw *raw, struct kofi_rdm *rdm, u16 port)
{
	struct raw_connect_data data = raw_connect_data(raw, port);

	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED,
			raw_connect(test, raw, &rdm->name, &data, sizeof(data)));
	raw_disconnect(test, raw);
}

static void rdm_10_a_claimed_port_replaces_no_connection(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL), *honest = rdm_open(test, NULL);
	fi_addr_t to_rdm = rdm_addr(test, honest, rdm), to_honest = rdm_addr(test, rdm, honest);
	struct raw *raw = raw_open(test, SZ_4K);
	u16 port = port_of(honest);

	for (int round = 0; round < 3; round++) {
		rdm_exchange(test, honest, to_rdm, rdm);
		claim(test, raw, rdm, port);
		rdm_exchange(test, rdm, to_honest, honest);
		KUNIT_EXPECT_EQ(test, 1, rdm_connected(rdm));
		KUNIT_EXPECT_EQ(test, 1, rdm_connected(honest));
	}
	/* After the connection has ended, the next request is accepted. */
	fx_close(test, &honest->ep->fid);
	raw_reconnect_as(test, raw, &rdm->name, port, 0);
	raw_disconnect(test, raw);
}

static void rdm_10_a_peer_cannot_claim_the_endpoints_own_address(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	fi_addr_t to_itself = rdm_addr(test, rdm, rdm);
	struct raw *raw = raw_open(test, SZ_4K);

	for (int round = 0; round < 3; round++) {
		claim(test, raw, rdm, port_of(rdm));
		rdm_exchange(test, rdm, to_itself, rdm);
	}
}

/* A peer that may be gone gets a packet, so that the device detects a failure. */
static void rdm_10_a_claimed_address_probes_the_connection(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	struct raw *first = raw_open_connected(test, &rdm->name, 0);
	struct raw *second = raw_open(test, SZ_4K);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	for (raw_progress(first); !first->probes; raw_progress(first)) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for the probe of the existing connection");
		KUNIT_ASSERT_FALSE(test, first->is_closed);
		claim(test, second, rdm, RAW_PORT);
	}
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(rdm));
	raw_disconnect(test, first);
	raw_reconnect_as(test, second, &rdm->name, RAW_PORT, 0);
	raw_disconnect(test, second);
}

static struct kunit_case rdm_rights_cases[] = {
	KUNIT_CASE_PARAM(rdm_10_access_follows_the_capabilities, targets_gen_params),
	KUNIT_CASE(rdm_10_a_rendezvous_gives_no_access_to_other_memory),
	KUNIT_CASE(rdm_10_a_wrong_key_of_an_atomic_ends_the_connection),
	KUNIT_CASE(rdm_10_a_refused_atomic_completes_with_an_error),
	KUNIT_CASE(rdm_10_a_claimed_port_replaces_no_connection),
	KUNIT_CASE(rdm_10_a_peer_cannot_claim_the_endpoints_own_address),
	KUNIT_CASE(rdm_10_a_claimed_address_probes_the_connection),
	{}
};

static struct kunit_suite rdm_rights_suite = {
	.name = "kofi_rdm_rights",
	.test_cases = rdm_rights_cases,
};

/* A connected endpoint opened for messages only, in a domain with a registered region. */
static void mr_04_access_follows_the_endpoints_capabilities(struct kunit *test)
{
	static const struct target_opts kinds[] = {
		{ "messages", 0 },
		{ "reads", FI_RMA | SIDES | FI_REMOTE_READ, BIT(GET) },
		{ "writes", FI_RMA | SIDES | FI_REMOTE_WRITE, BIT(PUT) },
		{ "memory", FI_RMA, BIT(GET) | BIT(PUT) },
	};

	for (int i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
		const struct target_opts *target_opts = &kinds[i / 2];
		enum what what = i % 2 ? PUT : GET;
		struct fi_info *hints = fx_hints(test);
		struct fi_info *initiator_hints = fx_hints(test), *info;
		struct kofi_fabric_fx *fx = fx_open(test);
		struct kofi_rdm near = { .cq = fx->cq };
		struct fid_pep *pep;
		struct region region;

		/* According to its source, siw does not check the access flags of a queue pair. */
		if (is_iwarp(test))
			kunit_skip(test, "this device does not ask");
		initiator_hints->caps = FI_MSG | FI_RMA;
		fx->info = fx_info_for(test, initiator_hints, fx_addr, NULL, FI_SOURCE);
		near.ep = fx_bound_ep(test, fx);
		hints->caps = FI_MSG | target_opts->caps;
		info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
		pep = fx_listen(test, fx->fabric, info, fx->eq);
		register_region(test, fx->domain, &region);
		fx_connect(test, fx->domain, near.ep, pep, fx->eq, fx->cq);
		try_one(test, &near, 0, &region, what, target_opts->allowed & BIT(what));
	}
}

static struct kunit_case rights_cases[] = {
	KUNIT_CASE(mr_04_access_follows_the_endpoints_capabilities),
	{}
};

static struct kunit_suite rights_suite = {
	.name = "kofi_rights",
	.test_cases = rights_cases,
};

kunit_test_suites(&rdm_rights_suite, &rights_suite);
