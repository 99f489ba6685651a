// SPDX-License-Identifier: GPL-2.0

//! Where the consumer is told what has come of its operations.

use super::{
    buffers::Buffers,
    cq::{
        Cq,
        Outcome, //
    },
    matching::Title,
    order::Report,
    receive::{
        Kind,
        Receive, //
    },
    wire::Message, //
};
use crate::{
    abi::{
        flags::*,
        nodes::Own,
        Errno,
        Result,
        FI_ADDR_NOTAVAIL, //
    },
    fi::{
        av::AddressVector,
        cntr::Counters,
        cq::{
            Completion,
            Failure, //
        },
        memory::Context, //
    },
};
use core::mem;
use kernel::sync::Arc;

/// Somebody who looks for a message, or has claimed one.
pub(super) struct Looking {
    /// What it gets back.
    pub(super) context: Context,
    /// Whether a success is told too.
    pub(super) is_wanted: bool,
}

/// Where outcomes are told.
pub(super) struct Outlets {
    /// Of what is sent.
    pub(super) transmit: Arc<Cq>,
    /// Of what is received.
    pub(super) receive: Arc<Cq>,
    /// Counted, whether or not somebody is told.
    pub(super) counters: Counters,
    /// Whether peers may write to memory, and send data with that.
    pub(super) hears_writes: bool,
    /// What the sender of a message is called, if that is told.
    pub(super) sources: Option<Arc<AddressVector>>,
    /// Whether a message is told of as an error if its sender has no name there.
    pub(super) tells_strangers: bool,
}

impl Outlets {
    /// Whether somebody waits to be told.
    pub(super) fn are_awaited(&self) -> bool {
        self.transmit.is_awaited() || self.receive.is_awaited()
    }

    fn count(&self, flags: u64, result: Result) {
        match (self.counters.of(flags), result) {
            (Some(counter), Ok(())) => counter.add(1),
            (Some(counter), Err(_)) => counter.add_errors(1),
            (None, _) => {}
        }
    }

    /// What has come of a transmit, for which there is room.
    #[inline]
    pub(super) fn sent(&self, report: &Report, result: Result) {
        self.count(report.flags, result);
        let completion = Completion::of(report.context, report.flags);
        match result {
            Ok(()) if !report.is_wanted => self.transmit.release(),
            Ok(()) => self.transmit.put_done(completion),
            Err(errno) => self.transmit.put(failed(completion, errno, 0)),
        }
    }

    /// What a message is told as.
    #[inline(always)]
    fn describe(
        &self,
        context: Context,
        title: &Title,
        message: &Message,
        len: usize,
    ) -> Completion {
        let kind = title.tag.map_or(FI_MSG, |_| FI_TAGGED);
        let data = message.data.map_or(0, |_| FI_REMOTE_CQ_DATA);
        let source = match &self.sources {
            None => FI_ADDR_NOTAVAIL,
            Some(sources) => sources
                .find(&title.from)
                .map_or(FI_ADDR_NOTAVAIL, |source| sources.reported(source)),
        };
        Completion {
            len,
            data: message.data.unwrap_or(0),
            tag: title.tag.unwrap_or(0),
            source,
            ..Completion::of(context, FI_RECV | kind | data)
        }
    }

    /// Tells that a message has been received.
    #[inline(always)]
    fn tell_received(&self, completion: Completion, title: &Title) {
        match completion.source {
            FI_ADDR_NOTAVAIL if self.tells_strangers => {
                self.receive.put(Outcome::Failed(Failure {
                    completion,
                    dropped: 0,
                    errno: Errno::EADDRNOTAVAIL,
                    prov_errno: -Errno::EADDRNOTAVAIL.to_int(),
                    stranger: Some(title.from),
                }));
            }
            _ => self.receive.put_done(completion),
        }
    }

    /// What has come of a receive, for which there is room; once.
    pub(super) fn received(
        &self,
        buffers: &mut Buffers,
        receive: &mut Receive,
        title: &Title,
        message: &Message,
        len: usize,
    ) {
        if mem::replace(&mut receive.is_told, true) {
            return;
        }
        let mut completion = self.describe(receive.context, title, message, len);
        let released = place(buffers, receive, &mut completion);
        let dropped = (message.len as usize).saturating_sub(len);
        let result = match dropped {
            0 => Ok(()),
            _ => Err(Errno::ETRUNC),
        };
        self.count(FI_RECV, result);
        match result {
            Ok(()) if !receive.is_wanted => self.receive.release(),
            Ok(()) => self.tell_received(completion, title),
            Err(errno) => self.receive.put(failed(completion, errno, dropped)),
        }
        self.release(buffers, released);
    }

    /// A buffer takes no more messages, and all that were in it are over.
    fn release(&self, buffers: &mut Buffers, released: Option<Own<Receive>>) {
        let Some(mut receive) = released else {
            return;
        };
        if is_cancelled(&receive) {
            self.given_up(buffers, &mut receive, Errno::ECANCELED);
        }
        buffers.release(receive);
    }

    /// What somebody has seen who looked for a message, for which there is room.
    pub(super) fn seen(&self, told: &Looking, title: &Title, message: &Message, len: usize) {
        match told.is_wanted {
            false => self.receive.release(),
            true => {
                let completion = self.describe(told.context, title, message, len);
                self.tell_received(completion, title);
            }
        }
    }

    /// That there is none.
    pub(super) fn not_seen(&self, told: &Looking) {
        let completion = Completion::of(told.context, FI_RECV | FI_TAGGED);
        self.receive.put(failed(completion, Errno::ENOMSG, 0));
    }

    /// That nothing came of a receive; once.
    pub(super) fn given_up(&self, buffers: &mut Buffers, receive: &mut Receive, errno: Errno) {
        if mem::replace(&mut receive.is_told, true) {
            return;
        }
        let kind = receive.wish.tag.map_or(FI_MSG, |_| FI_TAGGED);
        self.count(FI_RECV, Err(errno));
        let mut completion = Completion::of(receive.context, FI_RECV | kind);
        let released = place(buffers, receive, &mut completion);
        self.receive.put(failed(completion, errno, 0));
        self.release(buffers, released);
    }

    /// That a peer has written to memory and sent `data` with it; false if there is no room.
    pub(super) fn written(&self, data: u64) -> bool {
        let has_room = self.receive.reserve();
        if has_room {
            let flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
            self.receive.put(Outcome::Done(Completion {
                data,
                ..Completion::of(Context::NULL, flags)
            }));
        }
        has_room
    }
}

/// Notes where the message of a receive is that is over, if it has a place in a buffer, and whether that is
/// its owner's again with this. The buffer's receive comes back with the last message.
fn place(
    buffers: &mut Buffers,
    receive: &Receive,
    completion: &mut Completion,
) -> Option<Own<Receive>> {
    let (is_last, released) = match receive.kind {
        Kind::Single => (false, None),
        Kind::Several { .. } => (true, None),
        Kind::Place { of, at } => {
            completion.buf = at;
            let released = buffers.over(of);
            // Of one that is cancelled more is to be told.
            let is_last = released
                .as_deref()
                .is_some_and(|receive| !is_cancelled(receive));
            (is_last, released)
        }
    };
    if is_last {
        completion.flags |= FI_MULTI_RECV;
    }
    released
}

fn is_cancelled(receive: &Receive) -> bool {
    receive.kind == Kind::Several { is_cancelled: true }
}

fn failed(completion: Completion, errno: Errno, dropped: usize) -> Outcome {
    Outcome::Failed(Failure {
        completion,
        dropped,
        errno,
        prov_errno: -errno.to_int(),
        stranger: None,
    })
}
