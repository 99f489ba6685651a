// SPDX-License-Identifier: GPL-2.0

//! Active endpoints for C callers, and contexts of scalable endpoints, which are endpoints of other classes.

use super::{
    av::AvObject,
    cm,
    cntr,
    cq,
    domain::DomainObject,
    eq,
    nosys,
    offload::{
        self,
        Offload, //
    },
    ops_tables::ProviderOps,
    options::{
        getopt,
        read_option, //
    },
    prelude::*,
    srx,
    stx, //
};
use crate::{
    fi::{
        ep::Endpoint,
        eq::Source,
        object::Parent, //
    },
    util::once::read_once, //
};

/// An endpoint, an alias of one, or a context of a scalable endpoint, as C callers hold it.
#[repr(C)]
pub(super) struct EndpointObject {
    fid: fid_ep,
    /// The provider's endpoint, of the type that `fid.msg` was made for.
    pub(super) provider_ep: *const c_void,
    /// Default flags of transmits without a flags argument, from the info or FI_SETOPSFLAG.
    pub(super) tx_op_flags: Atomic<u64>,
    /// Default flags of receives without a flags argument, from the info or FI_SETOPSFLAG.
    pub(super) rx_op_flags: Atomic<u64>,
    pub(super) endpoint: Arc<Endpoint>,
    /// State that the endpoint shares with its aliases.
    pub(super) shared: Arc<EpShared>,
    /// Reference that an alias holds on the endpoint; `None` for the endpoint itself.
    alias: Option<ChildRef<Endpoint>>,
}

/// State that an endpoint and its aliases share.
pub(super) struct EpShared {
    /// Provider of the endpoint's collectives, once the endpoint is paired with one.
    pub(super) offload: SetOnce<Offload>,
    /// Address of the `struct fid` of the transmit completion queue, 0 before it is bound. The queue cannot
    /// be closed before the endpoint.
    pub(super) tx_cq_fid: Atomic<usize>,
    pub(super) addr_format: u32,
}

fi_ops! {
    impl Object for EndpointObject: FI_CLASS_EP | FI_CLASS_TX_CTX | FI_CLASS_RX_CTX {
        bind: fn fi_ep_bind(ep: &EndpointObject, other, flags) -> Result {
            // SAFETY: `other` is NULL or valid.
            let class = unsafe { other.as_ref() }.ok_or(Errno::EINVAL)?.fclass;
            in_process()?;
            let class = u32::try_from(class).map_err(|_| Errno::EINVAL)?;
            // SAFETY: As above; a domain stays open until the endpoint has been closed, by the contract of
            // `fi_import_fid()`.
            unsafe { ep.bind(class, other, flags) }
        }

        control: fn fi_control(ep: &EndpointObject, command, arg) -> Result {
            match command as u32 {
                abi::FI_ENABLE => {
                    in_process()?;
                    ep.endpoint.enable()
                }
                abi::FI_ALIAS => {
                    in_process()?;
                    // SAFETY: For this command, `arg` is NULL or a valid `fi_alias`.
                    let alias = unsafe { arg.cast::<fi_alias>().as_ref() }.ok_or(Errno::EINVAL)?;
                    // SAFETY: The alias's `fid` is NULL or valid for writing.
                    unsafe { ep.open_alias(alias) }
                }
                abi::FI_GETOPSFLAG => {
                    // SAFETY: For this command, `arg` is NULL or a valid `u64`.
                    let flags = unsafe { arg.cast::<u64>().as_mut() }.ok_or(Errno::EINVAL)?;
                    *flags = ep.op_flags(*flags)?.load(Relaxed);
                    Ok(())
                }
                abi::FI_SETOPSFLAG => {
                    // SAFETY: For this command, `arg` is NULL or a valid `u64`.
                    let flags = unsafe { arg.cast::<u64>().as_ref() }.ok_or(Errno::EINVAL)?;
                    ep.set_op_flags(*flags)
                }
                _ => Err(Errno::ENOSYS),
            }
        }
    }
    close(ep) {
        if ep.alias.is_some() {
            return Ok(());
        }
        let offload = ep.shared.offload.as_ref();
        offload.map_or(Ok(()), Offload::check_idle)?;
        // Aliases and bound regions are closed before the endpoint.
        ep.endpoint.users().try_close()?;
        // C callers keep track of the contexts of unfinished operations themselves.
        ep.endpoint.close(&mut |_| {});
        if let Some(offload) = offload {
            offload.close();
        }
        Ok(())
    }
}

