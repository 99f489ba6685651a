// SPDX-License-Identifier: GPL-2.0

//! Exported completion queues: peers write entries to the queue, beside its own provider (fi_peer(3), owner's
//! side).
//!
//! Peer entries are in a separate FIFO, since a device's queue takes only the device's completions. A read
//! alternates which source comes first, entries and errors alike, so that neither starves the other. The
//! FIFO's lock is a leaf, taken with interrupts off.

use super::{
    super::{
        introspect::ObjectInfo,
        object::ChildRef, //
    },
    Completion,
    CompletionQueue,
    CqEntry,
    Entries,
    EntryFifo,
    Failure,
    FormatEntry,
    Notifier, //
};
use crate::{
    abi::{
        fi_addr_t,
        lock::FastLockIrq,
        log::complain,
        Errno,
        Result,
        FI_ADDR_NOTAVAIL, //
    },
    fi::provider, //
};
use core::{
    any::Any,
    mem::MaybeUninit, //
};
use kernel::{
    prelude::*,
    sync::{
        static_lock_class,
        Arc, //
    },
};

/// Default capacity for unread peer entries, if the consumer gave no queue size.
const DEFAULT_SIZE: usize = 1024;

struct PeerEntries {
    outcomes: EntryFifo,
    /// True if peer entries come first in the next read.
    lead: bool,
}

/// A sink that takes the entry of each operation as it ends.
pub trait PeerSink: Send + Sync {
    /// Takes an entry, for which there is room. Any context; the caller may hold a poster's locks.
    fn take(&self, outcome: CqEntry);
}

/// A completion queue to which peers write.
#[pin_data]
pub(crate) struct ExportedCq {
    own: Arc<dyn provider::CompletionQueue>,
    #[pin]
    guests: FastLockIrq<PeerEntries>,
}

/// Destination of source addresses, if the reader asked for them.
type SourceReader<'a> = Option<&'a mut [MaybeUninit<fi_addr_t>]>;

impl ExportedCq {
    /// Returns a queue for `size` unread peer entries, or 0 for a default. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(own: Arc<dyn provider::CompletionQueue>, size: usize) -> Result<Arc<Self>> {
        let size = match size {
            0 => DEFAULT_SIZE,
            size => size,
        };
        let guests = PeerEntries {
            outcomes: EntryFifo::new(size)?,
            lead: true,
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                own,
                guests <- FastLockIrq::new(guests, c"kofi::Guests", static_lock_class!()),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Appends an entry and wakes the readers. Any context.
    ///
    /// # Errors
    ///
    /// Returns the entry itself if there is no room, until a reader takes one.
    fn put(&self, outcome: CqEntry) -> core::result::Result<(), CqEntry> {
        let mut guests = self.guests.lock();
        if guests.outcomes.is_full() {
            return Err(outcome);
        }
        guests.outcomes.push(outcome);
        drop(guests);
        self.own.interrupts().arrived();
        Ok(())
    }

    /// Grows the capacity to at least `size` peer entries. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn make_room(&self, size: usize) -> Result {
        if self.guests.lock().outcomes.size() >= size {
            return Ok(());
        }
        let mut outcomes = EntryFifo::new(size)?;
        let mut guests = self.guests.lock();
        if guests.outcomes.size() < size {
            outcomes.take_from(&mut guests.outcomes);
            core::mem::swap(&mut outcomes, &mut guests.outcomes);
        }
        drop(guests);
        Ok(())
    }

    /// Reads peer entries, up to the first error.
    ///
    /// # Errors
    ///
    /// As [`provider::CompletionQueue::read`].
    fn take_guests<E: FormatEntry + From<Completion>>(
        &self,
        room: &mut [MaybeUninit<E>],
        mut sources: SourceReader<'_>,
    ) -> Result<usize> {
        let mut guests = self.guests.lock();
        let mut count = 0;
        for into in room.iter_mut() {
            let Some(CqEntry::Done(done)) = guests.outcomes.first() else {
                break;
            };
            into.write(E::from(*done));
            if let Some(source) = sources.as_deref_mut().and_then(|all| all.get_mut(count)) {
                source.write(done.source);
            }
            guests.outcomes.pop();
            count += 1;
        }
        match (count, guests.outcomes.first()) {
            (0, None) => Err(Errno::EAGAIN),
            (0, Some(CqEntry::Failed(_))) => Err(Errno::EAVAIL),
            (count, _) => Ok(count),
        }
    }

    /// Reads the provider's own entries.
    fn take_own<E: FormatEntry>(
        &self,
        room: &mut [MaybeUninit<E>],
        sources: SourceReader<'_>,
    ) -> Result<usize> {
        match sources {
            None => self.own.read(E::entries(room)),
            Some(sources) => self.own.read_from(E::entries(room), sources),
        }
    }

