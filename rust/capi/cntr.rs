// SPDX-License-Identifier: GPL-2.0

//! Counters for C callers.

use super::{
    domain::DomainObject,
    prelude::*,
    wait::{
        WaitAttr,
        WaitMethod, //
    },
};
use crate::fi::{
    cntr::{
        Attr,
        Counter, //
    },
    wait::Deadline,
};

/// A counter, as C callers hold it.
#[repr(C)]
pub(super) struct CounterObject {
    fid: fid_cntr,
    pub(super) counter: Arc<Counter>,
    pub(super) wait: WaitMethod,
}

fi_ops! {
    impl Object for CounterObject: FI_CLASS_CNTR {
        control: fn fi_control(cntr: &CounterObject, command, arg) -> Result {
            // SAFETY: `arg` is NULL or as the command requires.
            unsafe { cntr.wait.control(cntr.counter.wait_queue(), command, arg) }
        }
    }
    close(cntr) {
        cntr.counter.close()
    }
}

fi_ops! {
    static OPS: fi_ops_cntr {
        read: fn fi_cntr_read(cntr: &CounterObject) -> u64 {
            cntr.counter.read()
        }

        readerr: fn fi_cntr_readerr(cntr: &CounterObject) -> u64 {
            cntr.counter.read_errors()
        }

        add: fn fi_cntr_add(cntr: &CounterObject, value) -> Result {
            cntr.counter.add(value);
            Ok(())
        }

        adderr: fn fi_cntr_adderr(cntr: &CounterObject, value) -> Result {
            cntr.counter.add_errors(value);
            Ok(())
        }

        set: fn fi_cntr_set(cntr: &CounterObject, value) -> Result {
            cntr.counter.set(value);
            Ok(())
        }

        seterr: fn fi_cntr_seterr(cntr: &CounterObject, value) -> Result {
            cntr.counter.set_errors(value);
            Ok(())
        }

        wait: fn fi_cntr_wait(cntr: &CounterObject, threshold, timeout) -> Result {
            let deadline = Deadline::from_millis(timeout);
            cntr.counter.wait(in_process()?, threshold, &deadline)
        }
    }
}

fi_ops! {
    /// `fi_cntr_open()`.
    pub(super) const DOMAIN_OPS: fi_ops_domain {
        cntr_open: fn fi_cntr_open(domain: InProcess<&DomainObject>, attr, out, context) -> Result {
            // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
            let (attr, slot) = unsafe { open_args(attr, out)? };
            ensure(attr.events == abi::FI_CNTR_EVENTS_COMP && attr.flags == 0, Errno::EINVAL)?;
            // SAFETY: With FI_WAIT_SET, the wait set is NULL or valid.
            let wait_attr = unsafe { WaitAttr::new(attr.wait_obj, attr.wait_set)? };
            let attr = Attr {
                waitable: wait_attr.is_waitable(),
                wakes_wait_queue: wait_attr.has_wait_queue(),
            };
            let counter = domain.domain.counter(domain.ctx, &attr)?;
            let address = slot.address();
            let wait = wait_attr.into_method(|set| set.add_counter(domain.ctx, &counter, address))?;
            slot.open(CounterObject {
                fid: fid_cntr {
                    fid: new_fid::<CounterObject>(context),
                    ops: ptr::from_ref(&OPS).cast_mut(),
                },
                counter,
                wait,
            })
        }
    }
}
