// SPDX-License-Identifier: GPL-2.0

//! Receives of shared receive contexts. Guarded by the lock of the context.

use super::super::{
    iov::{
        DstBuf,
        MAX_IOV, //
    },
    matcher::{
        HasMatchSpec,
        RX_TABLES, //
    },
};
use crate::{
    fi::prelude::*,
    util::indexed_fifo::{
        impl_has_links,
        Links, //
    },
};

/// A receive of a shared receive context.
pub(in super::super) struct SrxRecv {
    /// Tag and ignored bits; `None` matches untagged messages. Endpoints have different peers and addresses, so the
    /// receive matches any source.
    pub(in super::super) tag: Option<(u64, u64)>,
    /// Memory.
    pub(in super::super) into: DstBuf,
    /// Descriptors posted with the receive, for another provider.
    pub(in super::super) descriptors: [Descriptor; MAX_IOV],
    /// Context of the consumer.
    pub(in super::super) context: Context,
    /// True if a success is reported although the queue is selective.
    pub(in super::super) reports_success: bool,
    /// Entry of the receive at an owner in another module, or number of its slot in the context, or 0.
    pub(in super::super) peer_entry: usize,
}

impl SrxRecv {
    /// Receive that matches nothing and has no memory.
    pub(in super::super) const EMPTY: Self = Self {
        tag: None,
        into: DstBuf::EMPTY,
        descriptors: [Descriptor::NONE; MAX_IOV],
        context: Context::NULL,
        reports_success: false,
        peer_entry: 0,
    };

    /// Takes the receive and leaves [`Self::EMPTY`].
    #[inline]
    pub(in super::super) fn take(&mut self) -> Self {
        mem::replace(self, Self::EMPTY)
    }
}

/// A receive of a shared receive context, as an entry of the matcher.
pub(in super::super) struct SrxNode {
    /// The receive.
    pub(in super::super) srx_recv: SrxRecv,
    rank: u64,
    links: Links<Self, RX_TABLES>,
}

impl SrxNode {
    /// Node without a receive.
    pub(in super::super) const EMPTY: Self = Self {
        srx_recv: SrxRecv::EMPTY,
        rank: 0,
        links: Links::new(),
    };
}

impl_has_links! {
    impl HasLinks<RX_TABLES> for SrxNode { self.links }
}

impl HasMatchSpec for SrxNode {
    #[inline(always)]
    fn tag(&self) -> Option<(u64, u64)> {
        self.srx_recv.tag
    }

    // Endpoints of a shared context have different peers.
    #[inline(always)]
    fn source(&self) -> Option<&SocketAddr> {
        None
    }

    fn buffer(&self) -> Option<u32> {
        None
    }

    // Receives of a shared context are not cancelled.
    fn context(&self) -> Option<usize> {
        None
    }

    fn rank(&self) -> u64 {
        self.rank
    }

    fn set_rank(&mut self, rank: u64) {
        self.rank = rank;
    }
}
