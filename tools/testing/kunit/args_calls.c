// SPDX-License-Identifier: GPL-2.0
/*
 * Bad arguments to the calls of open objects: the ops tables, control and
 * binding, queues and counters. Connections are in args_cm.c.
 */

#include <linux/sizes.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "args.h"

/* Checks a table of ops: its size comes first, and each pointer after it is set. */
static void expect_full_table(struct kunit *test, const char *name, const void *table,
			      size_t size)
{
	void *const *calls = table + sizeof(size_t);

	KUNIT_ASSERT_NOT_NULL_MSG(test, table, "%s", name);
	KUNIT_EXPECT_EQ_MSG(test, *(const size_t *)table, size, "%s", name);
	for (size_t i = 0; i < (size - sizeof(size_t)) / sizeof(*calls); i++)
		KUNIT_EXPECT_NOT_NULL_MSG(test, calls[i], "%s, entry %zu", name,
					  i);
}

#define EXPECT_FULL_TABLE(test, table) expect_full_table(test, #table, table, sizeof(*(table)))

static void args_every_op_is_set(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct kofi_pair *pair = objs->pair;

	for (int i = 0; i < ARGS_CLASSES; i++)
		if (objs->fid[i] != &objs->unknown)
			EXPECT_FULL_TABLE(test, objs->fid[i]->ops);
	EXPECT_FULL_TABLE(test, pair->fabric->ops);
	EXPECT_FULL_TABLE(test, pair->domain->ops);
	EXPECT_FULL_TABLE(test, pair->domain->mr);
	EXPECT_FULL_TABLE(test, pair->eq->ops);
	EXPECT_FULL_TABLE(test, pair->cq[0]->ops);
	EXPECT_FULL_TABLE(test, objs->cntr->ops);
	EXPECT_FULL_TABLE(test, objs->av->ops);
	EXPECT_FULL_TABLE(test, objs->set->ops);
	EXPECT_FULL_TABLE(test, pair->pep->ops);
	EXPECT_FULL_TABLE(test, pair->pep->cm);
	EXPECT_FULL_TABLE(test, pair->ep[0]->ops);
	EXPECT_FULL_TABLE(test, pair->ep[0]->cm);
	EXPECT_FULL_TABLE(test, pair->ep[0]->msg);
	EXPECT_FULL_TABLE(test, pair->ep[0]->rma);
	EXPECT_FULL_TABLE(test, pair->ep[0]->tagged);
	EXPECT_FULL_TABLE(test, pair->ep[0]->atomic);
	EXPECT_FULL_TABLE(test, pair->ep[0]->collective);
}

/* Calls that every fid has, on an object of every class. */
static void args_bad_arguments_of_common_calls_are_refused(struct kunit *test)
{
	static const int commands[] = { -1, INT_MIN, INT_MAX, 999 };
	struct args_objects *objs = args_objects(test);

	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fid *fid = objs->fid[i];
		struct fid *alias = NULL;
		void *ops;

		if (fid == &objs->unknown)
			continue;
		for (int n = 0; n < ARRAY_SIZE(commands); n++)
			REFUSE(fi_control(fid, commands[n], NULL));
		/* Each of these commands needs an argument. */
		for (int n = FI_GETFIDFLAG; n <= FI_EXPORT_FID; n++)
			if (n != FI_ENABLE && n != FI_FLUSH_WORK)
				REFUSE(fi_control(fid, n, NULL));
		REFUSE(fi_alias(fid, NULL, 0));
		REFUSE(fi_alias(fid, &alias, ~0ULL));
		REFUSE(fi_open_ops(fid, NULL, 0, NULL, NULL));
		REFUSE(fi_open_ops(fid, "no such operations", ~0ULL, &ops,
				   NULL));
		REFUSE(fi_set_ops(fid, NULL, ~0ULL, NULL, NULL));
		REFUSE(fi_get_val(fid, -1, NULL));
		REFUSE(fi_set_val(fid, -1, NULL));
		REFUSE(fi_export_fid(fid, ~0ULL, NULL, NULL));
		REFUSE(fi_import_fid(fid, NULL, ~0ULL));
		REFUSE(fid->ops->tostr(fid, NULL, SIZE_MAX));
	}
}

