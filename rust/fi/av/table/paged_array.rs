// SPDX-License-Identifier: GPL-2.0

//! An array that grows by pages. Elements never move, so readers need no lock.

use crate::{
    fi::prelude::*,
    util::once::OnceBox, //
};
use pin_init::init_array_from_fn;

/// Number of elements of a leaf.
pub(super) const LEAF_LEN: u32 = 128;
/// Number of pointers of a node, which fills a page.
const NODE_LEN: u32 = 512;
/// Maximum number of elements.
pub(super) const MAX_LEN: u32 = NODE_LEN * NODE_LEN * LEAF_LEN;

type Leaf<T> = [T; LEAF_LEN as usize];
type Node<T> = [OnceBox<T>; NODE_LEN as usize];

/// The array. An element exists when its leaf does.
pub(super) struct PagedArray<T> {
    root: OnceBox<Node<Node<Leaf<T>>>>,
    new_element: fn() -> T,
}

fn new_node<T>() -> Result<KBox<Node<T>>> {
    Ok(KBox::init(
        init_array_from_fn(|_| OnceBox::new()),
        GFP_KERNEL,
    )?)
}

impl<T> PagedArray<T> {
    /// Returns an empty array, whose elements `new_element` makes.
    pub(super) const fn new(new_element: fn() -> T) -> Self {
        Self {
            root: OnceBox::new(),
            new_element,
        }
    }

    /// Returns the element at `at`, if its leaf exists. Any context.
    #[inline(always)]
    pub(super) fn get(&self, at: u32) -> Option<&T> {
        let nodes = self
            .root
            .get()?
            .get((at / LEAF_LEN / NODE_LEN) as usize)?
            .get()?;
        let leaf = nodes[(at / LEAF_LEN % NODE_LEN) as usize].get()?;
        Some(&leaf[(at % LEAF_LEN) as usize])
    }

    /// Returns the element at `at`, and allocates its leaf if needed. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, also beyond [`MAX_LEN`].
    pub(super) fn get_or_alloc(&self, at: u32) -> Result<&T> {
        let nodes = self.root.get_or_try_init(new_node)?;
        let nodes = nodes
            .get((at / LEAF_LEN / NODE_LEN) as usize)
            .ok_or(Errno::ENOMEM)?
            .get_or_try_init(new_node)?;
        let leaf = nodes[(at / LEAF_LEN % NODE_LEN) as usize].get_or_try_init(|| {
            Ok(KBox::init(
                init_array_from_fn(|_| (self.new_element)()),
                GFP_KERNEL,
            )?)
        })?;
        Ok(&leaf[(at % LEAF_LEN) as usize])
    }

    /// Returns the memory use in bytes; no leaf exists from `bound` on.
    pub(super) fn size(&self, bound: u32) -> usize {
        let leaves = (0..bound)
            .step_by(LEAF_LEN as usize)
            .filter(|&at| self.get(at).is_some())
            .count();
        let nodes = match leaves {
            0 => 0,
            _ => 1 + leaves.div_ceil(NODE_LEN as usize),
        };
        leaves * size_of::<Leaf<T>>() + nodes * size_of::<Node<T>>()
    }
}
