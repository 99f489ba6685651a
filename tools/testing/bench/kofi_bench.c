// SPDX-License-Identifier: GPL-2.0
/*
 * The measured loops over kOFI, with the depths, posts and polls of kofi_raw.c.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"kofi"
#define BENCH_PORT	7602

#include "msg.h"

MODULE_DESCRIPTION("Ping-pong and stream over kOFI, to be compared with kofi_raw");
