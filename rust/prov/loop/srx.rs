// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts.
//!
//! The first transmit of a channel that needs a receive gets the oldest one, under the channel's lock. If
//! there is none, its channel waits here, and the next poster of a receive continues it, with no lock held. A
//! receive occupies its slot until it completes; a receive that a channel got and has not used when it ends
//! is posted again, behind the others.

use super::{
    super::common::{
        iov::{
            DstBuf,
            MAX_IOV, //
        },
        mr_table::MrTable, //
    },
    channel::Channel,
    completion::CompInfo,
    fifo::Fifo,
    info,
    mr,
    op::Receive,
    rx_queue::RxHandle, //
};
use crate::{
    abi::{
        flags::*,
        lock::FastLockIrq,
        owned_list::{
            BoxList,
            ListBox, //
        },
        stat_counter::StatCounter,
        Errno,
        Result,
        KOFI_VALUE_RECEIVES,
        KOFI_VALUE_RX_AGAIN,
        KOFI_VALUE_RX_DEPTH,
        KOFI_VALUE_RX_DONE,
        KOFI_VALUE_RX_SIZE, //
    },
    fi::{
        introspect::ObjectInfo,
        memory::Context,
        provider::{
            self,
            Message, //
        },
        rundown::RundownRef,
        srx::Attr, //
    },
};
use core::{
    any::Any,
    mem, //
};
use kernel::{
    prelude::*,
    sync::{
        static_lock_class,
        Arc, //
    },
};

/// Receives of a context that is opened with size 0.
const DEFAULT_SIZE: usize = 256;

/// Flags that a receive may have.
const FLAGS: u64 = FI_COMPLETION | FI_MORE;

struct SrxState {
    /// Receives that wait for a message. Their slots and those counted in `out` make up the size.
    receives: Fifo<Receive>,
    /// Receives that channels hold and have not completed.
    out: usize,
    /// Channels that wait for a receive.
    waiting: BoxList<RxHandle>,
    is_closed: bool,
}

impl SrxState {
    fn used(&self) -> usize {
        self.receives.len() + self.out
    }
}

/// A shared receive context. The spinlock `shelf` guards its state, and is taken under the lock of a channel.
#[pin_data]
pub(crate) struct Srx {
    #[pin]
    shelf: FastLockIrq<SrxState>,
    regions: Arc<MrTable>,
    size: usize,
    /// Most segments of a receive.
    parts: usize,
    /// Statistics, counted under the lock: posted receives, and posts that found no free slot.
    posted: StatCounter,
    again: StatCounter,
}

