// SPDX-License-Identifier: GPL-2.0

//! Fabrics for C callers: `fi_fabric()`, and the operations of `struct fid_fabric`.

use super::{
    domain,
    eq,
    opened::Listed,
    ops_tables::ProviderOps,
    pep,
    prelude::*,
    prov_registry,
    wait_set, //
};
use crate::fi::{
    fabric::Fabric,
    introspect::Owner,
    provider::FabricAttr, //
};

/// A fabric of a C caller, which refers to it by a pointer to `fid`.
#[repr(C)]
pub(super) struct FabricObject {
    fid: fid_fabric,
    pub(super) fabric: Arc<Fabric>,
    /// Operation tables of the objects that are opened from the fabric.
    pub(super) provider_ops: &'static ProviderOps,
    /// Entry in the list of open fabrics and domains.
    pub(super) open_entry: Listed,
}

fi_ops! {
    impl Object for FabricObject: FI_CLASS_FABRIC {}
    close(fabric) {
        fabric.fabric.close()
    }
}

static OPS: fi_ops_fabric = fi_ops_fabric {
    domain: domain::FABRIC_OPS.domain,
    domain2: domain::FABRIC_OPS.domain2,
    passive_ep: pep::FABRIC_OPS.passive_ep,
    eq_open: eq::FABRIC_OPS.eq_open,
    ..wait_set::FABRIC_OPS
};

/// Returns a C caller's string, or `None` for NULL.
///
/// # Safety
///
/// `name` is NULL or a string that is valid for `'a`.
pub(super) unsafe fn opt_cstr<'a>(name: *const c_char) -> Option<&'a CStr> {
    // SAFETY: By the caller's contract, `name` is a string that is valid for `'a`.
    (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) })
}

/// Opens a fabric for the module named `owner` (`fi_fabric()`). A provider that another module has
/// registered opens its fabrics itself. May sleep.
///
/// # Errors
///
/// -FI_EINVAL for NULL, -FI_ENODATA without a provider or fabric of the name, -FI_EOPBADSTATE in atomic
/// context, -FI_ENOMEM; errors of the provider of another module.
///
/// # Safety
///
/// The contract of `fi_fabric_by()` in `rdma/fabric.h`.
pub(super) unsafe fn open(
    attr: *mut fi_fabric_attr,
    out: *mut *mut fid_fabric,
    context: *mut c_void,
    owner: *const c_char,
) -> Result {
    in_process()?;
    let raw = attr;
    // SAFETY: By the contract of `fi_fabric_by()`.
    let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
    ensure(!out.is_null(), Errno::EINVAL)?;
    // SAFETY: By the contract of `fi_fabric_by()`.
    let wanted = unsafe { opt_cstr(attr.prov_name) };
    let provider_ops = crate::PROVIDER_OPS
        .iter()
        .find(|provider_ops| wanted.is_none_or(|name| name == provider_ops.provider.name()));
    let Some(provider_ops) = provider_ops else {
        // SAFETY: By the contract of `fi_fabric_by()`; `raw` and `out` are not NULL.
        return unsafe { prov_registry::open(raw, out, context) };
    };
    // SAFETY: By the contract of `fi_fabric_by()`.
    let owner = Owner::module(unsafe { opt_cstr(owner) }.unwrap_or(c""));
    let fabric = Fabric::open(
        provider_ops.provider,
        &FabricAttr {
            // SAFETY: By the contract of `fi_fabric_by()`.
            name: unsafe { opt_cstr(attr.name) },
            // SAFETY: By the contract of `fi_fabric_by()`, the namespace outlives the call.
            net: unsafe { Namespace::from_ptr(attr.net) },
        },
        &owner,
    )?;
    let api_version = match attr.api_version {
        0 => abi::VERSION,
        version => version,
    };
    // SAFETY: `out` is valid by the contract of `fi_fabric_by()`.
    let slot = unsafe { Opening::new(out)? };
    let open_entry = Listed::new(slot.address(), &owner, &fabric, None)?;
    slot.open(FabricObject {
        fid: fid_fabric {
            fid: new_fid::<FabricObject>(context),
            ops: ptr::from_ref(&OPS).cast_mut(),
            api_version,
        },
        fabric,
        provider_ops,
        open_entry,
    })
}
