// SPDX-License-Identifier: GPL-2.0

//! One direction of a connection: the receives of one side, and what the other has posted that they, or
//! the memory of the first, are for.
//!
//! A transmit that finds nothing before it, and all that it needs, is done at once; if it is short, under the
//! lock. Another one waits. Whoever finds that the first of those can be done, and nobody at work, works:
//! for others too, in order, up to [`OPERATIONS`] or [`BYTES`], or [`AT_ONCE`] where it may not sleep. The rest
//! is left to a work item of the module's, so that nobody works for long, and nothing waits for somebody to
//! come.
//!
//! The spinlock guards the queues, and is held with interrupts off, but while something long is copied. Those
//! of completion queues and of regions are taken under it.

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

/// What is copied under the lock.
const SHORT: usize = 1024;

/// How many operations somebody does in one go.
const OPERATIONS: usize = 16;

/// How many bytes somebody moves before the rest is left to others.
const BYTES: usize = 1 << 20;

/// And where it may not sleep.
const AT_ONCE: usize = 32 << 10;

/// The side that receives, whose memory is reached.
pub(super) struct RxSide {
    pub(super) exit: CompSink,
    pub(super) regions: Arc<MrTable>,
    pub(super) rights: EpRights,
}

/// What a side sends with.
pub(super) struct TxResources {
    pub(super) exit: CompSink,
    pub(super) orders: Fifo<PostedOp>,
    pub(super) counters: BoundCounters,
    /// Address of the endpoint, once known.
    pub(super) addr: Option<SocketAddr>,
}

/// Whose operations are given back, and to whom they are told otherwise.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ClosingSide {
    /// Nobody: both are told.
    Nobody,
    /// The side that sends.
    Sender,
    /// The side that receives.
    Receiver,
}

struct Inner {
    receives: RxQueue,
    /// What waits for its turn; whatever is being done is the first.
    orders: Fifo<PostedOp>,
    /// Somebody is at work.
    is_busy: bool,
    /// Nothing is begun any more: what is posted is given up soon.
    is_over: bool,
    /// Nothing is posted any more.
    is_ended: bool,
    /// Set once no receive is posted or matched any more.
    no_receives: bool,
    /// Set once no transmit is posted any more.
    no_transmits: bool,
    /// Set while completions of removed receives are not in the queue yet.
    reports_receives: bool,
    /// What the operations of each side are counted by, until it leaves.
    of_sender: Option<BoundCounters>,
    of_receiver: Option<BoundCounters>,
    /// Whom the side that sends may call on; taken out while it does.
    user: Option<KBox<DirectReceiver>>,
}

/// See the module.
#[pin_data]
pub(super) struct Channel {
    #[pin]
    inner: FastLockIrq<Inner>,
    /// Signalled when no thread processes transfers any more, when no transfer waits, and when the last receives
    /// have been reported.
    #[pin]
    rest: CondVar,
    #[pin]
    work: workqueue::Work<Channel>,
    /// From when the side that receives has been enabled.
    receiver: SetOnce<RxSide>,
    /// From when there is a connection.
    sender: SetOnce<CompSink>,
    tie: SetOnce<Arc<Conn>>,
    /// What has come for receives that are shared waits for room to tell of it.
    awaits_room: Atomic<u32>,
    /// Counted under the lock.
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

/// Something that is done while others may post, and what for. Their slots are not given back before.
struct OpMatch {
    order: PostedOp,
    receive: Option<Receive>,
}

/// What has come of it, to be told.
struct OpResult {
    order: CompInfo,
    receive: Option<(CompInfo, usize)>,
    outcome: core::result::Result<RxCompletion, OpError>,
}

impl Inner {
    /// Whether something may be posted still.
    #[inline(always)]
    fn takes_transmits(&self) -> bool {
        !self.is_ended && !self.no_transmits
    }

    /// Whether nobody is at work, and nothing is to be done before what is posted next.
    #[inline(always)]
    fn is_idle(&self) -> bool {
        !self.is_busy && self.orders.is_empty() && !self.is_over
    }

    /// How many bytes the first of what waits moves, if it can be done.
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

    /// Takes it out of its slot, and what it takes.
    fn next(&mut self) -> Option<OpMatch> {
        let order = mem::replace(self.orders.first_mut()?, PostedOp::idle());
        let receive = match order.work.takes_receive() {
            true => Some(self.receives.next()?),
            false => None,
        };
        self.reports_receives |= receive.is_some();
        Some(OpMatch { order, receive })
    }

    /// The first has been done, with a receive or without.
    #[inline]
    fn is_done(&mut self, with_receive: bool) {
        self.orders.give_back();
        if with_receive {
            self.receives.is_over();
        }
    }
}

impl Channel {
    /// One with room for so many receives of its own. May sleep.
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

    /// The side that receives is there: receives can be posted, or those are taken that it shares. Once.
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

    /// The side that sends is there, with its transmits. Once.
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

    /// Where receives complete; -FI_EOPBADSTATE before there are any.
    #[inline]
    pub(super) fn receiver(&self) -> Result<&RxSide> {
        self.receiver.as_ref().ok_or(Errno::EOPBADSTATE)
    }

    /// Where transmits complete; -FI_ENOTCONN before there is a connection.
    #[inline]
    pub(super) fn sender(&self) -> Result<&CompSink> {
        self.sender.as_ref().ok_or(Errno::ENOTCONN)
    }

