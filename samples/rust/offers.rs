// SPDX-License-Identifier: GPL-2.0

//! What can be opened to a server, or for one.

// Each sample has its part.
#![allow(dead_code)]

use kernel::{
    prelude::*,
    str::CString, //
};
use kofi::{
    abi::{
        self,
        context::ProcessContext,
        info::{
            Info,
            InfoList, //
        },
        Errno,
        Result, //
    },
    fi::info::Query, //
};

/// Finds connected endpoints that can do `caps`, to an IPv4 address and port, or from there when they
/// are our own (`source`).
pub(crate) fn find(
    here: ProcessContext,
    place: (u32, u16),
    source: bool,
    caps: u64,
) -> Result<InfoList> {
    let mut hints = Info::new()?;
    hints.set_caps(caps);
    hints.set_ep(&abi::fi_ep_attr {
        type_: abi::FI_EP_MSG,
        ..pin_init::zeroed()
    })?;
    find_like(here, place, source, &hints)
}

/// Finds datagram endpoints at an IPv4 address and port of our own, for messages with tags or without, and for
/// memory that is lent.
pub(crate) fn find_datagrams(here: ProcessContext, place: (u32, u16)) -> Result<InfoList> {
    let mut hints = Info::new()?;
    hints.set_caps(abi::FI_MSG | abi::FI_TAGGED | abi::FI_RMA | abi::FI_ATOMIC);
    hints.set_ep(&abi::fi_ep_attr {
        type_: abi::FI_EP_RDM,
        ..pin_init::zeroed()
    })?;
    hints.set_domain(&abi::fi_domain_attr {
        mr_mode: abi::FI_MR_PROV_KEY | abi::FI_MR_VIRT_ADDR,
        ..pin_init::zeroed()
    })?;
    find_like(here, place, true, &hints)
}

fn find_like(
    here: ProcessContext,
    (addr, port): (u32, u16),
    source: bool,
    hints: &Info,
) -> Result<InfoList> {
    let [a, b, c, d] = addr.to_be_bytes();
    let node = CString::try_from_fmt(fmt!("{a}.{b}.{c}.{d}"))?;
    let service = CString::try_from_fmt(fmt!("{port}"))?;
    let query = Query {
        node: Some(&node),
        service: Some(&service),
        source,
        hints: Some(hints),
        net: None,
    };
    kofi::getinfo(here, &query)
}

/// The same where it is as well if the device has no atomics.
pub(crate) fn find_memory(
    here: ProcessContext,
    place: (u32, u16),
    source: bool,
) -> Result<InfoList> {
    let caps = abi::FI_MSG | abi::FI_RMA;
    match find(here, place, source, caps | abi::FI_ATOMIC) {
        Err(Errno::ENODATA) => find(here, place, source, caps),
        found => found,
    }
}
