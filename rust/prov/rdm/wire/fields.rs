// SPDX-License-Identifier: GPL-2.0

//! Numbers at fixed places of a block of bytes.
//!
//! They are in the byte order of whoever wrote them: peers of the other one are refused when they
//! connect.

/// So many bytes with numbers in them. A place is a constant: one that does not exist does not compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fields<const N: usize>([u8; N]);

macro_rules! numbers {
    ($($number:ident: $get:ident $set:ident;)*) => {
        $(
            /// The number there.
            #[inline(always)]
            pub(super) fn $get<const AT: usize>(&self) -> $number {
                $number::from_ne_bytes(self.bytes::<AT, { size_of::<$number>() }>())
            }

            /// Puts a number there.
            #[inline(always)]
            pub(super) fn $set<const AT: usize>(&mut self, number: $number) {
                self.set_bytes::<AT, { size_of::<$number>() }>(number.to_ne_bytes());
            }
        )*
    };
}

impl<const N: usize> Fields<N> {
    /// Nothing but zeroes.
    pub(super) const fn new() -> Self {
        Self([0; N])
    }

    /// The first bytes of `bytes`, if there are enough.
    #[inline(always)]
    pub(super) fn first_of(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self)
    }

    /// All of them.
    #[inline(always)]
    pub(super) fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    numbers! {
        u16: u16 set_u16;
        u32: u32 set_u32;
        u64: u64 set_u64;
    }

    /// The byte there.
    #[inline(always)]
    pub(super) fn u8<const AT: usize>(&self) -> u8 {
        const { assert!(AT < N) }
        self.0[AT]
    }

    /// Puts a byte there.
    #[inline(always)]
    pub(super) fn set_u8<const AT: usize>(&mut self, byte: u8) {
        const { assert!(AT < N) }
        self.0[AT] = byte;
    }

    /// The bytes from there on.
    #[inline(always)]
    pub(super) fn bytes<const AT: usize, const LEN: usize>(&self) -> [u8; LEN] {
        const { assert!(AT + LEN <= N) }
        core::array::from_fn(|at| self.0[AT + at])
    }

    /// Puts bytes there.
    #[inline(always)]
    pub(super) fn set_bytes<const AT: usize, const LEN: usize>(&mut self, bytes: [u8; LEN]) {
        const { assert!(AT + LEN <= N) }
        // At once: byte by byte is how the compiler would do it otherwise.
        self.0[AT..AT + LEN].copy_from_slice(&bytes);
    }
}
