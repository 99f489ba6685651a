// SPDX-License-Identifier: GPL-2.0

//! Kernel threads for Rust consumers, which the kernel crate does not wrap yet.

use super::{
    callback::{
        Caller,
        Functions,
        Registered, //
    },
    deferred_drop::DropSlot, //
};
use crate::prelude::*;
use core::{
    cell::UnsafeCell,
    mem::ManuallyDrop, //
};
use kernel::{
    error::from_err_ptr,
    task::Task, //
};

mod ffi {
    use kernel::prelude::*;

    /// Opaque: only its address is used here.
    #[repr(C)]
    #[allow(non_camel_case_types)]
    pub(super) struct task_struct([u8; 0]);

    extern "C" {
        pub(super) fn kofi_thread_run(
            run: unsafe extern "C" fn(*mut c_void) -> c_int,
            body: *mut c_void,
            name: *const c_char,
        ) -> *mut task_struct;
        pub(super) fn kofi_thread_stop(task: *mut task_struct);
    }
}

/// The function that a thread runs; it is dropped unrun if the thread is stopped before it starts.
///
/// # Invariants
///
/// Accessed only by the thread while it runs, and only by its owner afterwards.
struct Body<F>(UnsafeCell<Option<F>>);

// SAFETY: What it holds is `Send`, and by the invariant it is touched by one at a time.
unsafe impl<F: Send> Send for Body<F> {}

/// A kernel thread. Dropping it tells the thread to stop and waits until it has ended; in atomic context both
/// happen soon after.
///
/// If the module is unloaded while the thread is running, because its handle was forgotten or dropped by
/// the thread itself, the thread is stopped in the same way before the module's memory is freed.
pub struct Thread(#[allow(dead_code)] DeferredDrop<Running>);

/// Content of a thread's handle: the thread, and the registration that stops it when its module is unloaded.
struct Running {
    thread: Arc<Stoppable>,
    /// Unregistered once the thread has ended.
    callback: ManuallyDrop<Registered>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The thread cannot wait for itself. It stays registered until its module is unloaded.
        if self.thread.is_current() {
            return;
        }
        self.thread.stop_calls();
        self.callback.unregister();
    }
}

/// The running thread, or `None` once it has been stopped. The mutex is held while waiting for its end.
#[pin_data]
struct Stoppable {
    #[pin]
    running: Mutex<Option<Started>>,
    /// Address of the task, for comparison; 0 before the task exists.
    task: Atomic<usize>,
}

impl Stoppable {
    /// Returns whether the caller is this thread.
    fn is_current(&self) -> bool {
        // No handle of the thread can be dropped before the address has been written.
        self.task.load(Relaxed) == Task::current_raw() as usize
    }
}

/// # Invariants
///
/// `task` is a thread that has not been stopped, on which this object holds a reference; `body` is what it runs.
struct Started {
    task: NonNull<ffi::task_struct>,
    body: KBox<dyn Send>,
}

// SAFETY: Any task may stop a thread, and what it runs is `Send`.
unsafe impl Send for Started {}

impl Caller for Stoppable {
    fn stop_calls(&self) {
        let mut running = self.running.lock();
        let Some(Started { task, body }) = running.take() else {
            return;
        };
        // SAFETY: By the invariant the thread can be stopped, once, with our reference.
        unsafe { ffi::kofi_thread_stop(task.as_ptr()) };
        drop(running);
        drop(body);
    }
}

impl Thread {
    /// Runs `main` in a new thread. `main` may return by itself, and should when
    /// [`kthread_should_stop`](super::context::kthread_should_stop) returns true.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, -FI_EINTR.
    pub fn spawn<F>(_ctx: ProcessContext, name: &CStr, main: F) -> Result<Self>
    where
        F: FnOnce(ProcessContext) + Send + 'static,
    {
        let body = KBox::new(Body(UnsafeCell::new(Some(main))), GFP_KERNEL)?;
        let raw = core::ptr::from_ref(&*body).cast_mut().cast();
        // SAFETY: `run::<F>` takes the body at `raw`, which is that of `body`, and what it runs is `Send`.
        unsafe { Self::spawn_task(name, run::<F>, raw, body) }
    }

    /// Starts the thread, which calls `run` with `raw`. Not generic, so that only this module calls the C
    /// functions.
    ///
    /// # Safety
    ///
    /// `run` may be called with `raw` once, by any thread, as long as `body` exists.
    unsafe fn spawn_task(
        name: &CStr,
        run: unsafe extern "C" fn(*mut c_void) -> c_int,
        raw: *mut c_void,
        body: KBox<dyn Send>,
    ) -> Result<Self> {
        let drop_slot = DropSlot::new_for_calls()?;
        let thread = Arc::pin_init(
            pin_init!(Stoppable {
                running <- new_mutex!(None, "kofi::thread::Stoppable"),
                task: Atomic::new(0),
            }),
            GFP_KERNEL,
        )?;
        let functions = Functions::single(run as *const ());
        let registered = Registered::new(functions, fmt!("thread {name}"), thread.clone())?;
        // SAFETY: By this function's safety requirement: the thread calls `run` once, and `body` is dropped after
        // the thread has ended. The name is copied.
        let task = unsafe { ffi::kofi_thread_run(run, raw, name.as_char_ptr()) };
        let task = NonNull::new(from_err_ptr(task)?).ok_or(Errno::ENOMEM)?;
        // INVARIANT: By construction.
        *thread.running.lock() = Some(Started { task, body });
        thread.task.store(task.as_ptr().addr(), Relaxed);
        Ok(Self(drop_slot.store(Running {
            thread,
            callback: ManuallyDrop::new(registered),
        })))
    }
}

/// # Safety
///
/// Called once, in the thread, with its `Body<F>`.
unsafe extern "C" fn run<F: FnOnce(ProcessContext)>(body: *mut c_void) -> c_int {
    // SAFETY: By this function's contract, and the type's invariant.
    let main = unsafe { (*(*body.cast::<Body<F>>()).0.get()).take() };
    if let Some(main) = main {
        main(ProcessContext::assume());
    }
    0
}
