// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, AV: address vectors without endpoints. The table inside has its own
 * suite, kofi_fi_av_table.
 */

#include <linux/in.h>
#include <linux/in6.h>
#include <linux/inet.h>
#include <linux/log2.h>
#include <linux/preempt.h>

#include "rdm.h"

/* Opens a domain with this address format and type of vector. */
static struct fid_domain *av_domain(struct kunit *test, u32 format,
				    enum fi_av_type type)
{
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);

	info->addr_format = format;
	info->domain_attr->av_type = type;
	return fx_domain(test, fx_fabric(test, info), info);
}

static struct fid_av *av_open_in(struct kunit *test, struct fid_domain *domain,
				 struct fi_av_attr attr)
{
	struct fid_av *av;
	int ret = fi_av_open(domain, &attr, &av, NULL);

	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_av_open: %s", fi_strerror(ret));
	fx_defer_close(test, &av->fid);
	return av;
}

static struct fid_av *av_open(struct kunit *test, u32 format,
			      struct fi_av_attr attr)
{
	return av_open_in(test, av_domain(test, format, FI_AV_UNSPEC), attr);
}

/* Opens an FI_AV_TABLE of IPv4 addresses. */
static struct fid_av *av_table(struct kunit *test)
{
	return av_open(test, FI_SOCKADDR_IN,
		       (struct fi_av_attr){ .type = FI_AV_TABLE });
}

static struct sockaddr_in in4(u32 host, u16 port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(host),
	};
}

static struct sockaddr_in6 in6(u8 last, u16 port, u32 scope)
{
	return (struct sockaddr_in6){
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr.s6_addr = { 0xfe, 0x80, [15] = last },
		.sin6_scope_id = scope,
	};
}

#define HOST	0x0a000001	/* 10.0.0.1 */

static int insert(struct fid_av *av, struct sockaddr_in addr, fi_addr_t *out)
{
	return fi_av_insert(av, &addr, 1, out, 0, NULL);
}

/* Returns true if fi_addr is in the vector and is the address want. */
static bool has_address(struct fid_av *av, fi_addr_t fi_addr, struct sockaddr_in want)
{
	struct sockaddr_in addr;
	size_t len = sizeof(addr);

	return !fi_av_lookup(av, fi_addr, &addr, &len) &&
	       len == sizeof(addr) && !memcmp(&addr, &want, len);
}

static void av_01_indices_are_sequential(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	struct sockaddr_in addr[50];
	fi_addr_t out[50];

	for (int i = 0; i < ARRAY_SIZE(addr); i++)
		addr[i] = in4(HOST + i, 7500);
	KUNIT_EXPECT_EQ(test, 30, fi_av_insert(av, addr, 30, out, 0, NULL));
	KUNIT_EXPECT_EQ(test, 20, fi_av_insert(av, addr + 30, 20, out + 30, 0,
					       NULL));
	for (int i = 0; i < ARRAY_SIZE(addr); i++) {
		KUNIT_EXPECT_EQ(test, i, out[i]);
		KUNIT_EXPECT_TRUE(test, has_address(av, i, addr[i]));
	}
}

static void av_02_insert_takes_the_lowest_free_index(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	fi_addr_t removed[] = { 7, 3, 5 };
	fi_addr_t out;

	for (int i = 0; i < 10; i++)
		KUNIT_ASSERT_EQ(test, 1, insert(av, in4(HOST + i, 1), NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_av_remove(av, removed, 3, 0));
	for (int i = 0; i < 4; i++) {
		static const fi_addr_t want[] = { 3, 5, 7, 10 };

		KUNIT_EXPECT_EQ(test, 1, insert(av, in4(HOST + 20 + i, 1),
						&out));
		KUNIT_EXPECT_EQ(test, want[i], out);
	}
}

static void av_03_insert_returns_the_number_of_successes(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	struct sockaddr_in addr[] = {
		in4(HOST, 1), in4(HOST, 0), in4(0, 1), in4(HOST + 1, 1),
		in4(0xe0000001, 1), in4(0xffffffff, 1), in4(HOST + 2, 1),
		in4(HOST + 3, 1),
	};
	static const int want[] = {
		0, FI_EADDRNOTAVAIL, FI_EADDRNOTAVAIL, 0,
		FI_EADDRNOTAVAIL, FI_EADDRNOTAVAIL, FI_EINVAL, 0,
	};
	fi_addr_t out[8], next = 0;
	int err[8];

	addr[6].sin_family = AF_INET6;
	memset(out, 0, sizeof(out));
	memset(err, 0xff, sizeof(err));
	KUNIT_EXPECT_EQ(test, 3, fi_av_insert(av, addr, 8, out, FI_SYNC_ERR,
					      err));
	for (int i = 0; i < ARRAY_SIZE(addr); i++) {
		KUNIT_EXPECT_EQ(test, want[i], err[i]);
		KUNIT_EXPECT_EQ(test, want[i] ? FI_ADDR_NOTAVAIL : next++,
				out[i]);
	}
}

static void av_04_failed_slots_are_notavail(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	fi_addr_t out = 5;

	KUNIT_EXPECT_EQ(test, 0, insert(av, in4(HOST, 0), &out));
	KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, out);
}

