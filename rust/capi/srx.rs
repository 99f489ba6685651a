// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts for C callers: endpoints that only receive, for the endpoints that are bound to
//! them.

use super::{
    domain::DomainObject,
    nosys,
    peer,
    prelude::*,
    tagged,
    xfer_args::*, //
};
use crate::fi::{
    domain::Domain,
    provider,
    srx::{
        Attr,
        SharedReceive, //
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
    pub(super) srx: Arc<SharedReceive>,
}

fi_ops! {
    impl Object for SharedObject: FI_CLASS_SRX_CTX {
        control: fn fi_control(srx: &SharedObject, command, arg) -> Result {
            // SAFETY: For this command, `arg` is NULL or a valid `struct fi_fid_export`.
            unsafe { peer::export_srx(&srx.srx, command, arg) }
        }
    }
    close(srx) {
        // C callers keep track of the contexts of posted receives themselves.
        srx.srx.close(&mut |_| {})
    }
}

fi_ops! {
    static OPS: fi_ops_ep {
        cancel: fn fi_cancel(srx: &SharedObject, context) -> Result<usize> {
            srx.srx.core().cancel(Context::new(context))?;
            Ok(0)
        }

        rx_size_left: fn fi_rx_size_left(srx: &SharedObject) -> Result<usize> {
            Ok(srx.srx.core().receives_left())
        }
    }
}

fi_ops! {
    /// `fi_srx_context()`.
    pub(super) const DOMAIN_OPS: fi_ops_domain {
        srx_ctx: fn fi_srx_context(domain: InProcess<&DomainObject>, attr, out, context) -> Result {
            // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
            let (attr, slot) = unsafe { open_args(attr, out)? };
            let provider_ops = domain.provider_ops;
            let mut fid = nosys::endpoint(new_fid::<SharedObject>(context));
            // Receives of a peer's context are posted to the owner's context.
            let is_peer = attr.op_flags & FI_PEER != 0;
            let srx = if is_peer {
                // SAFETY: With FI_PEER, `context` is NULL or a `struct fi_peer_srx_context` of a valid context.
                unsafe { open_peer(domain.ctx, &domain.domain, attr, context)? }
            } else if attr.op_flags & !FI_COMPLETION != 0 {
                return Err(Errno::EINVAL);
            } else {
                domain.domain.shared_receive(&Attr {
                    size: attr.size,
                    segments: attr.iov_limit,
                    caps: attr.caps,
                })?
            };
            if !is_peer {
                fid.ops = ptr::from_ref(&OPS).cast_mut();
                fid.msg = ptr::from_ref(provider_ops.srx_msg).cast_mut();
                if srx.core().has_tags() {
                    fid.tagged = ptr::from_ref(provider_ops.srx_tagged).cast_mut();
                }
            }
            slot.open(SharedObject {
                fid,
                provider_srx: (provider_ops.srx_addr)(srx.core().as_any())?,
                rx_op_flags: attr.op_flags & FI_COMPLETION,
                srx,
            })
        }
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
    ensure(attr.op_flags & !FI_COMPLETION == FI_PEER, Errno::EINVAL)?;
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

impl<S> TypedSrx<'_, S> {
    /// Makes the arguments of a receive with the default flags.
    #[inline(always)]
    fn args(&self, context: *mut c_void, src_addr: fi_addr_t) -> XferArgs {
        XferArgs::new(context, self.op_flags).with_peer(src_addr)
    }
}

impl<S: provider::SharedReceive> Table<S> {
    fi_ops! {
        pub(super) const OPS: fi_ops_msg {
            recv: fn fi_recv(srx: TypedSrx<'_, S>, buf, len, desc, src_addr, context) -> isize {
                let args = srx.args(context, src_addr);
                // SAFETY: The memory and its descriptor are valid until the receive completes.
                unsafe { post_single(buf, len, desc, args, |msg| srx.provider.receive(msg)) }
            }

            recvv: fn fi_recvv(srx: TypedSrx<'_, S>, iov, desc, count, src_addr, context) -> isize {
                let args = srx.args(context, src_addr);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the receive completes.
                unsafe { post_vector(iov, desc, count, args, |msg| srx.provider.receive(msg)) }
            }

            recvmsg: fn fi_recvmsg(srx: TypedSrx<'_, S>, msg, flags) -> Result<isize> {
                // SAFETY: `msg` is NULL or valid.
                let msg = unsafe { msg.as_ref() }.ok_or(Errno::EINVAL)?;
                // The endpoints have different peers and addresses: a receive takes messages of any source.
                ensure(!is_directed(flags), Errno::EOPNOTSUPP)?;
                let args = XferArgs::new(msg.context, flags).with_peer(msg.addr);
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the receive completes.
                Ok(unsafe { post_any_vector(iov, desc, count, args, |msg| srx.provider.receive(msg)) })
            }
        }
    }

    fi_ops! {
        pub(super) const TAGGED_OPS: fi_ops_tagged {
            recv: fn fi_trecv(
                srx: TypedSrx<'_, S>, buf, len, desc, src_addr, tag, ignore, context,
            ) -> isize {
                let args = srx.args(context, src_addr).with_tag(tag, ignore);
                // SAFETY: The memory and its descriptor are valid until the receive completes.
                unsafe { post_single(buf, len, desc, args, |msg| srx.provider.receive(msg)) }
            }

            recvv: fn fi_trecvv(
                srx: TypedSrx<'_, S>, iov, desc, count, src_addr, tag, ignore, context,
            ) -> isize {
                let args = srx.args(context, src_addr).with_tag(tag, ignore);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the receive completes.
                unsafe { post_vector(iov, desc, count, args, |msg| srx.provider.receive(msg)) }
            }

            recvmsg: fn fi_trecvmsg(srx: TypedSrx<'_, S>, msg, flags) -> Result<isize> {
                // SAFETY: `msg` is NULL or valid.
                let msg = unsafe { msg.as_ref() }.ok_or(Errno::EINVAL)?;
                let args = tagged::msg_args(msg, flags);
                let (iov, desc, count) = (msg.msg_iov, msg.desc, msg.iov_count);
                // SAFETY: `iov` and `desc` have `count` entries; the memory is valid until the receive completes.
                Ok(unsafe { post_any_vector(iov, desc, count, args, |msg| srx.provider.receive(msg)) })
            }
        }
    }
}
