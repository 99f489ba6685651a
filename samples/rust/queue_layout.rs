// SPDX-License-Identifier: GPL-2.0

//! Layout of a task queue in the server's region, and the tasks: two counters, then the results.

// A sample uses only some of the items.
#![allow(dead_code)]

/// Length of a counter and of a result.
pub(crate) const WORD: usize = 8;
/// Offset of the number of tasks that clients have taken.
pub(crate) const TAKEN: usize = 0;
/// Offset of the number of tasks whose results are written.
pub(crate) const DONE: usize = WORD;

/// Returns the offset of a task's result.
pub(crate) fn result_offset(task: usize) -> usize {
    task.saturating_add(2).saturating_mul(WORD)
}

/// Computes the result of a task: a hash of its number.
pub(crate) fn compute_result(task: u64) -> u64 {
    let mut mixed = task.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