/* If the whole call fails, both arrays report the errno for each address. */
static void av_04_refused_inserts_set_every_slot(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	const struct {
		const char *node, *service;
		u64 flags;
		int err;
	} rows[] = {
		{ "host10", "1", FI_SYNC_ERR, FI_ENOSYS },
		{ "10.0.0.1", "ssh", FI_SYNC_ERR, FI_ENOSYS },
		{ "10.0.0.256", "1", FI_SYNC_ERR, FI_EINVAL },
		{ "::1", "1", FI_SYNC_ERR, FI_EINVAL },
		{ NULL, "1", FI_SYNC_ERR, FI_EINVAL },
		{ "10.0.0.1", NULL, FI_SYNC_ERR, FI_EINVAL },
		{ "10.0.0.1", "1", FI_SYNC_ERR | FI_READ, FI_EBADFLAGS },
	};

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		fi_addr_t out[] = { 5, 5, 5, 5, 5, 5, 5 };
		int err[] = { 77, 77, 77, 77, 77, 77, 77 };

		KUNIT_EXPECT_EQ_MSG(test, -rows[i].err,
				    fi_av_insertsvc(av, rows[i].node, rows[i].service, out,
						    rows[i].flags, err), "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, FI_ADDR_NOTAVAIL, out[0], "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].err, err[0], "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, 5, out[1], "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, 77, err[1], "row %d", i);

		KUNIT_EXPECT_EQ_MSG(test, -rows[i].err,
				    fi_av_insertsym(av, rows[i].node, 2, rows[i].service, 3, out,
						    rows[i].flags, err), "row %d", i);
		for (int n = 0; n < 6; n++) {
			KUNIT_EXPECT_EQ_MSG(test, FI_ADDR_NOTAVAIL, out[n], "row %d", i);
			KUNIT_EXPECT_EQ_MSG(test, rows[i].err, err[n], "row %d", i);
		}
		KUNIT_EXPECT_EQ_MSG(test, 5, out[6], "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, 77, err[6], "row %d", i);

		out[0] = 5;
		err[0] = 77;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_insert(av, NULL, 1, out, FI_SYNC_ERR, err));
		KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, out[0]);
		KUNIT_EXPECT_EQ(test, FI_EINVAL, err[0]);
	}
}

static void av_05_sync_err_needs_a_context(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	struct sockaddr_in addr = in4(HOST, 1);
	int err = 77;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_insert(av, &addr, 1, NULL,
						       FI_SYNC_ERR, NULL));
	KUNIT_EXPECT_EQ(test, 1, fi_av_insert(av, &addr, 1, NULL, FI_SYNC_ERR,
					      &err));
	KUNIT_EXPECT_EQ(test, 0, err);
	KUNIT_EXPECT_EQ(test, 0, fi_av_insertsvc(av, "10.0.0.1", "0", NULL,
						 FI_SYNC_ERR, &err));
	KUNIT_EXPECT_EQ(test, FI_EADDRNOTAVAIL, err);
}

