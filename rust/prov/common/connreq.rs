// SPDX-License-Identifier: GPL-2.0

//! Connection requests of a fabric that have been reported, until the consumer accepts or rejects them.
//!
//! A consumer refers to a request by a number in its info's `handle`, never by an address, so that a forged or
//! stale handle is detected. The mutex guards the list; no request is rejected under it.

use crate::{
    fi::prelude::*,
    util::context, //
};

/// A provider's connection request. Dropping an unanswered request rejects it.
pub(crate) trait ConnReq {
    /// Returns the maximum number of bytes of private data of [`Self::reject`].
    fn reject_data_limit(&self) -> usize;

    /// Rejects the request, with private data for the peer. May sleep.
    fn reject(self, private_data: &[u8]);
}

/// A request in the list.
struct Pending<R> {
    handle: usize,
    listener_id: usize,
    request: R,
}

fn check_backlog<R>(list: &[Pending<R>], listener_id: usize, backlog: usize) -> Result {
    let pending = list.iter().filter(|other| other.listener_id == listener_id);
    Errno::ECONNREFUSED.when(pending.count() >= backlog)
}

/// Pending requests of a fabric.
#[pin_data]
pub(crate) struct ConnReqList<R> {
    #[pin]
    list: Mutex<KVVec<Pending<R>>>,
    last_number: Atomic<usize>,
}

impl<R: ConnReq> ConnReqList<R> {
    /// Returns an empty list.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVVec::new(), "kofi::prov::ConnReqList"),
            last_number: Atomic::new(0),
        })
    }

    /// Returns a number for a request's handle or a listener, unique within the fabric.
    pub(crate) fn next_number(&self) -> usize {
        // 0 stands for no request.
        let last = self.last_number.fetch_add(1, Relaxed);
        last.wrapping_add(1).max(1)
    }

    /// Checks that a listener may have another request, before work is done for it. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ECONNREFUSED with a full backlog.
    pub(crate) fn check_backlog(&self, listener_id: usize, backlog: usize) -> Result {
        check_backlog(&self.list.lock(), listener_id, backlog)
    }

    /// Adds the request that `make` returns, to a listener that may have `backlog` requests. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ECONNREFUSED with a full backlog, -FI_ENOMEM: `make` is dropped without a call.
    pub(crate) fn add(
        &self,
        handle: usize,
        listener_id: usize,
        backlog: usize,
        make: impl FnOnce() -> R,
    ) -> Result {
        let mut list = self.list.lock();
        check_backlog(&list, listener_id, backlog)?;
        list.reserve(1, GFP_KERNEL)?;
        // Cannot fail: the capacity has just been reserved.
        let _ = list.push_within_capacity(Pending {
            handle,
            listener_id,
            request: make(),
        });
        Ok(())
    }

    /// Takes a request; -FI_EINVAL if there is none with that handle.
    pub(crate) fn take(&self, handle: usize) -> Result<R> {
        self.take_where(|pending| pending.handle == handle)
            .ok_or(Errno::EINVAL)
    }

    fn take_where(&self, which: impl Fn(&Pending<R>) -> bool) -> Option<R> {
        let mut list = self.list.lock();
        let at = list.iter().position(which)?;
        // Their order does not matter.
        let last = list.len() - 1;
        list.swap(at, last);
        list.pop().map(|pending| pending.request)
    }

    /// Rejects a request for the consumer, with private data for the peer. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE in atomic context; -FI_EINVAL for more data than the request permits, and if there is no
    /// request with that handle.
    pub(crate) fn reject(&self, handle: usize, private_data: &[u8]) -> Result {
        context::in_process()?;
        let found = self.take_where(|pending| {
            pending.handle == handle && private_data.len() <= pending.request.reject_data_limit()
        });
        found.ok_or(Errno::EINVAL)?.reject(private_data);
        Ok(())
    }

    /// Rejects the requests to a listener that closes. May sleep.
    pub(crate) fn reject_for_listener(&self, listener_id: usize) {
        while let Some(request) = self.take_where(|pending| pending.listener_id == listener_id) {
            request.reject(&[]);
        }
    }

    /// Rejects every request for which `which` returns true. May sleep.
    pub(crate) fn reject_where(&self, which: impl Fn(&R) -> bool) {
        while let Some(request) = self.take_where(|pending| which(&pending.request)) {
            request.reject(&[]);
        }
    }
}
