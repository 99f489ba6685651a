// SPDX-License-Identifier: GPL-2.0

//! Completion queues, and batches of the completions that are polled from them.

mod wc;

pub(crate) use wc::{
    ImmData,
    Wc,
    WcStatus, //
};

use super::{
    device::DeviceRef,
    prelude::*, //
};
use crate::compat::EOPNOTSUPP;

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

type PollCqFn = unsafe extern "C" fn(*mut bindings::ib_cq, c_int, *mut bindings::ib_wc) -> c_int;
type ReqNotifyCqFn =
    unsafe extern "C" fn(*mut bindings::ib_cq, bindings::ib_cq_notify_flags) -> c_int;

/// A completion queue that its owner polls.
///
/// # Invariants
///
/// - `raw` is a completion queue of the device that `device` refers to; queue pairs that complete
///   into it hold an `Arc` of this object.
/// - `ib_poll_cq` and `req_notify` are operations of that device; the former is the one that the
///   kernel's `ib_poll_cq()` calls.
/// - The context of `raw` points to `_notify`, which is dropped after `raw`.
pub(crate) struct Cq {
    raw: NonNull<bindings::ib_cq>,
    ib_poll_cq: PollCqFn,
    req_notify: ReqNotifyCqFn,
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
    /// `EINVAL` for no entries or more than the device supports, and for a vector that it does not
    /// have; `ENOMEM`, and the driver's errors.
    pub(crate) fn new<N: CqHandler + 'static>(
        device: DeviceRef,
        entries: u32,
        vector: u32,
        notify: N,
    ) -> Result<Arc<Self>> {
        let attributes = &device.attributes;
        let has_vector = vector < attributes.num_comp_vectors;
        if entries == 0 || entries > attributes.max_cqe || !has_vector {
            return Err(EINVAL);
        }
        let attr = bindings::ib_cq_init_attr {
            cqe: entries,
            comp_vector: vector,
            flags: 0,
        };
        // SAFETY: A `DeviceRef` keeps the device registered.
        let ops = unsafe { &(*device.raw()).ops };
        let (Some(ib_poll_cq), Some(arm)) = (ops.poll_cq, ops.req_notify_cq) else {
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
        // INVARIANT: By construction. If this allocation fails, dropping the object destroys `raw`.
        let cq = Self {
            raw,
            ib_poll_cq,
            req_notify: arm,
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

    /// Returns whether the device can moderate its interrupts.
    pub(super) fn has_moderation(&self) -> bool {
        // SAFETY: A `DeviceRef` keeps the device registered.
        unsafe { (*self.device.raw()).ops.modify_cq.is_some() }
    }

    /// Lets the device raise an interrupt only after `count` completions, or `period` microseconds.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a device without moderation, and the driver's errors.
    pub(crate) fn set_moderation(&self, count: u16, period: u16) -> Result {
        // SAFETY: By the invariant `raw` is valid.
        to_result(unsafe { bindings::rdma_set_cq_moderation(self.raw(), count, period) })
    }

    /// Returns an object that polls the queue.
    pub(crate) fn poller(self: Arc<Self>) -> CqPoller {
        // INVARIANT: `raw` and `ib_poll_cq` are copied from the queue.
        CqPoller {
            raw: self.raw,
            ib_poll_cq: self.ib_poll_cq,
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
        let flags = events as u32 | bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS;
        // SAFETY: By the invariant `raw` is valid and `req_notify` is its device's operation.
        unsafe { (self.req_notify)(self.raw(), flags) != 0 }
    }
}

/// Selects the completions for which a completion queue is armed.
#[repr(u32)]
pub(crate) enum CqNotify {
    /// The next completion.
    NextComp = bindings::ib_cq_notify_flags_IB_CQ_NEXT_COMP,
    /// The next solicited message, and the next failure where the driver raises an event for it;
    /// rxe does not.
    Solicited = bindings::ib_cq_notify_flags_IB_CQ_SOLICITED,
}

/// A completion queue together with the driver's poll operation.
///
/// # Invariants
///
/// `raw` and `ib_poll_cq` are copied from `cq`.
#[repr(C)]
pub(crate) struct CqPoller {
    raw: NonNull<bindings::ib_cq>,
    ib_poll_cq: PollCqFn,
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

    /// Polls up to `entries.len()` completions. Any context except [`CqHandler`].
    ///
    /// # Errors
    ///
    /// Errors of the driver; no driver in the kernel returns one.
    #[inline]
    pub(crate) fn poll<'a>(&self, entries: &'a mut [MaybeUninit<Wc>]) -> Result<&'a [Wc]> {
        let most = c_int::try_from(entries.len()).unwrap_or(c_int::MAX);
        // SAFETY: By the invariant `raw` is valid and `ib_poll_cq` is its device's operation. `Wc`
        // has the layout of `ib_wc`, and `entries` is writable for `most` of them.
        let found =
            unsafe { (self.ib_poll_cq)(self.raw.as_ptr(), most, entries.as_mut_ptr().cast()) };
        let entries: &'a [MaybeUninit<Wc>] = entries;
        // A negative errno, as an unsigned number, exceeds any length of `entries`.
        let Some(filled) = entries.get(..found as u32 as usize) else {
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
        // In place: `buf` needs no value, and is large.
        // INVARIANT: `len` is 0.
        let empty = init!(Self {
            buf: [const { MaybeUninit::uninit() }; N],
            len: 0,
        });
        KBox::init(empty, GFP_KERNEL)
    }

    /// Polls `poller` for at most `most` completions, which replace the batch, and returns their
    /// number. Any context except [`CqHandler`].
    #[inline]
    pub(crate) fn poll(&mut self, poller: &CqPoller, most: usize) -> usize {
        let most = most.min(N);
        // An error counts as none: no driver in the kernel returns one.
        // INVARIANT: The poll has initialised the completions that it counts.
        self.len = poller.poll(&mut self.buf[..most]).map_or(0, <[Wc]>::len);
        self.len
    }

    /// Returns the completions of the last poll.
    #[inline]
    pub(crate) fn completions(&self) -> &[Wc] {
        // SAFETY: By the invariant the first `len` are initialised, and there are no more than `N`.
        unsafe { core::slice::from_raw_parts(self.buf.as_ptr().cast(), self.len) }
    }
}
