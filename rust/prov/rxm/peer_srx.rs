// SPDX-License-Identifier: GPL-2.0

//! Peer SRX (FI_PEER): receives of another module's provider that endpoints here use (imported), and receives of kOFI
//! that another module's provider uses (exported).
//!
//! Imported: each message is announced to the owner, which matches or queues it under an entry of its own; the
//! message itself is queued here. A message that the owner had no memory for waits behind the others and is announced
//! again, because the owner does not tell when a receive is posted. The lock is held while the owner is called, so
//! that it sees one message after the other.
//!
//! Exported: the other provider is attached to the shared receive context like an endpoint.

use super::{
    super::common::iov::{
        DstBuf,
        MAX_IOV, //
    },
    matcher::{
        MsgKey,
        MSG_TABLES,
        SEARCH_STEP, //
    },
    srx::{
        entry::SrxRecv,
        Srx,
        SrxEp, //
    },
    unexpected::{
        UnexpBody,
        UnexpMsg, //
    },
    wire::Message, //
};
use crate::{
    fi::{
        prelude::*,
        srx::{
            ExportedReceives,
            GetResult,
            MatchedReceive,
            MessageInfo,
            MessageStarter,
            PeerEndpoint,
            ReceiveOwner,
            MAX_SEGMENTS, //
        },
    },
    util::{
        hash::{
            hash_local,
            HashSeed, //
        },
        indexed_fifo::{
            GroupKey,
            IndexedFifo, //
        },
    },
};
use core::net::Ipv6Addr;

impl MessageStarter for Srx {
    fn start(&self, taken: MatchedReceive) -> Result {
        let imported = self.imported().ok_or(Errno::ENOENT)?;
        let peer_entry = taken.entry;
        let unexp = imported.take(peer_entry)?;
        let Some(call) = self.enter(unexp.ep_slot as usize) else {
            imported.owner().free(peer_entry);
            return Err(Errno::ENOENT);
        };
        call.object.start(taken.into(), unexp);
        Ok(())
    }

    fn discard(&self, peer_entry: usize) -> Result {
        let imported = self.imported().ok_or(Errno::ENOENT)?;
        let unexp = imported.take(peer_entry)?;
        if let Some(call) = self.enter(unexp.ep_slot as usize) {
            call.object.discard(unexp);
        }
        imported.owner().free(peer_entry);
        Ok(())
    }
}

const _: () = assert!(MAX_SEGMENTS == MAX_IOV);

/// Entry of a message that has not been announced to the owner.
const UNANNOUNCED: usize = 0;

/// Tables of the announced messages: by entry, by endpoint, by source.
const ENTRIES: usize = 0;
const EP_SLOTS: usize = 1;
const SOURCES: usize = 2;

/// Key of the messages with an entry of the owner.
struct OfEntry(usize);

impl GroupKey<UnexpMsg> for OfEntry {
    fn hash(&self) -> u32 {
        hash_local(self.0)
    }

    fn is_of(&self, unexp: &UnexpMsg) -> bool {
        unexp.peer_entry == self.0
    }
}

/// Key of the messages of an endpoint.
struct OfEpSlot(u32);

impl GroupKey<UnexpMsg> for OfEpSlot {
    fn hash(&self) -> u32 {
        hash_local(self.0 as usize)
    }

    fn is_of(&self, unexp: &UnexpMsg) -> bool {
        unexp.ep_slot == self.0
    }
}

/// Key of the messages from a source.
struct OfSource<'a>(&'a HashSeed, &'a SocketAddr);

impl GroupKey<UnexpMsg> for OfSource<'_> {
    fn hash(&self) -> u32 {
        self.0.hash_addr(0, self.1)
    }

    fn is_of(&self, unexp: &UnexpMsg) -> bool {
        unexp.key.from == *self.1
    }
}

struct Waiting {
    /// Messages that the owner has queued.
    announced: IndexedFifo<UnexpMsg, MSG_TABLES>,
    /// Other messages, in order of arrival. The owner has no memory for them.
    unannounced: BoxList<UnexpMsg>,
    seed: HashSeed,
}

impl Waiting {
    fn push(&mut self, unexp: ListBox<UnexpMsg>) {
        if unexp.peer_entry == UNANNOUNCED {
            self.unannounced.push(unexp);
            return;
        }
        let (peer_entry, ep_slot, from) = (unexp.peer_entry, unexp.ep_slot, unexp.key.from);
        let mut entry = self.announced.push_back(unexp);
        entry.index_back(ENTRIES, &OfEntry(peer_entry));
        entry.index_back(EP_SLOTS, &OfEpSlot(ep_slot));
        entry.index_back(SOURCES, &OfSource(&self.seed, &from));
    }
}

