// SPDX-License-Identifier: GPL-2.0

//! Rings: lower completion queues, each with the connections that complete in it. The lock of the list of ready rings
//! is a leaf.
//!
//! An endpoint begins with one ring. When a connection finds all rings full, the connection manager opens another one,
//! so each queue has an entry for every operation of its connections, whatever their number.
//!
//! Readers and the handler poll the first ring (see [`progress`](super::progress)). Any other ring is armed until it
//! has a completion. Its handler, in interrupt context, then puts it in the list of ready rings, which readers and the
//! handler of the first ring poll, too. A ring leaves the list before it is polled, and the poll that finds it empty
//! arms it. Both happen in a [turn](super::turn), so a ring that the connection manager has taken off the list while
//! there was none is not polled any more.

use super::{
    cm::ConnMgr,
    conn::{
        CTRL_BUFS,
        INITIAL_RX,
        MAX_READS,
        MAX_RX_BUFS,
        MAX_SEGS, //
    },
    ep_core::{
        Bound,
        EpCore, //
    },
    inflight::Indexed,
    info::PoolSize,
    rx_pool::RingRx, //
};
use crate::{
    abi::flags::FI_MSG,
    fi::{
        cq::{
            self,
            CompletionQueue,
            Format,
            Handler, //
        },
        prelude::*,
        srx::{
            self,
            SharedReceive, //
        },
    },
    util::{
        context::InterruptContext,
        irq_work::InterruptHandler,
        paged_vec::Growth, //
    },
};
use kernel::list::{
    impl_list_arc_safe,
    impl_list_item,
    AtomicTracker,
    List,
    ListArc,
    ListLinks,
    TryNewListArc, //
};

/// Number of operations with buffers of the pool that a connection has space for. Operations beyond it use space of
/// other transmits, or are deferred.
const CONN_OPS: usize = 64;

/// Number of transmits that a connection can have in flight.
pub(super) const CONN_TRANSMITS: usize =
    CONN_OPS + 1 + MAX_SEGS + CTRL_BUFS + MAX_READS + MAX_RX_BUFS;

/// Number of queue entries for a connection, apart from those for the transmit buffers of the pool: one operation with
/// a reserved buffer, control packets, reads, and receives of its own or atomic responses in shared ones.
const CONN_ENTRIES: usize = 1 + CTRL_BUFS + MAX_READS + MAX_RX_BUFS;

/// Number of receive buffers that are kept when a ring has been closed.
const KEPT_RX_BUFS: usize = 64;

/// Size of a ring.
#[derive(Clone, Copy)]
pub(super) struct RingSize {
    /// Number of connections.
    pub(super) conns: usize,
    /// Number of shared receive buffers of a new connection.
    pub(super) initial_rx: usize,
    /// Number of shared receive buffers besides the initial ones.
    pub(super) extra_rx: usize,
    /// Number of queue entries for each connection.
    conn_entries: usize,
    /// Number of queue entries that the operations of the pool need.
    pool_entries: usize,
}

impl RingSize {
    /// Size of the first ring: few endpoints have more connections. There is an entry for each work request that the
    /// connections can post, so the lower provider need not count entries.
    pub(super) const FIRST: Self = Self {
        conns: 16,
        initial_rx: INITIAL_RX,
        extra_rx: 16 * (MAX_RX_BUFS - INITIAL_RX),
        conn_entries: CONN_TRANSMITS,
        pool_entries: 16 * CONN_OPS,
    };

    /// Size of the other rings, where connections begin with little memory.
    pub(super) const OTHER: Self = Self {
        conns: 64,
        // With fewer buffers, the endpoint would send a grant for each packet, and atomic requests could take all.
        initial_rx: INITIAL_RX,
        extra_rx: 2240 - 64 * INITIAL_RX,
        conn_entries: CONN_ENTRIES,
        pool_entries: 64 * CONN_OPS,
    };

    /// Returns the size of the ring with that index, of an endpoint with `pool_size`. A connection needs `long` work requests
    /// besides, for long vectors, so its ring has as few connections as the first one.
    fn of(index: usize, pool_size: PoolSize, long: usize) -> Self {
        let size = match (index, long) {
            (0, _) | (_, 1..) => Self::FIRST,
            _ => Self::OTHER,
        };
        Self {
            conn_entries: size.conn_entries + long,
            pool_entries: size.pool_entries.min(pool_size.most),
            ..size
        }
    }

    /// Returns the depth of the shared receive queue.
    pub(super) const fn depth(self) -> usize {
        self.conns * self.initial_rx + self.extra_rx
    }

    /// Returns the number of entries of the completion queue.
    fn entries(self) -> usize {
        self.pool_entries + self.depth() + self.conns * self.conn_entries
    }
}

