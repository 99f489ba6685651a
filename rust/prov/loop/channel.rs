// SPDX-License-Identifier: GPL-2.0

//! A channel, which is one direction of a connection: the posted receives of one side, and the transmits that
//! the other side has posted for them or for the memory of the receiving side.
//!
//! A transmit is processed in the poster's call if none is queued and the receive that it consumes, if any,
//! has been posted; up to [`SHORT`] bytes under the lock. Otherwise it is queued. One thread at a time
//! processes the queue, in order: a poster of a transmit or receive that finds the first transmit ready and
//! no thread processing. It stops after [`OPERATIONS`] operations or [`BYTES`] bytes, in atomic context
//! before it exceeds [`AT_ONCE`] bytes, and leaves the rest to a work item on the module's workqueue. This
//! bounds the time that a post takes, whichever thread has posted the transmits.
//!
//! Locking: the spinlock guards the queues. Interrupts are off while it is held; it is not held while a long
//! transfer is copied. The locks of completion queues and of memory regions are taken under it.

mod direct;

pub(super) use direct::DirectReceiver;

use super::{
    super::common::{
        iov::SrcBuf,
        mr_table::{
            EpRights,
            MrTable, //
        },
        stats::{
            RxStats,
            TxStats,
            Violations, //
        },
        sw_cq::{
            DetachGuard,
            ProgressHandle,
            ProgressSource, //
        },
    },
    completion::{
        CompInfo,
        CompSink, //
    },
    conn::Conn,
    fifo::Fifo,
    info::NAME,
    op::{
        OpError,
        OpKind,
        PostedOp,
        Receive,
        RxCompletion,
        SourceData, //
    },
    rx_queue::{
        RxHandle,
        RxQueue,
        SrxAttachment, //
    },
};
use crate::{
    abi::{
        context::{
            self,
            Handlers, //
        },
        lock::{
            FastLockIrq,
            FastLockIrqGuard, //
        },
        owned_list::ListBox,
        Errno,
        Result, //
    },
    fi::{
        cntr::BoundCounters,
        introspect::ObjectInfo,
        memory::Context, //
    },
};
use core::{
    mem,
    net::SocketAddr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        new_condvar,
        static_lock_class,
        Arc,
        CondVar,
        SetOnce, //
    },
    workqueue::{
        self,
        impl_has_work,
        new_work,
        WorkItem, //
    },
};

/// Largest transfer, in bytes, that is copied under the lock.
const SHORT: usize = 1024;

/// Most operations that one thread processes in a row.
const OPERATIONS: usize = 16;

/// Bytes after which a thread leaves the rest to the work item.
const BYTES: usize = 1 << 20;

/// Most bytes that are copied in a row in atomic context.
const AT_ONCE: usize = 32 << 10;

/// Resources of the receiving side, whose memory is reached by RMA.
pub(super) struct RxSide {
    pub(super) exit: CompSink,
    pub(super) regions: Arc<MrTable>,
    pub(super) rights: EpRights,
}

/// Resources of the sending side.
pub(super) struct TxResources {
    pub(super) exit: CompSink,
    pub(super) orders: Fifo<PostedOp>,
    pub(super) counters: BoundCounters,
    /// Address of the endpoint, once known.
    pub(super) addr: Option<SocketAddr>,
}

/// The side whose operations are returned to the caller that closes it instead of being reported as
/// cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ClosingSide {
    /// No side: both get completions.
    Nobody,
    /// The sending side.
    Sender,
    /// The receiving side.
    Receiver,
}

struct Inner {
    receives: RxQueue,
    /// Queued transmits; the first may be in process.
    orders: Fifo<PostedOp>,
    /// Set while a thread processes transmits.
    is_busy: bool,
    /// Set once no queued transmit is started any more: an operation has failed, or the channel is ending.
    /// [`Channel::end`] reports those that are left as cancelled.
    is_over: bool,
    /// Set by [`Channel::end`]: nothing can be posted any more.
    is_ended: bool,
    /// Set once no receive is posted or matched any more.
    no_receives: bool,
    /// Set once no transmit is posted any more.
    no_transmits: bool,
    /// Set from the removal of a receive until its completion has been written. Other threads that remove
    /// receives wait for that.
    reports_receives: bool,
    /// Counters that are bound for each side's operations, until that side is closed.
    of_sender: Option<BoundCounters>,
    of_receiver: Option<BoundCounters>,
    /// Target of direct calls by the sending side; taken out during a call.
    user: Option<KBox<DirectReceiver>>,
}

