// SPDX-License-Identifier: GPL-2.0

//! Connection requests that have not been answered yet.

use super::{
    super::common::connreq::ConnReq,
    conn::Conn,
    ep::Endpoint, //
};
use crate::rdma::net::SockAddr;
use kernel::sync::Arc;

/// A connection request. Dropping an unanswered request refuses it.
pub(super) struct Request {
    /// The connection to the requester, until the request is answered.
    conn: Option<Arc<Conn>>,
    pub(super) local: SockAddr,
    pub(super) peer: SockAddr,
}

impl Request {
    /// Makes the request of `peer` to the listener at `local`.
    pub(super) fn new((local, peer): (SockAddr, SockAddr), conn: &Arc<Conn>) -> Self {
        Self {
            conn: Some(conn.clone()),
            local,
            peer,
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
        let requester: Option<Arc<Endpoint>> = ends.requester.take();
        if let Some(requester) = requester {
            requester.handle_reject(&conn, private_data);
        }
    }
}

impl ConnReq for Request {
    fn reject(mut self, private_data: &[u8]) {
        self.reject_with_data(private_data);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.reject_with_data(&[]);
    }
}
