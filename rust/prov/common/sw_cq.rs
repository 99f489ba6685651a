// SPDX-License-Identifier: GPL-2.0

//! Software completion queue: a ring to which providers add entries.
//!
//! The spinlock `ring` guards the ring. It is a leaf in the lock order, and is held with interrupts off. An entry is
//! reserved before an operation is posted, so that the operation's completion always finds a free entry.

mod source;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use crate::{
    abi::{
        errno::strerror,
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        cq::{
            Attr,
            Completion,
            CqEntry,
            Entries,
            EntryFifo,
            Failure,
            FreeSlots,
            Notifier,
            PeerSink,
            WaitFlag, //
        },
        prelude::*,
        provider, //
    },
    util::{
        once::{
            load_acquire,
            store_release, //
        },
        stat_counter::StatCounter, //
    },
};
use core::any::Any;

pub(crate) use source::ProgressSource;
use source::Sources;

/// Size of a queue opened with size 0.
const DEFAULT_SIZE: usize = 1024;

/// Number of entries that a queue for connected endpoints has beyond a size that the consumer requested: as many as a
/// device's queue has for drain markers.
const EXTRA_ENTRIES: usize = 64;

/// Maximum size that a consumer can request.
const MAX_SIZE: usize = 1 << 20;

/// State under the lock. There are never more entries than reservations.
struct CqRing {
    entries: EntryFifo,
    /// True if the empty queue has been armed, and completions have not been read since.
    has_waiter: bool,
}

impl CqRing {
    /// Returns whether a read of the ring has nothing to do: no entries and no armed reader.
    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.entries.is_empty() && !self.has_waiter
    }
}

/// Value in a cache line of its own.
#[repr(align(64))]
struct CacheAligned<T>(T);

/// Result of reading the ring.
enum RingRead {
    /// Number of entries that were read.
    Entries(usize),
    /// The first entry is an error, which `fi_cq_readerr()` reads.
    Error,
    /// No entry.
    Empty,
}

/// Software completion queue.
#[pin_data]
pub(crate) struct SwCq {
    #[pin]
    ring: FastLockIrq<CqRing>,
    /// Sources that readers poll.
    #[pin]
    sources: Sources,
    /// Copy of [`CqRing::is_idle`] that pollers read without the lock, so that they do not contend with the
    /// writers. Written under the lock.
    is_idle: CacheAligned<Atomic<u32>>,
    size: usize,
    /// True if the source of an entry is the sender's address, which `fi_cq_readfrom()` returns. Otherwise the source
    /// identifies the endpoint.
    has_addresses: bool,
    /// Sink that gets the entries instead of the ring, if the queue was opened with one.
    sink: Option<Arc<dyn PeerSink>>,
    /// Set if the reader forwards entries to another queue.
    is_forwarded: Atomic<u32>,
    /// Number of entries that are not reserved.
    reservation: FreeSlots,
    /// Set while a refused poster waits for an entry: the release of a reservation without a read then wakes the
    /// readers.
    entry_waiter: WaitFlag,
    /// Set while a refused poster waits for a free slot of its endpoint: the end of the next operation then wakes the
    /// readers.
    slot_waiter: WaitFlag,
    #[pin]
    notifier: Notifier,
    /// Numbers of entries and errors read. Written under the ring's lock.
    entries_read: StatCounter,
    errors_read: StatCounter,
}

impl SwCq {
    /// Opens a queue whose entries have source addresses. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than [`MAX_SIZE`], -FI_ENOMEM.
    pub(crate) fn new(attr: &Attr) -> Result<Arc<Self>> {
        Self::build(attr, 0, true, None)
    }

    /// Opens a queue for connected endpoints: an entry's source is its endpoint. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::new`].
    pub(crate) fn new_connected(attr: &Attr) -> Result<Arc<Self>> {
        Self::build(attr, EXTRA_ENTRIES, false, None)
    }

