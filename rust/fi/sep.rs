// SPDX-License-Identifier: GPL-2.0

//! Scalable endpoints: one address, and contexts that send and receive there.
//!
//! A context is an [`Endpoint`] of one direction, with queues of its own. Which are open is under a mutex
//! that is held for moments only; `fi_enable()` runs under another one.

use super::{
    av::AddressVector,
    domain::Domain,
    ep::Endpoint,
    eq::Source,
    introspect::{
        Introspect,
        ObjectEntry,
        ObjectInfo, //
    },
    object::{
        ChildCount,
        ChildRef,
        Parent, //
    },
    provider::{
        self,
        ContextIndex, //
    },
};
use crate::abi::{
    fi_rx_attr,
    fi_tx_attr,
    info::Info,
    Errno,
    Result,
    KOFI_OBJECT_RX_CTX,
    KOFI_OBJECT_SEP,
    KOFI_OBJECT_TX_CTX, //
};
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        Arc,
        Mutex, //
    },
};

/// How far it has come.
enum SepState {
    /// Whose addresses it is to know, once that is bound.
    Open(Option<ChildRef<AddressVector>>),
    /// The provider holds them.
    Enabled,
}

/// Which contexts are open, of those of one direction.
type Open = KVec<bool>;

/// A scalable endpoint.
#[pin_data(PinnedDrop)]
pub struct ScalableEndpoint {
    core: Arc<dyn provider::ScalableEndpoint>,
    /// What its contexts are like, unless they are asked to be less.
    info: KBox<Info>,
    #[pin]
    stage: Mutex<SepState>,
    #[pin]
    open: Mutex<[Open; 2]>,
    users: ChildCount,
    card: ObjectEntry,
    domain: ChildRef<Domain>,
}

impl Parent for ScalableEndpoint {
    fn users(&self) -> &ChildCount {
        &self.users
    }
}

/// What of it is told of.
struct SepInfo(Arc<dyn provider::ScalableEndpoint>);

impl Introspect for SepInfo {
    fn fill_info(&self, told: &mut ObjectInfo<'_>) {
        self.0.fill_info(told);
    }
}

/// The place of an open context, which others can have when it is dropped.
pub(super) struct ContextSlot {
    parent: ChildRef<ScalableEndpoint>,
    which: ContextIndex,
}

impl ContextSlot {
    /// Whose context it is.
    pub(super) fn parent(&self) -> &Arc<ScalableEndpoint> {
        self.parent.arc()
    }
}

impl Drop for ContextSlot {
    fn drop(&mut self) {
        if let Some(is_open) = self.which.place(&mut self.parent.open.lock()) {
            *is_open = false;
        }
    }
}

impl ContextIndex {
    fn place(self, open: &mut [Open; 2]) -> Option<&mut bool> {
        let [transmits, receives] = open;
        match self {
            Self::Transmit(index) => transmits.get_mut(index),
            Self::Receive(index) => receives.get_mut(index),
        }
    }

    fn kind(self) -> u32 {
        match self {
            Self::Transmit(_) => KOFI_OBJECT_TX_CTX,
            Self::Receive(_) => KOFI_OBJECT_RX_CTX,
        }
    }
}

/// A context that has been opened, and what it is like.
pub(crate) struct OpenContext {
    /// The context.
    pub(crate) endpoint: Arc<Endpoint>,
    /// The info that an endpoint like it would be made of.
    pub(crate) info: KBox<Info>,
}

impl ScalableEndpoint {
    pub(super) fn new(domain: ChildRef<Domain>, info: &Info) -> Result<Arc<Self>> {
        let info = info.duplicate()?;
        let core = domain.core().clone().scalable_endpoint(&info)?;
        let made = Self::around(&core, domain, info);
        if made.is_err() {
            core.close();
        }
        made
    }

    fn around(
        core: &Arc<dyn provider::ScalableEndpoint>,
        domain: ChildRef<Domain>,
        info: KBox<Info>,
    ) -> Result<Arc<Self>> {
        let shown = Arc::new(SepInfo(core.clone()), GFP_KERNEL)?;
        let card = domain
            .entry()
            .new_child(KOFI_OBJECT_SEP, c"", Some(shown))?;
        let [transmits, receives] = core.context_counts();
        let open = [
            KVec::from_elem(false, transmits, GFP_KERNEL)?,
            KVec::from_elem(false, receives, GFP_KERNEL)?,
        ];
        Ok(Arc::pin_init(
            pin_init!(Self {
                core: core.clone(),
                info,
                stage <- new_mutex!(SepState::Open(None), "kofi::sep::ScalableEndpoint"),
                open <- new_mutex!(open, "kofi::sep::ScalableEndpoint::open"),
                users: ChildCount::new(),
                card,
                domain,
            }),
            GFP_KERNEL,
        )?)
    }

    /// The provider's part.
    pub(crate) fn core(&self) -> &Arc<dyn provider::ScalableEndpoint> {
        &self.core
    }

    pub(super) fn card(&self) -> &ObjectEntry {
        &self.card
    }

