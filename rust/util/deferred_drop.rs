// SPDX-License-Identifier: GPL-2.0

//! Defers a drop that may sleep to a workqueue when the caller is in atomic context.
//!
//! A handler in interrupt context is the consumer's own code, and can drop any handle that it holds. So each
//! handle whose drop may sleep keeps its content in a [`DeferredDrop`]. In process context the content is
//! dropped at once. In atomic context it is moved into memory that was allocated with the handle, and a work
//! item drops it soon after. Until then the content keeps its parent and its device, whose removal waits for
//! it; and a module whose code may run in the drop is not unloaded before (`kofi_handlers_start()`).
//!
//! There is no lock.

use super::context::{
    defer_module_unload,
    may_sleep,
    Handlers, //
};
use crate::prelude::*;
use core::mem::ManuallyDrop;

/// Work item that drops a value.
#[pin_data]
struct DropWork<T> {
    #[pin]
    work: Work<DropWork<T>>,
    value: Option<T>,
    /// Set if the drop ends calls into a consumer's code.
    ends_calls: bool,
}

impl_has_work! {
    impl{T: Send + 'static} HasWork<Self> for DropWork<T> { self.work }
}

impl<T: Send + 'static> WorkItem for DropWork<T> {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Pin<KBox<Self>>) {
        drop(this);
    }
}

/// Preallocated memory for a [`DeferredDrop`].
pub(crate) struct DropSlot<T>(Pin<KBox<DropWork<T>>>);

impl<T: Send + 'static> DropSlot<T> {
    /// Allocates the memory. May sleep. Called in kOFI's own functions only, as the work function is
    /// instantiated in the module that calls this.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        Self::allocate(false)
    }

    /// Allocates the memory for a value whose drop ends calls into a consumer's code. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new_for_calls() -> Result<Self> {
        Self::allocate(true)
    }

    fn allocate(ends_calls: bool) -> Result<Self> {
        Ok(Self(KBox::pin_init(
            pin_init!(DropWork {
                work <- new_work!("kofi::DropWork"),
                value: None,
                ends_calls,
            }),
            GFP_KERNEL,
        )?))
    }

    /// Stores the value. Any context.
    pub(crate) fn store(self, value: T) -> DeferredDrop<T> {
        DeferredDrop {
            value: ManuallyDrop::new(value),
            drop_work: Some(self.0),
        }
    }
}

/// A value whose drop may sleep, and which can be dropped in any context.
///
/// In process context it is dropped at once, else soon after. Without CONFIG_PREEMPT_COUNT, a task that only
/// holds a spinlock or has preemption off is taken for process context.
pub(crate) struct DeferredDrop<T: Send + 'static> {
    value: ManuallyDrop<T>,
    /// `None` for a value whose drop does not sleep.
    drop_work: Option<Pin<KBox<DropWork<T>>>>,
}

impl<T: Send + 'static> DeferredDrop<T> {
    /// Stores `value`, which is dropped if this fails. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new(value: T) -> Result<Self> {
        Ok(DropSlot::new()?.store(value))
    }

    /// Stores a value whose drop does not sleep, unlike that of others of its type.
    pub(crate) fn new_atomic(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            drop_work: None,
        }
    }

    /// Returns the value.
    pub(crate) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        drop(this.drop_work.take());
        // SAFETY: Taken once: neither `this` nor its content is dropped.
        unsafe { ManuallyDrop::take(&mut this.value) }
    }
}

impl<T: Send + 'static> Deref for DeferredDrop<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Send + 'static> DerefMut for DeferredDrop<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Send + 'static> Drop for DeferredDrop<T> {
    fn drop(&mut self) {
        match self.drop_work.take_if(|_| !may_sleep()) {
            // SAFETY: It is not used after this.
            None => unsafe { ManuallyDrop::drop(&mut self.value) },
            Some(mut drop_work) => {
                let ends_calls = drop_work.ends_calls;
                // SAFETY: It is not used after this.
                let value = unsafe { ManuallyDrop::take(&mut self.value) };
                *drop_work.as_mut().project().value = Some(value);
                Handlers::drop_queue().enqueue(drop_work);
                if ends_calls {
                    defer_module_unload();
                }
            }
        }
    }
}
