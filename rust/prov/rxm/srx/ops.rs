// SPDX-License-Identifier: GPL-2.0

//! Implementation of [`provider::SharedReceive`], through which the object model calls a shared receive context.

use super::{
    super::{
        ep::PEEK_FLAGS,
        flags::check_flags,
        iov::{
            AddrCheck,
            PostedDst,
            MAX_IOV, //
        },
        matcher::Matcher,
        peer_srx::ExportedSrx, //
    },
    entry::SrxRecv,
    Srx, //
};
use crate::{
    abi::{
        flags::*,
        KOFI_VALUE_RECEIVES,
        KOFI_VALUE_RX_AGAIN,
        KOFI_VALUE_RX_DEPTH,
        KOFI_VALUE_RX_DONE,
        KOFI_VALUE_RX_SIZE, //
    },
    fi::{
        prelude::*,
        provider::{
            self,
            Message, //
        },
        srx::{
            ExportedReceives,
            PeerEndpoint, //
        },
    },
};
use core::any::Any;

/// Flags that a receive accepts.
const FLAGS: u64 = FI_COMPLETION | FI_MORE;

impl Srx {
    /// Checks the flags of a receive.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP for flags that need receives of a single endpoint: the rest of a multi-receive buffer, or the
    /// result of a peek, would not belong to one endpoint. -FI_EBADFLAGS for flags that no receive accepts.
    fn check(message: &Message<'_>) -> Result {
        let own = message.tag.map_or(FI_MULTI_RECV, |_| PEEK_FLAGS);
        check_flags(message.flags, (FLAGS | own, !FLAGS))
    }
}

impl provider::SharedReceive for Srx {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn has_tags(&self) -> bool {
        self.has_tags
    }

    fn receive(&self, message: &Message<'_>) -> Result {
        Self::check(message)?;
        if message.memory.count() > self.parts {
            return Err(Errno::EINVAL);
        }
        if let Some(domain) = &self.domain {
            domain.check_descriptors(message.memory, message.descriptors)?;
        }
        // SAFETY: The buffer is dropped with the receive, before the poster's completion is written.
        let into = unsafe { PostedDst::borrow(message.memory, AddrCheck::Device, self.parts) }?;
        let descriptors = into.descriptors(message.descriptors);
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Errno::EOPBADSTATE);
        }
        // Pairs with the release in `complete()`.
        let node = match self.used.load(Acquire) < self.size {
            true => state.free.pop(),
            false => None,
        };
        let Some(mut node) = node else {
            self.again.add(1);
            return Err(Errno::EAGAIN);
        };
        let (into, peer_entry) = state.slots.store(into);
        node.srx_recv = SrxRecv {
            tag: message.tag.map(|tag| (tag.tag, tag.ignore)),
            into,
            descriptors,
            context: message.context,
            reports_success: message.flags & FI_COMPLETION != 0,
            peer_entry,
        };
        let _ = self.used.fetch_add(1usize, Relaxed);
        self.posted.add(1);
        self.post_node(state, node, Matcher::post)
    }

    fn export(
        self: Arc<Self>,
        peer_ep: Arc<dyn PeerEndpoint>,
    ) -> Result<Arc<dyn ExportedReceives>> {
        // Entries of the peer interface have up to `MAX_IOV` segments.
        if self.imported().is_some() || self.parts > MAX_IOV {
            return Err(Errno::EINVAL);
        }
        let exported: Arc<dyn ExportedReceives> =
            Arc::new(ExportedSrx::new(self, peer_ep)?, GFP_KERNEL)?;
        Ok(exported)
    }

    fn receives_left(&self) -> usize {
        self.size.saturating_sub(self.used.load(Acquire))
    }

    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        let (used, posted) = (self.used.load(Relaxed) as u64, self.posted.get());
        out.add_value(KOFI_VALUE_RX_SIZE, self.size as u64);
        out.add_value(KOFI_VALUE_RX_DEPTH, used);
        out.add_value(KOFI_VALUE_RECEIVES, posted);
        out.add_value(KOFI_VALUE_RX_DONE, posted.saturating_sub(used));
        out.add_value(KOFI_VALUE_RX_AGAIN, self.again.get());
    }

    fn close(&self, reclaim: &mut dyn FnMut(Context)) {
        let mut state = self.state.lock();
        state.is_closed = true;
        drop(state);
        if let Some(imported) = self.imported() {
            imported.owner().set_starter(None);
        }
        loop {
            let node = self.state.lock().matcher.pop_receive();
            let Some(node) = node else {
                return;
            };
            reclaim(node.srx_recv.context);
        }
    }
}
