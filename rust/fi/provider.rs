// SPDX-License-Identifier: GPL-2.0

//! The traits that a provider implements.
//!
//! The traits are object-safe for Rust consumers; the C API instantiates its tables for the concrete types.
//! Either way one indirect call leads from a consumer to the provider's code. The traits are safe: the types
//! of [`memory`](super::memory) guarantee that memory stays valid.

use super::{
    atomic::{
        Atomic,
        Datatype,
        Form,
        Op, //
    },
    av::AddressVector,
    cntr::BoundCounters,
    cq::{
        self,
        Entries,
        Failure,
        Notifier, //
    },
    eq::{
        EventQueue,
        ReservedEvent,
        Source, //
    },
    info::Query,
    mr::{
        ep_region::{
            EpRegion,
            RefusedClose,
            RegionMemory, //
        },
        Access, //
    },
    srx,
    stx, //
};
use crate::{
    abi::{
        errno::strerror,
        fi_rma_iov,
        flags::{
            FI_COMPLETION,
            FI_RECV,
            FI_TRANSMIT, //
        },
        info::InfoList,
        FI_ADDR_NOTAVAIL,
        FI_ADDR_UNSPEC, //
    },
    fi::prelude::*,
    util::{
        biased_lock::Threading,
        owned_list::ListBox, //
    },
};
use core::any::Any;

/// A provider: an implementation of the API over one kind of transport.
pub trait Provider: Send + Sync {
    /// Returns the `prov_name` of the provider's infos.
    fn name(&self) -> &'static CStr;

    /// Appends the provider's offers to `found`: every info that can be opened and satisfies `query`. May
    /// sleep.
    fn getinfo(&self, query: &Query<'_>, found: &mut InfoList) -> Result;

    /// Opens the fabric that an info of the provider names. May sleep.
    fn fabric(&self, info: &FabricAttr<'_>) -> Result<Arc<dyn Fabric>>;
}

/// Attributes of the fabric to open.
pub struct FabricAttr<'a> {
    /// Name of the fabric; `None` for the provider's only fabric.
    pub name: Option<&'a CStr>,
    /// The network namespace.
    pub net: &'a Namespace,
}

/// A fabric: devices that can reach each other.
pub trait Fabric: Any + Send + Sync {
    /// Opens the device that `info` names. May sleep.
    fn domain(self: Arc<Self>, info: &Info, threading: Threading) -> Result<Arc<dyn Domain>>;

    /// Creates a passive endpoint, whose events carry `source`. May sleep.
    fn passive_endpoint(
        self: Arc<Self>,
        info: &Info,
        source: Source,
    ) -> Result<Arc<dyn PassiveEndpoint>>;

    /// Returns the function that describes the provider's errno of error events. Callable in any context.
    fn strerror_fn(&self) -> fn(prov_errno: c_int) -> &'static CStr {
        strerror
    }
}

/// The device of a domain, for the placement of its consumers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainDevice {
    /// Address of the device's `struct device`, valid as long as the domain is open.
    pub device: usize,
    /// Address of the `struct device` that accesses memory, or 0 if the driver uses kernel addresses.
    pub dma_device: usize,
    /// Number of completion vectors.
    pub comp_vectors: u32,
}

/// A domain: one opened device.
pub trait Domain: Any + Send + Sync {
    /// Returns the object for a downcast to the provider's own type.
    fn as_any(&self) -> &dyn Any;

    /// Opens a completion queue. May sleep.
    fn completion_queue(self: Arc<Self>, attr: &cq::Attr) -> Result<Arc<dyn CompletionQueue>>;

    /// Opens a completion queue that no consumer reads: each entry goes to `sink` as the operation ends.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS for a provider whose completions come from a device.
    fn peer_cq(
        self: Arc<Self>,
        _attr: &cq::Attr,
        _sink: Arc<dyn cq::PeerSink>,
    ) -> Result<Arc<dyn CompletionQueue>> {
        not_implemented()
    }

    /// Creates an endpoint, whose events carry `source`. May sleep.
    fn endpoint(self: Arc<Self>, info: &Info, source: Source) -> Result<Arc<dyn Endpoint>>;

    /// Creates a scalable endpoint. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if the provider has no scalable endpoints, -FI_EINVAL for too many contexts.
    fn scalable_endpoint(self: Arc<Self>, _info: &Info) -> Result<Arc<dyn ScalableEndpoint>> {
        not_implemented()
    }

