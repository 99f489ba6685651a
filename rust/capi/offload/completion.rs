// SPDX-License-Identifier: GPL-2.0

//! Reports completions of an offload's transfers to the offload.

use super::super::{
    peer::with_err_entry,
    prelude::*, //
};
use crate::{
    fi::{
        cq::{
            read_one,
            read_or_arm,
            CompletionQueue,
            CqEntry,
            TaskHandler, //
        },
        provider, //
    },
    util::callback::Functions, //
};

/// Number of completions that one run of the handler reports, before other work items run.
const BATCH: usize = 64;

/// Handler of the completion queue of an offload's transfers, which reports completions in `queue` to the offload's
/// endpoint `ep`.
///
/// # Invariants
///
/// `ep` and the calls in `peer` stay valid until the queue has been closed.
pub(super) struct CompForwarder {
    pub(super) queue: Arc<dyn provider::CompletionQueue>,
    pub(super) handler: Arc<CompletionQueue>,
    pub(super) ep: usize,
    pub(super) peer: fi_ops_transfer_peer,
    /// Address format in error data.
    pub(super) addr_format: u32,
}

// SAFETY: The offload's calls may come from any thread, one at a time.
unsafe impl Send for CompForwarder {}

// SAFETY: As above: a handler does not run twice at a time.
unsafe impl Sync for CompForwarder {}

impl CompForwarder {
    fn report(&self, entry: &CqEntry) {
        let ep: *mut fid_ep = ptr::with_exposed_provenance_mut(self.ep);
        match (entry, self.peer.complete, self.peer.comperr) {
            (CqEntry::Done(done), Some(complete), _) => {
                let mut source: fi_addr_t = done.source;
                let mut entry = fi_cq_tagged_entry {
                    op_context: done.context.as_ptr(),
                    flags: done.flags | abi::FI_PEER_TRANSFER,
                    len: done.len,
                    buf: ptr::without_provenance_mut(done.buf),
                    data: done.data,
                    tag: done.tag,
                };
                // SAFETY: By the invariant, the offload's endpoint and its calls are valid.
                let _ = unsafe { complete(ep, &mut entry, &mut source) };
            }
            (CqEntry::Failed(failure), _, Some(comperr)) => {
                let _ = with_err_entry(failure, self.addr_format, |entry| {
                    entry.flags |= abi::FI_PEER_TRANSFER;
                    // SAFETY: By the invariant; the entry is valid during the call.
                    unsafe { comperr(ep, entry) }
                });
            }
            _ => {}
        }
    }

    fn report_next(&self) -> bool {
        let entry = read_one(&*self.queue);
        if let Some(entry) = &entry {
            self.report(entry);
        }
        entry.is_some()
    }
}

impl TaskHandler for CompForwarder {
    fn ready(&self, _ctx: ProcessContext) {
        for _ in 0..BATCH {
            if self.report_next() {
                continue;
            }
            // The queue is armed, and the handler runs again for the next completion, unless one has arrived
            // meanwhile.
            let armed = read_or_arm(&*self.queue, || match self.report_next() {
                true => Ok(1),
                false => Err(Errno::EAGAIN),
            });
            if armed.is_err() {
                return;
            }
        }
        self.handler.schedule_handler();
    }

    fn functions(&self) -> Functions {
        let complete = self.peer.complete.map(|call| call as *const ());
        let comperr = self.peer.comperr.map(|call| call as *const ());
        Functions::from_array([complete, comperr].map(|call| call.unwrap_or(ptr::null())))
    }
}
