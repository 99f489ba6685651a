// SPDX-License-Identifier: GPL-2.0

//! Receives that endpoints share, over a shared receive queue of the device.
//!
//! Each has a slot, whose number is in its `wr_id`. A poster takes one under `head`, where it also posts,
//! so that the device has them in the order of their numbers; whoever reads the completion queue of the
//! endpoint that got the message gives it back, in any order and without a lock. What an endpoint leaves
//! unread when it closes is posted again. `members` guards who takes messages from here.

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
        lock::FastLockIrq,
        stat_counter::StatCounter,
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

/// Receives of a context that is opened with size 0.
const DEFAULT_SIZE: usize = 256;

/// What they can be made for.
const CAPS: u64 = FI_MSG | FI_RECV | FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE;

/// The bit of a `wr_id` that makes its lower half a slot of the queue pair's shared receives. To who reads
/// in a hurry, the upper half is a place that no table has.
pub(super) const SRX_WR_ID_BIT: u64 = 1 << 61;

/// No slot.
const NO_SLOT: u32 = u32::MAX;

/// Nobody's.
const FREE: u32 = 0;
/// The device's.
const POSTED: u32 = 1;
/// Its completion has been taken from the device, and no reader has been told yet.
const COMPLETED: u32 = 2;

/// What several threads ask of a slot.
struct SlotControl {
    state: Atomic<u32>,
    /// How many pieces of memory it has.
    sge_count: Atomic<u32>,
    /// The how manieth post it is.
    post_seq: Atomic<u64>,
    /// The next one in the list that it is in.
    next: Atomic<u32>,
}

/// What posters share.
struct SrxProducer {
    /// Where to post, until the close.
    srq: Option<Arc<Srq>>,
    /// The first of the free slots that posters know.
    free_list: u32,
    /// How many have been posted; the first one is 1.
    post_seq: u64,
}

/// Receives that endpoints share.
///
/// # Invariants
///
/// - A slot in the state FREE is its list's: that of `head`, or the one that begins at `freed`. One that is
///   POSTED is the poster's until the device has it, and from its completion on whoever makes it MET; that
///   one is its user, in the sense of [`WrRing`], until it is in another state.
/// - What `pieces` has of a slot is the slot's user's, too.
#[pin_data]
pub(crate) struct Srx {
    pd: Arc<Pd>,
    ring: WrRing,
    slot_controls: KVVec<SlotControl>,
    saved_sges: SavedSges,
    depth: u32,
    max_msg_size: usize,
    /// The first of those that have been given back since posters looked.
    released_list: Atomic<u32>,
    #[pin]
    producer: FastLockIrq<SrxProducer>,
    /// The greatest number that has completed: those before it have been taken from the device's queue.
    max_completed_seq: Atomic<u64>,
    /// Where a queue pair may have taken one with it, the greatest number that it can have; or 0.
    lost_check_end: Atomic<u64>,
    /// The number from whose completion on it is worth while to look for that.
    next_lost_check: Atomic<u64>,
    #[pin]
    lost_check_work: Work<Srx>,
    #[pin]
    endpoints: Mutex<SrxEndpoints>,
    /// What posters count, under `head`.
    posted: StatCounter,
    eagain: StatCounter,
    /// What readers count: those that are over, their bytes, and those that have failed.
    completed: Atomic<u64>,
    bytes: Atomic<u64>,
    errors: Atomic<u64>,
}

/// Most receives of one context: each completion queue of an endpoint has to have room for them.
pub(super) fn max_receives(attributes: &DeviceAttr, besides: usize) -> usize {
    let room = (attributes.max_cqe as usize).saturating_sub(besides);
    (attributes.max_srq_wr as usize).min(room)
}

/// Most pieces of memory that one is put into.
pub(super) fn max_sges(attributes: &DeviceAttr) -> usize {
    (attributes.max_srq_sge as usize).min(MAX_SGE)
}

/// Whether a device has what endpoints can share.
pub(super) fn has_srq(attributes: &DeviceAttr) -> bool {
    attributes.max_srq > 0 && attributes.max_srq_wr > 0 && attributes.max_srq_sge > 0
}

impl Srx {
    /// Opens some. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS on a device that has none, -FI_EINVAL for more than it has and for capabilities that they do
    /// not have, -FI_ENOMEM.
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
            // INVARIANT: All slots are in the list of `head`.
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
                    c"kofi::Srx",
                    static_lock_class!(),
                ),
                max_completed_seq: Atomic::new(0),
                lost_check_end: Atomic::new(0),
                next_lost_check: Atomic::new(0),
                lost_check_work <- new_work!("kofi::Srx"),
                endpoints <- new_mutex!(SrxEndpoints::default(), "kofi::Srx::members"),
                posted: StatCounter::new(),
                eagain: StatCounter::new(),
                completed: Atomic::new(0),
                bytes: Atomic::new(0),
                errors: Atomic::new(0),
            }),
            GFP_KERNEL,
        )?)
    }

    /// The device's queue; -FI_EINVAL once it has been closed.
    pub(super) fn srq(&self) -> Result<Arc<Srq>> {
        self.producer.lock().srq.clone().ok_or(Errno::EINVAL)
    }

    /// Whether they are of this protection domain.
    pub(super) fn is_in_pd(&self, pd: &Arc<Pd>) -> bool {
        Arc::ptr_eq(&self.pd, pd)
    }

    fn slot_control(&self, slot: u32) -> Option<&SlotControl> {
        self.slot_controls.get(slot as usize)
    }

    /// Takes a slot from the device, and returns the number of its post; none if it has not been posted.
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

    /// How many posters can have now.
    fn free_slots(&self) -> usize {
        // The done first: what is over has been posted.
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

    fn fill_info(&self, told: &mut ObjectInfo<'_>) {
        let (posted, left) = (self.posted.get(), self.free_slots());
        told.add_value(KOFI_VALUE_RX_SIZE, self.depth.into());
        told.add_value(
            KOFI_VALUE_RX_DEPTH,
            u64::from(self.depth).saturating_sub(left as u64),
        );
        told.add_value(KOFI_VALUE_RECEIVES, posted);
        told.add_value(KOFI_VALUE_RX_DONE, self.completed.load(Relaxed));
        told.add_value(KOFI_VALUE_RX_BYTES, self.bytes.load(Relaxed));
        told.add_value(KOFI_VALUE_RX_ERRORS, self.errors.load(Relaxed));
        told.add_value(KOFI_VALUE_RX_AGAIN, self.eagain.get());
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        let srq = self.producer.lock().srq.take();
        if srq.is_none() {
            return;
        }
        // The last reference: after this the device touches no posted memory.
        drop(srq);
        for (slot, mark) in self.slot_controls.iter().enumerate() {
            if mark.state.load(Acquire) != FREE {
                // INVARIANT: It stays in no list: nobody posts any more.
                mark.state.store(FREE, Relaxed);
                // SAFETY: No queue pair and no device has the slot, and nobody reads: this is its user.
                let saved = unsafe { self.unmap_slot(slot as u32) };
                reclaim(saved.context);
            }
        }
    }
}
