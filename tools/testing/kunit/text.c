// SPDX-License-Identifier: GPL-2.0
/*
 * Tests FI_ADDR_STR: text addresses in nodes and hints, in an info, and in
 * everything opened with it.
 */

#include <linux/in.h>
#include <linux/inet.h>
#include <linux/slab.h>

#include "fixture.h"

#define VERSION		FI_VERSION(1, 17)

/* Fits the text of any address. */
struct text {
	char at[96];
};

/* Returns fx_addr with a port, as in "fi_sockaddr_in://10.0.0.1:7500". */
static struct text text_of(u16 port)
{
	struct text text;

	snprintf(text.at, sizeof(text.at), "fi_sockaddr_in://%s:%u", fx_addr,
		 port);
	return text;
}

/* Returns hints for text addresses. */
static struct fi_info *text_hints(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test);

	hints->addr_format = FI_ADDR_STR;
	return hints;
}

/* Returns an info whose addresses are text. */
static struct fi_info *text_info(struct kunit *test)
{
	return fx_info_for(test, text_hints(test), fx_addr, NULL, FI_SOURCE);
}

static void expect_text(struct kunit *test, const char *want, const void *addr,
			size_t len)
{
	KUNIT_ASSERT_EQ(test, strlen(want) + 1, len);
	KUNIT_EXPECT_STREQ(test, want, (const char *)addr);
}

/* A truncated text is terminated, and its full length is returned. */
static void cm_08_a_truncated_text_is_terminated(struct kunit *test)
{
	struct fi_info *info = text_info(test);
	struct fid_fabric *fabric = fx_fabric(test, info);
	struct fid_pep *pep = fx_listen(test, fabric, info, fx_eq(test, fabric));
	struct text want, cut;
	size_t full = sizeof(want), len;

	KUNIT_ASSERT_EQ(test, 0, fi_getname(&pep->fid, &want, &full));
	for (size_t space = 0; space < full; space++) {
		memset(&cut, 'x', sizeof(cut));
		len = space;
		KUNIT_EXPECT_EQ(test, -FI_ETOOSMALL, fi_getname(&pep->fid, &cut, &len));
		KUNIT_EXPECT_EQ(test, full, len);
		if (space) {
			KUNIT_EXPECT_EQ(test, space - 1, strnlen(cut.at, space));
			KUNIT_EXPECT_MEMEQ(test, cut.at, want.at, space - 1);
		}
		KUNIT_EXPECT_EQ(test, 'x', cut.at[space]);
	}
}

static void info_07_addresses_as_text(struct kunit *test)
{
	struct fi_info *info = text_info(test), *hints = text_hints(test);

	KUNIT_EXPECT_EQ(test, FI_ADDR_STR, info->addr_format);
	expect_text(test, text_of(0).at, info->src_addr, info->src_addrlen);
	KUNIT_EXPECT_NULL(test, info->dest_addr);

	/* Addresses in hints are text, too. */
	hints->src_addr = kstrdup(text_of(7).at, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, hints->src_addr);
	hints->src_addrlen = strlen(hints->src_addr) + 1;
	info = fx_info_for(test, hints, NULL, NULL, 0);
	KUNIT_EXPECT_EQ(test, FI_ADDR_STR, info->addr_format);
	expect_text(test, text_of(7).at, info->src_addr, info->src_addrlen);

	/* Without any address, the format applies to addresses of later calls. */
	info = fx_info_for(test, text_hints(test), NULL, NULL, 0);
	KUNIT_EXPECT_EQ(test, FI_ADDR_STR, info->addr_format);
	KUNIT_EXPECT_NULL(test, info->src_addr);
}

static void info_07_a_peer_as_text(struct kunit *test)
{
	struct fi_info *hints = text_hints(test);
	struct fi_info *info = fx_info_for(test, hints, fx_addr, "7471", 0);

	expect_text(test, text_of(7471).at, info->dest_addr, info->dest_addrlen);
	KUNIT_EXPECT_EQ(test, 0, strncmp(info->src_addr, text_of(0).at,
					 strlen("fi_sockaddr_in://")));
}

