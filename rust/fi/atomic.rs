// SPDX-License-Identifier: GPL-2.0

//! Atomic operations: which there are.

mod arithmetic;

pub use arithmetic::Operands;

use super::memory::{
    Descriptor,
    Segment, //
};
use crate::abi::{
    self,
    fi_datatype,
    fi_op,
    fi_rma_ioc,
    Errno,
    Result, //
};
use kernel::prelude::*;

/// The type of the operands: an integer, with or without a sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datatype {
    size: usize,
    is_signed: bool,
}

impl Datatype {
    /// From a C caller's number.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP for what is no integer of at most 64 bits.
    pub fn from_raw(raw: fi_datatype) -> Result<Self> {
        let size = match raw {
            abi::FI_INT8 | abi::FI_UINT8 => 1,
            abi::FI_INT16 | abi::FI_UINT16 => 2,
            abi::FI_INT32 | abi::FI_UINT32 => 4,
            abi::FI_INT64 | abi::FI_UINT64 => 8,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let is_signed = matches!(
            raw,
            abi::FI_INT8 | abi::FI_INT16 | abi::FI_INT32 | abi::FI_INT64
        );
        Ok(Self { size, is_signed })
    }

    /// Bytes of one.
    #[inline]
    pub fn size(self) -> usize {
        self.size
    }

    /// How many fit into so many bytes.
    #[inline]
    pub fn count_in(self, bytes: usize) -> usize {
        bytes >> self.size.trailing_zeros()
    }
}

/// How an operation is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `fi_atomic()`: nothing comes back.
    Base,
    /// `fi_fetch_atomic()`: what was there before comes back.
    Fetch,
    /// `fi_compare_atomic()`: the same, and there is something to compare with.
    Compare,
}

/// What is done to a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Op {
    Min,
    Max,
    Sum,
    Prod,
    LogicalOr,
    LogicalAnd,
    BitOr,
    BitAnd,
    LogicalXor,
    BitXor,
    Read,
    Write,
    Swap,
    SwapNe,
    SwapLe,
    SwapLt,
    SwapGe,
    SwapGt,
    MaskedSwap,
}

impl Op {
    /// From a C caller's number.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP for one that `form` does not have.
    pub fn from_raw(raw: fi_op, form: Form) -> Result<Self> {
        let op = match raw {
            abi::FI_MIN => Self::Min,
            abi::FI_MAX => Self::Max,
            abi::FI_SUM => Self::Sum,
            abi::FI_PROD => Self::Prod,
            abi::FI_LOR => Self::LogicalOr,
            abi::FI_LAND => Self::LogicalAnd,
            abi::FI_BOR => Self::BitOr,
            abi::FI_BAND => Self::BitAnd,
            abi::FI_LXOR => Self::LogicalXor,
            abi::FI_BXOR => Self::BitXor,
            abi::FI_ATOMIC_READ => Self::Read,
            abi::FI_ATOMIC_WRITE => Self::Write,
            abi::FI_CSWAP => Self::Swap,
            abi::FI_CSWAP_NE => Self::SwapNe,
            abi::FI_CSWAP_LE => Self::SwapLe,
            abi::FI_CSWAP_LT => Self::SwapLt,
            abi::FI_CSWAP_GE => Self::SwapGe,
            abi::FI_CSWAP_GT => Self::SwapGt,
            abi::FI_MSWAP => Self::MaskedSwap,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        op.is_for(form).then_some(op).ok_or(Errno::EOPNOTSUPP)
    }

    /// Whether `form` has it.
    pub fn is_for(self, form: Form) -> bool {
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

/// An atomic operation, but for its operands, which are the memory of its message.
pub struct Atomic<'a> {
    /// How it is called.
    pub form: Form,
    /// What is done.
    pub op: Op,
    /// To what.
    pub datatype: Datatype,
    /// Where.
    pub remote: &'a [fi_rma_ioc],
    /// What to compare with; [`Form::Compare`] only.
    pub compare: &'a [Segment],
    /// Where the old values go; not with [`Form::Base`].
    pub result: &'a [Segment],
    /// A descriptor for each of `result`, or none at all.
    pub result_descriptors: &'a [Descriptor],
}

#[kunit_tests(kofi_fi_atomic)]
mod tests {
    use super::*;

    fn of(raw: fi_datatype) -> Result<Datatype> {
        Datatype::from_raw(raw)
    }

    #[test]
    fn atom_01_forms_have_their_operations() {
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
    fn atom_01_integers_only() {
        for raw in 0..abi::FI_DATATYPE_LAST + 3 {
            assert_eq!(of(raw).is_ok(), raw <= abi::FI_UINT64);
        }
    }
}
