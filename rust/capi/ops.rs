// SPDX-License-Identifier: GPL-2.0

//! Entry points of the C API: [`fi_ops`] declares tables of calls, and makes their C functions from Rust bodies.

use super::{
    nosys::SignatureOf,
    object::{
        self,
        Object, //
    },
};
use crate::{
    abi::errno::{
        into_int,
        into_ssize, //
    },
    fi::prelude::*,
    util::noio::NoIo, //
};

/// Declares a table of calls, whose entries have Rust bodies.
///
/// An entry is named after the call in `include/rdma` that leads to it, and so is its C function in the symbol
/// table. Its arguments have the types that the table declares, except for the first, which is converted to the
/// [`FromFid`] type that follows its name before the body runs. The return type is a [`CallResult`]. The
/// arguments are as the documentation of the call requires; the object is NULL or valid until the call returns,
/// and has the table of calls that the entry is in.
///
/// - `static NAME: table { field: fn fi_call(object: Type, ...) -> ret {...} ... }` declares the table; with
///   `const`, it may be an item of an `impl` block. Its other calls return -FI_ENOSYS, unless `with` adds a
///   function from elsewhere, or `from` names a table to take them from.
/// - `fast { field: fn ... {...} else {...} ... }` adds entries whose body returns `None` for what it leaves to the
///   `else` block. That one is a function of its own, with the same arguments.
/// - `impl Object for Type: CLASS { field: fn ... } close(object) {...}` implements [`Object`], for all of the
///   classes that are named.
macro_rules! fi_ops {
    ($(#[$doc:meta])* $vis:vis static $($table:tt)*) => {
        $crate::capi::ops::fi_ops! { @table [$(#[$doc])* $vis static] $($table)* }
    };
    ($(#[$doc:meta])* $vis:vis const $($table:tt)*) => {
        $crate::capi::ops::fi_ops! { @table [$(#[$doc])* $vis const] $($table)* }
    };
    (
        @table [$($head:tt)*] $name:ident: $table:ident {
            $($field:ident: fn $call:ident($($args:tt)*) -> $ret:ty $body:block)*
        }
        $(fast {
            $($fast:ident: fn $fast_call:ident($($fast_args:tt)*) -> $fast_ret:ty
                $fast_body:block else $slow_body:block)*
        })?
        $(with { $($other:ident: $function:expr,)* })?
        $(from $base:expr;)?
    ) => {
        #[allow(clippy::needless_update, reason = "most tables are not complete")]
        $($head)* $name: $table = {
            use $crate::capi::nosys::Nosys;

            const NOSYS: $table = <$table as Nosys>::TABLE;
            $table {
                $($field: $crate::capi::ops::fi_ops!(@entry NOSYS.$field, $call($($args)*) -> $ret $body),)*
                $($($fast: $crate::capi::ops::fi_ops!(
                    @fast NOSYS.$fast, $fast_call($($fast_args)*) -> $fast_ret $fast_body else $slow_body
                ),)*)?
                $($($other: Some($function),)*)?
                ..$crate::capi::ops::fi_ops!(@base NOSYS $($base)?)
            }
        };
    };
    (
        impl Object for $object:ident: $class:ident $(| $other_class:ident)* { $($entries:tt)* }
        $(close($closed:ident) $close:block)?
    ) => {
        const _: () = assert!(mem::offset_of!($object, fid) == 0);

        // SAFETY: The object begins with its `fid`, as has just been checked. The macro makes the table of
        // calls inside of `ops`, so no other type has it.
        unsafe impl $crate::capi::object::Object for $object {
            const CLASS: u32 = $crate::abi::$class;

            fn has_class(class: usize) -> bool {
                class == $crate::abi::$class as usize $(|| class == $crate::abi::$other_class as usize)*
            }

            fn ops() -> &'static $crate::abi::fi_ops {
                use $crate::abi::fi_ops;

                $crate::capi::ops::fi_ops! {
                    static OPS: fi_ops { $($entries)* }
                    with { close: $crate::capi::ops::fi_close::<$object>, }
                }
                &OPS
            }

            $(fn close(&self) -> $crate::abi::Result {
                let $closed = self;
                $close
            })?
        }
    };

    (@base $nosys:ident $base:expr) => { $base };
    (@base $nosys:ident) => { $nosys };
    (@entry $nosys:ident.$field:ident, $call:ident($($args:tt)*) -> $ret:ty $body:block) => {{
        #[allow(non_camel_case_types, reason = "names the C function in the symbol table")]
        enum $call {}

        Some($crate::capi::ops::c_function::<$call, _, _, _>(
            $nosys.$field,
            $crate::capi::ops::fi_ops!(@body ($($args)*) -> $ret $body),
        ))
    }};
    (
        @fast $nosys:ident.$field:ident,
        $call:ident($this:ident: $object:ty $(, $arg:ident)* $(,)?) -> $ret:ty $body:block else $slow:block
    ) => {{
        #[allow(non_camel_case_types, reason = "names the C functions in the symbol table")]
        enum $call {}

        Some($crate::capi::ops::c_function::<$call, _, _, _>($nosys.$field, |($this, $($arg,)*)| -> $ret {
            let slow = $crate::capi::ops::c_function::<$crate::capi::ops::Slow<$call>, _, _, _>(
                $nosys.$field,
                $crate::capi::ops::fi_ops!(@body ($this: $object, $($arg),*) -> $ret $slow),
            );
            // SAFETY: The object is valid, and has this table of calls: the contract of the call.
            let object = unsafe { <$object as $crate::capi::ops::FromFid>::from_fid($this.cast()) };
            match object.map(|$this| -> Option<$ret> { $body }) {
                Ok(Some(posted)) => posted,
                // SAFETY: The arguments are those of this call.
                _ => unsafe { slow($this, $($arg),*) },
            }
        }))
    }};
    (@body ($this:ident: $object:ty $(, $arg:ident)* $(,)?) -> $ret:ty $body:block) => {
        |($this, $($arg,)*)| -> $ret {
            // SAFETY: The object is NULL or valid until the call returns, and has this table of calls: the
            // contract of the call.
            match unsafe { <$object as $crate::capi::ops::FromFid>::from_fid($this.cast()) } {
                Ok($this) => $body,
                Err(errno) => <$ret as $crate::capi::ops::CallResult>::from_errno(errno),
            }
        }
    };
}

pub(super) use fi_ops;

/// Returns the C function that calls `body`; `N` names it. It has the type of the table's entry `_like`.
#[inline(always)]
pub(super) const fn c_function<N, S, B, V>(_like: Option<S>, _body: B) -> S
where
    S: SignatureOf<N, B>,
    B: Fn(S::Args) -> V + Copy,
    V: CallResult<C = S::Return>,
{
    S::FUNCTION
}

/// Names the C function of the calls that a fast path leaves.
pub(super) struct Slow<N>(PhantomData<N>);

/// A Rust object that the first argument of an entry point is converted to.
pub(super) trait FromFid: Sized {
    /// Converts the argument.
    ///
    /// # Safety
    ///
    /// `fid` is NULL or an object of the C API, valid as long as the result. If the type does not check the
    /// object's class: `fid` has the table of calls for that type.
    unsafe fn from_fid(fid: *mut fid) -> Result<Self>;
}

/// Checks the class; -FI_EINVAL for NULL, another class, or an object of another module.
impl<T: Object> FromFid for &T {
    #[inline]
    unsafe fn from_fid(fid: *mut fid) -> Result<Self> {
        // SAFETY: By the contract of this function, `fid` is NULL or valid as long as the result.
        unsafe { object::from_fid(fid) }
    }
}

/// The argument as it is, for calls that check other arguments before the object.
impl FromFid for *mut fid {
    unsafe fn from_fid(fid: *mut fid) -> Result<Self> {
        Ok(fid)
    }
}

/// An object of a call that may sleep. The context is checked before the object; -FI_EOPBADSTATE in atomic
/// context.
pub(super) struct InProcess<T> {
    object: T,
    pub(super) ctx: ProcessContext,
}

impl<T: FromFid> FromFid for InProcess<T> {
    unsafe fn from_fid(fid: *mut fid) -> Result<Self> {
        let ctx = in_process()?;
        // SAFETY: By the contract of this function, which is that of the object's type.
        let object = unsafe { T::from_fid(fid)? };
        Ok(Self { object, ctx })
    }
}

impl<T> Deref for InProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

/// An object of a table that only objects of its type have; neither NULL nor the class is checked.
pub(super) struct Unchecked<'a, T>(&'a T);

impl<T: Object> FromFid for Unchecked<'_, T> {
    #[inline(always)]
    unsafe fn from_fid(fid: *mut fid) -> Result<Self> {
        // SAFETY: By the contract of this function, `fid` is valid and has a table of calls for `T`.
        Ok(Self(unsafe { &*fid.cast::<T>() }))
    }
}

impl<T> Deref for Unchecked<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0
    }
}

/// A value that the body of an entry point returns, and its conversion to the C return type.
pub(super) trait CallResult {
    /// The C return type.
    type C;

    /// Returns the value of a call that fails because its object is not one.
    fn from_errno(errno: Errno) -> Self;

    /// Converts the value.
    fn into_c(self) -> Self::C;
}

macro_rules! call_results {
    ($($(#[$doc:meta])* $type:ty as $c:ty: |$errno:pat_param| $from_errno:expr, |$value:ident| $into_c:expr;)*) => {
        $(
            $(#[$doc])*
            impl CallResult for $type {
                type C = $c;

                #[inline(always)]
                fn from_errno($errno: Errno) -> Self {
                    $from_errno
                }

                #[inline(always)]
                fn into_c(self) -> $c {
                    let $value = self;
                    $into_c
                }
            }
        )*
    };
}

call_results! {
    Result as c_int: |errno| Err(errno), |result| into_int(result);
    Result<c_int> as c_int: |errno| Err(errno), |result| result.unwrap_or_else(Errno::to_int);
    Result<usize> as isize: |errno| Err(errno), |result| into_ssize(result);
    /// Result of a transfer: 0 or a negative errno.
    isize as isize: |errno| errno.to_ssize(), |posted| posted;
    /// Result of a transfer, or the errno of a check before it.
    Result<isize> as isize: |errno| Err(errno), |posted| posted.unwrap_or_else(Errno::to_ssize);
    /// A value that has no errors: 0 for what is not an object.
    u64 as u64: |_| 0, |value| value;
    /// A string, or NULL for what is not an object.
    *const c_char as *const c_char: |_| ptr::null(), |string| string;
}

/// Closes an object, and frees it after [`Object::close`] has succeeded.
///
/// # Safety
///
/// The contract of `fi_close()` in `rdma/fabric.h`.
pub(super) unsafe extern "C" fn fi_close<T: Object>(fid: *mut fid) -> c_int {
    // SAFETY: By the contract of `fi_close()`.
    into_int(unsafe { close::<T>(fid) })
}

/// # Errors
///
/// -FI_EINVAL for a `fid` that is not a `T`, -FI_EOPBADSTATE in atomic context, and the errors of
/// [`Object::close`].
///
/// # Safety
///
/// The contract of `fi_close()`.
unsafe fn close<T: Object>(fid: *mut fid) -> Result {
    // SAFETY: By the contract of `fi_close()`, `fid` is NULL or valid.
    let closing = unsafe { object::from_fid::<T>(fid)? };
    in_process()?;
    let _scope = NoIo::enter();
    closing.close()?;
    // SAFETY: Every object of the type came from `Opening::open`, and fi_close() ends its use.
    drop(unsafe { KBox::from_raw(fid.cast::<T>()) });
    Ok(())
}
