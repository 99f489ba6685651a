// SPDX-License-Identifier: GPL-2.0

//! What each receive context has: its receives, and the messages that wait for them.

use super::{
    buffers::Buffers,
    matching::Desk,
    offer,
    placing::HELPERS,
    receive::{
        Letter,
        Receive, //
    },
    sharing::Share, //
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

/// How large the receiving side of an endpoint is.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// Receives that can be posted to each context.
    pub(super) receives: usize,
    /// Whether some of them may take several messages.
    are_several: bool,
    /// Whether it has none, as it shares those of others.
    are_shared: bool,
}

impl Size {
    /// What an info asks for.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than is offered.
    pub(super) fn of(info: &Info) -> Result<Self> {
        let are_shared = offer::uses_shared_rx(info);
        let receives = match info.rx().map_or(0, |rx| rx.size) {
            _ if are_shared => 0,
            0 => offer::RECEIVES,
            receives if receives > offer::RECEIVES => return Err(Errno::EINVAL),
            receives => receives,
        };
        Ok(Self {
            receives,
            are_several: info.caps() & FI_MULTI_RECV != 0,
            are_shared,
        })
    }

    /// Receives that can be under way at each context, whoever has posted them.
    pub(super) fn most(self) -> usize {
        self.receives + self.helpers()
    }

    fn helpers(self) -> usize {
        match self.are_several || self.are_shared {
            true => HELPERS,
            false => 0,
        }
    }
}

/// What a context receives with.
pub(super) struct Stock {
    receives: BoxList<Receive>,
    helpers: BoxList<Receive>,
    buffers: Buffers,
}

impl Stock {
    /// That of the context with this number. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(index: u8, size: Size) -> Result<Self> {
        let first = usize::from(index) * size.most();
        let make = |at: usize, is_helper| {
            let number = (first + at) as u32;
            ListBox::new(Receive::idle(number, index, is_helper))
        };
        let mut receives = BoxList::new();
        for at in 0..size.receives {
            receives.push(make(at, false)?);
        }
        let mut helpers = BoxList::new();
        for at in size.receives..size.most() {
            helpers.push(make(at, true)?);
        }
        let buffers = match size.are_several {
            true => size.receives,
            false => 0,
        };
        Ok(Self {
            receives,
            helpers,
            buffers: Buffers::new(first as u32, buffers, dma::cache_alignment())?,
        })
    }
}

/// See the module.
pub(super) struct Office {
    pub(super) desk: Desk<Receive, Letter>,
    /// Buffers that take several messages.
    pub(super) buffers: Buffers,
    /// Messages that have places in them, or what was posted for several endpoints, and wait to be told of.
    pub(super) placed: BoxList<Letter>,
    /// Messages that somebody has claimed.
    pub(super) claimed: BoxList<Letter>,
    /// Receives that are not posted.
    pub(super) receives: BoxList<Receive>,
    /// Those for messages that have got something else.
    pub(super) helpers: BoxList<Receive>,
    /// Receives that it shares with others, in place of its own.
    pub(super) share: Option<Share>,
    /// Whether it has ever had something to receive with.
    is_supplied: bool,
}

impl Office {
    /// One that has nothing to receive with: messages wait.
    pub(super) const fn new() -> Self {
        Self {
            desk: Desk::new(),
            buffers: Buffers::none(),
            placed: BoxList::new(),
            claimed: BoxList::new(),
            receives: BoxList::new(),
            helpers: BoxList::new(),
            share: None,
            is_supplied: false,
        }
    }

    /// Whether it has something to receive with, which it keeps.
    pub(super) fn is_supplied(&self) -> bool {
        self.is_supplied
    }

    /// It receives with that from now on.
    pub(super) fn supply(&mut self, stock: Stock) {
        let Stock {
            receives,
            helpers,
            buffers,
        } = stock;
        self.receives = receives;
        self.helpers = helpers;
        self.buffers = buffers;
        self.is_supplied = true;
    }

    /// How many receives can be posted.
    pub(super) fn receives_left(&self) -> usize {
        self.receives.len() + self.buffers.released()
    }

    /// Takes a receive that is not posted, if there is one.
    pub(super) fn spare(&mut self) -> Option<ListBox<Receive>> {
        self.receives.pop().or_else(|| {
            let mut receive = self.buffers.take_released()?;
            receive.clear();
            Some(receive)
        })
    }

    /// Takes back one that has been told of; the next is this one, which is still in the CPU's cache.
    #[inline(always)]
    pub(super) fn put_back(&mut self, mut receive: ListBox<Receive>) {
        receive.clear();
        match receive.is_helper() {
            true => self.helpers.push_front(receive),
            false => self.receives.push_front(receive),
        }
    }
}
