// SPDX-License-Identifier: GPL-2.0
/*
 * Rate limit of log messages: ten in five seconds, and a count of those left out.
 * Messages that a peer causes have a limit for its address, so one peer cannot
 * suppress messages about another. Addresses that hash to one slot share a limit;
 * the hash is keyed, so a peer cannot choose its slot.
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
