// SPDX-License-Identifier: GPL-2.0

//! Receives of another module's provider, which messages of endpoints here take.
//!
//! Whatever has come is asked for there, and waits there if there is nothing: the owner has its ticket, and the
//! letter is here. What the owner has no memory for waits behind the others and is tried again: nobody says when
//! something is posted that could take it. The lock is held while the owner is asked, so that it sees one message
//! after the other.
//!
//! Messages of another module's provider, which take receives that are posted here: it has a seat among the
//! endpoints that share them.

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

/// The ticket of a letter that the owner has not heard of.
const UNANNOUNCED: usize = 0;

struct Waiting {
    /// Those that the owner knows are in any order, the others in that in which they came.
    unexp_msgs: BoxList<UnexpMsg>,
    /// How many the owner has not heard of.
    unannounced: usize,
}

/// See the module.
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
            // Of memory that is none, nothing fits: whoever posted it hears of that.
            // SAFETY: It is dropped with the receive, before the owner's completion is written.
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
    /// Receives of `owner`. May sleep.
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

    /// Whose they are.
    pub(super) fn owner(&self) -> &dyn ReceiveOwner {
        &*self.owner
    }

    /// What has been posted for a message that has come. Any context.
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

    /// As [`Srx::queue`](super::srx::Srx::queue), of a message from `source`.
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

    /// Tells the owner of a message, which waits there if nothing has been posted for it.
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

    /// Tells the owner of those that it has not heard of, until one gets something: that comes back. Any context.
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

    /// Whether there are some that the owner has not heard of. Any context.
    pub(super) fn needs_srx_retry(&self) -> bool {
        self.waiting.lock().unannounced > 0
    }

    /// Takes the letter with that ticket.
    ///
    /// # Errors
    ///
    /// -FI_ENOENT.
    pub(super) fn take(&self, peer_entry: usize) -> Result<ListBox<UnexpMsg>> {
        let mut waiting = self.waiting.lock();
        let is = |unexp: &UnexpMsg| unexp.peer_entry == peer_entry && peer_entry != UNANNOUNCED;
        waiting
            .unexp_msgs
            .remove_first_where(is)
            .ok_or(Errno::ENOENT)
    }

    /// Takes those that `go`, with the owner too.
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

/// A guest among endpoints.
struct ExportedEp(Arc<dyn PeerEndpoint>);

impl SrxEp for ExportedEp {
    fn start(&self, srx_recv: SrxRecv, unexp: ListBox<UnexpMsg>) {
        // It has no others.
        if let UnexpBody::PeerMsg(number) = unexp.body {
            self.0.start(number, srx_recv.into());
        }
    }

    fn retry(&self) {}

    fn discard(&self, _letter: ListBox<UnexpMsg>) {}
}

/// The seat of a guest.
pub(super) struct ExportedSrx {
    srx: Arc<Srx>,
    ep_slot: usize,
}

impl ExportedSrx {
    /// Admits a guest. May sleep.
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
