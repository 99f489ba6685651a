// SPDX-License-Identifier: GPL-2.0

//! Connections between two queue pairs of one iWARP device.
//!
//! An iWARP queue pair leaves its first state only with a connection, which iw_cm establishes on a
//! device of the caller's choice. `ConnContext::status` guards the progress of both ends.

use super::{
    cm::raw_bytes,
    completion::TimedCompletion,
    device::DeviceRef,
    net::SockAddr,
    prelude::*,
    qp::Qp, //
};
use crate::compat::{
    EADDRINUSE,
    EADDRNOTAVAIL,
    ECONNREFUSED, //
};
use core::net::Ipv4Addr;
use kernel::time::msecs_to_jiffies;

/// Timeout of a connection; siw's own is ten seconds.
const CONNECT_TIMEOUT_MS: u32 = 15_000;

/// First of the ports to listen on: no allocator exists for the ports of iw_cm, so a random one is
/// taken from those that rdma_cm assigns to no client, unless the host's ip_local_port_range
/// includes them.
const FIRST_PORT: u16 = 0xf000;

/// Limit of the ports that are tried before `EADDRINUSE`.
const PORT_TRIES: usize = 16;

/// An iw_cm id.
///
/// Dropping it ends its connection and waits until its handler has returned. May sleep; not in the
/// handler.
///
/// # Invariants
///
/// The pointer is to an id that has not been destroyed and whose context outlives it.
struct IwCmId(NonNull<bindings::iw_cm_id>);

// SAFETY: Ids have their own locks, and any thread may use and destroy them.
unsafe impl Send for IwCmId {}

impl IwCmId {
    /// Creates an id whose events update `conn`.
    ///
    /// # Safety
    ///
    /// `conn` outlives the id.
    unsafe fn new(device: &DeviceRef, conn: &ConnContext) -> Result<Self> {
        let context = ptr::from_ref(conn).cast_mut().cast();
        // SAFETY: A `DeviceRef` keeps the device registered; the handler is written for the
        // context.
        let raw = unsafe { bindings::iw_create_cm_id(device.raw(), Some(handle), context) };
        // INVARIANT: The id was created above.
        Ok(Self(NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?))
    }

    fn listen(&mut self, local: SockAddr) -> Result {
        // SAFETY: By the invariant the id is valid, and no other thread uses it yet.
        unsafe { store_sockaddr(&raw mut (*self.0.as_ptr()).local_addr, local) };
        // SAFETY: By the invariant the id is valid. The backlog has space for this peer and for
        // foreign requests until they are rejected.
        to_result(unsafe { bindings::iw_cm_listen(self.0.as_ptr(), 4) })
    }

    fn connect(&mut self, local: SockAddr, peer: SockAddr, qp: u32, nonce: &Nonce) -> Result {
        let mut param = conn_param(qp);
        param.private_data = nonce.as_ptr().cast();
        param.private_data_len = size_of::<Nonce>() as u16;
        // SAFETY: By the invariant the id is valid, and no other thread uses it yet.
        unsafe {
            store_sockaddr(&raw mut (*self.0.as_ptr()).local_addr, local);
            store_sockaddr(&raw mut (*self.0.as_ptr()).remote_addr, peer);
        }
        // SAFETY: By the invariant the id is valid; drivers copy what the parameters point to.
        to_result(unsafe { bindings::iw_cm_connect(self.0.as_ptr(), &mut param) })
    }
}

impl Drop for IwCmId {
    fn drop(&mut self) {
        // SAFETY: By the invariant the id is valid, and it is not used after this.
        unsafe { bindings::iw_destroy_cm_id(self.0.as_ptr()) };
    }
}

/// # Safety
///
/// `at` is writable.
unsafe fn store_sockaddr(at: *mut kernel::bindings::__kernel_sockaddr_storage, addr: SockAddr) {
    let raw = addr.to_raw();
    let bytes = raw.as_bytes();
    // SAFETY: By this function's contract; no address is longer than the storage.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast(), bytes.len()) };
}

