/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls whose allocations fail in turn: see fault.c.
 */

#ifndef KOFI_KUNIT_FAULT_H
#define KOFI_KUNIT_FAULT_H

#include <linux/in6.h>

#include "fixture.h"

/* What a call needs, and what it makes. */
struct fault {
	struct kofi_fabric_fx	*fx;
	struct fid_eq		*server;	/* of pep */
	struct fid_pep		*pep;		/* listens */
	struct sockaddr_in6	name;		/* of pep */
	struct sockaddr_in6	silent;		/* nobody listens there */
	struct fid_pep		*idle;
	struct fid_cntr		*cntr;		/* bound to ep */
	struct fid_av		*av;
	struct fid_poll		*poll;
	struct fid_wait		*set;
	struct fid_ep		*ep;		/* of request, if there is one */
	struct fid_ep		*srx;		/* receives to be shared */
	struct fid_cq		*cq;
	struct fid		*exported;	/* of cq */
	struct fid_ep		*asking;
	struct fi_info		*request;	/* FI_CONNREQ of asking */
	fi_addr_t		addr;
	void			*buf;
	struct fid		*made;
	struct fi_info		*info;
};

struct step {
	const char	*name;
	/* Not failed, before each call. */
	void		(*prepare)(struct kunit *test, struct fault *fault);
	/* Failed; sets fault->made to what has to be closed, if it succeeds. */
	int		(*call)(struct fault *fault);
	/* Not failed, after each call, whatever that answered. */
	void		(*clean)(struct fault *fault);
	/* It ends something, and must do so without memory. */
	bool		never_fails;
	/* How many allocations there are before the same come again and again. */
	unsigned int	most;
};

/* Initialises a suite: skips its tests where no allocation can be failed. */
int fault_init(struct kunit *test);
struct fault *fault_new(struct kunit *test);
void fault_walk(struct kunit *test, struct fault *fault,
		const struct step *step);

/* Answers from here with what a constructor gave. */
#define FAULT_MADE(fault, ret, object) ({				\
	int _ret = (ret);						\
									\
	if (!_ret)							\
		(fault)->made = &(object)->fid;				\
	_ret;								\
})

#endif /* KOFI_KUNIT_FAULT_H */
