// SPDX-License-Identifier: GPL-2.0

//! Fabric errnos: Linux errnos, and libfabric's own errnos from 256 on.
//!
//! A single table gives each number its constant, its name and its text.

use core::{
    convert::Infallible,
    num::{
        NonZero,
        TryFromIntError, //
    },
};
use kernel::{
    alloc::AllocError,
    error::{
        code,
        Error, //
    },
    fmt,
    prelude::*, //
};

/// Result of a fabric call in Rust.
pub type Result<T = ()> = core::result::Result<T, Errno>;

/// A fabric errno.
///
/// An error entry has the positive number, and a call returns the negative one: see [`Errno::code`] and
/// [`Errno::to_int`].
///
/// # Invariants
///
/// The number is positive and small enough to be a kernel [`Error`] too.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Errno(NonZero<c_int>);

struct Entry {
    errno: Errno,
    name: &'static str,
    text: &'static CStr,
}

macro_rules! errnos {
    ($($errno:ident = $raw:ident, $text:literal;)*) => {
        impl Errno {
            $(
                #[doc = concat!("`", stringify!($raw), "`")]
                #[allow(clippy::unnecessary_cast)] // The constants of a C enum are unsigned.
                pub const $errno: Self = Self::from_const(super::$raw as c_int);
            )*
        }

        const TABLE: &[Entry] = &[
            $(Entry {
                errno: Errno::$errno,
                name: stringify!($raw),
                text: $text,
            },)*
        ];
    };
}

errnos! {
    EPERM = FI_EPERM, c"Operation not permitted";
    ENOENT = FI_ENOENT, c"No such entry";
    EINTR = FI_EINTR, c"Interrupted by a signal";
    EIO = FI_EIO, c"Input or output failed";
    E2BIG = FI_E2BIG, c"Argument list too long";
    EBADF = FI_EBADF, c"Bad descriptor";
    EAGAIN = FI_EAGAIN, c"Try again";
    ENOMEM = FI_ENOMEM, c"Out of memory";
    EACCES = FI_EACCES, c"Access denied";
    EFAULT = FI_EFAULT, c"Bad memory address";
    EBUSY = FI_EBUSY, c"Object in use";
    ENODEV = FI_ENODEV, c"No such device";
    EINVAL = FI_EINVAL, c"Invalid argument";
    EMFILE = FI_EMFILE, c"Too many open objects";
    ENOSPC = FI_ENOSPC, c"No space left";
    ENOSYS = FI_ENOSYS, c"Not implemented";
    ENOMSG = FI_ENOMSG, c"No message of that kind";
    ENODATA = FI_ENODATA, c"Nothing matches";
    EOVERFLOW = FI_EOVERFLOW, c"Value too large";
    EMSGSIZE = FI_EMSGSIZE, c"Message too long";
    ENOPROTOOPT = FI_ENOPROTOOPT, c"No such option";
    EOPNOTSUPP = FI_EOPNOTSUPP, c"Operation not supported";
    EADDRINUSE = FI_EADDRINUSE, c"Address in use";
    EADDRNOTAVAIL = FI_EADDRNOTAVAIL, c"Address not available";
    ENETDOWN = FI_ENETDOWN, c"Network is down";
    ENETUNREACH = FI_ENETUNREACH, c"Network is unreachable";
    ECONNABORTED = FI_ECONNABORTED, c"Connection aborted";
    ECONNRESET = FI_ECONNRESET, c"Connection reset by the peer";
    ENOBUFS = FI_ENOBUFS, c"No buffer space available";
    EISCONN = FI_EISCONN, c"Already connected";
    ENOTCONN = FI_ENOTCONN, c"Not connected";
    ESHUTDOWN = FI_ESHUTDOWN, c"Endpoint was shut down";
    ETIMEDOUT = FI_ETIMEDOUT, c"Timed out";
    ECONNREFUSED = FI_ECONNREFUSED, c"Connection refused";
    EHOSTDOWN = FI_EHOSTDOWN, c"Host is down";
    EHOSTUNREACH = FI_EHOSTUNREACH, c"No route to the host";
    EALREADY = FI_EALREADY, c"Operation already in progress";
    EINPROGRESS = FI_EINPROGRESS, c"Operation now in progress";
    EREMOTEIO = FI_EREMOTEIO, c"Input or output failed at the peer";
    ECANCELED = FI_ECANCELED, c"Operation canceled";
    EKEYREJECTED = FI_EKEYREJECTED, c"Key rejected";
    EOTHER = FI_EOTHER, c"Unspecified error";
    ETOOSMALL = FI_ETOOSMALL, c"Buffer too small";
    EOPBADSTATE = FI_EOPBADSTATE, c"Not permitted in this state";
    EAVAIL = FI_EAVAIL, c"An error entry is available";
    EBADFLAGS = FI_EBADFLAGS, c"Flags not supported";
    ENOEQ = FI_ENOEQ, c"No event queue";
    EDOMAIN = FI_EDOMAIN, c"Object of another domain";
    ENOCQ = FI_ENOCQ, c"No completion queue";
    ECRC = FI_ECRC, c"Checksum does not match";
    ETRUNC = FI_ETRUNC, c"Message truncated";
    ENOKEY = FI_ENOKEY, c"Key not available";
    ENOAV = FI_ENOAV, c"No address vector";
    EOVERRUN = FI_EOVERRUN, c"Queue overrun";
    ENORX = FI_ENORX, c"Peer had no receive buffer";
}

