// SPDX-License-Identifier: GPL-2.0

//! RDMA devices: what they can do, who uses them, and how they go away.
//!
//! A [`Device`] is a description that may outlive the hardware. The hardware itself is reached
//! through a [`DeviceRef`], and the RDMA core does not get the device back before the last of them is
//! dropped. `Device::users` guards their number, `Device::watchers` who is told.

#[allow(unused_imports)]
pub(crate) use super::ib_client::{
    find_device,
    list,
    Registration, //
};

use super::{
    device_attr::{
        CStrBuf,
        DeviceAttr,
        PortAttr,
        Protocol,
        IFNAME_SIZE, //
    },
    net::Net, //
};
use crate::{
    bindings,
    compat::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
};
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        new_condvar,
        new_mutex,
        new_spinlock,
        Arc,
        CondVar,
        Mutex,
        SpinLock, //
    },
    task::Task,
    time::msecs_to_jiffies,
    types::Opaque, //
};

/// A device's name has at most this many bytes, the terminating NUL among them.
pub(crate) const NAME_SIZE: usize = bindings::IB_DEVICE_NAME_MAX as usize;

/// Delay before the first report about the removal of a device that is still in use.
const REPORT_DELAY_MS: u32 = 20_000;

/// Interval of further reports.
const REPORT_INTERVAL_MS: u32 = 60_000;

/// Logs the owners that delay the removal of a device.
pub(crate) trait RemovalReport: 'static {
    /// Logs the owners of objects on the device of that name; false if there are none. May sleep.
    fn log_owners(device: &CStr) -> bool;
}

/// A device that kernel code may use, or might have used before it went away.
///
/// # Invariants
///
/// - `raw` is registered with the RDMA core as long as `users.count` is not 0, or `users.gone` is
///   not set.
/// - `users.count` is the number of [`DeviceRef`]s; none is added once `users.gone` is set.
#[pin_data]
pub(crate) struct Device {
    raw: NonNull<bindings::ib_device>,
    index: u32,
    node_type: u8,
    node_guid: u64,
    virt_dma: bool,
    is_siw: bool,
    is_rxe: bool,
    ports: (u32, u32),
    protocol: Protocol,
    attributes: DeviceAttr,
    #[pin]
    name: SpinLockIrq<CStrBuf<NAME_SIZE>>,
    #[pin]
    users: SpinLock<DeviceUsers>,
    #[pin]
    idle: Opaque<kernel::bindings::completion>,
    #[pin]
    notifiers: Mutex<RemovalNotifiers>,
    #[pin]
    call_done: CondVar,
}

struct DeviceUsers {
    count: usize,
    gone: bool,
}

// SAFETY: The core's device has its own locks, and ours guard the rest.
unsafe impl Send for Device {}

// SAFETY: As above.
unsafe impl Sync for Device {}

