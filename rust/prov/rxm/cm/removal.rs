// SPDX-License-Identifier: GPL-2.0

//! Device removal. Connections through the device get events of the lower provider. Those on the same host would go
//! on, and their consumers would not close them, so they are closed as well.

use super::super::{
    ep_core::EpCore,
    lower::Route, //
};
use crate::fi::{
    domain::Domain,
    eq::{
        Attr,
        EventHandler,
        EventQueue,
        ReservedEvent,
        Source, //
    },
    fabric::Fabric,
    prelude::*,
    wait::Budget, //
};

#[derive(Default)]
struct Inner {
    is_removed: bool,
    cores: KVec<Arc<EpCore>>,
    /// Event for the consumer of the domain.
    event: Option<ReservedEvent>,
}

/// Endpoints that are called when the device of a domain is removed.
#[pin_data]
pub(in super::super) struct RemovalList {
    #[pin]
    inner: Mutex<Inner>,
}

/// Event handler of a domain's removal.
pub(in super::super) struct RemovalWatch {
    _events: EventHandler,
    pub(in super::super) removal_list: Arc<RemovalList>,
}

impl RemovalWatch {
    /// Watches the device of `domain`, which is of `fabric`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in super::super) fn new(
        here: ProcessContext,
        fabric: &Arc<Fabric>,
        domain: &Domain,
    ) -> Result<Self> {
        let removal_list = Arc::pin_init(
            pin_init!(RemovalList {
                inner <- new_mutex!(Inner::default(), "kofi::rxm::RemovalList"),
            }),
            GFP_KERNEL,
        )?;
        let list = removal_list.clone();
        let handler = move |here: ProcessContext, events: &Arc<EventQueue>| {
            while events.next(here, &mut Budget::from_millis(0)).is_ok() {
                list.device_removed();
            }
        };
        let events = EventHandler::open(here, fabric, Attr::default(), handler)?;
        domain.bind_eq(&events, Source(0), 0)?;
        Ok(Self {
            _events: events,
            removal_list,
        })
    }
}

impl RemovalList {
    /// Adds an endpoint, until it is [removed](Self::remove). May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(in super::super) fn add(&self, core: &Arc<EpCore>) -> Result {
        let mut inner = self.inner.lock();
        inner.cores.push(core.clone(), GFP_KERNEL)?;
        let is_removed = inner.is_removed;
        drop(inner);
        if is_removed {
            core.device_removed();
        }
        Ok(())
    }

    /// Removes an endpoint. May sleep.
    pub(in super::super) fn remove(&self, core: &EpCore) {
        let mut inner = self.inner.lock();
        let is = |there: &Arc<EpCore>| core::ptr::eq(&**there, core);
        let at = inner.cores.iter().position(is);
        let gone = at.and_then(|at| inner.cores.remove(at).ok());
        drop(inner);
        drop(gone);
    }

    /// Sets or clears the consumer's event. May sleep.
    pub(in super::super) fn set_event(&self, notice: Option<ReservedEvent>) {
        let mut inner = self.inner.lock();
        let old = core::mem::replace(&mut inner.event, notice);
        let notice = match inner.is_removed {
            true => inner.event.take(),
            false => None,
        };
        drop(inner);
        drop(old);
        if let Some(notice) = notice {
            notice.write();
        }
    }

    /// Handles the removal of the device.
    fn device_removed(&self) {
        let mut inner = self.inner.lock();
        inner.is_removed = true;
        for core in inner.cores.iter() {
            core.device_removed();
        }
        let event = inner.event.take();
        drop(inner);
        if let Some(notice) = event {
            notice.write();
        }
    }
}

impl EpCore {
    /// Closes the connections on the same host; no other is established any more.
    fn device_removed(&self) {
        let mut cm = self.cm.lock();
        cm.is_device_removed = true;
        self.for_each_peer(|state, _, peer_idx| {
            let conn = state.conn(peer_idx);
            if let Some(conn) = conn.filter(|conn| conn.lower.route == Route::Local) {
                let conn_gen = conn.conn_gen;
                state.schedule_disconnect(peer_idx, conn_gen);
            }
        });
        drop(cm);
        if let Ok(bound) = self.bound() {
            bound.schedule_cm_work();
        }
    }
}
