// SPDX-License-Identifier: GPL-2.0

//! Registration with the RDMA core, and the list of devices that the core reports.
//!
//! `DEVICES` guards the list; no other lock is taken and no other code is called under it.

use super::{
    device::{
        Device,
        RemovalReport, //
    },
    prelude::*, //
};
use core::marker::PhantomData;
use kernel::{
    ffi::{
        c_int,
        c_void, //
    },
    sync::{
        atomic::{
            Acquire,
            Release, //
        },
        global_lock, //
    },
};

global_lock! {
    /// Devices that kernel code may use, sorted by index.
    // SAFETY: The first `Registration` initialises it, before `LIST_STATE` permits locking.
    unsafe(uninit) static DEVICES: Mutex<KVec<Arc<Device>>> = KVec::new();
}

const UNINITIALIZED: u32 = 0;
const INITIALIZING: u32 = 1;
const INITIALIZED: u32 = 2;

/// State of `DEVICES`: it may be locked when `INITIALIZED`, and never returns to an earlier state.
static LIST_STATE: Atomic<u32> = Atomic::new(UNINITIALIZED);

/// Registration as a client of the RDMA core, which keeps the list of devices up to date.
///
/// A module has one. Dropping it waits until no [`DeviceRef`](super::device::DeviceRef) of any
/// device is left; `R` logs the owners that delay it.
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<R: RemovalReport> {
    #[pin]
    client: Opaque<bindings::ib_client>,
    _report: PhantomData<fn() -> R>,
}

// SAFETY: The RDMA core serialises registering and unregistering, in any thread.
unsafe impl<R: RemovalReport> Send for Registration<R> {}

// SAFETY: A shared reference gives access to nothing.
unsafe impl<R: RemovalReport> Sync for Registration<R> {}

impl<R: RemovalReport> Registration<R> {
    /// Registers with the RDMA core, which reports all present devices before this returns.
    ///
    /// # Errors
    ///
    /// `EBUSY` for a second registration in the lifetime of the module.
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
                // SAFETY: `slot` stays in place until `PinnedDrop` unregisters it; after an error
                // the core keeps no pointer to it.
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
        // SAFETY: `new` registered this client. When this returns, none of its callbacks runs.
        unsafe { bindings::ib_unregister_client(self.client.get()) };
        drop(take_devices());
    }
}

/// Initialises `DEVICES`.
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

/// Runs `f` on the list, or on an empty one before the first registration.
fn with_devices<R>(f: impl FnOnce(&mut KVec<Arc<Device>>) -> R) -> R {
    if LIST_STATE.load(Acquire) != INITIALIZED {
        return f(&mut KVec::new());
    }
    f(&mut DEVICES.lock())
}

/// Removes all devices and the memory of the list, because a static is never dropped.
fn take_devices() -> KVec<Arc<Device>> {
    with_devices(core::mem::take)
}

/// Returns the current devices, sorted by index.
pub(crate) fn list() -> Result<KVec<Arc<Device>>> {
    with_devices(|devices| {
        let mut copy = KVec::new();
        copy.extend_from_slice(devices, GFP_KERNEL)?;
        Ok(copy)
    })
}

/// Returns the device of the core's pointer; `None` when it is NULL, unknown or being removed.
pub(super) fn find_device(raw: *const bindings::ib_device) -> Option<Arc<Device>> {
    with_devices(|devices| devices.iter().find(|device| device.wraps(raw)).cloned())
}

/// # Safety
///
/// Called by the RDMA core with a registered device.
unsafe extern "C" fn add(raw: *mut bindings::ib_device) -> c_int {
    kernel::error::from_result(|| {
        // SAFETY: `raw` is registered, and remains so until `remove` returns.
        let device = unsafe { Device::new(raw) }?;
        with_devices(|devices| {
            let index = devices
                .iter()
                .position(|other| other.index > device.index)
                .unwrap_or(devices.len());
            devices.reserve(1, GFP_KERNEL)?;
            devices.insert_within_capacity(index, device)?;
            Ok(0)
        })
    })
}

/// Removes a device from the list, and returns when no user of it is left.
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
