// SPDX-License-Identifier: GPL-2.0

//! Atomic operations for C callers: the table of `fid_ep.atomic` for a provider's endpoints, and
//! `fi_query_atomic()`.

mod args;

use super::{
    domain::DomainObject,
    nosys,
    object,
    xfer_args::{
        ep_from_fid,
        XferArgs, //
    }, //
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_addr_t,
        fi_atomic_attr,
        fi_datatype,
        fi_ioc,
        fi_msg_atomic,
        fi_op,
        fi_ops_atomic,
        fi_rma_ioc,
        fid_domain,
        fid_ep,
        Errno,
        Result, //
    },
    fi::{
        atomic::{
            Datatype,
            Form,
            Op, //
        },
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
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::prelude::*;

/// Table of calls for endpoints of type `E`.
pub(super) struct Table<E>(PhantomData<E>);

impl<E: Endpoint> Table<E> {
    pub(super) const OPS: fi_ops_atomic = fi_ops_atomic {
        write: Some(Self::write),
        writev: Some(Self::writev),
        writemsg: Some(Self::writemsg),
        inject: Some(Self::inject),
        readwrite: Some(Self::readwrite),
        readwritev: Some(Self::readwritev),
        readwritemsg: Some(Self::readwritemsg),
        compwrite: Some(Self::compwrite),
        compwritev: Some(Self::compwritev),
        compwritemsg: Some(Self::compwritemsg),
        writevalid: Some(Self::writevalid),
        readwritevalid: Some(Self::readwritevalid),
        compwritevalid: Some(Self::compwritevalid),
        ..nosys::ATOMIC
    };

    /// Posts an operation with the endpoint's flags.
    ///
    /// # Safety
    ///
    /// The contract of the call in the table.
    unsafe fn post_default(
        ep: *mut fid_ep,
        context: *mut c_void,
        dest_addr: fi_addr_t,
        call: Call,
    ) -> isize {
        // SAFETY: By the contract of the call in the table.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = XferArgs::new(context, object.tx_op_flags()).with_peer(dest_addr);
            post(endpoint, args, &call)
        }
    }

    /// Posts an operation on one element with a result on the provider's fast path; `None` if the fast path
    /// does not apply.
    ///
    /// # Safety
    ///
    /// The contract of the call in the table, for a single element at each address.
    #[inline(always)]
    unsafe fn post_single(
        ep: *mut fid_ep,
        context: *mut c_void,
        dest_addr: fi_addr_t,
        what: (Form, fi_datatype, fi_op),
        words: SingleElement,
        remote: &fi_rma_ioc,
    ) -> Option<isize> {
        // SAFETY: By the contract of the call in the table.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = XferArgs::new(context, object.tx_op_flags()).with_peer(dest_addr);
            post_single_element(endpoint, args, what, &words, remote)
        }
    }

    /// Posts an operation with flags of the call's own.
    ///
    /// # Safety
    ///
    /// The contract of the call in the table.
    unsafe fn post_msg(
        ep: *mut fid_ep,
        msg: *const fi_msg_atomic,
        flags: u64,
        form: CallForm,
    ) -> isize {
        // SAFETY: By the contract of the call in the table.
        unsafe {
            let (_, endpoint) = ep_from_fid::<E>(ep);
            let Some(msg) = msg.as_ref() else {
                return Errno::EINVAL.to_ssize();
            };
            let args = XferArgs {
                data: msg.data,
                ..XferArgs::new(msg.context, flags).with_peer(msg.addr)
            };
            let operands = Elements::Vector(msg.msg_iov, msg.desc, msg.iov_count);
            let remote = RemoteTarget::Ranges(msg.rma_iov, msg.rma_iov_count);
            let call = Call::new(form, operands, remote, (msg.datatype, msg.op));
            post(endpoint, args, &call)
        }
    }

    unsafe extern "C" fn write(
        ep: *mut fid_ep,
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
        let form = CallForm::Base;
        let operands = Elements::One(buf, count, desc);
        let call = Call::new(
            form,
            operands,
            RemoteTarget::Addr(addr, key),
            (datatype, op),
        );
        // SAFETY: By the contract of `fi_atomic()`.
        unsafe { Self::post_default(ep, context, dest_addr, call) }
    }

    unsafe extern "C" fn writev(
        ep: *mut fid_ep,
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
        let form = CallForm::Base;
        let operands = Elements::Vector(iov, desc, count);
        let call = Call::new(
            form,
            operands,
            RemoteTarget::Addr(addr, key),
            (datatype, op),
        );
        // SAFETY: By the contract of `fi_atomicv()`.
        unsafe { Self::post_default(ep, context, dest_addr, call) }
    }

    unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
        // SAFETY: By the contract of `fi_atomicmsg()`.
        unsafe { Self::post_msg(ep, msg, flags, CallForm::Base) }
    }

    unsafe extern "C" fn inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        count: usize,
        dest_addr: fi_addr_t,
        addr: u64,
        key: u64,
        datatype: fi_datatype,
        op: fi_op,
    ) -> isize {
        // SAFETY: By the contract of `fi_inject_atomic()`.
        unsafe {
            let (object, endpoint) = ep_from_fid::<E>(ep);
            let args = XferArgs::new(ptr::null_mut(), object.tx_op_flags())
                .into_inject()
                .with_peer(dest_addr);
            let form = CallForm::Base;
            let operands = Elements::One(buf, count, ptr::null_mut());
            let call = Call::new(
                form,
                operands,
                RemoteTarget::Addr(addr, key),
                (datatype, op),
            );
            post(endpoint, args, &call)
        }
    }

    unsafe extern "C" fn readwrite(
        ep: *mut fid_ep,
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
        let what = (Form::Fetch, datatype, op);
        let remote = fi_rma_ioc { addr, count, key };
        let words = SingleElement {
            operand: buf,
            compare: ptr::null(),
            result,
            result_desc,
        };
        // SAFETY: By the contract of `fi_fetch_atomic()`.
        let posted = unsafe { Self::post_single(ep, context, dest_addr, what, words, &remote) };
        if let Some(posted) = posted {
            return posted;
        }
        let form = CallForm::Fetch(Elements::One(result, count, result_desc));
        let operands = Elements::One(buf, count, desc);
        let call = Call::new(
            form,
            operands,
            RemoteTarget::Addr(addr, key),
            (datatype, op),
        );
        // SAFETY: By the contract of `fi_fetch_atomic()`.
        unsafe { Self::post_default(ep, context, dest_addr, call) }
    }

    unsafe extern "C" fn readwritev(
        ep: *mut fid_ep,
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
        let form = CallForm::Fetch(Elements::Vector(resultv, result_desc, result_count));
        let operands = Elements::Vector(iov, desc, count);
        let call = Call::new(
            form,
            operands,
            RemoteTarget::Addr(addr, key),
            (datatype, op),
        );
        // SAFETY: By the contract of `fi_fetch_atomicv()`.
        unsafe { Self::post_default(ep, context, dest_addr, call) }
    }

    unsafe extern "C" fn readwritemsg(
        ep: *mut fid_ep,
        msg: *const fi_msg_atomic,
        resultv: *mut fi_ioc,
        result_desc: *mut *mut c_void,
        result_count: usize,
        flags: u64,
    ) -> isize {
        let form = CallForm::Fetch(Elements::Vector(resultv, result_desc, result_count));
        // SAFETY: By the contract of `fi_fetch_atomicmsg()`.
        unsafe { Self::post_msg(ep, msg, flags, form) }
    }

    unsafe extern "C" fn compwrite(
        ep: *mut fid_ep,
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
        let what = (Form::Compare, datatype, op);
        let remote = fi_rma_ioc { addr, count, key };
        let words = SingleElement {
            operand: buf,
            compare,
            result,
            result_desc,
        };
        // SAFETY: By the contract of `fi_compare_atomic()`.
        let posted = unsafe { Self::post_single(ep, context, dest_addr, what, words, &remote) };
        if let Some(posted) = posted {
            return posted;
        }
        let form = CallForm::Compare(
            Elements::One(compare, count, compare_desc),
            Elements::One(result, count, result_desc),
        );
        let operands = Elements::One(buf, count, desc);
        let call = Call::new(
            form,
            operands,
            RemoteTarget::Addr(addr, key),
            (datatype, op),
        );
        // SAFETY: By the contract of `fi_compare_atomic()`.
        unsafe { Self::post_default(ep, context, dest_addr, call) }
    }

    unsafe extern "C" fn compwritev(
        ep: *mut fid_ep,
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
        let form = CallForm::Compare(
            Elements::Vector(comparev, compare_desc, compare_count),
            Elements::Vector(resultv, result_desc, result_count),
        );
        let operands = Elements::Vector(iov, desc, count);
        let call = Call::new(
            form,
            operands,
            RemoteTarget::Addr(addr, key),
            (datatype, op),
        );
        // SAFETY: By the contract of `fi_compare_atomicv()`.
        unsafe { Self::post_default(ep, context, dest_addr, call) }
    }

    unsafe extern "C" fn compwritemsg(
        ep: *mut fid_ep,
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
        // SAFETY: By the contract of `fi_compare_atomicmsg()`.
        unsafe { Self::post_msg(ep, msg, flags, CallForm::Compare(compare, result)) }
    }

    /// Writes the maximum number of elements of an operation to `*count`.
    ///
    /// # Safety
    ///
    /// The contract of the three calls below.
    unsafe fn write_max_elements(
        ep: *mut fid_ep,
        form: Form,
        (datatype, op): (fi_datatype, fi_op),
        count: *mut usize,
    ) -> c_int {
        // SAFETY: By the contract of `fi_atomicvalid()` and the like.
        unsafe {
            let (_, endpoint) = ep_from_fid::<E>(ep);
            into_int(parse_op(form, datatype, op).and_then(|(op, datatype)| {
                let max = endpoint.max_atomic_elements(form, op, datatype)?;
                *count.as_mut().ok_or(Errno::EINVAL)? = max;
                Ok(())
            }))
        }
    }

    unsafe extern "C" fn writevalid(
        ep: *mut fid_ep,
        datatype: fi_datatype,
        op: fi_op,
        count: *mut usize,
    ) -> c_int {
        // SAFETY: By the contract of `fi_atomicvalid()`.
        unsafe { Self::write_max_elements(ep, Form::Base, (datatype, op), count) }
    }

    unsafe extern "C" fn readwritevalid(
        ep: *mut fid_ep,
        datatype: fi_datatype,
        op: fi_op,
        count: *mut usize,
    ) -> c_int {
        // SAFETY: By the contract of `fi_fetch_atomicvalid()`.
        unsafe { Self::write_max_elements(ep, Form::Fetch, (datatype, op), count) }
    }

    unsafe extern "C" fn compwritevalid(
        ep: *mut fid_ep,
        datatype: fi_datatype,
        op: fi_op,
        count: *mut usize,
    ) -> c_int {
        // SAFETY: By the contract of `fi_compare_atomicvalid()`.
        unsafe { Self::write_max_elements(ep, Form::Compare, (datatype, op), count) }
    }
}

/// Translates an operation and a datatype; -FI_EOPNOTSUPP if one is unknown or not supported.
fn parse_op(form: Form, datatype: fi_datatype, op: fi_op) -> Result<(Op, Datatype)> {
    Ok((Op::from_raw(op, form)?, Datatype::from_raw(datatype)?))
}

/// Implements `fi_query_atomic()`.
pub(super) unsafe extern "C" fn query(
    domain: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    // SAFETY: By the contract of `fi_query_atomic()`.
    into_int(unsafe { try_query(domain, (datatype, op), attr, flags) })
}

unsafe fn try_query(
    domain: *mut fid_domain,
    (datatype, op): (fi_datatype, fi_op),
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> Result {
    // SAFETY: By the contract of `fi_query_atomic()`.
    let domain = unsafe { object::from_fid::<DomainObject>(domain.cast()) }?;
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
    // SAFETY: By the contract of `fi_query_atomic()`.
    let attr = unsafe { attr.as_mut() }.ok_or(Errno::EINVAL)?;
    *attr = fi_atomic_attr {
        count,
        size: datatype.size(),
    };
    Ok(())
}
