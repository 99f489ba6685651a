// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts for C callers: endpoints that only receive, for the endpoints that are bound to
//! them.

use super::{
    domain::DomainObject,
    nosys,
    object::{
        new_fid,
        open_args, //
    },
    ops::{
        fi_ops,
        FromFid,
        InProcess, //
    },
    peer, tagged,
    xfer_args::{
        post_any_vector,
        post_single,
        post_vector,
        XferArgs, //
    },
};
use crate::{
    abi::{
        fi_msg,
        fi_msg_tagged,
        fi_ops_ep,
        fi_ops_msg,
        fi_ops_tagged,
        fi_rx_attr,
        flags::*,
        kvec, //
    },
    fi::{
        domain::Domain,
        prelude::*,
        provider,
        srx::{
            Attr,
            SharedReceive, //
        },
    },
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

fi_ops! {
    impl Object for SharedObject: FI_CLASS_SRX_CTX {
        close: fn fi_close(srx) {
            // C callers keep track of the contexts of posted receives themselves.
            srx.srx.close(&mut |_| {})
        }

        control: fn fi_control(
            srx: *mut fid as &SharedObject,
            command: c_int,
            arg: *mut c_void,
        ) -> Result {
            peer::check_export(command)?;
            // SAFETY: For this command, `arg` is NULL or a valid `struct fi_fid_export`.
            unsafe { peer::export_srx(&srx.srx, arg) }
        }
    }
}

impl SharedObject {
    /// Returns the Rust object.
    pub(super) fn srx(&self) -> &Arc<SharedReceive> {
        &self.srx
    }
}

fi_ops! {
    static OPS: fi_ops_ep {
        cancel: fn fi_cancel(
            srx: *mut fid as &SharedObject,
            context: *mut c_void,
        ) -> Result<usize> {
            srx.srx.core().cancel(Context::new(context))?;
            Ok(0)
        }

        rx_size_left: fn fi_rx_size_left(srx: *mut fid_ep as &SharedObject) -> Result<usize> {
            Ok(srx.srx.core().receives_left())
        }
    }
}

fi_ops! {
    pub(super) fn fi_srx_context(
        domain: *mut fid_domain as InProcess<&DomainObject>,
        attr: *mut fi_rx_attr,
        out: *mut *mut fid_ep,
        context: *mut c_void,
    ) -> Result {
        // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
        let (attr, slot) = unsafe { open_args::<_, SharedObject, _>(attr, out)? };
        let provider_ops = domain.provider_ops();
        let mut fid = nosys::endpoint(new_fid::<SharedObject>(context));
        if attr.op_flags & FI_PEER != 0 {
            // SAFETY: With FI_PEER, `context` is NULL or a `struct fi_peer_srx_context` of a valid context.
            let srx = unsafe { open_peer(domain.ctx, domain.domain(), attr, context)? };
            return slot.open(SharedObject {
                // Receives are posted to the owner's context.
                fid,
                provider_srx: provider_ops.provider_srx(srx.core())?,
                rx_op_flags: 0,
                srx,
            });
        }
        if attr.op_flags & !FI_COMPLETION != 0 {
            return Err(Errno::EINVAL);
        }
        let srx = domain.domain().shared_receive(&Attr {
            size: attr.size,
            segments: attr.iov_limit,
            caps: attr.caps,
        })?;
        fid.ops = ptr::from_ref(&OPS).cast_mut();
        fid.msg = ptr::from_ref(provider_ops.srx_msg).cast_mut();
        if srx.core().has_tags() {
            fid.tagged = ptr::from_ref(provider_ops.srx_tagged).cast_mut();
        }
        slot.open(SharedObject {
            fid,
            provider_srx: provider_ops.provider_srx(srx.core())?,
            rx_op_flags: attr.op_flags,
            srx,
        })
    }
}

/// Opens a context whose receives are those of its owner. The other attributes apply to the owner's context, and are
/// ignored here.
///
/// # Errors
///
/// -FI_EINVAL for other flags, and the errors of [`peer::owner_srx`], [`peer::import_srx`] and the domain.
///
/// # Safety
///
/// `context` is NULL or a `struct fi_peer_srx_context` whose context is valid until the new one is closed.
unsafe fn open_peer(
    ctx: ProcessContext,
    domain: &Arc<Domain>,
    attr: &fi_rx_attr,
    context: *mut c_void,
) -> Result<Arc<SharedReceive>> {
    if attr.op_flags & !FI_COMPLETION != FI_PEER {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the caller's contract, `context` is NULL or valid.
    match unsafe { peer::owner_srx(context)? } {
        Ok(owner) => domain.peer_shared_receive(ctx, owner),
        // SAFETY: By the caller's contract, the owner's context stays valid.
        Err(form) => domain.imported_shared_receive(unsafe { peer::import_srx(form)? }),
    }
}

/// Tables of calls for shared receive contexts of type `S`.
pub(super) struct Table<S>(PhantomData<S>);

/// A shared receive context with the tables of type `S`. The class is not checked.
struct TypedSrx<'a, S> {
    /// Default flags of receives without a flags argument.
    op_flags: u64,
    /// The provider's part.
    provider: &'a S,
}

impl<S> FromFid for TypedSrx<'_, S> {
    #[inline(always)]
    unsafe fn from_fid(fid: *mut fid) -> Result<Self> {
        // SAFETY: By the contract of this function, `fid` is a shared receive context of the C API.
        let object = unsafe { &*fid.cast::<SharedObject>() };
        Ok(Self {
            op_flags: object.rx_op_flags,
            // SAFETY: Only contexts of type `S` get these tables.
            provider: unsafe { &*object.provider_srx.cast::<S>() },
        })
    }
}

