// SPDX-License-Identifier: GPL-2.0

//! The fabrics and domains that C callers have open, which infos name by address, in the order of opening.
//! The registry's lock guards the list.
//!
//! An address in hints is looked up here and never dereferenced: the object may have been closed since.

use crate::{
    abi::{
        downcast::downcast,
        fid_domain,
        fid_fabric,
        info::{
            Info,
            InfoList, //
        },
        registry,
        Errno,
        Result, //
    },
    fi::{
        card::Owner,
        domain::Scope,
        fabric::Fabric,
        info::Within, //
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// An open object.
struct Opened {
    /// The address of its `struct fid`.
    address: usize,
    owner: Owner,
    fabric: Arc<Fabric>,
    /// The attributes of a domain; none of a fabric.
    domain: Option<Arc<Scope>>,
}

impl Opened {
    fn within(&self) -> Within<'_> {
        Within::scope(&self.fabric, self.domain.as_deref())
    }
}

/// An entry of the list, which is taken out when this is dropped.
pub(super) struct Listed(Arc<Opened>);

impl Listed {
    /// Lists the fabric, or the domain with that scope of the fabric, whose `struct fid` is at `address`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(
        address: usize,
        owner: &Owner,
        fabric: &Arc<Fabric>,
        domain: Option<&Arc<Scope>>,
    ) -> Result<Self> {
        let opened = Arc::new(
            Opened {
                address,
                owner: *owner,
                fabric: fabric.clone(),
                domain: domain.cloned(),
            },
            GFP_KERNEL,
        )?;
        registry::with(|entries| entries.push(opened.clone(), GFP_KERNEL))?;
        Ok(Self(opened))
    }

    /// Returns the owner of the object.
    pub(super) fn owner(&self) -> &Owner {
        &self.0.owner
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let own = Arc::as_ptr(&self.0).cast::<()>();
        registry::with(|entries| entries.retain(|entry| Arc::as_ptr(entry).cast::<()>() != own));
    }
}

/// The objects that hints name.
pub(super) enum Named {
    /// None: everything is offered.
    Nothing,
    /// Objects of kOFI's providers.
    Ours(Objects),
    /// Objects of other modules' providers, or such as are not open any more.
    Others,
}

/// A fabric and a domain that are open together.
pub(super) struct Objects {
    fabric: Arc<Opened>,
    domain: Option<Arc<Opened>>,
}

impl Objects {
    /// Returns what an offer is restricted to.
    pub(super) fn within(&self) -> Within<'_> {
        self.domain.as_ref().unwrap_or(&self.fabric).within()
    }
}

/// The list as it is at one time.
pub(super) struct List(KVec<Arc<Opened>>);

impl List {
    /// Copies the list. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn read() -> Result<Self> {
        registry::with(|entries| {
            let mut list = KVec::new();
            for entry in entries.iter() {
                if let Some(opened) = downcast::<Opened>(entry.clone()) {
                    list.push(opened, GFP_KERNEL)?;
                }
            }
            Ok(Self(list))
        })
    }

    fn find(&self, is_it: impl Fn(&Opened) -> bool) -> Option<&Arc<Opened>> {
        self.0.iter().find(|opened| is_it(opened))
    }

    fn at(&self, address: usize, is_domain: bool) -> Option<&Arc<Opened>> {
        self.find(|it| it.address == address && it.domain.is_some() == is_domain)
    }

    /// Returns the objects that hints name.
    ///
    /// # Errors
    ///
    /// -FI_ENODATA for a fabric and a domain that are not open together.
    pub(super) fn named_by(&self, hints: &Info) -> Result<Named> {
        let (fabric, domain) = hints.objects();
        let named = (self.at(fabric.addr(), false), self.at(domain.addr(), true));
        match named {
            (None, None) if fabric.is_null() && domain.is_null() => Ok(Named::Nothing),
            (None, None) => Ok(Named::Others),
            (Some(fabric), None) if domain.is_null() => Ok(Named::Ours(Objects {
                fabric: fabric.clone(),
                domain: None,
            })),
            (found, Some(domain)) if found.is_some() || fabric.is_null() => {
                let its =
                    |it: &Opened| it.domain.is_none() && Arc::ptr_eq(&it.fabric, &domain.fabric);
                let own = self.find(its).ok_or(Errno::ENODATA)?;
                if found.is_some_and(|found| !Arc::ptr_eq(found, own)) {
                    return Err(Errno::ENODATA);
                }
                Ok(Named::Ours(Objects {
                    fabric: own.clone(),
                    domain: Some(domain.clone()),
                }))
            }
            _ => Err(Errno::ENODATA),
        }
    }

    /// Has each of the infos name the objects that it is restricted to; where it is not, the first fabric that
    /// `owner` has open and could open it from, and the first domain of that in which it could.
    pub(super) fn name(&self, infos: &mut InfoList, named: Option<&Objects>, owner: &Owner) {
        for info in infos {
            let could = |it: &Opened| it.owner == *owner && it.within().has(info);
            let fabric = match named {
                Some(named) => Some(&named.fabric),
                None => self.find(|it| it.domain.is_none() && could(it)),
            };
            let domain = named.and_then(|named| named.domain.as_ref()).or_else(|| {
                let is_its = |it: &Opened| {
                    fabric.is_some_and(|fabric| Arc::ptr_eq(&fabric.fabric, &it.fabric))
                };
                self.find(|it| it.domain.is_some() && is_its(it) && could(it))
            });
            let address = |it: Option<&Arc<Opened>>| it.map_or(0, |it| it.address);
            let (fabric, domain) = (address(fabric), address(domain));
            info.set_objects(
                ptr::with_exposed_provenance_mut::<fid_fabric>(fabric),
                ptr::with_exposed_provenance_mut::<fid_domain>(domain),
            );
        }
    }
}
