// SPDX-License-Identifier: GPL-2.0

//! Passive endpoints. The mutex guards the port and the event queue of connection requests.

use super::{
    super::common::{
        connreq::MAX_PRIVATE_DATA,
        hints::Hints, //
    },
    conn::Conn,
    connreq::Request,
    fabric::Fabric,
    info,
    port::Port, //
};
use crate::{
    abi::{
        addr::format_of,
        info::Info,
        Errno,
        Result,
        FI_ADDR_STR,
        FI_CONNREQ,
        KOFI_STATE_LISTENING,
        KOFI_STATE_OPEN, //
    },
    fi::{
        eq::{
            Event,
            EventQueue,
            Kind,
            Source, //
        },
        info::Choices,
        introspect::{
            EndpointAddrs,
            Introspect,
            ObjectInfo, //
        },
        object::ChildRef,
        provider, //
    },
    rdma::net::SockAddr, //
};
use core::net::SocketAddr;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};

/// Requests that may be pending, unless the consumer sets the backlog.
const DEFAULT_BACKLOG: usize = 128;

struct Link {
    port: Option<Port>,
    eq: Option<ChildRef<EventQueue>>,
    backlog: usize,
}

/// A listener.
#[pin_data]
pub(super) struct PassiveEndpoint {
    fabric: Arc<Fabric>,
    source: Source,
    /// Identifies the listener in its requests: several listeners may have one `source`.
    id: usize,
    /// Hints from the listener's info, which the infos of its requests follow.
    hints: Hints,
    choices: Choices,
    addr_format: u32,
    #[pin]
    link: Mutex<Link>,
    /// Copy of the address, for introspection.
    #[pin]
    addrs: EndpointAddrs,
    is_listening: AtomicFlag,
}

impl PassiveEndpoint {
    /// Makes a listener, bound to the source address of `info` if there is one. May sleep.
    ///
    /// # Errors
    ///
    /// The errnos of [`Port::bind`].
    pub(super) fn new(fabric: Arc<Fabric>, info: &Info, source: Source) -> Result<Arc<Self>> {
        let (addr, _) = info.addresses()?;
        let listener = Arc::pin_init(
            pin_init!(Self {
                id: fabric.connreqs().next_number(),
                fabric,
                source,
                hints: Hints::from_info(Some(info)),
                choices: Choices::from_info(info),
                addr_format: info.addr_format(),
                addrs <- EndpointAddrs::new(None, None),
                is_listening: AtomicFlag::new(false),
                link <- new_mutex!(
                    Link {
                        port: None,
                        eq: None,
                        backlog: DEFAULT_BACKLOG,
                    },
                    "kofi::loop::PassiveEndpoint"
                ),
            }),
            GFP_KERNEL,
        )?;
        if let Some(addr) = addr {
            listener.bind(&addr.into())?;
        }
        Ok(listener)
    }

    fn bind(&self, addr: &SockAddr) -> Result {
        if self.link.lock().eq.is_some() {
            return Err(Errno::EOPBADSTATE);
        }
        let port = Port::bind(self.fabric.port_namespace(), addr)?;
        let old = self.link.lock().port.replace(port);
        drop(old);
        Ok(())
    }

    /// Reports a connection request from `peer` to `to` to the consumer. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ECONNREFUSED with a full backlog or a closed listener; -FI_ENOMEM. No event has been pushed then.
    pub(super) fn report_request(
        &self,
        (to, peer): (SockAddr, SockAddr),
        private_data: &[u8],
        conn: &Arc<Conn>,
    ) -> Result {
        let mut info = info::build_info(&self.hints)?;
        self.choices.apply(&mut info)?;
        info.set_net(self.fabric.namespace());
        let addrs = [to, peer].map(SocketAddr::from);
        let format = match self.addr_format {
            FI_ADDR_STR => FI_ADDR_STR,
            _ => format_of(&addrs[1]),
        };
        info.set_addresses(format, Some(&addrs[0]), Some(&addrs[1]))?;
        let event = Event::alloc(self.source)?;
        let link = self.link.lock();
        let queue = link.eq.as_ref().ok_or(Errno::ECONNREFUSED)?;
        let connreqs = self.fabric.connreqs();
        let handle = connreqs.next_number();
        connreqs.add(handle, self.id, link.backlog, || {
            Request::new((to, peer), conn)
        })?;
        info.set_handle(handle);
        // A concurrent `close()` waits for the lock, then finds and refuses the request.
        queue
            .arc()
            .push(event.fill(Kind::Connection(FI_CONNREQ), private_data, Some(info)));
        Ok(())
    }
}

impl provider::PassiveEndpoint for PassiveEndpoint {
    fn listen(self: Arc<Self>, eq: ChildRef<EventQueue>) -> Result {
        let mut link = self.link.lock();
        if link.eq.is_some() {
            return Err(Errno::EOPBADSTATE);
        }
        let port = link.port.take().ok_or(Errno::EADDRNOTAVAIL)?;
        self.addrs.set_local(port.addr().into());
        link.eq = Some(eq);
        let port = port.set_listener(self.fabric.port_namespace(), self.clone());
        match port {
            Ok(port) => link.port = Some(port),
            Err(errno) => {
                let eq = link.eq.take();
                drop(link);
                drop(eq);
                return Err(errno);
            }
        }
        self.is_listening.store(true, Relaxed);
        Ok(())
    }

    fn set_backlog(&self, backlog: c_int) -> Result {
        let mut link = self.link.lock();
        if link.eq.is_some() {
            return Err(Errno::EOPBADSTATE);
        }
        link.backlog = usize::try_from(backlog).map_err(|_| Errno::EINVAL)?;
        Ok(())
    }

    fn reject(&self, handle: usize, private_data: &[u8]) -> Result {
        self.fabric.connreqs().reject(handle, private_data)
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        self.bind(&addr.into())
    }

    fn name(&self) -> Result<SocketAddr> {
        let link = self.link.lock();
        let port = link.port.as_ref().ok_or(Errno::EADDRNOTAVAIL)?;
        Ok(port.addr().into())
    }

    fn private_data_limit(&self) -> usize {
        MAX_PRIVATE_DATA
    }

    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        info.set_state(match self.is_listening.load(Relaxed) {
            true => KOFI_STATE_LISTENING,
            false => KOFI_STATE_OPEN,
        });
        self.addrs.fill_info(info);
    }

    fn close(&self) {
        self.is_listening.store(false, Relaxed);
        let mut link = self.link.lock();
        let (port, eq) = (link.port.take(), link.eq.take());
        drop(link);
        // The port holds a reference to the listener.
        drop(port);
        self.fabric.connreqs().reject_for_listener(self.id);
        drop(eq);
    }
}
