// SPDX-License-Identifier: GPL-2.0

//! Generates the types of the UAPI from its header.

use bindgen::EnumVariation;
use std::{
    env,
    error::Error,
    path::Path, //
};

const HEADER: &str = "../../include/uapi/linux/kofi.h";

fn main() -> Result<(), Box<dyn Error>> {
    let header = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join(HEADER);
    let header = header
        .to_str()
        .ok_or("the path of the source tree is not UTF-8")?;
    bindgen::builder()
        .header(header)
        .allowlist_item("kofi_.*|KOFI_.*")
        .default_enum_style(EnumVariation::NewType {
            is_bitfield: false,
            is_global: false,
        })
        .derive_default(true)
        .derive_partialeq(true)
        .layout_tests(false)
        // Makes cargo rerun this script when the header changes.
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate()?
        .write_to_file(Path::new(&env::var("OUT_DIR")?).join("abi.rs"))?;
    Ok(())
}
