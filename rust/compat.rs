// SPDX-License-Identifier: GPL-2.0

//! Items of the `kernel` crate that not every known series of Linux has, under their newest names.
//!
//! This module and `compat/` hold all differences between series. On the newest series each item is the
//! kernel's own; a module for older ones implements what they lack. Kbuild sets the `cfg` that chooses.
//! Consumers take from here what a module for every known series needs: [`param_value`] for its parameters, and
//! [`SpinLockIrq`] for data that it shares with its interrupt handlers.

use kernel::prelude::*;

#[cfg(kofi_before_7_3)]
pub use before_7_3::*;
#[cfg(not(kofi_before_7_3))]
pub use newest::*;

#[cfg(not(kofi_before_7_3))]
mod newest {
    use kernel::module_param::ModuleParamAccess;

    pub(crate) use kernel::{
        bindings::{
            in_addr,
            sockaddr_in, //
        },
        error::code::{
            EADDRINUSE,
            EADDRNOTAVAIL,
            EAFNOSUPPORT,
            ECONNABORTED,
            ECONNREFUSED,
            EHOSTUNREACH,
            ENETUNREACH,
            EOPNOTSUPP, //
        },
        sync::{
            barrier::smp_mb,
            global_lock,
            rcu::synchronize_rcu, //
        },
    };
    pub use kernel::{
        new_spinlock_irq,
        sync::SpinLockIrq, //
    };

    /// Returns the value of a module's parameter.
    #[inline]
    pub fn param_value<T: Copy>(param: &ModuleParamAccess<T>) -> T {
        param.value()
    }

    /// Returns an initializer that registers a misc device. Its open files keep the calling module
    /// loaded.
    #[macro_export]
    macro_rules! register_misc_device {
        ($options:expr) => {
            ::kernel::miscdevice::MiscDeviceRegistration::register($options)
        };
    }
    pub use register_misc_device;

    /// Returns a limit of `struct ib_device_attr`.
    pub(crate) fn limit(value: u32) -> u32 {
        value
    }
}

#[cfg(kofi_before_7_3)]
mod before_7_3 {
    pub(crate) use crate::bindings::{
        in_addr,
        sockaddr_in, //
    };
    use crate::util::lock::Fast;
    use core::marker::PhantomData;
    use kernel::{
        bindings::{
            file_operations,
            lock_class_key,
            misc_register,
            miscdevice,
            module,
            spinlock_t, //
        },
        error::to_result,
        ffi::{
            c_char,
            c_int,
            c_ulong, //
        },
        miscdevice::{
            MiscDevice,
            MiscDeviceOptions,
            MiscDeviceRegistration, //
        },
        module_param::ModuleParamAccess,
        prelude::*,
        sync::{
            atomic::Full,
            lock::{
                Backend,
                Lock, //
            },
        },
    };

    macro_rules! errnos {
        ($($name:ident)*) => {
            $(
                pub(crate) const $name: Error = {
                    // SAFETY: An `Error` is a struct whose only field is the negative errno, which is not 0.
                    unsafe { core::mem::transmute::<c_int, Error>(-(kernel::bindings::$name as c_int)) }
                };
            )*
        };
    }

    errnos! {
        EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT ECONNABORTED ECONNREFUSED EHOSTUNREACH ENETUNREACH EOPNOTSUPP
    }

    /// The module that owns a misc device.
    ///
    /// # Safety
    ///
    /// `MODULE` is the module that the implementation is a part of.
    pub unsafe trait MiscDeviceOwner {
        /// The module.
        const MODULE: *mut module;
    }

    /// The file operations of a misc device of type `T` of the module `O`.
    struct Files<T, O>(PhantomData<(T, O)>);

    impl<T: MiscDevice, O: MiscDeviceOwner> Files<T, O> {
        /// The operations of the `kernel` crate with an owner. The crate sets none here, so the module could
        /// be unloaded while a file is open.
        const OPERATIONS: file_operations = file_operations {
            owner: O::MODULE,
            // SAFETY: The table is static.
            ..unsafe { *MiscDeviceOptions { name: c"" }.into_raw::<T>().fops }
        };
    }

    /// Registers a misc device whose open files keep the module `O` loaded.
    pub fn register_owned_misc_device<T: MiscDevice, O: MiscDeviceOwner>(
        options: MiscDeviceOptions,
        _owner: O,
    ) -> impl PinInit<MiscDeviceRegistration<T>, Error> {
        let register = move |slot: *mut MiscDeviceRegistration<T>| {
            let device = slot.cast::<miscdevice>();
            // SAFETY: `slot` is memory for a registration, which is a transparent `miscdevice`.
            unsafe {
                device.write(miscdevice {
                    fops: &Files::<T, O>::OPERATIONS,
                    ..options.into_raw::<T>()
                })
            };
            // SAFETY: The device has been written, and is pinned until the registration is dropped.
            to_result(unsafe { misc_register(device) })
        };
        // SAFETY: The slot is a registered device when this returns `Ok`, and memory without a value otherwise.
        unsafe { pin_init::pin_init_from_closure(register) }
    }

