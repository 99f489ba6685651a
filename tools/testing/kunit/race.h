/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two CPUs at the same objects at once, as far as the API allows it: nobody
 * uses what he has closed himself, but everything else goes on around him.
 */

#ifndef KOFI_KUNIT_RACE_H
#define KOFI_KUNIT_RACE_H

#include "traffic.h"

/* Bytes of a message, and messages that are under way in each direction. */
#define RACE_LEN 64
#define RACE_POSTED 8
/* Messages of each of two posters. */
#define RACE_EACH 256

/* Two threads, what they share, and the two halves of the race between them. */
struct race {
	struct kofi_fabric_fx	*fx;
	struct fid_pep		*pep;
	struct fid_ep		*ep[2];
	u8			*buf;
	int			(*half[2])(struct race *race, int side);
	atomic_t		here;
	atomic_t		posted;
	atomic_t		done;
	atomic_t		seen[2 * RACE_EACH];
	int			ret[2];
	bool			over;
};

/* A listener and queues; two endpoints, connected; receives and sends of both. */
struct race *race_prepare(struct kunit *test);
/* The same for a consumer that serializes its data calls, or does not. */
struct race *race_prepare_for(struct kunit *test, enum fi_threading threading);
void race_connect(struct kunit *test, struct race *race);
void race_post(struct kunit *test, struct race *race);

/* Runs the halves on two CPUs at once, and waits for both; race->ret has what they returned. */
void race_run(struct kunit *test, struct race *race,
	      int (*one)(struct race *race, int side),
	      int (*other)(struct race *race, int side));

/* Takes all entries that there are, good or bad; how many that were. */
int race_drain(struct fid_cq *cq);
/* Takes all events and errors that there are. */
void race_drain_events(struct kunit *test, struct fid_eq *eq);

#endif /* KOFI_KUNIT_RACE_H */
