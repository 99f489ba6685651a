// SPDX-License-Identifier: GPL-2.0

//! JSON output of the commands.

use crate::error::Error;
use serde::Serialize;

/// Formats a value over several indented lines.
pub fn pretty<T: Serialize>(value: &T) -> Result<String, Error> {
    printed(serde_json::to_string_pretty(value))
}

/// Formats a value on a single line, for streams of one object per line.
pub fn line<T: Serialize>(value: &T) -> Result<String, Error> {
    printed(serde_json::to_string(value))
}

/// Reports a serialization error as an output error.
fn printed(text: serde_json::Result<String>) -> Result<String, Error> {
    text.map_err(|error| Error::Output(error.into()))
}
