// SPDX-License-Identifier: GPL-2.0

//! Where what stands in a packet, and what numbers mean there.

use super::MOST_RANGES;

/// Bytes of the description of a range.
pub(super) const RANGE: usize = 24;

/// Bytes of what names ranges: of their count too.
pub(super) const RANGES: usize = MOST_RANGES * RANGE + 8;

/// The same of an atomic operation, which has its count elsewhere.
pub(super) const TARGETS: usize = MOST_RANGES * RANGE;

/// Bytes before the result of an atomic operation.
pub(super) const OUTCOME: usize = 8;

pub(super) const CTRL_VERSION: u8 = 4;
pub(super) const OP_VERSION: u8 = 2;

/// The kinds of packets, at [`at::KIND`].
pub(super) mod kind {
    pub(in super::super) const EAGER: u8 = 0;
    pub(in super::super) const SEGMENT: u8 = 1;
    pub(in super::super) const OFFER: u8 = 2;
    pub(in super::super) const TAKEN: u8 = 3;
    pub(in super::super) const ATOMIC: u8 = 4;
    pub(in super::super) const ANSWER: u8 = 5;
    pub(in super::super) const CREDIT: u8 = 6;
    pub(in super::super) const ROOM: u8 = 7;
    pub(in super::super) const WRITTEN: u8 = 8;
    /// Not libfabric's: it counts from 0.
    pub(in super::super) const FAREWELL: u8 = 128;
}

/// What is asked for, at [`at::OP`].
pub(super) mod op {
    pub(in super::super) const MSG: u8 = 0;
    pub(in super::super) const TAGGED: u8 = 1;
    pub(in super::super) const ATOMIC: u8 = 6;
    pub(in super::super) const FETCH: u8 = 7;
    pub(in super::super) const COMPARE: u8 = 8;
}

/// Where the fields of the header are.
pub(super) mod at {
    pub(in super::super) const CTRL_VERSION: usize = 0;
    pub(in super::super) const KIND: usize = 1;
    pub(in super::super) const SEGMENT_LEN: usize = 2;
    pub(in super::super) const SEGMENT: usize = 4;
    pub(in super::super) const TO: usize = 8;
    pub(in super::super) const ID: usize = 16;
    pub(in super::super) const EXTRA: usize = 24;
    pub(in super::super) const OP_VERSION: usize = 32;
    /// libfabric leaves there what was there before.
    pub(in super::super) const CONTEXT: usize = 33;
    pub(in super::super) const OP: usize = 34;
    pub(in super::super) const FLAGS: usize = 36;
    pub(in super::super) const LEN: usize = 40;
    pub(in super::super) const DATA: usize = 48;
    pub(in super::super) const TAG: usize = 56;
    pub(in super::super) const DATATYPE: usize = 56;
    pub(in super::super) const ATOMIC_OP: usize = 57;
    pub(in super::super) const TARGETS: usize = 58;
}
