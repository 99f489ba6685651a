// SPDX-License-Identifier: GPL-2.0

//! Offload providers: another module's provider runs the collectives of an endpoint, with transfers of the
//! endpoint. `fi_import_fid()` of an endpoint pairs the two.
//!
//! The endpoint opens peer objects in the offload's domain: with FI_PEER an address vector and a completion
//! queue, and with FI_PEER_TRANSFER an endpoint. The transfers that the offload posts with FI_PEER_TRANSFER
//! complete in a queue of their own, whose handler reports them to the offload one at a time in process
//! context.

mod completion;
mod mc;
mod ops;
mod peer_open;

pub(super) use self::{
    mc::join,
    ops::COLLECTIVE, //
};

use self::{
    completion::CompForwarder,
    peer_open::{
        export,
        table,
        Open, //
    },
};
use super::{
    ep::EndpointObject,
    peer, //
};
use crate::{
    abi::{
        self,
        errno::from_int,
        fi_av_attr,
        fi_cq_attr,
        fi_ops_domain,
        fi_ops_transfer_peer,
        fi_peer_av_context,
        fi_peer_cq_context,
        fi_peer_transfer_context,
        fid,
        fid_av,
        fid_domain,
        fid_ep,
        info::Info,
        Errno,
        Result, //
    },
    fi::{
        av::Offloaded,
        cq::{
            self,
            CompletionQueue,
            Format,
            Handler, //
        },
        ep::Endpoint, //
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full, //
        },
        Arc, //
    },
};

/// An offload that is paired with an endpoint.
pub(super) struct Offload {
    // Dropped in this order.
    ep: Open,
    vector: Open,
    queue: Open,
    _forms: [Open; 2],
    /// Counts this endpoint in its address vector, which allows sets with collectives.
    _offloaded: Offloaded,
    /// Completion queue of the offload's transfers.
    transfers: Arc<CompletionQueue>,
    /// Number of joined collective groups.
    groups: Atomic<usize>,
}

impl Offload {
    /// Pairs an endpoint with the provider of `domain`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS for an endpoint that was not opened with FI_COLLECTIVE, and for a domain without calls;
    /// -FI_EOPBADSTATE before the endpoint is enabled, -FI_EALREADY, -FI_ENOMEM; the errors of the provider;
    /// -FI_EINVAL if the provider has left a result NULL.
    ///
    /// # Safety
    ///
    /// `domain` is valid, and stays open until the endpoint has been closed.
    pub(super) unsafe fn pair(object: &EndpointObject, domain: *mut fid_domain) -> Result<Self> {
        let endpoint = object.endpoint();
        let addresses = endpoint.address_vector()?;
        // SAFETY: By the caller's contract, `domain` is valid; the exported objects are this offload's own.
        unsafe {
            let ops = table((*domain).ops)?;
            // Exported by its own call, which switches the queue's readers to the entries that peers write.
            let cq_form = export(object.completions())?;
            let av_form = peer::form_of_vector(&addresses, object.addr_format())?;
            let forms = [cq_form, Open::own(av_form)];
            let [cq_form, av_form] = &forms;
            let attr = fi_cq_attr {
                format: abi::FI_CQ_FORMAT_TAGGED,
                flags: abi::FI_PEER,
                ..pin_init::zeroed()
            };
            let context = fi_peer_cq_context {
                size: size_of::<fi_peer_cq_context>(),
                cq: cq_form.get(),
            };
            let queue = Open::child(ops.cq_open, domain, attr, context)?;
            let attr = fi_av_attr {
                flags: abi::FI_PEER,
                ..pin_init::zeroed()
            };
            let context = fi_peer_av_context {
                size: size_of::<fi_peer_av_context>(),
                av: av_form.get(),
            };
            let vector = Open::child(ops.av_open, domain, attr, context)?;
            let (ep, calls) = open_endpoint(object, domain, ops)?;
            let transfers = endpoint.domain().completion_queue(&cq::Attr {
                size: 0,
                format: Format::Tagged,
                waitable: false,
                vector: 0,
            })?;
            let offload = Self {
                ep,
                vector,
                queue,
                _forms: forms,
                _offloaded: Offloaded::new(addresses),
                transfers,
                groups: Atomic::new(0),
            };
            let begun = offload.begin(endpoint, calls, object.addr_format());
            begun.inspect_err(|_| offload.end())?;
            Ok(offload)
        }
    }

