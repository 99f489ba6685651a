// SPDX-License-Identifier: GPL-2.0

//! Counters for C callers.

use super::{
    domain::DomainObject,
    object::{
        self,
        new_fid,
        Object,
        UninitObject, //
    },
    wait::{
        WaitAttr,
        WaitMethod, //
    },
};
use crate::{
    abi::{
        self,
        errno::into_int,
        fi_cntr_attr,
        fi_ops,
        fi_ops_cntr,
        fid,
        fid_cntr,
        fid_domain,
        Errno,
        Result, //
    },
    fi::{
        cntr::{
            Attr,
            Counter, //
        },
        wait::Deadline, //
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

/// A counter, as C callers hold it.
#[repr(C)]
pub(super) struct CounterObject {
    fid: fid_cntr,
    counter: Arc<Counter>,
    wait: WaitMethod,
}

// SAFETY: `#[repr(C)]`, begins with a `fid_cntr`, and is the only type with this table.
unsafe impl Object for CounterObject {
    const CLASS: u32 = abi::FI_CLASS_CNTR;

    fn ops() -> &'static fi_ops {
        static OPS: fi_ops = object::fid_ops(close, None, Some(control));
        &OPS
    }
}

impl CounterObject {
    /// Returns the Rust object.
    pub(super) fn counter(&self) -> &Arc<Counter> {
        &self.counter
    }

    /// Returns the counter's wait method.
    pub(super) fn wait(&self) -> &WaitMethod {
        &self.wait
    }
}

static OPS: fi_ops_cntr = fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read: Some(read),
    readerr: Some(readerr),
    add: Some(add),
    set: Some(set),
    wait: Some(wait_for),
    adderr: Some(adderr),
    seterr: Some(seterr),
};

/// Implements `fi_cntr_open()`.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    out: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: By the contract of `fi_cntr_open()`, arguments are valid or NULL.
    into_int(unsafe {
        object::open_with(domain.cast(), attr, out, |ctx, domain, attr, slot| {
            try_open(ctx, domain, attr, slot, context)
        })
    })
}

/// # Safety
///
/// With FI_WAIT_SET, the wait set of `attr` is NULL or valid.
unsafe fn try_open(
    ctx: ProcessContext,
    domain: &DomainObject,
    attr: &mut fi_cntr_attr,
    slot: UninitObject<CounterObject>,
    context: *mut c_void,
) -> Result<*mut CounterObject> {
    if attr.events != abi::FI_CNTR_EVENTS_COMP || attr.flags != 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: By the caller's contract, a wait set is NULL or valid.
    let wait_attr = unsafe { WaitAttr::new(attr.wait_obj, attr.wait_set)? };
    let counter = domain.domain().counter(
        ctx,
        &Attr {
            waitable: wait_attr.is_waitable(),
            wakes_wait_queue: wait_attr.has_wait_queue(),
        },
    )?;
    let wait = wait_attr.into_method(|set| set.add_counter(ctx, &counter, slot.address()))?;
    Ok(slot.init(CounterObject {
        fid: fid_cntr {
            fid: new_fid::<CounterObject>(context),
            ops: ptr::from_ref(&OPS).cast_mut(),
        },
        counter,
        wait,
    }))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe { object::close::<CounterObject>(fid, |object| object.counter.close()) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: By the contract of `fi_control()`.
    into_int(unsafe {
        object::from_fid::<CounterObject>(fid).and_then(|object| {
            object
                .wait
                .control(object.counter.wait_queue(), command, arg)
        })
    })
}

/// Returns the Rust object of a C caller's counter.
///
/// # Safety
///
/// `cntr` is NULL or valid for `'a`.
unsafe fn counter_from_fid<'a>(cntr: *mut fid_cntr) -> Result<&'a Arc<Counter>> {
    // SAFETY: By the caller's contract, `cntr` is NULL or valid for `'a`.
    unsafe { object::from_fid::<CounterObject>(cntr.cast()) }.map(CounterObject::counter)
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: By the contract of `fi_cntr_read()`.
    unsafe { counter_from_fid(cntr) }.map_or(0, |counter| counter.read())
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: By the contract of `fi_cntr_readerr()`.
    unsafe { counter_from_fid(cntr) }.map_or(0, |counter| counter.read_errors())
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: By the contract of `fi_cntr_add()`.
    into_int(unsafe { counter_from_fid(cntr) }.map(|counter| counter.add(value)))
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: By the contract of `fi_cntr_adderr()`.
    into_int(unsafe { counter_from_fid(cntr) }.map(|counter| counter.add_errors(value)))
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: By the contract of `fi_cntr_set()`.
    into_int(unsafe { counter_from_fid(cntr) }.map(|counter| counter.set(value)))
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: By the contract of `fi_cntr_seterr()`.
    into_int(unsafe { counter_from_fid(cntr) }.map(|counter| counter.set_errors(value)))
}

unsafe extern "C" fn wait_for(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: By the contract of `fi_cntr_wait()`.
    into_int(unsafe { counter_from_fid(cntr) }.and_then(|counter| {
        let deadline = Deadline::from_millis(timeout);
        counter.wait(in_process()?, threshold, &deadline)
    }))
}
