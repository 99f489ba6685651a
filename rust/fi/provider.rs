// SPDX-License-Identifier: GPL-2.0

//! What a provider implements.
//!
//! The traits are object-safe, for Rust consumers, and the C API instantiates its tables for the
//! concrete types: either way one indirect call leads from a consumer to the provider's code. They
//! are safe traits: that memory stays valid is what the types of [`memory`](super::memory) promise.

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
    introspect::ObjectInfo,
    memory::{
        Context,
        Descriptor,
        Memory,
        Segment, //
    },
    mr::Access,
    object::ChildRef,
    srx,
    stx, //
};
use crate::abi::{
    biased_lock::Threading,
    errno::strerror,
    fi_addr_t,
    fi_rma_iov,
    flags::{
        FI_RECV,
        FI_TRANSMIT, //
    },
    info::{
        Info,
        InfoList, //
    },
    namespace::Namespace,
    Errno,
    Result,
    FI_ADDR_NOTAVAIL, //
};
use core::{
    any::Any,
    mem::MaybeUninit,
    net::SocketAddr, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A way to reach other machines.
pub trait Provider: Send + Sync {
    /// The `prov_name` of its infos.
    fn name(&self) -> &'static CStr;

    /// Appends what it offers to `found`: everything that could be opened and lets `query` be met.
    /// May sleep.
    fn getinfo(&self, query: &Query<'_>, found: &mut InfoList) -> Result;

    /// Opens the fabric that one of its infos names. May sleep.
    fn fabric(&self, info: &FabricAttr<'_>) -> Result<Arc<dyn Fabric>>;
}

/// Which fabric to open.
pub struct FabricAttr<'a> {
    /// Its name, or none for the provider's only one.
    pub name: Option<&'a CStr>,
    /// The network namespace.
    pub net: &'a Namespace,
}

/// Devices that can reach each other.
pub trait Fabric: Any + Send + Sync {
    /// Opens the device that `info` names. May sleep.
    fn domain(self: Arc<Self>, info: &Info, threading: Threading) -> Result<Arc<dyn Domain>>;

    /// Makes a listener; its events carry `source`. May sleep.
    fn passive_endpoint(
        self: Arc<Self>,
        info: &Info,
        source: Source,
    ) -> Result<Arc<dyn PassiveEndpoint>>;

    /// What has words for its numbers in error events. They may be asked for in any context.
    fn words(&self) -> fn(prov_errno: c_int) -> &'static CStr {
        strerror
    }
}

/// One device.
pub trait Domain: Any + Send + Sync {
    /// For providers that look for their own kind.
    fn as_any(&self) -> &dyn Any;

    /// Opens a completion queue. May sleep.
    fn completion_queue(self: Arc<Self>, attr: &cq::Attr) -> Result<Arc<dyn CompletionQueue>>;

    /// Opens one that nobody reads: `sink` takes what comes of operations where it comes about. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS where others say what has come of them.
    fn peer_queue(
        self: Arc<Self>,
        _attr: &cq::Attr,
        _sink: Arc<dyn cq::PeerSink>,
    ) -> Result<Arc<dyn CompletionQueue>> {
        not_implemented()
    }

    /// Makes an endpoint; its events carry `source`. May sleep.
    fn endpoint(self: Arc<Self>, info: &Info, source: Source) -> Result<Arc<dyn Endpoint>>;

    /// Makes an endpoint of several contexts. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS where there are none, -FI_EINVAL for more contexts than there can be.
    fn scalable_endpoint(self: Arc<Self>, _info: &Info) -> Result<Arc<dyn ScalableEndpoint>> {
        not_implemented()
    }

    /// Opens receives that endpoints share. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS where there are none, -FI_EINVAL for more than the device has, and for capabilities that they
    /// do not have.
    fn shared_receive(self: Arc<Self>, _attr: &srx::Attr) -> Result<Arc<dyn SharedReceive>> {
        not_implemented()
    }

    /// Opens what endpoints share to send with. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS where there is none, -FI_EINVAL for more than an endpoint has of its own, and for capabilities
    /// that it does not have.
    fn shared_transmit(self: Arc<Self>, _attr: &stx::Attr) -> Result<Arc<dyn SharedTransmit>> {
        not_implemented()
    }

    /// Has endpoints take receives that are posted elsewhere. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL where receives are the device's.
    fn peer_receive(self: Arc<Self>, _posts: srx::PeerOwner) -> Result<Arc<dyn SharedReceive>> {
        Err(Errno::EINVAL)
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

    /// What is given when the device goes away: after `None`, nothing is. May sleep.
    fn set_farewell(&self, notice: Option<ReservedEvent>);

    /// Most elements of one atomic operation; -FI_EOPNOTSUPP where the device has none of the kind.
    /// Any context.
    fn most_elements(&self, form: Form, op: Op, datatype: Datatype) -> Result<usize>;

    /// Looks for the ways to peers, several at a time, until there are no more or it is over. May sleep,
    /// some seconds for one that does not answer.
    fn resolve(&self, peers: &mut dyn AsyncResolve);
}

/// Peers that are looked for.
pub trait AsyncResolve {
    /// The next of them, and its number.
    fn next(&mut self) -> Option<(usize, SocketAddr)>;

    /// What came of the one with that number; -FI_EHOSTUNREACH where there is no way.
    fn found(&mut self, number: usize, outcome: Result);

    /// Whether nobody waits for the others any more.
    fn is_over(&self) -> bool;
}

/// Registered memory.
pub trait MemoryRegion: Any + Send + Sync {
    /// What `fi_mr_desc()` tells.
    fn descriptor(&self) -> Descriptor;

    /// What `fi_mr_key()` tells: FI_KEY_NOTAVAIL for local use only.
    fn key(&self) -> u64;
}

/// A completion queue.
pub trait CompletionQueue: Any + Send + Sync {
    /// For providers that look for their own kind.
    fn as_any(&self) -> &dyn Any;

    /// For providers that share their own kind.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Writes what has completed into `entries` and says how many. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EAGAIN when there is nothing, -FI_EAVAIL when a failure is next.
    fn read(&self, entries: Entries<'_>) -> Result<usize>;

    /// The same, which also writes whom each is from; `sources` is as long as `entries`.
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

    /// Takes the failure that is next, if one is. Any context.
    fn read_error(&self) -> Result<Failure>;

    /// Declares that a peer queue reads this queue, and forwards each outcome before it reads the next one.
    fn begin_forwarding(&self) {}

    /// Takes what has completed from the device, so that it is counted. Any context.
    fn progress(&self);

    /// Asks for [`Notifier::arrived`] with the next completion of the device; true if one may have
    /// been missed. Any context.
    fn arm(&self) -> bool;

    /// Whether something was taken from the device that waits for its reader. Any context.
    fn has_put_off(&self) -> bool;

    /// What its readers wait on.
    fn interrupts(&self) -> &Notifier;

    /// Tells of itself, as a [`Tell`](super::card::Tell).
    fn tell(&self, told: &mut ObjectInfo<'_>);

    /// The text of one of its error numbers.
    fn describe(&self, prov_errno: i32) -> &'static CStr;

    /// Nothing is bound any more: stop. May sleep.
    fn close(&self);
}

/// How many peers an endpoint has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peers {
    /// One, that it is connected with: an event queue tells of the connection.
    One,
    /// Those of the address vector that is bound to it.
    Any,
}

/// Where the operations of one direction complete.
pub struct Side {
    /// The queue.
    pub queue: ChildRef<cq::CompletionQueue>,
    /// Successes complete only with FI_COMPLETION.
    pub selective: bool,
}

impl Side {
    /// The same once more, with a reference of its own.
    pub(super) fn again(&self) -> Result<Self> {
        Ok(Self {
            queue: ChildRef::new(self.queue.arc())?,
            selective: self.selective,
        })
    }
}

/// What is bound to an endpoint when it is enabled.
pub struct Bindings {
    /// Where its connection events go: there with [`Peers::One`].
    pub events: Option<ChildRef<EventQueue>>,
    /// What the addresses of its peers stand in: there with [`Peers::Any`].
    pub addresses: Option<ChildRef<AddressVector>>,
    /// Where its messages go, if it shares that with others.
    pub shared: Option<ChildRef<srx::SharedReceive>>,
    /// What it sends with, if it shares that with others.
    pub packets: Option<ChildRef<stx::SharedTransmit>>,
    /// Where transmits complete: there if it has that [direction](Endpoint::directions).
    pub transmit: Option<Side>,
    /// Where receives complete: the same.
    pub receive: Option<Side>,
    /// Where operations are counted, when their completions are taken from the device: each, whether
    /// or not a reader is told of it, and when its memory is the consumer's again.
    pub counters: BoundCounters,
}

/// What a consumer can set of an endpoint, with `fi_setopt()`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpOption {
    /// FI_OPT_MIN_MULTI_RECV: how many bytes a buffer that takes several messages has for each of them, at
    /// least, of those that are posted from now on; not 0.
    MultiReceive,
    /// FI_OPT_KOFI_CONNECTIONS: how many connections it has at once, at most.
    Connections,
    /// FI_OPT_KOFI_IDLE_MS: after how many milliseconds a connection is closed that nobody uses; 0 for never.
    Idle,
    /// FI_OPT_KOFI_CONNECTED: how many connections there are. Nobody sets that.
    Connected,
}

/// What a transmit does with its memory.
#[derive(Clone, Copy)]
pub enum Operation<'a> {
    /// Sends it: a receive of the peer's takes it.
    Send,
    /// Accesses the peer's memory.
    Rma(Rma, &'a [fi_rma_iov]),
}

/// Which way remote memory access goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rma {
    /// From the local memory to the peer's.
    Write,
    /// From the peer's memory to the local one.
    Read,
}

/// What a tagged message is sent with, or what of that a receive takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// The tag.
    pub tag: u64,
    /// The bits of it that do not matter to a receive.
    pub ignore: u64,
}

