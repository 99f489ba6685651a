// SPDX-License-Identifier: GPL-2.0

//! Completion queues whose entries are made here.
//!
//! The spinlock guards the ring; it is a leaf and is held with interrupts off. Room in the ring is taken
//! before an operation is posted, so that what completes always finds some.

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use crate::{
    abi::{
        errno::strerror,
        fi_addr_t,
        lock::FastLockIrq,
        once::{
            load_acquire,
            store_release, //
        },
        stat_counter::StatCounter,
        Errno,
        Result,
        FI_ADDR_NOTAVAIL,
        KOFI_VALUE_CALLBACKS,
        KOFI_VALUE_ENTRIES,
        KOFI_VALUE_ERRORS,
        KOFI_VALUE_SIZE, //
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
        introspect::ObjectInfo,
        provider, //
    },
};
use core::{
    any::Any,
    mem::MaybeUninit, //
};
use kernel::{
    prelude::*,
    sync::{
        self,
        atomic::Atomic,
        static_lock_class,
        Arc, //
    },
};

/// Completions that a queue opened with size 0 holds.
const DEFAULT_SIZE: usize = 1024;

/// Room beside the asked size, which queues of devices have as well.
const EXTRA_ENTRIES: usize = 64;

/// Most completions that a queue can hold.
const MAX_SIZE: usize = 1 << 20;

/// Who fills a queue.
pub(in crate::prov) trait ProgressSource: Send + Sync {
    /// Puts what has come meanwhile into its queues; false if nothing has, as far as is known. Any context.
    fn progress(&self) -> bool;

    /// A reader of one of them waits until it is told. Any context.
    fn arm(&self);

    /// The first `count` outcomes of one of its queues have been forwarded to the queue of that reader's owner. Any
    /// context.
    fn entries_forwarded(&self, _count: u64) {}
}

/// Who fills queues, as its owner has it.
///
/// A reader may be with it still when it has been dismissed, and the last to let go of it, in a context in which
/// what it has cannot be freed. So the owner waits for that, who has all of it until then: dropping this may
/// sleep.
pub(in crate::prov) struct ProgressHandle {
    // Dropped in this order.
    source: Arc<dyn ProgressSource>,
    _detach_wait: DetachWait,
}

/// Waits when it is dropped, until a feeder has gone.
struct DetachWait(Arc<sync::Completion>);

/// The last that a feeder drops: says that it has gone.
pub(in crate::prov) struct DetachGuard(Arc<sync::Completion>);

impl Drop for DetachGuard {
    fn drop(&mut self) {
        self.0.complete_all();
    }
}

impl ProgressHandle {
    /// That of the feeder that `make` makes. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in crate::prov) fn new<F: ProgressSource + 'static>(
        make: impl FnOnce(DetachGuard) -> F,
    ) -> Result<Self> {
        let gone = Arc::pin_init(sync::Completion::new(), GFP_KERNEL)?;
        let source: Arc<dyn ProgressSource> =
            Arc::new(make(DetachGuard(gone.clone())), GFP_KERNEL)?;
        Ok(Self {
            source,
            _detach_wait: DetachWait(gone),
        })
    }
}

impl Drop for DetachWait {
    fn drop(&mut self) {
        self.0.wait_for_completion();
    }
}

/// One who has been admitted, and how often.
struct SourceEntry {
    source: Arc<dyn ProgressSource>,
    attach_count: usize,
}

/// What there is, and who is to be told or asked. There is never more than the room that was taken.
struct CqRing {
    entries: EntryFifo,
    /// A reader has asked to be told, and has not come since.
    has_waiter: bool,
    /// Who fills it.
    sources: KVec<SourceEntry>,
}

impl CqRing {
    fn new(size: usize) -> Result<Self> {
        Ok(Self {
            entries: EntryFifo::new(size)?,
            has_waiter: false,
            sources: KVec::new(),
        })
    }