    /// How many receives can be posted.
    pub(super) fn receives_left(&self) -> usize {
        self.inner.lock().receives.left()
    }

    /// How many transmits can.
    pub(super) fn transmits_left(&self) -> usize {
        self.inner.lock().orders.left()
    }

    /// Posts `count` receives, each as `fill` has it, or none of them. There is room to tell of them. Any
    /// context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN where there are not as many, -FI_ENOTCONN when it is over, -FI_ENOSYS where they are shared.
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

    /// A receive that is shared has been posted, which this has waited for with `ticket`. Any context.
    pub(super) fn called(self: &Arc<Self>, ticket: ListBox<RxHandle>) {
        let mut inner = self.inner.lock();
        inner.receives.take_back(ticket);
        self.go(inner);
    }

    /// What has come for a receive that is shared waits for room to tell of it: whoever reads then has it go on.
    pub(super) fn await_room(&self) {
        // Before there is a look whether there is some now.
        let _ = self.awaits_room.xchg(1, Full);
    }

    /// Works, if there is something to be done and nobody at work.
    fn go(self: &Arc<Self>, mut inner: FastLockIrqGuard<'_, Inner>) -> bool {
        let goes = !inner.is_busy && inner.next_len(self).is_some();
        if goes {
            inner.is_busy = true;
            drop(inner);
            self.go_on();
        }
        goes
    }

    /// Posts a transmit, for which there is room to tell of it. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN where there are too many, -FI_ENOTCONN when it is over.
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

    /// Sends a message at once that is short, if nothing is before it and a receive is there that it fits into:
    /// nothing is kept of it, as an order costs more than the copy. Otherwise this is false, and it is to be
    /// [posted](Self::transmit). There is room to tell of it. Any context.
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
        // Under the lock: who posts next is told next.
        receiver.exit.arrived(&taken, piece, &arrival);
        sender.done(report, sender.describe(report));
        true
    }

    /// Does the first, which is short and the only one, with a receive or without.
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
        // Under the lock: who posts next is told next.
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

    /// Does what can be done. The caller has made it busy.
    fn go_on(self: &Arc<Self>) {
        let (mut operations, mut bytes) = (0, 0);
        let may_sleep = context::may_sleep();
        let mut inner = self.inner.lock();
        while let Some(len) = inner.next_len(self) {
            let is_much = !may_sleep && bytes + len > AT_ONCE;
            if operations == OPERATIONS || bytes >= BYTES || is_much {
                drop(inner);
                // It stays busy until that has been here.
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
            // Before it is told: who has been may post the next.
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

    /// Counts what has come of something, under the lock.
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
        // Data of a write have taken it, which is no message.
        if !arrival.is_some_and(|arrival| arrival.is_write) {
            count(&inner.of_receiver, report.flags, result.is_ok());
        }
    }

    /// Tells both sides. Nobody else does meanwhile.
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
                // What it would have taken is none of a refusal's.
                let (errno, of_receive, dropped) = match *fault {
                    OpError::TooLong(dropped) => (Errno::ECONNRESET, Errno::ETRUNC, dropped),
                    OpError::Refused(errno) => (errno, Errno::ECANCELED, 0),
                };
                if let Some((report, piece)) = receive {
                    receiver.exit.failed(report, *piece, of_receive, dropped);
                }
                sender.failed(order, 0, errno, 0);
                // As on a wire, that is the end of the connection.
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

    /// Whether no transmit is under way.
    pub(super) fn has_ended(&self) -> bool {
        let inner = self.inner.lock();
        !inner.is_busy && inner.orders.is_empty()
    }

    /// Ends it: nothing is done any more when this returns. What was posted has been told as cancelled, but for
    /// that of the `leaver`, which has been given to `reclaim`, and receives that are shared. May sleep.
    pub(super) fn end(self: &Arc<Self>, leaver: ClosingSide, reclaim: &mut dyn FnMut(Context)) {
        let mut inner = self.inner.lock();
        inner.is_over = true;
        inner.is_ended = true;
        while inner.is_busy || inner.reports_receives {
            self.rest.wait(&mut inner);
        }
        let orders = mem::replace(&mut inner.orders, Fifo::NONE);
        let user = inner.user.take();
        // What is given back is no failure.
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

    /// Tells what those have done who send.
    pub(super) fn tell_sent(&self, told: &mut ObjectInfo<'_>) {
        let _inner = self.inner.lock();
        self.sent.report(told);
    }

    /// And those who receive.
    pub(super) fn tell_taken(&self, told: &mut ObjectInfo<'_>) {
        let inner = self.inner.lock();
        self.taken.report(inner.receives.waiting(), told);
        self.violations.report(told);
    }
}

/// Has what waits for room in a completion queue go on when that has been read.
pub(super) struct ProgressWork {
    // Dropped in this order.
    pipe: Arc<Channel>,
    _farewell: DetachGuard,
}

impl ProgressWork {
    /// That of a pipe. May sleep.
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
        // Room has been given back before that.
        pipe.awaits_room.xchg(0, Full) != 0 && pipe.go(pipe.inner.lock())
    }

    fn arm(&self) {
        self.progress();
    }
}

/// Counts an operation, if that is counted.
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

/// Says that nothing came of an operation, or gives it back to who leaves.
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
