// SPDX-License-Identifier: GPL-2.0

//! The open device file. All `unsafe` code of the program is here, except what bindgen generates.
#![allow(unsafe_code, reason = "requests take addresses")]

use crate::{
    abi::{
        Address,
        Addresses,
        Object,
        Objects,
        Offer,
        Query,
        Request,
        Stop,
        Test,
        Text,
        Version,
        Watch,
        KOFI_IOC_MAGIC, //
    },
    error::Error,
    kernel::{
        struct_size,
        Kernel, //
    },
};
use rustix::{
    io::Errno,
    ioctl::{
        ioctl,
        opcode,
        Opcode,
        Updater, //
    },
};
use std::{
    fs::File,
    path::Path, //
};

const VERSION: Opcode = number(Request::KOFI_REQUEST_VERSION);
const TEXT: Opcode = number(Request::KOFI_REQUEST_TEXT);
const INFO: Opcode = number(Request::KOFI_REQUEST_INFO);
const START: Opcode = number(Request::KOFI_REQUEST_START);
const WATCH: Opcode = number(Request::KOFI_REQUEST_WATCH);
const STOP: Opcode = number(Request::KOFI_REQUEST_STOP);
const OBJECTS: Opcode = number(Request::KOFI_REQUEST_OBJECTS);
const ADDRESSES: Opcode = number(Request::KOFI_REQUEST_ADDRESSES);

/// Returns `_IO(KOFI_IOC_MAGIC, request)`; bindgen does not evaluate the macro.
const fn number(request: Request) -> Opcode {
    assert!(KOFI_IOC_MAGIC <= 0xff && request.0 <= 0xff);
    opcode::none(KOFI_IOC_MAGIC.to_le_bytes()[0], request.0.to_le_bytes()[0])
}

pub struct Device(File);

impl Device {
    /// Opens the device at `path`. The file is bound to the network namespace of the process.
    ///
    /// # Errors
    ///
    /// Fails if the device cannot be opened, or if the module has another ABI version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            Error::from_open(path, errno)
        })?;
        let device = Self(file);
        device.version()?;
        Ok(device)
    }
}

impl Kernel for Device {
    fn ioctl_version(&self, version: &mut Version) -> Result<(), Errno> {
        // SAFETY: The request takes a pointer to this struct, which contains no pointers.
        unsafe { ioctl(&self.0, Updater::<VERSION, _>::new(version)) }
    }

    fn ioctl_text(&self, text: &mut Text) -> Result<(), Errno> {
        // SAFETY: The request takes a pointer to this struct, which contains no pointers.
        unsafe { ioctl(&self.0, Updater::<TEXT, _>::new(text)) }
    }

    fn ioctl_info(&self, query: &mut Query, buf: &mut [Offer]) -> Result<(), Errno> {
        query.count = u32::try_from(buf.len()).map_err(|_| Errno::INVAL)?;
        query.offer_size = struct_size::<Offer>();
        query.offers = buf.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: The request takes a pointer to this struct. The kernel writes at most `count`
        // offers of `offer_size` bytes to `offers`, which is the length of `buf`; `buf` is borrowed
        // exclusively during the call. Any bit pattern is a valid offer: its fields are integers.
        unsafe { ioctl(&self.0, Updater::<INFO, _>::new(query)) }
    }

    fn ioctl_start(&self, test: &mut Test) -> Result<(), Errno> {
        // SAFETY: The request takes a pointer to this struct, which contains no pointers.
        unsafe { ioctl(&self.0, Updater::<START, _>::new(test)) }
    }

    fn ioctl_watch(&self, watch: &mut Watch, buf: &mut [u64]) -> Result<(), Errno> {
        watch.bucket_count = u32::try_from(buf.len()).map_err(|_| Errno::INVAL)?;
        watch.buckets = buf.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: The request takes a pointer to this struct. The kernel writes at most
        // `bucket_count` integers to `buckets`, which is the length of `buf`; `buf` is borrowed
        // exclusively during the call.
        unsafe { ioctl(&self.0, Updater::<WATCH, _>::new(watch)) }
    }

    fn ioctl_stop(&self, stop: &mut Stop) -> Result<(), Errno> {
        // SAFETY: The request takes a pointer to this struct, which contains no pointers.
        unsafe { ioctl(&self.0, Updater::<STOP, _>::new(stop)) }
    }

    fn ioctl_objects(&self, request: &mut Objects, buf: &mut [Object]) -> Result<(), Errno> {
        request.count = u32::try_from(buf.len()).map_err(|_| Errno::INVAL)?;
        request.object_size = struct_size::<Object>();
        request.objects = buf.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: The request takes a pointer to this struct. The kernel writes at most `count`
        // objects of `object_size` bytes to `objects`, which is the length of `buf`; `buf` is
        // borrowed exclusively during the call. Any bit pattern is a valid object: its fields are
        // integers.
        unsafe { ioctl(&self.0, Updater::<OBJECTS, _>::new(request)) }
    }

    fn ioctl_addresses(&self, request: &mut Addresses, buf: &mut [Address]) -> Result<(), Errno> {
        request.count = u32::try_from(buf.len()).map_err(|_| Errno::INVAL)?;
        request.address_size = struct_size::<Address>();
        request.addresses = buf.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: The request takes a pointer to this struct. The kernel writes at most `count`
        // addresses of `address_size` bytes to `addresses`, which is the length of `buf`; `buf` is
        // borrowed exclusively during the call. Any bit pattern is a valid address: its fields are
        // integers.
        unsafe { ioctl(&self.0, Updater::<ADDRESSES, _>::new(request)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &str) -> String {
        Device::open(Path::new(path)).err().unwrap().to_string()
    }

    #[test]
    fn a_missing_device_suggests_to_load_the_module() {
        let error = refusal("/nonexistent/kofi");
        assert!(error.starts_with("/nonexistent/kofi: "), "{error}");
        assert!(error.contains("modprobe kofi"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_the_device_is_rejected() {
        assert_eq!(refusal("/dev/null"), Error::NotKofi.to_string());
    }

    #[test]
    fn a_permission_error_names_the_capability() {
        for errno in [Errno::ACCESS, Errno::PERM] {
            let error = Error::from_open(Path::new("/dev/kofi"), errno).to_string();
            assert!(error.contains("CAP_NET_ADMIN"), "{error}");
        }
    }

    #[test]
    fn requests_have_the_ioctl_numbers_of_the_header() {
        assert_eq!([VERSION, TEXT, INFO], [0xf100, 0xf101, 0xf102]);
        assert_eq!([START, WATCH, STOP], [0xf103, 0xf104, 0xf105]);
        assert_eq!([OBJECTS, ADDRESSES], [0xf106, 0xf107]);
    }
}
