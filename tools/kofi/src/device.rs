// SPDX-License-Identifier: GPL-2.0

//! The open device files: `/dev/kofi`, and for tests `/dev/kofi_perf`. All `unsafe` code of the
//! program is here, except what bindgen generates.
#![allow(unsafe_code, reason = "requests take addresses")]

use crate::{
    abi::{
        Address,
        Addresses,
        Object,
        Objects,
        Offer,
        PerfRequest,
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
    cell::OnceCell,
    ffi::OsString,
    fs::File,
    io,
    path::{
        Path,
        PathBuf, //
    },
    process::Command, //
};

const VERSION: Opcode = number(Request::KOFI_REQUEST_VERSION.0);
const TEXT: Opcode = number(Request::KOFI_REQUEST_TEXT.0);
const INFO: Opcode = number(Request::KOFI_REQUEST_INFO.0);
const START: Opcode = number(PerfRequest::KOFI_PERF_REQUEST_START.0);
const WATCH: Opcode = number(PerfRequest::KOFI_PERF_REQUEST_WATCH.0);
const STOP: Opcode = number(PerfRequest::KOFI_PERF_REQUEST_STOP.0);
const OBJECTS: Opcode = number(Request::KOFI_REQUEST_OBJECTS.0);
const ADDRESSES: Opcode = number(Request::KOFI_REQUEST_ADDRESSES.0);

/// Module that runs tests, and what its device's path adds to that of `/dev/kofi`.
const PERF_MODULE: &str = "kofi_perf";
const PERF_SUFFIX: &str = "_perf";

/// File with the path of the program that the kernel runs to load a module.
const MODPROBE: &str = "/proc/sys/kernel/modprobe";

/// Returns `_IO(KOFI_IOC_MAGIC, request)`; bindgen does not evaluate the macro.
const fn number(request: u32) -> Opcode {
    assert!(KOFI_IOC_MAGIC <= 0xff && request <= 0xff);
    opcode::none(KOFI_IOC_MAGIC.to_le_bytes()[0], request.to_le_bytes()[0])
}

pub struct Device {
    file: File,
    /// The device for tests, opened by the first test.
    perf: OnceCell<File>,
    perf_path: PathBuf,
}

impl Device {
    /// Opens the device at `path`. The file is bound to the network namespace of the process.
    ///
    /// # Errors
    ///
    /// Fails if the device cannot be opened, or if the module has another ABI version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| Error::from_open(path, errno(&error)))?;
        let mut perf_path = OsString::from(path);
        perf_path.push(PERF_SUFFIX);
        let device = Self {
            file,
            perf: OnceCell::new(),
            perf_path: perf_path.into(),
        };
        device.version()?;
        Ok(device)
    }

    /// Returns the open device for tests.
    ///
    /// # Errors
    ///
    /// `NOENT`, as the device answers without a test, before [`Kernel::open_perf`] has opened it.
    fn perf(&self) -> Result<&File, Errno> {
        self.perf.get().ok_or(Errno::NOENT)
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Loads the module that runs tests, with the kernel's program for this, or with `modprobe` if
/// [`MODPROBE`] cannot be read or is empty.
fn load_perf() -> Result<(), Error> {
    let program = std::fs::read_to_string(MODPROBE).unwrap_or_default();
    let program = Some(program.trim()).filter(|program| !program.is_empty());
    let output = Command::new(program.unwrap_or("modprobe"))
        .arg(PERF_MODULE)
        .output();
    let reason = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) if output.stderr.is_empty() => output.status.to_string(),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_string(),
        Err(error) => error.to_string(),
    };
    Err(Error::PerfNotLoaded { reason })
}

impl Kernel for Device {
    fn ioctl_version(&self, version: &mut Version) -> Result<(), Errno> {
        // SAFETY: The request takes a pointer to this struct, which contains no pointers.
        unsafe { ioctl(&self.file, Updater::<VERSION, _>::new(version)) }
    }

    fn ioctl_text(&self, text: &mut Text) -> Result<(), Errno> {
        // SAFETY: The request takes a pointer to this struct, which contains no pointers.
        unsafe { ioctl(&self.file, Updater::<TEXT, _>::new(text)) }
    }

    fn ioctl_info(&self, query: &mut Query, buf: &mut [Offer]) -> Result<(), Errno> {
        query.count = u32::try_from(buf.len()).map_err(|_| Errno::INVAL)?;
        query.offer_size = struct_size::<Offer>();
        query.offers = buf.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: The request takes a pointer to this struct. The kernel writes at most `count`
        // offers of `offer_size` bytes to `offers`, which is the length of `buf`; `buf` is borrowed
        // exclusively during the call. Any bit pattern is a valid offer: its fields are integers.
        unsafe { ioctl(&self.file, Updater::<INFO, _>::new(query)) }
    }

    fn open_perf(&self) -> Result<(), Error> {
        if self.perf.get().is_some() {
            return Ok(());
        }
        let file = match File::open(&self.perf_path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                load_perf()?;
                File::open(&self.perf_path)
            }
            result => result,
        };
        let file = file.map_err(|error| Error::from_open(&self.perf_path, errno(&error)))?;
        self.perf.get_or_init(|| file);
        Ok(())
    }

    fn ioctl_start(&self, test: &mut Test) -> Result<(), Errno> {
        // SAFETY: The request takes a pointer to this struct, which contains no pointers.
        unsafe { ioctl(self.perf()?, Updater::<START, _>::new(test)) }
    }

    fn ioctl_watch(&self, watch: &mut Watch, buf: &mut [u64]) -> Result<(), Errno> {
        watch.bucket_count = u32::try_from(buf.len()).map_err(|_| Errno::INVAL)?;
        watch.buckets = buf.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: The request takes a pointer to this struct. The kernel writes at most
        // `bucket_count` integers to `buckets`, which is the length of `buf`; `buf` is borrowed
        // exclusively during the call.
        unsafe { ioctl(self.perf()?, Updater::<WATCH, _>::new(watch)) }
    }

    fn ioctl_stop(&self, stop: &mut Stop) -> Result<(), Errno> {
        // SAFETY: The request takes a pointer to this struct, which contains no pointers.
        unsafe { ioctl(self.perf()?, Updater::<STOP, _>::new(stop)) }
    }

    fn ioctl_objects(&self, request: &mut Objects, buf: &mut [Object]) -> Result<(), Errno> {
        request.count = u32::try_from(buf.len()).map_err(|_| Errno::INVAL)?;
        request.object_size = struct_size::<Object>();
        request.objects = buf.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: The request takes a pointer to this struct. The kernel writes at most `count`
        // objects of `object_size` bytes to `objects`, which is the length of `buf`; `buf` is
        // borrowed exclusively during the call. Any bit pattern is a valid object: its fields are
        // integers.
        unsafe { ioctl(&self.file, Updater::<OBJECTS, _>::new(request)) }
    }

    fn ioctl_addresses(&self, request: &mut Addresses, buf: &mut [Address]) -> Result<(), Errno> {
        request.count = u32::try_from(buf.len()).map_err(|_| Errno::INVAL)?;
        request.address_size = struct_size::<Address>();
        request.addresses = buf.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: The request takes a pointer to this struct. The kernel writes at most `count`
        // addresses of `address_size` bytes to `addresses`, which is the length of `buf`; `buf` is
        // borrowed exclusively during the call. Any bit pattern is a valid address: its fields are
        // integers.
        unsafe { ioctl(&self.file, Updater::<ADDRESSES, _>::new(request)) }
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