/// A channel between two endpoints; see the module.
#[pin_data]
pub(super) struct Channel {
    #[pin]
    inner: FastLockIrq<Inner>,
    /// Notified when `is_busy` or `reports_receives` has been cleared, for [`Channel::end`] and
    /// [`Channel::end_receives`], which wait for that.
    #[pin]
    rest: CondVar,
    #[pin]
    work: workqueue::Work<Channel>,
    /// Set when the receiving endpoint is enabled.
    receiver: SetOnce<RxSide>,
    /// Set when the connection is established.
    sender: SetOnce<CompSink>,
    tie: SetOnce<Arc<Conn>>,
    /// Nonzero while a message for a shared receive waits for a free slot in the completion queue.
    awaits_room: Atomic<u32>,
    /// Statistics; counted under the lock.
    sent: TxStats,
    taken: RxStats,
    /// Counts and logs violations by the sender.
    violations: Violations,
}

impl_has_work! {
    impl HasWork<Self> for Channel { self.work }
}

impl WorkItem for Channel {
    type Pointer = Arc<Channel>;

    fn run(this: Arc<Channel>) {
        this.go_on();
    }
}

/// A transmit and its receive that have left their slots to be processed while other threads may post. The
/// slots are not freed before processing ends.
struct OpMatch {
    order: PostedOp,
    receive: Option<Receive>,
}

/// Result of a processed transmit, to be reported.
struct OpResult {
    order: CompInfo,
    receive: Option<(CompInfo, usize)>,
    outcome: core::result::Result<RxCompletion, OpError>,
}

impl Inner {
    /// Returns whether transmits may still be posted.
    #[inline(always)]
    fn takes_transmits(&self) -> bool {
        !self.is_ended && !self.no_transmits
    }

    /// Returns whether no thread processes transmits and none is queued or refused.
    #[inline(always)]
    fn is_idle(&self) -> bool {
        !self.is_busy && self.orders.is_empty() && !self.is_over
    }

    /// Returns the length of the first queued transmit if it can be processed.
    fn next_len(&mut self, pipe: &Arc<Channel>) -> Option<usize> {
        let order = self.orders.first().filter(|_| !self.is_over)?;
        let (takes, len) = (order.work.takes_receive(), order.work.len());
        let has_all = !takes || self.find_receive(pipe);
        has_all.then_some(len)
    }

    /// Returns whether there is a receive for the first transmit.
    #[inline(always)]
    fn find_receive(&mut self, pipe: &Arc<Channel>) -> bool {
        !self.no_receives && self.receives.find(pipe)
    }

    /// Takes the first transmit, and the receive that it consumes, out of their slots.
    fn next(&mut self) -> Option<OpMatch> {
        let order = mem::replace(self.orders.first_mut()?, PostedOp::idle());
        let receive = match order.work.takes_receive() {
            true => Some(self.receives.next()?),
            false => None,
        };
        self.reports_receives |= receive.is_some();
        Some(OpMatch { order, receive })
    }

    /// Frees the slots of the first transmit and, if it took one, of its receive.
    #[inline]
    fn is_done(&mut self, with_receive: bool) {
        self.orders.give_back();
        if with_receive {
            self.receives.is_over();
        }
    }
}