/// A completion queue with its connections.
#[pin_data]
pub(super) struct Ring {
    /// Index of the ring.
    pub(super) index: u32,
    /// Size of the ring.
    pub(super) size: RingSize,
    /// Completion queue.
    pub(super) queue: Arc<CompletionQueue>,
    /// Receive queue that the connections share, if the device supports it.
    pub(super) shared: Option<Arc<SharedReceive>>,
    /// Records whether the ring is in the list of ready rings.
    #[pin]
    tracker: AtomicTracker,
    #[pin]
    list_links: ListLinks,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Ring { tracked_by tracker: AtomicTracker; }
}

impl_list_item! {
    impl ListItem<0> for Ring { using ListLinks { self.list_links }; }
}

impl Ring {
    /// Closes the queues. The ring has no connections, and nothing polls it. The completion queue of the first ring is
    /// closed with the endpoint. The context of each posted receive is passed to `reclaim`.
    pub(super) fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        // No endpoint is bound to them any more.
        if let Some(shared) = &self.shared {
            let _ = shared.close(reclaim);
        }
        if self.index != 0 {
            let _ = self.queue.close();
        }
    }
}

/// List of the rings that may have completions, apart from the first ring; each is in it at most once.
#[pin_data]
pub(super) struct ReadyRings {
    #[pin]
    list: FastLockIrq<List<Ring>>,
    /// Number of rings in the list, which pollers read without the lock.
    len: Atomic<usize>,
}

