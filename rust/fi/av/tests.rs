// SPDX-License-Identifier: GPL-2.0

//! Tests of address vectors with the dummy provider.

use super::*;
use crate::fi::tests::dummy_provider::{
    domain,
    HERE, //
};

const MAP: Attr<'static> = Attr {
    kind: Some(Type::Map),
    rx_ctx_bits: 0,
    count: 0,
    is_async: false,
    name: None,
    is_read_only: false,
};

#[kunit_tests(kofi_fi_av)]
mod suite {
    use super::*;

    /// Inserts the address with port `port` and identifier `id`.
    fn insert(vector: &AddressVector, port: u16, id: u64) -> Result<fi_addr_t> {
        let insertion = Insertion {
            address: Ok((Ipv4Addr::LOCALHOST, port).into()),
            user_id: Some(id),
        };
        let mut inserted = Err(Errno::EOTHER);
        vector.insert(HERE, [insertion], |_, outcome| inserted = outcome)?;
        inserted
    }

    #[test]
    fn av_22_removed_map_handle_reports_no_user_id_of_its_successor() -> Result {
        let vector = domain()?.address_vector(HERE, &MAP)?;
        let first = insert(&vector, 1, 77)?;
        assert_eq!(vector.reported_source(first), 77);
        vector.remove(HERE, first)?;
        let second = insert(&vector, 2, 78)?;
        assert_eq!(second & (fi_addr_t::from(MAX_ADDRESSES) - 1), first);
        assert_eq!(vector.reported_source(second), 78);
        assert_eq!(vector.reported_source(first), first);
        Ok(())
    }
}
