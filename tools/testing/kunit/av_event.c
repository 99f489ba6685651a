// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, AV 8 to 10: asynchronous insertions, which report their end to an
 * event queue.
 */

#include <linux/delay.h>
#include <linux/in.h>
#include <linux/inet.h>

#include "traffic.h"

/* TEST-NET-1, reserved for documentation: there is no route to it. */
#define UNREACHABLE		"192.0.2.1"
/* Number of addresses whose insertion takes a while, but not too long on a slow kernel. */
#define MANY		(IS_ENABLED(CONFIG_KASAN) ? 500 : 5000)

static struct fid_av *open_av(struct kunit *test,
			      struct kofi_fabric_fx *fx)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = FI_EVENT };
	struct fid_av *av;

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(fx->domain, &attr, &av, NULL));
	fx_defer_close(test, &av->fid);
	return av;
}

static struct fid_av *open_bound_av(struct kunit *test, struct kofi_fabric_fx *fx)
{
	struct fid_av *av = open_av(test, fx);

	KUNIT_ASSERT_EQ(test, 0, fi_av_bind(av, &fx->eq->fid, 0));
	return av;
}

/* Reads count errors, checks their errno and context, and marks each index in failed[]. */
static void expect_errors(struct kunit *test, struct fid_eq *eq,
			  struct fid_av *av, int count, int err, void *context,
			  u8 *failed)
{
	for (int i = 0; i < count; i++) {
		struct fi_eq_err_entry entry = {};

		KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, eq, &entry));
		KUNIT_EXPECT_PTR_EQ(test, &av->fid, entry.fid);
		KUNIT_EXPECT_PTR_EQ(test, context, entry.context);
		KUNIT_EXPECT_EQ(test, err, entry.err);
		KUNIT_ASSERT_LT(test, entry.data, MANY);
		KUNIT_EXPECT_EQ_MSG(test, 0, failed[entry.data]++,
				    "%llu is reported twice", entry.data);
	}
}

static void expect_complete(struct kunit *test, struct fid_eq *eq,
			    struct fid_av *av, u64 count, void *context)
{
	struct fi_eq_entry entry;

	KUNIT_ASSERT_EQ(test, sizeof(entry),
			fx_wait_event(test, eq, FI_AV_COMPLETE, &entry,
				      sizeof(entry)));
	KUNIT_EXPECT_PTR_EQ(test, &av->fid, entry.fid);
	KUNIT_EXPECT_PTR_EQ(test, context, entry.context);
	KUNIT_EXPECT_EQ(test, count, entry.data);
}