impl<S: provider::SharedReceive> Table<S> {
    fi_ops! {
        pub(super) const OPS: fi_ops_msg {
            recv: fn fi_recv(
                srx: *mut fid_ep as TypedSrx<'_, S>,
                buf: *mut c_void,
                len: usize,
                desc: *mut c_void,
                src_addr: fi_addr_t,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, srx.op_flags).with_peer(src_addr);
                // SAFETY: The memory and its descriptor are valid until the receive completes.
                unsafe {
                    post_single(buf, len, desc, args, |message| {
                        srx.provider.receive(message)
                    })
                }
            }

            recvv: fn fi_recvv(
                srx: *mut fid_ep as TypedSrx<'_, S>,
                iov: *const kvec,
                desc: *mut *mut c_void,
                count: usize,
                src_addr: fi_addr_t,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, srx.op_flags).with_peer(src_addr);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the receive completes.
                unsafe {
                    post_vector(iov, desc, count, args, |message| {
                        srx.provider.receive(message)
                    })
                }
            }

            recvmsg: fn fi_recvmsg(
                srx: *mut fid_ep as TypedSrx<'_, S>,
                msg: *const fi_msg,
                flags: u64,
            ) -> isize {
                // SAFETY: `msg` is NULL or valid.
                let Some(msg) = (unsafe { msg.as_ref() }) else {
                    return Errno::EINVAL.to_ssize();
                };
                let args = XferArgs::new(msg.context, flags).with_peer(msg.addr);
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the receive completes.
                unsafe {
                    post_any_vector(iov, desc, count, args, |message| {
                        srx.provider.receive(message)
                    })
                }
            }
        }
    }

    fi_ops! {
        pub(super) const TAGGED_OPS: fi_ops_tagged {
            recv: fn fi_trecv(
                srx: *mut fid_ep as TypedSrx<'_, S>,
                buf: *mut c_void,
                len: usize,
                desc: *mut c_void,
                src_addr: fi_addr_t,
                tag: u64,
                ignore: u64,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, srx.op_flags)
                    .with_peer(src_addr)
                    .with_tag(tag, ignore);
                // SAFETY: The memory and its descriptor are valid until the receive completes.
                unsafe {
                    post_single(buf, len, desc, args, |message| {
                        srx.provider.receive(message)
                    })
                }
            }

            recvv: fn fi_trecvv(
                srx: *mut fid_ep as TypedSrx<'_, S>,
                iov: *const kvec,
                desc: *mut *mut c_void,
                count: usize,
                src_addr: fi_addr_t,
                tag: u64,
                ignore: u64,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, srx.op_flags)
                    .with_peer(src_addr)
                    .with_tag(tag, ignore);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the receive completes.
                unsafe {
                    post_vector(iov, desc, count, args, |message| {
                        srx.provider.receive(message)
                    })
                }
            }

            recvmsg: fn fi_trecvmsg(
                srx: *mut fid_ep as TypedSrx<'_, S>,
                msg: *const fi_msg_tagged,
                flags: u64,
            ) -> isize {
                // SAFETY: `msg` is NULL or valid.
                let Some(msg) = (unsafe { msg.as_ref() }) else {
                    return Errno::EINVAL.to_ssize();
                };
                let args = tagged::msg_args(msg, flags);
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the receive completes.
                unsafe {
                    post_any_vector(iov, desc, count, args, |message| {
                        srx.provider.receive(message)
                    })
                }
            }
        }
    }
}
