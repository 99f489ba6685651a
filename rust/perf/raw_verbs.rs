// SPDX-License-Identifier: GPL-2.0

//! The raw-verbs transport, the baseline that kOFI is compared with: safe wrappers of `raw_verbs.c`.
//!
//! An end of a connection is used by one thread at a time, and has no lock. Every wait ends with -FI_EINTR when the
//! thread should stop.

use super::{
    bindings,
    prelude::*,
    protocol::{
        read_grant,
        write_grant,
        GRANT, //
    },
};
use core::{
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull, //
};
use kernel::error::{
    from_err_ptr,
    to_result, //
};
use kofi::abi::FI_PROTO_IWARP;

/// Private data of a peer; zeroes follow it.
type PrivateData = [u8; bindings::RAW_PRIVATE_DATA as usize];

/// Bytes that an atomic operation of verbs changes.
const WORD: u32 = size_of::<u64>() as u32;

fn non_null<T>(raw: *mut T) -> Result<NonNull<T>> {
    Ok(NonNull::new(from_err_ptr(raw)?).ok_or(EINVAL)?)
}

/// A buffer that is mapped for the device of its connection.
///
/// # Invariants
///
/// A buffer that was made by `raw_buf_alloc()`, is not posted, and has not been released.
#[repr(transparent)]
pub(crate) struct Buffer(bindings::raw_buf);

impl Buffer {
    /// # Safety
    ///
    /// `raw` is an error pointer, or a buffer that the caller owns and that is not posted.
    unsafe fn from_raw(raw: *mut bindings::raw_buf) -> Result<KBox<Self>> {
        let raw = non_null(raw)?.as_ptr().cast::<Self>();
        // INVARIANT: By this function's safety requirement.
        // SAFETY: By this function's safety requirement, `raw_buf_alloc()` has allocated it with kmalloc(), and the
        // type is transparent.
        Ok(unsafe { KBox::from_raw(raw) })
    }

    /// Hands a buffer to `post`, which owns it afterwards, unless it fails: the buffer is freed then.
    fn post(buffer: KBox<Self>, post: impl FnOnce(*mut bindings::raw_buf) -> c_int) -> Result {
        let raw = KBox::into_raw(buffer);
        let posted = to_result(post(raw.cast()));
        if posted.is_err() {
            // SAFETY: It came from `into_raw()` above, and has not been posted.
            drop(unsafe { KBox::from_raw(raw) });
        }
        Ok(posted?)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the invariant; the struct itself belongs to the box.
        unsafe { bindings::raw_buf_release(&mut self.0) };
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: By the invariant the memory has that many bytes, which were zeroed, and the device does not
        // access it.
        unsafe { core::slice::from_raw_parts(self.0.data.cast(), self.0.len as usize) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: As above, and `self` is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.0.data.cast(), self.0.len as usize) }
    }
}

/// An end of a connection; its drop closes the connection, and may sleep.
///
/// # Invariants
///
/// The pointer is to a connection that has not been closed.
struct End(NonNull<bindings::raw_conn>);

// SAFETY: A connection belongs to no particular thread.
unsafe impl Send for End {}

impl Drop for End {
    fn drop(&mut self) {
        // SAFETY: By the invariant; the pointer is not used afterwards.
        unsafe { bindings::raw_close(self.as_ptr()) };
    }
}

impl End {
    /// # Safety
    ///
    /// `raw` is an error pointer, or a connection that the caller owns.
    unsafe fn from_raw(raw: *mut bindings::raw_conn) -> Result<Self> {
        // INVARIANT: By this function's safety requirement.
        Ok(Self(non_null(raw)?))
    }

    fn as_ptr(&self) -> *mut bindings::raw_conn {
        self.0.as_ptr()
    }

    fn private_data(&self) -> PrivateData {
        // SAFETY: By the invariant; there are that many bytes, which change no more once the connection has been
        // requested or rejected.
        unsafe { *bindings::raw_private_data(self.as_ptr()).cast::<PrivateData>() }
    }