static void info_01_invalid_text_addresses(struct kunit *test)
{
	static const char *const wrong[] = {
		"fi_sockaddr_in://", "fi_sockaddr_in://:1", "://", "x://y:1",
		"fi_sockaddr_in://10.0.0.1", "fi_sockaddr_in://10.0.0.1:99999",
		"fi_sockaddr_in6://[10.0.0.1]:1", "fi_sockaddr_in6://::1:1",
	};
	struct fi_info *hints = text_hints(test), *info;

	for (int i = 0; i < ARRAY_SIZE(wrong); i++) {
		KUNIT_EXPECT_EQ_MSG(test, -FI_ENODATA,
				    fi_getinfo(VERSION, wrong[i], NULL,
					       FI_SOURCE, NULL, &info),
				    "%s", wrong[i]);
		hints->src_addr = kstrdup(wrong[i], GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, hints->src_addr);
		hints->src_addrlen = strlen(wrong[i]) + 1;
		KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
				    fi_getinfo(VERSION, NULL, NULL, 0, hints,
					       &info), "%s", wrong[i]);
		kfree(hints->src_addr);
	}
	hints->src_addr = NULL;
}

/* A text node needs no hints, and allows no service; the answer has the default format. */
static void info_07_a_node_as_text(struct kunit *test)
{
	struct fi_info *info = fx_info(test, text_of(7471).at, NULL, FI_SOURCE);
	struct sockaddr_in *addr = info->src_addr;

	KUNIT_EXPECT_EQ(test, FI_SOCKADDR_IN, info->addr_format);
	KUNIT_ASSERT_EQ(test, sizeof(*addr), info->src_addrlen);
	KUNIT_EXPECT_EQ(test, htons(7471), addr->sin_port);
	KUNIT_EXPECT_EQ(test, in_aton(fx_addr), addr->sin_addr.s_addr);
	KUNIT_EXPECT_EQ(test, -FI_ENODATA,
			fi_getinfo(VERSION, text_of(7471).at, "7471", FI_SOURCE,
				   NULL, &info));
}

static void cm_01_both_ends_as_text(struct kunit *test)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_CONTEXT };
	struct fi_info *info = text_info(test), *request;
	struct fid_fabric *fabric = fx_fabric(test, info);
	struct fid_domain *domain = fx_domain(test, fabric, info);
	struct fid_cq *cq = fx_cq(test, domain, &attr);
	struct fid_eq *eq = fx_eq(test, fabric);
	struct fid_pep *pep = fx_listen(test, fabric, info, eq);
	struct fid_ep *ep = fx_ep(test, domain, info), *accepted;
	struct text listens, found;
	size_t len = sizeof(listens);

	KUNIT_ASSERT_EQ(test, 0, fi_getname(&pep->fid, &listens, &len));
	KUNIT_EXPECT_EQ(test, strlen(listens.at) + 1, len);
	KUNIT_EXPECT_EQ(test, 0, strncmp(listens.at, text_of(1).at,
					 strlen(text_of(1).at) - 1));
	fx_bind(test, ep, eq, cq, FI_TRANSMIT | FI_RECV);
	fx_start_connect(test, ep, pep);
	request = fx_wait_request(test, eq);
	KUNIT_EXPECT_EQ(test, FI_ADDR_STR, request->addr_format);
	expect_text(test, listens.at, request->src_addr, request->src_addrlen);
	accepted = fx_ep(test, domain, request);
	fx_bind(test, accepted, eq, cq, FI_TRANSMIT | FI_RECV);
	fx_finish_accept(test, accepted, eq);

	/* Each end reports the other one's address as that one reports its own. */
	len = sizeof(found);
	KUNIT_ASSERT_EQ(test, 0, fi_getpeer(ep, &found, &len));
	expect_text(test, listens.at, found.at, len);
	len = sizeof(found);
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&ep->fid, &found, &len));
	expect_text(test, found.at, request->dest_addr, request->dest_addrlen);
	len = 5;
	KUNIT_EXPECT_EQ(test, -FI_ETOOSMALL, fi_getpeer(accepted, &found, &len));
	KUNIT_EXPECT_EQ(test, request->dest_addrlen, len);
}

