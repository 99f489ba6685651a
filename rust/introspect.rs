// SPDX-License-Identifier: GPL-2.0

//! Introspection: the table of open objects, its readers in the log, and the debugfs file that lists it.

pub(crate) mod debugfs;
pub(crate) mod object_table;
pub(crate) mod users;