static void av_08_fi_event_needs_an_eq(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_av *av = open_av(test, fx), *other;
	struct fi_av_attr attr = {};
	fi_addr_t out;
	int err;

	KUNIT_EXPECT_EQ(test, -FI_ENOEQ, fi_av_insertsvc(av, fx_addr, "1", &out,
							 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_av_bind(av, &fx->eq->fid, 1));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_bind(av, &fx->cq->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_av_bind(av, &fx->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_bind(av, &fx->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->eq->fid));
	/* The array of errnos and the event's context are the same argument. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_insertsvc(av, fx_addr, "1",
							  &out, FI_SYNC_ERR,
							  &err));
	KUNIT_EXPECT_EQ(test, 0, fi_av_insertsvc(av, fx_addr, "1", &out, 0,
						 &out));
	expect_complete(test, fx->eq, av, 1, &out);
	KUNIT_EXPECT_EQ(test, 0, out);
	fx_close(test, &av->fid);
	fx_close(test, &fx->eq->fid);

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(fx->domain, &attr, &other, NULL));
	fx_defer_close(test, &other->fid);
	fx->eq = fx_eq(test, fx->fabric);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_bind(other, &fx->eq->fid, 0));
}

/* The missing queue is checked before all other errors, and also for 0 addresses. */
static void av_08_missing_eq_is_checked_first(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	static const u64 flags[] = { 0, FI_SYNC_ERR, FI_AV_USER_ID, ~0ULL };

	for (int type = FI_AV_MAP; type <= FI_AV_TABLE; type++) {
		struct fi_av_attr attr = { .type = type, .flags = FI_EVENT };
		struct fid_av *av;

		KUNIT_ASSERT_EQ(test, 0, fi_av_open(fx->domain, &attr, &av, NULL));
		fx_defer_close(test, &av->fid);
		for (int i = 0; i < ARRAY_SIZE(flags); i++) {
			fi_addr_t refused = flags[i] & FI_AV_USER_ID ? 5 : FI_ADDR_NOTAVAIL;
			fi_addr_t out[] = { 5, 5, 5 };

			KUNIT_EXPECT_EQ(test, -FI_ENOEQ,
					fi_av_insert(av, NULL, 0, NULL, flags[i], NULL));
			KUNIT_EXPECT_EQ(test, -FI_ENOEQ,
					fi_av_insert(av, NULL, 1, NULL, flags[i], NULL));
			KUNIT_EXPECT_EQ(test, -FI_ENOEQ,
					fi_av_insertsvc(av, "host", NULL, NULL, flags[i], NULL));
			KUNIT_EXPECT_EQ(test, -FI_ENOEQ,
					fi_av_insertsym(av, NULL, SIZE_MAX, "1", 3, NULL,
							flags[i], NULL));
			KUNIT_EXPECT_EQ(test, -FI_ENOEQ,
					fi_av_insertsym(av, "10.0.0.1", 2, "1", 1, out,
							flags[i], NULL));
			/* The user's identifiers are left as they are. */
			KUNIT_EXPECT_EQ(test, refused, out[0]);
			KUNIT_EXPECT_EQ(test, refused, out[1]);
			KUNIT_EXPECT_EQ(test, 5, out[2]);
		}
		/* With a queue bound, an insertion of 0 addresses completes at once. */
		KUNIT_ASSERT_EQ(test, 0, fi_av_bind(av, &fx->eq->fid, 0));
		KUNIT_EXPECT_EQ(test, 0, fi_av_insert(av, NULL, 0, NULL, 0, av));
		expect_complete(test, fx->eq, av, 0, av);
		KUNIT_EXPECT_EQ(test, 0, fi_av_insertsym(av, NULL, 0, NULL, 1, NULL, FI_AV_USER_ID,
							 fx));
		expect_complete(test, fx->eq, av, 0, fx);
		fx_close(test, &av->fid);
	}
}

static void av_08_the_eq_must_be_of_the_same_fabric(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_av *av = open_av(test, fx);
	struct fid_eq *other = fx_eq(test, fx_fabric(test, fx->info));

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_domain_bind(fx->domain, &other->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_bind(av, &other->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_av_bind(av, &fx->eq->fid, 0));
}

static void av_09_errors_come_before_av_complete(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_av *av = open_bound_av(test, fx);
	struct sockaddr_in ours, addr[5];
	u8 *failed = tr_buffer(test, MANY);
	fi_addr_t out[5];
	size_t len;

	memcpy(&ours, fx->info->src_addr, sizeof(ours));
	for (int i = 0; i < ARRAY_SIZE(addr); i++) {
		addr[i] = ours;
		addr[i].sin_port = htons(i + 1);
	}
	addr[1].sin_addr.s_addr = in_aton(UNREACHABLE);
	addr[3].sin_addr.s_addr = in_aton(UNREACHABLE);
	KUNIT_EXPECT_EQ(test, 0, fi_av_insert(av, addr, 5, out, 0, addr));
	expect_errors(test, fx->eq, av, 2, FI_EHOSTUNREACH, addr, failed);
	expect_complete(test, fx->eq, av, 3, addr);
	/* Each address has its own index, whether or not those before it failed. */
	for (int i = 0; i < ARRAY_SIZE(addr); i++) {
		bool is_there = i != 1 && i != 3;

		len = 0;
		KUNIT_EXPECT_EQ(test, !is_there, failed[i]);
		KUNIT_EXPECT_EQ(test, is_there ? i : FI_ADDR_NOTAVAIL, out[i]);
		KUNIT_EXPECT_EQ(test, is_there ? 0 : -FI_EINVAL,
				fi_av_lookup(av, i, NULL, &len));
	}
}

static void av_09_av_complete_comes_even_if_all_fail(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_av *av = open_bound_av(test, fx);
	u8 *failed = tr_buffer(test, MANY);
	struct sockaddr_in none = { .sin_family = AF_INET };

	KUNIT_EXPECT_EQ(test, 0, fi_av_insert(av, NULL, 0, NULL, 0, failed));
	expect_complete(test, fx->eq, av, 0, failed);
	/* The address is invalid at once, but reported like any other. */
	KUNIT_EXPECT_EQ(test, 0, fi_av_insert(av, &none, 1, NULL, 0, NULL));
	expect_errors(test, fx->eq, av, 1, FI_EADDRNOTAVAIL, NULL, failed);
	expect_complete(test, fx->eq, av, 0, NULL);
	failed[0] = 0;
	KUNIT_EXPECT_EQ(test, 0, fi_av_insertsvc(av, UNREACHABLE, "1", NULL, 0,
						 failed));
	expect_errors(test, fx->eq, av, 1, FI_EHOSTUNREACH, failed, failed);
	expect_complete(test, fx->eq, av, 0, failed);
}

static void av_09_errors_may_exceed_the_eq_size(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_eq_attr attr = { .size = 1, .wait_obj = FI_WAIT_UNSPEC };
	u8 *failed = tr_buffer(test, MANY);
	fi_addr_t *out = (void *)tr_vbuffer(test, 600 * sizeof(*out));
	struct fi_eq_err_entry entry = {};
	struct fid_av *av = open_av(test, fx);
	struct fid_eq *eq;

	KUNIT_ASSERT_EQ(test, 0, fi_eq_open(fx->fabric, &attr, &eq, NULL));
	fx_defer_close(test, &eq->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_av_bind(av, &eq->fid, 0));
	for (int i = 0; i < 600; i += 200)
		KUNIT_ASSERT_EQ(test, 0,
				fi_av_insertsym(av, UNREACHABLE, 1, "1", 200,
						out + i, 0, out + i));
	for (int i = 0; i < 600; i += 200) {
		void *context;

		/* The insertions end in any order. */
		while (fi_eq_readerr(eq, &entry, FI_PEEK) < 0 &&
		       fi_eq_sread(eq, &(u32){}, &(struct fi_eq_entry){},
				   sizeof(struct fi_eq_entry), FX_WAIT_MS,
				   FI_PEEK) == -FI_EAVAIL)
			;
		context = entry.context;
		memset(failed, 0, MANY);
		expect_errors(test, eq, av, 200, FI_EHOSTUNREACH, context,
			      failed);
		expect_complete(test, eq, av, 0, context);
	}
	for (int i = 0; i < 600; i++)
		KUNIT_EXPECT_EQ(test, FI_ADDR_NOTAVAIL, out[i]);
	fx_close(test, &av->fid);
	fx_close(test, &eq->fid);
}

static void av_09_a_short_buffer_keeps_the_entry(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_av *av = open_bound_av(test, fx);
	struct fi_eq_entry entry;
	u32 event;

	KUNIT_ASSERT_EQ(test, 0, fi_av_insertsvc(av, fx_addr, "1", NULL, 0,
						 NULL));
	KUNIT_EXPECT_EQ(test, -FI_ETOOSMALL,
			fi_eq_sread(fx->eq, &event, &entry, sizeof(entry) - 1,
				    FX_WAIT_MS, 0));
	KUNIT_EXPECT_EQ(test, sizeof(entry),
			fi_eq_read(fx->eq, &event, &entry, sizeof(entry),
				   FI_PEEK));
	expect_complete(test, fx->eq, av, 1, NULL);
}

/* Reads all errors, each of which must be err; returns their number. */
static int drain_errors(struct kunit *test, struct fid_eq *eq, int err)
{
	struct fi_eq_err_entry entry = {};
	int count = 0;

	while (fi_eq_readerr(eq, &entry, 0) > 0) {
		KUNIT_EXPECT_EQ(test, err, entry.err);
		count++;
	}
	return count;
}

static void av_10_close_cancels_the_insertion(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	fi_addr_t *out = (void *)tr_vbuffer(test, MANY * sizeof(*out));

	for (int i = 0; i < 5; i++) {
		struct fid_av *av = open_bound_av(test, fx);
		int failed;

		KUNIT_ASSERT_EQ(test, 0, fi_av_insertsym(av, fx_addr, 1, "1",
							 MANY, out, 0, out));
		if (i)
			fsleep(200 * i);
		fx_close(test, &av->fid);
		/*
		 * The insertion has ended: nothing writes to out any more, and
		 * all its events are queued.
		 */
		memset(out, 0xa5, MANY * sizeof(*out));
		failed = drain_errors(test, fx->eq, FI_ECANCELED);
		expect_complete(test, fx->eq, av, MANY - failed, out);
		for (int n = 0; n < MANY; n++)
			if (out[n] != 0xa5a5a5a5a5a5a5a5)
				KUNIT_FAIL_AND_ABORT(test, "%d was written", n);
	}
}

static void av_10_remove_before_the_address_is_resolved(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_av *av = open_bound_av(test, fx);
	fi_addr_t *out = (void *)tr_vbuffer(test, MANY * sizeof(*out));
	fi_addr_t last = MANY - 1;
	int failed, ret;
	size_t len = 0;

	KUNIT_ASSERT_EQ(test, 0, fi_av_insertsym(av, fx_addr, 1, "1", MANY, out,
						 0, out));
	/* The address may be resolved already or not; the removal succeeds either way. */
	ret = fi_av_remove(av, &last, 1, 0);
	KUNIT_EXPECT_EQ(test, 0, ret);
	failed = 0;
	while (fi_eq_sread(fx->eq, &(u32){}, &(struct fi_eq_entry){},
			   sizeof(struct fi_eq_entry), FX_WAIT_MS, FI_PEEK) ==
	       -FI_EAVAIL)
		failed += drain_errors(test, fx->eq, FI_ECANCELED);
	KUNIT_EXPECT_LE(test, failed, 1);
	expect_complete(test, fx->eq, av, MANY - failed, out);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_lookup(av, last, NULL, &len));
	KUNIT_EXPECT_EQ(test, 0, fi_av_lookup(av, last - 1, NULL, &len));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(av_08_fi_event_needs_an_eq),
	KUNIT_CASE(av_08_missing_eq_is_checked_first),
	KUNIT_CASE(av_08_the_eq_must_be_of_the_same_fabric),
	KUNIT_CASE(av_09_errors_come_before_av_complete),
	KUNIT_CASE(av_09_av_complete_comes_even_if_all_fail),
	KUNIT_CASE(av_09_errors_may_exceed_the_eq_size),
	KUNIT_CASE(av_09_a_short_buffer_keeps_the_entry),
	KUNIT_CASE(av_10_close_cancels_the_insertion),
	KUNIT_CASE(av_10_remove_before_the_address_is_resolved),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_av_event",
	.test_cases = cases,
};

kunit_test_suite(suite);
