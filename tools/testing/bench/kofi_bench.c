// SPDX-License-Identifier: GPL-2.0
/*
 * The same as kofi_raw.c over kOFI: same depths, same posts, same polls.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"kofi"
#define BENCH_PORT	7602

#include "msg.h"

MODULE_DESCRIPTION("Ping-pong and stream over kOFI, to be compared with kofi_raw");