    /// Opens a queue for connected endpoints whose entries go to `sink`. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::new`].
    pub(crate) fn new_with_sink(attr: &Attr, sink: Arc<dyn PeerSink>) -> Result<Arc<Self>> {
        Self::build(attr, EXTRA_ENTRIES, false, Some(sink))
    }

    fn build(
        attr: &Attr,
        extra: usize,
        has_addresses: bool,
        sink: Option<Arc<dyn PeerSink>>,
    ) -> Result<Arc<Self>> {
        let size = match attr.size {
            0 => DEFAULT_SIZE,
            size if size > MAX_SIZE => return Err(Errno::EINVAL),
            size => size + extra,
        };
        let ring = CqRing {
            entries: EntryFifo::new(if sink.is_some() { 0 } else { size })?,
            has_waiter: false,
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                ring <- FastLockIrq::new(ring, c"kofi::prov::SwCq", static_lock_class!()),
                sources <- Sources::new(),
                is_idle: CacheAligned(Atomic::new(1)),
                size,
                has_addresses,
                sink,
                is_forwarded: Atomic::new(0),
                reservation: FreeSlots::new(*size),
                entry_waiter: WaitFlag::new(),
                slot_waiter: WaitFlag::new(),
                notifier <- Notifier::new(),
                entries_read: StatCounter::new(),
                errors_read: StatCounter::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Publishes [`CqRing::is_idle`]. The ring's lock is held.
    #[inline(always)]
    fn update_idle(&self, ring: &CqRing) {
        store_release(&self.is_idle.0, ring.is_idle().into());
    }

    /// Reserves an entry. Returns false if none is free; the release of an entry without a read then wakes the readers.
    /// The reservation ends when the entry is read, discarded or passed to a [`PeerSink`], or with
    /// [`Self::complete_silent`], [`Self::release`] or [`Self::release_many`]. Any context.
    #[inline]
    pub(crate) fn reserve(&self) -> bool {
        self.reserve_many(1)
    }

    /// Reserves `count` entries, or none, like [`Self::reserve`]. If a caller reserved them one by one instead, and
    /// released them after a refusal, the release would wake the readers for this caller. Any context.
    #[inline]
    pub(crate) fn reserve_many(&self, count: u32) -> bool {
        self.reservation.try_reserve(count) || self.reserve_or_set_waiter(count)
    }

    #[cold]
    fn reserve_or_set_waiter(&self, count: u32) -> bool {
        self.entry_waiter.set();
        // Entries may have been released before the flag was set.
        self.reservation.try_reserve(count)
    }

    /// Requests that the end of the next operation wakes the readers and calls the handler, even if the operation
    /// writes no entry. Called when a post has been refused because its endpoint has no free slot. The caller holds the
    /// lock of the endpoint's data path, under which operations end, so that no end is missed. Any context.
    #[cold]
    pub(crate) fn set_slot_waiter(&self) {
        self.slot_waiter.set();
    }

    /// Releases the entries of `count` operations, and wakes the readers if a refused poster waits for one; a poster
    /// that waits for a slot is not woken. Any context.
    #[inline]
    pub(crate) fn release_many(&self, count: u32) {
        // Full barrier: `take` sees the flag of a refused poster, or the poster sees the released entries.
        self.reservation.release(count);
        if count != 0 && self.entry_waiter.take() {
            self.wake_readers();
        }
    }

    /// Wakes the readers and calls the handler: a refused poster can try again. Any context.
    pub(crate) fn wake_readers(&self) {
        self.notifier.notify_space();
    }

    /// Releases the entry of an operation that was not started. Any context.
    #[inline]
    pub(crate) fn release(&self) {
        self.release_many(1);
    }

    /// Ends an operation that writes no entry: releases its reservation, and wakes the readers if a refused poster
    /// waits for an entry or a slot. Any context.
    #[inline]
    pub(crate) fn complete_silent(&self) {
        self.release_many(1);
        self.wake_slot_waiter();
    }

    /// Wakes the readers if a refused poster waits for a slot. Called when a slot becomes free after its operation has
    /// been reported. Any context.
    #[inline]
    pub(crate) fn wake_slot_waiter(&self) {
        if self.slot_waiter.take() {
            self.wake_readers();
        }
    }

    /// Adds an entry that was reserved, and notifies the readers. A queue with a sink passes the entry to the sink, and
    /// releases the reservation. Any context.
    pub(crate) fn push(&self, outcome: CqEntry) {
        if let Some(sink) = &self.sink {
            self.release_many(1);
            return sink.complete(outcome);
        }
        self.push_to_ring(outcome);
        self.notifier.notify();
    }

    #[inline(always)]
    fn push_to_ring(&self, outcome: CqEntry) {
        let mut ring = self.ring.lock();
        ring.entries.push(outcome);
        self.update_idle(&ring);
    }

    /// Adds the entry of a success, like [`Self::push`]. The argument is much smaller than a [`CqEntry`], which can be
    /// an error. Any context.
    #[inline(always)]
    pub(crate) fn push_success(&self, done: Completion) {
        if self.sink.is_some() {
            return self.push(CqEntry::Done(done));
        }
        self.push_to_ring(CqEntry::Done(done));
        self.notifier.notify();
    }

    /// Adds the entry of a success without waking the readers, which sleep until a message with FI_REMOTE_SIGNAL
    /// arrives and find this entry then. If a refused poster waits, the readers are woken nevertheless: space for the
    /// poster is free, or becomes free when this entry is read. Any context.
    pub(crate) fn push_success_quiet(&self, done: Completion) {
        if self.sink.is_some() {
            return self.push(CqEntry::Done(done));
        }
        self.push_to_ring(CqEntry::Done(done));
        if self.slot_waiter.take() || self.entry_waiter.take() {
            self.wake_readers();
        }
    }

    /// Removes the entries for which `selects` returns true. Any context.
    pub(crate) fn discard_matching(&self, mut selects: impl FnMut(&CqEntry) -> bool) {
        let mut ring = self.ring.lock();
        let mut removed = 0;
        for _ in 0..ring.entries.len() {
            let Some(outcome) = ring.entries.pop() else {
                break;
            };
            match selects(&outcome) {
                true => removed += 1,
                false => ring.entries.push(outcome),
            }
        }
        self.update_idle(&ring);
        drop(ring);
        self.release_many(removed);
    }

    /// Returns whether a reader has armed the queue. Any context.
    pub(crate) fn has_waiter(&self) -> bool {
        self.ring.lock().has_waiter
    }

    /// Reads completions into entries of one format, and calls `visit` for each.
    #[inline(always)]
    fn read_into<E: From<Completion>>(
        &self,
        entries: &mut [MaybeUninit<E>],
        mut visit: impl FnMut(usize, &Completion),
    ) -> Result<usize> {
        if entries.is_empty() {
            return self.peek();
        }
        let mut found = self.read_ring(entries, &mut visit);
        if matches!(found, RingRead::Empty) && !self.sources.is_empty() {
            if load_acquire(&self.is_forwarded) != 0 {
                self.report_forwarded();
            }
            if self.sources.poll() {
                found = self.read_ring(entries, &mut visit);
            }
        }
        match found {
            RingRead::Entries(count) => Ok(count),
            RingRead::Error => Err(Errno::EAVAIL),
            RingRead::Empty => Err(Errno::EAGAIN),
        }
    }

    /// Checks for an entry without reading it.
    #[cold]
    fn peek(&self) -> Result<usize> {
        self.sources.poll();
        match self.ring.lock().entries.first() {
            None => Err(Errno::EAGAIN),
            Some(CqEntry::Failed(_)) => Err(Errno::EAVAIL),
            Some(CqEntry::Done(_)) => Ok(0),
        }
    }

    /// Reads completions from the ring, like [`Self::read_into`], without polling the sources.
    #[inline]
    fn read_ring<E: From<Completion>>(
        &self,
        entries: &mut [MaybeUninit<E>],
        visit: &mut impl FnMut(usize, &Completion),
    ) -> RingRead {
        if load_acquire(&self.is_idle.0) != 0 {
            return RingRead::Empty;
        }
        let mut ring = self.ring.lock();
        ring.has_waiter = false;
        let mut count = 0;
        for into in entries.iter_mut() {
            let Some(CqEntry::Done(done)) = ring.entries.first() else {
                break;
            };
            visit(count, done);
            into.write(E::from(*done));
            ring.entries.remove_first();
            count += 1;
        }
        self.update_idle(&ring);
        if count == 0 {
            return match ring.entries.first() {
                Some(CqEntry::Failed(_)) => RingRead::Error,
                _ => RingRead::Empty,
            };
        }
        self.entries_read.add(count as u64);
        drop(ring);
        self.reservation.release(count as u32);
        RingRead::Entries(count)
    }

    #[inline(always)]
    fn read_entries(
        &self,
        entries: Entries<'_>,
        visit: impl FnMut(usize, &Completion),
    ) -> Result<usize> {
        match entries {
            Entries::Context(space) => self.read_into(space, visit),
            Entries::Msg(space) => self.read_into(space, visit),
            Entries::Data(space) => self.read_into(space, visit),
            Entries::Tagged(space) => self.read_into(space, visit),
            Entries::Sourced(space) => self.read_into(space, visit),
        }
    }
}

impl provider::CompletionQueue for SwCq {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    #[inline(always)]
    fn read(&self, entries: Entries<'_>) -> Result<usize> {
        self.read_entries(entries, |_, _| {})
    }

    fn read_from(
        &self,
        entries: Entries<'_>,
        sources: &mut [MaybeUninit<fi_addr_t>],
    ) -> Result<usize> {
        self.read_entries(entries, |at, done| {
            let source = if self.has_addresses {
                done.source
            } else {
                FI_ADDR_NOTAVAIL
            };
            if let Some(slot) = sources.get_mut(at) {
                slot.write(source);
            }
        })
    }

    fn read_error(&self) -> Result<Failure> {
        let mut ring = self.ring.lock();
        let mut failure = ring.entries.pop_failure().ok_or(Errno::EAGAIN)?;
        if !self.has_addresses {
            failure.completion.source = FI_ADDR_NOTAVAIL;
        }
        self.update_idle(&ring);
        self.errors_read.add(1);
        drop(ring);
        self.reservation.release(1);
        Ok(failure)
    }

    fn begin_forwarding(&self) {
        store_release(&self.is_forwarded, 1);
    }

    fn progress(&self) {
        self.sources.poll();
    }

    fn arm(&self) -> bool {
        // An entry that is added after this check notifies the readers. The sources, which are not polled
        // while the readers sleep, are armed below to add their next entry by themselves.
        let mut ring = self.ring.lock();
        ring.has_waiter = ring.entries.is_empty();
        self.update_idle(&ring);
        let is_awaited = ring.has_waiter;
        drop(ring);
        if is_awaited {
            self.sources.for_each(|source| source.arm());
        }
        !is_awaited
    }

    fn has_backlog(&self) -> bool {
        !self.ring.lock().entries.is_empty()
    }

    fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        out.add_value(abi::KOFI_VALUE_SIZE, self.size as u64);
        out.add_value(abi::KOFI_VALUE_ENTRIES, self.entries_read.get());
        out.add_value(abi::KOFI_VALUE_ERRORS, self.errors_read.get());
        out.add_value(abi::KOFI_VALUE_CALLBACKS, self.notifier.handler_calls());
    }

    fn strerror(&self, prov_errno: i32) -> &'static CStr {
        strerror(prov_errno)
    }

    fn close(&self) {}
}