impl Tag {
    /// What a receive takes that takes any.
    pub const ANY: Self = Self {
        tag: 0,
        ignore: u64::MAX,
    };
}

/// The local side of a transfer.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The memory.
    pub memory: Memory<'a>,
    /// A descriptor for each of its parts, or none at all.
    pub descriptors: &'a [Descriptor],
    /// Given back with the completion.
    pub context: Context,
    /// Operation flags: FI_COMPLETION, FI_MORE, FI_FENCE, ...
    pub flags: u64,
    /// Writes no completion entry for a success, as with fi_inject(), unless the flags have FI_COMPLETION. FI_INJECT
    /// alone does not suppress the entry.
    pub errors_only: bool,
    /// What the peer's completion brings, with FI_REMOTE_CQ_DATA in the flags.
    pub data: u64,
    /// Whom it goes to, or whom a receive takes from: nothing to an endpoint with [`Peers::One`].
    pub peer: fi_addr_t,
    /// The tag of a tagged message, or of a receive that takes one.
    pub tag: Option<Tag>,
}

/// The local side of the plainest transfer: one range of memory, and flags that are the same for all.
#[derive(Clone, Copy)]
pub struct SingleSegment<'a> {
    /// The memory.
    pub segment: &'a Segment,
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// Given back with the completion.
    pub context: Context,
    /// Those of the endpoint's operations that name none.
    pub flags: u64,
}