    /// Binds the vector that the addresses of its peers stand in. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EBADFLAGS for any flag, -FI_EINVAL if one is bound, -FI_EDOMAIN for another domain's,
    /// -FI_EOPBADSTATE once enabled.
    pub(crate) fn bind_addresses(&self, vector: &Arc<AddressVector>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        if !vector.is_of(self.domain.arc()) {
            return Err(Errno::EDOMAIN);
        }
        let held = ChildRef::new(vector)?;
        match &mut *self.stage.lock() {
            SepState::Enabled => Err(Errno::EOPBADSTATE),
            SepState::Open(Some(_)) => Err(Errno::EINVAL),
            SepState::Open(bound) => {
                *bound = Some(held);
                Ok(())
            }
        }
    }

    /// `fi_enable()`: it listens; enabling again does nothing. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOAV without an address vector, those of the provider.
    pub(crate) fn enable(&self) -> Result {
        let mut stage = self.stage.lock();
        let SepState::Open(bound) = &*stage else {
            return Ok(());
        };
        let addresses = bound.as_ref().ok_or(Errno::ENOAV)?;
        // It stays bound until the provider has agreed, so that a failure can be retried.
        self.core.clone().enable(ChildRef::new(addresses.arc())?)?;
        *stage = SepState::Enabled;
        Ok(())
    }

    /// Opens a transmit context with these attributes, which become those that it has; its events carry
    /// `source`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an index that there is not, and for more than the endpoint has; -FI_EBUSY for one
    /// that is open; -FI_ENOMEM.
    pub(crate) fn transmit_context(
        self: &Arc<Self>,
        index: usize,
        attr: Option<&mut fi_tx_attr>,
        source: Source,
    ) -> Result<OpenContext> {
        let mut info = self.info.duplicate()?;
        if let Some(attr) = attr {
            let own = info.tx_mut()?;
            let fits = within(own.caps, attr.caps)
                && within(own.msg_order, attr.msg_order)
                && within(own.comp_order, attr.comp_order);
            if !fits {
                return Err(Errno::EINVAL);
            }
            own.op_flags = attr.op_flags;
            for (own, asked) in [
                (&mut own.inject_size, attr.inject_size),
                (&mut own.size, attr.size),
                (&mut own.iov_limit, attr.iov_limit),
                (&mut own.rma_iov_limit, attr.rma_iov_limit),
            ] {
                lessen(own, asked)?;
            }
            limit_caps(&mut info, attr.caps)?;
            *attr = *info.tx_mut()?;
        }
        self.context(ContextIndex::Transmit(index), info, source)
    }

    /// The same of a receive context.
    ///
    /// # Errors
    ///
    /// As of [`Self::transmit_context`].
    pub(crate) fn receive_context(
        self: &Arc<Self>,
        index: usize,
        attr: Option<&mut fi_rx_attr>,
        source: Source,
    ) -> Result<OpenContext> {
        let mut info = self.info.duplicate()?;
        if let Some(attr) = attr {
            let own = info.rx_mut()?;
            let fits = within(own.caps, attr.caps)
                && within(own.msg_order, attr.msg_order)
                && within(own.comp_order, attr.comp_order);
            if !fits {
                return Err(Errno::EINVAL);
            }
            own.op_flags = attr.op_flags;
            for (own, asked) in [
                (&mut own.total_buffered_recv, attr.total_buffered_recv),
                (&mut own.size, attr.size),
                (&mut own.iov_limit, attr.iov_limit),
            ] {
                lessen(own, asked)?;
            }
            limit_caps(&mut info, attr.caps)?;
            *attr = *info.rx_mut()?;
        }
        self.context(ContextIndex::Receive(index), info, source)
    }

    fn context(
        self: &Arc<Self>,
        which: ContextIndex,
        info: KBox<Info>,
        source: Source,
    ) -> Result<OpenContext> {
        let parent = ChildRef::new(self)?;
        let mut open = self.open.lock();
        let is_open = which.place(&mut open).ok_or(Errno::EINVAL)?;
        if core::mem::replace(is_open, true) {
            return Err(Errno::EBUSY);
        }
        drop(open);
        let seat = ContextSlot { parent, which };
        let core = self.core.clone().context(which, &info)?;
        let domain = ChildRef::new(self.domain.arc())?;
        Ok(OpenContext {
            endpoint: Endpoint::new_context(core, domain, seat, which.kind(), source)?,
            info,
        })
    }

    /// Closes it: -FI_EBUSY while a context is open. May sleep.
    pub(crate) fn close(&self) -> Result {
        self.users.try_close()?;
        self.end();
        Ok(())
    }

    fn end(&self) {
        self.core.close();
        self.card.remove();
        let bound = core::mem::replace(&mut *self.stage.lock(), SepState::Open(None));
        drop(bound);
    }
}

#[pinned_drop]
impl PinnedDrop for ScalableEndpoint {
    fn drop(self: Pin<&mut Self>) {
        // Nothing is left to do for one that its owner has closed.
        self.end();
    }
}

/// Every bit that is asked for is there.
fn within(own: u64, asked: u64) -> bool {
    asked & !own == 0
}

/// Makes a size as small as is asked for; 0 asks for nothing.
fn lessen(own: &mut usize, asked: usize) -> Result {
    match asked {
        0 => Ok(()),
        asked if asked > *own => Err(Errno::EINVAL),
        asked => {
            *own = asked;
            Ok(())
        }
    }
}

/// Leaves a context those capabilities, if some are asked for.
fn limit_caps(info: &mut Info, asked: u64) -> Result {
    if asked != 0 {
        info.set_caps(info.caps() & asked);
        info.tx_mut()?.caps &= asked;
        info.rx_mut()?.caps &= asked;
    }
    Ok(())
}
