// SPDX-License-Identifier: GPL-2.0

//! Infos of connected endpoints for `fi_getinfo()`, from the limits of a provider.

use super::{
    hints::Hints,
    rma_cursor::RMA_RANGE_LIMIT, //
};
use crate::{
    abi::{
        fi_domain_attr,
        fi_ep_attr,
        fi_fabric_attr,
        fi_rx_attr,
        fi_tx_attr,
        flags::*,
        VERSION, //
    },
    fi::{
        eq::MAX_DATA,
        prelude::*, //
    },
};

/// Size of remote CQ data, which verbs sends as immediate data.
const CQ_DATA_SIZE: usize = 4;

/// Capabilities and largest sizes of connected endpoints that a provider offers.
pub(crate) struct MsgInfo<'a> {
    pub(crate) prov_name: &'a CStr,
    pub(crate) prov_version: u32,
    pub(crate) fabric_name: &'a CStr,
    pub(crate) domain_name: &'a CStr,
    pub(crate) protocol: u32,
    /// Capabilities of operations that the endpoint starts.
    pub(crate) tx_caps: u64,
    /// Capabilities of operations that the peer starts, of an endpoint with receives of its own.
    pub(crate) rx_caps: u64,
    /// Capabilities of the domain, independent of its endpoints.
    pub(crate) domain_caps: u64,
    /// FI_REMOTE_SIGNAL, if the endpoint can have it.
    pub(crate) signal_caps: u64,
    /// Completion levels that a transmit can request.
    pub(crate) completion_levels: u64,
    pub(crate) has_cq_data: bool,
    pub(crate) msg_order: u64,
    /// Completion order of transmits.
    pub(crate) tx_comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) tx_size: usize,
    pub(crate) rx_size: usize,
    pub(crate) tx_iov_limit: usize,
    pub(crate) rx_iov_limit: usize,
    pub(crate) max_msg_size: usize,
    /// Set if the endpoint uses a shared receive context.
    pub(crate) shares_rx: bool,
    pub(crate) has_srx: bool,
    pub(crate) cq_cnt: usize,
    pub(crate) cntr_cnt: usize,
    pub(crate) ep_cnt: usize,
    pub(crate) mr_cnt: usize,
    pub(crate) mr_iov_limit: usize,
    /// Modes of memory registration for consumers that ask for them.
    pub(crate) more_mr_modes: c_int,
}

impl MsgInfo<'_> {
    /// Returns the info for a consumer with these hints. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn build(&self, hints: &Hints) -> Result<KBox<Info>> {
        let data_size = if self.has_cq_data { CQ_DATA_SIZE } else { 0 };
        let (cq_data_size, rx_mode) = hints.remote_cq_data(data_size);
        // A multi-receive buffer belongs to one endpoint.
        let (missing, rx_ctx_cnt) = match self.shares_rx {
            true => (FI_MULTI_RECV, abi::FI_SHARED_CONTEXT),
            false => (0, 1),
        };
        // Offered only on request: datagram endpoints on top of this endpoint do not support it.
        let signals = self.signal_caps & hints.caps;
        let rx_caps = (self.rx_caps | signals) & !missing;
        let mut info = Info::new()?;
        info.set_caps(self.tx_caps | rx_caps | self.domain_caps);
        info.set_addr_format(abi::FI_SOCKADDR);
        *info.tx_mut()? = fi_tx_attr {
            caps: self.tx_caps,
            op_flags: FI_COMPLETION | FI_INJECT | self.completion_levels,
            msg_order: self.msg_order,
            comp_order: self.tx_comp_order,
            inject_size: self.inject_size,
            size: self.tx_size,
            iov_limit: self.tx_iov_limit,
            rma_iov_limit: RMA_RANGE_LIMIT,
            ..pin_init::zeroed()
        };
        *info.rx_mut()? = fi_rx_attr {
            caps: rx_caps,
            mode: rx_mode,
            op_flags: FI_COMPLETION,
            msg_order: self.msg_order,
            comp_order: abi::FI_ORDER_STRICT,
            size: self.rx_size,
            iov_limit: self.rx_iov_limit,
            ..pin_init::zeroed()
        };
        let ordered_size = |order: u64| match self.msg_order & order {
            0 => 0,
            _ => self.max_msg_size,
        };
        info.set_ep(&fi_ep_attr {
            type_: abi::FI_EP_MSG,
            protocol: self.protocol,
            protocol_version: 1,
            max_msg_size: self.max_msg_size,
            max_order_raw_size: ordered_size(abi::FI_ORDER_RAW),
            max_order_war_size: ordered_size(abi::FI_ORDER_WAR),
            max_order_waw_size: ordered_size(abi::FI_ORDER_WAW),
            tx_ctx_cnt: 1,
            rx_ctx_cnt,
            ..pin_init::zeroed()
        })?;
        info.set_domain(&fi_domain_attr {
            threading: abi::FI_THREAD_SAFE,
            control_progress: abi::FI_PROGRESS_AUTO,
            data_progress: abi::FI_PROGRESS_AUTO,
            resource_mgmt: abi::FI_RM_ENABLED,
            mr_mode: abi::FI_MR_VIRT_ADDR
                | abi::FI_MR_PROV_KEY
                | self.more_mr_modes & hints.mr_mode,
            mr_key_size: 4,
            cq_data_size,
            cq_cnt: self.cq_cnt,
            cntr_cnt: self.cntr_cnt,
            ep_cnt: self.ep_cnt,
            tx_ctx_cnt: self.ep_cnt,
            rx_ctx_cnt: self.ep_cnt,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            max_ep_srx_ctx: usize::from(self.has_srx),
            mr_iov_limit: self.mr_iov_limit,
            mr_cnt: self.mr_cnt,
            caps: self.domain_caps,
            max_err_data: MAX_DATA,
            ..pin_init::zeroed()
        })?;
        info.set_fabric(&fi_fabric_attr {
            prov_version: self.prov_version,
            api_version: VERSION,
            ..pin_init::zeroed()
        })?;
        info.set_domain_name(self.domain_name)?;
        info.set_fabric_name(self.fabric_name)?;
        info.set_provider_name(self.prov_name)?;
        Ok(info)
    }
}
