// SPDX-License-Identifier: GPL-2.0
/*
 * Tests CQ 18 of CONTRACT: blocking calls fail in atomic context.
 */

#include <linux/irqflags.h>
#include <linux/preempt.h>

#include "traffic.h"

#define LEN 64
#define SHORT_MS 200

/*
 * Runs call with interrupts off, where the kernel warns about a sleep. kOFI logs
 * one warning for all of these calls, which plan.toml allows.
 */
#define ATOMICALLY(call) ({				\
	unsigned long _flags;				\
	ssize_t _ret;					\
							\
	local_irq_save(_flags);				\
	_ret = (call);					\
	local_irq_restore(_flags);			\
	_ret;						\
})

#define EXPECT_REFUSED(test, call) do {					\
	ssize_t _answer = ATOMICALLY(call);				\
									\
	KUNIT_EXPECT_EQ_MSG(test, -FI_EOPBADSTATE, _answer, #call);	\
} while (0)

static void cq_18_blocking_calls_in_atomic_context_are_refused(struct kunit *test)
{
	const struct fx_pair_opts opts = { .count = true };
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fi_cq_tagged_entry entry;
	struct fx_cm_event event;
	ssize_t ret;
	u32 what;

	EXPECT_REFUSED(test, fi_cq_sread(pair->cq[0], &entry, 1, NULL, -1));
	EXPECT_REFUSED(test, fi_cq_sreadfrom(pair->cq[0], &entry, 1, NULL, NULL,
					     SHORT_MS));
	EXPECT_REFUSED(test, fi_eq_sread(pair->eq, &what, &event, sizeof(event),
					 -1, 0));
	EXPECT_REFUSED(test, fi_cntr_wait(pair->cntr[0][FX_SENDS], 1, -1));
	EXPECT_REFUSED(test, fi_shutdown(pair->ep[0], 0));
	EXPECT_REFUSED(test, fi_connect(pair->ep[0], NULL, NULL, 0));
	EXPECT_REFUSED(test, fi_accept(pair->ep[1], NULL, 0));
	EXPECT_REFUSED(test, fi_listen(pair->pep));

	if (!IS_ENABLED(CONFIG_PREEMPT_COUNT))
		return;
	preempt_disable();
	ret = fi_cq_sread(pair->cq[0], &entry, 1, NULL, SHORT_MS);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, ret);
}

/* Closes an object that was opened although it should not, so that only this test fails. */
static void close_if_opened(struct fid *fid)
{
	if (fid)
		fi_close(fid);
}

static void cq_18_open_in_atomic_context_is_refused(struct kunit *test)
{
	struct fi_cq_attr cq_attr = {};
	struct fi_eq_attr eq_attr = {};
	struct fi_cntr_attr cntr_attr = {};
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_fabric *fabric = NULL;
	struct fid_cntr *cntr = NULL;
	struct fid_domain *domain = NULL;
	struct fi_info *info = NULL;
	struct fid_pep *pep = NULL;
	struct fid_ep *ep = NULL;
	struct fid_cq *cq = NULL;
	struct fid_eq *eq = NULL;
	struct fid_mr *mr = NULL;

	EXPECT_REFUSED(test, fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL,
					&info));
	EXPECT_REFUSED(test, fi_fabric(fx->info->fabric_attr, &fabric, NULL));
	EXPECT_REFUSED(test, fi_domain(fx->fabric, fx->info, &domain, NULL));
	EXPECT_REFUSED(test, fi_eq_open(fx->fabric, &eq_attr, &eq, NULL));
	EXPECT_REFUSED(test, fi_cq_open(fx->domain, &cq_attr, &cq, NULL));
	EXPECT_REFUSED(test, fi_cntr_open(fx->domain, &cntr_attr, &cntr, NULL));
	EXPECT_REFUSED(test, fi_passive_ep(fx->fabric, fx->info, &pep, NULL));
	EXPECT_REFUSED(test, fi_endpoint(fx->domain, fx->info, &ep, NULL));
	EXPECT_REFUSED(test, fi_mr_reg(fx->domain, buf, LEN, 0, 0, 0, 0, &mr,
				       NULL));
	close_if_opened(&mr->fid);
	close_if_opened(&ep->fid);
	close_if_opened(&pep->fid);
	close_if_opened(&cntr->fid);
	close_if_opened(&cq->fid);
	close_if_opened(&eq->fid);
	close_if_opened(&domain->fid);
	close_if_opened(&fabric->fid);
	fi_freeinfo(info);
}

static void expect_close_refused(struct kunit *test, struct fid *fid)
{
	size_t class = fid->fclass;
	ssize_t ret = ATOMICALLY(fi_close(fid));

	KUNIT_EXPECT_EQ_MSG(test, -FI_EOPBADSTATE, ret, "class %zu", class);
	if (!ret)
		fx_cancel_close(test, fid);
}

static void cq_18_close_in_atomic_context_is_refused(struct kunit *test)
{
	const struct fx_pair_opts opts = { .count = true };
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->domain, buf, LEN, 0, 0, 0, 0,
					   &mr, NULL));
	fx_defer_close(test, &mr->fid);
	expect_close_refused(test, &pair->ep[0]->fid);
	expect_close_refused(test, &pair->pep->fid);
	expect_close_refused(test, &pair->cntr[0][FX_SENDS]->fid);
	expect_close_refused(test, &mr->fid);
	expect_close_refused(test, &fx->cq->fid);
	expect_close_refused(test, &fx->eq->fid);
	expect_close_refused(test, &fx->domain->fid);
	expect_close_refused(test, &fx->fabric->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cq_18_blocking_calls_in_atomic_context_are_refused),
	KUNIT_CASE(cq_18_open_in_atomic_context_is_refused),
	KUNIT_CASE(cq_18_close_in_atomic_context_is_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cq_context",
	.test_cases = cases,
};

kunit_test_suite(suite);
