// SPDX-License-Identifier: GPL-2.0

//! Exported completion queues: peers write entries to the queue, beside its own provider (fi_peer(3), owner's
//! side).
//!
//! Peer entries are in a separate FIFO, since a device's queue takes only the device's completions. A read
//! alternates which source comes first, entries and errors alike, so that neither starves the other. The
//! FIFO's lock is a leaf, taken with interrupts off.

use super::{
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
    abi::FI_ADDR_NOTAVAIL,
    fi::{
        prelude::*,
        provider, //
    },
    util::log::warn, //
};
use core::any::Any;

/// Default capacity for unread peer entries, if the consumer gave no queue size.
const DEFAULT_SIZE: usize = 1024;

struct PeerEntries {
    entries: EntryFifo,
    /// True if peer entries come first in the next read.
    peers_first: bool,
}

/// A sink that takes the entry of each operation as it ends.
pub trait PeerSink: Send + Sync {
    /// Takes an entry, for which there is space. Any context; the caller may hold a poster's locks.
    fn complete(&self, outcome: CqEntry);
}

/// A completion queue to which peers write.
#[pin_data]
pub(crate) struct ExportedCq {
    provider_cq: Arc<dyn provider::CompletionQueue>,
    #[pin]
    peer_entries: FastLockIrq<PeerEntries>,
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
        let size = if size == 0 { DEFAULT_SIZE } else { size };
        let guests = PeerEntries {
            entries: EntryFifo::new(size)?,
            peers_first: true,
        };
        pin_arc(pin_init!(Self {
            provider_cq: own,
            peer_entries <- FastLockIrq::new(guests, c"kofi::ExportedCq", static_lock_class!()),
        }))
    }

    /// Appends an entry and wakes the readers. Any context.
    ///
    /// # Errors
    ///
    /// Returns the entry itself if there is no space, until a reader takes one.
    fn write(&self, outcome: CqEntry) -> core::result::Result<(), CqEntry> {
        let mut guests = self.peer_entries.lock();
        if guests.entries.is_full() {
            return Err(outcome);
        }
        guests.entries.push(outcome);
        drop(guests);
        self.provider_cq.notifier().notify();
        Ok(())
    }

    /// Grows the capacity to at least `size` peer entries. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn grow(&self, size: usize) -> Result {
        if self.peer_entries.lock().entries.size() >= size {
            return Ok(());
        }
        let mut outcomes = EntryFifo::new(size)?;
        let mut guests = self.peer_entries.lock();
        if guests.entries.size() < size {
            outcomes.append(&mut guests.entries);
            mem::swap(&mut outcomes, &mut guests.entries);
        }
        drop(guests);
        Ok(())
    }

    /// Reads peer entries, up to the first error.
    ///
    /// # Errors
    ///
    /// As [`provider::CompletionQueue::read`].
    fn read_peers<E: FormatEntry + From<Completion>>(
        &self,
        space: &mut [MaybeUninit<E>],
        mut sources: SourceReader<'_>,
    ) -> Result<usize> {
        let mut guests = self.peer_entries.lock();
        let mut count = 0;
        for into in space.iter_mut() {
            let Some(CqEntry::Done(done)) = guests.entries.first() else {
                break;
            };
            into.write(E::from(*done));
            if let Some(source) = sources.as_deref_mut().and_then(|all| all.get_mut(count)) {
                source.write(done.source);
            }
            guests.entries.remove_first();
            count += 1;
        }
        guests.entries.read_result(count)
    }

    /// Reads the provider's own entries.
    fn read_own<E: FormatEntry>(
        &self,
        space: &mut [MaybeUninit<E>],
        sources: SourceReader<'_>,
    ) -> Result<usize> {
        match sources {
            None => self.provider_cq.read(E::entries(space)),
            Some(sources) => self.provider_cq.read_from(E::entries(space), sources),
        }
    }

    fn read_both<E: FormatEntry + From<Completion>>(
        &self,
        space: &mut [MaybeUninit<E>],
        mut sources: SourceReader<'_>,
    ) -> Result<usize> {
        if space.is_empty() {
            return self.peek::<E>();
        }
        let mut guests = self.peer_entries.lock();
        if guests.entries.is_empty() {
            drop(guests);
            return self.read_own(space, sources);
        }
        let guests_lead = guests.peers_first;
        guests.peers_first = !guests_lead;
        drop(guests);
        // The source that comes first gets half of the array, the other one the rest, and the first one the
        // remainder.
        let half = space.len().div_ceil(2);
        let mut count = 0;
        for (are_guests, end) in [
            (guests_lead, half),
            (!guests_lead, space.len()),
            (guests_lead, space.len()),
        ] {
            let Some(space @ [_, ..]) = space.get_mut(count..end) else {
                continue;
            };
            let sources = sources
                .as_deref_mut()
                .and_then(|all| all.get_mut(count..end));
            let taken = match are_guests {
                true => self.read_peers(space, sources),
                false => self.read_own(space, sources),
            };
            match taken {
                Ok(taken) => count += taken,
                Err(Errno::EAVAIL) if count == 0 => return Err(Errno::EAVAIL),
                Err(_) => {}
            }
        }
        Errno::EAGAIN.when(count == 0)?;
        Ok(count)
    }

    /// Reads no entry (a read of count 0): returns 0 if the next entry is a success, else the error of a
    /// read.
    fn peek<E: FormatEntry>(&self) -> Result<usize> {
        match self.provider_cq.read(E::entries(&mut [])) {
            Err(Errno::EAGAIN) => self.peer_entries.lock().entries.read_result(0),
            there => there,
        }
    }

    fn read_any(&self, entries: Entries<'_>, sources: SourceReader<'_>) -> Result<usize> {
        match entries {
            Entries::Context(space) => self.read_both(space, sources),
            Entries::Msg(space) => self.read_both(space, sources),
            Entries::Data(space) => self.read_both(space, sources),
            Entries::Tagged(space) => self.read_both(space, sources),
            Entries::Sourced(space) => self.read_both(space, sources),
        }
    }

    fn has_peer_entries(&self) -> bool {
        !self.peer_entries.lock().entries.is_empty()
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
        self.read_any(entries, None)
    }

    fn read_from(
        &self,
        entries: Entries<'_>,
        sources: &mut [MaybeUninit<fi_addr_t>],
    ) -> Result<usize> {
        self.read_any(entries, Some(sources))
    }

    fn read_error(&self) -> Result<Failure> {
        let mut guests = self.peer_entries.lock();
        if let Some(failure) = guests.entries.pop_failure() {
            return Ok(failure);
        }
        drop(guests);
        self.provider_cq.read_error()
    }

    fn progress(&self) {
        self.provider_cq.progress();
    }

    fn arm(&self) -> bool {
        self.provider_cq.arm() || self.has_peer_entries()
    }

    fn has_backlog(&self) -> bool {
        self.provider_cq.has_backlog() || self.has_peer_entries()
    }

    fn notifier(&self) -> &Notifier {
        self.provider_cq.notifier()
    }

    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        self.provider_cq.fill_info(info);
    }

    fn strerror(&self, prov_errno: i32) -> &'static CStr {
        self.provider_cq.strerror(prov_errno)
    }

    fn close(&self) {
        // The provider's own queue is closed by the [`CompletionQueue`] that owns it.
    }
}

/// Completions that a peer provider writes for the queue's own consumer, which sized the queue for them.
impl PeerSink for ExportedCq {
    fn complete(&self, mut outcome: CqEntry) {
        let completion = match &mut outcome {
            CqEntry::Done(completion) => completion,
            CqEntry::Failed(failure) => &mut failure.completion,
        };
        // The queue's provider does not know the peer's source addresses.
        completion.source = FI_ADDR_NOTAVAIL;
        if self.write(outcome).is_err() {
            warn(
                &c"peer",
                fmt!("a completion is lost: the exported queue is full"),
            );
        }
    }
}

/// A counted reference to an exported queue, which a peer holds.
pub(crate) struct CqExport {
    pub(super) shared: Arc<ExportedCq>,
    pub(super) _queue: ChildRef<CompletionQueue>,
}

impl CqExport {
    /// Appends an entry and wakes the readers. Any context.
    ///
    /// # Errors
    ///
    /// Returns the entry itself if there is no space, until a reader takes one.
    pub(crate) fn write(&self, outcome: CqEntry) -> core::result::Result<(), CqEntry> {
        self.shared.write(outcome)
    }
}
