// SPDX-License-Identifier: GPL-2.0

//! Completions and errors, and the formats in which a consumer reads them.

use crate::fi::prelude::*;

/// A successful completion.
#[derive(Clone, Copy)]
pub struct Completion {
    /// Context that the operation was posted with.
    pub context: Context,
    /// FI_SEND or FI_RECV, FI_MSG, ...
    pub flags: u64,
    /// Bytes received.
    pub len: usize,
    /// Remote CQ data, with FI_REMOTE_CQ_DATA in the flags.
    pub data: u64,
    /// Address of the message in a multi-receive buffer; else 0.
    pub buf: usize,
    /// Tag of a tagged message; else 0.
    pub tag: u64,
    /// Source address of a received message; FI_ADDR_NOTAVAIL if unknown. For a shared receive of connected
    /// endpoints, the [`Source`](crate::fi::eq::Source) of the endpoint that got the message.
    pub source: abi::fi_addr_t,
}

impl Completion {
    /// Returns a completion with only a context and flags.
    #[inline(always)]
    pub fn new(context: Context, flags: u64) -> Self {
        Self {
            context,
            flags,
            len: 0,
            data: 0,
            buf: 0,
            tag: 0,
            source: abi::FI_ADDR_NOTAVAIL,
        }
    }
}

/// The error data of a failed operation: `fi_cq_err_entry::err_data`.
pub enum ErrData {
    /// No bytes.
    None,
    /// The address of a sender that is not in the address vector (FI_SOURCE_ERR). A reader gets it in the address
    /// format of its domain.
    Source(SocketAddr),
    /// Error data from another module's provider.
    Bytes(KVec<u8>),
}

/// An error completion.
pub struct Failure {
    /// Known fields of the completion.
    pub completion: Completion,
    /// Number of received bytes that did not fit.
    pub olen: usize,
    /// The fabric errno.
    pub errno: Errno,
    /// The provider's errno, for [`CompletionQueue::strerror`](crate::fi::provider::CompletionQueue::strerror).
    pub prov_errno: i32,
    /// Error data: `err_data`.
    pub err_data: ErrData,
}

/// The format of the entries that a consumer reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// FI_CQ_FORMAT_CONTEXT: the context alone.
    Context,
    /// FI_CQ_FORMAT_MSG: adds flags and length.
    Msg,
    /// FI_CQ_FORMAT_DATA: adds buffer and remote CQ data.
    Data,
    /// FI_CQ_FORMAT_TAGGED: adds the tag.
    Tagged,
}

/// The entry format in which a provider reads the queue of a lower provider. Consumers never see it.
#[derive(Clone, Copy, Zeroable)]
pub struct SourcedEntry {
    /// See [`Completion::context`].
    pub context: Context,
    /// See [`Completion::flags`].
    pub flags: u64,
    /// See [`Completion::len`].
    pub len: usize,
    /// See [`Completion::data`].
    pub data: u64,
    /// See [`Completion::source`].
    pub source: abi::fi_addr_t,
}

/// The destination of a read: an array in the queue's format.
pub enum Entries<'a> {
    /// FI_CQ_FORMAT_CONTEXT.
    Context(&'a mut [MaybeUninit<abi::fi_cq_entry>]),
    /// FI_CQ_FORMAT_MSG.
    Msg(&'a mut [MaybeUninit<abi::fi_cq_msg_entry>]),
    /// FI_CQ_FORMAT_DATA.
    Data(&'a mut [MaybeUninit<abi::fi_cq_data_entry>]),
    /// FI_CQ_FORMAT_TAGGED.
    Tagged(&'a mut [MaybeUninit<abi::fi_cq_tagged_entry>]),
    /// Internal format, for a provider that reads a lower queue.
    Sourced(&'a mut [MaybeUninit<SourcedEntry>]),
}

/// An entry type of one [`Format`].
pub(crate) trait FormatEntry: Sized + 'static {
    /// Returns `space` as the destination of a read.
    fn entries(space: &mut [MaybeUninit<Self>]) -> Entries<'_>;
}

/// Implements [`FormatEntry`] for an entry type, and its conversion from a [`Completion`], field by field.
macro_rules! impl_format_entry {
    (|$done:ident| $($entry:path => $variant:ident { $($field:ident: $value:expr,)* })*) => {
        $(impl FormatEntry for $entry {
            #[inline(always)]
            fn entries(space: &mut [MaybeUninit<Self>]) -> Entries<'_> {
                Entries::$variant(space)
            }
        }

        impl From<Completion> for $entry {
            #[inline]
            fn from($done: Completion) -> Self {
                Self { $($field: $value,)* }
            }
        })*
    };
}

impl_format_entry! {
    |done|
    abi::fi_cq_entry => Context { op_context: done.context.as_ptr(), }
    abi::fi_cq_msg_entry => Msg {
        op_context: done.context.as_ptr(), flags: done.flags, len: done.len,
    }
    abi::fi_cq_data_entry => Data {
        op_context: done.context.as_ptr(), flags: done.flags, len: done.len,
        buf: ptr::without_provenance_mut(done.buf), data: done.data,
    }
    abi::fi_cq_tagged_entry => Tagged {
        op_context: done.context.as_ptr(), flags: done.flags, len: done.len,
        buf: ptr::without_provenance_mut(done.buf), data: done.data, tag: done.tag,
    }
    SourcedEntry => Sourced {
        context: done.context, flags: done.flags, len: done.len, data: done.data, source: done.source,
    }
}
