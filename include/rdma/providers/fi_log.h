/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Log levels and subsystems of libfabric's providers, for fi_tostr(). Messages of
 * kOFI have the log levels of printk().
 */

#ifndef FI_LOG_H
#define FI_LOG_H

/**
 * enum fi_log_subsys - subsystem of a message
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
 * @FI_LOG_SUBSYS_MAX: number of subsystems
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
 * enum fi_log_level - level of a message
 * @FI_LOG_WARN: warnings
 * @FI_LOG_TRACE: traces
 * @FI_LOG_INFO: informational messages
 * @FI_LOG_DEBUG: debug messages
 * @FI_LOG_MAX: number of levels
 */
enum fi_log_level {
	FI_LOG_WARN,
	FI_LOG_TRACE,
	FI_LOG_INFO,
	FI_LOG_DEBUG,
	FI_LOG_MAX
};

#endif /* FI_LOG_H */
