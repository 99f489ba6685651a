// SPDX-License-Identifier: GPL-2.0

//! The misc device `/dev/kofi`: requests of processes.
//!
//! `include/uapi/linux/kofi.h` defines the interface. Data and pointers of a process are checked
//! before use: see [`ioctl_arg`].

mod debugfs;
mod info;
pub mod ioctl_arg;
mod objects;
mod tostr;

use crate::{
    abi::{
        self,
        context,
        kofi_version,
        namespace::Namespace,
        Errno,
        VERSION, //
    },
    compat::register_misc_device, //
};
use ioctl_arg::exchange;
use kernel::{
    fs::File,
    ioctl::_IO,
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    prelude::*,
    sync::aref::ARef,
    uaccess::UserPtr, //
};

pub(crate) use debugfs::Debugfs;

/// An open file of the device.
pub(crate) struct Client {
    /// The network namespace of the task that opened the file.
    net: ARef<Namespace>,
}

/// Registers the device, until the result is dropped.
pub(crate) fn register() -> impl PinInit<MiscDeviceRegistration<Client>, Error> {
    register_misc_device!(MiscDeviceOptions { name: c"kofi" })
}

const fn number(request: abi::kofi_request) -> u32 {
    _IO(abi::KOFI_IOC_MAGIC, request)
}

const IOC_VERSION: u32 = number(abi::KOFI_REQUEST_VERSION);
const IOC_TEXT: u32 = number(abi::KOFI_REQUEST_TEXT);
const IOC_INFO: u32 = number(abi::KOFI_REQUEST_INFO);
const IOC_OBJECTS: u32 = number(abi::KOFI_REQUEST_OBJECTS);
const IOC_ADDRESSES: u32 = number(abi::KOFI_REQUEST_ADDRESSES);

#[vtable]
impl MiscDevice for Client {
    type Ptr = KBox<Self>;

    fn open(_file: &File, _device: &MiscDeviceRegistration<Self>) -> Result<KBox<Self>> {
        if !context::may_administer() {
            return Err(EPERM);
        }
        let net = Namespace::of_caller().ok_or(EINVAL)?;
        Ok(KBox::new(Self { net }, GFP_KERNEL_ACCOUNT)?)
    }

    fn ioctl(client: &Self, _file: &File, request: u32, argument: usize) -> Result<isize> {
        let argument = UserPtr::from_addr(argument);
        match request {
            IOC_VERSION => exchange(argument, version),
            IOC_TEXT => exchange(argument, tostr::describe),
            IOC_INFO => exchange(argument, |query| info::list(client, query)),
            IOC_OBJECTS => exchange(argument, |asked| objects::list(client, asked)),
            IOC_ADDRESSES => exchange(argument, |asked| objects::addresses(client, asked)),
            _ => Err(ENOTTY),
        }
    }
}

fn version(version: &mut kofi_version) -> Result {
    version.abi = abi::KOFI_ABI_VERSION;
    version.api = VERSION;
    Ok(())
}

/// Converts the error of a fabric call to an errno for a process; codes from 256 on are no errnos
/// of Linux.
fn refusal(errno: Errno) -> Error {
    match errno {
        Errno::EBADFLAGS => EINVAL,
        errno if errno.code() >= Errno::EOTHER.code() => EIO,
        errno => errno.into(),
    }
}
