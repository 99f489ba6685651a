// SPDX-License-Identifier: GPL-2.0

//! The misc device `/dev/kofi`: requests of processes.
//!
//! `include/uapi/linux/kofi.h` defines the interface. Data and pointers of a process are checked
//! before use: see [`ioctl_arg`].

mod info;
pub mod ioctl_arg;
mod objects;
mod tostr;

use crate::{
    abi::{
        kofi_version,
        VERSION, //
    },
    compat::register_misc_device,
    fi::prelude::*,
    util::context, //
};
use ioctl_arg::handle_arg;
use kernel::{
    error::Result,
    fs::File,
    ioctl::_IO,
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    sync::aref::ARef,
    uaccess::UserPtr, //
};

/// An open file of the device.
pub(crate) struct Client {
    /// The network namespace of the task that opened the file.
    net: ARef<Namespace>,
}

/// Registers the device, until the result is dropped.
pub(crate) fn register() -> impl PinInit<MiscDeviceRegistration<Client>, Error> {
    register_misc_device!(MiscDeviceOptions { name: c"kofi" })
}

const fn ioctl_number(request: abi::kofi_request) -> u32 {
    _IO(abi::KOFI_IOC_MAGIC, request)
}

const IOC_VERSION: u32 = ioctl_number(abi::KOFI_REQUEST_VERSION);
const IOC_TEXT: u32 = ioctl_number(abi::KOFI_REQUEST_TEXT);
const IOC_INFO: u32 = ioctl_number(abi::KOFI_REQUEST_INFO);
const IOC_OBJECTS: u32 = ioctl_number(abi::KOFI_REQUEST_OBJECTS);
const IOC_ADDRESSES: u32 = ioctl_number(abi::KOFI_REQUEST_ADDRESSES);

#[vtable]
impl MiscDevice for Client {
    type Ptr = KBox<Self>;

    fn open(_file: &File, _device: &MiscDeviceRegistration<Self>) -> Result<KBox<Self>> {
        if !context::may_administer() {
            return Err(EPERM);
        }
        let net = Namespace::current().ok_or(EINVAL)?;
        Ok(KBox::new(Self { net }, GFP_KERNEL_ACCOUNT)?)
    }

    fn ioctl(client: &Self, _file: &File, request: u32, argument: usize) -> Result<isize> {
        let argument = UserPtr::from_addr(argument);
        match request {
            IOC_VERSION => handle_arg(argument, get_version),
            IOC_TEXT => handle_arg(argument, tostr::handle_text),
            IOC_INFO => handle_arg(argument, |query| info::handle_info(client, query)),
            IOC_OBJECTS => handle_arg(argument, |query| objects::handle_objects(client, query)),
            IOC_ADDRESSES => handle_arg(argument, |query| objects::handle_addresses(client, query)),
            _ => Err(ENOTTY),
        }
    }
}

fn get_version(version: &mut kofi_version) -> Result {
    version.abi = abi::KOFI_ABI_VERSION;
    version.api = VERSION;
    Ok(())
}

/// Converts the error of a fabric call to an errno for a process; codes from 256 on are no errnos
/// of Linux.
fn to_process_errno(errno: Errno) -> Error {
    match errno {
        Errno::EBADFLAGS => EINVAL,
        errno if errno.code() >= Errno::EOTHER.code() => EIO,
        errno => errno.into(),
    }
}
