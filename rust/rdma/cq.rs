// SPDX-License-Identifier: GPL-2.0

//! Completion queues and work completions.

use super::device::DeviceRef;
use crate::{
    bindings,
    compat::EOPNOTSUPP, //
};
use core::{
    ffi::CStr,
    mem::MaybeUninit,
    ptr::{
        self,
        NonNull, //
    },
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::Arc, //
};

/// Receives the notifications of an armed completion queue.
pub(crate) trait CqHandler: Send + Sync {
    /// Reports that there may be a completion; the queue is no longer armed.
    ///
    /// Called in any context: interrupts may be off, the driver may hold the queue's lock, and the
    /// caller may be this module's own `post_send`. It must not sleep, and must neither poll nor
    /// arm the queue.
    fn handle_completion(&self);

    /// Reports that the queue failed and may have lost completions. Context as for
    /// `handle_completion`.
    fn handle_error(&self) {}
}

impl<T: CqHandler + ?Sized> CqHandler for Arc<T> {
    fn handle_completion(&self) {
        (**self).handle_completion()
    }

    fn handle_error(&self) {
        (**self).handle_error()
    }
}

type PollCqFn = unsafe extern "C" fn(*mut bindings::ib_cq, c_int, *mut bindings::ib_wc) -> c_int;
type ReqNotifyCqFn =
    unsafe extern "C" fn(*mut bindings::ib_cq, bindings::ib_cq_notify_flags) -> c_int;

/// A completion queue that its owner polls.
///
/// # Invariants
///
/// - `raw` is a completion queue of the device that `device` refers to; queue pairs that complete
///   into it hold an `Arc` of this object.
/// - `poll` and `req_notify` are operations of that device.
/// - The context of `raw` points to `_notify`, which is dropped after `raw`.
pub(crate) struct Cq {
    raw: NonNull<bindings::ib_cq>,
    poll: PollCqFn,
    req_notify: ReqNotifyCqFn,
    entries: u32,
    _notify: KBox<dyn CqHandler>,
    device: DeviceRef,
}

// SAFETY: Any thread may poll, arm and destroy a completion queue.
unsafe impl Send for Cq {}

// SAFETY: Drivers serialise concurrent polling and arming.
unsafe impl Sync for Cq {}

impl Cq {
    /// Creates a queue for at least `entries` completions, with interrupts on completion vector
    /// `vector`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no entries or more than the device supports, `ENOMEM`, and the driver's errors.
    pub(crate) fn new<N: CqHandler + 'static>(
        device: DeviceRef,
        entries: u32,
        vector: u32,
        notify: N,
    ) -> Result<Arc<Self>> {
        let attributes = device.attributes();
        if entries == 0 || entries > attributes.max_cqe {
            return Err(EINVAL);
        }
        let attr = bindings::ib_cq_init_attr {
            cqe: entries,
            comp_vector: vector.checked_rem(attributes.num_comp_vectors).unwrap_or(0),
            flags: 0,
        };
        // SAFETY: A `DeviceRef` keeps the device registered.
        let ops = unsafe { &(*device.raw()).ops };
        let (Some(poll), Some(arm)) = (ops.poll_cq, ops.req_notify_cq) else {
            return Err(EOPNOTSUPP);
        };
        let notify = KBox::new(notify, GFP_KERNEL)?;
        let context = ptr::from_ref(&*notify).cast_mut().cast();
        // SAFETY: The device is registered. The handlers are instantiated for the type of
        // `context`, which outlives the queue.
        let raw = unsafe {
            bindings::__ib_create_cq(
                device.raw(),
                Some(completion::<N>),
                Some(failed::<N>),
                context,
                &attr,
                super::OWNER.as_char_ptr(),
            )
        };
        let raw = NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // SAFETY: `raw` was created above.
        let granted = unsafe { (*raw.as_ptr()).cqe };
        // INVARIANT: By construction. If this allocation fails, dropping the object destroys `raw`.
        let cq = Self {
            raw,
            poll,
            req_notify: arm,
            entries: u32::try_from(granted).unwrap_or(entries),
            _notify: notify,
            device,
        };
        Ok(Arc::new(cq, GFP_KERNEL)?)
    }

    pub(super) fn raw(&self) -> *mut bindings::ib_cq {
        self.raw.as_ptr()
    }

    /// Returns the device of the queue.
    pub(crate) fn device(&self) -> &DeviceRef {
        &self.device
    }

    /// Returns the number of completions that the queue holds.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns an object that polls the queue.
    pub(crate) fn poller(self: Arc<Self>) -> CqPoller {
        // INVARIANT: `raw` and `poll` are copied from the queue.
        CqPoller {
            raw: self.raw,
            poll: self.poll,
            cq: self,
        }
    }

    /// Arms the queue: [`CqHandler::handle_completion`] is called once, at the next completion that
    /// `events` selects. Any context except [`CqHandler`].
    ///
    /// Returns whether a completion may have been missed: the caller must poll again, because no
    /// notification follows for it.
    #[inline]
    pub(crate) fn req_notify(&self, events: CqNotify) -> bool {
        let kind = match events {
            CqNotify::NextComp => bindings::ib_cq_notify_flags_IB_CQ_NEXT_COMP,
            CqNotify::Solicited => bindings::ib_cq_notify_flags_IB_CQ_SOLICITED,
        };
        let flags = kind | bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS;
        // SAFETY: By the invariant `raw` is valid and `req_notify` is its device's operation.
        unsafe { (self.req_notify)(self.raw(), flags) != 0 }
    }
}

