// SPDX-License-Identifier: GPL-2.0

//! Tests of the entries of a completion queue, with a queue of the dummy provider.

use super::super::{
    cq::{
        Completion,
        CqEntry,
        ErrData,
        Failure, //
    },
    tests::dummy_provider::{
        domain,
        Queue,
        HERE, //
    },
};
use super::*;

/// Number of entries of a queue.
const SIZE: usize = 8;

/// Flags of the completion entry of a peer's write with remote CQ data.
const REMOTE_CQ_DATA_FLAGS: u64 = flags::FI_RMA | flags::FI_REMOTE_WRITE | flags::FI_REMOTE_CQ_DATA;

#[kunit_tests(kofi_fi_msg)]
mod suite {
    use super::*;

    /// Opens a queue of each kind in `domain`.
    fn queues(domain: &Arc<Domain>) -> Result<[Arc<Completions>; 2]> {
        Ok([
            Completions::new(HERE, domain, SIZE)?,
            Completions::of_datagrams(HERE, domain, SIZE)?,
        ])
    }

    fn put_completion(queue: &Completions, context: Context, flags: u64, len: usize) -> Result {
        let done = Completion {
            len,
            ..Completion::new(context, flags)
        };
        Queue::write(&**queue.queue.core(), CqEntry::Done(done))
    }

    fn put_failure(queue: &Completions, context: Context, flags: u64, errno: Errno) -> Result {
        let failure = Failure {
            completion: Completion::new(context, flags),
            olen: 0,
            errno,
            prov_errno: 0,
            err_data: ErrData::None,
        };
        Queue::write(&**queue.queue.core(), CqEntry::Failed(failure))
    }

    /// Posts a buffer that keeps `domain` open, and returns its context.
    fn post(domain: &Arc<Domain>, tag: u64) -> Result<Context> {
        let buffer = Buffer::registered(HERE, domain, 1, tag)?;
        let posted = Buffer::post(buffer, 1, domain, |_, _, context| Ok(context));
        Ok(posted?)
    }

    /// Adds a receive to the queue, with one peer's write that consumed no receive before it and two
    /// after it.
    fn put_writes_and_a_receive(queue: &Completions, domain: &Arc<Domain>) -> Result {
        put_completion(queue, Context::NULL, REMOTE_CQ_DATA_FLAGS, 0)?;
        put_completion(queue, post(domain, 7)?, flags::FI_RECV | flags::FI_MSG, 1)?;
        put_completion(queue, Context::NULL, REMOTE_CQ_DATA_FLAGS, 0)?;
        put_completion(queue, Context::NULL, REMOTE_CQ_DATA_FLAGS, 0)
    }

    fn is_receive(done: &CompletedOp) -> bool {
        done.buffer.tag == 7 && done.direction == Direction::Received && done.result == Ok(1)
    }

    #[test]
    fn rma_01_read_skips_remote_cq_data_that_consumed_no_receive() -> Result {
        let domain = domain()?;
        for queue in queues(&domain)? {
            put_writes_and_a_receive(&queue, &domain)?;
            assert!(queue.read().is_ok_and(|done| is_receive(&done)));
            assert_eq!(queue.read().err(), Some(Errno::EAGAIN));
        }
        Ok(())
    }

    #[test]
    fn rma_01_wait_skips_remote_cq_data_that_consumed_no_receive() -> Result {
        let domain = domain()?;
        for queue in queues(&domain)? {
            put_writes_and_a_receive(&queue, &domain)?;
            let mut budget = Budget::from_millis(10_000);
            let done = queue.wait(HERE, &mut budget);
            assert!(done.is_ok_and(|done| is_receive(&done)));
            let mut budget = Budget::from_millis(1);
            let done = queue.wait(HERE, &mut budget);
            assert_eq!(done.err(), Some(Errno::EAGAIN));
        }
        Ok(())
    }

