// SPDX-License-Identifier: GPL-2.0

//! Names that many files of the provider use.

pub(super) use super::{
    cq::Cq,
    ep::Endpoint,
    wc_backlog::{
        PolledWc,
        WqId, //
    },
    wc_status,
    wq::{
        OpDesc,
        OpKind,
        WorkQueue,
        WqDirection, //
    },
    wr_ring::WrSlot, //
};
pub(super) use crate::{
    abi::flags::*,
    fi::{
        eq::Source,
        prelude::*,
        provider::{
            self,
            Message, //
        },
    },
    rdma::{
        cm::{
            CmEvent,
            CmHandler,
            CmId,
            ConnParam,
            LockedCmId, //
        },
        cq::{
            ImmData,
            WcStatus, //
        },
        device::Device,
        dma::{
            DataDirection,
            DmaMapping, //
        },
        net::SockAddr,
        pd::Pd,
        qp::Qp,
        wr::{
            RecvWr,
            RemoteAddr,
            SendFlag,
            SendFlags,
            SendWr,
            Sge,
            WrOp, //
        },
    },
    util::{
        biased_lock::{
            BiasedGuard,
            BiasedLockList,
            ExclusiveGuard, //
        },
        log::warn,
        stat_counter::StatCounter,
        trace, //
    },
};
pub(super) use core::any::Any;
pub(super) use kernel::{
    time::delay::fsleep,
    workqueue, //
};