impl Errno {
    const MAX: c_int = kernel::bindings::MAX_ERRNO as c_int;

    /// Another name of EAGAIN.
    pub const EWOULDBLOCK: Self = Self::EAGAIN;

    /// Creates an errno constant at compile time; an invalid number fails the build.
    const fn from_const(number: c_int) -> Self {
        match Self::new(number) {
            Some(errno) => errno,
            None => panic!("not an errno"),
        }
    }

    /// Returns the errno of a positive number; `None` if it is out of range.
    pub const fn new(number: c_int) -> Option<Self> {
        match NonZero::new(number) {
            // INVARIANT: Both bounds are checked.
            Some(valid) if number > 0 && number <= Self::MAX => Some(Self(valid)),
            _ => None,
        }
    }

    /// Returns the positive number, as in error entries.
    #[inline]
    pub const fn code(self) -> c_int {
        self.0.get()
    }

    /// Returns the negative number, for calls that return `int`.
    #[inline]
    pub const fn to_int(self) -> c_int {
        -self.0.get()
    }

    /// Returns the negative number, for calls that return `ssize_t`.
    #[inline]
    pub const fn to_ssize(self) -> isize {
        self.to_int() as isize
    }

    /// Returns the errno as an error if the condition `failed` holds.
    #[inline(always)]
    pub(crate) fn when(self, failed: bool) -> Result {
        match failed {
            true => Err(self),
            false => Ok(()),
        }
    }

    fn entry(self) -> Option<&'static Entry> {
        TABLE.iter().find(|entry| entry.errno == self)
    }

    /// Returns the C name, such as `FI_EAGAIN`; `None` for an errno that is not in the table.
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(|entry| entry.name)
    }

    /// Returns the text of the errno; for an errno that is not in the table, the kernel's symbol, if there is one.
    pub fn text(self) -> &'static CStr {
        match self.entry() {
            Some(entry) => entry.text,
            None => Error::from(self).name().unwrap_or(c"Unknown error"),
        }
    }
}

/// Implements `fi_strerror()`: returns the text of the return value of a call or of the errno of an error entry.
pub fn strerror(number: c_int) -> &'static CStr {
    if number == 0 {
        return c"Success";
    }
    // Accepts both signs: libfabric programs pass the negative return value of a call, too.
    match number.checked_abs().and_then(Errno::new) {
        Some(errno) => errno.text(),
        None => c"Unknown error",
    }
}

/// Converts a result to the return value of a C call of type `int`.
#[inline]
pub fn into_int(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => errno.to_int(),
    }
}

/// Converts a result to the return value of a C call of type `ssize_t`. A count of bytes or entries in memory always
/// fits into `isize`; a larger count is reduced to `isize::MAX`.
#[inline]
pub fn into_ssize(result: Result<usize>) -> isize {
    match result {
        Ok(count) => isize::try_from(count).unwrap_or(isize::MAX),
        Err(errno) => errno.to_ssize(),
    }
}

