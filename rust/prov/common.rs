// SPDX-License-Identifier: GPL-2.0

//! Code shared by providers: software completion queues and memory regions, infos, passive endpoints and
//! connection requests, and the state of connections.

pub(super) mod cm_data;
pub(super) mod conn_state;
pub(super) mod connreq;
pub(super) mod flags;
pub(super) mod hints;
pub(super) mod iov;
pub(super) mod min_multi_recv;
pub(super) mod mr_table;
pub(super) mod msg_info;
pub(super) mod pep;
pub(super) mod rma_cursor;
pub(super) mod stats;
pub(super) mod sw_cq;
