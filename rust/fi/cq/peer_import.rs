// SPDX-License-Identifier: GPL-2.0

//! Imported completion queues: no consumer reads the queue, each entry is forwarded to the owner's queue,
//! which is another provider's (fi_peer(3), peer's side).
//!
//! Two callers forward entries: the queue's handler, which runs when entries arrive in an empty queue, and
//! the owner when it drives the peer's progress. The spinlock serializes them, so that the order is kept; it
//! is held with interrupts off across the call of the owner. An entry that the owner has no space for is held
//! back, and all later entries stay in the queue; the handler retries every [`RETRY_INTERVAL`].

use super::{
    super::timer::{
        ArmedTimer,
        Timer, //
    },
    read_or_arm,
    read_tagged,
    CompletionQueue,
    CqEntry,
    Handler,
    TaskHandler, //
};
use crate::{
    fi::{
        prelude::*,
        provider, //
    },
    util::{
        callback::{
            Caller,
            Functions,
            Registered, //
        },
        log::warn, //
    },
};

/// Maximum number of entries that one call forwards before it yields.
const FORWARD_BATCH: usize = 256;

/// Retry interval after the owner had no space.
const RETRY_INTERVAL: Delta = Delta::from_millis(1);

/// The owner's queue, to which completions are forwarded.
pub(crate) trait CqOwner: Send + Sync {
    /// Passes an entry to the owner. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN with the entry if the owner has no space: call again later. An entry that the owner refuses with
    /// another errno is lost.
    fn write(&self, outcome: CqEntry) -> core::result::Result<(), (Errno, CqEntry)>;

    /// Returns the functions of other modules that [`Self::write`] calls.
    fn functions(&self) -> Functions {
        Functions::EMPTY
    }
}

/// The reason why forwarding stopped.
#[derive(PartialEq, Eq)]
enum Pending {
    /// The queue is empty.
    Empty,
    /// The owner has no space.
    OwnerFull,
    /// The call's budget is spent.
    BudgetSpent,
    /// The owner is gone.
    OwnerGone,
}

/// The state under the spinlock.
struct ForwardState {
    /// The owner; `None` once the queue has been closed or the owner's module unloaded.
    owner: Option<KBox<dyn CqOwner>>,
    /// The entry that the owner had no space for.
    held_back: Option<CqEntry>,
}

/// Forwards the entries of an imported queue to its owner.
#[pin_data]
pub(crate) struct PeerForward {
    queue: Arc<dyn provider::CompletionQueue>,
    #[pin]
    state: FastLockIrq<ForwardState>,
    /// Schedules the handler after the retry interval.
    retry_timer: Arc<Timer<CompletionQueue>>,
    #[pin]
    armed_timer: Mutex<Option<ArmedTimer<CompletionQueue>>>,
    /// Registration of an owner that is another module.
    registered: SetOnce<Registered>,
}

impl Caller for PeerForward {
    fn stop_calls(&self) {
        self.drop_owner();
    }
}

impl PeerForward {
    /// Starts forwarding. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if the queue has, or had, a handler; -FI_ENOMEM.
    pub(super) fn start(
        queue: &Arc<CompletionQueue>,
        owner: KBox<dyn CqOwner>,
    ) -> Result<Arc<Self>> {
        let alarm = Timer::new(queue.clone())?;
        let functions = owner.functions();
        let post = ForwardState {
            owner: Some(owner),
            held_back: None,
        };
        let forward = pin_arc(pin_init!(Self {
            queue: queue.core().clone(),
            state <- FastLockIrq::new(post, c"kofi::PeerForward", static_lock_class!()),
            retry_timer: alarm,
            armed_timer <- new_mutex!(None, "kofi::PeerForward::armed_timer"),
            registered: SetOnce::new(),
        }))?;
        queue.core().begin_forwarding();
        let handler = KBox::new(forward.clone(), GFP_KERNEL)?;
        let number = queue.number();
        let registered = (!functions.is_empty())
            .then(|| Registered::new(functions, fmt!("peer cq {number}"), forward.clone()))
            .transpose()?;
        queue.set_handler(Handler::Task(handler))?;
        if let Some(registered) = registered {
            let _ = forward.registered.populate(registered);
        }
        queue.arm_handler();
        Ok(forward)
    }

    /// Forwards one entry. Returns an error if there is nothing more to forward now.
    fn forward_one(&self) -> core::result::Result<(), Pending> {
        let mut post = self.state.lock();
        let ForwardState { owner, held_back } = &mut *post;
        let owner = owner.as_ref().ok_or(Pending::OwnerGone)?;
        let outcome = held_back
            .take()
            .or_else(|| read_one(&*self.queue))
            .ok_or(Pending::Empty)?;
        match owner.write(outcome) {
            Ok(()) => Ok(()),
            Err((Errno::EAGAIN, outcome)) => {
                *held_back = Some(outcome);
                Err(Pending::OwnerFull)
            }
            Err((errno, _)) => {
                let errno = errno.to_int();
                warn(
                    &c"peer",
                    fmt!("a completion is lost: the owner's queue refused it: {errno}"),
                );
                Ok(())
            }
        }
    }

    /// Forwards entries, up to the budget.
    fn forward_batch(&self) -> Pending {
        for _ in 0..FORWARD_BATCH {
            if let Err(rest) = self.forward_one() {
                return rest;
            }
        }
        Pending::BudgetSpent
    }

    /// Polls the device and forwards entries, as far as the owner has space. Any context in which the owner
    /// can be called.
    pub(crate) fn progress(&self) {
        self.queue.progress();
        let _ = self.forward_batch();
    }

    /// Handles an arrival: forwards entries until the queue is empty and armed.
    fn handle(&self) {
        loop {
            match self.forward_batch() {
                Pending::Empty => {}
                Pending::OwnerFull => {
                    return self
                        .retry_timer
                        .arm(&mut self.armed_timer.lock(), RETRY_INTERVAL)
                }
                // The remaining entries stay in the queue. Arming would report them for ever.
                Pending::OwnerGone => return,
                Pending::BudgetSpent => return self.retry_timer.target().schedule_handler(),
            }
            // Armed for the next entry, unless one arrived meanwhile.
            let armed = read_or_arm(&*self.queue, || match self.forward_one() {
                Err(Pending::Empty) => Err(Errno::EAGAIN),
                _ => Ok(1),
            });
            if armed.is_err() {
                return;
            }
        }
    }

    /// Stops forwarding after the queue has been closed. May sleep.
    pub(crate) fn stop(&self) {
        self.drop_owner();
        if let Some(registered) = self.registered.as_ref() {
            registered.unregister();
        }
    }

    /// Drops the owner: when this returns the owner is not being called and will not be. May sleep.
    fn drop_owner(&self) {
        drop(self.armed_timer.lock().take());
        let mut post = self.state.lock();
        // The held-back entry is dropped together with the endpoints that it belongs to.
        post.held_back = None;
        let owner = post.owner.take();
        drop(post);
        drop(owner);
    }
}

/// Takes the next entry of a queue, if there is one. Any context.
pub(crate) fn read_one(queue: &dyn provider::CompletionQueue) -> Option<CqEntry> {
    match read_tagged(queue) {
        Ok(done) => Some(CqEntry::Done(done)),
        Err(Errno::EAVAIL) => queue.read_error().ok().map(CqEntry::Failed),
        Err(_) => None,
    }
}

impl TaskHandler for Arc<PeerForward> {
    fn ready(&self, _here: ProcessContext) {
        self.handle();
    }
}
