// SPDX-License-Identifier: GPL-2.0

//! Callbacks into other modules: kOFI ends their calls when the module is unloaded.
//!
//! A module cannot hold a reference on itself while its exit function ends the calls: `delete_module()`
//! refuses to unload a module with a reference count above 0. So each callback is registered under the
//! addresses of the functions that it calls. After a module's exit function has returned, and before the
//! module's memory is freed, [`kofi_module_going`] ends the callbacks that have a function in that memory.
//!
//! A spinlock guards the list. It is taken with interrupts off, because the last reference on an object with
//! a callback can be dropped in any context. It is a leaf.

use crate::{
    abi::module,
    compat::global_lock,
    prelude::*, //
};
use kernel::{
    error::Result,
    fmt,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    str::CString, //
};

mod ffi {
    use super::*;

    extern "C" {
        pub(super) fn kofi_is_within(module: *const module, address: usize) -> bool;
        pub(super) fn kofi_name_of_module(module: *mut module) -> *const c_char;
    }
}

/// Calls functions of another module.
pub(crate) trait Caller: Send + Sync {
    /// Ends the calls: when this returns, no such function is running, and none will be called. May sleep.
    fn stop_calls(&self);

    /// Returns functions that this has begun to call after it was registered. Called with a spinlock held.
    fn added_functions(&self) -> Functions {
        Functions::EMPTY
    }
}

/// Most functions that one callback calls.
const MAX_FUNCTIONS: usize = 5;

/// Addresses of functions, 0 for none.
#[derive(Clone, Copy)]
pub(crate) struct Functions([usize; MAX_FUNCTIONS]);

impl Functions {
    /// No functions.
    pub(crate) const EMPTY: Self = Self([0; MAX_FUNCTIONS]);

    /// Returns the address of one function.
    pub(crate) fn single(function: *const ()) -> Self {
        Self::from_array([function])
    }

    /// Returns the addresses of some functions, NULL for none.
    pub(crate) fn from_array<const N: usize>(functions: [*const (); N]) -> Self {
        const { assert!(N <= MAX_FUNCTIONS) };
        let mut all = Self::EMPTY;
        for (to, function) in all.0.iter_mut().zip(functions) {
            *to = function.addr();
        }
        all
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|&function| function == 0)
    }

    /// Returns whether one of them lies in the module's memory.
    fn any_in_module(&self, module: &Going) -> bool {
        // SAFETY: By the type invariant of `Going`; only its layout is read.
        let is_within = |&function| unsafe { ffi::kofi_is_within(module.0, function) };
        self.0.iter().any(is_within)
    }
}

/// A callback in the list.
struct Callback {
    functions: Functions,
    /// Name of the callback in log messages.
    name: CString,
    caller: Arc<dyn Caller>,
}

/// The registered callbacks by number, and the last number assigned.
struct Callbacks {
    entries: Option<RBTree<u64, Callback>>,
    last_id: u64,
}

global_lock! {
    // SAFETY: Initialised by `init_list`, which `Registry` calls before anything is opened.
    unsafe(uninit) static CALLBACKS: SpinLockIrq<Callbacks> = Callbacks { entries: None, last_id: 0 };
}

/// Initialises the list of callbacks.
///
/// # Safety
///
/// Called once, before any other function of this file.
pub(super) unsafe fn init_list() {
    // SAFETY: By this function's safety requirement.
    unsafe { CALLBACKS.init() };
    CALLBACKS.lock().entries = Some(RBTree::new());
}

/// Registration of a callback. Dropping it removes the callback from the list. Any context.
pub(crate) struct Registered(u64);

impl Registered {
    /// Registers a callback that calls `functions`, and that `caller` ends, under a name for the log. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        functions: Functions,
        name: fmt::Arguments<'_>,
        caller: Arc<dyn Caller>,
    ) -> Result<Self> {
        let callback = Callback {
            functions,
            name: CString::try_from_fmt(name)?,
            caller,
        };
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut callbacks = CALLBACKS.lock();
        callbacks.last_id += 1;
        let number = callbacks.last_id;
        if let Some(entries) = &mut callbacks.entries {
            entries.insert(node.into_node(number, callback));
        }
        Ok(Self(number))
    }

    /// Removes the callback from the list after its calls have ended. Any context, unless this may be the last
    /// reference on a caller whose drop may sleep.
    pub(crate) fn unregister(&self) {
        // Dropped after the lock is released: this may be the last reference on the caller.
        drop(remove(self.0));
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.unregister();
    }
}

fn remove(number: u64) -> Option<Callback> {
    let mut callbacks = CALLBACKS.lock();
    let node = callbacks.entries.as_mut()?.remove_node(&number)?;
    drop(callbacks);
    Some(node.to_key_value().1)
}

/// A module whose exit function has returned.
///
/// # Invariants
///
/// The pointer is valid, and the module's memory has not been freed.
struct Going(*mut module);

impl Going {
    fn name(&self) -> &CStr {
        // SAFETY: By the type invariant; the name is a part of the module, and NUL-terminated.
        unsafe { CStr::from_char_ptr(ffi::kofi_name_of_module(self.0)) }
    }

    /// Returns whether a callback calls the module.
    fn is_called_by(&self, callback: &Callback) -> bool {
        let added = callback.caller.added_functions();
        callback.functions.any_in_module(self) || added.any_in_module(self)
    }

    /// Removes a callback that calls the module from the list, and returns it.
    fn take_callback(&self) -> Option<Callback> {
        let mut callbacks = CALLBACKS.lock();
        let entries = callbacks.entries.as_mut()?;
        let (&number, _) = entries.iter().find(|(_, it)| self.is_called_by(it))?;
        // Under the same lock: a callback that is withdrawn in between would look like the last one.
        let node = entries.remove_node(&number)?;
        drop(callbacks);
        Some(node.to_key_value().1)
    }
}

/// Ends the calls into a module whose exit function has returned, and logs each callback. Waits for calls
/// that are running, so it may sleep.
///
/// # Safety
///
/// `module` is valid, and its memory is not freed before this returns.
#[no_mangle]
unsafe extern "C" fn kofi_module_going(module: *mut module) {
    // INVARIANT: By this function's safety requirement.
    let going = Going(module);
    while let Some(callback) = going.take_callback() {
        pr_warn!(
            "{}: left open by module {}, whose exit function has run: no more calls into it; close the object there\n",
            &*callback.name,
            going.name()
        );
        callback.caller.stop_calls();
    }
    crate::introspect::users::log_module_users(going.name());
}
