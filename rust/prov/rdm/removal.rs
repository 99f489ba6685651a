// SPDX-License-Identifier: GPL-2.0

//! The device goes away. Connections that go by it are told below; those on the same host would go on, and
//! their consumers never hear that they are to close: they end with the others.

use super::station::Station;
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
    is_gone: bool,
    stations: KVec<Arc<Station>>,
    /// What the consumer of the domain is told.
    farewell: Option<ReservedEvent>,
}

/// Who is told when the device of a domain goes away.
#[pin_data]
pub(super) struct Watchers {
    #[pin]
    inner: Mutex<Inner>,
}

/// That they are.
pub(super) struct Watch {
    _events: EventHandler,
    pub(super) watchers: Arc<Watchers>,
}

impl Watch {
    /// Watches the device of `domain`, which is of `fabric`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(here: ProcessContext, fabric: &Arc<Fabric>, domain: &Domain) -> Result<Self> {
        let watchers = Arc::pin_init(
            pin_init!(Watchers {
                inner <- new_mutex!(Inner::default(), "kofi::rdm::Watchers"),
            }),
            GFP_KERNEL,
        )?;
        let told = watchers.clone();
        let handler = move |here: ProcessContext, events: &Arc<EventQueue>| {
            while events.next(here, &mut Budget::from_millis(0)).is_ok() {
                told.tell();
            }
        };
        let events = EventHandler::open(here, fabric, Attr::default(), handler)?;
        domain.bind_eq(&events, Source(0), 0)?;
        Ok(Self {
            _events: events,
            watchers,
        })
    }
}

impl Watchers {
    /// Has a station told, until it is [removed](Self::remove). May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn add(&self, station: &Arc<Station>) -> Result {
        let mut inner = self.inner.lock();
        inner.stations.push(station.clone(), GFP_KERNEL)?;
        let is_gone = inner.is_gone;
        drop(inner);
        if is_gone {
            station.lose_device();
        }
        Ok(())
    }

    /// Has it told no more. May sleep.
    pub(super) fn remove(&self, station: &Station) {
        let mut inner = self.inner.lock();
        let is = |there: &Arc<Station>| core::ptr::eq(&**there, station);
        let at = inner.stations.iter().position(is);
        let gone = at.and_then(|at| inner.stations.remove(at).ok());
        drop(inner);
        drop(gone);
    }

    /// Has the consumer told so, or not any more. May sleep.
    pub(super) fn set_farewell(&self, notice: Option<ReservedEvent>) {
        let mut inner = self.inner.lock();
        let old = core::mem::replace(&mut inner.farewell, notice);
        let notice = match inner.is_gone {
            true => inner.farewell.take(),
            false => None,
        };
        drop(inner);
        drop(old);
        if let Some(notice) = notice {
            notice.write();
        }
    }

    /// It goes away.
    fn tell(&self) {
        let mut inner = self.inner.lock();
        inner.is_gone = true;
        for station in inner.stations.iter() {
            station.lose_device();
        }
        let farewell = inner.farewell.take();
        drop(inner);
        if let Some(notice) = farewell {
            notice.write();
        }
    }
}

impl Station {
    /// Ends the connections on the same host; there will be no others.
    fn lose_device(&self) {
        let mut links = self.links.lock();
        links.is_deviceless = true;
        self.traffic.lock().break_off_local();
        drop(links);
        if let Ok(bound) = self.bound() {
            bound.kick();
        }
    }
}