    /// Opens a shared receive context. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if the provider has none, -FI_EINVAL for a size over the device's limit and for unsupported
    /// capabilities.
    fn shared_receive(self: Arc<Self>, _attr: &srx::Attr) -> Result<Arc<dyn SharedReceive>> {
        not_implemented()
    }

    /// Opens a shared transmit context. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if the provider has none, -FI_EINVAL for a size over an endpoint's own limit and for
    /// unsupported capabilities.
    fn shared_transmit(self: Arc<Self>, _attr: &stx::Attr) -> Result<Arc<dyn SharedTransmit>> {
        not_implemented()
    }

    /// Imports a shared receive context: endpoints take receives that are posted to its owner. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL if the device itself holds posted receives.
    fn peer_srx(self: Arc<Self>, _owner: srx::PeerOwner) -> Result<Arc<dyn SharedReceive>> {
        Err(Errno::EINVAL)
    }

    /// Returns the device of the domain, if there is one. Any context.
    fn device(&self) -> Option<DomainDevice> {
        None
    }

    /// Returns how many receive contexts an endpoint of the domain can have.
    fn max_rx_contexts(&self) -> usize {
        1
    }

    /// Registers memory. May sleep.
    fn register(
        self: Arc<Self>,
        memory: &[Segment],
        access: Access,
    ) -> Result<Arc<dyn MemoryRegion>>;

    /// Allocates the provider's part of a region that an endpoint registers, for at most `pages` pages. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if endpoints register no memory, -FI_ENOMEM.
    fn region_core(&self, _pages: usize) -> Result<KBox<dyn RegionCore>> {
        not_implemented()
    }

    /// Checks that each part of `memory` lies in the region of its descriptor, and that the region belongs to
    /// the domain. Parts without bytes and parts without a descriptor are not checked. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL.
    fn check_descriptors(&self, memory: Memory<'_>, descriptors: &[Descriptor]) -> Result;

    /// Sets the event that is written when the device is removed. After `None` no event is written. May
    /// sleep.
    fn set_removal_event(&self, event: Option<ReservedEvent>);

    /// Returns the maximum number of elements of an atomic operation; -FI_EOPNOTSUPP if the device does not
    /// support the operation. Any context.
    fn max_atomic_elements(&self, form: Form, op: Op, datatype: Datatype) -> Result<usize>;

    /// Resolves routes to peers, several at a time, until `peers` has no more or is canceled. May sleep, for
    /// some seconds per peer that does not answer.
    fn resolve(&self, peers: &mut dyn AsyncResolve);
}

/// The addresses of an asynchronous insertion that a provider resolves.
pub trait AsyncResolve {
    /// Returns the next address and its index.
    fn next(&mut self) -> Option<(usize, SocketAddr)>;

    /// Reports the result for the address at `index`; -FI_EHOSTUNREACH without a route.
    fn complete(&mut self, index: usize, result: Result);

    /// Returns true once the remaining results are not needed any more.
    fn is_canceled(&self) -> bool;
}

/// A memory region.
pub trait MemoryRegion: Any + Send + Sync {
    /// Returns the descriptor for `fi_mr_desc()`.
    fn descriptor(&self) -> Descriptor;

    /// Returns the key for `fi_mr_key()`: FI_KEY_NOTAVAIL for local use only.
    fn key(&self) -> u64;
}

/// The provider's part of an [`EpRegion`]. Any context.
pub trait RegionCore: Any + Send + Sync {
    /// Returns the object for a downcast to the provider's own type.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// Maps memory, and returns the address of its first byte for peers.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for memory that devices may not access, for too many pages, and for entries that meet within a
    /// page; -FI_ENOMEM if the IOMMU cannot map it. The caller unmaps what has been mapped.
    fn map(&mut self, memory: RegionMemory<'_>, access: Access) -> Result<u64>;

    /// Unmaps the memory, which no peer can access any more. Does nothing without memory.
    fn unmap(&mut self);
}

/// A completion queue.
pub trait CompletionQueue: Any + Send + Sync {
    /// Returns the object for a downcast to the provider's own type.
    fn as_any(&self) -> &dyn Any;

