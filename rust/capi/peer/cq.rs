// SPDX-License-Identifier: GPL-2.0

//! Completion queues that providers share: exports to other modules' providers, and imports from them.

use super::{
    super::{
        err_data,
        prelude::*, //
    },
    check_class,
    checked_struct, //
};
use crate::{
    abi::errno::from_int,
    fi::cq::{
        Completion,
        CompletionQueue,
        CqEntry,
        CqExport,
        CqOwner,
        Failure, //
    },
    util::callback::Functions, //
};

/// An exported completion queue, which begins with its `struct fid_peer_cq`.
#[repr(C)]
struct ExportedCq {
    fid: fid_peer_cq,
    export: Arc<CqExport>,
}

fi_ops! {
    impl Object for ExportedCq: FI_CLASS_PEER_CQ {}
}

fi_ops! {
    /// The table of calls by which peers write completions to an exported queue.
    static OWNER_OPS: fi_ops_cq_owner {
        write: fn write(
            cq: &ExportedCq, context, flags, len, buf, data, tag, src,
        ) -> Result<usize> {
            cq.write(CqEntry::Done(Completion {
                context: Context::new(context),
                flags,
                len,
                data,
                buf: buf.addr(),
                tag,
                source: src,
            }))
        }

        writeerr: fn writeerr(cq: *mut fid, entry) -> Result<usize> {
            // SAFETY: `entry` is NULL or valid.
            let entry = unsafe { entry.as_ref() }.ok_or(Errno::EINVAL)?;
            let errno = Errno::new(entry.err).ok_or(Errno::EINVAL)?;
            // SAFETY: The entry's error data is NULL or as long as it says.
            let err_data = unsafe { err_data::copy_from_entry(entry) }.map_err(|_| Errno::EAGAIN)?;
            // SAFETY: `cq` is NULL or valid.
            let cq = unsafe { from_fid::<ExportedCq>(cq)? };
            cq.write(CqEntry::Failed(Failure {
                completion: Completion {
                    context: Context::new(entry.op_context),
                    flags: entry.flags,
                    len: entry.len,
                    data: entry.data,
                    buf: entry.buf.addr(),
                    tag: entry.tag,
                    source: entry.src_addr,
                },
                olen: entry.olen,
                errno,
                prov_errno: entry.prov_errno,
                err_data,
            }))
        }
    }
}

/// Exports a queue (`fi_export_fid()`). May sleep.
///
/// # Errors
///
/// The errors of [`super::export`].
///
/// # Safety
///
/// The requirements of [`super::export`].
pub(in super::super) unsafe fn export_cq(
    cq: &Arc<CompletionQueue>,
    command: c_int,
    arg: *mut c_void,
) -> Result {
    let make = |fid| {
        Ok(ExportedCq {
            fid: fid_peer_cq {
                fid,
                owner_ops: ptr::from_ref(&OWNER_OPS).cast_mut(),
            },
            export: Arc::new(cq.export()?, GFP_KERNEL)?,
        })
    };
    // SAFETY: By the contract of `super::export`.
    unsafe { super::export(command, arg, make) }
}

impl ExportedCq {
    /// Writes an entry and returns 0; -FI_EAGAIN if the queue is full.
    fn write(&self, entry: CqEntry) -> Result<usize> {
        let written = self.export.write(entry);
        written.map(|()| 0).map_err(|_| Errno::EAGAIN)
    }
}

impl CqOwner for Arc<CqExport> {
    fn write(&self, entry: CqEntry) -> core::result::Result<(), (Errno, CqEntry)> {
        CqExport::write(self, entry).map_err(|entry| (Errno::EAGAIN, entry))
    }
}

/// A queue that another module's provider owns.
///
/// # Invariants
///
/// `cq` and the functions `write` and `write_error` are valid until this object is dropped.
struct ImportedCq {
    cq: *mut fid_peer_cq,
    /// Format of the addresses in error data.
    addr_format: u32,
    write: unsafe extern "C" fn(
        *mut fid_peer_cq,
        *mut c_void,
        u64,
        usize,
        *mut c_void,
        u64,
        u64,
        fi_addr_t,
    ) -> isize,
    write_error: unsafe extern "C" fn(*mut fid_peer_cq, *const fi_cq_err_entry) -> isize,
}

