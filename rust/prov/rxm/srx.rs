// SPDX-License-Identifier: GPL-2.0

//! Shared receive contexts (SRX): one matcher with the receives and the unexpected messages of several endpoints.
//!
//! `state` guards the matcher. It is taken inside the `EpCore::inner` of an endpoint, and no lock of an endpoint is
//! taken inside it: a thread that finds a message of an endpoint calls the endpoint after it has released the lock.
//!
//! An endpoint [gets](Srx::get) a posted receive for a message, or [queues](Srx::queue) the message. A post that
//! matches a queued message [starts](SrxEp::start) it at its endpoint. An endpoint that could not queue a message is
//! marked as starved, and [retries](SrxEp::retry) after the next post.
//!
//! If the receives belong to another module's provider, they are in an [`ImportedSrx`], and only the list of
//! endpoints is here.

pub(super) mod entry;
pub(super) mod ep;
mod ops;
mod slots;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use self::{
    entry::{
        SrxNode,
        SrxRecv, //
    },
    slots::SrxSlots, //
};
use super::{
    domain::Domain,
    info,
    matcher::{
        MatchResult,
        Matcher,
        MsgKey,
        PostResult,
        RxBuckets,
        SEARCH_STEP, //
    },
    peer_srx::ImportedSrx,
    unexpected::UnexpMsg, //
};
use crate::{
    abi::flags::*,
    fi::{
        prelude::*,
        rundown::{
            Rundown,
            RundownRef, //
        },
        srx::{
            Attr,
            ReceiveOwner, //
        },
    },
    util::{
        lock::FastLockIrqGuard,
        log::warn,
        stat_counter::StatCounter, //
    },
};

/// Endpoints whose messages take receives of the context.
pub(super) trait SrxEp: Send + Sync {
    /// Starts a queued message that has matched a receive. Any context.
    fn start(&self, srx_recv: SrxRecv, unexp: ListBox<UnexpMsg>);

    /// Retries messages that could not be queued, after a post. Any context.
    fn retry(&self);

    /// Discards a queued message without reporting it. Any context.
    fn discard(&self, unexp: ListBox<UnexpMsg>);
}

/// An attached endpoint.
struct EpSlot {
    ep: Arc<dyn SrxEp>,
    /// Rundown of calls into the endpoint.
    rundown: Arc<Rundown>,
    /// True if the endpoint has messages that it could not queue.
    is_starved: bool,
}

type SrxPostResult = PostResult<SrxNode, UnexpMsg>;

struct SrxState {
    matcher: KBox<Matcher<SrxNode, UnexpMsg>>,
    /// Free nodes.
    free: BoxList<SrxNode>,
    slots: SrxSlots,
    ep_slots: KVec<Option<EpSlot>>,
    /// Number of starved endpoints.
    starved: usize,
    is_closed: bool,
}

impl SrxState {
    fn ep_slot(&mut self, at: usize) -> Option<&mut EpSlot> {
        self.ep_slots.get_mut(at)?.as_mut()
    }

    pub(super) fn enter(&mut self, at: usize) -> Option<RundownRef<dyn SrxEp>> {
        let ep_slot = self.ep_slot(at)?;
        Some(RundownRef {
            object: ep_slot.ep.clone(),
            _guard: ep_slot.rundown.begin_owned_call()?,
        })
    }

    fn set_starved(&mut self, at: usize, is_starved: bool) {
        let ep_slot = self
            .ep_slot(at)
            .filter(|ep_slot| ep_slot.is_starved != is_starved);
        if let Some(ep_slot) = ep_slot {
            ep_slot.is_starved = is_starved;
            match is_starved {
                true => self.starved += 1,
                false => self.starved -= 1,
            }
        }
    }
}

/// A shared receive context.
#[pin_data]
pub(crate) struct Srx {
    #[pin]
    state: FastLockIrq<SrxState>,
    /// Domain of the regions that receives may name.
    domain: Option<Arc<Domain>>,
    size: usize,
    /// Largest number of segments of a receive.
    parts: usize,
    has_tags: bool,
    /// Receives of another module's provider, if the context is imported.
    imported: Option<Pin<KBox<ImportedSrx>>>,
    /// Number of receives that have been posted and not reported. Incremented under the lock.
    used: Atomic<usize>,
    /// Number of posted receives, counted under the lock.
    posted: StatCounter,
    again: StatCounter,
}

impl Srx {
    /// Opens a context for receives in regions of `domain`; without one, descriptors are not checked. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for attributes beyond the limits, or capabilities that shared receives do not have; -FI_ENOMEM.
    pub(super) fn new(domain: Option<Arc<Domain>>, attr: &Attr) -> Result<Arc<Self>> {
        let size = attr.size_within(info::DEFAULT_RECVS, info::MAX_RECVS)?;
        let parts = info::rx_iov_limit(attr.segments)?;
        if attr.caps & !info::SHARED_CAPS != 0 {
            return Err(Errno::EINVAL);
        }
        let has_tags = attr.caps == 0 || attr.caps & FI_TAGGED != 0;
        Self::make(domain, (size, parts), has_tags, None)
    }

