// SPDX-License-Identifier: GPL-2.0

//! The connection object of two endpoints, through which each finds the other one, and the connection requests
//! that have not been answered yet. The connection's mutex is taken before the mutex of an endpoint.

use super::{
    super::common::{
        cm_data::CmDataLimits,
        connreq::ConnReq, //
    },
    prelude::*, //
};
use crate::util::{
    context::Handlers,
    lock::assert_held, //
};

/// The two endpoints of a connection, each until its connection ends.
#[derive(Default)]
pub(super) struct ConnEnds {
    pub(super) requester: Option<Arc<Endpoint>>,
    pub(super) accepter: Option<Arc<Endpoint>>,
}

impl ConnEnds {
    /// Removes the endpoint `ep` and returns the other one.
    pub(super) fn remove(&mut self, ep: &Endpoint) -> Option<Arc<Endpoint>> {
        let is =
            |end: &Option<Arc<Endpoint>>| end.as_ref().is_some_and(|end| core::ptr::eq(&**end, ep));
        if is(&self.requester) {
            self.requester = None;
            self.accepter.clone()
        } else if is(&self.accepter) {
            self.accepter = None;
            self.requester.clone()
        } else {
            None
        }
    }
}

/// A connection between two endpoints.
#[pin_data]
pub(super) struct Conn {
    #[pin]
    pub(super) ends: Mutex<ConnEnds>,
    #[pin]
    disconnect_work: Work<Conn>,
}

impl_has_work! {
    impl HasWork<Self> for Conn { self.disconnect_work }
}

impl WorkItem for Conn {
    type Pointer = Arc<Conn>;

    fn run(this: Arc<Conn>) {
        let ends = this.ends.lock();
        for end in [&ends.requester, &ends.accepter].into_iter().flatten() {
            end.handle_disconnect(&this);
        }
    }
}

impl Conn {
    /// Makes a connection without endpoints. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new() -> Result<Arc<Self>> {
        Ok(Arc::pin_init(
            pin_init!(Self {
                ends <- new_mutex!(ConnEnds::default(), "kofi::loop::Conn"),
                disconnect_work <- new_work!("kofi::loop::Conn::disconnect_work"),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Checks, with lockdep, that the caller holds the mutex.
    pub(super) fn assert_locked(&self) {
        assert_held(&self.ends);
    }

    /// Schedules the end of the connection for both sides. Any context.
    pub(super) fn schedule_disconnect(self: &Arc<Self>) {
        // A work item that is already queued does the same.
        let _ = Handlers::handler_queue().enqueue(self.clone());
    }
}

/// A connection request. Dropping an unanswered request refuses it.
pub(super) struct Request {
    /// The connection to the requester, until the request is answered.
    conn: Option<Arc<Conn>>,
    pub(super) local: SockAddr,
    pub(super) peer: SockAddr,
    /// Set if the listener wanted private data without a length byte when the request arrived.
    pub(super) is_raw: bool,
}

impl Request {
    /// Makes the request of `peer` to the listener at `local`.
    pub(super) fn new((local, peer): (SockAddr, SockAddr), is_raw: bool, conn: &Arc<Conn>) -> Self {
        Self {
            conn: Some(conn.clone()),
            local,
            peer,
            is_raw,
        }
    }

    /// Returns the connection to the requester, for the caller to answer.
    pub(super) fn into_conn(mut self) -> Option<Arc<Conn>> {
        self.conn.take()
    }

    fn reject_with_data(&mut self, private_data: &[u8]) {
        let Some(conn) = self.conn.take() else {
            return;
        };
        let mut ends = conn.ends.lock();
        if let Some(requester) = ends.requester.take() {
            requester.handle_reject(&conn, private_data);
        }
    }
}

impl ConnReq for Request {
    fn reject_data_limit(&self) -> usize {
        CmDataLimits::new(self.is_raw).reject
    }

    fn reject(mut self, private_data: &[u8]) {
        self.reject_with_data(private_data);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.reject_with_data(&[]);
    }
}
