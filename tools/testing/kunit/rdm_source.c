// SPDX-License-Identifier: GPL-2.0
/*
 * Tests CQ 12 and AV 22 of CONTRACT: source addresses of received messages.
 */

#include <linux/dma-mapping.h>

#include "rdm.h"
#include "traffic.h"

#define LEN	100
#define LONG	(3 * 16384)

struct source {
	struct kofi_rdm		*a, *b;
	fi_addr_t		to_b;
	struct fid_cntr		*cntr;
	u8			*out, *in;
};

static struct source *source(struct kunit *test, const struct rdm_opts *opts)
{
	struct source *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	const struct rdm_opts as_b = { .addr_format = opts->addr_format };

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->out = kunit_kzalloc(test, LONG, GFP_KERNEL);
	s->in = kunit_kzalloc(test, LONG, GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, s->out && s->in);
	get_random_bytes(s->out, LONG);
	s->a = rdm_open(test, &as_b);
	s->b = rdm_make(test, opts);
	/* The counter has to be closed after the endpoint. */
	fx_close(test, &s->b->ep->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(s->b->domain, &attr, &s->cntr, NULL));
	fx_defer_close(test, &s->cntr->fid);
	s->b->ep = fx_ep(test, s->b->domain, s->b->info);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(s->b->ep, &s->cntr->fid, FI_RECV));
	rdm_start(test, s->b, opts->cq_flags);
	s->to_b = rdm_addr(test, s->a, s->b);
	return s;
}

/* Sends a message from a to b; returns once it was received, with its entry unread. */
static void deliver(struct kunit *test, struct source *s, size_t len, u64 tag)
{
	u64 count = fi_cntr_read(s->cntr);

	memset(s->in, 0, len);
	if (tag) {
		KUNIT_ASSERT_EQ(test, 0, fi_trecv(s->b->ep, s->in, len, NULL, FI_ADDR_UNSPEC,
						  tag, 0, s->in));
		KUNIT_ASSERT_EQ(test, 0, fi_tsend(s->a->ep, s->out, len, NULL, s->to_b, tag,
						  NULL));
	} else {
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(s->b, FI_ADDR_UNSPEC, s->in, len, s->in));
		KUNIT_ASSERT_EQ(test, 0, rdm_send(s->a, s->to_b, s->out, len, NULL));
	}
	rdm_expect(test, s->a, NULL, NULL);
	KUNIT_ASSERT_EQ(test, 0, fi_cntr_wait(s->cntr, count + 1, FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_readerr(s->cntr));
	KUNIT_EXPECT_MEMEQ(test, s->out, s->in, len);
}

/* Reads b's next entry; returns its source address. */
static fi_addr_t read_source(struct kunit *test, struct source *s)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t from = 77;

	KUNIT_EXPECT_EQ(test, 1, fi_cq_readfrom(s->b->cq, &entry, 1, &from));
	KUNIT_EXPECT_PTR_EQ(test, (void *)s->in, entry.op_context);
	return from;
}

static fi_addr_t insert(struct kunit *test, struct source *s, fi_addr_t id, u64 flags)
{
	fi_addr_t addr = id;

	KUNIT_ASSERT_EQ(test, 1, rdm_insert(s->b, &s->a->name, &addr, flags));
	return addr;
}

static void cq_12_the_source_of_a_message(struct kunit *test)
{
	static const u32 types[] = { FI_AV_TABLE, FI_AV_MAP };

	for (int i = 0; i < ARRAY_SIZE(types); i++) {
		struct rdm_opts opts = {
			.caps = FI_SOURCE | FI_DIRECTED_RECV, .av_type = types[i],
		};
		struct source *s = source(test, &opts);
		fi_addr_t first, second;

		deliver(test, s, LEN, 0);
		KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, read_source(test, s));
		first = insert(test, s, 0, 0);
		deliver(test, s, LEN, 0);
		KUNIT_EXPECT_EQ(test, first, read_source(test, s));
		deliver(test, s, LONG, 7);
		KUNIT_EXPECT_EQ(test, first, read_source(test, s));
		/* The source is the one known at the arrival, not at the read. */
		deliver(test, s, LEN, 0);
		KUNIT_ASSERT_EQ(test, 0, fi_av_remove(s->b->av, &first, 1, 0));
		KUNIT_EXPECT_EQ(test, first, read_source(test, s));
		deliver(test, s, LEN, 0);
		second = insert(test, s, 0, 0);
		KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, read_source(test, s));
		deliver(test, s, LEN, 0);
		KUNIT_EXPECT_EQ(test, second, read_source(test, s));
		KUNIT_EXPECT_EQ(test, types[i] == FI_AV_TABLE, first == second);
	}
}

