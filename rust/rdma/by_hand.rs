// SPDX-License-Identifier: GPL-2.0

//! A connection as a careful consumer of verbs writes it by hand, for what the fabric interfaces are to
//! be compared with.
//!
//! One queue pair, a completion queue for each direction, memory that is mapped once; whoever waits arms
//! the queue and sleeps. There is no more than one thread needs who sends, receives, and waits: no
//! counters, no event queue, no second endpoint on a queue.
//!
//! Whoever waits here is asked now and then whether to go on: [`GoOn`].

mod buffer;
mod lent;
mod listener;
mod meeting;
mod side;

pub(crate) use buffer::Buffer;
pub(crate) use lent::Lent;
pub(crate) use listener::{
    Listener,
    Request, //
};
pub(crate) use meeting::DATA;

use super::{
    cm::{
        CmId,
        ConnParam, //
    },
    completion::TimedCompletion,
    cq::Cq,
    device::{
        Device,
        NotifierRegistration, //
    },
    device_attr::AtomicCap,
    mr::{
        Access,
        Right, //
    },
    net::{
        Net,
        SockAddr, //
    },
    pd::Pd,
    qp::{
        Qp,
        QpCaps,
        QpEvent,
        QpEventHandler, //
    },
    siw_kick::{
        self,
        SiwKicks, //
    },
    wr::{
        RecvWr,
        RemoteAddr,
        SendFlag,
        SendFlags,
        SendWr, //
    },
    wr_template::{
        RecvTemplate,
        SendTemplate,
        WrOp, //
    },
};
use crate::compat::ENOTCONN;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use meeting::{
    Meeting,
    Stage, //
};
use side::{
    Patience,
    Side, //
};

/// Whether who waits is to go on; what it waited for has failed with `EINTR` if not.
pub(crate) type GoOn = fn() -> bool;

/// As long as that, nobody is asked.
const TICK_MS: u32 = 100;

/// How long rdma_cm may look for the peer, and then for the path to it.
const RESOLVE_MS: u32 = 2000;

/// As the endpoints of the verbs provider have them, with which this is compared.
const RETRIES: u8 = 6;
const RNR_RETRIES: u8 = 7;
const MIN_RNR_TIMER: u8 = 12;

/// Completions and rdma_cm tell everything.
struct Deaf;

impl QpEventHandler for Deaf {
    fn handle_event(&self, _number: u32, _event: QpEvent) {}
}

/// One end, connected or not.
struct End {
    /// None when the end is being dropped.
    id: Option<CmId>,
    _watch: NotifierRegistration,
    meeting: Arc<Meeting>,
    sender: SendTemplate,
    receiver: RecvTemplate,
    patience: Patience,
    qp: Arc<Qp>,
    /// What is posted is freed with these: behind the queue pair.
    sends: Side,
    receives: Side,
    pd: Arc<Pd>,
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            if self.meeting.is_connected() {
                let _ = id.disconnect();
            }
        }
        // Nobody calls it any more: the last reference to the queue pair is ours.
        self.meeting.leave();
    }
}

