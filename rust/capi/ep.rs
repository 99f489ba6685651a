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
        write_out,
        Object,
        UninitObject, //
    },
    offload::{
        self,
        Offload, //
    },
    ops_tables::ProviderOps,
    srx,
    stx, //
};
use crate::{
    abi::{
        self,
        errno::{
            into_int,
            into_ssize, //
        },
        fi_alias,
        fi_info,
        fi_ops,
        fi_ops_ep,
        fid,
        fid_domain,
        fid_ep,
        info::Info,
        Errno,
        Result, //
    },
    fi::{
        ep::Endpoint,
        eq::Source,
        memory::Context,
        object::{
            ChildCount,
            ChildRef,
            Parent, //
        },
        provider::EpOption, //
    },
    util::{
        context,
        once::read_once, //
    },
};
use core::{
    net::SocketAddr,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SetOnce, //
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
        static OPS: fi_ops = object::fid_ops(close::<EndpointObject>, Some(bind), Some(control));
        &OPS
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
                    static OPS: fi_ops = object::fid_ops(close::<$name>, Some(bind), Some(control));
                    &OPS
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

/// Returns the endpoint or context that a `fid` is the beginning of.
///
/// # Errors
///
/// -FI_EINVAL for NULL and for another class.
///
/// # Safety
///
/// `fid` is NULL or valid for `'a`.
unsafe fn endpoint_from_fid<'a>(fid: *mut fid) -> Result<&'a EndpointObject> {
    // SAFETY: By the caller's contract, `fid` is NULL or valid for `'a`.
    unsafe {
        match object::from_fid::<EndpointObject>(fid) {
            Ok(object) => Ok(object),
            Err(_) => match object::from_fid::<TransmitObject>(fid) {
                Ok(object) => Ok(object.as_ref()),
                Err(_) => Ok(object::from_fid::<ReceiveObject>(fid)?.as_ref()),
            },
        }
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

static OPS: fi_ops_ep = fi_ops_ep {
    cancel: Some(cancel),
    getopt: Some(getopt),
    setopt: Some(setopt),
    rx_size_left: Some(rx_size_left),
    tx_size_left: Some(tx_size_left),
    ..nosys::EP
};

/// Implements `fi_endpoint()`.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    out: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_endpoint()`, arguments are valid or NULL.
    into_int(unsafe {
        object::open_child(
            domain.cast(),
            info,
            out,
            |_ctx, domain: &DomainObject, info, slot| try_open(domain, info, slot, context),
        )
    })
}

fn try_open(
    domain: &DomainObject,
    info: &Info,
    slot: UninitObject<EndpointObject>,
    context: *mut c_void,
) -> Result<*mut EndpointObject> {
    let endpoint = domain.domain().endpoint(info, Source(slot.address()))?;
    let made = make_object::<EndpointObject>(domain.provider_ops(), endpoint, info, context)?;
    Ok(slot.init(made))
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

/// Opens an endpoint (`fi_endpoint2()`); no flags are supported.
pub(super) unsafe extern "C" fn open2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    out: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return Errno::EINVAL.to_int();
    }
    // SAFETY: By the contract of `fi_endpoint2()`.
    unsafe { open(domain, info, out, context) }
}

unsafe extern "C" fn close<T: Object + AsRef<EndpointObject>>(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe {
        object::close::<T>(fid, |object| {
            let object = object.as_ref();
            if object.alias.is_none() {
                let offload = object.shared.offload.as_ref();
                offload.map_or(Ok(()), Offload::check_idle)?;
                object.shared.alias_count.try_close()?;
                // C callers keep track of the contexts of unfinished operations themselves.
                object.endpoint.close(&mut |_| {});
                if let Some(offload) = offload {
                    offload.close();
                }
            }
            Ok(())
        })
    })
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: By the contract of `fi_ep_bind()`.
    into_int(unsafe { try_bind(fid, other, flags) })
}

