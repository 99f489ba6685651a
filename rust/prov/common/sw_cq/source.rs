// SPDX-License-Identifier: GPL-2.0

//! Sources of entries: a reader that finds the ring empty polls the sources, and arming the empty queue arms them.
//!
//! The mutex `attached` guards the attached sources. Readers use a copy in RCU read sections: a read takes no lock for
//! the copy, and a detach waits until no reader calls the source.

use super::SwCq;
use crate::{
    fi::prelude::*,
    util::{
        lock::assert_held,
        once::load_acquire,
        rcu_box::RcuBox, //
    },
};
use kernel::sync::rcu;

/// Source of entries that is polled when a reader finds the ring empty.
pub(crate) trait ProgressSource: Send + Sync {
    /// Makes progress, for a reader that has found the ring empty, and adds the entries of operations that
    /// complete. Returns false if nothing was done, so that the ring need not be read again. Any context; does not
    /// sleep.
    fn progress(&self) -> bool;

    /// Makes the source add its next entry without being polled. Called when the empty queue is armed, because its
    /// readers sleep from then on. Any context; does not sleep.
    fn arm(&self);

    /// Handles the report that the first `count` entries of the queue have been forwarded to the owner of the peer
    /// queue. Any context; does not sleep.
    fn entries_forwarded(&self, _count: u64) {}
}

/// Attached source, with the number of times that it was attached.
struct Attached {
    source: Arc<dyn ProgressSource>,
    count: usize,
}

/// List of sources that readers see.
type SourceList = KVec<Arc<dyn ProgressSource>>;

/// Attached sources.
struct AttachedList {
    entries: KVec<Attached>,
    /// Empty list with space for all sources but one, if several are attached: a source can be detached without an
    /// allocation.
    spare: Option<KBox<SourceList>>,
}

/// Sources of a queue.
#[pin_data]
pub(super) struct Sources {
    #[pin]
    attached: Mutex<AttachedList>,
    /// Copy of the attached sources for readers.
    list: RcuBox<SourceList>,
}

impl Sources {
    /// Returns an empty list.
    pub(super) fn new() -> impl PinInit<Self> {
        let attached = AttachedList {
            entries: KVec::new(),
            spare: None,
        };
        pin_init!(Self {
            attached <- new_mutex!(attached, "kofi::prov::SwCq::sources"),
            list: RcuBox::new(),
        })
    }

    /// Returns whether there is no source. Any context.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Calls `act` for each source. Any context.
    #[inline(always)]
    pub(super) fn for_each(&self, mut act: impl FnMut(&dyn ProgressSource)) {
        let reader = rcu::read_lock();
        if let Some(list) = self.list.get(&reader) {
            list.iter().for_each(|source| act(&**source));
        }
    }

    /// Polls each source once. Returns false if nothing was done. Any context.
    #[inline(always)]
    pub(super) fn poll(&self) -> bool {
        let mut made_progress = false;
        self.for_each(|source| made_progress |= source.progress());
        made_progress
    }

    fn attach(&self, source: &Arc<dyn ProgressSource>) -> Result {
        let mut attached = self.attached.lock();
        let AttachedList { entries, spare } = &mut *attached;
        let mut others = entries.iter_mut();
        if let Some(entry) = others.find(|entry| Arc::ptr_eq(&entry.source, source)) {
            entry.count += 1;
            return Ok(());
        }
        let mut list = KBox::new(
            KVec::with_capacity(entries.len() + 1, GFP_KERNEL)?,
            GFP_KERNEL,
        )?;
        let new = Attached {
            source: source.clone(),
            count: 1,
        };
        entries.push(new, GFP_KERNEL)?;
        fill(&mut list, entries);
        *spare = self.publish(Some(list));
        Ok(())
    }

    fn detach(&self, source: &Arc<dyn ProgressSource>) {
        let mut attached = self.attached.lock();
        let AttachedList { entries, spare } = &mut *attached;
        let is_source = |entry: &Attached| Arc::ptr_eq(&entry.source, source);
        let Some(at) = entries.iter().position(is_source) else {
            return;
        };
        entries[at].count -= 1;
        if entries[at].count == 0 {
            let removed = entries.remove(at);
            let mut rest = spare.take();
            if let Some(rest) = &mut rest {
                fill(rest, entries);
            }
            let old = self.publish(rest);
            *spare = old.filter(|_| entries.len() > 1);
            drop(removed);
        }
    }

    /// Replaces the list, and returns the old one, emptied. May sleep.
    fn publish(&self, list: Option<KBox<SourceList>>) -> Option<KBox<SourceList>> {
        let mut old = self.list.replace(list)?;
        old.truncate(0);
        Some(old)
    }
}

/// Adds the sources of `entries` to an empty list, which has space for them.
fn fill(list: &mut SourceList, entries: &[Attached]) {
    for entry in entries {
        let _ = list.push_within_capacity(entry.source.clone());
    }
}

impl SwCq {
    /// Attaches a source, which a reader polls when the ring is empty. Each attachment has to be
    /// [detached](Self::detach_source) once. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn attach_source(&self, source: &Arc<dyn ProgressSource>) -> Result {
        self.sources.attach(source)
    }

    /// Undoes one [`Self::attach_source`]. When the last one is undone, no reader calls the source any more, and no
    /// call is in progress. May sleep.
    pub(crate) fn detach_source(&self, source: &Arc<dyn ProgressSource>) {
        self.sources.detach(source);
    }

    /// Reports to the sources that all entries read so far have been forwarded. Called when the reader that forwards
    /// them reads again, because it forwards what it has read before that.
    #[cold]
    pub(super) fn report_forwarded(&self) {
        let ring = self.ring.lock();
        let count = self.total_read();
        drop(ring);
        let report = |source: &dyn ProgressSource| source.entries_forwarded(count);
        self.sources.for_each(report);
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
