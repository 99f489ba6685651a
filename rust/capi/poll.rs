// SPDX-License-Identifier: GPL-2.0

//! Poll sets for C callers.

use super::{
    cntr::CounterObject,
    cq,
    domain::DomainObject,
    object::uninit_slice,
    prelude::*, //
};
use crate::fi::{
    cntr::Counter,
    cq::CompletionQueue,
    poll::PollSet, //
};

/// A poll set, as C callers hold it.
#[repr(C)]
struct PollObject {
    fid: fid_poll,
    set: Arc<PollSet>,
}

fi_ops! {
    impl Object for PollObject: FI_CLASS_POLL {}
    close(pollset) {
        pollset.set.close()
    }
}

fi_ops! {
    static OPS: fi_ops_poll {
        poll: fn fi_poll(pollset: &PollObject, context, count) -> Result<c_int> {
            // SAFETY: `context` is NULL or has space for `count` contexts.
            let space = unsafe { uninit_slice(context, count)? };
            let max = space.len();
            let mut slots = space.iter_mut();
            let found = pollset.set.poll(max, |token| {
                let fid: *const fid = ptr::with_exposed_provenance(token);
                if let Some(slot) = slots.next() {
                    // SAFETY: A member cannot be closed, so its object is valid.
                    slot.write(unsafe { (*fid).context });
                }
            });
            // `found` is at most `count`, which is an int.
            Ok(found as c_int)
        }

        poll_add: fn fi_poll_add(pollset: &PollObject, event, flags) -> Result {
            // SAFETY: `event` is NULL or valid.
            let member = unsafe { parse_member(event, flags)? };
            let token = event.expose_provenance();
            let ctx = in_process()?;
            match member {
                Member::Queue(queue) => pollset.set.add_queue(ctx, queue, token),
                Member::Counter(counter) => pollset.set.add_counter(ctx, counter, token),
            }
        }

        poll_del: fn fi_poll_del(pollset: &PollObject, event, flags) -> Result {
            // SAFETY: `event` is NULL or valid.
            let member = unsafe { parse_member(event, flags)? };
            let ctx = in_process()?;
            match member {
                Member::Queue(queue) => pollset.set.remove_queue(ctx, queue),
                Member::Counter(counter) => pollset.set.remove_counter(ctx, counter),
            }
            Ok(())
        }
    }
}

fi_ops! {
    /// `fi_poll_open()`.
    pub(super) const DOMAIN_OPS: fi_ops_domain {
        poll_open: fn fi_poll_open(domain: InProcess<&DomainObject>, attr, out) -> Result {
            // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
            let (attr, slot) = unsafe { open_args(attr, out)? };
            ensure(attr.flags == 0, Errno::EINVAL)?;
            slot.open(PollObject {
                fid: fid_poll {
                    fid: new_fid::<PollObject>(ptr::null_mut()),
                    ops: ptr::from_ref(&OPS).cast_mut(),
                },
                set: domain.domain.poll_set(domain.ctx)?,
            })
        }
    }
}

/// An object that can be a member of a poll set.
enum Member<'a> {
    Queue(&'a Arc<CompletionQueue>),
    Counter(&'a Arc<Counter>),
}

/// Reads the arguments of `fi_poll_add()` and `fi_poll_del()`.
///
/// # Errors
///
/// -FI_EINVAL for NULL, an object that cannot be a member, and flags.
///
/// # Safety
///
/// `event` is NULL or valid for `'a`.
unsafe fn parse_member<'a>(event: *mut fid, flags: u64) -> Result<Member<'a>> {
    ensure(flags == 0, Errno::EINVAL)?;
    // SAFETY: By the caller's contract, `event` is NULL or valid for `'a`.
    unsafe {
        from_fid(event)
            .map(|cq: &cq::QueueObject| Member::Queue(&cq.queue))
            .or_else(|_| from_fid(event).map(|it: &CounterObject| Member::Counter(&it.counter)))
    }
}