    fn alloc(&self, len: usize) -> Result<KBox<Buffer>> {
        let len = u32::try_from(len)?;
        // SAFETY: By the invariant.
        let raw = unsafe { bindings::raw_buf_alloc(self.as_ptr(), len) };
        // SAFETY: The buffer is new.
        unsafe { Buffer::from_raw(raw) }
    }

    fn post_recv(&mut self, buffer: KBox<Buffer>) -> Result {
        Buffer::post(buffer, |raw| {
            // SAFETY: By the invariants of both.
            unsafe { bindings::raw_post_recv(self.as_ptr(), raw) }
        })
    }
}

/// An end that is not connected yet.
pub(crate) struct Unconnected(End);

impl Unconnected {
    /// Creates an end for the peer of `info`, on a device of its kind. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EHOSTUNREACH, -FI_ENODEV, -FI_ENOMEM, -FI_EINTR.
    pub(crate) fn new(
        _here: ProcessContext,
        net: &Namespace,
        info: &Info,
        depth: usize,
    ) -> Result<Self> {
        let iwarp = info.ep().is_some_and(|ep| ep.protocol == FI_PROTO_IWARP);
        let src = info.src_addr().unwrap_or(&[]);
        let dst = info.dest_addr().ok_or(Errno::EINVAL)?;
        let depth = u32::try_from(depth)?;
        let (net, from, to) = (
            net.as_ptr().cast(),
            src.as_ptr().cast(),
            dst.as_ptr().cast(),
        );
        // SAFETY: The namespace is held during the call; the addresses are copied.
        let raw =
            unsafe { bindings::raw_resolve(net, iwarp, from, src.len(), to, dst.len(), depth) };
        // SAFETY: The connection is new.
        Ok(Self(unsafe { End::from_raw(raw) }?))
    }

    /// Connects to the peer. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ECONNREFUSED with the private data of the rejection, -FI_ETIMEDOUT, -FI_EINTR.
    pub(crate) fn connect(
        self,
        _here: ProcessContext,
        data: &[u8],
    ) -> core::result::Result<Connection, (Errno, PrivateData)> {
        let len = data.len().try_into().unwrap_or(u8::MAX);
        // SAFETY: By the invariant; the data has at least `len` bytes, and is copied.
        let connected =
            to_result(unsafe { bindings::raw_connect(self.0.as_ptr(), data.as_ptr().cast(), len) });
        match connected {
            Ok(()) => Ok(Connection(self.0)),
            Err(error) => Err((error.into(), self.0.private_data())),
        }
    }
}

impl PendingTransport for Unconnected {
    type Transport = Connection;
    type Exposed = ();

    fn post_recv(&mut self, _here: ProcessContext, len: usize) -> Result {
        let buffer = self.0.alloc(len)?;
        self.0.post_recv(buffer)
    }

    fn accept(self, _here: ProcessContext) -> Result<Connection> {
        // SAFETY: By the invariant.
        to_result(unsafe { bindings::raw_accept(self.0.as_ptr()) })?;
        Ok(Connection(self.0))
    }

    /// Memory is registered through the queue pair, which has to be connected for that: the client's first message,
    /// which is empty, is answered with the address and the key.
    fn accept_exposing(mut self, here: ProcessContext, len: usize) -> Result<((), Connection)> {
        PendingTransport::post_recv(&mut self, here, 0)?;
        let mut connection = self.accept(here)?;
        drop(connection.wait_rx(here)?);
        let mut exposed: bindings::raw_remote = pin_init::zeroed();
        // SAFETY: By the invariant; nothing is outstanding.
        to_result(unsafe { bindings::raw_expose(connection.0.as_ptr(), len, &mut exposed) })?;
        let mut grant = connection.0.alloc(GRANT)?;
        let bytes = write_grant(RemoteMemory {
            addr: exposed.addr,
            key: exposed.rkey.into(),
        });
        // Both have GRANT bytes; copy_from_slice() would panic if they did not.
        for (to, from) in grant.iter_mut().zip(bytes) {
            *to = from;
        }
        connection.post_send(grant, GRANT)?;
        drop(connection.wait_tx(here)?);
        Ok(((), connection))
    }
}

