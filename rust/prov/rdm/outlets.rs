// SPDX-License-Identifier: GPL-2.0

//! Where the consumer is told what has come of its operations.

use super::{
    endpoint::Role,
    matching::Title,
    office::Office,
    order::Report,
    receive::{
        Kind,
        Receive, //
    },
    refused::Poster,
    row::Row,
    stats::{
        RxStats,
        TxStats, //
    },
    sw_cq::SwCq,
    wire::Message, //
};
use crate::{
    abi::{
        fi_addr_t,
        flags::*,
        Errno,
        Result,
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        av::AddressVector,
        cntr::BoundCounters,
        cq::{
            Completion,
            CqEntry,
            ErrData,
            Failure, //
        },
        memory::Context, //
    },
    util::owned_list::ListBox, //
};
use core::mem;
use kernel::sync::Arc;

/// Somebody who looks for a message, or has claimed one.
pub(super) struct Looking {
    /// What it gets back.
    pub(super) context: Context,
    /// Whether a success is told too, where not each is.
    pub(super) is_wanted: bool,
}

/// Where what comes of the operations of a transmit context is told.
pub(super) struct Transmits {
    /// To readers.
    pub(super) queue: Arc<SwCq>,
    /// Counted, whether or not somebody is told.
    pub(super) counters: BoundCounters,
    /// Waits for packets.
    pub(super) poster: Arc<Poster>,
}

impl Transmits {
    /// Makes the outlet of a context whose operations complete in `queue`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(queue: &Arc<SwCq>, counters: BoundCounters) -> Result<Self> {
        Ok(Self {
            queue: queue.clone(),
            counters,
            poster: Poster::new(queue)?,
        })
    }
}

/// The same of a receive context.
pub(super) struct Receives {
    /// To readers.
    pub(super) queue: Arc<SwCq>,
    /// Counted, whether or not somebody is told.
    pub(super) counters: BoundCounters,
    /// What the sender of a message is called, if that is told.
    pub(super) sources: Option<Arc<AddressVector>>,
    /// Whether each success is told, whoever wants that.
    pub(super) tells_all: bool,
    /// Whether a message is told of as an error if its sender has no name there.
    pub(super) tells_strangers: bool,
}

/// Where outcomes are told: nowhere, of contexts that are not enabled.
pub(super) struct Outlets {
    /// Of what is sent.
    pub(super) transmits: Row<Option<Transmits>>,
    /// Of what is received.
    pub(super) receives: Row<Option<Receives>>,
    /// Whether peers may write to memory, and send data with that.
    pub(super) hears_writes: bool,
    /// What each has sent, whoever was told.
    pub(super) sent: Row<TxStats>,
    /// And received.
    pub(super) taken: Row<RxStats>,
}

fn count(counters: &BoundCounters, flags: u64, result: Result) {
    match (counters.counter_for(flags), result) {
        (Some(counter), Ok(())) => counter.add(1),
        (Some(counter), Err(_)) => counter.add_errors(1),
        (None, _) => {}
    }
}

impl Outlets {
    /// None yet, of so many contexts. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    #[inline(never)]
    pub(super) fn new(transmits: usize, receives: usize, hears_writes: bool) -> Result<Self> {
        Ok(Self {
            transmits: Row::new(transmits, |_| None)?,
            receives: Row::new(receives, |_| None)?,
            hears_writes,
            sent: Row::new(transmits, |_| TxStats::new())?,
            taken: Row::new(receives, |_| RxStats::new())?,
        })
    }

    /// Nobody is told any more of what a context has asked for.
    pub(super) fn take(
        &mut self,
        role: Role,
        context: u8,
    ) -> (Option<Transmits>, Option<Receives>) {
        let transmits = match role.sends() {
            true => self.transmits.of_mut(context).take(),
            false => None,
        };
        let receives = match role.receives() {
            true => self.receives.of_mut(context).take(),
            false => None,
        };
        (transmits, receives)
    }

    /// Whether somebody waits to be told.
    pub(super) fn are_awaited(&self) -> bool {
        let transmits = self.transmits.iter().flatten().map(|outlet| &outlet.queue);
        let receives = self.receives.iter().flatten().map(|outlet| &outlet.queue);
        transmits.chain(receives).any(|queue| queue.has_waiter())
    }

    /// Takes room for something that a receive context is told of.
    pub(super) fn reserve(&self, office: u8) -> bool {
        let outlet = self.receives.of(office).as_ref();
        outlet.is_some_and(|outlet| outlet.queue.reserve())
    }

