// SPDX-License-Identifier: GPL-2.0
/*
 * Bad arguments to the calls of poll sets and wait sets.
 */

#include "args.h"
#include "sets.h"

static void args_poll_sets(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_domain *domain = objs->pair->domain;
	struct fid_poll *set = st_poll_open(test, domain), *other;
	struct fi_poll_attr attr = {};
	void *found;

	ANSWER_OPEN(-FI_EINVAL, other, fi_poll_open(domain, NULL, &other));
	ANSWER(-FI_EINVAL, fi_poll_open(domain, &attr, NULL));
	for (int bit = 0; bit < 64; bit++) {
		attr.flags = 1ULL << bit;
		ANSWER_OPEN(-FI_EINVAL, other,
			    fi_poll_open(domain, &attr, &other));
		ANSWER(-FI_EINVAL, fi_poll_add(set, &objs->cntr->fid,
					       1ULL << bit));
		ANSWER(-FI_EINVAL, fi_poll_del(set, &objs->cntr->fid,
					       1ULL << bit));
	}
	attr.flags = 0;
	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fid *fid = objs->fid[i];
		bool fits = fid->fclass == FI_CLASS_CQ ||
			    fid->fclass == FI_CLASS_CNTR;

		if (fid != &domain->fid)
			ANSWER_OPEN(-FI_EINVAL, other,
				    domain->ops->poll_open((void *)fid, &attr,
							   &other));
		ANSWER(fits ? 0 : -FI_EINVAL, fi_poll_add(set, fid, 0));
		ANSWER(fits ? 0 : -FI_EINVAL, fi_poll_del(set, fid, 0));
		ANSWER(-FI_EINVAL, set->ops->poll((void *)fid, &found, 1));
		ANSWER(-FI_EINVAL, set->ops->poll_add((void *)fid,
						      &objs->cntr->fid, 0));
		ANSWER(-FI_EINVAL, set->ops->poll_del((void *)fid,
						      &objs->cntr->fid, 0));
	}
	ANSWER(-FI_EINVAL, fi_poll(set, &found, INT_MIN));
	ANSWER(-FI_EINVAL, fi_poll(set, NULL, INT_MAX));
	ANSWER(-FI_EINVAL, fi_poll_add(set, &objs->unknown, 0));
	ANSWER(-FI_EINVAL, fi_poll_del(set, &objs->unknown, 0));
	ANSWER(-FI_ENOSYS, fi_control(&set->fid, FI_GETWAIT, &found));
	REFUSE(set->fid.ops->bind(&set->fid, &objs->cntr->fid, 0));
}

static void args_wait_sets(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_fabric *fabric = objs->pair->fabric;
	struct fid_wait *set = st_wait_open(test, fabric, FI_WAIT_UNSPEC);
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid *from = &objs->unknown;
	struct fid_wait *other;

	ANSWER_OPEN(-FI_EINVAL, other, fi_wait_open(fabric, NULL, &other));
	ANSWER(-FI_EINVAL, fi_wait_open(fabric, &attr, NULL));
	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fid *fid = objs->fid[i];

		if (fid != &fabric->fid) {
			ANSWER_OPEN(-FI_EINVAL, other,
				    fabric->ops->wait_open((void *)fid, &attr,
							   &other));
			ANSWER(-FI_EINVAL, fabric->ops->trywait((void *)fid,
								&from, 0));
		}
		ANSWER(-FI_EINVAL, set->ops->wait((void *)fid, 0));
		ANSWER(-FI_EINVAL, set->ops->waitfrom((void *)fid, &from, 1, 0));
	}
	ANSWER(-FI_EINVAL, fi_trywait(fabric, &from, 1));
	ANSWER(-FI_EINVAL, fi_trywait(fabric, NULL, INT_MAX));
	ANSWER(-FI_EINVAL, fi_trywait(fabric, &from, INT_MIN));
	ANSWER(-FI_EINVAL, fi_waitfrom(set, NULL, INT_MAX, 0));
	ANSWER(-FI_EINVAL, fi_waitfrom(set, &from, INT_MIN, 0));
	ANSWER(-FI_ETIMEDOUT, fi_waitfrom(set, &from, 1, 0));
	ANSWER(-FI_ETIMEDOUT, fi_wait(set, 0));
	REFUSE(set->fid.ops->bind(&set->fid, &objs->cntr->fid, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(args_poll_sets),
	KUNIT_CASE(args_wait_sets),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_args_sets",
	.test_cases = cases,
};

kunit_test_suite(suite);
