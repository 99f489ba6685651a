// SPDX-License-Identifier: GPL-2.0

//! What is open: objects for processes.

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

/// Bytes of an object in the first version of the interface.
const FIRST_OBJECT: usize = 736;

/// KOFI_IOC_OBJECTS. May sleep.
///
/// # Errors
///
/// `EINVAL` for a size that no object has; `EFAULT`, `ENOMEM`.
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

/// Bytes of an address in the first version of the interface.
const FIRST_ADDRESS: usize = 120;

/// Addresses that are looked at together.
const ADDRESSES: usize = 32;

/// KOFI_IOC_ADDRESSES. May sleep.
///
/// # Errors
///
/// `ENOENT` where there is no such object, `EINVAL` for another kind and for a size that no address has;
/// `EFAULT`, `ENOMEM`.
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
