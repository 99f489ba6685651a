// SPDX-License-Identifier: GPL-2.0

//! Delivery of rdma_cm's events to a [`CmHandler`], and destruction of an id that its own handler drops.
//!
//! The spinlock `CmIdContext::handler` guards the reference to the handler.

use super::{
    CmEvent,
    CmId,
    ConnParam,
    LockedCmId, //
};
use crate::{
    compat::{
        ECONNABORTED,
        ECONNREFUSED, //
    },
    rdma::prelude::*, //
};
use kernel::{
    task::Task,
    types::ForeignOwnable, //
};

/// Handles the events of a [`CmId`].
pub(crate) trait CmHandler: Send + Sync {
    /// Handles `event` of `id`. For [`CmEvent::ConnectRequest`], `id` is the new id of the request.
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
    pub(super) handler: SpinLock<Option<Arc<dyn CmHandler>>>,
    /// Address of the `task_struct` that runs the handler; 0 for none.
    running_task: Atomic<usize>,
    /// Set when the task that runs the handler drops the id: rdma_cm destroys the id when the handler returns.
    pub(super) dropped: Atomic<bool>,
}

/// Owning pointer to a context. `into_foreign` passes the ownership to an id.
pub(super) type OwnedContext = Pin<KBox<CmIdContext>>;

impl CmIdContext {
    pub(super) fn new(handler: Option<Arc<dyn CmHandler>>) -> Result<OwnedContext> {
        KBox::pin_init(
            pin_init!(Self {
                handler <- new_spinlock!(handler, "kofi::rdma::CmIdContext"),
                running_task: Atomic::new(0),
                dropped: Atomic::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns whether the current task runs the handler. Other tasks may write `running_task` meanwhile, but never the
    /// current task's address.
    pub(super) fn is_in_handler(&self) -> bool {
        self.running_task.load(Relaxed) == current_task_addr()
    }
}

fn current_task_addr() -> usize {
    Task::current_raw() as usize
}

/// Runs `f` as the handler of `id`, in this task. Returns 0, or the errno of `error` if `f` has
/// dropped the id, which rdma_cm then destroys.
///
/// # Safety
///
/// This task runs the handler of `id`, which is valid and locked and has a [`CmIdContext`].
unsafe fn run_handler(
    id: *mut bindings::rdma_cm_id,
    error: Error,
    f: impl FnOnce(&LockedCmId, &CmIdContext),
) -> c_int {
    // SAFETY: By this function's contract; an id is not destroyed while its handler runs.
    let (locked, raw) = unsafe { (LockedCmId::from_raw(id), (*id).context) };
    // SAFETY: By this function's contract. A drop of the id in another task waits for the handler lock. After a drop in
    // this task, this function frees the context.
    let context = unsafe { &*raw.cast::<CmIdContext>() };
    context.running_task.store(current_task_addr(), Relaxed);
    f(locked, context);
    context.running_task.store(0, Relaxed);
    if !context.dropped.load(Relaxed) {
        return 0;
    }
    // SAFETY: The owner has dropped the id, and rdma_cm does not call the handler of this id again.
    drop(unsafe { OwnedContext::from_foreign(raw) });
    error.to_errno()
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
    let event = unsafe { &*event };
    if event.event == bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST {
        // SAFETY: By this function's contract.
        return unsafe { handle_request(id, event) };
    }
    // SAFETY: By this function's contract.
    let event = unsafe { CmEvent::from_raw(event) };
    // SAFETY: By this function's contract.
    unsafe {
        run_handler(id, ECONNABORTED, |locked, context| {
            let handler = context.handler.lock().clone();
            if let Some(handler) = handler {
                handler.handle_event(locked, event);
            }
        })
    }
}

/// Creates a [`CmId`] for a connection request, and passes it to the listener's handler.
///
/// # Safety
///
/// `id` is a new id for the request `event`, locked, which still has its listener's context.
unsafe fn handle_request(id: *mut bindings::rdma_cm_id, event: &bindings::rdma_cm_event) -> c_int {
    // SAFETY: By this function's contract the context is that of the listener, which is valid.
    let listener = unsafe { &*(*id).context.cast::<CmIdContext>() };
    let Some(handler) = listener.handler.lock().clone() else {
        return ECONNREFUSED.to_errno();
    };
    let context = match CmIdContext::new(None) {
        Ok(context) => context,
        Err(err) => return err.to_errno(),
    };
    // SAFETY: By this function's contract the id is valid; no other thread uses it yet.
    unsafe { (*id).context = context.into_foreign() };
    // SAFETY: By this function's contract, and the id has its own context now.
    unsafe {
        run_handler(id, ECONNREFUSED, |locked, _| {
            // SAFETY: By the contract of `handle_request` `id` is not NULL.
            let raw = NonNull::new_unchecked(id);
            // INVARIANT: The id is valid, and its context, allocated above, belongs to it.
            let owned = CmId { raw };
            // SAFETY: By the contract of `handle_request`.
            let conn = ConnParam::from_event(event);
            handler.handle_event(locked, CmEvent::ConnectRequest { id: owned, conn });
        })
    }
}