/* Calls close, bind and control of each class with an object of another class. */
static void args_common_calls_refuse_objects_of_another_class(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	u64 flags = FI_TRANSMIT;

	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fi_ops *ops = objs->fid[i]->ops;

		if (objs->fid[i] == &objs->unknown)
			continue;
		for (int n = 0; n < ARGS_CLASSES; n++) {
			struct fid *wrong = objs->fid[n];

			if (n == i)
				continue;
			ANSWER(-FI_EINVAL, ops->close(wrong));
			REFUSE(ops->bind(wrong, &objs->pair->eq->fid, 0));
			REFUSE(ops->control(wrong, FI_GETOPSFLAG, &flags));
		}
		ANSWER(-FI_EINVAL, ops->close(NULL));
		REFUSE(ops->bind(NULL, NULL, 0));
		REFUSE(ops->control(NULL, 0, NULL));
	}
}

static void args_bind_refuses_bad_objects_and_flags(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_pep(test, fx->fabric, fx->info);
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);
	struct fid unknown = {};

	ANSWER(-FI_EINVAL, fi_ep_bind(ep, NULL, 0));
	ANSWER(-FI_EINVAL, fi_ep_bind(ep, &unknown, 0));
	REFUSE(fi_ep_bind(ep, &fx->eq->fid, ~0ULL));
	ANSWER(-FI_EBADFLAGS, fi_ep_bind(ep, &fx->cq->fid, 0));
	ANSWER(-FI_EBADFLAGS, fi_ep_bind(ep, &fx->cq->fid, ~0ULL));
	ANSWER(-FI_EINVAL, fi_pep_bind(pep, NULL, 0));
	ANSWER(-FI_EINVAL, fi_pep_bind(pep, &unknown, 0));
	REFUSE(fi_pep_bind(pep, &fx->eq->fid, ~0ULL));
	ANSWER(-FI_EINVAL, fi_domain_bind(fx->domain, NULL, 0));
	ANSWER(-FI_EINVAL, fi_domain_bind(fx->domain, &unknown, 0));
	REFUSE(fi_domain_bind(fx->domain, &fx->eq->fid, ~0ULL));
	REFUSE(fi_scalable_ep_bind(ep, NULL, ~0ULL));
	/* Objects with the right class that are not of kOFI. */
	unknown.fclass = FI_CLASS_CQ;
	ANSWER(-FI_EINVAL, fi_ep_bind(ep, &unknown, FI_TRANSMIT));
	unknown.fclass = FI_CLASS_CNTR;
	ANSWER(-FI_EINVAL, fi_ep_bind(ep, &unknown, FI_SEND));
	unknown.fclass = FI_CLASS_EQ;
	ANSWER(-FI_EINVAL, fi_ep_bind(ep, &unknown, 0));
	ANSWER(-FI_EINVAL, fi_pep_bind(pep, &unknown, 0));
}

