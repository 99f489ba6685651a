// SPDX-License-Identifier: GPL-2.0

//! Completion queues for C callers.

use super::{
    domain::DomainObject,
    err_data,
    object::copy_static,
    peer,
    prelude::*,
    wait::{
        Callback,
        WaitAttr,
        WaitMethod, //
    },
};
use crate::{
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
    pub(super) queue: Arc<CompletionQueue>,
    /// Address of the provider's queue, as the type of [`OwnCq`] in the table that the queue was opened with.
    provider_cq: *const c_void,
    is_waitable: bool,
    /// True if a read that finds no entry arms the queue, for its handler or a waiter on its wait queue.
    arms_if_empty: bool,
    /// Forwards completions to the owner's queue; `None` unless this is a peer's queue.
    import: Option<Arc<PeerForward>>,
    pub(super) wait: WaitMethod,
    err_data: err_data::Readers,
}

fi_ops! {
    impl Object for QueueObject: FI_CLASS_CQ {
        control: fn fi_control(cq: &QueueObject, command, arg) -> Result {
            match command as u32 {
                // SAFETY: For this command, `arg` is NULL or a valid `struct fi_fid_export`.
                abi::FI_EXPORT_FID => unsafe { export(cq, command, arg) },
                // SAFETY: For this command, `arg` is NULL or a valid `struct fi_fid_var`.
                abi::FI_SET_VAL => unsafe { set_variable(cq, arg) },
                // SAFETY: `arg` is NULL or as the command requires.
                _ => unsafe { cq.wait.control(cq.queue.wait_queue(), command, arg) },
            }
        }
    }
    close(cq) {
        cq.queue.close()?;
        if let Some(import) = &cq.import {
            import.stop();
        }
        Ok(())
    }
}

/// Sets a variable of a queue (`fi_set_val()`). May sleep.
///
/// # Safety
///
/// `arg` is NULL or a valid `struct fi_fid_var`, whose value is NULL or of the type of its name.
unsafe fn set_variable(cq: &QueueObject, arg: *mut c_void) -> Result {
    // SAFETY: By the caller's contract.
    let variable = unsafe { arg.cast::<abi::fi_fid_var>().as_ref() }.ok_or(Errno::EINVAL)?;
    let core = cq.queue.core();
    match variable.name {
        abi::FI_KOFI_CQ_MODERATION => {
            // SAFETY: By the caller's contract.
            let value = unsafe { variable.val.cast::<abi::fi_kofi_cq_moderation>().as_ref() };
            let value = value.ok_or(Errno::EINVAL)?;
            in_process()?;
            core.set_moderation(value.count, value.period)
        }
        abi::FI_KOFI_CQ_ADAPTIVE => {
            // SAFETY: By the caller's contract.
            let value = unsafe { variable.val.cast::<usize>().as_ref() };
            let value = value.filter(|value| **value <= 1).ok_or(Errno::EINVAL)?;
            in_process()?;
            core.set_adaptive(*value == 1)
        }
        _ => Err(Errno::ENOSYS),
    }
}

/// Maximum number of entries that a read takes. No queue has more, and a slice of so many fits into the
/// address space.
const MAX_READ_COUNT: usize = 1 << 32;

/// Returns the caller's array of entries; -FI_EINVAL for NULL with a count above 0.
///
/// # Safety
///
/// `buf` has space for `count` entries of type `E` for `'a`.
#[inline(always)]
unsafe fn entry_slice<'a, E>(buf: *mut c_void, count: usize) -> Result<&'a mut [MaybeUninit<E>]> {
    if count == 0 {
        return Ok(&mut []);
    }
    // A consumer may pass any count, such as SIZE_MAX for "as many as there are".
    let count = count.min(MAX_READ_COUNT);
    ensure(!buf.is_null(), Errno::EINVAL)?;
    // SAFETY: By the caller's contract, `buf` has space for `count` entries, which need not be initialised.
    Ok(unsafe { slice::from_raw_parts_mut(buf.cast(), count) })
}

