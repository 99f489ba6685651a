// SPDX-License-Identifier: GPL-2.0

//! Introspection: each open object has an entry in the module-wide [`object_table`], which reports the object's
//! owner, parent and state.
//!
//! An object has an entry from its opening to its close. The entry holds no reference to the object itself,
//! only to the part of it that implements [`Introspect`].

#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use super::object::{
    Listed,
    Parent, //
};
use crate::{
    abi::{
        addr::with_bytes,
        kofi_address,
        kofi_object,
        FI_ADDR_STR, //
    },
    fi::prelude::*,
    introspect::object_table::{
        self,
        TableSlot, //
    },
    util::context, //
};
use kernel::sync::{
    new_spinlock,
    SpinLock, //
};

/// A name, NUL-terminated and padded with NUL bytes.
type NameBuf = [u8; 64];

/// Copies as much of `text` as fits, and replaces control characters by question marks.
fn copy_name(text: &[u8]) -> NameBuf {
    let mut name = [0; size_of::<NameBuf>()];
    let space = name.iter_mut().take(size_of::<NameBuf>() - 1);
    for (to, &from) in space.zip(text) {
        *to = if from.is_ascii_control() { b'?' } else { from };
    }
    name
}

/// The consumer that opened a fabric, and so all objects below it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    name: NameBuf,
    /// Process id; 0 for a module.
    pid: u32,
}

impl Owner {
    /// Returns a kernel module as the owner.
    pub(crate) fn module(module: &CStr) -> Self {
        Self {
            name: copy_name(module.to_bytes()),
            pid: 0,
        }
    }

    /// Returns the current process as the owner. Call it in a system call only.
    pub fn process() -> Self {
        let (comm, pid) = context::current_task();
        let len = comm.iter().position(|&byte| byte == 0);
        Self {
            name: copy_name(comm.get(..len.unwrap_or(comm.len())).unwrap_or(&comm)),
            pid,
        }
    }
}

/// The description of an object that [`Introspect::fill_info`] fills in.
pub struct ObjectInfo<'a>(&'a mut kofi_object);

impl ObjectInfo<'_> {
    /// Sets the state: one of `enum kofi_object_state`.
    pub(crate) fn set_state(&mut self, state: u32) {
        self.0.state = state;
    }

    /// Adds a value; `key` is one of `enum kofi_object_value`. Drops the value if the description is full.
    pub(crate) fn add_value(&mut self, key: u32, value: u64) {
        let at = self.0.value_count as usize;
        if let (Some(name), Some(number)) = (self.0.what.get_mut(at), self.0.values.get_mut(at)) {
            (*name, *number) = (key, value);
            self.0.value_count += 1;
        }
    }
}

/// The part of an object that describes its state.
pub(crate) trait Introspect: Send + Sync {
    /// Adds the state to `info`. Called under the object table's spinlock: may take a spinlock, and does not sleep.
    fn fill_info(&self, info: &mut ObjectInfo<'_>);

    /// Lists the addresses of an address vector, as [`object_table::TableEntry::list_addresses`] does; `None` for any
    /// other object.
    fn list(&self, _at: &mut u64, _most: usize, _batch: &mut KVec<kofi_address>) -> Option<bool> {
        None
    }
}

/// The provider's part of an object, and the function by which it describes the object.
struct Described<C: ?Sized>(Arc<C>, fn(&C, &mut ObjectInfo<'_>));

impl<C: ?Sized + Send + Sync> Introspect for Described<C> {
    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        let Self(core, fill_info) = self;
        fill_info(core, info);
    }
}

/// A number that the object table reports under `key`, one of `enum kofi_object_value`.
pub(crate) struct NamedValue {
    key: u32,
    value: Atomic<u64>,
}

impl NamedValue {
    /// Allocates a number with an initial `value`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(crate) fn new(key: u32, value: u64) -> Result<Arc<Self>> {
        new_arc(Self::new_embedded(key, value))
    }

    /// Returns a number with an initial `value`, to be embedded in another object.
    pub(crate) const fn new_embedded(key: u32, value: u64) -> Self {
        Self {
            key,
            value: Atomic::new(value),
        }
    }

    /// Returns the number.
    pub(crate) fn get(&self) -> u64 {
        self.value.load(Relaxed)
    }

    /// Sets the number. The caller excludes other writers.
    pub(crate) fn set(&self, value: u64) {
        self.value.store(value, Relaxed);
    }

    /// Adds `change` to the number, modulo 2^64. The caller excludes other writers.
    pub(crate) fn add(&self, change: i64) {
        self.set(self.get().wrapping_add_signed(change));
    }
}

impl Introspect for NamedValue {
    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        info.add_value(self.key, self.get());
    }
}

/// Writes an address as text into a zeroed field.
pub(super) fn write_address(field: &mut [u8], address: &SocketAddr) {
    with_bytes(FI_ADDR_STR, address, |text| {
        // The last byte of the field stays NUL.
        for (to, &from) in field.iter_mut().rev().skip(1).rev().zip(text) {
            *to = from;
        }
    });
}

/// The local and peer address of an endpoint, each if known. No other lock is taken under the spinlock, which is
/// taken in process context only.
#[pin_data]
pub(crate) struct EndpointAddrs {
    #[pin]
    addresses: SpinLock<[Option<SocketAddr>; 2]>,
}

