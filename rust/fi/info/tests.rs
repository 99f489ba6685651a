// SPDX-License-Identifier: GPL-2.0

//! Tests of the matching of hints with offers, with the domains of a provider that has two.

use super::fit::{
    is_at_least,
    is_same, //
};
use super::*;
use crate::fi::{
    provider::{
        self,
        FabricAttr, //
    },
    tests::dummy_provider::{
        self,
        HERE, //
    },
};
use kernel::sync::Arc;

#[kunit_tests(kofi_fi_info)]
mod suite {
    use super::*;

    /// A provider that offers two domains, under the name of the dummy provider.
    struct TwoDomains;

    impl Provider for TwoDomains {
        fn name(&self) -> &'static CStr {
            c"nothing"
        }

        fn getinfo(&self, _query: &Query<'_>, found: &mut InfoList) -> Result {
            for name in [c"first", c"second"] {
                let mut info = Info::new()?;
                info.set_provider_name(self.name())?;
                info.set_domain_name(name)?;
                found.push(info, GFP_KERNEL)?;
            }
            Ok(())
        }

        fn fabric(&self, _attr: &FabricAttr<'_>) -> Result<Arc<dyn provider::Fabric>> {
            Err(Errno::ENODATA)
        }
    }

    /// Returns the number of infos for `hints` and `open_objects`, if the first info is of domain `first`.
    fn count_infos(
        hints: Option<&Info>,
        open_objects: Option<OpenObjects<'_>>,
        first: &CStr,
    ) -> Result<usize> {
        let query = Query {
            node: None,
            service: None,
            source: false,
            hints,
            net: None,
        };
        let found = getinfo(&[&TwoDomains], VERSION, 0, &query, open_objects)?;
        match found.first().and_then(|info| info.domain_name()) {
            Some(name) if name == first => Ok(found.len()),
            _ => Err(Errno::EOTHER),
        }
    }

    #[test]
    fn info_16_open_object_restricts_the_infos() -> kernel::error::Result {
        let fabric = dummy_provider::fabric()?;
        let mut info = Info::new()?;
        info.set_domain_name(c"second")?;
        let domain = fabric.domain(HERE, &info)?;
        assert_eq!(count_infos(None, None, c"first"), Ok(2));
        assert_eq!(
            count_infos(None, Some(OpenObjects::fabric(&fabric)), c"first"),
            Ok(2)
        );
        let open_objects = Some(OpenObjects::domain(&domain));
        assert_eq!(count_infos(None, open_objects, c"second"), Ok(1));
        assert_eq!(count_infos(Some(&info), open_objects, c"second"), Ok(1));
        let mut hints = Info::new()?;
        hints.set_domain_name(c"first")?;
        assert_eq!(
            count_infos(Some(&hints), open_objects, c"first"),
            Err(Errno::ENODATA)
        );
        let mut hints = Info::new()?;
        hints.set_provider_name(c"another")?;
        assert_eq!(
            count_infos(Some(&hints), open_objects, c"second"),
            Err(Errno::ENODATA)
        );
        Ok(())
    }

    const OFFERED: u64 = FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM;

    #[test]
    fn info_08_primary_caps_are_granted_on_request_only() {
        assert_eq!(choose_caps(OFFERED | FI_RMA, FI_MSG), Some(OFFERED));
        assert_eq!(choose_caps(OFFERED, 0), Some(OFFERED));
        assert_eq!(choose_caps(OFFERED, FI_RMA), None);
    }

    #[test]
    fn info_08_source_err_is_granted_on_request_only() {
        let offered = OFFERED | FI_SOURCE | FI_SOURCE_ERR;
        assert_eq!(choose_caps(offered, FI_MSG), Some(OFFERED));
        assert_eq!(choose_caps(offered, 0), Some(OFFERED | FI_SOURCE));
        assert_eq!(choose_caps(offered, FI_SOURCE_ERR), Some(offered));
        assert_eq!(choose_caps(OFFERED, FI_SOURCE_ERR), None);
    }

    #[test]
    fn info_08_source_is_granted_on_request_only() {
        let offered = OFFERED | FI_SOURCE;
        assert_eq!(choose_caps(offered, FI_MSG), Some(OFFERED));
        assert_eq!(choose_caps(offered, FI_MSG | FI_SOURCE), Some(offered));
        assert_eq!(choose_caps(offered, FI_SOURCE), Some(offered));
    }

    #[test]
    fn info_08_absent_modifiers_select_all() {
        assert_eq!(choose_caps(OFFERED, FI_MSG), Some(OFFERED));
        let restricted = choose_caps(OFFERED, FI_MSG | FI_SEND);
        assert_eq!(restricted, Some(FI_MSG | FI_SEND | FI_LOCAL_COMM));
    }

    #[test]
    fn info_08_contexts_have_the_caps_that_their_hints_name() {
        let offered = FI_MSG | FI_RMA | FI_SEND | FI_WRITE | FI_LOCAL_COMM;
        assert_eq!(context_caps(offered, 0), offered);
        let message = context_caps(offered, FI_MSG | FI_SEND);
        assert_eq!(message, FI_MSG | FI_SEND | FI_LOCAL_COMM);
        assert_eq!(context_caps(offered, FI_MSG), offered & !FI_RMA);
        assert_eq!(context_caps(offered, FI_TAGGED), offered);
    }

    #[test]
    fn info_06_zero_hint_is_a_wildcard() {
        assert!(is_at_least(0, 0) && is_at_least(7, 0) && !is_at_least(7, 8));
        assert!(is_same(3, 0) && is_same(3, 3) && !is_same(3, 4));
        assert_eq!(
            choose_format(abi::FI_SOCKADDR_IN, abi::FI_FORMAT_UNSPEC),
            Some(abi::FI_SOCKADDR_IN)
        );
        assert_eq!(
            choose_format(abi::FI_SOCKADDR_IN, abi::FI_SOCKADDR_IN6),
            None
        );
    }
}
