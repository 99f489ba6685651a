// SPDX-License-Identifier: GPL-2.0

//! Offload providers: another module's provider runs the collectives of an endpoint, with transfers of the
//! endpoint. `fi_import_fid()` of an endpoint pairs the two.
//!
//! The endpoint opens peer objects in the offload's domain: with FI_PEER an address vector and a completion
//! queue, and with FI_PEER_TRANSFER an endpoint. The transfers that the offload posts with FI_PEER_TRANSFER
//! complete in a queue of their own, whose handler reports them to the offload one at a time in process
//! context.

mod collective;
mod completion;
mod peer_open;

pub(super) use self::collective::{
    COLLECTIVE_OPS,
    GROUP_OPS, //
};

use self::{
    completion::CompForwarder,
    peer_open::{
        checked_table,
        export,
        Open, //
    },
};
use super::{
    ep::EndpointObject,
    peer,
    prelude::*, //
};
use crate::{
    abi::errno::from_int,
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

/// An offload that is paired with an endpoint.
pub(super) struct Offload {
    // Dropped in this order.
    ep: Open<fid_ep>,
    av: Open<fid_av>,
    cq: Open<fid_cq>,
    _peer_objects: [Open<fid>; 2],
    /// Counts this endpoint in its address vector, which allows sets with collectives.
    _offloaded: Offloaded,
    /// Completion queue of the offload's transfers.
    transfer_cq: Arc<CompletionQueue>,
    /// Number of joined collective groups.
    group_count: Atomic<usize>,
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
        let endpoint = &object.endpoint;
        let addresses = endpoint.address_vector()?;
        // SAFETY: By the caller's contract, `domain` is valid; the exported objects are this offload's own.
        unsafe {
            let ops = checked_table((*domain).ops)?;
            // Exported by its own call, which switches the queue's readers to the entries that peers write.
            let tx_cq_fid = object.shared.tx_cq_fid.load(Relaxed);
            let cq_form = export(ptr::with_exposed_provenance_mut(tx_cq_fid))?;
            let av_form = peer::export_internal(&addresses, object.shared.addr_format)?;
            let peer_objects = [cq_form, Open::from_result(0, av_form)?];
            let [cq_form, av_form] = &peer_objects;
            let attr = fi_cq_attr {
                format: abi::FI_CQ_FORMAT_TAGGED,
                flags: abi::FI_PEER,
                ..pin_init::zeroed()
            };
            let context = fi_peer_cq_context {
                size: size_of::<fi_peer_cq_context>(),
                cq: cq_form.as_ptr().cast(),
            };
            let cq = Open::open_child(ops.cq_open, domain, attr, context)?;
            let attr = fi_av_attr {
                flags: abi::FI_PEER,
                ..pin_init::zeroed()
            };
            let context = fi_peer_av_context {
                size: size_of::<fi_peer_av_context>(),
                av: av_form.as_ptr().cast(),
            };
            let av = Open::open_child(ops.av_open, domain, attr, context)?;
            let (ep, calls) = open_endpoint(object, domain, ops)?;
            let transfer_cq = endpoint.domain().completion_queue(&cq::Attr {
                size: 0,
                format: Format::Tagged,
                waitable: false,
                vector: 0,
            })?;
            let offload = Self {
                ep,
                av,
                cq,
                _peer_objects: peer_objects,
                _offloaded: Offloaded::new(addresses),
                transfer_cq,
                group_count: Atomic::new(0),
            };
            let begun = offload.start(endpoint, calls, object.shared.addr_format);
            begun.inspect_err(|_| offload.close())?;
            Ok(offload)
        }
    }

    /// Starts to forward completions of transfers, and binds and enables the offload's endpoint.
    ///
    /// # Safety
    ///
    /// The offload's objects are open and valid.
    unsafe fn start(
        &self,
        endpoint: &Endpoint,
        calls: fi_ops_transfer_peer,
        addr_format: u32,
    ) -> Result {
        // INVARIANT: By the caller's contract, the offload's endpoint stays open until `transfer_cq` is closed.
        let forwarder = CompForwarder {
            queue: self.transfer_cq.core().clone(),
            handler: self.transfer_cq.clone(),
            ep: self.ep.as_ptr().expose_provenance(),
            peer: calls,
            addr_format,
        };
        let handler = Handler::Task(KBox::new(forwarder, GFP_KERNEL)?);
        self.transfer_cq.set_handler(handler)?;
        self.transfer_cq.arm_handler();
        let fid: *mut fid = self.ep.as_ptr().cast();
        let both = abi::FI_TRANSMIT | abi::FI_RECV;
        // SAFETY: By the caller's contract, the offload's endpoint is open.
        unsafe {
            let ops = checked_table((*fid).ops)?;
            let bind = ops.bind.ok_or(Errno::ENOSYS)?;
            let control = ops.control.ok_or(Errno::ENOSYS)?;
            from_int(bind(fid, self.av.as_ptr().cast(), 0))?;
            from_int(bind(fid, self.cq.as_ptr().cast(), both))?;
            from_int(control(fid, abi::FI_ENABLE as c_int, ptr::null_mut()))?;
        }
        endpoint.bind_transfer_cq(&self.transfer_cq)
    }

    /// Checks that the endpoint can be closed.
    ///
    /// # Errors
    ///
    /// -FI_EBUSY while a group is joined.
    pub(super) fn check_idle(&self) -> Result {
        ensure(self.group_count.load(Acquire) == 0, Errno::EBUSY)
    }

    /// Closes the queue of transfers: after the endpoint has been closed, or if [`Self::start`] has failed. May
    /// sleep.
    pub(super) fn close(&self) {
        let _ = self.transfer_cq.close();
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
) -> Result<(Open<fid_ep>, fi_ops_transfer_peer)> {
    let call = ops.endpoint2.ok_or(Errno::ENOSYS)?;
    let mut info = Info::new()?;
    info.set_ep(&abi::fi_ep_attr {
        type_: abi::FI_EP_RDM,
        ..pin_init::zeroed()
    })?;
    let mut ep = ptr::null_mut();
    let mut context = fi_peer_transfer_context {
        size: size_of::<fi_peer_transfer_context>(),
        info: ptr::null_mut(),
        ep: ptr::from_ref(object).cast_mut().cast(),
        peer_ops: ptr::null_mut(),
    };
    let (flags, at) = (abi::FI_PEER_TRANSFER, (&raw mut context).cast());
    // SAFETY: By the caller's contract, the domain is valid; the offload's struct begins with its size.
    let (ep, calls) = unsafe {
        let ret = call(domain, info.as_raw(), &mut ep, flags, at);
        let ep = Open::from_result(ret, ep)?;
        let calls: &fi_ops_transfer_peer = peer::checked_struct(context.peer_ops.cast())?;
        (ep, *calls)
    };
    ensure(
        calls.complete.is_some() && calls.comperr.is_some(),
        Errno::EINVAL,
    )?;
    Ok((ep, calls))
}