/// Selects the completions for which a completion queue is armed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CqNotify {
    /// The next completion.
    NextComp,
    /// The next solicited message, and the next failure where the driver raises an event for it; rxe does not.
    Solicited,
}

/// A completion queue together with the driver's poll operation.
///
/// # Invariants
///
/// `raw` and `poll` are copied from `cq`.
#[repr(C)]
pub(crate) struct CqPoller {
    raw: NonNull<bindings::ib_cq>,
    poll: PollCqFn,
    cq: Arc<Cq>,
}

// SAFETY: As for `Cq`.
unsafe impl Send for CqPoller {}

// SAFETY: As for `Cq`.
unsafe impl Sync for CqPoller {}

impl CqPoller {
    /// Returns the queue.
    pub(crate) fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }

    /// Polls up to `room.len()` completions. Any context except [`CqHandler`].
    ///
    /// # Errors
    ///
    /// Errors of the driver; no driver in the kernel returns one.
    #[inline]
    pub(crate) fn poll<'a>(&self, room: &'a mut [MaybeUninit<Wc>]) -> Result<&'a [Wc]> {
        let most = c_int::try_from(room.len()).unwrap_or(c_int::MAX);
        // SAFETY: By the invariant `raw` is valid and `poll` is its device's operation. `Wc` has
        // the layout of `ib_wc`, and `room` is writable for `most` of them.
        let found = unsafe { (self.poll)(self.raw.as_ptr(), most, room.as_mut_ptr().cast()) };
        let room: &'a [MaybeUninit<Wc>] = room;
        // A negative errno, as an unsigned number, exceeds any length of `room`.
        let Some(filled) = room.get(..found as u32 as usize) else {
            return Err(to_result(found).err().unwrap_or(EIO));
        };
        // SAFETY: The driver filled the first `found`, and a `Wc` may lack the fields that the
        // driver left out.
        Ok(unsafe { core::slice::from_raw_parts(filled.as_ptr().cast(), filled.len()) })
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: By the invariant `raw` is valid, and no queue pair uses it any more. When this
        // returns, no handler runs.
        let err = unsafe { bindings::ib_destroy_cq_user(self.raw(), ptr::null_mut()) };
        kernel::warn_on!(err != 0);
    }
}

