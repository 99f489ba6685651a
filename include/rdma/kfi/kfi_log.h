/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Log macros of kfabric. A module names itself with MODULE_NAME, defined before
 * this header is included.
 */

#ifndef KFI_LOG_H
#define KFI_LOG_H

#include <linux/printk.h>

#ifndef MODULE_NAME
#define MODULE_NAME	"kfi"
#endif

/* Prints a line with the function and the line number; @print is one of pr_err() and the like. */
#define KFI_LOG_AT(print, fmt, ...) \
	print(MODULE_NAME " %s:%d: " fmt "\n", __func__, __LINE__, ##__VA_ARGS__)

#define LOG_DEBUG(...)	KFI_LOG_AT(pr_debug, __VA_ARGS__)
#define LOG_DEFAULT(fmt, ...)	pr_warn(MODULE_NAME ": " fmt "\n", ##__VA_ARGS__)
#define LOG_INFO(fmt, ...)	pr_info(MODULE_NAME ": " fmt "\n", ##__VA_ARGS__)
#define LOG_NOTICE(fmt, ...)	pr_notice(MODULE_NAME ": " fmt "\n", ##__VA_ARGS__)
#define LOG_WARN(...)	KFI_LOG_AT(pr_warn, __VA_ARGS__)
#define LOG_ERR(...)	KFI_LOG_AT(pr_err, __VA_ARGS__)
#define LOG_ERR_RL(...)	KFI_LOG_AT(pr_err_ratelimited, __VA_ARGS__)
#define LOG_CRIT(...)	KFI_LOG_AT(pr_crit, __VA_ARGS__)
#define LOG_ALERT(...)	KFI_LOG_AT(pr_alert, __VA_ARGS__)
#define LOG_EMERG(...)	KFI_LOG_AT(pr_emerg, __VA_ARGS__)

#endif /* KFI_LOG_H */
