// SPDX-License-Identifier: GPL-2.0

//! Open objects: lists for processes.

use super::{
    ioctl_arg::{
        put,
        structs, //
    },
    Client, //
};
use crate::abi::{
    kofi_addresses,
    kofi_objects,
    object_table, //
};
use kernel::prelude::*;

/// Size in bytes of an object in the first version of the interface.
const FIRST_OBJECT: usize = 736;

/// Handles `KOFI_IOC_OBJECTS`. May sleep.
///
/// # Errors
///
/// `EINVAL` for an invalid element size; `EFAULT`, `ENOMEM`.
pub(super) fn list(client: &Client, asked: &mut kofi_objects) -> Result {
    let (room, size) = (asked.count as usize, asked.object_size as usize);
    let mut writer = structs(asked.objects, room, size, FIRST_OBJECT)?;
    let mut count = 0;
    object_table::each(asked.after, Some(client.net.address()), |object| {
        if count < room {
            put(&mut writer, object, size)?;
        }
        count += 1;
        Ok(())
    })?;
    asked.count = u32::try_from(count).map_err(|_| EOVERFLOW)?;
    Ok(())
}

/// Size in bytes of an address in the first version of the interface.
const FIRST_ADDRESS: usize = 120;

/// Batch size: addresses that are read at a time.
const ADDRESSES: usize = 32;

/// Handles `KOFI_IOC_ADDRESSES`. May sleep.
///
/// # Errors
///
/// `ENOENT` if there is no such object, `EINVAL` for another kind of object and for an invalid
/// element size; `EFAULT`, `ENOMEM`.
pub(super) fn addresses(client: &Client, asked: &mut kofi_addresses) -> Result {
    let (room, size) = (asked.count as usize, asked.address_size as usize);
    let mut writer = structs(asked.addresses, room, size, FIRST_ADDRESS)?;
    let net = client.net.address();
    let mut batch = KVec::with_capacity(ADDRESSES, GFP_KERNEL_ACCOUNT)?;
    let mut count = 0;
    loop {
        let left = room - count;
        let goes_on = object_table::list(asked.id, net, &mut asked.at, left, &mut batch)?;
        for address in &batch {
            put(&mut writer, address, size)?;
        }
        count += batch.len();
        if count == room || !goes_on {
            break;
        }
    }
    asked.count = u32::try_from(count).map_err(|_| EOVERFLOW)?;
    Ok(())
}
