// SPDX-License-Identifier: GPL-2.0

//! Where the caller is: may it sleep, has it been told to stop; and where handlers run.

use super::{
    module,
    Errno,
    Result, //
};
use kernel::{
    bindings::workqueue_struct,
    error::to_result,
    prelude::*,
    task::might_sleep,
    types::NotThreadSafe,
    workqueue::Queue, //
};

mod ffi {
    use super::*;

    extern "C" {
        pub(super) fn kofi_may_sleep() -> bool;
        pub(super) fn kofi_should_stop() -> bool;
        pub(super) fn kofi_may_administer() -> bool;
        pub(super) fn kofi_get_module(module: *mut module) -> bool;
        pub(super) fn kofi_get_this_module() -> *mut module;
        pub(super) fn kofi_put_module(module: *mut module);
        pub(super) fn kofi_caller(name: *mut c_char, len: usize) -> c_int;
        pub(super) fn kofi_warn_atomic();
        pub(super) fn kofi_handlers_start() -> c_int;
        pub(super) fn kofi_handlers_end();
        pub(super) fn kofi_ends_later();
        pub(super) static kofi_cq_wq: *mut workqueue_struct;
        pub(super) static kofi_close_wq: *mut workqueue_struct;
    }
}

/// Where a caller is that may sleep: every call that may takes one.
///
/// It stays there: a handler in interrupt context cannot bring one along from where it was made, and
/// is given none.
#[derive(Clone, Copy)]
pub struct ProcessContext(NotThreadSafe);

impl ProcessContext {
    /// For those who are called by a thread or a workqueue.
    pub(crate) const fn assume() -> Self {
        Self(NotThreadSafe)
    }

    /// Where a wait begins, whether or not there is something to wait for: others run now whose turn it
    /// is. A thread that always finds what it waits for would keep a CPU without preemption to itself.
    #[inline]
    pub(crate) fn might_sleep(self) {
        might_sleep();
    }
}

/// Whether the caller may sleep, as far as it can be seen.
///
/// Always seen are interrupts, soft and hard, interrupts and bottom halves that are off, and where RCU
/// can be preempted its readers. A spinlock that is held, or preemption that is off, is seen on kernels
/// that count it (CONFIG_PREEMPT_COUNT).
// Not inline, here and below: only this module calls the C functions.
#[inline(never)]
pub(crate) fn may_sleep() -> bool {
    // SAFETY: Reads the state of the running context.
    unsafe { ffi::kofi_may_sleep() }
}

/// That the caller may sleep. Asked once, where the kernel calls: a module's `init`, a work item.
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

/// Whether the running thread is a kthread that was told to stop.
pub fn kthread_should_stop() -> bool {
    // SAFETY: Reads the state of the running thread, of whatever kind.
    unsafe { ffi::kofi_should_stop() }
}

/// Whether the running task has CAP_NET_ADMIN.
pub fn may_administer() -> bool {
    // SAFETY: Asks the running task.
    unsafe { ffi::kofi_may_administer() }
}

/// The name of the running task, with zeroes behind it, and the number of its process.
pub fn caller() -> ([u8; 16], u32) {
    let mut name = [0; 16];
    // SAFETY: There is room for as much as that.
    let number = unsafe { ffi::kofi_caller(name.as_mut_ptr(), name.len()) };
    (name, number.unsigned_abs())
}

/// A module that stays loaded.
///
/// # Invariants
///
/// It has a reference of its own, or is the kernel itself.
pub struct OwnModule(*mut module);

// SAFETY: References of modules can be dropped by anybody.
unsafe impl Send for OwnModule {}

// SAFETY: As above; nothing is done with it.
unsafe impl Sync for OwnModule {}

impl OwnModule {
    /// Keeps it loaded, unless it is going. Any context.
    ///
    /// # Safety
    ///
    /// It is loaded, or null for the kernel itself.
    pub unsafe fn get(module: *mut module) -> Option<Self> {
        // INVARIANT: It comes with a reference.
        // SAFETY: By this function's safety requirement.
        unsafe { ffi::kofi_get_module(module) }.then_some(Self(module))
    }

    /// Takes a reference on kOFI itself, for a caller that already keeps it loaded. Any context.
    pub(crate) fn of_kofi() -> Self {
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

/// Where a handler is that was called in a hard interrupt: nothing that is done there may sleep.
///
/// It stays there: what is called with it can ask for it, and nobody else has one.
pub struct InterruptContext(NotThreadSafe);

impl InterruptContext {
    /// For those who are called by an interrupt.
    pub(super) const fn assume() -> Self {
        Self(NotThreadSafe)
    }
}

/// Makes the unloading of a module wait: either a work item that ends calls into a consumer has been
/// queued to [`Handlers::closings`], or a handler has ended its own calls and its last call is still
/// running. Any
/// context.
#[inline(never)]
pub(crate) fn has_put_off_an_end() {
    // SAFETY: Counts.
    unsafe { ffi::kofi_ends_later() };
}

/// Lets handlers run, as long as the module is there.
///
/// # Invariants
///
/// The workqueues have been made. There is one of these, which is dropped when the module goes, after
/// everything that has a handler.
pub(crate) struct Handlers(());

impl Handlers {
    /// Makes the workqueues. May sleep. Called once, before anything is opened.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn start() -> kernel::error::Result<Self> {
        // SAFETY: Called before anybody looks for the workqueue.
        to_result(unsafe { ffi::kofi_handlers_start() })?;
        // INVARIANT: By construction.
        Ok(Self(()))
    }

    /// Where handlers of completion queues run that may sleep.
    pub(crate) fn queue() -> &'static Queue {
        // SAFETY: Queues are opened through the module, which made it before and keeps it.
        unsafe { Queue::from_raw(ffi::kofi_cq_wq) }
    }

    /// Where closes that were put off.
    #[inline(never)]
    pub(super) fn closings() -> &'static Queue {
        // SAFETY: What closes was opened through the module, which made it before and keeps it.
        unsafe { Queue::from_raw(ffi::kofi_close_wq) }
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        // SAFETY: By the invariant it has been made, and nobody queues to it any more.
        unsafe { ffi::kofi_handlers_end() };
    }
}