    /// Returns an initializer that registers a misc device. Its open files keep the calling module
    /// loaded.
    #[macro_export]
    #[allow(clippy::crate_in_macro_def)]
    macro_rules! register_misc_device {
        ($options:expr) => {{
            struct Owner;

            // SAFETY: `crate` is the crate that uses this macro.
            unsafe impl $crate::compat::MiscDeviceOwner for Owner {
                const MODULE: *mut ::kernel::bindings::module = crate::THIS_MODULE.as_ptr();
            }

            $crate::compat::register_owned_misc_device($options, Owner)
        }};
    }
    pub use register_misc_device;

    /// Returns the value of a module's parameter, to which `value()` returns a reference here.
    #[inline]
    pub fn param_value<T: Copy>(param: &ModuleParamAccess<T>) -> T {
        *param.value()
    }

    /// Returns a limit of `struct ib_device_attr`, which is an `int` here: 0 for a negative one.
    pub(crate) fn limit(value: c_int) -> u32 {
        u32::try_from(value).unwrap_or(0)
    }

    /// Orders all memory accesses before it before all after it.
    #[inline(always)]
    pub(crate) fn smp_mb(_: Full) {
        kernel::sync::barrier::smp_mb();
    }

    /// Waits for one RCU grace period. May sleep.
    pub(crate) fn synchronize_rcu() {
        // SAFETY: It has no requirement but a context that may sleep.
        unsafe { kernel::bindings::synchronize_rcu() };
    }

    /// A spinlock that is held with interrupts off.
    ///
    /// Guards of one CPU end in the reverse of the order in which they began; on 7.3 they end in any order.
    pub type SpinLockIrq<T> = Lock<T, SpinLockIrqBackend>;

    /// Backend of [`SpinLockIrq`]: `spin_lock_irqsave()` and its relatives.
    pub struct SpinLockIrqBackend;

    // The functions are not inlined into consumers: those of util/lock.c are not exported.
    // SAFETY: A spinlock excludes other threads; the default `relock()` calls `lock()`.
    unsafe impl Backend for SpinLockIrqBackend {
        type State = spinlock_t;
        type GuardState = c_ulong;

        #[inline(never)]
        unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut lock_class_key) {
            // SAFETY: By this function's safety requirement.
            unsafe { Fast::init(ptr, name, key) }
        }

        #[inline(never)]
        unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
            // SAFETY: By this function's safety requirement.
            unsafe { Fast::lock(ptr) }
        }

        #[inline(never)]
        unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
            // SAFETY: By this function's safety requirement.
            unsafe { Fast::try_lock(ptr) }
        }

        #[inline(never)]
        unsafe fn unlock(ptr: *mut Self::State, state: &Self::GuardState) {
            // SAFETY: By this function's safety requirement.
            unsafe { Fast::unlock(ptr, state) }
        }

        #[inline(never)]
        unsafe fn assert_is_held(ptr: *mut Self::State) {
            // SAFETY: By this function's safety requirement.
            unsafe { Fast::assert_is_held(ptr) }
        }
    }

    /// Creates an initialiser of a [`SpinLockIrq`], with a name or one made of the file and line.
    #[macro_export]
    macro_rules! new_spinlock_irq {
        ($inner:expr $(, $name:literal)? $(,)?) => {
            $crate::compat::SpinLockIrq::new(
                $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
        };
    }
    pub use new_spinlock_irq;

    /// Declares a static [`SpinLockIrq`], which `kernel::sync::global_lock!` does not know here.
    macro_rules! global_lock {
        (unsafe(uninit) static $name:ident: SpinLockIrq<$value:ty> = $init:expr;) => {
            enum Backend {}

            impl kernel::sync::lock::GlobalLockBackend for Backend {
                const NAME: &'static CStr = kernel::c_str!(stringify!($name));
                type Item = $value;
                type Backend = $crate::compat::SpinLockIrqBackend;

                fn get_lock_class() -> Pin<&'static kernel::sync::LockClassKey> {
                    kernel::static_lock_class!()
                }
            }

            static $name: kernel::sync::lock::GlobalLock<Backend> = {
                let init: $value = $init;
                // SAFETY: The user of this macro initialises the lock before it is used, and this is the only
                // lock with this backend.
                unsafe { kernel::sync::lock::GlobalLock::new(init) }
            };
        };
    }
    pub(crate) use global_lock;
}

#[kunit_tests(kofi_compat)]
mod tests {
    use super::*;

    #[test]
    fn error_constants_match_the_errnos_of_linux() {
        let expected = [
            (EADDRINUSE, kernel::bindings::EADDRINUSE),
            (EADDRNOTAVAIL, kernel::bindings::EADDRNOTAVAIL),
            (EAFNOSUPPORT, kernel::bindings::EAFNOSUPPORT),
            (ECONNABORTED, kernel::bindings::ECONNABORTED),
            (ECONNREFUSED, kernel::bindings::ECONNREFUSED),
            (EHOSTUNREACH, kernel::bindings::EHOSTUNREACH),
            (ENETUNREACH, kernel::bindings::ENETUNREACH),
            (EOPNOTSUPP, kernel::bindings::EOPNOTSUPP),
        ];
        for (error, errno) in expected {
            assert_eq!(error.to_errno().unsigned_abs(), errno);
            assert_eq!(error, Error::from_errno(error.to_errno()));
        }
    }

    #[test]
    fn limit_keeps_values_up_to_int_max() {
        assert_eq!(limit(0), 0);
        assert_eq!(limit(0x7fff_ffff), 0x7fff_ffff);
    }
}
