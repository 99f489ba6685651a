// SPDX-License-Identifier: GPL-2.0

//! Passive endpoints: listeners for connection requests.
//!
//! `state` guards the id and the event queue; it is not held across calls of rdma_cm.

use super::{
    super::common::pep::{
        ListenState,
        PepCore, //
    },
    cm_data::CmFormat,
    connreq::ConnReq,
    fabric::Fabric,
    info,
    prelude::*, //
};
use crate::{
    abi::FI_CONNREQ,
    fi::{
        eq::{
            Event,
            EventQueue,
            Kind,
            OwnedEvent, //
        },
        introspect::Introspect,
        provider::EpOption, //
    },
    rdma::{
        cm,
        device_attr::Protocol, //
    },
    util::{
        log::warn_of_peer,
        noio::NoIo, //
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
        let removal_event = Event::alloc(source)?;
        let listener = Arc::pin_init(
            pin_init!(Self {
                core <- PepCore::new(info, source, fabric.connreqs.next_number()),
                fabric,
                state <- new_mutex!(
                    PepState {
                        id: None,
                        listen: ListenState::new(),
                        removal_event: Some(removal_event),
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
        self.state.lock().listen.check_not_listening()?;
        let id = Arc::new(CmId::new(&self.fabric.net, None)?, GFP_KERNEL)?;
        id.bind(addr)?;
        let mut link = self.state.lock();
        // Another thread may have called `listen` meanwhile.
        link.listen.check_not_listening()?;
        let old = link.id.replace(id);
        drop(link);
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
        match id.device() {
            Some(device) if !device.try_get()?.can_listen_in(&self.fabric.net) => {
                Err(Errno::EOPNOTSUPP)
            }
            // Without a device, the id listens on all of them.
            _ => Ok(()),
        }
    }

    /// Reports a connection request to the consumer; dropping the request on an error rejects it.
    fn report_connreq(&self, id: CmId, conn: &ConnParam<'_>) -> Result {
        let device = id.device().ok_or(Errno::ENODEV)?;
        if !device.try_get()?.can_connect_in(&self.fabric.net) {
            return Err(Errno::ENODEV);
        }
        if !id.peer_addr_matches_path() {
            return Err(Errno::EACCES);
        }
        let link = self.state.lock();
        let eq = link.listen.eq.as_ref().map(|eq| eq.arc().clone());
        let backlog = link.listen.backlog.unsigned_abs() as usize;
        drop(link);
        let eq = eq.ok_or(Errno::ENOEQ)?;
        let connreqs = &self.fabric.connreqs;
        // The info queries the device, which peers must not cause as often as they want.
        connreqs.check_backlog(self.core.listener_id, backlog)?;
        let mut info = info::device_info(&device, &self.core.hints)?;
        let net = &self.fabric.namespace;
        let (local, peer) = (id.local_addr()?.into(), id.peer_addr()?.into());
        let event = self.core.prepare_connreq(&mut info, net, local, peer)?;
        let handle = connreqs.next_number();
        let cm_format = CmFormat::new(self.core.raw_cm_data.get());
        let request = ConnReq::new(&self.fabric, handle, id, device, cm_format, conn)?;
        info.set_handle(handle);
        // rdma_cm does not count requests that it has reported, and on InfiniBand and RoCE none.
        connreqs.add(handle, self.core.listener_id, backlog, || request)?;
        let data = cm_format.decode(conn.private_data);
        eq.push(event.fill(Kind::Connection(FI_CONNREQ), data, Some(info)));
        Ok(())
    }

    /// Handles the removal of the device that the listener is bound to, which waits until the id is
    /// dropped.
    fn handle_device_removal(&self) {
        let mut link = self.state.lock();
        let queue = link.listen.eq.as_ref().map(|eq| eq.arc().clone());
        let (id, event) = (link.id.take(), link.removal_event.take());
        drop(link);
        self.core.set_listening(false);
        drop(id);
        if let (Some(event), Some(queue)) = (event, queue) {
            queue.push(event.fill(Kind::Error(Errno::ENODEV, 0), &[], None));
        }
    }
}

/// Traces a connection request from `peer` to `local`, which was reported, or is rejected with
/// `refused`.
fn trace_connreq(
    device: Option<Arc<Device>>,
    (local, peer): (Option<SockAddr>, Option<SockAddr>),
    refused: Option<Errno>,
) {
    let name = device.map(|device| device.name());
    if trace::requests() {
        let name = name.as_ref().map_or(c"", |name| name.as_c_str());
        let (local, peer) = (local.map(SockAddr::to_raw), peer.map(SockAddr::to_raw));
        let local = local.as_ref().map_or(&[][..], |addr| addr.as_bytes());
        let peer = peer.as_ref().map_or(&[][..], |addr| addr.as_bytes());
        trace::request(name, local, peer, refused);
    }
    if let Some(errno) = refused {
        let name = name.as_ref().map_or(c"no device", |name| name.as_c_str());
        match peer {
            Some(peer) => warn_of_peer(
                &name,
                &peer.into(),
                fmt!("its connection request is refused: {:?}", errno),
            ),
            None => warn(&name, fmt!("a connection request is refused: {:?}", errno)),
        }
    }
}

impl CmHandler for PassiveEndpoint {
    fn handle_event(self: Arc<Self>, _id: &LockedCmId, event: cm::CmEvent<'_>) {
        let _scope = NoIo::enter();
        match event {
            cm::CmEvent::ConnectRequest { id, conn } => {
                let device = id.device();
                let addrs = (id.local_addr().ok(), id.peer_addr().ok());
                // On an error the id is dropped, which rejects the request.
                trace_connreq(device, addrs, self.report_connreq(id, &conn).err());
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
        let mut link = self.state.lock();
        link.listen.check_not_listening()?;
        let id = link.id.clone().ok_or(Errno::EADDRNOTAVAIL)?;
        link.listen.eq = Some(events);
        let backlog = link.listen.backlog;
        drop(link);
        id.set_handler(Some(self.clone()));
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
        let _scope = NoIo::enter();
        self.fabric.connreqs.reject(handle, private_data)
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        self.bind(&addr.into())
    }

    fn name(&self) -> Result<SocketAddr> {
        let id = self.id().ok_or(Errno::EADDRNOTAVAIL)?;
        Ok(id.local_addr()?.into())
    }

    fn private_data_limit(&self) -> usize {
        let limits = |protocol| CmFormat::new(self.core.raw_cm_data.get()).limits(protocol);
        match self.fabric.protocol {
            Some(protocol) => limits(protocol).reject,
            // Requests may arrive on devices of any kind.
            None => limits(Protocol::Iwarp)
                .reject
                .min(limits(Protocol::InfiniBand).reject),
        }
    }

    fn getopt(&self, option: EpOption) -> Result<usize> {
        self.core.getopt(option)
    }

    fn setopt(&self, option: EpOption, value: usize) -> Result {
        self.core.setopt(option, value)
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
            .connreqs
            .reject_for_listener(self.core.listener_id);
        let events = self.state.lock().listen.eq.take();
        drop(events);
    }
}
