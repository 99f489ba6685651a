// SPDX-License-Identifier: GPL-2.0

//! Poll sets: which of many completion queues and counters have something new.

use super::{
    card::Ties,
    cntr::Counter,
    cq::CompletionQueue,
    domain::Domain,
    group::{
        Group,
        Look,
        Watched, //
    },
    object::{
        Held,
        Parent,
        Users, //
    },
    wait::Signal, //
};
use crate::abi::{
    closing::Closing,
    context::InProcess,
    Errno,
    Result,
    KOFI_OBJECT_POLL_SET, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

enum Polled {
    Queue(Held<CompletionQueue>),
    Counter(Held<Counter>),
}

impl Polled {
    fn is_queue(&self, queue: &Arc<CompletionQueue>) -> bool {
        matches!(self, Self::Queue(known) if Arc::ptr_eq(known.arc(), queue))
    }

    fn is_counter(&self, counter: &Arc<Counter>) -> bool {
        matches!(self, Self::Counter(known) if Arc::ptr_eq(known.arc(), counter))
    }
}

impl Watched for Polled {
    fn signal(&self) -> &Signal {
        match self {
            Self::Queue(queue) => queue.signal_of_arrival(),
            Self::Counter(counter) => counter.signal(),
        }
    }

    fn look(&self, told: &mut u64) -> Look {
        match self {
            Self::Queue(queue) => queue.look(),
            Self::Counter(counter) => counter.look(told),
        }
    }
}

/// A poll set. Its members are busy as long as they are in it, and it is as long as it has any.
#[pin_data]
pub struct PollSet {
    #[pin]
    group: Group<Polled>,
    users: Users,
    ties: Closing<Ties<Domain>>,
}

impl Parent for PollSet {
    fn users(&self) -> &Users {
        &self.users
    }
}

impl PollSet {
    pub(super) fn new(domain: Held<Domain>) -> Result<Arc<Self>> {
        let (group, size) = Group::new()?;
        let card = domain.card().child(KOFI_OBJECT_POLL_SET, c"", Some(size))?;
        let ties = Ties::new(card, domain)?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                group <- group,
                users: Users::new(),
                ties,
            }),
            GFP_KERNEL,
        )?)
    }

    /// Adds a queue, which [`Self::poll`] calls `token`; nothing happens if it is there.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it has been closed; -FI_ENOMEM.
    pub fn add_queue(
        &self,
        _here: InProcess,
        queue: &Arc<CompletionQueue>,
        token: usize,
    ) -> Result {
        let member = Polled::Queue(Held::new(queue)?);
        self.group
            .add(member, token, |known| known.is_queue(queue))
            .map(drop)
    }

    /// The same with a counter.
    ///
    /// # Errors
    ///
    /// Those of [`Self::add_queue`].
    pub fn add_counter(&self, _here: InProcess, counter: &Arc<Counter>, token: usize) -> Result {
        let member = Polled::Counter(Held::new(counter)?);
        self.group
            .add(member, token, |known| known.is_counter(counter))
            .map(drop)
    }

    /// Takes a queue out, if it is there.
    pub fn remove_queue(&self, _here: InProcess, queue: &Arc<CompletionQueue>) {
        self.group.remove_first(|known| known.is_queue(queue));
    }

    /// Takes a counter out, if it is there.
    pub fn remove_counter(&self, _here: InProcess, counter: &Arc<Counter>) {
        self.group.remove_first(|known| known.is_counter(counter));
    }

    /// Hands the tokens of up to `most` members that have something new to `visit`, each once, and says
    /// how many there are. Any context; `visit` is called with interrupts off.
    ///
    /// A queue is one of them as long as it is not empty, a counter once after it has changed. A queue of
    /// which only operations are over that nobody is told of may be one, too.
    pub fn poll(&self, most: usize, visit: impl FnMut(usize)) -> usize {
        self.group.each(most, visit)
    }

    /// Closes the set: -FI_EBUSY while it has members.
    pub(crate) fn close(&self) -> Result {
        if !self.group.is_empty() {
            return Err(Errno::EBUSY);
        }
        self.users.retire()?;
        self.ties.card.withdraw();
        Ok(())
    }
}
