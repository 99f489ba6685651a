// SPDX-License-Identifier: GPL-2.0

//! Delivery of rdma_cm's events to a [`CmHandler`], and the end of an id whose handler runs.
//!
//! The spinlock `CmIdContext::handler` guards the reference to the handler.

use super::{
    CmEvent,
    CmId,
    ConnParam,
    LockedCmId, //
};
use crate::{
    bindings,
    compat::{
        ECONNABORTED,
        ECONNREFUSED, //
    },
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_spinlock,
        Arc,
        SpinLock, //
    },
    task::Task, //
};

/// Handles the events of a [`CmId`].
pub(crate) trait CmHandler: Send + Sync {
    /// Handles `event` of `id`; for [`CmEvent::ConnectRequest`], `id` is the new one.
    ///
    /// Context: process, may sleep. Locking: the handler lock of the id is held, so a handler must
    /// not call [`CmId::lock`] on it. The handler may drop the [`CmId`], which takes effect when
    /// the handler returns. During a `ConnectRequest`, the *listening* `CmId` must not be dropped
    /// in the handler, neither directly nor with the last reference on its owner.
    fn handle_event(self: Arc<Self>, id: &LockedCmId, event: CmEvent<'_>);
}

/// The context of an rdma_cm id.
#[pin_data]
pub(super) struct CmIdContext {
    #[pin]
    handler: SpinLock<Option<Arc<dyn CmHandler>>>,
    /// Address of the `task_struct` that runs the handler; 0 for none.
    running_task: Atomic<usize>,
    /// Set when that task drops the id.
    dropped: Atomic<bool>,
}

impl CmIdContext {
    pub(super) fn new(handler: Option<Arc<dyn CmHandler>>) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                handler <- new_spinlock!(handler, "kofi::rdma::CmIdContext"),
                running_task: Atomic::new(0),
                dropped: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Replaces the handler and returns the old one.
    pub(super) fn set_handler(
        &self,
        handler: Option<Arc<dyn CmHandler>>,
    ) -> Option<Arc<dyn CmHandler>> {
        core::mem::replace(&mut *self.handler.lock(), handler)
    }

    /// Makes rdma_cm destroy the id when the handler, which this task runs, returns.
    pub(super) fn set_dropped(&self) {
        self.dropped.store(true, Relaxed);
    }

    fn handler(&self) -> Option<Arc<dyn CmHandler>> {
        self.handler.lock().clone()
    }

    /// Runs `f` as the handler, in this task; returns whether it dropped the id.
    fn run_handler(&self, f: impl FnOnce()) -> bool {
        self.running_task.store(current_task_addr(), Relaxed);
        f();
        self.running_task.store(0, Relaxed);
        self.dropped.load(Relaxed)
    }

    /// Returns whether the current task runs the handler. Concurrent changes by other tasks do not
    /// affect the result.
    pub(super) fn is_in_handler(&self) -> bool {
        self.running_task.load(Relaxed) == current_task_addr()
    }
}

fn current_task_addr() -> usize {
    Task::current_raw() as usize
}

/// Leaks a context: the id that points to it owns it from now on.
pub(super) fn leak_context(context: Pin<KBox<CmIdContext>>) {
    // SAFETY: The context is not moved until `reclaim_context` makes it a pinned box again.
    let _ = KBox::into_raw(unsafe { Pin::into_inner_unchecked(context) });
}

/// # Safety
///
/// `context` was leaked by [`leak_context`], and no other use of it is left.
pub(super) unsafe fn reclaim_context(context: *mut CmIdContext) -> Pin<KBox<CmIdContext>> {
    // SAFETY: By this function's contract.
    unsafe { KBox::from_raw(context) }.into()
}

/// Callback of rdma_cm for events; rdma_cm destroys the id if it returns a value other than 0.
///
/// # Safety
///
/// Called by rdma_cm with a valid event for a valid id, whose context is a [`CmIdContext`] and whose
/// handler lock is held. For a connection request, the context is that of the listener.
pub(super) unsafe extern "C" fn handle(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By this function's contract.
    let (raw, context) = unsafe { (&*event, (*id).context.cast::<CmIdContext>()) };
    if raw.event == bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST {
        // SAFETY: By this function's contract.
        return unsafe { handle_request(id, &*context, raw) };
    }
    // SAFETY: By this function's contract; an id is not destroyed while its handler runs.
    let (locked, event) = unsafe { (LockedCmId::from_raw(id), CmEvent::from_raw(raw)) };
    // SAFETY: By this function's contract. A drop of the id in another task waits for the handler
    // lock, and a drop in this one leaves the context to this function.
    let dropped = unsafe { &*context }.run_handler(|| {
        // SAFETY: As above.
        if let Some(handler) = unsafe { &*context }.handler() {
            handler.handle_event(locked, event);
        }
    });
    if !dropped {
        return 0;
    }
    // SAFETY: The owner has dropped the id, and rdma_cm calls no handler of it again.
    drop(unsafe { reclaim_context(context) });
    ECONNABORTED.to_errno()
}

/// Creates a [`CmId`] for a connection request, and passes it to the listener's handler.
///
/// # Safety
///
/// `id` is a new id for the request `event`, locked, which still has its listener's context.
unsafe fn handle_request(
    id: *mut bindings::rdma_cm_id,
    listener: &CmIdContext,
    event: &bindings::rdma_cm_event,
) -> c_int {
    let Some(handler) = listener.handler() else {
        return ECONNREFUSED.to_errno();
    };
    let context = match CmIdContext::new(None) {
        Ok(context) => context,
        Err(err) => return err.to_errno(),
    };
    let raw_context = ptr::from_ref(&*context).cast_mut();
    leak_context(context);
    // SAFETY: By this function's contract the id is valid; no other thread uses it yet.
    unsafe { (*id).context = raw_context.cast() };

    // SAFETY: The context is valid: only this function frees it while this task is in the handler.
    let dropped = unsafe { &*raw_context }.run_handler(|| {
        // SAFETY: By this function's contract `id` is not NULL.
        let raw = unsafe { NonNull::new_unchecked(id) };
        // INVARIANT: The id is valid, and its context, allocated above, belongs to it.
        let owned = CmId { raw };
        // SAFETY: By this function's contract.
        let (locked, conn) = unsafe { (LockedCmId::from_raw(id), ConnParam::from_event(event)) };
        handler.handle_event(locked, CmEvent::ConnectRequest { id: owned, conn });
    });
    if !dropped {
        return 0;
    }
    // SAFETY: The owner has dropped the id, and rdma_cm calls no handler of it again.
    drop(unsafe { reclaim_context(raw_context) });
    ECONNREFUSED.to_errno()
}
