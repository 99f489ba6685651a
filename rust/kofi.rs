// SPDX-License-Identifier: GPL-2.0

//! kOFI: the OpenFabrics Interfaces inside the Linux kernel.

use kernel::{
    prelude::*,
    sync::Arc,
    ModuleMetadata, //
};
use util::namespace::Namespace;

pub mod abi;
mod bindings;
mod capi;
pub mod compat;
pub mod dev;
pub mod fi;
mod introspect;
mod prelude;
mod prov;
mod rdma;
pub mod util;

module! {
    type: Kofi,
    name: "kofi",
    authors: ["kOFI contributors"],
    description: "OpenFabrics Interfaces for kernel code",
    license: "GPL",
}

/// Providers in the order of preference.
static PROVIDERS: [&dyn fi::provider::Provider; 4] = [
    &prov::verbs::Verbs,
    &RXM_VERBS,
    &prov::r#loop::Loop,
    &RXM_LOOP,
];

/// Provider of datagrams over verbs, with the name of user-space libfabric; peers on the same host
/// are reached by loop.
static RXM_VERBS: prov::rxm::Rxm =
    prov::rxm::Rxm::over(&prov::verbs::Verbs, c"verbs;ofi_rxm").with_loop();

/// Provider of datagrams over loop, for peers on the same host.
static RXM_LOOP: prov::rxm::Rxm = prov::rxm::Rxm::over(&prov::r#loop::Loop, c"loop;ofi_rxm");

/// Operation tables of the providers for the C API, in the order of `PROVIDERS`.
static PROVIDER_OPS: [capi::ops_tables::ProviderOps; 4] = [
    capi::ops_tables::ProviderOps::new::<prov::verbs::Verbs>(&prov::verbs::Verbs),
    capi::ops_tables::ProviderOps::new::<prov::rxm::Rxm>(&RXM_VERBS),
    capi::ops_tables::ProviderOps::new::<prov::r#loop::Loop>(&prov::r#loop::Loop),
    capi::ops_tables::ProviderOps::new::<prov::rxm::Rxm>(&RXM_LOOP),
];

impl capi::ops_tables::ProviderTypes for prov::verbs::Verbs {
    type Endpoint = prov::verbs::data_path::Endpoint;
    type CompletionQueue = prov::verbs::data_path::CompletionQueue;
    type SharedReceive = prov::verbs::data_path::SharedReceive;
}

impl capi::ops_tables::ProviderTypes for prov::rxm::Rxm {
    type Endpoint = prov::rxm::data_path::Endpoint;
    type CompletionQueue = prov::rxm::data_path::CompletionQueue;
    type SharedReceive = prov::rxm::data_path::SharedReceive;
}

/// `fi_getinfo()` for Rust consumers.
///
/// # Errors
///
/// Errors of [`fi::info::getinfo`].
pub fn getinfo(
    _here: util::context::ProcessContext,
    query: &fi::info::Query<'_>,
) -> abi::Result<abi::info::InfoList> {
    let flags = if query.source { abi::FI_SOURCE } else { 0 };
    fi::info::getinfo(&PROVIDERS, abi::VERSION, flags, query, None)
}

/// `fi_getinfo()` for Rust consumers, restricted to interfaces within an open fabric or domain.
///
/// # Errors
///
/// Errors of [`fi::info::getinfo`].
pub fn getinfo_within(
    _here: util::context::ProcessContext,
    query: &fi::info::Query<'_>,
    within: fi::info::OpenObjects<'_>,
) -> abi::Result<abi::info::InfoList> {
    let flags = if query.source { abi::FI_SOURCE } else { 0 };
    fi::info::getinfo(&PROVIDERS, abi::VERSION, flags, query, Some(within))
}

/// `fi_fabric()` for Rust consumers: the module `M` opens the fabric that `info` names, in the initial
/// network namespace.
///
/// # Errors
///
/// -FI_EINVAL for an info of another namespace, -FI_ENODATA when no provider has the name,
/// -FI_ENOMEM.
pub fn fabric<M: ModuleMetadata>(
    here: util::context::ProcessContext,
    info: &abi::info::Info,
) -> abi::Result<Arc<fi::fabric::Fabric>> {
    fabric_in::<M>(here, info, Namespace::init())
}

/// Opens the fabric of an `info` that [`getinfo`] returned for a network namespace; otherwise as
/// [`fabric`].
///
/// The fabric holds a reference on the namespace until it is closed.
///
/// # Errors
///
/// Errors of [`fabric`].
pub fn fabric_in<M: ModuleMetadata>(
    here: util::context::ProcessContext,
    info: &abi::info::Info,
    net: &Namespace,
) -> abi::Result<Arc<fi::fabric::Fabric>> {
    open_fabric(here, info, net, &fi::introspect::Owner::module(M::NAME))
}

/// Opens a fabric for any owner, which the introspection of objects shows; otherwise as [`fabric_in`].
///
/// # Errors
///
/// Errors of [`fabric`].
pub fn open_fabric(
    _here: util::context::ProcessContext,
    info: &abi::info::Info,
    net: &Namespace,
    owner: &fi::Owner,
) -> abi::Result<Arc<fi::fabric::Fabric>> {
    if !info.is_in_net(net) {
        return Err(abi::Errno::EINVAL);
    }
    let provider = PROVIDERS
        .iter()
        .find(|provider| info.provider_name() == Some(provider.name()))
        .ok_or(abi::Errno::ENODATA)?;
    let attr = fi::provider::FabricAttr {
        name: info.fabric_name(),
        net,
    };
    fi::fabric::Fabric::open(*provider, &attr, owner)
}

impl capi::ops_tables::ProviderTypes for prov::r#loop::Loop {
    type Endpoint = prov::r#loop::data_path::Endpoint;
    type CompletionQueue = prov::r#loop::data_path::CompletionQueue;
    type SharedReceive = prov::r#loop::data_path::SharedReceive;
}

/// Reports the owners of objects that delay a device's removal.
struct Users;

impl rdma::device::RemovalReport for Users {
    fn log_owners(device: &CStr) -> bool {
        introspect::users::log_device_users(device)
    }
}

#[pin_data]
struct Kofi {
    _debugfs: introspect::debugfs::Debugfs,
    #[pin]
    _miscdev: kernel::miscdevice::MiscDeviceRegistration<dev::Client>,
    #[pin]
    _devices: rdma::device::Registration<Users>,
    _lingering_ids: prov::verbs::LingeringIds,
    /// Dropped after the devices, whose removal ends all deferred work.
    _handlers: util::context::Handlers,
    _registry: util::registry::Registry,
}

impl kernel::InPlaceModule for Kofi {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _registry: util::registry::Registry::init()?,
            _handlers: util::context::Handlers::init()?,
            _lingering_ids: prov::verbs::LingeringIds::start(),
            _devices <- rdma::device::Registration::new(),
            _miscdev <- dev::register(),
            _debugfs: introspect::debugfs::Debugfs::new(),
        })
    }
}
