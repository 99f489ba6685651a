// SPDX-License-Identifier: GPL-2.0

//! Event queues for C callers.

use super::{
    fabric::FabricObject,
    nosys,
    object::{
        self,
        byte_slice,
        new_fid,
        Object,
        UninitObject, //
    },
    peer,
    strings,
    wait::{
        WaitAttr,
        WaitMethod, //
    }, //
};
use crate::{
    abi::{
        self,
        errno::{
            into_int,
            into_ssize, //
        },
        fi_eq_attr,
        fi_eq_cm_entry,
        fi_eq_entry,
        fi_eq_err_entry,
        fi_ops,
        fi_ops_eq,
        fid,
        fid_eq,
        fid_fabric,
        info::Info,
        Errno,
        Result, //
    },
    fi::{
        eq::{
            Attr,
            Event,
            EventQueue,
            Handler,
            Kind, //
        },
        wait::Budget, //
    },
    util::{
        callback::Functions,
        context::{
            in_process,
            ProcessContext, //
        },
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// An event queue, as C callers hold it.
#[repr(C)]
pub(super) struct QueueObject {
    fid: fid_eq,
    queue: Arc<EventQueue>,
    wait: WaitMethod,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_eq`, and is the only type with this table.
unsafe impl Object for QueueObject {
    const CLASS: u32 = abi::FI_CLASS_EQ;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, None, Some(control));
        &OPS
    }
}

impl QueueObject {
    /// Returns the Rust object.
    pub(super) fn queue(&self) -> &Arc<EventQueue> {
        &self.queue
    }

    /// Returns the queue's wait method.
    pub(super) fn wait(&self) -> &WaitMethod {
        &self.wait
    }
}

static OPS: fi_ops_eq = fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read: Some(read),
    readerr: Some(readerr),
    write: Some(write),
    sread: Some(sread),
    strerror: Some(describe),
};

/// Calls of a peer's queue: its events are read from the owner's queue.
static PEER_OPS: fi_ops_eq = fi_ops_eq {
    write: Some(write),
    strerror: Some(describe),
    ..nosys::EQ
};

/// A C consumer's `eq_event_handler` and its arguments.
struct Callback {
    function: unsafe extern "C" fn(*mut fid_eq, *mut c_void),
    eq: usize,
    context: usize,
}

impl Handler for Callback {
    fn ready(&self, _ctx: ProcessContext, _queue: &Arc<EventQueue>) {
        let eq = ptr::with_exposed_provenance_mut(self.eq);
        let context = ptr::with_exposed_provenance_mut(self.context);
        // SAFETY: `close` waits for this call before the queue's object is freed.
        unsafe { (self.function)(eq, context) };
    }
}

/// Implements `fi_eq_open()`.
pub(super) unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    out: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_eq_open()`, arguments are valid or NULL.
    into_int(unsafe {
        object::open_with(fabric.cast(), attr, out, |ctx, fabric, attr, slot| {
            try_open(ctx, fabric, attr, slot, context)
        })
    })
}

/// # Safety
///
/// The contract of `fi_eq_open()`.
unsafe fn try_open(
    ctx: ProcessContext,
    fabric: &FabricObject,
    attr: &mut fi_eq_attr,
    slot: UninitObject<QueueObject>,
    context: *mut c_void,
) -> Result<*mut QueueObject> {
    if attr.flags & !(abi::FI_WRITE | abi::FI_AFFINITY | abi::FI_PEER) != 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the contract of `fi_eq_open()`.
    let wait_attr = unsafe { WaitAttr::new(attr.wait_obj, attr.wait_set)? };
    if attr.flags & abi::FI_PEER != 0 {
        // SAFETY: By the contract of `fi_eq_open()`.
        return unsafe { open_peer(ctx, fabric, slot, context) };
    }
    let queue = fabric.fabric().event_queue(
        ctx,
        Attr {
            size: attr.size,
            writable: attr.flags & abi::FI_WRITE != 0,
            waitable: wait_attr.is_waitable(),
        },
    )?;
    let wait = wait_attr.into_method(|set| set.add_events(ctx, &queue, slot.address()))?;
    if let Some(function) = attr.eq_event_handler {
        let callback = Callback {
            function,
            eq: slot.address(),
            context: context.expose_provenance(),
        };
        let functions = Functions::single(function as *const ());
        queue.set_handler(KBox::new(callback, GFP_KERNEL)?, functions)?;
    }
    Ok(slot.init(QueueObject {
        fid: fid_eq {
            fid: new_fid::<QueueObject>(context),
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        queue,
        wait,
    }))
}

/// Opens a queue whose events go to the owner's queue. The attributes apply to the owner's queue and are ignored.
///
/// # Safety
///
/// The contract of `fi_eq_open()`.
unsafe fn open_peer(
    ctx: ProcessContext,
    fabric: &FabricObject,
    slot: UninitObject<QueueObject>,
    context: *mut c_void,
) -> Result<*mut QueueObject> {
    // SAFETY: By the contract of `fi_eq_open()`.
    let owner = unsafe { peer::owner_eq(context)? };
    let queue = fabric.fabric().peer_event_queue(ctx, owner)?;
    Ok(slot.init(QueueObject {
        fid: fid_eq {
            fid: new_fid::<QueueObject>(context),
            ops: ptr::from_ref(&PEER_OPS).cast_mut(),
        },
        queue,
        wait: WaitMethod::NONE,
    }))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe { object::close::<QueueObject>(fid, |object| object.queue.close()) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: By the contract of `fi_control()`.
    into_int(unsafe {
        object::from_fid::<QueueObject>(fid)
            .and_then(|object| object.wait.control(object.queue.wait_queue(), command, arg))
    })
}

/// # Safety
///
/// `eq` is a queue of the C API.
unsafe fn eq_from_fid<'a>(eq: *mut fid_eq) -> &'a EventQueue {
    // SAFETY: By the caller's contract, `eq` is a queue of the C API.
    unsafe { &(*eq.cast::<QueueObject>()).queue }
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
    if total > len {
        return Err(Errno::ETOOSMALL);
    }
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

/// # Safety
///
/// The contract of `fi_eq_read()`.
unsafe fn try_read(
    eq: *mut fid_eq,
    number: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> Result<usize> {
    if number.is_null() || (buf.is_null() && len > 0) {
        return Err(Errno::EINVAL);
    }
    if flags & !abi::FI_PEEK != 0 {
        return Err(Errno::EBADFLAGS);
    }
    let peek = flags & abi::FI_PEEK != 0;
    // SAFETY: By the contract of `fi_eq_read()`.
    let (total, event) =
        unsafe { eq_from_fid(eq).read(peek, |event| write_event(event, number, buf, len))? };
    if let Some(info) = event.and_then(|mut event| event.take_info()) {
        // The entry has the info's address: the reader owns the info, and frees it with `fi_freeinfo()`.
        let _ = Info::into_raw(info);
    }
    Ok(total)
}

unsafe extern "C" fn read(
    eq: *mut fid_eq,
    number: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: By the contract of `fi_eq_read()`.
    into_ssize(unsafe { try_read(eq, number, buf, len, flags) })
}

unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    number: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    let mut budget = Budget::from_millis(timeout);
    loop {
        // SAFETY: By the contract of `fi_eq_sread()`.
        let queue = unsafe { eq_from_fid(eq) };
        if let Err(errno) = in_process().and_then(|ctx| queue.wait(ctx, &mut budget)) {
            return errno.to_ssize();
        }
        // SAFETY: By the contract of `fi_eq_sread()`.
        match unsafe { try_read(eq, number, buf, len, flags) } {
            // Another reader took the event; the budget keeps the remaining time.
            Err(Errno::EAGAIN) => {}
            result => return into_ssize(result),
        }
    }
}

unsafe extern "C" fn readerr(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> isize {
    // SAFETY: By the contract of `fi_eq_readerr()`.
    into_ssize(unsafe {
        match buf.as_mut() {
            None => Err(Errno::EINVAL),
            Some(_) if flags & !abi::FI_PEEK != 0 => Err(Errno::EBADFLAGS),
            Some(entry) => eq_from_fid(eq)
                .read_error(flags & abi::FI_PEEK != 0, |event| {
                    write_error_entry(event, entry)
                })
                .map(|()| size_of::<fi_eq_err_entry>()),
        }
    })
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
        // SAFETY: By the caller's contract, `err_data` has room for `err_data_size` bytes.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), entry.err_data.cast(), len) };
        entry.err_data_size = len;
    }
}

unsafe extern "C" fn write(
    eq: *mut fid_eq,
    number: u32,
    buf: *const c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: By the contract of `fi_eq_write()`.
    into_ssize(unsafe {
        if flags != 0 {
            Err(Errno::EBADFLAGS)
        } else {
            let object = &*eq.cast::<QueueObject>();
            byte_slice(buf, len).and_then(|data| {
                object.queue.write(in_process()?, number, data)?;
                Ok(len)
            })
        }
    })
}

unsafe extern "C" fn describe(
    eq: *mut fid_eq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: By the contract of `fi_eq_strerror()`.
    unsafe { strings::copy_static(eq_from_fid(eq).strerror(prov_errno), buf, len) }
}
