// SPDX-License-Identifier: GPL-2.0

//! Connection requests that have not been answered yet.

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

/// A connection request. Dropping an unanswered request refuses it.
pub(super) struct Request {
    handle: usize,
    /// The number of its listener.
    listener_id: usize,
    /// The connection to the requester, until the request is answered.
    conn: Option<Arc<Conn>>,
    pub(super) local: SockAddr,
    pub(super) peer: SockAddr,
}

impl Request {
    /// Returns the connection to the requester, for the caller to answer.
    pub(super) fn into_conn(mut self) -> Option<Arc<Conn>> {
        self.conn.take()
    }

    /// Refuses the request, with private data for the peer. May sleep.
    pub(super) fn reject(mut self, private_data: &[u8]) {
        self.reject_with_data(private_data);
    }

    fn reject_with_data(&mut self, private_data: &[u8]) {
        let Some(conn) = self.conn.take() else {
            return;
        };
        let mut ends = conn.ends.lock();
        let requester: Option<Arc<Endpoint>> = ends.requester.take();
        if let Some(requester) = requester {
            requester.handle_reject(&conn, private_data);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.reject_with_data(&[]);
    }
}

/// All unanswered requests of a fabric.
#[pin_data]
pub(super) struct Requests {
    #[pin]
    list: Mutex<KVec<Request>>,
    last_id: Atomic<usize>,
}

impl Requests {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVec::new(), "kofi::loop::Requests"),
            last_id: Atomic::new(0),
        })
    }

    /// Returns a number that is unique in this table: a request's handle, or a listener's number.
    pub(super) fn next_id(&self) -> usize {
        // 0 stands for no request.
        self.last_id.fetch_add(1, Relaxed).wrapping_add(1).max(1)
    }

    /// Stores a request from `peer` to the listener with that number until it is taken, and returns its
    /// handle. A listener has at most `backlog` requests. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ECONNREFUSED with a full backlog, -FI_ENOMEM: the request is not stored, and its peer not
    /// notified.
    pub(super) fn add(
        &self,
        listener_id: usize,
        backlog: usize,
        (local, peer): (SockAddr, SockAddr),
        conn: &Arc<Conn>,
    ) -> Result<usize> {
        let handle = self.next_id();
        let mut list = self.list.lock();
        let waiting = list
            .iter()
            .filter(|request| request.listener_id == listener_id);
        if waiting.count() >= backlog {
            return Err(Errno::ECONNREFUSED);
        }
        list.reserve(1, GFP_KERNEL)?;
        // Cannot fail: the capacity has just been reserved.
        let _ = list.push_within_capacity(Request {
            handle,
            listener_id,
            conn: Some(conn.clone()),
            local,
            peer,
        });
        Ok(handle)
    }

    /// Takes a request; -FI_EINVAL if there is none with that handle.
    pub(super) fn take(&self, handle: usize) -> Result<Request> {
        self.remove_where(|request| request.handle == handle)
            .ok_or(Errno::EINVAL)
    }

    fn remove_where(&self, which: impl Fn(&Request) -> bool) -> Option<Request> {
        let mut list = self.list.lock();
        let at = list.iter().position(which)?;
        list.remove(at).ok()
    }

    /// Refuses all requests to the listener with that number, which is closing. May sleep.
    pub(super) fn reject_all(&self, listener_id: usize) {
        while let Some(request) = self.remove_where(|request| request.listener_id == listener_id) {
            request.reject(&[]);
        }
    }
}
