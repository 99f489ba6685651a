/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What libfabric's providers sort their messages by, for fi_tostr(). In the
 * kernel a message has a level of printk()'s.
 */

#ifndef FI_LOG_H
#define FI_LOG_H

/**
 * enum fi_log_subsys - what a message is about
 * @FI_LOG_CORE: the core
 * @FI_LOG_FABRIC: fabrics
 * @FI_LOG_DOMAIN: domains
 * @FI_LOG_EP_CTRL: endpoints and their connections
 * @FI_LOG_EP_DATA: transfers
 * @FI_LOG_AV: address vectors
 * @FI_LOG_CQ: completion queues
 * @FI_LOG_EQ: event queues
 * @FI_LOG_MR: memory regions
 * @FI_LOG_CNTR: counters
 * @FI_LOG_SUBSYS_MAX: how many there are
 */
enum fi_log_subsys {
	FI_LOG_CORE,
	FI_LOG_FABRIC,
	FI_LOG_DOMAIN,
	FI_LOG_EP_CTRL,
	FI_LOG_EP_DATA,
	FI_LOG_AV,
	FI_LOG_CQ,
	FI_LOG_EQ,
	FI_LOG_MR,
	FI_LOG_CNTR,
	FI_LOG_SUBSYS_MAX
};

/**
 * enum fi_log_level - how much a message matters
 * @FI_LOG_WARN: something is wrong
 * @FI_LOG_TRACE: where something has got to
 * @FI_LOG_INFO: what was done
 * @FI_LOG_DEBUG: how
 * @FI_LOG_MAX: how many there are
 */
enum fi_log_level {
	FI_LOG_WARN,
	FI_LOG_TRACE,
	FI_LOG_INFO,
	FI_LOG_DEBUG,
	FI_LOG_MAX
};

#endif /* FI_LOG_H */
