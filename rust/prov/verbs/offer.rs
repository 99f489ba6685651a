// SPDX-License-Identifier: GPL-2.0

//! What `fi_getinfo()` is told of a device: its attributes, never its name, decide.

use super::wire::MAX_PRIVATE_DATA;
use crate::{
    abi::{
        self,
        fi_domain_attr,
        fi_ep_attr,
        fi_fabric_attr,
        fi_rx_attr,
        fi_tx_attr,
        flags::*,
        info::Info,
        Errno,
        Result,
        VERSION, //
    },
    rdma::{
        attributes::Protocol,
        device::Device, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The `prov_name`.
pub(super) const NAME: &CStr = c"verbs";

/// Version of this provider.
const PROVIDER_VERSION: u32 = 1;

const CAPS: u64 = FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_FENCE;

/// Sends arrive in the order in which they were posted; RC has no other.
const ORDER: u64 = abi::FI_ORDER_SAS;

/// The kinds of devices that have RC queue pairs, the fabric that each is in, and the protocol that
/// its endpoints speak.
const KINDS: [(Protocol, &CStr, u32); 3] = [
    (
        Protocol::InfiniBand,
        c"InfiniBand",
        abi::FI_PROTO_RDMA_CM_IB_RC,
    ),
    (Protocol::RoCE, c"RoCE", abi::FI_PROTO_RDMA_CM_IB_RC),
    (Protocol::Iwarp, c"iWARP", abi::FI_PROTO_IWARP),
];

/// The kind of devices in the fabric of that name; -FI_ENODATA if it is none of ours.
pub(super) fn protocol_named(name: &CStr) -> Result<Protocol> {
    KINDS
        .iter()
        .find(|(_, fabric, _)| *fabric == name)
        .map(|(protocol, ..)| *protocol)
        .ok_or(Errno::ENODATA)
}

/// Everything that a connected endpoint on `device` can do, with its largest sizes. May sleep.
///
/// # Errors
///
/// -FI_ENODEV for a device that is going away or has no RC queue pairs, -FI_ENOMEM.
pub(super) fn of_device(device: &Arc<Device>) -> Result<KBox<Info>> {
    let (_, fabric, protocol) = KINDS
        .iter()
        .find(|(kind, ..)| *kind == device.protocol())
        .ok_or(Errno::ENODEV)?;
    let used = device.enter()?;
    let attributes = used.attributes();
    let port = used.port(*used.ports().start())?;
    let sges = attributes
        .max_send_sge
        .min(attributes.max_recv_sge)
        .min(super::gather::MAX_SGE as u32) as usize;
    // One work request is that of the marker behind which a queue is drained.
    let depth = attributes.max_qp_wr.saturating_sub(1) as usize;

    let mut info = Info::new()?;
    info.set_caps(CAPS);
    info.set_addr_format(abi::FI_SOCKADDR);
    *info.tx_mut()? = fi_tx_attr {
        caps: FI_MSG | FI_SEND | FI_FENCE,
        op_flags: FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE,
        msg_order: ORDER,
        comp_order: abi::FI_ORDER_STRICT,
        size: depth,
        iov_limit: sges,
        ..pin_init::zeroed()
    };
    *info.rx_mut()? = fi_rx_attr {
        caps: FI_MSG | FI_RECV,
        op_flags: FI_COMPLETION,
        msg_order: ORDER,
        comp_order: abi::FI_ORDER_STRICT,
        size: depth,
        iov_limit: sges,
        ..pin_init::zeroed()
    };
    info.set_ep(&fi_ep_attr {
        type_: abi::FI_EP_MSG,
        protocol: *protocol,
        protocol_version: 1,
        max_msg_size: port.max_msg_size as usize,
        tx_ctx_cnt: 1,
        rx_ctx_cnt: 1,
        ..pin_init::zeroed()
    })?;
    info.set_domain(&fi_domain_attr {
        threading: abi::FI_THREAD_SAFE,
        control_progress: abi::FI_PROGRESS_AUTO,
        data_progress: abi::FI_PROGRESS_AUTO,
        resource_mgmt: abi::FI_RM_ENABLED,
        mr_key_size: 4,
        cq_cnt: attributes.max_cq as usize,
        ep_cnt: attributes.max_qp as usize,
        tx_ctx_cnt: attributes.max_qp as usize,
        rx_ctx_cnt: attributes.max_qp as usize,
        max_ep_tx_ctx: 1,
        max_ep_rx_ctx: 1,
        mr_iov_limit: usize::MAX,
        mr_cnt: attributes.max_mr as usize,
        caps: FI_LOCAL_COMM | FI_REMOTE_COMM,
        max_err_data: MAX_PRIVATE_DATA,
        ..pin_init::zeroed()
    })?;
    info.set_fabric(&fi_fabric_attr {
        prov_version: PROVIDER_VERSION,
        api_version: VERSION,
        ..pin_init::zeroed()
    })?;
    info.set_domain_name(device.name().as_c_str())?;
    info.set_fabric_name(fabric)?;
    info.set_provider_name(NAME)?;
    Ok(info)
}

/// Whether an endpoint can be made of an info, which its consumer may have changed.
///
/// # Errors
///
/// -FI_EINVAL for another kind of endpoint, or capabilities that were not offered.
pub(super) fn check(info: &Info) -> Result {
    let kind = info.ep().map(|ep| ep.type_);
    if kind != Some(abi::FI_EP_MSG) || info.caps() & !CAPS != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}
