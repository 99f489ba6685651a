// SPDX-License-Identifier: GPL-2.0

//! Atomic operations for C callers: the table of `fid_ep.atomic` for a provider's endpoints, and
//! `fi_query_atomic()`.

mod args;

use super::{
    domain::DomainObject,
    ops::fi_ops,
    xfer_args::{
        TypedEp,
        XferArgs, //
    },
};
use crate::{
    abi::{
        fi_atomic_attr,
        fi_datatype,
        fi_ioc,
        fi_msg_atomic,
        fi_op,
        fi_ops_atomic,
        fi_rma_ioc, //
    },
    fi::{
        atomic::{
            Datatype,
            Form,
            Op, //
        },
        prelude::*,
        provider::Endpoint, //
    },
};
use args::{
    post,
    post_single_element,
    Call,
    CallForm,
    Elements,
    RemoteTarget,
    SingleElement, //
};

/// Table of calls for endpoints of type `E`.
pub(super) struct Table<E>(PhantomData<E>);

impl<E: Endpoint> Table<E> {
    fi_ops! {
        pub(super) const OPS: fi_ops_atomic {
            write: fn fi_atomic(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                count: usize,
                desc: *mut c_void,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
                datatype: fi_datatype,
                op: fi_op,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, ep.tx_op_flags()).with_peer(dest_addr);
                let form = CallForm::Base;
                let operands = Elements::One(buf, count, desc);
                let remote = RemoteTarget::Addr(addr, key);
                let call = Call::new(form, operands, remote, (datatype, op));
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(ep.provider, args, &call) }
            }

