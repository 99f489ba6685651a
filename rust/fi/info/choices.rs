// SPDX-License-Identifier: GPL-2.0

//! The choices of a consumer among the offered attributes, and the sizes of its queues.

use super::{
    super::mr,
    caps_or_all,
    context_caps,
    limit_caps, //
};
use crate::{
    abi::{
        fi_domain_attr,
        flags::*,
        VERSION, //
    },
    fi::prelude::*, //
};

/// Queue depth of an endpoint whose hints name none.
const DEFAULT_DEPTH: usize = 256;

/// Default inject size in bytes. Every send queue entry has space for the inject size.
const DEFAULT_INJECT: usize = 64;

/// The consumer's choices among the offered attributes: taken from the hints of `fi_getinfo()`, or from a
/// listener's info for its connection requests.
#[derive(Clone, Copy)]
pub struct Choices {
    pub(super) caps: u64,
    pub(super) version: u32,
    mr_mode: c_int,
    threading: c_uint,
    av_type: c_uint,
    control_progress: c_uint,
    data_progress: c_uint,
    transmit_caps: u64,
    receive_caps: u64,
    transmit_flags: u64,
    receive_flags: u64,
    tclass: u32,
    domain_tclass: u32,
    sizes: Sizes,
}

impl Choices {
    /// Reads the choices from an info. No capabilities or modes in it mean all of them.
    pub fn from_info(info: &Info) -> Self {
        let domain = info.domain();
        Self {
            caps: caps_or_all(info.caps()),
            version: info.fabric().map_or(VERSION, |fabric| fabric.api_version),
            mr_mode: domain.map_or(0, |domain| domain.mr_mode),
            threading: domain.map_or(0, |domain| domain.threading),
            av_type: domain.map_or(0, |domain| domain.av_type),
            control_progress: domain.map_or(0, |domain| domain.control_progress),
            data_progress: domain.map_or(0, |domain| domain.data_progress),
            transmit_caps: info.tx().map_or(0, |tx| tx.caps),
            receive_caps: info.rx().map_or(0, |rx| rx.caps),
            transmit_flags: info.tx().map_or(0, |tx| tx.op_flags),
            receive_flags: info.rx().map_or(0, |rx| rx.op_flags),
            tclass: info.tx().map_or(0, |tx| tx.tclass),
            domain_tclass: domain.map_or(0, |domain| domain.tclass),
            sizes: Sizes::from_info(info),
        }
    }

    /// Narrows a complete offer down to the choices. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an offer without attributes.
    pub fn apply(&self, offer: &mut Info) -> Result {
        // The consumer's choice, if it made one, else the offered value. The choice is reported although the
        // provider does more: automatic progress also serves a consumer of manual progress, and a thread-safe
        // provider any threading model.
        limit_caps(offer, self.caps)?;
        offer.set_api_version(self.version)?;
        if let Some(domain) = offer.domain().copied() {
            offer.set_domain(&fi_domain_attr {
                caps: domain.caps & self.caps,
                mr_mode: mr::narrow_mode(domain.mr_mode, self.mr_mode),
                threading: or_default(self.threading, domain.threading),
                av_type: or_default(self.av_type, domain.av_type),
                control_progress: or_default(self.control_progress, domain.control_progress),
                data_progress: or_default(self.data_progress, domain.data_progress),
                tclass: or_default(self.domain_tclass, domain.tclass),
                ..domain
            })?;
        }
        self.sizes.apply(offer)?;
        let tx = offer.tx_mut()?;
        tx.caps = context_caps(tx.caps, self.transmit_caps);
        tx.op_flags &= self.transmit_flags;
        tx.tclass = or_default(self.tclass, tx.tclass);
        let rx = offer.rx_mut()?;
        rx.caps = context_caps(rx.caps, self.receive_caps);
        rx.op_flags = (rx.op_flags | rx.caps & FI_MULTI_RECV) & self.receive_flags;
        Ok(())
    }
}

/// Returns the requested value, or `default` if that is 0, which each enumeration has for no request.
pub(super) fn or_default<T: PartialEq + Default>(asked: T, default: T) -> T {
    if asked == T::default() {
        default
    } else {
        asked
    }
}

/// The sizes of an endpoint's queues. A consumer that requests less than the maximum gets no more, since
/// unused entries cost memory and time.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    transmit: usize,
    receive: usize,
    transmit_vector: usize,
    receive_vector: usize,
    inject: usize,
}

impl Sizes {
    /// Moderate depths and inject size, and the maximum vector lengths.
    pub(super) const DEFAULT: Self = Self {
        transmit: DEFAULT_DEPTH,
        receive: DEFAULT_DEPTH,
        transmit_vector: usize::MAX,
        receive_vector: usize::MAX,
        inject: DEFAULT_INJECT,
    };

    /// Returns the sizes that an info requests, and defaults for the others.
    fn from_info(info: &Info) -> Self {
        let mut sizes = Self::DEFAULT;
        if let Some(tx) = info.tx() {
            sizes.transmit = or_default(tx.size, sizes.transmit);
            sizes.transmit_vector = or_default(tx.iov_limit, sizes.transmit_vector);
            sizes.inject = or_default(tx.inject_size, sizes.inject);
        }
        if let Some(rx) = info.rx() {
            sizes.receive = or_default(rx.size, sizes.receive);
            sizes.receive_vector = or_default(rx.iov_limit, sizes.receive_vector);
        }
        sizes
    }

    /// Limits the sizes of an offer, which has the device's maxima.
    pub(super) fn apply(self, offer: &mut Info) -> Result {
        let tx = offer.tx_mut()?;
        tx.size = tx.size.min(self.transmit);
        tx.iov_limit = tx.iov_limit.min(self.transmit_vector);
        tx.inject_size = tx.inject_size.min(self.inject);
        let rx = offer.rx_mut()?;
        rx.size = rx.size.min(self.receive);
        rx.iov_limit = rx.iov_limit.min(self.receive_vector);
        Ok(())
    }
}
