// SPDX-License-Identifier: GPL-2.0

//! Arguments of a C caller's atomic operation, and their translation to [`Atomic`].

use super::{
    super::{
        prelude::*,
        xfer_args::{
            into_isize_fast,
            TypedEp,
            XferArgs, //
        },
    },
    parse_op, //
};
use crate::{
    abi::errno::into_ssize,
    fi::{
        atomic::{
            Atomic,
            Form,
            Op, //
        },
        provider::Endpoint, //
    },
};

/// Elements in local memory, as the caller passes them.
#[derive(Clone, Copy)]
pub(super) enum Elements {
    /// No elements: the form of the call has none.
    None,
    /// A buffer, its number of elements, and its descriptor.
    One(*const c_void, usize, *mut c_void),
    /// A vector of buffers, their descriptors, and the number of entries.
    Vector(*const fi_ioc, *mut *mut c_void, usize),
}

/// Elements in the peer's memory, as the caller passes them.
#[derive(Clone, Copy)]
pub(super) enum RemoteTarget {
    /// As many elements as there are operands, from an address on, and the region's key.
    Addr(u64, u64),
    /// A vector of ranges, and the number of entries.
    Ranges(*const fi_rma_ioc, usize),
}

/// The form of a call, with its arguments besides the operands.
#[derive(Clone, Copy)]
pub(super) enum CallForm {
    Base,
    /// Result buffer, which gets the old values.
    Fetch(Elements),
    /// Values to compare with, and the result buffer, which gets the old values.
    Compare(Elements, Elements),
}

/// Maximum number of entries in a vector of buffers or of remote ranges. No provider offers more.
const MAX_ENTRIES: usize = 16;

/// Elements in local memory, converted to segments.
///
/// # Invariants
///
/// The first `len` entries of `segments` are initialised.
struct LocalSegments<'a> {
    segments: [MaybeUninit<Segment>; MAX_ENTRIES],
    descriptors: &'a [Descriptor],
    len: usize,
    /// Total number of elements.
    count: usize,
}

impl<'a> LocalSegments<'a> {
    /// Makes an object without elements.
    #[inline(always)]
    fn new() -> Self {
        // INVARIANT: `len` is 0.
        Self {
            segments: [const { MaybeUninit::uninit() }; MAX_ENTRIES],
            descriptors: &[],
            len: 0,
            count: 0,
        }
    }

