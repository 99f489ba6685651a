// SPDX-License-Identifier: GPL-2.0
/*
 * Wrapper of synchronize_rcu_expedited(), which is an inline function in a
 * kernel with CONFIG_TINY_RCU.
 */
#include <linux/rcupdate.h>

void kofi_synchronize_rcu_expedited(void);

void kofi_synchronize_rcu_expedited(void)
{
	synchronize_rcu_expedited();
}