/// Returns the parameters of an end; the connection carries no data.
fn conn_param(qp: u32) -> bindings::iw_cm_conn_param {
    bindings::iw_cm_conn_param {
        ord: 1,
        ird: 1,
        qpn: qp,
        ..pin_init::zeroed()
    }
}

/// Private data that identifies this module's own connection request, because other hosts may reach
/// the listener.
type Nonce = [u8; 16];

/// Context of both ends while they connect.
#[pin_data]
struct ConnContext {
    nonce: Nonce,
    /// Queue pair number of the passive end.
    passive_qp_num: u32,
    #[pin]
    status: SpinLock<ConnStatus>,
    /// Completed at each change of `status`.
    #[pin]
    changed: TimedCompletion,
}

#[derive(Default)]
struct ConnStatus {
    /// The request with the nonce has arrived.
    request_seen: bool,
    passive_id: Option<IwCmId>,
    accepted: bool,
    connected: bool,
    error: Option<Error>,
}

impl ConnContext {
    fn update(&self, change: impl FnOnce(&mut ConnStatus)) {
        change(&mut self.status.lock());
        self.changed.complete();
    }

    /// Returns whether `data` identifies the first own request, and records the request.
    fn claim_request(&self, data: &[u8]) -> bool {
        let mut status = self.status.lock();
        let ours = data == self.nonce && !status.request_seen;
        status.request_seen |= ours;
        ours
    }

    /// Waits until both ends have reported the connection.
    fn wait_connected(&self) -> Result {
        let mut left = msecs_to_jiffies(CONNECT_TIMEOUT_MS);
        loop {
            {
                let status = self.status.lock();
                if let Some(error) = status.error {
                    return Err(error);
                }
                if status.accepted && status.connected {
                    return Ok(());
                }
            }
            left = self.changed.wait_timeout(left);
            if left == 0 {
                return Err(ETIMEDOUT);
            }
        }
    }
}

/// Callback of iw_cm for events, in process context; iw_cm destroys the id if it returns a value
/// other than 0.
///
/// # Safety
///
/// Called by iw_cm with a valid event for a valid id, whose context is a [`ConnContext`].
unsafe extern "C" fn handle(
    id: *mut bindings::iw_cm_id,
    event: *mut bindings::iw_cm_event,
) -> c_int {
    // SAFETY: By this function's contract.
    let (event, conn) = unsafe { (&*event, &*(*id).context.cast::<ConnContext>()) };
    match event.event {
        bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REQUEST => {
            // SAFETY: By this function's contract the event is a request, whose id is new.
            return unsafe { accept_own_request(id, event, conn) };
        }
        bindings::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY => {
            let result = to_result(event.status);
            conn.update(|status| match result {
                Ok(()) => status.connected = true,
                Err(error) => status.error = Some(error),
            });
        }
        bindings::iw_cm_event_type_IW_CM_EVENT_ESTABLISHED => {
            conn.update(|status| status.accepted = true);
        }
        // The connection has ended: the next request on the queue pair fails.
        _ => {}
    }
    0
}

/// Accepts a connection request that has the nonce, and rejects others.
///
/// # Safety
///
/// `id` is the new id of the request `event`.
unsafe fn accept_own_request(
    id: *mut bindings::iw_cm_id,
    event: &bindings::iw_cm_event,
    conn: &ConnContext,
) -> c_int {
    // SAFETY: iw_cm passes NULL or a buffer of that many bytes.
    let data = unsafe { raw_bytes(event.private_data, event.private_data_len.into()) };
    if !conn.claim_request(data) {
        return ECONNREFUSED.to_errno();
    }
    let mut param = conn_param(conn.passive_qp_num);
    // SAFETY: By this function's contract the id is valid, and drivers copy the parameters.
    let accepted = to_result(unsafe { bindings::iw_cm_accept(id, &mut param) });
    if let Err(error) = accepted {
        conn.update(|status| status.error = Some(error));
        return error.to_errno();
    }
    // INVARIANT: The handler returns 0, so that the id belongs to `conn`, which is also its
    // context; `LoopbackConn` drops the id before `conn`.
    conn.update(|status| status.passive_id = NonNull::new(id).map(IwCmId));
    0
}

