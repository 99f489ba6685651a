// SPDX-License-Identifier: GPL-2.0

//! Names and objects that the Rust examples of the documentation take as given. The examples are compiled,
//! each as a function of its own, and never run.

pub(crate) use core::net::SocketAddr;
pub(crate) use kernel::{
    prelude::*,
    sync::Arc, //
};
pub(crate) use kofi::{
    abi::{
        self,
        info::Info,
        Result, //
    },
    fi::{
        av::{
            self,
            AddressVector,
            Peer, //
        },
        av_set::{
            AddressSet,
            InitialMembers, //
        },
        cntr::{
            self,
            Counter, //
        },
        cq::CompletionQueue,
        domain::Domain,
        eq::{
            self,
            EventQueue,
            Source, //
        },
        fabric::Fabric,
        info::Query,
        memory::Buffer,
        msg::{
            Completions,
            Connection,
            Unconnected, //
        },
        wait::{
            Budget,
            Deadline, //
        },
    },
    util::context::ProcessContext, //
};

/// Open objects and values that the examples use.
pub(crate) struct Given<'a> {
    pub(crate) here: ProcessContext,
    pub(crate) node: &'a CStr,
    pub(crate) service: &'a CStr,
    pub(crate) info: &'a Info,
    pub(crate) fabric: &'a Arc<Fabric>,
    pub(crate) domain: &'a Arc<Domain>,
    pub(crate) events: &'a Arc<EventQueue>,
    pub(crate) vector: &'a Arc<AddressVector>,
    pub(crate) addresses: &'a Arc<AddressVector>,
    pub(crate) attr: &'a av::Attr<'a>,
    pub(crate) others: &'a AddressSet,
    pub(crate) queue: &'a Arc<CompletionQueue>,
    pub(crate) counter: &'a Arc<Counter>,
    pub(crate) completions: &'a Arc<Completions>,
    pub(crate) transmits: &'a Arc<Completions>,
    pub(crate) receives: &'a Arc<Completions>,
    pub(crate) connection: &'a Connection,
    pub(crate) address: SocketAddr,
    pub(crate) buffer: KBox<Buffer>,
    pub(crate) back: KBox<Buffer>,
    pub(crate) out: KBox<Buffer>,
    pub(crate) depth: usize,
    pub(crate) size: usize,
    pub(crate) len: usize,
    pub(crate) count: u64,
}