    /// Whether a reader has nothing to do: there is nothing, and nobody is to be told that it has come, or asked.
    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.entries.is_empty() && !self.has_waiter && self.sources.is_empty()
    }

    /// One of those who fill it, and whether there are more.
    fn source_at(&self, at: usize) -> Option<(Arc<dyn ProgressSource>, bool)> {
        let source = self.sources.get(at)?.source.clone();
        Some((source, self.sources.len() > at + 1))
    }
}

/// In a cache line of its own.
#[repr(align(64))]
struct CacheAligned<T>(T);

/// What a reader finds.
enum RingRead {
    /// So many outcomes, which have been taken.
    Entries(usize),
    /// A failure, which is to be read otherwise.
    Error,
    /// Nothing: somebody is to be asked, and whether there are others.
    Empty(Option<(Arc<dyn ProgressSource>, bool)>),
}

/// A completion queue.
#[pin_data]
pub(crate) struct SwCq {
    /// Its lock is never held while a feeder is at work.
    #[pin]
    ring: FastLockIrq<CqRing>,
    /// Whether the ring [is](Ring::is_quiet), for readers who come again and again: they keep the lock from
    /// nobody who puts something there. Changed under it.
    is_idle: CacheAligned<Atomic<u32>>,
    size: usize,
    /// Whether the source of an entry is an address, which readers are told. It is one of an endpoint otherwise.
    has_addresses: bool,
    /// Who takes what is put, in place of the ring.
    sink: Option<Arc<dyn PeerSink>>,
    /// Set if its reader forwards outcomes to another queue.
    is_forwarded: Atomic<u32>,
    reservation: FreeSlots,
    /// Set while a poster waits for room here: room that comes back without a reader then wakes the readers.
    entry_waiter: WaitFlag,
    /// Set while a poster waits for a free operation of its endpoint: the next one to end then wakes the readers.
    slot_waiter: WaitFlag,
    #[pin]
    interrupts: Notifier,
    /// What readers have been told of, under the ring's lock.
    entries_read: StatCounter,
    errors_read: StatCounter,
}

impl SwCq {
    /// Opens a queue whose readers are told whom a message is from. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than [`MAX_SIZE`], -FI_ENOMEM.
    pub(in crate::prov) fn new(attr: &Attr) -> Result<Arc<Self>> {
        Self::build(attr, 0, true, None)
    }

    /// Opens one for connected endpoints, each of whose entries has the endpoint that it is of. May sleep.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`].
    pub(in crate::prov) fn new_connected(attr: &Attr) -> Result<Arc<Self>> {
        Self::build(attr, EXTRA_ENTRIES, false, None)
    }

    /// The same, whose entries `sink` takes. May sleep.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`].
    pub(in crate::prov) fn new_with_sink(
        attr: &Attr,
        sink: Arc<dyn PeerSink>,
    ) -> Result<Arc<Self>> {
        Self::build(attr, EXTRA_ENTRIES, false, Some(sink))
    }

    fn build(
        attr: &Attr,
        besides: usize,
        has_addresses: bool,
        sink: Option<Arc<dyn PeerSink>>,
    ) -> Result<Arc<Self>> {
        let size = match attr.size {
            0 => DEFAULT_SIZE,
            size if size > MAX_SIZE => return Err(Errno::EINVAL),
            size => size + besides,
        };
        let ring = CqRing::new(match sink {
            None => size,
            Some(_) => 0,
        })?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                ring <- FastLockIrq::new(ring, c"kofi::prov::Cq", static_lock_class!()),
                is_idle: CacheAligned(Atomic::new(1)),
                size,
                has_addresses,
                sink,
                is_forwarded: Atomic::new(0),
                reservation: FreeSlots::new(*size),
                entry_waiter: WaitFlag::new(),
                slot_waiter: WaitFlag::new(),
                interrupts <- Notifier::new(),
                entries_read: StatCounter::new(),
                errors_read: StatCounter::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Has a reader who finds nothing ask `filling`, until it has been [dismissed](Self::dismiss) as often
    /// as it was admitted. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in crate::prov) fn attach_source(&self, handle: &ProgressHandle) -> Result {
        let source = &handle.source;
        let mut spare = KVec::new();
        loop {
            let mut ring = self.ring.lock();
            let mut there = ring.sources.iter_mut();
            if let Some(there) = there.find(|there| Arc::ptr_eq(&there.source, source)) {
                there.attach_count += 1;
                return Ok(());
            }
            if spare.capacity() > ring.sources.len() {
                // Moved under the lock into memory that was allocated outside of it.
                for there in ring.sources.drain_all() {
                    let _ = spare.push_within_capacity(there);
                }
                let _ = spare.push_within_capacity(SourceEntry {
                    source: source.clone(),
                    attach_count: 1,
                });
                core::mem::swap(&mut ring.sources, &mut spare);
                self.update_idle(&ring);
                drop(ring);
                return Ok(());
            }
            let len = ring.sources.len();
            drop(ring);
            spare = KVec::with_capacity(len + 1, GFP_KERNEL)?;
        }
    }

