// SPDX-License-Identifier: GPL-2.0

//! Completion handlers for Rust consumers.
//!
//! A handler in interrupt context gets a [`ReadyQueue`], from which it reads, and posts through a [`Poster`].
//! It cannot sleep: calls that may sleep take a [`ProcessContext`], and it has none. A handler in process
//! context gets one.

use super::{
    CompletedOp,
    Completions,
    Endpoint, //
};
use crate::{
    fi::{
        cq::{
            Handler,
            TaskHandler, //
        },
        memory::{
            Buffer,
            PostResult, //
        },
        prelude::*, //
    },
    util::{
        callback::Functions,
        context::InterruptContext,
        deferred_drop::DropSlot,
        irq_work::InterruptHandler, //
    },
};

/// A completion queue in its interrupt handler.
pub struct ReadyQueue<'a> {
    queue: &'a Completions,
    _here: &'a InterruptContext,
}

impl ReadyQueue<'_> {
    /// Returns the next completed operation. After an empty read, the next completion calls the handler
    /// again.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the queue is empty.
    pub fn read(&self) -> Result<CompletedOp> {
        self.queue.read()
    }
}

/// A handle that can only post to an endpoint. The endpoint closes when it and all its posters have been
/// dropped.
pub struct Poster(Arc<Endpoint>);

impl Poster {
    /// Creates a poster for `endpoint`.
    pub fn new(endpoint: &Arc<Endpoint>) -> Self {
        Self(endpoint.clone())
    }

    /// Sends as [`Endpoint::send`] does.
    pub fn send(&self, buffer: KBox<Buffer>, len: usize) -> PostResult {
        self.0.send(buffer, len)
    }

    /// Posts a receive as [`Endpoint::receive`] does.
    pub fn receive(&self, buffer: KBox<Buffer>) -> PostResult {
        self.0.receive(buffer)
    }
}

/// An installed completion handler, which dropping removes: after the drop the handler is not running, will
/// not be called, and has been dropped with its captures. In atomic context a workqueue completes the removal
/// later.
///
/// A handler that drops its own guard does not wait for itself, and is not called again.
///
/// If the guard is forgotten, the handler is removed when its module is unloaded, before the module's memory
/// is freed.
#[must_use = "the handler is called as long as this lives"]
pub struct HandlerGuard(DeferredDrop<HandlerStop>);

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        self.0 .0.queue.block_handler();
    }
}

/// Removes the handler when dropped. May sleep.
struct HandlerStop(Arc<Completions>);

impl Drop for HandlerStop {
    fn drop(&mut self) {
        self.0.queue.stop_handler();
    }
}

impl Completions {
    /// Installs a handler that is called in hard-interrupt context: once now, and then when a completion
    /// arrives after an empty read.
    ///
    /// Calls never overlap. The handler reads until the queue is empty, and may post.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY if the queue has or had a handler; -FI_ENOMEM.
    pub fn on_interrupt(
        self: &Arc<Self>,
        _here: ProcessContext,
        handler: impl Fn(&ReadyQueue<'_>) + Send + Sync + 'static,
    ) -> Result<HandlerGuard> {
        let state = KBox::new(HandlerState(self.clone(), handler), GFP_KERNEL)?;
        self.install_handler(Handler::Interrupt(state))
    }

    /// Installs a handler that is called in process context and may sleep; otherwise as
    /// [`Self::on_interrupt`].
    pub fn on_arrival(
        self: &Arc<Self>,
        _here: ProcessContext,
        handler: impl Fn(ProcessContext, &Completions) + Send + Sync + 'static,
    ) -> Result<HandlerGuard> {
        let state = KBox::new(HandlerState(self.clone(), handler), GFP_KERNEL)?;
        self.install_handler(Handler::Task(state))
    }

    fn install_handler(self: &Arc<Self>, handler: Handler) -> Result<HandlerGuard> {
        let space = DropSlot::new_for_calls()?;
        self.queue.set_handler(handler)?;
        // Completions that arrived earlier raise no notification.
        self.queue.schedule_handler();
        Ok(HandlerGuard(space.store(HandlerStop(self.clone()))))
    }
}

/// A consumer's handler and its queue, until the handler is removed.
struct HandlerState<F>(Arc<Completions>, F);

impl<F: Fn(&ReadyQueue<'_>) + Send + Sync> InterruptHandler for HandlerState<F> {
    fn handle(&self, here: &InterruptContext) {
        let Self(queue, handler) = self;
        handler(&ReadyQueue { queue, _here: here });
    }

    fn functions(&self) -> Functions {
        let handle: fn(&Self, &InterruptContext) = <Self as InterruptHandler>::handle;
        Functions::single(handle as *const ())
    }
}

impl<F: Fn(ProcessContext, &Completions) + Send + Sync> TaskHandler for HandlerState<F> {
    fn ready(&self, here: ProcessContext) {
        let Self(queue, handler) = self;
        handler(here, queue);
    }

    fn functions(&self) -> Functions {
        let ready: fn(&Self, ProcessContext) = <Self as TaskHandler>::ready;
        Functions::single(ready as *const ())
    }
}
