// SPDX-License-Identifier: GPL-2.0

//! Completion queues for C callers.

use super::{
    domain::DomainObject,
    err_data,
    nosys,
    object::{
        self,
        new_fid,
        write_out,
        Object,
        UninitObject, //
    },
    peer,
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
        fi_cq_attr,
        fi_cq_err_entry,
        fi_ops,
        fi_ops_cq,
        fid,
        fid_cq,
        fid_domain,
        Errno,
        Result, //
    },
    fi::{
        cq::{
            read_or_arm,
            sread,
            Attr,
            CompletionQueue,
            ExportedCq,
            Format,
            FormatEntry,
            Handler,
            PeerForward,
            TaskHandler, //
        },
        provider::{
            self,
            CompletionQueue as _, //
        },
        wait::Budget, //
    },
    util::{
        callback::Functions,
        context::{
            in_process,
            InterruptContext,
            ProcessContext, //
        },
        irq_work::InterruptHandler, //
    },
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr,
    slice, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A completion queue, as C callers hold it.
#[repr(C)]
pub(super) struct QueueObject {
    /// `ops` changes once, when the queue is exported.
    fid: UnsafeCell<fid_cq>,
    queue: Arc<CompletionQueue>,
    /// Address of the provider's queue, as the type of [`OwnCq`] in the table that the queue was opened with.
    provider_cq: *const c_void,
    is_waitable: bool,
    /// True if a read that finds no entry arms the queue, for its handler or a waiter on its wait queue.
    arms_if_empty: bool,
    /// Forwards completions to the owner's queue; `None` unless this is a peer's queue.
    import: Option<Arc<PeerForward>>,
    wait: WaitMethod,
    err_data: err_data::Readers,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_cq`, and is the only type with this table.
unsafe impl Object for QueueObject {
    const CLASS: u32 = abi::FI_CLASS_CQ;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, None, Some(control));
        &OPS
    }
}

impl QueueObject {
    /// Returns the Rust object.
    pub(super) fn queue(&self) -> &Arc<CompletionQueue> {
        &self.queue
    }

    /// Returns the queue's wait method.
    pub(super) fn wait(&self) -> &WaitMethod {
        &self.wait
    }
}

/// Maximum number of entries that a read takes. No queue has more, and a slice of so many fits into the
/// address space.
const MAX_READ_COUNT: usize = 1 << 32;

/// Returns the caller's array of entries; -FI_EINVAL for NULL with a count above 0.
///
/// # Safety
///
/// `buf` has room for `count` entries of type `E` for `'a`.
#[inline(always)]
unsafe fn entry_slice<'a, E>(buf: *mut c_void, count: usize) -> Result<&'a mut [MaybeUninit<E>]> {
    if count == 0 {
        return Ok(&mut []);
    }
    // A consumer may pass any count, such as SIZE_MAX for "as many as there are".
    let count = count.min(MAX_READ_COUNT);
    if buf.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the caller's contract, `buf` has room for `count` entries, which need not be initialised.
    Ok(unsafe { slice::from_raw_parts_mut(buf.cast(), count) })
}

/// A C consumer's `cq_event_handler` and its arguments.
struct Callback {
    function: unsafe extern "C" fn(*mut fid_cq, *mut c_void),
    cq: usize,
    context: usize,
}

impl Callback {
    fn invoke(&self) {
        let cq = ptr::with_exposed_provenance_mut(self.cq);
        let context = ptr::with_exposed_provenance_mut(self.context);
        // SAFETY: The queue's object is initialised before the queue is armed, and `close` waits for this
        // call before the object is freed.
        unsafe { (self.function)(cq, context) };
    }
}

impl InterruptHandler for Callback {
    fn handle(&self, _ctx: &InterruptContext) {
        self.invoke();
    }

    fn functions(&self) -> Functions {
        Functions::single(self.function as *const ())
    }
}

impl TaskHandler for Callback {
    fn ready(&self, _ctx: ProcessContext) {
        self.invoke();
    }

