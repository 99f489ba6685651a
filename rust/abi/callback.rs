// SPDX-License-Identifier: GPL-2.0

//! Callbacks: functions of other modules that kOFI calls, and the end of the calls when the module goes.
//!
//! A module cannot hold a reference on itself for what its own exit function ends: `delete_module()`
//! refuses a module that has references before it calls that function. So each callback is registered by
//! the address of a function that it calls. When a module has run its exit function, and before its memory
//! is freed, [`kofi_module_goes`] ends the callbacks whose functions lie in that memory.
//!
//! A spinlock guards the list. It is taken in process context only, and is a leaf.

use super::module;
use kernel::{
    fmt,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    str::CString,
    sync::{
        global_lock,
        Arc, //
    },
};

mod ffi {
    use super::*;

    extern "C" {
        pub(super) fn kofi_is_within(module: *const module, address: usize) -> bool;
        pub(super) fn kofi_name_of_module(module: *mut module) -> *const c_char;
    }
}

/// Something that calls functions of another module.
pub(crate) trait Caller: Send + Sync {
    /// Ends the calls: when this returns, no such function runs, and none is called any more. May sleep.
    fn end(&self);
}

/// The address of a function.
#[derive(Clone, Copy)]
pub(crate) struct Function(usize);

impl Function {
    /// Returns the address of the function at `pointer`.
    pub(crate) fn at(pointer: *const ()) -> Self {
        Self(pointer.addr())
    }

    /// Whether the function lies in the memory of a module.
    fn is_within(self, module: &Going) -> bool {
        // SAFETY: By the type invariant of `Going`; only its layout is read.
        unsafe { ffi::kofi_is_within(module.0, self.0) }
    }
}

/// A callback in the list.
struct Callback {
    function: Function,
    /// The name that the log gives it.
    title: CString,
    caller: Arc<dyn Caller>,
}

/// The callbacks by their numbers, and the last number that was given.
struct Callbacks {
    entries: Option<RBTree<u64, Callback>>,
    last: u64,
}

global_lock! {
    // SAFETY: Initialised by `start`, which `Registry` calls before anything is opened.
    unsafe(uninit) static CALLBACKS: SpinLock<Callbacks> = Callbacks { entries: None, last: 0 };
}

/// Makes the list usable.
///
/// # Safety
///
/// Called once, before anything else here.
pub(super) unsafe fn start() {
    // SAFETY: By this function's safety requirement.
    unsafe { CALLBACKS.init() };
    CALLBACKS.lock().entries = Some(RBTree::new());
}

/// Keeps a callback in the list. Dropping it takes the callback out, in process context.
pub(crate) struct Registered(u64);

impl Registered {
    /// Registers calls of `function`, which `caller` ends, under a name for the log. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        function: Function,
        title: fmt::Arguments<'_>,
        caller: Arc<dyn Caller>,
    ) -> Result<Self> {
        let callback = Callback {
            function,
            title: CString::try_from_fmt(title)?,
            caller,
        };
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut callbacks = CALLBACKS.lock();
        callbacks.last += 1;
        let number = callbacks.last;
        if let Some(entries) = &mut callbacks.entries {
            entries.insert(node.into_node(number, callback));
        }
        Ok(Self(number))
    }

    /// Takes the callback out of the list, once its calls have ended. Process context.
    pub(crate) fn withdraw(&self) {
        // Dropped behind the lock: it may be the last reference on the caller.
        drop(take(self.0));
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.withdraw();
    }
}

fn take(number: u64) -> Option<Callback> {
    let mut callbacks = CALLBACKS.lock();
    let node = callbacks.entries.as_mut()?.remove_node(&number)?;
    drop(callbacks);
    Some(node.to_key_value().1)
}

/// A module that has run its exit function.
///
/// # Invariants
///
/// The pointer is valid, and the module's memory is there.
struct Going(*mut module);

impl Going {
    fn name(&self) -> &CStr {
        // SAFETY: By the type invariant; the name is a part of the module, and NUL-terminated.
        unsafe { CStr::from_char_ptr(ffi::kofi_name_of_module(self.0)) }
    }

    /// Takes a callback whose function lies in the module out of the list.
    fn take_callback(&self) -> Option<Callback> {
        let callbacks = CALLBACKS.lock();
        let mut entries = callbacks.entries.as_ref()?.iter();
        let (&number, _) = entries.find(|(_, callback)| callback.function.is_within(self))?;
        drop(callbacks);
        take(number)
    }
}

/// Ends all calls of functions of a module that has run its exit function, and tells the log of each. May
/// sleep: it waits for calls that run.
///
/// # Safety
///
/// `module` is valid, and its memory is not freed before this returns.
#[no_mangle]
unsafe extern "C" fn kofi_module_goes(module: *mut module) {
    // INVARIANT: By this function's safety requirement.
    let going = Going(module);
    while let Some(callback) = going.take_callback() {
        pr_warn!(
            "{}: left open by module {}, whose exit function has run: its calls end now; close it there\n",
            &*callback.title,
            going.name()
        );
        callback.caller.end();
    }
    super::users::report_module(going.name());
}
