// SPDX-License-Identifier: GPL-2.0

//! Address vectors: addresses of peers, and the small numbers that stand for them.
//!
//! A `fi_addr_t` is an index (a table's) or an index below the generation of its entry (a map's), with
//! room for the number of a receive context in the bits above. Whoever reads needs no lock; inserting
//! and removing takes that of the [`table`], a batch at a time.

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
        MOST_ADDRESSES, //
    },
};
use super::{
    domain::Domain,
    eq::EventQueue,
    introspect::{
        EntryGuard,
        ObjectEntry, //
    },
    object::{
        ChildCount,
        ChildRef,
        Parent, //
    },
    rundown::Rundown, //
};
use crate::abi::{
    self,
    context::ProcessContext,
    deferred_drop::DeferredDrop,
    fi_addr_t,
    Errno,
    Result, //
};
use core::net::{
    IpAddr,
    Ipv4Addr,
    SocketAddr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// Bits of an index.
const INDEX_BITS: u32 = MOST_ADDRESSES.ilog2();
/// How many addresses are inserted before another writer may come in between.
const BATCH: usize = 64;
/// How many addresses memory is taken for before they come, at most.
const MOST_EXPECTED: u32 = 1 << 20;

/// How a `fi_addr_t` is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// It is the index, which is used again after a removal.
    Table,
    /// It also tells how often the index has been used: none comes twice.
    Map,
}

impl Type {
    fn to_addr(self, spot: SlotId) -> fi_addr_t {
        let index = fi_addr_t::from(spot.index);
        match self {
            Self::Table => index,
            Self::Map => index | fi_addr_t::from(spot.generation) << INDEX_BITS,
        }
    }
}

/// How an address vector is opened.
#[derive(Clone, Copy)]
pub struct Attr<'a> {
    /// What its addresses are; the domain chooses where nothing is said.
    pub kind: Option<Type>,
    /// High bits of a `fi_addr_t` that select a receive context, at most as many as the largest endpoint of
    /// the domain needs.
    pub rx_ctx_bits: u32,
    /// Expected number of addresses, up to 33,554,432: a hint.
    pub count: usize,
    /// Whether insertions go on by themselves, and tell an event queue of their end.
    pub is_async: bool,
    /// The name under which it is shared with others who open it in the domain of the same name. Its
    /// type and bits are those that it was opened with first.
    pub name: Option<&'a CStr>,
    /// Whether it is only read: the name has to be there.
    pub is_read_only: bool,
}

/// An address to be inserted.
pub struct Insertion {
    /// The address, or why there is none.
    pub address: Result<SocketAddr>,
    /// What completions tell in place of its `fi_addr_t`, with FI_AV_USER_ID.
    pub user_id: Option<u64>,
}

/// An address vector.
#[pin_data]
pub struct AddressVector {
    kind: Type,
    rx_ctx_bits: u32,
    table: Arc<Table>,
    #[pin]
    bound: Mutex<DeferredDrop<Resources>>,
    is_shared: bool,
    is_read_only: bool,
    is_async: bool,
    /// What insertions that go on are inside of.
    later: Arc<Rundown>,
    users: ChildCount,
    /// Number of bound endpoints that have an offload provider.
    offloads: Atomic<u32>,
    ties: DeferredDrop<EntryGuard<Domain>>,
}

/// Counts an endpoint with an offload provider in its address vector, until it is dropped.
pub(crate) struct Offloaded(Arc<AddressVector>);

impl Offloaded {
    /// Counts an endpoint of `vector`. Any context.
    pub(crate) fn new(vector: Arc<AddressVector>) -> Self {
        let _ = vector.offloads.fetch_add(1u32, Relaxed);
        Self(vector)
    }
}

impl Drop for Offloaded {
    fn drop(&mut self) {
        let _ = self.0.offloads.fetch_sub(1u32, Relaxed);
    }
}

/// What a vector has until it is closed.
struct Resources {
    /// Where insertions tell of their end.
    events: Option<ChildRef<EventQueue>>,
    /// If others may have the table too.
    share: Option<NamedTableRef>,
    /// Whose table it is, if it is a peer's.
    owner: Option<ChildRef<AddressVector>>,
}

