// SPDX-License-Identifier: GPL-2.0

//! The parameters of a transfer, as the traits of providers take them.

use crate::{
    abi::{
        fi_rma_iov,
        flags::FI_COMPLETION,
        FI_ADDR_UNSPEC, //
    },
    fi::prelude::*, //
};

/// The kind of a transmit.
#[derive(Clone, Copy)]
pub enum Operation<'a> {
    /// A message that consumes a receive of the peer.
    Send,
    /// An access to the peer's memory.
    Rma(Rma, &'a [fi_rma_iov]),
}

/// The direction of a remote memory access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rma {
    /// Copies local memory to the peer.
    Write,
    /// Copies the peer's memory to the local memory.
    Read,
}

/// The tag of a message, or the tags that a receive matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// Tag value.
    pub tag: u64,
    /// Tag bits that a receive does not compare.
    pub ignore: u64,
}

impl Tag {
    /// Match criteria of a receive that accepts every tag.
    pub const ANY: Self = Self {
        tag: 0,
        ignore: u64::MAX,
    };
}

/// The local parameters of a transfer.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// Local memory.
    pub memory: Memory<'a>,
    /// Descriptors, either one per memory segment or none.
    pub descriptors: &'a [Descriptor],
    /// Operation context, returned with the completion.
    pub context: Context,
    /// Operation flags: FI_COMPLETION, FI_MORE, FI_FENCE, ...
    pub flags: u64,
    /// Writes no completion entry for a success, as with fi_inject(), unless the flags have FI_COMPLETION. FI_INJECT
    /// alone does not suppress the entry.
    pub errors_only: bool,
    /// Remote CQ data, with FI_REMOTE_CQ_DATA in the flags.
    pub data: u64,
    /// Destination of a transmit, or source filter of a directed receive; ignored with [`Peers::One`](super::Peers::One).
    pub peer: fi_addr_t,
    /// The tag of a tagged message, or the match criteria of a tagged receive.
    pub tag: Option<Tag>,
}

impl<'a> Message<'a> {
    /// Returns the parameters of an untagged transfer with a connected peer, whose completion writes an entry.
    #[inline]
    pub(crate) fn with_segment(
        segment: &'a Segment,
        descriptors: &'a [Descriptor],
        context: Context,
    ) -> Self {
        Self {
            memory: Memory::Segments(slice::from_ref(segment)),
            descriptors,
            context,
            flags: FI_COMPLETION,
            errors_only: false,
            data: 0,
            peer: FI_ADDR_UNSPEC,
            tag: None,
        }
    }
}

/// Peer of a transfer on the fast path.
#[derive(Clone, Copy)]
pub struct Destination {
    /// Address of the peer; ignored with [`Peers::One`](super::Peers::One).
    pub peer: fi_addr_t,
    /// Tag of a tagged message.
    pub tag: Option<u64>,
}

/// The local parameters of a fast-path transfer: one memory segment and the endpoint's default flags.
#[derive(Clone, Copy)]
pub struct SingleSegment<'a> {
    /// Local memory.
    pub segment: &'a Segment,
    /// Descriptor of the segment.
    pub descriptor: Descriptor,
    /// Operation context, returned with the completion.
    pub context: Context,
    /// Default operation flags of the endpoint.
    pub flags: u64,
}
