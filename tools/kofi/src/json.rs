// SPDX-License-Identifier: GPL-2.0

//! JSON, as the commands print it.

use crate::error::Error;
use serde::Serialize;

/// Over several lines, for people to read as well.
pub fn pretty<T: Serialize>(value: &T) -> Result<String, Error> {
    printed(serde_json::to_string_pretty(value))
}

/// On a line, so that one after another can be read while more come.
pub fn line<T: Serialize>(value: &T) -> Result<String, Error> {
    printed(serde_json::to_string(value))
}

/// What cannot be put into JSON cannot be printed.
fn printed(text: serde_json::Result<String>) -> Result<String, Error> {
    text.map_err(|error| Error::Output(error.into()))
}
