// SPDX-License-Identifier: GPL-2.0

//! Infos of a device for `fi_getinfo()`. The device's attributes and driver decide, never its name.

pub(super) use super::super::common::hints::uses_shared_rx;
use super::{
    super::common::{
        flags::COMPLETION_LEVELS,
        hints::Hints,
        msg_info::MsgInfo, //
    },
    cas_atomic,
    ep::siw_quirk,
    prelude::*,
    sge::MAX_SGE,
    srx, //
};
use crate::{
    abi::{
        fi_pci_attr,
        nic::NicDesc, //
    },
    fi::info::CORE_CAPS,
    rdma::{
        device::DeviceRef,
        device_attr::{
            DeviceAttr,
            Protocol, //
        },
        nic::NicAttr, //
    },
};

/// Name of the provider in infos.
pub(super) const PROV_NAME: &CStr = c"verbs";

/// Version of this provider.
const PROV_VERSION: u32 = 1;

/// Capabilities of operations that this side starts, atomics aside.
const TX_CAPS: u64 = FI_MSG | FI_SEND | FI_RMA | FI_READ | FI_WRITE | FI_FENCE;

/// Capabilities of operations that the peer starts.
const RX_CAPS: u64 = FI_MSG | FI_RECV | FI_MULTI_RECV | FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE;

/// Capabilities of the domain, independent of its endpoints.
const DOMAIN_CAPS: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM | CORE_CAPS;

const CAPS: u64 = TX_CAPS | RX_CAPS | DOMAIN_CAPS;

/// Returns the maximum number of work requests of an endpoint that are not for operations with a
/// slot, the drain marker excepted.
pub(super) fn extra_send_wrs(device: &DeviceRef) -> u32 {
    let cells = match device.attributes.has_atomics {
        true => cas_atomic::MAX_CAS_OPS,
        false => 0,
    };
    siw_quirk::max_kicks(device) + cells
}

/// Returns the maximum depth of an endpoint's queues, and the maximum number of segments of its
/// operations. Some work requests are not for operations; see [`WorkQueue::extra_cq_entries`].
///
/// [`WorkQueue::extra_cq_entries`]: super::wq::WorkQueue::extra_cq_entries
pub(super) fn queue_limits(device: &DeviceRef) -> (usize, usize) {
    let DeviceAttr {
        max_qp_wr,
        max_send_sge,
        max_recv_sge,
        ..
    } = device.attributes;
    let sges = max_send_sge.min(max_recv_sge) as usize;
    let depth = max_qp_wr.saturating_sub(1 + extra_send_wrs(device));
    (depth as usize, sges.min(MAX_SGE))
}

/// Returns FI_ATOMIC if the device has atomic work requests.
fn atomic_caps(attributes: &DeviceAttr) -> u64 {
    match attributes.has_atomics {
        true => FI_ATOMIC,
        false => 0,
    }
}

/// Message order: sends, writes and reads arrive in the order in which they were posted, except
/// that later operations may overtake a read.
const MSG_ORDER: u64 = abi::FI_ORDER_SAS
    | abi::FI_ORDER_SAW
    | abi::FI_ORDER_WAS
    | abi::FI_ORDER_WAW
    | abi::FI_ORDER_RAS
    | abi::FI_ORDER_RAW
    | abi::FI_ORDER_RAR;

/// Maximum number of bytes that can be injected. Devices that do not take them inline get a copy.
pub(super) const INJECT_SIZE: usize = 128;

/// Counters that an endpoint can use: one for each kind of operation.
const CNTRS_PER_EP: usize = 4;

/// Returns whether messages can carry immediate data.
pub(super) fn has_cq_data(protocol: Protocol) -> bool {
    protocol != Protocol::Iwarp
}

/// Returns the completion levels that a transmit can request.
///
/// On iWARP a completion says that TCP has the data, which the peer may never get.
pub(super) fn completion_levels(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::Iwarp => FI_INJECT_COMPLETE,
        _ => COMPLETION_LEVELS,
    }
}

/// The kinds of devices that have RC queue pairs, with the fabric name and the endpoint protocol of
/// each.
const PROTOCOLS: [(Protocol, &CStr, u32); 3] = [
    (
        Protocol::InfiniBand,
        c"InfiniBand",
        abi::FI_PROTO_RDMA_CM_IB_RC,
    ),
    (Protocol::RoCE, c"RoCE", abi::FI_PROTO_RDMA_CM_IB_RC),
    (Protocol::Iwarp, c"iWARP", abi::FI_PROTO_IWARP),
];

/// Returns the kind of devices in the fabric of that name; -FI_ENODATA for an unknown name.
pub(super) fn protocol_from_fabric_name(name: &CStr) -> Result<Protocol> {
    PROTOCOLS
        .iter()
        .find(|(_, fabric, _)| *fabric == name)
        .map(|(protocol, ..)| *protocol)
        .ok_or(Errno::ENODATA)
}

/// Returns FI_REMOTE_SIGNAL if a completion queue of the device can be armed for solicited messages
/// only. siw cannot do so: `siw_rqe_complete()` raises no solicited event.
fn signal_caps(device: &Device) -> u64 {
    match device.is_siw {
        true => 0,
        false => FI_REMOTE_SIGNAL,
    }
}

