// SPDX-License-Identifier: GPL-2.0

//! The kernel's interface as bindgen reads it from `include/uapi/linux/kofi.h`, and the strings in it.

use crate::error::Error;
use std::ffi::c_char;

#[allow(
    clippy::all,
    clippy::pedantic,
    dead_code,
    non_camel_case_types,
    unsafe_code,
    reason = "bindgen's code and the header's names"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

pub use generated::{
    kofi_address as Address,
    kofi_addresses as Addresses,
    kofi_info as Query,
    kofi_object as Object,
    kofi_object_value as ObjectValue,
    kofi_objects as Objects,
    kofi_offer as Offer,
    kofi_request as Request,
    kofi_stop as Stop,
    kofi_test as Test,
    kofi_test_kind as TestKind,
    kofi_test_refusal as TestRefusal,
    kofi_test_state as TestState,
    kofi_text as Text,
    kofi_text_type as TextType,
    kofi_version as Version,
    kofi_watch as Watch,
    KOFI_ABI_VERSION,
    KOFI_ADDRESS_USER_ID,
    KOFI_INFO_SOURCE,
    KOFI_IOC_MAGIC,
    KOFI_TEST_BUCKETS,
    KOFI_TEST_MAX_BYTES,
    KOFI_TEST_MAX_LENGTH,
    KOFI_TEST_MAX_WINDOW,
    KOFI_TEST_VERBS,
    KOFI_TEST_VERIFY, //
};

#[cfg(test)]
pub use generated::{
    kofi_object_kind as ObjectKind,
    kofi_object_state as ObjectState,
    KOFI_TEST_MAX_CLIENTS,
    KOFI_TEST_MAX_SERVED, //
};

/// A query that all there is answers: its asker agrees to whatever is required. Mode 0 agrees to nothing.
pub fn match_all_query() -> Query {
    Query {
        mode: u64::MAX,
        ..Query::default()
    }
}

/// The string in a field.
pub fn get_string(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field
        .iter()
        .flat_map(|unit| unit.to_ne_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The address in a field, without its format, which shows: `10.0.0.1:7471` of
/// `fi_sockaddr_in://10.0.0.1:7471`. None where there is none.
pub fn get_address(field: &[c_char]) -> Option<String> {
    let text = get_string(field);
    let bare = text.split_once("://").map_or(&*text, |(_, bare)| bare);
    Some(bare.to_string()).filter(|bare| !bare.is_empty())
}

/// Writes the value of a command line option into a field.
///
/// # Errors
///
/// [`Error::DoesNotFit`] where it leaves no byte for its end, or has one within.
pub fn set_string(field: &mut [c_char], value: &str, option: &'static str) -> Result<(), Error> {
    let max_len = field.len().saturating_sub(1);
    if value.len() > max_len || value.contains('\0') {
        return Err(Error::InvalidString { option, max_len });
    }
    field.fill(0);
    for (unit, byte) in field.iter_mut().zip(value.bytes()) {
        *unit = c_char::from_ne_bytes([byte]);
    }
    Ok(())
}

/// A version of the fabric interfaces, or of a provider.
pub fn format_version(number: u32) -> String {
    format!("{}.{}", number >> 16, number & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_as_they_went_in() {
        let mut field = [1; 8];
        for value in ["", "rxe0", "k\u{f6}fi", "seven77"] {
            set_string(&mut field, value, "--domain").unwrap();
            assert_eq!(get_string(&field), value);
        }
    }

    #[test]
    fn a_string_without_an_end_ends_with_its_field() {
        assert_eq!(get_string(&[0x61; 3]), "aaa");
    }

    #[test]
    fn addresses_are_shown_without_their_format() {
        let shown = |text| {
            let mut field = [0; 40];
            set_string(&mut field, text, "").unwrap();
            get_address(&field)
        };
        let ipv4 = shown("fi_sockaddr_in://10.0.0.1:7471");
        assert_eq!(ipv4.unwrap(), "10.0.0.1:7471");
        let ipv6 = shown("fi_sockaddr_in6://[2001:db8::1]:80");
        assert_eq!(ipv6.unwrap(), "[2001:db8::1]:80");
        assert_eq!(shown("10.0.0.1").unwrap(), "10.0.0.1");
        assert_eq!(shown(""), None);
    }

    #[test]
    fn a_string_that_does_not_fit_is_refused_by_the_name_of_its_option() {
        for value in ["eight888", "a\0b"] {
            let error = set_string(&mut [0; 8], value, "--domain").unwrap_err();
            assert!(matches!(
                error,
                Error::InvalidString {
                    option: "--domain",
                    max_len: 7
                }
            ));
        }
    }

    #[test]
    fn the_major_version_is_in_the_upper_half() {
        assert_eq!(format_version(0x0001_0011), "1.17");
    }
}
