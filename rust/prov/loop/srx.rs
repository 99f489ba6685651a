// SPDX-License-Identifier: GPL-2.0

//! The receives that a channel's transmits consume: the endpoint's own, or those of a shared receive context. The
//! channel's lock guards [`RxQueue`] and what is in it.
//!
//! The first transmit of a channel that needs a receive gets the oldest one, under the channel's lock. If
//! there is none, its channel waits here, and the next poster of a receive continues it, with no lock held. A
//! receive occupies its slot until it completes; a receive that a channel got and has not used when it ends
//! is posted again, behind the others.

use super::{
    super::common::{
        flags::check_message,
        iov::MAX_IOV, //
    },
    info,
    mr,
    prelude::*, //
};
use crate::{
    abi::flags::*,
    fi::{
        rundown::{
            Rundown,
            RundownRef, //
        },
        srx::Attr, //
    },
    util::stat_counter::StatCounter, //
};
use core::any::Any;

/// Receives of a context that is opened with size 0.
const DEFAULT_SIZE: usize = 256;

/// Flags that a receive may have.
const RECV_FLAGS: u64 = FI_COMPLETION | FI_MORE;

struct SrxState {
    /// Receives that wait for a message. Their slots and those counted in `in_use` make up the size.
    receives: Fifo<Receive>,
    /// Receives that channels hold and have not completed.
    in_use: usize,
    /// Channels that wait for a receive.
    waiting_channels: BoxList<RxHandle>,
    is_closed: bool,
}

impl SrxState {
    fn used_slots(&self) -> usize {
        self.receives.len() + self.in_use
    }
}

/// A shared receive context. The spinlock `state` guards its state, and is taken under the lock of a channel.
#[pin_data]
pub(crate) struct Srx {
    #[pin]
    state: FastLockIrq<SrxState>,
    /// Memory regions of the domain that the context belongs to.
    pub(super) mr_table: Arc<MrTable>,
    size: usize,
    /// Most segments of a receive.
    iov_limit: usize,
    /// Statistics, counted under the lock: posted receives, and posts that found no free slot.
    post_count: StatCounter,
    eagain_count: StatCounter,
}

