/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of all suites: objects that are closed when the test ends, connected
 * endpoints, and bounded waits that log what they waited for.
 *
 * Functions that return an object end the test (KUNIT_ASSERT) when setup fails.
 * Functions that return an errno log the failure and leave the verdict to the
 * test.
 */

#ifndef KOFI_KUNIT_FIXTURE_H
#define KOFI_KUNIT_FIXTURE_H

#include <kunit/test.h>
#include <linux/delay.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

/* Limit of every wait: enough for a slow machine with all debugging options. */
#define FX_WAIT_MS	30000

/*
 * Expects that @ms have passed since @start, in ticks, which is how timeouts
 * count: a guest that did not get its CPU catches up several ticks at once, so
 * a clock may show less time.
 */
#define FX_EXPECT_PASSED(test, start, ms) \
	KUNIT_EXPECT_GE(test, jiffies - (start), msecs_to_jiffies(ms))

/* Module parameters: addresses of the device under test. */
extern char *fx_addr;
extern char *fx_addr6;
/*
 * True if tests serialize their data calls (FI_THREAD_COMPLETION) unless they
 * ask for another threading model.
 */
extern bool fx_serial;

/* Returns true if the loop provider is under test, which needs no device. */
bool fx_is_loop(void);

/* A connection event with space for all the private data that a peer can send. */
struct fx_cm_event {
	struct fi_eq_cm_entry	entry;
	u8			data[256];
};

struct kofi_fabric_fx {
	struct fi_info		*info;		/* src_addr is the device's */
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_eq		*eq;		/* FI_WRITE, FI_WAIT_UNSPEC */
	struct fid_cq		*cq;		/* tagged format, FI_WAIT_UNSPEC */
};

/* Options of fx_pair(); 0 selects the default in the comment. */
struct fx_pair_opts {
	const char		*node;		/* fx_addr */
	u64			caps;		/* besides FI_MSG */
	u64			mode;		/* mode bits accepted */
	enum fi_cq_format	format;		/* FI_CQ_FORMAT_TAGGED */
	size_t			cq_size;	/* kOFI's own default */
	size_t			tx_size;	/* as fi_getinfo() returns */
	size_t			rx_size;	/* as fi_getinfo() returns */
	u64			tx_flags;	/* besides FI_TRANSMIT: FI_SELECTIVE_COMPLETION */
	u64			rx_flags;	/* besides FI_RECV */
	bool			one_cq;		/* cq[0] == cq[1] */
	bool			no_wait;	/* queues with FI_WAIT_NONE */
	bool			count;		/* counters for everything */
	int			mr_mode;	/* as fi_getinfo() returns */
	size_t			mr_pool;	/* 0 */
	size_t			mr_pages;	/* kOFI's own default */
	enum fi_threading	threading;	/* FI_THREAD_SAFE, unless fx_serial */
	unsigned int		tries;		/* 1; more where siw may lose its reply */
};

/* Counters of an endpoint, by the operations that they count. */
enum { FX_SENDS, FX_RECVS, FX_WRITES, FX_READS, FX_COUNTERS };

/* Two connected endpoints of this machine: ep[0] connected, ep[1] accepted. */
struct kofi_pair {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_eq		*eq;		/* bound to both endpoints and pep, drained */
	struct fid_pep		*pep;
	struct fid_ep		*ep[2];
	struct fid_cq		*cq[2];
	struct fid_cntr		*cntr[2][FX_COUNTERS];
};

/* Closes fid when the test ends; a close that fails, fails the test. */
void fx_defer_close(struct kunit *test, struct fid *fid);
/* Closes fid now, if fx_defer_close() was called for it. */
void fx_close(struct kunit *test, struct fid *fid);
/* Cancels fx_defer_close(): the test closes fid itself. */
void fx_cancel_close(struct kunit *test, struct fid *fid);
/* Frees an info when the test ends. */
void fx_defer_free(struct kunit *test, struct fi_info *info);

/* Allocates hints for FI_MSG over connected endpoints; freed with the test. */
struct fi_info *fx_hints(struct kunit *test);
/*
 * Sets the threading model of the hints; FI_THREAD_UNSPEC means
 * FI_THREAD_COMPLETION if fx_serial is set, since nearly every test has a
 * single thread.
 */
void fx_set_threading(struct fi_info *hints, enum fi_threading threading);
/* Returns the infos for connected endpoints; freed with the test. */
struct fi_info *fx_info(struct kunit *test, const char *node,
			const char *service, u64 flags);
/* Calls fi_getinfo() with other hints; the result is freed with the test. */
struct fi_info *fx_info_for(struct kunit *test, const struct fi_info *hints,
			    const char *node, const char *service, u64 flags);