impl Device {
    /// Describes the device at `raw`.
    ///
    /// # Safety
    ///
    /// `raw` is registered with the RDMA core, and stays so until [`Device::retire`] has returned.
    pub(super) unsafe fn new(raw: *mut bindings::ib_device) -> Result<Arc<Self>> {
        let raw = NonNull::new(raw).ok_or(EINVAL)?;
        let ptr = raw.as_ptr();
        // SAFETY: A registered device does not change any of these.
        let (index, node_type, guid) =
            unsafe { ((*ptr).index, (*ptr).node_type, (*ptr).node_guid) };
        // SAFETY: `ptr` is a registered device.
        let first = unsafe { bindings::rdma_start_port(ptr) };
        // SAFETY: As above.
        let last = unsafe { bindings::rdma_end_port(ptr) };

        Arc::pin_init(
            // INVARIANT: `raw` is registered, nobody uses it yet, and it is not gone.
            pin_init!(Self {
                raw,
                index,
                node_type,
                node_guid: u64::from_be(guid),
                // SAFETY: `ptr` is a registered device.
                virt_dma: unsafe { bindings::ib_uses_virt_dma(ptr) },
                // SAFETY: As above; what the driver does is there before it is registered.
                is_siw: unsafe { (*ptr).ops.driver_id }
                    == bindings::rdma_driver_id_RDMA_DRIVER_SIW,
                // SAFETY: As above.
                is_rxe: unsafe { (*ptr).ops.driver_id }
                    == bindings::rdma_driver_id_RDMA_DRIVER_RXE,
                ports: (first, last),
                // SAFETY: As above, and `first` is one of its ports.
                protocol: unsafe { Protocol::of_port(ptr, first) },
                // SAFETY: As above.
                attributes: unsafe { DeviceAttr::query(ptr) },
                // SAFETY: As above.
                name <- new_spinlock_irq!(unsafe { read_name(ptr) }),
                users <- new_spinlock!(DeviceUsers { count: 0, gone: false }),
                idle <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for a completion, which stays where it is.
                    unsafe { kernel::bindings::init_completion(slot) }
                }),
                notifiers <- new_mutex!(RemovalNotifiers::default()),
                call_done <- new_condvar!(),
            }),
            GFP_KERNEL,
        )
    }

    /// Whether this is the core's device at `raw`.
    pub(crate) fn wraps(&self, raw: *const bindings::ib_device) -> bool {
        core::ptr::eq(self.raw.as_ptr(), raw)
    }

    /// The name of this moment: an administrator may change it. Any context.
    pub(crate) fn name(&self) -> CStrBuf<NAME_SIZE> {
        *self.name.lock()
    }

    /// The kernel's number of this device, which no other has at the same time.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// What the device can do.
    pub(crate) fn attributes(&self) -> &DeviceAttr {
        &self.attributes
    }

    /// What the device speaks on the wire.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether the driver is siw, whose peers need [`super::nudge`].
    pub(crate) fn is_siw(&self) -> bool {
        self.is_siw
    }

    /// Whether the driver is rxe.
    pub(crate) fn is_rxe(&self) -> bool {
        self.is_rxe
    }

    /// `RDMA_NODE_*`: what rdma_cm tells iWARP from the others by.
    pub(crate) fn node_type(&self) -> u8 {
        self.node_type
    }

    /// The globally unique identifier of the adapter, in host byte order.
    pub(crate) fn node_guid(&self) -> u64 {
        self.node_guid
    }

    /// Whether the driver takes kernel addresses where others take DMA addresses.
    pub(crate) fn uses_virt_dma(&self) -> bool {
        self.virt_dma
    }

    /// The numbers of the device's ports.
    pub(crate) fn ports(&self) -> core::ops::RangeInclusive<u32> {
        self.ports.0..=self.ports.1
    }

    /// Starts to use the device, which then does not go away until the result is dropped.
    ///
    /// # Errors
    ///
    /// `ENODEV` when it is going away already.
    pub(crate) fn try_get(self: &Arc<Self>) -> Result<DeviceRef> {
        let mut users = self.users.lock();
        if users.gone {
            return Err(ENODEV);
        }
        users.count += 1;
        drop(users);
        // INVARIANT: The device is not gone, and this use has been counted.
        Ok(DeviceRef(self.clone()))
    }

    /// Whether the device is going away, or has gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.users.lock().gone
    }

    /// Has `watcher` called when the device goes away, until the result is dropped.
    ///
    /// # Errors
    ///
    /// `ENODEV` when it is going away already, `ENOMEM`.
    pub(crate) fn register_notifier(
        self: &Arc<Self>,
        watcher: Arc<dyn RemovalNotifier>,
    ) -> Result<NotifierRegistration> {
        let mut notifiers = self.notifiers.lock();
        // `retire` sets `gone` before it takes this lock for the first time: whoever is added
        // here is called.
        if self.is_gone() {
            return Err(ENODEV);
        }
        let id = notifiers.next_id;
        notifiers.pending.push((id, watcher), GFP_KERNEL)?;
        notifiers.next_id += 1;
        drop(notifiers);
        Ok(NotifierRegistration {
            device: self.clone(),
            id,
        })
    }

    /// Takes the new name from the core.
    pub(super) fn rename(&self) {
        // SAFETY: The core calls us with a device that it has not removed yet, and holds the lock
        // under which names change.
        let name = unsafe { read_name(self.raw.as_ptr()) };
        *self.name.lock() = name;
    }

    /// Refuses new users, notifies the watchers, and waits until the last user has left. Reports from
    /// time to time which owners are waited for.
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
        // SAFETY: `idle` was initialised with the device. The last `DeviceRef` completes it.
        while unsafe {
            kernel::bindings::wait_for_completion_timeout(self.idle.get(), msecs_to_jiffies(wait))
        } == 0
        {
            wait = REPORT_INTERVAL_MS;
            let name = self.name();
            if !R::log_owners(name.as_c_str()) {
                let count = self.users.lock().count;
                pr_warn!(
                    "{name}: {count} uses of the device are left, of objects that are closing\n"
                );
            }
        }
    }

    fn call_notifiers(&self) {
        loop {
            let mut notifiers = self.notifiers.lock();
            let Some((id, watcher)) = notifiers.pending.pop() else {
                return;
            };
            notifiers.running = Some((id, Task::current_raw() as usize));
            drop(notifiers);

            watcher.notify_removal();
            drop(watcher);

            self.notifiers.lock().running = None;
            self.call_done.notify_all();
        }
    }
}

