// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts for C callers: endpoints that only receive, for the endpoints that are bound to
//! them.

use super::{
    domain::DomainObject,
    nosys,
    object::{
        self,
        new_fid,
        Object,
        UninitObject, //
    },
    peer,
    tagged,
    xfer_args::{
        post_any_vector,
        post_single,
        post_vector,
        XferArgs, //
    }, //
};
use crate::{
    abi::{
        self,
        errno::{
            into_int,
            into_ssize, //
        },
        fi_addr_t,
        fi_msg,
        fi_msg_tagged,
        fi_ops,
        fi_ops_ep,
        fi_ops_msg,
        fi_ops_tagged,
        fi_rx_attr,
        fid,
        fid_domain,
        fid_ep,
        flags::*,
        kvec,
        Errno,
        Result, //
    },
    fi::{
        memory::Context,
        provider,
        srx::{
            Attr,
            SharedReceive, //
        }, //
    },
    util::context::ProcessContext, //
};
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A shared receive context, as C callers hold it.
#[repr(C)]
pub(super) struct SharedObject {
    fid: fid_ep,
    /// The provider's object, of the type that `fid.msg` and `fid.tagged` were made for.
    provider_srx: *const c_void,
    /// Default flags of receives without a flags argument.
    rx_op_flags: u64,
    srx: Arc<SharedReceive>,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_ep`, and is the only type with this table.
unsafe impl Object for SharedObject {
    const CLASS: u32 = abi::FI_CLASS_SRX_CTX;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, None, Some(control));
        &OPS
    }
}

impl SharedObject {
    /// Returns the Rust object.
    pub(super) fn srx(&self) -> &Arc<SharedReceive> {
        &self.srx
    }
}

static OPS: fi_ops_ep = fi_ops_ep {
    cancel: Some(cancel),
    rx_size_left: Some(rx_size_left),
    ..nosys::EP
};

/// Implements `fi_srx_context()`.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_rx_attr,
    out: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_srx_context()`, arguments are valid or NULL.
    into_int(unsafe {
        object::open_with(domain.cast(), attr, out, |ctx, domain, attr, slot| {
            try_open(ctx, domain, attr, slot, context)
        })
    })
}

/// # Safety
///
/// The contract of `fi_srx_context()`.
unsafe fn try_open(
    ctx: ProcessContext,
    domain: &DomainObject,
    attr: &mut fi_rx_attr,
    slot: UninitObject<SharedObject>,
    context: *mut c_void,
) -> Result<*mut SharedObject> {
    if attr.op_flags & FI_PEER != 0 {
        // SAFETY: By the contract of `fi_srx_context()`.
        return unsafe { open_peer(ctx, domain, attr, slot, context) };
    }
    if attr.op_flags & !FI_COMPLETION != 0 {
        return Err(Errno::EINVAL);
    }
    let srx = domain.domain().shared_receive(&Attr {
        size: attr.size,
        segments: attr.iov_limit,
        caps: attr.caps,
    })?;
    let provider_ops = domain.provider_ops();
    let mut fid = fid_ep {
        ops: ptr::from_ref(&OPS).cast_mut(),
        msg: ptr::from_ref(provider_ops.srx_msg).cast_mut(),
        ..nosys::endpoint(new_fid::<SharedObject>(context))
    };
    if srx.core().has_tags() {
        fid.tagged = ptr::from_ref(provider_ops.srx_tagged).cast_mut();
    }
    Ok(slot.init(SharedObject {
        fid,
        provider_srx: provider_ops.provider_srx(srx.core())?,
        rx_op_flags: attr.op_flags,
        srx,
    }))
}

