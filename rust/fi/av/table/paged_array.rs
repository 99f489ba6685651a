// SPDX-License-Identifier: GPL-2.0

//! An array that grows by pages, whose elements never move: readers need no lock.

use crate::abi::{
    once::OnceBox,
    Errno,
    Result, //
};
use kernel::prelude::*;
use pin_init::init_array_from_fn;

/// Elements of a leaf.
pub(super) const LEAF: u32 = 128;
/// Pointers in a page.
const FAN: u32 = 512;
/// How many elements there can be.
pub(super) const MOST: u32 = FAN * FAN * LEAF;

type Leaf<T> = [T; LEAF as usize];
type Node<T> = [OnceBox<T>; FAN as usize];

/// The array. An element is there when its leaf is.
pub(super) struct PagedArray<T> {
    root: OnceBox<Node<Node<Leaf<T>>>>,
}

fn node<T>() -> Result<KBox<Node<T>>> {
    Ok(KBox::init(
        init_array_from_fn(|_| OnceBox::new()),
        GFP_KERNEL,
    )?)
}

impl<T: Default> PagedArray<T> {
    /// Without elements.
    pub(super) const fn new() -> Self {
        Self {
            root: OnceBox::new(),
        }
    }

    /// The element at `at`, if its leaf is there. Any context.
    #[inline(always)]
    pub(super) fn get(&self, at: u32) -> Option<&T> {
        let nodes = self.root.get()?.get((at / LEAF / FAN) as usize)?.get()?;
        let leaf = nodes[(at / LEAF % FAN) as usize].get()?;
        Some(&leaf[(at % LEAF) as usize])
    }

    /// The element at `at`, whose leaf is made if it is not there. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, also past [`MOST`].
    pub(super) fn make(&self, at: u32) -> Result<&T> {
        let nodes = self.root.get_or_make(node)?;
        let nodes = nodes
            .get((at / LEAF / FAN) as usize)
            .ok_or(Errno::ENOMEM)?
            .get_or_make(node)?;
        let leaf = nodes[(at / LEAF % FAN) as usize].get_or_make(|| {
            Ok(KBox::init(
                init_array_from_fn(|_| T::default()),
                GFP_KERNEL,
            )?)
        })?;
        Ok(&leaf[(at % LEAF) as usize])
    }

    /// How many bytes it takes up to `bound`, from which on nothing is.
    pub(super) fn size(&self, bound: u32) -> usize {
        let leaves = (0..bound)
            .step_by(LEAF as usize)
            .filter(|&at| self.get(at).is_some())
            .count();
        let nodes = match leaves {
            0 => 0,
            _ => 1 + leaves.div_ceil(FAN as usize),
        };
        leaves * size_of::<Leaf<T>>() + nodes * size_of::<Node<T>>()
    }
}