// SAFETY: By the contract of `fi_ops_cq_owner` any thread may make the owner's calls, which take their own locks.
unsafe impl Send for ImportedCq {}

// SAFETY: As above.
unsafe impl Sync for ImportedCq {}

impl CqOwner for ImportedCq {
    fn write(&self, entry: CqEntry) -> core::result::Result<(), (Errno, CqEntry)> {
        let ret = match &entry {
            // SAFETY: By the type invariant the queue and the function are valid.
            CqEntry::Done(done) => unsafe {
                (self.write)(
                    self.cq,
                    done.context.as_ptr(),
                    done.flags,
                    done.len,
                    ptr::without_provenance_mut(done.buf),
                    done.data,
                    done.tag,
                    done.source,
                )
            },
            CqEntry::Failed(failure) => with_err_entry(failure, self.addr_format, |entry| {
                // SAFETY: By the type invariant the queue and the function are valid. The entry and its error data
                // stay valid until the call returns.
                unsafe { (self.write_error)(self.cq, entry) }
            }),
        };
        match from_int(c_int::try_from(ret).unwrap_or(c_int::MIN)) {
            Ok(_) => Ok(()),
            Err(errno) => Err((errno, entry)),
        }
    }

    fn functions(&self) -> Functions {
        Functions::from_array([self.write as *const (), self.write_error as *const ()])
    }
}

/// Converts `failure` to a `struct fi_cq_err_entry` for another module's provider, and calls `f` with it. Addresses
/// in its error data have the format `addr_format`. The entry and its error data are valid until `f` returns.
pub(in super::super) fn with_err_entry<R>(
    failure: &Failure,
    addr_format: u32,
    f: impl FnOnce(&mut fi_cq_err_entry) -> R,
) -> R {
    let mut entry = pin_init::zeroed();
    err_data::fill_entry(&mut entry, failure);
    err_data::with_bytes(addr_format, &failure.err_data, |bytes| {
        if !bytes.is_empty() {
            entry.err_data = bytes.as_ptr().cast_mut().cast();
            entry.err_data_size = bytes.len();
        }
        f(&mut entry)
    })
}

/// Returns the owner's queue that the context of `fi_cq_open()` with FI_PEER names. `addr_format` is the address
/// format of the domain that imports it.
///
/// # Errors
///
/// -FI_EINVAL for NULL, for a struct that is too small, and for missing calls; -FI_ENOMEM.
///
/// # Safety
///
/// `context` is NULL or a `struct fi_peer_cq_context` whose queue is valid until the last entry has been
/// written to it.
pub(in super::super) unsafe fn import_cq(
    context: *mut c_void,
    addr_format: u32,
) -> Result<KBox<dyn CqOwner>> {
    // SAFETY: By the caller's contract, `context` is valid; nothing beyond a struct's size is read.
    let (cq, ops) = unsafe {
        let cq = checked_struct::<fi_peer_cq_context>(context)?.cq;
        if let Ok(ours) = from_fid::<ExportedCq>(cq.cast()) {
            return Ok(KBox::new(ours.export.clone(), GFP_KERNEL)?);
        }
        check_class(cq.cast(), abi::FI_CLASS_PEER_CQ)?;
        let ops = (*cq).owner_ops.cast();
        (cq, checked_struct::<fi_ops_cq_owner>(ops)?)
    };
    // INVARIANT: By the caller's contract, the queue is valid, and `checked_struct` has checked its table of calls.
    let owner = ImportedCq {
        cq,
        addr_format,
        write: ops.write.ok_or(Errno::EINVAL)?,
        write_error: ops.writeerr.ok_or(Errno::EINVAL)?,
    };
    Ok(KBox::new(owner, GFP_KERNEL)?)
}