    fn functions(&self) -> Functions {
        Functions::single(self.function as *const ())
    }
}

/// Implements `fi_cq_open()`.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    out: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_cq_open()`, arguments are valid or NULL.
    into_int(unsafe { try_open(domain, attr, out, context) })
}

unsafe fn try_open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    out: *mut *mut fid_cq,
    context: *mut c_void,
) -> Result {
    let ctx = in_process()?;
    // SAFETY: By the contract of `fi_cq_open()`.
    let (domain, attr) = unsafe {
        (
            object::from_fid::<DomainObject>(domain.cast())?,
            attr.as_mut(),
        )
    };
    let attr = attr.ok_or(Errno::EINVAL)?;
    if out.is_null() {
        return Err(Errno::EINVAL);
    }
    let format = match attr.format {
        abi::FI_CQ_FORMAT_UNSPEC | abi::FI_CQ_FORMAT_CONTEXT => Format::Context,
        abi::FI_CQ_FORMAT_MSG => Format::Msg,
        abi::FI_CQ_FORMAT_DATA => Format::Data,
        abi::FI_CQ_FORMAT_TAGGED => Format::Tagged,
        _ => return Err(Errno::EINVAL),
    };
    if attr.flags & !(abi::FI_AFFINITY | abi::FI_CB_CTX_INTR | abi::FI_PEER) != 0 {
        return Err(Errno::EINVAL);
    }
    let owner = match attr.flags & abi::FI_PEER {
        0 => None,
        // SAFETY: By the contract of `fi_cq_open()`.
        _ => Some(unsafe { peer::owner_cq(context, domain.domain().addr_format())? }),
    };
    // A work item reads a peer's queue, concurrently with the consumer's calls, so the domain must not be
    // serialized.
    if owner.is_some() && domain.domain().threading().is_serialized() {
        return Err(Errno::EINVAL);
    }
    // FI_CB_CTX_INTR is invalid without a handler.
    if attr.flags & abi::FI_CB_CTX_INTR != 0 && attr.cq_event_handler.is_none() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the contract of `fi_cq_open()`.
    let wait_attr = unsafe { WaitAttr::new(attr.wait_obj, attr.wait_set)? };
    // The wait object and the handler apply to the owner's queue, not to the peer's.
    let waitable = wait_attr.is_waitable() && owner.is_none();
    let handler = attr.cq_event_handler.filter(|_| owner.is_none());
    match attr.wait_cond {
        abi::FI_CQ_COND_NONE => {}
        abi::FI_CQ_COND_THRESHOLD => return Err(Errno::ENOSYS),
        _ => return Err(Errno::EINVAL),
    }
    let vector = match attr.flags & abi::FI_AFFINITY {
        0 => 0,
        _ => u32::try_from(attr.signaling_vector).map_err(|_| Errno::EINVAL)?,
    };
    let queue = domain.domain().completion_queue(&Attr {
        size: attr.size,
        format,
        waitable,
        vector,
    })?;
    let slot = UninitObject::<QueueObject>::new()?;
    let provider_cq = domain.provider_ops().provider_cq(queue.core())?;
    let err_data = err_data::Readers::new(domain.domain().addr_format())?;
    if let Some(function) = handler {
        let callback = KBox::new(
            Callback {
                function,
                cq: slot.address(),
                context: context.expose_provenance(),
            },
            GFP_KERNEL,
        )?;
        queue.set_handler(if attr.flags & abi::FI_CB_CTX_INTR != 0 {
            Handler::Interrupt(callback)
        } else {
            Handler::Task(callback)
        })?;
    }
    attr.format = match format {
        Format::Context => abi::FI_CQ_FORMAT_CONTEXT,
        _ => attr.format,
    };
    let armed = handler.map(|_| queue.clone());
    let arms_if_empty = armed.is_some() || wait_attr.has_wait_queue();
    let wait = match owner {
        Some(_) => WaitMethod::NONE,
        None => wait_attr.into_method(|set| set.add_completions(ctx, &queue, slot.address()))?,
    };
    // The import comes last, because it cannot be undone here: forwarding holds a reference on the queue,
    // which only `close` drops.
    let import = match owner {
        Some(owner) => Some(queue.import(owner)?),
        None => None,
    };
    let ops = match &import {
        Some(_) => &FORWARDED_OPS,
        None => (domain.provider_ops().cq)(format, arms_if_empty),
    };
    let made = slot.init(QueueObject {
        fid: UnsafeCell::new(fid_cq {
            fid: new_fid::<QueueObject>(context),
            ops: ptr::from_ref(ops).cast_mut(),
        }),
        queue,
        provider_cq,
        is_waitable: waitable,
        arms_if_empty,
        import,
        wait,
        err_data,
    });
    // SAFETY: `out` is not NULL, and valid by the contract of `fi_cq_open()`.
    unsafe { write_out(out, made) };
    if let Some(queue) = armed {
        queue.arm_handler();
    }
    Ok(())
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe {
        object::close::<QueueObject>(fid, |object| {
            object.queue.close()?;
            if let Some(import) = &object.import {
                import.stop();
            }
            Ok(())
        })
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: By the contract of `fi_control()`.
    into_int(unsafe {
        object::from_fid::<QueueObject>(fid).and_then(|object| {
            match u32::try_from(command) == Ok(abi::FI_EXPORT_FID) {
                true => export(object, arg),
                false => object.wait.control(object.queue.wait_queue(), command, arg),
            }
        })
    })
}

/// Exports the queue (`fi_export_fid()`).
///
/// # Errors
///
/// -FI_EINVAL for a peer's queue, and the errors of [`peer::export_cq`].
///
/// # Safety
///
/// The requirements of [`peer::export_cq`].
unsafe fn export(object: &QueueObject, arg: *mut c_void) -> Result {
    // Completions of a peer's queue are read from its owner's queue.
    if object.import.is_some() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the contract of `peer::export_cq`.
    unsafe { peer::export_cq(&object.queue, arg)? };
    let ops = ops::<MergedCq>(object.queue.attr().format, object.arms_if_empty);
    // A concurrent read may still use the old table; it does not return entries that peers have written.
    // SAFETY: Only C code reads the field, and both tables are valid for this queue.
    unsafe { (&raw mut (*object.fid.get()).ops).write_volatile(ptr::from_ref(ops).cast_mut()) };
    Ok(())
}

/// Table of calls of a peer's queue. Its completions are read from the owner's queue; `read` drives progress
/// only.
static FORWARDED_OPS: fi_ops_cq = fi_ops_cq {
    read: Some(drive),
    strerror: Some(strerror_forwarded),
    ..nosys::CQ
};

/// Drives progress: the owner calls `fi_cq_read()` with a NULL buffer and a count of 0.
unsafe extern "C" fn drive(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: By the contract of `fi_cq_read()`.
    let object = unsafe { object::from_fid::<QueueObject>(cq.cast()) };
    into_ssize(
        match (object.map(|object| &object.import), buf.is_null(), count) {
            (Ok(Some(import)), true, 0) => {
                import.progress();
                Ok(0)
            }
            (Ok(Some(_)), ..) => Err(Errno::ENOSYS),
            _ => Err(Errno::EINVAL),
        },
    )
}

unsafe extern "C" fn strerror_forwarded(
    cq: *mut fid_cq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: By the contract of `fi_cq_strerror()`.
    match unsafe { object::from_fid::<QueueObject>(cq.cast()) } {
        // SAFETY: By the contract of `fi_cq_strerror()`.
        Ok(object) => unsafe {
            super::strings::copy_static(object.queue.core().strerror(prov_errno), buf, len)
        },
        Err(_) => ptr::null(),
    }
}

/// Selects the queue that the calls of a [`QueueObject`] read: the provider's, or the exported one.
pub(super) trait CqPath {
    /// Type of the queue that is read.
    type Queue: provider::CompletionQueue;

    /// Returns the queue of an object whose table of calls is for this type.
    ///
    /// # Safety
    ///
    /// The object's table is, or was, the one for this type.
    unsafe fn queue(object: &QueueObject) -> &Self::Queue;
}

/// Reads the provider's own queue, of type `Q`.
pub(super) struct OwnCq<Q>(PhantomData<Q>);

impl<Q: provider::CompletionQueue> CqPath for OwnCq<Q> {
    type Queue = Q;

    #[inline(always)]
    unsafe fn queue(object: &QueueObject) -> &Q {
        // SAFETY: `open` gives this table only to queues of type `Q`.
        unsafe { &*object.provider_cq.cast::<Q>() }
    }
}

/// Reads an exported queue, which has the provider's entries and those that peers write.
struct MergedCq;

impl CqPath for MergedCq {
    type Queue = ExportedCq;

    #[inline]
    unsafe fn queue(object: &QueueObject) -> &ExportedCq {
        // SAFETY: `export` gives this table only to queues that have been exported.
        unsafe { object.queue.exported().unwrap_unchecked() }
    }
}

/// Returns the table of calls for queues that are read through `W`, with entries of one format. `arms_if_empty` is
/// true if a read that finds no entry arms the queue.
pub(super) fn ops<W: CqPath>(format: Format, arms_if_empty: bool) -> &'static fi_ops_cq {
    match format {
        Format::Context => ops_for_entry::<W, abi::fi_cq_entry>(arms_if_empty),
        Format::Msg => ops_for_entry::<W, abi::fi_cq_msg_entry>(arms_if_empty),
        Format::Data => ops_for_entry::<W, abi::fi_cq_data_entry>(arms_if_empty),
        Format::Tagged => ops_for_entry::<W, abi::fi_cq_tagged_entry>(arms_if_empty),
    }
}

