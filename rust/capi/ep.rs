// SPDX-License-Identifier: GPL-2.0

//! Active endpoints for C callers.

use super::{
    av,
    cm::{
        self,
        NamedObject, //
    },
    cntr,
    cq,
    domain::DomainObject,
    eq,
    nosys,
    object::{
        self,
        new_fid,
        open_info,
        Object,
        Opening, //
    },
    offload::{
        self,
        Offload, //
    },
    ops::{
        fi_close,
        fi_ops,
        FromFid,
        InProcess, //
    },
    ops_tables::ProviderOps,
    srx,
    stx, //
};
use crate::{
    abi::{
        errno::from_int,
        fi_alias,
        fi_info,
        fi_ops,
        fi_ops_ep, //
    },
    fi::{
        ep::Endpoint,
        eq::Source,
        object::{
            ChildCount,
            Parent, //
        },
        prelude::*,
        provider::EpOption, //
    },
    util::{
        context,
        once::read_once, //
    },
};

/// An endpoint or an alias of one, as C callers hold it.
#[repr(C)]
pub(super) struct EndpointObject {
    fid: fid_ep,
    /// The provider's endpoint, of the type that `fid.msg` was made for.
    provider_ep: *const c_void,
    /// Default flags of transmits without a flags argument, from the info or FI_SETOPSFLAG.
    tx_op_flags: Atomic<u64>,
    /// Default flags of receives without a flags argument, from the info or FI_SETOPSFLAG.
    rx_op_flags: Atomic<u64>,
    endpoint: Arc<Endpoint>,
    /// State that the endpoint shares with its aliases, which are children of it.
    shared: Arc<EpShared>,
    /// Reference that an alias holds on the shared state; `None` for the endpoint itself.
    alias: Option<ChildRef<EpShared>>,
}

/// State that an endpoint and its aliases share.
pub(super) struct EpShared {
    /// Counts the aliases: the endpoint cannot be closed before them.
    alias_count: ChildCount,
    /// Provider of the endpoint's collectives, once the endpoint is paired with one.
    offload: SetOnce<Offload>,
    /// Address of the `struct fid` of the transmit completion queue, 0 before it is bound. The queue cannot
    /// be closed before the endpoint.
    tx_cq_fid: Atomic<usize>,
    addr_format: u32,
}

impl EpShared {
    /// Returns the provider of the endpoint's collectives, if there is one.
    pub(super) fn offload(&self) -> Option<&Offload> {
        self.offload.as_ref()
    }
}

impl Parent for EpShared {
    fn users(&self) -> &ChildCount {
        &self.alias_count
    }
}

// SAFETY: `#[repr(C)]`, begins with a `fid_ep`, and is the only type with this table.
unsafe impl Object for EndpointObject {
    const CLASS: u32 = abi::FI_CLASS_EP;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = fid_ops::<EndpointObject>();
        &OPS
    }

    fn close(&self) -> Result {
        if self.alias.is_some() {
            return Ok(());
        }
        let offload = self.shared.offload.as_ref();
        offload.map_or(Ok(()), Offload::check_idle)?;
        self.shared.alias_count.try_close()?;
        // C callers keep track of the contexts of unfinished operations themselves.
        self.endpoint.close(&mut |_| {});
        if let Some(offload) = offload {
            offload.close();
        }
        Ok(())
    }
}

/// Makes the table of the calls that every object has, for an endpoint or a context.
const fn fid_ops<T: Object>() -> fi_ops {
    fi_ops {
        close: Some(fi_close::<T>),
        bind: Some(fi_ep_bind),
        control: Some(fi_control),
        ..nosys::FID
    }
}

impl AsRef<Self> for EndpointObject {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A transmit or receive context of a scalable endpoint, which is an endpoint of another class to C callers.
pub(super) trait ContextObject: Object + AsRef<EndpointObject> {
    /// Makes a context from an endpoint object.
    fn from_endpoint(object: EndpointObject) -> Self;
}

macro_rules! contexts {
    ($($(#[$doc:meta])* $name:ident: $class:ident;)*) => {
        $(
            $(#[$doc])*
            #[repr(transparent)]
            pub(super) struct $name(EndpointObject);

            // SAFETY: An `EndpointObject` is `#[repr(C)]` and begins with a `fid_ep`; this is the only
            // type with this table.
            unsafe impl Object for $name {
                const CLASS: u32 = abi::$class;

                fn ops() -> &'static fi_ops {
                    static OPS: fi_ops = fid_ops::<$name>();
                    &OPS
                }

                fn close(&self) -> Result {
                    self.0.close()
                }
            }

            impl AsRef<EndpointObject> for $name {
                fn as_ref(&self) -> &EndpointObject {
                    &self.0
                }
            }

            impl ContextObject for $name {
                fn from_endpoint(object: EndpointObject) -> Self {
                    Self(object)
                }
            }
        )*
    };
}

contexts! {
    /// A transmit context.
    TransmitObject: FI_CLASS_TX_CTX;

    /// A receive context.
    ReceiveObject: FI_CLASS_RX_CTX;
}

/// An endpoint or a context of a scalable endpoint.
struct AnyEndpoint<'a>(&'a EndpointObject);

/// Checks the class; -FI_EINVAL for NULL, another class, or an object of another module.
impl FromFid for AnyEndpoint<'_> {
    unsafe fn from_fid(fid: *mut fid) -> Result<Self> {
        // SAFETY: By the contract of this function, `fid` is NULL or valid as long as the result.
        unsafe {
            object::from_fid::<EndpointObject>(fid)
                .or_else(|_| object::from_fid::<TransmitObject>(fid).map(AsRef::as_ref))
                .or_else(|_| object::from_fid::<ReceiveObject>(fid).map(AsRef::as_ref))
                .map(Self)
        }
    }
}

impl Deref for AnyEndpoint<'_> {
    type Target = EndpointObject;

