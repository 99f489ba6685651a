// SPDX-License-Identifier: GPL-2.0
/* Fixture of the suites of peer objects: see peer.h. */

#include "peer.h"

#define LEN	PEER_LEN
#define MANY	PEER_MANY

int peer_open(struct fid_domain *domain, struct fid_peer_cq *owner, struct fid_cq **cq)
{
	struct fi_peer_cq_context context = { .size = sizeof(context), .cq = owner };
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .flags = FI_PEER };

	return fi_cq_open(domain, &attr, cq, &context);
}

struct fid_cq *peer_of(struct kunit *test, struct fid_domain *domain, struct fid_peer_cq *owner)
{
	struct fid_cq *cq;

	KUNIT_ASSERT_EQ(test, 0, peer_open(domain, owner, &cq));
	fx_defer_close(test, &cq->fid);
	return cq;
}

struct fid *peer_export_fid(struct kunit *test, struct fid *fid, size_t fclass)
{
	struct fid *exported = NULL;

	KUNIT_ASSERT_EQ(test, 0, fi_export_fid(fid, 0, &exported, test));
	KUNIT_ASSERT_EQ(test, fclass, exported->fclass);
	KUNIT_ASSERT_PTR_EQ(test, test, exported->context);
	fx_defer_close(test, exported);
	return exported;
}

struct fid_peer_cq *peer_export(struct kunit *test, struct fid_cq *cq)
{
	return container_of(peer_export_fid(test, &cq->fid, FI_CLASS_PEER_CQ),
			    struct fid_peer_cq, fid);
}

struct peer_ends *peer_connect(struct kunit *test, struct kofi_fabric_fx *fx, struct fid_cq *cq)
{
	struct peer_ends *ends = kunit_kzalloc(test, sizeof(*ends), GFP_KERNEL);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);

	KUNIT_ASSERT_NOT_NULL(test, ends);
	ends->out = tr_buffer(test, MANY * LEN);
	ends->in = tr_buffer(test, MANY * LEN);
	ends->ep[0] = fx_ep(test, fx->domain, fx->info);
	fx_bind(test, ends->ep[0], fx->eq, cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ends->ep[0]));
	ends->ep[1] = fx_connect(test, fx->domain, ends->ep[0], pep, fx->eq, cq);
	return ends;
}

struct kofi_fabric_fx *peer_fabric(struct kunit *test)
{
	return fx_open_for(test, FI_THREAD_SAFE);
}

void peer_receive(struct kunit *test, struct peer_ends *ends, int nth)
{
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_recv(ends->ep[1], ends->in + nth * LEN, LEN,
							    NULL, FI_ADDR_UNSPEC,
							    ends->in + nth * LEN)));
}

void peer_send(struct kunit *test, struct peer_ends *ends, int nth)
{
	memset(ends->out + nth * LEN, nth + 1, LEN);
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_send(ends->ep[0], ends->out + nth * LEN,
							    nth + 1, NULL, FI_ADDR_UNSPEC,
							    ends->out + nth * LEN)));
}
