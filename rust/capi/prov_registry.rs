// SPDX-License-Identifier: GPL-2.0

//! Registry of other modules' providers, which are written in C: `rdma/providers/fi_prov.h`. Only C callers
//! see them.
//!
//! A module stays loaded while one of its fabrics is open: kOFI's [`close`] calls the module's, and drops the
//! reference on the module after that has returned.

use super::{
    fabric::opt_cstr,
    peer::checked_struct,
    prelude::*, //
};
use crate::{
    abi::{
        errno::{
            from_int,
            into_int, //
        },
        info::InfoList, //
    },
    fi::object::{
        ChildCount,
        Parent, //
    },
    util::{
        callback::{
            self,
            Caller,
            Functions, //
        },
        context::OwnModule,
        downcast::downcast,
        registry, //
    },
};
use kernel::str::CString;

/// Maximum length of a provider's name, in bytes.
const MAX_NAME_LEN: usize = 64;

/// A provider that has been registered.
///
/// # Invariants
///
/// The provider's calls stay valid until it has no users and has left the registry.
struct Registered {
    /// Address of the `struct fi_provider`, which is only compared.
    provider: usize,
    module: *mut module,
    name: CString,
    /// The provider's calls, of which `getinfo` and `fabric` are there, and its version.
    calls: fi_provider,
    ref_count: ChildCount,
    /// Registration of the provider's calls, until the provider is unregistered.
    callback: SetOnce<callback::Registered>,
}

// SAFETY: The provider's calls are legal in any thread, and `module` is only used to keep the module loaded.
unsafe impl Send for Registered {}

// SAFETY: As above.
unsafe impl Sync for Registered {}

impl Parent for Registered {
    fn users(&self) -> &ChildCount {
        &self.ref_count
    }
}

impl Caller for Registered {
    fn stop_calls(&self) {
        // A caller that found the provider in the list holds a reference on its module, so the module is still
        // loaded.
        drop(registry::with_list(|entries| {
            let (at, _) = registered(entries).find(|(_, it)| ptr::eq(&**it, self))?;
            entries.remove(at).ok()
        }));
    }
}

/// Returns the providers in the registry, and their positions there.
fn registered(entries: &[registry::Entry]) -> impl Iterator<Item = (usize, Arc<Registered>)> + '_ {
    let entries = entries.iter().enumerate();
    entries.filter_map(|(at, entry)| Some((at, downcast(entry.clone())?)))
}

/// A reference on a provider, which can be called and stays loaded.
struct Provider {
    // Dropped in this order: dropping the second may let the module be unloaded.
    registered: ChildRef<Registered>,
    _module: OwnModule,
}

impl Provider {
    fn get(registered: &Arc<Registered>) -> Option<Self> {
        let held = ChildRef::new(registered).ok()?;
        Some(Self {
            registered: held,
            // SAFETY: A module unregisters its providers before it is unloaded, so a registered provider's
            // module is valid.
            _module: unsafe { OwnModule::get(registered.module)? },
        })
    }

    /// Returns the providers with the name `wanted`, or all of them.
    fn find_all(wanted: Option<&CStr>) -> Result<KVec<Self>> {
        registry::with_list(|entries| {
            let mut found = KVec::new();
            for (_, it) in registered(entries) {
                if wanted.is_none_or(|wanted| wanted == &*it.name) {
                    if let Some(provider) = Self::get(&it) {
                        found.push(provider, GFP_KERNEL)?;
                    }
                }
            }
            Ok(found)
        })
    }