    fn deref(&self) -> &EndpointObject {
        self.0
    }
}

impl EndpointObject {
    #[inline]
    pub(super) fn provider_ep(&self) -> *const c_void {
        self.provider_ep
    }

    #[inline]
    pub(super) fn tx_op_flags(&self) -> u64 {
        read_once(&self.tx_op_flags)
    }

    #[inline]
    pub(super) fn rx_op_flags(&self) -> u64 {
        read_once(&self.rx_op_flags)
    }

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

    /// Returns the Rust object.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the `fid` of the transmit completion queue, or NULL before it is bound.
    pub(super) fn tx_cq_fid(&self) -> *mut fid {
        ptr::with_exposed_provenance_mut(self.shared.tx_cq_fid.load(Relaxed))
    }

    /// Returns the provider of the endpoint's collectives.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if the endpoint is not paired with one.
    pub(super) fn offload(&self) -> Result<&Offload> {
        self.shared.offload().ok_or(Errno::ENOSYS)
    }

    /// Returns the state that the endpoint shares with its aliases.
    pub(super) fn shared(&self) -> &Arc<EpShared> {
        &self.shared
    }
}

impl NamedObject for EndpointObject {
    fn addr_format(&self) -> u32 {
        self.shared.addr_format
    }

    fn set_name(&self, addr: SocketAddr) -> Result {
        self.endpoint.core().set_name(addr)
    }

    fn name(&self) -> Result<SocketAddr> {
        self.endpoint.core().name()
    }
}

fi_ops! {
    static OPS: fi_ops_ep {
        cancel: fn fi_cancel(
            ep: *mut fid as AnyEndpoint<'_>,
            context: *mut c_void,
        ) -> Result<usize> {
            ep.endpoint.core().cancel(Context::new(context))?;
            Ok(0)
        }

        getopt: fn fi_getopt(
            ep: *mut fid as AnyEndpoint<'_>,
            level: c_int,
            name: c_int,
            value: *mut c_void,
            len: *mut usize,
        ) -> Result {
            let core = ep.endpoint.core();
            let option = |name| match name {
                abi::FI_OPT_CM_DATA_SIZE => Some(core.private_data_limit()),
                _ => ep_option(name).and_then(|option| core.getopt(option).ok()),
            };
            // SAFETY: `len` is NULL or valid, `value` is NULL or valid for `*len` bytes.
            unsafe { cm::getopt(option, level, name, value, len) }
        }

        setopt: fn fi_setopt(
            ep: *mut fid as AnyEndpoint<'_>,
            level: c_int,
            name: c_int,
            value: *const c_void,
            len: usize,
        ) -> Result {
            // SAFETY: `value` is NULL or valid for `len` bytes.
            let (option, value) = unsafe { read_option(level, name, value, len)? };
            ep.endpoint.core().setopt(option, value)
        }

        rx_size_left: fn fi_rx_size_left(ep: *mut fid_ep as AnyEndpoint<'_>) -> Result<usize> {
            ep.endpoint.core().receives_left()
        }

        tx_size_left: fn fi_tx_size_left(ep: *mut fid_ep as AnyEndpoint<'_>) -> Result<usize> {
            ep.endpoint.core().transmits_left()
        }
    }
}

