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
pub(crate) trait TimerTarget: Send + Sync + 'static {
    /// It rings. In an interrupt.
    fn hear(self: &Arc<Self>);
}

impl TimerTarget for CompletionQueue {
    fn hear(self: &Arc<Self>) {
        self.call_handler();
    }
}

impl TimerTarget for EventQueue {
    fn hear(self: &Arc<Self>) {
        self.call_handler();
    }
}

/// A timer that rings once when it is set.
#[pin_data]
pub(crate) struct Timer<T: TimerTarget> {
    #[pin]
    timer: HrTimer<Self>,
    who: Arc<T>,
}

/// An alarm that is set. Whoever drops it waits until it does not ring any more. May sleep.
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
        this.who.hear();
        HrTimerRestart::NoRestart
    }
}

impl<T: TimerTarget> Timer<T> {
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

    /// Has it ring after that time, at once where that is over, and not when `last` says. May sleep.
    pub(crate) fn set(self: &Arc<Self>, last: &mut Option<ArmedTimer<T>>, after: Delta) {
        // It is one timer: who dropped what it was set to before would take this away, too.
        drop(last.take());
        // The kernel takes a time before now for one that never comes.
        let after = after.max(Delta::ZERO);
        *last = Some(ArmedTimer {
            _handle: self.clone().start(after),
        });
    }
}

#[kunit_tests(kofi_fi_alarm)]
mod tests {
    use super::*;
    use kernel::{
        sync::atomic::{
            Atomic,
            Relaxed, //
        },
        time::delay::fsleep, //
    };

    struct Ear(Atomic<u32>);

    impl TimerTarget for Ear {
        fn hear(self: &Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn it_rings_even_if_the_time_is_over() -> Result {
        let ear = Arc::new(Ear(Atomic::new(0)), GFP_KERNEL)?;
        let alarm = Timer::new(ear.clone())?;
        let mut set = None;
        for (rung, millis) in [-1000, -1, 0, 1].into_iter().enumerate() {
            alarm.set(&mut set, Delta::from_millis(millis));
            // Far longer than it takes.
            for _ in 0..10_000 {
                if ear.0.load(Relaxed) > rung as u32 {
                    break;
                }
                fsleep(Delta::from_millis(1));
            }
            assert_eq!(ear.0.load(Relaxed), rung as u32 + 1);
        }
        Ok(())
    }

    #[test]
    fn it_does_not_ring_once_it_is_dropped() -> Result {
        let ear = Arc::new(Ear(Atomic::new(0)), GFP_KERNEL)?;
        let alarm = Timer::new(ear.clone())?;
        let mut set = None;
        alarm.set(&mut set, Delta::from_secs(1000));
        alarm.set(&mut set, Delta::from_secs(2000));
        drop(set);
        assert_eq!(ear.0.load(Relaxed), 0);
        Ok(())
    }
}
