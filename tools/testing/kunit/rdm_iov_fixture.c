// SPDX-License-Identifier: GPL-2.0
/* Fixture of the suites of datagram vectors: see rdm_iov.h. */

#include "rdm_iov.h"

const size_t iov_lens[] = { 0, 3, 1001, PACKET, PACKET + 1, 3 * PACKET + 5, LONGEST };
const size_t iov_counts[] = { 1, DEFAULT, 5, 6, MOST };

const struct rdm_opts iov_long_opts = {
	.caps = FI_RMA | FI_MULTI_RECV, .iov_limit = MOST, .rma_iov_limit = MOST,
};

struct iov_vector *iov_new(struct kunit *test)
{
	struct iov_vector *vector = (void *)tr_buffer(test, sizeof(*vector));

	vector->memory = tr_buffer(test, SIZE);
	return vector;
}

struct iov_pair *iov_open(struct kunit *test, const struct rdm_opts *opts)
{
	struct iov_pair *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->out = iov_new(test);
	p->in = iov_new(test);
	p->flat = tr_buffer(test, LONGEST);
	p->a = rdm_open(test, opts);
	p->b = rdm_open(test, opts);
	p->to_b = rdm_addr(test, p->a, p->b);
	return p;
}

void iov_cut(struct iov_vector *vector, size_t count, size_t len)
{
	size_t at = 0;

	memset(vector->memory, UNUSED, SIZE);
	vector->count = count;
	for (size_t i = 0; i < count; i++) {
		size_t end = i % 5 == 3 && i != count - 1 ? at : len * (i + 1) / count;

		vector->iov[i] = (struct kvec) { vector->memory + at + GAP * i, end - at };
		at = end;
	}
}

void iov_fill(struct iov_pair *p, struct iov_vector *vector, size_t len, u32 seed)
{
	u8 *from = p->flat;

	tr_fill(p->flat, len, seed);
	for (size_t i = 0; i < vector->count; from += vector->iov[i++].iov_len)
		memcpy(vector->iov[i].iov_base, from, vector->iov[i].iov_len);
}

bool iov_received(struct iov_pair *p, struct iov_vector *vector, size_t len, u32 seed)
{
	u8 *to = p->flat;

	for (size_t i = 0; i < vector->count; i++) {
		size_t here = min_t(size_t, vector->iov[i].iov_len, p->flat + len - to);

		memcpy(to, vector->iov[i].iov_base, here);
		memset(vector->iov[i].iov_base, UNUSED, here);
		to += here;
	}
	return to == p->flat + len && tr_intact(p->flat, len, seed) &&
	       !memchr_inv(vector->memory, UNUSED, SIZE);
}

const struct kvec *iov_form(struct iov_vector *vector, u64 form)
{
	sg_init_table(vector->sgl, max_t(size_t, vector->count, 1));
	for (size_t i = 0; i < vector->count; i++) {
		struct kvec *iov = &vector->iov[i];

		if (form == FI_BVEC)
			bvec_set_virt(&vector->bvec[i], iov->iov_base, iov->iov_len);
		else if (form == FI_SGL)
			sg_set_buf(&vector->sgl[i], iov->iov_base, iov->iov_len);
		else
			vector->kvec[i] = *iov;
	}
	if (form == FI_BVEC)
		return fi_iov_bvec(vector->bvec);
	return form == FI_SGL ? fi_iov_sgl(vector->sgl) : vector->kvec;
}

void iov_forget(struct iov_vector *vector)
{
	memset(vector->kvec, 0xff, sizeof(vector->kvec));
	memset(vector->bvec, 0xff, sizeof(vector->bvec));
	memset(vector->sgl, 0xff, sizeof(vector->sgl));
}

ssize_t iov_send(struct iov_pair *p, u64 flags, bool is_tagged)
{
	struct iov_vector *vector = p->out;
	const struct kvec *iov = iov_form(vector, flags & (FI_BVEC | FI_SGL));
	const struct fi_msg msg = {
		.msg_iov = iov, .iov_count = vector->count, .addr = p->to_b, .context = vector,
	};
	const struct fi_msg_tagged tagged = {
		.msg_iov = iov, .iov_count = vector->count, .addr = p->to_b, .tag = TAG,
		.context = vector,
	};
	ssize_t ret;

	ret = retry_while_eagain(is_tagged ? fi_tsendmsg(p->a->ep, &tagged, flags) :
				 fi_sendmsg(p->a->ep, &msg, flags));
	iov_forget(vector);
	return ret;
}

ssize_t iov_recv(struct fid_ep *ep, struct iov_vector *vector, u64 flags, bool is_tagged)
{
	const struct kvec *iov = iov_form(vector, flags & (FI_BVEC | FI_SGL));
	const struct fi_msg msg = {
		.msg_iov = iov, .iov_count = vector->count, .addr = FI_ADDR_UNSPEC,
		.context = vector,
	};
	const struct fi_msg_tagged tagged = {
		.msg_iov = iov, .iov_count = vector->count, .addr = FI_ADDR_UNSPEC, .tag = TAG,
		.context = vector,
	};
	ssize_t ret;

	ret = retry_while_eagain(is_tagged ? fi_trecvmsg(ep, &tagged, flags) :
				 fi_recvmsg(ep, &msg, flags));
	iov_forget(vector);
	return ret;
}

ssize_t iov_access(struct iov_pair *p, struct iov_vector *vector, bool is_read,
		   struct fi_rma_iov *remote, size_t ranges, void **desc, u64 flags)
{
	const struct fi_msg_rma msg = {
		.msg_iov = iov_form(vector, flags & (FI_BVEC | FI_SGL)), .desc = desc,
		.iov_count = vector->count, .addr = p->to_b, .rma_iov = remote,
		.rma_iov_count = ranges, .context = vector,
	};
	ssize_t ret;

	ret = retry_while_eagain(is_read ? fi_readmsg(p->a->ep, &msg, flags) :
				 fi_writemsg(p->a->ep, &msg, flags));
	iov_forget(vector);
	memset(remote, 0xff, ranges * sizeof(*remote));
	return ret;
}

void iov_expect(struct kunit *test, struct iov_pair *p, size_t len, u32 seed)
{
	struct fi_cq_tagged_entry entry;

	rdm_expect(test, p->b, p->in, &entry);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	rdm_expect(test, p->a, p->out, NULL);
	KUNIT_EXPECT_TRUE_MSG(test, iov_received(p, p->in, len, seed),
			      "%zu bytes from %zu segments to %zu", len, p->out->count,
			      p->in->count);
}

void iov_exchange(struct kunit *test, struct iov_pair *p)
{
	for (int i = 0; i < IOV_LENS; i++) {
		iov_cut(p->out, MOST, iov_lens[i]);
		iov_cut(p->in, MOST, iov_lens[i]);
		iov_fill(p, p->out, iov_lens[i], i);
		KUNIT_ASSERT_EQ(test, 0, iov_recv(p->b->ep, p->in, 0, false));
		KUNIT_ASSERT_EQ(test, 0, iov_send(p, 0, false));
		iov_expect(test, p, iov_lens[i], i);
	}
}
