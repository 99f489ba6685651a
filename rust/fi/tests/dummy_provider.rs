// SPDX-License-Identifier: GPL-2.0

//! A test provider without a device. Its fabrics and domains have only memory regions, which no operation
//! uses, and completion queues, which a test fills.

use super::super::{
    atomic::{
        Datatype,
        Form,
        Op, //
    },
    cq::{
        self,
        Completion,
        CqEntry,
        Entries,
        EntryFifo,
        Failure,
        Notifier, //
    },
    domain::Domain,
    eq::{
        ReservedEvent,
        Source, //
    },
    fabric::Fabric,
    info::Query,
    introspect::Owner,
    mr::Access,
    provider::{
        self,
        not_implemented,
        AsyncResolve,
        FabricAttr,
        Provider, //
    },
};
use crate::{
    abi::{
        info::InfoList,
        FI_KEY_NOTAVAIL, //
    },
    fi::prelude::*,
    util::{
        biased_lock::Threading,
        context::may_sleep, //
    },
};
use core::any::Any;
use kernel::{
    new_spinlock,
    sync::SpinLock, //
};

/// Tests run in process context.
pub(in crate::fi) const HERE: ProcessContext = ProcessContext::assume();

/// Opens a fabric.
pub(in crate::fi) fn fabric() -> Result<Arc<Fabric>> {
    open_fabric(&DummyProvider(None))
}

/// Opens a fabric whose close `witness` counts. It closes when its last domain has closed too.
pub(in crate::fi) fn counted_fabric(witness: &Arc<CloseCounter>) -> Result<Arc<Fabric>> {
    open_fabric(&DummyProvider(Some(witness.clone())))
}

fn open_fabric(nothing: &DummyProvider) -> Result<Arc<Fabric>> {
    let attr = FabricAttr {
        name: None,
        net: Namespace::init(),
    };
    Fabric::open(nothing, &attr, &Owner::module(c"nothing"))
}

/// Opens a domain in a fabric of its own.
pub(in crate::fi) fn domain() -> Result<Arc<Domain>> {
    let info = Info::new()?;
    fabric()?.domain(HERE, &info)
}

struct DummyProvider(Option<Arc<CloseCounter>>);

/// Number of fabrics that closed in process context, and in atomic context.
pub(in crate::fi) struct CloseCounter([Atomic<u32>; 2]);

impl CloseCounter {
    /// Returns a counter with both numbers 0.
    pub(in crate::fi) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self([Atomic::new(0), Atomic::new(0)]),
            GFP_KERNEL,
        )?)
    }

    /// Returns both numbers.
    pub(in crate::fi) fn closes(&self) -> (u32, u32) {
        let Self([awake, elsewhere]) = self;
        (awake.load(Acquire), elsewhere.load(Acquire))
    }
}

/// The fabric, domain and memory region of the provider.
struct DummyObject(Option<Arc<CloseCounter>>);

impl Drop for DummyObject {
    fn drop(&mut self) {
        if let Some(witness) = &self.0 {
            let CloseCounter([awake, elsewhere]) = &**witness;
            let count = if may_sleep() { awake } else { elsewhere };
            let _ = count.fetch_add(1u32, Full);
        }
    }
}

impl Provider for DummyProvider {
    fn name(&self) -> &'static CStr {
        c"nothing"
    }

    fn getinfo(&self, _query: &Query<'_>, _found: &mut InfoList) -> Result {
        Ok(())
    }

    fn fabric(&self, _info: &FabricAttr<'_>) -> Result<Arc<dyn provider::Fabric>> {
        Ok(Arc::new(DummyObject(self.0.clone()), GFP_KERNEL)?)
    }
}

impl provider::Fabric for DummyObject {
    fn domain(
        self: Arc<Self>,
        _info: &Info,
        _threading: Threading,
    ) -> Result<Arc<dyn provider::Domain>> {
        Ok(self)
    }

