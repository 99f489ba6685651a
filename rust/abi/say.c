// SPDX-License-Identifier: GPL-2.0
/*
 * How much is logged: ten messages in five seconds, and how many were not. What a
 * peer is the reason of counts for its address: no peer hides what another one does.
 * Addresses that share a place among the limits share a limit; which they are nobody
 * can foresee.
 */
#include <linux/jhash.h>
#include <linux/once.h>
#include <linux/random.h>
#include <linux/ratelimit.h>

#define PLACES	64

bool kofi_may_say(void);
bool kofi_may_say_of(const u8 *address, size_t len);

bool kofi_may_say(void)
{
	static DEFINE_RATELIMIT_STATE(limit, DEFAULT_RATELIMIT_INTERVAL,
				      DEFAULT_RATELIMIT_BURST);

	return ___ratelimit(&limit, "kofi");
}

bool kofi_may_say_of(const u8 *address, size_t len)
{
	static struct ratelimit_state limits[PLACES] = {
		[0 ... PLACES - 1] = RATELIMIT_STATE_INIT(limits, DEFAULT_RATELIMIT_INTERVAL,
							  DEFAULT_RATELIMIT_BURST),
	};
	static u32 seed __read_mostly;

	get_random_once(&seed, sizeof(seed));
	return ___ratelimit(&limits[jhash(address, len, seed) % PLACES], "kofi: a peer");
}
