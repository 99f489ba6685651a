// SPDX-License-Identifier: GPL-2.0

//! Passive endpoints: listeners for connection requests.
//!
//! `state` guards the id and the event queue; it is not held across calls of rdma_cm.

use super::{
    super::common::{
        connreq::MAX_PRIVATE_DATA,
        pep::{
            ListenState,
            PepCore, //
        },
    },
    cm_data::parse_cm_data,
    connreq::ConnReq,
    fabric::Fabric,
    info, //
};
use crate::{
    abi::FI_CONNREQ,
    fi::{
        eq::{
            Event,
            EventQueue,
            Kind,
            OwnedEvent,
            Source, //
        },
        introspect::Introspect,
        prelude::*,
        provider, //
    },
    rdma::{
        cm::{
            self,
            CmHandler,
            CmId,
            ConnParam,
            LockedCmId, //
        },
        device::Device,
        net::SockAddr, //
    },
    util::{
        log::warn,
        trace, //
    },
};

struct PepState {
    id: Option<Arc<CmId>>,
    listen: ListenState,
    /// Allocated with the listener, so that reporting the removal of its device cannot fail.
    removal_event: Option<OwnedEvent>,
}

/// A listener on verbs devices.
#[pin_data]
pub(super) struct PassiveEndpoint {
    fabric: Arc<Fabric>,
    #[pin]
    core: PepCore,
    #[pin]
    state: Mutex<PepState>,
}

impl PassiveEndpoint {
    /// Opens a listener, bound to the source address of `info` if there is one. May sleep.
    pub(super) fn new(fabric: Arc<Fabric>, info: &Info, source: Source) -> Result<Arc<Self>> {
        let (addr, _) = info.addresses()?;
        let farewell = Event::alloc(source)?;
        let listener = Arc::pin_init(
            pin_init!(Self {
                core <- PepCore::new(info, source, fabric.connreqs().next_number()),
                fabric,
                state <- new_mutex!(
                    PepState {
                        id: None,
                        listen: ListenState::new(),
                        removal_event: Some(farewell),
                    },
                    "kofi::verbs::PassiveEndpoint"
                ),
            }),
            GFP_KERNEL,
        )?;
        if let Some(addr) = addr {
            listener.bind(&addr.into())?;
        }
        Ok(listener)
    }

    /// Binds a new id, which has no handler before the listener has an event queue. May sleep.
    fn bind(&self, addr: &SockAddr) -> Result {
        let id = Arc::new(CmId::new(self.fabric.net(), None)?, GFP_KERNEL)?;
        id.bind(addr)?;
        let old = {
            let mut link = self.state.lock();
            link.listen.check_not_listening()?;
            link.id.replace(id)
        };
        drop(old);
        Ok(())
    }

    fn id(&self) -> Option<Arc<CmId>> {
        self.state.lock().id.clone()
    }

    /// Checks that `id` can listen in the fabric's network namespace.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP if its device would listen in another one.
    fn check_namespace(&self, id: &CmId) -> Result {
        // Without a device, the id listens on all of them.
        let Some(device) = id.device() else {
            return Ok(());
        };
        if device.try_get()?.can_listen_in(self.fabric.net()) {
            Ok(())
        } else {
            Err(Errno::EOPNOTSUPP)
        }
    }

    /// Reports a connection request to the consumer; dropping the request on an error rejects it.
    fn report_connreq(&self, id: CmId, conn: &ConnParam<'_>) -> Result {
        let device = id.device().ok_or(Errno::ENODEV)?;
        if !device.try_get()?.can_connect_in(self.fabric.net()) {
            return Err(Errno::ENODEV);
        }
        let mut info = info::device_info(&device, &self.core.hints)?;
        let net = self.fabric.namespace();
        let (local, peer) = (id.local_addr()?.into(), id.peer_addr()?.into());
        let event = self.core.prepare_connreq(&mut info, net, local, peer)?;
        let eq = {
            let link = self.state.lock();
            link.listen.eq.as_ref().map(|held| held.arc().clone())
        };
        let eq = eq.ok_or(Errno::ENOEQ)?;
        let connreqs = self.fabric.connreqs();
        let handle = connreqs.next_number();
        let request = ConnReq::new(&self.fabric, handle, id, device, conn)?;
        info.set_handle(handle);
        // The backlog is rdma_cm's.
        connreqs.add(handle, self.core.listener_id, usize::MAX, || request)?;
        let data = parse_cm_data(conn.private_data);
        eq.push(event.fill(Kind::Connection(FI_CONNREQ), data, Some(info)));
        Ok(())
    }

