// SPDX-License-Identifier: GPL-2.0

//! RDMA devices: attributes, references and removal.
//!
//! A [`Device`] may outlive the hardware. A [`DeviceRef`] gives access to the hardware, and delays
//! the removal by the RDMA core until the last one is dropped. `Device::users` guards the count of
//! references, `Device::notifiers` the registered notifiers.

pub(crate) use super::ib_client::{
    list,
    Registration, //
};

use super::{
    completion::TimedCompletion,
    device_attr::{
        CStrBuf,
        DeviceAttr,
        Protocol, //
    },
    net::Net,
    nic::NicAttr,
    prelude::*, //
};
use crate::compat::{
    new_spinlock_irq,
    SpinLockIrq, //
};
use core::ops::Deref;
use kernel::{
    sync::{
        new_condvar,
        new_mutex,
        CondVar,
        Mutex, //
    },
    task::Task,
    time::msecs_to_jiffies, //
};

/// Size in bytes of a device's name, including the NUL.
const NAME_SIZE: usize = bindings::IB_DEVICE_NAME_MAX as usize;

/// Delay before the first report about the removal of a device that is still in use.
const REPORT_DELAY_MS: u32 = 20_000;

/// Interval of further reports.
const REPORT_INTERVAL_MS: u32 = 60_000;

/// Logs the owners that delay the removal of a device.
pub(crate) trait RemovalReport: 'static {
    /// Logs the owners of objects on the device with this name, and returns false if there are
    /// none. May sleep.
    fn log_owners(device: &CStr) -> bool;
}

/// A device that kernel code may use until it is removed.
///
/// # Invariants
///
/// - `raw` is registered with the RDMA core while `users.count` is not 0 or `users.gone` is not
///   set.
/// - `users.count` is the number of [`DeviceRef`]s; once `users.gone` is set, [`Self::try_get`]
///   adds none.
#[pin_data]
pub(crate) struct Device {
    raw: NonNull<bindings::ib_device>,
    /// The kernel's index of the device, unique among present devices.
    pub(super) index: u32,
    /// Node type, `RDMA_NODE_*`, by which rdma_cm distinguishes iWARP from other devices.
    pub(crate) node_type: u8,
    /// Set if the driver uses kernel addresses in place of DMA addresses.
    pub(crate) uses_virt_dma: bool,
    /// Set if the driver is siw.
    pub(crate) is_siw: bool,
    /// True if the driver allocates memory when it maps a region (`hns_roce_map_mr_sg()`), and may sleep for that.
    pub(crate) allocates_to_map: bool,
    /// Set if the driver is rxe.
    pub(crate) is_rxe: bool,
    pub(super) first_port: u32,
    /// Transport protocol of the first port.
    pub(crate) protocol: Protocol,
    pub(crate) attributes: DeviceAttr,
    #[pin]
    name: SpinLockIrq<CStrBuf<NAME_SIZE>>,
    #[pin]
    users: SpinLock<DeviceUsers>,
    /// Completed when the last reference is dropped after `users.gone` was set.
    #[pin]
    idle: TimedCompletion,
    #[pin]
    notifiers: Mutex<RemovalNotifiers>,
    #[pin]
    call_done: CondVar,
}

struct DeviceUsers {
    count: usize,
    gone: bool,
}

// SAFETY: The core's device has its own locks, and the locks of this struct guard the other fields.
unsafe impl Send for Device {}

// SAFETY: As above.
unsafe impl Sync for Device {}

