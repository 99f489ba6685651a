// SPDX-License-Identifier: GPL-2.0

//! Event queues for C callers.

use super::{
    fabric::FabricObject,
    object::{
        byte_slice,
        copy_static, //
    },
    ops::Unchecked,
    peer,
    prelude::*,
    wait::{
        Callback,
        WaitAttr,
        WaitMethod, //
    },
};
use crate::fi::{
    eq::{
        Attr,
        Event,
        EventQueue,
        Handler,
        Kind, //
    },
    wait::Budget,
};

/// An event queue, as C callers hold it.
#[repr(C)]
pub(super) struct QueueObject {
    fid: fid_eq,
    pub(super) queue: Arc<EventQueue>,
    pub(super) wait: WaitMethod,
}

fi_ops! {
    impl Object for QueueObject: FI_CLASS_EQ {
        control: fn fi_control(eq: &QueueObject, command, arg) -> Result {
            // SAFETY: `arg` is NULL or as the command requires.
            unsafe { eq.wait.control(eq.queue.wait_queue(), command, arg) }
        }
    }
    close(eq) {
        eq.queue.close()
    }
}

fi_ops! {
    static OPS: fi_ops_eq {
        read: fn fi_eq_read(
            eq: Unchecked<'_, QueueObject>, number, buf, len, flags,
        ) -> Result<usize> {
            // SAFETY: `number` is NULL or valid, and `buf` is NULL or valid for `len` bytes.
            unsafe { read_event(&eq.queue, number, buf, len, flags) }
        }

        sread: fn fi_eq_sread(
            eq: Unchecked<'_, QueueObject>, number, buf, len, timeout, flags,
        ) -> Result<usize> {
            let mut budget = Budget::from_millis(timeout);
            loop {
                eq.queue.wait(in_process()?, &mut budget)?;
                // SAFETY: `number` is NULL or valid, and `buf` is NULL or valid for `len` bytes.
                match unsafe { read_event(&eq.queue, number, buf, len, flags) } {
                    // Another reader took the event; the budget keeps the remaining time.
                    Err(Errno::EAGAIN) => {}
                    result => return result,
                }
            }
        }

        readerr: fn fi_eq_readerr(eq: Unchecked<'_, QueueObject>, buf, flags) -> Result<usize> {
            // SAFETY: `buf` is NULL or valid, and not shared during the call.
            let entry = unsafe { buf.as_mut() }.ok_or(Errno::EINVAL)?;
            ensure(flags & !abi::FI_PEEK == 0, Errno::EBADFLAGS)?;
            eq.queue.read_error(flags & abi::FI_PEEK != 0, |event| {
                // SAFETY: `err_data` is NULL or valid for `err_data_size` bytes; the event is queued.
                unsafe { write_error_entry(event, entry) }
            })?;
            Ok(size_of::<fi_eq_err_entry>())
        }
    }
    from PEER_OPS;
}

fi_ops! {
    /// Calls of a peer's queue: its events are read from the owner's queue.
    static PEER_OPS: fi_ops_eq {
        write: fn fi_eq_write(
            eq: Unchecked<'_, QueueObject>, number, buf, len, flags,
        ) -> Result<usize> {
            ensure(flags == 0, Errno::EBADFLAGS)?;
            // SAFETY: `buf` is NULL or valid for `len` bytes.
            let data = unsafe { byte_slice(buf, len)? };
            eq.queue.write(in_process()?, number, data)?;
            Ok(len)
        }

        strerror: fn fi_eq_strerror(
            eq: Unchecked<'_, QueueObject>, prov_errno, _err_data, buf, len,
        ) -> *const c_char {
            // SAFETY: `buf` is NULL or valid for `len` bytes.
            unsafe { copy_static(eq.queue.strerror(prov_errno), buf, len) }
        }
    }
}

impl Handler for Callback<fid_eq> {
    fn ready(&self, _ctx: ProcessContext, _queue: &Arc<EventQueue>) {
        self.invoke();
    }
}

fi_ops! {
    /// `fi_eq_open()`.
    pub(super) const FABRIC_OPS: fi_ops_fabric {
        eq_open: fn fi_eq_open(fabric: InProcess<&FabricObject>, attr, out, context) -> Result {
            // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
            let (attr, slot) = unsafe { open_args(attr, out)? };
            let known = abi::FI_WRITE | abi::FI_AFFINITY | abi::FI_PEER;
            ensure(attr.flags & !known == 0, Errno::EINVAL)?;
            // SAFETY: With FI_WAIT_SET, the wait set is NULL or valid.
            let wait_attr = unsafe { WaitAttr::new(attr.wait_obj, attr.wait_set)? };
            let fid = fid_eq {
                fid: new_fid::<QueueObject>(context),
                ops: ptr::from_ref(&OPS).cast_mut(),
            };
            if attr.flags & abi::FI_PEER != 0 {
                // SAFETY: With FI_PEER, `context` is NULL or a valid `struct fi_peer_eq_context`.
                let owner = unsafe { peer::owner_eq(context)? };
                // The attributes apply to the owner's queue, which gets the events, and are ignored here.
                return slot.open(QueueObject {
                    fid: fid_eq {
                        ops: ptr::from_ref(&PEER_OPS).cast_mut(),
                        ..fid
                    },
                    queue: fabric.fabric.peer_event_queue(fabric.ctx, owner)?,
                    wait: WaitMethod::NONE,
                });
            }
            let queue_attr = Attr {
                size: attr.size,
                writable: attr.flags & abi::FI_WRITE != 0,
                waitable: wait_attr.is_waitable(),
            };
            let queue = fabric.fabric.event_queue(fabric.ctx, queue_attr)?;
            let address = slot.address();
            let wait = wait_attr.into_method(|set| set.add_events(fabric.ctx, &queue, address))?;
            if let Some(function) = attr.eq_event_handler {
                let callback = Callback {
                    function,
                    object: address,
                    context: context.expose_provenance(),
                };
                let functions = callback.functions();
                queue.set_handler(KBox::new(callback, GFP_KERNEL)?, functions)?;
            }
            slot.open(QueueObject { fid, queue, wait })
        }
    }
}