    /// Has nobody ask it any more, unless it was admitted more often: one who does so now may still be
    /// there. May sleep.
    pub(in crate::prov) fn detach_source(&self, handle: &ProgressHandle) {
        let mut ring = self.ring.lock();
        let is = |there: &SourceEntry| Arc::ptr_eq(&there.source, &handle.source);
        let mut gone = None;
        if let Some(at) = ring.sources.iter().position(is) {
            match ring.sources.get_mut(at) {
                Some(there) if there.attach_count > 1 => there.attach_count -= 1,
                _ => gone = ring.sources.remove(at).ok(),
            }
        }
        self.update_idle(&ring);
        drop(ring);
        drop(gone);
    }

    /// Has readers know whether they have anything to do.
    #[inline(always)]
    fn update_idle(&self, ring: &CqRing) {
        store_release(&self.is_idle.0, ring.is_idle().into());
    }

    /// Reserves room for one outcome. It is released when the outcome is read, by [`Self::complete_silent`], or by
    /// [`Self::release`]. Any context.
    #[inline]
    pub(in crate::prov) fn reserve(&self) -> bool {
        self.reservation.try_reserve(1) || self.reserve_or_set_waiter()
    }

    #[cold]
    fn reserve_or_set_waiter(&self) -> bool {
        self.entry_waiter.set();
        // Room may have been released before the flag was seen.
        self.reservation.try_reserve(1)
    }

    /// Requests that the end of the next operation wakes the readers and calls the handler, reported or not: all
    /// operations of an endpoint are under way, and a post was refused. Called with the lock held under which they
    /// end. Any context.
    #[cold]
    pub(in crate::prov) fn set_slot_waiter(&self) {
        self.slot_waiter.set();
    }

    /// Releases the room of `count` entries, and wakes the readers if a poster waits for that.
    #[inline]
    fn release_entries(&self, count: u32) {
        // Full: either this sees the flag of a poster that found no room, or the poster sees the room.
        self.reservation.release(count);
        if count != 0 && self.entry_waiter.take() {
            self.wake_readers();
        }
    }

    /// Wakes the readers and calls the handler: a poster that was refused can try again. Any context.
    pub(in crate::prov) fn wake_readers(&self) {
        self.interrupts.notify();
    }

    /// Releases the room of an operation that has not been started. Any context.
    #[inline]
    pub(in crate::prov) fn release(&self) {
        self.release_entries(1);
    }

    /// Releases the room of an operation that has ended without a completion entry. Any context.
    #[inline]
    pub(in crate::prov) fn complete_silent(&self) {
        self.release_entries(1);
        if self.slot_waiter.take() {
            self.wake_readers();
        }
    }

    /// The same of so many operations. Any context.
    pub(in crate::prov) fn release_many(&self, count: u32) {
        self.release_entries(count);
    }

