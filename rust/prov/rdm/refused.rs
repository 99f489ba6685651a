// SPDX-License-Identifier: GPL-2.0

//! Transmit contexts that wait for a packet because a post was refused for want of one.
//!
//! The list stands beside the packets, under their lock. Nothing is allocated to enter it, in any context.

use super::sw_cq::SwCq;
use crate::fi::prelude::*;
use kernel::list::{
    impl_list_arc_safe,
    impl_list_item,
    AtomicTracker,
    List,
    ListArc,
    ListLinks,
    TryNewListArc, //
};

/// A transmit context, as an entry of the list.
#[pin_data]
pub(super) struct Poster {
    /// The queue in which its operations complete.
    queue: Arc<SwCq>,
    /// Records whether the poster is in the list.
    #[pin]
    tracker: AtomicTracker,
    #[pin]
    links: ListLinks,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Poster { tracked_by tracker: AtomicTracker; }
}

impl_list_item! {
    impl ListItem<0> for Poster { using ListLinks { self.links }; }
}

impl Poster {
    /// Makes the entry of a context whose operations complete in `queue`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(queue: &Arc<SwCq>) -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                queue: queue.clone(),
                tracker <- AtomicTracker::new(),
                links <- ListLinks::new(),
            }),
            GFP_KERNEL,
        )?)
    }
}

/// The contexts that wait, each once.
pub(super) struct RefusedPosters(List<Poster>);

impl RefusedPosters {
    /// Makes an empty list.
    pub(super) const fn new() -> Self {
        Self(List::new())
    }

    /// Adds a context, unless it waits already. Any context.
    #[cold]
    pub(super) fn add(&mut self, poster: &Arc<Poster>) {
        if let Ok(entry) = ListArc::try_from_arc(poster.clone()) {
            self.0.push_back(entry);
        }
    }

    /// Removes all contexts, wakes the readers of their queues and calls the handlers. Any context.
    #[inline(always)]
    pub(super) fn wake(&mut self) {
        if !self.0.is_empty() {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&mut self) {
        while let Some(poster) = self.0.pop_front() {
            poster.queue.wake_readers();
        }
    }
}
