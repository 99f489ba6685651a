// SPDX-License-Identifier: GPL-2.0
/*
 * Bad arguments to the calls of open objects: the tables themselves, control
 * and binding, event and completion queues, connections.
 */

#include <linux/in6.h>
#include <linux/sizes.h>
#include <linux/socket.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "args.h"

/* Each table begins with its size, and is pointers to functions from there on. */
static void no_holes(struct kunit *test, const char *name, const void *table,
		     size_t size)
{
	void *const *calls = table + sizeof(size_t);

	KUNIT_ASSERT_NOT_NULL_MSG(test, table, "%s", name);
	KUNIT_EXPECT_EQ_MSG(test, *(const size_t *)table, size, "%s", name);
	for (size_t i = 0; i < (size - sizeof(size_t)) / sizeof(*calls); i++)
		KUNIT_EXPECT_NOT_NULL_MSG(test, calls[i], "%s, entry %zu", name,
					  i);
}

#define NO_HOLES(test, table) no_holes(test, #table, table, sizeof(*(table)))

static void args_no_table_has_a_hole(struct kunit *test)
{
	struct args_world *world = args_world(test);
	struct kofi_pair *pair = world->pair;

	for (int i = 0; i < ARGS_CLASSES; i++)
		if (world->fid[i] != &world->unknown)
			NO_HOLES(test, world->fid[i]->ops);
	NO_HOLES(test, pair->fabric->ops);
	NO_HOLES(test, pair->domain->ops);
	NO_HOLES(test, pair->domain->mr);
	NO_HOLES(test, pair->eq->ops);
	NO_HOLES(test, pair->cq[0]->ops);
	NO_HOLES(test, pair->pep->ops);
	NO_HOLES(test, pair->pep->cm);
	NO_HOLES(test, pair->ep[0]->ops);
	NO_HOLES(test, pair->ep[0]->cm);
	NO_HOLES(test, pair->ep[0]->msg);
	NO_HOLES(test, pair->ep[0]->rma);
	NO_HOLES(test, pair->ep[0]->tagged);
	NO_HOLES(test, pair->ep[0]->atomic);
	NO_HOLES(test, pair->ep[0]->collective);
}

/* The calls of every fid, on an object of every class. */
static void args_common_calls(struct kunit *test)
{
	static const int commands[] = { -1, INT_MIN, INT_MAX, 999 };
	struct args_world *world = args_world(test);

	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fid *fid = world->fid[i];
		struct fid *alias = NULL;
		void *ops;

		if (fid == &world->unknown)
			continue;
		for (int n = 0; n < ARRAY_SIZE(commands); n++)
			REFUSE(fi_control(fid, commands[n], NULL));
		/* None of these goes without its argument. */
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
	}
}

/* A table's close, bind and control, called with an object of another class. */
static void args_common_calls_of_another_class(struct kunit *test)
{
	struct args_world *world = args_world(test);
	u64 flags = FI_TRANSMIT;

	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fi_ops *ops = world->fid[i]->ops;

		if (world->fid[i] == &world->unknown)
			continue;
		for (int n = 0; n < ARGS_CLASSES; n++) {
			struct fid *wrong = world->fid[n];

			if (n == i)
				continue;
			ANSWER(-FI_EINVAL, ops->close(wrong));
			REFUSE(ops->bind(wrong, &world->pair->eq->fid, 0));
			REFUSE(ops->control(wrong, FI_GETOPSFLAG, &flags));
		}
		ANSWER(-FI_EINVAL, ops->close(NULL));
		REFUSE(ops->bind(NULL, NULL, 0));
		REFUSE(ops->control(NULL, 0, NULL));
	}
}

static void args_binding(struct kunit *test)
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
	/* A table with the right class, but of somebody else. */
	unknown.fclass = FI_CLASS_CQ;
	ANSWER(-FI_EINVAL, fi_ep_bind(ep, &unknown, FI_TRANSMIT));
	unknown.fclass = FI_CLASS_EQ;
	ANSWER(-FI_EINVAL, fi_ep_bind(ep, &unknown, 0));
	ANSWER(-FI_EINVAL, fi_pep_bind(pep, &unknown, 0));
}

