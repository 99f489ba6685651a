// SPDX-License-Identifier: GPL-2.0

//! `/dev/kofi`: what processes ask of the module.
//!
//! `include/uapi/linux/kofi.h` says what there is. Nothing that comes from a process is followed or
//! believed before it has been looked at: see [`argument`].

mod argument;
mod info;
mod text;

use crate::abi::{
    self,
    context::{
        self,
        OwnNet, //
    },
    kofi_version,
    Errno,
    VERSION, //
};
use argument::exchange;
use kernel::{
    fs::File,
    ioctl::_IO,
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    prelude::*,
    uaccess::UserPtr, //
};

/// A file that a process has open.
pub(crate) struct Client {
    /// That of the task which opened it.
    net: OwnNet,
}

/// The device, as long as this lives.
pub(crate) fn register() -> impl PinInit<MiscDeviceRegistration<Client>, Error> {
    MiscDeviceRegistration::register(MiscDeviceOptions { name: c"kofi" })
}

const fn number(request: abi::kofi_request) -> u32 {
    _IO(abi::KOFI_IOC_MAGIC, request)
}

const IOC_VERSION: u32 = number(abi::KOFI_REQUEST_VERSION);
const IOC_TEXT: u32 = number(abi::KOFI_REQUEST_TEXT);
const IOC_INFO: u32 = number(abi::KOFI_REQUEST_INFO);

#[vtable]
impl MiscDevice for Client {
    type Ptr = KBox<Self>;

    fn open(_file: &File, _device: &MiscDeviceRegistration<Self>) -> Result<KBox<Self>> {
        if !context::may_administer() {
            return Err(EPERM);
        }
        let net = OwnNet::of_caller().ok_or(EINVAL)?;
        Ok(KBox::new(Self { net }, GFP_KERNEL)?)
    }

    fn ioctl(client: &Self, _file: &File, request: u32, argument: usize) -> Result<isize> {
        let argument = UserPtr::from_addr(argument);
        match request {
            IOC_VERSION => exchange(argument, version),
            IOC_TEXT => exchange(argument, text::describe),
            IOC_INFO => exchange(argument, |query| info::list(client, query)),
            _ => Err(ENOTTY),
        }
    }
}

fn version(version: &mut kofi_version) -> Result {
    version.abi = abi::KOFI_ABI_VERSION;
    version.api = VERSION;
    Ok(())
}

/// What a process is told of a fabric call that failed: errnos from 256 on mean nothing to it.
fn refusal(errno: Errno) -> Error {
    match errno {
        Errno::EBADFLAGS => EINVAL,
        errno if errno.code() >= Errno::EOTHER.code() => EIO,
        errno => errno.into(),
    }
}