/// A connected end.
pub(crate) struct Connection(End);

impl Connection {
    /// Asks the server for the memory that it exposes: see [`Unconnected::accept_exposing`]. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP for another answer; errors of the connection.
    pub(crate) fn exposed(&mut self, here: ProcessContext) -> Result<RemoteMemory> {
        self.post_recv(self.0.alloc(GRANT)?)?;
        self.post_send(self.0.alloc(0)?, 0)?;
        drop(self.wait_tx(here)?);
        let (grant, len) = self.wait_rx(here)?;
        let grant = grant.get(..len).and_then(read_grant);
        grant.ok_or(Errno::EOPNOTSUPP)
    }

    fn post(
        &mut self,
        buffer: KBox<Buffer>,
        len: u32,
        op: bindings::raw_op,
        remote: &bindings::raw_remote,
    ) -> Result {
        Buffer::post(buffer, |raw| {
            // SAFETY: By the invariants of both.
            unsafe { bindings::raw_post(self.0.as_ptr(), raw, len, op, remote) }
        })
    }

    fn post_rma(
        &mut self,
        buffer: KBox<Buffer>,
        len: usize,
        op: bindings::raw_op,
        remote: RemoteMemory,
    ) -> Result {
        self.post(buffer, u32::try_from(len)?, op, &raw_remote(remote)?)
    }
}

/// The remote memory in the form of verbs, whose keys have 32 bits.
fn raw_remote(remote: RemoteMemory) -> Result<bindings::raw_remote> {
    Ok(bindings::raw_remote {
        addr: remote.addr,
        rkey: u32::try_from(remote.key)?,
        ..pin_init::zeroed()
    })
}

impl Transport for Connection {
    type Buffer = Buffer;

    fn alloc(&self, _here: ProcessContext, len: usize) -> Result<KBox<Buffer>> {
        self.0.alloc(len)
    }

    fn post_recv(&mut self, buffer: KBox<Buffer>) -> Result {
        self.0.post_recv(buffer)
    }

    fn post_send(&mut self, buffer: KBox<Buffer>, len: usize) -> Result {
        let nowhere = pin_init::zeroed();
        self.post(buffer, u32::try_from(len)?, bindings::RAW_SEND, &nowhere)
    }

    fn post_write(&mut self, buffer: KBox<Buffer>, len: usize, to: RemoteMemory) -> Result {
        self.post_rma(buffer, len, bindings::RAW_WRITE, to)
    }

    fn post_read(&mut self, buffer: KBox<Buffer>, len: usize, from: RemoteMemory) -> Result {
        self.post_rma(buffer, len, bindings::RAW_READ, from)
    }

    fn post_atomic(
        &mut self,
        buffer: KBox<Buffer>,
        config: &AtomicConfig,
        elements: RemoteElements,
    ) -> Result {
        let mut remote = raw_remote(elements.remote)?;
        // One operand, and the value to compare with behind it.
        if buffer.len() / WORD as usize != 2 {
            return Err(Errno::EOPNOTSUPP);
        }
        let word = |at: usize| Some(u64::from_ne_bytes(*buffer.get(at..)?.first_chunk()?));
        let (operand, compare) = word(0).zip(word(WORD as usize)).ok_or(Errno::EOPNOTSUPP)?;
        let op = match (config.form, config.op) {
            (Form::Fetch, Op::Sum) => {
                remote.compare_add = operand;
                bindings::RAW_FETCH_ADD
            }
            (Form::Compare, Op::Swap) => {
                (remote.compare_add, remote.swap) = (compare, operand);
                bindings::RAW_CMP_SWAP
            }
            _ => return Err(Errno::EOPNOTSUPP),
        };
        self.post(buffer, WORD, op, &remote)
    }