static void cq_12_without_the_capability_there_is_no_source(struct kunit *test)
{
	static const struct rdm_opts opts = {};
	struct source *s = source(test, &opts);

	fx_close(test, &s->b->ep->fid);
	s->b->info->caps &= ~FI_SOURCE;
	s->b->ep = fx_ep(test, s->b->domain, s->b->info);
	KUNIT_ASSERT_EQ(test, 0, fi_setname(&s->b->ep->fid, &s->b->name, s->b->name_len));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(s->b->ep, &s->cntr->fid, FI_RECV));
	rdm_start(test, s->b, 0);
	insert(test, s, 0, 0);
	deliver(test, s, LEN, 0);
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, read_source(test, s));
}

static void av_22_completions_report_user_ids(struct kunit *test)
{
	static const u32 types[] = { FI_AV_TABLE, FI_AV_MAP };
	const fi_addr_t id = 0x123456789abcull;

	for (int i = 0; i < ARRAY_SIZE(types); i++) {
		struct rdm_opts opts = {
			.caps = FI_SOURCE | FI_SOURCE_ERR | FI_DIRECTED_RECV,
			.av_type = types[i],
		};
		struct source *s = source(test, &opts);
		fi_addr_t addr = insert(test, s, id, FI_AV_USER_ID);

		KUNIT_EXPECT_NE(test, id, addr);
		deliver(test, s, LEN, 0);
		KUNIT_EXPECT_EQ(test, id, read_source(test, s));
		deliver(test, s, LONG, 7);
		KUNIT_EXPECT_EQ(test, id, read_source(test, s));
		/* Transfers use the fi_addr_t, not the identifier. */
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				fi_send(s->b->ep, s->out, LEN, NULL, id, NULL));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				fi_recv(s->b->ep, s->in, LEN, NULL, id, NULL));
		rdm_exchange(test, s->b, addr, s->a);
		/* Completions report the identifier until the address is removed. */
		deliver(test, s, LEN, 0);
		KUNIT_ASSERT_EQ(test, 0, fi_av_remove(s->b->av, &addr, 1, 0));
		KUNIT_EXPECT_EQ(test, id, read_source(test, s));
		addr = insert(test, s, 0, 0);
		deliver(test, s, LEN, 0);
		KUNIT_EXPECT_EQ(test, addr, read_source(test, s));
	}
}

/* Reads the error entry of a message from an unknown source, into err_data of size bytes. */
static void expect_unknown_source(struct kunit *test, struct source *s, size_t len, u64 flags,
				  void *err_data, size_t size)
{
	struct fi_cq_err_entry error = { .err_data = err_data, .err_data_size = size };
	struct fi_cq_tagged_entry entry;
	size_t addr_len = s->a->name_len;
	fi_addr_t from;

	KUNIT_EXPECT_EQ(test, -FI_EAVAIL, fi_cq_read(s->b->cq, &entry, 1));
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL, fi_cq_readfrom(s->b->cq, &entry, 1, &from));
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(s->b->cq, &error, 0));
	KUNIT_EXPECT_EQ(test, FI_EADDRNOTAVAIL, error.err);
	KUNIT_EXPECT_PTR_EQ(test, (void *)s->in, error.op_context);
	KUNIT_EXPECT_EQ(test, flags, error.flags);
	KUNIT_EXPECT_EQ(test, len, error.len);
	KUNIT_EXPECT_EQ(test, 0, error.olen);
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, error.src_addr);
	if (size) {
		KUNIT_EXPECT_PTR_EQ(test, err_data, error.err_data);
		addr_len = min(addr_len, size);
	}
	KUNIT_ASSERT_EQ(test, addr_len, error.err_data_size);
	KUNIT_EXPECT_MEMEQ(test, &s->a->name, error.err_data, addr_len);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(s->b->cq, &entry, 1));
	if (!size) {
		fi_addr_t addr;

		/* err_data stays valid until the next read of an error. */
		KUNIT_ASSERT_EQ(test, 1, rdm_insert(s->b, error.err_data, &addr, 0));
		KUNIT_EXPECT_EQ(test, 0, fi_av_remove(s->b->av, &addr, 1, 0));
	}
}