fn ops_for_entry<W: CqPath, E: FormatEntry>(arms_if_empty: bool) -> &'static fi_ops_cq {
    match arms_if_empty {
        false => &Table::<W, E, false>::OPS,
        true => &Table::<W, E, true>::OPS,
    }
}

/// Table of calls for queues that are read through `W`, with entries of type `E`. With `ARMS`, which costs
/// time, a read that finds no entry arms the queue: for queues with a handler or with waiters on the wait
/// queue.
struct Table<W, E, const ARMS: bool>(PhantomData<(W, E)>);

/// Returns the object of a queue, and the queue to read.
///
/// # Safety
///
/// `cq` is a queue of the C API whose `ops` is, or was, the table of `W`.
#[inline]
unsafe fn cq_from_fid<'a, W: CqPath>(cq: *mut fid_cq) -> (&'a QueueObject, &'a W::Queue) {
    // SAFETY: By the caller's contract, `cq` is a queue of the C API.
    let object = unsafe { &*cq.cast::<QueueObject>() };
    // SAFETY: By the caller's contract, its table is, or was, the one of `W`.
    (object, unsafe { W::queue(object) })
}

/// Reads entries and, if `src_addr` is not NULL, their source addresses.
///
/// # Safety
///
/// `src_addr` is NULL, or has room for as many addresses as `room` has for entries.
unsafe fn read_entries<Q: provider::CompletionQueue, E: FormatEntry>(
    queue: &Q,
    room: &mut [MaybeUninit<E>],
    src_addr: *mut abi::fi_addr_t,
) -> Result<usize> {
    if src_addr.is_null() {
        return queue.read(E::entries(room));
    }
    // SAFETY: By the caller's contract, `src_addr` has room for that many addresses, which need not be
    // initialised.
    let sources = unsafe { slice::from_raw_parts_mut(src_addr.cast(), room.len()) };
    queue.read_from(E::entries(room), sources)
}

