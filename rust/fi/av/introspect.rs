// SPDX-License-Identifier: GPL-2.0

//! Introspection of an address vector: the number of addresses, and a listing.

use super::{
    table::Table,
    Type, //
};
use crate::{
    abi::{
        kofi_address,
        KOFI_ADDRESS_USER_ID, //
    },
    fi::{
        introspect::{
            write_address,
            Introspect, //
        },
        prelude::*, //
    },
};

/// Number of table slots that one call of `list()` examines.
const SLOTS_PER_CALL: u64 = 256;

pub(super) struct AvInfo {
    kind: Type,
    table: Arc<Table>,
}

impl AvInfo {
    /// Creates the source for a vector of type `kind`. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_ENOMEM.
    pub(super) fn new(kind: Type, table: &Arc<Table>) -> Result<Arc<Self>> {
        let table = table.clone();
        Ok(Arc::new(Self { kind, table }, GFP_KERNEL)?)
    }
}

impl Introspect for AvInfo {
    fn fill_info(&self, out: &mut ObjectInfo<'_>) {
        self.table.count().fill_info(out);
    }

    fn list(&self, at: &mut u64, most: usize, batch: &mut KVec<kofi_address>) -> Option<bool> {
        let most = most.min(batch.capacity());
        let end = at.saturating_add(SLOTS_PER_CALL);
        while *at < end {
            // No slot beyond the table's memory has ever been used.
            let place = u32::try_from(*at).ok();
            let Some((index, uses)) = place.and_then(|at| Some((at, self.table.use_count(at)?)))
            else {
                return Some(false);
            };
            if let Some((address, spot)) = self.table.get(index) {
                if batch.len() == most {
                    return Some(true);
                }
                let id = self.table.user_id(index, Some(spot.generation));
                let mut out = kofi_address {
                    fi_addr: self.kind.to_addr(spot),
                    user_id: id.unwrap_or(0),
                    flags: id.map_or(0, |_| KOFI_ADDRESS_USER_ID),
                    // The address may have been inserted after `uses` was read.
                    uses: uses.max(1),
                    ..pin_init::zeroed()
                };
                write_address(&mut out.addr, &address);
                let _ = batch.push_within_capacity(out);
            }
            *at += 1;
        }
        Some(true)
    }
}

#[kunit_tests(kofi_fi_av_introspect)]
mod tests {
    use super::*;
    use core::net::{
        Ipv4Addr,
        SocketAddr,
        SocketAddrV4, //
    };

    type TestResult = kernel::error::Result;

    fn peer(port: u16) -> SocketAddr {
        SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), port).into()
    }

    /// Returns handle and use count of all addresses, listed at most `limit` at a time.
    fn list_all(info: &AvInfo, limit: usize) -> kernel::error::Result<KVec<(u64, u32)>> {
        let mut batch = KVec::with_capacity(4, GFP_KERNEL)?;
        let (mut at, mut all) = (0, KVec::new());
        loop {
            batch.clear();
            let has_more = info.list(&mut at, limit, &mut batch).ok_or(EINVAL)?;
            for entry in &batch {
                assert!(entry.addr.starts_with(b"fi_sockaddr_in://10.0.0.1:"));
                all.push((entry.fi_addr, entry.uses), GFP_KERNEL)?;
            }
            if !has_more {
                return Ok(all);
            }
        }
    }

    #[test]
    fn addresses_are_listed_in_batches() -> TestResult {
        let table = Arc::pin_init(Table::new(u32::MAX), GFP_KERNEL)?;
        let info = AvInfo::new(Type::Table, &table).map_err(|_| ENOMEM)?;
        assert!(list_all(&info, 4)?.is_empty());
        let mut writer = table.write();
        for port in 1..=600 {
            assert!(writer.insert(&peer(port), None).is_ok());
        }
        assert!(writer.insert(&peer(3), None).is_ok());
        for index in 10..590 {
            let slot = writer.slot_at(index, None).map_err(|_| EINVAL)?;
            assert!(writer.remove(slot).is_ok());
        }
        drop(writer);
        for limit in [1, 3, 4, 100] {
            let all = list_all(&info, limit)?;
            assert_eq!(all.len(), 20);
            assert_eq!(all.get(2), Some(&(2, 2)));
            assert_eq!(all.get(10), Some(&(590, 1)));
        }
        Ok(())
    }
}
