// SPDX-License-Identifier: GPL-2.0

//! Sets of addresses of one vector, in order: who takes part in a collective operation.
//!
//! The mutex of a set guards its members, and is never taken with another set's: an operation on two
//! works on a copy of the second. A set of a peer's has none of its own: they are what its owner says.

mod members;

use self::members::Members;
use super::{
    av::{
        AddressVector,
        Peer,
        Type, //
    },
    introspect::{
        EntryGuard,
        NamedValue, //
    },
    object::{
        ChildCount,
        ChildRef,
        Parent, //
    },
};
use crate::abi::{
    context::ProcessContext,
    deferred_drop::DeferredDrop,
    fi_addr_t,
    Errno,
    Result,
    KOFI_OBJECT_AV_SET,
    KOFI_VALUE_MEMBERS, //
};
use kernel::{
    alloc::KVVec,
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// What a set begins with.
#[derive(Clone, Copy)]
pub enum InitialMembers {
    /// Nothing.
    Empty,
    /// What is in a table from `start` to `end`, every `stride`th.
    Range {
        /// The first index.
        start: fi_addr_t,
        /// The last one that may be among them.
        end: fi_addr_t,
        /// How far apart they are; not 0.
        stride: u64,
    },
    /// All that is in the vector.
    Universe,
}

/// Whose members a peer's set has.
pub(crate) trait SetOwner: Send + Sync {
    /// Who they are, in order. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, and what another's owner says.
    fn members(&self) -> Result<KVVec<fi_addr_t>>;

    /// Whether that vector has the addresses of its set, as far as that can be said.
    fn is_of(&self, _vector: &AddressVector) -> bool {
        true
    }
}

impl SetOwner for ChildRef<AddressSet> {
    fn members(&self) -> Result<KVVec<fi_addr_t>> {
        self.with(|members| {
            let mut copy = KVVec::with_capacity(members.len(), GFP_KERNEL)?;
            copy.extend_from_slice(members, GFP_KERNEL)?;
            Ok(copy)
        })?
    }

    fn is_of(&self, vector: &AddressVector) -> bool {
        self.bound.ties.parent.identity() == vector.identity()
    }
}

/// A set of addresses.
#[pin_data]
pub struct AddressSet {
    /// None are here if there is an owner.
    #[pin]
    members: Mutex<Members>,
    /// How many there are; set under the lock.
    size: Arc<NamedValue>,
    users: ChildCount,
    bound: DeferredDrop<Resources>,
}

/// What a set has until it is closed.
struct Resources {
    /// Whose members it has, if they are not its own.
    owner: Option<KBox<dyn SetOwner>>,
    ties: EntryGuard<AddressVector>,
}

impl Parent for AddressSet {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

impl AddressSet {
    /// A set of at most `most` addresses of `vector`, without a bound if that is 0.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a range of a map, one that ends before it begins or has no stride, and more
    /// addresses than `most`; -FI_ENOMEM.
    pub fn new(
        _here: ProcessContext,
        vector: &Arc<AddressVector>,
        most: usize,
        initial: InitialMembers,
    ) -> Result<Arc<Self>> {
        let vector = ChildRef::new(vector)?;
        let mut members = Members::new(match most {
            0 => usize::MAX,
            most => most,
        });
        match initial {
            InitialMembers::Empty => {}
            InitialMembers::Range { start, end, stride } => {
                if vector.kind() == Type::Map || start > end || stride == 0 {
                    return Err(Errno::EINVAL);
                }
                let is_step = |at: u64| at.checked_rem(stride) == Some(0);
                fill(&mut members, most, &vector, |addr| {
                    addr <= end && addr.checked_sub(start).is_some_and(is_step)
                })?;
            }
            InitialMembers::Universe => fill(&mut members, most, &vector, |_| true)?,
        }
        Self::around(vector, members, None)
    }

    /// A set of `vector` whose members are those that `owner` says, and which nobody changes here.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if it is known that the owner's addresses are those of another vector; -FI_ENOMEM.
    pub(crate) fn peer(
        _here: ProcessContext,
        vector: &Arc<AddressVector>,
        owner: KBox<dyn SetOwner>,
    ) -> Result<Arc<Self>> {
        if !owner.is_of(vector) {
            return Err(Errno::EINVAL);
        }
        Self::around(ChildRef::new(vector)?, Members::new(0), Some(owner))
    }

    /// A set of `vector` whose members are those that `owner` has, and which is changed there alone. The owner is
    /// open for as long as this is.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an owner with addresses of another vector, and for one that has been closed; -FI_ENOMEM.
    pub fn peer_of(
        here: ProcessContext,
        vector: &Arc<AddressVector>,
        owner: &Arc<Self>,
    ) -> Result<Arc<Self>> {
        Self::peer(here, vector, KBox::new(ChildRef::new(owner)?, GFP_KERNEL)?)
    }

    fn around(
        vector: ChildRef<AddressVector>,
        members: Members,
        owner: Option<KBox<dyn SetOwner>>,
    ) -> Result<Arc<Self>> {
        let size = NamedValue::new(KOFI_VALUE_MEMBERS, members.as_slice().len() as u64)?;
        let card = vector
            .card()
            .new_child(KOFI_OBJECT_AV_SET, c"", Some(size.clone()))?;
        let ties = EntryGuard {
            entry: card,
            parent: vector,
        };
        let bound = DeferredDrop::new(Resources { owner, ties })?;
        Ok(Arc::pin_init(
            pin_init!(Self {
                size,
                members <- new_mutex!(members, "kofi::AddressSet"),
                users: ChildCount::new(),
                bound,
            }),
            GFP_KERNEL,
        )?)
    }

    fn change(&self, change: impl FnOnce(&mut Members) -> Result) -> Result {
        if self.bound.owner.is_some() {
            return Err(Errno::EACCES);
        }
        let mut members = self.members.lock();
        let result = change(&mut members);
        self.size.set(members.as_slice().len() as u64);
        result
    }

    /// Appends the members of `other` that are none here.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a set of another vector; -FI_ENOMEM if they are too many, or there is no memory,
    /// and nothing has changed; -FI_EACCES in a peer's set; what the owner of `other` says.
    pub fn unite(&self, _here: ProcessContext, other: &Self) -> Result {
        let other = self.copy_of(other)?;
        self.change(|members| members.unite(other.as_slice()))
    }

    /// Keeps what `other` has too.
    ///
    /// # Errors
    ///
    /// Those of [`Self::unite`].
    pub fn intersect(&self, _here: ProcessContext, other: &Self) -> Result {
        let other = self.copy_of(other)?;
        self.change(|members| {
            members.keep(&other, true);
            Ok(())
        })
    }

    /// Keeps what `other` has not.
    ///
    /// # Errors
    ///
    /// Those of [`Self::unite`].
    pub fn subtract(&self, _here: ProcessContext, other: &Self) -> Result {
        let other = self.copy_of(other)?;
        self.change(|members| {
            members.keep(&other, false);
            Ok(())
        })
    }

    /// Appends an address.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a member, and for what is not in the vector; -FI_ENOMEM where the set is full or
    /// there is no memory; -FI_EACCES in a peer's set.
    pub(crate) fn insert(&self, _here: ProcessContext, addr: fi_addr_t) -> Result {
        self.bound.ties.parent.lookup(addr)?;
        self.change(|members| members.insert(addr))
    }

    /// Takes an address out, in the vector or not any more.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a stranger, -FI_EACCES in a peer's set.
    pub(crate) fn remove(&self, _here: ProcessContext, addr: fi_addr_t) -> Result {
        self.change(|members| members.remove(addr))
    }

    /// Whether a peer is a member; in a peer's set, if its owner can say so.
    pub fn has(&self, _here: ProcessContext, peer: &Peer) -> bool {
        let is_there = |members: &[fi_addr_t]| members.contains(&peer.addr());
        self.is_of(peer)
            && match &self.bound.owner {
                None => self.members.lock().has(peer.addr()),
                Some(_) => self.with(is_there).unwrap_or(false),
            }
    }

    /// Appends a peer.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a member and for a peer of another vector; -FI_ENOMEM where the set is full or
    /// there is no memory; -FI_EACCES in a peer's set.
    pub fn add(&self, here: ProcessContext, peer: &Peer) -> Result {
        match self.is_of(peer) {
            true => self.insert(here, peer.addr()),
            false => Err(Errno::EINVAL),
        }
    }

    /// Takes a peer out.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a stranger, -FI_EACCES in a peer's set.
    pub fn take_out(&self, here: ProcessContext, peer: &Peer) -> Result {
        match self.is_of(peer) {
            true => self.remove(here, peer.addr()),
            false => Err(Errno::EINVAL),
        }
    }

    /// Whether it is a set of addresses that the vector has.
    pub fn is_in(&self, vector: &AddressVector) -> bool {
        self.bound.ties.parent.identity() == vector.identity()
    }

    fn is_of(&self, peer: &Peer) -> bool {
        self.bound.ties.parent.identity() == peer.vector().identity()
    }

    /// Hands the members to `f`, in order.
    ///
    /// # Errors
    ///
    /// None but in a peer's set: -FI_ENOMEM, and what its owner says.
    pub fn with_members<R>(
        &self,
        _here: ProcessContext,
        f: impl FnOnce(&[fi_addr_t]) -> R,
    ) -> Result<R> {
        self.with(f)
    }

    fn with<R>(&self, f: impl FnOnce(&[fi_addr_t]) -> R) -> Result<R> {
        Ok(match &self.bound.owner {
            None => f(self.members.lock().as_slice()),
            Some(owner) => f(&owner.members()?),
        })
    }

    /// Closes the set: -FI_EBUSY while somebody has joined it, or it is a peer's too.
    pub(crate) fn close(&self) -> Result {
        self.users.try_close()?;
        self.bound.ties.entry.remove();
        Ok(())
    }

    fn copy_of(&self, other: &Self) -> Result<Members> {
        if self.bound.ties.parent.identity() != other.bound.ties.parent.identity() {
            return Err(Errno::EINVAL);
        }
        if other.bound.owner.is_none() {
            let copy = other.members.lock().copy();
            return copy;
        }
        other.with(|members| {
            let mut copy = Members::new(usize::MAX);
            copy.unite(members)?;
            Ok(copy)
        })?
    }
}

/// Inserts the addresses of a vector for which `wants` says so.
fn fill(
    members: &mut Members,
    most: usize,
    vector: &AddressVector,
    wants: impl Fn(fi_addr_t) -> bool,
) -> Result {
    let mut outcome = Ok(());
    let mut count = 0;
    vector.each(|addr| {
        if outcome.is_ok() && wants(addr) {
            count += 1;
            outcome = members.insert(addr);
        }
    });
    match outcome {
        Err(_) if most > 0 && count > most => Err(Errno::EINVAL),
        outcome => outcome,
    }
}