static void args_bad_arguments_of_event_queues_are_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_eq *eq = fx->eq;
	struct fi_eq_err_entry error = {};
	char buf[8] = "";
	u32 event;

	ANSWER(-FI_EINVAL, fi_eq_write(eq, 1, NULL, 8, 0));
	REFUSE(fi_eq_write(eq, 1, buf, 8, ~0ULL));
	/* These sizes cannot be allocated, and must cause no kernel warning. */
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++)
		REFUSE(fi_eq_write(eq, 1, buf, args_lengths[i], 0));
	REFUSE(fi_eq_write(eq, 1, buf, SZ_1G, 0));
	ANSWER(0, fi_eq_write(eq, 1, NULL, 0, 0));
	ANSWER(0, fi_eq_read(eq, &event, NULL, 0, 0));

	ANSWER(8, fi_eq_write(eq, 1, buf, 8, 0));
	ANSWER(-FI_EINVAL, fi_eq_read(eq, NULL, buf, 8, 0));
	ANSWER(-FI_EINVAL, fi_eq_read(eq, &event, NULL, 8, 0));
	REFUSE(fi_eq_read(eq, &event, buf, 8, ~0ULL));
	ANSWER(-FI_ETOOSMALL, fi_eq_read(eq, &event, NULL, 0, 0));
	ANSWER(-FI_EINVAL, fi_eq_sread(eq, NULL, buf, 8, 0, 0));
	ANSWER(-FI_EINVAL, fi_eq_sread(eq, &event, NULL, 8, 0, 0));
	REFUSE(fi_eq_sread(eq, &event, buf, 8, INT_MIN, ~0ULL));
	ANSWER(8, fi_eq_sread(eq, &event, buf, SIZE_MAX, INT_MIN, 0));

	ANSWER(-FI_EINVAL, fi_eq_readerr(eq, NULL, 0));
	REFUSE(fi_eq_readerr(eq, &error, ~0ULL));
	KUNIT_EXPECT_NOT_NULL(test, fi_eq_strerror(eq, INT_MIN, NULL, NULL, 8));
	KUNIT_EXPECT_NOT_NULL(test, fi_eq_strerror(eq, INT_MAX, NULL, buf, 0));
	KUNIT_EXPECT_NOT_NULL(test, fi_eq_strerror(eq, 0, NULL, buf, 1));
	KUNIT_EXPECT_EQ(test, buf[0], 0);
}

static void args_readerr_writes_at_most_err_data_size_bytes(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fi_eq_err_entry error = { .err_data_size = SIZE_MAX };
	struct fid_ep *ep = fx_bound_ep(test, fx);
	struct fi_info *request;
	struct fx_cm_event event;
	u32 number;
	char byte;

	fx_start_connect(test, ep, pep);
	request = fx_wait_request(test, fx->eq);
	ANSWER(0, fi_reject(pep, request->handle, "why not", 7));
	ANSWER(-FI_EAVAIL, fi_eq_sread(fx->eq, &number, &event, sizeof(event),
				       FX_WAIT_MS, 0));
	ANSWER(sizeof(error), fi_eq_readerr(fx->eq, &error, FI_PEEK));
	error.err_data = &byte;
	error.err_data_size = 1;
	ANSWER(sizeof(error), fi_eq_readerr(fx->eq, &error, 0));
	KUNIT_EXPECT_LE(test, error.err_data_size, 1);
}

static void args_bad_arguments_of_completion_queues_are_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {};
	struct fid_cq *cq = fx->cq;
	fi_addr_t from;
	char buf[8];

	ANSWER(-FI_EINVAL, fi_cq_read(cq, NULL, 1));
	ANSWER(-FI_EINVAL, fi_cq_read(cq, NULL, SIZE_MAX));
	ANSWER(-FI_EAGAIN, fi_cq_read(cq, NULL, 0));
	/* The count is the capacity of the buffer: a large one is no error by itself. */
	for (int i = 0; i < ARRAY_SIZE(args_lengths); i++)
		ANSWER(-FI_EAGAIN, fi_cq_read(cq, &entry, args_lengths[i]));
	ANSWER(-FI_EINVAL, fi_cq_readfrom(cq, NULL, 1, &from));
	ANSWER(-FI_EAGAIN, fi_cq_readfrom(cq, &entry, 1, NULL));
	ANSWER(-FI_EINVAL, fi_readfrom(cq, NULL, 1, &from));
	ANSWER(-FI_EINVAL, fi_cq_sread(cq, NULL, 1, NULL, 0));
	ANSWER(-FI_EAGAIN, fi_cq_sread(cq, &entry, SIZE_MAX, &from, 0));
	ANSWER(-FI_EINVAL, fi_cq_sreadfrom(cq, NULL, 1, &from, NULL, 0));
	ANSWER(-FI_EAGAIN, fi_cq_sreadfrom(cq, &entry, 1, NULL, NULL, 0));
	ANSWER(-FI_EINVAL, fi_cq_readerr(cq, NULL, 0));
	ANSWER(-FI_EINVAL, fi_cq_error(cq, NULL, 0));
	REFUSE(fi_cq_readerr(cq, &error, ~0ULL));
	error.err_data_size = SIZE_MAX;
	ANSWER(-FI_EAGAIN, fi_cq_readerr(cq, &error, 0));
	ANSWER(0, fi_cq_signal(cq));
	ANSWER(-FI_EINVAL, fi_cq_sread(cq, NULL, 1, NULL, -1));
	ANSWER(-FI_EAGAIN, fi_cq_sread(cq, &entry, 1, NULL, INT_MIN));
	KUNIT_EXPECT_NOT_NULL(test, fi_cq_strerror(cq, INT_MIN, NULL, NULL, 8));
	KUNIT_EXPECT_NOT_NULL(test, fi_cq_strerror(cq, INT_MAX, NULL, buf, 0));
	KUNIT_EXPECT_NOT_NULL(test, fi_cq_strerror(cq, 0, NULL, buf, 1));
	KUNIT_EXPECT_EQ(test, buf[0], 0);
}

