// SPDX-License-Identifier: GPL-2.0

//! Receives that endpoints share.
//!
//! Whatever is the first in a pipe and takes a receive gets the oldest, under the pipe's lock. If there is
//! none, its pipe waits here, and whoever posts calls it, with no lock held. A receive has its place until it
//! is over; what a pipe has got and not used when it ends is posted again, behind the others.

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
    /// Those that wait for a message. Their places and those of `out` are all that there are.
    receives: Fifo<Receive>,
    /// How many a pipe has got that are not over.
    out: usize,
    /// Pipes that wait for a receive.
    waiting: BoxList<RxHandle>,
    is_closed: bool,
}

impl SrxState {
    fn used(&self) -> usize {
        self.receives.len() + self.out
    }
}

/// See the module.
#[pin_data]
pub(crate) struct Srx {
    #[pin]
    shelf: FastLockIrq<SrxState>,
    regions: Arc<MrTable>,
    size: usize,
    /// Most parts that the memory of one has.
    parts: usize,
    /// What is counted under the lock: those that have been posted, and who found no room.
    posted: StatCounter,
    again: StatCounter,
}

impl Srx {
    /// Opens some, for endpoints of the domain that has `regions`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than there is, and for capabilities that they do not have; -FI_ENOMEM.
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

    /// Whether they are for endpoints of the domain that has `regions`.
    pub(super) fn is_of(&self, regions: &Arc<MrTable>) -> bool {
        Arc::ptr_eq(&self.regions, regions)
    }

    /// The oldest, for the first in `pipe`, whose lock is held. If there is none the pipe waits for one, unless
    /// it does that already: then it has no `ticket`.
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

    /// One that a pipe has got is over. Any context.
    pub(super) fn is_over(&self) {
        self.shelf.lock().out -= 1;
    }

    /// A pipe that ends has not used what it had got. Its lock is not held. Any context.
    pub(super) fn put_back(&self, receive: Receive) {
        let mut shelf = self.shelf.lock();
        // Its place is there still.
        shelf.out -= 1;
        if let Some(place) = shelf.receives.take() {
            *place = receive;
        }
        drop(shelf);
        self.call();
    }

    /// A pipe ends, and waits no more; who has called it may still be with it.
    pub(super) fn withdraw(&self, pipe: &Arc<Channel>) {
        let is_its = |ticket: &RxHandle| {
            let waiting = ticket.pipe.as_ref();
            waiting.is_some_and(|waiting| Arc::ptr_eq(waiting, pipe))
        };
        let ticket = self.shelf.lock().waiting.take(is_its);
        drop(ticket);
    }

    /// Calls those that wait, in turn, as long as there is something to be got.
    fn call(&self) {
        loop {
            let mut shelf = self.shelf.lock();
            if shelf.receives.is_empty() {
                return;
            }
            let Some(mut ticket) = shelf.waiting.pop() else {
                return;
            };
            // Under the lock: who ends finds the ticket here, or somebody inside.
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

    /// Checks what the consumer asks for.
    fn check(&self, message: &Message<'_>) -> Result {
        if message.flags & !FLAGS != 0 {
            // Who ends a buffer is not who has begun it: the pieces are different endpoints'.
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
