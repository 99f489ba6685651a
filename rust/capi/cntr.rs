// SPDX-License-Identifier: GPL-2.0

//! Counters for C callers.

use super::{
    domain::DomainObject,
    object::{
        new_fid,
        open_args, //
    },
    ops::{
        fi_ops,
        InProcess, //
    },
    wait::{
        WaitAttr,
        WaitMethod, //
    },
};
use crate::{
    abi::{
        fi_cntr_attr,
        fi_ops_cntr,
        fid_cntr, //
    },
    fi::{
        cntr::{
            Attr,
            Counter, //
        },
        prelude::*,
        wait::Deadline, //
    },
};

/// A counter, as C callers hold it.
#[repr(C)]
pub(super) struct CounterObject {
    fid: fid_cntr,
    counter: Arc<Counter>,
    wait: WaitMethod,
}

fi_ops! {
    impl Object for CounterObject: FI_CLASS_CNTR {
        close: fn fi_close(cntr) {
            cntr.counter.close()
        }

        control: fn fi_control(
            cntr: *mut fid as &CounterObject,
            command: c_int,
            arg: *mut c_void,
        ) -> Result {
            // SAFETY: `arg` is NULL or as the command requires.
            unsafe { cntr.wait.control(cntr.counter.wait_queue(), command, arg) }
        }
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

fi_ops! {
    static OPS: fi_ops_cntr {
        read: fn fi_cntr_read(cntr: *mut fid_cntr as &CounterObject) -> u64 {
            cntr.counter.read()
        }

        readerr: fn fi_cntr_readerr(cntr: *mut fid_cntr as &CounterObject) -> u64 {
            cntr.counter.read_errors()
        }

        add: fn fi_cntr_add(cntr: *mut fid_cntr as &CounterObject, value: u64) -> Result {
            cntr.counter.add(value);
            Ok(())
        }

        adderr: fn fi_cntr_adderr(cntr: *mut fid_cntr as &CounterObject, value: u64) -> Result {
            cntr.counter.add_errors(value);
            Ok(())
        }

        set: fn fi_cntr_set(cntr: *mut fid_cntr as &CounterObject, value: u64) -> Result {
            cntr.counter.set(value);
            Ok(())
        }

        seterr: fn fi_cntr_seterr(cntr: *mut fid_cntr as &CounterObject, value: u64) -> Result {
            cntr.counter.set_errors(value);
            Ok(())
        }

        wait: fn fi_cntr_wait(
            cntr: *mut fid_cntr as &CounterObject,
            threshold: u64,
            timeout: c_int,
        ) -> Result {
            let deadline = Deadline::from_millis(timeout);
            cntr.counter.wait(in_process()?, threshold, &deadline)
        }
    }
}

fi_ops! {
    pub(super) fn fi_cntr_open(
        domain: *mut fid_domain as InProcess<&DomainObject>,
        attr: *mut fi_cntr_attr,
        out: *mut *mut fid_cntr,
        context: *mut c_void,
    ) -> Result {
        // SAFETY: `attr` and `out` are NULL or valid, and `attr` is not shared during the call.
        let (attr, slot) = unsafe { open_args::<_, CounterObject, _>(attr, out)? };
        if attr.events != abi::FI_CNTR_EVENTS_COMP || attr.flags != 0 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: With FI_WAIT_SET, the wait set is NULL or valid.
        let wait_attr = unsafe { WaitAttr::new(attr.wait_obj, attr.wait_set)? };
        let counter = domain.domain().counter(
            domain.ctx,
            &Attr {
                waitable: wait_attr.is_waitable(),
                wakes_wait_queue: wait_attr.has_wait_queue(),
            },
        )?;
        let wait =
            wait_attr.into_method(|set| set.add_counter(domain.ctx, &counter, slot.address()))?;
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
