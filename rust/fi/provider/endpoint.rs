// SPDX-License-Identifier: GPL-2.0

//! The traits of active and scalable endpoints, and the objects that are bound to them.

use super::{
    super::{
        atomic::{
            Atomic,
            Datatype,
            Form,
            Op, //
        },
        av::AddressVector,
        cntr::BoundCounters,
        cq,
        eq::EventQueue,
        mr::ep_region::{
            EpRegion,
            RefusedClose, //
        },
        srx,
        stx, //
    },
    not_implemented,
    Destination,
    Message,
    Operation,
    RegionCore,
    Rma,
    SingleSegment, //
};
use crate::{
    abi::{
        fi_rma_iov,
        flags::{
            FI_RECV,
            FI_TRANSMIT, //
        },
    },
    fi::prelude::*, //
};
use core::any::Any;

/// The number of peers of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peers {
    /// A single connected peer; connection events go to an event queue.
    One,
    /// Any number of peers, whose addresses are in the bound address vector.
    Any,
}

/// A completion queue binding of one direction.
pub struct CqBinding {
    /// The queue.
    pub queue: ChildRef<cq::CompletionQueue>,
    /// FI_SELECTIVE_COMPLETION: a success is reported only with FI_COMPLETION.
    pub selective: bool,
}

impl CqBinding {
    /// Returns a second binding with its own counted reference; -FI_EINVAL once the queue is closed.
    pub(in crate::fi) fn try_clone(&self) -> Result<Self> {
        Ok(Self {
            queue: self.queue.try_clone()?,
            selective: self.selective,
        })
    }
}

/// The objects that are bound to an endpoint when it is enabled.
#[derive(Default)]
pub struct Bindings {
    /// Event queue for connection events: present with [`Peers::One`].
    pub eq: Option<ChildRef<EventQueue>>,
    /// Address vector of the peers: present with [`Peers::Any`], except for a context of a scalable endpoint.
    pub av: Option<ChildRef<AddressVector>>,
    /// Shared receive context, if the endpoint has one.
    pub srx: Option<ChildRef<srx::SharedReceive>>,
    /// Shared transmit context, if the endpoint has one.
    pub stx: Option<ChildRef<stx::SharedTransmit>>,
    /// Completion queue for transmits: present if the endpoint has that [direction](Endpoint::directions).
    pub tx_cq: Option<CqBinding>,
    /// Completion queue for receives: present if the endpoint has that [direction](Endpoint::directions).
    pub rx_cq: Option<CqBinding>,
    /// Counters. Each operation is counted when its completion is polled from the device, whether or not it
    /// writes an entry, and after its memory has returned to the consumer.
    pub counters: BoundCounters,
}

impl Bindings {
    /// Returns second bindings with their own counted references; -FI_EINVAL once an object is closed.
    pub(in crate::fi) fn try_clone(&self) -> Result<Self> {
        Ok(Self {
            eq: self.eq.as_ref().map(ChildRef::try_clone).transpose()?,
            av: self.av.as_ref().map(ChildRef::try_clone).transpose()?,
            srx: self.srx.as_ref().map(ChildRef::try_clone).transpose()?,
            stx: self.stx.as_ref().map(ChildRef::try_clone).transpose()?,
            tx_cq: self.tx_cq.as_ref().map(CqBinding::try_clone).transpose()?,
            rx_cq: self.rx_cq.as_ref().map(CqBinding::try_clone).transpose()?,
            counters: self.counters.try_clone()?,
        })
    }

    /// Returns the numbers of the transmit CQ, receive CQ, EQ, shared receive context and shared transmit
    /// context in the object table; 0 for none.
    pub(in crate::fi) fn numbers(&self) -> [u64; 5] {
        [
            self.tx_cq.as_ref().map_or(0, |cq| cq.queue.number()),
            self.rx_cq.as_ref().map_or(0, |cq| cq.queue.number()),
            self.eq.as_ref().map_or(0, |eq| eq.number()),
            self.srx.as_ref().map_or(0, |srx| srx.number()),
            self.stx
                .as_ref()
                .map_or(0, |stx| stx.entry_guard.entry.number()),
        ]
    }
}