impl Srx {
    /// Opens a shared receive context for endpoints of the domain that has `regions`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than the limits, and for unsupported capabilities; -FI_ENOMEM.
    pub(super) fn new(regions: &Arc<MrTable>, attr: &Attr) -> Result<Arc<Self>> {
        let size = attr.size_within(DEFAULT_SIZE, info::DEPTH)?;
        let parts = attr.segments_within(MAX_IOV)?;
        if attr.caps & !info::SHARED_CAPS != 0 {
            return Err(Errno::EINVAL);
        }
        let shelf = SrxState {
            receives: Fifo::new(size, Receive::idle)?,
            out: 0,
            waiting: BoxList::new(),
            is_closed: false,
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                shelf <- FastLockIrq::new(shelf, c"kofi::loop::Srx", static_lock_class!()),
                regions: regions.clone(),
                size,
                parts,
                posted: StatCounter::new(),
                again: StatCounter::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Returns whether the context belongs to the domain that has `regions`.
    pub(super) fn is_of(&self, regions: &Arc<MrTable>) -> bool {
        Arc::ptr_eq(&self.regions, regions)
    }

    /// Takes the oldest receive, for the first transmit in `pipe`, whose lock is held. If there is none, the
    /// channel is queued with `ticket`, which is `None` if the channel waits already.
    pub(super) fn get(
        &self,
        pipe: &Arc<Channel>,
        ticket: &mut Option<ListBox<RxHandle>>,
    ) -> Option<Receive> {
        let mut shelf = self.shelf.lock();
        if let Some(oldest) = shelf.receives.first_mut() {
            let receive = mem::replace(oldest, Receive::idle());
            shelf.receives.give_back();
            shelf.out += 1;
            return Some(receive);
        }
        if let Some(mut ticket) = ticket.take() {
            ticket.pipe = Some(pipe.clone());
            shelf.waiting.push(ticket);
        }
        None
    }

    /// Frees the slot of a receive that a channel got. Any context.
    pub(super) fn is_over(&self) {
        self.shelf.lock().out -= 1;
    }

    /// Posts a receive again that an ending channel has not used. The channel's lock is not held. Any
    /// context.
    pub(super) fn put_back(&self, receive: Receive) {
        let mut shelf = self.shelf.lock();
        // The slot is still accounted to this receive.
        shelf.out -= 1;
        if let Some(place) = shelf.receives.take() {
            *place = receive;
        }
        drop(shelf);
        self.call();
    }

    /// Removes an ending channel from the wait queue; a poster that has called it may still be inside.
    pub(super) fn withdraw(&self, pipe: &Arc<Channel>) {
        let is_its = |ticket: &RxHandle| {
            let waiting = ticket.pipe.as_ref();
            waiting.is_some_and(|waiting| Arc::ptr_eq(waiting, pipe))
        };
        let ticket = self.shelf.lock().waiting.take(is_its);
        drop(ticket);
    }

    /// Continues waiting channels in order, as long as receives are posted.
    fn call(&self) {
        loop {
            let mut shelf = self.shelf.lock();
            if shelf.receives.is_empty() {
                return;
            }
            let Some(mut ticket) = shelf.waiting.pop() else {
                return;
            };
            // Entered under the lock: an ending channel either finds its ticket in the list, or its rundown
            // waits for this call.
            let stay = ticket.gate.begin_owned_call();
            let pipe = ticket.pipe.take();
            drop(shelf);
            if let (Some(pipe), Some(stay)) = (pipe, stay) {
                let visit = RundownRef {
                    object: pipe,
                    _guard: stay,
                };
                visit.object.called(ticket);
            }
        }
    }

    /// Checks the flags and limits of a posted receive.
    fn check(&self, message: &Message<'_>) -> Result {
        if message.flags & !FLAGS != 0 {
            // A multi-receive buffer has one endpoint: with several, the pieces of one buffer would complete
            // at different endpoints.
            return Err(match message.flags & !(FLAGS | FI_MULTI_RECV) {
                0 => Errno::EOPNOTSUPP,
                _ => Errno::EBADFLAGS,
            });
        }
        if message.memory.count() > self.parts {
            return Err(Errno::EINVAL);
        }
        if message.memory.total_len()? > info::MOST {
            return Err(Errno::EMSGSIZE);
        }
        mr::check(message.memory, message.descriptors, &self.regions)
    }
}

impl provider::SharedReceive for Srx {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn receive(&self, message: &Message<'_>) -> Result {
        self.check(message)?;
        let receive = Receive {
            // SAFETY: It is dropped with the receive, before the poster's completion is written.
            into: unsafe { DstBuf::new(message.memory) }?,
            report: CompInfo {
                context: message.context,
                flags: FI_RECV | FI_MSG,
                is_wanted: message.flags & FI_COMPLETION != 0,
                is_signal: false,
            },
            ..Receive::idle()
        };
        let mut shelf = self.shelf.lock();
        if shelf.is_closed {
            return Err(Errno::EOPBADSTATE);
        }
        let place = match shelf.used() < self.size {
            true => shelf.receives.take(),
            false => None,
        };
        let Some(place) = place else {
            self.again.add(1);
            return Err(Errno::EAGAIN);
        };
        *place = receive;
        self.posted.add(1);
        drop(shelf);
        self.call();
        Ok(())
    }

    fn receives_left(&self) -> usize {
        self.size - self.shelf.lock().used()
    }

    fn fill_info(&self, told: &mut ObjectInfo<'_>) {
        let shelf = self.shelf.lock();
        let (used, posted) = (shelf.used() as u64, self.posted.get());
        drop(shelf);
        told.add_value(KOFI_VALUE_RX_SIZE, self.size as u64);
        told.add_value(KOFI_VALUE_RX_DEPTH, used);
        told.add_value(KOFI_VALUE_RECEIVES, posted);
        told.add_value(KOFI_VALUE_RX_DONE, posted.saturating_sub(used));
        told.add_value(KOFI_VALUE_RX_AGAIN, self.again.get());
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        let mut shelf = self.shelf.lock();
        shelf.is_closed = true;
        let left = mem::replace(&mut shelf.receives, Fifo::NONE);
        drop(shelf);
        for receive in left.iter() {
            reclaim(receive.report.context);
        }
    }
}