/// Converts the `int` that a C call returned to a result.
#[inline]
pub fn from_int(ret: c_int) -> Result<c_int> {
    if ret >= 0 {
        return Ok(ret);
    }
    Err(ret
        .checked_neg()
        .and_then(Errno::new)
        .unwrap_or(Errno::EOTHER))
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            // Errnos from 512 on are internal to the kernel; these have a public equivalent.
            code::ERESTARTSYS
            | code::ERESTARTNOINTR
            | code::ERESTARTNOHAND
            | code::ERESTART_RESTARTBLOCK => Self::EINTR,
            code::ENOTSUPP => Self::EOPNOTSUPP,
            code::ETOOSMALL => Self::ETOOSMALL,
            code::EPROBE_DEFER => Self::EAGAIN,
            _ => Self::new(-error.to_errno()).unwrap_or(Self::EOTHER),
        }
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::from_errno(errno.to_int())
    }
}

impl From<AllocError> for Errno {
    fn from(_: AllocError) -> Self {
        Self::ENOMEM
    }
}

impl From<TryFromIntError> for Errno {
    fn from(_: TryFromIntError) -> Self {
        Self::EINVAL
    }
}

impl From<Infallible> for Errno {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.code()),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.text(), f)
    }
}

#[kunit_tests(kofi_abi_errno)]
mod tests {
    use super::*;

    #[test]
    fn errnos_have_distinct_numbers_and_texts() {
        for (at, entry) in TABLE.iter().enumerate() {
            assert!(!entry.text.is_empty());
            assert!(entry.name.starts_with("FI_E"));
            for other in &TABLE[at + 1..] {
                assert!(entry.errno != other.errno);
                assert!(entry.text != other.text);
            }
        }
    }

    #[test]
    fn fabric_errnos_match_libfabric() {
        assert_eq!(Errno::EOTHER.code(), 256);
        assert_eq!(Errno::ENORX.code(), 269);
        for number in 256..270 {
            assert!(Errno::new(number).is_some_and(|errno| errno.name().is_some()));
        }
        assert!(Errno::new(270).is_some_and(|errno| errno.name().is_none()));
    }

    #[test]
    fn strerror_ignores_the_sign() {
        for entry in TABLE {
            assert!(strerror(entry.errno.code()) == entry.text);
            assert!(strerror(entry.errno.to_int()) == entry.text);
        }
        assert!(strerror(0) == c"Success");
    }

    #[test]
    fn strerror_handles_unknown_numbers() {
        for number in [
            c_int::MIN,
            c_int::MIN + 1,
            -4096,
            -270,
            270,
            4096,
            c_int::MAX,
        ] {
            assert!(strerror(number) == c"Unknown error");
        }
        // EEXIST is a Linux errno without an entry in the table.
        assert!(!strerror(-17).is_empty());
    }

    #[test]
    fn out_of_range_numbers_are_not_errnos() {
        for number in [c_int::MIN, -1, 0, 4096, c_int::MAX] {
            assert!(Errno::new(number).is_none());
        }
        assert_eq!(from_int(-4096).err(), Some(Errno::EOTHER));
        assert_eq!(from_int(c_int::MIN).err(), Some(Errno::EOTHER));
        assert_eq!(from_int(-11).err(), Some(Errno::EAGAIN));
        assert_eq!(from_int(7).ok(), Some(7));
    }

    #[test]
    fn kernel_errors_round_trip() {
        for entry in TABLE {
            assert_eq!(Errno::from(Error::from(entry.errno)), entry.errno);
        }
        assert_eq!(Errno::from(EINVAL), Errno::EINVAL);
        assert_eq!(Errno::from(code::ERESTARTSYS), Errno::EINTR);
        assert_eq!(Errno::from(code::ENOTSUPP), Errno::EOPNOTSUPP);
    }

    #[test]
    fn results_convert_to_c_return_values() {
        assert_eq!(into_int(Ok(())), 0);
        assert_eq!(into_int(Err(Errno::EAVAIL)), -259);
        assert_eq!(into_ssize(Ok(3)), 3);
        assert_eq!(into_ssize(Err(Errno::EAGAIN)), -11);
    }
}
