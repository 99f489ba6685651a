// SPDX-License-Identifier: GPL-2.0

//! The debugfs file `kofi/objects`: the open objects of all network namespaces, as text.

use crate::{
    abi::{
        enum_names,
        kofi_object, //
    },
    introspect::object_table::{
        self,
        field_text, //
    },
    prelude::*, //
};
use kernel::{
    bindings::seq_file,
    error::Result,
    fmt::{
        self,
        Display, //
    },
    seq_file::SeqFile,
    seq_print, //
};

/// Limit of the printed objects, of which the oldest are printed.
const MAX_OBJECTS: usize = 1 << 12;

extern "C" {
    fn kofi_debugfs_create();
    fn kofi_debugfs_remove();
}

/// The directory `kofi` of debugfs with its file. Dropping it removes both.
pub(crate) struct Debugfs(());

impl Debugfs {
    /// Creates the file at the module's initialisation. A kernel without debugfs has no file, which
    /// is not an error.
    pub(crate) fn new() -> Self {
        // SAFETY: The module's initialisation may sleep, and calls this once. `Drop` removes the
        // file before the module is unloaded.
        unsafe { kofi_debugfs_create() };
        Self(())
    }
}

impl Drop for Debugfs {
    fn drop(&mut self) {
        // SAFETY: `new` has created the file, and the module's exit may sleep.
        unsafe { kofi_debugfs_remove() };
    }
}

/// Prints the open objects of all network namespaces. May sleep.
///
/// # Safety
///
/// `m` must be a `seq_file` that only the caller uses.
#[no_mangle]
unsafe extern "C" fn kofi_print_objects(m: NonNull<seq_file>) {
    // SAFETY: By this function's safety requirement.
    let m = unsafe { SeqFile::from_raw(m.as_ptr()) };
    seq_print!(m, "{}", Objects);
}

/// The open objects of all network namespaces, one per line.
struct Objects;

impl Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut objects = KVVec::new();
        let read = object_table::for_each(0, None, |object| {
            if objects.len() == MAX_OBJECTS {
                return Err(ENOSPC);
            }
            Ok(objects.push(*object, GFP_KERNEL_ACCOUNT)?)
        });
        let links = Links::new(&objects).map_err(|_| fmt::Error)?;
        links.for_each(&objects, |object, depth| write_object(object, depth, f))?;
        match read {
            Ok(()) => Ok(()),
            Err(ENOSPC) => f.write_str("...\n"),
            Err(_) => Err(fmt::Error),
        }
    }
}

/// Prints an object as a line: kind, id, name and addresses, owner, state and values.
fn write_object(object: &kofi_object, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for _ in 0..depth {
        f.write_str("  ")?;
    }
    let kind = enum_names::OBJECT.display(object.kind);
    f.write_fmt(fmt!("{} {}", kind, object.id))?;
    for text in [&object.name[..], &object.local_addr, &object.peer_addr] {
        if let Some(text) = field_text(text) {
            f.write_fmt(fmt!(" {}", text))?;
        }
    }
    if depth == 0 {
        f.write_fmt(fmt!(" of {}", field_text(&object.owner).unwrap_or("?")))?;
        if object.pid != 0 {
            f.write_fmt(fmt!(" {}", object.pid))?;
        }
    }
    if object.state != 0 {
        f.write_fmt(fmt!(" {}", enum_names::STATE.display(object.state)))?;
    }
    let values = object.what.iter().zip(&object.values);
    for (&what, value) in values.take(object.value_count as usize) {
        f.write_fmt(fmt!(" {}={}", enum_names::VALUE.display(what), value))?;
    }
    f.write_str("\n")
}

/// The tree of objects, which are sorted by id; objects are referred to by index.
struct Links {
    /// The first child and the next sibling of each object.
    links: KVVec<[Option<u32>; 2]>,
    first_root: Option<u32>,
}

impl Links {
    fn new(objects: &[kofi_object]) -> Result<Self> {
        let mut links = KVVec::from_elem([None; 2], objects.len(), GFP_KERNEL_ACCOUNT)?;
        let mut first_root = None;
        for (at, object) in objects.iter().enumerate().rev() {
            let parent = objects.binary_search_by_key(&object.parent, |object| object.id);
            let slot = parent.ok().and_then(|parent| links.get_mut(parent));
            let head = slot.map_or(&mut first_root, |[below, _]| below);
            let next = head.replace(at as u32);
            if let Some([_, beside]) = links.get_mut(at) {
                *beside = next;
            }
        }
        Ok(Self { links, first_root })
    }

    /// Calls `visit` for each object, after its parent, with its depth.
    fn for_each<'a>(
        &self,
        objects: &'a [kofi_object],
        mut visit: impl FnMut(&'a kofi_object, usize) -> fmt::Result,
    ) -> fmt::Result {
        // The deepest objects are address vector sets.
        let mut above: [Option<u32>; 4] = [None; 4];
        let (mut depth, mut at) = (0, self.first_root);
        loop {
            while let Some(slot) = at {
                let found = objects.get(slot as usize);
                let links = self.links.get(slot as usize);
                let (Some(object), Some([below, beside])) = (found, links) else {
                    return Ok(());
                };
                visit(object, depth)?;
                match (below, above.get_mut(depth)) {
                    (Some(_), Some(resume)) => {
                        *resume = *beside;
                        depth += 1;
                        at = *below;
                    }
                    _ => at = *beside,
                }
            }
            match depth.checked_sub(1) {
                None => return Ok(()),
                Some(up) => {
                    depth = up;
                    at = above.get(up).copied().flatten();
                }
            }
        }
    }
}

#[kunit_tests(kofi_introspect_debugfs)]
mod tests {
    use super::*;

    /// Returns objects with the given pairs of id and parent.
    fn objects(ids: &[(u64, u64)]) -> Result<KVVec<kofi_object>> {
        let mut objects = KVVec::new();
        for &(id, parent) in ids {
            let object = kofi_object {
                id,
                parent,
                ..pin_init::zeroed()
            };
            objects.push(object, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(objects)
    }

    #[test]
    fn children_are_visited_below_their_parents_in_order() -> Result {
        let objects = objects(&[(1, 0), (2, 1), (3, 0), (5, 1), (6, 2), (8, 3), (9, 2)])?;
        let mut seen = KVec::new();
        let links = Links::new(&objects)?;
        let walked = links.for_each(&objects, |object, depth| {
            seen.push((object.id, depth), GFP_KERNEL_ACCOUNT)
                .map_err(|_| fmt::Error)
        });
        assert!(walked.is_ok());
        let order = [(1, 0), (2, 1), (6, 2), (9, 2), (5, 1), (3, 0), (8, 1)];
        assert_eq!(seen[..], order);
        Ok(())
    }

    #[test]
    fn empty_list_visits_no_object() -> Result {
        let objects = objects(&[])?;
        let walked = Links::new(&objects)?.for_each(&objects, |_, _| Err(fmt::Error));
        assert!(walked.is_ok());
        Ok(())
    }
}
