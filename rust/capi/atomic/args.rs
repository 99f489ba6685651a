// SPDX-License-Identifier: GPL-2.0

//! From the arguments of a C caller's atomic operation to the operation.

use super::{
    super::xfer_args::{
        brief,
        XferArgs, //
    },
    known, //
};
use crate::{
    abi::{
        errno::into_ssize,
        fi_datatype,
        fi_ioc,
        fi_op,
        fi_rma_ioc,
        Errno,
        Result, //
    },
    fi::{
        atomic::{
            Atomic,
            Form,
            Op, //
        },
        memory::{
            Context,
            Descriptor,
            Memory,
            Segment, //
        },
        provider::{
            Endpoint,
            Message, //
        },
    },
};
use core::{
    mem::MaybeUninit,
    slice, //
};
use kernel::prelude::*;

/// Elements in local memory, as the caller has them.
#[derive(Clone, Copy)]
pub(super) enum Elements {
    /// The form of the call has none.
    None,
    /// A buffer with so many, and its descriptor.
    One(*const c_void, usize, *mut c_void),
    /// A vector of buffers, their descriptors, and how many there are.
    Vector(*const fi_ioc, *mut *mut c_void, usize),
}

/// What is changed, as the caller has it.
#[derive(Clone, Copy)]
pub(super) enum RemoteTarget {
    /// As many elements as there are operands, from an address on, and the region's key.
    At(u64, u64),
    /// A vector and how many entries it has.
    Ranges(*const fi_rma_ioc, usize),
}

/// The form of a call, with what it has besides its operands.
#[derive(Clone, Copy)]
pub(super) enum CallForm {
    Base,
    /// Where the old values go.
    Fetch(Elements),
    /// What to compare with, and where the old values go.
    Compare(Elements, Elements),
}

/// The arguments of a call.
pub(super) struct Call {
    form: Form,
    operands: Elements,
    compare: Elements,
    result: Elements,
    remote: RemoteTarget,
    datatype: fi_datatype,
    op: fi_op,
}

impl Call {
    pub(super) fn new(
        form: CallForm,
        operands: Elements,
        remote: RemoteTarget,
        (datatype, op): (fi_datatype, fi_op),
    ) -> Self {
        let (form, compare, result) = match form {
            CallForm::Base => (Form::Base, Elements::None, Elements::None),
            CallForm::Fetch(result) => (Form::Fetch, Elements::None, result),
            CallForm::Compare(compare, result) => (Form::Compare, compare, result),
        };
        Self {
            form,
            operands,
            compare,
            result,
            remote,
            datatype,
            op,
        }
    }
}

/// Most buffers in a vector, and ranges of the peer's memory. No device offers more of either.
const MOST: usize = 16;

/// Elements in local memory, as segments.
///
/// # Invariants
///
/// The first `len` of `segments` are initialised.
struct LocalSegments<'a> {
    segments: [MaybeUninit<Segment>; MOST],
    descriptors: &'a [Descriptor],
    len: usize,
    elements: usize,
}

impl<'a> LocalSegments<'a> {
    /// Makes an object without elements.
    #[inline(always)]
    fn new() -> Self {
        // INVARIANT: None is.
        Self {
            segments: [const { MaybeUninit::uninit() }; MOST],
            descriptors: &[],
            len: 0,
            elements: 0,
        }
    }

