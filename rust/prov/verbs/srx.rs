// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts, over a shared receive queue of the device.
//!
//! Each receive has a slot, whose number is in its `wr_id`. A poster takes a free slot and posts the
//! receive under the lock of `producer`, so that the device gets the receives in the order of their
//! sequence numbers. The reader of the completion releases the slot, in any order and without a
//! lock. When an endpoint closes, its unread receives are posted again. The mutex `endpoints` guards
//! the list of endpoints that share the receives.

mod endpoints;
mod lost;
mod post;

pub(super) use endpoints::{
    SrxAttachment,
    UnreadSlots, //
};

use super::{
    super::common::stats::RxReport,
    prelude::*,
    sge::MAX_SGE,
    wr_ring::{
        SlotArray,
        WrRing, //
    },
};
use crate::{
    abi::KOFI_VALUE_RX_SIZE,
    fi,
    rdma::{
        device_attr::DeviceAttr,
        srq::Srq, //
    },
};
use endpoints::SrxEndpoints;

/// Number of receives of a context that is opened with size 0.
const DEFAULT_SIZE: usize = 256;

/// Capabilities that a context can be opened for.
const CAPS: u64 = FI_MSG | FI_RECV | FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE;

/// Bit of a `wr_id` that says that its lower half is a slot of a shared receive context. With this
/// bit the upper half is an index that no table of work queues has, so the fast path of a reader
/// passes the completion on to the slow path.
pub(super) const SRX_WR_ID_BIT: u64 = 1 << 61;

/// The `next` of the last slot in a list, and the head of an empty list.
const NO_SLOT: u32 = u32::MAX;

/// State of a slot that is in a list of free slots.
const FREE: u32 = 0;
/// State of a slot whose receive is posted to the device.
const POSTED: u32 = 1;
/// State of a slot whose completion has been polled from the device and not yet been reported.
const COMPLETED: u32 = 2;

/// The fields of a slot that several threads access without a lock.
struct SlotControl {
    state: Atomic<u32>,
    /// Number of scatter/gather elements of the receive.
    sge_count: Atomic<u32>,
    /// Sequence number of the post.
    post_seq: Atomic<u64>,
    /// Next slot of the list that the slot is in.
    next: Atomic<u32>,
}

/// The state of posters, which the lock of [`Srx::producer`] guards.
struct SrxProducer {
    /// The device's queue; `None` after the close.
    srq: Option<Arc<Srq>>,
    /// First slot of the posters' list of free slots.
    free_list: u32,
    /// Number of receives posted, which is the sequence number of the last one. The first one has 1.
    post_seq: u64,
}

/// A shared receive context.
///
/// # Invariants
///
/// - Each slot has at most one user, in the sense of [`WrRing`]: in the state FREE, the owner of the
///   list that it is in, which is that of `producer` or the one that begins at `released_list`; in
///   the state POSTED, its poster until the device has the receive, and after the completion the
///   thread that sets COMPLETED; in the state COMPLETED, that thread, until it sets another state.
/// - The user of a slot also has exclusive access to its saved scatter/gather elements.
#[pin_data]
pub(crate) struct Srx {
    pub(super) pd: Arc<Pd>,
    ring: WrRing,
    slot_controls: KVVec<SlotControl>,
    /// Scatter/gather elements that each slot was posted with, so that it can be posted again.
    saved_sges: SlotArray<Sge>,
    depth: u32,
    max_msg_size: usize,
    /// First slot of the list of slots that readers have released. A poster takes the whole list when its own list
    /// is empty.
    released_list: Atomic<u32>,
    #[pin]
    producer: FastLockIrq<SrxProducer>,
    /// Greatest sequence number of a completed receive. All receives before it have left the
    /// device's queue, which is in order.
    max_completed_seq: Atomic<u64>,
    /// Greatest sequence number that a receive lost with a broken queue pair can have; 0 if no receive can be lost.
    lost_check_end: Atomic<u64>,
    /// The next search for lost receives is due when `max_completed_seq` reaches this sequence number.
    next_lost_check: Atomic<u64>,
    #[pin]
    lost_check_work: Work<Srx>,
    /// Largest number of receives that are lost now. Changed under the lock of `endpoints`.
    lost_max: Atomic<u32>,
    #[pin]
    endpoints: Mutex<SrxEndpoints>,
    /// Statistics of posters, changed under the lock of `producer`.
    posted: StatCounter,
    eagain: StatCounter,
    /// Statistics of readers: number of completed receives, their bytes, and the number of failed ones.
    completed: Atomic<u64>,
    bytes: Atomic<u64>,
    errors: Atomic<u64>,
}

/// Returns the maximum number of receives of one context. The completion queue of each endpoint must
/// have an entry for every receive, and `besides` entries for other purposes.
pub(super) fn max_receives(attributes: &DeviceAttr, besides: usize) -> usize {
    let space = (attributes.max_cqe as usize).saturating_sub(besides);
    (attributes.max_srq_wr as usize).min(space)
}

/// Returns the maximum number of scatter/gather elements of a shared receive.
pub(super) fn max_sges(attributes: &DeviceAttr) -> usize {
    (attributes.max_srq_sge as usize).min(MAX_SGE)
}

/// Returns whether a device has shared receive queues.
pub(super) fn has_srq(attributes: &DeviceAttr) -> bool {
    attributes.max_srq > 0 && attributes.max_srq_wr > 0 && attributes.max_srq_sge > 0
}