impl Channel {
    /// Makes a channel with room for `receives` receives of its own. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(receives: usize) -> Result<Arc<Self>> {
        let inner = Inner {
            receives: RxQueue::Own(Fifo::new(receives, Receive::idle)?),
            orders: Fifo::NONE,
            is_busy: false,
            is_over: false,
            is_ended: false,
            no_receives: false,
            no_transmits: false,
            reports_receives: false,
            of_sender: None,
            of_receiver: None,
            user: None,
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                inner <- FastLockIrq::new(inner, c"kofi::loop::Pipe", static_lock_class!()),
                rest <- new_condvar!("kofi::loop::Pipe"),
                work <- new_work!("kofi::loop::Pipe"),
                receiver: SetOnce::new(),
                sender: SetOnce::new(),
                tie: SetOnce::new(),
                awaits_room: Atomic::new(0),
                sent: TxStats::new(),
                taken: RxStats::new(),
                violations: Violations::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Sets the receiving side, which lets receives be posted, or attaches the shared receive context. Called
    /// once.
    pub(super) fn open(
        &self,
        receiver: RxSide,
        counters: BoundCounters,
        share: Option<SrxAttachment>,
    ) {
        let mut inner = self.inner.lock();
        inner.of_receiver = Some(counters);
        let own = share.map(|share| mem::replace(&mut inner.receives, RxQueue::Shared(share)));
        drop(inner);
        drop(own);
        let _ = self.receiver.populate(receiver);
    }

    /// Sets the sending side and its transmit queue. Called once.
    pub(super) fn connect(&self, sender: TxResources, tie: Arc<Conn>) {
        let TxResources {
            exit,
            orders,
            counters,
            addr,
        } = sender;
        if let Some(addr) = addr {
            self.violations.set_peer(addr);
        }
        let _ = self.tie.populate(tie);
        let mut inner = self.inner.lock();
        inner.orders = orders;
        inner.of_sender = Some(counters);
        drop(inner);
        let _ = self.sender.populate(exit);
    }

    /// Returns the receiving side; -FI_EOPBADSTATE before the endpoint is enabled.
    #[inline]
    pub(super) fn receiver(&self) -> Result<&RxSide> {
        self.receiver.as_ref().ok_or(Errno::EOPBADSTATE)
    }

    /// Returns the sink for transmit completions; -FI_ENOTCONN before there is a connection.
    #[inline]
    pub(super) fn sender(&self) -> Result<&CompSink> {
        self.sender.as_ref().ok_or(Errno::ENOTCONN)
    }

    /// Returns how many receives can be posted.
    pub(super) fn receives_left(&self) -> usize {
        self.inner.lock().receives.left()
    }

    /// Returns how many transmits can be posted.
    pub(super) fn transmits_left(&self) -> usize {
        self.inner.lock().orders.left()
    }

    /// Posts `count` receives, each filled in by `fill`, or none of them. The caller has reserved their
    /// completions. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if too few slots are free, -FI_ENOTCONN once the channel has ended, -FI_ENOSYS with shared
    /// receives.
    pub(super) fn receive(
        self: &Arc<Self>,
        count: usize,
        mut fill: impl FnMut(usize, &mut Receive),
    ) -> Result {
        let mut inner = self.inner.lock();
        if inner.is_ended || inner.no_receives {
            return Err(Errno::ENOTCONN);
        }
        let own = inner.receives.own().ok_or(Errno::ENOSYS)?;
        if own.left() < count {
            self.taken.record_eagain();
            if let Ok(receiver) = self.receiver() {
                receiver.exit.await_slot();
            }
            return Err(Errno::EAGAIN);
        }
        for number in 0..count {
            let Some(receive) = own.take() else {
                break;
            };
            fill(number, receive);
            self.taken.record_post();
        }
        self.go(inner);
        Ok(())
    }

    /// Continues after a receive was posted to the shared context that the channel waited on with `ticket`.
    /// Any context.
    pub(super) fn called(self: &Arc<Self>, ticket: ListBox<RxHandle>) {
        let mut inner = self.inner.lock();
        inner.receives.take_back(ticket);
        self.go(inner);
    }

    /// Requests that the channel continues when a reader frees a slot in the completion queue, for which a
    /// message for a shared receive waits.
    pub(super) fn await_room(&self) {
        // A full barrier: the caller tries to reserve a slot again after this.
        let _ = self.awaits_room.xchg(1, Full);
    }

    /// Processes transmits, if one can be processed and no other thread does. Returns whether it did.
    fn go(self: &Arc<Self>, mut inner: FastLockIrqGuard<'_, Inner>) -> bool {
        let goes = !inner.is_busy && inner.next_len(self).is_some();
        if goes {
            inner.is_busy = true;
            drop(inner);
            self.go_on();
        }
        goes
    }

    /// Posts a transmit, whose completion the caller has reserved. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if no slot is free, -FI_ENOTCONN once transmits are refused or the channel has ended.
    pub(super) fn transmit(
        self: &Arc<Self>,
        work: OpKind,
        report: CompInfo,
        loan: SourceData,
    ) -> Result {
        let len = work.len();
        let takes = work.takes_receive();
        let mut inner = self.inner.lock();
        if !inner.takes_transmits() {
            return Err(Errno::ENOTCONN);
        }
        let goes = inner.is_idle() && (!takes || inner.find_receive(self));
        let Some(order) = inner.orders.take() else {
            self.sent.record_eagain();
            if let Ok(sender) = self.sender() {
                sender.await_slot();
            }
            return Err(Errno::EAGAIN);
        };
        order.fill(work, report, loan, goes);
        self.sent.record_start(report.flags, len);
        if goes && len > SHORT {
            inner.is_busy = true;
            drop(inner);
            self.go_on();
        } else if goes {
            self.do_short(inner, takes);
        }
        Ok(())
    }

    /// Sends a short message at once if no transmit is ahead of it and a receive is posted that it fits into.
    /// Such a message is not queued, as an entry costs more than the copy. Returns false otherwise, and the
    /// caller [posts](Self::transmit) it. The caller has reserved the completion. Any context.
    #[inline]
    pub(super) fn send(
        self: &Arc<Self>,
        from: &SrcBuf,
        data: Option<u32>,
        report: &CompInfo,
    ) -> bool {
        let len = from.len();
        let (Ok(receiver), Ok(sender)) = (self.receiver(), self.sender()) else {
            return false;
        };
        let mut inner = self.inner.lock();
        let is_next = inner.takes_transmits() && inner.is_idle() && inner.orders.left() > 0;
        if len > SHORT || !is_next || !inner.find_receive(self) {
            return false;
        }
        let Some(receive) = inner.receives.first() else {
            return false;
        };
        if receive.into.len() < len {
            return false;
        }
        from.copy_range_to(0, len, &receive.into, 0);
        let (taken, piece) = (receive.whole_report(), receive.piece);
        inner.receives.is_over();
        self.sent.record_start(report.flags, len);
        self.sent.record_completion(Ok(()));
        self.taken.record_completion(Ok(len));
        count(&inner.of_sender, report.flags, true);
        count(&inner.of_receiver, taken.flags, true);
        let arrival = RxCompletion {
            len,
            data,
            is_write: false,
            is_signal: report.is_signal,
        };
        // Reported under the lock, which keeps completions in the order of the posts.
        receiver.exit.arrived(&taken, piece, &arrival);
        sender.done(report, sender.describe(report));
        true
    }

    /// Processes the first transmit, which is short and the only one, under the lock.
    #[inline]
    fn do_short(&self, mut inner: FastLockIrqGuard<'_, Inner>, with_receive: bool) {
        let Some(order) = inner.orders.first() else {
            return;
        };
        let receive = match with_receive {
            true => inner.receives.first(),
            false => None,
        };
        let story = self.execute(order, receive);
        inner.is_done(with_receive);
        self.count(&inner, &story);
        if story.outcome.is_err() {
            inner.is_over = true;
        }
        // Reported under the lock, which keeps completions in the order of the posts.
        self.tell(&story);
    }

    fn execute(&self, order: &PostedOp, receive: Option<&Receive>) -> OpResult {
        let outcome = match self.receiver() {
            Ok(receiver) => order.execute((&receiver.regions, receiver.rights), receive),
            Err(errno) => Err(OpError::Refused(errno)),
        };
        OpResult {
            order: order.report,
            receive: receive.map(|receive| (receive.whole_report(), receive.piece)),
            outcome,
        }
    }

    /// Processes transmits within the limits of one run. The caller has set `is_busy`.
    fn go_on(self: &Arc<Self>) {
        let (mut operations, mut bytes) = (0, 0);
        let may_sleep = context::may_sleep();
        let mut inner = self.inner.lock();
        while let Some(len) = inner.next_len(self) {
            let is_much = !may_sleep && bytes + len > AT_ONCE;
            if operations == OPERATIONS || bytes >= BYTES || is_much {
                drop(inner);
                // `is_busy` stays set until the work item has run.
                let _ = Handlers::queue().enqueue(self.clone());
                return;
            }
            // Examined in place: a copy is too large for the stack of an interrupt.
            let next = inner.next();
            let Some(found) = &next else {
                break;
            };
            drop(inner);
            let story = self.execute(&found.order, found.receive.as_ref());
            operations += 1;
            bytes += len;
            inner = self.inner.lock();
            // Freed before the completion is reported: its reader may post the next operation at once.
            inner.is_done(found.receive.is_some());
            self.count(&inner, &story);
            if story.outcome.is_err() {
                inner.is_over = true;
            }
            drop(inner);
            self.tell(&story);
            inner = self.inner.lock();
            if found.receive.is_some() {
                inner.reports_receives = false;
                if inner.no_receives {
                    self.rest.notify_all();
                }
            }
        }
        inner.is_busy = false;
        let is_waited_for = inner.is_over || inner.no_transmits;
        drop(inner);
        if is_waited_for {
            self.rest.notify_all();
        }
    }

    /// Counts the result of an operation, under the lock.
    #[inline]
    fn count(&self, inner: &Inner, story: &OpResult) {
        let arrival = story.outcome.as_ref().ok();
        let result = arrival.map(|arrival| arrival.len).ok_or(Errno::EIO);
        self.sent.record_completion(result.map(|_| ()));
        count(&inner.of_sender, story.order.flags, result.is_ok());
        let Some((report, _)) = &story.receive else {
            return;
        };
        self.taken.record_completion(result);
        // A write with remote CQ data consumes the receive, but is no message, and the receive counter leaves
        // it out.
        if !arrival.is_some_and(|arrival| arrival.is_write) {
            count(&inner.of_receiver, report.flags, result.is_ok());
        }
    }

    /// Reports a result to both sides. `is_busy`, or the lock, excludes other reporters.
    #[inline(never)]
    fn tell(&self, story: &OpResult) {
        let (Ok(receiver), Ok(sender)) = (self.receiver(), self.sender()) else {
            return;
        };
        let OpResult {
            order,
            receive,
            outcome,
        } = story;
        match outcome {
            Ok(arrival) => {
                if let Some((report, piece)) = receive {
                    receiver.exit.arrived(report, *piece, arrival);
                }
                sender.done(order, sender.describe(order));
            }
            Err(fault) => {
                if fault.is_violation() {
                    let what = fmt!("its connection is closed: memory that is not open to it");
                    self.violations.record(&NAME, what);
                }
                // A refused operation has not used the receive that it matched, which is cancelled.
                let (errno, of_receive, dropped) = match *fault {
                    OpError::TooLong(dropped) => (Errno::ECONNRESET, Errno::ETRUNC, dropped),
                    OpError::Refused(errno) => (errno, Errno::ECANCELED, 0),
                };
                if let Some((report, piece)) = receive {
                    receiver.exit.failed(report, *piece, of_receive, dropped);
                }
                sender.failed(order, 0, errno, 0);
                // As on a wire, a failed operation ends the connection.
                if let Some(tie) = self.tie.as_ref() {
                    tie.break_off();
                }
            }
        }
    }

    /// Refuses transmits from now on.
    pub(super) fn refuse_transmits(&self) {
        self.inner.lock().no_transmits = true;
    }

    /// Ends the receives only. When this returns, posted receives have been reported as cancelled, except shared
    /// ones. Transmits that need a receive wait from then on until the connection ends. May sleep.
    pub(super) fn end_receives(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.no_receives = true;
        while inner.reports_receives {
            self.rest.wait(&mut inner);
        }
        let gone = self.take_receives(&mut inner);
        // Concurrent callers that end the receives or the connection wait for this one.
        inner.reports_receives = true;
        drop(inner);
        self.give_up_receives(gone, false, &mut |_| {});
        self.inner.lock().reports_receives = false;
        self.rest.notify_all();
    }

    /// Removes the receives, and counts each of the endpoint's own as cancelled.
    fn take_receives(&self, inner: &mut Inner) -> RxQueue {
        let mut receives = mem::replace(&mut inner.receives, RxQueue::NONE);
        for receive in receives.own().iter().flat_map(|own| own.iter()) {
            self.taken.record_completion(Err(Errno::ECANCELED));
            count(&inner.of_receiver, receive.report.flags, false);
        }
        receives
    }

    /// Reports removed receives as cancelled, or passes them to `reclaim`; shared ones are posted again. Called
    /// without the lock. May sleep.
    fn give_up_receives(
        self: &Arc<Self>,
        receives: RxQueue,
        is_leaver: bool,
        reclaim: &mut dyn FnMut(Context),
    ) {
        let own = match receives {
            RxQueue::Own(own) => own,
            RxQueue::Shared(share) => return share.leave(self),
        };
        let Ok(receiver) = self.receiver() else {
            return;
        };
        for receive in own.iter() {
            // A multi-receive buffer is returned with its last piece.
            let mut nobody = |_: Context| {};
            let reclaim: &mut dyn FnMut(Context) = match receive.piece == 0 || receive.is_last {
                true => reclaim,
                false => &mut nobody,
            };
            let what = (&receive.whole_report(), receive.piece);
            give_up(&receiver.exit, what, is_leaver, reclaim);
        }
    }

    /// Returns whether no transmit is posted or in process.
    pub(super) fn has_ended(&self) -> bool {
        let inner = self.inner.lock();
        !inner.is_busy && inner.orders.is_empty()
    }

    /// Ends the channel: when this returns, no transmit is processed any more. Posted operations have been
    /// reported as cancelled, except those of the side `leaver`, whose contexts have been passed to
    /// `reclaim`, and shared receives. May sleep.
    pub(super) fn end(self: &Arc<Self>, leaver: ClosingSide, reclaim: &mut dyn FnMut(Context)) {
        let mut inner = self.inner.lock();
        inner.is_over = true;
        inner.is_ended = true;
        while inner.is_busy || inner.reports_receives {
            self.rest.wait(&mut inner);
        }
        let orders = mem::replace(&mut inner.orders, Fifo::NONE);
        let user = inner.user.take();
        // Operations that are returned to the closing side are not counted as errors.
        let gone = match leaver {
            ClosingSide::Nobody => None,
            ClosingSide::Sender => inner.of_sender.take(),
            ClosingSide::Receiver => inner.of_receiver.take(),
        };
        for order in orders.iter() {
            self.sent.record_completion(Err(Errno::ECANCELED));
            count(&inner.of_sender, order.report.flags, false);
        }
        let receives = self.take_receives(&mut inner);
        drop(inner);
        drop((gone, user));
        for order in orders.iter() {
            if let Ok(sender) = self.sender() {
                let is_leaver = leaver == ClosingSide::Sender;
                give_up(sender, (&order.report, 0), is_leaver, reclaim);
            }
        }
        self.give_up_receives(receives, leaver == ClosingSide::Receiver, reclaim);
    }

    /// Reports the statistics of the sending side.
    pub(super) fn tell_sent(&self, told: &mut ObjectInfo<'_>) {
        let _inner = self.inner.lock();
        self.sent.report(told);
    }

    /// Reports the statistics of the receiving side.
    pub(super) fn tell_taken(&self, told: &mut ObjectInfo<'_>) {
        let inner = self.inner.lock();
        self.taken.report(inner.receives.waiting(), told);
        self.violations.report(told);
    }
}

/// Continues a channel that waits for a free slot in a completion queue after that queue has been read.
pub(super) struct ProgressWork {
    // Dropped in this order.
    pipe: Arc<Channel>,
    _farewell: DetachGuard,
}

impl ProgressWork {
    /// Makes the progress source of a channel. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn of(pipe: &Arc<Channel>) -> Result<ProgressHandle> {
        ProgressHandle::new(|farewell| Self {
            pipe: pipe.clone(),
            _farewell: farewell,
        })
    }
}

impl ProgressSource for ProgressWork {
    fn progress(&self) -> bool {
        let pipe = &self.pipe;
        // The reader has freed the slot before this call.
        pipe.awaits_room.xchg(0, Full) != 0 && pipe.go(pipe.inner.lock())
    }

    fn arm(&self) {
        self.progress();
    }
}

/// Counts an operation, if a counter is bound for it.
#[inline]
fn count(counters: &Option<BoundCounters>, flags: u64, is_done: bool) {
    let counter = counters
        .as_ref()
        .and_then(|counters| counters.counter_for(flags));
    match (counter, is_done) {
        (Some(counter), true) => counter.add(1),
        (Some(counter), false) => counter.add_errors(1),
        (None, _) => {}
    }
}

/// Reports an operation as cancelled, or returns it to the side that closes.
fn give_up(
    exit: &CompSink,
    (report, piece): (&CompInfo, usize),
    is_leaver: bool,
    reclaim: &mut dyn FnMut(Context),
) {
    match is_leaver {
        true => {
            exit.release();
            reclaim(report.context);
        }
        false => exit.failed(report, piece, Errno::ECANCELED, 0),
    }
}
