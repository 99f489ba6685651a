/* SPDX-License-Identifier: GPL-2.0 */
/* Input of bindgen for kofi_perf: its UAPI and its raw-verbs transport. */

#include <uapi/linux/kofi_perf.h>

#include "raw_verbs.h"
