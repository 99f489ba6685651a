// SPDX-License-Identifier: GPL-2.0

//! Poll sets for C callers.

use super::{
    cntr::CounterObject,
    cq,
    domain::DomainObject,
    object::{
        self,
        new_fid,
        Object,
        UninitObject, //
    }, //
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_ops,
        fi_ops_poll,
        fi_poll_attr,
        fid,
        fid_domain,
        fid_poll,
        Errno,
        Result, //
    },
    fi::{
        cntr::Counter,
        cq::CompletionQueue,
        poll::PollSet, //
    },
    util::context::{
        in_process,
        ProcessContext, //
    },
};
use core::ptr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A poll set, as C callers hold it.
#[repr(C)]
struct PollObject {
    fid: fid_poll,
    set: Arc<PollSet>,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_poll`, and is the only type with this table.
unsafe impl Object for PollObject {
    const CLASS: u32 = abi::FI_CLASS_POLL;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, None, None);
        &OPS
    }
}

static OPS: fi_ops_poll = fi_ops_poll {
    size: size_of::<fi_ops_poll>(),
    poll: Some(poll),
    poll_add: Some(add),
    poll_del: Some(remove),
};

/// Implements `fi_poll_open()`.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_poll_attr,
    out: *mut *mut fid_poll,
) -> c_int {
    // SAFETY: By the contract of `fi_poll_open()`, arguments are valid or NULL.
    into_int(unsafe { object::open_with(domain.cast(), attr, out, try_open) })
}

fn try_open(
    ctx: ProcessContext,
    domain: &DomainObject,
    attr: &mut fi_poll_attr,
    slot: UninitObject<PollObject>,
) -> Result<*mut PollObject> {
    if attr.flags != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(slot.init(PollObject {
        fid: fid_poll {
            fid: new_fid::<PollObject>(ptr::null_mut()),
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        set: domain.domain().poll_set(ctx)?,
    }))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe { object::close::<PollObject>(fid, |object| object.set.close()) })
}

unsafe extern "C" fn poll(
    pollset: *mut fid_poll,
    context: *mut *mut c_void,
    count: c_int,
) -> c_int {
    // SAFETY: By the contract of `fi_poll()`.
    match unsafe { try_poll(pollset, context, count) } {
        // `found` is at most `count`, which is an int.
        Ok(found) => found as c_int,
        Err(errno) => errno.to_int(),
    }
}

unsafe fn try_poll(
    pollset: *mut fid_poll,
    context: *mut *mut c_void,
    count: c_int,
) -> Result<usize> {
    // SAFETY: By the contract of `fi_poll()`.
    let (object, room) = unsafe {
        (
            object::from_fid::<PollObject>(pollset.cast())?,
            object::uninit_slice(context, count)?,
        )
    };
    let max = room.len();
    let mut slots = room.iter_mut();
    Ok(object.set.poll(max, |token| {
        let fid: *const fid = ptr::with_exposed_provenance(token);
        if let Some(slot) = slots.next() {
            // SAFETY: A member cannot be closed, so its object is valid.
            slot.write(unsafe { (*fid).context });
        }
    }))
}

/// An object that can be a member of a poll set.
enum Member<'a> {
    Queue(&'a Arc<CompletionQueue>),
    Counter(&'a Arc<Counter>),
}

/// Reads the arguments of `fi_poll_add()` and `fi_poll_del()`.
///
/// # Safety
///
/// `pollset` and `event` are NULL or valid for `'a`.
unsafe fn parse_member<'a>(
    pollset: *mut fid_poll,
    event: *mut fid,
    flags: u64,
) -> Result<(&'a PollSet, Member<'a>)> {
    // SAFETY: By the caller's contract, both are NULL or valid for `'a`; `object` checks the class again,
    // with the table of calls.
    unsafe {
        let set = &object::from_fid::<PollObject>(pollset.cast())?.set;
        let class = event.as_ref().ok_or(Errno::EINVAL)?.fclass as u32;
        let member = match class {
            abi::FI_CLASS_CQ => Member::Queue(object::from_fid::<cq::QueueObject>(event)?.queue()),
            abi::FI_CLASS_CNTR => {
                Member::Counter(object::from_fid::<CounterObject>(event)?.counter())
            }
            _ => return Err(Errno::EINVAL),
        };
        match flags {
            0 => Ok((set, member)),
            _ => Err(Errno::EINVAL),
        }
    }
}

unsafe extern "C" fn add(pollset: *mut fid_poll, event: *mut fid, flags: u64) -> c_int {
    // SAFETY: By the contract of `fi_poll_add()`.
    let arguments = unsafe { parse_member(pollset, event, flags) };
    let token = event.expose_provenance();
    into_int(arguments.and_then(|(set, member)| {
        let ctx = in_process()?;
        match member {
            Member::Queue(queue) => set.add_queue(ctx, queue, token),
            Member::Counter(counter) => set.add_counter(ctx, counter, token),
        }
    }))
}

unsafe extern "C" fn remove(pollset: *mut fid_poll, event: *mut fid, flags: u64) -> c_int {
    // SAFETY: By the contract of `fi_poll_del()`.
    let arguments = unsafe { parse_member(pollset, event, flags) };
    into_int(arguments.and_then(|(set, member)| {
        let ctx = in_process()?;
        match member {
            Member::Queue(queue) => set.remove_queue(ctx, queue),
            Member::Counter(counter) => set.remove_counter(ctx, counter),
        }
        Ok(())
    }))
}
