// SPDX-License-Identifier: GPL-2.0

//! List of the fabrics and domains that C callers have open, in the order of opening. Infos refer to them by
//! address. The registry's lock guards the list.
//!
//! An address in hints is looked up here and never dereferenced: the object may have been closed since.

use super::prelude::*;
use crate::{
    abi::info::InfoList,
    fi::{
        domain::Scope,
        fabric::Fabric,
        info::OpenObjects,
        introspect::Owner, //
    },
    util::{
        downcast::downcast,
        registry, //
    },
};

/// An open object.
struct Opened {
    /// Address of the object's `struct fid`.
    fid_addr: usize,
    owner: Owner,
    fabric: Arc<Fabric>,
    /// Attributes of a domain; none for a fabric.
    domain: Option<Arc<Scope>>,
}

impl Opened {
    fn as_open_objects(&self) -> OpenObjects<'_> {
        OpenObjects::scope(&self.fabric, self.domain.as_deref())
    }
}

/// An entry of the list, which is removed when this is dropped.
pub(super) struct Listed(Arc<Opened>);

impl Listed {
    /// Adds `fabric`, or its domain with the scope `domain`, to the list. The object's `struct fid` is at `fid_addr`.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(
        fid_addr: usize,
        owner: &Owner,
        fabric: &Arc<Fabric>,
        domain: Option<&Arc<Scope>>,
    ) -> Result<Self> {
        let opened = Arc::new(
            Opened {
                fid_addr,
                owner: *owner,
                fabric: fabric.clone(),
                domain: domain.cloned(),
            },
            GFP_KERNEL,
        )?;
        registry::with_list(|entries| entries.push(opened.clone(), GFP_KERNEL))?;
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
        registry::with_list(|entries| {
            entries.retain(|entry| Arc::as_ptr(entry).cast::<()>() != own)
        });
    }
}

/// Open objects in the hints of a query.
pub(super) enum Named {
    /// No object: the offer is not restricted.
    Unrestricted,
    /// Objects of kOFI's providers.
    Own(Objects),
    /// Objects of another module's provider, or objects that have been closed.
    Foreign,
}

/// A fabric and a domain that are open together.
pub(super) struct Objects {
    fabric: Arc<Opened>,
    domain: Option<Arc<Opened>>,
}

impl Objects {
    /// Returns the objects that restrict the offer.
    pub(super) fn as_open_objects(&self) -> OpenObjects<'_> {
        self.domain
            .as_ref()
            .unwrap_or(&self.fabric)
            .as_open_objects()
    }
}

/// A snapshot of the list.
pub(super) struct List(KVec<Arc<Opened>>);

impl List {
    /// Copies the list. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn snapshot() -> Result<Self> {
        registry::with_list(|entries| {
            let mut list = KVec::new();
            for entry in entries.iter() {
                if let Some(opened) = downcast(entry.clone()) {
                    list.push(opened, GFP_KERNEL)?;
                }
            }
            Ok(Self(list))
        })
    }

    fn find_entry(&self, is_it: impl Fn(&Opened) -> bool) -> Option<&Arc<Opened>> {
        self.0.iter().find(|opened| is_it(opened))
    }

    fn find_by_address(&self, address: usize, is_domain: bool) -> Option<&Arc<Opened>> {
        self.find_entry(|it| it.fid_addr == address && it.domain.is_some() == is_domain)
    }

    /// Returns the open objects in the hints.
    ///
    /// # Errors
    ///
    /// -FI_ENODATA if the domain is not one of the fabric.
    pub(super) fn find_named(&self, hints: Option<&Info>) -> Result<Named> {
        let null = (ptr::null_mut(), ptr::null_mut());
        let (fabric, domain) = hints.map_or(null, Info::open_objects);
        let named = (
            self.find_by_address(fabric.addr(), false),
            self.find_by_address(domain.addr(), true),
        );
        match named {
            (None, None) if fabric.is_null() && domain.is_null() => Ok(Named::Unrestricted),
            (None, None) => Ok(Named::Foreign),
            (Some(fabric), None) if domain.is_null() => Ok(Named::Own(Objects {
                fabric: fabric.clone(),
                domain: None,
            })),
            (found, Some(domain)) if found.is_some() || fabric.is_null() => {
                let its =
                    |it: &Opened| it.domain.is_none() && Arc::ptr_eq(&it.fabric, &domain.fabric);
                let own = self.find_entry(its).ok_or(Errno::ENODATA)?;
                ensure(
                    found.is_none_or(|found| Arc::ptr_eq(found, own)),
                    Errno::ENODATA,
                )?;
                Ok(Named::Own(Objects {
                    fabric: own.clone(),
                    domain: Some(domain.clone()),
                }))
            }
            _ => Err(Errno::ENODATA),
        }
    }

    /// Writes into each info the objects that restrict it. Without a restriction these are the first fabric of
    /// `owner` that the info could be opened from, and the first such domain of that fabric.
    pub(super) fn set_names(
        &self,
        infos: &mut InfoList,
        restriction: Option<&Objects>,
        owner: &Owner,
    ) {
        for info in infos {
            let could = |it: &Opened| it.owner == *owner && it.as_open_objects().accepts(info);
            let fabric = match restriction {
                Some(objects) => Some(&objects.fabric),
                None => self.find_entry(|it| it.domain.is_none() && could(it)),
            };
            let domain = restriction
                .and_then(|objects| objects.domain.as_ref())
                .or_else(|| {
                    let is_its = |it: &Opened| {
                        fabric.is_some_and(|fabric| Arc::ptr_eq(&fabric.fabric, &it.fabric))
                    };
                    self.find_entry(|it| it.domain.is_some() && is_its(it) && could(it))
                });
            let fid_addr = |it: Option<&Arc<Opened>>| it.map_or(0, |it| it.fid_addr);
            let (fabric, domain) = (fid_addr(fabric), fid_addr(domain));
            info.set_open_objects(
                ptr::with_exposed_provenance_mut::<fid_fabric>(fabric),
                ptr::with_exposed_provenance_mut::<fid_domain>(domain),
            );
        }
    }
}