/// An active endpoint.
///
/// Posting is legal in any context and never sleeps. The other calls may sleep.
pub trait Endpoint: Any + Send + Sync {
    /// For providers that look for their own kind, and for the C API's tables.
    fn as_any(&self) -> &dyn Any;

    /// How many peers it has.
    fn peers(&self) -> Peers {
        Peers::One
    }

    /// What it is for: FI_TRANSMIT, FI_RECV or both.
    fn directions(&self) -> u64 {
        FI_TRANSMIT | FI_RECV
    }

    /// The operations that it can count: FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ,
    /// FI_REMOTE_WRITE.
    fn countable(&self) -> u64;

    /// Whether it was made to share its receives: they have to be bound, and it posts none itself.
    fn shares_receives(&self) -> bool {
        false
    }

    /// Whether it was made to share what it sends with: that has to be bound.
    fn shares_transmits(&self) -> bool {
        false
    }

    /// Whether a read may be told as done that is not: then nothing behind it is done.
    fn doubts_reads(&self) -> bool {
        false
    }

    /// Makes it ready for receives and for a connection.
    fn enable(self: Arc<Self>, bindings: Bindings) -> Result;

    /// Starts to connect to `to`, or to the destination of its info.
    fn connect(self: Arc<Self>, to: Option<SocketAddr>, private_data: &[u8]) -> Result;

    /// Accepts the request that it was made for.
    fn accept(self: Arc<Self>, private_data: &[u8]) -> Result;

    /// Ends the connection in the directions of `flags`.
    fn shutdown(&self, flags: u64) -> Result;

    /// Binds it to a local address.
    fn set_name(&self, addr: SocketAddr) -> Result;

