// SPDX-License-Identifier: GPL-2.0

//! Scalable endpoints: a station whose contexts come and go, each an endpoint of one direction.

use super::{
    domain::Domain,
    endpoint::{
        Endpoint,
        Role, //
    },
    offer,
    office::Size,
    station::{
        Mover,
        Station, //
    },
    sw_cq::ProgressHandle, //
};
use crate::{
    abi::{
        KOFI_STATE_ENABLED,
        KOFI_STATE_OPEN,
        KOFI_VALUE_RX_CTXS,
        KOFI_VALUE_TX_CTXS, //
    },
    fi::{
        av::AddressVector,
        prelude::*,
        provider::{
            self,
            ContextIndex,
            EpOption, //
        },
    },
    util::context, //
};

/// A scalable endpoint.
#[pin_data]
pub(super) struct Scalable {
    station: Arc<Station>,
    /// Moves the station's packets, for all contexts.
    mover: Arc<ProgressHandle>,
    /// That of each context which receives.
    size: Size,
    /// How many contexts send, and how many receive.
    contexts: [usize; 2],
    /// What addresses look like, where none is given to listen at.
    format: u32,
    /// What is bound, kept open until the endpoint is closed.
    #[pin]
    holds: Mutex<Option<ChildRef<AddressVector>>>,
}

impl Scalable {
    /// Makes one. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an info that is not of `domain`, or more than is offered; -FI_ENOMEM.
    pub(super) fn new(domain: Arc<Domain>, info: &Info) -> Result<Arc<Self>> {
        let is_shared = offer::uses_shared_rx(info) || offer::shares_transmits(info);
        let contexts = offer::contexts(info).filter(|_| !is_shared);
        let contexts = contexts.ok_or(Errno::EINVAL)?;
        let size = Size::of(info)?;
        let station = Station::new(domain, info, contexts, size)?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                mover: Mover::of(&station)?,
                station,
                size,
                contexts,
                format: info.addr_format(),
                holds <- new_mutex!(None, "kofi::rdm::Scalable"),
            }? Errno),
            GFP_KERNEL,
        )?)
    }
}

impl provider::ScalableEndpoint for Scalable {
    fn context_counts(&self) -> [usize; 2] {
        self.contexts
    }

    fn enable(self: Arc<Self>, addresses: ChildRef<AddressVector>) -> Result {
        let here = context::in_process()?;
        self.station.begin(here, addresses.arc(), self.format)?;
        *self.holds.lock() = Some(addresses);
        Ok(())
    }

    fn context(
        self: Arc<Self>,
        which: ContextIndex,
        info: &Info,
    ) -> Result<Arc<dyn provider::Endpoint>> {
        let (role, index) = match which {
            ContextIndex::Transmit(index) => (Role::Transmits, index),
            ContextIndex::Receive(index) => (Role::Receives, index),
        };
        let index = u8::try_from(index).map_err(|_| Errno::EINVAL)?;
        let (station, mover) = (self.station.clone(), self.mover.clone());
        let context: Arc<dyn provider::Endpoint> =
            Endpoint::part((station, mover), (role, index), info, self.size)?;
        Ok(context)
    }

    fn getopt(&self, setting: EpOption) -> Result<usize> {
        self.station.setting(setting)
    }

    fn setopt(&self, setting: EpOption, value: usize) -> Result {
        self.station.set(setting, value)
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        self.station.set_name(addr)
    }

    fn name(&self) -> Result<SocketAddr> {
        self.station.name()
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        out.set_state(match self.station.bound() {
            Ok(_) => KOFI_STATE_ENABLED,
            Err(_) => KOFI_STATE_OPEN,
        });
        let [transmits, receives] = self.contexts;
        out.add_value(KOFI_VALUE_TX_CTXS, transmits as u64);
        out.add_value(KOFI_VALUE_RX_CTXS, receives as u64);
        self.station.tell(out);
    }

    fn close(&self) {
        let held = self.holds.lock().take();
        if held.is_some() {
            // Contexts have given back what was theirs.
            self.station.end(&mut |_| {});
        }
    }
}
