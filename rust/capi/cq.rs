// SPDX-License-Identifier: GPL-2.0

//! Completion queues for C callers.

use super::{
    domain::DomainObject,
    err_data,
    object::{
        new_fid,
        Opening, //
    },
    ops::{
        fi_ops,
        FromFid,
        InProcess, //
    },
    peer, strings,
    wait::{
        WaitAttr,
        WaitMethod, //
    },
};
use crate::{
    abi::{
        fi_cq_attr,
        fi_cq_err_entry,
        fi_ops_cq,
        fid_cq, //
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
        prelude::*,
        provider::{
            self,
            CompletionQueue as _, //
        },
        wait::Budget, //
    },
    util::{
        callback::Functions,
        context::InterruptContext,
        irq_work::InterruptHandler, //
    },
};
use core::cell::UnsafeCell;

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

fi_ops! {
    impl Object for QueueObject: FI_CLASS_CQ {
        close: fn fi_close(cq) {
            cq.queue.close()?;
            if let Some(import) = &cq.import {
                import.stop();
            }
            Ok(())
        }

        control: fn fi_control(
            cq: *mut fid as &QueueObject,
            command: c_int,
            arg: *mut c_void,
        ) -> Result {
            match u32::try_from(command) == Ok(abi::FI_EXPORT_FID) {
                // SAFETY: For this command, `arg` is NULL or a valid `struct fi_fid_export`.
                true => unsafe { export(cq, arg) },
                // SAFETY: `arg` is NULL or as the command requires.
                false => unsafe { cq.wait.control(cq.queue.wait_queue(), command, arg) },
            }
        }
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

fi_ops! {
    pub(super) fn fi_cq_open(
        domain: *mut fid_domain as InProcess<&DomainObject>,
        attr: *mut fi_cq_attr,
        out: *mut *mut fid_cq,
        context: *mut c_void,
    ) -> Result {
        // SAFETY: `attr` is NULL or valid, and not shared during the call.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::EINVAL)?;
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
            // SAFETY: With FI_PEER, `context` is NULL or a `struct fi_peer_cq_context` whose queue is valid until
            // the last entry has been written to it.
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
        // SAFETY: With FI_WAIT_SET, the wait set is NULL or valid.
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
        // SAFETY: `out` is valid.
        let slot = unsafe { Opening::<QueueObject, _>::new(out)? };
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
            None => wait_attr
                .into_method(|set| set.add_completions(domain.ctx, &queue, slot.address()))?,
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
        slot.open(QueueObject {
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
        })?;
        if let Some(queue) = armed {
            queue.arm_handler();
        }
        Ok(())
    }
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

fi_ops! {
    /// Table of calls of a peer's queue. Its completions are read from the owner's queue; `read` drives progress
    /// only: the owner calls `fi_cq_read()` with a NULL buffer and a count of 0.
    static FORWARDED_OPS: fi_ops_cq {
        read: fn fi_cq_read(
            cq: *mut fid_cq as &QueueObject,
            buf: *mut c_void,
            count: usize,
        ) -> Result<usize> {
            match (&cq.import, buf.is_null(), count) {
                (Some(import), true, 0) => {
                    import.progress();
                    Ok(0)
                }
                (Some(_), ..) => Err(Errno::ENOSYS),
                (None, ..) => Err(Errno::EINVAL),
            }
        }

        strerror: fn fi_cq_strerror(
            cq: *mut fid_cq as &QueueObject,
            prov_errno: c_int,
            _err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char {
            // SAFETY: `buf` is NULL or valid for `len` bytes.
            unsafe { strings::copy_static(cq.queue.core().strerror(prov_errno), buf, len) }
        }
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

/// A queue whose `ops` is, or was, the table of `W`. The class is not checked.
struct TypedCq<'a, W: CqPath> {
    object: &'a QueueObject,
    /// The queue to read.
    queue: &'a W::Queue,
}

impl<W: CqPath> FromFid for TypedCq<'_, W> {
    #[inline(always)]
    unsafe fn from_fid(fid: *mut fid) -> Result<Self> {
        // SAFETY: By the contract of this function, `fid` is a queue of the C API.
        let object = unsafe { &*fid.cast::<QueueObject>() };
        // SAFETY: By the contract of this function, its table is, or was, the one of `W`.
        let queue = unsafe { W::queue(object) };
        Ok(Self { object, queue })
    }
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
    #[inline]
    fn read_maybe_arm(queue: &W::Queue, mut read: impl FnMut() -> Result<usize>) -> Result<usize> {
        if ARMS {
            read_or_arm(queue, read)
        } else {
            read()
        }
    }

    fi_ops! {
        const OPS: fi_ops_cq {
            read: fn fi_cq_read(
                cq: *mut fid_cq as TypedCq<'_, W>,
                buf: *mut c_void,
                count: usize,
            ) -> Result<usize> {
                // SAFETY: `buf` has room for `count` entries of the queue's format.
                let room = unsafe { entry_slice::<E>(buf, count)? };
                Self::read_maybe_arm(cq.queue, || cq.queue.read(E::entries(room)))
            }

            readfrom: fn fi_cq_readfrom(
                cq: *mut fid_cq as TypedCq<'_, W>,
                buf: *mut c_void,
                count: usize,
                src_addr: *mut abi::fi_addr_t,
            ) -> Result<usize> {
                // SAFETY: `buf` has room for `count` entries of the queue's format.
                let room = unsafe { entry_slice::<E>(buf, count)? };
                // SAFETY: `src_addr` is NULL or has room for `count` addresses.
                let read = || unsafe { read_entries(cq.queue, room, src_addr) };
                Self::read_maybe_arm(cq.queue, read)
            }

            sread: fn fi_cq_sread(
                cq: *mut fid_cq as TypedCq<'_, W>,
                buf: *mut c_void,
                count: usize,
                _cond: *const c_void,
                timeout: c_int,
            ) -> Result<usize> {
                // SAFETY: `buf` has room for `count` entries of the queue's format.
                let room = unsafe { entry_slice::<E>(buf, count)? };
                let mut budget = Budget::from_millis(timeout);
                let read = || cq.queue.read(E::entries(room));
                sread(
                    in_process()?,
                    cq.queue,
                    cq.object.is_waitable,
                    read,
                    &mut budget,
                )
            }

            sreadfrom: fn fi_cq_sreadfrom(
                cq: *mut fid_cq as TypedCq<'_, W>,
                buf: *mut c_void,
                count: usize,
                src_addr: *mut abi::fi_addr_t,
                _cond: *const c_void,
                timeout: c_int,
            ) -> Result<usize> {
                // SAFETY: `buf` has room for `count` entries of the queue's format.
                let room = unsafe { entry_slice::<E>(buf, count)? };
                let mut budget = Budget::from_millis(timeout);
                // SAFETY: `src_addr` is NULL or has room for `count` addresses.
                let read = || unsafe { read_entries(cq.queue, room, src_addr) };
                sread(
                    in_process()?,
                    cq.queue,
                    cq.object.is_waitable,
                    read,
                    &mut budget,
                )
            }
        }
        with {
            readerr: Some(AnyFormat::<W>::fi_cq_readerr),
            signal: Some(AnyFormat::<W>::fi_cq_signal),
            strerror: Some(AnyFormat::<W>::fi_cq_strerror),
        }
    }
}

/// Calls of queues that are read through `W`, for entries of any format.
struct AnyFormat<W>(PhantomData<W>);

impl<W: CqPath> AnyFormat<W> {
    fi_ops! {
        fn fi_cq_readerr(
            cq: *mut fid_cq as TypedCq<'_, W>,
            buf: *mut fi_cq_err_entry,
            flags: u64,
        ) -> Result<usize> {
            // SAFETY: `buf` is NULL or valid, and not shared during the call.
            let entry = unsafe { buf.as_mut() }.ok_or(Errno::EINVAL)?;
            if flags != 0 {
                return Err(Errno::EBADFLAGS);
            }
            let failure = cq.queue.read_error()?;
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
            // SAFETY: `err_data` is NULL or valid for `err_data_size` bytes.
            unsafe { cq.object.err_data.write(failure.err_data, entry) };
            Ok(1)
        }

        fn fi_cq_signal(cq: *mut fid_cq as TypedCq<'_, W>) -> Result {
            cq.object.queue.signal()
        }

        fn fi_cq_strerror(
            cq: *mut fid_cq as TypedCq<'_, W>,
            prov_errno: c_int,
            _err_data: *const c_void,
            buf: *mut c_char,
            len: usize,
        ) -> *const c_char {
            // SAFETY: `buf` is NULL or valid for `len` bytes.
            unsafe { strings::copy_static(cq.queue.strerror(prov_errno), buf, len) }
        }
    }
}
