// SPDX-License-Identifier: GPL-2.0

//! RMA calls: RDMA reads and writes of the lower endpoint, and accesses to tagged receives of a peer.

use super::{
    super::{
        flags::{
            check_flags,
            COMPLETION_LEVELS,
            TRANSMIT_FLAGS, //
        },
        iov::{
            AddrCheck,
            PostedDevice,
            PostedSrc,
            RmaRanges,
            Slot, //
        },
        pkt_buf::{
            BufState,
            Packet, //
        },
        tx_op::{
            LocalBuf,
            RmaTx,
            RndvTx,
            TxComp,
            TxOp, //
        },
        wire, //
    },
    Endpoint, //
};
use crate::{
    abi::{
        fi_rma_iov,
        flags::*, //
    },
    fi::{
        prelude::*,
        provider::{
            Message,
            Rma, //
        },
    },
};

/// Flags that are defined for a read.
const READ_FLAGS: u64 = TRANSMIT_FLAGS & !(FI_INJECT | FI_REMOTE_CQ_DATA);

/// Flags that neither a read nor a write accepts. The lower endpoint could fence its own operations, but not messages
/// that are deferred, and operations that the peer has not answered.
const REFUSED_FLAGS: u64 = FI_FENCE | FI_REMOTE_SIGNAL;

/// Flags of an access to a tagged receive that are not accepted: its memory is never copied.
const REFUSED_TAGGED_FLAGS: u64 = REFUSED_FLAGS | FI_INJECT;

/// Flags that are passed to the lower endpoint.
const PASSED_FLAGS: u64 = FI_REMOTE_CQ_DATA | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;

/// Local memory of an operation.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// Memory of the consumer.
    Lent(PostedDevice<'a>),
    /// Memory of the consumer that is copied before the call returns.
    Copied(PostedSrc<'a>),
}

impl Source<'_> {
    /// Returns whether the operation needs a slot for its segments.
    fn needs_slot(&self) -> bool {
        matches!(self, Self::Lent(lent) if lent.is_long())
    }
}

