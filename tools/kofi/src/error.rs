// SPDX-License-Identifier: GPL-2.0

//! Errors of the commands, with the messages that the user sees.

use crate::abi::KOFI_ABI_VERSION;
use rustix::io::Errno;
use std::{
    io,
    path::{
        Path,
        PathBuf, //
    },
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: no such device; load the module with `modprobe kofi`")]
    NotLoaded { path: PathBuf },
    #[error("cannot load kofi_perf.ko, which runs tests: {reason}; load it as root with `modprobe kofi_perf`")]
    PerfNotLoaded { reason: String },
    #[error("{path}: permission denied; run as root or with CAP_NET_ADMIN")]
    PermissionDenied { path: PathBuf },
    #[error("{path}: {errno}")]
    OpenFailed { path: PathBuf, errno: Errno },
    #[error("the file is not the kOFI device; check --device")]
    NotKofi,
    #[error(
        "the module is older than this program and does not support the request; \
         install both from the same release"
    )]
    ModuleTooOld,
    #[error(
        "the module has ABI version {abi}, this program {KOFI_ABI_VERSION}; \
         install both from the same release"
    )]
    AbiMismatch { abi: u32 },
    #[error("request to {request} failed: {errno}")]
    RequestFailed { request: &'static str, errno: Errno },
    #[error("no device offers this")]
    NoMatch,
    #[error("no RDMA device; load a driver, or add a software device: `rdma link add rxe0 type rxe netdev eth0`")]
    NoDevice,
    #[error("{option}: no `{name}`; there are: {known}")]
    UnknownName {
        option: &'static str,
        name: String,
        known: String,
    },
    #[error("{option}: at most {max_len} bytes without a NUL byte")]
    InvalidString {
        option: &'static str,
        max_len: usize,
    },
    #[error("{option}: the value does not fit into 32 bits")]
    OutOfRange { option: &'static str },
    #[error("{option}: {window} messages of {size} exceed the limit of {max} outstanding bytes")]
    WindowTooLarge {
        option: &'static str,
        window: u32,
        size: String,
        max: String,
    },
    #[error("no object {id} in this network namespace")]
    NoObject { id: u64 },
    #[error("object {id} is not an address vector")]
    NotAnAv { id: u64 },
    #[error("no RDMA device has an IP address; assign one to its network interface")]
    NoAddress,
    #[error("{count} checks failed")]
    ChecksFailed { count: usize },
    #[error("the test did not end in time")]
    TimedOut,
    #[error("a test is still running")]
    TestRunning,
    #[error(
        "the kernel does not support this test: not every type has operations, \
         and raw verbs have few of them (sum and cswap of one 8-byte element)"
    )]
    InvalidTest,
    #[error("{test}: {reason}")]
    TestFailed { test: String, reason: String },
    #[error("{count} messages or accesses had wrong content")]
    Damaged { count: u64 },
    #[error("interrupted")]
    Interrupted,
    #[error("cannot install the signal handlers: {0}")]
    SignalHandler(io::Error),
    #[error("{path}: {error}")]
    WriteFailed { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl Error {
    /// Converts the errno of opening the device at `path`.
    pub fn from_open(path: &Path, errno: Errno) -> Self {
        let path = path.to_path_buf();
        match errno {
            Errno::NOENT | Errno::NXIO | Errno::NODEV => Self::NotLoaded { path },
            Errno::ACCESS | Errno::PERM => Self::PermissionDenied { path },
            errno => Self::OpenFailed { path, errno },
        }
    }

    /// Converts the errno of a request. `request` completes the sentence "the kernel refuses ...".
    /// An unknown request, a longer struct or an unknown flag means that the header of this program
    /// is newer than the module.
    pub fn from_request(request: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::NOTTY | Errno::TOOBIG | Errno::OPNOTSUPP => Self::ModuleTooOld,
            errno => Self::RequestFailed { request, errno },
        }
    }
}
