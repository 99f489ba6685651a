// SPDX-License-Identifier: GPL-2.0

//! Poll sets for C callers.

use super::{
    cntr::CounterObject,
    cq,
    domain::DomainObject,
    object::{
        self,
        new_fid,
        open_args, //
    },
    ops::{
        fi_ops,
        InProcess, //
    },
};
use crate::{
    abi::{
        fi_ops_poll,
        fi_poll_attr,
        fid_poll, //
    },
    fi::{
        cntr::Counter,
        cq::CompletionQueue,
        poll::PollSet,
        prelude::*, //
    },
};

/// A poll set, as C callers hold it.
#[repr(C)]
struct PollObject {
    fid: fid_poll,
    set: Arc<PollSet>,
}

fi_ops! {
    impl Object for PollObject: FI_CLASS_POLL {
        close: fn fi_close(pollset) {
            pollset.set.close()
        }
    }
}

fi_ops! {
    static OPS: fi_ops_poll {
        poll: fn fi_poll(
            pollset: *mut fid_poll as &PollObject,
            context: *mut *mut c_void,
            count: c_int,
        ) -> Result<c_int> {
            // SAFETY: `context` is NULL or has room for `count` contexts.
            let room = unsafe { object::uninit_slice(context, count)? };
            let max = room.len();
            let mut slots = room.iter_mut();
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

        poll_add: fn fi_poll_add(
            pollset: *mut fid_poll as &PollObject,
            event: *mut fid,
            flags: u64,
        ) -> Result {
            // SAFETY: `event` is NULL or valid.
            let member = unsafe { parse_member(event, flags)? };
            let token = event.expose_provenance();
            let ctx = in_process()?;
            match member {
                Member::Queue(queue) => pollset.set.add_queue(ctx, queue, token),
                Member::Counter(counter) => pollset.set.add_counter(ctx, counter, token),
            }
        }

        poll_del: fn fi_poll_del(
            pollset: *mut fid_poll as &PollObject,
            event: *mut fid,
            flags: u64,
        ) -> Result {
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
    pub(super) fn fi_poll_open(
        domain: *mut fid_domain as InProcess<&DomainObject>,
        attr: *mut fi_poll_attr,
        out: *mut *mut fid_poll,
    ) -> Result {
        // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
        let (attr, slot) = unsafe { open_args::<_, PollObject, _>(attr, out)? };
        if attr.flags != 0 {
            return Err(Errno::EINVAL);
        }
        slot.open(PollObject {
            fid: fid_poll {
                fid: new_fid::<PollObject>(ptr::null_mut()),
                ops: ptr::from_ref(&OPS).cast_mut(),
            },
            set: domain.domain().poll_set(domain.ctx)?,
        })
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
    // SAFETY: By the caller's contract, `event` is NULL or valid for `'a`.
    let class = unsafe { event.as_ref() }.ok_or(Errno::EINVAL)?.fclass;
    let member = match class as u32 {
        abi::FI_CLASS_CQ => {
            // SAFETY: As above.
            Member::Queue(unsafe { object::from_fid::<cq::QueueObject>(event)? }.queue())
        }
        abi::FI_CLASS_CNTR => {
            // SAFETY: As above.
            Member::Counter(unsafe { object::from_fid::<CounterObject>(event)? }.counter())
        }
        _ => return Err(Errno::EINVAL),
    };
    match flags {
        0 => Ok(member),
        _ => Err(Errno::EINVAL),
    }
}