/// # Safety
///
/// Called by the driver of a queue whose context is a valid `N`.
unsafe extern "C" fn completion<N: CqHandler>(_cq: *mut bindings::ib_cq, context: *mut c_void) {
    // SAFETY: By this function's contract.
    unsafe { &*context.cast::<N>() }.handle_completion();
}

/// # Safety
///
/// Called by the driver of a queue whose context is a valid `N`.
unsafe extern "C" fn failed<N: CqHandler>(_event: *mut bindings::ib_event, context: *mut c_void) {
    // SAFETY: By this function's contract.
    unsafe { &*context.cast::<N>() }.handle_error();
}

/// A batch of at most `N` work completions, filled by polls.
///
/// # Invariants
///
/// The first `len` entries of `buf` are initialised.
pub(crate) struct WcBatch<const N: usize> {
    buf: [MaybeUninit<Wc>; N],
    len: usize,
}

impl<const N: usize> WcBatch<N> {
    /// Allocates an empty batch. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<KBox<Self>> {
        let init = |slot: *mut Self| {
            // SAFETY: The closure gets memory that is writable for a batch. `buf` needs no value.
            unsafe { (&raw mut (*slot).len).write(0) };
            Ok(())
        };
        // SAFETY: The closure initialises `len`, the only field that needs a value.
        // INVARIANT: `len` is 0.
        KBox::init(
            unsafe { pin_init::init_from_closure::<Self, Error>(init) },
            GFP_KERNEL,
        )
    }

    /// Polls `queue` for at most `most` completions, which replace the batch, and returns their
    /// number. Any context except [`CqHandler`].
    #[inline]
    pub(crate) fn poll(&mut self, queue: &CqPoller, most: usize) -> usize {
        let most = most.min(N);
        // An error counts as none: no driver in the kernel returns one.
        // INVARIANT: The poll has initialised the completions that it counts.
        self.len = queue.poll(&mut self.buf[..most]).map_or(0, <[Wc]>::len);
        self.len
    }

    /// Returns the completions of the last poll.
    #[inline]
    pub(crate) fn completions(&self) -> &[Wc] {
        // SAFETY: By the invariant the first `len` are initialised, and there are no more than `N`.
        unsafe { core::slice::from_raw_parts(self.buf.as_ptr().cast(), self.len) }
    }
}

/// A work completion.
///
/// # Invariants
///
/// `wr_id`, `status`, `vendor_err` and `qp` are initialised; after a success also the other fields
/// of its operation.
#[repr(transparent)]
pub(crate) struct Wc(MaybeUninit<bindings::ib_wc>);

// SAFETY: A completion is plain data; the addresses in it are only compared.
unsafe impl Send for Wc {}

impl Wc {
    /// Returns uninitialised memory for `N` completions, for [`CqPoller::poll`].
    #[inline]
    pub(crate) const fn uninit_array<const N: usize>() -> [MaybeUninit<Wc>; N] {
        [const { MaybeUninit::uninit() }; N]
    }

    /// Returns the `wr_id` of the work request.
    #[inline]
    pub(crate) fn wr_id(&self) -> u64 {
        // SAFETY: By the invariant it is initialised; work requests of this module use the number,
        // not the pointer.
        unsafe { (*self.0.as_ptr()).__bindgen_anon_1.wr_id }
    }

    /// Returns the upper and the lower half of `wr_id`, for callers that test them separately.
    #[inline]
    pub(crate) fn wr_id_halves(&self) -> (u32, u32) {
        // SAFETY: As above; two halves have the size of the number, and its alignment is
        // sufficient.
        let halves = unsafe { self.0.as_ptr().cast::<[u32; 2]>().read() };
        match cfg!(target_endian = "little") {
            true => (halves[1], halves[0]),
            false => (halves[0], halves[1]),
        }
    }

    /// Returns whether the work request succeeded.
    #[inline]
    pub(crate) fn is_success(&self) -> bool {
        self.raw_status() == bindings::ib_wc_status_IB_WC_SUCCESS
    }