    fn take<E: FormatEntry + From<Completion>>(
        &self,
        room: &mut [MaybeUninit<E>],
        mut sources: SourceReader<'_>,
    ) -> Result<usize> {
        if room.is_empty() {
            return self.look::<E>();
        }
        let mut guests = self.guests.lock();
        if guests.outcomes.is_empty() {
            drop(guests);
            return self.take_own(room, sources);
        }
        let guests_lead = guests.lead;
        guests.lead = !guests_lead;
        drop(guests);
        // The source that comes first gets half of the array, the other one the rest, and the first one the
        // remainder.
        let half = room.len().div_ceil(2);
        let mut count = 0;
        for (are_guests, end) in [
            (guests_lead, half),
            (!guests_lead, room.len()),
            (guests_lead, room.len()),
        ] {
            let Some(room @ [_, ..]) = room.get_mut(count..end) else {
                continue;
            };
            let sources = sources
                .as_deref_mut()
                .and_then(|all| all.get_mut(count..end));
            let taken = match are_guests {
                true => self.take_guests(room, sources),
                false => self.take_own(room, sources),
            };
            match taken {
                Ok(taken) => count += taken,
                Err(Errno::EAVAIL) if count == 0 => return Err(Errno::EAVAIL),
                Err(_) => {}
            }
        }
        match count {
            0 => Err(Errno::EAGAIN),
            count => Ok(count),
        }
    }

    /// Reads no entry (a read of count 0): returns 0 if the next entry is a success, else the error of a
    /// read.
    fn look<E: FormatEntry>(&self) -> Result<usize> {
        match self.own.read(E::entries(&mut [])) {
            Err(Errno::EAGAIN) => match self.guests.lock().outcomes.first() {
                None => Err(Errno::EAGAIN),
                Some(CqEntry::Failed(_)) => Err(Errno::EAVAIL),
                Some(CqEntry::Done(_)) => Ok(0),
            },
            there => there,
        }
    }

    fn take_any(&self, entries: Entries<'_>, sources: SourceReader<'_>) -> Result<usize> {
        match entries {
            Entries::Context(room) => self.take(room, sources),
            Entries::Msg(room) => self.take(room, sources),
            Entries::Data(room) => self.take(room, sources),
            Entries::Tagged(room) => self.take(room, sources),
            Entries::Sourced(room) => self.take(room, sources),
        }
    }

    fn has_guests(&self) -> bool {
        !self.guests.lock().outcomes.is_empty()
    }
}

impl provider::CompletionQueue for ExportedCq {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn read(&self, entries: Entries<'_>) -> Result<usize> {
        self.take_any(entries, None)
    }

    fn read_from(
        &self,
        entries: Entries<'_>,
        sources: &mut [MaybeUninit<fi_addr_t>],
    ) -> Result<usize> {
        self.take_any(entries, Some(sources))
    }

    fn read_error(&self) -> Result<Failure> {
        let mut guests = self.guests.lock();
        if let Some(failure) = guests.outcomes.take_failure() {
            return Ok(failure);
        }
        drop(guests);
        self.own.read_error()
    }

    fn progress(&self) {
        self.own.progress();
    }

    fn arm(&self) -> bool {
        self.own.arm() || self.has_guests()
    }

    fn has_put_off(&self) -> bool {
        self.own.has_put_off() || self.has_guests()
    }

    fn interrupts(&self) -> &Notifier {
        self.own.interrupts()
    }

    fn tell(&self, told: &mut ObjectInfo<'_>) {
        self.own.tell(told);
    }

    fn describe(&self, prov_errno: i32) -> &'static CStr {
        self.own.describe(prov_errno)
    }

    fn close(&self) {
        // The provider's own queue is closed by the [`CompletionQueue`] that owns it.
    }
}

/// Completions that a peer provider writes for the queue's own consumer, which sized the queue for them.
impl PeerSink for ExportedCq {
    fn take(&self, outcome: CqEntry) {
        // The queue's provider does not know the peer's source addresses.
        let outcome = match outcome {
            CqEntry::Done(done) => CqEntry::Done(Completion {
                source: FI_ADDR_NOTAVAIL,
                ..done
            }),
            CqEntry::Failed(mut failure) => {
                failure.completion.source = FI_ADDR_NOTAVAIL;
                CqEntry::Failed(failure)
            }
        };
        if self.put(outcome).is_err() {
            complain(&c"peer", fmt!("a completion is lost: there is no room"));
        }
    }
}

/// A counted reference to an exported queue, which a peer holds.
pub(crate) struct CqExport {
    shared: Arc<ExportedCq>,
    _queue: ChildRef<CompletionQueue>,
}

impl CqExport {
    pub(super) fn new(shared: Arc<ExportedCq>, queue: ChildRef<CompletionQueue>) -> Self {
        Self {
            shared,
            _queue: queue,
        }
    }

    /// Appends an entry and wakes the readers. Any context.
    ///
    /// # Errors
    ///
    /// Returns the entry itself if there is no room, until a reader takes one.
    pub(crate) fn put(&self, outcome: CqEntry) -> core::result::Result<(), CqEntry> {
        self.shared.put(outcome)
    }
}