    /// Tells the outcome of an operation that has taken room. Any context.
    pub(in crate::prov) fn push(&self, outcome: CqEntry) {
        if let Some(sink) = &self.sink {
            self.release_entries(1);
            return sink.complete(outcome);
        }
        let mut ring = self.ring.lock();
        ring.entries.push(outcome);
        self.update_idle(&ring);
        drop(ring);
        self.interrupts.notify();
    }

    /// The same of a success, which is far smaller than what can be told of a failure.
    #[inline(always)]
    pub(in crate::prov) fn push_success(&self, done: Completion) {
        if self.sink.is_some() {
            return self.push(CqEntry::Done(done));
        }
        let mut ring = self.ring.lock();
        ring.entries.push(CqEntry::Done(done));
        self.update_idle(&ring);
        drop(ring);
        self.interrupts.notify();
    }

    /// Returns the number of outcomes added, if its reader [forwards them](Feeder::passed_on). Any context.
    pub(in crate::prov) fn forward_position(&self) -> Option<u64> {
        if load_acquire(&self.is_forwarded) == 0 {
            return None;
        }
        let ring = self.ring.lock();
        Some(self.total_read() + ring.entries.len() as u64)
    }

    /// Returns the number of outcomes read. The ring is locked.
    fn total_read(&self) -> u64 {
        self.entries_read.get() + self.errors_read.get()
    }

    /// Adds a success as [`Self::push_success`] does, but wakes readers only if a poster waits: otherwise the next wakeup
    /// reports it too. Any context.
    pub(in crate::prov) fn push_success_quiet(&self, done: Completion) {
        if self.sink.is_some() {
            return self.push(CqEntry::Done(done));
        }
        let mut ring = self.ring.lock();
        ring.entries.push(CqEntry::Done(done));
        self.update_idle(&ring);
        drop(ring);
        // Room comes back when the entry is read.
        if self.slot_waiter.take() || self.entry_waiter.take() {
            self.wake_readers();
        }
    }

    /// Drops the outcomes that `goes` with. Any context.
    pub(in crate::prov) fn discard_matching(&self, mut goes: impl FnMut(&CqEntry) -> bool) {
        let mut ring = self.ring.lock();
        let mut gone = 0;
        for _ in 0..ring.entries.len() {
            let Some(outcome) = ring.entries.pop() else {
                break;
            };
            match goes(&outcome) {
                true => gone += 1,
                false => ring.entries.push(outcome),
            }
        }
        self.update_idle(&ring);
        drop(ring);
        self.release_entries(gone);
    }

    /// Whether nobody has anything to read. Any context.
    fn is_empty(&self) -> bool {
        self.ring.lock().entries.is_empty()
    }

    /// Whether a reader waits until it is told. Any context.
    pub(in crate::prov) fn has_waiter(&self) -> bool {
        self.ring.lock().has_waiter
    }

    /// Has `act` act upon each feeder; the first one is known.
    fn for_each_source(
        &self,
        mut next: Option<(Arc<dyn ProgressSource>, bool)>,
        mut act: impl FnMut(&dyn ProgressSource),
    ) {
        let mut at = 0;
        while let Some((feeder, has_others)) = next {
            act(&*feeder);
            at += 1;
            next = match has_others {
                true => self.ring.lock().source_at(at),
                false => None,
            };
        }
    }

    fn progress_sources(&self, first: Option<(Arc<dyn ProgressSource>, bool)>) -> bool {
        let mut has_come = false;
        self.for_each_source(first, |feeder| has_come |= feeder.progress());
        has_come
    }

    /// Reports to the feeders that the outcomes read so far have been forwarded: their reader has come back.
    #[cold]
    fn report_forwarded(&self) {
        let ring = self.ring.lock();
        let (count, first) = (self.total_read(), ring.source_at(0));
        drop(ring);
        self.for_each_source(first, |feeder| feeder.entries_forwarded(count));
    }

