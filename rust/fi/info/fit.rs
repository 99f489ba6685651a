// SPDX-License-Identifier: GPL-2.0

//! Checks that an offer has what the hints ask for.

use super::{
    super::tclass,
    SECONDARY, //
};
use crate::{
    abi::{
        flags::*,
        VERSION, //
    },
    fi::prelude::*, //
};

/// Returns whether an offer has all that the hints ask for, except capabilities and an address format.
pub(super) fn fits(offer: &Info, hints: &Info, version: u32) -> bool {
    // A mode of a provider is a requirement on the consumer, which must have accepted it.
    offer.mode() & !hints.mode() == 0
        && tx_fits(offer, hints)
        && rx_fits(offer, hints)
        && ep_fits(offer, hints)
        && domain_fits(offer, hints)
        && fabric_fits(offer, hints, version)
}

/// Returns the address format to report; `None` if the offer's addresses do not have the requested one.
pub(super) fn choose_format(offered: u32, asked: u32) -> Option<u32> {
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
pub(super) fn is_at_least(offered: usize, asked: usize) -> bool {
    asked <= offered
}

/// Returns true if each size that is named is offered in at least the requested amount.
macro_rules! covers {
    ($have:ident, $want:ident; $($size:ident)*) => {
        $(is_at_least($have.$size, $want.$size))&&*
    };
}

/// Returns true if the values are equal; a request of 0 is a wildcard.
pub(super) fn is_same(offered: u32, asked: u32) -> bool {
    asked == 0 || asked == offered
}

/// Returns true if every requested bit is offered.
pub(in crate::fi) fn is_subset(offered: u64, asked: u64) -> bool {
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
