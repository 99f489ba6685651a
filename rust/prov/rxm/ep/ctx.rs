// SPDX-License-Identifier: GPL-2.0

//! Receive contexts, and the vector of an endpoint's contexts. Guarded by `EpCore::inner`.
//!
//! An ordinary endpoint has one context of each kind, which the vector stores inline: it is found without another
//! memory access.

use super::super::{
    super::common::mr_table::EpRights,
    info,
    iov::{
        IovBlock,
        PostedDst,
        MAX_IOV, //
    },
    matcher::{
        Matcher,
        RxBuckets, //
    },
    multi_recv::{
        deliver::INTERNAL_ENTRIES,
        MultiRecvBufs, //
    },
    rx_entry::Receive,
    srx::ep::SrxAttachment,
    unexpected::UnexpMsg, //
};
use crate::{
    abi::flags::FI_MULTI_RECV,
    fi::prelude::*,
    rdma::dma, //
};
use core::iter;

/// Sizes of an endpoint's receive contexts.
#[derive(Clone, Copy)]
pub(in super::super) struct RxSize {
    /// Number of receives that can be posted to each context.
    pub(in super::super) receives: usize,
    /// Maximum number of segments of a receive.
    pub(in super::super) segments: usize,
    /// True if multi-receive buffers can be posted.
    has_multi_recv: bool,
    /// True if receives come from a shared receive context.
    shares_receives: bool,
}

impl RxSize {
    /// Returns the sizes that an info asks for.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than the limit.
    pub(in super::super) fn of(info: &Info) -> Result<Self> {
        let shares_receives = info::uses_shared_rx(info);
        let receives = match info.rx().map_or(0, |rx| rx.size) {
            _ if shares_receives => 0,
            0 => info::DEFAULT_RECVS,
            receives if receives > info::MAX_RECVS => return Err(Errno::EINVAL),
            receives => receives,
        };
        let segments = info::rx_iov_limit(info.rx().map_or(0, |rx| rx.iov_limit))?;
        Ok(Self {
            receives,
            segments: segments.max(MAX_IOV),
            has_multi_recv: info.caps() & FI_MULTI_RECV != 0,
            shares_receives,
        })
    }

    /// Returns the number of receive entries of a context, internal ones included.
    pub(in super::super) fn max_entries(self) -> usize {
        self.receives + self.internal_entries()
    }

    fn internal_entries(self) -> usize {
        match self.has_multi_recv || self.shares_receives {
            true => INTERNAL_ENTRIES,
            false => 0,
        }
    }
}

/// Preallocated receive entries of a context.
pub(in super::super) struct RxEntries {
    receives: BoxList<Receive>,
    internal: BoxList<Receive>,
    buffers: MultiRecvBufs,
    buckets: RxBuckets<Receive>,
    iov_block: IovBlock,
}

impl RxEntries {
    /// Allocates the entries of the context `index`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in super::super) fn new(index: u8, size: RxSize) -> Result<Self> {
        let first = usize::from(index) * size.max_entries();
        let make = |at: usize, is_internal| {
            let number = (first + at) as u32;
            ListBox::new(Receive::idle(number, index, is_internal))
        };
        let mut receives = BoxList::new();
        for at in 0..size.receives {
            receives.push(make(at, false)?);
        }
        let mut internal = BoxList::new();
        for at in size.receives..size.max_entries() {
            internal.push(make(at, true)?);
        }
        let buffers = match size.has_multi_recv {
            true => size.receives,
            false => 0,
        };
        Ok(Self {
            receives,
            internal,
            buffers: MultiRecvBufs::new(first as u32, buffers, dma::cache_alignment())?,
            buckets: RxBuckets::new(size.receives)?,
            iov_block: IovBlock::new(first as u32, size.receives, size.segments)?,
        })
    }
}

/// State of a receive context.
pub(in super::super) struct RxCtx {
    pub(in super::super) matcher: KBox<Matcher<Receive, UnexpMsg>>,
    /// Multi-receive buffers.
    pub(in super::super) buffers: MultiRecvBufs,
    /// Messages that have a slot of a multi-receive buffer or a shared receive, and wait for a completion queue
    /// entry.
    pub(in super::super) assigned: BoxList<UnexpMsg>,
    /// Free receive entries.
    pub(in super::super) receives: BoxList<Receive>,
    /// Free internal entries, for messages that have a slot or a shared receive.
    pub(in super::super) internal: BoxList<Receive>,
    /// Attachment to a shared receive context, which replaces the own receives.
    pub(in super::super) attachment: Option<SrxAttachment>,
    /// Slots of the receives.
    iov_block: IovBlock,
    /// Rights of peers on the memory of its tagged receives.
    pub(in super::super) rights: EpRights,
    /// True if the context has been given entries.
    has_entries: bool,
}

