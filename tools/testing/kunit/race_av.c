// SPDX-License-Identifier: GPL-2.0
/*
 * Tests AV 25 of CONTRACT: two CPUs insert into, remove from and look up in one
 * address vector, and open and close a named one, at the same time.
 */

#include <linux/in.h>
#include <linux/moduleparam.h>

#include "traffic.h"

static unsigned int av_seconds;
module_param(av_seconds, uint, 0644);
MODULE_PARM_DESC(av_seconds, "how long the race at address vectors goes on, if not for some rounds");

/* Addresses from COMMON on: each thread uses every second one, exclusively. */
#define OWN	64
/* Addresses that both threads insert and remove. */
#define COMMON	300
#define BASE	0x0a010000	/* 10.1.0.0 */

struct thread_state {
	struct fid_domain	*domain;
	struct fid_av		*av;
	int			side;
	fi_addr_t		out[2 * OWN];
};

static struct sockaddr_in peer(u32 number)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(1),
		.sin_addr.s_addr = htonl(BASE + number),
	};
}

/* Returns true if addr is peer number. */
static bool holds(struct fid_av *av, fi_addr_t addr, u32 number)
{
	struct sockaddr_in have, want = peer(number);
	size_t len = sizeof(have);

	return !fi_av_lookup(av, addr, &have, &len) &&
	       !memcmp(&have, &want, sizeof(have));
}

/* Returns true if addr is unused, or one of the addresses that the threads insert. */
static bool is_known(struct fid_av *av, fi_addr_t addr)
{
	struct sockaddr_in have;
	size_t len = sizeof(have);
	u32 number;

	if (fi_av_lookup(av, addr, &have, &len))
		return true;
	number = ntohl(have.sin_addr.s_addr) - BASE;
	return number < COMMON + 2 * OWN && have.sin_port == htons(1);
}

/* Opens a named vector, inserts into it, and closes it. */
static int open_named(struct thread_state *thread_state)
{
	struct fi_av_attr attr = { .name = "race", .type = FI_AV_MAP };
	struct fid_av *av;
	int ret = fi_av_open(thread_state->domain, &attr, &av, NULL);

	if (ret)
		return ret;
	if (fi_av_insertsym(av, "10.1.0.1", OWN, "1", 1, NULL, 0, NULL) !=
	    -FI_EINVAL)
		return -EBADE;
	ret = fi_av_insertsym(av, "10.1.0.1", OWN, "1", 1, thread_state->out, 0, NULL);
	return fi_close(&av->fid) ?: ret == OWN ? 0 : -EBADE;
}

/* Inserts addresses, checks that they stay until removed, and removes them. */
static int race_round(struct thread_state *thread_state, u32 seed)
{
	struct fid_av *av = thread_state->av;
	fi_addr_t *own = thread_state->out, *any = own + OWN;
	int ret;

	for (u32 i = 0; i < OWN; i++) {
		struct sockaddr_in mine = peer(COMMON + 2 * i + thread_state->side);
		struct sockaddr_in ours = peer((seed + 7 * i) % COMMON);

		if (fi_av_insert(av, &mine, 1, own + i, 0, NULL) != 1 ||
		    fi_av_insert(av, &ours, 1, any + i, 0, NULL) != 1)
			return -ENOMEM;
		if (!is_known(av, (seed + i) % (2 * COMMON)))
			return -EBADSLT;
	}
	for (u32 i = 0; i < OWN; i++)
		if (!holds(av, own[i], COMMON + 2 * i + thread_state->side) ||
		    !holds(av, any[i], (seed + 7 * i) % COMMON))
			return -EBADF;
	ret = fi_av_remove(av, own, 2 * OWN, 0);
	return ret ?: open_named(thread_state);
}

static int run_race(struct tr_thread *thread)
{
	struct thread_state *thread_state = thread->arg;
	unsigned long end = jiffies + secs_to_jiffies(av_seconds);
	u32 n;

	for (n = 0; !thread->result; n++) {
		if (av_seconds ? time_after(jiffies, end) : n == 10 * tr_rounds)
			break;
		thread->result = race_round(thread_state, n * 31 + thread_state->side);
		cond_resched();
	}
	pr_info("kofi_kunit: %u rounds at one vector\n", n);
	return 0;
}

static void av_25_two_cpus_use_one_table(struct kunit *test)
{
	struct fid_domain *domain = fx_open(test)->domain;
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	struct tr_thread *thread[2];
	size_t len = 0;
	struct fid_av *av;

	KUNIT_ASSERT_EQ(test, 0, fi_av_open(domain, &attr, &av, NULL));
	fx_defer_close(test, &av->fid);
	for (int i = 0; i < 2; i++) {
		struct thread_state *thread_state = (void *)tr_buffer(test, sizeof(*thread_state));

		*thread_state = (struct thread_state){ .domain = domain, .av = av, .side = i };
		thread[i] = tr_start(test, i % num_online_cpus(), run_race,
				     thread_state);
	}
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join_within(test, thread[i],
						       FX_WAIT_MS +
						       1000 * (tr_rounds +
							       av_seconds)));
		KUNIT_EXPECT_EQ(test, 0, thread[i]->result);
	}
	for (fi_addr_t addr = 0; addr < COMMON + 2 * OWN; addr++)
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_av_lookup(av, addr, NULL,
							       &len));
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(av_25_two_cpus_use_one_table),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_race_av",
	.test_cases = cases,
};

kunit_test_suite(suite);