static const u32 formats[] = { FI_FORMAT_UNSPEC, FI_ADDR_STR };

static void name_format(const u32 *format, char *name)
{
	strscpy(name, *format ? "text" : "socket", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(format, formats, name_format);

static void cq_12_an_unknown_source_is_reported_by_its_address(struct kunit *test)
{
	const struct rdm_opts opts = {
		.caps = FI_SOURCE_ERR,
		.addr_format = *(const u32 *)test->param_value,
	};
	struct source *s = source(test, &opts);
	u8 err_data[128];

	deliver(test, s, LEN, 0);
	expect_unknown_source(test, s, LEN, FI_RECV | FI_MSG, NULL, 0);
	deliver(test, s, LONG, 0);
	expect_unknown_source(test, s, LONG, FI_RECV | FI_MSG, err_data, sizeof(err_data));
	deliver(test, s, LEN, 7);
	memset(err_data, 0xee, sizeof(err_data));
	expect_unknown_source(test, s, LEN, FI_RECV | FI_TAGGED, err_data, 5);
	KUNIT_EXPECT_NULL(test, memchr_inv(err_data + 5, 0xee, sizeof(err_data) - 5));
	/* A known source is reported as with FI_SOURCE. */
	KUNIT_EXPECT_EQ(test, insert(test, s, 0, 0), 0);
	deliver(test, s, LEN, 0);
	KUNIT_EXPECT_EQ(test, 0, read_source(test, s));
}

static void cq_12_unknown_sources_in_a_multi_recv_buffer(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_SOURCE_ERR | FI_MULTI_RECV };
	size_t least = LONG, unit = ALIGN(LEN, dma_get_cache_alignment());
	struct source *s = source(test, &opts);
	const struct kvec iov = { s->in, LONG };
	const struct fi_msg msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = s->in,
	};

	least -= unit;
	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&s->b->ep->fid, FI_OPT_ENDPOINT,
					   FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(s->b->ep, &msg, FI_MULTI_RECV));
	for (int i = 0; i < 2; i++) {
		struct fi_cq_err_entry error;

		KUNIT_ASSERT_EQ(test, 0, rdm_send(s->a, s->to_b, s->out, LEN, NULL));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, s->b->cq, &error));
		KUNIT_EXPECT_EQ(test, FI_EADDRNOTAVAIL, error.err);
		KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | (i ? FI_MULTI_RECV : 0), error.flags);
		KUNIT_EXPECT_PTR_EQ(test, (void *)(s->in + i * unit), error.buf);
		KUNIT_EXPECT_MEMEQ(test, s->out, s->in + i * unit, LEN);
	}
}

/* The message was received successfully: with selective completion it has no entry. */
static void cq_12_unknown_sources_with_selective_completion(struct kunit *test)
{
	static const struct rdm_opts opts = {
		.caps = FI_SOURCE_ERR, .cq_flags = FI_SELECTIVE_COMPLETION, .cq_size = 2,
	};
	struct source *s = source(test, &opts);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 5; i++)
		deliver(test, s, LEN, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(s->b->cq, &entry, 1));
}