impl<W: CqPath, E: FormatEntry, const ARMS: bool> Table<W, E, ARMS> {
    const OPS: fi_ops_cq = fi_ops_cq {
        size: size_of::<fi_ops_cq>(),
        read: Some(Self::read),
        readfrom: Some(Self::readfrom),
        readerr: Some(readerr::<W>),
        sread: Some(Self::sread),
        sreadfrom: Some(Self::sreadfrom),
        signal: Some(signal::<W>),
        strerror: Some(strerror::<W>),
    };

    #[inline]
    fn read_maybe_arm(queue: &W::Queue, mut read: impl FnMut() -> Result<usize>) -> Result<usize> {
        if ARMS {
            read_or_arm(queue, read)
        } else {
            read()
        }
    }

    unsafe extern "C" fn read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize {
        // SAFETY: By the contract of `fi_cq_read()`.
        into_ssize(unsafe {
            let (_, queue) = cq_from_fid::<W>(cq);
            entry_slice::<E>(buf, count)
                .and_then(|room| Self::read_maybe_arm(queue, || queue.read(E::entries(room))))
        })
    }

    unsafe extern "C" fn readfrom(
        cq: *mut fid_cq,
        buf: *mut c_void,
        count: usize,
        src_addr: *mut abi::fi_addr_t,
    ) -> isize {
        // SAFETY: By the contract of `fi_cq_readfrom()`.
        into_ssize(unsafe {
            let (_, queue) = cq_from_fid::<W>(cq);
            entry_slice::<E>(buf, count).and_then(|room| {
                Self::read_maybe_arm(queue, || read_entries(queue, room, src_addr))
            })
        })
    }

