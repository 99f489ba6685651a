// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints, and a function of each that Rust calls when it is on.
 */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <trace/events/kofi.h>
