// SPDX-License-Identifier: GPL-2.0
/*
 * The measured loops over kOFI's provider for endpoints within a host. Results are
 * compared with those of kofi_bench over a device, and with those of kofi_ring.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"loop"
#define BENCH_PORT	7606
#define BENCH_NO_REGISTER

#include "msg.h"

MODULE_DESCRIPTION("Ping-pong and stream within a host, to be compared with kofi_ring");