    /// Gives it back.
    pub(super) fn release(&self, office: u8) {
        if let Some(outlet) = self.receives.of(office) {
            outlet.queue.release();
        }
    }

    /// Gives back the room for an operation of a transmit context, of which nobody is told.
    pub(super) fn release_transmit(&self, context: u8) {
        if let Some(outlet) = self.transmits.of(context) {
            outlet.queue.release();
        }
    }

    /// What has come of a transmit, for which there is room.
    #[inline]
    pub(super) fn sent(&self, report: &Report, result: Result) {
        self.sent.of(report.by).record_completion(result);
        let Some(outlet) = self.transmits.of(report.by) else {
            return;
        };
        count(&outlet.counters, report.flags, result);
        let completion = Completion::new(report.context, report.flags);
        match result {
            Ok(()) if !report.is_wanted => outlet.queue.complete_silent(),
            Ok(()) => outlet.queue.push_success(completion),
            Err(errno) => outlet.queue.push(failed(completion, errno, 0)),
        }
    }

    /// What has come of a receive, for which there is room; once.
    pub(super) fn received(
        &self,
        offices: &mut Row<Office>,
        receive: &mut Receive,
        title: &Title,
        message: &Message,
        len: usize,
    ) {
        if mem::replace(&mut receive.is_told, true) {
            return;
        }
        let outlet = self.receives.of(receive.office).as_ref();
        let mut completion = match outlet {
            Some(outlet) => outlet.describe(receive.context, title, message, len),
            None => Completion::new(receive.context, FI_RECV),
        };
        let dropped = (message.len as usize).saturating_sub(len);
        self.ended(
            receive,
            match dropped {
                0 => Ok(len),
                _ => Err(Errno::ETRUNC),
            },
        );
        let office = offices.of_mut(receive.office);
        let released = place(office, receive, &mut completion);
        if let Some(outlet) = outlet {
            outlet.received(receive, completion, title, dropped);
        }
        self.completed(office, receive, released);
    }

    /// Counts what has come of a receive. A buffer for several messages is as many receives as it gets.
    #[inline]
    fn ended(&self, receive: &Receive, result: Result<usize>) {
        let taken = self.taken.of(receive.office);
        match receive.kind {
            Kind::Single | Kind::Shared => taken.record_completion(result),
            Kind::Place { .. } => {
                taken.record_post();
                taken.record_completion(result);
            }
            Kind::Several { .. } => {}
        }
    }

    /// A buffer takes no more messages, and all that were in it are over.
    fn give_back(&self, office: &mut Office, released: Option<ListBox<Receive>>) {
        let Some(mut receive) = released else {
            return;
        };
        if is_cancelled(&receive) {
            self.not_received(office, &mut receive, Errno::ECANCELED);
        }
        office.buffers.release(receive);
    }

    /// What the sender of a message is called at that context, if that is told.
    pub(super) fn source(&self, office: u8, title: &Title) -> fi_addr_t {
        let outlet = self.receives.of(office).as_ref();
        outlet.map_or(FI_ADDR_NOTAVAIL, |outlet| outlet.source(title))
    }

    /// What somebody has seen who looked for a message, for which there is room.
    pub(super) fn seen(
        &self,
        office: u8,
        told: &Looking,
        title: &Title,
        message: &Message,
        len: usize,
    ) {
        let Some(outlet) = self.receives.of(office) else {
            return;
        };
        match told.is_wanted || outlet.tells_all {
            false => outlet.queue.complete_silent(),
            true => {
                let completion = outlet.describe(told.context, title, message, len);
                outlet.tell_received(completion, title);
            }
        }
    }

    /// That there is none.
    pub(super) fn not_seen(&self, office: u8, told: &Looking) {
        if let Some(outlet) = self.receives.of(office) {
            let completion = Completion::new(told.context, FI_RECV | FI_TAGGED);
            outlet.queue.push(failed(completion, Errno::ENOMSG, 0));
        }
    }

    /// That nothing came of a receive; once.
    pub(super) fn given_up(&self, offices: &mut Row<Office>, receive: &mut Receive, errno: Errno) {
        self.not_received(offices.of_mut(receive.office), receive, errno);
    }

    fn not_received(&self, office: &mut Office, receive: &mut Receive, errno: Errno) {
        if mem::replace(&mut receive.is_told, true) {
            return;
        }
        self.ended(receive, Err(errno));
        let kind = receive.wish.tag.map_or(FI_MSG, |_| FI_TAGGED);
        let mut completion = Completion::new(receive.context, FI_RECV | kind);
        let released = place(office, receive, &mut completion);
        if let Some(outlet) = self.receives.of(receive.office) {
            count(&outlet.counters, FI_RECV, Err(errno));
            outlet.queue.push(failed(completion, errno, 0));
        }
        self.completed(office, receive, released);
    }

