// SPDX-License-Identifier: GPL-2.0

//! Parts of a passive endpoint that do not depend on its transport.
//!
//! The provider's mutex guards [`ListenState`]; [`PepCore`] takes no lock but its leaf for the address.

use super::{
    cm_data::RawCmData,
    hints::Hints, //
};
use crate::{
    abi::{
        addr::format_of,
        FI_ADDR_STR, //
    },
    fi::{
        eq::{
            Event,
            EventQueue,
            OwnedEvent,
            Source, //
        },
        info::Choices,
        introspect::{
            EndpointAddrs,
            Introspect, //
        },
        prelude::*,
        provider::EpOption, //
    },
};

/// Maximum number of pending requests, unless the consumer sets another.
const DEFAULT_BACKLOG: c_int = 128;

/// Event queue and backlog of a passive endpoint.
pub(crate) struct ListenState {
    /// Queue for connection requests, while the endpoint listens.
    pub(crate) eq: Option<ChildRef<EventQueue>>,
    /// Maximum number of pending requests; not negative.
    pub(crate) backlog: c_int,
}

impl ListenState {
    /// Returns the state of an endpoint that does not listen.
    pub(crate) const fn new() -> Self {
        Self {
            eq: None,
            backlog: DEFAULT_BACKLOG,
        }
    }

    /// Checks that the endpoint does not listen yet.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE.
    pub(crate) fn check_not_listening(&self) -> Result {
        self.eq.is_none().then_some(()).ok_or(Errno::EOPBADSTATE)
    }

    /// Sets the backlog.
    ///
    /// # Errors
    ///
    /// -FI_EOPBADSTATE if the endpoint listens, -FI_EINVAL for a negative backlog.
    pub(crate) fn set_backlog(&mut self, backlog: c_int) -> Result {
        self.check_not_listening()?;
        if backlog < 0 {
            return Err(Errno::EINVAL);
        }
        self.backlog = backlog;
        Ok(())
    }
}

/// Attributes and introspection of a passive endpoint.
#[pin_data]
pub(crate) struct PepCore {
    /// Source of the endpoint's events.
    pub(crate) source: Source,
    /// Number by which its requests refer to it: several listeners may have one source.
    pub(crate) listener_id: usize,
    /// Hints from the endpoint's info, for the infos of its requests.
    pub(crate) hints: Hints,
    choices: Choices,
    addr_format: u32,
    /// Address of the endpoint, for introspection.
    #[pin]
    addrs: EndpointAddrs,
    is_listening: AtomicFlag,
    /// Set if private data of requests and rejections has no length byte.
    pub(crate) raw_cm_data: RawCmData,
}

impl PepCore {
    /// Returns the core of an endpoint with this info.
    pub(crate) fn new(info: &Info, source: Source, listener_id: usize) -> impl PinInit<Self> {
        let hints = Hints::from_info(Some(info));
        let (choices, addr_format) = (Choices::from_info(info), info.addr_format());
        pin_init!(Self {
            source,
            listener_id,
            hints,
            choices,
            addr_format,
            addrs <- EndpointAddrs::new(None, None),
            is_listening: AtomicFlag::new(false),
            raw_cm_data: RawCmData::new(false),
        })
    }

    /// Completes the info of a connection request, and allocates its event. May sleep.
    pub(crate) fn prepare_connreq(
        &self,
        info: &mut Info,
        net: &Namespace,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<OwnedEvent> {
        self.choices.apply(info)?;
        info.set_net(net);
        let format = match self.addr_format {
            FI_ADDR_STR => FI_ADDR_STR,
            _ => format_of(&peer),
        };
        info.set_addresses(format, Some(&local), Some(&peer))?;
        Event::alloc(self.source)
    }

    /// Implements `fi_getopt()`: -FI_ENOPROTOOPT for an option of active endpoints. Any context.
    pub(crate) fn getopt(&self, option: EpOption) -> Result<usize> {
        match option {
            EpOption::CmDataRaw => Ok(self.raw_cm_data.get().into()),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    /// Implements `fi_setopt()`, for requests that arrive later. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::getopt`]; -FI_EINVAL for an invalid value.
    pub(crate) fn setopt(&self, option: EpOption, value: usize) -> Result {
        self.getopt(option)?;
        self.raw_cm_data.set(value)
    }

    /// Sets the address for introspection.
    pub(crate) fn set_local_addr(&self, addr: SocketAddr) {
        self.addrs.set_local(addr);
    }

    /// Sets whether the endpoint listens, for introspection.
    pub(crate) fn set_listening(&self, is_listening: bool) {
        self.is_listening.store(is_listening, Relaxed);
    }
}

impl Introspect for PepCore {
    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        info.set_state(match self.is_listening.load(Relaxed) {
            true => abi::KOFI_STATE_LISTENING,
            false => abi::KOFI_STATE_OPEN,
        });
        self.addrs.fill_info(info);
    }
}