    /// Its local address.
    fn name(&self) -> Result<SocketAddr>;

    /// Its peer's address.
    fn peer(&self) -> Result<SocketAddr>;

    /// Most bytes of private data it can send.
    fn private_data_limit(&self) -> usize;

    /// How many receives can be posted now; -FI_EOPBADSTATE before it is enabled.
    fn receives_left(&self) -> Result<usize>;

    /// How many transmits can be posted now; -FI_EOPBADSTATE before it is enabled.
    fn transmits_left(&self) -> Result<usize>;

    /// Starts a transmit. With FI_INJECT the caller may reuse the memory when this returns; a success is reported as
    /// without the flag.
    fn transmit(&self, operation: Operation<'_>, message: &Message<'_>) -> Result;

    /// Starts a transmit if there is a short way to do that now; else does nothing.
    #[inline(always)]
    fn transmit_plain(
        &self,
        _operation: Operation<'_>,
        _single: &SingleSegment<'_>,
    ) -> Option<Result> {
        None
    }

    /// The same for memory that is the caller's again when this returns, of which nobody is told unless
    /// it fails. The flags are as those of a [`SingleSegment`].
    #[inline(always)]
    fn inject_plain(
        &self,
        _operation: Operation<'_>,
        _segment: &Segment,
        _flags: u64,
    ) -> Option<Result> {
        None
    }

    /// Posts a receive if there is a short way to do that now; else does nothing.
    #[inline(always)]
    fn receive_plain(&self, _single: &SingleSegment<'_>) -> Option<Result> {
        None
    }

    /// Starts an atomic operation if there is a short way to do that now; else does nothing.
    #[inline(always)]
    fn atomic_plain(&self, _atomic: &Atomic<'_>, _message: &Message<'_>) -> Option<Result> {
        None
    }

    /// Starts an atomic operation whose operands are the memory of `message`.
    fn atomic(&self, atomic: &Atomic<'_>, message: &Message<'_>) -> Result;

    /// Most elements of one: [`Domain::most_elements`], for an endpoint that was opened for atomics.
    fn most_elements(&self, form: Form, op: Op, datatype: Datatype) -> Result<usize>;

    /// What something is set to. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOPROTOOPT where there is nothing to set.
    fn setting(&self, setting: EpOption) -> Result<usize>;

    /// Has operations with FI_PEER_TRANSFER complete in `queue`, which are among themselves, until it closes.
    /// Once, when it is enabled. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS of one that was not opened for FI_COLLECTIVE, -FI_EALREADY, -FI_ENOMEM.
    fn carry(&self, _queue: ChildRef<cq::CompletionQueue>) -> Result {
        not_implemented()
    }

    /// Sets it. Any context.
    ///
    /// # Errors
    ///
    /// -FI_ENOPROTOOPT where there is nothing to set, -FI_EINVAL for a value that it cannot have.
    fn set(&self, setting: EpOption, value: usize) -> Result;

    /// Posts a receive. With FI_MULTI_RECV its one segment takes several messages.
    fn receive(&self, message: &Message<'_>) -> Result;

    /// Takes back the operation that was posted with `context`, if nothing has been done for it: it
    /// completes with -FI_ECANCELED. Any context.
    ///
    /// # Errors
    ///
    /// -FI_EOPNOTSUPP where what is posted belongs to the device, -FI_ENOENT if there is none, -FI_EAGAIN if
    /// there is no room to tell of it, where that has not been taken before.
    fn cancel(&self, _context: Context) -> Result {
        Err(Errno::EOPNOTSUPP)
    }

    /// Tells of itself, as a [`Tell`](super::card::Tell).
    fn tell(&self, told: &mut ObjectInfo<'_>);

    /// Ends everything silently. When it returns no posted memory is touched any more; the context
    /// of every operation without a completion that a reader has seen has been given to `reclaim`.
    fn close(&self, reclaim: &mut dyn FnMut(Context));
}

/// A context of a scalable endpoint, by its direction and its index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContextIndex {
    /// It sends, and accesses the memory of peers.
    Transmit(usize),
    /// It receives.
    Receive(usize),
}

/// An endpoint of several contexts, each of which is an [`Endpoint`] of one direction; they have one
/// address.
///
/// The calls may sleep, but for [`Self::tell`].
pub trait ScalableEndpoint: Any + Send + Sync {
    /// How many contexts send, and how many receive.
    fn contexts(&self) -> [usize; 2];