static void av_06_unknown_flags_are_refused_and_count_0_is_not(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	struct sockaddr_in addr = in4(HOST, 1);

	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_av_insert(av, &addr, 1, NULL,
							  FI_READ, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_av_insertsvc(av, "10.0.0.1", "1", NULL, 1, NULL));
	KUNIT_EXPECT_EQ(test, 1, fi_av_insert(av, &addr, 1, NULL, FI_MORE,
					      NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_av_insert(av, NULL, 0, NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_av_insertsym(av, "10.0.0.1", 0, "1", 1,
						 NULL, 0, NULL));
}

/* An insertion of 0 addresses writes nothing, so it needs no array, node or service. */
static void av_06_count_zero_returns_0_for_every_type(struct kunit *test)
{
	static const u64 flags[] = { 0, FI_MORE, FI_AV_USER_ID };

	for (int type = FI_AV_UNSPEC; type <= FI_AV_TABLE; type++) {
		struct fid_av *av = av_open(test, FI_SOCKADDR_IN,
					    (struct fi_av_attr){ .type = type });
		int err = 77;

		for (int i = 0; i < ARRAY_SIZE(flags); i++) {
			KUNIT_EXPECT_EQ(test, 0, fi_av_insert(av, NULL, 0, NULL,
							      flags[i], NULL));
			KUNIT_EXPECT_EQ(test, 0, fi_av_insertsym(av, "10.0.0.1", 0, "1", 1,
								 NULL, flags[i], NULL));
			KUNIT_EXPECT_EQ(test, 0, fi_av_insertsym(av, "10.0.0.1", 1, "1", 0,
								 NULL, flags[i], NULL));
			KUNIT_EXPECT_EQ(test, 0, fi_av_insertsym(av, NULL, 0, NULL, 0,
								 NULL, flags[i], NULL));
		}
		KUNIT_EXPECT_EQ(test, 0, fi_av_insert(av, NULL, 0, NULL, FI_SYNC_ERR, &err));
		KUNIT_EXPECT_EQ(test, 77, err);
		KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_av_insert(av, NULL, 0, NULL, FI_READ,
								  NULL));
		fx_close(test, &av->fid);
	}
}

static void av_07_fi_addr_may_be_null_for_a_table(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	struct fid_av *map = av_open(test, FI_SOCKADDR_IN,
				     (struct fi_av_attr){ .type = FI_AV_MAP });

	KUNIT_EXPECT_EQ(test, 1, insert(av, in4(HOST, 1), NULL));
	KUNIT_EXPECT_TRUE(test, has_address(av, 0, in4(HOST, 1)));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, insert(map, in4(HOST, 1), NULL));
}

