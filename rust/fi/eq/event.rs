// SPDX-License-Identifier: GPL-2.0

//! What event queues hold.
//!
//! An event is memory that was allocated before anything happened; it is filled once and then goes
//! from list to reader without being copied.

use super::batch::Batch;
use crate::abi::{
    info::Info,
    owned_list::ListBox,
    Errno,
    Result, //
};
use kernel::prelude::*;

/// Most bytes of private data that an event can carry: an InfiniBand CM reply has 196.
pub const MAX_DATA: usize = 256;

/// Which object an event is about, as its consumer knows it.
///
/// The C API uses the address of the object's `fid`, Rust consumers a number of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source(pub usize);

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A connection event: FI_CONNREQ, FI_CONNECTED or FI_SHUTDOWN.
    Connection(u32),
    /// An error: the fabric errno and the provider's own number for it.
    Error(Errno, i32),
    /// All of a [`Batch`] is over, or one thing by itself: FI_AV_COMPLETE, FI_MR_COMPLETE.
    Complete(u32),
    /// What a consumer wrote with `fi_eq_write()`, and the event number it gave.
    Written(u32),
}

/// One entry of a queue.
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
    /// Makes room for an event about `source` with up to [`MAX_DATA`] bytes. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn reserve(source: Source) -> Result<OwnedEvent> {
        Self::with_room(source, MAX_DATA)
    }

    /// The same with room for so many.
    pub(super) fn with_room(source: Source, room: usize) -> Result<OwnedEvent> {
        let data = KVec::with_capacity(room, GFP_KERNEL)?;
        ListBox::new(Self {
            kind: Kind::Written(0),
            source,
            info: None,
            batch: None,
            data,
        })
    }

    /// What happened. Of a batch: the failure that is read next, or its end.
    pub fn kind(&self) -> Kind {
        match &self.batch {
            None => self.kind,
            Some(batch) => match batch.next_failure() {
                Some(failure) => Kind::Error(failure.errno, 0),
                None => Kind::Complete(batch.number()),
            },
        }
    }

    /// The things that this tells the outcome of.
    pub fn batch(&self) -> Option<&Batch> {
        self.batch.as_deref()
    }

    /// Of a batch: the number of the failure that is read next, or how many succeeded.
    pub fn batch_data(&self) -> Option<u64> {
        let batch = self.batch()?;
        let failure = batch.next_failure();
        Some(failure.map_or(batch.succeeded(), |failure| failure.index.into()))
    }

    /// To whom.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The description of a connection request.
    pub fn info(&self) -> Option<&Info> {
        self.info.as_deref()
    }

    /// The peer's private data, or what was written.
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

impl OwnedEvent {
    /// Says what happened; private data past the room is cut off.
    pub(crate) fn fill(mut self, kind: Kind, data: &[u8], info: Option<KBox<Info>>) -> Self {
        let event = &mut *self;
        event.kind = kind;
        event.info = info;
        event.data.clear();
        let room = event.data.capacity().min(data.len());
        // Within the capacity, so nothing is allocated and nothing fails.
        let _ = event.data.extend_from_slice(&data[..room], GFP_NOWAIT);
        self
    }

    /// Says what came of many things.
    pub(crate) fn end(mut self, batch: KBox<Batch>) -> Self {
        self.batch = Some(batch);
        self
    }

    /// Takes the description of a connection request out.
    pub fn take_info(&mut self) -> Option<KBox<Info>> {
        self.info.take()
    }
}