static void args_event_queue(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_eq *eq = fx->eq;
	struct fi_eq_err_entry error = {};
	char buf[8] = "";
	u32 event;

	ANSWER(-FI_EINVAL, fi_eq_write(eq, 1, NULL, 8, 0));
	REFUSE(fi_eq_write(eq, 1, buf, 8, ~0ULL));
	/* Nobody allocates as much; the kernel must not complain aloud. */
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

/* An error entry whose caller gives a size, but no room or too little of it. */
static void args_error_data(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fi_eq_err_entry error = { .err_data_size = SIZE_MAX };
	struct fid_ep *ep = fx_bound_ep(test, fx);
	struct fi_info *request;
	struct fx_cm_event event;
	u32 number;
	char room;

	fx_start_connect(test, ep, pep);
	request = fx_wait_request(test, fx->eq);
	ANSWER(0, fi_reject(pep, request->handle, "why not", 7));
	ANSWER(-FI_EAVAIL, fi_eq_sread(fx->eq, &number, &event, sizeof(event),
				       FX_WAIT_MS, 0));
	ANSWER(sizeof(error), fi_eq_readerr(fx->eq, &error, FI_PEEK));
	error.err_data = &room;
	error.err_data_size = 1;
	ANSWER(sizeof(error), fi_eq_readerr(fx->eq, &error, 0));
	KUNIT_EXPECT_LE(test, error.err_data_size, 1);
}

static void args_completion_queue(struct kunit *test)
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
	/* The count says what there is room for: too much is no error by itself. */
	for (int i = 0; i < ARRAY_SIZE(args_lengths); i++)
		ANSWER(-FI_EAGAIN, fi_cq_read(cq, &entry, args_lengths[i]));
	ANSWER(-FI_EINVAL, fi_cq_readfrom(cq, NULL, 1, &from));
	ANSWER(-FI_EAGAIN, fi_cq_readfrom(cq, &entry, 1, NULL));
	ANSWER(-FI_EINVAL, fi_cq_sread(cq, NULL, 1, NULL, 0));
	ANSWER(-FI_EAGAIN, fi_cq_sread(cq, &entry, SIZE_MAX, &from, 0));
	ANSWER(-FI_EINVAL, fi_cq_sreadfrom(cq, NULL, 1, &from, NULL, 0));
	ANSWER(-FI_EAGAIN, fi_cq_sreadfrom(cq, &entry, 1, NULL, NULL, 0));
	ANSWER(-FI_EINVAL, fi_cq_readerr(cq, NULL, 0));
	REFUSE(fi_cq_readerr(cq, &error, ~0ULL));
	error.err_data_size = SIZE_MAX;
	ANSWER(-FI_EAGAIN, fi_cq_readerr(cq, &error, 0));
	KUNIT_EXPECT_NOT_NULL(test, fi_cq_strerror(cq, INT_MIN, NULL, NULL, 8));
	KUNIT_EXPECT_NOT_NULL(test, fi_cq_strerror(cq, INT_MAX, NULL, buf, 0));
	KUNIT_EXPECT_NOT_NULL(test, fi_cq_strerror(cq, 0, NULL, buf, 1));
	KUNIT_EXPECT_EQ(test, buf[0], 0);
}

