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
        MatchSpec,
        MsgKey, //
    },
    rx_entry::SrxRecv,
    srx::{
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
    util::owned_list::{
        BoxList,
        ListBox, //
    },
};

impl MessageStarter for Srx {
    fn start(&self, taken: MatchedReceive) -> Result {
        let imported = self.imported().ok_or(Errno::ENOENT)?;
        let peer_entry = taken.entry;
        let unexp = imported.take(peer_entry)?;
        let Some(call) = self.enter(unexp.ep_slot) else {
            imported.owner().free(peer_entry);
            return Err(Errno::ENOENT);
        };
        call.object.start(taken.into(), unexp);
        Ok(())
    }

    fn discard(&self, peer_entry: usize) -> Result {
        let imported = self.imported().ok_or(Errno::ENOENT)?;
        let unexp = imported.take(peer_entry)?;
        if let Some(call) = self.enter(unexp.ep_slot) {
            call.object.discard(unexp);
        }
        imported.owner().free(peer_entry);
        Ok(())
    }
}

const _: () = assert!(MAX_SEGMENTS == MAX_IOV);

/// Entry of a message that has not been announced to the owner.
const UNANNOUNCED: usize = 0;

struct Waiting {
    /// Queued messages: announced ones in any order, the others in order of arrival.
    unexp_msgs: BoxList<UnexpMsg>,
    /// Number of messages that have not been announced.
    unannounced: usize,
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
            spec: MatchSpec {
                tag: taken.tag,
                from: None,
            },
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
            tag: srx_recv.spec.tag,
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
    pub(super) fn new(owner: KBox<dyn ReceiveOwner>) -> Result<Pin<KBox<Self>>> {
        let waiting = Waiting {
            unexp_msgs: BoxList::new(),
            unannounced: 0,
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
        if waiting.unannounced > 0 {
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
        unexp.ep_slot = ep_slot;
        unexp.source = source;
        let mut waiting = self.waiting.lock();
        if waiting.unannounced == 0 {
            if let Ok(Some(srx_recv)) = self.announce(&mut unexp) {
                return Some((srx_recv, unexp));
            }
        }
        waiting.unannounced += usize::from(unexp.peer_entry == UNANNOUNCED);
        waiting.unexp_msgs.push(unexp);
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
            let mut unexp = waiting
                .unexp_msgs
                .remove_first_where(|unexp| unexp.peer_entry == UNANNOUNCED)?;
            match self.announce(&mut unexp) {
                Ok(srx_recv) => {
                    waiting.unannounced -= 1;
                    match srx_recv {
                        Some(srx_recv) => return Some((srx_recv, unexp)),
                        None => waiting.unexp_msgs.push(unexp),
                    }
                }
                Err(_) => {
                    waiting.unexp_msgs.push_front(unexp);
                    return None;
                }
            }
        }
    }

    /// Returns whether a message has not been announced. Any context.
    pub(super) fn needs_srx_retry(&self) -> bool {
        self.waiting.lock().unannounced > 0
    }

    /// Takes the queued message with that entry.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT if there is none.
    pub(super) fn take(&self, peer_entry: usize) -> Result<ListBox<UnexpMsg>> {
        let mut waiting = self.waiting.lock();
        let is = |unexp: &UnexpMsg| unexp.peer_entry == peer_entry && peer_entry != UNANNOUNCED;
        waiting
            .unexp_msgs
            .remove_first_where(is)
            .ok_or(Errno::ENOENT)
    }

    /// Takes the messages that `selects` accepts, and frees their entries at the owner.
    pub(super) fn remove_unexp(&self, selects: impl FnMut(&UnexpMsg) -> bool) -> BoxList<UnexpMsg> {
        let mut waiting = self.waiting.lock();
        let unexp_msgs = waiting.unexp_msgs.drain_where(selects);
        for unexp in unexp_msgs.iter() {
            match unexp.peer_entry {
                UNANNOUNCED => waiting.unannounced -= 1,
                peer_entry => self.owner.free(peer_entry),
            }
        }
        unexp_msgs
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

fn key(tag: Option<u64>) -> MsgKey {
    MsgKey {
        tag,
        ..MsgKey::NONE
    }
}

impl ExportedReceives for ExportedSrx {
    fn get(&self, tag: Option<u64>) -> Option<MatchedReceive> {
        self.srx
            .get(self.ep_slot, &key(tag))
            .map(MatchedReceive::from)
    }

    fn queue(&self, tag: Option<u64>, number: usize) -> Result<Option<MatchedReceive>> {
        let message = Message {
            context: 0,
            tag,
            len: 0,
            data: None,
        };
        let unexp = UnexpMsg::new(key(tag), message, 0, UnexpBody::PeerMsg(number));
        let queued = self
            .srx
            .queue(self.ep_slot, ListBox::new_atomic(unexp)?, false);
        Ok(queued.map(|(srx_recv, _)| srx_recv.into()))
    }

    fn cancel(&self, number: usize) -> bool {
        let is = |unexp: &UnexpMsg| matches!(unexp.body, UnexpBody::PeerMsg(it) if it == number);
        let taken = self.srx.remove_unexp(self.ep_slot, is);
        taken.iter().any(|unexp_msgs| !unexp_msgs.is_empty())
    }

    fn complete(&self) {
        self.srx.complete(0);
    }

    fn repost(&self, taken: MatchedReceive) {
        self.srx.post_again(taken.into());
    }

    fn detach(&self, each: &mut dyn FnMut(usize)) {
        let left = self.srx.remove_unexp(self.ep_slot, |_| true);
        self.srx.detach(self.ep_slot);
        for unexp in left.iter().flat_map(|unexp_msgs| unexp_msgs.iter()) {
            if let UnexpBody::PeerMsg(number) = unexp.body {
                each(number);
            }
        }
    }
}
