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
const BESIDES: usize = 64;

/// Most completions that a queue can hold.
const MOST: usize = 1 << 20;

/// Who fills a queue.
pub(in crate::prov) trait ProgressSource: Send + Sync {
    /// Puts what has come meanwhile into its queues; false if nothing has, as far as is known. Any context.
    fn progress(&self) -> bool;

    /// A reader of one of them waits until it is told. Any context.
    fn expect(&self);

    /// The first `count` outcomes of one of its queues have been forwarded to the queue of that reader's owner. Any
    /// context.
    fn passed_on(&self, _count: u64) {}
}

/// Who fills queues, as its owner has it.
///
/// A reader may be with it still when it has been dismissed, and the last to let go of it, in a context in which
/// what it has cannot be freed. So the owner waits for that, who has all of it until then: dropping this may
/// sleep.
pub(in crate::prov) struct ProgressHandle {
    // Dropped in this order.
    feeder: Arc<dyn ProgressSource>,
    _absence: DetachWait,
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
        let feeder: Arc<dyn ProgressSource> =
            Arc::new(make(DetachGuard(gone.clone())), GFP_KERNEL)?;
        Ok(Self {
            feeder,
            _absence: DetachWait(gone),
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
    feeder: Arc<dyn ProgressSource>,
    times: usize,
}

/// What there is, and who is to be told or asked. There is never more than the room that was taken.
struct CqRing {
    outcomes: EntryFifo,
    /// A reader has asked to be told, and has not come since.
    is_awaited: bool,
    /// Who fills it.
    feeders: KVec<SourceEntry>,
}

impl CqRing {
    fn new(size: usize) -> Result<Self> {
        Ok(Self {
            outcomes: EntryFifo::new(size)?,
            is_awaited: false,
            feeders: KVec::new(),
        })
    }

    /// Whether a reader has nothing to do: there is nothing, and nobody is to be told that it has come, or asked.
    #[inline(always)]
    fn is_quiet(&self) -> bool {
        self.outcomes.is_empty() && !self.is_awaited && self.feeders.is_empty()
    }

    /// One of those who fill it, and whether there are more.
    fn feeder(&self, at: usize) -> Option<(Arc<dyn ProgressSource>, bool)> {
        let feeder = self.feeders.get(at)?.feeder.clone();
        Some((feeder, self.feeders.len() > at + 1))
    }
}

/// In a cache line of its own.
#[repr(align(64))]
struct CacheAligned<T>(T);

/// What a reader finds.
enum RingRead {
    /// So many outcomes, which have been taken.
    Some(usize),
    /// A failure, which is to be read otherwise.
    Failure,
    /// Nothing: somebody is to be asked, and whether there are others.
    Nothing(Option<(Arc<dyn ProgressSource>, bool)>),
}

/// A completion queue.
#[pin_data]
pub(crate) struct SwCq {
    /// Its lock is never held while a feeder is at work.
    #[pin]
    ring: FastLockIrq<CqRing>,
    /// Whether the ring [is](Ring::is_quiet), for readers who come again and again: they keep the lock from
    /// nobody who puts something there. Changed under it.
    is_quiet: CacheAligned<Atomic<u32>>,
    size: usize,
    /// Whether the source of an entry is an address, which readers are told. It is one of an endpoint otherwise.
    has_addresses: bool,
    /// Who takes what is put, in place of the ring.
    sink: Option<Arc<dyn PeerSink>>,
    /// Set if its reader forwards outcomes to another queue.
    is_forwarded: Atomic<u32>,
    room: FreeSlots,
    /// Set while a poster waits for room here: room that comes back without a reader then wakes the readers.
    wants_room: WaitFlag,
    /// Set while a poster waits for a free operation of its endpoint: the next one to end then wakes the readers.
    wants_slot: WaitFlag,
    #[pin]
    interrupts: Notifier,
    /// What readers have been told of, under the ring's lock.
    told: StatCounter,
    failures: StatCounter,
}

impl SwCq {
    /// Opens a queue whose readers are told whom a message is from. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for more than [`MOST`], -FI_ENOMEM.
    pub(in crate::prov) fn new(attr: &Attr) -> Result<Arc<Self>> {
        Self::with(attr, 0, true, None)
    }

    /// Opens one for connected endpoints, each of whose entries has the endpoint that it is of. May sleep.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`].
    pub(in crate::prov) fn of_endpoints(attr: &Attr) -> Result<Arc<Self>> {
        Self::with(attr, BESIDES, false, None)
    }

    /// The same, whose entries `sink` takes. May sleep.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`].
    pub(in crate::prov) fn leading_to(attr: &Attr, sink: Arc<dyn PeerSink>) -> Result<Arc<Self>> {
        Self::with(attr, BESIDES, false, Some(sink))
    }

    fn with(
        attr: &Attr,
        besides: usize,
        has_addresses: bool,
        sink: Option<Arc<dyn PeerSink>>,
    ) -> Result<Arc<Self>> {
        let size = match attr.size {
            0 => DEFAULT_SIZE,
            size if size > MOST => return Err(Errno::EINVAL),
            size => size + besides,
        };
        let ring = CqRing::new(match sink {
            None => size,
            Some(_) => 0,
        })?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                ring <- FastLockIrq::new(ring, c"kofi::prov::Cq", static_lock_class!()),
                is_quiet: CacheAligned(Atomic::new(1)),
                size,
                has_addresses,
                sink,
                is_forwarded: Atomic::new(0),
                room: FreeSlots::new(*size),
                wants_room: WaitFlag::new(),
                wants_slot: WaitFlag::new(),
                interrupts <- Notifier::new(),
                told: StatCounter::new(),
                failures: StatCounter::new(),
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
    pub(in crate::prov) fn admit(&self, filling: &ProgressHandle) -> Result {
        let feeder = &filling.feeder;
        let mut spare = KVec::new();
        loop {
            let mut ring = self.ring.lock();
            let mut there = ring.feeders.iter_mut();
            if let Some(there) = there.find(|there| Arc::ptr_eq(&there.feeder, feeder)) {
                there.times += 1;
                return Ok(());
            }
            if spare.capacity() > ring.feeders.len() {
                // Moved under the lock into memory that was allocated outside of it.
                for there in ring.feeders.drain_all() {
                    let _ = spare.push_within_capacity(there);
                }
                let _ = spare.push_within_capacity(SourceEntry {
                    feeder: feeder.clone(),
                    times: 1,
                });
                core::mem::swap(&mut ring.feeders, &mut spare);
                self.note(&ring);
                drop(ring);
                return Ok(());
            }
            let len = ring.feeders.len();
            drop(ring);
            spare = KVec::with_capacity(len + 1, GFP_KERNEL)?;
        }
    }

    /// Has nobody ask it any more, unless it was admitted more often: one who does so now may still be
    /// there. May sleep.
    pub(in crate::prov) fn dismiss(&self, filling: &ProgressHandle) {
        let mut ring = self.ring.lock();
        let is = |there: &SourceEntry| Arc::ptr_eq(&there.feeder, &filling.feeder);
        let mut gone = None;
        if let Some(at) = ring.feeders.iter().position(is) {
            match ring.feeders.get_mut(at) {
                Some(there) if there.times > 1 => there.times -= 1,
                _ => gone = ring.feeders.remove(at).ok(),
            }
        }
        self.note(&ring);
        drop(ring);
        drop(gone);
    }

    /// Has readers know whether they have anything to do.
    #[inline(always)]
    fn note(&self, ring: &CqRing) {
        store_release(&self.is_quiet.0, ring.is_quiet().into());
    }

    /// Reserves room for one outcome. It is released when the outcome is read, by [`Self::end_silently`], or by
    /// [`Self::release`]. Any context.
    #[inline]
    pub(in crate::prov) fn reserve(&self) -> bool {
        self.room.take(1) || self.reserve_or_await()
    }

    #[cold]
    fn reserve_or_await(&self) -> bool {
        self.wants_room.set();
        // Room may have been released before the flag was seen.
        self.room.take(1)
    }

    /// Requests that the end of the next operation wakes the readers and calls the handler, reported or not: all
    /// operations of an endpoint are under way, and a post was refused. Called with the lock held under which they
    /// end. Any context.
    #[cold]
    pub(in crate::prov) fn await_slot(&self) {
        self.wants_slot.set();
    }

    /// Releases the room of `count` entries, and wakes the readers if a poster waits for that.
    #[inline]
    fn give_back(&self, count: u32) {
        // Full: either this sees the flag of a poster that found no room, or the poster sees the room.
        self.room.give(count);
        if count != 0 && self.wants_room.take() {
            self.wake();
        }
    }

    /// Wakes the readers and calls the handler: a poster that was refused can try again. Any context.
    pub(in crate::prov) fn wake(&self) {
        self.interrupts.arrived();
    }

    /// Releases the room of an operation that has not been started. Any context.
    #[inline]
    pub(in crate::prov) fn release(&self) {
        self.give_back(1);
    }

    /// Releases the room of an operation that has ended without a completion entry. Any context.
    #[inline]
    pub(in crate::prov) fn end_silently(&self) {
        self.give_back(1);
        if self.wants_slot.take() {
            self.wake();
        }
    }

    /// The same of so many operations. Any context.
    pub(in crate::prov) fn release_all(&self, count: u32) {
        self.give_back(count);
    }

    /// Tells the outcome of an operation that has taken room. Any context.
    pub(in crate::prov) fn put(&self, outcome: CqEntry) {
        if let Some(sink) = &self.sink {
            self.give_back(1);
            return sink.take(outcome);
        }
        let mut ring = self.ring.lock();
        ring.outcomes.push(outcome);
        self.note(&ring);
        drop(ring);
        self.interrupts.arrived();
    }

    /// The same of a success, which is far smaller than what can be told of a failure.
    #[inline(always)]
    pub(in crate::prov) fn put_done(&self, done: Completion) {
        if self.sink.is_some() {
            return self.put(CqEntry::Done(done));
        }
        let mut ring = self.ring.lock();
        ring.outcomes.push(CqEntry::Done(done));
        self.note(&ring);
        drop(ring);
        self.interrupts.arrived();
    }

    /// Returns the number of outcomes added, if its reader [forwards them](Feeder::passed_on). Any context.
    pub(in crate::prov) fn position(&self) -> Option<u64> {
        if load_acquire(&self.is_forwarded) == 0 {
            return None;
        }
        let ring = self.ring.lock();
        Some(self.taken() + ring.outcomes.len() as u64)
    }

    /// Returns the number of outcomes read. The ring is locked.
    fn taken(&self) -> u64 {
        self.told.get() + self.failures.get()
    }

    /// Adds a success as [`Self::put_done`] does, but wakes readers only if a poster waits: otherwise the next wakeup
    /// reports it too. Any context.
    pub(in crate::prov) fn put_quietly(&self, done: Completion) {
        if self.sink.is_some() {
            return self.put(CqEntry::Done(done));
        }
        let mut ring = self.ring.lock();
        ring.outcomes.push(CqEntry::Done(done));
        self.note(&ring);
        drop(ring);
        // Room comes back when the entry is read.
        if self.wants_slot.take() || self.wants_room.take() {
            self.wake();
        }
    }

    /// Drops the outcomes that `goes` with. Any context.
    pub(in crate::prov) fn forget(&self, mut goes: impl FnMut(&CqEntry) -> bool) {
        let mut ring = self.ring.lock();
        let mut gone = 0;
        for _ in 0..ring.outcomes.len() {
            let Some(outcome) = ring.outcomes.take() else {
                break;
            };
            match goes(&outcome) {
                true => gone += 1,
                false => ring.outcomes.push(outcome),
            }
        }
        self.note(&ring);
        drop(ring);
        self.give_back(gone);
    }

    /// Whether nobody has anything to read. Any context.
    fn is_empty(&self) -> bool {
        self.ring.lock().outcomes.is_empty()
    }

    /// Whether a reader waits until it is told. Any context.
    pub(in crate::prov) fn is_awaited(&self) -> bool {
        self.ring.lock().is_awaited
    }

    /// Has `act` act upon each feeder; the first one is known.
    fn for_each_feeder(
        &self,
        mut next: Option<(Arc<dyn ProgressSource>, bool)>,
        mut act: impl FnMut(&dyn ProgressSource),
    ) {
        let mut at = 0;
        while let Some((feeder, has_others)) = next {
            act(&*feeder);
            at += 1;
            next = match has_others {
                true => self.ring.lock().feeder(at),
                false => None,
            };
        }
    }

    fn ask_feeders(&self, first: Option<(Arc<dyn ProgressSource>, bool)>) -> bool {
        let mut has_come = false;
        self.for_each_feeder(first, |feeder| has_come |= feeder.progress());
        has_come
    }

    /// Reports to the feeders that the outcomes read so far have been forwarded: their reader has come back.
    #[cold]
    fn tell_feeders(&self) {
        let ring = self.ring.lock();
        let (count, first) = (self.taken(), ring.feeder(0));
        drop(ring);
        self.for_each_feeder(first, |feeder| feeder.passed_on(count));
    }

    /// Takes what there is into entries of one shape, and has each told to `see`.
    #[inline(always)]
    fn take<E: From<Completion>>(
        &self,
        room: &mut [MaybeUninit<E>],
        mut see: impl FnMut(usize, &Completion),
    ) -> Result<usize> {
        if load_acquire(&self.is_quiet.0) != 0 {
            return Err(Errno::EAGAIN);
        }
        if room.is_empty() {
            return self.look();
        }
        let mut found = self.take_there(room, &mut see);
        if let RingRead::Nothing(first) = &mut found {
            if load_acquire(&self.is_forwarded) != 0 {
                self.tell_feeders();
            }
            if self.ask_feeders(first.take()) {
                found = self.take_there(room, &mut see);
            }
        }
        match found {
            RingRead::Some(count) => Ok(count),
            RingRead::Failure => Err(Errno::EAVAIL),
            RingRead::Nothing(_) => Err(Errno::EAGAIN),
        }
    }

    /// Takes nothing: whether there is something to be taken.
    #[cold]
    fn look(&self) -> Result<usize> {
        let first = self.ring.lock().feeder(0);
        let _ = self.ask_feeders(first);
        match self.ring.lock().outcomes.first() {
            None => Err(Errno::EAGAIN),
            Some(CqEntry::Failed(_)) => Err(Errno::EAVAIL),
            Some(CqEntry::Done(_)) => Ok(0),
        }
    }

    /// The same of what is in the ring.
    #[inline]
    fn take_there<E: From<Completion>>(
        &self,
        room: &mut [MaybeUninit<E>],
        see: &mut impl FnMut(usize, &Completion),
    ) -> RingRead {
        let mut ring = self.ring.lock();
        ring.is_awaited = false;
        let mut count = 0;
        for into in room.iter_mut() {
            let Some(CqEntry::Done(done)) = ring.outcomes.first() else {
                break;
            };
            see(count, done);
            into.write(E::from(*done));
            ring.outcomes.pop();
            count += 1;
        }
        self.note(&ring);
        if count == 0 {
            return match ring.outcomes.first() {
                Some(CqEntry::Failed(_)) => RingRead::Failure,
                _ => RingRead::Nothing(ring.feeder(0)),
            };
        }
        self.told.add(count as u64);
        drop(ring);
        self.room.give(count as u32);
        RingRead::Some(count)
    }

    #[inline(always)]
    fn take_any(&self, entries: Entries<'_>, see: impl FnMut(usize, &Completion)) -> Result<usize> {
        match entries {
            Entries::Context(room) => self.take(room, see),
            Entries::Msg(room) => self.take(room, see),
            Entries::Data(room) => self.take(room, see),
            Entries::Tagged(room) => self.take(room, see),
            Entries::Sourced(room) => self.take(room, see),
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
        self.take_any(entries, |_, _| {})
    }

    fn read_from(
        &self,
        entries: Entries<'_>,
        sources: &mut [MaybeUninit<fi_addr_t>],
    ) -> Result<usize> {
        self.take_any(entries, |at, done| {
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
        let mut failure = ring.outcomes.take_failure().ok_or(Errno::EAGAIN)?;
        if !self.has_addresses {
            failure.completion.source = FI_ADDR_NOTAVAIL;
        }
        self.note(&ring);
        self.failures.add(1);
        drop(ring);
        self.room.give(1);
        Ok(failure)
    }

    fn begin_forwarding(&self) {
        store_release(&self.is_forwarded, 1);
    }

    fn progress(&self) {
        let first = self.ring.lock().feeder(0);
        let _ = self.ask_feeders(first);
    }

    fn arm(&self) -> bool {
        // Whatever is put is told of; that it is put needs no reader, once this is known.
        let mut ring = self.ring.lock();
        ring.is_awaited = ring.outcomes.is_empty();
        self.note(&ring);
        let is_awaited = ring.is_awaited;
        let first = ring.feeder(0);
        drop(ring);
        if is_awaited {
            self.for_each_feeder(first, |feeder| feeder.expect());
        }
        !is_awaited
    }

    fn has_put_off(&self) -> bool {
        !self.is_empty()
    }

    fn interrupts(&self) -> &Notifier {
        &self.interrupts
    }

    fn tell(&self, told: &mut ObjectInfo<'_>) {
        told.value(KOFI_VALUE_SIZE, self.size as u64);
        told.value(KOFI_VALUE_ENTRIES, self.told.get());
        told.value(KOFI_VALUE_ERRORS, self.failures.get());
        told.value(KOFI_VALUE_CALLBACKS, self.interrupts.calls());
    }

    fn describe(&self, prov_errno: i32) -> &'static CStr {
        strerror(prov_errno)
    }

    fn close(&self) {}
}