    /// Appends the provider's offer for the open objects in the hints. Drops infos that do not name these
    /// objects.
    ///
    /// # Safety
    ///
    /// The contract of `fi_getinfo()`.
    unsafe fn getinfo(&self, request: &InfoRequest<'_>, found: &mut InfoList) -> Result {
        let null = (ptr::null_mut(), ptr::null_mut());
        let (fabric, domain) = request.hints.map_or(null, Info::open_objects);
        let mut offers = ptr::null_mut();
        let call = self.registered.calls.getinfo.ok_or(Errno::EINVAL)?;
        // SAFETY: By the contract of `fi_getinfo()`, and by the invariant.
        let ret = unsafe {
            call(
                request.version,
                request.node,
                request.service,
                request.flags,
                request
                    .hints
                    .map_or(ptr::null_mut(), Info::as_raw)
                    .cast_const(),
                &mut offers,
            )
        };
        // A provider that fails adds no infos, and does not affect those of the others.
        if from_int(ret).is_err() {
            return Ok(());
        }
        while !offers.is_null() {
            // SAFETY: Each info is from the provider's `fi_dupinfo()`, and is in this list only.
            let mut offer = unsafe {
                let rest = ptr::replace(&raw mut (*offers).next, ptr::null_mut());
                Info::from_raw(ptr::replace(&mut offers, rest))
            };
            let (its_fabric, its_domain) = offer.open_objects();
            let is_of_fabric = fabric.is_null() || fabric == its_fabric;
            let is_of_domain = domain.is_null() || domain == its_domain;
            if !is_of_fabric || !is_of_domain {
                continue;
            }
            if offer.provider_name().is_none() {
                offer.set_provider_name(&self.registered.name)?;
            }
            offer.set_provider_version(self.registered.calls.version)?;
            found.push(offer, GFP_KERNEL)?;
        }
        Ok(())
    }
}

/// Arguments of an `fi_getinfo()` call.
pub(super) struct InfoRequest<'a> {
    pub(super) version: u32,
    pub(super) node: *const c_char,
    pub(super) service: *const c_char,
    pub(super) flags: u64,
    pub(super) hints: Option<&'a Info>,
}

/// Appends the infos of other modules' providers. May sleep.
///
/// # Errors
///
/// -FI_ENOMEM.
///
/// # Safety
///
/// The contract of `fi_getinfo()`.
pub(super) unsafe fn getinfo(request: &InfoRequest<'_>, found: &mut InfoList) -> Result {
    for provider in Provider::find_all(request.hints.and_then(Info::provider_name))? {
        // SAFETY: By the contract of `fi_getinfo()`.
        unsafe { provider.getinfo(request, found)? };
    }
    Ok(())
}

/// Table of calls that replaces the one of another module's fabric, and keeps the module loaded until
/// `close`.
#[repr(C)]
struct Guard {
    ops: fi_ops,
    original_ops: *mut fi_ops,
    provider: Provider,
}

/// Opens a fabric of another module's provider (`fi_fabric()`). May sleep.
///
/// # Errors
///
/// -FI_ENODATA if no provider has the name, -FI_ENOMEM, the errors of the provider; -FI_EINVAL for a fabric
/// without calls.
///
/// # Safety
///
/// The contract of `fi_fabric()`; `attr` and `out` are not NULL.
pub(super) unsafe fn open(
    attr: *mut fi_fabric_attr,
    out: *mut *mut fid_fabric,
    context: *mut c_void,
) -> Result {
    // SAFETY: By the contract of `fi_fabric()`; `attr` is not NULL.
    let wanted = unsafe { opt_cstr((*attr).prov_name) }.ok_or(Errno::ENODATA)?;
    let provider = Provider::find_all(Some(wanted))?
        .pop()
        .ok_or(Errno::ENODATA)?;
    let call = provider.registered.calls.fabric.ok_or(Errno::EINVAL)?;
    let mut guard = KBox::new(
        Guard {
            ops: pin_init::zeroed(),
            original_ops: ptr::null_mut(),
            provider,
        },
        GFP_KERNEL,
    )?;
    let mut fabric = ptr::null_mut();
    // SAFETY: By the contract of `fi_fabric()`, and by the invariant.
    unsafe {
        from_int(call(attr, &mut fabric, context))?;
        guard.original_ops = fabric.as_ref().ok_or(Errno::EINVAL)?.fid.ops;
        let ops = checked_struct::<fi_ops>(guard.original_ops.cast())?;
        ops.close.ok_or(Errno::EINVAL)?;
        guard.ops = fi_ops {
            close: Some(close),
            ..*ops
        };
        (*fabric).fid.ops = KBox::into_raw(guard).cast();
        *out = fabric;
    }
    Ok(())
}