    #[inline]
    fn raw_status(&self) -> bindings::ib_wc_status {
        // SAFETY: By the invariant it is initialised.
        unsafe { (*self.0.as_ptr()).status }
    }

    /// Returns the status of the work request.
    #[inline]
    pub(crate) fn status(&self) -> WcStatus {
        WcStatus(self.raw_status())
    }

    /// Returns the address of its queue pair, as [`Qp::raw_addr`](super::qp::Qp::raw_addr). The
    /// queue pair may already be destroyed.
    #[inline]
    pub(crate) fn qp(&self) -> usize {
        // SAFETY: By the invariant it is initialised.
        unsafe { (*self.0.as_ptr()).qp as usize }
    }

    /// Returns the vendor-specific error code of the driver.
    #[inline]
    pub(crate) fn vendor_err(&self) -> u32 {
        // SAFETY: By the invariant it is initialised.
        unsafe { (*self.0.as_ptr()).vendor_err }
    }

    /// Returns the completed operation; `None` for an error.
    #[inline]
    pub(crate) fn opcode(&self) -> Option<WcOpcode> {
        if !self.is_success() {
            return None;
        }
        // SAFETY: By the invariant it is initialised after a success.
        Some(WcOpcode::from_raw(unsafe { (*self.0.as_ptr()).opcode }))
    }

    /// Returns the bytes that a successful receive, read or atomic transferred; 0 for an error.
    #[inline]
    pub(crate) fn byte_len(&self) -> u32 {
        if !self.is_success() {
            return 0;
        }
        // SAFETY: By the invariant it is initialised after a success; each driver sets it for all
        // operations.
        unsafe { (*self.0.as_ptr()).byte_len }
    }

    /// Returns whether there is immediate data; valid only for a successful receive.
    #[inline]
    pub(crate) fn has_imm(&self) -> bool {
        let flag = bindings::ib_wc_flags_IB_WC_WITH_IMM as c_int;
        // SAFETY: By the invariant a successful receive has its flags; in other completions any
        // value is possible.
        unsafe { (*self.0.as_ptr()).wc_flags & flag != 0 }
    }

    /// Returns the immediate data of a successful receive, in host byte order.
    #[inline]
    pub(crate) fn imm_data(&self) -> Option<u32> {
        match self.opcode()? {
            WcOpcode::Recv | WcOpcode::RecvRdmaWithImm => {}
            _ => return None,
        }
        // SAFETY: By the invariant a successful receive has the fields that its flags name.
        self.has_imm()
            .then(|| u32::from_be(unsafe { (*self.0.as_ptr()).ex.imm_data }))
    }
}

/// Status of a work request: an `enum ib_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WcStatus(bindings::ib_wc_status);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $raw:ident;)*) => {
        #[allow(dead_code)]
        impl WcStatus {
            $($(#[$doc])* pub(crate) const $name: Self = Self(bindings::$raw);)*
        }
    };
}