/// Length of the entry in front of a connection event's data.
const CM_ENTRY_LEN: usize = size_of::<fi_eq_cm_entry>();

/// Returns the context that is reported with an event other than a connection event.
///
/// # Safety
///
/// The event is queued, or its source is valid: closing an object removes its events.
unsafe fn event_context(event: &Event) -> *mut c_void {
    let source: *const fid = ptr::with_exposed_provenance(event.source().0);
    match event.batch() {
        Some(batch) => ptr::with_exposed_provenance_mut(batch.context()),
        // SAFETY: By the caller's contract, the source is NULL or valid.
        None => unsafe { source.as_ref() }.map_or(ptr::null_mut(), |fid| fid.context),
    }
}

/// Writes an event in the format of `fi_eq_read()`.
///
/// # Errors
///
/// -FI_ETOOSMALL if it does not fit, -FI_EAVAIL for an error.
///
/// # Safety
///
/// `number` is valid, and `buf` is valid for `len` bytes.
unsafe fn write_event(
    event: &Event,
    number: *mut u32,
    buf: *mut c_void,
    len: usize,
) -> Result<usize> {
    let data = event.data();
    let (kind, head) = match event.kind() {
        Kind::Connection(kind) => (kind, CM_ENTRY_LEN),
        Kind::Complete(kind) => (kind, size_of::<fi_eq_entry>()),
        Kind::Written(kind) => (kind, 0),
        Kind::Error(..) => return Err(Errno::EAVAIL),
    };
    let total = head + data.len();
    ensure(total <= len, Errno::ETOOSMALL)?;
    // SAFETY: By the caller's contract both are valid, and `total` bytes fit. The caller's buffer need not be
    // aligned for the entry.
    unsafe {
        *number = kind;
        if let Kind::Complete(_) = event.kind() {
            let entry = fi_eq_entry {
                fid: ptr::with_exposed_provenance_mut(event.source().0),
                context: event_context(event),
                data: event.batch_data().unwrap_or(0),
            };
            buf.cast::<fi_eq_entry>().write_unaligned(entry);
        } else if head > 0 {
            let entry = buf.cast::<fi_eq_cm_entry>();
            let info = event.info().map_or(ptr::null_mut(), Info::as_raw);
            (&raw mut (*entry).fid)
                .write_unaligned(ptr::with_exposed_provenance_mut(event.source().0));
            (&raw mut (*entry).info).write_unaligned(info);
        }
        ptr::copy_nonoverlapping(data.as_ptr(), buf.cast::<u8>().add(head), data.len());
    }
    Ok(total)
}

/// Reads an event, or peeks at it, and passes its info to the caller.
///
/// # Errors
///
/// -FI_EINVAL for NULL, -FI_EBADFLAGS, -FI_EAGAIN without an event, and the errors of [`write_event`].
///
/// # Safety
///
/// `number` is NULL or valid, and `buf` is NULL or valid for `len` bytes.
unsafe fn read_event(
    queue: &EventQueue,
    number: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> Result<usize> {
    ensure(
        !number.is_null() && (len == 0 || !buf.is_null()),
        Errno::EINVAL,
    )?;
    ensure(flags & !abi::FI_PEEK == 0, Errno::EBADFLAGS)?;
    // SAFETY: By the caller's contract, `buf` has space for `len` bytes, and `number` is valid: neither is NULL.
    let write = |event: &Event| unsafe { write_event(event, number, buf, len) };
    let (total, event) = queue.read(flags & abi::FI_PEEK != 0, write)?;
    if let Some(info) = event.and_then(|mut event| event.take_info()) {
        // The entry has the info's address: the reader owns the info, and frees it with `fi_freeinfo()`.
        let _ = Info::into_raw(info);
    }
    Ok(total)
}

/// Writes an error in the format of `fi_eq_readerr()`.
///
/// # Safety
///
/// `entry.err_data` is NULL or valid for `entry.err_data_size` bytes, and the event's source for reading.
unsafe fn write_error_entry(event: &Event, entry: &mut fi_eq_err_entry) {
    let Kind::Error(errno, prov_errno) = event.kind() else {
        return;
    };
    entry.fid = ptr::with_exposed_provenance_mut(event.source().0);
    // SAFETY: By the caller's contract, the event's source is valid.
    entry.context = unsafe { event_context(event) };
    entry.data = event.batch_data().unwrap_or(0);
    entry.err = errno.code();
    entry.prov_errno = prov_errno;
    let data = event.data();
    if entry.err_data_size == 0 {
        entry.err_data = match data {
            [] => ptr::null_mut(),
            data => data.as_ptr().cast_mut().cast(),
        };
        entry.err_data_size = data.len();
    } else if entry.err_data.is_null() {
        entry.err_data_size = 0;
    } else {
        let len = data.len().min(entry.err_data_size);
        // SAFETY: By the caller's contract, `err_data` has space for `err_data_size` bytes.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), entry.err_data.cast(), len) };
        entry.err_data_size = len;
    }
}