/* Constructors of one object each, which is closed with the test. */
struct fid_fabric *fx_fabric(struct kunit *test, struct fi_info *info);
struct fid_domain *fx_domain(struct kunit *test, struct fid_fabric *fabric,
			     struct fi_info *info);
struct fid_eq *fx_eq(struct kunit *test, struct fid_fabric *fabric);
struct fid_cq *fx_cq(struct kunit *test, struct fid_domain *domain,
		     struct fi_cq_attr *attr);
struct fid_ep *fx_ep(struct kunit *test, struct fid_domain *domain,
		     struct fi_info *info);
struct fid_pep *fx_pep(struct kunit *test, struct fid_fabric *fabric,
		       struct fi_info *info);
/* Opens a passive endpoint, binds it to eq and listens on a free port of info->src_addr. */
struct fid_pep *fx_listen(struct kunit *test, struct fid_fabric *fabric,
			  struct fi_info *info, struct fid_eq *eq);

/* Opens a fabric, a domain and both queues over fx_addr. */
struct kofi_fabric_fx *fx_open(struct kunit *test);
/* Opens the same objects as fx_open() with this threading model. */
struct kofi_fabric_fx *fx_open_for(struct kunit *test,
				   enum fi_threading threading);
/* Opens an endpoint of fx->info, bound to both queues but not enabled. */
struct fid_ep *fx_bound_ep(struct kunit *test, struct kofi_fabric_fx *fx);

void fx_bind(struct kunit *test, struct fid_ep *ep, struct fid_eq *eq,
	     struct fid_cq *cq, u64 cq_flags);

/* Opens and connects two endpoints with all that they need; opts may be NULL. */
struct kofi_pair *fx_pair(struct kunit *test, const struct fx_pair_opts *opts);

/*
 * Connects ep to pep and accepts with an endpoint that it opens, binding cq
 * and eq; both sides' FI_CONNECTED are read.
 */
struct fid_ep *fx_connect(struct kunit *test, struct fid_domain *domain,
			  struct fid_ep *ep, struct fid_pep *pep,
			  struct fid_eq *eq, struct fid_cq *cq);

/*
 * Opens two endpoints of fx and connects them as fx_connect() does; returns false if an event
 * reports a failure.
 */
bool fx_try_connect(struct kunit *test, struct kofi_fabric_fx *fx, struct fid_pep *pep,
		    struct fid_ep *ep[2]);

/* Steps of fx_connect(): fi_connect(), the info of FI_CONNREQ (freed with the test), ... */
void fx_start_connect(struct kunit *test, struct fid_ep *ep,
		      struct fid_pep *pep);
struct fi_info *fx_wait_request(struct kunit *test, struct fid_eq *eq);
/* Closes a listener, which rejects its requests: on iWARP, closing a connecting endpoint waits for the answer. */
static inline void fx_refuse(struct kunit *test, struct fid_pep *pep)
{
	fx_close(test, &pep->fid);
}
/* ... and fi_accept() of a bound endpoint and both FI_CONNECTED. */
void fx_finish_accept(struct kunit *test, struct fid_ep *ep,
		      struct fid_eq *eq);

/* Returns the size of the event, or a negative errno for another event, an error or a timeout. */
int fx_wait_event(struct kunit *test, struct fid_eq *eq, u32 want, void *buf,
		  size_t len);
/* Reads an error entry. Returns 0, or a negative errno for an event or a timeout. */
int fx_wait_error(struct kunit *test, struct fid_eq *eq,
		  struct fi_eq_err_entry *entry);
/*
 * Reads exactly n entries and returns n, or a negative errno; entries points at
 * structs of the queue's format. Works on queues with FI_WAIT_NONE too.
 */
#define fx_wait_comp(test, cq, entries, n) \
	fx_wait_entries(test, cq, entries, sizeof(*(entries)), n)
ssize_t fx_wait_entries(struct kunit *test, struct fid_cq *cq, void *entries,
			size_t entry_size, size_t n);
/* Reads an error entry and returns 0; success entries ahead of it make it fail. */
int fx_wait_comp_error(struct kunit *test, struct fid_cq *cq,
		       struct fi_cq_err_entry *entry);

/* Repeats call while it returns -FI_EAGAIN, for FX_WAIT_MS at most. */
#define retry_while_eagain(call) ({					\
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);	\
	ssize_t ret;							\
									\
	while ((ret = (call)) == -FI_EAGAIN && time_before(jiffies, end)) \
		usleep_range(50, 100);					\
	(int)ret;							\
})

#endif /* KOFI_KUNIT_FIXTURE_H */