static void args_names(struct kunit *test)
{
	struct args_world *world = args_world(test);
	struct kofi_pair *pair = world->pair;
	struct fid *const ends[] = { &pair->ep[0]->fid, &pair->pep->fid };
	struct fid_ep *idle = fx_ep(test, pair->domain, pair->info);
	struct sockaddr_in6 name = {};
	size_t len;

	for (int i = 0; i < ARRAY_SIZE(ends); i++) {
		REFUSE(fi_getname(ends[i], NULL, NULL));
		REFUSE(fi_getname(ends[i], &name, NULL));
		len = SIZE_MAX;
		REFUSE(fi_getname(ends[i], NULL, &len));
		for (size_t room = 0; room < 8; room++) {
			len = room;
			ANSWER(-FI_ETOOSMALL, fi_getname(ends[i], &name, &len));
			KUNIT_EXPECT_GT(test, len, 8);
		}
		len = SIZE_MAX;
		ANSWER(0, fi_getname(ends[i], &name, &len));
		KUNIT_EXPECT_LE(test, len, sizeof(name));
		/* Too late, whatever it is. */
		REFUSE(fi_setname(ends[i], &name, len));
	}
	REFUSE(fi_getpeer(pair->ep[0], &name, NULL));
	len = 1;
	ANSWER(-FI_ETOOSMALL, fi_getpeer(pair->ep[0], &name, &len));
	len = sizeof(name);
	REFUSE(fi_getpeer(idle, &name, &len));

	REFUSE(fi_setname(&idle->fid, NULL, 0));
	REFUSE(fi_setname(&idle->fid, NULL, sizeof(name)));
	REFUSE(fi_setname(&idle->fid, &name, 0));
	for (int i = 0; i < ARRAY_SIZE(args_lengths); i++)
		REFUSE(fi_setname(&idle->fid, &name, args_lengths[i]));
	name.sin6_family = 0x7777;
	REFUSE(fi_setname(&idle->fid, &name, sizeof(name)));
	name.sin6_family = AF_INET6;
	for (len = 2; len < sizeof(name) - sizeof(name.sin6_scope_id); len++)
		REFUSE(fi_setname(&idle->fid, &name, len));

	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fid *wrong = world->fid[i];

		len = sizeof(name);
		if (wrong != ends[0]) {
			REFUSE(idle->cm->getname(wrong, &name, &len));
			REFUSE(idle->cm->getpeer((void *)wrong, &name, &len));
			REFUSE(idle->cm->setname(wrong, &name, len));
		}
		if (wrong != ends[1]) {
			REFUSE(pair->pep->cm->getname(wrong, &name, &len));
			REFUSE(pair->pep->cm->setname(wrong, &name, len));
		}
	}
}

static void args_options(struct kunit *test)
{
	struct args_world *world = args_world(test);
	struct kofi_pair *pair = world->pair;
	struct fid *const ends[] = { &pair->ep[0]->fid, &pair->pep->fid };
	size_t value, len;

	for (int i = 0; i < ARRAY_SIZE(ends); i++) {
		struct fid *fid = ends[i];

		len = sizeof(value);
		REFUSE(fi_getopt(fid, -1, FI_OPT_CM_DATA_SIZE, &value, &len));
		REFUSE(fi_getopt(fid, FI_OPT_ENDPOINT, -1, &value, &len));
		REFUSE(fi_getopt(fid, FI_OPT_ENDPOINT, INT_MAX, &value, &len));
		REFUSE(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE,
				 &value, NULL));
		REFUSE(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE,
				 NULL, &len));
		len = 1;
		ANSWER(-FI_ETOOSMALL, fi_getopt(fid, FI_OPT_ENDPOINT,
						FI_OPT_CM_DATA_SIZE, &value,
						&len));
		REFUSE(fi_setopt(fid, -1, -1, NULL, SIZE_MAX));
		REFUSE(fi_setopt(fid, FI_OPT_ENDPOINT, INT_MAX, &value, 8));
	}
	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fid *wrong = world->fid[i];

		len = sizeof(value);
		if (wrong != ends[0])
			REFUSE(pair->ep[0]->ops->getopt(wrong, FI_OPT_ENDPOINT,
							FI_OPT_CM_DATA_SIZE,
							&value, &len));
		REFUSE(pair->ep[0]->ops->setopt(wrong, FI_OPT_ENDPOINT,
						FI_OPT_MIN_MULTI_RECV, &value,
						sizeof(value)));
		REFUSE(pair->ep[0]->ops->cancel(wrong, NULL));
	}
}

