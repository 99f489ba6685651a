// SPDX-License-Identifier: GPL-2.0

//! Evaluation of atomic operators.

use super::{
    Datatype,
    Op, //
};
use kernel::prelude::*;

/// The operands of an atomic operation, each in the low bytes of a `u64`.
#[derive(Clone, Copy)]
pub struct Operands {
    /// Previous value at the target.
    pub old: u64,
    /// Operand of the consumer.
    pub operand: u64,
    /// Compare value, for an operator that compares.
    pub compare: u64,
}

impl Datatype {
    /// Returns the bits of `value` that belong to the type.
    fn truncate(self, value: u64) -> u64 {
        value & (u64::MAX >> (u64::BITS - self.bits()))
    }

    /// Maps values to numbers in the same order, for signed and unsigned comparison.
    fn order_key(self, value: u64) -> u64 {
        let top = value << (u64::BITS - self.bits());
        match self.is_signed {
            true => top ^ (1 << (u64::BITS - 1)),
            false => top,
        }
    }

    fn bits(self) -> u32 {
        self.size as u32 * u8::BITS
    }
}

impl Op {
    /// Returns the new value at the target.
    pub fn apply(self, datatype: Datatype, operands: Operands) -> u64 {
        let old = datatype.truncate(operands.old);
        let operand = datatype.truncate(operands.operand);
        let compare = datatype.truncate(operands.compare);
        let (is, has) = (old != 0, operand != 0);
        let takes = |takes: bool| if takes { operand } else { old };
        let less = |a, b| datatype.order_key(a) < datatype.order_key(b);
        datatype.truncate(match self {
            Self::Min => takes(less(operand, old)),
            Self::Max => takes(less(old, operand)),
            Self::Sum => old.wrapping_add(operand),
            Self::Prod => old.wrapping_mul(operand),
            Self::LogicalOr => (is || has).into(),
            Self::LogicalAnd => (is && has).into(),
            Self::LogicalXor => (is != has).into(),
            Self::BitOr => old | operand,
            Self::BitAnd => old & operand,
            Self::BitXor => old ^ operand,
            Self::Read => old,
            Self::Write => operand,
            Self::Swap => takes(compare == old),
            Self::SwapNe => takes(compare != old),
            Self::SwapLe => takes(!less(old, compare)),
            Self::SwapLt => takes(less(compare, old)),
            Self::SwapGe => takes(!less(compare, old)),
            Self::SwapGt => takes(less(old, compare)),
            Self::MaskedSwap => (operand & compare) | (old & !compare),
        })
    }
}

/// Loads an element of 1, 2, 4 or 8 bytes; 0 for another number of bytes.
pub fn load_element(bytes: &[u8]) -> u64 {
    match *bytes {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// Stores the low bytes of a value as an element of 1, 2, 4 or 8 bytes.
pub fn store_element(bytes: &mut [u8], value: u64) {
    match bytes {
        [a] => *a = value as u8,
        [_, _] => fill(bytes, (value as u16).to_ne_bytes()),
        [_, _, _, _] => fill(bytes, (value as u32).to_ne_bytes()),
        _ => fill(bytes, value.to_ne_bytes()),
    }
}

fn fill<const N: usize>(bytes: &mut [u8], value: [u8; N]) {
    if let Some(space) = bytes.first_chunk_mut() {
        *space = value;
    }
}

#[kunit_tests(kofi_fi_atomic_ops)]
mod tests {
    use super::*;
    use crate::abi;

    fn apply(op: Op, raw: abi::fi_datatype, old: u64, operand: u64, compare: u64) -> u64 {
        let operands = Operands {
            old,
            operand,
            compare,
        };
        Datatype::from_raw(raw).map_or(u64::MAX, |datatype| op.apply(datatype, operands))
    }

    #[test]
    fn atom_02_comparison_respects_signedness() {
        assert_eq!(apply(Op::Min, abi::FI_INT8, 1, 0xff, 0), 0xff);
        assert_eq!(apply(Op::Min, abi::FI_UINT8, 1, 0xff, 0), 1);
        assert_eq!(apply(Op::Max, abi::FI_INT64, 1, u64::MAX, 0), 1);
        assert_eq!(apply(Op::Max, abi::FI_UINT64, 1, u64::MAX, 0), u64::MAX);
        assert_eq!(apply(Op::SwapLt, abi::FI_INT16, 0, 7, 0x8000), 7);
        assert_eq!(apply(Op::SwapLt, abi::FI_UINT16, 0, 7, 0x8000), 0);
    }

    #[test]
    fn atom_02_compare_value_is_the_left_operand() {
        let cases = [
            (Op::Swap, [5, 9, 5]),
            (Op::SwapNe, [9, 5, 9]),
            (Op::SwapLe, [9, 9, 5]),
            (Op::SwapLt, [9, 5, 5]),
            (Op::SwapGe, [5, 9, 9]),
            (Op::SwapGt, [5, 5, 9]),
        ];
        for (op, [below, same, above]) in cases {
            // The old value is 5, and the operand is 9; the compare values are 4, 5 and 6.
            assert_eq!(apply(op, abi::FI_INT32, 5, 9, 4), below);
            assert_eq!(apply(op, abi::FI_INT32, 5, 9, 5), same);
            assert_eq!(apply(op, abi::FI_INT32, 5, 9, 6), above);
        }
    }

    #[test]
    fn atom_02_bits_above_the_datatype_are_ignored() {
        assert_eq!(apply(Op::Sum, abi::FI_UINT8, 0x1ff, 0x101, 0), 0);
        assert_eq!(apply(Op::Prod, abi::FI_UINT32, 1 << 31, 2, 0), 0);
        assert_eq!(apply(Op::LogicalOr, abi::FI_UINT8, 0x100, 0x100, 0), 0);
        assert_eq!(apply(Op::LogicalXor, abi::FI_UINT8, 0x1ff, 0x100, 0), 1);
        assert_eq!(apply(Op::Swap, abi::FI_UINT16, 0x10005, 9, 0x20005), 9);
    }

    #[test]
    fn elements_of_all_sizes_are_stored_and_loaded() {
        for size in [1, 2, 4, 8] {
            let mut bytes = [0xff; 9];
            for value in [0, 1, 0x80, 0x0102_0304_0506_0708, u64::MAX] {
                store_element(&mut bytes[..size], value);
                assert_eq!(
                    load_element(&bytes[..size]),
                    value & (u64::MAX >> (64 - 8 * size))
                );
                assert_eq!(bytes[size], 0xff);
            }
        }
    }
}
