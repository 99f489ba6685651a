// SPDX-License-Identifier: GPL-2.0

//! Types of the calls in tables, and tables whose calls return -FI_ENOSYS. The other tables start from these, so
//! that no entry is ever NULL.

use super::{
    ops::CallResult,
    prelude::*, //
};

/// Return value of a call that is not implemented.
pub(super) trait NosysReturn {
    const NOSYS: Self;
}

impl NosysReturn for c_int {
    const NOSYS: Self = -FI_ENOSYS;
}

impl NosysReturn for isize {
    const NOSYS: Self = -FI_ENOSYS as isize;
}

impl NosysReturn for u64 {
    const NOSYS: Self = 0;
}

impl NosysReturn for *const c_char {
    const NOSYS: Self = ptr::null();
}

impl NosysReturn for () {
    const NOSYS: Self = ();
}

/// Type of a C function in a table of calls.
pub(super) trait Signature: Copy {
    /// Types of the arguments.
    type Args;

    /// Type of the return value.
    type Return;

    /// A function that is not implemented.
    const NOSYS: Self;
}

/// Type of the C function that calls a body `B`, a closure without captures; `N` only names the function.
pub(super) trait SignatureOf<N, B>: Signature {
    /// The function.
    const FUNCTION: Self;
}

macro_rules! signatures {
    () => {};
    ($first:ident $($arg:ident)*) => {
        signatures!(@of $first $($arg)*);
        signatures!($($arg)*);
    };
    (@of $($arg:ident)*) => {
        impl<R: NosysReturn, $($arg),*> Signature for unsafe extern "C" fn($($arg),*) -> R {
            type Args = ($($arg,)*);
            type Return = R;

            const NOSYS: Self = {
                /// # Safety
                ///
                /// Any arguments will do: the function uses none of them.
                unsafe extern "C" fn nosys<R: NosysReturn, $($arg),*>($(_: $arg),*) -> R {
                    R::NOSYS
                }
                nosys::<R, $($arg),*>
            };
        }

        impl<N, B, R, V, $($arg),*> SignatureOf<N, B> for unsafe extern "C" fn($($arg),*) -> R
        where
            B: Fn(($($arg,)*)) -> V + Copy,
            V: CallResult<C = R>,
            R: NosysReturn,
        {
            const FUNCTION: Self = {
                /// # Safety
                ///
                /// The contract of the call whose body `B` is.
                #[inline(never)]
                #[allow(clippy::extra_unused_type_parameters, reason = "`N` names the function")]
                #[allow(non_snake_case)]
                unsafe extern "C" fn call<N, B, V, $($arg),*>($($arg: $arg),*) -> V::C
                where
                    B: Fn(($($arg,)*)) -> V + Copy,
                    V: CallResult,
                {
                    const { assert!(size_of::<B>() == 0) };
                    // SAFETY: `B` has no bytes, and can be copied. There is a value: `c_function()` was called with one.
                    let body = unsafe { NonNull::<B>::dangling().as_ref() };
                    body(($($arg,)*)).into_c()
                }
                call::<N, B, V, $($arg),*>
            };
        }
    };
}

signatures!(A0 A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15);

const fn nosys<S: Signature>() -> Option<S> {
    Some(S::NOSYS)
}

/// A table whose calls all return -FI_ENOSYS.
pub(super) trait Nosys: Copy + 'static {
    /// The table.
    const TABLE: Self;

    /// The table in static memory. A reference to a constant of a type parameter would be to the stack.
    const REF: &'static Self;
}

macro_rules! tables {
    ($($table:ident { $($call:ident)* })*) => {
        $(
            impl Nosys for $table {
                const TABLE: Self = $table {
                    size: size_of::<$table>(),
                    $($call: nosys(),)*
                };

                const REF: &'static Self = &<$table as Nosys>::TABLE;
            }
        )*
    };
}

tables! {
    fi_ops { close bind control ops_open tostr ops_set }
    fi_ops_fabric { domain passive_ep eq_open wait_open trywait domain2 }
    fi_ops_domain {
        av_open cq_open endpoint scalable_ep cntr_open poll_open stx_ctx srx_ctx query_atomic
        query_collective endpoint2
    }
    fi_ops_mr { reg regv regattr }
    fi_ops_poll { poll poll_add poll_del }
    fi_ops_wait { wait waitfrom }
    fi_ops_cntr { read readerr add set wait adderr seterr }
    fi_ops_eq { read readerr write sread strerror }
    fi_ops_cq { read readfrom readerr sread sreadfrom signal strerror }
    fi_ops_av { insert insertsvc insertsym remove lookup straddr av_set }
    fi_ops_av_set { set_union intersect diff insert remove addr }
    fi_ops_ep { cancel getopt setopt tx_ctx rx_ctx rx_size_left tx_size_left }
    fi_ops_cm { setname getname getpeer connect listen accept reject shutdown join }
    fi_ops_msg { recv recvv recvmsg send sendv sendmsg inject senddata injectdata }
    fi_ops_rma { read readv readmsg write writev writemsg inject writedata injectdata }
    fi_ops_tagged { recv recvv recvmsg send sendv sendmsg inject senddata injectdata }
    fi_ops_atomic {
        write writev writemsg inject readwrite readwritev readwritemsg compwrite compwritev
        compwritemsg writevalid readwritevalid compwritevalid
    }
    fi_ops_collective {
        barrier broadcast alltoall allreduce allgather reduce_scatter reduce scatter gather msg
        barrier2
    }
    fi_ops_av_owner { query ep_addr }
    fi_ops_av_set_owner { members }
    fi_ops_cq_owner { write writeerr }
    fi_ops_srx_owner { get_msg get_tag queue_msg queue_tag free_entry }
}

/// Returns a table whose calls all return -FI_ENOSYS.
pub(super) const fn table<T: Nosys>() -> *mut T {
    ptr::from_ref(T::REF).cast_mut()
}

/// Returns a `fid_ep` whose calls all return -FI_ENOSYS; every kind of endpoint starts from it.
pub(super) fn endpoint(fid: fid) -> fid_ep {
    fid_ep {
        fid,
        ops: table(),
        cm: table(),
        msg: table(),
        rma: table(),
        tagged: table(),
        atomic: table(),
        collective: table(),
    }
}
