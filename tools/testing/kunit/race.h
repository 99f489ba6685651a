/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of races on two CPUs, within the rules of the API: no thread uses an
 * object that it has closed, but both use the others at the same time.
 */

#ifndef KOFI_KUNIT_RACE_H
#define KOFI_KUNIT_RACE_H

#include "traffic.h"

/* Bytes of a message, and messages that are pending in each direction. */
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

/* Opens a listener and queues; race_connect() connects, race_post() posts on both endpoints. */
struct race *race_prepare(struct kunit *test);
/* Opens them for a consumer with that threading model. */
struct race *race_prepare_for(struct kunit *test, enum fi_threading threading);
void race_connect(struct kunit *test, struct race *race);
void race_post(struct kunit *test, struct race *race);

/* Runs the halves on two CPUs at once, and waits for both; race->ret has what they returned. */
void race_run(struct kunit *test, struct race *race,
	      int (*one)(struct race *race, int side),
	      int (*other)(struct race *race, int side));

/* Reads all entries, errors too; returns their number. */
int race_drain(struct fid_cq *cq);
/* Reads all events and errors. */
void race_drain_events(struct kunit *test, struct fid_eq *eq);

#endif /* KOFI_KUNIT_RACE_H */
