// SPDX-License-Identifier: GPL-2.0

//! Open objects: lists for processes.

use super::{
    ioctl_arg::{
        struct_writer,
        write_struct, //
    },
    Client, //
};
use crate::{
    abi::{
        kofi_addresses,
        kofi_objects, //
    },
    introspect::object_table, //
};
use kernel::prelude::*;

/// Size in bytes of an object in the first version of the interface.
const OBJECT_V1_SIZE: usize = 736;

/// Handles `KOFI_IOC_OBJECTS`. May sleep.
///
/// # Errors
///
/// `EINVAL` for an invalid element size; `EFAULT`, `ENOMEM`.
pub(super) fn handle_objects(client: &Client, query: &mut kofi_objects) -> Result {
    let (space, size) = (query.count as usize, query.object_size as usize);
    let mut writer = struct_writer(query.objects, space, size, OBJECT_V1_SIZE)?;
    let mut count = 0;
    object_table::for_each(query.after, Some(client.net.address()), |object| {
        if count < space {
            write_struct(&mut writer, object, size)?;
        }
        count += 1;
        Ok(())
    })?;
    query.count = u32::try_from(count).map_err(|_| EOVERFLOW)?;
    Ok(())
}

/// Size in bytes of an address in the first version of the interface.
const ADDRESS_V1_SIZE: usize = 120;

/// Batch size: addresses that are read at a time.
const ADDRESS_BATCH: usize = 32;

/// Handles `KOFI_IOC_ADDRESSES`. May sleep.
///
/// # Errors
///
/// `ENOENT` if there is no such object, `EINVAL` for another kind of object and for an invalid
/// element size; `EFAULT`, `ENOMEM`.
pub(super) fn handle_addresses(client: &Client, query: &mut kofi_addresses) -> Result {
    let (space, size) = (query.count as usize, query.address_size as usize);
    let mut writer = struct_writer(query.addresses, space, size, ADDRESS_V1_SIZE)?;
    let net = client.net.address();
    let mut batch = KVec::with_capacity(ADDRESS_BATCH, GFP_KERNEL_ACCOUNT)?;
    let mut count = 0;
    loop {
        let left = space - count;
        let goes_on = object_table::list_addresses(query.id, net, &mut query.at, left, &mut batch)?;
        for address in &batch {
            write_struct(&mut writer, address, size)?;
        }
        count += batch.len();
        if count == space || !goes_on {
            break;
        }
    }
    query.count = u32::try_from(count).map_err(|_| EOVERFLOW)?;
    Ok(())
}
