// SPDX-License-Identifier: GPL-2.0

//! What closes when it is dropped, and sleeps for that, wherever that is.
//!
//! A handler in interrupt context is the consumer's own code, and can drop what it holds. So each handle
//! whose drop may sleep keeps what it has in a [`Closing`]. Where the drop may sleep, that is all there
//! is to it. Elsewhere what is to close is moved into memory that was allocated when it was opened, and a
//! work item drops it soon after. It keeps what it needs until then: a parent, a device, which is not
//! removed before; and no module goes that may have code in it (`kofi_handlers_start()`).
//!
//! There is no lock.

use super::{
    context::{
        has_put_off_an_end,
        may_sleep,
        Handlers, //
    },
    Result, //
};
use core::{
    mem::ManuallyDrop,
    ops::{
        Deref,
        DerefMut, //
    },
};
use kernel::{
    prelude::*,
    workqueue::{
        impl_has_work,
        new_work,
        Work,
        WorkItem, //
    },
};

/// Where something is kept until it may be dropped.
#[pin_data]
struct DropWork<T> {
    #[pin]
    work: Work<DropWork<T>>,
    what: Option<T>,
    /// Whether its end is that of calls into a consumer's code.
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

/// The memory of a [`Closing`] that is to be.
pub(crate) struct DropSlot<T>(Pin<KBox<DropWork<T>>>);

impl<T: Send + 'static> DropSlot<T> {
    /// Allocates it, in kOFI's own functions: what runs later is where this is called. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        Self::allocate(false)
    }

    /// The same for what ends the calls of a consumer's code when it is dropped.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn for_calls() -> Result<Self> {
        Self::allocate(true)
    }

    fn allocate(ends_calls: bool) -> Result<Self> {
        Ok(Self(KBox::pin_init(
            pin_init!(DropWork {
                work <- new_work!("kofi::Closing"),
                what: None,
                ends_calls,
            }),
            GFP_KERNEL,
        )?))
    }

    /// Uses it. Any context.
    pub(crate) fn hold(self, what: T) -> DeferredDrop<T> {
        DeferredDrop {
            what: ManuallyDrop::new(what),
            room: Some(self.0),
        }
    }
}

/// Something whose drop may sleep, and which can be dropped in any context.
///
/// It is dropped at once where that may sleep, else soon after. Not seen, on a kernel without
/// CONFIG_PREEMPT_COUNT, is a task that only holds a spinlock or has preemption off.
pub(crate) struct DeferredDrop<T: Send + 'static> {
    what: ManuallyDrop<T>,
    /// None for what does not sleep.
    room: Option<Pin<KBox<DropWork<T>>>>,
}

impl<T: Send + 'static> DeferredDrop<T> {
    /// Around `what`, which is dropped if this fails. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new(what: T) -> Result<Self> {
        Ok(DropSlot::new()?.hold(what))
    }

    /// Around what does not sleep when it is dropped, though others of its type do.
    pub(crate) fn at_once(what: T) -> Self {
        Self {
            what: ManuallyDrop::new(what),
            room: None,
        }
    }

    /// What it holds.
    pub(crate) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        drop(this.room.take());
        // SAFETY: Taken once: neither `this` nor what is in it is dropped.
        unsafe { ManuallyDrop::take(&mut this.what) }
    }
}

impl<T: Send + 'static> Deref for DeferredDrop<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.what
    }
}

impl<T: Send + 'static> DerefMut for DeferredDrop<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.what
    }
}

impl<T: Send + 'static> Drop for DeferredDrop<T> {
    fn drop(&mut self) {
        match self.room.take_if(|_| !may_sleep()) {
            // SAFETY: It is not used after this.
            None => unsafe { ManuallyDrop::drop(&mut self.what) },
            Some(mut room) => {
                let ends_calls = room.ends_calls;
                // SAFETY: It is not used after this.
                let what = unsafe { ManuallyDrop::take(&mut self.what) };
                *room.as_mut().project().what = Some(what);
                Handlers::closings().enqueue(room);
                if ends_calls {
                    has_put_off_an_end();
                }
            }
        }
    }
}
