// SPDX-License-Identifier: GPL-2.0

//! Scalable endpoints: one address with several transmit and receive contexts.
//!
//! A context is an [`Endpoint`] of one direction with its own queues. The mutex `open_contexts` guards the
//! flags of the open contexts and is held only for short accesses; `fi_enable()` runs under the mutex
//! `state`.

use super::{
    av::AddressVector,
    domain::Domain,
    ep::Endpoint,
    eq::Source,
    info::{
        caps_or_all,
        is_subset,
        limit_caps, //
    },
    introspect::EntryGuard,
    object::{
        impl_parent,
        ChildCount, //
    },
    provider::{
        self,
        ContextIndex, //
    },
};
use crate::{
    abi::{
        fi_rx_attr,
        fi_tx_attr,
        KOFI_OBJECT_RX_CTX,
        KOFI_OBJECT_SEP,
        KOFI_OBJECT_TX_CTX, //
    },
    fi::prelude::*, //
};

/// The state of a scalable endpoint.
enum SepState {
    /// Not enabled; the address vector, once bound.
    Open(Option<ChildRef<AddressVector>>),
    /// Enabled; the provider holds the address vector.
    Enabled,
}

/// Flags of the contexts of one direction: true for an open one.
type Open = KVec<bool>;

/// A scalable endpoint.
#[pin_data(PinnedDrop)]
pub struct ScalableEndpoint {
    core: Arc<dyn provider::ScalableEndpoint>,
    /// Info of an equivalent endpoint, the upper bound for each context's attributes.
    info: KBox<Info>,
    #[pin]
    state: Mutex<SepState>,
    #[pin]
    open_contexts: Mutex<[Open; 2]>,
    users: ChildCount,
    entry_guard: EntryGuard<Domain>,
}

impl_parent!(ScalableEndpoint, entry_guard.entry);

/// The index of an open context. Dropping frees the index.
pub(super) struct ContextSlot {
    parent: ChildRef<ScalableEndpoint>,
    which: ContextIndex,
}

impl ContextSlot {
    /// Returns the scalable endpoint of the context.
    pub(super) fn parent(&self) -> &Arc<ScalableEndpoint> {
        self.parent.arc()
    }

    /// Returns the kind of the context in the object table.
    pub(super) fn object_kind(&self) -> u32 {
        match self.which {
            ContextIndex::Transmit(_) => KOFI_OBJECT_TX_CTX,
            ContextIndex::Receive(_) => KOFI_OBJECT_RX_CTX,
        }
    }
}

impl Drop for ContextSlot {
    fn drop(&mut self) {
        if let Some(is_open) = self.which.open_flag(&mut self.parent.open_contexts.lock()) {
            *is_open = false;
        }
    }
}

impl ContextIndex {
    fn open_flag(self, open: &mut [Open; 2]) -> Option<&mut bool> {
        let [transmits, receives] = open;
        match self {
            Self::Transmit(index) => transmits.get_mut(index),
            Self::Receive(index) => receives.get_mut(index),
        }
    }
}

/// An open context with its attributes.
pub(crate) struct OpenContext {
    /// The context.
    pub(crate) endpoint: Arc<Endpoint>,
    /// Info of an equivalent endpoint.
    pub(crate) info: KBox<Info>,
}

/// Returns a copy of an endpoint's info, narrowed to the requested attributes `attr` of one direction, and stores the
/// actual ones there. The sizes `wide` may exceed those of the endpoint; the provider checks them.
macro_rules! narrow_info {
    ($endpoint:ident, $attr:ident, $direction:ident: $($size:ident)*, $($wide:ident)*) => {{
        let mut info = $endpoint.info.duplicate()?;
        if let Some(attr) = $attr {
            let own = info.$direction()?;
            let fits = is_subset(own.caps, attr.caps)
                && is_subset(own.msg_order, attr.msg_order)
                && is_subset(own.comp_order, attr.comp_order)
                $(&& reduce(&mut own.$size, attr.$size))*;
            Errno::EINVAL.when(!fits)?;
            $(if attr.$wide != 0 {
                own.$wide = attr.$wide;
            })*
            own.op_flags = attr.op_flags;
            limit_caps(&mut info, caps_or_all(attr.caps))?;
            *attr = *info.$direction()?;
        }
        info
    }};
}

impl ScalableEndpoint {
    pub(super) fn new(domain: ChildRef<Domain>, info: &Info) -> Result<Arc<Self>> {
        let info = info.duplicate()?;
        let core = domain.core().clone().scalable_endpoint(&info)?;
        Self::build(&core, domain, info).inspect_err(|_| core.close())
    }

