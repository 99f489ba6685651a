// SPDX-License-Identifier: GPL-2.0

//! Clients who come and go, any number at a time, to use what they are lent: nothing is sent to them, and
//! nothing received.

use super::grant::Grant;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use kofi::{
    abi::{
        context::ProcessContext,
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
};

/// One who has not left. What they are lent they can reach as long as this lives.
enum Client {
    Coming(Endpoint<Connecting>),
    There(Endpoint),
}

impl Client {
    fn source(&self) -> Source {
        match self {
            Self::Coming(endpoint) => endpoint.source(),
            Self::There(endpoint) => endpoint.source(),
        }
    }
}

pub(crate) struct Crowd {
    clients: KVec<Client>,
    /// How many have come so far: the number of the last.
    pub(crate) count: usize,
    completions: Arc<Completions>,
    domain: Arc<Domain>,
    grant: Grant,
}

impl Crowd {
    /// Nobody yet; who comes is told of the grant.
    pub(crate) fn new(here: ProcessContext, domain: Arc<Domain>, grant: Grant) -> Result<Self> {
        Ok(Self {
            clients: KVec::new(),
            count: 0,
            completions: Completions::new(here, &domain, 1)?,
            domain,
            grant,
        })
    }

    /// What an event says of a client: it wants to come, is there, or has left.
    pub(crate) fn take(
        &mut self,
        here: ProcessContext,
        listener: &Listener,
        events: &Arc<EventQueue>,
        event: OwnedEvent,
    ) -> Result {
        if event.kind() == Kind::Connection(FI_CONNREQ) {
            return self.welcome(here, listener, events, event);
        }
        let is_it = |client: &Client| client.source() == event.source();
        let Some(at) = self.clients.iter().position(is_it) else {
            return Ok(());
        };
        let client = self.clients.remove(at).map_err(|_| Errno::EOTHER)?;
        if let (Client::Coming(endpoint), Kind::Connection(FI_CONNECTED)) = (client, event.kind()) {
            let endpoint = Client::There(endpoint.connected(&event)?);
            self.clients.push(endpoint, GFP_KERNEL)?;
        }
        // Any other client is dropped, and closes itself.
        Ok(())
    }

    fn welcome(
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
                let endpoint = Client::Coming(endpoint.accept(here, &self.grant.to_bytes())?);
                self.clients.push(endpoint, GFP_KERNEL)?;
                self.count += 1;
                Ok(())
            }
            // A request that no endpoint has taken is still to be answered.
            Err(_) => listener.reject(here, &info, &[]),
        }
    }
}
