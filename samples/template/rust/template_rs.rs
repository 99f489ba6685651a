// SPDX-License-Identifier: GPL-2.0

//! A template for modules that use kOFI: lists the devices that an endpoint can be opened on.
//! The next steps are in `samples/rust`.

use kernel::prelude::*;
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
    util::context::in_process, //
};

module! {
    type: Template,
    name: "template_rs",
    authors: ["You"],
    description: "A module that uses kOFI",
    license: "GPL",
}

struct Template;

impl kernel::Module for Template {
    fn init(_module: &'static ThisModule) -> kernel::error::Result<Self> {
        let list = match find() {
            // Load without a device, too: one may be added later.
            Err(Errno::ENODATA) => InfoList::new(),
            found => found?,
        };
        for info in &list {
            let name = info.domain_name().unwrap_or_default();
            let provider = info.provider_name().unwrap_or_default();
            pr_info!("{} on {}\n", provider, name);
        }
        pr_info!("ready count={}\n", list.len());
        Ok(Self)
    }
}

/// Finds connected endpoints for messages, on all devices.
fn find() -> Result<InfoList> {
    let mut hints = Info::new()?;
    hints.set_caps(abi::FI_MSG);
    hints.set_ep(&abi::fi_ep_attr {
        type_: abi::FI_EP_MSG,
        ..pin_init::zeroed()
    })?;
    let query = Query {
        node: None,
        service: None,
        source: false,
        hints: Some(&hints),
        net: None,
    };
    kofi::getinfo(in_process()?, &query)
}
