// SPDX-License-Identifier: GPL-2.0

//! `fi_getinfo()`: matches the consumer's hints with the providers' offers.
//!
//! A provider describes each device once, with all capabilities and maximum sizes. The rules by which hints
//! narrow such an offer are common to all providers: see [`narrow`].

mod choices;
mod fit;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use super::{
    domain::{
        Domain,
        Scope, //
    },
    fabric::Fabric,
    mr,
    provider::Provider, //
};
use crate::{
    abi::{
        flags::*,
        info::InfoList,
        VERSION, //
    },
    fi::prelude::*, //
};

pub use choices::Choices;
use choices::{
    or_default,
    Sizes, //
};
pub(super) use fit::is_subset;
use fit::{
    choose_format,
    fits, //
};

/// The parameters of a query.
pub struct Query<'a> {
    /// Numeric address, if any.
    pub node: Option<&'a CStr>,
    /// Numeric port, if any.
    pub service: Option<&'a CStr>,
    /// FI_SOURCE: node and service name the local address, not the peer's.
    pub source: bool,
    /// Requirements of the consumer.
    pub hints: Option<&'a Info>,
    /// Network namespace to search; `None` for the initial one.
    pub net: Option<&'a Namespace>,
}

impl<'a> Query<'a> {
    /// Returns the network namespace to search.
    pub fn net(&self) -> &'a Namespace {
        self.net.unwrap_or(Namespace::init())
    }
}

/// An open fabric, and optionally an open domain of it, that restrict an offer.
#[derive(Clone, Copy)]
pub struct OpenObjects<'a> {
    fabric: &'a Fabric,
    domain: Option<&'a Scope>,
}

impl<'a> OpenObjects<'a> {
    /// Restricts an offer to what can be opened from `fabric`.
    pub fn fabric(fabric: &'a Fabric) -> Self {
        Self {
            fabric,
            domain: None,
        }
    }

    /// Restricts an offer to the endpoints of `domain`.
    pub fn domain(domain: &'a Domain) -> Self {
        Self::scope(domain.fabric(), Some(domain.scope()))
    }

    /// Restricts an offer to what can be opened from `fabric`, in the domain with that scope.
    pub(crate) fn scope(fabric: &'a Fabric, domain: Option<&'a Scope>) -> Self {
        Self { fabric, domain }
    }

    /// Returns whether an offer can be opened from the fabric and in the domain.
    pub(crate) fn accepts(&self, offer: &Info) -> bool {
        let fabric = self.fabric;
        offer.provider_name() == Some(fabric.provider)
            && offer.is_in_net(&fabric.net)
            && (fabric.name.is_none() || offer.fabric_name() == fabric.name.as_deref())
            && self.domain.is_none_or(|domain| domain.accepts(offer))
    }

    /// Returns the hints of a query, restricted to the names of the open objects; none if the hints or the
    /// namespace of the query conflict with them.
    fn restrict_hints(&self, query: &Query<'_>) -> Result<Option<KBox<Info>>> {
        if query.net.is_some_and(|net| *net != *self.fabric.net) {
            return Ok(None);
        }
        let mut restricted = match query.hints {
            Some(hints) => hints.duplicate()?,
            None => Info::new()?,
        };
        restricted.alloc_attrs()?;
        let fabric = self.fabric;
        let is_else = |asked: Option<&CStr>, open: &CStr| asked.is_some_and(|asked| asked != open);
        if is_else(restricted.provider_name(), fabric.provider) {
            return Ok(None);
        }
        restricted.set_provider_name(fabric.provider)?;
        if let Some(name) = fabric.name.as_deref() {
            if is_else(restricted.fabric_name(), name) {
                return Ok(None);
            }
            restricted.set_fabric_name(name)?;
        }
        if let Some(domain) = self.domain {
            if !domain.restrict(&mut restricted)? {
                return Ok(None);
            }
        }
        Ok(Some(restricted))
    }
}