    /// Handles the completion of a receive, which may have released a multi-receive buffer.
    fn completed(
        &self,
        office: &mut Office,
        receive: &Receive,
        released: Option<ListBox<Receive>>,
    ) {
        if receive.kind == Kind::Shared {
            let outlet = self.receives.of(receive.office).as_ref();
            let position = outlet.and_then(|outlet| outlet.queue.forward_position());
            office.free_shared(receive.ticket, position);
        }
        self.give_back(office, released);
    }

    /// Reports that a peer has written `len` bytes to memory and sent `data` with it; false if there is no room. The first
    /// receive context is told: the device has no number of another.
    pub(super) fn written(&self, len: usize, data: u64) -> bool {
        let outlet = self.receives.of(0).as_ref();
        let Some(outlet) = outlet.filter(|outlet| outlet.queue.reserve()) else {
            return false;
        };
        let flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
        outlet.queue.push(CqEntry::Done(Completion {
            len,
            data,
            ..Completion::new(Context::NULL, flags)
        }));
        true
    }
}

impl Receives {
    /// What a message is told as.
    #[inline(always)]
    fn describe(
        &self,
        context: Context,
        title: &Title,
        message: &Message,
        len: usize,
    ) -> Completion {
        let kind = title.tag.map_or(FI_MSG, |_| FI_TAGGED);
        let data = message.data.map_or(0, |_| FI_REMOTE_CQ_DATA);
        Completion {
            len,
            data: message.data.unwrap_or(0),
            tag: title.tag.unwrap_or(0),
            source: self.source(title),
            ..Completion::new(context, FI_RECV | kind | data)
        }
    }

    /// What the sender of a message is called, if that is told.
    #[inline(always)]
    fn source(&self, title: &Title) -> fi_addr_t {
        match &self.sources {
            None => FI_ADDR_NOTAVAIL,
            Some(sources) => sources
                .find(&title.from)
                .map_or(FI_ADDR_NOTAVAIL, |source| sources.reported_source(source)),
        }
    }

    /// Tells that a message has been received.
    #[inline(always)]
    fn tell_received(&self, completion: Completion, title: &Title) {
        match completion.source {
            FI_ADDR_NOTAVAIL if self.tells_strangers => {
                self.queue.push(CqEntry::Failed(Failure {
                    completion,
                    olen: 0,
                    errno: Errno::EADDRNOTAVAIL,
                    prov_errno: -Errno::EADDRNOTAVAIL.to_int(),
                    err_data: ErrData::Source(title.from),
                }));
            }
            _ => self.queue.push_success(completion),
        }
    }

    /// What has come of a receive; `dropped` bytes of the message did not fit.
    fn received(&self, receive: &Receive, completion: Completion, title: &Title, dropped: usize) {
        let result = match dropped {
            0 => Ok(()),
            _ => Err(Errno::ETRUNC),
        };
        count(&self.counters, FI_RECV, result);
        match result {
            Ok(()) if !receive.is_wanted && !self.tells_all => self.queue.complete_silent(),
            Ok(()) => self.tell_received(completion, title),
            Err(errno) => self.queue.push(failed(completion, errno, dropped)),
        }
    }
}

/// Notes where the message of a receive is that is over, if it has a place in a buffer, and whether that is
/// its owner's again with this. The buffer's receive comes back with the last message.
fn place(
    office: &mut Office,
    receive: &Receive,
    completion: &mut Completion,
) -> Option<ListBox<Receive>> {
    let (is_last, released) = match receive.kind {
        Kind::Single => (false, None),
        Kind::Shared => {
            office.complete_shared();
            (false, None)
        }
        Kind::Several { .. } => (true, None),
        Kind::Place { of, at } => {
            completion.buf = at;
            let released = office.buffers.over(of);
            // Of one that is cancelled more is to be told.
            let is_last = released
                .as_deref()
                .is_some_and(|receive| !is_cancelled(receive));
            (is_last, released)
        }
    };
    if is_last {
        completion.flags |= FI_MULTI_RECV;
    }
    released
}

fn is_cancelled(receive: &Receive) -> bool {
    receive.kind == Kind::Several { is_cancelled: true }
}

fn failed(completion: Completion, errno: Errno, dropped: usize) -> CqEntry {
    CqEntry::Failed(Failure {
        completion,
        olen: dropped,
        errno,
        prov_errno: -errno.to_int(),
        err_data: ErrData::None,
    })
}
