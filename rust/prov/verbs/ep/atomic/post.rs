// SPDX-License-Identifier: GPL-2.0

//! What the device does with one request. Any context; nothing here sleeps or allocates.

use super::{
    gather,
    Native, //
};
use crate::{
    abi::{
        flags::*,
        Errno,
        Result, //
    },
    fi::{
        atomic::{
            Atomic,
            Form, //
        },
        memory::{
            Descriptor,
            Memory,
            Segment, //
        },
        provider::Message, //
    },
    prov::verbs::{
        ep::{
            post::report,
            Endpoint, //
        },
        gather::Gather,
        queue::{
            Post, //
            Resources,
        },
        status, //
    },
    rdma::{
        dma::Direction,
        wr::{
            Remote,
            SendFlag,
            SendFlags,
            SendWr,
            Sge, //
        },
    },
};
use core::slice;

impl Endpoint {
    /// Posts the operation on one word as the one request that the device has for it.
    pub(super) fn post_native(
        &self,
        native: Native,
        atomic: &Atomic<'_>,
        message: &Message<'_>,
        remote: Remote,
    ) -> Result {
        let operand = match native {
            Native::Read => 0,
            Native::Add | Native::Swap => gather::one_word(message.memory)?,
        };
        let compare = gather::one_word(Memory::Segments(atomic.compare))?;
        let way = match atomic.form {
            Form::Base => FI_WRITE,
            Form::Fetch | Form::Compare => FI_READ,
        };
        let what = Post {
            context: message.context,
            flags: way | FI_ATOMIC,
            report: report(message.flags),
        };
        let mut posting = self.transmit.begin(&what)?;
        let mut flags = SendFlags::default();
        if posting.signal {
            flags |= SendFlag::Signaled;
        }
        if message.flags & FI_FENCE != 0 {
            flags |= SendFlag::Fence;
        }
        let wr_id = posting.wr_id();
        let Resources { qp, mappings, .. } = posting.resources();
        let mut gather = Gather::new(qp, Direction::FromDevice, 1, mappings);
        // Devices tell the old value, wanted or not.
        let unwanted;
        let (memory, descriptors): (&[Segment], &[Descriptor]) = match atomic.form {
            Form::Fetch | Form::Compare => (atomic.result, atomic.result_descriptors),
            Form::Base => {
                // SAFETY: It lives as long as the endpoint; many may write it, and nobody reads it.
                unwanted = unsafe { Segment::new(self.unwanted.as_ptr().cast(), super::WORD) };
                (slice::from_ref(&unwanted), &[])
            }
        };
        let added = gather.add(Memory::Segments(memory), descriptors);
        let posted = added.and_then(|()| {
            let Ok(sge) = <&[Sge; 1]>::try_from(gather.sges()) else {
                return Err(Errno::EINVAL);
            };
            let wr = match native {
                Native::Add => SendWr::fetch_add(wr_id, sge, remote, operand, flags),
                Native::Swap => SendWr::cmp_swap(wr_id, sge, remote, compare, operand, flags),
                Native::Read => SendWr::read(wr_id, sge, remote, flags),
            };
            // SAFETY: The segments' types promise that the memory is the operation's until it
            // completes; the slot keeps the mappings as long.
            unsafe { qp.post_send(&wr) }.map_err(|error| {
                gather.undo();
                status::refused(error)
            })
        });
        posting.settle(&what, posted)
    }
}