/// An option of `fi_setopt()` and `fi_getopt()`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpOption {
    /// FI_OPT_MIN_MULTI_RECV: minimum free space, in bytes, for a message in a multi-receive buffer; applies
    /// to buffers posted later; not 0.
    MinMultiRecv,
    /// FI_OPT_KOFI_CONNECTIONS: maximum number of simultaneous connections; 0 for no limit.
    MaxConnections,
    /// FI_OPT_KOFI_IDLE_MS: idle time in milliseconds after which a connection is closed; 0 for never.
    IdleTimeout,
    /// FI_OPT_KOFI_CONNECTED: current number of connections. Read-only.
    ConnectionCount,
    /// FI_OPT_KOFI_SOURCE_BYTES: memory of the connections with the peers at one IP address, in bytes, beyond which
    /// requests of these peers are refused; 0 for no limit.
    SourceBytes,
    /// FI_OPT_KOFI_CM_DATA_RAW: 1 if private data is sent and reported without a length byte, 0 otherwise.
    CmDataRaw,
    /// FI_OPT_KOFI_RETRY_COUNT: number of retransmissions without acknowledgement; at most 7.
    RetryCount,
    /// FI_OPT_KOFI_RNR_RETRY_COUNT: number of retries of a message that found no receive; 7 for no limit.
    RnrRetryCount,
    /// FI_OPT_KOFI_ACK_TIMEOUT: exponent of the time to an acknowledgement, in units of 4.096 microseconds; at
    /// most 31. `usize::MAX` lets the connection manager choose.
    AckTimeout,
    /// FI_OPT_KOFI_MR_POOL: number of regions that the endpoint can register at a time, before it is enabled.
    RegionCount,
    /// FI_OPT_KOFI_MR_PAGES: number of 4 KiB pages of each of them, before it is enabled; not 0.
    RegionPages,
}

/// An active endpoint.
///
/// Posting is legal in any context and never sleeps. The other calls may sleep.
pub trait Endpoint: Any + Send + Sync {
    /// Returns the object for a downcast to the provider's own type, also for the C API's tables.
    fn as_any(&self) -> &dyn Any;

    /// Returns the number of peers.
    fn peers(&self) -> Peers {
        Peers::One
    }

    /// Returns the directions of the endpoint: FI_TRANSMIT, FI_RECV or both.
    fn directions(&self) -> u64 {
        FI_TRANSMIT | FI_RECV
    }

    /// Returns the operations that counters can be bound for: FI_SEND, FI_RECV, FI_READ, FI_WRITE,
    /// FI_REMOTE_READ, FI_REMOTE_WRITE.
    fn countable(&self) -> u64;

    /// Returns true if the endpoint was opened to use a shared receive context, which must be bound; it posts
    /// no receives itself.
    fn shares_receives(&self) -> bool {
        false
    }

    /// Returns true if a receive that names a source takes messages of that peer only (FI_DIRECTED_RECV);
    /// otherwise sources are ignored.
    fn directs_receives(&self) -> bool {
        false
    }

    /// Returns true if the endpoint was opened to use a shared transmit context, which must be bound.
    fn shares_transmits(&self) -> bool {
        false
    }

    /// Returns true if a read may be reported complete that is not. Then no operation posted after the read
    /// is complete either.
    fn may_report_reads_early(&self) -> bool {
        false
    }

    /// Enables the endpoint: receives can be posted, and a connection can be made.
    fn enable(self: Arc<Self>, bindings: Bindings) -> Result;

    /// Starts to connect to `to`, or to the destination address of the endpoint's info.
    fn connect(self: Arc<Self>, to: Option<SocketAddr>, private_data: &[u8]) -> Result;

    /// Accepts the connection request that the endpoint was opened for.
    fn accept(self: Arc<Self>, private_data: &[u8]) -> Result;

    /// Ends the connection in the directions of `flags`.
    fn shutdown(&self, flags: u64) -> Result;

    /// Sets the local address.
    fn set_name(&self, addr: SocketAddr) -> Result;

