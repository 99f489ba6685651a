// SPDX-License-Identifier: GPL-2.0
/*
 * Fixture of the suites of poll sets and wait sets: see sets.h.
 */

#include <linux/delay.h>

#include "sets.h"

#define MAX_LISTED 8

struct fid_poll *st_poll_open(struct kunit *test, struct fid_domain *domain)
{
	struct fi_poll_attr attr = {};
	struct fid_poll *set;
	int ret = fi_poll_open(domain, &attr, &set);

	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_poll_open: %s", fi_strerror(ret));
	fx_defer_close(test, &set->fid);
	return set;
}

struct member {
	struct fid_poll	*set;
	struct fid	*fid;
};

static void remove_member(void *data)
{
	struct member *member = data;

	fi_poll_del(member->set, member->fid, 0);
}

void st_add(struct kunit *test, struct fid_poll *set, struct fid *fid)
{
	struct member *member = (void *)tr_buffer(test, sizeof(*member));

	*member = (struct member){ set, fid };
	KUNIT_ASSERT_EQ(test, 0, fi_poll_add(set, fid, 0));
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, remove_member, member));
}

void st_del(struct kunit *test, struct fid_poll *set, struct fid *fid)
{
	/* The test's cleanup removes the member again, which has no effect. */
	KUNIT_ASSERT_EQ(test, 0, fi_poll_del(set, fid, 0));
}

struct fid_cntr *st_cntr(struct kunit *test, struct fid_domain *domain)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fid_cntr *cntr;
	int ret = fi_cntr_open(domain, &attr, &cntr, NULL);

	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_cntr_open: %s", fi_strerror(ret));
	cntr->fid.context = cntr;
	fx_defer_close(test, &cntr->fid);
	return cntr;
}

bool st_lists(struct kunit *test, struct fid_poll *set, struct fid **want,
	      int count)
{
	void *found[MAX_LISTED];
	int ret = fi_poll(set, found, MAX_LISTED);

	if (ret != count) {
		kunit_err(test, "lists %d, not %d", ret, count);
		return false;
	}
	for (int i = 0; i < count; i++) {
		int at = 0;

		while (at < count && found[at] != want[i]->context)
			at++;
		if (at == count) {
			kunit_err(test, "does not list the %dth", i);
			return false;
		}
	}
	return true;
}

bool st_await(struct kunit *test, struct fid_poll *set)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	void *found;

	while (!fi_poll(set, &found, 1)) {
		if (time_after(jiffies, deadline)) {
			kunit_err(test, "waited for a member of a poll set");
			return false;
		}
		fsleep(1000);
	}
	return true;
}

struct fid_wait *st_wait_open(struct kunit *test, struct fid_fabric *fabric,
			      enum fi_wait_obj wait_obj)
{
	struct fi_wait_attr attr = { .wait_obj = wait_obj };
	struct fid_wait *set;
	int ret = fi_wait_open(fabric, &attr, &set);

	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_wait_open: %s", fi_strerror(ret));
	fx_defer_close(test, &set->fid);
	return set;
}

struct fid_cq *st_wait_cq(struct kunit *test, struct fid_domain *domain,
			  struct fid_wait *set)
{
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = set ? FI_WAIT_SET : FI_WAIT_QUEUE,
		.wait_set = set,
	};

	return fx_cq(test, domain, &attr);
}

struct fid_eq *st_wait_eq(struct kunit *test, struct fid_fabric *fabric,
			  struct fid_wait *set)
{
	struct fi_eq_attr attr = {
		.flags = FI_WRITE,
		.wait_obj = set ? FI_WAIT_SET : FI_WAIT_QUEUE,
		.wait_set = set,
	};
	struct fid_eq *eq;
	int ret = fi_eq_open(fabric, &attr, &eq, NULL);

	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_eq_open: %s", fi_strerror(ret));
	fx_defer_close(test, &eq->fid);
	return eq;
}

struct fid_cntr *st_wait_cntr(struct kunit *test, struct fid_domain *domain,
			      struct fid_wait *set)
{
	struct fi_cntr_attr attr = {
		.wait_obj = set ? FI_WAIT_SET : FI_WAIT_QUEUE,
		.wait_set = set,
	};
	struct fid_cntr *cntr;
	int ret = fi_cntr_open(domain, &attr, &cntr, NULL);

	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_cntr_open: %s", fi_strerror(ret));
	fx_defer_close(test, &cntr->fid);
	return cntr;
}

struct fid *st_from(struct kunit *test, struct fid_wait *set)
{
	struct fid *found[2];
	int ret = fi_waitfrom(set, found, ARRAY_SIZE(found), FX_WAIT_MS);

	if (ret != 1) {
		kunit_err(test, "fi_waitfrom answers %d", ret);
		return NULL;
	}
	return found[0];
}