impl Parent for AddressVector {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

impl TableAttr {
    fn table(self) -> Result<Arc<Table>> {
        let most_generations = match self.kind {
            Type::Table => u32::MAX,
            Type::Map => 1 << (u64::BITS - INDEX_BITS - self.rx_ctx_bits).min(31),
        };
        Ok(Arc::pin_init(Table::new(most_generations), GFP_KERNEL)?)
    }
}

/// The type that is meant: that of the domain, or of what is there, where nothing is said.
fn choose(asked: Option<Type>, domain: Option<Type>, there: Option<Type>) -> Result<Type> {
    match (asked, domain) {
        (Some(asked), Some(chosen)) if asked != chosen => Err(Errno::EINVAL),
        _ => Ok(asked.or(domain).or(there).unwrap_or(Type::Table)),
    }
}

/// An address that a peer can have: -FI_EADDRNOTAVAIL for a port of 0, the wildcard, and groups.
pub fn destination(address: SocketAddr) -> Result<SocketAddr> {
    let ip = address.ip();
    let is_group = match ip {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    };
    if address.port() == 0 || ip.is_unspecified() || is_group {
        return Err(Errno::EADDRNOTAVAIL);
    }
    Ok(address)
}

fn insert_one(writing: &mut WriteGuard<'_>, insertion: &Insertion) -> Result<SlotId> {
    let address = insertion.address.and_then(destination)?;
    writing.insert(&address, insertion.user_id)
}

impl AddressVector {
    pub(super) fn new(domain: ChildRef<Domain>, attr: &Attr<'_>) -> Result<Arc<Self>> {
        // The bits of the highest index of a context.
        let highest = domain.core().max_rx_contexts().saturating_sub(1);
        if attr.rx_ctx_bits > usize::BITS - highest.leading_zeros()
            || attr.count > MOST_ADDRESSES as usize
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
                let shape = of_kind(choose(attr.kind, domain.av_type(), None)?);
                (shape.table()?, shape.kind, None)
            }
            Some(name) => {
                let place = named::NameScope {
                    net: domain.fabric().net().address(),
                    domain: domain.name(),
                    format: domain.addr_format(),
                    name,
                };
                let asked = |there| choose(attr.kind, domain.av_type(), there).map(of_kind);
                let share = NamedTableRef::open(&place, asked, !attr.is_read_only)?;
                (share.table().clone(), share.kind(), Some(share))
            }
        };
        let bound = Resources {
            events: None,
            share,
            owner: None,
        };
        let vector = Self::around(domain, (kind, table), bound, attr)?;
        let count = attr.count.min(MOST_EXPECTED as usize);
        vector.table.write().expect(count as u32);
        Ok(vector)
    }

    /// A vector with the addresses of `owner`, which are changed there alone.
    pub(super) fn peer(
        domain: ChildRef<Domain>,
        owner: ChildRef<Self>,
        asked: Option<Type>,
    ) -> Result<Arc<Self>> {
        let kind = choose(asked, domain.av_type(), Some(owner.kind))?;
        if kind != owner.kind {
            return Err(Errno::EINVAL);
        }
        let (table, rx_ctx_bits) = (owner.table.clone(), owner.rx_ctx_bits);
        let bound = Resources {
            events: None,
            share: None,
            owner: Some(owner),
        };
        let attr = Attr {
            kind: asked,
            rx_ctx_bits,
            count: 0,
            is_async: false,
            name: None,
            is_read_only: true,
        };
        Self::around(domain, (kind, table), bound, &attr)
    }

    fn around(
        domain: ChildRef<Domain>,
        (kind, table): (Type, Arc<Table>),
        bound: Resources,
        attr: &Attr<'_>,
    ) -> Result<Arc<Self>> {
        let is_shared = bound.share.is_some() || bound.owner.is_some();
        let later = Arc::pin_init(Rundown::new(), GFP_KERNEL)?;
        let name = attr.name.unwrap_or(c"");
        let card = domain.entry().new_child(
            abi::KOFI_OBJECT_AV,
            name,
            Some(AvInfo::new(kind, &table)?),
        )?;
        let ties = EntryGuard::new(card, domain)?;
        let bound = DeferredDrop::new(bound)?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                kind,
                rx_ctx_bits: attr.rx_ctx_bits,
                table,
                bound <- new_mutex!(bound, "kofi::AddressVector"),
                is_shared,
                is_read_only: attr.is_read_only,
                is_async: attr.is_async,
                later,
                users: ChildCount::new(),
                offloads: Atomic::new(0),
                ties,
            }),
            GFP_KERNEL,
        )?)
    }

    pub(super) fn card(&self) -> &ObjectEntry {
        &self.ties.entry
    }

    /// Whether it was opened in that domain.
    pub(super) fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(self.ties.parent.arc(), domain)
    }

    /// The type that it was opened with.
    pub fn kind(&self) -> Type {
        self.kind
    }

    /// How many high bits name a receive context.
    pub(crate) fn rx_ctx_bits(&self) -> u32 {
        self.rx_ctx_bits
    }

    /// Returns whether an endpoint that is bound to the vector has an offload provider. Any context.
    pub(crate) fn has_offload(&self) -> bool {
        self.offloads.load(Relaxed) > 0
    }

    /// How many addresses there are. Any context.
    pub fn count(&self) -> usize {
        self.table.count().get() as usize
    }

    /// Whether others may have the same addresses, and so no identifiers of their own for them.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// What is the same for all who share it, and tells it from others.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.table) as usize
    }

    /// Whether insertions go on by themselves.
    pub fn is_async(&self) -> bool {
        self.is_async
    }

    /// Tells `queue` of the ends of insertions.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the vector has a queue, needs none, or the queue belongs to another fabric.
    pub fn bind(&self, _here: ProcessContext, queue: &Arc<EventQueue>) -> Result {
        if !queue.is_of(self.ties.parent.fabric()) {
            return Err(Errno::EINVAL);
        }
        let mut bound = self.bound.lock();
        if !self.is_async || bound.events.is_some() {
            return Err(Errno::EINVAL);
        }
        bound.events = Some(ChildRef::new(queue)?);
        Ok(())
    }

    /// Inserts addresses in order, tells `each` of its number and outcome, and returns how many have
    /// been inserted.
    ///
    /// An address that is there is counted once more, and has the same `fi_addr_t`.
    ///
    /// # Errors
    ///
    /// Of an address: what it comes with, -FI_EADDRNOTAVAIL for no [`destination`]; -FI_ENOMEM, after
    /// which nothing more is tried: -FI_ECANCELED for the rest. Of the call: -FI_EINVAL where insertions
    /// go on by themselves, -FI_EACCES where it is only read.
    pub(crate) fn insert(
        &self,
        _here: ProcessContext,
        insertions: impl IntoIterator<Item = Insertion>,
        mut each: impl FnMut(usize, Result<fi_addr_t>),
    ) -> Result<usize> {
        self.check_writable()?;
        if self.is_async {
            return Err(Errno::EINVAL);
        }
        let mut each = |number, outcome: Result<SlotId>| {
            each(number, outcome.map(|spot| self.to_addr(spot)));
        };
        Ok(self.insert_spots(&mut insertions.into_iter(), &mut each))
    }

    /// Whether it may be changed, here and by this consumer.
    fn check_writable(&self) -> Result {
        match self.is_read_only {
            true => Err(Errno::EACCES),
            false => Ok(()),
        }
    }

    /// [`Self::insert`], of one that takes them now.
    fn insert_spots(
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

    /// Takes one insertion of the address back; with the last one it goes away.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it is not there, -FI_EACCES where it is only read.
    pub(crate) fn remove(&self, _here: ProcessContext, addr: fi_addr_t) -> Result {
        self.check_writable()?;
        let (index, generation) = self.parts(addr)?;
        let mut writing = self.table.write();
        let spot = writing.spot(index, generation)?;
        writing.remove(spot)
    }

    /// What was inserted as this. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it is not there.
    #[inline(always)]
    pub(crate) fn lookup(&self, addr: fi_addr_t) -> Result<SocketAddr> {
        match self.lookup_v4(addr) {
            Some((ip, port)) => Ok((Ipv4Addr::from_bits(ip), port).into()),
            None => self.lookup_any(addr),
        }
    }

    #[inline(never)]
    fn lookup_any(&self, addr: fi_addr_t) -> Result<SocketAddr> {
        let (index, generation) = self.parts(addr)?;
        match self.table.get(index) {
            Some((address, spot)) if generation.is_none_or(|wanted| wanted == spot.generation) => {
                Ok(address)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// The number of the receive context that is named with an address. Any context.
    #[inline]
    pub(crate) fn context(&self, addr: fi_addr_t) -> fi_addr_t {
        let below = fi_addr_t::BITS - self.rx_ctx_bits;
        addr.checked_shr(below).unwrap_or(0)
    }

    /// The IP address and the port of an IPv4 address that was inserted as this, where a short way leads
    /// to it: nothing says that there is none but [`Self::lookup`]. Any context.
    #[inline(always)]
    pub(crate) fn lookup_v4(&self, addr: fi_addr_t) -> Option<(u32, u16)> {
        let (index, generation) = self.parts(addr).ok()?;
        let (address, spot) = self.table.get_v4(index)?;
        generation
            .is_none_or(|wanted| wanted == spot.generation)
            .then_some(address)
    }

    /// The `fi_addr_t` of an address that is there. Any context.
    pub(crate) fn find(&self, address: &SocketAddr) -> Option<fi_addr_t> {
        self.table.find(address).map(|spot| self.to_addr(spot))
    }

    /// What completions tell of a peer: its identifier if it has one, else its `fi_addr_t`. Any context.
    ///
    /// After its address is removed, a handle of FI_AV_MAP never resolves to the identifier of the address
    /// that reuses its index.
    pub fn reported(&self, addr: fi_addr_t) -> fi_addr_t {
        let id = self
            .parts(addr)
            .ok()
            .and_then(|(index, generation)| self.table.id(index, generation));
        id.unwrap_or(addr)
    }

    /// Hands all that is there to `f`, in the order of indices. Process context.
    pub(crate) fn each(&self, mut f: impl FnMut(fi_addr_t)) {
        self.table.write().each(|spot| f(self.to_addr(spot)));
    }

    /// Bytes of memory that its addresses take. Process context.
    pub fn memory(&self) -> usize {
        self.table.size()
    }

    /// Closes the vector: -FI_EBUSY while an endpoint, a set or a peer's is bound to it. May sleep, until the
    /// insertions that go on have given up: what they have not done fails with -FI_ECANCELED.
    pub(crate) fn close(&self) -> Result {
        self.users.try_close()?;
        self.ties.entry.remove();
        self.later.run_down();
        // Dropped behind the lock.
        let mut bound = self.bound.lock();
        let _left = (bound.events.take(), bound.share.take(), bound.owner.take());
        drop(bound);
        Ok(())
    }

    fn to_addr(&self, spot: SlotId) -> fi_addr_t {
        self.kind.to_addr(spot)
    }

    /// The index, and the generation where one is told. A receive context is left aside.
    #[inline(always)]
    fn parts(&self, addr: fi_addr_t) -> Result<(u32, Option<u32>)> {
        if addr == abi::FI_ADDR_NOTAVAIL {
            return Err(Errno::EINVAL);
        }
        let addr = addr & (fi_addr_t::MAX >> self.rx_ctx_bits);
        let upper = u32::try_from(addr >> INDEX_BITS).map_err(|_| Errno::EINVAL)?;
        let index = addr as u32 & (MOST_ADDRESSES - 1);
        match self.kind {
            Type::Table if upper > 0 => Err(Errno::EINVAL),
            Type::Table => Ok((index, None)),
            Type::Map => Ok((index, Some(upper))),
        }
    }
}