    fn passive_endpoint(
        self: Arc<Self>,
        _info: &Info,
        _source: Source,
    ) -> Result<Arc<dyn provider::PassiveEndpoint>> {
        not_implemented()
    }
}

impl provider::Domain for DummyObject {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn completion_queue(
        self: Arc<Self>,
        attr: &cq::Attr,
    ) -> Result<Arc<dyn provider::CompletionQueue>> {
        let outcomes = EntryFifo::new(attr.size)?;
        Ok(Arc::pin_init(
            pin_init!(Queue {
                entries <- new_spinlock!(outcomes, "kofi::dummy_provider::Queue"),
                notifier <- Notifier::new(),
            }),
            GFP_KERNEL,
        )?)
    }

    fn endpoint(
        self: Arc<Self>,
        _info: &Info,
        _source: Source,
    ) -> Result<Arc<dyn provider::Endpoint>> {
        not_implemented()
    }

    fn register(
        self: Arc<Self>,
        _memory: &[Segment],
        _access: Access,
    ) -> Result<Arc<dyn provider::MemoryRegion>> {
        Ok(self)
    }

    fn check_descriptors(&self, _memory: Memory<'_>, _descriptors: &[Descriptor]) -> Result {
        Ok(())
    }

    fn set_removal_event(&self, _notice: Option<ReservedEvent>) {}

    fn max_atomic_elements(&self, _form: Form, _op: Op, _datatype: Datatype) -> Result<usize> {
        not_implemented()
    }

    fn resolve(&self, _peers: &mut dyn AsyncResolve) {}
}

impl provider::MemoryRegion for DummyObject {
    fn descriptor(&self) -> Descriptor {
        Descriptor::UNUSED
    }

    fn key(&self) -> u64 {
        FI_KEY_NOTAVAIL
    }
}

/// A completion queue with a fixed number of entries.
#[pin_data]
pub(in crate::fi) struct Queue {
    #[pin]
    entries: SpinLock<EntryFifo>,
    #[pin]
    notifier: Notifier,
}

impl Queue {
    /// Adds an entry to `core`, a queue of this provider.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a queue of another provider.
    pub(in crate::fi) fn write(core: &dyn provider::CompletionQueue, entry: CqEntry) -> Result {
        let queue = core.as_any().downcast_ref::<Self>().ok_or(Errno::EINVAL)?;
        queue.entries.lock().push(entry);
        queue.notifier.notify();
        Ok(())
    }

    fn read_entries<E: From<Completion>>(&self, space: &mut [MaybeUninit<E>]) -> Result<usize> {
        let mut outcomes = self.entries.lock();
        let mut count = 0;
        for into in space {
            let Some(CqEntry::Done(done)) = outcomes.first() else {
                break;
            };
            into.write(E::from(*done));
            outcomes.remove_first();
            count += 1;
        }
        outcomes.read_result(count)
    }
}

impl provider::CompletionQueue for Queue {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn read(&self, entries: Entries<'_>) -> Result<usize> {
        match entries {
            Entries::Context(space) => self.read_entries(space),
            Entries::Msg(space) => self.read_entries(space),
            Entries::Data(space) => self.read_entries(space),
            Entries::Tagged(space) => self.read_entries(space),
            Entries::Sourced(space) => self.read_entries(space),
        }
    }

    fn read_error(&self) -> Result<Failure> {
        let failure = self.entries.lock().pop_failure();
        failure.ok_or(Errno::EAGAIN)
    }

    fn progress(&self) {}

    fn arm(&self) -> bool {
        self.has_backlog()
    }

    fn has_backlog(&self) -> bool {
        !self.entries.lock().is_empty()
    }

    fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    fn fill_info(&self, _told: &mut ObjectInfo<'_>) {}

    fn strerror(&self, _prov_errno: i32) -> &'static CStr {
        c""
    }

    fn close(&self) {}
}