    #[test]
    fn rma_01_remote_cq_data_that_consumed_a_receive_has_no_bytes() -> Result {
        let domain = domain()?;
        for queue in queues(&domain)? {
            put_completion(&queue, post(&domain, 7)?, REMOTE_CQ_DATA_FLAGS, 100)?;
            let done = queue.read()?;
            assert_eq!(done.result, Ok(0));
            assert!(done.buffer.tag == 7 && done.direction == Direction::Received);
        }
        Ok(())
    }

    #[test]
    fn cq_07_failure_is_read_after_remote_cq_data() -> Result {
        let domain = domain()?;
        for queue in queues(&domain)? {
            put_completion(&queue, Context::NULL, REMOTE_CQ_DATA_FLAGS, 0)?;
            put_failure(&queue, post(&domain, 9)?, flags::FI_RECV, Errno::ETRUNC)?;
            put_completion(&queue, post(&domain, 7)?, flags::FI_RECV, 1)?;
            let done = queue.read()?;
            assert!(done.buffer.tag == 9 && done.result == Err(Errno::ETRUNC));
            assert!(queue.read().is_ok_and(|done| is_receive(&done)));
        }
        Ok(())
    }

    /// Adds three times as many writes as one read skips, and then a receive.
    fn put_many_writes(queue: &Completions, domain: &Arc<Domain>) -> Result {
        for _ in 0..3 * SKIPPED {
            put_completion(queue, Context::NULL, REMOTE_CQ_DATA_FLAGS, 0)?;
        }
        put_completion(queue, post(domain, 7)?, flags::FI_RECV, 1)
    }

    fn large_queues(domain: &Arc<Domain>) -> Result<[Arc<Completions>; 2]> {
        let size = 4 * SKIPPED;
        Ok([
            Completions::new(HERE, domain, size)?,
            Completions::of_datagrams(HERE, domain, size)?,
        ])
    }

    #[test]
    fn rma_01_read_skips_a_bounded_number_of_writes() -> Result {
        let domain = domain()?;
        for queue in large_queues(&domain)? {
            put_many_writes(&queue, &domain)?;
            for _ in 0..3 {
                assert_eq!(queue.read().err(), Some(Errno::EAGAIN));
            }
            assert!(queue.read().is_ok_and(|done| is_receive(&done)));
            assert_eq!(queue.read().err(), Some(Errno::EAGAIN));
        }
        Ok(())
    }

    #[test]
    fn rma_01_wait_times_out_while_it_skips_writes() -> Result {
        let domain = domain()?;
        for queue in large_queues(&domain)? {
            put_many_writes(&queue, &domain)?;
            let done = queue.wait(HERE, &mut Budget::from_millis(0));
            assert_eq!(done.err(), Some(Errno::EAGAIN));
            let done = queue.wait(HERE, &mut Budget::from_millis(10_000));
            assert!(done.is_ok_and(|done| is_receive(&done)));
        }
        Ok(())
    }

    #[test]
    fn close_01_dropped_queue_frees_buffers_after_many_writes() -> Result {
        for at in 0..2 {
            let domain = domain()?;
            let queues = large_queues(&domain)?;
            let queue = queues.into_iter().nth(at).ok_or(Errno::EINVAL)?;
            put_many_writes(&queue, &domain)?;
            assert_eq!(domain.close(), Err(Errno::EBUSY));
            drop(queue);
            assert_eq!(domain.close(), Ok(()));
        }
        Ok(())
    }

    #[test]
    fn close_01_dropped_queue_frees_all_unread_buffers() -> Result {
        for at in 0..2 {
            let domain = domain()?;
            let queue = queues(&domain)?.into_iter().nth(at).ok_or(Errno::EINVAL)?;
            put_writes_and_a_receive(&queue, &domain)?;
            put_failure(&queue, Context::NULL, REMOTE_CQ_DATA_FLAGS, Errno::EIO)?;
            put_failure(&queue, post(&domain, 9)?, flags::FI_RECV, Errno::ETRUNC)?;
            put_completion(&queue, post(&domain, 7)?, flags::FI_RECV, 1)?;
            assert_eq!(domain.close(), Err(Errno::EBUSY));
            drop(queue);
            // The region of each buffer has kept the domain open.
            assert_eq!(domain.close(), Ok(()));
        }
        Ok(())
    }
}