impl EndpointAddrs {
    /// Returns an initialiser with the addresses that are known when the endpoint is opened.
    pub(crate) fn new(local: Option<SocketAddr>, peer: Option<SocketAddr>) -> impl PinInit<Self> {
        pin_init!(Self {
            addresses <- new_spinlock!([local, peer], "kofi::EndpointAddrs"),
        })
    }

    /// Sets the local address.
    pub(crate) fn set_local(&self, address: SocketAddr) {
        self.addresses.lock()[0] = Some(address);
    }

    /// Sets the peer's address.
    pub(crate) fn set_peer(&self, address: SocketAddr) {
        self.addresses.lock()[1] = Some(address);
    }
}

impl Introspect for EndpointAddrs {
    fn fill_info(&self, info: &mut ObjectInfo<'_>) {
        let addresses = *self.addresses.lock();
        let fields = [&mut info.0.local_addr, &mut info.0.peer_addr];
        for (field, address) in fields.into_iter().zip(&addresses) {
            if let Some(address) = address {
                write_address(field, address);
            }
        }
    }
}

/// The properties that all objects of a fabric share.
#[derive(Clone, Copy)]
struct FabricShared {
    owner: Owner,
    /// Address of the network namespace, used for comparison alone.
    net: usize,
}

struct Entry {
    kind: u32,
    parent: u64,
    name: NameBuf,
    shared: FabricShared,
    source: Option<Arc<dyn Introspect>>,
}

impl object_table::TableEntry for Entry {
    fn is_in(&self, net: usize) -> bool {
        self.shared.net == net
    }

    fn fill_object(&self, object: &mut kofi_object) {
        object.kind = self.kind;
        object.parent = self.parent;
        object.name = self.name;
        object.owner = self.shared.owner.name;
        object.pid = self.shared.owner.pid;
        if let Some(part) = &self.source {
            part.fill_info(&mut ObjectInfo(object));
        }
    }

    fn list_addresses(
        &self,
        at: &mut u64,
        most: usize,
        batch: &mut KVec<kofi_address>,
    ) -> Option<bool> {
        self.source.as_ref()?.list(at, most, batch)
    }
}

/// The introspection entry and the parent reference of an object. Dropping the guard releases both.
pub(super) struct EntryGuard<P: Parent> {
    /// Declared, and so dropped, before `parent`: the entry leaves the table before the parent's entry does.
    pub(super) entry: ObjectEntry,
    pub(super) parent: ChildRef<P>,
}

impl<P: Listed> EntryGuard<P> {
    /// Adds the entry of a child of `parent`: its `kind` is one of `enum kofi_object_kind`, its `name` may be
    /// empty, and `source` describes its state.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(
        parent: ChildRef<P>,
        kind: u32,
        name: &CStr,
        source: Option<Arc<dyn Introspect>>,
    ) -> Result<Self> {
        let entry = parent.entry().new_child(kind, name, source)?;
        Ok(Self { entry, parent })
    }

    /// Adds the entry of a child of `parent` without a name, whose state `fill_info` adds for the provider's
    /// part of the object.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn of_core<C: ?Sized + Send + Sync + 'static>(
        parent: ChildRef<P>,
        kind: u32,
        core: &Arc<C>,
        fill_info: fn(&C, &mut ObjectInfo<'_>),
    ) -> Result<Self> {
        let source = new_arc(Described(core.clone(), fill_info))?;
        Self::new(parent, kind, c"", Some(source))
    }

    /// Returns true if the object is a child of `parent`.
    pub(super) fn is_of(&self, parent: &Arc<P>) -> bool {
        Arc::ptr_eq(self.parent.arc(), parent)
    }
}

/// The introspection entry of an object.
pub(super) struct ObjectEntry {
    slot: TableSlot,
    shared: FabricShared,
}

impl ObjectEntry {
    /// Adds the entry of a fabric in the namespace `net`.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn for_fabric(
        kind: u32,
        name: &CStr,
        owner: &Owner,
        net: &Namespace,
    ) -> Result<Self> {
        let root = FabricShared {
            owner: *owner,
            net: net.address(),
        };
        Self::new(kind, name, 0, root, None)
    }

    /// Adds the entry of a child object: its `kind` is one of `enum kofi_object_kind`, its `name` may be
    /// empty, and `source` describes its state.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new_child(
        &self,
        kind: u32,
        name: &CStr,
        source: Option<Arc<dyn Introspect>>,
    ) -> Result<Self> {
        Self::new(kind, name, self.number(), self.shared, source)
    }

    fn new(
        kind: u32,
        name: &CStr,
        parent: u64,
        shared: FabricShared,
        source: Option<Arc<dyn Introspect>>,
    ) -> Result<Self> {
        let slot = TableSlot::insert(new_arc(Entry {
            kind,
            parent,
            name: copy_name(name.to_bytes()),
            shared,
            source,
        })?)?;
        Ok(Self { slot, shared })
    }

    /// Returns the object's number.
    pub(super) fn number(&self) -> u64 {
        self.slot.id()
    }

    /// Removes the entry from the table, when the object is closed.
    pub(super) fn remove(&self) {
        self.slot.remove();
    }
}
