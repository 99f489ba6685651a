// SPDX-License-Identifier: GPL-2.0

//! Entry points of the C API: [`fi_ops`] declares tables of calls and their `extern "C"` functions.

use super::object::{
    self,
    Object, //
};
use crate::{
    abi::errno::{
        into_int,
        into_ssize, //
    },
    fi::prelude::*, //
};

/// Declares entry points of the C API: `extern "C"` functions whose bodies return Rust values.
///
/// An entry point has the name of the call in `include/rdma` that leads to it. `as` names the [`FromFid`] type
/// that the first argument is converted to before the body runs; the return type is a [`CallResult`].
///
/// - `static NAME: table { field: fn fi_call(...) ... }` also declares the table. Its other calls return
///   -FI_ENOSYS, unless `with` adds a function from elsewhere. With `const`, the table and its functions are
///   items of an `impl` block.
/// - `impl Object for Type: CLASS { close: fn fi_close(object) ... }` implements [`Object`]; `fi_close()` frees
///   the object after its body has succeeded.
/// - `fn fi_call(...)` declares a function for a table of another object; `slow fn` declares the part of a call
///   that is out of line, for what its fast path leaves.
macro_rules! fi_ops {
    (
        $(#[$doc:meta])*
        $vis:vis static $name:ident: $table:ident {
            $($field:ident: fn $call:ident($($args:tt)*) -> $ret:ty $body:block)*
        }
        $(with { $($other:ident: $function:expr,)* })?
    ) => {
        $($crate::capi::ops::fi_ops! { fn $call($($args)*) -> $ret $body })*

        $(#[$doc])*
        #[allow(clippy::needless_update, reason = "most tables are not complete")]
        $vis static $name: $table = $table {
            size: size_of::<$table>(),
            $($field: Some($call),)*
            $($($other: $function,)*)?
            ..<$table as $crate::capi::nosys::Nosys>::TABLE
        };
    };
    (
        $(#[$doc:meta])*
        $vis:vis const $name:ident: $table:ident {
            $($field:ident: fn $call:ident($($args:tt)*) -> $ret:ty $body:block)*
        }
        $(with { $($other:ident: $function:expr,)* })?
    ) => {
        $($crate::capi::ops::fi_ops! { fn $call($($args)*) -> $ret $body })*

        $(#[$doc])*
        #[allow(clippy::needless_update, reason = "most tables are not complete")]
        $vis const $name: $table = $table {
            size: size_of::<$table>(),
            $($field: Some(Self::$call),)*
            $($($other: $function,)*)?
            ..<$table as $crate::capi::nosys::Nosys>::TABLE
        };
    };
    (
        impl Object for $object:ident: $class:ident {
            close: fn fi_close($closed:ident) $close:block
            $($field:ident: fn $call:ident($($args:tt)*) -> $ret:ty $body:block)*
        }
    ) => {
        const _: () = assert!(core::mem::offset_of!($object, fid) == 0);

        // SAFETY: The object begins with its `fid`, as has just been checked. The macro makes the table of
        // calls inside of `ops`, so no other type has it.
        unsafe impl $crate::capi::object::Object for $object {
            const CLASS: u32 = $crate::abi::$class;

            fn ops() -> &'static $crate::abi::fi_ops {
                $($crate::capi::ops::fi_ops! { fn $call($($args)*) -> $ret $body })*

                static OPS: $crate::abi::fi_ops = $crate::abi::fi_ops {
                    size: size_of::<$crate::abi::fi_ops>(),
                    close: Some($crate::capi::ops::fi_close::<$object>),
                    $($field: Some($call),)*
                    ..<$crate::abi::fi_ops as $crate::capi::nosys::Nosys>::TABLE
                };
                &OPS
            }

            fn close(&self) -> $crate::abi::Result {
                let $closed = self;
                $close
            }
        }
    };
    (
        $(#[$attr:meta])*
        $vis:vis fn $call:ident $(<$param:ident: $bound:path>)? (
            $this:ident: *mut $fid:ident as $object:ty
            $(, $arg:ident: $type:ty)* $(,)?
        ) -> $ret:ty $body:block
        $($more:tt)*
    ) => {
        #[doc = concat!("Implements `", stringify!($call), "()`.")]
        $(#[$attr])*
        ///
        /// # Safety
        ///
        /// The arguments are as the documentation of the call in `include/rdma` requires: the object is NULL
        /// or valid until the call returns, and has the table of calls that this function is in.
        $vis unsafe extern "C" fn $call $(<$param: $bound>)? (
            $this: *mut $fid
            $(, $arg: $type)*
        ) -> <$ret as $crate::capi::ops::CallResult>::C {
            // SAFETY: The object is NULL or valid until the call returns, and has this table of calls:
            // the `# Safety` section above.
            let object = unsafe { <$object as $crate::capi::ops::FromFid>::from_fid($this.cast()) };
            let result = object.map_or_else(
                <$ret as $crate::capi::ops::CallResult>::from_errno,
                |$this| -> $ret { $body },
            );
            <$ret as $crate::capi::ops::CallResult>::into_c(result)
        }

        $crate::capi::ops::fi_ops! { $($more)* }
    };
    (
        slow fn $call:ident(
            $this:ident: *mut $fid:ident as $object:ty
            $(, $arg:ident: $type:ty)* $(,)?
        ) -> $ret:ty $body:block
        $($more:tt)*
    ) => {
        /// Does what the fast path of the call of this name leaves, out of line.
        ///
        /// # Safety
        ///
        /// The contract of the call.
        #[inline(never)]
        unsafe extern "C" fn $call($this: *mut $fid $(, $arg: $type)*) -> $ret {
            // SAFETY: The object has this table of calls: the `# Safety` section above.
            let object = unsafe { <$object as $crate::capi::ops::FromFid>::from_fid($this.cast()) };
            object.map_or_else(
                <$ret as $crate::capi::ops::CallResult>::from_errno,
                |$this| -> $ret { $body },
            )
        }

        $crate::capi::ops::fi_ops! { $($more)* }
    };
    () => {};
}

pub(super) use fi_ops;

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

impl CallResult for Result {
    type C = c_int;

    fn from_errno(errno: Errno) -> Self {
        Err(errno)
    }

    fn into_c(self) -> c_int {
        into_int(self)
    }
}

impl CallResult for Result<c_int> {
    type C = c_int;

    fn from_errno(errno: Errno) -> Self {
        Err(errno)
    }

    fn into_c(self) -> c_int {
        self.unwrap_or_else(Errno::to_int)
    }
}

impl CallResult for Result<usize> {
    type C = isize;

    fn from_errno(errno: Errno) -> Self {
        Err(errno)
    }

    #[inline(always)]
    fn into_c(self) -> isize {
        into_ssize(self)
    }
}

/// Errors are negative errnos.
impl CallResult for isize {
    type C = Self;

    #[inline(always)]
    fn from_errno(errno: Errno) -> Self {
        errno.to_ssize()
    }

    #[inline(always)]
    fn into_c(self) -> Self {
        self
    }
}

/// A value that has no errors: 0 for what is not an object.
impl CallResult for u64 {
    type C = Self;

    fn from_errno(_: Errno) -> Self {
        0
    }

    #[inline(always)]
    fn into_c(self) -> Self {
        self
    }
}

/// A string, or NULL for what is not an object.
impl CallResult for *const c_char {
    type C = Self;

    fn from_errno(_: Errno) -> Self {
        ptr::null()
    }

    fn into_c(self) -> Self {
        self
    }
}

fi_ops! {
    /// Frees the object after [`Object::close`] has succeeded.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a `fid` that is not a `T`, -FI_EOPBADSTATE in atomic context, and the errors of
    /// [`Object::close`].
    pub(super) fn fi_close<T: Object>(object: *mut fid as *mut fid) -> Result {
        // SAFETY: `object` is NULL or valid.
        let closing = unsafe { object::from_fid::<T>(object)? };
        in_process()?;
        closing.close()?;
        // SAFETY: Every object of the type came from `UninitObject::init`, and fi_close() ends its use.
        drop(unsafe { KBox::from_raw(object.cast::<T>()) });
        Ok(())
    }
}
