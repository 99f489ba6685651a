// SPDX-License-Identifier: GPL-2.0
/*
 * Bad arguments to the calls of connections: names, options, connecting and
 * accepting.
 */

#include <linux/in6.h>
#include <linux/socket.h>

#include "args.h"

static void args_names(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct kofi_pair *pair = objs->pair;
	struct fid *const ends[] = { &pair->ep[0]->fid, &pair->pep->fid };
	struct fid_ep *idle = fx_ep(test, pair->domain, pair->info);
	struct sockaddr_in6 name = {};
	size_t len;

	for (int i = 0; i < ARRAY_SIZE(ends); i++) {
		REFUSE(fi_getname(ends[i], NULL, NULL));
		REFUSE(fi_getname(ends[i], &name, NULL));
		len = SIZE_MAX;
		REFUSE(fi_getname(ends[i], NULL, &len));
		for (size_t space = 0; space < 8; space++) {
			len = space;
			ANSWER(-FI_ETOOSMALL, fi_getname(ends[i], &name, &len));
			KUNIT_EXPECT_GT(test, len, 8);
		}
		len = SIZE_MAX;
		ANSWER(0, fi_getname(ends[i], &name, &len));
		KUNIT_EXPECT_LE(test, len, sizeof(name));
		/* Any name is too late here. */
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
		struct fid *wrong = objs->fid[i];

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
	struct args_objects *objs = args_objects(test);
	struct kofi_pair *pair = objs->pair;
	struct fid *const ends[] = { &pair->ep[0]->fid, &pair->pep->fid };
	struct fid_ep *idle = fx_ep(test, pair->domain, pair->info);
	struct fi_ops_ep *ops = pair->ep[0]->ops;
	struct fid_ep *alias;
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
	REFUSE(fi_cancel(ends[0], NULL));
	REFUSE(fi_rx_size_left(idle));
	REFUSE(fi_tx_size_left(idle));
	REFUSE(fi_ep_alias(pair->ep[0], &alias, ~0ULL));
	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fid *wrong = objs->fid[i];

		if (wrong != ends[0]) {
			REFUSE(ops->rx_size_left((void *)wrong));
			REFUSE(ops->tx_size_left((void *)wrong));
		}
		len = sizeof(value);
		if (wrong != ends[0])
			REFUSE(ops->getopt(wrong, FI_OPT_ENDPOINT,
					   FI_OPT_CM_DATA_SIZE, &value, &len));
		REFUSE(ops->setopt(wrong, FI_OPT_ENDPOINT,
				   FI_OPT_MIN_MULTI_RECV, &value,
				   sizeof(value)));
		REFUSE(ops->cancel(wrong, NULL));
	}
}

static void args_connections(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct kofi_pair *pair = objs->pair;
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
		void *wrong = objs->fid[i];

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

static struct kunit_case args_cm_cases[] = {
	KUNIT_CASE(args_names),
	KUNIT_CASE(args_options),
	KUNIT_CASE(args_connections),
	KUNIT_CASE(args_backlog),
	{}
};

static struct kunit_suite args_cm_suite = {
	.name = "kofi_args_cm",
	.test_cases = args_cm_cases,
};

kunit_test_suite(args_cm_suite);
