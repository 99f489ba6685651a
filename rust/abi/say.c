// SPDX-License-Identifier: GPL-2.0
/*
 * How much is said: ten messages in five seconds, and how many were not.
 */
#include <linux/ratelimit.h>

bool kofi_may_say(void);

bool kofi_may_say(void)
{
	static DEFINE_RATELIMIT_STATE(limit, DEFAULT_RATELIMIT_INTERVAL,
				      DEFAULT_RATELIMIT_BURST);

	return ___ratelimit(&limit, "kofi");
}