    /// Returns the owned object for a downcast to the provider's own type.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Reads completions into `entries` and returns their number. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when the queue is empty, -FI_EAVAIL when the next entry is an error.
    fn read(&self, entries: Entries<'_>) -> Result<usize>;

    /// Reads completions and their source addresses; `sources` is as long as `entries`. Any context.
    fn read_from(
        &self,
        entries: Entries<'_>,
        sources: &mut [MaybeUninit<fi_addr_t>],
    ) -> Result<usize> {
        let count = self.read(entries)?;
        for source in sources.iter_mut().take(count) {
            source.write(FI_ADDR_NOTAVAIL);
        }
        Ok(count)
    }

    /// Takes the error entry at the head; -FI_EAGAIN if there is none. Any context.
    fn read_error(&self) -> Result<Failure>;

    /// Declares that the queue is an imported peer queue: each entry is forwarded before the next one is
    /// read.
    fn begin_forwarding(&self) {}

    /// Polls the device, so that completed operations are counted. Any context.
    fn progress(&self);

    /// Lets the device report completions only after `count` of them, or after `period` microseconds. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP without moderation.
    fn set_moderation(&self, _count: u16, _period: u16) -> Result {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets whether the moderation adapts to the completions that reads find. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP without moderation, -FI_ENOMEM.
    fn set_adaptive(&self, _is_adaptive: bool) -> Result {
        Err(Errno::EOPNOTSUPP)
    }

    /// Requests a call of [`Notifier::notify`] for the next completion of the device. Returns true if a
    /// completion may have arrived before. Any context.
    fn arm(&self) -> bool;

    /// Returns true if polled entries wait for a reader. Any context.
    fn has_backlog(&self) -> bool;

    /// Returns the notifier that wakes the readers of the queue.
    fn notifier(&self) -> &Notifier;

    /// Reports values for introspection, as [`Introspect`](super::introspect::Introspect) does.
    fn fill_info(&self, info: &mut ObjectInfo<'_>);

    /// Returns the text of a provider errno of the queue's error entries.
    fn strerror(&self, prov_errno: i32) -> &'static CStr;

    /// Stops the queue, to which no endpoint is bound any more. May sleep.
    fn close(&self);
}

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
    pub(super) fn try_clone(&self) -> Result<Self> {
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
    pub(super) fn try_clone(&self) -> Result<Self> {
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
    pub(super) fn numbers(&self) -> [u64; 5] {
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

/// The kind of a transmit.
#[derive(Clone, Copy)]
pub enum Operation<'a> {
    /// A message that consumes a receive of the peer.
    Send,
    /// An access to the peer's memory.
    Rma(Rma, &'a [fi_rma_iov]),
}

/// The direction of a remote memory access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rma {
    /// Copies local memory to the peer.
    Write,
    /// Copies the peer's memory to the local memory.
    Read,
}

/// The tag of a message, or the tags that a receive matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// Tag value.
    pub tag: u64,
    /// Tag bits that a receive does not compare.
    pub ignore: u64,
}

impl Tag {
    /// Match criteria of a receive that accepts every tag.
    pub const ANY: Self = Self {
        tag: 0,
        ignore: u64::MAX,
    };
}

/// The local parameters of a transfer.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// Local memory.
    pub memory: Memory<'a>,
    /// Descriptors, either one per memory segment or none.
    pub descriptors: &'a [Descriptor],
    /// Operation context, returned with the completion.
    pub context: Context,
    /// Operation flags: FI_COMPLETION, FI_MORE, FI_FENCE, ...
    pub flags: u64,
    /// Writes no completion entry for a success, as with fi_inject(), unless the flags have FI_COMPLETION. FI_INJECT
    /// alone does not suppress the entry.
    pub errors_only: bool,
    /// Remote CQ data, with FI_REMOTE_CQ_DATA in the flags.
    pub data: u64,
    /// Destination of a transmit, or source filter of a directed receive; ignored with [`Peers::One`].
    pub peer: fi_addr_t,
    /// The tag of a tagged message, or the match criteria of a tagged receive.
    pub tag: Option<Tag>,
}

impl<'a> Message<'a> {
    /// Returns the parameters of an untagged transfer with a connected peer, whose completion writes an entry.
    #[inline]
    pub(crate) fn with_segment(
        segment: &'a Segment,
        descriptors: &'a [Descriptor],
        context: Context,
    ) -> Self {
        Self {
            memory: Memory::Segments(slice::from_ref(segment)),
            descriptors,
            context,
            flags: FI_COMPLETION,
            errors_only: false,
            data: 0,
            peer: FI_ADDR_UNSPEC,
            tag: None,
        }
    }
}

/// The local parameters of a fast-path transfer: one memory segment and the endpoint's default flags.
#[derive(Clone, Copy)]
pub struct SingleSegment<'a> {
    /// Local memory.
    pub segment: &'a Segment,
    /// Descriptor of the segment.
    pub descriptor: Descriptor,
    /// Operation context, returned with the completion.
    pub context: Context,
    /// Default operation flags of the endpoint.
    pub flags: u64,
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

    /// Starts a transmit on the fast path. Returns `None`, without any effect, if the fast path cannot take
    /// it.
    #[inline(always)]
    fn try_fast_transmit(
        &self,
        _operation: Operation<'_>,
        _single: &SingleSegment<'_>,
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
    /// completion queue has no room for the entry and none was reserved when the operation was posted.
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

/// A shared receive context: a queue of receives whose oldest entry goes to the next message of any bound
/// endpoint.
///
/// Posting is legal in any context and never sleeps.
pub trait SharedReceive: Any + Send + Sync {
    /// Returns the object for a downcast to the provider's own type, also for the C API's tables.
    fn as_any(&self) -> &dyn Any;

    /// Returns the owned object for a downcast to the provider's own type.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Returns true if tagged receives can be posted.
    fn has_tags(&self) -> bool {
        false
    }

    /// Posts a receive. The completion goes to the receive queue of the endpoint that got the message.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::receive`]; -FI_EOPNOTSUPP for FI_MULTI_RECV and, with tagged receives, FI_PEEK,
    /// FI_CLAIM and FI_DISCARD; -FI_EOPBADSTATE once closed.
    fn receive(&self, message: &Message<'_>) -> Result;

    /// Exports the context: messages of another module's provider take receives from it, too. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS if the device itself holds posted receives, -FI_EINVAL if the context is imported,
    /// -FI_ENOMEM.
    fn export(
        self: Arc<Self>,
        _endpoint: Arc<dyn srx::PeerEndpoint>,
    ) -> Result<Arc<dyn srx::ExportedReceives>> {
        not_implemented()
    }

    /// Returns a lower bound on the receives that can be posted.
    fn receives_left(&self) -> usize;

    /// Cancels a receive, as [`Endpoint::cancel`] does.
    fn cancel(&self, _context: Context) -> Result {
        Err(Errno::EOPNOTSUPP)
    }

    /// Reports values for introspection, as [`Introspect`](super::introspect::Introspect) does.
    fn fill_info(&self, info: &mut ObjectInfo<'_>);

    /// Closes the context, to which no endpoint is bound any more. When it returns the device does not touch
    /// posted memory any more, and the context of each receive has been passed to `reclaim`. May sleep.
    fn close(&self, reclaim: &mut dyn FnMut(Context));
}

/// A shared transmit context: a pool of transmit slots that bounds the operations in flight of all bound
/// endpoints together.
pub trait SharedTransmit: Any + Send + Sync {
    /// Returns the owned object for a downcast to the provider's own type.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Reports values for introspection, as [`Introspect`](super::introspect::Introspect) does.
    fn fill_info(&self, info: &mut ObjectInfo<'_>);

    /// Closes the context, to which no endpoint is bound any more. May sleep.
    fn close(&self);
}

/// A passive endpoint.
pub trait PassiveEndpoint: Any + Send + Sync {
    /// Starts to listen for connection requests. May sleep.
    fn listen(self: Arc<Self>, events: ChildRef<EventQueue>) -> Result;

    /// Sets the maximum number of pending connection requests, before `listen()`.
    fn set_backlog(&self, backlog: c_int) -> Result;

    /// Rejects the connection request with this handle.
    fn reject(&self, handle: usize, private_data: &[u8]) -> Result;

    /// Sets the local address, before `listen()`.
    fn set_name(&self, addr: SocketAddr) -> Result;

    /// Returns the local address.
    fn name(&self) -> Result<SocketAddr>;

    /// Returns the maximum size in bytes of the private data of `reject()`.
    fn private_data_limit(&self) -> usize;

    /// Returns the value of an option. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOPROTOOPT for an option that passive endpoints do not have.
    fn getopt(&self, option: EpOption) -> Result<usize>;

    /// Sets an option, for requests that arrive later. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::getopt`]; -FI_EINVAL for an invalid value.
    fn setopt(&self, option: EpOption, value: usize) -> Result;

    /// Reports values for introspection, as [`Introspect`](super::introspect::Introspect) does.
    fn fill_info(&self, info: &mut ObjectInfo<'_>);

    /// Stops listening and rejects the pending connection requests. May sleep.
    fn close(&self);
}

/// Returns -FI_ENOSYS, for an optional call that an object does not have.
pub const fn not_implemented<T>() -> Result<T> {
    Err(Errno::ENOSYS)
}
