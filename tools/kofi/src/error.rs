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
    #[error("{path}: there is no such device: load the module with `modprobe kofi`")]
    NotLoaded { path: PathBuf },
    #[error("{path}: opening it takes CAP_NET_ADMIN: run this as root")]
    PermissionDenied { path: PathBuf },
    #[error("{path}: {errno}")]
    OpenFailed { path: PathBuf, errno: Errno },
    #[error("this is not the device of kOFI")]
    NotKofi,
    #[error("the module is older than this program, and does not know what it asks for")]
    ModuleTooOld,
    #[error(
        "the module has version {abi} of the interface, and this program {KOFI_ABI_VERSION}: \
         they have to come from the same release"
    )]
    AbiMismatch { abi: u32 },
    #[error("the kernel refuses {request}: {errno}")]
    RequestFailed { request: &'static str, errno: Errno },
    #[error("no device offers this")]
    NoMatch,
    #[error("no RDMA device: load a driver, or `rdma link add rxe0 type rxe netdev eth0`")]
    NoDevice,
    #[error("{option}: no `{name}`; there are: {known}")]
    UnknownName {
        option: &'static str,
        name: String,
        known: String,
    },
    #[error("{option}: at most {max_len} bytes, and none of them 0")]
    InvalidString {
        option: &'static str,
        max_len: usize,
    },
    #[error("{option}: bits beyond those of the field")]
    OutOfRange { option: &'static str },
    #[error("{option}: {window} messages of {size} are more than the {max} that may be under way")]
    WindowTooLarge {
        option: &'static str,
        window: u32,
        size: String,
        max: String,
    },
    #[error("there is no object {id} here")]
    NoObject { id: u64 },
    #[error("object {id} is no address vector")]
    NotAnAv { id: u64 },
    #[error("no device has an address: give its network interface one")]
    NoAddress,
    #[error("{count} of these tests failed")]
    ChecksFailed { count: usize },
    #[error("there was no end of it")]
    TimedOut,
    #[error("a test is still running")]
    TestRunning,
    #[error("there is no such test: not every type has operations, and verbs have few of them")]
    InvalidTest,
    #[error("{test}: {reason}")]
    TestFailed { test: String, reason: String },
    #[error("{count} messages were not what was sent")]
    Damaged { count: u64 },
    #[error("interrupted")]
    Interrupted,
    #[error("signals cannot be caught: {0}")]
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