impl Srx {
    /// Opens a shared receive context for endpoints of the domain that has `mr_table`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than the limits, and for unsupported capabilities; -FI_ENOMEM.
    pub(super) fn new(mr_table: &Arc<MrTable>, attr: &Attr) -> Result<Arc<Self>> {
        let size = attr.size_within(DEFAULT_SIZE, info::MAX_QUEUE_SIZE)?;
        let iov_limit = attr.segments_within(MAX_IOV)?;
        if attr.caps & !info::SHARED_CAPS != 0 {
            return Err(Errno::EINVAL);
        }
        let state = SrxState {
            receives: Fifo::new(size, Receive::unused)?,
            in_use: 0,
            waiting_channels: BoxList::new(),
            is_closed: false,
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                state <- FastLockIrq::new(state, c"kofi::loop::Srx", static_lock_class!()),
                mr_table: mr_table.clone(),
                size,
                iov_limit,
                post_count: StatCounter::new(),
                eagain_count: StatCounter::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Takes the oldest receive, for the first transmit in `channel`, whose lock is held. If there is none, the
    /// channel is queued with `handle`, which is `None` if the channel waits already.
    pub(super) fn take_receive(
        &self,
        channel: &Arc<Channel>,
        handle: &mut Option<ListBox<RxHandle>>,
    ) -> Option<Receive> {
        channel.assert_locked();
        let mut state = self.state.lock();
        if let Some(oldest) = state.receives.front_mut() {
            let receive = mem::replace(oldest, Receive::unused());
            state.receives.free_first();
            state.in_use += 1;
            return Some(receive);
        }
        if let Some(mut handle) = handle.take() {
            handle.channel = Some(channel.clone());
            state.waiting_channels.push(handle);
        }
        None
    }

    /// Frees the slot of a receive that a channel got. Any context.
    pub(super) fn free_slot(&self) {
        self.state.lock().in_use -= 1;
    }

    /// Posts a receive again that an ending channel has not used. The channel's lock is not held. Any
    /// context.
    pub(super) fn repost(&self, receive: Receive) {
        let mut state = self.state.lock();
        // The slot is still accounted to this receive.
        state.in_use -= 1;
        if let Some(slot) = state.receives.alloc_slot() {
            *slot = receive;
        }
        drop(state);
        self.resume_waiters();
    }

    /// Removes an ending channel from the wait queue; a poster that has called it may still be inside.
    pub(super) fn remove_waiter(&self, channel: &Arc<Channel>) {
        let is_its = |handle: &RxHandle| {
            let waiting = handle.channel.as_ref();
            waiting.is_some_and(|waiting| Arc::ptr_eq(waiting, channel))
        };
        let mut state = self.state.lock();
        let handle = state.waiting_channels.remove_first_where(is_its);
        drop(state);
        drop(handle);
    }

    /// Continues waiting channels in order, as long as receives are posted.
    fn resume_waiters(&self) {
        loop {
            let mut state = self.state.lock();
            if state.receives.is_empty() {
                return;
            }
            let Some(mut handle) = state.waiting_channels.pop() else {
                return;
            };
            // Entered under the lock: an ending channel either finds its handle in the list, or its rundown
            // waits for this call.
            let guard = handle.rundown.begin_owned_call();
            let channel = handle.channel.take();
            drop(state);
            if let (Some(channel), Some(guard)) = (channel, guard) {
                let visit = RundownRef {
                    object: channel,
                    _guard: guard,
                };
                visit.object.resume(handle);
            }
        }
    }

    /// Checks the flags and limits of a posted receive.
    fn check_message(&self, message: &Message<'_>) -> Result {
        // A multi-receive buffer has one endpoint: with several, the pieces of one buffer would complete at
        // different endpoints.
        let flags = (RECV_FLAGS | FI_MULTI_RECV, !RECV_FLAGS);
        check_message(message, flags, (self.iov_limit, info::MAX_MSG_SIZE))?;
        mr::check_descriptors(message.memory, message.descriptors, &self.mr_table)
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
        self.check_message(message)?;
        let receive = Receive {
            // SAFETY: It is dropped with the receive, before the poster's completion is written.
            dst: unsafe { DstBuf::new(message.memory) }?,
            info: CompInfo {
                context: message.context,
                flags: FI_RECV | FI_MSG,
                reports_success: message.flags & FI_COMPLETION != 0,
                remote_signal: false,
                later_parts: 0,
            },
            ..Receive::unused()
        };
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Errno::EOPBADSTATE);
        }
        let slot = match state.used_slots() < self.size {
            true => state.receives.alloc_slot(),
            false => None,
        };
        let Some(slot) = slot else {
            self.eagain_count.add(1);
            return Err(Errno::EAGAIN);
        };
        *slot = receive;
        self.post_count.add(1);
        drop(state);
        self.resume_waiters();
        Ok(())
    }

    fn receives_left(&self) -> usize {
        self.size - self.state.lock().used_slots()
    }

    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        let state = self.state.lock();
        let (used, posted) = (state.used_slots() as u64, self.post_count.get());
        drop(state);
        info.add_value(abi::KOFI_VALUE_RX_SIZE, self.size as u64);
        info.add_value(abi::KOFI_VALUE_RX_DEPTH, used);
        info.add_value(abi::KOFI_VALUE_RECEIVES, posted);
        info.add_value(abi::KOFI_VALUE_RX_DONE, posted.saturating_sub(used));
        info.add_value(abi::KOFI_VALUE_RX_AGAIN, self.eagain_count.get());
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let left = mem::replace(&mut state.receives, Fifo::EMPTY);
        drop(state);
        for receive in left.iter() {
            reclaim(receive.info.context);
        }
    }
}

/// Entry of a channel in the wait queue of a shared receive context.
pub(super) struct RxHandle {
    /// The channel, while it waits.
    pub(super) channel: Option<Arc<Channel>>,
    /// Entered by a poster during its call into the channel.
    pub(super) rundown: Arc<Rundown>,
}