    /// Returns the local address.
    fn name(&self) -> Result<SocketAddr>;

    /// Returns the peer's address.
    fn peer(&self) -> Result<SocketAddr>;

    /// Returns the maximum size in bytes of the private data of `connect()`, or of `accept()` if the endpoint was
    /// opened for a connection request.
    fn private_data_limit(&self) -> usize;

    /// Returns a lower bound on the receives that can be posted; -FI_EOPBADSTATE before the endpoint is
    /// enabled.
    fn receives_left(&self) -> Result<usize>;

    /// Returns a lower bound on the transmits that can be posted; -FI_EOPBADSTATE before the endpoint is
    /// enabled.
    fn transmits_left(&self) -> Result<usize>;

    /// Starts a transmit. With FI_INJECT the caller may reuse the memory when this returns; a success is reported as
    /// without the flag.
    fn transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result;

    /// Sends one segment to a connected peer, and reports a success.
    fn send_segment(&self, single: &SingleSegment<'_>) -> Result {
        let descriptors = slice::from_ref(&single.descriptor);
        let message = Message::with_segment(single.segment, descriptors, single.context);
        self.transmit(Operation::Send, &message)
    }

    /// Starts an RDMA read or write of one segment to a connected peer, and reports a success.
    fn rma_segment(&self, way: Rma, remote: &fi_rma_iov, single: &SingleSegment<'_>) -> Result {
        let descriptors = slice::from_ref(&single.descriptor);
        let message = Message {
            flags: single.flags,
            ..Message::with_segment(single.segment, descriptors, single.context)
        };
        self.transmit(Operation::Rma(way, slice::from_ref(remote)), &message)
    }

    /// Starts a transmit on the fast path. Returns `None`, without any effect, if the fast path cannot take
    /// it.
    #[inline(always)]
    fn try_fast_transmit(
        &self,
        _operation: Operation<'_>,
        _single: &SingleSegment<'_>,
        _to: Destination,
    ) -> Option<Result> {
        None
    }

    /// Starts an inject on the fast path: the caller may reuse the memory when this returns, and only an
    /// error writes an entry. The flags are as in a [`SingleSegment`]. Returns `None`, without any effect, if
    /// the fast path cannot take it.
    #[inline(always)]
    fn try_fast_inject(
        &self,
        _operation: Operation<'_>,
        _segment: &Segment,
        _flags: u64,
        _to: Destination,
    ) -> Option<Result> {
        None
    }

    /// Posts a receive on the fast path. Returns `None`, without any effect, if the fast path cannot take it.
    #[inline(always)]
    fn try_fast_receive(&self, _single: &SingleSegment<'_>) -> Option<Result> {
        None
    }

    /// Starts an atomic operation on the fast path. Returns `None`, without any effect, if the fast path
    /// cannot take it.
    #[inline(always)]
    fn try_fast_atomic(&self, _atomic: &Atomic<'_>, _message: &Message<'_>) -> Option<Result> {
        None
    }

    /// Starts an atomic operation whose operands are the memory of `message`.
    fn atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result;

    /// Returns [`Domain::max_atomic_elements`] for an endpoint that was opened with FI_ATOMIC.
    fn max_atomic_elements(&self, form: Form, op: Op, datatype: Datatype) -> Result<usize>;

    /// Returns the value of an option. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOPROTOOPT for an option that the endpoint does not have.
    fn getopt(&self, option: EpOption) -> Result<usize>;

    /// Binds the completion queue of operations with FI_PEER_TRANSFER. Such operations match only each other.
    /// The binding lasts until the endpoint closes; at most once, after the endpoint is enabled. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if the endpoint was not opened with FI_COLLECTIVE, -FI_EALREADY for a second call,
    /// -FI_EOPBADSTATE before the endpoint is enabled, -FI_ENOMEM.
    fn bind_transfer_cq(&self, _queue: ChildRef<cq::CompletionQueue>) -> Result {
        not_implemented()
    }

    /// Sets an option. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOPROTOOPT for an option that the endpoint does not have or cannot set, -FI_EINVAL for an invalid
    /// value.
    fn setopt(&self, option: EpOption, value: usize) -> Result;

