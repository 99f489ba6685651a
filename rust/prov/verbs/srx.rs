// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts, over a shared receive queue of the device.
//!
//! Each receive has a slot, whose number is in its `wr_id`. A poster takes a slot under the lock of
//! `producer`, where it also posts, so that the device has the receives in the order of their
//! numbers. The reader of the completion queue of the endpoint that got the message releases the
//! slot, in any order and without a lock. Receives that an endpoint leaves unread when it closes
//! are posted again. `endpoints` guards the list of endpoints that take messages from here.

mod attachment;
mod endpoints;
mod post;
mod saved_sges;

pub(super) use attachment::SrxAttachment;
pub(super) use endpoints::UnreadSlots;

use super::{
    cq::Cq,
    sge::MAX_SGE,
    wr_ring::WrRing, //
};
use crate::{
    abi::{
        flags::*,
        Errno,
        Result,
        KOFI_VALUE_RECEIVES,
        KOFI_VALUE_RX_AGAIN,
        KOFI_VALUE_RX_BYTES,
        KOFI_VALUE_RX_DEPTH,
        KOFI_VALUE_RX_DONE,
        KOFI_VALUE_RX_ERRORS,
        KOFI_VALUE_RX_SIZE, //
    },
    fi::{
        self,
        introspect::ObjectInfo,
        memory::Context,
        provider::{
            self,
            Message, //
        },
    },
    rdma::{
        device_attr::DeviceAttr,
        pd::Pd,
        srq::Srq, //
    },
    util::{
        lock::FastLockIrq,
        stat_counter::StatCounter, //
    },
};
use core::any::Any;
use endpoints::SrxEndpoints;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        new_mutex,
        static_lock_class,
        Arc,
        Mutex, //
    },
    workqueue::{
        new_work,
        Work, //
    },
};
use saved_sges::SavedSges;

/// Number of receives of a context that is opened with size 0.
const DEFAULT_SIZE: usize = 256;

/// Capabilities that a context can be opened for.
const CAPS: u64 = FI_MSG | FI_RECV | FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE;

/// Bit of a `wr_id` that makes its lower half a slot of the shared receives. With it, the upper
/// half is an index that no table has, so that the fast path of a reader leaves the completion
/// alone.
pub(super) const SRX_WR_ID_BIT: u64 = 1 << 61;

/// End of a list of slots.
const NO_SLOT: u32 = u32::MAX;

/// State of a slot that is in a list of free slots.
const FREE: u32 = 0;
/// State of a slot whose receive the device has.
const POSTED: u32 = 1;
/// State of a slot whose completion has been polled from the device and not yet been reported.
const COMPLETED: u32 = 2;

/// Fields of a slot that several threads access.
struct SlotControl {
    state: Atomic<u32>,
    /// Number of scatter/gather elements of the receive.
    sge_count: Atomic<u32>,
    /// Sequence number of the post.
    post_seq: Atomic<u64>,
    /// Next slot of the list that the slot is in.
    next: Atomic<u32>,
}

/// State that posters share, under the lock.
struct SrxProducer {
    /// Queue to post to, until the close.
    srq: Option<Arc<Srq>>,
    /// First slot of the posters' list of free slots.
    free_list: u32,
    /// Number of receives posted, and so the sequence number of the last one; the first one is 1.
    post_seq: u64,
}

/// A shared receive context.
///
/// # Invariants
///
/// - A slot in the state FREE belongs to its list: that of `producer`, or the one that begins at
///   `released_list`. A POSTED slot belongs to its poster until the device has the receive, and
///   from its completion on to the thread that makes it COMPLETED. That thread is its user, in the
///   sense of [`WrRing`], until the slot is in another state.
/// - The saved scatter/gather elements of a slot belong to the slot's user, too.
#[pin_data]
pub(crate) struct Srx {
    pd: Arc<Pd>,
    ring: WrRing,
    slot_controls: KVVec<SlotControl>,
    saved_sges: SavedSges,
    depth: u32,
    max_msg_size: usize,
    /// First of the slots that have been released since posters took this list.
    released_list: Atomic<u32>,
    #[pin]
    producer: FastLockIrq<SrxProducer>,
    /// Greatest sequence number that has completed: all receives before it have left the device's
    /// queue.
    max_completed_seq: Atomic<u64>,
    /// While receives may have been lost with a queue pair, the greatest sequence number that they
    /// can have; 0 otherwise.
    lost_check_end: Atomic<u64>,
    /// Sequence number from whose completion on the next search for lost receives is due.
    next_lost_check: Atomic<u64>,
    #[pin]
    lost_check_work: Work<Srx>,
    #[pin]
    endpoints: Mutex<SrxEndpoints>,
    /// Statistics of posters, under the lock of `producer`.
    posted: StatCounter,
    eagain: StatCounter,
    /// Statistics of readers: receives that are complete, their bytes, and those that have failed.
    completed: Atomic<u64>,
    bytes: Atomic<u64>,
    errors: Atomic<u64>,
}

