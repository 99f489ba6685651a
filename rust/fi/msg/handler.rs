// SPDX-License-Identifier: GPL-2.0

//! Handlers of completion queues for Rust consumers.
//!
//! A handler in interrupt context is given an [`ReadyQueue`], which reads, and posts through a [`Poster`].
//! It cannot sleep: calls that may do so want an [`ProcessContext`], and it has none. A handler that may
//! sleep is given one.

use super::{
    CompletedOp,
    Completions,
    Endpoint, //
};
use crate::{
    abi::{
        callback::Functions,
        context::{
            InterruptContext,
            ProcessContext, //
        },
        deferred_drop::{
            DeferredDrop,
            DropSlot, //
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
            RefusedPost, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A completion queue, as its handler sees it in interrupt context.
pub struct ReadyQueue<'a> {
    queue: &'a Completions,
    _here: &'a InterruptContext,
}

impl ReadyQueue<'_> {
    /// The next operation that is over. What arrives after this has found nothing is a call of its
    /// own.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when there is none.
    pub fn read(&self) -> Result<CompletedOp> {
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
    pub fn send(&self, buffer: KBox<Buffer>, len: usize) -> core::result::Result<(), RefusedPost> {
        self.0.send(buffer, len)
    }

    /// [`Endpoint::receive`].
    pub fn receive(&self, buffer: KBox<Buffer>) -> core::result::Result<(), RefusedPost> {
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
pub struct HandlerGuard(DeferredDrop<HandlerStop>);

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        self.0 .0.queue.block_handler();
    }
}

/// What ends the calls.
struct HandlerStop(Arc<Completions>);

impl Drop for HandlerStop {
    fn drop(&mut self) {
        self.0.queue.stop_handler();
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
    pub fn on_interrupt<F>(
        self: &Arc<Self>,
        _here: ProcessContext,
        handler: F,
    ) -> Result<HandlerGuard>
    where
        F: Fn(&ReadyQueue<'_>) + Send + Sync + 'static,
    {
        let called = HandlerState {
            queue: self.clone(),
            handler,
        };
        self.start_calls(Handler::Interrupt(KBox::new(called, GFP_KERNEL)?))
    }

    /// Has `handler` called where it may sleep; else as [`Self::on_interrupt`].
    pub fn on_arrival<F>(
        self: &Arc<Self>,
        _here: ProcessContext,
        handler: F,
    ) -> Result<HandlerGuard>
    where
        F: Fn(ProcessContext, &Completions) + Send + Sync + 'static,
    {
        let called = HandlerState {
            queue: self.clone(),
            handler,
        };
        self.start_calls(Handler::Task(KBox::new(called, GFP_KERNEL)?))
    }

    fn start_calls(self: &Arc<Self>, handler: Handler) -> Result<HandlerGuard> {
        let room = DropSlot::for_calls()?;
        self.queue.set_handler(handler)?;
        // What has come before is told by nobody else.
        self.queue.schedule_handler();
        Ok(HandlerGuard(room.hold(HandlerStop(self.clone()))))
    }
}

/// A consumer's handler and its queue, until the calls end.
struct HandlerState<F> {
    queue: Arc<Completions>,
    handler: F,
}

impl<F: Fn(&ReadyQueue<'_>) + Send + Sync> InterruptHandler for HandlerState<F> {
    fn ready(&self, here: &InterruptContext) {
        (self.handler)(&ReadyQueue {
            queue: &self.queue,
            _here: here,
        });
    }

    fn functions(&self) -> Functions {
        let ready: fn(&Self, &InterruptContext) = <Self as InterruptHandler>::ready;
        Functions::one(ready as *const ())
    }
}

impl<F: Fn(ProcessContext, &Completions) + Send + Sync> TaskHandler for HandlerState<F> {
    fn ready(&self, here: ProcessContext) {
        (self.handler)(here, &self.queue);
    }

    fn functions(&self) -> Functions {
        let ready: fn(&Self, ProcessContext) = <Self as TaskHandler>::ready;
        Functions::one(ready as *const ())
    }
}
