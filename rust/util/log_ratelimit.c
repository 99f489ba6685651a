// SPDX-License-Identifier: GPL-2.0
/*
 * Rate limits of log messages: ten messages in five seconds, and then a count of
 * the messages that were left out. Messages that a peer causes are limited by the
 * hash of its address, so that a peer rarely suppresses messages about another.
 * Addresses that hash to one slot share a limit; the hash is keyed, so a peer cannot
 * choose its slot.
 */
#include <linux/jhash.h>
#include <linux/once.h>
#include <linux/random.h>
#include <linux/ratelimit.h>

#define SLOTS	64

bool kofi_may_log(void);
bool kofi_may_log_peer(const u8 *address, size_t len);

bool kofi_may_log(void)
{
	static DEFINE_RATELIMIT_STATE(limit, DEFAULT_RATELIMIT_INTERVAL,
				      DEFAULT_RATELIMIT_BURST);

	return ___ratelimit(&limit, "kofi");
}

bool kofi_may_log_peer(const u8 *address, size_t len)
{
	static struct ratelimit_state limits[SLOTS] = {
		[0 ... SLOTS - 1] = RATELIMIT_STATE_INIT(limits, DEFAULT_RATELIMIT_INTERVAL,
							  DEFAULT_RATELIMIT_BURST),
	};
	static u32 seed __read_mostly;

	get_random_once(&seed, sizeof(seed));
	return ___ratelimit(&limits[jhash(address, len, seed) % SLOTS], "kofi: a peer");
}
