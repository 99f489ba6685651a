// SPDX-License-Identifier: GPL-2.0

//! kOFI's traffic generator: `/dev/kofi_perf`, which `include/uapi/linux/kofi_perf.h` describes.
//!
//! A file runs at most one test at a time, in a thread of its own. `Client::test` guards the test; the thread is
//! stopped, and waited for, with the mutex held, when the file is closed for the last time at the latest.

use bindings::{
    kofi_stop,
    kofi_test,
    kofi_watch, //
};
use config::{
    Role,
    Target, //
};
use kernel::{
    fs::File,
    ioctl::_IO,
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        Mutex, //
    },
    uaccess::UserPtr, //
};
use kofi::{
    abi::Errno,
    compat::register_misc_device,
    dev::ioctl_arg::handle_arg,
    util::{
        context::{
            in_process,
            may_administer, //
        },
        namespace::Namespace,
        thread::Thread, //
    },
};
use stats::Stats;

mod bindings;
mod client;
mod config;
mod prelude;
mod protocol;
mod raw_verbs;
mod rma_client;
mod server;
mod server_clients;
mod stats;
mod transport;

module! {
    type: Perf,
    name: "kofi_perf",
    authors: ["kOFI contributors"],
    description: "Traffic generator of kOFI",
    license: "GPL",
}

/// The loaded module.
#[pin_data]
struct Perf {
    #[pin]
    _device: MiscDeviceRegistration<Client>,
}

impl kernel::InPlaceModule for Perf {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _device <- register_misc_device!(MiscDeviceOptions { name: c"kofi_perf" }),
        })
    }
}

const fn number(request: bindings::kofi_perf_request) -> u32 {
    _IO(kofi::abi::KOFI_IOC_MAGIC, request)
}

const IOC_START: u32 = number(bindings::KOFI_PERF_REQUEST_START);
const IOC_WATCH: u32 = number(bindings::KOFI_PERF_REQUEST_WATCH);
const IOC_STOP: u32 = number(bindings::KOFI_PERF_REQUEST_STOP);

/// An open file of the device.
#[pin_data]
struct Client {
    /// The network namespace of the task that opened the file.
    net: ARef<Namespace>,
    /// The test that was started last.
    #[pin]
    test: Mutex<Option<Test>>,
}

#[vtable]
impl MiscDevice for Client {
    type Ptr = Pin<KBox<Self>>;

    fn open(_file: &File, _device: &MiscDeviceRegistration<Self>) -> Result<Pin<KBox<Self>>> {
        if !may_administer() {
            return Err(EPERM);
        }
        let net = Namespace::current().ok_or(EINVAL)?;
        let client = pin_init!(Self {
            net,
            test <- new_mutex!(None, "kofi_perf::Client"),
        });
        KBox::pin_init(client, GFP_KERNEL_ACCOUNT)
    }

    fn ioctl(client: Pin<&Self>, _file: &File, request: u32, argument: usize) -> Result<isize> {
        let argument = UserPtr::from_addr(argument);
        match request {
            IOC_START => handle_arg(argument, |test| client.start(test)),
            IOC_WATCH => handle_arg(argument, |watch| client.watch(watch)),
            IOC_STOP => handle_arg(argument, |_: &mut kofi_stop| client.stop()),
            _ => Err(ENOTTY),
        }
    }
}

/// A test that has been started.
struct Test {
    stats: Arc<Stats>,
    /// Taken to end the test: the drop stops the thread and waits for it.
    thread: Option<Thread>,
}

impl Client {
    /// Begins a test: KOFI_PERF_IOC_START. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` while a test runs, `EINVAL` for unknown or excessive values, `EOPNOTSUPP` if a reserved field is
    /// not 0, `ENOMEM`.
    fn start(&self, test: &mut kofi_test) -> Result {
        if test.reserved != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let target = Target::new(test)?;
        let role = Role::new(test)?;
        let mut running = self.test.lock();
        if running.as_ref().is_some_and(|test| !test.stats.is_over()) {
            return Err(EBUSY);
        }
        let stats = match role {
            Role::Client(_) => Stats::of_client()?,
            Role::Server { .. } => Stats::of_server()?,
        };
        let (own, net) = (stats.clone(), self.net.clone());
        let thread = Thread::spawn(in_process()?, c"kofi_test", move |here| {
            own.end(match role {
                Role::Client(config) => client::run(here, &target, &net, &config, &own),
                Role::Server { raw_verbs } => server::run(here, &target, &net, raw_verbs, &own),
            });
        })?;
        *running = Some(Test {
            stats,
            thread: Some(thread),
        });
        Ok(())
    }

    /// Reports the progress of the test, at its end or after a time: KOFI_PERF_IOC_WATCH. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` without a test, `EINTR`, `EFAULT`, `EOPNOTSUPP` if a reserved field is not 0.
    fn watch(&self, watch: &mut kofi_watch) -> Result {
        if watch.reserved != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let stats = {
            let running = self.test.lock();
            running.as_ref().ok_or(ENOENT)?.stats.clone()
        };
        stats.wait_end(watch.msec)?;
        stats.report(watch)
    }

    /// Ends the test, and waits until its thread has ended: KOFI_PERF_IOC_STOP. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT` without a test.
    fn stop(&self) -> Result {
        let mut running = self.test.lock();
        let test = (*running).as_mut().ok_or(ENOENT)?;
        drop(test.thread.take());
        // A thread that is stopped before it has begun does not run its function.
        if !test.stats.is_over() {
            test.stats.end(Ok(()));
        }
        Ok(())
    }
}
