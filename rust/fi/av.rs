// SPDX-License-Identifier: GPL-2.0

//! Address vectors: the addresses of peers and their `fi_addr_t` handles.
//!
//! The handle of an FI_AV_TABLE vector is the index of the address; the handle of an FI_AV_MAP vector also
//! has the generation of the index above it. The high bits can hold the index of a receive context. Lookups
//! take no lock. Insertions and removals take the lock of the [`table`], an insertion once per batch.

mod async_insert;
mod free_indexes;
mod introspect;
mod named;
mod peer;
mod range;
mod table;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

pub use async_insert::InsertObserver;
pub use peer::{
    Peer,
    PeerId, //
};
pub use range::AddrRange;

use self::{
    introspect::AvInfo,
    named::{
        NamedTableRef,
        TableAttr, //
    },
    table::{
        SlotId,
        Table,
        WriteGuard,
        MAX_ADDRESSES, //
    },
};
use super::{
    domain::Domain,
    eq::EventQueue,
    introspect::EntryGuard,
    object::{
        impl_parent,
        ChildCount, //
    },
    rundown::Rundown, //
};
use crate::fi::prelude::*;
use core::net::{
    IpAddr,
    Ipv4Addr, //
};

/// Number of bits of an index.
const INDEX_BITS: u32 = MAX_ADDRESSES.ilog2();
/// Number of addresses that are inserted under one hold of the writer lock.
const BATCH: usize = 64;
/// Maximum number of addresses that memory is allocated for when a vector is opened.
const MAX_PREALLOCATED: u32 = 1 << 20;

/// Largest number of high bits that select a receive context. More bits would leave FI_AV_MAP fewer generations.
const MAX_RX_CTX_BITS: u32 = u64::BITS - INDEX_BITS - 31;

/// The kind of handles of a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// FI_AV_TABLE: the handle is the index, which is reused after a removal.
    Table,
    /// FI_AV_MAP: the handle also contains the generation of the index, so that no handle is reused.
    Map,
}

impl Type {
    fn to_addr(self, slot: SlotId) -> fi_addr_t {
        let index = fi_addr_t::from(slot.index);
        match self {
            Self::Table => index,
            Self::Map => index | fi_addr_t::from(slot.generation) << INDEX_BITS,
        }
    }
}

/// Attributes of an address vector.
#[derive(Clone, Copy, Default)]
pub struct Attr<'a> {
    /// Type of the handles; `None` for the domain's choice.
    pub kind: Option<Type>,
    /// Number of high bits of a `fi_addr_t` that select a receive context of the peer: at most 8, and 0 in a
    /// domain whose endpoints have one context.
    pub rx_ctx_bits: u32,
    /// Expected number of addresses, up to 33,554,432: a hint.
    pub count: usize,
    /// True if insertions are asynchronous and an event queue reports their completion.
    pub is_async: bool,
    /// Name under which vectors of domains of one name share their addresses. All have the type and the
    /// receive context bits of the first one.
    pub name: Option<&'a CStr>,
    /// True for a read-only vector, whose name must already exist.
    pub is_read_only: bool,
}

/// An address to insert.
pub struct Insertion {
    /// The address, or the error of its conversion.
    pub address: Result<SocketAddr>,
    /// Identifier that completions report instead of the `fi_addr_t`, with FI_AV_USER_ID.
    pub user_id: Option<u64>,
}

/// An address vector.
#[pin_data]
pub struct AddressVector {
    kind: Type,
    rx_ctx_bits: u32,
    table: Arc<Table>,
    #[pin]
    resources: Mutex<DeferredDrop<Resources>>,
    is_shared: bool,
    is_read_only: bool,
    is_async: bool,
    /// Rundown protection of asynchronous insertions: the close waits for them.
    async_inserts: Arc<Rundown>,
    users: ChildCount,
    /// Number of bound endpoints that have an offload provider.
    offload_endpoints: Atomic<u32>,
    pub(super) entry_guard: DeferredDrop<EntryGuard<Domain>>,
}

/// Counts an endpoint with an offload provider in its address vector, until it is dropped.
pub(crate) struct Offloaded(Arc<AddressVector>);

impl Offloaded {
    /// Counts an endpoint of `vector`. Any context.
    pub(crate) fn new(vector: Arc<AddressVector>) -> Self {
        let _ = vector.offload_endpoints.fetch_add(1u32, Relaxed);
        Self(vector)
    }
}

