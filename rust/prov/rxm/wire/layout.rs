// SPDX-License-Identifier: GPL-2.0

//! Layout of packets: offsets and constants, and accessors of fields in a block of bytes.
//!
//! Fields are in the byte order of the sender. Peers of another byte order are rejected when they connect.

use super::MAX_RANGES;

/// Length of a range in bytes.
pub(super) const RANGE: usize = 24;

/// Length of the ranges of a rendezvous packet with their count in bytes.
pub(in super::super) const RANGES: usize = MAX_RANGES * RANGE + 8;

/// Length of the ranges of an atomic request in bytes; the count is in the header.
pub(super) const ATOMIC_RANGES: usize = MAX_RANGES * RANGE;

/// Length of the header of an atomic response in bytes.
pub(super) const ATOMIC_RESP_HDR: usize = 8;

pub(super) const CTRL_VERSION: u8 = 4;

pub(super) const OP_VERSION: u8 = 2;

/// Packet types, at [`at::KIND`].
pub(super) mod kind {
    pub(in super::super) const EAGER: u8 = 0;
    pub(in super::super) const SEGMENT: u8 = 1;
    pub(in super::super) const RNDV_REQ: u8 = 2;
    pub(in super::super) const RNDV_RD_DONE: u8 = 3;
    pub(in super::super) const ATOMIC: u8 = 4;
    pub(in super::super) const ATOMIC_RESP: u8 = 5;
    pub(in super::super) const CREDIT: u8 = 6;
    pub(in super::super) const RNDV_WR_DATA: u8 = 7;
    pub(in super::super) const RNDV_WR_DONE: u8 = 8;
    /// Extension of kOFI; libfabric's types count from 0.
    pub(in super::super) const SHUTDOWN: u8 = 128;
    /// Extension of kOFI.
    pub(in super::super) const ACK: u8 = 129;
    /// Extension of kOFI.
    pub(in super::super) const TAGGED_ACCESS: u8 = 130;
    /// Extension of kOFI.
    pub(in super::super) const ACCESS_REFUSED: u8 = 131;
}

/// Operations, at [`at::OP`].
pub(super) mod op {
    pub(in super::super) const MSG: u8 = 0;
    pub(in super::super) const TAGGED: u8 = 1;
    pub(in super::super) const ATOMIC: u8 = 6;
    pub(in super::super) const FETCH: u8 = 7;
    pub(in super::super) const COMPARE: u8 = 8;
}

/// Offsets of the header's fields.
pub(super) mod at {
    pub(in super::super) const CTRL_VERSION: usize = 0;
    pub(in super::super) const KIND: usize = 1;
    pub(in super::super) const SEGMENT_LEN: usize = 2;
    pub(in super::super) const SEGMENT: usize = 4;
    pub(in super::super) const CONN_ID: usize = 8;
    pub(in super::super) const ID: usize = 16;
    pub(in super::super) const CTRL_DATA: usize = 24;
    pub(in super::super) const OP_VERSION: usize = 32;
    /// Not initialised by libfabric.
    pub(in super::super) const RX_INDEX: usize = 33;
    pub(in super::super) const OP: usize = 34;
    /// Not used by libfabric. The acknowledgement slot, if the flags have FI_DELIVERY_COMPLETE.
    pub(in super::super) const OP_DATA: usize = 35;
    pub(in super::super) const FLAGS: usize = 36;
    pub(in super::super) const LEN: usize = 40;
    pub(in super::super) const DATA: usize = 48;
    pub(in super::super) const TAG: usize = 56;
    pub(in super::super) const DATATYPE: usize = 56;
    pub(in super::super) const ATOMIC_OP: usize = 57;
    pub(in super::super) const IOC_COUNT: usize = 58;
}

/// A block of bytes with fields. Offsets are constants; an offset beyond the block does not compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fields<const N: usize>([u8; N]);

macro_rules! numbers {
    ($($number:ident: $get:ident $set:ident;)*) => {
        $(
            /// Returns the number at `AT`.
            #[inline(always)]
            pub(super) fn $get<const AT: usize>(&self) -> $number {
                $number::from_ne_bytes(self.bytes::<AT, { size_of::<$number>() }>())
            }

            /// Sets the number at `AT`.
            #[inline(always)]
            pub(super) fn $set<const AT: usize>(&mut self, number: $number) {
                self.set_bytes::<AT, { size_of::<$number>() }>(number.to_ne_bytes());
            }
        )*
    };
}

impl<const N: usize> Fields<N> {
    /// Creates a block of zeroes.
    pub(super) const fn new() -> Self {
        Self([0; N])
    }

    /// Copies the first bytes of `bytes`; `None` if there are too few.
    #[inline(always)]
    pub(super) fn first_of(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self)
    }

    /// Returns the block as bytes.
    #[inline(always)]
    pub(super) fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    numbers! {
        u16: u16 set_u16;
        u32: u32 set_u32;
        u64: u64 set_u64;
    }

    /// Returns the byte at `AT`.
    #[inline(always)]
    pub(super) fn u8<const AT: usize>(&self) -> u8 {
        const { assert!(AT < N) }
        self.0[AT]
    }

    /// Sets the byte at `AT`.
    #[inline(always)]
    pub(super) fn set_u8<const AT: usize>(&mut self, byte: u8) {
        const { assert!(AT < N) }
        self.0[AT] = byte;
    }

    /// Returns the `LEN` bytes at `AT`.
    #[inline(always)]
    pub(super) fn bytes<const AT: usize, const LEN: usize>(&self) -> [u8; LEN] {
        const { assert!(AT + LEN <= N) }
        core::array::from_fn(|at| self.0[AT + at])
    }

    /// Sets the bytes at `AT`.
    #[inline(always)]
    pub(super) fn set_bytes<const AT: usize, const LEN: usize>(&mut self, bytes: [u8; LEN]) {
        const { assert!(AT + LEN <= N) }
        // One copy; a loop would be compiled to single bytes.
        self.0[AT..AT + LEN].copy_from_slice(&bytes);
    }
}