unsafe fn try_bind(fid: *mut fid, other: *mut fid, flags: u64) -> Result {
    // SAFETY: By the contract of `fi_ep_bind()`.
    let (object, class) = unsafe {
        let object = endpoint_from_fid(fid)?;
        (object, other.as_ref().ok_or(Errno::EINVAL)?.fclass)
    };
    context::in_process()?;
    match u32::try_from(class) {
        Ok(abi::FI_CLASS_EQ) => {
            // SAFETY: By the contract of `fi_ep_bind()`.
            let queue = unsafe { object::from_fid::<eq::QueueObject>(other)? };
            object.endpoint.bind_eq(queue.queue(), flags)
        }
        Ok(abi::FI_CLASS_CQ) => {
            // SAFETY: By the contract of `fi_ep_bind()`.
            let queue = unsafe { object::from_fid::<cq::QueueObject>(other)? };
            object.endpoint.bind_cq(queue.queue(), flags)?;
            if flags & abi::FI_TRANSMIT != 0 {
                let queue = other.expose_provenance();
                object.shared.tx_cq_fid.store(queue, Relaxed);
            }
            Ok(())
        }
        Ok(abi::FI_CLASS_AV) => {
            // SAFETY: By the contract of `fi_ep_bind()`.
            let av = unsafe { object::from_fid::<av::AvObject>(other)? };
            object.endpoint.bind_av(av.av(), flags)
        }
        Ok(abi::FI_CLASS_SRX_CTX) => {
            // SAFETY: By the contract of `fi_ep_bind()`.
            let srx = unsafe { object::from_fid::<srx::SharedObject>(other)? };
            object.endpoint.bind_srx(srx.srx(), flags)
        }
        Ok(abi::FI_CLASS_STX_CTX) => {
            // SAFETY: By the contract of `fi_ep_bind()`.
            let stx = unsafe { object::from_fid::<stx::SharedObject>(other)? };
            object.endpoint.bind_stx(stx.stx(), flags)
        }
        Ok(abi::FI_CLASS_CNTR) => {
            // SAFETY: By the contract of `fi_ep_bind()`.
            let counter = unsafe { object::from_fid::<cntr::CounterObject>(other)? };
            object.endpoint.bind_counter(counter.counter(), flags)
        }
        Ok(abi::FI_CLASS_DOMAIN) => {
            if flags != 0 {
                return Err(Errno::EBADFLAGS);
            }
            // The offload keeps a pointer to the object until the endpoint is closed; an alias is closed
            // before that.
            if object.alias.is_some() {
                return Err(Errno::EINVAL);
            }
            if object.shared.offload.as_ref().is_some() {
                return Err(Errno::EALREADY);
            }
            // SAFETY: By the contract of `fi_import_fid()`, the domain stays open until the endpoint has been
            // closed.
            let offload = unsafe { Offload::pair(object, other.cast())? };
            match object.shared.offload.populate(offload) {
                true => Ok(()),
                false => Err(Errno::EALREADY),
            }
        }
        _ => Err(Errno::EINVAL),
    }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: By the contract of `fi_control()`.
    into_int(unsafe {
        endpoint_from_fid(fid).and_then(|object| try_control(object, command, arg.cast()))
    })
}

unsafe fn try_control(object: &EndpointObject, command: c_int, arg: *mut u64) -> Result {
    match u32::try_from(command) {
        Ok(abi::FI_ENABLE) => {
            context::in_process()?;
            object.endpoint.enable()
        }
        Ok(abi::FI_ALIAS) => {
            context::in_process()?;
            // SAFETY: By the contract of `fi_ep_alias()`, `arg` is NULL or an `fi_alias`.
            let alias = unsafe { arg.cast::<fi_alias>().as_ref() }.ok_or(Errno::EINVAL)?;
            // SAFETY: By the contract of `fi_ep_alias()`.
            unsafe { make_alias(object, alias) }
        }
        Ok(abi::FI_GETOPSFLAG | abi::FI_SETOPSFLAG) => {
            // SAFETY: By the contract of `fi_control()`, `arg` is NULL or a `u64` for these commands.
            let flags = unsafe { arg.as_mut() }.ok_or(Errno::EINVAL)?;
            if command == abi::FI_GETOPSFLAG as c_int {
                *flags = object.op_flags(*flags)?.load(Relaxed);
                return Ok(());
            }
            object.set_op_flags(*flags)
        }
        _ => Err(Errno::ENOSYS),
    }
}

/// Makes an alias of the endpoint, with default flags of its own (`fi_ep_alias()`).
///
/// # Safety
///
/// `alias.fid` is NULL or valid for writing.
unsafe fn make_alias(object: &EndpointObject, alias: &fi_alias) -> Result {
    if alias.fid.is_null() {
        return Err(Errno::EINVAL);
    }
    let made = EndpointObject {
        fid: object.fid,
        provider_ep: object.provider_ep,
        tx_op_flags: Atomic::new(object.tx_op_flags()),
        rx_op_flags: Atomic::new(object.rx_op_flags()),
        endpoint: object.endpoint.clone(),
        shared: object.shared.clone(),
        alias: Some(ChildRef::new(&object.shared)?),
    };
    made.set_op_flags(alias.flags)?;
    let made = UninitObject::new()?.init(made);
    // SAFETY: `alias.fid` is not NULL, and valid by the caller's contract.
    unsafe { write_out(alias.fid, made) };
    Ok(())
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

unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    // SAFETY: By the contract of `fi_cancel()`.
    into_ssize(unsafe { endpoint_from_fid(fid) }.and_then(|object| {
        object.endpoint.core().cancel(Context::new(context))?;
        Ok(0)
    }))
}

unsafe extern "C" fn getopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: By the contract of `fi_getopt()`.
    into_int(unsafe {
        endpoint_from_fid(fid).and_then(|object| {
            let core = object.endpoint.core();
            let option = |name| match name {
                abi::FI_OPT_CM_DATA_SIZE => Some(core.private_data_limit()),
                _ => ep_option(name).and_then(|option| core.getopt(option).ok()),
            };
            cm::getopt(option, level, name, value, len)
        })
    })
}

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

unsafe extern "C" fn setopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: By the contract of `fi_setopt()`.
    into_int(unsafe {
        endpoint_from_fid(fid).and_then(|object| {
            let (option, value) = read_option(level, name, value, len)?;
            object.endpoint.core().setopt(option, value)
        })
    })
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

unsafe extern "C" fn rx_size_left(ep: *mut fid_ep) -> isize {
    // SAFETY: By the contract of `fi_rx_size_left()`.
    into_ssize(
        unsafe { endpoint_from_fid(ep.cast()) }
            .and_then(|object| object.endpoint.core().receives_left()),
    )
}

unsafe extern "C" fn tx_size_left(ep: *mut fid_ep) -> isize {
    // SAFETY: By the contract of `fi_tx_size_left()`.
    into_ssize(
        unsafe { endpoint_from_fid(ep.cast()) }
            .and_then(|object| object.endpoint.core().transmits_left()),
    )
}