impl RxCtx {
    /// Creates a context without entries: messages are queued as unexpected. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in super::super) fn new() -> Result<Self> {
        Ok(Self {
            matcher: Matcher::new(false)?,
            buffers: MultiRecvBufs::none(),
            assigned: BoxList::new(),
            receives: BoxList::new(),
            internal: BoxList::new(),
            attachment: None,
            iov_block: IovBlock::NONE,
            rights: EpRights::from_caps(0),
            has_entries: false,
        })
    }

    /// Returns whether the context has been given entries, which it keeps.
    pub(in super::super) fn has_entries(&self) -> bool {
        self.has_entries
    }

    /// Gives the context its entries.
    pub(in super::super) fn set_entries(&mut self, entries: RxEntries) {
        let RxEntries {
            receives,
            internal,
            buffers,
            buckets,
            iov_block,
        } = entries;
        self.matcher.set_buckets(buckets);
        self.receives = receives;
        self.internal = internal;
        self.buffers = buffers;
        self.iov_block = iov_block;
        self.has_entries = true;
    }

    /// Returns the number of receives that can be posted.
    pub(in super::super) fn receives_left(&self) -> usize {
        self.receives.len() + self.buffers.freed()
    }

    /// Takes a free receive entry for `into`.
    #[inline(always)]
    pub(in super::super) fn get_entry(&mut self, into: PostedDst<'_>) -> Option<ListBox<Receive>> {
        let mut receive = self.get_free()?;
        receive.set_memory(into, &mut self.iov_block);
        Some(receive)
    }

    /// Takes a free receive entry.
    pub(in super::super) fn get_free(&mut self) -> Option<ListBox<Receive>> {
        self.receives.pop().or_else(|| {
            let mut receive = self.buffers.take_freed()?;
            receive.clear();
            Some(receive)
        })
    }

    /// Puts back a reported entry. The next receive takes it, because it is still in the CPU's cache.
    #[inline(always)]
    pub(in super::super) fn put_back(&mut self, mut receive: ListBox<Receive>) {
        receive.clear();
        match receive.is_internal() {
            true => self.internal.push_front(receive),
            false => self.receives.push_front(receive),
        }
    }
}

/// Vector with one element for each context.
pub(in super::super) struct CtxVec<T> {
    first: T,
    others: KVec<T>,
}

impl<T> CtxVec<T> {
    /// Creates `count` elements, at least one, with `make`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, and errors of `make`.
    #[inline(never)]
    pub(in super::super) fn new(
        count: usize,
        mut make: impl FnMut(u8) -> Result<T>,
    ) -> Result<Self> {
        let first = make(0)?;
        let mut others = KVec::with_capacity(count.saturating_sub(1), GFP_KERNEL)?;
        for index in 1..count {
            others.push(make(index as u8)?, GFP_KERNEL)?;
        }
        Ok(Self { first, others })
    }

    /// Returns the number of contexts.
    pub(in super::super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the element of a context, or the first element if the index is out of range.
    #[inline]
    pub(in super::super) fn ctx(&self, index: u8) -> &T {
        match usize::from(index).checked_sub(1) {
            None => &self.first,
            Some(at) => self.others.get(at).unwrap_or(&self.first),
        }
    }

    /// Returns the element of a context, mutable, or the first element if the index is out of range.
    #[inline]
    pub(in super::super) fn ctx_mut(&mut self, index: u8) -> &mut T {
        match usize::from(index).checked_sub(1) {
            None => &mut self.first,
            Some(at) => self.others.get_mut(at).unwrap_or(&mut self.first),
        }
    }

    /// Iterates over the elements in order.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = &T> {
        Iterator::chain(iter::once(&self.first), &self.others)
    }

    /// Iterates over the elements in order, mutable.
    pub(in super::super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        Iterator::chain(iter::once(&mut self.first), &mut self.others)
    }
}
