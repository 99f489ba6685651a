// SPDX-License-Identifier: GPL-2.0

//! Names that most files of this provider use, beside those of [`fi::prelude`](crate::fi::prelude).

pub(super) use super::{
    super::common::{
        iov::{
            DstBuf,
            SrcBuf, //
        },
        mr_table::{
            EpRights,
            MrTable, //
        },
    },
    channel::Channel,
    completion::{
        CompInfo,
        CompSink, //
    },
    conn::{
        Conn,
        Request, //
    },
    ep::Endpoint,
    fifo::Fifo,
    op::{
        PostedOp,
        Receive,
        RxCompletion, //
    },
    port::{
        Port,
        PortOwner, //
    },
};
pub(super) use crate::{
    fi::{
        atomic::{
            Datatype,
            Form,
            Op, //
        },
        eq::Source,
        prelude::*,
        provider::{
            self,
            Message, //
        },
    },
    rdma::net::SockAddr, //
};
