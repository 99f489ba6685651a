// SPDX-License-Identifier: GPL-2.0

//! Atomic operations for C callers: the table of `fid_ep.atomic` for a provider's endpoints, and
//! `fi_query_atomic()`.

mod args;

use super::{
    domain::DomainObject,
    prelude::*,
    xfer_args::{
        TypedEp,
        XferArgs, //
    },
};
use crate::fi::{
    atomic::{
        Datatype,
        Form,
        Op, //
    },
    provider::Endpoint,
};
use args::{
    post,
    post_single_element,
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
                ep: TypedEp<'_, E>, buf, count, desc, dest_addr, addr, key, datatype, op, context,
            ) -> isize {
                let args = ep.tx_args(context).with_peer(dest_addr);
                let operands = Elements::One(buf, count, desc);
                let remote = RemoteTarget::Addr(addr, key);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(&ep, args, (datatype, op), operands, CallForm::Base, remote) }
            }

            writev: fn fi_atomicv(
                ep: TypedEp<'_, E>, iov, desc, count, dest_addr, addr, key, datatype, op, context,
            ) -> isize {
                let args = ep.tx_args(context).with_peer(dest_addr);
                let operands = Elements::Vector(iov, desc, count);
                let remote = RemoteTarget::Addr(addr, key);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(&ep, args, (datatype, op), operands, CallForm::Base, remote) }
            }

            writemsg: fn fi_atomicmsg(ep: TypedEp<'_, E>, msg, flags) -> isize {
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { Self::post_msg(&ep, msg, flags, CallForm::Base) }
            }

            inject: fn fi_inject_atomic(
                ep: TypedEp<'_, E>, buf, count, dest_addr, addr, key, datatype, op,
            ) -> isize {
                let args = ep.inject_args().with_peer(dest_addr);
                let operands = Elements::One(buf, count, ptr::null_mut());
                let remote = RemoteTarget::Addr(addr, key);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(&ep, args, (datatype, op), operands, CallForm::Base, remote) }
            }

            readwrite: fn fi_fetch_atomic(
                ep: TypedEp<'_, E>, buf, count, desc, result, result_desc, dest_addr, addr, key,
                datatype, op, context,
            ) -> isize {
                let single = SingleElement {
                    operand: buf,
                    compare: ptr::null(),
                    result,
                    result_desc,
                };
                let range = fi_rma_ioc { addr, count, key };
                let args = ep.tx_args(context).with_peer(dest_addr);
                let what = (Form::Fetch, datatype, op);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                if let Some(posted) = unsafe { post_single_element(&ep, args, what, &single, &range) } {
                    return posted;
                }
                let operands = Elements::One(buf, count, desc);
                let form = CallForm::Fetch(Elements::One(result, count, result_desc));
                let remote = RemoteTarget::Addr(addr, key);
                // SAFETY: As above.
                unsafe { post(&ep, args, (datatype, op), operands, form, remote) }
            }

            readwritev: fn fi_fetch_atomicv(
                ep: TypedEp<'_, E>, iov, desc, count, resultv, result_desc, result_count,
                dest_addr, addr, key, datatype, op, context,
            ) -> isize {
                let args = ep.tx_args(context).with_peer(dest_addr);
                let operands = Elements::Vector(iov, desc, count);
                let form = CallForm::Fetch(Elements::Vector(resultv, result_desc, result_count));
                let remote = RemoteTarget::Addr(addr, key);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(&ep, args, (datatype, op), operands, form, remote) }
            }

            readwritemsg: fn fi_fetch_atomicmsg(
                ep: TypedEp<'_, E>, msg, resultv, result_desc, result_count, flags,
            ) -> isize {
                let form = CallForm::Fetch(Elements::Vector(resultv, result_desc, result_count));
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { Self::post_msg(&ep, msg, flags, form) }
            }

            compwrite: fn fi_compare_atomic(
                ep: TypedEp<'_, E>, buf, count, desc, compare, compare_desc, result, result_desc,
                dest_addr, addr, key, datatype, op, context,
            ) -> isize {
                let single = SingleElement {
                    operand: buf,
                    compare,
                    result,
                    result_desc,
                };
                let range = fi_rma_ioc { addr, count, key };
                let args = ep.tx_args(context).with_peer(dest_addr);
                let what = (Form::Compare, datatype, op);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                if let Some(posted) = unsafe { post_single_element(&ep, args, what, &single, &range) } {
                    return posted;
                }
                let operands = Elements::One(buf, count, desc);
                let compare = Elements::One(compare, count, compare_desc);
                let form = CallForm::Compare(compare, Elements::One(result, count, result_desc));
                let remote = RemoteTarget::Addr(addr, key);
                // SAFETY: As above.
                unsafe { post(&ep, args, (datatype, op), operands, form, remote) }
            }

            compwritev: fn fi_compare_atomicv(
                ep: TypedEp<'_, E>, iov, desc, count, comparev, compare_desc, compare_count,
                resultv, result_desc, result_count, dest_addr, addr, key, datatype, op, context,
            ) -> isize {
                let args = ep.tx_args(context).with_peer(dest_addr);
                let operands = Elements::Vector(iov, desc, count);
                let compare = Elements::Vector(comparev, compare_desc, compare_count);
                let result = Elements::Vector(resultv, result_desc, result_count);
                let form = CallForm::Compare(compare, result);
                let remote = RemoteTarget::Addr(addr, key);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { post(&ep, args, (datatype, op), operands, form, remote) }
            }

            compwritemsg: fn fi_compare_atomicmsg(
                ep: TypedEp<'_, E>, msg, comparev, compare_desc, compare_count, resultv, result_desc,
                result_count, flags,
            ) -> isize {
                let compare = Elements::Vector(comparev, compare_desc, compare_count);
                let result = Elements::Vector(resultv, result_desc, result_count);
                // SAFETY: The memory and the vectors are as the call requires, until it completes.
                unsafe { Self::post_msg(&ep, msg, flags, CallForm::Compare(compare, result)) }
            }

            writevalid: fn fi_atomicvalid(ep: TypedEp<'_, E>, datatype, op, count) -> Result {
                // SAFETY: `count` is NULL or valid.
                unsafe { Self::write_max_elements(&ep, Form::Base, (datatype, op), count) }
            }

            readwritevalid: fn fi_fetch_atomicvalid(
                ep: TypedEp<'_, E>, datatype, op, count,
            ) -> Result {
                // SAFETY: `count` is NULL or valid.
                unsafe { Self::write_max_elements(&ep, Form::Fetch, (datatype, op), count) }
            }

            compwritevalid: fn fi_compare_atomicvalid(
                ep: TypedEp<'_, E>, datatype, op, count,
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
        // SAFETY: By the caller's contract, the memory and the vectors are as the call requires.
        unsafe { post(ep, args, (msg.datatype, msg.op), operands, form, remote) }
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
    /// `fi_query_atomic()`.
    pub(super) const DOMAIN_OPS: fi_ops_domain {
        query_atomic: fn fi_query_atomic(domain: &DomainObject, datatype, op, attr, flags) -> Result {
            let form = match flags {
                0 => Form::Base,
                abi::FI_FETCH_ATOMIC => Form::Fetch,
                abi::FI_COMPARE_ATOMIC => Form::Compare,
                // Tagged atomic operations are not supported by any provider.
                abi::FI_TAGGED => return Err(Errno::EOPNOTSUPP),
                _ => return Err(Errno::EBADFLAGS),
            };
            let (op, datatype) = parse_op(form, datatype, op)?;
            let count = domain.domain.max_atomic_elements(form, op, datatype)?;
            // SAFETY: `attr` is NULL or valid.
            *unsafe { attr.as_mut() }.ok_or(Errno::EINVAL)? = fi_atomic_attr {
                count,
                size: datatype.size(),
            };
            Ok(())
        }
    }
}