    /// Takes what there is into entries of one shape, and has each told to `see`.
    #[inline(always)]
    fn read_into<E: From<Completion>>(
        &self,
        entries: &mut [MaybeUninit<E>],
        mut see: impl FnMut(usize, &Completion),
    ) -> Result<usize> {
        if load_acquire(&self.is_idle.0) != 0 {
            return Err(Errno::EAGAIN);
        }
        if entries.is_empty() {
            return self.peek();
        }
        let mut found = self.read_ring(entries, &mut see);
        if let RingRead::Empty(first) = &mut found {
            if load_acquire(&self.is_forwarded) != 0 {
                self.report_forwarded();
            }
            if self.progress_sources(first.take()) {
                found = self.read_ring(entries, &mut see);
            }
        }
        match found {
            RingRead::Entries(count) => Ok(count),
            RingRead::Error => Err(Errno::EAVAIL),
            RingRead::Empty(_) => Err(Errno::EAGAIN),
        }
    }

    /// Takes nothing: whether there is something to be taken.
    #[cold]
    fn peek(&self) -> Result<usize> {
        let first = self.ring.lock().source_at(0);
        let _ = self.progress_sources(first);
        match self.ring.lock().entries.first() {
            None => Err(Errno::EAGAIN),
            Some(CqEntry::Failed(_)) => Err(Errno::EAVAIL),
            Some(CqEntry::Done(_)) => Ok(0),
        }
    }

    /// The same of what is in the ring.
    #[inline]
    fn read_ring<E: From<Completion>>(
        &self,
        entries: &mut [MaybeUninit<E>],
        see: &mut impl FnMut(usize, &Completion),
    ) -> RingRead {
        let mut ring = self.ring.lock();
        ring.has_waiter = false;
        let mut count = 0;
        for into in entries.iter_mut() {
            let Some(CqEntry::Done(done)) = ring.entries.first() else {
                break;
            };
            see(count, done);
            into.write(E::from(*done));
            ring.entries.remove_first();
            count += 1;
        }
        self.update_idle(&ring);
        if count == 0 {
            return match ring.entries.first() {
                Some(CqEntry::Failed(_)) => RingRead::Error,
                _ => RingRead::Empty(ring.source_at(0)),
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
        see: impl FnMut(usize, &Completion),
    ) -> Result<usize> {
        match entries {
            Entries::Context(room) => self.read_into(room, see),
            Entries::Msg(room) => self.read_into(room, see),
            Entries::Data(room) => self.read_into(room, see),
            Entries::Tagged(room) => self.read_into(room, see),
            Entries::Sourced(room) => self.read_into(room, see),
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
            if let Some(source) = sources.get_mut(at) {
                source.write(match self.has_addresses {
                    true => done.source,
                    false => FI_ADDR_NOTAVAIL,
                });
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
        let first = self.ring.lock().source_at(0);
        let _ = self.progress_sources(first);
    }

    fn arm(&self) -> bool {
        // Whatever is put is told of; that it is put needs no reader, once this is known.
        let mut ring = self.ring.lock();
        ring.has_waiter = ring.entries.is_empty();
        self.update_idle(&ring);
        let is_awaited = ring.has_waiter;
        let first = ring.source_at(0);
        drop(ring);
        if is_awaited {
            self.for_each_source(first, |feeder| feeder.arm());
        }
        !is_awaited
    }

    fn has_backlog(&self) -> bool {
        !self.is_empty()
    }

    fn notifier(&self) -> &Notifier {
        &self.interrupts
    }

    fn fill_info(&self, told: &mut ObjectInfo<'_>) {
        told.add_value(KOFI_VALUE_SIZE, self.size as u64);
        told.add_value(KOFI_VALUE_ENTRIES, self.entries_read.get());
        told.add_value(KOFI_VALUE_ERRORS, self.errors_read.get());
        told.add_value(KOFI_VALUE_CALLBACKS, self.interrupts.handler_calls());
    }

    fn strerror(&self, prov_errno: i32) -> &'static CStr {
        strerror(prov_errno)
    }

    fn close(&self) {}
}