    /// Handles the removal of the device that the listener is bound to, which waits until the id is
    /// dropped.
    fn handle_device_removal(&self) {
        let (id, event, queue) = {
            let mut link = self.state.lock();
            let eq = link.listen.eq.as_ref().map(|held| held.arc().clone());
            (link.id.take(), link.removal_event.take(), eq)
        };
        self.core.set_listening(false);
        drop(id);
        if let (Some(event), Some(queue)) = (event, queue) {
            queue.push(event.fill(Kind::Error(Errno::ENODEV, 0), &[], None));
        }
    }
}

/// Addresses of a connection request, for tracing.
struct ConnReqTrace {
    device: Option<Arc<Device>>,
    local_addr: Option<SockAddr>,
    peer_addr: Option<SockAddr>,
}

impl ConnReqTrace {
    fn from_id(id: &CmId) -> Self {
        Self {
            device: id.device(),
            local_addr: id.local_addr().ok(),
            peer_addr: id.peer_addr().ok(),
        }
    }

    /// Traces a request that was reported, or that is rejected with `refused`.
    fn trace(&self, refused: Option<Errno>) {
        if trace::requests() {
            let name = self.device.as_ref().map(|device| device.name());
            let name = name.as_ref().map_or(c"", |name| name.as_c_str());
            let bytes = |addr: Option<SockAddr>| addr.map(SockAddr::to_raw);
            let (local, peer) = (bytes(self.local_addr), bytes(self.peer_addr));
            let local = local.as_ref().map_or(&[][..], |addr| addr.as_bytes());
            let peer = peer.as_ref().map_or(&[][..], |addr| addr.as_bytes());
            trace::request(name, local, peer, refused);
        }
        if let Some(errno) = refused {
            let device = self.device.as_ref().map(|device| device.name());
            let text = fmt!("a connection request is refused: {:?}", errno);
            match device {
                Some(name) => warn(&name, text),
                None => warn(&"no device", text),
            }
        }
    }
}

impl CmHandler for PassiveEndpoint {
    fn handle_event(self: Arc<Self>, _id: &LockedCmId, event: cm::CmEvent<'_>) {
        match event {
            cm::CmEvent::ConnectRequest { id, conn } => {
                let asked = ConnReqTrace::from_id(&id);
                // On an error the id is dropped, which rejects the request.
                asked.trace(self.report_connreq(id, &conn).err());
            }
            cm::CmEvent::DeviceRemoval => self.handle_device_removal(),
            _ => {}
        }
    }
}

impl provider::PassiveEndpoint for PassiveEndpoint {
    fn listen(self: Arc<Self>, events: ChildRef<EventQueue>) -> Result {
        if let Some(id) = self.id() {
            self.check_namespace(&id)?;
        }
        let (id, backlog) = {
            let mut link = self.state.lock();
            link.listen.check_not_listening()?;
            let id = link.id.clone().ok_or(Errno::EADDRNOTAVAIL)?;
            link.listen.eq = Some(events);
            (id, link.listen.backlog)
        };
        let handler: Arc<dyn CmHandler> = self.clone();
        id.set_handler(Some(handler));
        if let Err(error) = id.listen(backlog) {
            let handler = id.set_handler(None);
            let events = self.state.lock().listen.eq.take();
            drop((handler, events));
            return Err(error.into());
        }
        if let Ok(addr) = id.local_addr() {
            self.core.set_local_addr(addr.into());
        }
        self.core.set_listening(true);
        Ok(())
    }

    fn set_backlog(&self, backlog: c_int) -> Result {
        self.state.lock().listen.set_backlog(backlog)
    }

    fn reject(&self, handle: usize, private_data: &[u8]) -> Result {
        self.fabric.connreqs().reject(handle, private_data)
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        self.bind(&addr.into())
    }

    fn name(&self) -> Result<SocketAddr> {
        let id = self.id().ok_or(Errno::EADDRNOTAVAIL)?;
        Ok(id.local_addr()?.into())
    }

    fn private_data_limit(&self) -> usize {
        MAX_PRIVATE_DATA
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        self.core.fill_info(out);
    }

    fn close(&self) {
        self.core.set_listening(false);
        let id = self.state.lock().id.take();
        if let Some(id) = &id {
            // No handler starts any more; the drop waits for a running one.
            drop(id.set_handler(None));
        }
        drop(id);
        self.fabric
            .connreqs()
            .reject_for_listener(self.core.listener_id);
        let events = self.state.lock().listen.eq.take();
        drop(events);
    }
}
