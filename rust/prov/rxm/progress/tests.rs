// SPDX-License-Identifier: GPL-2.0

//! Tests of batches of completions.

#[kernel::prelude::kunit_tests(kofi_rdm_progress)]
mod cases {
    use super::super::{
        super::sw_cq::SwCq,
        *, //
    };
    use crate::fi::{
        cq::{
            Attr,
            Completion,
            CqEntry,
            ErrData,
            Failure,
            Format, //
        },
        memory::EntrySlots, //
    };

    #[test]
    fn rdm_03_batch_before_a_failure_is_not_the_last() -> kernel::error::Result {
        let attr = Attr {
            size: 4,
            format: Format::Data,
            waitable: false,
            vector: 0,
        };
        let queue = SwCq::new_connected(&attr).map_err(|_| ENOMEM)?;
        let completion = Completion::new(Context::NULL, 0);
        let failure = Failure {
            completion,
            olen: 0,
            errno: Errno::ECANCELED,
            prov_errno: 0,
            err_data: ErrData::None,
        };
        for outcome in [
            CqEntry::Done(completion),
            CqEntry::Failed(failure),
            CqEntry::Done(completion),
        ] {
            assert!(queue.reserve());
            queue.push(outcome);
        }
        let mut slots = EntrySlots::<SourcedEntry, BATCH>::new();
        assert!(read_batch(&*queue, slots.as_mut_slots()) == Ok((1, false)));
        assert!(read_batch(&*queue, slots.as_mut_slots()) == Err(Errno::EAVAIL));
        assert!(provider::CompletionQueue::read_error(&*queue).is_ok());
        assert!(read_batch(&*queue, slots.as_mut_slots()) == Ok((1, true)));
        assert!(read_batch(&*queue, slots.as_mut_slots()) == Err(Errno::EAGAIN));
        Ok(())
    }
}
