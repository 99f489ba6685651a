// SPDX-License-Identifier: GPL-2.0

//! Direct calls from the sending side into the receiving side's consumer, which replace a message.

use super::Channel;
use crate::{
    abi::Result,
    fi::eq::Source, //
};
use core::any::Any;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The receiving side's consumer, and the value by which that consumer knows the endpoint.
pub(in super::super) struct DirectReceiver {
    pub(in super::super) who: Arc<dyn Any + Send + Sync>,
    pub(in super::super) source: Source,
}

impl Channel {
    /// Sets the target of direct calls, until the channel ends. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in super::super) fn introduce(&self, user: DirectReceiver) -> Result {
        // Boxed: with the value in the channel itself, a message between connected endpoints took 5 % longer.
        let user = KBox::new(user, GFP_KERNEL)?;
        let old = self.inner.lock().user.replace(user);
        drop(old);
        Ok(())
    }

    /// Calls the target, if no transmit is posted or in process: transmits that are posted meanwhile are
    /// queued, and the end of the channel waits for the call. Returns `None` if a transmit is under way or no
    /// target is set. Any context.
    pub(in super::super) fn call_on<R>(
        self: &Arc<Self>,
        call: impl FnOnce(&DirectReceiver) -> R,
    ) -> Option<R> {
        let mut inner = self.inner.lock();
        if !inner.takes_transmits() || !inner.is_idle() {
            return None;
        }
        let user = inner.user.take()?;
        inner.is_busy = true;
        drop(inner);
        let answer = call(&user);
        let mut inner = self.inner.lock();
        inner.user = Some(user);
        inner.is_busy = false;
        let has_waited = !inner.is_idle() || inner.no_transmits;
        inner.is_busy = has_waited;
        drop(inner);
        if has_waited {
            self.go_on();
        }
        Some(answer)
    }
}

#[kunit_tests(kofi_loop_calling)]
mod tests {
    use super::{
        super::ClosingSide,
        *, //
    };

    fn introduce(pipe: &Channel) -> Result<Arc<u32>> {
        let who = Arc::new(7u32, GFP_KERNEL)?;
        let source = Source(3);
        pipe.introduce(DirectReceiver {
            who: who.clone(),
            source,
        })?;
        Ok(who)
    }

    /// Returns what the target answers.
    fn call(pipe: &Arc<Channel>) -> Option<(u32, usize)> {
        let answer = pipe.call_on(|user| Some((*user.who.downcast_ref()?, user.source.0)));
        answer.flatten()
    }

    #[test]
    fn who_is_called_on_is_there_until_the_end() -> Result {
        let pipe = Channel::new(0)?;
        assert_eq!(call(&pipe), None);
        let who = introduce(&pipe)?;
        assert_eq!(call(&pipe), Some((7, 3)));
        assert_eq!(call(&pipe), Some((7, 3)));
        pipe.end(ClosingSide::Nobody, &mut |_| {});
        assert_eq!(call(&pipe), None);
        // The channel has dropped its reference.
        assert!(Arc::into_unique_or_drop(who).is_some());
        Ok(())
    }

    #[test]
    fn one_is_called_on_at_a_time() -> Result {
        let pipe = Channel::new(0)?;
        let _who = introduce(&pipe)?;
        assert_eq!(pipe.call_on(|_| call(&pipe)), Some(None));
        assert_eq!(call(&pipe), Some((7, 3)));
        pipe.refuse_transmits();
        assert_eq!(call(&pipe), None);
        pipe.end(ClosingSide::Nobody, &mut |_| {});
        Ok(())
    }
}
