// SPDX-License-Identifier: GPL-2.0

//! Timers that expire once and schedule the handler of a queue.

use super::{
    cq::CompletionQueue,
    eq::EventQueue, //
};
use crate::fi::prelude::*;
use kernel::{
    error::Result,
    impl_has_hr_timer,
    sync::ArcBorrow,
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
        Monotonic, //
    },
};

/// The target of a timer.
pub(crate) trait TimerTarget: Send + Sync + 'static {
    /// Called when the timer expires. Interrupt context.
    fn expired(self: &Arc<Self>);
}

impl TimerTarget for CompletionQueue {
    fn expired(self: &Arc<Self>) {
        self.schedule_handler();
    }
}

impl TimerTarget for EventQueue {
    fn expired(self: &Arc<Self>) {
        self.schedule_handler();
    }
}

/// A one-shot timer.
#[pin_data]
pub(crate) struct Timer<T: TimerTarget> {
    #[pin]
    timer: HrTimer<Self>,
    target: Arc<T>,
}

/// An armed timer. Dropping it cancels the timer, and waits for a running expiry. May sleep.
pub(crate) struct ArmedTimer<T: TimerTarget> {
    _handle: ArcHrTimerHandle<Timer<T>>,
}

impl_has_hr_timer! {
    impl{T: TimerTarget} HasHrTimer<Self> for Timer<T> {
        mode: RelativeMode<Monotonic>, field: self.timer
    }
}

impl<T: TimerTarget> HrTimerCallback for Timer<T> {
    type Pointer<'a> = Arc<Self>;

    fn run(this: ArcBorrow<'_, Self>, _: HrTimerCallbackContext<'_, Self>) -> HrTimerRestart {
        this.target.expired();
        HrTimerRestart::NoRestart
    }
}

impl<T: TimerTarget> Timer<T> {
    /// Returns a timer that is not armed. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new(target: Arc<T>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                timer <- HrTimer::new(),
                target,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the target.
    pub(crate) fn target(&self) -> &Arc<T> {
        &self.target
    }

    /// Arms the timer to expire after the time `after`, or at once if that is negative, and cancels the
    /// expiry of `last`. May sleep.
    pub(crate) fn arm(self: &Arc<Self>, last: &mut Option<ArmedTimer<T>>, after: Delta) {
        // Both handles share the timer: dropping the old one after the start would cancel the new expiry.
        drop(last.take());
        // The kernel takes a negative time for one that never comes.
        let after = after.max(Delta::ZERO);
        *last = Some(ArmedTimer {
            _handle: self.clone().start(after),
        });
    }
}

#[kunit_tests(kofi_fi_timer)]
mod tests {
    use super::*;
    use kernel::{
        sync::atomic::{
            Atomic,
            Relaxed, //
        },
        time::delay::fsleep, //
    };

    struct ExpiryCounter(Atomic<u32>);

    impl TimerTarget for ExpiryCounter {
        fn expired(self: &Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn timer_expires_for_past_and_future_timeouts() -> Result {
        let counter = Arc::new(ExpiryCounter(Atomic::new(0)), GFP_KERNEL)?;
        let timer = Timer::new(counter.clone())?;
        let mut armed = None;
        for (expired, millis) in [-1000, -1, 0, 1].into_iter().enumerate() {
            timer.arm(&mut armed, Delta::from_millis(millis));
            // Waits for up to 10 s, far longer than the timer takes.
            for _ in 0..10_000 {
                if counter.0.load(Relaxed) > expired as u32 {
                    break;
                }
                fsleep(Delta::from_millis(1));
            }
            assert_eq!(counter.0.load(Relaxed), expired as u32 + 1);
        }
        Ok(())
    }

    #[test]
    fn dropping_an_armed_timer_does_not_expire_it() -> Result {
        let counter = Arc::new(ExpiryCounter(Atomic::new(0)), GFP_KERNEL)?;
        let timer = Timer::new(counter.clone())?;
        let mut armed = None;
        timer.arm(&mut armed, Delta::from_secs(1000));
        timer.arm(&mut armed, Delta::from_secs(2000));
        drop(armed);
        assert_eq!(counter.0.load(Relaxed), 0);
        Ok(())
    }
}
