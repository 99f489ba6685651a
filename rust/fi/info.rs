// SPDX-License-Identifier: GPL-2.0

//! `fi_getinfo()`: matches the consumer's hints with the providers' offers.
//!
//! A provider describes each device once, with all capabilities and maximum sizes. The rules by which hints
//! narrow such an offer are common to all providers: see [`narrow`].

use super::{
    domain::{
        Domain,
        Scope, //
    },
    fabric::Fabric,
    mr,
    provider::Provider,
    tclass, //
};
use crate::{
    abi::{
        fi_domain_attr,
        flags::*,
        info::InfoList,
        VERSION, //
    },
    fi::prelude::*, //
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

/// Queue depth of an endpoint whose hints name none.
const DEFAULT_DEPTH: usize = 256;

/// Default inject size in bytes. Every send queue entry has room for the inject size.
const DEFAULT_INJECT: usize = 64;

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
    // A mode of a provider is a requirement on the consumer, which must have accepted it.
    let fits = offer.mode() & !hints.mode() == 0
        && tx_fits(offer, hints)
        && rx_fits(offer, hints)
        && ep_fits(offer, hints)
        && domain_fits(offer, hints)
        && fabric_fits(offer, hints, version);
    fits.then_some((caps, format))
}

/// The consumer's choices among the offered attributes: taken from the hints of `fi_getinfo()`, or from a
/// listener's info for its connection requests.
#[derive(Clone, Copy)]
pub struct Choices {
    caps: u64,
    version: u32,
    mr_mode: c_int,
    threading: c_uint,
    av_type: c_uint,
    control_progress: c_uint,
    data_progress: c_uint,
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
        tx.op_flags &= self.transmit_flags;
        tx.tclass = or_default(self.tclass, tx.tclass);
        let rx = offer.rx_mut()?;
        rx.op_flags = (rx.op_flags | rx.caps & FI_MULTI_RECV) & self.receive_flags;
        Ok(())
    }
}

/// Returns the requested value, or `default` if that is 0, which each enumeration has for no request.
fn or_default<T: PartialEq + Default>(asked: T, default: T) -> T {
    if asked == T::default() {
        default
    } else {
        asked
    }
}

/// The sizes of an endpoint's queues. A consumer that requests less than the maximum gets no more, since
/// unused entries cost memory and time.
#[derive(Clone, Copy)]
struct Sizes {
    transmit: usize,
    receive: usize,
    transmit_vector: usize,
    receive_vector: usize,
    inject: usize,
}