/// The receives of one side.
pub(super) enum RxQueue {
    /// The endpoint's own receives.
    Own(Fifo<Receive>),
    /// Receives from a shared receive context.
    Shared(SrxAttachment),
}

/// A channel's attachment to a shared receive context.
pub(super) struct SrxAttachment {
    srx: Arc<Srx>,
    rundown: Arc<Rundown>,
    /// The wait queue entry, while the channel does not wait.
    rx_handle: Option<ListBox<RxHandle>>,
    /// The receive for the first queued transmit. Its completion has been reserved.
    held_receive: Option<Receive>,
}

impl SrxAttachment {
    /// Makes an attachment without a receive. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(srx: Arc<Srx>) -> Result<Self> {
        let rundown = Arc::pin_init(Rundown::new(), GFP_KERNEL)?;
        let handle = ListBox::new(RxHandle {
            channel: None,
            rundown: rundown.clone(),
        })?;
        Ok(Self {
            srx,
            rundown,
            rx_handle: Some(handle),
            held_receive: None,
        })
    }

    /// Returns whether there is a receive for the first transmit in `channel`, and fetches it.
    fn fetch(&mut self, channel: &Arc<Channel>) -> bool {
        if self.held_receive.is_some() {
            return true;
        }
        let Ok(receiver) = channel.rx_side() else {
            return false;
        };
        let sink = &receiver.comp_sink;
        if sink.reserve().is_err() {
            channel.await_cq_slot();
            if sink.reserve().is_err() {
                return false;
            }
        }
        self.held_receive = self.srx.take_receive(channel, &mut self.rx_handle);
        match &mut self.held_receive {
            None => sink.cq.release(),
            Some(receive) => receive.info.reports_success |= sink.reports_all_successes,
        }
        self.held_receive.is_some()
    }

    /// Detaches an ended channel: waits until posters have left it, then posts an unused receive again. The
    /// channel's lock is not held. May sleep.
    pub(super) fn detach(mut self, channel: &Arc<Channel>) {
        self.srx.remove_waiter(channel);
        self.rundown.run_down();
        if let Some(receive) = self.held_receive.take() {
            if let Ok(receiver) = channel.rx_side() {
                receiver.comp_sink.cq.release();
            }
            self.srx.repost(receive);
        }
    }
}

impl RxQueue {
    /// A queue without slots.
    pub(super) const EMPTY: Self = Self::Own(Fifo::EMPTY);

    /// Returns whether there is a receive for the first transmit in `channel`.
    #[inline(always)]
    pub(super) fn fetch(&mut self, channel: &Arc<Channel>) -> bool {
        match self {
            Self::Own(own) => !own.is_empty(),
            Self::Shared(attachment) => attachment.fetch(channel),
        }
    }

    /// Returns the receive that was [fetched](Self::fetch).
    #[inline(always)]
    pub(super) fn fetched(&self) -> Option<&Receive> {
        match self {
            Self::Own(own) => own.front(),
            Self::Shared(attachment) => attachment.held_receive.as_ref(),
        }
    }

    /// Takes the first receive out of its slot, which stays in use until [`free_first`](Self::free_first).
    pub(super) fn take_first(&mut self) -> Option<Receive> {
        match self {
            Self::Own(own) => Some(mem::replace(own.front_mut()?, Receive::unused())),
            Self::Shared(attachment) => attachment.held_receive.take(),
        }
    }

    /// Frees the slot of the first receive.
    #[inline(always)]
    pub(super) fn free_first(&mut self) {
        match self {
            Self::Own(own) => own.free_first(),
            Self::Shared(attachment) => {
                attachment.held_receive = None;
                attachment.srx.free_slot();
            }
        }
    }

    /// Stores the wait queue entry again, when a posted receive ends the wait.
    pub(super) fn return_handle(&mut self, handle: ListBox<RxHandle>) {
        if let Self::Shared(attachment) = self {
            attachment.rx_handle = Some(handle);
        }
    }

    /// Returns the endpoint's own receives, if it does not share.
    pub(super) fn own_fifo(&mut self) -> Option<&mut Fifo<Receive>> {
        match self {
            Self::Own(own) => Some(own),
            Self::Shared(_) => None,
        }
    }
}