/// Returns the atomic capabilities and the completion order of transmits. An atomic operation of
/// several work requests is overtaken by operations that were posted after it.
///
/// A consumer that requests that order, and not atomics, gets the order instead of atomics.
fn negotiate_atomics(hints: &Hints, attributes: &DeviceAttr) -> (u64, u64) {
    let asked = match (hints.primary, hints.wants_comp_order) {
        (0, true) => 0,
        (0, false) => FI_ATOMIC,
        (primary, _) => primary,
    };
    match atomic_caps(attributes) & asked {
        0 => (0, abi::FI_ORDER_STRICT),
        // FI_ORDER_NONE.
        there => (there, 0),
    }
}

/// Returns an info with all that a connected endpoint on `device` offers a consumer with these
/// hints, with the largest sizes. May sleep.
///
/// # Errors
///
/// -FI_ENODEV for a device that is being removed or has no RC queue pairs, -FI_ENOMEM.
pub(super) fn device_info(device: &Arc<Device>, hints: &Hints) -> Result<KBox<Info>> {
    let (_, fabric, protocol) = PROTOCOLS
        .iter()
        .find(|(kind, ..)| *kind == device.protocol)
        .ok_or(Errno::ENODEV)?;
    let used = device.try_get()?;
    let attributes = &used.attributes;
    let nic = used.query_nic()?;
    let (depth, sges) = queue_limits(&used);
    let (atomics, tx_comp_order) = negotiate_atomics(hints, attributes);
    let has_srx = srx::has_srq(attributes);
    let shares_rx = hints.wants_shared_rx && has_srx;
    let (rx_size, rx_iov_limit) = match shares_rx {
        true => (
            srx::max_receives(attributes, Cq::extra_entries(&used)),
            srx::max_sges(attributes),
        ),
        false => (depth, sges),
    };
    let mut info = MsgInfo {
        prov_name: PROV_NAME,
        prov_version: PROV_VERSION,
        fabric_name: fabric,
        domain_name: device.name().as_c_str(),
        protocol: *protocol,
        tx_caps: TX_CAPS | atomics,
        rx_caps: RX_CAPS | atomics,
        domain_caps: DOMAIN_CAPS,
        signal_caps: signal_caps(device),
        completion_levels: completion_levels(device.protocol),
        has_cq_data: has_cq_data(device.protocol),
        msg_order: MSG_ORDER,
        tx_comp_order,
        inject_size: INJECT_SIZE,
        tx_size: depth,
        rx_size,
        tx_iov_limit: sges,
        rx_iov_limit,
        max_msg_size: nic.max_msg_size as usize,
        shares_rx,
        has_srx,
        cq_cnt: attributes.max_cq as usize,
        cntr_cnt: (attributes.max_qp as usize).saturating_mul(CNTRS_PER_EP),
        ep_cnt: attributes.max_qp as usize,
        mr_cnt: attributes.max_mr as usize,
        mr_iov_limit: attributes.max_fast_reg_page_list_len as usize,
        // Regions of endpoints are bound in any context.
        more_mr_modes: match used.allocates_to_map {
            true => 0,
            false => abi::FI_MR_ENDPOINT,
        },
    }
    .build(hints)?;
    info.set_nic(|desc| describe_nic(desc, &used, &nic))?;
    Ok(info)
}

/// Writes the description of a device.
// Not inline: see `query_nic`.
#[inline(never)]
fn describe_nic(desc: &mut NicDesc, device: &DeviceRef, nic: &NicAttr) {
    desc.name.set(fmt!("{}", device.name()));
    desc.device_id.set(fmt!("{:#06x}", nic.part_id));
    desc.device_version.set(fmt!("{}", nic.hw_version));
    desc.vendor_id.set(fmt!("{:#06x}", nic.vendor_id));
    desc.driver.set(fmt!("{}", nic.driver));
    desc.firmware.set(fmt!("{}", nic.firmware));
    desc.address.set(fmt!("{}", nic.address));
    desc.network_type.set(fmt!("{:?}", nic.link_layer));
    if let Some(pci) = nic.pci {
        desc.has_pci = true;
        desc.pci = fi_pci_attr {
            domain_id: pci.domain,
            bus_id: pci.bus,
            device_id: pci.device,
            function_id: pci.function,
        };
    }
    desc.mtu = nic.mtu;
    desc.speed = nic.speed as usize;
    desc.state = match nic.is_up {
        true => abi::FI_LINK_UP,
        false => abi::FI_LINK_DOWN,
    };
    desc.numa_node = nic.numa_node;
    desc.comp_vectors = device.attributes.num_comp_vectors;
}

/// Checks that an endpoint on `device` can be opened with an info, which its consumer may have
/// changed.
///
/// # Errors
///
/// -FI_EINVAL for another endpoint type, or capabilities, completion levels or contexts that were
/// not offered.
pub(super) fn check_info(info: &Info, device: &DeviceRef) -> Result {
    let kind = info.ep().map(|ep| ep.type_);
    let caps = CAPS | atomic_caps(&device.attributes) | signal_caps(device.device());
    let missing = COMPLETION_LEVELS & !completion_levels(device.protocol);
    let asked = info.tx().map_or(0, |tx| tx.op_flags);
    if kind != Some(abi::FI_EP_MSG) || info.caps() & !caps != 0 || asked & missing != 0 {
        return Err(Errno::EINVAL);
    }
    if uses_shared_rx(info) && !srx::has_srq(&device.attributes) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}