impl ReadyRings {
    /// Creates an empty list.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- FastLockIrq::new(List::new(), c"kofi::rxm::ReadyRings", static_lock_class!()),
            len: Atomic::new(0),
        })
    }

    /// Returns whether the list is empty. Any context.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    /// Adds a ring, unless it is in the list. Any context.
    fn push(&self, ring: &Arc<Ring>) {
        if let Ok(entry) = ListArc::try_from_arc(ring.clone()) {
            let mut list = self.list.lock();
            list.push_back(entry);
            self.len.store(self.len.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Takes the first ring. Any context.
    pub(super) fn pop(&self) -> Option<Arc<Ring>> {
        let mut list = self.list.lock();
        let entry = list.pop_front()?;
        self.len.store(self.len.load(Relaxed) - 1, Relaxed);
        drop(list);
        // From now on the ring can be added again.
        Some(entry.into_arc())
    }

    /// Removes a ring that is not added any more.
    fn remove(&self, ring: &Ring) {
        let (mut kept, mut removed) = (List::new(), None);
        let mut list = self.list.lock();
        while let Some(entry) = list.pop_front() {
            match entry.index == ring.index {
                true => removed = Some(entry),
                false => kept.push_back(entry),
            }
        }
        mem::swap(&mut *list, &mut kept);
        let len = self.len.load(Relaxed);
        self.len
            .store(len - usize::from(removed.is_some()), Relaxed);
    }
}

/// Handler of a ring other than the first one.
struct RingHandler {
    core: Arc<EpCore>,
    ring: Arc<Ring>,
}

impl InterruptHandler for RingHandler {
    fn handle(&self, _ctx: &InterruptContext) {
        if let Ok(bound) = self.core.bound() {
            self.core.ring_ready(bound, &self.ring);
        }
    }
}

/// A ring in the table of the connection manager.
pub(super) struct CmRing {
    pub(super) ring: Arc<Ring>,
    /// Number of connections.
    conns: usize,
}

impl ConnMgr {
    /// Returns the ring with that index.
    pub(super) fn ring(&self, index: u32) -> Option<Arc<Ring>> {
        let cm_ring = self.rings.get(index as usize)?.as_ref()?;
        Some(cm_ring.ring.clone())
    }

    /// Changes the number of connections of a ring by `change`. Returns the new number.
    pub(super) fn count_ring_conn(&mut self, index: u32, change: isize) -> usize {
        match self.rings.get_mut(index as usize) {
            Some(Some(cm_ring)) => {
                cm_ring.conns = cm_ring.conns.saturating_add_signed(change);
                cm_ring.conns
            }
            _ => 0,
        }
    }
}

impl EpCore {
    /// Puts a ring in the list of ready rings, and schedules the handler unless readers poll. Any context.
    pub(super) fn ring_ready(&self, bound: &Bound, ring: &Arc<Ring>) {
        self.ready_rings.push(ring);
        // Full barrier: either this sees that the handler is armed, or the handler sees the ring, because it looks at
        // the list after it has armed its queue. While readers poll, the handler is called by a timer.
        let is_armed = self.is_armed.fetch_add(0u32, Full) != 0;
        if is_armed || self.is_read.load(Relaxed) == 0 {
            bound.queue.schedule_handler();
        }
    }

    /// Returns the size of the ring with that index.
    fn ring_size(&self, index: usize) -> RingSize {
        RingSize::of(index, self.pool_size, self.iov_limits.long_requests())
    }

    /// Opens the completion queue of the ring with that index, which the completion vector `vector` serves.
    pub(super) fn ring_queue(&self, index: usize, vector: u32) -> Result<Arc<CompletionQueue>> {
        self.protection.lower().completion_queue(&cq::Attr {
            size: self.ring_size(index).entries(),
            // Entries are read as `SourcedEntry`, whatever the format.
            format: Format::Data,
            waitable: false,
            vector,
        })
    }

    /// Opens the shared receive queue of a ring, if the device supports one.
    fn ring_srx(&self, cm: &ConnMgr, index: usize) -> Result<Option<Arc<SharedReceive>>> {
        if cm.is_iwarp {
            return Ok(None);
        }
        let attr = srx::Attr {
            size: self.ring_size(index).depth(),
            segments: 1,
            caps: FI_MSG,
        };
        match self.protection.lower().shared_receive(&attr) {
            Ok(shared) => Ok(Some(shared)),
            // The device has none, or none of this size.
            Err(Errno::ENOSYS | Errno::EINVAL) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Adds a ring over `queue` to the tables. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, and errors of the lower provider; the caller closes the queue.
    pub(super) fn add_ring(
        &self,
        cm: &mut ConnMgr,
        index: usize,
        queue: &Arc<CompletionQueue>,
    ) -> Result<Arc<Ring>> {
        while cm.rings.len() <= index {
            cm.rings.push(None, GFP_KERNEL)?;
        }
        loop {
            let inner = self.inner.lock();
            let size = inner.rx_pool.growth_for_ring(index);
            drop(inner);
            let Some(size) = size else {
                break;
            };
            let mut growth = Growth::new(size)?;
            self.inner.lock().rx_pool.grow_rings(&mut growth);
        }
        let size = self.ring_size(index);
        let shared = self.ring_srx(cm, index)?;
        let ring = Arc::pin_init(
            pin_init!(Ring {
                index: index as u32,
                size,
                queue: queue.clone(),
                shared,
                tracker <- AtomicTracker::new(),
                list_links <- ListLinks::new(),
            }),
            GFP_KERNEL,
        )?;
        let ring_rx = KBox::new(RingRx::new(ring.clone()), GFP_KERNEL)?;
        let old = self
            .inner
            .lock()
            .rx_pool
            .set_ring(index as u32, Some(ring_rx));
        drop(old);
        if let Some(slot) = cm.rings.get_mut(index) {
            let ring = ring.clone();
            *slot = Some(CmRing { ring, conns: 0 });
        }
        Ok(ring)
    }

    /// Returns a ring with space for a connection; opens one if all are full. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM, and errors of the lower provider.
    pub(super) fn ring_with_space(&self, cm: &mut ConnMgr) -> Result<Arc<Ring>> {
        let has_space = |cm_ring: &&CmRing| cm_ring.conns < cm_ring.ring.size.conns;
        if let Some(cm_ring) = cm.rings.iter().flatten().find(has_space) {
            return Ok(cm_ring.ring.clone());
        }
        let core = cm.core.clone().ok_or(Errno::ECANCELED)?;
        let free = cm.rings.iter().position(Option::is_none);
        let index = free.unwrap_or(cm.rings.len());
        let queue = self.ring_queue(index, self.bound()?.queue.attr().vector)?;
        let ring = self.add_ring(cm, index, &queue).inspect_err(|_| {
            let _ = queue.close();
        })?;
        let handler = RingHandler {
            core,
            ring: ring.clone(),
        };
        let handler = KBox::new(handler, GFP_KERNEL).map_err(Errno::from);
        let is_set = handler.and_then(|handler| queue.set_handler(Handler::Interrupt(handler)));
        if let Err(errno) = is_set {
            self.close_empty_ring(cm, ring.index);
            return Err(errno);
        }
        queue.arm_handler();
        Ok(ring)
    }

    /// Closes a ring, other than the first one, that has no connection. May sleep.
    pub(super) fn close_empty_ring(&self, cm: &mut ConnMgr, index: u32) {
        let is_empty = |cm_ring: &mut CmRing| cm_ring.conns == 0;
        let slot = cm.rings.get_mut(index as usize).filter(|_| index != 0);
        let Some(CmRing { ring, .. }) = slot.and_then(|slot| slot.take_if(is_empty)) else {
            return;
        };
        // The handler, which adds the ring to the list of ready rings, is not called any more.
        ring.queue.stop_handler();
        let mut held = self.quiesced();
        self.ready_rings.remove(&ring);
        let ring_rx = held.rx_pool.set_ring(index, None);
        drop(held);
        drop(ring_rx);
        ring.close(&mut |context| {
            let mut inner = self.inner.lock();
            if let Some(packet) = inner.inflight.complete(context) {
                inner.keep(packet);
            }
        });
        self.free_rx_bufs(cm);
    }

    /// Frees receive buffers that are not posted, except [`KEPT_RX_BUFS`] of them.
    fn free_rx_bufs(&self, cm: &mut ConnMgr) {
        loop {
            let mut inner = self.inner.lock();
            let free_bufs = inner.rx_pool.free_bufs();
            if free_bufs.len() <= KEPT_RX_BUFS {
                return;
            }
            let packet = free_bufs.pop();
            drop(inner);
            if let Some(packet) = packet {
                // If there is no memory, the number is not used again.
                let _ = cm.free_numbers.push(packet.number(), GFP_KERNEL);
            }
        }
    }
}