impl End {
    /// Equips an id whose device is known.
    fn new(id: CmId, meeting: Arc<Meeting>, depth: usize) -> Result<KBox<Self>> {
        let device = id.device().ok_or(ENODEV)?;
        let watch = device.register_notifier(meeting.clone())?;
        let pd = Pd::new(device.try_get()?)?;
        let depth = u32::try_from(depth)?;
        let queue = |depth| -> Result<_> {
            let came = Arc::pin_init(TimedCompletion::new(), GFP_KERNEL)?;
            let cq = Cq::new(pd.device().clone(), depth, 0, came.clone())?;
            Ok((cq, came))
        };
        let requests = depth + siw_kick::max_kicks(&device);
        let (sent, received) = (queue(requests)?, queue(depth)?);
        let caps = QpCaps {
            max_send_wr: requests,
            max_recv_wr: depth,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let qp = Qp::new(pd.clone(), sent.0.clone(), received.0.clone(), &caps, Deaf)?;
        let qp = Arc::new(qp, GFP_KERNEL)?;
        let access = reach(&pd);
        qp.init(id.port(), access)?;
        meeting.equip(qp.clone(), access);
        id.set_min_rnr_timer(MIN_RNR_TIMER)?;
        let end = try_init!(Self {
            sends: Side::new(sent, depth)?,
            receives: Side::new(received, depth)?,
            id: Some(id),
            _watch: watch,
            meeting,
            sender: SendTemplate::new(qp.clone())?,
            receiver: RecvTemplate::new(qp.clone())?,
            patience: Patience {
                qp: qp.clone(),
                nudges: SiwKicks::default(),
            },
            qp,
            pd,
        }? Error);
        KBox::init(end, GFP_KERNEL)
    }

    fn id(&self) -> Result<&CmId> {
        self.id.as_ref().ok_or(ENOTCONN)
    }

    fn param<'a>(&self, data: &'a [u8], responder: u8, initiator: u8) -> ConnParam<'a> {
        let attributes = self.pd.device().attributes();
        let within = |asked: u8, most: u32| asked.min(u8::try_from(most).unwrap_or(u8::MAX));
        ConnParam {
            private_data: data,
            responder_resources: within(responder, attributes.max_qp_rd_atom),
            initiator_depth: within(initiator, attributes.max_qp_init_rd_atom),
            flow_control: true,
            retry_count: RETRIES,
            rnr_retry_count: RNR_RETRIES,
            srq: false,
            qp_num: self.qp.qp_num(),
        }
    }

    fn receive(&mut self, mut buffer: KBox<Buffer>) -> Result {
        let piece = buffer.lend(None)?;
        let slot = self.receives.keep(buffer)?;
        let posted = match piece {
            // To some devices a length of 0 is all of memory.
            // SAFETY: There is no memory.
            (_, 0) => unsafe { self.qp.post_recv(&RecvWr::new(slot, &[])) },
            // SAFETY: The buffer is mapped, and kept until its completion, or until the queue pair is gone.
            piece => unsafe { self.receiver.post(slot, piece) },
        };
        posted.inspect_err(|_| drop(self.receives.give_back(slot)))
    }

    fn transmit(&mut self, mut buffer: KBox<Buffer>, len: usize, ask: WrOp) -> Result {
        let piece = buffer.lend(Some(len))?;
        let slot = self.sends.keep(buffer)?;
        let flags = SendFlags::from(SendFlag::Signaled);
        let posted = match piece {
            // SAFETY: As in `receive`.
            (_, 0) => unsafe { self.qp.post_send(&SendWr::send(slot, &[], flags)) },
            // SAFETY: As in `receive`.
            piece => unsafe { self.sender.post(slot, piece, ask, flags) },
        };
        posted.inspect_err(|_| drop(self.sends.give_back(slot)))
    }
}

/// What peers may do on a device.
fn reach(pd: &Pd) -> Access {
    let access = Access::from(Right::LocalWrite) | Right::RemoteWrite | Right::RemoteRead;
    match pd.device().attributes().atomic_cap {
        AtomicCap::None => access,
        AtomicCap::Hca | AtomicCap::Global => access | Right::RemoteAtomic,
    }
}

/// An end that is to be connected: receives can be posted.
pub(crate) struct Unconnected {
    end: KBox<End>,
    /// Of the peer's, if it has asked.
    depths: (u8, u8),
}

impl Unconnected {
    /// One for a peer, on which `depth` requests can be posted in each direction. May sleep.
    ///
    /// # Errors
    ///
    /// `EHOSTUNREACH` and its kind, `EINTR`, `ENODEV`, `ENOMEM`.
    pub(crate) fn new(
        net: &Net,
        device: &Device,
        (local, peer): (Option<&SockAddr>, &SockAddr),
        depth: usize,
        go_on: GoOn,
    ) -> Result<Self> {
        let meeting = Meeting::new()?;
        let id = CmId::new(net, Some(meeting.clone()))?;
        id.restrict_to(device)?;
        id.resolve_addr(local, peer, RESOLVE_MS)?;
        meeting.wait(Stage::Found, go_on)?;
        Ok(Self {
            end: End::new(id, meeting, depth)?,
            depths: (u8::MAX, u8::MAX),
        })
    }

