// SPDX-License-Identifier: GPL-2.0

//! A channel, which is one direction of a connection: the posted receives of one side, and the transmits that
//! the other side has posted for them or for the memory of the receiving side.
//!
//! A transmit is processed in the poster's call if none is queued and the receive that it consumes, if any, has been
//! posted; up to [`MAX_LOCKED_COPY`] bytes under the lock. Otherwise it is queued. One thread at a time processes the
//! queue, in order: a poster of a transmit or receive that finds the first transmit ready and no thread processing.
//! It stops after [`process::MAX_RUN_OPS`] operations or [`process::MAX_RUN_BYTES`] bytes, in atomic context before
//! it exceeds [`process::MAX_ATOMIC_RUN_BYTES`] bytes, and leaves the rest to a work item on the module's workqueue.
//! This bounds the time that a post takes, whichever thread has posted the transmits.
//!
//! Locking: the spinlock guards the queues. Interrupts are off while it is held; it is not held while a long
//! transfer is copied. The locks of completion queues and of memory regions are taken under it.

mod close;
mod process;

pub(super) use close::ClosingSide;
pub(super) use process::DirectReceiver;

use self::process::count_op;
use super::{
    super::common::{
        stats::{
            RxStats,
            TxStats,
            Violations, //
        },
        sw_cq::ProgressSource,
    },
    op::{
        OpKind,
        SourceData, //
    },
    prelude::*,
    srx::{
        RxHandle,
        RxQueue,
        SrxAttachment, //
    },
};
use crate::{
    fi::cntr::BoundCounters,
    util::lock::assert_held, //
};
use kernel::sync::{
    new_condvar,
    CondVar, //
};

/// Largest transfer, in bytes, that is copied under the lock.
const MAX_LOCKED_COPY: usize = 1024;

/// Resources of the receiving side, whose memory is reached by RMA.
pub(super) struct RxSide {
    pub(super) comp_sink: CompSink,
    pub(super) mr_table: Arc<MrTable>,
    pub(super) rights: EpRights,
}

/// Resources of the sending side.
pub(super) struct TxResources {
    pub(super) comp_sink: CompSink,
    pub(super) tx_queue: Fifo<PostedOp>,
    pub(super) counters: BoundCounters,
    /// Address of the endpoint, once known.
    pub(super) addr: Option<SocketAddr>,
}

struct Inner {
    receives: RxQueue,
    /// Queued transmits; the first may be in process.
    tx_queue: Fifo<PostedOp>,
    /// Set while a thread processes transmits.
    is_processing: bool,
    /// Set once no queued transmit is started any more: an operation has failed, or the channel is ending.
    /// [`Channel::close`] reports those that are left as cancelled.
    is_stopped: bool,
    /// Set by [`Channel::close`]: nothing can be posted any more.
    is_closed: bool,
    /// Set once no receive is posted or matched any more.
    no_receives: bool,
    /// Set once no transmit is posted any more.
    no_transmits: bool,
    /// Set from the removal of a receive until its completion has been written. Other threads that remove
    /// receives wait for that.
    is_reporting_receives: bool,
    /// Counters that are bound for each side's operations, until that side is closed.
    tx_counters: Option<BoundCounters>,
    rx_counters: Option<BoundCounters>,
    /// Target of direct calls by the sending side; taken out during a call.
    direct_receiver: Option<KBox<DirectReceiver>>,
}

/// A channel between two endpoints; see the module.
#[pin_data]
pub(super) struct Channel {
    #[pin]
    inner: FastLockIrq<Inner>,
    /// Notified when `is_processing` or `is_reporting_receives` has been cleared, for [`Channel::close`] and
    /// [`Channel::close_receives`], which wait for that.
    #[pin]
    idle_wait: CondVar,
    #[pin]
    work: Work<Channel>,
    /// Set when the receiving endpoint is enabled.
    rx_side: SetOnce<RxSide>,
    /// Set when the connection is established.
    tx_comp_sink: SetOnce<CompSink>,
    conn: SetOnce<Arc<Conn>>,
    /// Nonzero while a message for a shared receive waits for a free slot in the completion queue.
    awaits_cq_slot: Atomic<u32>,
    /// Statistics; counted under the lock.
    tx_stats: TxStats,
    rx_stats: RxStats,
    /// Counts and logs violations by the sender.
    violations: Violations,
}

