// SPDX-License-Identifier: GPL-2.0

//! What can go wrong, in words for who typed the command.

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
    NotAllowed { path: PathBuf },
    #[error("{path}: {errno}")]
    NotOpened { path: PathBuf, errno: Errno },
    #[error("this is not the device of kOFI")]
    NotKofi,
    #[error("the module is older than this program, and does not know what it asks for")]
    OldModule,
    #[error(
        "the module has version {abi} of the interface, and this program {KOFI_ABI_VERSION}: \
         they have to come from the same release"
    )]
    OtherAbi { abi: u32 },
    #[error("the kernel refuses {what}: {errno}")]
    Refused { what: &'static str, errno: Errno },
    #[error("no device offers this")]
    NothingFits,
    #[error("no RDMA device: load a driver, or `rdma link add rxe0 type rxe netdev eth0`")]
    NoDevice,
    #[error("{option}: no `{word}`; there are: {known}")]
    UnknownName {
        option: &'static str,
        word: String,
        known: String,
    },
    #[error("{option}: at most {room} bytes, and none of them 0")]
    DoesNotFit { option: &'static str, room: usize },
    #[error("{option}: bits beyond those of the field")]
    OutOfRange { option: &'static str },
    #[error(
        "{option}: {window} messages of {size} are more than the {most} that may be under way"
    )]
    TooMuch {
        option: &'static str,
        window: u32,
        size: String,
        most: String,
    },
    #[error("there is no object {id} here")]
    NoObject { id: u64 },
    #[error("object {id} is no address vector")]
    NoVector { id: u64 },
    #[error("no device has an address: give its network interface one")]
    NoAddress,
    #[error("{count} of these tests failed")]
    NotWorking { count: usize },
    #[error("there was no end of it")]
    NoEnd,
    #[error("a test is still running")]
    Busy,
    #[error("there is no such test: not every type has operations, and verbs have few of them")]
    NoSuchTest,
    #[error("{test}: {words}")]
    Failed { test: String, words: String },
    #[error("{count} messages were not what was sent")]
    Damaged { count: u64 },
    #[error("interrupted")]
    Interrupted,
    #[error("signals cannot be caught: {0}")]
    Signals(io::Error),
    #[error("{path}: {error}")]
    NotWritten { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl Error {
    /// Why the device at `path` could not be opened.
    pub fn of_open(path: &Path, errno: Errno) -> Self {
        let path = path.to_path_buf();
        match errno {
            Errno::NOENT | Errno::NXIO | Errno::NODEV => Self::NotLoaded { path },
            Errno::ACCESS | Errno::PERM => Self::NotAllowed { path },
            errno => Self::NotOpened { path, errno },
        }
    }

    /// Why a request for `what` was refused. A flag that the module does not know is one that the header
    /// has got since.
    pub fn of_request(what: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::NOTTY | Errno::TOOBIG | Errno::OPNOTSUPP => Self::OldModule,
            errno => Self::Refused { what, errno },
        }
    }
}