static void av_11_insertsvc_parses_node_and_service(struct kunit *test)
{
	struct fid_av *av = av_open(test, FI_SOCKADDR, (struct fi_av_attr){});
	struct sockaddr_in6 want = in6(1, 7500, 3), addr;
	size_t len = sizeof(addr);
	fi_addr_t out;

	KUNIT_EXPECT_EQ(test, 1, fi_av_insertsvc(av, "10.0.0.1", "7500", &out,
						 0, NULL));
	KUNIT_EXPECT_TRUE(test, has_address(av, out, in4(HOST, 7500)));
	KUNIT_EXPECT_EQ(test, 1, fi_av_insertsvc(av, "fe80::1%3", "7500", &out,
						 0, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_av_lookup(av, out, &addr, &len));
	KUNIT_EXPECT_EQ(test, sizeof(addr), len);
	KUNIT_EXPECT_MEMEQ(test, &want, &addr, sizeof(addr));
	/* Inserts the two addresses again, as FI_ADDR_STR strings. */
	KUNIT_EXPECT_EQ(test, 1,
			fi_av_insertsvc(av, "fi_sockaddr_in://10.0.0.1:7500",
					NULL, &out, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0, out);
	KUNIT_EXPECT_EQ(test, 1,
			fi_av_insertsvc(av, "fi_sockaddr_in6://[fe80::1%3]:7500",
					NULL, &out, 0, NULL));
	KUNIT_EXPECT_EQ(test, 1, out);
}

static void av_11_host_names_are_enosys(struct kunit *test)
{
	struct fid_av *av = av_table(test);

	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_av_insertsvc(av, "host10", "1",
							  NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_av_insertsvc(av, "10.0.0.1", "ssh",
							  NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_insertsvc(av, "10.0.0.256", "1",
							  NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_insertsvc(av, "10.0.0.1",
							  "65536", NULL, 0,
							  NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_insertsvc(av, "::1", "1", NULL,
							  0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_insertsvc(av, NULL, "1", NULL,
							  0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_insertsvc(av, "10.0.0.1", NULL,
							  NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_av_insertsvc(av, "fi_sockaddr_in://10.0.0.1:7500",
					"7500", NULL, 0, NULL));
}

static void av_12_insertsym_increments_service_then_node(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	fi_addr_t out[6];
	int err[6];

	KUNIT_EXPECT_EQ(test, 6, fi_av_insertsym(av, "10.0.255.255", 2, "5000",
						 3, out, 0, NULL));
	for (int i = 0; i < 6; i++) {
		KUNIT_EXPECT_EQ(test, i, out[i]);
		KUNIT_EXPECT_TRUE(test, has_address(av, i, in4(0x0a00ffff + i / 3,
							       5000 + i % 3)));
	}
	/* The last port of each node is inserted; the next port does not exist. */
	KUNIT_EXPECT_EQ(test, 2, fi_av_insertsym(av, "10.1.0.1", 2, "65535", 2,
						 out, FI_SYNC_ERR, err));
	for (int i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, i % 2 ? FI_ADDR_NOTAVAIL : 6 + i / 2,
				out[i]);
		KUNIT_EXPECT_EQ(test, i % 2 ? FI_EADDRNOTAVAIL : 0, err[i]);
	}
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_av_insertsym(av, "10.1.0.1", SIZE_MAX, "1", 2, NULL,
					0, NULL));
}

static void av_13_bad_removes_are_refused(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	fi_addr_t bad[] = {
		0, 3, 1, FI_ADDR_NOTAVAIL, 2, 1ULL << 25, 1ULL << 32, 1ULL << 63,
	};

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_remove(av, bad, 1, 0));
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 1, insert(av, in4(HOST + i, 1), NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_av_remove(av, bad, 1, 1));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_remove(av, NULL, 1, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_av_remove(av, NULL, 0, 0));
	/* The valid addresses are removed despite the errors. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_remove(av, bad,
						       ARRAY_SIZE(bad), 0));
	for (int i = 0; i < 3; i++)
		KUNIT_EXPECT_FALSE(test, has_address(av, i, in4(HOST + i, 1)));
}

static void av_14_insert_after_remove_works(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	fi_addr_t out;

	for (int i = 0; i < 300; i++) {
		KUNIT_ASSERT_EQ(test, 1, insert(av, in4(HOST, 1), &out));
		KUNIT_ASSERT_EQ(test, 0, out);
		KUNIT_ASSERT_TRUE(test, has_address(av, out, in4(HOST, 1)));
		KUNIT_ASSERT_EQ(test, 0, fi_av_remove(av, &out, 1, 0));
		KUNIT_ASSERT_FALSE(test, has_address(av, out, in4(HOST, 1)));
	}
}

static void av_15_a_duplicate_shares_the_address_until_its_last_remove(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	struct sockaddr_in addr[] = { in4(HOST, 1), in4(HOST, 2), in4(HOST, 1) };
	fi_addr_t out[3];

	KUNIT_EXPECT_EQ(test, 3, fi_av_insert(av, addr, 3, out, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0, out[0]);
	KUNIT_EXPECT_EQ(test, 1, out[1]);
	KUNIT_EXPECT_EQ(test, 0, out[2]);
	KUNIT_EXPECT_EQ(test, 0, fi_av_remove(av, out, 1, 0));
	KUNIT_EXPECT_TRUE(test, has_address(av, 0, addr[0]));
	KUNIT_EXPECT_EQ(test, 0, fi_av_remove(av, out, 1, 0));
	KUNIT_EXPECT_FALSE(test, has_address(av, 0, addr[0]));
}

static void av_16_lookup_truncates_and_returns_the_length(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	struct sockaddr_in want = in4(HOST, 7500);
	u8 addr[20];
	size_t len;

	KUNIT_ASSERT_EQ(test, 1, insert(av, want, NULL));
	for (size_t space = 0; space <= sizeof(addr); space++) {
		size_t fits = min(space, sizeof(want));

		memset(addr, 0xa5, sizeof(addr));
		len = space;
		KUNIT_EXPECT_EQ(test, 0, fi_av_lookup(av, 0, space ? addr : NULL,
						      &len));
		KUNIT_EXPECT_EQ(test, sizeof(want), len);
		KUNIT_EXPECT_MEMEQ(test, addr, (u8 *)&want, fits);
		KUNIT_EXPECT_TRUE(test, fits == sizeof(addr) ||
					addr[fits] == 0xa5);
	}
	len = sizeof(addr);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_lookup(av, 1, addr, &len));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_lookup(av, FI_ADDR_NOTAVAIL,
						       addr, &len));
	KUNIT_EXPECT_EQ(test, sizeof(addr), len);
}

/* A truncated FI_ADDR_STR string is terminated. */
static void av_16_a_truncated_string_is_terminated(struct kunit *test)
{
	static const char want[] = "fi_sockaddr_in://10.0.0.1:7500";
	struct fid_av *av = av_open(test, FI_ADDR_STR, (struct fi_av_attr){});
	const char *addr = want;
	char buf[64];
	size_t len;

	KUNIT_ASSERT_EQ(test, 1, fi_av_insert(av, &addr, 1, NULL, 0, NULL));
	for (size_t space = 0; space <= sizeof(buf); space++) {
		size_t fits = min(space, sizeof(want));

		memset(buf, 'x', sizeof(buf));
		len = space;
		KUNIT_EXPECT_EQ(test, 0, fi_av_lookup(av, 0, buf, &len));
		KUNIT_EXPECT_EQ(test, sizeof(want), len);
		if (fits) {
			KUNIT_EXPECT_EQ(test, fits - 1, strnlen(buf, space));
			KUNIT_EXPECT_MEMEQ(test, buf, want, fits - 1);
		}
		KUNIT_EXPECT_TRUE(test, fits == sizeof(buf) || buf[fits] == 'x');
	}
}

static void av_17_straddr_truncates_and_returns_the_length(struct kunit *test)
{
	static const char want[] = "fi_sockaddr_in://10.0.0.1:7500";
	struct fid_av *av = av_open(test, FI_SOCKADDR, (struct fi_av_attr){});
	struct sockaddr_in addr = in4(HOST, 7500);
	struct sockaddr_in6 addr6 = in6(1, 7500, 3);
	char buf[64];
	size_t len;

	for (size_t space = 1; space <= sizeof(buf); space++) {
		size_t fits = min(space, sizeof(want)) - 1;

		memset(buf, 'x', sizeof(buf));
		len = space;
		KUNIT_EXPECT_PTR_EQ(test, (const char *)buf,
				    fi_av_straddr(av, &addr, buf, &len));
		KUNIT_EXPECT_EQ(test, sizeof(want), len);
		KUNIT_EXPECT_EQ(test, fits, strnlen(buf, space));
		KUNIT_EXPECT_MEMEQ(test, buf, want, fits);
	}
	len = 0;
	KUNIT_EXPECT_NULL(test, fi_av_straddr(av, &addr, NULL, &len));
	KUNIT_EXPECT_EQ(test, sizeof(want), len);
	len = sizeof(buf);
	fi_av_straddr(av, &addr6, buf, &len);
	KUNIT_EXPECT_STREQ(test, buf, "fi_sockaddr_in6://[fe80::1%3]:7500");
	addr.sin_family = AF_UNIX;
	KUNIT_EXPECT_NULL(test, fi_av_straddr(av, &addr, buf, &len));
	KUNIT_EXPECT_NULL(test, fi_av_straddr(av, NULL, buf, &len));
}

static void av_19_the_type_is_reported(struct kunit *test)
{
	struct {
		enum fi_av_type domain, asked, got;
	} rows[] = {
		{ FI_AV_UNSPEC, FI_AV_UNSPEC, FI_AV_TABLE },
		{ FI_AV_UNSPEC, FI_AV_MAP, FI_AV_MAP },
		{ FI_AV_UNSPEC, FI_AV_TABLE, FI_AV_TABLE },
		{ FI_AV_MAP, FI_AV_UNSPEC, FI_AV_MAP },
		{ FI_AV_TABLE, FI_AV_TABLE, FI_AV_TABLE },
		{ FI_AV_MAP, FI_AV_TABLE, FI_AV_UNSPEC },
		{ FI_AV_TABLE, FI_AV_MAP, FI_AV_UNSPEC },
	};

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fi_av_attr attr = { .type = rows[i].asked };
		struct fid_domain *domain = av_domain(test, FI_SOCKADDR_IN,
						      rows[i].domain);
		struct fid_av *av;
		int ret = fi_av_open(domain, &attr, &av, NULL);

		if (rows[i].got == FI_AV_UNSPEC) {
			KUNIT_EXPECT_EQ(test, -FI_EINVAL, ret);
			continue;
		}
		KUNIT_ASSERT_EQ(test, 0, ret);
		KUNIT_EXPECT_EQ(test, rows[i].got, attr.type);
		KUNIT_EXPECT_EQ(test, 0, fi_close(&av->fid));
	}
}

static void av_19_bad_attributes_are_refused(struct kunit *test)
{
	struct fid_domain *domain = av_domain(test, FI_SOCKADDR_IN,
					      FI_AV_UNSPEC);
	struct {
		struct fi_av_attr attr;
		int ret;
	} rows[] = {
		{ { .type = FI_AV_TABLE + 1 }, -FI_EINVAL },
		{ { .rx_ctx_bits = -1 }, -FI_EINVAL },
		{ { .rx_ctx_bits = 17 }, -FI_EINVAL },
		{ { .count = (32UL << 20) + 1 }, -FI_EINVAL },
		{ { .count = SIZE_MAX }, -FI_EINVAL },
		{ { .ep_per_node = U16_MAX + 1 }, -FI_EINVAL },
		{ { .ep_per_node = SIZE_MAX }, -FI_EINVAL },
		{ { .flags = FI_WRITE }, -FI_EBADFLAGS },
		{ { .flags = FI_READ }, -FI_EINVAL },
		{ { .flags = FI_PEER }, -FI_EINVAL },
	};
	struct fid_av *av;

	for (int i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_EQ_MSG(test, rows[i].ret,
				    fi_av_open(domain, &rows[i].attr, &av,
					       NULL), "row %d", i);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_open(domain, NULL, &av, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_av_open(domain, &(struct fi_av_attr){}, NULL, NULL));
}

/*
 * 8 bits address the 256 contexts that a peer can have. Without several contexts of an
 * endpoint, no bits are accepted.
 */
static void av_19_rx_ctx_bits_are_limited_by_the_domain(struct kunit *test)
{
	const struct {
		struct fi_info *info;
		struct fid_domain *domain;
	} rows[] = {
		{ fx_open(test)->info, fx_open(test)->domain },
		{ rdm_make(test, NULL)->info, rdm_make(test, NULL)->domain },
	};

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t contexts = rows[i].info->domain_attr->max_ep_rx_ctx;

		KUNIT_ASSERT_GT(test, contexts, 0);
		for (int bits = 0; bits < 20; bits++) {
			struct fi_av_attr attr = { .rx_ctx_bits = bits };
			bool fits = bits <= (contexts > 1 ? 8 : 0);
			struct fid_av *av;
			int ret = fi_av_open(rows[i].domain, &attr, &av, NULL);

			KUNIT_EXPECT_EQ_MSG(test, fits ? 0 : -FI_EINVAL, ret,
					    "%d bits, %zu contexts", bits, contexts);
			if (!ret)
				KUNIT_EXPECT_EQ(test, 0, fi_close(&av->fid));
		}
	}
}

static void av_20_map_handles_are_not_reused(struct kunit *test)
{
	struct fid_av *av = av_open(test, FI_SOCKADDR_IN,
				    (struct fi_av_attr){ .type = FI_AV_MAP });
	fi_addr_t old[50], out;

	for (int i = 0; i < ARRAY_SIZE(old); i++) {
		KUNIT_ASSERT_EQ(test, 1, insert(av, in4(HOST + i, 1), &old[i]));
		KUNIT_EXPECT_TRUE(test, has_address(av, old[i], in4(HOST + i, 1)));
		KUNIT_ASSERT_EQ(test, 0, fi_av_remove(av, &old[i], 1, 0));
		for (int j = 0; j < i; j++)
			KUNIT_EXPECT_NE(test, old[j], old[i]);
	}
	KUNIT_ASSERT_EQ(test, 1, insert(av, in4(HOST, 1), &out));
	for (int i = 0; i < ARRAY_SIZE(old); i++) {
		KUNIT_EXPECT_FALSE(test, has_address(av, old[i], in4(HOST, 1)));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_remove(av, &old[i], 1,
							       0));
	}
	KUNIT_EXPECT_TRUE(test, has_address(av, out, in4(HOST, 1)));
}

static void av_22_user_ids_do_not_change_addresses(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	struct sockaddr_in addr[] = { in4(HOST, 1), in4(HOST + 1, 1) };
	fi_addr_t out[] = { 1000, FI_ADDR_NOTAVAIL };

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_insert(av, addr, 2, NULL,
						       FI_AV_USER_ID, NULL));
	KUNIT_EXPECT_EQ(test, 2, fi_av_insert(av, addr, 2, out, FI_AV_USER_ID,
					      NULL));
	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, i, out[i]);
		KUNIT_EXPECT_TRUE(test, has_address(av, i, addr[i]));
	}
	KUNIT_EXPECT_FALSE(test, has_address(av, 1000, addr[0]));
}

static void av_22_a_failed_call_keeps_the_user_ids(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	struct sockaddr_in addr[] = { in4(HOST, 1), in4(HOST + 1, 1) };
	fi_addr_t ids[] = { 1000, 2000 };
	int errnos[] = { 0, 0 };

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_insert(av, NULL, 2, ids, FI_AV_USER_ID | FI_SYNC_ERR,
						       errnos));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_av_insertsvc(av, "a.name", "1", ids, FI_AV_USER_ID,
							  NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_av_insert(av, addr, 2, ids, FI_AV_USER_ID | FI_PEEK,
							  NULL));
	KUNIT_EXPECT_EQ(test, 1000, ids[0]);
	KUNIT_EXPECT_EQ(test, 2000, ids[1]);
	KUNIT_EXPECT_EQ(test, FI_EINVAL, errnos[0]);
	KUNIT_EXPECT_EQ(test, FI_EINVAL, errnos[1]);
}