/// Returns the maximum number of receives of one context: each completion queue of an endpoint has
/// to have entries for all of them, beside `besides` others.
pub(super) fn max_receives(attributes: &DeviceAttr, besides: usize) -> usize {
    let room = (attributes.max_cqe as usize).saturating_sub(besides);
    (attributes.max_srq_wr as usize).min(room)
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
    /// device's and for capabilities that a context does not have, -FI_ENOMEM.
    pub(super) fn new(pd: &Arc<Pd>, attr: &fi::srx::Attr, max_message: usize) -> Result<Arc<Self>> {
        let attributes = pd.device().attributes();
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
        let mut marks = KVVec::with_capacity(depth as usize, GFP_KERNEL)?;
        for slot in 0..depth {
            let control = SlotControl {
                state: Atomic::new(FREE),
                sge_count: Atomic::new(0),
                post_seq: Atomic::new(0),
                next: Atomic::new(if slot + 1 < depth { slot + 1 } else { NO_SLOT }),
            };
            marks.push(control, GFP_KERNEL)?;
        }
        let pieces = SavedSges::new(depth as usize, width)?;
        Ok(Arc::pin_init(
            // INVARIANT: All slots are in the list of `producer`.
            pin_init!(Self {
                pd: pd.clone(),
                ring,
                slot_controls: marks,
                saved_sges: pieces,
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
                lost_check_work <- new_work!("kofi::verbs::Srx"),
                endpoints <- new_mutex!(SrxEndpoints::default(), "kofi::verbs::Srx::endpoints"),
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

    /// Returns whether the context is of the protection domain `pd`.
    pub(super) fn is_in_pd(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.pd, pd)
    }

    fn slot_control(&self, slot: u32) -> Option<&SlotControl> {
        self.slot_controls.get(slot as usize)
    }

    /// Marks a slot as completed, and returns the sequence number of its post; none if it is not
    /// posted.
    ///
    /// # Safety
    ///
    /// The completion of the slot has been polled, and has not been taken before.
    pub(super) unsafe fn mark_completed(&self, slot: u32) -> Option<u64> {
        let control = self.slot_control(slot)?;
        // INVARIANT: By this function's safety requirement the device is done with the slot; it has one user now.
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
        // Before `posted`: a completed receive has been posted.
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

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        let (posted, left) = (self.posted.get(), self.free_slots());
        out.add_value(KOFI_VALUE_RX_SIZE, self.depth.into());
        out.add_value(
            KOFI_VALUE_RX_DEPTH,
            u64::from(self.depth).saturating_sub(left as u64),
        );
        out.add_value(KOFI_VALUE_RECEIVES, posted);
        out.add_value(KOFI_VALUE_RX_DONE, self.completed.load(Relaxed));
        out.add_value(KOFI_VALUE_RX_BYTES, self.bytes.load(Relaxed));
        out.add_value(KOFI_VALUE_RX_ERRORS, self.errors.load(Relaxed));
        out.add_value(KOFI_VALUE_RX_AGAIN, self.eagain.get());
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        let srq = self.producer.lock().srq.take();
        if srq.is_none() {
            return;
        }
        // The last reference: after this the device accesses no posted memory.
        drop(srq);
        for (slot, mark) in self.slot_controls.iter().enumerate() {
            if mark.state.load(Acquire) != FREE {
                // INVARIANT: The slot stays in no list: nothing is posted any more.
                mark.state.store(FREE, Relaxed);
                // SAFETY: No queue pair and no device has the slot, and no reader is left: this is
                // its user.
                let saved = unsafe { self.unmap_slot(slot as u32) };
                reclaim(saved.context);
            }
        }
    }
}
