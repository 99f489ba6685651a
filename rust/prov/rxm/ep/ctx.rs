// SPDX-License-Identifier: GPL-2.0

//! What each receive context has: its receives, and the messages that wait for them.
//!
//! What each context of an endpoint has. An ordinary endpoint has one context each way, whose part is
//! found without another look into memory.

use super::super::{
    info,
    matcher::Matcher,
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
    rdma::dma,
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};
use core::iter;

/// How large the receiving side of an endpoint is.
#[derive(Clone, Copy)]
pub(in super::super) struct RxSize {
    /// Receives that can be posted to each context.
    pub(in super::super) receives: usize,
    /// Whether some of them may take several messages.
    has_multi_recv: bool,
    /// Whether it has none, as it shares those of others.
    shares_receives: bool,
}

impl RxSize {
    /// What an info asks for.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than is offered.
    pub(in super::super) fn of(info: &Info) -> Result<Self> {
        let shares_receives = info::uses_shared_rx(info);
        let receives = match info.rx().map_or(0, |rx| rx.size) {
            _ if shares_receives => 0,
            0 => info::MAX_RECVS,
            receives if receives > info::MAX_RECVS => return Err(Errno::EINVAL),
            receives => receives,
        };
        Ok(Self {
            receives,
            has_multi_recv: info.caps() & FI_MULTI_RECV != 0,
            shares_receives,
        })
    }

    /// Receives that can be under way at each context, whoever has posted them.
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

/// What a context receives with.
pub(in super::super) struct RxEntries {
    receives: BoxList<Receive>,
    internal: BoxList<Receive>,
    buffers: MultiRecvBufs,
}

impl RxEntries {
    /// That of the context with this number. May sleep.
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
        })
    }
}

/// See the module.
pub(in super::super) struct RxCtx {
    pub(in super::super) matcher: Matcher<Receive, UnexpMsg>,
    /// Buffers that take several messages.
    pub(in super::super) buffers: MultiRecvBufs,
    /// Messages that have places in them, or what was posted for several endpoints, and wait to be told of.
    pub(in super::super) assigned: BoxList<UnexpMsg>,
    /// Messages that somebody has claimed.
    pub(in super::super) claimed: BoxList<UnexpMsg>,
    /// Receives that are not posted.
    pub(in super::super) receives: BoxList<Receive>,
    /// Those for messages that have got something else.
    pub(in super::super) internal: BoxList<Receive>,
    /// Receives that it shares with others, in place of its own.
    pub(in super::super) attachment: Option<SrxAttachment>,
    /// Whether it has ever had something to receive with.
    has_entries: bool,
}

impl RxCtx {
    /// One that has nothing to receive with: messages wait.
    pub(in super::super) const fn new() -> Self {
        Self {
            matcher: Matcher::new(),
            buffers: MultiRecvBufs::none(),
            assigned: BoxList::new(),
            claimed: BoxList::new(),
            receives: BoxList::new(),
            internal: BoxList::new(),
            attachment: None,
            has_entries: false,
        }
    }

    /// Whether it has something to receive with, which it keeps.
    pub(in super::super) fn has_entries(&self) -> bool {
        self.has_entries
    }

    /// It receives with that from now on.
    pub(in super::super) fn set_entries(&mut self, entries: RxEntries) {
        let RxEntries {
            receives,
            internal,
            buffers,
        } = entries;
        self.receives = receives;
        self.internal = internal;
        self.buffers = buffers;
        self.has_entries = true;
    }

    /// How many receives can be posted.
    pub(in super::super) fn receives_left(&self) -> usize {
        self.receives.len() + self.buffers.freed()
    }

    /// Takes a receive that is not posted, if there is one.
    pub(in super::super) fn get_free(&mut self) -> Option<ListBox<Receive>> {
        self.receives.pop().or_else(|| {
            let mut receive = self.buffers.take_freed()?;
            receive.clear();
            Some(receive)
        })
    }

    /// Takes back one that has been told of; the next is this one, which is still in the CPU's cache.
    #[inline(always)]
    pub(in super::super) fn put_back(&mut self, mut receive: ListBox<Receive>) {
        receive.clear();
        match receive.is_internal() {
            true => self.internal.push_front(receive),
            false => self.receives.push_front(receive),
        }
    }
}

/// See the module.
pub(in super::super) struct CtxVec<T> {
    first: T,
    others: KVec<T>,
}

impl<T> CtxVec<T> {
    /// For so many contexts, one at least, what `make` makes. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    #[inline(never)]
    pub(in super::super) fn new(count: usize, mut make: impl FnMut(u8) -> T) -> Result<Self> {
        let first = make(0);
        let mut others = KVec::with_capacity(count.saturating_sub(1), GFP_KERNEL)?;
        for index in 1..count {
            others.push(make(index as u8), GFP_KERNEL)?;
        }
        Ok(Self { first, others })
    }

    /// How many contexts there are.
    pub(in super::super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// That of a context; who asks for one that there is not gets the first's.
    #[inline]
    pub(in super::super) fn ctx(&self, index: u8) -> &T {
        match usize::from(index).checked_sub(1) {
            None => &self.first,
            Some(at) => self.others.get(at).unwrap_or(&self.first),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(in super::super) fn ctx_mut(&mut self, index: u8) -> &mut T {
        match usize::from(index).checked_sub(1) {
            None => &mut self.first,
            Some(at) => self.others.get_mut(at).unwrap_or(&mut self.first),
        }
    }

    /// All, in order.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = &T> {
        Iterator::chain(iter::once(&self.first), &self.others)
    }

    /// The same, to be changed.
    pub(in super::super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        Iterator::chain(iter::once(&mut self.first), &mut self.others)
    }
}