    /// Lets it be reached, and reach those in `addresses`.
    fn enable(self: Arc<Self>, addresses: ChildRef<AddressVector>) -> Result;

    /// Makes the context of an index that there is, and that no open one has; `info` is that of an endpoint
    /// which is like it. It is enabled after this, without addresses of its own, and closed before.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    fn context(self: Arc<Self>, which: ContextIndex, info: &Info) -> Result<Arc<dyn Endpoint>>;

    /// As [`Endpoint::setting`].
    fn setting(&self, setting: EpOption) -> Result<usize>;

    /// As [`Endpoint::set`].
    fn set(&self, setting: EpOption, value: usize) -> Result;

    /// Binds it to a local address; -FI_EOPBADSTATE once it is enabled.
    fn set_name(&self, addr: SocketAddr) -> Result;

    /// Its local address.
    fn name(&self) -> Result<SocketAddr>;

    /// Tells of itself, as a [`Tell`](super::card::Tell).
    fn tell(&self, told: &mut ObjectInfo<'_>);

    /// Ends everything silently. No context is open any more.
    fn close(&self);
}

/// Receives that endpoints share: the messages of each take the oldest.
///
/// Posting is legal in any context and never sleeps.
pub trait SharedReceive: Any + Send + Sync {
    /// For providers that look for their own kind, and for the C API's tables.
    fn as_any(&self) -> &dyn Any;

    /// For providers that share their own kind.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Whether some of them may be for messages with tags.
    fn has_tags(&self) -> bool {
        false
    }

    /// Posts a receive. It completes where the receives of the endpoint do that has got the message.
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::receive`]; -FI_EOPNOTSUPP with FI_MULTI_RECV and, where there are tags, FI_PEEK and
    /// its like; -FI_EOPBADSTATE when it has been closed.
    fn receive(&self, message: &Message<'_>) -> Result;

    /// Lets messages of another module's provider take from them, too. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOSYS where they are the device's, -FI_EINVAL where they are another's, -FI_ENOMEM.
    fn host(
        self: Arc<Self>,
        _guest: Arc<dyn srx::PeerEndpoint>,
    ) -> Result<Arc<dyn srx::ExportedReceives>> {
        not_implemented()
    }

    /// How many can be posted now.
    fn receives_left(&self) -> usize;

    /// As [`Endpoint::cancel`].
    fn cancel(&self, _context: Context) -> Result {
        Err(Errno::EOPNOTSUPP)
    }

    /// Tells of itself, as a [`Tell`](super::card::Tell).
    fn tell(&self, told: &mut ObjectInfo<'_>);

    /// No endpoint shares it any more. When it returns no posted memory is touched any more; the context
    /// of each receive has been given to `reclaim`. May sleep.
    fn close(&self, reclaim: &mut dyn FnMut(Context));
}

/// What endpoints share to send with: as many operations of all of them can be under way at once as there is
/// room for.
pub trait SharedTransmit: Any + Send + Sync {
    /// For providers that look for their own kind.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Tells of itself, as a [`Tell`](super::card::Tell).
    fn tell(&self, told: &mut ObjectInfo<'_>);

    /// No endpoint shares it any more. May sleep.
    fn close(&self);
}

/// A listener.
pub trait PassiveEndpoint: Any + Send + Sync {
    /// Starts to listen. May sleep.
    fn listen(self: Arc<Self>, events: ChildRef<EventQueue>) -> Result;

    /// Sets how many requests may wait, before it listens.
    fn set_backlog(&self, backlog: c_int) -> Result;

    /// Refuses the request with this handle.
    fn reject(&self, handle: usize, private_data: &[u8]) -> Result;

    /// Binds it to a local address, before it listens.
    fn set_name(&self, addr: SocketAddr) -> Result;

    /// Its local address.
    fn name(&self) -> Result<SocketAddr>;

    /// Most bytes of private data it can send.
    fn private_data_limit(&self) -> usize;

    /// Tells of itself, as a [`Tell`](super::card::Tell).
    fn tell(&self, told: &mut ObjectInfo<'_>);

    /// Stops listening and refuses the requests that nobody has accepted. May sleep.
    fn close(&self);
}

/// The answer of a call that an object does not have.
pub const fn not_implemented<T>() -> Result<T> {
    Err(Errno::ENOSYS)
}
