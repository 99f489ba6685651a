// SPDX-License-Identifier: GPL-2.0

//! Sources of entries: a reader that finds the ring empty polls them, and a queue that readers sleep on arms them.

use super::SwCq;
use crate::{
    fi::prelude::*,
    util::{
        lock::assert_held,
        once::load_acquire, //
    },
};
use kernel::sync;

/// Source of entries that is polled when a reader finds the ring empty.
pub(crate) trait ProgressSource: Send + Sync {
    /// Makes progress, for a reader that has found the ring empty, and adds the entries of operations that
    /// complete. Returns false if nothing was done, so that the ring need not be read again. Any context.
    fn progress(&self) -> bool;

    /// Makes the source add its next entry without being polled: a reader is about to sleep. Any context.
    fn arm(&self);

    /// Reports that the first `count` entries of a queue have been forwarded to the peer queue's owner. Any context.
    fn entries_forwarded(&self, _count: u64) {}
}

/// Owner's handle of a [`ProgressSource`]. Dropping it waits until no reader is inside the source; may sleep.
///
/// A reader may hold the last reference on a detached source, in a context where its resources cannot be freed.
/// The owner therefore keeps them until the reader's reference is gone.
pub(crate) struct ProgressHandle {
    // Dropped in this order.
    source: Arc<dyn ProgressSource>,
    _detach_wait: DetachWait,
}

/// Waits, when it is dropped, until the source has been dropped.
struct DetachWait(Arc<sync::Completion>);

/// Field of a source that it drops last, which completes the owner's wait.
pub(crate) struct DetachGuard(Arc<sync::Completion>);

impl Drop for DetachGuard {
    fn drop(&mut self) {
        self.0.complete_all();
    }
}

impl ProgressHandle {
    /// Creates the source by `make`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new<F: ProgressSource + 'static>(
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

/// Attached source, and how often it was attached.
pub(super) struct SourceEntry {
    pub(super) source: Arc<dyn ProgressSource>,
    attach_count: usize,
}

/// A source to poll, and whether there are more.
pub(super) type NextSource = (Arc<dyn ProgressSource>, bool);

impl SwCq {
    /// Attaches a source, which a reader polls when the ring is empty. It has to be [detached](Self::detach_source)
    /// as often as it was attached. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn attach_source(&self, handle: &ProgressHandle) -> Result {
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
                let (source, attach_count) = (source.clone(), 1);
                let new = SourceEntry {
                    source,
                    attach_count,
                };
                // The vector grows into memory that was allocated without the lock.
                for there in Iterator::chain(ring.sources.drain_all(), [new]) {
                    let _ = spare.push_within_capacity(there);
                }
                mem::swap(&mut ring.sources, &mut spare);
                self.update_idle(&ring);
                drop(ring);
                return Ok(());
            }
            let len = ring.sources.len();
            drop(ring);
            spare = KVec::with_capacity(len + 1, GFP_KERNEL)?;
        }
    }

    /// Detaches a source once. After the last time no new reader polls it; a reader that has begun may still be
    /// inside. May sleep.
    pub(crate) fn detach_source(&self, handle: &ProgressHandle) {
        let mut ring = self.ring.lock();
        let is = |there: &SourceEntry| Arc::ptr_eq(&there.source, &handle.source);
        let at = ring.sources.iter().position(is);
        let mut gone = None;
        match at.and_then(|at| ring.sources.get_mut(at)) {
            Some(there) if there.attach_count > 1 => there.attach_count -= 1,
            _ => gone = at.and_then(|at| ring.sources.remove(at).ok()),
        }
        self.update_idle(&ring);
        drop(ring);
        drop(gone);
    }

    /// Calls `act` for each source, without the lock; `next` is the first one.
    pub(super) fn for_each_source(
        &self,
        mut next: Option<NextSource>,
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

    /// Polls each source once.
    pub(super) fn poll_sources(&self) {
        let first = self.ring.lock().source_at(0);
        let _ = self.progress_sources(first);
    }

    /// Polls the source `first` and those after it. Returns false if nothing was done.
    pub(super) fn progress_sources(&self, first: Option<NextSource>) -> bool {
        let mut has_come = false;
        self.for_each_source(first, |feeder| has_come |= feeder.progress());
        has_come
    }

    /// Reports to the sources that all entries read so far have been forwarded: the forwarding reader reads again.
    #[cold]
    pub(super) fn report_forwarded(&self) {
        let ring = self.ring.lock();
        let (count, first) = (self.total_read(), ring.source_at(0));
        drop(ring);
        self.for_each_source(first, |feeder| feeder.entries_forwarded(count));
    }

    /// Returns the number of entries added so far, if the reader [forwards](ProgressSource::entries_forwarded) them.
    /// Any context.
    pub(crate) fn forward_position(&self) -> Option<u64> {
        if load_acquire(&self.is_forwarded) == 0 {
            return None;
        }
        let ring = self.ring.lock();
        Some(self.total_read() + ring.entries.len() as u64)
    }

    /// Returns the number of entries read. The lock is held.
    fn total_read(&self) -> u64 {
        assert_held(&self.ring);
        self.entries_read.get() + self.errors_read.get()
    }
}
