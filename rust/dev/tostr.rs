// SPDX-License-Identifier: GPL-2.0

//! Text of numbers: `fi_tostr()` and `fi_strerror()` for processes.

use super::ioctl_arg::set_string;
use crate::{
    abi::{
        enum_names::{
            self,
            EnumNames, //
        },
        errno::strerror,
        kofi_text,
        tostr::{
            self,
            Text, //
        },
    },
    compat::EOPNOTSUPP,
    fi::prelude::*, //
};
use kernel::{
    error::Result,
    fmt::Write, //
};

/// Handles `KOFI_IOC_TEXT`.
///
/// # Errors
///
/// `EINVAL` for an unknown type, `EOPNOTSUPP` for a nonzero reserved field.
pub(super) fn handle_text(number: &mut kofi_text) -> Result {
    if number.reserved != 0 {
        return Err(EOPNOTSUPP);
    }
    number.text = pin_init::zeroed();
    let datatype = match number.type_ {
        abi::KOFI_TEXT_CAPS => abi::FI_TYPE_CAPS,
        abi::KOFI_TEXT_MODE => abi::FI_TYPE_MODE,
        abi::KOFI_TEXT_OP_FLAGS => abi::FI_TYPE_OP_FLAGS,
        abi::KOFI_TEXT_ORDER => abi::FI_TYPE_MSG_ORDER,
        abi::KOFI_TEXT_MR_MODE => abi::FI_TYPE_MR_MODE,
        abi::KOFI_TEXT_EP_TYPE => abi::FI_TYPE_EP_TYPE,
        abi::KOFI_TEXT_PROTOCOL => abi::FI_TYPE_PROTOCOL,
        abi::KOFI_TEXT_ADDR_FORMAT => abi::FI_TYPE_ADDR_FORMAT,
        abi::KOFI_TEXT_THREADING => abi::FI_TYPE_THREADING,
        abi::KOFI_TEXT_PROGRESS => abi::FI_TYPE_PROGRESS,
        abi::KOFI_TEXT_AV_TYPE => abi::FI_TYPE_AV_TYPE,
        abi::KOFI_TEXT_ATOMIC_OP => abi::FI_TYPE_ATOMIC_OP,
        abi::KOFI_TEXT_DATATYPE => abi::FI_TYPE_ATOMIC_TYPE,
        // `fi_tostr()` has no types for these four.
        abi::KOFI_TEXT_RESOURCE_MGMT => return write_name(number, &enum_names::RESOURCE_MGMT),
        abi::KOFI_TEXT_OBJECT => return write_name(number, &enum_names::OBJECT),
        abi::KOFI_TEXT_STATE => return write_name(number, &enum_names::STATE),
        abi::KOFI_TEXT_VALUE => return write_name(number, &enum_names::VALUE),
        abi::KOFI_TEXT_ERROR => {
            let errno = c_int::try_from(number.value).map_err(|_| EINVAL)?;
            set_string(&mut number.text, Some(strerror(errno).to_bytes()));
            return Ok(());
        }
        _ => return Err(EINVAL),
    };
    tostr::write_number(datatype, number.value, &mut Text::new(&mut number.text));
    Ok(())
}

/// Writes the name of a value, or a text for an unnamed value.
fn write_name(number: &mut kofi_text, names: &'static EnumNames) -> Result {
    let value = u32::try_from(number.value).unwrap_or(u32::MAX);
    let mut text = Text::new(&mut number.text);
    Ok(text.write_fmt(fmt!("{}", names.display(value)))?)
}