impl Drop for Offloaded {
    fn drop(&mut self) {
        let _ = self.0.offload_endpoints.fetch_sub(1u32, Relaxed);
    }
}

/// The objects that a vector uses until it is closed.
#[derive(Default)]
struct Resources {
    /// Event queue for the completion of asynchronous insertions.
    eq: Option<ChildRef<EventQueue>>,
    /// The named table, for a vector that can share it.
    named_table: Option<NamedTableRef>,
    /// The vector whose table this one uses, for a peer vector.
    owner: Option<ChildRef<AddressVector>>,
}

impl_parent!(AddressVector, entry_guard.entry);

impl TableAttr {
    fn new_table(self) -> Result<Arc<Table>> {
        let most_generations = match self.kind {
            Type::Table => u32::MAX,
            Type::Map => 1 << (u64::BITS - INDEX_BITS - self.rx_ctx_bits).min(31),
        };
        pin_arc(Table::new(most_generations))
    }
}

/// Returns the type of a vector: the requested one, else the domain's, else that of the existing table, else
/// a table. -FI_EINVAL if the request contradicts the domain.
fn choose_type(
    requested: Option<Type>,
    domain: Option<Type>,
    existing: Option<Type>,
) -> Result<Type> {
    match (requested, domain) {
        (Some(asked), Some(chosen)) if asked != chosen => Err(Errno::EINVAL),
        _ => Ok(requested.or(domain).or(existing).unwrap_or(Type::Table)),
    }
}

/// Returns `address` if a peer can have it; -FI_EADDRNOTAVAIL for port 0, the wildcard address, and multicast
/// and broadcast addresses.
pub fn check_destination(address: SocketAddr) -> Result<SocketAddr> {
    let ip = address.ip();
    let is_group = match ip {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    };
    Errno::EADDRNOTAVAIL.when(address.port() == 0 || ip.is_unspecified() || is_group)?;
    Ok(address)
}

fn insert_one(writing: &mut WriteGuard<'_>, insertion: &Insertion) -> Result<SlotId> {
    let address = insertion.address.and_then(check_destination)?;
    writing.insert(&address, insertion.user_id)
}

impl AddressVector {
    pub(super) fn new(domain: ChildRef<Domain>, attr: &Attr<'_>) -> Result<Arc<Self>> {
        let most_bits = match domain.core().max_rx_contexts() {
            0 | 1 => 0,
            _ => MAX_RX_CTX_BITS,
        };
        if attr.rx_ctx_bits > most_bits
            || attr.count > MAX_ADDRESSES as usize
            || attr.is_read_only && attr.name.is_none()
        {
            return Err(Errno::EINVAL);
        }
        let of_kind = |kind| TableAttr {
            kind,
            rx_ctx_bits: attr.rx_ctx_bits,
        };
        let (table, kind, share) = match attr.name {
            None => {
                let shape = of_kind(choose_type(attr.kind, domain.av_type, None)?);
                (shape.new_table()?, shape.kind, None)
            }
            Some(name) => {
                let place = named::NameScope {
                    net: domain.fabric().net.address(),
                    domain: domain.name(),
                    format: domain.addr_format(),
                    name,
                };
                let asked = |there| choose_type(attr.kind, domain.av_type, there).map(of_kind);
                let share = NamedTableRef::open(&place, asked, !attr.is_read_only)?;
                (share.0.table.clone(), share.0.attr.kind, Some(share))
            }
        };
        let bound = Resources {
            named_table: share,
            ..Resources::default()
        };
        let vector = Self::build(domain, (kind, table), bound, attr)?;
        let count = attr.count.min(MAX_PREALLOCATED as usize);
        vector.table.write().reserve(count as u32);
        Ok(vector)
    }

    /// Creates a peer vector with the addresses of `owner`, which can be changed only through `owner`.
    pub(super) fn peer(
        domain: ChildRef<Domain>,
        owner: ChildRef<Self>,
        requested: Option<Type>,
    ) -> Result<Arc<Self>> {
        let kind = choose_type(requested, domain.av_type, Some(owner.kind))?;
        Errno::EINVAL.when(kind != owner.kind)?;
        let attr = Attr {
            rx_ctx_bits: owner.rx_ctx_bits,
            is_read_only: true,
            ..Attr::default()
        };
        let table = owner.table.clone();
        let bound = Resources {
            owner: Some(owner),
            ..Resources::default()
        };
        Self::build(domain, (kind, table), bound, &attr)
    }

