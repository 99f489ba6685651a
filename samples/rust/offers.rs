// SPDX-License-Identifier: GPL-2.0

//! What can be opened to a server, or for one.

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
        Result, //
    },
    fi::info::Query,
};

/// Finds connected endpoints that can do `caps`, to `addr`, or from it when it is our own (`source`).
pub(crate) fn find(addr: u32, port: u16, source: bool, caps: u64) -> Result<InfoList> {
    let [a, b, c, d] = addr.to_be_bytes();
    let node = CString::try_from_fmt(fmt!("{a}.{b}.{c}.{d}"))?;
    let service = CString::try_from_fmt(fmt!("{port}"))?;
    let mut hints = Info::new()?;
    hints.set_caps(caps);
    hints.set_ep(&abi::fi_ep_attr {
        type_: abi::FI_EP_MSG,
        ..pin_init::zeroed()
    })?;
    kofi::getinfo(&Query {
        node: Some(&node),
        service: Some(&service),
        source,
        hints: Some(&hints),
    })
}