impl Endpoint {
    /// Returns the descriptors for the lower endpoint: those of regions in its own protection domain.
    fn descriptors<'a>(&self, message: &Message<'a>) -> &'a [Descriptor] {
        match self.core.domain.is_open(&self.core.protection) {
            true => message.descriptors,
            false => &[],
        }
    }

    /// Posts an RDMA read or write.
    pub(super) fn post_rma(
        &self,
        way: Rma,
        remote: &[fi_rma_iov],
        message: &Message<'_>,
    ) -> Result {
        let flags = message.flags;
        if flags & FI_TAGGED != 0 {
            return self.post_tagged_access(way, remote, message);
        }
        let (bound_cq, bound) = self.tx_path()?;
        let (kind, known) = match way {
            Rma::Read => (FI_READ, READ_FLAGS),
            Rma::Write => (FI_WRITE, TRANSMIT_FLAGS),
        };
        let refused = !known | REFUSED_FLAGS | COMPLETION_LEVELS & !self.rma_levels;
        check_flags(flags, (known, refused))?;
        if !self.has_rma {
            return Err(Errno::EOPNOTSUPP);
        }
        let limits = self.core.iov_limits;
        if remote.is_empty() || remote.len() > limits.ranges {
            return Err(Errno::EINVAL);
        }
        if flags & FI_REMOTE_CQ_DATA != 0 {
            if self.written_data_size == 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            if message.data > u64::from(u32::MAX) {
                return Err(Errno::EINVAL);
            }
        }
        let is_injected = flags & FI_INJECT != 0;
        let len = message.memory.total_len()?;
        let most = match is_injected {
            true => self.inject,
            false => self.max_msg_size,
        };
        if len > most {
            return Err(Errno::EMSGSIZE);
        }
        let add = |sum: usize, range: &fi_rma_iov| sum.checked_add(range.len);
        if remote.iter().try_fold(0, add) != Some(len) {
            return Err(Errno::EINVAL);
        }
        let to = bound.addresses.lookup(message.peer)?;
        let comp = TxComp {
            tx_ctx: self.context,
            context: message.context,
            flags: FI_RMA | kind,
            reports_success: flags & FI_COMPLETION != 0
                || !bound_cq.is_selective && !message.errors_only,
        };
        let source = match is_injected {
            // SAFETY: The buffer is copied and dropped before this call returns.
            true => Source::Copied(unsafe {
                PostedSrc::borrow(message.memory, AddrCheck::Kernel, limits.segments)
            }?),
            false => {
                let check = self.addr_check(message)?;
                let descriptors = self.descriptors(message);
                // SAFETY: The buffer is dropped with the operation, before the poster's completion is written;
                // `check` is of this memory.
                Source::Lent(unsafe {
                    PostedDevice::borrow(message.memory, descriptors, check, limits.segments)
                }?)
            }
        };
        self.start((bound_cq, bound), &to, len, comp, |packet: &mut Packet| {
            let mut slot = match remote.len() > 1 || source.needs_slot() {
                true => packet.slot(),
                false => Slot::none(),
            };
            let remote = RmaRanges::new(remote, &mut slot);
            let local = match source {
                Source::Lent(lent) => LocalBuf::Consumer(lent.into_entry(|| slot)),
                Source::Copied(memory) => LocalBuf::Inline(memory.copy_to_slice(0, packet.bytes())),
            };
            packet.state = BufState::Tx(TxOp::Rma(RmaTx {
                way,
                remote,
                local,
                flags: flags & PASSED_FLAGS,
                data: message.data,
            }));
        })
    }

    /// Posts a read or write of the memory of the peer's tagged receive whose tag is the key in `remote`.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP without FI_TAGGED_RMA, and if the peer could access other memory of the endpoint in this
    /// direction than the info permits; -FI_EINVAL for an address, which a receive does not have.
    #[cold]
    fn post_tagged_access(&self, way: Rma, remote: &[fi_rma_iov], message: &Message<'_>) -> Result {
        let (bound_cq, bound) = self.tx_path()?;
        let flags = message.flags;
        let (kind, known, is_permitted) = match way {
            Rma::Read => (FI_READ, READ_FLAGS, self.core.may_be_written()),
            Rma::Write => (FI_WRITE, TRANSMIT_FLAGS, self.core.may_be_read()),
        };
        let known = known | FI_TAGGED;
        check_flags(flags, (known, !known | REFUSED_TAGGED_FLAGS))?;
        if !self.core.rights.has_tagged_rma() || !is_permitted {
            return Err(Errno::EOPNOTSUPP);
        }
        let [remote] = remote else {
            return Err(Errno::EINVAL);
        };
        let len = message.memory.total_len()?;
        if len > self.max_msg_size {
            return Err(Errno::EMSGSIZE);
        }
        if remote.len != len || remote.addr != 0 {
            return Err(Errno::EINVAL);
        }
        self.check_descriptors(message)?;
        let context = u8::try_from(bound.addresses.rx_context(message.peer));
        let has_data = flags & FI_REMOTE_CQ_DATA != 0;
        let request = wire::Message {
            context: context.map_err(|_| Errno::EINVAL)?,
            ack: None,
            tag: Some(remote.key),
            len: len as u64,
            data: has_data.then_some(message.data),
        };
        // SAFETY: The buffer is dropped with the operation, before the poster's completion is written. It only names the
        // memory, which the peer reads or writes.
        let memory = unsafe {
            PostedSrc::borrow(
                message.memory,
                AddrCheck::Device,
                self.core.iov_limits.segments,
            )
        }?;
        let to = bound.addresses.lookup(message.peer)?;
        let comp = TxComp {
            tx_ctx: self.context,
            context: message.context,
            flags: FI_TAGGED | FI_SEND | FI_RMA | kind,
            reports_success: flags & FI_COMPLETION != 0
                || !bound_cq.is_selective && !message.errors_only,
        };
        self.start((bound_cq, bound), &to, len, comp, |packet: &mut Packet| {
            let memory = memory.into_entry(|| packet.slot());
            packet.state = BufState::Tx(TxOp::Rndv(RndvTx::access(way, request, memory)));
        })
    }
}
