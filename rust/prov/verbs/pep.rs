// SPDX-License-Identifier: GPL-2.0

//! Passive endpoints: listeners for connection requests.
//!
//! `state` guards the id and the event queue; it is not held across calls of rdma_cm.

use super::{
    super::common::{
        connreq::MAX_PRIVATE_DATA,
        hints::Hints, //
    },
    cm_data::parse_cm_data,
    connreq::ConnReq,
    fabric::Fabric,
    info, //
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
            OwnedEvent,
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

/// Maximum number of pending requests, unless the consumer sets another.
const DEFAULT_BACKLOG: c_int = 128;

struct PepState {
    id: Option<Arc<CmId>>,
    eq: Option<ChildRef<EventQueue>>,
    backlog: c_int,
    /// Allocated with the listener, so that reporting the removal of its device cannot fail.
    removal_event: Option<OwnedEvent>,
}

/// A listener on verbs devices.
#[pin_data]
pub(super) struct PassiveEndpoint {
    fabric: Arc<Fabric>,
    source: Source,
    /// Number by which its requests refer to it: several listeners may have one source.
    listener_id: usize,
    /// Hints from the listener's info, for the infos of its requests.
    hints: Hints,
    choices: Choices,
    addr_format: u32,
    #[pin]
    state: Mutex<PepState>,
    /// Address of the listener, for introspection.
    #[pin]
    addrs: EndpointAddrs,
    is_listening: AtomicFlag,
}

impl PassiveEndpoint {
    /// Opens a listener, bound to the source address of `info` if there is one. May sleep.
    pub(super) fn new(fabric: Arc<Fabric>, info: &Info, source: Source) -> Result<Arc<Self>> {
        let (addr, _) = info.addresses()?;
        let farewell = Event::alloc(source)?;
        let listener = Arc::pin_init(
            pin_init!(Self {
                listener_id: fabric.connreqs().next_number(),
                fabric,
                source,
                hints: Hints::from_info(Some(info)),
                choices: Choices::from_info(info),
                addr_format: info.addr_format(),
                addrs <- EndpointAddrs::new(None, None),
                is_listening: AtomicFlag::new(false),
                state <- new_mutex!(
                    PepState {
                        id: None,
                        eq: None,
                        backlog: DEFAULT_BACKLOG,
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
            if link.eq.is_some() {
                return Err(Errno::EOPBADSTATE);
            }
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
        let mut info = info::device_info(&device, &self.hints)?;
        self.choices.apply(&mut info)?;
        info.set_net(self.fabric.namespace());
        let local = id.local_addr()?.into();
        let peer = id.peer_addr()?.into();
        let format = match self.addr_format {
            FI_ADDR_STR => FI_ADDR_STR,
            _ => format_of(&peer),
        };
        info.set_addresses(format, Some(&local), Some(&peer))?;
        let event = Event::alloc(self.source)?;
        let eq = {
            let link = self.state.lock();
            link.eq.as_ref().map(|held| held.arc().clone())
        };
        let eq = eq.ok_or(Errno::ENOEQ)?;
        let connreqs = self.fabric.connreqs();
        let handle = connreqs.next_number();
        let request = ConnReq::new(&self.fabric, handle, id, device, conn)?;
        info.set_handle(handle);
        // The backlog is rdma_cm's.
        connreqs.add(handle, self.listener_id, usize::MAX, || request)?;
        let data = parse_cm_data(conn.private_data);
        eq.push(event.fill(Kind::Connection(FI_CONNREQ), data, Some(info)));
        Ok(())
    }

    /// Handles the removal of the device that the listener is bound to, which waits until the id is
    /// dropped.
    fn handle_device_removal(&self) {
        let (id, event, queue) = {
            let mut link = self.state.lock();
            let eq = link.eq.as_ref().map(|held| held.arc().clone());
            (link.id.take(), link.removal_event.take(), eq)
        };
        self.is_listening.store(false, Relaxed);
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
            if link.eq.is_some() {
                return Err(Errno::EOPBADSTATE);
            }
            let id = link.id.clone().ok_or(Errno::EADDRNOTAVAIL)?;
            link.eq = Some(events);
            (id, link.backlog)
        };
        let handler: Arc<dyn CmHandler> = self.clone();
        id.set_handler(Some(handler));
        if let Err(error) = id.listen(backlog) {
            let handler = id.set_handler(None);
            let events = self.state.lock().eq.take();
            drop((handler, events));
            return Err(error.into());
        }
        if let Ok(addr) = id.local_addr() {
            self.addrs.set_local(addr.into());
        }
        self.is_listening.store(true, Relaxed);
        Ok(())
    }

    fn set_backlog(&self, backlog: c_int) -> Result {
        let mut link = self.state.lock();
        if link.eq.is_some() {
            return Err(Errno::EOPBADSTATE);
        }
        if backlog < 0 {
            return Err(Errno::EINVAL);
        }
        link.backlog = backlog;
        Ok(())
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
        out.set_state(match self.is_listening.load(Relaxed) {
            true => KOFI_STATE_LISTENING,
            false => KOFI_STATE_OPEN,
        });
        self.addrs.fill_info(out);
    }

    fn close(&self) {
        self.is_listening.store(false, Relaxed);
        let id = self.state.lock().id.take();
        if let Some(id) = &id {
            // No handler starts any more; the drop waits for a running one.
            drop(id.set_handler(None));
        }
        drop(id);
        self.fabric.connreqs().reject_for_listener(self.listener_id);
        let events = self.state.lock().eq.take();
        drop(events);
    }
}