    fn build(
        core: &Arc<dyn provider::ScalableEndpoint>,
        domain: ChildRef<Domain>,
        info: KBox<Info>,
    ) -> Result<Arc<Self>> {
        let describe = provider::ScalableEndpoint::fill_info;
        let entry_guard = EntryGuard::of_core(domain, KOFI_OBJECT_SEP, core, describe)?;
        let [transmits, receives] = core.context_counts();
        let open = [
            KVec::from_elem(false, transmits, GFP_KERNEL)?,
            KVec::from_elem(false, receives, GFP_KERNEL)?,
        ];
        pin_arc(pin_init!(Self {
            core: core.clone(),
            info,
            state <- new_mutex!(SepState::Open(None), "kofi::ScalableEndpoint"),
            open_contexts <- new_mutex!(open, "kofi::ScalableEndpoint::open_contexts"),
            users: ChildCount::new(),
            entry_guard,
        }))
    }

    /// Returns the provider's object.
    pub(crate) fn core(&self) -> &Arc<dyn provider::ScalableEndpoint> {
        &self.core
    }

    /// Binds the address vector of the peers. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag, -FI_EINVAL if a vector is bound, -FI_EDOMAIN for another domain's vector,
    /// -FI_EOPBADSTATE once enabled.
    pub(crate) fn bind_av(&self, vector: &Arc<AddressVector>, flags: u64) -> Result {
        Errno::EBADFLAGS.when(flags != 0)?;
        Errno::EDOMAIN.when(!vector.entry_guard.is_of(self.entry_guard.parent.arc()))?;
        let held = ChildRef::new(vector)?;
        match &mut *self.state.lock() {
            SepState::Enabled => Err(Errno::EOPBADSTATE),
            SepState::Open(Some(_)) => Err(Errno::EINVAL),
            SepState::Open(bound) => {
                *bound = Some(held);
                Ok(())
            }
        }
    }

    /// `fi_enable()`: starts to listen. Does nothing if the endpoint is enabled. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOAV without an address vector, and errors of the provider.
    pub(crate) fn enable(&self) -> Result {
        let mut stage = self.state.lock();
        let SepState::Open(bound) = &*stage else {
            return Ok(());
        };
        let addresses = bound.as_ref().ok_or(Errno::ENOAV)?;
        // The vector stays bound until the provider has succeeded, so that a failed enable can be retried.
        self.core.clone().enable(addresses.try_clone()?)?;
        *stage = SepState::Enabled;
        Ok(())
    }

    /// Opens a transmit context with the requested attributes, and stores the actual ones in `attr`. Its
    /// events carry `source`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an index out of range and for attributes that the endpoint does not offer; -FI_EBUSY
    /// for a context that is open; -FI_ENOMEM.
    pub(crate) fn transmit_context(
        self: &Arc<Self>,
        index: usize,
        attr: Option<&mut fi_tx_attr>,
        source: Source,
    ) -> Result<OpenContext> {
        let info = narrow_info!(self, attr, tx_mut: inject_size iov_limit rma_iov_limit, size);
        self.open_context(ContextIndex::Transmit(index), info, source)
    }

    /// Opens a receive context, as [`Self::transmit_context`] does.
    ///
    /// # Errors
    ///
    /// As [`Self::transmit_context`].
    pub(crate) fn receive_context(
        self: &Arc<Self>,
        index: usize,
        attr: Option<&mut fi_rx_attr>,
        source: Source,
    ) -> Result<OpenContext> {
        let info = narrow_info!(self, attr, rx_mut: total_buffered_recv size iov_limit,);
        self.open_context(ContextIndex::Receive(index), info, source)
    }

    fn open_context(
        self: &Arc<Self>,
        which: ContextIndex,
        info: KBox<Info>,
        source: Source,
    ) -> Result<OpenContext> {
        let parent = ChildRef::new(self)?;
        let mut open = self.open_contexts.lock();
        let is_open = which.open_flag(&mut open).ok_or(Errno::EINVAL)?;
        Errno::EBUSY.when(mem::replace(is_open, true))?;
        drop(open);
        let slot = ContextSlot { parent, which };
        let core = self.core.clone().context(which, &info)?;
        let domain = self.entry_guard.parent.try_clone()?;
        let endpoint = Endpoint::of_core(core, domain, Some(slot), source)?;
        Ok(OpenContext { endpoint, info })
    }

    /// Closes the endpoint: -FI_EBUSY while a context is open. May sleep.
    pub(crate) fn close(&self) -> Result {
        self.users.try_close().map(|()| self.close_unchecked())
    }

    fn close_unchecked(&self) {
        self.core.close();
        self.entry_guard.entry.remove();
        // Dropped after the lock is released.
        let _bound = mem::replace(&mut *self.state.lock(), SepState::Open(None));
    }
}

#[pinned_drop]
impl PinnedDrop for ScalableEndpoint {
    fn drop(self: Pin<&mut Self>) {
        // The provider's close does nothing for an endpoint that its owner has closed.
        self.close_unchecked();
    }
}

/// Reduces a size to the requested one, where 0 requests nothing; returns false for a larger one.
fn reduce(own: &mut usize, asked: usize) -> bool {
    if asked != 0 {
        *own = asked.min(*own);
    }
    asked <= *own
}
