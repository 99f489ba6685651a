// SPDX-License-Identifier: GPL-2.0

//! Address vector sets: ordered members of one vector, for collective operations.
//!
//! The mutex of a set guards its members. It is never taken together with another set's: an operation on two
//! sets works on a copy of the second one. A peer set has no members of its own; its owner returns them.

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
        impl_parent,
        ChildCount, //
    },
};
use crate::{
    abi::{
        KOFI_OBJECT_AV_SET,
        KOFI_VALUE_MEMBERS, //
    },
    fi::prelude::*, //
};
use kernel::alloc::KVVec;

/// The initial members of a set.
#[derive(Clone, Copy)]
pub enum InitialMembers {
    /// No members.
    Empty,
    /// Every `stride`th address from `start` to `end`, of an FI_AV_TABLE vector.
    Range {
        /// First index.
        start: fi_addr_t,
        /// Last index that can be included.
        end: fi_addr_t,
        /// Distance of the indices; not 0.
        stride: u64,
    },
    /// The set has all addresses of the vector.
    Universe,
}

/// The owner of a peer set's members.
pub(crate) trait SetOwner: Send + Sync {
    /// Returns the members in order. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, and errors of an owner in another module.
    fn members(&self) -> Result<KVVec<fi_addr_t>>;

    /// Returns false if the set is known to have addresses of another vector than `_vector`.
    fn has_vector(&self, _vector: &AddressVector) -> bool {
        true
    }
}

impl SetOwner for ChildRef<AddressSet> {
    fn members(&self) -> Result<KVVec<fi_addr_t>> {
        self.with_slice(|members| {
            let mut copy = KVVec::with_capacity(members.len(), GFP_KERNEL)?;
            copy.extend_from_slice(members, GFP_KERNEL)?;
            Ok(copy)
        })?
    }

    fn has_vector(&self, vector: &AddressVector) -> bool {
        self.is_in(vector)
    }
}

/// A set of addresses.
#[pin_data]
pub struct AddressSet {
    /// Members; empty if there is an owner.
    #[pin]
    members: Mutex<Members>,
    /// Number of members; set under the lock.
    size: Arc<NamedValue>,
    users: ChildCount,
    resources: DeferredDrop<Resources>,
}

/// The objects that a set uses until it is closed.
struct Resources {
    /// Owner of the members of a peer set.
    owner: Option<KBox<dyn SetOwner>>,
    entry_guard: EntryGuard<AddressVector>,
}

impl_parent!(AddressSet);

impl AddressSet {
    /// Creates a set of at most `max_members` addresses of `vector`; 0 for no limit. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a range of an FI_AV_MAP vector, an empty or zero-stride range, and more initial
    /// addresses than `max_members`; -FI_ENOMEM.
    pub fn new(
        _here: ProcessContext,
        vector: &Arc<AddressVector>,
        max_members: usize,
        initial: InitialMembers,
    ) -> Result<Arc<Self>> {
        let vector = ChildRef::new(vector)?;
        let mut members = Members::new(match max_members {
            0 => usize::MAX,
            most => most,
        });
        match initial {
            InitialMembers::Empty => {}
            InitialMembers::Range { start, end, stride } => {
                Errno::EINVAL.when(vector.kind() == Type::Map || start > end || stride == 0)?;
                let is_step = |at: u64| at.checked_rem(stride) == Some(0);
                insert_matching(&mut members, max_members, &vector, |addr| {
                    addr <= end && addr.checked_sub(start).is_some_and(is_step)
                })?;
            }
            InitialMembers::Universe => {
                insert_matching(&mut members, max_members, &vector, |_| true)?
            }
        }
        Self::build(vector, members, None)
    }

    /// Creates a peer set of `vector` with the members of `owner`, which cannot be changed through it. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the owner's addresses are known to be of another vector; -FI_ENOMEM.
    pub(crate) fn peer(
        _here: ProcessContext,
        vector: &Arc<AddressVector>,
        owner: KBox<dyn SetOwner>,
    ) -> Result<Arc<Self>> {
        Errno::EINVAL.when(!owner.has_vector(vector))?;
        Self::build(ChildRef::new(vector)?, Members::new(0), Some(owner))
    }

    /// Creates a peer set of `vector` with the members of `owner`, which can be changed only through `owner`.
    /// The owner cannot be closed before the peer set. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an owner with addresses of another vector, and for a closed one; -FI_ENOMEM.
    pub fn peer_of(
        here: ProcessContext,
        vector: &Arc<AddressVector>,
        owner: &Arc<Self>,
    ) -> Result<Arc<Self>> {
        Self::peer(here, vector, KBox::new(ChildRef::new(owner)?, GFP_KERNEL)?)
    }

    fn build(
        vector: ChildRef<AddressVector>,
        members: Members,
        owner: Option<KBox<dyn SetOwner>>,
    ) -> Result<Arc<Self>> {
        let size = NamedValue::new(KOFI_VALUE_MEMBERS, members.as_slice().len() as u64)?;
        let resources = DeferredDrop::new(Resources {
            owner,
            entry_guard: EntryGuard::new(vector, KOFI_OBJECT_AV_SET, c"", Some(size.clone()))?,
        })?;
        pin_arc(pin_init!(Self {
            size,
            members <- new_mutex!(members, "kofi::AddressSet"),
            users: ChildCount::new(),
            resources,
        }))
    }