    /// Initialises the object in place with a caller's elements of `size` bytes each.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a vector that is not there or too long, -FI_EMSGSIZE for more than can be
    /// counted.
    ///
    /// # Safety
    ///
    /// As a C caller promises of the vector's length, for `'a`; it answers for the memory and the descriptors
    /// as the types demand.
    #[inline(always)]
    unsafe fn take(&mut self, of: &'a Elements, size: usize) -> Result {
        match of {
            Elements::None => {}
            Elements::One(buf, count, desc) => {
                // SAFETY: By this function's safety requirement.
                unsafe {
                    self.push(*buf, *count, size)?;
                    self.descriptors = Descriptor::from_vector(desc, 1);
                }
            }
            Elements::Vector(iov, desc, count) => {
                if *count > MOST || (iov.is_null() && *count > 0) {
                    return Err(Errno::EINVAL);
                }
                for at in 0..*count {
                    // SAFETY: By this function's safety requirement, and the check above.
                    unsafe {
                        let entry = &*iov.add(at);
                        self.push(entry.addr, entry.count, size)?;
                    }
                }
                // SAFETY: By this function's safety requirement.
                self.descriptors = unsafe { Descriptor::from_vector(*desc, *count) };
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As of [`Self::take`], and fewer than [`MOST`] are there.
    unsafe fn push(&mut self, buf: *const c_void, count: usize, size: usize) -> Result {
        let bytes = count.checked_mul(size).ok_or(Errno::EMSGSIZE)?;
        // SAFETY: By this function's safety requirement.
        self.segments[self.len].write(unsafe { Segment::new(buf.cast_mut(), bytes) });
        // INVARIANT: One more is initialised.
        self.len += 1;
        self.elements = self.elements.checked_add(count).ok_or(Errno::EMSGSIZE)?;
        Ok(())
    }

    fn segments(&self) -> &[Segment] {
        let segments = self.segments.as_ptr().cast();
        // SAFETY: By the invariant they are initialised.
        unsafe { slice::from_raw_parts(segments, self.len) }
    }
}

/// The memory of a call of one element: null where the form of the call has none.
pub(super) struct SingleElement {
    pub(super) operand: *const c_void,
    pub(super) compare: *const c_void,
    pub(super) result: *mut c_void,
    pub(super) result_desc: *mut c_void,
}

/// Starts an operation on one element, if there is a short way for it.
///
/// # Safety
///
/// As a C caller of the calls in the table promises, of a single element at each address.
#[inline(always)]
pub(super) unsafe fn post_one<E: Endpoint>(
    endpoint: &E,
    terms: XferArgs,
    (form, datatype, op): (Form, fi_datatype, fi_op),
    words: &SingleElement,
    remote: &fi_rma_ioc,
) -> Option<isize> {
    let (op, datatype) = known(form, datatype, op).ok()?;
    let size = datatype.size();
    // SAFETY: By this function's safety requirement; nothing is done for more elements than one.
    let (operand, compare, result, descriptor) = unsafe {
        (
            Segment::new(words.operand.cast_mut(), size),
            Segment::new(words.compare.cast_mut(), size),
            Segment::new(words.result, size),
            Descriptor::new(words.result_desc),
        )
    };
    let atomic = Atomic {
        form,
        op,
        datatype,
        remote: slice::from_ref(remote),
        compare: slice::from_ref(&compare),
        result: slice::from_ref(&result),
        result_descriptors: slice::from_ref(&descriptor),
    };
    let message = Message {
        memory: Memory::Segments(slice::from_ref(&operand)),
        descriptors: &[],
        context: Context::new(terms.context),
        flags: terms.flags,
        errors_only: terms.errors_only,
        data: terms.data,
        peer: terms.peer,
        tag: None,
    };
    endpoint.try_fast_atomic(&atomic, &message).map(brief)
}

/// Starts the operation.
///
/// # Safety
///
/// As a C caller of the calls in the table promises.
pub(super) unsafe fn post<E: Endpoint>(endpoint: &E, terms: XferArgs, call: &Call) -> isize {
    // SAFETY: By this function's safety requirement.
    into_ssize(unsafe { try_post(endpoint, terms, call) }.map(|()| 0))
}

unsafe fn try_post<E: Endpoint>(endpoint: &E, terms: XferArgs, call: &Call) -> Result {
    let (op, datatype) = known(call.form, call.datatype, call.op)?;
    let size = datatype.size();
    let (mut operands, mut result) = (LocalSegments::new(), LocalSegments::new());
    // SAFETY: As the caller promises.
    unsafe {
        // A read ignores its operands (fi_atomic(3)).
        if op != Op::Read {
            operands.take(&call.operands, size)?;
        }
        result.take(&call.result, size)?;
    }
    let whole;
    let remote = match call.remote {
        RemoteTarget::At(addr, key) => {
            whole = fi_rma_ioc {
                addr,
                // An operation without operands says with its results how many there are.
                count: operands.elements.max(result.elements),
                key,
            };
            slice::from_ref(&whole)
        }
        RemoteTarget::Ranges(ranges, count) => {
            if ranges.is_null() || count > MOST {
                return Err(Errno::EINVAL);
            }
            // SAFETY: As the caller promises.
            unsafe { slice::from_raw_parts(ranges, count) }
        }
    };
    let atomic = Atomic {
        form: call.form,
        op,
        datatype,
        remote,
        compare: &[],
        result: result.segments(),
        result_descriptors: result.descriptors,
    };
    // SAFETY: As the caller promises.
    unsafe { start(endpoint, terms, &operands, &call.compare, atomic) }
}

/// Starts an operation with a compare operand. A separate function, because all vectors together exceed one
/// frame.
///
/// # Safety
///
/// `compare` is valid as the C callers of the functions in the table guarantee.
#[inline(never)]
unsafe fn start<E: Endpoint>(
    endpoint: &E,
    terms: XferArgs,
    operands: &LocalSegments<'_>,
    compare: &Elements,
    atomic: Atomic<'_>,
) -> Result {
    let mut compared = LocalSegments::new();
    // SAFETY: By this function's safety requirement.
    unsafe { compared.take(compare, atomic.datatype.size()) }?;
    let atomic = Atomic {
        compare: compared.segments(),
        ..atomic
    };
    let message = Message {
        memory: Memory::Segments(operands.segments()),
        descriptors: operands.descriptors,
        context: Context::new(terms.context),
        flags: terms.flags,
        errors_only: terms.errors_only,
        data: terms.data,
        peer: terms.peer,
        tag: None,
    };
    endpoint.atomic(&atomic, &message)
}