/// Opens a context whose receives are those of its owner. The other attributes apply to the owner's context, and are
/// ignored here.
///
/// # Safety
///
/// The contract of `fi_srx_context()`.
unsafe fn open_peer(
    ctx: ProcessContext,
    domain: &DomainObject,
    attr: &fi_rx_attr,
    slot: UninitObject<SharedObject>,
    context: *mut c_void,
) -> Result<*mut SharedObject> {
    if attr.op_flags & !FI_COMPLETION != FI_PEER {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the contract of `fi_srx_context()`.
    let srx = match unsafe { peer::owner_srx(context)? } {
        Ok(owner) => domain.domain().peer_shared_receive(ctx, owner)?,
        Err(form) => {
            // SAFETY: By the contract of `fi_srx_context()`.
            let owner = unsafe { peer::import_srx(form)? };
            domain.domain().imported_shared_receive(owner)?
        }
    };
    Ok(slot.init(SharedObject {
        // Receives are posted to the owner's context.
        fid: nosys::endpoint(new_fid::<SharedObject>(context)),
        provider_srx: domain.provider_ops().provider_srx(srx.core())?,
        rx_op_flags: 0,
        srx,
    }))
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: By the contract of `fi_control()`.
    into_int(unsafe {
        object::from_fid::<SharedObject>(fid).and_then(|object| {
            peer::check_export(command)?;
            peer::export_srx(&object.srx, arg)
        })
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe {
        object::close::<SharedObject>(fid, |object| {
            // C callers keep track of the contexts of posted receives themselves.
            object.srx.close(&mut |_| {})
        })
    })
}

unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    // SAFETY: By the contract of `fi_cancel()`.
    into_ssize(
        unsafe { object::from_fid::<SharedObject>(fid) }.and_then(|object| {
            object.srx.core().cancel(Context::new(context))?;
            Ok(0)
        }),
    )
}

unsafe extern "C" fn rx_size_left(ep: *mut fid_ep) -> isize {
    // SAFETY: By the contract of `fi_rx_size_left()`.
    into_ssize(
        unsafe { object::from_fid::<SharedObject>(ep.cast()) }
            .map(|object| object.srx.core().receives_left()),
    )
}

/// Tables of calls for shared receive contexts of type `S`.
pub(super) struct Table<S>(PhantomData<S>);

impl<S: provider::SharedReceive> Table<S> {
    pub(super) const OPS: fi_ops_msg = fi_ops_msg {
        recv: Some(Self::recv),
        recvv: Some(Self::recvv),
        recvmsg: Some(Self::recvmsg),
        ..nosys::MSG
    };

    pub(super) const TAGGED_OPS: fi_ops_tagged = fi_ops_tagged {
        recv: Some(Self::trecv),
        recvv: Some(Self::trecvv),
        recvmsg: Some(Self::trecvmsg),
        ..nosys::TAGGED
    };

    /// Returns the object of a context, and the provider's part of it.
    ///
    /// # Safety
    ///
    /// `ep` is a shared receive context of the C API with the tables of this type.
    #[inline]
    unsafe fn srx_from_fid<'a>(ep: *mut fid_ep) -> (&'a SharedObject, &'a S) {
        // SAFETY: By the caller's contract, `ep` is a shared receive context of the C API.
        let object = unsafe { &*ep.cast::<SharedObject>() };
        // SAFETY: Only contexts of type `S` get these tables.
        (object, unsafe { &*object.provider_srx.cast::<S>() })
    }

    unsafe extern "C" fn recv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_recv()`.
        unsafe {
            let (object, srx) = Self::srx_from_fid(ep);
            let args = XferArgs::new(context, object.rx_op_flags).with_peer(src_addr);
            post_single(buf, len, desc, args, |message| srx.receive(message))
        }
    }

    unsafe extern "C" fn recvv(
        ep: *mut fid_ep,
        iov: *const kvec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_recvv()`.
        unsafe {
            let (object, srx) = Self::srx_from_fid(ep);
            let args = XferArgs::new(context, object.rx_op_flags).with_peer(src_addr);
            post_vector(iov, desc, count, args, |message| srx.receive(message))
        }
    }

    unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
        // SAFETY: By the contract of `fi_recvmsg()`.
        unsafe {
            let Some(msg) = msg.as_ref() else {
                return Errno::EINVAL.to_ssize();
            };
            let (_, srx) = Self::srx_from_fid(ep);
            let args = XferArgs::new(msg.context, flags).with_peer(msg.addr);
            post_any_vector(msg.msg_iov, msg.desc, msg.iov_count, args, |message| {
                srx.receive(message)
            })
        }
    }

    unsafe extern "C" fn trecv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src_addr: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_trecv()`.
        unsafe {
            let (object, srx) = Self::srx_from_fid(ep);
            let args = XferArgs::new(context, object.rx_op_flags)
                .with_peer(src_addr)
                .with_tag(tag, ignore);
            post_single(buf, len, desc, args, |message| srx.receive(message))
        }
    }

    unsafe extern "C" fn trecvv(
        ep: *mut fid_ep,
        iov: *const kvec,
        desc: *mut *mut c_void,
        count: usize,
        src_addr: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: By the contract of `fi_trecvv()`.
        unsafe {
            let (object, srx) = Self::srx_from_fid(ep);
            let args = XferArgs::new(context, object.rx_op_flags)
                .with_peer(src_addr)
                .with_tag(tag, ignore);
            post_vector(iov, desc, count, args, |message| srx.receive(message))
        }
    }

    unsafe extern "C" fn trecvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
        // SAFETY: By the contract of `fi_trecvmsg()`.
        unsafe {
            let Some(msg) = msg.as_ref() else {
                return Errno::EINVAL.to_ssize();
            };
            let (_, srx) = Self::srx_from_fid(ep);
            let args = tagged::msg_args(msg, flags);
            post_any_vector(msg.msg_iov, msg.desc, msg.iov_count, args, |message| {
                srx.receive(message)
            })
        }
    }
}