    fn modify(&self, change: impl FnOnce(&mut Members) -> Result) -> Result {
        Errno::EACCES.when(self.resources.owner.is_some())?;
        let mut members = self.members.lock();
        let result = change(&mut members);
        self.size.set(members.as_slice().len() as u64);
        result
    }

    /// Appends the members of `other` that this set does not have. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a set of another vector; -FI_ENOMEM if the set would be too large or memory is short,
    /// and the set is unchanged; -FI_EACCES for a peer set; errors of the owner of `other`.
    pub fn unite(&self, _here: ProcessContext, other: &Self) -> Result {
        let other = self.copy_members(other)?;
        self.modify(|members| members.unite(other.as_slice()))
    }

    /// Removes the members that `other` does not have. May sleep.
    ///
    /// # Errors
    ///
    /// As [`Self::unite`].
    pub fn intersect(&self, _here: ProcessContext, other: &Self) -> Result {
        let other = self.copy_members(other)?;
        self.modify(|members| {
            members.retain_among(&other, true);
            Ok(())
        })
    }

    /// Removes the members that `other` has. May sleep.
    ///
    /// # Errors
    ///
    /// As [`Self::unite`].
    pub fn subtract(&self, _here: ProcessContext, other: &Self) -> Result {
        let other = self.copy_members(other)?;
        self.modify(|members| {
            members.retain_among(&other, false);
            Ok(())
        })
    }

    /// Appends an address. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a member, and for an address that is not in the vector; -FI_ENOMEM if the set is full
    /// or memory is short; -FI_EACCES for a peer set.
    pub(crate) fn insert(&self, _here: ProcessContext, addr: fi_addr_t) -> Result {
        self.resources.entry_guard.parent.lookup(addr)?;
        self.modify(|members| members.insert(addr))
    }

    /// Removes an address, which need not be in the vector any more. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the address is not a member, -FI_EACCES for a peer set.
    pub(crate) fn remove(&self, _here: ProcessContext, addr: fi_addr_t) -> Result {
        self.modify(|members| members.remove(addr))
    }

    /// Returns true if `peer` is a member; false for a peer set whose owner returns an error. May sleep.
    pub fn has(&self, _here: ProcessContext, peer: &Peer) -> bool {
        let is_there = |members: &[fi_addr_t]| members.contains(&peer.addr());
        self.is_in(peer.vector())
            && match &self.resources.owner {
                None => self.members.lock().contains(peer.addr()),
                Some(_) => self.with_slice(is_there).unwrap_or(false),
            }
    }

    /// Appends a peer. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a member, and for a peer of another vector; -FI_ENOMEM if the set is full or memory is
    /// short; -FI_EACCES for a peer set.
    pub fn add(&self, here: ProcessContext, peer: &Peer) -> Result {
        Errno::EINVAL.when(!self.is_in(peer.vector()))?;
        self.insert(here, peer.addr())
    }

    /// Removes a peer. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the peer is not a member, -FI_EACCES for a peer set.
    pub fn take_out(&self, here: ProcessContext, peer: &Peer) -> Result {
        Errno::EINVAL.when(!self.is_in(peer.vector()))?;
        self.remove(here, peer.addr())
    }

    /// Returns true if the set has addresses of `vector`.
    pub fn is_in(&self, vector: &AddressVector) -> bool {
        self.resources.entry_guard.parent.identity() == vector.identity()
    }

    /// Calls `f` with the members in order. May sleep.
    ///
    /// # Errors
    ///
    /// Only for a peer set: -FI_ENOMEM, and errors of its owner.
    pub fn with_members<R>(
        &self,
        _here: ProcessContext,
        f: impl FnOnce(&[fi_addr_t]) -> R,
    ) -> Result<R> {
        self.with_slice(f)
    }

    fn with_slice<R>(&self, f: impl FnOnce(&[fi_addr_t]) -> R) -> Result<R> {
        Ok(match &self.resources.owner {
            None => f(self.members.lock().as_slice()),
            Some(owner) => f(&owner.members()?),
        })
    }

    /// Closes the set: -FI_EBUSY while a collective group or a peer set uses it.
    pub(crate) fn close(&self) -> Result {
        self.users.close(&self.resources.entry_guard.entry)
    }

    fn copy_members(&self, other: &Self) -> Result<Members> {
        Errno::EINVAL.when(!self.is_in(&other.resources.entry_guard.parent))?;
        other.with_slice(|members| {
            let mut copy = Members::new(usize::MAX);
            copy.unite(members)?;
            Ok(copy)
        })?
    }
}

/// Inserts the addresses of a vector for which `wants` returns true.
fn insert_matching(
    members: &mut Members,
    most: usize,
    vector: &AddressVector,
    wants: impl Fn(fi_addr_t) -> bool,
) -> Result {
    let mut outcome = Ok(());
    let mut count = 0;
    vector.for_each(|addr| {
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
