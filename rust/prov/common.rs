// SPDX-License-Identifier: GPL-2.0

//! What several providers have: those that complete operations by themselves, and those whose endpoints
//! are connected.

pub(super) mod bounce;
pub(super) mod cq;
pub(super) mod mr;
pub(super) mod query;
pub(super) mod state;
pub(super) mod tally;
