// SPDX-License-Identifier: GPL-2.0

//! Providers of other modules, in C: `rdma/providers/fi_prov.h`. C callers alone see them.
//!
//! A module stays loaded while one of its fabrics is open: of that, kOFI closes the last part itself.

use super::fabric::name;
use crate::{
    abi::{
        self,
        callback::{
            self,
            Caller,
            Functions, //
        },
        context::{
            in_process,
            OwnModule, //
        },
        downcast::downcast,
        errno::{
            from_int,
            into_int, //
        },
        fi_fabric_attr,
        fi_info,
        fi_ops,
        fi_provider,
        fid,
        fid_fabric,
        info::{
            Info,
            InfoList, //
        },
        module,
        once::OnceBox,
        registry,
        Errno,
        Result, //
    },
    fi::object::{
        ChildCount,
        ChildRef,
        Parent, //
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Most bytes of a name.
const MAX_NAME: usize = 64;

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;

type OpenFabric =
    unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;

/// A provider that has been registered.
///
/// # Invariants
///
/// Its calls are there until it has no users any more and has left the registry.
struct Registered {
    /// Whose it is; only compared.
    provider: usize,
    module: *mut module,
    /// With a NUL behind it.
    name: KVec<u8>,
    version: u32,
    getinfo: GetInfo,
    fabric: OpenFabric,
    users: ChildCount,
    /// Registration of the provider's calls, until the provider is unregistered.
    callback: OnceBox<callback::Registered>,
}

// SAFETY: Its calls may come from any thread; the module is only kept loaded.
unsafe impl Send for Registered {}

// SAFETY: As above.
unsafe impl Sync for Registered {}

impl Parent for Registered {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

impl Caller for Registered {
    fn end(&self) {
        // A caller that found the provider in the list holds a reference on its module, so the module is still
        // loaded.
        let taken = registry::with(|entries| {
            let at = entries.iter().position(|entry| {
                downcast::<Self>(entry.clone()).is_some_and(|it| ptr::eq(&*it, self))
            });
            at.and_then(|at| entries.remove(at).ok())
        });
        drop(taken);
    }
}

impl Registered {
    fn name(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.name).unwrap_or(c"")
    }
}

/// One that can be called, and stays loaded.
struct Provider {
    // Dropped in this order: the module may go with the second.
    registered: ChildRef<Registered>,
    _module: OwnModule,
}

impl Provider {
    fn of(registered: &Arc<Registered>) -> Option<Self> {
        let held = ChildRef::new(registered).ok()?;
        Some(Self {
            registered: held,
            // SAFETY: A module takes its providers back before it goes.
            _module: unsafe { OwnModule::get(registered.module)? },
        })
    }

    /// Those whose name is `wanted`, or all.
    fn all(wanted: Option<&CStr>) -> Result<KVec<Self>> {
        registry::with(|entries| {
            let mut found = KVec::new();
            for entry in entries.iter() {
                let provider = downcast::<Registered>(entry.clone())
                    .filter(|it| wanted.is_none_or(|wanted| wanted == it.name()))
                    .and_then(|it| Self::of(&it));
                if let Some(provider) = provider {
                    found.push(provider, GFP_KERNEL)?;
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
    /// As of `fi_getinfo()`.
    unsafe fn getinfo(&self, asked: &InfoRequest, found: &mut InfoList) -> Result {
        let null = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: By this function's safety requirement.
        let hints = (!asked.hints.is_null()).then(|| unsafe { Info::from_ptr(asked.hints) });
        let (fabric, domain) = hints.map_or(null, Info::objects);
        let mut offers = ptr::null_mut();
        // SAFETY: By this function's safety requirement and the invariant.
        let answer = unsafe {
            (self.registered.getinfo)(
                asked.version,
                asked.node,
                asked.service,
                asked.flags,
                asked.hints,
                &mut offers,
            )
        };
        // Another's failure is not that of those who have something.
        if from_int(answer).is_err() {
            return Ok(());
        }
        while !offers.is_null() {
            // SAFETY: The provider has made them with `fi_dupinfo()`, one behind the other.
            let mut offer = unsafe {
                let rest = ptr::replace(&raw mut (*offers).next, ptr::null_mut());
                Info::from_raw(ptr::replace(&mut offers, rest))
            };
            let (its_fabric, its_domain) = offer.objects();
            let is_of_fabric = fabric.is_null() || fabric == its_fabric;
            let is_of_domain = domain.is_null() || domain == its_domain;
            if !is_of_fabric || !is_of_domain {
                continue;
            }
            if offer.provider_name().is_none() {
                offer.set_provider_name(self.registered.name())?;
            }
            offer.set_provider_version(self.registered.version)?;
            found.push(offer, GFP_KERNEL)?;
        }
        Ok(())
    }
}

/// What `fi_getinfo()` was called with.
pub(super) struct InfoRequest {
    pub(super) version: u32,
    pub(super) node: *const c_char,
    pub(super) service: *const c_char,
    pub(super) flags: u64,
    pub(super) hints: *const fi_info,
}

/// Appends what providers of other modules offer. May sleep.
///
/// # Errors
///
/// -FI_ENOMEM.
///
/// # Safety
///
/// As of `fi_getinfo()`.
pub(super) unsafe fn getinfo(asked: &InfoRequest, found: &mut InfoList) -> Result {
    // SAFETY: By this function's safety requirement.
    let hints = (!asked.hints.is_null()).then(|| unsafe { Info::from_ptr(asked.hints) });
    for provider in Provider::all(hints.and_then(Info::provider_name))? {
        // SAFETY: By this function's safety requirement.
        unsafe { provider.getinfo(asked, found)? };
    }
    Ok(())
}

/// What stands in for the calls of a fabric of another module's.
#[repr(C)]
struct Guard {
    ops: fi_ops,
    own: *mut fi_ops,
    provider: Provider,
}

/// `fi_fabric()`, of a provider of another module. May sleep.
///
/// # Errors
///
/// -FI_ENODATA if there is none of that name, -FI_ENOMEM, what it says; -FI_EINVAL for a fabric without calls.
///
/// # Safety
///
/// As of `fi_fabric()`; `out` is not NULL.
pub(super) unsafe fn open(
    attr: *mut fi_fabric_attr,
    out: *mut *mut fid_fabric,
    context: *mut c_void,
) -> Result {
    // SAFETY: By this function's safety requirement.
    let wanted = unsafe { name((*attr).prov_name) }.ok_or(Errno::ENODATA)?;
    let provider = Provider::all(Some(wanted))?.pop().ok_or(Errno::ENODATA)?;
    let call = provider.registered.fabric;
    let mut guard = KBox::new(
        Guard {
            ops: pin_init::zeroed(),
            own: ptr::null_mut(),
            provider,
        },
        GFP_KERNEL,
    )?;
    let mut fabric = ptr::null_mut();
    // SAFETY: By this function's safety requirement and the invariant.
    unsafe {
        from_int(call(attr, &mut fabric, context))?;
        let own = fabric
            .as_ref()
            .map_or(ptr::null_mut(), |fabric| fabric.fid.ops);
        let ops = own.as_ref().filter(|ops| ops.size >= size_of::<fi_ops>());
        let ops = ops.filter(|ops| ops.close.is_some()).ok_or(Errno::EINVAL)?;
        guard.own = own;
        guard.ops = fi_ops {
            close: Some(close),
            ..*ops
        };
        (*fabric).fid.ops = KBox::into_raw(guard).cast();
        *out = fabric;
    }
    Ok(())
}

/// Closes a fabric, and lets its module go.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: As the C caller promises; these are the calls of fabrics that have a guard.
    unsafe {
        let guard = (*fid).ops.cast::<Guard>();
        let own = (*guard).own;
        (*fid).ops = own;
        let answer = match (*own).close {
            Some(close) => close(fid),
            None => Errno::EINVAL.to_int(),
        };
        match answer {
            0 => drop(KBox::from_raw(guard)),
            _ => (*fid).ops = guard.cast(),
        }
        answer
    }
}

/// `fi_register_provider_by()`.
///
/// # Safety
///
/// As its documentation in `rdma/providers/fi_prov.h` says.
#[no_mangle]
pub(crate) unsafe extern "C" fn fi_register_provider_by(
    provider: *mut fi_provider,
    module: *mut module,
) -> c_int {
    // SAFETY: As the C caller promises.
    into_int(unsafe { register(provider, module) })
}

/// # Safety
///
/// As of `fi_register_provider_by()`.
unsafe fn register(provider: *mut fi_provider, module: *mut module) -> Result {
    in_process()?;
    // SAFETY: By this function's safety requirement.
    let described = unsafe { provider.as_ref() }.ok_or(Errno::EINVAL)?;
    // SAFETY: As above.
    let name = unsafe { name(described.name) }.ok_or(Errno::EINVAL)?;
    let len = name.to_bytes().len();
    if len == 0 || len > MAX_NAME {
        return Err(Errno::EINVAL);
    }
    if described.fi_version > abi::VERSION {
        return Err(Errno::ENOSYS);
    }
    let mut copy = KVec::new();
    copy.extend_from_slice(name.to_bytes_with_nul(), GFP_KERNEL)?;
    // INVARIANT: As the caller promises.
    let registered = Arc::new(
        Registered {
            provider: provider.addr(),
            module,
            name: copy,
            version: described.version,
            getinfo: described.getinfo.ok_or(Errno::EINVAL)?,
            fabric: described.fabric.ok_or(Errno::EINVAL)?,
            users: ChildCount::new(),
            callback: OnceBox::new(),
        },
        GFP_KERNEL,
    )?;
    let functions = Functions::of([
        registered.getinfo as *const (),
        registered.fabric as *const (),
    ]);
    let title = fmt!("provider {}", registered.name());
    let callback = callback::Registered::new(functions, title, registered.clone())?;
    let callback = KBox::new(callback, GFP_KERNEL)?;
    registry::with(|entries| {
        let is_ours = crate::FACES.iter().any(|face| face.provider.name() == name);
        let is_there = entries
            .iter()
            .filter_map(|entry| downcast::<Registered>(entry.clone()))
            .any(|it| it.name() == name || it.provider == provider.addr());
        if is_ours || is_there {
            return Err(Errno::EALREADY);
        }
        entries.push(registered.clone(), GFP_KERNEL)?;
        Ok(())
    })?;
    let _ = registered.callback.fill(callback);
    Ok(())
}

/// `fi_unregister_provider()`.
///
/// # Safety
///
/// As its documentation in `rdma/providers/fi_prov.h` says.
#[no_mangle]
pub(crate) unsafe extern "C" fn fi_unregister_provider(provider: *mut fi_provider) -> c_int {
    // SAFETY: As the C caller promises.
    into_int(unsafe { unregister(provider) })
}

/// # Safety
///
/// As of `fi_unregister_provider()`.
unsafe fn unregister(provider: *mut fi_provider) -> Result {
    in_process()?;
    let taken = registry::with(|entries| {
        let all = entries.iter().enumerate();
        let mut ours = all.filter_map(|(at, entry)| {
            let it = downcast::<Registered>(entry.clone())?;
            (it.provider == provider.addr()).then_some((at, it))
        });
        let (at, registered) = ours.next().ok_or(Errno::EINVAL)?;
        drop(ours);
        registered.users.try_close()?;
        if let Some(callback) = registered.callback.get() {
            callback.withdraw();
        }
        entries.remove(at).map_err(|_| Errno::EINVAL)
    })?;
    drop(taken);
    // SAFETY: It was registered, and is as its owner promises.
    if let Some(cleanup) = unsafe { (*provider).cleanup } {
        // SAFETY: As above; nothing of it is open.
        unsafe { cleanup() };
    }
    Ok(())
}