fi_ops! {
    pub(super) fn fi_endpoint(
        domain: *mut fid_domain as InProcess<&DomainObject>,
        info: *mut fi_info,
        out: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> Result {
        // SAFETY: `info` and `out` are NULL or valid, and `info` is not shared during the call.
        let (info, slot) = unsafe { open_info::<EndpointObject, _>(info, out)? };
        let endpoint = domain.domain().endpoint(info, Source(slot.address()))?;
        let provider_ops = domain.provider_ops();
        slot.open(make_object::<EndpointObject>(
            provider_ops,
            endpoint,
            info,
            context,
        )?)
    }

    pub(super) fn fi_endpoint2(
        domain: *mut fid_domain as *mut fid,
        info: *mut fi_info,
        out: *mut *mut fid_ep,
        flags: u64,
        context: *mut c_void,
    ) -> Result {
        // No flags are supported.
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: The arguments are as `fi_endpoint()` requires.
        from_int(unsafe { fi_endpoint(domain.cast(), info, out, context) }).map(drop)
    }

    fn fi_ep_bind(ep: *mut fid as AnyEndpoint<'_>, other: *mut fid, flags: u64) -> Result {
        // SAFETY: `other` is NULL or valid.
        let class = unsafe { other.as_ref() }.ok_or(Errno::EINVAL)?.fclass;
        context::in_process()?;
        let class = u32::try_from(class).map_err(|_| Errno::EINVAL)?;
        // SAFETY: As above; a domain stays open until the endpoint has been closed, by the contract of
        // `fi_import_fid()`.
        unsafe { ep.bind(class, other, flags) }
    }

    fn fi_control(ep: *mut fid as AnyEndpoint<'_>, command: c_int, arg: *mut c_void) -> Result {
        match u32::try_from(command) {
            Ok(abi::FI_ENABLE) => {
                context::in_process()?;
                ep.endpoint.enable()
            }
            Ok(abi::FI_ALIAS) => {
                context::in_process()?;
                // SAFETY: For this command, `arg` is NULL or a valid `fi_alias`.
                let alias = unsafe { arg.cast::<fi_alias>().as_ref() }.ok_or(Errno::EINVAL)?;
                // SAFETY: The alias's `fid` is NULL or valid for writing.
                unsafe { ep.open_alias(alias) }
            }
            Ok(abi::FI_GETOPSFLAG) => {
                // SAFETY: For this command, `arg` is NULL or a valid `u64`.
                let flags = unsafe { arg.cast::<u64>().as_mut() }.ok_or(Errno::EINVAL)?;
                *flags = ep.op_flags(*flags)?.load(Relaxed);
                Ok(())
            }
            Ok(abi::FI_SETOPSFLAG) => {
                // SAFETY: For this command, `arg` is NULL or a valid `u64`.
                let flags = unsafe { arg.cast::<u64>().as_ref() }.ok_or(Errno::EINVAL)?;
                ep.set_op_flags(*flags)
            }
            _ => Err(Errno::ENOSYS),
        }
    }
}

impl EndpointObject {
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
        match class {
            abi::FI_CLASS_EQ => {
                // SAFETY: By the caller's contract, `other` is valid.
                let queue = unsafe { object::from_fid::<eq::QueueObject>(other)? };
                self.endpoint.bind_eq(queue.queue(), flags)
            }
            abi::FI_CLASS_CQ => {
                // SAFETY: By the caller's contract, `other` is valid.
                let queue = unsafe { object::from_fid::<cq::QueueObject>(other)? };
                self.endpoint.bind_cq(queue.queue(), flags)?;
                if flags & abi::FI_TRANSMIT != 0 {
                    let queue = other.expose_provenance();
                    self.shared.tx_cq_fid.store(queue, Relaxed);
                }
                Ok(())
            }
            abi::FI_CLASS_AV => {
                // SAFETY: By the caller's contract, `other` is valid.
                let av = unsafe { object::from_fid::<av::AvObject>(other)? };
                self.endpoint.bind_av(av.av(), flags)
            }
            abi::FI_CLASS_SRX_CTX => {
                // SAFETY: By the caller's contract, `other` is valid.
                let srx = unsafe { object::from_fid::<srx::SharedObject>(other)? };
                self.endpoint.bind_srx(srx.srx(), flags)
            }
            abi::FI_CLASS_STX_CTX => {
                // SAFETY: By the caller's contract, `other` is valid.
                let stx = unsafe { object::from_fid::<stx::SharedObject>(other)? };
                self.endpoint.bind_stx(stx.stx(), flags)
            }
            abi::FI_CLASS_CNTR => {
                // SAFETY: By the caller's contract, `other` is valid.
                let counter = unsafe { object::from_fid::<cntr::CounterObject>(other)? };
                self.endpoint.bind_counter(counter.counter(), flags)
            }
            abi::FI_CLASS_DOMAIN => {
                if flags != 0 {
                    return Err(Errno::EBADFLAGS);
                }
                // The offload keeps a pointer to the object until the endpoint is closed; an alias is closed
                // before that.
                if self.alias.is_some() {
                    return Err(Errno::EINVAL);
                }
                if self.shared.offload.as_ref().is_some() {
                    return Err(Errno::EALREADY);
                }
                // SAFETY: By the caller's contract, the domain stays open until the endpoint has been closed.
                let offload = unsafe { Offload::pair(self, other.cast())? };
                match self.shared.offload.populate(offload) {
                    true => Ok(()),
                    false => Err(Errno::EALREADY),
                }
            }
            _ => Err(Errno::EINVAL),
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
        if alias.fid.is_null() {
            return Err(Errno::EINVAL);
        }
        let made = EndpointObject {
            fid: self.fid,
            provider_ep: self.provider_ep,
            tx_op_flags: Atomic::new(self.tx_op_flags()),
            rx_op_flags: Atomic::new(self.rx_op_flags()),
            endpoint: self.endpoint.clone(),
            shared: self.shared.clone(),
            alias: Some(ChildRef::new(&self.shared)?),
        };
        made.set_op_flags(alias.flags)?;
        // SAFETY: By the caller's contract, `alias.fid` is valid.
        unsafe { Opening::new(alias.fid)? }.open(made)
    }
}

/// Makes the object of a `T` for an endpoint that was opened with `info`.
pub(super) fn make_object<T: Object>(
    provider_ops: &ProviderOps,
    endpoint: Arc<Endpoint>,
    info: &Info,
    context: *mut c_void,
) -> Result<EndpointObject> {
    let mut fid = fid_ep {
        ops: ptr::from_ref(&OPS).cast_mut(),
        msg: ptr::from_ref(provider_ops.msg).cast_mut(),
        atomic: ptr::from_ref(provider_ops.atomic).cast_mut(),
        collective: ptr::from_ref(&offload::COLLECTIVE_OPS).cast_mut(),
        ..nosys::endpoint(new_fid::<T>(context))
    };
    // Contexts of a scalable endpoint have no connection management.
    if T::CLASS == abi::FI_CLASS_EP {
        fid.cm = ptr::from_ref(&cm::ACTIVE_OPS).cast_mut();
    }
    if info.caps() & abi::FI_RMA != 0 {
        fid.rma = ptr::from_ref(provider_ops.rma).cast_mut();
    }
    if info.caps() & abi::FI_TAGGED != 0 {
        fid.tagged = ptr::from_ref(provider_ops.tagged).cast_mut();
    }
    let shared = EpShared {
        alias_count: ChildCount::new(),
        offload: SetOnce::new(),
        tx_cq_fid: Atomic::new(0),
        addr_format: info.addr_format(),
    };
    Ok(EndpointObject {
        fid,
        shared: Arc::new(shared, GFP_KERNEL)?,
        alias: None,
        provider_ep: provider_ops.provider_ep(endpoint.core())?,
        tx_op_flags: Atomic::new(info.tx().map_or(0, |tx| tx.op_flags)),
        rx_op_flags: Atomic::new(info.rx().map_or(0, |rx| rx.op_flags)),
        endpoint,
    })
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
    match flags & !(OP_FLAGS | more) {
        0 => Ok(()),
        _ => Err(Errno::EBADFLAGS),
    }
}

/// Flags that FI_SETOPSFLAG may set for either direction.
const OP_FLAGS: u64 = abi::FI_COMPLETION
    | abi::FI_INJECT_COMPLETE
    | abi::FI_TRANSMIT_COMPLETE
    | abi::FI_DELIVERY_COMPLETE;

/// Returns the endpoint option with this number, if there is one.
pub(super) fn ep_option(name: u32) -> Option<EpOption> {
    const CONNECTIONS: u32 = abi::FI_OPT_KOFI_CONNECTIONS as u32;
    const IDLE: u32 = abi::FI_OPT_KOFI_IDLE_MS as u32;
    const CONNECTED: u32 = abi::FI_OPT_KOFI_CONNECTED as u32;
    match name {
        abi::FI_OPT_MIN_MULTI_RECV => Some(EpOption::MinMultiRecv),
        CONNECTIONS => Some(EpOption::MaxConnections),
        IDLE => Some(EpOption::IdleTimeout),
        CONNECTED => Some(EpOption::ConnectionCount),
        _ => None,
    }
}

/// Reads the option and the value of an `fi_setopt()` call.
///
/// # Errors
///
/// -FI_ENOPROTOOPT for an unknown option, -FI_EINVAL for NULL and for a length other than that of a `usize`.
///
/// # Safety
///
/// `value` is NULL or valid for `len` bytes.
pub(super) unsafe fn read_option(
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> Result<(EpOption, usize)> {
    let option = (level == abi::FI_OPT_ENDPOINT as c_int)
        .then(|| ep_option(name as u32))
        .flatten()
        .ok_or(Errno::ENOPROTOOPT)?;
    if value.is_null() || len != size_of::<usize>() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the caller's contract, `value` is valid for `len` bytes.
    Ok((option, unsafe { ptr::read_unaligned(value.cast()) }))
}
