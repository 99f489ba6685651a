// SPDX-License-Identifier: GPL-2.0

//! Arguments of ioctls: copies structs, arrays and strings from and to a process. The process may
//! have been built with an older or newer version of the structs.

use crate::{
    abi::uapi::{
        Argument,
        Plain, //
    },
    compat::EOPNOTSUPP, //
};
use kernel::{
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice,
        UserSliceWriter, //
    },
};

/// Maximum size of a struct in bytes, in later versions too.
const MAX_ARG_SIZE: usize = 1 << 12;

/// Reads the struct at `at`, whose first field is its size, calls `answer` on it, and writes back as
/// many bytes as the process has. May sleep.
///
/// # Errors
///
/// `EINVAL` for a size below the first version's, `E2BIG` for nonzero bytes beyond the known struct
/// or a size above `MAX_ARG_SIZE`, `EOPNOTSUPP` for unknown flags, `EFAULT`, `ENOMEM`; errors of `answer`.
pub fn handle_arg<T: Argument>(
    at: UserPtr,
    answer: impl FnOnce(&mut T) -> Result,
) -> Result<isize> {
    let size = UserSlice::new(at, size_of::<u32>())
        .reader()
        .read::<u32>()? as usize;
    if size < T::V1_SIZE {
        return Err(EINVAL);
    }
    if size > MAX_ARG_SIZE {
        return Err(E2BIG);
    }
    let known = size.min(size_of::<T>());
    let (mut reader, mut writer) = UserSlice::new(at, size).reader_writer();
    let mut value: KBox<T> = KBox::init(pin_init::init_zeroed(), GFP_KERNEL_ACCOUNT)?;
    reader.read_slice(&mut value.as_bytes_mut()[..known])?;
    let mut rest = [0; 64];
    while !reader.is_empty() {
        let part = reader.len().min(rest.len());
        reader.read_slice(&mut rest[..part])?;
        if rest[..part].iter().any(|&byte| byte != 0) {
            return Err(E2BIG);
        }
    }
    if value.flags() & !T::FLAGS != 0 {
        return Err(EOPNOTSUPP);
    }
    answer(&mut value)?;
    writer.write_slice(&value.as_bytes()[..known])?;
    Ok(0)
}

/// Returns a writer for up to `count` structs of `size` bytes at the user address `at`. `v1_size` is
/// the size in the first version.
///
/// # Errors
///
/// `EINVAL` for a size that no version has, `EFAULT`.
pub(super) fn struct_writer(
    at: u64,
    count: usize,
    size: usize,
    v1_size: usize,
) -> Result<UserSliceWriter> {
    if count > 0 && !(v1_size..=MAX_ARG_SIZE).contains(&size) {
        return Err(EINVAL);
    }
    let bytes = size.checked_mul(count).ok_or(EINVAL)?;
    writer(at, bytes)
}

/// Returns a writer for `bytes` bytes at the user address `at`, which has 64 bits in the structs of
/// 32-bit processes too.
///
/// # Errors
///
/// `EFAULT` for an address that this kernel cannot represent.
fn writer(at: u64, bytes: usize) -> Result<UserSliceWriter> {
    let at = usize::try_from(at).map_err(|_| EFAULT)?;
    Ok(UserSlice::new(UserPtr::from_addr(at), bytes).writer())
}

/// Writes `size` bytes: a struct that is truncated or padded with zeroes.
///
/// # Errors
///
/// `EFAULT`.
pub(super) fn write_struct<T: Plain>(
    writer: &mut UserSliceWriter,
    value: &T,
    size: usize,
) -> Result {
    const ZEROES: [u8; 64] = [0; 64];
    let known = size.min(size_of::<T>());
    writer.write_slice(&value.as_bytes()[..known])?;
    let mut left = size - known;
    while left > 0 {
        let part = left.min(ZEROES.len());
        writer.write_slice(&ZEROES[..part])?;
        left -= part;
    }
    Ok(())
}

/// Writes numbers to the array of `u64` at the user address `at`.
///
/// # Errors
///
/// `EFAULT`.
pub fn write_array(at: u64, numbers: impl Iterator<Item = u64> + Clone) -> Result {
    let bytes = numbers.clone().count() * size_of::<u64>();
    let mut writer = writer(at, bytes)?;
    for number in numbers {
        writer.write(&number)?;
    }
    Ok(())
}

/// Returns the string in a field of a struct, or `None` if the string is empty.
///
/// # Errors
///
/// `EINVAL` for a field without a NUL.
pub fn string(field: &[u8]) -> Result<Option<&CStr>> {
    let text = CStr::from_bytes_until_nul(field).map_err(|_| EINVAL)?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Writes a string to a field of a struct: truncated to leave a NUL at the end, and filled up with
/// NULs. `None` is the empty string.
pub(super) fn set_string(field: &mut [u8], text: Option<&[u8]>) {
    let text = text.unwrap_or(b"");
    let Some(max_len) = field.len().checked_sub(1) else {
        return;
    };
    let len = text.len().min(max_len);
    field[..len].copy_from_slice(&text[..len]);
    field[len..].fill(0);
}

#[kunit_tests(kofi_dev_argument)]
mod tests {
    use super::*;

    #[test]
    fn string_without_a_nul_in_its_field_is_rejected() -> kernel::error::Result {
        assert_eq!(string(b"node\0rest")?, Some(c"node"));
        assert_eq!(string(b"\0rest")?, None);
        assert!(string(b"node").is_err());
        assert!(string(b"").is_err());
        Ok(())
    }

    #[test]
    fn struct_writer_accepts_sizes_of_known_versions_only() {
        for size in [744, 745, MAX_ARG_SIZE] {
            assert!(struct_writer(0, 16, size, 744).is_ok());
        }
        for size in [0, 1, 743, MAX_ARG_SIZE + 1, usize::MAX] {
            assert!(struct_writer(0, 16, size, 744).is_err_and(|error| error == EINVAL));
            // A request for the count alone need not give a valid element size.
            assert!(struct_writer(0, 0, size, 744).is_ok());
        }
    }

    #[test]
    fn set_string_truncates_and_clears_the_rest() {
        let mut field = [0xff; 6];
        set_string(&mut field, Some(b"rxe0"));
        assert_eq!(field, *b"rxe0\0\0");
        set_string(&mut field, Some(b"rxe0000"));
        assert_eq!(field, *b"rxe00\0");
        set_string(&mut field, None);
        assert_eq!(field, [0; 6]);
        set_string(&mut [], Some(b"rxe0"));
    }
}