    fn wait_tx(&mut self, _here: ProcessContext) -> Result<KBox<Buffer>> {
        // SAFETY: By the invariant.
        let raw = unsafe { bindings::raw_wait_tx(self.0.as_ptr()) };
        // SAFETY: The buffer is not posted any more, and `raw_wait_tx()` has handed it over.
        unsafe { Buffer::from_raw(raw) }
    }

    fn wait_rx(&mut self, _here: ProcessContext) -> Result<(KBox<Buffer>, usize)> {
        let mut len = 0;
        // SAFETY: By the invariant.
        let raw = unsafe { bindings::raw_wait_rx(self.0.as_ptr(), &mut len) };
        // SAFETY: As in `wait_tx`.
        let buffer = unsafe { Buffer::from_raw(raw) }?;
        Ok((buffer, len as usize))
    }

    fn wait_shutdown(&mut self, _here: ProcessContext) -> Result {
        // SAFETY: By the invariant.
        let closed = unsafe { bindings::raw_wait_closed(self.0.as_ptr()) };
        Ok(to_result(closed)?)
    }
}

/// A listener; its drop rejects the pending requests, and may sleep.
///
/// # Invariants
///
/// The pointer is to a listener that has not been closed.
pub(crate) struct Listener(NonNull<bindings::raw_listener>);

impl Listener {
    /// Listens at the source address of `info`, on every device that has it. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EADDRINUSE, -FI_EADDRNOTAVAIL, -FI_ENODEV, -FI_ENOMEM.
    pub(crate) fn new(_here: ProcessContext, net: &Namespace, info: &Info) -> Result<Self> {
        let addr = info.src_addr().ok_or(Errno::EINVAL)?;
        // SAFETY: The namespace is held during the call; the address is copied.
        let raw =
            unsafe { bindings::raw_listen(net.as_ptr().cast(), addr.as_ptr().cast(), addr.len()) };
        // INVARIANT: The listener is new.
        Ok(Self(non_null(raw)?))
    }

    /// Waits for a connection request. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENODEV after the removal of the device, -FI_EINTR.
    pub(crate) fn next(&self, _here: ProcessContext) -> Result<Request> {
        // SAFETY: By the invariant.
        let raw = unsafe { bindings::raw_next_request(self.0.as_ptr()) };
        // SAFETY: `raw_next_request()` has handed the request over.
        Ok(Request(unsafe { End::from_raw(raw) }?))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: By the invariant; the pointer is not used afterwards.
        unsafe { bindings::raw_listener_close(self.0.as_ptr()) };
    }
}

/// A connection request; its drop rejects it.
pub(crate) struct Request(End);

impl Request {
    /// Returns the private data of the request.
    pub(crate) fn private_data(&self) -> PrivateData {
        self.0.private_data()
    }

    /// Rejects the request with private data. May sleep.
    pub(crate) fn reject(self, _here: ProcessContext, data: &[u8]) {
        let end = core::mem::ManuallyDrop::new(self.0);
        let len = data.len().try_into().unwrap_or(u8::MAX);
        // SAFETY: By the invariant; the pointer is not used afterwards. The data has at least `len` bytes, and is
        // copied.
        unsafe { bindings::raw_reject(end.as_ptr(), data.as_ptr().cast(), len) };
    }

    /// Creates an end for the request, on which `depth` operations can be posted in each direction. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENODEV, -FI_ENOMEM.
    pub(crate) fn open(self, _here: ProcessContext, depth: usize) -> Result<Unconnected> {
        let depth = u32::try_from(depth)?;
        // SAFETY: By the invariant; the request has a device.
        to_result(unsafe { bindings::raw_open(self.0.as_ptr(), depth) })?;
        Ok(Unconnected(self.0))
    }
}
