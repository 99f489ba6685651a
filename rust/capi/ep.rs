// SPDX-License-Identifier: GPL-2.0

//! Active endpoints for C callers.

use super::{
    cm, cq,
    domain::DomainObject,
    eq, nosys,
    object::{
        self,
        hand_out,
        header,
        Object,
        Place, //
    },
};
use crate::{
    abi::{
        self,
        context,
        errno::{
            into_int,
            into_ssize, //
        },
        fi_info,
        fi_ops,
        fi_ops_atomic,
        fi_ops_collective,
        fi_ops_ep,
        fi_ops_rma,
        fi_ops_tagged,
        fid,
        fid_domain,
        fid_ep,
        info::Info,
        Errno,
        Result, //
    },
    fi::{
        ep::Endpoint,
        eq::Source, //
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// What `struct fid_ep` stands at the beginning of.
#[repr(C)]
pub(super) struct EndpointObject {
    fid: fid_ep,
    /// The provider's endpoint, of the type that `fid.msg` was made for.
    exact: *const c_void,
    /// Flags of the calls that have none, from the info or FI_SETOPSFLAG.
    transmit_flags: Atomic<u64>,
    receive_flags: Atomic<u64>,
    endpoint: Arc<Endpoint>,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_ep`, and is the only type with this table.
unsafe impl Object for EndpointObject {
    const CLASS: u32 = abi::FI_CLASS_EP;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, Some(bind), Some(control));
        &OPS
    }
}

impl EndpointObject {
    #[inline]
    pub(super) fn exact(&self) -> *const c_void {
        self.exact
    }

    #[inline]
    pub(super) fn transmit_flags(&self) -> u64 {
        self.transmit_flags.load(Relaxed)
    }

    #[inline]
    pub(super) fn receive_flags(&self) -> u64 {
        self.receive_flags.load(Relaxed)
    }

    /// The Rust object.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
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

static RMA: fi_ops_rma = nosys::RMA;
static TAGGED: fi_ops_tagged = nosys::TAGGED;
static ATOMIC: fi_ops_atomic = nosys::ATOMIC;
static COLLECTIVE: fi_ops_collective = nosys::COLLECTIVE;

/// `fi_endpoint()`.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    out: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: As the C caller promises, arguments are valid or NULL.
    into_int(unsafe { try_open(domain, info, out, context) })
}

/// `fi_endpoint2()`, which has no flags that we know.
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
    // SAFETY: As of `open`.
    unsafe { open(domain, info, out, context) }
}

unsafe fn try_open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    out: *mut *mut fid_ep,
    context: *mut c_void,
) -> Result {
    // SAFETY: As the C caller promises.
    let domain = unsafe { object::object::<DomainObject>(domain.cast())? };
    if info.is_null() || out.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: As the C caller promises.
    let info = unsafe { Info::from_ptr(info) };
    let place = Place::<EndpointObject>::new()?;
    let endpoint = domain.domain().endpoint(info, Source(place.address()))?;
    let face = domain.face();
    let made = place.put(EndpointObject {
        fid: fid_ep {
            fid: header::<EndpointObject>(context),
            ops: ptr::from_ref(&OPS).cast_mut(),
            cm: ptr::from_ref(&cm::ACTIVE).cast_mut(),
            msg: ptr::from_ref(face.msg).cast_mut(),
            rma: ptr::from_ref(&RMA).cast_mut(),
            tagged: ptr::from_ref(&TAGGED).cast_mut(),
            atomic: ptr::from_ref(&ATOMIC).cast_mut(),
            collective: ptr::from_ref(&COLLECTIVE).cast_mut(),
        },
        exact: face.endpoint(endpoint.core())?,
        transmit_flags: Atomic::new(info.tx().map_or(0, |tx| tx.op_flags)),
        receive_flags: Atomic::new(info.rx().map_or(0, |rx| rx.op_flags)),
        endpoint,
    });
    // SAFETY: `out` is not NULL, and valid as the C caller promises.
    unsafe { hand_out(out, made) };
    Ok(())
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: As the C caller promises.
    let object = match unsafe { object::object::<EndpointObject>(fid) } {
        Ok(object) => object,
        Err(errno) => return errno.to_int(),
    };
    if let Err(errno) = context::check_may_sleep() {
        return errno.to_int();
    }
    // A C caller keeps track of its contexts by itself.
    object.endpoint.close(&mut |_| {});
    // SAFETY: `open` made it, and a closed object is not used any more.
    unsafe { object::free(ptr::from_ref(object)) };
    0
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: As the C caller promises.
    into_int(unsafe { try_bind(fid, other, flags) })
}

unsafe fn try_bind(fid: *mut fid, other: *mut fid, flags: u64) -> Result {
    // SAFETY: As the C caller promises.
    let (object, class) = unsafe {
        let object = object::object::<EndpointObject>(fid)?;
        (object, other.as_ref().ok_or(Errno::EINVAL)?.fclass)
    };
    match u32::try_from(class) {
        Ok(abi::FI_CLASS_EQ) => {
            // SAFETY: As the C caller promises.
            let queue = unsafe { object::object::<eq::QueueObject>(other)? };
            object.endpoint.bind_events(queue.queue(), flags)
        }
        Ok(abi::FI_CLASS_CQ) => {
            // SAFETY: As the C caller promises.
            let queue = unsafe { object::object::<cq::QueueObject>(other)? };
            object.endpoint.bind_completions(queue.queue(), flags)
        }
        _ => Err(Errno::EINVAL),
    }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: As the C caller promises.
    into_int(unsafe {
        object::object::<EndpointObject>(fid)
            .and_then(|object| try_control(object, command, arg.cast()))
    })
}

unsafe fn try_control(object: &EndpointObject, command: c_int, arg: *mut u64) -> Result {
    match u32::try_from(command) {
        Ok(abi::FI_ENABLE) => {
            context::check_may_sleep()?;
            object.endpoint.enable()
        }
        Ok(abi::FI_GETOPSFLAG | abi::FI_SETOPSFLAG) => {
            // SAFETY: As the C caller promises for these commands.
            let flags = unsafe { arg.as_mut() }.ok_or(Errno::EINVAL)?;
            let own = match *flags & (abi::FI_TRANSMIT | abi::FI_RECV) {
                abi::FI_TRANSMIT => &object.transmit_flags,
                abi::FI_RECV => &object.receive_flags,
                // Exactly one direction at a time.
                _ => return Err(Errno::EINVAL),
            };
            if command == abi::FI_GETOPSFLAG as c_int {
                *flags = own.load(Relaxed);
            } else {
                let new = *flags & !(abi::FI_TRANSMIT | abi::FI_RECV);
                if new & !OP_FLAGS != 0 {
                    return Err(Errno::EBADFLAGS);
                }
                own.store(new, Relaxed);
            }
            Ok(())
        }
        _ => Err(Errno::ENOSYS),
    }
}

/// What FI_SETOPSFLAG may set.
const OP_FLAGS: u64 = abi::FI_COMPLETION
    | abi::FI_INJECT_COMPLETE
    | abi::FI_TRANSMIT_COMPLETE
    | abi::FI_DELIVERY_COMPLETE;

unsafe extern "C" fn cancel(_fid: *mut fid, _context: *mut c_void) -> isize {
    // What is posted belongs to the device; see fi_cancel().
    Errno::EOPNOTSUPP.to_ssize()
}

unsafe extern "C" fn getopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: As the C caller promises.
    into_int(unsafe {
        object::object::<EndpointObject>(fid).and_then(|object| {
            let limit = object.endpoint.core().private_data_limit();
            cm::getopt(limit, level, name, value, len)
        })
    })
}

unsafe extern "C" fn setopt(
    _fid: *mut fid,
    _level: c_int,
    _name: c_int,
    _value: *const c_void,
    _len: usize,
) -> c_int {
    Errno::ENOPROTOOPT.to_int()
}

unsafe extern "C" fn rx_size_left(ep: *mut fid_ep) -> isize {
    // SAFETY: As the C caller promises.
    into_ssize(
        unsafe { object::object::<EndpointObject>(ep.cast()) }
            .map(|object| object.endpoint.core().receives_left()),
    )
}

unsafe extern "C" fn tx_size_left(ep: *mut fid_ep) -> isize {
    // SAFETY: As the C caller promises.
    into_ssize(
        unsafe { object::object::<EndpointObject>(ep.cast()) }
            .map(|object| object.endpoint.core().transmits_left()),
    )
}
