// SPDX-License-Identifier: GPL-2.0

//! The module's registration with the RDMA core, and the list of devices that comes of it.
//!
//! `DEVICES` guards the list; it is taken for the list alone, never while anything else is called.

use super::device::{
    Device,
    RemovalReport, //
};
use crate::bindings;
use core::marker::PhantomData;
use kernel::{
    error::to_result,
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        global_lock,
        Arc, //
    },
    types::Opaque, //
};

global_lock! {
    /// Every device that kernel code may use, in the order of their index.
    // SAFETY: Initialised by the first `Registration`, before `LIST_STATE` says that it may be taken.
    unsafe(uninit) static DEVICES: Mutex<KVec<Arc<Device>>> = KVec::new();
}

const UNINITIALIZED: u32 = 0;
const INITIALIZING: u32 = 1;
const INITIALIZED: u32 = 2;

/// Whether `DEVICES` may be locked; never goes back.
static LIST_STATE: Atomic<u32> = Atomic::new(UNINITIALIZED);

/// Keeps the list of devices up to date as long as it lives.
///
/// Each module has one. Dropping it waits until no [`Use`](super::device::Use) of any device is left;
/// `R` logs which owners are waited for.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<R: RemovalReport> {
    #[pin]
    client: Opaque<bindings::ib_client>,
    _report: PhantomData<fn() -> R>,
}

// SAFETY: Registering and unregistering have their own locks, in whatever thread they are done.
unsafe impl<R: RemovalReport> Send for Registration<R> {}

// SAFETY: A shared reference gives access to nothing.
unsafe impl<R: RemovalReport> Sync for Registration<R> {}

impl<R: RemovalReport> Registration<R> {
    /// Registers with the RDMA core, which reports the devices that are there before this returns.
    ///
    /// # Errors
    ///
    /// `EBUSY` for a second registration in the life of the module.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            client <- Opaque::try_ffi_init(|slot: *mut bindings::ib_client| {
                init_list()?;
                let client = bindings::ib_client {
                    name: super::OWNER.as_char_ptr(),
                    add: Some(add),
                    remove: Some(remove::<R>),
                    rename: Some(rename),
                    ..pin_init::zeroed()
                };
                // SAFETY: `slot` is valid for a write, and pinned from now on.
                unsafe { slot.write(client) };
                // SAFETY: `slot` stays where it is until `PinnedDrop` unregisters it; on an error
                // the core has forgotten it.
                to_result(unsafe { bindings::ib_register_client(slot) })
                    .inspect_err(|_| drop(take_devices()))
            }),
            _report: PhantomData,
        })
    }
}

#[pinned_drop]
impl<R: RemovalReport> PinnedDrop for Registration<R> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `new` registered this client. When this returns none of its callbacks runs.
        unsafe { bindings::ib_unregister_client(self.client.get()) };
        drop(take_devices());
    }
}

/// Makes `DEVICES` usable.
fn init_list() -> Result {
    if LIST_STATE
        .cmpxchg(UNINITIALIZED, INITIALIZING, Relaxed)
        .is_err()
    {
        return Err(EBUSY);
    }
    // SAFETY: `LIST_STATE` left `UNINITIALIZED`, which happens once.
    unsafe { DEVICES.init() };
    LIST_STATE.store(INITIALIZED, Release);
    Ok(())
}

/// Runs `f` on the list; on an empty one before the first registration.
fn with_devices<R>(f: impl FnOnce(&mut KVec<Arc<Device>>) -> R) -> R {
    if LIST_STATE.load(Acquire) != INITIALIZED {
        return f(&mut KVec::new());
    }
    f(&mut DEVICES.lock())
}

/// Empties the list: a static is never dropped, and even an empty list has memory.
fn take_devices() -> KVec<Arc<Device>> {
    with_devices(core::mem::take)
}

/// The devices of this moment, in the order of their index.
pub(crate) fn list() -> Result<KVec<Arc<Device>>> {
    with_devices(|devices| {
        let mut copy = KVec::with_capacity(devices.len(), GFP_KERNEL)?;
        for device in devices.iter() {
            copy.push(device.clone(), GFP_KERNEL)?;
        }
        Ok(copy)
    })
}

/// The device that the core knows by this pointer; `None` when it is NULL, unknown or going away.
pub(crate) fn find_device(raw: *const bindings::ib_device) -> Option<Arc<Device>> {
    with_devices(|devices| devices.iter().find(|device| device.wraps(raw)).cloned())
}

/// # Safety
///
/// Called by the RDMA core with a registered device.
unsafe extern "C" fn add(raw: *mut bindings::ib_device) -> c_int {
    kernel::error::from_result(|| {
        // SAFETY: `raw` is registered, and stays so until `remove` has returned.
        let device = unsafe { Device::new(raw) }?;
        with_devices(|devices| {
            let index = devices
                .iter()
                .position(|other| other.index() > device.index())
                .unwrap_or(devices.len());
            devices.reserve(1, GFP_KERNEL)?;
            devices.insert_within_capacity(index, device)?;
            Ok(0)
        })
    })
}

/// Returns only when nothing of ours uses the device any more.
///
/// # Safety
///
/// Called by the RDMA core with a device for which [`add`] succeeded, once.
unsafe extern "C" fn remove<R: RemovalReport>(raw: *mut bindings::ib_device, _data: *mut c_void) {
    let device = with_devices(|devices| {
        let index = devices.iter().position(|device| device.wraps(raw))?;
        devices.remove(index).ok()
    });
    if let Some(device) = device {
        device.run_down::<R>();
    }
}

/// # Safety
///
/// Called by the RDMA core with a device for which [`add`] succeeded, before [`remove`].
unsafe extern "C" fn rename(raw: *mut bindings::ib_device, _data: *mut c_void) {
    if let Some(device) = find_device(raw) {
        device.rename();
    }
}