    unsafe extern "C" fn sread(
        cq: *mut fid_cq,
        buf: *mut c_void,
        count: usize,
        _cond: *const c_void,
        timeout: c_int,
    ) -> isize {
        // SAFETY: By the contract of `fi_cq_sread()`.
        into_ssize(unsafe {
            let (object, queue) = cq_from_fid::<W>(cq);
            entry_slice::<E>(buf, count).and_then(|room| {
                let mut budget = Budget::from_millis(timeout);
                let read = || queue.read(E::entries(room));
                sread(in_process()?, queue, object.is_waitable, read, &mut budget)
            })
        })
    }

    unsafe extern "C" fn sreadfrom(
        cq: *mut fid_cq,
        buf: *mut c_void,
        count: usize,
        src_addr: *mut abi::fi_addr_t,
        _cond: *const c_void,
        timeout: c_int,
    ) -> isize {
        // SAFETY: By the contract of `fi_cq_sreadfrom()`.
        into_ssize(unsafe {
            let (object, queue) = cq_from_fid::<W>(cq);
            entry_slice::<E>(buf, count).and_then(|room| {
                let mut budget = Budget::from_millis(timeout);
                let read = || read_entries(queue, room, src_addr);
                sread(in_process()?, queue, object.is_waitable, read, &mut budget)
            })
        })
    }
}

unsafe extern "C" fn readerr<W: CqPath>(
    cq: *mut fid_cq,
    buf: *mut fi_cq_err_entry,
    flags: u64,
) -> isize {
    // SAFETY: By the contract of `fi_cq_readerr()`.
    into_ssize(unsafe {
        let (object, queue) = cq_from_fid::<W>(cq);
        match (buf.as_mut(), flags) {
            (None, _) => Err(Errno::EINVAL),
            (Some(_), flags) if flags != 0 => Err(Errno::EBADFLAGS),
            (Some(entry), _) => queue.read_error().map(|failure| {
                let done = &failure.completion;
                entry.op_context = done.context.as_ptr();
                entry.flags = done.flags;
                entry.len = done.len;
                entry.buf = ptr::without_provenance_mut(done.buf);
                entry.data = done.data;
                entry.tag = done.tag;
                entry.olen = failure.olen;
                entry.err = failure.errno.code();
                entry.prov_errno = failure.prov_errno;
                entry.src_addr = done.source;
                object.err_data.write(failure.err_data, entry);
                1
            }),
        }
    })
}

unsafe extern "C" fn signal<W: CqPath>(cq: *mut fid_cq) -> c_int {
    // SAFETY: By the contract of `fi_cq_signal()`.
    into_int(unsafe { cq_from_fid::<W>(cq) }.0.queue.signal())
}

unsafe extern "C" fn strerror<W: CqPath>(
    cq: *mut fid_cq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: By the contract of `fi_cq_strerror()`.
    unsafe {
        let (_, queue) = cq_from_fid::<W>(cq);
        super::strings::copy_static(queue.strerror(prov_errno), buf, len)
    }
}
