// SPDX-License-Identifier: GPL-2.0

//! Sizes and times on the command line, and sizes in the output.

use crate::abi::KOFI_TEST_MAX_LENGTH;
use std::time::Duration;

const SUFFIXES: [(char, u32); 2] = [('K', 10), ('M', 20)];

/// Parses the bytes of a message, such as `64`, `4K` or `1M`.
///
/// # Errors
///
/// Returns the message that clap prints after the name of the option.
pub fn parse(text: &str) -> Result<u64, String> {
    let (digits, shift) = SUFFIXES
        .iter()
        .find_map(|&(suffix, shift)| {
            let digits = text.strip_suffix([suffix, suffix.to_ascii_lowercase()])?;
            Some((digits, shift))
        })
        .unwrap_or((text, 0));
    let max = u64::from(KOFI_TEST_MAX_LENGTH);
    // Rust's integer parser also accepts a sign.
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err("a size is a number of bytes, or one with K or M".to_string());
    }
    let bytes = digits.parse::<u64>().ok();
    bytes
        .and_then(|bytes| bytes.checked_mul(1 << shift))
        .filter(|bytes| (1..=max).contains(bytes))
        .ok_or_else(|| format!("a message has 1 to {} bytes", format(max)))
}

/// Formats bytes with the largest suffix that leaves a whole number.
pub fn format(bytes: u64) -> String {
    let suffix = SUFFIXES.iter().rev().find(|(_, shift)| {
        let unit = 1 << shift;
        bytes >= unit && bytes % unit == 0
    });
    match suffix {
        Some((suffix, shift)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Parses a time in seconds, which may have a fraction, and returns milliseconds.
///
/// # Errors
///
/// Returns the message that clap prints after the name of the option.
pub fn parse_msec(seconds: &str) -> Result<u32, String> {
    let seconds = seconds.parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .and_then(|time| u32::try_from(time.as_millis()).ok())
        .filter(|&msec| msec > 0)
        .ok_or_else(|| format!("a time is 0.001 to {} seconds", u32::MAX / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = KOFI_TEST_MAX_LENGTH as u64;

    #[test]
    fn suffixes_are_powers_of_1024_in_either_case() {
        for (text, bytes) in [
            ("1", 1),
            ("64", 64),
            ("4K", 4096),
            ("4k", 4096),
            ("1M", 1 << 20),
            ("1m", 1 << 20),
            ("1048576", 1 << 20),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_size_out_of_range_is_reported_with_the_range() {
        let expected = format!("a message has 1 to {} bytes", format(MAX));
        let beyond = (MAX + 1).to_string();
        // The last two values do not fit into 64 bits.
        for text in [
            "0",
            "0K",
            &beyond,
            "999M",
            "99999999999999999999",
            "18014398509481985K",
        ] {
            assert_eq!(parse(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn the_largest_size_is_accepted() {
        assert_eq!(parse(&format(MAX)), Ok(MAX));
        assert_eq!(parse(&MAX.to_string()), Ok(MAX));
    }

    #[test]
    fn a_size_that_is_not_a_number_is_rejected() {
        for text in ["", "K", "-1", "+1", "4KB", "4G", "1.5K", " 4", "4KK"] {
            assert!(parse(text).unwrap_err().starts_with("a size is"), "{text}");
        }
    }

    #[test]
    fn sizes_are_formatted_as_they_are_parsed() {
        for (bytes, text) in [
            (0, "0"),
            (1, "1"),
            (1023, "1023"),
            (1024, "1K"),
            (1025, "1025"),
            (1 << 20, "1M"),
            (1536 << 10, "1536K"),
            (1 << 30, "1024M"),
        ] {
            assert_eq!(format(bytes), text);
        }
    }

    #[test]
    fn times_are_seconds_with_a_resolution_of_1_ms() {
        for (text, msec) in [
            ("1", 1000),
            ("0.25", 250),
            ("0.001", 1),
            ("4294967", 4_294_967_000),
        ] {
            assert_eq!(parse_msec(text), Ok(msec), "{text}");
        }
        for text in ["0", "0.0009", "-1", "4294968", "inf", "NaN", "", "1s"] {
            assert!(parse_msec(text).is_err(), "{text}");
        }
    }
}
