// SPDX-License-Identifier: GPL-2.0

//! Generates the types of the UAPI from its headers.

use bindgen::EnumVariation;
use std::{
    env,
    error::Error,
    path::Path, //
};

/// This header includes the others.
const HEADER: &str = "../../include/uapi/linux/kofi_perf.h";
const INCLUDE: &str = "../../include/uapi";

fn main() -> Result<(), Box<dyn Error>> {
    let package = env::var("CARGO_MANIFEST_DIR")?;
    let path = |name| -> Result<String, Box<dyn Error>> {
        let path = Path::new(&package).join(name).into_os_string();
        let path = path.into_string();
        Ok(path.map_err(|_| "the path of the source tree is not UTF-8")?)
    };
    bindgen::builder()
        .header(path(HEADER)?)
        .clang_arg(format!("-I{}", path(INCLUDE)?))
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