    fn build(
        domain: ChildRef<Domain>,
        (kind, table): (Type, Arc<Table>),
        bound: Resources,
        attr: &Attr<'_>,
    ) -> Result<Arc<Self>> {
        let is_shared = bound.named_table.is_some() || bound.owner.is_some();
        let (async_inserts, info) = (pin_arc(Rundown::new())?, AvInfo::new(kind, &table)?);
        let name = attr.name.unwrap_or(c"");
        let entry_guard = EntryGuard::new(domain, abi::KOFI_OBJECT_AV, name, Some(info))?;
        let entry_guard = DeferredDrop::new(entry_guard)?;
        let bound = DeferredDrop::new(bound)?;
        pin_arc(pin_init!(Self {
            kind,
            rx_ctx_bits: attr.rx_ctx_bits,
            table,
            resources <- new_mutex!(bound, "kofi::AddressVector"),
            is_shared,
            is_read_only: attr.is_read_only,
            is_async: attr.is_async,
            async_inserts,
            users: ChildCount::new(),
            offload_endpoints: Atomic::new(0),
            entry_guard,
        }))
    }

    /// Returns the type of the handles.
    pub fn kind(&self) -> Type {
        self.kind
    }

    /// Returns the number of high bits that select a receive context.
    pub(crate) fn rx_ctx_bits(&self) -> u32 {
        self.rx_ctx_bits
    }

    /// Returns true if an endpoint that is bound to the vector has an offload provider. Any context.
    pub(crate) fn has_offload(&self) -> bool {
        self.offload_endpoints.load(Relaxed) > 0
    }

    /// Returns the number of addresses. Any context.
    pub fn count(&self) -> usize {
        self.table.count().get() as usize
    }