/* Any value can be set or added, so only bad objects, waits and bindings are refused. */
static void args_bad_arguments_of_counters_are_refused(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_cntr *cntr = objs->cntr;
	struct fi_ops_cntr *ops = cntr->ops;

	ANSWER(0, fi_cntr_set(cntr, U64_MAX));
	ANSWER(0, fi_cntr_add(cntr, U64_MAX));
	ANSWER(0, fi_cntr_seterr(cntr, U64_MAX));
	ANSWER(0, fi_cntr_adderr(cntr, U64_MAX));
	KUNIT_EXPECT_EQ(test, fi_cntr_read(cntr), U64_MAX - 1);
	KUNIT_EXPECT_EQ(test, fi_cntr_readerr(cntr), U64_MAX - 1);
	ANSWER(-FI_ETIMEDOUT, fi_cntr_wait(cntr, U64_MAX, 0));
	ANSWER(0, fi_cntr_wait(cntr, 0, INT_MIN));
	ANSWER(-FI_EBADFLAGS, fi_ep_bind(objs->pair->ep[0], &cntr->fid, 0));
	ANSWER(-FI_EBADFLAGS, fi_ep_bind(objs->pair->ep[0], &cntr->fid,
					 ~0ULL));
	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fid_cntr *wrong = (void *)objs->fid[i];

		if (objs->fid[i] == &cntr->fid)
			continue;
		KUNIT_EXPECT_EQ(test, ops->read(wrong), 0);
		KUNIT_EXPECT_EQ(test, ops->readerr(wrong), 0);
		ANSWER(-FI_EINVAL, ops->add(wrong, 1));
		ANSWER(-FI_EINVAL, ops->adderr(wrong, 1));
		ANSWER(-FI_EINVAL, ops->set(wrong, 1));
		ANSWER(-FI_EINVAL, ops->seterr(wrong, 1));
		ANSWER(-FI_EINVAL, ops->wait(wrong, 0, 0));
	}
}

static struct kunit_case args_calls_cases[] = {
	KUNIT_CASE(args_every_op_is_set),
	KUNIT_CASE(args_bad_arguments_of_common_calls_are_refused),
	KUNIT_CASE(args_common_calls_refuse_objects_of_another_class),
	KUNIT_CASE(args_bind_refuses_bad_objects_and_flags),
	KUNIT_CASE(args_bad_arguments_of_event_queues_are_refused),
	KUNIT_CASE(args_readerr_writes_at_most_err_data_size_bytes),
	KUNIT_CASE(args_bad_arguments_of_completion_queues_are_refused),
	KUNIT_CASE(args_bad_arguments_of_counters_are_refused),
	{}
};

static struct kunit_suite args_calls_suite = {
	.name = "kofi_args_calls",
	.test_cases = args_calls_cases,
};

kunit_test_suite(args_calls_suite);