/// # Safety
///
/// `raw` is a registered device whose name does not change meanwhile.
unsafe fn read_name(raw: *mut bindings::ib_device) -> CStrBuf<NAME_SIZE> {
    // SAFETY: By this function's contract.
    CStrBuf::new(unsafe { &(*raw).name })
}

/// The right to use a device: as long as there is one, the device stays.
///
/// # Invariants
///
/// It is counted in the device's `users`.
pub(crate) struct DeviceRef(Arc<Device>);

impl DeviceRef {
    /// The core's device, valid as long as `self`.
    #[inline]
    pub(super) fn raw(&self) -> *mut bindings::ib_device {
        self.0.raw.as_ptr()
    }

    /// The description, which may outlive this use.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.0
    }

    /// The state of a port at this moment. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that the device does not have, else the driver's.
    pub(crate) fn port(&self, port: u32) -> Result<PortAttr> {
        let mut attr: bindings::ib_port_attr = pin_init::zeroed();
        // SAFETY: By the invariant the device is registered; `attr` is written only.
        to_result(unsafe { bindings::ib_query_port(self.raw(), port, &mut attr) })?;
        Ok(PortAttr::new(&attr))
    }

    /// Whether the device may be used from within a network namespace. Any context.
    pub(crate) fn is_accessible_in(&self, net: &Net) -> bool {
        // SAFETY: By the invariant the device is registered; the namespace is held by `net`.
        unsafe { bindings::rdma_dev_access_netns(self.raw(), net.as_ptr()) }
    }

    /// Whether connections can be made there from within a network namespace. Any context.
    ///
    /// siw opens its sockets in the namespace of the task that asks it (`siw_connect()`,
    /// `siw_create_listen()`), whatever rdma_cm's id says, and rdma_cm asks from a kernel thread.
    pub(crate) fn can_connect_in(&self, net: &Net) -> bool {
        self.is_accessible_in(net) && (!self.is_socket_based() || net.is_init())
    }

    /// Whether this task can listen on it in a namespace: with siw, only in its own.
    pub(crate) fn can_listen_in(&self, net: &Net) -> bool {
        self.can_connect_in(net) && (!self.is_socket_based() || net.is_current())
    }

    fn is_socket_based(&self) -> bool {
        // SAFETY: By the invariant the device is registered, and then its driver does not change.
        let driver = unsafe { (*self.raw()).ops.driver_id };
        driver == bindings::rdma_driver_id_RDMA_DRIVER_SIW
    }

    /// The name of the network interface that a port sits on; empty when there is none. May sleep.
    pub(crate) fn netdev_name(&self, port: u32) -> CStrBuf<IFNAME_SIZE> {
        let mut name = [0; IFNAME_SIZE];
        // SAFETY: By the invariant the device is registered; `name` has room for any interface's.
        unsafe { bindings::kofi_port_netdev_name(self.raw(), port, name.as_mut_ptr()) };
        CStrBuf::new(&name)
    }
}

// Another use, even of a device that is going away: `self` keeps it until then.
impl Clone for DeviceRef {
    fn clone(&self) -> Self {
        self.0.users.lock().count += 1;
        // INVARIANT: This use has been counted, and the device is held by `self` meanwhile.
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
            // SAFETY: `idle` was initialised with the device, which our `Arc` keeps alive however
            // soon the waiter goes on.
            unsafe { kernel::bindings::complete_all(self.0.idle.get()) };
        }
    }
}

/// Who wants to know that a device is going away.
pub(crate) trait RemovalNotifier: Send + Sync {
    /// The device is going away: give it up, and soon, for the removal waits until every [`DeviceRef`]
    /// is dropped.
    ///
    /// Called once, in process context, with no lock of ours held; other watchers are not called
    /// meanwhile.
    fn notify_removal(&self);
}

#[derive(Default)]
struct RemovalNotifiers {
    next_id: u64,
    pending: KVec<(u64, Arc<dyn RemovalNotifier>)>,
    /// Who is being called, and by which task.
    running: Option<(u64, usize)>,
}

/// Keeps a [`RemovalNotifier`] registered.
///
/// Dropping it waits for a running call, unless it is that call which drops it. May sleep.
pub(crate) struct NotifierRegistration {
    device: Arc<Device>,
    id: u64,
}

impl Drop for NotifierRegistration {
    fn drop(&mut self) {
        let mut notifiers = self.device.notifiers.lock();
        let index = notifiers.pending.iter().position(|(id, _)| *id == self.id);
        if let Some(place) = index {
            let notifier = notifiers.pending.remove(place);
            drop(notifiers);
            // Not under the lock: it may be the last reference on whoever watches.
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