/// Primary capabilities: granted only on request.
const PRIMARY: u64 = PRIMARY_CAPS.mask();

/// Secondary capabilities: granted without a request unless they have a cost.
const SECONDARY: u64 = SECONDARY_CAPS.mask();

/// Capabilities of every domain: the core, not the provider, implements address vectors and the peer interface.
pub const CORE_CAPS: u64 = FI_AV_USER_ID | FI_SHARED_AV | FI_PEER;

/// Scopes of communication: both are granted unless only one is requested.
const COMM_SCOPES: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;

/// Capabilities that are granted only if the hints name them: FI_SOURCE_ERR reports messages from unknown sources as
/// errors, FI_COLLECTIVE doubles the receives of an endpoint, with FI_REMOTE_SIGNAL readers sleep through other
/// messages, and with FI_TAGGED_RMA peers may read the memory of tagged receives.
const ON_REQUEST: u64 = FI_SOURCE_ERR | FI_COLLECTIVE | FI_REMOTE_SIGNAL | FI_TAGGED_RMA;

/// Secondary capability with a cost per message: granted if the hints name it, FI_SOURCE_ERR, or no
/// capabilities at all.
const COSTS_PER_MESSAGE: u64 = FI_SOURCE;

/// Modifiers: all are granted if none is requested.
const DIRECTIONS: u64 = MODIFIERS.mask();

