// SPDX-License-Identifier: GPL-2.0

//! Tests which pointers of attributes an info keeps.

use super::*;

#[kunit_tests(kofi_abi_info)]
mod suite {
    use super::*;

    type TestResult = kernel::error::Result;

    /// Returns attributes with pointers to no memory: following one would fault.
    fn invalid_fabric_attr() -> fi_fabric_attr {
        fi_fabric_attr {
            net: ptr::without_provenance_mut(0x4141_4141_4140),
            fabric: ptr::without_provenance_mut(0x4242_4242_4240),
            api_version: 7,
            ..zeroed()
        }
    }

    #[test]
    fn info_09_copied_attributes_have_no_pointers() -> TestResult {
        let mut info = Info::new()?;
        info.set_fabric(&invalid_fabric_attr())?;
        info.set_domain(&fi_domain_attr {
            domain: ptr::without_provenance_mut(0x4242_4242_4240),
            name: ptr::without_provenance_mut(0x4242_4242_4240),
            auth_key: ptr::without_provenance_mut(0x4242_4242_4240),
            auth_key_size: 8,
            ..zeroed()
        })?;
        info.set_ep(&fi_ep_attr {
            auth_key: ptr::without_provenance_mut(0x4242_4242_4240),
            auth_key_size: 8,
            ..zeroed()
        })?;
        let fabric = info.fabric().ok_or(EINVAL)?;
        assert_eq!(fabric.api_version, 7);
        assert!(fabric.net.is_null() && fabric.fabric.is_null());
        let domain = info.domain().ok_or(EINVAL)?;
        assert!(domain.domain.is_null() && domain.name.is_null() && domain.auth_key.is_null());
        assert_eq!(domain.auth_key_size, 0);
        let ep = info.ep().ok_or(EINVAL)?;
        assert!(ep.auth_key.is_null());
        assert_eq!(ep.auth_key_size, 0);
        // A pointer that had been copied would be followed here.
        info.duplicate()?;
        Ok(())
    }

    #[test]
    fn info_09_duplicate_keeps_the_namespace() -> TestResult {
        let mut info = Info::new()?;
        assert!(info.is_in_net(Namespace::init()));
        info.fabric_mut()?.net = invalid_fabric_attr().net;
        assert!(!info.duplicate()?.is_in_net(Namespace::init()));
        info.set_net(Namespace::init());
        assert!(info.duplicate()?.is_in_net(Namespace::init()));
        Ok(())
    }
}