/* A link-local address is ambiguous without its scope, which a request does not carry. */
static void cq_12_link_local_peers_are_recognised(struct kunit *test)
{
	struct rdm_opts opts = { .caps = FI_SOURCE | FI_SOURCE_ERR | FI_DIRECTED_RECV };
	struct fi_cq_err_entry error;
	struct fi_cq_tagged_entry entry;
	struct kofi_rdm *a, *b;
	char node[TR_NODE_LEN];
	fi_addr_t to_a, to_b;
	u8 *in, *out;

	if (!tr_link_local(node))
		kunit_skip(test, "the interface has no link-local address");
	opts.node = node;
	in = tr_buffer(test, LEN);
	out = tr_buffer(test, LEN);
	a = rdm_open(test, &opts);
	b = rdm_open(test, &opts);
	to_b = rdm_addr(test, a, b);
	/* An unknown source is reported by an address that can be sent to. */
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(b, FI_ADDR_UNSPEC, in, LEN, in));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(a, to_b, out, LEN, out));
	rdm_expect(test, a, out, NULL);
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, b->cq, &error));
	KUNIT_ASSERT_EQ(test, FI_EADDRNOTAVAIL, error.err);
	KUNIT_ASSERT_EQ(test, a->name_len, error.err_data_size);
	KUNIT_EXPECT_MEMEQ(test, &a->name, error.err_data, a->name_len);
	KUNIT_ASSERT_EQ(test, 1, rdm_insert(b, error.err_data, &to_a, 0));
	rdm_exchange(test, b, to_a, a);
	/* Directed receives match the peer, and completions report it. */
	for (int i = 0; i < 2; i++) {
		fi_addr_t from = FI_ADDR_NOTAVAIL;

		KUNIT_ASSERT_EQ(test, 0, rdm_recv(b, to_a, in, LEN, in));
		KUNIT_ASSERT_EQ(test, 0, rdm_send(a, to_b, out, LEN, out));
		rdm_expect(test, a, out, NULL);
		KUNIT_ASSERT_EQ(test, 0, tr_await(b->cq));
		KUNIT_ASSERT_EQ(test, 1, fi_cq_readfrom(b->cq, &entry, 1, &from));
		KUNIT_EXPECT_PTR_EQ(test, (void *)in, entry.op_context);
		KUNIT_EXPECT_EQ(test, to_a, from);
	}
}

static void info_08_source_capabilities(struct kunit *test)
{
	static const struct {
		u32	type;
		u64	caps, given;
		bool	is_there;
	} cases[] = {
		{ FI_EP_RDM, 0, FI_SOURCE, true },
		{ FI_EP_RDM, FI_MSG, 0, true },
		{ FI_EP_RDM, FI_MSG | FI_SOURCE, FI_SOURCE, true },
		{ FI_EP_RDM, FI_MSG | FI_SOURCE_ERR, FI_SOURCE | FI_SOURCE_ERR, true },
		{ FI_EP_MSG, FI_MSG | FI_SOURCE_ERR, 0, false },
	};
	const u64 both = FI_SOURCE | FI_SOURCE_ERR;

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fi_info *hints = fx_hints(test), *info = NULL;
		int expected = -FI_ENODATA;

		if (cases[i].is_there)
			expected = 0;
		hints->ep_attr->type = cases[i].type;
		hints->caps = cases[i].caps;
		KUNIT_EXPECT_EQ(test, expected,
				fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints,
					   &info));
		if (!info)
			continue;
		KUNIT_EXPECT_EQ(test, cases[i].given, info->caps & both);
		KUNIT_EXPECT_EQ(test, cases[i].given, info->rx_attr->caps & both);
		KUNIT_EXPECT_EQ(test, 0, info->tx_attr->caps & both);
		KUNIT_EXPECT_GE(test, info->domain_attr->max_err_data,
				sizeof(struct sockaddr_in6));
		fi_freeinfo(info);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cq_12_the_source_of_a_message),
	KUNIT_CASE(cq_12_without_the_capability_there_is_no_source),
	KUNIT_CASE(av_22_completions_report_user_ids),
	KUNIT_CASE_PARAM(cq_12_an_unknown_source_is_reported_by_its_address, format_gen_params),
	KUNIT_CASE(cq_12_unknown_sources_in_a_multi_recv_buffer),
	KUNIT_CASE(cq_12_unknown_sources_with_selective_completion),
	KUNIT_CASE(cq_12_link_local_peers_are_recognised),
	KUNIT_CASE(info_08_source_capabilities),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_source",
	.test_cases = cases,
};

kunit_test_suite(suite);
