// SPDX-License-Identifier: GPL-2.0

//! The connections of a server whose clients access its memory by RMA and atomic operations only. Any number
//! of clients is connected at a time; the server sends and receives no messages.

use super::region_info::RegionInfo;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use kofi::{
    abi::{
        Errno,
        Result,
        FI_CONNECTED,
        FI_CONNREQ, //
    },
    fi::{
        domain::Domain,
        eq::{
            EventQueue,
            Kind,
            OwnedEvent,
            Source, //
        },
        msg::{
            Completions,
            Connecting,
            Endpoint,
            Listener, //
        },
    },
    util::context::ProcessContext, //
};

/// The endpoint of a client. The client has access to the region until the endpoint is dropped.
enum Client {
    Connecting(Endpoint<Connecting>),
    Connected(Endpoint),
}

impl Client {
    fn source(&self) -> Source {
        match self {
            Self::Connecting(endpoint) => endpoint.source(),
            Self::Connected(endpoint) => endpoint.source(),
        }
    }
}

pub(crate) struct Clients {
    clients: KVec<Client>,
    /// Number of clients accepted so far; also the source of the last one's events.
    pub(crate) count: usize,
    completions: Arc<Completions>,
    domain: Arc<Domain>,
    region: RegionInfo,
}

impl Clients {
    /// Creates an empty list of clients, each of which gets `region` with its accept.
    pub(crate) fn new(
        here: ProcessContext,
        domain: Arc<Domain>,
        region: RegionInfo,
    ) -> Result<Self> {
        Ok(Self {
            clients: KVec::new(),
            count: 0,
            completions: Completions::new(here, &domain, 1)?,
            domain,
            region,
        })
    }

    /// Handles an event of the listener or of a client: a connection request, a connection, or its end.
    pub(crate) fn handle_event(
        &mut self,
        here: ProcessContext,
        listener: &Listener,
        events: &Arc<EventQueue>,
        event: OwnedEvent,
    ) -> Result {
        if event.kind() == Kind::Connection(FI_CONNREQ) {
            return self.accept(here, listener, events, event);
        }
        let is_source = |client: &Client| client.source() == event.source();
        let Some(index) = self.clients.iter().position(is_source) else {
            return Ok(());
        };
        let client = self.clients.remove(index).map_err(|_| Errno::EOTHER)?;
        if let (Client::Connecting(endpoint), Kind::Connection(FI_CONNECTED)) =
            (client, event.kind())
        {
            let endpoint = Client::Connected(endpoint.connected(&event)?);
            self.clients.push(endpoint, GFP_KERNEL)?;
        }
        // After any other event the client was removed above, and its endpoint is closed by the drop.
        Ok(())
    }

    fn accept(
        &mut self,
        here: ProcessContext,
        listener: &Listener,
        events: &Arc<EventQueue>,
        mut request: OwnedEvent,
    ) -> Result {
        let info = request.take_info().ok_or(Errno::EOTHER)?;
        let source = Source(self.count + 1);
        let (transmits, receives) = (&self.completions, &self.completions);
        self.clients.reserve(1, GFP_KERNEL)?;
        match Endpoint::new(
            here,
            &self.domain,
            &info,
            source,
            events,
            transmits,
            receives,
        ) {
            Ok(endpoint) => {
                let endpoint = Client::Connecting(endpoint.accept(here, &self.region.to_bytes())?);
                self.clients.push(endpoint, GFP_KERNEL)?;
                self.count += 1;
                Ok(())
            }
            // A request that no endpoint was opened for has to be rejected.
            Err(_) => listener.reject(here, &info, &[]),
        }
    }
}