static void av_23_rx_addr_encodes_the_context(struct kunit *test)
{
	struct fi_av_attr attr = { .rx_ctx_bits = 4 };

	for (attr.type = FI_AV_MAP; attr.type <= FI_AV_TABLE; attr.type++) {
		const struct rdm_opts opts = {
			.addr_format = FI_SOCKADDR_IN,
			.av_type = attr.type,
		};
		struct fid_av *av = av_open_in(test, rdm_make(test, &opts)->domain, attr);
		fi_addr_t out;

		KUNIT_ASSERT_EQ(test, 1, insert(av, in4(HOST, 1), &out));
		KUNIT_EXPECT_EQ(test, out, fi_rx_addr(out, 9, 0));
		for (int i = 0; i < 16; i++) {
			fi_addr_t rx = fi_rx_addr(out, i, 4);

			if (rx == FI_ADDR_NOTAVAIL)
				continue;
			KUNIT_EXPECT_EQ(test, (u64)i << 60 | out, rx);
			KUNIT_EXPECT_TRUE(test, has_address(av, rx, in4(HOST, 1)));
		}
	}
}

static void av_24_hints_change_nothing(struct kunit *test)
{
	static const size_t counts[] = { 1, 1000, 32UL << 20 };

	for (int i = 0; i < ARRAY_SIZE(counts); i++) {
		struct fid_av *av = av_open(test, FI_SOCKADDR_IN,
			(struct fi_av_attr){
				.count = counts[i],
				.ep_per_node = min(counts[i], (size_t)U16_MAX),
				.flags = FI_SYMMETRIC,
			});

		KUNIT_EXPECT_EQ(test, 1500,
				fi_av_insertsym(av, "10.0.0.1", 500, "1", 3,
						NULL, 0, NULL));
		KUNIT_EXPECT_TRUE(test, has_address(av, 1499, in4(HOST + 499, 3)));
		fx_close(test, &av->fid);
	}
}