    /// What its memory is to be mapped in.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.end.pd
    }

    /// Posts `buffer` for a message.
    ///
    /// # Errors
    ///
    /// `ENOSPC` where too many are, and the driver's: the buffer is freed.
    pub(crate) fn receive(&mut self, buffer: KBox<Buffer>) -> Result {
        self.end.receive(buffer)
    }

    /// Asks the peer for the connection. May sleep.
    ///
    /// # Errors
    ///
    /// `ECONNREFUSED` with what the peer has said, if anything; `ETIMEDOUT`, `EINTR`, and the driver's.
    pub(crate) fn connect(
        mut self,
        data: &[u8],
        go_on: GoOn,
    ) -> core::result::Result<Connection, (Error, [u8; DATA])> {
        let param = self.end.param(data, self.depths.0, self.depths.1);
        self.end
            .id()
            .and_then(|id| id.lock().connect(&param))
            .and_then(|()| self.end.meeting.wait(Stage::Connected, go_on))
            .map_err(|error| (error, self.end.meeting.data()))?;
        // The peer may not look yet. It need not do this: it is not the first to speak.
        self.end.patience.nudges = SiwKicks::for_device(self.end.pd.device());
        Ok(Connection(self.end))
    }

    /// Gives the peer, who has asked, the connection, and leaves the first word to it. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` when it has gone, `EINTR`, and the driver's.
    pub(crate) fn accept(self, data: &[u8], go_on: GoOn) -> Result<Connection> {
        let end = &self.end;
        let param = end.param(data, self.depths.0, self.depths.1);
        {
            let locked = end.id()?.lock();
            if locked.uses_ib_cm() {
                end.meeting.make_ready(&locked, &param)?;
            }
            locked.accept(&param)?;
        }
        end.meeting.wait(Stage::Connected, go_on)?;
        Ok(Connection(self.end))
    }
}

/// One end of a connection. Dropping it, which may sleep, ends the connection.
pub(crate) struct Connection(KBox<End>);

impl Connection {
    /// What the peer has said with its answer, as far as it is known.
    pub(crate) fn data(&self) -> [u8; DATA] {
        self.0.meeting.data()
    }

    /// What its memory is to be mapped in.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.0.pd
    }

    /// Posts `buffer` for a message. Errors as of [`Unconnected::receive`].
    #[inline]
    pub(crate) fn receive(&mut self, buffer: KBox<Buffer>) -> Result {
        self.0.receive(buffer)
    }

    /// Sends the first `len` bytes of `buffer`.
    ///
    /// # Errors
    ///
    /// `EINVAL` where it has less, `ENOSPC` where too many are posted, and the driver's: the buffer is
    /// freed.
    #[inline]
    pub(crate) fn send(&mut self, buffer: KBox<Buffer>, len: usize) -> Result {
        self.0.transmit(buffer, len, WrOp::Send)
    }

    /// Writes them to the peer's memory. Errors as of [`Self::send`].
    #[inline]
    pub(crate) fn write(&mut self, buffer: KBox<Buffer>, len: usize, to: RemoteAddr) -> Result {
        self.0.transmit(buffer, len, WrOp::Write(to))
    }

    /// Reads as many from there. Errors as of [`Self::send`].
    #[inline]
    pub(crate) fn read(&mut self, buffer: KBox<Buffer>, len: usize, from: RemoteAddr) -> Result {
        self.0.transmit(buffer, len, WrOp::Read(from))
    }

    /// Adds to 8 bytes there, which come into `buffer` as they were. Errors as of [`Self::send`].
    #[inline]
    pub(crate) fn fetch_add(&mut self, buffer: KBox<Buffer>, at: RemoteAddr, add: u64) -> Result {
        let len = size_of::<u64>();
        self.0.transmit(buffer, len, WrOp::FetchAdd(at, add))
    }

    /// Replaces 8 bytes there that equal `compare`; they come into `buffer` as they were. Errors as of
    /// [`Self::send`].
    #[inline]
    pub(crate) fn compare_swap(
        &mut self,
        buffer: KBox<Buffer>,
        at: RemoteAddr,
        compare: u64,
        swap: u64,
    ) -> Result {
        let len = size_of::<u64>();
        self.0
            .transmit(buffer, len, WrOp::CmpSwap(at, compare, swap))
    }

    /// Waits for something posted in the direction of the peer to be over: gives its buffer back. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ECANCELED` when the connection has ended, `EIO` for another failure; `EINTR`.
    pub(crate) fn sent(&mut self, go_on: GoOn) -> Result<KBox<Buffer>> {
        let end = &mut *self.0;
        Ok(end.sends.next(&mut end.patience, go_on)?.0)
    }

    /// Waits for a message: gives the buffer that it is in, and its length. May sleep; errors as of
    /// [`Self::sent`].
    pub(crate) fn received(&mut self, go_on: GoOn) -> Result<(KBox<Buffer>, usize)> {
        let end = &mut *self.0;
        end.receives.next(&mut end.patience, go_on)
    }

    /// Waits until the peer has left. May sleep.
    ///
    /// # Errors
    ///
    /// `EINTR`.
    pub(crate) fn end(&self, go_on: GoOn) -> Result {
        match self.0.meeting.wait(Stage::Over, go_on) {
            Err(error) if error == EINTR => Err(error),
            _ => Ok(()),
        }
    }
}
