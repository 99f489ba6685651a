// SPDX-License-Identifier: GPL-2.0

//! Limit on the outstanding messages of a bandwidth test.

use crate::{
    abi::{
        KOFI_TEST_MAX_BYTES,
        KOFI_TEST_MAX_WINDOW, //
    },
    error::Error,
    size,
};

#[derive(clap::Args)]
pub struct Window {
    /// Maximum number of outstanding messages
    #[arg(
        short,
        long,
        default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(KOFI_TEST_MAX_WINDOW))
    )]
    window: u32,
}

impl Window {
    /// Returns the window for messages of `size` bytes, which [`size::parse`] has checked.
    ///
    /// # Errors
    ///
    /// [`Error::WindowTooLarge`] if the window exceeds the outstanding bytes that the kernel
    /// allows.
    pub fn for_size(&self, size: u64) -> Result<u32, Error> {
        let (window, max) = (self.window, u64::from(KOFI_TEST_MAX_BYTES));
        // The product cannot overflow: both factors have been checked against their limits.
        if size * u64::from(window) > max {
            return Err(Error::WindowTooLarge {
                option: "--window",
                window,
                size: size::format(size),
                max: size::format(max),
            });
        }
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        window: Window,
    }

    fn window(line: &[&str]) -> Result<Window, clap::Error> {
        let line = ["bw"].iter().chain(line);
        Ok(TestCli::try_parse_from(line)?.window)
    }

    #[test]
    fn a_window_out_of_range_is_reported_with_the_range() {
        let too_large = (KOFI_TEST_MAX_WINDOW + 1).to_string();
        for number in ["0", &too_large] {
            let error = window(&["-w", number]).err().unwrap().to_string();
            let limits = format!("1..={KOFI_TEST_MAX_WINDOW}");
            assert!(error.contains(&limits), "{error}");
        }
    }

    #[test]
    fn too_many_outstanding_bytes_are_reported_with_the_limit() {
        let error = window(&["-w", "65"])
            .unwrap()
            .for_size(1 << 20)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "--window: 65 messages of 1M exceed the limit of 64M outstanding bytes"
        );
    }

    #[test]
    fn the_largest_window_is_accepted() {
        assert_eq!(
            window(&["-w", "64"]).unwrap().for_size(1 << 20).unwrap(),
            64
        );
        assert_eq!(
            window(&["-w", "1024"]).unwrap().for_size(1 << 16).unwrap(),
            1024
        );
        assert_eq!(window(&[]).unwrap().for_size(1).unwrap(), 16);
    }
}
