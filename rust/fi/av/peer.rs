// SPDX-License-Identifier: GPL-2.0

//! Addresses of Rust consumers: removing an address consumes its handle.

use super::{
    AddressVector,
    Insertion, //
};
use crate::fi::prelude::*;

/// An address in a vector. The address stays there until [`Self::remove`], also when this handle is dropped.
///
/// Each handle stands for one insertion: the same address may be inserted several times, and leaves the
/// vector with the last removal.
pub struct Peer {
    vector: Arc<AddressVector>,
    addr: fi_addr_t,
}

/// The identifier of a peer in completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerId(fi_addr_t);

impl PeerId {
    /// Converts the source of a completion.
    pub(in super::super) const fn from_addr(addr: fi_addr_t) -> Self {
        Self(addr)
    }
}

impl Peer {
    /// Inserts an address. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EADDRNOTAVAIL if the address is no valid [`destination`](super::check_destination), -FI_EACCES if
    /// the vector is read-only, -FI_EINVAL if insertions are asynchronous, -FI_ENOMEM.
    pub fn insert(
        here: ProcessContext,
        vector: &Arc<AddressVector>,
        address: SocketAddr,
    ) -> Result<Self> {
        let insertion = Insertion {
            address: Ok(address),
            user_id: None,
        };
        let mut outcome = Err(Errno::EOTHER);
        vector.insert(here, [insertion], |_, what| outcome = what)?;
        Ok(Self {
            vector: vector.clone(),
            addr: outcome?,
        })
    }

    /// Returns the identifier that completions report for the peer. Any context.
    pub fn id(&self) -> PeerId {
        PeerId(self.vector.reported_source(self.addr))
    }

    /// Returns the `fi_addr_t` of the address.
    pub(in super::super) fn addr(&self) -> fi_addr_t {
        self.addr
    }

    /// Returns the vector that has the address.
    pub fn vector(&self) -> &Arc<AddressVector> {
        &self.vector
    }

    /// Returns the address that was inserted. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if another user of the vector has removed it.
    pub fn address(&self) -> Result<SocketAddr> {
        self.vector.lookup(self.addr)
    }

    /// Removes the insertion. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if another user of the vector has removed it.
    pub fn remove(self, here: ProcessContext) -> Result {
        self.vector.remove(here, self.addr)
    }
}

#[kunit_tests(kofi_fi_av_peer)]
mod tests {
    use super::*;
    use crate::fi::{
        av::Attr,
        av_set::{
            AddressSet,
            InitialMembers, //
        },
        tests::dummy_provider::{
            domain,
            HERE, //
        },
    };

    fn open_av() -> Result<Arc<AddressVector>> {
        let attr = Attr {
            kind: None,
            rx_ctx_bits: 0,
            count: 0,
            is_async: false,
            name: None,
            is_read_only: false,
        };
        domain()?.address_vector(HERE, &attr)
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 7471))
    }

    #[test]
    fn av_05_each_peer_holds_one_insertion() -> kernel::error::Result {
        let av = open_av()?;
        let first = Peer::insert(HERE, &av, address(1))?;
        let again = Peer::insert(HERE, &av, address(1))?;
        let other = Peer::insert(HERE, &av, address(2))?;
        assert_eq!(first.addr(), again.addr());
        assert_ne!(first.addr(), other.addr());
        assert!(first.remove(HERE).is_ok());
        assert_eq!(again.address(), Ok(address(1)));
        assert!(again.remove(HERE).is_ok());
        assert_eq!(av.find(&address(1)), None);
        drop(other);
        assert!(av.find(&address(2)).is_some());
        Ok(())
    }

    #[test]
    fn av_05_address_without_a_port_is_rejected() -> kernel::error::Result {
        let av = open_av()?;
        let no_port = SocketAddr::from(([10, 0, 0, 1], 0));
        let refused = Peer::insert(HERE, &av, no_port);
        assert!(refused.is_err_and(|errno| errno == Errno::EADDRNOTAVAIL));
        Ok(())
    }

    #[test]
    fn avset_01_peers_can_be_set_members() -> kernel::error::Result {
        let av = open_av()?;
        let set = AddressSet::new(HERE, &av, 0, InitialMembers::Empty)?;
        let peer = Peer::insert(HERE, &av, address(1))?;
        let foreign_peer = Peer::insert(HERE, &open_av()?, address(1))?;
        assert!(set.add(HERE, &peer).is_ok());
        assert_eq!(set.add(HERE, &peer), Err(Errno::EINVAL));
        assert_eq!(set.add(HERE, &foreign_peer), Err(Errno::EINVAL));
        assert!(set.has(HERE, &peer));
        assert!(!set.has(HERE, &foreign_peer));
        assert!(set.take_out(HERE, &peer).is_ok());
        assert!(!set.has(HERE, &peer));
        Ok(())
    }
}