impl EndpointObject {
    /// Returns the default flags of the direction that `selector` names; -FI_EINVAL unless it names one that
    /// the endpoint has.
    fn op_flags(&self, selector: u64) -> Result<&Atomic<u64>> {
        match selector & DIRECTIONS & self.endpoint.core().directions() {
            abi::FI_TRANSMIT => Ok(&self.tx_op_flags),
            abi::FI_RECV => Ok(&self.rx_op_flags),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Sets the default flags of the direction that `flags` names; -FI_EBADFLAGS for flags that cannot be
    /// defaults.
    fn set_op_flags(&self, flags: u64) -> Result {
        let own = self.op_flags(flags)?;
        let new = flags & !DIRECTIONS;
        let more = match flags & abi::FI_RECV {
            0 => abi::FI_INJECT,
            _ => abi::FI_MULTI_RECV,
        };
        check_op_flags(new, more)?;
        own.store(new, Relaxed);
        Ok(())
    }

    /// Returns the provider of the endpoint's collectives.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a context, -FI_ENOSYS if the endpoint is not paired with a provider.
    pub(super) fn offload(&self) -> Result<&Offload> {
        ensure(self.fid.fid.fclass == Self::CLASS as usize, Errno::EINVAL)?;
        self.shared.offload.as_ref().ok_or(Errno::ENOSYS)
    }

    /// Binds an object of that class to the endpoint. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for another class, and the errors of the endpoint for each class.
    ///
    /// # Safety
    ///
    /// `other` is valid. A domain stays open until the endpoint has been closed.
    unsafe fn bind(&self, class: u32, other: *mut fid, flags: u64) -> Result {
        // SAFETY: By the caller's contract, `other` is valid, and a domain stays open until the endpoint has
        // been closed.
        unsafe {
            match class {
                abi::FI_CLASS_EQ => {
                    let events = from_fid::<eq::QueueObject>(other)?;
                    self.endpoint.bind_eq(&events.queue, flags)
                }
                abi::FI_CLASS_CQ => {
                    let cq = from_fid::<cq::QueueObject>(other)?;
                    self.endpoint.bind_cq(&cq.queue, flags)?;
                    if flags & abi::FI_TRANSMIT != 0 {
                        let cq_fid = other.expose_provenance();
                        self.shared.tx_cq_fid.store(cq_fid, Relaxed);
                    }
                    Ok(())
                }
                abi::FI_CLASS_AV => {
                    let av = from_fid::<AvObject>(other)?;
                    self.endpoint.bind_av(&av.av, flags)
                }
                abi::FI_CLASS_SRX_CTX => {
                    let srx = from_fid::<srx::SharedObject>(other)?;
                    self.endpoint.bind_srx(&srx.srx, flags)
                }
                abi::FI_CLASS_STX_CTX => {
                    let stx = from_fid::<stx::SharedObject>(other)?;
                    self.endpoint.bind_stx(&stx.stx, flags)
                }
                abi::FI_CLASS_CNTR => {
                    let cntr = from_fid::<cntr::CounterObject>(other)?;
                    self.endpoint.bind_counter(&cntr.counter, flags)
                }
                abi::FI_CLASS_DOMAIN if flags != 0 => Err(Errno::EBADFLAGS),
                // The offload keeps a pointer to the object until the endpoint is closed; an alias is closed
                // before that.
                abi::FI_CLASS_DOMAIN if self.alias.is_some() => Err(Errno::EINVAL),
                abi::FI_CLASS_DOMAIN if self.shared.offload.as_ref().is_some() => {
                    Err(Errno::EALREADY)
                }
                abi::FI_CLASS_DOMAIN => {
                    let offload = Offload::pair(self, other.cast())?;
                    let is_first = self.shared.offload.populate(offload);
                    ensure(is_first, Errno::EALREADY)
                }
                _ => Err(Errno::EINVAL),
            }
        }
    }

    /// Makes an alias of the endpoint, with default flags of its own (`fi_ep_alias()`). May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for NULL, -FI_EBADFLAGS, -FI_ENOMEM.
    ///
    /// # Safety
    ///
    /// `alias.fid` is NULL or valid for writing.
    unsafe fn open_alias(&self, alias: &fi_alias) -> Result {
        ensure(!alias.fid.is_null(), Errno::EINVAL)?;
        let made = Self {
            fid: self.fid,
            provider_ep: self.provider_ep,
            tx_op_flags: Atomic::new(read_once(&self.tx_op_flags)),
            rx_op_flags: Atomic::new(read_once(&self.rx_op_flags)),
            endpoint: self.endpoint.clone(),
            shared: self.shared.clone(),
            alias: Some(ChildRef::new(&self.endpoint)?),
        };
        made.set_op_flags(alias.flags)?;
        // SAFETY: By the caller's contract, `alias.fid` is valid.
        unsafe { Opening::new(alias.fid)? }.open(made)
    }

    /// Makes the object for an endpoint that was opened with `info`; `class` is FI_CLASS_EP or that of a context.
    pub(super) fn new(
        class: u32,
        provider_ops: &ProviderOps,
        endpoint: Arc<Endpoint>,
        info: &Info,
        context: *mut c_void,
    ) -> Result<Self> {
        let common = fid {
            fclass: class as usize,
            ..new_fid::<Self>(context)
        };
        let mut fid = fid_ep {
            ops: ptr::from_ref(&OPS).cast_mut(),
            msg: ptr::from_ref(provider_ops.msg).cast_mut(),
            atomic: ptr::from_ref(provider_ops.atomic).cast_mut(),
            collective: ptr::from_ref(&offload::COLLECTIVE_OPS).cast_mut(),
            ..nosys::endpoint(common)
        };
        // Contexts of a scalable endpoint have no connection management.
        if class == Self::CLASS {
            fid.cm = ptr::from_ref(&cm::ACTIVE_OPS).cast_mut();
        }
        if info.caps() & abi::FI_RMA != 0 {
            fid.rma = ptr::from_ref(provider_ops.rma).cast_mut();
        }
        if info.caps() & abi::FI_TAGGED != 0 {
            fid.tagged = ptr::from_ref(provider_ops.tagged).cast_mut();
        }
        let shared = EpShared {
            offload: SetOnce::new(),
            tx_cq_fid: Atomic::new(0),
            addr_format: info.addr_format(),
        };
        Ok(Self {
            fid,
            shared: Arc::new(shared, GFP_KERNEL)?,
            alias: None,
            provider_ep: (provider_ops.ep_addr)(endpoint.core().as_any())?,
            tx_op_flags: Atomic::new(info.tx().map_or(0, |tx| tx.op_flags)),
            rx_op_flags: Atomic::new(info.rx().map_or(0, |rx| rx.op_flags)),
            endpoint,
        })
    }
}

fi_ops! {
    static OPS: fi_ops_ep {
        cancel: fn fi_cancel(ep: &EndpointObject, context) -> Result<usize> {
            ep.endpoint.core().cancel(Context::new(context))?;
            Ok(0)
        }

        getopt: fn fi_getopt(ep: &EndpointObject, level, name, value, len) -> Result {
            let core = ep.endpoint.core();
            let data_size = Some(core.private_data_limit());
            // SAFETY: `len` is NULL or valid, `value` is NULL or valid for `*len` bytes.
            unsafe { getopt(|option| core.getopt(option), data_size, level, name, value, len) }
        }

        setopt: fn fi_setopt(ep: &EndpointObject, level, name, value, len) -> Result {
            // SAFETY: `value` is NULL or valid for `len` bytes.
            let (option, value) = unsafe { read_option(level, name, value, len)? };
            ep.endpoint.core().setopt(option, value)
        }

        rx_size_left: fn fi_rx_size_left(ep: &EndpointObject) -> Result<usize> {
            ep.endpoint.core().receives_left()
        }

        tx_size_left: fn fi_tx_size_left(ep: &EndpointObject) -> Result<usize> {
            ep.endpoint.core().transmits_left()
        }
    }
}

fi_ops! {
    /// `fi_endpoint()` and `fi_endpoint2()`.
    pub(super) const DOMAIN_OPS: fi_ops_domain {
        endpoint: fn fi_endpoint(domain: InProcess<&DomainObject>, info, out, context) -> Result {
            // SAFETY: `info` and `out` are NULL or valid, and `info` is not shared during the call.
            unsafe { open(&domain, info, out, context) }
        }

        endpoint2: fn fi_endpoint2(domain: *mut fid, info, out, flags, context) -> Result {
            // No flags are supported.
            ensure(flags == 0, Errno::EINVAL)?;
            // SAFETY: `domain` is NULL or valid.
            let domain = unsafe { InProcess::<&DomainObject>::from_fid(domain)? };
            // SAFETY: As for `fi_endpoint()`.
            unsafe { open(&domain, info, out, context) }
        }
    }
}

/// Opens an endpoint.
///
/// # Safety
///
/// `info` and `out` are NULL or valid, and `info` is not shared during the call.
unsafe fn open(
    domain: &DomainObject,
    info: *mut fi_info,
    out: *mut *mut fid_ep,
    context: *mut c_void,
) -> Result {
    // SAFETY: By the caller's contract.
    let (info, slot) = unsafe { open_info(info, out)? };
    let source = Source(slot.address());
    let endpoint = domain.domain.endpoint(info, source)?;
    slot.open(EndpointObject::new(
        EndpointObject::CLASS,
        domain.provider_ops,
        endpoint,
        info,
        context,
    )?)
}

/// Flags that select a direction.
const DIRECTIONS: u64 = abi::FI_TRANSMIT | abi::FI_RECV;

/// Checks that flags can be the defaults of calls without a flags argument. `more` is allowed besides
/// [`OP_FLAGS`].
///
/// # Errors
///
/// -FI_EBADFLAGS.
pub(super) fn check_op_flags(flags: u64, more: u64) -> Result {
    ensure(flags & !(OP_FLAGS | more) == 0, Errno::EBADFLAGS)
}

/// Flags that FI_SETOPSFLAG may set for either direction.
const OP_FLAGS: u64 = abi::FI_COMPLETION
    | abi::FI_INJECT_COMPLETE
    | abi::FI_TRANSMIT_COMPLETE
    | abi::FI_DELIVERY_COMPLETE;