impl Device {
    /// Creates the object for the device at `raw`.
    ///
    /// # Safety
    ///
    /// `raw` is registered with the RDMA core, and remains so until [`Device::run_down`] returns.
    pub(super) unsafe fn new(raw: *mut bindings::ib_device) -> Result<Arc<Self>> {
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        let ptr = raw.as_ptr();
        // SAFETY: These fields of a registered device do not change.
        let (index, node_type, driver_id) =
            unsafe { ((*ptr).index, (*ptr).node_type, (*ptr).ops.driver_id) };
        // SAFETY: `ptr` is a registered device.
        let port = unsafe { bindings::rdma_start_port(ptr) };

        Arc::pin_init(
            // INVARIANT: `raw` is registered, `count` is 0, and `gone` is not set.
            pin_init!(Self {
                raw,
                index,
                node_type,
                // SAFETY: `ptr` is a registered device.
                uses_virt_dma: unsafe { bindings::ib_uses_virt_dma(ptr) },
                allocates_to_map: driver_id == bindings::rdma_driver_id_RDMA_DRIVER_HNS,
                is_siw: driver_id == bindings::rdma_driver_id_RDMA_DRIVER_SIW,
                is_rxe: driver_id == bindings::rdma_driver_id_RDMA_DRIVER_RXE,
                first_port: port,
                // SAFETY: As above, and `port` is one of its ports.
                protocol: unsafe { Protocol::of_port(ptr, port) },
                // SAFETY: As above.
                attributes: unsafe { DeviceAttr::query(ptr) },
                // SAFETY: As above.
                name <- new_spinlock_irq!(unsafe { read_name(ptr) }, "kofi::rdma::Device::name"),
                users <- new_spinlock!(
                    DeviceUsers { count: 0, gone: false },
                    "kofi::rdma::Device::users"
                ),
                idle <- TimedCompletion::new(),
                notifiers <- new_mutex!(
                    RemovalNotifiers::default(),
                    "kofi::rdma::Device::notifiers"
                ),
                call_done <- new_condvar!("kofi::rdma::Device::call_done"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns whether this object is for the core's device at `raw`.
    pub(crate) fn wraps(&self, raw: *const bindings::ib_device) -> bool {
        core::ptr::eq(self.raw.as_ptr(), raw)
    }

    /// Returns the current name, which an administrator may change. Any context.
    pub(crate) fn name(&self) -> CStrBuf<NAME_SIZE> {
        *self.name.lock()
    }

    /// Takes a reference, which delays the removal of the device until it is dropped.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device is being removed.
    pub(crate) fn try_get(self: &Arc<Self>) -> Result<DeviceRef> {
        let mut users = self.users.lock();
        if users.gone {
            return Err(ENODEV);
        }
        users.count += 1;
        drop(users);
        // INVARIANT: `gone` was not set under the lock, and the reference is counted.
        Ok(DeviceRef(self.clone()))
    }

    /// Returns whether the removal of the device has begun.
    pub(crate) fn is_gone(&self) -> bool {
        self.users.lock().gone
    }

    /// Registers `notifier` for the removal of the device, until the result is dropped.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device is being removed, `ENOMEM`.
    pub(crate) fn register_notifier(
        self: &Arc<Self>,
        notifier: Arc<dyn RemovalNotifier>,
    ) -> Result<NotifierRegistration> {
        let mut notifiers = self.notifiers.lock();
        // `run_down` sets `gone` before it first takes this lock, so a notifier that is added here
        // is called.
        if self.is_gone() {
            return Err(ENODEV);
        }
        let id = notifiers.next_id;
        notifiers.pending.push((id, notifier), GFP_KERNEL)?;
        notifiers.next_id += 1;
        drop(notifiers);
        Ok(NotifierRegistration {
            device: self.clone(),
            id,
        })
    }

    /// Reads the new name of the device from the core.
    pub(super) fn rename(&self) {
        // SAFETY: The core calls this for a device that it has not removed yet, and holds the lock
        // that guards names.
        let name = unsafe { read_name(self.raw.as_ptr()) };
        *self.name.lock() = name;
    }

    /// Prevents new references, calls the notifiers, and waits until the last reference is dropped.
    /// Logs the owners that delay it, periodically.
    pub(super) fn run_down<R: RemovalReport>(&self) {
        let busy = {
            let mut users = self.users.lock();
            users.gone = true;
            users.count != 0
        };
        self.call_notifiers();
        if !busy {
            return;
        }
        let mut wait = REPORT_DELAY_MS;
        while self.idle.wait_timeout(msecs_to_jiffies(wait)) == 0 {
            wait = REPORT_INTERVAL_MS;
            let name = self.name();
            if !R::log_owners(name.as_c_str()) {
                let count = self.users.lock().count;
                pr_warn!(
                    "{name}: {count} references of closing objects still delay the removal of the device\n"
                );
            }
        }
    }

    fn call_notifiers(&self) {
        loop {
            let mut notifiers = self.notifiers.lock();
            let Some((id, notifier)) = notifiers.pending.pop() else {
                return;
            };
            notifiers.running = Some((id, Task::current_raw() as usize));
            drop(notifiers);

            notifier.notify_removal();
            drop(notifier);

            self.notifiers.lock().running = None;
            self.call_done.notify_all();
        }
    }
}

/// # Safety
///
/// `raw` is a registered device whose name does not change during the call.
unsafe fn read_name(raw: *mut bindings::ib_device) -> CStrBuf<NAME_SIZE> {
    // SAFETY: By this function's contract.
    CStrBuf::new(unsafe { &(*raw).name })
}

/// A reference that keeps a device registered.
///
/// # Invariants
///
/// The reference is counted in the device's `users`.
pub(crate) struct DeviceRef(Arc<Device>);

impl DeviceRef {
    /// Returns the core's device, valid as long as `self`.
    #[inline]
    pub(super) fn raw(&self) -> *mut bindings::ib_device {
        self.0.raw.as_ptr()
    }

    /// Returns the device object, which may outlive this reference.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.0
    }

    /// Returns the addresses of the `struct device` of the RDMA device, and of that which accesses
    /// memory; 0 if the driver uses kernel addresses. Any context.
    pub(crate) fn struct_device_addrs(&self) -> (usize, usize) {
        // SAFETY: By the invariant the device is registered, and these do not change.
        let (device, dma_device) = unsafe {
            let raw = self.raw();
            (&raw const (*raw).__bindgen_anon_1.dev, (*raw).dma_device)
        };
        (device.expose_provenance(), dma_device.expose_provenance())
    }

    /// Queries the limit of the bytes of a message on the first port. May sleep.
    ///
    /// # Errors
    ///
    /// The driver's errors.
    pub(crate) fn max_msg_size(&self) -> Result<u32> {
        let mut attr: bindings::ib_port_attr = pin_init::zeroed();
        // SAFETY: By the invariant the device is registered; `attr` is only written.
        to_result(unsafe { bindings::ib_query_port(self.raw(), self.first_port, &mut attr) })?;
        Ok(attr.max_msg_sz)
    }

    /// Queries the identification of the device and the state of its first port. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the driver's errors.
    // Not inline: it needs more stack than its callers have left.
    #[inline(never)]
    pub(crate) fn query_nic(&self) -> Result<KBox<NicAttr>> {
        // SAFETY: By the invariant the device is registered, and the port is one of its ports.
        let nic = unsafe { NicAttr::query(self.raw(), self.first_port) }?;
        Ok(KBox::new(nic, GFP_KERNEL)?)
    }

    /// Returns whether the device may be used in the network namespace. Any context.
    fn is_accessible_in(&self, net: &Net) -> bool {
        // SAFETY: By the invariant the device is registered; `net` holds the namespace.
        unsafe { bindings::rdma_dev_access_netns(self.raw(), net.as_ptr()) }
    }

    /// Returns whether connections can be established in the network namespace. Any context.
    ///
    /// siw opens its sockets in the namespace of the calling task (`siw_connect()`,
    /// `siw_create_listen()`), not in that of the rdma_cm id, and rdma_cm calls it from a kernel
    /// thread.
    pub(crate) fn can_connect_in(&self, net: &Net) -> bool {
        self.is_accessible_in(net) && (!self.is_siw || net.is_init())
    }

    /// Returns whether the current task can listen in the namespace; with siw, only in its own.
    pub(crate) fn can_listen_in(&self, net: &Net) -> bool {
        self.can_connect_in(net) && (!self.is_siw || net.is_current())
    }
}

// Cloning succeeds even while the device is being removed, because `self` delays the removal.
impl Clone for DeviceRef {
    fn clone(&self) -> Self {
        self.0.users.lock().count += 1;
        // INVARIANT: The reference is counted, and `self` keeps the device registered.
        Self(self.0.clone())
    }
}

impl Deref for DeviceRef {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.0
    }
}

impl Drop for DeviceRef {
    fn drop(&mut self) {
        let mut users = self.0.users.lock();
        users.count -= 1;
        if users.gone && users.count == 0 {
            self.0.idle.complete();
        }
    }
}

/// Handles the removal of a device.
pub(crate) trait RemovalNotifier: Send + Sync {
    /// Reports that the device is being removed. The callee must start to release it, because the
    /// removal waits until every [`DeviceRef`] is dropped.
    ///
    /// Called once, in process context, without locks of this module; no other notifier of the
    /// device runs concurrently.
    fn notify_removal(&self);
}

#[derive(Default)]
struct RemovalNotifiers {
    next_id: u64,
    pending: KVec<(u64, Arc<dyn RemovalNotifier>)>,
    /// Id of the notifier that is being called, and the task that calls it.
    running: Option<(u64, usize)>,
}

/// Registration of a [`RemovalNotifier`].
///
/// Dropping it waits for a running call, unless the drop happens in that call. May sleep.
pub(crate) struct NotifierRegistration {
    device: Arc<Device>,
    id: u64,
}

impl Drop for NotifierRegistration {
    fn drop(&mut self) {
        let mut notifiers = self.device.notifiers.lock();
        let index = notifiers.pending.iter().position(|(id, _)| *id == self.id);
        if let Some(index) = index {
            let notifier = notifiers.pending.remove(index);
            drop(notifiers);
            // The lock is not held here, because this may be the last reference on the notifier.
            drop(notifier);
            return;
        }
        let me = Task::current_raw() as usize;
        while notifiers
            .running
            .is_some_and(|(id, task)| id == self.id && task != me)
        {
            self.device.call_done.wait(&mut notifiers);
        }
    }
}
