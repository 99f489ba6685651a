// SPDX-License-Identifier: GPL-2.0

//! Handlers of completion queues for Rust consumers.
//!
//! A handler in interrupt context is given an [`Arrived`], which reads, and posts through a [`Poster`].
//! It cannot sleep: calls that may do so want an [`InProcess`], and it has none. A handler that may
//! sleep is given one.

use super::{
    Completed,
    Completions,
    Endpoint, //
};
use crate::{
    abi::{
        callback::Functions,
        closing::{
            Closing,
            Reserved, //
        },
        context::{
            InInterrupt,
            InProcess, //
        },
        irq_work::InterruptHandler,
        Result, //
    },
    fi::{
        cq::{
            Handler,
            TaskHandler, //
        },
        memory::{
            Buffer,
            Refused, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A completion queue, as its handler sees it in interrupt context.
pub struct Arrived<'a> {
    queue: &'a Completions,
    _here: &'a InInterrupt,
}

impl Arrived<'_> {
    /// The next operation that is over. What arrives after this has found nothing is a call of its
    /// own.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when there is none.
    pub fn read(&self) -> Result<Completed> {
        self.queue.read()
    }
}

/// The posting half of an endpoint, which closes when it and all of these have been dropped.
pub struct Poster(Arc<Endpoint>);

impl Poster {
    /// Posts to `endpoint`.
    pub fn new(endpoint: &Arc<Endpoint>) -> Self {
        Self(endpoint.clone())
    }

    /// [`Endpoint::send`].
    pub fn send(&self, buffer: KBox<Buffer>, len: usize) -> core::result::Result<(), Refused> {
        self.0.send(buffer, len)
    }

    /// [`Endpoint::receive`].
    pub fn receive(&self, buffer: KBox<Buffer>) -> core::result::Result<(), Refused> {
        self.0.receive(buffer)
    }
}

/// The calls of a handler, which end when this is dropped: then the handler is not running, will not
/// run, and has been dropped with all that it held. Where that may not sleep, all this is so soon after.
///
/// A handler that drops its own calls is not waited for, and is not called again.
///
/// If the handle is forgotten, the calls end when the module of the handler is unloaded, before the
/// module's memory is freed.
#[must_use = "the handler is called as long as this lives"]
pub struct Calls(Closing<Ending>);

impl Drop for Calls {
    fn drop(&mut self) {
        self.0 .0.queue.forbid_calls();
    }
}

/// What ends the calls.
struct Ending(Arc<Completions>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.queue.end_calls();
    }
}

impl Completions {
    /// Has `handler` called in hard-interrupt context when operations are over: at once, and again
    /// when something arrives after a read has found nothing.
    ///
    /// Never two calls at a time. The handler reads until it finds nothing, and may post.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if the queue has, or had, a handler; -FI_ENOMEM.
    pub fn on_interrupt<F>(self: &Arc<Self>, _here: InProcess, handler: F) -> Result<Calls>
    where
        F: Fn(&Arrived<'_>) + Send + Sync + 'static,
    {
        let called = Called {
            queue: self.clone(),
            handler,
        };
        self.start_calls(Handler::Interrupt(KBox::new(called, GFP_KERNEL)?))
    }

    /// Has `handler` called where it may sleep; else as [`Self::on_interrupt`].
    pub fn on_arrival<F>(self: &Arc<Self>, _here: InProcess, handler: F) -> Result<Calls>
    where
        F: Fn(InProcess, &Completions) + Send + Sync + 'static,
    {
        let called = Called {
            queue: self.clone(),
            handler,
        };
        self.start_calls(Handler::Task(KBox::new(called, GFP_KERNEL)?))
    }

    fn start_calls(self: &Arc<Self>, handler: Handler) -> Result<Calls> {
        let room = Reserved::for_calls()?;
        self.queue.set_handler(handler)?;
        // What has come before is told by nobody else.
        self.queue.call_handler();
        Ok(Calls(room.hold(Ending(self.clone()))))
    }
}

/// A consumer's handler and its queue, until the calls end.
struct Called<F> {
    queue: Arc<Completions>,
    handler: F,
}

impl<F: Fn(&Arrived<'_>) + Send + Sync> InterruptHandler for Called<F> {
    fn ready(&self, here: &InInterrupt) {
        (self.handler)(&Arrived {
            queue: &self.queue,
            _here: here,
        });
    }

    fn functions(&self) -> Functions {
        let ready: fn(&Self, &InInterrupt) = <Self as InterruptHandler>::ready;
        Functions::one(ready as *const ())
    }
}

impl<F: Fn(InProcess, &Completions) + Send + Sync> TaskHandler for Called<F> {
    fn ready(&self, here: InProcess) {
        (self.handler)(here, &self.queue);
    }

    fn functions(&self) -> Functions {
        let ready: fn(&Self, InProcess) = <Self as TaskHandler>::ready;
        Functions::one(ready as *const ())
    }
}
