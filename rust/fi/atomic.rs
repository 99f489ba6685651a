// SPDX-License-Identifier: GPL-2.0

//! Atomic operations: datatypes, operators and the check of their parameters.

mod ops;

pub use ops::{
    load_element,
    store_element,
    Operands, //
};

use super::provider::Message;
use crate::{
    abi::{
        fi_datatype,
        fi_op,
        fi_rma_ioc, //
    },
    fi::prelude::*, //
};

/// The type of the operands: a signed or unsigned integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datatype {
    size: usize,
    is_signed: bool,
}

// The C values of the integers count up, from 8 to 64 bits, signed before unsigned.
const _: () = assert!(abi::FI_INT8 == 0 && abi::FI_UINT16 == 3 && abi::FI_UINT64 == 7);

impl Datatype {
    /// Converts a C caller's datatype.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP for any type but an integer of at most 64 bits.
    pub fn from_raw(raw: fi_datatype) -> Result<Self> {
        Errno::EOPNOTSUPP.when(raw > abi::FI_UINT64)?;
        let (size, is_signed) = (1 << (raw / 2), raw % 2 == 0);
        Ok(Self { size, is_signed })
    }

    /// Returns the C value.
    pub(crate) fn to_raw(self) -> fi_datatype {
        2 * self.size.trailing_zeros() + fi_datatype::from(!self.is_signed)
    }

    /// Returns the size of an element in bytes.
    #[inline]
    pub fn size(self) -> usize {
        self.size
    }

    /// Returns how many elements fit into `bytes` bytes.
    #[inline]
    pub fn count_in(self, bytes: usize) -> usize {
        bytes >> self.size.trailing_zeros()
    }
}

/// The family of an atomic call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `fi_atomic()`: returns no data.
    Base,
    /// `fi_fetch_atomic()`: returns the previous values.
    Fetch,
    /// `fi_compare_atomic()`: returns the previous values and takes compare values.
    Compare,
}

macro_rules! ops {
    ($($op:ident = $raw:ident,)*) => {
        /// The operator of an atomic operation.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs)]
        pub enum Op {
            $($op,)*
        }

        impl Op {
            fn of_number(raw: fi_op) -> Option<Self> {
                match raw {
                    $(abi::$raw => Some(Self::$op),)*
                    _ => None,
                }
            }

            /// Returns the C value.
            pub(crate) fn to_raw(self) -> fi_op {
                match self {
                    $(Self::$op => abi::$raw,)*
                }
            }
        }
    };
}

ops! {
    Min = FI_MIN,
    Max = FI_MAX,
    Sum = FI_SUM,
    Prod = FI_PROD,
    LogicalOr = FI_LOR,
    LogicalAnd = FI_LAND,
    BitOr = FI_BOR,
    BitAnd = FI_BAND,
    LogicalXor = FI_LXOR,
    BitXor = FI_BXOR,
    Read = FI_ATOMIC_READ,
    Write = FI_ATOMIC_WRITE,
    Swap = FI_CSWAP,
    SwapNe = FI_CSWAP_NE,
    SwapLe = FI_CSWAP_LE,
    SwapLt = FI_CSWAP_LT,
    SwapGe = FI_CSWAP_GE,
    SwapGt = FI_CSWAP_GT,
    MaskedSwap = FI_MSWAP,
}

impl Op {
    /// Converts a C caller's operator.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP for an operator that `form` does not support.
    pub fn from_raw(raw: fi_op, form: Form) -> Result<Self> {
        let op = Self::of_number(raw).ok_or(Errno::EOPNOTSUPP)?;
        op.supports_form(form)
            .then_some(op)
            .ok_or(Errno::EOPNOTSUPP)
    }

    /// Returns true if `form` supports the operator.
    pub fn supports_form(self, form: Form) -> bool {
        match form {
            Form::Compare => self.compares(),
            Form::Fetch => !self.compares(),
            Form::Base => !self.compares() && self != Self::Read,
        }
    }

    fn compares(self) -> bool {
        matches!(
            self,
            Self::Swap
                | Self::SwapNe
                | Self::SwapLe
                | Self::SwapLt
                | Self::SwapGe
                | Self::SwapGt
                | Self::MaskedSwap
        )
    }
}

/// An atomic operation, without its operands, which are the memory of its message.
pub struct Atomic<'a> {
    /// Family of the call.
    pub form: Form,
    /// Operator.
    pub op: Op,
    /// Type of the elements.
    pub datatype: Datatype,
    /// Ranges of the peer's memory.
    pub remote: &'a [fi_rma_ioc],
    /// Compare values; [`Form::Compare`] only.
    pub compare: &'a [Segment],
    /// Memory for the previous values; empty with [`Form::Base`].
    pub result: &'a [Segment],
    /// Descriptors, either one per segment of `result` or none.
    pub result_descriptors: &'a [Descriptor],
}

impl Atomic<'_> {
    /// Checks the operation, and returns its single range of the peer's memory and the length of that range
    /// in bytes. The limit is `max_elements`.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for no or several ranges, for no elements, for a range that is misaligned or extends past
    /// the last address, and for local memory of another length; -FI_EMSGSIZE for too many elements.
    pub(crate) fn check_target(
        &self,
        message: &Message<'_>,
        max_elements: usize,
    ) -> Result<(&fi_rma_ioc, usize)> {
        let [range] = self.remote else {
            return Err(Errno::EINVAL);
        };
        Errno::EMSGSIZE.when(range.count > max_elements)?;
        // A power of two.
        let size = self.datatype.size();
        let len = range.count * size;
        let last = len.checked_sub(1).ok_or(Errno::EINVAL)? as u64;
        if range.addr & (size as u64 - 1) != 0 || range.addr.checked_add(last).is_none() {
            return Err(Errno::EINVAL);
        }
        let wanted = |wanted: bool| if wanted { len } else { 0 };
        let fits = (self.op == Op::Read || message.memory.total_len()? == len)
            && Memory::Segments(self.compare).total_len()? == wanted(self.form == Form::Compare)
            && Memory::Segments(self.result).total_len()? == wanted(self.form != Form::Base);
        Errno::EINVAL.when(!fits)?;
        Ok((range, len))
    }
}

#[kunit_tests(kofi_fi_atomic)]
mod tests {
    use super::*;

    fn parse_datatype(raw: fi_datatype) -> Result<Datatype> {
        Datatype::from_raw(raw)
    }

    #[test]
    fn atom_01_each_form_accepts_its_operations_only() {
        for raw in 0..abi::FI_ATOMIC_OP_LAST + 2 {
            let compares = (abi::FI_CSWAP..=abi::FI_MSWAP).contains(&raw);
            let fetches = raw <= abi::FI_ATOMIC_WRITE;
            let bases = fetches && raw != abi::FI_ATOMIC_READ;
            assert_eq!(Op::from_raw(raw, Form::Compare).is_ok(), compares);
            assert_eq!(Op::from_raw(raw, Form::Fetch).is_ok(), fetches);
            assert_eq!(Op::from_raw(raw, Form::Base).is_ok(), bases);
        }
    }

    #[test]
    fn atom_01_integer_datatypes_only_are_accepted() {
        for raw in 0..abi::FI_DATATYPE_LAST + 3 {
            assert_eq!(parse_datatype(raw).is_ok(), raw <= abi::FI_UINT64);
        }
    }
}