impl Srx {
    /// Opens a shared receive context. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS on a device without shared receive queues, -FI_EINVAL for sizes beyond the
    /// device's limits and for capabilities that are not in [`CAPS`], -FI_ENOMEM.
    pub(super) fn new(pd: &Arc<Pd>, attr: &fi::srx::Attr, max_message: usize) -> Result<Arc<Self>> {
        let attributes = &pd.device().attributes;
        if !has_srq(attributes) {
            return Err(Errno::ENOSYS);
        }
        if attr.caps & !CAPS != 0 {
            return Err(Errno::EINVAL);
        }
        let most_receives = max_receives(attributes, Cq::extra_entries(pd.device()));
        let depth = attr.size_within(DEFAULT_SIZE, most_receives)? as u32;
        let width = attr.segments_within(max_sges(attributes))?;
        let srq = Srq::new(pd.clone(), depth, width as u32)?;
        let ring = WrRing::new(pd.clone(), depth, width)?;
        let mut controls = KVVec::with_capacity(depth as usize, GFP_KERNEL)?;
        for slot in 0..depth {
            let control = SlotControl {
                state: Atomic::new(FREE),
                sge_count: Atomic::new(0),
                post_seq: Atomic::new(0),
                next: Atomic::new(if slot + 1 < depth { slot + 1 } else { NO_SLOT }),
            };
            controls.push(control, GFP_KERNEL)?;
        }
        let saved_sges = SlotArray::new(depth as usize, width, || Sge::new(0, 0, 0))?;
        Ok(Arc::pin_init(
            // INVARIANT: All slots are in the list of `producer`.
            pin_init!(Self {
                pd: pd.clone(),
                ring,
                slot_controls: controls,
                saved_sges,
                depth,
                max_msg_size: max_message,
                released_list: Atomic::new(NO_SLOT),
                producer <- FastLockIrq::new(
                    SrxProducer {
                        srq: Some(srq),
                        free_list: 0,
                        post_seq: 0,
                    },
                    c"kofi::verbs::Srx",
                    static_lock_class!(),
                ),
                max_completed_seq: Atomic::new(0),
                lost_check_end: Atomic::new(0),
                next_lost_check: Atomic::new(0),
                lost_check_work <- new_work!("kofi::verbs::Srx::lost_check_work"),
                lost_max: Atomic::new(0),
                endpoints <- new_mutex!(SrxEndpoints::new(), "kofi::verbs::Srx::endpoints"),
                posted: StatCounter::new(),
                eagain: StatCounter::new(),
                completed: Atomic::new(0),
                bytes: Atomic::new(0),
                errors: Atomic::new(0),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Returns the device's queue; -FI_EINVAL after the close.
    pub(super) fn srq(&self) -> Result<Arc<Srq>> {
        self.producer.lock().srq.clone().ok_or(Errno::EINVAL)
    }

    fn slot_control(&self, slot: u32) -> Option<&SlotControl> {
        self.slot_controls.get(slot as usize)
    }

    /// Marks a posted slot as completed, and returns the sequence number of its receive; `None` if the
    /// slot is not posted.
    ///
    /// # Safety
    ///
    /// The caller has polled a completion of the slot, and calls this once for it.
    pub(super) unsafe fn mark_completed(&self, slot: u32) -> Option<u64> {
        let control = self.slot_control(slot)?;
        // INVARIANT: By this function's safety requirement the device no longer uses the slot, and this thread is its
        // only user.
        control.state.cmpxchg(POSTED, COMPLETED, Full).ok()?;
        let number = control.post_seq.load(Relaxed);
        let mut high = self.max_completed_seq.load(Relaxed);
        while high < number {
            match self.max_completed_seq.cmpxchg(high, number, Relaxed) {
                Ok(_) => break,
                Err(now) => high = now,
            }
        }
        Some(number)
    }

    /// Returns the number of receives that can be posted now.
    fn free_slots(&self) -> usize {
        // Loaded before `posted`, so that every receive counted in `done` is counted in `posted`, too.
        let done = self.completed.load(Acquire);
        let used = self.posted.get().wrapping_sub(done);
        u64::from(self.depth).saturating_sub(used) as usize
    }
}

impl provider::SharedReceive for Srx {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn receive(&self, message: &Message<'_>) -> Result {
        self.post(message)
    }

    fn receives_left(&self) -> usize {
        self.free_slots()
    }

    fn receives_lost(&self) -> usize {
        self.lost_max.load(Relaxed) as usize
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        let (posted, left) = (self.posted.get(), self.free_slots());
        out.add_value(KOFI_VALUE_RX_SIZE, self.depth.into());
        RxReport {
            depth: u64::from(self.depth).saturating_sub(left as u64),
            posted,
            done: self.completed.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            errors: self.errors.load(Relaxed),
            eagain: self.eagain.get(),
        }
        .add_to(out);
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        let srq = self.producer.lock().srq.take();
        if srq.is_none() {
            return;
        }
        // This is the last reference: its drop destroys the queue, after which the device accesses no posted
        // memory.
        drop(srq);
        for (slot, control) in self.slot_controls.iter().enumerate() {
            if control.state.load(Acquire) != FREE {
                // INVARIANT: The slot is put into no list, because no receive is posted any more.
                control.state.store(FREE, Relaxed);
                // SAFETY: The device does not have the slot, and there is no reader left: this thread is
                // its only user.
                let saved = unsafe { self.unmap_slot(slot as u32) };
                reclaim(saved.context);
            }
        }
    }
}