static void av_25_insert_takes_both_families(struct kunit *test)
{
	struct fid_av *av = av_open(test, FI_SOCKADDR, (struct fi_av_attr){});
	struct {
		struct sockaddr_in first;
		struct sockaddr_in6 second;
		struct sockaddr_in third;
	} __packed addr = {
		in4(HOST, 1), in6(1, 2, 3), in4(HOST, 3),
	};
	fi_addr_t out[4];
	int err[4];

	KUNIT_EXPECT_EQ(test, 3, fi_av_insert(av, &addr, 3, out, 0, NULL));
	KUNIT_EXPECT_TRUE(test, has_address(av, out[0], addr.first));
	KUNIT_EXPECT_TRUE(test, has_address(av, out[2], addr.third));
	/* An unknown family has no known size, so the next address cannot be located. */
	addr.second.sin6_family = AF_UNIX;
	KUNIT_EXPECT_EQ(test, 1, fi_av_insert(av, &addr, 4, out, FI_SYNC_ERR,
					      err));
	KUNIT_EXPECT_EQ(test, 0, err[0]);
	KUNIT_EXPECT_EQ(test, FI_EINVAL, err[1]);
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, err[2]);
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, err[3]);
}

static void av_25_lookup_works_in_atomic_context(struct kunit *test)
{
	struct fid_av *av = av_table(test);
	int ret[2];
	bool found;

	if (!IS_ENABLED(CONFIG_PREEMPT_COUNT))
		kunit_skip(test, "without CONFIG_PREEMPT_COUNT atomic context is unknown");
	KUNIT_ASSERT_EQ(test, 1, insert(av, in4(HOST, 1), NULL));
	preempt_disable();
	found = has_address(av, 0, in4(HOST, 1));
	ret[0] = insert(av, in4(HOST, 2), NULL);
	ret[1] = fi_av_remove(av, (fi_addr_t[]){ 0 }, 1, 0);
	preempt_enable();
	KUNIT_EXPECT_TRUE(test, found);
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, ret[0]);
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, ret[1]);
}

