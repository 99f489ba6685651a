/* SPDX-License-Identifier: GPL-2.0 */
/* Fixture of the suites of datagram vectors: segments with gaps, and transfers of them. */

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
/* Counts of segments; of 5, one is empty. */
#define IOV_COUNTS	5
extern const size_t iov_counts[IOV_COUNTS];

/* A vector of segments with gaps between them. */
struct iov_vector {
	u8			*memory;
	size_t			count;
	struct kvec		iov[MOST + 1];
	/* The forms that calls are given. */
	struct kvec		kvec[MOST + 1];
	struct bio_vec		bvec[MOST + 1];
	struct scatterlist	sgl[MOST + 1];
};

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
/* Opens endpoints, after two vectors have been allocated; closed with the test. */
struct iov_pair *iov_open(struct kunit *test, const struct rdm_opts *opts);
/* Divides len bytes into count segments; every fifth one is empty, but for the last one. */
void iov_cut(struct iov_vector *vector, size_t count, size_t len);
/* Fills the segments with a pattern of the seed. */
void iov_fill(struct iov_pair *p, struct iov_vector *vector, size_t len, u32 seed);
/* Checks that len bytes have the pattern and nothing else was written; erases them. */
bool iov_received(struct iov_pair *p, struct iov_vector *vector, size_t len, u32 seed);
/* Returns the vector as kvecs, FI_BVEC or FI_SGL; iov_forget() overwrites it. */
const struct kvec *iov_form(struct iov_vector *vector, u64 form);
void iov_forget(struct iov_vector *vector);
/* Post the vector in the form of the flags, which is overwritten when the call has returned. */
ssize_t iov_send(struct iov_pair *p, u64 flags, bool is_tagged);
ssize_t iov_recv(struct fid_ep *ep, struct iov_vector *vector, u64 flags, bool is_tagged);
/* Reads remote ranges into the vector, or writes it to them; overwrites both. */
ssize_t iov_access(struct iov_pair *p, struct iov_vector *vector, bool is_read,
		   struct fi_rma_iov *remote, size_t ranges, void **desc, u64 flags);
/* Reads both completions of a message of p->out, and checks what p->in has received. */
void iov_expect(struct kunit *test, struct iov_pair *p, size_t len, u32 seed);
/* Sends a message of each protocol, which shows that slots are free and hold what they should. */
void iov_exchange(struct kunit *test, struct iov_pair *p);

#endif /* KOFI_KUNIT_RDM_IOV_H */
