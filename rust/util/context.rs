// SPDX-License-Identifier: GPL-2.0

//! Execution context of the caller, and the workqueues of handlers.

use crate::{
    abi::module,
    prelude::*, //
};
use kernel::{
    bindings::workqueue_struct,
    error::to_result,
    task::might_sleep,
    types::NotThreadSafe,
    workqueue::Queue, //
};

mod ffi {
    use super::*;

    extern "C" {
        pub(super) fn kofi_may_sleep() -> bool;
        pub(super) fn kofi_has_interrupts() -> bool;
        pub(super) fn kofi_should_stop() -> bool;
        pub(super) fn kofi_may_administer() -> bool;
        pub(super) fn kofi_get_module(module: *mut module) -> bool;
        pub(super) fn kofi_get_this_module() -> *mut module;
        pub(super) fn kofi_put_module(module: *mut module);
        pub(super) fn kofi_current_task(name: *mut c_char, len: usize) -> c_int;
        pub(super) fn kofi_warn_atomic();
        pub(super) fn kofi_handlers_start() -> c_int;
        pub(super) fn kofi_handlers_end();
        pub(super) fn kofi_defer_module_unload();
        pub(super) static kofi_cq_wq: *mut workqueue_struct;
        pub(super) static kofi_close_wq: *mut workqueue_struct;
    }
}

/// Process context: each call that may sleep takes one.
///
/// The value stays on its thread: a handler in interrupt context cannot capture one, and gets none.
#[derive(Clone, Copy)]
pub struct ProcessContext(NotThreadSafe);

impl ProcessContext {
    /// Makes the value, for code that a thread or a workqueue runs.
    pub(crate) const fn assume() -> Self {
        Self(NotThreadSafe)
    }

    /// Marks the beginning of a wait, even of one that ends at once, and lets other tasks run. Without this a
    /// thread that never has to wait would keep a CPU without preemption to itself.
    #[inline]
    pub(crate) fn might_sleep(self) {
        might_sleep();
    }
}

/// Returns whether the caller may sleep, as far as the kernel can tell.
///
/// Recognised on every kernel: hard and soft interrupts, disabled interrupts and bottom halves, and RCU
/// readers where RCU is preemptible. Held spinlocks and disabled preemption are recognised with
/// CONFIG_PREEMPT_COUNT only.
// Not inline, here and below: only this module may call the C functions.
#[inline(never)]
pub(crate) fn may_sleep() -> bool {
    // SAFETY: Reads the state of the running context.
    unsafe { ffi::kofi_may_sleep() }
}

/// Returns whether interrupts are enabled on this CPU.
#[inline(never)]
pub(crate) fn has_interrupts() -> bool {
    // SAFETY: Reads the state of the CPU.
    unsafe { ffi::kofi_has_interrupts() }
}

/// Returns a [`ProcessContext`] if the caller may sleep: for code that the kernel calls, a module's `init` or
/// a work item.
///
/// # Errors
///
/// -FI_EOPBADSTATE in atomic context, and one warning in the log.
pub fn in_process() -> Result<ProcessContext> {
    if may_sleep() {
        return Ok(ProcessContext::assume());
    }
    // SAFETY: Writes to the log.
    unsafe { ffi::kofi_warn_atomic() };
    Err(Errno::EOPBADSTATE)
}

/// Returns whether the running thread is a kthread that `kthread_stop()` is waiting for.
pub fn kthread_should_stop() -> bool {
    // SAFETY: Reads the state of the running thread, of whatever kind.
    unsafe { ffi::kofi_should_stop() }
}

/// Returns whether the running task has CAP_NET_ADMIN.
pub fn may_administer() -> bool {
    // SAFETY: Asks the running task.
    unsafe { ffi::kofi_may_administer() }
}

/// Returns the name of the running task, padded with zeroes, and its process ID.
pub fn current_task() -> ([u8; 16], u32) {
    let mut name = [0; 16];
    // SAFETY: The buffer has that many bytes.
    let number = unsafe { ffi::kofi_current_task(name.as_mut_ptr(), name.len()) };
    (name, number.unsigned_abs())
}

/// A reference that keeps a module loaded.
///
/// # Invariants
///
/// The module has a reference of this object, or is the kernel itself.
pub struct OwnModule(*mut module);

// SAFETY: Any thread may drop a reference on a module.
unsafe impl Send for OwnModule {}

// SAFETY: As above; nothing is done with it.
unsafe impl Sync for OwnModule {}

impl OwnModule {
    /// Takes a reference, unless the module is being unloaded. Any context.
    ///
    /// # Safety
    ///
    /// `module` is loaded, or null for the kernel itself.
    pub unsafe fn get(module: *mut module) -> Option<Self> {
        // INVARIANT: It comes with a reference.
        // SAFETY: By this function's safety requirement.
        unsafe { ffi::kofi_get_module(module) }.then_some(Self(module))
    }

    /// Takes a reference on kOFI itself, for a caller that already keeps it loaded. Any context.
    pub(crate) fn get_this_module() -> Self {
        // INVARIANT: It comes with a reference.
        // SAFETY: The running code is the module's, which is loaded.
        Self(unsafe { ffi::kofi_get_this_module() })
    }
}

impl Drop for OwnModule {
    fn drop(&mut self) {
        // SAFETY: By the invariant.
        unsafe { ffi::kofi_put_module(self.0) };
    }
}

/// Hard-interrupt context of a handler, which may not sleep.
///
/// The value stays in the handler: functions that it calls can require one, and no other code has one.
pub struct InterruptContext(NotThreadSafe);

impl InterruptContext {
    /// Makes the value, for code that an interrupt calls.
    pub(super) const fn assume() -> Self {
        Self(NotThreadSafe)
    }
}

/// Makes the unloading of a module wait: either a work item that ends calls into a consumer has been queued
/// to [`Handlers::drop_queue`], or a handler has ended its own calls and its last call is still running. Any
/// context.
#[inline(never)]
pub(crate) fn defer_module_unload() {
    // SAFETY: Counts.
    unsafe { ffi::kofi_defer_module_unload() };
}

/// Owner of the workqueues that handlers run on.
///
/// # Invariants
///
/// The workqueues exist. There is one value, which is dropped with the module, after every object with a
/// handler.
pub(crate) struct Handlers(());

impl Handlers {
    /// Makes the workqueues. May sleep. Called once, before anything is opened.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn init() -> kernel::error::Result<Self> {
        // SAFETY: Called before the workqueue is used.
        to_result(unsafe { ffi::kofi_handlers_start() })?;
        // INVARIANT: By construction.
        Ok(Self(()))
    }

    /// Returns the workqueue for handlers of completion queues that may sleep.
    pub(crate) fn handler_queue() -> &'static Queue {
        // SAFETY: The workqueue is made before the first queue is opened, and exists as long as the module.
        unsafe { Queue::from_raw(ffi::kofi_cq_wq) }
    }

    /// Returns the workqueue for deferred drops.
    #[inline(never)]
    pub(super) fn drop_queue() -> &'static Queue {
        // SAFETY: The workqueue is made before the first object is opened, and exists as long as the module.
        unsafe { Queue::from_raw(ffi::kofi_close_wq) }
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        // SAFETY: By the invariant it has been made, and no work is queued to it any more.
        unsafe { ffi::kofi_handlers_end() };
    }
}