/// Implements `fi_getinfo()`, optionally restricted to an open object by `within`. May sleep; needs no lock.
///
/// # Errors
///
/// -FI_ENODATA when nothing matches, -FI_ENOSYS for an API version newer than kOFI's, -FI_EBADFLAGS for
/// unknown flags or capabilities, -FI_EINVAL, -FI_ENOMEM.
pub fn getinfo(
    providers: &[&'static dyn Provider],
    version: u32,
    flags: u64,
    query: &Query<'_>,
    within: Option<OpenObjects<'_>>,
) -> Result<InfoList> {
    Errno::ENOSYS.when(version > VERSION)?;
    Errno::EBADFLAGS.when(!GETINFO.contains(flags))?;
    let has_address = query.node.is_some() || query.service.is_some();
    Errno::EINVAL.when(flags & FI_SOURCE != 0 && !has_address)?;
    let caps = query.hints.map_or(0, all_caps);
    Errno::EBADFLAGS.when(!CAPS.contains(caps))?;
    let Some(within) = within else {
        return search(providers, version, query);
    };
    let hints = within.restrict_hints(query)?.ok_or(Errno::ENODATA)?;
    let query = Query {
        hints: Some(&hints),
        net: Some(&within.fabric.net),
        ..*query
    };
    let mut found = search(providers, version, &query)?;
    if let Some(domain) = within.domain {
        found.retain(|offer| domain.has_same_addressing(offer));
    }
    Errno::ENODATA.when(found.is_empty())?;
    Ok(found)
}

/// Collects the offers of all providers that match the query, narrowed to it.
fn search(
    providers: &[&'static dyn Provider],
    version: u32,
    query: &Query<'_>,
) -> Result<InfoList> {
    let mut found = InfoList::new();
    for provider in providers {
        let mut offers = InfoList::new();
        provider.getinfo(query, &mut offers)?;
        for mut offer in offers.drain_all() {
            if narrow(&mut offer, query.hints, version)? {
                offer.set_net(query.net());
                found.push(offer, GFP_KERNEL)?;
            }
        }
    }
    Errno::ENODATA.when(found.is_empty())?;
    Ok(found)
}

/// Returns the union of all fields of capabilities.
fn all_caps(info: &Info) -> u64 {
    info.caps()
        | info.tx().map_or(0, |tx| tx.caps)
        | info.rx().map_or(0, |rx| rx.caps)
        | info.domain().map_or(0, |domain| domain.caps)
}

/// Narrows an offer to the hints; returns false if the offer does not match them.
fn narrow(offer: &mut Info, hints: Option<&Info>, version: u32) -> Result<bool> {
    let Some(hints) = hints else {
        offer.set_api_version(version)?;
        limit_caps(offer, !ON_REQUEST)?;
        Sizes::DEFAULT.apply(offer)?;
        // An offer has the operation flags that can be requested. Without hints none is, and the endpoint has
        // no default flags.
        offer.tx_mut()?.op_flags = 0;
        offer.rx_mut()?.op_flags = 0;
        return Ok(true);
    };
    let Some((caps, format)) = choose(offer, hints, version) else {
        return Ok(false);
    };
    let (src, dest) = offer.addresses()?;
    offer.set_addresses(format, src.as_ref(), dest.as_ref())?;
    let mut choices = Choices::from_info(hints);
    (choices.caps, choices.version) = (caps, version);
    choices.apply(offer)?;
    Ok(true)
}

/// Returns the capabilities and the address format to report; `None` if the offer does not match the hints.
fn choose(offer: &Info, hints: &Info, version: u32) -> Option<(u64, u32)> {
    let caps = choose_caps(offer.caps(), hints.caps())?;
    let format = choose_format(offer.addr_format(), hints.addr_format())?;
    let mr_mode = |info: &Info| info.domain().map_or(0, |domain| domain.mr_mode);
    mr::choose_mode(mr_mode(offer), mr_mode(hints), caps)?;
    fits(offer, hints, version).then_some((caps, format))
}

/// Returns the requested capabilities; all if none are requested.
pub(super) fn caps_or_all(asked: u64) -> u64 {
    match asked {
        0 => u64::MAX,
        caps => caps,
    }
}

/// Removes all capabilities but `caps` from an offer.
pub(super) fn limit_caps(offer: &mut Info, caps: u64) -> Result {
    offer.set_caps(offer.caps() & caps);
    offer.tx_mut()?.caps &= caps;
    offer.rx_mut()?.caps &= caps;
    Ok(())
}

/// Returns the capabilities to grant; `None` if the offer lacks a requested one.
fn choose_caps(offered: u64, asked: u64) -> Option<u64> {
    if asked == 0 {
        return Some(offered & !ON_REQUEST);
    }
    if asked & !offered != 0 {
        return None;
    }
    let asked_or_all = |bits: u64| or_default(asked & bits, offered & bits & !ON_REQUEST);
    let (modifiers, primary) = (asked_or_all(DIRECTIONS), asked_or_all(PRIMARY));
    let implied = match asked & FI_SOURCE_ERR {
        0 => 0,
        _ => FI_SOURCE,
    };
    let unwanted = match asked & COMM_SCOPES {
        0 => 0,
        some => COMM_SCOPES & !some,
    };
    let secondary =
        offered & SECONDARY & !unwanted & (asked | implied | !(ON_REQUEST | COSTS_PER_MESSAGE));
    Some(primary | modifiers | secondary)
}

/// Returns the capabilities of a transmit or receive context: the requested ones among the offered ones, or
/// all if none is requested. Secondary capabilities stay.
fn context_caps(offered: u64, asked: u64) -> u64 {
    let asked_or_all = |bits: u64| or_default(offered & asked & bits, offered & bits);
    asked_or_all(PRIMARY) | asked_or_all(DIRECTIONS) | offered & !(PRIMARY | DIRECTIONS)
}

/// Returns the requested size of at most `max`; 0 requests `default`.
///
/// # Errors
///
/// -FI_EINVAL for a request over `max`.
pub(crate) fn size_within(requested: usize, max: usize, default: usize) -> Result<usize> {
    match requested {
        0 => Ok(default),
        requested if requested <= max => Ok(requested),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns whether the hints select primary capabilities of `caps`. Hints that name none select all.
pub fn selects_caps(hints: Option<&Info>, caps: u64) -> bool {
    match hints.map_or(0, |hints| hints.caps() & PRIMARY) {
        0 => true,
        named => named & caps != 0,
    }
}