    /// Starts to forward completions of transfers, and binds and enables the offload's endpoint.
    ///
    /// # Safety
    ///
    /// The offload's objects are open and valid.
    unsafe fn begin(
        &self,
        endpoint: &Endpoint,
        calls: fi_ops_transfer_peer,
        format: u32,
    ) -> Result {
        let ep = self.ep();
        // SAFETY: By the caller's contract, the offload's endpoint stays open until `transfers` is closed.
        let courier = unsafe { CompForwarder::new(&self.transfers, ep, calls, format) };
        let handler = Handler::Task(KBox::new(courier, GFP_KERNEL)?);
        self.transfers.set_handler(handler)?;
        self.transfers.arm_handler();
        let fid = self.ep.get::<fid>();
        let both = abi::FI_TRANSMIT | abi::FI_RECV;
        // SAFETY: By the caller's contract, the offload's endpoint is open.
        unsafe {
            let ops = table((*fid).ops)?;
            let bind = ops.bind.ok_or(Errno::ENOSYS)?;
            let control = ops.control.ok_or(Errno::ENOSYS)?;
            from_int(bind(fid, self.vector.get(), 0))?;
            from_int(bind(fid, self.queue.get(), both))?;
            from_int(control(fid, abi::FI_ENABLE as c_int, ptr::null_mut()))?;
        }
        endpoint.bind_transfer_cq(&self.transfers)
    }

    /// Returns the offload's endpoint.
    fn ep(&self) -> *mut fid_ep {
        self.ep.get()
    }

    /// Returns the offload's address vector.
    fn vector(&self) -> *mut fid_av {
        self.vector.get()
    }

    /// Checks that the offload has calls for the collectives in `collectives`: FI_BARRIER_SET, ...
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP if one is missing.
    fn check(&self, collectives: u64) -> Result {
        // SAFETY: The offload's endpoint stays open as long as this object, and so does its table of calls.
        let there = unsafe { ops::supported((*self.ep()).collective) };
        match collectives & !there {
            0 => Ok(()),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Counts a group that has been joined.
    fn joined(&self) {
        let _ = self.groups.fetch_add(1usize, Full);
    }

    /// Counts a group that has been left.
    fn left(&self) {
        let _ = self.groups.fetch_sub(1usize, Full);
    }

    /// Checks that the endpoint can be closed.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY while a group is joined.
    pub(super) fn check_idle(&self) -> Result {
        match self.groups.load(Acquire) {
            0 => Ok(()),
            _ => Err(Errno::EBUSY),
        }
    }

    /// Closes the queue of transfers: after the endpoint has been closed, or if [`Self::begin`] has failed. May
    /// sleep.
    pub(super) fn end(&self) {
        let _ = self.transfers.close();
    }
}

/// Opens the offload's endpoint for transfers, and returns it with the offload's completion calls.
///
/// # Errors
///
/// -FI_ENOSYS without `fi_endpoint2()`, the errors of that call; -FI_EINVAL if a result or a call is NULL.
///
/// # Safety
///
/// The requirements of [`Offload::pair`]; `ops` is the domain's table.
unsafe fn open_endpoint(
    object: &EndpointObject,
    domain: *mut fid_domain,
    ops: &fi_ops_domain,
) -> Result<(Open, fi_ops_transfer_peer)> {
    let call = ops.endpoint2.ok_or(Errno::ENOSYS)?;
    let mut info = Info::new()?;
    info.set_ep(&abi::fi_ep_attr {
        type_: abi::FI_EP_RDM,
        ..pin_init::zeroed()
    })?;
    let mut ep: *mut fid_ep = ptr::null_mut();
    let mut context = fi_peer_transfer_context {
        size: size_of::<fi_peer_transfer_context>(),
        info: ptr::null_mut(),
        ep: ptr::from_ref(object).cast_mut().cast(),
        peer_ops: ptr::null_mut(),
    };
    let (flags, at) = (abi::FI_PEER_TRANSFER, (&raw mut context).cast());
    // SAFETY: By the caller's contract, the domain is valid; the offload's struct begins with its size.
    let (ep, calls) = unsafe {
        let answer = call(domain, info.as_raw(), &mut ep, flags, at);
        let ep = Open::new(answer, ep)?;
        (
            ep,
            *peer::sized::<fi_ops_transfer_peer>(context.peer_ops.cast())?,
        )
    };
    if calls.complete.is_none() || calls.comperr.is_none() {
        return Err(Errno::EINVAL);
    }
    Ok((ep, calls))
}
