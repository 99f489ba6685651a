// SPDX-License-Identifier: GPL-2.0

//! Requests for connections that nobody has answered.

use super::{
    conn::Conn,
    ep::Endpoint, //
};
use crate::{
    abi::{
        Errno,
        Result, //
    },
    rdma::net::SockAddr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// A request. Whoever drops it without an answer refuses it.
pub(super) struct Request {
    handle: usize,
    /// The number of its listener.
    listener: usize,
    /// Until it has been answered.
    tie: Option<Arc<Conn>>,
    pub(super) local: SockAddr,
    pub(super) peer: SockAddr,
}

impl Request {
    /// What binds it to who has asked, whom the caller answers.
    pub(super) fn into_tie(mut self) -> Option<Arc<Conn>> {
        self.tie.take()
    }

    /// Says no, with data for the peer. May sleep.
    pub(super) fn refuse(mut self, private_data: &[u8]) {
        self.say_no(private_data);
    }

    fn say_no(&mut self, private_data: &[u8]) {
        let Some(tie) = self.tie.take() else {
            return;
        };
        let mut ends = tie.ends.lock();
        let asker: Option<Arc<Endpoint>> = ends.asker.take();
        if let Some(asker) = asker {
            asker.refused(private_data);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.say_no(&[]);
    }
}

/// All unanswered requests of a fabric.
#[pin_data]
pub(super) struct Requests {
    #[pin]
    list: Mutex<KVec<Request>>,
    last: Atomic<usize>,
}

impl Requests {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVec::new(), "kofi::loop::Requests"),
            last: Atomic::new(0),
        })
    }

    /// A number that nothing else here has: a request's handle, or a listener's.
    pub(super) fn next_number(&self) -> usize {
        // 0 stands for no request.
        self.last.fetch_add(1, Relaxed).wrapping_add(1).max(1)
    }

    /// Keeps a request from `peer` to the listener with that number until it is taken, unless that has `most`
    /// already: the handle that it is known by. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ECONNREFUSED, -FI_ENOMEM: nobody has been told.
    pub(super) fn keep(
        &self,
        listener: usize,
        most: usize,
        (local, peer): (SockAddr, SockAddr),
        tie: &Arc<Conn>,
    ) -> Result<usize> {
        let handle = self.next_number();
        let mut list = self.list.lock();
        let waiting = list.iter().filter(|request| request.listener == listener);
        if waiting.count() >= most {
            return Err(Errno::ECONNREFUSED);
        }
        list.reserve(1, GFP_KERNEL)?;
        // There is room: it has just been made.
        let _ = list.push_within_capacity(Request {
            handle,
            listener,
            tie: Some(tie.clone()),
            local,
            peer,
        });
        Ok(handle)
    }

    /// Takes a request; -FI_EINVAL if there is none with that handle.
    pub(super) fn take(&self, handle: usize) -> Result<Request> {
        self.take_where(|request| request.handle == handle)
            .ok_or(Errno::EINVAL)
    }

    fn take_where(&self, which: impl Fn(&Request) -> bool) -> Option<Request> {
        let mut list = self.list.lock();
        let at = list.iter().position(which)?;
        list.remove(at).ok()
    }

    /// Refuses what came to the listener with that number, which closes. May sleep.
    pub(super) fn refuse_of(&self, listener: usize) {
        while let Some(request) = self.take_where(|request| request.listener == listener) {
            request.refuse(&[]);
        }
    }
}