statuses! {
    /// The work request succeeded.
    SUCCESS = ib_wc_status_IB_WC_SUCCESS;
    /// A message was longer than its receive, or than the limit of a message.
    LOC_LEN_ERR = ib_wc_status_IB_WC_LOC_LEN_ERR;
    /// The local queue pair failed to process the request.
    LOC_QP_OP_ERR = ib_wc_status_IB_WC_LOC_QP_OP_ERR;
    /// End-to-end context error; the specification no longer has these contexts.
    LOC_EEC_OP_ERR = ib_wc_status_IB_WC_LOC_EEC_OP_ERR;
    /// A local memory key does not cover the memory or the access.
    LOC_PROT_ERR = ib_wc_status_IB_WC_LOC_PROT_ERR;
    /// The queue pair entered the error state before the request was executed.
    WR_FLUSH_ERR = ib_wc_status_IB_WC_WR_FLUSH_ERR;
    /// A memory window could not be bound.
    MW_BIND_ERR = ib_wc_status_IB_WC_MW_BIND_ERR;
    /// The peer sent an unexpected response.
    BAD_RESP_ERR = ib_wc_status_IB_WC_BAD_RESP_ERR;
    /// A local protection error occurred for incoming data.
    LOC_ACCESS_ERR = ib_wc_status_IB_WC_LOC_ACCESS_ERR;
    /// The peer found the request invalid: an unsupported operation, or too long for its receive.
    REM_INV_REQ_ERR = ib_wc_status_IB_WC_REM_INV_REQ_ERR;
    /// The peer's memory does not permit the access.
    REM_ACCESS_ERR = ib_wc_status_IB_WC_REM_ACCESS_ERR;
    /// The peer failed to process the request.
    REM_OP_ERR = ib_wc_status_IB_WC_REM_OP_ERR;
    /// The peer did not respond within the retries.
    RETRY_EXC_ERR = ib_wc_status_IB_WC_RETRY_EXC_ERR;
    /// The peer posted no receive within the RNR retries.
    RNR_RETRY_EXC_ERR = ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR;
    /// Reliable datagram error; the specification no longer has reliable datagrams.
    LOC_RDD_VIOL_ERR = ib_wc_status_IB_WC_LOC_RDD_VIOL_ERR;
    /// Reliable datagram error, as above.
    REM_INV_RD_REQ_ERR = ib_wc_status_IB_WC_REM_INV_RD_REQ_ERR;
    /// The peer aborted the request.
    REM_ABORT_ERR = ib_wc_status_IB_WC_REM_ABORT_ERR;
    /// End-to-end context error; the specification no longer has these contexts.
    INV_EECN_ERR = ib_wc_status_IB_WC_INV_EECN_ERR;
    /// End-to-end context error, as above.
    INV_EEC_STATE_ERR = ib_wc_status_IB_WC_INV_EEC_STATE_ERR;
    /// The device failed.
    FATAL_ERR = ib_wc_status_IB_WC_FATAL_ERR;
    /// The peer did not respond in time.
    RESP_TIMEOUT_ERR = ib_wc_status_IB_WC_RESP_TIMEOUT_ERR;
    /// An error without a status of its own.
    GENERAL_ERR = ib_wc_status_IB_WC_GENERAL_ERR;
}

impl WcStatus {
    /// Returns the `enum ib_wc_status` value.
    pub(crate) fn code(self) -> u32 {
        self.0
    }

    /// Returns the status of an `enum ib_wc_status` value.
    pub(crate) const fn from_code(code: u32) -> Self {
        Self(code)
    }

    /// Returns a short description.
    pub(crate) fn text(self) -> &'static CStr {
        // SAFETY: The function takes any number, and its text is static in the RDMA core.
        unsafe { CStr::from_char_ptr(bindings::ib_wc_status_msg(self.0)) }
    }
}

/// Operation of a work completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WcOpcode {
    Send,
    RdmaWrite,
    RdmaRead,
    CompSwap,
    FetchAdd,
    LocalInv,
    RegMr,
    Recv,
    RecvRdmaWithImm,
    Other(u32),
}

impl WcOpcode {
    #[inline]
    fn from_raw(raw: bindings::ib_wc_opcode) -> Self {
        match raw {
            bindings::ib_wc_opcode_IB_WC_SEND => Self::Send,
            bindings::ib_wc_opcode_IB_WC_RDMA_WRITE => Self::RdmaWrite,
            bindings::ib_wc_opcode_IB_WC_RDMA_READ => Self::RdmaRead,
            bindings::ib_wc_opcode_IB_WC_COMP_SWAP => Self::CompSwap,
            bindings::ib_wc_opcode_IB_WC_FETCH_ADD => Self::FetchAdd,
            bindings::ib_wc_opcode_IB_WC_LOCAL_INV => Self::LocalInv,
            bindings::ib_wc_opcode_IB_WC_REG_MR => Self::RegMr,
            bindings::ib_wc_opcode_IB_WC_RECV => Self::Recv,
            bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM => Self::RecvRdmaWithImm,
            other => Self::Other(other),
        }
    }
}
