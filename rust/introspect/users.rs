// SPDX-License-Identifier: GPL-2.0

//! Reports of open objects by owner: those that hold up the removal of a device, and those that a module
//! has left open.
//!
//! Reads the [`object_table`], and has no data of its own.

use super::object_table::{
    self,
    field_text, //
};
use crate::abi::{
    enum_names,
    kofi_object,
    KOFI_OBJECT_DOMAIN,
    KOFI_OBJECT_EP,
    KOFI_OBJECT_SEP, //
};
use kernel::{
    fmt,
    prelude::*, //
};

/// The open objects of one owner.
struct Owned {
    owner: [u8; 64],
    /// Process that owns the objects; 0 for a module.
    pid: u32,
    count: usize,
    /// The object named in the log: the first endpoint, or else the first object.
    kind: u32,
    id: u64,
}

fn is_endpoint(kind: u32) -> bool {
    matches!(kind, KOFI_OBJECT_EP | KOFI_OBJECT_SEP)
}

/// Adds an object to those of its owner, unless it belongs to kOFI itself.
fn count_object(owners: &mut KVec<Owned>, object: &kofi_object) -> Result {
    if object.pid == 0 && field_text(&object.owner) == Some("kofi") {
        return Ok(());
    }
    let is_same = |owned: &&mut Owned| owned.owner == object.owner && owned.pid == object.pid;
    if let Some(owned) = owners.iter_mut().find(is_same) {
        owned.count += 1;
        if is_endpoint(object.kind) && !is_endpoint(owned.kind) {
            (owned.kind, owned.id) = (object.kind, object.id);
        }
        return Ok(());
    }
    let owned = Owned {
        owner: object.owner,
        pid: object.pid,
        count: 1,
        kind: object.kind,
        id: object.id,
    };
    Ok(owners.push(owned, GFP_KERNEL)?)
}

impl fmt::Display for Owned {
    /// Formats like `ep 38: 4 objects of module datagram_server`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = enum_names::OBJECT.display(self.kind);
        let plural = if self.count == 1 { "" } else { "s" };
        let owner = field_text(&self.owner).unwrap_or("?");
        f.write_fmt(fmt!(
            "{kind} {}: {} object{plural} of ",
            self.id,
            self.count
        ))?;
        match self.pid {
            0 => f.write_fmt(fmt!("module {owner}")),
            pid => f.write_fmt(fmt!("process {owner} ({pid})")),
        }
    }
}

/// Collects the open objects for which `is_wanted` holds, by owner. May sleep.
fn collect(mut is_wanted: impl FnMut(&kofi_object) -> Result<bool>) -> Result<KVec<Owned>> {
    let mut owners = KVec::new();
    object_table::for_each(0, None, |object| match is_wanted(object)? {
        true => count_object(&mut owners, object),
        false => Ok(()),
    })?;
    Ok(owners)
}

/// Collects the open objects of the domains of a device, by owner. May sleep.
fn collect_of_device(device: &CStr) -> Result<KVec<Owned>> {
    // Numbers increase: each object comes after its parent.
    let mut inside = KVec::new();
    collect(|object| {
        let name = field_text(&object.name).map(str::as_bytes);
        let is_domain = object.kind == KOFI_OBJECT_DOMAIN && name == Some(device.to_bytes());
        let is_inside = is_domain || inside.binary_search(&object.parent).is_ok();
        if is_inside {
            inside.push(object.id, GFP_KERNEL)?;
        }
        Ok(is_inside)
    })
}

/// Logs the owners of objects that are open on a device that is being removed; false if there are none.
/// May sleep.
pub(crate) fn log_device_users(device: &CStr) -> bool {
    let owners = collect_of_device(device).unwrap_or_default();
    for owned in &owners {
        let action = if owned.pid == 0 { "unload" } else { "end" };
        pr_warn!("{device}: {owned} still open; {action} it to finish removing the device\n");
    }
    !owners.is_empty()
}

/// Logs the objects that a module has left open after its exit function has returned. May sleep.
pub(crate) fn log_module_users(module: &CStr) {
    let is_its = |object: &kofi_object| {
        let owner = field_text(&object.owner).map(str::as_bytes);
        Ok(object.pid == 0 && owner == Some(module.to_bytes()))
    };
    for owned in &collect(is_its).unwrap_or_default() {
        pr_warn!("{owned} left open after its unload: close them in its exit function\n");
    }
}

#[kunit_tests(kofi_introspect_users)]
mod tests {
    use super::*;
    use crate::abi::{
        KOFI_OBJECT_CQ,
        KOFI_OBJECT_MR, //
    };
    use kernel::str::CString;

    /// Adds an object of `kind` with number `id` that belongs to `owner`.
    fn add_object(owners: &mut KVec<Owned>, kind: u32, id: u64, owner: (&[u8], u32)) -> Result {
        let mut object: KBox<kofi_object> = KBox::init(pin_init::init_zeroed(), GFP_KERNEL)?;
        (object.kind, object.id, object.pid) = (kind, id, owner.1);
        for (to, from) in object.owner.iter_mut().zip(owner.0) {
            *to = *from;
        }
        count_object(owners, &object)
    }

    fn is_displayed_as(owned: Option<&Owned>, text: &[u8]) -> Result<bool> {
        let owned = owned.ok_or(ENOENT)?;
        Ok(CString::try_from_fmt(fmt!("{owned}"))?.to_bytes() == text)
    }

    #[test]
    fn close_03_message_names_the_owner_and_an_open_endpoint() -> Result {
        let (module, process) = ((&b"datagram_server"[..], 0), (&b"kofi"[..], 77));
        let mut owners = KVec::new();
        add_object(&mut owners, KOFI_OBJECT_DOMAIN, 35, module)?;
        add_object(&mut owners, KOFI_OBJECT_DOMAIN, 36, (b"kofi", 0))?;
        add_object(&mut owners, KOFI_OBJECT_CQ, 37, module)?;
        add_object(&mut owners, KOFI_OBJECT_EP, 38, module)?;
        add_object(&mut owners, KOFI_OBJECT_EP, 39, module)?;
        add_object(&mut owners, KOFI_OBJECT_MR, 40, process)?;
        assert_eq!(owners.len(), 2);
        let expected = b"ep 38: 4 objects of module datagram_server";
        assert!(is_displayed_as(owners.first(), expected)?);
        assert!(is_displayed_as(
            owners.last(),
            b"mr 40: 1 object of process kofi (77)"
        )?);
        Ok(())
    }
}