/// A connection between two queue pairs of one device.
pub(super) struct LoopbackConn {
    listener: Option<IwCmId>,
    active: Option<IwCmId>,
    context: Pin<KBox<ConnContext>>,
}

impl LoopbackConn {
    /// Connects `active` to `passive`; both can then be posted to. May sleep.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` when the device has no address, `EADDRINUSE`, `ETIMEDOUT`, `ENOMEM`, errors
    /// of the loopback interface of the caller's network namespace, and the driver's errors.
    #[inline(never)]
    pub(super) fn connect(device: &DeviceRef, active: &Qp, passive: &Qp) -> Result<Self> {
        let mut nonce = Nonce::default();
        // SAFETY: The nonce is local, and has that many bytes.
        unsafe { kernel::bindings::get_random_bytes(nonce.as_mut_ptr().cast(), nonce.len()) };
        let context = KBox::pin_init(
            pin_init!(ConnContext {
                nonce,
                passive_qp_num: passive.qp_num(),
                status <- new_spinlock!(ConnStatus::default(), "kofi::rdma::ConnContext"),
                changed <- TimedCompletion::new(),
            }),
            GFP_KERNEL,
        )?;
        let mut pair = Self {
            listener: None,
            active: None,
            context,
        };
        let local = loopback_addr(device)?;
        let peer = pair.listen(device, local)?;
        // SAFETY: `LoopbackConn` drops its ids before `context`.
        let id = pair
            .active
            .insert(unsafe { IwCmId::new(device, &pair.context) }?);
        id.connect(local, peer, active.qp_num(), &nonce)?;
        pair.context.wait_connected()?;
        // No further connection is expected.
        pair.listener = None;
        Ok(pair)
    }

    /// Listens on a free port, and returns the address with that port.
    fn listen(&mut self, device: &DeviceRef, local: SockAddr) -> Result<SockAddr> {
        for _ in 0..PORT_TRIES {
            // SAFETY: The function has no requirements.
            let port = FIRST_PORT | unsafe { kernel::bindings::get_random_u16() };
            // iw_cm allows one attempt for each id.
            // SAFETY: `LoopbackConn` drops its ids before `context`.
            let mut id = unsafe { IwCmId::new(device, &self.context) }?;
            let local = local.with_port(port);
            match id.listen(local) {
                Err(error) if error == EADDRINUSE => continue,
                listening => listening?,
            }
            self.listener = Some(id);
            return Ok(local);
        }
        Err(EADDRINUSE)
    }
}

impl Drop for LoopbackConn {
    fn drop(&mut self) {
        // Destroying the listener first ensures that no further request stores a `passive_id`.
        self.listener = None;
        self.active = None;
        let passive = self.context.status.lock().passive_id.take();
        drop(passive);
    }
}

/// Returns an address by which the device reaches itself: the loopback address for a device that
/// uses the kernel's TCP, otherwise an address of the port, as hardware requires.
fn loopback_addr(device: &DeviceRef) -> Result<SockAddr> {
    let port = device.first_port;
    // SAFETY: The device is registered as long as it is used.
    let ip = if unsafe { bindings::kofi_uses_kernel_tcp(device.raw()) } {
        Ipv4Addr::LOCALHOST
    } else {
        // SAFETY: As above, and `port` is one of its ports.
        Ipv4Addr::from(u32::from_be(unsafe {
            bindings::kofi_port_ipv4(device.raw(), port)
        }))
    };
    if ip.is_unspecified() {
        return Err(EADDRNOTAVAIL);
    }
    Ok(SockAddr::new(ip.into(), 0, 0))
}
