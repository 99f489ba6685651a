// SPDX-License-Identifier: GPL-2.0
/*
 * Exports the symbols of the Rust crate to the modules that use it: the build
 * system does not know of Rust crates in other modules yet.
 */

#include <linux/export.h>

/* The type does not matter: an export is an address and a name. */
#define EXPORT_SYMBOL_RUST_GPL(sym) extern int sym; EXPORT_SYMBOL_GPL(sym)

#include "exports_generated.h"
