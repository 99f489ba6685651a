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
        fi_rx_attr,
        fi_tx_attr,
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
    let (room, size) = (query.count as usize, query.offer_size as usize);
    let mut writer = struct_writer(query.offers, room, size, OFFER_V1_SIZE)?;
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
    for info in found.iter().take(room) {
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

/// Copies an info into one struct. Attributes that the info does not have are zero.
fn flatten(info: &Info) -> Result<KBox<kofi_offer>> {
    let mut offer: KBox<kofi_offer> = KBox::init(pin_init::init_zeroed(), GFP_KERNEL_ACCOUNT)?;
    offer.caps = info.caps();
    offer.mode = info.mode();
    offer.addr_format = info.addr_format();
    let (src, dest) = info.addresses()?;
    set_address(&mut offer.src_addr, src.as_ref());
    set_address(&mut offer.dest_addr, dest.as_ref());
    if let Some(tx) = info.tx() {
        flatten_tx(&mut offer, tx);
    }
    if let Some(rx) = info.rx() {
        flatten_rx(&mut offer, rx);
    }
    if let Some(ep) = info.ep() {
        flatten_ep(&mut offer, ep);
    }
    if let Some(domain) = info.domain() {
        flatten_domain(&mut offer, domain);
    }
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

fn flatten_tx(offer: &mut kofi_offer, tx: &fi_tx_attr) {
    offer.tx_caps = tx.caps;
    offer.tx_mode = tx.mode;
    offer.tx_op_flags = tx.op_flags;
    offer.tx_msg_order = tx.msg_order;
    offer.tx_comp_order = tx.comp_order;
    offer.tx_inject_size = tx.inject_size as u64;
    offer.tx_size = tx.size as u64;
    offer.tx_iov_limit = tx.iov_limit as u64;
    offer.tx_rma_iov_limit = tx.rma_iov_limit as u64;
}

fn flatten_rx(offer: &mut kofi_offer, rx: &fi_rx_attr) {
    offer.rx_caps = rx.caps;
    offer.rx_mode = rx.mode;
    offer.rx_op_flags = rx.op_flags;
    offer.rx_msg_order = rx.msg_order;
    offer.rx_comp_order = rx.comp_order;
    offer.rx_total_buffered_recv = rx.total_buffered_recv as u64;
    offer.rx_size = rx.size as u64;
    offer.rx_iov_limit = rx.iov_limit as u64;
}

fn flatten_ep(offer: &mut kofi_offer, ep: &fi_ep_attr) {
    offer.ep_type = ep.type_;
    offer.ep_protocol = ep.protocol;
    offer.ep_protocol_version = ep.protocol_version;
    offer.ep_max_msg_size = ep.max_msg_size as u64;
    offer.ep_msg_prefix_size = ep.msg_prefix_size as u64;
    offer.ep_max_order_raw_size = ep.max_order_raw_size as u64;
    offer.ep_max_order_war_size = ep.max_order_war_size as u64;
    offer.ep_max_order_waw_size = ep.max_order_waw_size as u64;
    offer.ep_mem_tag_format = ep.mem_tag_format;
    offer.ep_tx_ctx_cnt = ep.tx_ctx_cnt as u64;
    offer.ep_rx_ctx_cnt = ep.rx_ctx_cnt as u64;
}

fn flatten_domain(offer: &mut kofi_offer, domain: &fi_domain_attr) {
    offer.domain_caps = domain.caps;
    offer.domain_mode = domain.mode;
    offer.domain_mr_key_size = domain.mr_key_size as u64;
    offer.domain_cq_data_size = domain.cq_data_size as u64;
    offer.domain_cq_cnt = domain.cq_cnt as u64;
    offer.domain_ep_cnt = domain.ep_cnt as u64;
    offer.domain_tx_ctx_cnt = domain.tx_ctx_cnt as u64;
    offer.domain_rx_ctx_cnt = domain.rx_ctx_cnt as u64;
    offer.domain_max_ep_tx_ctx = domain.max_ep_tx_ctx as u64;
    offer.domain_max_ep_rx_ctx = domain.max_ep_rx_ctx as u64;
    offer.domain_max_ep_stx_ctx = domain.max_ep_stx_ctx as u64;
    offer.domain_max_ep_srx_ctx = domain.max_ep_srx_ctx as u64;
    offer.domain_cntr_cnt = domain.cntr_cnt as u64;
    offer.domain_mr_iov_limit = domain.mr_iov_limit as u64;
    offer.domain_max_err_data = domain.max_err_data as u64;
    offer.domain_mr_cnt = domain.mr_cnt as u64;
    offer.domain_threading = domain.threading;
    offer.domain_control_progress = domain.control_progress;
    offer.domain_data_progress = domain.data_progress;
    offer.domain_resource_mgmt = domain.resource_mgmt;
    offer.domain_av_type = domain.av_type;
    offer.domain_mr_mode = domain.mr_mode as u32;
}
