// SPDX-License-Identifier: GPL-2.0

//! The traits that a provider implements.
//!
//! The traits are object-safe for Rust consumers; the C API instantiates its tables for the concrete types.
//! Either way one indirect call leads from a consumer to the provider's code. The traits are safe: the types
//! of [`memory`](super::memory) guarantee that memory stays valid.

mod endpoint;
mod message;

use super::{
    atomic::{
        Datatype,
        Form,
        Op, //
    },
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
        ep_region::RegionMemory,
        Access, //
    },
    srx,
    stx, //
};
use crate::{
    abi::{
        errno::strerror,
        info::InfoList,
        FI_ADDR_NOTAVAIL, //
    },
    fi::prelude::*,
    util::biased_lock::Threading, //
};
use core::any::Any;

pub use endpoint::{
    Bindings,
    ContextIndex,
    CqBinding,
    Endpoint,
    EpOption,
    Peers,
    ScalableEndpoint, //
};
pub use message::{
    Destination,
    Message,
    Operation,
    Rma,
    SingleSegment,
    Tag, //
};

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

    /// Returns an upper bound of the posted receives that no message can arrive in, because the device may have lost
    /// them with endpoints that were closed. Any context.
    fn receives_lost(&self) -> usize {
        0
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
