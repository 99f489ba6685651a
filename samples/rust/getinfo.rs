// SPDX-License-Identifier: GPL-2.0

//! Queries of `fi_getinfo()` for servers and clients, by IPv4 address and port. With `source` the address is
//! local, for a server; otherwise it is the server's.

// A sample uses only some of the functions.
#![allow(dead_code)]

use kernel::{
    prelude::*,
    str::CString, //
};
use kofi::{
    abi::{
        self,
        info::{
            Info,
            InfoList, //
        },
        Errno,
        Result, //
    },
    fi::info::Query,
    util::context::ProcessContext, //
};

/// Finds connected endpoints with the capabilities `caps`.
pub(crate) fn find_msg(
    here: ProcessContext,
    address: (u32, u16),
    source: bool,
    caps: u64,
) -> Result<InfoList> {
    let mut hints = Info::new()?;
    hints.set_caps(caps);
    hints.set_ep(&abi::fi_ep_attr {
        type_: abi::FI_EP_MSG,
        ..pin_init::zeroed()
    })?;
    query(here, address, source, &hints)
}

/// Finds datagram endpoints at a local address, for messages, tagged messages, RMA and atomic operations.
pub(crate) fn find_rdm(here: ProcessContext, address: (u32, u16)) -> Result<InfoList> {
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
    query(here, address, true, &hints)
}

fn query(
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

/// Finds connected endpoints with RMA, and with atomic operations if the device has them.
pub(crate) fn find_rma(
    here: ProcessContext,
    address: (u32, u16),
    source: bool,
) -> Result<InfoList> {
    let caps = abi::FI_MSG | abi::FI_RMA;
    match find_msg(here, address, source, caps | abi::FI_ATOMIC) {
        Err(Errno::ENODATA) => find_msg(here, address, source, caps),
        found => found,
    }
}
