// SPDX-License-Identifier: GPL-2.0

//! Event queues of Rust consumers that have a handler, and the end of its calls.

use super::{
    super::fabric::Fabric,
    Attr,
    EventQueue,
    Handler, //
};
use crate::abi::Result;
use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// An event queue with a handler, which is called until this is dropped.
///
/// Dropping it waits for a call that is under way, unless it is that call which drops it, and drops
/// the handler. It may sleep.
pub struct Handled(Arc<EventQueue>);

impl Handled {
    /// Opens a queue of `fabric`, whose handler is called whenever events have arrived. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub fn open(fabric: &Arc<Fabric>, attr: Attr, handler: impl Handler + 'static) -> Result<Self> {
        let handler: KBox<dyn Handler> = KBox::new(handler, GFP_KERNEL)?;
        let queue = fabric.event_queue(attr)?;
        queue.set_handler(handler)?;
        Ok(Self(queue))
    }
}

impl Deref for Handled {
    type Target = Arc<EventQueue>;

    fn deref(&self) -> &Arc<EventQueue> {
        &self.0
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        self.0.handler.stop();
    }
}

#[kunit_tests(kofi_fi_eq_handled)]
mod tests {
    use super::*;
    use crate::{
        abi::{
            info::{
                Info,
                InfoList, //
            },
            serial::Threading,
            NetRef, //
        },
        fi::{
            eq::Source,
            info::Query,
            provider::{
                self,
                not_implemented,
                FabricAttr,
                Provider, //
            }, //
        },
    };
    use kernel::{
        sync::atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    /// A provider of fabrics on which there is nothing.
    struct Nothing;

    impl Provider for Nothing {
        fn name(&self) -> &'static CStr {
            c"nothing"
        }

        fn getinfo(&self, _query: &Query<'_>, _found: &mut InfoList) -> Result {
            Ok(())
        }

        fn fabric(&self, _info: &FabricAttr<'_>) -> Result<Arc<dyn provider::Fabric>> {
            Ok(Arc::new(Nothing, GFP_KERNEL)?)
        }
    }

    impl provider::Fabric for Nothing {
        fn domain(
            self: Arc<Self>,
            _info: &Info,
            _threading: Threading,
        ) -> Result<Arc<dyn provider::Domain>> {
            not_implemented()
        }

        fn passive_endpoint(
            self: Arc<Self>,
            _info: &Info,
            _source: Source,
        ) -> Result<Arc<dyn provider::PassiveEndpoint>> {
            not_implemented()
        }
    }

    fn read_all(queue: &EventQueue) -> u32 {
        let mut count = 0;
        while queue.read(false, |_| Ok(())).is_ok() {
            count += 1;
        }
        count
    }

    #[test]
    fn eq_08_handlers_in_rust_end_with_their_owner() -> kernel::error::Result {
        let attr = FabricAttr {
            name: None,
            net: NetRef::INIT,
        };
        let fabric = Fabric::open(&Nothing, &attr)?;
        let events = Arc::new(Atomic::new(0u32), GFP_KERNEL)?;
        let seen = events.clone();
        let handler = move |queue: &Arc<EventQueue>| {
            let _ = seen.fetch_add(read_all(queue), Full);
        };
        let attr = Attr {
            writable: true,
            ..Attr::default()
        };
        let handled = Handled::open(&fabric, attr, handler)?;
        let queue = handled.clone();
        for number in 0..3 {
            queue.write(number, b"event")?;
        }
        let mut patience = 10_000;
        while events.load(Relaxed) < 3 && patience > 0 {
            fsleep(Delta::from_millis(1));
            patience -= 1;
        }
        assert_eq!(events.load(Relaxed), 3);

        // The queue is still there, but nobody is called, and what the handler held is dropped.
        drop(handled);
        queue.write(3, b"unseen")?;
        assert_eq!(read_all(&queue), 1);
        assert_eq!(events.load(Relaxed), 3);
        assert!(Arc::into_unique_or_drop(events).is_some());
        Ok(())
    }
}
