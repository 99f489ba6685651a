// SPDX-License-Identifier: GPL-2.0
/*
 * The same as kofi_bench.c, for an address of this host alone: what that costs
 * is compared with the former over a device, and with kofi_ring.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"loop"
#define BENCH_PORT	7606

#include "msg.h"

MODULE_DESCRIPTION("Ping-pong and stream within a host, to be compared with kofi_ring");
