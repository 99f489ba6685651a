// SPDX-License-Identifier: GPL-2.0

//! Tables whose calls return -FI_ENOSYS. The other tables start from these, so that no entry is ever NULL.

use crate::{
    abi::*,
    fi::prelude::*, //
};

/// Return value of a call that is not implemented.
trait NosysReturn {
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
    const NOSYS: Self = core::ptr::null();
}

/// A C function of any type that is not implemented.
trait NosysFn {
    const NOSYS_FN: Self;
}

macro_rules! absent {
    ($($arg:ident)*) => {
        impl<R: NosysReturn, $($arg),*> NosysFn for unsafe extern "C" fn($($arg),*) -> R {
            const NOSYS_FN: Self = {
                /// # Safety
                ///
                /// Any arguments will do: the function uses none of them.
                unsafe extern "C" fn absent<R: NosysReturn, $($arg),*>($(_: $arg),*) -> R {
                    R::NOSYS
                }
                absent::<R, $($arg),*>
            };
        }
    };
}

absent!(A);
absent!(A B);
absent!(A B C);
absent!(A B C D);
absent!(A B C D E);
absent!(A B C D E F);
absent!(A B C D E F G);
absent!(A B C D E F G H);
absent!(A B C D E F G H I);
absent!(A B C D E F G H I J);
absent!(A B C D E F G H I J K);
absent!(A B C D E F G H I J K L);
absent!(A B C D E F G H I J K L M);
absent!(A B C D E F G H I J K L M N);
absent!(A B C D E F G H I J K L M N O);
absent!(A B C D E F G H I J K L M N O P);

const fn nosys_fn<F: NosysFn>() -> Option<F> {
    Some(F::NOSYS_FN)
}

/// A table whose calls all return -FI_ENOSYS.
pub(super) trait Nosys {
    /// The table.
    const TABLE: Self;
}

macro_rules! tables {
    ($($name:ident: $table:ident { $($call:ident)* })*) => {
        $(
            pub(super) const $name: $table = $table {
                size: size_of::<$table>(),
                $($call: nosys_fn(),)*
            };

            impl Nosys for $table {
                const TABLE: Self = $name;
            }
        )*
    };
}

tables! {
    FID: fi_ops { close bind control ops_open tostr ops_set }
    FABRIC: fi_ops_fabric { domain passive_ep eq_open wait_open trywait domain2 }
    DOMAIN: fi_ops_domain {
        av_open cq_open endpoint scalable_ep cntr_open poll_open stx_ctx srx_ctx query_atomic
        query_collective endpoint2
    }
    MR: fi_ops_mr { reg regv regattr }
    POLL: fi_ops_poll { poll poll_add poll_del }
    WAIT: fi_ops_wait { wait waitfrom }
    CNTR: fi_ops_cntr { read readerr add set wait adderr seterr }
    EQ: fi_ops_eq { read readerr write sread strerror }
    CQ: fi_ops_cq { read readfrom readerr sread sreadfrom signal strerror }
    AV: fi_ops_av { insert insertsvc insertsym remove lookup straddr av_set }
    AV_SET: fi_ops_av_set { set_union intersect diff insert remove addr }
    EP: fi_ops_ep { cancel getopt setopt tx_ctx rx_ctx rx_size_left tx_size_left }
    CM: fi_ops_cm { setname getname getpeer connect listen accept reject shutdown join }
    MSG: fi_ops_msg {
        recv recvv recvmsg send sendv sendmsg inject senddata injectdata
    }
    RMA: fi_ops_rma {
        read readv readmsg write writev writemsg inject writedata injectdata
    }
    TAGGED: fi_ops_tagged {
        recv recvv recvmsg send sendv sendmsg inject senddata injectdata
    }
    ATOMIC: fi_ops_atomic {
        write writev writemsg inject readwrite readwritev readwritemsg compwrite compwritev
        compwritemsg writevalid readwritevalid compwritevalid
    }
    COLLECTIVE: fi_ops_collective {
        barrier broadcast alltoall allreduce allgather reduce_scatter reduce scatter gather msg
        barrier2
    }
}

macro_rules! shared {
    ($($name:ident: $table:ident = $of:ident;)*) => {
        $(static $name: $table = $of;)*
    };
}

shared! {
    NO_EP: fi_ops_ep = EP;
    NO_CM: fi_ops_cm = CM;
    NO_MSG: fi_ops_msg = MSG;
    NO_RMA: fi_ops_rma = RMA;
    NO_TAGGED: fi_ops_tagged = TAGGED;
    NO_ATOMIC: fi_ops_atomic = ATOMIC;
    NO_COLLECTIVE: fi_ops_collective = COLLECTIVE;
}

/// Returns a `fid_ep` whose calls all return -FI_ENOSYS; every kind of endpoint starts from it.
pub(super) fn endpoint(fid: fid) -> fid_ep {
    fid_ep {
        fid,
        ops: ptr::from_ref(&NO_EP).cast_mut(),
        cm: ptr::from_ref(&NO_CM).cast_mut(),
        msg: ptr::from_ref(&NO_MSG).cast_mut(),
        rma: ptr::from_ref(&NO_RMA).cast_mut(),
        tagged: ptr::from_ref(&NO_TAGGED).cast_mut(),
        atomic: ptr::from_ref(&NO_ATOMIC).cast_mut(),
        collective: ptr::from_ref(&NO_COLLECTIVE).cast_mut(),
    }
}