impl_has_work! {
    impl HasWork<Self> for Channel { self.work }
}

impl WorkItem for Channel {
    type Pointer = Arc<Channel>;

    fn run(this: Arc<Channel>) {
        this.process();
    }
}

impl Inner {
    /// Returns whether transmits may still be posted.
    #[inline(always)]
    fn accepts_transmits(&self) -> bool {
        !self.is_closed && !self.no_transmits
    }

    /// Returns whether no thread processes transmits and none is queued or refused.
    #[inline(always)]
    fn is_idle(&self) -> bool {
        !self.is_processing && self.tx_queue.is_empty() && !self.is_stopped
    }

    /// Returns the length of the first queued transmit if it can be processed.
    fn ready_len(&mut self, channel: &Arc<Channel>) -> Option<usize> {
        let op = self.tx_queue.front().filter(|_| !self.is_stopped)?;
        let (needs_receive, len) = (op.kind.consumes_receive(), op.kind.len());
        let has_all = !needs_receive || self.fetch_receive(channel);
        has_all.then_some(len)
    }

    /// Returns whether there is a receive for the first transmit.
    #[inline(always)]
    fn fetch_receive(&mut self, channel: &Arc<Channel>) -> bool {
        !self.no_receives && self.receives.fetch(channel)
    }

    /// Takes the first transmit, and the receive that it consumes, out of their slots. The slots are not freed before
    /// processing ends; meanwhile other threads may post.
    fn take_first(&mut self) -> Option<(PostedOp, Option<Receive>)> {
        let op = mem::replace(self.tx_queue.front_mut()?, PostedOp::unused());
        let receive = match op.kind.consumes_receive() {
            true => Some(self.receives.take_first()?),
            false => None,
        };
        self.is_reporting_receives |= receive.is_some();
        Some((op, receive))
    }

    /// Frees the slots of the first transmit and, if it took one, of its receive.
    #[inline]
    fn free_first(&mut self, has_receive: bool) {
        self.tx_queue.free_first();
        if has_receive {
            self.receives.free_first();
        }
    }
}

