// SPDX-License-Identifier: GPL-2.0

//! The entries of event queues.
//!
//! An event is allocated in advance, filled in once, and moved from the queue to the reader without a copy.

use super::{
    batch::Batch,
    EventQueue, //
};
use crate::fi::prelude::*;

/// Maximum private data of an event, in bytes: an InfiniBand CM reply has 196.
pub const MAX_DATA: usize = 256;

/// The object that an event is about, by the consumer's identifier.
///
/// The C API uses the address of the object's `fid`, Rust consumers a number of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source(pub usize);

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A connection event: FI_CONNREQ, FI_CONNECTED or FI_SHUTDOWN.
    Connection(u32),
    /// An error: the fabric errno and the provider errno.
    Error(Errno, i32),
    /// FI_AV_COMPLETE or FI_MR_COMPLETE: the end of a [`Batch`] or of a single operation.
    Complete(u32),
    /// An event of `fi_eq_write()`, with its event number.
    Written(u32),
}

/// An entry of an event queue.
pub struct Event {
    kind: Kind,
    source: Source,
    info: Option<KBox<Info>>,
    batch: Option<KBox<Batch>>,
    data: KVec<u8>,
}

/// An event that is in no queue.
pub type OwnedEvent = ListBox<Event>;

impl Event {
    /// Allocates an event about `source`, with space for [`MAX_DATA`] bytes. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn alloc(source: Source) -> Result<OwnedEvent> {
        Self::alloc_with_capacity(source, MAX_DATA)
    }

    /// Allocates an event about `source`, with space for `space` bytes. May sleep.
    pub(super) fn alloc_with_capacity(source: Source, space: usize) -> Result<OwnedEvent> {
        let data = KVec::with_capacity(space, GFP_KERNEL)?;
        ListBox::new(Self {
            kind: Kind::Written(0),
            source,
            info: None,
            batch: None,
            data,
        })
    }

    /// Returns the kind of the event; for a batch, of the next unread failure or the final event.
    pub fn kind(&self) -> Kind {
        match &self.batch {
            None => self.kind,
            Some(batch) => match batch.next_failure() {
                Some(failure) => Kind::Error(failure.errno, 0),
                None => Kind::Complete(batch.final_event),
            },
        }
    }

    /// Returns the batch that the event reports.
    pub fn batch(&self) -> Option<&Batch> {
        self.batch.as_deref()
    }

    /// Returns the data of a batch event: the index of the next unread failure, or the number of successes.
    pub fn batch_data(&self) -> Option<u64> {
        let batch = self.batch()?;
        let failure = batch.next_failure();
        Some(failure.map_or(batch.succeeded(), |failure| failure.index.into()))
    }

    /// Returns the object that the event is about.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the info of a connection request.
    pub fn info(&self) -> Option<&Info> {
        self.info.as_deref()
    }

    /// Returns the peer's private data, or the data of `fi_eq_write()`.
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

impl OwnedEvent {
    /// Fills in the event; data past the capacity is cut off.
    pub(crate) fn fill(mut self, kind: Kind, data: &[u8], info: Option<KBox<Info>>) -> Self {
        let event = &mut *self;
        event.kind = kind;
        event.info = info;
        event.data.clear();
        let space = event.data.capacity().min(data.len());
        // The data is within the capacity, so this neither allocates nor fails.
        let _ = event.data.extend_from_slice(&data[..space], GFP_NOWAIT);
        self
    }

    /// Fills in the results of a batch.
    pub(crate) fn set_batch(mut self, batch: KBox<Batch>) -> Self {
        self.batch = Some(batch);
        self
    }

    /// Takes the info of a connection request.
    pub fn take_info(&mut self) -> Option<KBox<Info>> {
        self.info.take()
    }
}

/// An allocated event for one queue.
pub struct ReservedEvent {
    queue: Arc<EventQueue>,
    event: OwnedEvent,
}

impl ReservedEvent {
    /// Allocates the event `kind` about `source`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in crate::fi) fn new(queue: &Arc<EventQueue>, source: Source, kind: Kind) -> Result<Self> {
        Ok(Self {
            queue: queue.clone(),
            event: Event::alloc_with_capacity(source, 0)?.fill(kind, &[], None),
        })
    }

    /// Writes the event to the queue. Process context.
    pub(crate) fn write(self) {
        self.queue.push(self.event);
    }
}
