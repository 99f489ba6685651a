// SPDX-License-Identifier: GPL-2.0

//! Direct calls from the sending side into the receiving side's consumer, which replace a message.

use super::Channel;
use crate::fi::{
    eq::Source,
    prelude::*, //
};
use core::any::Any;

/// The receiving side's consumer, and the value by which that consumer knows the endpoint.
pub(in super::super) struct DirectReceiver {
    pub(in super::super) consumer: Arc<dyn Any + Send + Sync>,
    pub(in super::super) source: Source,
}

impl Channel {
    /// Sets the target of direct calls, until the channel ends. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in super::super) fn set_direct_receiver(&self, receiver: DirectReceiver) -> Result {
        // Boxed: with the value in the channel itself, a message between connected endpoints took 5 % longer.
        let receiver = KBox::new(receiver, GFP_KERNEL)?;
        let old = self.inner.lock().direct_receiver.replace(receiver);
        drop(old);
        Ok(())
    }

    /// Calls the target, if no transmit is posted or in process: transmits that are posted meanwhile are
    /// queued, and the end of the channel waits for the call. Returns `None` if a transmit is under way or no
    /// target is set. Any context.
    pub(in super::super) fn call_direct<R>(
        self: &Arc<Self>,
        call: impl FnOnce(&DirectReceiver) -> R,
    ) -> Option<R> {
        let mut inner = self.inner.lock();
        if !inner.accepts_transmits() || !inner.is_idle() {
            return None;
        }
        let receiver = inner.direct_receiver.take()?;
        inner.is_processing = true;
        drop(inner);
        let answer = call(&receiver);
        let mut inner = self.inner.lock();
        inner.direct_receiver = Some(receiver);
        inner.is_processing = false;
        let has_waited = !inner.is_idle() || inner.no_transmits;
        inner.is_processing = has_waited;
        drop(inner);
        if has_waited {
            self.process();
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

    fn set_receiver(channel: &Channel) -> Result<Arc<u32>> {
        let consumer = Arc::new(7u32, GFP_KERNEL)?;
        let source = Source(3);
        channel.set_direct_receiver(DirectReceiver {
            consumer: consumer.clone(),
            source,
        })?;
        Ok(consumer)
    }

    /// Returns the consumer's value and the source of the direct receiver.
    fn call(channel: &Arc<Channel>) -> Option<(u32, usize)> {
        let answer = channel
            .call_direct(|receiver| Some((*receiver.consumer.downcast_ref()?, receiver.source.0)));
        answer.flatten()
    }

    #[test]
    fn direct_receiver_is_held_until_close() -> Result {
        let channel = Channel::new(0)?;
        assert_eq!(call(&channel), None);
        let consumer = set_receiver(&channel)?;
        assert_eq!(call(&channel), Some((7, 3)));
        assert_eq!(call(&channel), Some((7, 3)));
        channel.close(ClosingSide::Neither, &mut |_| {});
        assert_eq!(call(&channel), None);
        // The channel has dropped its reference.
        assert!(Arc::into_unique_or_drop(consumer).is_some());
        Ok(())
    }

    #[test]
    fn direct_calls_do_not_nest() -> Result {
        let channel = Channel::new(0)?;
        let _consumer = set_receiver(&channel)?;
        assert_eq!(channel.call_direct(|_| call(&channel)), Some(None));
        assert_eq!(call(&channel), Some((7, 3)));
        channel.refuse_transmits();
        assert_eq!(call(&channel), None);
        channel.close(ClosingSide::Neither, &mut |_| {});
        Ok(())
    }
}