impl Channel {
    /// Makes a channel with space for `receives` receives of its own. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(receives: usize) -> Result<Arc<Self>> {
        let inner = Inner {
            receives: RxQueue::Own(Fifo::new(receives, Receive::unused)?),
            tx_queue: Fifo::EMPTY,
            is_processing: false,
            is_stopped: false,
            is_closed: false,
            no_receives: false,
            no_transmits: false,
            is_reporting_receives: false,
            tx_counters: None,
            rx_counters: None,
            direct_receiver: None,
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                inner <- FastLockIrq::new(inner, c"kofi::loop::Channel", static_lock_class!()),
                idle_wait <- new_condvar!("kofi::loop::Channel::idle_wait"),
                work <- new_work!("kofi::loop::Channel::work"),
                rx_side: SetOnce::new(),
                tx_comp_sink: SetOnce::new(),
                conn: SetOnce::new(),
                awaits_cq_slot: Atomic::new(0),
                tx_stats: TxStats::new(),
                rx_stats: RxStats::new(),
                violations: Violations::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Sets the receiving side, which lets receives be posted, or attaches the shared receive context. Called
    /// once.
    pub(super) fn enable(
        &self,
        receiver: RxSide,
        counters: BoundCounters,
        attachment: Option<SrxAttachment>,
    ) {
        let mut inner = self.inner.lock();
        inner.rx_counters = Some(counters);
        let own = attachment
            .map(|attachment| mem::replace(&mut inner.receives, RxQueue::Shared(attachment)));
        drop(inner);
        drop(own);
        let _ = self.rx_side.populate(receiver);
    }

    /// Sets the sending side and its transmit queue. Called once.
    pub(super) fn connect(&self, sender: TxResources, conn: Arc<Conn>) {
        if let Some(addr) = sender.addr {
            self.violations.set_peer(addr);
        }
        let _ = self.conn.populate(conn);
        let mut inner = self.inner.lock();
        inner.tx_queue = sender.tx_queue;
        inner.tx_counters = Some(sender.counters);
        drop(inner);
        let _ = self.tx_comp_sink.populate(sender.comp_sink);
    }

    /// Returns the receiving side; -FI_EOPBADSTATE before the endpoint is enabled.
    #[inline]
    pub(super) fn rx_side(&self) -> Result<&RxSide> {
        self.rx_side.as_ref().ok_or(Errno::EOPBADSTATE)
    }

    /// Returns the sink for transmit completions; -FI_ENOTCONN before there is a connection.
    #[inline]
    pub(super) fn tx_comp_sink(&self) -> Result<&CompSink> {
        self.tx_comp_sink.as_ref().ok_or(Errno::ENOTCONN)
    }

    /// Returns how many receives can be posted.
    pub(super) fn receives_left(&self) -> usize {
        let mut inner = self.inner.lock();
        inner.receives.own_fifo().map_or(0, |own| own.free_slots())
    }

    /// Returns how many transmits can be posted.
    pub(super) fn transmits_left(&self) -> usize {
        self.inner.lock().tx_queue.free_slots()
    }

    /// Posts `count` receives, each filled in by `fill`, or none of them. The caller has reserved their
    /// completions. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if too few slots are free, -FI_ENOTCONN once the channel has ended, -FI_ENOSYS with shared
    /// receives.
    pub(super) fn post_receives(
        self: &Arc<Self>,
        count: usize,
        mut fill: impl FnMut(usize, &mut Receive),
    ) -> Result {
        let mut inner = self.inner.lock();
        if inner.is_closed || inner.no_receives {
            return Err(Errno::ENOTCONN);
        }
        let own = inner.receives.own_fifo().ok_or(Errno::ENOSYS)?;
        if own.free_slots() < count {
            self.rx_stats.record_eagain();
            if let Ok(receiver) = self.rx_side() {
                receiver.comp_sink.cq.set_slot_waiter();
            }
            return Err(Errno::EAGAIN);
        }
        for number in 0..count {
            let Some(receive) = own.alloc_slot() else {
                break;
            };
            fill(number, receive);
            self.rx_stats.record_post();
        }
        self.try_process(inner);
        Ok(())
    }

    /// Continues after a receive was posted to the shared context that the channel waited on with `handle`.
    /// Any context.
    pub(super) fn resume(self: &Arc<Self>, handle: ListBox<RxHandle>) {
        let mut inner = self.inner.lock();
        inner.receives.return_handle(handle);
        self.try_process(inner);
    }

    /// Checks, with lockdep, that the caller holds the channel's lock.
    #[inline(always)]
    pub(super) fn assert_locked(&self) {
        assert_held(&self.inner);
    }

    /// Requests that the channel continues when a reader frees a slot in the completion queue, for which a
    /// message for a shared receive waits. The caller holds the lock.
    pub(super) fn await_cq_slot(&self) {
        self.assert_locked();
        // A full barrier: the caller tries to reserve a slot again after this.
        let _ = self.awaits_cq_slot.xchg(1, Full);
    }

    /// Posts a transmit, whose completion the caller has reserved. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if no slot is free, -FI_ENOTCONN once transmits are refused or the channel has ended.
    pub(super) fn post_transmit(
        self: &Arc<Self>,
        kind: OpKind,
        info: CompInfo,
        source_data: SourceData,
    ) -> Result {
        let len = kind.len();
        let needs_receive = kind.consumes_receive();
        let mut inner = self.inner.lock();
        if !inner.accepts_transmits() {
            return Err(Errno::ENOTCONN);
        }
        let is_ready = inner.is_idle() && (!needs_receive || inner.fetch_receive(self));
        let Some(op) = inner.tx_queue.alloc_slot() else {
            return Err(self.reject_full());
        };
        op.init(kind, info, source_data, is_ready);
        self.tx_stats.record_start(info.flags, len);
        if is_ready && len > MAX_LOCKED_COPY {
            inner.is_processing = true;
            drop(inner);
            self.process();
        } else if is_ready {
            self.process_short(inner, needs_receive);
        }
        Ok(())
    }

    /// Counts a transmit that finds the queue full; returns -FI_EAGAIN. The caller holds the lock.
    #[cold]
    fn reject_full(&self) -> Errno {
        self.tx_stats.record_eagain();
        if let Ok(sender) = self.tx_comp_sink() {
            sender.cq.set_slot_waiter();
        }
        Errno::EAGAIN
    }

    /// Sends a short message at once if no transmit is ahead of it and a receive is posted that it fits into.
    /// Such a message is not queued, as an entry costs more than the copy. Returns false otherwise, and the
    /// caller [posts](Self::post_transmit) it. The caller has reserved the completion. Any context.
    #[inline]
    pub(super) fn try_send(
        self: &Arc<Self>,
        from: &SrcBuf,
        data: Option<u32>,
        info: &CompInfo,
    ) -> bool {
        let len = from.len();
        let (Ok(receiver), Ok(sender)) = (self.rx_side(), self.tx_comp_sink()) else {
            return false;
        };
        let mut inner = self.inner.lock();
        let is_next =
            inner.accepts_transmits() && inner.is_idle() && inner.tx_queue.free_slots() > 0;
        if len > MAX_LOCKED_COPY || !is_next || !inner.fetch_receive(self) {
            return false;
        }
        let Some(receive) = inner.receives.fetched() else {
            return false;
        };
        if receive.dst.len() < len {
            return false;
        }
        from.copy_range_to(0, len, &receive.dst, 0);
        let (rx_info, piece_addr) = (receive.info, receive.piece_addr);
        inner.receives.free_first();
        self.tx_stats.record_start(info.flags, len);
        self.tx_stats.record_completion(Ok(()));
        self.rx_stats.record_completion(Ok(len));
        count_op(&inner.tx_counters, info.flags, true);
        count_op(&inner.rx_counters, rx_info.flags, true);
        let rx_comp = RxCompletion {
            len,
            data,
            is_write: false,
            remote_signal: info.remote_signal,
        };
        // Reported under the lock, which keeps completions in the order of the posts.
        receiver
            .comp_sink
            .report_receive(&rx_info, piece_addr, &rx_comp);
        sender.report_success(info, sender.new_completion(info));
        true
    }

    /// Refuses transmits from now on.
    pub(super) fn refuse_transmits(&self) {
        self.inner.lock().no_transmits = true;
    }

    /// Returns whether no transmit is posted or in process.
    pub(super) fn is_drained(&self) -> bool {
        let inner = self.inner.lock();
        !inner.is_processing && inner.tx_queue.is_empty()
    }

    /// Reports the statistics of the sending side.
    pub(super) fn fill_tx_info(&self, info: &mut ObjectInfo<'_>) {
        let _inner = self.inner.lock();
        self.tx_stats.report(info);
    }

    /// Reports the statistics of the receiving side.
    pub(super) fn fill_rx_info(&self, info: &mut ObjectInfo<'_>) {
        let mut inner = self.inner.lock();
        let posted = inner.receives.own_fifo().map_or(0, |own| own.len());
        self.rx_stats.report(posted, info);
        self.violations.report(info);
    }
}

/// Continues a channel that waits for a free slot in a completion queue after that queue has been read.
pub(super) struct ProgressWork(Arc<Channel>);

impl ProgressWork {
    /// Creates the progress source of a channel. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn source_of(channel: &Arc<Channel>) -> Result<Arc<dyn ProgressSource>> {
        let source: Arc<dyn ProgressSource> = new_arc(Self(channel.clone()))?;
        Ok(source)
    }
}

impl ProgressSource for ProgressWork {
    fn progress(&self) -> bool {
        let channel = &self.0;
        // The reader has freed the slot before this call.
        channel.awaits_cq_slot.xchg(0, Full) != 0 && channel.try_process(channel.inner.lock())
    }

    fn arm(&self) {
        self.progress();
    }
}
