// SPDX-License-Identifier: GPL-2.0

//! Atomic operations: which there are, and what each of them makes of a value. Pure arithmetic.

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

/// The type of the operands: an integer.
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
        let (size, is_signed) = match raw {
            abi::FI_INT8 => (1, true),
            abi::FI_UINT8 => (1, false),
            abi::FI_INT16 => (2, true),
            abi::FI_UINT16 => (2, false),
            abi::FI_INT32 => (4, true),
            abi::FI_UINT32 => (4, false),
            abi::FI_INT64 => (8, true),
            abi::FI_UINT64 => (8, false),
            _ => return Err(Errno::EOPNOTSUPP),
        };
        Ok(Self { size, is_signed })
    }

    /// Bytes of one.
    #[inline]
    pub fn size(self) -> usize {
        self.size
    }

    /// The bits that it has, of 64.
    fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.size)
    }

    /// Whether `a` is less than `b`; both have its bits only.
    fn is_less(self, a: u64, b: u64) -> bool {
        if self.is_signed {
            let shift = 64 - 8 * self.size;
            ((a << shift) as i64) < ((b << shift) as i64)
        } else {
            a < b
        }
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
        match (op.compares(), form) {
            (true, Form::Compare) => Ok(op),
            (false, Form::Fetch) => Ok(op),
            (false, Form::Base) if op != Self::Read => Ok(op),
            _ => Err(Errno::EOPNOTSUPP),
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

    /// What `old` becomes; all values have the bits of `of` only, and so has the answer.
    pub fn apply(self, of: Datatype, old: u64, operand: u64, compare: u64) -> u64 {
        let chosen = |is_operand: bool| if is_operand { operand } else { old };
        let new = match self {
            Self::Min => chosen(of.is_less(operand, old)),
            Self::Max => chosen(of.is_less(old, operand)),
            Self::Sum => old.wrapping_add(operand),
            Self::Prod => old.wrapping_mul(operand),
            Self::LogicalOr => u64::from(old != 0 || operand != 0),
            Self::LogicalAnd => u64::from(old != 0 && operand != 0),
            Self::LogicalXor => u64::from((old != 0) != (operand != 0)),
            Self::BitOr => old | operand,
            Self::BitAnd => old & operand,
            Self::BitXor => old ^ operand,
            Self::Read => old,
            Self::Write => operand,
            // The comparison is of what is given with what is there, in this order.
            Self::Swap => chosen(compare == old),
            Self::SwapNe => chosen(compare != old),
            Self::SwapLe => chosen(!of.is_less(old, compare)),
            Self::SwapLt => chosen(of.is_less(compare, old)),
            Self::SwapGe => chosen(!of.is_less(compare, old)),
            Self::SwapGt => chosen(of.is_less(old, compare)),
            Self::MaskedSwap => (operand & compare) | (old & !compare),
        };
        new & of.mask()
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

    #[test]
    fn atom_02_signs_decide_comparisons() -> kernel::error::Result {
        let (signed, unsigned) = (of(abi::FI_INT8), of(abi::FI_UINT8));
        let (Ok(signed), Ok(unsigned)) = (signed, unsigned) else {
            return Err(EINVAL);
        };
        // 0xff is -1 or 255.
        assert_eq!(Op::Max.apply(signed, 0xff, 1, 0), 1);
        assert_eq!(Op::Max.apply(unsigned, 0xff, 1, 0), 0xff);
        assert_eq!(Op::Min.apply(signed, 1, 0xff, 0), 0xff);
        assert_eq!(Op::Min.apply(unsigned, 1, 0xff, 0), 1);
        // Swaps where the given value is greater than the one that is there.
        assert_eq!(Op::SwapGt.apply(signed, 0xff, 7, 1), 7);
        assert_eq!(Op::SwapGt.apply(unsigned, 0xff, 7, 1), 0xff);
        Ok(())
    }

    #[test]
    fn atom_02_values_stay_in_their_width() -> kernel::error::Result {
        let Ok(byte) = of(abi::FI_UINT8) else {
            return Err(EINVAL);
        };
        assert_eq!(Op::Sum.apply(byte, 0xff, 2, 0), 1);
        assert_eq!(Op::Prod.apply(byte, 0x10, 0x11, 0), 0x10);
        let Ok(word) = of(abi::FI_INT64) else {
            return Err(EINVAL);
        };
        assert_eq!(Op::Sum.apply(word, u64::MAX, 1, 0), 0);
        assert_eq!(Op::Min.apply(word, 0, u64::MAX, 0), u64::MAX);
        Ok(())
    }

    #[test]
    fn atom_02_swaps_compare_what_is_given_with_what_is_there() -> kernel::error::Result {
        let Ok(byte) = of(abi::FI_UINT8) else {
            return Err(EINVAL);
        };
        // For a given 1, 2, 3 against 2: whether 9 is stored.
        for (op, stored) in [
            (Op::Swap, [false, true, false]),
            (Op::SwapNe, [true, false, true]),
            (Op::SwapLe, [true, true, false]),
            (Op::SwapLt, [true, false, false]),
            (Op::SwapGe, [false, true, true]),
            (Op::SwapGt, [false, false, true]),
        ] {
            for (given, expected) in [1, 2, 3].into_iter().zip(stored) {
                let new = op.apply(byte, 2, 9, given);
                assert_eq!(new, if expected { 9 } else { 2 });
            }
        }
        assert_eq!(Op::MaskedSwap.apply(byte, 0x55, 0xff, 0x0f), 0x5f);
        Ok(())
    }
}
