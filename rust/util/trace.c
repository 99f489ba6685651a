// SPDX-License-Identifier: GPL-2.0
/*
 * Defines the tracepoints, and the functions that Rust calls when they are on.
 */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <trace/events/kofi.h>
