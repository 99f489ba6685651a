// SPDX-License-Identifier: GPL-2.0

//! What has somebody look after something at a time of its own.

use super::{
    cq::CompletionQueue,
    eq::EventQueue, //
};
use kernel::{
    impl_has_hr_timer,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    time::{
        hrtimer::{
            ArcHrTimerHandle,
            HrTimer,
            HrTimerCallback,
            HrTimerCallbackContext,
            HrTimerPointer,
            HrTimerRestart,
            RelativeMode, //
        },
        Delta,
        Monotonic, //
    },
};

/// Who hears an alarm.
pub(crate) trait Hears: Send + Sync + 'static {
    /// It rings. In an interrupt.
    fn hear(self: &Arc<Self>);
}

impl Hears for CompletionQueue {
    fn hear(self: &Arc<Self>) {
        self.call_handler();
    }
}

impl Hears for EventQueue {
    fn hear(self: &Arc<Self>) {
        self.call_handler();
    }
}

/// A timer that rings once when it is set.
#[pin_data]
pub(crate) struct Alarm<T: Hears> {
    #[pin]
    timer: HrTimer<Self>,
    who: Arc<T>,
}

/// An alarm that is set. Whoever drops it waits until it does not ring any more. May sleep.
pub(crate) struct Set<T: Hears> {
    _handle: ArcHrTimerHandle<Alarm<T>>,
}

impl_has_hr_timer! {
    impl{T: Hears} HasHrTimer<Self> for Alarm<T> {
        mode: RelativeMode<Monotonic>, field: self.timer
    }
}

impl<T: Hears> HrTimerCallback for Alarm<T> {
    type Pointer<'a> = Arc<Self>;

    fn run(this: ArcBorrow<'_, Self>, _: HrTimerCallbackContext<'_, Self>) -> HrTimerRestart {
        this.who.hear();
        HrTimerRestart::NoRestart
    }
}

impl<T: Hears> Alarm<T> {
    /// One that is not set. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new(who: Arc<T>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                timer <- HrTimer::new(),
                who,
            }),
            GFP_KERNEL,
        )
    }

    /// Who hears it.
    pub(crate) fn who(&self) -> &Arc<T> {
        &self.who
    }

    /// Has it ring after that time, and not when `last` says. May sleep.
    pub(crate) fn set(self: &Arc<Self>, last: &mut Option<Set<T>>, after: Delta) {
        // It is one timer: who dropped what it was set to before would take this away, too.
        drop(last.take());
        *last = Some(Set {
            _handle: self.clone().start(after),
        });
    }
}