/// Shared receive context of another module's provider. `waiting` is taken inside `EpCore::inner`.
#[pin_data]
pub(super) struct ImportedSrx {
    owner: KBox<dyn ReceiveOwner>,
    #[pin]
    waiting: FastLockIrq<Waiting>,
}

impl From<MatchedReceive> for SrxRecv {
    fn from(taken: MatchedReceive) -> Self {
        Self {
            tag: taken.tag,
            // Invalid memory holds no bytes: the poster gets a truncation error.
            // SAFETY: The buffer is dropped with the receive, before the owner's completion is written.
            into: unsafe { DstBuf::new(Memory::Segments(&taken.segments)) }
                .unwrap_or(DstBuf::EMPTY),
            descriptors: taken.descriptors,
            context: taken.context,
            reports_success: taken.reports_success,
            peer_entry: taken.entry,
        }
    }
}

impl From<SrxRecv> for MatchedReceive {
    fn from(srx_recv: SrxRecv) -> Self {
        Self {
            entry: srx_recv.peer_entry,
            // SAFETY: `srx_recv` ends here, and is reported with the memory that it received into.
            segments: unsafe { srx_recv.into.segments() },
            descriptors: srx_recv.descriptors,
            context: srx_recv.context,
            tag: srx_recv.tag,
            reports_success: srx_recv.reports_success,
        }
    }
}

impl ImportedSrx {
    /// Creates the context of `owner`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    #[inline(never)]
    pub(super) fn new(owner: KBox<dyn ReceiveOwner>) -> Result<Pin<KBox<Self>>> {
        let waiting = Waiting {
            announced: IndexedFifo::new(),
            unannounced: BoxList::new(),
            seed: HashSeed::new(),
        };
        Ok(KBox::pin_init(
            pin_init!(Self {
                owner,
                waiting <- FastLockIrq::new(waiting, c"kofi::rxm::ImportedSrx", static_lock_class!()),
            }),
            GFP_KERNEL,
        )?)
    }

    /// Returns the owner.
    pub(super) fn owner(&self) -> &dyn ReceiveOwner {
        &*self.owner
    }

    /// Takes a posted receive that matches a message. Any context.
    pub(super) fn get(&self, arrived: &MessageInfo) -> Option<SrxRecv> {
        let waiting = self.waiting.lock();
        if !waiting.unannounced.is_empty() {
            return None;
        }
        match self.owner.get(arrived).ok()? {
            GetResult::Matched(taken) => Some(taken.into()),
            GetResult::Unmatched(peer_entry) => {
                self.owner.free(peer_entry);
                None
            }
        }
    }

    /// Queues a message from `source`, as [`Srx::queue`](super::srx::Srx::queue) does.
    pub(super) fn queue(
        &self,
        ep_slot: usize,
        mut unexp: ListBox<UnexpMsg>,
        source: fi_addr_t,
    ) -> Option<(SrxRecv, ListBox<UnexpMsg>)> {
        unexp.ep_slot = ep_slot as u32;
        unexp.source = source;
        let mut waiting = self.waiting.lock();
        if waiting.unannounced.is_empty() {
            if let Ok(Some(srx_recv)) = self.announce(&mut unexp) {
                return Some((srx_recv, unexp));
            }
        }
        waiting.push(unexp);
        None
    }

    /// Announces a message to the owner. Returns the receive that it matches; without one, the owner has queued it.
    fn announce(&self, unexp: &mut UnexpMsg) -> Result<Option<SrxRecv>> {
        let arrived = MessageInfo {
            tag: unexp.key.tag,
            len: unexp.message.len as usize,
            source: unexp.source,
        };
        match self.owner.get(&arrived)? {
            GetResult::Matched(taken) => Ok(Some(taken.into())),
            GetResult::Unmatched(peer_entry) => {
                let queued = self.owner.queue(&arrived, peer_entry);
                queued.inspect_err(|_| self.owner.free(peer_entry))?;
                unexp.peer_entry = peer_entry;
                Ok(None)
            }
        }
    }

    /// Announces messages in order until one matches; returns it with its receive. Any context.
    pub(super) fn announce_next(&self) -> Option<(SrxRecv, ListBox<UnexpMsg>)> {
        loop {
            let mut waiting = self.waiting.lock();
            let mut unexp = waiting.unannounced.pop()?;
            match self.announce(&mut unexp) {
                Ok(Some(srx_recv)) => return Some((srx_recv, unexp)),
                Ok(None) => waiting.push(unexp),
                Err(_) => {
                    waiting.unannounced.push_front(unexp);
                    return None;
                }
            }
        }
    }

    /// Returns whether a message has not been announced. Any context.
    pub(super) fn needs_srx_retry(&self) -> bool {
        !self.waiting.lock().unannounced.is_empty()
    }