    /// Imports the context of another module's provider. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn import(owner: KBox<dyn ReceiveOwner>) -> Result<Arc<Self>> {
        let srx = Self::make(None, (0, 0), true, Some(ImportedSrx::new(owner)?))?;
        if let Some(imported) = srx.imported() {
            imported.owner().set_starter(Some(srx.clone()));
        }
        Ok(srx)
    }

    // Not inline: it needs more stack than its callers have left.
    #[inline(never)]
    fn make(
        domain: Option<Arc<Domain>>,
        (size, parts): (usize, usize),
        has_tags: bool,
        imported: Option<Pin<KBox<ImportedSrx>>>,
    ) -> Result<Arc<Self>> {
        let mut free = BoxList::new();
        for _ in 0..size {
            free.push(ListBox::new(SrxNode::EMPTY)?);
        }
        let mut matcher = Matcher::new(true)?;
        matcher.set_buckets(RxBuckets::new(size)?);
        let state = SrxState {
            matcher,
            free,
            slots: SrxSlots::new(size, parts)?,
            ep_slots: KVec::new(),
            starved: 0,
            is_closed: false,
        };
        Ok(Arc::pin_init(
            pin_init!(Self {
                state <- FastLockIrq::new(state, c"kofi::rxm::Srx", static_lock_class!()),
                domain,
                size,
                parts,
                has_tags,
                imported,
                used: Atomic::new(0),
                posted: StatCounter::new(),
                again: StatCounter::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Returns the imported context, if the receives belong to another module's provider.
    pub(super) fn imported(&self) -> Option<&ImportedSrx> {
        self.imported.as_deref()
    }

    /// Attaches an endpoint and returns its slot. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn attach(&self, ep: Arc<dyn SrxEp>) -> Result<usize> {
        let ep_slot = EpSlot {
            ep,
            rundown: Arc::pin_init(Rundown::new(), GFP_KERNEL)?,
            is_starved: false,
        };
        let mut spare = KVec::new();
        loop {
            let mut state = self.state.lock();
            let ep_slots = &mut state.ep_slots;
            let at = ep_slots.iter().position(Option::is_none);
            let at = at.unwrap_or(ep_slots.len());
            if let Some(free) = ep_slots.get_mut(at) {
                *free = Some(ep_slot);
                return Ok(at);
            }
            if spare.capacity() > at {
                // Moved under the lock into memory that was allocated outside of it.
                for taken in ep_slots.drain_all() {
                    let _ = spare.push_within_capacity(taken);
                }
                let _ = spare.push_within_capacity(Some(ep_slot));
                while spare.push_within_capacity(None).is_ok() {}
                mem::swap(ep_slots, &mut spare);
                drop(state);
                return Ok(at);
            }
            drop(state);
            spare = KVec::with_capacity(2 * at + 1, GFP_KERNEL)?;
        }
    }

    /// Detaches an endpoint, which queues no more messages: waits for calls into it, and returns its queued messages.
    /// May sleep.
    pub(super) fn detach(&self, ep_slot: usize) -> BoxList<UnexpMsg> {
        let mut unexp_msgs = BoxList::new();
        let gone = loop {
            let mut state = self.state.lock();
            let owned = || state.matcher.pop_owner(ep_slot as u32);
            let mut some = core::iter::from_fn(owned).take(SEARCH_STEP).peekable();
            let has_none = some.peek().is_none();
            some.for_each(|unexp| unexp_msgs.push(unexp));
            // The endpoint stays attached as long as posts can match its messages.
            if has_none {
                state.set_starved(ep_slot, false);
                break state.ep_slots.get_mut(ep_slot).and_then(Option::take);
            }
        };
        if let Some(imported) = self.imported() {
            imported.detach(ep_slot as u32);
        }
        if let Some(gone) = gone {
            gone.rundown.run_down();
        }
        unexp_msgs
    }

    /// Takes a posted receive that matches a message. If there is none, the endpoint is starved until it queues the
    /// message. Any context.
    #[inline]
    pub(super) fn get(&self, ep_slot: usize, key: &MsgKey) -> Option<SrxRecv> {
        let mut state = self.state.lock();
        let Some(MatchResult::One(mut node)) = state.matcher.match_msg(key) else {
            state.set_starved(ep_slot, true);
            return None;
        };
        let srx_recv = node.srx_recv.take();
        state.free.push_front(node);
        Some(srx_recv)
    }

    /// Queues a message, unless a receive has been posted for it meanwhile: then returns both. The endpoint
    /// `is_starved` if it has other messages that it could not queue. Any context.
    pub(super) fn queue(
        &self,
        ep_slot: usize,
        mut unexp: ListBox<UnexpMsg>,
        is_starved: bool,
    ) -> Option<(SrxRecv, ListBox<UnexpMsg>)> {
        unexp.ep_slot = ep_slot as u32;
        let mut state = self.state.lock();
        state.set_starved(ep_slot, is_starved);
        let (mut node, unexp) = state.matcher.match_or_queue(unexp)?;
        let srx_recv = node.srx_recv.take();
        state.free.push_front(node);
        Some((srx_recv, unexp))
    }

    /// Takes the queued messages of an endpoint from a source that `selects` accepts. Any context.
    pub(super) fn remove_unexp(
        &self,
        ep_slot: usize,
        from: &SocketAddr,
        mut selects: impl FnMut(&UnexpMsg) -> bool,
    ) -> BoxList<UnexpMsg> {
        let selects = |unexp: &UnexpMsg| unexp.ep_slot == ep_slot as u32 && selects(unexp);
        match self.imported() {
            None => self.state.lock().matcher.remove_unexp(from, selects),
            Some(imported) => imported.remove_unexp(from, selects),
        }
    }

    /// Announces messages to the owner that it has not been told about, and starts those that match. Any context.
    pub(super) fn retry_unannounced(&self) {
        let Some(imported) = self.imported() else {
            return;
        };
        while let Some((srx_recv, unexp)) = imported.announce_next() {
            let peer_entry = srx_recv.peer_entry;
            match self.enter(unexp.ep_slot as usize) {
                Some(call) => call.object.start(srx_recv, unexp),
                None => imported.owner().free(peer_entry),
            }
        }
    }

    pub(super) fn enter(&self, ep_slot: usize) -> Option<RundownRef<dyn SrxEp>> {
        self.state.lock().enter(ep_slot)
    }

    /// Completes a shared receive, before it is reported: its poster can post another one. Any context.
    #[inline]
    pub(super) fn complete(&self, peer_entry: usize) {
        if let Some(imported) = self.imported() {
            imported.owner().free(peer_entry);
            return;
        }
        if peer_entry != 0 {
            self.state.lock().slots.put(peer_entry);
        }
        // Orders accesses to the memory before the next post.
        let _ = self.used.fetch_sub(1usize, Release);
    }

    /// Posts a receive again whose message is not reported. The caller holds no lock of an endpoint. The owner of an
    /// imported context takes no receive back, so the receive is lost. Any context.
    pub(super) fn post_again(&self, srx_recv: SrxRecv) {
        if self.imported().is_some() {
            warn(
                &c"peer",
                fmt!("a receive of another provider is lost: its endpoint was closed"),
            );
            return self.complete(srx_recv.peer_entry);
        }
        let mut state = self.state.lock();
        match state.free.pop() {
            Some(mut node) => {
                node.srx_recv = srx_recv;
                let _ = self.post_node(state, node, Matcher::post_again);
            }
            // Cannot happen: each receive in use has a node.
            None => {
                state.slots.put(srx_recv.peer_entry);
                let _ = self.used.fetch_sub(1usize, Release);
            }
        }
    }

    /// Posts the receive of a node by `post`, which may need several sections under the lock.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if receives with too many different ignore masks are posted.
    fn post_node<'a>(
        &'a self,
        mut state: FastLockIrqGuard<'a, SrxState>,
        mut node: ListBox<SrxNode>,
        post: fn(&mut Matcher<SrxNode, UnexpMsg>, ListBox<SrxNode>) -> SrxPostResult,
    ) -> Result {
        let (mut node, unexp) = loop {
            match post(&mut state.matcher, node) {
                PostResult::Matched(node, unexp) => break (node, unexp),
                PostResult::Posted => {
                    let has_starved = state.starved > 0;
                    drop(state);
                    if has_starved {
                        self.wake_starved();
                    }
                    return Ok(());
                }
                PostResult::Again(same) => {
                    node = same;
                    drop(state);
                    state = self.state.lock();
                }
                PostResult::Refused(mut node) => {
                    state.slots.put(node.srx_recv.take().peer_entry);
                    state.free.push_front(node);
                    let _ = self.used.fetch_sub(1usize, Relaxed);
                    self.posted.sub(1);
                    self.again.add(1);
                    return Err(Errno::EAGAIN);
                }
            }
        };
        let srx_recv = node.srx_recv.take();
        state.free.push_front(node);
        // The endpoint is attached: detaching removes its messages.
        let call = state.enter(unexp.ep_slot as usize);
        drop(state);
        if let Some(call) = call {
            call.object.start(srx_recv, unexp);
        }
        Ok(())
    }

    /// Lets each starved endpoint retry once.
    fn wake_starved(&self) {
        let mut from = 0;
        while let Some((ep_slot, call)) = self.next_starved(from) {
            call.object.retry();
            from = ep_slot + 1;
        }
    }

    /// Takes the first starved endpoint from the slot `from` on, and clears its mark.
    fn next_starved(&self, from: usize) -> Option<(usize, RundownRef<dyn SrxEp>)> {
        let mut state = self.state.lock();
        let mut ep_slots = from..state.ep_slots.len();
        let ep_slot =
            ep_slots.find(|&at| state.ep_slot(at).is_some_and(|ep_slot| ep_slot.is_starved))?;
        state.set_starved(ep_slot, false);
        Some((ep_slot, state.enter(ep_slot)?))
    }
}