/// Closes a fabric of another module, and drops the reference on the module.
///
/// # Safety
///
/// `fid` is an open fabric whose `ops` is a [`Guard`]; once it is closed, the caller does not use it any more.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By this function's contract, the fabric is open and its `ops` is a [`Guard`], which has the original
    // table.
    unsafe {
        let guard = (*fid).ops.cast::<Guard>();
        let original_ops = (*guard).original_ops;
        (*fid).ops = original_ops;
        let ret = match (*original_ops).close {
            Some(close) => close(fid),
            None => Errno::EINVAL.to_int(),
        };
        match ret {
            0 => drop(KBox::from_raw(guard)),
            _ => (*fid).ops = guard.cast(),
        }
        ret
    }
}

/// Implements `fi_register_provider_by()`.
///
/// # Safety
///
/// The contract of `fi_register_provider_by()` in `rdma/providers/fi_prov.h`.
#[no_mangle]
pub(crate) unsafe extern "C" fn fi_register_provider_by(
    provider: *mut fi_provider,
    module: *mut module,
) -> c_int {
    // SAFETY: By the contract of `fi_register_provider_by()`.
    into_int(unsafe { register(provider, module) })
}

/// # Safety
///
/// The contract of `fi_register_provider_by()`.
unsafe fn register(provider: *mut fi_provider, module: *mut module) -> Result {
    in_process()?;
    // SAFETY: By the contract of `fi_register_provider_by()`.
    let described = unsafe { provider.as_ref() }.ok_or(Errno::EINVAL)?;
    // SAFETY: By the contract of `fi_register_provider_by()`.
    let name = unsafe { opt_cstr(described.name) }.ok_or(Errno::EINVAL)?;
    let len = name.to_bytes().len();
    ensure(len != 0 && len <= MAX_NAME_LEN, Errno::EINVAL)?;
    ensure(described.fi_version <= abi::VERSION, Errno::ENOSYS)?;
    let getinfo = described.getinfo.ok_or(Errno::EINVAL)?;
    let fabric = described.fabric.ok_or(Errno::EINVAL)?;
    // INVARIANT: By the contract of `fi_register_provider_by()`.
    let new = Arc::new(
        Registered {
            provider: provider.addr(),
            module,
            name: CString::try_from(name)?,
            calls: *described,
            ref_count: ChildCount::new(),
            callback: SetOnce::new(),
        },
        GFP_KERNEL,
    )?;
    let functions = Functions::from_array([getinfo as *const (), fabric as *const ()]);
    let callback =
        callback::Registered::new(functions, fmt!("provider {}", &*new.name), new.clone())?;
    registry::with_list(|entries| {
        let mut own = crate::PROVIDER_OPS.iter().map(|ops| ops.provider.name());
        let is_there = |it: Arc<Registered>| *it.name == *name || it.provider == provider.addr();
        ensure(!own.any(|own| own == name), Errno::EALREADY)?;
        ensure(
            !registered(entries).any(|(_, it)| is_there(it)),
            Errno::EALREADY,
        )?;
        entries.push(new.clone(), GFP_KERNEL).map_err(Errno::from)
    })?;
    let _ = new.callback.populate(callback);
    Ok(())
}

/// Implements `fi_unregister_provider()`.
///
/// # Safety
///
/// The contract of `fi_unregister_provider()` in `rdma/providers/fi_prov.h`.
#[no_mangle]
pub(crate) unsafe extern "C" fn fi_unregister_provider(provider: *mut fi_provider) -> c_int {
    // SAFETY: By the contract of `fi_unregister_provider()`.
    into_int(unsafe { unregister(provider) })
}

/// # Safety
///
/// The contract of `fi_unregister_provider()`.
unsafe fn unregister(provider: *mut fi_provider) -> Result {
    in_process()?;
    let removed = registry::with_list(|entries| {
        let found = registered(entries).find(|(_, it)| it.provider == provider.addr());
        let (at, registered) = found.ok_or(Errno::EINVAL)?;
        registered.ref_count.try_close()?;
        if let Some(callback) = registered.callback.as_ref() {
            callback.unregister();
        }
        entries.remove(at).map_err(|_| Errno::EINVAL)
    })?;
    drop(removed);
    // SAFETY: The provider was registered, and stays valid until this call returns.
    if let Some(cleanup) = unsafe { (*provider).cleanup } {
        // SAFETY: By the contract of `fi_register_provider_by()`; the provider has no open fabric.
        unsafe { cleanup() };
    }
    Ok(())
}