            writev: fn fi_atomicv(
                ep: *mut fid_ep as TypedEp<'_, E>,
                iov: *const fi_ioc,
                desc: *mut *mut c_void,
                count: usize,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
                datatype: fi_datatype,
                op: fi_op,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, ep.tx_op_flags()).with_peer(dest_addr);
                let form = CallForm::Base;
                let operands = Elements::Vector(iov, desc, count);
                let remote = RemoteTarget::Addr(addr, key);
                let call = Call::new(form, operands, remote, (datatype, op));
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(ep.provider, args, &call) }
            }

            writemsg: fn fi_atomicmsg(
                ep: *mut fid_ep as TypedEp<'_, E>,
                msg: *const fi_msg_atomic,
                flags: u64,
            ) -> isize {
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { Self::post_msg(&ep, msg, flags, CallForm::Base) }
            }

            inject: fn fi_inject_atomic(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                count: usize,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
                datatype: fi_datatype,
                op: fi_op,
            ) -> isize {
                let args = XferArgs::new(ptr::null_mut(), ep.tx_op_flags())
                    .into_inject()
                    .with_peer(dest_addr);
                let form = CallForm::Base;
                let operands = Elements::One(buf, count, ptr::null_mut());
                let remote = RemoteTarget::Addr(addr, key);
                let call = Call::new(form, operands, remote, (datatype, op));
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(ep.provider, args, &call) }
            }

            readwrite: fn fi_fetch_atomic(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                count: usize,
                desc: *mut c_void,
                result: *mut c_void,
                result_desc: *mut c_void,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
                datatype: fi_datatype,
                op: fi_op,
                context: *mut c_void,
            ) -> isize {
                let single = SingleElement {
                    operand: buf,
                    compare: ptr::null(),
                    result,
                    result_desc,
                };
                let range = fi_rma_ioc { addr, count, key };
                let args = XferArgs::new(context, ep.tx_op_flags()).with_peer(dest_addr);
                let what = (Form::Fetch, datatype, op);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                let posted =
                    unsafe { post_single_element(ep.provider, args, what, &single, &range) };
                if let Some(posted) = posted {
                    return posted;
                }
                let form = CallForm::Fetch(Elements::One(result, count, result_desc));
                let operands = Elements::One(buf, count, desc);
                let remote = RemoteTarget::Addr(addr, key);
                let call = Call::new(form, operands, remote, (datatype, op));
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(ep.provider, args, &call) }
            }

            readwritev: fn fi_fetch_atomicv(
                ep: *mut fid_ep as TypedEp<'_, E>,
                iov: *const fi_ioc,
                desc: *mut *mut c_void,
                count: usize,
                resultv: *mut fi_ioc,
                result_desc: *mut *mut c_void,
                result_count: usize,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
                datatype: fi_datatype,
                op: fi_op,
                context: *mut c_void,
            ) -> isize {
                let args = XferArgs::new(context, ep.tx_op_flags()).with_peer(dest_addr);
                let form = CallForm::Fetch(Elements::Vector(resultv, result_desc, result_count));
                let operands = Elements::Vector(iov, desc, count);
                let remote = RemoteTarget::Addr(addr, key);
                let call = Call::new(form, operands, remote, (datatype, op));
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(ep.provider, args, &call) }
            }

            readwritemsg: fn fi_fetch_atomicmsg(
                ep: *mut fid_ep as TypedEp<'_, E>,
                msg: *const fi_msg_atomic,
                resultv: *mut fi_ioc,
                result_desc: *mut *mut c_void,
                result_count: usize,
                flags: u64,
            ) -> isize {
                let form = CallForm::Fetch(Elements::Vector(resultv, result_desc, result_count));
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { Self::post_msg(&ep, msg, flags, form) }
            }

            compwrite: fn fi_compare_atomic(
                ep: *mut fid_ep as TypedEp<'_, E>,
                buf: *const c_void,
                count: usize,
                desc: *mut c_void,
                compare: *const c_void,
                compare_desc: *mut c_void,
                result: *mut c_void,
                result_desc: *mut c_void,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
                datatype: fi_datatype,
                op: fi_op,
                context: *mut c_void,
            ) -> isize {
                let single = SingleElement {
                    operand: buf,
                    compare,
                    result,
                    result_desc,
                };
                let range = fi_rma_ioc { addr, count, key };
                let args = XferArgs::new(context, ep.tx_op_flags()).with_peer(dest_addr);
                let what = (Form::Compare, datatype, op);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                let posted =
                    unsafe { post_single_element(ep.provider, args, what, &single, &range) };
                if let Some(posted) = posted {
                    return posted;
                }
                let compare = Elements::One(compare, count, compare_desc);
                let result = Elements::One(result, count, result_desc);
                let form = CallForm::Compare(compare, result);
                let operands = Elements::One(buf, count, desc);
                let remote = RemoteTarget::Addr(addr, key);
                let call = Call::new(form, operands, remote, (datatype, op));
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(ep.provider, args, &call) }
            }

            compwritev: fn fi_compare_atomicv(
                ep: *mut fid_ep as TypedEp<'_, E>,
                iov: *const fi_ioc,
                desc: *mut *mut c_void,
                count: usize,
                comparev: *const fi_ioc,
                compare_desc: *mut *mut c_void,
                compare_count: usize,
                resultv: *mut fi_ioc,
                result_desc: *mut *mut c_void,
                result_count: usize,
                dest_addr: fi_addr_t,
                addr: u64,
                key: u64,
                datatype: fi_datatype,
                op: fi_op,
                context: *mut c_void,
            ) -> isize {
                let compare = Elements::Vector(comparev, compare_desc, compare_count);
                let result = Elements::Vector(resultv, result_desc, result_count);
                let args = XferArgs::new(context, ep.tx_op_flags()).with_peer(dest_addr);
                let form = CallForm::Compare(compare, result);
                let operands = Elements::Vector(iov, desc, count);
                let remote = RemoteTarget::Addr(addr, key);
                let call = Call::new(form, operands, remote, (datatype, op));
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(ep.provider, args, &call) }
            }

            compwritemsg: fn fi_compare_atomicmsg(
                ep: *mut fid_ep as TypedEp<'_, E>,
                msg: *const fi_msg_atomic,
                comparev: *const fi_ioc,
                compare_desc: *mut *mut c_void,
                compare_count: usize,
                resultv: *mut fi_ioc,
                result_desc: *mut *mut c_void,
                result_count: usize,
                flags: u64,
            ) -> isize {
                let compare = Elements::Vector(comparev, compare_desc, compare_count);
                let result = Elements::Vector(resultv, result_desc, result_count);
                let form = CallForm::Compare(compare, result);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { Self::post_msg(&ep, msg, flags, form) }
            }

            writevalid: fn fi_atomicvalid(
                ep: *mut fid_ep as TypedEp<'_, E>,
                datatype: fi_datatype,
                op: fi_op,
                count: *mut usize,
            ) -> Result {
                // SAFETY: `count` is NULL or valid.
                unsafe { Self::write_max_elements(&ep, Form::Base, (datatype, op), count) }
            }

            readwritevalid: fn fi_fetch_atomicvalid(
                ep: *mut fid_ep as TypedEp<'_, E>,
                datatype: fi_datatype,
                op: fi_op,
                count: *mut usize,
            ) -> Result {
                // SAFETY: `count` is NULL or valid.
                unsafe { Self::write_max_elements(&ep, Form::Fetch, (datatype, op), count) }
            }

            compwritevalid: fn fi_compare_atomicvalid(
                ep: *mut fid_ep as TypedEp<'_, E>,
                datatype: fi_datatype,
                op: fi_op,
                count: *mut usize,
            ) -> Result {
                // SAFETY: `count` is NULL or valid.
                unsafe { Self::write_max_elements(&ep, Form::Compare, (datatype, op), count) }
            }
        }
    }

    /// Posts an operation with flags of the call's own.
    ///
    /// # Safety
    ///
    /// `msg` is NULL or valid; the memory and the vectors are as the call requires, until it completes.
    unsafe fn post_msg(
        ep: &TypedEp<'_, E>,
        msg: *const fi_msg_atomic,
        flags: u64,
        form: CallForm,
    ) -> isize {
        // SAFETY: By the caller's contract, `msg` is NULL or valid.
        let Some(msg) = (unsafe { msg.as_ref() }) else {
            return Errno::EINVAL.to_ssize();
        };
        let args = XferArgs {
            data: msg.data,
            ..XferArgs::new(msg.context, flags).with_peer(msg.addr)
        };
        let operands = Elements::Vector(msg.msg_iov, msg.desc, msg.iov_count);
        let remote = RemoteTarget::Ranges(msg.rma_iov, msg.rma_iov_count);
        let call = Call::new(form, operands, remote, (msg.datatype, msg.op));
        // SAFETY: By the caller's contract, the memory and the vectors are as the call requires.
        unsafe { post(ep.provider, args, &call) }
    }

    /// Writes the maximum number of elements of an operation to `*count`.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP if the operation is not supported, -FI_EINVAL for NULL.
    ///
    /// # Safety
    ///
    /// `count` is NULL or valid.
    unsafe fn write_max_elements(
        ep: &TypedEp<'_, E>,
        form: Form,
        (datatype, op): (fi_datatype, fi_op),
        count: *mut usize,
    ) -> Result {
        let (op, datatype) = parse_op(form, datatype, op)?;
        let max = ep.provider.max_atomic_elements(form, op, datatype)?;
        // SAFETY: By the caller's contract, `count` is NULL or valid.
        *unsafe { count.as_mut() }.ok_or(Errno::EINVAL)? = max;
        Ok(())
    }
}

/// Translates an operation and a datatype; -FI_EOPNOTSUPP if one is unknown or not supported.
fn parse_op(form: Form, datatype: fi_datatype, op: fi_op) -> Result<(Op, Datatype)> {
    Ok((Op::from_raw(op, form)?, Datatype::from_raw(datatype)?))
}

fi_ops! {
    pub(super) fn fi_query_atomic(
        domain: *mut fid_domain as &DomainObject,
        datatype: fi_datatype,
        op: fi_op,
        attr: *mut fi_atomic_attr,
        flags: u64,
    ) -> Result {
        let form = match flags {
            0 => Form::Base,
            abi::FI_FETCH_ATOMIC => Form::Fetch,
            abi::FI_COMPARE_ATOMIC => Form::Compare,
            // Tagged atomic operations are not supported by any provider.
            abi::FI_TAGGED => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EBADFLAGS),
        };
        let (op, datatype) = parse_op(form, datatype, op)?;
        let count = domain.domain().max_atomic_elements(form, op, datatype)?;
        // SAFETY: `attr` is NULL or valid.
        *unsafe { attr.as_mut() }.ok_or(Errno::EINVAL)? = fi_atomic_attr {
            count,
            size: datatype.size(),
        };
        Ok(())
    }
}
