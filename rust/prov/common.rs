// SPDX-License-Identifier: GPL-2.0

//! What several providers have: those that complete operations by themselves, and those whose endpoints
//! are connected.

pub(super) mod conn_state;
pub(super) mod hints;
pub(super) mod iov;
pub(super) mod mr_table;
pub(super) mod stats;
pub(super) mod sw_cq;
