// SPDX-License-Identifier: GPL-2.0

//! Interfaces that a process can open: `fi_getinfo()` for processes.

use super::{
    ioctl_arg::{
        set_string,
        string,
        struct_writer,
        write_struct, //
    },
    to_process_errno,
    Client, //
};
use crate::{
    abi::{
        addr::with_bytes,
        fi_domain_attr,
        fi_ep_attr,
        kofi_info,
        kofi_offer, //
    },
    fi::{
        info::Query,
        prelude::*, //
    },
};
use kernel::error::Result;

/// Size in bytes of an element in the first version of the interface.
const OFFER_V1_SIZE: usize = 744;

/// Handles `KOFI_IOC_INFO`. May sleep.
///
/// # Errors
///
/// `EINVAL` for a string without a NUL and for an invalid element size; `ENODATA`; `EFAULT`; errors
/// of `fi_getinfo()`.
pub(super) fn handle_info(client: &Client, query: &mut kofi_info) -> Result {
    let (space, size) = (query.count as usize, query.offer_size as usize);
    let mut writer = struct_writer(query.offers, space, size, OFFER_V1_SIZE)?;
    let hints = query_hints(query)?;
    let found = crate::getinfo(
        in_process()?,
        &Query {
            node: string(&query.node)?,
            service: string(&query.service)?,
            source: query.flags & abi::KOFI_INFO_SOURCE != 0,
            hints: Some(&hints),
            net: Some(&client.net),
        },
    );
    let found = found.map_err(to_process_errno)?;
    for info in found.iter().take(space) {
        write_struct(&mut writer, &*flatten(info)?, size)?;
    }
    query.count = u32::try_from(found.len()).map_err(|_| EOVERFLOW)?;
    Ok(())
}

/// Returns the hints of the request.
fn query_hints(query: &kofi_info) -> Result<KBox<Info>> {
    let mut hints = Info::new()?;
    hints.set_caps(query.caps);
    hints.set_mode(query.mode);
    hints.set_ep(&fi_ep_attr {
        type_: query.ep_type,
        ..pin_init::zeroed()
    })?;
    hints.set_domain(&fi_domain_attr {
        mr_mode: query.mr_mode as c_int,
        ..pin_init::zeroed()
    })?;
    if let Some(name) = string(&query.prov_name)? {
        hints.set_provider_name(name)?;
    }
    if let Some(name) = string(&query.fabric_name)? {
        hints.set_fabric_name(name)?;
    }
    if let Some(name) = string(&query.domain_name)? {
        hints.set_domain_name(name)?;
    }
    Ok(hints)
}

/// Copies fields of `attr`, if it is there, to the fields of `offer` whose names begin with `prefix`. The second list
/// is of sizes and counts, which have 64 bits there.
macro_rules! copy_fields {
    ($offer:ident, $prefix:ident, $attr:expr, [$($field:ident)*], [$($size:ident)*]) => {
        kernel::macros::paste! {
            if let Some(attr) = $attr {
                $($offer.[<$prefix _ $field>] = attr.$field;)*
                $($offer.[<$prefix _ $size>] = attr.$size as u64;)*
            }
        }
    };
}

/// Copies an info into one struct. Attributes that the info does not have are zero.
fn flatten(info: &Info) -> Result<KBox<kofi_offer>> {
    let mut offer: KBox<kofi_offer> = KBox::init(pin_init::init_zeroed(), GFP_KERNEL_ACCOUNT)?;
    offer.caps = info.caps();
    offer.mode = info.mode();
    offer.addr_format = info.addr_format();
    let (src, dest) = info.addresses()?;
    set_address(&mut offer.src_addr, src.as_ref());
    set_address(&mut offer.dest_addr, dest.as_ref());
    copy_fields!(offer, tx, info.tx(), [
        caps mode op_flags msg_order comp_order
    ], [inject_size size iov_limit rma_iov_limit]);
    copy_fields!(offer, rx, info.rx(), [
        caps mode op_flags msg_order comp_order
    ], [total_buffered_recv size iov_limit]);
    copy_fields!(offer, ep, info.ep(), [protocol protocol_version mem_tag_format], [
        max_msg_size msg_prefix_size max_order_raw_size max_order_war_size max_order_waw_size
        tx_ctx_cnt rx_ctx_cnt
    ]);
    offer.ep_type = info.ep().map_or(0, |ep| ep.type_);
    copy_fields!(offer, domain, info.domain(), [
        caps mode threading control_progress data_progress resource_mgmt av_type
    ], [
        mr_key_size cq_data_size cq_cnt ep_cnt tx_ctx_cnt rx_ctx_cnt max_ep_tx_ctx max_ep_rx_ctx
        max_ep_stx_ctx max_ep_srx_ctx cntr_cnt mr_iov_limit max_err_data mr_cnt
    ]);
    offer.domain_mr_mode = info.domain().map_or(0, |domain| domain.mr_mode as u32);
    if let Some(fabric) = info.fabric() {
        offer.fabric_prov_version = fabric.prov_version;
        offer.fabric_api_version = fabric.api_version;
    }
    let name = |field: &mut [u8], name: Option<&CStr>| set_string(field, name.map(CStr::to_bytes));
    name(&mut offer.domain_name, info.domain_name());
    name(&mut offer.fabric_name, info.fabric_name());
    name(&mut offer.prov_name, info.provider_name());
    Ok(offer)
}

fn set_address(field: &mut [u8], addr: Option<&SocketAddr>) {
    match addr {
        // The NUL is stripped, because `set_string` adds one.
        Some(addr) => with_bytes(abi::FI_ADDR_STR, addr, |text| {
            set_string(field, text.strip_suffix(b"\0"))
        }),
        None => set_string(field, None),
    }
}