    /// Posts a receive. With FI_MULTI_RECV its one segment receives several messages.
    fn receive(&self, message: &Message<'_>) -> Result;

    /// Cancels the operation that was posted with `context`, if it has not started: it completes with
    /// FI_ECANCELED. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP if the device holds the operation, -FI_ENOENT if there is none, -FI_EAGAIN if the
    /// completion queue has no space for the entry and none was reserved when the operation was posted.
    fn cancel(&self, _context: Context) -> Result {
        Err(Errno::EOPNOTSUPP)
    }

    /// Returns how many regions the endpoint can register at a time, and the pages of each. Fixed once the endpoint
    /// is enabled.
    fn region_limits(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Gives a key to a region that has memory and no key, and returns it. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN while as many regions as [`Self::region_limits`] says have a key, -FI_EINVAL for a region with more
    /// pages, -FI_EOPBADSTATE before the endpoint is enabled and for an endpoint that registers no memory.
    fn bind_region(&self, _region: &mut dyn RegionCore, _reports: bool) -> Result<u64> {
        Err(Errno::EOPBADSTATE)
    }

    /// Posts the registration of a bound region. A failure is reported with `context`. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN if the queue is full, -FI_ENOTCONN without a connection.
    fn enable_region(&self, _region: &mut dyn RegionCore, _context: Context) -> Result {
        Err(Errno::EOPBADSTATE)
    }

    /// Takes a bound region, and recycles it when the peer cannot access it any more. Any context.
    ///
    /// # Errors
    ///
    /// Returns the region with -FI_EAGAIN if the queue is full.
    fn close_region(&self, region: ListBox<EpRegion>) -> core::result::Result<(), RefusedClose> {
        Err(RefusedClose {
            errno: Errno::EOPBADSTATE,
            region,
        })
    }

    /// Reports values for introspection, as [`Introspect`](super::introspect::Introspect) does.
    fn fill_info(&self, info: &mut ObjectInfo<'_>);

    /// Closes the endpoint without an event. When it returns the device does not touch posted memory any
    /// more, and the context of every operation whose completion no reader has taken has been passed to
    /// `reclaim`.
    fn close(&self, reclaim: &mut dyn FnMut(Context));
}

/// A context of a scalable endpoint, by its direction and index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextIndex {
    /// Transmit context: sends, and accesses the memory of peers.
    Transmit(usize),
    /// Receive context.
    Receive(usize),
}

/// A scalable endpoint. Each of its contexts is an [`Endpoint`] of one direction; all share one address.
///
/// The calls may sleep, except [`Self::fill_info`].
pub trait ScalableEndpoint: Any + Send + Sync {
    /// Returns the number of transmit and receive contexts.
    fn context_counts(&self) -> [usize; 2];

    /// Enables the endpoint, whose peers are in `addresses`.
    fn enable(self: Arc<Self>, addresses: ChildRef<AddressVector>) -> Result;

    /// Opens the context `which`, whose index is in range and not open. `info` describes an equivalent
    /// endpoint. The context is enabled after this endpoint, without an address vector of its own, and closed
    /// before it.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    fn context(self: Arc<Self>, which: ContextIndex, info: &Info) -> Result<Arc<dyn Endpoint>>;

    /// Returns the value of an option, as [`Endpoint::getopt`] does.
    fn getopt(&self, option: EpOption) -> Result<usize>;

    /// Sets an option, as [`Endpoint::setopt`] does.
    fn setopt(&self, option: EpOption, value: usize) -> Result;

    /// Sets the local address; -FI_EOPBADSTATE once the endpoint is enabled.
    fn set_name(&self, addr: SocketAddr) -> Result;

    /// Returns the local address.
    fn name(&self) -> Result<SocketAddr>;

    /// Reports values for introspection, as [`Introspect`](super::introspect::Introspect) does.
    fn fill_info(&self, info: &mut ObjectInfo<'_>);

    /// Closes the endpoint without an event. All its contexts have been closed already.
    fn close(&self);
}