static void args_connections(struct kunit *test)
{
	struct args_world *world = args_world(test);
	struct kofi_pair *pair = world->pair;
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_ep *ep = fx_bound_ep(test, fx);
	struct sockaddr_in6 name;
	size_t len = sizeof(name);
	u16 family = 0x7777;
	struct fid_mc *mc;
	u8 data[56] = {};

	KUNIT_ASSERT_EQ(test, fi_getname(&pair->pep->fid, &name, &len), 0);
	REFUSE(fi_connect(ep, NULL, NULL, 0));
	REFUSE(fi_connect(ep, &family, NULL, 0));
	REFUSE(fi_connect(ep, &name, NULL, 1));
	ANSWER(-FI_EINVAL, fi_connect(ep, &name, data, sizeof(data)));
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++)
		ANSWER(-FI_EINVAL, fi_connect(ep, &name, data,
					      args_lengths[i]));
	REFUSE(fi_accept(ep, NULL, 0));
	REFUSE(fi_accept(ep, NULL, 1));
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++)
		REFUSE(fi_accept(ep, data, args_lengths[i]));
	ANSWER(-FI_EBADFLAGS, fi_shutdown(pair->ep[0], ~0ULL));
	ANSWER(-FI_EBADFLAGS, fi_shutdown(pair->ep[0], 1ULL << 63));
	REFUSE(fi_shutdown(ep, 0));

	ANSWER(-FI_EINVAL, fi_reject(pair->pep, NULL, NULL, 0));
	ANSWER(-FI_EINVAL, fi_reject(pair->pep, &pair->ep[0]->fid, NULL, 0));
	ANSWER(-FI_EINVAL, fi_reject(pair->pep, (void *)-1L, NULL, 0));
	REFUSE(fi_reject(pair->pep, NULL, NULL, 1));
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++)
		ANSWER(-FI_EINVAL, fi_reject(pair->pep, NULL, data,
					     args_lengths[i]));
	REFUSE(fi_listen(pair->pep));
	REFUSE(fi_join(ep, NULL, ~0ULL, NULL, NULL));
	REFUSE(fi_join(ep, &name, 0, &mc, NULL));

	for (int i = 0; i < ARGS_CLASSES; i++) {
		void *wrong = world->fid[i];

		if (wrong != &pair->ep[0]->fid) {
			REFUSE(ep->cm->connect(wrong, &name, NULL, 0));
			REFUSE(ep->cm->accept(wrong, NULL, 0));
			REFUSE(ep->cm->shutdown(wrong, 0));
		}
		if (wrong != &pair->pep->fid) {
			REFUSE(pair->pep->cm->listen(wrong));
			REFUSE(pair->pep->cm->reject(wrong, NULL, NULL, 0));
		}
	}
}

static void args_backlog(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_pep(test, fx->fabric, fx->info);
	int backlog = -1;

	REFUSE(fi_control(&pep->fid, FI_BACKLOG, NULL));
	REFUSE(fi_control(&pep->fid, FI_BACKLOG, &backlog));
	ANSWER(-FI_ENOEQ, fi_listen(pep));
}

static struct kunit_case args_calls_cases[] = {
	KUNIT_CASE(args_no_table_has_a_hole),
	KUNIT_CASE(args_common_calls),
	KUNIT_CASE(args_common_calls_of_another_class),
	KUNIT_CASE(args_binding),
	KUNIT_CASE(args_event_queue),
	KUNIT_CASE(args_error_data),
	KUNIT_CASE(args_completion_queue),
	KUNIT_CASE(args_names),
	KUNIT_CASE(args_options),
	KUNIT_CASE(args_connections),
	KUNIT_CASE(args_backlog),
	{}
};

static struct kunit_suite args_calls_suite = {
	.name = "kofi_args_calls",
	.test_cases = args_calls_cases,
};

kunit_test_suite(args_calls_suite);