static void info_10_a_domain_with_an_av_is_busy(struct kunit *test)
{
	struct fid_domain *domain = av_domain(test, FI_SOCKADDR_IN,
					      FI_AV_UNSPEC);
	struct fid_av *av = av_open_in(test, domain, (struct fi_av_attr){});

	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&domain->fid));
	fx_close(test, &av->fid);
	fx_close(test, &domain->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(av_01_indices_are_sequential),
	KUNIT_CASE(av_02_insert_takes_the_lowest_free_index),
	KUNIT_CASE(av_03_insert_returns_the_number_of_successes),
	KUNIT_CASE(av_04_failed_slots_are_notavail),
	KUNIT_CASE(av_04_refused_inserts_set_every_slot),
	KUNIT_CASE(av_05_sync_err_needs_a_context),
	KUNIT_CASE(av_06_unknown_flags_are_refused_and_count_0_is_not),
	KUNIT_CASE(av_06_count_zero_returns_0_for_every_type),
	KUNIT_CASE(av_07_fi_addr_may_be_null_for_a_table),
	KUNIT_CASE(av_11_insertsvc_parses_node_and_service),
	KUNIT_CASE(av_11_host_names_are_enosys),
	KUNIT_CASE(av_12_insertsym_increments_service_then_node),
	KUNIT_CASE(av_13_bad_removes_are_refused),
	KUNIT_CASE(av_14_insert_after_remove_works),
	KUNIT_CASE(av_15_a_duplicate_shares_the_address_until_its_last_remove),
	KUNIT_CASE(av_16_lookup_truncates_and_returns_the_length),
	KUNIT_CASE(av_16_a_truncated_string_is_terminated),
	KUNIT_CASE(av_17_straddr_truncates_and_returns_the_length),
	KUNIT_CASE(av_19_the_type_is_reported),
	KUNIT_CASE(av_19_bad_attributes_are_refused),
	KUNIT_CASE(av_19_rx_ctx_bits_are_limited_by_the_domain),
	KUNIT_CASE(av_20_map_handles_are_not_reused),
	KUNIT_CASE(av_22_user_ids_do_not_change_addresses),
	KUNIT_CASE(av_22_a_failed_call_keeps_the_user_ids),
	KUNIT_CASE(av_23_rx_addr_encodes_the_context),
	KUNIT_CASE(av_24_hints_change_nothing),
	KUNIT_CASE(av_25_insert_takes_both_families),
	KUNIT_CASE(av_25_lookup_works_in_atomic_context),
	KUNIT_CASE(info_10_a_domain_with_an_av_is_busy),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_av",
	.test_cases = cases,
};

kunit_test_suite(suite);
