// SPDX-License-Identifier: GPL-2.0

//! A queue that nobody reads: whatever completes is passed on to the queue of another provider, its owner.
//!
//! Whoever comes passes it on: the queue's handler, a work item that is called for what completes when there
//! was nothing, and the owner, who may make its peer progress. They take turns, so that it stays in order.
//! What the owner has no room for is kept, and all behind it stays where it is; the handler tries again
//! every [`PACE`]. The spinlock guards that, and is held with interrupts off while the owner is told.

use super::{
    super::{
        memory::{
            Context,
            EntrySlots, //
        },
        timer::{
            ArmedTimer,
            Timer, //
        },
    },
    read_or_arm,
    Completion,
    CompletionQueue,
    CqEntry,
    Entries,
    Handler,
    TaskHandler, //
};
use crate::{
    abi::{
        callback::{
            Caller,
            Functions,
            Registered, //
        },
        context::ProcessContext,
        fi_addr_t,
        fi_cq_tagged_entry,
        lock::FastLockIrq,
        log::complain,
        once::OnceBox,
        Errno,
        Result, //
    },
    fi::provider, //
};
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        static_lock_class,
        Arc,
        Mutex, //
    },
    time::Delta, //
};

/// How many completions somebody passes on before others have their turn.
const BUDGET: usize = 256;

/// How long an owner without room is left alone.
const PACE: Delta = Delta::from_millis(1);

/// Whose queue completions go to.
pub(crate) trait CqOwner: Send + Sync {
    /// Passes the outcome of an operation to the owner. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN with the outcome if the owner has no room: call again later. An outcome that the owner refuses with
    /// another errno is lost.
    fn tell(&self, outcome: CqEntry) -> core::result::Result<(), (Errno, CqEntry)>;

    /// Returns the functions of other modules that [`Self::tell`] calls.
    fn functions(&self) -> Functions {
        Functions::NONE
    }
}

/// Why nothing more is passed on.
#[derive(PartialEq, Eq)]
enum Pending {
    /// There is nothing.
    Nothing,
    /// The owner has no room.
    Kept,
    /// Others have their turn.
    More,
    /// There is no owner any more.
    Ended,
}

/// What the spinlock guards.
struct ForwardState {
    /// Until the queue has been closed, or the owner's module unloaded.
    owner: Option<KBox<dyn CqOwner>>,
    /// What the owner had no room for.
    kept: Option<CqEntry>,
}

/// See the module.
#[pin_data]
pub(crate) struct PeerForward {
    queue: Arc<dyn provider::CompletionQueue>,
    #[pin]
    post: FastLockIrq<ForwardState>,
    /// Calls the handler when the owner has been left alone for long enough.
    alarm: Arc<Timer<CompletionQueue>>,
    #[pin]
    watch: Mutex<Option<ArmedTimer<CompletionQueue>>>,
    /// Registration of an owner that is another module.
    registered: OnceBox<Registered>,
}

impl Caller for PeerForward {
    fn end(&self) {
        self.forget_owner();
    }
}

impl PeerForward {
    /// Begins to pass on what completes. May sleep.
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
            kept: None,
        };
        let forward = Arc::pin_init(
            pin_init!(Self {
                queue: queue.core().clone(),
                post <- FastLockIrq::new(post, c"kofi::Forward", static_lock_class!()),
                alarm,
                watch <- new_mutex!(None, "kofi::Forward::watch"),
                registered: OnceBox::new(),
            }),
            GFP_KERNEL,
        )?;
        queue.core().begin_forwarding();
        let handler = KBox::new(ForwardHandler(forward.clone()), GFP_KERNEL)?;
        let registered = match functions.is_empty() {
            true => None,
            false => {
                let title = fmt!("peer cq {}", queue.number());
                let registered = Registered::new(functions, title, forward.clone())?;
                Some(KBox::new(registered, GFP_KERNEL)?)
            }
        };
        queue.set_handler(Handler::Task(handler))?;
        if let Some(registered) = registered {
            let _ = forward.registered.fill(registered);
        }
        queue.arm_handler();
        Ok(forward)
    }

    /// Passes on one, if there is one: whether there may be more.
    fn pass(&self) -> core::result::Result<(), Pending> {
        let mut post = self.post.lock();
        let ForwardState { owner, kept } = &mut *post;
        let owner = owner.as_ref().ok_or(Pending::Ended)?;
        let outcome = kept
            .take()
            .or_else(|| next(&*self.queue))
            .ok_or(Pending::Nothing)?;
        match owner.tell(outcome) {
            Ok(()) => Ok(()),
            Err((Errno::EAGAIN, outcome)) => {
                *kept = Some(outcome);
                Err(Pending::Kept)
            }
            Err((errno, _)) => {
                complain(
                    &c"peer",
                    fmt!("a completion is lost: its owner says {}", errno.to_int()),
                );
                Ok(())
            }
        }
    }

    /// Passes on what there is, up to the budget.
    fn go(&self) -> Pending {
        for _ in 0..BUDGET {
            if let Err(rest) = self.pass() {
                return rest;
            }
        }
        Pending::More
    }

    /// Passes on what there is, and has been made, as far as the owner has room. Any context in which the
    /// owner can be told.
    pub(crate) fn drive(&self) {
        self.queue.progress();
        let _ = self.go();
    }

    /// What the handler does.
    fn handle(&self) {
        loop {
            match self.go() {
                Pending::Nothing => {}
                Pending::Kept => return self.alarm.set(&mut self.watch.lock(), PACE),
                // What is in the queue stays there: arming would find it for ever.
                Pending::Ended => return,
                Pending::More => return self.alarm.who().call_handler(),
            }
            // It is called for the next one, unless that has come meanwhile.
            let armed = read_or_arm(&*self.queue, || match self.pass() {
                Err(Pending::Nothing) => Err(Errno::EAGAIN),
                _ => Ok(1),
            });
            if armed.is_err() {
                return;
            }
        }
    }

    /// Ends the forwarding when the queue has been closed. May sleep.
    pub(crate) fn end(&self) {
        self.forget_owner();
        if let Some(registered) = self.registered.get() {
            registered.withdraw();
        }
    }

    /// Forwards nothing any more: when this returns the owner is not being told anything. May sleep.
    fn forget_owner(&self) {
        drop(self.watch.lock().take());
        let mut post = self.post.lock();
        // What the owner had no room for is dropped with the endpoints that it is of.
        post.kept = None;
        let owner = post.owner.take();
        drop(post);
        drop(owner);
    }
}

/// What is next in a queue, if anything is. Any context.
pub(crate) fn next(queue: &dyn provider::CompletionQueue) -> Option<CqEntry> {
    let mut entry = EntrySlots::<fi_cq_tagged_entry, 1>::new();
    let mut source = EntrySlots::<fi_addr_t, 1>::new();
    match queue.read_from(Entries::Tagged(entry.room()), source.room()) {
        Ok(1) => {}
        Err(Errno::EAVAIL) => return queue.read_error().ok().map(CqEntry::Failed),
        _ => return None,
    }
    let (entry, source) = (entry.nth(0)?, source.nth(0)?);
    Some(CqEntry::Done(Completion {
        context: Context::new(entry.op_context),
        flags: entry.flags,
        len: entry.len,
        data: entry.data,
        buf: entry.buf.addr(),
        tag: entry.tag,
        source: *source,
    }))
}

/// The queue's handler.
struct ForwardHandler(Arc<PeerForward>);

impl TaskHandler for ForwardHandler {
    fn ready(&self, _here: ProcessContext) {
        self.0.handle();
    }
}
