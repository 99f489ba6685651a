/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of the suites that test vectors of datagram endpoints: vectors whose segments
 * have gaps between them, and transfers of such vectors.
 */

#ifndef KOFI_KUNIT_RDM_IOV_H
#define KOFI_KUNIT_RDM_IOV_H

#include <linux/bvec.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <rdma/fi_rma.h>

#include "rdm.h"
#include "traffic.h"

#define DEFAULT	4
#define MOST	256
#define PACKET	16384
#define LONGEST	(SZ_256K + 7)
#define GAP	3
#define SIZE	(LONGEST + MOST * GAP)
#define UNUSED	0x5a
#define TAG	77

/* Lengths of eager, segmented and rendezvous messages. */
#define IOV_LENS	7
extern const size_t iov_lens[IOV_LENS];
/* Numbers of segments; vectors of 5 and more have empty segments. */
#define IOV_COUNTS	5
extern const size_t iov_counts[IOV_COUNTS];

/* A vector of segments with gaps between them. */
struct iov_vector {
	u8			*memory;
	size_t			count;
	struct kvec		iov[MOST + 1];
	/* Copies of the segments in the three forms that calls take. */
	struct kvec		kvec[MOST + 1];
	struct bio_vec		bvec[MOST + 1];
	struct scatterlist	sgl[MOST + 1];
};

/* Two endpoints, a vector to send, a vector to receive, and space for a contiguous message. */
struct iov_pair {
	struct kofi_rdm		*a, *b;
	fi_addr_t		to_b;
	struct iov_vector	*out, *in;
	u8			*flat;
};

/* Options of endpoints with the longest vectors. */
extern const struct rdm_opts iov_long_opts;

/* Allocates a vector with its memory; freed with the test. */
struct iov_vector *iov_new(struct kunit *test);
/* Allocates two vectors, and then opens two endpoints; freed and closed with the test. */
struct iov_pair *iov_open(struct kunit *test, const struct rdm_opts *opts);
/* Divides len bytes into count segments; segments 3, 8, 13, ... are empty, except the last one. */
void iov_cut(struct iov_vector *vector, size_t count, size_t len);
/* Fills the segments with a pattern of the seed. */
void iov_fill(struct iov_pair *p, struct iov_vector *vector, size_t len, u32 seed);
/* Checks that len bytes have the pattern and no other byte was written; resets them to UNUSED. */
bool iov_received(struct iov_pair *p, struct iov_vector *vector, size_t len, u32 seed);
/* Returns the vector as kvecs, FI_BVEC or FI_SGL; iov_forget() overwrites all three forms. */
const struct kvec *iov_form(struct iov_vector *vector, u64 form);
void iov_forget(struct iov_vector *vector);
/* Post the vector in the form that the flags name, and overwrite the form after the call. */
ssize_t iov_send(struct iov_pair *p, u64 flags, bool is_tagged);
ssize_t iov_recv(struct fid_ep *ep, struct iov_vector *vector, u64 flags, bool is_tagged);
/*
 * Reads remote ranges into the vector, or writes the vector to them; overwrites the form
 * of the vector and the ranges after the call.
 */
ssize_t iov_access(struct iov_pair *p, struct iov_vector *vector, bool is_read,
		   struct fi_rma_iov *remote, size_t ranges, void **desc, u64 flags);
/* Reads both completions of a message from p->out, and checks the bytes received in p->in. */
void iov_expect(struct kunit *test, struct iov_pair *p, size_t len, u32 seed);
/*
 * Sends a message of each length with MOST segments, so that a slot that was not freed, or
 * has wrong segments, makes the test fail.
 */
void iov_exchange(struct kunit *test, struct iov_pair *p);

#endif /* KOFI_KUNIT_RDM_IOV_H */