    /// Takes the queued message with that entry.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT if there is none.
    pub(super) fn take(&self, peer_entry: usize) -> Result<ListBox<UnexpMsg>> {
        let mut waiting = self.waiting.lock();
        let entry = waiting.announced.find(ENTRIES, &OfEntry(peer_entry));
        Ok(entry.ok_or(Errno::ENOENT)?.take())
    }

    /// Takes the messages of a source that `selects` accepts, and frees their entries at the owner.
    pub(super) fn remove_unexp(
        &self,
        from: &SocketAddr,
        mut selects: impl FnMut(&UnexpMsg) -> bool,
    ) -> BoxList<UnexpMsg> {
        let mut waiting = self.waiting.lock();
        let Waiting {
            announced,
            unannounced,
            seed,
        } = &mut *waiting;
        let mut removed = announced.remove_where(SOURCES, &OfSource(seed, from), &mut selects);
        for unexp in removed.iter() {
            self.owner.free(unexp.peer_entry);
        }
        let is = |unexp: &UnexpMsg| unexp.key.from == *from && selects(unexp);
        removed.append(&mut unannounced.drain_where(is));
        removed
    }

    /// Drops the messages of an endpoint, and frees their entries at the owner. May sleep.
    pub(super) fn detach(&self, ep_slot: u32) {
        let is = |unexp: &UnexpMsg| unexp.ep_slot == ep_slot;
        let removed = self.waiting.lock().unannounced.drain_where(is);
        drop(removed);
        loop {
            let mut removed = BoxList::new();
            let mut waiting = self.waiting.lock();
            for _ in 0..SEARCH_STEP {
                let Some(entry) = waiting.announced.find(EP_SLOTS, &OfEpSlot(ep_slot)) else {
                    return;
                };
                self.owner.free(entry.get().peer_entry);
                removed.push(entry.take());
            }
            drop(waiting);
            drop(removed);
        }
    }
}

/// Provider of another module as an endpoint.
struct ExportedEp(Arc<dyn PeerEndpoint>);

impl SrxEp for ExportedEp {
    fn start(&self, srx_recv: SrxRecv, unexp: ListBox<UnexpMsg>) {
        // The other provider queues no other messages.
        if let UnexpBody::PeerMsg(number) = unexp.body {
            self.0.start(number, srx_recv.into());
        }
    }

    fn retry(&self) {}

    fn discard(&self, _letter: ListBox<UnexpMsg>) {}
}

/// Attachment of another module's provider.
pub(super) struct ExportedSrx {
    srx: Arc<Srx>,
    ep_slot: usize,
}

impl ExportedSrx {
    /// Attaches a provider of another module. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(srx: Arc<Srx>, peer_ep: Arc<dyn PeerEndpoint>) -> Result<Self> {
        let ep_slot = srx.attach(Arc::new(ExportedEp(peer_ep), GFP_KERNEL)?)?;
        Ok(Self { srx, ep_slot })
    }
}

/// Returns the key of a message of another module's provider. No receive of a shared context names a source, so the
/// source is the number by which the message is found again.
fn key(tag: Option<u64>, number: usize) -> MsgKey {
    MsgKey {
        context: 0,
        tag,
        from: SocketAddr::from((Ipv6Addr::from_bits(number as u128), 0)),
    }
}

impl ExportedReceives for ExportedSrx {
    fn get(&self, tag: Option<u64>) -> Option<MatchedReceive> {
        self.srx
            .get(self.ep_slot, &key(tag, 0))
            .map(MatchedReceive::from)
    }

    fn queue(&self, tag: Option<u64>, number: usize) -> Result<Option<MatchedReceive>> {
        let message = Message {
            context: 0,
            ack: None,
            tag,
            len: 0,
            data: None,
        };
        let unexp = UnexpMsg::new(key(tag, number), message, 0, UnexpBody::PeerMsg(number));
        let queued = self
            .srx
            .queue(self.ep_slot, ListBox::new_atomic(unexp)?, false);
        Ok(queued.map(|(srx_recv, _)| srx_recv.into()))
    }

    fn cancel(&self, number: usize) -> bool {
        let is = |unexp: &UnexpMsg| matches!(unexp.body, UnexpBody::PeerMsg(it) if it == number);
        let from = key(None, number).from;
        !self.srx.remove_unexp(self.ep_slot, &from, is).is_empty()
    }

    fn complete(&self) {
        self.srx.complete(0);
    }

    fn repost(&self, taken: MatchedReceive) {
        self.srx.post_again(taken.into());
    }

    fn detach(&self, each: &mut dyn FnMut(usize)) {
        for unexp in self.srx.detach(self.ep_slot).iter() {
            if let UnexpBody::PeerMsg(number) = unexp.body {
                each(number);
            }
        }
    }
}
