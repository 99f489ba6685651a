// SPDX-License-Identifier: GPL-2.0

//! Passive endpoints. The mutex guards the port and the event queue of connection requests.

use super::{
    super::common::{
        cm_data::CmDataLimits,
        pep::{
            ListenState,
            PepCore, //
        },
    },
    fabric::Fabric,
    info,
    prelude::*, //
};
use crate::{
    abi::FI_CONNREQ,
    fi::{
        eq::{
            EventQueue,
            Kind, //
        },
        introspect::Introspect,
        provider::EpOption, //
    },
};

struct Link {
    port: Option<Port>,
    listen: ListenState,
}

/// A listener.
#[pin_data]
pub(super) struct PassiveEndpoint {
    fabric: Arc<Fabric>,
    #[pin]
    core: PepCore,
    #[pin]
    link: Mutex<Link>,
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
                core <- PepCore::new(info, source, fabric.connreqs.next_number()),
                fabric,
                link <- new_mutex!(
                    Link {
                        port: None,
                        listen: ListenState::new(),
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
        self.link.lock().listen.check_not_listening()?;
        let port = Port::bind(self.fabric.port_namespace(), addr)?;
        let mut link = self.link.lock();
        // Another thread may have called `listen` meanwhile.
        link.listen.check_not_listening()?;
        let old = link.port.replace(port);
        drop(link);
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
        let mut info = info::build_info(&self.core.hints)?;
        let net = &self.fabric.namespace;
        let core = &self.core;
        let event = core.prepare_connreq(&mut info, net, to.into(), peer.into())?;
        let link = self.link.lock();
        let queue = link.listen.eq.as_ref().ok_or(Errno::ECONNREFUSED)?;
        let connreqs = &self.fabric.connreqs;
        let handle = connreqs.next_number();
        let backlog = link.listen.backlog.unsigned_abs() as usize;
        connreqs.add(handle, self.core.listener_id, backlog, || {
            Request::new((to, peer), self.core.raw_cm_data.get(), conn)
        })?;
        info.set_handle(handle);
        // A concurrent `close()` waits for the lock, then finds and refuses the request.
        let event = event.fill(Kind::Connection(FI_CONNREQ), private_data, Some(info));
        queue.arc().push(event);
        Ok(())
    }
}

impl provider::PassiveEndpoint for PassiveEndpoint {
    fn listen(self: Arc<Self>, eq: ChildRef<EventQueue>) -> Result {
        let mut link = self.link.lock();
        link.listen.check_not_listening()?;
        let port = link.port.as_mut().ok_or(Errno::EADDRNOTAVAIL)?;
        port.set_listener(self.fabric.port_namespace(), self.clone())?;
        self.core.set_local_addr(port.addr.into());
        link.listen.eq = Some(eq);
        drop(link);
        self.core.set_listening(true);
        Ok(())
    }

    fn set_backlog(&self, backlog: c_int) -> Result {
        self.link.lock().listen.set_backlog(backlog)
    }

    fn reject(&self, handle: usize, private_data: &[u8]) -> Result {
        self.fabric.connreqs.reject(handle, private_data)
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        self.bind(&addr.into())
    }

    fn name(&self) -> Result<SocketAddr> {
        let link = self.link.lock();
        let port = link.port.as_ref().ok_or(Errno::EADDRNOTAVAIL)?;
        Ok(port.addr.into())
    }

    fn private_data_limit(&self) -> usize {
        CmDataLimits::new(self.core.raw_cm_data.get()).reject
    }

    fn getopt(&self, option: EpOption) -> Result<usize> {
        self.core.getopt(option)
    }

    fn setopt(&self, option: EpOption, value: usize) -> Result {
        self.core.setopt(option, value)
    }

    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        self.core.fill_info(info);
    }

    fn close(&self) {
        self.core.set_listening(false);
        let mut link = self.link.lock();
        let (port, eq) = (link.port.take(), link.listen.eq.take());
        drop(link);
        // The port holds a reference to the listener.
        drop(port);
        let connreqs = &self.fabric.connreqs;
        connreqs.reject_for_listener(self.core.listener_id);
        drop(eq);
    }
}