impl Sizes {
    /// Moderate depths and inject size, and the maximum vector lengths.
    const DEFAULT: Self = Self {
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
    fn apply(self, offer: &mut Info) -> Result {
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

/// Returns the address format to report; `None` if the offer's addresses do not have the requested one.
fn choose_format(offered: u32, asked: u32) -> Option<u32> {
    const ANY: u32 = abi::FI_FORMAT_UNSPEC;
    const SOCKADDR: u32 = abi::FI_SOCKADDR;
    match (offered, asked) {
        (format, ANY | SOCKADDR) => Some(format),
        (SOCKADDR, abi::FI_SOCKADDR_IN | abi::FI_SOCKADDR_IN6) => Some(asked),
        (SOCKADDR | abi::FI_SOCKADDR_IN | abi::FI_SOCKADDR_IN6, abi::FI_ADDR_STR) => Some(asked),
        (format, asked) if format == asked => Some(format),
        _ => None,
    }
}

/// Returns true if the offered value is at least the requested one; a request of 0 is a wildcard.
fn is_at_least(offered: usize, asked: usize) -> bool {
    asked <= offered
}

/// Returns true if each size that is named is offered in at least the requested amount.
macro_rules! covers {
    ($have:ident, $want:ident; $($size:ident)*) => {
        $(is_at_least($have.$size, $want.$size))&&*
    };
}

/// Returns true if the values are equal; a request of 0 is a wildcard.
fn is_same(offered: u32, asked: u32) -> bool {
    asked == 0 || asked == offered
}

/// Returns true if every requested bit is offered.
pub(super) fn is_subset(offered: u64, asked: u64) -> bool {
    asked & !offered == 0
}

fn is_same_name(offered: Option<&CStr>, asked: Option<&CStr>) -> bool {
    asked.is_none() || asked == offered
}

fn tx_fits(offer: &Info, hints: &Info) -> bool {
    let (Some(have), Some(want)) = (offer.tx(), hints.tx()) else {
        return true;
    };
    is_subset(have.caps | SECONDARY, want.caps)
        && have.mode & !(hints.mode() | want.mode) == 0
        && is_subset(have.op_flags, want.op_flags)
        && is_subset(have.msg_order, want.msg_order)
        && is_subset(have.comp_order, want.comp_order)
        && covers!(have, want; inject_size size iov_limit rma_iov_limit)
        && tclass::type_of_service(want.tclass).is_ok()
}

fn rx_fits(offer: &Info, hints: &Info) -> bool {
    let (Some(have), Some(want)) = (offer.rx(), hints.rx()) else {
        return true;
    };
    is_subset(have.caps | SECONDARY, want.caps)
        && have.mode & !(hints.mode() | want.mode) == 0
        && is_subset(have.op_flags | have.caps & FI_MULTI_RECV, want.op_flags)
        && is_subset(have.msg_order, want.msg_order)
        && is_subset(have.comp_order, want.comp_order)
        && covers!(have, want; total_buffered_recv size iov_limit)
}

fn ep_fits(offer: &Info, hints: &Info) -> bool {
    let (Some(have), Some(want)) = (offer.ep(), hints.ep()) else {
        return true;
    };
    is_same(have.type_, want.type_)
        && is_same(have.protocol, want.protocol)
        && want.protocol_version <= have.protocol_version
        && covers!(have, want;
            max_msg_size max_order_raw_size max_order_war_size max_order_waw_size tx_ctx_cnt
            rx_ctx_cnt)
        && want.auth_key_size == 0
}

fn domain_fits(offer: &Info, hints: &Info) -> bool {
    let (Some(have), Some(want)) = (offer.domain(), hints.domain()) else {
        return true;
    };
    // Thread safety satisfies every threading model, and automatic progress every progress model.
    want.threading <= abi::FI_THREAD_ENDPOINT
        && want.av_type <= abi::FI_AV_TABLE
        && is_same_name(offer.domain_name(), hints.domain_name())
        && (have.av_type == abi::FI_AV_UNSPEC || is_same(have.av_type, want.av_type))
        && covers!(have, want;
            mr_key_size cq_data_size cq_cnt ep_cnt tx_ctx_cnt rx_ctx_cnt max_ep_tx_ctx
            max_ep_rx_ctx max_ep_stx_ctx max_ep_srx_ctx cntr_cnt mr_iov_limit max_err_data
            mr_cnt)
        && is_subset(have.caps, want.caps)
        && have.mode & !(hints.mode() | want.mode) == 0
        && want.auth_key_size == 0
        && tclass::type_of_service(want.tclass).is_ok()
}

fn fabric_fits(offer: &Info, hints: &Info, version: u32) -> bool {
    let Some(want) = hints.fabric() else {
        return true;
    };
    is_same_name(offer.fabric_name(), hints.fabric_name())
        && is_same_name(offer.provider_name(), hints.provider_name())
        && want.prov_version <= VERSION
        && want.api_version <= version.max(VERSION)
}

#[kunit_tests(kofi_fi_info)]
mod tests {
    use super::{
        super::{
            provider::{
                self,
                FabricAttr, //
            },
            tests::dummy_provider::{
                self,
                HERE, //
            },
        },
        *, //
    };
    use kernel::sync::Arc;

    /// A provider that offers two domains, under the name of the dummy provider.
    struct TwoDomains;

    impl Provider for TwoDomains {
        fn name(&self) -> &'static CStr {
            c"nothing"
        }

        fn getinfo(&self, _query: &Query<'_>, found: &mut InfoList) -> Result {
            for name in [c"first", c"second"] {
                let mut info = Info::new()?;
                info.set_provider_name(self.name())?;
                info.set_domain_name(name)?;
                found.push(info, GFP_KERNEL)?;
            }
            Ok(())
        }

        fn fabric(&self, _attr: &FabricAttr<'_>) -> Result<Arc<dyn provider::Fabric>> {
            Err(Errno::ENODATA)
        }
    }

    /// Returns the number of infos for `hints` and `open_objects`, if the first info is of domain `first`.
    fn count_infos(
        hints: Option<&Info>,
        open_objects: Option<OpenObjects<'_>>,
        first: &CStr,
    ) -> Result<usize> {
        let query = Query {
            node: None,
            service: None,
            source: false,
            hints,
            net: None,
        };
        let found = getinfo(&[&TwoDomains], VERSION, 0, &query, open_objects)?;
        match found.first().and_then(|info| info.domain_name()) {
            Some(name) if name == first => Ok(found.len()),
            _ => Err(Errno::EOTHER),
        }
    }

    #[test]
    fn info_16_open_object_restricts_the_infos() -> kernel::error::Result {
        let fabric = dummy_provider::fabric()?;
        let mut info = Info::new()?;
        info.set_domain_name(c"second")?;
        let domain = fabric.domain(HERE, &info)?;
        assert_eq!(count_infos(None, None, c"first"), Ok(2));
        assert_eq!(
            count_infos(None, Some(OpenObjects::fabric(&fabric)), c"first"),
            Ok(2)
        );
        let open_objects = Some(OpenObjects::domain(&domain));
        assert_eq!(count_infos(None, open_objects, c"second"), Ok(1));
        assert_eq!(count_infos(Some(&info), open_objects, c"second"), Ok(1));
        let mut hints = Info::new()?;
        hints.set_domain_name(c"first")?;
        assert_eq!(
            count_infos(Some(&hints), open_objects, c"first"),
            Err(Errno::ENODATA)
        );
        let mut hints = Info::new()?;
        hints.set_provider_name(c"another")?;
        assert_eq!(
            count_infos(Some(&hints), open_objects, c"second"),
            Err(Errno::ENODATA)
        );
        Ok(())
    }

    const OFFERED: u64 = FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM;

    #[test]
    fn info_08_primary_caps_are_granted_on_request_only() {
        assert_eq!(choose_caps(OFFERED | FI_RMA, FI_MSG), Some(OFFERED));
        assert_eq!(choose_caps(OFFERED, 0), Some(OFFERED));
        assert_eq!(choose_caps(OFFERED, FI_RMA), None);
    }

    #[test]
    fn info_08_source_err_is_granted_on_request_only() {
        let offered = OFFERED | FI_SOURCE | FI_SOURCE_ERR;
        assert_eq!(choose_caps(offered, FI_MSG), Some(OFFERED));
        assert_eq!(choose_caps(offered, 0), Some(OFFERED | FI_SOURCE));
        assert_eq!(choose_caps(offered, FI_SOURCE_ERR), Some(offered));
        assert_eq!(choose_caps(OFFERED, FI_SOURCE_ERR), None);
    }

    #[test]
    fn info_08_source_is_granted_on_request_only() {
        let offered = OFFERED | FI_SOURCE;
        assert_eq!(choose_caps(offered, FI_MSG), Some(OFFERED));
        assert_eq!(choose_caps(offered, FI_MSG | FI_SOURCE), Some(offered));
        assert_eq!(choose_caps(offered, FI_SOURCE), Some(offered));
    }

    #[test]
    fn info_08_absent_modifiers_select_all() {
        assert_eq!(choose_caps(OFFERED, FI_MSG), Some(OFFERED));
        let restricted = choose_caps(OFFERED, FI_MSG | FI_SEND);
        assert_eq!(restricted, Some(FI_MSG | FI_SEND | FI_LOCAL_COMM));
    }

    #[test]
    fn info_06_zero_hint_is_a_wildcard() {
        assert!(is_at_least(0, 0) && is_at_least(7, 0) && !is_at_least(7, 8));
        assert!(is_same(3, 0) && is_same(3, 3) && !is_same(3, 4));
        assert_eq!(
            choose_format(abi::FI_SOCKADDR_IN, abi::FI_FORMAT_UNSPEC),
            Some(abi::FI_SOCKADDR_IN)
        );
        assert_eq!(
            choose_format(abi::FI_SOCKADDR_IN, abi::FI_SOCKADDR_IN6),
            None
        );
    }
}