impl InterruptHandler for Callback<fid_cq> {
    fn handle(&self, _ctx: &InterruptContext) {
        self.invoke();
    }

    fn functions(&self) -> Functions {
        Callback::functions(self)
    }
}

impl TaskHandler for Callback<fid_cq> {
    fn ready(&self, _ctx: ProcessContext) {
        self.invoke();
    }

    fn functions(&self) -> Functions {
        Callback::functions(self)
    }
}

fi_ops! {
    /// `fi_cq_open()`.
    pub(super) const DOMAIN_OPS: fi_ops_domain {
        cq_open: fn fi_cq_open(domain: InProcess<&DomainObject>, attr, out, context) -> Result {
            // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
            let (attr, slot) = unsafe { open_args(attr, out)? };
            let format = match attr.format {
                abi::FI_CQ_FORMAT_UNSPEC | abi::FI_CQ_FORMAT_CONTEXT => Format::Context,
                abi::FI_CQ_FORMAT_MSG => Format::Msg,
                abi::FI_CQ_FORMAT_DATA => Format::Data,
                abi::FI_CQ_FORMAT_TAGGED => Format::Tagged,
                _ => return Err(Errno::EINVAL),
            };
            let contexts = abi::FI_CB_CTX_INTR | abi::FI_CB_CTX_SOFTIRQ;
            let known = abi::FI_AFFINITY | contexts | abi::FI_PEER;
            ensure(attr.flags & !known == 0, Errno::EINVAL)?;
            let owner = match attr.flags & abi::FI_PEER {
                0 => None,
                // SAFETY: With FI_PEER, `context` is NULL or a `struct fi_peer_cq_context` whose queue is valid until
                // the last entry has been written to it.
                _ => Some(unsafe { peer::import_cq(context, domain.domain.addr_format())? }),
            };
            // A work item reads a peer's queue, concurrently with the consumer's calls, so the domain must not be
            // serialized.
            ensure(owner.is_none() || !domain.domain.threading().is_serialized(), Errno::EINVAL)?;
            // At most one context, which is invalid without a handler.
            let context_flag = attr.flags & contexts;
            ensure(context_flag != contexts, Errno::EINVAL)?;
            ensure(context_flag == 0 || attr.cq_event_handler.is_some(), Errno::EINVAL)?;
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
            let queue = domain.domain.completion_queue(&Attr {
                size: attr.size,
                format,
                waitable,
                vector,
            })?;
            let provider_cq = (domain.provider_ops.cq_addr)(queue.core().as_any())?;
            let err_data = err_data::Readers::new(domain.domain.addr_format())?;
            if let Some(function) = handler {
                let callback = KBox::new(
                    Callback {
                        function,
                        object: slot.address(),
                        context: context.expose_provenance(),
                    },
                    GFP_KERNEL,
                )?;
                queue.set_handler(match context_flag {
                    abi::FI_CB_CTX_INTR => Handler::Interrupt(callback),
                    abi::FI_CB_CTX_SOFTIRQ => Handler::Softirq(callback),
                    _ => Handler::Task(callback),
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
            let import = owner.map(|owner| queue.import(owner)).transpose()?;
            let ops = match &import {
                Some(_) => &FORWARDED_OPS,
                None => (domain.provider_ops.cq)(format, arms_if_empty),
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
unsafe fn export(object: &QueueObject, command: c_int, arg: *mut c_void) -> Result {
    // Completions of a peer's queue are read from its owner's queue.
    ensure(object.import.is_none(), Errno::EINVAL)?;
    // SAFETY: By the contract of `peer::export_cq`.
    unsafe { peer::export_cq(&object.queue, command, arg)? };
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
        read: fn fi_cq_read(cq: &QueueObject, buf, count) -> Result<usize> {
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
            cq: &QueueObject, prov_errno, _err_data, buf, len,
        ) -> *const c_char {
            // SAFETY: `buf` is NULL or valid for `len` bytes.
            unsafe { copy_static(cq.queue.core().strerror(prov_errno), buf, len) }
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
/// `src_addr` is NULL, or has space for as many addresses as `space` has for entries.
unsafe fn read_entries<Q: provider::CompletionQueue, E: FormatEntry>(
    queue: &Q,
    space: &mut [MaybeUninit<E>],
    src_addr: *mut abi::fi_addr_t,
) -> Result<usize> {
    if src_addr.is_null() {
        return queue.read(E::entries(space));
    }
    // SAFETY: By the caller's contract, `src_addr` has space for that many addresses, which need not be
    // initialised.
    let sources = unsafe { slice::from_raw_parts_mut(src_addr.cast(), space.len()) };
    queue.read_from(E::entries(space), sources)
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
            read: fn fi_cq_read(cq: TypedCq<'_, W>, buf, count) -> Result<usize> {
                // SAFETY: `buf` has space for `count` entries of the queue's format.
                let space = unsafe { entry_slice::<E>(buf, count)? };
                Self::read_maybe_arm(cq.queue, || cq.queue.read(E::entries(space)))
            }

            readfrom: fn fi_cq_readfrom(cq: TypedCq<'_, W>, buf, count, src_addr) -> Result<usize> {
                // SAFETY: `buf` has space for `count` entries of the queue's format.
                let space = unsafe { entry_slice::<E>(buf, count)? };
                // SAFETY: `src_addr` is NULL or has space for `count` addresses.
                let read = || unsafe { read_entries(cq.queue, space, src_addr) };
                Self::read_maybe_arm(cq.queue, read)
            }

            sread: fn fi_cq_sread(cq: TypedCq<'_, W>, buf, count, _cond, timeout) -> Result<usize> {
                // SAFETY: `buf` has space for `count` entries of the queue's format.
                let space = unsafe { entry_slice::<E>(buf, count)? };
                let mut budget = Budget::from_millis(timeout);
                let read = || cq.queue.read(E::entries(space));
                let waitable = cq.object.is_waitable;
                sread(in_process()?, cq.queue, waitable, read, &mut budget)
            }

            sreadfrom: fn fi_cq_sreadfrom(
                cq: TypedCq<'_, W>, buf, count, src_addr, _cond, timeout,
            ) -> Result<usize> {
                // SAFETY: `buf` has space for `count` entries of the queue's format.
                let space = unsafe { entry_slice::<E>(buf, count)? };
                let mut budget = Budget::from_millis(timeout);
                // SAFETY: `src_addr` is NULL or has space for `count` addresses.
                let read = || unsafe { read_entries(cq.queue, space, src_addr) };
                let waitable = cq.object.is_waitable;
                sread(in_process()?, cq.queue, waitable, read, &mut budget)
            }
        }
        from AnyFormat::<W>::OPS;
    }
}

/// Calls of queues that are read through `W`, for entries of any format.
struct AnyFormat<W>(PhantomData<W>);

impl<W: CqPath> AnyFormat<W> {
    fi_ops! {
        const OPS: fi_ops_cq {
            readerr: fn fi_cq_readerr(cq: TypedCq<'_, W>, buf, flags) -> Result<usize> {
                // SAFETY: `buf` is NULL or valid, and not shared during the call.
                let entry = unsafe { buf.as_mut() }.ok_or(Errno::EINVAL)?;
                ensure(flags == 0, Errno::EBADFLAGS)?;
                let failure = cq.queue.read_error()?;
                err_data::fill_entry(entry, &failure);
                // SAFETY: `err_data` is NULL or valid for `err_data_size` bytes.
                unsafe { cq.object.err_data.write(failure.err_data, entry) };
                Ok(1)
            }

            signal: fn fi_cq_signal(cq: TypedCq<'_, W>) -> Result {
                cq.object.queue.signal()
            }

            strerror: fn fi_cq_strerror(
                cq: TypedCq<'_, W>, prov_errno, _err_data, buf, len,
            ) -> *const c_char {
                // SAFETY: `buf` is NULL or valid for `len` bytes.
                unsafe { copy_static(cq.queue.strerror(prov_errno), buf, len) }
            }
        }
    }
}
