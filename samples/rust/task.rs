// SPDX-License-Identifier: GPL-2.0

//! What a queue of work and its clients agree on.

// Each sample has its part.
#![allow(dead_code)]

/// Bytes of a counter, and of a result.
pub(crate) const WORD: usize = 8;
/// Where the number of tasks is that have been taken.
pub(crate) const TAKEN: usize = 0;
/// Where the number of tasks is that are done.
pub(crate) const DONE: usize = WORD;

/// Where the result of a task is.
pub(crate) fn result_at(task: usize) -> usize {
    task.saturating_add(2).saturating_mul(WORD)
}

/// The work: mixes the number of a task.
pub(crate) fn result_of(task: u64) -> u64 {
    let mut mixed = task.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