    /// Adds a caller's elements of `size` bytes each to an empty object.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a NULL vector or one that is too long, -FI_EMSGSIZE if the number of elements or bytes
    /// overflows.
    ///
    /// # Safety
    ///
    /// Each vector has the number of entries that is passed with it, for `'a`. The caller guarantees for the
    /// memory and the descriptors what [`Segment::new`] and [`Descriptor::new`] require.
    #[inline(always)]
    unsafe fn add_elements(&mut self, elements: &'a Elements, size: usize) -> Result {
        match elements {
            Elements::None => {}
            Elements::One(buf, count, desc) => {
                // SAFETY: By the caller's contract, the buffer and its descriptor are valid.
                unsafe {
                    self.push(*buf, *count, size)?;
                    self.descriptors = Descriptor::from_vector(desc, 1);
                }
            }
            Elements::Vector(iov, desc, count) => {
                ensure(
                    *count <= MAX_ENTRIES && (*count == 0 || !iov.is_null()),
                    Errno::EINVAL,
                )?;
                for at in 0..*count {
                    // SAFETY: By the caller's contract, the vector has `count` entries.
                    unsafe {
                        let entry = &*iov.add(at);
                        self.push(entry.addr, entry.count, size)?;
                    }
                }
                // SAFETY: By the caller's contract, a vector of descriptors has `count` entries.
                self.descriptors = unsafe { Descriptor::from_vector(*desc, *count) };
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// The requirements of [`Self::add_elements`]; `len` is less than [`MAX_ENTRIES`].
    unsafe fn push(&mut self, buf: *const c_void, count: usize, size: usize) -> Result {
        let bytes = count.checked_mul(size).ok_or(Errno::EMSGSIZE)?;
        // SAFETY: By the contract of `add_elements`.
        self.segments[self.len].write(unsafe { Segment::new(buf.cast_mut(), bytes) });
        // INVARIANT: One more entry is initialised.
        self.len += 1;
        self.count = self.count.checked_add(count).ok_or(Errno::EMSGSIZE)?;
        Ok(())
    }

    fn segments(&self) -> &[Segment] {
        let segments = self.segments.as_ptr().cast();
        // SAFETY: By the invariant, the first `len` entries are initialised.
        unsafe { slice::from_raw_parts(segments, self.len) }
    }
}

/// Memory of a call on one element. The compare and result addresses are NULL if the form of the call has none.
pub(super) struct SingleElement {
    pub(super) operand: *const c_void,
    pub(super) compare: *const c_void,
    pub(super) result: *mut c_void,
    pub(super) result_desc: *mut c_void,
}

/// Posts an operation on one element on the provider's fast path; `None` if the fast path does not apply.
///
/// # Safety
///
/// The contract of the call in the table, for a single element at each address.
#[inline(always)]
pub(super) unsafe fn post_single_element<E: Endpoint>(
    ep: &TypedEp<'_, E>,
    args: XferArgs,
    (form, datatype, op): (Form, fi_datatype, fi_op),
    memory: &SingleElement,
    remote: &fi_rma_ioc,
) -> Option<isize> {
    let (op, datatype) = parse_op(form, datatype, op).ok()?;
    let size = datatype.size();
    // SAFETY: By the contract of the call in the table; the provider's fast path accepts one element only.
    let (operand, compare, result, descriptor) = unsafe {
        (
            Segment::new(memory.operand.cast_mut(), size),
            Segment::new(memory.compare.cast_mut(), size),
            Segment::new(memory.result, size),
            Descriptor::new(memory.result_desc),
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
    let message = args.message(Memory::Segments(slice::from_ref(&operand)), &[]);
    let posted = ep.provider.try_fast_atomic(&atomic, &message);
    posted.map(into_isize_fast)
}

/// Arguments of an atomic call.
struct Call {
    form: Form,
    operands: Elements,
    compare: Elements,
    result: Elements,
    remote: RemoteTarget,
    datatype: fi_datatype,
    op: fi_op,
}

/// Posts the operation.
///
/// # Safety
///
/// The contract of the call in the table.
#[inline(always)]
pub(super) unsafe fn post<E: Endpoint>(
    ep: &TypedEp<'_, E>,
    args: XferArgs,
    (datatype, op): (fi_datatype, fi_op),
    operands: Elements,
    form: CallForm,
    remote: RemoteTarget,
) -> isize {
    let (form, compare, result) = match form {
        CallForm::Base => (Form::Base, Elements::None, Elements::None),
        CallForm::Fetch(result) => (Form::Fetch, Elements::None, result),
        CallForm::Compare(compare, result) => (Form::Compare, compare, result),
    };
    let call = Call {
        form,
        operands,
        compare,
        result,
        remote,
        datatype,
        op,
    };
    // SAFETY: By the contract of the call in the table.
    unsafe { post_call(ep.provider, args, &call) }
}

/// # Safety
///
/// The requirements of [`post`].
unsafe fn post_call<E: Endpoint>(endpoint: &E, args: XferArgs, call: &Call) -> isize {
    // SAFETY: By the contract of the call in the table.
    into_ssize(unsafe { try_post(endpoint, args, call) }.map(|()| 0))
}

/// # Safety
///
/// The requirements of [`post`].
unsafe fn try_post<E: Endpoint>(endpoint: &E, args: XferArgs, call: &Call) -> Result {
    let (op, datatype) = parse_op(call.form, call.datatype, call.op)?;
    let size = datatype.size();
    let (mut operands, mut result) = (LocalSegments::new(), LocalSegments::new());
    // SAFETY: By the contract of the call in the table.
    unsafe {
        // A read ignores its operands (fi_atomic(3)).
        if op != Op::Read {
            operands.add_elements(&call.operands, size)?;
        }
        result.add_elements(&call.result, size)?;
    }
    let whole;
    let remote = match call.remote {
        RemoteTarget::Addr(addr, key) => {
            whole = fi_rma_ioc {
                addr,
                // Without operands (a read), the results determine the number of elements.
                count: operands.count.max(result.count),
                key,
            };
            slice::from_ref(&whole)
        }
        RemoteTarget::Ranges(ranges, count) => {
            ensure(!ranges.is_null() && count <= MAX_ENTRIES, Errno::EINVAL)?;
            // SAFETY: By the contract of the call in the table.
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
    // SAFETY: By the contract of the call in the table.
    unsafe { post_compare(endpoint, args, &operands, &call.compare, atomic) }
}

/// Posts an operation with a compare operand. A separate function, because all vectors together exceed one
/// stack frame.
///
/// # Safety
///
/// `compare` is valid by the contract of the call in the table.
#[inline(never)]
unsafe fn post_compare<E: Endpoint>(
    endpoint: &E,
    args: XferArgs,
    operands: &LocalSegments<'_>,
    compare: &Elements,
    atomic: Atomic<'_>,
) -> Result {
    let mut compared = LocalSegments::new();
    // SAFETY: By the caller's contract, `compare` is valid.
    unsafe { compared.add_elements(compare, atomic.datatype.size()) }?;
    let atomic = Atomic {
        compare: compared.segments(),
        ..atomic
    };
    let message = args.message(Memory::Segments(operands.segments()), operands.descriptors);
    endpoint.atomic(&atomic, &message)
}
