/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls whose allocations fail in turn: see fault.c.
 */

#ifndef KOFI_KUNIT_FAULT_H
#define KOFI_KUNIT_FAULT_H

#include <linux/in6.h>

#include "fixture.h"

/* Objects that the calls under test need, and the object that the last call made. */
struct fault {
	struct kofi_fabric_fx	*fx;
	struct fid_eq		*server;	/* bound to pep */
	struct fid_pep		*pep;		/* listens */
	struct sockaddr_in6	name;		/* address of pep */
	struct sockaddr_in6	no_listener;	/* address without a listener */
	struct fid_pep		*idle;
	struct fid_cntr		*cntr;		/* bound to ep */
	struct fid_av		*av;
	struct fid_poll		*poll;
	struct fid_wait		*set;
	struct fid_ep		*ep;		/* opened from request, if there is one */
	struct fid_ep		*srx;		/* shared receive context */
	struct fid_cq		*cq;
	struct fid		*exported;	/* exported from cq */
	struct fid_ep		*connecting;
	struct fi_info		*request;	/* info of the FI_CONNREQ that connecting caused */
	fi_addr_t		addr;
	void			*buf;
	struct fid		*made;
	struct fi_info		*info;
};

struct step {
	const char	*name;
	/* Runs before each call, without fault injection. */
	void		(*prepare)(struct kunit *test, struct fault *fault);
	/*
	 * Call under fault injection; on success sets fault->made to the object
	 * to close, if there is one.
	 */
	int		(*call)(struct fault *fault);
	/* Runs after each call, without fault injection, whatever the call returned. */
	void		(*clean)(struct fault *fault);
	/* The call releases an object, and must succeed without memory. */
	bool		never_fails;
	/*
	 * Upper bound of injected failures, for a call that repeats its
	 * allocations; 0: MOST of fault.c.
	 */
	unsigned int	most;
};

/* Suite init function: skips the test on kernels where no allocation can be made to fail. */
int fault_init(struct kunit *test);
struct fault *fault_new(struct kunit *test);
void fault_fail_each(struct kunit *test, struct fault *fault,
		     const struct step *step);

/* Evaluates to ret, and records the object as fault->made if ret is 0. */
#define FAULT_MADE(fault, ret, object) ({				\
	int _ret = (ret);						\
									\
	if (!_ret)							\
		(fault)->made = &(object)->fid;				\
	_ret;								\
})

#endif /* KOFI_KUNIT_FAULT_H */
