// SPDX-License-Identifier: GPL-2.0

//! Tests of the descriptors of message buffers, with domains of the dummy provider.

use super::*;
use crate::fi::{
    domain::Domain,
    tests::dummy_provider::{
        domain,
        HERE, //
    },
};
use kernel::page::PAGE_SIZE;

#[kunit_tests(kofi_fi_memory)]
mod suite {
    use super::*;

    /// Returns the descriptor with which an operation in `domain` would post the buffer; the operation is
    /// refused.
    fn posted_descriptor(
        buffer: KBox<Buffer>,
        domain: &Arc<Domain>,
    ) -> Result<(*mut c_void, KBox<Buffer>)> {
        let mut descriptor = Descriptor::NONE;
        let len = buffer.len();
        let given = Buffer::post(buffer, len, domain, |_, given, _| -> Result {
            descriptor = given;
            Err(Errno::EAGAIN)
        });
        let refused = given.err().ok_or(Errno::EOTHER)?;
        Ok((descriptor.as_ptr(), refused.buffer))
    }

    #[test]
    fn registered_buffer_has_a_descriptor_in_its_own_domain_only() -> Result {
        let (own, other) = (domain()?, domain()?);
        let buffer = Buffer::registered(HERE, &own, PAGE_SIZE, 7)?;
        let (in_own, buffer) = posted_descriptor(buffer, &own)?;
        let (in_other, buffer) = posted_descriptor(buffer, &other)?;
        assert_eq!(in_own, Descriptor::UNUSED.as_ptr());
        assert_eq!(in_other, Descriptor::NONE.as_ptr());
        assert_eq!((buffer.len(), buffer.tag), (PAGE_SIZE, 7));
        Ok(())
    }

    #[test]
    fn unregistered_or_empty_buffer_has_no_descriptor() -> Result {
        let domain = domain()?;
        for buffer in [
            Buffer::new(HERE, PAGE_SIZE, 0)?,
            Buffer::registered(HERE, &domain, 0, 0)?,
        ] {
            let (descriptor, _) = posted_descriptor(buffer, &domain)?;
            assert_eq!(descriptor, Descriptor::NONE.as_ptr());
        }
        Ok(())
    }

    #[test]
    fn registered_buffer_keeps_its_domain_open_until_it_is_dropped() -> Result {
        let domain = domain()?;
        let buffer = Buffer::registered(HERE, &domain, 1, 0)?;
        assert_eq!(domain.close(), Err(Errno::EBUSY));
        drop(buffer);
        assert_eq!(domain.close(), Ok(()));
        Ok(())
    }
}