static void cm_08_names_as_text(struct kunit *test)
{
	struct fi_info *info = text_info(test);
	struct fid_fabric *fabric = fx_fabric(test, info);
	struct fid_domain *domain = fx_domain(test, fabric, info);
	struct fid_ep *ep = fx_ep(test, domain, info);
	struct fid_pep *pep = fx_pep(test, fabric, info);
	struct text name = text_of(0), found;
	struct sockaddr_in raw = { .sin_family = AF_INET };
	size_t len = sizeof(found);

	/* The terminating NUL may be left out. */
	KUNIT_EXPECT_EQ(test, 0, fi_setname(&ep->fid, &name, strlen(name.at)));
	KUNIT_EXPECT_EQ(test, 0, fi_getname(&ep->fid, &found, &len));
	expect_text(test, name.at, found.at, len);
	KUNIT_EXPECT_EQ(test, 0, fi_setname(&pep->fid, &name, sizeof(name)));

	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_setname(&ep->fid, &raw, sizeof(raw)));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_setname(&pep->fid, &raw, sizeof(raw)));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_setname(&pep->fid, &name, strlen(name.at) - 2));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_connect(ep, "nobody", NULL, 0));

	/* An info whose addresses contradict its format is refused. */
	info->addr_format = FI_SOCKADDR_IN;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_passive_ep(fabric, info, &pep, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_endpoint(domain, info, &ep, NULL));
}

static void av_17_vectors_of_text(struct kunit *test)
{
	static const char *const texts[] = {
		"fi_sockaddr_in://10.0.0.1:7500", "fi_sockaddr_in6://[::1]:1",
		"10.0.0.1:7500", NULL, "", "fi_sockaddr_in://10.0.0.1:7501",
	};
	struct fi_info *info = text_info(test);
	struct fid_domain *domain = fx_domain(test, fx_fabric(test, info), info);
	struct fi_av_attr attr = {};
	fi_addr_t out[ARRAY_SIZE(texts)];
	struct fid_av *av;
	struct text buf;
	size_t len;

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(domain, &attr, &av, NULL));
	fx_defer_close(test, &av->fid);
	KUNIT_EXPECT_EQ(test, 3, fi_av_insert(av, texts, ARRAY_SIZE(texts), out,
					      0, NULL));
	for (int i = 0; i < ARRAY_SIZE(texts); i++) {
		if (i >= 2 && i <= 4) {
			KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, out[i]);
			continue;
		}
		len = sizeof(buf);
		KUNIT_EXPECT_EQ(test, 0, fi_av_lookup(av, out[i], &buf, &len));
		expect_text(test, texts[i], buf.at, len);
		len = sizeof(buf);
		fi_av_straddr(av, texts[i], buf.at, &len);
		expect_text(test, texts[i], buf.at, len);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(info_01_invalid_text_addresses),
	KUNIT_CASE(info_07_addresses_as_text),
	KUNIT_CASE(cm_08_a_truncated_text_is_terminated),
	KUNIT_CASE(info_07_a_peer_as_text),
	KUNIT_CASE(info_07_a_node_as_text),
	KUNIT_CASE_SLOW(cm_01_both_ends_as_text),
	KUNIT_CASE(cm_08_names_as_text),
	KUNIT_CASE(av_17_vectors_of_text),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_text",
	.test_cases = cases,
};

kunit_test_suite(suite);
