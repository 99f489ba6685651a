// SPDX-License-Identifier: GPL-2.0

//! One end of a connection, as the client and the server both need it: a domain (the device), an
//! event queue for the connection, a completion queue for each direction, and the endpoint.
//!
//! There is nothing to close: what is dropped closes itself, in whatever order.

use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};
use kofi::{
    abi::{
        self,
        context::kthread_should_stop,
        info::{
            Info,
            InfoList, //
        },
        Errno,
        Result, //
    },
    fi::{
        eq::{
            self,
            EventQueue,
            Kind,
            Owned,
            Source, //
        },
        fabric::Fabric,
        info::Query,
        memory::Buffer,
        msg::{
            Completions,
            Endpoint, //
        },
        wait::Budget, //
    },
};

/// How long a wait lasts before its loop looks around, in milliseconds.
const TICK: c_int = 1000;

/// Finds connected endpoints that can do `caps`, to `addr`, or from it when it is our own (`source`).
pub(crate) fn find_info(addr: u32, port: u16, source: bool, caps: u64) -> Result<InfoList> {
    let [a, b, c, d] = addr.to_be_bytes();
    let node = CString::try_from_fmt(fmt!("{a}.{b}.{c}.{d}"))?;
    let service = CString::try_from_fmt(fmt!("{port}"))?;
    let mut hints = Info::new()?;
    hints.set_caps(caps);
    hints.set_ep(&abi::fi_ep_attr {
        type_: abi::FI_EP_MSG,
        ..pin_init::zeroed()
    })?;
    kofi::getinfo(&Query {
        node: Some(&node),
        service: Some(&service),
        source,
        hints: Some(&hints),
    })
}

/// Repeats a wait until it answers or the thread is told to stop.
fn patiently<T>(wait: impl Fn(&mut Budget) -> Result<T>) -> Result<T> {
    while !kthread_should_stop() {
        match wait(&mut Budget::from_millis(TICK)) {
            Err(Errno::EAGAIN) => {}
            answer => return answer,
        }
    }
    Err(Errno::EINTR)
}

/// Waits for the event `wanted`.
pub(crate) fn event(events: &EventQueue, wanted: u32) -> Result<Owned> {
    let event = patiently(|budget| events.next(budget))?;
    match event.kind() {
        Kind::Connection(number) if number == wanted => Ok(event),
        Kind::Error(errno, _) => Err(errno),
        _ => Err(Errno::ENOTCONN),
    }
}

/// Waits for an operation to be over: gives its buffer back, and the length of what was received.
///
/// Its failure is an error: -FI_ECANCELED when it was still posted when the connection ended.
pub(crate) fn completion(queue: &Completions) -> Result<(KBox<Buffer>, usize)> {
    let done = patiently(|budget| queue.wait(budget))?;
    Ok((done.buffer, done.result?))
}

pub(crate) struct Connection {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) events: Arc<EventQueue>,
    pub(crate) transmits: Arc<Completions>,
    pub(crate) receives: Arc<Completions>,
}

impl Connection {
    /// Opens one end, on which `depth` operations can be posted in each direction.
    pub(crate) fn open(fabric: &Arc<Fabric>, info: &mut Info, depth: usize) -> Result<Self> {
        info.tx_mut()?.size = depth;
        info.rx_mut()?.size = depth;
        let domain = fabric.domain(info)?;
        let events = fabric.event_queue(eq::Attr::default())?;
        let transmits = Completions::new(&domain, depth)?;
        let receives = Completions::new(&domain, depth)?;
        let endpoint = Endpoint::new(&domain, info, Source(0), &events, &transmits, &receives)?;
        Ok(Self {
            endpoint: Arc::new(endpoint, GFP_KERNEL)?,
            events,
            transmits,
            receives,
        })
    }
}