    /// Returns true if other vectors may use the same table; then addresses have no identifiers.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns a number that is equal for all vectors with the same table, and unique to them.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.table) as usize
    }

    /// Returns true if insertions are asynchronous.
    pub fn is_async(&self) -> bool {
        self.is_async
    }

    /// Binds the event queue that reports the completion of insertions. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if a queue is bound, insertions are not asynchronous, or the queue belongs to another
    /// fabric.
    pub fn bind(&self, _here: ProcessContext, queue: &Arc<EventQueue>) -> Result {
        Errno::EINVAL.when(!queue.is_of(self.entry_guard.parent.fabric()))?;
        let mut bound = self.resources.lock();
        Errno::EINVAL.when(!self.is_async || bound.eq.is_some())?;
        bound.eq = Some(ChildRef::new(queue)?);
        Ok(())
    }

    /// Inserts addresses in order, calls `each` with the number and the result of each one, and returns how
    /// many were inserted. May sleep.
    ///
    /// An address that is present has its use count incremented, and keeps its `fi_addr_t`.
    ///
    /// # Errors
    ///
    /// Per address: its own error, -FI_EADDRNOTAVAIL if it is no valid [`destination`](check_destination);
    /// -FI_ENOMEM, after which the remaining addresses fail with -FI_ECANCELED. For the call: -FI_EINVAL if
    /// insertions are asynchronous, -FI_EACCES for a read-only vector.
    pub(crate) fn insert(
        &self,
        _here: ProcessContext,
        insertions: impl IntoIterator<Item = Insertion>,
        mut each: impl FnMut(usize, Result<fi_addr_t>),
    ) -> Result<usize> {
        Errno::EACCES.when(self.is_read_only)?;
        Errno::EINVAL.when(self.is_async)?;
        let mut each = |number, outcome: Result<SlotId>| {
            each(number, outcome.map(|spot| self.to_addr(spot)));
        };
        Ok(self.insert_slots(&mut insertions.into_iter(), &mut each))
    }

    /// Implements [`Self::insert`] for a writable vector.
    fn insert_slots(
        &self,
        insertions: &mut dyn Iterator<Item = Insertion>,
        each: &mut dyn FnMut(usize, Result<SlotId>),
    ) -> usize {
        let mut insertions = insertions.enumerate().peekable();
        let (mut count, mut is_full) = (0, false);
        while insertions.peek().is_some() {
            let mut writing = self.table.write();
            for (number, insertion) in insertions.by_ref().take(BATCH) {
                let outcome = match is_full {
                    true => Err(Errno::ECANCELED),
                    false => insert_one(&mut writing, &insertion),
                };
                count += usize::from(outcome.is_ok());
                is_full |= outcome == Err(Errno::ENOMEM);
                each(number, outcome);
            }
        }
        count
    }

    /// Removes one insertion of the address; the last removal frees its index. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the address is not present, -FI_EACCES for a read-only vector.
    pub(crate) fn remove(&self, _here: ProcessContext, addr: fi_addr_t) -> Result {
        Errno::EACCES.when(self.is_read_only)?;
        let (index, generation) = self.split_addr(addr)?;
        let mut writing = self.table.write();
        let spot = writing.slot_at(index, generation)?;
        writing.remove(spot)
    }

    /// Returns the address of a handle. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it is not present.
    #[inline(always)]
    pub(crate) fn lookup(&self, addr: fi_addr_t) -> Result<SocketAddr> {
        match self.lookup_v4(addr) {
            Some((ip, port)) => Ok((Ipv4Addr::from_bits(ip), port).into()),
            None => self.lookup_any(addr),
        }
    }

    #[inline(never)]
    fn lookup_any(&self, addr: fi_addr_t) -> Result<SocketAddr> {
        let (index, generation) = self.split_addr(addr)?;
        match self.table.get(index) {
            Some((address, slot)) if generation.is_none_or(|wanted| wanted == slot.generation) => {
                Ok(address)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Returns the index of the receive context that the high bits of a handle select. Any context.
    #[inline]
    pub(crate) fn rx_context(&self, addr: fi_addr_t) -> fi_addr_t {
        let below = fi_addr_t::BITS - self.rx_ctx_bits;
        addr.checked_shr(below).unwrap_or(0)
    }

    /// Returns IP address and port of an IPv4 address on the fast path. `None` does not mean that the address
    /// is missing: [`Self::lookup`] decides. Any context.
    #[inline(always)]
    pub(crate) fn lookup_v4(&self, addr: fi_addr_t) -> Option<(u32, u16)> {
        let (index, generation) = self.split_addr(addr).ok()?;
        let (address, spot) = self.table.get_v4(index)?;
        generation
            .is_none_or(|wanted| wanted == spot.generation)
            .then_some(address)
    }

    /// Returns the handle of an address, if present. Any context.
    pub(crate) fn find(&self, address: &SocketAddr) -> Option<fi_addr_t> {
        self.table.find(address).map(|spot| self.to_addr(spot))
    }

    /// Returns the source that completions report for a handle: the address's identifier if it has one, else
    /// the handle. Any context.
    ///
    /// After its address is removed, an FI_AV_MAP handle never resolves to the identifier of the address that
    /// reuses its index.
    pub fn reported_source(&self, addr: fi_addr_t) -> fi_addr_t {
        let id = self
            .split_addr(addr)
            .ok()
            .and_then(|(index, generation)| self.table.user_id(index, generation));
        id.unwrap_or(addr)
    }

    /// Calls `f` for each address in the order of indices. Process context.
    pub(crate) fn for_each(&self, mut f: impl FnMut(fi_addr_t)) {
        self.table.write().for_each(|spot| f(self.to_addr(spot)));
    }

    /// Returns the memory use of the addresses in bytes. Process context.
    pub fn memory_size(&self) -> usize {
        self.table.size()
    }

    /// Closes the vector: -FI_EBUSY while an endpoint, a set or a peer vector uses it. Cancels asynchronous
    /// insertions, whose remaining addresses fail with -FI_ECANCELED, and waits for them. May sleep.
    pub(crate) fn close(&self) -> Result {
        self.users.close(&self.entry_guard.entry)?;
        self.async_inserts.run_down();
        // Dropped after the lock is released.
        let _left = mem::take(&mut **self.resources.lock());
        Ok(())
    }

    fn to_addr(&self, slot: SlotId) -> fi_addr_t {
        self.kind.to_addr(slot)
    }

    /// Splits a handle into the index and, for FI_AV_MAP, the generation; ignores the receive context.
    #[inline(always)]
    fn split_addr(&self, addr: fi_addr_t) -> Result<(u32, Option<u32>)> {
        Errno::EINVAL.when(addr == abi::FI_ADDR_NOTAVAIL)?;
        let addr = addr & (fi_addr_t::MAX >> self.rx_ctx_bits);
        let upper = u32::try_from(addr >> INDEX_BITS).map_err(|_| Errno::EINVAL)?;
        let index = addr as u32 & (MAX_ADDRESSES - 1);
        match self.kind {
            Type::Table if upper > 0 => Err(Errno::EINVAL),
            Type::Table => Ok((index, None)),
            Type::Map => Ok((index, Some(upper))),
        }
    }
}
